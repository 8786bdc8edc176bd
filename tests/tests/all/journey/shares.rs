//! Links to a booking's evidence: what they show to whom, and what is recorded of it.

use std::collections::BTreeSet;

use bookguard_core::evidence;
use bookguard_core::limits::{DAY_MS, SHARE_REQUESTS_PER_MINUTE, SHARE_VIEW_MS};
use bookguard_test_postgres::{Postgres, database_of};
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::on_postgres;
use bookguard_tests::json::{Members as _, only};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};
use tokio::task::block_in_place;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// Makes a share and returns it with the path of its link.
async fn share(partner: &Partner, booking: &str, body: Value) -> (Value, String) {
    let path = format!("/v1/bookings/{booking}/shares");
    let made = partner.post(&path, &body).await.ok(201);
    let (_, token) = made.text("url").rsplit_once("/s/").unwrap();
    assert_eq!(token.len(), 43, "256 bits in base64url");
    let link = format!("/s/{token}");
    (made, link)
}

async fn shares(partner: &Partner, booking: &str) -> Vec<Value> {
    partner
        .rows(&format!("/v1/bookings/{booking}/shares?limit=1"))
        .await
}

async fn visit(caller: &Caller, method: &str, link: &str, accept: &str) -> Reply {
    let request = caller.request(method, link).header("accept", accept);
    let reply = caller.send(request.header("x-request-id", "same")).await;
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-robots-tag", "noindex, nofollow"),
    ] {
        let sent: Vec<_> = reply.headers.get_all(name).iter().collect();
        assert_eq!(sent, [value], "{reply:?}");
    }
    assert_eq!(reply.header("etag"), None);
    reply
}

/// Everything of an answer but the time at which it was sent.
fn whole(reply: &Reply) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let headers = reply.headers.iter();
    let headers = headers.filter(|(name, _)| *name != "date");
    let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap().to_owned();
    let mut headers: Vec<_> = headers
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect();
    headers.sort();
    (reply.status, headers, reply.body.clone())
}

#[tokio::test]
async fn a_link_shows_the_evidence_in_every_form_and_records_each_view() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let body = json!({"note": "the bank", "expiresIn": "P2D", "withhold": ["userAgent", "ip"]});
        let (made, link) = share(&acme, &booking, body).await;
        made.holds(
            json!({"bookingId": booking, "withhold": ["ip", "userAgent"], "note": "the bank"}),
        );
        let anybody = server.caller();
        let booked = acme.booking(&booking).await;
        let names = [
            &booking,
            booked["talent"].text("name"),
            booked["organizer"].text("name"),
            "Acme",
            made.text("shareId"),
        ];
        // What a program sees that follows links by itself.
        for (method, accept) in [
            ("GET", "*/*"),
            ("GET", BROWSER),
            ("HEAD", "application/json"),
            ("HEAD", "application/pdf"),
        ] {
            let reply = visit(&anybody, method, &link, accept).await;
            assert_eq!(reply.status, 200);
            let text = reply.text();
            assert!(names.iter().all(|name| !text.contains(*name)), "{text}");
            if method == "HEAD" {
                assert_eq!(reply.header("content-type"), Some(accept));
                assert!(reply.header("content-disposition").is_some());
                assert_eq!(reply.header("content-length"), None, "nothing is made");
            }
        }
        let listed = shares(&acme, &booking).await;
        let listed = only(&listed);
        listed.holds(
            json!({"shareId": made["shareId"], "views": 0, "recentViews": [], "note": "the bank"}),
        );
        assert!(!listed.to_string().contains(&link[3..]) && listed.get("url").is_none());
        // What a person opens, and a program that knows what it wants.
        let page = visit(&anybody, "POST", &link, "text/html").await;
        assert_eq!(page.status, 200);
        assert!(page.text().contains(&booking) && page.text().contains("data-from"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        server.advance(1_000);
        for (method, link, accept) in [
            ("GET", link.clone(), "application/pdf"),
            (
                "GET",
                format!("{link}?form=archive&utm_source=x"),
                "application/pdf",
            ),
            ("POST", format!("{link}?form=bank"), "text/html"),
        ] {
            let pdf = visit(&anybody, method, &link, accept).await;
            assert_eq!(pdf.header("content-type"), Some("application/pdf"));
            assert!(pdf.body.starts_with(b"%PDF-") && pdf.header("content-disposition").is_some());
        }
        server.advance(1_000);
        let packet = visit(&anybody, "GET", &link, "application/json").await;
        let downloaded = visit(
            &anybody,
            "POST",
            &format!("{link}?form=packet"),
            "text/html",
        )
        .await;
        for packet in [&packet, &downloaded] {
            let report = evidence::verify(&packet.body, &server.vkey().await);
            assert!(report.verified(), "{report}");
            let packet = packet.json();
            assert_eq!(packet["booking"]["bookingId"], json!(booking));
            assert_eq!(packet["withheld"], json!(["ip", "userAgent"]));
        }
        let seen = shares(&acme, &booking).await;
        let seen = only(&seen);
        let forms = |share: &Value| -> Vec<String> {
            let views = share.list("recentViews").iter();
            views.map(|view| view.text("form").to_owned()).collect()
        };
        assert_eq!(
            (&seen["views"], forms(seen)),
            (
                &json!(3),
                vec!["packet".into(), "pdf".into(), "page".into()]
            )
        );
        assert_eq!(seen["lastViewedAt"], seen["recentViews"][0]["at"]);
        server.advance(SHARE_VIEW_MS);
        visit(&anybody, "POST", &link, "text/html").await;
        let seen = shares(&acme, &booking).await;
        let seen = only(&seen);
        assert_eq!(
            (&seen["views"], &seen["recentViews"][0]["form"]),
            (&json!(4), &json!("page"))
        );
        for (method, query, accept, status) in [
            ("GET", "", "image/png", 406),
            ("GET", "?form=bank&form=bank", "application/pdf", 400),
            ("GET", "?form=page", "application/pdf", 400),
            ("POST", "?form=poster", "text/html", 400),
            ("GET", "?form=%zz", "text/html", 400),
        ] {
            let reply = visit(&anybody, method, &format!("{link}{query}"), accept).await;
            assert_eq!(reply.status, status);
            assert!(!reply.text().contains(&link[3..]));
        }
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn withheld_values_are_in_no_form_and_the_packet_still_verifies() {
    with_partner_on_every_engine(async |server, acme| {
        let metadata = json!({"metadata": {"desk": "secret-desk-7"}});
        let booking = acme.book_with(metadata).await;
        let terms = format!("/v1/bookings/{booking}/disclosure");
        let terms = acme.get(&terms).await.ok(200);
        let mut acceptance = samples::acceptance(terms.text("disclosureHash"));
        acceptance["ip"] = json!("203.0.113.77");
        acceptance["userAgent"] = json!("SecretBrowser/7");
        let path = format!("/v1/bookings/{booking}/acceptances");
        acme.post(&path, &acceptance).await.ok(201);
        let withhold = ["ip", "metadata", "note", "organizer", "talent", "userAgent"];
        let (_, link) = share(&acme, &booking, json!({"withhold": withhold})).await;
        let (_, open_link) = share(&acme, &booking, json!({})).await;
        let booked = acme.booking(&booking).await;
        let hidden = [
            "203.0.113.77",
            "SecretBrowser/7",
            "secret-desk-7",
            booked["talent"].text("name"),
            booked["organizer"].text("name"),
        ];
        let anybody = server.caller();
        let vkey = server.vkey().await;
        let shown = visit(&anybody, "GET", &link, "application/json").await;
        let report = evidence::verify(&shown.body, &vkey);
        assert!(report.verified(), "{report}");
        assert_eq!(shown.json()["withheld"], json!(withhold));
        let page = visit(&anybody, "POST", &link, "text/html").await;
        for text in [shown.text(), page.text()] {
            let found: Vec<_> = hidden
                .iter()
                .filter(|value| text.contains(**value))
                .collect();
            assert!(found.is_empty(), "{found:?}");
        }
        // Another link to the same booking, and the partner, see them: copies are made and kept apart.
        let whole = visit(&anybody, "GET", &open_link, "application/json").await;
        let own = acme.packet(&booking).await;
        for text in [whole.text(), own.text()] {
            assert!(hidden.iter().all(|value| text.contains(*value)), "{text}");
        }
        let again = visit(&anybody, "GET", &link, "application/json").await;
        assert_eq!(again.body, shown.body);
    })
    .await;
}

/// The link was seen a moment before, so that this view is not recorded, which would notice the revocation too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_that_is_being_made_while_its_link_is_revoked_is_not_sent() {
    on_postgres(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book().await;
        let (made, link) = share(&acme, &booking, json!({})).await;
        let anybody = server.caller();
        let view = async || visit(&anybody, "POST", &link, "text/html").await.status;
        assert_eq!(view().await, 200);

        // A packet needs the time-stamps; finding and revoking a link does not.
        let url = server.database().url();
        let postgres = block_in_place(Postgres::shared).unwrap();
        let lock = "LOCK TABLE stamp IN ACCESS EXCLUSIVE MODE";
        let held = block_in_place(|| postgres.hold(database_of(&url), lock));
        let revoked = async {
            let waits =
                "SELECT count(*) FROM pg_locks WHERE relation = 'stamp'::regclass AND NOT granted";
            until("the evidence waits", async || {
                let waiting = block_in_place(|| postgres.sql(database_of(&url), waits));
                (waiting == "1").then_some(())
            })
            .await;
            let path = format!("/v1/bookings/{booking}/shares/{}", made.text("shareId"));
            acme.delete(&path).await.ok(200);
            block_in_place(|| drop(held));
        };
        let (status, ()) = tokio::join!(view(), revoked);
        assert_eq!(status, 404);
    })
    .await;
}

#[tokio::test]
async fn links_that_show_nothing_answer_alike_to_the_byte() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let (revoked, revoked_link) = share(&acme, &booking, json!({})).await;
        let (_, expired_link) = share(&acme, &booking, json!({"expiresIn": "PT1M"})).await;
        let (_, other_link) = share(&acme, &booking, json!({})).await;
        let path = format!("/v1/bookings/{booking}/shares/{}", revoked.text("shareId"));
        let anybody = server.caller();
        for link in [&revoked_link, &expired_link] {
            assert_eq!(visit(&anybody, "POST", link, "text/html").await.status, 200);
        }
        let first = acme.delete(&path).await.ok(200);
        assert!(first["revokedAt"].is_string());
        server.advance(60_000);
        assert_eq!(
            acme.delete(&path).await.ok(200),
            first,
            "revoking twice changes nothing"
        );
        let mut links = vec![revoked_link, expired_link];
        links.extend(
            [
                "/s/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                "/s/x",
                "/s/a/b",
                "/s/%00%ff",
                "/s/..%2f..%2fv1",
            ]
            .map(str::to_owned),
        );
        links.push(format!("/s/{}", "x".repeat(2_000)));
        links.push(other_link[..other_link.len() - 1].to_owned());
        links.push(format!("{other_link}A"));
        links.push(other_link.to_uppercase().replace("/S/", "/s/"));
        for (method, accept) in [
            ("GET", "text/html"),
            ("GET", "application/json"),
            ("GET", "application/pdf"),
            ("POST", "text/html"),
            ("HEAD", "*/*"),
        ] {
            let mut answers = BTreeSet::new();
            for link in &links {
                let reply = visit(&anybody, method, link, accept).await;
                assert_eq!(reply.status, 404, "{method} {link}");
                answers.insert(whole(&reply));
            }
            assert_eq!(answers.len(), 1, "{method} {accept}: {answers:?}");
            // No network may ask more often than this; the clock stands still between the answers.
            server.advance(60_000);
        }
        assert_eq!(visit(&anybody, "GET", &other_link, "*/*").await.status, 200);
        server.advance(30 * DAY_MS);
        assert_eq!(visit(&anybody, "GET", &other_link, "*/*").await.status, 404);
        // Views of a link that shows nothing are not recorded.
        let views: Vec<Value> = shares(&acme, &booking).await;
        let views = views.iter().map(|share| share["views"].as_u64());
        // Made in the same millisecond, they are in any order.
        assert_eq!(views.sum::<Option<u64>>(), Some(2));
    })
    .await;
}

#[tokio::test]
async fn a_link_shows_nothing_once_the_contract_of_its_partner_has_ended() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let (_, link) = share(&acme, &booking, json!({})).await;
        let anybody = server.caller();
        let open = async |link: &str| visit(&anybody, "POST", link, "text/html").await;
        assert_eq!(open(&link).await.status, 200);
        let database = server.database();
        let end = database.command(["partners", "end", &acme.id, "--yes"]);
        let ended = end.json().await;
        ended.holds(json!({"erased": 1, "done": true}));
        let over = open(&link).await;
        assert_eq!(over.status, 404);
        let unknown = format!("/s/{}", "A".repeat(43));
        assert_eq!(whole(&over), whole(&open(&unknown).await));
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn shares_are_their_partner_s_and_of_their_booking() {
    with_partner_on_every_engine(async |server, acme| {
        let other = server.partner("Other").await;
        let (booking, second, theirs) = (acme.book().await, acme.book().await, other.book().await);
        let (made, link) = share(&acme, &booking, json!({})).await;
        let id = made.text("shareId");
        let foreign = format!("/v1/bookings/{booking}/shares");
        other.get(&foreign).await.refused(404, "not_found");
        let refused = other.post(&foreign, &json!({})).await;
        refused.refused(404, "not_found");
        for (partner, booking) in [(&other, &booking), (&other, &theirs), (&acme, &second)] {
            let path = format!("/v1/bookings/{booking}/shares/{id}");
            partner.delete(&path).await.refused(404, "not_found");
        }
        assert!(shares(&acme, &second).await.is_empty());
        // Reading does not include giving away.
        let reader = acme.scoped(&["evidence:read", "bookings:*"]).await;
        assert_eq!(reader.get(&foreign).await.ok(200).list("data").len(), 1);
        let refused = reader.post(&foreign, &json!({})).await;
        refused.refused(403, "insufficient_scope");
        let revoke = format!("{foreign}/{id}");
        let refused = reader.delete(&revoke).await;
        refused.refused(403, "insufficient_scope");
        let sharer = acme.scoped(&["evidence:share"]).await;
        sharer.delete(&revoke).await.ok(200);
        assert_eq!(
            visit(&server.caller(), "GET", &link, "*/*").await.status,
            404
        );
        // A repeated request gets the same link, which is remembered sealed.
        let body = json!({"note": "once"});
        let first = acme.post_once(&foreign, "once", &body).await;
        let again = acme.post_once(&foreign, "once", &body).await;
        again.replays(&first);
        assert_eq!(shares(&acme, &booking).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn people_are_refused_in_words_and_programs_in_json() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let (_, link) = share(&acme, &booking, json!({})).await;
        let anybody = server.caller();
        let refused = async |method: &str, link: &str, status: u16, words: &str, code: &str| {
            let program = visit(&anybody, method, link, "application/json").await;
            program.refused(status, code);
            let person = visit(&anybody, method, link, BROWSER).await;
            assert_eq!(person.status, status);
            let sent = |name| (person.header(name), program.header(name));
            let (page, json) = sent("retry-after");
            assert_eq!(page, json);
            assert_eq!(sent("content-type").0, Some("text/html; charset=utf-8"));
            let policy = sent("content-security-policy").0.unwrap();
            assert!(policy.starts_with("default-src 'none'"), "{policy}");
            let text = person.text();
            assert!(text.contains(words), "{text}");
            assert!(!text.contains(&link[3..]) && !text.contains('{'), "{text}");
        };
        let poster = format!("{link}?form=poster");
        let words = "Open the link exactly as it was given to you.";
        refused("POST", &poster, 400, words, "not_allowed").await;
        let broken = format!("{link}?x=%zz");
        refused("GET", &broken, 400, words, "invalid_query").await;
        let dead = "This link shows nothing";
        refused("GET", "/s/unknown", 404, dead, "not_found").await;
        for cut in ["/s/", "/s/a/b/"] {
            let page = visit(&anybody, "GET", cut, BROWSER).await;
            assert_eq!(page.status, 404, "{cut}");
            assert!(page.text().contains(dead), "{cut}");
        }
        let database = server.database();
        database.tamper("ALTER TABLE share RENAME TO gone");
        let words = "The service cannot answer at present. Try again in a minute.";
        for method in ["GET", "POST"] {
            refused(method, &link, 503, words, "unavailable").await;
        }
        database.tamper("ALTER TABLE gone RENAME TO share");
        let mut visits = 0;
        while visit(&anybody, "GET", &link, BROWSER).await.status == 200 {
            visits += 1;
            assert!(visits <= SHARE_REQUESTS_PER_MINUTE);
        }
        let words = "Too many came from your network. Try again in a minute.";
        refused("GET", &link, 429, words, "rate_limited").await;
    })
    .await;
}

#[tokio::test]
async fn a_network_may_ask_for_links_so_often_whether_they_show_anything_or_not() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let (_, link) = share(&acme, &booking, json!({})).await;
        let anybody = server.caller();
        for n in 0..SHARE_REQUESTS_PER_MINUTE {
            let (link, status) = match n % 2 {
                0 => (link.as_str(), 200),
                _ => ("/s/unknown", 404),
            };
            assert_eq!(visit(&anybody, "GET", link, "*/*").await.status, status);
        }
        for link in [link.as_str(), "/s/unknown"] {
            let refused = visit(&anybody, "GET", link, "*/*").await;
            refused.refused(429, "rate_limited");
        }
        acme.get(&format!("/v1/bookings/{booking}")).await.ok(200);
        server.advance(60_000);
        assert_eq!(visit(&anybody, "GET", &link, "*/*").await.status, 200);
    })
    .await;
}
