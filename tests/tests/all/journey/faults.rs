//! Every fault of a receiver and how the attempt records it: each failure class, caused over the network.

use std::collections::BTreeSet;
use std::time::Duration;

use bookguard_core::limits::{ATTEMPT_MS, RESPONSE_BYTES};
use bookguard_core::webhook::FailureClass;
use bookguard_server::config::Config;
use bookguard_server::courier::address::AddressRules;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until_within;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// More than two attempts' time; the attempts that time out run concurrently.
const PATIENCE: Duration = Duration::from_millis(3 * ATTEMPT_MS);
/// The delay of [`Answer::Late`].
const LATE: Duration = Duration::from_millis(700);

/// Phase, failure class and status of an attempt.
type Outcome = (&'static str, Option<&'static str>, Option<u16>);

/// Returns the receiver's answers, each with the outcome that its attempt must record.
fn answers() -> Vec<(Answer, Outcome)> {
    let body = |class: Option<&'static str>, status| ("body", class, Some(status));
    let elsewhere = "location: http://127.0.0.1:9/\r\n";
    let large = format!("x-field: {}\r\n", "x".repeat(9_000));
    vec![
        (Answer::Status(201), body(None, 201)),
        (Answer::Late(LATE, 200), body(None, 200)),
        (Answer::Status(404), body(Some("http_4xx"), 404)),
        (Answer::Status(500), body(Some("http_5xx"), 500)),
        (Answer::Status(410), body(Some("gone"), 410)),
        (Answer::Status(413), body(Some("payload_too_large"), 413)),
        (Answer::Status(429), body(Some("throttled"), 429)),
        (
            Answer::Headed(307, elsewhere),
            body(Some("redirect_refused"), 307),
        ),
        (
            Answer::Headed(101, "upgrade: x\r\nconnection: upgrade\r\n"),
            body(Some("protocol_error"), 101),
        ),
        (
            Answer::Headed(200, large.leak()),
            ("headers", Some("headers_too_large"), None),
        ),
        (Answer::Interim, ("headers", Some("excessive_answer"), None)),
        (Answer::Endless, body(None, 200)),
        (
            Answer::Body("content-encoding: gzip\r\n", bomb().into()),
            body(None, 200),
        ),
        (Answer::Dripping, body(Some("timeout"), 200)),
        (Answer::HalfClose, body(Some("connection_reset"), 200)),
        (Answer::Silence, ("headers", Some("timeout"), None)),
        (Answer::Reset, ("headers", Some("connection_reset"), None)),
    ]
}

/// Returns two megabytes of zero bytes gzipped to fifteen kilobytes, to catch a client that unpacks. RFC 1951, RFC 1952.
fn bomb() -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    // A single, final block with fixed codes: a zero byte, then runs of 258 copies of it, then the end.
    bits.extend([true, true, false]);
    bits.extend([false, false, true, true, false, false, false, false]);
    for _ in 0..9_000 {
        bits.extend([true, true, false, false, false, true, false, true]);
        bits.extend([false; 5]);
    }
    bits.extend([false; 7]);
    let bytes = bits.chunks(8).map(|byte| {
        let places = byte.iter().enumerate();
        places.fold(0, |sum, (place, bit)| sum | u8::from(*bit) << place)
    });
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    head.into_iter().chain(bytes).collect()
}

/// Returns the attempts of the only event, once each endpoint has had one.
async fn attempts(
    server: &TestServer,
    acme: &Partner,
    booking: &str,
    endpoints: usize,
) -> Vec<Value> {
    // Only counted while some are under way, because the answer with all of them takes long to make and to check.
    let rows = "SELECT COUNT(*) FROM attempt WHERE number = 1";
    until_within(PATIENCE, "an attempt at every endpoint", async || {
        (server.database().count(rows) == endpoints).then_some(())
    })
    .await;
    let event = acme.events(booking).await.remove(0);
    acme.event(&event).await.list("attempts").clone()
}

fn of<'a>(attempts: &'a [Value], endpoint: &str) -> &'a Value {
    let found = attempts.iter().find(|a| a["endpointId"] == endpoint);
    found.unwrap_or_else(|| panic!("no attempt at {endpoint}"))
}

fn class(attempt: &Value) -> Option<String> {
    attempt["error"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn every_class_of_failure_is_told_from_the_others() {
    with_partner_on_every_engine(async |server, acme| {
        let mut expected = Vec::new();
        let mut receivers = Vec::new();
        for (answer, outcome) in answers() {
            let (receiver, endpoint) = acme.receiving(answer.clone()).await;
            expected.push((format!("{answer:.40?}"), endpoint, outcome));
            receivers.push(receiver);
        }
        let plain = Receiver::start().await;
        let nobody = Receiver::start().await.url();
        // A label longer than 63 characters: every resolver refuses it without a query.
        let nameless = format!("http://{}.invalid/", "a".repeat(64));
        for (url, outcome) in [
            (
                plain.url().replace("http:", "https:"),
                ("tls", Some("tls_error"), None),
            ),
            (nobody, ("connect", Some("connection_refused"), None)),
            (nameless, ("dns", Some("dns_error"), None)),
        ] {
            let endpoint = acme.endpoint(&url).await;
            expected.push((url, endpoint, outcome));
        }
        let booking = acme.book().await;
        let made = attempts(&server, &acme, &booking, expected.len()).await;
        assert_eq!(made.len(), expected.len());
        for (named, endpoint, (phase, class, status)) in &expected {
            let attempt = of(&made, endpoint);
            let said = (&attempt["phase"], &attempt["error"], &attempt["statusCode"]);
            assert_eq!(
                said,
                (&json!(phase), &json!(class), &json!(status)),
                "{named}: {attempt}"
            );
            assert_eq!(attempt["delivered"], class.is_none(), "{named}");
        }
        // Answers are read to the limit or in full and are never unpacked. The late answer took its time, and the deadline also
        // applies to slow bodies.
        let taken = |answer: &str| {
            let place = expected
                .iter()
                .find(|(named, _, _)| named.starts_with(answer));
            of(&made, &place.unwrap().1).clone()
        };
        assert_eq!(taken("Endless")["responseLen"], RESPONSE_BYTES);
        let (packed, kept) = (bomb(), taken("Body"));
        assert_eq!(kept["responseLen"], packed.len());
        assert_eq!(kept["responseSha256"], hex_of(&Sha256::digest(&packed)));
        let late = taken("Late").number("durationMs");
        assert!(u128::from(late) >= LATE.as_millis(), "{late}");
        for slow in ["Dripping", "Silence"] {
            let took = taken(slow).number("durationMs");
            assert!(took >= ATTEMPT_MS, "{slow}: {took}");
        }

        // With another configuration's address rules, every one of these addresses is blocked.
        let mut seen: BTreeSet<String> = made.iter().filter_map(class).collect();
        let database = server.close().await;
        let strict = TestServer::on(database, |config| Config {
            webhooks: AddressRules {
                allow_http: true,
                allowed: Vec::new(),
            },
            ..config
        });
        let strict = strict.await;
        let acme = Partner {
            caller: strict.caller().with_key(&acme.key),
            ..acme
        };
        seen.extend(retried(&acme, &booking, &expected[3].1, 2).await);

        // If a secret cannot be decrypted, nothing can be signed: that is recorded as our own fault.
        let own = json!({"ownSecret": true});
        acme.change_endpoint(&expected[3].1, own).await;
        let broken = "UPDATE secret SET sealed = owner WHERE owner IN (SELECT id FROM endpoint)";
        strict.database().tamper(broken);
        // By then the cached secrets of the endpoint have expired.
        strict.advance(4_000);
        seen.extend(retried(&acme, &booking, &expected[3].1, 3).await);
        let all = FailureClass::WORDS.iter();
        let all = all.map(|(word, _)| (*word).to_owned());
        assert_eq!(seen, all.collect::<BTreeSet<_>>());
        strict.close().await;
    })
    .await;
}

/// Retries the booking's event and returns the failure class of this endpoint's attempt with that number.
async fn retried(acme: &Partner, booking: &str, endpoint: &str, number: u64) -> Option<String> {
    let event = acme.events(booking).await.remove(0);
    acme.retry(&event).await.ok(200);
    let attempt = until_within(PATIENCE, "the attempt", async || {
        let event = acme.event(&event).await;
        let mut all = event.list("attempts").iter();
        all.find(|a| a["endpointId"] == endpoint && a["number"] == number)
            .cloned()
    });
    let attempt = attempt.await;
    assert_eq!(attempt["phase"], "dns", "{attempt}");
    class(&attempt)
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
