//! Finds old events, and remembers how far they were examined.
//!
//! Ids are ordered by time, so a search continues where the last one ended and never meets what it has left behind. A node whose clock
//! is far behind adds an event there; then the search goes back to it. The rule (`features::retention::rule`) judges what is
//! found, under the write turn.

use super::conn::{Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::engine::change::Sweep;
use crate::model::EventId;

/// How far the events were examined.
pub(super) const SWEEP: &str = "SELECT next, waiting FROM sweep WHERE id = 1";

const LOOK: &str = "SELECT e.id, e.pruned_ms, COALESCE(LENGTH(e.body), 0), \
     CASE WHEN e.pruned_ms IS NULL THEN (SELECT COUNT(*) FROM delivery d JOIN endpoint n ON n.id = d.endpoint_id \
     WHERE d.event_id = e.id AND d.due_ms IS NOT NULL AND n.deleted_ms IS NULL) \
     + (SELECT COUNT(*) FROM hold h WHERE h.booking_id = e.booking_id AND h.released_ms IS NULL) ELSE 0 END, \
     CASE WHEN e.pruned_ms IS NULL THEN (SELECT COUNT(*) FROM attempt a WHERE a.event_id = e.id) ELSE 0 END \
     FROM event e WHERE e.id >= $1 AND e.id < $2 AND LENGTH(e.id) = 16 ORDER BY e.id LIMIT $3";

/// An event as the search finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldEvent {
    /// The event.
    pub event_id: EventId,
    /// Bytes of the body; `None` if it is pruned.
    pub bytes: Option<u64>,
    /// The number of its deliveries that may still be sent, and of the holds that keep it.
    pub waiting: u64,
    /// The number of its stored attempts.
    pub attempts: u64,
}

impl Reader<'_> {
    /// How far the events were examined.
    pub fn sweep(&mut self) -> Read<Sweep> {
        let row = self.first(SWEEP, vec![])?;
        row.map_or(Ok(Sweep::default()), |row| sweep(&row))
    }

    /// The events from `from` up to but not including `to`, ordered by id. One whose id cannot be read is left out, so that it does not keep
    /// others from being pruned.
    pub fn old_events(&mut self, from: &EventId, to: &EventId, rows: u32) -> Read<Vec<OldEvent>> {
        self.each(LOOK, args![from, to, rows], old_event)
    }
}

fn old_event(row: &Row) -> Result<OldEvent, StoreError> {
    Ok(OldEvent {
        event_id: row.id(0)?,
        bytes: match row.maybe_int(1)? {
            None => Some(row.size(2)?),
            Some(_) => None,
        },
        waiting: row.size(3)?,
        attempts: row.size(4)?,
    })
}

pub(super) fn sweep(row: &Row) -> Result<Sweep, StoreError> {
    Ok(Sweep {
        next: row.id(0)?,
        waiting: row.maybe_id(1)?,
    })
}

pub(super) fn read_sweep(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.sweep = Some(sweep(row)?);
    Ok(())
}

/// Stores how far the events were examined.
pub(super) fn swept(sweep: &Sweep) -> Statement<'_> {
    Statement::new(
        "INSERT INTO sweep (id, next, waiting) VALUES (1, $1, $2) \
         ON CONFLICT (id) DO UPDATE SET next = excluded.next, waiting = excluded.waiting",
        args![&sweep.next, sweep.waiting.as_ref()],
    )
}

/// Has the search meet events that are added now, of which this is the first, wherever it has come to.
pub(super) fn met_again(first: &EventId) -> Statement<'_> {
    Statement::new(
        "UPDATE sweep SET next = $1, waiting = CASE WHEN waiting < $1 THEN waiting END WHERE id = 1 AND next > $1",
        args![first],
    )
}
