//! HTTP itself, byte by byte: unusual messages work, malformed ones are refused, and the server keeps running.

use std::net::SocketAddr;

use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::raw::{Raw, RawReply, exchange};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::json;

struct Fixture {
    server: TestServer,
    acme: Partner,
    addr: SocketAddr,
}

impl Fixture {
    async fn open(engine: Engine) -> Self {
        let (server, acme) = TestServer::with_partner(engine).await;
        let addr = server.running().addr();
        Self { server, acme, addr }
    }

    /// Returns a request with the key, these header lines, and this body.
    fn request(&self, line: &str, headers: &str, body: &str) -> String {
        let key = &self.acme.key;
        format!("{line} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n{headers}\r\n{body}")
    }

    /// Sends a request on a new connection.
    async fn opened(&self, line: &str, headers: &str, body: &str) -> Raw {
        Raw::sending(self.addr, self.request(line, headers, body)).await
    }

    async fn ask(&self, line: &str, headers: &str, body: &str) -> RawReply {
        self.opened(line, headers, body).await.reply(false).await
    }

    async fn bookings(&self) -> usize {
        let list = self.acme.get("/v1/bookings").await.ok(200);
        list.list("data").len()
    }
}

const JSON: &str = "content-type: application/json\r\n";

/// The headers of a JSON body.
fn sized(body: &str) -> String {
    format!("{JSON}content-length: {}\r\n", body.len())
}

#[tokio::test]
async fn a_get_needs_no_content_length_and_may_have_one() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        for headers in ["", "content-length: 0\r\n", "connection: close\r\n"] {
            let reply = fixture.ask("GET /v1/bookings", headers, "").await;
            assert_eq!(reply.status, 200, "{headers}");
        }
        let old = format!(
            "GET /v1/bookings HTTP/1.0\r\nx-api-key: {}\r\n\r\n",
            fixture.acme.key
        );
        assert_eq!(exchange(fixture.addr, old).await.status, 200);
        let absolute = fixture.ask("GET http://x/v1/bookings", "", "").await;
        assert_eq!(absolute.status, 200);
        let with_body = fixture.ask("GET /v1/bookings", &sized("{}"), "{}").await;
        assert_eq!(with_body.status, 200);
    })
    .await;
}

#[tokio::test]
async fn a_head_is_the_get_without_its_body() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let booking = fixture.acme.book().await;
        for path in [
            "/v1/health".to_owned(),
            format!("/v1/bookings/{booking}"),
            "/openapi.json".to_owned(),
            // A megabyte.
            "/docs/swagger-ui-bundle.js".to_owned(),
            "/v1/bookings/x".to_owned(),
        ] {
            let get = fixture.ask(&format!("GET {path}"), "", "").await;
            let mut raw = fixture.opened(&format!("HEAD {path}"), "", "").await;
            let head = raw.reply(true).await;
            assert_eq!(head.status, get.status, "{path}");
            for name in ["content-type", "content-length", "etag"] {
                assert_eq!(head.header(name), get.header(name), "{path}: {name}");
            }
            // The next answer on the connection follows directly, where a body would have been.
            raw.send(fixture.request("GET /v1/partners/me", "", ""))
                .await;
            let me = raw.reply(false).await.json();
            assert_eq!(me["partnerId"], fixture.acme.id.as_str());
        }
    })
    .await;
}

#[tokio::test]
async fn bodies_may_come_in_chunks() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let body = samples::booking().to_string();
        let (one, two) = body.split_at(30);
        let chunked = format!("{JSON}transfer-encoding: chunked\r\n");
        let chunks = format!(
            "{:x}\r\n{one}\r\n{:X};ext=1\r\n{two}\r\n0\r\ntrailer: x\r\n\r\n",
            one.len(),
            two.len()
        );
        let reply = fixture.ask("POST /v1/bookings", &chunked, &chunks).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        // Byte by byte, like a slow client.
        let mut raw = Raw::connect(fixture.addr).await;
        for byte in fixture
            .request("POST /v1/bookings", &chunked, &chunks)
            .as_bytes()
        {
            raw.send([*byte]).await;
        }
        assert_eq!(raw.reply(false).await.status, 201);
        // Too large, although no length is announced.
        let chunk = format!("{:x}\r\n{}\r\n", 8192, " ".repeat(8192));
        let endless = format!("{}0\r\n\r\n", chunk.repeat(9));
        let reply = fixture.ask("POST /v1/bookings", &chunked, &endless).await;
        reply.refused(413, "body_too_large");
        for broken in [
            "zz\r\n{}\r\n0\r\n\r\n",
            "-1\r\n{}\r\n0\r\n\r\n",
            "ffffffffffffffffff\r\n{}\r\n",
        ] {
            let reply = fixture.ask("POST /v1/bookings", &chunked, broken).await;
            assert_eq!(reply.status, 400, "{broken:?}");
        }
        assert_eq!(fixture.bookings().await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_waits_to_continue_is_told_to_or_refused_at_once() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let body = samples::booking().to_string();
        let expect =
            |length: usize| format!("{JSON}expect: 100-continue\r\ncontent-length: {length}\r\n");
        let mut raw = fixture
            .opened("POST /v1/bookings", &expect(body.len()), "")
            .await;
        assert_eq!(raw.reply(false).await.status, 100);
        raw.send(&body).await;
        assert_eq!(raw.reply(false).await.status, 201);

        let mut raw = fixture
            .opened("POST /v1/bookings", &expect(70_000), "")
            .await;
        // Without asking for the body.
        assert_eq!(raw.reply(false).await.status, 413);
        let stranger = format!(
            "POST /v1/bookings HTTP/1.1\r\nhost: x\r\n{}\r\n",
            expect(body.len())
        );
        assert_eq!(exchange(fixture.addr, stranger).await.status, 401);
        assert_eq!(fixture.bookings().await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_body_that_ends_early_writes_nothing() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let body = samples::booking().to_string();
        let chunked = || "transfer-encoding: chunked".to_owned();
        let length = body.len();
        for (framing, sent) in [
            (format!("content-length: {}", length + 1), body.clone()),
            (chunked(), format!("{:x}\r\n{body}", length + 1)),
            (chunked(), format!("{length:x}\r\n{body}\r\n")),
        ] {
            let headers = format!("{JSON}{framing}\r\n");
            let mut raw = fixture.opened("POST /v1/bookings", &headers, &sent).await;
            raw.finish().await;
            raw.reply(false).await.refused(400, "body_incomplete");
        }
        // A client that closes its connection in the middle of the body.
        let headers = format!("{JSON}content-length: 900\r\n");
        drop(fixture.opened("POST /v1/bookings", &headers, &body).await);
        assert_eq!(fixture.bookings().await, 0);
    })
    .await;
}

#[tokio::test]
async fn chunks_that_cannot_be_told_apart_end_the_connection() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let chunked = format!("{JSON}transfer-encoding: chunked\r\n");
        for chunks in ["zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}zz\r\n0\r\n\r\n"] {
            let mut raw = fixture.opened("POST /v1/bookings", &chunked, chunks).await;
            let reply = raw.reply(false).await;
            reply.refused(400, "malformed_request");
            assert_eq!(reply.header("connection"), Some("close"), "{chunks:?}");
            assert!(raw.closed().await, "{chunks:?}");
        }
        assert_eq!(fixture.bookings().await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_write_takes_no_precondition_and_says_so() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let body = samples::booking().to_string();
        let condition = "if-match: \"1\"\r\n";
        let headers = sized(&body) + condition;
        let reply = fixture.ask("POST /v1/bookings", &headers, &body).await;
        reply.refused(400, "unsupported_precondition");
        assert_eq!(fixture.bookings().await, 0);
        let reply = fixture.ask("GET /v1/bookings", condition, "").await;
        assert_eq!(reply.status, 200);
    })
    .await;
}

#[tokio::test]
async fn lengths_that_contradict_each_other_smuggle_nothing() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let body = samples::booking().to_string();
        let smuggled = fixture.request("POST /v1/bookings", &sized(&body), &body);
        let smuggled = format!("0\r\n\r\n{smuggled}");
        for (headers, status) in [
            ("content-length: 2\r\ncontent-length: 3\r\n", 400),
            ("content-length: 2, 3\r\n", 400),
            ("content-length: -2\r\n", 400),
            ("content-length: 0x2\r\n", 400),
            ("content-length: 99999999999999999999999\r\n", 400),
            ("transfer-encoding: identity\r\n", 400),
            ("transfer-encoding: chunked, identity\r\n", 400),
            ("transfer-encoding: chunked, chunked\r\n", 400),
            (
                "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
                400,
            ),
            ("transfer-encoding: gzip, chunked\r\n", 501),
            (
                "transfer-encoding: xchunked\r\ntransfer-encoding: chunked\r\n",
                501,
            ),
            ("transfer-encoding: \"chunked\"\r\n", 400),
        ] {
            let chunk = if headers.contains("transfer-encoding") {
                "2\r\n{}\r\n0\r\n\r\n"
            } else {
                "{}"
            };
            let headers = format!("{JSON}{headers}");
            let mut raw = fixture.opened("POST /v1/bookings", &headers, chunk).await;
            let reply = raw.reply(false).await;
            assert_eq!(reply.status, status, "{headers}");
            assert!(!reply.code().is_empty(), "{headers}");
            assert!(raw.closed().await, "{headers}: nobody knows what follows");
        }
        let both = format!(
            "{JSON}content-length: {}\r\ntransfer-encoding: chunked\r\n",
            smuggled.len()
        );
        let mut raw = fixture.opened("POST /v1/bookings", &both, &smuggled).await;
        let first = raw.reply(false).await;
        assert_eq!(first.status, 400, "the chunks count: an empty body");
        // What follows the last chunk is a request of its own or is cut off with the connection. It is never part of the first
        // request.
        if !raw.closed().await {
            assert_eq!(raw.reply(false).await.status, 201);
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_server_goes_on() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
        let y = |length: usize| "y".repeat(length);
        let heads = [
            "hello",
            "GET",
            "GET / HTTP/9.9",
            "GET /v1/a b HTTP/1.1\r\nhost: x",
            "GET /v1/health\x00 HTTP/1.1\r\nhost: x",
            "GET /v1/health HTTP/1.1\r\nhost x",
            "POST /v1/health HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0",
            "GET /v1/health HTTP/1.1\r\nx: a\x00b",
            "GET /v1/health HTTP/1.1\r\n: empty",
            "GET /v1/health HTTP/1.1\r\nx : y",
            &format!("GET /v1/health HTTP/1.1\r\n{many}x: y"),
            &format!("GET /v1/health HTTP/1.1\r\nx: {}", y(70_000)),
            &format!("GET /{} HTTP/1.1", y(70_000)),
            &format!("GET /{} HTTP/1.1\r\nhost: x", y(8_192)),
            &format!("GET /v1/health HTTP/1.1\r\nhost: x\r\nx: {}", y(32 * 1024)),
        ];
        let texts = heads.map(|head| format!("{head}\r\n\r\n").into_bytes());
        let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec();
        for bytes in texts.into_iter().chain([tls]) {
            let mut raw = Raw::sending(fixture.addr, &bytes).await;
            let reply = raw.reply(false).await;
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(50)]).into_owned();
            let is_refused = [400, 414, 431, 505].contains(&reply.status);
            assert!(is_refused, "{shown:?}: {reply:?}");
            let expected = match reply.status {
                414 => "path_too_long",
                431 => "headers_too_large",
                _ => "malformed_request",
            };
            assert_eq!(reply.code(), expected, "{shown:?}");
            let id = reply.header("x-request-id").unwrap();
            assert!(id.starts_with("req_"), "{shown:?}");
            for (name, value) in [
                ("content-type", "application/json"),
                ("x-content-type-options", "nosniff"),
                ("connection", "close"),
            ] {
                assert_eq!(reply.header(name), Some(value), "{shown:?}");
            }
            assert!(raw.closed().await, "{shown:?}");
        }
        // The same after another request on the connection.
        let mut raw = fixture.opened("GET /v1/health", "", "").await;
        assert_eq!(raw.reply(false).await.status, 200);
        raw.send("hello\r\n\r\n").await;
        assert_eq!(raw.reply(false).await.code(), "malformed_request");
        // HTTP/2 is left to the proxy in front: a connection that begins with it is closed.
        let mut raw = Raw::sending(fixture.addr, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        assert!(raw.closed().await);
        let long = format!("GET /v1/bookings/{}", y(8_000));
        let reply = fixture.ask(&long, "", "").await;
        reply.refused(404, "not_found");
        fixture.server.caller().get("/v1/health").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn paths_that_do_not_decode_name_nothing() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let booking = fixture.acme.book().await;
        let unknown = "GET /v1/bookings/bkg_00000000000000000000000000000000";
        let unknown = fixture.ask(unknown, "", "").await;
        assert_eq!(unknown.status, 404);
        let ids =
            "%zz % %4 %00 %ff %2e%2e .. . a%2Fb %0d%0aset-cookie:x * ' {bookingId}".split(' ');
        for id in ids {
            let reply = fixture.ask(&format!("GET /v1/bookings/{id}"), "", "").await;
            assert_eq!((reply.status, &reply.body), (404, &unknown.body), "{id}");
        }
        // An id in another percent-encoding is the same id.
        let spelled = format!("GET /v1/bookings/%62{}", &booking[1..]);
        assert_eq!(fixture.ask(&spelled, "", "").await.status, 200);
        let paths = "/v1/../v1/health /v1/bookings/../health //v1/health /v1%2Fhealth /v1/health;x";
        for path in paths.split(' ') {
            let reply = fixture.ask(&format!("GET {path}"), "", "").await;
            assert_eq!(reply.status, 404, "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn keys_come_in_one_header_and_nowhere_else() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let key = &fixture.acme.key;
        let me = "/v1/partners/me";
        let upper = key.to_uppercase();
        for (path, headers, status) in [
            (me, format!("x-api-key: {key}"), 200),
            (me, format!("X-API-Key:   {key}  "), 200),
            (me, format!("x-api-key: {key}\r\nx-api-key: {key}"), 401),
            (me, format!("x-api-key: \"{key}\""), 401),
            (me, format!("x-api-key: {key}x"), 401),
            (me, format!("x-api-key: {upper}"), 401),
            (me, "x-api-key:".to_owned(), 401),
            (me, "x-api-key: é".to_owned(), 401),
            (me, format!("authorization: Bearer {key}"), 401),
            (me, format!("cookie: x-api-key={key}"), 401),
            (&format!("{me}?x-api-key={key}"), "a: b".to_owned(), 401),
            ("/v1/health", "x-api-key: nonsense".to_owned(), 200),
        ] {
            let asked = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n");
            let reply = exchange(fixture.addr, asked).await;
            assert_eq!(reply.status, status, "{path} {headers}");
            assert_eq!(reply.header("www-authenticate").is_some(), status == 401);
        }
    })
    .await;
}

#[tokio::test]
async fn a_caller_s_request_id_is_kept_when_it_is_a_sane_one() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        for (line, status) in [
            ("GET /v1/health", 200),
            ("GET /v1/partners/me", 200),
            ("GET /nowhere", 404),
            ("PUT /v1/health", 405),
            ("GET /v1/health?x", 400),
        ] {
            let reply = fixture.ask(line, "x-request-id: my-id-1\r\n", "").await;
            reply.headed(status, "x-request-id", "my-id-1");
        }
        for bad in ["two words", "é", "", &"x".repeat(129)] {
            let reply = fixture
                .ask("GET /v1/health", &format!("x-request-id: {bad}\r\n"), "")
                .await;
            let id = reply.header("x-request-id").unwrap();
            assert!(id.starts_with("req_") && id.len() == 36, "{id}");
        }
        // A line break ends the header: what follows is a header of its own, and no answer repeats it.
        let reply = fixture
            .ask("GET /v1/health", "x-request-id: a\r\nx-evil: b\r\n", "")
            .await;
        assert_eq!(
            (reply.header("x-request-id"), reply.header("x-evil")),
            (Some("a"), None)
        );
        let folded = fixture
            .ask("GET /v1/health", "x-request-id: a\r\n b\r\n", "")
            .await;
        assert_eq!(folded.status, 400);
    })
    .await;
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection_also_after_a_refusal() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let body = samples::booking().to_string();
        let post = |body: &str| fixture.request("POST /v1/bookings", &sized(body), body);
        let mut raw = Raw::connect(fixture.addr).await;
        // All requests are sent before the first is answered.
        let requests = [
            post(&body),
            post("{"),
            post(&" ".repeat(70_000)),
            fixture.request("GET /nowhere", "", ""),
            fixture.request("PATCH /v1/bookings", "content-length: 5\r\n", "hello"),
            post(&body),
        ];
        raw.send(requests.concat()).await;
        let mut statuses = Vec::new();
        for _ in &requests {
            statuses.push(raw.reply(false).await.status);
        }
        assert_eq!(statuses, [201, 400, 413, 404, 405, 201]);
        raw.send(fixture.request("GET /v1/health", "connection: close\r\n", ""))
            .await;
        assert_eq!(raw.reply(false).await.status, 200);
        assert!(raw.closed().await);
        assert_eq!(fixture.bookings().await, 2);
    })
    .await;
}

#[tokio::test]
async fn media_types_are_judged_by_what_they_mean() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let body = samples::booking().to_string();
        for line in include_str!("media_types.txt").lines().skip(1) {
            let (status, headers) = line.split_once(' ').unwrap();
            let headers = headers.replace("\\r\\n", "\r\n");
            let headers = format!("{headers}\r\ncontent-length: {}\r\n", body.len());
            let reply = fixture.ask("POST /v1/bookings", &headers, &body).await;
            assert_eq!(reply.status.to_string(), status, "{headers}");
        }
        assert_eq!(fixture.bookings().await, 6);
    })
    .await;
}

#[tokio::test]
async fn a_message_names_its_host_once() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        for (head, status) in [
            ("GET /v1/health HTTP/1.1\r\n", 400),
            ("GET /v1/health HTTP/1.1\r\nhost: a\r\nhost: a\r\n", 400),
            ("GET /v1/health HTTP/1.0\r\nhost: a\r\nhost: b\r\n", 400),
            ("GET /v1/health HTTP/1.1\r\nhost: a, b\r\n", 400),
            ("GET /v1/health HTTP/1.1\r\nhost: a/b\r\n", 400),
            ("GET /v1/health HTTP/1.1\r\nhost: u@a\r\n", 400),
            ("GET /v1/health HTTP/1.1\r\nhost: é\r\n", 400),
            ("GET http://a/v1/health HTTP/1.1\r\n", 400),
            ("GET /nowhere HTTP/1.1\r\n", 400),
            ("GET /v1/health HTTP/1.1\r\nhost: a\r\n", 200),
            ("GET /v1/health HTTP/1.1\r\nhost: a.example:8080\r\n", 200),
            ("GET /v1/health HTTP/1.1\r\nhost: [::1]:8080\r\n", 200),
            ("GET /v1/health HTTP/1.0\r\n", 200),
        ] {
            let reply = exchange(fixture.addr, format!("{head}\r\n")).await;
            assert_eq!(reply.status, status, "{head}");
            if status == 400 {
                assert_eq!(reply.code(), "invalid_host", "{head}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn every_answer_keeps_browsers_from_guessing_what_it_is() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let reads = "/v1/health /v1/bookings /v1/bookings/x /nowhere /openapi.json";
        let reads = reads.split(' ').map(|path| format!("GET {path}"));
        for line in reads.chain(["PUT /v1/health", "POST /mcp"].map(str::to_owned)) {
            let reply = fixture.ask(&line, "", "").await;
            let guards = reply.headers.iter();
            let guards = guards.filter(|(name, _)| name == "x-content-type-options");
            let guards: Vec<&str> = guards.map(|(_, value)| &**value).collect();
            assert_eq!(guards, ["nosniff"], "{line}: {reply:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_the_client_made_up_is_not_repeated_whole() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let name = "n".repeat(60_000);
        let body = format!("{{\"{name}\":1}}");
        let reply = fixture.ask("POST /v1/bookings", &sized(&body), &body).await;
        assert_eq!(reply.status, 400);
        assert!(reply.body.len() < 4_000, "{} bytes", reply.body.len());
        assert!(String::from_utf8_lossy(&reply.body).contains("unknown_field"));
    })
    .await;
}

#[tokio::test]
async fn refusals_are_problems_for_whom_asks_for_problems() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let problem = "application/problem+json";
        let either = "application/json, application/problem+json";
        let rather = "application/problem+json, */*;q=0.1";
        for (line, accept, status, code) in [
            ("GET /nowhere", problem, 404, "path_not_found"),
            ("GET /v1/bookings/x", either, 404, "not_found"),
            ("PUT /v1/health", rather, 405, "method_not_allowed"),
            ("GET /v1/bookings?x=1", problem, 400, "invalid_parameter"),
        ] {
            let headers = format!("accept: {accept}\r\nx-request-id: a<b\r\n");
            let reply = fixture.ask(line, &headers, "").await;
            reply.headed(status, "content-type", "application/problem+json");
            let problem = reply.json();
            bookguard_tests::interface::assert_schema(
                "/components/responses/NotFound/content/application~1problem+json/schema",
                &problem,
            );
            problem.holds(json!({
                "type": "about:blank", "status": status, "title": problem["error"], "detail": problem["message"],
                "instance": "urn:request:a%3Cb"
            }));
            if code != "invalid_parameter" {
                assert_eq!(problem["code"], code, "{line}");
            }
            assert!(problem["details"].is_array());
        }
        for accept in [
            "*/*",
            "application/*",
            "application/json",
            "application/json, application/problem+json;q=0.5",
        ] {
            let headers = format!("accept: {accept}\r\n");
            let reply = fixture.ask("GET /nowhere", &headers, "").await;
            let content_type = reply.header("content-type");
            assert_eq!(content_type, Some("application/json"), "{accept}");
            assert!(reply.json()["type"].is_null());
        }
        let stranger =
            "GET /v1/bookings HTTP/1.1\r\nhost: x\r\naccept: application/problem+json\r\n\r\n";
        let reply = exchange(fixture.addr, stranger).await;
        reply.refused(401, "unauthorized");
        assert_eq!(reply.json()["message"], "Missing or invalid x-api-key");
        // Answers that are not errors are JSON, even for clients that accept only problem documents.
        let accept = "accept: application/problem+json\r\n";
        let reply = fixture.ask("GET /v1/bookings", accept, "").await;
        reply.headed(200, "content-type", "application/json");
    })
    .await;
}

#[tokio::test]
async fn a_key_in_the_wrong_header_is_told_the_right_one() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let key = &fixture.acme.key;
        for (header, told) in [
            (format!("authorization: Bearer {key}"), true),
            ("Authorization: bearer bgk_nonsense".to_owned(), true),
            (format!("authorization: {key}"), true),
            ("authorization: Bearer eyJhbGciOi".to_owned(), false),
            (
                format!("authorization: Bearer {key}\r\nx-api-key: wrong"),
                false,
            ),
        ] {
            let request = format!("GET /v1/partners/me HTTP/1.1\r\nhost: x\r\n{header}\r\n\r\n");
            let reply = exchange(fixture.addr, request).await;
            assert_eq!(reply.status, 401);
            let hint = reply.header("www-authenticate").unwrap();
            assert!(hint.starts_with("ApiKey"), "{hint}");
            assert_eq!(hint.contains("x-api-key"), told, "{header}: {hint}");
            assert!(!format!("{reply:?}").contains(key.as_str()));
            assert_eq!(
                String::from_utf8_lossy(&reply.body),
                r#"{"error":"Unauthorized","message":"Missing or invalid x-api-key"}"#
            );
        }
    })
    .await;
}
