//! Bodies of requests.

use bookguard_core::features::items::files::digest_of;
use serde_json::{Value, json};

/// A registration.
pub fn partner(name: &str) -> Value {
    json!({
        "name": name,
        "businessType": "talent marketplace",
        "contactEmail": "ops@example.com",
        "website": "https://example.com"
    })
}

/// A policy for `PUT /v1/policies/{id}`: a full refund until two weeks before, then this share, in basis points.
pub fn policy(late_bps: u32) -> Value {
    json!({
        "organizer": {
            "tiers": [{"before": "P14D", "outcome": {"refundBps": 10000}}],
            "late": {"refundBps": late_bps}
        }
    })
}

/// A booking: USD 1,250.50 for a concert far in the future of every clock in these tests.
pub fn booking() -> Value {
    json!({
        "talent": {"id": "tal-7", "name": "The Night Owls"},
        "organizer": {"id": "org-3", "name": "Acme Events"},
        "eventType": "concert",
        "eventDate": "2031-06-20T19:00:00-04:00",
        "bookingValue": 1250.5,
        "currency": "USD"
    })
}

/// A new date for the sample booking.
pub fn new_date() -> Value {
    json!({"eventDate": "2031-10-20T19:00:00-04:00", "agreedBy": ["organizer", "talent"]})
}

/// An acceptance of the text with this hash, at the instant at which every server's clock begins.
pub fn acceptance(disclosure_hash: &str) -> Value {
    json!({
        "party": "organizer", "method": "checkbox", "at": "2026-09-21T14:13:20Z", "ip": "203.0.113.7",
        "userAgent": "Browser/1.0", "disclosureHash": disclosure_hash
    })
}

/// A cancellation by the organizer.
pub fn cancellation() -> Value {
    json!({"canceledBy": "organizer", "reason": "changed_plans"})
}

/// A cancellation that needs a person under any policy of the library, because it comes without evidence.
pub fn open_cancellation() -> Value {
    json!({"canceledBy": "talent", "reason": "force_majeure", "note": "a storm"})
}

/// A decision about that cancellation, for the sample booking.
pub fn decision() -> Value {
    json!({"refund": 1000.25, "decidedBy": "disputes", "rationale": "There was a storm indeed."})
}

/// The sample booking with these members replaced; `null` removes one.
pub fn booking_with(members: Value) -> Value {
    let mut booking = booking();
    let fields = booking.as_object_mut().expect("a booking is an object");
    let members = members.as_object().expect("members come as an object");
    for (name, value) in members.clone() {
        if value.is_null() {
            fields.remove(&name);
        } else {
            fields.insert(name, value);
        }
    }
    booking
}

/// A refund that was paid, as an evidence item.
pub fn item() -> Value {
    json!({"kind": "refund", "title": "Refund of the deposit", "amount": 300, "reference": "re_1"})
}

/// An evidence item with this file.
pub fn item_with_file(file: impl AsRef<[u8]>) -> Value {
    json!({"kind": "contract", "title": "Contract", "sha256": digest_of(file.as_ref())})
}
