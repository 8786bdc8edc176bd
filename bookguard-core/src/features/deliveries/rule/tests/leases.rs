//! Deliveries that are released, and those whose leases are ended.

use crate::engine::command::{HeldDelivery, Reclaim};
use crate::engine::lease::{self, Node};
use crate::features::fixture::*;
use crate::limits::{LEASE_MS, LEASE_SKEW_MS};

/// The delivery of event 5 to endpoint 7 as the batch sees it, loaded as one whose lease lapsed.
fn lapsed(due: i64, lease: Option<i64>) -> BatchState {
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, Some(due), lease));
    state.lapsed.insert((id(5), id(7)));
    state
}

fn release(lease: i64) -> Envelope<()> {
    command(ReleaseDeliveries {
        held: vec![HeldDelivery {
            event_id: id(5),
            endpoint_id: id(7),
            lease,
        }],
    })
}

fn reclaim(from: Reclaim) -> Envelope<usize> {
    command(ReclaimDeliveries { from })
}

/// When the delivery is due once it has no lease; everything else must be unchanged.
fn freed<R: Debug + 'static>(state: &BatchState, command: &Envelope<R>) -> Option<i64> {
    let before = state.deliveries[&(id(5), id(7))];
    let changes = caused(state, command);
    let [Change::DeliveryUpdated(_, after)] = changes.as_slice() else {
        assert!(changes.is_empty(), "{changes:?}");
        return None;
    };
    let expected = DeliveryState {
        due: after.due,
        since: Some(NOW),
        lease: None,
        ..before
    };
    assert_eq!(*after, expected);
    after.due.map(|due| due.ms())
}

#[test]
fn returned_deliveries_are_due_at_once_if_their_lease_still_holds() {
    let now = NOW.ms();
    let held = with_delivery(delivery(DeliveryPhase::Pending, Some(now + 1), Some(3)));
    assert_eq!(freed(&held, &release(3)), Some(now));
    assert_eq!(freed(&held, &release(4)), None, "somebody else holds it");
    let nobody_s = with_delivery(delivery(DeliveryPhase::Failed, Some(now + 1), None));
    assert_eq!(freed(&nobody_s, &release(3)), None);
    let over = with_delivery(delivery(DeliveryPhase::Delivered, None, None));
    assert_eq!(freed(&over, &release(3)), None);
    assert!(caused(&BatchState::default(), &release(3)).is_empty());
}

#[test]
fn a_lease_is_taken_back_from_its_end_on_and_not_before() {
    let ended_now = reclaim(Reclaim::EndedBy(NOW));
    let now = NOW.ms();
    for (due, lease, taken) in [
        (now - 9, Some(3), true),
        (now, Some(3), true),
        (now + 1, Some(3), false),
        (now, None, false),
    ] {
        let expected = taken.then_some(due);
        assert_eq!(freed(&lapsed(due, lease), &ended_now), expected, "{due}");
    }
    // The holder of a lease that has not lapsed is gone: due now, not when the lease would have lapsed.
    let ended = NOW.plus_ms(100);
    let gone = reclaim(Reclaim::EndedBy(ended));
    assert_eq!(freed(&lapsed(now + 100, Some(3)), &gone), Some(now));
    assert_eq!(freed(&lapsed(now + 101, Some(3)), &gone), None);
}

#[test]
fn only_the_deliveries_of_a_gone_node_are_due_at_once() {
    let (node, other) = (Node::draw(), Node::draw());
    let end = NOW.ms() + 50_000;
    for (lease, taken) in [
        (Some(lease::draw(Some(node))), true),
        (Some(lease::draw(Some(other))), node == other),
        (Some(lease::draw(None)), false),
        (None, false),
    ] {
        let held = lapsed(end, lease);
        let expected = taken.then_some(NOW.ms());
        assert_eq!(freed(&held, &reclaim(Reclaim::Gone(node))), expected);
    }
}

#[test]
fn what_one_command_frees_the_next_of_the_batch_may_take_once() {
    let mut state = lapsed(0, Some(3));
    caused(&state, &reclaim(Reclaim::EndedBy(NOW)))
        .iter()
        .for_each(|change| state.apply(change));
    assert!(caused(&state, &reclaim(Reclaim::EndedBy(NOW))).is_empty());
    assert!(caused(&state, &release(3)).is_empty());
    state.due.insert(id(7), vec![id(5)]);
    let claim = command(claiming(5));
    let taken = caused(&state, &claim);
    assert_eq!(taken.len(), 1);
    apply_all(&mut state, &taken);
    assert_eq!(state.deliveries[&(id(5), id(7))].lease, Some(42));
}

#[test]
fn deliveries_postponed_by_a_fast_clock_wait_as_long_from_now_on() {
    let now = NOW.ms();
    let hours = 3_600_000;
    // (computed so long after now, waits so long, lease, waits so long from now on)
    for (since, wait, lease, after) in [
        (2 * hours, hours, None, Some(hours)),
        (2 * hours, 0, None, Some(0)),
        // Reclaimed after its lease had lapsed.
        (2 * hours, -9, None, Some(-9)),
        (2 * hours, LEASE_MS, Some(3), Some(LEASE_MS)),
        (LEASE_SKEW_MS + 1, hours, None, Some(hours)),
        (LEASE_SKEW_MS, hours, None, None),
        (-hours, 24 * hours, None, None),
    ] {
        let mut state = lapsed(since + wait, lease);
        let delivery = state.deliveries.get_mut(&(id(5), id(7))).unwrap();
        delivery.due = Some(NOW.plus_ms(since + wait));
        delivery.since = Some(NOW.plus_ms(since));
        let before = *delivery;
        let changes = caused(&state, &reclaim(Reclaim::Ahead));
        let expected = after.map(|after| DeliveryState {
            due: Some(NOW.plus_ms(after)),
            since: Some(NOW),
            ..before
        });
        let found = changes.iter().map(|change| match change {
            // The holder of a lease does not get the delivery a second time.
            Change::DeliveryRenewed(_, state) => *state,
            other => panic!("{other:?}"),
        });
        assert!(found.eq(expected), "{since} {wait}: {changes:?}");
        apply_all(&mut state, &changes);
        let again = caused(&state, &reclaim(Reclaim::Ahead));
        assert!(again.is_empty(), "{since} {wait}: {now} {again:?}");
    }
}

#[test]
fn only_what_waits_for_a_deleted_endpoint_is_dropped() {
    let drop = command(DropDeliveries {
        endpoints: vec![id(7)],
    });
    let other = command(DropDeliveries {
        endpoints: vec![id(8)],
    });
    let late = Some(NOW.ms() + 1);
    for (phase, due, lease, dropped) in [
        (DeliveryPhase::Pending, Some(0), None, true),
        (DeliveryPhase::Failed, late, None, true),
        (DeliveryPhase::Pending, late, Some(3), false),
        (DeliveryPhase::Failed, None, None, false),
        (DeliveryPhase::Delivered, None, None, false),
    ] {
        let before = delivery(phase, due, lease);
        let mut state = with_delivery(before);
        assert!(caused(&state, &drop).is_empty(), "not deleted");
        state.deleted.insert(id(7));
        assert!(caused(&state, &other).is_empty(), "another one");
        let changes = caused(&state, &drop);
        apply_all(&mut state, &changes);
        let over = DeliveryState {
            due: None,
            since: None,
            ..before
        };
        let after = state.deliveries[&(id(5), id(7))];
        assert_eq!(changes.len(), usize::from(dropped), "{before:?}");
        assert_eq!(after, if dropped { over } else { before });
    }
}
