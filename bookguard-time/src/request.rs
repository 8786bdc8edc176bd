//! The request: what is to be stamped, and a number by which its answer is known.

use crate::{Error, Roots, Stamp, token};

/// A `TimeStampReq` for a SHA-256, which asks for the authority's certificates too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    imprint: [u8; 32],
    nonce: [u8; 8],
}

impl Request {
    /// Asks to stamp `imprint`, the SHA-256 of something. The nonce must be random, or an old answer could be repeated.
    pub fn new(imprint: [u8; 32], mut nonce: [u8; 8]) -> Self {
        // A positive integer whose first byte is not zero has one length, so the request has one form.
        nonce[0] = nonce[0] & 0x7f | 0x40;
        Self { imprint, nonce }
    }

    /// Its bytes, to be sent as `application/timestamp-query`.
    pub fn to_der(&self) -> Vec<u8> {
        // SEQUENCE { version 1, SEQUENCE { SEQUENCE { SHA-256 }, imprint }, nonce, certReq TRUE }
        let mut der = vec![0x30, 65, 0x02, 1, 1, 0x30, 47, 0x30, 11, 0x06, 9];
        der.extend(crate::oid::SHA256);
        der.extend([0x04, 32]);
        der.extend(self.imprint);
        der.extend([0x02, 8]);
        der.extend(self.nonce);
        der.extend([0x01, 1, 0xff]);
        der
    }

    /// Verifies the response to this request at `now`, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// As [`verify`](crate::verify), and if the response answers another request.
    pub fn verify(&self, response: &[u8], roots: &Roots, now: i64) -> Result<Stamp, Error> {
        let stamp = token::verify(response, &self.imprint, roots, now)?;
        if stamp.nonce.as_deref() != Some(&self.nonce) {
            return Err(Error::OtherNonce);
        }
        Ok(stamp)
    }
}
