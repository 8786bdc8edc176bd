//! The signed message around the time: who signed, over which bytes, by which certificate.

use ring::digest;
use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::algorithm::{self, Digest};
use crate::certificate::Certificate;
use crate::der::{self, Elements};
use crate::{Error, oid};

const MESSAGE: &str = "the signed message";
/// Of one message; an authority sends two or three.
const MAX_CERTIFICATES: usize = 16;

/// A message whose signature is its signer's. Whether the signer is to be trusted is not known yet.
pub struct Signed<'a> {
    /// The DER of a `TSTInfo`.
    pub content: &'a [u8],
    pub signer: Certificate<'a>,
    /// All certificates of the message.
    pub certificates: Vec<CertificateDer<'a>>,
}

impl<'a> Signed<'a> {
    /// Reads a token, and checks its signature.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Signer`], [`Error::Attributes`], [`Error::Algorithm`], [`Error::Signature`];
    /// [`Error::Certificate`] for a certificate with which no signature can be checked.
    pub fn read(token: &'a [u8]) -> Result<Self, Error> {
        let mut outer = Elements::new(token, MESSAGE);
        let mut info = outer.inside(der::SEQUENCE)?;
        outer.end()?;
        if info.object()? != oid::SIGNED_DATA {
            return Err(info.malformed());
        }
        let mut explicit = info.inside(der::context(0))?;
        info.end()?;
        let mut data = explicit.inside(der::SEQUENCE)?;
        explicit.end()?;
        if data.number()? != 3 {
            return Err(data.malformed());
        }
        data.element(der::SET)?;
        let content = content(&mut data)?;
        let certificates = match data.optional_inside(der::context(0))? {
            Some(list) => certificates(list)?,
            None => return Err(Error::Signer("the authority sent no certificate")),
        };
        // Lists of revoked certificates, which nobody asked for.
        data.optional(der::context(1))?;
        let mut signers = data.inside(der::SET)?;
        data.end()?;
        let signer = signers.inside(der::SEQUENCE)?;
        if !signers.is_empty() {
            return Err(Error::Signer("it has more than one signer"));
        }
        let signer = check(signer, content, &certificates)?;
        Ok(Self {
            content,
            signer,
            certificates: certificates.into_iter().map(CertificateDer::from).collect(),
        })
    }
}

fn content<'a>(data: &mut Elements<'a>) -> Result<&'a [u8], Error> {
    let mut fields = data.inside(der::SEQUENCE)?;
    if fields.object()? != oid::TST_INFO {
        return Err(Error::Attributes("the signed content is not a time-stamp"));
    }
    let mut explicit = fields.inside(der::context(0))?;
    fields.end()?;
    let content = explicit.element(der::OCTET_STRING)?.value;
    explicit.end()?;
    Ok(content)
}

/// A set, but authorities send it in any order.
fn certificates<'a>(mut list: Elements<'a>) -> Result<Vec<&'a [u8]>, Error> {
    let mut all = Vec::new();
    while !list.is_empty() {
        let element = list.any()?;
        // Other kinds of certificates are of no use here.
        if element.tag == der::SEQUENCE {
            all.push(element.raw);
        }
        if all.len() > MAX_CERTIFICATES {
            return Err(Error::Signer("the authority sent too many certificates"));
        }
    }
    Ok(all)
}

fn check<'a>(
    mut fields: Elements<'a>,
    content: &[u8],
    certificates: &[&'a [u8]],
) -> Result<Certificate<'a>, Error> {
    let version = fields.number()?;
    let name = SignerId::read(&mut fields, version)?;
    let digest = Digest::read(&mut fields, "the content's digest")?;
    let attributes = fields
        .optional(der::context(0))?
        .ok_or(Error::Attributes("the signature covers no attributes"))?;
    let verifiers = algorithm::signature(&mut fields, digest)?;
    let signature = fields.element(der::OCTET_STRING)?.value;
    // What is not signed says nothing.
    fields.optional(der::context(1))?;
    fields.end()?;

    let signer = name.certificate(certificates)?;
    let signed = Attributes::read(attributes.value)?;
    signed.check(digest.hash(content).as_ref(), &signer)?;
    // What is signed is the attributes as a SET, as they came: not as somebody would encode them again.
    let mut message = attributes.raw.to_vec();
    message[0] = der::SET;
    let key = CertificateDer::from(signer.der);
    let key = EndEntityCert::try_from(&key).map_err(Error::unread)?;
    for verifier in verifiers {
        match key.verify_signature(verifier, &message, signature) {
            Ok(()) => return Ok(signer),
            // The key is of another kind than this one verifies.
            Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)) => {}
            Err(_) => return Err(Error::Signature),
        }
    }
    Err(Error::Algorithm("the signer's key"))
}

/// How a signer names its certificate.
enum SignerId<'a> {
    Serial { issuer: &'a [u8], serial: &'a [u8] },
    Key(&'a [u8]),
}

impl<'a> SignerId<'a> {
    fn read(fields: &mut Elements<'a>, version: u64) -> Result<Self, Error> {
        if version == 3 {
            return Ok(Self::Key(fields.element(der::context_value(0))?.value));
        }
        let mut name = fields.inside(der::SEQUENCE)?;
        let issuer = name.element(der::SEQUENCE)?.raw;
        let serial = name.integer()?;
        name.end()?;
        if version == 1 {
            Ok(Self::Serial { issuer, serial })
        } else {
            Err(fields.malformed())
        }
    }

    /// The one certificate it names, wherever in the list it is.
    fn certificate<'c>(&self, certificates: &[&'c [u8]]) -> Result<Certificate<'c>, Error> {
        let mut found: Option<Certificate<'c>> = None;
        for der in certificates {
            // Some authorities send a root of the first version, which no time-stamp needs.
            let Ok(certificate) = Certificate::read(der) else {
                continue;
            };
            let named = match self {
                Self::Serial { issuer, serial } => {
                    certificate.issuer == *issuer && certificate.serial == *serial
                }
                Self::Key(id) => certificate.key_id()? == Some(*id),
            };
            if !named {
                continue;
            }
            if found
                .as_ref()
                .is_some_and(|other| other.der != certificate.der)
            {
                return Err(Error::Signer("two certificates could be the signer's"));
            }
            found = Some(certificate);
        }
        found.ok_or(Error::Signer("the signer's certificate is not there"))
    }
}

/// The attributes that matter; each at most once, with one value.
#[derive(Default)]
struct Attributes<'a> {
    content_type: Option<Elements<'a>>,
    message_digest: Option<Elements<'a>>,
    certificate: Option<Elements<'a>>,
    certificate_v2: Option<Elements<'a>>,
}

impl<'a> Attributes<'a> {
    fn read(set: &'a [u8]) -> Result<Self, Error> {
        let mut list = Elements::new(set, "the signed attributes");
        let mut all = Self::default();
        while !list.is_empty() {
            let mut fields = list.inside(der::SEQUENCE)?;
            let id = fields.object()?;
            let mut values = fields.inside(der::SET)?;
            fields.end()?;
            let place = match id {
                oid::CONTENT_TYPE => &mut all.content_type,
                oid::MESSAGE_DIGEST => &mut all.message_digest,
                oid::SIGNING_CERTIFICATE => &mut all.certificate,
                oid::SIGNING_CERTIFICATE_V2 => &mut all.certificate_v2,
                _ => continue,
            };
            let value = values.any()?;
            if place.is_some() || !values.is_empty() {
                return Err(Error::Attributes("a signed attribute is there twice"));
            }
            *place = Some(Elements::new(value.raw, "the signed attributes"));
        }
        Ok(all)
    }

    fn check(self, hash: &[u8], signer: &Certificate<'_>) -> Result<(), Error> {
        let mut content_type = self
            .content_type
            .ok_or(Error::Attributes("the type of the content is not signed"))?;
        if content_type.object()? != oid::TST_INFO {
            return Err(Error::Attributes(
                "the signed type of the content is another",
            ));
        }
        let mut message_digest = self
            .message_digest
            .ok_or(Error::Attributes("the digest of the content is not signed"))?;
        if message_digest.element(der::OCTET_STRING)?.value != hash {
            return Err(Error::Attributes("the signed digest is of another content"));
        }
        if self.certificate.is_none() && self.certificate_v2.is_none() {
            return Err(Error::Attributes("the signer's certificate is not signed"));
        }
        self.certificate
            .map(|value| signing_certificate(value, signer, 1))
            .transpose()?;
        self.certificate_v2
            .map(|value| signing_certificate(value, signer, 2))
            .transpose()?;
        Ok(())
    }
}

/// RFC 2634 section 5.4 (version 1, SHA-1) and RFC 5035 section 3 (version 2): the first certificate listed is the signer's.
fn signing_certificate(
    mut value: Elements<'_>,
    signer: &Certificate<'_>,
    version: u8,
) -> Result<(), Error> {
    const OTHER: Error = Error::Attributes("the signed certificate is another");
    let mut fields = value.inside(der::SEQUENCE)?;
    let mut list = fields.inside(der::SEQUENCE)?;
    fields.optional(der::SEQUENCE)?;
    fields.end()?;
    let mut first = list.inside(der::SEQUENCE)?;
    let hash = if version == 1 {
        digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, signer.der)
    } else {
        // An algorithm, or the hash itself: then it is SHA-256.
        let stated = first.clone().optional(der::SEQUENCE)?.is_some();
        let digest = if stated {
            Digest::read(&mut first, "the digest of the signer's certificate")?
        } else {
            Digest::Sha256
        };
        digest.hash(signer.der)
    };
    if first.element(der::OCTET_STRING)?.value != hash.as_ref() {
        return Err(OTHER);
    }
    if let Some(mut name) = first.optional_inside(der::SEQUENCE)? {
        let mut names = name.inside(der::SEQUENCE)?;
        let mut directory = names.inside(der::context(4))?;
        names.end()?;
        let issuer = directory.element(der::SEQUENCE)?.raw;
        let serial = name.integer()?;
        name.end()?;
        if issuer != signer.issuer || serial != signer.serial {
            return Err(OTHER);
        }
    }
    first.end()
}
