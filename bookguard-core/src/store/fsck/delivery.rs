//! Checks an event's deliveries and their attempts. A ledger entry records how a delivery ended and its last attempt.
//! Everything else must agree with the rules of delivery.

use sha2::{Digest as _, Sha256};

use super::event::CheckedEvent;
use super::page::{BookingRows, Receiver};
use super::{CLOCK_SLACK_MS, Findings, Notes, settled, spelled};
use crate::engine::change::{Content, DeliveryPhase, DeliveryState};
use crate::evidence::Notification;
use crate::evidence::facts::Logged;
use crate::limits::{LEASE_MS, OUR_FAULTS_FREE_MS, RESPONSE_HEAD_BYTES};
use crate::model::{EndpointId, EndpointStatus, EventId, EventType, Timestamp};
use crate::store::conn::{Row, StoreError};
use crate::store::{load, projection};
use crate::webhook::{Attempt, FailureClass, Schedule};

/// Checks that an event goes where it must, and checks each delivery against its attempts. `settled` holds the ledger's
/// entries about how the deliveries ended.
pub(super) fn check_all(
    event: &CheckedEvent,
    settled: &[&Logged<Notification>],
    belongings: &BookingRows<'_>,
    findings: &mut Findings,
) {
    let mut met: Vec<EndpointId> = Vec::new();
    for row in belongings.deliveries(&event.event_id) {
        match read(row) {
            Ok((endpoint_id, state)) => {
                met.push(endpoint_id);
                let of_it = |n: &&&Logged<Notification>| n.fact.endpoint_id == endpoint_id;
                let settled = settled.iter().filter(of_it).copied().collect();
                let delivery = CheckedDelivery {
                    event,
                    endpoint_id,
                    state,
                    settled,
                };
                delivery.check(row, belongings, findings);
            }
            Err(why) => {
                let place = format!("a delivery of event {}", event.event_id);
                findings.add("delivery", place, format!("its row cannot be read: {why}"));
            }
        }
    }
    for Logged { place, fact } in settled {
        if !met.contains(&fact.endpoint_id) {
            let index = place.index;
            let detail = format!("it is missing, but entry {index} says how it ended");
            let place = named(&event.event_id, &fact.endpoint_id);
            findings.add("delivery", place, detail);
        }
    }
    for receiver in belongings.receivers(&event.partner_id) {
        if receiver.must_have(event) && !met.contains(&receiver.endpoint_id) {
            findings.not_sent(event, receiver);
        }
    }
    if met.is_empty() && event.event_type.recorded().is_none() {
        let detail =
            "it goes nowhere, and events of its type are made only for endpoints that list it";
        findings.add("event", format!("event {}", event.event_id), detail);
    }
    for row in belongings.attempts(&event.event_id) {
        if row
            .id(1)
            .is_ok_and(|endpoint_id| !met.contains(&endpoint_id))
        {
            let place = format!("an attempt to deliver event {}", event.event_id);
            findings.add("attempt", place, "there is no delivery it belongs to");
        }
    }
}

/// The name of a delivery in findings.
fn named(event_id: &EventId, endpoint_id: &EndpointId) -> String {
    format!("delivery of event {event_id} to endpoint {endpoint_id}")
}

/// A stored delivery, with the ledger's entries about how it ended.
struct CheckedDelivery<'a> {
    event: &'a CheckedEvent,
    endpoint_id: EndpointId,
    state: DeliveryState,
    settled: Vec<&'a Logged<Notification>>,
}

impl CheckedDelivery<'_> {
    fn check(&self, row: &Row, belongings: &BookingRows<'_>, findings: &mut Findings) {
        let Self { event, state, .. } = self;
        let place = named(&event.event_id, &self.endpoint_id);
        let said = match event.event_type.recorded() {
            Some(_) => settled::state(*state, self.settled.last().copied()),
            // The ledger says nothing of it.
            None => DeliveryState {
                settled_leaf: None,
                ..*state
            },
        };
        let said = projection::delivery(&event.event_id, &self.endpoint_id, &said);
        findings.compare("delivery", &place, row, &projection::DELIVERY, &said);
        let mut notes = findings.of("delivery", place);
        let mut receivers = belongings.receivers(&event.partner_id).iter();
        let Some(receiver) = receivers.find(|r| r.endpoint_id == self.endpoint_id) else {
            return notes.fault("the endpoint is not one of the event's partner");
        };
        self.goes_there(receiver, &mut notes);
        let attempts = attempts(belongings, event, &self.endpoint_id, &mut notes);
        self.begins_anew(receiver, &attempts, belongings, &mut notes);
        // Nobody is left to deliver to, so what waited is over without an outcome.
        let dropped = receiver.deleted_at.is_some() && state.due.or(state.since).is_none();
        let cut_short = match &event.content {
            Content::Whole(_) => {
                let now = belongings.now;
                judge(
                    event,
                    state,
                    receiver,
                    &attempts,
                    (now, dropped),
                    &mut notes,
                )
            }
            Content::Pruned(_) => {
                judge_pruned(event, state, &attempts, &mut notes);
                dropped
            }
        };
        settled::compare(event, &attempts, &self.settled, &mut notes);
        let recorded = event.event_type.recorded().is_some();
        let over = state.phase != DeliveryPhase::Pending && state.due.is_none();
        // If its event is erased, a waiting delivery ends when that is pruned, and has no outcome either.
        let ended = event.content.body().is_none() && event.is_erased;
        if recorded && over && self.settled.is_empty() && !cut_short && !ended {
            notes.fault("it is over, and the ledger does not say how it ended");
        }
    }

    /// Checks that the endpoint is one the event could go to.
    fn goes_there(&self, receiver: &Receiver, notes: &mut Notes<'_>) {
        let Self { event, state, .. } = self;
        // The types that it took before they were changed are no longer known.
        let known = receiver.since.is_none_or(|at| event.clearly_after(at));
        if known && !receiver.subscribes(event.event_type) {
            let detail = format!("the endpoint takes no {}", event.event_type.word());
            match receiver.since {
                None => notes.fault(detail),
                Some(_) => notes.doubt(detail),
            }
        }
        let by_itself = event.retries == 0;
        if event.clearly_before(receiver.created_at) && by_itself && state.begun.is_none() {
            notes.doubt(
                "the endpoint was made after the event, and nobody retried or recovered the event",
            );
        }
        if receiver
            .deleted_at
            .is_some_and(|at| event.clearly_after(at))
        {
            notes.doubt("the endpoint was deleted before the event");
        }
        if receiver.is_off_since_then(event) && by_itself {
            notes.doubt("the endpoint was disabled before the event");
        }
    }

    /// Checks that the delivery's schedule could restart when the row says it did.
    fn begins_anew(
        &self,
        receiver: &Receiver,
        attempts: &[Attempt],
        belongings: &BookingRows<'_>,
        notes: &mut Notes<'_>,
    ) {
        let Some(begun) = self.state.begun else {
            return;
        };
        let detail =
            format!("its schedule restarts at {begun}, when nobody retried or recovered the event");
        match self
            .event
            .may_begin_anew(begun, &self.endpoint_id, belongings)
        {
            Some(true) => {}
            Some(false) => notes.doubt(detail),
            None => notes.fault(detail),
        }
        let tried = |first: &Attempt| first.started_at.saturating_sub(CLOCK_SLACK_MS) <= begun.ms();
        if !attempts.first().is_some_and(tried)
            && self.event.content.body().is_some()
            && receiver.must_have(self.event)
        {
            notes.doubt("its schedule restarts, but it had not failed before");
        }
    }
}

impl Receiver {
    /// Whether the event must go to the endpoint from the start, unless the endpoint was gone by then.
    fn must_have(&self, event: &CheckedEvent) -> bool {
        self.takes_from_then(event.event_type, event.at) && !event.may_pass_over(&self.endpoint_id)
    }

    /// Whether an event of this type that happens at this instant must go to the endpoint, unless it is gone by then.
    pub(super) fn takes_from_then(&self, event_type: EventType, at: Timestamp) -> bool {
        let clearly =
            |earlier: Timestamp, later: Timestamp| later.ms() - earlier.ms() > CLOCK_SLACK_MS;
        self.subscribes(event_type)
            && clearly(self.since.unwrap_or(self.created_at), at)
            && self.deleted_at.is_none_or(|deleted| clearly(at, deleted))
    }

    /// Whether its partner had disabled it before the event happened and has not enabled it since.
    fn is_off_since_then(&self, event: &CheckedEvent) -> bool {
        self.status == EndpointStatus::Disabled
            && self.deleted_at.is_none()
            && self.since.is_some_and(|at| event.clearly_after(at))
    }
}

impl CheckedEvent {
    /// Whether the schedule of a delivery to the endpoint may have restarted then, by hand or by a recovery. `None` if
    /// nobody ever retried or recovered the event.
    fn may_begin_anew(
        &self,
        begun: Timestamp,
        endpoint_id: &EndpointId,
        belongings: &BookingRows<'_>,
    ) -> Option<bool> {
        let now = belongings.now.ms().saturating_add(CLOCK_SLACK_MS);
        let by_hand = (self.retries > 0).then(|| begun >= self.at && begun.ms() <= now);
        let recoveries = belongings.recoveries(&self.partner_id).iter();
        let recovered = recoveries.filter(|r| {
            r.covers(&self.event_id)
                && (r.after_seq + 1..=r.reached_seq).contains(&self.seq)
                && r.endpoint_id.is_none_or(|only| only == *endpoint_id)
        });
        let then = recovered.map(|r| {
            let last = r.finished_at.map_or(now, |at| at.ms() + CLOCK_SLACK_MS);
            (r.created_at.ms()..=last).contains(&begun.ms())
        });
        by_hand
            .into_iter()
            .chain(then)
            .reduce(|any, one| any || one)
    }
}

impl Findings {
    /// Notes that the event should have gone to the endpoint and did not.
    fn not_sent(&mut self, event: &CheckedEvent, receiver: &Receiver) {
        let (event_id, endpoint_id) = (event.event_id, receiver.endpoint_id);
        if receiver.status.takes_events() {
            self.missing_delivery(event_id, endpoint_id);
        } else if receiver.deleted_at.is_some() && receiver.since.is_none() {
            self.absent.entry(endpoint_id).or_insert(event_id);
        }
    }

    /// Warns that a delivery is missing: the endpoint takes such events and existed when this one happened.
    pub(super) fn missing_delivery(&mut self, event_id: EventId, endpoint_id: EndpointId) {
        self.doubt(
            "delivery",
            named(&event_id, &endpoint_id),
            "it is missing: the endpoint takes such events and was there when this one happened",
        );
    }
}

fn read(row: &Row) -> Result<(EndpointId, DeliveryState), StoreError> {
    Ok((row.id(1)?, load::delivery(row, 2)?))
}

/// The attempts of one delivery, densely numbered from 1.
fn attempts(
    belongings: &BookingRows<'_>,
    event: &CheckedEvent,
    endpoint_id: &EndpointId,
    notes: &mut Notes<'_>,
) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    let own = belongings
        .attempts(&event.event_id)
        .filter(|row| row.id(1).is_ok_and(|id: EndpointId| id == *endpoint_id));
    for (number, row) in (1_i64..).zip(own) {
        if row.int(2) != Ok(number) {
            notes.fault(format!("attempt {number} is missing"));
            break;
        }
        match row.json::<Attempt>(3) {
            Ok(attempt) => {
                if !spelled(row, 3, &attempt) {
                    notes.fault(format!(
                        "attempt {number} is not spelled as Bookguard spells it"
                    ));
                }
                if let Some(why) = contradiction(&attempt) {
                    notes.fault(format!("attempt {number} contradicts itself: {why}"));
                }
                attempts.push(attempt);
            }
            Err(why) => notes.fault(format!("attempt {number} cannot be read: {why}")),
        }
    }
    attempts
}

/// The contradiction within an attempt, if there is one.
fn contradiction(attempt: &Attempt) -> Option<&'static str> {
    use FailureClass::{Gone, Http4xx, Http5xx, PayloadTooLarge, RedirectRefused, Throttled};
    let of_status = attempt.status_code.map(FailureClass::of_status);
    match (attempt.class, of_status) {
        (None, Some(None)) => {}
        (None, _) => return Some("it says delivered, and no 2xx was answered"),
        (
            Some(
                class @ (Gone | Http4xx | Http5xx | PayloadTooLarge | RedirectRefused | Throttled),
            ),
            Some(found),
        ) if found != Some(class) => {
            return Some("the failure is not that of the status answered");
        }
        _ => {}
    }
    let head = attempt.response_head.as_bytes();
    let length = attempt.response_len as usize;
    if attempt.response_sha256.is_none() && length > 0 {
        return Some("an answer has no SHA-256");
    }
    // Printable text without a backslash is stored as it came, up to the limit, and less a character that the limit
    // would cut.
    let verbatim = head
        .iter()
        .all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\');
    let kept = match length {
        ..=RESPONSE_HEAD_BYTES => length..=length,
        _ => RESPONSE_HEAD_BYTES - 3..=RESPONSE_HEAD_BYTES,
    };
    if verbatim && !kept.contains(&head.len()) {
        return Some("the answer's text does not have the recorded length");
    }
    let digest = hex::encode(Sha256::digest(head));
    match &attempt.response_sha256 {
        Some(said) if verbatim && head.len() == length && *said != digest => {
            Some("the answer's text has another SHA-256 than the one recorded")
        }
        _ => None,
    }
}

/// Checks a delivery against the rules: its counters against its attempts, its phase and next attempt against the last
/// attempt. Returns whether it was dropped although its schedule had another attempt.
fn judge(
    event: &CheckedEvent,
    state: &DeliveryState,
    receiver: &Receiver,
    attempts: &[Attempt],
    (now, dropped): (Timestamp, bool),
    notes: &mut Notes<'_>,
) -> bool {
    let counted_attempts = |attempt: &&Attempt| !attempt.uncharged;
    // If an attempt was under way when the schedule restarted, it is unknown whether it was settled before that.
    let begun = state.begun.map_or(i64::MIN, Timestamp::ms);
    let counted_attempts = || attempts.iter().filter(counted_attempts);
    let may = |attempt: &&Attempt| ended(attempt).saturating_add(CLOCK_SLACK_MS) >= begun;
    let must = |attempt: &&Attempt| attempt.started_at.saturating_sub(CLOCK_SLACK_MS) > begun;
    let (count, certain) = (
        counted_attempts().filter(may).count(),
        counted_attempts().filter(must).count(),
    );
    let wrongly = "an attempt counts for the schedule that must not, or the other way round";
    if attempts.iter().any(|a| a.uncharged && a.delivered()) {
        notes.fault(wrongly);
    }
    if attempts.iter().any(|a| is_counted_early(event, a)) {
        notes.doubt(wrongly);
    }
    if state.attempts as usize != attempts.len() {
        notes.fault(format!(
            "row says {} attempts, {} are stored",
            state.attempts,
            attempts.len()
        ));
    }
    // An attempt by hand does not count, so each manual retry may have left one out.
    let fewest = certain.saturating_sub(usize::try_from(event.retries).unwrap_or(usize::MAX));
    if !(fewest..=count).contains(&(state.counted_attempts as usize)) {
        let detail = format!(
            "row says {} attempts count, the attempts say {count}",
            state.counted_attempts
        );
        // Only clocks say which attempts came after the schedule restarted.
        match state.begun.is_some() && state.counted_attempts as usize <= counted_attempts().count()
        {
            true => notes.doubt(detail),
            false => notes.fault(detail),
        }
    }
    if attempts.iter().rev().skip(1).any(Attempt::delivered) {
        notes.fault("it was attempted again after it was delivered".to_owned());
    }
    let phase = match attempts.last() {
        Some(last) if last.delivered() => DeliveryPhase::Delivered,
        Some(_) => DeliveryPhase::Failed,
        None => DeliveryPhase::Pending,
    };
    if state.phase != phase {
        notes.fault(format!(
            "row says {:?}, its attempts say {phase:?}",
            state.phase
        ));
    }
    let wrong = wrong_due(event, state, receiver, attempts.last(), now);
    let cut_short = dropped && state.lease.is_none() && wrong.is_some();
    match wrong.filter(|_| !cut_short) {
        Some(DueFault::Anyway(why)) => notes.fault(why),
        Some(DueFault::ByTheClock(why)) => notes.doubt(why),
        None => {}
    }
    cut_short
}

/// When an attempt ended, in milliseconds.
fn ended(attempt: &Attempt) -> i64 {
    attempt
        .started_at
        .saturating_add_unsigned(attempt.duration_ms)
}

/// The event's age when the attempt ended, in milliseconds. Its schedule began no earlier than the event.
fn age(event: &CheckedEvent, attempt: &Attempt) -> i64 {
    ended(attempt).saturating_sub(event.event_id.made_at().ms())
}

/// Whether an attempt that failed through a fault of ours was counted too early: such faults count only once the event
/// is old. Other failures count unless the endpoint was suspended then, which nothing else records. Successes always
/// count.
fn is_counted_early(event: &CheckedEvent, attempt: &Attempt) -> bool {
    !attempt.uncharged
        && attempt.is_ours()
        && age(event, attempt) + CLOCK_SLACK_MS <= OUR_FAULTS_FREE_MS
}

/// Checks a delivery of a pruned event. Only its row is left: nothing is due, and its counters agree with each
/// other.
fn judge_pruned(
    event: &CheckedEvent,
    state: &DeliveryState,
    attempts: &[Attempt],
    notes: &mut Notes<'_>,
) {
    if !attempts.is_empty() {
        let stored = attempts.len();
        notes.fault(format!(
            "the event was pruned, and {stored} attempts are stored"
        ));
    }
    if state.due.or(state.since).is_some() || state.lease.is_some() {
        notes.fault("the event was pruned, and it is to be sent all the same".to_owned());
    }
    let least = match state.phase {
        DeliveryPhase::Pending => 0..=0,
        DeliveryPhase::Failed if event.is_erased => 0..=u32::MAX,
        DeliveryPhase::Delivered | DeliveryPhase::Failed => 1..=u32::MAX,
    };
    let counted = state.phase != DeliveryPhase::Delivered || state.counted_attempts > 0;
    if !least.contains(&state.attempts) || state.counted_attempts > state.attempts || !counted {
        notes.fault(format!(
            "row says {:?} after {} attempts, of which {} count",
            state.phase, state.attempts, state.counted_attempts
        ));
    }
}

/// Why a delivery's due time is wrong.
enum DueFault {
    /// Wrong whatever the clocks said.
    Anyway(&'static str),
    /// Wrong only if the clocks were right.
    ByTheClock(String),
}

/// What is wrong with the time at which the delivery is due next, if anything.
fn wrong_due(
    event: &CheckedEvent,
    state: &DeliveryState,
    receiver: &Receiver,
    last: Option<&Attempt>,
    now: Timestamp,
) -> Option<DueFault> {
    let anyway = |why| Some(DueFault::Anyway(why));
    let by_the_clock = |why: String| Some(DueFault::ByTheClock(why));
    let over = last.is_some_and(Attempt::delivered);
    let waits = state.due.zip(state.since);
    if waits.is_none() && (state.due.is_some() || state.since.is_some()) {
        return anyway(
            "due_ms and since_ms must both be set while it is due, and neither once it is over",
        );
    }
    if waits.is_some_and(|(due, since)| state.lease.is_some() && due.ms() - since.ms() != LEASE_MS)
    {
        return anyway("its lease is not as long as leases are");
    }
    let due = match (state.due, state.lease) {
        (None, Some(_)) => return anyway("it is under a lease that has no end"),
        // The ledger says that nothing is due any more.
        _ if over => return None,
        (Some(due), Some(_)) => {
            // Taken by a courier at some time after the event, or under way when its schedule restarted.
            let early = due.ms() < event.at.ms() + LEASE_MS
                || state.begun.is_some_and(|begun| due <= begun);
            let why = || by_the_clock("its lease ends before it can have begun".to_owned());
            return early.then(why).flatten();
        }
        (due, None) => due,
    };
    if due.is_some() && event.retries > 0 {
        // Brought forward by hand, or scheduled after that.
        return None;
    }
    // Taken and given back unsent. Then it is due since it was given back, which is in the past.
    let given_back = now.ms().saturating_add(CLOCK_SLACK_MS);
    let Some(last) = last else {
        let from = state.begun.unwrap_or(event.at);
        let since = from.ms()..=given_back.max(from.ms());
        return match due {
            None => anyway("no attempt was made, and none is due"),
            Some(due) if since.contains(&due.ms()) => None,
            Some(_) => by_the_clock(format!(
                "no attempt was made, but its due time is before {from} or in the future"
            )),
        };
    };
    // The next attempt may go to another address than this one did.
    let elsewhere = (receiver.has_moved && due.is_some()).then(|| last.as_of_former_address());
    let last = elsewhere.as_ref().unwrap_or(last);
    let end = ended(last);
    let begun = state.begun_at(&event.event_id).ms();
    // Made due again since the last attempt: certainly (`renewed`) or possibly (`may_be_renewed`).
    let renewed = state.begun.is_some() && begun > end.saturating_add(CLOCK_SLACK_MS);
    let may_be_renewed = state.begun.is_some() && begun >= end.saturating_sub(CLOCK_SLACK_MS);
    let delay =
        |random| Schedule::default().next_delay(state.counted_attempts as usize, last, random);
    match (due, delay(0).zip(delay(u64::MAX))) {
        (None, _) if renewed => {
            by_the_clock("it was to be delivered once more, and is not due".to_owned())
        }
        (Some(due), later) if may_be_renewed => {
            let latest = later.map_or(end, |(_, high)| end.saturating_add_unsigned(high));
            let latest = latest.saturating_add(CLOCK_SLACK_MS).max(given_back);
            match (end.saturating_sub(CLOCK_SLACK_MS)..=latest).contains(&due.ms()) {
                true => None,
                false => by_the_clock(format!(
                    "it is due at {due}, which does not fit the time at which its schedule restarted"
                )),
            }
        }
        (None, None) => None,
        (None, Some(_)) if state.is_exhausted() => None,
        (None, Some(_)) => anyway("the schedule has another attempt, and none is due"),
        (Some(_), None) => anyway("the schedule has no further attempt, and one is due"),
        (Some(due), Some((low, high))) => {
            let first = end.saturating_add_unsigned(low) - CLOCK_SLACK_MS;
            // After a fault of ours the wait grows with the delivery's age.
            let grown = match last.is_ours() && last.uncharged {
                true => (end - begun).clamp(0, OUR_FAULTS_FREE_MS) / 16,
                false => 0,
            };
            let latest = end.saturating_add_unsigned(high) + grown + CLOCK_SLACK_MS;
            match (first..=latest.max(given_back)).contains(&due.ms()) {
                true => None,
                false => by_the_clock(format!(
                    "it is due at {due}, which is not when the schedule has it"
                )),
            }
        }
    }
}
