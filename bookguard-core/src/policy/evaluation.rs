//! An evaluation: the answer of `GET …/policy-evaluation` and the core of a resolution.
//!
//! The specification's four fields come first; the rest is additive. Serde on these types is the HTTP JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::explain::short_distance;
use super::rule::Rule;
use super::schedule::Segment;
use super::words::{
    Actor, Assumption, EvaluationStatus, PolicySource, Reason, ResolutionPath, ReviewReason,
};
use crate::model::{Amount, BookingId, Timestamp};

/// Maximum characters of a summary, which every `resolution.created` event contains.
const SUMMARY_CHARS: usize = 300;

/// The result of a cancellation, possible or recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Evaluation {
    /// The booking.
    pub booking_id: BookingId,
    /// How reliable the result is.
    pub evaluation_status: EvaluationStatus,
    /// What happens to the money.
    pub resolution_path: ResolutionPath,
    /// When the question was asked or the cancellation received.
    pub evaluated_at: Timestamp,
    /// The instant that the result is for, in whole seconds.
    pub as_of: Timestamp,
    /// Who cancels.
    pub canceled_by: Actor,
    /// Why, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Whether the question was about an instant other than the present.
    pub simulated: bool,
    /// Whether a recorded cancellation was repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// What is returned of the amount paid; null when undecided.
    pub refund: Option<Amount>,
    /// What is kept of the value, or owed; null when undecided.
    pub penalty: Option<Amount>,
    /// What the organizer still owes; null when undecided.
    pub balance_due: Option<Amount>,
    /// What the organizer is owed on top of the refund; null when undecided.
    pub compensation: Option<Amount>,
    /// The rule that applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_rule: Option<Rule>,
    /// The explanation, for machines and for people.
    pub explanation: Explanation,
    /// The event's start.
    pub anchor_utc: Timestamp,
    /// The last second of the matched rule, if it has a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_utc: Option<Timestamp>,
    /// When the organizer's refund changes next. A change of the penalty alone, of what is still owed, is only in `schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_change: Option<NextChange>,
    /// The organizer's whole schedule.
    pub schedule: Vec<Segment>,
    /// What was assumed because it was not given.
    pub assumptions: Vec<Assumption>,
    /// Why a person has to decide; empty unless the status is `review_required`.
    pub review_reasons: Vec<ReviewReason>,
    /// The results a person can choose from; empty unless the status is `review_required`.
    pub alternatives: Vec<Alternative>,
    /// The policy; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<EvaluatedPolicy>,
    /// The version of the evaluation rules.
    pub engine_version: String,
}

/// Why an evaluation came out as it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Explanation {
    /// The stable code, in upper case: `TIER`, `LATE`, `GRACE`, …
    pub code: String,
    /// The parts of the text, by name.
    pub params: BTreeMap<String, String>,
    /// The text for people.
    pub text: String,
}

/// When the organizer's refund changes next. A change of the penalty alone, of what is still owed, is only in `schedule`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct NextChange {
    /// The first second of the change.
    pub at: Timestamp,
    /// The refund from then on; null when a person decides.
    pub then_refund: Option<Amount>,
}

/// One way a review can end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Alternative {
    /// The condition under which the review ends this way, for people.
    pub condition: String,
    /// The rule that would apply; absent if none would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<Rule>,
    /// What would happen to the money.
    pub resolution_path: ResolutionPath,
    /// What would be returned; null if the rule does not determine it.
    pub refund: Option<Amount>,
    /// What would be kept or owed; null if the rule does not determine it.
    pub penalty: Option<Amount>,
}

/// The policy of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct EvaluatedPolicy {
    /// The policy's id.
    pub policy_id: String,
    /// Its version.
    pub version: u32,
    /// `sha256:` and the hex digest of its canonical text.
    pub policy_hash: String,
    /// Where it came from.
    pub policy_source: PolicySource,
    /// When it was frozen: the booking's creation.
    pub frozen_at: Timestamp,
}

impl Evaluation {
    /// The resolution in one line of at most 300 characters, without personal data:
    /// `Canceled by organizer 19d 23h before the event: partial_refund. Refund USD 500.00, kept USD 500.00 (firm v1,
    /// organizer.tiers[1], policy sha256:5e43fddcf21b).`
    pub fn summary(&self) -> String {
        let line = self.summary_with(self.policy.as_ref().map(|policy| policy.policy_id.as_str()));
        if line.len() <= SUMMARY_CHARS {
            return line;
        }
        // The longest ids do not fit beside the largest amounts; the hash still identifies the policy.
        self.summary_with(None)
    }

    fn summary_with(&self, policy_id: Option<&str>) -> String {
        let when = short_distance(self.as_of, self.anchor_utc);
        let mut line = format!(
            "Canceled by {} {when}: {}.",
            self.canceled_by, self.resolution_path
        );
        line += &self.sums_in_words();
        let mut sources = Vec::new();
        if let (Some(id), Some(policy)) = (policy_id, &self.policy) {
            sources.push(format!("{id} v{}", policy.version));
        }
        sources.extend(match self.matched_rule {
            Some(rule) => Some(rule.to_string()),
            // A canceled booking has a rule unless a person decided instead.
            None if self.evaluation_status == EvaluationStatus::Final => {
                Some("decided after review".to_owned())
            }
            None => None,
        });
        if let Some(policy) = &self.policy {
            let start = policy.policy_hash.get(..19).unwrap_or_default();
            sources.push(format!("policy {start}"));
        }
        if !sources.is_empty() {
            line += &format!(" ({})", sources.join(", "));
        }
        line + "."
    }

    /// What is kept of the amount paid: the penalty without what is still owed; `None` when undecided.
    pub(crate) fn kept(&self) -> Option<Amount> {
        let penalty = self.penalty?;
        Some(self.balance_due.map_or(penalty, |owed| penalty.less(owed)))
    }

    /// The amounts as a sentence without its full stop, after a space.
    pub(crate) fn sums_in_words(&self) -> String {
        let (Some(refund), Some(kept)) = (self.refund, self.kept()) else {
            return " Amounts to be decided".to_owned();
        };
        let mut words = format!(" Refund {refund}, kept {kept}");
        let extras = [
            ("balance due", self.balance_due),
            ("compensation", self.compensation),
        ];
        for (name, amount) in extras {
            if let Some(amount) = amount.filter(|amount| amount.minor() > 0) {
                words += &format!(", {name} {amount}");
            }
        }
        words
    }
}
