//! The two signatures of every delivery: making and checking them.
//!
//! | header | value | key |
//! |---|---|---|
//! | `x-service-signature` | `sha256=` + lower hex HMAC-SHA256 of the body | the bytes of the secret's text |
//! | `webhook-signature` | `v1,` + base64 HMAC-SHA256 of `id.timestamp.body`, a list while a secret is being replaced | the decoded bytes |
//!
//! The caller knows which secrets are valid when. Invariants: checking a signature takes the same time wherever it differs
//! and whichever secret matches, and no input causes a panic.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

use super::secret::{NotStandardSecret, Secret};

/// How far a Standard Webhooks timestamp may be from the receiver's clock, in the past and in the future.
pub const TOLERANCE: Duration = Duration::from_secs(300);

const BODY_PREFIX: &str = "sha256=";
const STANDARD_PREFIX: &str = "v1,";
const DIGEST_LEN: usize = 32;
const HEX_LEN: usize = 2 * DIGEST_LEN;

/// The three headers of a Standard Webhooks request, as they arrived.
#[derive(Debug, Clone, Copy)]
pub struct StandardHeaders<'a> {
    /// `webhook-id`: the event's id; the same on every attempt, so deduplicate by it.
    pub id: &'a str,
    /// `webhook-timestamp`: unix seconds of the attempt, in decimal digits.
    pub timestamp: &'a str,
    /// `webhook-signature`: one or more signatures, separated by spaces.
    pub signature: &'a str,
}

/// Why a webhook was not accepted; each names the one check that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// No secret was given, or an empty one (`whsec_` alone is one) and no other fits: anybody could sign with that.
    NoSecret,
    /// `x-service-signature` does not begin with `sha256=`.
    MissingPrefix,
    /// The part after `sha256=` is not 64 characters long.
    WrongLength {
        /// The length found, in bytes.
        found: usize,
    },
    /// The part after `sha256=` is not hexadecimal.
    NotHex,
    /// The signature is well formed but was not made with any of the secrets for this content.
    Mismatch,
    /// `webhook-id` is empty or holds a full stop, which would make the signed text ambiguous.
    InvalidId,
    /// `webhook-timestamp` is not decimal digits.
    TimestampNotANumber,
    /// The request was signed longer ago than the tolerance.
    TimestampTooOld {
        /// Its age in seconds.
        seconds: u64,
    },
    /// The request was signed further in the future than the tolerance.
    TimestampTooNew {
        /// How far ahead of the receiver's clock, in seconds.
        seconds: u64,
    },
    /// `webhook-signature` lists no signature of version `v1`.
    NoV1Signature,
    /// None of the signatures matches, and a secret could not be used because it is not base64.
    SecretNotBase64,
}

/// The value of `x-service-signature` for `body`: `sha256=` + 64 lower hex digits.
///
/// An empty secret signs too; [`verify()`] refuses it.
pub fn sign_body(secret: &Secret, body: impl AsRef<[u8]>) -> String {
    let digest = digest(secret.body_key(), &[body.as_ref()]);
    let mut header = vec![0; BODY_PREFIX.len() + HEX_LEN];
    let (prefix, digits) = header.split_at_mut(BODY_PREFIX.len());
    prefix.copy_from_slice(BODY_PREFIX.as_bytes());
    hex::encode_to_slice(digest, digits)
        .expect("the buffer was sized for the digits of one digest");
    String::from_utf8(header).expect("a prefix and hex digits are ASCII")
}

/// One signature of `webhook-signature`: `v1,` + base64. Join several with a space while two secrets are valid.
///
/// `id` is the event's id, `timestamp` unix seconds of the attempt. Source: Standard Webhooks 1.0.
///
/// # Errors
/// [`NotStandardSecret`] when the secret is not `whsec_` + base64.
pub fn sign_standard(
    secret: &Secret,
    id: &str,
    timestamp: i64,
    body: impl AsRef<[u8]>,
) -> Result<String, NotStandardSecret> {
    let digest = standard_digest(
        secret.standard_key()?,
        id,
        &timestamp.to_string(),
        body.as_ref(),
    );
    let mut signature = String::with_capacity(STANDARD_PREFIX.len() + 44);
    signature.push_str(STANDARD_PREFIX);
    STANDARD.encode_string(digest, &mut signature);
    Ok(signature)
}

/// Accepts `body` if `header`, the value of `x-service-signature`, was made with one of `secrets`.
///
/// `secrets` is `&secret`, or a reference to an array, slice or vector of them. Upper-case digits are accepted.
///
/// # Errors
/// [`VerifyError::MissingPrefix`], [`WrongLength`](VerifyError::WrongLength), [`NotHex`](VerifyError::NotHex),
/// [`Mismatch`](VerifyError::Mismatch), or [`NoSecret`](VerifyError::NoSecret) when there is nothing to check with.
pub fn verify<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    header: impl AsRef<[u8]>,
    body: impl AsRef<[u8]>,
) -> Result<(), VerifyError> {
    let claimed = read_body_signature(header.as_ref())?;
    let body = body.as_ref();
    any_fits(secrets, |secret| {
        Ok(digest(secret.body_key(), &[body]).ct_eq(&claimed))
    })
}

/// Accepts `body` if the `webhook-*` headers were made recently with one of `secrets`.
///
/// `now` is the receiver's clock in unix seconds; `tolerance` is how far the timestamp may be from it in either
/// direction, [`TOLERANCE`] if `None`. Signatures of unknown versions are ignored.
///
/// # Errors
/// Every [`VerifyError`] except the three about the form of `x-service-signature`.
pub fn verify_standard<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    headers: StandardHeaders<'_>,
    body: impl AsRef<[u8]>,
    now: i64,
    tolerance: Option<Duration>,
) -> Result<(), VerifyError> {
    if headers.id.is_empty() || headers.id.contains('.') {
        return Err(VerifyError::InvalidId);
    }
    check_timestamp(headers.timestamp, now, tolerance.unwrap_or(TOLERANCE))?;
    let claimed = || {
        headers
            .signature
            .split(' ')
            .filter_map(|one| one.strip_prefix(STANDARD_PREFIX))
    };
    if claimed().next().is_none() {
        return Err(VerifyError::NoV1Signature);
    }

    let body = body.as_ref();
    any_fits(secrets, |secret| {
        let digest = standard_digest(secret.standard_key()?, headers.id, headers.timestamp, body);
        let mut fits = Choice::from(0);
        for signature in claimed() {
            fits |= same_digest(signature, &digest);
        }
        Ok(fits)
    })
}

/// Accepts if one of the secrets fits. An empty one never does.
fn any_fits<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    fits: impl Fn(&Secret) -> Result<Choice, NotStandardSecret>,
) -> Result<(), VerifyError> {
    let (mut given, mut empty, mut unusable) = (false, false, false);
    let mut fitting = Choice::from(0);
    for secret in secrets {
        given = true;
        if secret.is_empty() {
            empty = true;
            continue;
        }
        match fits(secret) {
            Ok(fits) => fitting |= fits,
            Err(NotStandardSecret) => unusable = true,
        }
    }
    if fitting.into() {
        return Ok(());
    }
    Err(match (given && !empty, unusable) {
        (false, _) => VerifyError::NoSecret,
        (true, true) => VerifyError::SecretNotBase64,
        (true, false) => VerifyError::Mismatch,
    })
}

fn read_body_signature(header: &[u8]) -> Result<[u8; DIGEST_LEN], VerifyError> {
    let digits = header
        .strip_prefix(BODY_PREFIX.as_bytes())
        .ok_or(VerifyError::MissingPrefix)?;
    if digits.len() != HEX_LEN {
        return Err(VerifyError::WrongLength {
            found: digits.len(),
        });
    }
    let mut digest = [0; DIGEST_LEN];
    hex::decode_to_slice(digits, &mut digest).map_err(|_| VerifyError::NotHex)?;
    Ok(digest)
}

fn check_timestamp(header: &str, now: i64, tolerance: Duration) -> Result<(), VerifyError> {
    // `parse` alone would accept a sign, and two spellings of one number would be two signed texts.
    if !header.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VerifyError::TimestampNotANumber);
    }
    let signed: i64 = header
        .parse()
        .map_err(|_| VerifyError::TimestampNotANumber)?;
    let seconds = now.abs_diff(signed);
    if seconds <= tolerance.as_secs() {
        Ok(())
    } else if signed < now {
        Err(VerifyError::TimestampTooOld { seconds })
    } else {
        Err(VerifyError::TimestampTooNew { seconds })
    }
}

/// Whether the base64 text encodes `digest`. Text that is not base64 of 32 bytes does not match.
fn same_digest(signature: &str, digest: &[u8; DIGEST_LEN]) -> Choice {
    let mut claimed = [0; DIGEST_LEN + 4];
    match STANDARD.decode_slice(signature, &mut claimed) {
        Ok(len) => claimed[..len].ct_eq(digest),
        Err(_) => Choice::from(0),
    }
}

fn standard_digest(key: &[u8], id: &str, timestamp: &str, body: &[u8]) -> [u8; DIGEST_LEN] {
    digest(
        key,
        &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body],
    )
}

fn digest(key: &[u8], parts: &[&[u8]]) -> [u8; DIGEST_LEN] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

impl VerifyError {
    /// The stable name of the failed check, for branching or logging.
    pub fn code(&self) -> &'static str {
        match self {
            VerifyError::NoSecret => "no_secret",
            VerifyError::MissingPrefix => "missing_prefix",
            VerifyError::WrongLength { .. } => "wrong_length",
            VerifyError::NotHex => "not_hex",
            VerifyError::Mismatch => "mismatch",
            VerifyError::InvalidId => "invalid_id",
            VerifyError::TimestampNotANumber => "timestamp_not_a_number",
            VerifyError::TimestampTooOld { .. } => "timestamp_too_old",
            VerifyError::TimestampTooNew { .. } => "timestamp_too_new",
            VerifyError::NoV1Signature => "no_v1_signature",
            VerifyError::SecretNotBase64 => "secret_not_base64",
        }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::NoSecret => f.write_str("no secret to check with, or an empty one; is it configured?"),
            VerifyError::MissingPrefix => f.write_str("x-service-signature does not begin with `sha256=`"),
            VerifyError::WrongLength { found } => {
                write!(f, "x-service-signature has {found} characters after `sha256=`; it must have {HEX_LEN}")
            }
            VerifyError::NotHex => f.write_str("x-service-signature is not hexadecimal after `sha256=`"),
            VerifyError::Mismatch => f.write_str(
                "the signature does not fit the body and the secret; \
                 check the secret, and that the body is the exact bytes received, before any parsing",
            ),
            VerifyError::InvalidId => f.write_str("webhook-id is empty or holds a full stop"),
            VerifyError::TimestampNotANumber => f.write_str("webhook-timestamp is not unix seconds in decimal digits"),
            VerifyError::TimestampTooOld { seconds } => {
                write!(f, "webhook-timestamp is {seconds} s in the past; a replay, or this clock is fast")
            }
            VerifyError::TimestampTooNew { seconds } => {
                write!(f, "webhook-timestamp is {seconds} s in the future; is this clock slow?")
            }
            VerifyError::NoV1Signature => f.write_str("webhook-signature lists no signature that begins with `v1,`"),
            VerifyError::SecretNotBase64 => NotStandardSecret.fmt(f),
        }
    }
}

impl std::error::Error for VerifyError {}

#[cfg(test)]
mod tests;
