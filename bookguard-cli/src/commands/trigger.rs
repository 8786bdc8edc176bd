//! `trigger`: makes an event happen, for real, to a booking made for it.
//!
//! Nothing is simulated: the booking is recorded, protected or canceled as any other, and stays, marked as a trial by its
//! metadata. Its talent and organizer are made up.

use bookguard_core::clock::Clock;
use bookguard_core::features::bookings::{CreateBooking, ProtectBooking};
use bookguard_core::features::cancellations::CancelBooking;
use bookguard_core::features::events::log::ListEvents;
use bookguard_core::model::{BookingId, Event, EventType};
use bookguard_core::operation::Request;
use serde_json::json;

use super::events::events_of;
use super::{add, at, with_body};
use crate::args::Format;
use crate::commands::cli::EventsArgs;
use crate::failure::Failure;
use crate::output::{self, Screen, events};
use crate::target::Target;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Makes an event of this type and shows it.
///
/// # Errors
/// [`Failure::Usage`] for a type that is none, and every refusal of the operations behind it.
pub async fn run(target: &Target, event_type: EventType, screen: &Screen) -> Result<(), Failure> {
    let body = json!({
        "talent": { "id": "trial", "name": "Trial talent" },
        "organizer": { "id": "trial", "name": "Trial organizer" },
        "eventType": "trial",
        "eventDate": Clock::System.now().plus_ms(60 * DAY_MS).to_string(),
        "timeZone": "UTC",
        "bookingValue": 100,
        "currency": "USD",
        "policyId": "firm",
        "metadata": { "trial": "true" },
    });
    let booking_id = target.call::<CreateBooking>(with_body(body)).await?;
    let booking_id = booking_id.output.booking_id;
    let of_booking = at(&booking_id.to_string());
    match event_type {
        EventType::BookingCreated => {}
        EventType::BookingProtected => {
            target.call::<ProtectBooking>(of_booking).await?;
        }
        EventType::ResolutionCreated => {
            let body = json!({ "canceledBy": "organizer", "reason": "other" });
            let request = Request {
                body: body.to_string().into_bytes(),
                ..of_booking
            };
            target.call::<CancelBooking>(request).await?;
        }
    }
    let event = latest(target, booking_id, event_type).await?;
    let json = serde_json::to_string(&event)
        .map_err(|e| Failure::Unexpected(format!("an event cannot be written: {e}")))?;
    match screen.format {
        Format::Json => screen.json(&json),
        Format::Table => output::print(&events::happened(&event, screen.style)),
    }?;
    target.say_if_unserved()
}

async fn latest(
    target: &Target,
    booking_id: BookingId,
    event_type: EventType,
) -> Result<Event, Failure> {
    let mut request = events_of(&EventsArgs {
        booking: Some(booking_id.to_string()),
        event_type: Some(event_type.word().to_owned()),
        ..EventsArgs::default()
    });
    add(&mut request, "limit", Some("1".to_owned()));
    let log = target.call::<ListEvents>(request).await?.output;
    log.data.into_iter().next().ok_or_else(|| {
        Failure::BadAnswer(format!(
            "booking {booking_id} has no event {}",
            event_type.word()
        ))
    })
}
