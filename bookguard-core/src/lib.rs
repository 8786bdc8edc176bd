//! Bookguard: evidence and protection for bookings.
//!
//! As a library for the receiving end (no feature needed: no database, no async runtime):
//!
//! | to | use |
//! |---|---|
//! | verify a webhook's signature | [`webhook::verify()`], [`webhook::verify_standard`] |
//! | verify an evidence packet offline | [`evidence::verify()`] |
//! | read a policy and say what a cancellation comes to | [`policy::evaluate_now`] |
//! | recompute a recorded cancellation | [`policy::evaluate`] |
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
//! With [`error`] and [`model`], which these share, that is the whole public interface without features. Bookguard's own
//! server and command line use the rest, which the features `sqlite` and `postgres` (through `store`) and `openapi` turn
//! on, each with `internals`. It changes with them, in any version; `cargo doc --all-features` shows it.

#![cfg_attr(
    not(feature = "store"),
    expect(
        dead_code,
        reason = "what commits to a fact stands beside what verifies it, and only the service commits"
    )
)]

#[cfg(all(feature = "store", not(feature = "sqlite")))]
compile_error!(
    "bookguard-core's features `store` and `postgres` need `sqlite`: the service looks after backups of database files. Turn it on too."
);

// What the derive `Schema` writes names this crate as others see it.
#[cfg(feature = "openapi")]
extern crate self as bookguard_core;

#[cfg(feature = "store")]
pub mod clock;
#[cfg(feature = "store")]
pub mod engine;
#[cfg(feature = "store")]
pub mod entropy;
#[cfg(feature = "store")]
pub mod erasure_list;
pub mod error;
pub mod evidence;
#[cfg(feature = "store")]
pub mod features;
#[cfg(feature = "store")]
pub mod guard;
#[cfg(feature = "internals")]
pub mod input;
#[cfg(not(feature = "internals"))]
mod input;
#[cfg(feature = "store")]
pub mod key_file;
pub mod ledger;
#[cfg(feature = "internals")]
pub mod limits;
#[cfg(not(feature = "internals"))]
mod limits;
#[cfg(feature = "store")]
pub mod lines;
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
#[cfg(feature = "openapi")]
pub mod schema;
#[cfg(feature = "store")]
pub mod seal;
#[cfg(feature = "store")]
pub mod service;
#[cfg(feature = "store")]
pub mod session;
#[cfg(feature = "store")]
pub mod storage;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "internals")]
pub mod text;
#[cfg(not(feature = "internals"))]
mod text;
#[cfg(feature = "store")]
pub mod version;
pub mod webhook;

pub use error::{Error, FieldError, Kind};
/// The crates whose types stand in [`model::Timestamp`], [`policy::EventDate`] and [`policy::Zone`], in the versions that fit.
pub use {chrono, chrono_tz};

/// Its example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests;
