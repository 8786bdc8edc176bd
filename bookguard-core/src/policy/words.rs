//! The closed vocabularies of policies, evaluations and resolutions. Each enum and its words are defined once, together.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::vocabulary;

vocabulary! {
    /// How reliable an evaluation is.
    EvaluationStatus {
        /// The booking is not protected yet; the numbers are those it would have if it were.
        Provisional = "provisional",
        /// The policy is anchored in the ledger.
        Evaluated = "evaluated",
        /// The facts do not determine the result; the alternatives are shown.
        ReviewRequired = "review_required",
        /// Canceled and recorded.
        Final = "final",
        /// The event is over and its claim window has passed.
        Closed = "closed",
        /// There is no policy to evaluate.
        NotEvaluable = "not_evaluable",
    }
}

#[cfg(feature = "internals")]
impl EvaluationStatus {
    /// What people read in place of an amount that such a result leaves open: `open`, unless nobody can decide it any more.
    pub fn instead_of_amount(self, open: &'static str) -> &'static str {
        match self {
            Self::Closed => "can no longer be claimed",
            _ => open,
        }
    }
}

vocabulary! {
    /// What would happen, or happened, to the money. The service itself never moves any.
    ResolutionPath {
        /// Both sides agreed on a figure.
        MutualAgreement = "mutual_agreement",
        /// A refund and, on top of it, compensation.
        RefundWithCompensation = "refund_with_compensation",
        /// Less was paid than is kept: the difference is owed.
        BalanceDue = "balance_due",
        /// Nothing was paid and nothing is owed.
        NoMoneyDue = "no_money_due",
        /// Everything that was paid is returned.
        FullRefund = "full_refund",
        /// Everything that was paid is kept.
        NoRefund = "no_refund",
        /// A part is returned.
        PartialRefund = "partial_refund",
        /// A person decides.
        ManualReview = "manual_review",
        /// Nothing happens: the claim window has passed, or there is no policy.
        None = "none",
    }
}

vocabulary! {
    /// A side of a booking, both sides together, or the platform.
    Actor {
        /// The side that booked.
        Organizer = "organizer",
        /// The side that is booked.
        Talent = "talent",
        /// The platform.
        Partner = "partner",
        /// Organizer and talent together.
        Mutual = "mutual",
    }
}

vocabulary! {
    /// Why a booking is canceled.
    Reason {
        /// Plans changed.
        ChangedPlans = "changed_plans",
        /// Two engagements at one time.
        ScheduleConflict = "schedule_conflict",
        /// Someone is ill.
        Illness = "illness",
        /// The venue cannot be used.
        VenueUnavailable = "venue_unavailable",
        /// The weather, if it is not force majeure.
        Weather = "weather",
        /// An event that nobody could prevent; has its own rule.
        ForceMajeure = "force_majeure",
        /// Whoever is said to cancel did not come; possible only from the event's start on.
        NoShow = "no_show",
        /// The organizer did not pay; judged as the organizer's cancellation, no matter who calls.
        NonPayment = "non_payment",
        /// Safety.
        Safety = "safety",
        /// Anything else.
        Other = "other",
    }
}

vocabulary! {
    /// Where a booking's policy comes from; the first available source applies.
    PolicySource {
        /// Written on the booking itself.
        Booking = "booking",
        /// Named by the booking's `policyId`.
        Named = "named",
        /// The partner's default for the event type.
        PartnerDefaultForEventType = "partner_default_for_event_type",
        /// The partner's default.
        PartnerDefault = "partner_default",
        /// The library's template for the event type, or its `firm`.
        Library = "library",
    }
}

vocabulary! {
    /// What an evaluation assumes because it was not given.
    Assumption {
        /// No policy was chosen; the library's default was used.
        PolicyAssumedFromLibrary = "policy_assumed_from_library",
        /// A local date without a time zone was read as UTC.
        TimeZoneAssumedUtc = "time_zone_assumed_utc",
        /// The cancellation counts from before it was received, by more than the policy tolerates or across a deadline.
        Backdated = "backdated",
    }
}

vocabulary! {
    /// Why a person has to decide.
    ReviewReason {
        /// The policy requires evidence, and none was given.
        EvidenceMissing = "evidence_missing",
        /// The time zone is unknown, and another one would give another rule.
        TimeZoneAmbiguous = "time_zone_ambiguous",
        /// Another rule would apply at the instant of receipt, or none any more, and no evidence supports the earlier notice.
        BackdatedAcrossDeadline = "backdated_across_deadline",
        /// The policy itself leaves this case to people.
        ManualRule = "manual_rule",
    }
}

vocabulary! {
    /// How far a canceled booking is settled.
    ResolutionStatus {
        /// By the policy, for good.
        Final = "final",
        /// A person has to decide.
        PendingReview = "pending_review",
        /// By a person, for good.
        Decided = "decided",
    }
}

vocabulary! {
    /// How well the ledger backs a resolution.
    EvidenceGrade {
        /// The booking was only recorded; its terms were fixed by their hash alone.
        RecordOnly = "record_only",
        /// The booking was protected: its terms were in the ledger before it was canceled.
        LedgerAnchored = "ledger_anchored",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_as_itself() {
        for (word, reason) in Reason::WORDS {
            assert_eq!(serde_json::to_value(reason).unwrap(), *word);
            assert_eq!(
                serde_json::from_value::<Reason>((*word).into()).unwrap(),
                *reason
            );
            assert_eq!(reason.word(), *word);
        }
        assert_eq!(Actor::WORDS.len(), 4);
        assert!(serde_json::from_str::<Actor>("\"Organizer\"").is_err());
    }
}
