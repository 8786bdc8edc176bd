//! What is printed: tables for people, the interface's JSON for programs, and quiet ends for readers who go away.

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::program::bookguard;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::json;
use tempfile::TempDir;

#[tokio::test]
async fn tables_are_for_people_and_steer_no_terminal() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let body = samples::booking_with(json!({
            "talent": {"id": "t", "name": "Zoë 🎸"}, "organizer": {"id": "o", "name": "שלום"}
        }));
        let id = acme
            .caller
            .post("/v1/bookings", &body)
            .await
            .string("bookingId");
        acme.protect(&id).await;
        let event = acme.events(&id).await[0]["eventId"]
            .as_str()
            .unwrap()
            .to_owned();
        let on = |args: &[&str]| {
            let line = bookguard(args.iter().copied()).env("BOOKGUARD_URL", server.running().url());
            line.env("BOOKGUARD_API_KEY", &acme.key)
        };
        for (args, shown) in [
            (
                &["bookings", "get", &id][..],
                &[
                    "USD 1,250.50",
                    "protected",
                    "Zoë",
                    "\u{2068}שלום (o)\u{2069}",
                    "2031-06-20 23:00:00 UTC",
                ][..],
            ),
            (&["bookings", "list"], &["BOOKING", "STATUS", &id]),
            (&["bookings", "protect", &id], &[&id]),
            (&["bookings", "policy", &id], &["full_refund", "1,250.50"]),
            (
                &["webhook-events", "list", "--booking", &id],
                &["booking.created", "no_endpoints"],
            ),
            (&["webhook-events", "get", &event], &[&event]),
            (&["webhook-endpoints", "list"], &["No webhook endpoints."]),
            (&["api-keys", "list"], &["Initial key"]),
            (&["api-keys", "create"], &["bgk_", "not shown again"]),
            (&["partners", "me"], &["Acme", "active"]),
            (&["health"], &["ok"]),
            (&["evidence", "get", &id], &[&id]),
            (&["ledger", "checkpoint"], &["bookguard-"]),
        ] {
            let table = on(args).arg("--output").arg("table").run().await;
            assert_eq!(
                (table.code, table.stderr.as_str()),
                (Some(0), ""),
                "{args:?}"
            );
            for text in shown {
                assert!(
                    table.stdout.contains(text),
                    "{args:?}: {text} in {}",
                    table.stdout
                );
            }
            for steering in ['\u{1b}', '\u{202e}', '\u{9b}', '\r'] {
                assert!(!table.stdout.contains(steering), "{args:?}");
            }
            assert!(
                table.stdout.ends_with('\n') && !table.stdout.ends_with("\n\n"),
                "{args:?}"
            );
        }
        // Into a pipe it is the interface's own JSON, to the byte.
        let path = format!("/v1/bookings/{id}");
        let over_http = acme.caller.get(&path).await.text();
        assert_eq!(
            on(&["bookings", "get", &id]).run().await.stdout,
            format!("{over_http}\n")
        );
    })
    .await;
}

#[tokio::test]
async fn the_interface_document_is_the_one_checked_in() {
    let printed = bookguard(["openapi"]).run().await;
    assert_eq!(printed.code, Some(0));
    assert!(
        printed.stdout == include_str!("../../../../openapi/openapi.json"),
        "openapi/openapi.json is old"
    );
}

#[tokio::test]
async fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = bookguard(["completions", shell]).run().await;
        assert_eq!(
            (script.code, script.stderr.as_str()),
            (Some(0), ""),
            "{shell}"
        );
        for word in ["webhook-endpoints", "protect", "checkpoint"] {
            assert!(script.stdout.contains(word), "{shell}: {word}");
        }
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_a_command_quietly() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let register = [
            "partners",
            "register",
            "--name",
            "A",
            "--business-type",
            "b",
            "--contact-email",
            "a@example.com",
        ];
        database.command(register).run().await.json();
        for args in [
            &["openapi"][..],
            &["completions", "zsh"],
            &["--help"],
            &["demo"],
        ] {
            let ran = bookguard(args.iter().copied())
                .in_folder(database.folder())
                .run_unread()
                .await;
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        }
        for args in [
            &["partners", "list"][..],
            &["ledger", "verify"],
            &["ledger", "key"],
            &["bookings", "list"],
        ] {
            let ran = database.command(args.iter().copied()).run_unread().await;
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_demo_tells_the_whole_story_and_leaves_nothing() {
    let (folder, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let line = bookguard(["demo"])
        .in_folder(folder.path())
        .env("TMPDIR", temporary.path());
    let ran = line.run().await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    for step in [
        "Server up",
        "Partner registered",
        "Webhook receiver up",
        "Booking recorded",
        "Webhook received: booking.created",
        "Booking protected",
        "Webhook received: booking.protected",
        "Policy evaluated",
        "Booking canceled",
        "Webhook received: resolution.created",
        "Deliveries on record",
        "Evidence packet fetched",
        "Packet verified offline",
        "One byte of the packet changed",
        "NOT VERIFIED.",
        "Every step succeeded",
        "bookguard serve",
    ] {
        assert!(ran.stdout.contains(step), "{step} in {}", ran.stdout);
    }
    for target in [&folder, &temporary] {
        assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
    }
}
