//! The invariants of the fair queue, one by one.

mod trouble;

use std::sync::Arc;

use bookguard_core::limits::{
    ATTEMPT_MS, CLAIMED_PER_ENDPOINT, IN_FLIGHT_PER_ENDPOINT, QUEUED_PER_ENDPOINT,
    QUEUED_PER_SLOW_ENDPOINT, QUEUED_PER_TROUBLED_ENDPOINT,
};
use bookguard_core::model::{BookingId, EventId, EventType, PartnerId, Timestamp};

use super::*;

const FULL: Duration = Duration::from_millis(ATTEMPT_MS);

fn queue() -> FairQueue {
    FairQueue::new(FULL)
}

fn endpoint(number: u16) -> EndpointId {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    EndpointId::from_bytes(bytes)
}

fn partner(number: u16) -> PartnerId {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    PartnerId::from_bytes(bytes)
}

fn delivery(to: u16, event: u8, attempts: u32) -> LeasedDelivery {
    LeasedDelivery {
        event_id: EventId::from_bytes([event; 16]),
        partner_id: partner(0),
        endpoint_id: endpoint(to),
        booking_id: Some(BookingId::from_bytes([0; 16])),
        event_type: EventType::BookingCreated,
        seq: 1,
        body: Arc::from(&b"{}"[..]),
        lease: 1,
        until: Timestamp::from_ms(60_000),
        attempts,
        begun: Timestamp::from_ms(0),
        per_second: None,
        failing: false,
    }
}

fn fill(queue: &mut FairQueue, to: u16, count: usize, attempts: u32) {
    for _ in 0..count {
        queue.add(delivery(to, 0, attempts));
    }
}

/// Queues `count` deliveries to an endpoint of this partner.
fn fill_of(queue: &mut FairQueue, of: u16, to: u16, count: usize) {
    for _ in 0..count {
        queue.add(LeasedDelivery {
            partner_id: partner(of),
            ..delivery(to, 0, 0)
        });
    }
}

fn take_all(queue: &mut FairQueue) -> Vec<Turn> {
    std::iter::from_fn(|| queue.next(Instant::now())).collect()
}

fn seat(to: u16, pool: EndpointStanding) -> AttemptSeat {
    AttemptSeat {
        endpoint_id: endpoint(to),
        partner_id: partner(0),
        pool,
        moved_at: None,
    }
}

fn end(queue: &mut FairQueue, seat: AttemptSeat, ended: Ended, took_ms: u64) -> bool {
    queue.sent(seat, ended, took_ms);
    queue.done(&seat.endpoint_id)
}

fn finish(queue: &mut FairQueue, to: u16, ended: Ended) -> bool {
    end(queue, seat(to, EndpointStanding::Good), ended, 0)
}

/// Lets the endpoint accept deliveries until it has all its places.
fn prove(queue: &mut FairQueue, of: u16, to: u16) {
    for _ in 0..4 {
        fill_of(queue, of, to, 1);
        let turn = queue.next(Instant::now()).unwrap();
        end(queue, turn.seat, Ended::Accepted, 0);
    }
}

fn proven() -> FairQueue {
    let mut queue = queue();
    prove(&mut queue, 0, 1);
    queue
}

/// The partners of these turns.
fn partners(turns: &[Turn]) -> Vec<PartnerId> {
    turns.iter().map(|turn| turn.delivery.partner_id).collect()
}

#[test]
fn no_endpoint_exceeds_its_share_in_flight_and_free_places_are_used() {
    let mut queue = proven();
    fill(&mut queue, 1, 20, 0);
    let turns = take_all(&mut queue);
    assert_eq!(turns.len(), IN_FLIGHT_PER_ENDPOINT);
    queue.sent(turns[0].seat, Ended::Accepted, 0);
    assert_eq!(take_all(&mut queue).len(), 1, "settling holds no place");
    queue.done(&endpoint(1));
    assert_eq!(take_all(&mut queue).len(), 0);
}

#[test]
fn all_endpoints_together_have_no_more_in_flight_than_the_limit() {
    let mut queue = queue();
    for to in 0..1_500 {
        prove(&mut queue, to, to);
    }
    for to in 0..1_500 {
        fill_of(&mut queue, to, to, 10);
    }
    let turns = take_all(&mut queue);
    assert_eq!(turns.len(), IN_FLIGHT);
    let distinct: std::collections::HashSet<_> = partners(&turns).into_iter().collect();
    assert_eq!(
        distinct.len(),
        IN_FLIGHT,
        "no partner has two while one has none"
    );
    end(&mut queue, turns[0].seat, Ended::Accepted, 0);
    assert_eq!(take_all(&mut queue).len(), 1);
}

#[test]
fn one_partner_however_busy_leaves_places_to_every_other() {
    let mut queue = queue();
    for to in 0..60 {
        prove(&mut queue, 1, to);
    }
    for of in 2..100 {
        prove(&mut queue, of, 100 + of);
    }
    for to in 0..60 {
        fill_of(&mut queue, 1, to, 20);
    }
    assert_eq!(take_all(&mut queue).len(), IN_FLIGHT.div_ceil(6));
    for of in 2..100 {
        fill_of(&mut queue, of, 100 + of, 2);
    }
    let others = take_all(&mut queue);
    assert_eq!(others.len(), 98 * 2);
    assert!(!partners(&others).contains(&partner(1)));
}

#[test]
fn partners_take_turns_and_so_do_the_endpoints_of_one() {
    let mut queue = queue();
    for (of, to) in [(1, 1), (1, 2), (2, 3)] {
        prove(&mut queue, of, to);
    }
    fill_of(&mut queue, 1, 1, 400);
    fill_of(&mut queue, 1, 2, 4);
    fill_of(&mut queue, 2, 3, 4);
    let turns = take_all(&mut queue);
    let to: Vec<_> = turns.iter().map(|turn| turn.delivery.endpoint_id).collect();
    let [one, two, three] = [1, 2, 3].map(endpoint);
    assert_eq!(to[..8], [one, three, two, three, one, three, two, three]);
}

#[test]
fn first_tries_go_before_retries_and_neither_starves() {
    let mut queue = queue();
    fill(&mut queue, 1, 5, 3);
    fill(&mut queue, 1, 8, 0);
    let mut order = Vec::new();
    while let Some(turn) = queue.next(Instant::now()) {
        order.push(turn.delivery.attempts);
        end(&mut queue, turn.seat, Ended::Accepted, 0);
    }
    assert_eq!(order, [0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 3, 3, 3]);
}

#[test]
fn an_endpoint_that_times_out_gets_one_place_until_it_answers() {
    let mut queue = proven();
    fill(&mut queue, 1, 40, 0);
    assert_eq!(take_all(&mut queue).len(), 8);
    for _ in 0..7 {
        finish(&mut queue, 1, Ended::TimedOut);
        assert_eq!(take_all(&mut queue).len(), 0);
    }
    finish(&mut queue, 1, Ended::TimedOut);
    let turns = take_all(&mut queue);
    assert_eq!(turns.len(), 1);
    end(&mut queue, turns[0].seat, Ended::Unsent, 0);
    let turns = take_all(&mut queue);
    assert_eq!(turns.len(), 1);
    end(&mut queue, turns[0].seat, Ended::Accepted, 0);
    assert_eq!(take_all(&mut queue).len(), 2);
    finish(&mut queue, 1, Ended::Accepted);
    assert_eq!(take_all(&mut queue).len(), 3, "four places, one was in use");
}

#[test]
fn a_410_forgets_what_is_queued_once() {
    let mut queue = proven();
    fill(&mut queue, 1, 10, 0);
    assert_eq!(take_all(&mut queue).len(), 8);
    queue.sent(seat(1, EndpointStanding::Good), Ended::Gone, 0);
    assert_eq!(queue.gone(&endpoint(1)).unwrap().len(), 2);
    assert!(queue.gone(&endpoint(1)).is_none());
    queue.done(&endpoint(1));
    assert_eq!(take_all(&mut queue).len(), 0);
    for _ in 0..7 {
        finish(&mut queue, 1, Ended::Gone);
    }
    assert!(queue.is_idle());
    // A manual retry still sends to it.
    fill(&mut queue, 1, 1, 1);
    assert_eq!(take_all(&mut queue).len(), 1);
}

#[test]
fn an_endpoint_that_was_brought_back_may_end_once_more() {
    let mut queue = proven();
    fill(&mut queue, 1, 10, 0);
    assert_eq!(take_all(&mut queue).len(), 8);
    queue.sent(seat(1, EndpointStanding::Good), Ended::Gone, 0);
    assert_eq!(queue.gone(&endpoint(1)).map(|queued| queued.len()), Some(2));
    // The first attempts are still in flight.
    fill(&mut queue, 1, 5, 0);
    queue.sent(seat(1, EndpointStanding::Good), Ended::Gone, 0);
    assert_eq!(queue.gone(&endpoint(1)).map(|queued| queued.len()), Some(5));
    assert!(queue.gone(&endpoint(1)).is_none());
}

#[test]
fn the_claimer_is_called_once_when_a_full_endpoint_has_room_for_a_whole_claim() {
    let mut queue = proven();
    fill(&mut queue, 1, QUEUED_PER_ENDPOINT, 0);
    assert!(!queue.backlog(&[endpoint(1)]));
    let mut calls = Vec::new();
    for done in 1..=QUEUED_PER_ENDPOINT {
        assert!(queue.next(Instant::now()).is_some());
        if finish(&mut queue, 1, Ended::Accepted) {
            calls.push(done);
        }
    }
    assert_eq!(calls, [CLAIMED_PER_ENDPOINT]);
    assert!(queue.is_idle());
    assert!(
        queue.backlog(&[endpoint(1)]),
        "nothing is held: come at once"
    );
}

#[test]
fn clearing_forgets_the_queued_and_keeps_count_of_what_is_in_flight() {
    let mut queue = proven();
    fill(&mut queue, 1, 10, 0);
    fill(&mut queue, 2, 1, 0);
    let sent = take_all(&mut queue);
    assert_eq!(sent.len(), 9);
    fill(&mut queue, 3, 1, 0);
    assert_eq!(queue.clear().len(), 3);
    assert!(queue.next(Instant::now()).is_none());
    for turn in sent {
        end(&mut queue, turn.seat, Ended::Accepted, 0);
    }
    assert!(queue.is_idle());
}

#[test]
fn no_more_is_held_for_a_slow_endpoint_than_it_takes_in_time() {
    let mut queue = proven();
    fill(&mut queue, 1, 200, 0);
    take_all(&mut queue);
    let mut time_out = || {
        let known = queue.sent(seat(1, EndpointStanding::Good), Ended::TimedOut, 15_000);
        (
            known.map(|(_, terms)| terms.most),
            queue.shed(&endpoint(1)).len(),
        )
    };
    // One place, half a minute, 15 s each; the last attempt counts for an eighth so far.
    let (slow, least) = (QUEUED_PER_SLOW_ENDPOINT, QUEUED_PER_TROUBLED_ENDPOINT);
    assert_eq!(time_out(), (Some(slow), 200 - 8 - slow));
    assert_eq!(time_out(), (Some(least), slow - least));
    assert_eq!(time_out(), (None, 0));
    // It may hold the most again once it answers quickly.
    let known = queue.sent(seat(1, EndpointStanding::Good), Ended::Accepted, 20);
    assert_eq!(known.unwrap().1.most, QUEUED_PER_ENDPOINT);
}

#[test]
fn a_quick_endpoint_keeps_all_its_room() {
    let mut queue = proven();
    fill(&mut queue, 1, 100, 0);
    for took_ms in [0, 5, 300, 450, 450, 450] {
        let turn = queue.next(Instant::now()).unwrap();
        assert_eq!(queue.sent(turn.seat, Ended::Accepted, took_ms), None);
    }
}

/// How many attempts begin `ms` milliseconds after `start`.
fn begun(queue: &mut FairQueue, start: Instant, ms: u64) -> usize {
    let now = start + Duration::from_millis(ms);
    std::iter::from_fn(|| queue.next(now)).count()
}

fn limited(queue: &mut FairQueue, to: u16, count: usize, per_second: u32) {
    for _ in 0..count {
        queue.add(LeasedDelivery {
            per_second: Some(per_second),
            ..delivery(to, 0, 0)
        });
    }
}

#[test]
fn a_rate_limit_spaces_attempts_even_after_a_pause() {
    let mut queue = proven();
    prove(&mut queue, 0, 2);
    let start = Instant::now();
    limited(&mut queue, 1, 6, 4);
    fill(&mut queue, 2, 3, 0);
    for (ms, attempts) in [
        (0, 4),
        (0, 0),
        (249, 0),
        (250, 1),
        (499, 0),
        // A second late, and still not two at once.
        (1_500, 1),
        (1_749, 0),
        (1_750, 1),
    ] {
        assert_eq!(begun(&mut queue, start, ms), attempts, "{ms}");
    }
    assert_eq!(
        queue.wake_at(),
        Some(start + Duration::from_millis(2_000)),
        "one still waits"
    );
}

#[test]
fn a_rate_limit_outlives_an_empty_queue_and_ends_with_the_first_delivery_without_one() {
    let mut queue = proven();
    let start = Instant::now();
    limited(&mut queue, 1, 1, 1);
    assert_eq!(begun(&mut queue, start, 0), 1);
    finish(&mut queue, 1, Ended::Accepted);
    assert!(queue.is_idle());
    limited(&mut queue, 1, 1, 1);
    assert_eq!(begun(&mut queue, start, 999), 0);
    fill(&mut queue, 1, 4, 0);
    assert_eq!(begun(&mut queue, start, 1_000), 5);
}

#[test]
fn no_more_is_held_for_a_limited_endpoint_than_may_begin_in_time() {
    let mut queue = proven();
    limited(&mut queue, 1, 300, 2);
    assert_eq!(begun(&mut queue, Instant::now(), 0), 1);
    // Two a second for half a minute is 60, rounded down to a power of two.
    let known = queue.sent(seat(1, EndpointStanding::Good), Ended::Accepted, 5);
    assert_eq!(known.unwrap().1.most, 32);
    assert_eq!(queue.shed(&endpoint(1)).len(), 299 - 32);
}

#[test]
fn moments_gone_by_are_forgotten() {
    let mut queue = queue();
    let start = Instant::now();
    for to in 0..3_000 {
        limited(&mut queue, to, 1, 1_000);
        assert_eq!(begun(&mut queue, start, u64::from(to) * 10), 1);
        end(
            &mut queue,
            seat(to, EndpointStanding::New),
            Ended::Accepted,
            0,
        );
        assert!(queue.paces.len() <= PACES + 1);
    }
}
