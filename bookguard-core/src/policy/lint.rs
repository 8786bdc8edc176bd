//! Warnings about a policy that can still be used, for example about the order of its tiers.
//!
//! Reading reports errors; this module checks only what needs the whole document. It never changes an evaluation.

use super::document::{Deposit, DepositSize, Document, Policy, Tier};
use super::duration::Duration;
use super::outcome::{Outcome, Split};
use crate::error::FieldError;
use crate::limits;

const DAY_MINUTES: i64 = 1440;
/// By how much a day on which the clocks change is longer or shorter, as a rule.
const CLOCK_CHANGE_MINUTES: i64 = 60;

/// Whether the deadline of `next` is later than that of `tier` for at least one starting time of the event.
pub(super) fn may_follow(tier: &Tier, next: &Tier) -> bool {
    starting_times(tier, next).any(|start| ahead(tier, start) > ahead(next, start))
}

/// Whether it is later for every starting time, also if the clocks change before the event.
fn must_follow(tier: &Tier, next: &Tier) -> bool {
    let by_the_clock = |tier: &Tier| tier.cutoff_time.is_some() || tier.before.minutes() == 0;
    let elapses = |tier: &Tier| tier.cutoff_time.is_none() && tier.before.days() == 0;
    let both = |is: &dyn Fn(&Tier) -> bool| is(tier) && is(next);
    // A change of the clocks moves two deadlines of one kind alike.
    let slack = match both(&by_the_clock) || both(&elapses) {
        true => 0,
        false => CLOCK_CHANGE_MINUTES,
    };
    starting_times(tier, next).all(|start| ahead(tier, start) - slack > ahead(next, start))
}

/// Whether the deadline is at or after the start of the event, for at least one starting time.
pub(super) fn may_outlast_start(tier: &Tier) -> bool {
    may_outlast(tier, 0)
}

/// Whether the deadline is at or after the start of the event for every starting time.
pub(super) fn must_outlast_start(tier: &Tier) -> bool {
    starting_times(tier, tier).all(|start| ahead(tier, start) <= 0)
}

/// Whether the deadline is that many minutes after the start of the event, or more, for at least one starting time.
fn may_outlast(tier: &Tier, minutes: i64) -> bool {
    starting_times(tier, tier).any(|start| ahead(tier, start) <= -minutes)
}

/// The starting minutes to compare. Without a cutoff, one is enough.
fn starting_times(tier: &Tier, next: &Tier) -> std::ops::Range<i64> {
    if tier.cutoff_time.is_none() && next.cutoff_time.is_none() {
        0..1
    } else {
        0..DAY_MINUTES
    }
}

/// Minutes from the deadline to an event that starts at minute `start` of its day, if every day has 24 hours.
fn ahead(tier: &Tier, start: i64) -> i64 {
    let before = i64::from(tier.before.nominal_minutes());
    match tier.cutoff_time {
        None => before,
        Some(time) => before + (start - before).rem_euclid(DAY_MINUTES) - i64::from(time.minutes()),
    }
}

impl Policy {
    /// Likely mistakes of the author, by JSON pointer: `refund_rises`, `no_grace`, `deposit_over_half`, `tier_unreachable`,
    /// `no_show_unstated`, `no_show_unclaimable`, `deposit_missing`, `deposit_unused`, `grace_empty`, `grace_until_start`. The
    /// policy can be used all the same.
    pub fn warnings(&self) -> Vec<FieldError> {
        let document = self.document();
        let mut found = Vec::new();
        deposit(document, &mut found);
        grace(document, &mut found);
        order(document, &mut found);
        unstated(document, &mut found);
        rising(document, &mut found);
        found
    }
}

fn grace(document: &Document, found: &mut Vec<FieldError>) {
    let minutes = |duration: &Duration| duration.nominal_minutes();
    let (pointer, code, message, fix) = match &document.grace {
        None if costs_at_once(document) => (
            "/grace",
            "no_grace",
            "is missing: a booking made by mistake costs from the first minute",
            "Add \"grace\", such as {\"within\": \"PT24H\", \"minNotice\": \"P7D\"}.",
        ),
        Some(grace) if minutes(&grace.within) == 0 => (
            "/grace/within",
            "grace_empty",
            "is no time at all: only the second of booking is free",
            "Send a longer time, such as \"PT24H\", or leave \"grace\" out.",
        ),
        Some(grace)
            if (grace.min_notice.as_ref())
                .is_some_and(|notice| minutes(notice) <= minutes(&grace.within)) =>
        {
            (
                "/grace/within",
                "grace_until_start",
                "can last until the event starts, because it is no shorter than \"minNotice\": then canceling is free to the end",
                "Send a shorter time, such as \"PT24H\", or a longer \"minNotice\".",
            )
        }
        _ => return,
    };
    found.push(FieldError::new(pointer, code, message, fix));
}

fn deposit(document: &Document, found: &mut Vec<FieldError>) {
    let others = [
        &document.talent.cancel,
        &document.talent.no_show,
        &document.partner.cancel,
        &document.force_majeure.outcome,
    ];
    let is_kept = |deposit: &Deposit| {
        deposit.non_refundable
            || others.into_iter().any(keeps_deposit)
            || (outcomes(document).iter()).any(|(_, step)| keeps_deposit(step))
    };
    let deposit = document.deposit.as_ref();
    if deposit.is_some_and(|deposit| !is_kept(deposit)) {
        found.push(FieldError::new(
            "/deposit",
            "deposit_unused",
            "is kept by no outcome, so it changes nothing",
            "Add \"nonRefundable\": true or an outcome with keepDeposit, or leave the deposit out.",
        ));
    }
    match deposit.map(|deposit| &deposit.size) {
        Some(DepositSize::Bps(5001..)) => found.push(FieldError::new(
            "/deposit/bps",
            "deposit_over_half",
            "is more than half of the value",
            "Make sure that this is intended, and lawful where the event takes place.",
        )),
        Some(_) => {}
        None => {
            let mut steps = outcomes(document).into_iter();
            if let Some((pointer, _)) = steps.find(|(_, step)| keeps_deposit(step)) {
                found.push(FieldError::new(
                    pointer,
                    "deposit_missing",
                    "keeps the deposit, but the policy has none: nothing is kept",
                    "Add \"deposit\", or choose another outcome.",
                ));
            }
        }
    }
}

fn keeps_deposit(outcome: &Outcome) -> bool {
    outcome.splits().contains(&Split::KeepDeposit)
}

fn order(document: &Document, found: &mut Vec<FieldError>) {
    for (index, pair) in document.organizer.tiers.windows(2).enumerate() {
        if let [tier, next] = pair
            && !must_follow(tier, next)
        {
            found.push(FieldError::new(
                format!("/organizer/tiers/{}", index + 1),
                "tier_unreachable",
                "cannot be reached for some starting times of the event: the tier before it ends later",
                "Set the deadlines further apart, or give both a cutoffTime.",
            ));
        }
    }
    let organizer = &document.organizer;
    // If both are the same, it does not matter which of them follows the last tier.
    if organizer.late != organizer.no_show && organizer.tiers.iter().any(may_outlast_start) {
        let when = match organizer.tiers.iter().any(must_outlast_start) {
            true => "any starting time",
            false => "some starting times",
        };
        found.push(FieldError::new(
            "/organizer/late",
            "tier_unreachable",
            format!("cannot be reached for {when} of the event: a tier does not end before the start, and noShow follows it"),
            "Set the last deadline before the start, or let noShow be the same as late.",
        ));
    }
}

/// Finds a claim window that is over before the schedule comes to `noShow`. The terms that people accept are made from the schedule.
fn unstated(document: &Document, found: &mut Vec<FieldError>) {
    let organizer = &document.organizer;
    let window = i64::from(document.claim_window.nominal_minutes());
    let tiers = organizer.tiers.iter();
    let before = tiers.filter(|tier| may_outlast(tier, window));
    let before = before.map(|tier| &tier.outcome);
    let mut before = before.chain((window == 0).then_some(&organizer.late));
    if before.any(|outcome| *outcome != organizer.no_show) {
        found.push(FieldError::new(
            "/claimWindow",
            "no_show_unstated",
            "is over when the last deadline is, at least for some starting times of the event: the terms that people accept then do \
             not say what not coming costs",
            "Let it last longer, such as \"P1D\", or let noShow be the same as the step before it.",
        ));
    }
    if window == 0 && document.talent.no_show != document.talent.cancel {
        found.push(FieldError::new(
            "/claimWindow",
            "no_show_unclaimable",
            "ends when the event starts, and only then can a talent be said not to have come: there is one second for talent.noShow",
            "Let it last longer, such as \"P1D\", or leave talent.noShow out.",
        ));
    }
}

/// Whether the organizer's first step can cost something, or is left to a person.
fn costs_at_once(document: &Document) -> bool {
    let steps = outcomes(document);
    let first = steps.first().map(|(_, first)| *first);
    let costs = |value| first.and_then(|first| penalty(document, first, value)) != Some(0);
    values(document).into_iter().any(costs)
}

/// What the organizer loses under an outcome, with a deposit that is not refundable; `None` if a person decides.
fn penalty(document: &Document, outcome: &Outcome, value: i64) -> Option<i64> {
    let basis = document.basis(value);
    let penalty = outcome.charge(basis)?.penalty;
    let deposit = document.deposit.as_ref();
    let keeps = deposit.is_some_and(|deposit| deposit.non_refundable);
    Some(penalty.max(if keeps { basis.deposit } else { 0 }))
}

/// Compares the organizer's steps in money, on values from small to large: whether a fixed amount or a share is more
/// depends on the value. A step that a person decides is not compared.
fn rising(document: &Document, found: &mut Vec<FieldError>) {
    let values = values(document);
    let penalty = |outcome: &Outcome, value: i64| penalty(document, outcome, value);
    let steps = outcomes(document);
    let decided = steps.iter().filter(|(_, step)| **step != Outcome::Manual);
    for ((_, earlier), (pointer, later)) in decided.clone().zip(decided.skip(1)) {
        // A share and the rest of another are rounded apart by at most one.
        let least = |value| penalty(later, value).map(|penalty| penalty + 1);
        let rises = |value: &i64| least(*value) < penalty(earlier, *value);
        if values.iter().any(rises) {
            found.push(FieldError::new(
                pointer.clone(),
                "refund_rises",
                "returns more than the step before it, at least for some values: waiting pays",
                "Let the refund fall towards the event.",
            ));
        }
    }
}

/// The values on which steps are compared, in minor units: small, large, and where a fixed amount is as much as a share.
/// Between two of these, what a step costs rises evenly.
fn values(document: &Document) -> Vec<i64> {
    const WHOLE: u16 = 10_000;
    let (mut fixed, mut shares) = (Vec::new(), vec![WHOLE]);
    match document.deposit.as_ref().map(|deposit| &deposit.size) {
        Some(DepositSize::Amount(amount)) => fixed.push(amount.minor()),
        Some(DepositSize::Bps(bps)) => shares.push(*bps),
        None => {}
    }
    let steps = outcomes(document);
    for split in steps.iter().flat_map(|(_, step)| step.splits()) {
        match split {
            Split::Penalty(amount) => fixed.push(amount.minor()),
            Split::Refund { bps, .. } => shares.push(WHOLE.saturating_sub(*bps)),
            Split::KeepDeposit => {}
        }
    }
    let mut values = vec![10_000, 1_000_000_000_000];
    for minor in fixed {
        for bps in shares.iter().filter(|bps| **bps > 0) {
            let even = i128::from(minor) * i128::from(WHOLE) / i128::from(*bps);
            let even = i64::try_from(even).unwrap_or(i64::MAX);
            let even = even.min(limits::AMOUNT_MINOR_UNITS);
            values.extend([even, even + 1]);
        }
    }
    values
}

/// The organizer's outcomes in chronological order.
fn outcomes(document: &Document) -> Vec<(String, &Outcome)> {
    let organizer = &document.organizer;
    let tiers = organizer.tiers.iter().enumerate();
    tiers
        .map(|(index, tier)| (format!("/organizer/tiers/{index}/outcome"), &tier.outcome))
        .chain([
            ("/organizer/late".to_owned(), &organizer.late),
            ("/organizer/noShow".to_owned(), &organizer.no_show),
        ])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(policy: &str) -> Vec<(String, String)> {
        let policy = Policy::from_json(policy).unwrap();
        policy
            .warnings()
            .into_iter()
            .map(|w| (w.code, w.pointer))
            .collect()
    }

    #[test]
    fn what_is_odd_is_named() {
        #[rustfmt::skip]
        let cases = [
            (r#"{"policyId":"p","organizer":{"late":{"refundBps":0}},"grace":{"within":"PT1H"}}"#, vec![]),
            // Nothing is lost at once, so nobody needs a time in which canceling is free.
            (r#"{"policyId":"p","organizer":{"tiers":[{"before":"PT24H","outcome":{"refundBps":10000}}],"late":{"refundBps":0}}}"#, vec![]),
            (r#"{"policyId":"p","organizer":{"tiers":[{"before":"PT24H","outcome":{"refundBps":9999}}],"late":{"refundBps":0}}}"#,
                vec![("no_grace", "/grace")]),
            (r#"{"policyId":"p","organizer":{"late":{"manual":true}}}"#, vec![("no_grace", "/grace")]),
            (r#"{"policyId":"p","deposit":{"bps":1,"nonRefundable":true},"organizer":{"late":{"refundBps":10000},"noShow":{"refundBps":0}}}"#,
                vec![("no_grace", "/grace")]),
            (r#"{"policyId":"p","deposit":{"bps":5001},"organizer":{"tiers":[{"before":"P2D","outcome":{"refundBps":1000}}],"late":{"refundBps":2000},"noShow":{"manual":true}}}"#,
                vec![("deposit_unused", "/deposit"), ("deposit_over_half", "/deposit/bps"), ("no_grace", "/grace"), ("refund_rises", "/organizer/late")]),
            (r#"{"policyId":"p","deposit":{"bps":1},"organizer":{"tiers":[{"before":"P2D","outcome":{"refundBps":10000}}],"late":{"refundBps":0}}}"#,
                vec![("deposit_unused", "/deposit")]),
            (r#"{"policyId":"p","deposit":{"bps":1},"organizer":{"tiers":[{"before":"P2D","outcome":{"refundBps":10000}}],"late":{"refundBps":0}},"talent":{"cancel":{"lesserOf":[{"refundBps":0},{"keepDeposit":true}]}}}"#,
                vec![]),
            (r#"{"policyId":"p","grace":{"within":"PT0H"},"organizer":{"late":{"refundBps":0}}}"#, vec![("grace_empty", "/grace/within")]),
            (r#"{"policyId":"p","grace":{"within":"P7D","minNotice":"PT168H"},"organizer":{"late":{"refundBps":0}}}"#,
                vec![("grace_until_start", "/grace/within")]),
            (r#"{"policyId":"p","grace":{"within":"P7D","minNotice":"PT168H1M"},"organizer":{"late":{"refundBps":0}}}"#, vec![]),
            (r#"{"policyId":"p","claimWindow":"PT0M","grace":{"within":"PT1H"},"organizer":{"late":{"refundBps":0}},"talent":{"noShow":{"manual":true}}}"#,
                vec![("no_show_unclaimable", "/claimWindow")]),
            (r#"{"policyId":"p","claimWindow":"PT1M","grace":{"within":"PT1H"},"organizer":{"late":{"refundBps":0}},"talent":{"noShow":{"manual":true}}}"#,
                vec![]),
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P2D","cutoffTime":"18:00","outcome":{"refundBps":10000}},{"before":"P2D","outcome":{"keepDeposit":true}}],"late":{"refundBps":0}}}"#,
                vec![("deposit_missing", "/organizer/tiers/1/outcome"), ("tier_unreachable", "/organizer/tiers/1")]),
            // A deadline at the start, or after it, leaves no time for the last step before the start.
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P0D","outcome":{"refundBps":10000}}],"late":{"refundBps":5000},"noShow":{"refundBps":0}}}"#,
                vec![("tier_unreachable", "/organizer/late")]),
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"PT6H","cutoffTime":"18:00","outcome":{"refundBps":10000}}],"late":{"refundBps":5000},"noShow":{"refundBps":0}}}"#,
                vec![("tier_unreachable", "/organizer/late")]),
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P1D","cutoffTime":"23:59","outcome":{"refundBps":10000}}],"late":{"refundBps":5000},"noShow":{"refundBps":0}}}"#,
                vec![]),
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P0D","cutoffTime":"18:00","outcome":{"refundBps":10000}}],"late":{"refundBps":0}}}"#,
                vec![]),
            // On a day of 23 or 25 hours, the second deadline is no later than the first.
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"PT25H","outcome":{"refundBps":10000}},{"before":"P1D","outcome":{"refundBps":5000}}],"late":{"refundBps":0}}}"#,
                vec![("tier_unreachable", "/organizer/tiers/1")]),
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P2D","outcome":{"refundBps":10000}},{"before":"P1DT23H","outcome":{"refundBps":5000}}],"late":{"refundBps":0}}}"#,
                vec![("tier_unreachable", "/organizer/tiers/1")]),
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"PT25H1M","outcome":{"refundBps":10000}},{"before":"P1D","outcome":{"refundBps":5000}}],"late":{"refundBps":0}}}"#,
                vec![]),
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"PT25H","outcome":{"refundBps":10000}},{"before":"PT24H","outcome":{"refundBps":5000}}],"late":{"refundBps":0}}}"#,
                vec![]),
            // The schedule ends with the claim window, so the step after a deadline that is not earlier is in no terms.
            (r#"{"policyId":"p","claimWindow":"PT18H","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P0D","cutoffTime":"18:00","outcome":{"refundBps":10000}}],"late":{"refundBps":0}}}"#,
                vec![("no_show_unstated", "/claimWindow")]),
            (r#"{"policyId":"p","claimWindow":"PT18H1M","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P0D","cutoffTime":"18:00","outcome":{"refundBps":10000}}],"late":{"refundBps":0}}}"#,
                vec![]),
            (r#"{"policyId":"p","claimWindow":"P0D","grace":{"within":"PT1H"},"organizer":{"late":{"refundBps":5000},"noShow":{"refundBps":0}}}"#,
                vec![("no_show_unstated", "/claimWindow")]),
            // Half of a value below USD 60 is less than the fixed amount.
            (r#"{"policyId":"p","currency":"USD","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P9D","outcome":{"penaltyAmount":"30.00"}}],"late":{"refundBps":5000},"noShow":{"refundBps":0}}}"#,
                vec![("refund_rises", "/organizer/late")]),
            // From USD 1,800 to USD 4,000, the later step costs less.
            (r#"{"policyId":"p","currency":"USD","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P9D","outcome":{"lesserOf":[{"penaltyAmount":"1000"},{"refundBps":5000}]}}],"late":{"greaterOf":[{"penaltyAmount":"900"},{"refundBps":7500}]},"noShow":{"refundBps":0}}}"#,
                vec![("refund_rises", "/organizer/late")]),
            // A step that a person decides does not hide a rise.
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"organizer":{"tiers":[{"before":"P9D","outcome":{"refundBps":1000}},{"before":"P8D","outcome":{"manual":true}}],"late":{"refundBps":2000},"noShow":{"manual":true}}}"#,
                vec![("refund_rises", "/organizer/late")]),
            // A deposit that is always kept is not a rise, and a fixed deposit may be all of a small value.
            (r#"{"policyId":"p","grace":{"within":"PT1H"},"deposit":{"bps":2500,"nonRefundable":true},"organizer":{"tiers":[{"before":"P9D","outcome":{"keepDeposit":true}}],"late":{"refundBps":10000},"noShow":{"refundBps":7500}}}"#,
                vec![]),
            (r#"{"policyId":"p","currency":"USD","grace":{"within":"PT1H"},"deposit":{"amount":"99.99"},"organizer":{"tiers":[{"before":"P9D","outcome":{"keepDeposit":true}}],"late":{"penaltyAmount":"100.00"},"noShow":{"greaterOf":[{"keepDeposit":true},{"penaltyAmount":"100"}]}}}"#,
                vec![]),
        ];
        for (policy, expected) in cases {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(c, p)| (c.to_owned(), p.to_owned()))
                .collect();
            assert_eq!(warnings(policy), expected, "{policy}");
        }
    }

    #[test]
    fn a_step_that_can_never_be_reached_is_told_from_one_that_sometimes_cannot() {
        for (tier, when) in [
            (r#""before":"P0D""#, "for any starting time"),
            (
                r#""before":"PT6H","cutoffTime":"18:00""#,
                "for some starting times",
            ),
        ] {
            let policy = format!(
                r#"{{"policyId":"p","organizer":{{"tiers":[{{{tier},"outcome":{{"refundBps":10000}}}}],"late":{{"refundBps":5000}},"noShow":{{"refundBps":0}}}}}}"#
            );
            let warnings = Policy::from_json(&policy).unwrap().warnings();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].message.contains(when), "{warnings:?}");
        }
    }
}
