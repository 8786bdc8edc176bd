//! Digests and signatures, by their identifiers.

use ring::digest::{self, Algorithm};
use rustls_pki_types::SignatureVerificationAlgorithm;
use webpki::ring as known;

use crate::der::{self, Elements};
use crate::{Error, oid};

/// A digest that is strong enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    Sha256,
    Sha384,
    Sha512,
}

type Verifier = &'static dyn SignatureVerificationAlgorithm;

impl Digest {
    fn of_object(id: &[u8]) -> Option<Self> {
        match id {
            oid::SHA256 => Some(Self::Sha256),
            oid::SHA384 => Some(Self::Sha384),
            oid::SHA512 => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Reads an `AlgorithmIdentifier` of a digest.
    ///
    /// # Errors
    /// [`Error::Malformed`]; [`Error::Algorithm`] with `what` for one that is too weak or not supported.
    pub fn read(list: &mut Elements<'_>, what: &'static str) -> Result<Self, Error> {
        let mut fields = list.inside(der::SEQUENCE)?;
        let id = fields.object()?;
        no_parameters(&mut fields)?;
        Self::of_object(id).ok_or(Error::Algorithm(what))
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }

    pub fn hash(self, bytes: &[u8]) -> digest::Digest {
        digest::digest(self.algorithm(), bytes)
    }

    fn rsa(self) -> Verifier {
        match self {
            Self::Sha256 => known::RSA_PKCS1_2048_8192_SHA256,
            Self::Sha384 => known::RSA_PKCS1_2048_8192_SHA384,
            Self::Sha512 => known::RSA_PKCS1_2048_8192_SHA512,
        }
    }

    fn pss(self) -> Verifier {
        match self {
            Self::Sha256 => known::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
            Self::Sha384 => known::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
            Self::Sha512 => known::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
        }
    }
}

fn no_parameters(fields: &mut Elements<'_>) -> Result<(), Error> {
    if fields
        .optional(der::NULL)?
        .is_some_and(|null| !null.value.is_empty())
    {
        return Err(fields.malformed());
    }
    fields.end()
}

/// Reads the `AlgorithmIdentifier` of a signature: those who can verify it, one for each kind of key. Its digest must be
/// `digest`, by which the content was hashed too.
///
/// # Errors
/// [`Error::Malformed`]; [`Error::Algorithm`] for one that is too weak or not supported, and for another digest.
pub fn signature(list: &mut Elements<'_>, digest: Digest) -> Result<Vec<Verifier>, Error> {
    const UNKNOWN: Error = Error::Algorithm("the signature's algorithm");
    let mut fields = list.inside(der::SEQUENCE)?;
    let id = fields.object()?;
    if id == oid::RSA_PSS {
        return pss(&mut fields, digest);
    }
    no_parameters(&mut fields)?;
    let (signed, verifiers): (Digest, Vec<Verifier>) = match id {
        oid::ECDSA_SHA256 => (
            Digest::Sha256,
            vec![known::ECDSA_P256_SHA256, known::ECDSA_P384_SHA256],
        ),
        oid::ECDSA_SHA384 => (
            Digest::Sha384,
            vec![known::ECDSA_P384_SHA384, known::ECDSA_P256_SHA384],
        ),
        oid::RSA => (digest, vec![digest.rsa()]),
        oid::RSA_SHA256 => (Digest::Sha256, vec![Digest::Sha256.rsa()]),
        oid::RSA_SHA384 => (Digest::Sha384, vec![Digest::Sha384.rsa()]),
        oid::RSA_SHA512 => (Digest::Sha512, vec![Digest::Sha512.rsa()]),
        _ => return Err(UNKNOWN),
    };
    if signed == digest {
        Ok(verifiers)
    } else {
        Err(UNKNOWN)
    }
}

/// The parameters of PSS, whose defaults are SHA-1 and so never right.
fn pss(fields: &mut Elements<'_>, digest: Digest) -> Result<Vec<Verifier>, Error> {
    const OTHER: Error = Error::Algorithm("the signature's PSS parameters");
    let mut parameters = fields.inside(der::SEQUENCE)?;
    fields.end()?;
    let mut hash = parameters.optional_inside(der::context(0))?.ok_or(OTHER)?;
    let mut mask = parameters.optional_inside(der::context(1))?.ok_or(OTHER)?;
    let mut salt = parameters.optional_inside(der::context(2))?.ok_or(OTHER)?;
    // The trailer field has one value, the default, which DER leaves out.
    parameters.end()?;
    let hashed = Digest::read(&mut hash, "the signature's digest")?;
    hash.end()?;
    let mut generator = mask.inside(der::SEQUENCE)?;
    mask.end()?;
    let generates = generator.object()? == oid::MGF1;
    let masked = Digest::read(&mut generator, "the signature's digest")?;
    generator.end()?;
    let length = salt.number()?;
    salt.end()?;
    let bytes = digest.algorithm().output_len() as u64;
    if generates && hashed == digest && masked == digest && length == bytes {
        Ok(vec![digest.pss()])
    } else {
        Err(OTHER)
    }
}

/// The algorithms by which certificates may be signed.
pub const CERTIFICATES: &[Verifier] = &[
    known::ECDSA_P256_SHA256,
    known::ECDSA_P256_SHA384,
    known::ECDSA_P384_SHA256,
    known::ECDSA_P384_SHA384,
    known::RSA_PKCS1_2048_8192_SHA256,
    known::RSA_PKCS1_2048_8192_SHA384,
    known::RSA_PKCS1_2048_8192_SHA512,
    known::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    known::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    known::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
];
