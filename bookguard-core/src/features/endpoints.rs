//! Webhook endpoints.

pub(crate) mod health;
pub(crate) mod rule;
pub mod secrets;
pub mod testing;
pub mod update;

use crate::model::{
    Endpoint, EndpointId, EndpointStatus, EventType, Page, PartnerId, Scope, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::entropy;
use crate::error::Error;
use crate::input::{self, Declaration, Draft, Form, Value};
use crate::limits;
use crate::model::id::noun;
use crate::operation::{
    Action, Body, LIMIT, Operation, QueryForm, QueryParam, QueryReader, Request, Route, ids_cursor,
    path_id, query, query_own, read, write,
};
use crate::service::AddressRefused;
use crate::session::{Access, Authority, Session};
use crate::text::HIDDEN;
use crate::webhook::Secret;

/// `POST /v1/webhook-endpoints`
#[derive(Debug)]
pub struct CreateEndpoint {
    pub(crate) partner_id: PartnerId,
    pub(crate) endpoint: Endpoint,
    /// The endpoint's own secret, if it has one.
    pub(crate) secret: Option<NewSecret>,
}

/// Body of [`CreateEndpoint`], read and checked field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEndpoint {
    url: String,
    events: Option<Vec<EventType>>,
    description: Option<String>,
    rate_limit_per_second: Option<u32>,
    own_secret: Option<bool>,
}

impl Operation for CreateEndpoint {
    const ROUTE: Route = Route {
        id: "createWebhookEndpoint",
        path: "/v1/webhook-endpoints",
        access: Access::Scope(Scope::WebhooksWrite),
        audited: true,
        status: 201,
        body: Body::Required(&NewEndpoint::BODY),
        refusals: &[409],
        tag: "Webhooks",
        summary: "Add a webhook endpoint",
        description: "Every later event of a type it takes is posted to it, signed. The address must be https and not in a \
                      private or special-purpose network, unless the operator allows it, and none of your other endpoints may \
                      have it. Until its receiver has accepted a delivery, the endpoint gets one at a time, at most six a \
                      minute: see `unverifiedSince`. With `\"ownSecret\": true` the answer also holds the endpoint's own \
                      signing secret.",
        ..Route::POST
    };
    type Output = EndpointKept;

    fn prepare(session: &Session, request: &Request) -> Result<Action<EndpointKept>, Error> {
        let partner_id = session.partner_id()?;
        let judge = session.service.config().endpoint_rule.as_ref();
        let new = input::read(&request.body, |form| NewEndpoint::form(form, judge))?;
        let at = session.service.clock().now();
        let endpoint_id = EndpointId::new(at, entropy::bytes());
        let own_secret = new.own_secret == Some(true);
        let endpoint = Endpoint {
            endpoint_id,
            partner_id: None,
            url: new.url,
            events: new.events.unwrap_or_default(),
            description: new.description,
            rate_limit_per_second: new.rate_limit_per_second,
            own_secret,
            enabled: true,
            status: EndpointStatus::Active,
            failures: 0,
            failing_since: None,
            next_probe_at: None,
            unverified_since: session.service.config().verifies_endpoints.then_some(at),
            created_at: at,
            moved_at: None,
        };
        Ok(write(
            at,
            Self {
                partner_id,
                endpoint,
                secret: own_secret.then(|| new_secret(session, endpoint_id.as_bytes())),
            },
        ))
    }

    fn location(kept: &EndpointKept) -> Option<String> {
        let id = kept.endpoint.endpoint_id;
        Some(format!("/v1/webhook-endpoints/{id}"))
    }
}

impl NewEndpoint {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewEndpoint",
        about: "A webhook endpoint to add.",
        example: r#"{
            "url": "https://stagehand.example/webhooks",
            "events": ["booking.created", "booking.protected", "resolution.created"],
            "description": "Production",
            "rateLimitPerSecond": 20,
            "ownSecret": true
        }"#,
        reader: |v| v.object(|form| Self::form(form, &ANYWHERE)).map(drop),
    };

    fn form(form: &mut Form<'_, '_>, judge: AddressCheck<'_>) -> Option<Self> {
        let url = form
            .about("Where events are posted: an https address on the public internet, unless the operator allows others.")
            .required("url", |v| address(v, judge));
        let events = form
            .about("The types to receive; booking.created, booking.protected and resolution.created when not given.")
            .optional("events", |v| events(v, "leave \"events\" out"));
        let description = form
            .about("Your own words.")
            .optional("description", |v| v.text(limits::TEXT_CHARS));
        let rate_limit_per_second = form
            .about("Deliveries begun per second at most, on each node; unlimited when not given.")
            .optional("rateLimitPerSecond", rate_limit);
        let own_secret = form
            .about("Whether it gets a signing secret of its own, shown only once; otherwise deliveries are signed with the partner's.")
            .optional("ownSecret", |v| v.boolean());
        Some(Self {
            url: url?,
            events,
            description,
            rate_limit_per_second,
            own_secret,
        })
    }
}

/// Makes a signing secret, sealed for its owner.
pub(super) fn new_secret(session: &Session, owner: &[u8; 16]) -> NewSecret {
    let secret = Secret::from_bytes(entropy::bytes());
    let sealed = session
        .service
        .seal()
        .seal(owner, secret.reveal().as_bytes());
    NewSecret { secret, sealed }
}

/// Decides where webhooks may go; see [`EndpointRule`](crate::service::EndpointRule).
pub(super) type AddressCheck<'j> = &'j dyn Fn(&str) -> Result<String, AddressRefused>;

/// Allows every address: for a body that is only described or only checked for its form.
pub(super) const ANYWHERE: fn(&str) -> Result<String, AddressRefused> = |url| Ok(url.to_owned());

pub(super) fn address(v: &mut Value<'_, '_>, judge: AddressCheck<'_>) -> Option<String> {
    let pattern = |draft: &mut Draft| {
        draft.set("pattern", format!(r"^https?://[^\s@#{HIDDEN}]+$"));
    };
    let text = v.describe(pattern).text(limits::URL_CHARS)?;
    match judge(&text) {
        Ok(url) => Some(url),
        Err(refused) => v.fault(refused.code, refused.message, refused.fix),
    }
}

pub(super) fn rate_limit(v: &mut Value<'_, '_>) -> Option<u32> {
    let limit = v.integer(1, i64::from(limits::ENDPOINT_RATE))?;
    u32::try_from(limit).ok()
}

/// Reads the types that an endpoint lists. `default` says how to ask for the types of an endpoint that lists none.
pub(super) fn events(v: &mut Value<'_, '_>, default: &str) -> Option<Vec<EventType>> {
    let most = EventType::WORDS.len();
    let types = v.at_least(1).array(most, |item| {
        item.named("EventType").choice(EventType::WORDS)
    })?;
    if types.is_empty() {
        return v.fault(
            "empty",
            "is empty; it names no type",
            format!(
                "Name a type, or {default} for booking.created, booking.protected and resolution.created."
            ),
        );
    }
    let mut once = Vec::with_capacity(types.len());
    for event_type in types {
        if !once.contains(&event_type) {
            once.push(event_type);
        }
    }
    Some(once)
}

/// `GET /v1/webhook-endpoints`
pub struct ListEndpoints;

impl Operation for ListEndpoints {
    const ROUTE: Route = Route {
        id: "listWebhookEndpoints",
        path: "/v1/webhook-endpoints",
        access: Access::Scope(Scope::WebhooksRead),
        query: &[
            QueryParam {
                name: "status",
                description: "Only endpoints in this status: active, failing, suspended, disabled or gone.",
                form: QueryForm::Words("EndpointStatus"),
            },
            LIMIT,
            ids_cursor::<noun::Endpoint>(),
        ],
        tag: "Webhooks",
        summary: "List webhook endpoints",
        description: "Newest first.",
        ..Route::GET
    };
    type Output = Page<Endpoint>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<Endpoint>>, Error> {
        // An administrator who acts for no partner sees the endpoints of all.
        let partner_id = match &session.authority {
            Authority::Administrator { partner_id, .. } => *partner_id,
            _ => Some(session.partner_id()?),
        };
        let mut params = QueryReader::of(request);
        let page = params.paging();
        let status = params.choice("status", EndpointStatus::WORDS);
        params.end()?;
        Ok(read::<Self>(move |session| {
            let rows = query(session, |reader| {
                reader.endpoints(partner_id.as_ref(), status, page.before, page.limit + 1)
            })?;
            Ok(Page::of(rows, page.limit, |endpoint| endpoint.endpoint_id))
        }))
    }
}

/// `GET /v1/webhook-endpoints/{endpointId}`
pub struct GetEndpoint;

impl Operation for GetEndpoint {
    const ROUTE: Route = Route {
        id: "getWebhookEndpoint",
        path: "/v1/webhook-endpoints/{endpointId}",
        access: Access::Scope(Scope::WebhooksRead),
        refusals: &[404],
        tag: "Webhooks",
        summary: "One webhook endpoint",
        description: "`enabled` is false after you disabled it or its receiver answered 410 Gone; `status` says which. \
                      `status` is `failing` after ten failures in a row, and `suspended` after five days of nothing but \
                      failures: then its deliveries wait, and from `nextProbeAt` on a single delivery tests whether it is \
                      back. The first one that succeeds, or `\"enabled\": true`, resumes it.",
        ..Route::GET
    };
    type Output = Endpoint;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Endpoint>, Error> {
        let endpoint_id: EndpointId = path_id(request, 0)?;
        Ok(read::<Self>(move |session| {
            let found = query_own(session, &endpoint_id, |reader, id| reader.endpoint(id))?;
            Ok(found.1)
        }))
    }
}

/// `DELETE /v1/webhook-endpoints/{endpointId}`
#[derive(Debug)]
pub struct DeleteEndpoint {
    pub(crate) partner_id: PartnerId,
    pub(crate) endpoint_id: EndpointId,
    /// The endpoint as it was read, deleted or not: the answer if it is deleted by now.
    pub(crate) before: Option<Endpoint>,
}

impl Operation for DeleteEndpoint {
    const ROUTE: Route = Route {
        id: "deleteWebhookEndpoint",
        path: "/v1/webhook-endpoints/{endpointId}",
        access: Access::Scope(Scope::WebhooksWrite),
        audited: true,
        refusals: &[404],
        tag: "Webhooks",
        summary: "Delete a webhook endpoint",
        description: "Its waiting deliveries are dropped and show as failed; the ledger records no outcome of them. The answer is the \
                      endpoint as it was, but disabled. Deleting a deleted endpoint changes nothing and answers with what is kept \
                      of it.",
        ..Route::DELETE
    };
    type Output = Endpoint;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Endpoint>, Error> {
        let endpoint_id: EndpointId = path_id(request, 0)?;
        let found = query_own(session, &endpoint_id, |reader, id| reader.past_endpoint(id))?;
        let (owner, before) = found;
        Ok(write(
            session.service.clock().now(),
            Self {
                partner_id: owner,
                endpoint_id,
                before: Some(before),
            },
        ))
    }
}

/// Answer to a new endpoint, and to a changed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct EndpointKept {
    /// The endpoint.
    #[serde(flatten)]
    pub endpoint: Endpoint,
    /// The endpoint's own new secret. Shown only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// When the endpoint's own secret takes over from the partner's, if the partner's signed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches_at: Option<Timestamp>,
}

/// A signing secret that was not shown yet.
#[derive(Debug, Clone)]
pub struct NewSecret {
    /// The secret, to be shown once.
    pub secret: Secret,
    /// The secret as the store keeps it.
    pub sealed: Vec<u8>,
}
