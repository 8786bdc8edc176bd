//! Bookings found by words, and the resolutions of canceled bookings.

use bookguard_tests::caller::Caller;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, with_partner_on_every_engine};
use serde_json::{Value, json};

/// The ids of the bookings that a search finds, newest first.
async fn found(caller: &Caller, text: &str, more: &str) -> Vec<String> {
    let text: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let path = format!("/v1/bookings?limit=2&search={text}{more}");
    let rows = caller.rows(&path).await;
    rows.iter()
        .map(|row| row.text("bookingId").to_owned())
        .collect()
}

async fn book(acme: &Partner, talent: [&str; 2], event_type: &str, metadata: Value) -> String {
    let [id, name] = talent;
    let talent = json!({"id": id, "name": name});
    acme.book_with(json!({"talent": talent, "eventType": event_type, "metadata": metadata}))
        .await
}

#[tokio::test]
async fn bookings_are_found_by_their_words() {
    with_partner_on_every_engine(async |server, acme| {
        let owls = json!({"order": "SH-1001", "venue": "Riverside \"Hall\" 100%"});
        let owls = book(&acme, ["tal-7", "The Night Owls"], "concert", owls).await;
        server.advance(1);
        let zoe = json!({"order": "SH-1002_b"});
        let zoe = book(&acme, ["tal-8", "Zoë Ωμέγας 😀"], "dj set", zoe).await;
        server.advance(1);
        let plain = book(&acme, ["o'8\\n", "Zoe\u{308} Night"], "wedding", json!({})).await;
        acme.protect(&zoe).await;
        let other = server.partner("Other").await;
        let theirs = book(&other, ["tal-7", "The Night Owls"], "concert", json!({})).await;

        let long = "x".repeat(100);
        for (text, expected) in [
            ("OWLS", &[&owls][..]),
            ("night", &[&plain, &owls]),
            ("owls  sh-1001", &[&owls]),
            ("owls sh-1002", &[]),
            ("acme", &[&plain, &zoe, &owls]),
            ("tal-", &[&zoe, &owls]),
            (&owls, &[&owls]),
            (&owls.to_uppercase(), &[&owls]),
            (&theirs, &[]),
            ("dj", &[&zoe]),
            ("\"hall\"", &[&owls]),
            ("100%", &[&owls]),
            ("%", &[&owls]),
            ("_b", &[&zoe]),
            ("h_100", &[]),
            ("\\n", &[&plain]),
            ("'", &[&plain]),
            ("' OR 1=1 --", &[]),
            ("😀", &[&zoe]),
            ("zoë", &[&zoe]),
            ("zoe\u{308}", &[&plain]),
            ("ΩΜΈΓΑΣ", &[&zoe]),
            ("order", &[]),
            ("usd", &[]),
            (&acme.id, &[]),
            (&long, &[]),
            (&"😀".repeat(100), &[]),
        ] {
            let expected: Vec<String> = expected.iter().map(|id| (*id).clone()).collect();
            assert_eq!(found(&acme, text, "").await, expected, "{text}");
        }
        assert_eq!(found(&acme, "night", "&status=protected").await, [""; 0]);
        assert_eq!(found(&acme, "zoë", "&status=protected").await, [&*zoe]);
        let ended = "&eventTo=2031-01-01T00:00:00Z";
        assert_eq!(found(&acme, "night", ended).await, [""; 0]);
        assert_eq!(found(&other, "owls", "").await, [&*theirs]);

        // The operator searches all partners, or one of them.
        let list = async |of: &str| {
            let line = format!("bookings list --search owls --output json {of}");
            let page = server.database().command(line).json().await;
            page.list("data").len()
        };
        assert_eq!(list("").await, 2);
        assert_eq!(list(&format!("--partner {}", other.id)).await, 1);
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_a_person_is_listed_until_it_is_decided() {
    with_partner_on_every_engine(async |server, acme| {
        let none = acme.get("/v1/resolutions").await.ok(200);
        assert_eq!(
            none,
            json!({"data": [], "hasMore": false, "nextCursor": null})
        );
        let mut open = Vec::new();
        for _ in 0..3 {
            acme.book().await;
            open.insert(0, acme.leave_open().await);
            server.advance(1);
        }
        let booking = acme.book_with(json!({"policyId": "firm"})).await;
        let settled = acme.cancel(&booking, &samples::cancellation()).await;
        let other = server.partner("Other").await;
        let theirs = other.leave_open().await;

        let list = async |caller: &Caller, query: &str| {
            let path = format!("/v1/resolutions?limit=2{query}");
            caller.rows(&path).await
        };
        let ids = |rows: &[Value]| -> Vec<String> {
            let ids = rows.iter().map(|row| row.text("resolutionId").to_owned());
            ids.collect()
        };
        let all = list(&acme, "").await;
        assert_eq!(all[0], settled, "as it was answered");
        assert_eq!(ids(&all)[1..], open);
        let pending = "&status=pending_review";
        assert_eq!(ids(&list(&acme, pending).await), open);
        assert_eq!(ids(&list(&acme, "&status=final").await), ids(&all)[..1]);
        assert_eq!(ids(&list(&other, "").await), [theirs]);

        let decide = format!("/v1/resolutions/{}/decide", open[1]);
        let decided = acme.post(&decide, &samples::decision()).await.ok(201);
        let only = list(&acme, "&status=decided").await;
        assert_eq!(only, std::slice::from_ref(&decided));
        assert_eq!(decided["supersedes"], open[1].as_str());
        assert_eq!(ids(&list(&acme, pending).await), [&*open[0], &*open[2]]);
        // The decided one stands where the one that it supersedes stood.
        assert_eq!(list(&acme, "").await[2], decided);

        let blind = acme.scoped(&["evidence:read"]).await;
        let refused = blind.get("/v1/resolutions").await;
        refused.refused(403, "insufficient_scope");
        let count = async |of: &str| {
            let line = format!("resolutions list --status pending_review --output json {of}");
            let page = server.database().command(line).json().await;
            page.list("data").len()
        };
        assert_eq!(count("").await, 3);
        assert_eq!(count(&format!("--partner {}", acme.id)).await, 2);
    })
    .await;
}
