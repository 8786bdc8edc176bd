use std::fmt;

/// Why a response is not a time-stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It is longer than any time-stamp is.
    TooLong,
    /// It is not DER, or not the structure that is expected there.
    Malformed(&'static str),
    /// The authority refused: its status, and what it says.
    Refused {
        /// The number that the authority answered as its status; 0 and 1 grant.
        status: u64,
        /// Its words, as far as they can be printed.
        text: String,
    },
    /// A digest or signature of a kind that is too weak, or not supported.
    Algorithm(&'static str),
    /// It stamps something else.
    OtherImprint,
    /// It answers another request.
    OtherNonce,
    /// It is not signed by exactly one signer whose certificate it holds.
    Signer(&'static str),
    /// The attributes that the signature covers are not what they must be.
    Attributes(&'static str),
    /// The signature is not the signer's.
    Signature,
    /// The signer's certificate cannot be read, or has a critical extension that is not known.
    Certificate(String),
    /// The signer's certificate is not one of a time-stamp authority.
    Purpose(&'static str),
    /// No trusted root vouches for the signer.
    UnknownRoot,
    /// A certificate between the signer and the root is not valid at that time, given in seconds since 1970.
    NotValidAt(i64),
    /// The path from the signer to the root breaks a rule.
    Path(String),
    /// It names a time that has not come yet, in milliseconds since 1970.
    Future(i64),
    /// The file of roots holds none, or something else.
    Roots(String),
}

impl Error {
    /// Why no key was taken from the signer's certificate. Whether a root vouches for it is another question.
    pub(crate) fn unread(why: webpki::Error) -> Self {
        Self::Certificate(match why {
            webpki::Error::UnsupportedCriticalExtension => {
                "has a critical extension that is not known".to_owned()
            }
            other => format!("cannot be read: {other}"),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(
                f,
                "the response is longer than {} bytes",
                crate::MAX_RESPONSE
            ),
            Self::Malformed(what) => write!(f, "{what} is not well-formed DER"),
            Self::Refused { status, text } if text.is_empty() => {
                write!(f, "the authority refused with status {status}")
            }
            Self::Refused { status, text } => {
                write!(f, "the authority refused with status {status}: {text}")
            }
            Self::Algorithm(what) => write!(f, "{what} is too weak or not supported"),
            Self::OtherImprint => write!(f, "it stamps something else"),
            Self::OtherNonce => write!(f, "it answers another request"),
            Self::Signer(what) | Self::Attributes(what) | Self::Purpose(what) => {
                write!(f, "{what}")
            }
            Self::Signature => write!(f, "the signature is wrong"),
            Self::Certificate(what) => write!(f, "the signer's certificate {what}"),
            Self::UnknownRoot => write!(f, "no trusted root vouches for the signer"),
            Self::NotValidAt(at) => write!(
                f,
                "a certificate was not valid at {}",
                crate::der::words(at.saturating_mul(1000))
            ),
            Self::Path(what) => write!(f, "the certificates do not lead to a trusted root: {what}"),
            Self::Future(at) => write!(f, "its time, {}, has not come yet", crate::der::words(*at)),
            Self::Roots(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for Error {}
