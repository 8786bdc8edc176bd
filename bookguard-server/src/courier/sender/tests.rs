//! Attempts against receivers on this machine: one for each way a receiver can answer or fail to.

use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// 1994-11-06T08:49:37Z, the start of every attempt here.
const STARTED_AT: i64 = 784_111_777_000;
const BODY: &str = r#"{"eventId":"evt_1"}"#;

/// What a receiver does once it has received a request.
#[derive(Clone)]
enum Reply {
    /// Sends these bytes, then reads the next request on the connection.
    Bytes(Vec<u8>),
    /// Sends these bytes, then nothing, and keeps the connection open.
    Stall(Vec<u8>),
    /// Sends these bytes, then resets the connection.
    Reset(Vec<u8>),
    /// Sends these bytes, then closes the connection.
    Close(Vec<u8>),
    /// Sends a 200 whose body never ends.
    Endless,
    /// Sends the first bytes, then the second ones repeatedly, for as long as they are read.
    Repeat(&'static str, Vec<u8>),
    /// Does the same, but sends one byte at a time.
    Drip(&'static str, Vec<u8>),
}

struct Receiver {
    url: Url,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    async fn start(reply: Reply) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?a=b", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let receiver = Receiver {
            url,
            connections: Arc::clone(&connections),
            requests: Arc::clone(&requests),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, reply.clone(), Arc::clone(&requests)));
            }
        });
        receiver
    }

    async fn answering(answer: &str) -> Receiver {
        Receiver::start(Reply::Bytes(answer.as_bytes().to_vec())).await
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, reply: Reply, requests: Arc<Mutex<Vec<String>>>) {
    while let Some(request) = read_request(&mut stream).await {
        requests.lock().unwrap().push(request);
        let sent = match &reply {
            Reply::Bytes(bytes) => stream.write_all(bytes).await,
            Reply::Stall(bytes) => {
                stream.write_all(bytes).await.unwrap();
                pending().await
            }
            Reply::Reset(bytes) => {
                stream.write_all(bytes).await.unwrap();
                stream.set_zero_linger().unwrap();
                return;
            }
            Reply::Close(bytes) => {
                stream.write_all(bytes).await.unwrap();
                return;
            }
            Reply::Repeat(head, again) => {
                stream.write_all(head.as_bytes()).await.unwrap();
                while stream.write_all(again).await.is_ok() {}
                return;
            }
            Reply::Drip(head, again) => {
                stream.set_nodelay(true).unwrap();
                stream.write_all(head.as_bytes()).await.unwrap();
                for byte in again.iter().cycle() {
                    if stream.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return;
            }
            Reply::Endless => {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                    .await
                    .unwrap();
                while stream.write_all(b"400\r\n").await.is_ok()
                    && stream.write_all(&[b'x'; 0x400]).await.is_ok()
                    && stream.write_all(b"\r\n").await.is_ok()
                {}
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !(request.ends_with(BODY.as_bytes())) {
        match stream.read(&mut buffer).await {
            Ok(len) if len > 0 => request.extend_from_slice(&buffer[..len]),
            _ => return None,
        }
    }
    String::from_utf8(request).ok()
}

/// A sender, and how long its attempts may take.
type Timed = (Sender, Duration);

fn sender() -> Timed {
    sender_under(AddressRules::dev(), 10_000)
}

/// A sender with a timeout short enough for tests.
fn impatient() -> Timed {
    sender_under(AddressRules::dev(), 150)
}

fn sender_under(rules: AddressRules, total_ms: u64) -> Timed {
    let patience = Duration::from_millis(total_ms);
    (Sender::new(rules, None, patience).unwrap(), patience)
}

/// A listener, and its address with this scheme.
async fn listener(scheme: &str) -> (TcpListener, Url) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, format!("{scheme}://{address}/").parse().unwrap())
}

/// Makes one attempt at a receiver that sends this answer.
async fn answered(answer: &str) -> Attempt {
    attempt(&sender(), &Receiver::answering(answer).await.url).await
}

/// Makes one attempt at a receiver with this behavior.
async fn replied(reply: Reply) -> Attempt {
    attempt(&sender(), &Receiver::start(reply).await.url).await
}

async fn attempt((sender, patience): &Timed, url: &Url) -> Attempt {
    let headers = DeliveryHeaders {
        service_signature: HeaderValue::from_static("sha256=00"),
        webhook_id: HeaderValue::from_static("evt_1"),
        webhook_timestamp: HeaderValue::from_static("784111777"),
        webhook_signature: HeaderValue::from_static("v1,AA"),
    };
    sender
        .send(
            *patience,
            url,
            headers,
            Bytes::from_static(BODY.as_bytes()),
            STARTED_AT,
        )
        .await
}

/// Asserts how an attempt failed.
#[track_caller]
fn fails(attempt: &Attempt, phase: Phase, class: FailureClass, status: Option<u16>) {
    assert_eq!(
        outcome(attempt),
        (phase, Some(class), status),
        "{attempt:?}"
    );
}

fn outcome(attempt: &Attempt) -> (Phase, Option<FailureClass>, Option<u16>) {
    (attempt.phase, attempt.class, attempt.status_code)
}

#[tokio::test]
async fn a_delivery_is_one_post_with_its_headers_and_its_exact_body() {
    let receiver = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").await;
    let attempt = attempt(&sender(), &receiver.url).await;
    assert_eq!(outcome(&attempt), (Phase::Body, None, Some(200)));
    assert!(attempt.delivered());
    assert_eq!(attempt.started_at, STARTED_AT);
    assert_eq!(
        (attempt.response_head.as_str(), attempt.response_len),
        ("ok\\n", 3)
    );
    let sha256 = "dc51b8c96c2d745df3bd5590d990230a482fd247123599548e0632fdbf97fc22";
    assert_eq!(attempt.response_sha256.as_deref(), Some(sha256));

    let requests = receiver.requests.lock().unwrap();
    let request = requests[0].to_ascii_lowercase();
    assert!(
        request.starts_with("post /hook?a=b http/1.1\r\n"),
        "{request}"
    );
    for line in [
        format!("host: {}", receiver.url.authority()),
        format!("user-agent: bookguard/{}", env!("CARGO_PKG_VERSION")),
        format!("content-length: {}", BODY.len()),
        "content-type: application/json".into(),
        "x-service-signature: sha256=00".into(),
        "webhook-id: evt_1".into(),
        "webhook-timestamp: 784111777".into(),
        "webhook-signature: v1,aa".into(),
    ] {
        assert!(
            request.contains(&format!("\r\n{line}\r\n")),
            "{line} in {request}"
        );
    }
    assert!(!request.contains("accept-encoding"), "{request}");
    assert!(requests[0].ends_with(&format!("\r\n\r\n{BODY}")));
}

#[tokio::test]
async fn the_status_decides() {
    let empty = [
        ("204 No Content", None),
        ("301 Moved Permanently", Some(FailureClass::RedirectRefused)),
        (
            "307 Temporary Redirect",
            Some(FailureClass::RedirectRefused),
        ),
        ("400 Bad Request", Some(FailureClass::Http4xx)),
        ("404 Not Found", Some(FailureClass::Http4xx)),
        ("410 Gone", Some(FailureClass::Gone)),
        ("413 Content Too Large", Some(FailureClass::PayloadTooLarge)),
        ("429 Too Many Requests", Some(FailureClass::Throttled)),
        ("500 Internal Server Error", Some(FailureClass::Http5xx)),
        ("503 Service Unavailable", Some(FailureClass::Http5xx)),
    ];
    let elsewhere = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for (status, class) in empty {
        let length = match status.starts_with("204") {
            true => "",
            false => "content-length: 0\r\n",
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\n{length}location: {}\r\n\r\n",
            elsewhere.url
        );
        let attempt = answered(&answer).await;
        assert_eq!(
            outcome(&attempt),
            (Phase::Body, class, status[..3].parse().ok())
        );
        assert_eq!(
            (attempt.response_head.as_str(), attempt.response_len),
            ("", 0)
        );
        assert_eq!(attempt.response_sha256.as_deref(), Some(SHA256_OF_NOTHING));
        let told = attempt.detail.unwrap_or_default();
        assert_eq!(!told.is_empty(), status.starts_with('3'), "{status}");
        let names_it = told.contains("change the endpoint's url to");
        assert_eq!(names_it, status.starts_with('3'), "{status}: {told}");
    }
    assert_eq!(elsewhere.connections(), 0, "a redirect was followed");
}

#[tokio::test]
async fn retry_after_is_read_in_both_forms_from_429_and_503_only() {
    let (ignored, most) = (Some("it is ignored"), Some("24 hours, the longest"));
    for (status, value, expected, told) in [
        ("429 Too Many Requests", "7", Some(7000), None),
        ("503 Service Unavailable", "86399", Some(86_399_000), None),
        (
            "503 Service Unavailable",
            "34560000",
            Some(86_400_000),
            most,
        ),
        ("503 Service Unavailable", "soon", None, ignored),
        ("429 Too Many Requests", "-5", None, ignored),
        ("429 Too Many Requests", "1.5", None, ignored),
        ("500 Internal Server Error", "7", None, None),
        ("200 OK", "7", None, None),
    ] {
        let answer =
            format!("HTTP/1.1 {status}\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n");
        let attempt = answered(&answer).await;
        assert_eq!(attempt.retry_after_ms, expected, "{answer}");
        match (attempt.detail.as_deref(), told) {
            (None, None) => {}
            (Some(detail), Some(told)) if detail.contains(told) => {}
            (detail, _) => panic!("{answer}: {detail:?}"),
        }
    }
    // A date counts from when the answer arrived, a little after the start.
    let date = "HTTP/1.1 429 Too Many Requests\r\nretry-after: Sun, 06 Nov 1994 09:49:37 GMT\r\ncontent-length: 0\r\n\r\n";
    let attempt = answered(date).await;
    assert_eq!(
        attempt.retry_after_ms,
        Some(3_600_000 - attempt.duration_ms)
    );
}

#[tokio::test]
async fn a_receiver_that_stalls_costs_the_deadline_and_no_more() {
    let stalled = async |text: &str| {
        let reply = Reply::Stall(text.as_bytes().to_vec());
        attempt(&impatient(), &Receiver::start(reply).await.url).await
    };
    let nothing = stalled("").await;
    let why = "timed out after 150 ms, while waiting for the answer to begin";
    assert_eq!(nothing.detail.as_deref(), Some(why));
    let took = nothing.duration_ms;
    assert!((150..5000).contains(&took), "{took}");
    let half = stalled("HTTP/1.1 200 OK\r\ncontent-le").await;
    for headers in [nothing, half] {
        fails(&headers, Phase::Headers, FailureClass::Timeout, None);
    }
    let body = stalled("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    fails(&body, Phase::Body, FailureClass::Timeout, Some(200));
    assert_eq!((&*body.response_head, body.response_len), ("half", 4));
    // A refusal counts without a complete answer.
    let refusal = stalled("HTTP/1.1 410 Gone\r\ncontent-length: 9\r\n\r\nhalf").await;
    fails(&refusal, Phase::Body, FailureClass::Gone, Some(410));
}

#[tokio::test]
async fn a_handshake_that_stalls_is_a_timeout_of_tls() {
    let (_listener, url) = listener("https").await;
    let stalled = attempt(&impatient(), &url).await;
    fails(&stalled, Phase::Tls, FailureClass::Timeout, None);
    let detail = stalled.detail.unwrap();
    assert!(
        detail.ends_with("waiting for the TLS handshake"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_handshake_without_end_is_not_read_to_its_end() {
    let (listener, url) = listener("https").await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        // A server hello of 65,520 bytes, one byte per record.
        let mut records = [22, 3, 3, 0, 4, 2, 0, 0xff, 0xf0].to_vec();
        records.extend([22, 3, 3, 0, 1, 0].repeat(100_000));
        let _ = stream.write_all(&records).await;
        pending::<()>().await
    });
    let ended = attempt(&sender(), &url).await;
    fails(&ended, Phase::Tls, FailureClass::TlsError, None);
}

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

#[tokio::test]
async fn what_comes_before_an_answer_is_read_to_an_end() {
    let early_hint = format!(
        "HTTP/1.1 103 Early Hints\r\nlink: <{}>\r\n\r\n",
        "x".repeat(4_000)
    );
    let pieces =
        "512 pieces before the answer began, interim answers (1xx) included; send it in few writes";
    for (reply, why) in [
        (Reply::Repeat("", CONTINUE.into()), "more was sent"),
        (Reply::Repeat("", early_hint.into()), "more was sent"),
        (Reply::Drip("", CONTINUE.into()), pieces),
        (Reply::Drip("HTTP/1.1 200 OK\r\nx: ", b"x".to_vec()), pieces),
    ] {
        let ended = replied(reply).await;
        fails(&ended, Phase::Headers, FailureClass::ExcessiveAnswer, None);
        let detail = ended.detail.unwrap();
        assert!(detail.contains(why), "{detail}");
    }
    // A few interim answers are fine, also on a connection that is used again.
    let some = format!("{}HTTP/1.1 204 No Content\r\n\r\n", CONTINUE.repeat(100));
    let receiver = Receiver::answering(&some).await;
    let sender = sender();
    for _ in 0..20 {
        assert!(attempt(&sender, &receiver.url).await.delivered());
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_told_from_what_is_no_http() {
    let fields = "x-field: 1\r\n".repeat(101);
    let long = format!("x-field: {}\r\n", "x".repeat(9_000));
    let fitting = format!("x-field: {}\r\n", "x".repeat(7_000));
    let ok = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n");
    for fields in [&fields, &long] {
        let large = answered(&ok(fields)).await;
        fails(&large, Phase::Headers, FailureClass::HeadersTooLarge, None);
        let detail = large.detail.unwrap();
        assert!(detail.contains("8192 bytes or 100 fields"), "{detail}");
    }
    let fits = answered(&ok(&fitting)).await;
    assert!(fits.delivered(), "{fits:?}");

    for text in [
        "220 smtp.example ESMTP\r\n",
        "SSH-2.0-OpenSSH_9.6\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 99 What\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "\u{15}\u{3}\u{1}\0\u{2}\u{2}F",
    ] {
        let other = answered(text).await;
        fails(&other, Phase::Headers, FailureClass::ProtocolError, None);
        let detail = other.detail.unwrap();
        assert!(detail.starts_with("the answer is not HTTP/1"), "{text:?}");
    }
    let switch = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    let switch = answered(switch).await;
    fails(&switch, Phase::Body, FailureClass::ProtocolError, Some(101));
    assert!(switch.detail.unwrap().contains("another protocol"));
}

#[tokio::test]
async fn a_receiver_that_speaks_first_is_no_http_either() {
    let (listener, url) = listener("http").await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream
                .write_all(b"220 smtp.example ESMTP\r\n")
                .await
                .unwrap();
            tokio::spawn(
                async move { while stream.read(&mut [0; 4096]).await.is_ok_and(|n| n > 0) {} },
            );
        }
    });
    let spoken = attempt(&sender(), &url).await;
    let class = Some(FailureClass::ProtocolError);
    assert_eq!(spoken.class, class, "{spoken:?}");
}

#[tokio::test]
async fn the_framing_of_a_body_costs_no_more_than_the_body() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    // The body is read as far as any other, and the status counts.
    for reply in [
        Reply::Repeat(CHUNKED, b"1\r\nx\r\n".to_vec()),
        Reply::Drip(CHUNKED, b"1\r\nx\r\n".to_vec()),
    ] {
        let tiny = replied(reply).await;
        assert_eq!(outcome(&tiny), (Phase::Body, None, Some(200)), "{tiny:?}");
        let read = tiny.response_len as usize;
        assert!((1..RESPONSE_BYTES).contains(&read), "{read}");
    }
    const TRAILERS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n";
    let extensions = format!("1;{}\r\nx\r\n", "x".repeat(500));
    for reply in [
        Reply::Repeat(CHUNKED, extensions.into()),
        Reply::Repeat(TRAILERS, b"x-trailer: 1\r\n".to_vec()),
        Reply::Repeat(CHUNKED, b"not a length\r\n".to_vec()),
    ] {
        let broken = replied(reply).await;
        fails(&broken, Phase::Body, FailureClass::ProtocolError, Some(200));
    }
}

#[tokio::test]
async fn an_answer_is_read_to_its_limit_and_kept_to_its_head() {
    let endless = Receiver::start(Reply::Endless).await;
    let long = attempt(&sender(), &endless.url).await;
    assert_eq!(outcome(&long), (Phase::Body, None, Some(200)));
    assert_eq!(long.response_len as usize, RESPONSE_BYTES);
    assert_eq!(long.response_head, "x".repeat(RESPONSE_HEAD_BYTES));
    let digest = hex::encode(Sha256::digest("x".repeat(RESPONSE_BYTES)));
    assert_eq!(long.response_sha256, Some(digest));

    let escapes = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n\x1b[2J\0\u{202e}";
    let short = answered(escapes).await;
    assert!(short.delivered());
    assert_eq!(short.response_head, "\\u{1b}[2J\\u{0}\\u{202e}");
}

#[tokio::test]
async fn nobody_listening_is_a_refused_connection() {
    for scheme in ["http", "https"] {
        let (listener, url) = listener(scheme).await;
        drop(listener);
        let attempt = attempt(&sender(), &url).await;
        fails(
            &attempt,
            Phase::Connect,
            FailureClass::ConnectionRefused,
            None,
        );
        assert!(attempt.detail.unwrap().contains("refused"));
        assert_eq!((attempt.response_len, attempt.response_sha256), (0, None));
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_reset_in_its_phase() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec();
    for (reply, phase, status) in [
        (Reply::Reset(Vec::new()), Phase::Headers, None),
        (Reply::Close(Vec::new()), Phase::Headers, None),
        (Reply::Close(b"HTTP/1.1 200".to_vec()), Phase::Headers, None),
        (Reply::Close(head), Phase::Body, Some(200)),
    ] {
        let attempt = replied(reply).await;
        fails(&attempt, phase, FailureClass::ConnectionReset, status);
        assert!(attempt.detail.is_some_and(|detail| !detail.is_empty()));
    }
}

#[tokio::test]
async fn a_receiver_without_tls_or_with_a_broken_handshake_is_a_tls_error() {
    let (listener, url) = listener("https").await;
    let serving = tokio::spawn(async move {
        for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", ""] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.set_zero_linger().unwrap();
    });
    for class in [
        FailureClass::TlsError,
        FailureClass::TlsError,
        FailureClass::ConnectionReset,
    ] {
        let attempt = attempt(&sender(), &url).await;
        fails(&attempt, Phase::Tls, class, None);
        assert!(attempt.detail.is_some_and(|detail| !detail.is_empty()));
    }
    serving.await.unwrap();
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_a_dns_error() {
    // A label of more than 63 characters, which every resolver refuses without a query.
    let url = format!("http://{}.invalid/", "a".repeat(64))
        .parse()
        .unwrap();
    let attempt = attempt(&sender(), &url).await;
    fails(&attempt, Phase::Dns, FailureClass::DnsError, None);
    let detail = attempt.detail.unwrap();
    assert!(detail.starts_with("the name resolves to no address"));
}

#[tokio::test]
async fn a_blocked_address_is_never_connected_to_literal_or_resolved() {
    let receiver = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let port = receiver.url.port().unwrap();
    let only_http = || {
        let allowed = Vec::new();
        let rules = AddressRules {
            allow_http: true,
            allowed,
        };
        sender_under(rules, 10_000)
    };
    let strict = only_http();
    // Here only the resolver checks the address.
    let resolver_alone = Sender {
        rules: Arc::new(AddressRules::dev()),
        ..only_http().0
    };
    let resolver_alone = (resolver_alone, strict.1);
    for (sender, host) in [
        (&strict, "127.0.0.1"),
        (&strict, "[::ffff:7f00:1]"),
        (&strict, "localhost"),
    ] {
        let attempt = attempt(sender, &format!("http://{host}:{port}/").parse().unwrap()).await;
        fails(&attempt, Phase::Dns, FailureClass::BlockedAddress, None);
        assert!(attempt.detail.unwrap().contains("`--dev`"));
    }
    // What a name resolves to is only for the operator.
    let url = format!("http://localhost:{port}/").parse().unwrap();
    let resolved = attempt(&resolver_alone, &url).await;
    fails(&resolved, Phase::Dns, FailureClass::DnsError, None);
    let why = "the name resolves to no address that webhooks may go to";
    assert_eq!(resolved.detail.as_deref(), Some(why));
    assert_eq!(receiver.connections(), 0);

    let public = sender_under(AddressRules::public(), 10_000);
    let plain = attempt(&public, &receiver.url).await;
    assert_eq!(plain.class, Some(FailureClass::BlockedAddress));
    // The same name is allowed where this machine is.
    let named = attempt(&sender(), &url).await;
    assert_eq!(named.class, None, "{named:?}");
}

#[tokio::test]
async fn one_connection_carries_many_attempts() {
    let receiver = Receiver::answering(OK).await;
    let sender = sender();
    for _ in 0..200 {
        assert!(attempt(&sender, &receiver.url).await.delivered());
    }
    assert_eq!(receiver.connections(), 1);
    assert_eq!(receiver.requests.lock().unwrap().len(), 200);
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn two_receivers() -> [Receiver; 2] {
    [Receiver::answering(OK).await, Receiver::answering(OK).await]
}

/// A sender that keeps one connection for this time.
fn keeping_one(time: Duration) -> Timed {
    let patience = Duration::from_secs(10);
    let one = Places::new(1, time);
    let sender = Sender::keeping(one, AddressRules::dev(), None, patience);
    (sender.unwrap(), patience)
}

#[tokio::test]
async fn connections_beyond_those_kept_carry_one_attempt() {
    let [first, second] = two_receivers().await;
    let sender = keeping_one(KEPT_TIME);
    for _ in 0..3 {
        for receiver in [&first, &second] {
            assert!(attempt(&sender, &receiver.url).await.delivered());
        }
    }
    assert_eq!((first.connections(), second.connections()), (1, 3));
}

#[tokio::test]
async fn a_connection_that_is_used_all_the_time_gives_its_place_to_another() {
    let [first, second] = two_receivers().await;
    let time = Duration::from_secs(1);
    let sender = keeping_one(time);
    for receiver in [&first, &second, &second] {
        assert!(attempt(&sender, &receiver.url).await.delivered());
    }
    assert_eq!((first.connections(), second.connections()), (1, 2));
    tokio::time::sleep(time).await;
    // Its connection is used once more, and not kept.
    assert!(attempt(&sender, &first.url).await.delivered());
    assert_eq!(first.connections(), 1);
    let kept = async {
        let mut opened = 0;
        // The place is free once the task of the closed connection has ended, which may take a moment.
        while second.connections() > opened {
            opened = second.connections();
            assert!(attempt(&sender, &second.url).await.delivered());
        }
    };
    let kept = tokio::time::timeout(sender.1, kept).await;
    kept.expect("the second receiver never gets the place");
}

#[test]
fn the_constant_is_the_digest_of_nothing() {
    assert_eq!(hex::encode(Sha256::digest(b"")), SHA256_OF_NOTHING);
}
