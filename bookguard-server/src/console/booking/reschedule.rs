//! Moving a booking's event to another date.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::reschedules::RescheduleBooking;
use maud::html;

use super::title;
use crate::console::form::{self, Field, Kind};
use crate::console::parts::{time, words};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

const NAMES: [&str; 3] = ["/eventDate", "/timeZone", "/agreedBy"];

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    match user.submit::<RescheduleBooking>(asked).await {
        Ok(()) => Ok(Answer::done(
            format!("/bookings/{}", asked.id(0)),
            "The event has another date now; the earlier one stays in the ledger.",
        )),
        Err(error) if form::is_correctable(&error) => {
            page(user, asked, Some(&as_typed(error))).await
        }
        Err(error) => Err(error),
    }
}

/// A refusal for somebody whose field for the date takes no offset.
fn as_typed(mut error: Error) -> Error {
    for detail in &mut error.details {
        if detail.code == "time_zone_required" {
            detail.message = "is missing, and the booking has none yet".to_owned();
            detail.fix =
                "Name the one that the date is meant in, such as Europe/Berlin.".to_owned();
        }
    }
    error
}

async fn page(user: &User, asked: &Asked, refused: Option<&Error>) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let draft = asked.draft(refused);
    let sides = ["organizer", "talent", "partner"].map(|word| (word, words(word)));
    let date = Field::new("/eventDate", "New date and time", Kind::Local)
        .about("Where the event takes place.")
        .required();
    let zone = match &booking.time_zone {
        Some(_) => Field::new("/timeZone", "New time zone", Kind::Text)
            .about("Such as Europe/Berlin. Stays as it is if left empty."),
        None => Field::new("/timeZone", "Time zone", Kind::Text)
            .about("Such as Europe/Berlin. The booking has none yet.")
            .required(),
    };
    let agreed = Field::new("/agreedBy", "Who agreed?", Kind::Choices(&sides))
        .about("The organizer and the talent must both have agreed.")
        .required();
    let main = html! {
        p.back { a href=(user.link(&format!("/bookings/{id}"))) { "← Back to the booking" } }
        div.title { h1 { "Reschedule: " (title(&booking)) } }
        (draft.alert(&NAMES))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/reschedule"))) {
            p { "The event is on " (time(booking.event_date)) @if let Some(zone) = &booking.time_zone { " (" (zone) ")" } ". " }
            (draft.field(&date)) (draft.field(&zone)) (draft.field(&agreed))
            p.soft { "The schedule of cancellations is made anew from the same policy, and written to the ledger." }
            (draft.once())
            button.first { "Reschedule" }
        }
    };
    Ok(Page::new(Part::Bookings, "Reschedule a booking", main).form(refused))
}
