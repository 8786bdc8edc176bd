//! A backup that becomes the database again: after a loss, beside what is still there, and with a kill at any moment.

use std::path::{Path, PathBuf};

use bookguard_core::guard::Guard;
use bookguard_core::ledger::Tree;
use bookguard_core::ledger::rollback::PublishedHead;
use bookguard_tests::engine::{Engine, TestDatabase, on_postgres};
use bookguard_tests::files::{mode, names};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Serving, bookguard};
use bookguard_tests::samples;
use bookguard_tests::test_server::Partner;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

use super::codes::REGISTER;

/// A database with a backup of two bookings, a copy of the guard of that moment, and further bookings that came later.
struct Backed {
    database: TestDatabase,
    backup: PathBuf,
    old_guard: PathBuf,
}

/// The sizes of the head that was found and of the one last seen, of a restore with a loss.
fn lost(done: &Value) -> (u64, u64) {
    let size = |which: &str| done["lost"][which]["size"].as_u64();
    let sizes = size("found").zip(size("seen"));
    sizes.unwrap_or_else(|| panic!("no loss in {done}"))
}

impl Backed {
    async fn up(later: usize) -> (Self, Serving, Partner) {
        let database = TestDatabase::new(Engine::Sqlite);
        let (server, acme) = Serving::with_partner(&database, &[]).await;
        for _ in 0..2 {
            acme.protect(&acme.book().await).await;
        }
        let folder = database.folder().join("backups");
        std::fs::create_dir(&folder).unwrap();
        let made = database.command("backup --keep 5").arg(&folder).run().await;
        let backup = PathBuf::from(made.string("file"));
        let old_guard = database.folder().join("old.seen");
        std::fs::copy(database.file().with_extension("db.key.seen"), &old_guard).unwrap();
        for _ in 0..later {
            acme.protect(&acme.book().await).await;
        }
        let backed = Self {
            database,
            backup,
            old_guard,
        };
        (backed, server, acme)
    }

    /// The same, after its server was stopped.
    async fn alone(later: usize) -> (Self, Partner) {
        let (backed, server, acme) = Self::up(later).await;
        server.stop().await;
        (backed, acme)
    }

    /// Asserts that its server takes no writes until a loss is accepted.
    async fn is_behind(&self) {
        let server = Serving::start(&self.database, &[]).await;
        let health = server.caller().get("/v1/health").await;
        health.refused(503, "ledger_rolled_back");
        server.stop().await;
    }

    /// Puts the backup in the place of the database.
    async fn restored(&self) -> Value {
        self.restore().run().await.json()
    }

    /// The transfer of its database to a file of this name.
    fn transfer(&self, new: &Path) -> CommandLine {
        let line = bookguard("transfer --from").arg(self.database.file());
        let line = line.arg("--to").arg(new).arg("--ledger-key");
        line.arg(self.database.key_file())
    }

    fn guard(&self) -> PathBuf {
        self.database.file().with_extension("db.key.seen")
    }

    /// Puts these bytes in the place of the database. A server that ended under load can leave a write-ahead log, from which
    /// SQLite would recover what was there.
    fn overwrite(&self, bytes: impl AsRef<[u8]>) {
        for end in ["db-wal", "db-shm"] {
            let _ = std::fs::remove_file(self.database.file().with_extension(end));
        }
        std::fs::write(self.database.file(), bytes).unwrap();
    }

    fn restore(&self) -> CommandLine {
        self.database.command("restore").arg(&self.backup)
    }

    /// The server reads the restored database, and writes once the loss of so many entries is accepted.
    async fn goes_on_without(&self, entries: u64, partner: &Partner) {
        let server = Serving::start(&self.database, &[]).await;
        let partner = partner.on(server.url());
        let refused = partner.post("/v1/bookings", &samples::booking()).await;
        refused.refused(503, "ledger_rolled_back");
        let line = self.database.command("ledger accept-rollback --yes");
        let lost = format!("{entries} published entries are lost");
        line.run().await.ended(0, &[&*lost]);
        partner.protect(&partner.book().await).await;
        server.stop().await;
        self.database.verify(3).await;
    }

    /// The number of bookings in a database file of this ledger, which must be sound.
    async fn bookings(&self, file: &Path) -> u64 {
        let key = self.database.key_file();
        let line = bookguard("ledger verify --backup --ledger-key").arg(key);
        let report = line.arg("--db").arg(file).run().await.json();
        assert_eq!(report["verified"], true, "{report}");
        report["bookings"].as_u64().unwrap()
    }
}

#[tokio::test]
async fn a_lost_disk_is_restored_the_loss_is_accepted_and_the_service_goes_on() {
    let (backed, acme) = Backed::alone(3).await;
    // Its name is a link to another disk, as in many installations.
    let file = backed.database.file();
    std::fs::remove_file(file).unwrap();
    std::fs::create_dir(backed.database.folder().join("disk")).unwrap();
    std::os::unix::fs::symlink("disk/b.db", file).unwrap();
    let done = backed.restored().await;
    assert!(done["replaced"].is_null(), "{done}");
    assert!(file.is_symlink() && file.exists());
    assert_eq!(lost(&done), (4, 10), "{done}");
    assert!(done.text("next").contains("accept-rollback"), "{done}");
    let folder = names(backed.database.folder());
    let is_left = |name: &String| name.ends_with("-wal") || name.ends_with(".part");
    assert!(!folder.iter().any(is_left), "{folder:?}");
    assert_eq!(names(backed.backup.parent().unwrap()).len(), 1);
    assert_eq!(mode(file), 0o600);
    backed.goes_on_without(6, &acme).await;
    // The backup is of the log under its old name, and can still be restored.
    let ran = backed.restore().args("--output table").run().await;
    ran.said(&["The old database is now", "may be lost", "accept-rollback"]);
}

#[tokio::test]
async fn a_restore_without_a_loss_says_that_all_that_was_published_is_there() {
    let (backed, _) = Backed::alone(0).await;
    let done = backed.restored().await;
    assert!(done["lost"].is_null(), "{done}");
    let next = done.text("next");
    assert!(next.contains("legal holds"), "{next}");
    assert!(next.ends_with("start the server."), "{next}");
    backed.database.verify(2).await;
}

/// What is there of the guard when a backup is restored and the database is lost.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Remembered {
    Nothing,
    /// Less than the backup holds: a copy that is older.
    Less,
    /// A log that was begun after the loss.
    Another,
    /// As much as the backup holds, but one of its two records cannot be read.
    Torn,
}

#[tokio::test]
async fn a_restore_after_database_and_guard_are_lost_is_not_written_until_somebody_decides() {
    for remembered in [
        Remembered::Nothing,
        Remembered::Less,
        Remembered::Another,
        Remembered::Torn,
    ] {
        let (backed, server, acme) = Backed::up(1).await;
        let old = acme.get("/v1/ledger/key").await.text();
        let name = old.split_once('+').unwrap().0;
        server.stop().await;
        std::fs::remove_file(backed.guard()).unwrap();
        std::fs::remove_file(backed.database.file()).unwrap();
        match remembered {
            Remembered::Nothing => {}
            Remembered::Less => drop(Guard::open(backed.guard()).unwrap().note(
                None,
                PublishedHead {
                    origin: name.to_owned(),
                    size: 0,
                    root: Tree::empty().root(),
                },
            )),
            Remembered::Torn => {
                let mut torn = std::fs::read(&backed.old_guard).unwrap();
                let slots = torn.chunks_exact_mut(512);
                let sizes = slots.map(|slot| {
                    let text = String::from_utf8_lossy(slot).into_owned();
                    let size = text.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
                    (size, slot)
                });
                let (_, older) = sizes.min_by_key(|(size, _)| *size).unwrap();
                older[40] ^= 1;
                std::fs::write(backed.guard(), torn).unwrap();
            }
            Remembered::Another => {
                Serving::start(&backed.database, &[]).await.stop().await;
                std::fs::remove_file(backed.database.file()).unwrap();
            }
        }
        let done = backed.restored().await;
        assert!(done["lost"].is_null(), "{done}");
        assert!(done.text("guard").contains("it is not known"), "{done}");
        let next = done.text("next");
        for way in ["guard_file", "accept-rollback", "remove the guard file"] {
            assert!(next.contains(way), "{way}: {next}");
        }
        let server = Serving::start(&backed.database, &[]).await;
        let acme = acme.on(server.url());
        let refused = acme.post("/v1/bookings", &samples::booking()).await;
        refused.refused(503, "ledger_rolled_back");
        server.stop().await;
        let accept = |flags: &str| {
            let line = format!("ledger accept-rollback --yes {flags}");
            backed.database.command(line).run()
        };
        let accepted = if remembered == Remembered::Nothing {
            std::fs::remove_file(backed.guard()).unwrap();
            let refused = accept("").await;
            refused.refused(5, &["nothing_to_accept", "--guard-lost"]);
            accept("--guard-lost").await
        } else {
            accept("").await
        };
        let origin = accepted.string("origin");
        assert_ne!(origin, name);
        let sizes = accepted.json();
        assert_eq!(sizes["seen"]["size"], sizes["found"]["size"]);
        accept("").await.refused(5, &["nothing_to_accept"]);
        let server = Serving::start(&backed.database, &[]).await;
        let acme = acme.on(server.url());
        let receipt = &acme.protect(&acme.book().await).await["receipt"];
        assert_eq!(receipt["logOrigin"], origin.as_str());
        server.stop().await;
        backed.database.verify(3).await;
    }
}

#[tokio::test]
async fn a_list_of_erasures_does_not_stand_for_a_guard_that_was_lost() {
    let (backed, server, acme) = Backed::up(0).await;
    let booking = acme.book().await;
    server.stop().await;
    let erase = "--party talent --legal-basis objection --yes --partner";
    let line = format!("bookings erase {booking} {erase} {}", acme.id);
    backed.database.command(&line).run().await.ended(0, &[]);
    // Without `--yes`, nobody is asked about nothing, and nothing is sent.
    let again = backed.database.command(line.replace(" --yes", ""));
    assert_eq!(again.run().await.json()["dryRun"], true);
    for gone in [backed.guard().as_path(), backed.database.file()] {
        std::fs::remove_file(gone).unwrap();
    }
    let list = backed.database.file().with_extension("db.key.erased");
    assert!(list.exists());
    let done = backed.restored().await;
    assert_eq!(lost(&done), (4, 6), "as many at least: {done}");
    // The list may get lost as well.
    std::fs::remove_file(list).unwrap();
    backed.is_behind().await;
}

#[tokio::test]
async fn the_database_that_is_replaced_shows_the_loss_if_the_guard_is_lost_or_older() {
    for is_lost in [true, false] {
        let (backed, acme) = Backed::alone(2).await;
        if is_lost {
            std::fs::remove_file(backed.guard()).unwrap();
        } else {
            std::fs::copy(&backed.old_guard, backed.guard()).unwrap();
        }
        let done = backed.restored().await;
        assert_eq!(lost(&done), (4, 8), "{done}");
        assert!(done["uncompared"].is_null(), "{done}");
        backed.goes_on_without(4, &acme).await;
    }
}

#[tokio::test]
async fn a_restored_database_says_itself_what_it_lacks_even_if_the_guard_is_lost_then() {
    let (backed, acme) = Backed::alone(2).await;
    let database = &backed.database;
    let takes_no_writes = async || {
        let refused = database.command(REGISTER).run().await;
        refused.ended(9, &["ledger_rolled_back"]);
    };
    let lose_guard = || std::fs::remove_file(backed.guard()).unwrap();
    for _ in 0..2 {
        // The second time, the database that is replaced says so.
        let done = backed.restored().await;
        assert_eq!(lost(&done), (4, 8), "{done}");
        lose_guard();
        takes_no_writes().await;
    }
    let line = database.command("ledger accept-rollback --yes");
    line.run().await.ended(0, &["4 published entries are lost"]);
    let server = Serving::start(database, &[]).await;
    acme.on(server.url()).book().await;
    server.stop().await;
    // The log goes on under another name now, which the backup does not know.
    let done = backed.restored().await;
    assert_eq!(lost(&done), (4, 6), "{done}");
    lose_guard();
    takes_no_writes().await;
}

/// Two losses, of a log under two names: neither hides the other, whatever guard there is.
#[tokio::test]
async fn a_database_says_what_it_lacks_under_every_name_that_its_log_had() {
    let (backed, acme) = Backed::alone(2).await;
    let database = &backed.database;
    let newer = database.folder().join("newer.db");
    database.command("backup").arg(&newer).run().await.json();
    // What the database is noted to lack may be in an older backup, even one of many.
    let keep_one = async || {
        let folder = backed.backup.parent().unwrap();
        let line = database.command("backup --keep 1");
        line.arg(folder).run().await.json()
    };
    let accept = async |words: &[&str]| {
        let line = database.command("ledger accept-rollback --yes");
        line.run().await.ended(0, words);
    };
    let older_guard = || std::fs::copy(&backed.old_guard, backed.guard()).unwrap();
    backed.restored().await;
    let kept = keep_one().await;
    assert_eq!(kept["deleted"], json!([]), "{kept}");
    for words in ["no older backup was deleted", "but 8 were published"] {
        assert!(kept["warnings"].to_string().contains(words), "{kept}");
    }
    std::fs::remove_file(kept.text("file")).unwrap();
    accept(&["4 published entries are lost"]).await;
    let server = Serving::start(database, &[]).await;
    acme.on(server.url()).book().await;
    server.stop().await;
    // What was published under the second name is lost. Then a guard of the first name is put back.
    assert_eq!(lost(&backed.restored().await), (4, 6));
    older_guard();
    let done = database.command("restore").arg(&newer).run().await.json();
    assert_eq!(lost(&done), (8, 6), "{done}");
    // A node that saw more under the first name notes that too. Each loss is accepted by itself.
    backed.restored().await;
    let guard = Guard::open(backed.guard()).unwrap();
    let mut more = guard.seen().unwrap().as_ref().clone();
    more.size += 5;
    guard.note(None, more);
    drop(guard);
    let server = Serving::start(database, &[]).await;
    until("both to be noted", async || {
        let sql = r#"SELECT COUNT(*) FROM head WHERE lacking LIKE '%"size":13%'"#;
        (database.count(sql) == 1).then_some(())
    })
    .await;
    server.stop().await;
    accept(&["9 published entries are lost"]).await;
    accept(&["The 6 published entries of log"]).await;
    let server = Serving::start(database, &[]).await;
    acme.on(server.url()).book().await;
    server.stop().await;
    database.verify(3).await;
}

/// Nobody looked at the database since a copy of it was put back, but the guard knows.
#[tokio::test]
async fn backups_stay_while_the_guard_knows_of_a_loss() {
    let (backed, _) = Backed::alone(1).await;
    let folder = backed.backup.parent().unwrap();
    let back_up = async || {
        let line = backed.database.command("backup --keep 1");
        line.arg(folder).run().await.json()
    };
    let whole = back_up().await;
    assert_eq!(whole.list("deleted").len(), 1, "{whole}");
    std::fs::copy(whole.text("file"), &backed.backup).unwrap();
    let database = backed.database.file();
    std::fs::copy(&backed.backup, database).unwrap();
    let server = Serving::start(&backed.database, &[]).await;
    let acme = server.partner("Other").await;
    acme.protect(&acme.book().await).await;
    server.stop().await;
    std::fs::copy(&backed.backup, database).unwrap();
    let kept = back_up().await;
    assert_eq!(kept["deleted"], json!([]), "{kept}");
    let warnings = kept["warnings"].to_string();
    assert!(warnings.contains("no older backup was deleted"), "{kept}");
}

#[tokio::test]
async fn a_guard_that_was_lost_may_have_known_more_than_a_database_that_shows_no_loss() {
    let (backed, _) = Backed::alone(0).await;
    std::fs::remove_file(backed.guard()).unwrap();
    let done = backed.restored().await;
    assert!(done["lost"].is_null(), "{done}");
    assert!(done.text("guard").contains("it is not known"), "{done}");
    let writes = async || {
        let server = Serving::start(&backed.database, &[]).await;
        let health = server.caller().get("/v1/health").await;
        server.stop().await;
        health.status
    };
    assert_eq!(writes().await, 503);
    std::fs::remove_file(backed.guard()).unwrap();
    assert_eq!(writes().await, 200);
}

#[tokio::test]
async fn the_guard_is_told_that_nobody_knows_of_a_loss_only_once_the_backup_is_the_database() {
    let (backed, _) = Backed::alone(0).await;
    let folder = backed.database.folder();
    let key = backed.database.key_file();
    // The name that the database would get is longer than a name can be.
    let long = folder.join("b".repeat(228));
    std::fs::copy(backed.database.file(), &long).unwrap();
    let guard = folder.join("long.seen");
    let line = bookguard("restore --db").arg(&long).arg("--ledger-key");
    let line = line.arg(&key).arg("--guard-file").arg(&guard);
    let ran = line.arg(&backed.backup).run().await;
    ran.refused(1, &["cannot be written"]);
    assert!(!guard.exists());
    assert_eq!(backed.bookings(&long).await, 2);
    // If the guard cannot be told, the database goes on saying it.
    std::fs::remove_file(backed.guard()).unwrap();
    let nowhere = folder.join("none").join("lost.seen");
    let done = backed.restore().arg("--guard-file").arg(nowhere);
    let done = done.run().await.json();
    assert_eq!(lost(&done), (4, 4), "{done}");
    assert!(done.text("next").contains("accept the loss"), "{done}");
    backed.is_behind().await;
}

#[tokio::test]
async fn what_is_written_while_the_backup_is_checked_is_among_the_loss() {
    let (backed, acme) = Backed::alone(0).await;
    // Until nobody has it open, the database is not replaced.
    let reader = rusqlite::Connection::open(backed.database.file()).unwrap();
    let count = "SELECT COUNT(*) FROM entry";
    let entries: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(entries, 4);
    let folder = backed.database.folder();
    let is_begun = || names(folder).iter().any(|name| name.ends_with(".part"));
    let (ran, ()) = tokio::join!(backed.restore().run(), async {
        until("a draft", async || is_begun().then_some(())).await;
        let create = format!("bookings create --json - --partner {}", acme.id);
        let line = backed.database.command(create);
        let line = line.input(samples::booking().to_string());
        line.run().await.ended(0, &[]);
        drop(reader);
    });
    let done = ran.json();
    assert_eq!(lost(&done), (4, 5), "{done}");
}

#[tokio::test]
async fn a_database_whose_ledger_was_moved_is_not_replaced() {
    let (backed, _) = Backed::alone(1).await;
    let file = backed.database.file();
    let new = backed.database.folder().join("new.db");
    backed.transfer(&new).run().await.json();
    let place = new.canonicalize().unwrap().display().to_string();
    let ran = backed.restore().run().await;
    ran.refused(5, &["ledger_moved", &place, "--reopen"]);
    let marked = "SELECT COUNT(*) FROM head WHERE moved_to IS NOT NULL";
    assert_eq!(backed.database.count(marked), 1);
    let line = bookguard("transfer --reopen --yes --from").arg(file);
    line.run().await.ended(0, &[]);
    let done = backed.restored().await;
    assert_eq!(lost(&done), (4, 7), "{done}");
}

#[tokio::test]
async fn a_backup_from_before_a_move_is_behind_even_if_nothing_was_written_since() {
    let (backed, _) = Backed::alone(0).await;
    let file = backed.database.file();
    let new = backed.database.folder().join("new.db");
    let moved = backed.transfer(&new).run().await.json();
    assert_eq!(moved["treeSize"], 5);
    // The file that would say that the ledger was moved is gone.
    std::fs::remove_file(file).unwrap();
    let done = backed.restored().await;
    assert_eq!(lost(&done), (4, 5), "{done}");
    backed.is_behind().await;
}

#[tokio::test]
async fn a_database_that_proves_nothing_is_replaced_all_the_same() {
    let (backed, _) = Backed::alone(1).await;
    let other = TestDatabase::new(Engine::Sqlite);
    Serving::start(&other, &[]).await.stop().await;
    let foreign = std::fs::read(other.file()).unwrap();
    for (bytes, why) in [(Vec::new(), "no ledger"), (foreign, "another ledger")] {
        backed.overwrite(bytes);
        let done = backed.restored().await;
        assert_eq!(lost(&done), (4, 6), "the guard knows: {done}");
        assert!(done.text("uncompared").contains(why), "{done}");
        assert_eq!(backed.bookings(backed.database.file()).await, 2);
    }
}

#[tokio::test]
async fn a_log_that_begins_with_a_key_that_was_there_has_another_name_and_is_told() {
    let (backed, server, _) = Backed::up(0).await;
    let caller = server.caller();
    let lost = caller.get("/v1/ledger/key").await.text();
    server.stop().await;
    for end in ["db", "db.key.seen"] {
        std::fs::remove_file(backed.database.file().with_extension(end)).unwrap();
    }
    let server = Serving::start(&backed.database, &[]).await;
    let begun = server.caller().get("/v1/ledger/key").await.text();
    let name = |vkey: &str| vkey.split_once('+').unwrap().0.to_owned();
    // Its numbers are not given out again.
    assert_ne!(name(&begun), name(&lost));
    let said = server.stop().await;
    assert!(said.contains("begins at entry 0"), "{said}");
    assert!(said.contains(&name(&begun)), "{said}");
    let server = Serving::start(&backed.database, &[]).await;
    let said = server.stop().await;
    assert!(!said.contains("begins at entry 0"), "{said}");
}

#[tokio::test]
async fn what_was_there_stays_whole_under_another_name() {
    let (backed, server, _) = Backed::up(3).await;
    // Its last commits are in the write-ahead log alone.
    server.kill().await;
    let log = backed.database.file().with_extension("db-wal");
    assert!(log.metadata().unwrap().len() > 0);
    let done = backed.restored().await;
    let replaced = PathBuf::from(done.text("replaced"));
    assert!(!log.exists());
    assert_eq!(backed.bookings(&replaced).await, 5);
    assert_eq!(backed.bookings(backed.database.file()).await, 2);
}

#[tokio::test]
async fn a_damaged_database_is_replaced_and_kept_as_it_is() {
    let (backed, _) = Backed::alone(3).await;
    let file = backed.database.file();
    let damaged = "a shopping list".repeat(1000);
    backed.overwrite(&damaged);
    let done = backed.restored().await;
    let replaced = std::fs::read_to_string(done.text("replaced")).unwrap();
    assert!(replaced == damaged, "{replaced}");
    let why = done.text("uncompared");
    assert!(why.contains("not a SQLite database"), "{why}");
    assert_eq!(lost(&done), (4, 10), "the guard knows: {done}");
    assert_eq!(backed.bookings(file).await, 2);
    // A guard that was put back as well knows no more than the backup.
    std::fs::copy(&backed.old_guard, file.with_extension("db.key.seen")).unwrap();
    backed.overwrite(&damaged);
    let done = backed.restored().await;
    assert!(done["lost"].is_null(), "{done}");
    let older = "if one of them was an older copy itself";
    assert!(done.text("next").contains(older), "{done}");
}

#[tokio::test]
async fn the_write_ahead_log_of_a_damaged_database_is_not_read_into_the_backup() {
    let (backed, server, _) = Backed::up(3).await;
    // Its last commits are in the write-ahead log alone.
    server.kill().await;
    let file = backed.database.file();
    let log = file.with_extension("db-wal");
    assert!(log.metadata().unwrap().len() > 0);
    let mut damaged = std::fs::read(file).unwrap();
    damaged[..4096].fill(7);
    std::fs::write(file, &damaged).unwrap();
    let done = backed.restored().await;
    assert!(Path::new(done.text("replaced")).exists());
    assert!(!log.exists());
    assert_eq!(backed.bookings(file).await, 2);
}

#[tokio::test]
async fn what_is_not_a_whole_backup_of_this_ledger_is_not_restored() {
    let (backed, server, _) = Backed::up(1).await;
    let ran = backed.restore().run().await;
    ran.refused(5, &["server_running", "Stop it first"]);
    server.stop().await;
    let other = TestDatabase::new(Engine::Sqlite);
    Serving::start(&other, &[]).await.stop().await;
    let folder = backed.database.folder().to_owned();
    let path = |name: &str| folder.join(name);
    let backups = backed.backup.parent().unwrap();
    let newest = backed.backup.display().to_string();
    std::fs::create_dir(path("none")).unwrap();
    std::fs::write(path("text.db"), "a shopping list".repeat(1000)).unwrap();
    std::fs::write(path("empty.db"), "").unwrap();
    let tampered = |name: &str, sql: &str| {
        std::fs::copy(&backed.backup, path(name)).unwrap();
        let store = rusqlite::Connection::open(path(name)).unwrap();
        store.execute_batch(sql).unwrap();
    };
    tampered("tampered.db", "UPDATE booking SET body = '{}'");
    let newer = "INSERT INTO schema_version (version) VALUES (1000000)";
    tampered("newer.db", newer);
    let foreign = rusqlite::Connection::open(path("foreign.db")).unwrap();
    let recipes = foreign.execute_batch("CREATE TABLE recipe (id INTEGER)");
    recipes.unwrap();
    drop(foreign);
    let file = backed.database.file();
    let before = (std::fs::read(file).unwrap(), names(&folder));
    let foreign_key = other.key_file();
    let of = |backup: &Path| bookguard("restore --db").arg(file).arg(backup);
    let with = |key: &Path| of(&backed.backup).arg("--ledger-key").arg(key);
    let unsound = "text.db is not a sound backup: the file is not a SQLite database";
    let another = format!("{}: its ledger", other.file().display());
    for (line, code, words) in [
        (of(&path("nowhere.db")), 1, "there is no database at"),
        (of(&path("text.db")), 1, unsound),
        (of(&path("foreign.db")), 1, "another program"),
        (of(&path("newer.db")), 1, "newer"),
        (of(&path("empty.db")), 5, "no_ledger"),
        (of(&path("tampered.db")), 6, "is as it was"),
        (of(&path("none")), 5, "is a folder; name a file in it"),
        (of(backups), 5, &newest),
        (of(file), 5, "same_database"),
        (of(other.file()), 5, &another),
        (with(&foreign_key), 5, "wrong_ledger_key"),
        (with(&path("no.key")), 1, "no.key is missing"),
    ] {
        line.run().await.refused(code, &[words]);
        let now = (std::fs::read(file).unwrap(), names(&folder));
        assert!(now == before, "{words}: {:?}", now.1);
    }
    let remote = bookguard("restore x.db --url http://127.0.0.1:9");
    remote.run().await.refused(2, &["--db"]);
    backed.database.verify(3).await;
}

#[tokio::test]
async fn a_database_that_another_program_uses_is_not_replaced() {
    let (backed, _) = Backed::alone(1).await;
    let turn = backed.database.hold_turn();
    let ran = backed.restore().run().await;
    ran.refused(1, &["was not replaced", "other bookguard"]);
    drop(turn);
    backed.database.verify(3).await;
}

#[tokio::test]
async fn a_restore_that_is_killed_leaves_the_old_database_or_the_new_one() {
    let (backed, server, _) = Backed::up(200).await;
    server.kill().await;
    let folder = backed.database.folder();
    let inode = || {
        use std::os::unix::fs::MetadataExt as _;
        backed.database.file().metadata().unwrap().ino()
    };
    let old = inode();
    let named = |part: &str| names(folder).iter().any(|name| name.contains(part));
    let log = || folder.join("bookguard.db-wal").exists();
    type Moment<'a> = (&'a str, &'a dyn Fn() -> bool);
    let moments: [Moment<'_>; 4] = [
        ("a draft", &|| named(".part")),
        ("the log brought into its database", &|| !log()),
        ("a second name", &|| named(".replaced-")),
        ("the new database", &|| inode() != old),
    ];
    for (moment, is_now) in moments {
        let killed = backed.restore().killed_when(is_now).await;
        let there = backed.bookings(backed.database.file()).await;
        let is_whole = [2, 202].contains(&there);
        assert!(is_whole, "{moment}, killed: {killed}: {there}");
    }
    backed.restore().run().await.ended(0, &[]);
    assert_eq!(backed.bookings(backed.database.file()).await, 2);
    assert!(!named(".part"), "what killed restores left is removed");
}

#[tokio::test]
async fn a_server_removes_what_a_killed_restore_of_its_database_left() {
    let database = TestDatabase::new(Engine::Sqlite);
    let left = |name: &str| database.folder().join(name);
    let own = left("bookguard.db.0123456789ab.part");
    let others = left("other.db.0123456789ab.part");
    Serving::start(&database, &[]).await.stop().await;
    for file in [&own, &others] {
        std::fs::write(file, "personal data").unwrap();
    }
    // The database before the last restore.
    let before = left("bookguard.db.replaced-20260302T020000.000Z");
    std::fs::copy(database.file(), &before).unwrap();
    Serving::start(&database, &[]).await.stop().await;
    assert_eq!((own.exists(), others.exists()), (false, true));
    assert!(before.exists());
    // Killed before the new database had its name. Any other name is the operator's to remove.
    let second = left("bookguard.db.replaced-20260301T020000.000Z");
    let hard = left("hard.db");
    for name in [&second, &hard] {
        std::fs::hard_link(database.file(), name).unwrap();
    }
    let ran = database.command("serve --listen 127.0.0.1:0").run().await;
    let said = [
        "bookguard.db has another name",
        "-samefile",
        "leave",
        "bookguard.db.replaced-…, which comes from a killed `bookguard restore`",
        "(hard_linked)",
    ];
    ran.refused(5, &said);
    assert_eq!((second.exists(), hard.exists()), (false, true));
    std::fs::remove_file(&hard).unwrap();
    Serving::start(&database, &[]).await.stop().await;
}

#[tokio::test]
async fn postgresql_restores_its_own_backups() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let ran = database.command("restore x.db").run().await;
        ran.refused(5, &["not_a_file", "pg_restore", "ledger verify --backup"]);
    })
    .await;
}

#[tokio::test]
async fn a_restore_that_is_told_to_end_leaves_no_draft_and_one_whole_database() {
    let (backed, _) = Backed::alone(200).await;
    let folder = backed.database.folder();
    let drafts = || names(folder).iter().any(|name| name.contains(".part"));
    let mut in_the_middle = false;
    for _ in 0..50 {
        let ended = backed.restore().signaled_when("INT", drafts).await;
        assert!(!drafts(), "{:?}", names(folder));
        let there = backed.bookings(backed.database.file()).await;
        match ended.and_then(|status| status.code()) {
            Some(1) => {
                assert_eq!(there, 202);
                in_the_middle = true;
                break;
            }
            // It was in its place already; back to what was there.
            _ => {
                assert_eq!(there, 2);
                let mut names = names(folder).into_iter();
                let replaced = names.find(|name| name.contains(".replaced-")).unwrap();
                std::fs::rename(folder.join(replaced), backed.database.file()).unwrap();
            }
        }
    }
    assert!(in_the_middle, "a draft is there long enough to be seen");
}
