//! Servers that are started, broken and left behind.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bookguard_test_postgres::{Options, Postgres, VARIABLE, database_of};

const BOUND: Duration = Duration::from_secs(30);

#[test]
fn databases_of_the_shared_server_are_fresh_and_apart() {
    let Some(postgres) = Postgres::shared() else {
        return;
    };
    let [one, two] = [(); 2].map(|()| postgres.fresh_database());
    assert_ne!(one, two);
    postgres.sql(database_of(&one), "CREATE TABLE only_here (n INTEGER)");
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'";
    assert_eq!(postgres.sql(database_of(&two), tables), "0");
    for url in [&one, &two] {
        postgres.drop_database(url);
        let left = format!(
            "SELECT count(*) FROM pg_database WHERE datname = '{}'",
            database_of(url)
        );
        assert_eq!(postgres.sql("postgres", &left), "0");
    }
}

#[test]
fn a_transaction_is_held_open_until_it_is_dropped() {
    let Some(postgres) = Postgres::shared() else {
        return;
    };
    let url = postgres.fresh_database();
    let name = database_of(&url);
    let one = "CREATE TABLE one (n INTEGER); INSERT INTO one VALUES (1)";
    postgres.sql(name, one);
    let held = postgres.hold(name, "UPDATE one SET n = 2");
    let free = "SELECT count(*) FROM (SELECT n FROM one FOR UPDATE SKIP LOCKED) AS free";
    assert_eq!(postgres.sql(name, free), "0");
    drop(held);
    assert_eq!(postgres.sql(name, free), "1");
    let left = postgres.sql(name, "SELECT n FROM one");
    assert_eq!(left, "1", "and is undone");
    postgres.drop_database(&url);
}

#[test]
fn options_reach_the_server_and_a_password_is_asked_for() {
    let options = Options::default()
        .setting("max_connections = 7")
        .setting("include 'more.conf'")
        .file("more.conf", "work_mem = '3MB'\n")
        .password("p@ss: w/rd");
    let Some(postgres) = Postgres::start(&options) else {
        return;
    };
    assert_eq!(postgres.sql("postgres", "SHOW max_connections"), "7");
    assert_eq!(postgres.sql("postgres", "SHOW work_mem"), "3MB");
    let wrong = postgres.url("postgres").replace("p%40ss", "pass");
    let refused = Command::new("psql")
        .args(["-X", "-d", &wrong, "-c", "SELECT 1"])
        .env("LC_ALL", "C")
        .output()
        .expect("psql can be run");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("password authentication failed"), "{said}");
    // The standby logs in with it too.
    let standby = postgres.standby();
    assert_eq!(standby.sql("postgres", "SELECT pg_is_in_recovery()"), "t");
}

#[test]
fn a_server_is_durable_and_has_what_was_committed_on_the_same_port_after_a_crash_and_a_restart() {
    let Some(postgres) = Postgres::start(&Options::default()) else {
        return;
    };
    for (setting, expected) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("lc_collate", "C"),
        ("server_encoding", "UTF8"),
        ("listen_addresses", "127.0.0.1"),
    ] {
        let shown = postgres.sql("postgres", &format!("SHOW {setting}"));
        assert_eq!(shown, expected);
    }
    let port = postgres.port();
    let url = format!("postgres://bookguard@127.0.0.1:{port}/postgres");
    assert_eq!(postgres.url("postgres"), url);
    postgres.sql("postgres", "CREATE TABLE kept (n INTEGER)");
    for (n, end) in ["crash", "stop", "restart"].iter().enumerate() {
        postgres.sql("postgres", &format!("INSERT INTO kept VALUES ({n})"));
        match *end {
            "crash" => postgres.crash(),
            "stop" => postgres.stop(),
            _ => postgres.restart(),
        }
        if *end != "restart" {
            assert!(!listens(port), "{end} left it running");
            postgres.start_again();
        }
        let kept = postgres.sql("postgres", "SELECT count(*) FROM kept");
        assert_eq!(kept, (n + 1).to_string(), "after {end}");
        assert_eq!(postgres.port(), port);
    }
}

#[test]
fn a_promoted_standby_has_all_that_its_primary_committed_before_it_crashed() {
    let Some(primary) = Postgres::start(&Options::default()) else {
        return;
    };
    primary.sql("postgres", "CREATE TABLE kept (n INTEGER)");
    let standby = primary.standby();
    for n in 0..20 {
        primary.sql("postgres", &format!("INSERT INTO kept VALUES ({n})"));
    }
    primary.crash();
    standby.promote();
    assert_eq!(standby.sql("postgres", "SELECT count(*) FROM kept"), "20");
    // Its commits wait for no standby.
    standby.sql("postgres", "INSERT INTO kept VALUES (20)");
    assert_eq!(standby.sql("postgres", "SELECT count(*) FROM kept"), "21");
}

#[test]
fn a_server_is_gone_with_its_directory_when_it_is_dropped_and_soon_after_its_owner_was_killed() {
    let Some(postgres) = Postgres::start(&Options::default()) else {
        return;
    };
    let dropped = directory(&postgres.sql("postgres", "SHOW data_directory"));
    let port = postgres.port();
    assert!(dropped.exists() && listens(port));
    drop(postgres);
    assert!(!dropped.exists() && !listens(port));

    let mut owner = Command::new(env!("CARGO_BIN_EXE_bookguard-test-postgres"))
        // The test needs its own server, even if the tests were given one.
        .env_remove(VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the owner can be run");
    let stdout = owner.stdout.take().expect("standard output is piped");
    let mut url = String::new();
    BufReader::new(stdout)
        .read_line(&mut url)
        .expect("the owner says the URL");
    let output = Command::new("psql")
        .args("-X -A -t -c".split(' '))
        .args(["SHOW data_directory", "-d", url.trim()])
        .output()
        .expect("psql can be run");
    let orphaned = directory(String::from_utf8_lossy(&output.stdout).trim());
    let port = url.split([':', '/']).nth(4);
    let port = port.and_then(|port| port.parse().ok());
    let port = port.unwrap_or_else(|| panic!("no port in {url}"));
    assert!(orphaned.exists() && listens(port));
    owner.kill().expect("a child can be killed");
    owner.wait().expect("a child can be awaited");
    let end = Instant::now() + BOUND;
    while orphaned.exists() || listens(port) {
        let place = orphaned.display();
        assert!(Instant::now() < end, "{place} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_variable_that_means_nothing_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_bookguard-test-postgres"))
        .env(VARIABLE, "yes")
        .stdin(Stdio::null())
        .output()
        .expect("the owner can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    let told = said.contains("BOOKGUARD_TEST_POSTGRES is \"yes\"");
    assert!(told, "{said}");
}

/// The directory that holds the data directory.
fn directory(data: &str) -> PathBuf {
    let parent = Path::new(data).parent();
    parent
        .unwrap_or_else(|| panic!("{data:?} is not a data directory"))
        .to_owned()
}

fn listens(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}
