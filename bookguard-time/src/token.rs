//! The token: which time was stamped on what, and whether to believe it.

use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::algorithm::Digest;
use crate::der::{self, Elements};
use crate::signed::Signed;
use crate::{Error, Roots, response};

/// The longest response that is read. With its certificates one has 3 to 8 kB.
pub const MAX_RESPONSE: usize = 32 * 1024;

/// By how much an authority's clock may be ahead of the verifier's.
pub const TOLERANCE_MILLIS: i64 = 5 * 60 * 1000;

/// What a verified response says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The time that was stamped, in milliseconds since 1970.
    pub time: i64,
    /// Until when the certificates are valid that vouch for it, in milliseconds since 1970. From then on, only a later
    /// stamp over this one does.
    pub valid_until: i64,
    /// Who stamped it: the name in the signer's certificate.
    pub authority: String,
    pub(crate) nonce: Option<Vec<u8>>,
}

/// What a response says of itself. Whether its signer is an authority's is left open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The SHA-256 that it stamps.
    pub imprint: [u8; 32],
    /// The time that it states, in milliseconds since 1970.
    pub time: i64,
    /// Until when its signer's certificate is valid, in milliseconds since 1970.
    pub valid_until: i64,
    /// The name in that certificate; empty if it has none.
    pub authority: String,
}

/// Reads a response, and checks that it is signed with the certificate that it holds. Anybody can make such a response:
/// only [`verify`] says whether to believe it.
///
/// # Errors
/// Says what is wrong with it.
pub fn read(response: &[u8]) -> Result<Claim, Error> {
    let (signed, info) = open(response)?;
    Ok(Claim {
        imprint: info.imprint.try_into().map_err(|_| Error::OtherImprint)?,
        time: info.time,
        valid_until: signed.signer.not_after,
        authority: signed.signer.name().unwrap_or_default(),
    })
}

fn open(response: &[u8]) -> Result<(Signed<'_>, Info<'_>), Error> {
    if response.len() > MAX_RESPONSE {
        return Err(Error::TooLong);
    }
    let signed = Signed::read(response::token(response)?)?;
    let info = Info::read(signed.content)?;
    Ok((signed, info))
}

/// Verifies that `response` stamps `imprint`, the SHA-256 of something, and that a trusted root vouched for the authority
/// at the stamped time, and still does at `at`: now, or the time of a later stamp over this one. In milliseconds since 1970.
///
/// # Errors
/// Says what is wrong with it.
pub fn verify(response: &[u8], imprint: &[u8; 32], roots: &Roots, at: i64) -> Result<Stamp, Error> {
    let (signed, info) = open(response)?;
    if info.imprint != imprint {
        return Err(Error::OtherImprint);
    }
    signed.signer.signs_time_stamps_only()?;
    if info.time > at.saturating_add(TOLERANCE_MILLIS) {
        return Err(Error::Future(info.time));
    }
    let signer = CertificateDer::from(signed.signer.der);
    let signer = EndEntityCert::try_from(&signer).map_err(Error::unread)?;
    roots.path(&signer, &signed.certificates, info.time)?;
    let valid_until = roots.path(&signer, &signed.certificates, at.max(info.time))?;
    Ok(Stamp {
        time: info.time,
        valid_until,
        authority: signed.signer.name()?,
        nonce: info.nonce.map(<[u8]>::to_vec),
    })
}

/// The fields of a `TSTInfo` that matter.
struct Info<'a> {
    imprint: &'a [u8],
    time: i64,
    nonce: Option<&'a [u8]>,
}

impl<'a> Info<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut outer = Elements::new(bytes, "the time-stamp");
        let mut fields = outer.inside(der::SEQUENCE)?;
        outer.end()?;
        if fields.number()? != 1 {
            return Err(fields.malformed());
        }
        fields.object()?; // the authority's policy, which is its own business
        let mut imprint = fields.inside(der::SEQUENCE)?;
        if Digest::read(&mut imprint, "the stamped digest")? != Digest::Sha256 {
            return Err(Error::OtherImprint);
        }
        let hash = imprint.element(der::OCTET_STRING)?.value;
        imprint.end()?;
        fields.integer()?; // its serial number
        let time = der::generalized_time(fields.element(der::GENERALIZED_TIME)?.value)
            .ok_or_else(|| fields.malformed())?;
        fields.optional(der::SEQUENCE)?; // the accuracy
        fields.flag()?; // whether its stamps are ordered
        let nonce = if fields.clone().optional(der::INTEGER)?.is_some() {
            Some(fields.integer()?)
        } else {
            None
        };
        fields.optional(der::context(0))?; // the authority's name, as it states it
        extensions(&mut fields)?;
        fields.end()?;
        Ok(Self {
            imprint: hash,
            time,
            nonce,
        })
    }
}

/// Nobody asked for any, so a critical one is not understood.
fn extensions(fields: &mut Elements<'_>) -> Result<(), Error> {
    let Some(mut list) = fields.optional_inside(der::context(1))? else {
        return Ok(());
    };
    while !list.is_empty() {
        let mut extension = list.inside(der::SEQUENCE)?;
        extension.object()?;
        if extension.flag()? {
            return Err(Error::Attributes(
                "the time-stamp has an extension that must be understood and is not",
            ));
        }
        extension.element(der::OCTET_STRING)?;
        extension.end()?;
    }
    Ok(())
}
