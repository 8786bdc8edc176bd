//! Endpoints that change while events wait for them, and secrets that are replaced while deliveries are in progress.

use bookguard_core::limits::DAY_MS;
use bookguard_core::webhook::Secret;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Received, Receiver};
use bookguard_tests::test_server::with_partner_on_every_engine;
use bookguard_tests::waiting::until;
use serde_json::json;

const SECOND: i64 = 1000;

/// Returns the indexes of the secrets that made `x-service-signature`, and of those that made one in `webhook-signature`.
fn signed_with(received: &Received, secrets: &[&str], now_ms: i64) -> (Vec<usize>, Vec<usize>) {
    let now = now_ms / SECOND;
    let body = |secret: &Secret| received.body_verifies(secret).is_ok();
    let standard = |secret: &Secret| received.verifies(secret, now, None).is_ok();
    let those = |fits: &dyn Fn(&Secret) -> bool| {
        let fitting = secrets.iter().enumerate();
        fitting
            .filter(|(_, secret)| fits(&Secret::new(**secret)))
            .map(|(index, _)| index)
            .collect()
    };
    (those(&body), those(&standard))
}

#[tokio::test]
async fn what_waits_goes_to_the_address_the_endpoint_has_then() {
    with_partner_on_every_engine(async |server, acme| {
        let (old, new) = (Receiver::start().await, Receiver::start().await);
        old.answer(Answer::Status(500));
        let endpoint = acme.endpoint(&old.url()).await;
        let booking = acme.book().await;
        acme.event_that_is(&booking, "failed").await;
        let changed = acme
            .change_endpoint(&endpoint, json!({"url": new.url()}))
            .await;
        assert_eq!(changed["url"], new.url());
        server.advance(6 * SECOND);
        let event = acme.event_that_is(&booking, "delivered").await;
        assert_eq!(event["deliveries"][0]["url"], new.url());
        let event = acme.event(&event).await;
        let attempts = event.list("attempts").iter();
        let urls: Vec<&str> = attempts.map(|attempt| attempt.text("url")).collect();
        assert_eq!(urls, [old.url(), new.url()]);
        assert_eq!((old.received().len(), new.received().len()), (1, 1));
        // A change of address is checked against the address rules again.
        let path = format!("/v1/webhook-endpoints/{endpoint}");
        let body = json!({"url": "https://169.254.169.254/"});
        let refused = acme.patch(&path, &body).await;
        refused.faulty(&[("/url", "blocked_address")]);
        assert_eq!(acme.endpoint_shown(&endpoint).await, changed);
    })
    .await;
}

#[tokio::test]
async fn what_a_former_address_answers_neither_disables_the_new_one_nor_ends_a_delivery() {
    with_partner_on_every_engine(async |server, acme| {
        let (old, new) = (Receiver::start().await, Receiver::start().await);
        old.answer(Answer::Silence);
        let endpoint = acme.endpoint(&old.url()).await;
        server.advance(DAY_MS);
        let booking = acme.book().await;
        old.wait_for(1).await;
        let changed = acme
            .change_endpoint(&endpoint, json!({"url": new.url()}))
            .await;
        old.answer(Answer::Status(410));
        acme.event_that_is(&booking, "failed").await;
        assert_eq!(acme.endpoint_shown(&endpoint).await, changed);
        server.database().verify(1).await;
        server.advance(6 * SECOND);
        acme.event_that_is(&booking, "delivered").await;
        let later = acme.book().await;
        acme.event_that_is(&later, "delivered").await;
        let report = server.close().await.verify(2).await;
        assert!(!report["warnings"].to_string().contains("410"), "{report}");
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_was_gone_resumes_what_waits_but_not_what_it_refused() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, endpoint) = acme.receiving(Answer::Status(500)).await;
        let waiting = acme.book().await;
        acme.event_that_is(&waiting, "failed").await;
        receiver.answer(Answer::Status(410));
        let refused = acme.book().await;
        until("the 410", async || {
            let shown = acme.endpoint_shown(&endpoint).await;
            (shown["status"] == "gone" && shown["enabled"] == false).then_some(())
        })
        .await;
        let missed = acme.book().await;
        acme.event_that_is(&missed, "no_endpoints").await;
        let shown = acme.events(&waiting).await.remove(0);
        assert!(shown["nextAttemptAt"].is_null(), "nothing is due: {shown}");
        shown["deliveries"][0]
            .holds(json!({"status": "failed", "progress": "waiting_for_endpoint"}));
        server.advance(DAY_MS);
        // A delivery to another endpoint shows that the courier has looked for work since.
        let (_other, beside) = acme.receiving(Answer::Status(200)).await;
        let heard = acme.book().await;
        acme.event_that_is(&heard, "delivered").await;
        acme.delete_endpoint(&beside).await;
        assert_eq!(receiver.count(), 2);
        receiver.answer(Answer::Status(200));
        let back = acme
            .change_endpoint(&endpoint, json!({"enabled": true}))
            .await;
        back.holds(json!({"status": "active", "enabled": true}));
        acme.event_that_is(&waiting, "delivered").await;
        let later = acme.book().await;
        acme.event_that_is(&later, "delivered").await;
        let given_up = acme.event_that_is(&refused, "failed").await;
        assert!(given_up["nextAttemptAt"].is_null(), "{given_up}");
        given_up["deliveries"][0].holds(json!({"status": "failed", "progress": "ended"}));
        acme.event_that_is(&missed, "no_endpoints").await;
        // A manual retry still delivers it.
        let retried = acme.retry(&given_up).await.ok(200);
        assert_eq!(retried["retryStatus"], "delivered");
        server.close().await.verify(5).await;
    })
    .await;
}

#[tokio::test]
async fn while_it_is_disabled_an_endpoint_gets_nothing_and_what_waits_goes_on_waiting() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, endpoint) = acme.receiving(Answer::Status(500)).await;
        let waiting = acme.book().await;
        let event = acme.event_that_is(&waiting, "failed").await;
        let off = acme
            .change_endpoint(&endpoint, json!({"enabled": false}))
            .await;
        assert_eq!(off["status"], "disabled");
        server.advance(6 * SECOND);
        let missed = acme.book().await;
        acme.event_that_is(&missed, "no_endpoints").await;
        let refused = acme.retry(&event).await;
        refused.refused(409, "no_endpoints");
        refused.says(&[&endpoint]);
        receiver.answer(Answer::Status(200));
        // A delivery to another endpoint shows that the courier has looked for work since.
        let (other, _) = acme.receiving(Answer::Status(200)).await;
        acme.book().await;
        other.wait_for(1).await;
        assert_eq!(receiver.received().len(), 1);
        server.advance(DAY_MS);
        acme.change_endpoint(&endpoint, json!({"enabled": true}))
            .await;
        acme.event_that_is(&waiting, "delivered").await;
        server.close().await.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn changed_types_apply_to_new_events_and_older_events_keep_their_delivery() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, endpoint) = acme.receiving(Answer::Status(200)).await;
        let first = acme.book().await;
        acme.event_that_is(&first, "delivered").await;
        server.advance(DAY_MS);
        let only = json!({"events": ["booking.protected"], "description": "later"});
        let changed = acme.change_endpoint(&endpoint, only).await;
        assert_eq!(changed["events"], json!(["booking.protected"]));
        server.advance(DAY_MS);
        let second = acme.book().await;
        acme.event_that_is(&second, "no_endpoints").await;
        acme.protect(&second).await;
        receiver.wait_for(2).await;
        server.advance(DAY_MS);
        let all = acme
            .change_endpoint(&endpoint, json!({"events": null, "description": null}))
            .await;
        assert_eq!(all["events"], json!([]));
        assert!(all["description"].is_null());
        server.advance(DAY_MS);
        acme.book().await;
        receiver.wait_for(3).await;
        server.close().await.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn the_old_secret_signs_beside_the_new_one_until_it_takes_over() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        server.advance(SECOND);
        let path = "/v1/partners/me/rotate-secret";
        let rotated = acme.post(path, &json!({"overlapSeconds": 60})).await;
        let (secret, at) = (rotated.string("secret"), rotated.string("switchesAt"));
        let at = bookguard_core::model::Timestamp::parse(&at).unwrap();
        assert_eq!(at.ms(), server.now_ms() + 60 * SECOND);
        let secrets = [acme.secret.as_str(), &secret];
        let mut seen = Vec::new();
        let mut listed = Vec::new();
        for wait in [0, 59_999, 1] {
            server.advance(wait);
            let booking = acme.book().await;
            receiver.wait_for(seen.len() + 1).await;
            let received = receiver.received().pop().unwrap();
            seen.push(signed_with(&received, &secrets, server.now_ms()));
            let event = acme.event_that_is(&booking, "delivered").await;
            listed.push(event["signature"] == received.header("x-service-signature"));
        }
        let both = (vec![0], vec![0, 1]);
        assert_eq!(seen, [both.clone(), both, (vec![1], vec![1])]);
        assert_eq!(listed, [true; 3], "listings show what was sent last");
        server.close().await.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_can_have_its_own_secret_and_listings_keep_the_partners() {
    with_partner_on_every_engine(async |server, acme| {
        let (born, later) = (Receiver::start().await, Receiver::start().await);
        let made = acme
            .new_endpoint(json!({"url": born.url(), "ownSecret": true}))
            .await;
        let own = made.text("secret").to_owned();
        assert!(made["switchesAt"].is_null());
        let plain = acme.endpoint(&later.url()).await;
        let changed = acme
            .change_endpoint(&plain, json!({"ownSecret": true}))
            .await;
        let own_later = changed.text("secret").to_owned();
        let shown = acme.get("/v1/webhook-endpoints").await.text();
        for secret in [&own, &own_later] {
            assert!(secret.starts_with("whsec_") && !shown.contains(secret.as_str()));
        }
        let secrets = [acme.secret.as_str(), &own, &own_later];
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "delivered").await;
        let [first, second] = [&born, &later].map(|receiver| {
            let received = receiver.received().pop().unwrap();
            signed_with(&received, &secrets, server.now_ms())
        });
        assert_eq!(first, (vec![1], vec![1]));
        assert_eq!(second, (vec![0], vec![0, 2]));
        let partners = later.received().pop().unwrap();
        assert_eq!(event["signature"], partners.header("x-service-signature"));
        server.advance(DAY_MS);
        // Rotated without an overlap: from now on only the new secret signs.
        let path = format!("/v1/webhook-endpoints/{plain}/rotate-secret");
        let rotated = acme.post(&path, &json!({"overlapSeconds": 0})).await;
        let newest = rotated.string("secret");
        let secrets = [acme.secret.as_str(), &own_later, &newest];
        let booking = acme.book().await;
        acme.event_that_is(&booking, "delivered").await;
        let received = later.received().pop().unwrap();
        let signed = signed_with(&received, &secrets, server.now_ms());
        assert_eq!(signed, (vec![2], vec![2]));
        server.advance(DAY_MS);
        let back = acme
            .change_endpoint(&plain, json!({"ownSecret": false}))
            .await;
        assert!(back["secret"].is_null() && back["ownSecret"] == false);
        let booking = acme.book().await;
        acme.event_that_is(&booking, "delivered").await;
        let received = later.received().pop().unwrap();
        let signed = signed_with(&received, &secrets, server.now_ms());
        assert_eq!(signed, (vec![0], vec![0]));
        server.close().await.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn a_repeated_rotation_answers_the_same_secret_and_no_secret_is_stored_in_the_open() {
    with_partner_on_every_engine(async |server, acme| {
        let body = json!({"url": "http://127.0.0.1:9/", "ownSecret": true});
        let path = "/v1/webhook-endpoints";
        let [made, again] = [
            acme.post_once(path, "made", &body).await,
            acme.post_once(path, "made", &body).await,
        ];
        again.replays(&made);
        let own = format!("{path}/{}/rotate-secret", made.string("endpointId"));
        let mut secrets = vec![made.string("secret")];
        for path in [&own, "/v1/partners/me/rotate-secret"] {
            let first = acme.post_once(path, path, &json!({})).await;
            let second = acme.post_once(path, path, &json!({})).await;
            second.replays(&first);
            secrets.push(first.string("secret"));
            let other = json!({"overlapSeconds": 1});
            let reused = acme.post_once(path, path, &other).await;
            reused.refused(422, "idempotency_key_reused");
        }
        secrets.sort();
        secrets.dedup();
        assert_eq!(secrets.len(), 3);
        let database = server.close().await;
        database.verify(0).await;
        if let Some(file) = database.db().file() {
            let stored = std::fs::read(file).unwrap();
            for secret in &secrets {
                let open = stored.windows(secret.len()).any(|w| w == secret.as_bytes());
                assert!(!open, "a secret is in the file");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_test_is_a_signed_delivery_that_changes_nothing_and_answers_what_came_of_it() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, endpoint) = acme.receiving(Answer::Status(200)).await;
        let path = format!("/v1/webhook-endpoints/{endpoint}");
        let test = format!("{path}/test");
        let before = acme.get(&path).await.ok(200);

        let [first, again] = [
            acme.post_once(&test, "once", &json!({})).await,
            acme.post_once(&test, "once", &json!({})).await,
        ];
        again.replays(&first);
        let attempt = first.ok(200);
        attempt.holds(json!({"endpointId": endpoint, "delivered": true, "statusCode": 200}));
        let received = receiver.wait_for(1).await.remove(0);
        let secrets = [acme.secret.as_str()];
        let signed = signed_with(&received, &secrets, server.now_ms());
        assert_eq!(signed, (vec![0], vec![0]));
        let body = received.json();
        let id = body.text("eventId");
        assert_eq!(received.header("webhook-id"), id);
        let payload = json!({"partnerId": acme.id, "endpointId": endpoint});
        body.holds(json!({"type": "endpoint.test", "bookingId": null, "status": "pending", "payload": payload}));
        let unknown = acme.get(&format!("/v1/webhook-events/{id}")).await;
        assert_eq!(unknown.status, 404, "it is listed nowhere");

        for (answer, error) in [
            (Answer::Status(410), "gone"),
            (Answer::Status(413), "payload_too_large"),
            (
                Answer::Headed(302, "location: http://127.0.0.1:9/\r\n"),
                "redirect_refused",
            ),
            (Answer::Close, "connection_reset"),
        ] {
            receiver.answer(answer);
            let failed = acme.post_nothing(&test).await.ok(200);
            failed.holds(json!({"delivered": false, "error": error}));
        }
        assert_eq!(acme.get(&path).await.ok(200), before);
        // A test goes to the new address at once, even if the endpoint is disabled.
        let other = Receiver::start().await;
        let body = json!({"url": other.url(), "enabled": false});
        acme.change_endpoint(&endpoint, body).await;
        let attempt = acme.post_nothing(&test).await.ok(200);
        assert_eq!(attempt["delivered"], true);
        acme.delete(&path).await.ok(200);
        acme.post_once(&test, "once", &json!({})).await.replays(&first);
        acme.post_nothing(&test).await.refused(404, "not_found");
        assert_eq!((receiver.received().len(), other.received().len()), (5, 1));
        server.close().await.verify(0).await;
    })
    .await;
}

#[tokio::test]
async fn a_limited_endpoint_gets_everything_at_its_own_rate() {
    const BOOKINGS: u32 = 12;
    const PER_SECOND: u32 = 20;
    with_partner_on_every_engine(async |server, acme| {
        let (slow, quick) = (Receiver::start().await, Receiver::start().await);
        let limited = json!({"url": slow.url(), "rateLimitPerSecond": PER_SECOND});
        let made = acme.new_endpoint(limited).await;
        assert_eq!(made["rateLimitPerSecond"], PER_SECOND);
        acme.endpoint(&quick.url()).await;
        let began = std::time::Instant::now();
        for _ in 0..BOOKINGS {
            acme.book().await;
        }
        quick.wait_for(BOOKINGS as usize).await;
        slow.wait_for(BOOKINGS as usize).await;
        let least = std::time::Duration::from_secs(1) * (BOOKINGS - 1) / PER_SECOND;
        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
        server.close().await;
    })
    .await;
}
