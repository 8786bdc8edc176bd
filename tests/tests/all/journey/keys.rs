//! Registration modes, scopes, and keys that are handed on and revoked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bookguard_core::features::api_keys::RevokeApiKey;
use bookguard_core::features::partners::ApprovePartner;
use bookguard_core::features::partners::Registration as Registered;
use bookguard_core::model::{ApiKeyId, Quota, Scope};
use bookguard_core::operation::{self, Action, Operation, Request};
use bookguard_core::service::{self, RegistrationMode, Service};
use bookguard_core::session::{Authority, Session};
use bookguard_server::config::Config;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};
use tokio::runtime::Handle;

/// What the administrator does on the database, beside the server: as the command line does it, on a thread of its own.
async fn administer<O: Operation + 'static>(
    server: &TestServer,
    id: &str,
) -> Result<O::Output, bookguard_core::Error>
where
    O::Output: Send,
{
    let (config, id) = (server.config().clone(), id.to_owned());
    let runtime = Handle::current();
    let administering =
        tokio::task::spawn_blocking(move || administer_here::<O>(&runtime, config, id));
    administering.await.unwrap()
}

fn administer_here<O: Operation>(
    runtime: &Handle,
    config: Config,
    id: String,
) -> Result<O::Output, bookguard_core::Error> {
    let (service, closing) = Service::open(service::Config {
        db: config.db,
        create: false,
        ledger_key: config.ledger_key,
        guard_file: config.guard_file,
        public_url: "http://localhost".to_owned(),
        registration: config.registration,
        library_policies: true,
        clock: config.clock,
        outbox: None,
        endpoint_rule: Arc::new(|url| Ok(url.to_owned())),
        verifies_endpoints: false,
        report: |line| println!("administrator: {line}"),
        min_free_disk: 0,
        quota: Quota::GENEROUS,
        commit_delay: std::time::Duration::ZERO,
    })
    .unwrap();
    let session = Session {
        service,
        authority: Authority::Administrator { partner_id: None },
    };
    let request = Request {
        path: vec![id],
        ..Request::default()
    };
    let outcome = match operation::prepare::<O>(&session, &request)? {
        Action::Read(read) | Action::Long(read) => read(&session),
        Action::Unchanged(_) => unreachable!("nothing was kept"),
        Action::Watch(watch) => (watch.look)(&session),
        Action::Write(writing) => {
            let answer = runtime.block_on(session.service.submit_patiently(writing.command))?;
            let body = operation::finish_write::<O>(answer).body;
            Ok(serde_json::from_slice(&body).unwrap())
        }
    };
    drop(session);
    closing.wait();
    outcome
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
        let approved: Registered = administer::<ApprovePartner>(&server, &id).await.unwrap();
        let caller = server.caller().with_key(&approved.api_key.unwrap());
        let me = caller.get("/v1/partners/me").await.ok(200);
        assert_eq!(
            (&me["partnerId"], &me["status"]),
            (&json!(id), &json!("active"))
        );
        caller
            .post("/v1/bookings", &samples::booking())
            .await
            .ok(201);
        assert!(approved.signing_secret.unwrap().starts_with("whsec_"));
        let again = administer::<ApprovePartner>(&server, &id)
            .await
            .unwrap_err();
        assert_eq!(again.code, "partner_not_pending");
    })
    .await;
}

/// Operation id → the scope its description names.
fn scope_of_each_operation() -> BTreeMap<String, (String, String, Option<String>)> {
    let document: Value = serde_json::from_str(bookguard_server::openapi_json()).unwrap();
    let mut scopes = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let words = operation["description"].as_str().unwrap_or_default();
            let scope = words
                .split("Scope: `")
                .nth(1)
                .and_then(|rest| rest.split('`').next());
            let id = operation["operationId"].as_str().unwrap().to_owned();
            scopes.insert(
                id,
                (
                    method.to_uppercase(),
                    path.clone(),
                    scope.map(str::to_owned),
                ),
            );
        }
    }
    scopes
}

#[tokio::test]
async fn each_scope_opens_its_own_operations_and_no_others() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let operations = scope_of_each_operation();
        let mut opened = 0;
        for (_, scope) in Scope::ALL {
            let caller = acme.scoped(&[scope]).await;
            for (id, (method, path, needed)) in &operations {
                let path = path
                    .split('/')
                    .map(|part| if part.starts_with('{') { "x" } else { part });
                let path = path.collect::<Vec<_>>().join("/");
                let reply = caller.send(caller.request(method, &path)).await;
                let allowed = needed.as_deref().is_none_or(|needed| needed == scope);
                assert_eq!(
                    reply.status != 403,
                    allowed,
                    "{id} with {scope}: {}",
                    reply.text()
                );
                if allowed {
                    opened += 1;
                } else {
                    assert_eq!(reply.code(), "insufficient_scope");
                    let needed = needed.as_deref().unwrap();
                    assert!(
                        reply.text().contains(needed),
                        "{} names {needed}",
                        reply.text()
                    );
                }
            }
        }
        assert!(opened > operations.len());
        let unscoped: Vec<_> = operations
            .iter()
            .filter(|(_, (_, _, scope))| scope.is_none())
            .map(|(id, _)| id.as_str())
            .collect();
        let open = [
            "getHealth",
            "getLedgerCheckpoint",
            "getLedgerKey",
            "getLedgerTile",
            "getPartner",
            "registerPartner",
        ];
        assert_eq!(unscoped, open);
    })
    .await;
}

#[tokio::test]
async fn a_key_hands_on_no_more_than_it_holds() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
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
        let list = acme.caller.get("/v1/api-keys?limit=100").await;
        assert_eq!(list.ok(200)["data"].as_array().unwrap().len(), 6);
        let key = same["apiKey"].as_str().unwrap();
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
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let make = async || acme.caller.post("/v1/api-keys", &json!({})).await;
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
        let revoked = acme.caller.delete(&revoke).await.ok(200);
        assert_eq!(revoked["revokedAt"], "2026-09-21T14:13:20.000Z");
        assert_eq!(status(&here).await, 401);
        server.advance(1000);
        assert_eq!(
            acme.caller.delete(&revoke).await.ok(200),
            revoked,
            "again changes nothing"
        );

        let id = second.string("apiKeyId");
        let revoked = administer::<RevokeApiKey>(&server, &id).await.unwrap();
        assert_eq!(Some(revoked.api_key_id), ApiKeyId::parse(&id));
        server.advance(5_000);
        assert_eq!(status(&elsewhere).await, 401);
        assert_eq!(status(&acme.key).await, 200);
    })
    .await;
}

#[tokio::test]
async fn a_key_cannot_revoke_a_stronger_key_or_the_last_that_manages_keys() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let own = format!("/v1/api-keys/{}", acme.key_id);
        let refused = acme.caller.delete(&own).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "last_managing_key")
        );

        let manager = json!({"scopes": ["api-keys:write"]});
        let manager = acme.caller.post("/v1/api-keys", &manager).await;
        let manages = acme.caller.with_key(&manager.string("apiKey"));
        let refused = manages.delete(&own).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "insufficient_scope")
        );
        assert!(
            refused.text().contains("bookings:read"),
            "{}",
            refused.text()
        );
        assert_eq!(acme.caller.get("/v1/partners/me").await.status, 200);

        // With another that manages keys there, a key may end itself; the last one stays.
        acme.caller.delete(&own).await.ok(200);
        assert_eq!(acme.caller.get("/v1/partners/me").await.status, 401);
        let id = manager.string("apiKeyId");
        let refused = manages.delete(&format!("/v1/api-keys/{id}")).await;
        assert_eq!(refused.code(), "last_managing_key");
        administer::<RevokeApiKey>(&server, &id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_key_written_or_changed_in_the_database_opens_nothing() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let made = async |scopes: &[&str]| {
            let body = json!({"scopes": scopes});
            acme.caller.post("/v1/api-keys", &body).await
        };
        let narrow = made(&["bookings:read"]).await;
        let (stolen, revoked) = (made(&["bookings:read"]).await, made(&["bookings:read"]).await);
        let status = async |key: &str, path: &str| {
            server.caller().with_key(key).get(path).await.status
        };
        for key in [&narrow, &stolen, &revoked] {
            assert_eq!(status(&key.string("apiKey"), "/v1/bookings").await, 200);
        }
        let path = format!("/v1/api-keys/{}", revoked.string("apiKeyId"));
        acme.caller.delete(&path).await.ok(200);
        let id = |key: &Reply| literal(engine, &key.string("apiKeyId"));
        // More scopes, another owner, life after its end; and one that is written from another's columns.
        let database = server.database();
        let owner = "SELECT partner_id FROM api_key WHERE id = ";
        let others = literal(engine, &other.key_id);
        database.tamper(&format!(
            "UPDATE api_key SET body = replace(body, 'bookings:read', 'api-keys:write') WHERE id = {};
             UPDATE api_key SET partner_id = ({owner}{others}) WHERE id = {};
             UPDATE api_key SET revoked_ms = NULL WHERE id = {};",
            id(&narrow),
            id(&stolen),
            id(&revoked),
        ));
        server.advance(5_000);
        for key in [&narrow, &stolen, &revoked] {
            assert_eq!(status(&key.string("apiKey"), "/v1/bookings").await, 401);
            // Nor are they there for anybody else.
            let listed = acme.caller.get("/v1/api-keys").await.ok(200);
            assert!(!listed.to_string().contains(&key.string("apiKeyId")), "{listed}");
        }
        assert_eq!(status(&acme.key, "/v1/bookings").await, 200);
        let database = server.close().await;
        let found = database.command(["ledger", "verify"]).run().await;
        assert_eq!(found.code, Some(6), "{found:?}");
        for (key, code) in [(&narrow, "mac"), (&stolen, "mac"), (&revoked, "standing")] {
            let place = format!("api_key {} field {code}", key.string("apiKeyId"));
            assert!(found.stdout.contains(&place), "{place}: {found:?}");
        }
    })
    .await;
}

/// The id of a key as SQL writes its column.
fn literal(engine: Engine, id: &str) -> String {
    let id = ApiKeyId::parse(id).unwrap();
    let hex: String = id.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    match engine {
        Engine::Sqlite => format!("x'{hex}'"),
        Engine::Postgres => format!("'\\x{hex}'"),
    }
}
