//! Shared fixtures of the end-to-end tests.
//!
//! | module | what it stands up |
//! |---|---|
//! | [`engine`] | what a database is on, and an empty one |
//! | [`test_server`] | a server in this process, its clock set by hand |
//! | [`program`] | the `bookguard` binary: one command, or a server that is a process of its own |
//! | [`caller`] | a partner's HTTP client |
//! | [`codes`] | the error codes that the documents explain |
//! | [`interface`] | what the interface document says of an answer |
//! | [`json`] | the members of an answer |
//! | [`raw`] | requests that no proper client would send |
//! | [`receiver`] | a webhook receiver that answers as told |
//! | [`forward_proxy`] | the proxy that webhooks may go through |
//! | [`mirror`] | a mirror of the ledger |
//! | [`disk_faults`] | a disk that fails as told, under a process of its own |
//! | [`samples`] | bodies of requests |
//! | [`load`] | partners who write without a pause, on nodes that come and go |
//! | [`proxy`] | a bad network between a node and its database server |
//! | [`waiting`] | conditions awaited with a bound |
//!
//! Invariants: everything listens on 127.0.0.1 and a port of the system's choosing; everything ends when it is dropped.

pub mod caller;
pub mod codes;
pub mod disk_faults;
pub mod engine;
pub mod forward_proxy;
pub mod interface;
pub mod json;
pub mod load;
pub mod mirror;
pub mod program;
pub mod proxy;
pub mod raw;
pub mod receiver;
pub mod samples;
pub mod test_server;
pub mod waiting;

/// The Rust of README.md is compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
