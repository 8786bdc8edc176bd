//! Bookguard: evidence and protection for bookings.

#[cfg(feature = "store")]
pub mod change;
#[cfg(feature = "store")]
pub mod clock;
#[cfg(feature = "store")]
pub mod command;
#[cfg(feature = "store")]
pub mod entropy;
pub mod error;
pub mod evidence;
pub mod input;
#[cfg(feature = "store")]
pub mod key_file;
pub mod ledger;
#[cfg(feature = "store")]
pub mod lifecycle;
pub mod limits;
pub mod model;
#[cfg(feature = "store")]
pub mod ops;
#[cfg(feature = "store")]
pub mod outbox;
pub mod policy;
#[cfg(feature = "store")]
pub mod service;
#[cfg(feature = "store")]
pub mod session;
#[cfg(feature = "store")]
pub mod store;
pub mod webhook;
#[cfg(feature = "store")]
pub mod work;
#[cfg(feature = "store")]
pub mod writer;

pub use error::{Error, FieldError, Kind};
