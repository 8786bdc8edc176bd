//! The ledger's record of how the delivery of an event to an endpoint ended: the value of `webhook.settled`.
//!
//! The record identifies what was sent by the SHA-256 of its bytes, so that a receiver can show that its copy is the same.
//! It identifies the endpoint by its id, because an address may hold a token and the partner may change it. A delivery that
//! is given up, retried by hand and then accepted has two records; no other delivery has more than one. Invariant: a record
//! that contradicts itself, or is dated before what it records, is refused.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::model::{EndpointId, EventId, RecordedEventType, Timestamp, digest};
use crate::webhook::{Attempt, FailureClass};

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "snake_case")]
pub enum NotificationOutcome {
    /// The receiver answered 2xx.
    Delivered,
    /// No further automatic attempt was planned.
    GivenUp,
}

/// How the delivery of one event to one endpoint ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notification {
    /// The event.
    pub event_id: EventId,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: RecordedEventType,
    /// Its number in the partner's gapless sequence.
    pub seq: u64,
    /// Lower hex SHA-256 of the body, byte for byte as it was sent.
    pub body_sha256: String,
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// How it ended.
    pub outcome: NotificationOutcome,
    /// When the end was recorded.
    pub settled_at: Timestamp,
    /// Attempts made by then; the members below describe the last one.
    pub attempts: u32,
    /// Why it failed; absent when the receiver accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The response's status; absent if there was no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Lower hex SHA-256 of the response's body, as far as it was read; absent if there was no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_sha256: Option<String>,
}

/// An event, as its deliveries carry it.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Its id.
    pub event_id: EventId,
    /// The event's type.
    pub event_type: RecordedEventType,
    /// Its number in the partner's sequence.
    pub seq: u64,
    /// The exact bytes of the body.
    pub body: &'a [u8],
}

impl Notification {
    /// The record of a delivery whose last attempt was this one, with this number.
    pub fn of(
        sent: &Sent<'_>,
        endpoint_id: EndpointId,
        attempt: &Attempt,
        number: u32,
        settled_at: Timestamp,
    ) -> Self {
        Self {
            event_id: sent.event_id,
            event_type: sent.event_type,
            seq: sent.seq,
            body_sha256: hex::encode(Sha256::digest(sent.body)),
            endpoint_id,
            outcome: match attempt.delivered() {
                true => NotificationOutcome::Delivered,
                false => NotificationOutcome::GivenUp,
            },
            settled_at,
            attempts: number,
            error: attempt.class.map(|class| class.word().to_owned()),
            status_code: attempt.status_code,
            response_sha256: attempt.response_sha256.clone(),
        }
    }

    /// Whether the receiver accepted the event.
    pub fn delivered(&self) -> bool {
        self.outcome == NotificationOutcome::Delivered
    }

    /// Whether this is a record of the same delivery.
    pub fn is_of(&self, event_id: EventId, endpoint_id: EndpointId) -> bool {
        (self.event_id, self.endpoint_id) == (event_id, endpoint_id)
    }

    /// The contradiction within this record, if there is one.
    fn contradiction(&self) -> Option<&'static str> {
        let class = match &self.error {
            None => None,
            Some(told) => match FailureClass::WORDS.iter().find(|(word, _)| word == told) {
                None => return Some("this version of Bookguard does not know its failure"),
                class => class,
            },
        };
        let answered_2xx = self.status_code.map(FailureClass::of_status) == Some(None);
        let digests = [Some(&self.body_sha256), self.response_sha256.as_ref()];
        if self.attempts == 0 || self.seq == 0 {
            return Some("it counts from nothing");
        }
        if self.delivered() != class.is_none() || (self.delivered() && !answered_2xx) {
            return Some("its outcome is not that of its last attempt");
        }
        if !digests.into_iter().flatten().all(|hex| digest::is_hex(hex)) {
            return Some("one of its digests is not a digest");
        }
        (self.status_code.is_none() && self.response_sha256.is_some())
            .then_some("it has the digest of an answer that never came")
    }
}

/// The causes of a booking's events, with their times.
#[derive(Debug, Clone)]
pub struct Causes {
    /// When the booking was recorded.
    pub created_at: Timestamp,
    /// When the booking was protected.
    pub protected_at: Option<Timestamp>,
    /// When each of its resolutions was made, oldest first.
    pub resolved_at: Vec<Timestamp>,
}

impl Causes {
    /// The maximum number of events.
    pub fn total(&self) -> usize {
        1 + usize::from(self.protected_at.is_some()) + self.resolved_at.len()
    }

    /// The maximum number of events of this type made at this instant.
    pub fn count(&self, event_type: RecordedEventType, made_at: Timestamp) -> usize {
        match event_type {
            RecordedEventType::BookingCreated => usize::from(self.created_at == made_at),
            RecordedEventType::BookingProtected => usize::from(self.protected_at == Some(made_at)),
            RecordedEventType::ResolutionCreated => {
                self.resolved_at.iter().filter(|at| **at == made_at).count()
            }
        }
    }
}

/// Checks that `next` can be recorded after `before`, all of one booking. `causes` are those recorded before it; the event
/// of `next` has one of them.
///
/// # Errors
/// The fault, in a sentence.
pub fn follows<'a>(
    before: impl IntoIterator<Item = &'a Notification>,
    next: &Notification,
    causes: &Causes,
) -> Result<(), String> {
    let refused = |why: &str| {
        Err(format!(
            "The entry of how the delivery of event {} to endpoint {} ended contradicts itself: {why}.",
            next.event_id, next.endpoint_id
        ))
    };
    if let Some(why) = next.contradiction() {
        return refused(why);
    }
    let mut others: Vec<EventId> = Vec::new();
    for known in before {
        let same = known.event_id == next.event_id;
        let told = |n: &Notification| (n.event_type, n.seq, n.body_sha256.clone());
        if same != (known.seq == next.seq) || (same && told(known) != told(next)) {
            return refused("another entry has the same event with another content or number");
        }
        let kind = |n: &Notification| (n.event_type, n.event_id.made_at());
        if !same && kind(known) == kind(next) && !others.contains(&known.event_id) {
            others.push(known.event_id);
        }
        if known.is_of(next.event_id, next.endpoint_id)
            && (known.delivered() || !next.delivered() || known.attempts >= next.attempts)
        {
            return refused("only a delivery that was given up can end again, by being accepted");
        }
    }
    if causes.count(next.event_type, next.event_id.made_at()) <= others.len() {
        return refused("no earlier entry shows what the event reports");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(byte: u8) -> String {
        hex::encode([byte; 32])
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    /// The first event of a booking recorded at 5, accepted by endpoint 1.
    fn accepted() -> Notification {
        Notification {
            event_id: EventId::new(at(5), [1; 10]),
            event_type: RecordedEventType::BookingCreated,
            seq: 3,
            body_sha256: digest(7),
            endpoint_id: EndpointId::new(at(1), [1; 10]),
            outcome: NotificationOutcome::Delivered,
            settled_at: at(9),
            attempts: 1,
            error: None,
            status_code: Some(204),
            response_sha256: Some(digest(8)),
        }
    }

    fn given_up() -> Notification {
        Notification {
            outcome: NotificationOutcome::GivenUp,
            error: Some("timeout".to_owned()),
            status_code: None,
            response_sha256: None,
            ..accepted()
        }
    }

    fn protection(event: u8) -> Notification {
        Notification {
            event_id: EventId::new(at(6), [event; 10]),
            event_type: RecordedEventType::BookingProtected,
            seq: 4,
            ..accepted()
        }
    }

    fn stands(before: &[Notification], next: &Notification) -> bool {
        let causes = Causes {
            created_at: at(5),
            protected_at: Some(at(6)),
            resolved_at: vec![at(7), at(7)],
        };
        follows(before, next, &causes).is_ok()
    }

    #[test]
    fn a_record_that_contradicts_itself_is_refused() {
        assert!(stands(&[], &accepted()) && stands(&[], &given_up()));
        #[rustfmt::skip]
        let cases = [
            ("no attempt", Notification { attempts: 0, ..accepted() }),
            ("no number", Notification { seq: 0, ..accepted() }),
            ("a failure accepted", Notification { error: Some("timeout".to_owned()), ..accepted() }),
            ("no answer accepted", Notification { status_code: None, response_sha256: None, ..accepted() }),
            ("a 500 accepted", Notification { status_code: Some(500), ..accepted() }),
            ("given up without a failure", Notification { error: None, ..given_up() }),
            ("an unknown failure", Notification { error: Some("bad_luck".to_owned()), ..given_up() }),
            ("no digest of the body", Notification { body_sha256: String::new(), ..accepted() }),
            ("a digest in capitals", Notification { body_sha256: digest(0xab).to_uppercase(), ..accepted() }),
            ("a short digest of the answer", Notification { response_sha256: Some("00".to_owned()), ..accepted() }),
            ("a digest of no answer", Notification { response_sha256: Some(digest(1)), ..given_up() }),
        ];
        for (what, wrong) in cases {
            assert!(!stands(&[], &wrong), "{what}");
        }
    }

    #[test]
    fn a_delivery_ends_once_unless_it_was_given_up_and_then_accepted() {
        let later = |n: Notification| Notification { attempts: 2, ..n };
        assert!(stands(&[given_up()], &later(accepted())));
        assert!(
            !stands(&[given_up()], &accepted()),
            "without another attempt"
        );
        assert!(!stands(&[given_up()], &later(given_up())));
        assert!(!stands(&[accepted()], &later(accepted())));
        assert!(!stands(&[accepted()], &later(given_up())));
        let both = [given_up(), later(accepted())];
        assert!(!stands(
            &both,
            &Notification {
                attempts: 3,
                ..accepted()
            }
        ));
        let elsewhere = Notification {
            endpoint_id: EndpointId::new(at(2), [2; 10]),
            ..accepted()
        };
        assert!(
            stands(&both, &elsewhere),
            "another endpoint's delivery is another"
        );
    }

    #[test]
    fn an_event_tells_of_what_was_recorded_before_and_is_the_same_in_every_record() {
        assert!(stands(&[accepted()], &protection(2)));
        let (created, protected) = (accepted(), protection(2));
        #[rustfmt::skip]
        let cases = [
            ("another instant", None, Notification { event_id: EventId::new(at(4), [1; 10]), ..accepted() }),
            ("another type", None, Notification { event_type: RecordedEventType::BookingProtected, ..accepted() }),
            ("another event of the same", Some(&protected), Notification { seq: 9, ..protection(3) }),
            ("another number", Some(&created), Notification { seq: 9, ..given_up() }),
            ("the number of another", Some(&created), Notification { seq: 3, ..protection(2) }),
            ("another body", Some(&created), Notification { body_sha256: digest(1), ..given_up() }),
        ];
        for (what, before, wrong) in cases {
            let wrong = Notification {
                endpoint_id: EndpointId::new(at(2), [2; 10]),
                ..wrong
            };
            let before: Vec<Notification> = before.into_iter().cloned().collect();
            assert!(!stands(&before, &wrong), "{what}");
        }
        let early = Causes {
            created_at: at(5),
            protected_at: None,
            resolved_at: Vec::new(),
        };
        assert!(
            follows(&[], &protected, &early).is_err(),
            "told before it happened"
        );
        // A decision in the same millisecond as the cancellation makes a second event of that instant, but no third is
        // possible.
        let resolved = |n: u8| Notification {
            event_id: EventId::new(at(7), [n; 10]),
            event_type: RecordedEventType::ResolutionCreated,
            seq: u64::from(n),
            ..accepted()
        };
        assert!(stands(&[resolved(5)], &resolved(6)));
        assert!(!stands(&[resolved(5), resolved(6)], &resolved(7)));
    }
}
