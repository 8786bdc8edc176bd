//! When an epoch is due, and whether one that was made may still be recorded.

use std::sync::Arc;

use crate::engine::batch::BatchState;
use crate::engine::chain;
use crate::engine::change::{Change, MapWritten};
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::evidence::LoggedEpoch;
use crate::features::epochs::RecordEpoch;
use crate::model::Timestamp;

/// Intervals after which an epoch is overdue.
const OVERDUE: i64 = 5;

/// Whether it is time for an epoch: there are as many entries as one covers (`most`), or the first entry of a booking, written at
/// `waiting`, is an interval old. An entry from the future counts as old: the clock that wrote it was ahead.
pub(crate) fn is_time(
    (entries, most): (u64, u64),
    waiting: Timestamp,
    now: Timestamp,
    interval_ms: i64,
) -> bool {
    let is_old = waiting.plus_ms(interval_ms) <= now;
    entries >= most || is_old || waiting > now.plus_ms(interval_ms)
}

/// Whether an entry of a booking that was written at `waiting` has waited too long for an epoch: a server records one every
/// interval, and several did not come.
#[must_use]
pub fn is_overdue(waiting: Timestamp, now: Timestamp, interval_ms: i64) -> bool {
    waiting.plus_ms(interval_ms.saturating_mul(OVERDUE)) < now
}

impl Command for RecordEpoch {
    type Reply = bool;

    fn needs(&self, needs: &mut Needs) {
        needs.epoch = true;
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<bool> {
        let latest = batch.epoch.as_ref().map(|latest| latest.place.index);
        if latest != self.after || batch.origin != self.origin || batch.size < self.epoch.tree_size
        {
            return Ok((Vec::new(), false));
        }
        let entry = chain::of_the_map(batch, at, &self.epoch)?;
        let written = MapWritten {
            epoch: LoggedEpoch {
                place: entry.place(),
                seq: entry.seq,
                epoch: self.epoch.clone(),
            },
            pages: Arc::clone(&self.pages),
        };
        let changes = vec![
            Change::Entry(Box::new(entry)),
            Change::Mapped(Box::new(written)),
        ];
        Ok((changes, true))
    }
}

#[cfg(test)]
mod tests;
