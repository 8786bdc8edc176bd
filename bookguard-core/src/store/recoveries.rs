//! Recoveries in the store: how they are written, loaded for a batch, and queried.
//!
//! A recovery's document keeps the request; its progress is in columns of its own.

use super::conn::{Row, Statement, StoreError, args};
use super::load::{Loading, deliveries, delivery, event_type};
use super::read::{Read, Reader};
use crate::engine::batch::{BatchState, LoggedEvent};
use crate::limits::{EVENT_ORDER_MS, RECOVERED};
use crate::model::{EventId, PartnerId, Recovery, RecoveryId, Timestamp};

/// A query for recoveries with the columns that [`read`] takes.
macro_rules! recoveries_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, partner_id, body, reached, examined, recovered, deliveries, unclaimed, expired, finished_ms FROM recovery WHERE ",
            $rest
        )
    };
}
#[cfg(test)]
pub(super) use recoveries_where;

/// Several recoveries.
pub(super) const SOME: &str = recoveries_where!("id IN ({})");

/// The running recoveries of one partner.
pub(super) const RUNNING: &str = recoveries_where!("partner_id = $1 AND finished_ms IS NULL");

/// The recoveries of one partner with an id from a given one on.
pub(super) const SINCE: &str = recoveries_where!("partner_id = $1 AND id >= $2");

/// All recoveries, in pages by id.
pub(super) const ALL: &str = recoveries_where!("id > $1 ORDER BY id LIMIT $2");

/// All recoveries of one partner.
pub(super) const OF_PARTNER: &str = recoveries_where!("partner_id = $1");

const LOG: &str = "SELECT partner_id, seq, id, type, pruned_ms FROM event WHERE partner_id = $1 AND seq > $2 AND seq <= $3";

const DELIVERIES: &str = deliveries!(
    ", e.partner_id, e.seq FROM event e JOIN delivery d ON d.event_id = e.id \
     WHERE e.partner_id = $1 AND e.seq > $2 AND e.seq <= $3"
);

/// Asks for the events after `after` that one step of a recovery examines, and for their deliveries. [`read_logged`]
/// and [`read_delivery`] read the rows.
pub(super) fn step(partner_id: &PartnerId, after: u64) -> [Statement<'static>; 2] {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let through = after.saturating_add(i64::try_from(RECOVERED).unwrap_or(i64::MAX));
    [LOG, DELIVERIES].map(|sql| Statement::new(sql, args![*partner_id, after, through]))
}

/// The least id of a recovery made at or after an instant.
pub(super) fn first_id(at: Timestamp) -> RecoveryId {
    RecoveryId::new(at, [0; 10])
}

pub(super) fn read_recovery(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.recoveries.insert(row.id(0)?, (row.id(1)?, read(row)?));
    Ok(())
}

pub(super) fn read_logged(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let event = LoggedEvent {
        event_id: row.id(2)?,
        event_type: event_type(row.int(3)?)?,
        is_pruned: !row.is_null(4),
        endpoints: Vec::new(),
    };
    work.log.insert((row.id(0)?, row.size(1)?), event);
    Ok(())
}

pub(super) fn read_delivery(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let (event_id, endpoint_id) = (row.id(0)?, row.id(1)?);
    if let Some(event) = work.log.get_mut(&(row.id(10)?, row.size(11)?)) {
        event.endpoints.push(endpoint_id);
    }
    work.deliveries
        .insert((event_id, endpoint_id), delivery(row, 2)?);
    Ok(())
}

/// A recovery from its columns.
pub(crate) fn read(row: &Row) -> Result<Recovery, StoreError> {
    let asked: Recovery = row.json(2)?;
    let now = Recovery {
        reached_seq: row.size(3)?,
        examined: row.size(4)?,
        recovered: row.size(5)?,
        deliveries: row.size(6)?,
        no_endpoints: row.size(7)?,
        expired: row.size(8)?,
        ..asked.unbegun()
    };
    Ok(match row.maybe_int(9)? {
        Some(ms) => now.finished(Timestamp::from_ms(ms)),
        None => now,
    })
}

/// Adds a recovery.
pub(super) fn added<'a>(partner_id: &'a PartnerId, recovery: &'a Recovery) -> Statement<'a> {
    let asked = serde_json::to_string(&recovery.clone().unbegun())
        .expect("a recovery is plain data, which always serializes");
    Statement::new(
        "INSERT INTO recovery (id, partner_id, reached, examined, recovered, deliveries, unclaimed, expired, finished_ms, body) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        args![
            &recovery.recovery_id,
            partner_id,
            recovery.reached_seq,
            recovery.examined,
            recovery.recovered,
            recovery.deliveries,
            recovery.no_endpoints,
            recovery.expired,
            recovery.finished_at,
            asked,
        ],
    )
}

/// Stores a recovery's progress.
pub(super) fn updated(recovery: &Recovery) -> Statement<'_> {
    Statement::new(
        "UPDATE recovery SET reached = $1, examined = $2, recovered = $3, deliveries = $4, unclaimed = $5, expired = $6, finished_ms = $7 \
         WHERE id = $8",
        args![
            recovery.reached_seq,
            recovery.examined,
            recovery.recovered,
            recovery.deliveries,
            recovery.no_endpoints,
            recovery.expired,
            recovery.finished_at,
            &recovery.recovery_id,
        ],
    )
}

/// A running recovery and its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underway {
    /// The partner.
    pub partner_id: PartnerId,
    /// The recovery.
    pub recovery_id: RecoveryId,
    /// The number of the last event it has examined.
    pub reached: u64,
}

impl Reader<'_> {
    /// A partner's recoveries, newest first, below `before`.
    pub fn recoveries(
        &mut self,
        partner_id: &PartnerId,
        before: Option<RecoveryId>,
        rows: u32,
    ) -> Read<Vec<Recovery>> {
        let before = before.unwrap_or(RecoveryId::from_bytes([0xff; 16]));
        let sql = recoveries_where!("partner_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
        self.each(sql, args![partner_id, &before, rows], read)
    }

    /// One recovery and its owner.
    pub fn recovery(&mut self, recovery_id: &RecoveryId) -> Read<Option<(PartnerId, Recovery)>> {
        let sql = recoveries_where!("id = $1");
        self.single(sql, args![recovery_id], |row| Ok((row.id(1)?, read(row)?)))
    }

    /// Running recoveries, ordered by partner: those of partners with an id greater than `after`, then from the first on, so that
    /// none comes before the others each time.
    pub fn recoveries_under_way(&mut self, after: &PartnerId, rows: u32) -> Read<Vec<Underway>> {
        let [first, last] = [0, 0xff].map(|byte| PartnerId::from_bytes([byte; 16]));
        let mut found = self.underway([after, &last], rows)?;
        let left = rows.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        if left > 0 {
            found.extend(self.underway([&first, after], left)?);
        }
        Ok(found)
    }

    fn underway(&mut self, [after, to]: [&PartnerId; 2], rows: u32) -> Read<Vec<Underway>> {
        let sql = "SELECT partner_id, id, reached FROM recovery WHERE finished_ms IS NULL AND partner_id > $1 AND partner_id <= $2 \
                   ORDER BY partner_id LIMIT $3";
        self.each(sql, args![after, to, rows], |row| {
            Ok(Underway {
                partner_id: row.id(0)?,
                recovery_id: row.id(1)?,
                reached: row.size(2)?,
            })
        })
    }

    /// A number in the partner's log up to which every event happened before `at`, provided that no event happened more
    /// than [`EVENT_ORDER_MS`] after an event with a greater number. Every event that happened at least that long
    /// before `at` has a number up to it.
    pub fn last_event_before(&mut self, partner_id: &PartnerId, at: Timestamp) -> Read<u64> {
        let at = at.plus_ms(-EVENT_ORDER_MS);
        let last = self.last_event(partner_id)?;
        halved(last, |seq| {
            let sql = "SELECT id FROM event WHERE partner_id = $1 AND seq = $2";
            let event_id: Option<EventId> =
                self.single(sql, args![partner_id, seq], |row| row.id(0))?;
            Ok(event_id.is_some_and(|event_id| event_id.made_at() < at))
        })
    }
}

/// The last number from 1 to `last` for which `is_before` holds, 0 if there is none. The numbers for which it holds
/// must come first. Takes twenty queries for a million numbers.
fn halved(last: u64, mut is_before: impl FnMut(u64) -> Read<bool>) -> Read<u64> {
    let (mut before, mut rest) = (0, last);
    while before < rest {
        let middle = before + (rest - before).div_ceil(2);
        if is_before(middle)? {
            before = middle;
        } else {
            rest = middle - 1;
        }
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_halved_until_the_last_number_before_is_found() {
        for last in [0_u64, 1, 2, 3, 100, 1_000_000] {
            for found in [0, 1, 2, last / 2, last.saturating_sub(1), last] {
                let mut asked = 0;
                let halved = halved(last, |seq| {
                    asked += 1;
                    assert!((1..=last).contains(&seq));
                    Ok(seq <= found)
                });
                assert_eq!(halved, Ok(found.min(last)), "{found} of {last}");
                assert!(asked <= 20, "{asked}");
            }
        }
    }

    #[test]
    fn times_that_are_out_of_order_by_less_than_the_slack_hide_no_event() {
        // The minutes are out of order by at most nine. Wherever the search begins, it must skip no event at that time
        // or later.
        let minutes: Vec<i64> = (0..60).map(|n| n + [0, 5, -4, 3][n as usize % 4]).collect();
        for since in -20..80 {
            let from = since - EVENT_ORDER_MS / 60_000;
            let after = halved(60, |seq| Ok(minutes[seq as usize - 1] < from)).unwrap();
            assert!(
                minutes[..after as usize].iter().all(|at| *at < since),
                "{since}"
            );
        }
    }
}
