//! Evidence packets for people: pure functions from a signed packet to a page and two PDFs.
//!
//! Nothing here decides what a packet says: the sentences are those of its `summary`. The same packet gives the same bytes.

mod fingerprint;
mod pdf;

pub use fingerprint::fingerprint;
pub use pdf::{Fonts, PdfForm, RenderError, pdf};
