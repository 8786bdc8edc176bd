//! What every row with an id is checked for, and how findings name it.

use std::fmt;

use super::{CLOCK_SLACK_MS, Check};
use crate::model::id::Noun;
use crate::model::{Id, Timestamp};

pub(super) const MISSPELLED: &str = "it is not as Bookguard writes it";

/// Says that a row has no code of the sealing key that belongs to it, and what follows from that.
pub(super) fn forged(follows: &str) -> String {
    format!(
        "this row is not as Bookguard wrote it: it was written or changed by somebody without the ledger key. {follows}"
    )
}

/// The row that is checked.
pub(super) struct CheckedRow<N: Noun> {
    /// Its table.
    what: &'static str,
    pub id: Id<N>,
    /// When it was made, according to its document.
    made: Timestamp,
}

impl<N: Noun> CheckedRow<N> {
    /// The name of one of its fields in findings.
    pub fn place(&self, field: &str) -> String {
        format!("{} {} field {field}", self.what, self.id)
    }
}

impl Check<'_> {
    /// Checks that a row's id is the one in its document and contains its creation time.
    pub(super) fn checked<N: Noun>(
        &mut self,
        what: &'static str,
        id: Id<N>,
        document: Id<N>,
        made: Timestamp,
    ) -> CheckedRow<N> {
        let it = CheckedRow { what, id, made };
        if id != document {
            let detail = format!("row says {id}, its document says {document}");
            self.fault(&it, "id", detail);
        }
        if document.made_at() != made {
            let detail = format!("it says {made}, its id says {}", document.made_at());
            self.fault(&it, "createdAt", detail);
        }
        it
    }

    /// Adds a finding about a field.
    pub(super) fn fault<N: Noun>(
        &mut self,
        it: &CheckedRow<N>,
        field: &str,
        detail: impl Into<String>,
    ) {
        self.findings.add(it.what, it.place(field), detail);
    }

    /// Adds a warning about a field.
    pub(super) fn doubt<N: Noun>(
        &mut self,
        it: &CheckedRow<N>,
        field: &str,
        detail: impl fmt::Display,
    ) {
        self.findings.doubt(it.what, it.place(field), detail);
    }

    /// Warns if a field is a time before the row was made.
    pub(super) fn not_before<N: Noun>(
        &mut self,
        it: &CheckedRow<N>,
        field: &str,
        at: Option<Timestamp>,
    ) {
        if let Some(at) = at.filter(|at| at.ms() < it.made.ms() - CLOCK_SLACK_MS) {
            let detail = format!("{at} is before it was made, {}", it.made);
            self.doubt(it, field, detail);
        }
    }
}
