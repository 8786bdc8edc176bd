//! The operator interface: whose keys open it, and what can be done there.

use std::sync::Arc;

use bookguard_core::engine::command::Written;
use bookguard_core::features::endings::EndContract;
use bookguard_core::limits;
use bookguard_core::model::OperatorKeyId;
use bookguard_core::operation::{Action, Operation as _, Request};
use bookguard_core::service::RegistrationMode;
use bookguard_core::session::{Authority, Operator, Session};
use bookguard_server::config::Config;
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{Arguments, CommandLine, bookguard};
use bookguard_tests::raw::Raw;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};
use tokio::task::block_in_place;

/// A server with an operator interface, and one of its keys.
struct Operated {
    server: TestServer,
    url: String,
    key: Value,
}

impl Operated {
    async fn open(engine: Engine) -> Self {
        Self::with(engine, |config| config).await
    }

    async fn with(engine: Engine, adjust: impl FnOnce(Config) -> Config) -> Self {
        let (server, url) = TestServer::operated(engine, adjust).await;
        let key = server.operator_key("console").await;
        Self { server, url, key }
    }

    fn caller(&self) -> Caller {
        Caller::of_operator(&self.url).with_key(self.key.text("operatorKey"))
    }

    /// Sends a request without a body, acting for a partner.
    async fn acting(&self, method: &str, path: &str, partner_id: &str) -> Reply {
        let caller = self.caller();
        let request = caller.request(method, path);
        caller
            .send(request.header("x-partner-id", partner_id))
            .await
    }

    /// `bookguard` with these arguments, on the operator interface.
    fn command(&self, args: impl Arguments) -> CommandLine {
        let line = bookguard(args).env("BOOKGUARD_URL", &self.url);
        line.env("BOOKGUARD_OPERATOR_KEY", self.key.text("operatorKey"))
    }
}

#[tokio::test]
async fn the_operator_does_with_a_key_what_it_does_on_the_database() {
    on_every_engine(async |engine| {
        let operated = Operated::with(engine, |config| Config {
            registration: RegistrationMode::Approval,
            ..config
        });
        let operated = operated.await;
        let operator = operated.caller();
        let register = operated.server.caller();
        let pending = register
            .post("/v1/partners/register", &samples::partner("Acme"))
            .await;
        let id = pending.string("partnerId");
        let listed = operator.get("/v1/partners?status=pending").await.ok(200);
        assert_eq!(listed["data"][0]["partnerId"], id.as_str());

        // A repeated approval under the same Idempotency-Key answers the same, key included.
        let path = format!("/v1/partners/{id}/approve");
        let approve = async || operator.post_once(&path, "approve-1", &json!({})).await;
        let approved = approve().await;
        let acme = operated
            .server
            .caller()
            .with_key(&approved.string("apiKey"));
        acme.get("/v1/partners/me")
            .await
            .ok(200)
            .holds(json!({"status": "active"}));
        approve().await.replays(&approved);
        let refused = operator.post_nothing(&path).await;
        refused.refused(409, "partner_not_pending");

        let quota = json!({"bookings": 7});
        let path = format!("/v1/partners/{id}/quota");
        let account = operator.patch(&path, &quota).await.ok(200);
        assert_eq!(account["quota"]["bookings"]["limit"], 7);

        // Acting for the partner; for none, lists show what all partners have.
        let made = acme.post("/v1/bookings", &samples::booking()).await.ok(201);
        let booking = format!("/v1/bookings/{}", made.text("bookingId"));
        operated.acting("GET", "/v1/partners/me", &id).await.ok(200);
        operated
            .acting("POST", &format!("{booking}/protect"), &id)
            .await
            .ok(200);
        assert_eq!(acme.get(&booking).await.string("status"), "protected");
        let other = register
            .post("/v1/partners/register", &samples::partner("Other"))
            .await;
        let other = other.string("partnerId");
        let unknown = operated.acting("GET", &booking, &other).await;
        unknown.refused(404, "not_found");
        // An operator key belongs to no partner.
        assert!(!unknown.text().contains("this key"), "{}", unknown.text());
        operator.get(&booking).await.ok(200);
        assert_eq!(
            operator
                .get("/v1/bookings")
                .await
                .ok(200)
                .list("data")
                .len(),
            1
        );
        let events = operator
            .get("/v1/operator/webhook-events?status=no_endpoints")
            .await
            .ok(200);
        assert_eq!(events.list("data").len(), 2);
        for of_partner in ["/v1/api-keys", "/v1/activity"] {
            let refused = operator.get(of_partner).await;
            refused.refused(400, "partner_required");
        }
        let wrong = operated.acting("GET", "/v1/bookings", "acme").await;
        wrong.faulty(&[("x-partner-id", "partner_id_invalid")]);
        assert!(
            operator
                .get("/v1/ledger/checkpoint")
                .await
                .text()
                .starts_with("bookguard-")
        );
        let document: Value = operator.get("/openapi.json").await.json();
        assert_eq!(&document, bookguard_server::operator_openapi());
        operated.server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn neither_kind_of_key_opens_the_other_interface() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let (server, acme) = (&operated.server, operated.server.partner("Acme").await);
        let key = operated.key.text("operatorKey").to_owned();
        let refused = async |caller: &Caller, header: &str, key: &str, path: &str| {
            let reply = caller.send(caller.request("GET", path).header(header, key)).await;
            assert_eq!(reply.status, 401, "{header} {path}: {}", reply.text());
            reply.json()
        };
        let (partners, operators) = (server.caller(), Caller::of_operator(&operated.url));
        for path in ["/v1/partners/me", "/v1/bookings", "/v1/webhook-events"] {
            for header in ["x-api-key", "x-operator-key"] {
                refused(&partners, header, &key, path).await;
            }
        }
        for path in ["/v1/bookings", "/v1/partners", "/v1/operator/webhook-events"] {
            for header in ["x-api-key", "x-operator-key"] {
                let body = refused(&operators, header, &acme.key, path).await;
                let expected = json!({"error": "Unauthorized", "message": "Missing or invalid x-operator-key"});
                assert_eq!(body, expected);
            }
        }
        // What is the operator's alone is not there for partners at all, with whichever key.
        for path in ["/v1/partners", "/v1/operator/webhook-events"] {
            let caller = server.caller();
            let asked = caller.request("GET", path).header("x-operator-key", &key);
            caller.send(asked.header("x-api-key", &acme.key)).await.refused(404, "path_not_found");
        }
        // Nor does the operator's listener have what is there for partners and visitors.
        let operator = operated.caller();
        for path in ["/mcp", "/s/x", "/docs", "/llms.txt", "/metrics", "/v1/operator-keys", "/"] {
            operator.get(path).await.refused(404, "path_not_found");
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_bookings"}});
        let caller = server.caller();
        let mcp = caller.request("POST", "/mcp").header("x-api-key", &key);
        let mcp = mcp.header("accept", "application/json, text/event-stream");
        let mcp = mcp.header("content-type", "application/json");
        assert_eq!(caller.send(mcp.body(message.to_string())).await.status, 401);
        // Without a key, only health is answered. Registration is the operator's here.
        let stranger = Caller::new(&operated.url);
        for path in ["/livez", "/readyz", "/v1/health"] {
            assert_eq!(stranger.get(path).await.status, 200, "{path}");
        }
        let register = stranger.post("/v1/partners/register", &samples::partner("X")).await;
        assert_eq!(register.status, 401);
    })
    .await;
}

#[tokio::test]
async fn whoever_guesses_operator_keys_is_slowed_down_before_the_store_is_asked() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let wrong = Caller::of_operator(&operated.url).with_key("bgo_wrong");
        let mut refused = 0;
        while wrong.get("/v1/partners").await.status == 401 {
            refused += 1;
        }
        assert_eq!(refused, 30);
        wrong.get("/v1/partners").await.refused(429, "rate_limited");
        let operator = operated.caller();
        let refused = operator.get("/v1/partners").await;
        refused.refused(429, "rate_limited");
        operated.server.advance(2_000);
        operator.get("/v1/partners").await.ok(200);
        operator.get("/v1/partners").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_revoked_or_changed_operator_key_opens_nothing_at_once() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let database = operated.server.database();
        let second = operated.server.operator_key("second").await;
        let first = operated.caller();
        let caller = Caller::of_operator(&operated.url).with_key(second.text("operatorKey"));
        for caller in [&first, &caller] {
            caller.get("/v1/partners").await.ok(200);
        }
        // A request under way, whose body comes too late.
        let body = samples::partner("Late").to_string();
        let head = format!(
            "POST /v1/partners/register HTTP/1.1\r\nx-operator-key: {}\r\ncontent-type: application/json\r\ncontent-length: {}",
            second.text("operatorKey"),
            body.len()
        );
        let addr = operated.url.strip_prefix("http://").unwrap().parse();
        let mut late = Raw::with_head(addr.unwrap(), &head).await;
        let id = second.text("operatorKeyId");
        let revoke = format!("operator-keys revoke {id}");
        for _ in 0..2 {
            let revoked = database.command(&revoke).json().await;
            assert!(revoked["revokedAt"].is_string(), "{revoked}");
        }
        assert_eq!(caller.get("/v1/partners").await.status, 401);
        late.send(&body).await;
        assert_eq!(late.reply(false).await.status, 401);
        first.get("/v1/partners").await.ok(200);
        let listed = database.command("operator-keys list").json().await;
        let names: Vec<_> = listed.list("data").iter().map(|key| key.text("name")).collect();
        assert_eq!(names, ["second", "console"]);
        assert!(!listed.to_string().contains("bgo_"), "{listed}");

        // A revocation undone by hand, and a key that somebody wrote.
        let bytes = OperatorKeyId::parse(id).unwrap();
        let hex: String = bytes.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        let literal = match engine {
            Engine::Sqlite => format!("x'{hex}'"),
            Engine::Postgres => format!("'\\x{hex}'"),
        };
        let undo = "UPDATE operator_key SET revoked_ms = NULL, body = replace(body, 'revokedAt', 'revokedNot')";
        database.tamper(&format!("{undo} WHERE id = {literal}"));
        assert_eq!(caller.get("/v1/partners").await.status, 401);
        let database = operated.server.close().await;
        let found = database.command("ledger verify").run().await;
        found.ended(6, &[]);
        let place = format!("operator_key {id} field mac");
        assert!(found.stdout.contains(&place), "{found:?}");
    })
    .await;
}

#[tokio::test]
async fn the_command_line_works_on_the_operator_interface() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let (server, acme) = (&operated.server, operated.server.partner("Acme").await);
        acme.book().await;
        for line in [
            "partners list",
            "bookings list",
            "webhook-events list",
            "webhook-endpoints list",
        ] {
            let here = server.database().command(line).json().await;
            let there = operated.command(line).json().await;
            assert_eq!(here, there, "{line}");
        }
        let quota = format!("partners quota {} --bookings 9", acme.id);
        let quota = operated.command(&quota).json().await;
        assert_eq!(quota["quota"]["bookings"]["limit"], 9);
        let own = |line: &str| operated.command(line).args(["--partner", &acme.id]);
        assert_eq!(own("partners me").json().await.text("partnerId"), acme.id);
        let keys = own("api-keys list").json().await;
        let revoke = format!("api-keys revoke {}", keys.list("data")[0].text("apiKeyId"));
        own(&revoke).json().await;
        assert_eq!(
            acme.get("/v1/bookings").await.status,
            401,
            "at once on this node"
        );

        let key = operated.key.text("operatorKey");
        let printed = own("partners me --curl").run().await;
        let header = format!("x-partner-id: {}", acme.id);
        printed.said(&["x-operator-key: $BOOKGUARD_OPERATOR_KEY", &header]);
        assert!(!printed.stdout.contains(key), "{printed:?}");
        let file = server.folder().join("operator.key");
        std::fs::write(&file, key).unwrap();
        let line = bookguard("partners list --url")
            .arg(&operated.url)
            .arg("--operator-key-file");
        line.arg(&file).json().await;
        let both = operated
            .command("partners list")
            .env("BOOKGUARD_API_KEY", &acme.key);
        let ran = both.run().await;
        ran.ended(2, &["BOOKGUARD_OPERATOR_KEY", "unset the other"]);
        for line in [
            "operator-keys list",
            "ledger verify",
            "webhook-events prune",
            "audit prune",
        ] {
            let ran = operated.command(line).run().await;
            ran.ended(2, &["on the database itself"]);
        }
        let ran = acme.command("partners list").run().await;
        ran.ended(2, &["with an operator key"]);
        operated.command("mcp").run().await.ended(2, &["API key"]);
        let wrong = operated
            .command("partners list")
            .env("BOOKGUARD_OPERATOR_KEY", "bgo_x");
        wrong.run().await.ended(4, &["x-operator-key"]);
        let elsewhere = operated
            .command("partners list")
            .env("BOOKGUARD_URL", server.running().url());
        let words = ["not the address of the operator interface"];
        elsewhere.run().await.refused(2, &words);
    })
    .await;
}

#[tokio::test]
async fn a_suspended_partner_reads_and_does_nothing_else() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let acme = operated.server.partner("Acme").await;
        let other = operated.server.partner("Other").await;
        let booking = acme.book().await;
        let operator = operated.caller();
        let path = format!("/v1/partners/{}", acme.id);
        let edit =
            json!({"name": "Acme Stage", "contactEmail": "desk@acme.example", "website": null});
        let edited = operator.patch(&path, &edit).await.ok(200);
        assert_eq!(edited["name"], "Acme Stage");
        assert_eq!(
            acme.get("/v1/partners/me").await.string("contactEmail"),
            "desk@acme.example"
        );
        let body = samples::booking();
        let once = acme
            .post_once("/v1/bookings", "once", &body)
            .await
            .string("bookingId");
        let suspended = operator.post_nothing(&format!("{path}/suspend")).await;
        let suspended = suspended.ok(200);
        assert_eq!(suspended["status"], "suspended");
        let protect = format!("/v1/bookings/{booking}/protect");
        for path in [
            &*protect,
            "/v1/webhook-events/recover",
            "/v1/partners/me/rotate-secret",
        ] {
            let refused = acme.post_nothing(path).await;
            refused.refused(403, "partner_suspended");
        }
        let refused = acme.post("/v1/bookings", &samples::booking()).await;
        refused.refused(403, "partner_suspended");
        // What was carried out before gets its answer, and nothing else does.
        let again = acme.post_once("/v1/bookings", "once", &body).await;
        assert_eq!(again.string("bookingId"), once);
        for (key, booking) in [
            ("once", samples::booking_with(json!({"notes": "other"}))),
            ("new", samples::booking()),
        ] {
            let refused = acme.post_once("/v1/bookings", key, &booking).await;
            refused.refused(403, "partner_suspended");
        }
        let refused = acme.delete(&format!("/v1/api-keys/{}", acme.key_id)).await;
        refused.refused(403, "partner_suspended");
        assert_eq!(acme.booking(&booking).await["status"], "created");
        acme.verified_packet(&booking).await;
        acme.post("/v1/policies/validate", &json!({})).await.ok(200);
        other.book().await;
        let listed = operator.get("/v1/partners?status=suspended").await.ok(200);
        assert_eq!(listed.list("data").len(), 1);
        operated.acting("POST", &protect, &acme.id).await.ok(200);
        let account = operator.get(&path).await.ok(200);
        account.holds(json!({"status": "suspended", "name": "Acme Stage"}));
        operated.server.database().verify(3).await;
        let reinstate = operated.command(format!("partners reinstate {}", acme.id));
        assert_eq!(reinstate.json().await["status"], "active");
        acme.book().await;
        let refused = operator.get("/v1/partners/ptn_x").await;
        refused.refused(404, "not_found");
        operated.server.close().await.verify(4).await;
    })
    .await;
}

#[tokio::test]
async fn the_keys_of_a_partner_whose_contract_ended_open_nothing_from_that_moment_on() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let acme = operated.server.partner("Acme").await;
        let booking = acme.book().await;
        assert_eq!(acme.booking(&booking).await["status"], "created");
        let path = format!("/v1/partners/{}/end", acme.id);
        let page = json!({"after": format!("{booking}.0")});
        let refused = operated.caller().post(&path, &page).await;
        refused.faulty(&[("/after", "cursor_invalid")]);
        assert_eq!(acme.booking(&booking).await["status"], "created");
        let ended = operated.caller().post_nothing(&path).await.ok(200);
        ended.holds(json!({"erased": 0}));
        // The server knew the key a moment ago.
        assert_eq!(acme.get("/v1/bookings").await.status, 401);
        // The place of a newer booking of somebody else, and of none, would pass over it.
        let other = operated.server.partner("Other").await.book().await;
        for after in [&*other, "bkg_ffffffffffffffffffffffffffffffff"] {
            let page = json!({"after": format!("{after}.0")});
            let refused = operated.caller().post(&path, &page).await;
            refused.faulty(&[("/after", "cursor_invalid")]);
        }
        let page = json!({"after": ended["next"]});
        let ended = operated.caller().post(&path, &page).await.ok(200);
        ended.holds(json!({"erased": 1, "done": true}));
        operated.server.close().await.verify(2).await;
    })
    .await;
}

#[tokio::test]
async fn nothing_more_is_recorded_for_a_partner_before_its_approval_and_after_its_contract() {
    on_every_engine(async |engine| {
        let operated = Operated::with(engine, |config| Config {
            registration: RegistrationMode::Approval,
            ..config
        });
        let operated = operated.await;
        let register = operated.server.caller();
        let pending = register
            .post("/v1/partners/register", &samples::partner("Acme"))
            .await;
        let partner_id = pending.string("partnerId");
        let operator = operated.caller();
        let refused = async |code: &str| {
            for (path, body) in [
                ("/v1/bookings", samples::booking()),
                (
                    "/v1/webhook-endpoints",
                    json!({"url": "http://127.0.0.1:9/"}),
                ),
                ("/v1/api-keys", json!({"name": "x", "scopes": ["*"]})),
                ("/v1/partners/me/rotate-secret", json!({})),
            ] {
                let request = operator.request("POST", path);
                let request = request.header("content-type", "application/json");
                let request = request.header("x-partner-id", &*partner_id);
                let reply = operator.send(request.body(body.to_string())).await;
                reply.refused(409, code);
            }
        };
        refused("partner_pending").await;
        let path = format!("/v1/partners/{partner_id}");
        operator
            .post_nothing(&format!("{path}/approve"))
            .await
            .ok(200);
        let end = format!("{path}/end");
        let begun = operator.post_nothing(&end).await.ok(200);
        let page = json!({"after": begun["next"]});
        operator.post(&end, &page).await.ok(200);
        refused("partner_ended").await;
        let shown = operator.get(&path).await.ok(200);
        shown.holds(json!({"status": "suspended", "name": "erased"}));
        operated.server.close().await.verify(0).await;
    })
    .await;
}

#[tokio::test]
async fn the_contract_of_a_partner_that_waits_for_approval_can_end() {
    on_every_engine(async |engine| {
        let operated = Operated::with(engine, |config| Config {
            registration: RegistrationMode::Approval,
            ..config
        });
        let operated = operated.await;
        let register = operated.server.caller();
        let pending = register
            .post("/v1/partners/register", &samples::partner("Acme"))
            .await;
        let path = format!("/v1/partners/{}", pending.string("partnerId"));
        let operator = operated.caller();
        let end = format!("{path}/end");
        let begun = operator.post_nothing(&end).await.ok(200);
        operated.server.database().verify(0).await;
        let page = json!({"after": begun["next"]});
        let ended = operator.post(&end, &page).await.ok(200);
        ended.holds(json!({"erased": 0, "done": true}));
        let shown = operator.get(&path).await.ok(200);
        shown.holds(json!({"status": "suspended", "name": "erased", "contactEmail": "erased"}));
        for action in ["approve", "reinstate"] {
            let refused = operator.post_nothing(&format!("{path}/{action}")).await;
            refused.refused(409, "partner_ended");
        }
        let edited = operator.patch(&path, &json!({"name": "Acme"})).await;
        edited.refused(409, "partner_ended");
        operated.server.close().await.verify(0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_booking_recorded_while_a_contract_ends_is_erased_too() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let acme = operated.server.partner("Acme").await;
        let service = Arc::clone(operated.server.running().service());
        let session = Session {
            service: Arc::clone(&service),
            authority: Authority::Administrator {
                by: Operator::Here { user: None },
                partner_id: None,
            },
            address: None,
        };
        let request = Request {
            path: vec![acme.id.clone()],
            ..Request::default()
        };
        // It looked at the bookings, and another was recorded before its commands were.
        let prepared = block_in_place(|| EndContract::prepare(&session, &request));
        let Ok(Action::Write(end)) = prepared else {
            panic!("the end of a contract is written");
        };
        let organizer = json!({"organizer": {"id": "o", "name": "Ada"}});
        let booking = acme.book_with(organizer).await;
        for before in end.before {
            service.submit_patiently(before).await.unwrap();
        }
        let Ok(Written::Fresh(begun)) = service.submit_patiently(end.command).await else {
            panic!("the end of the contract begins");
        };
        drop((service, session));
        let mut page = serde_json::to_value(begun).unwrap();
        let path = format!("/v1/partners/{}/end", acme.id);
        while let Some(next) = page.get("next") {
            assert_eq!(page["done"], false);
            let next = json!({"after": next});
            page = operated.caller().post(&path, &next).await.ok(200);
        }
        page.holds(json!({"erased": 1, "done": true}));
        let path = format!("/v1/bookings/{booking}");
        let shown = operated.acting("GET", &path, &acme.id).await.ok(200);
        assert_eq!(shown["organizer"]["name"], "erased");
        operated.server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn a_contract_has_not_ended_while_an_earlier_page_passed_something_over() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let acme = operated.server.partner("Acme").await;
        let first = acme.book().await;
        let holds = format!("/v1/bookings/{first}/holds");
        let hold = acme.post(&holds, &json!({"reason": "Court"})).await.ok(201);
        // Ids of one moment are in no order.
        operated.server.advance(1);
        acme.book_many(limits::BOOKINGS_ENDED as usize, &json!({}))
            .await;
        let operator = operated.caller();
        let path = format!("/v1/partners/{}/end", acme.id);
        let begun = operator.post_nothing(&path).await.ok(200);
        begun.holds(json!({"erased": 0, "done": false}));
        let start = json!({"after": begun["next"]});
        let page = operator.post(&path, &start).await.ok(200);
        page.holds(json!({"erased": 49, "done": false}));
        assert_eq!(page["held"][0]["holdId"], hold["holdId"]);
        let release = format!("{holds}/{}", hold.text("holdId"));
        operated.acting("DELETE", &release, &acme.id).await.ok(200);
        // No hold is left, but its booking was not erased.
        let rest = json!({"after": page["next"]});
        let rest = operator.post(&path, &rest).await.ok(200);
        rest.holds(json!({"erased": 1, "held": [], "done": false}));
        assert_eq!(rest.get("next"), None);
        let again = operator.post_nothing(&path).await.ok(200);
        assert_eq!(again, begun, "it begins anew");
        let again = operator.post(&path, &start).await.ok(200);
        again.holds(json!({"erased": 1, "done": false}));
        let rest = json!({"after": again["next"]});
        let rest = operator.post(&path, &rest).await.ok(200);
        rest.holds(json!({"erased": 0, "done": true}));
        for after in [&*first, &format!("{first}."), &format!("{first}.01"), "x.0"] {
            let refused = operator.post(&path, &json!({"after": after})).await;
            refused.faulty(&[("/after", "cursor_invalid")]);
        }
        operated.server.close().await.verify(51).await;
    })
    .await;
}

/// A partner of which the first of two bookings is under a hold, and what its contract's end begins with.
struct Ending {
    operated: Operated,
    acme: Partner,
    held: String,
    path: String,
    start: Value,
}

impl Ending {
    async fn begin(engine: Engine) -> Self {
        let operated = Operated::open(engine).await;
        let acme = operated.server.partner("Acme").await;
        let held = acme.book().await;
        acme.book().await;
        let hold = json!({"reason": "Court", "reference": "C-1"});
        let holds = format!("/v1/bookings/{held}/holds");
        acme.post(&holds, &hold).await.ok(201);
        let path = format!("/v1/partners/{}/end", acme.id);
        let begun = operated.caller().post_nothing(&path).await.ok(200);
        let start = json!({"after": begun["next"]});
        Self {
            operated,
            acme,
            held,
            path,
            start,
        }
    }

    /// Looks at the whole page, under this Idempotency-Key.
    async fn page(&self, key: &str) -> Reply {
        let operator = self.operated.caller();
        operator.post_once(&self.path, key, &self.start).await
    }

    async fn release(&self, page: &Reply) {
        let page = page.json();
        let hold = page["held"][0].text("holdId");
        let path = format!("/v1/bookings/{}/holds/{hold}", self.held);
        let released = self.operated.acting("DELETE", &path, &self.acme.id);
        released.await.ok(200);
    }

    /// The name of the organizer of the booking that was held.
    async fn organizer(&self) -> String {
        let path = format!("/v1/bookings/{}", self.held);
        let shown = self.operated.acting("GET", &path, &self.acme.id).await;
        shown.ok(200)["organizer"].text("name").to_owned()
    }

    fn records(&self) -> usize {
        let records = "SELECT COUNT(*) FROM audit WHERE action = 'endContract'";
        self.operated.server.database().count(records)
    }
}

#[tokio::test]
async fn nothing_is_added_to_what_the_end_of_a_contract_examined() {
    on_every_engine(async |engine| {
        let ending = Ending::begin(engine).await;
        let Ending { operated, acme, .. } = &ending;
        let operator = operated.caller();
        let item = async || {
            let path = format!("/v1/bookings/{}/evidence/items", ending.held);
            let request = operator.request("POST", &path);
            let request = request.header("content-type", "application/json");
            let request = request.header("x-partner-id", &*acme.id);
            operator
                .send(request.body(samples::item().to_string()))
                .await
        };
        item().await.refused(409, "partner_ended");
        let account = format!("/v1/partners/{}", acme.id);
        let shown = operator.get(&account).await.ok(200);
        assert_eq!(shown["contractEndedAt"], shown["createdAt"]);
        let reinstate = format!("{account}/reinstate");
        let reinstated = operator.post_nothing(&reinstate).await.ok(200);
        assert_eq!(reinstated.get("contractEndedAt"), None);
        item().await.ok(201);
        let page = operator.post(&ending.path, &ending.start).await;
        page.faulty(&[("/after", "cursor_invalid")]);
        operator.post_nothing(&ending.path).await.ok(200);
        item().await.refused(409, "partner_ended");
        let page = operator.post(&ending.path, &ending.start).await.ok(200);
        page.holds(json!({"erased": 1, "done": false}));
        ending.operated.server.close().await.verify(2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_the_end_of_a_contract_that_is_repeated_erases_nothing_more() {
    on_every_engine(async |engine| {
        let ending = Ending::begin(engine).await;
        let page = ending.page("once").await;
        page.json().holds(json!({"erased": 1, "done": false}));
        ending.release(&page).await;
        ending.page("once").await.replays(&page);
        assert_ne!(ending.organizer().await, "erased");
        // Nor does another request under the same key.
        let other = json!({"after": ending.start["after"], "requestRef": "other"});
        let operator = ending.operated.caller();
        let other = operator.post_once(&ending.path, "once", &other).await;
        assert_eq!(other.code(), "idempotency_key_reused");
        assert_ne!(ending.organizer().await, "erased");
        let anew = ending.page("anew").await;
        anew.json().holds(json!({"erased": 1, "done": true}));
        assert_eq!(ending.organizer().await, "erased");
        ending.operated.server.close().await.verify(2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_takes_the_answer_that_named_the_hold() {
    on_every_engine(async |engine| {
        let ending = Ending::begin(engine).await;
        let page = ending.page("once").await;
        assert_eq!(page.json()["held"][0]["reference"], "C-1");
        ending.release(&page).await;
        ending.page("once").await.replays(&page);
        ending.page("anew").await.ok(200);
        let gone = ending.page("once").await;
        gone.refused(409, "answer_erased");
        ending.operated.server.close().await.verify(2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_that_erased_something_at_the_end_of_a_contract_leaves_one_record() {
    on_every_engine(async |engine| {
        let ending = Ending::begin(engine).await;
        assert_eq!(ending.records(), 1);
        // Nothing but a booking changes.
        let page = ending.page("once").await;
        assert_eq!(ending.records(), 2);
        ending.page("once").await.ok(200);
        ending.page("nothing-left").await.ok(200);
        assert_eq!(ending.records(), 2);
        // The last booking, and the partner's own record.
        ending.release(&page).await;
        ending
            .page("anew")
            .await
            .ok(200)
            .holds(json!({"erased": 1, "done": true}));
        assert_eq!(ending.records(), 3);
        let listed = "/v1/audit?action=endContract&limit=1";
        let listed = ending.operated.caller().get(listed).await.ok(200);
        listed["data"][0].holds(json!({"partnerId": ending.acme.id, "subject": {}}));
        listed["data"][0]["actor"].holds(json!({"kind": "operator_key", "name": "console"}));
        ending.operated.server.close().await.verify(2).await;
    })
    .await;
}
