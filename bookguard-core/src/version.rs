//! The version of this program, which all its packages share.

/// The version, as the manifest states it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The program's name and version, as HTTP requests give them in `User-Agent`.
pub const PRODUCT: &str = concat!("bookguard/", env!("CARGO_PKG_VERSION"));
