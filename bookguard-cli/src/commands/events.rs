//! `webhook-events`: lists, reads and retries events. A retry that no endpoint accepts ends with its own exit code.

use bookguard_core::features::attempts::AttemptRecord;
use bookguard_core::features::events::log::{EventLog, ListAllEvents, ListEvents};
use bookguard_core::features::events::{
    EventWithAttempts, GetEvent, RetryEvent, RetryResult, RetryStatus,
};
use bookguard_core::model::{Delivery, DeliveryProgress, DeliveryStatus, Event, Timestamp};
use clap::Args;

use super::declare::{Call, CliCommand, add, carried, group, operation};
use super::{prune, recoveries, tail};
use crate::failure::Failure;
use crate::output::table::{Style, fields, more, or_dash, page_fn, record, record_fn, rows, time};
use crate::target::Purpose;

pub(super) fn commands() -> CliCommand {
    let about = "List the partner's events, oldest first, or newest first with --before; those of all partners, newest first, if an operator names none with --partner";
    let list = of_log("list", about, list).with::<CursorArgs>();
    let about = "Show events as they happen, until stopped; waits for a server that is away";
    let tail = of_log("tail", about, tail::run).flags(|flags| {
        flags.without("wait").without("limit").without("before");
    });
    let about = "Show an event with the attempts to deliver it";
    let get = operation::<GetEvent>("get", about, event);
    let about = "Deliver an event again, now, and wait for the outcome";
    let retry = carried::<RetryEvent>("retry", about, retry);
    let about = "Events of bookings, and whether they were delivered";
    let commands = [
        list,
        tail,
        get,
        retry.purpose(Purpose::Wait),
        recoveries::command(),
        recoveries::commands(),
        prune::command(),
    ];
    group("webhook-events", about, commands)
}

/// A command that reads a partner's log.
fn of_log(
    name: &'static str,
    about: &'static str,
    work: impl AsyncFn(Call<'_>) -> Result<(), Failure> + Copy + 'static,
) -> CliCommand {
    carried::<ListEvents>(name, about, work).flags(|flags| {
        flags.name("bookingId", "booking");
    })
}

/// The most characters of a receiver's answer in a table.
const SAID_CHARS: usize = 80;

#[derive(Debug, Args)]
struct CursorArgs {
    /// The next page of all partners' events: the cursor of the previous page
    #[arg(long, conflicts_with_all = ["after", "before", "booking", "wait"])]
    cursor: Option<String>,
}

async fn list(call: Call<'_>) -> Result<(), Failure> {
    let (screen, target) = (call.screen, call.target());
    let mut request = call.request()?;
    add(&mut request, "cursor", call.args::<CursorArgs>()?.cursor);
    if target.is_for_all() && call.typed("booking").is_none() {
        screen.show(&target.call::<ListAllEvents>(request).await?, of_all)
    } else {
        screen.show(&target.call::<ListEvents>(request).await?, log)
    }
}

async fn retry(call: Call<'_>) -> Result<(), Failure> {
    let answer = call.answer::<RetryEvent>().await?;
    call.screen.show(&answer, retried)?;
    match answer.output.retry_status {
        RetryStatus::Failed => Err(Failure::NotDelivered(format!(
            "The event was not accepted by every endpoint. See why with \"bookguard webhook-events get {}\".",
            answer.output.event_id
        ))),
        _ => Ok(()),
    }
}

/// A page of the log.
fn log(log: &EventLog, style: Style) -> String {
    let text = rows! { style, "events", log.data, event =>
        "NO" => event.seq,
        "EVENT" => event.event_id,
        "TYPE" => event.event_type,
        "STATUS" => event.status,
        "ENDPOINTS" => event.deliveries.len(),
        "RETRIES" => event.retry_count,
        "AT" => event.timestamp,
        "NEXT ATTEMPT" => or_dash(next(event.next_attempt_at, event.status, event.progress())),
    };
    let next = match log.next_before {
        Some(before) => format!("--before {before}"),
        None => format!("--after {}", log.next_after),
    };
    text + &more(log.has_more.then_some(next.as_str()))
}

// A page of all partners' events.
page_fn! { fn of_all(event: &Event), "events" =>
    "PARTNER" => event.partner_id,
    "NO" => event.seq,
    "EVENT" => event.event_id,
    "TYPE" => event.event_type,
    "STATUS" => event.status,
    "RETRIES" => event.retry_count,
    "AT" => event.timestamp,
    "NEXT ATTEMPT" => or_dash(next(event.next_attempt_at, event.status, event.progress())),
}

/// When the next attempt is, or what comes instead; `None` if nothing does.
fn next(
    at: Option<Timestamp>,
    status: DeliveryStatus,
    progress: Option<DeliveryProgress>,
) -> Option<String> {
    match at {
        Some(at) => Some(time(at)),
        None => progress?.in_words(status).map(str::to_owned),
    }
}

/// An event on one line, as it happens.
pub(super) fn happened(event: &Event, style: Style) -> String {
    format!("{}  {}", in_words(event, style), event.status.word())
}

/// An event on one line, without what became of its deliveries.
pub(super) fn in_words(event: &Event, style: Style) -> String {
    format!(
        "{}  {}  {}  {}",
        style.bold(&event.seq.to_string()),
        time(event.timestamp),
        event.event_type.word(),
        or_dash(event.booking_id)
    )
}

/// One event with its attempts.
fn event(answer: &EventWithAttempts, style: Style) -> String {
    let EventWithAttempts {
        event, attempts, ..
    } = answer;
    let whole = event.pruned_at.is_none();
    let fields = fields! {
        "event" => event.event_id,
        "type" => event.event_type,
        "booking" => event.booking_id,
        "number" => event.seq,
        "at" => event.timestamp,
        "status" => event.status,
        "retries" => event.retry_count,
        "next attempt" => next(event.next_attempt_at, event.status, event.progress()),
        "signature" => event.signature,
        "payload" => whole.then(|| event.payload.to_string()),
        "pruned" => event.pruned_at,
        "body SHA-256" => event.body_sha256,
    };
    let mut text = record(style, &fields);
    if !event.deliveries.is_empty() {
        text.push_str("\n\n");
        text.push_str(&rows! { style, "deliveries", event.deliveries, delivery =>
            "ENDPOINT" => delivery.endpoint_id,
            "ADDRESS" => delivery.url,
            "STATUS" => delivery.status,
            "ATTEMPTS" => delivery.attempts,
            "LAST ANSWER" => last_answer(delivery),
            "NEXT ATTEMPT" => or_dash(next(delivery.next_attempt_at, delivery.status, delivery.progress)),
        });
    }
    if !attempts.is_empty() {
        text.push_str("\n\n");
        text.push_str(&rows! { style, "attempts", attempts, attempt =>
            "ENDPOINT" => attempt.endpoint_id,
            "NO" => attempt.number,
            "AT" => attempt.started_at,
            "TOOK" => format!("{} ms", attempt.duration_ms),
            "STATUS" => or_dash(attempt.status_code),
            "OUTCOME" => outcome(attempt),
            "DETAIL" => detail(attempt),
        });
    }
    text
}

/// Why the last attempt failed, or the status of the answer if that says it.
fn last_answer(delivery: &Delivery) -> String {
    let status = delivery.last_status_code;
    match (&delivery.last_error, status) {
        (Some(error), Some(status)) if error.starts_with("http_") => status.to_string(),
        (Some(error), _) => error.clone(),
        (None, _) => or_dash(status),
    }
}

/// Why an attempt failed, in a sentence, or else what the receiver said: the first line of its answer.
fn detail(attempt: &AttemptRecord) -> Option<String> {
    let said = attempt.response_head.lines().next();
    let said = said.filter(|said| !attempt.delivered && !said.is_empty());
    let said = said.map(|said| said.chars().take(SAID_CHARS).collect::<String>());
    attempt.detail.clone().or(said)
}

/// The result of testing an endpoint.
pub(super) fn tested(attempt: &AttemptRecord, style: Style) -> String {
    let answer = Some(&attempt.response_head);
    let fields = fields! {
        "endpoint" => attempt.endpoint_id,
        "outcome" => outcome(attempt),
        "detail" => attempt.detail,
        "status" => attempt.status_code,
        "answer" => answer.filter(|answer| !answer.is_empty()),
        "at" => attempt.started_at,
        "took" => format!("{} ms", attempt.duration_ms),
    };
    record(style, &fields)
}

fn outcome(attempt: &AttemptRecord) -> String {
    match (&attempt.error, attempt.delivered) {
        (_, true) => "delivered".to_owned(),
        (Some(error), _) => error.to_string(),
        (None, _) => "failed".to_owned(),
    }
}

// The result of a manual retry.
record_fn! { fn retried(result: &RetryResult) =>
    "event" => result.event_id,
    "outcome" => result.retry_status,
    "retries" => result.retry_count,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_last_answer_is_why_it_failed_also_if_an_answer_had_begun() {
        for (status, error, shown) in [
            (Some(204), None, "204"),
            (Some(503), Some("http_5xx"), "503"),
            (Some(200), Some("connection_reset"), "connection_reset"),
            (Some(410), Some("gone"), "gone"),
            (None, Some("timeout"), "timeout"),
            (None, None, "-"),
        ] {
            let delivery = json!({
                "endpointId": "end_01a1fc8142fd7527b8919d686c4a1720", "url": "https://example.com/", "status": "failed",
                "attempts": 1, "lastStatusCode": status, "lastError": error,
            });
            let delivery: Delivery = serde_json::from_value(delivery).unwrap();
            assert_eq!(last_answer(&delivery), shown);
        }
    }

    #[test]
    fn an_attempt_without_a_sentence_of_ours_shows_what_the_receiver_said() {
        let attempt = |delivered: bool, detail: Option<&str>, head: &str| {
            let attempt = json!({
                "endpointId": "end_01a1fc8142fd7527b8919d686c4a1720", "number": 1, "startedAt": "2026-10-05T14:13:20.000Z",
                "durationMs": 0, "delivered": delivered, "phase": "body", "detail": detail, "responseHead": head,
                "responseLen": 0,
            });
            serde_json::from_value::<AttemptRecord>(attempt).unwrap()
        };
        for (delivered, told, head, shown) in [
            (false, None, "no such\ntenant", Some("no such")),
            (false, Some("timed out"), "no", Some("timed out")),
            (false, None, "", None),
            (true, None, "ok", None),
        ] {
            let shown_as = detail(&attempt(delivered, told, head));
            assert_eq!(shown_as.as_deref(), shown, "{head}");
        }
    }
}
