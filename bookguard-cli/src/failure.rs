//! Why a command failed, and how that is shown on standard error.
//!
//! One form for people and one for programs; the latter is the JSON a server answers. Invariant: text that came from
//! elsewhere reaches a terminal only through [`plain`].

use std::io;

use bookguard_core::model::ResolutionId;
use bookguard_core::policy::Evaluation;
use bookguard_core::service::OpenError;
use bookguard_core::{Error, FieldError, Kind};
use serde::{Deserialize, Serialize};

use crate::args::Format;
use crate::exit::Exit;
use crate::text::plain;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The command line makes no sense, or a file it names.
    Usage(String),
    /// An operation was refused.
    Refused(Box<Refusal>),
    /// There is no API key where one is needed.
    NoKey,
    /// Something does not verify; what, has been shown.
    NotVerified(String),
    /// A retry or a test that failed; how, has been shown.
    NotDelivered(String),
    /// The server cannot be reached, or the database's server.
    Unreachable(String),
    /// What answers is not Bookguard, or a broken one.
    BadAnswer(String),
    /// This machine's fault, or nobody's.
    Unexpected(String),
    /// Whoever read the output has seen enough.
    Closed,
}

/// A refusal in the words of the HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In the coarsest terms.
    pub kind: Kind,
    /// What programs read.
    pub body: ErrorBody,
    /// Seconds to wait before trying again.
    pub retry_after_s: Option<u32>,
}

/// The JSON of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The status in words.
    pub error: String,
    /// For people.
    pub message: String,
    /// Stable; the interface's 401 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Every faulty field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<FieldError>,
    /// The resolution there is already.
    #[serde(
        default,
        rename = "resolutionId",
        skip_serializing_if = "Option::is_none"
    )]
    pub resolution_id: Option<ResolutionId>,
    /// The hash of the terms' text in force, where another was accepted.
    #[serde(
        default,
        rename = "disclosureHash",
        skip_serializing_if = "Option::is_none"
    )]
    pub disclosure_hash: Option<String>,
    /// What a cancellation comes to now, where something else was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Box<Evaluation>>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        // Nothing the caller sent is wrong: a flag is missing.
        if error.code == "partner_required" {
            return Self::Usage(error.message);
        }
        let obstacle = error.obstacle.map(|obstacle| *obstacle).unwrap_or_default();
        let body = ErrorBody {
            error: reason(error.kind).to_owned(),
            message: error.message,
            code: Some(error.code.into_owned()),
            details: error.details,
            resolution_id: obstacle.resolution_id,
            disclosure_hash: obstacle.disclosure_hash,
            evaluation: (obstacle.evaluation).and_then(|json| serde_json::from_str(&json).ok()),
        };
        Self::Refused(Box::new(Refusal {
            kind: error.kind,
            body,
            retry_after_s: error.retry_after_s,
        }))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unreachable(why) => Self::Unreachable(why),
            OpenError::Refused(why) => Self::Unexpected(why),
        }
    }
}

/// A failed write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Unexpected(format!("standard output cannot be written: {error}")),
        }
    }
}

fn reason(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid => "Bad Request",
        Kind::Unauthorized => "Unauthorized",
        Kind::Forbidden => "Forbidden",
        Kind::NotFound => "Not Found",
        Kind::Conflict => "Conflict",
        Kind::KeyReused => "Unprocessable Content",
        Kind::RateLimited => "Too Many Requests",
        Kind::Internal => "Internal Server Error",
        Kind::Unavailable => "Service Unavailable",
    }
}

impl Failure {
    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Refused(refusal) => refusal.kind.into(),
            Self::NoKey => Exit::Auth,
            Self::NotVerified(_) => Exit::NotVerified,
            Self::NotDelivered(_) => Exit::Refused,
            Self::Unreachable(_) => Exit::Unreachable,
            Self::BadAnswer(_) => Exit::Server,
            Self::Unexpected(_) => Exit::Unexpected,
            Self::Closed => Exit::Ok,
        }
    }

    /// What is wrong, when waiting may mend it.
    pub fn passing(&self) -> Option<&str> {
        match self {
            Self::Unreachable(message) => Some(message),
            Self::Refused(refusal) => {
                let passes = matches!(refusal.kind, Kind::Unavailable | Kind::RateLimited);
                passes.then_some(refusal.body.message.as_str())
            }
            _ => None,
        }
    }

    /// The text for standard error; `None` when there is nobody to tell.
    pub fn text(&self, format: Format) -> Option<String> {
        let (title, body) = self.body()?;
        Some(match format {
            Format::Json => {
                let body = ErrorBody {
                    error: title.to_owned(),
                    ..body
                };
                serde_json::to_string(&body).expect("strings and lists of strings always serialize")
            }
            Format::Table => for_people(&body, self.retry_after_s()),
        })
    }

    fn retry_after_s(&self) -> Option<u32> {
        match self {
            Self::Refused(refusal) => refusal.retry_after_s,
            _ => None,
        }
    }

    fn body(&self) -> Option<(&str, ErrorBody)> {
        let own = |code: &str, message: &str| ErrorBody {
            error: String::new(),
            message: message.to_owned(),
            code: Some(code.to_owned()),
            details: Vec::new(),
            resolution_id: None,
            disclosure_hash: None,
            evaluation: None,
        };
        Some(match self {
            Self::Refused(refusal) => (refusal.body.error.as_str(), refusal.body.clone()),
            Self::Usage(message) => ("Usage", own("usage", message)),
            Self::NoKey => (
                "Unauthorized",
                own(
                    "no_api_key",
                    "A server needs an API key, and none was given. Set BOOKGUARD_API_KEY in the environment, or name a file \
                     that holds the key with --api-key-file.",
                ),
            ),
            Self::NotVerified(message) => {
                ("Verification failed", own("verification_failed", message))
            }
            Self::NotDelivered(message) => ("Not delivered", own("not_delivered", message)),
            Self::Unreachable(message) => ("Unreachable", own("unreachable", message)),
            Self::BadAnswer(message) => ("Bad answer", own("bad_answer", message)),
            Self::Unexpected(message) => ("Unexpected", own("unexpected", message)),
            Self::Closed => return None,
        })
    }
}

fn for_people(body: &ErrorBody, retry_after_s: Option<u32>) -> String {
    let code = body.code.as_deref().unwrap_or("unauthorized");
    let mut text = format!("error: {} ({})", plain(&body.message), plain(code));
    for detail in &body.details {
        let message = detail.message.trim_end_matches('.');
        text.push_str(&format!(
            "\n  {}: {}. {}",
            plain(&detail.pointer),
            plain(message),
            plain(&detail.fix)
        ));
    }
    if let Some(seconds) = retry_after_s {
        text.push_str(&format!("\n  Try again in {seconds} s."));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Failure {
        Error::faults(vec![
            FieldError {
                pointer: "/talent/id".to_owned(),
                code: "missing_field".to_owned(),
                message: "is missing".to_owned(),
                fix: "Send it.".to_owned(),
            },
            FieldError {
                pointer: "/tal\u{1b}[2Jent".to_owned(),
                code: "unknown_field".to_owned(),
                message: "is not known.".to_owned(),
                fix: "Did you mean \"talent\"?".to_owned(),
            },
        ])
        .into()
    }

    #[test]
    fn people_read_the_message_the_code_and_every_field_with_its_fix() {
        let text = refused().text(Format::Table).unwrap();
        assert_eq!(
            text,
            "error: 2 fields are not valid; see details. (invalid_request)\n  \
             /talent/id: is missing. Send it.\n  \
             /tal\u{fffd}[2Jent: is not known. Did you mean \"talent\"?"
        );
    }

    #[test]
    fn programs_read_what_a_server_would_answer() {
        let text = refused().text(Format::Json).unwrap();
        let body: ErrorBody = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (body.error.as_str(), body.code.as_deref()),
            ("Bad Request", Some("invalid_request"))
        );
        assert_eq!(body.details.len(), 2);
    }

    #[test]
    fn every_failure_has_its_exit_code_and_its_words() {
        let failures = [
            (
                Failure::Usage("m".to_owned()),
                Exit::Usage,
                "error: m (usage)",
            ),
            (
                Failure::NotVerified("m".to_owned()),
                Exit::NotVerified,
                "error: m (verification_failed)",
            ),
            (
                Failure::NotDelivered("m".to_owned()),
                Exit::Refused,
                "error: m (not_delivered)",
            ),
            (
                Failure::Unreachable("m".to_owned()),
                Exit::Unreachable,
                "error: m (unreachable)",
            ),
            (
                Failure::BadAnswer("m".to_owned()),
                Exit::Server,
                "error: m (bad_answer)",
            ),
            (
                Failure::Unexpected("m".to_owned()),
                Exit::Unexpected,
                "error: m (unexpected)",
            ),
            (
                Error::not_found("booking").into(),
                Exit::NotFound,
                "error: No such booking.",
            ),
            (
                Error::busy().into(),
                Exit::Server,
                "error: The service has more writes waiting",
            ),
            (
                Error::invalid("partner_required", "Name one.").into(),
                Exit::Usage,
                "error: Name one. (usage)",
            ),
        ];
        for (failure, exit, begins) in failures {
            assert_eq!(failure.exit(), exit, "{failure:?}");
            let text = failure.text(Format::Table).unwrap();
            assert!(text.starts_with(begins), "{text}");
        }
        assert_eq!(Failure::NoKey.exit(), Exit::Auth);
        assert!(
            Failure::NoKey
                .text(Format::Table)
                .unwrap()
                .contains("BOOKGUARD_API_KEY")
        );
    }

    #[test]
    fn a_reader_that_closed_the_pipe_is_no_failure() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(
            (closed.exit(), closed.text(Format::Table)),
            (Exit::Ok, None)
        );
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.exit(), Exit::Unexpected);
    }

    #[test]
    fn the_wait_before_another_attempt_is_said() {
        let text = Failure::from(Error::busy()).text(Format::Table).unwrap();
        assert!(text.ends_with("\n  Try again in 1 s."), "{text}");
    }
}
