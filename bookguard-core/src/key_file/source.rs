//! Where a node gets the ledger key: from a file, or from the key's own text, as container platforms provide secrets.
//!
//! Invariant: nothing here shows the text of a key, not even in part, or text that looks like one.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Where the ledger key comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum LedgerKeySource {
    /// A file, made with a new log if it does not exist.
    File(PathBuf),
    /// The key itself, from the environment. It is never written to a file.
    Text(KeyText),
}

/// The text of a ledger key, or what was meant to be one. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

/// The error for the text of a key in place of a file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyNotFile;

impl LedgerKeySource {
    /// Reads an environment variable: the key itself, or the path of its file.
    ///
    /// A value that contains a key in a wrong form (in quotes, say, in base64, or without its beginning) counts as the key and is
    /// refused later, because a path would be shown in messages, and a key be made there.
    #[must_use]
    pub fn from_variable(value: OsString) -> Self {
        let Some(text) = value.to_str().filter(|text| looks_like_key(text)) else {
            return Self::File(value.into());
        };
        Self::Text(KeyText(text.trim().to_owned()))
    }

    /// Reads the path of a key's file from a place that others can read, and that therefore must not hold the key itself.
    ///
    /// # Errors
    /// [`KeyNotFile`].
    pub fn file(path: PathBuf) -> Result<Self, KeyNotFile> {
        if looks_like_key(&path.to_string_lossy()) {
            return Err(KeyNotFile);
        }
        Ok(Self::File(path))
    }

    /// The file's path, if the source is a file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Text(_) => None,
        }
    }
}

impl KeyText {
    /// The text, for parsing it as a key.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// What the beginning of a key is, in capitals: as it stands in its file, escaped as in an address, in base64 and in hex.
const BEGINNINGS: [&str; 4] = [
    "PRIVATE+KEY",
    "PRIVATE%2BKEY",
    "UFJJVKFURSTLRV",
    "505249564154452B4B4559",
];

/// Whether the text is a key in some form, or contains one. What only could be one is a path if it leads to where files are: to a folder
/// that is there, but not to the root, because a key in base64 may begin with a slash.
fn looks_like_key(text: &str) -> bool {
    let leads_somewhere = || {
        let path = Path::new(text);
        let is_of_files = |folder: &Path| folder.is_dir() && folder.parent().is_some();
        path.exists() || path.parent().is_some_and(is_of_files)
    };
    holds_key(text) || (is_long_word(text) && !leads_somewhere())
}

/// Whether the text begins as a key does, has the beginning of one inside, or a key's id (8 hex digits between plus signs), or
/// ends as one does, with 33 bytes in base64 of which the first says that it is Ed25519.
fn holds_key(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let begins = upper.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    begins.starts_with("PRIVATE+")
        || BEGINNINGS.iter().any(|mark| upper.contains(mark))
        || text.as_bytes().windows(10).any(|part| {
            part.starts_with(b"+")
                && part.ends_with(b"+")
                && part[1..9].iter().all(u8::is_ascii_hexdigit)
        })
        || {
            let bare = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
            let secret = bare.len().checked_sub(44).and_then(|at| bare.get(at..));
            let bytes = secret.and_then(|secret| STANDARD.decode(secret).ok());
            bytes.is_some_and(|bytes| bytes.len() == 33 && bytes[0] == 1)
        }
}

/// Whether the text is one word such as secrets are in base64 or hex. Names of files are shorter, have a full stop, or hold no
/// capitals. Digits tell nothing: a key may lack them, and a name may hold them.
fn is_long_word(text: &str) -> bool {
    let is_around = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
    let word = text.replace(is_around, "");
    let is_of_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    word.len() >= 32
        && word.bytes().all(is_of_base64)
        && (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
            || word.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl fmt::Display for LedgerKeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the ledger key {}", path.display()),
            Self::Text(_) => f.write_str("the ledger key given as text"),
        }
    }
}

impl fmt::Debug for LedgerKeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(…)")
    }
}

impl fmt::Display for KeyNotFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "ledger_key (--ledger-key) names a file and was given what looks like a key itself; others may read it \
             there, so put the key into a file, or into the environment variable BOOKGUARD_LEDGER_KEY. If it is the name of a \
             file in this folder, begin it with ./",
        )
    }
}

impl std::error::Error for KeyNotFile {}

impl<'de> serde::Deserialize<'de> for LedgerKeySource {
    /// Reads from a configuration file, which may only name a file.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = PathBuf::deserialize(deserializer)?;
        Self::file(path).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::super::LedgerKey;
    use super::*;

    #[test]
    fn a_variable_holds_a_path_or_a_key() {
        let key = LedgerKey::generate().text().unwrap();
        let rest = key.strip_prefix("PRIVATE+KEY+").unwrap();
        let wrapped = |text: &str| format!("{}\n{}", &text[..64], &text[64..]);
        let here = env!("CARGO_MANIFEST_DIR");
        for (value, is_key) in [
            ("/run/secrets/ledger.key", false),
            ("a+b.key", false),
            ("c++/12345678.key", false),
            ("./private+1.key", false),
            // Begins as a key does, so it is not a name for one.
            ("PRIVATE+s3cret", true),
            (" 'private+s3cret'", true),
            (&key, true),
            (&format!("{key}\n"), true),
            // Not a key, but contains one.
            (&format!("\"{key}\""), true),
            (rest, true),
            (&key[key.len() - 44..], true),
            (&format!(" \"{}\"\n", &key[key.len() - 50..]), true),
            ("/run/secrets/bookguard/production/ledgerkeyfile1", false),
            (&key.to_lowercase(), true),
            // In the form of a platform's secrets, also cut.
            (&STANDARD.encode(&key), true),
            (&STANDARD.encode(format!("{key}\n")), true),
            (&STANDARD.encode(format!("\"{key}")), true),
            (&STANDARD.encode(&key)[4..60], true),
            (&URL_SAFE_NO_PAD.encode(&key), true),
            (&format!("\"{}\n\"", wrapped(&STANDARD.encode(&key))), true),
            (&hex::encode(&key), true),
            (&hex::encode(&key).to_uppercase(), true),
            (&key.replace('+', "%2B"), true),
            // The seed alone.
            ("CzBVep/E6Q4zWH2ix+wRNluApcrvFDleg6jN8hc8YYY=", true),
            (&hex::encode([0x5a; 32]), true),
            // Without a digit, as one key in some thousands is; and as if it were a file in the root.
            ("CzBVepYEQDzWHQixUwRNluApcrvFDlegSjNmhcZYYYY=", true),
            ("CzBVepYEQDzWHQixUwRNluApcrvFDlegSjNmhcZYYYY", true),
            ("/zBVepYEQDzWHQixUwRNluApcrvFDlegSjNmhcZYYYY=", true),
            ("/zBVep9E6Q4zWH2ix+wRNluApcrvFDleg6jN8hc8YYY=", true),
            // A long word, and a name in a folder that is there.
            ("ledger-Key-of-Bookguard-in-Production-1", true),
            ("ledgerKeyOfBookguardInProductionAlone", true),
            ("./ledgerKeyOfBookguardInProductionAlone", false),
            ("ledger-Key-of-Bookguard-in-Production-1.key", false),
            (&format!("{here}/ledgerKeyOfBookguardInProduction1"), false),
            ("ledger-key-of-bookguard-in-production-1", false),
        ] {
            let source = LedgerKeySource::from_variable(value.into());
            assert_eq!(source.path().is_none(), is_key, "{source}");
            assert_eq!(LedgerKeySource::file(value.into()).is_err(), is_key);
        }
    }

    #[test]
    fn no_form_of_it_shows_the_key() {
        let key = LedgerKey::generate().text().unwrap();
        let source = LedgerKeySource::from_variable(key.clone().into());
        let LedgerKeySource::Text(text) = &source else {
            panic!("{source} is a key")
        };
        let refused = LedgerKeySource::file(key.clone().into()).unwrap_err();
        let toml: Result<LedgerKeySource, serde_json::Error> =
            serde_json::from_value(key.clone().into());
        let shown = format!(
            "{source} {source:?} {text:?} {refused} {refused:?} {}",
            toml.unwrap_err()
        );
        for part in key.split('+').filter(|part| part.len() > 7) {
            assert!(!shown.contains(part), "{shown}");
        }
    }
}
