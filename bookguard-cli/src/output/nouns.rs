//! How webhook endpoints, secrets and health are shown.

use bookguard_core::features::endpoints::EndpointKept;
use bookguard_core::features::endpoints::secrets::RotatedSecret;
use bookguard_core::features::health::Health;
use bookguard_core::model::{Endpoint, Page};

use super::table::{Style, list, more, record, time};

/// Health.
pub fn health(health: &Health, style: Style) -> String {
    record(
        style,
        &[
            ("status", Some(health.status.clone())),
            ("time", Some(time(health.timestamp))),
        ],
    )
}

/// One endpoint.
pub fn endpoint(endpoint: &Endpoint, style: Style) -> String {
    record(style, &endpoint_fields(endpoint))
}

fn endpoint_fields(endpoint: &Endpoint) -> Vec<(&'static str, Option<String>)> {
    let limit = endpoint.rate_limit_per_second;
    let secret = match endpoint.own_secret {
        true => "its own",
        false => "the partner's",
    };
    vec![
        ("endpoint", Some(endpoint.endpoint_id.to_string())),
        ("address", Some(endpoint.url.clone())),
        ("events", Some(types(endpoint))),
        ("description", endpoint.description.clone()),
        ("status", Some(word(&endpoint.status))),
        (
            "failures",
            (endpoint.failures > 0).then(|| format!("{} in a row", endpoint.failures)),
        ),
        ("failing since", endpoint.failing_since.map(time)),
        ("next try", endpoint.next_probe_at.map(time)),
        ("not verified since", endpoint.unverified_since.map(time)),
        ("rate limit", limit.map(|n| format!("{n} per second"))),
        ("signed with", Some(format!("{secret} secret"))),
        ("created", Some(time(endpoint.created_at))),
    ]
}

/// A new or changed endpoint, with its own secret if it got one.
pub fn endpoint_kept(kept: &EndpointKept, style: Style) -> String {
    let mut fields = endpoint_fields(&kept.endpoint);
    fields.push(("signing secret", kept.secret.clone()));
    fields.push(("takes over", kept.switches_at.map(time)));
    let after = match kept.secret {
        Some(_) => "\n\nKeep the secret now: it is not shown again.",
        None => "",
    };
    record(style, &fields) + after
}

/// Another signing secret.
pub fn rotated_secret(rotated: &RotatedSecret, style: Style) -> String {
    let fields = [
        ("signing secret", Some(rotated.secret.clone())),
        ("takes over", Some(time(rotated.switches_at))),
    ];
    record(style, &fields)
        + "\n\nKeep the secret now: it is not shown again. Until it takes over, webhook-signature lists a signature of each."
}

/// A page of endpoints.
pub fn endpoints(page: &Page<Endpoint>, style: Style) -> String {
    let rows = page.data.iter().map(|endpoint| {
        [
            endpoint.endpoint_id.to_string(),
            word(&endpoint.status),
            endpoint.url.clone(),
            types(endpoint),
            endpoint.description.clone().unwrap_or_default(),
            time(endpoint.created_at),
        ]
    });
    let header = [
        "ENDPOINT",
        "STATUS",
        "ADDRESS",
        "EVENTS",
        "DESCRIPTION",
        "CREATED",
    ];
    list(style, "webhook endpoints", header, rows.collect()) + &more(page.next_cursor.as_deref())
}

/// A page of all partners' endpoints.
pub fn endpoints_of_all(page: &Page<Endpoint>, style: Style) -> String {
    let rows = page.data.iter().map(|endpoint| {
        [
            endpoint
                .partner_id
                .map_or_else(String::new, |id| id.to_string()),
            endpoint.endpoint_id.to_string(),
            word(&endpoint.status),
            endpoint.failures.to_string(),
            endpoint.url.clone(),
            time(endpoint.created_at),
        ]
    });
    let header = [
        "PARTNER", "ENDPOINT", "STATUS", "FAILURES", "ADDRESS", "CREATED",
    ];
    list(style, "webhook endpoints", header, rows.collect()) + &more(page.next_cursor.as_deref())
}

fn types(endpoint: &Endpoint) -> String {
    let words: Vec<&str> = endpoint
        .events
        .iter()
        .map(|event_type| event_type.word())
        .collect();
    if words.is_empty() {
        "all".to_owned()
    } else {
        words.join(" ")
    }
}

/// A boolean in words.
pub fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// A noun's word, as its JSON has it.
pub fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
