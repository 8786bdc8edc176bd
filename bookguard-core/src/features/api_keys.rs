//! Creating, listing and revoking API keys.

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
    Action, Body, LIMIT, Operation, Request, Route, ids_cursor, paging, path_id, query, query_one,
    read, write,
};
use crate::session::{Access, Authority, Session};

/// `POST /v1/api-keys`
#[derive(Debug)]
pub struct CreateApiKey {
    pub(crate) partner_id: PartnerId,
    pub(crate) key: NewKey,
    pub(crate) reply: NewApiKey,
}

/// Body of [`CreateApiKey`], read and checked field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    name: Option<String>,
    scopes: Option<Scopes>,
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
        description: "The key is shown only once. A key can create only keys whose scopes it holds.",
        ..Route::POST
    };
    type Output = NewApiKey;

    fn prepare(session: &Session, request: &Request) -> Result<Action<NewApiKey>, Error> {
        let partner_id = session.partner_id()?;
        let wanted = KeyRequest::read(&request.body)?;
        let own = match &session.authority {
            Authority::Partner { scopes, .. } => scopes.clone(),
            _ => Scopes::all(),
        };
        let scopes = wanted.scopes.unwrap_or_else(|| own.clone());
        let beyond = own.lacks(&scopes);
        if !beyond.is_empty() {
            return Err(Error {
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
            });
        }
        let at = session.service.clock().now();
        let (key, secret) = new_key(at, wanted.name.as_deref().unwrap_or("API key"), scopes);
        let reply = NewApiKey {
            api_key_id: key.key.api_key_id,
            api_key: secret.reveal().to_owned(),
            name: key.key.name.clone(),
            scopes: key.key.scopes.clone(),
            created_at: at,
        };
        Ok(write(
            at,
            Self {
                partner_id,
                key,
                reply,
            },
        ))
    }
}

impl KeyRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "KeyRequest",
        about: "An API key to create.",
        example: r#"{"name": "Booking desk", "scopes": ["bookings:read", "bookings:write"]}"#,
        reader: |v| {
            v.object(Self::form);
        },
    };

    /// Reads the body of a key's creation; an empty body selects the defaults.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        input::read(input::or_empty(body), Self::form)
    }

    fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let name = form
            .about("What the key is for; \"API key\" when not given.")
            .optional("name", |v| v.text(limits::NAME_CHARS));
        let scopes = form
            .about("What it may do; the creator's own scopes when not given. Only scopes the creator holds.")
            .optional("scopes", scopes);
        Some(Self { name, scopes })
    }
}

fn scopes(v: &mut Value<'_, '_>) -> Option<Scopes> {
    let words = v.at_least(1).array(limits::SCOPES, |item| {
        let word = item.known_as("Scope")?.string()?;
        if Scopes::parse(&[&word]).is_ok() {
            return Some(word);
        }
        let vocabulary = Scopes::vocabulary();
        let fix = match input::nearest(&word, &vocabulary) {
            Some(near) => format!("Did you mean \"{near}\"?"),
            None => format!("Send any of: {}.", vocabulary.join(", ")),
        };
        item.fault(
            "unknown_scope",
            format!("\"{}\" is not a scope", input::shorten(&word)),
            fix,
        )
    })?;
    if words.is_empty() {
        return v.fault(
            "empty",
            "is empty; a key without scopes is useless",
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
        description: "Newest first, revoked ones included. Never shows a key itself, only its last four characters.",
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
            Ok(Page::of(rows, page.limit, |key| key.api_key_id.to_string()))
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
            without one, the partner could not make another.",
        ..Route::DELETE
    };
    type Output = ApiKey;

    fn prepare(session: &Session, request: &Request) -> Result<Action<ApiKey>, Error> {
        let api_key_id: ApiKeyId = path_id(request, 0)?;
        let owner = query_one(session, |reader| reader.key_owner(&api_key_id))?
            .filter(|owner| session.may_see(owner))
            .ok_or_else(|| Error::not_found("API key"))?;
        let by = match &session.authority {
            Authority::Partner { scopes, .. } => Some(scopes.clone()),
            _ => None,
        };
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
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
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
