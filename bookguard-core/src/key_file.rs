//! The ledger key: a signed-note private key in the usual text form, in a file that only its owner can read, or given as
//! text by the platform.
//!
//! The file is made once, with the log. Losing it must be loud, so an existing log never gets a new one.
//! [`LedgerKeySource`] says where a node gets its key; the service checks that the key belongs to the log.

mod source;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::entropy;
use crate::ledger::Signer;
use crate::ledger::cosignature::Cosigner;
use crate::private;
pub use source::{KeyNotFile, KeyText, LedgerKeySource};

/// The key's default file: beside the database's file, or in the working directory if there is none.
pub fn default_path(db_file: Option<&Path>) -> PathBuf {
    let Some(file) = db_file else {
        return PathBuf::from("bookguard.key");
    };
    let mut name = file.as_os_str().to_owned();
    name.push(".key");
    PathBuf::from(name)
}

/// A unique name for a log.
pub(crate) fn new_name() -> String {
    format!("bookguard-{}", hex::encode(entropy::bytes::<8>()))
}

/// A ledger key: the log's name and its seed. Debug shows no secret.
#[derive(Clone)]
pub struct LedgerKey {
    /// The log's name.
    pub origin: String,
    seed: [u8; 32],
}

impl std::fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LedgerKey")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl LedgerKey {
    /// A new key for a new log with a unique name.
    pub fn generate() -> Self {
        Self::named(&new_name())
    }

    /// A new key for this name, which was not checked.
    pub fn named(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            seed: entropy::bytes(),
        }
    }

    /// The witness with this key. A key is that of a log or of a witness, never of both.
    ///
    /// # Errors
    /// A sentence, for a name that no witness can have.
    pub fn cosigner(&self) -> Result<Cosigner, String> {
        Cosigner::from_seed(&self.origin, &self.seed).map_err(|e| e.to_string())
    }

    /// The signer with this key.
    ///
    /// # Errors
    /// A sentence, for a name that no log can have.
    pub fn signer(&self) -> Result<Signer, String> {
        self.signer_as(&self.origin)
    }

    /// The signer with this key for a log of another name: a log that continues after a loss keeps its key.
    ///
    /// # Errors
    /// As [`Self::signer`].
    pub fn signer_as(&self, origin: &str) -> Result<Signer, String> {
        Signer::from_seed(origin, &self.seed).map_err(|e| e.to_string())
    }

    /// Whether this is the key of the log with this name and verifier key.
    ///
    /// # Errors
    /// A sentence, for a name that no log can have.
    pub fn is_of(&self, origin: &str, vkey: &str) -> Result<bool, String> {
        Ok(self.signer_as(origin)?.verifier().to_string() == vkey)
    }

    /// The seed, from which other keys are derived.
    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// Reads `PRIVATE+KEY+<origin>+<key id>+<base64 of algorithm and seed>`.
    ///
    /// # Errors
    /// A clause that says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text
            .trim_end_matches(['\n', '\r'])
            .strip_prefix("PRIVATE+KEY+")
            .ok_or("it does not begin with PRIVATE+KEY+")?;
        // Base64 may contain "+"; names and ids cannot.
        let mut parts = rest.splitn(3, '+');
        let (Some(origin), Some(id), Some(data)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err("it has fewer than five parts".to_owned());
        };
        let data = STANDARD
            .decode(data)
            .map_err(|_| "its last part is not base64")?;
        let seed = match data.split_first() {
            Some((1, seed)) => {
                <[u8; 32]>::try_from(seed).map_err(|_| "its seed is not 32 bytes")?
            }
            _ => return Err("it is not an Ed25519 key".to_owned()),
        };
        let key = Self {
            origin: origin.to_owned(),
            seed,
        };
        if key.text()?.split('+').nth(3) != Some(id) {
            return Err("its parts do not belong together".to_owned());
        }
        Ok(key)
    }

    /// Reads the key from its source; `None` if its file does not exist.
    ///
    /// # Errors
    /// A sentence for the operator: the file cannot be read, or the source holds no complete key.
    pub fn find(source: &LedgerKeySource) -> Result<Option<Self>, String> {
        match source {
            LedgerKeySource::File(path) => Self::load(path),
            LedgerKeySource::Text(text) => Self::parse(text.reveal()).map(Some).map_err(|why| {
                format!(
                    "BOOKGUARD_LEDGER_KEY does not hold a complete ledger key: {why}. It must hold the one line of the key's \
                     file, not encoded, or the file's path, which begins with ./ in this folder"
                )
            }),
        }
    }

    /// The text of the key file.
    fn text(&self) -> Result<String, String> {
        let vkey = self.signer()?.verifier().to_string();
        let id = vkey
            .get(self.origin.len() + 1..self.origin.len() + 9)
            .ok_or("its name is too long")?
            .to_owned();
        let data = STANDARD.encode([&[1_u8][..], &self.seed].concat());
        Ok(format!("PRIVATE+KEY+{}+{id}+{data}", self.origin))
    }

    /// Reads the key file; `None` if it does not exist.
    ///
    /// # Errors
    /// A sentence for the operator: the file cannot be read, or holds no complete key.
    pub fn load(path: &Path) -> Result<Option<Self>, String> {
        let mut text = String::new();
        match File::open(path) {
            Ok(file) => file
                .take(4096)
                .read_to_string(&mut text)
                .map_err(|e| format!("the ledger key {} cannot be read: {e}", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(format!(
                    "the ledger key {} cannot be read: {error}",
                    path.display()
                ));
            }
        };
        Self::parse(&text).map(Some).map_err(|why| {
            format!(
                "{} is not a ledger key: {why}. Restore the file that was made with this database",
                path.display()
            )
        })
    }

    /// Creates the key file, whole or not at all, and never over another. Returns `false` if there already is one.
    ///
    /// # Errors
    /// A sentence for the operator: the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<bool, String> {
        let fail =
            |e: io::Error| format!("the ledger key {} cannot be written: {e}", path.display());
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", hex::encode(entropy::bytes::<6>())));
        let text = self.text().map_err(io::Error::other).map_err(fail)?;
        match private::make(path, Path::new(&draft), format!("{text}\n").as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            made => made.map_err(fail)?,
        }
        private::sync(private::folder(path)).map_err(fail)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_key_survives_its_file_and_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = default_path(Some(&folder.path().join("b.db")));
        assert!(LedgerKey::load(&path).unwrap().is_none());
        let key = LedgerKey::generate();
        assert!(key.save(&path).unwrap());
        let loaded = LedgerKey::load(&path).unwrap().unwrap();
        assert_eq!((loaded.origin, loaded.seed), (key.origin, key.seed));
        assert!(!LedgerKey::generate().save(&path).unwrap());
        assert_eq!(LedgerKey::load(&path).unwrap().unwrap().seed, key.seed);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions())
                & 0o777,
            0o600
        );
    }

    #[test]
    fn damaged_keys_are_refused() {
        let text = LedgerKey::generate().text().unwrap();
        for (i, _) in text.char_indices().filter(|(_, c)| *c != '+') {
            let mut broken = text.clone();
            broken.replace_range(i..=i, if &text[i..=i] == "A" { "B" } else { "A" });
            assert!(
                LedgerKey::parse(&broken).is_err(),
                "character {i} of {text}"
            );
        }
        assert!(LedgerKey::parse("").is_err());
    }

    #[test]
    fn debug_shows_no_seed() {
        let key = LedgerKey::generate();
        assert_eq!(
            format!("{key:?}"),
            format!("LedgerKey {{ origin: {:?}, .. }}", key.origin)
        );
    }
}
