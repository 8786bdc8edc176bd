//! Webhooks, the pure part: signing, verification, the retry schedule and the record of an attempt.
//!
//! A receiver of Bookguard's webhooks needs [`Secret`] and [`verify()`], nothing else:
//!
//! ```
//! use bookguard_core::webhook::{Secret, VerifyError, verify};
//!
//! fn receive(secret: &str, x_service_signature: &str, body: &[u8]) -> Result<(), VerifyError> {
//!     verify(&Secret::new(secret), x_service_signature, body)
//! }
//! # let header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
//! # receive("It's a Secret to Everybody", header, b"Hello, World!").unwrap();
//! ```
//!
//! That signature covers the body only and can be replayed forever: deduplicate by `eventId`, or check the
//! `webhook-*` headers with [`verify_standard`], which also bounds the age of the request.
//!
//! The server's courier sends; the store and the rules decide what is sent when. Invariant: nothing in here reads a clock,
//! rolls dice or panics, whatever the input.

pub(crate) mod attempt;
pub(crate) mod body;
pub(crate) mod keyring;
pub(crate) mod schedule;
pub(crate) mod secret;
pub(crate) mod signature;

#[cfg(feature = "internals")]
pub use attempt::printable_head;
#[doc(hidden)]
pub use attempt::{Attempt, FailureClass, Phase};
#[cfg(feature = "internals")]
pub use keyring::{DatedSecret, Keyring, SecretTerm};
#[cfg(feature = "internals")]
pub use schedule::{Schedule, retry_after_ms};
pub use secret::{NotStandardSecret, Secret};
pub use signature::{
    StandardHeaders, TOLERANCE, VerifyError, sign_body, sign_standard, verify, verify_standard,
};
