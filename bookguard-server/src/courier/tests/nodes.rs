//! Couriers of several nodes on one database: who delivers what when a node stops, dies, or has a different clock.

use bookguard_core::engine::command::{Command, HeldDelivery, Reclaim};
use bookguard_core::features::bookings::ProtectBooking;
use bookguard_core::features::endpoints::DeleteEndpoint;
use bookguard_core::features::erasures;
use bookguard_core::limits::{
    ENDPOINTS_EXAMINED, ENDPOINTS_PER_PARTNER, IN_FLIGHT_PER_NEW_ENDPOINT,
};

use super::bench::{SharedDatabase, waiting};
use super::*;

/// Receives this many requests and returns their event ids.
async fn events(receiver: &Receiver, count: usize) -> Vec<String> {
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        events.push(receiver.hit().await.event_id());
    }
    events
}

fn distinct(events: &[String]) -> HashSet<&String> {
    events.iter().collect()
}

/// Runs a test on a file, and on PostgreSQL if it is installed.
async fn on_every_engine(test: impl AsyncFn(Bench)) {
    test(Bench::new().await).await;
    if let Some(place) = SharedDatabase::server().await {
        println!("on PostgreSQL:");
        test(Bench::on(place).await).await;
    }
}

#[tokio::test]
async fn a_node_that_stops_gives_back_what_it_has_not_sent_and_another_sends_it_at_once() {
    on_every_engine(async |mut bench| {
        let mut replies = vec![Reply::Hang; IN_FLIGHT_PER_NEW_ENDPOINT];
        replies.push(OK);
        let (receiver, _) = bench.receiver(&replies).await;
        let courier = bench.node.courier(true);
        bench.book(20).await;
        let in_flight = events(&receiver, IN_FLIGHT_PER_NEW_ENDPOINT).await;
        courier.stop(Duration::from_millis(1)).await;

        // The clock stands still, so nothing here waits for a lease to end.
        let mut other = bench.other_node(&bench.clock).await;
        let other_courier = other.courier(true);
        let given_back = events(&receiver, 20 - IN_FLIGHT_PER_NEW_ENDPOINT).await;
        for event_id in &given_back {
            is_delivered(&other_courier, event_id).await;
            assert_eq!(bench.event(event_id).await.attempts.len(), 1);
        }
        assert!(distinct(&given_back).is_disjoint(&distinct(&in_flight)));

        // Nobody knows whether the deliveries in flight arrived, so only they are sent again, when their leases end.
        assert_eq!(receiver.surplus().await, 0);
        bench.advance(LEASE_MS);
        let again = events(&receiver, IN_FLIGHT_PER_NEW_ENDPOINT).await;
        assert_eq!(distinct(&again), distinct(&in_flight));
        for event_id in &again {
            is_delivered(&other_courier, event_id).await;
        }
        ends(&other_courier, &receiver).await;
    })
    .await;
}

#[tokio::test]
async fn another_node_sends_a_killed_nodes_deliveries_and_only_those_in_flight_repeat() {
    on_every_engine(async |mut bench| {
        let mut replies = vec![Reply::Hang; IN_FLIGHT_PER_NEW_ENDPOINT];
        replies.push(OK);
        let (receiver, endpoint_id) = bench.receiver(&replies).await;
        let courier = bench.node.courier(true);
        bench.book(100).await;
        let sent = events(&receiver, IN_FLIGHT_PER_NEW_ENDPOINT).await;
        // Dies between sending and settling, without telling any node.
        drop(courier);

        let mut other = bench.other_node(&bench.clock).await;
        let other_courier = other.courier(true);
        bench.advance(LEASE_MS - 1);
        let service = Arc::clone(&other.service);
        let lapsed = async move |now| {
            let service = Arc::clone(&service);
            waiting(move || service.reader().unwrap().has_lapsed_leases(now)).await
        };
        let end = Timestamp::from_ms(START_MS + LEASE_MS);
        assert_eq!(lapsed(end.plus_ms(-1)).await, Ok(false));
        assert_eq!(lapsed(end).await, Ok(true));
        bench.set(end);
        let again = events(&receiver, 100).await;
        assert_eq!(distinct(&again).len(), 100, "nothing is lost");
        assert!(distinct(&sent).is_subset(&distinct(&again)));
        for event_id in &again {
            is_delivered(&other_courier, event_id).await;
            assert_eq!(bench.event(event_id).await.attempts.len(), 1);
        }
        other_courier.stop(PATIENCE).await;
        let surplus = receiver.surplus().await;
        assert_eq!(surplus, 0, "100 and those that were under way");
        assert_eq!(other.outbox.count(&endpoint_id), 0);
    })
    .await;
}

#[tokio::test]
async fn nodes_that_claim_at_once_share_what_is_due_and_nothing_goes_out_twice() {
    on_every_engine(async |bench| {
        const EVENTS: usize = 600;
        let receivers = [Receiver::start(&[OK]).await, Receiver::start(&[OK]).await];
        for receiver in &receivers {
            bench.endpoint(&receiver.url).await;
        }
        bench.book(EVENTS).await;
        // What found no room in the first node's memory and what it held are due at the same moment.
        bench.advance(LEASE_MS);
        let mut couriers = Vec::new();
        for _ in 0..3 {
            couriers.push(bench.other_node(&bench.clock).await.courier(true));
        }
        for receiver in &receivers {
            let delivered = events(receiver, EVENTS).await;
            assert_eq!(distinct(&delivered).len(), EVENTS);
            for event_id in &delivered {
                is_delivered(&couriers[0], event_id).await;
            }
        }
        for courier in &couriers {
            courier.stop(PATIENCE).await;
        }
        for receiver in &receivers {
            assert_eq!(receiver.surplus().await, 0);
        }
    })
    .await;
}

#[tokio::test]
async fn more_endpoints_than_are_looked_at_together_are_all_served() {
    const PARTNERS: usize = ENDPOINTS_EXAMINED as usize / ENDPOINTS_PER_PARTNER + 1;
    on_every_engine(async |bench| {
        let receiver = Receiver::start(&[OK]).await;
        for _ in 0..PARTNERS {
            let partner = bench.other_partner().await;
            for number in 0..ENDPOINTS_PER_PARTNER {
                endpoint_of(&partner, &format!("{}{number}", receiver.url)).await;
            }
            book(&partner, 1).await;
        }
        // The node that holds them never sends.
        bench.advance(LEASE_MS);
        let mut other = bench.other_node(&bench.clock).await;
        let _courier = other.courier(true);
        let sent = events(&receiver, PARTNERS * ENDPOINTS_PER_PARTNER).await;
        assert_eq!(distinct(&sent).len(), PARTNERS);
        assert_eq!(receiver.surplus().await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_manual_retry_of_what_another_node_is_sending_waits_for_its_outcome() {
    on_every_engine(async |mut bench| {
        let told = Arc::new(Notify::new());
        let (receiver, _) = bench.receiver(&[Reply::Wait(Arc::clone(&told)), OK]).await;
        let courier = bench.node.courier(true);
        bench.book(1).await;
        let event_id = receiver.hit().await.event_id();

        let mut other = bench.other_node(&bench.clock).await;
        let other_courier = other.courier(true);
        let session = bench.session_on(&other);
        let begun = call::<RetryEvent>(&session, &[&event_id], "").await;
        assert_eq!(begun.retry_count, 1);
        let delivered = is_delivered(&other_courier, &event_id);
        tokio::join!(delivered, async { told.notify_one() });
        assert_eq!(bench.event(&event_id).await.attempts.len(), 1);
        for courier in [&courier, &other_courier] {
            courier.stop(PATIENCE).await;
        }
        assert_eq!(receiver.surplus().await, 0);
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_deleted_on_another_node_gets_nothing_more_after_three_seconds() {
    on_every_engine(async |mut bench| {
        let told = [(); IN_FLIGHT_PER_NEW_ENDPOINT].map(|()| Arc::new(Notify::new()));
        let mut replies: Vec<Reply> = told.iter().cloned().map(Reply::Wait).collect();
        replies.push(OK);
        let (receiver, endpoint_id) = bench.receiver(&replies).await;
        let courier = bench.node.courier(true);
        bench.book(20).await;
        let in_flight = events(&receiver, IN_FLIGHT_PER_NEW_ENDPOINT).await;

        let other = bench.other_node(&bench.clock).await;
        let session = bench.session_on(&other);
        call::<DeleteEndpoint>(&session, &[&endpoint_id.to_string()], "").await;
        bench.advance(3_000);
        for told in &told {
            told.notify_one();
        }
        // Deliveries in flight are settled, and the rest are given back without a stop.
        let settled = async {
            while bench.node.outbox.count(&endpoint_id) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.unwrap();
        for event_id in &in_flight {
            assert!(bench.event(event_id).await.attempts[0].delivered);
        }
        assert_eq!(receiver.surplus().await, 0);
        courier.stop(PATIENCE).await;
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_a_deleted_endpoint_is_dropped_and_is_no_damage() {
    on_every_engine(async |mut bench| {
        let (receiver, endpoint_id) = bench.receiver(&[Reply::Status(500), Reply::Hang]).await;
        let courier = bench.node.courier(false);
        bench.book(1).await;
        let failed = receiver.hit().await.event_id();
        has_failed(&courier, &failed).await;
        bench.book(1).await;
        receiver.hit().await;
        courier.stop(Duration::from_millis(1)).await;
        call::<DeleteEndpoint>(&bench.session(), &[&endpoint_id.to_string()], "").await;
        bench.advance(LEASE_MS);
        let service = Arc::clone(&bench.node.service);
        let now = service.clock().now();
        let from = Reclaim::EndedBy(now);
        done(&service, ReclaimDeliveries { from }).await;
        let passed = async || {
            let service = Arc::clone(&service);
            let look = move || service.reader().unwrap().endpoints_with_due(now, None);
            waiting(look).await.unwrap().deleted
        };
        assert_eq!(passed().await, [endpoint_id]);

        let mut other = bench.other_node(&bench.clock).await;
        let other_courier = other.courier(true);
        let dropped = async {
            while !passed().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, dropped).await.unwrap();
        let event = bench.event(&failed).await.event;
        assert_eq!(event.next_attempt_at, None);
        bench.is_clean().await;
        ends(&other_courier, &receiver).await;
    })
    .await;
}

#[tokio::test]
async fn a_node_whose_clock_is_far_ahead_sends_too_early_and_only_one_outcome_counts() {
    on_every_engine(async |mut bench| {
        let told = Arc::new(Notify::new());
        let (receiver, _) = bench
            .receiver(&[Reply::Wait(Arc::clone(&told)), Reply::Status(500)])
            .await;
        let courier = bench.node.courier(true);
        bench.book(1).await;
        let event_id = receiver.hit().await.event_id();

        let ahead = Arc::new(std::sync::atomic::AtomicI64::new(START_MS + 2 * LEASE_MS));
        let mut other = bench.other_node(&ahead).await;
        let other_courier = other.courier(true);
        assert_eq!(receiver.hit().await.event_id(), event_id);
        has_failed(&other_courier, &event_id).await;
        let settled = bench.event(&event_id).await;
        assert_eq!(settled.attempts.len(), 1);
        // The first attempt succeeds too late: what the second node wrote stands. By the first node's clock, the retry may be too far
        // ahead; then it is due at once for the second.
        told.notify_one();
        courier.stop(PATIENCE).await;
        let event = bench.event(&event_id).await;
        assert_ne!(event.event.status, DeliveryStatus::Delivered);
        assert_eq!(event.attempts[..1], settled.attempts);
        assert!(settled.event.next_attempt_at.is_some());
        other_courier.stop(PATIENCE).await;
    })
    .await;
}

async fn done<R: Send + 'static>(service: &Service, command: impl Command<Reply = R>) {
    let command = service.envelope(command);
    service.submit_patiently(command).await.unwrap();
}

/// Waits until the event's next attempt is due within `ms` milliseconds.
async fn next_within(bench: &Bench, event_id: &str, ms: i64) {
    let sooner = async {
        loop {
            let next = bench.event(event_id).await.event.next_attempt_at;
            let latest = bench.node.service.clock().now().plus_ms(ms);
            if next.is_some_and(|next| next <= latest) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, sooner).await.unwrap();
}

#[tokio::test]
async fn a_retry_waits_no_longer_because_the_clock_was_set_back() {
    const HOURS: i64 = 2 * 3_600_000;
    on_every_engine(async |mut bench| {
        let failing = Reply::Status(500);
        let (receiver, _) = bench.receiver(&[failing.clone(), failing, OK]).await;
        let courier = bench.node.courier(true);
        bench.book(1).await;
        let event_id = receiver.hit().await.event_id();
        has_failed(&courier, &event_id).await;
        // The schedule says five seconds, plus or minus a fifth. Setting the clock back does not make the retry come sooner
        // either.
        bench.advance(-HOURS);
        next_within(&bench, &event_id, 6_000).await;
        bench.advance(3_900);
        assert_eq!(receiver.surplus().await, 0);
        bench.advance(2_200);
        assert_eq!(receiver.hit().await.event_id(), event_id);
        has_failed(&courier, &event_id).await;
        courier.stop(PATIENCE).await;

        // The clock is set back while no courier runs.
        bench.advance(-HOURS);
        let mut other = bench.other_node(&bench.clock).await;
        let courier = other.courier(true);
        next_within(&bench, &event_id, 360_000).await;
        bench.advance(360_000);
        assert_eq!(receiver.hit().await.event_id(), event_id);
        is_delivered(&courier, &event_id).await;
        bench.is_clean().await;
        courier.stop(PATIENCE).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_given_back_or_taken_back_is_no_damage() {
    on_every_engine(async |mut bench| {
        let service = Arc::clone(&bench.node.service);
        let replies = [Reply::Status(500), Reply::Hang];
        let (receiver, endpoint_id) = bench.receiver(&replies).await;
        let courier = bench.node.courier(false);
        bench.book(1).await;
        let failed = receiver.hit().await.event_id();
        has_failed(&courier, &failed).await;

        // Never attempted, and given back some time after it was created.
        bench.book(20).await;
        receiver.hit().await;
        bench.advance(1_000);
        courier.stop(Duration::from_millis(1)).await;
        bench.is_clean().await;
        // Held by a node that is gone.
        bench.advance(LEASE_MS);
        let ended = service.clock().now();
        let from = Reclaim::EndedBy(ended);
        done(&service, ReclaimDeliveries { from }).await;
        let now = service.clock().now();
        let store = Arc::clone(&service);
        let lapsed = waiting(move || store.reader().unwrap().has_lapsed_leases(now)).await;
        assert_eq!(lapsed, Ok(false));
        bench.is_clean().await;
        // A retry that was claimed long after it was due, and given back.
        bench.advance(3_600_000);
        let claim = ClaimDeliveries {
            lease: 9,
            endpoints: vec![(endpoint_id, 100)],
        };
        done(&service, claim).await;
        bench.is_clean().await;
        let event_id = EventId::parse(&failed).unwrap();
        let held = HeldDelivery {
            event_id,
            endpoint_id,
            lease: 9,
        };
        done(&service, ReleaseDeliveries { held: vec![held] }).await;
        let next = bench.event(&failed).await.event.next_attempt_at;
        assert_eq!(next, Some(service.clock().now()));
        bench.is_clean().await;
    })
    .await;
}

#[tokio::test]
async fn what_another_node_erases_while_it_waits_here_is_not_sent() {
    on_every_engine(async |mut bench| {
        let (receiver, _) = bench.receiver(&[OK]).await;
        bench.book(1).await;
        let held = bench.node.peek().await.swap_remove(0);
        let booking_id = held.booking_id.unwrap().to_string();
        let erased = held.event_id.to_string();
        let other = bench.other_node(&bench.clock).await;
        let asked = r#"{"party":"everybody","legalBasis":"objection"}"#;
        call::<EraseValues>(&bench.session_on(&other), &[&booking_id], asked).await;
        let service = Arc::clone(&bench.node.service);
        waiting(move || erasures::follow(&service)).await.unwrap();
        // What comes later of the same booking is whole.
        call::<ProtectBooking>(&bench.session(), &[&booking_id], "").await;
        let courier = bench.node.courier(true);
        let sent = receiver.hit().await.event_id();
        assert_ne!(sent, erased);
        is_delivered(&courier, &sent).await;
        has_failed(&courier, &erased).await;
        ends(&courier, &receiver).await;
    })
    .await;
}
