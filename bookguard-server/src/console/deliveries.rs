//! Events and their deliveries: what was sent, what was answered, and sending it again.

pub(super) mod recover;

use std::cmp::Reverse;

use bookguard_core::error::Error;
use bookguard_core::features::attempts::AttemptRecord;
use bookguard_core::features::events::log::{EventLog, ListEvents};
use bookguard_core::features::events::{EventWithAttempts, GetEvent, RetryEvent, RetryStatus};
use bookguard_core::limits::EVENTS_EXAMINED;
use bookguard_core::model::{DeliveryProgress, DeliveryStatus, Event, EventType, Scope, Timestamp};
use maud::{Markup, html};

use super::form::{self, choices};
use super::parts::{
    Tone, alert, badge, button, copyable, counted, delivery_badge, empty, fact, grouped, next_page,
    nothing_yet, records, time, words,
};
use super::{Answer, Asked, Field, Fields, Kind, Page, Part, User};

/// Rows of a page.
const ROWS: &str = "100";
/// How many that failed come before the others.
pub(super) const FAILED: &str = "5";
const HEADS: [&str; 5] = ["Event", "Happened", "State", "Endpoints", "Last answer"];
/// Where the list is.
pub(super) const PATH: &str = "/deliveries";
/// The fields of the filter.
const FILTER: [&str; 2] = ["status", "type"];

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let fields = &asked.fields;
    let text = |name| fields.get(name).unwrap_or_default();
    let of = |before, status, limit| {
        [
            ("before", before),
            ("status", status),
            ("type", text("type")),
            ("bookingId", text("bookingId")),
            ("limit", limit),
        ]
    };
    let before = fields.get("before").unwrap_or("latest");
    let query = of(before, text("status"), ROWS);
    let (log, asked) = form::filtered(asked, user.read::<ListEvents>(&[], &query).await)?;
    // They come first, however many others have happened since.
    let is_first = text("status").is_empty() && fields.get("before").is_none();
    let failed = match is_first && asked.refused.is_none() {
        true => {
            let query = of("latest", "failed", FAILED);
            Some(user.read::<ListEvents>(&[], &query).await?)
        }
        false => None,
    };
    let shown = [failed.as_ref(), log.as_ref()].into_iter().flatten();
    let shown = shown.flat_map(|log| &log.data);
    let recover = recover::address(text("status"), shown, asked.now);
    let main = html! {
        div.title {
            h1 { "Deliveries" }
            @if user.may(Scope::WebhooksWrite) { a.button href=(user.link(&recover)) { "Send many again" } }
        }
        (filter(user, &asked))
        @if let Some(log) = &log { (found(user, fields, failed.as_ref(), log)) }
    };
    Ok(Page::new(Part::Deliveries, "Deliveries", main).form(&asked))
}

/// The filter, with its refusal.
pub(super) fn filter(user: &User, asked: &Asked) -> Markup {
    let draft = asked.draft();
    let types = EventType::WORDS.iter();
    let types = types.map(|(word, _)| (*word, (*word).to_owned()));
    let state = Kind::Choice(choices(DeliveryStatus::WORDS));
    html! {
        (draft.alert_of_filter(&FILTER))
        form.filter role="search" action=(user.link(PATH)) {
            (draft.field(&Field::new("status", "State", state).none("Any").plain()))
            (draft.field(&Field::new("type", "Type of event", Kind::Choice(types.collect())).none("Any").plain()))
            button.first { "Show" }
        }
    }
}

fn found(user: &User, fields: &Fields, first: Option<&EventLog>, log: &EventLog) -> Markup {
    let failed = first.map_or(&[][..], |first| &first.data);
    let is_shown = |event: &Event| failed.iter().any(|first| first.event_id == event.event_id);
    let others = log.data.iter().filter(|event| !is_shown(event));
    let rows: Vec<Markup> = others.map(|event| line(user, event)).collect();
    let next = log
        .next_before
        .map(|seq| seq.to_string())
        .filter(|_| log.has_more);
    let failed_rows: Vec<Markup> = failed.iter().map(|event| line(user, event)).collect();
    html! {
        @if let Some(first) = first { (failed_first(first.has_more, &HEADS, &all_failed(user, fields), failed_rows)) }
        @if !rows.is_empty() {
            (others_of(!failed.is_empty(), "Events", &HEADS, rows))
        } @else if next.is_some() {
            (nothing_yet("events"))
        } @else if failed.is_empty() {
            (none(user, fields, "Every booking, protection and cancellation makes an event, and each endpoint receives it."))
        }
        (next_page(user, PATH, fields, "before", next.as_deref(), "Older events"))
    }
}

/// What a list without events shows: how one is made, or the way to all if it has a filter.
pub(super) fn none(user: &User, fields: &Fields, how: &str) -> Markup {
    let all = user.link(PATH);
    match fields.query().is_empty() {
        true => empty("There are no events yet.", how),
        false => empty(
            "No event matches.",
            html! { a href=(all) { "Show all events" } },
        ),
    }
}

/// The address of all events that failed, with the rest of the filter.
pub(super) fn all_failed(user: &User, fields: &Fields) -> String {
    let all = fields.with("status", "failed").query();
    user.link(&format!("{PATH}{all}"))
}

/// These events, below those that failed if there are any.
pub(super) fn others_of(
    have_failed: bool,
    things: &str,
    heads: &[&str],
    rows: Vec<Markup>,
) -> Markup {
    html! {
        section.card {
            // The newest few that failed stand above. Older ones are here, in their place.
            @if have_failed { h2 { "Other events, in any state" } (records("Other events in any state, newest first", heads, rows)) }
            @else { (records(&format!("{things}, newest first"), heads, rows)) }
        }
    }
}

/// The newest events that failed, with the address of all of them. An older one is not found at once; if there may be one, the
/// page says so.
pub(super) fn failed_first(has_more: bool, heads: &[&str], all: &str, rows: Vec<Markup>) -> Markup {
    if rows.is_empty() && !has_more {
        return html! {};
    }
    html! {
        section.card aria-labelledby="failed" {
            h2 #failed { "Newest failed events" }
            @if rows.is_empty() { p { "None among the newest " (grouped(&EVENTS_EXAMINED.to_string())) " events." } }
            @else { (records("Failed events, newest first", heads, rows)) }
            p { a href=(all) { "All failed events" } }
        }
    }
}

/// The last answer, or why there was none, of an endpoint whose delivery has the event's own status.
fn last_answer(event: &Event) -> Markup {
    let mut telling = event
        .deliveries
        .iter()
        .filter(|delivery| delivery.status == event.status);
    let last = telling.find_map(|delivery| {
        delivery
            .last_error
            .clone()
            .or_else(|| delivery.last_status_code.map(|status| status.to_string()))
    });
    html! { @if let Some(last) = last { (words(&last)) } }
}

fn line(user: &User, event: &Event) -> Markup {
    html! {
        td { a href=(user.link(&format!("{PATH}/{}", event.event_id))) { (event.event_type.word()) } small { "No. " (event.seq) } }
        (cells(event))
    }
}

/// When an event happened, and what became of it.
pub(super) fn cells(event: &Event) -> Markup {
    html! {
        td { (time(event.timestamp)) }
        td {
            (delivery_badge(event.status))
            @if let Some(next) = next(event.status, event.progress(), event.next_attempt_at) { small { (next) } }
        }
        td { @for delivery in &event.deliveries { span.id { (delivery.url) } } }
        td data-head="last answer:" { (last_answer(event)) }
    }
}

/// What happens next with what was not accepted yet.
fn next(
    status: DeliveryStatus,
    progress: Option<DeliveryProgress>,
    at: Option<Timestamp>,
) -> Option<Markup> {
    match at {
        Some(at) => Some(html! { "again " (time(at)) }),
        None => progress?.in_words(status).map(|words| html! { (words) }),
    }
}

pub(super) async fn show(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let EventWithAttempts {
        event,
        attempts,
        body,
    } = user.read::<GetEvent>(&[id], &[]).await?;
    let attempts = newest_first(attempts);
    let rows = attempts.iter().map(|attempt| tried(&event, attempt));
    let is_open = event.status != DeliveryStatus::Delivered;
    let main = html! {
        p.back { a href=(user.link(PATH)) { "← All deliveries" } }
        div.title data-refreshed { h1 { (event.event_type.word()) } (delivery_badge(event.status)) }
        (alert(asked))
        div.actions data-refreshed {
            @if is_open && event.pruned_at.is_none() && user.may(Scope::WebhooksWrite) {
                (button(user, &format!("/deliveries/{id}/retry"), "Send it again now", "first"))
            }
        }
        div data-refreshed {
            section.card aria-label="The event" {
                dl {
                    (fact("Happened", time(event.timestamp)))
                    @if let Some(booking) = event.booking_id {
                        (fact("Booking", html! {
                            @if user.may(Scope::BookingsRead) { a href=(user.link(&format!("/bookings/{booking}"))) { (booking) } } @else { (booking) }
                        }))
                    }
                    (fact("Number", event.seq))
                    (fact("Id", copyable(id)))
                }
            }
            section.card aria-labelledby="endpoints" {
                h2 #endpoints { "Endpoints" }
                @if event.deliveries.is_empty() { p { "No endpoint took this type of event when it happened." } }
                @for delivery in &event.deliveries {
                    p {
                        (delivery_badge(delivery.status)) " "
                        a href=(user.link(&format!("/endpoints/{}", delivery.endpoint_id))) { (delivery.url) }
                        span.soft { " · " (counted(delivery.attempts.into(), "attempt")) }
                        @if let Some(next) = next(delivery.status, delivery.progress, delivery.next_attempt_at) { span.soft { " · " (next) } }
                    }
                }
                @if is_moving(&event) { p.soft data-refresh { "This page updates itself." } }
            }
            @if !attempts.is_empty() {
                section.card aria-labelledby="attempts" {
                    h2 #attempts { "Attempts, newest first" }
                    (records("Attempts to deliver the event", &["Began", "Came to", "Answer"], rows))
                }
            }
        }
        section.card aria-labelledby="body" {
            h2 #body { "What is sent" }
            @if let Some(at) = event.pruned_at { p { "Its content was deleted, because it was too old or its booking's data were erased: " (time(at)) "." } }
            @else {
                @if let Some(signature) = &event.signature { p { code { "x-service-signature: " (signature) } } }
                p { "The signature is over exactly this body. An endpoint with a secret of its own gets one made with that secret." }
                @if let Some(body) = &body { pre tabindex="0" { (body) } }
            }
        }
    };
    let title = format!("Event {}", event.event_type.word());
    Ok(Page::new(Part::Deliveries, title, main).form(asked))
}

/// Whether the page may soon show something else: the first attempt has not ended, or one is under way.
fn is_moving(event: &Event) -> bool {
    let is_under_way = |progress: DeliveryProgress| progress == DeliveryProgress::UnderWay;
    event.status == DeliveryStatus::Pending || event.progress().is_some_and(is_under_way)
}

/// The attempts, which come by endpoint, in the order of time.
fn newest_first(mut attempts: Vec<AttemptRecord>) -> Vec<AttemptRecord> {
    attempts.sort_by_key(|attempt| Reverse((attempt.started_at, attempt.number)));
    attempts
}

/// An attempt, and what the receiver answered.
fn tried(event: &Event, attempt: &AttemptRecord) -> Markup {
    let delivery = event
        .deliveries
        .iter()
        .find(|delivery| delivery.endpoint_id == attempt.endpoint_id);
    let of_delivery = delivery.map(|delivery| &delivery.url);
    let url = attempt.url.as_ref().or(of_delivery);
    html! {
        td { (time(attempt.started_at)) small { (grouped(&attempt.duration_ms.to_string())) " ms" @if let Some(url) = url { ", " (url) } } }
        td { (outcome(attempt)) }
        td data-head="answer:" { (answer(attempt)) }
    }
}

/// What an attempt came to.
pub(super) fn outcome(attempt: &AttemptRecord) -> Markup {
    let failed = attempt.error.map(|class| words(&class.to_string()));
    let failed = failed.as_deref().unwrap_or("Failed");
    let detail = attempt.detail.as_deref();
    let detail = detail.filter(|detail| !detail.starts_with(failed));
    html! {
        @if attempt.delivered { (badge(Tone::Good, "Accepted")) } @else { (badge(Tone::Bad, failed)) }
        @if let Some(status) = attempt.status_code { " " (status) }
        @if let Some(detail) = detail { " " small { (detail) } }
    }
}

/// What the receiver answered.
pub(super) fn answer(attempt: &AttemptRecord) -> Markup {
    html! {
        @if attempt.response_head.is_empty() { span.soft { "nothing" } }
        @else { details { summary { (grouped(&attempt.response_len.to_string())) " bytes" } pre { (attempt.response_head) } } }
    }
}

pub(super) async fn retry(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let (tone, told) = match user.send::<RetryEvent>(asked).await?.retry_status {
        RetryStatus::Delivered => (Tone::Good, "The event was sent again, and accepted."),
        RetryStatus::Failed => (
            Tone::Bad,
            "The event was sent again, and not accepted. The newest attempt says why.",
        ),
        RetryStatus::Pending => (
            Tone::Good,
            "The event is being sent again. The outcome appears here.",
        ),
    };
    Ok(Answer::told(format!("{PATH}/{}", asked.id(0)), tone, told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(status: &str, deliveries: &[&Value]) -> Event {
        let deliveries = deliveries.iter().map(|delivery| {
            let mut delivery = (*delivery).clone();
            delivery["endpointId"] = "end_01a1fc8142fd7527b8919d686c4a1720".into();
            delivery["url"] = "https://example.com/".into();
            delivery["attempts"] = 1.into();
            delivery
        });
        let event = json!({
            "eventId": "evt_01a1fc8142fd7527b8919d686c4a1720", "type": "booking.created", "bookingId": null,
            "timestamp": "2026-10-05T14:13:20.000Z", "status": status, "payload": null, "seq": 1, "retryCount": 0,
            "deliveries": deliveries.collect::<Vec<_>>(),
        });
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn a_page_loads_itself_again_while_an_attempt_is_under_way() {
        let delivery =
            |status: &str, progress: &str| json!({"status": status, "progress": progress});
        let accepted = delivery("delivered", "ended");
        for (status, progress, expected) in [
            ("pending", "scheduled", true),
            ("failed", "under_way", true),
            ("failed", "scheduled", false),
            ("failed", "ended", false),
        ] {
            let other = delivery(status, progress);
            let moving = is_moving(&event(status, &[&accepted, &other]));
            assert_eq!(moving, expected, "{status} {progress}");
        }
    }

    #[test]
    fn the_last_answer_is_of_a_delivery_that_tells_the_state_of_the_event() {
        let delivered = json!({"status": "delivered", "lastStatusCode": 204});
        let failed = json!({"status": "failed", "lastError": "connection_refused"});
        let unanswered = json!({"status": "failed"});
        let table = [
            ("failed", vec![&delivered, &failed], "Connection refused"),
            ("failed", vec![&failed, &delivered], "Connection refused"),
            ("failed", vec![&delivered, &unanswered], ""),
            ("delivered", vec![&delivered], "204"),
            ("pending", vec![], ""),
        ];
        for (status, deliveries, shown) in table {
            let event = event(status, &deliveries);
            assert_eq!(last_answer(&event).into_string(), shown, "{event:?}");
        }
    }

    #[test]
    fn an_attempt_is_told_without_repetition() {
        let mut attempt = json!({
            "endpointId": "end_01a1fc8142fd7527b8919d686c4a1720", "number": 1, "startedAt": "2026-10-05T14:13:20.000Z",
            "durationMs": 0, "delivered": false, "phase": "connect", "error": "connection_refused",
            "detail": "Connection refused (os error 111)", "responseHead": "", "responseLen": 0,
        });
        let shown = |attempt: &Value| {
            let attempt: AttemptRecord = serde_json::from_value(attempt.clone()).unwrap();
            outcome(&attempt).into_string()
        };
        let refused = r#"<span class="badge bad">Connection refused</span>"#;
        assert_eq!(shown(&attempt), refused);
        attempt["detail"] = "the port is closed".into();
        let with_detail = format!("{refused} <small>the port is closed</small>");
        assert_eq!(shown(&attempt), with_detail);
    }

    #[test]
    fn attempts_at_several_endpoints_are_shown_newest_first() {
        let attempt = |endpoint: u8, number: u32, second: u8| {
            let attempt = json!({
                "endpointId": format!("end_01a1fc8142fd7527b8919d686c4a17{endpoint:02}"), "number": number,
                "startedAt": format!("2026-10-05T14:13:{second:02}.000Z"), "durationMs": 0, "delivered": false,
                "phase": "connect", "responseHead": "", "responseLen": 0,
            });
            serde_json::from_value::<AttemptRecord>(attempt).unwrap()
        };
        let attempts = vec![
            attempt(1, 1, 10),
            attempt(1, 2, 15),
            attempt(1, 3, 40),
            attempt(2, 1, 11),
            attempt(2, 2, 15),
        ];
        let shown = newest_first(attempts);
        let shown = shown.iter().map(|attempt| attempt.started_at);
        assert!(shown.rev().is_sorted(), "the oldest is the last");
    }

    #[test]
    fn a_search_for_failures_that_left_out_old_events_says_so() {
        let shown = |has_more, rows| failed_first(has_more, &HEADS, "/all", rows).into_string();
        assert_eq!(shown(false, Vec::new()), "");
        let none = shown(true, Vec::new());
        assert!(
            none.contains("None among the newest 10,000 events."),
            "{none}"
        );
        let some = shown(true, vec![html! { td { "one" } }]);
        assert!(
            some.contains(">one</td>") && !some.contains("None"),
            "{some}"
        );
        for html in [none, some] {
            assert!(
                html.contains(r#"<a href="/all">All failed events</a>"#),
                "{html}"
            );
        }
    }
}
