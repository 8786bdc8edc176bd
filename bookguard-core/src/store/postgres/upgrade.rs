//! Upgrades the schema of a database on a server, while nodes work on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::address::Address;
use super::{MIGRATOR, Postgres, existing, script};
use crate::store::conn::{Conn as _, StoreError};
use crate::store::database::PostgresUrl;
use crate::store::schema::{self, Schema, Step, Upgraded};

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
    existing(&mut Postgres::new(address, &MIGRATOR))
}

/// Applies the steps that the database lacks. One node does it, and others that start wait for it.
pub(in crate::store) fn upgrade(url: &PostgresUrl, steps: &[Step]) -> Result<Upgraded, StoreError> {
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

fn attempt(conn: &mut Postgres, steps: &[Step], brief: bool) -> Result<Upgraded, StoreError> {
    conn.begin(&[])?;
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
