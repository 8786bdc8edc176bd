//! Faults in how deliveries ended: for each rule a packet that only this rule refuses, or only it and the same rule on what
//! is shown.

use serde_json::{Value, json};

use super::logged::number;
use super::relog::{Draft, drafts_of, relogged};
use super::{Bad, Noticed, World};

type Change = fn(&mut Vec<Value>, &mut Vec<Value>);

/// Changes to the one record of a packet, which says that an event was accepted, and to the one delivery that is shown
/// without its attempts. The delivery then shows whatever is recorded of it.
#[rustfmt::skip]
const RECORDED: &[(&str, &str, &str, Change)] = &[
    ("record-without-attempts", "the record of a delivery counts no attempt", "booking", |records, shown| {
        records[0]["attempts"] = json!(0);
        shown[0]["attempts"] = json!(0);
    }),
    ("record-without-number", "the record of a delivery has the number 0", "booking",
        |records, _| { records[0]["seq"] = json!(0); }),
    ("record-accepted-with-error", "an accepted delivery failed", "booking",
        |records, _| { records[0]["error"] = json!("timeout"); }),
    ("record-accepted-without-answer", "an accepted delivery had no answer", "booking",
        |records, _| { unanswered(&mut records[0]); }),
    ("record-accepted-with-500", "an accepted delivery was answered 500", "booking",
        |records, _| { records[0]["statusCode"] = json!(500); }),
    ("record-given-up-without-error", "a delivery was given up that did not fail", "booking", |records, shown| {
        records[0]["outcome"] = json!("given_up");
        shown[0]["status"] = json!("failed");
    }),
    ("record-of-unknown-failure", "a delivery failed for a reason that is not known", "booking", |records, shown| {
        give_up(&mut records[0]);
        records[0]["error"] = json!("bad_luck");
        shown[0]["status"] = json!("failed");
    }),
    ("record-of-no-body", "the digest of the body is in upper case", "booking",
        |records, _| { records[0]["bodySha256"] = json!("A".repeat(64)); }),
    ("record-of-no-answer", "the digest of the answer is too short", "booking",
        |records, _| { records[0]["responseSha256"] = json!("0".repeat(63)); }),
    ("record-of-an-answer-that-never-came", "there is the digest of an answer without a status", "booking", |records, shown| {
        let digest = records[0]["responseSha256"].clone();
        give_up(&mut records[0]);
        records[0]["responseSha256"] = digest;
        shown[0]["status"] = json!("failed");
    }),
    ("record-of-another-moment", "the event was made a millisecond after what it reports", "booking", |records, shown| {
        let id = records[0]["eventId"].as_str().unwrap();
        let time = u64::from_str_radix(&id[4..16], 16).unwrap() + 1;
        let later = json!(format!("evt_{time:012x}{}", &id[16..]));
        records[0]["eventId"] = later.clone();
        shown[0]["eventId"] = later;
    }),
    ("records-of-two-events", "two events report the same entry", "booking", |records, shown| {
        let id = another(records[0]["eventId"].as_str().unwrap());
        let (mut record, mut delivery) = (records[0].clone(), shown[0].clone());
        (record["eventId"], record["seq"]) = (id.clone(), json!(2));
        delivery["eventId"] = id;
        records.push(record);
        shown.push(delivery);
    }),
    ("record-of-another-body", "two records of an event have different bodies", "booking", |records, shown| {
        accept_later(records, shown);
        records[1]["bodySha256"] = json!("1".repeat(64));
    }),
    ("record-of-another-number", "two records of an event have different numbers", "booking", |records, shown| {
        accept_later(records, shown);
        records[1]["seq"] = json!(2);
    }),
    ("record-after-acceptance", "a delivery ended again after it was accepted", "booking", |records, shown| {
        let mut again = records[0].clone();
        again["attempts"] = json!(2);
        records.push(again);
        shown[0]["attempts"] = json!(2);
    }),
    ("record-given-up-twice", "a delivery was given up twice", "booking", |records, shown| {
        accept_later(records, shown);
        give_up(&mut records[1]);
        shown[0]["status"] = json!("failed");
    }),
    ("record-without-more-attempts", "a delivery was accepted later without another attempt", "booking", |records, shown| {
        accept_later(records, shown);
        records[1]["attempts"] = json!(1);
        shown[0]["attempts"] = json!(1);
    }),
    ("record-third", "a delivery that was given up and accepted ended a third time", "booking", |records, shown| {
        accept_later(records, shown);
        let mut again = records[1].clone();
        again["attempts"] = json!(3);
        records.push(again);
        shown[0]["attempts"] = json!(3);
    }),
    ("delivery-fewer-attempts", "a failed delivery shows fewer attempts than are recorded", "deliveries", |records, shown| {
        give_up(&mut records[0]);
        records[0]["attempts"] = json!(2);
        shown[0]["status"] = json!("failed");
    }),
];

type Moved = fn(&mut Value, &mut Vec<Draft>);

/// Changes to the order of entries, and to records beside others. One packet has two records of one delivery, a protection
/// and its record, a cancellation and a resolution. In the other, booking and protection have the same moment.
#[rustfmt::skip]
const MOVED: &[(&str, &str, &str, Moved)] = &[
    ("record-before-its-event", "notified", "the end of a delivery is recorded before what it reports",
        |_, drafts| { drafts.swap(3, 4); }),
    ("record-before-the-resolution", "notified", "the end of a delivery stands between cancellation and resolution",
        |_, drafts| { drafts.swap(4, 5); }),
    ("records-of-one-number", "notified", "two events have the same number", |document, drafts| {
        drafts[4].member("notification")["seq"] = json!(1);
        document["deliveries"][1]["recorded"][0]["seq"] = json!(1);
    }),
    ("record-of-another-type", "events-of-one-moment", "two records of an event have different types", |document, drafts| {
        let shown = document["deliveries"].as_array_mut().unwrap();
        let mut other = of_another_type(&shown[0]);
        let mut record = drafts[2].clone();
        for name in ["type", "endpointId"] {
            record.member("notification")[name] = other[name].clone();
        }
        other["recorded"] = json!([record.member("notification")]);
        shown[1] = other;
        drafts.push(record);
    }),
];

type Shown = fn(&mut Vec<Value>);

/// Deliveries that cannot be as they are shown: the packet, and what is done to its deliveries. That of the first one failed
/// once, and nothing is recorded of it.
#[rustfmt::skip]
const SHOWN: &[(&str, &str, &str, Shown)] = &[
    ("delivery-with-path", "created-without-policy", "the address of a delivery has a path",
        |shown| shown[0]["url"] = json!("https://example.com/hook")),
    ("delivery-to-an-odd-scheme", "created-without-policy", "the scheme of a delivery's address is a path",
        |shown| shown[0]["url"] = json!("https:/example.com/a://example.com")),
    ("delivery-to-no-scheme", "created-without-policy", "the address of a delivery has no scheme",
        |shown| shown[0]["url"] = json!("://example.com")),
    ("delivery-hidden", "names", "a delivery whose end is recorded is not shown", |shown| { shown.clear(); }),
    ("delivery-twice", "names", "a delivery is shown twice", |shown| {
        let twice = shown[0].clone();
        shown.push(twice);
    }),
    ("delivery-failed", "names", "a delivery that was accepted is shown as failed",
        |shown| { shown[0]["status"] = json!("failed"); }),
    ("delivery-end-hidden", "names", "the recorded end of a delivery is not shown", |shown| {
        shown[0]["recorded"] = json!([]);
        shown[0]["status"] = json!("failed");
        shown[0]["history"][0]["error"] = json!("timeout");
    }),
    ("delivery-of-nothing", "created-without-policy", "an event of a protection that is not recorded",
        |shown| { shown[0]["type"] = json!("booking.protected"); }),
    ("delivery-attempts-missing", "names", "it counts more attempts than it shows", |shown| { shown[0]["attempts"] = json!(2); }),
    ("delivery-other-answer", "names", "the last attempt is not the one recorded",
        |shown| { shown[0]["history"][0]["statusCode"] = json!(200); }),
    ("delivery-without-endpoint", "created-without-policy", "a delivery went nowhere and failed", |shown| {
        shown[0]["endpointId"] = Value::Null;
        shown[0]["url"] = Value::Null;
    }),
    ("delivery-without-address", "created-without-policy", "a delivery has an endpoint without an address",
        |shown| { shown[0]["url"] = Value::Null; }),
    ("delivery-nowhere-with-address", "created-without-policy", "an event without endpoints has an address", |shown| {
        let url = shown[0]["url"].clone();
        shown[0] = nowhere(&shown[0]);
        shown[0]["url"] = url;
    }),
    ("delivery-nowhere-attempted", "created-without-policy", "an event without endpoints was attempted", |shown| {
        shown[0] = nowhere(&shown[0]);
        shown[0]["attempts"] = json!(1);
    }),
    ("delivery-pending-attempted", "created-without-policy", "a delivery was attempted and is pending",
        |shown| { shown[0]["status"] = json!("pending"); }),
    ("delivery-accepted-unrecorded", "created-without-policy", "a delivery was accepted, and no record says so", |shown| {
        shown[0]["status"] = json!("delivered");
        shown[0]["history"] = json!([]);
    }),
    ("delivery-of-another-type", "events-of-one-moment", "an event is shown with two types", |shown| {
        let mut other = of_another_type(&shown[0]);
        (other["status"], other["recorded"]) = (json!("failed"), json!([]));
        other["history"] = json!([]);
        shown[1] = other;
    }),
    ("delivery-nowhere-beside-another", "created-without-policy", "an event without endpoints has a delivery",
        |shown| { shown.push(nowhere(&shown[0])); }),
    ("delivery-of-two-events", "created-without-policy", "two events report the same entry", |shown| {
        let mut other = shown[0].clone();
        other["eventId"] = another(other["eventId"].as_str().unwrap());
        shown.push(other);
    }),
    ("deliveries-too-many", "created-without-policy", "an event has 51 deliveries", |shown| {
        let of = |n: usize| {
            let mut delivery = shown[0].clone();
            let id = delivery["endpointId"].as_str().unwrap();
            delivery["endpointId"] = json!(format!("{}{n:02x}", &id[..id.len() - 2]));
            delivery
        };
        *shown = (0..51).map(of).collect();
    }),
    ("delivery-history-too-long", "created-without-policy", "it shows more attempts than it counts", |shown| {
        let attempt = shown[0]["history"][0].clone();
        shown[0]["history"].as_array_mut().unwrap().push(attempt);
    }),
    ("delivery-failed-ends-accepted", "created-without-policy", "the last attempt of a failed delivery was accepted",
        |shown| { shown[0]["history"][0]["error"] = Value::Null; }),
    ("delivery-other-attempts", "names", "an accepted delivery has more attempts than are recorded", |shown| {
        shown[0]["attempts"] = json!(2);
        shown[0]["history"] = json!([]);
    }),
    ("delivery-accepted-early", "notified", "an attempt before the last was accepted",
        |shown| { shown[0]["history"][0]["error"] = Value::Null; }),
    ("delivery-other-end", "delivery-of-23-attempts", "the attempt with which it was given up is not the one recorded",
        |shown| { shown[0]["history"][8] = shown[0]["history"][7].clone(); }),
    ("delivery-records-exchanged", "notified", "the records of a delivery are in another order", |shown| {
        shown[0]["recorded"].as_array_mut().unwrap().reverse();
        shown[0]["status"] = json!("failed");
        shown[0]["history"] = json!([]);
    }),
];

/// The delivery as that of an event for which there was no endpoint.
fn nowhere(delivery: &Value) -> Value {
    json!({
        "eventId": delivery["eventId"], "type": delivery["type"], "endpointId": null, "url": null,
        "status": "no_endpoints", "attempts": 0, "recorded": [], "history": [],
    })
}

/// A delivery of the same event to another endpoint, as one of a protection.
fn of_another_type(delivery: &Value) -> Value {
    let mut other = delivery.clone();
    other["type"] = json!("booking.protected");
    other["endpointId"] = another(other["endpointId"].as_str().unwrap());
    other
}

/// Another id, made at the same time.
fn another(id: &str) -> Value {
    let (rest, last) = id.split_at(id.len() - 1);
    json!(format!("{rest}{}", if last == "1" { 2 } else { 1 }))
}

fn unanswered(record: &mut Value) {
    let members = record.as_object_mut().unwrap();
    members.remove("statusCode");
    members.remove("responseSha256");
}

/// Makes it the record of a delivery that was given up.
fn give_up(record: &mut Value) {
    unanswered(record);
    record["outcome"] = json!("given_up");
    record["error"] = json!("timeout");
}

/// Records that the delivery was given up, and accepted with the second attempt.
fn accept_later(records: &mut Vec<Value>, shown: &mut [Value]) {
    let mut accepted = records[0].clone();
    accepted["attempts"] = json!(2);
    give_up(&mut records[0]);
    records.push(accepted);
    shown[0]["attempts"] = json!(2);
}

pub fn bad(world: &World) -> Vec<Bad> {
    let signer = &world.fixture.signer;
    let made = |name, why, check, bytes| Bad::of(name, why, Noticed::Structure, check, bytes);
    let recorded = RECORDED.iter().map(|&(name, why, check, change)| {
        let mut document = world.doc("names");
        let mut records = vec![document["deliveries"][0]["recorded"][0].clone()];
        let shown = document["deliveries"].as_array_mut().unwrap();
        shown[0]["history"] = json!([]);
        change(&mut records, shown);
        for delivery in shown {
            let of_it = |record: &&Value| record["eventId"] == delivery["eventId"];
            delivery["recorded"] = records.iter().filter(of_it).cloned().collect();
        }
        let bytes = relogged(&document, signer, |drafts| {
            let record = drafts.pop().unwrap();
            for (seq, value) in (1..).zip(&records) {
                let mut record = record.clone();
                record.seq = seq;
                *record.member("notification") = value.clone();
                drafts.push(record);
            }
        });
        made(name, why, check, bytes)
    });
    let moved = MOVED.iter().map(|&(name, base, why, change)| {
        let mut document = world.doc(base);
        // Once for what is shown, and once for what is logged: it is the same change.
        let genuine = document.clone();
        change(&mut document, &mut drafts_of(&genuine));
        let bytes = relogged(&document, signer, |drafts| {
            change(&mut genuine.clone(), drafts);
            number(drafts);
        });
        made(name, why, "booking", bytes)
    });
    let shown = SHOWN.iter().map(|&(name, base, why, change)| {
        let mut document = world.doc(base);
        change(document["deliveries"].as_array_mut().unwrap());
        made(
            name,
            why,
            "deliveries",
            super::super::signed_anew(&document, signer),
        )
    });
    recorded.chain(moved).chain(shown).collect()
}
