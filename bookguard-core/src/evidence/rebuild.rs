//! Rebuilds a booking from the disclosed values of its ledger entries alone.
//!
//! Packet verification compares it with the booking a packet shows, the check of a database with the booking's row.
//! The caller has checked that the values are the committed ones. Invariant: a fact with a field this program does not
//! know is refused, never read in part.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Acceptance;
use super::FrozenTerms;
use super::RescheduleRecord;
use super::facts::{
    self, ACCEPTED, ACCEPTED_MAYBE, CANCELED, CANCELED_MAYBE, NOTIFICATION, PROTECTED_AT,
    RESCHEDULED, RESCHEDULED_MAYBE, RESOLUTION, RESOLVED, RESOLVED_MAYBE, SAID, SAID_MAYBE,
    SETTLED, TERMS, TERMS_HASH,
};
use super::history::{Ending, History, SettledFact, Since};
use super::notification::{Causes, Notification, follows};
use crate::ledger::LeafKind;
use crate::model::{Booking, BookingId, BookingStatus, PolicySummary, Timestamp};
use crate::policy::{Cancellation, PastReschedule, Resolution, ResolutionStatus};

/// One fact of a booking as its entry discloses it.
#[derive(Debug, Clone)]
pub struct DisclosedFact {
    /// What kind of fact.
    pub kind: LeafKind,
    /// When its entry was written.
    pub at: Timestamp,
    /// The disclosed values by name.
    pub fields: BTreeMap<String, Value>,
}

/// What a booking's facts come to.
#[derive(Debug, Clone)]
pub struct Rebuilt {
    /// The booking.
    pub booking: Booking,
    /// The booking as it was recorded, before anything happened to it.
    pub recorded: Booking,
    /// Hash of the text of the terms frozen when it was recorded.
    pub terms_hash: String,
    /// The terms that were locked by its protection.
    pub locked: Option<Since<FrozenTerms>>,
    /// Its changes of date, oldest first.
    pub reschedule_records: Vec<RescheduleRecord>,
    /// The acceptances of its terms, oldest first. That they accepted the text of these terms is for who has them to check.
    pub acceptances: Vec<Since<Acceptance>>,
    /// How the deliveries of its events ended, in the order of the ledger.
    pub notifications: Vec<Notification>,
    /// How it ended, once canceled.
    pub ended: Option<Ended>,
}

impl Rebuilt {
    /// The changes of date as evaluation takes them. That they say what was reached is for who has the former terms to check.
    pub fn reschedules(&self) -> &[PastReschedule] {
        self.reschedules_after(self.reschedule_records.len())
    }

    /// The same as of so many changes.
    pub fn reschedules_after(&self, moves: usize) -> &[PastReschedule] {
        let latest = self.reschedule_records[..moves].last();
        latest.map_or(&[], |latest| &latest.reschedules)
    }
}

/// How a booking ended. That the evaluations in it are what the terms give is for who has the terms to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The cancellation.
    pub cancellation: Cancellation,
    /// What it came to.
    pub resolved: Resolution,
    /// What a person decided, where that was left open.
    pub decided: Option<Resolution>,
}

impl Ended {
    /// The resolution that counts.
    pub fn latest(&self) -> &Resolution {
        self.decided.as_ref().unwrap_or(&self.resolved)
    }

    /// The resolutions, oldest first.
    pub fn resolutions(&self) -> impl Iterator<Item = &Resolution> {
        std::iter::once(&self.resolved).chain(&self.decided)
    }
}

/// Rebuilds a booking from its facts, oldest first. `policy` is what the booking shows of the policy named by hash.
///
/// # Errors
/// Every way in which the facts do not make a booking, each a sentence.
pub fn rebuild(
    facts: &[DisclosedFact],
    policy: Option<PolicySummary>,
) -> Result<Rebuilt, Vec<String>> {
    let history =
        History::of(facts.iter().map(|fact| (fact.kind, fact))).map_err(|fault| vec![fault])?;
    let mut faults = Vec::new();
    let created = history.created;
    check_names(created, (&SAID, &[TERMS_HASH]), &SAID_MAYBE, &mut faults);
    for fact in &history.rescheduled {
        check_names(fact, (&RESCHEDULED, &[]), &RESCHEDULED_MAYBE, &mut faults);
    }
    if let Some(Since { fact, moves }) = history.protected {
        let own = [PROTECTED_AT, TERMS];
        check_names(fact, (&SAID, &own), &SAID_MAYBE, &mut faults);
        let moved = history.rescheduled[..moves].last();
        check_repeated(created, moved.copied(), fact, &mut faults);
    }
    if let Some(ending) = &history.ending {
        let canceled = ending.canceled;
        check_names(canceled, (&CANCELED, &[]), &CANCELED_MAYBE, &mut faults);
        for fact in ending.resolutions() {
            check_names(fact, (&RESOLVED, &[]), &RESOLVED_MAYBE, &mut faults);
        }
    }
    let booking_id = created.fields.get("bookingId");
    let mut acceptances = Vec::with_capacity(history.accepted.len());
    for Since { fact, moves } in &history.accepted {
        match acceptance(fact) {
            Ok(fact) if booking_id != Some(&json!(fact.booking_id)) => {
                faults.push("The acceptance is one of another booking.".to_owned());
            }
            Ok(fact) => acceptances.push(Since {
                fact,
                moves: *moves,
            }),
            Err(wrong) => faults.extend(wrong),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let rebuilt = assemble(&history, policy).map_err(|fault| vec![fault])?;
    let booking = &rebuilt.booking;
    let told = (
        booking.created_at,
        booking.protected_at,
        rebuilt.ended.as_ref(),
    );
    let notifications = notifications(&history.settled, booking.booking_id, told)?;
    Ok(Rebuilt {
        acceptances,
        notifications,
        ..rebuilt
    })
}

/// Reads how the deliveries of a booking's events ended; `told` is when it was recorded and protected, and how it ended.
///
/// # Errors
/// The first way in which they cannot all be the booking's.
pub fn notifications(
    settled: &[SettledFact<&DisclosedFact>],
    booking_id: BookingId,
    (created_at, protected_at, ended): (Timestamp, Option<Timestamp>, Option<&Ended>),
) -> Result<Vec<Notification>, Vec<String>> {
    let resolved_at: Vec<Timestamp> = ended
        .iter()
        .flat_map(|ended| ended.resolutions())
        .map(Resolution::made_at)
        .collect();
    let mut read: Vec<Notification> = Vec::with_capacity(settled.len());
    for SettledFact {
        fact,
        protected,
        resolutions,
    } in settled
    {
        let next = notification(fact, booking_id)?;
        let causes = Causes {
            created_at,
            protected_at: protected_at.filter(|_| *protected),
            resolved_at: resolved_at.get(..*resolutions).unwrap_or_default(),
        };
        follows(&read, &next, &causes).map_err(|fault| vec![fault])?;
        read.push(next);
    }
    Ok(read)
}

/// Reads how one delivery ended.
fn notification(fact: &DisclosedFact, booking_id: BookingId) -> Result<Notification, Vec<String>> {
    let mut faults = Vec::new();
    check_names(fact, (&SETTLED, &[]), &[], &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    let one = |fault: String| vec![fault];
    let read: Notification =
        exactly(&fact.fields[NOTIFICATION], "the end of a delivery").map_err(one)?;
    if fact.fields.get("bookingId") != Some(&json!(booking_id)) {
        return Err(one(
            "The end of a delivery is one of another booking.".to_owned()
        ));
    }
    not_after(fact, "settledAt", read.settled_at).map_err(one)?;
    Ok(read)
}

/// Reads an acceptance by itself: what a booking is under does not change by it.
///
/// # Errors
/// Every way in which the fact is none, each a sentence.
pub fn acceptance(fact: &DisclosedFact) -> Result<Acceptance, Vec<String>> {
    let mut faults = Vec::new();
    check_names(fact, (&ACCEPTED, &[]), &ACCEPTED_MAYBE, &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    let members = Map::from_iter(fact.fields.clone());
    let read = exactly::<Acceptance>(&Value::Object(members), "an acceptance");
    let read = read.map_err(|fault| vec![fault])?;
    not_after(fact, "acceptedAt", read.accepted_at).map_err(|fault| vec![fault])?;
    Ok(read)
}

/// Every name a fact must have is there, and no other.
fn check_names(
    fact: &DisclosedFact,
    (required, own): (&[&str], &[&str]),
    optional: &[&str],
    faults: &mut Vec<String>,
) {
    let required = required.iter().chain(own);
    for name in required.clone() {
        if !fact.fields.contains_key(*name) {
            faults.push(format!("Field {name} of {} is not disclosed.", fact.kind));
        }
    }
    for name in fact.fields.keys() {
        let known = required.clone().chain(optional).any(|known| known == name);
        if !known {
            faults.push(format!(
                "Field {name} of {} is unknown to this version of Bookguard.",
                fact.kind
            ));
        }
    }
}

/// The members of a booking that a change of date sets.
const MOVED: [&str; 2] = ["eventDate", "timeZone"];

/// What was frozen is what was said at first, on the date to which the event had been moved by then.
fn check_repeated(
    created: &DisclosedFact,
    moved: Option<&DisclosedFact>,
    protected: &DisclosedFact,
    faults: &mut Vec<String>,
) {
    for name in SAID.iter().chain(&SAID_MAYBE) {
        let said = match moved {
            Some(moved) if MOVED.contains(name) => moved,
            _ => created,
        };
        if said.fields.get(*name) != protected.fields.get(*name) {
            let kind = said.kind;
            faults.push(format!(
                "Field {name} of booking.protected is not what {kind} said."
            ));
        }
    }
}

fn assemble(
    history: &History<&DisclosedFact>,
    policy: Option<PolicySummary>,
) -> Result<Rebuilt, String> {
    let created = history.created;
    let mut members = Map::new();
    for name in SAID.iter().chain(&SAID_MAYBE) {
        if let Some(value) = created.fields.get(*name) {
            members.insert((*name).to_owned(), value.clone());
        }
    }
    let mut set = |name: &str, value: Value| members.insert(name.to_owned(), value);
    set("status", json!(BookingStatus::Created));
    set("protected", json!(false));
    if let Some(policy) = &policy {
        set("policy", json!(policy));
    }
    let recorded: Booking = exactly(&Value::Object(members), "a booking")?;
    not_after(created, "createdAt", recorded.created_at)?;
    let mut booking = recorded.clone();
    let mut locked = None;
    if let Some(Since { fact, moves }) = history.protected {
        let at: Timestamp = exactly(&fact.fields[PROTECTED_AT], "a time")?;
        not_after(fact, PROTECTED_AT, at)?;
        booking.protect(at);
        let fact = exactly(&fact.fields[TERMS], "terms")?;
        locked = Some(Since { fact, moves });
    }
    let mut reschedule_records: Vec<RescheduleRecord> = Vec::new();
    for fact in &history.rescheduled {
        let before = reschedule_records
            .last()
            .map_or(&[][..], |r| &r.reschedules);
        let record = rescheduled(fact, &booking, before)?;
        booking.reschedule(
            record.rescheduled_at,
            record.event_date,
            record.time_zone.clone(),
        );
        reschedule_records.push(record);
    }
    let ended = match &history.ending {
        Some(ending) => Some(end(&mut booking, ending)?),
        None => None,
    };
    Ok(Rebuilt {
        booking,
        recorded,
        terms_hash: text_of(created, TERMS_HASH)?,
        locked,
        reschedule_records,
        acceptances: Vec::new(),
        notifications: Vec::new(),
        ended,
    })
}

/// Reads a change of date, which repeats the ones before it.
fn rescheduled(
    fact: &DisclosedFact,
    booking: &Booking,
    before: &[PastReschedule],
) -> Result<RescheduleRecord, String> {
    let members = Map::from_iter(fact.fields.clone());
    let record: RescheduleRecord = exactly(&Value::Object(members), "a change of date")?;
    not_after(fact, "rescheduledAt", record.rescheduled_at)?;
    let goes_on = record
        .reschedules
        .split_last()
        .is_some_and(|(last, earlier)| {
            let at = PastReschedule::instant(record.agreed_at(), booking.created_at, before);
            earlier == before && last.at == at
        });
    if !goes_on || record.booking_id != booking.booking_id {
        return Err("The change of date is not one of this booking, or not the next.".to_owned());
    }
    Ok(record)
}

/// Reads how a booking ended, and cancels it.
fn end(booking: &mut Booking, ending: &Ending<&DisclosedFact>) -> Result<Ended, String> {
    let members = Map::from_iter(ending.canceled.fields.clone());
    let cancellation: Cancellation = exactly(&Value::Object(members), "a cancellation")?;
    not_after(ending.canceled, "canceledAt", cancellation.canceled_at)?;
    let resolved = resolution_of(ending.resolved)?;
    not_after(ending.resolved, "canceledAt", resolved.canceled_at)?;
    let expected = Resolution::of(
        &cancellation,
        resolved.evaluation.clone(),
        booking.partner_id,
        resolved.resolution_id,
        booking.protected,
    );
    let of_this = [cancellation.booking_id, resolved.evaluation.booking_id];
    if resolved != expected || of_this.iter().any(|id| *id != booking.booking_id) {
        return Err("The resolution is not one of this booking's cancellation.".to_owned());
    }
    let decided = match ending.decided {
        None => None,
        Some(fact) => Some(decided_of(fact, &resolved)?),
    };
    let ended = Ended {
        cancellation,
        resolved,
        decided,
    };
    booking.cancel(ended.cancellation.canceled_at, ended.latest().resolution_id);
    Ok(ended)
}

/// The resolution that took the place of one that was left open.
fn decided_of(fact: &DisclosedFact, pending: &Resolution) -> Result<Resolution, String> {
    let decided = resolution_of(fact)?;
    let refused = || "The second resolution does not decide what the first left open.".to_owned();
    let decision = decided.decision.clone().ok_or_else(refused)?;
    not_after(fact, "decidedAt", decision.decided_at)?;
    let expected = pending.decided_as(decision, decided.resolution_id, decided.evaluation.clone());
    if pending.status != ResolutionStatus::PendingReview || decided != expected {
        return Err(refused());
    }
    Ok(decided)
}

/// The resolution an entry records.
fn resolution_of(fact: &DisclosedFact) -> Result<Resolution, String> {
    let resolution: Resolution = exactly(&fact.fields[RESOLUTION], "a resolution")?;
    let own = facts::resolved(&resolution);
    let same = own.len() == fact.fields.len()
        && own
            .iter()
            .all(|(name, value)| fact.fields.get(*name) == Some(value));
    if !same {
        return Err("The resolution's own values are not those recorded beside it.".to_owned());
    }
    Ok(resolution)
}

/// That a fact's own time, which is the clock's, is not after that of its entry. It may be before it: entries never have an
/// earlier time than the one before them, and the clock may have been ahead until then.
fn not_after(fact: &DisclosedFact, name: &str, at: Timestamp) -> Result<(), String> {
    if at > fact.at {
        return Err(format!(
            "{name} is after the time of the entry that says so."
        ));
    }
    Ok(())
}

/// Reads a value that has no member this program does not know and none in another spelling.
fn exactly<T: DeserializeOwned + Serialize>(value: &Value, what: &str) -> Result<T, String> {
    let unreadable =
        |why: &dyn std::fmt::Display| format!("The committed values do not make {what}: {why}.");
    let read = T::deserialize(value).map_err(|e| unreadable(&e))?;
    if serde_json::to_value(&read).ok().as_ref() != Some(value) {
        return Err(unreadable(
            &"a value is in another form than Bookguard writes",
        ));
    }
    Ok(read)
}

fn text_of(fact: &DisclosedFact, name: &str) -> Result<String, String> {
    match fact.fields.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(format!("Field {name} of {} is not text.", fact.kind)),
    }
}

/// Every member in which `shown` differs from what the ledger says: name, shown, said; null where there is none.
pub fn differences(said: &Booking, shown: &Booking) -> Vec<(String, Value, Value)> {
    let members = |booking| match serde_json::to_value(booking) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    let (said, mut shown) = (members(said), members(shown));
    let mut found = Vec::new();
    for (name, said) in said {
        let shown = shown.remove(&name).unwrap_or_default();
        if shown != said {
            found.push((name, shown, said));
        }
    }
    found.extend(
        shown
            .into_iter()
            .map(|(name, shown)| (name, shown, Value::Null)),
    );
    found
}
