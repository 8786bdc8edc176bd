//! Creating, listing, rotating and revoking API keys.

pub mod rotation;
pub(crate) mod rule;

use crate::model::{ApiKey, ApiKeyId, ApiKeySecret, Page, PartnerId, Scope, Scopes, Timestamp};
use serde::{Deserialize, Serialize};

use crate::engine::command::NewKey;
use crate::entropy;
use crate::error::{Error, FieldError, Kind};
use crate::input::{self, Declaration, Form, Value};
use crate::limits;
use crate::model::id::noun;
use crate::operation::{
    Action, Body, LIMIT, Operation, Request, Route, ids_cursor, paging, path_id, query, query_own,
    read, write,
};
use crate::session::{Access, Authority, Session};

/// `POST /v1/api-keys`
#[derive(Debug)]
pub struct CreateApiKey {
    pub(crate) partner_id: PartnerId,
    /// The calling key; `None` for the administrator.
    pub(crate) by: Option<Maker>,
    pub(crate) key: NewKey,
    pub(crate) secret: ApiKeySecret,
}

/// The key that makes another.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    pub(crate) api_key_id: ApiKeyId,
    pub(crate) scopes: Scopes,
}

impl Maker {
    pub(crate) fn of(session: &Session) -> Option<Self> {
        match &session.authority {
            Authority::Partner {
                api_key_id, scopes, ..
            } => Some(Self {
                api_key_id: *api_key_id,
                scopes: scopes.clone(),
            }),
            _ => None,
        }
    }
}

/// Body of [`CreateApiKey`], read and checked field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    name: Option<String>,
    scopes: Option<Scopes>,
    expires_at: Option<Timestamp>,
}

impl Operation for CreateApiKey {
    const ROUTE: Route = Route {
        id: "createApiKey",
        path: "/v1/api-keys",
        access: Access::Scope(Scope::ApiKeysWrite),
        audited: true,
        status: 201,
        body: Body::Optional(&KeyRequest::BODY),
        refusals: &[409],
        tag: "API keys",
        summary: "Create an API key",
        description: "The key is shown only once. A key can create only keys whose scopes it holds, and none that outlives it.",
        ..Route::POST
    };
    type Output = NewApiKey;

    fn prepare(session: &Session, request: &Request) -> Result<Action<NewApiKey>, Error> {
        let partner_id = session.partner_id()?;
        let at = session.service.clock().now();
        let wanted = KeyRequest::read(&request.body, at)?;
        let by = Maker::of(session);
        let own = by.as_ref().map_or_else(Scopes::all, |by| by.scopes.clone());
        let scopes = given_scopes(&own, wanted.scopes)?;
        let name = wanted.name.as_deref().unwrap_or("API key");
        let (mut key, secret) = new_key(at, name, scopes);
        key.key.expires_at = wanted.expires_at;
        let create = Self {
            partner_id,
            by,
            key,
            secret,
        };
        Ok(write(at, create))
    }
}

/// The scopes that a key gives away: its own, or those of them that are wanted.
pub(crate) fn given_scopes(own: &Scopes, wanted: Option<Scopes>) -> Result<Scopes, Error> {
    let scopes = wanted.unwrap_or_else(|| own.clone());
    let beyond = own.lacks(&scopes);
    if beyond.is_empty() {
        return Ok(scopes);
    }
    Err(Error {
        details: vec![FieldError::new(
            "/scopes",
            "insufficient_scope",
            format!("names scopes this key does not hold: {}", beyond.join(", ")),
            format!("Ask for at most: {}.", own.words().join(", ")),
        )],
        ..Error::new(
            Kind::Forbidden,
            "insufficient_scope",
            format!(
                "This key cannot give away scopes it does not hold: {}.",
                beyond.join(", ")
            ),
        )
    })
}

/// Reads when a key that is made `now` stops working. Without a `now`, every instant will do.
fn expiry(v: &mut Value<'_, '_>, now: Option<Timestamp>) -> Option<Timestamp> {
    let expires_at = input::instant(v)?;
    let Some(now) = now else {
        return Some(expires_at);
    };
    let last = now.plus_ms(limits::KEY_DAYS * limits::DAY_MS);
    if now < expires_at && expires_at <= last {
        return Some(expires_at);
    }
    let what = match expires_at <= now {
        true => format!("{expires_at} is not in the future (it is {now})"),
        false => format!("{expires_at} is more than {} days ahead", limits::KEY_DAYS),
    };
    let fix = format!("Send an instant in the future, {last} at the latest, or leave it out.");
    v.fault("expiry_out_of_range", what, fix)
}

impl KeyRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "KeyRequest",
        about: "An API key to create.",
        example: r#"{"name": "Booking desk", "scopes": ["bookings:read", "bookings:write"], "expiresAt": "2031-06-01T09:00:00Z"}"#,
        reader: |v| v.object(|form| Self::form(form, None)).map(drop),
    };

    /// Reads the body of a key's creation, which was received `now`; an empty body selects the defaults.
    ///
    /// # Errors
    /// Those of [`input`], `unknown_scope` and `expiry_out_of_range`.
    pub fn read(body: &[u8], now: Timestamp) -> Result<Self, Error> {
        input::read(input::or_empty(body), |form| Self::form(form, Some(now)))
    }

    fn form(form: &mut Form<'_, '_>, now: Option<Timestamp>) -> Option<Self> {
        let name = form
            .about("What the key is for; \"API key\" when not given.")
            .optional("name", |v| v.text(limits::NAME_CHARS));
        let scopes = form
            .about("What it may do; the creator's own scopes when not given. Only scopes the creator holds.")
            .optional("scopes", scopes);
        let expires_at = form
            .about(
                "When it stops working: at most ten years ahead, and not later than the key that creates it. When not given: when \
                 that key does, or never.",
            )
            .optional("expiresAt", |v| expiry(v, now));
        Some(Self {
            name,
            scopes,
            expires_at,
        })
    }
}

/// Reads a list of scopes.
pub(crate) fn scopes(v: &mut Value<'_, '_>) -> Option<Scopes> {
    let words = v.at_least(1).array(limits::SCOPES, |item| {
        let word = item.known_as("Scope")?.string()?;
        if Scopes::parse(&[&word]).is_ok() {
            return Some(word);
        }
        let (_, fix) = input::not_allowed(&word, &Scopes::vocabulary());
        item.fault(
            "unknown_scope",
            format!("\"{}\" is not a scope", input::shorten(&word)),
            fix,
        )
    })?;
    if words.is_empty() {
        return v.fault(
            "empty",
            "is empty; without a scope, nothing is allowed",
            "Name a scope, or leave \"scopes\" out.",
        );
    }
    Scopes::parse(&words).ok()
}

/// `GET /v1/api-keys`
pub struct ListApiKeys;

impl Operation for ListApiKeys {
    const ROUTE: Route = Route {
        id: "listApiKeys",
        path: "/v1/api-keys",
        access: Access::Scope(Scope::ApiKeysRead),
        query: &[LIMIT, ids_cursor::<noun::ApiKey>()],
        tag: "API keys",
        summary: "List API keys",
        description: "Newest first, revoked and expired ones included. Never shows a key itself, only its last four characters.",
        ..Route::GET
    };
    type Output = Page<ApiKey>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<ApiKey>>, Error> {
        let partner_id = session.partner_id()?;
        let page = paging(request)?;
        Ok(read::<Self>(move |session| {
            let rows = query(session, |reader| {
                reader.keys(&partner_id, page.before, page.limit + 1)
            })?;
            Ok(Page::of(rows, page.limit, |key| key.api_key_id))
        }))
    }
}

/// `DELETE /v1/api-keys/{apiKeyId}`
#[derive(Debug)]
pub struct RevokeApiKey {
    pub(crate) partner_id: PartnerId,
    pub(crate) api_key_id: ApiKeyId,
    /// The scopes of the calling key; `None` for the administrator, who may revoke any key.
    pub(crate) by: Option<Scopes>,
}

impl Operation for RevokeApiKey {
    const ROUTE: Route = Route {
        id: "revokeApiKey",
        path: "/v1/api-keys/{apiKeyId}",
        access: Access::Scope(Scope::ApiKeysWrite),
        audited: true,
        refusals: &[404, 409],
        tag: "API keys",
        summary: "Revoke an API key",
        description: "Takes effect on every node within five seconds. Revoking a revoked key changes nothing and answers the \
                      same. \
            A key can revoke only keys whose scopes it holds, itself included, and not the last active key with `api-keys:write`: \
            without one, the partner could not make another. A key that expires within seven days, and before the one to revoke, does \
            not count as another.",
        ..Route::DELETE
    };
    type Output = ApiKey;

    fn prepare(session: &Session, request: &Request) -> Result<Action<ApiKey>, Error> {
        let api_key_id: ApiKeyId = path_id(request, 0)?;
        let owner = query_own(session, &api_key_id, |reader, id| reader.key_owner(id))?;
        let by = Maker::of(session).map(|by| by.scopes);
        Ok(write(
            session.service.clock().now(),
            Self {
                partner_id: owner,
                api_key_id,
                by,
            },
        ))
    }
}

/// A new key, shown once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct NewApiKey {
    /// The key's id.
    pub api_key_id: ApiKeyId,
    /// The key itself. Shown once.
    pub api_key: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// From then on it does not work. Absent if it works until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl NewApiKey {
    /// Shows a key with its secret.
    pub(crate) fn showing(key: &ApiKey, secret: &ApiKeySecret) -> Self {
        Self {
            api_key_id: key.api_key_id,
            api_key: secret.reveal().to_owned(),
            name: key.name.clone(),
            scopes: key.scopes.clone(),
            created_at: key.created_at,
            expires_at: key.expires_at,
        }
    }
}

/// Makes a key with a new secret and id.
pub(super) fn new_key(at: Timestamp, name: &str, scopes: Scopes) -> (NewKey, ApiKeySecret) {
    let secret = ApiKeySecret::generate(|| entropy::bytes::<1>()[0]);
    let key = ApiKey {
        api_key_id: ApiKeyId::new(at, entropy::bytes()),
        name: name.to_owned(),
        scopes,
        hint: secret.hint(),
        created_at: at,
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
    };
    (
        NewKey {
            key,
            hash: secret.hash(),
        },
        secret,
    )
}
