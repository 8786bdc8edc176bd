//! Time-stamps of checkpoints, and when the next one may be asked for.
//!
//! Stamps are found by the number of entries that they cover and by their time; both grow with the entries that commit to
//! them. Invariant: no query reads more than a few rows, however many stamps there are.

use super::Store;
use super::conn::{Arg, Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader, entries_where, entry};
use crate::engine::batch::BatchState;
use crate::engine::change::{Stamping, StoredStamp};
use crate::evidence::StoredEntry;
use crate::model::Timestamp;

pub(super) const STAMPING: &str = "SELECT next_ms, asked, trouble FROM stamping WHERE id = 1";
pub(super) const STAMPED: &str = "SELECT size FROM stamp WHERE size > 0 ORDER BY size DESC LIMIT 1";

/// A query for stamps with the columns that [`stamp`] takes.
macro_rules! stamps_where {
    ($rest:literal) => {
        concat!(
            "SELECT idx, size, time_ms, checkpoint, response FROM stamp WHERE ",
            $rest
        )
    };
}
#[cfg(test)]
pub(super) use stamps_where;

const LATEST: &str = stamps_where!("size > 0 ORDER BY size DESC LIMIT 1");
/// The stamp over the smallest checkpoint of this log that covers at least this many entries. The log may have had other names.
const COVERING: &str =
    stamps_where!("size >= $1 AND SUBSTR(checkpoint, 1, $2) = $3 ORDER BY size LIMIT 1");
/// The latest stamp up to an instant that covers at most this many entries. Later ones cover more entries.
const RENEWING: &str = stamps_where!(
    "time_ms <= $1 AND SUBSTR(checkpoint, 1, $2) = $3 AND size <= $4 ORDER BY time_ms DESC LIMIT 1"
);
/// Every stamp, a page at a time.
pub(super) const ALL: &str = stamps_where!("idx > $1 ORDER BY idx LIMIT $2");

impl Reader<'_> {
    /// Where the stamps have got to.
    pub fn stamping(&mut self) -> Read<Stamping> {
        let row = self.first(STAMPING, vec![])?;
        row.map_or(Ok(Stamping::default()), |row| stamping(&row))
    }

    /// The stamp over the most entries.
    pub fn latest_stamp(&mut self) -> Read<Option<StoredStamp>> {
        self.single(LATEST, vec![], stamp)
    }

    /// The first stamp over a checkpoint of the log of this name with `size` entries or more.
    pub fn stamp_covering(&mut self, origin: &str, size: u64) -> Read<Option<StoredStamp>> {
        let (chars, line) = first_line(origin);
        let args = args![number(size)?, chars, line.as_str()];
        self.single(COVERING, args, stamp)
    }

    /// The last stamp, stamped until `by`, over a checkpoint of the log of this name that covers the entry `index` and has `most`
    /// entries at most.
    pub fn stamp_renewing(
        &mut self,
        origin: &str,
        (index, most): (u64, u64),
        by: Timestamp,
    ) -> Read<Option<StoredStamp>> {
        let (chars, line) = first_line(origin);
        let args = args![by, chars, line.as_str(), number(most)?];
        let last = self.single(RENEWING, args, stamp)?;
        Ok(last.filter(|stamp| stamp.size > index))
    }

    /// An entry by its place in the log.
    pub fn entry_at(&mut self, index: u64) -> Read<Option<StoredEntry>> {
        self.single(entries_where!("idx = $1"), vec![number(index)?], entry)
    }
}

impl Store {
    /// Where the stamps have got to, and the time of the last one.
    ///
    /// # Errors
    /// As listed by [`StoreError`].
    pub fn stamping(&self) -> Result<(Stamping, Option<Timestamp>), StoreError> {
        let mut conn = self.reader()?;
        let row = conn.first(STAMPING, vec![])?;
        let standing = row.map_or(Ok(Stamping::default()), |row| stamping(&row))?;
        let row = conn.first(LATEST, vec![])?;
        let last = row.as_ref().map(stamp).transpose()?;
        Ok((standing, last.map(|stamp| stamp.time)))
    }
}

/// A checkpoint begins with the log's name and a line feed.
fn first_line(origin: &str) -> (Arg<'static>, String) {
    let line = format!("{origin}\n");
    let chars = i64::try_from(line.chars().count()).unwrap_or(i64::MAX);
    (chars.into(), line)
}

fn number(size: u64) -> Read<Arg<'static>> {
    let size = i64::try_from(size);
    size.map(Into::into)
        .map_err(|_| StoreError::Corrupt("the log has too many entries".to_owned()))
}

pub(super) fn stamp(row: &Row) -> Read<StoredStamp> {
    Ok(StoredStamp {
        leaf: row.size(0)?,
        size: row.size(1)?,
        time: row.time(2)?,
        checkpoint: row.text(3)?.to_owned(),
        response: row.blob(4)?.to_vec(),
    })
}

fn stamping(row: &Row) -> Read<Stamping> {
    Ok(Stamping {
        next: row.time(0)?,
        asked: u32::try_from(row.size(1)?).unwrap_or(u32::MAX),
        trouble: row.maybe_text(2)?.map(str::to_owned),
    })
}

pub(super) fn read_stamping(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.stamping = stamping(row)?;
    Ok(())
}

pub(super) fn read_stamped(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.stamped = Some(row.size(0)?);
    Ok(())
}

pub(super) fn stamped(stamp: &StoredStamp) -> Statement<'_> {
    Statement::new(
        "INSERT INTO stamp (idx, size, time_ms, checkpoint, response) VALUES ($1, $2, $3, $4, $5)",
        args![
            stamp.leaf,
            stamp.size,
            stamp.time,
            stamp.checkpoint.as_str(),
            stamp.response.as_slice(),
        ],
    )
}

pub(super) fn stamping_changed(stamping: &Stamping) -> Statement<'_> {
    Statement::new(
        "INSERT INTO stamping (id, next_ms, asked, trouble) VALUES (1, $1, $2, $3) \
         ON CONFLICT (id) DO UPDATE SET next_ms = excluded.next_ms, asked = excluded.asked, trouble = excluded.trouble",
        args![stamping.next, stamping.asked, stamping.trouble.as_deref()],
    )
}
