//! What was not received delivered once more, on a server and on a database.

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::load::at_once;
use bookguard_tests::program::{CommandLine, Serving, bookguard};
use bookguard_tests::receiver::Receiver;
use bookguard_tests::test_server::Partner;
use serde_json::json;

/// More than one step of a recovery looks at.
const EVENTS: usize = 300;

fn on(server: &Serving, acme: &Partner, args: &[&str]) -> CommandLine {
    bookguard(args.iter().copied())
        .env("BOOKGUARD_URL", server.url())
        .env("BOOKGUARD_API_KEY", acme.key.as_str())
}

#[tokio::test]
async fn a_recovery_is_counted_begun_waited_for_and_shown() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &["--dev"]).await;
        let acme = Partner::register(&server.caller(), "Acme").await;
        let bookings = (0..10).map(|_| {
            let acme = acme.clone();
            async move {
                for _ in 0..EVENTS / 10 {
                    acme.book().await;
                }
            }
        });
        at_once(bookings).await;
        let receiver = Receiver::start().await;
        let endpoint = acme.endpoint(&receiver.url()).await;

        let recover = ["webhook-events", "recover", "--since", "2h"];
        let counted = [
            &recover[..],
            &["--dry-run", "--wait", "--endpoint", &endpoint],
        ]
        .concat();
        let counted = on(&server, &acme, &counted).run().await.json();
        assert_eq!(
            (
                &counted["status"],
                &counted["recovered"],
                &counted["dryRun"]
            ),
            (&json!("finished"), &json!(EVENTS), &json!(true)),
            "{counted}"
        );
        assert_eq!(receiver.received().len(), 0);
        let none = [&recover[..], &["--status", "failed", "--dry-run", "--wait"]].concat();
        let none = on(&server, &acme, &none).run().await.json();
        assert_eq!(
            (&none["examined"], &none["recovered"]),
            (&json!(EVENTS), &json!(0))
        );
        let unknown = [&recover[..], &["--endpoint", "end_1"]].concat();
        let unknown = on(&server, &acme, &unknown).run().await;
        assert_eq!(unknown.code, Some(5));
        assert!(unknown.stderr.contains("/endpointId"), "{}", unknown.stderr);
        assert_eq!(server.terminate().await.0, Some(0));

        // On the database: the first step at once, all of it where that is waited for.
        let local = |args: &[&str]| {
            database
                .command(args.iter().copied())
                .arg("--partner")
                .arg(&acme.id)
        };
        let begun = local(&recover).run().await;
        assert!(begun.stderr.contains("--wait"), "{}", begun.stderr);
        let begun = begun.json();
        assert_eq!(begun["status"], "running", "{begun}");
        let id = begun["recoveryId"].as_str().unwrap();
        let refused = local(&recover).run().await;
        assert_eq!(refused.code, Some(5));
        assert!(refused.stderr.contains(id), "{}", refused.stderr);
        let shown = local(&["webhook-events", "recoveries", "get", id])
            .run()
            .await
            .json();
        assert_eq!(shown, begun);

        // Whoever serves the database next takes it further, and delivers.
        let server = Serving::start(&database, &["--dev"]).await;
        receiver.wait_for(EVENTS).await;
        let list = ["webhook-events", "recoveries", "list", "--limit", "1"];
        let list = on(&server, &acme, &list).run().await.json();
        assert_eq!(list["data"][0]["recoveryId"], id);
        assert_eq!(list["data"][0]["recovered"], EVENTS);
        let table = [
            &["webhook-events", "recoveries", "get", id][..],
            &["--output", "table"],
        ]
        .concat();
        let table = on(&server, &acme, &table).run().await.stdout;
        assert!(
            table.contains("finished") && table.contains("300 to 300"),
            "{table}"
        );
        assert_eq!(server.terminate().await.0, Some(0));

        let again = [&recover[..], &["--wait", "--dry-run"]].concat();
        let again = local(&again).run().await.json();
        assert_eq!(
            (&again["status"], &again["examined"]),
            (&json!("finished"), &json!(EVENTS)),
            "nobody else takes it further: {again}"
        );
        database.verify(EVENTS).await;
    })
    .await;
}
