//! Breaks text into lines.
//!
//! Lines end after spaces, after hyphens between letters and between ideographs; a word that is wider than the line is cut.
//! An amount stays on one line with its currency.

use std::ops::Range;

use super::fonts::Faces;
use super::legible::{Legible, clusters};
use crate::words::is_amount;

/// How far a full stop or the like may stand out, as a part of the font's size.
const HANGING: f32 = 0.4;

/// Breaks the text into lines of at most `width`, which is a part of the font's size. Spaces at the end of a line belong to
/// it and may stand out. There is at least one line.
pub(super) fn lines(legible: &Legible, width: f32, faces: &Faces<'_>) -> Vec<Range<usize>> {
    let text = legible.text.as_str();
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    // The width of the line so far, and the last place where it may end, with its width up to there.
    let (mut used, mut last) = (0.0, None);
    for cluster in clusters(text) {
        let face = faces.get(legible.font_at(at));
        let advance: f32 = cluster.chars().map(|c| face.width(c)).sum();
        let hangs = if ".,;:)".contains(cluster) {
            HANGING
        } else {
            0.0
        };
        if cluster != " " && used + advance > width + hangs && at > start {
            let (end, until) = last.unwrap_or((at, used));
            found.push(start..end);
            (start, used, last) = (end, used - until, None);
        }
        used += advance;
        at += cluster.len();
        if may_break(text, at) {
            last = Some((at, used));
        }
    }
    found.push(start..text.len());
    found
}

/// Whether a line may end here.
fn may_break(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at(at);
    let mut backwards = before.chars().rev();
    let (Some(last), Some(next)) = (backwards.next(), after.chars().next()) else {
        return false;
    };
    match (last, next) {
        (' ', _) => !is_amount(&before[..at - 1], after),
        ('-', _) => next.is_alphabetic() && backwards.next().is_some_and(char::is_alphabetic),
        ('—' | '–', _) => true,
        (']', '[') => true,
        (_, ' ') => false,
        _ => {
            (is_wide(last) || is_wide(next))
                && !"、。，．）」』】！？ー".contains(next)
                && !"（「『【".contains(last)
        }
    }
}

/// Whether a line may end on either side of a character: ideographs, kana, hangul.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}
