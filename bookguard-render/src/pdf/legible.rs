//! Text as it can be printed: what shows nothing, turns its neighbours or has no shape in any font becomes its code point.
//!
//! Names come from outside and may hold anything. Invariant: every character of a [`Legible`] has a font that shows it.

use std::fmt::Write as _;
use std::ops::Range;

use bookguard_core::text::misplaced;
use icu_properties::props::{
    BinaryProperty as _, EmojiModifier, EnumeratedProperty as _, GeneralCategory,
};

use super::fonts::{Faces, FontNumber, joins};

/// A text, and the font of each of its characters.
#[derive(Debug, Clone)]
pub(super) struct Legible {
    pub(super) text: String,
    /// Consecutive parts of the text.
    spans: Vec<(Range<usize>, FontNumber)>,
}

impl Legible {
    /// White space of any kind becomes a single space; a line feed ends nothing here.
    pub(super) fn new(raw: &str, bold: bool, faces: &Faces<'_>) -> Self {
        let mut legible = Self {
            text: String::with_capacity(raw.len()),
            spans: Vec::new(),
        };
        for cluster in clusters(raw) {
            let only = cluster.chars().next().unwrap_or_default();
            if matches!(only, ' ' | '\n' | '\t') {
                if !legible.text.ends_with(' ') {
                    legible.push(" ", Faces::shipped(bold));
                }
            } else if let Some(font) = printed(cluster)
                .then(|| faces.that_shows(cluster, bold))
                .flatten()
            {
                legible.push(cluster, font);
            } else {
                legible.push(&code_points(cluster), Faces::shipped(bold));
            }
        }
        legible
    }

    fn push(&mut self, text: &str, font: FontNumber) {
        let from = self.text.len();
        self.text.push_str(text);
        let to = self.text.len();
        match self.spans.last_mut() {
            Some((span, same)) if *same == font => span.end = to,
            _ => self.spans.push((from..to, font)),
        }
    }

    /// The parts of a range that have one font each.
    pub(super) fn spans(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, FontNumber)> {
        let first = self
            .spans
            .partition_point(|(span, _)| span.end <= range.start);
        let within = self.spans[first..].iter().take_while({
            let end = range.end;
            move |(span, _)| span.start < end
        });
        within
            .map(move |(span, font)| (span.start.max(range.start)..span.end.min(range.end), *font))
    }

    /// The font of the character that begins here.
    pub(super) fn font_at(&self, at: usize) -> FontNumber {
        let span = self.spans.partition_point(|(span, _)| span.end <= at);
        self.spans.get(span).map_or(0, |(_, font)| *font)
    }
}

/// Whether a cluster may be printed as it is, if a font has it.
fn printed(cluster: &str) -> bool {
    let begins = cluster
        .chars()
        .next()
        .is_some_and(|c| !joins(c) && !extends(c));
    begins && misplaced(cluster).is_none()
}

fn code_points(cluster: &str) -> String {
    cluster.chars().fold(String::new(), |mut points, c| {
        // Writing to a String cannot fail.
        let _ = write!(points, "[U+{:04X}]", u32::from(c));
        points
    })
}

/// Splits a text into characters, each with the marks, joiners and joined characters after it.
pub(super) fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices();
        let mut before = chars.next()?.1;
        let end = chars.find_map(|(at, c)| {
            let goes_on = joins(c) || extends(c) || before == '\u{200d}';
            before = c;
            (!goes_on).then_some(at)
        });
        let (cluster, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(cluster)
    })
}

/// Whether a character belongs to the one before it.
fn extends(c: char) -> bool {
    let mark = |category| {
        matches!(
            category,
            GeneralCategory::NonspacingMark
                | GeneralCategory::SpacingMark
                | GeneralCategory::EnclosingMark
        )
    };
    !c.is_ascii() && (mark(GeneralCategory::for_char(c)) || EmojiModifier::for_char(c))
}
