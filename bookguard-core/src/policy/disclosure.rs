//! The terms of a booking in words, to be shown to those who accept them, and the hash of this text.
//!
//! A pure function of frozen terms and of what was reached before the event was moved: it uses no clock, no time zone
//! tables and no sentences of other modules. Invariant: the same terms give the same text forever, byte for byte. A new
//! wording needs a new [`DISCLOSURE_VERSION`], and this one stays, because texts under it were accepted.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use super::document::{Document, Floor};
use super::evaluate::inconsistent;
use super::explain::seconds;
use super::reschedule::{PastReschedule, reached};
use super::rule::Rule;
use super::schedule::Segment;
use super::settlement::{Settled, Settlement, Stakes};
use super::terms::{Adopted, Terms};
use super::words::{Assumption, PolicySource};
use crate::error::Error;
use crate::model::{Amount, Timestamp, digest};

/// The version of this wording; the last line of every text names it.
pub const DISCLOSURE_VERSION: &str = "bookguard-disclosure-1";

/// A booking's terms in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct TermsDisclosure {
    /// `sha256:` and the hex digest of the text's UTF-8 bytes.
    pub disclosure_hash: String,
    /// The version of the wording.
    pub version: String,
    /// The text, its lines separated by line feeds.
    pub text: String,
}

/// Puts the terms into words.
///
/// # Errors
/// `currency_mismatch`, if what was reached is in another currency than the booking; `policy_currency_mismatch` and
/// `terms_inconsistent`, which frozen terms never cause.
pub fn disclose(terms: &Terms, reschedules: &[PastReschedule]) -> Result<TermsDisclosure, Error> {
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
    match (&terms.policy, terms.stakes()?) {
        (Some(policy), Some(stakes)) => {
            lines.push(name(policy));
            let wording = Wording {
                terms,
                reached: reached(&stakes, reschedules)?,
                stakes,
            };
            wording.rules(&mut lines)?;
            wording.moves(reschedules, &mut lines);
        }
        _ => lines.push(
            "No cancellation policy was agreed on: what a cancellation comes to is for the sides to settle.".to_owned(),
        ),
    }
    lines.push(String::new());
    lines.push(format!("Wording: {DISCLOSURE_VERSION}."));
    let text = lines.join("\n");
    Ok(TermsDisclosure {
        disclosure_hash: digest::of(&text),
        version: DISCLOSURE_VERSION.to_owned(),
        text,
    })
}

fn name(policy: &Adopted) -> String {
    let document = policy.document.document();
    let version = format!(
        "{} version {}, {}",
        document.policy_id, document.version, policy.policy_hash
    );
    let named = match &document.name {
        Some(name) => format!("The policy is \"{name}\" ({version})."),
        None => format!("The policy is {version}."),
    };
    match policy.policy_source {
        PolicySource::Library => {
            named + " Nobody chose it: it is the service's default for such events."
        }
        _ => named,
    }
}

/// The facts from which the rules are worded.
struct Wording<'a> {
    terms: &'a Terms,
    stakes: Stakes<'a>,
    /// What was reached before the event was moved, in minor units; `None` if a person has to decide that.
    reached: Option<i64>,
}

impl Wording<'_> {
    fn document(&self) -> &Document {
        self.stakes.document
    }

    /// Adds a line per rule, the organizer's in chronological order.
    fn rules(&self, lines: &mut Vec<String>) -> Result<(), Error> {
        lines.extend([String::new(), "If the organizer cancels:".to_owned()]);
        let terms = self.terms;
        for (step, segment) in terms.schedule.iter().enumerate() {
            let outcome = self.outcome(segment.rule_id)?;
            lines.push(format!("- {}: {outcome}", self.period(step, segment)));
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
            lines.push(format!("- {who}: {}", self.outcome(rule)?));
        }
        let evidence = match self.document().force_majeure.requires_evidence {
            true => "with evidence of it; without, a person decides",
            false => "no evidence is needed",
        };
        lines.push(format!(
            "- force majeure, whoever cancels ({evidence}): {}",
            self.outcome(Rule::ForceMajeure)?
        ));
        lines.push(format!(
            "- both sides together: what they agree on is returned, at most {}.",
            terms.paid
        ));
        Ok(())
    }

    /// The period in which a step of the organizer's schedule applies.
    fn period(&self, step: usize, segment: &Segment) -> String {
        let until = clocks(self.terms, segment.to, step);
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

    fn outcome(&self, rule: Rule) -> Result<String, Error> {
        let settled = self.stakes.settle(rule, self.reached);
        Ok(match settled.ok_or_else(inconsistent)? {
            Settled::Manual => "a person decides.".to_owned(),
            Settled::Sums(sums) => money(&sums),
        })
    }

    /// What happens to the terms when the event is moved, and what happened at each move.
    fn moves(&self, reschedules: &[PastReschedule], lines: &mut Vec<String>) {
        lines.push(String::new());
        lines.push(match self.document().reschedule.floor {
            Floor::KeepReachedTier => {
                "If both sides move the event to another date, the deadlines are counted anew, and what the organizer's cancellation \
                 would have cost on that day is the least that it costs from then on, except within the grace period."
                    .to_owned()
            }
            Floor::Reset => {
                "If both sides move the event to another date, the deadlines are counted anew.".to_owned()
            }
        });
        let times = match reschedules.len() {
            0 => return,
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        lines.push(match self.reached {
            None => format!(
                "The event was moved {times}; what had been reached before is for a person to say."
            ),
            Some(0) => format!("The event was moved {times}, and nothing had been reached before."),
            Some(reached) => format!(
                "The event was moved {times}; {} had been reached before.",
                self.stakes.amount(reached)
            ),
        });
    }
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

/// `2026-06-13 19:00 America/New_York (2026-06-13T23:00:00Z)`, by the clock's offsets when the terms were frozen.
fn clocks(terms: &Terms, instant: Timestamp, step: usize) -> String {
    let utc = instant.floor_to_second().to_utc().naive_utc();
    let local = (utc + TimeDelta::seconds(terms.offset(step).into())).to_string();
    let local = local.strip_suffix(":00").unwrap_or(&local);
    format!("{local} {} ({})", terms.time_zone, seconds(instant))
}
