//! Offline verification of an evidence packet: its bytes and a public key go in, a [`Report`] comes out.
//!
//! Verification needs no server, no network and no clock, and trusts nothing in the packet: the key named in the packet is
//! compared with the given key. A packet is its RFC 8785 text, so one that was only formatted anew is the same packet.
//! Invariants: no input causes a panic; every value of a packet is covered by a check, because the signature covers all of
//! that text; a check that could not be made does not count as passed. One of something that a packet need not show yet passes without it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookguard_time::Roots as TimestampRoots;
use serde::Deserialize as _;
use serde_json::Value;

use super::packet::{PACKET_TYPE, Packet};
use super::report::{Check, CosignedBy, LedgerState, Report};
use super::statement::{SignedStatement, digest};
use super::timeline::Timeline;
use crate::input::{cut, shorten};
use crate::ledger::jcs::{self, CanonicalText};
use crate::ledger::trust::TrustPolicy;
use crate::ledger::{Checkpoint, VerifierKey};
use crate::limits::PACKET_BYTES;
use crate::model::Timestamp;

mod completeness;
mod content;
mod deliveries;
mod entries;
mod pointer;
mod resolution;
mod terms;
mod timestamps;

pub(super) use content::facts;
pub(super) use entries::erased;

#[cfg(test)]
pub(crate) mod tests;

/// Verifies an evidence packet against the log's verifier key, `name+id+base64` as `GET /v1/ledger/key` returns it.
///
/// The key must come from somewhere other than the packet. A newline at the end of either is ignored.
///
/// What a packet says is read from the same bytes with any JSON reader: in one that verifies, no name stands twice in an object. Its
/// members are those of the interface document's `GET /v1/bookings/{bookingId}/evidence`.
///
/// ```
/// use bookguard_core::evidence;
///
/// # let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/packets");
/// # let packet = std::fs::read(format!("{vectors}/good/created.json"))?;
/// # let key = std::fs::read_to_string(format!("{vectors}/ledger.vkey"))?;
/// let report = evidence::verify(&packet, &key);
/// assert!(report.verified(), "{report}");
/// let packet: serde_json::Value = serde_json::from_slice(&packet)?;
/// assert_eq!(packet["booking"]["bookingValue"], 1200.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(packet: &[u8], vkey: &str) -> Report {
    verify_timeline(packet, vkey).0
}

/// Does the same as [`verify`], and returns the timeline of a packet that verifies, to compare it with the log or with
/// another packet.
pub fn verify_timeline(packet: &[u8], vkey: &str) -> (Report, Option<Timeline>) {
    verify_with(packet, vkey, Trust::default())
}

/// Whom the reader trusts beside the log. With its verifier key, the packet and this, nothing needs a network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trust<'a> {
    /// Who may say when something existed.
    pub timestamps: Option<TimestampTrust<'a>>,
    /// The independent witnesses that must have cosigned the state of the ledger which proves the packet, each of which has seen that
    /// the ledger only grew. A log that the policy names must have the key; if it names none, any log with that key will do.
    pub witnesses: Option<&'a TrustPolicy>,
}

/// Whom the reader trusts to say when something existed.
///
/// ```
/// use bookguard_core::evidence::{TimestampError, TimestampRoots};
///
/// let refused = TimestampRoots::from_pem(b"no certificate");
/// assert!(matches!(refused, Err(TimestampError::Roots(_))));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TimestampTrust<'a> {
    /// The roots of time-stamp authorities.
    pub roots: &'a TimestampRoots,
    /// Now: a [`SystemTime`](std::time::SystemTime) converts into it. An authority's certificate must still be valid, unless a later time-stamp renewed its own.
    pub at: Timestamp,
}

/// Does the same as [`verify_timeline`], and checks what `trust` asks for: who made the packet's time-stamps
/// ([`Report::timestamp`]), and who cosigned the ledger ([`Report::witnesses`]).
pub fn verify_with(packet: &[u8], vkey: &str, trust: Trust<'_>) -> (Report, Option<Timeline>) {
    let mut verification = Verification {
        report: Report {
            booking_id: None,
            created_at: None,
            ledger: None,
            witnesses: None,
            timestamp: None,
            complete: None,
            checks: Vec::new(),
        },
        timeline: None,
        checkpoint: None,
        written: Timestamp::EPOCH,
        trust: trust.timestamps,
    };
    verification.run(packet, vkey);
    if let Some(policy) = trust.witnesses {
        verification.witnessed(policy);
    }
    let Verification {
        mut report,
        timeline,
        ..
    } = verification;
    if !report.verified() {
        report.timestamp = None;
        report.complete = None;
    }
    let timeline = timeline.filter(|_| report.verified());
    (report, timeline)
}

/// A verification in progress.
struct Verification<'a> {
    report: Report,
    timeline: Option<Timeline>,
    /// The note of the checkpoint under which all entries are proven.
    checkpoint: Option<String>,
    /// When the last entry was written.
    written: Timestamp,
    trust: Option<TimestampTrust<'a>>,
}

/// Characters of the detail of a failed check: a few sentences.
const DETAIL_CHARS: usize = 1_000;

/// What was confirmed, in a sentence, or what is wrong.
pub(super) type Outcome = Result<String, String>;

/// What is wrong in a part of the packet.
struct Misplaced {
    /// Where: a JSON pointer.
    place: String,
    why: String,
}

impl Misplaced {
    fn in_all(why: String) -> Self {
        let place = String::new();
        Self { place, why }
    }
}

impl Verification<'_> {
    fn run(&mut self, bytes: &[u8], vkey: &str) {
        let key: VerifierKey = match vkey.parse() {
            Ok(key) => key,
            Err(error) => {
                self.check("key", "", Err(format!(
                    "The verifier key given cannot be read: {error}. Take it from the service's /v1/ledger/key."
                )));
                return;
            }
        };
        let read = read(bytes).map_err(Misplaced::in_all);
        let read =
            read.and_then(|(value, is_reformatted)| Ok((packet(&value)?, value, is_reformatted)));
        let (packet, value, is_reformatted) = match read {
            Ok(read) => read,
            Err(Misplaced { place, why }) => {
                self.check("form", &place, Err(why));
                return;
            }
        };
        self.report.booking_id = Some(packet.booking.booking_id);
        self.report.created_at = Some(packet.created_at);
        let form = match is_reformatted {
            false => "in the exact form in which the service writes it",
            true => "formatted anew since the service wrote it, which changes nothing that it says",
        };
        self.check(
            "form",
            "",
            Ok(format!(
                "The packet is a complete {PACKET_TYPE} document, {form}."
            )),
        );
        self.check("signature", "/signature", signature(&packet, &value, &key));
        self.check("key", "/log", same_key(&packet, &key));
        if let Some(entries) = self.entries(&packet, &key) {
            self.content(&packet, &entries);
            self.completeness(&packet, &key);
            self.timestamps(&packet, &key);
        }
    }

    /// Records a check. Returns whether it passed.
    fn check(&mut self, name: &'static str, place: &str, outcome: Outcome) -> bool {
        let passed = outcome.is_ok();
        // Detail and place may quote the packet, and a forged packet may hold anything.
        let detail = outcome.unwrap_or_else(|why| cut(&why, DETAIL_CHARS));
        self.report.checks.push(Check {
            name,
            place: cut(place, DETAIL_CHARS),
            passed,
            detail,
        });
        passed
    }

    /// Checks who has cosigned the checkpoint. Without one there is nothing to check, and other checks have failed.
    fn witnessed(&mut self, policy: &TrustPolicy) {
        let Some(note) = &self.checkpoint else {
            return;
        };
        let found = policy.check_known(note);
        let found = found.map(|cosigned| -> Vec<CosignedBy> {
            let by = |(witness, time): (String, u64)| CosignedBy {
                witness,
                at: Timestamp::from_seconds(time.try_into().unwrap_or(i64::MAX)),
            };
            cosigned.into_iter().map(by).collect()
        });
        let outcome = match &found {
            Err(why) => Err(format!("{why}.")),
            Ok(by) if by.is_empty() => Ok(
                "No witness has cosigned this state of the ledger, and the trust policy demands none.".to_owned(),
            ),
            Ok(by) => {
                let by: Vec<_> = (by.iter())
                    .map(|one| format!("{} on {}", one.witness, one.at))
                    .collect();
                Ok(format!(
                    "Witnesses have cosigned this state of the ledger, as many as the trust policy demands: {}.",
                    by.join(", ")
                ))
            }
        };
        self.report.witnesses = found.ok();
        self.check("witnesses", "/entries/0/proof", outcome);
    }

    fn witness(&mut self, head: &Checkpoint) {
        self.report.ledger = Some(LedgerState {
            origin: head.origin.clone(),
            tree_size: head.size,
            root_hash: head.root.to_string(),
        });
    }
}

/// Reads the JSON document of a packet. Returns also whether its text is not the canonical one.
fn read(bytes: &[u8]) -> Result<(Value, bool), String> {
    if bytes.len() > PACKET_BYTES {
        return Err(format!(
            "The file has {} bytes; a packet has at most {PACKET_BYTES}. This is not a packet.",
            bytes.len()
        ));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| format!("The file is not text (byte {}).", e.valid_up_to()))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let value = jcs::parse(text).map_err(|e| format!("The file is not a JSON document: {e}."))?;
    match value.get("type").and_then(Value::as_str) {
        Some(PACKET_TYPE) => {}
        Some(other) => {
            return Err(format!(
                "The document is of type \"{}\"; this version of Bookguard verifies {PACKET_TYPE}.",
                shorten(other)
            ));
        }
        None => return Err("The document does not say that it is an evidence packet.".to_owned()),
    }
    // The signature covers the canonical text, so the checks read that too.
    let canonical =
        jcs::to_canonical(&value).map_err(|e| format!("The packet cannot be read: {e}."))?;
    let is_reformatted = canonical != text;
    let value = match is_reformatted {
        true => jcs::parse(&canonical).map_err(|e| format!("The packet cannot be read: {e}."))?,
        false => value,
    };
    Ok((value, is_reformatted))
}

/// Reads a packet from its value.
fn packet(value: &Value) -> Result<Packet, Misplaced> {
    let packet = Packet::deserialize(value).map_err(|e| Misplaced {
        place: (jcs::to_canonical(value))
            .map(|text| pointer::unreadable::<Packet>(&text))
            .unwrap_or_default(),
        why: format!("The packet cannot be read: {}.", unreadable(&e.to_string())),
    })?;
    let anew = serde_json::to_value(&packet).unwrap_or_default();
    if anew != *value {
        return Err(Misplaced {
            place: pointer::difference(value, &anew),
            why: "The packet holds something that this version of Bookguard does not know, or writes differently."
                .to_owned(),
        });
    }
    Ok(packet)
}

/// Why a value cannot be read, without the words of programmers.
fn unreadable(why: &str) -> String {
    let named = |what: &str| Some(shorten(why.strip_prefix(what)?.split('`').next()?));
    if let Some(name) = named("missing field `") {
        return format!("the member {name} is missing");
    }
    if let Some(word) = named("unknown variant `") {
        return format!("\"{word}\" is not one of the words that may stand there");
    }
    let plain = [
        (
            "unknown field ",
            "a member is not known to this version of Bookguard",
        ),
        (
            "invalid type: ",
            "a value is of another type than it must be",
        ),
        ("invalid value: ", "a value is not one that may stand there"),
        (
            "invalid length ",
            "a list has another length than it must have",
        ),
    ];
    let said = plain.iter().find(|(what, _)| why.starts_with(*what));
    said.map_or(why, |(_, said)| *said).to_owned()
}

fn signature(packet: &Packet, value: &Value, key: &VerifierKey) -> Outcome {
    let refused = |why: &dyn std::fmt::Display| {
        format!(
            "The packet as a whole is not what the ledger key signed: {why}. Some part of it was changed, or it comes from \
             another service."
        )
    };
    let document = CanonicalText::of(value).map_err(|e| refused(&e))?;
    let digest = digest(&document);
    let statement = SignedStatement::open(&packet.signature, key).map_err(|e| refused(&e))?;
    if statement.digest != digest {
        return Err(refused(
            &"its content does not have the digest that was signed",
        ));
    }
    match SignedStatement::of(packet, digest) {
        Ok(own) if own == statement => Ok(
            "The packet as a whole is signed by the ledger key: nothing that it says was changed since it was issued.".to_owned(),
        ),
        Ok(_) => Err(refused(
            &"the signed number, head or log of its entries is not what the packet shows",
        )),
        Err(why) => Err(why),
    }
}

fn same_key(packet: &Packet, key: &VerifierKey) -> Outcome {
    if packet.log.vkey != key.to_string() {
        return Err(format!(
            "The packet belongs to ledger {} with a key other than the one given ({}). Check that you have the key of the \
             right service.",
            shorten(&packet.log.origin),
            key.name()
        ));
    }
    if packet.log.origin != key.name() {
        return Err(format!(
            "The packet calls its ledger {}, but its key names {}.",
            shorten(&packet.log.origin),
            key.name()
        ));
    }
    Ok(format!(
        "The packet names the ledger {} and the very key given.",
        key.name()
    ))
}

/// Decodes padded base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// The JSON pointer to a part of an entry.
fn place(entry: usize, part: &str) -> String {
    let slash = if part.is_empty() { "" } else { "/" };
    format!("/entries/{entry}{slash}{part}")
}
