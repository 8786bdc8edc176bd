//! A directory that goes when it is dropped.

use std::fs::{self, DirBuilder};
use std::path::{Path, PathBuf};

use bookguard_core::entropy;

use crate::failure::Failure;

/// A temporary directory of this process alone.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it, readable by this user only.
    pub fn new() -> Result<Self, Failure> {
        let name: [u8; 8] = entropy::bytes();
        let path =
            std::env::temp_dir().join(format!("bookguard-demo-{:016x}", u64::from_le_bytes(name)));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|e| {
            Failure::Unexpected(format!(
                "the temporary directory {} cannot be made: {e}",
                path.display()
            ))
        })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is the temporary directory's own housekeeping to find.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_goes_with_everything_in_it() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
