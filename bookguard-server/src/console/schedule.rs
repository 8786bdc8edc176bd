//! A schedule: what goes back if the organizer cancels, and until when. Drawn, and as a table.

use bookguard_core::model::{Amount, Timestamp};
use bookguard_core::policy::{EvaluationStatus, Rule, Segment, Zone};
use maud::{Markup, html};

use super::chart::{ChartStep, steps};
use super::parts::{money, records, time_in, time_in_words, words};

/// What is said instead of an amount that a person decides.
pub(super) const OPEN: &str = "a person decides";

/// The steps of a schedule for a booking of this value in minor units; the one that applies now is marked, with what is then owed to the
/// organizer on top. Their ends are told on the clock of the event's place.
pub(super) fn schedule(
    segments: &[Segment],
    value: i64,
    zone: Zone,
    now: Timestamp,
    owed_now: Option<Amount>,
) -> Markup {
    let rows = segments.iter().map(|segment| html! {
        td data-head="until" { (time_in(segment.to, zone)) @if is_current(segment, now) { " " strong { "now" } } }
        td.amount data-head="goes back:" {
            (sum(segment.refund))
            @if is_current(segment, now) { (on_top(owed_now)) }
        }
        td.amount data-head="is kept, or owed:" { (sum(segment.penalty)) }
        td { (rule(segment.rule_id)) }
    });
    html! {
        (drawn(segments, value, zone, now))
        (records("What goes back if the organizer cancels", &["Until", "#Goes back", "#Is kept, or owed", "Rule"], rows))
    }
}

fn is_current(segment: &Segment, now: Timestamp) -> bool {
    (segment.from..=segment.to).contains(&now)
}

/// The chart alone, unless a person decides every step.
pub(super) fn drawn(segments: &[Segment], value: i64, zone: Zone, now: Timestamp) -> Markup {
    let drawn: Vec<ChartStep> = segments
        .iter()
        .map(|segment| {
            let refund = segment.refund.map_or(0, Amount::minor).max(0);
            let filled = i128::from(refund) * 1000 / i128::from(value.max(1));
            ChartStep {
                filled: u64::try_from(filled).unwrap_or(0),
                is_current: is_current(segment, now),
                label: label(segment.to, segment.refund, zone),
            }
        })
        .collect();
    html! {
        @if segments.iter().any(|segment| segment.refund.is_some()) {
            (steps("What goes back at each step of the schedule", &drawn))
        }
    }
}

/// What people read in a step of the chart that ends then and returns this.
fn label(to: Timestamp, refund: Option<Amount>, zone: Zone) -> String {
    let until = time_in_words(to, zone);
    match refund {
        Some(refund) => format!("Until {until}: {} goes back", money(refund)),
        None => format!("Until {until}: {OPEN}"),
    }
}

/// An amount, if no person decides it.
pub(super) fn sum(amount: Option<Amount>) -> String {
    sum_of(amount, EvaluationStatus::Evaluated, OPEN)
}

/// An amount of a result of this status, or what is said where it is open.
pub(super) fn sum_of(
    amount: Option<Amount>,
    status: EvaluationStatus,
    open: &'static str,
) -> String {
    let open = || status.instead_of_amount(open).to_owned();
    amount.map_or_else(open, money)
}

/// A compensation, if there is one.
pub(super) fn compensation(amount: Option<Amount>) -> Option<String> {
    amount.filter(|amount| amount.minor() > 0).map(money)
}

/// A compensation beside what goes back, if there is one.
pub(super) fn on_top(amount: Option<Amount>) -> Markup {
    html! { @if let Some(sum) = compensation(amount) { small { "plus " (sum) " compensation" } } }
}

/// A rule as people read it: the steps count from 1.
fn rule(rule: Rule) -> String {
    match rule {
        Rule::Tier(place) => format!("Step {}", u32::from(place) + 1),
        rule => words(&rule.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::model::Currency;

    use super::*;
    use crate::console::parts::zone_of;

    #[test]
    fn a_step_is_told_on_the_clock_of_the_place_and_a_person_gives_nothing_back() {
        let to = Timestamp::parse("2027-02-19T00:30:00Z").unwrap();
        let refund = Amount::parse("50.00", Currency::USD).unwrap();
        for (refund, zone, expected) in [
            (
                Some(refund),
                Some("America/New_York"),
                "Until 18 Feb 2027, 19:30 New York time: USD 50.00 goes back",
            ),
            (None, None, "Until 19 Feb 2027, 00:30 UTC: a person decides"),
        ] {
            assert_eq!(label(to, refund, zone_of(zone)), expected);
        }
    }

    #[test]
    fn a_compensation_is_told_if_there_is_one() {
        let of = |text| Amount::parse(text, Currency::USD).ok();
        for (amount, expected) in [
            (None, ""),
            (of("0"), ""),
            (of("50.00"), "<small>plus USD 50.00 compensation</small>"),
        ] {
            assert_eq!(on_top(amount).into_string(), expected);
        }
    }
}
