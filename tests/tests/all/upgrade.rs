//! Databases of released programs, upgraded; and programs of two versions on one database.
//!
//! `fixtures/schema-N` holds what the last release with schema N left, for each engine, with its key, which is a test's.
//! `bookguard-core/src/store/schema/tests/released.rs` makes them.

mod together;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bookguard_core::evidence;
use bookguard_core::key_file;
use bookguard_core::store::schema;
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine, on_postgres};
use bookguard_tests::is_long;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{Serving, bookguard};
use bookguard_tests::samples;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::documents::repository;

/// What a released program left.
struct Released {
    folder: PathBuf,
    schema: i64,
}

impl Released {
    /// Every one, by its schema.
    fn all() -> Vec<Self> {
        let all = (1..=schema::known()).map(|schema| Self {
            folder: repository().join(format!("tests/tests/all/upgrade/fixtures/schema-{schema}")),
            schema,
        });
        all.collect()
    }

    /// The oldest, the one before the present, and the present: for what depends on whether there is a way, and not on its steps.
    fn some() -> Vec<Self> {
        let mut all = Self::all();
        if !is_long() {
            all.drain(1..all.len() - 2);
        }
        all
    }

    fn text(&self, name: &str) -> String {
        let path = self.folder.join(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// What those who made it know of it.
    fn known(&self) -> Value {
        serde_json::from_str(&self.text("known.json")).unwrap()
    }

    /// Makes the database and its key.
    fn restore(&self, database: &TestDatabase) {
        let key = database
            .ledger_key()
            .unwrap_or_else(|| key_file::default_path(database.db().file()));
        fs::write(key, self.text("test-ledger-key.txt")).unwrap();
        match database.db().file() {
            Some(file) => restore_file(file, &self.text("sqlite.sql")),
            None => restore_server(&database.url(), &self.folder.join("postgres.sql")),
        }
    }
}

fn restore_file(file: &Path, sql: &str) {
    let made = Connection::open(file).unwrap();
    made.execute_batch(sql).unwrap();
}

fn restore_server(url: &str, script: &Path) {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f"]);
    let done = psql.arg(script).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// The ledger and every row verify, and what was handed out before still does.
async fn is_whole(database: &TestDatabase, known: &Value) {
    let verify = database.command(["ledger", "verify"]).patiently();
    let report = verify.run().await.json();
    assert_eq!(report["findings"], Value::Array(vec![]), "{report}");
    assert_eq!(report["verified"], true, "{report}");
    for packet in known.list("packets") {
        let packet = packet.as_str().unwrap().as_bytes();
        let report = evidence::verify(packet, known.text("vkey"));
        assert!(report.verified(), "{report}");
    }
}

/// The partner's key works, its bookings are there, and it makes another one.
async fn is_served(database: &TestDatabase, known: &Value) {
    let server = Serving::start(database, &[]).await;
    let acme = server.caller().with_key(known.text("apiKey"));
    let account = acme.get("/v1/partners/me").await.ok(200);
    assert_eq!(account["partnerId"], known["partnerId"]);
    let before = acme.get("/v1/bookings").await.ok(200);
    let bookings = before.list("data").len();
    assert!(bookings as u64 >= known.number("bookings"), "{before}");
    let made = acme.post("/v1/bookings", &samples::booking()).await.ok(201);
    let id = made.text("bookingId");
    acme.post_nothing(&format!("/v1/bookings/{id}/protect"))
        .await
        .ok(200);
    let packet = acme.get(&format!("/v1/bookings/{id}/evidence")).await;
    let vkey = acme.get("/v1/ledger/key").await.text();
    assert!(evidence::verify(&packet.body, &vkey).verified());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_database_is_upgraded_by_migrate_with_all_that_is_in_it() {
    on_every_engine(async |engine| {
        for released in Released::all() {
            let database = TestDatabase::new(engine);
            released.restore(&database);
            let (from, to) = (released.schema, schema::known());
            if from < to {
                // Every other command leaves it to the operator, whatever the steps are.
                let commands = ["partners list", "ledger verify", "health"];
                let all = from == 1 || is_long();
                for command in &commands[..if all { commands.len() } else { 1 }] {
                    let refused = database.command(*command).run().await;
                    refused.refused(5, &["schema_older", "bookguard migrate"]);
                }
            }
            for args in ["migrate --dry-run", "migrate"] {
                let told = database.command(args).run().await.json();
                assert_eq!((&told["from"], &told["to"]), (&from.into(), &to.into()));
                let copied = told["copy"].as_str().map(PathBuf::from);
                let copies = from < to && args == "migrate" && database.db().file().is_some();
                assert_eq!(copied.is_some_and(|copy| copy.exists()), copies, "{told}");
            }
            let again = database.command("migrate --output table").run().await;
            again.said(&[&format!("schema {to} already: nothing to do")]);
            let known = released.known();
            // Before a server could mend what the upgrade left.
            if is_long() {
                is_whole(&database, &known).await;
            }
            is_served(&database, &known).await;
            is_whole(&database, &known).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_database_is_upgraded_by_the_server_at_its_start() {
    on_every_engine(async |engine| {
        for released in Released::some() {
            let database = TestDatabase::new(engine);
            released.restore(&database);
            let known = released.known();
            is_served(&database, &known).await;
            let told = database.command("migrate").run().await.json();
            assert_eq!(told["from"], schema::known(), "{told}");
            is_whole(&database, &known).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_database_is_moved_only_after_its_upgrade() {
    on_postgres(async |engine| {
        for released in Released::some() {
            let (from, to) = (TestDatabase::new(Engine::Sqlite), TestDatabase::new(engine));
            released.restore(&from);
            let key = key_file::default_path(Some(from.file()));
            let transfer = || {
                let line = bookguard("transfer --ledger-key").arg(&key);
                let line = line.env("BOOKGUARD_TRANSFER_FROM", from.file());
                line.env("BOOKGUARD_TRANSFER_TO", to.url()).run()
            };
            if released.schema < schema::known() {
                let refused = transfer().await;
                refused.refused(5, &["schema_older", "bookguard migrate"]);
                assert_eq!(to.tables(), [""; 0], "nothing was created");
                from.command("migrate").run().await.json();
            }
            transfer().await.json();
            fs::copy(&key, to.ledger_key().unwrap()).unwrap();
            is_whole(&to, &released.known()).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrate_makes_no_database() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        for args in ["migrate", "migrate --dry-run"] {
            let refused = database.command(args).run().await;
            refused.refused(1, &["there is no Bookguard database", "serve --db"]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_released_program_is_restored_and_stays_as_it_is() {
    for released in Released::some() {
        let database = TestDatabase::new(Engine::Sqlite);
        released.restore(&database);
        let backup = database.folder().join("old.db");
        fs::copy(database.file(), &backup).unwrap();
        // To look at it alone, it is upgraded as what it is.
        let line = "ledger verify --backup --ledger-key";
        let line = bookguard(line).arg(key_file::default_path(Some(database.file())));
        let looked = line.arg("--db").arg(&backup).run().await;
        let (from, to) = (released.schema, schema::known());
        if from < to {
            looked.refused(5, &["schema_older", "bookguard migrate"]);
        }
        let before = fs::read(&backup).unwrap();
        let done = database.command("restore").arg(&backup).run().await.json();
        let upgraded = (from < to).then(|| json!({"from": from, "to": to}));
        assert_eq!(done["upgraded"], json!(upgraded), "{done}");
        // The database that was there was made by the older program too.
        assert_eq!(done["uncompared"], json!(null), "{done}");
        assert!(fs::read(&backup).unwrap() == before, "the backup changed");
        // The guard is not kept with it, and nothing was published after the backup.
        fs::remove_file(database.file().with_extension("db.key.seen")).unwrap();
        let beside = fs::read_dir(database.folder()).unwrap().flatten();
        let beside: Vec<_> = beside.map(|file| file.file_name()).collect();
        let left = |name: &&std::ffi::OsString| {
            let name = name.to_string_lossy();
            name.contains(".part") || name.ends_with("-journal") || name.contains(".schema-")
        };
        assert_eq!(beside.iter().find(left), None);
        let known = released.known();
        is_whole(&database, &known).await;
        is_served(&database, &known).await;
        // A damaged one is not put in place.
        let damaged = Connection::open(&backup).unwrap();
        damaged
            .execute("UPDATE booking SET body = replace(body, '2', '3')", ())
            .unwrap();
        drop(damaged);
        let kept = fs::read(database.file()).unwrap();
        let refused = database.command("restore").arg(&backup).run().await;
        refused.ended(6, &["was not restored"]);
        assert!(
            fs::read(database.file()).unwrap() == kept,
            "the database changed"
        );
    }
}
