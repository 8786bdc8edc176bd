//! The seam between the store and a database engine: a list of statements goes in, a list of results comes out.
//!
//! It takes a list because a networked engine sends the list in one flight. A transaction begins and ends with a list
//! for the same reason. All SQL belongs to the store and is written once, in the dialect that both engines share; an
//! engine only runs it. Tests inject faults here.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::model::id::Noun;
use crate::model::{FileId, Id, Timestamp};

/// One connection to a database.
pub(crate) trait Conn: Send {
    /// Runs the statements in order and stops at the first failure.
    fn run(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError>;
    /// Begins a transaction and runs the statements in it. The writer's connection takes the write turn before the
    /// first statement, so that they see everything written in earlier turns. After an error no transaction is open.
    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError>;
    /// Runs the statements and makes the transaction durable. If no transaction was begun, or if any of its statements
    /// failed, nothing is kept. After any other error the outcome is unknown.
    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError>;
    /// Undoes the transaction. Afterwards the connection is usable, or its owner drops it.
    fn rollback(&mut self);
    /// Does the work that the engine defers after commits, if it is due; later, but at once, if `more` commits are already
    /// asked for. Returns `false` if some of it has been waiting for too long. A failure does not affect what was committed.
    fn keep_up(&mut self, more: bool) -> Result<bool, StoreError> {
        let _ = more;
        Ok(false)
    }

    /// Removes what the engine keeps of overwritten and deleted values beside its tables, if it can do so at once. Returns whether
    /// nothing is left to do. PostgreSQL removes such values by its own VACUUM.
    fn scrub(&mut self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Runs the statements in a transaction of their own. [`Self::commit`] says what is kept after an error.
    fn write(&mut self, statements: &[Statement<'_>]) -> Result<(), StoreError> {
        self.begin(&[])?;
        let written = self.commit(statements).map(drop);
        if written.is_err() {
            self.rollback();
        }
        written
    }

    /// Runs one statement.
    fn one(&mut self, statement: Statement<'_>) -> Result<Rows, StoreError> {
        let mut results = self.run(std::slice::from_ref(&statement))?;
        Ok(results.pop().unwrap_or_default())
    }

    /// The rows of a query.
    fn all(&mut self, sql: &'static str, args: Vec<Arg<'_>>) -> Result<Vec<Row>, StoreError> {
        Ok(self.one(Statement::new(sql, args))?.rows)
    }

    /// The first row of a query, if it has any.
    fn first(&mut self, sql: &'static str, args: Vec<Arg<'_>>) -> Result<Option<Row>, StoreError> {
        Ok(self.all(sql, args)?.into_iter().next())
    }

    /// The number that a query counts.
    fn count(&mut self, sql: &'static str, args: Vec<Arg<'_>>) -> Result<u64, StoreError> {
        self.first(sql, args)?.map_or(Ok(0), |row| row.size(0))
    }
}

/// Does `work` in a transaction of its own. If it fails, nothing of it is kept; [`Conn::commit`] says what is after any other error.
pub(super) fn in_transaction<C: Conn, T>(
    conn: &mut C,
    work: impl FnOnce(&mut C) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    conn.begin(&[])?;
    let done = work(conn).and_then(|done| conn.commit(&[]).map(|_| done));
    if done.is_err() {
        conn.rollback();
    }
    done
}

/// One statement with its arguments `$1…$n`, whose first uses must ascend.
#[derive(Debug, Clone)]
pub(crate) struct Statement<'a> {
    pub sql: &'static str,
    pub args: Vec<Arg<'a>>,
}

impl<'a> Statement<'a> {
    pub fn new(sql: &'static str, args: Vec<Arg<'a>>) -> Self {
        debug_assert!(
            arguments_ascend(sql, args.len()),
            "arguments must first be used in ascending order: {sql}"
        );
        Self { sql, args }
    }
}

/// SQLite numbers `$n` by first appearance, so `$2` before `$1` would silently swap them.
fn arguments_ascend(sql: &str, count: usize) -> bool {
    let mut highest = 0;
    for part in sql.split('$').skip(1) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        match digits.parse::<usize>() {
            Ok(n) if n == highest + 1 => highest = n,
            Ok(n) if n <= highest => {}
            _ => return false,
        }
    }
    highest == count
}

/// An argument of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arg<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
    Blob(Cow<'a, [u8]>),
}

/// The arguments of a statement, each a value of any type that [`Arg`] is made from.
macro_rules! args {
    ($($arg:expr),* $(,)?) => {
        vec![$($crate::store::conn::Arg::from($arg)),*]
    };
}
pub(super) use args;

impl Arg<'_> {
    /// The same value without borrows.
    pub fn into_owned(self) -> Arg<'static> {
        match self {
            Self::Null => Arg::Null,
            Self::Int(n) => Arg::Int(n),
            Self::Text(text) => Arg::Text(Cow::Owned(text.into_owned())),
            Self::Blob(bytes) => Arg::Blob(Cow::Owned(bytes.into_owned())),
        }
    }
}

impl<'a> From<&'a Cell> for Arg<'a> {
    fn from(cell: &'a Cell) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Int(n) => Self::Int(*n),
            Cell::Text(text) => Self::Text(Cow::Borrowed(text)),
            Cell::Blob(bytes) => Self::Blob(Cow::Borrowed(bytes)),
        }
    }
}

impl<'a> From<&'a Vec<u8>> for Arg<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

impl From<i64> for Arg<'_> {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<u32> for Arg<'_> {
    fn from(n: u32) -> Self {
        Self::Int(n.into())
    }
}

impl From<u64> for Arg<'_> {
    /// Counts are of rows and bytes, far below 2^63.
    fn from(n: u64) -> Self {
        Self::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for Arg<'_> {
    fn from(at: Timestamp) -> Self {
        Self::Int(at.ms())
    }
}

impl<'a, T: Into<Arg<'a>>> From<Option<T>> for Arg<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Arg<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(Cow::Borrowed(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Arg<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Blob(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Arg<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Blob(Cow::Owned(bytes))
    }
}

impl<const N: usize> From<[u8; N]> for Arg<'_> {
    fn from(bytes: [u8; N]) -> Self {
        bytes.to_vec().into()
    }
}

impl<N: Noun> From<Id<N>> for Arg<'_> {
    fn from(id: Id<N>) -> Self {
        (*id.as_bytes()).into()
    }
}

impl<'a, N: Noun> From<&'a Id<N>> for Arg<'a> {
    fn from(id: &'a Id<N>) -> Self {
        id.as_bytes().into()
    }
}

impl<'a> From<&'a FileId> for Arg<'a> {
    fn from(id: &'a FileId) -> Self {
        id.as_bytes().into()
    }
}

/// A value of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

/// A row of a result. Reading a column as a type other than its own returns [`StoreError::Corrupt`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row(pub Vec<Cell>);

/// The result of one statement.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub rows: Vec<Row>,
}

impl Row {
    /// The number in a column.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it holds anything else, or is not there.
    pub fn int(&self, column: usize) -> Result<i64, StoreError> {
        match self.0.get(column) {
            Some(Cell::Int(n)) => Ok(*n),
            other => Err(unexpected(column, "a number", other)),
        }
    }

    /// The number from 0 in a column.
    ///
    /// # Errors
    /// As [`Self::int`], and for a number below zero.
    pub fn size(&self, column: usize) -> Result<u64, StoreError> {
        let n = self.int(column)?;
        u64::try_from(n).map_err(|_| {
            StoreError::Corrupt(format!("column {column} holds {n}, which is below zero"))
        })
    }

    /// The number in a column; `None` for null.
    ///
    /// # Errors
    /// As [`Self::int`], but not for null.
    pub fn maybe_int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match self.0.get(column) {
            Some(Cell::Null) => Ok(None),
            _ => self.int(column).map(Some),
        }
    }

    /// The number from 0 in a column; `None` for null.
    ///
    /// # Errors
    /// As [`Self::size`], but not for null.
    pub fn maybe_size(&self, column: usize) -> Result<Option<u64>, StoreError> {
        match self.is_null(column) {
            true => Ok(None),
            false => self.size(column).map(Some),
        }
    }

    /// The time in a column, which holds its milliseconds.
    ///
    /// # Errors
    /// As [`Self::int`].
    pub fn time(&self, column: usize) -> Result<Timestamp, StoreError> {
        self.int(column).map(Timestamp::from_ms)
    }

    /// The time in a column; `None` for null.
    ///
    /// # Errors
    /// As [`Self::maybe_int`].
    pub fn maybe_time(&self, column: usize) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.maybe_int(column)?.map(Timestamp::from_ms))
    }

    pub fn is_null(&self, column: usize) -> bool {
        matches!(self.0.get(column), Some(Cell::Null))
    }

    /// The text in a column.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it holds anything else, or is not there.
    pub fn text(&self, column: usize) -> Result<&str, StoreError> {
        match self.0.get(column) {
            Some(Cell::Text(text)) => Ok(text),
            other => Err(unexpected(column, "text", other)),
        }
    }

    /// As [`text`](Self::text), but moves the text out of the row.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn take_text(&mut self, column: usize) -> Result<String, StoreError> {
        match self.0.get_mut(column) {
            Some(Cell::Text(text)) => Ok(std::mem::take(text)),
            other => Err(unexpected(column, "text", other.as_deref())),
        }
    }

    /// The text in a column; `None` for null.
    ///
    /// # Errors
    /// As [`Self::text`], but not for null.
    pub fn maybe_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        match self.0.get(column) {
            Some(Cell::Null) => Ok(None),
            _ => self.text(column).map(Some),
        }
    }

    /// The bytes of all its texts.
    pub fn text_bytes(&self) -> usize {
        let bytes = |cell: &Cell| match cell {
            Cell::Text(text) => text.len(),
            _ => 0,
        };
        self.0.iter().map(bytes).sum()
    }

    /// The bytes in a column.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it holds anything else, or is not there.
    pub fn blob(&self, column: usize) -> Result<&[u8], StoreError> {
        match self.0.get(column) {
            Some(Cell::Blob(bytes)) => Ok(bytes),
            other => Err(unexpected(column, "bytes", other)),
        }
    }

    /// As [`blob`](Self::blob), but moves the bytes out of the row.
    ///
    /// # Errors
    /// As [`Self::blob`].
    pub fn take_blob(&mut self, column: usize) -> Result<Vec<u8>, StoreError> {
        match self.0.get_mut(column) {
            Some(Cell::Blob(bytes)) => Ok(std::mem::take(bytes)),
            other => Err(unexpected(column, "bytes", other.as_deref())),
        }
    }

    /// The `N` bytes in a column.
    ///
    /// # Errors
    /// As [`Self::blob`], and for more or fewer bytes.
    pub fn bytes<const N: usize>(&self, column: usize) -> Result<[u8; N], StoreError> {
        let bytes = self.blob(column)?;
        bytes.try_into().map_err(|_| {
            StoreError::Corrupt(format!(
                "column {column} holds {} bytes where {N} belong",
                bytes.len()
            ))
        })
    }

    /// The id in a column.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn id<N: Noun>(&self, column: usize) -> Result<Id<N>, StoreError> {
        Ok(Id::from_bytes(self.bytes(column)?))
    }

    /// The id in a column; `None` for null.
    ///
    /// # Errors
    /// As [`Self::bytes`], but not for null.
    pub fn maybe_id<N: Noun>(&self, column: usize) -> Result<Option<Id<N>>, StoreError> {
        match self.is_null(column) {
            true => Ok(None),
            false => self.id(column).map(Some),
        }
    }

    /// The value whose JSON is in a column.
    ///
    /// # Errors
    /// As [`Self::text`], and for text that is not the JSON of such a value.
    pub fn json<T: serde::de::DeserializeOwned>(&self, column: usize) -> Result<T, StoreError> {
        serde_json::from_str(self.text(column)?).map_err(|e| {
            StoreError::Corrupt(format!(
                "column {column} holds a document that cannot be read: {e}"
            ))
        })
    }
}

fn unexpected(column: usize, wanted: &str, found: Option<&Cell>) -> StoreError {
    let found = match found {
        None => "no such column",
        Some(Cell::Null) => "null",
        Some(Cell::Int(_)) => "a number",
        Some(Cell::Text(_)) => "text",
        Some(Cell::Blob(_)) => "bytes",
    };
    StoreError::Corrupt(format!(
        "column {column} holds {found} where {wanted} belongs"
    ))
}

/// Why a database refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// Another process holds the write turn.
    Busy,
    /// No space is left.
    Full,
    /// The file or the file system does not allow writes.
    ReadOnly,
    /// The engine cannot make sense of its file. Either the disk failed or the file is damaged; the engine does not say
    /// which.
    Unreadable(String),
    /// The stored data is not what the program wrote.
    Corrupt(String),
    /// The database belongs to another program.
    Foreign,
    /// The database has the schema of an older program.
    Older {
        /// The schema that was found.
        found: i64,
        /// The schema that this program needs.
        known: i64,
    },
    /// The database was upgraded by a newer program, and this one can no longer use it.
    Newer {
        /// The schema that was found.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// The log was moved to this database and continues there.
    Moved(String),
    /// The file has another name, and must not be written under this one.
    HardLinked(String),
    /// The database's server does not answer, or accepts no connections at present.
    Unreachable(String),
    /// The head changed under us: somebody wrote without the write turn.
    HeadMoved,
    /// Anything else, in the engine's words.
    Failed(String),
}

impl StoreError {
    /// The error of a commit without a transaction.
    pub(super) fn not_begun() -> Self {
        Self::Failed("a commit came without its transaction; nothing was written".to_owned())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another process has held the write lock of the database for too long; find out which \
                                       other bookguard uses it"),
            Self::Full => f.write_str("the disk is full; free some space, nothing has to be repaired"),
            Self::ReadOnly => f.write_str("the database cannot be written; check the permissions of the file and its folder"),
            Self::Unreadable(what) => write!(
                f,
                "the database file cannot be read ({what}): look at its disk first. If the disk is sound, the file is damaged: restore a \
                 backup and run `bookguard ledger verify` on it"
            ),
            Self::Corrupt(what) => write!(f, "the database is damaged ({what}); restore a backup and run `bookguard ledger verify` on it"),
            Self::Foreign => f.write_str("the file is a database of another program; name another file"),
            Self::Older { found, known } => write!(
                f,
                "the database has schema {found}, this program needs {known}; upgrade it with `bookguard migrate`, or by starting \
                 `bookguard serve`"
            ),
            Self::Newer { found, known } => write!(
                f,
                "the database has schema {found}, this program knows up to {known}; use the newer bookguard that wrote it"
            ),
            Self::Moved(to) => write!(
                f,
                "the database's ledger was moved to {to}. This database can still be read, but takes no writes; serve that database. If the \
                 ledger did not arrive there, begin no other one there: run the same `bookguard transfer` again, or undo the \
                 move with `bookguard transfer --reopen`"
            ),
            Self::HeadMoved => f.write_str("the ledger's head changed outside the write turn; nothing was written"),
            Self::HardLinked(what) | Self::Unreachable(what) | Self::Failed(what) => {
                f.write_str(what)
            }
        }
    }
}

impl std::error::Error for StoreError {}

/// The numbers of rows that one statement may have. A few fixed sizes keep the statement cache small. SQLite gains
/// nothing from more than 16 rows; a server saves a message for each statement.
const GROUPS: [usize; 6] = [64, 16, 8, 4, 2, 1];

/// Splits `rows` into INSERTs of a few fixed sizes. `sql` ends in `VALUES {}`, optionally followed by a conflict clause.
pub(crate) fn insert<'a, T>(
    statements: &mut Vec<Statement<'a>>,
    sql: &'static str,
    rows: &'a [T],
    args: impl FnMut(&'a T, &mut Vec<Arg<'a>>),
) {
    grouped(rows, args, |group, columns, list| {
        statements.push(Statement::new(expanded(sql, group, columns), list));
    });
}

/// Splits new values of `columns` into UPDATEs of a few fixed sizes. `sql` is `UPDATE t SET {} WHERE id IN ({})`.
/// `args` gives the id of a row and a value for each column. Each row occurs once.
pub(crate) fn update<'a, T>(
    statements: &mut Vec<Statement<'a>>,
    sql: &'static str,
    columns: Columns,
    rows: &'a [T],
    args: impl FnMut(&'a T, &mut Vec<Arg<'a>>),
) {
    grouped(rows, args, |group, width, list| {
        // In the order in which the text first uses them: ids and values of the first column, then values of the
        // others.
        let mut values: Vec<_> = columns
            .iter()
            .map(|_| Vec::with_capacity(2 * group))
            .collect();
        for (place, arg) in list.into_iter().enumerate() {
            values[(place % width).saturating_sub(1)].push(arg);
        }
        let list = values.into_iter().flatten().collect();
        statements.push(Statement::new(cases(sql, group, columns), list));
    });
}

/// Calls `each` with the rows, columns and arguments of each group in turn.
fn grouped<'a, T>(
    rows: &'a [T],
    mut args: impl FnMut(&'a T, &mut Vec<Arg<'a>>),
    mut each: impl FnMut(usize, usize, Vec<Arg<'a>>),
) {
    let mut rest = rows;
    for group in GROUPS {
        while rest.len() >= group {
            let (now, later) = rest.split_at(group);
            rest = later;
            let mut list = Vec::with_capacity(group * 12);
            for row in now {
                args(row, &mut list);
            }
            each(group, list.len() / group, list);
        }
    }
}

/// A SELECT by a list of keys; `sql` has `IN ({})`. The list is padded with its last key to a power of two, so that
/// each statement has only a few texts.
pub(crate) fn select_in<'a, K>(sql: &'static str, keys: &'a [K]) -> Option<Statement<'a>>
where
    &'a K: Into<Arg<'a>>,
{
    let last = keys.last()?;
    let size = keys.len().next_power_of_two();
    let mut args: Vec<Arg<'a>> = Vec::with_capacity(size);
    args.extend(keys.iter().map(Into::into));
    args.resize_with(size, || last.into());
    Some(Statement::new(expanded(sql, 0, size), args))
}

/// Statement texts by pattern, number of rows, arguments per row and, if named, columns.
type Texts = HashMap<(&'static str, usize, usize, Columns), &'static str>;

type Columns = &'static [&'static str];

/// The text of a statement for `rows` rows (0: a bare list) of `columns` arguments each.
fn expanded(sql: &'static str, rows: usize, columns: usize) -> &'static str {
    text(sql, rows, columns, &[], || {
        let group = |row: usize| {
            let list: Vec<String> = (1..=columns)
                .map(|c| format!("${}", row * columns + c))
                .collect();
            list.join(",")
        };
        let list = match rows {
            0 => group(0),
            _ => (0..rows)
                .map(|row| format!("({})", group(row)))
                .collect::<Vec<_>>()
                .join(","),
        };
        sql.replacen("{}", &list, 1)
    })
}

/// The text of an UPDATE of `rows` rows by id.
fn cases(sql: &'static str, rows: usize, columns: Columns) -> &'static str {
    text(sql, rows, columns.len(), columns, || {
        let ids: Vec<String> = (0..rows).map(|row| format!("${}", row * 2 + 1)).collect();
        let set = columns.iter().enumerate().map(|(place, column)| {
            let value = |row: usize| match place {
                0 => row * 2 + 2,
                _ => (place + 1) * rows + row + 1,
            };
            let case = |(row, id): (usize, &String)| format!(" WHEN {id} THEN ${}", value(row));
            let cases: String = ids.iter().enumerate().map(case).collect();
            // No row reaches the ELSE. It tells the engine the type of the other values.
            format!("{column} = CASE id{cases} ELSE {column} END")
        });
        let set: Vec<String> = set.collect();
        sql.replacen("{}", &set.join(", "), 1)
            .replacen("{}", &ids.join(","), 1)
    })
}

/// Returns a cached statement text. A program makes a few dozen of them, each once.
fn text(
    sql: &'static str,
    rows: usize,
    width: usize,
    columns: Columns,
    make: impl FnOnce() -> String,
) -> &'static str {
    static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    texts
        .entry((sql, rows, width, columns))
        .or_insert_with(|| Box::leak(make().into_boxed_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_expanded_to_a_few_fixed_sizes() {
        let rows: Vec<i64> = (0..86).collect();
        let mut statements = Vec::new();
        insert(
            &mut statements,
            "INSERT INTO t (a, b) VALUES {} ON CONFLICT DO NOTHING",
            &rows,
            |n, args| {
                args.extend([Arg::Int(*n), Arg::Int(-n)]);
            },
        );
        assert_eq!(
            statements
                .iter()
                .map(|s| s.args.len() / 2)
                .collect::<Vec<_>>(),
            [64, 16, 4, 2]
        );
        assert_eq!(
            statements[3].sql,
            "INSERT INTO t (a, b) VALUES ($1,$2),($3,$4) ON CONFLICT DO NOTHING"
        );
        assert!(statements[2].sql.contains("($7,$8)"));

        let mut statements = Vec::new();
        update(
            &mut statements,
            "UPDATE t SET {} WHERE id IN ({})",
            &["n", "b"],
            &rows[1..4],
            |n, args| {
                args.extend([Arg::Int(*n), Arg::Int(10 * n), Arg::Int(-n)]);
            },
        );
        assert_eq!(
            statements[0].sql,
            "UPDATE t SET n = CASE id WHEN $1 THEN $2 WHEN $3 THEN $4 ELSE n END, \
             b = CASE id WHEN $1 THEN $5 WHEN $3 THEN $6 ELSE b END WHERE id IN ($1,$3)"
        );
        let given = statements[0].args.iter().map(|arg| match arg {
            Arg::Int(n) => *n,
            other => panic!("{other:?}"),
        });
        assert_eq!(given.collect::<Vec<_>>(), [1, 10, 2, 20, -1, -2]);
        assert_eq!(statements.len(), 2);

        // The same number of columns of the same table, but other columns.
        update(
            &mut statements,
            "UPDATE t SET {} WHERE id IN ({})",
            &["m", "c"],
            &rows[1..2],
            |n, args| args.extend([Arg::Int(*n), Arg::Int(0), Arg::Int(0)]),
        );
        assert_eq!(
            statements[2].sql,
            "UPDATE t SET m = CASE id WHEN $1 THEN $2 ELSE m END, c = CASE id WHEN $1 THEN $3 ELSE c END WHERE id IN ($1)"
        );

        let keys = [[1_u8; 16], [2; 16], [3; 16]];
        let statement = select_in("SELECT x FROM t WHERE id IN ({})", &keys).unwrap();
        assert_eq!(statement.sql, "SELECT x FROM t WHERE id IN ($1,$2,$3,$4)");
        assert!(select_in::<[u8; 16]>("SELECT x FROM t WHERE id IN ({})", &[]).is_none());
    }

    #[test]
    fn arguments_out_of_order_are_noticed() {
        assert!(arguments_ascend("a = $1 AND b = $2 OR c = $1", 2));
        assert!(!arguments_ascend("a = $2 AND b = $1", 2));
        assert!(!arguments_ascend("a = $1", 2));
    }
}
