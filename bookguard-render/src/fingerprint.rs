//! The fingerprint of a verifier key, as a person compares it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookguard_core::ledger::VerifierKey;
use sha2::{Digest as _, Sha256};

/// SHA-256 of the 32 bytes of an Ed25519 public key, in lower-case hex, in groups of four digits.
pub fn fingerprint(key: &VerifierKey) -> String {
    let text = key.to_string();
    // `name+id+base64`: the base64 is of one byte for the kind of key, then the key.
    let typed = text
        .splitn(3, '+')
        .nth(2)
        .and_then(|key| STANDARD.decode(key).ok());
    let typed = typed.unwrap_or_default();
    let digest = hex::encode(Sha256::digest(typed.get(1..).unwrap_or_default()));
    let groups: Vec<&str> = (0..digest.len())
        .step_by(4)
        .map(|at| &digest[at..at + 4])
        .collect();
    groups.join(" ")
}
