//! Events that were not received are sent again, on a server and on a database.

use bookguard_core::limits::RECOVERED;
use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::Serving;
use bookguard_tests::receiver::Receiver;
use serde_json::json;

/// More events than one step of a recovery examines.
const EVENTS: usize = RECOVERED + 12;

#[tokio::test]
async fn a_recovery_is_counted_begun_waited_for_and_shown() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme) = Serving::with_partner(&database, &["--dev"]).await;
        acme.book_many(EVENTS, &json!({})).await;
        let receiver = Receiver::start().await;
        let endpoint = acme.endpoint(&receiver.url()).await;

        let recover = "webhook-events recover --since 2h";
        let counted = acme.command(format!("{recover} --dry-run --wait --endpoint {endpoint}"));
        let counted = counted.run().await.json();
        counted.holds(json!({"status": "finished", "recovered": EVENTS, "dryRun": true}));
        assert_eq!(receiver.received().len(), 0);
        let none = acme.command(format!("{recover} --status failed --dry-run --wait"));
        let none = none.run().await.json();
        none.holds(json!({"examined": EVENTS, "recovered": 0}));
        let unknown = acme.command(format!("{recover} --endpoint end_1"));
        unknown.run().await.ended(5, &["--endpoint: "]);
        server.stop().await;

        // On a database, the first step is done at once, and all of it with `--wait`.
        let local = |line: &str| database.command(line).arg("--partner").arg(&acme.id);
        let begun = local(recover).run().await;
        let begun = begun.ended(0, &["--wait"]).json();
        assert_eq!(begun["status"], "running", "{begun}");
        let id = begun.text("recoveryId");
        local(recover).run().await.ended(5, &[id]);
        let get = format!("webhook-events recoveries get {id}");
        assert_eq!(local(&get).run().await.json(), begun);

        // The next server on the database continues the recovery and delivers.
        let server = Serving::start(&database, &["--dev"]).await;
        receiver.wait_for(EVENTS).await;
        let there = acme.on(server.url());
        let list = there.command("webhook-events recoveries list --limit 1");
        let list = list.run().await.json();
        list["data"][0].holds(json!({"recoveryId": id, "recovered": EVENTS}));
        let table = there.command(&get).args("--output table").run().await;
        table.said(&["finished", &format!("{EVENTS} events, {EVENTS} deliveries")]);
        server.stop().await;

        let again = local(recover).args("--wait --dry-run").run().await.json();
        again.holds(json!({"status": "finished", "examined": EVENTS}));

        // A server that asks for patience while it works gets it.
        let slow = "--dev --rate-limit-per-second 1 --rate-limit-burst 1";
        let slow: Vec<&str> = slow.split(' ').collect();
        let server = Serving::start(&database, &slow).await;
        let there = acme.on(server.url());
        let waited = there.command(format!("{recover} --dry-run --wait"));
        let waited = waited.run().await.json();
        waited.holds(json!({"status": "finished", "examined": EVENTS}));
        server.stop().await;
        database.verify(EVENTS).await;
    })
    .await;
}
