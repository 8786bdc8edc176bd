//! Puts a policy into plain English, for the people who are bound by it.

use super::disclosure::backdating;
use super::document::{DepositSize, Document, Floor, Policy, Tier};
use super::explain::percent;
use super::lint::{may_outlast_start, must_outlast_start};
use super::outcome::{FixedAmount, Outcome, Rounding, Split};
use crate::model::Amount;

impl Policy {
    /// One sentence per rule, in the order in which they matter.
    pub fn in_english(&self) -> Vec<String> {
        let document = self.document();
        let mut lines = Vec::new();
        lines.extend(deposit(document));
        lines.extend(grace(document));
        lines.extend(document.organizer.tiers.iter().map(|tier| {
            let outcome = say_of_organizer(document, &tier.outcome);
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
    let tiers = &document.organizer.tiers;
    let late = match tiers.is_empty() {
        true => "Organizer cancels before the event starts",
        false => "Organizer cancels later, before the event starts",
    };
    // A tier that ends after the start still applies then.
    let no_show = match tiers.iter().any(may_outlast_start) {
        true => "Organizer does not come, or cancels after the start and after the last deadline",
        false => "Organizer does not come, or cancels after the start",
    };
    let is_late_possible = !tiers.iter().any(must_outlast_start);
    let late = is_late_possible.then_some((late, &document.organizer.late));
    let of_organizer = (late.into_iter()).chain([(no_show, &document.organizer.no_show)]);
    let of_others = [
        ("Talent cancels", &document.talent.cancel),
        ("Talent does not come", &document.talent.no_show),
        ("Partner cancels", &document.partner.cancel),
        (evidence, &force_majeure.outcome),
    ];
    let of_organizer =
        of_organizer.map(|(when, outcome)| (when, say_of_organizer(document, outcome)));
    let of_others = of_others.map(|(when, outcome)| (when, say(document, outcome)));
    let rules = of_organizer.chain(of_others);
    rules.map(|(when, outcome)| format!("{when}: {outcome}."))
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
    let claims_end = match &document.claim_window {
        none if none.nominal_minutes() == 0 => "the event starts".to_owned(),
        window => format!("{} after the event starts", window.in_english()),
    };
    [
        Some(format!("When the event is moved, {moved}.")),
        Some(format!("Cancellations can be claimed until {claims_end}.")),
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
        DepositSize::Amount(fixed) => money(document, fixed),
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
    let within = match &grace.within {
        none if none.nominal_minutes() == 0 => "in the second".to_owned(),
        within => format!("within {}", within.in_english()),
    };
    Some(format!(
        "Organizer cancels {within} of booking{notice}: 100 % is returned."
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
        Some(time) if tier.before.minutes() > 0 => {
            format!("until {time} on the day of the moment {before} before the event")
        }
        Some(time) => format!("until {time} on the day {before} before the event"),
    }
}

/// What an outcome of the organizer means. A deposit that is not refundable is the least that is kept.
fn say_of_organizer(document: &Document, outcome: &Outcome) -> String {
    match (keeps_less_than_deposit(document, outcome), outcome) {
        (Some(false), _) => say(document, outcome),
        (Some(true), Outcome::Plain(split)) => {
            say_split(document, &Split::KeepDeposit) + &compensation(split)
        }
        _ => say(document, outcome) + ", but at least the deposit is kept",
    }
}

/// Whether an outcome keeps less than a deposit that is not refundable, so that this is kept instead; `None` if that depends
/// on the value.
fn keeps_less_than_deposit(document: &Document, outcome: &Outcome) -> Option<bool> {
    let deposit = document.deposit.as_ref();
    let Some(deposit) = deposit.filter(|deposit| deposit.non_refundable) else {
        return Some(false);
    };
    let splits = outcome.splits().iter();
    let each: Vec<_> = splits
        .map(|one| one.keeps_less_than(&deposit.size))
        .collect();
    // One split that keeps less is enough, or one that does not where the greater counts.
    let enough = !matches!(outcome, Outcome::GreaterOf(_));
    if each.contains(&Some(enough)) {
        return Some(enough);
    }
    let all_differ = each.iter().all(|one| *one == Some(!enough));
    all_differ.then_some(!enough)
}

impl Split {
    /// Whether this keeps less than such a deposit; `None` if that depends on the value.
    fn keeps_less_than(&self, deposit: &DepositSize) -> Option<bool> {
        match (self, deposit) {
            (Self::KeepDeposit | Self::Refund { bps: 0, .. }, _) | (_, DepositSize::Bps(0)) => {
                Some(false)
            }
            (_, DepositSize::Amount(amount)) if amount.minor() == 0 => Some(false),
            (Self::Refund { bps: 10_000, .. }, _) => Some(true),
            (Self::Refund { bps, .. }, DepositSize::Bps(share)) => Some(bps + share > 10_000),
            (Self::Penalty(fixed), DepositSize::Amount(amount)) => {
                Some(fixed.minor() < amount.minor())
            }
            (Self::Penalty(fixed), DepositSize::Bps(_)) if fixed.minor() == 0 => Some(true),
            _ => None,
        }
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
        Split::Refund { bps, .. } => {
            let text = match bps {
                0 => "nothing is returned".to_owned(),
                bps => format!("{} is returned", percent(*bps)),
            };
            text + &compensation(split)
        }
        Split::Penalty(fixed) if fixed.minor() == 0 => format!("{} is returned", percent(10_000)),
        Split::Penalty(fixed) => {
            format!("{} is kept, the rest is returned", money(document, fixed))
        }
        Split::KeepDeposit => "the deposit is kept, the rest is returned".to_owned(),
    }
}

/// What is owed to the organizer on top, if anything is.
fn compensation(split: &Split) -> String {
    let Split::Refund {
        compensation_bps: Some(bps @ 1..),
        ..
    } = split
    else {
        return String::new();
    };
    format!(
        ", and {} of the value is owed to the organizer",
        percent(*bps)
    )
}

/// A fixed amount with all decimals of its currency.
fn money(document: &Document, fixed: &FixedAmount) -> String {
    let currency = document.currency;
    let amount = currency.and_then(|own| Amount::from_minor(fixed.minor(), own).ok());
    amount.map_or_else(|| fixed.text().to_owned(), |amount| amount.to_string())
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
    fn a_deposit_that_is_not_refundable_is_said_where_an_outcome_keeps_less() {
        let (bps, amount) = (json!({"bps": 2500}), json!({"amount": "50.00"}));
        let kept = "the deposit is kept, the rest is returned";
        #[rustfmt::skip]
        let cases = [
            (&bps, json!({"refundBps": 10_000}), kept),
            (&bps, json!({"refundBps": 7_501}), kept),
            (&bps, json!({"refundBps": 7_500}), "75 % is returned"),
            (&bps, json!({"refundBps": 0}), "nothing is returned"),
            (&bps, json!({"keepDeposit": true}), kept),
            (&bps, json!({"manual": true}), "a person decides"),
            (&bps, json!({"refundBps": 10_000, "compensationBps": 500}),
                "the deposit is kept, the rest is returned, and 5 % of the value is owed to the organizer"),
            (&bps, json!({"penaltyAmount": "10.00"}), "USD 10.00 is kept, the rest is returned, but at least the deposit is kept"),
            (&bps, json!({"lesserOf": [{"refundBps": 0}, {"refundBps": 9_000}]}),
                "whichever keeps less: nothing is returned; or 90 % is returned, but at least the deposit is kept"),
            (&bps, json!({"greaterOf": [{"refundBps": 0}, {"refundBps": 9_000}]}),
                "whichever keeps more: nothing is returned; or 90 % is returned"),
            (&amount, json!({"refundBps": 9_000}), "90 % is returned, but at least the deposit is kept"),
            (&amount, json!({"penaltyAmount": "49.99"}), kept),
            (&amount, json!({"penaltyAmount": "50.00"}), "USD 50.00 is kept, the rest is returned"),
        ];
        for (deposit, outcome, expected) in cases {
            for non_refundable in [true, false] {
                let mut deposit = deposit.clone();
                deposit["nonRefundable"] = json!(non_refundable);
                let policy = json!({
                    "policyId": "p", "currency": "USD", "deposit": deposit, "organizer": {"late": outcome}, "talent": {"cancel": outcome},
                });
                let lines = Policy::from_json(&policy.to_string()).unwrap().in_english();
                let of = |who: &str| {
                    let mut lines = lines.iter();
                    lines.find_map(|line| line.strip_prefix(who)).unwrap()
                };
                let talent = of("Talent cancels: ");
                let organizer = of("Organizer cancels before the event starts: ");
                let expected = match non_refundable {
                    true => format!("{expected}."),
                    false => talent.to_owned(),
                };
                assert_eq!(organizer, expected, "{outcome} {deposit}");
            }
        }
    }

    #[test]
    fn nothing_is_said_of_no_time_and_no_money() {
        let tier =
            json!({"before": "P1DT6H", "cutoffTime": "09:00", "outcome": {"penaltyAmount": "0"}});
        let mut policy = json!({
            "policyId": "p", "currency": "USD", "claimWindow": "PT0M", "backdateTolerance": "PT0H", "grace": {"within": "PT0H"},
            "organizer": {"tiers": [tier], "late": {"penaltyAmount": "100"}},
        });
        let english = |policy: &Value| Policy::from_json(&policy.to_string()).unwrap().in_english();
        let said = english(&policy);
        for expected in [
            "Organizer cancels in the second of booking: 100 % is returned.",
            "Organizer cancels until 09:00 on the day of the moment 1 day 6 hours before the event: 100 % is returned.",
            "Organizer cancels later, before the event starts: USD 100.00 is kept, the rest is returned.",
            "Cancellations can be claimed until the event starts.",
            "An earlier time of cancellation counts only with evidence of it. Otherwise, a person decides if another rule would apply at the time of receipt.",
        ] {
            assert!(said.contains(&expected.to_owned()), "{said:#?}");
        }
        // After a deadline at the start, no time is left before it.
        let at_start = json!({"before": "P0D", "outcome": {"refundBps": 5000}});
        policy["organizer"]["tiers"] = json!([at_start]);
        let said = english(&policy);
        assert!(
            said.iter().all(|line| !line.contains("later, before")),
            "{said:#?}"
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
