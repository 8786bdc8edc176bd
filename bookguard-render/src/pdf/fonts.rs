//! The fonts of a PDF: Noto Sans, which is shipped, and what an operator adds for other scripts.

use std::sync::Arc;

use krilla::Data;
use rustybuzz::Face;
use rustybuzz::ttf_parser::{GlyphId, Permissions};
use sha2::{Digest as _, Sha256};

use super::RenderError;

const REGULAR: &[u8] = include_bytes!("../../fonts/NotoSans-Regular.ttf");
const BOLD: &[u8] = include_bytes!("../../fonts/NotoSans-Bold.ttf");

/// The fonts that PDFs are set in.
///
/// The shipped ones cover Latin, Greek and Cyrillic. A character that no font has is printed as its code point, such as
/// `[U+5F20]`.
#[derive(Debug, Clone, Default)]
pub struct Fonts {
    added: Vec<Arc<Vec<u8>>>,
    /// Of all added files, in their order.
    digest: [u8; 32],
}

impl Fonts {
    /// Adds a font file for what the fonts before it lack: TrueType or OpenType. Of a collection, the first font is used.
    ///
    /// # Errors
    /// What is wrong with the file: it is neither TrueType nor OpenType, has no outlines, or its license forbids embedding part of it.
    pub fn with(mut self, file: Vec<u8>) -> Result<Self, &'static str> {
        let file = Arc::new(file);
        let face = Face::from_slice(&file, 0).ok_or("is not a TrueType or OpenType font")?;
        // A font that says nothing of this permits it.
        let forbids_parts = face.tables().os2.is_some() && !face.is_subsetting_allowed();
        if face.permissions() == Some(Permissions::Restricted) || forbids_parts {
            return Err("does not permit embedding in documents");
        }
        // What is left are pictures, and the second version of PostScript outlines, which only variable fonts have.
        if face.tables().glyf.is_none() && face.tables().cff.is_none() {
            return Err("has neither TrueType nor PostScript (CFF) outlines");
        }
        if krilla::text::Font::new(Arc::clone(&file).into(), 0).is_none() {
            return Err("cannot be embedded in a PDF");
        }
        let digest = Sha256::new().chain_update(self.digest);
        self.digest = digest
            .chain_update(Sha256::digest(&*file))
            .finalize()
            .into();
        self.added.push(file);
        Ok(self)
    }

    /// What tells these fonts from others in an entity tag; nothing if none was added.
    #[must_use]
    pub fn mark(&self) -> String {
        match self.added.is_empty() {
            true => String::new(),
            false => format!("-{}", hex::encode(&self.digest[..8])),
        }
    }

    /// Reads the fonts for one document.
    pub(super) fn faces(&self) -> Result<Faces<'_>, RenderError> {
        let shipped = [REGULAR, BOLD].map(|file| Typeface::read(file, file.into()));
        let added = self
            .added
            .iter()
            .map(|file| Typeface::read(file, Arc::clone(file).into()));
        let faces: Option<Vec<_>> = shipped.into_iter().chain(added).collect();
        faces.map(Faces).ok_or(RenderError::Font)
    }
}

/// The fonts in the order in which they are tried, the two weights of the shipped one first.
pub(super) struct Faces<'a>(Vec<Typeface<'a>>);

/// The number of a font among the [`Faces`].
pub(super) type FontNumber = usize;

impl<'a> Faces<'a> {
    pub(super) fn get(&self, number: FontNumber) -> &Typeface<'a> {
        &self.0[number]
    }

    /// The shipped font of this weight.
    pub(super) fn shipped(bold: bool) -> FontNumber {
        usize::from(bold)
    }

    /// The first font that shows every one of these characters.
    pub(super) fn that_shows(&self, cluster: &str, bold: bool) -> Option<FontNumber> {
        let shows = |number: &FontNumber| cluster.chars().all(|c| self.0[*number].shows(c));
        let shipped = Self::shipped(bold);
        std::iter::once(shipped).chain(2..self.0.len()).find(shows)
    }
}

/// A font, ready to be measured, shaped and embedded.
pub(super) struct Typeface<'a> {
    pub(super) face: Face<'a>,
    pub(super) embedded: krilla::text::Font,
    units: f32,
}

impl<'a> Typeface<'a> {
    fn read(file: &'a [u8], data: Data) -> Option<Self> {
        let face = Face::from_slice(file, 0)?;
        Some(Self {
            units: f32::from(face.units_per_em().try_into().unwrap_or(1000_u16)),
            embedded: krilla::text::Font::new(data, 0)?,
            face,
        })
    }

    /// Font units, as a part of the font's size.
    #[expect(
        clippy::cast_precision_loss,
        reason = "distances on a page, far below 2^24 units"
    )]
    pub(super) fn scaled(&self, units: i32) -> f32 {
        units as f32 / self.units
    }

    /// Whether the font has a shape for it. A picture, as in fonts of coloured emoji, is not one.
    fn shows(&self, c: char) -> bool {
        let shape =
            |glyph: GlyphId| c.is_whitespace() || self.face.glyph_bounding_box(glyph).is_some();
        joins(c) || self.face.glyph_index(c).is_some_and(shape)
    }

    /// The width of a character that stands alone, as a part of the font's size.
    pub(super) fn width(&self, c: char) -> f32 {
        if joins(c) {
            return 0.0;
        }
        let glyph = self.face.glyph_index(c).unwrap_or_default();
        self.scaled(
            self.face
                .glyph_hor_advance(glyph)
                .unwrap_or_default()
                .into(),
        )
    }
}

/// Whether a character only changes the look of those beside it: joiners and variation selectors. The shaper hides it.
pub(super) fn joins(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}')
}
