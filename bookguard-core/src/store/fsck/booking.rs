//! One booking: its entries as a chain, the booking they say, and the row that should say the same.

use std::collections::BTreeMap;

use serde_json::Value;

use super::entry::{self, Opened};
use super::{Findings, event};
use crate::evidence::history::{History, SettledFact, Since};
use crate::evidence::rebuild::{
    DisclosedFact, Ended, acceptance, differences, notifications, rebuild,
};
use crate::evidence::{Notification, frozen};
use crate::ledger::Hash;
use crate::model::{Booking, BookingId, BookingStatus, PartnerId, Timestamp};
use crate::store::conn::{Row, StoreError};
use crate::store::fsck::page::Belongings;

/// What a booking's entries say that others are compared with.
pub(super) struct Story<'a> {
    pub booking_id: BookingId,
    pub partner_id: PartnerId,
    /// The value as JSON writes it, and the currency's code.
    pub value: (&'a str, &'a str),
    pub created_at: Timestamp,
    pub protected_at: Option<Timestamp>,
    /// How it ended, once canceled.
    pub ended: Option<Ended>,
    /// How deliveries of its events ended, each with the place of the entry that says so, in the order of the log.
    pub settled: Vec<(u64, Notification)>,
    entries: History<&'a Opened<'a>>,
}

/// The columns of a row of `booking` that are compared one by one.
struct Columns<'a> {
    id: BookingId,
    partner_id: PartnerId,
    status: i64,
    event_ms: i64,
    protected_ms: Option<i64>,
    protected_leaf: Option<i64>,
    rescheduled_leaf: Option<i64>,
    canceled_ms: Option<i64>,
    resolution_leaf: Option<i64>,
    stream: [u8; 16],
    entries: i64,
    tip: Hash,
    policy_hash: Option<&'a str>,
    body: &'a str,
    terms: &'a str,
}

impl<'a> Columns<'a> {
    fn read(row: &'a Row) -> Result<Self, StoreError> {
        let policy_hash = match &row.0[12] {
            crate::store::conn::Cell::Null => None,
            _ => Some(row.text(12)?),
        };
        Ok(Self {
            id: row.id(0)?,
            partner_id: row.id(1)?,
            status: row.int(2)?,
            event_ms: row.int(3)?,
            protected_ms: row.maybe_int(4)?,
            protected_leaf: row.maybe_int(5)?,
            rescheduled_leaf: row.maybe_int(6)?,
            canceled_ms: row.maybe_int(7)?,
            resolution_leaf: row.maybe_int(8)?,
            stream: row.bytes(9)?,
            entries: row.int(10)?,
            tip: Hash(row.bytes(11)?),
            policy_hash,
            body: row.text(13)?,
            terms: row.text(14)?,
        })
    }
}

/// Checks a booking with everything that belongs to it.
pub(super) fn check(row: &Row, belongings: &Belongings<'_>, findings: &mut Findings) {
    let columns = match Columns::read(row) {
        Ok(columns) => columns,
        Err(why) => {
            let place = match row.id::<crate::model::id::noun::Booking>(0) {
                Ok(id) => format!("booking {id}"),
                Err(_) => "a booking with an invalid id".to_owned(),
            };
            findings.add("booking", place, format!("its row cannot be read: {why}"));
            return;
        }
    };
    let before = findings.kept.len();
    let opened = open_all(&columns, belongings.entries, findings);
    if findings.kept.len() > before {
        // What the entries really said is not known, so there is nothing to compare the row with.
        return;
    }
    let Some(story) = told(&columns, &opened, findings) else {
        return;
    };
    compare_columns(&columns, &opened, &story, findings);
    compare_resolutions(&columns, &story, belongings.resolutions, findings);
    event::check_all(&story, belongings, findings);
}

/// Opens the entries and checks that they are one chain from the first on.
fn open_all<'a>(
    columns: &Columns<'_>,
    rows: &'a [Row],
    findings: &mut Findings,
) -> Vec<Opened<'a>> {
    let mut opened: Vec<Opened<'a>> = Vec::with_capacity(rows.len());
    let mut prev = Hash::ZERO;
    for (seq, row) in (0_u64..).zip(rows) {
        let index = row.int(0).unwrap_or(-1);
        let mut fault = |detail: String| {
            let place = format!("entry {index} of booking {}", columns.id);
            findings.add("entry", place, detail);
        };
        match entry::open(row) {
            Err(why) => fault(why),
            Ok(entry) => {
                if entry.leaf.seq != seq || entry.seq != seq {
                    fault(format!(
                        "in the booking's chain it stands where number {seq} belongs; its leaf says {}, its row {}",
                        entry.leaf.seq, entry.seq
                    ));
                }
                if entry.leaf.stream != columns.stream {
                    fault("it is of another stream than the booking's row".to_owned());
                }
                if entry.leaf.prev != prev {
                    fault("it does not follow the booking's entry before it".to_owned());
                }
                prev = entry.hash;
                opened.push(entry);
            }
        }
    }
    opened
}

/// What the entries say, once it is certain that they say a booking and that the row's document is it.
fn told<'a>(
    columns: &Columns<'_>,
    opened: &'a [Opened<'_>],
    findings: &mut Findings,
) -> Option<Story<'a>> {
    let quick = usual(opened).filter(|story| {
        expected_body(story.entries.created).as_deref() == Some(columns.body)
            && repeated(&story.entries)
            && accepted(story)
    });
    if let Some(mut story) = quick
        && let Ok(read) = settled(&story)
    {
        story.settle(read);
        return Some(story);
    }
    // It is canceled or was moved, or something differs, or is spelled otherwise than usual: find out what.
    let place = |field: &str| format!("booking {} field {field}", columns.id);
    let facts: Vec<DisclosedFact> = opened.iter().map(read_facts).collect();
    let said = match rebuild(&facts, None) {
        Ok(rebuilt) => rebuilt,
        Err(faults) => {
            for fault in faults {
                let whole = format!("entries of booking {}", columns.id);
                findings.add("entry", whole, fault);
            }
            return None;
        }
    };
    let as_created = said.recorded;
    match serde_json::from_str::<Booking>(columns.body) {
        Err(why) => findings.add(
            "booking",
            place("body"),
            format!("it cannot be read: {why}"),
        ),
        Ok(shown) => {
            let differences = differences(&as_created, &shown);
            let exact = serde_json::to_string(&as_created).ok();
            if differences.is_empty() && exact.as_deref() != Some(columns.body) {
                findings.add(
                    "booking",
                    place("body"),
                    "Bookguard does not spell it this way",
                );
            }
            for (name, row, ledger) in differences {
                findings.same("booking", || place(&name), &row, &ledger);
            }
        }
    }
    let mut story = story(opened, said.ended)?;
    story.settle(said.notifications);
    Some(story)
}

fn read_facts(entry: &Opened<'_>) -> DisclosedFact {
    let fields: BTreeMap<String, Value> = entry
        .facts
        .iter()
        .filter_map(|(name, value)| {
            let value = serde_json::from_str(value).ok()?;
            Some((name.clone().into_owned(), value))
        })
        .collect();
    DisclosedFact {
        kind: entry.kind,
        at: Timestamp::from_ms(entry.leaf.t),
        fields,
    }
}

/// The usual case: a booking that is neither canceled nor moved, with nothing copied; `None` sends it the long way.
fn usual<'a>(opened: &'a [Opened<'_>]) -> Option<Story<'a>> {
    let untouched =
        |entries: &History<_>| entries.ending.is_none() && entries.rescheduled.is_empty();
    story(opened, None).filter(|story| untouched(&story.entries))
}

/// What the entries say, the ending as it was read from them.
fn story<'a>(opened: &'a [Opened<'_>], ended: Option<Ended>) -> Option<Story<'a>> {
    let entries = History::of(opened.iter().map(|entry| (entry.kind, entry))).ok()?;
    let created = entries.created;
    let created_at = Timestamp::parse(created.plain("createdAt")?)?;
    let protected = entries.protected.map(|since| since.fact);
    let protected_at = match protected {
        Some(entry) => Some(Timestamp::parse(entry.plain("protectedAt")?)?),
        None => None,
    };
    // The clock may have been set back before it; an entry never has an earlier time than the one before it.
    let times = created.leaf.t >= created_at.ms()
        && protected.map(|entry| entry.leaf.t) >= protected_at.map(Timestamp::ms);
    times.then_some(Story {
        booking_id: BookingId::parse(created.plain("bookingId")?)?,
        partner_id: PartnerId::parse(created.plain("partnerId")?)?,
        value: (created.raw("bookingValue")?, created.plain("currency")?),
        created_at,
        protected_at,
        ended,
        settled: Vec::new(),
        entries,
    })
}

/// How deliveries ended, when all of that can be.
fn settled(story: &Story<'_>) -> Result<Vec<Notification>, Vec<String>> {
    let entries = story.entries.settled.iter();
    let read: Vec<DisclosedFact> = entries.clone().map(|s| read_facts(s.fact)).collect();
    let facts: Vec<SettledFact<&DisclosedFact>> = entries
        .zip(&read)
        .map(|(settled, fact)| SettledFact {
            fact,
            protected: settled.protected,
            resolutions: settled.resolutions,
        })
        .collect();
    let told = (story.created_at, story.protected_at, story.ended.as_ref());
    notifications(&facts, story.booking_id, told)
}

impl Story<'_> {
    /// Notes how deliveries ended, as its entries of that kind say one after the other.
    fn settle(&mut self, read: Vec<Notification>) {
        let places = self.entries.settled.iter().map(|s| s.fact.index);
        self.settled = places.zip(read).collect();
    }
}

/// Whether every acceptance is one of this booking.
fn accepted(story: &Story<'_>) -> bool {
    let own =
        |entry| acceptance(&read_facts(entry)).is_ok_and(|own| own.booking_id == story.booking_id);
    story.entries.accepted.iter().all(|since| own(since.fact))
}

/// Whether the protection says exactly what the creation said, and its terms are those fixed then.
fn repeated(entries: &History<&Opened<'_>>) -> bool {
    let (created, Some(Since { fact, .. })) = (entries.created, entries.protected) else {
        return true;
    };
    let protected = fact;
    let own = ["termsHash", "terms", "protectedAt"];
    let shared = |entry: &Opened<'_>| {
        entry
            .facts
            .iter()
            .filter(|(name, _)| !own.contains(&&**name))
            .count()
    };
    shared(created) == shared(protected)
        && created
            .facts
            .iter()
            .filter(|(name, _)| name != "termsHash")
            .all(|(name, value)| protected.raw(name) == Some(*value))
}

/// The document the row of a booking holds from its creation on, from the stored spelling of the facts.
fn expected_body(created: &Opened<'_>) -> Option<String> {
    let mut out = String::with_capacity(640);
    let mut members = 0;
    let mut put = |name: &str, raw: &str| {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push('"');
        out.push_str(name);
        out.push_str("\":");
        out.push_str(raw);
    };
    // The order of the members of a booking.
    for (name, required) in [
        ("bookingId", true),
        ("partnerId", true),
        ("talent", true),
        ("organizer", true),
        ("eventType", true),
        ("eventDate", true),
        ("timeZone", false),
        ("bookingValue", true),
        ("amountPaid", false),
        ("currency", true),
    ] {
        match created.raw(name) {
            Some(raw) => {
                put(name, raw);
                members += 1;
            }
            None if required => return None,
            None => {}
        }
    }
    put("status", "\"created\"");
    put("protected", "false");
    if let Some(raw) = created.raw("metadata") {
        put("metadata", raw);
        members += 1;
    }
    put("createdAt", created.raw("createdAt")?);
    out.push('}');
    // createdAt and termsHash are the two that are not counted.
    (created.facts.len() == members + 2 && created.raw("termsHash").is_some()).then_some(out)
}

fn compare_columns(
    columns: &Columns<'_>,
    opened: &[Opened<'_>],
    story: &Story<'_>,
    findings: &mut Findings,
) {
    let place = |field: &str| format!("booking {} field {field}", columns.id);
    let mut same = |field: &str, row: &dyn std::fmt::Display, ledger: &dyn std::fmt::Display| {
        findings.same(
            "booking",
            || place(field),
            &row.to_string(),
            &ledger.to_string(),
        );
    };
    same("id", &columns.id, &story.booking_id);
    same("partner_id", &columns.partner_id, &story.partner_id);
    let status = match (&story.ended, story.protected_at) {
        (Some(_), _) => BookingStatus::Canceled,
        (None, Some(_)) => BookingStatus::Protected,
        (None, None) => BookingStatus::Created,
    };
    let word = BookingStatus::WORDS
        .iter()
        .find(|(_, known)| *known as i64 == columns.status)
        .map_or("unknown", |(word, _)| *word);
    same("status", &word, &status.word());
    let number = |n: Option<i64>| n.map_or_else(|| "nothing".to_owned(), |n| n.to_string());
    let created = story.entries.created;
    let moved = story.entries.rescheduled.last().copied();
    let event_ms = moved
        .unwrap_or(created)
        .plain("eventDate")
        .and_then(Timestamp::parse)
        .map(Timestamp::ms);
    same("event_ms", &columns.event_ms, &number(event_ms));
    let protected_ms = story.protected_at.map(Timestamp::ms);
    same(
        "protected_ms",
        &number(columns.protected_ms),
        &number(protected_ms),
    );
    let leaf = |entry: &Opened<'_>| i64::try_from(entry.index).ok();
    same(
        "protected_leaf",
        &number(columns.protected_leaf),
        &number(story.entries.protected.and_then(|since| leaf(since.fact))),
    );
    same(
        "rescheduled_leaf",
        &number(columns.rescheduled_leaf),
        &number(moved.and_then(leaf)),
    );
    let canceled_at = story.ended.as_ref().map(|e| e.cancellation.canceled_at);
    same(
        "canceled_ms",
        &number(columns.canceled_ms),
        &number(canceled_at.map(Timestamp::ms)),
    );
    let ending = story.entries.ending.as_ref();
    let resolved = ending.and_then(|ending| ending.resolutions().last().copied());
    same(
        "resolution_leaf",
        &number(columns.resolution_leaf),
        &number(resolved.and_then(leaf)),
    );
    same("entries", &columns.entries, &opened.len());
    if let Some(last) = opened.last() {
        same("tip", &columns.tip, &last.hash);
    }
    let hash = frozen::hash_of(columns.terms, columns.policy_hash);
    let said = created.plain("termsHash").unwrap_or_default();
    if hash != said {
        findings.add(
            "booking",
            place("terms"),
            format!("terms and policy_hash have the hash {hash}, the ledger says {said}"),
        );
    } else if let Some(Since { fact, moves }) = story.entries.protected {
        let adopted = columns
            .policy_hash
            .map_or_else(String::new, |hash| format!("\"adopted\":\"{hash}\","));
        let rest = columns.terms.strip_prefix('{').unwrap_or_default();
        let recorded = format!("{{{adopted}{rest}");
        let in_force = match story.entries.rescheduled[..moves].last() {
            Some(moved) => moved.raw("terms"),
            None => Some(recorded.as_str()),
        };
        if fact.raw("terms") != in_force {
            findings.add(
                "booking",
                place("terms"),
                "they are not the terms the protection locked",
            );
        }
    }
}

/// That the table of resolutions leads to each of them.
fn compare_resolutions(
    columns: &Columns<'_>,
    story: &Story<'_>,
    rows: &[Row],
    findings: &mut Findings,
) {
    let entries = story.entries.ending.iter().flat_map(|e| e.resolutions());
    let ended = story.ended.iter().flat_map(Ended::resolutions);
    let said: Vec<(String, u64)> = ended
        .zip(entries)
        .map(|(resolution, entry)| (resolution.resolution_id.to_string(), entry.index))
        .collect();
    let stored: Vec<(String, u64)> = rows
        .iter()
        .map(|row| {
            let id = row.id::<crate::model::id::noun::Resolution>(1);
            let id = id.map_or_else(|_| "an id that is none".to_owned(), |id| id.to_string());
            (id, row.size(2).unwrap_or(u64::MAX))
        })
        .collect();
    if stored != said {
        let words = |list: &[(String, u64)]| {
            let words: Vec<String> = list
                .iter()
                .map(|(id, leaf)| format!("{id} in entry {leaf}"))
                .collect();
            if words.is_empty() {
                "none".to_owned()
            } else {
                words.join(", ")
            }
        };
        findings.add(
            "resolution",
            format!("resolutions of booking {}", columns.id),
            format!(
                "stored: {}; the ledger says: {}",
                words(&stored),
                words(&said)
            ),
        );
    }
}
