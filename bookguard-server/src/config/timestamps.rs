//! The time-stamp authorities that an operator names, and the roots that are trusted.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bookguard_time::Roots;
use hyper::Uri;

use super::{AuthorityUrl, Config, quoted};
use crate::stamping::Stamper;

/// The most bytes of the file of roots: a hundred of the longest certificates.
const ROOTS_BYTES: u64 = 1024 * 1024;
/// The most authorities. They are asked one after another until one gives a stamp.
const AUTHORITIES: usize = 8;

/// Who stamps the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timestamps {
    /// The authorities; not empty.
    pub authorities: Vec<Uri>,
    /// The file with the certificates that are trusted.
    pub roots: PathBuf,
    /// The time between two stamps.
    pub interval: Duration,
}

/// Checks the settings.
pub(super) fn checked(
    authorities: &[AuthorityUrl],
    roots: Option<PathBuf>,
    seconds: u32,
) -> Result<Option<Timestamps>, String> {
    if authorities.is_empty() {
        return Ok(None);
    }
    let Some(roots) = roots else {
        return Err("timestamp_authorities is set, and timestamp_roots is not; name the file with the certificates of their roots".to_owned());
    };
    if authorities.len() > AUTHORITIES {
        return Err(format!(
            "timestamp_authorities names {}; it may name at most {AUTHORITIES}",
            authorities.len()
        ));
    }
    let authorities = authorities.iter().map(uri);
    Ok(Some(Timestamps {
        authorities: authorities.collect::<Result<_, String>>()?,
        roots,
        interval: Duration::from_secs(seconds.into()),
    }))
}

fn uri(authority: &AuthorityUrl) -> Result<Uri, String> {
    let wrong = |why: &str| {
        format!(
            "timestamp_authorities holds {}, {why}; write it like http://timestamp.example.com",
            quoted(&authority.shown())
        )
    };
    let uri: Uri =
        (authority.0.parse()).map_err(|e| wrong(&format!("which is not an address ({e})")))?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let place = uri.authority().map(|place| place.as_str());
    if !known || place.is_none_or(|place| place.is_empty() || place.contains('@')) {
        return Err(wrong(
            "which is not an http or https address without a password",
        ));
    }
    Ok(uri)
}

impl Config {
    /// Who stamps the ledger, with the roots read from their file.
    ///
    /// # Errors
    /// One sentence that names the file, the rule and what to do.
    pub(crate) fn stamper(&self) -> Result<Option<Stamper>, String> {
        let roots = self.timestamp_roots()?;
        let stamper = roots.zip(self.timestamps.as_ref());
        Ok(stamper.map(|(roots, timestamps)| Stamper {
            authorities: timestamps.authorities.clone(),
            roots,
            interval: timestamps.interval,
        }))
    }

    /// The roots that are trusted; `None` if nobody stamps the ledger.
    pub(super) fn timestamp_roots(&self) -> Result<Option<Arc<Roots>>, String> {
        let Some(timestamps) = &self.timestamps else {
            return Ok(None);
        };
        let file = timestamps.roots.display();
        let wrong = |why: String| {
            format!(
                "the file of roots {file} (timestamp_roots) cannot be used: {why}; it must hold the certificates of the authorities' roots in PEM"
            )
        };
        let mut pem = Vec::new();
        let read =
            File::open(&timestamps.roots).and_then(|it| it.take(ROOTS_BYTES).read_to_end(&mut pem));
        read.map_err(|e| wrong(e.to_string()))?;
        let roots = Roots::from_pem(&pem).map_err(|e| wrong(e.to_string()))?;
        Ok(Some(Arc::new(roots)))
    }
}
