//! A full disk: nothing is half written, reads continue, and writes succeed again once there is room.

use std::path::{Path, PathBuf};
use std::process::Command;

use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::files::names;
use bookguard_tests::program::{Serving, bookguard};
use bookguard_tests::samples;
use bookguard_tests::test_server::Partner;
use bookguard_tests::waiting::until;
use tempfile::TempDir;

/// A small disk mounted for the test, if the user may mount.
struct Disk {
    folder: TempDir,
}

impl Disk {
    /// Returns `None` if this user may not mount.
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(folder.path())
            .output();
        mounted
            .is_ok_and(|ran| ran.status.success())
            .then(|| Self { folder })
    }

    fn database(&self) -> TestDatabase {
        TestDatabase::at(self.folder.path().join("bookguard.db"))
    }

    /// Fills the disk completely.
    fn fill(&self) -> Filler {
        use std::io::Write as _;
        let path = self.folder.path().join("ballast");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[1; 512]).is_ok() {}
        Filler(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("-l").arg(self.folder.path()).status();
    }
}

/// Prints past the test's own capture, so that a skipped test is not mistaken for one that ran.
fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

struct Filler(PathBuf);

impl Filler {
    /// Leaves this much room free.
    fn leave(&self, kib: u64) {
        let file = std::fs::File::options().write(true).open(&self.0).unwrap();
        let bytes = file.metadata().unwrap().len();
        file.set_len(bytes - kib * 1024).unwrap();
    }

    fn remove(self) {
        std::fs::remove_file(self.0).unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_stops_writes_with_a_sentence_and_harms_nothing() {
    let Some(disk) = Disk::mount(4) else {
        say("no disk can be mounted here: a limit on the size of files stands in for a full disk");
        return limited().await;
    };
    let database = disk.database();
    let (server, acme) = Serving::with_partner(&database, &["--min-free-disk", "0"]).await;
    let first = acme.book().await;
    let filler = disk.fill();
    // Writes that still fit into the write-ahead log succeed.
    let (more, refused) = books_until_refused(&acme).await;
    let made = 1 + more;
    refused.refused(503, "storage_full");
    refused.says(&["disk is full"]);
    acme.booking(&first).await;
    assert_eq!(count(&acme).await, made, "what was refused is not there");
    // The operator is told.
    server.until_said("full").await;
    filler.remove();
    until("room again", async || {
        let reply = acme.post("/v1/bookings", &samples::booking()).await;
        (reply.status == 201).then_some(())
    })
    .await;
    assert_eq!(count(&acme).await, made + 1);
    server.stop().await;
    database.verify(made + 1).await;
}

#[tokio::test]
async fn a_server_that_starts_on_a_full_disk_says_so() {
    let Some(disk) = Disk::mount(1) else {
        say("no disk can be mounted here: starting on a full one is not tried");
        return;
    };
    let filler = disk.fill();
    let database = disk.database();
    let start = || database.command("serve --listen 127.0.0.1:0");
    let ran = start().run().await;
    ran.refused(1, &[]);
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("full"), "{ran:?}");
    filler.remove();
    // The files that the failed start left behind do no harm.
    assert_eq!(Serving::of(start()).await.terminate().await.0, Some(0));
    database.verify(0).await;
}

#[tokio::test]
async fn a_move_to_a_full_disk_leaves_nothing_there_and_the_source_in_use() {
    let Some(disk) = Disk::mount(1) else {
        say("no disk can be mounted here: moving to a full one is not tried");
        return;
    };
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    for _ in 0..150 {
        acme.book().await;
    }
    let target = disk.folder.path().join("new.db");
    disk.fill().leave(600);
    let to = |target: &Path| {
        let line = bookguard("transfer --from").arg(database.file());
        line.arg("--to").arg(target).run()
    };
    let ran = to(&target).await;
    ran.refused(1, &["new.db", "disk is full", "Nothing was moved"]);
    acme.book().await;
    // Once there is room, a target that holds no data is treated like a missing one.
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("new.db");
    std::fs::copy(&target, &moved).unwrap();
    assert_eq!(to(&moved).await.json()["tables"]["booking"], 151);
    server.stop().await;
}

#[tokio::test]
async fn a_backup_to_a_full_disk_leaves_nothing_there() {
    let Some(disk) = Disk::mount(1) else {
        say("no disk can be mounted here: a backup to a full one is not tried");
        return;
    };
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    for _ in 0..150 {
        acme.book().await;
    }
    let filler = disk.fill();
    let copy = disk.folder.path().join("copy.db");
    for to in ["backup", "backup --keep 1", "backup", "backup --keep 1"] {
        let to = match to.contains("keep") {
            true => database.command(to).arg(disk.folder.path()),
            false => database.command(to).arg(&copy),
        };
        let ran = to.run().await;
        ran.refused(1, &["there is no room for", "of the disk are free"]);
        let left = names(disk.folder.path());
        assert_eq!(left, ["ballast".to_owned()].into(), "{ran:?}");
        // Neither a byte is free for the first attempts, nor enough for the others.
        filler.leave(100);
    }
    server.stop().await;
}

/// The substitute without a mounted disk: no file of the server may grow beyond 400 KiB, so writes fail as they do on a
/// full disk.
async fn limited() {
    let database = TestDatabase::new(Engine::Sqlite);
    let line = database.command("serve --listen 127.0.0.1:0");
    let server = Serving::of(line.limited_to_kib(400)).await;
    let acme = server.partner("Acme").await;
    let (made, refused) = books_until_refused(&acme).await;
    // The kernel's word for it is another one than a full disk's, so its code is not storage_full.
    refused.refused(503, "unavailable");
    server.stop().await;
    database.verify(made).await;
}

/// Records bookings until one is refused. Returns how many were recorded, and the refusal.
async fn books_until_refused(acme: &Partner) -> (usize, Reply) {
    let mut made = 0;
    until("a write that fails", async || {
        let reply = acme.post("/v1/bookings", &samples::booking()).await;
        made += usize::from(reply.status == 201);
        (reply.status != 201).then_some((made, reply))
    })
    .await
}

async fn count(acme: &Partner) -> usize {
    acme.rows("/v1/bookings?limit=100").await.len()
}
