//! What a service is opened with, and why it cannot be.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::outbox::Outbox;
use crate::key_file::LedgerKeySource;
use crate::model::Quota;
use crate::store::Database;

/// Who may register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegistrationMode {
    /// Anybody, with credentials at once.
    #[default]
    Open,
    /// Anybody, with credentials after the administrator's approval.
    Approval,
    /// Nobody.
    Closed,
}

impl RegistrationMode {
    /// The modes with their words.
    pub const WORDS: [(&'static str, Self); 3] = [
        ("open", Self::Open),
        ("approval", Self::Approval),
        ("closed", Self::Closed),
    ];
}

/// Why webhooks may not go to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRefused {
    /// `invalid_url` or `blocked_address`.
    pub code: &'static str,
    /// What was refused.
    pub message: String,
    /// Which setting would allow it, or what to send.
    pub fix: String,
}

/// Says where webhooks may go.
pub type EndpointRule = Arc<dyn Fn(&str) -> Result<String, AddressRefused> + Send + Sync>;

/// Why a service does not open: one sentence for the operator that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// The database's server cannot be reached at present: it may be starting, or a standby may be taking over.
    Unreachable(String),
    /// What no waiting mends.
    Refused(String),
}

impl std::ops::Deref for OpenError {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Unreachable(why) | Self::Refused(why) => why,
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

/// How a service is opened.
#[derive(Clone)]
pub struct ServiceConfig {
    /// The database.
    pub db: Database,
    /// Whether to make the database when it is not there.
    pub create: bool,
    /// Where the ledger key is; in the file [`crate::key_file::default_path`] names when not given.
    pub ledger_key: Option<LedgerKeySource>,
    /// The address partners reach the service at, without a slash at its end; evidence addresses begin with it.
    pub public_url: String,
    /// Who may register.
    pub registration: RegistrationMode,
    /// Whether bookings without a policy of their own get one from the library.
    pub library_policies: bool,
    /// Where time comes from.
    pub clock: Clock,
    /// Where deliveries go; without one they wait in the store for a process that has a courier.
    pub outbox: Option<Arc<Outbox>>,
    /// Says where webhooks may go: the address to keep, or why not.
    pub endpoint_rule: EndpointRule,
    /// Whether an endpoint, and one at another address, gets little until its receiver has accepted a delivery.
    pub verifies_endpoints: bool,
    /// The file that remembers what was last published; beside the ledger key when not given.
    pub guard_file: Option<PathBuf>,
    /// Bytes that must be free on the disk of a database file for anything new to be taken in; 0 for no such limit.
    pub min_free_disk: u64,
    /// The quota of partners that have none of their own.
    pub quota: Quota,
    /// Told the cause of every fault of ours.
    pub report: fn(&str),
    /// Added to every commit: what a slower disk would cost. Zero outside of measurements.
    pub commit_delay: Duration,
}

impl ServiceConfig {
    /// A database of its own, made if it is not there, for one process with everything beside it and no limits.
    pub fn of(db: Database) -> Self {
        Self {
            db,
            create: true,
            ledger_key: None,
            public_url: "http://127.0.0.1".to_owned(),
            registration: RegistrationMode::Open,
            library_policies: true,
            clock: Clock::System,
            outbox: None,
            endpoint_rule: Arc::new(|url| Ok(url.to_owned())),
            verifies_endpoints: true,
            guard_file: None,
            min_free_disk: 0,
            quota: Quota::GENEROUS,
            report: |line| eprintln!("{line}"),
            commit_delay: Duration::ZERO,
        }
    }
}
