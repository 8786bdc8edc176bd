//! Files of evidence items: a row for each file and a row for each of its parts.
//!
//! A part is added in its own commit, so that other writes need not wait for the whole file. A file can be read once all its
//! parts are stored, and never changes after that. It is deleted in one commit, with all its parts.

use std::collections::HashMap;
use std::fmt;

use super::conn::{Arg, Conn, Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::engine::change::FilePart;
use crate::erasure_list::{ErasureList, ListedErasure};
use crate::evidence::{Erasure, EvidenceItem};
use crate::ledger::leaf_hash;
use crate::limits::FILES_FORGOTTEN;
use crate::model::{BookingId, EventId, FileId, FileState, MediaType, Timestamp};

/// Files by their ids.
pub(super) const SOME: &str =
    "SELECT id, size, media, crc, parts, at_ms FROM file WHERE id IN ({})";

/// One part of a file.
pub(super) const PART: &str = "SELECT bytes FROM file_part WHERE file_id = $1 AND number = $2";

const ITEMS: &str = "SELECT facts FROM entry WHERE booking_id IN ({}) AND kind = 'evidence.added'";

const ENTRY_COUNTS: &str = "SELECT id, entries FROM booking WHERE id IN ({})";

/// The sizes of the files of these partners that were not completed: there are few, and the index has no others.
pub(super) const ARRIVING: &str = "SELECT substr(id, 1, 16), size FROM file WHERE whole = 0 AND at_ms >= 0 AND substr(id, 1, 16) IN ({})";

const UNFINISHED: &str = "SELECT id, size, media, crc, parts, at_ms FROM file WHERE whole = 0 AND at_ms < $1 ORDER BY at_ms LIMIT $2";

/// Asks for files that were not completed, and to which nothing was added since `before`.
pub(super) fn unfinished(before: Timestamp) -> Statement<'static> {
    let most = i64::try_from(FILES_FORGOTTEN).unwrap_or(i64::MAX);
    Statement::new(UNFINISHED, args![before, most])
}

/// Reads a file, from the columns of [`SOME`].
pub(super) fn state(row: &Row) -> Result<FileState, StoreError> {
    let number = |column: usize| {
        let n = row.int(column)?;
        u32::try_from(n).map_err(|_| StoreError::Corrupt(format!("a file has the number {n}")))
    };
    let media = row.int(2)?;
    Ok(FileState {
        file_id: FileId::from_bytes(row.bytes(0)?),
        size: row.size(1)?,
        media_type: MediaType::from_number(media)
            .ok_or_else(|| StoreError::Corrupt(format!("a file has media type {media}")))?,
        crc: number(3)?,
        parts: number(4)?,
        at: row.time(5)?,
    })
}

pub(super) fn read_file(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let file = state(row)?;
    work.files.insert(file.file_id, file);
    Ok(())
}

pub(super) fn read_arriving(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    *work.arriving.entry(row.id(0)?).or_default() += row.size(1)?;
    Ok(())
}

/// Adds a part, and the file with its first part.
pub(super) fn part_added<'a>(file: &'a FileState, part: &'a FilePart) -> [Statement<'a>; 2] {
    let file_id = file.file_id.as_bytes();
    [
        Statement::new(
            "INSERT INTO file (id, size, media, crc, parts, at_ms, whole) VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT (id) DO UPDATE SET parts = excluded.parts, at_ms = excluded.at_ms, whole = excluded.whole",
            args![
                file_id,
                file.size,
                file.media_type as i64,
                file.crc,
                file.parts,
                file.at,
                i64::from(file.is_whole()),
            ],
        ),
        Statement::new(
            "INSERT INTO file_part (file_id, number, bytes) VALUES ($1, $2, $3)",
            args![file_id, part.number, part.bytes()],
        ),
    ]
}

/// Deletes a file with its parts.
pub(super) fn deleted(file_id: &FileId) -> [Statement<'_>; 2] {
    let file_id = || args![file_id.as_bytes()];
    [
        Statement::new("DELETE FROM file_part WHERE file_id = $1", file_id()),
        Statement::new("DELETE FROM file WHERE id = $1", file_id()),
    ]
}

/// Why erasures were not listed.
#[derive(Debug)]
pub(crate) enum ListError {
    /// The ledger cannot be read.
    Ledger(StoreError),
    /// The list cannot be read or written; the sentence says why.
    List(String),
}

impl From<String> for ListError {
    fn from(why: String) -> Self {
        Self::List(why)
    }
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger(error) => {
                write!(
                    f,
                    "the ledger's erasures cannot be read, to list them: {error}"
                )
            }
            Self::List(why) => f.write_str(why),
        }
    }
}

/// Adds to the list what the ledger records after the last erasure that both have, whoever erased it, in the ledger's order: a page at
/// most. Returns whether there was any.
pub(crate) fn list_erasures(conn: &mut dyn Conn, list: &ErasureList) -> Result<bool, ListError> {
    list.extend(|last| {
        let Some(last) = last else {
            return recorded_erasures(conn, None).map_err(ListError::Ledger);
        };
        let has = records(conn, &last).map_err(ListError::Ledger)?;
        let mut after = has.then_some(last.index);
        if after.is_none() {
            // The last of them were lost with a database, and the ledger goes on from before them.
            list.each::<ListError>(|one| {
                if records(conn, &one).map_err(ListError::Ledger)? {
                    after = after.max(Some(one.index));
                }
                Ok(())
            })?;
        }
        recorded_erasures(conn, after).map_err(ListError::Ledger)
    })
}

/// Whether the ledger has the entry that records this erasure.
pub(super) fn records(conn: &mut dyn Conn, listed: &ListedErasure) -> Read<bool> {
    let sql = "SELECT leaf FROM entry WHERE idx = $1";
    let row = conn.first(sql, args![listed.index])?;
    let leaf = row.as_ref().map(|row| row.blob(0)).transpose()?;
    Ok(leaf.is_some_and(|leaf| leaf_hash(leaf).to_string() == listed.leaf))
}

/// Erasures that the ledger records after this place in it, oldest first, a page of them.
fn recorded_erasures(conn: &mut dyn Conn, after: Option<u64>) -> Read<Vec<ListedErasure>> {
    let rows = conn.all(
        "SELECT e.idx, e.booking_id, e.leaf, e.facts, b.partner_id, (SELECT origin FROM head WHERE id = 1) FROM entry e \
         JOIN booking b ON b.id = e.booking_id WHERE e.kind = 'evidence.erased' AND e.idx > $1 ORDER BY e.idx LIMIT 100",
        args![after.map_or(Arg::Int(-1), Arg::from)],
    )?;
    let mut listed = Vec::new();
    for row in &rows {
        let erasure: Erasure = row.json(3)?;
        let booking_id: BookingId = row.id(1)?;
        let sql = "SELECT seq, leaf FROM entry WHERE booking_id = $1 ORDER BY seq";
        let mut leaves = HashMap::new();
        for entry in &conn.all(sql, args![&booking_id])? {
            leaves.insert(entry.size(0)?, leaf_hash(entry.blob(1)?).to_string());
        }
        let values = erasure.values.iter();
        listed.push(ListedErasure {
            log: row.text(5)?.to_owned(),
            partner_id: row.id(4)?,
            index: row.size(0)?,
            leaf: leaf_hash(row.blob(2)?).to_string(),
            leaves: values
                .map(|values| leaves.get(&values.entry).cloned().unwrap_or_default())
                .collect(),
            erasure,
        });
    }
    Ok(listed)
}

impl Reader<'_> {
    /// The evidence items of a booking, oldest first.
    pub fn items_of(&mut self, booking_id: &BookingId) -> Read<Vec<EvidenceItem>> {
        let sql = "SELECT facts FROM entry WHERE booking_id = $1 AND kind = 'evidence.added' ORDER BY seq";
        self.each(sql, args![booking_id], |row| row.json(0))
    }

    /// The evidence items of these bookings, in no order.
    pub fn items_of_all(&mut self, booking_ids: &[BookingId]) -> Read<Vec<EvidenceItem>> {
        let rows = self.keyed(ITEMS, booking_ids)?;
        rows.iter().map(|row| row.json(0)).collect()
    }

    /// How many entries each of these bookings has.
    pub fn entry_counts(&mut self, booking_ids: &[BookingId]) -> Read<Vec<(BookingId, u64)>> {
        let rows = self.keyed(ENTRY_COUNTS, booking_ids)?;
        let counts = rows.iter().map(|row| Ok((row.id(0)?, row.size(1)?)));
        counts.collect()
    }

    /// The erasures of a booking, oldest first.
    pub fn erasures_of(&mut self, booking_id: &BookingId) -> Read<Vec<Erasure>> {
        let sql = "SELECT facts FROM entry WHERE booking_id = $1 AND kind = 'evidence.erased' ORDER BY seq";
        self.each(sql, args![booking_id], |row| row.json(0))
    }

    /// Whether the ledger has the entry that records this erasure.
    pub fn records(&mut self, listed: &ListedErasure) -> Read<bool> {
        records(self.conn(), listed)
    }

    /// Adds to the list a page of what the ledger records and it lacks. Returns whether there was any.
    ///
    /// # Errors
    /// A sentence for the operator: the list or the ledger cannot be read, or the list not written.
    pub fn list_erasures(&mut self, list: &ErasureList) -> Result<bool, String> {
        list_erasures(self.conn(), list).map_err(|e| e.to_string())
    }

    /// The bookings whose erasures the log records from this place on, with these entries' places, in order: a page at most.
    pub fn erased_since(&mut self, from: u64) -> Read<Vec<(u64, BookingId)>> {
        let sql = "SELECT idx, booking_id FROM entry WHERE kind = 'evidence.erased' AND idx >= $1 ORDER BY idx LIMIT 100";
        self.each(sql, args![from], |row| Ok((row.size(0)?, row.id(1)?)))
    }

    /// The events of a booking whose bodies are gone.
    pub fn pruned_events_of(&mut self, booking_id: &BookingId) -> Read<Vec<EventId>> {
        let sql =
            "SELECT id FROM event WHERE booking_id = $1 AND pruned_ms IS NOT NULL ORDER BY seq";
        self.each(sql, args![booking_id], |row| row.id(0))
    }

    /// The events of a booking whose bodies are still there.
    pub fn whole_events_of(&mut self, booking_id: &BookingId) -> Read<Vec<EventId>> {
        let sql = "SELECT id FROM event WHERE booking_id = $1 AND pruned_ms IS NULL ORDER BY seq";
        self.each(sql, args![booking_id], |row| row.id(0))
    }

    /// Those of these files that are known, whole or not.
    pub fn files(&mut self, file_ids: &[FileId]) -> Read<HashMap<FileId, FileState>> {
        let rows = self.keyed(SOME, file_ids)?;
        let files = rows
            .iter()
            .map(|row| state(row).map(|file| (file.file_id, file)));
        files.collect()
    }

    /// The bytes of one part of a file.
    pub fn file_part(&mut self, file_id: &FileId, number: u32) -> Read<Option<Vec<u8>>> {
        let args = args![file_id, number];
        self.single(PART, args, |row| Ok(row.blob(0)?.to_vec()))
    }

    /// Whether there are files that were not completed, and to which nothing was added since `before`.
    pub fn has_unfinished_files(&mut self, before: Timestamp) -> Read<bool> {
        Ok(!self.ask(unfinished(before))?.rows.is_empty())
    }
}
