//! Bare SQLite: the rows of real bookings copied into an empty database of the same schema, in groups.
//!
//! Schema, columns and sizes come from the server's own database, so this follows changes of the schema. It does what no
//! program that keeps these rows can avoid: the inserts, the indexes, one flush per group.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use crate::Fallible;

/// Rows per statement.
const ROWS: usize = 16;
/// The tables of a booking, in the order of insertion.
const TABLES: [&str; 3] = ["booking", "entry", "event"];

/// The rows of a number of bookings.
pub struct Rows {
    schema: Vec<String>,
    tables: Vec<Table>,
    /// The number of bookings.
    pub bookings: usize,
}

struct Table {
    name: &'static str,
    columns: usize,
    rows: Vec<Vec<Value>>,
}

/// Opens a server's database for reading only.
pub fn open(db: &Path) -> Fallible<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(db, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}

impl Rows {
    /// Reads the first `count` bookings of a database, or as many as there are.
    pub fn of(db: &Path, count: usize) -> Fallible<Self> {
        let connection = open(db)?;
        let mut made = connection.prepare(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid",
        )?;
        let schema = made
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let first = format!("SELECT id FROM booking ORDER BY rowid LIMIT {count}");
        let read = |name: &'static str| -> Fallible<Table> {
            let key = if name == "booking" {
                "id"
            } else {
                "booking_id"
            };
            let sql = format!("SELECT * FROM {name} WHERE {key} IN ({first}) ORDER BY rowid");
            let mut select = connection.prepare(&sql)?;
            let columns = select.column_count();
            let row = |row: &rusqlite::Row<'_>| (0..columns).map(|c| row.get(c)).collect();
            let rows = select.query_map([], row)?.collect::<Result<Vec<_>, _>>()?;
            Ok(Table {
                name,
                columns,
                rows,
            })
        };
        let tables = TABLES.into_iter().map(read).collect::<Fallible<Vec<_>>>()?;
        let bookings = tables[0].rows.len() / ROWS * ROWS;
        if tables.iter().any(|table| table.rows.len() < bookings) || bookings == 0 {
            return Err("the server's database does not hold the rows expected".into());
        }
        Ok(Self {
            schema,
            tables,
            bookings,
        })
    }

    /// Inserts the rows in transactions of `group` bookings, each flushed; returns bookings per second.
    pub fn insert(&self, db: &Path, group: usize, commit_delay: Duration) -> Fallible<f64> {
        let connection = Connection::open(db)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;",
        )?;
        for statement in &self.schema {
            connection.execute_batch(statement)?;
        }
        let texts: Vec<String> = self.tables.iter().map(Table::insert).collect();
        let began = Instant::now();
        for from in (0..self.bookings).step_by(group) {
            let to = (from + group).min(self.bookings);
            connection.execute_batch("BEGIN IMMEDIATE")?;
            for (table, text) in self.tables.iter().zip(&texts) {
                let mut insert = connection.prepare_cached(text)?;
                for rows in table.rows[from..to].chunks(ROWS) {
                    insert.execute(params_from_iter(rows.iter().flatten()))?;
                }
            }
            if !commit_delay.is_zero() {
                std::thread::sleep(commit_delay);
            }
            connection.execute_batch("COMMIT")?;
        }
        Ok(self.bookings as f64 / began.elapsed().as_secs_f64())
    }
}

impl Table {
    fn insert(&self) -> String {
        let row = format!("({})", vec!["?"; self.columns].join(","));
        format!(
            "INSERT INTO {} VALUES {}",
            self.name,
            vec![row; ROWS].join(",")
        )
    }
}
