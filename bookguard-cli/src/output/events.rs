//! How webhook events, their deliveries and attempts are shown.

use bookguard_core::features::attempts::AttemptRecord;
use bookguard_core::features::events::EventWithAttempts;
use bookguard_core::features::events::RetryResult;
use bookguard_core::features::events::log::EventLog;
use bookguard_core::model::{Delivery, Event, Page};

use super::table::{Style, list, more, record, time};

/// A piece of the log.
pub fn log(log: &EventLog, style: Style) -> String {
    let rows = log.data.iter().map(|event| {
        [
            event.seq.to_string(),
            event.event_id.to_string(),
            event.event_type.word().to_owned(),
            event.status.word().to_owned(),
            event.deliveries.len().to_string(),
            event.retry_count.to_string(),
            time(event.timestamp),
            event.next_attempt_at.map_or_else(|| "-".to_owned(), time),
        ]
    });
    let header = [
        "NO",
        "EVENT",
        "TYPE",
        "STATUS",
        "ENDPOINTS",
        "RETRIES",
        "AT",
        "NEXT ATTEMPT",
    ];
    let mut text = list(style, "events", header, rows.collect());
    if log.has_more {
        text.push_str(&format!("\n\nMore: --after {}", log.next_after));
    }
    text
}

/// A page of all partners' events.
pub fn of_all(page: &Page<Event>, style: Style) -> String {
    let rows = page.data.iter().map(|event| {
        [
            event
                .partner_id
                .map_or_else(String::new, |id| id.to_string()),
            event.seq.to_string(),
            event.event_id.to_string(),
            event.event_type.word().to_owned(),
            event.status.word().to_owned(),
            event.retry_count.to_string(),
            time(event.timestamp),
            event.next_attempt_at.map_or_else(|| "-".to_owned(), time),
        ]
    });
    let header = [
        "PARTNER",
        "NO",
        "EVENT",
        "TYPE",
        "STATUS",
        "RETRIES",
        "AT",
        "NEXT ATTEMPT",
    ];
    list(style, "events", header, rows.collect()) + &more(page.next_cursor.as_deref())
}

/// An event as it happens, on one line.
pub fn happened(event: &Event, style: Style) -> String {
    format!(
        "{}  {}  {}  {}  {}",
        style.bold(&event.seq.to_string()),
        time(event.timestamp),
        event.event_type.word(),
        event.booking_id,
        event.status.word()
    )
}

/// One event with every attempt.
pub fn event(answer: &EventWithAttempts, style: Style) -> String {
    let event = &answer.event;
    let mut text = fields(event, style);
    if !event.deliveries.is_empty() {
        text.push_str("\n\n");
        text.push_str(&list(
            style,
            "deliveries",
            [
                "ENDPOINT",
                "ADDRESS",
                "STATUS",
                "ATTEMPTS",
                "LAST ANSWER",
                "NEXT ATTEMPT",
            ],
            event.deliveries.iter().map(delivery).collect(),
        ));
    }
    if !answer.attempts.is_empty() {
        let rows = answer.attempts.iter().map(|attempt| {
            [
                attempt.endpoint_id.to_string(),
                attempt.number.to_string(),
                time(attempt.started_at),
                format!("{} ms", attempt.duration_ms),
                attempt
                    .status_code
                    .map_or_else(|| "-".to_owned(), |status| status.to_string()),
                outcome(attempt),
                attempt.detail.clone().unwrap_or_default(),
            ]
        });
        let header = [
            "ENDPOINT", "NO", "AT", "TOOK", "STATUS", "OUTCOME", "DETAIL",
        ];
        text.push_str("\n\n");
        text.push_str(&list(style, "attempts", header, rows.collect()));
    }
    text
}

/// What came of a test of an endpoint.
pub fn tested(attempt: &AttemptRecord, style: Style) -> String {
    let status = attempt.status_code.map(|status| status.to_string());
    let answer = (!attempt.response_head.is_empty()).then(|| attempt.response_head.clone());
    record(
        style,
        &[
            ("endpoint", Some(attempt.endpoint_id.to_string())),
            ("outcome", Some(outcome(attempt))),
            ("detail", attempt.detail.clone()),
            ("status", status),
            ("answer", answer),
            ("at", Some(time(attempt.started_at))),
            ("took", Some(format!("{} ms", attempt.duration_ms))),
        ],
    )
}

fn outcome(attempt: &AttemptRecord) -> String {
    match (&attempt.error, attempt.delivered) {
        (_, true) => "delivered".to_owned(),
        (Some(error), _) => error.clone(),
        (None, _) => "failed".to_owned(),
    }
}

fn fields(event: &Event, style: Style) -> String {
    let whole = event.pruned_at.is_none();
    record(
        style,
        &[
            ("event", Some(event.event_id.to_string())),
            ("type", Some(event.event_type.word().to_owned())),
            ("booking", Some(event.booking_id.to_string())),
            ("number", Some(event.seq.to_string())),
            ("at", Some(time(event.timestamp))),
            ("status", Some(event.status.word().to_owned())),
            ("retries", Some(event.retry_count.to_string())),
            ("next attempt", event.next_attempt_at.map(time)),
            ("signature", event.signature.clone()),
            ("payload", whole.then(|| event.payload.to_string())),
            ("pruned", event.pruned_at.map(time)),
            ("body SHA-256", event.body_sha256.clone()),
        ],
    )
}

fn delivery(delivery: &Delivery) -> [String; 6] {
    let status = delivery.last_status_code.map(|status| status.to_string());
    [
        delivery.endpoint_id.to_string(),
        delivery.url.clone(),
        delivery.status.word().to_owned(),
        delivery.attempts.to_string(),
        status
            .or_else(|| delivery.last_error.clone())
            .unwrap_or_else(|| "-".to_owned()),
        delivery
            .next_attempt_at
            .map_or_else(|| "-".to_owned(), time),
    ]
}

/// What a manual retry came to.
pub fn retried(result: &RetryResult, style: Style) -> String {
    record(
        style,
        &[
            ("event", Some(result.event_id.to_string())),
            ("outcome", Some(result.retry_status.word().to_owned())),
            ("retries", Some(result.retry_count.to_string())),
        ],
    )
}
