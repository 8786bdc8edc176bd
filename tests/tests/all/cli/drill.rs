//! `bookguard drill`: each way is noticed by what docs/evidence.md says, and by nothing else; the database stays as it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::files::names;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{Serving, bookguard};
use serde_json::Value;

const BEGIN: &str = "<!-- the table of the drill: UPDATE=1 writes it -->\n";
const END: &str = "<!-- its end -->\n";
const COLUMNS: [&str; 7] = [
    "verify",
    "server",
    "packet",
    "mirror",
    "witness",
    "auditor",
    "time_stamp",
];

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/evidence.md")
}

/// The table as the page has it, of what really noticed each way.
fn table(drilled: &Value) -> String {
    let heads = COLUMNS.map(|column| column.replace('_', "-")).join(" | ");
    let mut table = format!(
        "| what is done | with | {heads} |\n|---|---|{}\n",
        "---|".repeat(COLUMNS.len())
    );
    for row in drilled.list("data") {
        let noticed = row.list("noticedBy");
        let cells = COLUMNS.map(|column| match noticed.iter().any(|it| it == column) {
            true => "yes",
            false => "–",
        });
        let with = match row.text("by") {
            "disk" => "disk",
            "key" => "key",
            "disk_and_key" => "disk, key",
            _ => "neither",
        };
        let what = row.text("what");
        table += &format!("| {what} | {with} | {} |\n", cells.join(" | "));
    }
    table
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_is_noticed_by_what_the_documents_say() {
    let line = bookguard("drill --demo --output json").patiently();
    let ran = line.run().await;
    let drilled = ran.printed();
    let ways = drilled.list("data");
    assert!(ways.len() >= 20, "{}", ways.len());
    for way in ways {
        assert_eq!(way["noticedBy"], way["expected"], "{way:#}");
        // Whoever notices says why.
        let why = way["why"].as_object().unwrap();
        let is_said = |why: &Value| why.as_str().unwrap().len() > 9;
        assert!(why.values().all(is_said), "{way:#}");
        assert_eq!(why.len(), way.list("noticedBy").len(), "{way:#}");
    }
    assert_eq!(drilled["asExpected"], true);
    assert_eq!(ran.code, Some(0));
    let (page, told) = (page(), fs::read_to_string(page()).unwrap());
    let (before, rest) = told.split_once(BEGIN).expect("the page has the table");
    let (shown, after) = rest.split_once(END).expect("the table ends");
    let found = table(&drilled);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(page, format!("{before}{BEGIN}{found}{END}{after}")).unwrap();
    } else {
        assert_eq!(shown, found, "UPDATE=1 writes the table");
    }
}

/// Every file of a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = names(folder).into_iter().map(|name| folder.join(name));
    // Readers of a database leave files beside it that hold nothing of it.
    let holds = |file: &PathBuf| {
        let name = file.to_string_lossy();
        let is_empty = fs::metadata(file).unwrap().len() == 0;
        !name.ends_with("-shm") && (!name.ends_with("-wal") || !is_empty)
    };
    let files = files.filter(|file| file.is_file() && holds(file));
    files
        .map(|file| (file.clone(), fs::read(&file).unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_only_read_and_nothing_is_left_behind() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme) = Serving::with_partner(&database, &["--dev"]).await;
        let booking = acme.book().await;
        acme.protect(&booking).await;
        server.stop().await;
        let head = database.command("ledger checkpoint").run().await.stdout;
        let before = files(database.folder());
        let scratch = tempfile::tempdir().unwrap();
        let drill = |rest: &str| {
            let line = database.command(format!("drill --output json {rest}"));
            line.env("TMPDIR", scratch.path()).patiently()
        };
        let line = drill("--way entry-signed --way left-out --way unseen");
        let ran = line.run().await;
        let ways = ran.json();
        assert_eq!(ways.list("data").len(), 3, "{ways:#}");
        assert!(!ran.stderr.contains("no guard file"), "{ran:?}");
        if engine == Engine::Sqlite {
            let is_same = files(database.folder()) == before;
            assert!(is_same, "the database's folder changed");
        }
        let checkpoint = database.command("ledger checkpoint").run().await;
        assert_eq!(checkpoint.stdout, head);
        database.verify(1).await;
        assert!(names(scratch.path()).is_empty());

        // What is damaged before proves nothing afterwards.
        database.tamper("UPDATE booking SET event_ms = 7");
        let damaged = drill("--way bit").run().await;
        damaged.refused(6, &["does not verify before anything is done", "event_ms"]);
        let unknown = drill("--way bits").run().await;
        unknown.refused(2, &["no way", "entry-signed"]);
        assert!(names(scratch.path()).is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_drill_needs_the_database_itself_and_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let line = |args: &str| bookguard(args).in_folder(folder.path());
    let there = line("drill --url http://127.0.0.1:9").run().await;
    there.refused(2, &["works only on the database itself"]);
    let nothing = line("drill --db none.db").run().await;
    nothing.refused(2, &["there is no database at none.db", "--demo"]);
    assert!(names(folder.path()).is_empty());
}
