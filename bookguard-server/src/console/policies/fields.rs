//! A policy as the fields of a form, and back: pure functions.
//!
//! A field has the name of its member's JSON pointer. A member that people write in two parts has two fields: a duration has its
//! number and `…/unit`, an outcome and the deposit have `…/kind` and `…/figure`. Invariant: a policy that was turned into fields
//! is turned back into the same policy; one that holds more than the fields can express is not turned into fields at all.

use bookguard_core::input::{Json, cut};
use bookguard_core::limits::POLICY_TIERS;
use serde_json::Value;

use crate::console::Fields;

/// The steps of the organizer's schedule.
pub(super) const STEPS: &str = "/organizer/tiers";
/// The outcomes beside those of the steps.
pub(super) const OUTCOMES: [&str; 6] = [
    "/organizer/late",
    "/organizer/noShow",
    "/talent/cancel",
    "/talent/noShow",
    "/partner/cancel",
    "/forceMajeure/outcome",
];
/// The members that are text, or one of some words.
pub(super) const TEXTS: [&str; 7] = [
    "/policyId",
    "/name",
    "/timeZone",
    "/currency",
    "/anchorTime",
    "/reschedule/floor",
    "/rounding",
];
/// The members that are true or false.
pub(super) const FLAGS: [&str; 2] = ["/deposit/nonRefundable", "/forceMajeure/requiresEvidence"];
/// The durations beside those of the steps.
pub(super) const DURATIONS: [&str; 4] = [
    "/grace/within",
    "/grace/minNotice",
    "/claimWindow",
    "/backdateTolerance",
];
/// The units of durations: their letters, as the word of the field `…/unit`.
pub(super) const UNITS: [(&str, &str, &str); 4] = [
    ("days", "P", "D"),
    ("hours", "PT", "H"),
    ("weeks", "P", "W"),
    ("minutes", "PT", "M"),
];
/// The most pointers that are collected of members that no field can express. Pages show a few, and a form has room for thousands of
/// leaves below a long name.
const LEFT: usize = 100;
/// The most characters of a name in a pointer; no member of a policy has a longer name.
const NAME_CHARS: usize = 200;
/// The order of the members in a policy's text.
const ORDER: [&str; 16] = [
    "policyId",
    "version",
    "name",
    "timeZone",
    "currency",
    "anchorTime",
    "grace",
    "deposit",
    "organizer",
    "talent",
    "partner",
    "forceMajeure",
    "reschedule",
    "rounding",
    "claimWindow",
    "backdateTolerance",
];

/// Whether a field is one of a policy's.
pub(super) fn is_field(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(STEPS) else {
        return name.starts_with('/');
    };
    step(rest).is_some()
}

/// The number of a step and the name within it.
fn step(rest: &str) -> Option<(usize, &str)> {
    let (number, name) = rest.strip_prefix('/')?.split_once('/')?;
    let known = (0..POLICY_TIERS).find(|known| known.to_string() == number)?;
    Some((known, name))
}

/// The fields of each step, by their names within it.
pub(super) fn steps(fields: &Fields) -> Vec<Vec<(String, String)>> {
    let mut steps = vec![Vec::new(); POLICY_TIERS];
    for (name, text) in fields.pairs() {
        if let Some((number, name)) = name.strip_prefix(STEPS).and_then(step) {
            steps[number].push((name.to_owned(), text.to_owned()));
        }
    }
    steps.retain(|step| !step.is_empty());
    steps
}

/// The same fields with these steps.
pub(super) fn with_steps(fields: &Fields, steps: &[Vec<(String, String)>]) -> Fields {
    let numbered = steps.iter().enumerate().flat_map(|(number, step)| {
        let named = step.iter();
        named.map(move |(name, text)| (format!("{STEPS}/{number}/{name}"), text.clone()))
    });
    let others = fields.only(|name| !name.starts_with(STEPS));
    others.and(Fields::new(numbered.collect()))
}

/// The policy that the fields describe. Text typed where a number belongs stays text, so that the check of the policy refuses it.
pub(super) fn policy(fields: &Fields) -> Json {
    let mut policy = Json::Object(Vec::new());
    for name in TEXTS {
        put(&mut policy, name, fields.get(name).map(Json::from));
    }
    let version = fields
        .get("/version")
        .map(|text| match text.parse::<u32>() {
            Ok(version) if version.to_string() == text => Json::Leaf(version.into()),
            _ => text.into(),
        });
    put(&mut policy, "/version", version);
    for name in DURATIONS {
        put(&mut policy, name, duration(fields, name));
    }
    if let kind @ ("bps" | "amount") = fields.get("/deposit/kind").unwrap_or_default() {
        let figure = figure(fields, "/deposit/figure", kind == "bps");
        put(&mut policy, &format!("/deposit/{kind}"), Some(figure));
    }
    let steps = steps(fields);
    let fields = &with_steps(fields, &steps);
    let tiers = (0..steps.len()).map(|number| {
        let at = format!("{STEPS}/{number}");
        let mut tier = Json::Object(Vec::new());
        put(
            &mut tier,
            "/before",
            duration(fields, &format!("{at}/before")),
        );
        let cutoff = fields.get(&format!("{at}/cutoffTime")).map(Json::from);
        put(&mut tier, "/cutoffTime", cutoff);
        put(
            &mut tier,
            "/outcome",
            outcome(fields, &format!("{at}/outcome")),
        );
        tier
    });
    let tiers: Vec<Json> = tiers.collect();
    put(
        &mut policy,
        STEPS,
        (!tiers.is_empty()).then(|| Json::array(tiers)),
    );
    for name in OUTCOMES {
        put(&mut policy, name, outcome(fields, name));
    }
    for name in FLAGS {
        let flag = match fields.get(name) {
            Some(word @ ("true" | "false")) => Some((word == "true").into()),
            word => word.map(Json::from),
        };
        // Without a deposit there is nothing to keep.
        let stands_alone = name != "/deposit/nonRefundable" || policy.get("deposit").is_some();
        put(&mut policy, name, flag.filter(|_| stands_alone));
    }
    ordered(&policy)
}

/// The figures that do not become part of the policy, because the kind chosen beside them takes none.
pub(super) fn unused_figures(fields: &Fields) -> Vec<String> {
    let of_steps = (0..steps(fields).len()).map(|number| format!("{STEPS}/{number}/outcome"));
    let outcomes = of_steps.chain(OUTCOMES.map(str::to_owned));
    let outcomes = outcomes.map(|name| (name, ["refundBps", "penaltyAmount"]));
    let all = outcomes.chain([("/deposit".to_owned(), ["bps", "amount"])]);
    let unused = all.filter(|(name, kinds)| {
        let kind = fields.get(&format!("{name}/kind"));
        kind.is_none_or(|kind| !kinds.contains(&kind))
    });
    let figures = unused.map(|(name, _)| format!("{name}/figure"));
    figures
        .filter(|figure| fields.get(figure).is_some())
        .collect()
}

/// Puts a member at a pointer.
fn put(within: &mut Json, pointer: &str, value: Option<Json>) {
    let Some(value) = value else { return };
    let name = pointer.trim_start_matches('/');
    match name.split_once('/') {
        None => within.set(name, value),
        Some((name, rest)) => {
            let mut inner = within.get(name).cloned();
            let inner = inner.get_or_insert(Json::Object(Vec::new()));
            put(inner, rest, Some(value));
            within.set(name, inner.clone());
        }
    }
}

/// A policy with its members in the order in which people write them.
pub(super) fn ordered(policy: &Json) -> Json {
    let known = ORDER.into_iter();
    Json::object(known.filter_map(|name| Some((name, policy.get(name)?.clone()))))
}

fn duration(fields: &Fields, name: &str) -> Option<Json> {
    let number = fields.get(name)?;
    let unit = fields.get(&format!("{name}/unit"));
    let unit = UNITS.iter().find(|(word, ..)| Some(*word) == unit);
    let (_, before, after) = unit.unwrap_or(&UNITS[0]);
    Some(format!("{before}{number}{after}").into())
}

/// Percent as basis points, or what was typed as it is.
fn figure(fields: &Fields, name: &str, is_share: bool) -> Json {
    let text = fields.get(name).unwrap_or_default();
    match basis_points(text).filter(|_| is_share) {
        Some(bps) => Json::Leaf(bps.into()),
        None => text.into(),
    }
}

fn outcome(fields: &Fields, name: &str) -> Option<Json> {
    let of = |kind: &str, value: Json| Some(Json::object([(kind, value)]));
    let figure = |is_share| figure(fields, &format!("{name}/figure"), is_share);
    match fields.get(&format!("{name}/kind"))? {
        kind @ "refundBps" => of(kind, figure(true)),
        kind @ "penaltyAmount" => of(kind, figure(false)),
        kind => of(kind, true.into()),
    }
}

/// `12.5` and `12.5 %` as 1250; `None` for anything else.
fn basis_points(text: &str) -> Option<u32> {
    let text = text.strip_suffix('%').map_or(text, str::trim_end);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str, most| text.len() <= most && text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole, 4) || !digits(fraction, 2) || text.ends_with('.') {
        return None;
    }
    format!("{whole}{fraction:0<2}").parse().ok()
}

/// 1250 as `12.5`.
fn percent(bps: u64) -> String {
    let (whole, fraction) = (bps / 100, bps % 100);
    let text = format!("{whole}.{fraction:02}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A policy that is being turned into fields: the part that is left, and the fields so far.
struct Rest {
    policy: Json,
    pairs: Vec<(String, String)>,
}

/// The fields that express a policy.
///
/// # Errors
/// The pointers of the members that no field can express.
pub(super) fn fields(policy: &Json) -> Result<Fields, Vec<String>> {
    let mut rest = Rest {
        policy: policy.clone(),
        pairs: Vec::new(),
    };
    for name in TEXTS {
        rest.text(name, name);
    }
    rest.take("/version", |value| match value {
        Json::Leaf(Value::Number(number)) => {
            Some(vec![("/version".to_owned(), number.to_string())])
                .filter(|_| number.as_u64().is_some_and(|n| u32::try_from(n).is_ok()))
        }
        _ => None,
    });
    for name in DURATIONS {
        rest.duration(name, name);
    }
    for name in FLAGS {
        rest.take(name, |value| match value {
            Json::Leaf(Value::Bool(flag)) => Some(vec![(name.to_owned(), flag.to_string())]),
            _ => None,
        });
    }
    for kind in ["bps", "amount"] {
        let is_share = kind == "bps";
        let at = format!("/deposit/{kind}");
        // A deposit of both kinds keeps the second one, and cannot be shown as a form.
        if !rest.pairs.iter().any(|(name, _)| name == "/deposit/kind") {
            rest.take(&at, |value| {
                said("/deposit", kind, figure_text(value, is_share)?)
            });
        }
    }
    let mut left = rest.steps();
    for name in OUTCOMES {
        rest.take(name, |value| outcome_fields(name, value));
    }
    left.extend(rest.left(&OUTCOMES));
    let has = |name| rest.pairs.iter().any(|(known, _)| known == name);
    // Without a kind, the policy made of the fields would lack it.
    if has("/deposit/nonRefundable") && !has("/deposit/kind") && left.is_empty() {
        left.push("/deposit".to_owned());
    }
    match left.is_empty() {
        true => Ok(Fields::new(rest.pairs)),
        false => Err(left),
    }
}

/// The two fields of a member that has a kind and a figure.
fn said(name: &str, kind: &str, figure: String) -> Option<Vec<(String, String)>> {
    let figure = (format!("{name}/figure"), figure);
    Some(vec![(format!("{name}/kind"), kind.to_owned()), figure])
}

fn figure_text(value: &Json, is_share: bool) -> Option<String> {
    match value {
        Json::Leaf(Value::Number(number)) if is_share => number.as_u64().map(percent),
        // A number that is written as a text is not a share, and would become one.
        Json::Leaf(Value::String(text)) if text.is_empty() => Some(String::new()),
        value => typed(value)
            .filter(|text| !is_share || basis_points(text).is_none())
            .map(str::to_owned),
    }
}

fn outcome_fields(name: &str, value: &Json) -> Option<Vec<(String, String)>> {
    let [(kind, value)] = value.members() else {
        return None;
    };
    match kind.as_str() {
        "refundBps" => said(name, kind, figure_text(value, true)?),
        "penaltyAmount" => said(name, kind, figure_text(value, false)?),
        "keepDeposit" | "manual" if *value == true.into() => said(name, kind, String::new()),
        _ => None,
    }
}

/// A text that a field keeps as it is.
fn typed(value: &Json) -> Option<&str> {
    let text = value.as_str()?;
    let is_kept = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
    is_kept.then_some(text)
}

/// The number and the unit of a duration that has one of each.
fn parts(text: &str) -> Option<(&str, &str)> {
    // `PT1H` begins as `P` does, so the longer beginning is tried first.
    let within = |(word, before, after): &(&'static str, &str, &str)| {
        let number = text.strip_prefix(before)?.strip_suffix(after)?;
        let is_one = !number.is_empty() && number.trim() == number;
        let is_one = is_one && !number.contains(['P', 'T', 'W', 'D', 'H', 'M']);
        is_one.then_some((number, *word))
    };
    UNITS.iter().find_map(within)
}

impl Rest {
    /// Takes a member, if it becomes fields.
    fn take(
        &mut self,
        pointer: &str,
        become_fields: impl FnOnce(&Json) -> Option<Vec<(String, String)>>,
    ) {
        let found = member(&self.policy, pointer).and_then(become_fields);
        if let Some(pairs) = found {
            self.pairs.extend(pairs);
            remove(&mut self.policy, pointer);
        }
    }

    fn text(&mut self, pointer: &str, name: &str) {
        self.take(pointer, |value| {
            Some(vec![(name.to_owned(), typed(value)?.to_owned())])
        });
    }

    fn duration(&mut self, pointer: &str, name: &str) {
        self.take(pointer, |value| {
            let (number, unit) = parts(typed(value)?)?;
            let unit = (format!("{name}/unit"), unit.to_owned());
            Some(vec![(name.to_owned(), number.to_owned()), unit])
        });
    }

    /// Takes the steps. Returns the pointers of the members that no field can express.
    fn steps(&mut self) -> Vec<String> {
        let Some(Json::Array(tiers)) = member(&self.policy, STEPS).cloned() else {
            return Vec::new();
        };
        if tiers.len() > POLICY_TIERS {
            return Vec::new();
        }
        let (mut pairs, mut left) = (Vec::new(), Vec::new());
        for (number, tier) in tiers.iter().enumerate() {
            let at = format!("{STEPS}/{number}");
            let mut rest = Self {
                policy: tier.clone(),
                pairs: Vec::new(),
            };
            rest.duration("/before", &format!("{at}/before"));
            rest.text("/cutoffTime", &format!("{at}/cutoffTime"));
            let outcome = format!("{at}/outcome");
            rest.take("/outcome", |value| outcome_fields(&outcome, value));
            // A step without fields would be lost.
            if rest.pairs.is_empty() {
                left.push(at.clone());
            }
            left.extend(
                rest.left(&["/outcome"])
                    .iter()
                    .map(|rest| format!("{at}{rest}")),
            );
            pairs.extend(rest.pairs);
        }
        self.take(STEPS, |_| Some(pairs));
        left
    }

    /// The pointers of the members that were not taken: for these outcomes of the whole, otherwise of each leaf.
    fn left(&self, outcomes: &[&str]) -> Vec<String> {
        if self.policy == Json::Object(Vec::new()) {
            return Vec::new();
        }
        let mut left = leaves(&self.policy, outcomes, LEFT);
        left.dedup();
        left
    }
}

/// The value at a pointer.
pub(super) fn member<'j>(within: &'j Json, pointer: &str) -> Option<&'j Json> {
    let mut path = pointer.split('/').skip(1);
    path.try_fold(within, |within, name| match within {
        Json::Array(items) => items.get(name.parse::<usize>().ok()?),
        within => within.get(name),
    })
}

/// Removes one member, and the objects that have nothing left.
fn remove(within: &mut Json, pointer: &str) {
    let Json::Object(members) = within else {
        return;
    };
    let name = pointer.trim_start_matches('/');
    let (name, rest) = name.split_once('/').unwrap_or((name, ""));
    let Some(place) = members.iter().position(|(known, _)| known == name) else {
        return;
    };
    let inner = &mut members[place].1;
    if !rest.is_empty() {
        remove(inner, rest);
    }
    if rest.is_empty() || *inner == Json::Object(Vec::new()) {
        members.remove(place);
    }
}

/// The pointers of a value's leaves, up to `most` of them. What is at one of `wholes` is a leaf, whatever it holds.
pub(super) fn leaves(value: &Json, wholes: &[&str], most: usize) -> Vec<String> {
    let mut found = Vec::new();
    collect("", value, wholes, most, &mut found);
    found
}

fn collect(at: &str, value: &Json, wholes: &[&str], most: usize, found: &mut Vec<String>) {
    let below: Vec<(String, &Json)> = match value {
        _ if wholes.contains(&at) => Vec::new(),
        Json::Object(members) => {
            let members = members.iter();
            members.map(|(name, value)| (name.clone(), value)).collect()
        }
        Json::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.map(|(n, item)| (n.to_string(), item)).collect()
        }
        Json::Leaf(_) => Vec::new(),
    };
    if below.is_empty() {
        found.push(at.to_owned());
    }
    for (name, value) in below {
        if found.len() < most {
            let name = cut(&name, NAME_CHARS).replace('~', "~0").replace('/', "~1");
            collect(&format!("{at}/{name}"), value, wholes, most, found);
        }
    }
}

#[cfg(test)]
mod tests;
