//! The one error type of the product: its kind, a stable code to branch on, and words for people.
//!
//! Each frontend translates [`Kind`] once (HTTP status, exit code). A message names the object and the rule and never holds
//! a secret. Internal causes are logged at the edge and are not part of it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::FAULTS;
use crate::model::ResolutionId;

/// The class of an error, as coarse as a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Kind {
    /// The request is malformed or breaks a rule on its fields (400).
    Invalid,
    /// The key is missing or invalid (401).
    Unauthorized,
    /// The key is valid but may not do this (403).
    Forbidden,
    /// Unknown, or another partner's: both get the same answer (404).
    NotFound,
    /// The object's state does not allow it (409).
    Conflict,
    /// An idempotency key was repeated with another request (422).
    KeyReused,
    /// Too many requests; [`Error::retry_after_s`] says when to try again (429).
    RateLimited,
    /// A fault of ours (500).
    Internal,
    /// Temporarily impossible: overloaded, or the write's outcome is unknown. Repeat with the same idempotency key (503).
    Unavailable,
}

/// One faulty field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct FieldError {
    /// RFC 6901 JSON pointer into the body, or `?name` for a query parameter, or a header's name.
    pub pointer: String,
    /// Stable snake_case code.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
    /// How to fix it.
    pub fix: String,
}

/// What blocks an operation, as far as the caller may see it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Obstacle {
    /// The existing resolution of a booking that is already canceled, or of a review that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_id: Option<ResolutionId>,
    /// With `disclosure_changed`: the hash of the text to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disclosure_hash: Option<String>,
    /// The current result of a cancellation, which differs from the expected one: an evaluation as JSON, because this
    /// module does not depend on policies.
    #[serde(skip)]
    pub evaluation: Option<String>,
}

impl FieldError {
    /// A fault of one field.
    pub fn new(
        pointer: impl Into<String>,
        code: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            pointer: pointer.into(),
            code: code.into(),
            message: message.into(),
            fix: fix.into(),
        }
    }
}

/// Why an operation did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Error {
    /// The coarse kind.
    pub kind: Kind,
    /// Stable snake_case code.
    pub code: Cow<'static, str>,
    /// For people: names the object and the rule, and the way out unless `details` do.
    pub message: String,
    /// Every faulty field, when the request itself was at fault.
    pub details: Vec<FieldError>,
    /// What blocks the operation, if the refusal has something to show.
    pub obstacle: Option<Box<Obstacle>>,
    /// Seconds to wait before trying again, if known.
    pub retry_after_s: Option<u32>,
}

/// The code of [`Error::outdated`].
#[cfg(feature = "internals")]
const OUTDATED: &str = "policies_changed";

/// A refusal because of an object's state, with its code and what formats its message.
#[cfg(feature = "store")]
macro_rules! conflict {
    ($code:literal, $($message:tt)+) => {
        $crate::error::Error::conflict($code, format!($($message)+))
    };
}
#[cfg(feature = "store")]
pub(crate) use conflict;

impl Error {
    /// An error of `kind` with its code and message.
    pub fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: Cow::Borrowed(code),
            message: message.into(),
            details: Vec::new(),
            obstacle: None,
            retry_after_s: None,
        }
    }

    /// A request that breaks a rule.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, code, message)
    }

    /// A refusal because of an object's state.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, code, message)
    }

    /// A fault of ours. `message` goes to the log, never to a client.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, "internal", message)
    }
}

/// The answers of the service.
#[cfg(feature = "internals")]
impl Error {
    /// Adds what blocks the operation.
    #[must_use]
    pub fn showing(self, obstacle: Obstacle) -> Self {
        Self {
            obstacle: Some(Box::new(obstacle)),
            ..self
        }
    }

    /// The 401 answer that the specification requires.
    pub fn unauthorized() -> Self {
        Self::new(
            Kind::Unauthorized,
            "unauthorized",
            "Missing or invalid x-api-key",
        )
    }

    /// The 401 answer of the operator interface.
    pub fn operator_unauthorized() -> Self {
        Self::new(
            Kind::Unauthorized,
            "unauthorized",
            "Missing or invalid x-operator-key",
        )
    }

    /// An id unknown to this caller; `noun` is the resource ("booking"). It says nothing about the id itself, so that an
    /// unknown id and another partner's id get the same bytes.
    pub fn not_found(noun: &str) -> Self {
        let way = match noun {
            // No partner owns these.
            "partner" | "operator key" => "Check the id.",
            _ => "Check the id, and that the request is for the partner that owns it.",
        };
        let message = format!("No such {noun}. {way}");
        Self::new(Kind::NotFound, "not_found", message)
    }

    /// What is impossible for now, and may be tried again after some seconds.
    fn for_now(retry_after_s: u32, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            retry_after_s: Some(retry_after_s),
            ..Self::new(Kind::Unavailable, code, message)
        }
    }

    /// The write's outcome is not known, or the store does not answer.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::for_now(1, "unavailable", message)
    }

    /// The ledger continues in another database. Only the operator is told which.
    pub fn ledger_moved() -> Self {
        Self::for_now(
            30,
            "ledger_moved",
            "The service's ledger has moved to another database, and this one takes no more writes. Nothing of this request was \
             kept; repeat it with the same Idempotency-Key where the service runs now.",
        )
    }

    /// A newer program upgraded the database, and this one can no longer use it.
    pub fn schema_newer() -> Self {
        Self::for_now(
            30,
            "schema_newer",
            "The service's database was upgraded for a newer version of the service than this node runs. Nothing of this \
                 request was kept; repeat it with the same Idempotency-Key.",
        )
    }

    /// The database holds less than was published. Only the operator is told the details.
    pub fn ledger_rolled_back() -> Self {
        Self::for_now(
            30,
            "ledger_rolled_back",
            "The service's database lacks part of what its ledger has published. It can be read, but takes no writes until \
                 it is whole again. Nothing of this request was kept; repeat it later with the same Idempotency-Key.",
        )
    }

    /// The database holds other entries than those that were published.
    pub fn ledger_forked() -> Self {
        Self {
            message: "The entries in the service's database are not those that its ledger has published. It signs nothing until its \
                      operator brings back the database that holds those, or accepts the loss with `bookguard ledger accept-rollback`."
                .to_owned(),
            ..Self::ledger_rolled_back()
        }
    }

    /// The database is from before erasures that were done.
    pub fn erasures_pending() -> Self {
        Self::for_now(
            30,
            "erasures_pending",
            "The service's database was restored from a time before values were erased. It serves nothing until they are erased \
                 again: its operator accepts the loss with `bookguard ledger accept-rollback`, or brings back the newer database.",
        )
    }

    /// The caller's key is of a suspended partner.
    pub fn partner_suspended() -> Self {
        Self::new(
            Kind::Forbidden,
            "partner_suspended",
            "The partner is suspended: its keys can only read. Ask the service's operator.",
        )
    }

    /// The disk is full.
    pub fn storage_full() -> Self {
        Self::for_now(
            1,
            "storage_full",
            "The service's disk is full. Reads continue; a write is refused until there is room again, and nothing of it is kept. \
                 Repeat it later with the same Idempotency-Key.",
        )
    }

    /// The database takes no writes.
    pub fn storage_read_only() -> Self {
        Self::for_now(
            1,
            "storage_read_only",
            "The service's database is read-only at present. Reads continue; a write is refused, and nothing of it is kept. Repeat \
                 it later with the same Idempotency-Key.",
        )
    }

    /// Too little disk space is left for new data.
    pub fn storage_low() -> Self {
        Self::for_now(
            30,
            "storage_low",
            "The service's disk has too little room for anything new. Nothing of this request was kept; repeat it later with the \
                 same Idempotency-Key. What is there already can be protected, canceled and read.",
        )
    }

    /// A request was prepared from this node's cached policies of a partner, which are out of date. Nothing was written;
    /// prepared again from the store, the request can go on.
    pub fn outdated() -> Self {
        Self::for_now(
            1,
            OUTDATED,
            "The partner's policies changed while this request was under way. Nothing was written; send it again.",
        )
    }

    /// Whether it is [`Error::outdated`].
    pub fn is_outdated(&self) -> bool {
        self.code == OUTDATED
    }

    /// The writer's queue is full.
    pub fn busy() -> Self {
        Self::for_now(
            1,
            "busy",
            "The service has more writes waiting than it accepts. Nothing was written; try again after Retry-After seconds.",
        )
    }
}

impl Error {
    /// One faulty field.
    pub fn fault(
        pointer: impl Into<String>,
        code: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::faults(vec![FieldError::new(pointer, code, message, fix)])
    }

    /// Turns the error into the fault of one field.
    pub(crate) fn at_field(self, pointer: &str, fix: &str) -> Self {
        Self::fault(pointer, self.code, self.message, fix)
    }

    /// One or more faulty fields. A single fault's code becomes the error's.
    pub fn faults(details: Vec<FieldError>) -> Self {
        let (code, message) = match details.as_slice() {
            // The fault of the whole body has an empty pointer.
            [one] if one.pointer.is_empty() => (
                Cow::Owned(one.code.clone()),
                format!("The body {}", one.message),
            ),
            [one] => (
                Cow::Owned(one.code.clone()),
                format!("{}: {}", one.pointer, one.message),
            ),
            many => (
                Cow::Borrowed("invalid_request"),
                match many.len() {
                    // The rest was not looked for.
                    FAULTS.. => format!(
                        "At least {FAULTS} fields are not valid; details has the first {FAULTS}."
                    ),
                    few => format!("{few} fields are not valid; see details."),
                },
            ),
        };
        Self {
            code,
            details,
            ..Self::invalid("", message)
        }
    }
}

/// How many of several faults an error names in words; the rest are in [`Error::details`].
const FAULTS_IN_WORDS: usize = 3;

/// Writes the message, where the first faults are and how to fix them, and the code. Whoever passes an error on keeps nothing else of it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stop = if self.message.ends_with('.') { "" } else { "." };
        f.write_str(&self.message)?;
        match self.details.as_slice() {
            [] => {}
            // The message says what is wrong.
            [one] => write!(f, "{stop} {}", one.fix)?,
            many => {
                for fault in many.iter().take(FAULTS_IN_WORDS) {
                    let place = match fault.pointer.as_str() {
                        "" => "the body",
                        pointer => pointer,
                    };
                    write!(f, " {place}: {}. {}", fault.message, fault.fix)?;
                }
                if many.len() > FAULTS_IN_WORDS {
                    write!(f, " And {} more.", many.len() - FAULTS_IN_WORDS)?;
                }
            }
        }
        write!(f, " ({})", self.code)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_words_an_error_says_where_its_first_faults_are_and_how_to_fix_them() {
        let fault =
            |pointer: &str| FieldError::new(pointer, "missing_field", "is missing", "Send it.");
        let faults =
            |pointers: &[&str]| Error::faults(pointers.iter().map(|at| fault(at)).collect());
        for (error, expected) in [
            (
                Error::conflict("not_found", "There is none. Look again."),
                "There is none. Look again. (not_found)",
            ),
            (
                Error::internal("the disk failed"),
                "the disk failed (internal)",
            ),
            (faults(&["/a"]), "/a: is missing. Send it. (missing_field)"),
            (
                faults(&[""]),
                "The body is missing. Send it. (missing_field)",
            ),
            (
                faults(&["/a", ""]),
                "2 fields are not valid; see details. /a: is missing. Send it. the body: is missing. Send it. (invalid_request)",
            ),
            (
                faults(&["/a", "/b", "/c", "/d", "/e"]),
                "5 fields are not valid; see details. /a: is missing. Send it. /b: is missing. Send it. \
                 /c: is missing. Send it. And 2 more. (invalid_request)",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
