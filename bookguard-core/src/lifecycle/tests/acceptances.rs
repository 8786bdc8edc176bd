//! Acceptances as tables, on bookings made by hand.

use super::amendments;
use super::cancellation::{
    apply, ask_to_cancel, at, booking_id, entries, partner_id, state, work_with,
};
use super::*;
use crate::command::{Accept, Accepted};
use crate::ledger::LeafKind;
use crate::policy::{Actor, TermsDisclosure, disclose};

const NOW: &str = "2026-06-01T00:00:00.500Z";

fn told(work: &Work) -> TermsDisclosure {
    let state = &work.bookings[&booking_id()];
    disclose(&state.terms, state.amendments()).unwrap()
}

fn ask(work: &Work) -> Accept {
    Accept {
        partner_id: partner_id(),
        booking_id: booking_id(),
        party: Actor::Organizer,
        method: "checkbox".to_owned(),
        at: at("2026-06-01T00:00:00Z"),
        ip: Some("203.0.113.7".to_owned()),
        user_agent: Some("Browser/1.0".to_owned()),
        disclosure_hash: told(work).disclosure_hash,
        seed: [1; 32],
    }
}

type Decided = Result<(Vec<Change>, Accepted), Error>;

fn accept(work: &Work, when: &str, ask: Accept) -> Decided {
    let command = Command {
        at: at(when),
        ask: Ask::Accept(Box::new(ask)),
        remember: None,
    };
    match decide(work, &command, 0)? {
        Decision::Do {
            changes,
            reply: Reply::Accepted(accepted),
        } => Ok((changes, *accepted)),
        other => panic!("decided {other:?}"),
    }
}

fn done(work: &mut Work, when: &str, ask: Accept) -> Accepted {
    let (changes, accepted) = accept(work, when, ask).unwrap();
    for change in &changes {
        work.apply(change);
    }
    accepted
}

#[test]
fn an_acceptance_is_one_entry_and_the_same_again_repeats_it() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let asked = ask(&work);
    let (changes, accepted) = accept(&work, NOW, asked.clone()).unwrap();
    let [entry] = entries(&changes)[..] else {
        panic!("{changes:?}")
    };
    assert_eq!(entry.fact.kind, LeafKind::TermsAccepted);
    assert_eq!((changes.len(), accepted.receipt.leaf_index), (2, 10));
    let acceptance = &accepted.acceptance;
    assert_eq!(acceptance.accepted_at, at(NOW));
    assert_eq!(acceptance.disclosure_version, told(&work).version);
    for change in &changes {
        work.apply(change);
    }
    // Where and with what may be erased by then, so they tell nothing apart.
    let again = Accept {
        ip: None,
        user_agent: None,
        seed: [2; 32],
        ..asked.clone()
    };
    let (changes, repeated) = accept(&work, "2030-01-01T00:00:00Z", again).unwrap();
    assert!(changes.is_empty());
    assert_eq!(repeated, accepted);
    let talent = Accept {
        party: Actor::Talent,
        ..asked.clone()
    };
    assert_eq!(done(&mut work, NOW, talent).receipt.leaf_index, 11);

    // After a move it is another text; what was accepted stays what it was.
    amendments::done(&mut work, NOW, amendments::ask("2026-10-20T19:00"));
    let error = accept(
        &work,
        NOW,
        Accept {
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
    assert_eq!(work.acceptances[&booking_id()].len(), 3);
}

#[test]
fn what_cannot_be_accepted_is_refused_by_its_code() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
    let with = |change: &dyn Fn(&mut Accept)| {
        let mut ask = ask(&work);
        change(&mut ask);
        ask
    };
    for (ask, code) in [
        (
            with(&|ask| ask.disclosure_hash = String::new()),
            "disclosure_changed",
        ),
        (
            with(&|ask| ask.at = at("2026-06-01T00:05:00.501Z")),
            "accepted_in_future",
        ),
        (
            with(&|ask| ask.at = at("2026-01-10T14:54:59.999Z")),
            "accepted_before_terms",
        ),
    ] {
        assert_eq!(accept(&work, NOW, ask).unwrap_err().code, code);
    }
    // Clocks of checkouts may be some minutes off.
    for instant in ["2026-06-01T00:05:00.500Z", "2026-01-10T14:55:00Z"] {
        accept(&work, NOW, with(&|ask| ask.at = at(instant))).unwrap();
    }
    let error = |ask| accept(&work, NOW, ask).unwrap_err();
    let foreign = with(&|ask| ask.partner_id = id(77));
    let unknown = with(&|ask| ask.booking_id = id(78));
    assert_eq!(error(foreign), error(unknown));

    let first = with(&|_| ());
    let made = done(&mut work, NOW, first.clone());
    let cancel = Ask::Cancel(Box::new(ask_to_cancel(Actor::Talent, None)));
    apply(&mut work, NOW, cancel);
    assert_eq!(accept(&work, NOW, first.clone()).unwrap().1, made);
    let other = Accept {
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
        let asked = Accept {
            method: n.to_string(),
            ..ask(&work)
        };
        done(&mut work, NOW, asked);
    }
    let error = accept(&work, NOW, ask(&work)).unwrap_err();
    assert_eq!(error.code, "too_many_acceptances");
}
