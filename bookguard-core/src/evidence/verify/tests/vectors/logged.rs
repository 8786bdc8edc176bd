//! Faults in the ledger itself: its holder logged and signed what no honest service writes.

use serde_json::{Value, json};

use super::super::fixture::{Fixture, Lie};
use super::super::text;
use super::relog::{Draft, relogged};
use super::{Bad, Noticed, World, at};
use crate::model::{Amount, Currency};

type Shown = fn(&mut Value);
pub type Change = fn(&mut Vec<Draft>);

/// Nothing is shown differently.
const SAME: Shown = |_| {};

/// Leaves that no service writes, and places where they cannot stand.
const LEAVES: &[(&str, &str, &str, Change)] = &[
    (
        "leaf-extra-member",
        "a leaf has a member more",
        "proof",
        |drafts| {
            drafts[0].spell = |text| text.replace(",\"v\":", ",\"u\":1,\"v\":");
        },
    ),
    (
        "leaf-not-canonical",
        "a leaf has a space",
        "proof",
        |drafts| {
            drafts[1].spell = |text| text.replace("{\"commit\"", "{ \"commit\"");
        },
    ),
    (
        "leaf-order",
        "a leaf's members are in another order",
        "proof",
        |drafts| {
            drafts[0].spell = |text| {
                let rest = text.replace(",\"v\":\"bookguard.leaf/1\"", "");
                rest.replace('{', "{\"v\":\"bookguard.leaf/1\",")
            };
        },
    ),
    (
        "leaf-number",
        "a leaf's seq is written 1.0",
        "proof",
        |drafts| {
            drafts[1].spell = |text| text.replace("\"seq\":1", "\"seq\":1.0");
        },
    ),
    (
        "leaf-other-version",
        "a leaf is of a version that is not known",
        "proof",
        |drafts| {
            drafts[0].spell = |text| text.replace("leaf/1", "leaf/2");
        },
    ),
    (
        "leaf-time-form",
        "a leaf's time has no milliseconds",
        "proof",
        |drafts| {
            drafts[0].at = drafts[0].at.replace(".123Z", "Z");
        },
    ),
    (
        "leaf-time-impossible",
        "a leaf was written on 30 February",
        "proof",
        |drafts| {
            drafts[0].at = drafts[0].at.replace("-01-10T", "-02-30T");
        },
    ),
    (
        "leaf-stray-bits",
        "the last character of a leaf's stream has bits that belong to no byte",
        "proof",
        |drafts| {
            for draft in drafts {
                draft.spell = |text| {
                    let end = text.find("\",\"t\":").unwrap() - 1;
                    let next = char::from(text.as_bytes()[end] + 1);
                    format!("{}{next}{}", &text[..end], &text[end + 1..])
                };
            }
        },
    ),
    (
        "first-leaf-with-prev",
        "the first leaf names a leaf before it",
        "proof",
        |drafts| {
            drafts[0].prev = Some("1".repeat(64));
        },
    ),
    (
        "second-leaf-without-prev",
        "the second leaf names none before it",
        "proof",
        |drafts| {
            drafts[1].prev = Some("0".repeat(64));
        },
    ),
    (
        "prev-of-another",
        "a leaf names another as the one before it",
        "chain",
        |drafts| {
            drafts[1].prev = Some("1".repeat(64));
        },
    ),
    ("seq-gap", "a leaf's seq skips one", "chain", |drafts| {
        drafts[1].seq = 2
    }),
    (
        "stream-of-another",
        "a leaf is of another stream",
        "chain",
        |drafts| {
            drafts[1].stream = drafts[1]
                .stream
                .replacen(|c: char| c.is_ascii_alphabetic(), "9", 1);
        },
    ),
    (
        "time-backwards",
        "a leaf is older than the one before it",
        "chain",
        |drafts| {
            drafts[1].at = "2026-01-10T00:00:00.000Z".to_owned();
        },
    ),
];

/// Entries that say what cannot be, or not after those before.
const FACTS: &[(&str, &str, &str, &str, Change)] = &[
    (
        "kind-unknown",
        "protected",
        "an entry is of a kind that is not known",
        "commitment",
        |drafts| {
            drafts[1].kind = "booking.sold".to_owned();
        },
    ),
    (
        "kind-not-of-a-booking",
        "protected",
        "an entry is of a kind that belongs to no booking",
        "booking",
        |drafts| {
            drafts[1].kind = "log.continued".to_owned();
        },
    ),
    (
        "fact-member-missing",
        "created-without-policy",
        "a booking was recorded without its event's type",
        "booking",
        |drafts| {
            drafts[0].members.retain(|d| d.name != "eventType");
        },
    ),
    (
        "fact-member-unknown",
        "protected",
        "an entry records a member that its kind does not have",
        "booking",
        |drafts| {
            let mut more = drafts[1].members[1].clone();
            more.name = "zone".to_owned();
            drafts[1].members.push(more);
        },
    ),
    (
        "fact-after-its-entry",
        "protected",
        "a protection happened after its entry was written",
        "booking",
        |drafts| {
            *drafts[1].member("protectedAt") = json!("2026-05-01T00:00:00.000Z");
        },
    ),
    (
        "value-withheld",
        "created-without-policy",
        "a value was recorded and is not shown",
        "disclosures",
        |drafts| {
            let withheld = drafts[0].members.pop().unwrap();
            drafts[0].undisclosed.push(withheld);
        },
    ),
    (
        "protected-first",
        "protected",
        "the first entry is a protection",
        "booking",
        |drafts| {
            drafts.remove(0);
            drafts[0].seq = 0;
        },
    ),
    (
        "protected-twice",
        "protected",
        "the booking was protected twice",
        "booking",
        |drafts| {
            let mut again = drafts[1].clone();
            again.seq = 2;
            drafts.push(again);
        },
    ),
    (
        "created-twice",
        "created-without-policy",
        "the booking was recorded twice",
        "booking",
        |drafts| {
            let mut again = drafts[0].clone();
            again.seq = 1;
            drafts.push(again);
        },
    ),
    (
        "protected-other-terms",
        "protected",
        "the protection locked other terms than those in force",
        "booking",
        |drafts| {
            *drafts[1].member("termsHash") = json!(format!("sha256:{}", "1".repeat(64)));
        },
    ),
    (
        "protected-after-cancellation",
        "canceled-final",
        "the booking was protected after it was canceled",
        "booking",
        |drafts| {
            let mut late = drafts.remove(1);
            late.at = drafts[2].at.clone();
            drafts.push(late);
            (0..).zip(drafts).for_each(|(seq, draft)| draft.seq = seq);
        },
    ),
    (
        "cancellation-without-resolution",
        "canceled-final",
        "the last entry is a cancellation",
        "booking",
        |drafts| {
            drafts.pop();
        },
    ),
    (
        "resolution-without-cancellation",
        "canceled-final",
        "a resolution without a cancellation",
        "booking",
        |drafts| {
            drafts.remove(2);
            drafts[2].seq = 2;
        },
    ),
    (
        "resolution-of-another-cancellation",
        "canceled-final",
        "a resolution names another side than its cancellation",
        "booking",
        |drafts| {
            drafts[3].member("resolution")["canceledBy"] = json!("talent");
        },
    ),
    (
        "resolution-grade",
        "canceled-pending",
        "a resolution of an unprotected booking says that its terms were anchored",
        "booking",
        |drafts| {
            drafts[2].member("resolution")["evidenceGrade"] = json!("ledger_anchored");
        },
    ),
    (
        "resolution-final-for-review",
        "canceled-pending",
        "a resolution is final though a person has to decide",
        "booking",
        |drafts| {
            drafts[2].member("resolution")["status"] = json!("final");
        },
    ),
    (
        "decision-of-what-was-final",
        "canceled-decided",
        "a decision supersedes another resolution than the pending one",
        "booking",
        |drafts| {
            let last = drafts.last_mut().unwrap();
            last.member("resolution")["supersedes"] = json!("res_0190000000007000800000000000000a");
        },
    ),
    (
        "move-before-the-booking",
        "moved-once",
        "a move counts from another moment than it was agreed on",
        "booking",
        |drafts| {
            drafts[1].member("former")["at"] = json!("2026-01-01T00:00:00.000Z");
        },
    ),
    (
        "terms-hash-of-others",
        "created-without-policy",
        "the booking was recorded under other terms than those shown",
        "terms",
        |drafts| {
            *drafts[0].member("termsHash") = json!(format!("sha256:{}", "1".repeat(64)));
        },
    ),
    (
        "moved-to-other-terms",
        "moved-once",
        "the move recorded other terms than those shown",
        "terms",
        |drafts| {
            drafts[1].member("terms")["until"] = json!(1_893_456_000);
        },
    ),
    (
        "notification-contradicts-itself",
        "names",
        "a receiver that answered 500 accepted",
        "booking",
        |drafts| {
            drafts[1].member("notification")["statusCode"] = json!(500);
        },
    ),
    (
        "notification-of-nothing",
        "names",
        "a notification of a protection that is not recorded",
        "booking",
        |drafts| {
            drafts[1].member("notification")["type"] = json!("booking.protected");
        },
    ),
];

/// Acceptances that are shown as recorded, but are not of the text in force.
const ACCEPTED: &[(&str, &str, Shown, Change)] = &[
    (
        "acceptance-of-another-text",
        "what the organizer accepted is not the text of the terms in force",
        |shown| {
            *at(shown, "/acceptances/0/disclosureHash") =
                json!(format!("sha256:{}", "1".repeat(64)))
        },
        |drafts| *drafts[1].member("disclosureHash") = json!(format!("sha256:{}", "1".repeat(64))),
    ),
    (
        "acceptance-of-unknown-wording",
        "what the organizer accepted is worded in a version that is not known",
        |shown| *at(shown, "/acceptances/0/disclosureVersion") = json!("bookguard-disclosure-0"),
        |drafts| *drafts[1].member("disclosureVersion") = json!("bookguard-disclosure-0"),
    ),
];

pub fn bad(world: &World) -> Vec<Bad> {
    let made = |name: &str, why: &str, check, base: &str, shown: Shown, change: Change| {
        let mut document = world.doc(base);
        shown(&mut document);
        let bytes = relogged(&document, &world.fixture.signer, change);
        Bad {
            name: name.to_owned(),
            why: why.to_owned(),
            noticed: Noticed::Structure,
            check,
            bytes,
        }
    };
    let leaves = LEAVES
        .iter()
        .map(|&(name, why, check, change)| made(name, why, check, "protected", SAME, change));
    let facts = FACTS
        .iter()
        .map(|&(name, base, why, check, change)| made(name, why, check, base, SAME, change));
    let accepted = ACCEPTED.iter();
    let accepted = accepted.map(|&(name, why, shown, change)| {
        made(name, why, "acceptances", "accepted", shown, change)
    });
    let items = super::items::LOGGED.iter();
    let items =
        items.map(|&(name, base, why, check, change)| made(name, why, check, base, SAME, change));
    leaves
        .chain(facts)
        .chain(items)
        .chain(accepted)
        .chain(lies())
        .collect()
}

/// What a service could record that applies another policy than the one it shows.
fn lies() -> Vec<Bad> {
    let sum = |minor| Amount::from_minor(minor, Currency::USD).unwrap();
    let lies = [
        (
            "refund-not-of-the-policy",
            "the refund that was recorded is not the policy's",
            Lie::Refund(sum(120_050)),
            7,
            "resolution",
        ),
        (
            "decision-not-of-the-sums",
            "the amounts recorded are not those decided",
            Lie::Decision(sum(1)),
            9,
            "resolution",
        ),
        (
            "evidence-not-counted",
            "evidence is recorded that was not part of the evaluation",
            Lie::Evidence,
            8,
            "resolution",
        ),
        (
            "reached-not-of-the-schedule",
            "a move recorded another step than the one reached",
            Lie::Reached(sum(1)),
            10,
            "schedule",
        ),
        (
            "schedule-not-of-the-policy",
            "the schedule after a move is not the policy's",
            Lie::Moved,
            11,
            "schedule",
        ),
    ];
    let made = lies.map(|(name, why, lie, which, check)| {
        let fixture = Fixture::lying(&lie);
        let bytes = text(&fixture.packet_at(which), &fixture.signer).into_bytes();
        Bad {
            name: name.to_owned(),
            why: why.to_owned(),
            noticed: Noticed::Policy,
            check,
            bytes,
        }
    });
    made.into()
}
