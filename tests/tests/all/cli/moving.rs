//! A database moved to another one: of the same engine, of the other, and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bookguard_core::guard;
use bookguard_core::limits::FILE_PART_BYTES;
use bookguard_core::store::Database;
use bookguard_test_postgres::Postgres;
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::is_long;
use bookguard_tests::json::Members as _;
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::{CommandLine, Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::Partner;
use bookguard_tests::waiting::until;
use serde_json::json;

/// Runs a test from every available engine to every other and to itself.
async fn on_every_route(body: impl AsyncFn(Engine, Engine)) {
    let engines: &[Engine] = match Postgres::shared() {
        Some(_) => &[Engine::Sqlite, Engine::Postgres],
        None => &[Engine::Sqlite],
    };
    for from in engines {
        for to in engines {
            println!("from {from} to {to}:");
            Box::pin(body(*from, *to)).await;
        }
    }
}

fn text(db: &Database) -> String {
    match db {
        Database::File(path) => path.to_str().unwrap().to_owned(),
        Database::Postgres(url) => url.reveal().to_owned(),
    }
}

/// Records a booking on a server that ends again.
async fn booked(database: &TestDatabase) -> (Partner, String) {
    let (server, acme) = Serving::with_partner(database, &[]).await;
    let id = acme.book().await;
    server.stop().await;
    (acme, id)
}

fn transfer(from: &TestDatabase, to: &TestDatabase) -> CommandLine {
    let (source, target) = (text(from.db()), text(to.db()));
    bookguard(format!("transfer --from {source} --to {target}"))
        .arg("--ledger-key")
        .arg(from.key_file())
}

fn reopen(from: &TestDatabase, to: &TestDatabase) -> CommandLine {
    let (source, target) = (text(from.db()), text(to.db()));
    bookguard(format!("transfer --reopen --from {source} --to {target}"))
}

/// Copies the key, as the operator has to.
fn take_key(from: &TestDatabase, to: &TestDatabase) {
    std::fs::copy(from.key_file(), to.key_file()).unwrap();
}

fn moved_away(reply: &Reply) {
    reply.refused(503, "ledger_moved");
    // Only the operator is told the new place.
    assert!(!reply.text().contains("postgres") && !reply.text().contains("/tmp"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_goes_on_in_the_new_place_and_only_there() {
    on_every_route(async |engine, other| {
        let (from, to) = (TestDatabase::new(engine), TestDatabase::new(other));
        let receiver = Receiver::start().await;
        let (server, acme) = Serving::with_partner(&from, &["--dev"]).await;
        acme.endpoint(&receiver.url()).await;
        let once = async |caller: &Caller| {
            let booking = samples::booking();
            caller.post_once("/v1/bookings", "order-17", &booking).await
        };
        let first = once(&acme.caller).await;
        let id = first.string("bookingId");
        acme.protect(&id).await;
        receiver.wait_for(2).await;
        let delivered = until("both delivered", async || {
            let events = acme.events(&id).await;
            let all = events.iter().all(|event| event["status"] == "delivered");
            all.then_some(events)
        })
        .await;
        // Another booking, whose delivery fails and waits for its next attempt.
        receiver.answer(Answer::Status(500));
        let waiting = acme.book().await;
        until("a failed attempt", async || {
            let events = acme.events(&waiting).await;
            (events[0]["deliveries"][0]["lastStatusCode"] == 500).then_some(())
        })
        .await;
        let vkey = acme.get("/v1/ledger/key").await.text();
        let mirror = Mirror::download(&acme.caller, &vkey).await;
        server.stop().await;

        let moved = transfer(&from, &to).run().await.json();
        moved["tables"].holds(json!({"booking": 2, "entry": 6}));
        // Three facts, that two were told, and a map.
        assert_eq!(moved["treeSize"], 6);
        // In hex, as in receipts.
        let root = moved.text("rootHash");
        let is_hex = root.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(root.len() == 64 && is_hex, "{root}");
        take_key(&from, &to);
        from.verify(2).await;
        to.verify(2).await;

        let before = receiver.received().len();
        receiver.answer(Answer::Status(200));
        let server = Serving::start(&to, &["--dev"]).await;
        let acme = acme.on(server.url());
        let again = once(&acme.caller).await;
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert_eq!(acme.events(&id).await, delivered);
        let retried = acme.events(&waiting).await.remove(0);
        let outcome = acme.retry(&retried).await;
        match outcome.status {
            200 => assert_eq!(outcome.string("retryStatus"), "delivered"),
            // On a slow machine the next attempt may have come first.
            _ => assert_eq!(outcome.code(), "event_already_delivered"),
        }
        let since = &receiver.received()[before..];
        assert!(!since.is_empty());
        for webhook in since {
            assert_eq!(retried["eventId"], webhook.string("eventId"));
            assert_eq!(webhook.body_verifies(&acme.secret()), Ok(()));
        }
        acme.book().await;
        assert_eq!(acme.get("/v1/ledger/key").await.text(), vkey);
        Mirror::download(&acme.caller, &vkey).await.extends(&mirror);
        server.stop().await;
        to.verify(3).await;

        only_reads(&from, &acme, &id).await;
        // The new place has been written, so no flag reopens the old one.
        let back = reopen(&from, &to).args("--yes --risk-two-histories");
        let ran = back.run().await;
        ran.refused(5, &["target_written", "two histories"]);
        let health = from.command("health").run().await;
        health.refused(9, &["ledger_moved"]);
        assert_eq!(to.command("health").run().await.string("status"), "ok");
    })
    .await;
}

/// Asserts that a moved database answers reads, and refuses everything else as `ledger_moved`.
async fn only_reads(database: &TestDatabase, acme: &Partner, booking: &str) {
    let server = Serving::start(database, &[]).await;
    let caller = acme.at(server.url());
    let path = format!("/v1/bookings/{booking}");
    assert_eq!(caller.get(&path).await.ok(200)["bookingId"], booking);
    moved_away(&caller.post("/v1/bookings", &samples::booking()).await);
    moved_away(&caller.post_nothing("/v1/api-keys").await);
    moved_away(&caller.get("/v1/health").await);
    let said = server.stop().await;
    assert!(said.contains("was moved to"), "{said}");
    let health = database.command("health").run().await;
    health.refused(9, &["ledger_moved"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_move_can_be_undone_and_the_target_takes_no_writes() {
    on_every_route(async |engine, other| {
        let (from, to) = (TestDatabase::new(engine), TestDatabase::new(other));
        let (acme, id) = booked(&from).await;
        transfer(&from, &to).run().await.json();
        take_key(&from, &to);
        // A server in the new place that has had no request yet.
        let there = Serving::start(&to, &[]).await;
        reopen(&from, &to)
            .run()
            .await
            .refused(2, &["--yes", "takes writes again and"]);
        let back = reopen(&from, &to).arg("--yes").run().await.json();
        assert!(back["wasMovedTo"].is_string(), "{back}");
        back.holds(json!({"closed": true, "takesWrites": true}));
        let caller = acme.at(there.url());
        moved_away(&caller.post("/v1/bookings", &samples::booking()).await);
        assert_eq!(acme.on(there.url()).booking(&id).await["bookingId"], id);
        let here = Serving::start(&from, &[]).await;
        acme.on(here.url()).book().await;
        for server in [here, there] {
            server.stop().await;
        }
        let again = reopen(&from, &to).arg("--yes").run().await;
        again.refused(5, &["not_moved", "nothing to take back"]);
        from.verify(2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_not_undone_if_the_new_place_was_written_and_put_back() {
    let [from, to] = [Engine::Sqlite; 2].map(TestDatabase::new);
    let (acme, _) = booked(&from).await;
    transfer(&from, &to).run().await.json();
    take_key(&from, &to);
    let backup = to.folder().join("moved.db");
    to.command("backup").arg(&backup).run().await.json();
    let there = Serving::start(&to, &[]).await;
    acme.on(there.url()).book().await;
    there.stop().await;
    to.command("restore").arg(&backup).run().await.json();
    let refused = reopen(&from, &to).arg("--yes").run().await;
    refused.refused(5, &["target_written", "put back since: 3 entries"]);

    // Nor is it forgotten if the new place is gone, as long as the guard knows.
    std::fs::remove_file(to.file()).unwrap();
    let guard = guard::default_path(None, Some(to.file()));
    let line = reopen(&from, &to).args(["--yes", "--risk-two-histories", "--guard-file"]);
    let ran = line.arg(guard).run().await.json();
    ran.holds(json!({"closed": false, "takesWrites": false}));
    let line =
        "partners register --name Zenith --business-type venue --contact-email z@zenith.example";
    let refused = from.command(line).run().await;
    refused.ended(9, &["ledger_rolled_back", "but 3 were published"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_moved_is_not_backed_up_in_its_old_place() {
    let [from, to] = [Engine::Sqlite; 2].map(TestDatabase::new);
    booked(&from).await;
    transfer(&from, &to).run().await.json();
    take_key(&from, &to);
    let folder = tempfile::tempdir().unwrap();
    let back_up = |database: &TestDatabase| {
        let line = database.command("backup --keep 1");
        line.arg(folder.path())
    };
    let kept = back_up(&to).run().await.string("file");
    let refused = back_up(&from).run().await;
    refused.refused(5, &["ledger_moved", "back that up"]);
    assert!(std::fs::exists(kept).unwrap());

    // A copy of the old place, in the new one: it says where it was moved, which is itself.
    let copy = from.folder().join("copy.db");
    from.command("backup").arg(&copy).run().await.json();
    std::fs::remove_file(to.file()).unwrap();
    let [old, new] = [&from, &to].map(|database| guard::default_path(None, Some(database.file())));
    std::fs::copy(old, new).unwrap();
    let done = to.command("restore").arg(&copy).run().await.json();
    assert!(
        done.text("next").contains("--reopen --risk-two-histories"),
        "{done}"
    );
    let line = bookguard("transfer --reopen --yes --from").arg(to.file());
    let refused = line.run().await;
    refused.refused(5, &["target_not_seen", "this database itself"]);
    let line = bookguard("transfer --reopen --yes --risk-two-histories --from");
    let opened = line.arg(to.file()).run().await.json();
    opened.holds(json!({"closed": false, "takesWrites": true}));
    to.verify(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_runs_meanwhile_loses_nothing_and_stops_writing() {
    on_every_route(async |engine, other| {
        let (from, to) = (TestDatabase::new(engine), TestDatabase::new(other));
        let (server, acme) = Serving::with_partner(&from, &[]).await;
        let made = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..4)
            .map(|_| tokio::spawn(write_until_refused(acme.caller.clone(), Arc::clone(&made))))
            .collect();
        let enough = async || (made.load(Ordering::Acquire) > 50).then_some(());
        until("some bookings", enough).await;
        let moved = transfer(&from, &to).run().await.json();
        for writer in writers {
            moved_away(&writer.await.unwrap());
        }
        let made = made.load(Ordering::Acquire);
        // What was answered, and no more.
        assert_eq!(moved["tables"]["booking"], made);
        acme.get("/v1/bookings").await.ok(200);
        moved_away(&acme.get("/v1/health").await);
        let said = server.stop().await;
        assert_eq!(said.matches("was moved to").count(), 1, "said once: {said}");
        take_key(&from, &to);
        to.verify(made).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_nobody_asks_tells_of_the_move_and_of_its_end() {
    on_every_route(async |engine, other| {
        let (from, to) = (TestDatabase::new(engine), TestDatabase::new(other));
        let (server, _) = Serving::with_partner(&from, &[]).await;
        transfer(&from, &to).run().await.json();
        let said = server
            .until_said("the database's ledger was moved to ")
            .await;
        assert!(!said.contains("continues in this database"), "{said}");
        reopen(&from, &to).arg("--yes").run().await.json();
        let again = "the ledger continues in this database again";
        server.until_said(again).await;
        let said = server.stop().await;
        for line in ["the database's ledger was moved to ", again] {
            assert_eq!(said.matches(line).count(), 1, "{said}");
        }
    })
    .await;
}

/// Records bookings until one is refused, and returns the refusal.
async fn write_until_refused(caller: Caller, made: Arc<AtomicUsize>) -> Reply {
    loop {
        let reply = caller.post("/v1/bookings", &samples::booking()).await;
        if reply.status != 201 {
            return reply;
        }
        made.fetch_add(1, Ordering::AcqRel);
    }
}

/// SQL for enough rows to keep a move busy for a while.
fn filler(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => {
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15000) \
             INSERT INTO answer SELECT CAST(CAST(i AS TEXT) AS BLOB), i, x'00', zeroblob(500), NULL FROM n"
        }
        Engine::Postgres => {
            "INSERT INTO answer SELECT i::TEXT::BYTEA, i, '\\x00', decode(repeat('00', 500), 'hex') \
             FROM generate_series(1, 15000) i"
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_killed_at_any_moment_is_simply_begun_again() {
    on_every_route(async |engine, other| {
        let from = TestDatabase::new(engine);
        booked(&from).await;
        from.tamper(filler(engine));
        let first = TestDatabase::new(other);
        let whole = transfer(&from, &first).run().await.json();
        reopen(&from, &first).arg("--yes").run().await.json();
        let (to, mut killed) = (TestDatabase::new(other), 0);
        // Each time a little later.
        let kills = if is_long() { 6 } else { 3 };
        for kill in 0..kills {
            let mut seen = 0;
            let line = transfer(&from, &to);
            let in_the_middle = || {
                seen += u32::from(from.turn_is_taken());
                seen > kill
            };
            if !line.killed_when(in_the_middle).await {
                break;
            }
            killed += 1;
            if from.command("health").run().await.code != Some(0) {
                // The move was killed between its last two steps, or after the last.
                break;
            }
        }
        assert!(killed > 0, "it was over before it could be killed");
        let last = transfer(&from, &to).run().await;
        match last.code {
            Some(0) => {
                let (mut tables, whole) = (last.json()["tables"].clone(), &whole["tables"]);
                // Each attempt closes the log with an entry.
                for of_the_log in ["entry", "checkpoint", "tile", "map_page"] {
                    assert!(tables[of_the_log].as_u64() >= whole[of_the_log].as_u64());
                    tables[of_the_log] = whole[of_the_log].clone();
                }
                assert_eq!(tables, *whole);
            }
            _ => {
                last.refused(5, &["target_not_empty", "it holds the ledger"]);
            }
        }
        take_key(&from, &to);
        to.tamper("DELETE FROM answer");
        to.verify(1).await;
        let health = from.command("health").run().await;
        health.refused(9, &["ledger_moved"]);
    })
    .await;
}

/// A database as its mark on the other one calls it.
fn place(database: &TestDatabase) -> String {
    match database.db() {
        Database::File(path) => path.canonicalize().unwrap().display().to_string(),
        server => server.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_begins_a_ledger_where_a_move_was_killed_before_its_end() {
    on_every_route(async |engine, other| {
        let (from, to) = (TestDatabase::new(engine), TestDatabase::new(other));
        booked(&from).await;
        take_key(&from, &to);
        Serving::start(&to, &[]).await.stop().await;
        // What is left of a move between the commit that marks the source and the one that brings everything.
        let mut tables = to.tables();
        tables.retain(|table| table != "head");
        to.tamper(&format!("DELETE FROM {}", tables.join("; DELETE FROM ")));
        let (here, there) = (place(&from), place(&to));
        let vkey = from.command("ledger key").run().await.stdout;
        let vkey = vkey.trim();
        let (origin, _) = vkey.split_once('+').unwrap();
        to.tamper(&format!(
            "UPDATE head SET checkpoint = '', moved_to = '{here}', origin = '{origin}', vkey = '{vkey}'"
        ));
        from.tamper(&format!("UPDATE head SET moved_to = '{there}'"));
        let not_served = async || {
            for command in ["partners list", "health"] {
                let refused = to.command(command).run().await;
                let words = [here.as_str(), there.as_str(), "has not ended", "--reopen"];
                refused.refused(1, &words);
            }
            let doctor = to.command("doctor").run().await;
            assert!(doctor.stdout.contains("has not ended"), "{doctor:?}");
        };
        not_served().await;
        let taken_back = reopen(&from, &to).arg("--yes").run().await.json();
        assert_eq!(taken_back["closed"], true, "{taken_back}");
        from.verify(1).await;
        not_served().await;
        transfer(&from, &to).run().await.json();
        to.verify(1).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_makes_no_sense_is_refused_with_its_reason() {
    on_every_route(async |engine, other| {
        let from = TestDatabase::new(engine);
        let [to, third] = [other; 2].map(TestDatabase::new);
        for database in [&from, &third] {
            Serving::start(database, &[]).await.stop().await;
        }
        let ran = transfer(&from, &third).run().await;
        let words = [
            "target_not_empty",
            "it holds the ledger",
            "Nothing was moved",
        ];
        ran.refused(5, &words);
        let ran = transfer(&from, &from).run().await;
        ran.refused(5, &["same_database"]);
        let (source, target) = (text(from.db()), text(to.db()));
        let missing = from.folder().join("none");
        for (key, code, words) in [
            (third.key_file(), 5, "wrong_ledger_key"),
            (missing, 1, "is missing"),
        ] {
            let line = bookguard(format!("transfer --from {source} --to {target}"));
            let ran = line.arg("--ledger-key").arg(key).run().await;
            ran.refused(code, &[words, "--ledger-key"]);
        }
        let nowhere = from.folder().join("nowhere.db");
        let ran = bookguard(format!("transfer --to {target} --from")).arg(&nowhere);
        ran.run().await.refused(1, &["there is no database at"]);
        let ran = from.command(format!("transfer --from {source} --to {target}"));
        ran.run().await.refused(2, &["--from and --to"]);
        let ran = bookguard(format!("transfer --from {source}")).run().await;
        ran.refused(2, &["--to", "BOOKGUARD_TRANSFER_TO"]);
        let ran = bookguard(format!("transfer --to {target}")).run().await;
        ran.refused(2, &["--from", "BOOKGUARD_TRANSFER_FROM"]);
        // None of these refusals changed anything.
        transfer(&from, &to).run().await.json();
        let away = TestDatabase::new(other);
        let ran = transfer(&from, &away).run().await;
        ran.refused(5, &["ledger_moved", "--reopen"]);
        // The database can be moved on from its new place. Addresses with passwords come from the environment.
        take_key(&from, &to);
        let line = bookguard("transfer --ledger-key").arg(to.key_file());
        let line = line.env("BOOKGUARD_TRANSFER_FROM", text(to.db()));
        let line = line.env("BOOKGUARD_TRANSFER_TO", text(away.db()));
        line.run().await.json();
        take_key(&to, &away);
        away.verify(0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_move_with_their_bookings() {
    on_every_route(async |engine, other| {
        let (from, to) = (TestDatabase::new(engine), TestDatabase::new(other));
        let (server, acme) = Serving::with_partner(&from, &[]).await;
        let items = format!("/v1/bookings/{}/evidence/items", acme.book().await);
        // More parts than are read and written at a time, which are 32.
        let bytes = 32 * FILE_PART_BYTES + 1;
        let file: Vec<u8> = (0..bytes).map(|n| (n >> 9) as u8).collect();
        let item = acme.post(&items, &samples::item_with_file(&file)).await;
        let path = format!("{items}/{}/file", item.string("itemId"));
        acme.send(acme.request("PUT", &path).body(file.clone()))
            .await
            .ok(200);
        server.stop().await;
        let moved = transfer(&from, &to).run().await.json();
        moved["tables"].holds(json!({"file": 1, "file_part": 33}));
        take_key(&from, &to);
        to.verify(1).await;
        let server = Serving::start(&to, &[]).await;
        assert_eq!(acme.at(server.url()).get(&path).await.body, file);
        server.stop().await;
    })
    .await;
}
