//! Evidence: what a booking's ledger entries commit to, the packet that shows it, and its offline verification.
//!
//! ```text
//! facts    which values each fact commits to          rebuild  the booking those values say
//! history  which facts can follow which               summary  the same in sentences
//! frozen   the canonical text of a booking's terms    verify   packet + key → report
//! packet   the signed document                        rescheduling, acceptance  what
//! notification  how a delivery ended                   was agreed on later
//! entry    a leaf as it is kept                        continuation  how a log went on after a loss
//! ```
//!
//! All of it is pure, and [`verify()`] needs nothing but this crate's default features, the packet's bytes and the
//! ledger's public key:
//!
//! ```
//! use bookguard_core::evidence;
//!
//! let key = "example.com/log+7db0e2a1+AeTFbmWP1l9FsVkfX2mEl5ZzIkRtZyEMJvpFgvO7JFEN";
//! let report = evidence::verify(b"{\"type\":\"bookguard.evidence/1\"}", key);
//! assert!(!report.verified());
//! println!("{report}");
//! ```

pub(crate) mod acceptance;
#[cfg(feature = "internals")]
mod continuation;
#[cfg(feature = "internals")]
mod entry;
pub(crate) mod facts;
pub(crate) mod frozen;
pub(crate) mod history;
pub(crate) mod notification;
#[cfg(feature = "openapi")]
mod openapi;
pub(crate) mod packet;
pub(crate) mod rebuild;
pub(crate) mod report;
pub(crate) mod reschedule;
pub(crate) mod summary;
pub(crate) mod verify;

#[doc(hidden)]
pub use acceptance::Acceptance;
#[cfg(feature = "internals")]
pub use continuation::{Continuation, FoundLog};
#[cfg(feature = "internals")]
pub use entry::StoredEntry;
#[doc(hidden)]
pub use frozen::FrozenTerms;
#[doc(hidden)]
pub use notification::{Notification, NotificationOutcome};
#[doc(hidden)]
pub use packet::{Packet, SealedPacket};
pub use report::{Check, Report};
#[doc(hidden)]
pub use reschedule::{RescheduleRecord, TermsVersion};
pub use verify::verify;
