//! Moving a booking's event to another date: what that comes to first, then the change of just that.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::reschedules::{RescheduleBooking, Rescheduled};
use bookguard_core::model::{Amount, Booking, BookingStatus, Timestamp};
use bookguard_core::policy::{EventDate, Zone};
use maud::{Markup, html};

use super::{CANCELED, done, head, over};
use crate::console::form::{Act, Outcome, Preview};
use crate::console::parts::{event_time, event_time_at, fact, hidden, words, zone_of};
use crate::console::schedule::schedule;
use crate::console::{Answer, Asked, Draft, Field, Kind, Page, Part, User};

const NAMES: [&str; 3] = ["/eventDate", "/timeZone", "/agreedBy"];

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

/// Shows what a new date comes to when asked for that, and moves the event when asked to move it.
pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    if Preview::is_to_change(asked) {
        return page(user, asked, None).await;
    }
    let moved = user.send::<RescheduleBooking>(asked).await?;
    if moved.dry_run {
        return page(user, asked, Some(&moved)).await;
    }
    let told = "The event has another date now; the earlier one stays in the ledger.";
    Ok(done(asked, told))
}

async fn page(user: &User, asked: &Asked, would: Option<&Rescheduled>) -> Result<Answer, Error> {
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
    let now = typed_now(&booking);
    let date = Field::new("/eventDate", "New date and time", Kind::Local)
        .about("In the local time of the place.")
        .value(&now)
        .required();
    let agreed = Field::new("/agreedBy", "Who agreed?", sides)
        .about("The organizer and the talent must both have agreed.")
        .required();
    let fields = [date, zone, agreed];
    let (title, head) = ("Reschedule a booking", head(user, &booking, "Reschedule: "));
    if booking.status == BookingStatus::Canceled {
        return Ok(over(asked, CANCELED, title, &head, &fields));
    }
    let form = Preview {
        address: &user.link(&format!("/bookings/{id}/reschedule")),
        heading: "1. The new date, and who agreed",
        fields: &fields,
        names: &NAMES,
    };
    let about = html! {
        p { "The event is on " (event_time(&booking)) @if let Some(zone) = &booking.time_zone { " (" (zone) ")" } "." }
        (hidden("/dryRun", "true"))
    };
    let main = html! {
        (head)
        (draft.alert(&NAMES))
        div.narrow {
            @if would.is_some() || draft.kept_key().is_some() {
                (form.show(&draft, &outcome(&draft, &booking, would, asked.now)))
            } @else {
                (form.ask(&draft, &about, "Show what it comes to"))
            }
        }
    };
    Ok(Page::new(Part::Bookings, title, main).form(asked))
}

/// When the event starts, as somebody would type it there; empty if nobody said where that is.
fn typed_now(booking: &Booking) -> String {
    let zone = booking.time_zone.as_deref().and_then(Zone::iana);
    let local = zone.map(|zone| zone.to_local(booking.event_date));
    local.map_or_else(String::new, |local| {
        local.format("%Y-%m-%dT%H:%M").to_string()
    })
}

/// The change that would be recorded, and the button that records it. On a second try, what it comes to is no longer known.
fn outcome(
    draft: &Draft<'_>,
    booking: &Booking,
    would: Option<&Rescheduled>,
    now: Timestamp,
) -> Outcome<'static> {
    // With the zone that is shown, the date stays the one that is shown, whatever zone the booking gets meanwhile.
    let zone = match would {
        Some(would) => would.time_zone.as_deref(),
        None => draft.fields.get("/timeZone"),
    };
    Outcome {
        heading: "2. What it comes to",
        shown: html! {
            @if let Some(would) = would { (result(draft, booking, would, now)) } @else { p { "What you were shown before." } }
            p { strong { "This cannot be undone." } " The new date and the new schedule are written to the ledger, beside the earlier ones." }
        },
        act: Some(Act {
            names: &["/eventDate", "/agreedBy"],
            beside: html! { @if let Some(zone) = zone { (hidden("/timeZone", zone)) } },
            class: "danger",
            label: "Reschedule",
        }),
    }
}

/// When the event would start, and what a cancellation would cost from then on.
fn result(draft: &Draft<'_>, booking: &Booking, would: &Rescheduled, now: Timestamp) -> Markup {
    let zone = would.time_zone.as_deref();
    let typed = draft.fields.get("/eventDate").unwrap_or_default();
    let value = booking.value().map_or(0, Amount::minor);
    html! {
        dl {
            (fact("Until now", event_time(booking)))
            (fact("From now on", event_time_at(would.event_date, zone)))
            @if let Some(zone) = zone { (fact("Time zone", zone)) }
        }
        @if is_skipped(typed, zone, would.event_date) {
            p.alert.warn { "The clocks there are put forward past the time that you typed. The event starts at the one shown above." }
        }
        @if !would.schedule.is_empty() {
            h3 { "If the organizer cancels" }
            p.soft { "Made anew from the same policy." }
            (schedule(&would.schedule, value, zone_of(zone), now, None))
        }
    }
}

/// Whether no clock in the zone ever shows the local time that was typed, so that the event starts at another.
fn is_skipped(typed: &str, time_zone: Option<&str>, at: Timestamp) -> bool {
    let zone = time_zone.and_then(Zone::iana);
    match (EventDate::parse(typed), zone) {
        (Some(EventDate::Local(local)), Some(zone)) => zone.to_local(at) != local,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_time_that_the_clocks_skip_is_told() {
        for (typed, zone, at, expected) in [
            (
                "2027-03-14T02:30",
                Some("America/New_York"),
                "2027-03-14T07:30:00Z",
                true,
            ),
            (
                "2027-03-14T03:30",
                Some("America/New_York"),
                "2027-03-14T07:30:00Z",
                false,
            ),
            // Shown twice: the earlier one counts.
            (
                "2027-11-07T01:30:15",
                Some("America/New_York"),
                "2027-11-07T05:30:15Z",
                false,
            ),
            (
                "2027-03-14T02:30:00-05:00",
                Some("America/New_York"),
                "2027-03-14T07:30:00Z",
                false,
            ),
            ("2027-03-14T02:30", None, "2027-03-14T02:30:00Z", false),
        ] {
            let at = Timestamp::parse(at).unwrap();
            assert_eq!(is_skipped(typed, zone, at), expected, "{typed}");
        }
    }
}
