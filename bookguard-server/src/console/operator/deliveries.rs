//! Events and their deliveries, of all partners.

use bookguard_core::error::Error;
use bookguard_core::features::events::log::ListAllEvents;
use bookguard_core::model::Event;
use maud::{Markup, html};

use super::{Names, about, names_of, partner_link};
use crate::console::deliveries::{
    FAILED, PATH, all_failed, cells, failed_first, filter, none, others_of,
};
use crate::console::parts::{next_page, nothing_yet};
use crate::console::{Answer, Asked, Page, Part, User, form};

/// Rows of a page.
const ROWS: &str = "100";
const HEADS: [&str; 6] = [
    "Event",
    "Partner",
    "Happened",
    "State",
    "Endpoints",
    "Last answer",
];

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let fields = &asked.fields;
    let text = |name| fields.get(name).unwrap_or_default();
    let of = |status, cursor, limit| {
        [
            ("status", status),
            ("type", text("type")),
            ("cursor", cursor),
            ("limit", limit),
        ]
    };
    let query = of(text("status"), text("cursor"), ROWS);
    let (found, asked) = form::filtered(asked, user.read::<ListAllEvents>(&[], &query).await)?;
    // They come first, however many others have happened since.
    let is_first = text("status").is_empty() && text("cursor").is_empty();
    let failed = match is_first && asked.refused.is_none() {
        true => {
            let query = of("failed", "", FAILED);
            Some(user.read::<ListAllEvents>(&[], &query).await?)
        }
        false => None,
    };
    let first = failed.as_ref().map_or(&[][..], |failed| &failed.data);
    let is_shown = |event: &Event| first.iter().any(|first| first.event_id == event.event_id);
    let events = found.as_ref().map_or(&[][..], |found| &found.data);
    let partners = first.iter().chain(events);
    let names = names_of(user, partners.filter_map(|event| event.partner_id)).await?;
    let failed_rows: Vec<Markup> = (first.iter())
        .map(|event| line(user, &names, event))
        .collect();
    let others = events.iter().filter(|event| !is_shown(event));
    let other_rows: Vec<Markup> = others.map(|event| line(user, &names, event)).collect();
    let next = found
        .as_ref()
        .and_then(|found| found.next_cursor.as_deref());
    let main = html! {
        div.title { h1 { "Deliveries" } }
        (filter(user, &asked))
        @if let Some(failed) = &failed { (failed_first(failed.has_more, &HEADS, &all_failed(user, fields), failed_rows)) }
        @if !other_rows.is_empty() {
            (others_of(!first.is_empty(), "Events of all partners", &HEADS, other_rows))
        } @else if next.is_some() {
            (nothing_yet("events"))
        } @else if found.is_some() && first.is_empty() {
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
