//! Routes method and path to an endpoint, and adds what every answer needs: a request id, and a 500 for a panic.
//!
//! poem's `Route` matches the path and prefers a fixed segment to a parameter. The router itself answers only what no endpoint
//! can: 404, 405, and messages that are malformed whatever they ask for. Invariant: every response leaves with `x-request-id`.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use bookguard_core::clock::Clock;
use bookguard_core::entropy;
use bookguard_core::error::Error;
use bookguard_core::model::RequestId;
use poem::endpoint::BoxEndpoint;
use poem::error::NotFoundError;
use poem::http::header::X_CONTENT_TYPE_OPTIONS;
use poem::http::{HeaderMap, HeaderValue, Method, StatusCode};
use poem::{Endpoint, Request, Response, Route};

use crate::answers::Answers;
use crate::incoming;
use crate::negotiation::prefers_page;
use crate::observer::{self, Observed, Observer};
use crate::refusal::{Fault, REQUEST_ID, Refusal, RefusalForm};

/// The most bytes of a request id sent by the caller.
const REQUEST_ID_BYTES: usize = 128;

/// Endpoints by path and method.
pub(crate) type Routes = HashMap<String, HashMap<Method, BoxEndpoint<'static>>>;

/// Makes a page of a refusal's JSON.
pub(crate) type Explain = Box<dyn Fn(&mut Response) + Send + Sync>;

/// The router for every path of the server.
pub(crate) struct Router {
    paths: Route,
    /// Whether the interface document is among the paths.
    is_described: bool,
    clock: Clock,
    observer: Arc<Observer>,
    answers: Arc<Answers>,
    /// The path below which people get pages, and what makes them.
    explained: Option<(&'static str, Explain)>,
}

/// The endpoints of one path. poem's `RouteMethod` would send a 405 without `Allow`, leave the body unread, and answer HEAD
/// without the length of the GET response.
struct Methods {
    by_name: HashMap<Method, BoxEndpoint<'static>>,
    /// The path's template, as the interface document writes it.
    route: Arc<str>,
}

/// The endpoint for unknown paths.
struct UnknownPath {
    is_described: bool,
}

impl Router {
    /// Creates a router over `routes`, whose paths look like `/a/:parameter` or `/a/*rest`.
    pub(crate) fn new(routes: Routes, clock: Clock, observer: Arc<Observer>) -> Self {
        let is_described = routes.contains_key("/openapi.json");
        let paths = routes
            .into_iter()
            .fold(Route::new(), |paths, (path, by_name)| {
                let route = template(&path).into();
                paths.at(path, Methods { by_name, route })
            });
        Self {
            // Not `/*path`, which would match `/` too. Added last, because poem loses such a part when it splits a path later.
            paths: paths.at("/<.+>", UnknownPath { is_described }),
            is_described,
            clock,
            observer,
            answers: Arc::default(),
            explained: None,
        }
    }

    /// The same router, where people who ask for something at this path or below it get a page instead of a refusal's JSON.
    #[cfg(feature = "console")]
    pub(crate) fn explaining(self, path: &'static str, explain: Explain) -> Self {
        Self {
            explained: Some((path, explain)),
            ..self
        }
    }

    /// The function that turns this request's refusal into a page, if its sender wants one.
    fn explain(&self, request: &Request) -> Option<&Explain> {
        let (path, explain) = self.explained.as_ref()?;
        let below = request.uri().path().strip_prefix(path)?;
        let is_below = below.is_empty() || below.starts_with('/');
        (is_below && prefers_page(request.headers())).then_some(explain)
    }

    /// Answers a request, in the form its sender asks for. With `turned`, the request is refused without being looked at.
    pub(crate) async fn receive(&self, request: Request, turned: Option<Refusal>) -> Response {
        let form = RefusalForm::asked(request.uri().path(), request.headers());
        let explain = self.explain(&request);
        let refusal = turned.or_else(|| incoming::check(&request).err());
        let mut response = self.answer(request, refusal).await;
        if let Some(explain) = explain {
            explain(&mut response);
        }
        let mut response = form.give(response);
        response
            .headers_mut()
            .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// The raw response to a message that is not a request; it is the last one of its connection.
    pub(crate) fn refuse_unread(&self, status: StatusCode) -> Vec<u8> {
        Refusal::unread(status).bytes(&self.request_id(&HeaderMap::new()))
    }

    /// Answers a request. Never fails or panics.
    async fn answer(&self, mut request: Request, refusal: Option<Refusal>) -> Response {
        let id = self.request_id(request.headers());
        let observed = Observed::new(request.method(), request.headers(), id.clone());
        let from = incoming::address(&request);
        let underway = self.observer.begin(&observed);
        // Endpoints log under the same id.
        request.headers_mut().insert(REQUEST_ID, id.clone());
        let answer = async {
            match refusal {
                Some(refusal) => refuse(&mut request, refusal).await,
                None => self.route(request).await,
            }
        };
        let answered = observed.scope(unwound(answer)).await;
        let payer = || observed.payer(from);
        let answered = answered.and_then(|response| self.answers.admit(response, payer));
        let mut response = match answered {
            Ok(response) => response,
            Err(error) => Refusal::from(error).respond(),
        };
        let fault = response.extensions_mut().remove::<Fault>();
        response.headers_mut().insert(REQUEST_ID, id);
        underway.finish(&response, fault.as_ref().map(|Fault(why)| why.as_str()));
        response
    }

    /// The caller's own request id if it is valid, otherwise a new one.
    fn request_id(&self, headers: &HeaderMap) -> HeaderValue {
        let sane = |id: &&HeaderValue| {
            (1..=REQUEST_ID_BYTES).contains(&id.len())
                && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        headers
            .get(REQUEST_ID)
            .filter(sane)
            .cloned()
            .unwrap_or_else(|| {
                let id = RequestId::new(self.clock.now(), entropy::bytes());
                HeaderValue::try_from(id.to_string())
                    .expect("an id is lower-case letters, digits and an underscore")
            })
    }

    async fn route(&self, request: Request) -> Response {
        match self.paths.call(request).await {
            Ok(response) => response,
            // Requests without a path, such as `OPTIONS *`.
            Err(error) if error.is::<NotFoundError>() => Refusal::path(self.is_described).respond(),
            Err(error) => error.into_response(),
        }
    }
}

impl Endpoint for Methods {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        // A HEAD is answered like a GET; the connection leaves out the body.
        let method = if request.method() == Method::HEAD {
            &Method::GET
        } else {
            request.method()
        };
        observer::found(&self.route);
        match self.by_name.get(method) {
            Some(endpoint) => Endpoint::call(endpoint, request).await,
            None => Ok(refuse(&mut request, Refusal::method(self.allow())).await),
        }
    }
}

impl Methods {
    fn allow(&self) -> String {
        let mut names: Vec<&str> = self.by_name.keys().map(Method::as_str).collect();
        if self.by_name.contains_key(&Method::GET) {
            names.push("HEAD");
        }
        names.sort_unstable();
        names.join(", ")
    }
}

/// A path with its parameters in braces.
fn template(path: &str) -> String {
    let parts = path
        .split('/')
        .map(|part| match part.strip_prefix([':', '*']) {
            Some(name) => format!("{{{name}}}"),
            None => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("/")
}

impl Endpoint for UnknownPath {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        Ok(refuse(&mut request, Refusal::path(self.is_described)).await)
    }
}

async fn refuse(request: &mut Request, refusal: Refusal) -> Response {
    let body = request.take_body();
    incoming::discard(request.headers(), body).await;
    refusal.respond()
}

/// Runs a future to its end; a panic becomes an internal error. The future is boxed: it takes kilobytes, which every future
/// around it would hold and move again.
pub(crate) fn unwound<T>(
    future: impl Future<Output = T>,
) -> impl Future<Output = Result<T, Error>> {
    let mut future = Box::pin(future);
    std::future::poll_fn(move |cx| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let message = text.unwrap_or_default();
                Poll::Ready(Err(Error::internal(format!("a panic: {message}"))))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use bookguard_core::lines::{Line, LineSubscriber, Threshold, hear_here};
    use poem::EndpointExt as _;
    use poem::endpoint::make_sync;

    use super::*;
    use crate::config::RequestLines;

    fn router() -> Router {
        let mut routes = Routes::new();
        for (path, method) in [
            ("/v1/a", Method::GET),
            ("/v1/a", Method::POST),
            ("/v1/a/me", Method::GET),
            ("/v1/a/:id", Method::GET),
            ("/v1/a/:id/b", Method::DELETE),
            ("/v1/tile/*path", Method::GET),
            ("/v1/panic", Method::GET),
            ("/", Method::GET),
        ] {
            let name = format!("{method} {path}");
            let answer = make_sync(move |_| {
                assert!(!name.ends_with("panic"), "the secret of the panic");
                name.clone()
            });
            routes
                .entry(path.to_owned())
                .or_default()
                .insert(method, answer.map_to_response().boxed());
        }
        Router::new(
            routes,
            Clock::System,
            Arc::new(Observer::new(RequestLines::default())),
        )
    }

    #[test]
    fn a_request_s_future_is_small_enough_to_be_moved() {
        let router = router();
        let received = router.receive(Request::builder().finish(), None);
        let size = size_of_val(&received);
        assert!(size < 3_000, "{size} bytes");
    }

    async fn ask(method: Method, path: &str) -> Response {
        let request = Request::builder().method(method).uri_str(path).finish();
        router().answer(request, None).await
    }

    async fn text(method: Method, path: &str) -> String {
        let body = ask(method, path).await.into_body();
        body.into_string().await.unwrap()
    }

    #[tokio::test]
    async fn paths_match_whole_with_fixed_segments_first() {
        for (method, path, expected) in [
            (Method::GET, "/v1/a", "GET /v1/a"),
            (Method::POST, "/v1/a", "POST /v1/a"),
            (Method::HEAD, "/v1/a", "GET /v1/a"),
            (Method::GET, "/v1/a/me", "GET /v1/a/me"),
            (Method::GET, "/v1/a/meme", "GET /v1/a/:id"),
            (Method::DELETE, "/v1/a/me/b", "DELETE /v1/a/:id/b"),
            (Method::GET, "/v1/tile/0/x001/000", "GET /v1/tile/*path"),
            (Method::GET, "/", "GET /"),
        ] {
            assert_eq!(text(method, path).await, expected);
        }
        let unknown = "// /v1 /v1/ /v1/a/ /v1/a/x/ /v1/a/x/b/c /V1/a /v1//a";
        for path in unknown.split(' ') {
            let status = ask(Method::GET, path).await.status();
            assert_eq!(status.as_u16(), 404, "{path}");
        }
    }

    #[tokio::test]
    async fn a_wrong_method_is_told_the_right_ones() {
        for (method, path, allow) in [
            (Method::PUT, "/v1/a", "GET, HEAD, POST"),
            (Method::GET, "/v1/a/x/b", "DELETE"),
            (Method::OPTIONS, "/v1/a", "GET, HEAD, POST"),
        ] {
            let response = ask(method, path).await;
            assert_eq!(response.status().as_u16(), 405);
            assert_eq!(response.header("allow"), Some(allow));
        }
    }

    #[tokio::test]
    async fn every_answer_has_a_request_id_the_caller_s_own_when_it_is_sane() {
        for (path, status) in [
            ("/v1/a", 200),
            ("/nowhere", 404),
            ("/v1/a/x/b", 405),
            ("/v1/panic", 500),
        ] {
            let response = ask(Method::GET, path).await;
            assert_eq!(response.status().as_u16(), status);
            let id = response.header("x-request-id").unwrap();
            assert!(RequestId::parse(id).is_some(), "{path}");
        }
        for (sent, kept) in [
            ("abc-123", true),
            ("with space", false),
            (&"x".repeat(128), true),
            (&"x".repeat(129), false),
        ] {
            let request = Request::builder().uri_str("/v1/a");
            let request = request.header("x-request-id", sent).finish();
            let response = router().answer(request, None).await;
            let is_kept = response.header("x-request-id") == Some(sent);
            assert_eq!(is_kept, kept, "{sent}");
        }
    }

    /// The lines that requests for these paths cause, without their ids and times.
    async fn lines(requests: RequestLines, asked: &[(Method, &str)]) -> Vec<String> {
        let asked = asked.iter().map(|(method, path)| {
            let request = Request::builder().method(method.clone()).uri_str(*path);
            (request.finish(), None)
        });
        lines_of(requests, asked.collect()).await
    }

    /// The lines that these requests, each with its refusal, cause, without their ids and times.
    async fn lines_of(
        requests: RequestLines,
        asked: Vec<(Request, Option<Refusal>)>,
    ) -> Vec<String> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&heard);
        let hear = move |line: Line| {
            let observed = observer::current().unwrap();
            let told = (line.fields.iter()).filter(|(name, _)| *name != "duration_ms");
            let told = told.map(|(name, value)| format!("{name}={value}"));
            let told: Vec<_> = told.collect();
            let route = observed.route().map_or("none", |route| route);
            let line = format!("{} {} {} {route}", line.level, line.message, told.join(" "));
            lines.lock().unwrap().push(line);
        };
        let subscriber = LineSubscriber::new(Threshold::new(tracing::Level::INFO), hear);
        let _heard = hear_here(subscriber);
        let router = router();
        router.observer.set(requests);
        for (request, refusal) in asked {
            router.answer(request, refusal).await;
        }
        heard.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn a_fault_has_a_line_with_its_cause_and_other_requests_as_configured() {
        let fine = [
            (Method::GET, "/v1/a/me?secret"),
            (Method::PUT, "/v1/a/x"),
            (Method::GET, "/x"),
        ];
        let none = RequestLines::default();
        assert_eq!(lines(none, &fine).await, [""; 0]);
        let slow = RequestLines {
            slow: Some(Duration::ZERO),
            ..none
        };
        let all = RequestLines { all: true, ..none };
        for (requests, level) in [(slow, "warn slow request"), (all, "info request")] {
            let expected = [
                r#"method="GET" status=200 /v1/a/me"#,
                r#"method="PUT" status=405 code="method_not_allowed" /v1/a/{id}"#,
                r#"method="GET" status=404 code="path_not_found" none"#,
            ];
            let expected = expected.map(|rest| format!("{level} {rest}"));
            assert_eq!(lines(requests, &fine).await, expected);
        }
        let fault = lines(none, &[(Method::GET, "/v1/panic")]).await;
        let cause =
            r#"status=500 code="internal" cause="a panic: the secret of the panic" /v1/panic"#;
        assert_eq!(fault, [format!(r#"error fault method="GET" {cause}"#)]);
    }

    #[tokio::test]
    async fn a_transfer_coding_that_is_not_understood_is_no_fault_of_the_service() {
        let asked = || {
            let request = Request::builder()
                .uri_str("/v1/a")
                .header("host", "x")
                .header("transfer-encoding", "gzip, chunked")
                .finish();
            let refusal = incoming::check(&request).err();
            assert!(refusal.is_some());
            vec![(request, refusal)]
        };
        let none = RequestLines::default();
        assert_eq!(lines_of(none, asked()).await, [""; 0]);
        let all = RequestLines { all: true, ..none };
        let expected =
            r#"info request method="GET" status=501 code="unsupported_transfer_encoding" none"#;
        assert_eq!(lines_of(all, asked()).await, [expected]);
    }

    #[tokio::test]
    async fn a_panic_is_a_500_that_tells_the_client_nothing() {
        let text = text(Method::GET, "/v1/panic").await;
        assert!(text.contains("\"code\":\"internal\""), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}
