//! The two PDFs of an evidence packet.
//!
//! ```text
//! content   what is said        fonts, legible   what can be printed, in which font
//! layout    where it stands     breaking         where lines end
//! paint     the file            shaping          which glyphs, in which order
//! ```
//!
//! Invariants: the same packet, key and maker give the same bytes; no text in a packet, however hostile, leads to a file that
//! breaks the standards it claims; nothing is decided here that the packet does not say.

use std::fmt;

use bookguard_core::evidence::Packet;
use bookguard_core::ledger::{VerifierKey, jcs};
use krilla::error::KrillaError;

mod breaking;
mod content;
mod fonts;
mod layout;
mod legible;
mod paint;
mod shaping;

use content::{Limits, Told};

use crate::Maker;
pub use fonts::Fonts;
use layout::Layout;

/// Pages of a PDF for a bank: card networks refuse longer ones.
const MOST_PAGES: usize = 10;

/// What a PDF is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PdfForm {
    /// To be read by a card bank: at most ten pages, nothing attached, no links.
    Bank,
    /// To be kept: PDF/A-3b and PDF/UA-1, complete, with the packet attached.
    Archive,
}

/// Why there is no PDF.
#[derive(Debug)]
pub enum RenderError {
    /// The packet cannot be read.
    Packet(String),
    /// The key is not a verifier key.
    Key,
    /// A font cannot be read.
    Font,
    /// The PDF cannot be written.
    Pdf(KrillaError),
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet(error) => write!(f, "The text is not an evidence packet: {error}."),
            Self::Key => f.write_str("The verifier key is not of the form name+id+base64."),
            Self::Font => f.write_str("A font cannot be read."),
            Self::Pdf(error) => write!(f, "The PDF cannot be written: {error}."),
        }
    }
}

impl std::error::Error for RenderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Packet(_) | Self::Key | Self::Font => None,
            Self::Pdf(error) => Some(error),
        }
    }
}

/// Prints a packet, given its exact text and the key of its ledger.
///
/// It does not verify the packet: whoever did not make it verifies it first.
///
/// # Errors
/// The text is not a packet, or the key not a verifier key.
pub fn pdf(packet: &str, vkey: &str, form: PdfForm, maker: &Maker) -> Result<Vec<u8>, RenderError> {
    let read = read(packet).map_err(RenderError::Packet)?;
    let faces = maker.fonts.faces()?;
    let key: VerifierKey = vkey.parse().map_err(|_| RenderError::Key)?;
    let told = Told::of(read, packet, &key, maker);
    let lay =
        |limits, most_pages| Layout::new(&told.blocks(&key, form, limits), &faces, most_pages);
    let layout = match form {
        PdfForm::Bank => fitted(&told, |limits| lay(limits, MOST_PAGES)),
        PdfForm::Archive => lay(Limits::NONE, usize::MAX),
    };
    let attached = (form == PdfForm::Archive).then_some(packet);
    paint::paint(&layout, &told, &faces, attached).map_err(RenderError::Pdf)
}

/// Reads a packet in any of its spellings, as its verification does.
fn read(text: &str) -> Result<Packet, String> {
    let value = jcs::parse(text.strip_suffix('\n').unwrap_or(text)).map_err(|e| e.to_string())?;
    let canonical = jcs::to_canonical(&value).map_err(|e| e.to_string())?;
    serde_json::from_str(&canonical).map_err(|e| e.to_string())
}

/// Lays the document out on at most [`MOST_PAGES`] pages. Leaves out former terms first; then of the timeline, the terms in force, the account.
fn fitted(told: &Told, lay: impl Fn(Limits) -> Layout) -> Layout {
    let fits = |layout: &Layout| layout.pages.len() <= MOST_PAGES;
    let whole = lay(Limits::NONE);
    if fits(&whole) {
        return whole;
    }
    let mut limits = told.lengths();
    let parts: [fn(&mut Limits) -> &mut usize; 4] = [
        |limits| &mut limits.former,
        |limits| &mut limits.timeline,
        |limits| &mut limits.agreed,
        |limits| &mut limits.story,
    ];
    for part in parts {
        let (mut fitting, mut too_many) = (0, *part(&mut limits));
        *part(&mut limits) = 0;
        if !fits(&lay(limits)) {
            continue;
        }
        while too_many - fitting > 1 {
            let middle = fitting.midpoint(too_many);
            *part(&mut limits) = middle;
            match fits(&lay(limits)) {
                true => fitting = middle,
                false => too_many = middle,
            }
        }
        *part(&mut limits) = fitting;
        break;
    }
    lay(limits)
}
