//! How commands become durable: gathered in batches, decided in turn, committed as one transaction and one ledger head; and
//! what is handed to the courier after it.

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
