//! Databases as released programs left them, which `tests/tests/all/upgrade` restores and upgrades.
//!
//! `UPDATE=1` writes those of the present version. After its release they stay as they are.

use std::fmt::Write as _;
use std::process::Command;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::killed::to_server;
use super::*;

/// The largest text of one database, in bytes.
const LARGEST: usize = 300 * 1024;

#[test]
fn the_fixtures_of_the_present_version_can_be_made() {
    let Some(postgres) = Postgres::shared() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    let known_of = fixture::everything_and_more(&file);
    let key = std::fs::read_to_string(key_file::default_path(Some(&file))).unwrap();
    let sqlite = dump(&file);
    let url = postgres.fresh_database();
    to_server(&file, &url);
    let dumped = Command::new("pg_dump")
        .args(["--no-owner", "--no-privileges", "-d", &url])
        .output()
        .unwrap();
    assert!(dumped.status.success(), "{dumped:?}");
    postgres.drop_database(&url);
    // Only the newest clients know these commands.
    let dumped = String::from_utf8(dumped.stdout).unwrap();
    let lines = dumped.lines().filter(|line| {
        !["\\restrict", "\\unrestrict", "-- ", "--"]
            .iter()
            .any(|begins| line.starts_with(begins))
    });
    let server = lines.map(|line| format!("{line}\n")).collect::<String>();
    assert!(sqlite.len() < LARGEST && server.len() < LARGEST);
    let known_of = serde_json::to_string_pretty(&known_of).unwrap() + "\n";
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!(
        "../tests/tests/all/upgrade/fixtures/schema-{}",
        known()
    ));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(&place).unwrap();
        let write = |name: &str, text: &str| std::fs::write(place.join(name), text).unwrap();
        write("sqlite.sql", &sqlite);
        write("postgres.sql", &server);
        write("test-ledger-key.txt", &key);
        write("known.json", &known_of);
    }
    let way_out = format!(
        "the fixtures of schema {} are not of it: make them with UPDATE=1",
        known()
    );
    let kept = Connection::open_in_memory().unwrap();
    let text = std::fs::read_to_string(place.join("sqlite.sql")).expect(&way_out);
    kept.execute_batch(&text).unwrap();
    let made = Connection::open(&file).unwrap();
    assert_eq!(definitions(&kept), definitions(&made), "{way_out}");
}

/// The definitions of all tables and indexes.
fn definitions(db: &Connection) -> Vec<String> {
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    let mut query = db.prepare(sql).unwrap();
    let found = query.query_map([], |row| row.get(0)).unwrap();
    found.map(Result::unwrap).collect()
}

/// The whole file as SQL text.
fn dump(file: &Path) -> String {
    let db = Connection::open(file).unwrap();
    let texts = |sql: &str| -> Vec<(String, String)> {
        let mut query = db.prepare(sql).unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    let mut text = "PRAGMA page_size = 8192;\nPRAGMA foreign_keys = OFF;\nBEGIN;\n".to_owned();
    let schema = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND type = ";
    for (table, sql) in texts(&format!("{schema}'table' ORDER BY rowid")) {
        writeln!(text, "{sql};").unwrap();
        let mut query = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = query.column_count();
        let mut rows = query.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<String> = (0..columns)
                .map(|column| literal(row.get(column).unwrap()))
                .collect();
            writeln!(text, "INSERT INTO {table} VALUES ({});", values.join(",")).unwrap();
        }
    }
    for (_, sql) in texts(&format!("{schema}'index' ORDER BY rowid")) {
        writeln!(text, "{sql};").unwrap();
    }
    text + "COMMIT;\n"
}

fn literal(value: Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(n) => n.to_string(),
        Value::Real(x) => x.to_string(),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Blob(bytes) => format!("X'{}'", hex::encode(bytes)),
    }
}
