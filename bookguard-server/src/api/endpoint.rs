//! One endpoint for every operation: request in, session and input made, core asked, response out.
//!
//! This is the path of every request, so it parses once, copies little and blocks nothing: reads run where blocking
//! is allowed, writes are handed to the writer and awaited. Invariant: no rule of the product is decided here.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::RevokeApiKey;
use bookguard_core::features::events;
use bookguard_core::limits;
use bookguard_core::model::ApiKeyId;
use bookguard_core::operation::{self, Action, Finished, Operation, ReadFn, Watch, Writing};
use bookguard_core::service::Service;
use bookguard_core::session::Session;
use poem::http::StatusCode;
use poem::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION,
};
use poem::{Endpoint, Request, Response};
use sha2::{Digest as _, Sha256};

use crate::app::{Admitted, App, Tab, Turned};
use crate::incoming;
use crate::payer::Payer;
use crate::readers::ReadClass;
use crate::refusal::Refusal;
use crate::watch;

/// How long the answer to a manual retry waits for its outcome.
const RETRY_WAIT: Duration = Duration::from_millis(limits::RETRY_WAIT_MS);
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Serves one operation.
pub(crate) struct Served<O> {
    app: Arc<App>,
    tagged: bool,
    at_once: bool,
    /// The most bytes of a body.
    body_bytes: usize,
    operation: PhantomData<fn() -> O>,
}

/// How far a request came before anything is waited for.
enum Step<T> {
    Done(Finished),
    Long(Session, ReadFn<T>),
    Watch(Session, Watch<T>),
    Write(Session, Writing<T>),
}

impl<O: Operation> Served<O> {
    pub(crate) fn new(app: Arc<App>, tagged: bool, at_once: bool) -> Self {
        Self {
            at_once: at_once && !app.is_operated(),
            app,
            tagged,
            body_bytes: limits::BODY_BYTES,
            operation: PhantomData,
        }
    }

    /// The same, for bodies of another size.
    pub(crate) fn reading(self, body_bytes: usize) -> Self {
        Self { body_bytes, ..self }
    }

    async fn answer(&self, session: Session, request: &mut Request) -> Result<Response, Refusal> {
        let tab = match request.extensions_mut().remove() {
            Some(tab) => tab,
            None => self.app.tab(Payer::of(&session.authority)),
        };
        let mut input = self.input(request).await?;
        let revoked = if O::ROUTE.id == RevokeApiKey::ROUTE.id {
            input.path.first().cloned()
        } else {
            None
        };
        input.from_memory = self.at_once;
        let input = Arc::new(input);
        let headers = request.headers();
        let attempted = self.attempt(&tab, session.clone(), Arc::clone(&input), headers);
        let finished = match attempted.await {
            Err(error) if error.is_outdated() && input.from_memory => {
                let mut anew = operation::Request::clone(&input);
                anew.from_memory = false;
                self.attempt(&tab, session, Arc::new(anew), headers).await?
            }
            attempted => attempted?,
        };
        if let Some(api_key_id) = revoked.and_then(|text| ApiKeyId::parse(&text)) {
            self.app.keys.forget(&api_key_id);
        }
        Ok(respond(
            O::ROUTE.status,
            finished,
            self.tagged.then(|| request.headers()),
        ))
    }

    /// Does what is asked; from memory, without leaving this task before the writer is needed.
    async fn attempt(
        &self,
        tab: &Arc<Tab>,
        session: Session,
        input: Arc<operation::Request>,
        headers: &HeaderMap,
    ) -> Result<Finished, Error> {
        // What is larger than other bodies takes its time from the first byte on.
        let class = match input.body.len() {
            0..=limits::BODY_BYTES => ReadClass::Short,
            _ => ReadClass::Long,
        };
        let step = if input.from_memory {
            tab.at_once(|| step::<O>(session, &input))?
        } else {
            let read = move || step::<O>(session, &input);
            self.app.read(tab, class, read).await?
        };
        match step {
            Step::Done(finished) => Ok(finished),
            Step::Long(session, read) => {
                let read = move || Ok(operation::finish::<O>(&read(&session)?));
                self.app.read(tab, ReadClass::Long, read).await
            }
            Step::Watch(session, watch) => {
                let found = self.watch(tab, session, watch).await?;
                // The key may have been revoked meanwhile.
                self.app.identify(headers).await?;
                Ok(found)
            }
            Step::Write(session, writing) => self.write(&session, writing).await,
        }
    }

    async fn watch(
        &self,
        tab: &Arc<Tab>,
        session: Session,
        watch: Watch<O::Output>,
    ) -> Result<Finished, Error> {
        let class = match watch.is_long {
            true => ReadClass::Long,
            false => ReadClass::Short,
        };
        let look = || {
            let (session, look) = (session.clone(), Arc::clone(&watch.look));
            self.app.read(tab, class, move || look(&session))
        };
        let found = watch::watch(session.service.news(), &watch, look).await?;
        Ok(operation::finish::<O>(&found))
    }

    async fn input(&self, request: &mut Request) -> Result<operation::Request, Refusal> {
        incoming::accepts(request.headers(), "application/json")?;
        let body = incoming::body(request, self.body_bytes).await?;
        Ok(operation::Request {
            path: incoming::parameters(O::ROUTE.path, request.uri().path()),
            query: incoming::query(request.uri().query())?,
            body,
            idempotency_key: incoming::idempotency_key(request.headers()),
            known_tags: match self.tagged {
                true => known_tags(request.headers()),
                false => Vec::new(),
            },
            from_memory: false,
        })
    }

    async fn write(
        &self,
        session: &Session,
        writing: Writing<O::Output>,
    ) -> Result<Finished, Error> {
        let Writing { command, awaits } = writing;
        let remembered = command
            .remember
            .as_ref()
            .filter(|_| awaits.is_some())
            .map(|remember| remember.key);
        let courier = &self.app.courier;
        let awaited = awaits.map(|awaits| courier.ready(awaits)).transpose()?;
        let outcome = Service::outcome(session.service.submit(command)?).await?;
        let mut finished = operation::finish_write::<O>(outcome);
        if let Some(awaited) = awaited.filter(|_| !finished.replayed)
            && let Some(body) = courier.answer(awaited, RETRY_WAIT).await?
        {
            finished.body = body;
            if let Some(key) = remembered {
                // Before it leaves: a repetition must find what was sent.
                let replacement = events::replace_answer(session, key, &finished.body);
                session.service.submit_patiently(replacement).await?;
            }
        }
        Ok(finished)
    }
}

impl<O: Operation> Endpoint for Served<O> {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        let (mut response, limit) = match self.app.admit(&O::ROUTE, &request).await {
            Ok(Admitted { session, limit }) => {
                let answer = self.answer(session, &mut request).await;
                (answer.unwrap_or_else(Refusal::respond), limit)
            }
            Err(Turned { error, limit }) => {
                let body = request.take_body();
                incoming::discard(request.headers(), body).await;
                (Refusal::from(error).respond(), limit)
            }
        };
        if let Some(limit) = limit {
            limit.write(response.headers_mut());
        }
        Ok(response)
    }
}

/// Reads the request, and the store too when that is all there is to do.
fn step<O: Operation>(
    session: Session,
    input: &operation::Request,
) -> Result<Step<O::Output>, Error> {
    match operation::prepare::<O>(&session, input)? {
        Action::Read(read) => Ok(Step::Done(operation::finish::<O>(&read(&session)?))),
        Action::Long(read) => Ok(Step::Long(session, read)),
        Action::Unchanged(tag) => Ok(Step::Done(Finished::unchanged(tag))),
        Action::Watch(watch) => Ok(Step::Watch(session, watch)),
        Action::Write(writing) => Ok(Step::Write(session, writing)),
    }
}

/// Makes an answer a response; `tagged` holds the request's headers when it carries an ETag.
fn respond(status: u16, finished: Finished, tagged: Option<&HeaderMap>) -> Response {
    let etag = tagged.map(|_| match &finished.tag {
        Some(tag) => weak_tag(tag),
        None => entity_tag(&finished.body),
    });
    let unchanged = etag
        .as_ref()
        .zip(tagged)
        .is_some_and(|(etag, headers)| is_current(etag, headers));
    let status = if unchanged {
        StatusCode::NOT_MODIFIED
    } else {
        StatusCode::from_u16(status).unwrap_or_default()
    };
    let mut response = if unchanged {
        Response::default()
    } else {
        Response::from(finished.body)
    };
    response.set_status(status);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !unchanged {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if let Some(etag) = etag {
        headers.insert(ETAG, etag);
    }
    if let Some(location) = finished
        .location
        .and_then(|location| HeaderValue::try_from(location).ok())
    {
        headers.insert(LOCATION, location);
    }
    if finished.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// A strong entity tag: 128 bits of the body's SHA-256.
pub(crate) fn entity_tag(body: &[u8]) -> HeaderValue {
    let digest = hex::encode(&Sha256::digest(body)[..16]);
    HeaderValue::try_from(format!("\"{digest}\"")).expect("quoted hex digits are visible ASCII")
}

/// The tag of what an answer says: made anew it differs in its bytes, as a packet does that is signed at another time.
fn weak_tag(tag: &str) -> HeaderValue {
    HeaderValue::try_from(format!("W/\"{tag}\"")).expect("the core's tags are hex digits")
}

/// The tags in If-None-Match, without quotation marks and weakness; `*` for whatever there is.
fn known_tags(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let tags = texts.flat_map(|text| text.split(',').map(str::trim));
    let opaque = |tag: &str| match tag {
        "*" => Some(tag.to_owned()),
        tag => {
            let quoted = tag.strip_prefix("W/").unwrap_or(tag);
            let tag = quoted.strip_prefix('"')?.strip_suffix('"')?;
            Some(tag.to_owned())
        }
    };
    tags.filter_map(opaque).collect()
}

/// Whether If-None-Match names the current tag (RFC 9110 section 13.1.2: weak comparison).
pub(crate) fn is_current(etag: &HeaderValue, headers: &HeaderMap) -> bool {
    let current = etag.to_str().unwrap_or_default();
    let current = current.strip_prefix("W/").unwrap_or(current);
    let mut known = known_tags(headers).into_iter();
    known.any(|tag| tag == "*" || tag == current.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished() -> Finished {
        Finished {
            body: b"{}".to_vec(),
            location: Some("/v1/x".to_owned()),
            tag: None,
            replayed: false,
        }
    }

    fn asking(if_none_match: &str) -> HeaderMap {
        HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::try_from(if_none_match).unwrap())])
    }

    #[tokio::test]
    async fn an_unchanged_body_is_not_sent_again() {
        let etag = entity_tag(b"{}").to_str().unwrap().to_owned();
        for (header, status) in [
            (etag.clone(), 304),
            (format!("W/{etag}"), 304),
            (format!("\"other\", {etag}"), 304),
            ("*".to_owned(), 304),
            ("\"other\"".to_owned(), 200),
            (etag.trim_matches('"').to_owned(), 200),
        ] {
            let response = respond(200, finished(), Some(&asking(&header)));
            assert_eq!(response.status().as_u16(), status, "{header}");
            assert_eq!(response.header("etag"), Some(etag.as_str()));
            assert_eq!(
                response.into_body().into_vec().await.unwrap().is_empty(),
                status == 304
            );
        }
    }

    #[test]
    fn headers_say_what_the_answer_is() {
        let response = respond(
            201,
            Finished {
                replayed: true,
                ..finished()
            },
            None,
        );
        for (name, value) in [
            ("content-type", Some("application/json")),
            ("cache-control", Some("no-store")),
            ("location", Some("/v1/x")),
            ("idempotent-replayed", Some("true")),
            ("etag", None),
        ] {
            assert_eq!(response.header(name), value, "{name}");
        }
        assert_eq!(response.status().as_u16(), 201);
    }
}
