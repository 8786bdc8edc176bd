//! Webhook endpoints: how they are, their settings and secrets, and a test delivery.

pub(super) mod change;
pub(super) mod create;
pub(super) mod remove;
pub(super) mod rotate;

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::testing::TestEndpoint;
use bookguard_core::features::endpoints::{GetEndpoint, ListEndpoints};
use bookguard_core::model::{Endpoint, EndpointStatus, EventType, Scope};
use maud::{Markup, html};

use super::deliveries::{answer, outcome, recover};
use super::parts::{
    alert, button, copyable, empty, endpoint_badge, fact, grouped, hidden, once, records,
    shown_once, time,
};
use super::{Answer, Asked, Field, Kind, Page, Part, User};

pub(super) async fn list(user: &User, _: &Asked) -> Result<Answer, Error> {
    let listed = user.read::<ListEndpoints>(&[], &[("limit", "100")]).await?;
    let rows = listed.data.iter().map(|endpoint| line(user, endpoint));
    let main = html! {
        div.title {
            h1 { "Endpoints" }
            @if user.may(Scope::WebhooksWrite) { a.button.first href=(user.link("/endpoints/new")) { "Add an endpoint" } }
        }
        @if listed.data.is_empty() {
            (empty(user.told("No endpoint receives your events.", "No endpoint receives the partner's events."), html! {
                "Add the address of " (user.told("your own", "the partner's")) " program, or poll the log of events with " code { "GET /v1/webhook-events" } "."
            }))
        } @else {
            section.card { (records("Webhook endpoints", &["Address", "State", "Receives", "Since"], rows)) }
        }
    };
    Ok(Page::new(Part::Endpoints, "Endpoints", main).ok())
}

fn line(user: &User, endpoint: &Endpoint) -> Markup {
    html! {
        td {
            a href=(user.link(&format!("/endpoints/{}", endpoint.endpoint_id))) { (endpoint.url) }
            @if let Some(description) = &endpoint.description { small { (description) } }
        }
        td { (endpoint_badge(endpoint.status)) @if let Some(since) = endpoint.failing_since { small { "failing since " (time(since)) } } }
        td { (received(endpoint)) }
        td { (time(endpoint.created_at)) }
    }
}

/// The types that an endpoint receives.
fn received(endpoint: &Endpoint) -> String {
    let types = EventType::WORDS
        .iter()
        .filter(|(_, known)| endpoint.subscribes(*known));
    types.map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
}

pub(super) async fn show(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

/// The page of an endpoint, with the result of a test that was just made.
async fn page(user: &User, asked: &Asked, tested: Option<Markup>) -> Result<Answer, Error> {
    let id = asked.id(0);
    let endpoint = user.read::<GetEndpoint>(&[id], &[]).await?;
    let link = |rest: &str| user.link(&format!("/endpoints/{id}{rest}"));
    let main = html! {
        p.back { a href=(user.link("/endpoints")) { "← All endpoints" } }
        div.title { h1 { (endpoint.url) } (endpoint_badge(endpoint.status)) }
        (alert(asked))
        @if user.may(Scope::WebhooksWrite) {
            div.actions {
                (button(user, &format!("/endpoints/{id}/test"), "Send a test", "first"))
                a.button href=(link("/change")) { "Change" }
                @if is_held(endpoint.status) { (enable(user, id)) }
                @if endpoint.own_secret { a.button href=(link("/rotate-secret")) { "Replace its secret" } }
                a.button.danger href=(link("/remove")) { "Remove" }
            }
        }
        @if let Some(tested) = tested { (tested) }
        section.card aria-label="The endpoint" {
            @if let Some(meaning) = meaning(endpoint.status) { p { (meaning) } }
            dl {
                @if let Some(description) = &endpoint.description { (fact("Description", description)) }
                (fact("Receives", received(&endpoint)))
                @if let Some(limit) = endpoint.rate_limit_per_second { (fact("Deliveries per second at most", limit)) }
                (fact("Signed with", if endpoint.own_secret { "its own secret" } else { "the secret that endpoints share" }))
                @if endpoint.failures > 0 { (fact("Failures in a row", endpoint.failures)) }
                @if let Some(at) = endpoint.failing_since { (fact("Failing since", time(at))) }
                @if let Some(at) = endpoint.next_probe_at { (fact("Next try", time(at))) }
                @if let Some(at) = endpoint.unverified_since { (fact("Accepted nothing yet, since", time(at))) }
                (fact("Added", time(endpoint.created_at)))
                (fact("Id", copyable(id)))
            }
            p {
                a href=(user.link("/deliveries?status=failed")) { "Failed deliveries" }
                @if endpoint.enabled && user.may(Scope::WebhooksWrite) { " · " a href=(user.link(&recover::of_endpoint(&endpoint, asked.now))) { "Send it what it missed" } }
            }
        }
        (snippet(user))
    };
    Ok(Page::new(Part::Endpoints, "Endpoint", main).form(asked))
}

/// Whether deliveries wait until it is enabled or, if it is suspended, accepts one.
fn is_held(status: EndpointStatus) -> bool {
    match status {
        EndpointStatus::Active | EndpointStatus::Failing => false,
        EndpointStatus::Suspended | EndpointStatus::Disabled | EndpointStatus::Gone => true,
    }
}

/// What a state means, and what to do about it.
fn meaning(status: EndpointStatus) -> Option<&'static str> {
    match status {
        EndpointStatus::Active => None,
        EndpointStatus::Failing => Some(
            "Ten or more attempts failed in a row. After five days without a success it is suspended.",
        ),
        EndpointStatus::Suspended => Some(
            "All attempts failed for five days. Its deliveries wait, and now and then one is tried; the first that is accepted brings it \
             back. Once its receiver works again, enable it.",
        ),
        EndpointStatus::Disabled => {
            Some("It gets no new events. What waited for it goes on waiting until you enable it.")
        }
        EndpointStatus::Gone => Some(
            "Its receiver answered 410 Gone, so it gets no new events. What waited for it goes on waiting. If the receiver is there \
             after all, enable it.",
        ),
    }
}

/// The button that enables an endpoint.
fn enable(user: &User, id: &str) -> Markup {
    html! {
        form method="post" action=(user.link(&format!("/endpoints/{id}/change"))) {
            (once())
            (hidden("/enabled", "true"))
            button { "Enable it" }
        }
    }
}

/// How a receiver checks a delivery.
fn snippet(user: &User) -> Markup {
    html! {
        details.card {
            summary { "How " (user.told("your", "the partner's")) " program checks what it receives" }
            p { "The header " code { "x-service-signature" } " is " code { "sha256=" } " and the HMAC-SHA256 of the body under the secret, in hex. \
                Compute it over the bytes as they arrived, and compare in constant time:" }
            pre { "expected = 'sha256=' + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()\n\
                   genuine  = hmac.compare_digest(expected, headers['x-service-signature'])" }
            p {
                "This shows who sent a body, not when. One that comes again cannot be told from a replay: skip each " code { "eventId" }
                " that is known, or check " code { "webhook-signature" } " instead, which is good for five minutes."
            }
            @if let Some(docs) = user.docs() { p { a href=(docs) { "The interface" } " describes every header and body." } }
        }
    }
}

pub(super) async fn test(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let attempt = user.send::<TestEndpoint>(asked).await?;
    let tested = html! {
        section.card aria-labelledby="tested" role="status" {
            h2 #tested { "The test" }
            p { (outcome(&attempt)) span.soft { " after " (grouped(&attempt.duration_ms.to_string())) " ms" } }
            div { "Answer: " (answer(&attempt)) }
        }
    };
    page(user, asked, Some(tested)).await
}

/// What people read of the types of events.
fn types() -> Vec<(&'static str, String)> {
    let about = |event_type| match event_type {
        EventType::BookingCreated => "a booking was recorded",
        EventType::BookingProtected => "a booking was written to the ledger",
        EventType::ResolutionCreated => "a booking was canceled, with the result",
        EventType::BookingRescheduled => "an event was moved",
        EventType::TermsAccepted => "somebody accepted the terms",
        EventType::ResolutionDecided => "a person decided a cancellation",
        EventType::EndpointSuspended => "another endpoint was suspended",
        EventType::ApiKeyExpiring => "an API key will soon expire",
    };
    let types = EventType::WORDS.iter();
    let types = types.map(|(word, known)| (*word, format!("{word}: {}", about(*known))));
    types.collect()
}

/// The fields of an endpoint's settings.
const NAMES: [&str; 4] = ["/url", "/events", "/description", "/rateLimitPerSecond"];

fn address(value: &str) -> Field<'_> {
    Field::new("/url", "Address", Kind::Url)
        .about("An https address on the public internet.")
        .value(value)
        .required()
}

fn description(value: &str) -> Field<'_> {
    Field::new("/description", "Description", Kind::Text).value(value)
}

fn rate_limit(value: &str) -> Field<'_> {
    Field::new(
        "/rateLimitPerSecond",
        "Deliveries per second at most",
        Kind::Number,
    )
    .about("No limit if left empty.")
    .value(value)
}

/// The page that shows a secret once.
fn secret(user: &User, id: &str, secret: &str, when: Markup) -> Answer {
    let page = (Part::Endpoints, "Signing secret");
    let about = html! { (user.told("Your", "The partner's")) " program checks deliveries with it. " (when) };
    let next = user.may(Scope::WebhooksRead).then(|| {
        let endpoint = user.link(&format!("/endpoints/{id}"));
        (endpoint, "To the endpoint")
    });
    shown_once(page, "The signing secret", about, secret, next)
}
