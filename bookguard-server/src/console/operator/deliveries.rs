//! Events and their deliveries, of all partners.

use bookguard_core::error::Error;
use bookguard_core::features::events::log::ListAllEvents;
use bookguard_core::model::{DeliveryStatus, Event, EventType};
use maud::{Markup, html};

use super::{Names, about, names_of, partner_link};
use crate::console::deliveries::{FILTER, last_answer};
use crate::console::form::{self, Field, Kind};
use crate::console::parts::{delivery_badge, empty, next_page, records, time, words};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

/// Rows of a page.
const ROWS: &str = "100";
const PATH: &str = "/deliveries";

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let fields = &asked.fields;
    let text = |name| fields.get(name).unwrap_or_default();
    let query = [
        ("status", text("status")),
        ("type", text("type")),
        ("cursor", text("cursor")),
        ("limit", ROWS),
    ];
    let (found, refused) = form::filtered(user.read::<ListAllEvents>(&[], &query).await)?;
    let statuses: Vec<_> = DeliveryStatus::WORDS
        .iter()
        .map(|(word, _)| (*word, words(word)))
        .collect();
    let types: Vec<_> = EventType::WORDS
        .iter()
        .map(|(word, _)| (*word, (*word).to_owned()))
        .collect();
    let draft = asked.draft(refused.as_ref());
    let events = found.as_ref().map_or(&[][..], |found| &found.data);
    let names = names_of(user, events.iter().filter_map(|event| event.partner_id)).await?;
    let rows: Vec<Markup> = events
        .iter()
        .map(|event| line(user, &names, event))
        .collect();
    let next = found
        .as_ref()
        .and_then(|found| found.next_cursor.as_deref());
    let main = html! {
        div.title { h1 { "Deliveries" } }
        (draft.alert_of_filter(&FILTER))
        form.filter role="search" action=(user.link(PATH)) {
            (draft.field(&Field::new("status", "State", Kind::Choice(&statuses)).plain()))
            (draft.field(&Field::new("type", "Type of event", Kind::Choice(&types)).plain()))
            button.first { "Show" }
        }
        @if !rows.is_empty() {
            section.card { (records("Events of all partners, newest first", &["Event", "Partner", "Happened", "State", "Endpoints", "Last answer"], &rows)) }
        } @else if next.is_some() {
            (empty("Nothing found among the newest events.", "A search covers one part at a time: go on to search older ones."))
        } @else if found.is_some() {
            (empty("No event matches.", "Every booking, protection and cancellation makes an event."))
        }
        (next_page(user, PATH, fields, "cursor", next, "Older events"))
    };
    Ok(Page::new(Part::Deliveries, "Deliveries", main).form(refused.as_ref()))
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
        td { (time(event.timestamp)) }
        td { (delivery_badge(event.status)) @if let Some(at) = event.next_attempt_at { small { "again " (time(at)) } } }
        td { @for delivery in &event.deliveries { span.id { (delivery.url) } } }
        td { (last_answer(event)) }
    }
}
