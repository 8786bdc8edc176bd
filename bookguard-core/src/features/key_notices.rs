//! Finds keys that will soon expire, and tells their owners with `api_key.expiring`.
//!
//! The store keeps when each key's notice is due, and forgets it in the commit that makes the event. So a notice is made once,
//! however many nodes look, and a node that was down makes it late. Invariant: a key that was rotated or revoked is not told of.

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided, Envelope, EventSeed, NewEvent};
use crate::engine::needs::Needs;
use crate::entropy;
use crate::error::Error;
use crate::features::deliveries::emit_if_listed;
use crate::limits;
use crate::model::{ApiKeyId, EventId, EventType, PartnerId, Timestamp};
use crate::service::Service;
use crate::webhook::body::{self, Expiry};

/// Tells the owner of a key that it will expire, if an endpoint listens; either way the notice is no longer due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TellExpiry {
    pub(crate) partner_id: PartnerId,
    pub(crate) api_key_id: ApiKeyId,
    pub(crate) event: EventSeed,
}

impl Command for TellExpiry {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.keys.push(self.api_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<()> {
        let mut changes = vec![Change::KeyExpiryTold(self.api_key_id)];
        let Some(state) = batch.keys.get(&self.api_key_id) else {
            // Its row is not genuine: nobody's key. Without a notice, no look finds it again.
            return Ok((changes, ()));
        };
        if state.notice_at.is_none_or(|notice| notice > at) {
            return Ok((Vec::new(), ()));
        }
        let partner = batch.partners.get(&self.partner_id);
        let of = partner.zip(state.key.expires_at.filter(|_| state.key.works(at)));
        if let Some((partner, expires_at)) = of {
            let expiry = Expiry {
                api_key_id: self.api_key_id,
                expires_at,
            };
            let EventSeed { event_id, lease } = self.event;
            let event = || NewEvent {
                event_id,
                event_type: EventType::ApiKeyExpiring,
                head: body::expiring(event_id, self.partner_id, &expiry),
                lease,
            };
            let receivers = partner.receivers(EventType::ApiKeyExpiring);
            emit_if_listed((batch, partner), at, None, &receivers, event, &mut changes);
        }
        Ok((changes, ()))
    }
}

/// Keys whose notice is due, with their owners, a page of them. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn due(service: &Service) -> Result<Vec<(ApiKeyId, PartnerId)>, Error> {
    let mut reader = service.reader()?;
    let keys = reader.expiring_keys(service.clock().now(), limits::KEYS_LOOKED_AT);
    keys.map_err(|e| service.fault(&e))
}

/// The command that tells of one of them now.
#[must_use]
pub fn tell(service: &Service, (api_key_id, partner_id): (ApiKeyId, PartnerId)) -> Envelope<()> {
    let now = service.clock().now();
    let event = EventSeed {
        event_id: EventId::new(now, entropy::bytes()),
        lease: service.lease(),
    };
    let command = TellExpiry {
        partner_id,
        api_key_id,
        event,
    };
    Envelope::new(now, command)
}

#[cfg(test)]
mod tests;
