//! Upgrades the schema of a database on a server, while nodes work on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::address::Address;
use super::{CHECKER, MIGRATOR, Postgres, existing, script};
use crate::store::conn::{Conn as _, StoreError};
use crate::store::database::PostgresUrl;
use crate::store::schema::{self, Schema, SchemaStep, Upgraded};

/// How long an upgrade tries to get the locks of the tables.
const PATIENCE: Duration = Duration::from_secs(60);
/// The wait between two tries, in which those that queued behind one go ahead.
const PAUSE: Duration = Duration::from_millis(500);
/// The tries that give up before the server looks for deadlocks (after 1 s by default), so that no node loses a request
/// to one. The later ones wait longer, because the server stops its own vacuum for a lock only when it has looked.
const BRIEF: u32 = 8;

/// What the database says about its schema. Returns `None` if it is empty.
pub(in crate::store) fn schema(url: &PostgresUrl) -> Result<Option<Schema>, StoreError> {
    let address = Arc::new(Address::parse(url)?);
    existing(&mut Postgres::new(address, &CHECKER))
}

/// Applies the steps that the database lacks. One node does it; others that start wait for it for five minutes, and then fail.
pub(in crate::store) fn upgrade(
    url: &PostgresUrl,
    steps: &[SchemaStep],
) -> Result<Upgraded, StoreError> {
    let address = Arc::new(Address::parse(url)?);
    let mut conn = Postgres::new(address, &MIGRATOR);
    let until = Instant::now() + PATIENCE;
    let mut tries = 0;
    loop {
        tries += 1;
        match attempt(&mut conn, steps, tries <= BRIEF) {
            Err(StoreError::Busy) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(StoreError::Busy) => {
                return Err(StoreError::Failed(format!(
                    "the schema was not upgraded: for {} s other sessions held locks on its tables. End their transactions, such \
                     as a pg_dump or `bookguard ledger verify` (pg_stat_activity shows them), and start again",
                    PATIENCE.as_secs()
                )));
            }
            done => return done,
        }
    }
}

fn attempt(conn: &mut Postgres, steps: &[SchemaStep], brief: bool) -> Result<Upgraded, StoreError> {
    conn.begin(&[]).map_err(|error| match error {
        // All that it waits for is the lock that another node holds while it upgrades.
        StoreError::Busy => StoreError::Failed(
            "another node is upgrading the schema, which may take long on a large database: let it go on, and start this one when \
             it is done"
                .to_owned(),
        ),
        other => other,
    })?;
    let upgraded = (|| {
        if !brief {
            conn.script("SET LOCAL lock_timeout = '2s'")?;
        }
        // The write turn, as a lock that whoever waits for a turn queues behind without holding anything. Readers go on.
        conn.script("LOCK TABLE head IN EXCLUSIVE MODE")?;
        let from = schema::found(conn)?.version;
        schema::apply(conn, from, steps, script)?;
        let to = from.max(steps.len() as i64);
        let copy = None;
        Ok(Upgraded { from, to, copy })
    })();
    match upgraded {
        Ok(upgraded) => conn.commit(&[]).map(|_| upgraded),
        Err(error) => {
            conn.rollback();
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use bookguard_test_postgres::{Postgres as TestServer, database_of};

    use super::*;
    use crate::store::Database;
    use crate::store::postgres::Role;

    fn address(url: &str) -> Arc<Address> {
        let Database::Postgres(url) = Database::from(url) else {
            panic!("{url} is a server's")
        };
        Arc::new(Address::parse(&url).unwrap())
    }

    #[test]
    fn a_node_that_waits_for_another_s_upgrade_says_so() {
        const IMPATIENT: Role = Role {
            begin: "BEGIN; SET LOCAL lock_timeout = '100ms'; SELECT pg_advisory_xact_lock(7882842413417721)",
            ..MIGRATOR
        };
        let Some(postgres) = TestServer::shared() else {
            return;
        };
        let url = postgres.fresh_database();
        let _upgrading = postgres.hold(
            database_of(&url),
            "SELECT pg_advisory_xact_lock(7882842413417721)",
        );
        let mut conn = Postgres::new(address(&url), &IMPATIENT);
        let refused = attempt(&mut conn, &schema::STEPS, true).unwrap_err();
        let says = refused.to_string();
        assert!(says.contains("another node is upgrading"), "{says}");
    }

    #[test]
    fn a_step_whose_node_is_gone_ends_soon() {
        let Some(postgres) = TestServer::shared() else {
            return;
        };
        let address = address(&postgres.fresh_database());
        let mut gone = Postgres::new(Arc::clone(&address), &MIGRATOR);
        gone.begin(&[]).unwrap();
        gone.session().unwrap().send("SELECT pg_sleep(600)");
        drop(gone);
        let began = Instant::now();
        Postgres::new(address, &MIGRATOR).begin(&[]).unwrap();
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
