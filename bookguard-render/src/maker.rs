//! What a maker of documents needs besides the packets: fonts and roots.

use std::sync::Arc;

use bookguard_core::evidence::TimestampRoots;

use crate::Fonts;

/// What a maker of documents has: the same for all of them.
#[derive(Debug, Clone, Default)]
pub struct Maker {
    /// What PDFs are set in.
    pub fonts: Fonts,
    /// The roots of time-stamp authorities that the maker trusts. Without any, documents say that nobody checked the time-stamps.
    pub roots: Option<Arc<TimestampRoots>>,
}

impl Maker {
    /// What tells the documents of this maker from those of others, in an entity tag; nothing without fonts and roots.
    #[must_use]
    pub fn mark(&self, is_pdf: bool) -> String {
        let mut mark = match is_pdf {
            true => self.fonts.mark(),
            false => String::new(),
        };
        if let Some(roots) = &self.roots {
            mark += &format!("-{}", hex::encode(&roots.digest()[..8]));
        }
        mark
    }
}
