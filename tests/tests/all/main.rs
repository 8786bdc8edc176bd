//! Every test of the service as a whole, in one binary, so that the server is linked once.
//!
//! | module | asks |
//! |---|---|
//! | [`journey`] | what partners do, from their first request on, over HTTP |
//! | [`wire`] | the HTTP interface on the wire: every documented status, and bad input |
//! | [`fields`] | what the reader of each body says to its members that are wrong |
//! | [`mcp`] | the Model Context Protocol |
//! | [`cli`] | the `bookguard` binary as people and scripts use it |
//! | [`policy_vectors`], [`policy_http`], [`policy_schema`] | the worked policy cases: computed, over HTTP, and against the JSON Schema |
//! | [`concurrency`], [`deliveries`] | many callers and many deliveries at once |
//! | [`crash`], [`rollback`], [`nodes`] | processes killed, databases put back, and everything between nodes that can fail |
//! | [`documents`] | README and docs: every command is run, every error code explained, every link leads somewhere |
//! | [`structure`] | how the code is laid out: layers, what is public, where an operation is offered |
//! | [`verifiers`] | the receivers' code of the documents, and published webhook libraries |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod concurrency;
mod crash;
mod deliveries;
mod documents;
mod fields;
mod journey;
mod mcp;
mod nodes;
mod policy_http;
mod policy_schema;
mod policy_vectors;
mod rollback;
mod structure;
mod verifiers;
mod wire;
