//! A booking's frozen terms in the store: their text beside the booking, their policy's once per policy.

use super::conn::{Row, StoreError};
use crate::evidence::FrozenTerms;
pub(crate) use crate::evidence::frozen::policy_summary as summary;
use crate::model::Booking;
use crate::policy::{Policy, Terms};

/// The terms as they are kept beside their booking.
pub(crate) fn write(terms: &Terms) -> String {
    FrozenTerms::of(terms).stored()
}

/// The terms of `booking` from columns `terms`, `hash` and `policy`. Gives the booking its policy's summary.
pub(crate) fn read(
    row: &Row,
    booking: &mut Booking,
    terms: usize,
    hash: usize,
    policy: usize,
) -> Result<Terms, StoreError> {
    let mut frozen: FrozenTerms = row.json(terms)?;
    let policy = match frozen.source {
        None => None,
        Some(_) => {
            frozen.adopted = Some(row.text(hash)?.to_owned());
            let policy = Policy::from_json(row.text(policy)?)
                .map_err(|e| StoreError::Corrupt(format!("a policy cannot be read: {e}")))?;
            Some(policy)
        }
    };
    let terms = frozen.thaw(booking, policy).map_err(StoreError::Corrupt)?;
    booking.policy = terms.policy.as_ref().map(summary);
    Ok(terms)
}
