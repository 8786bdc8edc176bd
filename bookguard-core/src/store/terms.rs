//! A booking's frozen terms as the store keeps them: only what neither the booking's own row nor its policy's says.
//!
//! Rows that share a page are what makes writing cheap, so instants are whole seconds, amounts minor units, and the
//! policy's text stands once per policy.

use serde::{Deserialize, Serialize};

use super::conn::{Row, StoreError};
use crate::model::{Amount, Booking, Currency, PolicySummary, Timestamp};
use crate::policy::{
    Adopted, Assumption, EventDate, Policy, PolicySource, Rule, Segment, Terms, Zone,
};

/// Rule, first second, last second, refund, penalty.
type Span = (Rule, i64, i64, Option<i64>, Option<i64>);

#[derive(Serialize, Deserialize)]
struct Stored {
    source: Option<PolicySource>,
    date: EventDate,
    zone: Zone,
    until: i64,
    assumed: Vec<Assumption>,
    schedule: Vec<Span>,
}

/// The terms as they are kept beside their booking.
pub(crate) fn write(terms: &Terms) -> String {
    let stored = Stored {
        source: terms.policy.as_ref().map(|policy| policy.policy_source),
        date: terms.event_date,
        zone: terms.time_zone,
        until: terms.claim_until.unix_seconds(),
        assumed: terms.assumptions.clone(),
        schedule: terms
            .schedule
            .iter()
            .map(|s| {
                let (from, to) = (s.from.unix_seconds(), s.to.unix_seconds());
                (
                    s.rule_id,
                    from,
                    to,
                    s.refund.map(Amount::minor),
                    s.penalty.map(Amount::minor),
                )
            })
            .collect(),
    };
    serde_json::to_string(&stored)
        .expect("terms are plain data with string keys, which always serialize")
}

/// The terms of `booking` from columns `terms`, `hash` and `policy`. Gives the booking its policy's summary.
pub(crate) fn read(
    row: &Row,
    booking: &mut Booking,
    terms: usize,
    hash: usize,
    policy: usize,
) -> Result<Terms, StoreError> {
    let stored: Stored = row.json(terms)?;
    let policy = match stored.source {
        None => None,
        Some(policy_source) => Some(Adopted {
            document: Policy::from_json(row.text(policy)?)
                .map_err(|e| StoreError::Corrupt(format!("a policy cannot be read: {e}")))?,
            policy_hash: row.text(hash)?.to_owned(),
            policy_source,
        }),
    };
    booking.policy = policy.as_ref().map(summary);
    let amounts = |what: &str| {
        StoreError::Corrupt(format!(
            "booking {} has {what} that is no amount",
            booking.booking_id
        ))
    };
    let value = booking.value().ok_or_else(|| amounts("a value"))?;
    let paid = match &booking.amount_paid {
        Some(paid) => Amount::parse(&paid.to_string(), booking.currency)
            .map_err(|_| amounts("an amount paid"))?,
        None => value,
    };
    let schedule = stored
        .schedule
        .into_iter()
        .map(|s| segment(s, booking.currency))
        .collect::<Option<Vec<_>>>();
    Ok(Terms {
        policy,
        event_date: stored.date,
        time_zone: stored.zone,
        anchor: booking.event_date,
        value,
        paid,
        created_at: booking.created_at.floor_to_second(),
        claim_until: seconds(stored.until),
        assumptions: stored.assumed,
        schedule: schedule.ok_or_else(|| amounts("a schedule with a figure"))?,
    })
}

/// What a booking shows of its policy.
pub(crate) fn summary(adopted: &Adopted) -> PolicySummary {
    let document = adopted.document.document();
    PolicySummary {
        policy_id: document.policy_id.clone(),
        version: document.version,
        policy_hash: adopted.policy_hash.clone(),
        policy_source: adopted.policy_source.word().to_owned(),
    }
}

fn segment((rule_id, from, to, refund, penalty): Span, currency: Currency) -> Option<Segment> {
    let amount = |minor: Option<i64>| {
        minor
            .map(|minor| Amount::from_minor(minor, currency))
            .transpose()
            .ok()
    };
    Some(Segment {
        rule_id,
        from: seconds(from),
        to: seconds(to),
        refund: amount(refund)?,
        penalty: amount(penalty)?,
    })
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_ms(seconds.saturating_mul(1000))
}
