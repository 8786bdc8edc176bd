//! Chooses the server binaries of this machine: the newest of Debian's packages, which are installed side by side, or else
//! those on the path.
//!
//! Invariant: never a version that the product refuses.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest version that the product supports.
const OLDEST: u32 = 15;
const SIDE_BY_SIDE: &str = "/usr/lib/postgresql";

/// A folder with `initdb`, `postgres`, `pg_ctl` and `pg_basebackup`.
#[derive(Debug, Clone)]
pub struct Binaries {
    pub folder: PathBuf,
    version: String,
}

impl Binaries {
    /// The binaries to use, or a clause that says what is missing.
    pub fn find() -> Result<Self, String> {
        let mut newest_first: Vec<(u32, PathBuf)> = std::fs::read_dir(SIDE_BY_SIDE)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let major = entry.file_name().to_str()?.parse().ok()?;
                Some((major, entry.path().join("bin")))
            })
            .collect();
        newest_first.sort_unstable_by(|a, b| b.cmp(a));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = newest_first.into_iter().map(|(_, folder)| folder);
        choose(folders.chain(std::env::split_paths(&path)))
    }
}

impl fmt::Display for Binaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.version, self.folder.display())
    }
}

/// The first folder whose server is new enough.
fn choose(folders: impl Iterator<Item = PathBuf>) -> Result<Binaries, String> {
    let mut too_old = None;
    for folder in folders {
        let complete = ["initdb", "postgres", "pg_ctl", "pg_basebackup"]
            .iter()
            .all(|name| folder.join(name).is_file());
        let Some(version) = complete.then(|| version(&folder)).flatten() else {
            continue;
        };
        if major(&version) >= Some(OLDEST) {
            return Ok(Binaries { folder, version });
        }
        too_old.get_or_insert(format!("{version} in {}", folder.display()));
    }
    Err(match too_old {
        Some(found) => format!("PostgreSQL {OLDEST} or newer is not installed, only {found}"),
        None => format!(
            "PostgreSQL {OLDEST} or newer is not installed: no initdb, postgres, pg_ctl and pg_basebackup in \
             {SIDE_BY_SIDE}/*/bin or on the path (Debian: apt-get install postgresql)"
        ),
    })
}

/// Parses text such as `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn version(folder: &Path) -> Option<String> {
    let output = Command::new(folder.join("postgres"))
        .arg("--version")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}

/// Returns 15 for `15.18`, and 18 for `18beta1`.
fn major(version: &str) -> Option<u32> {
    let number = version.split("(PostgreSQL) ").nth(1)?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_postgres_says() {
        for (said, expected) in [
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
                Some(15),
            ),
            ("postgres (PostgreSQL) 18beta1", Some(18)),
            ("postgres (PostgreSQL) 9.6.24", Some(9)),
            ("postgres", None),
        ] {
            assert_eq!(major(said), expected, "{said}");
        }
    }

    #[test]
    fn without_binaries_it_says_where_it_looked_and_what_to_install() {
        let why = choose([PathBuf::from("/nowhere")].into_iter()).expect_err("nothing is there");
        assert!(why.contains("/usr/lib/postgresql/*/bin"), "{why}");
        assert!(why.contains("apt-get install postgresql"), "{why}");
    }
}
