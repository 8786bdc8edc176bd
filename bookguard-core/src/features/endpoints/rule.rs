//! Creates, changes, enables and deletes endpoints, and rotates the secrets that sign webhooks.

use std::iter;

use super::health;
use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::{Error, Kind, conflict};
use crate::features::attempts::AttemptRecord;
use crate::features::endpoints::secrets::{RotateSecret, RotatedSecret};
use crate::features::endpoints::testing::TestEndpoint;
use crate::features::endpoints::update::UpdateEndpoint;
use crate::features::endpoints::{CreateEndpoint, DeleteEndpoint, EndpointKept, NewSecret};
use crate::features::partners::rule::quota;
use crate::limits;
use crate::model::{Endpoint, EndpointHealth, EndpointId, EndpointStatus, PartnerId, Timestamp};
use crate::webhook::SecretTerm;
use crate::webhook::keyring::first_valid;

impl Command for CreateEndpoint {
    type Reply = EndpointKept;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.adding.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<EndpointKept> {
        let deleted = batch.unverified_deleted.get(&self.partner_id).copied();
        let (endpoint, secret) = (self.endpoint.clone(), self.secret.as_ref());
        let health = health::added(endpoint.health(), at, deleted);
        let endpoint = endpoint.with_health(health);
        let state = batch.active_partner(&self.partner_id)?;
        if state.endpoints.len() >= limits::ENDPOINTS_PER_PARTNER {
            return Err(conflict!(
                "too_many_endpoints",
                "The partner has {} webhook endpoints, the most allowed. Delete one first.",
                state.endpoints.len()
            ));
        }
        refuse_duplicate(&state.endpoints, &endpoint.url)?;
        quota::admit_endpoint(batch, state, endpoint.created_at)?;
        let mut changes = vec![Change::EndpointAdded(
            self.partner_id,
            Box::new(endpoint.clone()),
        )];
        changes.extend(secret.map(|new| Change::SecretAdded {
            owner: *endpoint.endpoint_id.as_bytes(),
            term: SecretTerm::at_once(endpoint.created_at),
            sealed: new.sealed.clone(),
        }));
        let kept = EndpointKept {
            endpoint,
            secret: secret.map(|new| new.secret.reveal().to_owned()),
            switches_at: None,
        };
        Ok((changes, kept))
    }

    fn brings_new(&self) -> bool {
        true
    }
}

/// Refuses an address that already has an endpoint: its receiver would get every event twice. A disabled endpoint counts,
/// because it can be enabled again.
fn refuse_duplicate(endpoints: &[Endpoint], url: &str) -> Result<(), Error> {
    let Some(there) = endpoints.iter().find(|endpoint| endpoint.url == url) else {
        return Ok(());
    };
    let id = there.endpoint_id;
    Err(conflict!(
        "duplicate_endpoint",
        "Webhook endpoint {id} already has this address. Change that one with PATCH /v1/webhook-endpoints/{id}, or delete \
         it first."
    ))
}

/// The partner's endpoint, unless it is deleted.
fn find(
    batch: &BatchState,
    partner_id: PartnerId,
    endpoint_id: EndpointId,
) -> Result<&Endpoint, Error> {
    let partner = batch.partners.get(&partner_id);
    let endpoint = partner.and_then(|partner| partner.endpoint(&endpoint_id));
    endpoint.ok_or_else(|| Error::not_found("webhook endpoint"))
}

impl Command for UpdateEndpoint {
    type Reply = EndpointKept;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<EndpointKept> {
        let (partner_id, endpoint_id) = (self.partner_id, self.endpoint_id);
        let update = &self.changes;
        let old = find(batch, partner_id, endpoint_id)?;
        let mut new = old.clone();
        let other = update.url.as_ref().filter(|url| **url != old.url);
        if let Some(url) = other {
            refuse_duplicate(&batch.partners[&partner_id].endpoints, url)?;
            new.url.clone_from(url);
            // Later than the last change, whatever the clock says: attempts tell by this which address was the later one.
            let after_last = old.moved_at.map(|last| last.plus_ms(1));
            new.moved_at = after_last.max(Some(at));
        }
        if let Some(events) = &update.events {
            new.events.clone_from(events);
        }
        if let Some(description) = &update.description {
            new.description.clone_from(description);
        }
        if let Some(limit) = update.rate_limit_per_second {
            new.rate_limit_per_second = limit;
        }
        let health = health::decided(
            old.health(),
            at,
            update.enabled,
            other.map(|_| self.verifies),
        );
        let new = new.with_health(health);
        let mut changes = Vec::new();
        let (new, given) = own_secret(at, new, self, &mut changes);
        changes.extend(Change::of_health(endpoint_id, old.health(), health));
        let takes_others = new.events != old.events || new.enabled != old.enabled;
        if takes_others || new.clone().with_health(old.health()) != *old {
            changes.push(Change::EndpointChanged {
                endpoint: Box::new(new.clone()),
                since: takes_others.then_some(at),
            });
        }
        let kept = EndpointKept {
            endpoint: new,
            secret: given.map(|(secret, _)| secret.secret.reveal().to_owned()),
            switches_at: given.map(|(_, term)| term.from),
        };
        Ok((changes, kept))
    }
}

/// Gives the endpoint its own secret, or takes it away, if that changes anything. Returns the secret given.
fn own_secret<'u>(
    at: Timestamp,
    endpoint: Endpoint,
    update: &'u UpdateEndpoint,
    changes: &mut Vec<Change>,
) -> (Endpoint, Option<(&'u NewSecret, SecretTerm)>) {
    let owner = *endpoint.endpoint_id.as_bytes();
    match (
        &update.secret,
        update.changes.own_secret,
        endpoint.own_secret,
    ) {
        (Some(new), _, false) => {
            // The receiver knows the partner's secret and must learn this one first.
            let term = SecretTerm {
                made: at,
                from: at.plus_ms(limits::SECRET_OVERLAP_DEFAULT_MS),
            };
            changes.push(Change::SecretAdded {
                owner,
                term,
                sealed: new.sealed.clone(),
            });
            let endpoint = Endpoint {
                own_secret: true,
                ..endpoint
            };
            (endpoint, Some((new, term)))
        }
        (None, Some(false), true) => {
            changes.push(Change::SecretsForgotten {
                owner,
                made_before: None,
            });
            let endpoint = Endpoint {
                own_secret: false,
                ..endpoint
            };
            (endpoint, None)
        }
        _ => (endpoint, None),
    }
}

/// Writes the answer to remember, and, if the endpoint is unverified, when it may be tried next.
impl Command for TestEndpoint {
    type Reply = AttemptRecord;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<AttemptRecord> {
        let endpoint_id = self.endpoint_id;
        let before = find(batch, self.partner_id, endpoint_id)?.health();
        if before.unverified_since.is_some() && !before.status.takes_events() {
            return Err(conflict!(
                "endpoint_disabled",
                "Webhook endpoint {endpoint_id} is disabled and has not accepted a delivery yet. Enable it: \
                 PATCH /v1/webhook-endpoints/{endpoint_id} with {{\"enabled\": true}}. Then test it."
            ));
        }
        let health = health::tested(before, at).map_err(|ms| too_soon(endpoint_id, ms))?;
        let changes = Change::of_health(endpoint_id, before, health);
        Ok((changes.into_iter().collect(), self.unknown(at)))
    }
}

/// Refuses a test of an unverified endpoint, which may be tried again in `ms` milliseconds.
fn too_soon(endpoint_id: EndpointId, ms: i64) -> Error {
    let seconds = u32::try_from(ms.cast_unsigned().div_ceil(1000)).unwrap_or(u32::MAX);
    let message = format!(
        "Webhook endpoint {endpoint_id} has not accepted a delivery yet, so deliveries and tests go there six a minute at \
         most. Try again in {seconds} s."
    );
    Error {
        retry_after_s: Some(seconds),
        ..Error::new(Kind::RateLimited, "rate_limited", message)
    }
}

impl Command for DeleteEndpoint {
    type Reply = Endpoint;

    fn only_ends(&self) -> bool {
        true
    }

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Endpoint> {
        let endpoint_id = self.endpoint_id;
        let endpoint = match (find(batch, self.partner_id, endpoint_id), &self.before) {
            (Ok(endpoint), _) => endpoint,
            // It is deleted, perhaps by the same request, which a proxy sent again.
            (Err(_), Some(before)) => return Ok((Vec::new(), ended(before))),
            (Err(unknown), None) => return Err(unknown),
        };
        Ok((deleted(endpoint, at).collect(), ended(endpoint)))
    }
}

/// The changes by which an endpoint is deleted, and its own secrets with it.
pub(crate) fn deleted(endpoint: &Endpoint, at: Timestamp) -> impl Iterator<Item = Change> + use<> {
    let endpoint_id = endpoint.endpoint_id;
    let secrets = endpoint.own_secret.then(|| Change::SecretsForgotten {
        owner: *endpoint_id.as_bytes(),
        made_before: None,
    });
    iter::once(Change::EndpointDeleted(endpoint_id, at)).chain(secrets)
}

/// What is shown of an endpoint that is deleted: the same as of one that is disabled.
fn ended(endpoint: &Endpoint) -> Endpoint {
    let health = EndpointHealth {
        unverified_since: endpoint.unverified_since,
        ..EndpointHealth::of(EndpointStatus::Disabled)
    };
    endpoint.clone().with_health(health)
}

impl Command for RotateSecret {
    type Reply = RotatedSecret;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        let endpoint = self.endpoint_id.as_ref().map(EndpointId::as_bytes);
        let owner = endpoint.unwrap_or(self.partner_id.as_bytes());
        needs.secret_owners.push(*owner);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<RotatedSecret> {
        let owner = secret_owner(batch, self.partner_id, self.endpoint_id)?;
        let terms = batch.secrets.get(&owner).map_or(&[][..], Vec::as_slice);
        let valid = &terms[first_valid(terms, at).unwrap_or(0)..];
        if self.overlap_ms > 0 && valid.len() >= limits::SECRETS_VALID {
            return Err(conflict!(
                "too_many_secrets",
                "{} secrets sign at present, the most allowed. Wait until the next takes over, or send \"overlapSeconds\": 0, \
                 which ends them all at once.",
                valid.len()
            ));
        }
        // The secret made last always takes over in the end, even if the clock was set back since the one before.
        let made = terms.last().map_or(at, |last| at.max(last.made.plus_ms(1)));
        let term = SecretTerm {
            made,
            from: made.plus_ms(self.overlap_ms),
        };
        let kept = if self.overlap_ms == 0 {
            None
        } else {
            valid.first()
        };
        let made_before = kept.map_or(made, |first| first.made);
        let mut changes = Vec::new();
        if terms.first().is_some_and(|first| first.made < made_before) {
            changes.push(Change::SecretsForgotten {
                owner,
                made_before: Some(made_before),
            });
        }
        changes.push(Change::SecretAdded {
            owner,
            term,
            sealed: self.secret.sealed.clone(),
        });
        let rotated = RotatedSecret {
            secret: self.secret.secret.reveal().to_owned(),
            switches_at: term.from,
        };
        Ok((changes, rotated))
    }
}

fn secret_owner(
    batch: &BatchState,
    partner_id: PartnerId,
    endpoint_id: Option<EndpointId>,
) -> Result<[u8; 16], Error> {
    let Some(endpoint_id) = endpoint_id else {
        batch.active_partner(&partner_id)?;
        return Ok(*partner_id.as_bytes());
    };
    if !find(batch, partner_id, endpoint_id)?.own_secret {
        return Err(conflict!(
            "no_own_secret",
            "Webhook endpoint {endpoint_id} has no secret of its own; its deliveries are signed with the partner's. Rotate that \
             with POST /v1/partners/me/rotate-secret, or give the endpoint its own: PATCH /v1/webhook-endpoints/{endpoint_id} with \
             {{\"ownSecret\": true}}."
        ));
    }
    Ok(*endpoint_id.as_bytes())
}

#[cfg(test)]
mod tests;
