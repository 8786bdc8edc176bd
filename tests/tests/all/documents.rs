//! Tests README.md and docs/: every command is run, every shown output must match, every error code of the product is
//! explained, and every link has a target.

mod codes;
mod form;
mod pages;
mod session;
mod shape;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
