//! One page of a list.

use serde::{Deserialize, Serialize};

/// A page: rows, newest first, and the start of the next page.
///
/// Stable under inserts: a cursor names the last row seen, so rows added later neither repeat nor shift others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The rows.
    pub data: Vec<T>,
    /// Whether there are more.
    pub has_more: bool,
    /// The `cursor` parameter for the next page; null on the last page.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page of these rows; `next` is the cursor of the next page, if there may be one.
    pub fn up_to(rows: Vec<T>, next: Option<impl ToString>) -> Self {
        Self {
            data: rows,
            has_more: next.is_some(),
            next_cursor: next.map(|next| next.to_string()),
        }
    }

    /// Makes a page of up to `limit + 1` rows: the extra row only shows that there are more.
    pub fn of<C: ToString>(mut rows: Vec<T>, limit: u32, cursor: impl Fn(&T) -> C) -> Self {
        let has_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last = rows.last().filter(|_| has_more);
        let next_cursor = last.map(|last| cursor(last).to_string());
        Self {
            data: rows,
            has_more,
            next_cursor,
        }
    }
}
