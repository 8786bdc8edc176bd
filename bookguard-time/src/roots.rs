//! The certificates that are trusted, and the path to one of them.

use std::time::Duration;

use ring::digest;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use crate::certificate::Certificate;
use crate::{Error, algorithm, oid};

/// Roots of the authorities that are trusted.
#[derive(Debug, Clone)]
pub struct Roots {
    anchors: Vec<TrustAnchor<'static>>,
    limits: Vec<Limits>,
    digest: [u8; 32],
}

/// What a root says about itself, which an anchor leaves out.
#[derive(Debug, Clone)]
struct Limits {
    not_before: i64,
    not_after: i64,
    path: Option<u64>,
    signs: bool,
}

impl Roots {
    /// Reads a file of certificates in PEM. Text between them is skipped.
    ///
    /// # Errors
    ///
    /// If there is none, or if one of them is not a certificate, or not an authority's.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let mut roots = Self {
            anchors: Vec::new(),
            limits: Vec::new(),
            digest: [0; 32],
        };
        let mut hash = digest::Context::new(&digest::SHA256);
        // The reader skips a first line that does not begin with the certificate's mark.
        let pem = pem.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(pem);
        for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let number = index + 1;
            let fault = |why: Error| Error::Roots(format!("certificate {number}: {why}"));
            let certificate = certificate
                .map_err(|why| Error::Roots(format!("certificate {number} is not PEM: {why}")))?;
            let read = Certificate::read(&certificate).map_err(fault)?;
            let (authority, path) = read.authority().map_err(fault)?;
            if !authority {
                return Err(Error::Roots(format!(
                    "certificate {number} is not an authority's: it may not vouch for others"
                )));
            }
            let signs = read.signs_certificates().map_err(fault)?;
            hash.update(&certificate);
            let anchor = webpki::anchor_from_trusted_cert(&certificate)
                .map_err(|why| Error::Roots(format!("certificate {number}: {why}")))?;
            roots.anchors.push(anchor.to_owned());
            roots.limits.push(Limits {
                not_before: read.not_before,
                not_after: read.not_after,
                path,
                signs,
            });
        }
        if roots.anchors.is_empty() {
            return Err(Error::Roots("there is no certificate in it".to_owned()));
        }
        roots.digest.copy_from_slice(hash.finish().as_ref());
        Ok(roots)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.anchors.len()
    }

    /// The SHA-256 of the certificates, one after the other: what tells these roots from others.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Finds a path from the signer to a root that is valid at `at`, in milliseconds, and says until when it is.
    ///
    /// # Errors
    /// [`Error::UnknownRoot`], [`Error::NotValidAt`]; [`Error::Purpose`] for a signer that is an authority for certificates;
    /// [`Error::Path`] for any other rule that the path breaks;
    /// [`Error::Malformed`] for a certificate on it that cannot be read.
    pub(crate) fn path(
        &self,
        signer: &EndEntityCert<'_>,
        others: &[CertificateDer<'_>],
        at: i64,
    ) -> Result<i64, Error> {
        let seconds = u64::try_from(at.div_euclid(1000))
            .map_err(|_| Error::NotValidAt(at.div_euclid(1000)))?;
        let limits = |path: &VerifiedPath<'_>| {
            let at = self
                .anchors
                .iter()
                .position(|anchor| std::ptr::eq(anchor, path.anchor()));
            at.and_then(|index| self.limits.get(index))
                .ok_or(webpki::Error::UnknownIssuer)
        };
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let check = |path: &VerifiedPath<'_>| limits(path)?.check(path, at);
        let usage = KeyUsage::required_if_present(oid::TIME_STAMPING);
        let path = signer
            .verify_for_usage(
                algorithm::CERTIFICATES,
                &self.anchors,
                others,
                time,
                usage,
                None,
                Some(&check),
            )
            .map_err(|why| refusal(&why, at))?;
        let mut until = limits(&path).map_err(|why| refusal(&why, at))?.not_after;
        for certificate in path.intermediate_certificates() {
            until = until.min(Certificate::read(&certificate.der())?.not_after);
        }
        Ok(until.min(Certificate::read(&signer.der())?.not_after))
    }
}

impl Limits {
    fn check(&self, path: &VerifiedPath<'_>, at: i64) -> Result<(), webpki::Error> {
        let seconds = |millis: i64| {
            UnixTime::since_unix_epoch(Duration::from_secs(
                u64::try_from(millis.div_euclid(1000)).unwrap_or(0),
            ))
        };
        if at < self.not_before {
            return Err(webpki::Error::CertNotValidYet {
                time: seconds(at),
                not_before: seconds(self.not_before),
            });
        }
        if at > self.not_after {
            return Err(webpki::Error::CertExpired {
                time: seconds(at),
                not_after: seconds(self.not_after),
            });
        }
        let below = path.intermediate_certificates().count();
        if let Some(most) = self.path
            && u64::try_from(below).is_ok_and(|below| below > most)
        {
            return Err(webpki::Error::PathLenConstraintViolated);
        }
        self.check_keys(path)
    }

    /// Whether the key of every authority on the path may sign certificates: webpki does not look.
    fn check_keys(&self, path: &VerifiedPath<'_>) -> Result<(), webpki::Error> {
        let mut all = self.signs;
        for certificate in path.intermediate_certificates() {
            all &= Certificate::read(&certificate.der())
                .and_then(|read| read.signs_certificates())
                .map_err(|_| webpki::Error::BadDer)?;
        }
        if all {
            Ok(())
        } else {
            Err(webpki::Error::EndEntityUsedAsCa)
        }
    }
}

fn refusal(why: &webpki::Error, at: i64) -> Error {
    match why {
        webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. } => {
            Error::NotValidAt(at.div_euclid(1000))
        }
        webpki::Error::UnknownIssuer => Error::UnknownRoot,
        webpki::Error::CaUsedAsEndEntity => {
            Error::Purpose("the signer's certificate is one of an authority for certificates")
        }
        webpki::Error::EndEntityUsedAsCa => {
            Error::Path("one of an authority may not sign certificates".to_owned())
        }
        other => Error::Path(other.to_string()),
    }
}
