//! The secret that a partner and Bookguard share to sign webhooks.
//!
//! Holds the text and its two interpretations as a key; `signature` signs with it, and the store seals it at rest.
//! Invariant: no formatting of a [`Secret`] shows it; only [`Secret::reveal`] does.

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use subtle::ConstantTimeEq;

/// The prefix of every secret made by Bookguard (Standard Webhooks 1.0, "Signature scheme").
pub const SECRET_PREFIX: &str = "whsec_";

/// Standard alphabet; padding is written, and optional when reading.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A signing secret: any text. Those made by Bookguard are `whsec_` + base64 of 32 random bytes.
///
/// The bytes of the text itself are the key of `x-service-signature`; the bytes that the base64 encodes are the key of the
/// Standard Webhooks signature. Comparing two secrets of one length takes the same time wherever they differ.
#[derive(Clone)]
pub struct Secret {
    text: String,
    /// The key under Standard Webhooks; `None` if the text is not base64 or encodes nothing.
    standard: Option<Vec<u8>>,
}

/// The secret's text is not `whsec_` + base64 of at least one byte, so it cannot be the key of a Standard Webhooks signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotStandardSecret;

impl Secret {
    /// Takes a secret as it was handed out, whole, including `whsec_`. Any text is accepted.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let encoded = text.strip_prefix(SECRET_PREFIX).unwrap_or(&text);
        let standard = BASE64.decode(encoded).ok().filter(|key| !key.is_empty());
        Secret { text, standard }
    }

    /// The secret whose text is `whsec_` + base64 of `bytes`, which must come from a cryptographic generator.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Secret {
            text: format!("{SECRET_PREFIX}{}", BASE64.encode(bytes)),
            standard: Some(bytes.to_vec()),
        }
    }

    /// The text, to be shown to its owner once, or sealed.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Whether nothing of it is secret: it has no text, or none after `whsec_`, as a template makes it of an unset variable.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.text.trim(), "" | SECRET_PREFIX)
    }

    /// The key of `x-service-signature`: the bytes of the text.
    pub(crate) fn body_key(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The key of the Standard Webhooks signature: the bytes after `whsec_`, decoded.
    pub(crate) fn standard_key(&self) -> Result<&[u8], NotStandardSecret> {
        self.standard.as_deref().ok_or(NotStandardSecret)
    }
}

/// Lets a single secret stand for several: `verify(&secret, …)` and `verify(&[old, new], …)` both work.
impl<'a> IntoIterator for &'a Secret {
    type Item = &'a Secret;
    type IntoIter = std::iter::Once<&'a Secret>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.text.as_bytes().ct_eq(other.text.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl fmt::Display for NotStandardSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the secret is not base64 after `whsec_`, as the webhook-signature header needs it; \
             use the secret whole and unchanged, as it was handed out",
        )
    }
}

impl std::error::Error for NotStandardSecret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_secret_is_whsec_and_the_base64_of_its_bytes() {
        let secret = Secret::from_bytes([0xff; 32]);
        assert_eq!(
            secret.reveal(),
            "whsec_//////////////////////////////////////////8="
        );
        assert_eq!(secret.standard_key(), Ok(&[0xff; 32][..]));
        assert_eq!(secret, Secret::new(secret.reveal()));
        assert_ne!(secret, Secret::from_bytes([0xfe; 32]));
    }

    #[test]
    fn nothing_that_formats_a_secret_shows_it() {
        let secret = Secret::new("whsec_c2VzYW1l");
        for shown in [
            format!("{secret:?}"),
            format!("{secret:#?}"),
            format!("{:?}", Some(&secret)),
        ] {
            assert!(
                !shown.contains("c2VzYW1l") && !shown.contains("sesame") && !shown.contains("115"),
                "{shown}"
            );
        }
    }

    #[test]
    fn only_base64_of_something_can_key_a_standard_signature() {
        for (text, key) in [
            ("whsec_c2VzYW1l", Some(&b"sesame"[..])),
            ("c2VzYW1l", Some(b"sesame")),
            ("whsec_c2VzYW1lcw==", Some(b"sesames")),
            ("whsec_c2VzYW1lcw", Some(b"sesames")),
            ("whsec_", None),
            ("", None),
            ("whsec_not base64", None),
            ("whsec_c2VzYW1l\n", None),
            ("It's a Secret to Everybody", None),
        ] {
            assert_eq!(Secret::new(text).standard_key().ok(), key, "{text}");
        }
    }
}
