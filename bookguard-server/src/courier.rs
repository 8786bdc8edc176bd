//! The courier: takes deliveries that are due to their endpoints.
//!
//! [`address`] decides where a webhook may go, [`sender`] makes one attempt.

pub mod address;
pub mod sender;
