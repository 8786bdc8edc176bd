//! Reads events: one event, the events of a booking, and a partner's log in the order of its numbers.
//!
//! Invariants: an event is shown with its deliveries and attempts as of the same moment. The log has no gap: a number
//! is visible only if all smaller numbers are.

use std::collections::{BTreeSet, HashMap};

use sha2::{Digest as _, Sha256};

use super::conn::{Row, StoreError, args};
use super::endpoints;
use super::load::{content, deliveries, delivery, event_type};
use super::read::{Read, Reader};
use crate::engine::change::{Content, DeliveryPhase, DeliveryState};
use crate::limits::{ATTEMPTS_SHOWN, EVENTS_EXAMINED, MOVED_MS};
use crate::model::{
    BookingId, DeliveryProgress, DeliveryStatus, EndpointId, EventId, EventType, PartnerId,
    Timestamp,
};
use crate::webhook::Attempt;

/// A query for events with the columns that [`event`] takes.
macro_rules! events_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, partner_id, seq, booking_id, type, body, pruned_ms, digest, retries FROM event WHERE ",
            $rest
        )
    };
}
pub(super) use events_where;

const OF_PARTNER: &str = events_where!("partner_id = $1 AND seq > $2 ORDER BY seq LIMIT $3");
const OF_PARTNER_BACK: &str =
    events_where!("partner_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3");
const OF_BOOKING: &str = events_where!("booking_id = $1 AND seq > $2 ORDER BY seq LIMIT $3");
const OF_BOOKING_BACK: &str =
    events_where!("booking_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3");
const OF_ALL: &str = events_where!("id < $1 ORDER BY id DESC LIMIT $2");
const DELIVERIES: &str = deliveries!(
    ", n.status, n.failures, n.failing_ms, n.probe_ms, n.unverified_ms, n.body, n.deleted_ms \
     FROM delivery d JOIN endpoint n ON n.id = d.endpoint_id WHERE d.event_id IN ({})"
);
/// With CROSS JOIN, SQLite begins with the deliveries, and reads no more than the attempts it returns.
const LAST_ATTEMPTS: &str = "SELECT a.event_id, a.endpoint_id, a.number, a.body FROM delivery d CROSS JOIN attempt a \
     WHERE d.event_id IN ({}) AND a.event_id = d.event_id AND a.endpoint_id = d.endpoint_id AND a.number = d.attempts";
const LATEST_ATTEMPTS: &str = "SELECT a.event_id, a.endpoint_id, a.number, a.body FROM delivery d CROSS JOIN attempt a \
     WHERE d.event_id IN ({}) AND a.event_id = d.event_id AND a.endpoint_id = d.endpoint_id AND a.number > d.attempts - 20";
const _: () = assert!(ATTEMPTS_SHOWN == 20, "as the statement says");

const STANDINGS: &str = "SELECT e.id, e.pruned_ms, d.endpoint_id, d.phase, d.attempts, d.settled_leaf \
     FROM event e LEFT JOIN delivery d ON d.event_id = e.id WHERE e.booking_id = $1 AND e.type < 3";
const ENDPOINTS: &str = "SELECT id, deleted_ms, body FROM endpoint WHERE id IN ({})";

/// The number of events examined at a time if not all of them are shown.
const PIECE: u32 = 128;

/// An event as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// The event's id.
    pub event_id: EventId,
    /// The partner it belongs to.
    pub partner_id: PartnerId,
    /// Its number in the partner's log.
    pub seq: u64,
    /// The booking it is about, if any.
    pub booking_id: Option<BookingId>,
    /// Its type.
    pub event_type: EventType,
    /// Manual retries so far.
    pub retries: u32,
    /// Its body, or what is left of it.
    pub content: Content,
    /// Its deliveries.
    pub deliveries: Vec<StoredDelivery>,
}

/// A delivery as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDelivery {
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// The endpoint's address now.
    pub url: String,
    /// When the endpoint got it, if not from the start.
    pub moved_at: Option<Timestamp>,
    /// Whether the endpoint is deleted.
    pub is_endpoint_deleted: bool,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// When the delivery itself is due. If the endpoint has not accepted anything yet, the delivery then waits for its
    /// turn and is sent later.
    pub due: Option<Timestamp>,
    /// What happens next with it.
    pub progress: DeliveryProgress,
    /// The attempts that were read, oldest first; the last one is the delivery's last.
    pub attempts: Vec<Attempt>,
}

/// Which attempts of deliveries to read: each can have hundreds, with the beginning of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempts {
    /// None; the delivery itself says how it ended.
    None,
    /// The last one of each delivery.
    Last,
    /// The latest [`ATTEMPTS_SHOWN`] of each delivery.
    Latest,
}

/// Selects which of a partner's events a page shows.
#[derive(Debug, Clone)]
pub struct EventFilter {
    /// The partner.
    pub partner_id: PartnerId,
    /// Only events of this booking, which must belong to the partner.
    pub booking_id: Option<BookingId>,
    /// Only events of this type.
    pub event_type: Option<EventType>,
    /// Only events in this status.
    pub status: Option<DeliveryStatus>,
}

/// Where a page of a partner's log begins, and which way it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPlace {
    /// After this number, oldest first.
    After(u64),
    /// Before this number, newest first.
    Before(u64),
}

/// A page of a partner's log.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    /// The events, ordered by number.
    pub events: Vec<StoredEvent>,
    /// The number of the last event that was examined.
    pub through: u64,
    /// Whether more events may follow.
    pub has_more: bool,
}

impl StoredEvent {
    /// The status of the event over all its deliveries.
    pub fn status(&self) -> DeliveryStatus {
        let deliveries = self.deliveries.iter();
        DeliveryStatus::of_event(
            deliveries.map(|one| (one.state.phase.into(), !one.is_endpoint_deleted)),
        )
    }
}

impl StoredDelivery {
    /// The attempts that were read, each with its number.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &Attempt)> {
        let read = self.attempts.len() as u32;
        (self.state.attempts.saturating_sub(read) + 1..).zip(&self.attempts)
    }

    /// The address that the last attempt went to, or, before the first attempt, the endpoint's. `None` if no attempt that was
    /// read says so, and the endpoint's address changed since the last attempt, or may have.
    pub fn receiver(&self, event_id: &EventId) -> Option<&str> {
        let last = self.attempts.last();
        if let Some(url) = last.and_then(|last| last.url.as_deref()) {
            return Some(url);
        }
        // No attempt was made before the event happened.
        let began = last.map_or(event_id.made_at().ms(), |last| last.started_at);
        let is_there = |moved_at: Timestamp| moved_at.ms() + MOVED_MS <= began;
        let is_same = self.state.attempts == 0 || self.moved_at.is_none_or(is_there);
        is_same.then_some(self.url.as_str())
    }
}

impl Reader<'_> {
    /// A booking's events, oldest first, with their deliveries. A booking has a handful.
    pub fn events_of(
        &mut self,
        booking_id: &BookingId,
        attempts: Attempts,
    ) -> Read<Vec<StoredEvent>> {
        let all = args![booking_id, 0_u64, u32::MAX];
        let events = self.each(OF_BOOKING, all, event)?;
        self.whole(events, attempts)
    }

    /// A digest of the state of the deliveries of a booking's events that its evidence shows: those of the first three
    /// types. It changes whenever their description changes. The delivery counts its attempts, so no attempts are read.
    pub fn standing_of(&mut self, booking_id: &BookingId) -> Read<[u8; 32]> {
        let rows = self.all(STANDINGS, args![booking_id])?;
        let mut endpoints = BTreeSet::new();
        let mut parts = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut part = row.bytes::<16>(0)?.to_vec();
            if !row.is_null(2) {
                let endpoint: [u8; 16] = row.bytes(2)?;
                part.extend(endpoint);
                endpoints.insert(endpoint);
            }
            for index in [1, 3, 4, 5] {
                part.extend(row.maybe_int(index)?.unwrap_or(-1).to_be_bytes());
            }
            parts.push(part);
        }
        let endpoints: Vec<_> = endpoints.into_iter().collect();
        for row in self.keyed(ENDPOINTS, &endpoints)? {
            let mut part = row.bytes::<16>(0)?.to_vec();
            part.extend(row.maybe_int(1)?.unwrap_or(-1).to_be_bytes());
            part.extend(row.text(2)?.bytes());
            parts.push(part);
        }
        parts.sort_unstable();
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Ok(digest.finalize().into())
    }

    /// One event with its deliveries.
    pub fn event(&mut self, event_id: &EventId, attempts: Attempts) -> Read<Option<StoredEvent>> {
        let events = self.each(events_where!("id = $1"), args![event_id], event)?;
        Ok(self.whole(events, attempts)?.pop())
    }

    /// A partner's events from `from` on, in its direction.
    ///
    /// Events are examined in pieces, and at most [`EVENTS_EXAMINED`] per page. So a filter that matches little costs
    /// as much as one that matches everything, but its pages may be short.
    pub fn event_log(
        &mut self,
        filter: &EventFilter,
        from: LogPlace,
        limit: u32,
    ) -> Read<EventPage> {
        let open = filter.event_type.is_none() && filter.status.is_none();
        let piece = if open { limit + 1 } else { PIECE };
        let mut page = EventPage {
            events: Vec::new(),
            through: from.number(),
            has_more: true,
        };
        let mut examined = 0;
        while page.has_more && page.events.len() < limit as usize && examined < EVENTS_EXAMINED {
            let mut events = self.log_piece(filter, from.moved(page.through), piece)?;
            examined += piece;
            page.has_more = events.len() == piece as usize;
            if filter.status.is_some() {
                events = self.with_deliveries(events)?;
            }
            for event in events {
                if page.events.len() == limit as usize {
                    page.has_more = true;
                    break;
                }
                page.through = event.seq;
                if filter.takes(&event) {
                    page.events.push(event);
                }
            }
        }
        page.events = self.whole(page.events, Attempts::Last)?;
        Ok(page)
    }

    /// All partners' events of a type and in a status, newest first, below `before`, and where the next page begins if
    /// there may be one. Events are examined as in [`Self::event_log`].
    pub fn all_events(
        &mut self,
        event_type: Option<EventType>,
        status: Option<DeliveryStatus>,
        before: Option<EventId>,
        limit: u32,
    ) -> Read<(Vec<StoredEvent>, Option<EventId>)> {
        let mut before = before.unwrap_or(EventId::from_bytes([0xff; 16]));
        let (mut found, mut examined) = (Vec::new(), 0);
        let next = loop {
            let rows = self.all(OF_ALL, args![&before, PIECE])?;
            let events = rows.iter().map(event).collect::<Read<Vec<_>>>()?;
            let mut events = self.with_deliveries(events)?.into_iter();
            for event in events.by_ref() {
                before = event.event_id;
                let wanted = event_type.is_none_or(|wanted| wanted == event.event_type)
                    && status.is_none_or(|wanted| wanted == event.status());
                if wanted {
                    found.push(event);
                    if found.len() == limit as usize {
                        break;
                    }
                }
            }
            examined += PIECE;
            if rows.len() < PIECE as usize && events.len() == 0 {
                break None;
            }
            if found.len() == limit as usize || examined >= EVENTS_EXAMINED {
                break Some(before);
            }
        };
        Ok((self.whole(found, Attempts::Last)?, next))
    }

    /// The number of a partner's latest event; 0 if it has none.
    pub fn last_event(&mut self, partner_id: &PartnerId) -> Read<u64> {
        let sql = "SELECT events FROM partner WHERE id = $1";
        self.count(sql, args![partner_id])
    }

    fn log_piece(
        &mut self,
        filter: &EventFilter,
        from: LogPlace,
        rows: u32,
    ) -> Read<Vec<StoredEvent>> {
        let (of_booking, of_partner) = match from {
            LogPlace::After(_) => (OF_BOOKING, OF_PARTNER),
            LogPlace::Before(_) => (OF_BOOKING_BACK, OF_PARTNER_BACK),
        };
        let number = from.number();
        match &filter.booking_id {
            Some(booking_id) => self.each(of_booking, args![booking_id, number, rows], event),
            None => self.each(of_partner, args![&filter.partner_id, number, rows], event),
        }
    }

    /// Adds deliveries, with these attempts.
    fn whole(&mut self, events: Vec<StoredEvent>, attempts: Attempts) -> Read<Vec<StoredEvent>> {
        let mut events = self.with_deliveries(events)?;
        let sql = match attempts {
            Attempts::None => return Ok(events),
            Attempts::Last => LAST_ATTEMPTS,
            Attempts::Latest => LATEST_ATTEMPTS,
        };
        let sent = |event: &&StoredEvent| !event.deliveries.is_empty();
        let keys = keys(events.iter().filter(sent));
        let mut attempts: HashMap<(EventId, EndpointId), Vec<(i64, Attempt)>> = HashMap::new();
        for row in self.keyed(sql, &keys)? {
            let of = attempts.entry((row.id(0)?, row.id(1)?)).or_default();
            of.push((row.int(2)?, row.json(3)?));
        }
        for event in &mut events {
            for delivery in &mut event.deliveries {
                let of = attempts.remove(&(event.event_id, delivery.endpoint_id));
                let mut of = of.unwrap_or_default();
                of.sort_by_key(|(number, _)| *number);
                delivery.attempts = of.into_iter().map(|(_, attempt)| attempt).collect();
            }
        }
        Ok(events)
    }

    /// Replaces the deliveries of the events, without attempts.
    fn with_deliveries(&mut self, mut events: Vec<StoredEvent>) -> Read<Vec<StoredEvent>> {
        let mut by_event: HashMap<EventId, Vec<StoredDelivery>> = HashMap::new();
        for row in self.keyed(DELIVERIES, &keys(&events))? {
            let of = by_event.entry(row.id(0)?).or_default();
            of.push(stored_delivery(&row)?);
        }
        for event in &mut events {
            event.deliveries = by_event.remove(&event.event_id).unwrap_or_default();
            event
                .deliveries
                .sort_by_key(|delivery| delivery.endpoint_id);
        }
        Ok(events)
    }
}

impl LogPlace {
    fn number(self) -> u64 {
        match self {
            Self::After(number) | Self::Before(number) => number,
        }
    }

    /// The same direction, from `number` on.
    fn moved(self, number: u64) -> Self {
        match self {
            Self::After(_) => Self::After(number),
            Self::Before(_) => Self::Before(number),
        }
    }
}

impl EventFilter {
    fn takes(&self, event: &StoredEvent) -> bool {
        event.partner_id == self.partner_id
            && self
                .event_type
                .is_none_or(|wanted| wanted == event.event_type)
            && self.status.is_none_or(|wanted| wanted == event.status())
    }
}

fn keys<'e>(events: impl IntoIterator<Item = &'e StoredEvent>) -> Vec<[u8; 16]> {
    let events = events.into_iter();
    events.map(|event| *event.event_id.as_bytes()).collect()
}

fn stored_delivery(row: &Row) -> Result<StoredDelivery, StoreError> {
    let endpoint = endpoints::read(row, 10)?;
    let mut state = delivery(row, 2)?;
    let own = state.due.filter(|_| endpoint.unverified_since.is_some());
    let is_endpoint_deleted = row.maybe_int(16)?.is_some();
    let is_over = state.due.is_none() || is_endpoint_deleted;
    if is_endpoint_deleted && state.phase != DeliveryPhase::Delivered {
        // The endpoint is deleted, so nobody is left to deliver to.
        state = DeliveryState {
            phase: DeliveryPhase::Failed,
            due: None,
            lease: None,
            ..state
        };
    } else if !endpoint.enabled && state.lease.is_none() {
        // The endpoint is disabled. The delivery waits until it is enabled, and is not due until then.
        state.due = None;
    } else if state.lease.is_none() {
        // A delivery to a suspended endpoint is not tried before the endpoint's next probe.
        state.due = state.due.max(state.due.and(endpoint.next_probe_at));
    }
    let progress = match (state.lease, state.due) {
        _ if is_over => DeliveryProgress::Ended,
        (Some(_), _) => DeliveryProgress::UnderWay,
        (None, Some(_)) => DeliveryProgress::Scheduled,
        (None, None) => DeliveryProgress::WaitingForEndpoint,
    };
    Ok(StoredDelivery {
        endpoint_id: row.id(1)?,
        due: state.due.and(own.or(state.due)),
        progress,
        url: endpoint.url,
        moved_at: endpoint.moved_at,
        is_endpoint_deleted,
        state,
        attempts: Vec::new(),
    })
}

fn event(row: &Row) -> Read<StoredEvent> {
    Ok(StoredEvent {
        event_id: row.id(0)?,
        partner_id: row.id(1)?,
        seq: row.size(2)?,
        booking_id: row.maybe_id(3)?,
        event_type: event_type(row.int(4)?)?,
        retries: u32::try_from(row.size(8)?).unwrap_or(u32::MAX),
        content: content(row, 5)?,
        deliveries: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::fixture::{attempt, delivery as state, id};

    #[test]
    fn a_delivery_names_the_address_of_its_last_attempt_and_none_that_it_cannot_know() {
        const OLD: &str = "https://old.example/";
        const NEW: &str = "https://new.example/";
        let tried = |at: i64, url: Option<&str>| {
            let mut attempt = attempt(None);
            attempt.started_at = at;
            attempt.url = url.map(str::to_owned);
            attempt
        };
        let later = MOVED_MS + 1;
        // (attempts made, those that were read, when the address was changed, what is named), for an event of the moment 0
        for (made, attempts, moved_ms, named) in [
            (0, vec![], None, Some(NEW)),
            (0, vec![], Some(1), Some(NEW)),
            (1, vec![tried(0, Some(OLD))], Some(1), Some(OLD)),
            (
                2,
                vec![tried(0, Some(OLD)), tried(2, Some(NEW))],
                Some(1),
                Some(NEW),
            ),
            // The attempt says nothing, or is pruned.
            (1, vec![tried(0, None)], None, Some(NEW)),
            (1, vec![tried(0, None)], Some(1), None),
            (1, vec![tried(MOVED_MS, None)], Some(1), None),
            (1, vec![tried(later, None)], Some(1), Some(NEW)),
            (1, vec![], None, Some(NEW)),
            (1, vec![], Some(1), None),
            (1, vec![], Some(-MOVED_MS), Some(NEW)),
        ] {
            let told = format!("{made} {attempts:?} {moved_ms:?}");
            let stored = StoredDelivery {
                endpoint_id: id(7),
                url: NEW.to_owned(),
                moved_at: moved_ms.map(Timestamp::from_ms),
                is_endpoint_deleted: false,
                state: DeliveryState {
                    attempts: made,
                    ..state(DeliveryPhase::Delivered, None, None)
                },
                due: None,
                progress: DeliveryProgress::Ended,
                attempts,
            };
            assert_eq!(stored.receiver(&id(5)), named, "{told}");
        }
    }
}
