//! The rules for reading a message, as tables.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use poem::http::HeaderValue;
use tokio::io::{AsyncWriteExt as _, ReadBuf};

use bookguard_core::limits;

use super::*;
use crate::payer::Payer;
use crate::uploads::Uploads;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (name.parse().unwrap(), HeaderValue::from_static(value))
    };
    pairs.iter().map(pair).collect()
}

#[test]
fn queries_are_decoded_or_refused() {
    let pairs = query(Some("a=1&b=x+y%2B&&c&=d")).unwrap();
    let expected = [("a", "1"), ("b", "x y+"), ("c", ""), ("", "d")];
    assert_eq!(pairs, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    assert!(query(None).unwrap().is_empty() && query(Some("")).unwrap().is_empty());
    for bad in ["a=%", "a=%4", "a=%zz", "%ff=1", "a=%+1"] {
        assert_eq!(query(Some(bad)).unwrap_err().code, "invalid_query", "{bad}");
    }
    let long = query(Some(&"a&".repeat(3000))).unwrap_err();
    assert_eq!(long.code, "query_too_long");
}

#[test]
fn only_a_client_that_excludes_json_is_refused() {
    let takes = |accept, kind| accepts(&headers(&[("accept", accept)]), kind).is_ok();
    for (accept, fine) in [
        ("", true),
        ("*/*", true),
        ("application/json", true),
        ("Application/JSON; charset=utf-8", true),
        ("text/html, application/*;q=0.1", true),
        ("text/html, */*;q=0.5", true),
        ("application/json;q=0", false),
        ("*/*, application/json;q=0", false),
        ("application/*;q=0, application/json", true),
        ("text/html", false),
        ("text/html, application/xml", false),
        ("application/json;q=nonsense", true),
    ] {
        assert_eq!(takes(accept, "application/json"), fine, "{accept}");
    }
    assert!(accepts(&HeaderMap::new(), "application/json").is_ok());
    assert!(takes("text/*", "text/plain") && takes("text/plain", "text/plain"));
    assert!(!takes("application/json", "text/plain"));
}

#[test]
fn content_types_other_than_plain_json_are_refused() {
    for (content_type, fine) in [
        ("application/json", true),
        ("application/json; charset=utf-8", true),
        ("APPLICATION/JSON;charset=\"UTF-8\"", true),
        ("application/json; charset=latin1", false),
        ("text/json", false),
        ("application/jsonx", false),
        ("", false),
    ] {
        let found = is_json(&headers(&[("content-type", content_type)]));
        assert_eq!(found.is_ok(), fine, "{content_type}");
    }
    assert!(is_json(&HeaderMap::new()).is_err());
    let compressed = headers(&[
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
    ]);
    let refused = is_json(&compressed).unwrap_err();
    assert_eq!(refused.code(), "unsupported_encoding");
}

async fn sent(size: usize, framing: &[(&str, String)]) -> Result<usize, String> {
    let mut request = Request::builder().content_type("application/json");
    for (name, value) in framing {
        request = request.header(*name, value);
    }
    let read = body(&mut request.body(vec![b' '; size]), limits::BODY_BYTES).await;
    read.map(|bytes| bytes.len())
        .map_err(|refusal| refusal.code().to_owned())
}

#[tokio::test]
async fn bodies_are_read_whole_up_to_the_limit_and_no_further() {
    let length = |size: usize| ("content-length", size.to_string());
    let chunked = || ("transfer-encoding", "chunked".to_owned());
    let most = limits::BODY_BYTES;
    let too_large = || Err("body_too_large".to_owned());
    assert_eq!(sent(0, &[]).await, Ok(0));
    assert_eq!(sent(most, &[length(most)]).await, Ok(most));
    assert_eq!(sent(most, &[chunked()]).await, Ok(most));
    assert_eq!(sent(most + 1, &[length(most + 1)]).await, too_large());
    assert_eq!(sent(most + 1, &[chunked()]).await, too_large());
    assert_eq!(sent(most + 1, &[length(3), chunked()]).await, too_large());
}

#[tokio::test(start_paused = true)]
async fn a_small_file_never_waits_for_room_and_a_refused_one_holds_none() {
    let uploads = Arc::new(Uploads::default());
    let mut taken = uploads.begin(Payer::STRANGER);
    taken.enter(limits::UPLOAD_BYTES).await.unwrap();
    let mut upload = uploads.begin(Payer::STRANGER);
    let mut sent = async |size: usize| {
        let request = Request::builder().header("transfer-encoding", "chunked");
        let mut request = request.body(vec![b' '; size]);
        let read = file(&mut request, limits::FILE_BYTES, &mut upload).await;
        read.map(|file| file.bytes().len())
            .map_err(|refusal| refusal.code().to_owned())
    };
    let small = FILE_PIECE - 1;
    assert_eq!(sent(small).await, Ok(small));
    assert_eq!(sent(small + 2).await, Err("uploads_busy".to_owned()));
    drop(taken);
    let most = limits::FILE_BYTES;
    assert_eq!(sent(most).await, Ok(most));
    assert_eq!(sent(most + 1).await, Err("body_too_large".to_owned()));
    let mut whole = uploads.begin(Payer::STRANGER);
    whole.enter(limits::UPLOAD_BYTES).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_a_file_that_one_piece_does_not_hold_takes_a_place() {
    let uploads = Arc::new(Uploads::default());
    let mut taken = Vec::new();
    for _ in 0..limits::UPLOADS_PER_PARTNER {
        let mut upload = uploads.begin(Payer::STRANGER);
        upload.enter(1).await.unwrap();
        taken.push(upload);
    }
    let sent = async |size: usize| {
        let request = Request::builder().header("transfer-encoding", "chunked");
        let mut request = request.body(vec![b' '; size]);
        let mut upload = uploads.begin(Payer::STRANGER);
        let read = file(&mut request, limits::FILE_BYTES, &mut upload).await;
        read.map(|file| file.bytes().len())
            .map_err(|refusal| refusal.code().to_owned())
    };
    let small = FILE_PIECE - 1;
    assert_eq!(sent(small).await, Ok(small));
    let refused = Err("too_many_uploads".to_owned());
    assert_eq!(sent(FILE_PIECE + 1).await, refused);
    taken.pop();
    assert_eq!(sent(FILE_PIECE + 1).await, Ok(FILE_PIECE + 1));
}

#[test]
fn an_idempotency_key_sent_twice_is_one_the_core_refuses() {
    let mut twice = headers(&[("idempotency-key", "a")]);
    assert_eq!(idempotency_key(&twice).as_deref(), Some("a"));
    twice.append("idempotency-key", HeaderValue::from_static("b"));
    assert_eq!(idempotency_key(&twice).as_deref(), Some("a, b"));
    assert_eq!(idempotency_key(&HeaderMap::new()), None);
}

#[tokio::test(start_paused = true)]
async fn a_refused_body_that_drips_is_listened_to_for_a_moment() {
    let (mut client, server) = tokio::io::duplex(64);
    let began = Instant::now();
    let drip = async {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::join!(drip, drop_rest(server));
    let took = began.elapsed();
    let listened = DISCARD..DISCARD + Duration::from_secs(2);
    assert!(listened.contains(&took), "{took:?}");
}

/// What the connection tells of a body, as deep in other errors as the server that reads it puts it.
#[derive(Debug)]
struct Told(io::Error);

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("error reading a body from connection")
    }
}

impl StdError for Told {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// A body that cannot be read.
struct Broken(io::ErrorKind);

impl AsyncRead for Broken {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::Error::other(Told(self.0.into()))))
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_late_or_malformed_or_incomplete() {
    for (kind, code) in [
        (io::ErrorKind::TimedOut, "body_too_slow"),
        (io::ErrorKind::UnexpectedEof, "body_incomplete"),
        (io::ErrorKind::ConnectionReset, "body_incomplete"),
        (io::ErrorKind::InvalidInput, "malformed_request"),
        (io::ErrorKind::InvalidData, "malformed_request"),
    ] {
        for framing in [("content-length", "9"), ("transfer-encoding", "chunked")] {
            let request = Request::builder()
                .header(framing.0, framing.1)
                .header("content-type", "application/json");
            let mut request = request.body(Body::from_async_read(Broken(kind)));
            let refusal = body(&mut request, 100).await.unwrap_err();
            assert_eq!(refusal.code(), code, "{kind} {framing:?}");
        }
    }
}
