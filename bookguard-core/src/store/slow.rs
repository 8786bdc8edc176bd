//! A connection with slower commits, to measure what a slower disk would cost.
//!
//! Everything except the wait is the inner connection's.

use std::time::Duration;

use super::conn::{Conn, Rows, Statement, StoreError};

/// Wraps `conn` so that it waits `delay` before every commit. Returns `conn` itself if `delay` is zero.
pub(crate) fn slowed(conn: Box<dyn Conn>, delay: Duration) -> Box<dyn Conn> {
    if delay.is_zero() {
        conn
    } else {
        Box::new(Slow { conn, delay })
    }
}

struct Slow {
    conn: Box<dyn Conn>,
    delay: Duration,
}

impl Conn for Slow {
    fn run(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        self.conn.run(statements)
    }

    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        self.conn.begin(statements)
    }

    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        // Inside the transaction, where a slow disk would also wait.
        std::thread::sleep(self.delay);
        self.conn.commit(statements)
    }

    fn rollback(&mut self) {
        self.conn.rollback();
    }

    fn keep_up(&mut self, more: bool) -> Result<bool, StoreError> {
        self.conn.keep_up(more)
    }
}
