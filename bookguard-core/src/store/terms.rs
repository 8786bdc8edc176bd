//! A booking's frozen terms in the store: their text is with the booking, the text of their policy once per policy.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::conn::{Arg, Row, StoreError};
use crate::evidence::FrozenTerms;
use crate::evidence::frozen;
use crate::model::Booking;
use crate::policy::{Policy, PolicySource, Terms};

/// The number of parsed policies to remember. Each takes some kilobytes.
const KNOWN_POLICIES: usize = 256;

/// The terms as stored with their booking.
pub(crate) fn write(terms: &Terms) -> String {
    FrozenTerms::of(terms).stored()
}

/// The terms with which a booking was recorded, from the columns `terms` and `hash`.
pub(crate) fn recorded(row: &Row, terms: usize, hash: usize) -> Result<FrozenTerms, StoreError> {
    let mut frozen: FrozenTerms = row.json(terms)?;
    if frozen.source.is_some() {
        frozen.adopted = Some(policy_hash(row, hash)?);
    }
    Ok(frozen)
}

/// The source of the policy in the terms, if they have a policy. Reads nothing else of the terms.
pub(crate) fn source(row: &Row, terms: usize) -> Result<Option<PolicySource>, StoreError> {
    #[derive(serde::Deserialize)]
    struct Source {
        source: Option<PolicySource>,
    }
    Ok(row.json::<Source>(terms)?.source)
}

/// The hash by which facts name the terms.
pub(crate) fn hash(row: &Row, terms: usize, hash: usize) -> Result<String, StoreError> {
    let policy_hash = match row.is_null(hash) {
        true => None,
        false => Some(policy_hash(row, hash)?),
    };
    Ok(frozen::hash_of(row.text(terms)?, policy_hash.as_deref()))
}

/// The prefix of a policy's hash, which hex digits follow.
const HASH: &str = "sha256:";

/// A policy's hash as stored: its bytes.
pub(super) fn hash_bytes(policy_hash: &str) -> Arg<'static> {
    let digits = policy_hash.strip_prefix(HASH);
    let bytes = digits.and_then(|digits| hex::decode(digits).ok());
    // The engine refuses null in a column that needs a hash.
    bytes.into()
}

/// A policy's hash in its public form, from its column.
pub(super) fn policy_hash(row: &Row, column: usize) -> Result<String, StoreError> {
    let bytes: [u8; 32] = row.bytes(column)?;
    Ok(format!("{HASH}{}", hex::encode(bytes)))
}

/// The terms that `booking` is under, with their policy from the column `policy`.
pub(crate) fn thaw(
    frozen: FrozenTerms,
    row: &Row,
    booking: &Booking,
    policy: usize,
) -> Result<Terms, StoreError> {
    let policy = match frozen.source {
        None => None,
        Some(_) => Some(known_policy(row.text(policy)?)?),
    };
    frozen.thaw(booking, policy).map_err(StoreError::Corrupt)
}

/// Parses a policy's text, which thousands of bookings may share, or returns the remembered result.
///
/// The cache key is the text itself, not its hash: text that was changed behind our back is other text.
pub(super) fn known_policy(text: &str) -> Result<Policy, StoreError> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Policy>>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(policy) = known().get(text) {
        return Ok(policy.clone());
    }
    let policy = Policy::from_json(text)
        .map_err(|e| StoreError::Corrupt(format!("a policy cannot be read: {e}")))?;
    let mut known = known();
    if known.len() >= KNOWN_POLICIES {
        known.clear();
    }
    known.insert(text.to_owned(), policy.clone());
    Ok(policy)
}
