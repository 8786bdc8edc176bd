//! Shapes one line of text: orders what is written from right to left, and turns characters into glyphs.
//!
//! Every line reads from left to right; each stretch of right-to-left letters is an island in it. So a name in Arabic never
//! moves the amount after it to its other side.

use std::ops::Range;

use bookguard_core::text::goes_right_to_left;
use krilla::text::{GlyphId, KrillaGlyph};
use rustybuzz::{Direction, UnicodeBuffer};
use unicode_bidi::{BidiClass, BidiInfo, Level, bidi_class};

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
    let parts = match goes_right_to_left(&legible.text[line.clone()]) {
        false => vec![(line.clone(), false)],
        true => ordered(&legible.text, line),
    };
    let mut runs = Vec::new();
    for (part, backwards) in parts {
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

/// The parts of a line from left to right, and whether each is written from right to left.
fn ordered(text: &str, line: &Range<usize>) -> Vec<(Range<usize>, bool)> {
    let mut parts = Vec::new();
    let mut at = line.start;
    for island in islands(&text[line.clone()]) {
        let island = line.start + island.start..line.start + island.end;
        if at < island.start {
            parts.push((at..island.start, false));
        }
        let bidi = BidiInfo::new(&text[island.clone()], Some(Level::rtl()));
        for paragraph in &bidi.paragraphs {
            let (levels, runs) = bidi.visual_runs(paragraph, paragraph.range.clone());
            parts.extend(runs.into_iter().map(|run| {
                let backwards = levels[run.start].is_rtl();
                (island.start + run.start..island.start + run.end, backwards)
            }));
        }
        at = island.end;
    }
    if at < line.end {
        parts.push((at..line.end, false));
    }
    parts
}

/// The stretches from a right-to-left letter to the last one before a left-to-right letter, with the marks on it.
fn islands(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut inside = false;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        match (bidi_class(c), found.last_mut()) {
            (BidiClass::R | BidiClass::AL | BidiClass::AN, Some(island)) if inside => {
                island.end = end
            }
            (BidiClass::R | BidiClass::AL | BidiClass::AN, _) => {
                found.push(at..end);
                inside = true;
            }
            (BidiClass::NSM | BidiClass::BN, Some(island)) if inside && island.end == at => {
                island.end = end
            }
            (BidiClass::L, _) => inside = false,
            _ => {}
        }
    }
    found
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
