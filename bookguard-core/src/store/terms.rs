//! A booking's frozen terms as the store keeps them: without the policy's text, which stands once per policy.

use serde::{Deserialize, Serialize};

use super::conn::{Row, StoreError};
use crate::model::{Amount, Timestamp};
use crate::policy::{Adopted, Assumption, EventDate, Policy, PolicySource, Segment, Terms, Zone};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored<A, S> {
    policy_source: Option<PolicySource>,
    event_date: EventDate,
    time_zone: Zone,
    anchor: Timestamp,
    value: Amount,
    paid: Amount,
    created_at: Timestamp,
    claim_until: Timestamp,
    assumptions: A,
    schedule: S,
}

/// The terms without their policy's text.
pub(crate) fn write(terms: &Terms) -> String {
    let stored = Stored {
        policy_source: terms.policy.as_ref().map(|policy| policy.policy_source),
        event_date: terms.event_date,
        time_zone: terms.time_zone,
        anchor: terms.anchor,
        value: terms.value,
        paid: terms.paid,
        created_at: terms.created_at,
        claim_until: terms.claim_until,
        assumptions: terms.assumptions.as_slice(),
        schedule: terms.schedule.as_slice(),
    };
    serde_json::to_string(&stored)
        .expect("terms are plain data with string keys, which always serialize")
}

/// The terms in column `terms`, with the policy whose hash and text are in columns `hash` and `policy`.
pub(crate) fn read(
    row: &Row,
    terms: usize,
    hash: usize,
    policy: usize,
) -> Result<Terms, StoreError> {
    let stored: Stored<Vec<Assumption>, Vec<Segment>> = row.json(terms)?;
    let policy = match stored.policy_source {
        None => None,
        Some(policy_source) => Some(Adopted {
            document: Policy::from_json(row.text(policy)?)
                .map_err(|e| StoreError::Corrupt(format!("a policy cannot be read: {e}")))?,
            policy_hash: row.text(hash)?.to_owned(),
            policy_source,
        }),
    };
    Ok(Terms {
        policy,
        event_date: stored.event_date,
        time_zone: stored.time_zone,
        anchor: stored.anchor,
        value: stored.value,
        paid: stored.paid,
        created_at: stored.created_at,
        claim_until: stored.claim_until,
        assumptions: stored.assumptions,
        schedule: stored.schedule,
    })
}
