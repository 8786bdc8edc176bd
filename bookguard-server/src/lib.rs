//! The Bookguard HTTP server: the core's operations behind HTTP, and nothing else.
//!
//! | module | job |
//! |---|---|
//! | [`config`] | the configuration of a server |
//! | `connections` | accepts, times out and ends connections |
//! | `answers` | the memory of answers that nobody has read yet |
//! | `probes` | whether the process lives, and whether it wants requests |
//! | `proxies` | the client's address behind proxies |
//! | `router` | method and path to endpoint; request ids, panics, 404 and 405 |
//! | [`logging`] | the lines that this process logs |
//! | `observer` | what is known of each request, and what is done when it ends |
//! | `metrics`, `scrape` | what is measured, and how it is served |
//! | `api` | the one table of operations; its routes and its OpenAPI description |
//! | `apart`, `readers` | the threads that may wait for the store |
//! | `app`, `auth`, `rate` | who is calling, and how much they may ask |
//! | `key_uses` | stores when API keys were last used |
//! | `incoming`, `negotiation` | what a request must be before an operation sees it; what its client can read |
//! | `refusal` | every answer that is not a success |
//! | `console` | pages for a partner's staff, and for the operator's |
//! | `documents` | OpenAPI, llms.txt, the start page, Swagger UI, discovery documents, the ledger for mirrors |
//! | `media` | the media types that several modules name |
//! | [`mcp`] | the Model Context Protocol, for programs in which a model chooses the calls |
//! | [`watch`] | waits for the next event, up to a timeout |
//! | [`tls`] | outgoing connections of the server and of the command line: their TLS, and their `User-Agent` |
//! | [`courier`] | delivers webhooks to their endpoints |
//! | [`witness`] | a server of its own: cosigns the checkpoints of other logs |
//!
//! Invariant: no rule of the product is decided here.
//!
//! ```no_run
//! # async fn example() -> Result<(), bookguard_core::service::OpenError> {
//! use bookguard_server::{Server, config::Config};
//!
//! let server = Server::start(Config { listen: "127.0.0.1:0".to_owned(), ..Config::of("bookings.db") }).await?;
//! println!("{}", server.url());
//! server.stop().await;
//! # Ok(())
//! # }
//! ```

// Without pages, what only they call has no caller.
#![cfg_attr(not(feature = "console"), allow(dead_code, unused_variables))]

mod answers;
mod apart;
mod api;
mod app;
mod auth;
mod causes;
pub mod config;
mod connections;
#[cfg(feature = "console")]
mod console;
mod cosigning;
pub mod courier;
mod documents;
mod housekeeping;
mod incoming;
mod key_uses;
pub mod logging;
mod mapping;
pub mod mcp;
mod media;
mod meter;
mod metrics;
mod negotiation;
mod observer;
mod pages;
mod payer;
mod probes;
mod proxies;
mod rate;
mod readers;
mod refusal;
mod retention;
mod router;
mod scrape;
mod server;
mod skew;
mod stamping;
#[cfg(test)]
mod test_runtime;
pub mod tls;
mod traces;
mod under_way;
mod uploads;
pub mod watch;
pub mod witness;

pub use api::{openapi, openapi_json, operator_openapi, operator_openapi_json};
pub use refusal::ErrorBody;
pub use server::{LAST_WORK, Server, Signal, local_url, lock, run, runs_on, signals, told_to_end};
