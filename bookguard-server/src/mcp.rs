//! The Model Context Protocol at [`PATH`]: the operations that a model may choose, as tools.
//!
//! | module | job |
//! |---|---|
//! | `endpoint` | who may send a message, and how large it may be |
//! | `callers` | Host and Origin |
//! | `arrival` | how a message is received |
//! | `large_messages` | how many large messages there are at a time |
//! | `message` | one JSON-RPC message, read before it is believed |
//! | `answers` | what the protocol's own crate asks of a server |
//! | `tools` | the one table of tools; their schemas from the interface document |
//! | `call` | a tool's call is its operation's |
//! | `arguments` | where each argument stands in the operation's input |
//! | `verification` | the one tool that is not an operation of the HTTP interface |
//! | [`local`] | the same without a listener, for the command line |
//!
//! Messages, revisions and lifecycle are the crate `rmcp`'s. There are no sessions: nodes share nothing, so each request
//! says all it needs. Invariant: a tool is an operation, called as the HTTP interface calls it and with the caller's own key;
//! there is no way to data here that has other scopes, limits, refusals or a log of its own.

mod answers;
mod arguments;
mod arrival;
mod call;
mod callers;
mod endpoint;
mod large_messages;
pub mod local;
mod message;
mod tools;
mod verification;

use std::sync::Arc;

use bookguard_core::limits::{BODY_BYTES, PACKET_BYTES};
use poem::EndpointExt as _;
use poem::http::Method;

use crate::app::App;
use crate::router::Routes;
use callers::Callers;
use endpoint::McpEndpoint;

/// Where it is served.
pub const PATH: &str = "/mcp";
/// The server's name for programs.
pub const NAME: &str = "bookguard";
/// The server's name for people.
pub const TITLE: &str = "Bookguard";
/// The server's version: the program's.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The revisions of the protocol that are spoken, oldest first. Those before them had batches, or another transport.
pub const PROTOCOL_VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// Bytes of the largest message: a packet to verify, and what stands around it.
pub(crate) const MESSAGE_BYTES: usize = PACKET_BYTES + BODY_BYTES;

/// Adds the one path; `listen` is the address that the server was bound to.
pub(crate) fn add_routes(app: &Arc<App>, listen: std::net::SocketAddr, routes: &mut Routes) {
    let callers = Callers::new(app.service.public_url(), listen.ip());
    let endpoint = McpEndpoint::new(Arc::clone(app), Some(callers));
    routes
        .entry(PATH.to_owned())
        .or_default()
        .insert(Method::POST, endpoint.boxed());
}

/// The name of every tool, and what a model is told of it.
pub(crate) fn tools() -> impl Iterator<Item = (&'static str, &'static str)> {
    tools::TABLE
        .iter()
        .map(|tool| (tool.name, tool.description))
}

#[cfg(test)]
mod tests {
    use rmcp::model::ProtocolVersion;

    use super::*;

    #[test]
    fn the_revisions_are_the_latest_ones_of_the_protocol_s_own_crate() {
        let known = ProtocolVersion::KNOWN_VERSIONS;
        let latest = known[known.len() - PROTOCOL_VERSIONS.len()..].iter();
        assert_eq!(
            latest.map(ProtocolVersion::as_str).collect::<Vec<_>>(),
            PROTOCOL_VERSIONS
        );
    }
}
