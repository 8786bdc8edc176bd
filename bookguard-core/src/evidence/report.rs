//! The result of verifying a packet: every check, worded for a person who decides a dispute and is not an engineer.

use std::fmt;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::model::{BookingId, Timestamp};

/// One check and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Check {
    /// The name of the check; stable snake_case.
    pub name: &'static str,
    /// Where in the packet: a JSON pointer, empty for the whole packet.
    pub place: String,
    /// Whether the check found nothing wrong. A check of something that a packet need not show yet passes without it, and its
    /// detail says so: [`Report::complete`] and [`Report::timestamp`] tell whether it is shown.
    pub passed: bool,
    /// What the result means, in a sentence.
    pub detail: String,
}

/// The signed state of the ledger that proves the packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerState {
    /// The ledger's name.
    pub origin: String,
    /// Entries in the ledger.
    pub tree_size: u64,
    /// Its root hash, lower-case hex.
    pub root_hash: String,
}

/// A witness that has cosigned that state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct CosignedBy {
    /// The witness's name in the trust policy.
    pub witness: String,
    /// When, according to the witness.
    pub at: Timestamp,
}

/// When a packet's entries existed, as an authority says that the reader trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct StampedTime {
    /// They existed by then.
    pub at: Timestamp,
    /// The authority, by the name in its certificate.
    pub authority: String,
    /// How many of the entries, from the first on.
    pub entries: usize,
}

/// How far the packet is known to be complete: the ledger commits to a map of its first entries that has exactly the packet's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct CompleteAsOf {
    /// When the last of the mapped entries was written. Nothing recorded by then is missing.
    pub at: Timestamp,
    /// The number of entries that are mapped.
    pub tree_size: u64,
}

/// The outcome of verifying a packet.
///
/// Details and places of checks may quote the packet, and a forged packet may hold anything: before a terminal shows them, replace
/// what controls it.
///
/// Its JSON begins with the verdict, `verified`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Report {
    /// The packet's booking; absent if the packet cannot be read.
    pub booking_id: Option<BookingId>,
    /// When the packet was made, according to itself.
    pub created_at: Option<Timestamp>,
    /// The state of the ledger that proves the packet; absent if no proof holds.
    pub ledger: Option<LedgerState>,
    /// The witnesses that have cosigned that state; absent if no trust policy was given, or its quorum is missing.
    pub witnesses: Option<Vec<CosignedBy>>,
    /// When its entries existed; absent unless roots of time-stamp authorities were given and one of them vouches for that.
    pub timestamp: Option<StampedTime>,
    /// By when the packet lacks nothing; absent if it does not show that, which is no fault: the check `complete` passes then too.
    pub complete: Option<CompleteAsOf>,
    /// Every check, in the order made. Checks that depend on a failed one are left out.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether the packet is genuine: there were checks, and all of them passed.
    #[must_use]
    pub fn verified(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.passed)
    }

    /// The checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.passed)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            booking_id,
            created_at,
            ledger,
            witnesses,
            timestamp,
            complete,
            checks,
        } = self;
        let shown = [witnesses.is_some(), timestamp.is_some(), complete.is_some()];
        let shown = shown.into_iter().filter(|is_shown| *is_shown).count();
        let mut object = serializer.serialize_struct("Report", 5 + shown)?;
        object.serialize_field("verified", &self.verified())?;
        object.serialize_field("bookingId", booking_id)?;
        object.serialize_field("createdAt", created_at)?;
        object.serialize_field("ledger", ledger)?;
        if let Some(witnesses) = witnesses {
            object.serialize_field("witnesses", witnesses)?;
        }
        if let Some(timestamp) = timestamp {
            object.serialize_field("timestamp", timestamp)?;
        }
        if let Some(complete) = complete {
            object.serialize_field("complete", complete)?;
        }
        object.serialize_field("checks", checks)?;
        object.end()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let mark = if check.passed { "ok    " } else { "FAILED" };
            write!(f, "{mark}  {:<11}  {}", check.name, check.detail)?;
            match check.place.as_str() {
                "" => writeln!(f)?,
                place => writeln!(f, "  ({place})")?,
            }
        }
        let failed = self.failures().count();
        match (self.verified(), self.booking_id) {
            (true, Some(id)) => write!(f, "VERIFIED: the evidence of booking {id} is genuine."),
            (true, None) => f.write_str("VERIFIED"),
            (false, _) => write!(
                f,
                "NOT VERIFIED: {failed} of {} checks failed. Do not rely on this packet.",
                self.checks.len()
            ),
        }
    }
}
