//! The nouns. One noun, one type; serde on the noun is the JSON of the HTTP API.

pub mod money;
pub mod time;

pub use money::{Amount, AmountError, Currency};
pub use time::Timestamp;
