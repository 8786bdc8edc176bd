//! Pages of bookings that stay stable while others are added, and the ETags of bookings.

use std::collections::BTreeSet;

use bookguard_tests::caller::Caller;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::with_partner_on_every_engine;
use serde_json::{Value, json};

fn ids(page: &Value, name: &str) -> Vec<String> {
    let rows = page.list("data").iter();
    rows.map(|row| row[name].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn pages_show_each_row_once_newest_first_while_rows_are_added() {
    with_partner_on_every_engine(async |server, acme| {
        let mut expected = Vec::new();
        for _ in 0..23 {
            expected.insert(0, acme.book().await);
            server.advance(1);
        }
        let mut seen = Vec::new();
        let mut path = "/v1/bookings?limit=7".to_owned();
        loop {
            let page = acme.get(&path).await.ok(200);
            let rows = ids(&page, "bookingId");
            assert_eq!(page["hasMore"], page["nextCursor"].is_string());
            assert!(rows.len() == 7 || page["hasMore"] == false);
            seen.extend(rows);
            acme.book().await;
            server.advance(1);
            match page["nextCursor"].as_str() {
                Some(cursor) => path = format!("/v1/bookings?limit=7&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen, expected);
        let first = acme.get("/v1/bookings").await.ok(200);
        assert_eq!(
            (ids(&first, "bookingId").len(), &first["hasMore"]),
            (25, &json!(true))
        );
        let all = acme.get("/v1/bookings?limit=100").await.ok(200);
        assert_eq!(
            (ids(&all, "bookingId").len(), &all["nextCursor"]),
            (27, &Value::Null)
        );
    })
    .await;
}

#[tokio::test]
async fn a_page_that_is_just_full_has_no_next() {
    with_partner_on_every_engine(async |_server, acme| {
        let empty = acme.get("/v1/bookings").await.ok(200);
        assert_eq!(
            empty,
            json!({"data": [], "hasMore": false, "nextCursor": null})
        );
        for _ in 0..3 {
            acme.book().await;
        }
        let full = acme.get("/v1/bookings?limit=3").await.ok(200);
        full.holds(json!({"hasMore": false, "nextCursor": null}));
    })
    .await;
}

#[tokio::test]
async fn other_lists_come_in_pages_too() {
    with_partner_on_every_engine(async |_server, acme| {
        for n in 0..4 {
            acme.endpoint(&format!("http://127.0.0.1:9/{n}")).await;
            acme.scoped(&["bookings:read"]).await;
        }
        for (path, name, count) in [
            ("/v1/webhook-endpoints", "endpointId", 4),
            ("/v1/api-keys", "apiKeyId", 5),
        ] {
            let mut seen = BTreeSet::new();
            let mut cursor = String::new();
            for rest in (0..count).rev() {
                let page = acme.get(&format!("{path}?limit=1{cursor}")).await.ok(200);
                assert_eq!(page["hasMore"], rest > 0, "{path}");
                seen.extend(ids(&page, name));
                cursor = format!(
                    "&cursor={}",
                    page["nextCursor"].as_str().unwrap_or_default()
                );
            }
            assert_eq!(seen.len(), count, "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn lists_are_narrowed_by_status_and_time_of_the_event() {
    with_partner_on_every_engine(async |_server, acme| {
        let book = async |date: &str| {
            let body = samples::booking_with(json!({"eventDate": date}));
            acme.post("/v1/bookings", &body).await.string("bookingId")
        };
        let early = book("2030-01-01T00:00:00Z").await;
        let middle = book("2031-01-01T01:00:00+01:00").await;
        let late = book("2032-01-01T00:00:00Z").await;
        acme.protect(&middle).await;
        let list = async |caller: &Caller, query: &str| {
            let page = caller.get(&format!("/v1/bookings?{query}")).await.ok(200);
            ids(&page, "bookingId").into_iter().collect::<BTreeSet<_>>()
        };
        let all = [&early, &middle, &late];
        for (query, expected) in [
            ("", &all[..]),
            ("status=created", &[&early, &late]),
            ("status=protected", &[&middle]),
            ("status=canceled", &[]),
            ("eventFrom=2031-01-01T00:00:00Z", &[&middle, &late]),
            ("eventTo=2031-01-01T00:00:00Z", &[&early]),
            (
                "eventFrom=2031-01-01T00:00:00Z&eventTo=2031-01-01T00:00:00.001Z",
                &[&middle],
            ),
            (
                "status=created&eventFrom=2031-06-01T00:00:00%2B02:00",
                &[&late],
            ),
        ] {
            let expected = expected.iter().map(|id| (*id).clone()).collect();
            assert_eq!(list(&acme.caller, query).await, expected, "{query}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_unchanged_booking_is_304_until_it_is_protected() {
    with_partner_on_every_engine(async |server, acme| {
        let id = acme.book().await;
        let path = format!("/v1/bookings/{id}");
        let tag = acme.get(&path).await.header("etag").unwrap().to_owned();
        let ask = async |value: &str| {
            let request = acme.request("GET", &path).header("if-none-match", value);
            acme.send(request).await
        };
        server.advance(3_600_000);
        for value in [
            tag.clone(),
            tag.trim_start_matches("W/").to_owned(),
            format!("\"x\", {tag}"),
            "*".to_owned(),
        ] {
            let reply = ask(&value).await;
            assert_eq!((reply.status, reply.body.len()), (304, 0), "{value}");
        }
        acme.protect(&id).await;
        let changed = ask(&tag).await;
        assert_eq!(changed.ok(200)["protected"], true);
        assert_ne!(changed.header("etag"), Some(tag.as_str()));
        // A booking is shown as the same bytes everywhere.
        let listed = acme.get("/v1/bookings").await;
        assert_eq!(
            listed.text(),
            format!(
                r#"{{"data":[{}],"hasMore":false,"nextCursor":null}}"#,
                changed.text()
            )
        );
        // `If-None-Match` does not reveal another partner's booking.
        let other = server.partner("Other").await;
        let request = other.request("GET", &path).header("if-none-match", "*");
        assert_eq!(other.send(request).await.status, 404);
    })
    .await;
}
