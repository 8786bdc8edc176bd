//! The engine against failures of servers and connections.

use bookguard_test_postgres::{Options, Postgres as TestServer};

use super::*;
use crate::store::Database;

fn url(text: &str) -> PostgresUrl {
    match Database::from(text) {
        Database::Postgres(url) => url,
        Database::File(path) => panic!("{} is not a server", path.display()),
    }
}

/// A server of the test's own, and this engine on a new database of it.
fn own() -> Option<(TestServer, Server)> {
    let postgres = TestServer::start(&Options::default())?;
    let server = Server::open(&url(&postgres.fresh_database()), true);
    Some((postgres, server.unwrap()))
}

/// This engine on a new database of the server that tests share.
fn opened() -> Option<Server> {
    let postgres = TestServer::shared()?;
    Some(Server::open(&url(&postgres.fresh_database()), true).unwrap())
}

fn secret(owner: &[u8]) -> Statement<'static> {
    Statement::new(
        "INSERT INTO secret (owner, made_ms, from_ms, sealed) VALUES ($1, $2, 0, $3)",
        vec![owner.to_vec().into(), 1_i64.into(), vec![1].into()],
    )
}

/// The row whose lock is the write turn.
fn head() -> Statement<'static> {
    Statement::new(
        "INSERT INTO head (id, origin, vkey, size, root, checkpoint) VALUES (1, $1, $2, 0, $3, $4)",
        vec!["o".into(), "v".into(), vec![0].into(), "c".into()],
    )
}

fn count(conn: &mut dyn Conn) -> Result<i64, StoreError> {
    let rows = conn.one(Statement::new("SELECT COUNT(*) FROM secret", vec![]))?;
    rows.rows[0].int(0)
}

#[test]
fn a_server_that_was_gone_is_found_again() {
    let Some((postgres, server)) = own() else {
        return;
    };
    let mut writer = server.writer().unwrap();
    let mut reader = server.reader().unwrap();
    writer.write(&[secret(b"1")]).unwrap();
    assert_eq!(count(&mut *reader), Ok(1));
    // In the middle of a transaction: it is lost, and the caller learns so.
    writer.begin(&[]).unwrap();
    writer.run(&[secret(b"2")]).unwrap();
    postgres.crash();
    assert!(writer.commit(&[secret(b"3")]).is_err());
    writer.rollback();
    let gone = count(&mut *reader).unwrap_err().to_string();
    assert!(gone.contains("cannot be reached"), "{gone}");
    postgres.start_again();
    assert_eq!(count(&mut *reader), Ok(1));
    writer.write(&[secret(b"4")]).unwrap();
    assert_eq!(count(&mut *reader), Ok(2));
}

#[test]
fn a_session_that_was_ended_is_replaced_between_transactions_and_ends_the_one_it_was_in() {
    let Some(postgres) = TestServer::shared() else {
        return;
    };
    let address = postgres.fresh_database();
    let server = Server::open(&url(&address), true).unwrap();
    let database = bookguard_test_postgres::database_of(&address);
    let end_all = || {
        postgres.sql(
            "postgres",
            &format!("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'"),
        )
    };
    let mut reader = server.reader().unwrap();
    let mut writer = server.writer().unwrap();
    assert_eq!(count(&mut *reader), Ok(0));
    end_all();
    assert_eq!(count(&mut *reader), Ok(0));
    writer.begin(&[]).unwrap();
    end_all();
    assert!(writer.commit(&[secret(b"1")]).is_err());
    writer.rollback();
    reader.begin(&[]).unwrap();
    end_all();
    assert!(count(&mut *reader).is_err(), "its moment is gone");
    reader.rollback();
    assert_eq!(count(&mut *reader), Ok(0));
}

#[test]
fn a_commit_that_its_standby_may_not_have_is_not_called_done() {
    let Some(postgres) = TestServer::start(&Options::default()) else {
        return;
    };
    // Not even if sessions here would get no warnings.
    let address = postgres.fresh_database();
    let database = bookguard_test_postgres::database_of(&address);
    let silent = format!("ALTER DATABASE {database} SET client_min_messages = error");
    postgres.sql("postgres", &silent);
    let server = Server::open(&url(&address), true).unwrap();
    let mut writer = server.writer().unwrap();
    // No standby of this name will ever confirm.
    postgres.set("synchronous_standby_names", "nobody");
    let (told, committed) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        writer.begin(&[]).unwrap();
        told.send(writer.commit(&[secret(b"1")])).unwrap();
    });
    // An administrator who sees it hang would do this. The server then confirms a commit that only it has.
    loop {
        let cancelled = postgres.sql(
            "postgres",
            "SELECT count(*) FROM (SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep') c",
        );
        if cancelled.trim() != "0" {
            break;
        }
        assert!(!waiting.is_finished(), "it did not wait for the standby");
    }
    let refused = committed.recv().unwrap().unwrap_err().to_string();
    assert!(refused.contains("warning"), "{refused}");
    waiting.join().unwrap();
}

#[test]
fn a_node_that_falls_silent_in_its_turn_loses_it() {
    let Some(server) = opened() else { return };
    let mut silent = server.writer().unwrap();
    silent.run(&[head()]).unwrap();
    silent.begin(&[]).unwrap();
    silent.run(&[secret(b"1")]).unwrap();
    let mut next = server.writer().unwrap();
    // Waits until the server has thrown the silent one out.
    next.begin(&[]).unwrap();
    next.commit(&[secret(b"2")]).unwrap();
    assert!(silent.commit(&[]).is_err());
    assert_eq!(count(&mut *server.reader().unwrap()), Ok(1));
}

#[test]
fn what_refers_to_nothing_is_found() {
    let Some(postgres) = TestServer::shared() else {
        return;
    };
    let address = postgres.fresh_database();
    let server = Server::open(&url(&address), true).unwrap();
    assert_eq!(server.faults(), Ok(Vec::new()));
    let database = bookguard_test_postgres::database_of(&address);
    postgres.sql(
        database,
        "INSERT INTO event VALUES ('e1', 'nobody', 1, 'none', 1, 0, ''), ('e2', 'nobody', 2, 'none', 1, 0, ''); \
         INSERT INTO delivery VALUES ('e1', 'nowhere', 0, 0, 0, NULL, NULL)",
    );
    let missing = |rows: &str, column: &str, parent: &str| {
        format!("{rows} by {column} to a row of table {parent} that is not there")
    };
    let expected = vec![
        missing("2 rows of table event refer", "partner_id", "partner"),
        missing("2 rows of table event refer", "booking_id", "booking"),
        missing("1 row of table delivery refers", "endpoint_id", "endpoint"),
    ];
    assert_eq!(server.faults(), Ok(expected));
}

#[test]
fn a_node_that_takes_no_answers_in_its_turn_loses_it() {
    let Some(postgres) = TestServer::shared() else {
        return;
    };
    let url = url(&postgres.fresh_database());
    let server = Server::open(&url, true).unwrap();
    let mut silent = Postgres::new(Arc::new(Address::parse(&url).unwrap()), &WRITER);
    silent.run(&[head()]).unwrap();
    silent.begin(&[]).unwrap();
    // More than the network buffers for a client that does not read, so the server is in the middle of sending it.
    let session = silent.session().unwrap();
    session.send("SELECT repeat('x', 100000000)");
    let mut next = server.writer().unwrap();
    let begun = (0..3).any(|_| next.begin(&[]).is_ok());
    assert!(begun, "the turn was kept for ever");
    next.commit(&[secret(b"1")]).unwrap();
}

#[test]
fn nothing_is_committed_when_one_of_the_list_cannot_be_sent() {
    let Some(server) = opened() else { return };
    let mut writer = server.writer().unwrap();
    writer.run(&[head()]).unwrap();
    let unsendable = Statement {
        args: vec!["no bytes".into(), 1_i64.into(), vec![1].into()],
        ..secret(b"2")
    };
    writer.begin(&[]).unwrap();
    let all = [secret(b"1"), unsendable, secret(b"3")];
    assert!(writer.commit(&all).is_err());
    // In the next turn the transaction is over.
    let mut next = server.writer().unwrap();
    next.begin(&[]).unwrap();
    assert_eq!(count(&mut *next), Ok(0));
}

#[test]
fn one_text_in_two_places_is_one_statement() {
    let Some(server) = opened() else { return };
    let copy = || Statement::new(Box::leak("SELECT 1".to_owned().into_boxed_str()), vec![]);
    let answers = server.reader().unwrap().run(&[copy(), copy()]).unwrap();
    assert_eq!(answers.len(), 2);
}

#[test]
fn what_was_checked_of_a_server_stays_so_for_the_session() {
    let Some((postgres, server)) = own() else {
        return;
    };
    let mut writer = server.writer().unwrap();
    postgres.set("synchronous_commit", "off");
    let refused = server.writer().err().unwrap().to_string();
    assert!(refused.contains("synchronous_commit = off"), "{refused}");
    assert_eq!(waits_for(&mut *writer), "on");
}

#[test]
fn a_commit_waits_for_the_disk_of_a_standby_whatever_the_server_says() {
    let Some((postgres, server)) = own() else {
        return;
    };
    for (set, kept) in [
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ] {
        postgres.set("synchronous_commit", set);
        assert_eq!(waits_for(&mut *server.writer().unwrap()), kept, "{set}");
    }
}

/// What a commit waits for before it is answered.
fn waits_for(conn: &mut dyn Conn) -> String {
    let asked = Statement::new("SELECT current_setting('synchronous_commit')", vec![]);
    let rows = conn.one(asked).unwrap();
    rows.rows[0].text(0).unwrap().to_owned()
}

#[test]
fn a_silent_database_server_does_not_block_the_next_one_and_is_not_tried_again() {
    let Some(postgres) = TestServer::shared() else {
        return;
    };
    let hung = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    hung.set_nonblocking(true).unwrap();
    let first = format!("@{},", hung.local_addr().unwrap());
    let both = postgres.fresh_database().replacen('@', &first, 1);
    let address = Address::parse(&url(&both)).unwrap();
    Session::open(&address, WRITER.settings).unwrap();
    assert!(hung.accept().is_ok(), "it is named first");
    Session::open(&address, WRITER.settings).unwrap();
    assert!(hung.accept().is_err(), "the other one was there");
}

#[test]
fn a_server_that_says_nothing_is_not_asked_twice() {
    const IMPATIENT: Role = Role {
        settings: "SET statement_timeout = 0",
        patience: Duration::from_millis(500),
        ..READER
    };
    let Some(postgres) = TestServer::shared() else {
        return;
    };
    let url = postgres.fresh_database();
    let database = bookguard_test_postgres::database_of(&url);
    postgres.sql(database, "CREATE SEQUENCE asked");
    let address = Address::parse(&self::url(&url)).unwrap();
    let mut conn = Postgres::new(Arc::new(address), &IMPATIENT);
    let sql = "SELECT nextval('asked'), pg_sleep(60)::TEXT";
    let silent = conn.one(Statement::new(sql, vec![])).unwrap_err();
    assert!(silent.to_string().contains("said nothing"), "{silent}");
    let asked = postgres.sql(database, "SELECT last_value FROM asked");
    assert_eq!(asked, "1");
}

#[test]
fn the_tiles_that_grow_are_found_by_one_look_at_the_head() {
    let Some(postgres) = TestServer::shared() else {
        return;
    };
    let url = postgres.fresh_database();
    Server::open(&self::url(&url), true).unwrap();
    let database = bookguard_test_postgres::database_of(&url);
    let asked = format!("EXPLAIN {}", crate::store::tree::growing().sql);
    let plan = postgres.sql(database, &asked);
    assert_eq!(plan.matches(" on head").count(), 1, "{plan}");
}
