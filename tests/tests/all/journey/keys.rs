//! Registration modes, scopes, and keys that are passed on and revoked.

use std::collections::{BTreeMap, BTreeSet};

use bookguard_core::limits::HOUR_MS;
use bookguard_core::model::{ApiKeyId, Scope};
use bookguard_core::service::RegistrationMode;
use bookguard_server::config::Config;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::Ran;
use bookguard_tests::raw::Raw;
use bookguard_tests::samples;
use bookguard_tests::test_server::{TestServer, with_partner_on_every_engine};
use serde_json::json;

/// Runs an administrator's command on the database while the server runs.
async fn administer(server: &TestServer, command: &str) -> Ran {
    server.database().command(command).run().await
}

#[tokio::test]
async fn credentials_come_with_the_approval() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            registration: RegistrationMode::Approval,
            ..config
        });
        let server = server.await;
        let reply = server
            .caller()
            .post("/v1/partners/register", &samples::partner("Acme"))
            .await;
        let id = reply.string("partnerId");
        let expected = json!({"partnerId": id, "name": "Acme", "status": "pending"});
        assert_eq!(reply.ok(201), expected, "and no credentials");
        let approve = format!("partners approve {id}");
        let approved = administer(&server, &approve).await.json();
        let caller = server.caller().with_key(approved.text("apiKey"));
        let me = caller.get("/v1/partners/me").await.ok(200);
        me.holds(json!({"partnerId": id, "status": "active"}));
        let booking = samples::booking();
        caller.post("/v1/bookings", &booking).await.ok(201);
        assert!(approved.text("signingSecret").starts_with("whsec_"));
        let again = administer(&server, &approve).await;
        again.ended(5, &["(partner_not_pending)"]);
    })
    .await;
}

/// Maps each operation id to its method, its path, and the scope that its description names.
fn scope_of_each_operation() -> BTreeMap<String, (String, String, Option<String>)> {
    let document = bookguard_server::openapi();
    let mut scopes = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let words = operation["description"].as_str().unwrap_or_default();
            let named = words
                .split_once("Scope: `")
                .and_then(|(_, rest)| rest.split_once('`'));
            let scope = named.map(|(scope, _)| scope.to_owned());
            let id = operation.text("operationId").to_owned();
            scopes.insert(id, (method.to_uppercase(), path.clone(), scope));
        }
    }
    scopes
}

#[tokio::test]
async fn each_scope_opens_its_own_operations_and_no_others() {
    with_partner_on_every_engine(async |_server, acme| {
        let operations = scope_of_each_operation();
        let mut tried = BTreeSet::new();
        // A key with this scope alone opens what needs it, and one with all others does not.
        for (_, scope) in Scope::ALL {
            let others = Scope::ALL.map(|(_, other)| other);
            let others: Vec<_> = others.into_iter().filter(|other| *other != scope).collect();
            let (alone, without) = (acme.scoped(&[scope]).await, acme.scoped(&others).await);
            for (id, (method, path, needed)) in &operations {
                if needed.as_deref().is_some_and(|needed| needed != scope) {
                    continue;
                }
                let path = path
                    .split('/')
                    .map(|part| if part.starts_with('{') { "x" } else { part });
                let path = path.collect::<Vec<_>>().join("/");
                let reply = alone.send(alone.request(method, &path)).await;
                assert_ne!(reply.status, 403, "{id} with {scope}: {}", reply.text());
                tried.insert(id);
                if needed.is_some() {
                    let refused = without.send(without.request(method, &path)).await;
                    refused.refused(403, "insufficient_scope").says(&[scope]);
                }
            }
        }
        assert_eq!(tried.len(), operations.len());
        let unscoped: Vec<_> = operations
            .iter()
            .filter(|(_, (_, _, scope))| scope.is_none())
            .map(|(id, _)| id.as_str())
            .collect();
        let open = [
            "getCosignedCheckpoint",
            "getHealth",
            "getLedgerCheckpoint",
            "getLedgerKey",
            "getLedgerTile",
            "getLiveness",
            "getPartner",
            "getReadiness",
            "getSharedEvidence",
            "openSharedEvidence",
            "registerPartner",
        ];
        assert_eq!(unscoped, open);
    })
    .await;
}

#[tokio::test]
async fn a_key_hands_on_no_more_than_it_holds() {
    with_partner_on_every_engine(async |_server, acme| {
        let holder = acme.scoped(&["api-keys:*", "bookings:*"]).await;
        for (scopes, status) in [
            (json!(["bookings:read"]), 201),
            (json!(["bookings:*"]), 201),
            (
                json!(["bookings:read", "bookings:write", "api-keys:read"]),
                201,
            ),
            (json!(["webhooks:read"]), 403),
            (json!(["bookings:read", "evidence:*"]), 403),
            (json!(["*"]), 403),
        ] {
            let reply = holder
                .post("/v1/api-keys", &json!({"scopes": scopes}))
                .await;
            assert_eq!(reply.status, status, "{scopes}: {}", reply.text());
            if status == 403 {
                assert_eq!(
                    reply.details(),
                    [("/scopes".to_owned(), "insufficient_scope".to_owned())]
                );
            }
        }
        let same = holder.post_nothing("/v1/api-keys").await.ok(201);
        assert_eq!(same["scopes"], json!(["api-keys:*", "bookings:*"]));
        let list = acme.get("/v1/api-keys?limit=100").await;
        assert_eq!(list.ok(200).list("data").len(), 6);
        let key = same.text("apiKey");
        assert!(!list.text().contains(key), "a key is shown once");
        assert!(
            list.text().contains(&key[key.len() - 4..]),
            "and known by its end"
        );
    })
    .await;
}

#[tokio::test]
async fn a_revoked_key_dies_here_at_once_and_elsewhere_within_five_seconds() {
    with_partner_on_every_engine(async |server, acme| {
        let make = async || acme.post("/v1/api-keys", &json!({})).await;
        let (first, second) = (make().await, make().await);
        let status = async |key: &str| {
            server
                .caller()
                .with_key(key)
                .get("/v1/partners/me")
                .await
                .status
        };
        let (here, elsewhere) = (first.string("apiKey"), second.string("apiKey"));
        assert_eq!((status(&here).await, status(&elsewhere).await), (200, 200));

        let revoke = format!("/v1/api-keys/{}", first.string("apiKeyId"));
        let revoked = acme.delete(&revoke).await.ok(200);
        assert_eq!(revoked["revokedAt"], "2026-09-21T14:13:20.000Z");
        assert_eq!(status(&here).await, 401);
        server.advance(1000);
        assert_eq!(
            acme.delete(&revoke).await.ok(200),
            revoked,
            "again changes nothing"
        );

        let id = second.string("apiKeyId");
        let revoke = format!("api-keys revoke {id} --partner {}", acme.id);
        let revoked = administer(&server, &revoke).await.json();
        assert_eq!(revoked["apiKeyId"], id.as_str());
        server.advance(5_000);
        assert_eq!(status(&elsewhere).await, 401);
        assert_eq!(status(&acme.key).await, 200);
    })
    .await;
}

#[tokio::test]
async fn a_key_that_ends_while_a_body_arrives_does_nothing() {
    with_partner_on_every_engine(async |server, acme| {
        let body = samples::booking().to_string();
        let begin = async |key: &str| {
            let head = format!(
                "POST /v1/bookings HTTP/1.1\r\nx-api-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {}",
                body.len()
            );
            Raw::with_head(server.running().addr(), &head).await
        };
        let revoked = acme.post("/v1/api-keys", &json!({})).await;
        let hour = json!({"expiresAt": "2026-09-21T15:13:20Z"});
        let expiring = acme.post("/v1/api-keys", &hour).await;
        let mut under_way = Vec::new();
        for key in [&revoked.string("apiKey"), &expiring.string("apiKey"), &acme.key] {
            under_way.push(begin(key).await);
        }
        let revoke = format!("/v1/api-keys/{}", revoked.string("apiKeyId"));
        acme.delete(&revoke).await.ok(200);
        server.advance(HOUR_MS);
        let mut statuses = Vec::new();
        for mut one in under_way {
            one.send(&body).await;
            statuses.push(one.reply(false).await.status);
        }
        assert_eq!(statuses, [401, 401, 201]);
        assert_eq!(server.database().count("SELECT COUNT(*) FROM booking"), 1);
    })
    .await;
}

#[tokio::test]
async fn a_key_cannot_revoke_a_stronger_key_or_the_last_that_manages_keys() {
    with_partner_on_every_engine(async |server, acme| {
        let own = format!("/v1/api-keys/{}", acme.key_id);
        let refused = acme.delete(&own).await;
        refused.refused(409, "last_managing_key");

        let manager = json!({"scopes": ["api-keys:write"]});
        let manager = acme.post("/v1/api-keys", &manager).await;
        let manages = acme.with_key(&manager.string("apiKey"));
        let refused = manages.delete(&own).await;
        refused.refused(403, "insufficient_scope");
        refused.says(&["bookings:read"]);
        assert_eq!(acme.get("/v1/partners/me").await.status, 200);

        // A key may revoke itself if another one manages keys; the last one that does cannot be revoked over HTTP.
        let revoke = || acme.command(format!("api-keys revoke {}", acme.key_id));
        revoke().run().await.refused(2, &["itself uses", "--yes"]);
        assert_eq!(acme.get("/v1/partners/me").await.status, 200);
        revoke().arg("--yes").json().await;
        assert_eq!(acme.get("/v1/partners/me").await.status, 401);
        let id = manager.string("apiKeyId");
        let refused = manages.delete(&format!("/v1/api-keys/{id}")).await;
        assert_eq!(refused.code(), "last_managing_key");
        let revoke = format!("api-keys revoke {id} --partner {}", acme.id);
        administer(&server, &revoke).await.json();
    })
    .await;
}

#[tokio::test]
async fn a_key_written_or_changed_in_the_database_opens_nothing() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let unlimited = json!({"scopes": ["bookings:read"]});
        let hour = json!({"scopes": ["bookings:read"], "expiresAt": "2026-09-21T15:13:20Z"});
        let mut keys = Vec::new();
        for body in [&unlimited, &unlimited, &unlimited, &hour, &hour, &hour] {
            keys.push(acme.post("/v1/api-keys", body).await);
        }
        let [narrow, stolen, revoked, later, never, unending] = &keys[..] else {
            panic!("six keys")
        };
        let status = async |key: &str, path: &str| {
            server.caller().with_key(key).get(path).await.status
        };
        for key in &keys {
            assert_eq!(status(&key.string("apiKey"), "/v1/bookings").await, 200);
        }
        let path = format!("/v1/api-keys/{}", revoked.string("apiKeyId"));
        acme.delete(&path).await.ok(200);
        let id = |key: &Reply| literal(engine, &key.string("apiKeyId"));
        // More scopes, another partner as its owner, a revocation undone, and a later end or none.
        let database = server.database();
        let owner = "SELECT partner_id FROM api_key WHERE id = ";
        let others = literal(engine, &other.key_id);
        database.tamper(&format!(
            "UPDATE api_key SET body = replace(body, 'bookings:read', 'api-keys:write') WHERE id = {};
             UPDATE api_key SET partner_id = ({owner}{others}) WHERE id = {};
             UPDATE api_key SET revoked_ms = NULL WHERE id = {};
             UPDATE api_key SET expires_ms = expires_ms + 86400000 WHERE id = {};
             UPDATE api_key SET expires_ms = NULL WHERE id = {};
             UPDATE api_key SET body = replace(body, '2026-09-21T15', '2027-09-21T15') WHERE id = {};",
            id(narrow),
            id(stolen),
            id(revoked),
            id(later),
            id(never),
            id(unending),
        ));
        server.advance(5_000);
        for key in &keys {
            assert_eq!(status(&key.string("apiKey"), "/v1/bookings").await, 401);
            // The list leaves them out too.
            let listed = acme.get("/v1/api-keys").await.ok(200);
            assert!(!listed.to_string().contains(&key.string("apiKeyId")), "{listed}");
        }
        assert_eq!(status(&acme.key, "/v1/bookings").await, 200);
        let database = server.close().await;
        let found = database.command("ledger verify").run().await;
        found.ended(6, &[]);
        for (key, code) in keys.iter().zip(["mac", "mac", "standing", "standing", "standing", "mac"]) {
            let place = format!("api_key {} field {code}", key.string("apiKeyId"));
            assert!(found.stdout.contains(&place), "{place}: {found:?}");
        }
    })
    .await;
}

/// The status of a request with this key.
async fn status(server: &TestServer, key: &str) -> u16 {
    let caller = server.caller().with_key(key);
    caller.get("/v1/partners/me").await.status
}

#[tokio::test]
async fn a_key_works_until_the_very_instant_at_which_it_expires() {
    with_partner_on_every_engine(async |server, acme| {
        let made = async |body| acme.post("/v1/api-keys", &body).await;
        let body = json!({"expiresAt": "2026-09-21T17:13:20+02:00"});
        let made_key = made(body).await;
        let end = "2026-09-21T15:13:20.000Z";
        assert_eq!(made_key.json()["expiresAt"], end);
        let key = made_key.string("apiKey");
        let shown = async || {
            let list = acme.get("/v1/api-keys").await.ok(200);
            let mut keys = list.list("data").iter();
            let id = made_key.string("apiKeyId");
            keys.find(|key| key["apiKeyId"] == id.as_str()).cloned()
        };
        shown().await.unwrap().holds(json!({"expiresAt": end}));
        for (expires, code) in [
            ("2026-09-21T14:13:20.000Z", "expiry_out_of_range"),
            ("2036-09-22T14:13:20.001Z", "expiry_out_of_range"),
            ("2026-09-21", "invalid_date"),
        ] {
            let refused = made(json!({"expiresAt": expires})).await;
            refused.refused(400, code);
            assert_eq!(refused.details(), [("/expiresAt".to_owned(), code.to_owned())]);
        }
        let both = json!({"scopes": ["bookings:rea"], "expiresAt": "2026-09-21T14:13:20.000Z"});
        let refused = made(both).await;
        refused.faulty(&[("/scopes/0", "unknown_scope"), ("/expiresAt", "expiry_out_of_range")]);
        refused.says(&["Did you mean \\\"bookings:read\\\"? Allowed: bookings:read, "]);
        made(json!({"expiresAt": "2036-09-21T14:13:20.000Z"})).await.ok(201);

        // It makes none that outlives it.
        let own = acme.with_key(&key);
        let later = json!({"expiresAt": "2026-09-21T15:13:20.001Z"});
        let refused = own.post("/v1/api-keys", &later).await;
        refused.refused(403, "outlives_creator");
        refused.says(&[end]);
        let heir = own.post_nothing("/v1/api-keys").await.ok(201);
        assert_eq!(heir["expiresAt"], end);

        // Just before, the node caches it.
        server.advance(HOUR_MS - 1);
        assert_eq!(status(&server, &key).await, 200);
        server.advance(1);
        let refused = own.get("/v1/partners/me").await;
        assert_eq!(refused.status, 401);
        let message = "Missing or invalid x-api-key";
        assert_eq!(refused.json(), json!({"error": "Unauthorized", "message": message}));
        let why = format!("ApiKey error=\"invalid_token\", error_description=\"The API key in x-api-key expired at {end}. Use the key that replaced it, or create one with a key that still works\"");
        assert_eq!(refused.header("www-authenticate"), Some(&*why));
        let line = acme.command("partners me").env("BOOKGUARD_API_KEY", &key);
        line.run().await.ended(4, &[&format!("expired at {end}"), "(api_key_expired)"]);
        assert_eq!(status(&server, heir.text("apiKey")).await, 401);
        assert_eq!(status(&server, &acme.key).await, 200);
        let path = format!("/v1/api-keys/{}/rotate", made_key.string("apiKeyId"));
        acme.post(&path, &json!({})).await.refused(409, "api_key_ended");
    })
    .await;
}

#[tokio::test]
async fn a_rotated_key_works_beside_the_new_one_and_then_no_more() {
    with_partner_on_every_engine(async |server, acme| {
        let body = json!({"name": "desk", "scopes": ["api-keys:*", "bookings:read"], "expiresAt": "2026-10-21T14:13:20Z"});
        let old = acme.post("/v1/api-keys", &body).await;
        let (old_id, old_key) = (old.string("apiKeyId"), old.string("apiKey"));
        let path = format!("/v1/api-keys/{old_id}/rotate");
        server.advance(HOUR_MS);
        // It rotates itself; a repeated request gets the same key.
        let rotate = || {
            let request = server.caller().with_key(&old_key).request("POST", &path);
            let request = request.header("idempotency-key", "rotation-1");
            request.header("content-type", "application/json").body(r#"{"overlapSeconds":3600}"#)
        };
        let own = acme.with_key(&old_key);
        let rotated = own.send(rotate()).await.ok(201);
        assert_eq!(own.send(rotate()).await.ok(201), rotated);
        rotated.holds(json!({
            "name": "desk",
            "scopes": ["api-keys:*", "bookings:read"],
            "createdAt": "2026-09-21T15:13:20.000Z",
            "expiresAt": "2026-10-21T15:13:20.000Z",
            "replacedApiKeyId": old_id,
            "replacedExpiresAt": "2026-09-21T16:13:20.000Z",
        }));
        let new_key = rotated.text("apiKey");
        let listed = acme.get("/v1/api-keys").await.ok(200);
        assert_eq!(listed.list("data").len(), 3, "{listed}");
        server.advance(HOUR_MS - 1);
        assert_eq!(status(&server, &old_key).await, 200);
        assert_eq!(status(&server, new_key).await, 200);
        server.advance(1);
        assert_eq!(status(&server, &old_key).await, 401);
        assert_eq!(status(&server, new_key).await, 200);

        // Without an overlap, the old key dies here at once.
        let path = format!("/v1/api-keys/{}/rotate", rotated.text("apiKeyId"));
        let last = acme.post(&path, &json!({"overlapSeconds": 0})).await.ok(201);
        assert_eq!(status(&server, new_key).await, 401);
        assert_eq!(status(&server, last.text("apiKey")).await, 200);
        let revoke = format!("/v1/api-keys/{}", last.text("apiKeyId"));
        acme.delete(&revoke).await.ok(200);
        let refused = acme.post_nothing(&format!("{revoke}/rotate")).await;
        refused.refused(409, "api_key_ended");

        // On another node it ends within seconds, and the first key, which never expires, has a successor that never does.
        let command = format!("api-keys rotate {} --overlap 0s --partner {}", acme.key_id, acme.id);
        let first = administer(&server, &command).await.json();
        assert!(first["expiresAt"].is_null(), "{first}");
        server.advance(5_000);
        assert_eq!(status(&server, first.text("apiKey")).await, 200);
        let database = server.close().await;
        let found = database.command("ledger verify").run().await;
        found.ended(0, &[]);
    })
    .await;
}

#[tokio::test]
async fn a_key_says_when_it_was_last_used_to_a_quarter_of_an_hour() {
    with_partner_on_every_engine(async |server, acme| {
        let made = acme.post("/v1/api-keys", &json!({})).await;
        let (id, key) = (made.string("apiKeyId"), made.string("apiKey"));
        let last_used = async || {
            let list = acme.get("/v1/api-keys").await.ok(200);
            let mut keys = list.list("data").iter();
            let shown = keys.find(|shown| shown["apiKeyId"] == id.as_str()).unwrap();
            shown.get("lastUsedAt").cloned()
        };
        assert_eq!(last_used().await, None);
        for (later_ms, expected) in [
            (0, "2026-09-21T14:13:20.000Z"),
            (HOUR_MS / 4 - 1, "2026-09-21T14:13:20.000Z"),
            // By then the node has forgotten the key and reads it again.
            (3_000, "2026-09-21T14:28:22.999Z"),
        ] {
            server.advance(later_ms);
            assert_eq!(status(&server, &key).await, 200);
            bookguard_tests::waiting::until("the use is stored", async || {
                (last_used().await? == expected).then_some(())
            })
            .await;
        }
    })
    .await;
}

/// Returns a key's id as an SQL literal.
fn literal(engine: Engine, id: &str) -> String {
    let id = ApiKeyId::parse(id).unwrap();
    let hex: String = id.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    match engine {
        Engine::Sqlite => format!("x'{hex}'"),
        Engine::Postgres => format!("'\\x{hex}'"),
    }
}
