//! The rota's promises, one by one.

use std::sync::Arc;

use bookguard_core::limits::CLAIMED_PER_ENDPOINT;
use bookguard_core::model::{BookingId, EventId, EventType, PartnerId, Timestamp};

use super::*;

fn endpoint(number: u16) -> EndpointId {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    EndpointId::from_bytes(bytes)
}

fn parcel(to: u16, event: u8, attempts: u32) -> Parcel {
    Parcel {
        event_id: EventId::from_bytes([event; 16]),
        partner_id: PartnerId::from_bytes([0; 16]),
        endpoint_id: endpoint(to),
        booking_id: BookingId::from_bytes([0; 16]),
        event_type: EventType::BookingCreated,
        seq: 1,
        body: Arc::from(&b"{}"[..]),
        lease: 1,
        until: Timestamp::from_ms(60_000),
        attempts,
        per_second: None,
    }
}

fn fill(rota: &mut Rota, to: u16, count: usize, attempts: u32) {
    for _ in 0..count {
        rota.add(parcel(to, 0, attempts));
    }
}

fn take_all(rota: &mut Rota) -> Vec<Parcel> {
    std::iter::from_fn(|| rota.next(Instant::now())).collect()
}

fn finish(rota: &mut Rota, to: u16, ended: Ended) -> bool {
    rota.sent(&endpoint(to), ended, 0);
    rota.done(&endpoint(to))
}

#[test]
fn no_endpoint_has_more_in_flight_than_its_share_and_a_place_that_becomes_free_is_used() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, 20, 0);
    assert_eq!(take_all(&mut rota).len(), IN_FLIGHT_PER_ENDPOINT);
    rota.sent(&endpoint(1), Ended::Promptly, 0);
    assert_eq!(take_all(&mut rota).len(), 1, "settling holds no place");
    rota.done(&endpoint(1));
    assert_eq!(take_all(&mut rota).len(), 0);
}

#[test]
fn all_endpoints_together_have_no_more_in_flight_than_the_limit() {
    let mut rota = Rota::default();
    for to in 0..300 {
        fill(&mut rota, to, 10, 0);
    }
    assert_eq!(take_all(&mut rota).len(), IN_FLIGHT);
    finish(&mut rota, 0, Ended::Promptly);
    assert_eq!(take_all(&mut rota).len(), 1);
}

#[test]
fn endpoints_take_turns_however_much_one_has_queued() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, 400, 0);
    fill(&mut rota, 2, 2, 0);
    let to: Vec<_> = take_all(&mut rota)
        .iter()
        .map(|parcel| parcel.endpoint_id)
        .collect();
    assert_eq!(
        to[..4],
        [endpoint(1), endpoint(2), endpoint(1), endpoint(2)]
    );
}

#[test]
fn first_tries_go_before_retries_and_neither_starves() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, 5, 3);
    fill(&mut rota, 1, 8, 0);
    let mut order = Vec::new();
    while let Some(parcel) = rota.next(Instant::now()) {
        order.push(parcel.attempts);
        finish(&mut rota, 1, Ended::Promptly);
    }
    assert_eq!(order, [0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 3, 3, 3]);
}

#[test]
fn an_endpoint_that_times_out_gets_one_place_until_it_answers() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, 40, 0);
    assert_eq!(take_all(&mut rota).len(), 8);
    for _ in 0..7 {
        finish(&mut rota, 1, Ended::TimedOut);
        assert_eq!(take_all(&mut rota).len(), 0);
    }
    finish(&mut rota, 1, Ended::TimedOut);
    assert_eq!(take_all(&mut rota).len(), 1);
    finish(&mut rota, 1, Ended::Unsent);
    assert_eq!(take_all(&mut rota).len(), 1);
    finish(&mut rota, 1, Ended::Promptly);
    assert_eq!(take_all(&mut rota).len(), 2);
    finish(&mut rota, 1, Ended::Promptly);
    assert_eq!(take_all(&mut rota).len(), 3, "four places, one was in use");
}

#[test]
fn a_410_forgets_what_is_queued_once() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, 10, 0);
    assert_eq!(take_all(&mut rota).len(), 8);
    rota.sent(&endpoint(1), Ended::Gone, 0);
    assert_eq!(rota.gone(&endpoint(1)).unwrap().len(), 2);
    assert!(rota.gone(&endpoint(1)).is_none());
    rota.done(&endpoint(1));
    assert_eq!(take_all(&mut rota).len(), 0);
    for _ in 0..7 {
        finish(&mut rota, 1, Ended::Gone);
    }
    assert!(rota.is_idle());
    // A manual retry sends to it all the same.
    fill(&mut rota, 1, 1, 1);
    assert_eq!(take_all(&mut rota).len(), 1);
}

#[test]
fn the_claimer_is_called_once_when_a_full_endpoint_has_room_for_a_whole_claim() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, QUEUED_PER_ENDPOINT, 0);
    assert!(!rota.backlog(&[endpoint(1)]));
    let mut calls = Vec::new();
    for done in 1..=QUEUED_PER_ENDPOINT {
        assert!(rota.next(Instant::now()).is_some());
        if finish(&mut rota, 1, Ended::Promptly) {
            calls.push(done);
        }
    }
    assert_eq!(calls, [CLAIMED_PER_ENDPOINT]);
    assert!(rota.is_idle());
    assert!(
        rota.backlog(&[endpoint(1)]),
        "nothing is held: come at once"
    );
}

#[test]
fn clearing_forgets_the_queued_and_keeps_count_of_what_is_in_flight() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, 10, 0);
    fill(&mut rota, 2, 1, 0);
    let sent = take_all(&mut rota);
    assert_eq!(sent.len(), 9);
    fill(&mut rota, 3, 1, 0);
    assert_eq!(rota.clear().len(), 3);
    assert!(rota.next(Instant::now()).is_none());
    for parcel in sent {
        rota.sent(&parcel.endpoint_id, Ended::Promptly, 0);
        rota.done(&parcel.endpoint_id);
    }
    assert!(rota.is_idle());
}

#[test]
fn of_a_slow_endpoint_no_more_is_held_than_it_takes_in_time() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, 200, 0);
    take_all(&mut rota);
    // One time-out: one place, half a minute, 15 s each, of which the last attempt is an eighth so far.
    let most = rota.sent(&endpoint(1), Ended::TimedOut, 15_000);
    assert_eq!(most, Some(QUEUED_PER_SLOW_ENDPOINT));
    let shed = rota.shed(&endpoint(1));
    assert_eq!(shed.len(), 200 - 8 - QUEUED_PER_SLOW_ENDPOINT);
    assert!(rota.shed(&endpoint(1)).is_empty());
    assert_eq!(rota.sent(&endpoint(1), Ended::TimedOut, 15_000), None);
    // It takes all there is again once it has answered quickly for a while.
    let mut grew = Vec::new();
    for _ in 0..100 {
        fill(&mut rota, 1, 1, 0);
        while rota.next(Instant::now()).is_some() {}
        grew.extend(rota.sent(&endpoint(1), Ended::Promptly, 20));
        rota.done(&endpoint(1));
    }
    assert_eq!(grew.last(), Some(&QUEUED_PER_ENDPOINT));
    assert!(grew.is_sorted(), "{grew:?}");
}

#[test]
fn a_quick_endpoint_keeps_all_its_room() {
    let mut rota = Rota::default();
    fill(&mut rota, 1, 100, 0);
    for took_ms in [0, 5, 300, 450, 450, 450] {
        assert!(rota.next(Instant::now()).is_some());
        assert_eq!(rota.sent(&endpoint(1), Ended::Promptly, took_ms), None);
    }
}

/// How many attempts begin at this moment, in milliseconds after `start`.
fn begun(rota: &mut Rota, start: Instant, ms: u64) -> usize {
    let now = start + Duration::from_millis(ms);
    std::iter::from_fn(|| rota.next(now)).count()
}

fn limited(rota: &mut Rota, to: u16, count: usize, per_second: u32) {
    for _ in 0..count {
        rota.add(Parcel {
            per_second: Some(per_second),
            ..parcel(to, 0, 0)
        });
    }
}

#[test]
fn a_rate_limit_spaces_attempts_however_many_wait_and_however_long_none_was_sent() {
    let mut rota = Rota::default();
    let start = Instant::now();
    limited(&mut rota, 1, 6, 4);
    fill(&mut rota, 2, 3, 0);
    for (ms, attempts) in [
        (0, 4),
        (0, 0),
        (249, 0),
        (250, 1),
        (499, 0),
        // A second late, and still no two at once.
        (1_500, 1),
        (1_749, 0),
        (1_750, 1),
    ] {
        assert_eq!(begun(&mut rota, start, ms), attempts, "{ms}");
    }
    assert_eq!(
        rota.wake_at(),
        Some(start + Duration::from_millis(2_000)),
        "one still waits"
    );
}

#[test]
fn a_limit_is_kept_while_nothing_is_held_and_falls_with_the_first_delivery_that_has_none() {
    let mut rota = Rota::default();
    let start = Instant::now();
    limited(&mut rota, 1, 1, 1);
    assert_eq!(begun(&mut rota, start, 0), 1);
    finish(&mut rota, 1, Ended::Promptly);
    assert!(rota.is_idle());
    limited(&mut rota, 1, 1, 1);
    assert_eq!(begun(&mut rota, start, 999), 0);
    fill(&mut rota, 1, 4, 0);
    assert_eq!(begun(&mut rota, start, 1_000), 5);
}

#[test]
fn of_a_limited_endpoint_no_more_is_held_than_may_begin_in_time() {
    let mut rota = Rota::default();
    limited(&mut rota, 1, 300, 2);
    assert_eq!(begun(&mut rota, Instant::now(), 0), 1);
    // Two a second, half a minute: 60, and a power of two.
    assert_eq!(rota.sent(&endpoint(1), Ended::Promptly, 5), Some(32));
    assert_eq!(rota.shed(&endpoint(1)).len(), 299 - 32);
}

#[test]
fn moments_gone_by_are_forgotten() {
    let mut rota = Rota::default();
    let start = Instant::now();
    for to in 0..3_000 {
        limited(&mut rota, to, 1, 1_000);
        assert_eq!(begun(&mut rota, start, u64::from(to) * 10), 1);
        finish(&mut rota, to, Ended::Promptly);
        assert!(rota.paces.len() <= PACES + 1);
    }
}
