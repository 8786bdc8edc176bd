//! Changes a webhook endpoint, or enables one that was disabled.

use super::{ANYWHERE, AddressCheck, NewSecret, address, events, new_secret, rate_limit};
use crate::error::Error;
use crate::features::endpoints::EndpointKept;
use crate::input::{self, Declaration, Form};
use crate::limits;
use crate::model::{EndpointId, EventType, PartnerId, Scope};
use crate::operation::{Action, Body, Operation, Request, Route, path_id, query_own, write};
use crate::session::{Access, Session};

/// `PATCH /v1/webhook-endpoints/{endpointId}`
#[derive(Debug)]
pub struct UpdateEndpoint {
    pub(crate) partner_id: PartnerId,
    pub(crate) endpoint_id: EndpointId,
    pub(crate) changes: EndpointChanges,
    /// An own secret, used if the endpoint is to have one and has none.
    pub(crate) secret: Option<NewSecret>,
    /// Whether a new address must be verified.
    pub(crate) verifies: bool,
}

/// Body of [`UpdateEndpoint`]; absent members stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointChanges {
    /// The address.
    pub url: Option<String>,
    /// The event types; empty means those of the specification.
    pub events: Option<Vec<EventType>>,
    /// The description; `Some(None)` removes it.
    pub description: Option<Option<String>>,
    /// The limit on deliveries per second; `Some(None)` removes it.
    pub rate_limit_per_second: Option<Option<u32>>,
    /// Whether events are sent there.
    pub enabled: Option<bool>,
    /// Whether it has its own secret.
    pub own_secret: Option<bool>,
}

impl Operation for UpdateEndpoint {
    const ROUTE: Route = Route {
        id: "updateWebhookEndpoint",
        path: "/v1/webhook-endpoints/{endpointId}",
        access: Access::Scope(Scope::WebhooksWrite),
        audited: true,
        body: Body::Required(&EndpointChanges::BODY),
        refusals: &[404, 409],
        tag: "Webhooks",
        summary: "Change a webhook endpoint, or bring it back",
        description: "A field that is left out stays as it is; null removes it. A new address takes effect on every node \
                      within three seconds, also for deliveries that already wait; its receiver must accept a delivery first \
                      (`unverifiedSince`), and no other endpoint of yours may have it. A disabled endpoint gets no new events, \
                      and its waiting deliveries keep waiting; `\"enabled\": true` brings it back, also after a 410 or a \
                      suspension, and delivers each of them when it is due: what waits for a later attempt keeps its time, and a retry \
                      or a recovery sends it now. A delivery that was itself answered 410 stays given up; retry its event \
                      to send it again. `\"ownSecret\": true` returns the endpoint's own secret, which takes over from the \
                      partner's after a day: see `switchesAt` and the rotation of secrets.",
        ..Route::PATCH
    };
    type Output = EndpointKept;

    fn prepare(session: &Session, request: &Request) -> Result<Action<EndpointKept>, Error> {
        let endpoint_id: EndpointId = path_id(request, 0)?;
        let judge = session.service.config().endpoint_rule.as_ref();
        let changes = input::read(&request.body, |form| EndpointChanges::form(form, judge))?;
        let (owner, _) = query_own(session, &endpoint_id, |reader, id| reader.endpoint(id))?;
        let has_own = changes.own_secret == Some(true);
        Ok(write(
            session.service.clock().now(),
            Self {
                partner_id: owner,
                endpoint_id,
                changes,
                secret: has_own.then(|| new_secret(session, endpoint_id.as_bytes())),
                verifies: session.service.config().verifies_endpoints,
            },
        ))
    }
}

impl EndpointChanges {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "EndpointChanges",
        about: "Changes to a webhook endpoint; what is left out stays.",
        example: r#"{"description": "Production, Frankfurt", "rateLimitPerSecond": null, "enabled": true}"#,
        reader: |v| v.object(|form| Self::form(form, &ANYWHERE)).map(drop),
    };

    fn form(form: &mut Form<'_, '_>, judge: AddressCheck<'_>) -> Option<Self> {
        let url = form
            .about("Where events are posted from now on, including those that still wait.")
            .optional("url", |v| address(v, judge));
        let events = form
            .about("The types to receive from now on; null for booking.created, booking.protected and resolution.created.")
            .nullable("events", |v| events(v, "send null"));
        let description = form
            .about("Your own words; null removes them.")
            .nullable("description", |v| v.text(limits::TEXT_CHARS));
        let rate_limit_per_second = form
            .about("Deliveries begun per second at most, on each node; null for no limit.")
            .nullable("rateLimitPerSecond", rate_limit);
        let enabled = form
            .about(
                "Whether events that happen from now on go there. True brings back an endpoint that was disabled, by you or by \
                 a 410.",
            )
            .optional("enabled", |v| v.boolean());
        let own_secret = form
            .about("True gives it a signing secret of its own, shown only once; false goes back to the partner's, at once.")
            .optional("ownSecret", |v| v.boolean());
        Some(Self {
            url,
            events: events.map(Option::unwrap_or_default),
            description,
            rate_limit_per_second,
            enabled,
            own_secret,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> EndpointChanges {
        input::read(body.as_bytes(), |form| {
            EndpointChanges::form(form, &ANYWHERE)
        })
        .unwrap()
    }

    #[test]
    fn what_is_left_out_stays_and_null_removes_what_can_be_removed() {
        assert_eq!(read("{}"), EndpointChanges::default());
        let nulls = r#"{"events":null,"description":null,"rateLimitPerSecond":null}"#;
        let removed = EndpointChanges {
            events: Some(vec![]),
            description: Some(None),
            rate_limit_per_second: Some(None),
            ..EndpointChanges::default()
        };
        assert_eq!(read(nulls), removed);
    }

    #[test]
    fn an_empty_list_of_types_says_how_to_ask_for_the_default_ones() {
        let refused = input::read(br#"{"events":[]}"#, |form| {
            EndpointChanges::form(form, &ANYWHERE)
        });
        let faults = refused.unwrap_err().details;
        assert!(faults[0].fix.contains("or send null"), "{faults:?}");
    }
}
