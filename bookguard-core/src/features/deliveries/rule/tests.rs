//! Claiming and settling deliveries.

mod leases;
mod listed;
mod settled;

use crate::features::fixture::*;

#[test]
fn a_delivery_ends_with_its_last_attempt_unless_its_endpoint_is_suspended() {
    use EndpointStatus::{Active, Suspended};
    let most = crate::limits::ATTEMPTS_PER_DELIVERY;
    for (number, status, goes_on) in [
        (most - 1, Active, true),
        (most, Active, false),
        (most, Suspended, true),
        (most + 1, Suspended, true),
    ] {
        let mut held = with_delivery(DeliveryState {
            attempts: number - 1,
            ..delivery(DeliveryPhase::Failed, Some(1_000), Some(77))
        });
        held.health.insert(id(7), EndpointHealth::of(status));
        let failed = settle(NOW, 77, number, Some(FailureClass::Http5xx));
        let changes = caused(&held, &failed);
        let Change::DeliveryUpdated(_, state) = &changes[0] else {
            panic!("{changes:?}")
        };
        assert_eq!(state.due.is_some(), goes_on, "{number} {status:?}");
        assert_eq!(state.attempts, number);
    }
}

#[test]
fn an_attempt_settles_only_under_the_lease_it_was_made_under() {
    let settle = |lease, class| settle(NOW, lease, 2, class);
    let held = with_delivery(delivery(DeliveryPhase::Pending, Some(1_000), Some(77)));
    // (lease, failure, phase afterwards, whether another attempt is due, charged, endpoint disabled)
    #[rustfmt::skip]
    let table = [
        (77, None, DeliveryPhase::Delivered, false, 2, false),
        (77, Some(FailureClass::Http5xx), DeliveryPhase::Failed, true, 2, false),
        (77, Some(FailureClass::PayloadTooLarge), DeliveryPhase::Failed, false, 2, false),
        (77, Some(FailureClass::Gone), DeliveryPhase::Failed, false, 2, true),
        (77, Some(FailureClass::OurFault), DeliveryPhase::Failed, true, 1, false),
    ];
    for (lease, class, phase, due, counted_attempts, disabled) in table {
        let changes = caused(&held, &settle(lease, class));
        let Change::DeliveryUpdated(_, state) = &changes[0] else {
            panic!("{changes:?}")
        };
        assert_eq!(
            (state.phase, state.due.is_some(), state.counted_attempts),
            (phase, due, counted_attempts),
            "{class:?}"
        );
        assert_eq!((state.attempts, state.lease), (2, None));
        assert!(matches!(
            &changes[1],
            Change::AttemptAdded { number: 2, .. }
        ));
        assert_eq!(
            changes.iter().any(|c| matches!(
                c,
                Change::EndpointHealthChanged(_, health) if health.status == EndpointStatus::Gone
            )),
            disabled
        );
    }
    assert!(
        caused(&held, &settle(78, None)).is_empty(),
        "a late result changes nothing"
    );
    let over = with_delivery(delivery(DeliveryPhase::Delivered, None, None));
    assert!(caused(&over, &settle(77, None)).is_empty());
    assert!(caused(&BatchState::default(), &settle(77, None)).is_empty());
}

#[test]
fn the_last_scheduled_attempt_is_the_last_and_after_a_week_faults_of_ours_count_too() {
    let settle = |at: i64, class| settle(NOW.plus_ms(at), 77, 2, Some(class));
    let settled = |state: DeliveryState, at, class| {
        let changes = caused(&with_delivery(state), &settle(at, class));
        match changes.as_slice() {
            [
                Change::DeliveryUpdated(_, state),
                Change::AttemptAdded { attempt, .. },
                ..,
            ] => (
                state.counted_attempts,
                state.due.is_some(),
                attempt.uncharged,
            ),
            other => panic!("{other:?}"),
        }
    };
    let held = |counted_attempts| DeliveryState {
        counted_attempts,
        ..delivery(DeliveryPhase::Failed, Some(1), Some(77))
    };
    let week = crate::limits::OUR_FAULTS_FREE_MS;
    for (counted_attempts, at, class, after) in [
        (8, 0, FailureClass::Timeout, (9, true, false)),
        (9, 0, FailureClass::Timeout, (10, false, false)),
        // The schedule alone ends the delivery, however old the event is.
        (0, 99 * week, FailureClass::Timeout, (1, true, false)),
        (0, week, FailureClass::OurFault, (0, true, true)),
        (0, week + 1, FailureClass::OurFault, (1, true, false)),
        (9, week + 1, FailureClass::OurFault, (10, false, false)),
    ] {
        let settled = settled(held(counted_attempts), at, class);
        assert_eq!(settled, after, "{counted_attempts} {at} {class}");
    }
}

#[test]
fn a_claim_takes_only_what_is_still_due_and_no_more_than_there_is_room_for() {
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, Some(0), None));
    state.deliveries.insert(
        (id(6), id(7)),
        delivery(DeliveryPhase::Failed, Some(-5), None),
    );
    state.due.insert(id(7), vec![id(6), id(5)]);
    let claim = |room| command(claiming(room));
    assert_eq!(caused(&state, &claim(1)).len(), 1);
    let both = caused(&state, &claim(5));
    assert_eq!(both.len(), 2);
    apply_all(&mut state, &both);
    assert!(
        caused(&state, &claim(5)).is_empty(),
        "a second claim in the same batch finds nothing"
    );
}

#[test]
fn a_deleted_endpoint_is_claimed_from_no_more() {
    let delete = |owner| {
        command(DeleteEndpoint {
            partner_id: owner,
            ..deleting()
        })
    };
    let mut state = with_delivery(delivery(DeliveryPhase::Pending, Some(0), None));
    state.due.insert(id(7), vec![id(5)]);
    assert_eq!(code_of(&state, &delete(id(2))), "not_found");
    let deleted = caused(&state, &delete(id(1)));
    apply_all(&mut state, &deleted);
    let claim = command(claiming(5));
    assert!(caused(&state, &claim).is_empty());
    assert_eq!(code_of(&state, &delete(id(1))), "not_found");
}
