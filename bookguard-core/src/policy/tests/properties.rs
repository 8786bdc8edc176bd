//! Properties of freezing and evaluating: for any policy that the reader accepts, any facts and any question.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{booking_id, protected};
use crate::model::{Amount, Currency, Timestamp};
use crate::policy::*;

fn split() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..=10_000_u16).prop_map(|bps| json!({"refundBps": bps})),
        (0..=10_000_u16, 0..=10_000_u16)
            .prop_map(|(a, b)| json!({"refundBps": a, "compensationBps": b})),
        (0..=2_000_u32).prop_map(|n| json!({"penaltyAmount": n.to_string()})),
        Just(json!({"keepDeposit": true})),
    ]
}

fn outcome() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => split(),
        1 => prop::collection::vec(split(), 2..=4).prop_map(|all| json!({"lesserOf": all})),
        1 => prop::collection::vec(split(), 2..=4).prop_map(|all| json!({"greaterOf": all})),
        1 => Just(json!({"manual": true})),
    ]
}

fn duration() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..=400_u32).prop_map(|d| format!("P{d}D")),
        (0..=200_u32).prop_map(|h| format!("PT{h}H")),
        (0..=9_u32, 0..=9_u32, 0..=50_u32, 0..=90_u32)
            .prop_map(|(w, d, h, m)| format!("P{w}W{d}DT{h}H{m}M")),
        Just("P999W9999DT99999H9999M".to_owned()),
    ]
}

fn time_of_day() -> impl Strategy<Value = String> {
    (0..24_u32, 0..60_u32).prop_map(|(h, m)| format!("{h:02}:{m:02}"))
}

fn policy(currency: &'static str) -> impl Strategy<Value = Policy> {
    let tier = (
        duration(),
        prop::option::weighted(0.2, time_of_day()),
        outcome(),
    );
    let rules = (
        prop::collection::vec(tier, 0..5),
        outcome(),
        outcome(),
        outcome(),
        outcome(),
    );
    let deposit = prop::option::of((0..=10_000_u16, any::<bool>()));
    let grace = prop::option::of((duration(), prop::option::of(duration())));
    let rest = (
        time_of_day(),
        duration(),
        prop::sample::select(vec!["half_up", "half_even", "down", "up"]),
        any::<bool>(),
    );
    (rules, deposit, grace, rest).prop_filter_map("the reader refuses it", move |(rules, deposit, grace, rest)| {
        let (mut tiers, late, no_show, talent, force) = rules;
        let length = |text: &str| Duration::parse(text).map(|d| d.nominal_minutes());
        tiers.sort_by_key(|(before, ..)| std::cmp::Reverse(length(before)));
        tiers.dedup_by_key(|(before, ..)| length(before));
        let tiers: Vec<Value> = tiers
            .into_iter()
            .map(|(before, cutoff, outcome)| {
                let mut tier = json!({"before": before, "outcome": outcome});
                if let Some(cutoff) = cutoff {
                    tier["cutoffTime"] = cutoff.into();
                }
                tier
            })
            .collect();
        let (anchor_time, claim_window, rounding, keep) = rest;
        let mut policy = json!({
            "policyId": "p", "currency": currency, "anchorTime": anchor_time, "claimWindow": claim_window, "rounding": rounding,
            "organizer": {"tiers": tiers, "late": late, "noShow": no_show},
            "talent": {"cancel": talent}, "forceMajeure": {"outcome": force},
            "reschedule": {"floor": if keep { "keep_reached_tier" } else { "reset" }},
        });
        if let Some((bps, kept)) = deposit {
            policy["deposit"] = json!({"bps": bps, "nonRefundable": kept});
        }
        if let Some((within, notice)) = grace {
            policy["grace"] = json!({"within": within});
            if let Some(notice) = notice {
                policy["grace"]["minNotice"] = notice.into();
            }
        }
        Policy::from_json(&policy.to_string()).ok()
    })
}

/// Seconds around the year 2026, and sometimes the first and last possible instants.
pub(super) fn instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        20 => (1_700_000_000_000..1_860_000_000_000_i64).prop_map(Timestamp::from_ms),
        1 => Just(Timestamp::from_ms(i64::MIN)),
        1 => Just(Timestamp::from_ms(i64::MAX)),
    ]
}

fn event_date() -> impl Strategy<Value = EventDate> {
    (instant(), 0..3_usize).prop_map(|(at, form)| {
        let text = at.to_string();
        let end = [text.len(), 19, 10][form];
        EventDate::parse(&text[..end]).unwrap()
    })
}

/// Currencies with zero, two, three and four decimals.
fn currency() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["JPY", "USD", "KWD", "CLF"])
}

pub(super) fn terms() -> impl Strategy<Value = Terms> {
    currency().prop_flat_map(terms_in)
}

fn terms_in(code: &'static str) -> impl Strategy<Value = Terms> {
    let zones = vec![
        None,
        Some("America/New_York"),
        Some("Australia/Lord_Howe"),
        Some("Pacific/Apia"),
        Some("Africa/Casablanca"),
    ];
    let sums = (
        0..=999_999_999_999_999_i64,
        prop::option::of(0..=2_000_i64),
        any::<bool>(),
    );
    (
        policy(code),
        event_date(),
        prop::sample::select(zones),
        sums,
        instant(),
    )
        .prop_map(
            move |(policy, event_date, time_zone, (value, paid, small), created_at)| {
                let amount =
                    |minor| Amount::from_minor(minor, Currency::parse(code).unwrap()).unwrap();
                let booked = Booked {
                    event_date,
                    time_zone,
                    partner_time_zone: None,
                    value: amount(if small { value % 3_000 } else { value }),
                    paid: paid.map(amount),
                    created_at,
                };
                Terms::freeze(
                    Some((policy, PolicySource::Booking)),
                    &booked,
                    MissingZone::AssumeUtc,
                )
                .unwrap()
            },
        )
}

pub(super) fn question() -> impl Strategy<Value = Question> {
    let actors = prop::sample::select(Actor::WORDS).prop_map(|(_, actor)| actor);
    let reasons =
        prop::option::of(prop::sample::select(Reason::WORDS).prop_map(|(_, reason)| reason));
    (
        any::<bool>(),
        actors,
        reasons,
        prop::option::of(instant()),
        instant(),
        0..2_usize,
    )
        .prop_map(
            |(cancel, actor, reason, at, received_at, evidence)| Question {
                mode: if cancel { Mode::Cancel } else { Mode::Evaluate },
                actor,
                reason,
                at,
                received_at,
                evidence,
                agreed_refund: None,
            },
        )
}

/// The question with a refund that both sides agree on, in the currency of the terms.
pub(super) fn agreeing(question: Question, terms: &Terms) -> Question {
    let one = Amount::from_minor(1, terms.paid.currency()).unwrap();
    Question {
        agreed_refund: Some(one),
        ..question
    }
}

/// The organizer's rule straight from the design: grace, otherwise the first tier whose deadline has not passed.
fn by_the_book(terms: &Terms, at: Timestamp) -> Rule {
    let document = terms.policy.as_ref().unwrap().document.document();
    let (zone, anchor, created) = (terms.time_zone, terms.anchor, terms.created_at);
    if let Some(grace) = &document.grace {
        let ahead = grace
            .min_notice
            .as_ref()
            .is_none_or(|notice| created <= zone.before(anchor, notice));
        if at < anchor && at <= zone.after(created, &grace.within) && ahead {
            return Rule::Grace;
        }
    }
    for (tier, index) in document.organizer.tiers.iter().zip(0_u8..) {
        let deadline = match tier.cutoff_time {
            Some(time) => zone.cutoff(anchor, &tier.before, time),
            None => zone.before(anchor, &tier.before),
        };
        if at <= deadline {
            return Rule::Tier(index);
        }
    }
    if at <= anchor {
        Rule::Late
    } else {
        Rule::OrganizerNoShow
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_question_has_an_answer_whose_sums_add_up(
        terms in terms(), question in question(), moved in prop::option::of((instant(), event_date())), protected in any::<bool>(),
    ) {
        let former = terms;
        let moved = moved.and_then(|(at, date)| Some((former.rescheduled(date, None).ok()?, PastReschedule::of(&former, &[], at))));
        let (terms, reschedules) = match moved {
            Some((terms, reschedule)) => (terms, vec![reschedule]),
            None => (former, Vec::new()),
        };
        let question = agreeing(question, &terms);
        let standing = if protected { Standing::Protected } else { Standing::Created };
        let subject = Subject { booking_id: booking_id(), terms: &terms, standing, reschedules: &reschedules };
        let Ok(evaluation) = evaluate(&subject, &question) else { return Ok(()) };
        prop_assert!(evaluation.summary().chars().count() <= 300);
        prop_assert!(!evaluation.explanation.text.is_empty());
        let back: Evaluation = serde_json::from_str(&serde_json::to_string(&evaluation).unwrap()).unwrap();
        prop_assert_eq!(&back, &evaluation);
        let decided = matches!(
            evaluation.evaluation_status,
            EvaluationStatus::Provisional | EvaluationStatus::Evaluated | EvaluationStatus::Final
        );
        prop_assert_eq!(decided, evaluation.refund.is_some());
        prop_assert_eq!(evaluation.review_reasons.is_empty(), evaluation.alternatives.is_empty());
        if let (Some(refund), Some(penalty), Some(due)) = (evaluation.refund, evaluation.penalty, evaluation.balance_due) {
            let (value, paid) = (terms.value.minor(), terms.paid.minor());
            prop_assert!(refund.minor() == 0 || due.minor() == 0);
            prop_assert_eq!(refund.minor() - due.minor(), paid - penalty.minor());
            let floor = terms.policy.as_ref().unwrap().document.document().reschedule.floor;
            let reached = reschedules.iter().find_map(|reschedule| reschedule.reached).filter(|_| floor == Floor::KeepReachedTier);
            if evaluation.matched_rule.is_some_and(Rule::has_floors) {
                prop_assert!(reached.is_none_or(|reached| penalty.minor() >= reached.minor()));
            }
            if evaluation.matched_rule != Some(Rule::Mutual) {
                prop_assert!(penalty.minor() <= value);
                if paid == value {
                    prop_assert_eq!(refund.minor() + penalty.minor(), value);
                }
            }
        }
    }

    #[test]
    fn the_schedule_is_what_the_rules_say_at_every_boundary(terms in terms()) {
        prop_assert!(terms.verify().is_ok());
        let stored: Terms = serde_json::from_str(&serde_json::to_string(&terms).unwrap()).unwrap();
        prop_assert_eq!(&stored, &terms);
        for pair in terms.schedule.windows(2) {
            prop_assert_eq!(pair[1].from, pair[0].to.plus_ms(1000));
        }
        if let (Some(first), Some(last)) = (terms.schedule.first(), terms.schedule.last()) {
            prop_assert_eq!((first.from, last.to), (terms.created_at, terms.claim_until));
        } else {
            prop_assert!(terms.created_at > terms.claim_until);
        }
        let sure = !terms.assumptions.contains(&Assumption::TimeZoneAssumedUtc);
        for segment in &terms.schedule {
            for moment in [segment.from, segment.to].iter().flat_map(|at| [-1000, 0, 1000].map(|ms| at.plus_ms(ms))) {
                if moment < terms.created_at || moment > terms.claim_until {
                    continue;
                }
                let question = Question {
                    mode: Mode::Evaluate, actor: Actor::Organizer, reason: None, at: Some(moment),
                    received_at: moment, evidence: 0, agreed_refund: None,
                };
                let evaluation = evaluate(&protected(&terms), &question).unwrap();
                let rule = by_the_book(&terms, moment);
                prop_assert_eq!(evaluation.matched_rule, Some(rule));
                let covering = terms.schedule.iter().find(|s| (s.from..=s.to).contains(&moment)).unwrap();
                prop_assert_eq!(covering.rule_id, rule);
                if sure {
                    prop_assert_eq!((evaluation.refund, evaluation.penalty), (covering.refund, covering.penalty));
                }
            }
        }
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in "\\PC{0,60}") {
        let _ = Policy::from_json(&text);
        let _ = EventDate::parse(&text);
        let _ = Duration::parse(&text);
        let _ = TimeOfDay::parse(&text);
        let _ = text.parse::<Rule>();
        Policy::template_for_event_type(&text);
    }
}
