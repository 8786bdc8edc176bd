//! Endpoints that fail, are suspended, probed and resumed.

use crate::features::deliveries::rule::emit;
use crate::features::fixture::*;
use crate::limits::{
    LEASE_MS, MOVED_MS, OUR_FAULTS_FREE_MS, PROBE_MAX_MS, PROBE_MS, SUSPENDED_AFTER_MS,
    UNVERIFIED_MS, WARNING_FAILURES,
};
use EndpointStatus::{Active, Disabled, Failing, Gone, Suspended};

fn at<R>(ms: i64, command: impl Command<Reply = R>) -> Envelope<R> {
    Envelope::new(NOW.plus_ms(ms), command)
}

fn suspended(probe_ms: i64) -> EndpointHealth {
    EndpointHealth {
        status: Suspended,
        failures: 99,
        failing_since: Some(NOW),
        probe_at: Some(NOW.plus_ms(probe_ms)),
        unverified_since: None,
    }
}

/// A batch with one due delivery to endpoint 7 with this health, loaded as for a claim and a settlement.
fn with_health(health: EndpointHealth) -> BatchState {
    let mut work = with_delivery(delivery(DeliveryPhase::Failed, Some(0), None));
    let partner = work.partners.get_mut(&id(1)).unwrap();
    partner.endpoints[0] = partner.endpoints[0].clone().with_health(health);
    work.due.insert(id(7), vec![id(5)]);
    work.health.insert(id(7), health);
    work
}

/// Attempts the delivery to endpoint 7 under its own lease and settles it.
fn attempted(
    work: &mut BatchState,
    ms: i64,
    class: Option<FailureClass>,
) -> Option<EndpointStatusChange> {
    attempted_at(work, ms, class, None)
}

/// Does the same, with an attempt that went to this address.
fn attempted_at(
    work: &mut BatchState,
    ms: i64,
    class: Option<FailureClass>,
    url: Option<&str>,
) -> Option<EndpointStatusChange> {
    let state = work.deliveries.get_mut(&(id(5), id(7))).unwrap();
    state.lease = Some(77);
    let mut settle = settling(NOW.plus_ms(ms), 77, state.attempts + 1, class);
    settle.attempt.started_at = NOW.ms() + ms;
    settle.attempt.url = url.map(str::to_owned);
    done(work, &at(ms, settle)).1
}

fn claim(ms: i64) -> Envelope<usize> {
    at(ms, claiming(5))
}

#[test]
fn ten_failures_in_a_row_are_a_warning_and_five_days_of_them_suspend_said_once_each() {
    let failure = Some(FailureClass::Http5xx);
    let mut work = with_health(EndpointHealth::of(Active));
    let mut told = Vec::new();
    for ms in (0..12).chain([
        SUSPENDED_AFTER_MS - 1,
        SUSPENDED_AFTER_MS,
        SUSPENDED_AFTER_MS + 1,
    ]) {
        let reply = attempted(&mut work, ms, failure);
        if let Some(EndpointStatusChange { from, health, .. }) = reply {
            told.push((ms, from, health.status, health.failures, health.probe_at));
        }
    }
    let probe_at = Some(NOW.plus_ms(SUSPENDED_AFTER_MS + PROBE_MS));
    assert_eq!(
        told,
        [
            (9, Active, Failing, WARNING_FAILURES, None),
            (SUSPENDED_AFTER_MS, Failing, Suspended, 14, probe_at),
        ]
    );
    // The first success ends the suspension.
    let reply = attempted(&mut work, SUSPENDED_AFTER_MS + 2, None);
    assert!(matches!(
        reply,
        Some(EndpointStatusChange { from: Suspended, health, .. }) if health == EndpointHealth::of(Active)
    ));
    assert_eq!(work.partners[&id(1)].endpoints[0].status, Active);
}

#[test]
fn five_days_count_from_the_first_failure_and_a_few_failures_suspend_nobody() {
    let failure = Some(FailureClass::Timeout);
    for (failures, ms, status) in [
        (8, SUSPENDED_AFTER_MS, Active),
        (9, SUSPENDED_AFTER_MS - 1, Failing),
        (9, SUSPENDED_AFTER_MS, Suspended),
    ] {
        let mut work = with_health(EndpointHealth {
            failures,
            failing_since: Some(NOW),
            ..EndpointHealth::of(Active)
        });
        attempted(&mut work, ms, failure);
        assert_eq!(work.health[&id(7)].status, status, "{failures} {ms}");
    }
}

#[test]
fn healthy_endpoints_cost_no_write_and_faults_of_ours_do_not_count() {
    for (status, class, writes) in [
        (Active, None, false),
        (Active, Some(FailureClass::OurFault), false),
        (Active, Some(FailureClass::Http4xx), true),
        (Active, Some(FailureClass::PayloadTooLarge), true),
        (Active, Some(FailureClass::Throttled), true),
        (Active, Some(FailureClass::Gone), true),
        (Disabled, None, false),
        (Disabled, Some(FailureClass::Http5xx), false),
        (Disabled, Some(FailureClass::Gone), false),
        (Gone, None, false),
    ] {
        let before = EndpointHealth::of(status);
        let mut work = with_health(before);
        attempted(&mut work, 0, class);
        assert_eq!(
            work.health[&id(7)] != before,
            writes,
            "{status:?} {class:?}"
        );
    }
    let mut work = with_health(suspended(0));
    attempted(&mut work, 0, Some(FailureClass::Gone));
    assert_eq!(work.health[&id(7)], EndpointHealth::of(Gone));
}

#[test]
fn a_suspended_endpoint_gives_out_one_delivery_at_a_time() {
    let mut work = with_health(suspended(1_000));
    work.deliveries.insert(
        (id(6), id(7)),
        delivery(DeliveryPhase::Pending, Some(0), None),
    );
    work.due.insert(id(7), vec![id(5), id(6)]);
    assert!(caused(&work, &claim(999)).is_empty(), "not yet");
    let taken = caused(&work, &claim(1_000));
    assert!(matches!(
        taken.as_slice(),
        [
            Change::DeliveryUpdated(_, state),
            Change::EndpointHealthChanged(_, health)
        ] if state.lease == Some(42) && *health == suspended(1_000 + 2 * LEASE_MS)
    ));
    apply_all(&mut work, &taken);
    assert!(caused(&work, &claim(1_000)).is_empty());
    let lost = 1_000 + 2 * LEASE_MS;
    assert!(caused(&work, &claim(lost - 1)).is_empty());
    assert_eq!(caused(&work, &claim(lost)).len(), 2);
}

#[test]
fn nothing_to_deliver_tries_nothing_and_a_disabled_endpoint_is_never_tried() {
    let mut work = with_health(suspended(0));
    work.deliveries.clear();
    assert!(caused(&work, &claim(5)).is_empty());
    for status in [Disabled, Gone] {
        let work = with_health(EndpointHealth::of(status));
        assert!(caused(&work, &claim(5)).is_empty(), "{status:?}");
    }
}

#[test]
fn the_pause_of_a_suspended_endpoint_grows_with_its_failures() {
    let hours = |hours: i64| hours * 60 * 60 * 1000;
    for (age, pause) in [
        (-5, PROBE_MS),
        (SUSPENDED_AFTER_MS, PROBE_MS),
        (hours(240), hours(2)),
        (hours(2880), PROBE_MAX_MS),
        (hours(100_000), PROBE_MAX_MS),
    ] {
        let mut work = with_health(suspended(-10));
        attempted(&mut work, age, Some(FailureClass::Timeout));
        let next = work.health[&id(7)].probe_at;
        assert_eq!(next, Some(NOW.plus_ms(age + pause)), "{age}");
    }
}

#[test]
fn what_fails_while_it_is_suspended_uses_nothing_up_and_waits_for_the_next_try() {
    use FailureClass::{OurFault, PayloadTooLarge, Timeout};
    let old = OUR_FAULTS_FREE_MS + 1;
    // (charged before, failure, age of the event, charged afterwards, due after)
    for (counted_attempts, class, age, after, due) in [
        (0, Timeout, 0, 0, Some(0)),
        (9, Timeout, old, 9, Some(0)),
        // A delivery that was given up and is retried by hand stays given up.
        (10, Timeout, 0, 10, None),
        (9, PayloadTooLarge, 0, 9, None),
        (9, OurFault, 0, 9, Some(30_000)),
        (9, OurFault, 2 * old, 9, Some(OUR_FAULTS_FREE_MS / 16)),
    ] {
        let mut work = with_health(suspended(PROBE_MS));
        let state = work.deliveries.get_mut(&(id(5), id(7))).unwrap();
        state.counted_attempts = counted_attempts;
        attempted(&mut work, age, Some(class));
        let named = format!("{counted_attempts} {class} {age}");
        let state = work.deliveries[&(id(5), id(7))];
        assert_eq!(
            (state.counted_attempts, state.lease),
            (after, None),
            "{named}"
        );
        let due = due.map(|ms| NOW.plus_ms(age + ms));
        assert_eq!(state.due, due, "{named}");
        assert_eq!(work.health[&id(7)].status, Suspended, "{named}");
        let failures = 99 + u32::from(class != OurFault);
        assert_eq!(work.health[&id(7)].failures, failures, "{named}");
    }
}

#[test]
fn events_wait_while_an_endpoint_is_suspended_and_manual_retries_go_at_once() {
    for (health, lease) in [
        (suspended(PROBE_MS), None),
        (EndpointHealth::of(Active), Some(99)),
    ] {
        let mut work = with_health(health);
        let event = (EventType::BookingCreated, seed(6, 99));
        let mut born = Vec::new();
        let from = (&work, &work.partners[&id(1)]);
        emit(from, NOW, Some(id(4)), event, |_| "{", &mut born);
        let Change::DeliveryAdded(_, state) = &born[1] else {
            panic!("{born:?}")
        };
        assert_eq!(state.lease, lease);
        let retry = command(retrying());
        done(&mut work, &retry);
        assert_eq!(work.deliveries[&(id(5), id(7))].lease, Some(99));
    }
}

#[test]
fn an_unverified_address_has_one_delivery_in_flight() {
    let unverified = EndpointHealth {
        unverified_since: Some(NOW),
        ..EndpointHealth::of(Active)
    };
    // Taken by one claim, and by no other until its outcome is known.
    let mut work = with_health(unverified);
    let taken = |work: &mut BatchState, ms| {
        let changes = caused(work, &claim(ms));
        apply_all(work, &changes);
        changes.len()
    };
    assert_eq!(
        taken(&mut work, 0),
        2,
        "the delivery, and when the next may be"
    );
    assert_eq!(
        work.health[&id(7)].probe_at,
        Some(NOW.plus_ms(2 * LEASE_MS))
    );
    attempted(&mut work, 5, Some(FailureClass::Http5xx));
    let after = work.health[&id(7)];
    assert_eq!(after.probe_at, Some(NOW.plus_ms(5 + UNVERIFIED_MS)));
    assert_eq!(after.unverified_since, Some(NOW));
    let state = work.deliveries.get_mut(&(id(5), id(7))).unwrap();
    (state.due, state.lease) = (Some(NOW), None);
    assert_eq!(taken(&mut work, UNVERIFIED_MS), 0);
    assert_eq!(taken(&mut work, 5 + UNVERIFIED_MS), 2);
    attempted(&mut work, 6 + UNVERIFIED_MS, None);
    assert_eq!(work.health[&id(7)], EndpointHealth::of(Active));

    let moved = EndpointHealth {
        unverified_since: Some(NOW.plus_ms(MOVED_MS)),
        ..EndpointHealth::of(Active)
    };
    let endpoint = endpoint(7, &[]).with_health(moved);
    assert!(endpoint.has_moved_since(NOW.plus_ms(-1)) && !endpoint.has_moved_since(NOW));

    // A new address must be verified, the same one need not.
    for (url, verifies, expected) in [
        ("https://other.example/", true, Some(NOW.plus_ms(MOVED_MS))),
        ("https://other.example/", false, None),
        ("https://example.com/7", true, None),
    ] {
        let mut work = with_health(EndpointHealth::of(Active));
        let ask = UpdateEndpoint {
            verifies,
            ..update(moving_to(url))
        };
        done(&mut work, &command(ask));
        assert_eq!(work.health[&id(7)].unverified_since, expected, "{url}");
    }
}

#[test]
fn an_attempt_at_a_former_address_says_nothing_about_the_new_one() {
    let moved = EndpointHealth {
        failures: WARNING_FAILURES - 1,
        failing_since: Some(NOW),
        probe_at: Some(NOW.plus_ms(2 * LEASE_MS)),
        unverified_since: Some(NOW.plus_ms(MOVED_MS)),
        ..EndpointHealth::of(Active)
    };
    let same = EndpointHealth {
        probe_at: Some(NOW.plus_ms(5 + UNVERIFIED_MS)),
        ..moved
    };
    let gone = EndpointHealth {
        unverified_since: moved.unverified_since,
        ..EndpointHealth::of(Gone)
    };
    let failing = EndpointHealth {
        status: Failing,
        failures: WARNING_FAILURES,
        ..same
    };
    let there = "https://example.com/7";
    for (class, after) in [
        (None, EndpointHealth::of(Active)),
        (Some(FailureClass::Gone), gone),
        (Some(FailureClass::Http5xx), failing),
        (Some(FailureClass::OurFault), same),
    ] {
        for (url, expected) in [("https://former.example/", same), (there, after)] {
            let mut work = with_health(moved);
            work.addresses.insert(id(7), there.to_owned());
            attempted_at(&mut work, 5, class, Some(url));
            assert_eq!(work.health[&id(7)], expected, "{class:?} {url}");
        }
    }
    // The address may change in the same batch.
    let mut work = with_health(EndpointHealth::of(Active));
    work.addresses.insert(id(7), there.to_owned());
    let ask = update(moving_to("https://other.example/"));
    let (_, kept) = done(&mut work, &at(4, ask));
    assert_eq!(kept.endpoint.moved_at, Some(NOW.plus_ms(4)));
    // Then the clock is set back, and it changes once more.
    let ask = update(moving_to("https://third.example/"));
    let (_, kept) = done(&mut work, &at(-9, ask));
    assert_eq!(kept.endpoint.moved_at, Some(NOW.plus_ms(5)));
    attempted_at(&mut work, 5, Some(FailureClass::Gone), Some(there));
    assert_eq!(work.health[&id(7)].status, Active);
}

#[test]
fn a_partner_can_resume_a_suspended_endpoint_or_change_its_address() {
    let failing = EndpointHealth {
        status: Failing,
        failures: 12,
        failing_since: Some(NOW),
        probe_at: None,
        unverified_since: None,
    };
    let tried_now = suspended(5);
    #[rustfmt::skip]
    let cases = [
        (suspended(PROBE_MS), Some(true), None, EndpointHealth::of(Active)),
        (suspended(PROBE_MS), Some(false), None, EndpointHealth::of(Disabled)),
        (suspended(PROBE_MS), None, Some("https://other.example/"), tried_now),
        (failing, None, Some("https://other.example/"), EndpointHealth::of(Active)),
        (failing, Some(true), None, failing),
        (failing, None, Some("https://example.com/7"), failing),
        (EndpointHealth::of(Disabled), None, Some("https://other.example/"), EndpointHealth::of(Disabled)),
    ];
    for (health, enabled, url, after) in cases {
        let mut work = with_health(health);
        let changes = EndpointChanges {
            url: url.map(str::to_owned),
            enabled,
            ..EndpointChanges::default()
        };
        done(&mut work, &at(5, update(changes)));
        let endpoint = &work.partners[&id(1)].endpoints[0];
        assert_eq!(endpoint.health(), after, "{health:?} {enabled:?} {url:?}");
        assert_eq!(endpoint.enabled, after.status != Disabled);
    }
}

#[test]
fn a_retry_that_is_left_to_a_claim_lets_a_suspended_endpoint_be_tried_now() {
    let mut work = with_health(suspended(60_000));
    work.room.clear();
    let another = endpoint(8, &[EventType::BookingProtected]).with_health(suspended(60_000));
    let partner = work.partners.get_mut(&id(1)).unwrap();
    partner.endpoints.push(another.clone());
    let retry = command(retrying());
    for change in caused(&work, &retry) {
        work.apply(&change);
    }
    assert_eq!(work.partners[&id(1)].endpoints[1], another, "not asked for");
    let state = work.deliveries[&(id(5), id(7))];
    assert_eq!((state.due, state.lease), (Some(NOW), None));
    let claimed = caused(&work, &claim(0));
    assert!(
        claimed.iter().any(|change| matches!(
            change,
            Change::DeliveryUpdated(_, state) if state.lease == Some(42)
        )),
        "{claimed:?}"
    );
}

#[test]
fn a_partner_cannot_speed_up_deliveries_to_an_unverified_endpoint() {
    let (now, late) = (NOW.plus_ms(5), NOW.plus_ms(5 + UNVERIFIED_MS));
    let unverified = |status, probe_at| EndpointHealth {
        failures: if status == Suspended { 99 } else { 0 },
        failing_since: (status == Suspended).then_some(NOW),
        probe_at,
        unverified_since: Some(NOW),
        ..EndpointHealth::of(status)
    };
    let soon = Some(NOW.plus_ms(9_000));
    let other = Some("https://other.example/");
    #[rustfmt::skip]
    let cases = [
        (unverified(Active, None), None, other, Active, None),
        (unverified(Active, soon), None, other, Active, soon),
        (unverified(Active, soon), Some(true), None, Active, soon),
        (unverified(Active, soon), Some(false), None, Disabled, None),
        (unverified(Disabled, None), Some(true), None, Active, Some(late)),
        (unverified(Gone, None), Some(true), other, Active, Some(late)),
        (unverified(Suspended, soon), None, None, Suspended, soon),
        (unverified(Suspended, soon), None, other, Suspended, Some(late)),
        (unverified(Suspended, soon), Some(true), None, Active, Some(late)),
        // The first move of a verified endpoint is tried at once.
        (EndpointHealth::of(Active), None, other, Active, None),
    ];
    for (before, enabled, url, status, probe_at) in cases {
        let moved = url.map(|_| true);
        let after = crate::features::endpoints::health::decided(before, now, enabled, moved);
        let told = format!("{before:?} {enabled:?} {moved:?}");
        assert_eq!((after.status, after.probe_at), (status, probe_at), "{told}");
        assert!(after.unverified_since.is_some(), "{told}");
    }
}

#[test]
fn retries_by_hand_wait_for_their_turn_where_nothing_was_accepted_yet() {
    let unverified = EndpointHealth {
        unverified_since: Some(NOW),
        ..EndpointHealth::of(Active)
    };
    let mut work = with_health(unverified);
    work.room.insert(id(7), 1_000);
    work.deliveries.get_mut(&(id(5), id(7))).unwrap().due = Some(NOW.plus_ms(3_600_000));
    let retry = |ms| at(ms, retrying());
    let mut sent = Vec::new();
    for ms in (0..60_000).step_by(700) {
        if work.events[&id(5)].retries < crate::limits::MANUAL_RETRIES {
            done(&mut work, &retry(ms));
        }
        let state = work.deliveries[&(id(5), id(7))];
        assert_eq!(state.lease, None, "{ms}");
        let claimed = caused(&work, &claim(ms));
        apply_all(&mut work, &claimed);
        if !claimed.is_empty() {
            sent.push(ms);
            attempted(&mut work, ms, Some(FailureClass::Http5xx));
            work.due.insert(id(7), vec![id(5)]);
        }
    }
    assert_eq!(sent[0], 0, "one is sent at once");
    let pauses = sent.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.min().unwrap() >= UNVERIFIED_MS, "{sent:?}");
    assert_eq!(sent.len(), 6, "{sent:?}");

    // A delivery that waits for its turn can be retried any number of times, and its schedule stays as long as before.
    let mut work = with_health(EndpointHealth {
        probe_at: Some(NOW.plus_ms(UNVERIFIED_MS)),
        ..unverified
    });
    let state = work.deliveries.get_mut(&(id(5), id(7))).unwrap();
    (state.due, state.counted_attempts) = (Some(NOW.plus_ms(3_600_000)), 5);
    for ms in 0..5 {
        done(&mut work, &retry(ms));
    }
    let state = work.deliveries[&(id(5), id(7))];
    assert_eq!((state.counted_attempts, state.lease), (4, None));
    // A suspended endpoint is tried soon: not in hours, but not at once either.
    for (unverified_since, next) in [(None, 0), (Some(NOW), UNVERIFIED_MS)] {
        let mut work = with_health(EndpointHealth {
            unverified_since,
            ..suspended(PROBE_MS)
        });
        work.room.clear();
        for ms in 0..5 {
            done(&mut work, &retry(ms));
        }
        assert_eq!(work.health[&id(7)].probe_at, Some(NOW.plus_ms(next)));
    }
}

#[test]
fn a_failed_start_postpones_an_unverified_endpoint_by_seconds_only() {
    let claimed = |health| {
        let mut work = with_health(health);
        done(&mut work, &claim(0));
        work
    };
    let unverified = EndpointHealth {
        unverified_since: Some(NOW),
        ..EndpointHealth::of(Active)
    };
    let held = crate::engine::command::HeldDelivery {
        event_id: id(5),
        endpoint_id: id(7),
        lease: 42,
    };
    for (health, next) in [
        (unverified, Some(5 + UNVERIFIED_MS)),
        (suspended(0), Some(2 * LEASE_MS)),
        (EndpointHealth::of(Active), None),
    ] {
        let next = next.map(|ms| NOW.plus_ms(ms));
        let mut work = claimed(health);
        attempted(&mut work, 5, Some(FailureClass::OurFault));
        assert_eq!(work.health[&id(7)].probe_at, next, "{health:?}");
        let mut work = claimed(health);
        caused(&work, &at(5, ReleaseDeliveries { held: vec![held] }))
            .iter()
            .for_each(|change| work.apply(change));
        assert_eq!(work.health[&id(7)].probe_at, next, "{health:?}");
        assert_eq!(work.deliveries[&(id(5), id(7))].lease, None);
    }
}
