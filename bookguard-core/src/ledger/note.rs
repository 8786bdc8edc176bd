//! C2SP signed-note: a text with Ed25519 signatures, and the keys that make and check them.
//!
//! `checkpoint` reads the text; the caller keeps the seed. Invariant: no text leaves this module unverified, and no secret
//! leaves a [`Signer`].

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

/// The longest note that is read, in bytes. Sixteen post-quantum signatures of witnesses, the number that a verifier must
/// accept, take about 110 kB in base64.
pub const MAX_NOTE_BYTES: usize = 256 * 1024;
/// Maximum signature lines that are read; the format demands at least 16.
pub const MAX_SIGNATURES: usize = 100;
/// The longest key name, in bytes: the maximum that witnesses accept as an origin.
pub const MAX_NAME_BYTES: usize = 255;

/// The signature type byte of plain Ed25519.
const ED25519: u8 = 0x01;
const ID_BYTES: usize = 4;

/// A public key that checks notes. Displayed and parsed as `name+id+key`, the form in which it is published.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    id: [u8; ID_BYTES],
    key: VerifyingKey,
}

impl VerifierKey {
    /// The name of the signer; a log's origin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks a note and returns its text, final newline included. Signatures of other keys are read and ignored.
    ///
    /// # Errors
    /// [`NoteError::TooLong`], [`NoteError::TooManySignatures`] and [`NoteError::Malformed`] before any cryptography;
    /// [`NoteError::Unsigned`] if the note has no signature of this key; [`NoteError::Signature`] if that signature is
    /// wrong.
    pub fn open<'a>(&self, note: &'a str) -> Result<&'a str, NoteError> {
        let (text, signatures) = split(note)?;
        let mut own = None;
        for (count, line) in signatures.split_terminator('\n').enumerate() {
            if count == MAX_SIGNATURES {
                return Err(NoteError::TooManySignatures);
            }
            let line = SignatureLine::parse(line)?;
            if line.name != self.name || line.id() != self.id {
                continue;
            }
            if own.replace(line).is_some() {
                return Err(NoteError::Malformed("the key has signed twice"));
            }
        }
        let own = own.ok_or_else(|| NoteError::Unsigned {
            name: self.name.clone(),
        })?;
        let signature = Signature::from_slice(&own.bytes[ID_BYTES..]);
        signature
            .and_then(|signature| self.key.verify_strict(text.as_bytes(), &signature))
            .map_err(|_| NoteError::Signature {
                name: self.name.clone(),
            })?;
        Ok(text)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut typed = vec![ED25519];
        typed.extend_from_slice(self.key.as_bytes());
        let (name, id) = (&self.name, hex::encode(self.id));
        write!(f, "{name}+{id}+{}", STANDARD.encode(typed))
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({self})")
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        // The base64 may contain plus signs, but the name cannot: the first two are the separators.
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::Form);
        };
        check_name(name)?;
        // Bounded before decoding: 33 bytes are 44 characters.
        let typed = (key.len() == 44)
            .then(|| STANDARD.decode(key).ok())
            .flatten()
            .ok_or(KeyError::Form)?;
        let [kind, key @ ..] = typed.as_slice() else {
            return Err(KeyError::Form);
        };
        if *kind != ED25519 {
            return Err(KeyError::Kind(*kind));
        }
        let key = <&[u8; 32]>::try_from(key).map_err(|_| KeyError::Form)?;
        let key = VerifyingKey::from_bytes(key).map_err(|_| KeyError::Point)?;
        if key.is_weak() {
            return Err(KeyError::Point);
        }
        if hex::encode(key_id(name, &key)) != id {
            return Err(KeyError::Id);
        }
        Ok(Self {
            name: name.to_owned(),
            id: key_id(name, &key),
            key,
        })
    }
}

/// A private key that signs notes under its name. Its `Debug` shows the public half only.
#[derive(Clone)]
pub struct Signer {
    public: VerifierKey,
    secret: SigningKey,
}

impl Signer {
    /// The signer of that name with this Ed25519 seed (RFC 8032 §5.1.5).
    ///
    /// # Errors
    /// [`KeyError::Name`].
    pub fn from_seed(name: &str, seed: &[u8; 32]) -> Result<Self, KeyError> {
        check_name(name)?;
        let secret = SigningKey::from_bytes(seed);
        let key = secret.verifying_key();
        let public = VerifierKey {
            name: name.to_owned(),
            id: key_id(name, &key),
            key,
        };
        Ok(Self { public, secret })
    }

    /// The key that checks this signer's notes.
    #[must_use]
    pub fn verifier(&self) -> &VerifierKey {
        &self.public
    }

    /// The name that notes are signed under; a log's origin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.public.name
    }

    /// The note of this text with this single signature.
    ///
    /// # Errors
    /// [`NoteError::Malformed`] for a text that no note can hold: without a final newline, or with control characters.
    pub fn sign(&self, text: &str) -> Result<String, NoteError> {
        check_text(text)?;
        let mut line = self.public.id.to_vec();
        line.extend_from_slice(&self.secret.sign(text.as_bytes()).to_bytes());
        let (name, line) = (self.name(), STANDARD.encode(line));
        Ok(format!("{text}\n\u{2014} {name} {line}\n"))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// A `— name base64(id ‖ signature)` line, not yet checked against any key.
struct SignatureLine<'a> {
    name: &'a str,
    bytes: Vec<u8>,
}

impl<'a> SignatureLine<'a> {
    fn parse(line: &'a str) -> Result<Self, NoteError> {
        let malformed = NoteError::Malformed(
            "a signature line is an em dash, a space, the key name, a space and base64",
        );
        let parts = line
            .strip_prefix("\u{2014} ")
            .and_then(|rest| rest.split_once(' '));
        let Some((name, signature)) = parts else {
            return Err(malformed);
        };
        match STANDARD.decode(signature) {
            Ok(bytes) if bytes.len() > ID_BYTES && check_name(name).is_ok() => {
                Ok(Self { name, bytes })
            }
            _ => Err(malformed),
        }
    }

    fn id(&self) -> &[u8] {
        &self.bytes[..ID_BYTES]
    }
}

/// Splits a note at its last empty line into the text and the signature lines.
fn split(note: &str) -> Result<(&str, &str), NoteError> {
    if note.len() > MAX_NOTE_BYTES {
        return Err(NoteError::TooLong);
    }
    let end = note
        .rfind("\n\n")
        .ok_or(NoteError::Malformed("it has no empty line"))?;
    let (text, signatures) = (&note[..=end], &note[end + 2..]);
    check_text(text)?;
    if !signatures.ends_with('\n') {
        return Err(NoteError::Malformed(
            "it has no signature line, or its last line is cut",
        ));
    }
    Ok((text, signatures))
}

fn check_text(text: &str) -> Result<(), NoteError> {
    if !text.ends_with('\n') {
        return Err(NoteError::Malformed("its text does not end in a newline"));
    }
    if text.bytes().any(|byte| byte < 0x20 && byte != b'\n') {
        return Err(NoteError::Malformed("its text has control characters"));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), KeyError> {
    let allowed = |c: char| c != '+' && !c.is_whitespace() && !c.is_control();
    let good = !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(allowed);
    good.then_some(()).ok_or(KeyError::Name)
}

/// SHA-256(name ‖ newline ‖ type ‖ key), the first four bytes.
fn key_id(name: &str, key: &VerifyingKey) -> [u8; ID_BYTES] {
    let digest = Sha256::new()
        .chain_update(name)
        .chain_update([b'\n', ED25519])
        .chain_update(key.as_bytes())
        .finalize();
    [digest[0], digest[1], digest[2], digest[3]]
}

/// Why a verifier key or key name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// Not `name+id+base64`.
    Form,
    /// The name is empty, longer than 255 bytes, or contains a space, plus or control character.
    Name,
    /// A signature type other than Ed25519.
    Kind(u8),
    /// The bytes are not a usable Ed25519 public key.
    Point,
    /// The id does not match this name and key.
    Id,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str(
                "a verifier key is written as its name, its id in 8 lower-case hex digits and its base64, \
                 joined by plus signs",
            ),
            Self::Name => write!(
                f,
                "a key name has 1 to {MAX_NAME_BYTES} bytes without spaces, plus signs or control characters"
            ),
            Self::Kind(kind) => write!(
                f,
                "the verifier key is of signature type {kind:#04x}; only Ed25519 (0x01) is supported"
            ),
            Self::Point => f.write_str("the verifier key is not a usable Ed25519 public key"),
            Self::Id => f.write_str(
                "the id in the verifier key is not that of its name and key; part of it was changed or cut",
            ),
        }
    }
}

impl std::error::Error for KeyError {}

/// Why a note is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteError {
    /// Longer than [`MAX_NOTE_BYTES`].
    TooLong,
    /// More than [`MAX_SIGNATURES`] signature lines.
    TooManySignatures,
    /// Not a note: it breaks this rule.
    Malformed(&'static str),
    /// The expected key has not signed it.
    Unsigned {
        /// Name of the expected key.
        name: String,
    },
    /// The signature under the expected key's name does not match the text.
    Signature {
        /// Name of the expected key.
        name: String,
    },
}

impl fmt::Display for NoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the signed note exceeds {MAX_NOTE_BYTES} bytes"),
            Self::TooManySignatures => {
                write!(
                    f,
                    "the signed note has more than {MAX_SIGNATURES} signatures"
                )
            }
            Self::Malformed(rule) => write!(f, "this is not a signed note: {rule}"),
            Self::Unsigned { name } => write!(
                f,
                "the note is not signed by the expected key {name}; another key may have its name"
            ),
            Self::Signature { name } => {
                write!(f, "the signature by {name} does not fit the note's text")
            }
        }
    }
}

impl std::error::Error for NoteError {}

#[cfg(test)]
mod tests;
