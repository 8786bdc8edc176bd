//! A database that lost entries: an old backup, or a standby that lagged. It is read but not written, the service reports
//! it, and writes continue when the database is whole again or the loss is accepted.

use std::path::Path;

use bookguard_core::evidence;
use bookguard_core::guard::Guard;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine, on_postgres};
use bookguard_tests::json::Members as _;
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::{Ran, Serving, alarms};
use bookguard_tests::samples;
use bookguard_tests::test_server::Partner;
use bookguard_tests::waiting::until;
use serde_json::Value;

/// A backup: a copy of every table, kept in the same database.
struct Backup<'a> {
    database: &'a TestDatabase,
    tables: Vec<String>,
    name: &'static str,
}

impl<'a> Backup<'a> {
    fn take(database: &'a TestDatabase, name: &'static str) -> Self {
        let mut tables = database.tables();
        tables.retain(|table| !table.contains("_in_"));
        let copies = tables
            .iter()
            .map(|table| format!("CREATE TABLE {table}_in_{name} AS SELECT * FROM {table};"));
        database.tamper(&copies.collect::<String>());
        Self {
            database,
            tables,
            name,
        }
    }

    /// Restores the backup in one step, even while servers have the database open.
    fn put_back(&self) {
        let mut sql = String::new();
        for table in &self.tables {
            let name = self.name;
            sql += &format!(
                "DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}_in_{name};"
            );
        }
        self.database.tamper(&sql);
    }
}

async fn vkey(acme: &Partner) -> String {
    acme.get("/v1/ledger/key").await.text()
}

fn verifies(packet: &Reply, vkey: &str) -> bool {
    assert_eq!(packet.status, 200, "{}", packet.text());
    evidence::verify(&packet.body, vkey).verified()
}

async fn book(acme: &Partner) -> Reply {
    acme.post("/v1/bookings", &samples::booking()).await
}

/// A server on an empty database, a partner, and its first booking.
async fn begun(database: &TestDatabase) -> (Serving, Partner, String) {
    let server = Serving::start(database, &[]).await;
    let acme = server.partner("Acme").await;
    let kept = acme.book().await;
    (server, acme, kept)
}

/// A server that remembers the head in this guard.
async fn with_guard(database: &TestDatabase, guard: &Path) -> Serving {
    let guard = guard.to_str().unwrap();
    Serving::start(database, &["--guard-file", guard]).await
}

/// Asserts that a server on a restored database answers reads and refuses everything else.
async fn only_reads(acme: &Partner, kept: &str) {
    takes_no_writes(acme, kept).await;
    let key = vkey(acme).await;
    assert!(verifies(&acme.packet(kept).await, &key));
}

async fn takes_no_writes(acme: &Partner, kept: &str) {
    let health = acme.get("/v1/health").await;
    let writes = [
        book(acme).await,
        acme.post_nothing(&format!("/v1/bookings/{kept}/protect"))
            .await,
        acme.post("/v1/api-keys", &serde_json::json!({"name": "x"}))
            .await,
    ];
    for refused in writes.iter().chain([&health]) {
        refused.refused(503, "ledger_rolled_back");
        assert_eq!(refused.header("retry-after"), Some("30"));
    }
    acme.booking(kept).await;
}

/// Waits until a server has noted in the database what that lacks.
async fn noted(database: &TestDatabase) {
    until("the loss to be noted", async || {
        let sql = "SELECT COUNT(*) FROM head WHERE lacking IS NOT NULL";
        (database.count(sql) == 1).then_some(())
    })
    .await;
}

fn times(said: &str, words: &str) -> usize {
    said.matches(words).count()
}

/// What a server said, once that has these words, which it must not have twice.
async fn said_once(server: &Serving, words: &str) -> String {
    let said = server.until_said(words).await;
    assert_eq!(times(&said, words), 1, "{said}");
    said
}

async fn accept(database: &TestDatabase) -> Ran {
    database.command("ledger accept-rollback --yes").run().await
}

/// Asserts that the output of an accepted loss has these words, and returns the new origin.
fn accepted(ran: &Ran, words: &[&str]) -> String {
    for word in words {
        assert!(ran.stderr.contains(word), "{word}: {ran:?}");
    }
    let origin = ran.string("origin");
    let is_named = ran.string("vkey").starts_with(&format!("{origin}+"));
    assert!(is_named, "{ran:?}");
    origin
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolled_back_database_is_read_only_until_the_loss_is_accepted() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme, kept) = begun(&database).await;
        acme.protect(&kept).await;
        let (old_key, old_packet) = (vkey(&acme).await, acme.packet(&kept).await);
        let old = Backup::take(&database, "monday");
        let lost = acme.book().await;
        acme.protect(&lost).await;
        acme.book().await;

        old.put_back();
        acme.get(&format!("/v1/bookings/{lost}")).await.ok(404);
        only_reads(&acme, &kept).await;
        only_reads(&acme, &kept).await;
        let said = said_once(&server, "the ledger is rolled back").await;
        let told = said.contains("holds 2 entries") && said.contains("5 were published");
        assert!(told, "{said}");
        noted(&database).await;
        server.stop().await;

        // A check of the database finds the same, unless the database is given as a backup or no guard remembers its head.
        let found = database.command("ledger verify").run().await;
        found.ended(6, &["ledger_rolled_back"]);
        let report: Value = serde_json::from_str(&found.stdout).unwrap();
        let (guard, finding) = (&report["guard"], &report["findings"][0]);
        assert_eq!(guard["code"], "ledger_rolled_back", "{report}");
        let sizes = (&guard["seen"]["size"], &guard["found"]["size"]);
        assert_eq!(sizes, (&5.into(), &2.into()), "{report}");
        assert_eq!(report["verified"], false, "{report}");
        assert_eq!(finding["what"], guard["code"]);
        let backup = database
            .command("ledger verify --backup")
            .run()
            .await
            .json();
        let said = backup["guard"].text("said");
        let told = backup["verified"] == true && said.contains("5 were published");
        assert!(told, "{backup}");
        let none = database.folder().join("none.seen");
        let alone = database
            .command("ledger verify")
            .arg("--guard-file")
            .arg(none);
        let alone = alone.run().await;
        alone.ended(6, &["ledger_rolled_back"]);
        let told = alone.stdout.contains("according to a note in the database");
        assert!(told, "{alone:?}");

        // A server that starts now reports it before any request.
        let server = Serving::start(&database, &[]).await;
        said_once(&server, "the ledger is rolled back").await;
        let acme = acme.on(server.url());
        only_reads(&acme, &kept).await;

        let unasked = database.command("ledger accept-rollback").run().await;
        let lost = "3 published entries are lost";
        unasked.refused(2, &["5 entries", "2 entries", lost, "--yes"]);
        only_reads(&acme, &kept).await;

        let origin = accepted(&accept(&database).await, &["3 published entries are lost"]);
        // The running server adopts the new origin by itself.
        acme.get("/v1/health").await.ok(200);
        let new = book(&acme).await.ok(201).text("bookingId").to_owned();
        let said = said_once(&server, "is whole again").await;
        assert!(said.contains(&format!("continues as {origin}")), "{said}");
        let receipt = &acme.protect(&new).await["receipt"];
        assert_eq!(receipt["logOrigin"], origin.as_str());
        let receipt = &acme.protect(&kept).await["receipt"];
        assert_eq!(receipt["logOrigin"], origin.as_str());

        let new_key = vkey(&acme).await;
        assert!(new_key.starts_with(&origin));
        for booking in [&kept, &new] {
            assert!(verifies(&acme.packet(booking).await, &new_key));
        }
        // What was proven stays so, by the log it was proven in.
        assert!(verifies(&old_packet, &old_key));
        assert!(!verifies(&old_packet, &new_key));
        let mirror = Mirror::download(&acme.caller, &new_key).await;
        let entries = mirror.entries().len();
        assert_eq!(entries, 5, "two kept, one of its own, two new");
        database.verify(2).await;

        let nothing = accept(&database).await;
        nothing.ended(5, &["nothing_to_accept"]);
        server.stop().await;
        database.verify(2).await;
    })
    .await;
}

/// New versions are numbered after the remaining ones, so the running server may have cached another version under the same
/// number.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_a_policy_that_was_lost_is_under_no_booking_after_it() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &[]).await;
        let acme = server.partner("Acme").await;
        let under = async || {
            let body = samples::booking_with(serde_json::json!({"policyId": "house"}));
            let made = acme.post("/v1/bookings", &body).await.ok(201);
            let path = format!("/v1/bookings/{}", made.text("bookingId"));
            acme.get(&path).await.ok(200)["policy"].clone()
        };
        acme.put_policy("house", &samples::policy(0)).await;
        let old = Backup::take(&database, "monday");
        assert_eq!(acme.put_policy("house", &samples::policy(1111)).await, 2);
        let lost = under().await;
        old.put_back();
        accepted(&accept(&database).await, &["1 published entry is lost"]);
        assert_eq!(acme.put_policy("house", &samples::policy(2222)).await, 2);
        let path = "/v1/policies/house";
        let version = acme.get(path).await.ok(200);
        let taken = under().await;
        assert_eq!(taken["policyHash"], version["policyHash"]);
        assert_ne!(taken["policyHash"], lost["policyHash"]);
        server.stop().await;
        database.verify(1).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_whole_again_is_written_again_by_itself() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme, kept) = begun(&database).await;
        let (monday, tuesday) = (Backup::take(&database, "monday"), {
            acme.book().await;
            Backup::take(&database, "tuesday")
        });
        for round in 1..3 {
            monday.put_back();
            only_reads(&acme, &kept).await;
            tuesday.put_back();
            acme.get("/v1/health").await.ok(200);
            // Whichever task notices first reports it, possibly a little later.
            let said = until("both to be said", async || {
                let said = server.stderr();
                (times(&said, "is whole again") >= round).then_some(said)
            })
            .await;
            assert_eq!(times(&said, "the ledger is rolled back"), round, "{said}");
            assert_eq!(times(&said, "is whole again"), round, "{said}");
        }
        // A batch notices as well as a health check does.
        monday.put_back();
        assert_eq!(book(&acme).await.code(), "ledger_rolled_back");
        tuesday.put_back();
        book(&acme).await.ok(201);
        server.stop().await;
        database.verify(3).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_are_accepted_one_after_another_and_an_older_log_never_comes_back() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme, kept) = begun(&database).await;
        let first = Backup::take(&database, "first");
        acme.book().await;
        first.put_back();
        let second_name = accepted(&accept(&database).await, &["1 published entry is lost"]);
        acme.book().await;
        let second = Backup::take(&database, "second");
        acme.book().await;
        acme.book().await;
        second.put_back();
        only_reads(&acme, &kept).await;
        let third_name = accepted(&accept(&database).await, &["2 published entries are lost"]);
        assert_ne!(second_name, third_name);
        acme.book().await;
        let third = Backup::take(&database, "third");

        // The log from before the first loss, which was given up long ago.
        first.put_back();
        only_reads(&acme, &kept).await;
        server.until_said("holds another log").await;
        third.put_back();
        book(&acme).await.ok(201);
        assert!(verifies(&acme.packet(&kept).await, &vkey(&acme).await));
        database.verify(4).await;

        // Unless its return is accepted too.
        first.put_back();
        let fourth = accepted(&accept(&database).await, &[&third_name, "may be lost"]);
        book(&acme).await.ok(201);
        assert!(vkey(&acme).await.starts_with(&fourth));
        server.stop().await;
        database.verify(2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_backup_that_has_grown_past_what_was_published_is_a_fork() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let other = database.folder().join("other.seen");
        let (server, acme, kept) = begun(&database).await;
        let old = Backup::take(&database, "old");
        acme.book().await;
        server.stop().await;

        // A server with another guard file, which knows of no later head, continues the old backup.
        old.put_back();
        let stranger = with_guard(&database, &other).await;
        let there = acme.on(stranger.url());
        for _ in 0..4 {
            there.book().await;
        }
        let (code, said) = stranger.terminate().await;
        let lines = alarms(&said);
        assert_eq!((code, lines.len()), (Some(0), 1), "{said}");
        assert!(
            lines[0].contains("no guard file was found")
                && lines[0].contains("holds 1 entry")
                && lines[0].contains("other.seen is made now"),
            "{said}"
        );

        let server = Serving::start(&database, &[]).await;
        let acme = acme.on(server.url());
        takes_no_writes(&acme, &kept).await;
        // What it would sign contradicts what was signed.
        for signed in [
            "/v1/ledger/checkpoint",
            "/v1/ledger/tile/0/000.p/5",
            "/v1/ledger/tile/entries/000.p/5",
            &format!("/v1/bookings/{kept}/evidence"),
        ] {
            let refused = acme.get(signed).await;
            refused.refused(503, "ledger_rolled_back");
            assert!(refused.text().contains("signs nothing"), "{signed}");
        }
        let said = server.until_said("rolled back").await;
        assert!(
            said.contains("the first 2 entries") && said.contains("are not what was published"),
            "{said}"
        );
        let origin = accepted(&accept(&database).await, &["has others in their place"]);
        book(&acme).await.ok(201);
        server.stop().await;

        // A server that followed the other branch learns from the log itself that it continues under a new origin.
        let stranger = with_guard(&database, &other).await;
        let learned = format!("continues as {origin}");
        stranger.until_said(&learned).await;
        let there = acme.on(stranger.url());
        book(&there).await.ok(201);
        stranger.stop().await;
        database.verify(7).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_learn_from_each_other_and_take_up_a_new_name_together() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let guard = |name: &str| database.folder().join(name);
        let (one, two) = (guard("one.seen"), guard("two.seen"));
        let writer = with_guard(&database, &one).await;
        let reader = with_guard(&database, &two).await;
        let acme = writer.partner("Acme").await;
        let kept = acme.book().await;
        let there = acme.on(reader.url());
        let old = Backup::take(&database, "old");
        acme.book().await;
        // The second node writes nothing, and shows the head that the first one wrote.
        let shown = there.get("/v1/ledger/checkpoint").await;
        assert_eq!(shown.status, 200);
        writer.stop().await;
        old.put_back();
        only_reads(&there, &kept).await;
        reader.stop().await;

        let nodes = [
            with_guard(&database, &one).await,
            with_guard(&database, &two).await,
        ];
        for node in &nodes {
            said_once(node, "the ledger is rolled back").await;
        }
        let line = database
            .command("ledger accept-rollback --yes")
            .arg("--guard-file");
        let origin = accepted(&line.arg(&one).run().await, &["1 published entry is lost"]);
        for _ in 0..3 {
            for node in &nodes {
                let acme = acme.on(node.url());
                let new = book(&acme).await.ok(201).text("bookingId").to_owned();
                let key = vkey(&acme).await;
                assert!(key.starts_with(&origin) && verifies(&acme.packet(&new).await, &key));
            }
        }
        for node in nodes {
            let said = node.until_said(&format!("continues as {origin}")).await;
            assert_eq!(times(&said, "the ledger is rolled back"), 1, "{said}");
            node.stop().await;
        }
        database.verify(7).await;
    })
    .await;
}

/// A node that is new, or a command on a machine without a guard, would write other entries under the same numbers.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_not_seen_a_loss_learns_of_it_from_the_database() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme, kept) = begun(&database).await;
        let old = Backup::take(&database, "old");
        acme.book().await;
        let unseen = |name: &str| database.folder().join(name);
        let protect = async |guard: &str| {
            let line = format!("bookings protect {kept}");
            database
                .command(line)
                .arg("--guard-file")
                .arg(unseen(guard))
                .run()
                .await
        };
        old.put_back();
        // Nobody asks the server that knows of it.
        noted(&database).await;
        protect("command.seen")
            .await
            .ended(9, &["ledger_rolled_back"]);
        server.stop().await;

        let new = unseen("new.seen");
        let node = with_guard(&database, &new).await;
        let there = acme.on(node.url());
        only_reads(&there, &kept).await;
        let said = node.until_said("the ledger is rolled back").await;
        let told = said.contains("according to a note in the database");
        assert!(told, "{said}");
        let line = database
            .command("ledger accept-rollback --yes")
            .arg("--guard-file");
        let origin = accepted(&line.arg(&new).run().await, &["1 published entry is lost"]);
        book(&there).await.ok(201);
        node.stop().await;

        // The node that knew of it takes up the new name. A backup with the old one then lacks that log, and this is noted too.
        let server = Serving::start(&database, &[]).await;
        server.until_said(&format!("continues as {origin}")).await;
        let acme = acme.on(server.url());
        book(&acme).await.ok(201);
        old.put_back();
        noted(&database).await;
        let words =
            format!("entries of log {origin} were published, and the database holds another log");
        protect("later.seen")
            .await
            .ended(9, &["ledger_rolled_back", &words]);
        server.stop().await;
        // A server that starts only then knows by the key that its guard is this ledger's.
        old.put_back();
        let server = Serving::start(&database, &[]).await;
        noted(&database).await;
        protect("last.seen")
            .await
            .ended(9, &["ledger_rolled_back", &words]);
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_nobody_asks_misses_what_only_another_one_published_and_erased() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let guard = |name: &str| database.folder().join(name);
        let (one, two) = (guard("one.seen"), guard("two.seen"));
        let writer = with_guard(&database, &one).await;
        let silent = with_guard(&database, &two).await;
        let acme = writer.partner("Acme").await;
        let kept = acme.book().await;
        let old = Backup::take(&database, "old");
        let asked = serde_json::json!({"party": "everybody", "legalBasis": "objection"});
        let erasures = format!("/v1/bookings/{kept}/erasures");
        acme.post(&erasures, &asked).await.ok(200);
        acme.book().await;
        let known = |file: &Path| Guard::open(file.to_owned()).unwrap().seen();
        until("the other node to know of it", async || {
            let follows = known(&two) == known(&one) && guard("two.erased").exists();
            follows.then_some(())
        })
        .await;
        writer.stop().await;

        old.put_back();
        let said = silent.until_said("the ledger is rolled back").await;
        assert!(said.contains("were published"), "{said}");
        let there = acme.on(silent.url());
        let shown = there.get(&format!("/v1/bookings/{kept}")).await;
        shown.refused(503, "erasures_pending");
        assert_eq!(book(&there).await.status, 503);
        silent.stop().await;
    })
    .await;
}

/// Two services, one guard: nothing is lost, and whoever accepted a loss would end a log that is whole.
#[tokio::test(flavor = "multi_thread")]
async fn the_guard_of_another_service_is_said_to_be_one() {
    on_every_engine(async |engine| {
        let own = TestDatabase::new(engine);
        let server = Serving::start(&own, &[]).await;
        server.partner("Acme").await.book().await;
        server.stop().await;
        let other = TestDatabase::new(engine);
        let guard = other.folder().join("shared.seen");
        let server = with_guard(&other, &guard).await;
        server.partner("Acme").await.book().await;
        server.stop().await;

        let mistaken = with_guard(&own, &guard).await;
        let said = mistaken.until_said("the ledger is rolled back").await;
        let refused = own
            .command("ledger accept-rollback")
            .arg("--guard-file")
            .arg(guard);
        let refused = refused.run().await;
        refused.refused(2, &["--yes"]);
        for said in [&said, &refused.stderr] {
            let (first, _) = said.split_once("accept the loss").unwrap();
            let doubt = "name this service's own guard with --guard-file";
            assert!(first.contains(doubt), "{said}");
        }
        assert!(said.contains("the guard belongs to log"), "{said}");
        mistaken.stop().await;
        own.verify(1).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_taken_away_under_a_server_is_there_again() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let seen = database.folder().join("own.seen");
        let server = with_guard(&database, &seen).await;
        let acme = server.partner("Acme").await;
        let kept = acme.book().await;
        let old = Backup::take(&database, "old");
        let aside = database.folder().join("aside");
        std::fs::copy(&seen, &aside).unwrap();
        // With the next answer it is there again, long before anything is flushed.
        for replaced in [true, false] {
            if replaced {
                std::fs::rename(&aside, &seen).unwrap();
            } else {
                std::fs::remove_file(&seen).unwrap();
            }
            acme.book().await;
        }
        let said = server.until_said("was removed or replaced").await;
        assert!(said.contains("own.seen was removed or replaced"), "{said}");
        server.kill().await;
        old.put_back();
        let server = with_guard(&database, &seen).await;
        let acme = acme.on(server.url());
        only_reads(&acme, &kept).await;
        // Nobody writes, and it comes back all the same.
        std::fs::remove_file(&seen).unwrap();
        until("the guard file", async || seen.exists().then_some(())).await;
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_write_at_once_raise_no_alarm() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &[]).await;
        let acme = server.partner("Acme").await;
        let id = acme.id.clone();
        let booking = samples::booking().to_string();
        let by_command = async {
            for n in 0..6 {
                let args: &[&str] = match n % 3 {
                    0 => &["bookings", "create", "--json", "-", "--partner", &id],
                    1 => &["api-keys", "create", "--name", "x", "--partner", &id],
                    _ => &["ledger", "checkpoint"],
                };
                let ran = database.command(args).input(booking.as_str()).run().await;
                assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
            }
        };
        let by_request = async {
            for _ in 0..60 {
                book(&acme).await.ok(201);
            }
        };
        let by_reading = async {
            for n in 0..120 {
                let path = ["/v1/health", "/v1/ledger/checkpoint"][n % 2];
                assert_eq!(acme.get(path).await.status, 200);
            }
        };
        tokio::join!(by_command, by_request, by_reading, async {
            for _ in 0..40 {
                book(&acme).await.ok(201);
            }
        });
        let (code, said) = server.terminate().await;
        assert_eq!((code, alarms(&said)), (Some(0), Vec::new()));
        database.verify(102).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_remembers_what_it_answered() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme, kept) = begun(&database).await;
        let old = Backup::take(&database, "old");
        book(&acme).await.ok(201);
        // Killed right after the answer: long before anything is flushed for the guard.
        server.kill().await;
        old.put_back();
        let server = Serving::start(&database, &[]).await;
        let acme = acme.on(server.url());
        only_reads(&acme, &kept).await;
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_yesterday_and_no_file_at_all_are_noticed() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme, kept) = begun(&database).await;
    server.stop().await;
    let yesterday = database.folder().join("yesterday.db");
    std::fs::copy(database.file(), &yesterday).unwrap();
    let server = Serving::start(&database, &[]).await;
    let acme = acme.on(server.url());
    acme.book().await;
    server.stop().await;
    std::fs::copy(&yesterday, database.file()).unwrap();
    let server = Serving::start(&database, &[]).await;
    let acme = acme.on(server.url());
    only_reads(&acme, &kept).await;
    server.stop().await;

    // The key was kept and the database was not: a new log must not begin under the old origin.
    std::fs::remove_file(database.file()).unwrap();
    let server = Serving::start(&database, &[]).await;
    let refused = server
        .caller()
        .post("/v1/partners/register", &samples::partner("New"))
        .await;
    assert_eq!(refused.code(), "ledger_rolled_back");
    server.until_said("holds 0 entries").await;
    accepted(&accept(&database).await, &["2 published entries are lost"]);
    let acme = server.partner("Acme").await;
    acme.book().await;
    server.stop().await;
    let report: Value = database.verify(1).await;
    assert_eq!(report["entries"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_file_that_is_damaged_or_out_of_reach() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::start(&database, &[]).await;
    server.partner("Acme").await.book().await;
    server.stop().await;
    let seen = database.folder().join("bookguard.db.key.seen");
    let good = std::fs::read(&seen).unwrap();
    std::fs::write(&seen, "damaged").unwrap();
    for args in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["ledger", "verify"],
    ] {
        let ran = database.command(args).run().await;
        ran.refused(1, &[]);
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        for words in [
            "bookguard.db.key.seen is damaged",
            "ledger verify --guard-file",
            "remove the file",
        ] {
            assert!(ran.stderr.contains(words), "{words}: {ran:?}");
        }
    }
    std::fs::write(&seen, good).unwrap();
    let nowhere = database.folder().join("no folder").join("x.seen");
    let server = with_guard(&database, &nowhere).await;
    let acme = server.partner("Acme").await;
    acme.book().await;
    acme.book().await;
    let told = "x.seen cannot be written";
    server.until_said(told).await;
    let (code, said) = server.terminate().await;
    assert_eq!((code, times(&said, told)), (Some(0), 1), "{said}");
}
