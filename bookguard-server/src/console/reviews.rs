//! Cancellations: those that wait for a person's decision, and what the others came to.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::ListResolutions;
use bookguard_core::model::{Booking, Scope, Timestamp};
use bookguard_core::policy::{Resolution, ResolutionStatus};
use maud::{Markup, html};

use super::booking::title;
use super::form::{self, labelled};
use super::parts::{
    Tone, ago, badge, empty, event_time, next_page, nothing_yet, price, records, words,
};
use super::schedule::sum;
use super::{Answer, Asked, Field, Kind, Page, Part, User};

/// Rows of a page. The booking of each is read, so there are fewer than in other lists.
const ROWS: &str = "25";
/// What the filter holds unless something else was chosen.
const WAITING: &str = "pending_review";
const STATUSES: [(&str, &str); 4] = [
    (WAITING, "Wait for a decision"),
    ("decided", "Decided by a person"),
    ("final", "Settled by the policy"),
    ("all", "All"),
];

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let fields = &asked.fields;
    let chosen = fields.get("status").unwrap_or(WAITING);
    let status = if chosen == "all" { "" } else { chosen };
    let cursor = fields.get("cursor").unwrap_or_default();
    let query = [("status", status), ("cursor", cursor), ("limit", ROWS)];
    let found = user.read::<ListResolutions>(&[], &query).await;
    let (found, asked) = form::filtered(asked, found)?;
    let mut rows = Vec::new();
    for resolution in found.as_ref().map_or(&[][..], |found| &found.data) {
        let id = resolution.booking_id.to_string();
        let booking = user.read::<GetBooking>(&[&id], &[]).await?;
        rows.push(line(user, resolution, &booking, asked.now));
    }
    let next = found
        .as_ref()
        .and_then(|found| found.next_cursor.as_deref());
    let main = html! {
        div.title { h1 { "Reviews" } }
        p.lead { "Cancellations that the policy leaves to a person. A booking stays canceled while it waits; what goes back is open until \
            somebody decides." }
        (filter(user, &asked))
        @if !rows.is_empty() {
            section.card { (records("Cancellations, the newest booking first", &["Booking", "Canceled by", "#Value", "#Goes back", "State"], rows)) }
        } @else if next.is_some() {
            (nothing_yet("cancellations"))
        } @else if asked.refused.is_some() {} @else if chosen == WAITING {
            (empty("No cancellation waits for a decision.", "If a policy cannot settle a cancellation by itself, it appears here."))
        } @else {
            (empty("No cancellation matches.", html! { a href=(user.link("/reviews?status=all")) { "Show all cancellations" } }))
        }
        (next_page(user, "/reviews", fields, "cursor", next, "Older cancellations"))
    };
    Ok(Page::new(Part::Reviews, "Reviews", main).form(&asked))
}

fn filter(user: &User, asked: &Asked) -> Markup {
    let draft = asked.draft();
    let state = Field::new("status", "State", Kind::Choice(labelled(&STATUSES))).value(WAITING);
    html! {
        (draft.alert_of_filter(&["status"]))
        form.filter role="search" action=(user.link("/reviews")) {
            (draft.field(&state.required()))
            button.first { "Show" }
        }
    }
}

fn line(user: &User, resolution: &Resolution, booking: &Booking, now: Timestamp) -> Markup {
    let is_open = resolution.status == ResolutionStatus::PendingReview;
    let may_decide = is_open && user.may(Scope::BookingsWrite);
    let page = if may_decide { "/decide" } else { "" };
    let value = price(&booking.booking_value, booking.currency);
    html! {
        td {
            a href=(user.link(&format!("/bookings/{}{page}", booking.booking_id))) { (title(booking)) }
            small { (event_time(booking)) }
        }
        td {
            (words(resolution.canceled_by.word()))
            small { @if let Some(reason) = resolution.reason { (words(reason.word())) ", " } (ago(resolution.canceled_at, now)) }
        }
        td.amount { (value) }
        td.amount data-head="goes back:" { @if is_open { span.soft { "open" } } @else { (sum(resolution.evaluation.refund)) } }
        td { (state(resolution)) }
    }
}

fn state(resolution: &Resolution) -> Markup {
    match resolution.status {
        ResolutionStatus::PendingReview => badge(Tone::Warn, "Waits for a decision"),
        ResolutionStatus::Decided => html! {
            (badge(Tone::Good, "Decided"))
            @if let Some(decision) = &resolution.decision { small { "by " (decision.decided_by) } }
        },
        ResolutionStatus::Final => badge(Tone::Calm, "Settled"),
    }
}
