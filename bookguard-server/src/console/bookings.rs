//! The list of bookings, with its search.

use bookguard_core::error::{Error, Kind as ErrorKind};
use bookguard_core::features::bookings::{GetBooking, ListBookings};
use bookguard_core::model::{Booking, BookingId, BookingStatus, Page as Rows, Timestamp};
use maud::{Markup, html};

use super::form::{self, choices};
use super::parts::{
    booking_badge, empty, event_time, next_page, nothing_yet, price, records, time,
};
use super::{Answer, Asked, Field, Fields, Kind, Page, Part, User};

/// Rows of a page.
const ROWS: &str = "100";
/// The filter, with the names of the operation's parameters.
const FILTER: [&str; 4] = ["search", "status", "eventFrom", "eventTo"];

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let fields = &asked.fields;
    // A whole id names its booking, so nothing needs to be searched.
    if let Some(booking_id) = fields.get("search").and_then(BookingId::parse) {
        let id = booking_id.to_string();
        match user.read::<GetBooking>(&[&id], &[]).await {
            Ok(_) => return Ok(Answer::Go(format!("/bookings/{id}"), None)),
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let (from, to) = (day(fields, "eventFrom"), day(fields, "eventTo"));
    let text = |name| fields.get(name).unwrap_or_default();
    let query = [
        ("search", text("search")),
        ("status", text("status")),
        ("eventFrom", &from),
        ("eventTo", &to),
        ("cursor", text("cursor")),
        ("limit", ROWS),
    ];
    let (rows, asked) = form::filtered(asked, user.read::<ListBookings>(&[], &query).await)?;
    let main = html! {
        div.title { h1 { "Bookings" } }
        (filter(user, &asked))
        @if let Some(rows) = &rows { (found_rows(user, fields, rows)) }
    };
    Ok(Page::new(Part::Bookings, "Bookings", main).form(&asked))
}

/// A day that was typed, as the instant at which it begins; anything else as it was typed, for the operation to judge.
fn day(fields: &Fields, name: &str) -> String {
    let text = fields.get(name).unwrap_or_default();
    let instant = format!("{text}T00:00:00Z");
    match Timestamp::parse(&instant) {
        Some(_) => instant,
        None => text.to_owned(),
    }
}

fn filter(user: &User, asked: &Asked) -> Markup {
    let draft = asked.draft();
    let statuses = choices(BookingStatus::WORDS);
    html! {
        (draft.alert_of_filter(&FILTER))
        form.filter role="search" action=(user.link("/bookings")) {
            (draft.field(&Field::new("search", "Search", Kind::Search).plain()))
            (draft.field(&Field::new("status", "Status", Kind::Choice(statuses)).none("Any").plain()))
            (draft.field(&Field::new("eventFrom", "Event from", Kind::Day).plain()))
            (draft.field(&Field::new("eventTo", "Event before", Kind::Day).plain()))
            button.first { "Search" }
        }
        p.soft { "Searches ids, names, the type of the event and " (user.told("your own", "the partner's")) " references (metadata). Case does not matter; accents do. A day of an event begins at midnight in UTC." }
    }
}

fn found_rows(user: &User, fields: &Fields, rows: &Rows<Booking>) -> Markup {
    let next = rows.next_cursor.as_deref();
    let more = match rows.data.is_empty() {
        true => "Search older bookings",
        false => "Older bookings",
    };
    let lines = rows.data.iter().map(|booking| line(user, booking));
    html! {
        @if !rows.data.is_empty() {
            section.card { (records("Bookings", &["Event", "Talent", "Organizer", "#Value", "Status", "Recorded"], lines)) }
        } @else if next.is_some() {
            (nothing_yet("bookings"))
        } @else if FILTER.iter().any(|name| fields.get(name).is_some()) {
            (empty("No booking matches.", html! { a href=(user.link("/bookings")) { "Show all bookings" } }))
        } @else {
            (empty("There are no bookings yet.", html! {
                "Record the first one with " code { "POST /v1/bookings" } " or " code { "bookguard bookings create" } "; "
                @if let Some(docs) = user.docs() { a href=(docs) { "the interface" } } @else { "the interface" } " shows how."
            }))
        }
        (next_page(user, "/bookings", fields, "cursor", next, more))
    }
}

fn line(user: &User, booking: &Booking) -> Markup {
    let id = booking.booking_id.to_string();
    html! {
        td {
            a href=(user.link(&format!("/bookings/{id}"))) { (booking.event_type) }
            small { (event_time(booking)) }
        }
        td { (booking.talent.name) small { (booking.talent.id) } }
        td { (booking.organizer.name) small { (booking.organizer.id) } }
        td.amount { (price(&booking.booking_value, booking.currency)) }
        td { (booking_badge(booking.status)) }
        td { (time(booking.created_at)) small.id { (id) } }
    }
}
