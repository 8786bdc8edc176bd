//! Which events are pruned, and the position of the looks afterwards.

use crate::engine::change::{Pruned, Sweep};
use crate::evidence::{HeldBy, Hold, StoredHold};
use crate::features::fixture::*;
use crate::features::retention::PruneEvents;
use crate::limits::DAY_MS;

/// Prunes event 5, which was made at [`NOW`], this many days later.
fn prune(days: i64, before: i64, from: Sweep, to: Sweep) -> Envelope<u64> {
    let prune = PruneEvents {
        before: NOW.plus_ms(before * DAY_MS),
        events: vec![id(5), id(6)],
        from,
        to,
    };
    Envelope::new(NOW.plus_ms(days * DAY_MS), prune)
}

fn sweep(next: u8, waiting: Option<u8>) -> Sweep {
    Sweep {
        next: id(next),
        waiting: waiting.map(id),
    }
}

#[test]
fn only_an_old_event_of_which_nothing_waits_is_pruned() {
    let late = Some(9 * DAY_MS);
    #[rustfmt::skip]
    let cases = [
        ("delivered", delivery(DeliveryPhase::Delivered, None, None), false, 2, 1, true),
        ("given up", delivery(DeliveryPhase::Failed, None, None), false, 2, 1, true),
        ("a day old", delivery(DeliveryPhase::Failed, None, None), false, 1, 1, false),
        ("not asked for", delivery(DeliveryPhase::Failed, None, None), false, 9, 0, false),
        ("waiting", delivery(DeliveryPhase::Failed, late, None), false, 9, 1, false),
        ("due for long", delivery(DeliveryPhase::Pending, Some(0), None), false, 9, 1, false),
        ("under way", delivery(DeliveryPhase::Pending, late, Some(3)), false, 9, 1, false),
        ("under way to nobody", delivery(DeliveryPhase::Pending, Some(0), Some(3)), true, 9, 1, true),
    ];
    for (name, state, deleted, days, before, pruned) in cases {
        let mut work = with_delivery(state);
        if deleted {
            work.deleted.insert(id(7));
        }
        let prune = prune(days, before, sweep(0, None), sweep(0, None));
        let (changes, events) = outcome(&work, &prune).unwrap();
        assert_eq!(events, u64::from(pruned), "{name}");
        apply_all(&mut work, &changes);
        let left = work.deliveries[&(id(5), id(7))];
        let over = DeliveryState {
            due: None,
            since: None,
            lease: None,
            ..state
        };
        assert_eq!(left, if pruned { over } else { state }, "{name}");
        let found = &work.events[&id(5)].content;
        assert_eq!(found.body().is_none(), pruned, "{name}");
    }
}

#[test]
fn what_is_left_is_the_hash_and_it_is_pruned_once() {
    let mut work = with_delivery(delivery(DeliveryPhase::Delivered, None, None));
    let command = prune(9, 1, sweep(0, None), sweep(0, None));
    let (changes, _) = outcome(&work, &command).unwrap();
    let [Change::EventPruned(event_id, pruned)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!((*event_id, pruned.at), (id(5), command.at));
    assert_eq!(
        hex::encode(pruned.digest),
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "of {{}}"
    );
    work.apply(&changes[0]);
    let (changes, events) = outcome(&work, &command).unwrap();
    assert!(changes.is_empty() && events == 0, "{changes:?}");
}

#[test]
fn the_place_moves_on_unless_another_look_came_in_between() {
    let waiting = delivery(DeliveryPhase::Failed, Some(9), None);
    let over = delivery(DeliveryPhase::Failed, None, None);
    let unmoved = sweep(1, None);
    #[rustfmt::skip]
    let cases = [
        ("moves", over, None, sweep(9, None), Some(sweep(9, None))),
        ("another look", over, Some(sweep(3, None)), sweep(9, None), None),
        ("nowhere to", over, None, Sweep::default(), None),
        // Retried after the look.
        ("passed over", waiting, None, sweep(9, None), Some(sweep(9, Some(5)))),
        ("passed one over", waiting, None, sweep(9, Some(4)), Some(sweep(9, Some(4)))),
        ("the first of two", waiting, None, sweep(9, Some(8)), Some(sweep(9, Some(5)))),
    ];
    for (name, state, found, to, then) in cases {
        let mut work = with_delivery(state);
        work.sweep = found;
        let (changes, _) = outcome(&work, &prune(9, 1, Sweep::default(), to)).unwrap();
        let swept = changes.iter().find_map(|change| match change {
            Change::Swept(sweep) => Some(*sweep),
            _ => None,
        });
        assert_eq!(swept, then, "{name}");
        work.sweep = Some(unmoved);
        apply_all(&mut work, &changes);
        assert_eq!(work.sweep, Some(then.unwrap_or(unmoved)), "{name}");
    }
}

#[test]
fn a_pruned_event_is_not_retried_whatever_became_of_it() {
    for phase in [DeliveryPhase::Delivered, DeliveryPhase::Failed] {
        let mut work = with_delivery(delivery(phase, None, None));
        let left = Pruned {
            at: NOW,
            digest: [7; 32],
        };
        work.apply(&Change::EventPruned(id(5), left));
        let retry = command(retrying());
        let refused = decide(&work, &retry).unwrap_err();
        assert_eq!(refused.code, "event_pruned");
        assert!(
            refused.message.contains("1970-01-01T00:00:00.000Z"),
            "{}",
            refused.message
        );
    }
}

#[test]
fn a_hold_protects_the_events_of_its_booking_from_the_moment_it_is_placed() {
    let mut work = with_delivery(delivery(DeliveryPhase::Delivered, None, None));
    let event = work.events.get_mut(&id(5)).unwrap();
    event.booking_id = Some(booking_id());
    let command = prune(2, 1, Sweep::default(), Sweep::default());
    let placed = |booking_id| Hold {
        booking_id,
        ..hold(9, HeldBy::Partner).hold
    };
    let released = Hold {
        released_at: Some(NOW),
        ..placed(booking_id())
    };
    for (hold, pruned) in [(placed(booking_id()), 0), (released, 1), (placed(id(8)), 1)] {
        // By another command of the same batch: this one does not ask for holds.
        work.apply(&Change::HoldWritten(Box::new(StoredHold {
            partner_id: id(1),
            hold: hold.clone(),
        })));
        let decision = crate::engine::decide::decide(&work, &command).unwrap();
        let Decision::Do { reply, .. } = decision else {
            panic!("{decision:?}");
        };
        assert_eq!(reply, pruned, "{hold:?}");
    }
}
