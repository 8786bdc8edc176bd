//! Offline verification of an evidence packet: its bytes and a public key go in, a [`Report`] comes out.
//!
//! Verification needs no server, no network and no clock, and trusts nothing in the packet: the key named in the packet is
//! compared with the given key. Invariants: no input causes a panic; every byte of a packet is covered by a check, because
//! only one spelling is accepted and the signature covers all of it; a check that could not be made does not count as
//! passed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde_json::Value;

use super::packet::{PACKET_TYPE, Packet, signed_text};
use super::report::{Check, Report, Witness};
use super::scan::Timeline;
use crate::input::{cut, shorten};
use crate::ledger::{Checkpoint, VerifierKey, jcs};
use crate::limits::PACKET_BYTES;

mod content;
mod deliveries;
mod entries;
mod resolution;
mod terms;

#[cfg(test)]
pub(crate) mod tests;

/// Verifies an evidence packet against the ledger's public key, `name+id+base64` as `GET /v1/ledger/key` returns it.
///
/// The key must come from somewhere other than the packet. A newline at the end of either is ignored.
pub fn verify(packet: &[u8], vkey: &str) -> Report {
    verify_timeline(packet, vkey).0
}

/// Does the same as [`verify`], and returns the timeline of a packet that verifies, to compare it with the log or with
/// another packet.
pub fn verify_timeline(packet: &[u8], vkey: &str) -> (Report, Option<Timeline>) {
    let mut verification = Verification {
        report: Report {
            booking_id: None,
            created_at: None,
            ledger: None,
            checks: Vec::new(),
        },
        timeline: None,
    };
    verification.run(packet, vkey);
    let Verification { report, timeline } = verification;
    let timeline = timeline.filter(|_| report.verified());
    (report, timeline)
}

/// A verification in progress.
struct Verification {
    report: Report,
    timeline: Option<Timeline>,
}

/// Characters of the detail of a failed check: a few sentences.
const DETAIL_CHARS: usize = 1_000;

/// What was confirmed, in a sentence, or what is wrong.
pub(super) type Outcome = Result<String, String>;

impl Verification {
    fn run(&mut self, bytes: &[u8], vkey: &str) {
        let key: VerifierKey = match vkey.trim().parse() {
            Ok(key) => key,
            Err(error) => {
                self.check("key", "", Err(format!(
                    "The ledger key given to verify with cannot be read: {error}. Take it from the service's /v1/ledger/key."
                )));
                return;
            }
        };
        let (packet, value) = match read(bytes) {
            Ok(read) => read,
            Err(why) => {
                self.check("form", "", Err(why));
                return;
            }
        };
        self.report.booking_id = Some(packet.booking.booking_id);
        self.report.created_at = Some(packet.created_at);
        self.check("form", "", Ok(format!(
            "The packet is a complete {PACKET_TYPE} document in the exact form in which the service writes it."
        )));
        self.check("signature", "/signature", signature(&packet, value, &key));
        self.check("key", "/log", same_key(&packet, &key));
        let proven = self.entries(&packet, &key);
        if let Some((entries, head)) = proven {
            self.content(&packet, &entries, &head);
        }
    }

    /// Records a check. Returns whether it passed.
    fn check(&mut self, name: &'static str, place: &str, outcome: Outcome) -> bool {
        let passed = outcome.is_ok();
        // The detail may quote the packet, and a forged packet may hold anything.
        let detail = outcome.unwrap_or_else(|why| cut(&why, DETAIL_CHARS));
        self.report.checks.push(Check {
            name,
            place: place.to_owned(),
            passed,
            detail,
        });
        passed
    }

    fn witness(&mut self, head: &Checkpoint) {
        self.report.ledger = Some(Witness {
            origin: head.origin.clone(),
            tree_size: head.size,
            root_hash: head.root.to_string(),
        });
    }
}

/// Reads a packet, in its canonical spelling only.
fn read(bytes: &[u8]) -> Result<(Packet, Value), String> {
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
    if jcs::to_canonical(&value).ok().as_deref() != Some(text) {
        return Err(
            "The packet is not in the exact form in which the service writes it: something was changed, if only white \
             space or the order of its parts. Fetch it anew and keep the file as it is."
                .to_owned(),
        );
    }
    let packet =
        Packet::deserialize(&value).map_err(|e| format!("The packet cannot be read: {e}."))?;
    if serde_json::to_value(&packet).ok().as_ref() != Some(&value) {
        return Err(
            "The packet holds something that this version of Bookguard does not know, or writes differently."
                .to_owned(),
        );
    }
    Ok((packet, value))
}

fn signature(packet: &Packet, mut value: Value, key: &VerifierKey) -> Outcome {
    let refused = |why: &dyn std::fmt::Display| {
        format!(
            "The packet as a whole is not what the ledger's key signed: {why}. Some part of it was changed, or it comes from \
             another service."
        )
    };
    let expected = signed_text(&mut value).map_err(|e| refused(&e))?;
    let text = key.open(&packet.signature).map_err(|e| refused(&e))?;
    if text != expected {
        return Err(refused(
            &"its content does not have the digest that was signed",
        ));
    }
    // Signatures of other keys prove nothing here, so there must be none: text, empty line, one signature.
    let line = packet
        .signature
        .get(expected.len() + 1..)
        .unwrap_or_default();
    if line.lines().count() != 1 {
        return Err(refused(&"it carries more than one signature"));
    }
    Ok("The packet as a whole is signed by the ledger's key: not one character was changed since it was issued.".to_owned())
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
fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// The JSON pointer to a part of an entry.
fn place(entry: usize, part: &str) -> String {
    let slash = if part.is_empty() { "" } else { "/" };
    format!("/entries/{entry}{slash}{part}")
}
