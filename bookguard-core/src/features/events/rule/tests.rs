//! Manual retries.

use crate::features::fixture::*;

#[test]
fn a_manual_retry_takes_what_is_open_and_leaves_what_is_in_flight() {
    let retry = |owner| {
        command(RetryEvent {
            partner_id: owner,
            ..retrying()
        })
    };
    let taken = |state| {
        let changes = caused(&with_delivery(state), &retry(id(1)));
        assert!(matches!(changes.last(), Some(Change::EventRetried(_, 1))));
        changes
            .iter()
            .any(|c| matches!(c, Change::DeliveryUpdated(_, state) if state.lease == Some(99)))
    };
    assert!(
        taken(delivery(DeliveryPhase::Failed, Some(9_000), None)),
        "a scheduled attempt is pulled forward"
    );
    assert!(
        taken(delivery(DeliveryPhase::Failed, None, None)),
        "one that was given up is tried again"
    );
    assert!(
        taken(delivery(DeliveryPhase::Pending, Some(-1), Some(5))),
        "a lease that ran out is taken over"
    );
    assert!(
        !taken(delivery(DeliveryPhase::Pending, Some(1), Some(5))),
        "one in flight is waited for"
    );
    let delivered = with_delivery(delivery(DeliveryPhase::Delivered, None, None));
    assert_eq!(
        code_of(&delivered, &retry(id(1))),
        "event_already_delivered"
    );
    assert_eq!(code_of(&delivered, &retry(id(2))), "not_found");
}

#[test]
fn a_retry_that_can_go_nowhere_says_why() {
    let retry = command(retrying());
    let off = |n, events: &[EventType]| {
        endpoint(n, events).with_health(EndpointHealth::of(EndpointStatus::Disabled))
    };
    let others = [EventType::BookingProtected];
    let (failed, delivered) = (DeliveryPhase::Failed, DeliveryPhase::Delivered);
    let (nobody, disabled) = (
        "No webhook endpoint takes events of type booking.created",
        "disabled or gone",
    );
    // (the endpoints that exist, the deliveries that failed or arrived, the code, what is said, the endpoints named)
    #[rustfmt::skip]
    let cases = [
        (vec![], vec![(7, failed)], "no_endpoints", nobody, &[][..]),
        (vec![endpoint(8, &others)], vec![], "no_endpoints", nobody, &[]),
        (vec![off(8, &others)], vec![(7, failed)], "no_endpoints", nobody, &[]),
        (vec![off(7, &[])], vec![(7, failed)], "no_endpoints", disabled, &[7]),
        // It got the event before it took other types only.
        (vec![off(7, &others)], vec![(7, failed)], "no_endpoints", disabled, &[7]),
        (vec![off(7, &[]), off(8, &[]), endpoint(9, &[])], vec![(7, failed), (9, delivered)], "no_endpoints", disabled, &[7, 8]),
        (vec![endpoint(8, &[])], vec![(7, failed), (8, delivered)], "event_already_delivered", "nothing to retry", &[]),
    ];
    for (endpoints, deliveries, code, said, named) in cases {
        let mut state = with_delivery(delivery(failed, None, None));
        state.deliveries.clear();
        for (n, phase) in &deliveries {
            let state_of = delivery(*phase, None, None);
            state.deliveries.insert((id(5), id(*n)), state_of);
        }
        let sent_to = deliveries.iter().map(|(n, _)| id(*n)).collect();
        state.events.get_mut(&id(5)).unwrap().endpoints = sent_to;
        state.partners.get_mut(&id(1)).unwrap().endpoints = endpoints;
        let refused = decide(&state, &retry).unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.message.contains(said), "{refused}");
        for n in [7, 8, 9] {
            let endpoint_id: EndpointId = id(n);
            let is_named = refused.message.contains(&endpoint_id.to_string());
            assert_eq!(is_named, named.contains(&n), "{n}: {refused}");
        }
    }
}

#[test]
fn a_retry_of_an_event_nobody_took_goes_to_the_endpoints_of_today() {
    let retry = command(retrying());
    let mut state = with_delivery(delivery(DeliveryPhase::Pending, None, None));
    state.events.get_mut(&id(5)).unwrap().endpoints.clear();
    state.deliveries.clear();
    let added = caused(&state, &retry);
    assert!(matches!(&added[0], Change::DeliveryAdded(_, state) if state.lease == Some(99)));
    state.partners.get_mut(&id(1)).unwrap().endpoints =
        vec![endpoint(7, &[EventType::BookingProtected])];
    assert_eq!(code_of(&state, &retry), "no_endpoints");
}

#[test]
fn a_retry_whose_endpoints_are_gone_goes_to_those_of_today() {
    let retry = command(retrying());
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, None, None));
    state.partners.get_mut(&id(1)).unwrap().endpoints = vec![endpoint(8, &[])];
    let added = caused(&state, &retry);
    assert!(
        matches!(&added[0], Change::DeliveryAdded((_, endpoint_id), _) if *endpoint_id == id(8))
    );
}

#[test]
fn a_manual_attempt_does_not_use_up_the_schedule() {
    let retry = command(retrying());
    let mut state = with_delivery(DeliveryState {
        counted_attempts: 4,
        ..delivery(DeliveryPhase::Failed, Some(9_000), None)
    });
    for manual in 1..=20 {
        done(&mut state, &retry);
        state.room.insert(id(7), 2);
        let settle = settle(NOW, 99, 1 + manual, Some(FailureClass::Http5xx));
        done(&mut state, &settle);
        let after = state.deliveries[&(id(5), id(7))];
        assert_eq!((after.counted_attempts, after.attempts), (4, 1 + manual));
        assert!(
            after.due.is_some(),
            "the chain goes on after {manual} attempts by hand"
        );
    }
}

#[test]
fn retries_by_hand_have_a_maximum() {
    let retry = command(retrying());
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, None, None));
    state.events.get_mut(&id(5)).unwrap().retries = crate::limits::MANUAL_RETRIES;
    let refused = decide(&state, &retry).unwrap_err();
    assert_eq!(refused.code, "too_many_retries");
    let message = refused.message;
    let way_out = "Read it from the log instead";
    assert!(message.contains(way_out), "{message}");

    let attempted = |attempts| {
        with_delivery(DeliveryState {
            attempts,
            ..delivery(DeliveryPhase::Failed, None, None)
        })
    };
    let most = crate::limits::ATTEMPTS_PER_DELIVERY;
    assert_eq!(caused(&attempted(most - 1), &retry).len(), 2);
    assert_eq!(code_of(&attempted(most), &retry), "too_many_retries");
    let mut another = attempted(most);
    let partner = another.partners.get_mut(&id(1)).unwrap();
    partner.endpoints.push(endpoint(8, &[]));
    let goes_there = |change: &Change| matches!(change, Change::DeliveryAdded((_, endpoint_id), _) if *endpoint_id == id(8));
    let changes = caused(&another, &retry);
    assert_eq!(
        changes.iter().filter(|change| goes_there(change)).count(),
        1
    );
}

#[test]
fn a_retry_without_room_waits_its_turn_like_any_other() {
    let retry = command(retrying());
    // One that is due already, or was given up, keeps its place in the schedule.
    for (due, counted) in [(Some(9_000), 0), (Some(0), 1), (Some(-1), 1), (None, 1)] {
        let mut state = with_delivery(delivery(DeliveryPhase::Failed, due, None));
        state.room.insert(id(7), 0);
        let moved = caused(&state, &retry);
        let Change::DeliveryUpdated(_, after) = &moved[0] else {
            panic!("{moved:?}")
        };
        assert_eq!((after.due, after.lease), (Some(NOW), None), "{due:?}");
        assert_eq!((after.since, after.counted_attempts), (Some(NOW), counted));
    }
}
