//! How a recovery goes through the log: in steps, each made once, from where it was.

use super::*;
use crate::limits::EVENT_ORDER_MS;

#[test]
fn a_recovery_walks_the_log_in_steps_each_done_once() {
    let most = RECOVERED as u64;
    let events = 2 * most + 3;
    let mut work = log(events, vec![endpoint(7, &[])]);
    let (mut recovery, first) = begin(&mut work, everything());
    assert_eq!((first.len(), recovery.reached_seq), (RECOVERED, most));
    assert_eq!(
        (recovery.status, recovery.through_seq),
        (RecoveryStatus::Running, events)
    );
    // Events added in the meantime are not part of it.
    work.partners.get_mut(&id(1)).unwrap().events += 1;
    for (after, made) in [(most, RECOVERED), (2 * most, 3)] {
        assert!(
            step(&mut work, &recovery, after - 1).is_empty(),
            "somebody was there first"
        );
        let mut changes = step(&mut work, &recovery, after);
        let Some(Change::RecoveryUpdated(_, next)) = changes.pop() else {
            panic!("{changes:?}")
        };
        assert_eq!(changes.len(), made);
        assert!(step(&mut work, &recovery, after).is_empty(), "it is done");
        recovery = *next;
    }
    assert_eq!(counts(&recovery), [events, events, events, 0]);
    assert_eq!(recovery.finished_at, Some(recovery.created_at.plus_ms(1)));
    assert!(
        step(&mut work, &recovery, events).is_empty(),
        "it is finished"
    );
    // Each event has its delivery, made due in a single step.
    assert_eq!(work.deliveries.len() as u64, events);
}

#[test]
fn another_partners_recovery_and_an_unknown_one_are_left_alone() {
    let mut work = log(RECOVERED as u64 + 1, vec![endpoint(7, &[])]);
    let (recovery, _) = begin(&mut work, everything());
    let unknown = Recovery {
        recovery_id: id(9),
        ..recovery.clone()
    };
    assert!(step(&mut work, &unknown, recovery.reached_seq).is_empty());
    let (owner, _) = work.recoveries.get_mut(&recovery.recovery_id).unwrap();
    *owner = id(2);
    assert!(step(&mut work, &recovery, recovery.reached_seq).is_empty());
}

#[test]
fn it_ends_early_once_no_later_event_can_be_of_its_time() {
    let mut work = log(60, vec![endpoint(7, &[])]);
    let asked = Recovery {
        until: event_id(5).made_at(),
        ..everything()
    };
    let (recovery, changes) = begin(&mut work, asked);
    assert_eq!((recovery.examined, changes.len()), (5, 5));
    let beyond = 5 + EVENT_ORDER_MS.unsigned_abs() / 60_000;
    assert_eq!((recovery.reached_seq, recovery.through_seq), (beyond, 60));
    assert_eq!(recovery.status, RecoveryStatus::Finished);
}

#[test]
fn events_of_the_starting_batch_wait_for_the_next_step_and_gaps_are_skipped() {
    let mut work = log(5, vec![endpoint(7, &[])]);
    let hole = work.log.remove(&(id(1), 4)).unwrap();
    let (begun, _) = begin(&mut work, everything());
    assert_eq!(
        (begun.reached_seq, begun.status),
        (3, RecoveryStatus::Running)
    );
    let mut whole = work_like(&work);
    whole.recoveries.clone_from(&work.recoveries);
    whole.log.insert((id(1), 4), hole);
    for (mut work, examined) in [(whole, 5), (work, 4)] {
        let Some(Change::RecoveryUpdated(_, recovery)) = step(&mut work, &begun, 3).pop() else {
            panic!("it goes on")
        };
        assert_eq!((recovery.reached_seq, recovery.examined), (5, examined));
        assert_eq!(recovery.status, RecoveryStatus::Finished);
    }
}
