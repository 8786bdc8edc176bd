//! `webhook-endpoints`: adds, changes and tests endpoints, and replaces their secrets.

use bookguard_core::features::endpoints::secrets::{RotateEndpointSecret, RotatedSecret};
use bookguard_core::features::endpoints::testing::TestEndpoint;
use bookguard_core::features::endpoints::update::UpdateEndpoint;
use bookguard_core::features::endpoints::{
    CreateEndpoint, DeleteEndpoint, EndpointKept, GetEndpoint, ListEndpoints,
};
use bookguard_core::model::Endpoint;

use super::api_keys::overlap;
use super::declare::{Call, CliCommand, carried, group, listing, operation};
use super::events;
use crate::args::ConsentArgs;
use crate::failure::Failure;
use crate::output::table::{Style, fields, joined, page_fn, record, record_fn};
use crate::target::Purpose;
use crate::text::plain;

pub(super) fn commands() -> CliCommand {
    let create = operation::<CreateEndpoint>("create", "Add an endpoint", kept).flags(|flags| {
        flags
            .name("url", "address")
            .positional("url")
            .name("events", "event")
            .name("rateLimitPerSecond", "rate-limit");
    });
    let about = "List endpoints, newest first; those of all partners if an operator names none with --partner";
    let list = listing::<ListEndpoints>("list", about, endpoints, of_all);
    let about = "Change an endpoint; what is not given stays as it is";
    let update = operation::<UpdateEndpoint>("update", about, kept).flags(|flags| {
        flags
            .without("enabled")
            .name("url", "address")
            .name("events", "event")
            .opposite(
                "events",
                "default-events",
                "Receive events of the default types",
            )
            .name("rateLimitPerSecond", "rate-limit")
            .says(
                "ownSecret",
                "Give it its own signing secret, which is shown only once",
            )
            .opposite(
                "ownSecret",
                "partners-secret",
                "Sign with the partner's secret again, at once",
            );
    });
    let about = "Enable an endpoint that is disabled, gone or suspended; each delivery that waits for it is sent when it is due";
    let enable = operation::<UpdateEndpoint>("enable", about, kept)
        .flags(|flags| flags.sends(r#"{"enabled":true}"#));
    let about = "Disable an endpoint: no new events; what waits for it keeps waiting";
    let disable = operation::<UpdateEndpoint>("disable", about, kept)
        .flags(|flags| flags.sends(r#"{"enabled":false}"#));
    let about = "Send an endpoint a signed test now, and show the result";
    let test = carried::<TestEndpoint>("test", about, test).purpose(Purpose::Wait);
    let about = "Replace an endpoint's own signing secret; the new one is shown only once";
    let rotate =
        operation::<RotateEndpointSecret>("rotate-secret", about, rotated_secret).flags(overlap);
    let about = "Delete an endpoint for good, and drop the deliveries that wait for it; asks first";
    let delete = carried::<DeleteEndpoint>("delete", about, delete).with::<ConsentArgs>();
    let get = operation::<GetEndpoint>("get", "Show an endpoint", endpoint);
    let about = "Where a partner receives its events";
    let commands = [
        create, list, get, update, enable, disable, test, rotate, delete,
    ];
    group("webhook-endpoints", about, commands)
}

async fn test(call: Call<'_>) -> Result<(), Failure> {
    let answer = call.answer::<TestEndpoint>().await?;
    call.screen.show(&answer, events::tested)?;
    match answer.output.delivered {
        true => Ok(()),
        false => Err(Failure::NotDelivered(
            "The endpoint did not accept the test.".to_owned(),
        )),
    }
}

async fn delete(call: Call<'_>) -> Result<(), Failure> {
    if call.asks()? {
        let path = call.path()?;
        let id = path.path.concat();
        let found = call.look::<GetEndpoint>(path).await?;
        let address = found.map_or_else(String::new, |it| format!(" ({})", plain(&it.url)));
        call.ask(&format!(
            "Webhook endpoint {id}{address} will be deleted for good, and so will its own signing secret if it has one. Deliveries that wait \
             for it are not sent. To stop it for a while: bookguard webhook-endpoints disable {id}"
        ))?;
    }
    let answer = call.answer::<DeleteEndpoint>().await?;
    call.screen.show(&answer, endpoint)
}

fn endpoint(endpoint: &Endpoint, style: Style) -> String {
    record(style, &members(endpoint))
}

fn members(endpoint: &Endpoint) -> Vec<(&'static str, Option<String>)> {
    let limit = endpoint.rate_limit_per_second;
    let secret = match endpoint.own_secret {
        true => "its own secret",
        false => "the partner's secret",
    };
    let failures = (endpoint.failures > 0).then_some(endpoint.failures);
    fields! {
        "endpoint" => endpoint.endpoint_id,
        "address" => endpoint.url,
        "events" => types(endpoint),
        "description" => endpoint.description,
        "status" => endpoint.status,
        "failures" => failures.map(|failures| format!("{failures} in a row")),
        "failing since" => endpoint.failing_since,
        "next try" => endpoint.next_probe_at,
        "not verified since" => endpoint.unverified_since,
        "rate limit" => limit.map(|n| format!("{n} per second")),
        "signed with" => secret,
        "created" => endpoint.created_at,
    }
}

/// A new or changed endpoint, with its own secret if it got one.
fn kept(kept: &EndpointKept, style: Style) -> String {
    let mut fields = members(&kept.endpoint);
    fields.extend(fields! {
        "signing secret" => kept.secret,
        "takes over" => kept.switches_at,
    });
    let after = match kept.secret {
        Some(_) => "\n\nKeep the secret now: it is not shown again.",
        None => "",
    };
    record(style, &fields) + after
}

const NEW_SECRET: &str = "\n\nKeep the secret now: it is not shown again. Until it takes over, webhook-signature lists a signature of each.";

// A newly issued signing secret.
record_fn! { pub(super) fn rotated_secret(rotated: &RotatedSecret), NEW_SECRET =>
    "signing secret" => rotated.secret,
    "takes over" => rotated.switches_at,
}

page_fn! { fn endpoints(endpoint: &Endpoint), "webhook endpoints" =>
    "ENDPOINT" => endpoint.endpoint_id,
    "STATUS" => endpoint.status,
    "ADDRESS" => endpoint.url,
    "EVENTS" => types(endpoint),
    "DESCRIPTION" => endpoint.description,
    "CREATED" => endpoint.created_at,
}

// A page of all partners' endpoints.
page_fn! { fn of_all(endpoint: &Endpoint), "webhook endpoints" =>
    "PARTNER" => endpoint.partner_id,
    "ENDPOINT" => endpoint.endpoint_id,
    "STATUS" => endpoint.status,
    "FAILURES" => endpoint.failures,
    "ADDRESS" => endpoint.url,
    "CREATED" => endpoint.created_at,
}

fn types(endpoint: &Endpoint) -> String {
    let words = endpoint.events.iter().map(|event_type| event_type.word());
    joined(words, " ").unwrap_or_else(|| "default".to_owned())
}
