//! Reads the HTTP message around an operation's request: path, query, body, and the headers that matter.
//!
//! The core checks the fields; `values` reads single ones. poem's extractors would word their refusals differently, and its `Accept`
//! ignores weights.
//! Invariant: no more than the body limit is held for one request, however the client sends it.

mod values;

use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use bookguard_core::engine::change::SentFile;
use bookguard_core::error::Error;
use bookguard_core::limits::EVENT_WAIT_S;
use bookguard_core::operation::Route;
use poem::http::StatusCode;
use poem::http::Version;
use poem::http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HOST, HeaderMap, IF_MATCH, TRANSFER_ENCODING,
};
use poem::{Body, Request};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout, timeout_at};

pub(crate) use self::values::{check_query_bytes, declared_length, decode, idempotency_key, query};
use self::values::{in_host, names_json, pairs};
use crate::causes::chain;
use crate::media;
use crate::negotiation::{names, wish};
use crate::observer;
use crate::refusal::{PROBLEM, Refusal};
use crate::uploads::Upload;

/// The most time from the first byte of a request to the first byte of its answer: enough for a body of 64 KiB and for waiting
/// for an event.
pub(crate) const REQUEST: Duration = Duration::from_secs(15 + EVENT_WAIT_S);
/// The most bytes of a request's head.
pub(crate) const HEAD_BYTES: usize = 32 * 1024;
/// The most bytes of its path.
const PATH_BYTES: usize = 8 * 1024;
/// Bytes of a refused body that are read and dropped, so that the client can read the refusal. For a larger body the connection
/// is closed while the client still sends.
const DISCARD_BYTES: usize = 12 * 1024 * 1024;
/// Bytes of a file that are read before it needs a place and room: whoever only announces a file takes none, and a small file
/// never waits.
const FILE_PIECE: usize = 64 * 1024;
/// How long to wait for more of a file before looking at its pace.
const FILE_PAUSE: Duration = Duration::from_millis(100);
/// How long discarding a body may take. A connection with a request under way is never closed to make room, so a refused
/// client, such as one without a key, must not hold it by sending slowly.
const DISCARD: Duration = Duration::from_secs(5);
/// The media type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// Refuses a message that another server on its way could read differently: one without exactly one valid Host (RFC 9112
/// section 3.2), with two Content-Types, or with a Transfer-Encoding other than `chunked`.
///
/// # Errors
/// `path_too_long`, `headers_too_large`, `invalid_host`, `duplicate_header`, `invalid_transfer_encoding`, `unsupported_transfer_encoding`.
pub(crate) fn check(request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let path = request.original_uri().path().len();
    if path > PATH_BYTES {
        return Err(Refusal::unread(StatusCode::URI_TOO_LONG));
    }
    // The connection reads somewhat more, because its buffer grows in steps.
    let lines = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    let query = request.original_uri().query().map_or(0, str::len);
    if path + query + lines.sum::<usize>() > HEAD_BYTES {
        return Err(Refusal::unread(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    }
    let mut hosts = headers.get_all(HOST).iter();
    let fault = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() < Version::HTTP_11 => None,
        (None, _) => Some("The Host header is missing."),
        (Some(_), Some(_)) => Some("The Host header was sent more than once."),
        (Some(host), None) if host.as_bytes().iter().copied().all(in_host) => None,
        (Some(_), None) => Some("The Host header is not a host and a port."),
    };
    if let Some(fault) = fault {
        let message = format!("{fault} Send exactly one, such as Host: bookings.example.com.");
        return Err(Refusal::framing(
            StatusCode::BAD_REQUEST,
            "invalid_host",
            message,
        ));
    }
    if headers.get_all(CONTENT_TYPE).iter().nth(1).is_some() {
        let message = "The Content-Type header was sent more than once. Send it once.";
        return Err(Error::invalid("duplicate_header", message).into());
    }
    transfer_encoding(headers)
}

/// Checks the transfer codings. The connection has already checked that the last one is `chunked`.
fn transfer_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let lines = headers.get_all(TRANSFER_ENCODING).iter();
    let codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let codings = codings
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty());
    let (chunked, others): (Vec<_>, Vec<_>) =
        codings.partition(|coding| coding.eq_ignore_ascii_case(b"chunked"));
    if chunked.len() > 1 {
        return Err(Refusal::framing(
            StatusCode::BAD_REQUEST,
            "invalid_transfer_encoding",
            "Transfer-Encoding names chunked more than once. Send it once, or send Content-Length.",
        ));
    }
    if !others.is_empty() {
        return Err(Refusal::framing(
            StatusCode::NOT_IMPLEMENTED,
            "unsupported_transfer_encoding",
            "The only transfer coding that is understood is chunked. Send Transfer-Encoding: chunked, or Content-Length.",
        ));
    }
    Ok(())
}

/// The values of a route's parameters. One that is not UTF-8 becomes empty and matches nothing, like any unknown id.
pub(crate) fn parameters(route: &Route, request: &Request) -> Vec<String> {
    let value = |name| request.raw_path_param(name).unwrap_or_default().to_owned();
    route.parameters().map(value).collect()
}

/// Refuses with 406 if the client does not accept this media type (RFC 9110 section 12.5.1).
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> Result<(), Refusal> {
    choose(headers, &[media_type]).map(drop)
}

/// Which of these media types the client wants most: the first of those that it wants equally.
///
/// # Errors
/// 406 if it accepts none of them.
pub(crate) fn choose(headers: &HeaderMap, media_types: &[&str]) -> Result<usize, Refusal> {
    let wishes = media_types
        .iter()
        .map(|media_type| wish(headers, media_type));
    // Of equal maxima, `max_by_key` returns the last.
    let best = wishes.enumerate().rev().max_by_key(|(_, wish)| *wish);
    if let Some((place, 1..)) = best {
        return Ok(place);
    }
    // A client that names only the media type of refusals wants to read them, and says nothing about other answers.
    if media_types.first() == Some(&media::JSON) && names(headers, PROBLEM).is_some() {
        return Ok(0);
    }
    let types = media_types.join(" or ");
    let message = format!(
        "Answers are {types}, which the Accept header excludes. Leave it out, or add {}.",
        media_types.first().unwrap_or(&"*/*")
    );
    Err(Refusal::http(
        StatusCode::NOT_ACCEPTABLE,
        "not_acceptable",
        message,
    ))
}

/// Refuses a write that is to happen only if nothing has changed: no write checks this, and whoever asks for it counts on it.
///
/// # Errors
/// `unsupported_precondition`.
pub(crate) async fn no_precondition(request: &mut Request) -> Result<(), Refusal> {
    if !request.headers().contains_key(IF_MATCH) {
        return Ok(());
    }
    let body = request.take_body();
    discard(request.headers(), body).await;
    let message =
        "Writes take no preconditions, and nothing was written. Leave out the header If-Match.";
    Err(Error::invalid("unsupported_precondition", message).into())
}

/// Reads a body of at most `most` bytes, whatever its framing.
///
/// # Errors
/// 413 `body_too_large`, 415 if the body is not declared as plain JSON, and those of [`unfinished`].
pub(crate) async fn body(request: &mut Request, most: usize) -> Result<Vec<u8>, Refusal> {
    observer::waiting(whole_body(request, most, is_json)).await
}

/// Reads a body of at most `most` bytes, whatever its type.
///
/// # Errors
/// 413 `body_too_large`, 415 if it is compressed, and those of [`unfinished`].
pub(crate) async fn bytes(request: &mut Request, most: usize) -> Result<Vec<u8>, Refusal> {
    observer::waiting(whole_body(request, most, is_plain)).await
}

/// Reads the fields of a form (`application/x-www-form-urlencoded`) of at most `most` bytes.
///
/// # Errors
/// Those of [`body`], 415 if the body is not declared as a form, `invalid_form` for a broken percent-encoding.
pub(crate) async fn form(
    request: &mut Request,
    most: usize,
) -> Result<Vec<(String, String)>, Refusal> {
    let bytes = observer::waiting(whole_body(request, most, is_form)).await?;
    let text = str::from_utf8(&bytes).ok();
    text.and_then(pairs).ok_or_else(|| {
        let message = "The form is not percent-encoded UTF-8. Send it as a browser does.";
        Error::invalid("invalid_form", message).into()
    })
}

/// Reads a body whose headers `check` accepts.
async fn whole_body(
    request: &mut Request,
    most: usize,
    check: fn(&HeaderMap) -> Result<(), Refusal>,
) -> Result<Vec<u8>, Refusal> {
    let length = declared_length(request.headers());
    if length == Some(0) {
        return Ok(Vec::new());
    }
    let body = request.take_body();
    let bytes: Vec<u8> = match length {
        Some(length) if length > most as u64 => {
            discard(request.headers(), body).await;
            return Err(too_large(most));
        }
        // The connection never yields more bytes than declared.
        Some(_) => body.into_bytes().await.map_err(|e| unfinished(&e))?.into(),
        None => {
            let mut body = body.into_async_read();
            let mut bytes = Vec::new();
            let mut part = (&mut body).take(most as u64 + 1);
            let read = part.read_to_end(&mut bytes).await;
            read.map_err(|e| unfinished(&e))?;
            if bytes.len() > most {
                drop(bytes);
                drop_rest(body).await;
                return Err(too_large(most));
            }
            bytes
        }
    };
    if !bytes.is_empty() {
        check(request.headers())?;
    }
    Ok(bytes)
}

/// Reads the body of an upload: at most `most` bytes of a file, whatever its framing and its type. A file that is not complete
/// after its first piece gets a place, and room as a whole, that of the largest file if its length is not declared.
///
/// # Errors
/// 413 `body_too_large`, 415 if it is compressed, and those of [`unfinished`] and of [`Upload`].
pub(crate) async fn file(
    request: &mut Request,
    most: usize,
    upload: &mut Upload,
) -> Result<SentFile, Refusal> {
    observer::waiting(whole_file(request, most, upload)).await
}

async fn whole_file(
    request: &mut Request,
    most: usize,
    upload: &mut Upload,
) -> Result<SentFile, Refusal> {
    let length = declared_length(request.headers());
    let body = request.take_body();
    if length.is_some_and(|length| length > most as u64) {
        discard(request.headers(), body).await;
        return Err(too_large(most));
    }
    if let Err(refused) = is_plain(request.headers()) {
        discard(request.headers(), body).await;
        return Err(refused);
    }
    let mut body = body.into_async_read();
    let mut file = SentFile::default();
    let mut piece = Vec::with_capacity(FILE_PIECE);
    let mut first = (&mut body).take(FILE_PIECE as u64);
    let read = first.read_to_end(&mut piece).await;
    read.map_err(|e| unfinished(&e))?;
    file.push(&piece);
    if piece.len() == FILE_PIECE {
        let whole = length.map_or(most, |length| usize::try_from(length).unwrap_or(most));
        if let Err(refused) = rest_of_file(&mut body, &mut file, whole, upload).await {
            drop(file);
            upload.leave();
            drop_rest(body).await;
            return Err(refused);
        }
    }
    // A connection that ended early is an error of the body, unless it was not read to its end.
    match length.is_some_and(|length| length != file.bytes().len() as u64) {
        true => Err(incomplete()),
        false => Ok(file),
    }
}

/// Reads what follows the first piece of a file of at most `whole` bytes.
async fn rest_of_file(
    body: &mut (impl AsyncRead + Unpin),
    file: &mut SentFile,
    whole: usize,
    upload: &mut Upload,
) -> Result<(), Refusal> {
    upload.enter(whole).await?;
    file.reserve(whole.saturating_sub(file.bytes().len()));
    let mut piece = Vec::with_capacity(FILE_PIECE);
    while file.bytes().len() <= whole {
        piece.clear();
        match timeout(FILE_PAUSE, body.read_buf(&mut piece)).await {
            Ok(Ok(0)) => return Ok(()),
            Ok(read) => drop(read.map_err(|e| unfinished(&e))?),
            Err(_) => {}
        }
        file.push(&piece);
        upload.keep_pace(piece.len())?;
    }
    Err(too_large(whole))
}

/// The address that a request comes from, if known. An IPv4 address is never given in its IPv6 form.
pub(crate) fn address(request: &Request) -> Option<IpAddr> {
    let from = request.remote_addr().as_socket_addr();
    from.map(|address| address.ip().to_canonical())
}

/// Reads and drops the body of a request that was refused before its body was read.
pub(crate) async fn discard(headers: &HeaderMap, body: Body) {
    // A client that waits for "100 Continue" has sent no body and will not.
    if declared_length(headers) != Some(0) && !headers.contains_key(EXPECT) {
        observer::waiting(drop_rest(body.into_async_read())).await;
    }
}

/// Reads and drops the rest of a body, up to [`DISCARD_BYTES`] and for at most [`DISCARD`].
pub(crate) async fn drop_rest(mut body: impl AsyncRead + Unpin) {
    let until = Instant::now() + DISCARD;
    let mut buffer = vec![0; 16 * 1024];
    let mut dropped = 0;
    while dropped < DISCARD_BYTES {
        let read = timeout_at(until, body.read(&mut buffer)).await;
        match read.unwrap_or(Ok(0)) {
            Ok(read) if read > 0 => dropped += read,
            _ => return,
        }
    }
}

/// Returns 413 for a body of more than `most` bytes.
pub(crate) fn too_large(most: usize) -> Refusal {
    let message = format!("The body is larger than {most} bytes, the most this service reads.");
    Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

/// Returns the refusal of a body whose rest cannot be read: the connection waited for it for as long as it may, its chunks cannot
/// be told apart, or it ended.
pub(crate) fn unfinished(error: &(dyn StdError + 'static)) -> Refusal {
    let mut causes = chain(error).filter_map(|error| error.downcast_ref::<io::Error>());
    let told = causes.find_map(|cause| match cause.kind() {
        io::ErrorKind::TimedOut => Some(too_slow(
            "The body did not arrive in time. Send it faster, or send less.",
        )),
        // The connection reports a chunk size that is not a number, or a malformed chunk or trailer, as one of these.
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Some(Refusal::unread(StatusCode::BAD_REQUEST))
        }
        _ => None,
    });
    told.unwrap_or_else(incomplete)
}

/// Returns 408 for a body that did not arrive in time.
pub(crate) fn too_slow(message: impl Into<String>) -> Refusal {
    Refusal::http(StatusCode::REQUEST_TIMEOUT, "body_too_slow", message)
}

fn incomplete() -> Refusal {
    Error::invalid("body_incomplete", "The body ended before it was complete.").into()
}

/// Refuses a body whose headers say that it is not read.
fn unsupported(code: &'static str, message: impl Into<String>) -> Result<(), Refusal> {
    Err(Refusal::http(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        code,
        message,
    ))
}

/// Checks that the body is `application/json`, without a charset or with utf-8, and not compressed.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Refusal> {
    is_plain(headers)?;
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    if value.is_some_and(|value| value == media::JSON || names_json(value)) {
        return Ok(());
    }
    let message = "Bodies are JSON. Send the header Content-Type: application/json.";
    unsupported("unsupported_media_type", message)
}

/// Checks that the body is `application/x-www-form-urlencoded`, as browsers send forms.
fn is_form(headers: &HeaderMap) -> Result<(), Refusal> {
    is_plain(headers)?;
    let value = headers.get(CONTENT_TYPE);
    let kind = value.and_then(|value| value.to_str().ok()?.split(';').next());
    if kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(FORM)) {
        return Ok(());
    }
    let message = format!("The console takes forms. Send the header Content-Type: {FORM}.");
    unsupported("unsupported_media_type", message)
}

/// Checks that the body is not compressed.
fn is_plain(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    match encodings.all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        true => Ok(()),
        false => unsupported(
            "unsupported_encoding",
            "The body is compressed. Send it as it is, without Content-Encoding.",
        ),
    }
}

#[cfg(test)]
mod tests;
