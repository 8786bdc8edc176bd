//! The second wording. Invariant: once it is released it stays as it is, because texts in it are accepted.

use chrono::{Datelike as _, NaiveDateTime};

use super::Ruled;
use crate::error::Error;
use crate::model::{Amount, Timestamp};
use crate::policy::document::Floor;
use crate::policy::duration::Duration;
use crate::policy::event_date::EventDate;
use crate::policy::explain::clock;
use crate::policy::outcome::Outcome;
use crate::policy::rule::Rule;
use crate::policy::schedule::Segment;
use crate::policy::settlement::{Settled, Settlement};
use crate::policy::terms::Terms;
use crate::policy::words::Assumption;
use crate::text::grouped;

pub(super) fn lines(terms: &Terms, ruled: Option<&Ruled<'_>>) -> Result<Vec<String>, Error> {
    let mut lines = vec![
        "Cancellation terms of this booking".to_owned(),
        String::new(),
        "The organizer books, the talent is booked, and the platform is where that happens. The service that keeps the record is \
         Bookguard."
            .to_owned(),
        event(terms),
        price(terms),
    ];
    if terms.assumptions.contains(&Assumption::TimeZoneAssumedUtc) {
        lines.push("Nobody named a time zone, so all times are in UTC.".to_owned());
    }
    let Some(ruled) = ruled else {
        lines.push(
            "No cancellation policy was agreed on. What a cancellation comes to is for the organizer, the talent and the platform to \
             settle."
                .to_owned(),
        );
        return Ok(lines);
    };
    lines.push(ruled.named());
    lines.push(String::new());
    match terms.schedule.last() {
        None => lines.push(format!(
            "Nothing can be claimed under these terms. The time for that ended on {}, before the booking was made.",
            in_utc(terms.claim_until.floor_to_second().to_utc().naive_utc())
        )),
        Some(last) => {
            rules(ruled, &mut lines)?;
            times(ruled, last, &mut lines);
        }
    }
    moves(ruled, &mut lines);
    Ok(lines)
}

/// When the event starts. A date without a time of day is told as such.
fn event(terms: &Terms) -> String {
    let start = clocks(terms, terms.anchor, terms.schedule.len());
    match terms.event_date {
        EventDate::Date(date) => format!(
            "The event is on {}. No time of day was given: it counts as starting on {start}.",
            date.format("%A %-d %B %Y")
        ),
        EventDate::Local(_) | EventDate::Instant { .. } => {
            format!("The event starts on {start}.")
        }
    }
}

fn price(terms: &Terms) -> String {
    let (value, paid) = (sum(terms.value), sum(terms.paid));
    match (terms.paid.minor(), terms.value.minor()) {
        (some, all) if some == all => {
            format!("The price is {value}, and all of it counts as paid.")
        }
        (0, _) => format!("The price is {value}, and nothing counts as paid yet."),
        (some, all) if some < all => {
            format!("The price is {value}, of which {paid} counts as paid.")
        }
        _ => format!("The price is {value}, but {paid} counts as paid."),
    }
}

/// Adds a line for each rule, those for the organizer's cancellation in chronological order.
fn rules(ruled: &Ruled<'_>, lines: &mut Vec<String>) -> Result<(), Error> {
    let terms = ruled.terms;
    lines.push("If the organizer cancels:".to_owned());
    for (step, segment) in terms.schedule.iter().enumerate() {
        let outcome = outcome(ruled, segment.rule_id)?;
        lines.push(format!("- {}: {outcome}", period(terms, step, segment)));
    }
    let no_payment = "If the platform or the talent cancels because the organizer did not pay, the same applies as if the organizer had \
                      canceled at that moment: the lines above say what is returned to the organizer, and what the organizer still owes.";
    lines.extend([no_payment.to_owned(), String::new()]);

    lines.push("If somebody else cancels:".to_owned());
    let agreed = match terms.paid.minor() {
        0 => "nothing is returned, and nothing is owed".to_owned(),
        _ => format!(
            "what they agree on is returned, at most {}, and nothing more is owed",
            sum(terms.paid)
        ),
    };
    lines.extend([
        format!("- the talent: {}", outcome(ruled, Rule::TalentCancel)?),
        format!("- the platform: {}", outcome(ruled, Rule::PartnerCancel)?),
        format!("- the organizer and the talent together: {agreed}."),
    ]);
    let force_majeure = &ruled.document().force_majeure;
    let (condition, otherwise) = match force_majeure.requires_evidence {
        true if force_majeure.outcome != Outcome::Manual => (
            ", with evidence of it",
            " Without evidence, a person decides.",
        ),
        _ => ("", ""),
    };
    lines.push(format!(
        "- anybody, because of something that nobody could prevent (force majeure){condition}: {}{otherwise}",
        outcome(ruled, Rule::ForceMajeure)?
    ));

    lines.extend([String::new(), "If somebody does not come:".to_owned()]);
    for (who, rule) in [
        ("the organizer", Rule::OrganizerNoShow),
        ("the talent", Rule::TalentNoShow),
    ] {
        lines.push(format!("- {who}: {}", outcome(ruled, rule)?));
    }
    Ok(())
}

/// The period in which a step of the organizer's schedule applies.
fn period(terms: &Terms, step: usize, segment: &Segment) -> String {
    let until = clocks(terms, segment.to, step);
    let after = if step == 0 { "" } else { "after that, " };
    let starts_then = !matches!(terms.event_date, EventDate::Date(_));
    match segment.rule_id {
        Rule::Grace => format!("within the grace period, until {until}"),
        Rule::Late if starts_then => format!("{after}until the event starts on {until}"),
        _ => format!("{after}until {until}"),
    }
}

/// Which times count, and until when. The last step of the schedule ends with the time for claims.
fn times(ruled: &Ruled<'_>, last: &Segment, lines: &mut Vec<String>) {
    let terms = ruled.terms;
    let until = clocks(terms, last.to, terms.schedule.len() - 1);
    lines.extend([
        String::new(),
        backdating(&ruled.document().backdate_tolerance),
    ]);
    if terms.assumptions.contains(&Assumption::TimeZoneAssumedUtc) {
        lines.push("If another time zone would make a difference, a person decides.".to_owned());
    }
    lines.push(format!(
        "Nothing can be claimed under these terms after {until}."
    ));
}

/// Which earlier times of cancellation count. A policy in plain English says this too.
pub(in crate::policy) fn backdating(tolerance: &Duration) -> String {
    let counts = match tolerance.nominal_minutes() {
        0 => "only with evidence of it".to_owned(),
        _ => format!(
            "if it is at most {} before the service receives the cancellation, or with evidence of it",
            tolerance.in_english()
        ),
    };
    format!(
        "An earlier time of cancellation counts {counts}. Otherwise, a person decides if another rule would apply at the time of receipt."
    )
}

fn outcome(ruled: &Ruled<'_>, rule: Rule) -> Result<String, Error> {
    Ok(match ruled.settle(rule)? {
        Settled::Manual => "a person decides.".to_owned(),
        Settled::Sums(sums) => money(&sums),
    })
}

/// What happens to the terms when the event is moved, and what is left of earlier moves.
fn moves(ruled: &Ruled<'_>, lines: &mut Vec<String>) {
    let document = ruled.document();
    let but_grace = match document.grace {
        Some(_) => ", except within the grace period",
        None => "",
    };
    let mut moving =
        "If both sides move the event to another date, the deadlines are counted again from that date."
            .to_owned();
    if document.reschedule.floor == Floor::KeepReachedTier {
        moving += &format!(
            " What a cancellation by the organizer would have cost when they agreed to move it is the least that it costs from then \
             on{but_grace}."
        );
    }
    lines.extend([String::new(), moving]);
    let Some(times) = ruled.times() else {
        return;
    };
    lines.push(match ruled.reached {
        None => format!(
            "The event was moved {times}. What the organizer's cancellation costs at least because of that is for a person to decide."
        ),
        Some(0) => format!("The event was moved {times}. That raised none of the amounts above."),
        Some(reached) => format!(
            "The event was moved {times}. Because of that, the organizer's cancellation costs at least {}{but_grace}. The amounts above \
             include this.",
            sum(ruled.stakes.amount(reached))
        ),
    });
    lines.push("No cancellation counts from a time before the last move.".to_owned());
}

/// What a rule comes to: each sum with its verb, `nothing` for a sum of zero.
fn money(sums: &Settlement<'_>) -> String {
    let some = |amount: Amount| (amount.minor() != 0).then(|| sum(amount));
    let nothing = || "nothing".to_owned();
    let mut parts = vec![
        format!("{} is returned", some(sums.refund).unwrap_or_else(nothing)),
        format!("{} is kept", some(sums.kept()).unwrap_or_else(nothing)),
    ];
    parts.extend(some(sums.balance_due).map(|sum| format!("the organizer still owes {sum}")));
    parts.extend(some(sums.compensation).map(|sum| format!("the organizer is owed {sum} more")));
    let last = parts.pop().unwrap_or_default();
    format!("{}, and {last}.", parts.join(", "))
}

/// `USD 1,200.50`, as in the evidence.
fn sum(amount: Amount) -> String {
    grouped(&amount.to_string())
}

/// `Saturday 13 June 2026, 19:00 New York time (23:00 UTC)`.
fn clocks(terms: &Terms, instant: Timestamp, step: usize) -> String {
    let [utc, local] = super::clocks(terms, instant, step);
    let zone = terms.time_zone.in_words();
    if zone == "UTC" {
        return in_utc(utc);
    }
    let day = match utc.date() == local.date() {
        true => String::new(),
        false if utc.year() != local.year() => format!("{}, ", utc.format("%-d %B %Y")),
        false => format!("{}, ", utc.format("%-d %B")),
    };
    format!(
        "{}, {} {zone} ({day}{} UTC)",
        local.format("%A %-d %B %Y"),
        clock(local),
        clock(utc)
    )
}

/// `Saturday 13 June 2026, 23:00 UTC`.
fn in_utc(utc: NaiveDateTime) -> String {
    format!("{}, {} UTC", utc.format("%A %-d %B %Y"), clock(utc))
}
