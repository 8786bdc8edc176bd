//! Secrets at rest: ChaCha20-Poly1305 under a key derived from the server's own key file.
//!
//! A copied database opens no signing secret and no remembered answer. The row's id is authenticated with the
//! secret, so that a sealed secret moved to another row does not open.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::entropy;

const NONCE_BYTES: usize = 12;

/// Seals and opens. Debug shows nothing of the key.
#[derive(Clone)]
pub struct Seal(ChaCha20Poly1305);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(…)")
    }
}

impl Seal {
    /// A seal under a key derived from `seed` (the ledger key's). One file to keep safe, two keys that tell
    /// nothing of each other.
    pub fn derive(seed: &[u8; 32]) -> Self {
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(seed)
            .expect("HMAC takes a key of any length");
        mac.update(b"bookguard seal/1");
        let key: [u8; 32] = mac.finalize().into_bytes().into();
        Self(ChaCha20Poly1305::new(&key.into()))
    }

    /// Seals `secret` for the row named `owner`.
    pub fn seal(&self, owner: &[u8], secret: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_BYTES] = entropy::bytes();
        let sealed = self
            .0
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

    /// Opens what was sealed for `owner`; `None` when it was not, or is damaged.
    pub fn open(&self, owner: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        self.0
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

#[cfg(test)]
mod tests {
    use super::*;

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
