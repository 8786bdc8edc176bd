//! Acceptances as tables, on bookings made by hand.

use crate::evidence::erasure::ERASED;
use crate::evidence::facts::{LeafPlace, Logged};
use crate::evidence::verify::tests::fixture::erased_values;
use crate::evidence::{Erasable, Erasure, LegalBasis};
use crate::features::acceptances::{AcceptTerms, AcceptanceRequest, Accepted};
use crate::features::fixture::*;
use crate::ledger::LeafKind;
use crate::policy::{Actor, DisclosureWording, TermsDisclosure, disclose, disclose_in};

const NOW: &str = "2026-06-01T00:00:00.500Z";

fn told(work: &BatchState) -> TermsDisclosure {
    let state = &work.bookings[&booking_id()];
    disclose(&state.terms, &state.moves).unwrap()
}

fn ask(work: &BatchState) -> AcceptanceRequest {
    AcceptanceRequest {
        party: Actor::Organizer,
        method: "checkbox".to_owned(),
        at: at("2026-06-01T00:00:00Z"),
        ip: Some("203.0.113.7".to_owned()),
        user_agent: Some("Browser/1.0".to_owned()),
        disclosure_hash: told(work).disclosure_hash,
    }
}

fn accepting(asked: AcceptanceRequest) -> AcceptTerms {
    AcceptTerms {
        partner_id: partner_id(),
        booking_id: booking_id(),
        asked,
        seed: [1; 32],
        event: seed(42, 1),
        evidence_url: String::new(),
    }
}

type Decided = Result<(Vec<Change>, Accepted), Error>;

fn accept(work: &BatchState, when: &str, ask: AcceptanceRequest) -> Decided {
    decided(work, when, accepting(ask))
}

fn decided(work: &BatchState, when: &str, command: AcceptTerms) -> Decided {
    outcome(work, &Envelope::new(at(when), command))
}

fn done(work: &mut BatchState, when: &str, ask: AcceptanceRequest) -> Accepted {
    let (changes, accepted) = accept(work, when, ask).unwrap();
    apply_all(work, &changes);
    accepted
}

#[test]
fn an_acceptance_is_one_entry_and_the_same_again_repeats_it() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let asked = ask(&work);
    let new = Envelope::new(at(NOW), accepting(asked.clone()));
    assert!(waits_for_room(&work, &new));
    let (changes, accepted) = accept(&work, NOW, asked.clone()).unwrap();
    let [entry] = entries(&changes)[..] else {
        panic!("{changes:?}")
    };
    assert_eq!(entry.fact.kind, LeafKind::TermsAccepted);
    assert_eq!((changes.len(), accepted.receipt.leaf_index), (2, 10));
    assert_eq!(tree_of(&accepted.receipt), HEAD);
    let acceptance = &accepted.acceptance;
    assert_eq!(acceptance.accepted_at, at(NOW));
    assert_eq!(acceptance.disclosure_version, told(&work).version);
    apply_all(&mut work, &changes);
    // An address and a program that are left out do not distinguish acceptances.
    let again = AcceptanceRequest {
        ip: None,
        user_agent: None,
        ..asked.clone()
    };
    let again = AcceptTerms {
        seed: [2; 32],
        ..accepting(again)
    };
    let low = BatchState {
        storage_low: true,
        ..work.clone()
    };
    let (changes, repeated) = decided(&low, "2030-01-01T00:00:00Z", again).unwrap();
    assert!(changes.is_empty(), "even while the disk has no room");
    assert_eq!(repeated, accepted);
    let talent = AcceptanceRequest {
        party: Actor::Talent,
        ..asked.clone()
    };
    assert_eq!(done(&mut work, NOW, talent).receipt.leaf_index, 11);

    // After a move, the text is another one; the acceptance stays.
    rescheduled(&mut work, NOW, ask_to_reschedule("2026-10-20T19:00"));
    let error = accept(
        &work,
        NOW,
        AcceptanceRequest {
            party: Actor::Partner,
            ..asked.clone()
        },
    )
    .unwrap_err();
    assert_eq!(error.code, "disclosure_changed");
    assert_eq!(
        error.obstacle.unwrap().disclosure_hash,
        Some(told(&work).disclosure_hash)
    );
    let (changes, repeated) = accept(&work, NOW, asked).unwrap();
    assert!(changes.is_empty());
    assert_eq!(repeated, accepted);
    let anew = ask(&work);
    done(&mut work, NOW, anew);
    assert_eq!(work.bookings[&booking_id()].acceptances.len(), 3);
}

#[test]
fn a_text_that_was_shown_before_an_upgrade_is_accepted_after_it_and_stays_the_one_to_show() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let latest = ask(&work);
    let known = &work.bookings[&booking_id()];
    let first = disclose_in(DisclosureWording::First, &known.terms, &known.moves).unwrap();
    let of = |hash: &str| AcceptanceRequest {
        disclosure_hash: hash.to_owned(),
        ..latest.clone()
    };
    let in_force = |work: &BatchState| {
        let error = accept(work, NOW, of("")).unwrap_err();
        assert_eq!(error.code, "disclosure_changed");
        error.obstacle.unwrap().disclosure_hash.unwrap()
    };
    assert_eq!(in_force(&work), latest.disclosure_hash);
    let accepted = done(&mut work, NOW, of(&first.disclosure_hash)).acceptance;
    assert_eq!(accepted.disclosure_version, "bookguard-disclosure-1");
    assert_eq!(accepted.disclosure_hash, first.disclosure_hash);
    // The other side is asked to accept the same words, but may have been shown the latest ones.
    assert_eq!(in_force(&work), first.disclosure_hash);
    let talent = AcceptanceRequest {
        party: Actor::Talent,
        ..latest.clone()
    };
    let accepted = done(&mut work, NOW, talent).acceptance;
    assert_eq!(accepted.disclosure_version, told(&work).version);
    let state = &work.bookings[&booking_id()];
    let texts = ["bookguard-disclosure-1", "bookguard-disclosure-2"];
    assert_eq!(state.texts(), texts.map(|version| (0, Some(version))));

    // After a move, nobody has accepted the terms, and the text is in the latest wording again.
    rescheduled(&mut work, NOW, ask_to_reschedule("2026-10-20T19:00"));
    assert_eq!(in_force(&work), told(&work).disclosure_hash);
}

#[test]
fn what_cannot_be_accepted_is_refused_by_its_code() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
    let with = |change: &dyn Fn(&mut AcceptanceRequest)| {
        let mut ask = ask(&work);
        change(&mut ask);
        ask
    };
    #[rustfmt::skip]
    let cases = [
        (with(&|ask| ask.disclosure_hash = String::new()), "disclosure_changed"),
        (with(&|ask| ask.at = at("2026-06-01T00:05:00.501Z")), "accepted_in_future"),
        (with(&|ask| ask.at = at("2026-01-10T14:54:59.999Z")), "accepted_before_terms"),
    ];
    for (ask, code) in cases {
        assert_eq!(accept(&work, NOW, ask).unwrap_err().code, code);
    }
    // The clocks of checkouts may be some minutes off.
    for instant in ["2026-06-01T00:05:00.500Z", "2026-01-10T14:55:00Z"] {
        accept(&work, NOW, with(&|ask| ask.at = at(instant))).unwrap();
    }
    let error = |command| decided(&work, NOW, command).unwrap_err();
    let foreign = AcceptTerms {
        partner_id: id(77),
        ..accepting(with(&|_| ()))
    };
    let unknown = AcceptTerms {
        booking_id: id(78),
        ..accepting(with(&|_| ()))
    };
    assert_eq!(error(foreign), error(unknown));

    let first = with(&|_| ());
    let made = done(&mut work, NOW, first.clone());
    let cancel = canceling(ask_to_cancel(Actor::Talent, None));
    apply(&mut work, NOW, cancel);
    assert_eq!(accept(&work, NOW, first.clone()).unwrap().1, made);
    let other = AcceptanceRequest {
        party: Actor::Talent,
        ..first
    };
    assert_eq!(
        accept(&work, NOW, other).unwrap_err().code,
        "booking_canceled"
    );
}

#[test]
fn a_booking_takes_only_so_many_acceptances() {
    let mut work = work_with(state(None, BookingStatus::Created));
    for n in 0..limits::ACCEPTANCES {
        let asked = AcceptanceRequest {
            method: n.to_string(),
            ..ask(&work)
        };
        done(&mut work, NOW, asked);
    }
    let error = accept(&work, NOW, ask(&work)).unwrap_err();
    assert_eq!(error.code, "too_many_acceptances");
}

#[test]
fn a_repeat_brings_back_nothing_that_was_erased_of_the_acceptance() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let asked = ask(&work);
    let made = done(&mut work, NOW, asked.clone());
    let state = work.bookings.get_mut(&booking_id()).unwrap();
    let known = &mut Arc::make_mut(state).state.acceptances[0];
    let values = [Erasable::Ip, Erasable::Method, Erasable::UserAgent];
    let erased = values.map(|value| (known.place.index, value));
    work.erased_of_acceptances.extend(erased);
    let known = &mut known.fact;
    ERASED.clone_into(&mut known.method);
    (known.ip, known.user_agent) = (None, None);
    let (changes, repeated) = accept(&work, NOW, asked.clone()).unwrap();
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(repeated.receipt, made.receipt);
    assert_eq!(
        (&*repeated.acceptance.method, repeated.acceptance.ip),
        (ERASED, None)
    );
    for other in [
        AcceptanceRequest {
            party: Actor::Talent,
            ..asked.clone()
        },
        AcceptanceRequest {
            at: at("2026-06-01T00:00:01Z"),
            ..asked
        },
    ] {
        assert!(!accept(&work, NOW, other).unwrap().0.is_empty());
    }
}

#[test]
fn an_address_or_a_program_that_the_record_lacks_makes_another_acceptance() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let full = ask(&work);
    let bare = AcceptanceRequest {
        ip: None,
        user_agent: None,
        ..full.clone()
    };
    let first = done(&mut work, NOW, bare.clone());
    let second = done(&mut work, NOW, full.clone());
    assert_eq!(second.acceptance.ip, full.ip);
    assert_eq!(second.acceptance.user_agent, full.user_agent);
    for (again, known) in [(bare, &first), (full.clone(), &second)] {
        let (changes, repeated) = accept(&work, NOW, again).unwrap();
        assert!(changes.is_empty(), "{changes:?}");
        assert_eq!(repeated.acceptance, known.acceptance);
        assert_eq!(repeated.receipt.leaf_index, known.receipt.leaf_index);
    }
    let other_ip = AcceptanceRequest {
        ip: Some("203.0.113.8".to_owned()),
        ..full.clone()
    };
    let other_program = AcceptanceRequest {
        user_agent: Some("Browser/2.0".to_owned()),
        ..full
    };
    for other in [other_ip, other_program] {
        let (changes, _) = accept(&work, NOW, other).unwrap();
        assert!(!changes.is_empty());
    }
}

#[test]
fn only_a_value_that_was_erased_no_longer_distinguishes() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let asked = ask(&work);
    done(&mut work, NOW, asked.clone());
    let booking = work.bookings.get_mut(&booking_id()).unwrap();
    let known = &mut Arc::make_mut(booking).state.acceptances[0];
    known.fact.ip = None;
    let erased = (known.place.index, Erasable::Ip);
    work.erased_of_acceptances.insert(erased);
    let (changes, _) = accept(&work, NOW, asked.clone()).unwrap();
    assert!(changes.is_empty(), "{changes:?}");
    let other = AcceptanceRequest {
        user_agent: Some("Browser/2.0".to_owned()),
        ..asked
    };
    assert!(!accept(&work, NOW, other).unwrap().0.is_empty());
}

#[test]
fn a_method_that_reads_as_if_it_were_erased_is_one_like_others() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let asked = ask(&work);
    let in_words = AcceptanceRequest {
        method: ERASED.to_owned(),
        ..asked.clone()
    };
    let made = done(&mut work, NOW, in_words.clone());
    let (changes, repeated) = accept(&work, NOW, in_words).unwrap();
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(repeated, made);
    let (changes, accepted) = accept(&work, NOW, asked).unwrap();
    assert!(!changes.is_empty());
    assert_eq!(accepted.acceptance.method, "checkbox");
}

#[test]
fn nothing_is_answered_of_an_acceptance_in_the_batch_that_erases_it() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let asked = ask(&work);
    done(&mut work, NOW, asked.clone());
    let fact = Erasure {
        booking_id: booking_id(),
        erased_at: at(NOW),
        legal_basis: LegalBasis::Objection,
        request_ref: None,
        values: vec![erased_values(1, &[Erasable::Ip, Erasable::UserAgent])],
    };
    let place = LeafPlace {
        index: 11,
        hash: Hash([1; 32]),
        at: at(NOW),
    };
    let booking = work.bookings.get_mut(&booking_id()).unwrap();
    let state = &mut Arc::make_mut(booking).state;
    state.erasures.push(Logged { place, fact });
    let refused = accept(&work, NOW, asked).unwrap_err();
    assert_eq!(refused.kind, Kind::Unavailable);
}
