//! Counts what happened to a partner lately, and what is open now.
//!
//! Invariant: no query examines more rows than its limit, however much a partner has.

use std::collections::BTreeSet;

use super::conn::args;
use super::keys::{self, keys_where};
use super::read::{Read, Reader};
use crate::engine::change::DeliveryPhase;
use crate::limits::{DELIVERIES_EXAMINED, EVENT_ORDER_MS, KEY_NOTICE_MS, KEYS_PER_PARTNER};
use crate::model::{
    ApiKey, BookingId, DeliveryStatus, EndpointId, EventId, EventType, PartnerId, Timestamp,
};

const BOOKINGS: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM booking WHERE partner_id = $1 AND id >= $2 AND id < $3 LIMIT $4) e";
// A booking's first resolution cancels it; a second one is the decision.
const EVENTS: &str = "SELECT e.id, e.seq, d.endpoint_id, d.phase, CASE WHEN e.type = $1 THEN (SELECT MIN(f.seq) FROM event f \
     WHERE f.booking_id = e.booking_id AND f.type = $1) END FROM event e LEFT JOIN delivery d ON d.event_id = e.id \
     WHERE e.partner_id = $2 AND e.seq < $3 ORDER BY e.seq DESC LIMIT $4";
const WAITING: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM delivery WHERE endpoint_id = $1 AND lease IS NULL AND due_ms IS NOT NULL LIMIT $2) e";

/// The number of rows that are read at a time: more than one event has.
const PIECE: u32 = 500;

/// An event as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedEvent {
    /// When it happened.
    pub at: Timestamp,
    /// Whether it says that a booking was canceled.
    pub is_cancellation: bool,
    /// Its status over all its deliveries.
    pub status: DeliveryStatus,
}

/// A partner's latest events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatestEvents {
    /// The events, newest first.
    pub events: Vec<CountedEvent>,
    /// If further events were not examined: the time after which none of those happened.
    pub unexamined_until: Option<Timestamp>,
}

impl Reader<'_> {
    /// The number of a partner's bookings that were recorded from `from` on and before `until`, `most` at most.
    pub fn bookings_recorded(
        &mut self,
        partner_id: &PartnerId,
        (from, until): (Timestamp, Timestamp),
        most: u32,
    ) -> Read<u64> {
        let [from, until] = [from, until].map(BookingId::earliest);
        self.count(BOOKINGS, args![partner_id, from, until, most])
    }

    /// A partner's events, newest first, back to `since` or until [`DELIVERIES_EXAMINED`] deliveries were examined. `live`
    /// are the partner's endpoints; others are deleted.
    pub fn latest_events(
        &mut self,
        partner_id: &PartnerId,
        since: Timestamp,
        live: &BTreeSet<EndpointId>,
    ) -> Read<LatestEvents> {
        let mut found = LatestEvents::default();
        let (mut before, mut examined) = (i64::MAX, 0);
        loop {
            let resolved = EventType::ResolutionCreated as i64;
            let args = args![resolved, partner_id, before, PIECE];
            let rows = self.all(EVENTS, args)?;
            examined += PIECE;
            let is_full = rows.len() == PIECE as usize;
            let mut events = rows
                .chunk_by(|row, next| row.0.get(1) == next.0.get(1))
                .peekable();
            let mut reached = None;
            while let Some(deliveries) = events.next() {
                let first = &deliveries[0];
                if is_full && events.peek().is_none() && reached.is_some() {
                    // The next piece may have more of its deliveries.
                    break;
                }
                before = first.int(1)?;
                let at = EventId::made_at(&first.id(0)?);
                reached = Some(at);
                let mut phases = Vec::with_capacity(deliveries.len());
                for row in deliveries.iter().filter(|row| !row.is_null(3)) {
                    let phase = DeliveryPhase::from_number(row.int(3)?);
                    let status = phase.map_or(DeliveryStatus::Failed, DeliveryStatus::from);
                    phases.push((status, live.contains(&row.id(2)?)));
                }
                found.events.push(CountedEvent {
                    at,
                    is_cancellation: !first.is_null(4) && first.int(4)? == before,
                    status: DeliveryStatus::of_event(phases),
                });
            }
            let Some(until) = reached.filter(|_| is_full) else {
                return Ok(found);
            };
            let until = until.plus_ms(EVENT_ORDER_MS);
            if until < since {
                return Ok(found);
            }
            if examined >= DELIVERIES_EXAMINED {
                found.unexamined_until = Some(until);
                return Ok(found);
            }
        }
    }

    /// The number of deliveries to an endpoint that wait for an attempt, `most` at most. The index alone has it; whether they
    /// failed before is in their rows, which lie all over the table.
    pub fn waiting_for(&mut self, endpoint_id: &EndpointId, most: u32) -> Read<u64> {
        self.count(WAITING, args![endpoint_id, most])
    }

    /// The number of a partner's keys about whose expiry it must be warned. A key whose end was moved does not count: whoever
    /// rotated or revoked it knows.
    pub fn keys_expiring(&mut self, partner_id: &PartnerId, now: Timestamp) -> Read<u32> {
        let most = KEYS_PER_PARTNER as u64;
        let rows = self.all(
            keys_where!(
                "partner_id = $1 AND revoked_ms IS NULL AND expires_ms > $2 AND expires_ms <= $3 ORDER BY expires_ms LIMIT $4"
            ),
            args![partner_id, now, now.plus_ms(KEY_NOTICE_MS), most],
        )?;
        let mut expiring = 0;
        for row in &rows {
            let Some((_, key)) = keys::read(row, self.seal())? else {
                continue;
            };
            let made: ApiKey = row.json(4)?;
            let is_due = key.notice_at().is_some_and(|notice| notice <= now);
            expiring += u32::from(is_due && made.expires_at == key.expires_at);
        }
        Ok(expiring)
    }
}

#[cfg(all(test, feature = "sqlite", feature = "postgres"))]
mod tests {
    use super::*;
    use crate::seal::Seal;
    use crate::store::Store;
    use crate::store::conn::{Arg, Statement};
    use crate::store::tests::on_every_engine;

    const MINUTE: i64 = 60_000;

    fn minute(seq: i64) -> Timestamp {
        Timestamp::from_ms(1_790_000_000_000 + seq * MINUTE)
    }

    /// The type, the status and the deliveries of the event with this number. Endpoint 3 is deleted.
    fn event(seq: i64) -> (EventType, DeliveryStatus, &'static [(u8, i64)]) {
        use DeliveryStatus::*;
        let (status, deliveries): (_, &[_]) = match seq % 6 {
            0 => (NoEndpoints, &[]),
            1 => (Delivered, &[(1, 1)]),
            2 => (Pending, &[(1, 1), (2, 0)]),
            3 => (Failed, &[(1, 2), (2, 0), (3, 1)]),
            4 => (Delivered, &[(1, 1), (2, 1), (3, 0)]),
            _ => (Failed, &[(1, 0), (2, 0), (3, 0)]),
        };
        let types = EventType::WORDS.len() as i64;
        (
            EventType::WORDS[(seq % types) as usize].1,
            status,
            deliveries,
        )
    }

    /// The rows of events 1 to `last` of partner 1, one a minute, and of one event of partner 2.
    fn rows<'a>(last: i64) -> Vec<Statement<'a>> {
        let bytes = |n: u8| Arg::from(vec![n; 16]);
        let id = |seq: i64| EventId::new(minute(seq), [0; 10]).as_bytes().to_vec();
        let mut rows = Vec::new();
        for partner in [1, 2] {
            rows.push(Statement::new(
                "INSERT INTO partner (id, status, events, policies, put_ms, bookings, bytes, day, day_events, file_bytes, quota, settings, body) \
                 VALUES ($1, 1, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '', '')",
                vec![bytes(partner)],
            ));
        }
        for n in [1, 2, 3] {
            rows.push(Statement::new(
                "INSERT INTO endpoint (id, partner_id, status, failures, body) VALUES ($1, $2, 1, 0, '')",
                vec![bytes(n), bytes(1)],
            ));
        }
        for seq in 1..=last + 1 {
            let (partner, number) = if seq > last { (2, 1) } else { (1, seq) };
            let (event_type, _, deliveries) = event(seq);
            rows.push(Statement::new(
                "INSERT INTO event (id, partner_id, seq, type, retries) VALUES ($1, $2, $3, $4, 0)",
                vec![
                    id(seq).into(),
                    bytes(partner),
                    number.into(),
                    (event_type as i64).into(),
                ],
            ));
            rows.extend(deliveries.iter().map(|(endpoint, phase)| {
                Statement::new(
                    "INSERT INTO delivery (event_id, endpoint_id, phase, attempts, charged) VALUES ($1, $2, $3, 0, 0)",
                    vec![id(seq).into(), bytes(*endpoint), (*phase).into()],
                )
            }));
        }
        rows
    }

    #[test]
    fn the_latest_events_are_found_once_each_as_far_as_the_bound_allows() {
        let live = BTreeSet::from([1, 2].map(|n| EndpointId::from_bytes([n; 16])));
        // On average an event has two deliveries, and every sixth has none, which counts as one.
        let (last, partner_id) = (2_600, PartnerId::from_bytes([1; 16]));
        let expected: Vec<_> = (1..=last)
            .rev()
            .map(|seq| CountedEvent {
                at: minute(seq),
                // They are of no booking.
                is_cancellation: false,
                status: event(seq).1,
            })
            .collect();
        on_every_engine(|database| {
            let store = Store::open(database, true).unwrap();
            let mut conn = store.writer().unwrap();
            conn.begin(&[]).unwrap();
            conn.commit(&rows(last)).unwrap();
            drop(conn);
            let seal = Seal::derive(&[7; 32]);
            let mut reader = Reader::new(store.reader().unwrap(), &seal, None);
            let mut latest = |partner_id, since| {
                let found = reader
                    .latest_events(partner_id, minute(since), &live)
                    .unwrap();
                (found.events, found.unexamined_until)
            };
            // Everything since then, and what was read together with it.
            for since in [last + 1, last - 100, last - 200, last - 1_000] {
                let (events, until) = latest(&partner_id, since);
                assert_eq!(until, None, "{since}");
                assert!(events.len() as i64 >= last - since, "{since}");
                assert_eq!(events, expected[..events.len()], "{since}");
            }
            // More than may be examined.
            let (events, until) = latest(&partner_id, 0);
            assert!((2_000..2_600).contains(&events.len()), "{}", events.len());
            assert_eq!(events, expected[..events.len()]);
            let reached = events.last().unwrap().at;
            assert_eq!(until, Some(reached.plus_ms(EVENT_ORDER_MS)));
            let (foreign, until) = latest(&PartnerId::from_bytes([2; 16]), 0);
            assert_eq!((foreign.len(), until), (1, None));
        });
    }
}
