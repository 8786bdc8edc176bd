//! C2SP tlog-cosignature, the Ed25519 kind: a witness's statement that a checkpoint is of the largest consistent tree that it
//! has seen of the log, and when.
//!
//! `note` has the envelope and the keys' text form; `witness` decides what may be cosigned. Invariant: a cosignature covers
//! the whole text of the checkpoint that it is checked with.

use std::fmt;
use std::str::FromStr;

use super::note::{self, COSIGNATURE, KeyError, NoteError, Signer, VerifierKey};

/// Bytes of the time before the signature.
const TIME_BYTES: usize = 8;
/// Bytes of an Ed25519 signature.
const SIGNATURE_BYTES: usize = 64;

/// A witness's public key. Displayed and parsed as `name+id+key` with signature type 0x04.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosignerKey(VerifierKey);

impl CosignerKey {
    /// The witness's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Checks this witness's cosignature in a note of a checkpoint. Returns its time, in seconds since 1970 (UTC).
    ///
    /// # Errors
    /// As [`VerifierKey::open`]; also [`NoteError::Malformed`] for a time that no cosignature may have.
    pub fn verify(&self, note: &str) -> Result<u64, NoteError> {
        self.line(note).map(|(_, time)| time)
    }

    /// This witness's signature line in a note of a checkpoint, which is checked, and its time, in seconds since 1970 (UTC).
    ///
    /// # Errors
    /// As [`CosignerKey::verify`].
    pub fn line(&self, note: &str) -> Result<(String, u64), NoteError> {
        let (text, signed) = self.0.find(note)?;
        let (time, signature) =
            signed
                .split_first_chunk::<TIME_BYTES>()
                .ok_or(NoteError::Malformed(
                    "a cosignature is shorter than its time",
                ))?;
        let time = u64::from_be_bytes(*time);
        if i64::try_from(time).is_err() {
            return Err(NoteError::Malformed(
                "the time of a cosignature exceeds 2^63 - 1",
            ));
        }
        self.0.check(&message(text, time), signature)?;
        Ok((self.0.line(&signed), time))
    }

    /// The public key itself.
    pub(super) fn key(&self) -> &[u8; 32] {
        self.0.key()
    }
}

impl fmt::Display for CosignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CosignerKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        VerifierKey::parse(text, COSIGNATURE).map(Self)
    }
}

/// A witness's private key. Its `Debug` shows the public half only.
#[derive(Debug, Clone)]
pub struct Cosigner(Signer);

impl Cosigner {
    /// The witness of that name with this Ed25519 seed. The seed may sign nothing else, not even for the same witness under
    /// another name: the signed message does not hold the name.
    ///
    /// # Errors
    /// [`KeyError::Name`].
    pub fn from_seed(name: &str, seed: &[u8; 32]) -> Result<Self, KeyError> {
        Signer::of_kind(name, COSIGNATURE, seed).map(Self)
    }

    /// The key that checks this witness's cosignatures.
    #[must_use]
    pub fn verifier(&self) -> CosignerKey {
        CosignerKey(self.0.verifier().clone())
    }

    /// The signature line to add to the note of the checkpoint with this text. `time` is in seconds since 1970 (UTC).
    #[must_use]
    pub fn cosign(&self, text: &str, time: u64) -> String {
        self.0.line(&time.to_be_bytes(), &message(text, time))
    }
}

/// What a note has in the form of cosignatures: the witness's name, its key's id, and the time in seconds. Nothing is checked.
pub(crate) fn lines(note: &str) -> Vec<(String, [u8; 4], u64)> {
    let signed = note::signatures(note).into_iter();
    let read = signed.filter_map(|(name, id, signed)| {
        let (time, signature) = signed.split_first_chunk::<TIME_BYTES>()?;
        (signature.len() == SIGNATURE_BYTES).then(|| (name, id, u64::from_be_bytes(*time)))
    });
    read.collect()
}

/// The message that is signed: a header, the time, and the checkpoint's text.
fn message(text: &str, time: u64) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Checkpoint, leaf_hash};

    fn log() -> Signer {
        Signer::from_seed("example.com/log", &[1; 32]).unwrap()
    }

    fn witness() -> Cosigner {
        Cosigner::from_seed("witness.example.com/w1", &[2; 32]).unwrap()
    }

    fn cosigned(time: u64) -> (String, String) {
        let note = Checkpoint::sign(&log(), 3, leaf_hash(b"root"));
        let text = log().verifier().open(&note).unwrap().to_owned();
        let line = witness().cosign(&text, time);
        (note, line)
    }

    /// The example of the specification.
    #[test]
    fn the_message_is_the_one_that_is_specified() {
        let text =
            "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
        assert_eq!(
            message(text, 1_679_315_147),
            "cosignature/v1\ntime 1679315147\nexample.com/behind-the-sofa\n20852163\n\
             CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
        );
    }

    #[test]
    fn a_cosigned_note_is_of_log_and_witness() {
        let (note, line) = cosigned(1_700_000_000);
        let note = note + &line;
        assert_eq!(witness().verifier().verify(&note), Ok(1_700_000_000));
        assert!(Checkpoint::open(&note, log().verifier()).is_ok());
    }

    #[test]
    fn every_changed_byte_of_a_cosignature_is_noticed() {
        let (note, line) = cosigned(1_700_000_000);
        let key = witness().verifier();
        for at in 0..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else {
                continue;
            };
            assert!(key.verify(&(note.clone() + &changed)).is_err(), "{changed}");
        }
        let among_others = format!("{note}{line}");
        assert_eq!(key.line(&among_others), Ok((line.clone(), 1_700_000_000)));
        for (from, to) in [("3\n", "4\n"), ("example", "exemple")] {
            let text = note.replacen(from, to, 1);
            assert!(key.verify(&(text + &line)).is_err());
        }
    }

    #[test]
    fn what_is_no_cosignature_of_this_witness_is_refused() {
        let (note, line) = cosigned(7);
        let key = witness().verifier();
        let unsigned = |refused| matches!(refused, Err(NoteError::Unsigned { .. }));
        assert!(unsigned(key.verify(&note)));
        for (name, seed) in [("witness.example.com/w1", 3), ("witness.example.com/w2", 2)] {
            let other = Cosigner::from_seed(name, &[seed; 32]).unwrap().verifier();
            assert!(unsigned(other.verify(&(note.clone() + &line))));
        }
        let malformed = |refused| matches!(refused, Err(NoteError::Malformed(_)));
        assert!(malformed(key.verify(&format!("{note}{line}{line}"))));
        let (note, late) = cosigned(1 << 63);
        assert!(malformed(key.verify(&(note + &late))));
    }

    #[test]
    fn the_cosignatures_of_a_note_are_listed_without_the_logs_own_line() {
        let (note, line) = cosigned(1_700_000_000);
        assert_eq!(lines(&note), []);
        let listed = lines(&(note + &line));
        let [(name, id, time)] = listed.as_slice() else {
            panic!("{listed:?}");
        };
        let key = witness().verifier().to_string();
        assert!(key.starts_with(&format!("{name}+{}+", hex::encode(id))));
        assert_eq!(*time, 1_700_000_000);
        assert_eq!(lines("no note"), []);
    }

    #[test]
    fn keys_of_logs_and_of_witnesses_are_not_confused() {
        let witness = witness().verifier().to_string();
        let log = log().verifier().to_string();
        assert_eq!(witness.parse::<CosignerKey>().unwrap().to_string(), witness);
        let (found, expected) = (0x01, 0x04);
        let kind = KeyError::Kind { found, expected };
        assert_eq!(log.parse::<CosignerKey>().unwrap_err(), kind);
        let (found, expected) = (0x04, 0x01);
        let kind = KeyError::Kind { found, expected };
        assert_eq!(witness.parse::<VerifierKey>().unwrap_err(), kind);
    }
}
