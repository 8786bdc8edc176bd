//! The endpoint for every operation: identifies the caller, reads the input, calls the operation, writes the response.
//!
//! Invariant: no rule of the product is decided here.

use std::sync::Arc;

use bookguard_core::engine::change::SentFile;
use bookguard_core::error::Error;
use bookguard_core::limits;
use bookguard_core::model::BookingId;
use bookguard_core::operation::{self, Body, Finished, Method};
use bookguard_core::session::{Authority, Session};
use bytes::Bytes;
use poem::http::StatusCode;
use poem::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LOCATION, VARY,
};
use poem::{Endpoint, Request, Response};

use super::OperationEntry;
use super::call::{Caller, call};
use super::download::Download;
use super::forms::{AnswerForm, Make, chosen};
use crate::app::{Admitted, App, NotAdmitted, RequestCost};
use crate::incoming;
use crate::media;
use crate::negotiation::{entity_tag, is_current, known_tags, weak_tag};
use crate::payer::Payer;
use crate::readers::ReadClass;
use crate::refusal::Refusal;
use crate::uploads::Upload;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Serves one operation.
pub(crate) struct OperationEndpoint {
    pub(super) app: Arc<App>,
    pub(super) entry: OperationEntry,
}

impl OperationEndpoint {
    async fn answer(
        &self,
        mut session: Session,
        request: &mut Request,
    ) -> Result<Response, Refusal> {
        let cost = self.app.cost(Payer::of(&session.authority));
        let mut query = incoming::query(request.uri().query())?;
        let form = match self.entry.sends_file {
            true => None,
            false => chosen(self.entry.forms, request.headers(), &mut query)?,
        };
        let mut upload = matches!(self.entry.route.body, Body::File)
            .then(|| self.app.uploads.begin(Payer::of(&session.authority)));
        let input = self.input(request, query, form, upload.as_mut()).await?;
        if !matches!(session.authority, Authority::Anonymous { .. })
            && incoming::declared_length(request.headers()) != Some(0)
        {
            // The key may have been revoked, or have expired, while the body arrived.
            let payer = Payer::of(&session.authority);
            session.authority = self.app.identify(request.headers(), payer).await?;
        }
        let download = Download {
            app: Arc::clone(&self.app),
            session: session.clone(),
            cost: Arc::clone(&cost),
        };
        let headers = request.headers();
        let caller = Caller {
            app: &self.app,
            session,
            cost: &cost,
            headers: Some(headers),
        };
        let mut finished = call(caller, self.entry.route.id, self.entry.step, input).await?;
        if let (Some(form), Some(tag)) = (form, &mut finished.tag) {
            tag.push_str(&form.mark(&self.app.maker));
        }
        if let Some(location) = &mut finished.location {
            location.insert_str(0, self.app.base_path());
        }
        let is_archive = form.is_some_and(|form| matches!(form.make, Make::Archive));
        let tagged = (self.entry.is_tagged() && !is_archive).then_some(headers);
        let file = finished.file.take();
        let mut response = respond(self.entry.route.status, finished, tagged);
        if let Some(file) = file {
            download.file(file, &mut response);
        } else if let Some(form) = form {
            let booking_id = incoming::parameters(&self.entry.route, request);
            let booking_id = booking_id.first().map_or("", String::as_str);
            response.headers_mut().extend((form.headers)(booking_id));
            // In a box, because every request has a future of this size.
            let rendered = self.render(form, &cost, download, booking_id, response);
            response = Box::pin(rendered).await?;
        }
        if !self.entry.forms.is_empty() {
            let vary = HeaderValue::from(ACCEPT);
            response.headers_mut().append(VARY, vary);
        }
        Ok(response)
    }

    /// Makes an answer's form, which may take long, unless the client has it already.
    async fn render(
        &self,
        form: &'static AnswerForm,
        cost: &Arc<RequestCost>,
        download: Download,
        booking_id: &str,
        mut response: Response,
    ) -> Result<Response, Refusal> {
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        let json = response.take_body().into_vec().await;
        let json = json.map_err(|e| Error::internal(format!("an answer cannot be read: {e}")))?;
        let make = match form.make {
            Make::Json(make) => make,
            Make::Archive => {
                let booking_id = BookingId::parse(booking_id);
                let booking_id = booking_id.ok_or_else(|| Error::not_found("booking"))?;
                download.archive(booking_id, json, &mut response).await?;
                return Ok(response);
            }
        };
        let app = Arc::clone(&self.app);
        let make = move || make(&json, &app.maker);
        let made = self.app.read(cost, ReadClass::Long, make).await?;
        let media_type = HeaderValue::from_static(form.media_type);
        response.headers_mut().insert(CONTENT_TYPE, media_type);
        response.set_body(made);
        Ok(response)
    }

    /// Of the tags a client knows, those of this form, as the operation knows them.
    fn tags_of(&self, form: Option<&AnswerForm>, tags: Vec<String>) -> Vec<String> {
        let Some(mark) = form.map(|form| form.mark(&self.app.maker)) else {
            return tags;
        };
        let own = |tag: String| match tag.as_str() {
            "*" => Some(tag),
            tag => tag.strip_suffix(&mark).map(str::to_owned),
        };
        tags.into_iter().filter_map(own).collect()
    }

    async fn input(
        &self,
        request: &mut Request,
        query: Vec<(String, String)>,
        form: Option<&AnswerForm>,
        upload: Option<&mut Upload>,
    ) -> Result<operation::Request, Refusal> {
        if self.entry.route.method != Method::Get {
            incoming::no_precondition(request).await?;
        }
        let is_archive = form.is_some_and(|form| matches!(form.make, Make::Archive));
        let (body, file) = match upload {
            Some(upload) => {
                let file = incoming::file(request, limits::FILE_BYTES, upload).await?;
                (Vec::new(), file)
            }
            None => {
                let body = incoming::body(request, limits::BODY_BYTES).await?;
                (body, SentFile::default())
            }
        };
        Ok(operation::Request {
            path: incoming::parameters(&self.entry.route, request),
            query,
            body,
            file: Arc::new(file),
            idempotency_key: incoming::idempotency_key(request.headers()),
            known_tags: match self.entry.is_tagged() && !is_archive {
                true => self.tags_of(form, known_tags(request.headers())),
                false => Vec::new(),
            },
            from_memory: self.entry.is_from_memory(&self.app),
        })
    }
}

impl Endpoint for OperationEndpoint {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        let from = incoming::address(&request);
        let admitted = (self.app)
            .admit(&self.entry.route, request.headers(), from, Payer::at(from))
            .await;
        let (mut response, limit) = match admitted {
            Ok(Admitted { session, limit }) => {
                let answer = self.answer(session, &mut request).await;
                (answer.unwrap_or_else(Refusal::respond), limit)
            }
            Err(NotAdmitted { error, limit }) => {
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

/// Converts an answer to a response. `tagged` holds the request's headers if answers carry an ETag.
fn respond(status: u16, finished: Finished, tagged: Option<&HeaderMap>) -> Response {
    let etag = tagged.map(|_| match &finished.tag {
        Some(tag) => weak_tag(tag),
        None => entity_tag(&finished.body),
    });
    let unchanged = etag
        .as_ref()
        .zip(tagged)
        .is_some_and(|(etag, headers)| is_current(etag, headers));
    let (body, status) = match StatusCode::from_u16(status) {
        _ if unchanged => (Bytes::new(), StatusCode::NOT_MODIFIED),
        status => (finished.body, status.unwrap_or_default()),
    };
    let mut response = Response::from(body);
    response.set_status(status);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !unchanged {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
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

#[cfg(test)]
mod tests {
    use poem::http::header::IF_NONE_MATCH;

    use super::*;

    fn finished() -> Finished {
        Finished {
            body: Bytes::from_static(b"{}"),
            location: Some("/v1/x".to_owned()),
            tag: None,
            replayed: false,
            file: None,
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
