//! Properties of recorded cancellations: their amounts, their order in time, and that nothing later changes them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::properties::{agreeing, question, terms};
use super::{booking_id, protected};
use crate::model::{Amount, Currency, PartnerId, ResolutionId, Timestamp};
use crate::policy::*;

/// Currencies with zero, two, three and four decimals.
fn currency() -> impl Strategy<Value = Currency> {
    prop::sample::select(vec!["USD", "JPY", "KWD", "CLF"])
        .prop_map(|code| Currency::parse(code).unwrap())
}

/// Terms whose refund only falls towards the event: sorted shares, a grace period, perhaps a deposit.
fn monotone() -> impl Strategy<Value = Terms> {
    let shares = prop::collection::vec(0..=10_000_u16, 1..6);
    let grace = prop::option::of(1..=200_u32);
    let deposit = prop::option::of(0..=10_000_u16);
    let value = (0..=10_000_000_i64, currency());
    (shares, grace, deposit, value, 0..=10_000_u16).prop_map(|(mut shares, grace, deposit, (value, currency), paid)| {
        let amount = |minor| Amount::from_minor(minor, currency).unwrap();
        shares.sort_unstable_by(|a, b| b.cmp(a));
        let last = shares.pop().unwrap();
        let count = shares.len();
        let tiers: Vec<Value> = shares
            .iter()
            .enumerate()
            .map(|(at, bps)| json!({"before": format!("P{}D", (count - at) * 7), "outcome": {"refundBps": bps}}))
            .collect();
        let mut policy = json!({
            "policyId": "p", "organizer": {"tiers": tiers, "late": {"refundBps": last}, "noShow": {"refundBps": 0}}
        });
        if let Some(hours) = grace {
            policy["grace"] = json!({"within": format!("PT{hours}H")});
        }
        if let Some(bps) = deposit {
            policy["deposit"] = json!({"bps": bps, "nonRefundable": true});
        }
        let booked = Booked {
            event_date: EventDate::parse("2026-03-29T02:30:00").unwrap(),
            time_zone: Some("Europe/Berlin"),
            partner_time_zone: None,
            value: amount(value),
            paid: Some(amount(value * i64::from(paid) / 10_000)),
            created_at: Timestamp::parse("2026-01-10T15:00:00Z").unwrap(),
        };
        let policy = Policy::from_json(&policy.to_string()).unwrap();
        Terms::freeze(Some((policy, PolicySource::Booking)), &booked, MissingZone::Refuse).unwrap()
    })
}

fn cancellation(question: &Question) -> Cancellation {
    Cancellation {
        booking_id: booking_id(),
        canceled_at: question.received_at,
        canceled_by: question.actor,
        reason: question.reason,
        note: None,
        effective_at: question.at,
        agreed_refund: question.agreed_refund,
        evidence: vec![NamedDocument::of("k", None, b""); question.evidence],
        evidence_count: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn later_never_refunds_more_under_a_policy_whose_shares_only_fall(
        terms in monotone(), mut moments in prop::collection::vec(0..=100 * 86_400_i64, 2..8),
    ) {
        moments.sort_unstable();
        let mut before: Option<i64> = None;
        for seconds in moments {
            let at = terms.created_at.plus_ms(seconds * 1000);
            let asked = Question {
                mode: Mode::Cancel, actor: Actor::Organizer, reason: None, at: None, received_at: at, evidence: 0,
                agreed_refund: None,
            };
            let Ok(evaluation) = evaluate(&protected(&terms), &asked) else { break };
            let refund = evaluation.refund.unwrap().minor();
            prop_assert!(before.is_none_or(|before| refund <= before), "{before:?} then {refund} at {at}");
            let (penalty, due) = (evaluation.penalty.unwrap().minor(), evaluation.balance_due.unwrap().minor());
            prop_assert!(refund >= 0 && penalty >= 0 && due >= 0);
            prop_assert_eq!(refund + penalty - due, terms.paid.minor());
            before = Some(refund);
        }
    }

    #[test]
    fn a_recorded_cancellation_evaluates_to_the_same_for_ever_and_a_decision_adds_up(
        terms in terms(), question in question(), share in 0..=10_000_i64, again in question(),
    ) {
        let asked = Question { mode: Mode::Cancel, ..agreeing(question, &terms) };
        let cancellation = cancellation(&asked);
        let Ok(evaluation) = evaluate(&protected(&terms), &cancellation.question()) else { return Ok(()) };
        // Read back from what a ledger and a store keep of both.
        let kept: Cancellation = serde_json::from_str(&serde_json::to_string(&cancellation).unwrap()).unwrap();
        let frozen: Terms = serde_json::from_str(&serde_json::to_string(&terms).unwrap()).unwrap();
        prop_assert_eq!(&evaluate(&protected(&frozen), &kept.question()).unwrap(), &evaluation);

        let (partner, id) = (PartnerId::from_bytes([1; 16]), ResolutionId::from_bytes([2; 16]));
        let resolution = Resolution::of(&cancellation, evaluation.clone(), partner, id, true);
        let text = serde_json::to_string(&resolution).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Resolution>(&text).unwrap(), &resolution);
        // Every later question is answered with it.
        let recorded = resolution.recorded();
        let canceled = Subject { standing: Standing::of(true, Some(&recorded)), ..protected(&terms) };
        let asked = Question { mode: Mode::Evaluate, ..again };
        prop_assert_eq!(&evaluate(&canceled, &asked).unwrap(), &evaluation);

        prop_assert_eq!(resolution.status == ResolutionStatus::PendingReview, evaluation.refund.is_none());
        let paid = terms.paid.minor();
        let refund = Amount::from_minor(i64::try_from(i128::from(paid) * i128::from(share) / 10_000).unwrap(), terms.paid.currency());
        let decision = ResolutionDecision {
            refund: refund.unwrap(), decided_by: "d".to_owned(), rationale: "r".to_owned(), decided_at: asked.received_at,
        };
        let decided = resolution.decided(decision.clone(), ResolutionId::from_bytes([3; 16]), &terms).unwrap();
        let sums = [decided.evaluation.refund, decided.evaluation.penalty, decided.evaluation.balance_due];
        let [back, kept, due] = sums.map(|sum| sum.unwrap().minor());
        prop_assert_eq!((back, back + kept, due), (decision.refund.minor(), paid, 0));
        prop_assert_eq!(decided.evaluation.evaluation_status, EvaluationStatus::Final);
        prop_assert!(decided.summary.chars().count() <= 300 && decided.summary.contains("decided after review"));
        let too_much = Amount::from_minor(paid + 1, terms.paid.currency());
        if let Ok(refund) = too_much {
            let decision = ResolutionDecision { refund, ..decision };
            let refused = resolution.decided(decision, ResolutionId::from_bytes([3; 16]), &terms);
            prop_assert_eq!(refused.unwrap_err().code, "refund_exceeds_paid");
        }
    }
}
