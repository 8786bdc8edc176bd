//! The ledger for mirrors and monitors: checkpoint, key and tiles (C2SP tlog-tiles), served as text and bytes.

use std::sync::Arc;

use bookguard_core::error::Error;
use bookguard_core::features::{cosignatures, ledger};
use bookguard_core::ledger::TilePath;
use bookguard_core::service::Service;
use poem::endpoint::{BoxEndpoint, make};
use poem::http::StatusCode;
use poem::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use poem::{Body, EndpointExt as _, Request, Response};

use crate::app::App;
use crate::incoming::{self, accepts, decode};
use crate::media::{BYTES, TEXT};
use crate::payer::Payer;
use crate::readers::ReadClass;
use crate::refusal::Refusal;

const PREFIX: &str = "/v1/ledger/";
/// For full tiles. They never change in a log, but a log that continues after a loss keeps its address, and may have others there: what
/// caches hold of the former one must end by itself.
const A_DAY: &str = "public, max-age=86400";
/// For partial tiles, which stay valid but are soon replaced by wider ones.
const A_MINUTE: &str = "public, max-age=60";

type Get<'g> = &'g mut dyn FnMut(&str, BoxEndpoint<'static>) -> Option<BoxEndpoint<'static>>;

pub(super) fn add_routes(app: &Arc<App>, get: Get<'_>) {
    get(
        "/v1/ledger/checkpoint",
        endpoint(app, "text/plain", |service, _| {
            Ok(Some(answer(TEXT, "no-cache", ledger::checkpoint(service)?)))
        }),
    );
    get(
        "/v1/ledger/cosigned-checkpoint",
        endpoint(app, "text/plain", |service, _| {
            let policy = service.witnesses();
            let head = policy.map(|policy| cosignatures::witnessed(service, policy));
            let head = head.transpose()?.flatten();
            let head = head.ok_or_else(|| Error {
                message: "No checkpoint has been cosigned yet. The latest one is at /v1/ledger/checkpoint.".into(),
                ..Error::not_found("cosigned checkpoint")
            })?;
            Ok(Some(answer(TEXT, "no-cache", head.note)))
        }),
    );
    get(
        "/v1/ledger/key",
        endpoint(app, "text/plain", |service, _| {
            Ok(Some(answer(TEXT, A_MINUTE, ledger::vkey(service)?)))
        }),
    );
    get("/v1/ledger/tile/*path", endpoint(app, BYTES, tile));
}

type Answer = Result<Option<Response>, Error>;

fn endpoint(
    app: &Arc<App>,
    media_type: &'static str,
    read: fn(&Service, &str) -> Answer,
) -> BoxEndpoint<'static> {
    let app = Arc::clone(app);
    let call = move |request: Request| {
        let app = Arc::clone(&app);
        let payer = Payer::at(incoming::address(&request));
        let path = request.uri().path().strip_prefix(PREFIX);
        // A client generated from the interface document sends the slashes of a tile's path as %2F.
        let path = path.and_then(|path| decode(path, false));
        let path = path.unwrap_or_default();
        let acceptable = accepts(request.headers(), media_type);
        async move {
            if let Err(refusal) = acceptable {
                return refusal.respond();
            }
            let service = Arc::clone(&app.service);
            let read = move || read(&service, &path);
            match app.read(&app.cost(payer), ReadClass::Short, read).await {
                Ok(Some(response)) => response,
                Ok(None) => {
                    let message = "The log has no such tile, or has not grown that far yet. See /v1/ledger/checkpoint for its \
                                   size.";
                    Refusal::http(StatusCode::NOT_FOUND, "tile_not_found", message).respond()
                }
                Err(error) => Refusal::from(error).respond(),
            }
        }
    };
    make(call).boxed()
}

fn tile(service: &Service, path: &str) -> Answer {
    let Ok(parsed) = path.parse::<TilePath>() else {
        return Ok(None);
    };
    let cache = if parsed.is_partial() { A_MINUTE } else { A_DAY };
    Ok(ledger::tile(service, path)?.map(|bytes| answer(BYTES, cache, bytes)))
}

fn answer(content_type: &'static str, cache: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::from(body.into());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}
