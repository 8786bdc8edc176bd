//! How people of the operator sign in, and how long that lasts.

use bookguard_core::clock::Clock;
use bookguard_core::limits::{CONSOLE_LINK_MS, CONSOLE_SESSION_MS};
use bookguard_server::config::Config;
use bookguard_tests::caller::Caller;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::test_server::TestServer;
use serde_json::json;

use super::{Desk, LINKS, MINUTE, SESSIONS, opens_nothing, path_of, signed_in};
use crate::console::browser::Browser;
use crate::console::world::operator_places;

#[tokio::test]
async fn an_operator_key_signs_in_until_it_is_revoked() {
    on_every_engine(async |engine| {
        let (server, desk) = Desk::open(engine).await;
        let browser = &desk.browser;
        let nobody = Browser::at_operator(&desk.url);
        let sent = nobody.get("/partners?status=pending").await;
        sent.leads_to("/sign-in?to=%2Fpartners%3Fstatus%3Dpending");
        let typed = [
            ("operatorKey", desk.operator_key()),
            ("to", "/partners?status=pending"),
        ];
        let entered = nobody.post("/sign-in", &typed).await;
        entered.leads_to("/partners?status=pending");
        let cookie = entered.header("set-cookie");
        assert!(cookie.starts_with("bookguard-operator="), "{cookie}");
        assert!(
            cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"),
            "{cookie}"
        );
        assert!(!cookie.contains(desk.operator_key()));

        // Signing out ends it for every copy of the cookie, on every node.
        let copy = nobody.copy();
        let form = nobody.page("").await.form("/sign-out");
        nobody.submit(&form).await.leads_to("/sign-in");
        opens_nothing(&copy).await;

        let idle = browser.copy();
        server.advance(30 * MINUTE);
        idle.page("/people").await;
        server.advance(1);
        opens_nothing(browser).await;
        let begun = server.now_ms();
        let busy = signed_in(&desk.url, desk.operator_key()).await;
        while server.now_ms() + 20 * MINUTE < begun + CONSOLE_SESSION_MS {
            server.advance(20 * MINUTE);
            busy.page("/people").await;
        }
        server.set_clock(begun + CONSOLE_SESSION_MS - 1);
        busy.page("/people").await;
        server.advance(1);
        opens_nothing(&busy).await;

        // The command line revokes by the system's clock.
        server.set_clock(Clock::System.now().ms().max(server.now_ms()));
        let second = server.operator_key("second").await;
        let browser = signed_in(&desk.url, second.text("operatorKey")).await;
        browser.page("").await;
        let revoke = format!("operator-keys revoke {}", second.text("operatorKeyId"));
        let revoked = server.database().command(revoke.as_str()).json().await;
        opens_nothing(&browser).await;
        let people = desk.caller().rows(SESSIONS).await;
        let mut people = people.iter();
        let theirs = people.find(|session| session["operatorKeyId"] == second["operatorKeyId"]);
        assert_eq!(theirs.unwrap()["endedAt"], revoked["revokedAt"]);
    })
    .await;
}

#[tokio::test]
async fn a_link_signs_one_person_in_whom_the_audit_names() {
    on_every_engine(async |engine| {
        let (server, desk) = Desk::open(engine).await;
        let acme = server.partner("Acme").await;
        let operator = desk.caller();
        let made = operator.post(LINKS, &json!({"person": "Ada"})).await;
        let made = made.ok(201);
        made.holds(json!({"person": "Ada", "operatorKeyId": desk.key["operatorKeyId"]}));
        let begins = format!("{}/console/link/", desk.url);
        assert!(made.text("url").starts_with(&begins), "{made}");
        let path = path_of(&made);
        let ada = Browser::at_operator(&desk.url);
        let mut form = ada.page(&path).await.forms().remove(0);
        form.action.clone_from(&path);
        ada.submit(&form).await.leads_to("");
        Browser::at_operator(&desk.url).submit(&form).await.is(404);

        let account = format!("/partners/{}", acme.id);
        let suspend = format!("{account}/suspend");
        let sent = ada.fill(&suspend, "/suspend", &[]).await;
        sent.leads_to(&account);
        let suspended = desk.latest("suspendPartner").await;
        suspended.holds(json!({"partnerId": acme.id}));
        suspended["actor"].holds(json!({
            "kind": "operator_key", "name": "Ada", "keyId": desk.key["operatorKeyId"],
        }));
        assert!(ada.page("/audit").await.html.contains("Ada"));

        // Another one in the console, and one on the database itself.
        let shown = ada
            .fill("/people/new", "/people/new", &[("/person", "Bob")])
            .await;
        let address = shown.copied();
        let (_, bobs) = address.split_once("/console").unwrap();
        let bob = Browser::at_operator(&desk.url);
        bob.post(bobs, &[]).await.leads_to("");
        let database = server.database();
        let line = format!(
            "operator-links create --person Eve --operator-key-id {} --operator-url {}",
            desk.key.text("operatorKeyId"),
            desk.url
        );
        let off = database.command(line.as_str()).run().await;
        assert!(
            off.stderr.contains("operator_interface_off")
                || off.stderr.contains("operator interface"),
            "{off:?}"
        );
        let line = database.command(line.as_str());
        let eves = line
            .env("BOOKGUARD_OPERATOR_LISTEN", "127.0.0.1:1")
            .json()
            .await;
        let eve = Browser::at_operator(&desk.url);
        eve.post(&path_of(&eves), &[]).await.leads_to("");

        // Each is listed, and ended by anybody.
        let people = operator.rows(SESSIONS).await;
        assert_eq!(people.len(), 4, "{people:?}");
        let id_of = |person: &str| {
            let session = people.iter().find(|session| session["person"] == person);
            session.unwrap().text("consoleSessionId")
        };
        let end = format!("/people/{}/end", id_of("Bob"));
        eve.fill("/people", &end, &[]).await.leads_to("/people");
        opens_nothing(&bob).await;
        let end = format!("{SESSIONS}/{}", id_of("Eve"));
        operator.delete(&end).await.ok(200);
        operator.delete(&end).await.ok(200);
        opens_nothing(&eve).await;
        ada.page("").await;

        let late = operator.post(LINKS, &json!({"person": "Late"})).await;
        let late = late.ok(201);
        server.advance(CONSOLE_LINK_MS);
        let refused = Browser::at_operator(&desk.url)
            .post(&path_of(&late), &[])
            .await;
        let unknown = Browser::at_operator(&desk.url)
            .post("/link/unknown", &[])
            .await;
        assert_eq!((refused.status, &refused.html), (404, &unknown.html));
    })
    .await;
}

#[tokio::test]
async fn whoever_guesses_keys_or_links_waits() {
    on_every_engine(async |engine| {
        let (server, desk) = Desk::open(engine).await;
        let guesser = Browser::at_operator(&desk.url);
        for n in 0..30 {
            let wrong = match n % 2 {
                0 => {
                    guesser
                        .post("/sign-in", &[("operatorKey", "bgo_wrong")])
                        .await
                }
                _ => guesser.post("/link/wrong", &[]).await,
            };
            assert_eq!(wrong.status, if n % 2 == 0 { 401 } else { 404 }, "{n}");
        }
        let key = desk.operator_key();
        let sent = guesser.post("/sign-in", &[("operatorKey", key)]).await;
        sent.is(429);
        guesser.post("/link/wrong", &[]).await.is(429);
        // Whoever is signed in goes on, and the others may try again soon.
        desk.browser.page("").await;
        let refused = desk.caller().get("/v1/partners").await;
        refused.refused(429, "rate_limited");
        server.advance(2_000);
        let sent = guesser.post("/sign-in", &[("operatorKey", key)]).await;
        sent.leads_to("");
    })
    .await;
}

#[tokio::test]
async fn over_tls_the_cookie_is_kept_to_the_host_and_the_console_can_be_left_out() {
    on_every_engine(async |engine| {
        let (server, url) = TestServer::operated(engine, |config| Config {
            operator_url: Some("https://operator.example.com/base".to_owned()),
            ..config
        })
        .await;
        let key = server.operator_key("desk").await;
        let typed = [("operatorKey", key.text("operatorKey"))];
        let entered = Browser::at_operator(&url).post("/sign-in", &typed).await;
        assert_eq!(entered.location(), "/base/console");
        let cookie = entered.header("set-cookie");
        assert!(cookie.starts_with("__Host-bookguard-operator="), "{cookie}");
        assert!(
            cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"),
            "{cookie}"
        );
        let caller = Caller::of_operator(&url).with_key(key.text("operatorKey"));
        let made = caller.post(LINKS, &json!({"person": "Ada"})).await.ok(201);
        assert!(
            made.text("url")
                .starts_with("https://operator.example.com/base/console/link/")
        );

        let (_without, url) = TestServer::operated(engine, |config| Config {
            console: false,
            ..config
        })
        .await;
        let nobody = Browser::at_operator(&url);
        let partner = format!("ptn_{}", "0".repeat(32));
        let places = operator_places().into_iter();
        let places = places.map(|(path, ..)| path.replace(":partnerId", &partner));
        for address in places.chain(["/sign-in", "/sign-out", "/link/token"].map(str::to_owned)) {
            nobody.get(&address).await.is(404);
            nobody.post(&address, &[]).await.is(404);
        }
        // Partners' listener has none of it.
        let partners = Browser::new(&server);
        for path in ["/partners", "/system", "/people"] {
            partners.get(path).await.is(404);
        }
    })
    .await;
}
