//! The head of a log that was published or seen, and the ways a database can fail to continue it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Hash;
pub use crate::text::entries;

/// A head of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedHead {
    /// The log's name.
    pub origin: String,
    /// Number of entries.
    pub size: u64,
    /// The root of their tree.
    pub root: Hash,
}

impl PublishedHead {
    /// The head if no more is known than that at least this many entries were published, such as after a restore with a guard
    /// that knows no more. No tree has this root, so no database continues the head.
    #[must_use]
    pub fn at_least(origin: &str, size: u64) -> Self {
        Self {
            origin: origin.to_owned(),
            size,
            root: Hash::ZERO,
        }
    }

    /// Whether it says only how many entries were published at least.
    #[must_use]
    pub fn is_at_least(&self) -> bool {
        self.root == Hash::ZERO
    }
}

/// The note of what a database lacks, extended by `heads`: the greatest head of each log. `None` if `noted` covers them already.
#[must_use]
pub fn longer_note(noted: &[PublishedHead], heads: &[PublishedHead]) -> Option<Vec<PublishedHead>> {
    let mut lacking = noted.to_vec();
    for head in heads {
        let known = lacking.iter_mut().find(|known| known.origin == head.origin);
        match known {
            Some(known) if known.size < head.size => known.clone_from(head),
            Some(_) => {}
            None => lacking.push(head.clone()),
        }
    }
    (lacking != noted).then_some(lacking)
}

/// Why a database's head does not continue the head last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackCause {
    /// It has fewer entries.
    Behind,
    /// It has as many entries or more, but different ones among the first.
    Forked,
    /// It belongs to another log, which does not continue the one seen.
    OtherLog,
    /// Unknown: what remembered the head last seen was lost with the database. `seen` is then the head that was found; or, if the
    /// list of erasures shows the loss, the least that was published according to the list, under the name that it gives.
    GuardLost,
}

impl RollbackCause {
    /// Whether a database that is merely an older copy would show this.
    #[must_use]
    pub fn is_earlier(self) -> bool {
        matches!(self, Self::Behind | Self::GuardLost)
    }
}

/// A database that lacks what was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollback {
    /// The head found in the database.
    pub found: PublishedHead,
    /// The head last seen.
    pub seen: PublishedHead,
    /// How the two conflict.
    pub cause: RollbackCause,
    /// Whether this is known from a note in the database: by another node, or by the command that restored it.
    pub is_noted: bool,
}

impl Rollback {
    /// What to rule out before the loss is accepted: with another service's guard, accepting it would end a log that is whole.
    pub fn doubt(&self) -> Option<&'static str> {
        match self.cause {
            RollbackCause::OtherLog if !self.is_noted => Some(
                "If this guard belongs to another service, nothing is lost: name this service's own guard with --guard-file.",
            ),
            RollbackCause::GuardLost if self.seen.origin != self.found.origin => Some(
                "If the list of erasures belongs to another service, nothing is lost: name this service's own guard with \
                 --guard-file, and keep its list beside it.",
            ),
            _ => None,
        }
    }

    /// What the operator can do, in sentences.
    pub fn way_out(&self) -> String {
        let begin = match self.doubt() {
            Some(doubt) => format!("{doubt} Otherwise, bring"),
            None => "Bring".to_owned(),
        };
        format!(
            "{begin} back the database that holds them; or accept the loss and continue as a new log with `bookguard ledger \
             accept-rollback`."
        )
    }
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            found,
            seen,
            cause,
            is_noted,
        } = self;
        match cause {
            RollbackCause::Behind => write!(
                f,
                "the database holds {} of log {}, but {} were published",
                entries(found.size),
                found.origin,
                seen.size
            ),
            RollbackCause::Forked => write!(
                f,
                "the first {} that the database holds of log {} are not what was published",
                entries(seen.size),
                found.origin
            ),
            RollbackCause::OtherLog if *is_noted => write!(
                f,
                "{} of log {} were published, and the database holds another log, {} with {}",
                entries(seen.size),
                seen.origin,
                found.origin,
                entries(found.size)
            ),
            RollbackCause::OtherLog => write!(
                f,
                "the guard belongs to log {}, of which {} were published, and the database holds another log, {} with {}",
                seen.origin,
                entries(seen.size),
                found.origin,
                entries(found.size)
            ),
            RollbackCause::GuardLost => {
                write!(
                    f,
                    "the database holds {} of log {}, and what was published after that is not known",
                    entries(found.size),
                    found.origin
                )?;
                match seen.origin == found.origin {
                    true => Ok(()),
                    false => write!(f, "; the list of erasures is of log {}", seen.origin),
                }
            }
        }
    }
}
