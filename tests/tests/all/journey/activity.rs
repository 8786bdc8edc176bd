//! A partner's last day in numbers: each thing counted once, in its hour, and never another partner's.

use bookguard_core::limits::{DAY_MS, HOUR_MS};
use bookguard_core::model::Timestamp;
use bookguard_tests::caller::Caller;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::Answer;
use bookguard_tests::samples;
use bookguard_tests::test_server::{TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};

async fn activity(caller: &Caller) -> Value {
    caller.get("/v1/activity").await.ok(200)
}

/// The hour that lies `back` hours before the last one: bookings, cancellations, and events by status.
fn hour(activity: &Value, back: usize) -> [u64; 6] {
    let hour = &activity.list("hours")[23 - back];
    assert_eq!(hour["isComplete"], true);
    [
        "bookings",
        "cancellations",
        "delivered",
        "pending",
        "failed",
        "noEndpoints",
    ]
    .map(|name| hour.number(name))
}

#[tokio::test]
async fn the_last_day_is_counted_by_hour_with_what_is_open_now() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let empty = activity(&acme).await;
        assert_eq!(empty.list("hours").len(), 24);
        assert!((0..24).all(|back| hour(&empty, back) == [0; 6]));
        empty.holds(json!({
            "waiting": {"deliveries": 0, "isComplete": true},
            "endpoints": {"active": 0, "failing": 0, "suspended": 0, "disabled": 0, "gone": 0},
            "keysExpiring": 0,
        }));

        // Nobody listens: two bookings, one of them protected, the other canceled. Its decision does not count as another cancellation.
        let first = acme.book().await;
        acme.protect(&first).await;
        let decide = format!("/v1/resolutions/{}/decide", acme.leave_open().await);
        acme.post(&decide, &samples::decision()).await.ok(201);
        other.book().await;
        server.advance(2 * HOUR_MS);
        // One event is accepted; an hour later, one fails and will be tried again.
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        let third = acme.book().await;
        acme.event_that_is(&third, "delivered").await;
        server.advance(HOUR_MS);
        receiver.answer(Answer::Status(500));
        let fourth = acme.book().await;
        acme.event_that_is(&fourth, "failed").await;

        let shown = activity(&acme).await;
        let now = Timestamp::from_ms(server.now_ms());
        assert_eq!(shown["at"], json!(now));
        let last = Timestamp::from_ms(server.now_ms() / HOUR_MS * HOUR_MS);
        assert_eq!(shown["hours"][23]["from"], json!(last));
        assert_eq!(hour(&shown, 3), [2, 1, 0, 0, 0, 5]);
        assert_eq!(hour(&shown, 1), [1, 0, 1, 0, 0, 0]);
        assert_eq!(hour(&shown, 0), [1, 0, 0, 0, 1, 0]);
        shown.holds(json!({
            "waiting": {"deliveries": 1, "isComplete": true},
            "endpoints": {"active": 1, "failing": 0, "suspended": 0, "disabled": 0, "gone": 0},
        }));
        let others = activity(&other).await;
        assert_eq!(hour(&others, 3), [1, 0, 0, 0, 0, 1]);
        assert!((0..3).all(|back| hour(&others, back) == [0; 6]));
        others.holds(json!({"waiting": {"deliveries": 0, "isComplete": true}}));

        // A deleted endpoint takes nothing any more. What happened a day ago is counted no more.
        let endpoint = acme.get("/v1/webhook-endpoints").await.ok(200);
        let endpoint_id = endpoint["data"][0].text("endpointId").to_owned();
        acme.delete_endpoint(&endpoint_id).await;
        server.advance(21 * HOUR_MS);
        let shown = activity(&acme).await;
        assert_eq!(hour(&shown, 22), [1, 0, 1, 0, 0, 0]);
        assert_eq!(hour(&shown, 21), [1, 0, 0, 0, 1, 0]);
        assert!((0..21).chain([23]).all(|back| hour(&shown, back) == [0; 6]));
        shown.holds(json!({"waiting": {"deliveries": 0, "isComplete": true}}));
    })
    .await;
}

#[tokio::test]
async fn keys_that_will_soon_expire_are_counted_until_somebody_acts() {
    with_partner_on_every_engine(async |server, acme| {
        let make = async || {
            let expires = Timestamp::from_ms(server.now_ms() + 30 * DAY_MS);
            let made = acme
                .post("/v1/api-keys", &json!({"expiresAt": expires}))
                .await;
            made.string("apiKeyId")
        };
        let (kept, rotated, revoked) = (make().await, make().await, make().await);
        let expiring = async || activity(&acme).await.number("keysExpiring");
        assert_eq!(expiring().await, 0);
        server.advance(27 * DAY_MS);
        assert_eq!(expiring().await, 3);
        acme.post_nothing(&format!("/v1/api-keys/{rotated}/rotate"))
            .await
            .ok(201);
        assert_eq!(expiring().await, 2);
        let done = acme.delete(&format!("/v1/api-keys/{revoked}")).await;
        done.ok(200);
        assert_eq!(expiring().await, 1);
        server.advance(3 * DAY_MS);
        assert_eq!(expiring().await, 0, "{kept} has expired");
    })
    .await;
}
