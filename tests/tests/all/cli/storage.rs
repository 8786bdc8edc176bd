//! A disk that fails or fills up under a server: health reports it, everything possible continues, and all works again
//! after the repair.

use std::time::{Duration, Instant};

use bookguard_core::limits::{METADATA_PAIRS, METADATA_VALUE_CHARS};
use bookguard_tests::caller::Caller;
use bookguard_tests::disk_faults::{DiskFaults, EIO, ENOSPC};
use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Serving, alarms};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::Partner;
use bookguard_tests::waiting::until;
use serde_json::{Map, json};
use tokio::time::sleep;

fn serve(database: &TestDatabase) -> CommandLine {
    database
        .command("serve --listen 127.0.0.1:0 --dev")
        .env("BOOKGUARD_RATE_LIMIT_PER_SECOND", "0")
}

/// Returns health's answer: `ok`, or the code of a refusal.
async fn health_now(caller: &Caller) -> String {
    let reply = caller.get("/v1/health").await;
    match reply.status {
        200 => "ok".to_owned(),
        503 => reply.code(),
        other => panic!("{other}: {}", reply.text()),
    }
}

/// Waits until health gives this answer.
async fn health(caller: &Caller, expected: &str) {
    until(expected, async || {
        (health_now(caller).await == expected).then_some(())
    })
    .await;
}

fn count(text: &str, words: &str) -> usize {
    text.matches(words).count()
}

/// The length of the database's write-ahead log.
fn log_bytes(database: &TestDatabase) -> u64 {
    let log = database.file().with_extension("db-wal");
    std::fs::metadata(log).unwrap().len()
}

/// Records bookings, as large as they may be, until the log is this long. Returns how many.
async fn lengthen_log(database: &TestDatabase, acme: &Partner, bytes: u64) -> usize {
    let text = "x".repeat(METADATA_VALUE_CHARS);
    let pairs = (0..METADATA_PAIRS).map(|n| (format!("key{n}"), json!(text)));
    let metadata: Map<_, _> = pairs.collect();
    let mut made = 0;
    while log_bytes(database) < bytes {
        acme.book_with(json!({"metadata": metadata})).await;
        made += 1;
    }
    made
}

#[tokio::test]
async fn health_reports_an_unwritable_log_without_writes_and_its_recovery() {
    let Some(disk) = DiskFaults::new() else {
        return;
    };
    for (call, error, code) in [
        ("write", EIO, "storage_failing"),
        ("write", ENOSPC, "storage_full"),
        ("sync", EIO, "storage_failing"),
    ] {
        let database = TestDatabase::new(Engine::Sqlite);
        let server = Serving::of(disk.under(serve(&database))).await;
        let acme = server.partner("Acme").await;
        acme.book().await;
        health(&acme.caller, "ok").await;
        disk.fail(&[(call, "-wal", error)]);
        let began = Instant::now();
        health(&acme.caller, code).await;
        // Health looks again every second; the rest is for a busy machine.
        let noticed = began.elapsed();
        assert!(noticed < Duration::from_secs(10), "{noticed:?}");
        for _ in 0..20 {
            let reply = acme.post("/v1/bookings", &samples::booking()).await;
            let refused = match code {
                "storage_full" => code,
                _ => "unavailable",
            };
            reply.refused(503, refused);
        }
        health(&acme.caller, code).await;
        acme.get("/v1/bookings").await.ok(200);
        disk.mend();
        // The repair is noticed even if nobody writes.
        health(&acme.caller, "ok").await;
        acme.book().await;
        server.until_said("writes work again after").await;
        let said = server.stop().await;
        assert_eq!(count(&said, "writes fail"), 1, "{said}");
        assert!(said.contains("20 batches with 20 requests"), "{said}");
        database.verify(2).await;
    }
}

#[tokio::test]
async fn an_unwritable_database_file_is_reported_and_its_log_is_truncated_afterwards() {
    let Some(disk) = DiskFaults::new() else {
        return;
    };
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::of(disk.under(serve(&database))).await;
    let acme = server.partner("Acme").await;
    disk.fail(&[("write", "/bookguard.db", EIO)]);
    let mut made = lengthen_log(&database, &acme, 20 << 20).await;
    // Every write succeeded, but health reports that the log cannot be checkpointed.
    health(&acme.caller, "checkpoints_failing").await;
    disk.mend();
    health(&acme.caller, "ok").await;
    // It is cut at once, unless somebody reads at that moment (a health check does). Then a later write cuts it.
    until("a log that is cut", async || {
        acme.book().await;
        made += 1;
        (log_bytes(&database) <= 16 << 20).then_some(())
    })
    .await;
    let again = "is brought into the database file again";
    server.until_said(again).await;
    let said = server.stop().await;
    let begun = "cannot be brought into the database file";
    assert_eq!(count(&said, begun), 1, "{said}");
    assert_eq!(count(&said, "writes fail"), 0, "{said}");
    database.verify(made).await;
}

#[tokio::test]
async fn an_unsyncable_database_file_is_reported_while_a_backup_reads_too() {
    let Some(disk) = DiskFaults::new() else {
        return;
    };
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::of(disk.under(serve(&database))).await;
    let acme = server.partner("Acme").await;
    disk.fail(&[("sync", "/bookguard.db", EIO)]);
    let mut made = lengthen_log(&database, &acme, 9 << 20).await;
    health(&acme.caller, "checkpoints_failing").await;
    // While a reader holds an old snapshot, SQLite cannot finish a checkpoint and does not sync the file, so the pages before
    // that are written without a fault.
    let reader = rusqlite::Connection::open(database.file()).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let bookings = "SELECT COUNT(*) FROM booking";
    let seen: u32 = reader.query_row(bookings, [], |row| row.get(0)).unwrap();
    assert_eq!(seen as usize, made);
    // Few enough that the log does not become long again, over several of the server's tries.
    for _ in 0..12 {
        sleep(Duration::from_millis(250)).await;
        acme.book().await;
        made += 1;
        assert_eq!(health_now(&acme.caller).await, "checkpoints_failing");
    }
    drop(reader);
    assert_eq!(health_now(&acme.caller).await, "checkpoints_failing");
    disk.mend();
    health(&acme.caller, "ok").await;
    let said = server.stop().await;
    let begun = "cannot be brought into the database file";
    assert_eq!(count(&said, begun), 1, "{said}");
    database.verify(made).await;
}

#[tokio::test]
async fn a_read_that_the_disk_fails_is_not_called_damage() {
    let Some(disk) = DiskFaults::new() else {
        return;
    };
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::of(serve(&database)).await;
    server.partner("Acme").await;
    server.stop().await;
    disk.fail(&[("read", "/bookguard.db", EIO)]);
    let list = || disk.under(database.command("partners list")).run();
    let ran = list().await;
    ran.refused(1, &[]);
    assert!(!ran.stderr.contains("the database is damaged"), "{ran:?}");
    assert!(ran.stderr.contains("disk"), "{ran:?}");
    disk.mend();
    assert_eq!(list().await.code, Some(0));
}

#[tokio::test]
async fn a_check_of_a_damaged_file_ends_with_the_damage_and_is_not_to_be_tried_again() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::of(serve(&database)).await;
    server.partner("Acme").await.book().await;
    server.stop().await;
    let reader = rusqlite::Connection::open(database.file()).unwrap();
    let number = |sql: &str| -> u32 { reader.query_row(sql, [], |row| row.get(0)).unwrap() };
    let size = number("PRAGMA page_size") as usize;
    let page = number("SELECT rootpage FROM sqlite_schema WHERE name = 'booking'") as usize;
    drop(reader);
    let mut bytes = std::fs::read(database.file()).unwrap();
    bytes[(page - 1) * size..page * size].fill(0xa5);
    std::fs::write(database.file(), bytes).unwrap();
    let ran = database.command("ledger verify").run().await;
    let words = ["bookguard.db", "is malformed", "restore a backup"];
    ran.refused(1, &words);
    assert!(!ran.stderr.contains("ry again"), "{ran:?}");
}

#[tokio::test]
async fn stopping_on_a_full_disk_is_prompt_and_pending_deliveries_go_out_later() {
    let Some(disk) = DiskFaults::new() else {
        return;
    };
    let database = TestDatabase::new(Engine::Sqlite);
    let receiver = Receiver::answering(Answer::Late(Duration::from_millis(300), 500)).await;
    let server = Serving::of(disk.under(serve(&database))).await;
    let acme = server.partner("Acme").await;
    acme.endpoint(&receiver.url()).await;
    let booking = acme.book().await;
    // An attempt is in progress, and its outcome cannot be stored.
    disk.fail(&[("write", "-wal", ENOSPC)]);
    health(&acme.caller, "storage_full").await;
    let began = Instant::now();
    server.stop().await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
    disk.mend();
    receiver.answer(Answer::Status(200));
    let before = receiver.count();
    let server = Serving::of(disk.under(serve(&database))).await;
    receiver.wait_for(before + 1).await;
    let acme = acme.on(server.url());
    until("a delivery that is recorded", async || {
        (acme.events(&booking).await[0]["status"] == "delivered").then_some(())
    })
    .await;
    server.stop().await;
    database.verify(1).await;
}

#[tokio::test]
async fn below_the_minimum_of_free_disk_only_existing_bookings_are_served() {
    let database = TestDatabase::new(Engine::Sqlite);
    let receiver = Receiver::start().await;
    let (server, acme) = Serving::with_partner(&database, &["--dev"]).await;
    acme.endpoint(&receiver.url()).await;
    let (first, second) = (acme.book().await, acme.book().await);
    let post = async |caller: &Caller| {
        let booking = samples::booking();
        caller.post_once("/v1/bookings", "once", &booking).await
    };
    let made = post(&acme.caller).await.ok(201);
    receiver.wait_for(3).await;
    server.stop().await;

    // More than any disk has free.
    let server = Serving::start(&database, &["--dev", "--min-free-disk", "1048576TiB"]).await;
    let acme = acme.on(server.url());
    let open = server.caller();
    let other = json!({"url": format!("{}/other", receiver.url())});
    let other_partner = samples::partner("B");
    for refused in [
        acme.post("/v1/bookings", &samples::booking()).await,
        acme.put("/v1/policies/late", &samples::policy(5_000)).await,
        open.post("/v1/partners/register", &other_partner).await,
        acme.post("/v1/webhook-endpoints", &other).await,
    ] {
        refused.refused(503, "storage_low");
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(post(&acme.caller).await.ok(201), made, "answered before");
    acme.protect(&first).await;
    acme.cancel(&second, &samples::cancellation()).await;
    receiver.wait_for(5).await;
    // Health stays ok: a load balancer that removed the server would also stop the operations that still work.
    health(&open, "ok").await;
    let said = server.stop().await;
    assert_eq!(count(&said, "MiB of min_free_disk"), 1, "{said}");
    let ran = database.command("serve --min-free-disk lots").run().await;
    ran.ended(2, &["--min-free-disk: \"lots\" is not a size"]);
    database.verify(3).await;
}

#[cfg(unix)]
mod owners {
    use std::path::Path;

    use bookguard_tests::files::{allow, mode, names};
    use bookguard_tests::program::bookguard;

    use super::*;

    /// Returns the files that others than their owner may access.
    fn open_files(folder: &Path) -> Vec<String> {
        let mut names = Vec::from_iter(names(folder));
        names.retain(|name| mode(&folder.join(name)) & 0o177 != 0);
        names
    }

    #[tokio::test]
    async fn everything_that_is_made_is_its_owners_alone_whatever_the_umask() {
        let database = TestDatabase::new(Engine::Sqlite);
        let folder = database.file().parent().unwrap();
        let server = Serving::of(serve(&database).with_umask("000")).await;
        let acme = server.partner("Acme").await;
        acme.book().await;
        let files = names(folder).len();
        assert_eq!(files, 6, "database, log, index, lock, key, guard");
        assert_eq!(open_files(folder), [""; 0]);
        let copy = folder.join("copy.db");
        let backup = database.command("backup").arg(&copy).with_umask("000");
        assert_eq!(backup.run().await.code, Some(0));
        assert_eq!(open_files(folder), [""; 0]);
        let (ended, said) = server.terminate().await;
        assert_eq!((ended, alarms(&said).len()), (Some(0), 1), "{said}");

        let target = tempfile::tempdir().unwrap();
        let moved = bookguard("transfer --from").arg(database.file());
        let moved = moved.arg("--to");
        let moved = moved.arg(target.path().join("new.db")).with_umask("000");
        assert_eq!(moved.run().await.code, Some(0));
        assert_eq!(open_files(target.path()), [""; 0]);
    }

    #[tokio::test]
    async fn what_others_can_read_already_is_named_at_the_start() {
        let database = TestDatabase::new(Engine::Sqlite);
        let folder = database.file().parent().unwrap();
        Serving::of(serve(&database)).await.stop().await;
        allow(database.file(), 0o644);
        allow(folder, 0o777);
        let server = Serving::of(serve(&database)).await;
        let (ended, said) = server.terminate().await;
        assert_eq!((ended, alarms(&said).len()), (Some(0), 3), "{said}");
        for words in ["bookguard.db (mode 0644)", "chmod 600", "(mode 0777)"] {
            assert!(said.contains(words), "{words} in {said}");
        }
        assert!(!said.contains(".key (mode"), "{said}");
    }

    #[tokio::test]
    async fn a_backup_on_a_disk_that_is_read_only_is_verified() {
        let database = TestDatabase::new(Engine::Sqlite);
        let server = Serving::of(serve(&database)).await;
        let acme = server.partner("Acme").await;
        acme.book().await;
        let top = tempfile::tempdir().unwrap();
        allow(top.path(), 0o755);
        let folder = top.path().join("a %b?");
        std::fs::create_dir(&folder).unwrap();
        let copy = folder.join("copy.db");
        let key = top.path().join("bookguard.key");
        database.command("backup").arg(&copy).run().await.json();
        server.stop().await;
        std::fs::copy(database.key_file(), &key).unwrap();
        for file in [&copy, &key] {
            allow(file, 0o444);
        }
        allow(&folder, 0o555);
        let verify = bookguard("ledger verify --db").arg(&copy);
        let verify = verify.arg("--ledger-key").arg(&key);
        let verify = crate::cli::serving::permissions::unprivileged(verify, top.path());
        let report = verify.run().await.json();
        report.holds(json!({"verified": true, "bookings": 1}));
        assert_eq!(names(&folder).len(), 1);
        allow(&folder, 0o755);
    }
}
