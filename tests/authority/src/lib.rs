//! A time-stamp authority for tests. It answers at whatever time the test says, and gets wrong whatever the test asks for.
//! Its DER is written by hand, so that a wrong answer can be any bytes; `openssl ts` judges the right ones.

#![allow(clippy::unwrap_used)] // tests only

mod certificate;
mod der;
mod key;
mod token;

pub use certificate::{Chain, Issuer};
pub use key::Kind;
pub use token::{Certificates, Shape};

use key::Key;

/// A root, an authority below it, and the signer of time-stamps below that.
pub struct Authority {
    root: Vec<u8>,
    intermediate: Vec<u8>,
    signer: Vec<u8>,
    signer_issuer: Vec<u8>,
    key: Key,
}

impl Authority {
    /// With fresh keys.
    pub fn new(chain: &Chain) -> Self {
        let root_key = Key::new(Kind::P256);
        let intermediate_key = Key::new(Kind::P384);
        let key = Key::new(chain.kind);
        let root = certificate::issuer("Test Root", &root_key, "Test Root", &root_key, &chain.root);
        let intermediate = certificate::issuer(
            "Test Authority",
            &intermediate_key,
            "Test Root",
            &root_key,
            &chain.intermediate,
        );
        let signer = certificate::signer(
            "Test Time",
            &key,
            "Test Authority",
            &intermediate_key,
            chain,
        );
        Self {
            root,
            intermediate,
            signer,
            signer_issuer: certificate::name("Test Authority"),
            key,
        }
    }

    /// Its root in PEM, to be trusted.
    pub fn root_pem(&self) -> String {
        der::pem("CERTIFICATE", &self.root)
    }

    /// The certificates below the root in PEM: the signer's, then its issuer's.
    pub fn chain_pem(&self) -> [String; 2] {
        [
            der::pem("CERTIFICATE", &self.signer),
            der::pem("CERTIFICATE", &self.intermediate),
        ]
    }

    /// The signer's private key in PEM.
    pub fn key_pem(&self) -> String {
        der::pem("PRIVATE KEY", self.key.pkcs8())
    }

    /// A right answer to a request, at a time in milliseconds since 1970.
    pub fn answer(&self, request: &[u8], at: i64) -> Vec<u8> {
        self.shaped(request, at, &Shape::default())
    }

    /// An answer as the test wants it.
    pub fn shaped(&self, request: &[u8], at: i64, shape: &Shape) -> Vec<u8> {
        token::response(self, request, at, shape)
    }
}
