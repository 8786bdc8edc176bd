//! The record of one attempt to deliver an event to an endpoint.
//!
//! Pure data: the courier fills it, the store keeps it, the schedule reads it, the API shows it. Invariant: text from the
//! receiver is bounded and printable before it is stored here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::RESPONSE_HEAD_BYTES;
use crate::model::vocabulary;

/// One attempt to send an event to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// When it began: milliseconds since the epoch.
    pub started_at: i64,
    /// How long it took, in milliseconds, including the response.
    pub duration_ms: u64,
    /// How far it got: [`Phase::Body`] once a response was read, otherwise the step that failed.
    pub phase: Phase,
    /// Why it failed; `None` means delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// A sentence for people if the status is not enough; names no internal address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The HTTP status, if a response began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// The first 1,024 bytes of the response's body, made printable; empty if there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub response_head: String,
    /// How many bytes of the response's body were read: all of it, or up to the limit.
    #[serde(default)]
    pub response_len: u32,
    /// Lower hex SHA-256 of those `response_len` bytes, if a response began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_sha256: Option<String>,
    /// How long the receiver asked us to wait (`Retry-After` of a 429 or 503), in milliseconds, at most 24 h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Whether its failure uses up no step of the schedule, because the fault was ours or the endpoint was suspended. The
    /// rules decide that when the attempt is settled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncharged: bool,
    /// The address it went to. `None` if that could not be read, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

vocabulary! {
    /// The steps of an attempt, in order.
    Phase {
        /// Checking the address and resolving the name.
        Dns = "dns",
        /// Connecting.
        Connect = "connect",
        /// The TLS handshake.
        Tls = "tls",
        /// Writing the request.
        Send = "send",
        /// Waiting for the status and headers of the response.
        Headers = "headers",
        /// Reading the response's body, and everything after it.
        Body = "body",
    }
}

vocabulary! {
    /// Why an attempt failed: a closed set, stable on the wire.
    FailureClass {
        /// The name does not resolve, or not to an allowed address; only the operator is told which of the two.
        DnsError = "dns_error",
        /// The endpoint's own address, by number, scheme or name, is not allowed for webhooks.
        BlockedAddress = "blocked_address",
        /// No connection could be made.
        ConnectionRefused = "connection_refused",
        /// The connection ended before the response was complete.
        ConnectionReset = "connection_reset",
        /// The total deadline passed.
        Timeout = "timeout",
        /// The TLS handshake failed: certificate, name, or a peer that does not speak TLS.
        TlsError = "tls_error",
        /// The response is a redirect (3xx), and redirects are never followed.
        RedirectRefused = "redirect_refused",
        /// 4xx, except 410, 413 and 429 below.
        Http4xx = "http_4xx",
        /// 5xx and above.
        Http5xx = "http_5xx",
        /// 410: the receiver wants no more events; its endpoint is disabled.
        Gone = "gone",
        /// 413: the receiver will never accept these bytes.
        PayloadTooLarge = "payload_too_large",
        /// 429.
        Throttled = "throttled",
        /// The response is not HTTP/1.1, breaks its rules, or switches to another protocol (101).
        ProtocolError = "protocol_error",
        /// The head of the response has too many bytes or fields.
        HeadersTooLarge = "headers_too_large",
        /// The receiver sent more than an attempt reads before the response began: endless interim responses (1xx), or a
        /// response in thousands of pieces.
        ExcessiveAnswer = "excessive_answer",
        /// The sending side failed (out of sockets, memory, …); never counted against the endpoint.
        OurFault = "our_fault",
    }
}

impl Attempt {
    /// An attempt that began at this time. Nothing else is known about it yet.
    pub fn begun(started_at: i64) -> Self {
        Self {
            started_at,
            duration_ms: 0,
            phase: Phase::Dns,
            class: None,
            detail: None,
            status_code: None,
            response_head: String::new(),
            response_len: 0,
            response_sha256: None,
            retry_after_ms: None,
            uncharged: false,
            url: None,
        }
    }

    /// Whether the receiver accepted the event.
    pub fn delivered(&self) -> bool {
        self.class.is_none()
    }

    /// Whether the sending side failed, which does not count against the endpoint.
    pub fn is_ours(&self) -> bool {
        self.class == Some(FailureClass::OurFault)
    }

    /// The attempt as the schedule counts it if the endpoint has had another address since: a 410 or 413 of the former receiver
    /// is a refusal that the new one need not share.
    #[cfg(feature = "store")]
    pub(crate) fn as_of_former_address(&self) -> Self {
        let class = match self.class {
            Some(FailureClass::Gone | FailureClass::PayloadTooLarge) => Some(FailureClass::Http4xx),
            class => class,
        };
        Self {
            class,
            ..self.clone()
        }
    }
}

impl FailureClass {
    /// The failure class of an HTTP status; `None` means delivered (2xx).
    pub fn of_status(status: u16) -> Option<FailureClass> {
        match status {
            200..=299 => None,
            410 => Some(FailureClass::Gone),
            413 => Some(FailureClass::PayloadTooLarge),
            429 => Some(FailureClass::Throttled),
            400..=499 => Some(FailureClass::Http4xx),
            300..=399 => Some(FailureClass::RedirectRefused),
            0..=199 => Some(FailureClass::ProtocolError),
            500.. => Some(FailureClass::Http5xx),
        }
    }
}

/// The beginning of a response as text that is safe to store, print and show: at most [`RESPONSE_HEAD_BYTES`] of it, with
/// invalid UTF-8 replaced by U+FFFD, and control and direction-changing characters escaped (`\n`, `\u{1b}`).
///
/// A character that the limit cuts in two is left out.
pub fn printable_head(response: &[u8]) -> String {
    let cut = response.len() > RESPONSE_HEAD_BYTES;
    let head = &response[..response.len().min(RESPONSE_HEAD_BYTES)];
    let mut text = String::with_capacity(head.len());
    let mut left = head.len();
    for chunk in head.utf8_chunks() {
        for character in chunk.valid().chars() {
            if changes_the_terminal(character) {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        left -= chunk.valid().len() + chunk.invalid().len();
        let cut_in_two = cut && left == 0 && is_unfinished(chunk.invalid());
        if !chunk.invalid().is_empty() && !cut_in_two {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

/// Whether these bytes are the beginning of a character.
fn is_unfinished(invalid: &[u8]) -> bool {
    matches!(std::str::from_utf8(invalid), Err(error) if error.error_len().is_none())
}

/// Control characters, and the invisible ones that reorder or break lines.
fn changes_the_terminal(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_on_the_wire_and_in_text_are_the_same() {
        for (word, class) in FailureClass::WORDS {
            assert_eq!(serde_json::to_value(class).unwrap(), *word);
            let read: FailureClass = serde_json::from_value((*word).into()).unwrap();
            assert_eq!((read, class.word()), (*class, *word));
        }
        for (word, phase) in Phase::WORDS {
            assert_eq!(serde_json::to_value(phase).unwrap(), *word);
        }
    }

    #[test]
    fn an_attempt_is_camel_case_and_leaves_out_what_did_not_happen() {
        let attempt = Attempt {
            started_at: 1_700_000_000_000,
            duration_ms: 12,
            phase: Phase::Body,
            class: Some(FailureClass::Throttled),
            detail: None,
            status_code: Some(429),
            response_head: String::new(),
            response_len: 0,
            response_sha256: Some("e3".into()),
            retry_after_ms: Some(1500),
            uncharged: false,
            url: None,
        };
        let json = serde_json::to_string(&attempt).unwrap();
        assert_eq!(
            json,
            r#"{"startedAt":1700000000000,"durationMs":12,"phase":"body","class":"throttled","statusCode":429,"responseLen":0,"responseSha256":"e3","retryAfterMs":1500}"#
        );
        assert_eq!(serde_json::from_str::<Attempt>(&json).unwrap(), attempt);
    }

    #[test]
    fn every_status_has_its_class() {
        for (status, class) in [
            (200, None),
            (204, None),
            (299, None),
            (101, Some(FailureClass::ProtocolError)),
            (301, Some(FailureClass::RedirectRefused)),
            (399, Some(FailureClass::RedirectRefused)),
            (400, Some(FailureClass::Http4xx)),
            (404, Some(FailureClass::Http4xx)),
            (410, Some(FailureClass::Gone)),
            (413, Some(FailureClass::PayloadTooLarge)),
            (429, Some(FailureClass::Throttled)),
            (499, Some(FailureClass::Http4xx)),
            (500, Some(FailureClass::Http5xx)),
            (503, Some(FailureClass::Http5xx)),
            (999, Some(FailureClass::Http5xx)),
        ] {
            assert_eq!(FailureClass::of_status(status), class, "{status}");
        }
    }

    #[test]
    fn a_head_is_printable_and_ends_at_a_character() {
        assert_eq!(printable_head(b"ok\n"), "ok\\n");
        assert_eq!(printable_head(b"\x1b[31m\0"), "\\u{1b}[31m\\u{0}");
        assert_eq!(
            printable_head("a\u{202e}b\u{2028}".as_bytes()),
            "a\\u{202e}b\\u{2028}"
        );
        assert_eq!(printable_head(b"\xff\xfea"), "\u{fffd}\u{fffd}a");
        assert_eq!(printable_head(b"end \xe2\x82"), "end \u{fffd}");

        let long = format!("{}€ and more", "x".repeat(RESPONSE_HEAD_BYTES - 2));
        assert_eq!(
            printable_head(long.as_bytes()),
            "x".repeat(RESPONSE_HEAD_BYTES - 2)
        );
        assert_eq!(printable_head(&vec![b'y'; 5000]).len(), RESPONSE_HEAD_BYTES);
    }

    proptest! {
        #[test]
        fn no_answer_leaves_a_control_character_behind(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
            prop_assert!(!printable_head(&bytes).chars().any(changes_the_terminal));
        }

        #[test]
        fn plain_text_is_kept_as_it_is(text in "[a-zA-Zé€ {}\"]{0,300}") {
            prop_assert_eq!(printable_head(text.as_bytes()), text);
        }
    }
}
