//! Erased values: a packet made before and one made after, and what must be refused of the latter.

use serde_json::{Value, json};

use super::super::fixture::{Fixture, erased_values};
use super::forged::{Forgery, signed};
use super::logged::Change;
use super::relog::Draft;
use super::{Bad, Noticed, WITHHELD, World};
use crate::evidence::{Erasable, LegalBasis, Packet, Withheld};
use crate::ledger::Disclosure;
use crate::model::{Amount, Currency};
use crate::policy::{Actor, Reason};

/// The packet of a booking before and after values of it were erased.
pub fn packets() -> [(&'static str, Packet); 6] {
    let mut fixture = Fixture::new();
    fixture.with_items(13, 45);
    let before = fixture.packet_at(13);
    let first = [
        Erasable::EventType,
        Erasable::Metadata,
        Erasable::Organizer,
        Erasable::Talent,
    ];
    let values = vec![
        erased_values(0, &first),
        erased_values(1, &[Erasable::Ip, Erasable::Method]),
        erased_values(2, &[Erasable::Note, Erasable::Sha256, Erasable::Title]),
    ];
    let objection = (LegalBasis::Objection, None);
    fixture.erase(13, "2026-07-01T09:00:00Z", objection, values);
    let second = vec![erased_values(6, &[Erasable::Reference])];
    let other = (LegalBasis::Other, None);
    fixture.erase(13, "2026-07-02T09:00:00Z", other, second);
    let one_party = fixture.packet_at_without(13, &[Withheld::Organizer]);
    let withheld = fixture.packet_at_without(13, WITHHELD);
    let (said, silenced) = decided(&mut fixture);
    [
        ("before-erasures", before),
        ("erased", fixture.packet_at(13)),
        ("erased-and-withheld", withheld),
        ("erased-organizer-withheld", one_party),
        ("decided-erasably", said),
        ("erased-words", silenced),
    ]
}

/// The packet of a booking on which a person decided, before and after what was said was erased, and the request's reference.
fn decided(fixture: &mut Fixture) -> (Packet, Packet) {
    fixture.erasable = true;
    let usd = Amount::parse("950", Currency::USD).unwrap();
    let (date, zone) = ("2026-06-20T19:00:00-04:00", Some("America/New_York"));
    fixture.record(46, Some("case_by_case"), date, zone, usd, |_| {});
    fixture.cancel(14, Actor::Organizer, Some(Reason::Illness));
    fixture.decide(14, "200");
    let said = fixture.packet_at(14);
    let words = vec![
        erased_values(1, &[Erasable::Evidence, Erasable::Note]),
        erased_values(3, &[Erasable::DecidedBy, Erasable::Rationale]),
    ];
    let named = (LegalBasis::Objection, Some("Jane Doe, 4 July"));
    fixture.erase(14, "2026-07-04T09:00:00Z", named, words);
    let reference = vec![erased_values(4, &[Erasable::RequestRef])];
    let unnamed = (LegalBasis::Unlawful, None);
    fixture.erase(14, "2026-07-05T09:00:00Z", unnamed, reference);
    let silenced = fixture.packet_at(14);
    assert!(!crate::evidence::verify::tests::text(&silenced, &fixture.signer).contains("Jane Doe"));
    (said, silenced)
}

/// Faults in what the packet shows, signed again by the ledger's holder.
#[rustfmt::skip]
const SHOWN: &[Forgery] = &[
    ("erased-but-shown", "erased", "a value is shown again although it was erased", STRUCTURE, "disclosures", |world, doc| {
        let before = list(&world.good["before-erasures"]["entries"][0], "disclosures");
        let organizer = before
            .iter()
            .find(|one| one["name"] == "organizer")
            .unwrap();
        let shown = doc["entries"][0]["disclosures"].as_array_mut().unwrap();
        let at = shown
            .iter()
            .position(|one| one["name"] == "partnerId")
            .unwrap();
        shown.insert(at, organizer.clone());
        doc["booking"]["organizer"] = organizer["value"].clone();
    }),
    ("erased-party-named", "erased", "the organizer was erased, but the packet names one", STRUCTURE, "booking",
        |_, doc| doc["booking"]["organizer"]["name"] = json!("Somebody")),
    ("erased-title-shown", "erased", "an item's title was erased, but the packet shows one", STRUCTURE, "items",
        |_, doc| doc["items"][0]["title"] = json!("Signed contract")),
    ("erased-file-named", "erased", "an item's file was erased, but the packet names one", STRUCTURE, "items",
        |_, doc| doc["items"][0]["sha256"] = json!(format!("sha256:{}", "5c".repeat(32)))),
    ("erased-reason-shown", "erased-words", "the reason of a decision was erased, but the packet shows one", STRUCTURE,
        "resolution", |_, doc| doc["resolution"]["decision"]["rationale"] = json!("The storm was local.")),
    ("erasure-dropped", "erased", "values are not shown, and the erasure that explains it is left out", STRUCTURE, "disclosures",
        |_, doc| drop(doc["entries"].as_array_mut().unwrap().drain(7..))),
    ("erased-sentence", "erased", "a sentence names the organizer that was erased", Noticed::Wording, "summary",
        |world, doc| { doc["summary"]["headline"] = world.good["before-erasures"]["summary"]["headline"].clone(); }),
];

/// Adds an erasure after all entries, of these values, each of which goes.
fn erase(drafts: &mut Vec<Draft>, values: &Value) {
    for one in values.as_array().unwrap() {
        let entry = one["entry"].as_u64().unwrap() as usize;
        for name in one["names"].as_array().unwrap() {
            let Some(draft) = drafts.get_mut(entry) else {
                continue;
            };
            let at = draft.members.iter().position(|one| one.name == *name);
            if let Some(at) = at {
                let gone = draft.members.remove(at);
                draft.undisclosed.push(gone);
            }
        }
    }
    let booking_id = drafts[0].member("bookingId").clone();
    let mut added = drafts.last().unwrap().clone();
    let members = [
        ("bookingId", booking_id),
        ("erasedAt", json!("2026-05-29T09:00:00.000Z")),
        ("legalBasis", json!("objection")),
        ("values", values.clone()),
    ];
    added.kind = "evidence.erased".to_owned();
    added.at = "2026-05-29T09:00:00.000Z".to_owned();
    added.seq = drafts.len() as u64;
    added.salt[0] ^= 0xff;
    let salted = members.into_iter().zip(1_u8..);
    added.members = salted
        .map(|((name, value), salt)| Disclosure {
            name: name.to_owned(),
            salt: [salt; 32],
            value,
        })
        .collect();
    drafts.push(added);
}

/// Erasures that no honest service writes.
#[rustfmt::skip]
pub const LOGGED: &[(&str, &str, &str, &str, Change)] = &[
    ("erasure-of-an-amount", "items", "an erasure names the booking's value", "disclosures",
        |drafts| erase(drafts, &json!([{"entry": 0, "names": ["bookingValue"]}]))),
    ("erasure-of-another-kind", "items", "an erasure names a value that no entry of this kind can lose", "disclosures",
        |drafts| erase(drafts, &json!([{"entry": 3, "names": ["note"]}]))),
    ("erasure-of-what-never-was", "items", "an erasure names a value that the entry never had", "disclosures",
        |drafts| erase(drafts, &json!([{"entry": 6, "names": ["note"]}]))),
    ("erasure-of-itself", "items", "an erasure names an entry that is not before it", "disclosures",
        |drafts| erase(drafts, &json!([{"entry": 7, "names": ["note"]}]))),
    ("erasure-of-nothing", "items", "an erasure names no entry", "disclosures", |drafts| erase(drafts, &json!([]))),
    ("erasure-without-names", "items", "an erasure names no value of an entry", "disclosures",
        |drafts| erase(drafts, &json!([{"entry": 2, "names": []}]))),
    ("erasure-unsorted", "items", "the entries of an erasure are not in order", "disclosures", |drafts| {
        let values = json!([{"entry": 2, "names": ["note"]}, {"entry": 1, "names": ["ip"]}]);
        erase(drafts, &values);
    }),
    ("erasure-of-uncounted-documents", "canceled-final",
        "an erasure names documents of a cancellation that does not say how many there were", "disclosures",
        |drafts| erase(drafts, &json!([{"entry": 2, "names": ["evidence"]}]))),
    ("erasure-of-words-within", "canceled-decided", "an erasure names the reason of a decision that is part of another value",
        "disclosures", |drafts| {
        let last = drafts.len() - 1;
        erase(drafts, &json!([{"entry": last, "names": ["rationale"]}]));
    }),
    ("documents-counted-otherwise", "decided-erasably", "a cancellation counts more documents than it names", "booking",
        |drafts| *drafts[1].member("evidenceCount") = json!(2)),
    ("documents-of-a-short-digest", "decided-erasably", "the digest of a document is not a SHA-256", "booking",
        |drafts| drafts[1].member("evidence")[0]["sha256"] = json!("sha256:5c5c")),
    ("documents-empty", "canceled-final", "a cancellation names documents, but none", "booking", |drafts| {
        let canceled = drafts
            .iter_mut()
            .find(|draft| draft.kind == "booking.canceled");
        *canceled.unwrap().member("evidence") = json!([]);
    }),
    ("documents-counted-but-never-named", "decided-erasably", "a cancellation counts documents, and never named any",
        "disclosures", |drafts| drafts[1].members.retain(|one| one.name != "evidence")),
    ("decision-with-words-twice", "decided-erasably", "a decision has its reason twice", "booking", |drafts| {
        let last = drafts.last_mut().unwrap().member("resolution");
        last["decision"]["rationale"] = json!("Another one.");
    }),
    ("decision-without-its-decider", "decided-erasably", "a decision has its reason beside it, and nobody who decided", "form",
        |drafts| {
            let last = drafts.last_mut().unwrap();
            last.members.retain(|one| one.name != "decidedBy");
        }),
    ("words-without-a-decision", "decided-erasably", "a resolution that nobody decided has a reason and somebody who decided",
        "booking", |drafts| {
        let words = drafts[3].members.clone();
        let words = words.into_iter().filter(|one| one.name != "resolution");
        drafts[2].members.extend(words);
        drafts[2].members.sort_by(|a, b| a.name.cmp(&b.name));
    }),
    ("erased-twice", "items", "a value was erased twice", "disclosures", |drafts| {
        erase(drafts, &json!([{"entry": 2, "names": ["note"]}]));
        erase(drafts, &json!([{"entry": 2, "names": ["note"]}]));
    }),
    ("erasure-for-no-reason", "items", "the legal basis of an erasure is a word that is not known", "disclosures", |drafts| {
        erase(drafts, &json!([{"entry": 2, "names": ["note"]}]));
        *drafts.last_mut().unwrap().member("legalBasis") = json!("whim");
    }),
    ("erasure-of-another-booking", "items", "an erasure names another booking", "booking", |drafts| {
        erase(drafts, &json!([{"entry": 2, "names": ["note"]}]));
        let other = json!(format!("bkg_{}", "0".repeat(32)));
        *drafts.last_mut().unwrap().member("bookingId") = other;
    }),
    ("erasure-before-it-happened", "items", "an erasure happened after its entry was written", "booking", |drafts| {
        erase(drafts, &json!([{"entry": 2, "names": ["note"]}]));
        let later = json!("2026-05-30T00:00:00.000Z");
        *drafts.last_mut().unwrap().member("erasedAt") = later;
    }),
];

const STRUCTURE: Noticed = Noticed::Structure;

fn list<'a>(document: &'a Value, name: &str) -> &'a Vec<Value> {
    document[name].as_array().unwrap()
}

pub fn bad(world: &World) -> Vec<Bad> {
    signed(world, SHOWN)
}
