//! The tables, in an order in which no row refers to a later table, and how each is read in pages and written.
//!
//! Invariant: the tables and columns are those of the schema, except `LEFT_BEHIND`. A test compares them.

use crate::store::conn::{Arg, Cell, Conn, Row, StoreError, args, insert};

/// The rows of one page: some ten megabytes with the largest documents allowed.
const PAGE: i64 = 500;

/// Columns that are not copied, because they describe the database itself.
#[cfg(test)]
pub(super) const LEFT_BEHIND: [(&str, &str); 2] = [("head", "moved_to"), ("head", "lacking")];

/// A table of the schema.
pub(super) struct Table {
    pub name: &'static str,
    /// The number of key columns, which come first.
    keys: usize,
    /// The column that holds the ledger's leaves, if any.
    pub leaf: Option<usize>,
    /// The column that nodes write without the write turn, if any. It is copied, but may differ.
    pub unsteady: Option<usize>,
    /// The rows of one page.
    page: i64,
    #[cfg(test)]
    pub columns: &'static [&'static str],
    count: &'static str,
    first: &'static str,
    next: &'static str,
    insert: &'static str,
}

/// Declares a table by its name, key and other columns. Everything else follows from them.
macro_rules! table {
    ($name:ident ($a:ident) $($column:ident)+) => {
        table!(@ $name 1 "$1" "$2" ($a) $a $($column)+)
    };
    ($name:ident ($a:ident $b:ident) $($column:ident)+) => {
        table!(@ $name 2 "$1, $2" "$3" ($a $b) $a $b $($column)+)
    };
    ($name:ident ($a:ident $b:ident $c:ident) $($column:ident)+) => {
        table!(@ $name 3 "$1, $2, $3" "$4" ($a $b $c) $a $b $c $($column)+)
    };
    (@ $name:ident $keys:literal $after:literal $limit:literal ($k:ident $($key:ident)*) $c:ident $($column:ident)*) => {
        Table {
            name: stringify!($name),
            keys: $keys,
            leaf: None,
            unsteady: None,
            page: PAGE,
            #[cfg(test)]
            columns: &[stringify!($c), $(stringify!($column)),*],
            count: concat!("SELECT COUNT(*) FROM ", stringify!($name)),
            first: concat!(
                "SELECT ", stringify!($c), $(", ", stringify!($column),)* " FROM ", stringify!($name),
                " ORDER BY ", stringify!($k), $(", ", stringify!($key),)* " LIMIT $1"
            ),
            next: concat!(
                "SELECT ", stringify!($c), $(", ", stringify!($column),)* " FROM ", stringify!($name),
                " WHERE (", stringify!($k), $(", ", stringify!($key),)* ") > (", $after, ")",
                " ORDER BY ", stringify!($k), $(", ", stringify!($key),)* " LIMIT ", $limit
            ),
            insert: concat!(
                "INSERT INTO ", stringify!($name), " (", stringify!($c), $(", ", stringify!($column),)* ") VALUES {}"
            ),
        }
    };
}

/// Every table. The head comes first, so that anyone else who begins a log in the new place meanwhile finds one begun.
pub(super) const TABLES: [Table; 30] = [
    table!(head (id) origin vkey size root checkpoint written_ms),
    table!(partner (id) status events policies put_ms bookings bytes day day_events file_bytes quota settings body),
    table!(secret (owner made_ms) from_ms sealed),
    Table {
        unsteady: Some(8),
        ..table!(api_key (id) partner_id hash revoked_ms body mac standing expires_ms last_used_ms notice_ms)
    },
    table!(operator_key (id) hash revoked_ms body mac),
    table!(console_session (id) partner_id key_id hash started_ms expires_ms ended_ms body mac),
    table!(audit (id) partner_id action body mac),
    table!(policy (hash) body),
    table!(policy_version (partner_id policy_id version) made_ms latest hash),
    table!(booking (id) partner_id status event_ms protected_leaf rescheduled_leaf moves resolution_leaf
        stream entries tip policy_hash body terms review_leaf),
    Table {
        leaf: Some(3),
        ..table!(entry (idx) booking_id seq leaf kind seed facts)
    },
    table!(resolution (id) booking_id leaf_idx),
    table!(share (id) booking_id hash expires_ms revoked_ms body mac),
    table!(hold (id) booking_id partner_id released_ms body mac),
    table!(tile (level idx) hashes),
    table!(checkpoint (size) at_ms note),
    table!(witness (id) body mac),
    table!(cosignature (size witness) vkey note),
    table!(stamp (idx) size time_ms checkpoint response),
    table!(stamping (id) next_ms asked trouble),
    table!(map_page (id) body),
    table!(endpoint (id) partner_id status since_ms failures failing_ms probe_ms unverified_ms deleted_ms body),
    table!(event (id) partner_id seq booking_id type retries body pruned_ms digest),
    table!(sweep (id) next waiting),
    table!(delivery (event_id endpoint_id) phase attempts charged due_ms lease settled_leaf begun_ms since_ms),
    table!(attempt (event_id endpoint_id number) body),
    table!(recovery (id) partner_id reached examined recovered deliveries unclaimed expired finished_ms body),
    table!(file (id) size media crc parts at_ms whole),
    Table {
        page: 32,
        ..table!(file_part (file_id number) bytes)
    },
    table!(answer (key) at_ms request body booking_id),
];

impl Table {
    /// The number of rows.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn count(&self, conn: &mut dyn Conn) -> Result<u64, StoreError> {
        conn.count(self.count, vec![])
    }

    /// Whether the table is empty.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn is_empty(&self, conn: &mut dyn Conn) -> Result<bool, StoreError> {
        Ok(conn.first(self.first, args![1_i64])?.is_none())
    }

    /// Reads every row in key order, a page at a time, until none are left or `take` says to stop.
    ///
    /// # Errors
    /// If the database cannot be read, and what `take` returns.
    pub fn read<E: From<StoreError>>(
        &self,
        conn: &mut dyn Conn,
        mut take: impl FnMut(Vec<Row>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut after: Option<Vec<Cell>> = None;
        loop {
            let mut args: Vec<Arg<'_>> = after.iter().flatten().map(Arg::from).collect();
            args.push(self.page.into());
            let sql = if after.is_none() {
                self.first
            } else {
                self.next
            };
            let rows = conn.all(sql, args)?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.0.iter().take(self.keys).cloned().collect());
            if !take(rows)? {
                return Ok(());
            }
        }
    }

    /// Writes rows as [`Self::read`] gives them.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn write(&self, conn: &mut dyn Conn, rows: &[Row]) -> Result<(), StoreError> {
        let mut statements = Vec::new();
        insert(&mut statements, self.insert, rows, |row, args| {
            args.extend(row.0.iter().map(Arg::from));
        });
        conn.run(&statements).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::store::Store;

    fn texts(conn: &mut dyn Conn, sql: &'static str, args: Vec<Arg<'_>>) -> Vec<String> {
        let rows = conn.all(sql, args).unwrap();
        rows.iter()
            .map(|row| row.text(0).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_tables_are_the_schemas_column_for_column_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("b.db").into(), true).unwrap();
        let conn = &mut *store.writer().unwrap();
        let sql =
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'schema_version'";
        let stored: BTreeSet<String> = texts(conn, sql, vec![]).into_iter().collect();
        let known: BTreeSet<String> = TABLES.iter().map(|table| table.name.to_owned()).collect();
        assert_eq!(known, stored);
        let mut met = BTreeSet::new();
        for table in &TABLES {
            let name = || vec![Arg::from(table.name)];
            let mut columns: BTreeSet<String> =
                texts(conn, "SELECT name FROM pragma_table_info($1)", name())
                    .into_iter()
                    .collect();
            for (_, column) in LEFT_BEHIND.iter().filter(|(name, _)| *name == table.name) {
                assert!(columns.remove(*column), "{} has no {column}", table.name);
            }
            let copied = table.columns.iter().map(|name| (*name).to_owned());
            assert_eq!(copied.collect::<BTreeSet<_>>(), columns, "{}", table.name);
            let sql = "SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk";
            assert_eq!(table.columns[..table.keys], texts(conn, sql, name()));
            let sql = "SELECT \"table\" FROM pragma_foreign_key_list($1)";
            for parent in texts(conn, sql, name()) {
                assert!(met.contains(&parent), "{} before {parent}", table.name);
            }
            let leaf = table.columns.iter().position(|name| *name == "leaf");
            assert_eq!(table.leaf, leaf, "{}", table.name);
            met.insert(table.name.to_owned());
        }
    }

    #[test]
    fn pages_give_every_row_once_whatever_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("b.db").into(), true).unwrap();
        let conn = &mut *store.writer().unwrap();
        let count = PAGE * 2 + 3;
        // One key for all and one for each, negative numbers among them: pages end within runs of the first column.
        let rows: Vec<Row> = (0..count)
            .map(|n| {
                Row(vec![
                    Cell::Int(n / 700),
                    Cell::Int(n - 9),
                    Cell::Blob(vec![7]),
                ])
            })
            .collect();
        let table = TABLES.iter().find(|table| table.name == "tile").unwrap();
        assert!(table.is_empty(conn).unwrap());
        conn.begin(&[]).unwrap();
        table.write(conn, &rows).unwrap();
        conn.commit(&[]).unwrap();
        assert!(!table.is_empty(conn).unwrap());
        assert_eq!(table.count(conn).unwrap(), count as u64);
        let mut read = Vec::new();
        let all: Result<(), StoreError> = table.read(conn, |page| {
            read.extend(page);
            Ok(true)
        });
        all.unwrap();
        assert_eq!(read, rows);
    }
}
