//! Backups that are verified before they count, in a folder that keeps the newest.

use std::collections::BTreeSet;
use std::path::Path;

use bookguard_core::clock::Clock;
use bookguard_tests::engine::{Engine, TestDatabase, on_postgres};
use bookguard_tests::files::{allow, mode, names};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Serving, bookguard};
use serde_json::{Value, json};
use tempfile::TempDir;

fn folder_of(mode: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    allow(folder.path(), mode);
    folder
}

/// Makes a backup of the database in the folder, and returns what the command said.
async fn back_up(database: &TestDatabase, keep: usize, folder: &Path) -> Value {
    let line = database.command(format!("backup --keep {keep}"));
    line.arg(folder).run().await.json()
}

fn name(made: &Value) -> String {
    let file = Path::new(made.text("file"));
    file.file_name().unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_newest_verified_backups_stay_and_nothing_else_is_touched() {
    let [database, other] = [Engine::Sqlite; 2].map(TestDatabase::new);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    Serving::start(&other, &[]).await.stop().await;
    let folder = folder_of(0o700);
    let others = name(&back_up(&other, 1, folder.path()).await);
    let strange = [
        "notes.txt",
        "bookguard-mine.db",
        "mine.db.0123456789ab.part",
        "bookguard-20200101T000000.000Z.db.bak",
    ];
    for file in strange {
        std::fs::write(folder.path().join(file), "mine").unwrap();
    }
    // A killed run leaves its draft, and a disk can damage a backup.
    let left = "bookguard-20200101T000000.000Z.db.0123456789ab.part";
    let damaged = "bookguard-20200101T000000.000Z.db";
    for file in [left, damaged] {
        std::fs::write(folder.path().join(file), "x".repeat(9000)).unwrap();
    }
    let mut made = Vec::new();
    for _ in 0..4 {
        acme.book().await;
        let backup = back_up(&database, 2, folder.path()).await;
        assert_eq!(backup["verified"], "ledger", "{backup}");
        let warnings = backup.list("warnings");
        assert_eq!(warnings.len(), 1, "{backup}");
        assert!(warnings[0].as_str().unwrap().contains(damaged), "{backup}");
        made.push(backup);
    }
    let deleted: Vec<_> = made.iter().map(|backup| backup.list("deleted")).collect();
    for (before, deleted) in deleted.iter().enumerate() {
        let expected = before.checked_sub(2).map(|old| made[old]["file"].clone());
        assert_eq!(**deleted, *expected.as_slice(), "backup {before}");
    }
    let mut expected: BTreeSet<String> = strange.map(str::to_owned).into();
    expected.extend([damaged.to_owned(), others, name(&made[2]), name(&made[3])]);
    assert_eq!(names(folder.path()), expected);
    assert!(name(&made[2]) < name(&made[3]));
    let newest = folder.path().join(name(&made[3]));
    assert_eq!(mode(&newest), 0o600);
    let key = database.key_file();
    let verified = bookguard("ledger verify --backup --ledger-key").arg(key);
    let verified = verified.arg("--db").arg(&newest).run().await.json();
    verified.holds(json!({"verified": true, "bookings": 4}));
    // Others who can look into the folder are a warning, and the table says all of it too.
    let open = folder_of(0o755);
    let line = database.command("backup --output table --keep 1");
    let ran = line.arg(open.path()).run().await;
    ran.said(&["Verified: the ledger", "(mode 0755)", "chmod 700"]);
    server.stop().await;
}

#[tokio::test]
async fn backups_of_a_clock_that_was_ahead_push_none_out() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    let folder = folder_of(0o700);
    let first = back_up(&database, 2, folder.path()).await;
    // By their names, they are newer than all that are made here. By one of them, that may be so.
    let soon = Clock::System.now().plus_ms(60_000).to_string();
    let soon = format!("bookguard-{}.db", soon.replace(['-', ':'], ""));
    let ahead = [soon, "bookguard-21260101T000000.000Z.db".to_owned()];
    let [soon, late] = ahead.map(|name| folder.path().join(name));
    for file in [&soon, &late] {
        std::fs::copy(first.text("file"), file).unwrap();
    }
    acme.book().await;
    let second = back_up(&database, 2, folder.path()).await;
    assert_eq!(second["deleted"], json!([soon, first["file"]]), "{second}");
    acme.book().await;
    let third = back_up(&database, 2, folder.path()).await;
    assert_eq!(third["deleted"], json!([late]), "{third}");
    assert_eq!(third["warnings"], json!([]), "{third}");
    let left = BTreeSet::from([name(&second), name(&third)]);
    assert_eq!(names(folder.path()), left);
    server.stop().await;
}

/// Asserts that two backups fail so, that the last copy alone stays beside the `sound` backup, and that its name has this end.
async fn set_aside(
    backup: impl Fn() -> CommandLine,
    (code, words): (i32, &[&str]),
    (sound, end): (&str, &str),
) {
    let mut aside = BTreeSet::new();
    for _ in 0..2 {
        let folder = Path::new(sound).parent().unwrap();
        let ran = backup().arg(folder).run().await;
        ran.refused(code, words)
            .refused(code, &["not counted as a backup", end]);
        let mut there = names(folder);
        let sound = Path::new(sound).file_name().unwrap().to_str().unwrap();
        assert!(there.remove(sound), "{there:?}");
        assert_eq!(there.len(), 1, "only the last one is kept: {there:?}");
        assert!(there.first().unwrap().ends_with(end), "{there:?}");
        aside.extend(there);
    }
    assert_eq!(aside.len(), 2);
}

#[tokio::test]
async fn a_copy_that_does_not_verify_counts_as_no_backup() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::start(&database, &[]).await;
    server.partner("Acme").await.book().await;
    server.stop().await;
    let folder = folder_of(0o700);
    let sound = back_up(&database, 1, folder.path()).await;
    database.tamper("UPDATE head SET checkpoint = 'x'");
    let backup = || database.command("backup --keep 1");
    let kept = (sound.text("file"), ".db.failed");
    set_aside(backup, (6, &["ledger verify"]), kept).await;
}

#[tokio::test]
async fn without_the_ledger_key_a_copy_counts_as_no_backup_and_pushes_none_out() {
    let [database, other] = [Engine::Sqlite; 2].map(TestDatabase::new);
    for database in [&database, &other] {
        Serving::start(database, &[]).await.stop().await;
    }
    let folder = folder_of(0o700);
    let with_key = |key: &Path| {
        let line = database.command("backup --keep 1");
        line.arg("--ledger-key").arg(key)
    };
    let sound = back_up(&database, 1, folder.path()).await;
    let none = database.folder().join("none.key");
    let kept = (sound.text("file"), ".db.unverified");
    set_aside(|| with_key(&none), (1, &["none.key is missing"]), kept).await;
    let left = names(folder.path());
    let foreign = other.key_file();
    let ran = with_key(&foreign).arg(folder.path()).run().await;
    ran.refused(5, &["wrong_ledger_key", "another key"]);
    assert_eq!(names(folder.path()), left);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_leaves_nothing() {
    let database = TestDatabase::new(Engine::Sqlite);
    Serving::start(&database, &[]).await.stop().await;
    let folder = folder_of(0o700);
    let run = async |args: &str, to: Option<&Path>| {
        let line = database.command(args);
        to.into_iter().fold(line, CommandLine::arg).run().await
    };
    let none = folder.path().join("none");
    for args in ["backup --keep 1", "backup --every 1h"] {
        let ran = run(args, Some(&none)).await;
        ran.refused(1, &["does not exist", "mkdir -m 700"]);
        let ran = run(args, Some(database.file())).await;
        ran.refused(1, &["is not a folder"]);
        run(args, None).await.refused(2, &["backup_folder"]);
    }
    run("backup", None).await.refused(2, &["<FILE|FOLDER>"]);
    for number in ["0", "x", "1001"] {
        let line = format!("backup --keep {number}");
        let ran = run(&line, Some(folder.path())).await;
        ran.refused(2, &["--keep", "a whole number from 1 to 1000, such as 14"]);
    }
    let often = run("backup --every 1y", Some(folder.path())).await;
    often.refused(2, &["--every", "24h"]);
    let rows = run("backup --every 1h --output csv", Some(folder.path())).await;
    rows.refused(2, &["--fields"]);
    assert!(names(folder.path()).is_empty());
    // Two at once: the second one ends, and touches nothing of the first.
    let draft = "bookguard-20200101T000000.000Z.db.0123456789ab.part";
    std::fs::write(folder.path().join(draft), "").unwrap();
    let first = std::fs::File::open(folder.path()).unwrap();
    first.lock().unwrap();
    let ran = run("backup --keep 1", Some(folder.path())).await;
    ran.refused(5, &["backup_running", "under way"]);
    assert_eq!(names(folder.path()), [draft.to_owned()].into());
    drop(first);
    let line = database.command("backup --keep 1");
    let line = line.env("BOOKGUARD_BACKUP_FOLDER", folder.path());
    let made = line.run().await.json();
    assert_eq!(names(folder.path()), [name(&made)].into());
    // Somebody serves a backup where it lies: it would be deleted as one.
    let line = bookguard("backup --keep 1 --db").arg(made.text("file"));
    let ran = line.arg(folder.path()).run().await;
    ran.refused(5, &["same_database", "the database itself"]);
    assert_eq!(names(folder.path()), [name(&made)].into());
}

#[tokio::test]
async fn a_backup_that_is_killed_leaves_what_the_next_one_removes() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    for _ in 0..200 {
        acme.book().await;
    }
    let folder = folder_of(0o700);
    let drafts = || {
        let names = names(folder.path()).into_iter();
        names.filter(|name| name.ends_with(".part")).count()
    };
    let mut killed = false;
    for _ in 0..50 {
        let line = database.command("backup --keep 1").arg(folder.path());
        killed = line.killed_when(|| drafts() > 0).await;
        if killed {
            break;
        }
    }
    assert!(killed, "a draft is there long enough to be seen");
    assert_eq!(drafts(), 1);
    let made = back_up(&database, 1, folder.path()).await;
    assert_eq!(names(folder.path()), [name(&made)].into());
    server.stop().await;
}

#[tokio::test]
async fn a_backup_that_is_told_to_end_ends_and_leaves_no_draft() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    for _ in 0..200 {
        acme.book().await;
    }
    let folder = folder_of(0o700);
    let mut in_the_middle = false;
    for made in 0..50 {
        let seen = || {
            let names = names(folder.path());
            in_the_middle = names.iter().any(|name| name.ends_with(".part"));
            in_the_middle || names.len() > made
        };
        let line = database.command("backup --every 1h --keep 100");
        let ended = line.arg(folder.path()).signaled_when("TERM", seen).await;
        assert_eq!(ended.and_then(|status| status.code()), Some(0));
        let left = names(folder.path());
        assert!(left.iter().all(|name| name.ends_with(".db")), "{left:?}");
        if in_the_middle {
            break;
        }
    }
    assert!(in_the_middle, "a draft is there long enough to be seen");
    server.stop().await;
}

#[tokio::test]
async fn backups_are_made_again_and_again_until_the_command_is_told_to_end() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    let folder = folder_of(0o700);
    let line = database.command("backup --every 1s --keep 2");
    let mut running = line.arg(folder.path()).start();
    let mut made = Vec::new();
    for _ in 0..3 {
        acme.book().await;
        let backup: Value = serde_json::from_str(&running.line().await).unwrap();
        assert_eq!(backup["verified"], "ledger");
        made.push(name(&backup));
    }
    assert_eq!(running.terminate().await, Some(0));
    let left = names(folder.path());
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|name| name.ends_with(".db")), "{left:?}");
    assert!(left.last() >= made.last(), "{left:?} {made:?}");
    server.stop().await;
}

#[tokio::test]
async fn postgresql_makes_its_own_backups_and_the_way_out_is_said() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let ran = database.command("backup --keep 3").arg(database.folder());
        let ran = ran.run().await;
        ran.refused(5, &["not_a_file", "pg_dump", "ledger verify --backup"]);
    })
    .await;
}

#[tokio::test]
async fn a_server_warns_of_a_folder_that_is_not_there() {
    let database = TestDatabase::new(Engine::Sqlite);
    let nowhere = database.folder().join("nowhere");
    let shown = nowhere.display().to_string();
    let server = Serving::start(&database, &["--backup-folder", &shown]).await;
    server
        .until_said(&format!("the folder of backups {shown} cannot be read"))
        .await;
    server.stop().await;
}
