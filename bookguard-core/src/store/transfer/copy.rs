//! Copies every row from one open transaction to another, and compares the copy with the original.
//!
//! Invariant: nothing is trusted that was not read back. Every value of every row of the copy goes through the same
//! digest as in the original, and the root is computed from the copy's own leaves.

use std::sync::mpsc;
use std::thread;

use sha2::{Digest as _, Sha256};

use super::Trouble;
use super::table::{TABLES, Table};
use crate::engine::command::Head;
use crate::ledger::{Frontier, leaf_hash};
use crate::store::conn::{Cell, Conn, Row, StoreError};
use crate::store::fsck::Progress;
use crate::store::tree;

/// The number of pages read ahead while others are written.
const AHEAD: usize = 2;

/// The contents of a table: the number of its rows, and a digest of them all in the order of their key.
#[derive(Debug, Clone, Default)]
struct Sum {
    rows: u64,
    digest: Sha256,
}

impl Sum {
    fn of(table: &Table, conn: &mut dyn Conn) -> Result<Self, StoreError> {
        let mut sum = Self::default();
        table.read(conn, |rows| {
            sum.add(table, &rows);
            Ok::<_, StoreError>(true)
        })?;
        Ok(sum)
    }

    fn add(&mut self, table: &Table, rows: &[Row]) {
        self.rows += rows.len() as u64;
        let steady = |(column, _): &(usize, &Cell)| table.unsteady != Some(*column);
        for (_, cell) in rows
            .iter()
            .flat_map(|row| row.0.iter().enumerate().filter(steady))
        {
            // Each with its kind and length, so that no two rows hash alike.
            let (kind, bytes): (u8, &[u8]) = match cell {
                Cell::Null => (0, &[]),
                Cell::Int(n) => (1, &n.to_be_bytes()),
                Cell::Text(text) => (2, text.as_bytes()),
                Cell::Blob(bytes) => (3, bytes),
            };
            self.digest.update([kind]);
            self.digest.update((bytes.len() as u64).to_be_bytes());
            self.digest.update(bytes);
        }
    }
}

/// Copies everything and checks the copy. Returns the rows of each table. Both transactions stay open.
pub(super) fn copy(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    head: Head,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Vec<(&'static str, u64)>, Trouble> {
    let mut counts = Vec::with_capacity(TABLES.len());
    for table in &TABLES {
        counts.push((table.name, table.count(source).map_err(Trouble::Source)?));
    }
    // Every row counts twice.
    let total = counts.iter().map(|(_, rows)| rows.saturating_mul(2)).sum();
    let mut progress = Progress::new(tell, total);
    progress.step(0);
    let sums = write_all(source, target, &mut progress)?;
    let mut check = Check {
        target,
        tree: Frontier::empty(),
        progress,
    };
    for ((table, (_, counted)), sum) in TABLES.iter().zip(&counts).zip(&sums) {
        if sum.rows != *counted {
            return Err(Trouble::Damaged(format!(
                "table {} counts {counted} rows and gives {}",
                table.name, sum.rows
            )));
        }
        check.table(table, sum)?;
    }
    check.root(head)?;
    Ok(counts)
}

/// The first table whose contents differ; `None` if there is none.
pub(super) fn difference(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
) -> Result<Option<&'static str>, Trouble> {
    for table in &TABLES {
        let here = Sum::of(table, source).map_err(Trouble::Source)?;
        let there = Sum::of(table, target).map_err(Trouble::Target)?;
        if (here.rows, here.digest.finalize()) != (there.rows, there.digest.finalize()) {
            return Ok(Some(table.name));
        }
    }
    Ok(None)
}

/// Reads the source on its own thread and writes the target on this one.
fn write_all(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    progress: &mut Progress<'_>,
) -> Result<Vec<Sum>, Trouble> {
    thread::scope(|scope| {
        let (pages, inbox) = mpsc::sync_channel(AHEAD);
        let reading = scope.spawn(move || read_all(source, &pages));
        let mut written = Ok(());
        // Dropped at the first failure, which also ends the reading.
        for (table, rows) in inbox {
            let table: &Table = table;
            let rows: Vec<Row> = rows;
            written = table.write(target, &rows).map_err(Trouble::Target);
            if written.is_err() {
                break;
            }
            progress.step(rows.len() as u64);
        }
        let sums = reading
            .join()
            .unwrap_or_else(|_| Err(StoreError::Failed("the thread that reads ended".to_owned())));
        written?;
        sums.map_err(Trouble::Source)
    })
}

fn read_all(
    source: &mut dyn Conn,
    pages: &mpsc::SyncSender<(&'static Table, Vec<Row>)>,
) -> Result<Vec<Sum>, StoreError> {
    let mut sums = Vec::with_capacity(TABLES.len());
    for table in &TABLES {
        let mut sum = Sum::default();
        table.read(source, |rows| {
            sum.add(table, &rows);
            // The channel is closed if writing failed.
            Ok::<_, StoreError>(pages.send((table, rows)).is_ok())
        })?;
        sums.push(sum);
    }
    Ok(sums)
}

/// Checks the copy.
struct Check<'a> {
    target: &'a mut dyn Conn,
    /// The tree over the leaves met so far.
    tree: Frontier,
    progress: Progress<'a>,
}

impl Check<'_> {
    /// Checks that a table of the copy holds the same as the original.
    fn table(&mut self, table: &Table, sum: &Sum) -> Result<(), Trouble> {
        let counted = table.count(self.target).map_err(Trouble::Target)?;
        let mut found = Sum::default();
        let (tree, progress) = (&mut self.tree, &mut self.progress);
        let read = table.read(self.target, |rows| {
            found.add(table, &rows);
            if let Some(leaf) = table.leaf {
                for row in &rows {
                    tree.append(leaf_hash(row.blob(leaf)?));
                }
            }
            progress.step(rows.len() as u64);
            Ok::<_, StoreError>(true)
        });
        read.map_err(Trouble::Target)?;
        if counted != sum.rows || found.rows != sum.rows {
            return Err(Trouble::Differs(format!(
                "table {} has {} rows here, and there it counts {counted} and gives {}",
                table.name, sum.rows, found.rows
            )));
        }
        if found.digest.finalize() != sum.digest.clone().finalize() {
            return Err(Trouble::Differs(format!(
                "table {} does not hold the same values there as here",
                table.name
            )));
        }
        Ok(())
    }

    /// Checks that both the copy's leaves and the copy's tiles give the head's root. The values are the original's, so
    /// if they do not, the original is damaged.
    fn root(&mut self, head: Head) -> Result<(), Trouble> {
        if (self.tree.size(), self.tree.root()) != (head.size, head.root) {
            return Err(Trouble::Damaged(format!(
                "its head says {} entries and root {}, its entries give {} and {}",
                head.size,
                head.root,
                self.tree.size(),
                self.tree.root()
            )));
        }
        match tree::load(self.target, head) {
            Ok(_) => Ok(()),
            Err(StoreError::Corrupt(what)) => Err(Trouble::Damaged(what)),
            Err(error) => Err(Trouble::Target(error)),
        }
    }
}
