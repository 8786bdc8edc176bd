//! A booking's frozen terms in the store: their text beside the booking, their policy's once per policy.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::conn::{Arg, Row, StoreError};
use crate::evidence::FrozenTerms;
use crate::evidence::frozen;
use crate::model::Booking;
use crate::policy::{Policy, PolicySource, Terms};

/// Policies remembered: some kilobytes each.
const KNOWN_POLICIES: usize = 256;

/// The terms as they are kept beside their booking.
pub(crate) fn write(terms: &Terms) -> String {
    FrozenTerms::of(terms).stored()
}

/// The terms with which a booking was recorded, from columns `terms` and `hash`.
pub(crate) fn recorded(row: &Row, terms: usize, hash: usize) -> Result<FrozenTerms, StoreError> {
    let mut frozen: FrozenTerms = row.json(terms)?;
    if frozen.source.is_some() {
        frozen.adopted = Some(policy_hash(row, hash)?);
    }
    Ok(frozen)
}

/// Where the policy of those terms came from, if they have one, without reading the rest of them.
pub(crate) fn source(row: &Row, terms: usize) -> Result<Option<PolicySource>, StoreError> {
    #[derive(serde::Deserialize)]
    struct Source {
        source: Option<PolicySource>,
    }
    Ok(row.json::<Source>(terms)?.source)
}

/// The hash by which facts name those terms.
pub(crate) fn hash(row: &Row, terms: usize, hash: usize) -> Result<String, StoreError> {
    let policy_hash = match row.is_null(hash) {
        true => None,
        false => Some(policy_hash(row, hash)?),
    };
    Ok(frozen::hash_of(row.text(terms)?, policy_hash.as_deref()))
}

/// What a policy's hash, `sha256:` and hex digits, begins with.
const HASH: &str = "sha256:";

/// A policy's hash as it is stored: its bytes.
pub(super) fn hash_bytes(policy_hash: &str) -> Arg<'static> {
    let digits = policy_hash.strip_prefix(HASH);
    let bytes = digits.and_then(|digits| hex::decode(digits).ok());
    // Where one belongs, the engine refuses a row without it.
    bytes.map_or(Arg::Null, Arg::from)
}

/// A policy's hash as everybody else knows it, from its column.
pub(super) fn policy_hash(row: &Row, column: usize) -> Result<String, StoreError> {
    let bytes: [u8; 32] = row.bytes(column)?;
    Ok(format!("{HASH}{}", hex::encode(bytes)))
}

/// The terms `booking` is under, with their policy from column `policy`.
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

/// A policy from its text, which thousands of bookings share: read once while it is remembered.
///
/// Remembered by the text itself, not by its hash: what was changed behind our back is another text.
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
