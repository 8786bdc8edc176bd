//! A `serve` that cannot serve: one plain sentence, an exit code, and nothing damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::files::names;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Ran, Serving, alarms, bookguard, program};
use bookguard_tests::samples;
use bookguard_tests::waiting::until;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

fn serve(db: &Path) -> CommandLine {
    bookguard("serve --listen 127.0.0.1:0 --db").arg(db)
}

/// Asserts that the command fails with one sentence that has these words.
async fn refuses(line: CommandLine, words: &[&str]) -> Ran {
    let ran = line.run().await;
    ran.refused(1, &[]);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "one sentence: {ran:?}");
    assert!(
        lines[0].starts_with("error: ") && lines[0].ends_with(" (unexpected)"),
        "{ran:?}"
    );
    for word in words {
        assert!(lines[0].contains(word), "{word:?} in {ran:?}");
    }
    for programmers in ["panicked", "Err(", "SqliteFailure", "{"] {
        assert!(!lines[0].contains(programmers), "{ran:?}");
    }
    ran
}

/// Reads every file of a folder except locks and SQLite's shared memory, which hold no data.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = names(folder).into_iter();
    names
        .filter(|name| !name.ends_with(".lock") && !name.ends_with("-shm"))
        .map(|name| (name.clone(), std::fs::read(folder.join(&name)).unwrap()))
        .filter(|(name, bytes)| !name.ends_with("-wal") || !bytes.is_empty())
        .collect()
}

/// An operator who asks for traces must not believe that there are some.
#[tokio::test]
async fn a_build_without_traces_does_not_pretend_to_send_them() {
    let folder = TempDir::new().unwrap();
    let line = serve(&folder.path().join("b.db")).arg("--otlp-endpoint=http://127.0.0.1:1");
    refuses(line, &["otlp_endpoint", "--features otlp"]).await;
}

/// Returns a database that holds a booking and was closed cleanly.
async fn used() -> TestDatabase {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    acme.book().await;
    let (code, said) = server.terminate().await;
    assert_eq!((code, alarms(&said)), (Some(0), Vec::new()));
    database
}

/// Asserts that the command serves, and that the booking is still there.
async fn serves(line: CommandLine, db: &Path) {
    Serving::of(line).await.stop().await;
    let report = bookguard("ledger verify --db").arg(db).run().await.json();
    assert_eq!(report["bookings"], 1);
}

#[tokio::test]
async fn on_a_port_that_is_taken() {
    let database = used().await;
    let server = Serving::start(&database, &[]).await;
    let address = server.address();
    let other = database.folder().join("other.db");
    let line = bookguard(format!("serve --listen {address} --db")).arg(&other);
    let words = [address, "in use by another program", "another port"];
    refuses(line, &words).await;
    assert!(!other.exists(), "no database was made for nothing");
    server.caller().get("/v1/health").await.ok(200);
}

#[tokio::test]
async fn on_an_address_that_is_none_or_not_ours() {
    let folder = TempDir::new().unwrap();
    let line = |address: &str| {
        bookguard(format!("serve --listen {address} --db")).arg(folder.path().join("x.db"))
    };
    for address in ["nonsense", "127.0.0.1", "127.0.0.1:99999", ":::"] {
        let words = ["not a host and a port", "127.0.0.1:8080"];
        line(address).run().await.refused(2, &words);
    }
    let address = "192.0.2.1:0";
    refuses(line(address), &[address, "cannot listen on"]).await;
    assert_eq!(files(folder.path()), BTreeMap::new());
}

#[tokio::test]
async fn on_a_database_another_server_uses() {
    let database = used().await;
    let (folder, db) = (database.folder(), database.file());
    let server = Serving::start(&database, &[]).await;
    let before = files(folder);
    let words = ["another server is using", "bookguard.db", "stop it first"];
    refuses(serve(db), &words).await;
    assert_eq!(files(folder), before);
    server.caller().get("/v1/health").await.ok(200);
    // A killed server holds no lock any more.
    server.kill().await;
    serves(serve(db), db).await;
}

#[tokio::test]
async fn on_a_file_that_is_damaged_or_no_database() {
    let database = used().await;
    let (folder, db) = (database.folder(), database.file());
    let good = std::fs::read(db).unwrap();
    let mut header = good.clone();
    header[..16].copy_from_slice(b"SQLite format 4\0");
    let mut schema = good.clone();
    schema[100..4096].fill(0xa5);
    for (bytes, what) in [
        (
            b"This is a shopping list: eggs, milk, a database.".repeat(50),
            "text",
        ),
        (header, "another format"),
        (schema, "a garbled first page"),
        (good[..good.len() / 2].to_vec(), "half a file"),
    ] {
        std::fs::write(db, &bytes).unwrap();
        let before = files(folder);
        let ran = refuses(serve(db), &["bookguard.db", "damaged", "restore a backup"]).await;
        assert!(files(folder) == before, "{what}: {ran:?}");
    }
    std::fs::write(db, &good).unwrap();
    serves(serve(db), db).await;
}

#[tokio::test]
async fn on_a_database_of_another_program() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("notes.db");
    let notes = Connection::open(&db).unwrap();
    notes
        .execute_batch("CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('mine')")
        .unwrap();
    drop(notes);
    let before = files(folder.path());
    refuses(serve(&db), &["notes.db", "another program"]).await;
    assert!(files(folder.path()) == before);
}

#[tokio::test]
async fn on_a_database_newer_than_the_program() {
    let database = used().await;
    let (folder, db) = (database.folder(), database.file());
    database.tamper("INSERT INTO schema_version (version) VALUES (99)");
    let before = files(folder);
    refuses(serve(db), &["bookguard.db", "newer", "99"]).await;
    let reading = bookguard("bookings list --db").arg(db);
    refuses(reading, &["newer"]).await;
    assert!(files(folder) == before);
}

#[tokio::test]
async fn without_the_ledger_s_key_or_with_another_s() {
    let database = used().await;
    let (folder, db) = (database.folder(), database.file());
    let key = folder.join("bookguard.db.key");
    let own = std::fs::read_to_string(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let before = files(folder);
    let words = ["bookguard.db.key is missing", "restore", "--ledger-key"];
    refuses(serve(db), &words).await;
    assert!(files(folder) == before, "and no new key was made");

    let other = used().await;
    let foreign = other.folder().join("bookguard.db.key");
    let line = serve(db).arg("--ledger-key").arg(&foreign);
    refuses(line, &["signed with another key", "--ledger-key"]).await;
    for nonsense in [
        "",
        "nonsense",
        &own.replace("PRIVATE", "PUBLIC"),
        &own[..own.len() - 8],
    ] {
        std::fs::write(&key, nonsense).unwrap();
        let words = ["bookguard.db.key is not a ledger key", "Restore"];
        refuses(serve(db), &words).await;
    }
    std::fs::remove_file(&key).unwrap();
    assert!(files(folder) == before);

    let elsewhere = folder.join("safe");
    std::fs::write(&elsewhere, &own).unwrap();
    let server = Serving::of(serve(db).arg("--ledger-key").arg(&elsewhere)).await;
    server.stop().await;
    std::fs::write(&key, &own).unwrap();
    database.verify(1).await;
}

#[tokio::test]
async fn in_a_folder_that_is_not_there() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("missing").join("bookguard.db");
    refuses(serve(&db), &["missing", "does not exist"]).await;
    assert_eq!(files(folder.path()), BTreeMap::new());
    // A folder in the place of the file.
    let folder = folder.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    refuses(serve(&folder), &["data", "is a folder"]).await;
}

#[cfg(unix)]
pub(crate) mod permissions {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::PathBuf;

    use bookguard_tests::files::allow;

    use super::*;

    /// The user that root switches to, because root ignores permissions.
    const NOBODY: u32 = 65_534;

    /// A folder that every user can reach, and one in it with these permissions.
    fn folders(mode: u32) -> (TempDir, PathBuf) {
        let top = TempDir::new().unwrap();
        allow(top.path(), 0o755);
        let folder = top.path().join("data");
        std::fs::create_dir(&folder).unwrap();
        allow(&folder, mode);
        (top, folder)
    }

    /// Returns the command run as a user that file permissions apply to.
    pub(crate) fn unprivileged(line: CommandLine, folder: &Path) -> CommandLine {
        if std::fs::metadata(folder).unwrap().uid() != 0 {
            return line;
        }
        // Copied to a place that this user can reach.
        let reachable = folder.join("program");
        if !reachable.exists() {
            std::fs::create_dir(&reachable).unwrap();
            allow(&reachable, 0o755);
            // Another process makes the copy. Otherwise a program that a parallel test starts could inherit the open file, and
            // a file that is open for writing cannot be run.
            let copied = std::process::Command::new("cp")
                .args([program(), &reachable.join("bookguard")])
                .status();
            assert!(copied.unwrap().success());
        }
        line.as_user(NOBODY, &reachable.join("bookguard"))
    }

    #[tokio::test]
    async fn in_a_folder_that_may_not_be_written() {
        let (top, folder) = folders(0o555);
        let db = folder.join("bookguard.db");
        let words = ["data", "this user may not write", "permissions"];
        refuses(unprivileged(serve(&db), top.path()), &words).await;
        assert_eq!(files(&folder), BTreeMap::new());
    }

    #[tokio::test]
    async fn on_a_file_that_may_not_be_written() {
        let used = used().await;
        // The folder accepts new files; only the database itself is read-only.
        let (top, folder) = folders(0o777);
        for (name, bytes) in files(used.folder()) {
            std::fs::write(folder.join(&name), bytes).unwrap();
            allow(&folder.join(&name), 0o444);
        }
        let before = files(&folder);
        let db = folder.join("bookguard.db");
        let words = ["bookguard.db", "cannot be written", "permissions"];
        refuses(unprivileged(serve(&db), top.path()), &words).await;
        assert!(files(&folder) == before);
        allow(&folder, 0o555);
        refuses(unprivileged(serve(&db), top.path()), &["data"]).await;
        let doctor = unprivileged(bookguard("doctor --db").arg(&db), top.path());
        let ran = doctor.run().await;
        ran.ended(1, &["problems_found"]);
        assert!(ran.stdout.contains("this user may not write"), "{ran:?}");
        assert!(files(&folder) == before);
    }

    #[tokio::test]
    async fn a_command_in_a_folder_that_may_not_be_looked_into() {
        let used = used().await;
        let (top, folder) = folders(0o755);
        let db = folder.join("bookguard.db");
        std::fs::copy(used.file(), &db).unwrap();
        let list = |db: &Path| unprivileged(bookguard("partners list --db").arg(db), top.path());
        allow(&folder, 0o000);
        let ran = refuses(list(&db), &["bookguard.db", "permission denied"]).await;
        // What may be there is not called absent.
        assert!(!ran.stderr.contains("there is no database"), "{ran:?}");
        allow(&folder, 0o755);
        refuses(list(&folder), &["is a folder"]).await;
    }

    #[tokio::test]
    async fn with_a_key_that_may_not_be_read() {
        let used = used().await;
        let (top, folder) = folders(0o777);
        for (name, bytes) in files(used.folder()) {
            std::fs::write(folder.join(&name), bytes).unwrap();
            let mode = if name.ends_with(".key") { 0o000 } else { 0o666 };
            allow(&folder.join(&name), mode);
        }
        let line = serve(&folder.join("bookguard.db"));
        let words = ["bookguard.db.key cannot be read"];
        refuses(unprivileged(line, top.path()), &words).await;
    }
}

#[tokio::test]
async fn settings_come_from_flags_then_the_environment_then_the_file() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let config = |text: &str| std::fs::write(at("bookguard.toml"), text).unwrap();
    config("listen = \"127.0.0.1:0\"\ndb = \"from-file.db\"\nregistration = \"closed\"\n");
    let line = bookguard("serve")
        .in_folder(folder.path())
        .env("BOOKGUARD_CONFIG", "bookguard.toml");
    let with_env = line.clone().env("BOOKGUARD_DB", "from-env.db");
    let server = Serving::of(with_env.env("BOOKGUARD_TRUSTED_PROXY", "10.0.0.1")).await;
    let (caller, partner) = (server.caller(), samples::partner("A"));
    let refused = caller.post("/v1/partners/register", &partner).await;
    assert_eq!(refused.code(), "registration_closed");
    let log = server.stop().await;
    let said = "did you mean BOOKGUARD_TRUSTED_PROXIES?";
    assert!(log.contains(said), "{log}");
    assert!(at("from-env.db").exists() && !at("from-file.db").exists());
    let flags = line.clone().env("BOOKGUARD_DB", "from-env.db");
    let server = Serving::of(flags.args("--db from-flag.db")).await;
    server.stop().await;
    assert!(at("from-flag.db").exists());
    for (text, words) in [
        ("lisen = \"x\"\n", &["bookguard.toml, line 1", "lisen"][..]),
        ("listen = 5\n", &["line 1 (listen)"]),
        ("public_url = \"nonsense\"\n", &["public_url", "nonsense"]),
        ("= \n", &["bookguard.toml, line 1"]),
    ] {
        config(text);
        line.clone().run().await.ended(2, words);
    }
}

#[tokio::test]
async fn a_server_told_to_end_finishes_what_it_was_asked() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme) = Serving::with_partner(&database, &[]).await;
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let caller = acme.caller.clone();
            clients.spawn(async move {
                let mut answered = 0;
                loop {
                    let request = caller.request("POST", "/v1/bookings");
                    let request = request.header("content-type", "application/json");
                    let request = request.body(samples::booking().to_string());
                    match caller.try_send(request).await {
                        Ok(reply) => {
                            reply.ok(201);
                            answered += 1;
                        }
                        // Requests that reached the server were answered; only new connections are turned away.
                        Err(error) => return (answered, error.is_connect() || error.is_request()),
                    }
                }
            });
        }
        until("some bookings", async || {
            let page = acme.get("/v1/bookings?limit=100").await.ok(200);
            (page.list("data").len() > 20).then_some(())
        })
        .await;
        let (code, said) = server.terminate().await;
        // That it began the ledger and where the key is; that it has started and stopped; and nothing else.
        let began = said.matches("began the ledger").count();
        assert_eq!((code, began), (Some(0), 1), "{said}");
        assert_eq!(said.lines().count(), 3, "{said}");
        let mut answered = 0;
        for (bookings, turned_away) in clients.join_all().await {
            answered += bookings;
            assert!(turned_away);
        }
        let report = database.command("ledger verify").run().await.json();
        assert!(report.number("bookings") >= answered);
        // Closed cleanly: no write-ahead log is left.
        assert!(!database.folder().join("bookguard.db-wal").exists());
    })
    .await;
}

#[tokio::test]
async fn files_that_settings_name_and_that_are_something_else_are_wrong_settings() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let file = folder.path().join("text");
    std::fs::write(&file, "neither a font nor a certificate").unwrap();
    let font = serve(&db).arg("--pdf-font").arg(&file);
    font.run().await.refused(2, &["the font file", "pdf_fonts"]);
    let roots = serve(&db).args("--timestamp-authority http://127.0.0.1:9");
    let roots = roots.arg("--timestamp-roots").arg(&file);
    roots.run().await.refused(2, &["timestamp_roots"]);
    assert!(!db.exists());
}

#[tokio::test]
async fn a_server_to_look_at_has_bookings_of_every_kind_in_a_ledger_that_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("look.db");
    // The settings may be those of a real service, whose key and guard the made-up ledger must not touch.
    let real = folder.path().join("real");
    let demo = || {
        let line = serve(&db).arg("--demo");
        let line = line.env("BOOKGUARD_LEDGER_KEY", real.with_extension("key"));
        line.env("BOOKGUARD_GUARD_FILE", real.with_extension("seen"))
    };
    let server = Serving::of(demo()).await;
    let asked = async |line: &str| bookguard(line).arg("--db").arg(&db).run().await.json();
    let bookings = asked("bookings list --limit 100").await;
    let of = |row: &Value| row.text("status").to_owned();
    let statuses: Vec<_> = bookings.list("data").iter().map(of).collect();
    assert_eq!(statuses.len(), 64);
    assert_eq!(BTreeSet::from_iter(statuses).len(), 3);
    for party in ["talent", "organizer"] {
        let rows = bookings.list("data").iter();
        let named = rows.map(|row| (row[party].text("id"), row[party].text("name")));
        let named: BTreeSet<_> = named.collect();
        let ids: BTreeSet<_> = named.iter().map(|(id, _)| id).collect();
        let names: BTreeSet<_> = named.iter().map(|(_, name)| name).collect();
        assert_eq!(
            (ids.len(), names.len()),
            (named.len(), named.len()),
            "{named:?}"
        );
    }
    let partners = asked("partners list").await;
    let statuses: Vec<_> = partners.list("data").iter().map(of).collect();
    assert_eq!(statuses, ["pending", "active", "active"]);
    let endpoints = asked("webhook-endpoints list --status suspended").await;
    assert_eq!(endpoints.list("data").len(), 1);
    let again = demo().run().await;
    again.refused(2, &["exists; --demo makes a new database"]);
    let log = server.stop().await;
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    let are_lines = log.lines().all(is_json);
    assert!(log.contains("is suspended") && are_lines, "{log}");
    let verified = bookguard("ledger verify --db").arg(&db).run().await;
    verified.ended(0, &[]);
    let names = names(folder.path());
    assert!(!names.iter().any(|name| name.starts_with("real")));
}
