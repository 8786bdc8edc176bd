//! The operator's console over HTTP, as a browser uses it, and that neither console opens the other.

use std::collections::BTreeSet;

use bookguard_core::limits::{CONSOLE_LINK_MS, CONSOLE_SESSION_MS};
use bookguard_core::service::RegistrationMode;
use bookguard_server::config::Config;
use bookguard_tests::caller::Caller;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

use super::browser::Browser;
use super::pages::{is_sound, walk};
use super::world::{World, operator_places};

const MINUTE: i64 = 60_000;
const LINKS: &str = "/v1/operator/console-links";
const SESSIONS: &str = "/v1/operator/console-sessions";

/// Two partners on a server with an operator interface, and somebody who is signed in there with its key.
struct Operated {
    world: World,
    url: String,
    key: Value,
    browser: Browser,
}

impl Operated {
    async fn open(engine: Engine) -> Self {
        Self::with(engine, |config| config).await
    }

    async fn with(engine: Engine, adjust: impl FnOnce(Config) -> Config) -> Self {
        let server = TestServer::with(engine, |config| {
            adjust(Config {
                operator_listen: Some("127.0.0.1:0".to_owned()),
                ..config
            })
        });
        let world = World::on(server.await).await;
        let url = world.server.running().operator_url().unwrap();
        let key = operator_key(&world.server, "desk").await;
        let browser = signed_in(&url, key.text("operatorKey")).await;
        Self {
            world,
            url,
            key,
            browser,
        }
    }

    fn caller(&self) -> Caller {
        Caller::of_operator(&self.url).with_key(self.key.text("operatorKey"))
    }

    /// The newest record of this action in the audit.
    async fn latest(&self, action: &str) -> Value {
        let list = format!("/v1/audit?action={action}");
        self.caller().rows(&list).await.remove(0)
    }

    /// The addresses of all pages, about both partners.
    fn entries(&self) -> Vec<String> {
        let owners = [&self.world.acme, &self.world.other];
        let pages = operator_places()
            .into_iter()
            .filter(|(_, has_page, _)| *has_page);
        let mut all: Vec<_> = pages
            .flat_map(|(pattern, ..)| {
                owners.map(|owner| format!("/console{}", owner.address(pattern)))
            })
            .collect();
        all.extend([
            "/console/sign-in".to_owned(),
            "/console/deliveries?status=failed".to_owned(),
            "/console/partners?search=nobody&status=suspended".to_owned(),
            format!(
                "/console{}?%2FcanceledBy=organizer&%2Freason=changed_plans",
                self.world
                    .acme
                    .address("/partners/:partnerId/bookings/:bookingId/cancel")
            ),
        ]);
        all.sort();
        all.dedup();
        all
    }

    /// A path below the account of the first partner.
    fn acme(&self, path: &str) -> String {
        format!("/partners/{}{path}", self.world.acme.partner.id)
    }
}

async fn operator_key(server: &TestServer, name: &str) -> Value {
    let made = server
        .database()
        .command(format!("operator-keys create --name {name}").as_str());
    made.run().await.json()
}

async fn signed_in(url: &str, key: &str) -> Browser {
    let browser = Browser::at_operator(url);
    browser
        .post("/sign-in", &[("operatorKey", key)])
        .await
        .leads_to("");
    browser
}

/// The path below `/console` of a link.
fn path_of(link: &Value) -> String {
    let (_, path) = link.text("url").split_once("/console/").unwrap();
    format!("/{path}")
}

/// Asserts that nobody is signed in with the browser's cookie, neither to look nor to change.
async fn opens_nothing(browser: &Browser) {
    let copy = browser.copy();
    copy.get("/people").await.leads_to("/sign-in?to=%2Fpeople");
    let sent = browser
        .copy()
        .post("/people/new", &[("/person", "x")])
        .await;
    sent.is(401);
}

#[tokio::test]
async fn an_operator_key_signs_in_until_it_is_revoked() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let (server, browser) = (&operated.world.server, &operated.browser);
        let nobody = Browser::at_operator(&operated.url);
        nobody
            .get("/partners?status=pending")
            .await
            .leads_to("/sign-in?to=%2Fpartners%3Fstatus%3Dpending");
        let typed = [
            ("operatorKey", operated.key.text("operatorKey")),
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
        assert!(!cookie.contains(operated.key.text("operatorKey")));

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
        let busy = signed_in(&operated.url, operated.key.text("operatorKey")).await;
        while server.now_ms() + 20 * MINUTE < begun + CONSOLE_SESSION_MS {
            server.advance(20 * MINUTE);
            busy.page("/people").await;
        }
        server.set_clock(begun + CONSOLE_SESSION_MS - 1);
        busy.page("/people").await;
        server.advance(1);
        opens_nothing(&busy).await;

        let second = operator_key(server, "second").await;
        let browser = signed_in(&operated.url, second.text("operatorKey")).await;
        browser.page("").await;
        let revoke = format!("operator-keys revoke {}", second.text("operatorKeyId"));
        server
            .database()
            .command(revoke.as_str())
            .run()
            .await
            .json();
        opens_nothing(&browser).await;
    })
    .await;
}

#[tokio::test]
async fn a_link_signs_one_person_in_whom_the_audit_names() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let operator = operated.caller();
        let made = operator.post(LINKS, &json!({"person": "Ada"})).await;
        let made = made.ok(201);
        made.holds(json!({"person": "Ada", "operatorKeyId": operated.key["operatorKeyId"]}));
        let begins = format!("{}/console/link/", operated.url);
        assert!(made.text("url").starts_with(&begins), "{made}");
        let path = path_of(&made);
        let ada = Browser::at_operator(&operated.url);
        let mut form = ada.page(&path).await.forms().remove(0);
        form.action.clone_from(&path);
        ada.submit(&form).await.leads_to("");
        Browser::at_operator(&operated.url)
            .submit(&form)
            .await
            .is(404);

        let suspend = operated.acme("/suspend");
        ada.fill(&suspend, "/suspend", &[])
            .await
            .leads_to(&operated.acme(""));
        let suspended = operated.latest("suspendPartner").await;
        suspended.holds(json!({"partnerId": operated.world.acme.partner.id}));
        suspended["actor"].holds(json!({
            "kind": "operator_key", "name": "Ada", "keyId": operated.key["operatorKeyId"],
        }));
        assert!(ada.page("/audit").await.html.contains("Ada"));

        // Another one in the console, and one on the database itself.
        let shown = ada
            .fill("/people/new", "/people/new", &[("/person", "Bob")])
            .await;
        let address = shown.copied();
        let (_, bobs) = address.split_once("/console").unwrap();
        let bob = Browser::at_operator(&operated.url);
        bob.post(bobs, &[]).await.leads_to("");
        let database = operated.world.server.database();
        let line = format!(
            "operator-links create --person Eve --operator-key-id {} --operator-url {}",
            operated.key.text("operatorKeyId"),
            operated.url
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
            .run()
            .await
            .json();
        let eve = Browser::at_operator(&operated.url);
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

        let late = operator
            .post(LINKS, &json!({"person": "Late"}))
            .await
            .ok(201);
        operated.world.server.advance(CONSOLE_LINK_MS);
        let refused = Browser::at_operator(&operated.url)
            .post(&path_of(&late), &[])
            .await;
        let unknown = Browser::at_operator(&operated.url)
            .post("/link/unknown", &[])
            .await;
        assert_eq!((refused.status, &refused.html), (404, &unknown.html));
    })
    .await;
}

#[tokio::test]
async fn whoever_guesses_keys_or_links_waits() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let guesser = Browser::at_operator(&operated.url);
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
        let key = operated.key.text("operatorKey");
        guesser
            .post("/sign-in", &[("operatorKey", key)])
            .await
            .is(429);
        guesser.post("/link/wrong", &[]).await.is(429);
        // Whoever is signed in goes on, and the others may try again soon.
        operated.browser.page("").await;
        operated
            .caller()
            .get("/v1/partners")
            .await
            .refused(429, "rate_limited");
        operated.world.server.advance(2_000);
        guesser
            .post("/sign-in", &[("operatorKey", key)])
            .await
            .leads_to("");
    })
    .await;
}

#[tokio::test]
async fn neither_console_opens_the_other() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let (world, operators) = (&operated.world, &operated.browser);
        let partners = &world.browser;
        // Each other's cookies, under either name.
        for name in ["bookguard", "bookguard-operator"] {
            for (browser, to) in [(partners, operators), (operators, partners)] {
                let moved = browser.moved(to, name);
                let seen = moved.get("/audit").await;
                seen.leads_to("/sign-in?to=%2Faudit");
            }
        }
        // Each other's keys and links.
        let (partner_key, operator_key) =
            (&world.acme.partner.key, operated.key.text("operatorKey"));
        let stranger = Browser::at_operator(&operated.url);
        stranger
            .post("/sign-in", &[("operatorKey", partner_key)])
            .await
            .is(401);
        Browser::new(&world.server)
            .post("/sign-in", &[("apiKey", operator_key)])
            .await
            .is(401);
        let made = world
            .acme
            .partner
            .post("/v1/console-links", &json!({"person": "Ada"}))
            .await;
        let partner_link = made.ok(201);
        stranger.post(&path_of(&partner_link), &[]).await.is(404);
        let made = operated
            .caller()
            .post(LINKS, &json!({"person": "Ada"}))
            .await;
        let operator_link = made.ok(201);
        let nobody = Browser::new(&world.server);
        nobody.post(&path_of(&operator_link), &[]).await.is(404);
        nobody.post(&path_of(&partner_link), &[]).await.leads_to("");
        stranger
            .post(&path_of(&operator_link), &[])
            .await
            .leads_to("");

        // A partner neither sees nor ends the operator's sessions; not even the operator does in its name.
        let theirs = operated.caller().rows(SESSIONS).await;
        let listed = world
            .acme
            .partner
            .rows("/v1/console-sessions?limit=100")
            .await;
        let all = operated
            .caller()
            .request("GET", "/v1/console-sessions?limit=100");
        let all = all.header("x-partner-id", &world.acme.partner.id);
        let all = operated.caller().send(all).await.ok(200);
        for session in &theirs {
            let id = session.text("consoleSessionId");
            assert!(listed.iter().all(|own| own.text("consoleSessionId") != id));
            assert!(!all.to_string().contains(id));
            let path = format!("/v1/console-sessions/{id}");
            world
                .acme
                .partner
                .delete(&path)
                .await
                .refused(404, "not_found");
            operated
                .caller()
                .delete(&path)
                .await
                .refused(404, "not_found");
        }
        let path = format!("{SESSIONS}/{}", world.acme.person);
        operated
            .caller()
            .delete(&path)
            .await
            .refused(404, "not_found");
        world
            .acme
            .partner
            .get(SESSIONS)
            .await
            .refused(404, "path_not_found");
        operators.page("").await;

        // The operator's interface reads no cookie, and its console no key in a header.
        let request = Caller::new(&operated.url).request("GET", "/v1/partners");
        let request = request.header("cookie", operators.cookie().unwrap());
        assert_eq!(operated.caller().send(request).await.status, 401);
        let request = Browser::at_operator(&operated.url).request("GET", "/people");
        let request = request.header("x-operator-key", operator_key);
        Browser::at_operator(&operated.url)
            .send(request)
            .await
            .leads_to("/sign-in?to=%2Fpeople");

        let database = operated.world.server.close().await;
        database.command("ledger verify").run().await.json();
    })
    .await;
}

#[tokio::test]
async fn every_page_is_sound_leads_to_others_and_changes_nothing() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let before = operated.world.state().await;
        let first = vec!["/console".to_owned()];
        let (seen, _) = walk(&operated.browser, &first).await;
        let reached: BTreeSet<_> = seen
            .iter()
            .filter_map(|address| super::world::place_of(operator_places(), address))
            .collect();
        let pages = operator_places().into_iter();
        let unreached: Vec<_> = pages
            .filter(|(path, has_page, _)| *has_page && !reached.contains(path))
            .collect();
        assert_eq!(unreached, [], "links lead to every page");
        walk(&operated.browser, &operated.entries()).await;
        assert_eq!(operated.world.state().await, before);
    })
    .await;
}

#[tokio::test]
async fn a_form_of_another_site_or_of_nobody_does_nothing() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        // Somebody to end, and somebody to let in.
        operated
            .caller()
            .post(LINKS, &json!({"person": "Ada"}))
            .await
            .ok(201);
        let (_, mut forms) = walk(&operated.browser, &operated.entries()).await;
        let sign_out = forms.remove("/sign-out").unwrap();
        forms.remove("/sign-in");
        let found: BTreeSet<_> = forms.keys().copied().collect();
        // What a partner's status does not allow now has no form.
        let hidden = ["/approve", "/reinstate"].map(|path| format!("/partners/:partnerId{path}"));
        let listed = operator_places()
            .into_iter()
            .filter(|(path, _, has_form)| *has_form && !hidden.iter().any(|hidden| hidden == path));
        assert_eq!(found, listed.map(|(path, ..)| path).collect());
        let before = operated.world.state().await;
        let nobody = Browser::at_operator(&operated.url);
        for (place, form) in &forms {
            for site in [
                Some("cross-site"),
                Some("same-site"),
                Some("same-origin, none"),
                None,
            ] {
                let own = operated.world.server.running().url();
                // The partners' console is another origin.
                for origin in [
                    Some("https://evil.example"),
                    Some(&*own),
                    Some("null"),
                    None,
                ] {
                    let request = operated.browser.request("POST", &form.action);
                    let mut request = request
                        .header("content-type", "application/x-www-form-urlencoded")
                        .body(form.body());
                    for (name, value) in [("sec-fetch-site", site), ("origin", origin)] {
                        if let Some(value) = value {
                            request = request.header(name, value);
                        }
                    }
                    let sent = operated.browser.send(request).await;
                    assert_eq!(sent.status, 403, "{place} from {site:?} {origin:?}");
                    is_sound(&sent);
                }
            }
            assert_eq!(
                nobody.submit(form).await.status,
                401,
                "{place} without a cookie"
            );
        }
        assert_eq!(operated.world.state().await, before);
        let request = operated.browser.request("POST", &sign_out.action);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.header("origin", operated.browser.base());
        operated.browser.send(request).await.leads_to("/sign-in");
    })
    .await;
}

#[tokio::test]
async fn what_is_not_the_partners_is_not_below_it() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let (acme, other) = (&operated.world.acme, &operated.world.other);
        let before = operated.world.state().await;
        let unknown = format!("{}0000", &acme.partner.id[..acme.partner.id.len() - 4]);
        let form = "%2Fname=x&%2Fnote=&%2FexpiresIn=P1D&%2FcanceledBy=talent&%2Freason=other&%2FoverlapSeconds=0";
        let below = operator_places().into_iter().filter(|(path, ..)| path.contains(":partnerId"));
        for (pattern, has_page, has_form) in below {
            let methods = ["GET", "POST"].into_iter().zip([has_page, has_form]);
            for (method, _) in methods.filter(|(_, has)| *has) {
                let ask = async |address: String| {
                    let request = match method {
                        "GET" => operated.browser.request("GET", &address),
                        _ => operated.browser.form(&address, form),
                    };
                    operated.browser.send(request).await.status
                };
                let whole = acme.address(pattern);
                for partner in [&*unknown, "x", "ptn_"] {
                    let address = whole.replacen(&acme.partner.id, partner, 1);
                    assert_eq!(ask(address.clone()).await, 404, "{method} {address}");
                }
                // Another partner's ids below this partner.
                let (_, path) = pattern.split_once(":partnerId").unwrap();
                if !path.contains(':') {
                    continue;
                }
                let foreign = format!("/partners/{}{}", acme.partner.id, other.address(path));
                let status = ask(foreign).await;
                let may_be_there = method == "GET" && path.starts_with("/keys");
                assert!(status == 404 || may_be_there, "{method} {pattern}: {status}");
            }
        }
        assert_eq!(operated.world.state().await, before);
    })
    .await;
}

#[tokio::test]
async fn the_operator_lets_partners_in_and_keeps_them_out() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let browser = &operated.browser;
        let acme = &operated.world.acme.partner;
        // Suspended, it only reads; its people are told.
        browser
            .fill(&operated.acme("/suspend"), "/suspend", &[])
            .await
            .leads_to(&operated.acme(""));
        let page = browser.page(&operated.acme("")).await;
        assert!(
            page.html.contains("The partner is suspended."),
            "{}",
            page.html
        );
        let protect = format!("/v1/bookings/{}/protect", operated.world.acme.booking);
        acme.post_nothing(&protect)
            .await
            .refused(403, "partner_suspended");
        assert!(browser.page("").await.html.contains("Suspended"));
        // The operator still acts for it.
        let booking = operated.acme(&format!("/bookings/{}", operated.world.acme.booking));
        browser
            .fill(&booking, "/protect", &[])
            .await
            .leads_to(&booking);
        let found = operated.latest("protectBooking").await;
        found.holds(json!({"partnerId": acme.id}));
        found["actor"].holds(json!({"kind": "operator_key", "name": "desk"}));
        browser
            .fill(&operated.acme(""), "/reinstate", &[])
            .await
            .leads_to(&operated.acme(""));
        acme.get("/v1/bookings").await.ok(200);
        browser.post(&operated.acme("/approve"), &[]).await.is(409);

        // Its record and its quota.
        let typed = [
            ("/name", "Acme & Sons"),
            ("/contactEmail", "x"),
            ("/website", ""),
        ];
        let refused = browser.fill(&operated.acme("/edit"), "/edit", &typed).await;
        refused.is(400);
        assert_eq!(refused.field("/name").get("value"), Some("Acme & Sons"));
        assert_eq!(
            refused.field("/contactEmail").get("aria-invalid"),
            Some("true")
        );
        let typed = [
            ("/name", "Acme & Sons"),
            ("/contactEmail", "desk@acme.example"),
            ("/website", ""),
        ];
        browser
            .fill(&operated.acme("/edit"), "/edit", &typed)
            .await
            .leads_to(&operated.acme(""));
        let account = operated
            .caller()
            .get(&format!("/v1/partners/{}", acme.id))
            .await
            .ok(200);
        account.holds(json!({"name": "Acme & Sons", "contactEmail": "desk@acme.example"}));
        let before = account["quota"].clone();
        browser
            .post(&operated.acme("/quota"), &[("/bookings", "12")])
            .await
            .leads_to(&operated.acme(""));
        let wrong = browser
            .post(&operated.acme("/quota"), &[("/endpoints", "21")])
            .await;
        wrong.is(400);
        assert_eq!(wrong.field("/endpoints").get("value"), Some("21"));
        let quota = |account: Value| account["quota"].clone();
        let path = format!("/v1/partners/{}", acme.id);
        let mut expected = before.clone();
        expected["bookings"]["limit"] = json!(12);
        assert_eq!(quota(operated.caller().get(&path).await.ok(200)), expected);
        browser
            .post(&operated.acme("/quota"), &[("/bookings", "")])
            .await
            .is(303);
        assert_eq!(quota(operated.caller().get(&path).await.ok(200)), before);

        // An event that failed is found in all deliveries, and sent again from there.
        let failed = browser.page("/deliveries?status=failed").await;
        let event = operated.acme(&format!("/deliveries/{}", operated.world.acme.event));
        assert!(failed.html.contains(&event), "{}", failed.html);
        browser.fill(&event, "/retry", &[]).await.leads_to(&event);

        // Whoever is invited in a partner's name uses a key of the partner's.
        let invite = operated.acme("/people/new");
        browser.post(&invite, &[("/person", "Ada")]).await.is(400);
        let shown = browser
            .fill(
                &invite,
                "/people/new",
                &[("/person", "Ada"), ("/apiKeyId", &acme.key_id)],
            )
            .await;
        let address = shown.copied();
        let ada = Browser::new(&operated.world.server);
        let (_, path) = address.split_once("/console").unwrap();
        ada.post(path, &[]).await.leads_to("");
        ada.page("/bookings").await;
    })
    .await;
}

#[tokio::test]
async fn a_partner_that_waits_is_approved_and_gets_its_credentials_once() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            operator_listen: Some("127.0.0.1:0".to_owned()),
            registration: RegistrationMode::Approval,
            ..config
        })
        .await;
        let url = server.running().operator_url().unwrap();
        let key = operator_key(&server, "desk").await;
        let browser = signed_in(&url, key.text("operatorKey")).await;
        let pending = server
            .caller()
            .post("/v1/partners/register", &samples::partner("Acme Stage"))
            .await;
        let id = pending.string("partnerId");
        for (filter, is_found) in [
            ("status=pending", true),
            ("status=active", false),
            ("search=STAGE+acme", true),
            (&*format!("search={id}"), true),
            ("search=nobody", false),
        ] {
            let found = browser.page(&format!("/partners?{filter}")).await;
            assert_eq!(found.html.contains(&id), is_found, "{filter}");
        }
        browser.get("/partners?status=nonsense").await.is(400);
        assert!(browser.page("").await.html.contains("Acme Stage"));
        let account = format!("/partners/{id}");
        let form = browser.page(&account).await.form("/approve");
        let shown = browser.submit(&form).await;
        let values: Vec<_> = shown
            .tags()
            .into_iter()
            .filter(|tag| tag.get("data-copy").is_some())
            .map(|tag| tag.text)
            .collect();
        assert_eq!(values.len(), 2, "{}", shown.html);
        server
            .caller()
            .with_key(&values[0])
            .get("/v1/partners/me")
            .await
            .ok(200);
        // The same form again gets the same answer; another one is refused.
        assert!(browser.submit(&form).await.html.contains(&values[0]));
        browser
            .post(&format!("{account}/approve"), &[])
            .await
            .is(409);
        let page = browser.page(&account).await;
        assert!(
            !page.html.contains(&values[0]) && !page.html.contains("Approve"),
            "{}",
            page.html
        );
    })
    .await;
}

#[tokio::test]
async fn the_system_is_told_without_secrets() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| {
            let folder = config.db.file().map_or(std::env::temp_dir(), |file| {
                file.parent().unwrap().to_owned()
            });
            Config {
                operator_listen: Some("127.0.0.1:0".to_owned()),
                backup_folder: Some(folder.join("no-such-folder")),
                ..config
            }
        })
        .await;
        let acme = server.partner("Acme").await;
        let receipt = acme.protect(&acme.book().await).await["receipt"].clone();
        let url = server.running().operator_url().unwrap();
        let key = operator_key(&server, "desk").await;
        let caller = Caller::of_operator(&url).with_key(key.text("operatorKey"));
        let system = caller.get("/v1/system").await.ok(200);
        let checkpoint = server.caller().get("/v1/ledger/checkpoint").await.text();
        let lines: Vec<&str> = checkpoint.lines().collect();
        system["log"]
            .holds(json!({"origin": lines[0], "rootHash": receipt["rootHash"], "isSound": true}));
        assert_eq!(system["log"]["size"].to_string(), lines[1]);
        assert_eq!(system["writes"], json!({"taken": true}));
        assert_eq!(system["backups"].get("newestAt"), None);
        assert_eq!(
            system["servers"].is_null(),
            engine == Engine::Sqlite,
            "{system}"
        );
        let named: Vec<_> = system
            .list("settings")
            .iter()
            .map(|setting| setting.text("name"))
            .collect();
        assert!(
            named.contains(&"operator_listen") && named.contains(&"ledger_key"),
            "{named:?}"
        );
        let local = server.database().command("system").run().await.json();
        assert_eq!(local["log"], system["log"]);
        acme.get("/v1/system").await.refused(404, "path_not_found");
        let browser = signed_in(&url, key.text("operatorKey")).await;
        let page = browser.page("/system").await;
        for told in [
            lines[0],
            receipt.text("rootHash"),
            "There is no verified backup",
        ] {
            assert!(page.html.contains(told), "{told}: {}", page.html);
        }
        assert!(
            browser
                .page("")
                .await
                .html
                .contains("There is no verified backup")
        );
    })
    .await;
}

#[tokio::test]
async fn over_tls_the_cookie_is_kept_to_the_host_and_the_console_can_be_left_out() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            operator_listen: Some("127.0.0.1:0".to_owned()),
            operator_url: Some("https://operator.example.com/base".to_owned()),
            ..config
        })
        .await;
        let url = server.running().operator_url().unwrap();
        let key = operator_key(&server, "desk").await;
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

        let without = TestServer::with(engine, |config| Config {
            operator_listen: Some("127.0.0.1:0".to_owned()),
            console: false,
            ..config
        })
        .await;
        let nobody = Browser::at_operator(&without.running().operator_url().unwrap());
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
