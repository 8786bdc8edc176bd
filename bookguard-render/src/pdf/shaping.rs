//! Shapes one line of text: orders what is written from right to left, and turns characters into glyphs.
//!
//! Every line reads from left to right. Each quotation is an island in it and reads as its first letter does, so a name in Arabic
//! never moves the amount after it to its other side.

use std::ops::Range;

use bookguard_core::text::goes_right_to_left;
use krilla::text::{GlyphId, KrillaGlyph};
use rustybuzz::{Direction, UnicodeBuffer};
use unicode_bidi::{Level, ParagraphBidiInfo};

use super::fonts::{Faces, FontNumber, Typeface};
use super::legible::Legible;

/// Glyphs of one font, in the order in which they stand on the line.
pub(super) struct Run {
    pub(super) font: FontNumber,
    /// Their places in the text are counted from the line's beginning.
    pub(super) glyphs: Vec<KrillaGlyph>,
}

impl Run {
    /// Its width, as a part of the font's size.
    pub(super) fn width(&self) -> f32 {
        self.glyphs.iter().map(|glyph| glyph.x_advance).sum()
    }
}

/// Shapes a line of the text.
pub(super) fn shape(legible: &Legible, line: &Range<usize>, faces: &Faces<'_>) -> Vec<Run> {
    let mut runs = Vec::new();
    for (part, backwards) in ordered(&legible.text, line) {
        let mut spans: Vec<_> = legible.spans(part).collect();
        if backwards {
            spans.reverse();
        }
        for (span, font) in spans {
            let text = &legible.text[span.clone()];
            let glyphs = glyphs(text, span.start - line.start, backwards, faces.get(font));
            runs.push(Run { font, glyphs });
        }
    }
    runs
}

/// The parts of a line of this text from left to right, and whether each is written from right to left (UAX 9).
fn ordered(text: &str, line: &Range<usize>) -> Vec<(Range<usize>, bool)> {
    if line.is_empty() || !goes_right_to_left(text) {
        return vec![(line.clone(), false)];
    }
    // The characters that isolate what stands between them are as long as the marks that they replace.
    let isolated = text
        .replace('\u{201c}', "\u{2068}")
        .replace('\u{201d}', "\u{2069}");
    let bidi = ParagraphBidiInfo::new(&isolated, Some(Level::ltr()));
    let (levels, runs) = bidi.visual_runs(line.clone());
    let parts = runs.into_iter().map(|run| {
        let backwards = levels[run.start].is_rtl();
        (run, backwards)
    });
    parts.collect()
}

/// Shapes text of one direction in one font. `from` is its place on the line.
fn glyphs(text: &str, from: usize, backwards: bool, typeface: &Typeface<'_>) -> Vec<KrillaGlyph> {
    let mut buffer = UnicodeBuffer::new();
    buffer.push_str(text);
    buffer.guess_segment_properties();
    buffer.set_direction(match backwards {
        true => Direction::RightToLeft,
        false => Direction::LeftToRight,
    });
    let shaped = rustybuzz::shape(&typeface.face, &[], buffer);
    let starts: Vec<usize> = shaped
        .glyph_infos()
        .iter()
        .map(|info| info.cluster as usize)
        .collect();
    let mut sorted = starts.clone();
    sorted.sort_unstable();
    let placed = shaped
        .glyph_infos()
        .iter()
        .zip(shaped.glyph_positions())
        .zip(&starts);
    placed
        .map(|((info, position), start)| {
            let next = sorted.get(sorted.partition_point(|other| other <= start));
            let end = next.copied().unwrap_or(text.len());
            KrillaGlyph::new(
                GlyphId::new(info.glyph_id),
                typeface.scaled(position.x_advance),
                typeface.scaled(position.x_offset),
                typeface.scaled(position.y_offset),
                typeface.scaled(position.y_advance),
                from + start..from + end,
                None,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::ordered;

    #[test]
    fn a_quotation_reads_as_its_first_letter_does_and_moves_nothing_around_it() {
        // The line, which may begin within its text, and its parts from left to right; `<` marks one that reads from right to left.
        for (before, line, expected) in [
            ("", "paid 5 times", &["paid 5 times"][..]),
            (
                "",
                "paid “שלום (לי)” 4500 times",
                &["paid “", "<שלום (לי)", "” 4500 times"],
            ),
            ("", "“שלום 5”, 6", &["“", "5", "<שלום ", "”, 6"]),
            ("", "“Band שלום” (7)", &["“", "Band ", "<שלום", "” (7)"]),
            ("paid “שלום ", "לי” 5 times", &["<לי", "” 5 times"]),
            // A name that stands alone.
            ("", "שלום (לי)", &["<שלום (לי)"]),
            ("שלום", "", &[""]),
        ] {
            let text = format!("{before}{line}");
            let parts = ordered(&text, &(before.len()..text.len()));
            let seen = parts.into_iter().map(|(part, backwards)| match backwards {
                true => format!("<{}", &text[part]),
                false => text[part].to_owned(),
            });
            assert_eq!(seen.collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
