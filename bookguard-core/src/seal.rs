//! Secrets at rest, sealed with ChaCha20-Poly1305 under a key derived from the server's key file. Also HMAC-SHA256
//! codes, under another derived key, which tell rows that the service wrote from others.
//!
//! A copied database reveals no signing secret and no remembered answer. The row's id is authenticated with the secret,
//! so a sealed secret that was moved to another row does not open.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::entropy;

const NONCE_BYTES: usize = 12;

/// Seals and opens secrets. Its `Debug` output shows nothing of the keys.
#[derive(Clone)]
pub struct Seal {
    cipher: ChaCha20Poly1305,
    codes: Hmac<Sha256>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(…)")
    }
}

impl Seal {
    /// Derives a seal's keys from `seed`, the ledger key's seed. That way there is only one file to keep safe, and the
    /// keys reveal nothing about each other.
    pub fn derive(seed: &[u8; 32]) -> Self {
        let derived = |purpose: &[u8]| -> [u8; 32] {
            let mut mac = keyed(seed);
            mac.update(purpose);
            mac.finalize().into_bytes().into()
        };
        Self {
            cipher: ChaCha20Poly1305::new(&derived(b"bookguard seal/1").into()),
            codes: keyed(&derived(b"bookguard rows/1")),
        }
    }

    /// The code of these parts in this order. Nobody can make one without the key.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.codes.clone();
        for part in parts {
            // The lengths ensure that no two lists of parts yield the same bytes.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Seals `secret` for the row named `owner`.
    pub fn seal(&self, owner: &[u8], secret: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_BYTES] = entropy::bytes();
        let sealed = self
            .cipher
            .encrypt(
                &Nonce::from(nonce),
                Payload {
                    msg: secret,
                    aad: owner,
                },
            )
            .expect("a secret is far below the 256 GiB this cipher takes");
        [&nonce[..], &sealed].concat()
    }

    /// Opens what was sealed for `owner`; `None` if it was not, or is damaged.
    pub fn open(&self, owner: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        self.cipher
            .decrypt(
                &Nonce::from(*nonce),
                Payload {
                    msg: sealed,
                    aad: owner,
                },
            )
            .ok()
    }
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_of_its_parts_and_its_key() {
        let seal = Seal::derive(&[7; 32]);
        let code = seal.code(&[b"ab", b"c"]);
        assert_eq!(code, Seal::derive(&[7; 32]).code(&[b"ab", b"c"]));
        assert_ne!(code, seal.code(&[b"a", b"bc"]));
        assert_ne!(code, seal.code(&[b"ab", b"c", b""]));
        assert_ne!(code, Seal::derive(&[8; 32]).code(&[b"ab", b"c"]));
    }

    #[test]
    fn a_secret_opens_only_where_and_as_it_was_sealed() {
        let seal = Seal::derive(&[7; 32]);
        let sealed = seal.seal(b"owner", b"whsec_secret");
        assert_eq!(
            seal.open(b"owner", &sealed).as_deref(),
            Some(&b"whsec_secret"[..])
        );
        assert_eq!(seal.open(b"other", &sealed), None);
        assert_eq!(Seal::derive(&[8; 32]).open(b"owner", &sealed), None);
        for i in 0..sealed.len() {
            let mut broken = sealed.clone();
            broken[i] ^= 1;
            assert_eq!(seal.open(b"owner", &broken), None, "byte {i}");
        }
        assert_eq!(seal.open(b"owner", &[]), None);
        assert!(!sealed.windows(6).any(|w| w == b"secret"));
    }
}
