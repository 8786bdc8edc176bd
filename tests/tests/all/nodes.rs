//! Nodes on one PostgreSQL when something between or behind them fails.
//!
//! | module | what fails |
//! |---|---|
//! | `network` | the connection to the server: cut at the worst moment, held, slow |
//! | `server` | the server: crashed and started again, restarted in order, its sessions ended |
//! | `failover` | the server for good: its synchronous standby takes over |
//! | `refusals` | nothing: a server that may not be relied on, or does not let us in |
//! | `encrypted` | nothing: connections that must be encrypted, to a server that is who it should be |
//! | `starting` | the server, before it is there |
//! | `together` | nothing: what one node is told counts on the others |
//!
//! Nodes that are killed themselves are in `crash`, what they do at the same time in `concurrency`.

mod encrypted;
mod failover;
mod network;
mod refusals;
mod server;
mod starting;
mod together;
