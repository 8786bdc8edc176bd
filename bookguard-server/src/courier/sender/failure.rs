//! What the HTTP client's errors mean: in which phase an attempt broke, why, and whose fault it was.
//!
//! The client's own error says little; the truth is in the chain of its sources. Invariant: what the chain does not
//! explain is charged to the receiver, so that no attempt is repeated for ever.

use std::error::Error;
use std::io;
use std::time::Duration;

use bookguard_core::limits::{RESPONSE_FIELDS, RESPONSE_FIELDS_BYTES};
use bookguard_core::webhook::{FailureClass, Phase, printable_head};

use super::Broken;
use super::meter::Excess;
use super::resolver::LookupFailed;
use crate::courier::address::RefusedAddress;
use crate::courier::proxy::ProxyFault;

/// For an answer with a 3xx status.
pub(super) const REDIRECT: &str = "redirects are not followed; register the address it points to";

/// For an answer with the status 101.
pub(super) const SWITCH: &str =
    "the receiver switches to another protocol, which nobody asked for; answer with a 2xx status";

/// How long a detail may be, in bytes.
const DETAIL_BYTES: usize = 300;

/// Too many open files, of this process or this machine (the same numbers on every Unix).
const OUT_OF_FILES: [i32; 2] = [24, 23];

/// Where and why an attempt broke before it had a whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttemptFailure {
    pub phase: Phase,
    pub class: FailureClass,
    pub detail: String,
}

/// The input or output error at the root of a chain.
struct Root<'a> {
    error: &'a io::Error,
    /// Whether it came through TLS, which hands errors on inside one of its own.
    wrapped: bool,
}

impl AttemptFailure {
    /// The address is one webhooks may not go to.
    pub(super) fn blocked(refused: &RefusedAddress) -> Self {
        AttemptFailure::new(Phase::Dns, FailureClass::BlockedAddress, refused.message())
    }

    /// The deadline passed in `phase`.
    pub(super) fn timeout(total: Duration, phase: Phase) -> Self {
        let doing = match phase {
            Phase::Dns => "resolving the name",
            Phase::Connect => "connecting",
            Phase::Tls => "waiting for the TLS handshake",
            Phase::Send | Phase::Headers => "waiting for the answer to begin",
            Phase::Body => "reading the answer",
        };
        AttemptFailure::new(
            phase,
            FailureClass::Timeout,
            &format!("timed out after {} ms, while {doing}", total.as_millis()),
        )
    }

    /// The deadline passed while the service's own proxy was waited for.
    pub(super) fn proxy_timeout(total: Duration) -> Self {
        AttemptFailure::new(
            Phase::Connect,
            FailureClass::OurFault,
            &format!(
                "timed out after {} ms, while the proxy of this service was opening the connection",
                total.as_millis()
            ),
        )
    }

    /// The URL is one that no request can be made of.
    pub(super) fn no_request() -> Self {
        // The address was checked when it was registered; this one slipped through and never will be sent to.
        AttemptFailure::new(
            Phase::Dns,
            FailureClass::BlockedAddress,
            "the URL cannot be requested",
        )
    }

    /// What `error` means, if the attempt had come to `phase`, over TLS or not.
    pub(super) fn of(broken: &Broken, https: bool, phase: Phase) -> Self {
        let error = broken.cause();
        if let Some(refused) = chain(error).find_map(|cause| cause.downcast_ref::<RefusedAddress>())
        {
            return AttemptFailure::blocked(refused);
        }
        if let Some(failed) = chain(error).find_map(|cause| cause.downcast_ref::<LookupFailed>()) {
            return AttemptFailure::new(Phase::Dns, FailureClass::DnsError, &failed.to_string());
        }
        if let Some(fault) = chain(error).find_map(|cause| cause.downcast_ref::<ProxyFault>()) {
            return AttemptFailure::new(Phase::Connect, FailureClass::OurFault, &fault.to_string());
        }
        let root = root(error);
        if let Some(excess) = excess(error) {
            return AttemptFailure::excess(excess, phase);
        }
        if broken.is_connect() {
            let (phase, class) = while_connecting(root.as_ref(), https);
            return AttemptFailure::new(phase, class, &innermost(error));
        }
        let mut http = chain(error).filter_map(|cause| cause.downcast_ref::<hyper::Error>());
        if let Some(http) = http.find(|http| is_about_what_was_said(http)) {
            return AttemptFailure::not_understood(http, phase);
        }
        let (phase, class) = on_the_connection(root.as_ref(), phase);
        AttemptFailure::new(phase, class, &innermost(error))
    }

    /// More was sent than is read.
    fn excess(excess: Excess, phase: Phase) -> Self {
        let before = match phase {
            Phase::Dns | Phase::Connect | Phase::Tls => "in the TLS handshake",
            Phase::Send | Phase::Headers | Phase::Body => {
                "before the answer began, interim answers (1xx) included"
            }
        };
        AttemptFailure::new(
            phase,
            FailureClass::ExcessiveAnswer,
            &format!("{excess} {before}"),
        )
    }

    /// What came is not an answer of HTTP/1, or one with too large a head.
    fn not_understood(error: &hyper::Error, phase: Phase) -> Self {
        if error.is_parse_too_large() {
            let detail = format!(
                "the head of the answer has more than {RESPONSE_FIELDS_BYTES} bytes or {RESPONSE_FIELDS} fields"
            );
            return AttemptFailure::new(phase, FailureClass::HeadersTooLarge, &detail);
        }
        let detail = format!("the answer is not HTTP/1: {error}");
        AttemptFailure::new(phase, FailureClass::ProtocolError, &detail)
    }

    fn new(phase: Phase, class: FailureClass, detail: &str) -> Self {
        let detail = detail
            .get(..detail.floor_char_boundary(DETAIL_BYTES))
            .unwrap_or_default();
        AttemptFailure {
            phase,
            class,
            detail: printable_head(detail.as_bytes()),
        }
    }
}

fn while_connecting(root: Option<&Root<'_>>, https: bool) -> (Phase, FailureClass) {
    let Some(Root { error, wrapped }) = root else {
        // TLS can fail before any byte is sent, for example over a name no certificate can have.
        return if https {
            (Phase::Tls, FailureClass::TlsError)
        } else {
            (Phase::Connect, FailureClass::ConnectionRefused)
        };
    };
    let through_tls = https && *wrapped;
    let phase = if through_tls {
        Phase::Tls
    } else {
        Phase::Connect
    };
    let class = match error.kind() {
        _ if is_our_fault(error) => FailureClass::OurFault,
        io::ErrorKind::TimedOut => FailureClass::Timeout,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => FailureClass::ConnectionReset,
        _ if through_tls => FailureClass::TlsError,
        _ => FailureClass::ConnectionRefused,
    };
    (phase, class)
}

fn on_the_connection(root: Option<&Root<'_>>, phase: Phase) -> (Phase, FailureClass) {
    match root.map(|root| (root.error.kind(), is_our_fault(root.error))) {
        Some((_, true)) => (phase, FailureClass::OurFault),
        Some((io::ErrorKind::TimedOut, _)) => (phase, FailureClass::Timeout),
        // Only writing meets a broken pipe.
        Some((io::ErrorKind::BrokenPipe, _)) if phase < Phase::Body => {
            (Phase::Send, FailureClass::ConnectionReset)
        }
        // Of the framing of the body, or of TLS.
        Some((io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput, _)) => {
            let tls = root.is_some_and(|root| {
                let inner = root.error.get_ref();
                inner.is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
            });
            let class = match tls {
                true => FailureClass::TlsError,
                false => FailureClass::ProtocolError,
            };
            (phase, class)
        }
        _ => (phase, FailureClass::ConnectionReset),
    }
}

/// Whether the error has no other cause than what the receiver sent: no HTTP, or something before it was asked.
fn is_about_what_was_said(error: &hyper::Error) -> bool {
    let ended = error.is_incomplete_message() || error.is_canceled() || error.is_closed();
    error.is_parse() || (!ended && error.source().is_none())
}

/// Whether it was ended because more was sent than is read.
pub(super) fn excess(error: &(dyn Error + 'static)) -> Option<Excess> {
    root(error)?.error.get_ref()?.downcast_ref().copied()
}

/// Whether this side ran out of something, or forbids itself to connect.
fn is_our_fault(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::OutOfMemory
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::AddrInUse
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NetworkDown
    ) || error
        .raw_os_error()
        .is_some_and(|code| OUT_OF_FILES.contains(&code))
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

/// The first input or output error of the chain, unwrapped to the one it is about.
fn root<'a>(error: &'a (dyn Error + 'static)) -> Option<Root<'a>> {
    let mut error = chain(error).find_map(|cause| cause.downcast_ref::<io::Error>())?;
    let wrapped = error.get_ref().is_some();
    while let Some(inner) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<io::Error>())
    {
        error = inner;
    }
    Some(Root { error, wrapped })
}

/// The text of the deepest cause, which is the one that explains.
fn innermost(error: &(dyn Error + 'static)) -> String {
    match root(error) {
        Some(root) => root.error.to_string(),
        None => chain(error)
            .last()
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}
