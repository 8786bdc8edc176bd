//! The body of an event: the specification's envelope, with `seq` as its last field.
//!
//! The bytes are made once and are the same on every attempt and for every endpoint. Only the writer knows the partner's
//! sequence number, so the body is made in two steps: a head, and its end.

use std::fmt::Write as _;

use serde_json::json;

use crate::model::{Booking, BookingId, EndpointId, EventId, EventType, PartnerId, Timestamp};
use crate::policy::Resolution;

/// The head of `booking.created`.
pub fn created(event_id: EventId, booking: &Booking) -> String {
    let (partner_id, value) = (booking.partner_id, &booking.booking_value);
    let currency = booking.currency.code();
    let payload =
        format!(r#"{{"partnerId":"{partner_id}","bookingValue":{value},"currency":"{currency}"}}"#);
    head(
        event_id,
        EventType::BookingCreated,
        booking.booking_id,
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
        booking.booking_id,
        at,
        &payload.to_string(),
    )
}

/// The head of `resolution.created`.
pub fn resolved(event_id: EventId, resolution: &Resolution, packet_url: &str) -> String {
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
        EventType::ResolutionCreated,
        resolution.booking_id,
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
    booking_id: BookingId,
    at: Timestamp,
    payload: &str,
) -> String {
    format!(
        r#"{{"eventId":"{event_id}","type":"{}","bookingId":"{booking_id}","timestamp":"{at}","status":"pending","payload":{payload}"#,
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
            booking_id,
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
