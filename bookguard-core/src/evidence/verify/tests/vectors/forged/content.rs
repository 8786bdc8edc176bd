//! Packets that show something else than their entries record, or than follows from it.

use serde_json::{Value, json};

use super::super::{Noticed, flip};
use super::{Forgery, STRUCTURE, entries};
use crate::evidence::frozen;

#[rustfmt::skip]
pub const CONTENT: &[Forgery] = &[
    ("booking-other", "created-without-policy", "the event is of another type than recorded", STRUCTURE, "booking",
        |_, doc| { doc["booking"]["eventType"] = json!("wedding"); }),
    ("booking-other-value", "yen", "the value is not the one recorded", STRUCTURE, "booking",
        |_, doc| { doc["booking"]["bookingValue"] = json!(333_334); }),
    ("booking-protected", "created-without-policy", "the booking is shown as protected, and no entry says so", STRUCTURE,
        "booking", |_, doc| { doc["booking"]["protected"] = json!(true); }),
    ("booking-without-metadata", "names", "recorded metadata are not shown", STRUCTURE, "booking",
        |_, doc| { doc["booking"].as_object_mut().unwrap().remove("metadata"); }),
    ("booking-not-moved", "moved-once", "the booking is shown with its first date", STRUCTURE, "booking",
        |_, doc| { doc["booking"]["eventDate"] = json!("2026-06-20T23:00:00.000Z"); }),
    ("policy-other", "created", "the text of the policy is not that of its hash", STRUCTURE, "policy",
        |_, doc| { doc["policy"]["name"] = json!("Soft"); }),
    ("policy-not-of-the-terms", "created", "policy, its hash and the booking name another policy than the terms", STRUCTURE,
        "booking", |world, doc| {
        for part in ["policy", "policyHash"] {
            doc[part] = world.good["names"][part].clone();
        }
        doc["booking"]["policy"] = world.good["names"]["booking"]["policy"].clone();
    }),
    ("terms-other", "created-without-policy", "the terms are not those of the recorded hash", STRUCTURE, "terms",
        |_, doc| { flip(doc, "/terms/until"); }),
    ("former-terms-missing", "moved-once", "the terms before the move are missing", STRUCTURE, "terms",
        |_, doc| { doc["formerTerms"] = json!([]); }),
    ("text-of-another-hash", "created-without-policy", "a text does not have the hash shown", STRUCTURE, "acceptances",
        |_, doc| { flip(doc, "/termsDisclosures/0/disclosureHash"); }),
    ("text-of-another-version", "created-without-policy", "a text is worded in a version that is not known", STRUCTURE,
        "acceptances", |_, doc| doc["termsDisclosures"][0]["version"] = json!("bookguard-disclosure-0")),
    ("text-missing", "moved-once", "the text of the terms before the move is missing", STRUCTURE, "acceptances",
        |_, doc| { doc["termsDisclosures"].as_array_mut().unwrap().remove(0); }),
    ("acceptance-missing", "accepted", "a recorded acceptance is not shown", STRUCTURE, "acceptances",
        |_, doc| { doc["acceptances"].as_array_mut().unwrap().pop(); }),
    ("acceptance-other", "accepted", "an acceptance is not shown as recorded", STRUCTURE, "acceptances",
        |_, doc| { doc["acceptances"][0]["method"] = json!("signature"); }),
    ("resolution-missing", "canceled-final", "a recorded resolution is not shown", STRUCTURE, "resolution",
        |_, doc| { doc["resolution"] = Value::Null; }),
    ("resolution-invented", "protected", "a resolution is shown that no entry records", STRUCTURE, "resolution",
        |world, doc| { doc["resolution"] = world.good["canceled-final"]["resolution"].clone(); }),
    ("resolution-before-the-decision", "canceled-decided", "the resolution shown is the one before the decision", STRUCTURE,
        "resolution", |_, doc| {
        let first = entries(doc)
            .iter()
            .find(|entry| entry["body"]["kind"] == "resolution.created");
        doc["resolution"] = first.unwrap()["disclosures"][0]["value"].clone();
    }),
    ("evaluation-not-as-recorded", "canceled-final", "the evaluation is not that of the resolution", STRUCTURE, "evaluation",
        |_, doc| { flip(doc, "/evaluation/explanation/text"); }),
    ("evaluation-not-of-the-policy", "protected", "what canceling would come to is not what the policy gives", Noticed::Policy,
        "evaluation", |_, doc| {
        for part in ["refund", "penalty"] {
            doc["evaluation"][part] =
                json!({ "amount": "600.00", "currency": "USD", "minorUnits": 60_000 });
        }
    }),
    ("evaluation-of-another-booking-before-a-cancellation", "protected", "what canceling would come to is of another booking",
        STRUCTURE, "evaluation", |_, doc| { doc["evaluation"]["bookingId"] = json!("bkg_0190000000007000800000000000000a"); }),
    ("text-not-of-the-terms", "created", "a text with its right hash says something else than the terms", Noticed::Wording,
        "acceptances", |_, doc| {
        let text = doc["termsDisclosures"][0]["text"]
            .as_str()
            .unwrap()
            .replace("returned", "kept");
        let hash = frozen::hash_of(&text, None);
        doc["termsDisclosures"][0]["text"] = text.into();
        doc["termsDisclosures"][0]["disclosureHash"] = hash.into();
    }),
    ("summary-headline", "created-without-policy", "the headline says something else than the packet", Noticed::Wording,
        "summary", |_, doc| { flip(doc, "/summary/headline"); }),
    ("summary-silent", "protected", "the summary leaves out an entry", Noticed::Wording, "summary",
        |_, doc| { doc["summary"]["timeline"].as_array_mut().unwrap().remove(1); }),
];
