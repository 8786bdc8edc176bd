//! C2SP signed-note: a text with Ed25519 signatures, and the keys that make and check them.
//!
//! `checkpoint` reads the text, `cosignature` has the signatures of witnesses; the caller keeps the seed. Invariant: no text leaves this module unverified, and no secret
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
/// The signature type byte of a witness's Ed25519 cosignature.
pub(super) const COSIGNATURE: u8 = 0x04;
const ID_BYTES: usize = 4;

/// A public key that checks notes. Displayed and parsed as `name+id+key`, the form in which it is published. White space
/// around it is not part of it: a file that holds it ends with a newline, which some editors write as two characters.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    kind: u8,
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
        let (text, signature) = self.find(note)?;
        self.check(text, &signature)?;
        Ok(text)
    }

    /// The note with this key's signature alone, which is checked.
    ///
    /// # Errors
    /// As [`VerifierKey::open`].
    pub fn alone(&self, note: &str) -> Result<String, NoteError> {
        let (text, signature) = self.find(note)?;
        self.check(text, &signature)?;
        Ok(format!("{text}\n{}", self.line(&signature)))
    }

    /// The signature line of this key with these bytes, which are not checked.
    pub(super) fn line(&self, signature: &[u8]) -> String {
        let line = STANDARD.encode([&self.id[..], signature].concat());
        format!("\u{2014} {} {line}\n", self.name)
    }

    /// The note's text, and the bytes that this key is said to have signed it with. Nothing is checked yet.
    pub(super) fn find<'a>(&self, note: &'a str) -> Result<(&'a str, Vec<u8>), NoteError> {
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
        Ok((text, own.bytes[ID_BYTES..].to_vec()))
    }

    /// Checks an Ed25519 signature of this key over a message.
    pub(super) fn check(&self, message: &str, signature: &[u8]) -> Result<(), NoteError> {
        Signature::from_slice(signature)
            .and_then(|signature| self.key.verify_strict(message.as_bytes(), &signature))
            .map_err(|_| NoteError::Signature {
                name: self.name.clone(),
            })
    }

    /// The public key itself: what two keys of different names or types may share.
    pub(super) fn key(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    fn new(name: &str, kind: u8, key: VerifyingKey) -> Self {
        let id = key_id(name, kind, &key);
        let name = name.to_owned();
        Self {
            name,
            kind,
            id,
            key,
        }
    }

    /// Reads a key whose signatures are of this type.
    pub(super) fn parse(text: &str, expected: u8) -> Result<Self, KeyError> {
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
        let [found, key @ ..] = typed.as_slice() else {
            return Err(KeyError::Form);
        };
        if *found != expected {
            let found = *found;
            return Err(KeyError::Kind { found, expected });
        }
        let key = <&[u8; 32]>::try_from(key).map_err(|_| KeyError::Form)?;
        let key = VerifyingKey::from_bytes(key).map_err(|_| KeyError::Point)?;
        if key.is_weak() {
            return Err(KeyError::Point);
        }
        let parsed = Self::new(name, expected, key);
        if hex::encode(parsed.id) != id {
            return Err(KeyError::Id);
        }
        Ok(parsed)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut typed = vec![self.kind];
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
        Self::parse(text.trim(), ED25519)
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
        Self::of_kind(name, ED25519, seed)
    }

    /// The signer whose signatures are of this type.
    pub(super) fn of_kind(name: &str, kind: u8, seed: &[u8; 32]) -> Result<Self, KeyError> {
        check_name(name)?;
        let secret = SigningKey::from_bytes(seed);
        let public = VerifierKey::new(name, kind, secret.verifying_key());
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
        Ok(format!("{text}\n{}", self.line(&[], text)))
    }

    /// A signature line: what stands before the signature, and the signature of the message.
    pub(super) fn line(&self, before: &[u8], message: &str) -> String {
        let signature = self.secret.sign(message.as_bytes()).to_bytes();
        self.public.line(&[before, &signature].concat())
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

/// The signature lines of a note: the name, the key's id, and what stands after that. Nothing is checked.
pub(super) fn signatures(note: &str) -> Vec<(String, [u8; ID_BYTES], Vec<u8>)> {
    let lines = split(note).map_or("", |(_, lines)| lines);
    let lines = lines.split_terminator('\n').take(MAX_SIGNATURES);
    let read = lines.filter_map(|line| {
        let line = SignatureLine::parse(line).ok()?;
        let (id, rest) = line.bytes.split_first_chunk()?;
        Some((line.name.to_owned(), *id, rest.to_vec()))
    });
    read.collect()
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
fn key_id(name: &str, kind: u8, key: &VerifyingKey) -> [u8; ID_BYTES] {
    let digest = Sha256::new()
        .chain_update(name)
        .chain_update([b'\n', kind])
        .chain_update(key.as_bytes())
        .finalize();
    [digest[0], digest[1], digest[2], digest[3]]
}

/// Why a verifier key or key name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum KeyError {
    /// Not `name+id+base64`.
    Form,
    /// The name is empty, longer than 255 bytes, or contains a space, plus or control character.
    Name,
    /// A key for signatures of another type.
    Kind {
        /// The type byte in the key.
        found: u8,
        /// That of the keys expected here: 0x01 of logs, 0x04 of witnesses.
        expected: u8,
    },
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
            Self::Kind { found, expected } => write!(
                f,
                "the verifier key is of signature type {found:#04x}, but a {} has Ed25519 ({expected:#04x})",
                if *expected == COSIGNATURE {
                    "witness"
                } else {
                    "log"
                }
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
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
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
