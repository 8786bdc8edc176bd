//! Evidence: what a booking's ledger entries commit to, the packet that shows it, and its offline verification.

pub mod facts;
