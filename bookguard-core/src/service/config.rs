//! What a service is opened with, and why it cannot be.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::engine::outbox::Outbox;
use crate::engine::writer::BatchObserver;
use crate::key_file::LedgerKeySource;
use crate::ledger::trust::TrustPolicy;
use crate::model::Quota;
use crate::store::{Database, StoreError};

/// Who may register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegistrationMode {
    /// Anybody. Credentials are issued at once.
    #[default]
    Open,
    /// Anybody. Credentials are issued after the administrator's approval.
    Approval,
    /// Nobody.
    Closed,
}

impl RegistrationMode {
    /// The modes and their words.
    pub const WORDS: [(&'static str, Self); 3] = [
        ("open", Self::Open),
        ("approval", Self::Approval),
        ("closed", Self::Closed),
    ];
}

/// Why webhooks may not be sent to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRefused {
    /// `invalid_url` or `blocked_address`.
    pub code: &'static str,
    /// The address that was refused, and why.
    pub message: String,
    /// The setting that would allow it, or what to send instead.
    pub fix: String,
}

/// Decides where webhooks may be sent: returns the address to store.
pub type EndpointRule = Arc<dyn Fn(&str) -> Result<String, AddressRefused> + Send + Sync>;

/// Why a service does not open, in one sentence that tells the operator what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// The database's server cannot be reached at present. It may be starting, or a standby may be taking over.
    Unreachable(String),
    /// The database has the schema of an older program, and this one was not asked to upgrade it.
    Older(String),
    /// The database file has another name, a hard link.
    HardLinked(String),
    /// Anything that waiting does not fix.
    Refused(String),
}

impl OpenError {
    /// Why this database cannot be used, with its name.
    pub fn of(db: &Database, error: &StoreError) -> Self {
        let (db, mut why) = (db.to_string(), error.to_string());
        if !why.contains(&db) {
            why = format!("{db}: {why}");
        }
        match error {
            StoreError::Unreachable(_) => Self::Unreachable(why),
            StoreError::Older { .. } => Self::Older(why),
            StoreError::HardLinked(_) => Self::HardLinked(why),
            _ => Self::Refused(why),
        }
    }
}

impl std::ops::Deref for OpenError {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Unreachable(why)
            | Self::Older(why)
            | Self::HardLinked(why)
            | Self::Refused(why) => why,
        }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl std::error::Error for OpenError {}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// A setting that applies, in words for the operator. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct SettingInForce {
    /// Its name.
    pub name: String,
    /// Its value, or what applies without one.
    pub value: String,
    /// Where it came from: `flag`, `environment`, `file` or `default`; `demo` if `serve --demo` chose it.
    pub from: String,
}

/// The configuration of a service.
#[derive(Clone)]
pub struct ServiceConfig {
    /// The database.
    pub db: Database,
    /// Whether to create the database if it does not exist.
    pub create: bool,
    /// Whether to upgrade the database if it has the schema of an older program.
    pub upgrade: bool,
    /// Where the ledger key is; in the file [`crate::key_file::default_path`] names when not given.
    pub ledger_key: Option<LedgerKeySource>,
    /// The address at which partners reach the service, without a slash at its end. Evidence addresses begin with it.
    pub public_url: String,
    /// The address at which the operator reaches its console, without a slash at its end; `None` if there is no operator
    /// interface.
    pub operator_url: Option<String>,
    /// Who may register.
    pub registration: RegistrationMode,
    /// Whether bookings without their own policy get one from the library.
    pub library_policies: bool,
    /// The source of time.
    pub clock: Clock,
    /// Receives deliveries for the courier. Without an outbox, deliveries wait in the store for a process with a
    /// courier.
    pub outbox: Option<Arc<Outbox>>,
    /// Decides where webhooks may be sent.
    pub endpoint_rule: EndpointRule,
    /// Whether a new endpoint, or one with a new address, gets few deliveries until its receiver has accepted one.
    pub verifies_endpoints: bool,
    /// The guard's file, which remembers the head last published. The default is beside the ledger key.
    pub guard_file: Option<PathBuf>,
    /// The bytes that must be free on the disk of a database file to accept anything new; 0 for no such limit.
    pub min_free_disk: u64,
    /// The quota of partners without one of their own.
    pub quota: Quota,
    /// Delays every commit, to measure what a slower disk would cost. Zero outside of measurements.
    pub commit_delay: Duration,
    /// The folder in which backups are kept, if it is known.
    pub backup_folder: Option<PathBuf>,
    /// The witnesses that cosign the log's checkpoints, and the quorum that packets show if it is there.
    pub witnesses: Option<Arc<TrustPolicy>>,
    /// The settings with which the program began, for the operator to see.
    pub settings: Vec<SettingInForce>,
    /// Is told how each batch of the writer ended.
    pub batches: BatchObserver,
}

impl ServiceConfig {
    /// A configuration for one process with its own database, created if it does not exist, all files beside it, and no
    /// limits.
    pub fn of(db: Database) -> Self {
        Self {
            db,
            create: true,
            upgrade: true,
            ledger_key: None,
            public_url: "http://127.0.0.1".to_owned(),
            operator_url: None,
            registration: RegistrationMode::Open,
            library_policies: true,
            clock: Clock::System,
            outbox: None,
            endpoint_rule: Arc::new(|url| Ok(url.to_owned())),
            verifies_endpoints: true,
            guard_file: None,
            min_free_disk: 0,
            quota: Quota::GENEROUS,
            commit_delay: Duration::ZERO,
            backup_folder: None,
            witnesses: None,
            settings: Vec::new(),
            batches: Arc::new(drop),
        }
    }
}
