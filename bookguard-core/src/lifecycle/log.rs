//! The log itself: after a loss was accepted it goes on under a new name, and its first entry under it says so.

use super::Decided;
use super::chain::Chain;
use crate::change::Change;
use crate::command::{NewLog, Reply};
use crate::error::Error;
use crate::ledger::LeafKind;
use crate::log::{Continuation, Found};
use crate::model::Timestamp;
use crate::work::Work;

/// Errors: `nothing_to_accept`, `rollback_changed`.
pub(super) fn go_on(work: &Work, at: Timestamp, new: &NewLog) -> Decided {
    let Some(rollback) = &work.rollback else {
        return Err(Error::conflict(
            "nothing_to_accept",
            format!(
                "There is no loss to accept: log {} holds all that was published of it.",
                work.origin
            ),
        ));
    };
    if *rollback != new.accepted {
        return Err(Error::conflict(
            "rollback_changed",
            format!(
                "The database changed since the loss was looked at: now {rollback}. Look again before you accept."
            ),
        ));
    }
    let continuation = Continuation {
        origin: new.origin.clone(),
        vkey: new.vkey.clone(),
        found: Found {
            head: rollback.found.clone(),
            vkey: work.vkey.clone(),
        },
        seen: rollback.seen.clone(),
        at,
    };
    let mut chain = Chain::of_the_log(work, new.stream, at, &new.seed);
    let entry = chain.append(LeafKind::LogContinued, continuation.fields())?;
    let changes = vec![
        Change::Entry(Box::new(entry)),
        Change::LogRenamed {
            origin: new.origin.clone(),
            vkey: new.vkey.clone(),
        },
    ];
    Ok((changes, Reply::LogContinued(Box::new(continuation))))
}
