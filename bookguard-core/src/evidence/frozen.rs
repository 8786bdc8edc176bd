//! A booking's frozen terms, without what the booking's own fields and the policy's text already hold.
//!
//! `booking.created` and `booking.protected` commit to the SHA-256 of this text, so that what was agreed is fixed from the
//! first second; `booking.rescheduled` holds the new terms themselves. The store keeps the text of the first terms, without
//! the policy's hash, which has its own column. Writing is cheap if many rows share a page, so instants are whole seconds
//! and amounts minor units. Invariant: the text is written as canonical JSON (RFC 8785) directly, because every new booking
//! needs it.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::model::{Amount, Booking, Currency, PolicySummary, Timestamp, digest};
use crate::policy::{
    Adopted, Assumption, EventDate, Policy, PolicySource, Rule, Segment, Terms, Zone,
};

/// Rule, first second, last second, refund, penalty.
type Span = (Rule, i64, i64, Option<i64>, Option<i64>);

/// Frozen terms, which name the policy by its hash. Members are in the order of canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenTerms {
    /// Hash of the policy; absent without a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<String>,
    /// What was assumed because it was not given.
    pub assumed: Vec<Assumption>,
    /// The event's date as it was given.
    pub date: EventDate,
    /// Seconds by which the wall clock was ahead of UTC at the deadlines, as in [`Terms::offsets`].
    pub offsets: Vec<i32>,
    /// The organizer's schedule: rule, first second, last second, and refund and penalty in minor units, null where a
    /// person decides.
    pub schedule: Vec<Span>,
    /// Where the policy came from; null without a policy.
    pub source: Option<PolicySource>,
    /// The last second in which a cancellation may be claimed, seconds since 1970.
    pub until: i64,
    /// The wall clock of the terms.
    pub zone: Zone,
}

impl FrozenTerms {
    /// Freezes these terms, without what the booking itself holds.
    pub fn of(terms: &Terms) -> Self {
        let span = |s: &Segment| {
            let (from, to) = (s.from.unix_seconds(), s.to.unix_seconds());
            let (refund, penalty) = (s.refund.map(Amount::minor), s.penalty.map(Amount::minor));
            (s.rule_id, from, to, refund, penalty)
        };
        Self {
            adopted: terms.policy_hash().map(str::to_owned),
            assumed: terms.assumptions.clone(),
            date: terms.event_date,
            offsets: terms.offsets.clone(),
            schedule: terms.schedule.iter().map(span).collect(),
            source: terms.policy.as_ref().map(|policy| policy.policy_source),
            until: terms.claim_until.unix_seconds(),
            zone: terms.time_zone,
        }
    }

    /// The text without the policy's hash, as the store keeps it.
    pub fn stored(mut self) -> String {
        self.adopted = None;
        self.text()
    }

    /// The canonical text.
    pub fn text(&self) -> String {
        serde_json::to_string(self)
            .expect("terms are plain data with string keys, which always serialize")
    }

    /// The hash by which facts name these terms: `sha256:` and the hex digest of [`text`](Self::text).
    pub fn hash(&self) -> String {
        digest::of(self.text())
    }

    /// The terms of `booking`. `policy` is the policy whose hash is `adopted`.
    ///
    /// # Errors
    /// A sentence, if the three do not match or a figure is not an amount.
    pub fn thaw(self, booking: &Booking, policy: Option<Policy>) -> Result<Terms, String> {
        let fault = |what: &str| format!("booking {} has {what}", booking.booking_id);
        if !self.has_sound_offsets() {
            return Err(fault("invalid wall clocks"));
        }
        let policy = match (policy, self.source, self.adopted) {
            (Some(document), Some(policy_source), Some(policy_hash)) => Some(Adopted {
                document,
                policy_hash,
                policy_source,
            }),
            (None, None, None) => None,
            _ => return Err(fault("terms and a policy that do not go together")),
        };
        let (value, paid) = booking.sums().map_err(|why| fault(&why))?;
        let spans = self.schedule.into_iter();
        let schedule: Option<Vec<_>> = spans.map(|span| segment(span, booking.currency)).collect();
        Ok(Terms {
            policy,
            event_date: self.date,
            time_zone: self.zone,
            anchor: booking.event_date,
            value,
            paid,
            created_at: booking.created_at.floor_to_second(),
            claim_until: Timestamp::from_seconds(self.until),
            assumptions: self.assumed,
            schedule: schedule
                .ok_or_else(|| fault("a schedule with a figure that is not an amount"))?,
            offsets: self.offsets,
        })
    }

    /// Whether there is an offset for each deadline, in canonical form, and each is one that a clock on earth can have.
    fn has_sound_offsets(&self) -> bool {
        let offsets = &self.offsets;
        if let Zone::Fixed(_) = self.zone {
            return offsets.is_empty();
        }
        let repeats = matches!(offsets[..], [.., before, last] if before == last);
        (1..=self.schedule.len() + 1).contains(&offsets.len())
            && !repeats
            && offsets
                .iter()
                .all(|seconds| seconds.unsigned_abs() < 24 * 60 * 60)
    }
}

/// Computes [`FrozenTerms::hash`] from the [`FrozenTerms::stored`] text and the policy's hash.
pub fn hash_of(stored: &str, policy_hash: Option<&str>) -> String {
    let mut whole = Sha256::new();
    match policy_hash {
        // Both texts are canonical, and "adopted" is the first member.
        Some(hash) => {
            whole.update(b"{\"adopted\":\"");
            whole.update(hash);
            whole.update(b"\",");
            whole.update(stored.strip_prefix('{').unwrap_or(stored));
        }
        None => whole.update(stored),
    }
    format!("sha256:{}", hex::encode(whole.finalize()))
}

/// The summary of its policy that a booking shows.
pub fn policy_summary(adopted: &Adopted) -> PolicySummary {
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
        let amount = minor.map(|minor| Amount::from_minor(minor, currency));
        amount.transpose().ok()
    };
    Some(Segment {
        rule_id,
        from: Timestamp::from_seconds(from),
        to: Timestamp::from_seconds(to),
        refund: amount(refund)?,
        penalty: amount(penalty)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::verify::tests::fixture::booking;
    use crate::ledger::jcs;
    use crate::policy::{Booked, MissingZone};

    fn terms(policy: Option<Policy>) -> Terms {
        let own = policy.as_ref().and_then(|p| p.document().currency);
        let sum = |text| Amount::parse(text, own.unwrap_or(Currency::USD)).unwrap();
        let booked = Booked {
            event_date: EventDate::parse("2026-06-20T19:00:00").unwrap(),
            time_zone: Some("America/New_York"),
            partner_time_zone: None,
            value: sum("1200.50"),
            paid: None,
            created_at: Timestamp::parse("2026-01-10T15:00:00.123Z").unwrap(),
        };
        let policy = policy.map(|policy| (policy, PolicySource::Named));
        Terms::freeze(policy, &booked, MissingZone::Refuse).unwrap()
    }

    #[test]
    fn the_text_is_canonical_json_and_reads_back_as_the_terms() {
        for id in Policy::template_ids().map(Some).chain([None]) {
            let policy = id.map(|id| Policy::template(id).unwrap().clone());
            let terms = terms(policy.clone());
            let frozen = FrozenTerms::of(&terms);
            let text = frozen.text();
            let value = jcs::parse(&text).unwrap();
            assert_eq!(jcs::to_canonical(&value).unwrap(), text);
            assert_eq!(serde_json::from_str::<FrozenTerms>(&text).unwrap(), frozen);
            assert_eq!(
                hash_of(&frozen.clone().stored(), terms.policy_hash()),
                frozen.hash()
            );

            let mut booking = booking(
                1,
                Timestamp::parse("2026-01-10T15:00:00.123Z").unwrap(),
                &terms,
                None,
            );
            booking.currency = terms.value.currency();
            assert_eq!(frozen.clone().thaw(&booking, policy.clone()), Ok(terms));
            let other = match policy {
                Some(_) => None,
                None => Policy::template("firm").cloned(),
            };
            assert!(frozen.thaw(&booking, other).is_err());
        }
    }
}
