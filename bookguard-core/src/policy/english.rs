//! A policy in plain English, for the people who are bound by it.

use super::document::{DepositSize, Document, Floor, Policy, Tier};
use super::explain::percent;
use super::outcome::{Outcome, Split};

impl Policy {
    /// One sentence per rule, in the order in which they matter.
    pub fn in_english(&self) -> Vec<String> {
        let document = self.document();
        let mut lines = Vec::new();
        lines.extend(deposit(document));
        lines.extend(grace(document));
        let outcome = |outcome| say(document, outcome);
        for tier in &document.organizer.tiers {
            lines.push(format!(
                "Organizer cancels {}: {}.",
                deadline(tier),
                outcome(&tier.outcome)
            ));
        }
        let rules = [
            (
                "Organizer cancels later, before the event starts",
                &document.organizer.late,
            ),
            (
                "Organizer does not come, or cancels after the start",
                &document.organizer.no_show,
            ),
            ("Talent cancels", &document.talent.cancel),
            ("Talent does not come", &document.talent.no_show),
            ("Partner cancels", &document.partner.cancel),
        ];
        lines.extend(rules.map(|(when, rule)| format!("{when}: {}.", outcome(rule))));
        let evidence = match document.force_majeure.requires_evidence {
            true => "with evidence; without it a person decides",
            false => "no evidence needed",
        };
        lines.push(format!(
            "Force majeure ({evidence}): {}.",
            outcome(&document.force_majeure.outcome)
        ));
        lines.push(match document.reschedule.floor {
            Floor::KeepReachedTier => {
                "When the event is moved, a step already reached still counts.".to_owned()
            }
            Floor::Reset => "When the event is moved, the steps start anew.".to_owned(),
        });
        lines.push(format!(
            "Cancellations can be claimed until {} after the event starts.",
            document.claim_window.in_english()
        ));
        lines
    }
}

fn deposit(document: &Document) -> Option<String> {
    let deposit = document.deposit.as_ref()?;
    let size = match &deposit.size {
        DepositSize::Bps(bps) => format!("{} of the value", percent(*bps)),
        DepositSize::Amount(fixed) => money(document, fixed.text()),
    };
    let kept = if deposit.non_refundable {
        "the organizer's cancellation does not return it, except in the grace period"
    } else {
        "it is refundable where a rule says so"
    };
    Some(format!("Deposit: {size}; {kept}."))
}

fn grace(document: &Document) -> Option<String> {
    let grace = document.grace.as_ref()?;
    let notice = grace
        .min_notice
        .as_ref()
        .map_or_else(String::new, |notice| {
            format!(
                ", when booked at least {} before the event",
                notice.in_english()
            )
        });
    Some(format!(
        "Organizer cancels within {} of booking{notice}: 100 % is returned.",
        grace.within.in_english()
    ))
}

fn deadline(tier: &Tier) -> String {
    let before = tier.before.in_english();
    match tier.cutoff_time {
        None => format!("at least {before} before the event"),
        Some(time) if tier.before.nominal_minutes() == 0 => {
            format!("until {time} on the day of the event")
        }
        Some(time) => format!("until {time} on the day {before} before the event"),
    }
}

fn say(document: &Document, outcome: &Outcome) -> String {
    let list = |splits: &[Split]| {
        let words: Vec<String> = splits
            .iter()
            .map(|split| say_split(document, split))
            .collect();
        words.join("; or ")
    };
    match outcome {
        Outcome::Plain(split) => say_split(document, split),
        Outcome::LesserOf(splits) => format!("whichever keeps less: {}", list(splits)),
        Outcome::GreaterOf(splits) => format!("whichever keeps more: {}", list(splits)),
        Outcome::Manual => "a person decides".to_owned(),
    }
}

fn say_split(document: &Document, split: &Split) -> String {
    match split {
        Split::Refund {
            bps,
            compensation_bps,
        } => {
            let mut text = match bps {
                0 => "nothing is returned".to_owned(),
                bps => format!("{} is returned", percent(*bps)),
            };
            if let Some(bps) = compensation_bps.filter(|bps| *bps > 0) {
                text += &format!(
                    ", and {} of the value is owed to the organizer",
                    percent(bps)
                );
            }
            text
        }
        Split::Penalty(fixed) => format!(
            "{} is kept, the rest is returned",
            money(document, fixed.text())
        ),
        Split::KeepDeposit => "the deposit is kept, the rest is returned".to_owned(),
    }
}

fn money(document: &Document, amount: &str) -> String {
    match document.currency {
        Some(currency) => format!("{currency} {amount}"),
        None => amount.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_as_english() {
        let lines = Policy::template("talent_standard").unwrap().in_english();
        assert_eq!(
            lines[..6],
            [
                "Deposit: 25 % of the value; the organizer's cancellation does not return it, except in the grace period.",
                "Organizer cancels within 24 hours of booking, when booked at least 7 days before the event: 100 % is returned.",
                "Organizer cancels at least 30 days before the event: the deposit is kept, the rest is returned.",
                "Organizer cancels at least 14 days before the event: 50 % is returned.",
                "Organizer cancels at least 7 days before the event: 25 % is returned.",
                "Organizer cancels later, before the event starts: nothing is returned.",
            ]
        );
        let hotel = Policy::template("hotel_guaranteed_6pm")
            .unwrap()
            .in_english();
        assert_eq!(
            hotel[0],
            "Organizer cancels until 18:00 on the day of the event: 100 % is returned."
        );
        assert_eq!(
            hotel[1],
            "Organizer cancels later, before the event starts: EUR 150.00 is kept, the rest is returned."
        );
    }
}
