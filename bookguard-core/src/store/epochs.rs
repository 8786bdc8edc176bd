//! The map of the log: its newest epoch, the entries that none covers yet, and the map's pages.
//!
//! The entry that commits to an epoch and the pages that it changes are written in one commit, so that the pages are always
//! those of the newest epoch. Invariant: no query reads more than the entries of one epoch, or the pages on their paths.

use super::conn::{Row, Rows, Statement, args, insert, select_in};
use super::load::{Loading, place};
use super::read::{Read, Reader, entries_where};
use super::{Store, StoreError};
use crate::engine::batch::BatchState;
use crate::evidence::LoggedEpoch;
use crate::ledger::map::pages::{MapPage, PageError, PageId, Pages};
use crate::ledger::{Hash, Leaf};
use crate::model::Timestamp;

pub(super) const LATEST: &str =
    "SELECT idx, seq, leaf, facts FROM entry WHERE kind = 'log.mapped' ORDER BY idx DESC LIMIT 1";
/// All of them, a page at a time.
pub(super) const ALL: &str =
    entries_where!("kind = 'log.mapped' AND idx > $1 ORDER BY idx LIMIT $2");
const FIRST: &str =
    "SELECT leaf FROM entry WHERE idx >= $1 AND booking_id IS NOT NULL ORDER BY idx LIMIT 1";
const PAGES: &str = "SELECT id, body FROM map_page WHERE id IN ({})";
/// The pages of one statement. SQLite compares each parameter's name with all before it when it parses a statement, so a list of
/// thousands takes longer to parse than to answer.
pub(super) const PAGES_TOGETHER: usize = 256;

/// How far the newest map goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// The number of entries that it covers.
    pub covered: u64,
    /// When the first entry of a booking was written that it does not cover.
    pub waiting: Option<Timestamp>,
}

impl Store {
    /// What waits for the map.
    ///
    /// # Errors
    /// As listed by [`StoreError`].
    pub fn mapping(&self) -> Result<Mapping, StoreError> {
        let mut conn = self.reader()?;
        let latest = conn.first(LATEST, vec![])?;
        let latest = latest.as_ref().map(epoch).transpose()?;
        let covered = latest.map_or(0, |latest| latest.epoch.tree_size);
        let waiting = conn.first(FIRST, args![covered])?;
        let waiting = waiting.as_ref().map_or(Ok(None), written)?;
        Ok(Mapping { covered, waiting })
    }
}

impl Reader<'_> {
    /// The newest epoch.
    pub fn latest_epoch(&mut self) -> Read<Option<LoggedEpoch>> {
        self.single(LATEST, vec![], epoch)
    }

    /// When the first entry of a booking was written, of those from `index` on.
    pub fn first_written(&mut self, index: u64) -> Read<Option<Timestamp>> {
        let row = self.first(FIRST, args![index])?;
        row.as_ref().map_or(Ok(None), written)
    }

    /// What waits for the map.
    pub fn mapping(&mut self) -> Read<Mapping> {
        let latest = self.latest_epoch()?;
        let covered = latest.map_or(0, |latest| latest.epoch.tree_size);
        let waiting = self.first_written(covered)?;
        Ok(Mapping { covered, waiting })
    }

    /// The pages of the map on the paths of these keys.
    pub fn map_pages<'k>(&mut self, keys: impl IntoIterator<Item = &'k Hash>) -> Read<Pages> {
        Pages::load(keys, |ids| {
            all_of(ids, &self.ask_all(&asking(&names(ids)))?)
        })
    }
}

/// The names of pages, as stored.
pub(super) fn names(ids: &[PageId]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| id.to_bytes()).collect()
}

/// Asks for the pages with these names.
pub(super) fn asking(names: &[Vec<u8>]) -> Vec<Statement<'_>> {
    let lists = names.chunks(PAGES_TOGETHER);
    lists.filter_map(|names| select_in(PAGES, names)).collect()
}

/// The pages that were found, which must be all that were asked for.
pub(super) fn all_of(asked: &[PageId], found: &[Rows]) -> Read<Vec<(PageId, MapPage)>> {
    let rows = found.iter().flat_map(|found| &found.rows);
    let pages: Vec<_> = rows.map(page).collect::<Read<_>>()?;
    match pages.len() == asked.len() {
        true => Ok(pages),
        false => Err(StoreError::Corrupt(
            "a page of the log's map is missing".to_owned(),
        )),
    }
}

/// A row of the pages, which has an id and a body.
pub(super) fn page(row: &Row) -> Read<(PageId, MapPage)> {
    let read = |id: &[u8], body: &[u8]| {
        let id = PageId::read(id)?;
        Ok::<_, PageError>((id, MapPage::read(id, body)?))
    };
    read(row.blob(0)?, row.blob(1)?).map_err(|e| StoreError::Corrupt(e.to_string()))
}

fn written(row: &Row) -> Read<Option<Timestamp>> {
    Ok(Leaf::written_at(row.blob(0)?).map(Timestamp::from_ms))
}

fn epoch(row: &Row) -> Read<LoggedEpoch> {
    Ok(LoggedEpoch {
        place: place(row, 0, 2)?,
        seq: row.size(1)?,
        epoch: row.json(3)?,
    })
}

pub(super) fn read_latest(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.epoch = Some(epoch(row)?);
    Ok(())
}

pub(super) fn push_pages<'a>(
    statements: &mut Vec<Statement<'a>>,
    pages: &'a [&'a (Vec<u8>, Vec<u8>)],
) {
    insert(
        statements,
        "INSERT INTO map_page (id, body) VALUES {} ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        pages,
        |(id, body), args| args.extend([id.into(), body.into()]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_pages_is_asked_for_in_several_statements() {
        let names: Vec<Vec<u8>> = (0..=PAGES_TOGETHER).map(|n| vec![n as u8]).collect();
        let asked = asking(&names);
        let lists: Vec<usize> = asked.iter().map(|asked| asked.args.len()).collect();
        assert_eq!(lists, [PAGES_TOGETHER, 1]);
        assert!(asking(&[]).is_empty());
    }
}
