//! What a log keeps of its witnesses: how it last went with each, and their cosignatures.
//!
//! `features/cosignatures` decides when a witness is asked. Invariant: the note of a stored cosignature is a checkpoint that the
//! log's key signed, with one further line that verifies under the witness's key.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Timestamp;

/// How it went with the witness, or witnesses, at one address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WitnessState {
    /// The address that takes checkpoints, without `/add-checkpoint`.
    pub url: String,
    /// The log's name when it was last asked. Under another name, a witness has cosigned nothing yet.
    pub origin: String,
    /// The size that it has cosigned last, as far as is known.
    pub size: u64,
    /// The lease of whoever asks it now, or asked it last.
    pub lease: i64,
    /// Before then, nobody else asks it.
    pub due: Timestamp,
    /// When it was last asked.
    pub asked_at: Timestamp,
    /// When it last cosigned.
    pub cosigned_at: Option<Timestamp>,
    /// The same for each of its keys, in note form, that has ever signed. Empty if that was not noted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signed: BTreeMap<String, Timestamp>,
    /// Those of its keys, in note form, that were expected to sign when it last cosigned. Empty if that was not noted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub expected: BTreeSet<String>,
    /// How often in a row it did not cosign.
    pub failures: u32,
    /// Why it did not cosign, if it did not. An alarm stays until it cosigns.
    pub trouble: Option<WitnessTrouble>,
}

/// Why a witness did not cosign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WitnessTrouble {
    /// Whether it shows that the log lost entries, or is forked.
    pub is_alarm: bool,
    /// What happened, in words.
    pub what: String,
}

/// A checkpoint that a witness has cosigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCosignature {
    /// The witness's key, in note form.
    pub key: String,
    /// The size of the checkpoint.
    pub size: u64,
    /// The log's signed checkpoint, and after it the witness's line.
    pub note: String,
}

impl WitnessState {
    /// The id of the row of the witness at an address.
    #[must_use]
    pub fn id(url: &str) -> [u8; 32] {
        Sha256::digest(url).into()
    }

    /// When it last cosigned with this key.
    #[must_use]
    pub fn signed_at(&self, key: &str) -> Option<Timestamp> {
        match self.signed.is_empty() {
            true => self.cosigned_at,
            false => self.signed.get(key).copied(),
        }
    }

    /// Why it did not cosign with this key when it was last asked, in words, if it did not.
    #[must_use]
    pub fn trouble_of(&self, key: &str) -> Option<String> {
        match &self.trouble {
            Some(trouble) => Some(trouble.what.clone()),
            // The policy names it only since then.
            None if !self.expected.contains(key) => None,
            None if self.signed_at(key) == self.cosigned_at => None,
            None => Some(format!(
                "another witness at its address signed, and it did not; ask its operator whether {key} is still its key"
            )),
        }
    }

    /// Whether it has shown that the log lost entries, or is forked, and has not cosigned since.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        self.trouble
            .as_ref()
            .is_some_and(|trouble| trouble.is_alarm)
    }
}

impl StoredCosignature {
    /// The id by which rows name the witness.
    #[must_use]
    pub fn id(&self) -> [u8; 32] {
        Sha256::digest(&self.key).into()
    }

    /// The witness's line, if what it cosigned is this checkpoint.
    #[must_use]
    pub fn line_of(&self, checkpoint: &str) -> Option<&str> {
        self.note
            .strip_prefix(checkpoint)
            .filter(|line| !line.is_empty())
    }

    /// The log's signed checkpoint.
    #[must_use]
    pub fn checkpoint(&self) -> &str {
        let text = self.note.strip_suffix('\n').unwrap_or(&self.note);
        &self.note[..text.rfind('\n').map_or(0, |end| end + 1)]
    }
}
