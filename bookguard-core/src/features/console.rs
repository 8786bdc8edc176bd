//! Sessions of the console, in which a person acts with a partner's API key. Those of the operator are in
//! [`super::operator_sessions`].
//!
//! A session begins with the key itself ([`StartConsoleSession`]) or with a link that somebody made for the person
//! ([`CreateConsoleLink`], [`OpenConsoleLink`]). The partner lists and ends them. Beginning a session and signing out are for the
//! server's console alone: they are not part of the HTTP interface. A token has 256 random bits. Only its SHA-256 is stored, so it is
//! shown once, and neither the database nor a backup opens anything.
//!
//! Invariants: a session never does what its key could not do now, and ends with it ([`find`] asks for both). A link is opened
//! once. A token that is unknown, expired, ended or of the other kind is one case.

pub(crate) mod rule;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::api_keys::{self, Maker};
use crate::engine::command::Envelope;
use crate::entropy;
use crate::error::{Error, Kind};
use crate::input::{self, Declaration, Form};
use crate::limits;
use crate::model::id::{Id, Noun, id_pattern, noun};
use crate::model::{
    ApiKey, ApiKeyId, ConsoleSession, ConsoleSessionId, Page, PartnerId, Scope, Scopes, Timestamp,
};
use crate::operation::{
    self, Action, Body, LIMIT, Operation, Request, Route, Writing, ids_cursor, paging, path_id,
    query, query_one, query_own, read, write,
};
use crate::service::Service;
use crate::session::{Access, Authority, Session, SignedIn};
use crate::store::read::KeyFound;

/// `POST /v1/console-links`
#[derive(Debug)]
pub struct CreateConsoleLink {
    pub(crate) partner_id: PartnerId,
    pub(crate) console_session_id: ConsoleSessionId,
    /// The calling key; `None` for the administrator.
    pub(crate) by: Option<Maker>,
    /// The key with which the session acts.
    pub(crate) api_key_id: ApiKeyId,
    pub(crate) person: String,
    pub(crate) scopes: Option<Scopes>,
    pub(crate) url: String,
    pub(crate) hash: [u8; 32],
}

/// Body of [`CreateConsoleLink`], read and checked field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleLinkRequest {
    person: String,
    scopes: Option<Scopes>,
    api_key_id: Option<String>,
}

impl Operation for CreateConsoleLink {
    const ROUTE: Route = Route {
        id: "createConsoleLink",
        path: "/v1/console-links",
        access: Access::Scope(Scope::ApiKeysWrite),
        audited: true,
        status: 201,
        body: Body::Required(&ConsoleLinkRequest::BODY),
        refusals: &[404, 409],
        tag: "Console",
        summary: "Make a link that signs a person in",
        description: "Whoever opens the `url` first, within ten minutes, is signed in to the console, and the audit names them as \
                      `person`. The session acts with the calling key: it may do what the key may, or less, for 12 hours at most, \
                      and ends when the key does. The `url` is shown only in this answer.",
        ..Route::POST
    };
    type Output = NewConsoleLink;

    fn prepare(session: &Session, request: &Request) -> Result<Action<NewConsoleLink>, Error> {
        let partner_id = session.partner_id()?;
        let wanted = input::read(&request.body, ConsoleLinkRequest::form)?;
        let by = Maker::of(session);
        let own = by.as_ref().map(|by| by.api_key_id);
        let api_key_id = KEY.chosen(own, wanted.api_key_id.as_deref())?;
        let at = session.service.clock().now();
        let (token, hash) = new_token();
        let create = Self {
            partner_id,
            console_session_id: ConsoleSessionId::new(at, entropy::bytes()),
            by,
            api_key_id,
            person: wanted.person,
            scopes: wanted.scopes,
            url: format!("{}/console/link/{token}", session.service.public_url()),
            hash,
        };
        Ok(write(at, create))
    }
}

/// The key that a link may name.
const KEY: SessionKey = SessionKey {
    member: "apiKeyId",
    about: "The key with which the session acts: the calling key when not given, and no other. The operator must name one.",
    missing: "is missing; the operator has no API key of the partner's",
    fix: "Name the partner's key with which the session is to act.",
};

/// The member of a link's body that names the key with which its session acts.
pub(super) struct SessionKey {
    pub(super) member: &'static str,
    pub(super) about: &'static str,
    /// What is wrong if the caller has no key and names none.
    pub(super) missing: &'static str,
    pub(super) fix: &'static str,
}

impl SessionKey {
    /// Reads the member.
    pub(super) fn form<N: Noun>(&self, form: &mut Form<'_, '_>) -> Option<String> {
        form.about(self.about).optional(self.member, |v| {
            v.describe(|draft| draft.set("pattern", id_pattern(N::PREFIX)))
                .string()
        })
    }

    /// The calling key, and no other; the named one if the caller has none.
    pub(super) fn chosen<N: Noun>(
        &self,
        own: Option<Id<N>>,
        named: Option<&str>,
    ) -> Result<Id<N>, Error> {
        let fault = |code, message, fix| {
            let pointer = format!("/{}", self.member);
            Error::fault(pointer, code, message, fix)
        };
        match (own, named) {
            (Some(own), Some(named)) if named != own.to_string() => Err(fault(
                "not_allowed",
                "is not the key that makes this request",
                "Leave it out, or call with that key.",
            )),
            (Some(own), _) => Ok(own),
            (None, Some(named)) => Id::parse(named).ok_or_else(|| Error::not_found(N::NAME)),
            (None, None) => Err(fault("missing_field", self.missing, self.fix)),
        }
    }
}

/// Reads whom a link is for.
pub(super) fn person(form: &mut Form<'_, '_>) -> Option<String> {
    form.about("The name of the person the link is for, as the audit will show it.")
        .required("person", |v| v.text(limits::NAME_CHARS))
}

/// The session in which somebody calls, to be ended by them.
pub(super) fn own_session(session: &Session) -> Result<ConsoleSessionId, Error> {
    let own = session.signed_in().map(|by| by.console_session_id);
    own.ok_or_else(|| Error::not_found("console session"))
}

impl ConsoleLinkRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "ConsoleLinkRequest",
        about: "A link that signs a person in to the console.",
        example: r#"{"person": "Ada Lovelace", "scopes": ["bookings:read", "evidence:read"]}"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of a link's creation.
    /// Its faults are those of [`input`], and `unknown_scope`.
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let person = person(form);
        let scopes = form
            .about("What the session may do; by default, what the calling key may. Only scopes that this key holds.")
            .optional("scopes", api_keys::scopes);
        let api_key_id = KEY.form::<noun::ApiKey>(form);
        Some(Self {
            person: person?,
            scopes,
            api_key_id,
        })
    }
}

/// A new link to the console, with its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct NewConsoleLink {
    /// The id of the link, and of the session that it begins.
    pub console_session_id: ConsoleSessionId,
    /// The API key with which the session acts.
    pub api_key_id: ApiKeyId,
    /// The address that begins the session, once. Shown once.
    pub url: String,
    /// Whom it is for.
    pub person: String,
    /// What the session may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// From then on it opens nothing.
    pub expires_at: Timestamp,
}

/// `GET /v1/console-sessions`
pub struct ListConsoleSessions;

impl Operation for ListConsoleSessions {
    const ROUTE: Route = Route {
        id: "listConsoleSessions",
        path: "/v1/console-sessions",
        access: Access::Scope(Scope::ApiKeysRead),
        query: &[LIMIT, ids_cursor::<noun::ConsoleSession>()],
        tag: "Console",
        summary: "List console sessions",
        description: "Newest first, with the links that nobody has opened; ended and expired ones too, until 30 days after they \
                      expired. Never shows a link's address.",
        ..Route::GET
    };
    type Output = Page<ConsoleSession>;

    fn prepare(
        session: &Session,
        request: &Request,
    ) -> Result<Action<Page<ConsoleSession>>, Error> {
        let partner_id = session.partner_id()?;
        let page = paging(request)?;
        Ok(read::<Self>(move |session| {
            let now = session.service.clock().now();
            let rows = query(session, |reader| {
                let mut rows = reader.console_sessions(&partner_id, page.before, page.limit + 1)?;
                let ids: Vec<ApiKeyId> = rows.iter().map(|row| row.api_key_id).collect();
                let keys = reader.keys_by_id(&ids)?;
                for row in &mut rows {
                    let key = keys.iter().find(|key| key.api_key_id == row.api_key_id);
                    row.end_with(key.and_then(|key| key.stopped_at(now)));
                }
                Ok(rows)
            })?;
            Ok(Page::of(rows, page.limit, |session| {
                session.console_session_id
            }))
        }))
    }
}

/// `DELETE /v1/console-sessions/{consoleSessionId}`
#[derive(Debug)]
pub struct EndConsoleSession {
    pub(crate) partner_id: PartnerId,
    pub(crate) console_session_id: ConsoleSessionId,
}

impl Operation for EndConsoleSession {
    const ROUTE: Route = Route {
        id: "endConsoleSession",
        path: "/v1/console-sessions/{consoleSessionId}",
        access: Access::Scope(Scope::ApiKeysWrite),
        audited: true,
        refusals: &[404],
        tag: "Console",
        summary: "End a console session",
        description: "Signs the person out, on every node within five seconds. A link that nobody has opened opens nothing from then \
                      on. Ending what has ended changes nothing and answers the same.",
        ..Route::DELETE
    };
    type Output = ConsoleSession;

    fn prepare(session: &Session, request: &Request) -> Result<Action<ConsoleSession>, Error> {
        let console_session_id: ConsoleSessionId = path_id(request, 0)?;
        let partner_id = query_own(session, &console_session_id, |reader, id| {
            reader.console_session_owner(id)
        })?;
        let end = Self {
            partner_id,
            console_session_id,
        };
        Ok(write(session.service.clock().now(), end))
    }
}

/// Ends the caller's own session, whatever its scopes.
pub struct SignOut;

impl Operation for SignOut {
    const ROUTE: Route = Route {
        id: "signOut",
        path: "/console/sign-out",
        access: Access::AnyKey,
        while_suspended: true,
        refusals: &[404],
        tag: "Console",
        summary: "Sign out",
        description: "Ends the caller's console session.",
        ..Route::POST
    };
    type Output = ConsoleSession;

    fn prepare(session: &Session, _: &Request) -> Result<Action<ConsoleSession>, Error> {
        let end = EndConsoleSession {
            partner_id: session.partner_id()?,
            console_session_id: own_session(session)?,
        };
        Ok(write(session.service.clock().now(), end))
    }
}

/// Begins a session with the calling API key.
#[derive(Debug)]
pub struct StartConsoleSession {
    pub(crate) partner_id: PartnerId,
    pub(crate) api_key_id: ApiKeyId,
    pub(crate) scopes: Scopes,
    pub(crate) console_session_id: ConsoleSessionId,
    pub(crate) token: String,
    pub(crate) hash: [u8; 32],
}

impl Operation for StartConsoleSession {
    const ROUTE: Route = Route {
        id: "startConsoleSession",
        path: "/console/sessions",
        access: Access::AnyKey,
        while_suspended: true,
        status: 201,
        refusals: &[409],
        tag: "Console",
        summary: "Sign in with an API key",
        description: "Begins a console session that acts with the calling key.",
        ..Route::POST
    };
    type Output = StartedConsoleSession;

    fn prepare(
        session: &Session,
        request: &Request,
    ) -> Result<Action<StartedConsoleSession>, Error> {
        let maker = Maker::of(session).filter(|_| session.signed_in().is_none());
        // A session does not begin another, which would outlast it.
        let maker = maker.ok_or_else(Error::unauthorized)?;
        let at = session.service.clock().now();
        let (token, hash) = new_token();
        let start = Self {
            partner_id: session.partner_id()?,
            api_key_id: maker.api_key_id,
            scopes: maker.scopes,
            console_session_id: ConsoleSessionId::new(at, entropy::bytes()),
            token,
            hash,
        };
        Ok(recorded::<Self>(session, request, Envelope::new(at, start)))
    }
}

/// Turns a link into a session, once.
#[derive(Debug)]
pub struct OpenConsoleLink {
    pub(crate) partner_id: PartnerId,
    pub(crate) api_key_id: ApiKeyId,
    pub(crate) console_session_id: ConsoleSessionId,
    /// SHA-256 of the link's token.
    pub(crate) link: [u8; 32],
    pub(crate) token: String,
    pub(crate) hash: [u8; 32],
}

impl Operation for OpenConsoleLink {
    const ROUTE: Route = Route {
        id: "openConsoleLink",
        path: "/console/link",
        access: Access::Open,
        status: 201,
        body: Body::Required(&LINK_OPENING),
        refusals: &[404],
        tag: "Console",
        summary: "Sign in with a link",
        description: "Begins the session that the link is for.",
        ..Route::POST
    };
    type Output = StartedConsoleSession;

    fn prepare(
        session: &Session,
        request: &Request,
    ) -> Result<Action<StartedConsoleSession>, Error> {
        let link = input::read(&request.body, link_token)?;
        let link = hash_of(&link);
        let at = session.service.clock().now();
        let found = query_one(session, |reader| reader.live_console_session(&link, at))?;
        let stored = found
            .filter(|stored| stored.session.started_at.is_none())
            .ok_or_else(no_such_link)?;
        let (token, hash) = new_token();
        let begun = stored.session;
        let open = Self {
            partner_id: stored.partner_id,
            api_key_id: begun.api_key_id,
            console_session_id: begun.console_session_id,
            link,
            token,
            hash,
        };
        // The audit names the person whom the link was made for.
        let person = Session {
            authority: Authority::Partner {
                partner_id: stored.partner_id,
                api_key_id: begun.api_key_id,
                scopes: begun.scopes,
                suspended: false,
                signed_in: Some(SignedIn {
                    console_session_id: begun.console_session_id,
                    person: begun.person,
                }),
            },
            ..session.clone()
        };
        Ok(recorded::<Self>(&person, request, Envelope::new(at, open)))
    }
}

/// The body of [`OpenConsoleLink`].
pub(super) const LINK_OPENING: Declaration = Declaration {
    name: "ConsoleLinkOpening",
    about: "The link to open.",
    example: r#"{"token": "sV3v3Jc0lXhQ0Zq4m1oT7yB2nR8kD5fW9gA6eH4iJ2M"}"#,
    reader: |v| v.object(link_token).map(drop),
};

pub(super) fn link_token(form: &mut Form<'_, '_>) -> Option<String> {
    form.about("The last part of the link's address.")
        .required("token", |v| v.string())
}

/// A write that the audit records as done by `by`, outside the changes that a partner may make in a day: a person who may sign in can
/// do so on the busiest one.
pub(super) fn recorded<O: Operation>(
    by: &Session,
    request: &Request,
    mut command: Envelope<O::Output>,
) -> Action<O::Output> {
    let audited = operation::audited::<O>(by, request, &command);
    command.audit = Some(Box::new(audited));
    Action::Write(Writing {
        before: Vec::new(),
        command,
        awaits: None,
    })
}

/// A session that began, with the token that opens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedConsoleSession {
    /// The session's id.
    pub console_session_id: ConsoleSessionId,
    /// What [`find`] takes. Shown once.
    pub token: String,
    /// From then on the session opens nothing.
    pub expires_at: Timestamp,
    /// The session that ended to make room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub displaced: Option<ConsoleSessionId>,
}

pub(super) fn started(
    console_session_id: ConsoleSessionId,
    token: &str,
    expires_at: Timestamp,
) -> StartedConsoleSession {
    StartedConsoleSession {
        console_session_id,
        token: token.to_owned(),
        expires_at,
        displaced: None,
    }
}

/// Deletes sessions that expired long ago.
#[derive(Debug)]
pub(crate) struct ForgetConsoleSessions;

/// A new token and its hash.
pub(super) fn new_token() -> (String, [u8; 32]) {
    let token = URL_SAFE_NO_PAD.encode(entropy::bytes::<{ limits::TOKEN_BYTES }>());
    let hash = hash_of(&token);
    (token, hash)
}

/// SHA-256 of a token's text, as the store keeps it. 256 random bits need no slow hash.
pub fn hash_of(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The error for a link that opens nothing, for whatever reason.
pub(crate) fn no_such_link() -> Error {
    Error::new(
        Kind::NotFound,
        "not_found",
        "This link signs nobody in: it is incomplete, was opened before, has expired, or was ended. Ask whoever gave it to you for a new \
         one.",
    )
}

/// A session that works, with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundConsoleSession {
    /// The session's id.
    pub console_session_id: ConsoleSessionId,
    /// What whoever has its token may do.
    pub authority: Authority,
    /// From then on it opens nothing, unless it is ended before.
    pub expires_at: Timestamp,
    /// Its key, which works.
    pub key: ApiKey,
}

/// The session with this token, if it works now. Any text is looked up, whatever its form. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn find(service: &Service, token: &str) -> Result<Option<FoundConsoleSession>, Error> {
    let (hash, now) = (hash_of(token), service.clock().now());
    let mut reader = service.reader()?;
    let found = reader.live_console_session(&hash, now);
    let found = found.map_err(|e| service.fault(&e))?;
    let Some(stored) = found.filter(|stored| stored.session.started_at.is_some()) else {
        return Ok(None);
    };
    let session = stored.session;
    let key = reader.key_by_id(&session.api_key_id);
    let (key, suspended) = match key.map_err(|e| service.fault(&e))? {
        KeyFound::Owned {
            partner_id,
            key,
            suspended,
        } if partner_id == stored.partner_id && key.works(now) => (key, suspended),
        _ => return Ok(None),
    };
    let ends = key.expires_at.unwrap_or(session.expires_at);
    Ok(Some(FoundConsoleSession {
        console_session_id: session.console_session_id,
        authority: Authority::Partner {
            partner_id: stored.partner_id,
            api_key_id: session.api_key_id,
            scopes: session.scopes.within(&key.scopes),
            suspended,
            signed_in: Some(SignedIn {
                console_session_id: session.console_session_id,
                person: session.person,
            }),
        },
        expires_at: session.expires_at.min(ends),
        key,
    }))
}

/// The instant before which a session must have expired to be deleted at `now`.
fn old_before(now: Timestamp) -> Timestamp {
    now.plus_ms(-limits::CONSOLE_SESSION_KEPT_DAYS * limits::DAY_MS)
}

/// Deletes sessions that expired long ago until none is left. Call this now and then. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer, and the writer's.
pub fn forget_old(service: &Service) -> Result<(), Error> {
    loop {
        let at = service.clock().now();
        if !service.ask(|reader| reader.has_old_console_sessions(old_before(at)))? {
            return Ok(());
        }
        service.submit_and_wait(Envelope::new(at, ForgetConsoleSessions))?;
    }
}
