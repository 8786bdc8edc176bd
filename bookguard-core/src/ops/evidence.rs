//! The evidence packet.
