//! Every form: who may send it, and what happens to one that is refused.

use std::collections::{BTreeMap, BTreeSet};

use bookguard_core::limits::BODY_BYTES;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::is_long;
use bookguard_tests::test_server::with_partner_on_every_engine;
use serde_json::json;

use super::browser::{Browser, encoded};
use super::html::Form;
use super::pages::{entries, forms_of, is_sound};
use super::world::{HOSTILE, READING, World, places};

/// Fields and what is typed into them.
type Typed<'t> = &'t [(&'t str, &'t str)];

/// The forms of all pages, by their place: exactly those that the console has.
async fn all_forms(world: &World) -> BTreeMap<&'static str, Form> {
    let forms = forms_of(&world.browser, &entries(world)).await;
    let listed = places().into_iter().filter(|(.., has_form)| *has_form);
    let listed = listed.map(|(path, ..)| path).chain(["/sign-out"]);
    let found: BTreeSet<_> = forms.keys().copied().collect();
    assert_eq!(found, listed.collect());
    forms
}

/// What a page of another site may say of its origin.
pub const ORIGINS: [Option<&str>; 3] = [Some("https://evil.example"), Some("null"), None];

/// Asserts that a form does nothing when a page elsewhere sends it, whatever the browser says of its site and its origin. Of all pairs
/// of the two, each form is sent with some that have every site and every origin; the `n` of forms decides with which.
pub async fn refused_from_elsewhere(
    browser: &Browser,
    form: &Form,
    origins: &[Option<&str>],
    n: usize,
) {
    const SITES: [Option<&str>; 4] = [
        Some("cross-site"),
        Some("same-site"),
        Some("same-origin, none"),
        None,
    ];
    for (s, site) in SITES.into_iter().enumerate() {
        for (o, origin) in origins.iter().copied().enumerate() {
            if !is_long() && !(s + o + n).is_multiple_of(origins.len()) {
                continue;
            }
            let request = browser.request("POST", &form.action);
            let mut request = request
                .header("content-type", "application/x-www-form-urlencoded")
                .body(form.body());
            for (name, value) in [("sec-fetch-site", site), ("origin", origin)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            let sent = browser.send(request).await;
            let said = format!("{} from {site:?} {origin:?}", form.action);
            assert_eq!(sent.status, 403, "{said}");
            assert_eq!(sent.header("set-cookie"), "", "{said}");
            is_sound(&sent);
        }
    }
}

#[tokio::test]
async fn a_form_of_another_site_or_of_nobody_does_nothing() {
    on_every_engine(async |engine| {
        let world = World::open(engine).await;
        let mut forms = all_forms(&world).await;
        let reader = world.limited(&READING).await;
        world.uses_are_stored().await;
        let before = world.state().await;
        for (n, (place, form)) in forms.iter().enumerate() {
            refused_from_elsewhere(&world.browser, form, &ORIGINS, n).await;
            let asked = world
                .browser
                .copy()
                .get(&format!("{}?{}", form.action, form.body()))
                .await;
            assert!(
                [200, 400, 404, 405].contains(&asked.status),
                "{place}: {}",
                asked.status
            );
        }
        let sign_out = forms.remove("/sign-out").unwrap();
        let nobody = Browser::new(&world.server);
        for (place, form) in &forms {
            let sent = nobody.submit(form).await;
            assert_eq!(sent.status, 401, "{place} without a cookie");
            is_sound(&sent);
            let sent = reader.submit(form).await;
            assert_eq!(sent.status, 403, "{place} without the scope");
            is_sound(&sent);
        }
        nobody.submit(&sign_out).await.leads_to("/sign-in");
        assert_eq!(world.state().await, before);
        // Over plain HTTP a browser says only the origin.
        let request = world.browser.request("POST", &sign_out.action);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.header("origin", world.browser.base());
        world.browser.send(request).await.leads_to("/sign-in");
    })
    .await;
}

#[tokio::test]
async fn a_form_that_no_browser_sends_is_refused_before_anything_is_done() {
    on_every_engine(async |engine| {
        let world = World::open(engine).await;
        let forms = all_forms(&world).await;
        let before = world.state().await;
        let large = encoded([("/note", "x".repeat(BODY_BYTES).as_str())]);
        for (place, form) in &forms {
            if *place == "/sign-out" {
                continue;
            }
            let body = form.body();
            let broken = ["%2", "%zz=1", "%2Fname=%ff", "a=%C3"];
            for end in broken {
                let sent = world.browser.form(&form.action, format!("{body}&{end}"));
                let sent = world.browser.send(sent).await;
                assert_eq!(sent.status, 400, "{place} with {end}");
                is_sound(&sent);
            }
            for kind in [
                "text/plain",
                "application/json",
                "multipart/form-data; boundary=x",
            ] {
                let sent = world
                    .browser
                    .request("POST", &form.action)
                    .header("content-type", kind);
                let sent = sent
                    .header("sec-fetch-site", "same-origin")
                    .body(format!("{body}&x=1"));
                assert_eq!(
                    world.browser.send(sent).await.status,
                    415,
                    "{place} as {kind}"
                );
            }
            let sent = world.browser.form(&form.action, large.clone());
            assert_eq!(world.browser.send(sent).await.status, 413, "{place}, large");
        }
        assert_eq!(world.state().await, before);
        // Hostile names and numbers of fields, where a form is read most closely.
        let create = forms["/endpoints/new"].clone();
        let many = create.with(&[("/url", "")]).body() + &"&%2Fx=".repeat(BODY_BYTES / 8);
        let nested = "/events".to_owned() + &"/0".repeat(1000);
        for body in [
            many,
            encoded([(nested.as_str(), "x")]),
            encoded([
                ("/events", "x"),
                ("/events/0", "y"),
                ("/", "z"),
                ("//", "z"),
                ("", "z"),
            ]),
            encoded([
                ("/__proto__", "x"),
                ("/url/x", "y"),
                ("/url\0", "z"),
                ("/\"},{", "z"),
            ]),
            encoded([("/url", "ftp://a"), ("/url", "https://b.example")]),
            encoded([("/url", "\0"), ("/description", "\u{202e}")]),
            String::new(),
        ] {
            let sent = world
                .browser
                .send(world.browser.form(&create.action, body))
                .await;
            sent.is(400);
            is_sound(&sent);
        }
        for (address, name) in [
            ("cancel", "/expected"),
            ("cancel", "/evidence"),
            ("reschedule", "/agreedBy/x"),
        ] {
            let address = format!("/bookings/{}/{address}", world.acme.booking);
            let sent = world.browser.post(&address, &[(name, "text")]).await;
            sent.is(400);
        }
        assert_eq!(world.state().await, before);
    })
    .await;
}

#[tokio::test]
async fn a_refused_form_keeps_what_was_typed_with_each_fault_beside_its_field() {
    on_every_engine(async |engine| {
        let world = World::open(engine).await;
        let acme = &world.acme;
        let before = world.state().await;
        let (booking, review) = (
            format!("/bookings/{}", acme.booking),
            format!("/bookings/{}", acme.review),
        );
        let endpoint = format!("/endpoints/{}", acme.endpoint);
        let key = format!("/keys/{}", acme.key);
        let policy = format!("/policies/{}", acme.policy);
        let long = "e".repeat(2001);
        let noted = [("/canceledBy", "talent"), ("/note", long.as_str())];
        let cases: [(String, Typed<'_>, &[&str]); 21] = [
            (
                format!("{booking}/reschedule"),
                &[("/eventDate", HOSTILE), ("/agreedBy", "talent")],
                &["/eventDate"],
            ),
            (
                format!("{booking}/reschedule"),
                &[
                    ("/eventDate", "2031-10-20T19:00"),
                    ("/timeZone", "Nowhere/\"x"),
                    ("/agreedBy", "talent"),
                    ("/agreedBy", "organizer"),
                ],
                &["/timeZone"],
            ),
            (
                format!("{booking}/cancel"),
                &[
                    ("/canceledBy", "talent"),
                    ("/reason", "whim"),
                    ("/note", HOSTILE),
                    ("/agreedRefund", "1e2x"),
                ],
                &["/reason", "/agreedRefund"],
            ),
            (
                format!("{booking}/cancel"),
                &[("/canceledBy", "whim"), ("/note", "two\r\nlines")],
                &["/canceledBy"],
            ),
            (
                format!("{booking}/cancel"),
                &[("/canceledBy", "mutual"), ("/agreedRefund", "x")],
                &["/agreedRefund"],
            ),
            (format!("{booking}/cancel"), &noted, &["/note"]),
            (
                format!("{review}/decide"),
                &[
                    ("/refund", HOSTILE),
                    ("/decidedBy", HOSTILE),
                    ("/rationale", HOSTILE),
                ],
                &["/refund"],
            ),
            (
                format!("{review}/share"),
                &[("/note", HOSTILE), ("/expiresIn", "P9999D")],
                &["/expiresIn"],
            ),
            (
                format!("{booking}/hold"),
                &[("/reason", ""), ("/reference", HOSTILE)],
                &["/reason"],
            ),
            (
                format!("{booking}/erase"),
                &[
                    ("/party", "talent"),
                    ("/legalBasis", "whim"),
                    ("/requestRef", HOSTILE),
                    ("/dryRun", "true"),
                ],
                &["/legalBasis"],
            ),
            (
                "/endpoints/new".to_owned(),
                &[
                    ("/url", HOSTILE),
                    ("/rateLimitPerSecond", "12345678901234567890.5"),
                    ("/description", HOSTILE),
                ],
                &["/url", "/rateLimitPerSecond"],
            ),
            (
                format!("{endpoint}/change"),
                &[
                    ("/url", "http://"),
                    ("/enabled", "maybe"),
                    ("/description", HOSTILE),
                ],
                &["/url", "/enabled"],
            ),
            (
                format!("{endpoint}/rotate-secret"),
                &[("/overlapSeconds", "-1")],
                &["/overlapSeconds"],
            ),
            (
                "/keys/new".to_owned(),
                &[
                    ("/name", HOSTILE),
                    ("/expiresAt", "yesterday"),
                    ("/scopes", "bookings:read"),
                ],
                &["/expiresAt"],
            ),
            (
                format!("{key}/rotate"),
                &[("/overlapSeconds", "x")],
                &["/overlapSeconds"],
            ),
            (
                "/people/new".to_owned(),
                &[("/person", ""), ("/scopes", "audit:read")],
                &["/person"],
            ),
            (
                "/new-policy".to_owned(),
                &[
                    ("/policyId", HOSTILE),
                    ("/name", HOSTILE),
                    ("/organizer/tiers/0/before", "a month"),
                    ("/organizer/tiers/0/before/unit", "weeks"),
                    ("/organizer/tiers/0/outcome/kind", "refundBps"),
                    ("/organizer/tiers/0/outcome/figure", "half"),
                    ("/organizer/tiers/1/before", "7"),
                    ("/organizer/tiers/1/outcome/kind", "manual"),
                    ("/organizer/late/kind", "penaltyAmount"),
                    ("/organizer/late/figure", "12345678901234567890.5"),
                    ("/talent/cancel/figure", "50"),
                    ("/deposit/kind", "bps"),
                    ("/deposit/figure", "101"),
                    ("/deposit/nonRefundable", "true"),
                    ("/timeZone", "Berlin"),
                    ("eventDate", "soon"),
                    ("bookingValue", "100"),
                ],
                &[
                    "/policyId",
                    "/name",
                    "/organizer/tiers/0/before",
                    "/organizer/tiers/0/outcome/figure",
                    "/organizer/late/figure",
                    "/talent/cancel/figure",
                    "/deposit/figure",
                    "/timeZone",
                    "eventDate",
                ],
            ),
            (
                "/new-policy".to_owned(),
                &[
                    ("mode", "json"),
                    ("json", "{ \"policyId\": \"<i>\",\t\"version\": 1.50 }"),
                    ("currency", "eur"),
                    ("eventDate", "2031-06-20"),
                ],
                &["json", "currency"],
            ),
            (
                format!("{policy}/change"),
                &[("mode", "json"), ("json", "{"), ("bookingValue", "1e2x")],
                &["json"],
            ),
            (
                format!("{policy}/default"),
                &[("eventType", "--")],
                &["eventType"],
            ),
            (
                "/deliveries/recover".to_owned(),
                &[
                    ("/since", HOSTILE),
                    ("/until", HOSTILE),
                    ("/dryRun", "true"),
                ],
                &["/since", "/until"],
            ),
        ];
        for (address, typed, faulty) in cases {
            let seen = world.browser.post(&address, typed).await;
            seen.is(400);
            is_sound(&seen);
            let tags = seen.tags();
            for (name, text) in typed {
                let of = |tag: &&super::html::Tag| tag.get("name") == Some(name);
                let field = tags.iter().find(of).unwrap();
                let kept = match (field.name.as_str(), field.get("type")) {
                    ("textarea", _) => field.text == *text,
                    // Only words that can be chosen can stay.
                    ("select", _) => {
                        faulty.contains(name)
                            || tags.iter().any(|tag| {
                                tag.get("value") == Some(text) && tag.get("selected").is_some()
                            })
                    }
                    (_, Some("checkbox")) => tags
                        .iter()
                        .filter(of)
                        .any(|tag| tag.get("value") == Some(text) && tag.get("checked").is_some()),
                    _ => field.get("value") == Some(text),
                };
                assert!(kept, "{address}: {name} lost {text:?}: {}", seen.html);
                let is_faulty = faulty.contains(name);
                assert_eq!(
                    field.get("aria-invalid").is_some(),
                    is_faulty,
                    "{address} {name}: {}",
                    seen.html
                );
                if is_faulty {
                    let described = field.get("aria-describedby").unwrap_or_default();
                    let fault = tags.iter().any(|tag| {
                        tag.get("class") == Some("fault")
                            && described.split(' ').any(|id| tag.get("id") == Some(id))
                            && tag.text.len() > 10
                    });
                    assert!(fault, "{address}: no fault beside {name}: {}", seen.html);
                }
            }
            assert!(
                tags.iter().any(|tag| tag.get("role") == Some("alert")),
                "{address}"
            );
        }
        // Sent with a result, a note that no result is shown for is refused in the same way.
        let shown = [
            noted[0],
            noted[1],
            ("/expected/resolutionPath", "no_money_due"),
        ];
        let cancel = format!("{booking}/cancel");
        let refused = world.browser.post(&cancel, &shown).await;
        assert_eq!(
            refused.html,
            world.browser.post(&cancel, &noted).await.html,
            "{cancel}"
        );
        let seen = world.browser.post(&cancel, &noted[..1]).await;
        seen.is(200);
        is_sound(&seen);
        for (address, faulty, words) in [
            (
                "/bookings?eventFrom=2026-99-99",
                "eventFrom",
                "&quot;2026-99-99&quot; names a day that does not exist",
            ),
            (
                "/bookings?eventFrom=2031-02-01&eventTo=2031-01-01",
                "eventFrom",
                "Is not before the day under “Event before”.",
            ),
            ("/deliveries?status=soon", "status", "soon"),
            (
                "/bookings?eventTo=soon",
                "eventTo",
                "Write a day such as 2027-06-20.",
            ),
            (
                "/audit?since=soon",
                "since",
                "Write a date and a time such as 2027-06-20T19:00.",
            ),
            (
                "/audit?until=2027-06-20",
                "until",
                "Write a date and a time such as 2027-06-20T19:00.",
            ),
            (
                "/audit?since=2031-02-01T00:00&until=2031-01-01T00:00",
                "since",
                "Is not before the time under “Before (UTC)”.",
            ),
            ("/reviews?status=soon", "status", "soon"),
        ] {
            let seen = world.browser.get(address).await;
            seen.is(400);
            is_sound(&seen);
            assert_eq!(seen.field(faulty).get("aria-invalid"), Some("true"));
            let link = format!("<a href=\"#f{faulty}\">Go to a marked field</a>");
            seen.says(&[&link]);
            seen.says(&[words]).lacks(&["eventTo,", "Enter an instant"]);
        }
        // A list without a filter says what is wrong with its address, and shows the other one beside it.
        for (address, other) in [("/keys?cursor=x", "people"), ("/keys?people=x", "keys")] {
            let seen = world.browser.get(address).await;
            is_sound(seen.is(400));
            let tags = seen.tags();
            let ids: Vec<_> = tags.iter().filter_map(|tag| tag.get("id")).collect();
            assert!(ids.contains(&other), "{}", seen.html);
            seen.says(&["<a href=\"?\">Show the newest</a>"]);
        }
        for address in [
            "/bookings?status=created&cursor=x",
            "/audit?cursor=x",
            "/deliveries?before=x",
        ] {
            let seen = world.browser.get(address).await;
            is_sound(seen.is(400));
            seen.says(&["Show the newest"])
                .lacks(&["nextCursor", "nextBefore"]);
        }
        assert_eq!(world.state().await, before);

        // What conflicts says so on the same page, with what was typed.
        acme.partner
            .cancel(
                &acme.booking,
                &json!({"canceledBy": "organizer", "reason": "changed_plans"}),
            )
            .await;
        let late = [
            ("/eventDate", "2031-10-20T19:00:00-04:00"),
            ("/agreedBy", "talent"),
            ("/agreedBy", "organizer"),
        ];
        let seen = world
            .browser
            .post(&format!("{booking}/reschedule"), &late)
            .await;
        seen.is(409).says(&[
            "<dd>2031-10-20T19:00:00-04:00</dd>",
            "<dd>Organizer, Talent</dd>",
        ]);
        is_sound(&seen);
        let other = [("/canceledBy", "talent"), shown[2]];
        let seen = world.browser.post(&cancel, &other).await;
        seen.is(409).says(&["The booking is already canceled"]);
        seen.lacks(&["canceledBy talent", "effectiveAt and"]);
        let typed = [
            ("/refund", "1"),
            ("/decidedBy", "Ada"),
            ("/rationale", "Fair"),
        ];
        let decide = format!("{booking}/decide");
        let seen = world.browser.post(&decide, &typed).await;
        seen.is(409)
            .says(&["there is nothing to decide"])
            .lacks(&["pending_review"]);
        let sent = world.browser.post(&format!("{booking}/protect"), &[]).await;
        sent.is(409);
    })
    .await;
}

#[tokio::test]
async fn a_form_that_is_sent_again_with_other_values_comes_back_and_can_be_sent() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let form = browser.page("/keys/new").await.form("/keys/new");
        let first = form.with(&[("/name", "first")]);
        browser.submit(&first).await.copied();
        let again = browser.submit(&first.with(&[("/name", "second")])).await;
        again.is(422);
        is_sound(&again);
        assert!(
            again
                .html
                .contains("<p>This form was already sent with other values."),
            "{}",
            again.html
        );
        let keys = async || acme.rows("/v1/api-keys?limit=9").await.len();
        assert_eq!(keys().await, 2, "one key, and that of this browser");
        let form = again.form("/keys/new");
        assert_eq!(form.value("/name"), "second");
        browser.submit(&form).await.copied();
        assert_eq!(keys().await, 3);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_speaks_of_the_form_and_not_of_the_request() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let booking = acme.book().await;
        let (cancel, reschedule) = (
            format!("/bookings/{booking}/cancel"),
            format!("/bookings/{booking}/reschedule"),
        );
        let both = [("/agreedBy", "talent"), ("/agreedBy", "organizer")];
        let zone = ("/timeZone", "Europe/Berlin");
        let cases: [(&str, Typed<'_>, &str); 8] = [
            (
                &reschedule,
                &[("/eventDate", "2031-10-20T19:00"), zone, both[0]],
                "Tick the organizer and the talent once both agreed",
            ),
            (
                &reschedule,
                &[("/eventDate", "2020-01-01T19:00"), zone, both[0], both[1]],
                "Has passed. Choose a later date.",
            ),
            (
                &cancel,
                &[("/canceledBy", "talent"), ("/agreedRefund", "5")],
                "choose “Mutual” as who cancels",
            ),
            (
                &cancel,
                &[("/canceledBy", "mutual")],
                "Enter what both sides agreed on.",
            ),
            (
                &cancel,
                &[("/canceledBy", "talent"), ("/reason", "no_show")],
                "Choose another reason",
            ),
            (
                &cancel,
                &[("/canceledBy", "mutual"), ("/agreedRefund", "1,167.00")],
                "such as 1167.00",
            ),
            (
                &cancel,
                &[
                    ("/canceledBy", "talent"),
                    ("/effectiveAt", "2020-01-01T19:00"),
                ],
                "Choose a time between them",
            ),
            (
                "/new-policy",
                &[("mode", "json"), ("json", "{}"), ("eventDate", "soon")],
                "Write a date such as 2027-06-20",
            ),
        ];
        for (address, typed, words) in cases {
            let refused = browser.post(address, typed).await;
            is_sound(refused.is(400));
            refused.says(&[words]);
            refused.lacks(&["canceledBy&quot;", "asOf", "RFC 3339", "%2B", "Send "]);
        }
        // A policy's text has each of its faults beside it, and nowhere else on the page.
        for (json, fault) in [
            ("{\"policyId\":\"p\"}", "<code>/organizer</code>"),
            ("{", "JSON"),
        ] {
            let typed = [("mode", "json"), ("json", json)];
            let refused = browser.post("/new-policy", &typed).await;
            refused.is(400);
            let (_, beside) = refused.html.split_once("id=\"text-faults\"").unwrap();
            let (beside, after) = beside.split_once("<label").unwrap();
            assert!(beside.contains(fault), "{}", refused.html);
            if fault.contains("code") {
                assert_eq!(refused.html.matches(fault).count(), 1, "{}", refused.html);
            }
            assert!(!after.contains("class=\"fault\""), "{}", refused.html);
        }
    })
    .await;
}
