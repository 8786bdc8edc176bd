//! Bookguard: evidence and protection for bookings.
//!
//! As a library for the receiving end (no feature needed: no database, no async runtime, no C compiler):
//!
//! | to | use |
//! |---|---|
//! | verify a webhook's signature | [`webhook::verify()`], [`webhook::verify_standard`] |
//! | verify an evidence packet offline | [`evidence::verify()`] |
//! | read a policy and recompute a cancellation | [`policy::evaluate`] |
//! | follow the log: proofs, checkpoints, tiles | [`ledger`] |
//!
//! ```
//! use bookguard_core::evidence;
//! use bookguard_core::webhook::{Secret, verify};
//!
//! // A receiver trusts a request only when its signature is right …
//! let secret = Secret::new("It's a Secret to Everybody");
//! let header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
//! assert!(verify(&secret, header, b"Hello, World!").is_ok());
//! assert!(verify(&secret, header, b"Hello, World?").is_err());
//!
//! // … and a reviewer trusts a packet only when every check holds under the ledger's own key.
//! let vkey = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx";
//! let report = evidence::verify(b"not a packet", vkey);
//! assert!(!report.verified());
//! ```
//!
//! As the product itself (feature `sqlite`), from the caller down:
//!
//! ```text
//! features → service → engine → store                           what does I/O
//!    ↓                   ↓
//! rules → policy, ledger, evidence, webhook → model             pure
//! ```
//!
//! What holds throughout: rules do no I/O, read no clock and roll no dice; only the writer writes, and only what a rule
//! decided; an accepted command's ledger leaves are written in the transaction of its rows; the head moves only from
//! the exact size and root that were loaded; every queue, page, body and batch has a maximum in [`limits`]; another
//! partner's ids answer exactly like unknown ones.

#[cfg(feature = "store")]
pub mod clock;
#[cfg(feature = "store")]
pub mod engine;
#[cfg(feature = "store")]
pub mod entropy;
pub mod error;
pub mod evidence;
#[cfg(feature = "store")]
pub mod features;
#[cfg(feature = "store")]
pub mod guard;
pub mod input;
#[cfg(feature = "store")]
pub mod key_file;
pub mod ledger;
pub mod limits;
#[cfg(feature = "store")]
pub mod log;
pub mod model;
#[cfg(feature = "store")]
pub mod operation;
#[cfg(feature = "store")]
mod packets;
pub mod policy;
#[cfg(feature = "store")]
mod policy_cache;
#[cfg(feature = "store")]
pub mod private;
#[cfg(feature = "store")]
mod seal;
#[cfg(feature = "store")]
pub mod service;
#[cfg(feature = "store")]
pub mod session;
#[cfg(feature = "store")]
pub mod storage;
#[cfg(feature = "store")]
pub mod store;
pub mod text;
pub mod webhook;

pub use error::{Error, FieldError, Kind};

#[cfg(test)]
mod tests;
