//! Checks one booking: that its entries form a chain, and that its rows agree with them.

use super::entry::{self, OpenedEntry};
use super::page::BookingRows;
use super::{Findings, event};
use crate::evidence::erasure::{EVIDENCE_COUNT, can_go};
use crate::evidence::facts::Fact;
use crate::evidence::frozen::policy_summary;
use crate::evidence::{BookingState, ErasedNames};
use crate::ledger::Hash;
use crate::model::{PartnerId, PolicySummary};
use crate::policy::Adopted;
use crate::store::conn::Row;
use crate::store::{projection, terms};

/// The index of the first column after the projected ones. The hash checks the columns from here on.
const TERMS: usize = projection::BOOKING.len();
/// The column of an entry's row that holds its facts.
const FACTS: usize = 6;

/// The partner that a booking's row names, and the bytes that the booking adds to its usage.
pub(super) fn counted(row: &Row, entries: &[Row]) -> Option<(PartnerId, u64)> {
    let first = entries.first().filter(|row| row.int(2) == Ok(0))?;
    let facts = first.text(FACTS).ok()?;
    let terms = row.text(TERMS).ok()?;
    Some((row.id(1).ok()?, (facts.len() + terms.len()) as u64))
}

/// Checks a booking with everything that belongs to it.
pub(super) fn check(row: &Row, belongings: &BookingRows<'_>, findings: &mut Findings) {
    let thing = match row.id::<crate::model::id::noun::Booking>(0) {
        Ok(id) => format!("booking {id}"),
        Err(_) => "a booking with an invalid id".to_owned(),
    };
    let before = findings.kept.len();
    let opened = open_all(&thing, belongings.entries, findings);
    if findings.kept.len() > before {
        // It is unknown what the entries really said, so there is nothing to compare the rows with.
        return;
    }
    let (stream, entries) = (opened.first().map(|e| e.leaf.stream), opened.len() as u64);
    let tip = opened.last().map(|last| last.logged.place.hash);
    erased_as_recorded(&thing, &opened, findings);
    let facts = opened.into_iter().map(|entry| entry.logged);
    let state = match BookingState::fold(facts, policy(row, belongings)) {
        Ok(state) => state,
        Err(fault) => return findings.add("entry", format!("entries of {thing}"), fault),
    };
    let (stream, tip) = (stream.unwrap_or_default(), tip.unwrap_or(Hash::ZERO));
    let projected = projection::booking(&state, &stream, entries, &tip);
    findings.compare("booking", &thing, row, &projection::BOOKING, &projected);
    let place = || format!("{thing} field terms");
    match terms::hash(row, TERMS, TERMS + 1) {
        Ok(hash) if hash == state.terms_hash => {}
        Ok(hash) => {
            let said = &state.terms_hash;
            let detail =
                format!("terms and policy_hash have the hash {hash}, the ledger says {said}");
            findings.add("booking", place(), detail);
        }
        Err(why) => findings.add("booking", place(), why.to_string()),
    }
    let rows = belongings.resolutions;
    if rows.len() != state.resolutions.len() {
        let (stored, said) = (rows.len(), state.resolutions.len());
        let detail = format!("{stored} are stored, the ledger says {said}");
        findings.add("resolution", format!("resolutions of {thing}"), detail);
    }
    for (row, logged) in rows.iter().zip(&state.resolutions) {
        let thing = format!("resolution {}", logged.fact.resolution_id);
        let projected = projection::resolution(logged);
        findings.compare(
            "resolution",
            &thing,
            row,
            &projection::RESOLUTION,
            &projected,
        );
    }
    event::check_all(&state, belongings, findings);
}

/// Checks that exactly those values are erased which the booking's erasures name.
fn erased_as_recorded(thing: &str, opened: &[OpenedEntry], findings: &mut Findings) {
    let erasures = opened.iter().filter_map(|entry| match &entry.logged.fact {
        Fact::EvidenceErased(fact) => Some((entry.seq, &**fact)),
        _ => None,
    });
    let named = match ErasedNames::of(erasures) {
        Ok(named) => named,
        Err(why) => return findings.add("entry", format!("entries of {thing}"), why),
    };
    for entry in opened {
        let fact = &entry.logged.fact;
        let counts = matches!(fact, Fact::BookingCanceled(fact) if fact.evidence_count.is_some());
        // A value that was erased has a digest, or its entry does not open.
        let has = |name: &str| name != EVIDENCE_COUNT || counts;
        let can_be = |name: &&str| can_go(name, fact.kind(), has);
        if !named
            .of_entry(entry.seq)
            .eq(entry.erased.iter().map(String::as_str))
            || !named.of_entry(entry.seq).all(|name| can_be(&name))
        {
            let place = format!("entry {} of {thing}", entry.logged.place.index);
            let detail = "its erased values are not those that a later entry says were erased";
            findings.add("entry", place, detail);
        }
    }
}

/// The policy summary that the booking shows, from the policy that its terms name. The ledger holds the policy's hash.
fn policy(row: &Row, belongings: &BookingRows<'_>) -> Option<PolicySummary> {
    let policy_hash = terms::policy_hash(row, TERMS + 1).ok()?;
    let adopted = Adopted {
        document: belongings.policy(&policy_hash)?.clone(),
        policy_hash,
        policy_source: terms::source(row, TERMS).ok()??,
    };
    Some(policy_summary(&adopted))
}

/// Opens the entries and checks that they form one chain from the first on.
fn open_all(thing: &str, rows: &[Row], findings: &mut Findings) -> Vec<OpenedEntry> {
    let mut opened: Vec<OpenedEntry> = Vec::with_capacity(rows.len());
    for (seq, row) in (0_u64..).zip(rows) {
        let index = row.int(0).unwrap_or(-1);
        let mut fault = |detail: String| {
            findings.add("entry", format!("entry {index} of {thing}"), detail);
        };
        let entry = match entry::open(row) {
            Ok(entry) => entry,
            Err(why) => {
                fault(why);
                continue;
            }
        };
        let before = opened.last();
        if entry.leaf.seq != seq || entry.seq != seq {
            fault(format!(
                "in the booking's chain it stands where number {seq} belongs; its leaf says {}, its row {}",
                entry.leaf.seq, entry.seq
            ));
        }
        if before.is_some_and(|before| before.leaf.stream != entry.leaf.stream) {
            fault("it is of another stream than the booking's entry before it".to_owned());
        }
        if entry.leaf.prev != before.map_or(Hash::ZERO, |before| before.logged.place.hash) {
            fault("it does not follow the booking's entry before it".to_owned());
        }
        opened.push(entry);
    }
    opened
}
