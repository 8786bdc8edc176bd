//! A resolution: the final result of a cancellation, or what a person still has to decide.
//!
//! A pure function of cancellation and evaluation, and later of a decision, so that a verifier can recompute it. Serde on
//! it is the HTTP JSON; the ledger records the same value and is the only place that keeps it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cancellation::Cancellation;
use super::evaluation::{Evaluation, Explanation};
use super::question::Recorded;
use super::terms::Terms;
use super::words::{Actor, EvaluationStatus, EvidenceGrade, Reason, ResolutionStatus};
use crate::error::Error;
use crate::model::{Amount, BookingId, PartnerId, ResolutionId, Timestamp};

/// How a canceled booking is resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Resolution {
    /// Its id.
    pub resolution_id: ResolutionId,
    /// The booking.
    pub booking_id: BookingId,
    /// The partner that owns the booking.
    pub partner_id: PartnerId,
    /// How far the booking is settled.
    pub status: ResolutionStatus,
    /// How well the ledger backs the resolution.
    pub evidence_grade: EvidenceGrade,
    /// Who canceled.
    pub canceled_by: Actor,
    /// Why, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When it was to take effect, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_at: Option<Timestamp>,
    /// When the cancellation was received.
    pub canceled_at: Timestamp,
    /// The pending resolution that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<ResolutionId>,
    /// The decided resolution that replaces this one; never in the ledger, which is append-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<ResolutionId>,
    /// What a person decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ResolutionDecision>,
    /// The resolution in one line of at most 300 characters, without personal data.
    pub summary: String,
    /// The computed result and its explanation; `final`, or `review_required` while a person has to decide.
    pub evaluation: Evaluation,
}

/// What a person decided after a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct ResolutionDecision {
    /// How much of what was paid is returned; the rest is kept.
    pub refund: Amount,
    /// Who decided, in the partner's words. The name of an office or an id is enough.
    pub decided_by: String,
    /// Why.
    pub rationale: String,
    /// When.
    pub decided_at: Timestamp,
}

impl Resolution {
    /// The resolution of a cancellation that was evaluated to `evaluation`.
    pub fn of(
        cancellation: &Cancellation,
        evaluation: Evaluation,
        partner_id: PartnerId,
        resolution_id: ResolutionId,
        protected: bool,
    ) -> Self {
        Self {
            resolution_id,
            booking_id: cancellation.booking_id,
            partner_id,
            status: match evaluation.evaluation_status {
                EvaluationStatus::ReviewRequired => ResolutionStatus::PendingReview,
                _ => ResolutionStatus::Final,
            },
            evidence_grade: if protected {
                EvidenceGrade::LedgerAnchored
            } else {
                EvidenceGrade::RecordOnly
            },
            canceled_by: cancellation.canceled_by,
            reason: cancellation.reason,
            effective_at: cancellation.effective_at,
            canceled_at: cancellation.canceled_at,
            supersedes: None,
            superseded_by: None,
            decision: None,
            summary: evaluation.summary(),
            evaluation,
        }
    }

    /// The resolution that replaces this one once a person decided under the booking's terms.
    ///
    /// # Errors
    /// `refund_exceeds_paid`, `currency_mismatch`; `policy_missing` for terms without a policy; `policy_currency_mismatch`,
    /// which frozen terms never cause.
    pub fn decided(
        &self,
        decision: ResolutionDecision,
        resolution_id: ResolutionId,
        terms: &Terms,
    ) -> Result<Self, Error> {
        let evaluation = decide(&self.evaluation, terms, decision.refund)?;
        Ok(self.decided_as(decision, resolution_id, evaluation))
    }

    /// Does the same as [`Self::decided`] with an evaluation already computed.
    pub(crate) fn decided_as(
        &self,
        decision: ResolutionDecision,
        resolution_id: ResolutionId,
        evaluation: Evaluation,
    ) -> Self {
        Self {
            resolution_id,
            status: ResolutionStatus::Decided,
            supersedes: Some(self.resolution_id),
            superseded_by: None,
            decision: Some(decision),
            summary: evaluation.summary(),
            evaluation,
            ..self.clone()
        }
    }

    /// When it was recorded: when the booking was canceled, or when a person decided.
    pub fn made_at(&self) -> Timestamp {
        self.decision
            .as_ref()
            .map_or(self.canceled_at, |decision| decision.decided_at)
    }

    /// The part of it that evaluation uses.
    pub fn recorded(&self) -> Recorded {
        Recorded {
            canceled_by: self.canceled_by,
            reason: self.reason,
            effective_at: self.effective_at,
            evaluation: self.evaluation.clone(),
        }
    }
}

/// The evaluation of a review that a person ended: `refund` is returned, the rest of what was paid is kept.
fn decide(reviewed: &Evaluation, terms: &Terms, refund: Amount) -> Result<Evaluation, Error> {
    let exceeds = |why: String| Error::invalid("refund_exceeds_paid", why);
    terms.check_refund("refund", refund, exceeds)?;
    let Some(stakes) = terms.stakes()? else {
        return Err(Error::invalid(
            "policy_missing",
            "The booking has no cancellation policy, so there was nothing to review.",
        ));
    };
    let sums = stakes.settle_agreed(refund);
    Ok(Evaluation {
        evaluation_status: EvaluationStatus::Final,
        resolution_path: sums.path_of_sums(),
        refund: Some(sums.refund),
        penalty: Some(sums.penalty),
        balance_due: Some(sums.balance_due),
        compensation: Some(sums.compensation),
        matched_rule: None,
        deadline_utc: None,
        review_reasons: Vec::new(),
        alternatives: Vec::new(),
        explanation: Explanation {
            code: "DECIDED".to_owned(),
            params: BTreeMap::from([
                ("refund".to_owned(), sums.refund.to_string()),
                ("kept".to_owned(), sums.penalty.to_string()),
            ]),
            text: format!(
                "A person decided after a review: {} is returned, {} is kept.",
                sums.refund, sums.penalty
            ),
        },
        ..reviewed.clone()
    })
}
