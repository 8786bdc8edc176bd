//! Every page: what it is made of, where it leads, and that it changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use bookguard_core::limits::DAY_MS;
use bookguard_core::model::Timestamp;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::test_server::with_partner_on_every_engine;
use serde_json::json;

use super::browser::{Browser, Seen};
use super::html::Form;
use super::world::{Place, READING, TAG, World, place_of, places};

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// More pages than two of everything and the library make.
const MOST: usize = 700;

/// Asserts what holds of every page of the console.
pub fn is_sound(seen: &Seen) {
    let asked = &seen.asked;
    assert_eq!(seen.header("content-security-policy"), POLICY, "{asked}");
    assert_eq!(seen.header("cache-control"), "no-store", "{asked}");
    assert_eq!(
        seen.header("content-type"),
        "text/html; charset=utf-8",
        "{asked}"
    );
    seen.lacks(&[TAG]);
    let tags = seen.tags();
    let mut ids = BTreeSet::new();
    for tag in &tags {
        let name = &tag.name;
        assert!(
            name != "style" && tag.get("style").is_none(),
            "{asked}: a style in {name}"
        );
        assert!(
            tag.attributes().all(|name| !name.starts_with("on")),
            "{asked}: a script in {name}"
        );
        if name == "script" {
            assert!(
                tag.get("src").is_some() && tag.text.is_empty(),
                "{asked}: a script in the page"
            );
        }
        if let Some(id) = tag.get("id") {
            assert!(
                !id.contains(char::is_whitespace) && ids.insert(id),
                "{asked}: {id} twice"
            );
        }
    }
    for tag in &tags {
        for name in ["for", "aria-describedby", "aria-labelledby"] {
            for id in tag.get(name).unwrap_or_default().split_whitespace() {
                assert!(
                    ids.contains(id),
                    "{asked}: {name} of {} has no {id}",
                    tag.name
                );
            }
        }
        let is_field = ["input", "select", "textarea"].contains(&tag.name.as_str());
        let own_label = matches!(tag.get("type"), Some("hidden" | "checkbox"));
        if is_field && !own_label {
            let id = tag.get("id").unwrap_or_default();
            let label = tags
                .iter()
                .find(|tag| tag.name == "label" && tag.get("for") == Some(id));
            assert!(
                label.is_some(),
                "{asked}: no label for {:?}",
                tag.get("name")
            );
        }
    }
    let heads = tags.iter().filter(|tag| tag.name == "h1").count();
    assert_eq!(heads, 1, "{asked}: {heads} h1");
}

/// What pages have: where they lead, and the first form of each place.
#[derive(Default)]
pub struct Found {
    pub links: BTreeSet<String>,
    pub forms: BTreeMap<&'static str, Form>,
    /// The addresses that were looked at.
    seen: BTreeSet<String>,
}

impl Found {
    /// Looks at every page to which pages lead from these on, and at none twice.
    pub async fn walk(&mut self, browser: &Browser, from: &[String]) {
        self.links.extend(from.iter().cloned());
        loop {
            let next = self.links.difference(&self.seen).next().cloned();
            let Some(next) = next else { return };
            self.look(browser, &next).await;
            self.seen.insert(next);
            assert!(self.links.len() < MOST, "{:?}", self.links);
        }
    }

    /// The pages among these places to which nothing led.
    pub fn unreached(&self, places: &[Place]) -> Vec<&'static str> {
        let reached = self.links.iter().filter_map(|link| place_of(places, link));
        let reached: BTreeSet<_> = reached.collect();
        let pages = places.iter().filter(|(_, has_page, _)| *has_page);
        let pages = pages.map(|(path, ..)| *path);
        pages.filter(|path| !reached.contains(path)).collect()
    }

    /// Looks at an address, whose answer must be sound.
    async fn look(&mut self, browser: &Browser, address: &str) {
        let is_page = address.starts_with("/console") && !address.contains("/console.");
        if !is_page {
            let request = bookguard_tests::caller::Caller::new(browser.base());
            let seen = browser.send(request.request("GET", address)).await;
            seen.is(200);
            return;
        }
        let seen = browser.page(address).await;
        if address.contains("/evidence/") {
            return;
        }
        is_sound(&seen);
        let links = seen.tags().into_iter().filter_map(|tag| {
            let link = tag.get("href").or_else(|| tag.get("src"))?;
            Some(link.split('#').next().unwrap_or_default().to_owned())
        });
        for link in links.filter(|link| !link.is_empty()) {
            assert!(
                link.starts_with('/') && !link.starts_with("//"),
                "{address} leads to {link}"
            );
            self.links.insert(link);
        }
        for mut form in seen.forms() {
            if form.action.is_empty() {
                address.clone_into(&mut form.action);
            }
            assert!(form.action.starts_with("/console/"), "{form:?}");
            let place = place_of(&browser.places(), &form.action).unwrap_or("/sign-out");
            self.forms.entry(place).or_insert(form);
        }
    }
}

/// What is found from the first page on.
pub async fn walk(browser: &Browser) -> Found {
    let mut found = Found::default();
    found.walk(browser, &["/console".to_owned()]).await;
    found
}

/// The forms of these pages.
pub async fn forms_of(browser: &Browser, pages: &[String]) -> BTreeMap<&'static str, Form> {
    let mut found = Found::default();
    for page in pages {
        found.look(browser, page).await;
    }
    found.forms
}

/// The addresses of the pages that no page must lead to, beside the first one.
pub fn entries(world: &World) -> Vec<String> {
    let own = |(pattern, has_page, _): (&str, bool, bool)| {
        has_page.then(|| format!("/console{}", world.acme.address(pattern)))
    };
    let compared = format!(
        "/console/policies/{}?version=2&against=1&eventDate=2031-06-20&bookingValue=5&currency=EUR",
        world.acme.policy
    );
    let mut all: Vec<_> = places().into_iter().filter_map(own).collect();
    all.extend([
        compared,
        "/console/policies/firm".to_owned(),
        "/console/new-policy?from=hotel_guaranteed_6pm".to_owned(),
        "/console/sign-in".to_owned(),
        "/console/deliveries?status=failed".to_owned(),
        "/console/bookings?search=nobody".to_owned(),
    ]);
    all
}

#[tokio::test]
async fn every_page_is_sound_leads_to_others_and_changes_nothing() {
    on_every_engine(async |engine| {
        let world = World::open(engine).await;
        let before = world.state().await;
        let mut found = walk(&world.browser).await;
        assert_eq!(found.unreached(&places()), [] as [&str; 0]);
        let entries = entries(&world);
        found.walk(&world.browser, &entries).await;
        // On a small screen, no figure of these is cut off: each row is a block, and says what its figures are.
        let compared = entries.iter().find(|address| address.contains("against="));
        let booking = format!("/bookings/{}", world.acme.booking);
        let audit = world.browser.page("/audit").await;
        audit
            .says(&["<td>Save a policy</td>"])
            .lacks(&["Put policy"]);
        // What the partner named itself stands apart from what the service knows.
        let seen = world.browser.page(&booking).await;
        seen.says(&["Your own references</h2><dl><div><dt>reference</dt>"]);
        let deliveries = "/deliveries".to_owned();
        for (address, head) in [
            (&booking, "goes back:"),
            (compared.unwrap(), "Version 1:"),
            (&deliveries, "last answer:"),
        ] {
            let seen = world.browser.page(address).await;
            let tags = seen.tags();
            let has = |name, value| tags.iter().any(|tag| tag.get(name) == Some(value));
            assert!(has("data-head", head), "{}", seen.html);
            assert!(!has("class", "scroll"), "{}", seen.html);
        }
        assert_eq!(world.state().await, before);
    })
    .await;
}

#[tokio::test]
async fn who_opens_an_address_that_has_no_page_gets_one_and_a_way_back() {
    on_every_engine(async |engine| {
        let world = World::open(engine).await;
        let before = world.state().await;
        world.browser.get("/").await.leads_to("");
        let cases = [
            ("/nowhere", 404),
            ("/bookings/", 404),
            ("/bookings/x/y/z/<i id=\"main\">", 404),
            ("/people/x/end", 405),
            ("/sign-out", 405),
        ];
        for (address, status) in cases {
            let ask = |accept: &'static str| {
                let request = world.browser.request("GET", address);
                world.browser.send(request.header("accept", accept))
            };
            let page = ask("text/html,application/xhtml+xml,*/*;q=0.8").await;
            page.is(status);
            is_sound(&page);
            let links = page.tags();
            let back = links.iter().find(|tag| tag.get("href") == Some("/console"));
            assert!(back.is_some(), "{address}: {}", page.html);
            let program = ask("*/*").await;
            program.is(status);
            assert_eq!(program.header("content-type"), "application/json");
            assert_eq!(program.header("allow"), page.header("allow"));
        }
        // Whoever is signed in keeps the menu, and reads what is missing.
        let gone = world
            .browser
            .get("/bookings/bkg_00000000000000000000000000000000");
        let gone = gone.await;
        is_sound(gone.is(404));
        gone.says(&["<h1>No such booking</h1>", "<nav "]);
        gone.lacks(&["the partner that owns it"]);
        let beside = world.browser.request("GET", "/consoles");
        let beside = beside.header("accept", "text/html");
        let beside = world.browser.send(beside).await;
        assert_eq!(
            (beside.status, beside.header("content-type")),
            (404, "application/json")
        );
        assert_eq!(world.state().await, before);
    })
    .await;
}

#[tokio::test]
async fn the_overview_counts_events_without_an_endpoint_and_keys_that_expire() {
    with_partner_on_every_engine(async |server, acme| {
        // Nothing takes its events, which are counted like all others.
        acme.book().await;
        let browser = Browser::signed_in(&server, &acme.key).await;
        let seen = browser.page("").await;
        seen.says(&[
            "</svg>1 with no endpoint</li>",
            " 0 failed, 1 with no endpoint</title>",
            ">No endpoint</th>",
        ]);
        for (name, days) in [("day", 1), ("month", 30)] {
            let ends = Timestamp::from_ms(server.now_ms() + days * DAY_MS);
            acme.new_key(&json!({"name": name, "expiresAt": ends}))
                .await;
        }
        let rotated = acme
            .post("/v1/api-keys", &json!({"name": "rotated"}))
            .await
            .string("apiKeyId");
        let rotated = format!("/v1/api-keys/{rotated}/rotate");
        acme.post(&rotated, &json!({})).await.ok(201);
        for (ahead, expiring) in [
            (0, false),
            (DAY_MS - DAY_MS / 10, true),
            (DAY_MS / 10, false),
            (26 * DAY_MS, true),
        ] {
            server.advance(ahead);
            let activity = acme.get("/v1/activity").await.ok(200);
            assert_eq!(activity["keysExpiring"], u32::from(expiring));
            let browser = Browser::signed_in(&server, &acme.key).await;
            let seen = browser.get("/console").await;
            is_sound(seen.is(200));
            let words = "1 API key will expire soon";
            assert_eq!(seen.html.contains(words), expiring, "{}", seen.html);
        }
    })
    .await;
}

#[tokio::test]
async fn pages_lead_only_where_the_session_may_go() {
    on_every_engine(async |engine| {
        let world = World::open(engine).await;
        for scope in READING {
            let browser = world.limited(&[scope]).await;
            let found = walk(&browser).await;
            let forms: Vec<_> = found.forms.into_keys().collect();
            assert_eq!(forms, ["/sign-out"], "{scope}: {:?}", found.links);
        }
        // Without a page of their own, these lead to one that says so.
        let browser = world.limited(&["bookings:write", "policies:write", "evidence:erase"]);
        let overview = browser.await.page("").await;
        is_sound(&overview);
        overview.says(&["You cannot see bookings."]);
        // Beside what waits, too.
        let overview = world.limited(&["webhooks:read"]).await.page("").await;
        overview.says(&["events failed", "you need the scope bookings:read."]);
        // The pages that somebody without any of these scopes can open.
        let url = "https://receiver.example/hook";
        for (scope, page, typed) in [
            ("webhooks:write", "/deliveries/recover", ("/dryRun", "true")),
            ("webhooks:write", "/endpoints/new", ("/url", url)),
            ("api-keys:write", "/keys/new", ("/name", "till")),
            ("api-keys:write", "/people/new", ("/person", "Ada")),
        ] {
            let browser = world.limited(&[scope]).await;
            let seen = walk(&browser).await.links;
            assert!(seen.contains(&format!("/console{page}")), "{seen:?}");
            let mut done = browser.fill(page, page, &[typed]).await;
            if done.status == 303 {
                done = browser.get(done.location()).await;
            }
            is_sound(done.is(200));
            for tag in done.tags() {
                if let Some(to) = tag.get("href").filter(|to| to.starts_with("/console/")) {
                    browser.get(to).await.is(200);
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_page_with_a_form_opens_only_for_whoever_may_send_it() {
    on_every_engine(async |engine| {
        let world = World::open(engine).await;
        let reader = world.limited(&READING).await;
        let forms = places()
            .into_iter()
            .filter(|(_, has_page, has_form)| *has_page && *has_form);
        for (pattern, ..) in forms {
            let refused = reader.get(&world.acme.address(pattern)).await;
            is_sound(refused.is(403));
            refused.says(&[
                "<h1>That is not allowed</h1>",
                "which your key does not have.",
            ]);
        }
    })
    .await;
}

#[tokio::test]
async fn what_belongs_to_another_partner_is_as_good_as_unknown() {
    on_every_engine(async |engine| {
        let world = World::open(engine).await;
        let before = world.state().await;
        let form = "%2Fname=x&%2Fnote=&%2FexpiresIn=P1D&%2FcanceledBy=talent&%2Freason=other&%2FoverlapSeconds=0";
        for (pattern, has_page, has_form) in places() {
            if !pattern.contains(':') {
                continue;
            }
            let foreign = world.other.address(pattern);
            let ids: Vec<&str> = foreign.split('/').filter(|part| part.contains('_')).collect();
            let unknown = ids.iter().fold(foreign.clone(), |path, id| {
                path.replace(id, &format!("{}0000", &id[..id.len() - 4]))
            });
            assert_ne!(foreign, unknown);
            for method in ["GET", "POST"].into_iter().zip([has_page, has_form]).filter(|(_, has)| *has) {
                let ask = async |address: &str| {
                    let request = match method.0 {
                        "GET" => world.browser.request("GET", address),
                        _ => world.browser.form(address, form),
                    };
                    let seen = world.browser.send(request).await;
                    let mut html = seen.html.clone();
                    for form in seen.forms() {
                        for (_, once) in form.fields.iter().filter(|(name, _)| name == "once") {
                            html = html.replace(once, "ONCE");
                        }
                    }
                    for id in address.split('/').filter(|part| part.contains('_')) {
                        html = html.replace(id, "ID");
                    }
                    let mut headers: Vec<_> = seen.headers.keys().map(|name| name.to_string()).collect();
                    headers.sort();
                    (seen.status, html, headers)
                };
                let (theirs, nobodys) = (ask(&foreign).await, ask(&unknown).await);
                assert_eq!(theirs, nobodys, "{} {pattern}", method.0);
                assert_eq!(theirs.0, 404, "{} {pattern}", method.0);
            }
        }
        for filter in ["search", "bookingId"] {
            let list = if filter == "search" { "bookings" } else { "deliveries" };
            let address = format!("/{list}?{filter}={}", world.other.booking);
            let seen = world.browser.get(&address).await;
            assert!(!seen.html.contains(&format!("/{list}/{}", world.other.booking)), "{address}");
        }
        assert_eq!(world.state().await, before);
        let theirs = world.other.partner.rows("/v1/console-sessions?limit=100").await;
        theirs[0].holds(json!({"endedAt": null}));
    })
    .await;
}
