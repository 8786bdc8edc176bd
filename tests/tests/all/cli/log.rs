//! A partner's events in the terminal: listed, shown as they happen, posted to a local address, triggered.

use bookguard_core::clock::Clock;
use bookguard_core::webhook::{self, Secret};
use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::files::{mode, names};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::Serving;
use bookguard_tests::receiver::{Answer, Receiver};
use serde_json::{Value, json};
use tempfile::TempDir;

#[tokio::test]
async fn events_are_listed_by_number_and_followed_through_a_restart_of_the_server() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme) = Serving::with_partner(&database, &[]).await;
        let booking = acme.book().await;
        let mut tail = acme.command("webhook-events tail --after 0").start();
        let mut next = async |seq: u64, event_type: &str| {
            let event: Value = serde_json::from_str(&tail.line().await).unwrap();
            event.holds(json!({"seq": seq, "type": event_type}));
        };
        next(1, "booking.created").await;
        acme.protect(&booking).await;
        next(2, "booking.protected").await;

        let list = acme.command("webhook-events list --limit 1");
        let page = list.run().await.json();
        page.holds(json!({"hasMore": true, "nextAfter": 1}));
        let list = "webhook-events list --limit 1 --output table";
        let table = acme.command(list).run().await;
        let more = "There are more: --after 1\n";
        assert!(table.said(&["NO"]).stdout.ends_with(more), "{table:?}");
        let list = "webhook-events list --before latest --limit 1";
        let page = acme.command(list).run().await.json();
        page.holds(json!({"hasMore": true, "nextAfter": 2, "nextBefore": 2}));
        let table = acme.command(format!("{list} --output table")).run().await;
        let more = "There are more: --before 2\n";
        assert!(table.said(&["NO"]).stdout.ends_with(more), "{table:?}");
        let list = format!("webhook-events list --type booking.protected --booking {booking}");
        let found = acme.command(&list).run().await.json();
        assert_eq!(found["data"][0]["seq"], 2);
        // The administrator sees a booking's events oldest first, and those of all partners newest first.
        let of_booking = format!("webhook-events list --booking {booking}");
        let own = database.command(of_booking).run().await.json();
        assert_eq!(own["nextAfter"], 2);
        let all = database.command("webhook-events list").run().await.json();
        let numbers = all.list("data").iter().map(|event| event.number("seq"));
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 1]);

        let address = server.address().to_owned();
        server.stop().await;
        let server = Serving::of(database.command(format!("serve --listen {address}"))).await;
        acme.book().await;
        next(3, "booking.created").await;
        // Its reader goes away while no event comes.
        assert_eq!(tail.unread().await, Some(0));
        server.stop().await;
    })
    .await;
}

#[tokio::test]
async fn events_are_posted_to_a_local_address_signed_and_kept() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme) = Serving::with_partner(&database, &[]).await;
        let receiver = Receiver::start().await;
        receiver.answer_next([Answer::Status(200), Answer::Close]);
        let printed = acme.command("listen --print-secret").run().await;
        let secret = Secret::new(printed.stdout.trim());
        assert!(printed.stdout.starts_with("whsec_") && secret.reveal() != acme.secret);
        acme.book().await;

        let folder = TempDir::new().unwrap();
        let save = folder.path().join("kept");
        let types = "booking.protected,resolution.created";
        let address = receiver.url();
        let line = format!("listen --forward-to {address} --events {types} --after 0 --save");
        let mut listening = acme.command(line).arg(&save).start();
        for (seq, event_type) in [(3, "booking.protected"), (5, "resolution.created")] {
            let made = acme.command(format!("trigger {event_type}")).run();
            let made = made.await.json();
            made.holds(json!({"seq": seq, "type": event_type}));
            let posted: Value = serde_json::from_str(&listening.line().await).unwrap();
            posted.holds(json!({"seq": seq, "eventId": made["eventId"]}));
            match seq {
                3 => assert_eq!(posted["statusCode"], 200),
                // The receiver hung up; the next event is still posted.
                _ => assert!(posted["error"].is_string() && posted["statusCode"].is_null()),
            }
            let hooks = receiver.wait_for(if seq == 3 { 1 } else { 2 }).await;
            let hook = hooks.last().unwrap();
            assert_eq!(hook.body_verifies(&secret), Ok(()));
            let now = Clock::System.now().unix_seconds();
            let verified = hook.verifies(&secret, now, Some(webhook::TOLERANCE));
            assert_eq!(verified, Ok(()));
            let body = hook.json();
            for name in [
                "eventId",
                "type",
                "bookingId",
                "timestamp",
                "payload",
                "seq",
            ] {
                assert_eq!(body[name], made[name], "{name}");
            }
            let kept = save.join(format!("{seq:08}-{event_type}.json"));
            assert_eq!(std::fs::read(&kept).unwrap(), hook.body);
            assert_eq!(mode(&kept), 0o600, "it holds personal data");
        }
        assert_eq!(names(&save).len(), 2);
        // A file that cannot be written is no fault of the command line.
        let taken = folder.path().join("taken");
        std::fs::create_dir_all(taken.join("00000001-booking.created.json.new")).unwrap();
        let line = format!("listen --forward-to {address} --after 0 --save");
        let ran = acme.command(line).arg(&taken).run().await;
        ran.ended(1, &["booking.created.json cannot be written"]);

        // Directly on the database, events are signed as deliveries are.
        let own = database.command(format!("listen --print-secret --partner {}", acme.id));
        let own = own.run().await;
        assert_eq!(own.stdout.trim(), acme.secret);
        let forward = "listen --forward-to http://127.0.0.1:9/";
        for (line, says) in [
            ("listen --forward-to localhost", "is not an address"),
            (&format!("{forward} --events x"), "is not a type"),
            (
                &format!("{forward} --save /proc/nowhere"),
                "cannot be written",
            ),
            ("listen", "--forward-to"),
            ("trigger booking.made", "booking.created, booking.protected"),
        ] {
            acme.command(line).run().await.ended(2, &[says]);
        }
        server.stop().await;
    })
    .await;
}
