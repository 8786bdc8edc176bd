//! Shared fixtures of the end-to-end tests.
//!
//! | module | purpose |
//! |---|---|
//! | [`engine`] | test databases, on each engine |
//! | [`test_server`] | a server in this process, its clock set by hand |
//! | [`program`] | the `bookguard` binary: one command, or a server in its own process |
//! | [`caller`] | a partner's HTTP client |
//! | [`codes`] | the error codes that the documents explain |
//! | [`interface`] | checks answers against the interface document |
//! | [`files`] | what a folder holds, and who may use a file |
//! | [`json`] | the members of an answer |
//! | [`raw`] | requests that no proper client would send |
//! | [`receiver`] | a webhook receiver that answers on command |
//! | [`time_authority`] | an authority that stamps the ledger |
//! | [`forward_proxy`] | the proxy that webhooks may go through |
//! | [`mirror`] | a mirror of the ledger |
//! | [`disk_faults`] | a disk that fails on command, for one process |
//! | [`samples`] | bodies of requests |
//! | [`load`] | partners who write without a pause, on nodes that come and go |
//! | [`proxy`] | a bad network between a node and its database server |
//! | [`waiting`] | waits for conditions, up to a bound |
//!
//! Invariants: everything listens on 127.0.0.1 and a port chosen by the system; everything ends when it is dropped.

pub mod caller;
pub mod codes;
pub mod disk_faults;
pub mod engine;
pub mod files;
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
pub mod time_authority;
pub mod waiting;

/// Whether everything is to be tried, which takes minutes (`.ci/nightly`), or what stands for the rest.
pub fn is_long() -> bool {
    std::env::var_os("LONG").is_some()
}

/// Compiles the Rust code of README.md as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
