//! The Model Context Protocol at [`PATH`]: operations as tools that a model may choose.
//!
//! | module | job |
//! |---|---|
//! | `endpoint` | who may send a message, and how large it may be |
//! | `callers` | Host and Origin |
//! | `arrival` | receives a message |
//! | `large_messages` | limits large messages in memory |
//! | `message` | parses one JSON-RPC message and checks it before it is passed on |
//! | `answers` | implements the server side for the protocol's crate |
//! | `tools` | the table of tools, and their schemas from the interface document |
//! | `call` | calls the operation behind a tool |
//! | `arguments` | maps a tool's arguments to the operation's input |
//! | `verification` | the one tool that is not an operation of the HTTP interface |
//! | [`local`] | the protocol without a listener, for the command line |
//!
//! The crate `rmcp` handles messages, revisions and lifecycle. There are no sessions: nodes share nothing, so each request
//! carries all it needs. Invariant: a tool is an operation, called as the HTTP interface calls it and with the caller's own
//! key. No tool reaches data with scopes, limits, refusals or logging that differ from HTTP.

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

/// The path of the endpoint.
pub const PATH: &str = "/mcp";
/// The server's name for programs.
pub const NAME: &str = "bookguard";
/// The server's name for people.
pub const TITLE: &str = "Bookguard";
/// The supported revisions of the protocol, oldest first. Earlier ones had batches or another transport.
pub const PROTOCOL_VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// The most bytes of a message: a packet to verify and the JSON around it.
pub(crate) const MESSAGE_BYTES: usize = PACKET_BYTES + BODY_BYTES;

/// Adds the endpoint's path; `listen` is the address that the server is bound to.
pub(crate) fn add_routes(app: &Arc<App>, listen: std::net::SocketAddr, routes: &mut Routes) {
    let callers = Callers::new(app.service.public_url(), listen.ip());
    let endpoint = McpEndpoint::new(Arc::clone(app), Some(callers));
    routes
        .entry(PATH.to_owned())
        .or_default()
        .insert(Method::POST, endpoint.boxed());
}

/// The name and description of every tool.
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
