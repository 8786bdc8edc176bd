//! The faults between us and the server, and their messages, which name the way out.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};

use super::address::Address;
use crate::store::conn::StoreError;

/// Why a flight failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server refused a statement. The session remains usable.
    Refused(Box<DbError>),
    /// The connection or the protocol failed. The session is over.
    Lost(String),
    /// The server cannot be reached, accepts no connections at present, or does not answer; trying again later may
    /// help. If there was a session, it is over.
    Unreached(String),
    /// The server refuses us, and will still do so later.
    Barred(String),
    /// An error that was converted already.
    Reported(StoreError),
}

impl Fault {
    /// No answer came within `patience`. A caller that tries again waits as long again.
    pub fn silence(patience: Duration) -> Self {
        Self::Unreached(format!("said nothing for {} s", patience.as_secs()))
    }

    /// Whether the session remains usable.
    pub fn leaves_session(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Converts the fault into the store's error.
    pub fn into_error(self, address: &Address) -> StoreError {
        match self {
            Self::Refused(error) => refused(&error, address),
            Self::Lost(why) => {
                StoreError::Failed(format!("the connection to {address} was lost: {why}"))
            }
            Self::Unreached(why) => StoreError::Unreachable(format!("{address} {why}")),
            Self::Barred(why) => StoreError::Failed(format!("{address} {why}")),
            Self::Reported(error) => error,
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(refusal) = error.as_db_error() {
            let code = refusal.code();
            // Class 57P: the server ends the session, whatever was asked. Class 08: it did not understand the message.
            if code.code().starts_with("57P")
                || code.code().starts_with("08")
                || code.code() == "25P03"
            {
                return match *code {
                    SqlState::CANNOT_CONNECT_NOW => {
                        Self::Unreached(format!("takes no connections yet: {}", refusal.message()))
                    }
                    _ => Self::Lost(refusal.message().to_owned()),
                };
            }
            return Self::Refused(Box::new(refusal.clone()));
        }
        let cause = error.source().map(ToString::to_string);
        let shown = cause.unwrap_or_else(|| error.to_string());
        match error.to_string().as_str() {
            // The client's own words for its kinds of error, which it exposes in no other way.
            "error connecting to server" => {
                let denied = error
                    .source()
                    .and_then(|cause| cause.downcast_ref::<io::Error>())
                    .is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied);
                if denied && shown == "database does not allow writes" {
                    return Self::Unreached(
                        "has no server that takes writes at present: every server that answers is a standby"
                            .to_owned(),
                    );
                }
                Self::Unreached(format!(
                    "cannot be reached: {shown}; check the address, and that the server runs and accepts connections from here"
                ))
            }
            "error performing TLS handshake" => Self::Barred(format!(
                "does not speak TLS as the address asks for: {shown}; see sslmode and sslrootcert"
            )),
            "authentication error" | "invalid configuration" => Self::Barred(format!(
                "does not let this user in: {shown}; check user and password of the address"
            )),
            "timeout waiting for server" => Self::Unreached("did not answer in time".to_owned()),
            _ => Self::Lost(shown),
        }
    }
}

fn refused(error: &DbError, address: &Address) -> StoreError {
    let says = error.message();
    match *error.code() {
        SqlState::DISK_FULL => StoreError::Full,
        SqlState::LOCK_NOT_AVAILABLE | SqlState::T_R_DEADLOCK_DETECTED => StoreError::Busy,
        SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly,
        // Moving the head from where it does not stand makes its size null.
        SqlState::NOT_NULL_VIOLATION
            if (error.table(), error.column()) == (Some("head"), Some("size")) =>
        {
            StoreError::HeadMoved
        }
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
            StoreError::Corrupt(says.to_owned())
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::Failed(format!(
                "{address} does not let this user in: {says}; check user and password of the address"
            ))
        }
        SqlState::INVALID_CATALOG_NAME => StoreError::Failed(format!(
            "{address}: {says}; make it first, for example with createdb"
        )),
        SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Failed(format!(
            "{address} does not allow this user what is needed: {says}; GRANT it, or let a user with more rights start once"
        )),
        SqlState::TOO_MANY_CONNECTIONS => StoreError::Unreachable(format!(
            "{address} takes no more connections: {says}; each node needs up to 10, see max_connections"
        )),
        _ => StoreError::Failed(format!("{address}: {says} ({})", error.code().code())),
    }
}
