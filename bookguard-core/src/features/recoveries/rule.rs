//! Recoveries: go through the events of a period in order, a few at a time, and make each one that was not received due
//! once more.
//!
//! A step is one command. It moves the recovery's position in the log and makes deliveries due in one commit, so an
//! interrupted recovery resumes where it was and recovers nothing twice. The deliveries it makes due have no lease: the
//! courier claims them as it has room. A recovery that only counts takes the same steps and changes nothing else.

use crate::engine::batch::{BatchState, LoggedEvent, PartnerState};
use crate::engine::change::{Change, DeliveryPhase, DeliveryState};
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::features::deliveries::rule::{fresh_delivery, in_flight};
use crate::features::recoveries::{ContinueRecovery, RecoverEvents};
use crate::limits;
use crate::model::{
    DeliveryStatus, Endpoint, EndpointId, EventId, PartnerId, Recovery, RecoveryStatus, Timestamp,
    Unreceived,
};

impl Command for RecoverEvents {
    type Reply = Recovery;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        // The number that begin in one batch is bounded, because the first events of each are loaded. Others begin with
        // their next step.
        if needs.recovering.len() < limits::RECOVERIES_BEGUN {
            needs.log.push((self.partner_id, self.recovery.after_seq));
        }
        let begun = (self.partner_id, self.recovery.created_at);
        needs.recovering.push(begun);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Recovery> {
        let asked = &self.recovery;
        let partner = batch.active_partner(&self.partner_id)?;
        if let Some(endpoint_id) = asked.endpoint_id {
            refuse_endpoint(partner, &endpoint_id)?;
        }
        refuse_more(batch, at, &self.partner_id, asked.dry_run)?;
        let begun = Recovery {
            through_seq: partner.events.max(asked.after_seq),
            ..asked.clone().unbegun()
        };
        let (recovery, mut changes) = RecoveryStep::new(batch, at, partner, begun).step();
        changes.push(Change::RecoveryAdded(
            self.partner_id,
            Box::new(recovery.clone()),
        ));
        Ok((changes, recovery))
    }

    fn brings_new(&self) -> bool {
        true
    }
}

/// Fails unless the partner's endpoint exists and takes deliveries.
fn refuse_endpoint(partner: &PartnerState, endpoint_id: &EndpointId) -> Result<(), Error> {
    match partner.endpoint(endpoint_id) {
        Some(endpoint) if endpoint.enabled => Ok(()),
        Some(_) => Err(conflict!(
            "endpoint_disabled",
            "Webhook endpoint {endpoint_id} is disabled. Bring it back: \
             PATCH /v1/webhook-endpoints/{endpoint_id} with {{\"enabled\": true}}. Then recover."
        )),
        None => Err(endpoint_unknown()),
    }
}

/// The refusal of an `endpointId` that is malformed or none of the caller's endpoints.
pub(crate) fn endpoint_unknown() -> Error {
    Error::fault(
        "/endpointId",
        "endpoint_unknown",
        "names no webhook endpoint",
        "Send the endpointId of one of your endpoints, or leave it out for all of them.",
    )
}

/// Fails while another recovery of the partner is running, or if the partner began the daily maximum: of dry runs if it is one,
/// otherwise of the others.
fn refuse_more(
    batch: &BatchState,
    at: Timestamp,
    partner_id: &PartnerId,
    dry_run: bool,
) -> Result<(), Error> {
    let theirs = || {
        let all = batch.recoveries.values();
        all.filter(|(owner, _)| owner == partner_id)
            .map(|(_, recovery)| recovery)
    };
    if let Some(running) = theirs().find(|recovery| recovery.status == RecoveryStatus::Running) {
        let refused = conflict!(
            "recovery_running",
            "Recovery {} is under way: it has examined the events up to {} of {}. Begin another when it is finished; see \
             GET /v1/webhook-recoveries/{}.",
            running.recovery_id,
            running.reached_seq,
            running.through_seq,
            running.recovery_id
        );
        return Err(refused);
    }
    let day_ago = at.plus_ms(-limits::RECOVERIES_MS);
    let begun = theirs()
        .filter(|recovery| recovery.created_at > day_ago && recovery.dry_run == dry_run)
        .count();
    if begun >= limits::RECOVERIES_PER_DAY {
        let what = if dry_run { "dry runs" } else { "recoveries" };
        return Err(conflict!(
            "too_many_recoveries",
            "The partner began {begun} {what} in the last 24 hours, the most allowed. One examines any number of events: ask \
             for a longer period in one request."
        ));
    }
    Ok(())
}

impl Command for ContinueRecovery {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.recoveries.push(self.recovery_id);
        needs.log.push((self.partner_id, self.after));
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<()> {
        let known = batch.recoveries.get(&self.recovery_id);
        let Some(((owner, recovery), partner)) = known.zip(batch.partners.get(&self.partner_id))
        else {
            return Ok((Vec::new(), ()));
        };
        // Another node has already taken this step.
        let elsewhere =
            recovery.status == RecoveryStatus::Finished || recovery.reached_seq != self.after;
        if *owner != self.partner_id || elsewhere {
            return Ok((Vec::new(), ()));
        }
        let (next, mut changes) = RecoveryStep::new(batch, at, partner, recovery.clone()).step();
        if next != *recovery {
            changes.push(Change::RecoveryUpdated(self.partner_id, Box::new(next)));
        }
        Ok((changes, ()))
    }
}

/// One step of a recovery.
struct RecoveryStep<'a> {
    batch: &'a BatchState,
    /// The current time, but not before the recovery began, even if this node's clock is behind.
    at: Timestamp,
    partner: &'a PartnerState,
    recovery: Recovery,
    /// Whether the recovery begins with this step.
    is_first: bool,
    changes: Vec<Change>,
}

/// A delivery of an event as a recovery sees it.
type KnownDelivery = (EndpointId, DeliveryState);

impl<'a> RecoveryStep<'a> {
    fn new(
        batch: &'a BatchState,
        at: Timestamp,
        partner: &'a PartnerState,
        recovery: Recovery,
    ) -> Self {
        Self {
            batch,
            at: at.max(recovery.created_at),
            partner,
            is_first: !batch.recoveries.contains_key(&recovery.recovery_id),
            recovery,
            changes: Vec::new(),
        }
    }

    /// Examines the next events, up to the maximum of a step.
    fn step(mut self) -> (Recovery, Vec<Change>) {
        let batch = self.batch;
        let mut past = false;
        let rest = self.recovery.reached_seq + 1..=self.recovery.through_seq;
        for next in rest.take(limits::RECOVERED) {
            match batch.log.get(&(self.partner.partner.partner_id, next)) {
                Some(event) if self.recovery.is_past(&event.event_id) => {
                    past = true;
                    break;
                }
                Some(event) if self.recovery.covers(&event.event_id) => {
                    self.recovery.examined += 1;
                    self.recover(event);
                }
                Some(_) => {}
                // It happened after the log was loaded, in the batch in which the recovery begins.
                None if self.is_first => break,
                // Its row is missing: damage that the check of the database reports, and no reason to wait.
                None => {}
            }
            self.recovery.reached_seq = next;
        }
        let over = past || self.recovery.reached_seq == self.recovery.through_seq;
        let recovery = match over {
            true => self.recovery.finished(self.at),
            false => self.recovery,
        };
        (recovery, self.changes)
    }

    /// Makes an unreceived event's failed deliveries due, or if there are none, sends it to endpoints that never had it.
    fn recover(&mut self, event: &LoggedEvent) {
        let deliveries = self.deliveries(event);
        let status = DeliveryStatus::of_event(deliveries.iter().map(|(endpoint_id, state)| {
            let exists = self.partner.endpoint(endpoint_id).is_some();
            (state.phase.into(), exists)
        }));
        let wanted = Unreceived::of(status);
        if !wanted.is_some_and(|status| self.recovery.statuses.contains(&status)) {
            return;
        }
        if event.is_pruned {
            self.recovery.expired += 1;
            return;
        }
        let failed = |(endpoint_id, state): &&KnownDelivery| {
            state.phase == DeliveryPhase::Failed
                && !state.is_exhausted()
                && (self.partner.endpoint(endpoint_id)).is_some_and(|e| e.enabled)
        };
        let mut changes: Vec<Change> = deliveries
            .iter()
            .filter(failed)
            .map(|(endpoint_id, state)| self.again(event.event_id, *endpoint_id, *state))
            .collect();
        if changes.is_empty() {
            changes = self.elsewhere(event);
        }
        if changes.is_empty() {
            self.recovery.no_endpoints += 1;
            return;
        }
        self.recovery.recovered += 1;
        self.recovery.deliveries += changes.len() as u64;
        if !self.recovery.dry_run {
            self.changes.extend(changes);
        }
    }

    /// The event's deliveries that the recovery covers, including those made earlier in this batch.
    fn deliveries(&self, event: &LoggedEvent) -> Vec<KnownDelivery> {
        let all = event.endpoints.iter().copied();
        let all = all.chain(self.made_since(event));
        all.filter(|endpoint_id| self.concerns(endpoint_id))
            .filter_map(|endpoint_id| {
                let state = self.batch.deliveries.get(&(event.event_id, endpoint_id))?;
                Some((endpoint_id, *state))
            })
            .collect()
    }

    fn concerns(&self, endpoint_id: &EndpointId) -> bool {
        let only = self.recovery.endpoint_id.as_ref();
        only.is_none_or(|only| only == endpoint_id)
    }

    /// Makes a delivery due now and restarts its schedule. An attempt in flight is left to end, and a delivery that waits
    /// for its turn keeps its place.
    fn again(&self, event_id: EventId, endpoint_id: EndpointId, state: DeliveryState) -> Change {
        let begun = DeliveryState {
            counted_attempts: 0,
            begun: Some(self.at),
            ..state
        };
        if in_flight(&state, self.at) {
            return Change::DeliveryRenewed((event_id, endpoint_id), begun);
        }
        let state = DeliveryState {
            due: Some(state.due.map_or(self.at, |due| due.min(self.at))),
            since: Some(self.at),
            lease: None,
            ..begun
        };
        Change::DeliveryUpdated((event_id, endpoint_id), state)
    }

    /// New deliveries to the current endpoints that take the event and have had none, up to the maximum per event.
    fn elsewhere(&self, event: &LoggedEvent) -> Vec<Change> {
        let name = |endpoint: &Endpoint| (event.event_id, endpoint.endpoint_id);
        let had = |endpoint: &Endpoint| self.batch.deliveries.contains_key(&name(endpoint));
        let made = self.made_since(event).filter(|id| {
            let name = (event.event_id, *id);
            self.batch.deliveries.contains_key(&name)
        });
        let there = event.endpoints.len() + made.count();
        let endpoints = self.partner.endpoints.iter();
        endpoints
            .filter(|e| e.takes(event.event_type) && self.concerns(&e.endpoint_id) && !had(e))
            .take(limits::DELIVERIES_PER_EVENT.saturating_sub(there))
            .map(|endpoint| {
                let state = fresh_delivery(self.at, (self.at, None), Some(self.at));
                Change::DeliveryAdded(name(endpoint), state)
            })
            .collect()
    }

    /// The current endpoints that had no delivery of the event when the batch began.
    fn made_since<'e>(&'e self, event: &'e LoggedEvent) -> impl Iterator<Item = EndpointId> + 'e {
        let endpoints = self.partner.endpoints.iter().map(|e| e.endpoint_id);
        endpoints.filter(|endpoint_id| !event.endpoints.contains(endpoint_id))
    }
}

#[cfg(test)]
mod tests;
