//! Evidence items and withheld values: a packet that has both, and what must be refused of them.

use serde_json::{Value, json};

use super::super::fixture::Fixture;
use super::forged::{Forgery, signed};
use super::{Bad, Noticed, World, logged};
use crate::evidence::ItemKind;
use crate::model::{Amount, Currency, Timestamp};
use crate::policy::Actor;

impl Fixture {
    /// Records booking `n`, at the place `which`, with evidence items: before it is protected, and after it is canceled.
    pub fn with_items(&mut self, which: usize, n: u8) {
        let usd = Amount::parse("950", Currency::USD).unwrap();
        let date = "2026-06-20T19:00:00-04:00";
        self.record(
            n,
            Some("firm"),
            date,
            Some("America/New_York"),
            usd,
            |booking| {
                booking.metadata = [("room".to_owned(), "blue".to_owned())].into();
            },
        );
        self.accept(
            which,
            "2026-02-01T10:00:00Z",
            Actor::Organizer,
            Some("203.0.113.9"),
        );
        self.add(
            which,
            "2026-02-01T11:00:00Z",
            (ItemKind::Contract, "Signed contract"),
            |item| {
                item.at = Some(Timestamp::parse("2026-01-31T20:00:00Z").unwrap());
                item.party = Some(Actor::Talent);
                item.sha256 = Some(format!("sha256:{}", "5c".repeat(32)));
                item.note = Some("Scanned by Ms. Ortiz.".to_owned());
            },
        );
        self.protect_at(which, Timestamp::parse("2026-02-03T10:00:00Z").unwrap());
        self.cancel(which, Actor::Organizer, None);
        self.add(
            which,
            "2026-05-28T09:00:00Z",
            (ItemKind::Refund, "Half returned"),
            |item| {
                item.party = Some(Actor::Partner);
                item.amount = Some(Amount::parse("475", Currency::USD).unwrap());
                item.reference = Some("re_3Qx".to_owned());
            },
        );
    }
}

/// Faults in what the packet shows, signed again by the ledger's holder.
#[rustfmt::skip]
const SHOWN: &[Forgery] = &[
    ("item-missing", "items", "a recorded item is not shown", STRUCTURE, "items", |_, doc| drop(list(doc, "items").pop())),
    ("item-other", "items", "an item is not shown as recorded", STRUCTURE, "items",
        |_, doc| doc["items"][1]["title"] = json!("All returned")),
    ("items-exchanged", "items", "two items changed places", STRUCTURE, "items", |_, doc| list(doc, "items").swap(0, 1)),
    ("item-invented", "protected", "an item is shown that no entry records", STRUCTURE, "items",
        |world, doc| doc["items"] = world.good["items"]["items"].clone()),
    ("withheld-not-named", "withheld", "values are not shown, and not named as withheld", STRUCTURE, "disclosures",
        |_, doc| doc["withheld"] = json!([])),
    ("withheld-but-shown", "items", "a value is shown although it is named as withheld", STRUCTURE, "disclosures",
        |_, doc| doc["withheld"] = json!(["note"])),
    ("withheld-unsorted", "withheld", "the names of the withheld values are not in order", STRUCTURE, "disclosures",
        |_, doc| list(doc, "withheld").swap(0, 1)),
    ("withheld-twice", "withheld", "a name is withheld twice", STRUCTURE, "disclosures",
        |_, doc| list(doc, "withheld").insert(0, json!("ip"))),
    ("withheld-time-zone", "withheld", "the booking's time zone is withheld, which is not possible", STRUCTURE, "form", |_, doc| {
        list(doc, "withheld").insert(5, json!("timeZone"));
        list(&mut doc["entries"][0], "disclosures").retain(|d| d["name"] != "timeZone");
        doc["booking"].as_object_mut().unwrap().remove("timeZone");
    }),
    ("withheld-party-shown", "withheld", "the organizer is withheld, but the packet names one", STRUCTURE, "booking",
        |_, doc| doc["booking"]["organizer"]["name"] = json!("Somebody")),
    ("withheld-metadata-shown", "withheld", "the metadata are withheld, but the packet shows some", STRUCTURE, "booking",
        |_, doc| doc["booking"]["metadata"] = json!({"room": "blue"})),
    ("withheld-address-shown", "withheld", "the network addresses are withheld, but an acceptance shows one", STRUCTURE,
        "acceptances", |_, doc| doc["acceptances"][0]["ip"] = json!("203.0.113.9")),
    ("withheld-note-shown", "withheld", "the notes are withheld, but an item shows one", STRUCTURE, "items",
        |_, doc| doc["items"][0]["note"] = json!("Scanned by Ms. Ortiz.")),
    ("withheld-salt", "items", "the body has a digest of a value that is withheld, and another value in its place", STRUCTURE,
        "disclosures", |_, doc| {
        doc["withheld"] = json!(["talent"]);
        for one in list(&mut doc["entries"][0], "disclosures") {
            if one["name"] == "talent" {
                one["value"] = json!({"id": "withheld", "name": "withheld"});
            }
        }
    }),
    ("withheld-sentence", "withheld", "a sentence names the talent that is withheld", Noticed::Wording, "summary",
        |world, doc| { doc["summary"]["headline"] = world.good["items"]["summary"]["headline"].clone(); }),
];

/// Entries that no honest service writes.
#[rustfmt::skip]
pub const LOGGED: &[(&str, &str, &str, &str, logged::Change)] = &[
    ("item-of-another-booking", "items", "an item names another booking", "booking",
        |drafts| *drafts[2].member("bookingId") = json!(format!("bkg_{}", "0".repeat(32)))),
    ("item-twice", "items", "two items have the same id", "booking", |drafts| {
        let id = drafts[2].member("itemId").clone();
        *drafts[6].member("itemId") = id;
    }),
    ("item-before-it-happened", "items", "an item was added after its entry was written", "booking",
        |drafts| *drafts[2].member("addedAt") = json!("2026-02-02T00:00:00.000Z")),
    ("item-before-the-resolution", "items", "an item stands between a cancellation and its resolution", "booking", |drafts| {
        drafts.swap(5, 6);
        for (seq, draft) in (0..).zip(drafts.iter_mut()) {
            draft.seq = seq;
        }
        drafts[6].at = drafts[5].at.clone();
    }),
    ("item-of-unknown-kind", "items", "an item is of a kind that is not known", "form",
        |drafts| *drafts[2].member("kind") = json!("letter")),
    ("item-digest-short", "items", "the digest of an item's file is not a SHA-256", "form",
        |drafts| *drafts[2].member("sha256") = json!("sha256:5c5c")),
    ("item-digest-capitals", "items", "the digest of an item's file is in upper case", "form",
        |drafts| *drafts[2].member("sha256") = json!(format!("sha256:{}", "5C".repeat(32)))),
    ("metadata-empty", "items", "there are metadata, but none", "form", |drafts| *drafts[0].member("metadata") = json!({})),
    ("currency-of-two-letters", "items", "the booking's currency has two letters", "form",
        |drafts| *drafts[0].member("currency") = json!("US")),
    ("item-of-nobody", "items", "an item comes from a party that is not known", "form",
        |drafts| *drafts[2].member("party") = json!("police")),
    ("amount-of-other-units", "items", "the minor units of an amount are another amount", "form",
        |drafts| drafts[6].member("amount")["minorUnits"] = json!(47_501)),
    ("amount-of-one-decimal", "items", "an amount of dollars has one decimal", "form",
        |drafts| { *drafts[6].member("amount") = json!({"amount": "475.0", "currency": "USD", "minorUnits": 4750}); }),
    ("amount-of-yen-with-decimals", "items", "an amount of yen has decimals", "form",
        |drafts| { *drafts[6].member("amount") = json!({"amount": "475.00", "currency": "JPY", "minorUnits": 47_500}); }),
    ("amount-with-leading-zero", "items", "an amount has a leading zero", "form",
        |drafts| drafts[6].member("amount")["amount"] = json!("0475.00")),
];

const STRUCTURE: Noticed = Noticed::Structure;

fn list<'a>(document: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    document[name].as_array_mut().unwrap()
}

pub fn bad(world: &World) -> Vec<Bad> {
    signed(world, SHOWN)
}
