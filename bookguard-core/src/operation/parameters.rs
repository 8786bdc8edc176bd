//! The declarations of operations' query parameters: purpose and accepted values.
//!
//! The operations read the values; a test over HTTP checks that they accept what is declared here.

use crate::limits;
use crate::model::id::Noun;

/// A query parameter, described for the interface document.
#[derive(Debug, Clone, Copy)]
pub struct QueryParam {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// The values it accepts.
    pub form: QueryForm,
}

/// The values a query parameter accepts.
#[derive(Debug, Clone, Copy)]
pub enum QueryForm {
    /// A whole number in digits, from the first to the second; the last is the default.
    Whole(u64, u64, Option<u64>),
    /// A decimal number from 0.
    Decimal,
    /// An RFC 3339 date-time.
    Instant,
    /// When an event starts: an RFC 3339 date-time, or a local date-time or date.
    EventDate,
    /// `true` or `false`.
    Flag,
    /// One word of the vocabulary that has this name in the interface document.
    Words(&'static str),
    /// A word as for `Words`, which must be there.
    RequiredWord(&'static str),
    /// Text of at most this many characters, at least one of them visible.
    Text(usize),
    /// An id with this prefix.
    Id(&'static str),
    /// The name of an action that the audit records.
    Action,
    /// The id of a policy.
    PolicyId,
    /// An event's number in the partner's log, or `latest`.
    Place,
}

impl QueryParam {
    /// Whether the operation refuses a request without it.
    pub fn is_required(&self) -> bool {
        matches!(self.form, QueryForm::RequiredWord(_))
    }
}

pub(crate) const LIMIT: QueryParam = QueryParam {
    name: "limit",
    description: "Rows per page: 1 to 100, 25 when not given.",
    form: QueryForm::Whole(
        1,
        limits::PAGE_ROWS as u64,
        Some(limits::PAGE_ROWS_DEFAULT as u64),
    ),
};

/// The parameter for the beginning of a page; `form` is that of the list's own `nextCursor`.
pub(crate) const fn cursor(form: QueryForm) -> QueryParam {
    QueryParam {
        name: "cursor",
        description: "The `nextCursor` of the previous page.",
        form,
    }
}

/// Does the same as [`cursor`] for a list in the order of its ids.
pub(crate) const fn ids_cursor<N: Noun>() -> QueryParam {
    cursor(QueryForm::Id(N::PREFIX))
}
