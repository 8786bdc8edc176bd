//! Faults in the ledger itself: its holder logged and signed what no honest service writes.

use serde_json::{Value, json};

use super::super::fixture::{Fixture, Lie};
use super::super::text;
use super::relog::{Draft, drafts_of, relogged, show};
use super::{Bad, Noticed, World};
use crate::evidence::frozen::hash_of;
use crate::ledger::jcs;
use crate::model::{Amount, Currency};

pub type Change = fn(&mut Vec<Draft>);

/// Leaves that no service writes, and places where they cannot stand.
#[rustfmt::skip]
const LEAVES: &[(&str, &str, &str, Change)] = &[
    ("leaf-extra-member", "a leaf has a member more", "proof",
        |drafts| { drafts[0].spell = |text| text.replace(",\"v\":", ",\"u\":1,\"v\":"); }),
    ("leaf-not-canonical", "a leaf has a space", "proof",
        |drafts| { drafts[1].spell = |text| text.replace("{\"commit\"", "{ \"commit\""); }),
    ("leaf-order", "a leaf's members are in another order", "proof", |drafts| {
        drafts[0].spell = |text| {
            let rest = text.replace(",\"v\":\"bookguard.leaf/1\"", "");
            rest.replace('{', "{\"v\":\"bookguard.leaf/1\",")
        };
    }),
    ("leaf-number", "a leaf's seq is written 1.0", "proof",
        |drafts| { drafts[1].spell = |text| text.replace("\"seq\":1", "\"seq\":1.0"); }),
    ("leaf-other-version", "a leaf is of a version that is not known", "proof",
        |drafts| { drafts[0].spell = |text| text.replace("leaf/1", "leaf/2"); }),
    ("leaf-time-form", "a leaf's time has no milliseconds", "proof",
        |drafts| { drafts[0].at = drafts[0].at.replace(".123Z", "Z"); }),
    ("leaf-time-impossible", "a leaf was written on 30 February", "proof",
        |drafts| { drafts[0].at = drafts[0].at.replace("-01-10T", "-02-30T"); }),
    ("leaf-stray-bits", "the last character of a leaf's stream has bits that belong to no byte", "proof", |drafts| {
        for draft in drafts {
            draft.spell = |text| {
                let end = text.find("\",\"t\":").unwrap() - 1;
                let next = char::from(text.as_bytes()[end] + 1);
                format!("{}{next}{}", &text[..end], &text[end + 1..])
            };
        }
    }),
    ("first-leaf-with-prev", "the first leaf names a leaf before it", "proof",
        |drafts| { drafts[0].prev = Some("1".repeat(64)); }),
    ("second-leaf-without-prev", "the second leaf names none before it", "proof",
        |drafts| { drafts[1].prev = Some("0".repeat(64)); }),
    ("prev-of-another", "a leaf names another as the one before it", "chain",
        |drafts| { drafts[1].prev = Some("1".repeat(64)); }),
    ("seq-gap", "a leaf's seq skips one", "chain", |drafts| { drafts[1].seq = 2 }),
    ("stream-of-another", "a leaf is of another stream", "chain",
        |drafts| { drafts[1].stream = drafts[1].stream.replacen(|c: char| c.is_ascii_alphabetic(), "9", 1); }),
    ("time-backwards", "a leaf is older than the one before it", "chain",
        |drafts| { drafts[1].at = "2026-01-10T00:00:00.000Z".to_owned(); }),
];

/// Entries that say what cannot be, or not after those before.
#[rustfmt::skip]
const FACTS: &[(&str, &str, &str, &str, Change)] = &[
    ("body-of-another-version", "created-without-policy", "the body of an entry is of a version that is not known", "form",
        |drafts| drafts[0].version = "bookguard.event/2"),
    ("kind-unknown", "protected", "an entry is of a kind that is not known", "commitment",
        |drafts| { drafts[1].kind = "booking.sold".to_owned(); }),
    ("kind-not-of-a-booking", "protected", "an entry is of a kind that belongs to no booking", "booking",
        |drafts| { drafts[1].kind = "log.continued".to_owned(); }),
    ("fact-member-missing", "created-without-policy", "a booking was recorded without its event's type", "booking",
        |drafts| { drafts[0].members.retain(|d| d.name != "eventType"); }),
    ("fact-member-unknown", "protected", "an entry records a member that its kind does not have", "booking", |drafts| {
        let mut more = drafts[1].members[1].clone();
        more.name = "zone".to_owned();
        drafts[1].members.push(more);
    }),
    ("fact-after-its-entry", "protected", "a protection happened after its entry was written", "booking",
        |drafts| { *drafts[1].member("protectedAt") = json!("2026-05-01T00:00:00.000Z"); }),
    ("value-withheld", "created-without-policy", "a value was recorded and is not shown", "disclosures", |drafts| {
        let withheld = drafts[0].members.pop().unwrap();
        drafts[0].undisclosed.push(withheld);
    }),
    ("protected-first", "protected", "the first entry is a protection", "booking", |drafts| {
        drafts.remove(0);
        drafts[0].seq = 0;
    }),
    ("protected-twice", "protected", "the booking was protected twice", "booking", |drafts| {
        let mut again = drafts[1].clone();
        again.seq = 2;
        drafts.push(again);
    }),
    ("created-twice", "created-without-policy", "the booking was recorded twice", "booking", |drafts| {
        let mut again = drafts[0].clone();
        again.seq = 1;
        drafts.push(again);
    }),
    ("protected-other-terms", "protected", "the protection locked other terms than those in force", "booking",
        |drafts| { *drafts[1].member("termsHash") = json!(format!("sha256:{}", "1".repeat(64))); }),
    ("protected-after-cancellation", "canceled-final", "the booking was protected after it was canceled", "booking", |drafts| {
        let mut late = drafts.remove(1);
        late.at = drafts[2].at.clone();
        drafts[2].member("resolution")["evidenceGrade"] = json!("record_only");
        drafts.push(late);
        (0..).zip(drafts).for_each(|(seq, draft)| draft.seq = seq);
    }),
    ("cancellation-without-resolution", "canceled-final", "the last entry is a cancellation", "booking",
        |drafts| { drafts.pop(); }),
    ("resolution-without-cancellation", "canceled-final", "a resolution without a cancellation", "booking", |drafts| {
        drafts.remove(2);
        drafts[2].seq = 2;
    }),
    ("resolution-of-another-cancellation", "canceled-final", "a resolution names another side than its cancellation", "booking",
        |drafts| { drafts[3].member("resolution")["canceledBy"] = json!("talent"); }),
    ("resolution-grade", "canceled-pending", "a resolution of an unprotected booking says that its terms were anchored",
        "booking", |drafts| { drafts[2].member("resolution")["evidenceGrade"] = json!("ledger_anchored"); }),
    ("resolution-final-for-review", "canceled-pending", "a resolution is final though a person has to decide", "booking",
        |drafts| { drafts[2].member("resolution")["status"] = json!("final"); }),
    ("decision-of-what-was-final", "canceled-decided", "a decision supersedes another resolution than the pending one", "booking",
        |drafts| {
            let last = drafts.last_mut().unwrap();
            last.member("resolution")["supersedes"] = json!("res_0190000000007000800000000000000a");
        }),
    ("move-before-the-booking", "moved-once", "a move counts from another moment than it was agreed on", "booking",
        |drafts| { drafts[1].member("former")["at"] = json!("2026-01-01T00:00:00.000Z"); }),
    ("terms-hash-of-others", "created-without-policy", "the booking was recorded under other terms than those shown", "terms",
        |drafts| { *drafts[0].member("termsHash") = json!(format!("sha256:{}", "1".repeat(64))); }),
    ("moved-to-other-terms", "moved-once", "the move recorded other terms than those shown", "terms",
        |drafts| { drafts[1].member("terms")["until"] = json!(1_893_456_000); }),
    ("notification-contradicts-itself", "names", "a receiver that answered 500 accepted", "booking",
        |drafts| { drafts[1].member("notification")["statusCode"] = json!(500); }),
    ("notification-of-nothing", "names", "a notification of a protection that is not recorded", "booking",
        |drafts| { drafts[1].member("notification")["type"] = json!("booking.protected"); }),
    ("acceptance-of-another-text", "accepted", "what the organizer accepted is not the text of the terms in force", "acceptances",
        |drafts| *drafts[1].member("disclosureHash") = json!(format!("sha256:{}", "1".repeat(64)))),
    ("acceptance-of-unknown-wording", "accepted", "what the organizer accepted is worded in a version that is not known",
        "acceptances", |drafts| *drafts[1].member("disclosureVersion") = json!("bookguard-disclosure-0")),
    ("acceptance-of-no-wording", "items", "what the organizer accepted is worded in a version without a name", "acceptances",
        |drafts| *drafts[1].member("disclosureVersion") = json!("")),
    ("acceptance-of-another-booking", "accepted", "an acceptance names another booking", "booking",
        |drafts| *drafts[1].member("bookingId") = other_id("bkg")),
    ("accepted-after-cancellation", "items", "terms were accepted after the cancellation", "booking", |drafts| {
        let accepted = drafts.remove(1);
        drafts.push(accepted);
        number(drafts);
    }),
    ("moved-after-cancellation", "moved-and-canceled", "the event was moved after the cancellation", "booking", |drafts| {
        let moved = drafts.remove(1);
        drafts.push(moved);
        number(drafts);
    }),
    ("move-of-another-date", "moved-once", "a move was made from another date than that of the terms before it", "terms",
        |drafts| drafts[1].member("former")["previousEventDate"] = json!("2026-06-21")),
    ("reached-missing", "moved-case-by-case", "a move does not even say that a person would have decided", "booking", |drafts| {
        let former = drafts[1].member("former").as_object_mut().unwrap();
        former.remove("reached");
    }),
    ("canceled-twice", "canceled-final", "the booking was canceled twice", "booking", |drafts| {
        drafts.push(drafts[2].clone());
        number(drafts);
    }),
    ("cancellation-of-another-booking", "canceled-final", "cancellation and resolution name another booking", "booking",
        |drafts| {
            *drafts[2].member("bookingId") = other_id("bkg");
            drafts[3].member("resolution")["bookingId"] = other_id("bkg");
        }),
    ("cancellation-of-unknown-reason", "canceled-final", "the reason is a word that is not known", "form", |drafts| {
        *drafts[2].member("reason") = json!("bad_luck");
        drafts[3].member("resolution")["reason"] = json!("bad_luck");
    }),
    ("resolution-of-another-booking", "canceled-final", "a resolution names another booking", "booking",
        |drafts| drafts[3].member("resolution")["bookingId"] = other_id("bkg")),
    ("resolution-of-another-partner", "canceled-final", "a resolution names another partner", "booking",
        |drafts| drafts[3].member("resolution")["partnerId"] = other_id("ptn")),
    ("resolution-of-another-moment", "canceled-final", "a resolution names another time of the cancellation", "booking",
        |drafts| drafts[3].member("resolution")["canceledAt"] = json!("2026-05-25T08:00:00.000Z")),
    ("resolution-of-another-reason", "canceled-final", "a resolution has no reason, and the cancellation has one", "booking",
        |drafts| { drop(drafts[3].member("resolution").as_object_mut().unwrap().remove("reason")) }),
    ("resolution-supersedes", "canceled-final", "the first resolution supersedes another", "booking",
        |drafts| drafts[3].member("resolution")["supersedes"] = other_id("res")),
    ("evaluation-of-another-booking", "canceled-final", "the evaluation of a resolution names another booking", "booking",
        |drafts| drafts[3].member("resolution")["evaluation"]["bookingId"] = other_id("bkg")),
    ("decision-of-a-final-resolution", "canceled-final", "a resolution that was final is decided", "booking", |drafts| {
        let mut decided = drafts[3].clone();
        decide(decided.member("resolution"));
        drafts.push(decided);
        number(drafts);
    }),
    ("decided-without-decision", "canceled-decided", "a resolution is decided, and has no decision", "booking", |drafts| {
        let last = drafts.last_mut().unwrap().member("resolution");
        last.as_object_mut().unwrap().remove("decision");
    }),
    ("decision-without-rationale", "canceled-decided", "a decision has no rationale", "form", |drafts| {
        let last = drafts.last_mut().unwrap().member("resolution");
        last["decision"]
            .as_object_mut()
            .unwrap()
            .remove("rationale");
    }),
    ("decision-of-the-same-id", "canceled-decided", "a decision has the id of the resolution that it supersedes", "booking",
        |drafts| {
            let last = drafts.last_mut().unwrap().member("resolution");
            last["resolutionId"] = last["supersedes"].clone();
        }),
    ("decided-twice", "canceled-decided", "a third resolution decides the first again", "booking", |drafts| {
        let mut again = drafts.last().unwrap().clone();
        again.member("resolution")["resolutionId"] = other_id("res");
        drafts.push(again);
        number(drafts);
    }),
    ("value-negative", "created-without-policy", "the booking's value is negative", "form",
        |drafts| *drafts[0].member("bookingValue") = json!(-1200.5)),
    ("value-of-five-places", "created-without-policy", "the booking's value has five decimal places", "form",
        |drafts| *drafts[0].member("bookingValue") = json!(1200.50001)),
    ("value-of-three-places", "created-without-policy", "the booking's value has more decimal places than its currency", "booking",
        |drafts| *drafts[0].member("bookingValue") = json!(1200.505)),
    ("value-of-a-half-yen", "yen", "the booking's value is in yen, and has a decimal place", "booking",
        |drafts| *drafts[0].member("bookingValue") = json!(333_333.5)),
    ("value-of-sixteen-digits", "created-without-policy", "the booking's value has 16 digits of cents", "booking",
        |drafts| *drafts[0].member("bookingValue") = json!(10_000_000_000_000.01)),
    ("event-date-no-time", "created-without-policy", "the event's date is 30 February", "form",
        |drafts| *drafts[0].member("eventDate") = json!("2026-02-30T19:00:00.250Z")),
    ("metadata-not-a-string", "created-without-policy", "a value of the metadata is a number", "form",
        |drafts| drafts[0].member("metadata")["ref"] = json!(3)),
];

/// Puts a fault into a document.
type Plant = fn(&mut Value);

/// Terms that a booking was recorded under, and that no service fixes for a booking without a policy.
#[rustfmt::skip]
const TERMS: &[(&str, &str, Plant)] = &[
    ("adopted-without-policy", "terms and packet name a policy, and none is shown", |document| {
        document["policyHash"] = json!(format!("sha256:{}", "1".repeat(64)));
        document["terms"]["adopted"] = document["policyHash"].clone();
    }),
    ("source-without-policy", "the terms say where the policy came from, and there is none",
        |document| document["terms"]["source"] = json!("named")),
];

/// Another id of this kind, made long before the booking.
fn other_id(prefix: &str) -> Value {
    json!(format!("{prefix}_0190000000007000800000000000000a"))
}

/// Gives the entries the numbers and times of their places.
pub fn number(drafts: &mut [Draft]) {
    let mut last = String::new();
    for (seq, draft) in (0..).zip(drafts) {
        last = last.max(draft.at.clone());
        (draft.seq, draft.at) = (seq, last.clone());
    }
}

/// Makes a resolution the decision of itself.
fn decide(resolution: &mut Value) {
    resolution["supersedes"] = resolution["resolutionId"].clone();
    resolution["resolutionId"] = other_id("res");
    resolution["status"] = json!("decided");
    resolution["decision"] = json!({
        "refund": {"amount": "1.00", "currency": "USD", "minorUnits": 100}, "decidedBy": "disputes",
        "rationale": "Because.", "decidedAt": resolution["canceledAt"],
    });
}

pub fn bad(world: &World) -> Vec<Bad> {
    let made = |name: &str, why: &str, check, base: &str, change: Change| {
        let mut document = world.doc(base);
        let mut drafts = drafts_of(&document);
        change(&mut drafts);
        show(&mut document, &drafts);
        let bytes = relogged(&document, &world.fixture.signer, change);
        Bad::of(name, why, Noticed::Structure, check, bytes)
    };
    let leaves = LEAVES
        .iter()
        .map(|&(name, why, check, change)| made(name, why, check, "protected", change));
    let facts = FACTS
        .iter()
        .chain(super::items::LOGGED)
        .chain(super::erased::LOGGED)
        .map(|&(name, base, why, check, change)| made(name, why, check, base, change));
    let terms = TERMS.iter().map(|&(name, why, change)| {
        let mut document = world.doc("created-without-policy");
        change(&mut document);
        let hash = hash_of(&jcs::to_canonical(&document["terms"]).unwrap(), None);
        let bytes = relogged(&document, &world.fixture.signer, |drafts| {
            *drafts[0].member("termsHash") = hash.clone().into();
        });
        Bad::of(name, why, Noticed::Structure, "policy", bytes)
    });
    let mut document = world.doc("created-without-policy");
    document["withheld"] = json!(["note"]);
    let why = "a body has three bytes as the digest of a value that is withheld";
    let bytes = relogged(&document, &world.fixture.signer, |drafts| {
        let digests = &mut drafts[0].digests;
        digests.insert("note".to_owned(), json!("AAAA"));
    });
    let cut = Bad::of("digest-cut", why, Noticed::Structure, "form", bytes);
    let logged = leaves.chain(facts).chain(terms).chain([cut]);
    logged.chain(lies()).collect()
}

/// What a service could record that applies another policy than the one it shows.
fn lies() -> Vec<Bad> {
    let sum = |minor| Amount::from_minor(minor, Currency::USD).unwrap();
    #[rustfmt::skip]
    let lies = [
        ("refund-not-of-the-policy", "the refund that was recorded is not the policy's", Lie::Refund(sum(120_050)), 7,
            "resolution"),
        ("decision-not-of-the-sums", "the amounts recorded are not those decided", Lie::Decision(sum(1)), 9, "resolution"),
        ("evidence-not-counted", "evidence is recorded that was not part of the evaluation", Lie::Evidence, 8, "resolution"),
        ("reached-not-of-the-schedule", "a move recorded another step than the one reached", Lie::Reached(Some(sum(1))), 10,
            "schedule"),
        ("reached-left-to-a-person", "a move leaves to a person what the schedule says", Lie::Reached(None), 10, "schedule"),
        ("reached-instead-of-a-person", "a move recorded an amount that the policy leaves to a person",
            Lie::Reached(Some(sum(1))), 13, "schedule"),
        ("schedule-not-of-the-policy", "the schedule after a move is not the policy's", Lie::Moved, 11, "schedule"),
    ];
    let made = lies.map(|(name, why, lie, which, check)| {
        let mut fixture = Fixture::lying(&lie);
        fixture.moved_case_by_case(13, 40);
        let bytes = text(&fixture.packet_at(which), &fixture.signer).into_bytes();
        Bad::of(name, why, Noticed::Policy, check, bytes)
    });
    made.into()
}
