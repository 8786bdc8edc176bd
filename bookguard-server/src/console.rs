//! The console at `/console`: pages with which a partner's staff, and on its own listener the operator's, sees and does what the
//! interface offers, without code.
//!
//! The server makes every page, and every form works without a script. A page asks the operations that REST offers, with the
//! authority of whoever is signed in, and shows their answers; a form sends one operation. Invariants: no rule of the product
//! is decided here; a GET changes nothing, except that it ends the session of a cookie that was not used for too long; a form of
//! another site is refused before it is read; nothing under `/v1` reads the cookie.
//!
//! | module | what |
//! |---|---|
//! | `cookie`, `origin` | who is signed in; which site sent a form |
//! | `user` | calls operations for somebody who is signed in |
//! | `form` | what was typed, as an operation's body, and an operation's faults beside what was typed |
//! | `frame`, `parts`, `chart`, `schedule` | what all pages share; the parts that they are made of |
//! | `operator` | the operator's console, on the listener of the operator interface: pages of its own, and those below for any partner |
//! | `sign_in`, `overview`, `bookings`, `booking`, `reviews`, `deliveries`, `endpoints`, `policies`, `keys`, `audit` | the pages |

macro_rules! place {
    // A form: its module's `page` shows it, also after `send` refused it.
    ($path:literal, form $($form:ident)::+ $(, needs $scope:ident)?) => {
        place!($path, get $($form)::+::page, post $($form)::+::send, again $($form)::+::page $(, needs $scope)?)
    };
    ($path:literal $(, get $get:path)? $(, post $post:path)? $(, again $again:path)? $(, needs $scope:ident)?) => {
        #[allow(unused_mut, unused_assignments)]
        {
            let mut place = $crate::console::PageRoute {
                path: $path,
                needs: ::bookguard_core::session::Access::AnyKey,
                get: None,
                post: None,
                again: None,
            };
            $(place.needs = ::bookguard_core::session::Access::Scope(::bookguard_core::model::Scope::$scope);)?
            $(place.get = Some(|user, asked| Box::pin($get(user, asked)));)?
            $(place.post = Some(|user, asked| Box::pin($post(user, asked)));)?
            $(place.again = Some(|user, asked| Box::pin($again(user, asked)));)?
            place
        }
    };
}
mod assets;
mod audit;
mod booking;
mod bookings;
mod chart;
mod cookie;
mod deliveries;
mod endpoints;
mod form;
mod frame;
mod keys;
mod operator;
mod origin;
mod overview;
mod parts;
mod policies;
mod reviews;
mod schedule;
mod sign_in;
mod user;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bookguard_core::error::{self, Error};
use bookguard_core::limits;
use bookguard_core::model::Timestamp;
use bookguard_core::session::Access;
use maud::{Markup, html};
use poem::endpoint::{BoxEndpoint, make, make_sync};
use poem::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, SET_COOKIE,
};
use poem::http::{Method, StatusCode};
use poem::{EndpointExt as _, Request, Response};

use crate::app::App;
use crate::incoming;
use crate::pages::HTML;
use crate::payer::UNKNOWN_ADDRESS;
use crate::refusal::{ErrorBody, Refusal};
use crate::router::{Explain, Routes};
use cookie::{Cookie, Cookies};
use form::{Draft, Field, Fields, Kind};
use parts::Tone;
use user::User;

/// Where the console is.
pub(crate) const PATH: &str = "/console";
/// A page may load from this server only, runs no script that stands in it, and stands in no other page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Whose console it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Partners,
    Operator,
}

/// What all requests for one console share.
struct Console {
    app: Arc<App>,
    whose: Whose,
    cookies: Cookies,
    /// The address at which people reach it, without [`PATH`].
    address: String,
    /// The path before the console's own, if a proxy puts one there.
    base: String,
}

/// A request for a page, or a form that was sent.
#[derive(Clone)]
struct Asked {
    /// The values of the path's parameters, in order.
    path: Vec<String>,
    /// The query's pairs, or the fields of a form.
    fields: Fields,
    now: Timestamp,
    /// Why the form, or the filter of a list, was refused. Its page shows it again.
    refused: Option<Error>,
}

impl Asked {
    /// A parameter of the path.
    fn id(&self, place: usize) -> &str {
        self.path.get(place).map_or("", String::as_str)
    }

    /// Its form as it was filled in, and why it was refused.
    fn draft(&self) -> Draft<'_> {
        Draft {
            fields: &self.fields,
            refused: self.refused.as_ref(),
        }
    }

    /// The request with other fields.
    fn with(&self, fields: Fields) -> Self {
        Self {
            fields,
            ..self.clone()
        }
    }

    /// The request after it was refused, in words for people. Of two refusals, the first one stays.
    fn with_refusal(&self, mut error: Error) -> Self {
        form::as_typed(&mut error);
        Self {
            refused: self.refused.clone().or(Some(error)),
            ..self.clone()
        }
    }
}

/// The outcome of a request.
enum Answer {
    /// A page, with this status.
    Page(StatusCode, Page),
    /// Another page, after something was done; and what was done, if the page is to say it.
    Go(String, Option<Notice>),
    /// A response of its own, such as a file.
    Response(Response),
}

/// What was just done, in a sentence that the next page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Notice {
    text: String,
    tone: Tone,
}

impl Answer {
    /// Another page, with the sentence that says what was done.
    fn done(address: impl Into<String>, told: impl Into<String>) -> Self {
        Self::told(address, Tone::Good, told)
    }

    /// Like [`Self::done`], where what was done is not always good news.
    fn told(address: impl Into<String>, tone: Tone, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Go(address.into(), Some(Notice { text, tone }))
    }
}

/// A page.
struct Page {
    title: String,
    /// The part of the console that it belongs to.
    part: Part,
    main: Markup,
}

/// The parts of the console, as its navigation lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Overview,
    Bookings,
    Reviews,
    Deliveries,
    Endpoints,
    Policies,
    Keys,
    Audit,
    // The operator's.
    Partners,
    People,
    System,
}

impl Page {
    fn new(part: Part, title: impl Into<String>, main: Markup) -> Self {
        Self {
            title: title.into(),
            part,
            main,
        }
    }

    fn ok(self) -> Answer {
        Answer::Page(StatusCode::OK, self)
    }

    /// The page of a form or a filter, with the status of its refusal.
    fn form(self, asked: &Asked) -> Answer {
        Answer::Page(form::status(asked.refused.as_ref()), self)
    }
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send + 'a>>;
type Handler = for<'a> fn(&'a User, &'a Asked) -> Answering<'a>;

/// What answers one method at a path, and what shows a refused form again.
struct Served {
    path: String,
    needs: Access,
    handler: Handler,
    again: Option<Handler>,
}

/// A path below [`PATH`], and what answers it.
struct PageRoute {
    path: &'static str,
    /// What somebody must be allowed to open its page or send its form: nobody fills in a form that they may not send.
    needs: Access,
    get: Option<Handler>,
    post: Option<Handler>,
    /// The page that shows what was sent again, if it was refused and [can be corrected](form::is_correctable).
    again: Option<Handler>,
}

fn places() -> Vec<PageRoute> {
    vec![
        place!("", get overview::show),
        place!("/bookings", get bookings::list),
        place!("/bookings/:bookingId", get booking::show),
        place!("/bookings/:bookingId/protect", get booking::confirm, post booking::protect, again booking::show, needs BookingsWrite),
        place!("/bookings/:bookingId/cancel", get booking::cancel::ask, post booking::cancel::send, needs BookingsWrite),
        place!("/bookings/:bookingId/reschedule", get booking::reschedule::ask, post booking::reschedule::send, again booking::reschedule::ask, needs BookingsWrite),
        place!("/bookings/:bookingId/decide", form booking::decide, needs BookingsWrite),
        place!("/bookings/:bookingId/share", form booking::share, needs EvidenceShare),
        place!("/bookings/:bookingId/shares/:shareId/revoke", get booking::share::confirm, post booking::share::revoke, needs EvidenceShare),
        place!("/bookings/:bookingId/hold", form booking::hold, needs EvidenceErase),
        place!("/bookings/:bookingId/holds/:holdId/release", get booking::hold::confirm, post booking::hold::release, again booking::hold::confirm, needs EvidenceErase),
        place!("/bookings/:bookingId/erase", get booking::erase::ask, post booking::erase::send, again booking::erase::ask, needs EvidenceErase),
        place!("/bookings/:bookingId/evidence/:form", get booking::evidence),
        place!("/bookings/:bookingId/evidence/items/:itemId/file", get booking::file),
        place!("/reviews", get reviews::list),
        place!("/deliveries", get deliveries::list),
        place!("/deliveries/recover", get deliveries::recover::ask, post deliveries::recover::send, again deliveries::recover::ask, needs WebhooksWrite),
        place!("/deliveries/:eventId", get deliveries::show),
        place!("/deliveries/:eventId/retry", post deliveries::retry, again deliveries::show),
        place!("/endpoints", get endpoints::list),
        place!("/endpoints/new", form endpoints::create, needs WebhooksWrite),
        place!("/endpoints/:endpointId", get endpoints::show),
        place!("/endpoints/:endpointId/change", form endpoints::change, needs WebhooksWrite),
        place!("/endpoints/:endpointId/test", post endpoints::test, again endpoints::show),
        place!("/endpoints/:endpointId/rotate-secret", form endpoints::rotate, needs WebhooksWrite),
        place!("/endpoints/:endpointId/remove", get endpoints::remove::ask, post endpoints::remove::send, needs WebhooksWrite),
        // No policy's id can be the name of a page, so none of these is below `/policies`.
        place!("/new-policy", get policies::editor::ask, post policies::editor::send, needs PoliciesWrite),
        place!("/policies", get policies::list),
        place!("/policies/:policyId", get policies::show::show),
        place!("/policies/:policyId/change", get policies::editor::ask, post policies::editor::send, needs PoliciesWrite),
        place!("/policies/:policyId/default", post policies::defaults::send, again policies::show::show),
        place!("/keys", get keys::list),
        place!("/keys/new", form keys::create, needs ApiKeysWrite),
        place!("/keys/:apiKeyId/rotate", form keys::rotate, needs ApiKeysWrite),
        place!("/keys/:apiKeyId/revoke", form keys::revoke, needs ApiKeysWrite),
        place!("/people/new", form keys::invite, needs ApiKeysWrite),
        place!("/people/:consoleSessionId/end", post keys::end),
        place!("/audit", get audit::list),
    ]
}

/// Adds the paths of the console of partners. Returns what says why there is no page at others below [`PATH`].
pub(crate) fn add_routes(app: &Arc<App>, routes: &mut Routes) -> Explain {
    let service = &app.service;
    let console = Console::new(app, Whose::Partners, service.public_url().to_owned());
    let places = places().into_iter();
    add(
        console,
        places.map(|place| (place.path.to_owned(), place)),
        routes,
    )
}

/// Adds the paths of the operator's console, which is at this address.
pub(crate) fn add_operator_routes(app: &Arc<App>, address: String, routes: &mut Routes) -> Explain {
    let console = Console::new(app, Whose::Operator, address);
    add(console, operator::all_places(), routes)
}

fn add(
    console: Console,
    places: impl Iterator<Item = (String, PageRoute)>,
    routes: &mut Routes,
) -> Explain {
    let console = Arc::new(console);
    let mut add = |path: String, method: Method, endpoint: BoxEndpoint<'static>| {
        routes.entry(path).or_default().insert(method, endpoint);
    };
    for (below, place) in places {
        let path = format!("{PATH}{below}");
        let methods = [
            (Method::GET, place.get, None),
            (Method::POST, place.post, place.again),
        ];
        for (method, handler, again) in methods {
            if let Some(handler) = handler {
                let served = Served {
                    path: below.clone(),
                    needs: place.needs,
                    handler,
                    again,
                };
                add(path.clone(), method, signed_in(&console, served));
            }
        }
    }
    for asset in assets::all() {
        add(asset.path(), Method::GET, asset.endpoint());
    }
    sign_in::add_routes(&console, &mut add);
    let first = console.link("");
    let lead = make_sync(move |_| led_to(&first));
    add(format!("{PATH}/"), Method::GET, lead.boxed());
    Box::new(move |response| console.explain(response))
}

/// An endpoint for somebody who is signed in.
fn signed_in(console: &Arc<Console>, served: Served) -> BoxEndpoint<'static> {
    let (console, served) = (Arc::clone(console), Arc::new(served));
    let call = move |request: Request| {
        let (console, served) = (Arc::clone(&console), Arc::clone(&served));
        async move { console.serve(request, &served).await }
    };
    make(call).boxed()
}

/// What the outside of a request says.
struct Arrival {
    from: IpAddr,
    cookie: Option<Cookie>,
    /// The address without [`PATH`], for coming back to it.
    address: String,
    is_form: bool,
}

impl Console {
    fn new(app: &Arc<App>, whose: Whose, address: String) -> Self {
        let base = url::Url::parse(&address).ok();
        let base = base.map_or_else(String::new, |url| {
            url.path().trim_end_matches('/').to_owned()
        });
        Self {
            app: Arc::clone(app),
            whose,
            cookies: Cookies::new(&app.service, whose, &address),
            address,
            base,
        }
    }

    fn now(&self) -> Timestamp {
        self.app.service.clock().now()
    }

    /// The address of a page of the console, as a browser asks for it.
    fn link(&self, address: &str) -> String {
        format!("{}{PATH}{address}", self.base)
    }

    /// Reads the outside of a request. The form of another site is refused.
    async fn arrive(&self, request: &mut Request) -> Result<Arrival, Refusal> {
        let is_form = request.method() == Method::POST;
        if is_form && !origin::is_own(request.headers(), &self.address) {
            let body = request.take_body();
            incoming::discard(request.headers(), body).await;
            return Err(origin::refusal());
        }
        let uri = request.uri();
        let path = uri.path().strip_prefix(PATH).unwrap_or_default();
        let query = uri
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        let address = format!("{path}{query}");
        Ok(Arrival {
            cookie: self.cookies.read(request.headers(), self.now()),
            from: incoming::address(request).unwrap_or(UNKNOWN_ADDRESS),
            address,
            is_form,
        })
    }

    /// Reads the fields of a form, or of the query.
    async fn fields(&self, request: &mut Request) -> Result<Fields, Refusal> {
        let pairs = match request.method() == Method::POST {
            true => incoming::form(request, limits::BODY_BYTES).await?,
            false => incoming::query(request.uri().query())?,
        };
        Ok(Fields::new(pairs))
    }

    async fn serve(self: Arc<Self>, mut request: Request, served: &Served) -> Response {
        let arrival = match self.arrive(&mut request).await {
            Ok(arrival) => arrival,
            Err(refusal) => return self.refuse(None, refusal),
        };
        let user = match self.user(&arrival).await {
            Ok(user) => user,
            Err(error) => {
                let body = request.take_body();
                incoming::discard(request.headers(), body).await;
                return self.not_signed_in(&arrival, error);
            }
        };
        let cost = Arc::clone(&user.cost);
        let serve = self.serve_user(user, &arrival, request, served);
        cost.along(serve).await
    }

    async fn serve_user(
        &self,
        mut user: User,
        arrival: &Arrival,
        mut request: Request,
        served: &Served,
    ) -> Response {
        let fields = match self.fields(&mut request).await {
            Ok(fields) => fields,
            Err(refusal) => return self.refuse(Some(&user), refusal),
        };
        // The session may have ended while the form arrived.
        if arrival.is_form
            && let Err(error) = user.identify_again().await
        {
            return self.not_signed_in(arrival, error);
        }
        let parts = served.path.split('/');
        let parameters = parts.filter_map(|part| part.strip_prefix(':'));
        let parameter = |name| request.raw_path_param(name).unwrap_or_default().to_owned();
        let mut parameters: Vec<String> = parameters.map(parameter).collect();
        if operator::is_about_partner(&served.path) && self.whose == Whose::Operator {
            let acted = user.act_for(&parameters.remove(0)).await;
            if let Err(error) = acted {
                return self.refuse(Some(&user), error.into());
            }
        }
        if let Err(error) = user.session.require(served.needs) {
            return self.refuse(Some(&user), error.into());
        }
        let asked = Asked {
            path: parameters,
            fields,
            now: self.now(),
            refused: None,
        };
        let answer = match ((served.handler)(&user, &asked).await, served.again) {
            (Err(error), Some(again)) if form::is_correctable(&error) => {
                again(&user, &asked.with_refusal(error)).await
            }
            (answer, _) => answer,
        };
        if arrival.is_form {
            user.look_again().await;
        }
        match answer {
            Ok(answer) => self.answer(&user, answer),
            Err(error) if error.kind == error::Kind::Unauthorized => {
                self.signed_out(sign_in::SignedOut::Ended)
            }
            Err(error) => self.refuse(Some(&user), error.into()),
        }
    }

    fn not_signed_in(&self, arrival: &Arrival, mut error: Error) -> Response {
        match error.kind {
            error::Kind::Unauthorized => sign_in::demand(self, arrival),
            kind => {
                // The form is not read, so only the browser still has what was typed.
                if arrival.is_form && kind == error::Kind::RateLimited {
                    error.message += " Nothing was recorded. Reload this page after that, and your browser sends the form again.";
                }
                self.refuse(None, error.into())
            }
        }
    }

    /// Whoever is signed in, if their partner may ask for more now. A session that was not used for too long is ended: its browser
    /// forgets the cookie now, so nobody could sign out of it, and it would keep its place until it expires.
    async fn user(self: &Arc<Self>, arrival: &Arrival) -> Result<User, Error> {
        if arrival.cookie.as_ref().is_some_and(|cookie| cookie.is_idle) {
            // If it cannot be ended now, it ends in time.
            let _ = self.end(arrival).await;
            return Err(Error::unauthorized());
        }
        let user = self.signed_in(arrival).await?;
        self.app.count(user.cost.payer())?;
        Ok(user)
    }

    /// Whoever is signed in, even if they did nothing for too long.
    async fn signed_in(self: &Arc<Self>, arrival: &Arrival) -> Result<User, Error> {
        let cookie = arrival.cookie.clone();
        let cookie = cookie.ok_or_else(Error::unauthorized)?;
        User::identify(Arc::clone(self), cookie, arrival.from).await
    }

    fn answer(&self, user: &User, answer: Answer) -> Response {
        match answer {
            Answer::Page(status, page) => {
                let Page { title, part, main } = page;
                let Cookie { notice, tone, .. } = &user.cookie;
                let told = notice.as_deref().map(|text| parts::notice(*tone, text));
                let page = self.framed(Some(user), &title, Some(part), told, main);
                let mut response = document(status, page);
                if notice.is_some() || self.cookies.is_stale(&user.cookie, self.now()) {
                    self.cookies
                        .set(&mut response, &user.cookie.token, self.now(), None);
                }
                response
            }
            Answer::Go(address, done) => {
                let cookie = self.cookies.seal(&user.cookie.token, self.now(), done);
                self.go(&user.link(&address), cookie)
            }
            Answer::Response(response) => response,
        }
    }

    /// Sends the browser to another page (RFC 9110 section 15.4.4: with a GET, whatever it sent).
    fn go(&self, address: &str, cookie: HeaderValue) -> Response {
        let mut response = led_to(address);
        response.headers_mut().append(SET_COOKIE, cookie);
        response
    }

    /// A page that says why a request was refused.
    fn refuse(&self, user: Option<&User>, refusal: Refusal) -> Response {
        let mut response = refusal.respond();
        let refused = response.extensions_mut().remove::<ErrorBody>();
        let (title, message) = match &refused {
            Some(refused) => worded(response.status(), refused),
            None => ("Error", ""),
        };
        self.say(user, &mut response, title, message);
        response
    }

    /// Makes a page of a refusal that no page of the console gave, such as that of an unknown address; leaves others as they are.
    fn explain(&self, response: &mut Response) {
        let Some(refused) = response.extensions_mut().remove::<ErrorBody>() else {
            return;
        };
        let (title, message) = match response.status() {
            StatusCode::NOT_FOUND => ("There is no such page", "Check the address."),
            StatusCode::METHOD_NOT_ALLOWED => (
                "There is no page at this address",
                "It takes a form that is on another page. Nothing was done now.",
            ),
            status => worded(status, &refused),
        };
        self.say(None, response, title, message);
    }

    /// Makes a page with only a message.
    fn say(&self, user: Option<&User>, response: &mut Response, title: &str, message: &str) {
        let main = html! {
            h1 { (title) }
            p.lead { (message) }
            p { a.button href=(self.link("")) { "Back to the overview" } }
        };
        show(response, self.framed(user, title, None, None, main));
    }
}

/// The title and the message of a page that says why a request was refused.
fn worded(status: StatusCode, refused: &ErrorBody) -> (&str, &str) {
    let title = match status {
        StatusCode::NOT_FOUND => {
            let what = refused.message.split(". ").next().unwrap_or_default();
            let title = what.trim_end_matches('.');
            return (
                title,
                "Check the address. What was removed has no page any more.",
            );
        }
        StatusCode::FORBIDDEN => "That is not allowed",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "Not available now",
        StatusCode::INTERNAL_SERVER_ERROR => "Something went wrong",
        _ => "That cannot be done",
    };
    (title, refused.message.as_str())
}

/// A response that sends the browser to this address.
fn led_to(address: &str) -> Response {
    let mut response = document(StatusCode::SEE_OTHER, html! {});
    let address = HeaderValue::try_from(address);
    let address = address.unwrap_or(HeaderValue::from_static(PATH));
    response.headers_mut().insert(LOCATION, address);
    response
}

/// A response with a page.
fn document(status: StatusCode, page: Markup) -> Response {
    let mut response = Response::default();
    response.set_status(status);
    show(&mut response, page);
    response
}

fn show(response: &mut Response, page: Markup) {
    response.set_body(page.into_string());
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, HTML),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        // Another site learns nothing of the address, which may hold what was searched for; this one may, or a browser
        // would not say which site a form comes from.
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
