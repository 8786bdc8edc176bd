//! Sessions of the operator's console, in which a person acts with an operator key.
//!
//! They begin and end as those of partners do ([`super::console`]), and are kept in the same table. Invariants: a session ends with
//! its key ([`find`] asks for both). No token of a partner's session or link opens one of these, and none of these opens one of a
//! partner's: the store reads each as what it is only.

pub(crate) mod rule;

use serde::{Deserialize, Serialize};

use super::console::{
    LINK_OPENING, SessionKey, StartedConsoleSession, hash_of, link_token, new_token, no_such_link,
    own_session, person, recorded,
};
use crate::engine::command::Envelope;
use crate::entropy;
use crate::error::Error;
use crate::input::{self, Declaration, Form};
use crate::model::id::noun;
use crate::model::{ConsoleSessionId, OperatorKeyId, OperatorSession, Page, Timestamp};
use crate::operation::{
    Action, Body, LIMIT, Operation, Request, Route, ids_cursor, paging, path_id, query, query_one,
    read, write,
};
use crate::service::Service;
use crate::session::{Access, Authority, Operator, Session, SignedIn};

/// `POST /v1/operator/console-links`
#[derive(Debug)]
pub struct CreateOperatorLink {
    pub(crate) console_session_id: ConsoleSessionId,
    /// The key with which the session acts.
    pub(crate) operator_key_id: OperatorKeyId,
    /// Whether that key itself calls.
    pub(crate) is_own: bool,
    pub(crate) person: String,
    pub(crate) url: String,
    pub(crate) hash: [u8; 32],
}

/// Body of [`CreateOperatorLink`].
struct OperatorLinkRequest {
    person: String,
    operator_key_id: Option<String>,
}

impl Operation for CreateOperatorLink {
    const ROUTE: Route = Route {
        id: "createOperatorLink",
        path: "/v1/operator/console-links",
        access: Access::Administrator,
        status: 201,
        body: Body::Required(&OPERATOR_LINK_REQUEST),
        refusals: &[404, 409],
        tag: "Console",
        summary: "Make a link that signs a person of the operator in",
        description: "For the operator. Whoever opens the `url` first, within ten minutes, is signed in to the operator's console, and \
                      the audit names them as `person`. The session acts with the calling operator key, for 12 hours at most, and \
                      ends when the key is revoked. The `url` is shown only in this answer.",
        ..Route::POST
    };
    type Output = NewOperatorLink;

    fn prepare(session: &Session, request: &Request) -> Result<Action<NewOperatorLink>, Error> {
        let wanted = input::read(&request.body, OperatorLinkRequest::form)?;
        let own = own_key(session);
        let operator_key_id = KEY.chosen(own, wanted.operator_key_id.as_deref())?;
        let at = session.service.clock().now();
        let (token, hash) = new_token();
        let base = session.service.operator_url().ok_or_else(no_interface)?;
        let create = Self {
            console_session_id: ConsoleSessionId::new(at, entropy::bytes()),
            operator_key_id,
            is_own: own.is_some(),
            person: wanted.person,
            url: format!("{base}/console/link/{token}"),
            hash,
        };
        Ok(write(at, create))
    }
}

/// The operator key that calls, if one does.
fn own_key(session: &Session) -> Option<OperatorKeyId> {
    match &session.authority {
        Authority::Administrator {
            by: Operator::Key {
                operator_key_id, ..
            },
            ..
        } => Some(*operator_key_id),
        _ => None,
    }
}

/// The key that a link may name.
const KEY: SessionKey = SessionKey {
    member: "operatorKeyId",
    about: "The key with which the session acts: the calling key when not given, and no other. On the database itself, one must be named.",
    missing: "is missing; a command on the database itself uses no key",
    fix: "Name the operator key with which the session is to act.",
};

fn no_interface() -> Error {
    Error::conflict(
        "operator_interface_off",
        "No operator interface is set up, so there is no console to sign in to. Set operator_listen, and operator_url if people reach \
         it at another address.",
    )
}

const OPERATOR_LINK_REQUEST: Declaration = Declaration {
    name: "OperatorLinkRequest",
    about: "A link that signs a person in to the operator's console.",
    example: r#"{"person": "Ada Lovelace"}"#,
    reader: |v| v.object(OperatorLinkRequest::form).map(drop),
};

impl OperatorLinkRequest {
    fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let person = person(form);
        let operator_key_id = KEY.form::<noun::OperatorKey>(form);
        Some(Self {
            person: person?,
            operator_key_id,
        })
    }
}

/// A new link to the operator's console, with its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct NewOperatorLink {
    /// The id of the link, and of the session that it begins.
    pub console_session_id: ConsoleSessionId,
    /// The operator key with which the session acts.
    pub operator_key_id: OperatorKeyId,
    /// The address that begins the session, once. Shown once.
    pub url: String,
    /// Whom it is for.
    pub person: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// From then on it opens nothing.
    pub expires_at: Timestamp,
}

/// `GET /v1/operator/console-sessions`
pub struct ListOperatorSessions;

impl Operation for ListOperatorSessions {
    const ROUTE: Route = Route {
        id: "listOperatorSessions",
        path: "/v1/operator/console-sessions",
        access: Access::Administrator,
        query: &[LIMIT, ids_cursor::<noun::ConsoleSession>()],
        tag: "Console",
        summary: "List sessions of the operator's console",
        description: "For the operator. Newest first, with the links that nobody has opened; ended and expired ones too, until 30 days \
                      after they expired. Never shows a link's address.",
        ..Route::GET
    };
    type Output = Page<OperatorSession>;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Page<OperatorSession>>, Error> {
        let page = paging(request)?;
        Ok(read::<Self>(move |session| {
            let rows = query(session, |reader| {
                let mut rows = reader.operator_sessions(page.before, page.limit + 1)?;
                let ids: Vec<OperatorKeyId> = rows.iter().map(|row| row.operator_key_id).collect();
                let keys = reader.operator_keys_by_id(&ids)?;
                for row in &mut rows {
                    let key = keys
                        .iter()
                        .find(|key| key.operator_key_id == row.operator_key_id);
                    row.end_with(key.and_then(|key| key.revoked_at));
                }
                Ok(rows)
            })?;
            Ok(Page::of(rows, page.limit, |session| {
                session.console_session_id
            }))
        }))
    }
}

/// `DELETE /v1/operator/console-sessions/{consoleSessionId}`
#[derive(Debug)]
pub struct EndOperatorSession {
    pub(crate) console_session_id: ConsoleSessionId,
}

impl Operation for EndOperatorSession {
    const ROUTE: Route = Route {
        id: "endOperatorSession",
        path: "/v1/operator/console-sessions/{consoleSessionId}",
        access: Access::Administrator,
        refusals: &[404],
        tag: "Console",
        summary: "End a session of the operator's console",
        description: "For the operator. Signs the person out at once on every node. A link that nobody has opened opens nothing from \
                      then on. Ending what has ended changes nothing and answers the same.",
        ..Route::DELETE
    };
    type Output = OperatorSession;

    fn prepare(session: &Session, request: &Request) -> Result<Action<OperatorSession>, Error> {
        let console_session_id = path_id(request, 0)?;
        let at = session.service.clock().now();
        Ok(write(at, Self { console_session_id }))
    }
}

/// Ends the caller's own session of the operator's console.
pub struct SignOutOperator;

impl Operation for SignOutOperator {
    const ROUTE: Route = Route {
        id: "signOutOperator",
        path: "/console/operator/sign-out",
        access: Access::Administrator,
        refusals: &[404],
        tag: "Console",
        summary: "Sign out",
        description: "Ends the caller's session of the operator's console.",
        ..Route::POST
    };
    type Output = OperatorSession;

    fn prepare(session: &Session, _: &Request) -> Result<Action<OperatorSession>, Error> {
        let end = EndOperatorSession {
            console_session_id: own_session(session)?,
        };
        Ok(write(session.service.clock().now(), end))
    }
}

/// Begins a session with the calling operator key.
#[derive(Debug)]
pub struct StartOperatorSession {
    pub(crate) operator_key_id: OperatorKeyId,
    pub(crate) console_session_id: ConsoleSessionId,
    pub(crate) token: String,
    pub(crate) hash: [u8; 32],
}

impl Operation for StartOperatorSession {
    const ROUTE: Route = Route {
        id: "startOperatorSession",
        path: "/console/operator/sessions",
        access: Access::Administrator,
        status: 201,
        refusals: &[409],
        tag: "Console",
        summary: "Sign in with an operator key",
        description: "Begins a session of the operator's console that acts with the calling key.",
        ..Route::POST
    };
    type Output = StartedConsoleSession;

    fn prepare(
        session: &Session,
        request: &Request,
    ) -> Result<Action<StartedConsoleSession>, Error> {
        let own = own_key(session).filter(|_| session.signed_in().is_none());
        let at = session.service.clock().now();
        let (token, hash) = new_token();
        let start = Self {
            // A session does not begin another, which would outlast it.
            operator_key_id: own.ok_or_else(Error::operator_unauthorized)?,
            console_session_id: ConsoleSessionId::new(at, entropy::bytes()),
            token,
            hash,
        };
        Ok(recorded::<Self>(session, request, Envelope::new(at, start)))
    }
}

/// Turns a link to the operator's console into a session, once.
#[derive(Debug)]
pub struct OpenOperatorLink {
    pub(crate) operator_key_id: OperatorKeyId,
    pub(crate) console_session_id: ConsoleSessionId,
    /// SHA-256 of the link's token.
    pub(crate) link: [u8; 32],
    pub(crate) token: String,
    pub(crate) hash: [u8; 32],
}

impl Operation for OpenOperatorLink {
    const ROUTE: Route = Route {
        id: "openOperatorLink",
        path: "/console/operator/link",
        access: Access::Open,
        status: 201,
        body: Body::Required(&LINK_OPENING),
        refusals: &[404],
        tag: "Console",
        summary: "Sign in with a link",
        description: "Begins the session of the operator's console that the link is for.",
        ..Route::POST
    };
    type Output = StartedConsoleSession;

    fn prepare(
        session: &Session,
        request: &Request,
    ) -> Result<Action<StartedConsoleSession>, Error> {
        let link = hash_of(&input::read(&request.body, link_token)?);
        let at = session.service.clock().now();
        let found = query_one(session, |reader| reader.live_operator_session(&link, at))?;
        let begun = found
            .map(|stored| stored.session)
            .filter(|session| session.started_at.is_none())
            .ok_or_else(no_such_link)?;
        let (token, hash) = new_token();
        let open = Self {
            operator_key_id: begun.operator_key_id,
            console_session_id: begun.console_session_id,
            link,
            token,
            hash,
        };
        let key = query_one(session, |reader| {
            reader.operator_key(&begun.operator_key_id)
        })?;
        // The audit names the person whom the link was made for.
        let person = Session {
            authority: authority(&begun, key.ok_or_else(no_such_link)?.name),
            ..session.clone()
        };
        Ok(recorded::<Self>(&person, request, Envelope::new(at, open)))
    }
}

/// Who acts in a session.
fn authority(session: &OperatorSession, key_name: String) -> Authority {
    Authority::Administrator {
        by: Operator::Key {
            operator_key_id: session.operator_key_id,
            name: key_name,
            signed_in: Some(SignedIn {
                console_session_id: session.console_session_id,
                person: session.person.clone(),
            }),
        },
        partner_id: None,
    }
}

/// The authority of whoever has this token of the operator's console, if the session works now. Any text is looked up,
/// whatever its form. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn find(service: &Service, token: &str) -> Result<Option<Authority>, Error> {
    let (hash, now) = (hash_of(token), service.clock().now());
    let mut reader = service.reader()?;
    let found = reader.live_operator_session(&hash, now);
    let found = found.map_err(|e| service.fault(&e))?;
    let Some(session) = found
        .map(|stored| stored.session)
        .filter(|session| session.started_at.is_some())
    else {
        return Ok(None);
    };
    let key = reader.operator_key(&session.operator_key_id);
    let key = key.map_err(|e| service.fault(&e))?;
    let live = key.filter(|key| key.revoked_at.is_none());
    Ok(live.map(|key| authority(&session, key.name)))
}
