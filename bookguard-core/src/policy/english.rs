//! Puts a policy into plain English, for the people who are bound by it.

use super::disclosure::backdating;
use super::document::{DepositSize, Document, Floor, Policy, Tier};
use super::explain::percent;
use super::lint::may_outlast_start;
use super::outcome::{Outcome, Rounding, Split};

impl Policy {
    /// One sentence per rule, in the order in which they matter.
    pub fn in_english(&self) -> Vec<String> {
        let document = self.document();
        let mut lines = Vec::new();
        lines.extend(deposit(document));
        lines.extend(grace(document));
        lines.extend(document.organizer.tiers.iter().map(|tier| {
            let outcome = say(document, &tier.outcome);
            format!("Organizer cancels {}: {outcome}.", deadline(tier))
        }));
        lines.extend(rules(document));
        lines.extend(manner(document));
        lines
    }
}

/// The rules without a deadline of their own.
fn rules(document: &Document) -> impl Iterator<Item = String> {
    let force_majeure = &document.force_majeure;
    let evidence = match force_majeure.requires_evidence {
        _ if force_majeure.outcome == Outcome::Manual => "Force majeure",
        true => "Force majeure (with evidence; without it a person decides)",
        false => "Force majeure (no evidence needed)",
    };
    let late = match document.organizer.tiers.is_empty() {
        true => "Organizer cancels before the event starts",
        false => "Organizer cancels later, before the event starts",
    };
    // A tier that ends after the start still applies then.
    let no_show = match document.organizer.tiers.iter().any(may_outlast_start) {
        true => "Organizer does not come, or cancels after the start and after the last deadline",
        false => "Organizer does not come, or cancels after the start",
    };
    let rules = [
        (late, &document.organizer.late),
        (no_show, &document.organizer.no_show),
        ("Talent cancels", &document.talent.cancel),
        ("Talent does not come", &document.talent.no_show),
        ("Partner cancels", &document.partner.cancel),
        (evidence, &force_majeure.outcome),
    ];
    let line = |(when, outcome)| format!("{when}: {}.", say(document, outcome));
    rules.into_iter().map(line)
}

/// The provisions that hold for all rules.
fn manner(document: &Document) -> impl Iterator<Item = String> {
    let moved = match (document.reschedule.floor, &document.grace) {
        (Floor::KeepReachedTier, Some(_)) => {
            "a step already reached still counts, except in the grace period"
        }
        (Floor::KeepReachedTier, None) => "a step already reached still counts",
        (Floor::Reset, _) => "the steps start anew",
    };
    let rounded = match document.rounding {
        Rounding::HalfUp => "to the nearest, halves up",
        Rounding::HalfEven => "to the nearest, halves to the even one",
        Rounding::Down => "down",
        Rounding::Up => "up",
    };
    let zone = document
        .time_zone
        .as_ref()
        .map(|zone| format!("Times are those of {zone}, unless the booking names another zone."));
    let window = document.claim_window.in_english();
    [
        Some(format!("When the event is moved, {moved}.")),
        Some(format!(
            "Cancellations can be claimed until {window} after the event starts."
        )),
        Some(backdating(&document.backdate_tolerance)),
        zone,
        Some(format!(
            "An event whose date has no time starts at {}.",
            document.anchor_time
        )),
        Some(format!(
            "Fractions of the smallest unit of money are rounded {rounded}."
        )),
    ]
    .into_iter()
    .flatten()
}

fn deposit(document: &Document) -> Option<String> {
    let deposit = document.deposit.as_ref()?;
    let size = match &deposit.size {
        DepositSize::Bps(bps) => format!("{} of the value", percent(*bps)),
        DepositSize::Amount(fixed) => money(document, fixed.text()),
    };
    let kept = match (deposit.non_refundable, &document.grace) {
        (true, Some(_)) => {
            "the organizer's cancellation does not return it, except in the grace period"
        }
        (true, None) => "the organizer's cancellation does not return it",
        (false, _) => "it is refundable where a rule says so",
    };
    Some(format!("Deposit: {size}; {kept}."))
}

fn grace(document: &Document) -> Option<String> {
    let grace = document.grace.as_ref()?;
    let notice = match &grace.min_notice {
        None => String::new(),
        Some(notice) if notice.nominal_minutes() == 0 => {
            ", when booked before the event starts".to_owned()
        }
        Some(notice) => format!(
            ", when booked at least {} before the event",
            notice.in_english()
        ),
    };
    Some(format!(
        "Organizer cancels within {} of booking{notice}: 100 % is returned.",
        grace.within.in_english()
    ))
}

fn deadline(tier: &Tier) -> String {
    let before = tier.before.in_english();
    match tier.cutoff_time {
        None if tier.before.nominal_minutes() == 0 => "until the event starts".to_owned(),
        None => format!("at least {before} before the event"),
        Some(time) if tier.before.nominal_minutes() == 0 => {
            format!("until {time} on the day of the event")
        }
        Some(time) => format!("until {time} on the day {before} before the event"),
    }
}

fn say(document: &Document, outcome: &Outcome) -> String {
    let list = |splits: &[Split]| {
        let words = splits.iter().map(|split| say_split(document, split));
        words.collect::<Vec<_>>().join("; or ")
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
    use serde_json::{Value, json};

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
        // Moved far enough ahead, an event can come under the grace period, in which nothing is kept.
        let moved = "When the event is moved, a step already reached still counts";
        assert!(lines.contains(&format!("{moved}, except in the grace period.")));
        let touring = Policy::template("touring_artist").unwrap().in_english();
        assert_eq!(
            touring[0],
            "Deposit: 50 % of the value; the organizer's cancellation does not return it."
        );
        assert!(touring.contains(&format!("{moved}.")));
        let case_by_case = Policy::template("case_by_case").unwrap().in_english();
        assert_eq!(
            case_by_case[0],
            "Organizer cancels before the event starts: a person decides."
        );
        assert!(touring.contains(&"Force majeure: a person decides.".to_owned()));
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
        assert_eq!(
            hotel[2],
            "Organizer does not come, or cancels after the start and after the last deadline: EUR 150.00 is kept, the rest is returned."
        );
    }

    #[test]
    fn whatever_a_policy_changes_the_english_changes_with_it() {
        let base = json!({
            "policyId": "p", "currency": "USD", "timeZone": "Europe/Berlin", "anchorTime": "19:00", "rounding": "half_up",
            "claimWindow": "P14D", "backdateTolerance": "PT1H",
            "grace": {"within": "PT24H", "minNotice": "P7D"},
            "deposit": {"bps": 2500, "nonRefundable": true},
            "organizer": {
                "tiers": [{"before": "P14D", "cutoffTime": "18:00", "outcome": {"refundBps": 5000, "compensationBps": 100}}],
                "late": {"penaltyAmount": "75.00"},
                "noShow": {"lesserOf": [{"refundBps": 0}, {"keepDeposit": true}]}
            },
            "talent": {"cancel": {"refundBps": 10000}, "noShow": {"refundBps": 9000}},
            "partner": {"cancel": {"refundBps": 10000}},
            "forceMajeure": {"outcome": {"refundBps": 10000}, "requiresEvidence": true},
            "reschedule": {"floor": "keep_reached_tier"}
        });
        let english = |policy: &Value| Policy::from_json(&policy.to_string()).unwrap().in_english();
        let mut at_the_start = base.clone();
        at_the_start["grace"]["minNotice"] = json!("P0D");
        at_the_start["organizer"]["tiers"][0]["before"] = json!("PT0H");
        let tiers = at_the_start["organizer"]["tiers"][0].as_object_mut();
        tiers.unwrap().remove("cutoffTime");
        let said = english(&at_the_start).join("\n");
        assert!(said.contains("of booking, when booked before the event starts: "));
        assert!(said.contains("Organizer cancels until the event starts: "));
        let mut seen = vec![english(&base)];
        #[rustfmt::skip]
        let cases = [
            ("/currency", json!("EUR")),
            ("/timeZone", json!("Europe/Vienna")),
            ("/anchorTime", json!("20:00")),
            ("/rounding", json!("half_even")),
            ("/rounding", json!("down")),
            ("/rounding", json!("up")),
            ("/claimWindow", json!("P15D")),
            ("/backdateTolerance", json!("PT2H")),
            ("/grace/within", json!("PT23H")),
            ("/grace/minNotice", json!("P8D")),
            ("/deposit/bps", json!(2501)),
            ("/deposit", json!({"amount": "25.00", "nonRefundable": true})),
            ("/deposit/nonRefundable", json!(false)),
            ("/organizer/tiers", json!([])),
            ("/organizer/tiers/0/before", json!("P13D")),
            ("/organizer/tiers/0/cutoffTime", json!("17:59")),
            ("/organizer/tiers/0/outcome/refundBps", json!(5001)),
            ("/organizer/tiers/0/outcome/compensationBps", json!(0)),
            ("/organizer/late/penaltyAmount", json!("75.01")),
            ("/organizer/late", json!({"manual": true})),
            ("/organizer/noShow", json!({"greaterOf": [{"refundBps": 0}, {"keepDeposit": true}]})),
            ("/organizer/noShow/lesserOf/0/refundBps", json!(1)),
            ("/talent/cancel/refundBps", json!(9999)),
            ("/talent/noShow/refundBps", json!(9001)),
            ("/partner/cancel/refundBps", json!(9999)),
            ("/forceMajeure/outcome/refundBps", json!(9999)),
            ("/forceMajeure/requiresEvidence", json!(false)),
            ("/reschedule/floor", json!("reset")),
        ];
        for (pointer, value) in cases {
            let mut changed = base.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            let english = english(&changed);
            assert!(!seen.contains(&english), "{pointer}: {english:#?}");
            seen.push(english);
        }
    }
}
