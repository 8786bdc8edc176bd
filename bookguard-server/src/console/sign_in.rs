//! Signing in, by a key or by a link, and signing out.

use std::sync::Arc;

use bookguard_core::error::{Error, Kind};
use bookguard_core::features::console::{OpenConsoleLink, SignOut, StartConsoleSession};
use bookguard_core::features::operator_sessions::{
    OpenOperatorLink, SignOutOperator, StartOperatorSession,
};
use bookguard_core::operation::{self, Operation};
use bookguard_core::session::{Authority, Session};
use maud::{Markup, html};
use poem::endpoint::{BoxEndpoint, make};
use poem::http::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use poem::http::{Method, StatusCode};
use poem::{EndpointExt as _, Request, Response};
use url::Url;

use super::form::Kind as Entry;
use super::user::output;
use super::{Arrival, Console, Draft, Field, Fields, PATH, Whose, document};
use crate::api::call::{Caller, call};
use crate::app::Admitted;
use crate::payer::Payer;

const TO: &str = "to";
/// The field of the address of the page to sign in that says why somebody is there.
const AFTER: &str = "after";

/// Why somebody who was signed in is so no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignedOut {
    /// They ended the session under “Keys and people” or “People”.
    BySelf,
    /// The session expired, was not used for too long, or was ended by somebody else or with its key.
    Ended,
}

impl SignedOut {
    /// Its word in the address.
    fn word(self) -> &'static str {
        match self {
            Self::BySelf => "self",
            Self::Ended => "end",
        }
    }

    /// What the address says.
    fn of(fields: &Fields) -> Option<Self> {
        let word = fields.get(AFTER)?;
        [Self::BySelf, Self::Ended]
            .into_iter()
            .find(|why| why.word() == word)
    }

    /// What the page to sign in says.
    fn told(self) -> &'static str {
        match self {
            Self::BySelf => "You ended this session.",
            Self::Ended => "Your session has ended. Sign in again to go on.",
        }
    }
}

/// How somebody signs in to a console with a key.
struct KeyEntry {
    /// The name of the field.
    field: &'static str,
    header: &'static str,
    label: &'static str,
    about: &'static str,
    /// The advice if the key does not work.
    fix: &'static str,
    /// Where somebody without a key gets a link, before the command that makes one.
    elsewhere: &'static str,
    command: &'static str,
}

const PARTNERS: KeyEntry = KeyEntry {
    field: "apiKey",
    header: "x-api-key",
    label: "API key",
    about: "One of your partner account's keys. You can do here what the key may do, and you are signed out when it is revoked.",
    fix: "Copy the whole key, which begins with bgk_, or ask a colleague for a link.",
    elsewhere: "in the console under “Keys and people”",
    command: "bookguard console-links create",
};

const OPERATOR: KeyEntry = KeyEntry {
    field: "operatorKey",
    header: "x-operator-key",
    label: "Operator key",
    about: "It opens every partner's data. You are signed out when it is revoked.",
    fix: "Copy the whole key, which begins with bgo_, or ask a colleague for a link.",
    elsewhere: "in the console under “People”",
    command: "bookguard operator-links create",
};

impl Whose {
    fn key(self) -> &'static KeyEntry {
        match self {
            Self::Partners => &PARTNERS,
            Self::Operator => &OPERATOR,
        }
    }
}

#[derive(Clone, Copy)]
enum SignInStep {
    /// `/console/sign-in`
    Key,
    /// `/console/link/{token}`
    Link,
    /// `/console/sign-out`
    Out,
}

pub(super) fn add_routes(
    console: &Arc<Console>,
    add: &mut impl FnMut(String, Method, BoxEndpoint<'static>),
) {
    for (path, method, step) in [
        ("/sign-in", Method::GET, SignInStep::Key),
        ("/sign-in", Method::POST, SignInStep::Key),
        ("/link/:token", Method::GET, SignInStep::Link),
        ("/link/:token", Method::POST, SignInStep::Link),
        ("/sign-out", Method::POST, SignInStep::Out),
    ] {
        let console = Arc::clone(console);
        let call = move |request: Request| {
            let console = Arc::clone(&console);
            async move { console.sign(request, step).await }
        };
        add(format!("{PATH}{path}"), method, make(call).boxed());
    }
}

/// The answer to somebody who is not signed in: the way to the page to sign in or, after a form, a page that says that
/// nothing was sent.
pub(super) fn demand(console: &Console, arrival: &Arrival) -> Response {
    if arrival.is_form {
        let main = html! {
            h1 { "You are signed out" }
            p.lead { "Nothing was recorded: you were signed out in the meantime. Sign in in another tab, then reload this page: your browser \
                sends the form again, with what you typed." }
            p { a.button.first href=(console.link("/sign-in")) target="_blank" rel="noopener" { "Sign in in another tab" } }
        };
        return console.page(StatusCode::UNAUTHORIZED, "Signed out", main);
    }
    let mut to = Fields::default().with(TO, &arrival.address);
    if arrival.cookie.is_some() {
        to = to.with(AFTER, SignedOut::Ended.word());
    }
    console.go(
        &console.link(&format!("/sign-in{}", to.query())),
        console.cookies.remove(),
    )
}

/// The page of this console to which somebody goes who signed in, if the text is the address of one.
fn destination(fields: &Fields) -> &str {
    let to = fields.get(TO).unwrap_or_default();
    let path = to.split(['?', '#']).next().unwrap_or_default();
    // A browser goes up at `..`, however it is escaped, and takes a backslash for a slash.
    let is_read_as_written = Url::parse(&format!("http://console.invalid{PATH}{to}"))
        .is_ok_and(|url| url.path().strip_prefix(PATH) == Some(path));
    let own = to.starts_with(['/', '?']) && to.bytes().all(|byte| byte.is_ascii_graphic());
    if own && is_read_as_written { to } else { "" }
}

impl Console {
    async fn sign(self: Arc<Self>, mut request: Request, step: SignInStep) -> Response {
        let arrival = match self.arrive(&mut request).await {
            Ok(arrival) => arrival,
            Err(refusal) => return self.refuse(None, refusal),
        };
        let fields = match self.fields(&mut request).await {
            Ok(fields) => fields,
            Err(refusal) => return self.refuse(None, refusal),
        };
        let token = request
            .raw_path_param("token")
            .unwrap_or_default()
            .to_owned();
        let done = match (step, arrival.is_form) {
            (SignInStep::Out, _) => return self.sign_out(&arrival).await,
            (SignInStep::Key, false) => {
                return self.page(StatusCode::OK, "Sign in", self.key_page(&fields, None));
            }
            (SignInStep::Link, false) => {
                return self.page(StatusCode::OK, "Sign in", self.link_page());
            }
            (SignInStep::Key, true) => self.start(&arrival, &fields).await,
            (SignInStep::Link, true) => self.open(&arrival, &token).await,
        };
        match done {
            Ok(token) => {
                // Nobody can use the session that this browser had: the new cookie replaces its own. If it cannot be ended now, it
                // ends in time.
                let _ = self.end(&arrival).await;
                let cookie = self.cookies.seal(&token, self.now(), None);
                self.go(&self.link(destination(&fields)), cookie)
            }
            Err(error) if matches!(step, SignInStep::Key) && error.kind == Kind::Unauthorized => {
                let KeyEntry { field, fix, .. } = self.whose.key();
                let why = "is not a key that works";
                let wrong = Error::fault(*field, "unauthorized", why, *fix);
                let main = self.key_page(&fields, Some(&wrong));
                self.page(StatusCode::UNAUTHORIZED, "Sign in", main)
            }
            Err(error) if matches!(step, SignInStep::Link) && error.kind == Kind::NotFound => {
                let title = "This link does not work";
                let main = html! {
                    h1 { (title) }
                    p.lead { (error.message) }
                    p { a.button href=(self.link("/sign-in")) { "Go to sign-in" } }
                };
                self.page(StatusCode::NOT_FOUND, title, main)
            }
            Err(error) => self.refuse(None, error.into()),
        }
    }

    /// Sends somebody whose session ended to the page to sign in, which says why.
    pub(super) fn signed_out(&self, why: SignedOut) -> Response {
        let query = Fields::default().with(AFTER, why.word()).query();
        self.go(
            &self.link(&format!("/sign-in{query}")),
            self.cookies.remove(),
        )
    }

    fn page(&self, status: StatusCode, title: &str, main: Markup) -> Response {
        document(status, self.framed(None, title, None, None, main))
    }

    fn key_page(&self, fields: &Fields, refused: Option<&Error>) -> Markup {
        let entry = self.whose.key();
        // Neither a wrong key nor one from the address stands on the page: whoever made that address would have others sign in with theirs.
        let fields = &fields.with(entry.field, "");
        let draft = Draft { fields, refused };
        let key = Field::new(entry.field, entry.label, Entry::Secret)
            .about(entry.about)
            .required();
        html! {
            div.narrow {
                h1 { (self.invitation()) }
                @if let Some(why) = SignedOut::of(fields) { p.alert.warn role="status" { (why.told()) } }
                (draft.alert(&[entry.field]))
                form.card method="post" action=(self.link("/sign-in")) {
                    (draft.field(&key))
                    @if let Some(to) = fields.get(TO) { input type="hidden" name=(TO) value=(to); }
                    button.first { "Sign in" }
                }
                p.soft { "Without a key? Somebody who has one can send you a link: " (entry.elsewhere) ", or with "
                    code { (entry.command) } "." }
            }
        }
    }

    fn invitation(&self) -> &'static str {
        match self.whose {
            Whose::Partners => "Sign in to Bookguard",
            Whose::Operator => "Sign in as the operator",
        }
    }

    /// Says nothing about the link: mail scanners follow links to look at them, so only the button uses it up.
    fn link_page(&self) -> Markup {
        html! {
            div.narrow {
                h1 { (self.invitation()) }
                form.card method="post" {
                    p { "This link signs you in once, on this device. You stay signed in for twelve hours at most, and are signed out \
                        after half an hour without use." }
                    button.first { "Sign in" }
                }
            }
        }
    }

    /// Begins a session for the key that was typed.
    async fn start(&self, arrival: &Arrival, fields: &Fields) -> Result<String, Error> {
        let KeyEntry { field, header, .. } = self.whose.key();
        let key = HeaderValue::try_from(fields.get(field).unwrap_or_default())
            .unwrap_or(HeaderValue::from_static(""));
        let headers = HeaderMap::from_iter([(HeaderName::from_static(header), key)]);
        let started = match self.whose {
            Whose::Partners => {
                self.app.admit_visitor(Some(arrival.from))?;
                let session = self.admit::<StartConsoleSession>(arrival, &headers).await?;
                self.call::<StartConsoleSession>(session, Vec::new()).await
            }
            Whose::Operator => {
                let session = self.admit::<StartOperatorSession>(arrival, &headers);
                self.call::<StartOperatorSession>(session.await?, Vec::new())
                    .await
            }
        };
        let started = started?;
        if let Some(displaced) = &started.displaced {
            self.app.keys.forget_session(displaced);
        }
        Ok(started.token)
    }

    /// Begins the session of a link.
    async fn open(&self, arrival: &Arrival, token: &str) -> Result<String, Error> {
        let body = format!("{{\"token\":{}}}", bookguard_core::input::quoted(token)).into_bytes();
        let stranger = Session {
            service: Arc::clone(&self.app.service),
            authority: Authority::Anonymous {
                address: arrival.from.to_string(),
            },
            address: Some(arrival.from),
        };
        let opened = match self.whose {
            Whose::Partners => {
                self.app.admit_visitor(Some(arrival.from))?;
                self.call::<OpenConsoleLink>(stranger, body).await
            }
            Whose::Operator => {
                let is_wrong = |error: &Error| error.kind == Kind::NotFound;
                let opening = self.call::<OpenOperatorLink>(stranger, body);
                self.app.guarded(arrival.from, is_wrong, opening).await
            }
        };
        Ok(opened?.token)
    }

    async fn admit<O: Operation>(
        &self,
        arrival: &Arrival,
        headers: &HeaderMap,
    ) -> Result<Session, Error> {
        let payer = Payer::at(Some(arrival.from));
        let admitted = self
            .app
            .admit(&O::ROUTE, headers, Some(arrival.from), payer)
            .await;
        let Admitted { session, .. } = admitted.map_err(|turned| turned.error)?;
        Ok(session)
    }

    async fn call<O: Operation>(
        &self,
        session: Session,
        body: Vec<u8>,
    ) -> Result<O::Output, Error> {
        let cost = self.app.cost(Payer::of(&session.authority));
        let caller = Caller {
            app: &self.app,
            session,
            cost: &cost,
            headers: None,
        };
        let request = operation::Request {
            body,
            ..operation::Request::default()
        };
        output::<O>(&call(caller, O::ROUTE.id, operation::step::<O>, request).await?)
    }

    /// Ends the session, and forgets it in this browser even if it had ended already.
    async fn sign_out(self: Arc<Self>, arrival: &Arrival) -> Response {
        match self.end(arrival).await {
            Err(error) if error.kind != Kind::Unauthorized => {
                let mut response = self.refuse(None, error.into());
                response
                    .headers_mut()
                    .append(SET_COOKIE, self.cookies.remove());
                response
            }
            _ => self.go(&self.link("/sign-in"), self.cookies.remove()),
        }
    }

    /// Ends the session of the request's cookie. Even somebody whose partner has asked too much may leave.
    ///
    /// # Errors
    /// `unauthorized` if it has ended already, `unavailable`.
    pub(super) async fn end(self: &Arc<Self>, arrival: &Arrival) -> Result<(), Error> {
        let user = self.signed_in(arrival).await?;
        match self.whose {
            Whose::Partners => user.read::<SignOut>(&[], &[]).await.map(drop),
            Whose::Operator => user.read::<SignOutOperator>(&[], &[]).await.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_to_a_page_of_this_console_or_to_the_overview() {
        for (to, expected) in [
            ("/bookings?status=created", "/bookings?status=created"),
            ("?a=b", "?a=b"),
            ("", ""),
            ("https://evil.example", ""),
            ("@evil.example", ""),
            (".evil.example", ""),
            ("/\\evil.example", ""),
            ("/../share", ""),
            ("/a/%2E%2e/../..", ""),
            ("/a?b=../c", "/a?b=../c"),
            ("/a b", ""),
            ("/a\r\nset-cookie: x", ""),
        ] {
            let fields = Fields::new(vec![(TO.to_owned(), to.to_owned())]);
            assert_eq!(destination(&fields), expected, "{to}");
        }
    }
}
