//! A policy as somebody typed it: in fields, or as its text.

use bookguard_core::error::FieldError;
use bookguard_core::input::Json;
use bookguard_core::limits::POLICY_TIERS;
use bookguard_core::model::Timestamp;
use bookguard_core::policy::Policy;

use super::fields::{self, OUTCOMES, STEPS};
use crate::console::Fields;
use crate::console::parts::words;
use crate::console::policies::{example, text};

/// The field with the text of a policy.
pub(super) const TEXT: &str = "json";
/// The field that says how the policy is written.
const MODE: &str = "mode";
/// The outcomes, as people read them.
pub(super) const PLACES: [&str; 6] = [
    "After the last step, until the event starts",
    "The organizer does not come",
    "The talent cancels",
    "The talent does not come",
    "The partner cancels",
    "Force majeure",
];
/// The field with the version that is changed.
const VERSION: &str = "/version";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Fields,
    Json,
}

/// What was typed.
pub(super) struct Typed {
    pub(super) mode: Mode,
    /// The fields of the policy or its text, and those of the example.
    pub(super) fields: Fields,
}

impl Typed {
    /// What a form holds. Fields of no form are left out.
    pub(super) fn read(all: &Fields) -> Self {
        let mode = match all.get(MODE) {
            Some("json") => Mode::Json,
            _ => Mode::Fields,
        };
        let kept = all.only(|name| match mode {
            _ if example::NAMES.contains(&name) => true,
            Mode::Fields => fields::is_field(name),
            Mode::Json => name == TEXT || name == VERSION,
        });
        let steps = fields::steps(&kept);
        Self {
            mode,
            fields: fields::with_steps(&kept, &steps),
        }
    }

    /// A policy before anybody types, with an example.
    pub(super) fn of(policy: &mut Json, now: Timestamp) -> Self {
        let date = match Policy::from_json(&policy.to_string()) {
            Ok(policy) => example::date_for(policy.document(), now),
            Err(_) => example::date_after(now, 60),
        };
        let (mode, said) = match fields::fields(policy) {
            Ok(said) => (Mode::Fields, said),
            Err(_) => (Mode::Json, text_of(policy)),
        };
        Self {
            mode,
            fields: said.with("eventDate", &date),
        }
    }

    /// The fields with which it is sent again.
    pub(super) fn all(&self) -> Fields {
        let word = match self.mode {
            Mode::Fields => "fields",
            Mode::Json => "json",
        };
        self.fields.with(MODE, word)
    }

    /// The policy's text, as it was typed or as the fields say it.
    pub(super) fn text(&self) -> String {
        match self.mode {
            Mode::Json => self.typed_text().to_owned(),
            Mode::Fields => text::text(&fields::policy(&self.fields)),
        }
    }

    /// The policy's id, as it was typed.
    pub(super) fn policy_id(&self) -> Option<String> {
        match self.mode {
            Mode::Fields => self.fields.get("/policyId").map(str::to_owned),
            Mode::Json => {
                let policy = serde_json::from_str::<Json>(self.typed_text()).ok()?;
                policy.get("policyId")?.as_str().map(str::to_owned)
            }
        }
    }

    fn typed_text(&self) -> &str {
        self.fields.raw(TEXT).unwrap_or_default()
    }

    /// The text with the version that was changed, or with 0 if the policy is new, if its author says none: so what came in between is
    /// noticed.
    pub(super) fn text_to_put(&self, is_new: bool) -> String {
        let text = self.text();
        let says_one =
            serde_json::from_str::<Json>(&text).is_ok_and(|policy| policy.get("version").is_some());
        let base = match is_new {
            true => Some(0),
            false => self.version(),
        };
        match (base, text.split_once('{')) {
            (Some(version), Some((before, after))) if !says_one => {
                format!("{before}{{\"version\": {version},{after}")
            }
            _ => text,
        }
    }

    /// The version that is changed.
    pub(super) fn version(&self) -> Option<u32> {
        self.fields.get(VERSION)?.parse().ok()
    }

    /// Makes it a change of another version.
    pub(super) fn set_version(&mut self, version: u32) {
        if self.mode == Mode::Json {
            let text = self.typed_text();
            if let Ok(mut policy) = serde_json::from_str::<Json>(text)
                && policy.get("version").is_some()
            {
                policy.set("version", Json::Leaf(version.into()));
                self.fields = self.fields.with(TEXT, &text::text(&policy));
            }
        }
        self.fields = self.fields.with(VERSION, &version.to_string());
    }

    /// Adds a step. Returns the field where it begins.
    pub(super) fn add_step(&mut self) -> Option<String> {
        let mut steps = fields::steps(&self.fields);
        if steps.len() >= POLICY_TIERS {
            return None;
        }
        let new = [("before/unit", "days"), ("outcome/kind", "refundBps")];
        steps.push(
            new.map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into(),
        );
        self.fields = fields::with_steps(&self.fields, &steps);
        Some(format!("{STEPS}/{}/before", steps.len() - 1))
    }

    /// Removes the step with this number, if there is one.
    pub(super) fn remove_step(&mut self, number: &str) {
        let mut steps = fields::steps(&self.fields);
        if let Some(number) = number.parse().ok().filter(|number| *number < steps.len()) {
            steps.remove(number);
            self.fields = fields::with_steps(&self.fields, &steps);
        }
    }

    /// Goes from fields to the text, unless that would lose a figure: it then stays in fields.
    pub(super) fn become_text(&mut self) {
        if self.mode == Mode::Fields && fields::unused_figures(&self.fields).is_empty() {
            self.replace(Mode::Json, text_of(&fields::policy(&self.fields)));
        }
    }

    /// Goes from the text to fields.
    ///
    /// # Errors
    /// The pointers of what no field can say; it then stays text.
    pub(super) fn become_fields(&mut self) -> Result<(), Vec<String>> {
        if self.mode == Mode::Fields {
            return Ok(());
        }
        let policy = serde_json::from_str::<Json>(self.typed_text());
        let said = fields::fields(&policy.map_err(|_| vec![String::new()])?)?;
        self.replace(Mode::Fields, said);
        Ok(())
    }

    /// Replaces the policy; the example and the version that is changed stay.
    fn replace(&mut self, mode: Mode, policy: Fields) {
        let says_version = policy.get(VERSION).is_some();
        let stays =
            |name: &str| example::NAMES.contains(&name) || (name == VERSION && !says_version);
        let fields = policy.and(self.fields.only(stays));
        *self = Self { mode, fields };
    }
}

/// A policy as the field of its text.
fn text_of(policy: &Json) -> Fields {
    let mut pairs = vec![(TEXT.to_owned(), text::text(policy))];
    if let Some(version) = policy.get("version") {
        pairs.push((VERSION.to_owned(), version.to_string()));
    }
    Fields::new(pairs)
}

/// Moves a fault or a warning to the field that it is about, in the words of that field.
pub(in crate::console::policies) fn beside(fault: &mut FieldError) {
    let (parent, name) = fault.pointer.rsplit_once('/').unwrap_or(("", ""));
    let (message, fix) = match (name, &*fault.code) {
        ("refundBps" | "bps", "wrong_type" | "out_of_range") => (
            "is not a percentage from 0 to 100 with at most two decimals",
            "Write one such as 50 or 33.33.",
        ),
        ("penaltyAmount" | "amount", "wrong_type" | "bad_amount") => {
            ("is not an amount", "Write digits such as 150.00.")
        }
        (_, "bad_duration") => (
            "is not a whole number, or a very large one",
            "Write digits alone, such as 30.",
        ),
        (_, "policy_currency_missing") => (
            "is missing, and the policy holds a fixed amount",
            "Add its code, such as EUR.",
        ),
        (_, "no_grace") => (
            "is missing: a booking made by mistake costs from the first minute",
            "Enter a time, such as 24 hours.",
        ),
        _ => ("", ""),
    };
    if !message.is_empty() {
        message.clone_into(&mut fault.message);
        fix.clone_into(&mut fault.fix);
    }
    fault.pointer = match name {
        "refundBps" | "penaltyAmount" => format!("{parent}/figure"),
        "bps" | "amount" => "/deposit/figure".to_owned(),
        _ => match &*fault.pointer {
            "/deposit" => "/deposit/kind".to_owned(),
            "/grace" => "/grace/within".to_owned(),
            pointer if is_outcome(pointer) => format!("{pointer}/kind"),
            pointer if parent == STEPS => format!("{pointer}/before"),
            pointer => pointer.to_owned(),
        },
    };
}

/// Where a field is, as people read it.
pub(in crate::console::policies) fn place(pointer: &str) -> String {
    let within = |name: &str| {
        let rest = pointer.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(rest) = pointer
        .strip_prefix(STEPS)
        .and_then(|rest| rest.strip_prefix('/'))
    {
        let number = rest.split('/').next().unwrap_or_default().parse::<usize>();
        return number.map_or_else(
            |_| "The steps".to_owned(),
            |number| format!("Step {}", number + 1),
        );
    }
    if let Some((_, title)) = OUTCOMES.iter().zip(PLACES).find(|(name, _)| within(name)) {
        return title.to_owned();
    }
    match pointer.split('/').nth(1).unwrap_or_default() {
        "policyId" => "The id".to_owned(),
        "grace" => "The grace period".to_owned(),
        // The fields of the example are not pointers.
        "" => words(pointer),
        name => words(name),
    }
}

fn is_outcome(pointer: &str) -> bool {
    OUTCOMES.contains(&pointer) || (pointer.starts_with(STEPS) && pointer.ends_with("/outcome"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_moved_to_a_field_in_its_words() {
        #[rustfmt::skip]
        let cases = [
            ("/organizer/late/refundBps", "wrong_type", "/organizer/late/figure", "percentage"),
            ("/organizer/tiers/3/outcome/refundBps", "out_of_range", "/organizer/tiers/3/outcome/figure", "percentage"),
            ("/organizer/tiers/3/outcome/penaltyAmount", "bad_amount", "/organizer/tiers/3/outcome/figure", "amount"),
            ("/organizer/tiers/3/outcome/penaltyAmount", "amount_precision", "/organizer/tiers/3/outcome/figure", "said"),
            ("/organizer/tiers/3/outcome", "missing_field", "/organizer/tiers/3/outcome/kind", "said"),
            ("/organizer/tiers/3/before", "bad_duration", "/organizer/tiers/3/before", "whole number"),
            ("/organizer/tiers/3/before", "tiers_not_ordered", "/organizer/tiers/3/before", "said"),
            ("/organizer/tiers/3", "tier_unreachable", "/organizer/tiers/3/before", "said"),
            ("/organizer/late", "refund_rises", "/organizer/late/kind", "said"),
            ("/deposit/bps", "deposit_over_half", "/deposit/figure", "said"),
            ("/deposit/amount", "wrong_type", "/deposit/figure", "amount"),
            ("/deposit", "bad_deposit", "/deposit/kind", "said"),
            ("/grace", "no_grace", "/grace/within", "is missing"),
            ("/policyId", "bad_policy_id", "/policyId", "said"),
            ("/organizer", "missing_field", "/organizer", "said"),
            ("", "wrong_type", "", "said"),
        ];
        for (pointer, code, expected, words) in cases {
            let mut fault = FieldError::new(pointer, code, "said", "fix");
            beside(&mut fault);
            assert_eq!(fault.pointer, expected);
            assert!(fault.message.contains(words), "{fault:?}");
        }
    }

    #[test]
    fn people_read_where_a_field_is() {
        for (pointer, expected) in [
            ("/organizer/tiers/0/outcome/figure", "Step 1"),
            ("/organizer/tiers/x", "The steps"),
            ("/organizer/tiers", "Organizer"),
            (
                "/organizer/late/kind",
                "After the last step, until the event starts",
            ),
            ("/forceMajeure/outcome/figure", "Force majeure"),
            ("/organizer/noShow", "The organizer does not come"),
            ("/deposit/figure", "Deposit"),
            ("/timeZone", "Time zone"),
            ("eventDate", "Event date"),
            ("", ""),
        ] {
            assert_eq!(place(pointer), expected);
        }
    }

    fn typed(pairs: &[(&str, &str)]) -> Typed {
        let pairs = pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Typed::read(&Fields::new(pairs.collect()))
    }

    #[test]
    fn a_text_is_put_as_it_was_typed_with_the_version_that_was_changed() {
        for (text, expected) in [
            (" {\"a\": 1.50}", " {\"version\": 3,\"a\": 1.50}"),
            ("{\"version\": 2}", "{\"version\": 2}"),
            ("no", "no"),
        ] {
            let typed = typed(&[
                ("mode", "json"),
                ("json", text),
                ("/version", "3"),
                ("/name", "x"),
            ]);
            assert_eq!(typed.text(), text);
            assert_eq!(typed.text_to_put(false), expected, "{text}");
        }
        let new = typed(&[("mode", "json"), ("json", "{}"), ("/version", "x")]);
        assert_eq!(new.text_to_put(false), "{}");
        let new = typed(&[("mode", "json"), ("json", "{\"a\": 1}")]);
        assert_eq!(new.text_to_put(true), "{\"version\": 0,\"a\": 1}");
    }

    #[test]
    fn going_from_one_form_to_the_other_and_back_loses_nothing() {
        let mut policy = typed(&[
            ("/policyId", "house"),
            ("/version", "3"),
            ("/organizer/tiers/0/before", "soon"),
            ("/organizer/tiers/0/before/unit", "hours"),
            ("/organizer/tiers/0/outcome/kind", "refundBps"),
            ("/organizer/tiers/0/outcome/figure", "half"),
            ("/organizer/late/kind", "penaltyAmount"),
            ("/organizer/late/figure", "12345678901234567890.10"),
            ("eventDate", "2027-01-01"),
            ("bookingValue", "5"),
        ]);
        let before: Vec<_> = policy
            .fields
            .pairs()
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect();
        policy.become_text();
        assert!(
            policy.text().contains("\"PTsoonH\"") && policy.text().contains("\"half\""),
            "{}",
            policy.text()
        );
        policy.become_fields().unwrap();
        for (name, text) in before {
            assert_eq!(policy.fields.raw(&name), Some(&*text), "{name}");
        }
        // What the fields cannot say stays as it was typed.
        let text = "{ \"organizer\":\t{\"late\": {\"lesserOf\": []}}, \"x\": 1.50 }";
        let mut policy = typed(&[("mode", "json"), ("json", text), ("eventDate", "x")]);
        assert_eq!(
            policy.become_fields().unwrap_err(),
            ["/organizer/late", "/x"]
        );
        assert_eq!((policy.mode, &*policy.text()), (Mode::Json, text));
        let mut broken = typed(&[("mode", "json"), ("json", "{")]);
        assert_eq!(broken.become_fields().unwrap_err(), [""]);
        assert_eq!(broken.text(), "{");
    }

    #[test]
    fn a_figure_that_the_text_would_not_hold_stays_in_its_field() {
        let mut policy = typed(&[("/policyId", "house"), ("/talent/cancel/figure", "50")]);
        policy.become_text();
        assert_eq!(policy.mode, Mode::Fields);
        assert_eq!(policy.fields.get("/talent/cancel/figure"), Some("50"));
    }

    #[test]
    fn steps_are_added_up_to_the_most_and_removed_by_their_number() {
        let mut policy = typed(&[
            ("/organizer/tiers/0/before", "30"),
            ("/organizer/tiers/1/before", "7"),
        ]);
        policy.remove_step("0");
        assert_eq!(policy.fields.get("/organizer/tiers/0/before"), Some("7"));
        for number in ["1", "-1", "x", "", "99999999999999999999"] {
            policy.remove_step(number);
        }
        assert_eq!(fields::steps(&policy.fields).len(), 1);
        assert_eq!(
            policy.add_step().as_deref(),
            Some("/organizer/tiers/1/before")
        );
        while policy.add_step().is_some() {}
        assert_eq!(fields::steps(&policy.fields).len(), POLICY_TIERS);
    }
}
