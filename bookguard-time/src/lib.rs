//! Trusted time: RFC 3161 time-stamps, with RFC 5816's certificate identifiers.
//!
//! A time-stamp authority signs the digest of something together with the time. Whoever trusts the authority's root then
//! knows that it existed at that time. This crate builds the [request](Request), and [verifies](verify) the response. It
//! opens no connection and reads no clock.
//!
//! | supported | are |
//! |---|---|
//! | digests | SHA-256 of what is stamped; SHA-256, SHA-384, SHA-512 in signatures |
//! | signatures | ECDSA on P-256 and P-384 with SHA-256 or SHA-384; RSA from 2048 bits, PKCS #1 v1.5 and PSS |
//! | encoding | DER; BER is refused |
//!
//! Revocation is not checked. That an authority's certificate has not been revoked is known to those who publish the roots.

mod algorithm;
mod certificate;
mod der;
mod error;
mod oid;
mod request;
mod response;
mod roots;
mod signed;
mod token;

pub use error::Error;
pub use request::Request;
pub use roots::Roots;
pub use token::{Claim, MAX_RESPONSE, Stamp, TOLERANCE_MILLIS, read, verify};
