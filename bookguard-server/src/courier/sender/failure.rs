//! Interprets the HTTP client's errors: in which phase an attempt failed, why, and whose fault it was.
//!
//! The client's own error says little; the cause is in the chain of its sources. Invariant: an error that the chain does not
//! explain is charged to the receiver, so that no attempt is repeated for ever.

use std::error::Error;
use std::io;
use std::time::Duration;

use bookguard_core::limits::{RESPONSE_FIELDS, RESPONSE_FIELDS_BYTES};
use bookguard_core::webhook::{FailureClass, Phase, printable_head};
use rustls::CertificateError;
use tokio::time::error::Elapsed;

use super::ExchangeError;
use super::meter::Excess;
use super::resolver::LookupFailed;
use crate::causes::{cause, chain};
use crate::courier::address::RefusedAddress;
use crate::courier::proxy::ProxyFault;

/// The detail for an answer with a 3xx status.
pub(super) const REDIRECT: &str =
    "redirects are never followed; change the endpoint's url to the final address";

/// The detail for an answer with the status 101.
pub(super) const SWITCH: &str =
    "the receiver switches to another protocol, which nobody asked for; answer with a 2xx status";

/// The most bytes of a detail.
const DETAIL_BYTES: usize = 300;

/// The error numbers for too many open files in this process or on this machine (the same on every Unix).
const OUT_OF_FILES: [i32; 2] = [24, 23];

/// The error number for what a firewall on the way prohibits, often that of the receiver: IPv6 has a message for it. A prohibition
/// of this machine mostly has another number, EPERM (both the same on every Unix).
const PROHIBITED: i32 = 13;

/// Where and why an attempt failed before it had a complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttemptFailure {
    pub phase: Phase,
    pub class: FailureClass,
    pub detail: String,
}

/// The I/O error at the root of a chain.
struct Root<'a> {
    error: &'a io::Error,
    /// Whether it was wrapped in another I/O error, as TLS does.
    wrapped: bool,
}

impl AttemptFailure {
    /// Webhooks may not go to this address.
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

    /// The deadline passed while waiting for the operator's proxy.
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

    /// No request can be made from the URL.
    pub(super) fn no_request() -> Self {
        // The URL was checked when it was registered. This one passed and can never be sent to.
        AttemptFailure::new(
            Phase::Dns,
            FailureClass::BlockedAddress,
            "the URL cannot be requested",
        )
    }

    /// Interprets an error of an attempt that had reached `phase`, over TLS or not.
    pub(super) fn of(broken: &ExchangeError, https: bool, phase: Phase) -> Self {
        let error = broken.cause();
        if let Some(refused) = cause(error) {
            return AttemptFailure::blocked(refused);
        }
        if let Some(failed) = cause::<LookupFailed>(error) {
            return AttemptFailure::new(Phase::Dns, FailureClass::DnsError, &failed.to_string());
        }
        if let Some(fault) = cause::<ProxyFault>(error) {
            return AttemptFailure::new(Phase::Connect, FailureClass::OurFault, &fault.to_string());
        }
        let root = root(error);
        if let Some(excess) = excess(error) {
            return AttemptFailure::excess(excess, phase);
        }
        if broken.is_connect() {
            let (phase, class) = while_connecting(root.as_ref(), https, phase);
            return AttemptFailure::new(phase, class, &innermost(error));
        }
        let mut http = chain(error).filter_map(|cause| cause.downcast_ref::<hyper::Error>());
        if let Some(http) = http.find(|http| is_about_what_was_said(http)) {
            return AttemptFailure::not_understood(http, phase);
        }
        let (phase, class) = on_the_connection(root.as_ref(), phase);
        AttemptFailure::new(phase, class, &innermost(error))
    }

    /// The receiver sent more than is read.
    fn excess(excess: Excess, phase: Phase) -> Self {
        let before = match phase {
            Phase::Dns | Phase::Connect | Phase::Tls => "in the TLS handshake",
            Phase::Send | Phase::Headers | Phase::Body => {
                "before the answer began, interim answers (1xx) included"
            }
        };
        let advice = match excess {
            Excess::Bytes => "",
            Excess::Pieces => "; send it in few writes",
        };
        AttemptFailure::new(
            phase,
            FailureClass::ExcessiveAnswer,
            &format!("{excess} {before}{advice}"),
        )
    }

    /// The answer is not HTTP/1, or its head is too large.
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

/// The phase and the class of an attempt that had reached this phase when it got no connection.
fn while_connecting(root: Option<&Root<'_>>, https: bool, reached: Phase) -> (Phase, FailureClass) {
    // TLS can fail before any byte is sent, for example when no certificate can have the name.
    let through_tls = https && root.is_none_or(|root| root.wrapped);
    let phase = match reached {
        Phase::Dns => Phase::Dns,
        _ if through_tls => Phase::Tls,
        _ => Phase::Connect,
    };
    let class = match root.map(|root| root.error.kind()) {
        _ if root.is_some_and(|root| is_our_fault(root.error)) => FailureClass::OurFault,
        Some(io::ErrorKind::TimedOut) => FailureClass::Timeout,
        Some(
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe,
        ) => FailureClass::ConnectionReset,
        _ if through_tls => FailureClass::TlsError,
        _ => FailureClass::ConnectionRefused,
    };
    (phase, class)
}

fn on_the_connection(root: Option<&Root<'_>>, phase: Phase) -> (Phase, FailureClass) {
    match root.map(|root| (root.error.kind(), is_our_fault(root.error))) {
        Some((_, true)) => (phase, FailureClass::OurFault),
        Some((io::ErrorKind::TimedOut, _)) => (phase, FailureClass::Timeout),
        // Only a write can fail with a broken pipe.
        Some((io::ErrorKind::BrokenPipe, _)) if phase < Phase::Body => {
            (Phase::Send, FailureClass::ConnectionReset)
        }
        // An error in the framing of the body, or in TLS.
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

/// Whether the error was caused by what the receiver sent: something other than HTTP, or bytes before any request.
fn is_about_what_was_said(error: &hyper::Error) -> bool {
    let ended = error.is_incomplete_message() || error.is_canceled() || error.is_closed();
    error.is_parse() || (!ended && error.source().is_none())
}

/// Returns the [`Excess`] if the attempt ended because the receiver sent more than is read.
pub(super) fn excess(error: &(dyn Error + 'static)) -> Option<Excess> {
    root(error)?.error.get_ref()?.downcast_ref().copied()
}

/// Whether this side ran out of a resource or may not connect.
pub(super) fn is_our_fault(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    match error.kind() {
        io::ErrorKind::OutOfMemory
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::AddrInUse
        | io::ErrorKind::NetworkDown => true,
        io::ErrorKind::PermissionDenied => code != Some(PROHIBITED),
        _ => code.is_some_and(|code| OUT_OF_FILES.contains(&code)),
    }
}

/// Whether this side gave up an address in order to try the receiver's next one. Such an error is wrapped without any TLS.
fn is_given_up(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Elapsed>())
}

/// The first I/O error of the chain, unwrapped to its innermost I/O error.
fn root<'a>(error: &'a (dyn Error + 'static)) -> Option<Root<'a>> {
    let mut error: &io::Error = cause(error)?;
    let wrapped = error.get_ref().is_some() && !is_given_up(error);
    while let Some(inner) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<io::Error>())
    {
        error = inner;
    }
    Some(Root { error, wrapped })
}

/// The text of the deepest cause, which explains the most.
fn innermost(error: &(dyn Error + 'static)) -> String {
    match root(error) {
        Some(root) if is_given_up(root.error) => {
            "an address of the receiver took no connection in time".to_owned()
        }
        Some(root) => about_certificate(root.error).unwrap_or_else(|| root.error.to_string()),
        None => chain(error)
            .last()
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}

/// What is wrong with the receiver's certificate, and the way out. `None` if this is not known, or if it is not the certificate.
fn about_certificate(error: &io::Error) -> Option<String> {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, Other, Revoked, UnknownIssuer,
    };
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(fault) = error else {
        return None;
    };
    let told = match fault {
        Expired | ExpiredContext { .. } => "the receiver's certificate has expired; renew it",
        NotValidYet | NotValidYetContext { .. } => {
            "the receiver's certificate is not valid yet; use one whose dates include today"
        }
        UnknownIssuer => {
            "the receiver's certificate does not lead to an authority that is trusted here; use one of a public authority, and send the \
             intermediate certificates with it"
        }
        NotValidForName | NotValidForNameContext { .. } => {
            "the receiver's certificate is not for the endpoint's url; use one that names its host"
        }
        Revoked => "the receiver's certificate was revoked; use a new one",
        // The verifier's own type is not ours to name.
        Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            "the receiver's certificate is self-signed; use one of a public authority"
        }
        _ => return None,
    };
    Some(told.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_certificate_that_is_refused_is_told_of_in_words_with_the_way_out() {
        use CertificateError::{
            Expired, NotValidForName, NotValidYet, Other, Revoked, UnknownIssuer,
        };
        let of_an_authority = rustls::OtherError(Arc::new(io::Error::other("CaUsedAsEndEntity")));
        for (fault, told) in [
            (Other(of_an_authority), "is self-signed; use one"),
            (UnknownIssuer, "send the intermediate certificates"),
            (Expired, "has expired; renew it"),
            (NotValidYet, "is not valid yet; use one"),
            (NotValidForName, "names its host"),
            (Revoked, "was revoked; use a new one"),
        ] {
            let error = rustls::Error::InvalidCertificate(fault);
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            let detail = innermost(&io::Error::other(error));
            assert!(detail.contains(told), "{detail}");
        }
        // What is not known is told as it is.
        let error = rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let words = error.to_string();
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        assert_eq!(innermost(&error), words);
    }

    #[tokio::test]
    async fn an_address_that_was_given_up_is_a_time_out_of_connecting_also_with_tls() {
        let elapsed = tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await;
        let error = io::Error::new(io::ErrorKind::TimedOut, elapsed.unwrap_err());
        let ended = (Phase::Connect, FailureClass::Timeout);
        let reached = while_connecting(root(&error).as_ref(), true, Phase::Connect);
        assert_eq!(reached, ended);
        let told = "an address of the receiver took no connection in time";
        assert_eq!(innermost(&error), told);
    }

    #[test]
    fn a_firewall_on_the_way_is_not_ours() {
        for (code, class) in [
            (1, FailureClass::OurFault),
            (13, FailureClass::ConnectionRefused),
            (24, FailureClass::OurFault),
            (111, FailureClass::ConnectionRefused),
        ] {
            let error = io::Error::from_raw_os_error(code);
            let ended = (Phase::Connect, class);
            assert_eq!(
                while_connecting(root(&error).as_ref(), true, Phase::Connect),
                ended,
                "{error}"
            );
        }
    }

    #[test]
    fn a_look_up_that_fails_for_want_of_files_fails_while_the_name_is_looked_up() {
        let error = io::Error::from_raw_os_error(24);
        let ended = while_connecting(root(&error).as_ref(), true, Phase::Dns);
        assert_eq!(ended, (Phase::Dns, FailureClass::OurFault));
    }
}
