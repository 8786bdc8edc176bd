//! How commands become durable: collected in batches, decided in order, and committed as one transaction and one ledger
//! head; and what is passed to the courier afterwards.

pub mod answers;
pub mod batch;
pub(crate) mod chain;
pub mod change;
pub mod command;
pub mod decide;
pub mod lease;
pub mod needs;
pub mod outbox;
pub(crate) mod presence;
pub mod waiting;
pub mod writer;
