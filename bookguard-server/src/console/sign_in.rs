//! Signing in, by an API key or by a link, and signing out.

use std::sync::Arc;

use bookguard_core::error::{Error, Kind};
use bookguard_core::features::console::{OpenConsoleLink, SignOut, StartConsoleSession};
use bookguard_core::operation::{self, Operation};
use maud::{Markup, html};
use poem::endpoint::{BoxEndpoint, make};
use poem::http::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use poem::http::{Method, StatusCode};
use poem::{EndpointExt as _, Request, Response};
use url::Url;

use super::form::{Draft, Field, Fields, Kind as Entry};
use super::frame::Frame;
use super::{Arrival, Console, PATH, document};
use crate::api::call::{Caller, call};
use crate::app::Admitted;

const KEY: &str = "apiKey";
const TO: &str = "to";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

#[derive(Clone, Copy)]
enum Step {
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
        ("/sign-in", Method::GET, Step::Key),
        ("/sign-in", Method::POST, Step::Key),
        ("/link/:token", Method::GET, Step::Link),
        ("/link/:token", Method::POST, Step::Link),
        ("/sign-out", Method::POST, Step::Out),
    ] {
        let console = Arc::clone(console);
        let call = move |request: Request| {
            let console = Arc::clone(&console);
            async move { console.sign(request, step).await }
        };
        add(format!("{PATH}{path}"), method, make(call).boxed());
    }
}

/// What somebody gets who is not signed in: the page on which they can, and who sent a form is told that it waits.
pub(super) fn demand(console: &Console, arrival: &Arrival) -> Response {
    if arrival.is_form {
        let frame = Frame {
            console,
            user: None,
        };
        let main = html! {
            h1 { "You are signed out" }
            p.lead { "Nothing was sent: you were signed out in the meantime. Sign in in another tab, come back here with your browser's \
                Back button, and send the form again. What you typed is still there." }
            p { a.button.first href=(console.link("/sign-in")) target="_blank" rel="noopener" { "Sign in in another tab" } }
        };
        let page = frame.page("Signed out", None, None, main);
        return document(StatusCode::UNAUTHORIZED, page);
    }
    let to = Fields::default().with(TO, &arrival.address);
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
    async fn sign(self: Arc<Self>, mut request: Request, step: Step) -> Response {
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
            (Step::Out, _) => return self.sign_out(&arrival).await,
            (Step::Key, false) => {
                return self.page(StatusCode::OK, "Sign in", self.key_page(&fields, None));
            }
            (Step::Link, false) => return self.page(StatusCode::OK, "Sign in", self.link_page()),
            (Step::Key, true) => self.start(&arrival, &fields).await,
            (Step::Link, true) => self.open(&arrival, &token).await,
        };
        match done {
            Ok(token) => {
                let cookie = self.cookies.seal(&token, self.now(), None);
                self.go(&self.link(destination(&fields)), cookie)
            }
            Err(error) if matches!(step, Step::Key) && error.kind == Kind::Unauthorized => {
                let wrong = Error::fault(
                    KEY,
                    "unauthorized",
                    "is not a key that works",
                    "Copy the whole key, which begins with bgk_, or ask a colleague for a link.",
                );
                let main = self.key_page(&fields.with(KEY, ""), Some(&wrong));
                self.page(StatusCode::UNAUTHORIZED, "Sign in", main)
            }
            Err(error) => self.refuse(None, error.into()),
        }
    }

    fn page(&self, status: StatusCode, title: &str, main: Markup) -> Response {
        let frame = Frame {
            console: self,
            user: None,
        };
        document(status, frame.page(title, None, None, main))
    }

    fn key_page(&self, fields: &Fields, refused: Option<&Error>) -> Markup {
        let draft = Draft { fields, refused };
        let key = Field::new(KEY, "API key", Entry::Secret)
            .about("One of your organisation's keys. You can do here what the key may do, and you are signed out when it is revoked.")
            .required();
        html! {
            div.narrow {
                h1 { "Sign in to Bookguard" }
                (draft.alert(&[KEY]))
                form.card method="post" action=(self.link("/sign-in")) {
                    (draft.field(&key))
                    @if let Some(to) = fields.get(TO) { input type="hidden" name=(TO) value=(to); }
                    button.first { "Sign in" }
                }
                p.soft { "Without a key? Somebody who has one can send you a link: in the console under “Keys and people”, or with "
                    code { "bookguard console-links create" } "." }
            }
        }
    }

    /// Says nothing about the link: mail scanners follow links to look at them, so only the button uses it up.
    fn link_page(&self) -> Markup {
        html! {
            div.narrow {
                h1 { "Sign in to Bookguard" }
                form.card method="post" {
                    p { "This link signs you in once, on this device. You stay signed in for twelve hours at most, and for half an hour \
                        while you do nothing." }
                    button.first { "Sign in" }
                }
            }
        }
    }

    /// Begins a session for the key that was typed.
    async fn start(&self, arrival: &Arrival, fields: &Fields) -> Result<String, Error> {
        self.app.admit_visitor(Some(arrival.from))?;
        let key = HeaderValue::try_from(fields.get(KEY).unwrap_or_default())
            .unwrap_or(HeaderValue::from_static(""));
        let headers = HeaderMap::from_iter([(API_KEY, key)]);
        let started = self
            .call::<StartConsoleSession>(arrival, &headers, Vec::new())
            .await?;
        Ok(started.token)
    }

    /// Begins the session of a link.
    async fn open(&self, arrival: &Arrival, token: &str) -> Result<String, Error> {
        self.app.admit_visitor(Some(arrival.from))?;
        let body = format!("{{\"token\":{}}}", bookguard_core::input::quoted(token)).into_bytes();
        let opened = self
            .call::<OpenConsoleLink>(arrival, &HeaderMap::new(), body)
            .await?;
        Ok(opened.token)
    }

    async fn call<O: Operation>(
        &self,
        arrival: &Arrival,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<O::Output, Error> {
        let admitted = self.app.admit(&O::ROUTE, headers, Some(arrival.from)).await;
        let Admitted { session, .. } = admitted.map_err(|turned| turned.error)?;
        let cost = self.app.cost(crate::payer::Payer::of(&session.authority));
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
        let finished = call::<O>(caller, request).await?;
        let output = serde_json::from_slice(&finished.body);
        output.map_err(|e| {
            Error::internal(format!("an answer of {} cannot be read: {e}", O::ROUTE.id))
        })
    }

    /// Ends the session, and forgets it in this browser even if it had ended already.
    async fn sign_out(self: Arc<Self>, arrival: &Arrival) -> Response {
        let ended = match self.user(arrival).await {
            Ok(user) => user.read::<SignOut>(&[], &[]).await.map(drop),
            Err(error) => Err(error),
        };
        match ended {
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
