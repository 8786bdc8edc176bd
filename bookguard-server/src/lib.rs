//! The Bookguard HTTP server.

pub mod courier;
