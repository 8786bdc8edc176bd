//! When an authority may be asked, and what becomes of its answer.

use crate::engine::batch::BatchState;
use crate::engine::chain;
use crate::engine::change::{Change, Stamping};
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::evidence::Anchor;
use crate::features::timestamps::{NoteTrouble, RecordStamp, TakeTurn};
use crate::input::cut;
use crate::ledger::LeafKind;
use crate::limits::{
    STAMP_IDLE_MS, STAMP_OLD_MS, STAMP_PAUSE_MAX_MS, STAMP_PAUSE_MS, STAMP_TROUBLE_CHARS,
};
use crate::model::Timestamp;

/// Whether the pause after the last question is over. A longer one than there is was computed by a clock that was ahead.
pub(crate) fn is_time(stamping: &Stamping, now: Timestamp, interval_ms: i64) -> bool {
    let longest = now.plus_ms(interval_ms.max(STAMP_PAUSE_MAX_MS));
    stamping.next <= now || stamping.next > longest
}

/// Whether there is something to stamp in a log of `size` entries after the `last` stamp, given by its own size and its time: an entry
/// besides the one that commits to that stamp. A log at rest is stamped now and then, which renews its stamps.
pub(crate) fn is_wanted(size: u64, last: Option<(u64, Timestamp)>, now: Timestamp) -> bool {
    match last {
        None => size > 0,
        Some((stamped, time)) => {
            size > stamped.saturating_add(1) || time.plus_ms(STAMP_IDLE_MS) <= now
        }
    }
}

/// Whether a log whose last stamp was made at `last` is no longer stamped: even one at rest would have a later one.
#[must_use]
pub fn has_stopped(last: Timestamp, now: Timestamp) -> bool {
    last.plus_ms(STAMP_OLD_MS) < now
}

/// The pause after an authority was asked `asked` times without a stamp.
fn pause(asked: u32) -> i64 {
    let doubled = STAMP_PAUSE_MS.saturating_mul(1_i64 << asked.saturating_sub(1).min(16));
    doubled.min(STAMP_PAUSE_MAX_MS)
}

impl Command for TakeTurn {
    type Reply = Option<u32>;

    fn needs(&self, needs: &mut Needs) {
        needs.stamping = true;
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Option<u32>> {
        if !is_time(&batch.stamping, at, self.interval_ms) {
            return Ok((Vec::new(), None));
        }
        let asked = batch.stamping.asked.saturating_add(1);
        let stamping = Stamping {
            next: at.plus_ms(pause(asked)),
            asked,
            trouble: batch.stamping.trouble.clone(),
        };
        Ok((
            vec![Change::StampingChanged(Box::new(stamping))],
            Some(asked),
        ))
    }
}

impl Command for RecordStamp {
    type Reply = bool;

    fn needs(&self, needs: &mut Needs) {
        needs.stamping = true;
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<bool> {
        let is_new = batch.stamped.is_none_or(|size| size < self.of.size);
        if !is_new || batch.origin != self.of.origin || batch.size < self.of.size {
            return Ok((Vec::new(), false));
        }
        let anchor = Anchor {
            at,
            response_hash: Anchor::hash(&self.response),
            tree_size: self.of.size,
        };
        let fact = (LeafKind::LogAnchored, &anchor);
        let entry = chain::of_the_log(batch, self.stream, at, &self.seed, fact)?;
        let stamping = Stamping {
            next: at.plus_ms(self.interval_ms),
            asked: 0,
            trouble: None,
        };
        let stamped = self.stored(entry.index);
        let changes = vec![
            Change::Entry(Box::new(entry)),
            Change::Stamped(Box::new(stamped)),
            Change::StampingChanged(Box::new(stamping)),
        ];
        Ok((changes, true))
    }
}

impl Command for NoteTrouble {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.stamping = true;
    }

    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<()> {
        let stamping = Stamping {
            trouble: Some(cut(&self.why, STAMP_TROUBLE_CHARS)),
            ..batch.stamping.clone()
        };
        Ok((vec![Change::StampingChanged(Box::new(stamping))], ()))
    }
}

#[cfg(test)]
mod tests;
