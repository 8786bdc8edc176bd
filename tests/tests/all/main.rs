//! All tests of the service as a whole, in one binary, so that the server is linked once.
//!
//! | module | tests |
//! |---|---|
//! | [`journey`] | partner journeys over HTTP, from the first request on |
//! | [`wire`] | the HTTP interface on the wire: every documented status, and bad input |
//! | [`fields`] | the faults that each body's reader reports |
//! | [`mcp`] | the Model Context Protocol |
//! | [`console`] | the console, as a browser uses it |
//! | [`cli`] | the `bookguard` binary as people and scripts use it |
//! | [`policy_vectors`], [`policy_http`], [`policy_schema`] | the worked policy cases: computed, over HTTP, and against the JSON Schema |
//! | [`concurrency`], [`deliveries`] | many concurrent callers and deliveries |
//! | [`crash`], [`rollback`], [`nodes`] | killed processes, restored databases, and failures between nodes |
//! | [`upgrade`] | databases of released programs, and programs of two versions on one database |
//! | [`documents`] | README and docs: every command is run, every error code explained, every link has a target |
//! | [`structure`] | the layout of the code: layers, public modules, where an operation is offered |
//! | [`verifiers`] | the receiver code in the documents, and published webhook libraries |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod concurrency;
mod console;
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
mod upgrade;
mod verifiers;
mod wire;
