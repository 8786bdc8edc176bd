//! Evidence packets are reused as long as a new one would have the same contents.

use bookguard_core::limits::{ENTRIES_AT_ONCE, PACKET_KEPT_MS};
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use serde_json::json;

/// Requests a packet with `If-None-Match` set to this tag.
async fn ask(caller: &Caller, booking: &str, tag: &str) -> Reply {
    let path = format!("/v1/bookings/{booking}/evidence");
    let request = caller.request("GET", &path);
    caller.send(request.header("if-none-match", tag)).await
}

fn tag(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.header("etag").unwrap().to_owned()
}

#[tokio::test]
async fn a_packet_is_the_one_made_before_until_something_happens_to_its_booking() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book().await;
        let first = ask(&acme.caller, &booking, "\"none\"").await;
        let mut last = tag(&first);
        assert!(last.starts_with("W/\""), "{last}");
        // Other bookings and a short time change nothing.
        server.advance(1_000);
        acme.book().await;
        let again = ask(&acme.caller, &booking, "\"none\"").await;
        assert_eq!((tag(&again), &again.body), (last.clone(), &first.body));
        let kept = ask(&acme.caller, &booking, &last).await;
        kept.headed(304, "etag", &last);
        assert!(kept.body.is_empty());
        // After [`PACKET_KEPT_MS`] a packet with the same contents is made again, with a later `createdAt`.
        server.advance(PACKET_KEPT_MS);
        let later = ask(&acme.caller, &booking, "\"none\"").await;
        assert_eq!(tag(&later), last);
        assert_ne!(later.json()["createdAt"], first.json()["createdAt"]);
        assert_eq!(later.json().list("entries").len(), 1);
        // Each new entry changes the tag at once.
        acme.protect(&booking).await;
        let protected = ask(&acme.caller, &booking, &last).await;
        assert_ne!(tag(&protected), last);
        assert!(protected.json()["booking"]["protectedAt"].is_string());
        last = tag(&protected);
        let path = format!("/v1/bookings/{booking}/reschedule");
        acme.post(&path, &samples::new_date()).await.ok(200);
        let moved = ask(&acme.caller, &booking, &last).await;
        assert_eq!(moved.json().list("entries").len(), 3);
        last = tag(&moved);
        // The result that a cancellation would have today differs six years later.
        server.advance(6 * 365 * 86_400_000);
        let past = ask(&acme.caller, &booking, &last).await;
        assert_ne!(tag(&past), last);
        // A tag does not reveal another partner's booking.
        let other = server.partner("Other").await;
        assert_eq!(ask(&other.caller, &booking, "*").await.status, 404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_tells_of_every_attempt_there_was_when_it_was_asked_for() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let receiver = Receiver::answering(Answer::Status(500)).await;
        let endpoint = acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        let attempted = |reply: &Reply| reply.json()["deliveries"][0]["attempts"].clone();
        let failed = until("a failed attempt in the packet", async || {
            let reply = ask(&acme.caller, &booking, "\"none\"").await;
            (attempted(&reply) == 1).then_some(reply)
        })
        .await;
        // Only the address changes.
        let moved = json!({"url": format!("{}/elsewhere", receiver.url())});
        acme.change_endpoint(&endpoint, moved).await;
        let elsewhere = ask(&acme.caller, &booking, &tag(&failed)).await;
        assert_ne!(tag(&elsewhere), tag(&failed));
        receiver.answer(Answer::Status(200));
        let event = acme.events(&booking).await[0]["eventId"].clone();
        let retry = format!("/v1/webhook-events/{}/retry", event.as_str().unwrap());
        acme.post_nothing(&retry).await.ok(200);
        let delivered = ask(&acme.caller, &booking, &tag(&elsewhere)).await;
        assert_eq!(attempted(&delivered), 2);
        assert_eq!(delivered.json()["deliveries"][0]["status"], "delivered");
        assert_eq!(delivered.json().list("entries").len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_packet_that_takes_long_is_as_whole_and_kept_as_well() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book().await;
        let path = format!("/v1/bookings/{booking}/reschedule");
        let mut entries = 1;
        while entries <= ENTRIES_AT_ONCE {
            let mut date = samples::new_date();
            date["eventDate"] = json!(format!("2031-10-20T{entries:02}:00:00-04:00"));
            acme.post(&path, &date).await.ok(200);
            entries += 1;
        }
        let whole = ask(&acme.caller, &booking, "\"none\"").await;
        let shown = whole.json().list("entries").len();
        assert_eq!(shown as u64, entries);
        let again = ask(&acme.caller, &booking, "\"none\"").await;
        assert_eq!(again.body, whole.body);
        assert_eq!(ask(&acme.caller, &booking, &tag(&whole)).await.status, 304);
    })
    .await;
}

#[tokio::test]
async fn a_packet_is_a_page_or_a_pdf_for_who_asks_for_one() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book().await;
        let ask = async |accept: &str, query: &str, tag: &str| {
            let path = format!("/v1/bookings/{booking}/evidence{query}");
            let request = acme.caller.request("GET", &path).header("accept", accept);
            acme.caller.send(request.header("if-none-match", tag)).await
        };
        let mut tags = Vec::new();
        for (accept, query, media_type, begins) in [
            ("application/json", "", "application/json", "{"),
            ("*/*", "", "application/json", "{"),
            ("*/*", "?form=archive", "application/pdf", "%PDF-"),
            // As clients do that send every default.
            ("*/*", "?form=bank", "application/json", "{"),
            ("application/json", "?form=archive", "application/json", "{"),
            ("text/html,*/*;q=0.8", "", "text/html", "<!doctype html>"),
            ("application/pdf", "", "application/pdf", "%PDF-"),
            ("application/pdf", "?form=bank", "application/pdf", "%PDF-"),
            (
                "application/pdf",
                "?form=archive",
                "application/pdf",
                "%PDF-",
            ),
        ] {
            let reply = ask(accept, query, "\"none\"").await;
            let told = String::from_utf8_lossy(&reply.body).to_lowercase();
            assert_eq!(reply.status, 200, "{told}");
            assert_eq!(reply.header("content-type"), Some(media_type));
            assert!(
                told.starts_with(&begins.to_lowercase()),
                "{accept}: {told:.80}"
            );
            let vary = reply.header("vary").map(str::to_lowercase);
            assert_eq!(vary.as_deref(), Some("accept"));
            let kept = ask(accept, query, &tag(&reply)).await;
            assert_eq!((kept.status, kept.body.len()), (304, 0), "{accept}{query}");
            if let Some(named) = reply.header("content-disposition") {
                let name = named
                    .split('"')
                    .nth(1)
                    .unwrap()
                    .strip_suffix(".pdf")
                    .unwrap();
                let short = name.len() <= 16 && name.bytes().all(|b| b.is_ascii_alphanumeric());
                assert!(short && named.starts_with("attachment"), "{named}");
            }
            tags.push(tag(&reply));
        }
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 4, "{tags:?}");
        for (accept, query, status) in [
            ("image/png", "", 406),
            ("application/pdf", "?form=poster", 400),
        ] {
            let reply = ask(accept, query, "\"none\"").await;
            assert_eq!(reply.status, status, "{}", reply.text());
        }
        for (query, code) in [
            ("?form=bank&form=bank", "duplicate_query_parameter"),
            ("?form=bank&form=archive", "duplicate_query_parameter"),
            ("?shape=bank", "unknown_query_parameter"),
        ] {
            let reply = ask("application/pdf", query, "\"none\"").await;
            let name = query[1..].split('=').next().unwrap();
            reply.faulty(&[(&format!("?{name}"), code)]);
        }
        let poster = ask("application/pdf", "?form=poster", "\"none\"").await;
        poster.faulty(&[("?form", "not_allowed")]);
        let fault = &poster.json()["details"][0];
        assert_eq!(fault["message"], "\"poster\" is not an allowed value");
        assert_eq!(fault["fix"], "Send one of: bank, archive.");
        server.close().await.verify(1).await;
    })
    .await;
}
