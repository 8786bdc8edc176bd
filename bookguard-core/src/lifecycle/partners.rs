//! Partners and their keys.

use super::Decided;
use crate::change::Change;
use crate::command::{NewApiKey, NewKey, Registration, Reply};
use crate::error::{Error, Kind};
use crate::limits;
use crate::model::{ApiKey, ApiKeyId, Partner, PartnerId, PartnerStatus, Scope, Scopes, Timestamp};
use crate::work::Work;

pub(super) fn register(
    partner: &Partner,
    secret: &[u8],
    key: Option<&NewKey>,
    reply: &Registration,
) -> (Vec<Change>, Reply) {
    let mut changes = vec![Change::PartnerAdded {
        partner: Box::new(partner.clone()),
        secret: secret.to_vec(),
    }];
    if let Some(key) = key {
        changes.push(key_added(partner.partner_id, key));
    }
    (changes, Reply::Registered(Box::new(reply.clone())))
}

pub(super) fn approve(
    work: &Work,
    partner_id: PartnerId,
    key: &NewKey,
    reply: &Registration,
) -> Decided {
    let state = work
        .partners
        .get(&partner_id)
        .ok_or_else(|| Error::not_found("partner"))?;
    if state.partner.status != PartnerStatus::Pending {
        return Err(Error::conflict(
            "partner_not_pending",
            format!(
                "Partner {partner_id} is approved already; create further keys with api-keys create."
            ),
        ));
    }
    let changes = vec![
        Change::PartnerMoved {
            partner_id,
            status: PartnerStatus::Active,
        },
        key_added(partner_id, key),
    ];
    Ok((changes, Reply::Registered(Box::new(reply.clone()))))
}

pub(super) fn create_key(
    work: &Work,
    partner_id: PartnerId,
    key: &NewKey,
    reply: &NewApiKey,
) -> Decided {
    let state = work
        .active_partner(&partner_id)
        .ok_or_else(|| Error::not_found("partner"))?;
    if state.live_keys >= limits::KEYS_PER_PARTNER {
        return Err(Error::conflict(
            "too_many_keys",
            format!(
                "The partner has {} keys, the most allowed. Revoke one first.",
                state.live_keys
            ),
        ));
    }
    Ok((
        vec![key_added(partner_id, key)],
        Reply::KeyCreated(Box::new(reply.clone())),
    ))
}

pub(super) fn revoke_key(
    work: &Work,
    at: Timestamp,
    partner_id: PartnerId,
    api_key_id: ApiKeyId,
    by: Option<&Scopes>,
) -> Decided {
    let state = work
        .keys
        .get(&api_key_id)
        .filter(|state| state.partner_id == partner_id)
        .ok_or_else(|| Error::not_found("API key"))?;
    let mut key = state.key.clone();
    if key.revoked_at.is_some() {
        return Ok((Vec::new(), Reply::KeyRevoked(Box::new(key))));
    }
    if let Some(by) = by {
        let beyond = by.lacks(&key.scopes);
        if !beyond.is_empty() {
            return Err(Error::new(
                Kind::Forbidden,
                "insufficient_scope",
                format!(
                    "This key cannot revoke a key that holds scopes it does not hold itself: {}. Use a key that holds them.",
                    beyond.join(", ")
                ),
            ));
        }
        let manages =
            |key: &ApiKey| key.revoked_at.is_none() && key.scopes.allow(Scope::ApiKeysWrite);
        let of_partner = work
            .keys
            .values()
            .filter(|state| state.partner_id == partner_id);
        if manages(&key) && of_partner.filter(|state| manages(&state.key)).count() == 1 {
            return Err(Error::conflict(
                "last_managing_key",
                "This is the partner's last active key with the scope api-keys:write. Create another with that scope first, \
                 or have the operator revoke this one.",
            ));
        }
    }
    key.revoked_at = Some(at);
    Ok((
        vec![Change::KeyRevoked { api_key_id, at }],
        Reply::KeyRevoked(Box::new(key)),
    ))
}

fn key_added(partner_id: PartnerId, key: &NewKey) -> Change {
    Change::KeyAdded {
        partner_id,
        key: Box::new(key.clone()),
    }
}
