//! Epochs: now and then the log commits to the map of its entries, so that a packet can show that it lacks none.
//!
//! The map is made outside of any write turn, from what one snapshot of the store holds; the turn only writes it. Of several
//! nodes that made the same epoch, one records it, and the others find that it was recorded. Invariants: an epoch covers a
//! limited number of new entries and costs what their streams cost, however large the map is; its entry and its pages are
//! written together or not at all.

pub(crate) mod rule;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::command::Envelope;
use crate::error::Error;
use crate::evidence::{Epoch, LoggedEpoch};
use crate::ledger::map::pages::Pages;
use crate::ledger::map::{MapValue, key_of};
use crate::ledger::{Hash, Leaf, leaf_hash};
use crate::limits::EPOCH_ENTRIES;
use crate::model::Timestamp;
use crate::service::Service;
use crate::store::StoreError;
use crate::store::read::Reader;
pub use rule::is_overdue;

/// Records an epoch. The reply is false if another one was recorded meanwhile, or the log went on under another name.
#[derive(Debug, Clone)]
pub struct RecordEpoch {
    pub(crate) origin: String,
    /// The index of the entry of the epoch before.
    pub(crate) after: Option<u64>,
    pub(crate) epoch: Epoch,
    /// The changed pages of the map: names and contents.
    pub(crate) pages: Arc<[(Vec<u8>, Vec<u8>)]>,
    /// Whether entries remain that it does not cover, so that the next epoch need not wait.
    pub is_behind: bool,
}

/// The epoch to record now, if there is one: a booking's entry has waited for it, or many have. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn due(service: &Service, interval_ms: i64) -> Result<Option<RecordEpoch>, Error> {
    due_by(service, interval_ms, EPOCH_ENTRIES)
}

/// As [`due`], but an epoch covers at most `most` new entries, and is due as soon as that many wait.
///
/// # Errors
/// As for [`due`].
pub fn due_by(
    service: &Service,
    interval_ms: i64,
    most: u64,
) -> Result<Option<RecordEpoch>, Error> {
    let now = service.clock().now();
    made(service, most, &|entries, waiting| {
        waiting.is_some_and(|waiting| rule::is_time((entries, most), waiting, now, interval_ms))
    })
}

/// Records an epoch even if no booking's entry waits for it, as the last entry of a log that is about to be moved. Every earlier
/// backup lacks it, so none can pass for the log in its old place. Does nothing if the log has no entries. Blocks.
///
/// # Errors
/// As any write.
pub fn record_last(service: &Service) -> Result<(), Error> {
    match made(service, EPOCH_ENTRIES, &|_, _| true)? {
        // If another one was recorded meanwhile, that is the last entry.
        Some(epoch) => service.submit_and_wait(record(service, epoch)).map(drop),
        None => Ok(()),
    }
}

/// Says whether an epoch is due, from the number of entries without one, and the time at which the first entry of a booking was written.
type IsDue<'a> = &'a dyn Fn(u64, Option<Timestamp>) -> bool;

/// The epoch, if it is due. It adds at most `most` entries.
fn made(service: &Service, most: u64, is_due: IsDue<'_>) -> Result<Option<RecordEpoch>, Error> {
    service.ask(|reader| {
        reader.snapshot();
        made_from(reader, most, is_due)
    })
}

fn made_from(
    reader: &mut Reader<'_>,
    most: u64,
    is_due: IsDue<'_>,
) -> Result<Option<RecordEpoch>, StoreError> {
    let latest = reader.latest_epoch()?;
    let head = reader.head()?;
    let from = latest.as_ref().map_or(0, |latest| latest.epoch.tree_size);
    let waiting = reader.first_written(from)?;
    let size = head.head.size;
    let entries = size.saturating_sub(from);
    if head.moved_to.is_some() || entries == 0 || !is_due(entries, waiting) {
        return Ok(None);
    }
    let to = size.min(from.saturating_add(most));
    // A stream's later entries replace its earlier ones.
    let mut values: BTreeMap<Hash, MapValue> = BTreeMap::new();
    let mut written = 0;
    let count = u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
    let leaves = reader.leaves(from, count)?;
    for (index, bytes) in (from..to).zip(&leaves) {
        let leaf = Leaf::parse(bytes);
        let leaf = leaf.map_err(|e| StoreError::Corrupt(format!("entry {index}: {e}")))?;
        let (count, head) = (leaf.seq + 1, leaf_hash(bytes));
        values.insert(key_of(&leaf.stream), MapValue { count, head });
        written = leaf.t;
    }
    if leaves.len() != count as usize {
        return Err(StoreError::Corrupt(format!(
            "an entry before entry {to} is missing"
        )));
    }
    let mut pages = match latest {
        None => Pages::empty(),
        Some(_) => reader.map_pages(values.keys())?,
    };
    let root = pages.set(&values);
    let map_root = root.map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let changed = pages.changed();
    Ok(Some(RecordEpoch {
        origin: head.origin,
        after: latest.map(|LoggedEpoch { place, .. }| place.index),
        epoch: Epoch {
            map_root,
            tree_size: to,
            written_at: Timestamp::from_ms(written),
        },
        pages: changed
            .map(|(id, page)| (id.to_bytes(), page.to_bytes()))
            .collect(),
        is_behind: to < size,
    }))
}

impl RecordEpoch {
    /// The number of entries that it covers.
    #[must_use]
    pub fn covers(&self) -> u64 {
        self.epoch.tree_size
    }

    /// The number of pages that it writes.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }
}

/// The command that records an epoch.
#[must_use]
pub fn record(service: &Service, epoch: RecordEpoch) -> Envelope<bool> {
    Envelope::new(service.clock().now(), epoch)
}
