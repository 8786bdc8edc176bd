//! The body of an event: the specification's envelope, with `seq` as its last field.
//!
//! The bytes are made once and are the same on every attempt and for every endpoint. Only the writer knows the partner's
//! sequence number, so the body is made in two steps: a head, and its end.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{
    ApiKeyId, Booking, BookingId, EndpointId, EventId, EventType, PartnerId, Timestamp,
};
use crate::policy::{Actor, EventDate, Resolution};

/// The head of `booking.created`.
pub fn created(event_id: EventId, booking: &Booking) -> String {
    let (partner_id, value) = (booking.partner_id, &booking.booking_value);
    let currency = booking.currency.code();
    let payload =
        format!(r#"{{"partnerId":"{partner_id}","bookingValue":{value},"currency":"{currency}"}}"#);
    head(
        event_id,
        EventType::BookingCreated,
        Some(booking.booking_id),
        booking.created_at,
        &payload,
    )
}

/// The head of `booking.protected`.
pub fn protected(
    event_id: EventId,
    booking: &Booking,
    at: Timestamp,
    evidence_url: &str,
) -> String {
    let payload = json!({
        "partnerId": booking.partner_id,
        "protected": true,
        "evidencePacketUrl": evidence_url,
    });
    head(
        event_id,
        EventType::BookingProtected,
        Some(booking.booking_id),
        at,
        &payload.to_string(),
    )
}

/// The head of `booking.rescheduled`, with the date as it was given before, and when the event starts now.
pub fn rescheduled(
    event_id: EventId,
    booking: &Booking,
    at: Timestamp,
    (former, new): (EventDate, Timestamp),
    evidence_url: &str,
) -> String {
    let payload = json!({
        "partnerId": booking.partner_id,
        "eventDate": new,
        "previousEventDate": former,
        "evidencePacketUrl": evidence_url,
    });
    head(
        event_id,
        EventType::BookingRescheduled,
        Some(booking.booking_id),
        at,
        &payload.to_string(),
    )
}

/// The head of `terms.accepted`, with who accepted and the hash of the text.
pub fn accepted(
    event_id: EventId,
    booking: &Booking,
    at: Timestamp,
    (party, disclosure_hash): (Actor, &str),
    evidence_url: &str,
) -> String {
    let payload = json!({
        "partnerId": booking.partner_id,
        "party": party,
        "disclosureHash": disclosure_hash,
        "evidencePacketUrl": evidence_url,
    });
    head(
        event_id,
        EventType::TermsAccepted,
        Some(booking.booking_id),
        at,
        &payload.to_string(),
    )
}

/// The head of `resolution.decided`. `url` is that of the packet.
pub fn decided(event_id: EventId, resolution: &Resolution, url: &str) -> String {
    told_of(EventType::ResolutionDecided, event_id, resolution, url)
}

/// The head of `endpoint.suspended`.
pub fn suspended(event_id: EventId, partner_id: PartnerId, suspension: &Suspension) -> String {
    let payload = json!({
        "partnerId": partner_id,
        "endpointId": suspension.endpoint_id,
        "url": suspension.url,
        "failures": suspension.failures,
        "failingSince": suspension.failing_since,
    });
    without_booking(event_id, EventType::EndpointSuspended, &payload)
}

/// The head of `api_key.expiring`.
pub fn expiring(event_id: EventId, partner_id: PartnerId, expiry: &Expiry) -> String {
    let payload = json!({
        "partnerId": partner_id,
        "apiKeyId": expiry.api_key_id,
        "expiresAt": expiry.expires_at,
    });
    without_booking(event_id, EventType::ApiKeyExpiring, &payload)
}

/// What `api_key.expiring` says of the key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expiry {
    /// The key.
    pub api_key_id: ApiKeyId,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// The head of an event that is about no booking.
pub fn without_booking(event_id: EventId, event_type: EventType, payload: &Value) -> String {
    let at = event_id.made_at();
    head(event_id, event_type, None, at, &payload.to_string())
}

/// What `endpoint.suspended` says of the endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// Its address at that time.
    pub url: String,
    /// Attempts in a row that failed.
    pub failures: u32,
    /// When the first of them was made.
    pub failing_since: Timestamp,
}

/// The head of `resolution.created`. `url` is that of the packet.
pub fn resolved(event_id: EventId, resolution: &Resolution, url: &str) -> String {
    told_of(EventType::ResolutionCreated, event_id, resolution, url)
}

fn told_of(
    event_type: EventType,
    event_id: EventId,
    resolution: &Resolution,
    packet_url: &str,
) -> String {
    let mut payload = json!({
        "partnerId": resolution.partner_id,
        "resolutionSummary": resolution.summary,
        "packetUrl": packet_url,
        "resolutionId": resolution.resolution_id,
        "resolutionPath": resolution.evaluation.resolution_path,
    });
    if let Some(superseded) = resolution.supersedes {
        payload["supersedes"] = json!(superseded);
    }
    head(
        event_id,
        event_type,
        Some(resolution.booking_id),
        resolution.made_at(),
        &payload.to_string(),
    )
}

/// The whole body of a test event, which belongs to no booking and has no number.
pub fn test(
    event_id: EventId,
    partner_id: PartnerId,
    endpoint_id: EndpointId,
    at: Timestamp,
) -> String {
    format!(
        r#"{{"eventId":"{event_id}","type":"endpoint.test","bookingId":null,"timestamp":"{at}","status":"pending","payload":{{"partnerId":"{partner_id}","endpointId":"{endpoint_id}"}}}}"#
    )
}

/// The body up to the sequence number. `payload` is JSON text; the other fields need no escaping.
fn head(
    event_id: EventId,
    event_type: EventType,
    booking_id: Option<BookingId>,
    at: Timestamp,
    payload: &str,
) -> String {
    let booking_id = match booking_id {
        Some(booking_id) => format!("\"{booking_id}\""),
        None => "null".to_owned(),
    };
    format!(
        r#"{{"eventId":"{event_id}","type":"{}","bookingId":{booking_id},"timestamp":"{at}","status":"pending","payload":{payload}"#,
        event_type.word(),
    )
}

/// The whole body: the head and the sequence number.
pub fn finish(head: &str, seq: u64) -> String {
    let mut body = String::with_capacity(head.len() + 32);
    body.push_str(head);
    // Writing into a String cannot fail.
    let _ = write!(body, r#","seq":{seq}}}"#);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_the_envelope_of_the_specification_and_seq() {
        let event_id = EventId::new(Timestamp::from_ms(0), [1; 10]);
        let booking_id = BookingId::new(Timestamp::from_ms(0), [2; 10]);
        let head = head(
            event_id,
            EventType::BookingCreated,
            Some(booking_id),
            Timestamp::from_ms(0),
            r#"{"a":1}"#,
        );
        let body: serde_json::Value = serde_json::from_str(&finish(&head, 7)).unwrap();
        assert_eq!(
            body,
            json!({
                "eventId": event_id, "type": "booking.created", "bookingId": booking_id,
                "timestamp": "1970-01-01T00:00:00.000Z", "status": "pending", "payload": {"a": 1}, "seq": 7
            })
        );
    }
}
