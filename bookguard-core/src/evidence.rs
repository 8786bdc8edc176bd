//! Evidence: what a booking's ledger entries commit to, the packet that shows it, and its offline verification.
//!
//! All of it is pure, and [`verify()`] needs nothing but this crate's default features, the packet's bytes and the
//! log's verifier key:
//!
//! ```
//! use bookguard_core::evidence;
//!
//! let key = "example.com/log+7db0e2a1+AeTFbmWP1l9FsVkfX2mEl5ZzIkRtZyEMJvpFgvO7JFEN";
//! let report = evidence::verify(b"{\"type\":\"bookguard.evidence/1\"}", key);
//! assert!(!report.verified());
//! println!("{report}");
//! ```

// What each file has:
//
// facts    one struct per kind of fact                 state    the booking: its facts, folded by one `apply`
// reschedule, acceptance, item, erasure, notification  summary  the packet in sentences
//          the facts with more members                 verify   packet + key → report
// frozen   the canonical text of a booking's terms     packet   the signed document
// entry    a leaf as stored                            continuation  how a log continues after a loss
// statement  what is signed of a packet               timeline  two packets compared
// dispute  the packet in the fields of a card dispute  anchor  a time-stamp of a checkpoint
// scan     packet + log → entries that the packet lacks  withheld  values that a copy does not show
// epoch    a map of the log's first entries            map_audit  whether the maps of a log are true
// claims   what time-stamps and cosignatures say of themselves    told  the entries that its story is from

pub(crate) mod acceptance;
pub(crate) mod anchor;
mod claims;
#[cfg(feature = "internals")]
mod continuation;
mod dispute;
#[cfg(feature = "internals")]
mod entry;
pub(crate) mod epoch;
pub(crate) mod erasure;
pub(crate) mod facts;
pub(crate) mod frozen;
#[cfg(feature = "internals")]
mod hold;
pub(crate) mod item;
#[cfg(feature = "internals")]
mod map_audit;
pub(crate) mod notification;
#[cfg(feature = "openapi")]
mod openapi;
pub(crate) mod packet;
pub(crate) mod report;
pub(crate) mod reschedule;
mod scan;
#[cfg(feature = "internals")]
mod share;
pub(crate) mod state;
pub(crate) mod statement;
pub(crate) mod summary;
mod timeline;
mod told;
pub(crate) mod verify;
pub(crate) mod withheld;

#[doc(hidden)]
pub use acceptance::Acceptance;
#[cfg(feature = "internals")]
pub use anchor::Anchor;
pub use bookguard_time::{Error as TimestampError, Roots as TimestampRoots};
#[doc(hidden)]
pub use claims::{CosignatureClaim, StampClaim};
#[cfg(feature = "internals")]
pub use continuation::{Continuation, FoundLog};
#[doc(hidden)]
pub use dispute::{DisputeExport, DisputeForm, DisputeReason, dispute};
#[cfg(feature = "internals")]
pub use entry::StoredEntry;
#[cfg(feature = "internals")]
pub use epoch::{Epoch, LoggedEpoch};
#[doc(hidden)]
pub use erasure::{Erasable, ErasedNames, ErasedValues, Erasure, LegalBasis};
#[doc(hidden)]
pub use frozen::FrozenTerms;
#[cfg(feature = "internals")]
pub use hold::{HeldBy, Hold, StoredHold};
#[doc(hidden)]
pub use item::{EvidenceItem, ItemKind};
#[cfg(all(test, feature = "sqlite"))]
pub(crate) use map_audit::tests::HandmadeLog;
#[cfg(feature = "internals")]
pub use map_audit::{AuditedEntries, AuditedTo, MapAudit, MapCommits, MapFault};
#[doc(hidden)]
pub use notification::{Notification, NotificationOutcome};
#[doc(hidden)]
pub use packet::{PACKET_TYPE, Packet, SealedPacket};
pub use report::{Check, CompleteAsOf, CosignedBy, LedgerState, Report, StampedTime};
#[doc(hidden)]
pub use reschedule::{RescheduleFact, TermsVersion};
pub use scan::{LogEntry, LogReport, Scan, ScanError};
#[cfg(feature = "internals")]
pub use share::{Share, ShareView, StoredShare, ViewForm};
#[doc(hidden)]
pub use state::BookingState;
pub use statement::SignedStatement;
#[doc(hidden)]
pub use summary::{Moment, Paragraph, SUMMARY_VERSION, Summary};
pub use timeline::{Account, AccountError, Comparison, Timeline, TimelineVerdict, compare};
pub use verify::{TimestampTrust, Trust, verify, verify_timeline, verify_with};
#[doc(hidden)]
pub use withheld::Withheld;
