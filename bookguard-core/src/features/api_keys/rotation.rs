//! Rotation of an API key: a new key takes its place, and both work for a while.

use serde::{Deserialize, Serialize};

use super::{Maker, NewApiKey, new_key};
use crate::engine::command::NewKey;
use crate::error::Error;
use crate::input::{self, Declaration, Form, Json};
use crate::limits::{SECRET_OVERLAP_DEFAULT_MS, SECRET_OVERLAP_MS};
use crate::model::{ApiKeyId, ApiKeySecret, PartnerId, Scope, Scopes, Timestamp};
use crate::operation::{Action, Body, Operation, Request, Route, path_id, query_own, write};
use crate::session::{Access, Session};

const SECOND_MS: i64 = 1000;

/// `POST /v1/api-keys/{apiKeyId}/rotate`
#[derive(Debug)]
pub struct RotateApiKey {
    pub(crate) partner_id: PartnerId,
    pub(crate) api_key_id: ApiKeyId,
    /// The calling key; `None` for the administrator, who may rotate any key.
    pub(crate) by: Option<Maker>,
    /// The new key. Its name, scopes and expiry follow from the key that it replaces.
    pub(crate) key: NewKey,
    pub(crate) secret: ApiKeySecret,
    /// For how many milliseconds the replaced key goes on working.
    pub(crate) overlap_ms: i64,
}

const ROTATION: Declaration = Declaration {
    name: "ApiKeyRotation",
    about: "How an API key is replaced.",
    example: r#"{"overlapSeconds": 3600}"#,
    reader: |v| {
        v.object(|form| {
            overlap_ms(
                form,
                "Seconds for which the old key works beside the new one: 0 ends it now, 3600 in an hour, 604800 in a week.",
            )
        })
        .map(drop)
    },
};

/// Reads for how many milliseconds the old one stays beside the new one.
pub(in crate::features) fn overlap_ms(form: &mut Form<'_, '_>, about: &'static str) -> Option<i64> {
    let seconds = form.about(about).optional("overlapSeconds", |v| {
        v.describe(|draft| {
            draft.set("default", SECRET_OVERLAP_DEFAULT_MS / SECOND_MS);
            draft.set("examples", Json::array([0, 3600, 86_400, 259_200, 604_800]));
        })
        .integer(0, SECRET_OVERLAP_MS / SECOND_MS)
    });
    Some(seconds.map_or(SECRET_OVERLAP_DEFAULT_MS, |s| s * SECOND_MS))
}

impl Operation for RotateApiKey {
    const ROUTE: Route = Route {
        id: "rotateApiKey",
        path: "/v1/api-keys/{apiKeyId}/rotate",
        access: Access::Scope(Scope::ApiKeysWrite),
        audited: true,
        status: 201,
        body: Body::Optional(&ROTATION),
        refusals: &[404, 409],
        tag: "API keys",
        summary: "Replace an API key",
        description: "The new key has the name and the scopes of the old one, and is shown only once. If the old key was made to \
                      expire, the new one gets the same lifetime, counted from now. The old key works until `replacedExpiresAt`, so \
                      programs can change over one by one; with `\"overlapSeconds\": 0` it stops within five seconds on every node. A \
                      key can rotate itself. It can rotate another key if it holds that key's scopes and does not expire before the \
                      new one.",
        ..Route::POST
    };
    type Output = RotatedApiKey;

    fn prepare(session: &Session, request: &Request) -> Result<Action<RotatedApiKey>, Error> {
        let api_key_id: ApiKeyId = path_id(request, 0)?;
        let overlap_ms = input::read(input::or_empty(&request.body), |form| overlap_ms(form, ""))?;
        let partner_id = query_own(session, &api_key_id, |reader, id| reader.key_owner(id))?;
        let at = session.service.clock().now();
        let (key, secret) = new_key(at, "", Scopes::all());
        let rotate = Self {
            partner_id,
            api_key_id,
            by: Maker::of(session),
            key,
            secret,
            overlap_ms,
        };
        Ok(write(at, rotate))
    }
}

/// Answer to the rotation of an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct RotatedApiKey {
    /// The new key.
    #[serde(flatten)]
    pub key: NewApiKey,
    /// The key that it replaces.
    pub replaced_api_key_id: ApiKeyId,
    /// From then on, the replaced key does not work.
    pub replaced_expires_at: Timestamp,
}
