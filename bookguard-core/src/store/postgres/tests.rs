//! The engine against what happens to servers and connections.

use bookguard_test_postgres::{Options, Postgres as TestServer};

use super::*;
use crate::store::Database;

fn url(text: &str) -> PostgresUrl {
    match Database::from(text) {
        Database::Postgres(url) => url,
        Database::File(path) => panic!("{} is no server", path.display()),
    }
}

fn secret(owner: &[u8]) -> Statement<'static> {
    Statement::new(
        "INSERT INTO secret (owner, made_ms, sealed) VALUES ($1, $2, $3)",
        vec![owner.to_vec().into(), 1.into(), vec![1].into()],
    )
}

fn count(conn: &mut dyn Conn) -> Result<i64, StoreError> {
    let rows = conn.one(Statement::new("SELECT COUNT(*) FROM secret", vec![]))?;
    rows.rows[0].int(0)
}

#[test]
fn a_server_that_was_gone_is_found_again() {
    let Some(postgres) = TestServer::start(&Options::default()) else {
        return;
    };
    let server = Server::open(&url(&postgres.fresh_database()), true).unwrap();
    let mut writer = server.writer().unwrap();
    let mut reader = server.reader().unwrap();
    writer.begin(&[]).unwrap();
    writer.commit(&[secret(b"1")]).unwrap();
    assert_eq!(count(&mut *reader), Ok(1));
    // In the middle of a transaction: what was begun is gone, and said to be.
    writer.begin(&[]).unwrap();
    writer.run(&[secret(b"2")]).unwrap();
    postgres.crash();
    assert!(writer.commit(&[secret(b"3")]).is_err());
    writer.rollback();
    let gone = count(&mut *reader).unwrap_err().to_string();
    assert!(gone.contains("cannot be reached"), "{gone}");
    postgres.start_again();
    assert_eq!(count(&mut *reader), Ok(1));
    writer.begin(&[]).unwrap();
    writer.commit(&[secret(b"4")]).unwrap();
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
    // Nobody by this name will ever confirm.
    let options = Options::default().setting("synchronous_standby_names = 'nobody'");
    let Some(postgres) = TestServer::start(&options) else {
        return;
    };
    postgres.sql(
        "postgres",
        "ALTER SYSTEM SET synchronous_standby_names = ''",
    );
    postgres.sql("postgres", "SELECT pg_reload_conf()");
    let address = postgres.fresh_database();
    let server = Server::open(&url(&address), true).unwrap();
    let mut writer = server.writer().unwrap();
    postgres.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
    postgres.sql("postgres", "SELECT pg_reload_conf()");
    let (told, committed) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        writer.begin(&[]).unwrap();
        told.send(writer.commit(&[secret(b"1")])).unwrap();
    });
    // What an administrator does who sees it hang: the server then confirms what only it has.
    loop {
        let cancelled = postgres.sql(
            "postgres",
            "SELECT count(*) FROM (SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep') c",
        );
        if cancelled.trim() != "0" {
            break;
        }
    }
    let refused = committed.recv().unwrap().unwrap_err().to_string();
    assert!(refused.contains("warning"), "{refused}");
    waiting.join().unwrap();
}

#[test]
fn a_node_that_falls_silent_in_its_turn_loses_it() {
    let Some(postgres) = TestServer::shared() else {
        return;
    };
    let server = Server::open(&url(&postgres.fresh_database()), true).unwrap();
    let mut silent = server.writer().unwrap();
    silent.run(&[Statement::new(
        "INSERT INTO head (id, origin, vkey, size, root, checkpoint) VALUES (1, $1, $2, 0, $3, $4)",
        vec!["o".into(), "v".into(), vec![0].into(), "c".into()],
    )])
    .unwrap();
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
    assert_eq!(
        server.faults(),
        Ok(vec![
            missing("2 rows of table event refer", "partner_id", "partner"),
            missing("2 rows of table event refer", "booking_id", "booking"),
            missing("1 row of table delivery refers", "endpoint_id", "endpoint"),
        ])
    );
}
