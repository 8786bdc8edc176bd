//! A schedule: what goes back if the organizer cancels, and until when. Drawn, and as a table.

use bookguard_core::model::{Amount, Timestamp};
use bookguard_core::policy::{EvaluationStatus, Rule, Segment};
use maud::{Markup, html};

use super::chart::{ChartStep, steps};
use super::parts::{money, records, time, words};

/// What is said instead of an amount that a person decides.
pub(super) const OPEN: &str = "a person decides";

/// The steps of a schedule for a booking of this value in minor units; the one that applies now is marked.
pub(super) fn schedule(segments: &[Segment], value: i64, now: Timestamp) -> Markup {
    let rows = segments.iter().map(|segment| html! {
        td data-head="until" { (time(segment.to)) @if is_current(segment, now) { " " strong { "now" } } }
        td.amount data-head="goes back:" { (sum(segment.refund)) }
        td.amount data-head="is kept, or owed:" { (sum(segment.penalty)) }
        td { (rule(segment.rule_id)) }
    });
    html! {
        (drawn(segments, value, now))
        (records("What goes back if the organizer cancels", &["Until", "#Goes back", "#Is kept, or owed", "Rule"], rows))
    }
}

fn is_current(segment: &Segment, now: Timestamp) -> bool {
    (segment.from..=segment.to).contains(&now)
}

/// The chart alone, unless a person decides every step.
pub(super) fn drawn(segments: &[Segment], value: i64, now: Timestamp) -> Markup {
    let drawn: Vec<ChartStep> = segments
        .iter()
        .map(|segment| {
            let refund = segment.refund.map_or(0, Amount::minor).max(0);
            let filled = i128::from(refund) * 1000 / i128::from(value.max(1));
            ChartStep {
                filled: u64::try_from(filled).unwrap_or(0),
                is_current: is_current(segment, now),
                label: format!("until {}: {} back", segment.to, sum(segment.refund)),
            }
        })
        .collect();
    html! {
        @if segments.iter().any(|segment| segment.refund.is_some()) {
            (steps("What goes back at each step of the schedule", &drawn))
        }
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

/// A rule as people read it: the steps count from 1.
fn rule(rule: Rule) -> String {
    match rule {
        Rule::Tier(place) => format!("Step {}", u32::from(place) + 1),
        rule => words(&rule.to_string()),
    }
}
