//! Moving a booking's event to another date.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::reschedules::RescheduleBooking;
use maud::html;

use super::{done, head};
use crate::console::parts::{time, words};
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

const NAMES: [&str; 3] = ["/eventDate", "/timeZone", "/agreedBy"];

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let sent = user.submit::<RescheduleBooking>(asked).await;
    sent.map_err(as_typed)?;
    let told = "The event has another date now; the earlier one stays in the ledger.";
    Ok(done(asked, told))
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

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let draft = asked.draft();
    let sides = ["organizer", "talent", "partner"].map(|word| (word, words(word)));
    let sides = Kind::Choices(sides.into());
    let zone = match &booking.time_zone {
        Some(_) => Field::new("/timeZone", "New time zone", Kind::Text)
            .about("Such as Europe/Berlin. Stays as it is if left empty."),
        None => Field::new("/timeZone", "Time zone", Kind::Text)
            .about("Such as Europe/Berlin. The booking has none yet.")
            .required(),
    };
    let main = html! {
        (head(user, &booking, "Reschedule: "))
        (draft.alert(&NAMES))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/reschedule"))) {
            p { "The event is on " (time(booking.event_date)) @if let Some(zone) = &booking.time_zone { " (" (zone) ")" } ". " }
            (draft.field(&Field::new("/eventDate", "New date and time", Kind::Local).about("Where the event takes place.").required()))
            (draft.field(&zone))
            (draft.field(&Field::new("/agreedBy", "Who agreed?", sides).about("The organizer and the talent must both have agreed.").required()))
            p.soft { "The schedule of cancellations is made anew from the same policy, and written to the ledger." }
            (draft.once())
            button.first { "Reschedule" }
        }
    };
    Ok(Page::new(Part::Bookings, "Reschedule a booking", main).form(asked))
}
