//! The first wording, of 0.1.0. Invariant: it stays as it is, because texts in it were accepted.

use super::Ruled;
use crate::error::Error;
use crate::model::{Amount, Timestamp};
use crate::policy::document::Floor;
use crate::policy::explain::seconds;
use crate::policy::rule::Rule;
use crate::policy::schedule::Segment;
use crate::policy::settlement::{Settled, Settlement};
use crate::policy::terms::Terms;
use crate::policy::words::Assumption;

pub(super) fn lines(terms: &Terms, ruled: Option<&Ruled<'_>>) -> Result<Vec<String>, Error> {
    let mut lines = vec![
        "Cancellation terms of this booking".to_owned(),
        String::new(),
    ];
    lines.push(format!(
        "The event starts on {}.",
        clocks(terms, terms.anchor, terms.schedule.len())
    ));
    lines.push(match terms.paid == terms.value {
        true => format!("The price is {}, and counts as paid.", terms.value),
        false => format!(
            "The price is {}, of which {} counts as paid.",
            terms.value, terms.paid
        ),
    });
    if terms.assumptions.contains(&Assumption::TimeZoneAssumedUtc) {
        lines.push("Nobody named a time zone: all times are read as UTC.".to_owned());
    }
    match ruled {
        Some(ruled) => {
            lines.push(ruled.named());
            rules(ruled, &mut lines)?;
            moves(ruled, &mut lines);
        }
        None => lines.push(
            "No cancellation policy was agreed on: what a cancellation comes to is for the sides to settle.".to_owned(),
        ),
    }
    Ok(lines)
}

/// Adds a line per rule, the organizer's in chronological order.
fn rules(ruled: &Ruled<'_>, lines: &mut Vec<String>) -> Result<(), Error> {
    lines.extend([String::new(), "If the organizer cancels:".to_owned()]);
    let terms = ruled.terms;
    for (step, segment) in terms.schedule.iter().enumerate() {
        let outcome = outcome(ruled, segment.rule_id)?;
        lines.push(format!("- {}: {outcome}", period(terms, step, segment)));
    }
    if terms.schedule.is_empty() {
        let until = seconds(terms.claim_until);
        lines.push(format!(
            "- nothing can be claimed: the event was over, and the time for claims too ({until}), when it was booked."
        ));
    }
    lines.push("- for want of payment, whoever cancels: the same as on that day.".to_owned());
    lines.extend([String::new(), "If somebody else cancels:".to_owned()]);
    for (who, rule) in [
        ("the talent cancels", Rule::TalentCancel),
        ("the talent does not come", Rule::TalentNoShow),
        ("the partner cancels", Rule::PartnerCancel),
    ] {
        lines.push(format!("- {who}: {}", outcome(ruled, rule)?));
    }
    let evidence = match ruled.document().force_majeure.requires_evidence {
        true => "with evidence of it; without, a person decides",
        false => "no evidence is needed",
    };
    lines.push(format!(
        "- force majeure, whoever cancels ({evidence}): {}",
        outcome(ruled, Rule::ForceMajeure)?
    ));
    lines.push(format!(
        "- both sides together: what they agree on is returned, at most {}.",
        terms.paid
    ));
    Ok(())
}

/// The period in which a step of the organizer's schedule applies.
fn period(terms: &Terms, step: usize, segment: &Segment) -> String {
    let until = clocks(terms, segment.to, step);
    let after = if step == 0 { "" } else { "after that, " };
    match segment.rule_id {
        Rule::Grace => format!("within the grace period, until {until}"),
        Rule::Late => format!("{after}until the event starts, {until}"),
        Rule::OrganizerNoShow => {
            format!("from then on, or without coming, if claimed until {until}")
        }
        _ => format!("{after}until {until}"),
    }
}

fn outcome(ruled: &Ruled<'_>, rule: Rule) -> Result<String, Error> {
    Ok(match ruled.settle(rule)? {
        Settled::Manual => "a person decides.".to_owned(),
        Settled::Sums(sums) => money(&sums),
    })
}

/// What happens to the terms when the event is moved, and what happened at each move.
fn moves(ruled: &Ruled<'_>, lines: &mut Vec<String>) {
    lines.push(String::new());
    lines.push(match ruled.document().reschedule.floor {
        Floor::KeepReachedTier => {
            "If both sides move the event to another date, the deadlines are counted anew, and what the organizer's cancellation \
             would have cost on that day is the least that it costs from then on, except within the grace period."
                .to_owned()
        }
        Floor::Reset => {
            "If both sides move the event to another date, the deadlines are counted anew.".to_owned()
        }
    });
    let Some(times) = ruled.times() else {
        return;
    };
    lines.push(match ruled.reached {
        None => format!(
            "The event was moved {times}; what had been reached before is for a person to say."
        ),
        Some(0) => format!("The event was moved {times}, and nothing had been reached before."),
        Some(reached) => format!(
            "The event was moved {times}; {} had been reached before.",
            ruled.stakes.amount(reached)
        ),
    });
}

fn money(sums: &Settlement<'_>) -> String {
    let none = |amount: Amount| amount.minor() == 0;
    let mut text = match (none(sums.refund), none(sums.penalty)) {
        (true, true) => "nothing is returned and nothing is kept".to_owned(),
        _ => format!("{} is returned, {} is kept", sums.refund, sums.kept()),
    };
    if !none(sums.balance_due) {
        text += &format!(", {} is still owed by the organizer", sums.balance_due);
    }
    if !none(sums.compensation) {
        text += &format!(", {} more is owed to the organizer", sums.compensation);
    }
    text + "."
}

/// `2026-06-13 19:00 America/New_York (2026-06-13T23:00:00Z)`.
fn clocks(terms: &Terms, instant: Timestamp, step: usize) -> String {
    let [_, local] = super::clocks(terms, instant, step);
    let local = local.to_string();
    let local = local.strip_suffix(":00").unwrap_or(&local);
    format!("{local} {} ({})", terms.time_zone, seconds(instant))
}
