//! Explains in English why an evaluation came out as it did.
//!
//! Words only: every number is computed elsewhere. Invariant: the code is stable and the text is built from the parameters
//! beside it, so a partner can word it in another language.

use std::collections::BTreeMap;

use chrono::{NaiveDateTime, Timelike as _};

use super::duration::plural;
use super::evaluation::Explanation;
use super::outcome::Split;
use super::question::{Mode, Question};
use super::rule::Rule;
use super::settlement::{Bound, Settled, Settlement};
use super::terms::Terms;
use super::words::{Actor, Reason, ReviewReason};
use super::zone::Zone;
use crate::model::Timestamp;

/// The facts to explain.
pub(super) struct ExplanationInput<'a> {
    pub terms: &'a Terms,
    pub question: &'a Question,
    pub at: Timestamp,
    pub rule: Rule,
    pub settled: &'a Settled<'a>,
    pub deadline: Option<Timestamp>,
    pub reviews: &'a [ReviewReason],
}

/// The explanation of a rule that matched.
pub(super) fn explain(story: &ExplanationInput<'_>) -> Explanation {
    let mut params = BTreeMap::new();
    let mut say = |name: &str, value: String| {
        params.insert(name.to_owned(), value);
    };
    let terms = story.terms;
    say("rule", story.rule.to_string());
    say("at", seconds(story.at));
    say("distance", distance(story.at, terms.anchor));
    say("eventStart", seconds(terms.anchor));
    say("timeZone", terms.time_zone.to_string());
    if let Some(deadline) = story.deadline {
        say("deadline", seconds(deadline));
        say("deadlineLocal", local(terms.time_zone.to_local(deadline)));
    }
    let mut sentences = vec![headline(story), because(story)];
    match story.settled {
        Settled::Sums(sums) if story.reviews.is_empty() => {
            say("refund", sums.refund.to_string());
            say("kept", sums.kept().to_string());
            say("balanceDue", sums.balance_due.to_string());
            say("compensation", sums.compensation.to_string());
            let share = share(sums);
            if let Some(share) = &share {
                say("share", share.clone());
            }
            sentences.push(money(share, sums));
        }
        _ => sentences.extend(
            story
                .reviews
                .iter()
                .map(|review| why_a_person(*review).to_owned()),
        ),
    }
    Explanation {
        code: code(story).to_owned(),
        params,
        text: sentences.join(" "),
    }
}

/// The explanation of a booking without a policy.
pub(super) fn policy_missing() -> Explanation {
    Explanation {
        code: "POLICY_MISSING".to_owned(),
        params: BTreeMap::new(),
        text: "The booking has no cancellation policy, so there is nothing to evaluate.".to_owned(),
    }
}

/// The explanation of an event that is over.
pub(super) fn closed(terms: &Terms) -> Explanation {
    let params = BTreeMap::from([
        ("eventStart".to_owned(), seconds(terms.anchor)),
        ("claimUntil".to_owned(), seconds(terms.claim_until)),
        ("timeZone".to_owned(), terms.time_zone.to_string()),
    ]);
    Explanation {
        code: "CLAIM_WINDOW_CLOSED".to_owned(),
        params,
        text: format!(
            "The event started on {}, and cancellations could be claimed until {}.",
            both_clocks(terms.anchor, terms.time_zone),
            both_clocks(terms.claim_until, terms.time_zone)
        ),
    }
}

fn code(story: &ExplanationInput<'_>) -> &'static str {
    if story.reviews.contains(&ReviewReason::EvidenceMissing) {
        return "EVIDENCE_MISSING";
    }
    let bound = match story.settled {
        Settled::Manual => return "MANUAL_ZONE",
        Settled::Sums(sums) => sums.bound,
    };
    match (bound, story.rule) {
        (Bound::Deposit, _) => "DEPOSIT_FLOOR",
        (Bound::Reschedule, _) => "RESCHEDULE_FLOOR",
        (_, Rule::Grace) => "GRACE",
        (_, Rule::Tier(_)) => "TIER",
        (_, Rule::Late) => "LATE",
        (_, Rule::OrganizerNoShow) => "NO_SHOW_ORGANIZER",
        (_, Rule::TalentCancel) => "TALENT_CANCEL",
        (_, Rule::TalentNoShow) => "TALENT_NO_SHOW",
        (_, Rule::PartnerCancel) => "PARTNER_CANCEL",
        (_, Rule::ForceMajeure) => "FORCE_MAJEURE",
        (_, Rule::Mutual) => "MUTUAL",
    }
}

fn headline(story: &ExplanationInput<'_>) -> String {
    let who = match story.question.actor {
        Actor::Organizer => "Organizer",
        Actor::Talent => "Talent",
        Actor::Partner => "Partner",
        Actor::Mutual => "Both sides",
    };
    let verb = match (story.question.mode, story.question.actor) {
        (Mode::Cancel, _) => "canceled",
        (Mode::Evaluate, Actor::Mutual) => "cancel",
        (Mode::Evaluate, _) => "cancels",
    };
    let why = match story.question.reason {
        Some(Reason::NonPayment) => " because the organizer did not pay",
        Some(Reason::NoShow) => " as a no-show",
        Some(Reason::ForceMajeure) => " for force majeure",
        _ => "",
    };
    format!(
        "{who} {verb}{why} {}.",
        distance(story.at, story.terms.anchor)
    )
}

/// Why this rule applies: its deadline on the wall clock and in UTC, or what it depends on instead.
fn because(story: &ExplanationInput<'_>) -> String {
    let deadline = story.deadline.unwrap_or(story.terms.anchor);
    let clocks = both_clocks(deadline, story.terms.time_zone);
    let tense = if story.question.mode == Mode::Cancel {
        "was"
    } else {
        "is"
    };
    let mut text = match story.rule {
        Rule::Grace => format!("The grace period after booking {tense} open until {clocks}."),
        Rule::Tier(_) => format!("The deadline for this step {tense} {clocks}."),
        Rule::Late => format!(
            "Every earlier deadline had passed; this step lasts until the event starts, {clocks}."
        ),
        Rule::OrganizerNoShow => "The event had started, so the no-show rule applies.".to_owned(),
        Rule::TalentCancel => {
            "The rule for the talent applies whenever the talent cancels.".to_owned()
        }
        Rule::TalentNoShow => "The rule for a talent that does not come applies.".to_owned(),
        Rule::PartnerCancel => {
            "The rule for the partner applies whenever the partner cancels.".to_owned()
        }
        Rule::ForceMajeure => "The rule for force majeure applies, whoever cancels.".to_owned(),
        Rule::Mutual => "The figure is the one both sides agreed on.".to_owned(),
    };
    if let Settled::Sums(sums) = story.settled {
        text += match sums.bound {
            Bound::Outcome => "",
            Bound::Deposit => " The deposit is not refundable.",
            Bound::Reschedule => " The step reached before the event was moved still counts.",
        };
    }
    text
}

/// Why a person has to decide, in a sentence.
pub(crate) fn why_a_person(review: ReviewReason) -> &'static str {
    match review {
        ReviewReason::EvidenceMissing => {
            "The policy asks for evidence of force majeure and there is none: a person must decide."
        }
        ReviewReason::TimeZoneAmbiguous => {
            "The event's time zone is not known, and another zone gives another rule: a person must decide."
        }
        ReviewReason::BackdatedAcrossDeadline => {
            "At the instant of receipt another rule would apply, and nothing proves the earlier notice: a person must decide."
        }
        ReviewReason::ManualRule => "The policy leaves this case to a person.",
    }
}

/// The share that applied, for people; `None` when something else set the penalty.
fn share(sums: &Settlement<'_>) -> Option<String> {
    if sums.bound != Bound::Outcome {
        return None;
    }
    match sums.split? {
        Split::Refund { bps, .. } => Some(percent(*bps)),
        Split::Penalty(_) => Some("A fixed fee".to_owned()),
        Split::KeepDeposit => Some("The rule that the deposit is kept".to_owned()),
    }
}

fn money(share: Option<String>, sums: &Settlement<'_>) -> String {
    let mut text = share.map_or_else(String::new, |share| format!("{share} applies: "));
    text += &format!("{} is returned, {} is kept", sums.refund, sums.kept());
    if sums.balance_due.minor() > 0 {
        text += &format!(", {} is still owed by the organizer", sums.balance_due);
    }
    if sums.compensation.minor() > 0 {
        text += &format!(
            ", {} compensation is owed to the organizer",
            sums.compensation
        );
    }
    text + "."
}

/// Basis points as a percentage: `50 %`, `33.33 %`.
pub(super) fn percent(bps: u16) -> String {
    let (whole, rest) = (bps / 100, bps % 100);
    match rest {
        0 => format!("{whole} %"),
        _ if rest % 10 == 0 => format!("{whole}.{} %", rest / 10),
        _ => format!("{whole}.{rest:02} %"),
    }
}

/// `19 days 23 hours before the event`: the two largest units, rounded down.
pub(crate) fn distance(at: Timestamp, anchor: Timestamp) -> String {
    let units = ["day", "hour", "minute", "second"];
    lapse(at, anchor, units, plural, "after the start of the event")
}

/// `19d 23h before the event`, for one-line summaries.
pub(super) fn short_distance(at: Timestamp, anchor: Timestamp) -> String {
    let write = |n: u64, unit: &str| format!("{n}{unit}");
    let units = ["d", "h", "m", "s"];
    lapse(at, anchor, units, write, "after the event started")
}

fn lapse(
    at: Timestamp,
    anchor: Timestamp,
    units: [&str; 4],
    write: impl Fn(u64, &str) -> String,
    after: &str,
) -> String {
    let seconds = anchor.unix_seconds() - at.unix_seconds();
    let n = seconds.unsigned_abs();
    let counts = [n / 86_400, n / 3600 % 24, n / 60 % 60, n % 60];
    let first = counts.iter().position(|count| *count > 0).unwrap_or(3);
    let largest = counts.into_iter().zip(units).skip(first).take(2);
    let parts: Vec<String> = largest
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| write(count, unit))
        .collect();
    let length = parts.join(" ");
    match seconds {
        1.. => format!("{length} before the event"),
        0 => "at the start of the event".to_owned(),
        _ => format!("{length} {after}"),
    }
}

/// `2026-06-13 19:00 America/New_York (2026-06-13T23:00:00Z)`.
fn both_clocks(instant: Timestamp, zone: Zone) -> String {
    format!(
        "{} {zone} ({})",
        local(zone.to_local(instant)),
        seconds(instant)
    )
}

fn local(time: NaiveDateTime) -> String {
    format!("{} {}", time.date(), clock(time))
}

/// `19:00`, and `19:00:05` if seconds matter.
pub(crate) fn clock(time: NaiveDateTime) -> String {
    let (hour, minute) = (time.hour(), time.minute());
    match time.second() {
        0 => format!("{hour:02}:{minute:02}"),
        second => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

/// An instant in UTC without a fraction.
pub(super) fn seconds(instant: Timestamp) -> String {
    instant
        .to_utc()
        .to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_name_the_two_largest_units() {
        let anchor = Timestamp::parse("2026-06-20T23:00:00Z").unwrap();
        #[rustfmt::skip]
        let cases = [
            (19 * 86_400 + 23 * 3600 + 59, "19 days 23 hours before the event", "19d 23h before the event"),
            (86_400, "1 day before the event", "1d before the event"),
            (3661, "1 hour 1 minute before the event", "1h 1m before the event"),
            (1, "1 second before the event", "1s before the event"),
            (0, "at the start of the event", "at the start of the event"),
            (-90, "1 minute 30 seconds after the start of the event", "1m 30s after the event started"),
        ];
        for (seconds, long, short) in cases {
            let at = anchor.plus_ms(-seconds * 1000);
            assert_eq!(distance(at, anchor), long);
            assert_eq!(short_distance(at, anchor), short);
        }
    }

    #[test]
    fn percentages_have_the_decimals_they_need() {
        for (bps, text) in [
            (0, "0 %"),
            (5000, "50 %"),
            (3333, "33.33 %"),
            (1250, "12.5 %"),
            (10_000, "100 %"),
            (5, "0.05 %"),
        ] {
            assert_eq!(percent(bps), text);
        }
    }
}
