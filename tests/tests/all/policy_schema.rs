//! Compares the policies' JSON Schema with the reader, using a validator that shares no code with either.
//!
//! Policies from the library, and one that has every member, are mutated at random: members are replaced, removed, renamed,
//! added and repeated. The seed is fixed, so a failure can be reproduced.

use std::collections::BTreeMap;

use bookguard_core::policy::{Policy, SCHEMA};
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

/// The number of mutated policies; about five in six are invalid.
const SPOILED: usize = 8_000;

/// Codes of faults that no schema can express.
const BEYOND_SCHEMAS: &str = "time_zone_unknown currency_unknown currency_has_no_minor_unit policy_currency_missing \
    amount_precision amount_too_large tiers_not_ordered";

/// Texts of every kind that a policy has, and what only looks like them, with `|` between.
const WORDS: &str = "| |a|A|a-b_c|-a|a.b|half_up|HALF_UP|down|reset|keep_reached_tier|USD|usd|JPY|KWD|XAU|USDD|UTC|Europe/Berlin|\
    Europe/Berlln|00:00|23:59|24:00|9:00|09:60|P7D|P07D|P|PT|P1DT|P1W|P999W|P1000W|P9999D|P10000D|PT1H|PT90M|PT99999H|\
    PT100000H|PT10000M|P1W1DT1H1M|PT1M1H|P1M|p1d|P1D\n| P1D|-P1D|P1.5D|PT1S|0|0.0|01|1.|.5|-1|+1|1e3|1.2345|1.23456|\
    12.345|999999999999999|1000000000000000|x\u{0}|x\u{7f}|x\u{85}|\u{202e}";
/// Numbers as they may be written.
const NUMBERS: &str = "0 -0 -0.0 1 -1 5000 5000.0 5e3 9999.5 10000 1e4 10001 4294967295 4294967296 9223372036854775808 1e300";
/// Names of members, and two that are none.
const NAMES: &str = "policyId version name timeZone currency anchorTime rounding claimWindow backdateTolerance grace within minNotice \
    deposit bps amount nonRefundable organizer tiers before cutoffTime outcome late noShow talent cancel partner \
    forceMajeure requiresEvidence reschedule floor refundBps compensationBps penaltyAmount keepDeposit lesserOf greaterOf \
    manual policyid ";

struct Judge(Schemas, SchemaIndex);

impl Judge {
    fn new() -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
        let address = schema["$id"].as_str().expect("it has an id").to_owned();
        compiler
            .add_resource(&address, schema)
            .expect("its id is an address");
        let index = compiler
            .compile(&address, &mut schemas)
            .expect("it is a schema");
        Self(schemas, index)
    }

    fn accepts(&self, policy: &Value) -> bool {
        self.0.validate(policy, self.1).is_ok()
    }
}

/// Returns a policy that has every member.
fn whole() -> Value {
    json!({
        "policyId": "whole", "version": 3, "name": "Whole", "timeZone": "America/New_York", "currency": "USD",
        "anchorTime": "19:30", "rounding": "half_even", "claimWindow": "P14D", "backdateTolerance": "PT1H",
        "grace": {"within": "PT24H", "minNotice": "P7D"},
        "deposit": {"bps": 2500, "nonRefundable": true},
        "organizer": {
            "tiers": [
                {"before": "P30D", "outcome": {"keepDeposit": true}},
                {"before": "P14D", "cutoffTime": "18:00", "outcome": {"lesserOf": [{"refundBps": 5000}, {"penaltyAmount": "150.00"}]}},
                {"before": "P1WT2H30M", "outcome": {"refundBps": 2500, "compensationBps": 100}}
            ],
            "late": {"penaltyAmount": "75"},
            "noShow": {"greaterOf": [{"refundBps": 0}, {"keepDeposit": true}, {"penaltyAmount": "0.5"}]}
        },
        "talent": {"cancel": {"refundBps": 10000}, "noShow": {"manual": true}},
        "partner": {"cancel": {"refundBps": 10000}},
        "forceMajeure": {"outcome": {"refundBps": 10000}, "requiresEvidence": false},
        "reschedule": {"floor": "reset"}
    })
}

/// A random number generator: xorshift64*.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        high as usize % n
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn text(&mut self) -> String {
        let words: Vec<&str> = WORDS.split('|').collect();
        match self.below(20) {
            0 => "a".repeat(64 + self.below(2)),
            1 => "ü".repeat(120 + self.below(2)),
            2 => "🎸".repeat(120 + self.below(2)),
            _ => self.of(&words).to_owned(),
        }
    }

    /// Returns a random text of the same kind as `other`: a duration, digits, or a word.
    fn text_like(&mut self, other: &str) -> String {
        let kind = |text: &str| text.chars().next().map(|c| (c == 'P', c.is_ascii_digit()));
        loop {
            let text = self.text();
            if kind(&text) == kind(other) || text.is_empty() {
                return text;
            }
        }
    }

    fn number(&mut self) -> Value {
        let texts: Vec<&str> = NUMBERS.split(' ').collect();
        serde_json::from_str(self.of(&texts)).expect("all are numbers")
    }

    fn name(&mut self) -> String {
        let names: Vec<&str> = NAMES.split(' ').collect();
        self.of(&names).to_owned()
    }

    fn outcome(&mut self) -> Value {
        let split = |dice: &mut Self| match dice.below(4) {
            0 => json!({"penaltyAmount": dice.text()}),
            1 => json!({"keepDeposit": dice.below(3) > 0}),
            2 => json!({"refundBps": dice.number(), "compensationBps": dice.number()}),
            _ => json!({"refundBps": dice.number()}),
        };
        let count = self.below(6);
        match self.below(6) {
            0 => json!({"manual": self.below(3) > 0}),
            1 => json!({"lesserOf": (0..count).map(|_| split(self)).collect::<Vec<_>>()}),
            2 => json!({"greaterOf": vec![json!({"keepDeposit": true}); count]}),
            _ => split(self),
        }
    }

    fn value(&mut self) -> Value {
        match self.below(10) {
            0..=3 => self.text().into(),
            4..=5 => self.number(),
            6..=7 => self.outcome(),
            8 => [Value::Null, true.into(), false.into()][self.below(3)].clone(),
            _ => [json!({}), json!([]), json!([{}]), json!({"x": 1})][self.below(4)].clone(),
        }
    }

    /// Changes one place of the policy.
    fn spoil(&mut self, policy: &mut Value) {
        let places = count(policy);
        let place = self.below(places);
        if let Some(value) = nth(policy, &mut { place }) {
            self.spoil_here(value);
        }
    }

    fn spoil_here(&mut self, value: &mut Value) {
        match (self.below(4), value) {
            (0, Value::Object(members)) => {
                let (name, value) = (self.name(), self.value());
                members.insert(name, value);
            }
            (1, Value::Object(members)) if !members.is_empty() => {
                let name = members.keys().nth(self.below(members.len())).cloned();
                let gone = name.and_then(|name| members.remove(&name));
                if let (Some(gone), true) = (gone, self.below(2) == 0) {
                    members.insert(self.name(), gone);
                }
            }
            (0, Value::Array(items)) => items.push(self.value()),
            (1, Value::Array(items)) => {
                let again = items.clone();
                for _ in 0..=self.below(6) {
                    items.extend(again.iter().cloned());
                }
            }
            (0..=2, Value::String(text)) => *text = self.text_like(text),
            (0..=2, value @ Value::Number(_)) => *value = self.number(),
            (0 | 1, Value::Bool(said)) => *said = !*said,
            (_, value) => *value = self.value(),
        }
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(members) => members.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

/// Returns the value that has `left` values before it.
fn nth<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, left)),
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        _ => None,
    }
}

#[test]
fn the_library_and_its_normal_forms_pass() {
    let judge = Judge::new();
    assert!(judge.accepts(&whole()));
    let policies = Policy::templates().iter().cloned();
    for policy in policies.chain([Policy::from_json(&whole().to_string()).unwrap()]) {
        let normal = serde_json::from_str(policy.canonical_json()).unwrap();
        assert!(judge.accepts(&normal), "{normal}");
    }
}

#[test]
fn the_schema_and_the_reader_refuse_the_same_but_for_what_no_schema_can_know() {
    let judge = Judge::new();
    let good = Policy::templates().iter().map(|policy| json!(policy));
    let good: Vec<Value> = good.chain(vec![whole(); 10]).collect();
    let mut dice = Dice(0x2026_1121_1111_0042);
    let (mut used, mut refused, mut beyond) = (0, 0, BTreeMap::new());
    for _ in 0..SPOILED {
        let mut policy = good[dice.below(good.len())].clone();
        for _ in 0..=dice.below(2) {
            dice.spoil(&mut policy);
        }
        let passes = judge.accepts(&policy);
        match Policy::from_json(&policy.to_string()) {
            Ok(read) => {
                used += 1;
                assert!(passes, "only the schema refuses {policy}");
                let normal = serde_json::from_str(read.canonical_json()).unwrap();
                assert!(judge.accepts(&normal), "{normal}");
                let again = Policy::from_json(read.canonical_json()).unwrap();
                assert_eq!(again.hash(), read.hash(), "{policy}");
            }
            Err(_) if !passes => refused += 1,
            Err(error) => {
                for detail in &error.details {
                    let known = BEYOND_SCHEMAS.split(' ').any(|code| detail.code == code);
                    assert!(known, "only the reader refuses {policy}: {detail:?}");
                    *beyond.entry(detail.code.clone()).or_insert(0) += 1;
                }
            }
        }
    }
    // Each of the three outcomes must occur often enough for the comparison to mean something.
    assert!(
        used > SPOILED / 10 && refused > SPOILED / 2,
        "{used} {refused} {beyond:?}"
    );
    assert!(beyond.len() >= 5, "{used} {refused} {beyond:?}");
}
