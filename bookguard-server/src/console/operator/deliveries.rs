//! Events and their deliveries, of all partners.

use bookguard_core::error::Error;
use bookguard_core::features::events::log::ListAllEvents;
use bookguard_core::model::Event;
use maud::{Markup, html};

use super::{Names, about, names_of, partner_link};
use crate::console::deliveries::{PATH, cells, filter, none};
use crate::console::parts::{next_page, nothing_yet, records};
use crate::console::{Answer, Asked, Page, Part, User, form};

/// Rows of a page.
const ROWS: &str = "100";

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let fields = &asked.fields;
    let text = |name| fields.get(name).unwrap_or_default();
    let query = [
        ("status", text("status")),
        ("type", text("type")),
        ("cursor", text("cursor")),
        ("limit", ROWS),
    ];
    let (found, asked) = form::filtered(asked, user.read::<ListAllEvents>(&[], &query).await)?;
    let events = found.as_ref().map_or(&[][..], |found| &found.data);
    let names = names_of(user, events.iter().filter_map(|event| event.partner_id)).await?;
    let rows = events.iter().map(|event| line(user, &names, event));
    let next = found
        .as_ref()
        .and_then(|found| found.next_cursor.as_deref());
    let main = html! {
        div.title { h1 { "Deliveries" } }
        (filter(user, &asked))
        @if !events.is_empty() {
            section.card { (records("Events of all partners, newest first", &["Event", "Partner", "Happened", "State", "Endpoints", "Last answer"], rows)) }
        } @else if next.is_some() {
            (nothing_yet("events"))
        } @else if found.is_some() {
            (none(user, fields, "Every booking, protection and cancellation makes an event."))
        }
        (next_page(user, PATH, fields, "cursor", next, "Older events"))
    };
    Ok(Page::new(Part::Deliveries, "Deliveries", main).form(&asked))
}

fn line(user: &User, names: &Names, event: &Event) -> Markup {
    let place = event
        .partner_id
        .map(|id| format!("{}/deliveries/{}", about(&id), event.event_id));
    html! {
        td {
            @if let Some(place) = &place { a href=(user.link(place)) { (event.event_type.word()) } }
            small { "No. " (event.seq) }
        }
        td { @if let Some(id) = &event.partner_id { (partner_link(user, names, id)) } }
        (cells(event))
    }
}
