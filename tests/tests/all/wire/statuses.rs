//! Calls each operation of the interface document for each status that it documents.
//!
//! The operations and statuses are read from the document, so a new one is called without further code. If the test cannot
//! cause a status, it fails and says so.

use std::collections::{BTreeMap, BTreeSet};

use bookguard_core::limits::{CONSOLE_LINKS_OF_KEY, FILE_BYTES, HOLDS_PER_BOOKING, ITEMS};
use bookguard_core::model::ApiKeySecret;
use bookguard_core::service::RegistrationMode;
use bookguard_server::config::Config;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use serde_json::json;

use crate::wire::world::{Documented, World, ask, documented, fill};

const UNAUTHORIZED: &str = r#"{"error":"Unauthorized","message":"Missing or invalid x-api-key"}"#;
/// One byte more than a body may have.
const TOO_LARGE: usize = 64 * 1024 + 1;

/// Documented statuses that this test cannot cause from outside, with the reason.
const OUT_OF_REACH: [(&str, u16, &str); 7] = [
    ("getCosignedCheckpoint", 200, "there are no witnesses"),
    ("getCosignedCheckpoint", 503, "so nothing is read"),
    ("*", 500, "a fault of ours"),
    ("*", 408, "a body that takes longer than 45 s"),
    ("getLedgerKey", 503, "the key is in memory"),
    ("evaluatePolicy", 409, "evaluating refuses nothing by state"),
    ("createConsoleLink", 404, "only the operator names a key"),
];

/// The statuses that one operation has answered. Each answer must be a JSON error unless it is a success.
struct Seen<'o>(&'o Documented, BTreeSet<u16>);

impl Seen<'_> {
    fn see(&mut self, reply: &Reply, status: u16) {
        let Self(operation, seen) = self;
        let place = format!("{} {}", operation.method, operation.path);
        assert_eq!(reply.status, status, "{place}: {}", reply.text());
        assert!(
            operation.statuses.contains(&status),
            "{place} answers {status}, which is not documented"
        );
        if status >= 400 && status != 401 {
            let error = reply.json();
            let mut keys: Vec<&String> = error.as_object().unwrap().keys().collect();
            if status == 409 {
                // A conflict may also show what it conflicts with.
                keys.retain(|key| {
                    !["resolutionId", "evaluation", "disclosureHash"].contains(&key.as_str())
                });
            }
            assert_eq!(keys, ["code", "details", "error", "message"], "{place}");
            let code = error.text("code");
            assert!(
                !code.is_empty() && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{place}: {code}"
            );
            assert!(error.text("message").len() > 20, "{error}");
        }
        if status >= 400 {
            assert_eq!(reply.header("content-type"), Some("application/json"));
            assert_eq!(reply.header("cache-control"), Some("no-store"));
        }
        seen.insert(status);
    }
}

#[tokio::test]
async fn every_documented_status_of_a_read_is_answered_and_no_other() {
    every_documented_status_is_answered(|method| method == "GET").await;
}

#[tokio::test]
async fn every_documented_status_of_a_write_is_answered_and_no_other() {
    every_documented_status_is_answered(|method| method != "GET").await;
}

async fn every_documented_status_is_answered(ours: impl Fn(&str) -> bool) {
    on_every_engine(async |engine| {
        let world = World::new(engine).await;
        // Make the log non-empty.
        world.acme.book().await;
        let mut operations = documented();
        operations.retain(|operation| ours(&operation.method));
        assert!(operations.len() > 20);
        let mut missing = Vec::new();
        for operation in &operations {
            let mut seen = Seen(operation, BTreeSet::new());
            let path = world.path(operation, &world.acme).await;
            refusals(&world, &mut seen, &path).await;
            if operation.statuses.contains(&404) && operation.path.contains('{') {
                unknown(&world, &mut seen).await;
            }
            states(&world, &mut seen, &path).await;
            unavailable(&world, &mut seen, &path).await;

            success(&world, &mut seen, &path).await;
            world.forget_endpoints().await;
            let Seen(_, seen) = seen;
            missing.extend(
                operation
                    .statuses
                    .difference(&seen)
                    .filter(|status| !out_of_reach(&operation.id, **status))
                    .map(|status| format!("{} {status}", operation.id)),
            );
        }
        // Another test causes 429 and the 403 of a registration, on servers whose limits and modes would get in the way here.
        missing.retain(|one| !one.ends_with(" 429") && one != "registerPartner 403");
        assert!(missing.is_empty(), "documented and never seen: {missing:?}");
    })
    .await;
}

fn out_of_reach(id: &str, status: u16) -> bool {
    let reasons = OUT_OF_REACH.iter();
    let mut reasons = reasons.filter(|(of, code, _)| (*of == id || *of == "*") && *code == status);
    reasons.next().is_some()
}

/// Returns whether an operation is for whoever has a link.
fn is_link(operation: &Documented) -> bool {
    operation.path.starts_with("/s/")
}

/// Causes the refusals that do not depend on what the path names.
async fn refusals(world: &World, seen: &mut Seen<'_>, path: &str) {
    let operation = seen.0;
    let acme = &world.acme.caller;
    if is_link(operation) {
        // Programs through which links pass add parameters of their own, which are ignored.
        let reply = ask(acme, operation, &format!("{path}?surprise=%zz"), &[]).await;
        seen.see(&reply, 400);
        assert_eq!(reply.code(), "invalid_query");
    } else if seen.0.statuses.contains(&400) {
        let more = if path.contains('?') { '&' } else { '?' };
        let reply = ask(acme, operation, &format!("{path}{more}surprise=1"), &[]).await;
        seen.see(&reply, 400);
        let expected = ("?surprise".to_owned(), "unknown_query_parameter".to_owned());
        assert_eq!(reply.details(), [expected]);
    }
    if !operation.open {
        let nobody = world.server.caller();
        let stranger = ApiKeySecret::generate(|| 9);
        for caller in [
            nobody.clone(),
            nobody.with_key(stranger.reveal()),
            nobody.with_key("x"),
        ] {
            let reply = ask(&caller, operation, path, &[]).await;
            seen.see(&reply, 401);
            assert_eq!(reply.text(), UNAUTHORIZED);
            assert_eq!(reply.header("www-authenticate"), Some("ApiKey"));
        }
        if operation.statuses.contains(&403) {
            let other = match operation.path.starts_with("/v1/polic") {
                true => "bookings:read",
                false => "policies:read",
            };
            let reader = world.acme.scoped(&[other]).await;
            let reply = ask(&reader, operation, path, &[]).await;
            seen.see(&reply, 403);
            assert_eq!(reply.code(), "insufficient_scope");
        }
    }
    if operation.statuses.contains(&406) {
        let reply = ask(acme, operation, path, &[("accept", "image/png")]).await;
        seen.see(&reply, 406);
    }
    if operation.id == "putEvidenceItemFile" {
        for (encoding, length, status) in [("identity", FILE_BYTES + 1, 413), ("gzip", 1, 415)] {
            let request = acme
                .request("PUT", path)
                .header("content-encoding", encoding);
            let request = request.body(vec![b'x'; length]);
            seen.see(&acme.send(request).await, status);
        }
    } else if operation.statuses.contains(&413) {
        for (content_type, length, status) in [
            ("application/json", TOO_LARGE, 413),
            ("text/plain", 1, 415),
            ("application/json; charset=latin1", 1, 415),
        ] {
            let request = acme
                .request(&operation.method, path)
                .header("content-type", content_type)
                .body(vec![b'x'; length]);
            seen.see(&acme.send(request).await, status);
        }
    }
    if operation.statuses.contains(&422) {
        // The key was used for another request by this caller, or from this network address for an open operation.
        let key = format!("once-{}", operation.id);
        let first = match operation.open {
            true => ("/v1/partners/register", samples::partner("Another")),
            false => (
                "/v1/bookings",
                samples::booking_with(json!({"eventType": "x"})),
            ),
        };
        acme.post_once(first.0, &key, &first.1).await.ok(201);
        let reply = ask(acme, operation, path, &[("idempotency-key", &key)]).await;
        seen.see(&reply, 422);
        assert_eq!(reply.code(), "idempotency_key_reused");
    }
}

/// Asserts that unknown, malformed and other partners' ids are answered with the same bytes.
async fn unknown(world: &World, seen: &mut Seen<'_>) {
    let operation = seen.0;
    if is_link(operation) {
        let path = operation.path.replace("{token}", "unknown");
        seen.see(&ask(&world.acme.caller, operation, &path, &[]).await, 404);
        return;
    }
    let foreign = world.path(operation, &world.other).await;
    if operation.path.ends_with("{path}") {
        for path in ["0/999", "0/000.p/255", "64/000", "entries", "0/0"] {
            let path = operation.path.replace("{path}", path);
            seen.see(&ask(&world.acme.caller, operation, &path, &[]).await, 404);
        }
        return;
    }
    let (before, _) = operation.path.split_once('{').unwrap();
    let rest = &foreign[before.len()..];
    let (id, after) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (prefix, digits) = id.split_once('_').unwrap();
    let unknown = format!("{prefix}_{}", digits.chars().rev().collect::<String>());
    let mut answers = BTreeSet::new();
    let (upper, longer) = (id.to_uppercase(), format!("{id}0"));
    let like_it = [id, &unknown, &upper, &longer, &id[..id.len() - 1], digits];
    let odd = "x %00 %zz %ff %F0%9F%8E%B8 ptn_00000000000000000000000000000000 bkg_00000000000000000000000000000000";
    for id in like_it.into_iter().chain(odd.split(' ')) {
        let path = format!("{before}{id}{after}");
        let reply = ask(&world.acme.caller, operation, &path, &[]).await;
        seen.see(&reply, 404);
        answers.insert(reply.body);
    }
    assert_eq!(answers.len(), 1, "{}: {answers:?}", operation.path);
}

/// Causes the refusal that depends on the state of what is named.
async fn states(world: &World, seen: &mut Seen<'_>, path: &str) {
    let operation = seen.0;
    let id = operation.id.as_str();
    if !operation.statuses.contains(&409) || out_of_reach(id, 409) {
        return;
    }
    let filler = world.server.partner("Full").await;
    let full = &filler.caller;
    let named = |id: &str| fill(&operation.path, |_| id.to_owned());
    let booked = async || named(&filler.book().await);
    // Asks with an example as its body until all that there may be is there, and once more.
    let beyond = async |path: &str, most: usize, status: u16| {
        for _ in 0..most {
            ask(full, operation, path, &[]).await.ok(status);
        }
        ask(full, operation, path, &[]).await
    };
    let unheard = "http://127.0.0.1:9/";
    let (reply, code) = match id {
        // The registration made the first key.
        "createApiKey" => (beyond(path, 99, 201).await, "too_many_keys"),
        "revokeApiKey" => {
            let reply = ask(full, operation, &named(&filler.key_id), &[]).await;
            (reply, "last_managing_key")
        }
        "rotateApiKey" => {
            let made = filler.post("/v1/api-keys", &json!({})).await;
            let id = made.string("apiKeyId");
            filler.delete(&format!("/v1/api-keys/{id}")).await.ok(200);
            let reply = ask(full, operation, &named(&id), &[]).await;
            (reply, "api_key_ended")
        }
        "createConsoleLink" => {
            let reply = beyond(path, CONSOLE_LINKS_OF_KEY, 201).await;
            (reply, "too_many_console_sessions")
        }
        "createShare" => (beyond(&booked().await, 20, 201).await, "too_many_shares"),
        "placeHold" => {
            let reply = beyond(&booked().await, HOLDS_PER_BOOKING, 201).await;
            (reply, "too_many_holds")
        }
        "addEvidenceItem" => {
            let reply = beyond(&booked().await, ITEMS, 201).await;
            (reply, "too_many_evidence_items")
        }
        "rotatePartnerSecret" => (beyond(path, 3, 200).await, "too_many_secrets"),
        "eraseValues" => {
            let booking = filler.book().await;
            let holds = format!("/v1/bookings/{booking}/holds");
            filler.post(&holds, &json!({"reason": "n"})).await.ok(201);
            let reply = ask(full, operation, &named(&booking), &[]).await;
            (reply, "legal_hold")
        }
        "releaseHold" => {
            let booking = filler.book().await;
            let place = ["bookings", "holds", "place", &booking, "--reason", "n"];
            let placed = world.server.database().command(place).run().await;
            let path = operation.path.replace("{bookingId}", &booking);
            let path = path.replace("{holdId}", &placed.string("holdId"));
            (ask(full, operation, &path, &[]).await, "operator_hold")
        }
        "createBooking" => {
            let quota = format!("partners quota {} --bookings 1", filler.id);
            world.server.database().command(quota).run().await.json();
            (beyond(path, 1, 201).await, "quota_exceeded")
        }
        "updatePartner" => {
            filler.change_until_refused().await;
            (ask(full, operation, path, &[]).await, "quota_exceeded")
        }
        "putPolicy" => {
            let reply = ask(full, operation, &named("firm"), &[]).await;
            (reply, "policy_id_reserved")
        }
        "createWebhookEndpoint" => {
            for number in 0..20 {
                filler.endpoint(&format!("{unheard}{number}")).await;
            }
            (ask(full, operation, path, &[]).await, "too_many_endpoints")
        }
        "updateWebhookEndpoint" => {
            let there = filler.endpoint(&format!("{unheard}there")).await;
            let other = filler.endpoint(&format!("{unheard}other")).await;
            let body = json!({"url": format!("{unheard}x/../there")});
            let reply = filler.patch(&named(&other), &body).await;
            reply.says(&[&there]);
            (reply, "duplicate_endpoint")
        }
        "testWebhookEndpoint" => {
            let silent = Receiver::answering(Answer::Silence).await;
            let path = named(&filler.endpoint(&silent.url()).await);
            let first = ask(full, operation, &path, &[]);
            let second = async {
                silent.wait_for(1).await;
                let second = ask(full, operation, &path, &[]).await;
                silent.answer(Answer::Status(200));
                second
            };
            let (first, second) = tokio::join!(first, second);
            first.ok(200);
            (second, "test_running")
        }
        "rotateWebhookEndpointSecret" => {
            let path = named(&filler.endpoint(unheard).await);
            (ask(full, operation, &path, &[]).await, "no_own_secret")
        }
        "retryWebhookEvent" => {
            let event = filler.events(&filler.book().await).await.remove(0);
            let path = named(event.text("eventId"));
            (ask(full, operation, &path, &[]).await, "no_endpoints")
        }
        "recoverWebhookEvents" => {
            let endpoint = filler.endpoint(unheard).await;
            filler
                .change_endpoint(&endpoint, json!({"enabled": false}))
                .await;
            let body = json!({"since": "2020-01-01T00:00:00Z", "endpointId": endpoint});
            (filler.post(path, &body).await, "endpoint_disabled")
        }
        "protectBooking" | "rescheduleBooking" => {
            let booking = filler.book().await;
            filler.cancel(&booking, &samples::cancellation()).await;
            let reply = ask(full, operation, &named(&booking), &[]).await;
            (reply, "booking_canceled")
        }
        "acceptTerms" => {
            let other = samples::acceptance(&format!("sha256:{}", "00".repeat(32)));
            let reply = filler.post(&booked().await, &other).await;
            (reply, "disclosure_changed")
        }
        "putEvidenceItemFile" => {
            let request = world.acme.request("PUT", path).body("another file");
            (world.acme.send(request).await, "file_digest_mismatch")
        }
        "deleteEvidenceItemFile" => {
            let booking = filler.book().await;
            let items = format!("/v1/bookings/{booking}/evidence/items");
            let item = filler.post(&items, &samples::item()).await.string("itemId");
            let path = operation.path.replace("{bookingId}", &booking);
            let path = path.replace("{itemId}", &item);
            (ask(full, operation, &path, &[]).await, "item_without_file")
        }
        "cancelBooking" => {
            let booking = filler.book().await;
            let made = filler.cancel(&booking, &samples::open_cancellation()).await;
            let reply = ask(full, operation, &named(&booking), &[]).await;
            assert_eq!(reply.json()["resolutionId"], made["resolutionId"]);
            (reply, "booking_already_canceled")
        }
        "decideResolution" => {
            let booking = filler.book().await;
            let made = filler.cancel(&booking, &samples::cancellation()).await;
            let path = named(made.text("resolutionId"));
            (ask(full, operation, &path, &[]).await, "resolution_final")
        }
        id => panic!("how does {id} come to a 409?"),
    };
    seen.see(&reply, 409);
    assert_eq!(reply.code(), code);
}

/// Makes the store fail by renaming every table, and restores it afterwards.
async fn unavailable(world: &World, seen: &mut Seen<'_>, path: &str) {
    let operation = seen.0;
    if !operation.statuses.contains(&503) || out_of_reach(&operation.id, 503) {
        return;
    }
    // This caches the key, so that the operation itself is the first to reach the store.
    world.acme.get("/v1/partners/me").await.ok(200);
    let caller = match operation.id.as_str() {
        // These use the store only to look up the key.
        "validatePolicy" | "listPolicyTemplates" => world.acme.scoped(&["policies:*"]).await,
        _ => world.acme.caller.clone(),
    };
    let database = world.server.database();
    rename_tables(database, &world.tables, "", "gone_");
    let reply = ask(&caller, operation, path, &[]).await;
    rename_tables(database, &world.tables, "gone_", "");
    seen.see(&reply, 503);
    assert_eq!(reply.code(), "unavailable");
    let wait: u32 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
}

fn rename_tables(database: &TestDatabase, names: &[String], from: &str, to: &str) {
    let rename = names.iter();
    let rename = rename.map(|name| format!("ALTER TABLE {from}{name} RENAME TO {to}{name}"));
    database.tamper(&rename.collect::<Vec<_>>().join("; "));
}

async fn success(world: &World, seen: &mut Seen<'_>, path: &str) {
    let operation = seen.0;
    let acme = &world.acme.caller;
    if operation.id == "getReadiness" {
        // What it found holds for half a second.
        until("a server that is ready again", async || {
            (acme.get(path).await.status == 200).then_some(())
        })
        .await;
    }
    let status = *operation.statuses.first().unwrap();
    let reply = ask(acme, operation, path, &[]).await;
    if out_of_reach(&operation.id, status) {
        seen.see(&reply, 404);
        return;
    }
    assert!((200..300).contains(&status));
    seen.see(&reply, status);
    if matches!(status, 201 | 202) {
        // If the answer has a location, the new object can be read there.
        if let Some(location) = reply.header("location") {
            acme.get(location).await.ok(200);
        }
    }
    if operation.statuses.contains(&304) {
        // A key's use is stored a moment later, and changes the answers about keys.
        let (etag, reply) = until("an answer that stays as it was", async || {
            let reply = ask(acme, operation, path, &[]).await;
            let etag = reply.header("etag").unwrap().to_owned();
            let again = ask(acme, operation, path, &[("if-none-match", &etag)]).await;
            (again.status != 200).then_some((etag, again))
        })
        .await;
        seen.see(&reply, 304);
        assert!(reply.body.is_empty() && reply.header("etag") == Some(&etag));
        let reply = ask(acme, operation, path, &[("if-none-match", "\"0\"")]).await;
        seen.see(&reply, 200);
    }
}

#[tokio::test]
async fn every_limited_operation_answers_429_and_says_when_to_come_back() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            rate_limit_per_second: 1,
            rate_limit_burst: 1,
            registrations_per_minute: 1,
            ..config
        });
        let server = server.await;
        let acme = server.partner("Acme").await;
        acme.get("/v1/partners/me").await.ok(200);
        let mut asked = 0;
        for operation in documented() {
            // No setting lowers the limit for links, so it takes many requests; the tests of shares make them.
            if !operation.statuses.contains(&429) || is_link(&operation) {
                continue;
            }
            asked += 1;
            let mut seen = Seen(&operation, BTreeSet::new());
            let path = operation.path.replace(['{', '}'], "");
            let reply = ask(&acme.caller, &operation, &path, &[]).await;
            seen.see(&reply, 429);
            assert_eq!(reply.code(), "rate_limited");
            let (name, wait) = match operation.open {
                true => ("registration", "60"),
                false => ("partner", "1"),
            };
            assert_eq!(reply.header("retry-after"), Some(wait));
            let limit = reply.header("ratelimit").unwrap();
            assert!(limit.starts_with(&format!("\"{name}\";r=0;t=")), "{limit}");
            let policy = reply.header("ratelimit-policy").unwrap();
            assert_eq!(policy, format!("\"{name}\";q=1;w={wait}"));
        }
        assert!(asked > 10);
    })
    .await;
}

#[tokio::test]
async fn a_closed_registration_is_403() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            registration: RegistrationMode::Closed,
            ..config
        });
        let reply = server
            .await
            .caller()
            .post("/v1/partners/register", &samples::partner("Late"))
            .await;
        reply.refused(403, "registration_closed");
    })
    .await;
}

#[tokio::test]
async fn a_wrong_method_is_405_with_the_right_ones() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let mut paths: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for operation in documented() {
            let methods = paths
                .entry(operation.path.replace(['{', '}'], ""))
                .or_default();
            if operation.method == "GET" {
                methods.insert("HEAD".to_owned());
            }
            methods.insert(operation.method);
        }
        for path in ["/", "/openapi.json", "/llms.txt", "/docs"] {
            let methods = ["GET", "HEAD"].map(str::to_owned);
            paths.insert(path.to_owned(), methods.into());
        }
        // A browser may ask whether a page of another site may read it.
        let methods = ["GET", "HEAD", "OPTIONS"].map(str::to_owned);
        paths.insert("/.well-known/mcp.json".to_owned(), methods.into());
        for (path, methods) in paths {
            let allow = methods.iter().cloned().collect::<Vec<_>>().join(", ");
            for method in [
                "GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "BREW",
            ] {
                if methods.contains(method) {
                    continue;
                }
                let reply = acme.send(acme.request(method, &path)).await;
                assert_eq!(reply.status, 405, "{method} {path}");
                assert_eq!(reply.header("allow"), Some(allow.as_str()), "{path}");
                if method != "HEAD" {
                    assert_eq!(reply.code(), "method_not_allowed");
                }
            }
        }
    })
    .await;
}
