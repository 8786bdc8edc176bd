//! Webhook endpoints.

use super::{
    Access, Action, Body, CURSOR, LIMIT, Method, Operation, Request, Route, paging, path_id, query,
    query_one, read, write,
};
use crate::command::{Ask, Reply};
use crate::entropy;
use crate::error::Error;
use crate::input::{self, Value};
use crate::limits;
use crate::model::{Endpoint, EndpointId, EventType, Page, Scope};
use crate::session::Session;

/// `POST /v1/webhook-endpoints`
pub struct CreateEndpoint;

/// Body of [`CreateEndpoint`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
pub struct NewEndpoint {
    /// Where events are posted: an https address on the public internet, unless the operator allows others.
    pub url: String,
    /// The types to receive; all when not given.
    pub events: Option<Vec<EventType>>,
    /// Your own words: at most 2,000 characters.
    pub description: Option<String>,
}

impl Operation for CreateEndpoint {
    const ROUTE: Route = Route {
        id: "createWebhookEndpoint",
        method: Method::Post,
        path: "/v1/webhook-endpoints",
        access: Access::Scope(Scope::WebhooksWrite),
        status: 201,
        body: Body::Required,
        query: &[],
        refusals: &[409],
        tag: "Webhooks",
        summary: "Add a webhook endpoint",
        description: "Every later event of a type it takes is posted there, signed. The address must be one webhooks may go to: \
                      https, and no private or special-purpose network, unless the operator allows it.",
    };
    type Output = Endpoint;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Endpoint>, Error> {
        let partner_id = session.partner_id()?;
        let judge = session.service.endpoint_rule();
        let new = NewEndpoint::read(&request.body, judge.as_ref())?;
        let at = session.service.clock().now();
        let endpoint = Endpoint {
            endpoint_id: EndpointId::new(at, entropy::bytes()),
            url: new.url,
            events: new.events.unwrap_or_default(),
            description: new.description,
            enabled: true,
            created_at: at,
        };
        Ok(write(
            at,
            Ask::CreateEndpoint {
                partner_id,
                endpoint,
            },
        ))
    }

    fn pick(reply: Reply) -> Option<Endpoint> {
        match reply {
            Reply::Endpoint(endpoint) => Some(*endpoint),
            _ => None,
        }
    }

    fn location(endpoint: &Endpoint) -> Option<String> {
        Some(format!("/v1/webhook-endpoints/{}", endpoint.endpoint_id))
    }
}

impl NewEndpoint {
    /// Reads the body of an endpoint's creation; `judge` says where webhooks may go.
    pub fn read(
        body: &[u8],
        judge: &dyn Fn(&str) -> Result<String, AddressRefused>,
    ) -> Result<Self, Error> {
        input::read(body, |form| {
            let url = form.required("url", |v| address(v, judge));
            let events = form.optional("events", events);
            let description = form.optional("description", |v| v.text(limits::TEXT_CHARS));
            Some(Self {
                url: url?,
                events,
                description,
            })
        })
    }
}

/// Why webhooks may not go to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRefused {
    /// `invalid_url` or `blocked_address`.
    pub code: &'static str,
    /// What was refused.
    pub message: String,
    /// Which setting would allow it, or what to send.
    pub fix: String,
}

fn address(
    v: &mut Value<'_, '_>,
    judge: &dyn Fn(&str) -> Result<String, AddressRefused>,
) -> Option<String> {
    let text = v.text(limits::URL_CHARS)?;
    match judge(&text) {
        Ok(url) => Some(url),
        Err(refused) => v.fault(refused.code, refused.message, refused.fix),
    }
}

fn events(v: &mut Value<'_, '_>) -> Option<Vec<EventType>> {
    let types = v.reborrow().array(EventType::WORDS.len(), |mut item| {
        item.choice(&EventType::WORDS)
    })?;
    if types.is_empty() {
        return v.fault(
            "empty",
            "is empty; it would never receive anything",
            "Name a type, or leave \"events\" out for all.",
        );
    }
    Some(types)
}

/// `GET /v1/webhook-endpoints`
pub struct ListEndpoints;

impl Operation for ListEndpoints {
    const ROUTE: Route = Route {
        id: "listWebhookEndpoints",
        method: Method::Get,
        path: "/v1/webhook-endpoints",
        access: Access::Scope(Scope::WebhooksRead),
        status: 200,
        body: Body::None,
        query: &[LIMIT, CURSOR],
        refusals: &[],
        tag: "Webhooks",
        summary: "List webhook endpoints",
        description: "Newest first.",
    };
    type Output = Page<Endpoint>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<Endpoint>>, Error> {
        let partner_id = session.partner_id()?;
        let page = paging(request)?;
        Ok(read(move |session| {
            let rows = query(session, |reader| {
                reader.endpoints(&partner_id, page.before, page.limit + 1)
            })?;
            Ok(Page::of(rows, page.limit, |endpoint| {
                endpoint.endpoint_id.to_string()
            }))
        }))
    }
}

/// `GET /v1/webhook-endpoints/{endpointId}`
pub struct GetEndpoint;

impl Operation for GetEndpoint {
    const ROUTE: Route = Route {
        id: "getWebhookEndpoint",
        method: Method::Get,
        path: "/v1/webhook-endpoints/{endpointId}",
        access: Access::Scope(Scope::WebhooksRead),
        status: 200,
        body: Body::None,
        query: &[],
        refusals: &[404],
        tag: "Webhooks",
        summary: "One webhook endpoint",
        description: "`enabled` is false after its receiver answered 410 Gone.",
    };
    type Output = Endpoint;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Endpoint>, Error> {
        let endpoint_id: EndpointId = path_id(request, 0)?;
        Ok(read(move |session| {
            query_one(session, |reader| reader.endpoint(&endpoint_id))?
                .filter(|(owner, _)| session.may_see(owner))
                .map(|(_, endpoint)| endpoint)
                .ok_or_else(|| Error::not_found("webhook endpoint"))
        }))
    }
}

/// `DELETE /v1/webhook-endpoints/{endpointId}`
pub struct DeleteEndpoint;

impl Operation for DeleteEndpoint {
    const ROUTE: Route = Route {
        id: "deleteWebhookEndpoint",
        method: Method::Delete,
        path: "/v1/webhook-endpoints/{endpointId}",
        access: Access::Scope(Scope::WebhooksWrite),
        status: 200,
        body: Body::None,
        query: &[],
        refusals: &[404],
        tag: "Webhooks",
        summary: "Delete a webhook endpoint",
        description: "Deliveries that still wait for it are given up and show as failed. The answer is the endpoint as it was.",
    };
    type Output = Endpoint;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Endpoint>, Error> {
        let endpoint_id: EndpointId = path_id(request, 0)?;
        let (owner, _) = query_one(session, |reader| reader.endpoint(&endpoint_id))?
            .filter(|(owner, _)| session.may_see(owner))
            .ok_or_else(|| Error::not_found("webhook endpoint"))?;
        Ok(write(
            session.service.clock().now(),
            Ask::DeleteEndpoint {
                partner_id: owner,
                endpoint_id,
            },
        ))
    }

    fn pick(reply: Reply) -> Option<Endpoint> {
        CreateEndpoint::pick(reply)
    }
}
