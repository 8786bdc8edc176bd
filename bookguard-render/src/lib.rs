//! Evidence packets for people: pure functions from a signed packet to a page and two PDFs.
//!
//! Nothing here decides what a packet says: the sentences are those of its `summary`. The same packet gives the same bytes.

mod archive;
mod fingerprint;
mod maker;
mod others;
pub mod page;
mod pdf;
mod words;

pub use archive::{Segment, archive, length};
pub use fingerprint::fingerprint;
pub use maker::Maker;
pub use pdf::{Fonts, PdfForm, RenderError, pdf};

/// The verifier in JavaScript, as it is published: plain, and without dependencies.
pub const VERIFIER: &str = include_str!("verify.js");
