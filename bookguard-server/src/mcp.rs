//! The Model Context Protocol at [`PATH`]: what it is called there and which revisions of it are spoken.
//!
//! Invariant: what is said here is said once; whoever announces the server elsewhere takes it from here.

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
