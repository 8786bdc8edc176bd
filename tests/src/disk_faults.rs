//! A disk that fails on command, for one process: system calls return errors, like those of a real disk.
//!
//! A small library between the program and the system's, built by the C compiler that the workspace's own dependencies
//! need. Invariant: nothing fails before it is told to, nor in any other process.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::program::CommandLine;

/// An I/O error.
pub const EIO: i32 = 5;
/// No space left.
pub const ENOSPC: i32 = 28;

/// The disk of one process.
pub struct DiskFaults {
    folder: TempDir,
}

impl DiskFaults {
    /// A working disk; `None` if the library cannot be built here.
    pub fn new() -> Option<Self> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(folder.path().join("faults.so"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/disk_faults.c"))
            .arg("-ldl")
            .output()
            .expect("the C compiler can be run");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        Some(Self { folder })
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// Runs the command on this disk.
    #[must_use]
    pub fn under(&self, line: CommandLine) -> CommandLine {
        line.env("LD_PRELOAD", self.folder.path().join("faults.so"))
            .env("DISK_FAULTS", self.control())
    }

    /// Makes calls fail from now on: each `write`, `sync` or `read` on files whose names have this ending, with this error.
    pub fn fail(&self, faults: &[(&str, &str, i32)]) {
        let lines: String = faults
            .iter()
            .map(|(call, suffix, error)| format!("{call} *{suffix} {error}\n"))
            .collect();
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, lines).expect("a temporary file can be written");
        std::fs::rename(draft, self.control()).expect("a temporary file can be renamed");
    }

    /// Makes all calls succeed again.
    pub fn mend(&self) {
        std::fs::remove_file(self.control()).expect("it was failing");
    }
}
