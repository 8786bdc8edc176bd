//! What is wrong with a text that stands for a value of its own.

use std::fmt;

/// Why a text is not what it was read as: the text, and the rule that it breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(String);

/// Characters of the text that are shown.
const SHOWN_CHARS: usize = 40;

impl ParseError {
    /// `rule` is the rest of a sentence about the text.
    pub(crate) fn new(text: &str, rule: &str) -> Self {
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        Self(format!("{shown:?}{more} {rule}"))
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}
