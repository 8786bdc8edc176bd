//! A database that is copied while it is in use, and what the copy can be used for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bookguard_tests::caller::Caller;
use bookguard_tests::engine::{Engine, TestDatabase, on_postgres};
use bookguard_tests::files::{mode, names};
use bookguard_tests::json::Members as _;
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::{Serving, bookguard};
use bookguard_tests::samples;
use bookguard_tests::waiting::until;
use serde_json::json;

/// Records bookings until `stop` is set, and returns their ids.
async fn write(caller: Caller, stop: Arc<AtomicBool>) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    while !stop.load(Ordering::Acquire) {
        let reply = caller.post("/v1/bookings", &samples::booking()).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        made.insert(reply.string("bookingId"));
    }
    made
}

async fn bookings(caller: &Caller) -> BTreeSet<String> {
    let rows = caller.rows("/v1/bookings?limit=100").await;
    let ids = rows.iter().map(|booking| booking.text("bookingId"));
    ids.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_made_under_load_is_one_moment_whole_and_in_one_file() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|_| tokio::spawn(write(acme.caller.clone(), Arc::clone(&stop))))
        .collect();
    let before = until("some bookings", async || {
        let made = bookings(&acme.caller).await;
        (made.len() > 100).then_some(made)
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    let made = database.command("backup").arg(&copy).run().await.json();
    stop.store(true, Ordering::Release);
    let mut all = before.clone();
    for writer in writers {
        all.extend(writer.await.unwrap());
    }
    server.stop().await;
    assert_eq!(names(folder.path()), ["copy.db".to_owned()].into());
    assert_eq!(made["bytes"], std::fs::metadata(&copy).unwrap().len());
    assert_eq!(mode(&copy), mode(database.file()));
    // The copy verifies with the key, and the report says what it holds.
    let key = database.key_file();
    let line = bookguard("ledger verify --backup --db").arg(&copy);
    let verified = line.arg("--ledger-key").arg(&key).run().await.json();
    verified.holds(json!({"verified": true, "entries": made["treeSize"]}));
    // It can be served: every booking answered before the copy is there, and none that was never requested.
    let line = bookguard("serve --listen 127.0.0.1:0 --db").arg(&copy);
    let server = Serving::of(line.arg("--ledger-key").arg(&key)).await;
    let held = bookings(&acme.at(server.url())).await;
    assert!(before.is_subset(&held) && held.is_subset(&all));
    assert_eq!(verified["bookings"], held.len());
    let caller = server.caller();
    let vkey = caller.get("/v1/ledger/key").await.text();
    let mirror = Mirror::download(&caller, &vkey).await;
    let size = made["treeSize"].as_u64().unwrap();
    assert_eq!(made["rootHash"], mirror.root_hex_at(size), "as in receipts");
    server.stop().await;
}

#[tokio::test]
async fn a_backup_that_makes_no_sense_is_refused_and_touches_nothing() {
    let database = TestDatabase::new(Engine::Sqlite);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let ran = database.command("backup").arg(path("x.db")).run().await;
    ran.ended(1, &["there is no database"]);
    let server = Serving::start(&database, &[]).await;
    std::fs::write(path("mine"), "mine").unwrap();
    std::fs::write(path("text.db"), "a shopping list".repeat(100)).unwrap();
    std::fs::write(path("empty.db"), "").unwrap();
    let file = || database.file().to_owned();
    for (db, to, code, words) in [
        (file(), path("mine"), 5, "already exists"),
        (file(), folder.path().to_owned(), 5, "add --keep"),
        (file(), file(), 5, "already exists"),
        (file(), path("none/x.db"), 1, "does not exist"),
        (path("text.db"), path("x.db"), 1, "damaged"),
        (path("nowhere.db"), path("x.db"), 1, "there is no database"),
        (path("empty.db"), path("x.db"), 5, "no_ledger"),
    ] {
        let ran = bookguard("backup --db").arg(&db).arg(&to).run().await;
        ran.refused(code, &[words]);
    }
    // A command that only looks begins no ledger in a file that was cut to nothing.
    for line in ["ledger verify --db", "bookings list --db"] {
        let ran = bookguard(line).arg(path("empty.db")).run().await;
        ran.ended(1, &["is empty"]);
    }
    assert_eq!(std::fs::read(path("empty.db")).unwrap(), b"");
    let remote = bookguard(format!("backup x.db --url {}", server.url()));
    remote.run().await.ended(2, &[]);
    assert_eq!(std::fs::read(path("mine")).unwrap(), b"mine");
    let left = ["empty.db", "mine", "text.db"];
    assert_eq!(names(folder.path()), left.map(str::to_owned).into());
    server.stop().await;
}

#[tokio::test]
async fn a_backup_that_is_told_to_end_leaves_nothing_and_a_later_one_what_others_make() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    for _ in 0..200 {
        acme.book().await;
    }
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("x.db");
    let back_up = || database.command("backup").arg(&to);
    let mut in_the_middle = false;
    for _ in 0..50 {
        let ended = back_up().signaled_when("TERM", || !names(folder.path()).is_empty());
        let code = ended.await.and_then(|status| status.code());
        match names(folder.path()).iter().next() {
            None => {
                assert_eq!(code, Some(1));
                in_the_middle = true;
                break;
            }
            // It was whole already.
            Some(name) => assert_eq!(name, "x.db"),
        }
        std::fs::remove_file(&to).unwrap();
    }
    assert!(in_the_middle, "a draft is there long enough to be seen");
    // What nobody has written to for hours is a killed one's.
    let hours = std::time::Duration::from_secs(2 * 60 * 60);
    for (name, age) in [
        ("x.db.0123456789ab.part", hours),
        ("x.db.ba9876543210.part", std::time::Duration::ZERO),
        ("y.db.0123456789ab.part", hours),
    ] {
        let draft = std::fs::File::create(folder.path().join(name)).unwrap();
        let then = std::time::SystemTime::now() - age;
        draft.set_modified(then).unwrap();
    }
    back_up().run().await.ended(0, &[]);
    let left = ["x.db", "x.db.ba9876543210.part", "y.db.0123456789ab.part"];
    assert_eq!(names(folder.path()), left.map(str::to_owned).into());
    server.stop().await;
}

#[tokio::test]
async fn a_backup_of_postgresql_is_its_own_programs_to_make() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let line = database.command("backup");
        let ran = line.arg(database.folder().join("x.db")).run().await;
        ran.ended(5, &["pg_dump", "point-in-time", "key"]);
    })
    .await;
}
