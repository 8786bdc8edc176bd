//! Whether a packet is complete: the public log is read from its first entry to its last, and the entries of the packet's
//! booking are compared with those that the packet shows.
//!
//! The holder of the ledger key can sign a packet without the booking's last entry; the log still has it. The caller
//! fetches the log's tiles ([`Scan::paths`]); `ledger::walk` checks each of them. Invariant: an entry that cannot be
//! read ends the scan, because it could be the booking's.

use std::fmt;

use serde::Serialize;

use super::timeline::Timeline;
use crate::ledger::checkpoint::CheckpointError;
use crate::ledger::hash::Hash;
use crate::ledger::leaf::LeafError;
use crate::ledger::note::KeyError;
use crate::ledger::walk::{Walk, WalkError};
use crate::ledger::{Checkpoint, Leaf, TilePath, VerifierKey};
use crate::limits::MISSING_ENTRIES;
use crate::model::Timestamp;
use crate::text::entries;

/// An entry of the booking that the log holds and the packet lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct LogEntry {
    /// Its place in the log, from 0.
    pub index: u64,
    /// Its place among the entries of the booking, from 0.
    pub seq: u64,
    /// When it was written.
    pub written_at: Timestamp,
    /// Whether the log already held it when the packet was made.
    pub left_out: bool,
}

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct LogReport {
    /// The log's name.
    pub origin: String,
    /// Entries in the log.
    pub size: u64,
    /// Its root hash, lower-case hex.
    pub root_hash: String,
    /// Entries in the log when the packet was made.
    pub packet_size: u64,
    /// Entries of the booking that the packet shows.
    pub entries: u64,
    /// Entries of the booking that the packet lacks although the log held them when it was made.
    pub left_out: u64,
    /// Entries of the booking that were added after the packet was made.
    pub later: u64,
    /// Both, in the order of the log; the first hundred.
    pub missing: Vec<LogEntry>,
}

impl LogReport {
    /// Whether the log holds no entry of the booking that the packet lacks.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.left_out == 0 && self.later == 0
    }

    /// Whether the packet showed everything when it was made.
    #[must_use]
    pub fn honest(&self) -> bool {
        self.left_out == 0
    }
}

impl fmt::Display for LogReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, size, .. } = self;
        let shown = entries(self.entries);
        if self.complete() {
            return write!(
                f,
                "Complete: the packet shows {shown}, and the log {origin} with its {} holds no others of this booking.",
                entries(*size)
            );
        }
        if self.left_out > 0 {
            write!(
                f,
                "Left out: when the packet was made, the log {origin} had {}, and {} of this booking among them {} missing \
                 from the packet ({})",
                entries(self.packet_size),
                entries(self.left_out),
                are(self.left_out),
                self.listed(true)
            )?;
        } else {
            write!(
                f,
                "Nothing was left out: the packet shows all {shown} of this booking that the log {origin} held when the \
                 packet was made, the first {} of the log",
                entries(self.packet_size)
            )?;
        }
        if self.later > 0 {
            write!(
                f,
                ". The packet is older than the log: {} of this booking {} added since ({}); fetch a new packet to see more",
                entries(self.later),
                if self.later == 1 { "was" } else { "were" },
                self.listed(false)
            )?;
        }
        f.write_str(".")
    }
}

/// Entries named in the sentence.
const NAMED: usize = 5;

impl LogReport {
    fn listed(&self, left_out: bool) -> String {
        let of = |entry: &&LogEntry| entry.left_out == left_out;
        let named = self.missing.iter().filter(of).take(NAMED);
        let named: Vec<String> = named
            .map(|entry| {
                format!(
                    "entry {} of the log, number {} of the booking, written {}",
                    entry.index,
                    entry.seq + 1,
                    entry.written_at
                )
            })
            .collect();
        let all = if left_out { self.left_out } else { self.later };
        let more = all - named.len() as u64;
        let more = if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        };
        format!("{}{more}", named.join("; "))
    }
}

fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// A scan in progress.
#[derive(Debug)]
pub struct Scan {
    walk: Walk,
    timeline: Timeline,
    report: LogReport,
}

impl Scan {
    /// A scan of the log with this checkpoint, which must be signed by the key and continue the log of the packet.
    ///
    /// # Errors
    /// What is wrong with the key or the checkpoint.
    pub fn new(timeline: Timeline, checkpoint: &str, vkey: &str) -> Result<Self, ScanError> {
        let key: VerifierKey = vkey.parse().map_err(ScanError::Key)?;
        let log = Checkpoint::open(checkpoint, &key).map_err(ScanError::Checkpoint)?;
        let report = LogReport {
            origin: log.origin.clone(),
            size: log.size,
            root_hash: log.root.to_string(),
            packet_size: timeline.log.size,
            entries: timeline.entries.len() as u64,
            left_out: 0,
            later: 0,
            missing: Vec::new(),
        };
        Ok(Self {
            walk: Walk::new(timeline.log.clone(), log).map_err(ScanError::Log)?,
            timeline,
            report,
        })
    }

    /// The tiles of the log to fetch, in the order in which [`Self::take`] takes them.
    pub fn paths(&self) -> impl Iterator<Item = TilePath> + Send + use<> {
        self.walk.paths()
    }

    /// Entries read so far, and entries of the log.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.walk.walked(), self.report.size)
    }

    /// Checks the next tile, and looks for the booking's entries in it.
    ///
    /// # Errors
    /// What is wrong with the tile, the log, or an entry.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), ScanError> {
        let Some((first, bundle)) = self.walk.take(bytes).map_err(ScanError::Log)? else {
            return Ok(());
        };
        for (index, entry) in (first..).zip(bundle) {
            let leaf = Leaf::parse(entry).map_err(|why| ScanError::Entry { index, why })?;
            if leaf.stream == self.timeline.stream {
                self.add(index, &leaf);
            }
        }
        Ok(())
    }

    fn add(&mut self, index: u64, leaf: &Leaf) {
        // The log continues the one that proves the packet, so what is at these places is what the packet shows.
        let shown = |entry: &(u64, Hash)| entry.0;
        if (self.timeline.entries)
            .binary_search_by_key(&index, shown)
            .is_ok()
        {
            return;
        }
        let left_out = index < self.report.packet_size;
        if left_out {
            self.report.left_out += 1;
        } else {
            self.report.later += 1;
        }
        if self.report.missing.len() < MISSING_ENTRIES {
            self.report.missing.push(LogEntry {
                index,
                seq: leaf.seq,
                written_at: Timestamp::from_ms(leaf.t),
                left_out,
            });
        }
    }

    /// Ends the scan.
    ///
    /// # Errors
    /// [`ScanError::Log`] unless all of the log was read.
    pub fn finish(self) -> Result<LogReport, ScanError> {
        self.walk.finish().map_err(ScanError::Log)?;
        Ok(self.report)
    }
}

/// Why a log cannot say whether a packet is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum ScanError {
    /// The key cannot be read.
    Key(KeyError),
    /// The log's checkpoint is not signed by the key, or is not a checkpoint.
    Checkpoint(CheckpointError),
    /// The log does not continue the packet's, or a tile is wrong.
    Log(WalkError),
    /// An entry of the log cannot be read.
    Entry {
        /// Its place.
        index: u64,
        /// Why.
        why: LeafError,
    },
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(why) => write!(f, "The verifier key cannot be read: {why}."),
            Self::Checkpoint(why) => write!(
                f,
                "The log's checkpoint cannot be relied on: {why}. Check that this is the log that the packet belongs to."
            ),
            Self::Log(why @ WalkError::Origin { .. }) => write!(
                f,
                "The log is not the one that proves the packet: {why}. Give the packet's own log, and its key."
            ),
            Self::Log(why @ WalkError::Smaller { .. }) => write!(
                f,
                "The log does not continue the one that proves the packet: {why}. Ask the operator, and keep the packet."
            ),
            Self::Log(why @ WalkError::Forked { .. }) => write!(
                f,
                "The log does not continue the one that proves the packet: {why}. Keep the packet and the log's checkpoint: \
                 together they prove it."
            ),
            Self::Log(why) => write!(f, "The log cannot be relied on: {why}."),
            Self::Entry { index, why } => write!(
                f,
                "Entry {index} of the log cannot be read, so it could belong to this booking: {why}. If a later version of \
                 Bookguard wrote it, verify with that version."
            ),
        }
    }
}

impl std::error::Error for ScanError {}

#[cfg(test)]
mod tests;
