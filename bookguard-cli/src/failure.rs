//! The ways in which a command fails, and how they are shown on standard error.
//!
//! There is one form for people and one for programs; the latter is the JSON that a server answers. Invariant: text that
//! came from elsewhere reaches a terminal only through [`plain`] and [`escaped`].

use std::io;
use std::time::Duration;

use bookguard_core::service::OpenError;
use bookguard_core::{Error, Kind};
pub use bookguard_server::ErrorBody;

use crate::args::Format;
use crate::exit::Exit;
use crate::text::{escaped, plain};

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line, or a file that it names, is invalid.
    Usage(String),
    /// The command does not work at the place that was named: what follows the command's name in the message.
    NotHere(&'static str),
    /// An operation was refused.
    Refused(Box<ErrorAnswer>),
    /// An API key is needed, and there is none.
    NoKey,
    /// A person was asked, and did not agree.
    NotConfirmed,
    /// Something does not verify; the findings were already shown.
    NotVerified(String),
    /// A retry or a test failed; the reason was already shown.
    NotDelivered(String),
    /// An installation has problems; the findings were already shown.
    Problems(String),
    /// The server or the database server cannot be reached.
    Unreachable(String),
    /// The answer is not Bookguard's, or is malformed.
    BadAnswer(String),
    /// A fault of this machine, or one without a known cause.
    Unexpected(String),
    /// A server is not ready, for this reason.
    NotReady(Box<Failure>),
    /// The reader of the output has closed it.
    Closed,
    /// The request was printed instead of sent, as asked for.
    Printed,
}

/// A refusal in the words of the HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorAnswer {
    /// The kind of the error.
    pub kind: Kind,
    /// The part that programs read.
    pub body: ErrorBody,
    /// Seconds to wait before trying again.
    pub retry_after_s: Option<u32>,
    /// The flag that each of the body's details is about, if one was typed for it.
    pub flags: Vec<Option<String>>,
    /// The body in the words of the command that was typed, for people.
    pub worded: Option<Box<ErrorBody>>,
}

/// How a command says what the interface says in words of its own.
pub trait Wording {
    /// The flag of what a pointer names in the request.
    fn flag(&self, pointer: &str) -> Option<String>;
    /// The message of an error, or of a fault, with this code.
    fn said(&self, text: &str, code: &str) -> String;
    /// What to do about it.
    fn fix(&self, text: &str, code: &str) -> String;
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(Box::new(ErrorAnswer {
            kind: error.kind,
            retry_after_s: error.retry_after_s,
            flags: Vec::new(),
            worded: None,
            body: error.into(),
        }))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unreachable(why) => Self::Unreachable(why),
            OpenError::Older(why) => Error::conflict("schema_older", why).into(),
            OpenError::HardLinked(why) => Error::conflict("hard_linked", why).into(),
            OpenError::Refused(why) => Self::Unexpected(why),
        }
    }
}

/// Converts a failed write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Unexpected(format!("standard output cannot be written: {error}")),
        }
    }
}

impl Failure {
    /// The exit code of the command.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Refused(refusal) => refusal.kind.into(),
            // Programs that run health checks give other exit codes a meaning.
            Self::NotReady(_) => Exit::Unexpected,
            _ => self.own().map_or(Exit::Ok, |(exit, ..)| exit),
        }
    }

    /// For failures that no operation reported: the exit code, the title, the error code, and the message.
    fn own(&self) -> Option<(Exit, &str, &str, &str)> {
        let message = match self {
            Self::NoKey => NO_KEY,
            Self::NotConfirmed => "You did not agree, so nothing was changed.",
            Self::NotHere(why) => *why,
            Self::Usage(why) | Self::NotVerified(why) | Self::NotDelivered(why) => why.as_str(),
            Self::Problems(why) | Self::Unreachable(why) => why.as_str(),
            Self::BadAnswer(why) | Self::Unexpected(why) => why.as_str(),
            Self::Refused(_) | Self::NotReady(_) | Self::Closed | Self::Printed => return None,
        };
        let (exit, title, code) = match self {
            Self::NoKey => (Exit::Auth, "Unauthorized", "no_api_key"),
            Self::NotConfirmed => (Exit::Unexpected, "Not confirmed", "not_confirmed"),
            Self::NotVerified(_) => (
                Exit::NotVerified,
                "Verification failed",
                "verification_failed",
            ),
            Self::NotDelivered(_) => (Exit::Refused, "Not delivered", "not_delivered"),
            Self::Problems(_) => (Exit::Unexpected, "Problems found", "problems_found"),
            Self::Unreachable(_) => (Exit::Unreachable, "Unreachable", "unreachable"),
            Self::BadAnswer(_) => (Exit::Server, "Bad answer", "bad_answer"),
            Self::Usage(_) | Self::NotHere(_) => (Exit::Usage, "Usage", "usage"),
            _ => (Exit::Unexpected, "Unexpected", "unexpected"),
        };
        Some((exit, title, code, message))
    }

    /// Names the command that the message is about.
    pub fn of_command(self, command: &str) -> Self {
        match self {
            Self::NotHere(why) => Self::Usage(format!("\"{command}\" {why}")),
            other => other,
        }
    }

    /// Lets people read the words of the command instead of those of the interface.
    pub fn in_words_of(mut self, words: &impl Wording) -> Self {
        if let Self::Refused(answer) = &mut self {
            let details = answer.body.details.iter();
            answer.flags = details.map(|detail| words.flag(&detail.pointer)).collect();
            let mut body = answer.body.clone();
            body.message = words.said(&body.message, &body.code);
            for detail in &mut body.details {
                detail.message = words.said(&detail.message, &detail.code);
                detail.fix = words.fix(&detail.fix, &detail.code);
            }
            answer.worded = Some(Box::new(body));
        }
        self
    }

    /// The message, if waiting may cure the failure.
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

    /// Whether the service refused with this code.
    pub fn is(&self, code: &str) -> bool {
        self.refusal()
            .is_some_and(|refusal| refusal.body.code == code)
    }

    /// How long to wait before the same request is made again, if the service asks for that.
    pub fn asks_to_wait(&self) -> Option<Duration> {
        self.passing()?;
        let seconds = self.retry_after_s()?.max(1);
        Some(Duration::from_secs(seconds.into()))
    }

    /// The text for standard error; `None` if there is nobody to tell.
    pub fn text(&self, format: Format) -> Option<String> {
        let body = self.body()?;
        Some(match format {
            Format::Json => {
                let json = serde_json::to_string(&body);
                let json = json.expect("strings and lists of strings always serialize");
                escaped(&json).into_owned()
            }
            Format::Table | Format::Csv => {
                let refusal = self.refusal();
                let flags = refusal.map(|refusal| refusal.flags.as_slice());
                let worded = refusal.and_then(|refusal| refusal.worded.as_deref());
                let body = worded.unwrap_or(&body);
                for_people(body, flags.unwrap_or_default(), self.retry_after_s())
            }
        })
    }

    /// What went wrong, as part of another sentence; empty if there is nobody to tell. Only a refusal has a code there.
    pub fn reason(&self) -> String {
        if let Some((.., message)) = self.own() {
            return plain(message).into_owned();
        }
        let Some(body) = self.body() else {
            return String::new();
        };
        let flags = self.refusal().map(|refusal| refusal.flags.as_slice());
        let text = for_people(&body, flags.unwrap_or_default(), None);
        text.trim_start_matches("error: ").replace("\n  ", " ")
    }

    fn refusal(&self) -> Option<&ErrorAnswer> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    fn retry_after_s(&self) -> Option<u32> {
        self.refusal()?.retry_after_s
    }

    fn body(&self) -> Option<ErrorBody> {
        match self {
            Self::Refused(refusal) => return Some(refusal.body.clone()),
            Self::NotReady(why) => return why.body(),
            _ => {}
        }
        let (_, error, code, message) = self.own()?;
        Some(ErrorBody {
            error: error.to_owned(),
            message: message.to_owned(),
            code: code.to_owned(),
            ..ErrorBody::default()
        })
    }
}

const NO_KEY: &str = "A server needs an API key, and none was given. Set BOOKGUARD_API_KEY in the environment, name a file \
                      that holds the key with --api-key-file, or save the server and its key once with `bookguard login`.";

fn for_people(body: &ErrorBody, flags: &[Option<String>], retry_after_s: Option<u32>) -> String {
    // The message about a single fault begins with its place.
    let first = body
        .details
        .first()
        .zip(flags.first().and_then(Option::as_ref));
    let renamed = first.and_then(|(detail, flag)| {
        let rest = body.message.strip_prefix(&detail.pointer)?;
        rest.starts_with(": ").then(|| format!("{flag}{rest}"))
    });
    let message = renamed.as_ref().unwrap_or(&body.message);
    let mut text = format!("error: {} ({})", plain(message), plain(&body.code));
    for (at, detail) in body.details.iter().enumerate() {
        // Of a single fault, the message has said already what is wrong and where.
        let said = match detail.pointer.as_str() {
            "" => format!("The body {}", detail.message),
            pointer => format!("{pointer}: {}", detail.message),
        };
        if body.message == said {
            text.push_str(&format!("\n  {}", plain(&detail.fix)));
            continue;
        }
        let flag = flags.get(at).and_then(Option::as_ref);
        let message = detail.message.trim_end_matches('.');
        text.push_str(&format!(
            "\n  {}: {}. {}",
            plain(flag.unwrap_or(&detail.pointer)),
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
    use bookguard_core::FieldError;

    use super::*;

    fn refused() -> Failure {
        Error::faults(vec![
            FieldError::new("/talent/id", "missing_field", "is missing", "Send it."),
            FieldError::new(
                "/tal\u{1b}[2Jent",
                "unknown_field",
                "is not known.",
                "Did you mean \"talent\"?",
            ),
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

    /// Says each parameter as a flag, and nothing in capitals.
    struct Small;

    impl Wording for Small {
        fn flag(&self, pointer: &str) -> Option<String> {
            Some(format!("--{}", pointer.strip_prefix('?')?))
        }

        fn said(&self, text: &str, _: &str) -> String {
            text.to_lowercase()
        }

        fn fix(&self, text: &str, code: &str) -> String {
            self.said(text, code)
        }
    }

    #[test]
    fn people_read_the_words_of_the_command_and_programs_those_of_the_interface() {
        let fault = Error::fault("?reason", "not_allowed", "is NOT allowed", "Send ANOTHER.");
        let failure = Failure::from(fault).in_words_of(&Small);
        assert_eq!(
            failure.text(Format::Table).unwrap(),
            "error: --reason: is not allowed (not_allowed)\n  send another."
        );
        let json = failure.text(Format::Json).unwrap();
        for word in ["\"pointer\":\"?reason\"", "is NOT allowed", "Send ANOTHER."] {
            assert!(json.contains(word), "{json}");
        }
    }

    #[test]
    fn a_reason_within_a_sentence_is_one_line_without_what_the_command_would_say() {
        let moved = Failure::from(Error::ledger_moved()).reason();
        assert!(moved.ends_with("(ledger_moved)"), "{moved}");
        assert_eq!(
            Failure::Usage("x is wrong".to_owned()).reason(),
            "x is wrong"
        );
        let text = refused().reason();
        assert!(
            text.contains("details. (invalid_request) /talent/id: is"),
            "{text}"
        );
    }

    #[test]
    fn programs_read_what_a_server_would_answer() {
        let text = refused().text(Format::Json).unwrap();
        let body: ErrorBody = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (body.error.as_str(), body.code.as_str()),
            ("Bad Request", "invalid_request")
        );
        assert_eq!(body.details.len(), 2);
        // The same text, in characters that steer no terminal.
        let message = "a\u{9b}2Jb";
        let text = Failure::Usage(message.to_owned()).text(Format::Json);
        let text = text.unwrap();
        assert!(text.contains(r"a\u009b2Jb"), "{text}");
        let body: ErrorBody = serde_json::from_str(&text).unwrap();
        assert_eq!(body.message, message);
    }

    #[test]
    fn every_failure_has_its_exit_code_and_its_words() {
        #[rustfmt::skip]
        let failures = [
            (Failure::Usage("m".to_owned()), Exit::Usage, "error: m (usage)"),
            (Failure::NotConfirmed, Exit::Unexpected, "error: You did not agree, so nothing was changed. (not_confirmed)"),
            (Failure::NotVerified("m".to_owned()), Exit::NotVerified, "error: m (verification_failed)"),
            (Failure::NotDelivered("m".to_owned()), Exit::Refused, "error: m (not_delivered)"),
            (Failure::Problems("m".to_owned()), Exit::Unexpected, "error: m (problems_found)"),
            (Failure::Unreachable("m".to_owned()), Exit::Unreachable, "error: m (unreachable)"),
            (Failure::BadAnswer("m".to_owned()), Exit::Server, "error: m (bad_answer)"),
            (Failure::Unexpected("m".to_owned()), Exit::Unexpected, "error: m (unexpected)"),
            (Error::not_found("booking").into(), Exit::NotFound, "error: No such booking. Check the id, and that"),
            (Error::not_found("partner").into(), Exit::NotFound, "error: No such partner. Check the id. (not_found)"),
            (Error::busy().into(), Exit::Server, "error: The service has more writes waiting"),
            (Error::invalid("partner_required", "Name one.").into(), Exit::Refused, "error: Name one. (partner_required)"),
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
    fn only_who_asks_for_patience_gets_it() {
        let busy = Failure::from(Error::busy());
        assert_eq!(busy.asks_to_wait(), Some(Duration::from_secs(1)));
        let others = [
            Failure::Unreachable("m".to_owned()),
            Error::not_found("booking").into(),
            Error::conflict("c", "m").into(),
        ];
        assert!(others.iter().all(|other| other.asks_to_wait().is_none()));
    }

    #[test]
    fn the_wait_before_another_attempt_is_said() {
        let text = Failure::from(Error::busy()).text(Format::Table).unwrap();
        assert!(text.ends_with("\n  Try again in 1 s."), "{text}");
    }
}
