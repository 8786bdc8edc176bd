//! Nodes on one PostgreSQL server, while something between or behind them fails.
//!
//! | module | what fails |
//! |---|---|
//! | `network` | the connection to the server: cut at the worst moment, held, slow |
//! | `server` | the server: crashed and started again, restarted in order, its sessions ended |
//! | `failover` | the server for good: its synchronous standby takes over |
//! | `refusals` | nothing: a server that is unsafe to use, or does not let the node in |
//! | `encrypted` | nothing: connections must be encrypted, and the server must prove its identity |
//! | `starting` | the server, before it is up |
//! | `together` | nothing: a change on one node applies on the others |
//!
//! Killed nodes are in `crash`, concurrent nodes in `concurrency`.

mod encrypted;
mod failover;
mod network;
mod refusals;
mod server;
mod starting;
mod together;
