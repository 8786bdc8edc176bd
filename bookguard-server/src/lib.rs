//! The Bookguard HTTP server.
