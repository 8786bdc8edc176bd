//! `bookguard webhook-endpoints`: what each of its commands asks.

use bookguard_core::features::endpoints::secrets::RotateEndpointSecret;
use bookguard_core::features::endpoints::testing::TestEndpoint;
use bookguard_core::features::endpoints::update::UpdateEndpoint;
use bookguard_core::features::endpoints::{
    CreateEndpoint, DeleteEndpoint, GetEndpoint, ListEndpoints,
};
use bookguard_core::operation::Request;
use serde_json::{Value, json};

use super::{add, at, once_only, page, rotation, with, with_body};
use crate::commands::cli::{EndpointUpdateArgs, EndpointsCommand};
use crate::failure::Failure;
use crate::output::{Screen, events, nouns};
use crate::target::Target;

/// Does one of them.
pub(super) async fn run(
    target: &Target,
    command: EndpointsCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        EndpointsCommand::Create {
            address,
            events,
            description,
            rate_limit,
            own_secret,
            once,
        } => {
            let body = with(
                json!({ "url": address }),
                "events",
                (!events.is_empty()).then_some(events),
            );
            let body = with(body, "description", description);
            let body = with(body, "rateLimitPerSecond", rate_limit);
            let body = with(body, "ownSecret", own_secret.then_some(true));
            let request = once_only(with_body(body), once);
            screen.show(
                &target.call::<CreateEndpoint>(request).await?,
                nouns::endpoint_kept,
            )
        }
        EndpointsCommand::List { status, page: args } => {
            let mut request = page(args);
            add(&mut request, "status", status);
            let answer = target.call::<ListEndpoints>(request).await?;
            match target.is_for_all() {
                true => screen.show(&answer, nouns::endpoints_of_all),
                false => screen.show(&answer, nouns::endpoints),
            }
        }
        EndpointsCommand::Get { endpoint_id } => screen.show(
            &target.call::<GetEndpoint>(at(&endpoint_id)).await?,
            nouns::endpoint,
        ),
        EndpointsCommand::Update(args) => {
            let endpoint_id = args.endpoint_id.clone();
            update(target, &endpoint_id, &changes(args), screen).await
        }
        EndpointsCommand::Enable { endpoint_id } => {
            update(target, &endpoint_id, &json!({"enabled": true}), screen).await
        }
        EndpointsCommand::Disable { endpoint_id } => {
            update(target, &endpoint_id, &json!({"enabled": false}), screen).await
        }
        EndpointsCommand::Test { endpoint_id, once } => {
            let request = once_only(at(&endpoint_id), once);
            let answer = target.call::<TestEndpoint>(request).await?;
            screen.show(&answer, events::tested)?;
            match answer.output.delivered {
                true => Ok(()),
                false => Err(Failure::NotDelivered(
                    "The endpoint did not accept the test.".to_owned(),
                )),
            }
        }
        EndpointsCommand::RotateSecret {
            endpoint_id,
            rotation: args,
        } => screen.show(
            &target
                .call::<RotateEndpointSecret>(rotation(at(&endpoint_id), args))
                .await?,
            nouns::rotated_secret,
        ),
        EndpointsCommand::Delete { endpoint_id } => screen.show(
            &target.call::<DeleteEndpoint>(at(&endpoint_id)).await?,
            nouns::endpoint,
        ),
    }
}

async fn update(
    target: &Target,
    endpoint_id: &str,
    body: &Value,
    screen: &Screen,
) -> Result<(), Failure> {
    let request = Request {
        body: body.to_string().into_bytes(),
        ..at(endpoint_id)
    };
    screen.show(
        &target.call::<UpdateEndpoint>(request).await?,
        nouns::endpoint_kept,
    )
}

/// The body of `PATCH /v1/webhook-endpoints/{endpointId}`.
fn changes(args: EndpointUpdateArgs) -> Value {
    let body = with(json!({}), "url", args.address);
    let events = (!args.events.is_empty()).then(|| json!(args.events));
    let body = with(
        body,
        "events",
        events.or(args.all_events.then_some(Value::Null)),
    );
    let words = args.description.map(Value::from);
    let words = words.or(args.no_description.then_some(Value::Null));
    let body = with(body, "description", words);
    let limit = args.rate_limit.map(Value::from);
    let limit = limit.or(args.no_rate_limit.then_some(Value::Null));
    let body = with(body, "rateLimitPerSecond", limit);
    let own = args.own_secret.then_some(true);
    with(
        body,
        "ownSecret",
        own.or(args.partners_secret.then_some(false)),
    )
}
