//! The worked policy cases of `vectors/policy.json`, or of the file that `BOOKGUARD_POLICY_VECTORS` names.
//!
//! Each case is read as a partner would send it: its numbers once as written and once as IEEE doubles, which must give the
//! same minor units. Every failing case is printed with the expected and the actual result.

use std::collections::BTreeMap;

use bookguard_core::model::{Amount, BookingId, Currency, Timestamp};
use bookguard_core::policy::{
    Actor, Booked, Evaluation, EventDate, MissingZone, Mode, PastReschedule, Policy, PolicySource,
    Question, Reason, Recorded, Standing, Subject, Terms, evaluate,
};
use serde_json::Value;
use serde_json::value::RawValue;

/// A policy and its source.
type Adopted = (Policy, PolicySource);
pub(crate) type Object = BTreeMap<String, Box<RawValue>>;

const CASES: usize = 60;

#[test]
fn policy_vectors() {
    let other = std::env::var("BOOKGUARD_POLICY_VECTORS").ok();
    let text = match &other {
        Some(path) => std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}")),
        None => include_str!("../../vectors/policy.json").to_owned(),
    };
    let cases: Vec<Box<RawValue>> =
        serde_json::from_str(&text).expect("the vectors are a JSON array");
    if other.is_none() {
        assert_eq!(cases.len(), CASES);
    }
    let faults: Vec<String> = cases.iter().flat_map(|case| run(&object(case))).collect();
    let (count, all, told) = (faults.len(), cases.len(), faults.join("\n"));
    assert_eq!(count, 0, "differences in {all} cases:\n{told}");
}

/// Runs one case and returns a line for each difference.
fn run(case: &Object) -> Vec<String> {
    let name = format!("{} ({})", text(case, "id"), text(case, "name"));
    let expected: Value = serde_json::from_str(case["expected"].get()).expect("JSON");
    let actual = match answer(case) {
        Ok(evaluation) => facts(&evaluation),
        Err(code) => serde_json::json!({"error": {"code": code}}),
    };
    let fields = expected.as_object().expect("expected is an object");
    assert!(!fields.is_empty(), "{name} expects nothing");
    fields
        .iter()
        .map(|(field, value)| (field, value, &actual[field.as_str()]))
        .filter(|(field, value, got)| !same(field, value, got))
        .map(|(field, value, got)| {
            let instead = actual.get("error").unwrap_or(got);
            format!("{name}: {field}: expected {value}, got {instead}")
        })
        .collect()
}

/// Compares a field. Instants may be written differently; everything else must be identical.
pub(crate) fn same(field: &str, expected: &Value, actual: &Value) -> bool {
    if field.ends_with("Utc") {
        let instant = |value: &Value| value.as_str().and_then(Timestamp::parse);
        return instant(expected).is_some() && instant(expected) == instant(actual);
    }
    expected == actual
}

/// Returns the evaluation in the terms of the vectors.
fn facts(evaluation: &Evaluation) -> Value {
    let mut json = serde_json::to_value(evaluation).expect("an evaluation is JSON");
    let back: Evaluation = serde_json::from_value(json.clone()).expect("its JSON reads back");
    assert_eq!(&back, evaluation);
    assert!(evaluation.summary().chars().count() <= 300);
    json["explanationCode"] = evaluation.explanation.code.clone().into();
    json["policyHash"] = json["policy"]["policyHash"].clone();
    json
}

/// Returns the evaluation of a case, or the code of its refusal.
fn answer(case: &Object) -> Result<Evaluation, String> {
    let booking = object(&case["booking"]);
    let policy = match case["policy"].get() {
        "null" => None,
        json => Some(Policy::from_json(json).map_err(|e| e.code.into_owned())?),
    };
    let currency = Currency::parse(&text(&booking, "currency")).map_err(|e| e.code().to_owned())?;
    let zone = optional_text(&booking, "timeZone");
    let booked = Booked {
        event_date: EventDate::parse(&text(&booking, "eventDate")).ok_or("event_date_invalid")?,
        time_zone: zone.as_deref(),
        partner_time_zone: None,
        value: amount(&booking, "bookingValue", currency)?.ok_or("missing_field")?,
        paid: amount(&booking, "amountPaid", currency)?,
        created_at: instant(&text(&booking, "createdAt")),
    };
    let adopted = policy.map(|policy| (policy, PolicySource::Booking));
    let reschedules = reschedules(&booking, &booked, &adopted);
    let frozen =
        Terms::freeze(adopted, &booked, MissingZone::AssumeUtc).map_err(|e| e.code.into_owned())?;
    // The terms are evaluated as read back from their stored form.
    let stored = serde_json::to_string(&frozen).expect("terms are JSON");
    let terms: Terms = serde_json::from_str(&stored).expect("stored terms read back");
    assert_eq!(terms, frozen);
    terms.verify().expect("own terms are consistent");

    let question = question(case, currency)?;
    let recorded = recorded(&booking, &terms);
    let subject = Subject {
        booking_id: booking_id(),
        terms: &terms,
        standing: match text(&booking, "state").as_str() {
            "created" => Standing::Created,
            "protected" => Standing::Protected,
            "canceled" => Standing::Canceled(recorded.as_ref().expect("it has a resolution")),
            state => panic!("unknown state {state}"),
        },
        reschedules: &reschedules,
    };
    evaluate(&subject, &question).map_err(|refusal| refusal.code.into_owned())
}

fn question(case: &Object, currency: Currency) -> Result<Question, String> {
    if let Some(as_of) = optional_text(case, "asOf") {
        let actor = optional_text(case, "canceledBy");
        return Ok(Question {
            mode: Mode::Evaluate,
            actor: actor.map_or(Actor::Organizer, |actor| word(Actor::WORDS, &actor)),
            reason: optional_text(case, "reason").map(|reason| word(Reason::WORDS, &reason)),
            at: Some(instant(&as_of)),
            received_at: instant(&as_of),
            evidence: 0,
            agreed_refund: None,
        });
    }
    let cancellation = object(&case["cancellation"]);
    let evidence: Vec<Value> = cancellation.get("evidence").map_or_else(Vec::new, |raw| {
        serde_json::from_str(raw.get()).expect("evidence is a list")
    });
    let reason = optional_text(&cancellation, "reason");
    Ok(Question {
        mode: Mode::Cancel,
        actor: word(Actor::WORDS, &text(&cancellation, "canceledBy")),
        reason: reason.map(|reason| word(Reason::WORDS, &reason)),
        at: optional_text(&cancellation, "effectiveAt").map(|at| instant(&at)),
        received_at: instant(&text(&cancellation, "receivedAt")),
        evidence: evidence.len(),
        agreed_refund: amount(&cancellation, "agreedRefund", currency)?,
    })
}

/// Returns a case's recorded resolution. The case names only the members that are compared; the rest is evaluated.
fn recorded(booking: &Object, terms: &Terms) -> Option<Recorded> {
    let resolution = object(booking.get("resolution")?);
    let request = object(&resolution["request"]);
    let subject = Subject {
        booking_id: booking_id(),
        terms,
        standing: Standing::Protected,
        reschedules: &[],
    };
    let question = Question {
        mode: Mode::Evaluate,
        actor: Actor::Organizer,
        reason: None,
        at: None,
        received_at: terms.created_at,
        evidence: 0,
        agreed_refund: None,
    };
    let mut evaluation = evaluate(&subject, &question).expect("evaluable at creation");
    evaluation.evaluation_status = json(&resolution, "evaluationStatus");
    evaluation.resolution_path = json(&resolution, "resolutionPath");
    evaluation.matched_rule = Some(json(&resolution, "matchedRule"));
    evaluation.explanation.code = text(&resolution, "explanationCode");
    let reason = optional_text(&request, "reason");
    Some(Recorded {
        canceled_by: word(Actor::WORDS, &text(&request, "canceledBy")),
        reason: reason.map(|reason| word(Reason::WORDS, &reason)),
        effective_at: optional_text(&request, "effectiveAt").map(|at| instant(&at)),
        evaluation,
    })
}

/// Returns a case's reschedules, each of which starts from the date that the previous one set.
fn reschedules(
    booking: &Object,
    booked: &Booked<'_>,
    policy: &Option<Adopted>,
) -> Vec<PastReschedule> {
    let Some(raw) = booking.get("amendments") else {
        return Vec::new();
    };
    let list: Vec<Object> = serde_json::from_str(raw.get()).expect("amendments are objects");
    let read = |reschedule: &Object| {
        let date = EventDate::parse(&text(reschedule, "previousEventDate")).expect("a date");
        let former = Booked {
            event_date: date,
            ..*booked
        };
        let former = Terms::freeze(policy.clone(), &former, MissingZone::AssumeUtc);
        let former = former.expect("the date before is as good as the one after");
        PastReschedule::of(&former, &[], instant(&text(reschedule, "at")))
    };
    list.iter().map(read).collect()
}

/// Reads an amount from its digits and from its double; both must agree, faults included.
fn amount(object: &Object, field: &str, currency: Currency) -> Result<Option<Amount>, String> {
    let Some(raw) = object.get(field) else {
        return Ok(None);
    };
    let written = Amount::parse(raw.get(), currency);
    let double: f64 = serde_json::from_str(raw.get()).expect("a number");
    let read_back = Amount::parse(&double.to_string(), currency);
    assert_eq!(read_back, written, "{field} {raw}");
    written.map(Some).map_err(|e| e.code().to_owned())
}

fn booking_id() -> BookingId {
    BookingId::parse("bkg_0198f2a4c8d07e3fa1b2c3d4e5f60718").expect("a booking id")
}

pub(crate) fn object(raw: &RawValue) -> Object {
    serde_json::from_str(raw.get()).expect("an object")
}

fn json<T: serde::de::DeserializeOwned>(object: &Object, field: &str) -> T {
    serde_json::from_str(object[field].get()).unwrap_or_else(|e| panic!("{field}: {e}"))
}

pub(crate) fn text(object: &Object, field: &str) -> String {
    optional_text(object, field).unwrap_or_else(|| panic!("{field} is missing"))
}

fn optional_text(object: &Object, field: &str) -> Option<String> {
    let raw = object.get(field)?;
    Some(serde_json::from_str(raw.get()).unwrap_or_else(|e| panic!("{field}: {e}")))
}

fn instant(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|| panic!("{text} is not an instant"))
}

fn word<T: Copy>(words: &[(&str, T)], typed: &str) -> T {
    let found = words.iter().find(|(word, _)| *word == typed);
    found
        .unwrap_or_else(|| panic!("{typed} is not a known word"))
        .1
}
