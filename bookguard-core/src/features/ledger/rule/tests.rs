//! A log that lost published entries accepts a single command: to accept exactly this loss.

use crate::evidence::Continuation;
use crate::features::fixture::*;
use crate::features::ledger::{ContinueLog, NoteLoss};
use crate::ledger::rollback::{PublishedHead, Rollback, RollbackCause};
use crate::ledger::{Hash, LeafKind, leaf_hash};

fn head(origin: &str, size: u64) -> PublishedHead {
    PublishedHead {
        origin: origin.to_owned(),
        size,
        root: leaf_hash(&size.to_be_bytes()),
    }
}

fn lost(entries: u64) -> Rollback {
    Rollback {
        found: head("old", 4),
        seen: head("old", 4 + entries),
        cause: RollbackCause::Behind,
        is_noted: false,
    }
}

fn rolled_back(rollback: Option<Rollback>) -> BatchState {
    BatchState {
        size: 4,
        origin: "old".to_owned(),
        vkey: "old+key".to_owned(),
        rollback,
        ..work(PartnerStatus::Active, vec![])
    }
}

fn accept(accepted: Rollback) -> Envelope<Continuation> {
    command(ContinueLog {
        origin: "new".to_owned(),
        vkey: "new+key".to_owned(),
        accepted,
        stream: [3; 16],
        seed: [4; 32],
    })
}

fn code(decided: Result<Decision<impl Debug>, Error>) -> (Kind, String) {
    let error = decided.unwrap_err();
    (error.kind, error.code.into_owned())
}

#[test]
fn everything_is_refused_even_an_answer_that_is_remembered() {
    let mut work = rolled_back(Some(lost(2)));
    let refused = (Kind::Unavailable, "ledger_rolled_back".to_owned());
    work.prior.insert(
        [1; 32],
        RememberedAnswer::Stored {
            request: [1; 32],
            answer: Arc::from(&b"answer"[..]),
        },
    );
    let replayed = Envelope {
        remember: Some(Remember {
            key: [1; 32],
            request: [1; 32],
            encode: |_| Vec::new(),
        }),
        ..command(ForgetAnswers)
    };
    assert_eq!(code(decide(&work, &replayed)), refused);
    assert_eq!(code(decide(&work, &command(ForgetAnswers))), refused);
    let claim = claiming(1);
    assert_eq!(code(decide(&work, &command(claim))), refused);
    let replace_answer = ReplaceAnswer {
        key: [1; 32],
        answer: Vec::new(),
    };
    assert_eq!(code(decide(&work, &command(replace_answer))), refused);
    let revoke = RevokeApiKey {
        partner_id: id(1),
        api_key_id: id(2),
        by: None,
    };
    assert_eq!(code(decide(&work, &command(revoke))), refused);
    work.rollback = None;
    assert!(matches!(decide(&work, &replayed), Ok(Decision::Replay(_))));
}

#[test]
fn only_the_loss_that_was_looked_at_is_accepted() {
    let whole = rolled_back(None);
    assert_eq!(
        code(decide(&whole, &accept(lost(2)))),
        (Kind::Conflict, "nothing_to_accept".to_owned())
    );
    let work = rolled_back(Some(lost(3)));
    let other = decide(&work, &accept(lost(2)));
    assert_eq!(code(other), (Kind::Conflict, "rollback_changed".to_owned()));
}

/// The guard was lost with the database: only the head that was looked at can be continued, and a known loss goes first.
#[test]
fn a_loss_that_nobody_remembers_is_accepted_when_asked_for() {
    let unknown = |size| Rollback {
        found: head("old", size),
        seen: head("old", size),
        cause: RollbackCause::GuardLost,
        is_noted: false,
    };
    let whole = rolled_back(None);
    let (_, said) = outcome(&whole, &accept(unknown(4))).unwrap();
    assert_eq!(
        (&said.found.head, &said.seen),
        (&head("old", 4), &head("old", 4))
    );
    let changed = (Kind::Conflict, "rollback_changed".to_owned());
    assert_eq!(code(decide(&whole, &accept(unknown(3)))), changed);
    let work = rolled_back(Some(lost(2)));
    assert_eq!(code(decide(&work, &accept(unknown(4)))), changed);
}

#[test]
fn a_loss_is_noted_once_and_only_while_it_is_this_databases() {
    let noted = |work: &BatchState, loss: Rollback| {
        let mut after = work.clone();
        let (changes, _) = done(&mut after, &command(NoteLoss(loss)));
        (changes.len(), after.lacking)
    };
    let of = |loss: Rollback| vec![loss.seen];
    let work = rolled_back(Some(lost(2)));
    assert_eq!(noted(&work, lost(2)), (1, of(lost(2))));
    assert_eq!(
        noted(&work, lost(3)),
        (0, vec![]),
        "it lacks something else"
    );
    let elsewhere = Rollback {
        found: head("other", 4),
        ..lost(2)
    };
    assert_eq!(noted(&work, elsewhere), (0, vec![]));
    assert_eq!(
        noted(&rolled_back(None), lost(2)),
        (0, vec![]),
        "it is whole"
    );
    let known = |entries| BatchState {
        lacking: of(lost(entries)),
        ..rolled_back(Some(lost(2)))
    };
    assert_eq!(noted(&known(2), lost(2)), (0, of(lost(2))));
    assert_eq!(noted(&known(1), lost(2)), (1, of(lost(2))));
}

#[test]
fn what_comes_after_an_accepted_loss_is_decided_in_the_new_log() {
    let mut work = rolled_back(Some(lost(2)));
    let (changes, said) = outcome(&work, &accept(lost(2))).unwrap();
    let [Change::Entry(entry), Change::LogRenamed { .. }] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(
        (entry.index, entry.seq, entry.booking_id, entry.fact.kind),
        (4, 0, None, LeafKind::LogContinued)
    );
    assert_ne!(entry.hash, Hash::ZERO);
    assert_eq!(
        (said.origin.as_str(), said.vkey.as_str()),
        ("new", "new+key")
    );
    assert_eq!(
        (&said.found.head, &said.seen),
        (&head("old", 4), &head("old", 6))
    );
    assert_eq!((said.found.vkey.as_str(), said.at), ("old+key", NOW));
    apply_all(&mut work, &changes);
    assert_eq!(
        (work.size, work.origin.as_str(), work.vkey.as_str()),
        (5, "new", "new+key")
    );
    assert!(decide(&work, &command(ForgetAnswers)).is_ok());
    assert_eq!(
        code(decide(&work, &accept(lost(2)))),
        (Kind::Conflict, "nothing_to_accept".to_owned())
    );
}
