//! `trigger`: makes an event happen, for real, to a booking made for it.
//!
//! Nothing is simulated: the booking is recorded, protected or canceled like any other, and stays, marked as a trial by its
//! metadata. Its talent and organizer are made up.

use bookguard_core::clock::Clock;
use bookguard_core::features::bookings::{CreateBooking, ProtectBooking};
use bookguard_core::features::cancellations::CancelBooking;
use bookguard_core::features::events::log::ListEvents;
use bookguard_core::model::{BookingId, Event, EventType};
use bookguard_core::operation::Request;
use clap::Args;
use serde_json::{Value, json};

use super::declare::{Call, CliCommand, add, special};
use super::events::happened;
use crate::failure::Failure;
use crate::target::{Target, request};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

pub(super) fn command() -> CliCommand {
    let about = "Make an event happen, for real, to a booking made for it";
    special("trigger", about, |call| Box::pin(run(call))).with::<TriggerArgs>()
}

#[derive(Debug, Args)]
struct TriggerArgs {
    /// booking.created, booking.protected or resolution.created
    #[arg(value_name = "TYPE", value_parser = event_type)]
    event_type: EventType,
}

fn event_type(word: &str) -> Result<EventType, String> {
    let known = EventType::WORDS.iter().find(|(known, _)| *known == word);
    known.map(|(_, event_type)| *event_type).ok_or_else(|| {
        let words = EventType::WORDS.map(|(word, _)| word);
        format!("there are {}", words.join(", "))
    })
}

/// Makes an event of this type happen and shows it.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let (target, event_type) = (call.target(), call.args::<TriggerArgs>()?.event_type);
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
    let created = target.call::<CreateBooking>(request(&[], &body)).await?;
    let booking_id = created.output.booking_id;
    let id = booking_id.to_string();
    match event_type {
        EventType::BookingCreated => {}
        EventType::BookingProtected => {
            let protect = request(&[&id], &Value::Null);
            target.call::<ProtectBooking>(protect).await?;
        }
        EventType::ResolutionCreated => {
            let body = json!({ "canceledBy": "organizer", "reason": "other" });
            target.call::<CancelBooking>(request(&[&id], &body)).await?;
        }
    }
    let event = latest(target, booking_id, event_type).await?;
    call.screen.said(&event, |style| happened(&event, style))?;
    target.say_if_unserved()
}

async fn latest(
    target: &Target,
    booking_id: BookingId,
    event_type: EventType,
) -> Result<Event, Failure> {
    let mut asked = Request::default();
    add(&mut asked, "bookingId", Some(booking_id.to_string()));
    add(&mut asked, "type", Some(event_type.word().to_owned()));
    add(&mut asked, "limit", Some("1".to_owned()));
    let log = target.call::<ListEvents>(asked).await?.output;
    log.data.into_iter().next().ok_or_else(|| {
        Failure::BadAnswer(format!(
            "booking {booking_id} has no event {}",
            event_type.word()
        ))
    })
}
