//! Why a question about a policy has no answer.

use std::fmt;

use crate::error::{Error, Kind};

/// A refusal: a stable code and words for people. Nothing was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable snake_case.
    pub code: &'static str,
    /// Names the thing, the rule and the way out.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// `Conflict` when only the state of the booking stands in the way, `Invalid` when the request does.
    pub fn kind(&self) -> Kind {
        match self.code {
            "booking_already_canceled" | "claim_window_closed" => Kind::Conflict,
            _ => Kind::Invalid,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::new(refusal.kind(), refusal.code, refusal.message)
    }
}
