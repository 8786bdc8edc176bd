//! A disk that fails as it is told, under a process of its own: calls of the system return an error, as those of a real disk do.
//!
//! A small library, built by the C compiler that the workspace's own dependencies need, stands between the program and the
//! system's. Invariant: nothing fails before it is told to, nor in any other process.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::program::CommandLine;

/// An error of the device.
pub const EIO: i32 = 5;
/// No space left.
pub const ENOSPC: i32 = 28;

/// The disk of one process.
pub struct DiskFaults {
    folder: TempDir,
}

impl DiskFaults {
    /// A disk that works; `None` where there is no such library to be had.
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

    /// The command on this disk.
    #[must_use]
    pub fn under(&self, line: CommandLine) -> CommandLine {
        line.env("LD_PRELOAD", self.folder.path().join("faults.so"))
            .env("DISK_FAULTS", self.control())
    }

    /// From now on calls fail: each `write`, `sync` or `read` on files whose names end so, with this error.
    pub fn fail(&self, faults: &[(&str, &str, i32)]) {
        let lines: String = faults
            .iter()
            .map(|(call, suffix, error)| format!("{call} *{suffix} {error}\n"))
            .collect();
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, lines).expect("a temporary file can be written");
        std::fs::rename(draft, self.control()).expect("a temporary file can be renamed");
    }

    /// From now on nothing fails.
    pub fn mend(&self) {
        std::fs::remove_file(self.control()).expect("it was failing");
    }
}
