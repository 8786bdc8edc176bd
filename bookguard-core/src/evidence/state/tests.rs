//! Facts in every order: those that the rules allow form a booking, all others are refused.

use super::*;
use crate::evidence::facts::{LeafPlace, NotificationFact, ResolutionFact};
use crate::evidence::verify::tests::fixture::{self, booking, erased_values, item};
use crate::evidence::{Erasable, ItemKind, LegalBasis, NotificationOutcome};
use crate::ledger::{Hash, LeafKind};
use crate::model::{
    Amount, Currency, Decimal, EndpointId, EventId, RecordedEventType, ResolutionId,
};
use crate::policy::{self, Actor, Reason, ResolutionDecision, Terms};
use LeafKind::{
    BookingCanceled as X, BookingCreated as C, BookingProtected as P, BookingRescheduled as M,
    EvidenceAdded as E, EvidenceErased as D, ResolutionCreated as R, TermsAccepted as A,
    WebhookSettled as W,
};

fn at(n: u64) -> Timestamp {
    let created = Timestamp::parse("2026-01-10T15:00:00Z").unwrap();
    created.plus_ms(i64::try_from(n).unwrap() * 1000)
}

fn terms() -> Terms {
    fixture::terms(Some("firm"), at(0))
}

fn created() -> CreationFact {
    let terms = terms();
    CreationFact::of(
        &booking(1, at(0), &terms, None),
        FrozenTerms::of(&terms).hash(),
    )
}

/// A fact of this kind that could be recorded as entry `n` of the booking, if one of its kind can.
fn fact(kind: LeafKind, n: u64, state: &BookingState) -> Fact {
    let (booking_id, now) = (state.booking.booking_id, at(n));
    match kind {
        C => created().into(),
        P => ProtectionFact {
            protected_at: now,
            terms_hash: state.terms_hash_in_force(),
        }
        .into(),
        M => RescheduleFact {
            rescheduled_at: now,
            event_date: at(9_000_000 + n),
            time_zone: Some(format!("Zone/{n}")),
            agreed_by: vec![Actor::Organizer, Actor::Talent],
            at: None,
            former: PastReschedule::of(&terms(), &state.moves, now),
            terms: FrozenTerms::of(&terms()),
        }
        .into(),
        A => Acceptance {
            booking_id,
            accepted_at: now,
            party: Actor::Talent,
            method: "checkbox".to_owned(),
            at: now,
            ip: None,
            user_agent: None,
            disclosure_hash: String::new(),
            disclosure_version: String::new(),
        }
        .into(),
        X => cancellation(state, now).into(),
        R => resolution(state, now).into(),
        E => item(booking_id, now, ItemKind::Payment, "Deposit").into(),
        W => NotificationFact {
            notification: notification(n),
        }
        .into(),
        D => Erasure {
            booking_id,
            erased_at: now,
            legal_basis: LegalBasis::Objection,
            request_ref: None,
            values: vec![erased_values(0, &[Erasable::Organizer])],
        }
        .into(),
        LeafKind::LogContinued | LeafKind::LogAnchored | LeafKind::LogMapped => {
            panic!("no booking has such a fact")
        }
    }
}

fn cancellation(state: &BookingState, now: Timestamp) -> Cancellation {
    Cancellation {
        reason: Some(Reason::ForceMajeure),
        ..fixture::cancellation(state.booking.booking_id, now, Actor::Talent)
    }
}

fn resolution(state: &BookingState, now: Timestamp) -> ResolutionFact {
    let id = ResolutionId::new(now, [1; 10]);
    let terms = terms();
    let resolution = match state.resolution() {
        Some(pending) => {
            let decision = ResolutionDecision {
                refund: Amount::parse("200", Currency::USD).unwrap(),
                decided_by: "disputes".to_owned(),
                rationale: "The storm was local.".to_owned(),
                decided_at: now,
            };
            pending.decided(decision, id, &terms).unwrap()
        }
        None => {
            let canceled = (state.cancellation.clone()).unwrap_or(cancellation(state, now));
            let Booking {
                partner_id,
                protected,
                ..
            } = state.booking;
            let subject = state.subject(&terms, None);
            let evaluation = policy::evaluate(&subject, &canceled.question()).unwrap();
            Resolution::of(&canceled, evaluation, partner_id, id, protected)
        }
    };
    ResolutionFact::of(resolution)
}

/// A delivery of the event of the booking's recording, accepted by another endpoint each time.
fn notification(n: u64) -> Notification {
    Notification {
        event_id: EventId::new(at(0), [1; 10]),
        event_type: RecordedEventType::BookingCreated,
        seq: 3,
        body_sha256: hex::encode([7; 32]),
        endpoint_id: EndpointId::new(at(n), [1; 10]),
        outcome: NotificationOutcome::Delivered,
        settled_at: at(n),
        attempts: 1,
        error: None,
        status_code: Some(204),
        response_sha256: Some(hex::encode([8; 32])),
    }
}

fn place(n: u64) -> LeafPlace {
    LeafPlace {
        index: 100 + n,
        hash: Hash([n.to_be_bytes()[7]; 32]),
        at: at(n),
    }
}

/// The facts of these kinds, each as it could follow those before it.
fn facts(kinds: &[LeafKind]) -> Vec<Logged<Fact>> {
    let mut state = BookingState::recorded(created(), None);
    let made = (0..).zip(kinds).map(|(n, kind)| {
        let fact = fact(*kind, n, &state);
        let logged = Logged {
            place: place(n),
            fact,
        };
        // A fact that cannot follow changes nothing.
        let _ = state.apply(logged.clone());
        logged
    });
    made.collect()
}

fn fold(kinds: &[LeafKind]) -> Result<BookingState, String> {
    BookingState::fold(facts(kinds), None)
}

#[test]
fn the_orders_that_the_rules_allow_make_a_booking() {
    use BookingStatus::{Canceled, Created, Protected};
    #[rustfmt::skip]
    let cases = [
        (&[C][..], Created, None, 0, 0),
        (&[C, P], Protected, Some(1), 0, 0),
        (&[C, M], Created, None, 1, 0),
        (&[C, A, M, P, M], Protected, Some(3), 2, 0),
        (&[C, P, M, M, X, R], Canceled, Some(1), 2, 1),
        (&[C, X, R], Canceled, None, 0, 1),
        (&[C, X, R, R], Canceled, None, 0, 2),
        (&[C, P, X, R], Canceled, Some(1), 0, 1),
        (&[C, P, X, R, R], Canceled, Some(1), 0, 2),
        (&[C, W, P, W, W, M, W, A, W, X, R, W, R, W], Canceled, Some(2), 1, 2),
        (&[C, E, P, E, E, X, R, E, R, E], Canceled, Some(2), 0, 2),
        (&[C, D, P, D, X, R, D, R, D], Canceled, Some(2), 0, 2),
    ];
    for (kinds, status, protected, moves, resolutions) in cases {
        let state = fold(kinds).unwrap_or_else(|why| panic!("{kinds:?}: {why}"));
        let booking = &state.booking;
        assert_eq!(booking.status, status, "{kinds:?}");
        assert_eq!(state.protected, protected.map(place), "{kinds:?}");
        assert_eq!(booking.protected_at, protected.map(at), "{kinds:?}");
        assert_eq!(state.moves.len(), moves, "{kinds:?}");
        assert_eq!(state.resolutions.len(), resolutions, "{kinds:?}");
        let latest = state.resolution().map(|latest| latest.resolution_id);
        assert_eq!(booking.resolution_id, latest, "{kinds:?}");
        let count = |kind| kinds.iter().filter(|other| **other == kind).count();
        assert_eq!(state.acceptances.len(), count(A), "{kinds:?}");
        assert_eq!(state.items.len(), count(E), "{kinds:?}");
        assert_eq!(state.settled.len(), count(W), "{kinds:?}");
        let recorded = fold(&[C]).unwrap().booking;
        let first_date = (recorded.event_date, recorded.time_zone);
        assert_eq!(state.first_date, first_date, "{kinds:?}");
    }
}

#[test]
fn an_erasure_removes_values_from_a_state_that_shows_them() {
    let mut state = BookingState::recorded(created(), None);
    for logged in facts(&[C, D]).into_iter().skip(1) {
        state.apply(logged).unwrap();
    }
    assert_eq!(state.booking.organizer.name, "erased");
}

#[test]
fn a_booking_has_the_date_and_the_texts_of_its_last_move() {
    let state = fold(&[C, A, P, A, M, A, A, M, A]).unwrap();
    let under: Vec<usize> = (state.acceptances.iter())
        .map(|accepted| state.moves_before(&accepted.place))
        .collect();
    assert_eq!(under, [0, 0, 1, 1, 2]);
    assert_eq!(state.booking.event_date, at(9_000_007));
    assert_eq!(state.booking.rescheduled_at, Some(at(7)));
    let versions = state.terms_versions(FrozenTerms::of(&terms()));
    let since: Vec<Timestamp> = versions.iter().map(|version| version.since).collect();
    assert_eq!(since, [at(0), at(4), at(7)]);
    let zones: Vec<Option<&str>> = versions.iter().map(|v| v.time_zone.as_deref()).collect();
    assert_eq!(zones, [None, Some("Zone/4"), Some("Zone/7")]);
}

#[test]
fn every_other_order_is_refused() {
    for kinds in [
        &[][..],
        &[P],
        &[X, R],
        &[C, C],
        &[C, P, P],
        &[C, P, M, P],
        &[M],
        &[C, X, M],
        &[C, X, M, R],
        &[A],
        &[C, X, A],
        &[C, X, A, R],
        &[C, X, R, A],
        &[C, X, R, M],
        &[C, R],
        &[C, P, R],
        &[C, X],
        &[C, P, X],
        &[C, X, X],
        &[C, X, P],
        &[C, X, X, R],
        &[C, X, P, R],
        &[C, X, R, P],
        &[C, X, R, X],
        &[C, X, R, C],
        &[C, X, R, R, R],
        &[C, X, R, X, R],
        &[W],
        &[C, X, W],
        &[C, X, W, R],
        &[E],
        &[C, X, E],
        &[D],
        &[C, X, D],
        &[C, X, D, R],
        &[C, X, E, R],
        &[C, P, W, P],
        &[C, W, C],
    ] {
        // A third resolution would decide a decision, which the second one would have to be.
        assert!(fold(kinds).is_err(), "{kinds:?}");
    }
}

#[test]
fn a_booking_of_sums_that_its_currency_does_not_have_is_refused() {
    let number = |text: &str| serde_json::from_str::<Decimal>(text).unwrap();
    for (value, paid, code, why) in [
        ("1200.5", None, "USD", ""),
        ("1200.505", None, "USD", "bookingValue (USD) that has more"),
        (
            "950",
            Some("0.001"),
            "USD",
            "amountPaid (USD) that has more",
        ),
        ("0.5", None, "JPY", "bookingValue (JPY) that has more"),
        ("1.234", Some("0.001"), "KWD", ""),
        ("1.2345", None, "KWD", "bookingValue (KWD) that has more"),
        ("1.2345", None, "CLF", ""),
        ("9999999999999.99", None, "USD", ""),
        (
            "10000000000000",
            None,
            "USD",
            "bookingValue (USD) that is too large",
        ),
    ] {
        let fact: Fact = CreationFact {
            booking_value: number(value),
            amount_paid: paid.map(number),
            currency: Currency::parse(code).unwrap(),
            ..created()
        }
        .into();
        let place = place(0);
        let folded = BookingState::fold([Logged { place, fact }], None);
        let told = folded.err().unwrap_or_default();
        assert_eq!(told.is_empty(), why.is_empty(), "{value} {code}: {told}");
        assert!(told.contains(why), "{value} {code}: {told}");
    }
}

type Change<'a> = &'a dyn Fn(&mut Fact);

#[test]
fn a_fact_that_contradicts_those_before_it_is_refused() {
    let state = fold(&[C, M]).unwrap();
    let canceled = fold(&[C, P, X, R]).unwrap();
    let refused = |state: &BookingState, change: Change<'_>, kind: LeafKind| {
        let mut fact = fact(kind, 9, state);
        let place = place(9);
        let sound = Logged {
            place,
            fact: fact.clone(),
        };
        assert_eq!(state.clone().apply(sound), Ok(()), "{kind}");
        change(&mut fact);
        let refusal = state.clone().apply(Logged { place, fact });
        refusal.expect_err(&kind.to_string())
    };
    let other = booking(2, at(0), &terms(), None).booking_id;
    let with_item = fold(&[C, E]).unwrap();
    let known = with_item.items[0].fact.item_id;
    let another = RecordedEventType::BookingProtected;
    #[rustfmt::skip]
    let cases: &[(&BookingState, LeafKind, Change<'_>, &str)] = &[
        (&state, P, &|f| if let Fact::BookingProtected(f) = f { f.terms_hash.push('0') }, ""),
        (&state, P, &|f| if let Fact::BookingProtected(f) = f { f.protected_at = at(10) }, ""),
        (&state, M, &|f| if let Fact::BookingRescheduled(f) = f { f.former.at = at(8) }, ""),
        (&state, M, &|f| if let Fact::BookingRescheduled(f) = f { f.rescheduled_at = at(10) }, ""),
        (&state, M, &|f| if let Fact::BookingRescheduled(f) = f { f.at = Some(at(20)) }, ""),
        (&state, A, &|f| if let Fact::TermsAccepted(f) = f { f.booking_id = other }, ""),
        (&state, E, &|f| if let Fact::EvidenceAdded(f) = f { f.booking_id = other }, ""),
        (&with_item, E, &|f| if let Fact::EvidenceAdded(f) = f { f.item_id = known }, ""),
        (&state, W, &|f| if let Fact::WebhookSettled(f) = f { f.notification.event_type = another }, ""),
        (&canceled, R, &|f| if let Fact::ResolutionCreated(f) = f { f.resolution.supersedes = None }, "neither results"),
        (&canceled, R, &|f| if let Fact::ResolutionCreated(f) = f { f.resolution.canceled_at = at(3) }, "neither results"),
        (&canceled, R, &|f| if let Fact::ResolutionCreated(f) = f { f.resolution.decision = None }, "neither results"),
        (&canceled, R, &|f| if let Fact::ResolutionCreated(f) = f { f.resolution.summary.push('!') }, "The summary of resolution"),
    ];
    for (nth, &(state, kind, change, words)) in cases.iter().enumerate() {
        let why = refused(state, change, kind);
        assert!(why.contains(words), "case {nth}: {why}");
    }
}
