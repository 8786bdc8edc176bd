//! A program on a database that a later one has upgraded: it goes on if it may, and refuses if it may not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bookguard_core::store::schema::{self, SchemaStep};
use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::load::{Addresses, Load};
use bookguard_tests::program::Serving;
use bookguard_tests::samples;
use bookguard_tests::test_server::Partner;
use bookguard_tests::waiting::until;
use tokio::task::{block_in_place, spawn_blocking};

/// A table, a column and an index that this program does not know, in tables that it reads and writes.
const EXPANDING: &str = "CREATE TABLE future (id INTEGER NOT NULL PRIMARY KEY, what TEXT NOT NULL) STRICT;\n\
     ALTER TABLE booking ADD COLUMN note TEXT;\n\
     ALTER TABLE head ADD COLUMN note TEXT;\n\
     ALTER TABLE event ADD COLUMN weight INTEGER NOT NULL DEFAULT 1;\n\
     CREATE INDEX booking_by_note ON booking (note);";

/// Does without a column that this program needs.
const CONTRACTING: &str = "ALTER TABLE booking DROP COLUMN terms;";

/// The shipped steps and a further one.
fn steps(sql: &'static str, contracts: bool) -> Vec<SchemaStep> {
    let mut steps = schema::STEPS.to_vec();
    let oldest_reader = match contracts {
        true => schema::known() + 1,
        false => steps[steps.len() - 1].oldest_reader,
    };
    steps.push(SchemaStep { sql, oldest_reader });
    steps
}

/// Reads without a pause until it is told to stop. Returns the number of reads, none of which failed.
async fn read(acme: Partner, stop: Arc<AtomicBool>) -> usize {
    let mut reads = 0;
    while !stop.load(Ordering::Acquire) {
        for path in ["/v1/bookings?limit=5", "/v1/partners/me", "/v1/health"] {
            acme.get(path).await.ok(200);
            reads += 1;
        }
    }
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_under_load_loses_no_request_to_a_step_that_expands() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &[]).await;
        let acme = Partner::register(&server.caller(), "Acme").await;
        let stop = Arc::new(AtomicBool::new(false));
        let reading = tokio::spawn(read(acme.clone(), Arc::clone(&stop)));
        let mut load = Load::start(8, &acme.caller, &Addresses::of([server.url()]));
        load.answers(50).await;
        let db = database.db().clone();
        let upgraded = spawn_blocking(move || schema::upgrade_by(&db, &steps(EXPANDING, false)));
        let upgraded = upgraded.await.unwrap().unwrap().unwrap();
        assert_eq!(upgraded.to, schema::known() + 1);
        load.answers(50).await;
        let told = load.finish().await;
        assert_eq!((told.unavailable, told.broken), (0, 0));
        stop.store(true, Ordering::Release);
        assert!(reading.await.unwrap() > 50);
        told.check_all(&acme.caller).await;
        let said = server.stop().await;
        assert!(!said.contains("\"level\":\"error\""), "{said}");

        // It also starts there, and the command line of its version works beside it.
        let server = Serving::start(&database, &[]).await;
        let acme = acme.on(server.url());
        acme.verified_packet(&acme.book().await).await;
        let listed = database.command("partners list").run().await;
        listed.said(&["Acme"]);
        server.stop().await;
        database.verify(told.bookings.len() + 1).await;
        let shown = database.command("migrate").run().await.json();
        assert_eq!(shown["from"], schema::known() + 1);
        assert_eq!(shown["from"], shown["to"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_writes_nothing_after_a_step_that_contracts() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &[]).await;
        let acme = Partner::register(&server.caller(), "Acme").await;
        let booked = acme.book().await;
        let entries = database.count("SELECT COUNT(*) FROM entry");
        let upgraded =
            block_in_place(|| schema::upgrade_by(database.db(), &steps(CONTRACTING, true)));
        assert_eq!(upgraded.unwrap().unwrap().to, schema::known() + 1);
        // One does not name the column that is gone, the other does.
        for path in ["/v1/bookings", &format!("/v1/bookings/{booked}/protect")] {
            let refused = match path.ends_with("protect") {
                true => acme.post_nothing(path).await,
                false => acme.post(path, &samples::booking()).await,
            };
            refused.refused(503, "schema_newer");
            assert!(refused.header("retry-after").is_some());
        }
        // Balancers learn it, and so does the operator.
        until("a node that is not ready", async || {
            let ready = server.caller().get("/readyz").await;
            (ready.status == 503).then_some(())
        })
        .await;
        let found = schema::known() + 1;
        server
            .until_said(&format!("the database has schema {found}"))
            .await;
        assert_eq!(database.count("SELECT COUNT(*) FROM entry"), entries);
        server.stop().await;
        for command in ["partners list", "migrate", "serve --listen 127.0.0.1:0"] {
            let refused = database.command(command).run().await;
            let words = format!("the database has schema {found}");
            refused.refused(1, &[&words, "use the newer bookguard"]);
        }
    })
    .await;
}
