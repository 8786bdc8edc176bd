//! Signing in and out, and how long it lasts.

use bookguard_core::limits::{CONSOLE_LINK_MS, CONSOLE_SESSION_MS, CONSOLE_SESSIONS_OF_KEY};
use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::raw::Raw;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};

use super::browser::{Browser, Seen, encoded};
use super::pages::is_sound;

const MINUTE: i64 = 60_000;

/// Asserts that nobody is signed in with the browser's cookie, neither to look nor to change.
async fn opens_nothing(browser: &Browser) {
    let copy = browser.copy();
    let led = copy.get("/keys").await;
    led.leads_to("/sign-in?to=%2Fkeys&after=end");
    let sent = browser.copy().post("/keys/new", &[("/name", "x")]).await;
    sent.is(401);
}

/// The path of a new link for Ada.
async fn link(partner: &Partner, more: Value) -> String {
    let mut body = json!({"person": "Ada"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let made = partner.post("/v1/console-links", &body).await.ok(201);
    let (_, path) = made.text("url").split_once("/console/").unwrap();
    format!("/{path}")
}

fn attributes(seen: &Seen) -> Vec<&str> {
    seen.header("set-cookie").split("; ").skip(1).collect()
}

#[tokio::test]
async fn a_key_signs_in_and_leads_to_the_page_that_was_asked_for() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::new(&server);
        let asked = browser.get("/bookings?search=a%26b&status=created").await;
        let to = "/sign-in?to=%2Fbookings%3Fsearch%3Da%2526b%26status%3Dcreated";
        asked.leads_to(to);
        let form = browser.page(to).await.form("/sign-in");
        assert_eq!(form.value("to"), "/bookings?search=a%26b&status=created");
        // An address brings nobody a key.
        let brought = browser.page(&format!("{to}&apiKey=bgk_other")).await;
        assert_eq!(brought.form("/sign-in").fields, form.fields);

        for wrong in ["", "bgk_wrong", &format!("{}x", acme.key), "ü\r\nx: y"] {
            let refused = browser.submit(&form.with(&[("apiKey", wrong)])).await;
            refused.is(401);
            assert!(
                wrong.is_empty() || !refused.html.contains(wrong),
                "{}",
                refused.html
            );
            assert_eq!(refused.header("set-cookie"), "");
            assert_eq!(refused.form("/sign-in").value("to"), form.value("to"));
            let key = refused.field("apiKey");
            assert_eq!(
                (key.get("aria-invalid"), key.get("value")),
                (Some("true"), Some(""))
            );
        }
        let entered = browser.submit(&form.with(&[("apiKey", &acme.key)])).await;
        entered.leads_to("/bookings?search=a%26b&status=created");
        assert_eq!(attributes(&entered), ["Path=/", "HttpOnly", "SameSite=Lax"]);
        assert!(entered.header("set-cookie").starts_with("bookguard="));
        assert!(!entered.header("set-cookie").contains(&acme.key));
        browser.page("/bookings").await;

        // Signing in again ends the session that the browser had.
        let former = browser.copy();
        browser.submit(&form.with(&[("apiKey", "")])).await.is(401);
        former.page("/keys").await;
        browser.submit(&form.with(&[("apiKey", &acme.key)])).await;
        opens_nothing(&former).await;
        browser.page("/keys").await;

        for elsewhere in [
            "https://evil.example/",
            "//evil.example/..",
            "\\\\evil.example",
            "@evil.example",
            ".evil.example",
            "/../v1/bookings",
            "/bookings/%2e%2E/../..//share",
            "/..",
            "?a=b/../c",
        ] {
            let typed = [("apiKey", acme.key.as_str()), ("to", elsewhere)];
            let entered = Browser::new(&server).post("/sign-in", &typed).await;
            entered.is(303);
            let own = format!("{}/console", server.running().url());
            let address = reqwest::Url::parse(&own).unwrap();
            let address = address.join(entered.location()).unwrap();
            let inside = address.as_str().strip_prefix(&own).unwrap_or("elsewhere");
            assert!(
                inside.is_empty() || inside.starts_with(['/', '?']),
                "{elsewhere} leads to {address}"
            );
        }
        // An ended session ends the browser's cookie, and somebody who is signed in by a proxy's header is nobody.
        let key = server
            .caller()
            .request("GET", "/console")
            .header("x-api-key", &acme.key);
        Browser::new(&server).send(key).await.leads_to("/sign-in");
    })
    .await;
}

#[tokio::test]
async fn over_tls_the_cookie_is_kept_to_this_host() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| bookguard_server::config::Config {
            public_url: Some("https://bookings.example.com".to_owned()),
            ..config
        })
        .await;
        let acme = server.partner("Acme").await;
        let entered = Browser::new(&server)
            .post("/sign-in", &[("apiKey", &acme.key)])
            .await;
        assert!(
            entered
                .header("set-cookie")
                .starts_with("__Host-bookguard=")
        );
        assert_eq!(
            attributes(&entered),
            ["Path=/", "HttpOnly", "SameSite=Lax", "Secure"]
        );
    })
    .await;
}

#[tokio::test]
async fn signing_out_ends_the_session_for_every_copy_of_its_cookie() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let copy = browser.copy();
        let form = browser.page("").await.form("/sign-out");
        let body = encoded([("/name", "late")]);
        let head = format!(
            "POST /console/keys/new HTTP/1.1\r\ncookie: {}\r\nsec-fetch-site: same-origin\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}",
            browser.cookie().unwrap(),
            body.len()
        );
        let mut late = Raw::with_head(server.running().addr(), &head).await;
        let left = browser.submit(&form).await;
        left.leads_to("/sign-in");
        late.send(body).await;
        assert_eq!(late.reply(false).await.status, 401);
        assert!(attributes(&left).contains(&"Max-Age=0"));
        assert_eq!(browser.cookie(), None);
        opens_nothing(&copy).await;
        // Whoever is signed out already is sent to the same page.
        copy.submit(&form).await.leads_to("/sign-in");
        browser.submit(&form).await.leads_to("/sign-in");
    })
    .await;
}

#[tokio::test]
async fn somebody_whose_partner_has_asked_too_much_can_sign_out() {
    let server = TestServer::with(Engine::Sqlite, |config| Config {
        rate_limit_per_second: 1,
        rate_limit_burst: 10,
        ..config
    });
    let server = server.await;
    let acme = server.partner("Acme").await;
    let browser = Browser::signed_in(&server, &acme.key).await;
    let copy = browser.copy();
    let form = browser.page("").await.form("/sign-out");
    for _ in 0..10 {
        browser.get("").await;
    }
    browser.get("").await.is(429);
    let refused = browser.post("/keys/new", &[("/name", "till")]).await;
    assert!(
        refused.is(429).html.contains("Reload this page after that"),
        "{}",
        refused.html
    );
    browser.submit(&form).await.leads_to("/sign-in");
    server.advance(10_000);
    opens_nothing(&copy).await;
}

#[tokio::test]
async fn links_are_opened_where_nobody_else_may_register() {
    let server = TestServer::with(Engine::Sqlite, |config| Config {
        registrations_per_minute: 1,
        ..config
    });
    let server = server.await;
    let acme = server.partner("Acme").await;
    for _ in 0..2 {
        let path = link(&acme, json!({})).await;
        Browser::new(&server).post(&path, &[]).await.leads_to("");
    }
}

#[tokio::test]
async fn a_form_that_was_sent_too_late_is_sent_again_by_loading_its_answer_again() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let form = browser.page("/keys/new").await.form("/keys/new");
        let form = form.with(&[("/name", "till")]);
        server.advance(30 * MINUTE + 1);
        let refused = browser.submit(&form).await;
        is_sound(refused.is(401));
        refused.says(&["reload this page: your browser sends the form again"]);
        // In another tab.
        browser
            .post("/sign-in", &[("apiKey", &acme.key)])
            .await
            .leads_to("");
        browser.submit(&form).await.copied();
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_with_idleness_time_and_its_key() {
    with_partner_on_every_engine(async |server, acme| {
        let idle = Browser::signed_in(&server, &acme.key).await;
        let busy = Browser::signed_in(&server, &acme.key).await;
        server.advance(30 * MINUTE);
        idle.copy().page("/keys").await;
        busy.page("/keys").await;
        server.advance(1);
        opens_nothing(&idle).await;
        let told = Browser::new(&server);
        let told = told.page("/sign-in?to=%2Fkeys&after=end").await;
        is_sound(&told);
        told.says(&["Your session has ended."]);
        let unknown = Browser::new(&server).page("/sign-in?after=x").await;
        unknown.lacks(&["role=\"status\""]);
        // It takes no place any more.
        let sessions = acme.rows("/v1/console-sessions").await;
        let ended: Vec<bool> = (sessions.iter())
            .map(|session| !session["endedAt"].is_null())
            .collect();
        assert!(
            ended.contains(&true) && ended.contains(&false),
            "{sessions:?}"
        );
        let begun = server.now_ms() - 30 * MINUTE - 1;
        while server.now_ms() + 20 * MINUTE < begun + CONSOLE_SESSION_MS {
            busy.page("").await;
            server.advance(20 * MINUTE);
        }
        server.set_clock(begun + CONSOLE_SESSION_MS - 1);
        busy.page("").await;
        server.advance(1);
        opens_nothing(&busy).await;

        let made = acme.new_key(&json!({"name": "second"})).await;
        let browser = Browser::signed_in(&server, made.text("apiKey")).await;
        browser.page("").await;
        let path = format!("/v1/api-keys/{}", made.text("apiKeyId"));
        acme.delete(&path).await.ok(200);
        opens_nothing(&browser).await;
        let typed = [("apiKey", made.text("apiKey"))];
        let refused = Browser::new(&server).post("/sign-in", &typed).await;
        refused.is(401);
    })
    .await;
}

/// On one engine, because the other has the same rules and is much slower at so many small writes.
#[tokio::test]
async fn whoever_another_sign_in_displaces_is_signed_out_at_once() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let oldest = Browser::signed_in(&server, &acme.key).await;
    server.advance(1);
    for _ in 1..CONSOLE_SESSIONS_OF_KEY {
        Browser::signed_in(&server, &acme.key).await;
    }
    oldest.page("/keys").await;
    let newest = Browser::signed_in(&server, &acme.key).await;
    opens_nothing(&oldest).await;
    newest.page("/keys").await;
}

#[tokio::test]
async fn a_link_signs_one_person_in_whose_name_the_audit_has() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let path = link(
            &acme,
            json!({"scopes": ["bookings:read", "bookings:write"]}),
        )
        .await;
        let browser = Browser::new(&server);
        for _ in 0..3 {
            browser.page(&path).await;
        }
        let mut form = browser.page(&path).await.forms().remove(0);
        form.action.clone_from(&path);
        let foreign = browser
            .form(&path, "")
            .header("sec-fetch-site", "cross-site");
        browser.send(foreign).await.is(403);
        browser.submit(&form).await.leads_to("");
        let second = Browser::new(&server);
        let used_up = second.submit(&form).await;
        is_sound(used_up.is(404));
        used_up.says(&["<h1>This link does not work</h1>", "Go to sign-in"]);
        assert_eq!(second.cookie(), None);

        let protect = format!("/bookings/{booking}/protect");
        browser.fill(&protect, &protect, &[]).await.is(303);
        let latest = &acme.rows("/v1/audit?limit=100").await[0];
        assert_eq!(latest["action"], "protectBooking");
        latest["actor"].holds(json!({"name": "Ada", "keyId": acme.key_id}));
        // The session may do less than its key.
        let refused = browser.get("/keys").await;
        refused.is(403);
        refused.says(&["which your link does not give you. Ask whoever sent you the link"]);
        let sent = browser.post("/people/new", &[("/person", "Bob")]).await;
        sent.is(403);

        let late = link(&acme, json!({})).await;
        server.advance(CONSOLE_LINK_MS);
        let third = Browser::new(&server);
        let refused = third.post(&late, &[]).await;
        let unknown = third.post("/link/unknown", &[]).await;
        assert_eq!((refused.status, &refused.html), (404, &unknown.html));
        assert_eq!(third.cookie(), None);
    })
    .await;
}

#[tokio::test]
async fn the_interface_reads_no_cookie_and_the_console_can_be_left_out() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book().await;
        let browser = Browser::signed_in(&server, &acme.key).await;
        for (method, path) in [
            ("GET", "/v1/bookings".to_owned()),
            ("GET", format!("/v1/bookings/{booking}/evidence")),
            ("POST", format!("/v1/bookings/{booking}/protect")),
            ("DELETE", format!("/v1/api-keys/{}", acme.key_id)),
            ("GET", "/v1/partners/me".to_owned()),
        ] {
            let request = server.caller().request(method, &path);
            let request = request.header("sec-fetch-site", "same-origin");
            let cookie = browser.cookie().unwrap();
            let reply = server.caller().send(request.header("cookie", cookie)).await;
            assert_eq!(reply.status, 401, "{path}");
        }
        assert_eq!(acme.booking(&booking).await["status"], "created");

        let without = TestServer::with(engine, |config| bookguard_server::config::Config {
            console: false,
            ..config
        })
        .await;
        let style = browser.page("").await;
        let style = style
            .tags()
            .into_iter()
            .find(|tag| tag.get("rel") == Some("stylesheet"));
        let style = style.unwrap().get("href").unwrap().to_owned();
        let addresses = super::world::places()
            .into_iter()
            .map(|(path, ..)| path.to_owned());
        let others = ["/sign-in", "/sign-out", "/link/token", &style].map(str::to_owned);
        let nobody = Browser::new(&without);
        for address in addresses.chain(others) {
            nobody.get(&address).await.is(404);
            nobody.post(&address, &[]).await.is(404);
        }
    })
    .await;
}
