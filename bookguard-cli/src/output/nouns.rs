//! How partners, API keys, webhook endpoints and health are shown.

use bookguard_core::features::api_keys::NewApiKey;
use bookguard_core::features::endpoints::EndpointKept;
use bookguard_core::features::endpoints::secrets::RotatedSecret;
use bookguard_core::features::health::Health;
use bookguard_core::features::partners::Registration;
use bookguard_core::model::{ApiKey, Endpoint, Page, Partner, PartnerAccount, QuotaUse};

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

/// A registration or an approval, with credentials if there are any.
pub fn registration(new: &Registration, style: Style) -> String {
    let fields = [
        ("partner", Some(new.partner_id.to_string())),
        ("name", Some(new.name.clone())),
        ("status", Some(word(&new.status))),
        ("API key id", new.api_key_id.map(|id| id.to_string())),
        ("API key", new.api_key.clone()),
        ("signing secret", new.signing_secret.clone()),
    ];
    let after = match new.api_key {
        Some(_) => "\n\nKeep the key and the secret now: they are not shown again.",
        None => "\n\nThe partner waits for approval: bookguard partners approve <partner>",
    };
    record(style, &fields) + after
}

/// A partner, and what it has used of its quota.
pub fn account(account: &PartnerAccount, style: Style) -> String {
    let PartnerAccount { partner, quota } = account;
    let used = |part: QuotaUse| match part.limit {
        Some(limit) => Some(format!("{} of {limit}", part.used)),
        None => Some(format!("{}, without a limit", part.used)),
    };
    record(
        style,
        &[
            ("partner", Some(partner.partner_id.to_string())),
            ("name", Some(partner.name.clone())),
            ("status", Some(word(&partner.status))),
            ("business type", Some(partner.business_type.clone())),
            ("contact", Some(partner.contact_email.clone())),
            ("website", partner.website.clone()),
            ("time zone", partner.settings.time_zone.clone()),
            ("default policies", default_policies(partner)),
            ("bookings", used(quota.bookings)),
            ("bytes of bookings", used(quota.bytes)),
            ("events today (UTC)", used(quota.events_per_day)),
            ("endpoints", used(quota.endpoints)),
            ("since", Some(time(partner.created_at))),
        ],
    )
}

fn default_policies(partner: &Partner) -> Option<String> {
    let defaults = partner.settings.default_policies.iter();
    let pairs: Vec<String> = defaults
        .map(|(event_type, policy)| format!("{event_type}={policy}"))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join(", "))
}

/// A page of partners.
pub fn partners(page: &Page<Partner>, style: Style) -> String {
    let rows = page.data.iter().map(|partner| {
        [
            partner.partner_id.to_string(),
            word(&partner.status),
            partner.name.clone(),
            partner.business_type.clone(),
            partner.contact_email.clone(),
            time(partner.created_at),
        ]
    });
    let header = ["PARTNER", "STATUS", "NAME", "BUSINESS", "CONTACT", "SINCE"];
    list(style, "partners", header, rows.collect()) + &more(page.next_cursor.as_deref())
}

/// A new key.
pub fn new_key(new: &NewApiKey, style: Style) -> String {
    let fields = [
        ("API key id", Some(new.api_key_id.to_string())),
        ("API key", Some(new.api_key.clone())),
        ("name", Some(new.name.clone())),
        ("scopes", Some(new.scopes.words().join(" "))),
        ("created", Some(time(new.created_at))),
    ];
    record(style, &fields) + "\n\nKeep the key now: it is not shown again."
}

/// One key, without the key itself.
pub fn key(key: &ApiKey, style: Style) -> String {
    record(
        style,
        &[
            ("API key id", Some(key.api_key_id.to_string())),
            ("name", Some(key.name.clone())),
            ("scopes", Some(key.scopes.words().join(" "))),
            ("ends with", Some(key.hint.clone())),
            ("created", Some(time(key.created_at))),
            ("revoked", key.revoked_at.map(time)),
        ],
    )
}

/// A page of keys.
pub fn keys(page: &Page<ApiKey>, style: Style) -> String {
    let rows = page.data.iter().map(|key| {
        [
            key.api_key_id.to_string(),
            key.name.clone(),
            key.scopes.words().join(" "),
            key.hint.clone(),
            time(key.created_at),
            key.revoked_at.map_or_else(|| "-".to_owned(), time),
        ]
    });
    let header = [
        "API KEY ID",
        "NAME",
        "SCOPES",
        "ENDS WITH",
        "CREATED",
        "REVOKED",
    ];
    list(style, "API keys", header, rows.collect()) + &more(page.next_cursor.as_deref())
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
pub(super) fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
