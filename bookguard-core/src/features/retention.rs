//! Finds old events whose bodies and attempts need not be kept, a page at a time.
//!
//! A look takes no write turn. Another command prunes what it found, a few hundred events at a time. The position of the
//! looks is kept only in the store and moves in the commit that prunes, so the next look continues there, even after a
//! crash or on another node. It moves back in a commit that adds an event before it. Old events that still wait to be
//! delivered are skipped; the first of them is remembered, and a look can begin there again. Invariant: a look reads a
//! bounded number of rows, wherever it begins.

pub(crate) mod rule;

use crate::engine::change::Sweep;
use crate::engine::command::Envelope;
use crate::error::Error;
use crate::limits;
use crate::model::{EventId, Timestamp};
use crate::service::Service;
use crate::store::retention::OldEvent;

/// Where a look begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Where the last look of any process ended.
    Next,
    /// At the first event that was skipped, or as `Next` if there was none.
    Waiting,
    /// At this event.
    At(EventId),
}

/// The result of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunableEvents {
    /// Events with no delivery waiting.
    pub events: u64,
    /// Attempts to deliver them.
    pub attempts: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Events skipped because one of their deliveries may still be sent.
    pub waiting: u64,
    /// Where the next look begins; `None` if there is no further old event.
    pub next: Option<EventId>,
    found: Vec<OldEvent>,
    prune: PruneEvents,
}

impl PrunableEvents {
    /// The command that prunes what was found and moves the position; `None` if there is nothing to do.
    #[must_use]
    pub fn command(&self, at: Timestamp) -> Option<Envelope<u64>> {
        let idle = self.prune.events.is_empty() && self.prune.from == self.prune.to;
        (!idle).then(|| Envelope::new(at, self.prune.clone()))
    }

    /// A command for each event that was found. None moves the position: see [`Self::pass_over`].
    pub fn one_by_one(&self, at: Timestamp) -> impl Iterator<Item = (OldEvent, Envelope<u64>)> {
        self.found.iter().map(move |event| {
            let prune = PruneEvents {
                before: self.prune.before,
                events: vec![event.event_id],
                from: self.prune.from,
                to: self.prune.from,
            };
            (*event, Envelope::new(at, prune))
        })
    }

    /// What is left to do once its events were pruned one by one: to move the position. Those that could not be pruned count as
    /// waiting.
    #[must_use]
    pub fn pass_over(mut self, left_out: &[EventId]) -> Self {
        self.prune.events.clear();
        let to = &mut self.prune.to;
        to.waiting = to.waiting.into_iter().chain(left_out.iter().copied()).min();
        self
    }
}

/// Deletes the bodies and attempts of old events that a look found to wait for nothing. The reply is the number of events
/// pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PruneEvents {
    /// Only events made before this instant.
    pub(crate) before: Timestamp,
    /// The events to prune; one that has changed since the look is left alone.
    pub(crate) events: Vec<EventId>,
    /// The position before this look.
    pub(crate) from: Sweep,
    /// The position after this look; ignored if another look moved it in between.
    pub(crate) to: Sweep,
}

/// The instant before which events are old at `now`, if events are kept for this many days.
#[must_use]
pub fn old_before(now: Timestamp, days: u32) -> Timestamp {
    now.plus_ms(-i64::from(days) * limits::DAY_MS)
}

/// Looks at a page of the events made before `before`, oldest first. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn look(service: &Service, before: Timestamp, begin: Begin) -> Result<PrunableEvents, Error> {
    service.ask(|reader| {
        let sweep = reader.sweep()?;
        let from = match begin {
            Begin::Next => sweep.next,
            Begin::Waiting => sweep.waiting.unwrap_or(sweep.next),
            Begin::At(event_id) => event_id,
        };
        let rows = limits::EVENTS_LOOKED_AT;
        let seen = reader.old_events(&from, &EventId::earliest(before), rows)?;
        Ok(found(sweep, from, before, &seen))
    })
}

fn found(sweep: Sweep, from: EventId, before: Timestamp, seen: &[OldEvent]) -> PrunableEvents {
    let mut found = PrunableEvents {
        events: 0,
        attempts: 0,
        bytes: 0,
        waiting: 0,
        next: None,
        found: Vec::new(),
        prune: PruneEvents {
            before,
            events: Vec::new(),
            from: sweep,
            to: sweep,
        },
    };
    let (mut waiting, mut next) = (None, from);
    for event in seen {
        if found.prune.events.len() == limits::PRUNED || found.attempts >= limits::ATTEMPTS_PRUNED {
            break;
        }
        next = event.event_id.successor();
        let Some(bytes) = event.bytes else { continue };
        if event.waiting > 0 {
            found.waiting += 1;
            waiting = waiting.or(Some(event.event_id));
            continue;
        }
        found.events += 1;
        found.attempts += event.attempts;
        found.bytes += bytes;
        found.found.push(*event);
        found.prune.events.push(event.event_id);
    }
    let all = seen.last().is_none_or(|last| last.event_id < next);
    let whole = all && seen.len() < limits::EVENTS_LOOKED_AT as usize;
    found.next = (!whole).then_some(next);
    // A look that began elsewhere knows nothing about earlier events.
    if from == sweep.next {
        found.prune.to = Sweep {
            next,
            waiting: sweep.waiting.or(waiting),
        };
    } else if Some(from) == sweep.waiting {
        found.prune.to = Sweep { next, waiting };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Timestamp = Timestamp::EPOCH;

    fn id(n: u64) -> EventId {
        EventId::from_bytes(u128::from(n).to_be_bytes())
    }

    fn event(n: u64, waiting: u64, attempts: u64) -> OldEvent {
        OldEvent {
            event_id: id(n),
            bytes: Some(10),
            waiting,
            attempts,
        }
    }

    fn sweep(next: u64, waiting: Option<u64>) -> Sweep {
        Sweep {
            next: id(next),
            waiting: waiting.map(id),
        }
    }

    #[test]
    fn what_waits_is_passed_over_and_its_first_remembered() {
        let pruned = OldEvent {
            bytes: None,
            ..event(4, 0, 0)
        };
        let seen = [
            event(2, 0, 3),
            event(3, 1, 1),
            pruned,
            event(5, 2, 0),
            event(7, 0, 0),
        ];
        for (begun, from, to) in [
            (sweep(0, None), 0, sweep(8, Some(3))),
            (sweep(2, Some(1)), 2, sweep(8, Some(1))),
            (sweep(9, Some(2)), 2, sweep(8, Some(3))),
            (sweep(9, Some(1)), 2, sweep(9, Some(1))),
        ] {
            let found = found(begun, id(from), BEFORE, &seen);
            assert_eq!((found.events, found.attempts, found.bytes), (2, 3, 20));
            assert_eq!((found.waiting, found.next), (2, None));
            assert_eq!(found.prune.events, [id(2), id(7)]);
            assert_eq!((found.prune.from, found.prune.to), (begun, to), "{begun:?}");
        }
    }

    #[test]
    fn a_look_is_cut_short_where_its_commit_would_be_long() {
        let many: Vec<OldEvent> = (1..=300).map(|n| event(n, 0, 0)).collect();
        let first = found(sweep(0, None), id(0), BEFORE, &many);
        assert_eq!(first.prune.events.len(), limits::PRUNED);
        assert_eq!(first.next, Some(id(limits::PRUNED as u64 + 1)));
        assert_eq!(first.prune.to.next, id(limits::PRUNED as u64 + 1));

        let long = [event(1, 0, limits::ATTEMPTS_PRUNED), event(2, 0, 1)];
        let first = found(sweep(0, None), id(0), BEFORE, &long);
        assert_eq!((first.events, first.next), (1, Some(id(2))));

        let waiting: Vec<OldEvent> = (1..=u64::from(limits::EVENTS_LOOKED_AT))
            .map(|n| event(n, 1, 0))
            .collect();
        let full = found(sweep(0, None), id(0), BEFORE, &waiting);
        assert_eq!((full.events, full.next), (0, Some(id(1_001))));
    }

    #[test]
    fn what_cannot_be_pruned_is_passed_over_like_what_waits() {
        let seen = [event(2, 0, 0), event(3, 0, 0), event(5, 0, 0)];
        for (begun, left_out, to) in [
            (sweep(0, None), &[3, 5][..], sweep(6, Some(3))),
            (sweep(0, Some(2)), &[3], sweep(6, Some(2))),
            (sweep(0, None), &[], sweep(6, None)),
        ] {
            let found = found(begun, begun.next, BEFORE, &seen);
            let singles: Vec<_> = found
                .one_by_one(BEFORE)
                .map(|(old, _)| old.event_id)
                .collect();
            assert_eq!(singles, [id(2), id(3), id(5)]);
            let left_out: Vec<EventId> = left_out.iter().map(|n| id(*n)).collect();
            let passed = found.pass_over(&left_out);
            assert_eq!(passed.prune.events, []);
            assert_eq!((passed.prune.from, passed.prune.to), (begun, to));
        }
    }

    #[test]
    fn nothing_found_is_no_command() {
        let none = found(sweep(5, None), id(5), BEFORE, &[]);
        assert_eq!(none.next, None);
        assert!(none.command(BEFORE).is_none());
        let still = found(sweep(6, Some(5)), id(5), BEFORE, &[event(5, 1, 1)]);
        assert!(still.command(BEFORE).is_none(), "it is as it was");
        let over = found(sweep(5, None), id(5), BEFORE, &[event(5, 1, 1)]);
        assert!(over.command(BEFORE).is_some(), "it is passed over");
    }
}
