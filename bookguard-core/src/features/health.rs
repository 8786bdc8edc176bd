//! `GET /v1/health`.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::Timestamp;
use crate::operation::{Action, Operation, Request, Route, read};
use crate::service::Service;
use crate::session::{Access, Session};

/// Reports whether the service works: 200 only while the store answers and accepts writes.
pub struct GetHealth;

/// The answer while the service works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// The service's current time.
    pub timestamp: Timestamp,
}

/// Whether the store answers and takes writes. Reads the head; may block.
///
/// # Errors
/// Why it cannot do its work.
pub fn can_work(service: &Service) -> Result<(), Error> {
    works(service).map_err(for_probes)
}

/// The same refusal for whoever asks how the service is: nothing was sent that could be kept, and an operator may read it.
fn for_probes(error: Error) -> Error {
    let message = match &*error.code {
        "ledger_moved" => {
            "The service's ledger was moved to another database: serve that one, or take the move back with `bookguard transfer \
             --reopen`."
        }
        "ledger_rolled_back" => {
            "The service's database lacks part of what its ledger has published, and takes no writes: bring back the database \
             that holds it, or accept the loss with `bookguard ledger accept-rollback`."
        }
        "schema_newer" => {
            "The service's database was upgraded for a newer version of the service than this node runs: run that one here."
        }
        "storage_full" => "The service's disk is full, and no writes are taken: free some space.",
        "storage_read_only" => {
            "The service's database is read-only at present, and takes no writes: check the permissions of the file, its folder \
             and its file system, or the database server."
        }
        _ => return error,
    };
    Error {
        message: message.to_owned(),
        ..error
    }
}

fn works(service: &Service) -> Result<(), Error> {
    service.require_writer()?;
    let mut reader = service.reader()?;
    let head = reader.head().map_err(|e| service.fault(&e))?;
    if head.moved_to.is_some() {
        return Err(Error::ledger_moved());
    }
    if service.publish(&mut reader, &head)?.is_some() {
        return Err(Error::ledger_rolled_back());
    }
    service.storage().not_ready().map_or(Ok(()), Err)
}

/// The size of the log, and whether the database has every entry that this node has seen published. May block.
///
/// # Errors
/// `unavailable` if the store does not answer.
pub fn is_sound(service: &Service) -> Result<(u64, bool), Error> {
    let mut reader = service.reader()?;
    let head = reader.head().map_err(|e| service.fault(&e))?;
    let lost = service.publish(&mut reader, &head)?;
    Ok((head.head.size, lost.is_none()))
}

impl Operation for GetHealth {
    const ROUTE: Route = Route {
        id: "getHealth",
        path: "/v1/health",
        access: Access::Open,
        refusals: &[503],
        tag: "Service",
        summary: "Health and readiness",
        description: "Answers 200 while the store answers and takes writes, and 503 otherwise: `unavailable`, `ledger_moved`, \
                      `ledger_rolled_back`, `erasures_pending`, `storage_full`, `storage_read_only`, `storage_failing`, `schema_newer`, or \
                      `checkpoints_failing` while writes are taken but the database file cannot be brought up to date with them.",
        ..Route::GET
    };
    type Output = Health;

    fn prepare(_: &Session, _: &Request) -> Result<Action<Health>, Error> {
        Ok(read::<Self>(|session| {
            can_work(&session.service)?;
            Ok(Health {
                status: "ok".to_owned(),
                timestamp: session.service.clock().now(),
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_told_the_cause_and_not_what_to_do_with_a_write() {
        for error in [
            Error::ledger_moved(),
            Error::ledger_rolled_back(),
            Error::schema_newer(),
            Error::storage_full(),
            Error::storage_read_only(),
        ] {
            let code = error.code.clone();
            assert!(error.message.contains("Idempotency-Key"), "{code}");
            let told = for_probes(error);
            assert_eq!(told.code, code);
            let is_of_a_write = told.message.contains("Idempotency-Key");
            assert!(!is_of_a_write, "{code}: {}", told.message);
        }
    }
}
