//! README.md and docs/: every command they show is run, every output they show is what comes, every error code of the
//! product is explained, and every link leads somewhere.

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
