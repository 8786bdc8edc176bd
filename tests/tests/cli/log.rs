//! A partner's events in the terminal: listed, and shown as they happen.

use bookguard_tests::engine::{Site, on_every_engine};
use bookguard_tests::house::Partner;
use bookguard_tests::program::{CommandLine, Serving, bookguard};
use serde_json::Value;

/// The command line, on this server with this partner's key.
fn on(server: &Serving, partner: &Partner, args: &[&str]) -> CommandLine {
    bookguard(args.iter().copied())
        .env("BOOKGUARD_URL", server.url())
        .env("BOOKGUARD_API_KEY", partner.key.as_str())
}

#[tokio::test]
async fn events_are_listed_by_number_and_followed_through_a_restart_of_the_server() {
    on_every_engine(async |engine| {
        let site = Site::new(engine);
        let server = Serving::start(&site, &[]).await;
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
        // The administrator names whose, or the booking.
        let of_booking = ["webhook-events", "list", "--booking", &booking];
        let own = site.command(of_booking).run().await.json();
        assert_eq!(own["nextAfter"], 2);
        let refused = site.command(["webhook-events", "list"]).run().await;
        assert!(
            refused.code == Some(2) && refused.stderr.contains("--partner"),
            "{refused:?}"
        );

        let address = server.url().strip_prefix("http://").unwrap().to_owned();
        assert_eq!(server.terminate().await.0, Some(0));
        let server = Serving::of(site.command(["serve", "--listen", &address])).await;
        acme.book().await;
        next(3, "booking.created").await;
        assert_eq!(server.terminate().await.0, Some(0));
    })
    .await;
}
