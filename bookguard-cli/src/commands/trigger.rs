//! `trigger`: makes a real event happen, to a booking that is made for it.
//!
//! Nothing is simulated: the booking is recorded, moved, canceled and so on like any other, and stays, marked as a trial by its
//! metadata. Its talent and organizer are made up.

use bookguard_core::clock::Clock;
use bookguard_core::features::acceptances::{AcceptTerms, GetDisclosure};
use bookguard_core::features::bookings::{CreateBooking, ProtectBooking};
use bookguard_core::features::cancellations::{CancelBooking, DecideResolution};
use bookguard_core::features::endpoints::ListEndpoints;
use bookguard_core::features::events::log::ListEvents;
use bookguard_core::features::reschedules::RescheduleBooking;
use bookguard_core::limits::{DAY_MS, PAGE_ROWS};
use bookguard_core::model::{BookingId, Event, EventType};
use bookguard_core::operation::Request;
use clap::Args;
use serde_json::{Value, json};

use super::declare::{Call, CliCommand, add, special};
use super::events::happened;
use crate::failure::Failure;
use crate::target::Target;

pub(super) fn command() -> CliCommand {
    let about = "Make a real event happen, to a booking that is made for it";
    special("trigger", about, run).with::<TriggerArgs>()
}

#[derive(Debug, Args)]
struct TriggerArgs {
    /// An event type about bookings, such as booking.created
    #[arg(value_name = "TYPE", value_parser = event_type)]
    event_type: EventType,
}

fn event_type(word: &str) -> Result<EventType, String> {
    let about_bookings = || {
        let types = EventType::WORDS.iter();
        types.filter(|(_, event_type)| {
            let others = [EventType::EndpointSuspended, EventType::ApiKeyExpiring];
            !others.contains(event_type)
        })
    };
    let known = about_bookings().find(|(known, _)| *known == word);
    known.map(|(_, event_type)| *event_type).ok_or_else(|| {
        let words: Vec<_> = about_bookings().map(|(word, _)| *word).collect();
        format!(
            "trigger makes only events about bookings: {}",
            words.join(", ")
        )
    })
}

/// Makes an event of this type happen and shows it.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let (target, event_type) = (call.target(), call.args::<TriggerArgs>()?.event_type);
    if event_type.recorded().is_none() {
        require_receiver(target, event_type).await?;
    }
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
    let created = target.ask::<CreateBooking>(&[], body).await?;
    let booking_id = created.booking_id;
    let id = booking_id.to_string();
    match event_type {
        EventType::BookingCreated => {}
        EventType::BookingProtected => {
            target.ask::<ProtectBooking>(&[&id], Value::Null).await?;
        }
        EventType::ResolutionCreated => {
            let body = json!({ "canceledBy": "organizer", "reason": "other" });
            target.ask::<CancelBooking>(&[&id], body).await?;
        }
        EventType::BookingRescheduled => {
            let date = Clock::System.now().plus_ms(90 * DAY_MS).to_string();
            let body = json!({ "eventDate": date, "agreedBy": ["organizer", "talent"] });
            target.ask::<RescheduleBooking>(&[&id], body).await?;
        }
        EventType::TermsAccepted => {
            let told = target.ask::<GetDisclosure>(&[&id], Value::Null).await?;
            let body = json!({
                "party": "organizer",
                "method": "trial",
                "at": created.created_at.to_string(),
                "disclosureHash": told.current.disclosure_hash,
            });
            target.ask::<AcceptTerms>(&[&id], body).await?;
        }
        EventType::ResolutionDecided => {
            let body = json!({ "canceledBy": "talent", "reason": "force_majeure" });
            let open = target.ask::<CancelBooking>(&[&id], body).await?;
            let open = open.resolution_id.to_string();
            let body = json!({ "refund": 50, "decidedBy": "trial", "rationale": "A trial." });
            target.ask::<DecideResolution>(&[&open], body).await?;
        }
        // They are about no booking, and not accepted as an argument.
        EventType::EndpointSuspended | EventType::ApiKeyExpiring => {}
    }
    let event = latest(target, booking_id, event_type).await?;
    call.screen.said(&event, |style| happened(&event, style))?;
    target.say_if_unserved()
}

/// Fails if no endpoint lists the type: then its event would not be made.
async fn require_receiver(target: &Target, event_type: EventType) -> Result<(), Failure> {
    let mut asked = Request::default();
    add(&mut asked, "limit", Some(PAGE_ROWS.to_string()));
    let endpoints = target.call::<ListEndpoints>(asked).await?.output.data;
    if endpoints.iter().any(|endpoint| endpoint.takes(event_type)) {
        return Ok(());
    }
    let word = event_type.word();
    Err(Failure::Usage(format!(
        "no enabled endpoint lists {word}, so its event would not be made; add one: bookguard webhook-endpoints create URL --event {word}"
    )))
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
