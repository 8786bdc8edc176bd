//! Finds keys that will soon expire, and tells their owners with `api_key.expiring`.
//!
//! The store keeps when each key's notice is due, and forgets it in the commit that makes the event. So a notice is made once,
//! however many nodes look, and a node that was down makes it late. Invariant: a key that was rotated or revoked is not announced.

mod rule;

use crate::engine::command::{Envelope, EventSeed};
use crate::error::Error;
use crate::limits;
use crate::model::{ApiKeyId, PartnerId};
use crate::service::Service;
use crate::store::read::KeyNotice;

/// Tells the owner of a key that it will expire, if an endpoint listens; either way the notice is no longer due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TellExpiry {
    pub(crate) partner_id: PartnerId,
    pub(crate) api_key_id: ApiKeyId,
    pub(crate) event: EventSeed,
}

/// Keys whose notice is due, with their owners, a page of them: those after `after`. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn due(service: &Service, after: Option<KeyNotice>) -> Result<Vec<KeyNotice>, Error> {
    let now = service.clock().now();
    service.ask(|reader| reader.expiring_keys(now, after, limits::KEYS_LOOKED_AT))
}

/// The command that tells of one of them now.
#[must_use]
pub fn tell(service: &Service, (_, api_key_id, partner_id): KeyNotice) -> Envelope<()> {
    let now = service.clock().now();
    let command = TellExpiry {
        partner_id,
        api_key_id,
        event: super::bookings::event_seed(service, now),
    };
    Envelope::new(now, command)
}
