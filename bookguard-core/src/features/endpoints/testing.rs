//! A test of a webhook endpoint: sends one real delivery now and reports the result.
//!
//! A test is not an event: it has no number, is not listed and is not repeated, and its result never changes the
//! endpoint; an unverified one only keeps when it may be tried next. The courier sends it.

use std::sync::Arc;

use crate::entropy;
use crate::error::Error;
use crate::features::attempts::AttemptRecord;
use crate::model::{EndpointId, EventId, PartnerId, Scope, Timestamp};
use crate::operation::{
    Action, Awaits, Operation, Request, Route, TestDelivery, path_id, query_own, write_awaiting,
};
use crate::session::{Access, Session};
use crate::webhook::{Attempt, FailureClass, body};

/// `POST /v1/webhook-endpoints/{endpointId}/test`
#[derive(Debug)]
pub struct TestEndpoint {
    pub(crate) partner_id: PartnerId,
    pub(crate) endpoint_id: EndpointId,
}

impl Operation for TestEndpoint {
    const ROUTE: Route = Route {
        id: "testWebhookEndpoint",
        path: "/v1/webhook-endpoints/{endpointId}/test",
        access: Access::Scope(Scope::WebhooksWrite),
        refusals: &[404, 409],
        tag: "Webhooks",
        summary: "Send a test to an endpoint, now",
        description: "Posts \
                      `{\"eventId\",\"type\":\"endpoint.test\",\"bookingId\":null,\"timestamp\",\"status\":\"pending\",\"payload\":{\"partnerId\",\"endpointId\"}}` \
                      there, signed and checked as every delivery is, and returns the result of that one attempt, within \
                      fifteen seconds. It works for a disabled endpoint too, is listed nowhere, and changes nothing about the \
                      endpoint, not even if it answers 410. One test of an endpoint at a time, and four of a partner's \
                      on one node. An endpoint that has not accepted a delivery yet (`unverifiedSince`) must be enabled, and a \
                      test takes the turn of a delivery there: six of both together a minute, and 429 says when the next test \
                      may begin.",
        ..Route::POST
    };
    type Output = AttemptRecord;

    fn prepare(session: &Session, request: &Request) -> Result<Action<AttemptRecord>, Error> {
        let endpoint_id: EndpointId = path_id(request, 0)?;
        let (partner_id, _) = query_own(session, &endpoint_id, |reader, id| reader.endpoint(id))?;
        let at = session.service.clock().now();
        let event_id = EventId::new(at, entropy::bytes());
        let body = body::test(event_id, partner_id, endpoint_id, at);
        let test = TestDelivery {
            partner_id,
            endpoint_id,
            event_id,
            body: Arc::from(body.into_bytes()),
        };
        let command = Self {
            partner_id,
            endpoint_id,
        };
        Ok(write_awaiting(at, command, Awaits::Test(test)))
    }
}

impl TestEndpoint {
    /// The answer remembered until the attempt has ended, and for good if the service stops before.
    pub(crate) fn unknown(&self, at: Timestamp) -> AttemptRecord {
        let attempt = Attempt {
            class: Some(FailureClass::OurFault),
            detail: Some(
                "the result of the test is not known here; test again with another Idempotency-Key"
                    .to_owned(),
            ),
            ..Attempt::begun(at.ms())
        };
        AttemptRecord::of(self.endpoint_id, 1, &attempt)
    }
}
