//! New, slow and dead endpoints: the places they take, what is remembered of them, and the effect on others.

use bookguard_core::limits::{
    ATTEMPT_MS_LEAST, ENDPOINTS_REMEMBERED, FULL_PATIENCE_EVERY, IN_FLIGHT_PER_NEW_ENDPOINT,
};

use super::*;

/// Queues `count` deliveries for each of 250 partners' 20 endpoints, none of which ever answers.
fn crowd(queue: &mut FairQueue, count: usize) {
    for of in 0..250 {
        for one in 0..20 {
            fill_of(queue, of, of * 20 + one, count);
        }
    }
}

#[test]
fn dead_endpoints_take_no_place_from_healthy_ones() {
    let mut queue = queue();
    prove(&mut queue, 300, 6_000);
    crowd(&mut queue, 10);
    // They take all places for new endpoints until they have timed out, and then those for troubled ones.
    let mut held = take_all(&mut queue);
    assert!(held.len() <= IN_FLIGHT_NEW);
    for _ in 0..30 {
        for turn in std::mem::take(&mut held) {
            let ms = u64::try_from(turn.patience.as_millis()).unwrap();
            end(&mut queue, turn.seat, Ended::TimedOut, ms);
        }
        held = take_all(&mut queue);
        assert!(held.len() <= IN_FLIGHT_NEW + IN_FLIGHT_TROUBLED);
        // At any moment, a healthy endpoint gets all its places, and each newly registered one its first.
        fill_of(&mut queue, 300, 6_000, IN_FLIGHT_PER_ENDPOINT);
        let good = take_all(&mut queue);
        assert_eq!(good.len(), IN_FLIGHT_PER_ENDPOINT);
        assert!(partners(&good).iter().all(|of| *of == partner(300)));
        for turn in good {
            end(&mut queue, turn.seat, Ended::Accepted, 5);
        }
        held.extend(take_all(&mut queue));
    }
}

#[test]
fn a_new_endpoint_has_a_place_at_once_beside_250_partners_whose_endpoints_are_dead() {
    let mut queue = queue();
    // The partners take what they can get, one after the other.
    for of in 0..250 {
        for one in 0..20 {
            fill_of(&mut queue, of, of * 20 + one, 2);
        }
        let held = take_all(&mut queue).len();
        assert!(held > 0, "every partner has a place: {of}");
    }
    fill_of(&mut queue, 300, 6_000, 1);
    assert_eq!(partners(&take_all(&mut queue)), [partner(300)]);
}

#[test]
fn a_new_endpoint_has_few_places_until_it_accepts_something() {
    let mut queue = queue();
    fill(&mut queue, 1, 40, 0);
    let turns = take_all(&mut queue);
    assert_eq!(turns.len(), IN_FLIGHT_PER_NEW_ENDPOINT);
    let known = queue.sent(turns[0].seat, Ended::Accepted, 10);
    let terms = EndpointAllowance {
        standing: EndpointStanding::Good,
        most: QUEUED_PER_ENDPOINT,
    };
    assert_eq!(known, Some((partner(0), terms)));
    assert_eq!(take_all(&mut queue).len(), 1, "two places, one was in use");
    queue.sent(turns[1].seat, Ended::Accepted, 10);
    assert_eq!(take_all(&mut queue).len(), 3, "four places, one was in use");
}

#[test]
fn a_new_endpoint_that_works_leaves_the_pool_of_new_ones() {
    let mut queue = queue();
    crowd(&mut queue, 1);
    fill_of(&mut queue, 300, 6_000, 3);
    let turns = take_all(&mut queue);
    let own: Vec<_> = turns
        .iter()
        .filter(|turn| turn.delivery.partner_id == partner(300))
        .collect();
    assert_eq!(own.len(), 1, "the others of its places are taken");
    end(&mut queue, own[0].seat, Ended::Accepted, 5);
    let next = take_all(&mut queue);
    let good = next
        .iter()
        .filter(|turn| turn.seat.pool == EndpointStanding::Good);
    assert_eq!(good.count(), 2);
}

#[test]
fn trouble_outlives_the_queue() {
    let mut queue = queue();
    for most in [IN_FLIGHT_PER_NEW_ENDPOINT, 1, 1] {
        fill(&mut queue, 1, 5, 0);
        let turns = take_all(&mut queue);
        assert_eq!(turns.len(), most);
        queue.clear();
        for turn in turns {
            end(&mut queue, turn.seat, Ended::TimedOut, 15_000);
        }
        assert!(queue.is_idle());
    }
    // A healthy endpoint keeps its places too, and an unknown one is judged by what the store says.
    let mut queue = proven();
    assert!(queue.is_idle());
    fill(&mut queue, 1, 20, 0);
    assert_eq!(take_all(&mut queue).len(), IN_FLIGHT_PER_ENDPOINT);
    for _ in 0..5 {
        queue.add(LeasedDelivery {
            failing: true,
            ..delivery(2, 0, 0)
        });
    }
    assert_eq!(take_all(&mut queue).len(), 1);
}

#[test]
fn the_memory_is_bounded_and_troubled_endpoints_evict_only_each_other() {
    let mut queue = proven();
    let dead = u16::try_from(2 * ENDPOINTS_REMEMBERED).unwrap();
    let mut forgotten = Vec::new();
    for to in 2..dead + 2 {
        fill(&mut queue, to, 1, 0);
        let turn = queue.next(Instant::now()).unwrap();
        end(&mut queue, turn.seat, Ended::TimedOut, 15_000);
        forgotten.extend(queue.forgotten());
    }
    let left = usize::from(dead) - forgotten.len();
    assert!(left <= ENDPOINTS_REMEMBERED, "{left}");
    let half = ENDPOINTS_REMEMBERED / 2;
    let youngest = u16::try_from(half).unwrap() + 1;
    assert_eq!(
        forgotten[..half].iter().max(),
        Some(&endpoint(youngest)),
        "the oldest go first"
    );
    fill(&mut queue, 1, 20, 0);
    assert_eq!(take_all(&mut queue).len(), IN_FLIGHT_PER_ENDPOINT);
}

#[test]
fn patience_halves_with_each_time_out_and_is_full_now_and_then() {
    let mut queue = queue();
    let mut patience = Vec::new();
    let attempt = |queue: &mut FairQueue, ended, took_ms| {
        fill(queue, 1, 1, 0);
        let turn = queue.next(Instant::now()).unwrap();
        end(queue, turn.seat, ended, took_ms);
        turn.patience.as_millis()
    };
    for _ in 0..=2 * FULL_PATIENCE_EVERY {
        patience.push(attempt(&mut queue, Ended::TimedOut, ATTEMPT_MS));
    }
    let (full, least) = (u128::from(ATTEMPT_MS), u128::from(ATTEMPT_MS_LEAST));
    assert_eq!(patience[..5], [full, full / 2, full / 4, least, least]);
    let again: Vec<_> = (0..patience.len())
        .filter(|at| patience[*at] == full)
        .collect();
    assert_eq!(again, [0, 8, 16]);
    // An attempt with full patience finds that the endpoint needs ten seconds. From then on it gets them, whatever fails.
    for _ in 0..FULL_PATIENCE_EVERY - 1 {
        assert!(attempt(&mut queue, Ended::TimedOut, 3_000) < 10_000);
    }
    assert_eq!(attempt(&mut queue, Ended::Accepted, 10_000), full);
    for _ in 0..20 {
        assert!(attempt(&mut queue, Ended::TimedOut, 15_000) > 10_000);
    }
}

#[test]
fn a_new_address_has_no_history() {
    let mut queue = queue();
    let mut attempt = |moved_at| {
        fill(&mut queue, 1, 1, 0);
        let Turn { seat, patience, .. } = queue.next(Instant::now()).unwrap();
        let seat_there = AttemptSeat { moved_at, ..seat };
        end(&mut queue, seat_there, Ended::TimedOut, ATTEMPT_MS);
        (seat.moved_at, patience)
    };
    let moved_at = Some(Timestamp::from_ms(5));
    assert_eq!(attempt(None), (None, FULL));
    assert_eq!(attempt(None), (None, FULL / 2));
    assert_eq!(attempt(moved_at), (None, FULL / 4));
    assert_eq!(attempt(moved_at), (moved_at, FULL / 2));
    // An attempt at the former address, which ends only now, puts nothing back.
    assert_eq!(attempt(None), (moved_at, FULL / 4));
    assert_eq!(attempt(moved_at), (moved_at, FULL / 4));
}

#[test]
fn one_time_out_is_an_accident_and_two_in_a_row_are_trouble() {
    let mut queue = proven();
    fill(&mut queue, 1, 40, 0);
    let turns = take_all(&mut queue);
    let standing = |queue: &FairQueue| queue.queues[&endpoint(1)].record.terms().standing;
    queue.sent(turns[0].seat, Ended::TimedOut, 15_000);
    assert_eq!(standing(&queue), EndpointStanding::Good);
    queue.sent(turns[1].seat, Ended::Accepted, 10);
    queue.sent(turns[2].seat, Ended::TimedOut, 15_000);
    queue.sent(turns[3].seat, Ended::TimedOut, 15_000);
    assert_eq!(standing(&queue), EndpointStanding::Troubled);
    // Accepting late or refusing does not make it good; accepting in time does, at once.
    queue.sent(turns[4].seat, Ended::Accepted, 5_000);
    queue.sent(turns[5].seat, Ended::Refused, 10);
    assert_eq!(standing(&queue), EndpointStanding::Troubled);
    queue.sent(turns[6].seat, Ended::Accepted, 10);
    assert_eq!(standing(&queue), EndpointStanding::Good);
}

#[test]
fn one_that_is_slow_or_refuses_everything_is_in_trouble_too() {
    for (ended, took_ms, attempts) in [
        (Ended::Accepted, 3_000, 9),
        (Ended::Accepted, 60_000, 1),
        (Ended::Refused, 5, 10),
    ] {
        let mut queue = proven();
        let mut until = 0;
        loop {
            fill(&mut queue, 1, 2, 0);
            let turn = queue.next(Instant::now()).unwrap();
            if turn.seat.pool == EndpointStanding::Troubled {
                break;
            }
            end(&mut queue, turn.seat, ended, took_ms);
            until += 1;
        }
        assert_eq!(until, attempts, "{ended:?} {took_ms}");
    }
}
