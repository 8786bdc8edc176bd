//! Every text that a fact commits to: either it can be erased, or it holds no personal data.

use std::collections::BTreeSet;

use super::*;
use crate::evidence::erasure::Erasable;
use crate::evidence::{
    ErasedValues, FrozenTerms, ItemKind, LegalBasis, NotificationOutcome,
    verify::tests::fixture::{self, booking},
};
use crate::model::{Amount, EndpointId, EventId, ItemId, RecordedEventType, ResolutionId};
use crate::policy::{
    self, Actor, EventDate, NamedDocument, PastReschedule, Reason, ResolutionDecision, Standing,
    Subject, Terms,
};

/// Texts that cannot be erased, by kind, with why they need not be. A path that ends in `.` covers all below it.
#[rustfmt::skip]
const OURS: &[(LeafKind, &str, &str)] = &[
    (LeafKind::BookingCreated, "bookingId", ID),
    (LeafKind::BookingCreated, "partnerId", ID),
    (LeafKind::BookingCreated, "eventDate", TIME),
    (LeafKind::BookingCreated, "timeZone", ZONE),
    (LeafKind::BookingCreated, "currency", "a code of ISO 4217"),
    (LeafKind::BookingCreated, "createdAt", TIME),
    (LeafKind::BookingCreated, "termsHash", TERMS_HASH),
    (LeafKind::BookingProtected, "protectedAt", TIME),
    (LeafKind::BookingProtected, "termsHash", TERMS_HASH),
    (LeafKind::BookingRescheduled, "rescheduledAt", TIME),
    (LeafKind::BookingRescheduled, "eventDate", TIME),
    (LeafKind::BookingRescheduled, "timeZone", ZONE),
    (LeafKind::BookingRescheduled, "agreedBy.", WORD),
    (LeafKind::BookingRescheduled, "at", TIME),
    (LeafKind::BookingRescheduled, "former.", "times, and an amount with its currency"),
    (LeafKind::BookingRescheduled, "terms.", "words and times that the service makes of the policy, and the policy's hash"),
    (LeafKind::TermsAccepted, "bookingId", ID),
    (LeafKind::TermsAccepted, "acceptedAt", TIME),
    (LeafKind::TermsAccepted, "party", WORD),
    (LeafKind::TermsAccepted, "at", TIME),
    (LeafKind::TermsAccepted, "disclosureHash", "the SHA-256 of a text that the service makes of the terms, which names nobody"),
    (LeafKind::TermsAccepted, "disclosureVersion", "a word of the service's own"),
    (LeafKind::BookingCanceled, "bookingId", ID),
    (LeafKind::BookingCanceled, "canceledAt", TIME),
    (LeafKind::BookingCanceled, "canceledBy", WORD),
    (LeafKind::BookingCanceled, "reason", WORD),
    (LeafKind::BookingCanceled, "effectiveAt", TIME),
    (LeafKind::BookingCanceled, "agreedRefund.", "an amount with its currency"),
    (LeafKind::ResolutionCreated, "resolution.bookingId", ID),
    (LeafKind::ResolutionCreated, "resolution.partnerId", ID),
    (LeafKind::ResolutionCreated, "resolution.resolutionId", ID),
    (LeafKind::ResolutionCreated, "resolution.supersedes", ID),
    (LeafKind::ResolutionCreated, "resolution.status", WORD),
    (LeafKind::ResolutionCreated, "resolution.evidenceGrade", WORD),
    (LeafKind::ResolutionCreated, "resolution.canceledBy", WORD),
    (LeafKind::ResolutionCreated, "resolution.reason", WORD),
    (LeafKind::ResolutionCreated, "resolution.canceledAt", TIME),
    (LeafKind::ResolutionCreated, "resolution.effectiveAt", TIME),
    (LeafKind::ResolutionCreated, "resolution.decision.decidedAt", TIME),
    (LeafKind::ResolutionCreated, "resolution.decision.refund.", "an amount with its currency"),
    (LeafKind::ResolutionCreated, "resolution.summary", COMPUTED),
    (LeafKind::ResolutionCreated, "resolution.evaluation.", COMPUTED),
    (LeafKind::EvidenceAdded, "itemId", ID),
    (LeafKind::EvidenceAdded, "bookingId", ID),
    (LeafKind::EvidenceAdded, "addedAt", TIME),
    (LeafKind::EvidenceAdded, "kind", WORD),
    (LeafKind::EvidenceAdded, "at", TIME),
    (LeafKind::EvidenceAdded, "party", WORD),
    (LeafKind::EvidenceAdded, "amount.", "an amount with its currency"),
    (LeafKind::EvidenceErased, "bookingId", ID),
    (LeafKind::EvidenceErased, "erasedAt", TIME),
    (LeafKind::EvidenceErased, "legalBasis", WORD),
    (LeafKind::EvidenceErased, "values.", "names of members"),
    (LeafKind::WebhookSettled, "notification.eventId", ID),
    (LeafKind::WebhookSettled, "notification.endpointId", ID),
    (LeafKind::WebhookSettled, "notification.type", WORD),
    (LeafKind::WebhookSettled, "notification.bodySha256", "the SHA-256 of a body that holds ids, times, words and amounts only"),
    (LeafKind::WebhookSettled, "notification.outcome", WORD),
    (LeafKind::WebhookSettled, "notification.settledAt", TIME),
    (LeafKind::WebhookSettled, "notification.error", WORD),
    (LeafKind::WebhookSettled, "notification.responseSha256", "the SHA-256 of what the partner's own server answered"),
];

const ID: &str = "an id that the service made at random";
const TIME: &str = "a time";
const ZONE: &str = "a name of the IANA database, or an offset";
const WORD: &str = "a word of a closed vocabulary";
const TERMS_HASH: &str = "the SHA-256 of terms, which name nobody";
const COMPUTED: &str =
    "computed from the terms: words, times, amounts, and the id that the partner gave the policy";

fn at(minutes: i64) -> Timestamp {
    let created = Timestamp::parse("2026-01-10T15:00:00Z").unwrap();
    created.plus_ms(minutes * 60_000)
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn money() -> Amount {
    Amount::parse("10.50", Currency::USD).unwrap()
}

fn terms() -> Terms {
    fixture::terms(Some("case_by_case"), at(0))
}

/// What was decided of a cancellation.
fn decided(canceled: &Cancellation, partner_id: PartnerId, terms: &Terms) -> Resolution {
    let subject = Subject {
        booking_id: canceled.booking_id,
        terms,
        standing: Standing::of(true, None),
        reschedules: &[],
    };
    let evaluation = policy::evaluate(&subject, &canceled.question()).unwrap();
    let id = |n| ResolutionId::new(at(n), [1; 10]);
    let pending = Resolution::of(canceled, evaluation, partner_id, id(3), true);
    let decision = ResolutionDecision {
        refund: money(),
        decided_by: "disputes".to_owned(),
        rationale: "The storm was local.".to_owned(),
        decided_at: at(4),
    };
    pending.decided(decision, id(4), terms).unwrap()
}

/// A fact of every kind, with every member that it can have. They are literals without `..`, so a new member must be added here, and is
/// then found by the test.
fn facts() -> Vec<Fact> {
    let terms = terms();
    let mut booking = booking(1, at(0), &terms, Some("America/New_York"));
    booking.metadata = [("email".to_owned(), "jane@example.com".to_owned())].into();
    let booking_id = booking.booking_id;
    let hash = || format!("sha256:{}", "ab".repeat(32));
    let canceled = Cancellation {
        booking_id,
        canceled_at: at(3),
        canceled_by: Actor::Mutual,
        reason: Some(Reason::Other),
        note: text("Jane is ill"),
        effective_at: Some(at(2)),
        agreed_refund: Some(money()),
        evidence: vec![NamedDocument {
            kind: "notice".to_owned(),
            name: text("jane.eml"),
            media_type: text("message/rfc822"),
            sha256: hash(),
        }],
        evidence_count: Some(1),
    };
    let asked = Cancellation {
        canceled_by: Actor::Organizer,
        agreed_refund: None,
        ..canceled.clone()
    };
    let resolution = decided(&asked, booking.partner_id, &terms);
    let created = CreationFact {
        booking_id,
        partner_id: booking.partner_id,
        talent: booking.talent,
        organizer: booking.organizer,
        event_type: booking.event_type,
        event_date: booking.event_date,
        time_zone: text("America/New_York"),
        booking_value: booking.booking_value.clone(),
        amount_paid: Some(booking.booking_value),
        currency: booking.currency,
        metadata: booking.metadata,
        created_at: at(0),
        terms_hash: hash(),
    };
    vec![
        created.into(),
        ProtectionFact {
            protected_at: at(1),
            terms_hash: hash(),
        }
        .into(),
        RescheduleFact {
            rescheduled_at: at(1),
            event_date: at(9_000),
            time_zone: text("America/New_York"),
            agreed_by: vec![Actor::Organizer],
            at: Some(at(1)),
            former: PastReschedule {
                at: at(1),
                previous_event_date: EventDate::parse("2026-06-20").unwrap(),
                reached: Some(money()),
            },
            terms: FrozenTerms::of(&terms),
        }
        .into(),
        Acceptance {
            booking_id,
            accepted_at: at(2),
            party: Actor::Organizer,
            method: "checkbox".to_owned(),
            at: at(2),
            ip: text("203.0.113.7"),
            user_agent: text("Browser/1.0"),
            disclosure_hash: hash(),
            disclosure_version: "bookguard-disclosure-1".to_owned(),
        }
        .into(),
        canceled.into(),
        ResolutionFact::of(resolution).into(),
        EvidenceItem {
            item_id: ItemId::new(at(5), [1; 10]),
            booking_id,
            added_at: at(5),
            kind: ItemKind::Payment,
            title: "Deposit of Jane".to_owned(),
            at: Some(at(5)),
            party: Some(Actor::Organizer),
            amount: Some(money()),
            reference: text("ch_1"),
            note: text("by card"),
            sha256: Some(hash()),
        }
        .into(),
        Erasure {
            booking_id,
            erased_at: at(6),
            legal_basis: LegalBasis::Objection,
            request_ref: text("Jane's mail"),
            values: vec![ErasedValues {
                entry: 0,
                names: vec![Erasable::Organizer],
            }],
        }
        .into(),
        NotificationFact {
            notification: Notification {
                event_id: EventId::new(at(1), [1; 10]),
                event_type: RecordedEventType::BookingCreated,
                seq: 1,
                body_sha256: "ab".repeat(32),
                endpoint_id: EndpointId::new(at(1), [1; 10]),
                outcome: NotificationOutcome::GivenUp,
                settled_at: at(7),
                attempts: 1,
                error: text("http_5xx"),
                status_code: Some(503),
                response_sha256: Some("ab".repeat(32)),
            },
        }
        .into(),
    ]
}

/// The paths of the texts in a value, without places in arrays.
fn texts(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(_) => drop(found.insert(path.to_owned())),
        Value::Array(items) => items
            .iter()
            .for_each(|item| texts(&format!("{path}."), item, found)),
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| texts(&format!("{path}.{name}"), value, found)),
        _ => {}
    }
}

#[test]
fn every_text_that_a_fact_commits_to_can_be_erased_or_holds_no_personal_data() {
    let mut kinds = BTreeSet::new();
    for fact in facts() {
        let kind = fact.kind();
        kinds.insert(kind);
        let members = fact.seal([0; 32]).unwrap().members;
        let members: Map<String, Value> = serde_json::from_str(&members).unwrap();
        assert_eq!(Fact::read(kind, members.clone()), Ok(fact));
        for name in Erasable::of(kind) {
            assert!(
                name.can_go(kind, |own| members.contains_key(own)),
                "{kind} {name}"
            );
        }
        let is_erasable = |name: &str| Erasable::of(kind).iter().any(|one| one.word() == name);
        let mut left = BTreeSet::new();
        for (name, value) in members.iter().filter(|(name, _)| !is_erasable(name)) {
            texts(name, value, &mut left);
        }
        let mut rows: Vec<&str> = OURS
            .iter()
            .filter(|row| row.0 == kind)
            .map(|row| row.1)
            .collect();
        let all = rows.len();
        for path in &left {
            let is_of = |row: &&str| match row.ends_with('.') {
                true => path.starts_with(*row),
                false => path == *row,
            };
            assert!(
                OURS.iter().any(|row| row.0 == kind && is_of(&row.1)),
                "{kind} commits to the text {path}: let it be erased (evidence/erasure.rs), or say in OURS why it holds no personal data"
            );
            rows.retain(|row| !is_of(row));
        }
        assert!(
            rows.is_empty(),
            "of {all} rows of {kind}, these are of no text: {rows:?}"
        );
    }
    let of_bookings = LeafKind::ALL.into_iter().filter(|kind| {
        Fact::read(*kind, Map::new())
            .unwrap_err()
            .contains("make a fact")
    });
    assert!(of_bookings.eq(kinds), "a kind of facts is missing here");
}
