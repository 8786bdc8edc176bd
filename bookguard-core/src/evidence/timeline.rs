//! What two signed accounts of one booking say about how long its chain is, and whether both can be true.
//!
//! An account is a packet, or only the signed note cut out of one. The holder of the ledger key can leave the last entry
//! out of a packet; a second account of the same booking, made earlier or later, gives that away without the log. Invariants:
//! only a verified packet has a [`Timeline`]; a booking to which entries were added is not a contradiction.

use std::fmt;

use serde::Serialize;

use super::statement::SignedStatement;
use super::verify::verify_timeline;
use crate::ledger::hash::Hash;
use crate::ledger::leaf::STREAM_BYTES;
use crate::ledger::{Checkpoint, VerifierKey};
use crate::model::BookingId;
use crate::text::entries;

/// Where a verified packet's entries are in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// The booking.
    pub(super) booking: BookingId,
    /// Its stream.
    pub(super) stream: [u8; STREAM_BYTES],
    /// The place of each of its entries, and its leaf hash, in order; at least one.
    pub(super) entries: Vec<(u64, Hash)>,
    /// The state of the log that proves them.
    pub(super) log: Checkpoint,
}

/// A signed account of a booking.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Account {
    /// A verified packet.
    Packet(Timeline),
    /// The signed note of a packet.
    Note(SignedStatement),
}

impl Account {
    /// Reads a packet or the signed note of one, and verifies it.
    ///
    /// # Errors
    /// Why it cannot be relied on.
    pub fn read(bytes: &[u8], vkey: &str) -> Result<Self, AccountError> {
        let key: VerifierKey = vkey
            .parse()
            .map_err(|e| AccountError(format!("The verifier key cannot be read: {e}.")))?;
        let text =
            std::str::from_utf8(bytes).map_err(|_| AccountError("It is not text.".to_owned()))?;
        if !text.trim_start().starts_with('{') {
            // The signature is not over the end of the file: `jq -r` adds a newline there, and a shell's variable drops it.
            let note = text.trim_end().to_owned() + "\n";
            let read = SignedStatement::open(&note, &key);
            return read.map(Self::Note).map_err(|e| {
                AccountError(format!(
                    "It is neither a packet nor the signed note of one by this key: {e}."
                ))
            });
        }
        let (report, timeline) = verify_timeline(bytes, vkey);
        let failed = report.failures().next().map(|check| check.detail.clone());
        timeline.map(Self::Packet).ok_or_else(|| {
            let failed = failed.unwrap_or_default();
            AccountError(format!("The packet does not verify. {failed}"))
        })
    }

    fn stream(&self) -> &[u8; STREAM_BYTES] {
        match self {
            Self::Packet(packet) => &packet.stream,
            Self::Note(note) => &note.stream,
        }
    }

    /// Entries of the booking.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Packet(packet) => packet.entries.len() as u64,
            Self::Note(note) => note.count,
        }
    }

    /// The leaf hash of the last of them.
    #[must_use]
    pub fn head(&self) -> Hash {
        match self {
            Self::Packet(packet) => packet.entries.last().map_or(Hash::ZERO, |(_, hash)| *hash),
            Self::Note(note) => note.head,
        }
    }

    /// Entries of the log.
    #[must_use]
    pub fn log_size(&self) -> u64 {
        match self {
            Self::Packet(packet) => packet.log.size,
            Self::Note(note) => note.log_size,
        }
    }

    /// The place and hash of an entry; `None` if only a note is there.
    fn entry(&self, number: u64) -> Option<(u64, Hash)> {
        match self {
            Self::Packet(packet) => packet.entries.get(usize::try_from(number).ok()?).copied(),
            Self::Note(_) => None,
        }
    }

    fn root(&self) -> Option<Hash> {
        match self {
            Self::Packet(packet) => Some(packet.log.root),
            Self::Note(_) => None,
        }
    }
}

/// Why an account cannot be relied on. Printed, it is a whole sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountError(String);

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AccountError {}

/// Whether two accounts can both be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum TimelineVerdict {
    /// They can.
    Consistent,
    /// They cannot: the holder of the key signed something untrue.
    Contradiction,
    /// They are about different bookings.
    Unrelated,
}

/// Two accounts compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Comparison {
    /// Whether both can be true.
    pub verdict: TimelineVerdict,
    /// Why, in a sentence. The accounts are called A and B.
    pub detail: String,
}

/// Compares two accounts that the same key signed.
#[must_use]
pub fn compare(a: &Account, b: &Account) -> Comparison {
    let judged = judge(a, b);
    let (verdict, detail) =
        judged.unwrap_or_else(|detail| (TimelineVerdict::Contradiction, detail));
    Comparison { verdict, detail }
}

/// The verdict, or in an error, the contradiction.
fn judge(a: &Account, b: &Account) -> Result<(TimelineVerdict, String), String> {
    let same_size = a.log_size() == b.log_size();
    if let (true, Some(one), Some(other)) = (same_size, a.root(), b.root())
        && one != other
    {
        return Err(format!(
            "The log itself is forked: A and B are proven by two different logs of {} entries under the same key.",
            a.log_size()
        ));
    }
    if a.stream() != b.stream() {
        if let (Account::Packet(a), Account::Packet(b)) = (a, b) {
            apart(a, b)?;
        }
        let detail = "A and B are about different bookings, so they say nothing about each other.";
        return Ok((TimelineVerdict::Unrelated, detail.to_owned()));
    }
    let order = |account: &Account| (account.log_size(), account.count());
    let ((one, older), (two, newer)) = if order(a) <= order(b) {
        (("A", a), ("B", b))
    } else {
        (("B", b), ("A", a))
    };
    let (fewer, more) = (older.count(), newer.count());
    let made = format!(
        "{one} states {} of the booking in a log of {}, and {two} {} in a log of {}",
        entries(fewer),
        older.log_size(),
        entries(more),
        newer.log_size()
    );
    if more < fewer {
        return Err(format!(
            "{made}: {two} was made later and leaves out {}.",
            entries(fewer - more)
        ));
    }
    if more - fewer > newer.log_size() - older.log_size() {
        return Err(format!(
            "{made}: the log did not grow by as much in between, so {one} leaves out what was already in it."
        ));
    }
    if more == fewer && older.head() != newer.head() {
        return Err(format!(
            "{made}, but with different last entries: one of the two is not the booking's."
        ));
    }
    let mut is_whole = more == fewer;
    if let Some((_, hash)) = newer.entry(fewer.saturating_sub(1)) {
        is_whole = true;
        if hash != older.head() {
            return Err(format!(
                "{made}, but entry {fewer} of the booking is another in {two} than the last one of {one}: the booking has two \
                 histories."
            ));
        }
    }
    // Only packets have places. An entry is at one place of the log, however far the log has grown.
    for number in 0..fewer {
        let (Some(before), Some(after)) = (older.entry(number), newer.entry(number)) else {
            break;
        };
        let number = number + 1;
        if before.0 != after.0 {
            return Err(format!(
                "{made}, but entry {number} of the booking is entry {} of the log in {one} and entry {} in {two}: the log is forked.",
                before.0, after.0
            ));
        }
        if before.1 != after.1 {
            return Err(format!(
                "{made}, but entry {number} of the booking is another in {two} than in {one}: the booking has two histories."
            ));
        }
    }
    if let Some((index, _)) = newer.entry(fewer)
        && index < older.log_size()
    {
        return Err(format!(
            "{made}, but entry {} of the booking is entry {index} of the log, which was there when {one} was made: {one} leaves \
             it out.",
            fewer + 1
        ));
    }
    let detail = match (more - fewer, is_whole) {
        (0, _) => format!("{made}: nothing was added to the booking in between."),
        (added, true) => format!(
            "{made}: {two} continues {one} with {}, added after {one} was made.",
            entries(added)
        ),
        (added, false) => format!(
            "{made}: {two} can continue {one} with {}. Its note alone does not show them; the packet of {two} would.",
            entries(added)
        ),
    };
    Ok((TimelineVerdict::Consistent, detail))
}

/// Checks that packets of two streams can both be true. A booking has one stream, and a place of the log one entry.
fn apart(a: &Timeline, b: &Timeline) -> Result<(), String> {
    if a.booking == b.booking {
        return Err(format!(
            "A and B are both packets of booking {}, but show two chains of entries: the booking has two histories.",
            a.booking
        ));
    }
    let place = |entry: &(u64, Hash)| entry.0;
    let is_in_b = |index: &u64| b.entries.binary_search_by_key(index, place).is_ok();
    match a.entries.iter().map(place).find(is_in_b) {
        Some(index) => Err(format!(
            "Entry {index} of the log is of booking {} in A and of booking {} in B: the log is forked.",
            a.booking, b.booking
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
