//! Profiles: servers that `login` saved, each with its key or with the command that prints the key.
//!
//! Invariants: only their owner can read the file, and it is replaced as a whole; a profile's key is sent only to the profile's
//! server; a message about a faulty file shows none of its lines, because they may hold a key.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bookguard_core::private;
use serde::{Deserialize, Serialize};

use crate::args::Var;
use crate::failure::Failure;

/// The profile that `login` writes if none is named.
pub const UNNAMED: &str = "default";
/// The most characters of a profile's name.
const NAME_CHARS: usize = 64;

/// The profiles of a user.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// The profile of commands that name no other place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The profiles by name.
    #[serde(default, rename = "profile")]
    pub all: BTreeMap<String, Profile>,
}

/// A server, and how to get the key for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The server's address.
    pub url: String,
    /// Whether the key is an operator's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operator: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    credential_command: Option<String>,
}

/// Where a profile's key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential<'a> {
    /// The key itself.
    Key(&'a str),
    /// A shell command that prints it.
    Command(&'a str),
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Profile {
    /// A profile of this server.
    pub fn new(url: String, operator: bool, credential: Credential<'_>) -> Self {
        let (api_key, credential_command) = match credential {
            Credential::Key(key) => (Some(key.to_owned()), None),
            Credential::Command(command) => (None, Some(command.to_owned())),
        };
        Self {
            url,
            operator,
            api_key,
            credential_command,
        }
    }

    /// Where the key comes from; `None` if the file names no way, or two.
    pub fn credential(&self) -> Option<Credential<'_>> {
        match (&self.api_key, &self.credential_command) {
            (Some(key), None) => Some(Credential::Key(key)),
            (None, Some(command)) => Some(Credential::Command(command)),
            _ => None,
        }
    }

    /// The key, as the file or the command says it.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the command fails.
    pub fn key(&self) -> Result<String, Failure> {
        match self.credential() {
            Some(Credential::Key(key)) => Ok(key.to_owned()),
            Some(Credential::Command(command)) => printed_by(command),
            None => Err(Failure::Usage(format!(
                "the profile of {} needs either \"api_key\" or \"credential_command\"; repeat `bookguard login`",
                self.url
            ))),
        }
    }
}

/// What a shell command prints. It may ask the person at the terminal for something, so nothing limits its time.
///
/// # Errors
/// [`Failure::Usage`], without what it printed.
pub fn printed_by(command: &str) -> Result<String, Failure> {
    let failed = |why: String| Failure::Usage(format!("the credential command `{command}` {why}"));
    let ran = Command::new("sh")
        .args(["-c", command])
        .stderr(Stdio::inherit())
        .stdin(Stdio::inherit())
        .output()
        .map_err(|e| failed(format!("cannot be run: {e}")))?;
    if !ran.status.success() {
        return Err(failed(format!("failed ({})", ran.status)));
    }
    String::from_utf8(ran.stdout).map_err(|_| failed("printed something that is not text".into()))
}

impl Profiles {
    /// Reads the user's profiles. Without a file, the user has none.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a file that cannot be read, is not valid, or that others can read.
    pub fn load(var: Var<'_>) -> Result<Self, Failure> {
        let Some(path) = path(var) else {
            return Ok(Self::default());
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                return Err(wrong(&path, &format!("cannot be read: {error}")));
            }
        };
        if private::mode(&path).is_some_and(|mode| mode & 0o077 != 0) {
            let shown = path.display();
            return Err(wrong(
                &path,
                &format!("holds keys and can be read by other users; run `chmod 600 {shown}`"),
            ));
        }
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |at| {
                1 + text[..at.start].matches('\n').count()
            });
            // The parser's own words may quote the value, which may be a key.
            wrong(
                &path,
                &format!(
                    "is not valid in line {line}. A profile is a table such as [profile.default], with \"url\" and either \"api_key\" or \
                     \"credential_command\", and \"operator = true\" for an operator's key. Correct the line, or remove the file and \
                     repeat `bookguard login`"
                ),
            )
        })
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// [`Failure::Unexpected`] if it cannot be written; then it is as it was.
    pub fn save(&self, var: Var<'_>) -> Result<PathBuf, Failure> {
        let path = path(var).ok_or_else(|| {
            Failure::Usage(
                "there is no place for profiles, because neither HOME nor XDG_CONFIG_HOME is set; set one of them"
                    .to_owned(),
            )
        })?;
        let cannot = |e: io::Error| {
            Failure::Unexpected(format!("{} cannot be written: {e}", path.display()))
        };
        let text = toml::to_string(self).map_err(|e| cannot(io::Error::other(e)))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut maker = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
        maker.recursive(true).create(folder).map_err(cannot)?;
        // Only its owner can read it, from the beginning.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
        file.write_all(text.as_bytes()).map_err(cannot)?;
        file.as_file().sync_all().map_err(cannot)?;
        file.persist(&path).map_err(|e| cannot(e.error))?;
        Ok(path)
    }

    /// The profile with this name.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the names that there are.
    pub fn named(&self, name: &str) -> Result<&Profile, Failure> {
        self.all.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.all.keys().map(String::as_str).collect();
            Failure::Usage(match known.is_empty() {
                true => format!("there is no profile \"{name}\"; `bookguard login` makes one"),
                false => format!(
                    "there is no profile \"{name}\"; there are: {}",
                    known.join(", ")
                ),
            })
        })
    }
}

/// Checks the name of a profile.
///
/// # Errors
/// [`Failure::Usage`].
pub fn check_name(name: &str) -> Result<(), Failure> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match (1..=NAME_CHARS).contains(&name.len()) && name.chars().all(allowed) {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "\"{name}\" is not a profile's name: use 1 to {NAME_CHARS} letters, digits, hyphens, dots and underscores"
        ))),
    }
}

/// The file of the user's profiles (XDG Base Directory Specification).
fn path(var: Var<'_>) -> Option<PathBuf> {
    let folder = var("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| Some(PathBuf::from(var("HOME")?).join(".config")))?;
    Some(folder.join("bookguard").join("profiles.toml"))
}

fn wrong(path: &Path, why: &str) -> Failure {
    Failure::Usage(format!("{} {why}", path.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn at(folder: &Path) -> impl Fn(&str) -> Option<OsString> + '_ {
        move |name| (name == "XDG_CONFIG_HOME").then(|| folder.as_os_str().to_owned())
    }

    fn why(failure: Failure) -> String {
        match failure {
            Failure::Usage(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_saved_is_read_again_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let var = at(folder.path());
        assert!(Profiles::load(&var).unwrap().all.is_empty());
        let key = Profile::new("https://a.example".into(), false, Credential::Key("bgk_1"));
        let command = Profile::new(
            "https://b.example".into(),
            true,
            Credential::Command("printf ' bgk_2\\n'"),
        );
        let profiles = Profiles {
            default: Some("a".into()),
            all: [("a".to_owned(), key), ("b.2-x_y".to_owned(), command)].into(),
        };
        let path = profiles.save(&var).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let read = Profiles::load(&var).unwrap();
        assert_eq!(
            (read.default.as_deref(), &read.all),
            (Some("a"), &profiles.all)
        );
        assert_eq!(read.named("a").unwrap().key().unwrap(), "bgk_1");
        assert_eq!(read.named("b.2-x_y").unwrap().key().unwrap(), " bgk_2\n");
        assert!(why(read.named("c").unwrap_err()).ends_with("there are: a, b.2-x_y"));
        assert!(!format!("{read:?}").contains("bgk_"));
        // Nothing else is left beside it.
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_without_showing_it() {
        let folder = tempfile::tempdir().unwrap();
        let var = at(folder.path());
        let path = Profiles::default().save(&var).unwrap();
        for (text, said) in [
            ("[profile.a]\nurl = \"u\"\napi_key = bgk_x", "in line 3"),
            ("api_key = \"bgk_x\"", "in line 1"),
            ("[profile.a]\napi_key = \"bgk_x\"", "in line 1"),
            ("[profile.a]\nurl = \"u\"\nkey = \"bgk_x\"", "in line 3"),
            ("[profile]\napi_key = \"bgk_x\"", "in line 2"),
            (
                "[profile.a]\nurl = \"u\"\napi_key = \"bgk_y\"\noperator = \"bgk_x\"",
                "in line 4",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let why = why(Profiles::load(&var).unwrap_err());
            assert!(why.contains(said) && !why.contains("bgk_x"), "{why}");
        }
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(why(Profiles::load(&var).unwrap_err()).contains("chmod 600"));
    }

    #[test]
    fn a_profile_needs_one_way_to_its_key_and_says_when_that_fails() {
        let both = Profile {
            url: "https://a.example".into(),
            operator: false,
            api_key: Some("bgk_x".into()),
            credential_command: Some("true".into()),
        };
        assert!(why(both.key().unwrap_err()).contains("needs either"));
        let failing = Profile::new("u".into(), false, Credential::Command("echo bgk_x; exit 3"));
        let said = why(failing.key().unwrap_err());
        assert!(said.contains("failed (exit status: 3)"), "{said}");
    }

    #[test]
    fn names_are_plain() {
        for name in ["a", "acme-prod", "a.b_c"] {
            check_name(name).unwrap();
        }
        for name in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
