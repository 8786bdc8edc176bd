//! Which values each ledger fact commits to. Verifiers rebuild a booking from these names.

use serde_json::{Value, json};

use super::acceptance::Acceptance;
use super::frozen::{self, FrozenTerms};
use super::notification::Notification;
use super::reschedule::RescheduleRecord;
use crate::error::Error;
use crate::ledger::{LeafKind, commit_fields};
use crate::model::{Booking, BookingId};
use crate::policy::{Cancellation, Resolution, Terms};

/// A committed fact as the writer and the store handle it: text made once, by the caller's own task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What happened.
    pub kind: LeafKind,
    /// What the leaf holds.
    pub commit: [u8; 32],
    /// The commitment's salt.
    pub salt: [u8; 32],
    /// The fields' names and values, a JSON array of pairs.
    pub values: String,
    /// The fields' salts in the same order, 32 bytes each.
    pub salts: Vec<u8>,
}

impl Fact {
    /// Commits to `fields`. `salt` yields fresh random bytes each time.
    ///
    /// # Errors
    /// A value that canonical JSON cannot keep exactly (a number beyond 2^53).
    pub fn seal(
        kind: LeafKind,
        fields: Vec<Field>,
        salt: impl FnMut() -> [u8; 32],
    ) -> Result<Self, Error> {
        let sealed = commit_fields(kind, fields, salt)
            .map_err(|e| Error::internal(format!("a {kind} fact cannot be committed to: {e}")))?;
        let pairs: Vec<(&str, &Value)> = sealed
            .disclosures
            .iter()
            .map(|d| (d.name.as_str(), &d.value))
            .collect();
        let values = serde_json::to_string(&pairs).map_err(|e| {
            Error::internal(format!(
                "the values of a {kind} fact cannot be written: {e}"
            ))
        })?;
        let salts = sealed.disclosures.iter().flat_map(|d| d.salt).collect();
        Ok(Self {
            kind,
            commit: sealed.commit,
            salt: sealed.salt,
            values,
            salts,
        })
    }
}

/// Names the hash of the frozen terms, in `booking.created`.
pub(crate) const TERMS_HASH: &str = "termsHash";
/// Names the frozen terms themselves, in `booking.protected`.
pub(crate) const TERMS: &str = "terms";
/// Names the instant of protection.
pub(crate) const PROTECTED_AT: &str = "protectedAt";
/// The members of a booking that `booking.created` always has.
pub(crate) const SAID: [&str; 9] = [
    "bookingId",
    "partnerId",
    "talent",
    "organizer",
    "eventType",
    "eventDate",
    "bookingValue",
    "currency",
    "createdAt",
];
/// The members of a booking that it has when the partner said them.
pub(crate) const SAID_MAYBE: [&str; 3] = ["timeZone", "amountPaid", "metadata"];

/// The members of a change of date that `booking.rescheduled` always has.
pub(crate) const RESCHEDULED: [&str; 6] = [
    "bookingId",
    "rescheduledAt",
    "eventDate",
    "agreedBy",
    "amendments",
    TERMS,
];
/// The members of a change of date that it has when there are such.
pub(crate) const RESCHEDULED_MAYBE: [&str; 2] = ["timeZone", "at"];

/// The members of an acceptance that `terms.accepted` always has.
pub(crate) const ACCEPTED: [&str; 7] = [
    "bookingId",
    "acceptedAt",
    "party",
    "method",
    "at",
    "disclosureHash",
    "disclosureVersion",
];
/// The members of an acceptance that it has when they were said.
pub(crate) const ACCEPTED_MAYBE: [&str; 2] = ["ip", "userAgent"];

/// The members of a cancellation that `booking.canceled` always has.
pub(crate) const CANCELED: [&str; 3] = ["bookingId", "canceledAt", "canceledBy"];
/// The members of a cancellation that it has when they were said.
pub(crate) const CANCELED_MAYBE: [&str; 5] =
    ["reason", "note", "effectiveAt", "agreedRefund", "evidence"];
/// Names the whole resolution, in `resolution.created`.
pub(crate) const RESOLUTION: &str = "resolution";
/// What `resolution.created` always has.
pub(crate) const RESOLVED: [&str; 3] = ["bookingId", "resolutionId", RESOLUTION];
/// What it has when a person decided.
pub(crate) const RESOLVED_MAYBE: [&str; 1] = ["supersedes"];

/// Names how a delivery ended, in `webhook.settled`.
pub(crate) const NOTIFICATION: &str = "notification";
/// What `webhook.settled` always has.
pub(crate) const SETTLED: [&str; 2] = ["bookingId", NOTIFICATION];

/// A named value a leaf commits to.
pub type Field = (&'static str, Value);

/// The fields of `booking.created`: everything the partner said, and the hash of the terms frozen for it, which hold the
/// policy's. `stored` is the terms' [`FrozenTerms::stored`] text.
pub fn created(booking: &Booking, terms: &Terms, stored: &str) -> Vec<Field> {
    let mut fields = said(booking);
    fields.push((
        TERMS_HASH,
        json!(frozen::hash_of(stored, terms.policy_hash())),
    ));
    fields
}

/// The fields of `booking.protected`: the same again, now with the terms themselves: policy hash and compiled schedule.
pub fn protected(booking: &Booking, terms: &Terms) -> Vec<Field> {
    let mut fields = said(booking);
    fields.push((PROTECTED_AT, json!(booking.protected_at)));
    fields.push((TERMS, json!(FrozenTerms::of(terms))));
    fields
}

/// The fields of `booking.rescheduled`: the date and the zone from now on, who agreed, the terms compiled anew, and every
/// change of date so far, so that this entry alone says what the booking is under.
pub fn rescheduled(record: &RescheduleRecord) -> Vec<Field> {
    let mut fields = vec![
        ("bookingId", json!(record.booking_id)),
        ("rescheduledAt", json!(record.rescheduled_at)),
        ("eventDate", json!(record.event_date)),
        ("agreedBy", json!(record.agreed_by)),
        ("amendments", json!(record.reschedules)),
        (TERMS, json!(record.terms)),
    ];
    if let Some(zone) = &record.time_zone {
        fields.push(("timeZone", json!(zone)));
    }
    if let Some(at) = record.at {
        fields.push(("at", json!(at)));
    }
    fields
}

/// The fields of `terms.accepted`.
pub fn accepted(acceptance: &Acceptance) -> Vec<Field> {
    let mut fields = vec![
        ("bookingId", json!(acceptance.booking_id)),
        ("acceptedAt", json!(acceptance.accepted_at)),
        ("party", json!(acceptance.party)),
        ("method", json!(acceptance.method)),
        ("at", json!(acceptance.at)),
        ("disclosureHash", json!(acceptance.disclosure_hash)),
        ("disclosureVersion", json!(acceptance.disclosure_version)),
    ];
    if let Some(ip) = &acceptance.ip {
        fields.push(("ip", json!(ip)));
    }
    if let Some(program) = &acceptance.user_agent {
        fields.push(("userAgent", json!(program)));
    }
    fields
}

/// The fields of `booking.canceled`: what was asked for.
pub fn canceled(cancellation: &Cancellation) -> Vec<Field> {
    let mut fields = vec![
        ("bookingId", json!(cancellation.booking_id)),
        ("canceledAt", json!(cancellation.canceled_at)),
        ("canceledBy", json!(cancellation.canceled_by)),
    ];
    let mut maybe = |name, value: Option<Value>| fields.extend(value.map(|value| (name, value)));
    maybe("reason", cancellation.reason.map(|reason| json!(reason)));
    maybe("note", cancellation.note.as_ref().map(|note| json!(note)));
    maybe("effectiveAt", cancellation.effective_at.map(|at| json!(at)));
    maybe(
        "agreedRefund",
        cancellation.agreed_refund.map(|refund| json!(refund)),
    );
    let evidence = (!cancellation.evidence.is_empty()).then(|| json!(cancellation.evidence));
    maybe("evidence", evidence);
    fields
}

/// The fields of `resolution.created`. The resolution stands in the ledger and nowhere else.
pub fn resolved(resolution: &Resolution) -> Vec<Field> {
    let mut fields = vec![
        ("bookingId", json!(resolution.booking_id)),
        ("resolutionId", json!(resolution.resolution_id)),
        (RESOLUTION, json!(resolution)),
    ];
    if let Some(superseded) = resolution.supersedes {
        fields.push(("supersedes", json!(superseded)));
    }
    fields
}

/// The fields of `webhook.settled`. All of it is one value: nothing in it is personal, and every delivery has such a fact.
pub fn settled(booking_id: BookingId, notification: &Notification) -> Vec<Field> {
    vec![
        ("bookingId", json!(booking_id)),
        (NOTIFICATION, json!(notification)),
    ]
}

/// What the first two facts of a booking have in common.
fn said(booking: &Booking) -> Vec<Field> {
    let mut fields = vec![
        ("bookingId", json!(booking.booking_id)),
        ("partnerId", json!(booking.partner_id)),
        ("talent", json!(booking.talent)),
        ("organizer", json!(booking.organizer)),
        ("eventType", json!(booking.event_type)),
        ("eventDate", json!(booking.event_date)),
        ("bookingValue", json!(booking.booking_value)),
        ("currency", json!(booking.currency)),
        ("createdAt", json!(booking.created_at)),
    ];
    if let Some(zone) = &booking.time_zone {
        fields.push(("timeZone", json!(zone)));
    }
    if let Some(paid) = &booking.amount_paid {
        fields.push(("amountPaid", json!(paid)));
    }
    if !booking.metadata.is_empty() {
        fields.push(("metadata", json!(booking.metadata)));
    }
    fields
}
