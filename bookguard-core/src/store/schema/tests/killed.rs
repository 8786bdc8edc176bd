//! Kill -9 at any moment of an upgrade leaves the old database or the new one, and the next start completes it.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;
use crate::store::transfer::transfer;

/// The number of kills.
fn kills() -> u32 {
    if crate::tests::is_long() { 50 } else { 10 }
}

/// Names the database to the process that is killed.
const DATABASE: &str = "BOOKGUARD_TEST_UPGRADES";

/// Does nothing by itself: it is the process that the other tests start and kill.
#[test]
fn upgrades_if_told_to() {
    if let Ok(database) = std::env::var(DATABASE) {
        let done = upgrade_by(&database.into(), &and(EXPANDING, false));
        assert!(done.unwrap().is_some());
    }
}

fn start(database: &str) -> Child {
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(own);
    command
        .args([
            "--exact",
            "store::schema::tests::killed::upgrades_if_told_to",
        ])
        .env(DATABASE, database)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Upgrades `kills` new copies of a database, each killed a little later than the one before. `copy` makes a copy and
/// returns its address; `gone` waits until nobody works on it any more.
fn killed_again_and_again(
    kills: u32,
    key: &Path,
    copy: &dyn Fn(u32) -> String,
    gone: &dyn Fn(&str),
) {
    let undisturbed = (kills..kills + 3).map(|number| {
        let database = copy(number);
        let began = Instant::now();
        assert!(start(&database).wait().unwrap().success());
        began.elapsed()
    });
    // The first one takes longer than those to come.
    let whole = undisturbed.min().unwrap();
    let (mut old, mut new) = (0, 0);
    for kill in 0..kills {
        let database = copy(kill);
        let began = Instant::now();
        let mut child = start(&database);
        let at = whole.mul_f64(0.2 + f64::from(kill) / f64::from(kills));
        thread::sleep(at.saturating_sub(began.elapsed()));
        child.kill().unwrap();
        child.wait().unwrap();
        gone(&database);
        let database = Database::from(database);
        match is_expanded(&database) {
            true => new += 1,
            false => old += 1,
        }
        clean(&database, key);
        upgrade_by(&database, &and(EXPANDING, false)).unwrap();
        assert!(is_expanded(&database));
        clean(&database, key);
    }
    println!("{old} kills left the old database, {new} the new one, within {whole:?}");
    assert!(old > 0);
}

#[test]
fn a_killed_upgrade_of_a_file_leaves_the_old_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    fixture::everything(&file);
    let key = key_file::default_path(Some(&file));
    let copy = |number| {
        let copy = folder.path().join(format!("{number}.db"));
        std::fs::copy(&file, &copy).unwrap();
        copy.display().to_string()
    };
    killed_again_and_again(kills(), &key, &copy, &|_| {});
    // Of the copies that upgrades make beforehand, none is half a file.
    let kept = files(folder.path(), ".schema-");
    for copy in kept
        .iter()
        .filter(|path| path.to_string_lossy().ends_with('Z'))
    {
        clean(&copy.as_path().into(), &key);
    }
}

#[test]
fn a_killed_upgrade_on_a_server_leaves_the_old_or_the_new_one() {
    let Some(postgres) = Postgres::shared() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    let key = key_file::default_path(Some(&file));
    let url = moved(&file, postgres);
    // One copy at a time: whoever drops a database waits until the disk has every file of every database.
    let last = std::cell::RefCell::new(None::<String>);
    let drop_last = || {
        if let Some(copy) = last.take() {
            postgres.drop_database(&copy);
        }
    };
    let copy = |number| {
        drop_last();
        let name = format!("{}_{number}", database_of(&url));
        let copied = format!("CREATE DATABASE {name} TEMPLATE {}", database_of(&url));
        postgres.sql("postgres", &copied);
        let copy = postgres.url(&name);
        last.replace(Some(copy.clone()));
        copy
    };
    // The server notices by and by that its client was killed, and may commit before.
    let gone = |url: &str| {
        let name = database_of(url);
        let here = format!("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = '{name}'");
        let left = (0..500).any(|_| postgres.sql("postgres", &here) == "0");
        assert!(left, "{url}");
    };
    killed_again_and_again(kills(), &key, &copy, &gone);
    drop_last();
    postgres.drop_database(&url);
}

/// Makes everything in a file, and moves it to a server.
fn moved(file: &Path, postgres: &Postgres) -> String {
    fixture::everything(file);
    let url = postgres.fresh_database();
    to_server(file, &url);
    url
}

/// Moves a file's database to a server.
pub(super) fn to_server(file: &Path, url: &str) {
    let key = LedgerKey::load(&key_file::default_path(Some(file)));
    let guard = Guard::open(file.with_extension("seen")).unwrap();
    let log = Log::new(key.unwrap().unwrap(), guard);
    transfer(
        &file.into(),
        &url.into(),
        &log,
        &mut || Ok(()),
        &mut |_, _| {},
    )
    .unwrap();
}
