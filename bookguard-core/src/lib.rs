//! Bookguard: evidence and protection for bookings.

pub mod error;
pub mod input;
pub mod ledger;
pub mod limits;
pub mod model;
pub mod webhook;

pub use error::{Error, FieldError, Kind};
