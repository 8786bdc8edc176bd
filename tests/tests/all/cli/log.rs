//! A partner's events in the terminal: listed, shown as they happen, posted to an address of the machine, made to happen.

use bookguard_core::clock::Clock;
use bookguard_core::webhook::{self, Secret, StandardHeaders};
use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::program::{CommandLine, Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::Partner;
use serde_json::Value;
use tempfile::TempDir;

/// The command line, on this server with this partner's key.
fn on(server: &Serving, partner: &Partner, args: &[&str]) -> CommandLine {
    bookguard(args.iter().copied())
        .env("BOOKGUARD_URL", server.url())
        .env("BOOKGUARD_API_KEY", partner.key.as_str())
}

#[tokio::test]
async fn events_are_listed_by_number_and_followed_through_a_restart_of_the_server() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &[]).await;
        let acme = Partner::register(&server.caller(), "Acme").await;
        let booking = acme.book().await;
        let mut tail = on(&server, &acme, &["webhook-events", "tail", "--after", "0"]).start();
        let mut next = async |seq: u64, event_type: &str| {
            let event: Value = serde_json::from_str(&tail.line().await).unwrap();
            assert_eq!(
                (&event["seq"], &event["type"]),
                (&seq.into(), &event_type.into())
            );
        };
        next(1, "booking.created").await;
        acme.protect(&booking).await;
        next(2, "booking.protected").await;

        let list = on(&server, &acme, &["webhook-events", "list", "--limit", "1"]);
        let page = list.run().await.json();
        assert_eq!(
            (&page["hasMore"], &page["nextAfter"]),
            (&true.into(), &1.into())
        );
        let list = [
            "webhook-events",
            "list",
            "--limit",
            "1",
            "--output",
            "table",
        ];
        let table = on(&server, &acme, &list).run().await.stdout;
        assert!(
            table.contains("NO") && table.ends_with("More: --after 1\n"),
            "{table}"
        );
        let list = [
            "webhook-events",
            "list",
            "--type",
            "booking.protected",
            "--booking",
            &booking,
        ];
        assert_eq!(
            on(&server, &acme, &list).run().await.json()["data"][0]["seq"],
            2
        );
        // The administrator sees a booking's in their order, and all partners' newest first.
        let of_booking = ["webhook-events", "list", "--booking", &booking];
        let own = database.command(of_booking).run().await.json();
        assert_eq!(own["nextAfter"], 2);
        let all = database
            .command(["webhook-events", "list"])
            .run()
            .await
            .json();
        assert_eq!(
            (&all["data"][0]["seq"], &all["data"][1]["seq"]),
            (&2.into(), &1.into())
        );

        let address = server.url().strip_prefix("http://").unwrap().to_owned();
        assert_eq!(server.terminate().await.0, Some(0));
        let server = Serving::of(database.command(["serve", "--listen", &address])).await;
        acme.book().await;
        next(3, "booking.created").await;
        assert_eq!(server.terminate().await.0, Some(0));
    })
    .await;
}

#[tokio::test]
async fn events_are_posted_to_a_local_address_signed_and_kept() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &[]).await;
        let acme = Partner::register(&server.caller(), "Acme").await;
        let receiver = Receiver::start().await;
        receiver.answer_next([Answer::Status(200), Answer::Close]);
        let printed = on(&server, &acme, &["listen", "--print-secret"])
            .run()
            .await;
        let secret = Secret::new(printed.stdout.trim());
        assert!(printed.stdout.starts_with("whsec_") && secret.reveal() != acme.secret);
        acme.book().await;

        let folder = TempDir::new().unwrap();
        let save = folder.path().join("kept");
        let types = "booking.protected,resolution.created";
        let address = receiver.url();
        let line = [
            "listen",
            "--forward-to",
            &address,
            "--events",
            types,
            "--save",
            save.to_str().unwrap(),
            "--after",
            "0",
        ];
        let mut listening = on(&server, &acme, &line).start();
        for (seq, event_type) in [(3, "booking.protected"), (5, "resolution.created")] {
            let made = on(&server, &acme, &["trigger", event_type])
                .run()
                .await
                .json();
            assert_eq!(
                (&made["seq"], &made["type"]),
                (&seq.into(), &event_type.into())
            );
            let posted: Value = serde_json::from_str(&listening.line().await).unwrap();
            assert_eq!(
                (&posted["seq"], &posted["eventId"]),
                (&seq.into(), &made["eventId"])
            );
            match seq {
                3 => assert_eq!(posted["statusCode"], 200),
                // The receiver hung up; the next event would be posted all the same.
                _ => assert!(posted["error"].is_string() && posted["statusCode"].is_null()),
            }
            let hook = receiver
                .wait_for(if seq == 3 { 1 } else { 2 })
                .await
                .pop()
                .unwrap();
            let signature = hook.header("x-service-signature");
            assert_eq!(webhook::verify(&secret, signature, &hook.body), Ok(()));
            let headers = StandardHeaders {
                id: hook.header("webhook-id"),
                timestamp: hook.header("webhook-timestamp"),
                signature: hook.header("webhook-signature"),
            };
            let now = Clock::System.now().unix_seconds();
            let standard = webhook::verify_standard(
                &secret,
                headers,
                &hook.body,
                now,
                Some(webhook::TOLERANCE),
            );
            assert_eq!(standard, Ok(()));
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
            assert_eq!(std::fs::read(kept).unwrap(), hook.body);
        }
        assert_eq!(std::fs::read_dir(&save).unwrap().count(), 2);

        // On the database itself they are signed as deliveries are.
        let own = database
            .command(["listen", "--print-secret", "--partner", &acme.id])
            .run()
            .await;
        assert_eq!(own.stdout.trim(), acme.secret);
        for (args, code, says) in [
            (
                &["listen", "--forward-to", "localhost"][..],
                2,
                "is not an address",
            ),
            (
                &[
                    "listen",
                    "--forward-to",
                    "http://127.0.0.1:9/",
                    "--events",
                    "x",
                ],
                2,
                "is not a type",
            ),
            (
                &[
                    "listen",
                    "--forward-to",
                    "http://127.0.0.1:9/",
                    "--save",
                    "/proc/nowhere",
                ],
                2,
                "cannot be written",
            ),
            (&["listen"], 2, "--forward-to"),
            (
                &["trigger", "booking.made"],
                2,
                "booking.created, booking.protected",
            ),
        ] {
            let ran = on(&server, &acme, args).run().await;
            assert_eq!(ran.code, Some(code), "{ran:?}");
            assert!(ran.stderr.contains(says), "{ran:?}");
        }
        assert_eq!(server.terminate().await.0, Some(0));
    })
    .await;
}
