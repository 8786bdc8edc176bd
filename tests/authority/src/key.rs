//! Keys, and what they sign with.

use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair};

use crate::der::{bits, integer, object, sequence, tlv};

/// The kind of a signer's key and signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ECDSA on P-256 with SHA-256
    P256,
    /// ECDSA on P-384 with SHA-384
    P384,
    /// RSA, PKCS #1 v1.5, with SHA-256
    Rsa,
    /// RSA, PKCS #1 v1.5, with SHA-512
    RsaSha512,
    /// RSA, PSS, with SHA-384
    Pss,
}

/// A key of tests only, which protects nothing: making one of this kind takes a second, and *ring* cannot.
const RSA: &[u8] = include_bytes!("rsa.pk8");

pub struct Key {
    kind: Kind,
    pkcs8: Vec<u8>,
}

impl Key {
    pub fn new(kind: Kind) -> Self {
        let elliptic = |algorithm| {
            EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new())
                .unwrap()
                .as_ref()
                .to_vec()
        };
        let pkcs8 = match kind {
            Kind::P256 => elliptic(&signature::ECDSA_P256_SHA256_ASN1_SIGNING),
            Kind::P384 => elliptic(&signature::ECDSA_P384_SHA384_ASN1_SIGNING),
            Kind::Rsa | Kind::RsaSha512 | Kind::Pss => RSA.to_vec(),
        };
        Self { kind, pkcs8 }
    }

    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    fn elliptic(&self) -> EcdsaKeyPair {
        let algorithm = if self.kind == Kind::P256 {
            &signature::ECDSA_P256_SHA256_ASN1_SIGNING
        } else {
            &signature::ECDSA_P384_SHA384_ASN1_SIGNING
        };
        EcdsaKeyPair::from_pkcs8(algorithm, &self.pkcs8, &SystemRandom::new()).unwrap()
    }

    fn rsa(&self) -> RsaKeyPair {
        RsaKeyPair::from_pkcs8(&self.pkcs8).unwrap()
    }

    /// The `SubjectPublicKeyInfo`.
    pub fn public(&self) -> Vec<u8> {
        match self.kind {
            Kind::P256 | Kind::P384 => {
                let curve = if self.kind == Kind::P256 {
                    "1.2.840.10045.3.1.7"
                } else {
                    "1.3.132.0.34"
                };
                let algorithm = sequence(&[&object("1.2.840.10045.2.1"), &object(curve)]);
                sequence(&[&algorithm, &bits(self.elliptic().public_key().as_ref())])
            }
            _ => sequence(&[
                &sequence(&[&object("1.2.840.113549.1.1.1"), &[0x05, 0]]),
                &bits(self.rsa().public_key().as_ref()),
            ]),
        }
    }

    /// The digest that goes with its signatures.
    pub fn digest(&self) -> (&'static str, &'static ring::digest::Algorithm) {
        match self.kind {
            Kind::P256 | Kind::Rsa => ("2.16.840.1.101.3.4.2.1", &ring::digest::SHA256),
            Kind::P384 | Kind::Pss => ("2.16.840.1.101.3.4.2.2", &ring::digest::SHA384),
            Kind::RsaSha512 => ("2.16.840.1.101.3.4.2.3", &ring::digest::SHA512),
        }
    }

    /// The `AlgorithmIdentifier` of its signatures. `salt` is the length that PSS states, if not the right one.
    pub fn algorithm(&self, salt: Option<u8>) -> Vec<u8> {
        match self.kind {
            Kind::P256 => sequence(&[&object("1.2.840.10045.4.3.2")]),
            Kind::P384 => sequence(&[&object("1.2.840.10045.4.3.3")]),
            // The plain key's identifier: many authorities write it here.
            Kind::Rsa => sequence(&[&object("1.2.840.113549.1.1.1"), &[0x05, 0]]),
            Kind::RsaSha512 => sequence(&[&object("1.2.840.113549.1.1.13"), &[0x05, 0]]),
            Kind::Pss => {
                let hash = sequence(&[&object(self.digest().0)]);
                let mask = sequence(&[&object("1.2.840.113549.1.1.8"), &hash]);
                let parameters = sequence(&[
                    &tlv(0xa0, &[&hash]),
                    &tlv(0xa1, &[&mask]),
                    &tlv(0xa2, &[&integer(salt.unwrap_or(48))]),
                ]);
                sequence(&[&object("1.2.840.113549.1.1.10"), &parameters])
            }
        }
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let rsa = |encoding: &'static dyn signature::RsaEncoding| {
            let key = self.rsa();
            let mut signature = vec![0; key.public().modulus_len()];
            key.sign(encoding, &random, message, &mut signature)
                .unwrap();
            signature
        };
        match self.kind {
            Kind::P256 | Kind::P384 => self
                .elliptic()
                .sign(&random, message)
                .unwrap()
                .as_ref()
                .to_vec(),
            Kind::Rsa => rsa(&signature::RSA_PKCS1_SHA256),
            Kind::RsaSha512 => rsa(&signature::RSA_PKCS1_SHA512),
            Kind::Pss => rsa(&signature::RSA_PSS_SHA384),
        }
    }
}
