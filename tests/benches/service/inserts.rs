//! Bare PostgreSQL: the client alone inserts the rows of real bookings into the same tables, in groups and one by one.
//!
//! Tables, columns and values come from the server's own database, byte by byte, so this follows changes of the schema.
//! As with bare SQLite, foreign keys are not checked: the rows they refer to are there, or not needed.

use std::error::Error;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, Statement};

use crate::Fallible;

/// The tables of a booking, in the order of insertion.
const TABLES: [&str; 3] = ["booking", "entry", "event"];
/// The column of each table that orders rows by their creation.
const ORDERS: [&str; 3] = ["id", "idx", "id"];
/// Connections that insert single rows concurrently; more are no faster.
const CONNECTIONS: usize = 32;

/// A connection of the bare client.
pub struct Bare {
    runtime: Runtime,
    client: Client,
}

/// A value in its wire format.
#[derive(Debug)]
struct Value(Option<Vec<u8>>);

impl<'a> FromSql<'a> for Value {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Some(raw.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Value {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(bytes) = &self.0 else {
            return Ok(IsNull::Yes);
        };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A row's values.
type Row = Vec<Value>;

/// The rows of a number of bookings.
pub struct Rows {
    tables: Vec<Vec<Row>>,
    /// The number of bookings.
    pub bookings: usize,
}

async fn connect(url: &str) -> Fallible<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // This task ends with the client; the client reports any error of the connection as well.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
        .batch_execute("SET session_replication_role = replica; SET synchronous_commit = on")
        .await?;
    Ok(client)
}

impl Bare {
    /// Connects to the database.
    pub fn connect(url: &str) -> Fallible<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(connect(url))?;
        Ok(Self { runtime, client })
    }

    /// Returns the one number that a query selects.
    pub fn number(&self, sql: &str) -> Fallible<i64> {
        let row = self.runtime.block_on(self.client.query_one(sql, &[]))?;
        Ok(row.try_get(0)?)
    }

    /// Returns the numbers that a query selects.
    pub fn numbers(&self, sql: &str) -> Fallible<Vec<i64>> {
        let rows = self.runtime.block_on(self.client.query(sql, &[]))?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Reads the rows of the first `count` bookings, or of as many as there are, in whole groups.
    pub fn rows(&self, count: usize, group: usize) -> Fallible<Rows> {
        let read = |(name, order)| -> Fallible<Vec<Row>> {
            let first = format!("SELECT id FROM booking ORDER BY id LIMIT {count}");
            let key = if name == "booking" {
                "id"
            } else {
                "booking_id"
            };
            let sql = format!("SELECT * FROM {name} WHERE {key} IN ({first}) ORDER BY {order}");
            let rows = self.runtime.block_on(self.client.query(&sql, &[]))?;
            let values =
                |row: &tokio_postgres::Row| (0..row.len()).map(|c| Ok(row.try_get(c)?)).collect();
            rows.iter().map(values).collect()
        };
        let tables = TABLES
            .into_iter()
            .zip(ORDERS)
            .map(read)
            .collect::<Fallible<Vec<_>>>()?;
        let bookings = tables[0].len() / group * group;
        if tables.iter().any(|rows| rows.len() < bookings) || bookings == 0 {
            return Err("the nodes' database does not hold the rows expected".into());
        }
        Ok(Rows { tables, bookings })
    }

    /// Empties the tables.
    fn truncate(&self) -> Fallible<()> {
        let sql = format!("TRUNCATE {} CASCADE; CHECKPOINT", TABLES.join(", "));
        Ok(self.runtime.block_on(self.client.batch_execute(&sql))?)
    }

    /// Inserts the rows in transactions of `group` bookings, each sent in one round trip and durable before the next; returns
    /// bookings per second.
    pub fn insert(&self, rows: &Rows, group: usize) -> Fallible<f64> {
        self.truncate()?;
        self.runtime.block_on(async {
            let mut inserts = Vec::new();
            for (name, rows) in TABLES.into_iter().zip(&rows.tables) {
                inserts.push(
                    self.client
                        .prepare(&insert(name, rows[0].len(), group))
                        .await?,
                );
            }
            let began = Instant::now();
            for from in (0..rows.bookings).step_by(group) {
                let part = |table: usize| {
                    let rows = &rows.tables[table][from..from + group];
                    let values: Vec<&(dyn ToSql + Sync)> =
                        rows.iter().flatten().map(|value| value as _).collect();
                    values
                };
                let (bookings, entries, events) = (part(0), part(1), part(2));
                tokio::try_join!(
                    biased;
                    self.client.batch_execute("BEGIN"),
                    self.client.execute(&inserts[0], &bookings),
                    self.client.execute(&inserts[1], &entries),
                    self.client.execute(&inserts[2], &events),
                    self.client.batch_execute("COMMIT"),
                )?;
            }
            Ok(rows.bookings as f64 / began.elapsed().as_secs_f64())
        })
    }

    /// Inserts the bookings' events, one commit per row, over many connections; returns rows per second.
    pub fn insert_single(&self, url: &str, rows: Rows) -> Fallible<f64> {
        self.truncate()?;
        let (count, events) = (rows.bookings, rows.tables.into_iter().next_back());
        let mut shares: Vec<Vec<Row>> = (0..CONNECTIONS).map(|_| Vec::new()).collect();
        for (number, row) in events.into_iter().flatten().take(count).enumerate() {
            shares[number % CONNECTIONS].push(row);
        }
        self.runtime.block_on(async {
            let mut ready: Vec<(Client, Statement, Vec<Row>)> = Vec::new();
            for share in shares {
                let client = connect(url).await?;
                let columns = share.first().map_or(0, Vec::len);
                let prepared = client.prepare(&insert(TABLES[2], columns, 1)).await?;
                ready.push((client, prepared, share));
            }
            let began = Instant::now();
            let mut inserting = JoinSet::new();
            for (client, prepared, share) in ready {
                inserting.spawn(async move {
                    for row in &share {
                        let values: Vec<&(dyn ToSql + Sync)> =
                            row.iter().map(|value| value as _).collect();
                        client.execute(&prepared, &values).await?;
                    }
                    Ok::<_, tokio_postgres::Error>(())
                });
            }
            while let Some(done) = inserting.join_next().await {
                done??;
            }
            Ok(count as f64 / began.elapsed().as_secs_f64())
        })
    }
}

/// Returns an INSERT of this many rows.
fn insert(table: &str, columns: usize, rows: usize) -> String {
    let row = |row: usize| {
        let values: Vec<String> = (1..=columns)
            .map(|column| format!("${}", row * columns + column))
            .collect();
        format!("({})", values.join(","))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("INSERT INTO {table} VALUES {}", rows.join(","))
}
