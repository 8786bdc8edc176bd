//! Rotation of signing secrets: a partner's, and an endpoint's own.

use crate::model::{EndpointId, PartnerId, Scope, Timestamp};
use serde::{Deserialize, Serialize};

use super::new_secret;
use crate::error::Error;
use crate::features::api_keys::rotation::overlap_ms;
use crate::features::endpoints::NewSecret;
use crate::input::{self, Declaration, Form};
use crate::operation::{Action, Body, Operation, Request, Route, path_id, query_own, write};
use crate::session::{Access, Session};

/// `POST /v1/partners/me/rotate-secret`
pub struct RotatePartnerSecret;

/// `POST /v1/webhook-endpoints/{endpointId}/rotate-secret`
pub struct RotateEndpointSecret;

/// Replaces the secret that signs a partner's webhooks, or those of one endpoint.
#[derive(Debug)]
pub(crate) struct RotateSecret {
    pub(crate) partner_id: PartnerId,
    /// The endpoint; the partner's own secret if absent.
    pub(crate) endpoint_id: Option<EndpointId>,
    /// The new secret.
    pub(crate) secret: NewSecret,
    /// How long the old secret goes on signing, in milliseconds.
    pub(crate) overlap_ms: i64,
}

/// Body of both rotations.
const ROTATION: Declaration = Declaration {
    name: "SecretRotation",
    about: "How a signing secret is replaced.",
    example: r#"{"overlapSeconds": 3600}"#,
    reader: |v| v.object(overlap).map(drop),
};

/// Reads for how many milliseconds the old secret goes on signing.
fn overlap(form: &mut Form<'_, '_>) -> Option<i64> {
    let about = "Seconds for which the old secret goes on signing beside the new one.";
    overlap_ms(form, about)
}

fn rotate(
    session: &Session,
    request: &Request,
    partner_id: PartnerId,
    endpoint_id: Option<EndpointId>,
) -> Result<Action<RotatedSecret>, Error> {
    let overlap_ms = input::read(input::or_empty(&request.body), overlap)?;
    let owner = endpoint_id.map_or(*partner_id.as_bytes(), |id| *id.as_bytes());
    Ok(write(
        session.service.clock().now(),
        RotateSecret {
            partner_id,
            endpoint_id,
            secret: new_secret(session, &owner),
            overlap_ms,
        },
    ))
}

impl Operation for RotatePartnerSecret {
    const ROUTE: Route = Route {
        id: "rotatePartnerSecret",
        path: "/v1/partners/me/rotate-secret",
        access: Access::Scope(Scope::WebhooksWrite),
        audited: true,
        body: Body::Optional(&ROTATION),
        refusals: &[409],
        tag: "Webhooks",
        summary: "Replace the partner's signing secret",
        description: "Returns the new secret, only this once, and when it takes over. Until then `x-service-signature` is made \
                      with the old secret and `webhook-signature` lists a signature of each, so receivers can change over one \
                      by one; from then on only the new one signs. `\"overlapSeconds\": 0` ends the old secret at once, within \
                      three seconds on every node.",
        ..Route::POST
    };
    type Output = RotatedSecret;

    fn prepare(session: &Session, request: &Request) -> Result<Action<RotatedSecret>, Error> {
        rotate(session, request, session.partner_id()?, None)
    }
}

impl Operation for RotateEndpointSecret {
    const ROUTE: Route = Route {
        id: "rotateWebhookEndpointSecret",
        path: "/v1/webhook-endpoints/{endpointId}/rotate-secret",
        access: Access::Scope(Scope::WebhooksWrite),
        audited: true,
        body: Body::Optional(&ROTATION),
        refusals: &[404, 409],
        tag: "Webhooks",
        summary: "Replace an endpoint's own signing secret",
        description: "Like the rotation of the partner's secret, for an endpoint with its own secret.",
        ..Route::POST
    };
    type Output = RotatedSecret;

    fn prepare(session: &Session, request: &Request) -> Result<Action<RotatedSecret>, Error> {
        let endpoint_id: EndpointId = path_id(request, 0)?;
        let (owner, _) = query_own(session, &endpoint_id, |reader, id| reader.endpoint(id))?;
        rotate(session, request, owner, Some(endpoint_id))
    }
}

/// Answer to the rotation of a signing secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct RotatedSecret {
    /// The new secret; a registration calls it `signingSecret`. Shown once.
    pub secret: String,
    /// Until then, the old secret makes `x-service-signature`, and `webhook-signature` lists one signature of each secret;
    /// from then on, only the new secret signs.
    pub switches_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlap_is_a_day_unless_said_otherwise_and_a_week_at_most() {
        for (body, overlap_ms) in [
            ("", Some(86_400_000)),
            ("{}", Some(86_400_000)),
            (r#"{"overlapSeconds":0}"#, Some(0)),
            (r#"{"overlapSeconds":604800}"#, Some(604_800_000)),
            (r#"{"overlapSeconds":604801}"#, None),
        ] {
            assert_eq!(
                input::read(input::or_empty(body.as_bytes()), overlap).ok(),
                overlap_ms,
                "{body}"
            );
        }
    }
}
