//! The booking that a booking's ledger entries say, rebuilt from their disclosed values alone.
//!
//! Packet verification compares it with the booking a packet shows, the check of a database with the booking's row.
//! That the values are the ones committed to is for the caller to have checked. Invariant: a fact this program does not
//! know all fields of is refused, never read in part.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::FrozenTerms;
use super::facts::{PROTECTED_AT, SAID, SAID_MAYBE, TERMS, TERMS_HASH};
use crate::ledger::LeafKind;
use crate::model::{Booking, BookingStatus, PolicySummary, Timestamp};

/// One fact of a booking as its entry discloses it.
#[derive(Debug, Clone)]
pub struct Told {
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
    /// Hash of the text of its frozen terms.
    pub terms_hash: String,
    /// The terms themselves, once protected.
    pub terms: Option<FrozenTerms>,
}

/// Rebuilds a booking from its facts, oldest first. `policy` is what the booking shows of the policy named by hash.
///
/// Errors: every way in which the facts do not make a booking, each a sentence.
pub fn rebuild(facts: &[Told], policy: Option<PolicySummary>) -> Result<Rebuilt, Vec<String>> {
    let mut faults = Vec::new();
    let Some((created, later)) = facts.split_first() else {
        return Err(vec!["There is no entry at all.".to_owned()]);
    };
    if created.kind != LeafKind::BookingCreated {
        faults.push(format!(
            "The first entry is {}, not booking.created.",
            created.kind
        ));
    }
    check_names(created, &[TERMS_HASH], &mut faults);
    let protection = match later {
        [] => None,
        [fact] if fact.kind == LeafKind::BookingProtected => Some(fact),
        [fact, ..] => {
            faults.push(format!(
                "After booking.created stand {} entries, of which the first is {}; this version of Bookguard knows one, booking.protected.",
                later.len(),
                fact.kind
            ));
            None
        }
    };
    if let Some(fact) = protection {
        check_names(fact, &[PROTECTED_AT, TERMS], &mut faults);
        check_repeated(created, fact, &mut faults);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    assemble(created, protection, policy).map_err(|fault| vec![fault])
}

/// Every name a fact must have is there, and no other.
fn check_names(fact: &Told, own: &[&str], faults: &mut Vec<String>) {
    let required = SAID.iter().chain(own);
    for name in required.clone() {
        if !fact.fields.contains_key(*name) {
            faults.push(format!("Field {name} of {} is not disclosed.", fact.kind));
        }
    }
    for name in fact.fields.keys() {
        let known = required
            .clone()
            .chain(&SAID_MAYBE)
            .any(|known| known == name);
        if !known {
            faults.push(format!(
                "Field {name} of {} is unknown to this version of Bookguard.",
                fact.kind
            ));
        }
    }
}

/// What was frozen is what was said at first.
fn check_repeated(created: &Told, protected: &Told, faults: &mut Vec<String>) {
    for name in SAID.iter().chain(&SAID_MAYBE) {
        if created.fields.get(*name) != protected.fields.get(*name) {
            faults.push(format!(
                "Field {name} of booking.protected is not what booking.created said."
            ));
        }
    }
}

fn assemble(
    created: &Told,
    protection: Option<&Told>,
    policy: Option<PolicySummary>,
) -> Result<Rebuilt, String> {
    let mut members = Map::new();
    for name in SAID.iter().chain(&SAID_MAYBE) {
        if let Some(value) = created.fields.get(*name) {
            members.insert((*name).to_owned(), value.clone());
        }
    }
    let mut set = |name: &str, value: Value| members.insert(name.to_owned(), value);
    let status = if protection.is_some() {
        BookingStatus::Protected
    } else {
        BookingStatus::Created
    };
    set("status", json!(status));
    set("protected", json!(protection.is_some()));
    if let Some(fact) = protection {
        set(PROTECTED_AT, fact.fields[PROTECTED_AT].clone());
    }
    if let Some(policy) = &policy {
        set("policy", json!(policy));
    }
    let members = Value::Object(members);
    let booking = Booking::deserialize_exactly(&members)?;
    if booking.created_at != created.at {
        return Err("createdAt is not the time of the entry that says so.".to_owned());
    }
    if let Some(fact) = protection
        && booking.protected_at != Some(fact.at)
    {
        return Err("protectedAt is not the time of the entry that says so.".to_owned());
    }
    let terms = protection
        .map(|fact| terms_of(&fact.fields[TERMS]))
        .transpose()?;
    Ok(Rebuilt {
        booking,
        terms_hash: text_of(created, TERMS_HASH)?,
        terms,
    })
}

impl Booking {
    /// Reads a booking that has no member this program does not know and none in another spelling.
    fn deserialize_exactly(value: &Value) -> Result<Self, String> {
        let unreadable = |why: &dyn std::fmt::Display| {
            format!("The committed values do not make a booking: {why}.")
        };
        let booking =
            <Self as serde::Deserialize>::deserialize(value).map_err(|e| unreadable(&e))?;
        if serde_json::to_value(&booking).ok().as_ref() != Some(value) {
            return Err(unreadable(
                &"a value is in another form than Bookguard writes",
            ));
        }
        Ok(booking)
    }
}

fn terms_of(value: &Value) -> Result<FrozenTerms, String> {
    let terms = <FrozenTerms as serde::Deserialize>::deserialize(value)
        .map_err(|e| format!("The committed terms cannot be read: {e}."))?;
    if serde_json::to_value(&terms).ok().as_ref() != Some(value) {
        return Err("The committed terms are in another form than Bookguard writes.".to_owned());
    }
    Ok(terms)
}

fn text_of(fact: &Told, name: &str) -> Result<String, String> {
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
