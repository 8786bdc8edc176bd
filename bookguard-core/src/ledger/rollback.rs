//! The head of a log that was published or seen, and how a database can fail to go on from it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Hash;

/// A head of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedHead {
    /// The log's name.
    pub origin: String,
    /// Entries in it.
    pub size: u64,
    /// The root over them.
    pub root: Hash,
}

/// Why the head a database has is not one that the head last seen is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackCause {
    /// It has fewer entries.
    Behind,
    /// It has as many or more, and among the first others.
    Forked,
    /// It is of another log, which does not go on from the one seen.
    OtherLog,
}

/// A database that does not hold what was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollback {
    /// The head found in the database.
    pub found: PublishedHead,
    /// The head last seen.
    pub seen: PublishedHead,
    /// Why the two do not go together.
    pub cause: RollbackCause,
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, seen, cause } = self;
        match cause {
            RollbackCause::Behind => write!(
                f,
                "the database holds {} entries of log {}, but {} were published",
                found.size, found.origin, seen.size
            ),
            RollbackCause::Forked => write!(
                f,
                "the first {} entries that the database holds of log {} are not the {0} that were published",
                seen.size, found.origin
            ),
            RollbackCause::OtherLog => write!(
                f,
                "the database holds log {} with {} entries, but log {} with {} was published",
                found.origin, found.size, seen.origin, seen.size
            ),
        }
    }
}
