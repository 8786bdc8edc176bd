//! The courier with a real service, a real SQLite file, and receivers on this machine. Tests set the clock and never wait for
//! it.

mod bench;
mod nodes;
mod receiver;

use std::cell::Cell;
use std::collections::HashSet;

use bookguard_core::features::deliveries::{
    ClaimDeliveries, ReclaimDeliveries, ReleaseDeliveries, SettleDelivery, reclaim_all,
};
use bookguard_core::features::endpoints::CreateEndpoint;
use bookguard_core::features::erasures::EraseValues;
use bookguard_core::features::events::{RetryEvent, RetryStatus};
use bookguard_core::limits::{
    IN_FLIGHT_NEW, IN_FLIGHT_PER_NEW_ENDPOINT, LEASE_MS, LEASE_SKEW_MS, QUEUED_PER_ENDPOINT,
    RETRIES_WAITING,
};
use bookguard_core::lines::{Line, LineSubscriber, Threshold, hear_here};
use bookguard_core::model::{DeliveryStatus, PartnerId, Timestamp};
use bookguard_core::webhook::{
    Attempt, FailureClass, Phase, StandardHeaders, TOLERANCE, verify, verify_standard,
};
use tokio::sync::Notify;

use super::*;
use bench::{
    Bench, START_MS, book, call, endpoint_of, ends, has_failed, is_delivered, outcome_of, waiting,
};
use receiver::{PATIENCE, Receiver, Reply};

const OK: Reply = Reply::Status(200);

#[tokio::test]
async fn a_booking_is_delivered_once_with_signatures_that_verify() {
    let mut bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[OK]).await;
    let courier = bench.node.courier(true);
    bench.book(1).await;

    let hit = receiver.hit().await;
    let event_id = hit.event_id();
    assert_eq!(hit.header("webhook-id"), event_id);
    let (secret, body) = (&bench.secret, hit.body.as_bytes());
    verify(secret, hit.header("x-service-signature"), body).unwrap();
    let standard = StandardHeaders {
        id: hit.header("webhook-id"),
        timestamp: hit.header("webhook-timestamp"),
        signature: hit.header("webhook-signature"),
    };
    verify_standard(secret, standard, body, START_MS / 1000, Some(TOLERANCE)).unwrap();

    is_delivered(&courier, &event_id).await;
    let event = bench.event(&event_id).await;
    assert_eq!(event.attempts.len(), 1);
    assert!(event.attempts[0].delivered);
    assert_eq!(
        event.attempts[0].started_at,
        Timestamp::from_ms(START_MS),
        "time comes from the service's clock"
    );
    ends(&courier, &receiver).await;
}

#[tokio::test]
async fn a_failed_delivery_is_due_again_exactly_when_its_schedule_says_so() {
    let mut bench = Bench::new().await;
    let (receiver, endpoint_id) = bench.receiver(&[Reply::Status(500), OK]).await;
    let courier = bench.node.courier(true);
    bench.book(1).await;
    let event_id = receiver.hit().await.event_id();
    has_failed(&courier, &event_id).await;
    let next = bench.event(&event_id).await.event.next_attempt_at.unwrap();

    bench.set(next.plus_ms(-1));
    assert_eq!(bench.due(next.plus_ms(-1)), []);
    assert_eq!(bench.due(next), [endpoint_id]);
    bench.set(next);
    assert_eq!(receiver.hit().await.event_id(), event_id);
    is_delivered(&courier, &event_id).await;
    let event = bench.event(&event_id).await;
    assert_eq!(event.event.next_attempt_at, None);
    let attempts = event.attempts.iter();
    let attempts: Vec<_> = attempts.map(|it| (it.started_at, it.delivered)).collect();
    let first = Timestamp::from_ms(START_MS);
    assert_eq!(attempts, [(first, false), (next, true)]);
}

#[tokio::test]
async fn a_410_disables_the_endpoint_and_nothing_more_is_sent_to_it() {
    let mut bench = Bench::new().await;
    let (receiver, endpoint_id) = bench.receiver(&[Reply::Status(410)]).await;
    let courier = bench.node.courier(true);
    bench.book(1).await;
    let event_id = receiver.hit().await.event_id();
    has_failed(&courier, &event_id).await;
    assert!(!bench.is_enabled(endpoint_id).await);
    let event = bench.event(&event_id).await;
    assert_eq!(event.event.next_attempt_at, None);
    assert_eq!(event.attempts[0].error, Some(FailureClass::Gone));
    bench.book(1).await;
    ends(&courier, &receiver).await;
}

#[tokio::test]
async fn what_is_erased_while_it_waits_here_is_not_sent() {
    let mut bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[OK]).await;
    bench.book(1).await;
    let held = bench.node.peek().await.swap_remove(0);
    let (erased, booking_id) = (held.event_id.to_string(), held.booking_id.unwrap());
    let asked = r#"{"party":"everybody","legalBasis":"objection"}"#;
    call::<EraseValues>(&bench.session(), &[&booking_id.to_string()], asked).await;
    bench.book(1).await;
    let courier = bench.node.courier(true);
    let sent = receiver.hit().await.event_id();
    assert_ne!(sent, erased);
    is_delivered(&courier, &sent).await;
    has_failed(&courier, &erased).await;
    ends(&courier, &receiver).await;
}

#[tokio::test]
async fn an_address_the_rules_refuse_is_never_connected_to() {
    let mut bench = Bench::new().await;
    for url in ["http://10.255.255.1/", "not an address"] {
        bench.endpoint(url).await;
    }
    bench.book(1).await;
    let event_id = bench.node.peek().await[0].event_id.to_string();
    let courier = bench.node.courier(false);
    has_failed(&courier, &event_id).await;
    let attempts = bench.event(&event_id).await.attempts;
    let errors: Vec<_> = attempts.iter().map(|attempt| attempt.error).collect();
    assert_eq!(errors, [Some(FailureClass::BlockedAddress); 2]);
}

#[tokio::test]
async fn an_endpoint_that_hangs_delays_no_other() {
    let mut bench = Bench::new().await;
    let dead = Receiver::start(&[Reply::Hang]).await;
    let alive = Receiver::start(&[OK]).await;
    bench.endpoint(&dead.url).await;
    bench.endpoint(&alive.url).await;
    let _courier = bench.node.courier(true);
    let began = Instant::now();
    bench.book(200).await;
    let mut delivered = HashSet::new();
    for _ in 0..200 {
        assert!(delivered.insert(alive.hit().await.event_id()));
    }
    assert!(
        began.elapsed() < Duration::from_millis(ATTEMPT_MS),
        "all came before the dead endpoint's first attempt had ended"
    );
    assert!(dead.surplus().await <= IN_FLIGHT_PER_NEW_ENDPOINT);
}

#[tokio::test]
async fn the_dead_endpoints_of_other_partners_delay_nobody() {
    let mut bench = Bench::new().await;
    let dead = Receiver::start(&[Reply::Hang]).await;
    let alive = Receiver::start(&[OK]).await;
    bench.endpoint(&alive.url).await;
    let _courier = bench.node.courier(true);
    let mut others = Vec::new();
    for _ in 0..7 {
        let other = bench.other_partner().await;
        for number in 0..20 {
            endpoint_of(&other, &format!("{}{number}", dead.url)).await;
        }
        others.push(other);
    }
    for other in &others {
        book(other, 8).await;
    }
    // More is queued for them than the node ever has in flight; by now they have as much as they ever get.
    for _ in 0..190 {
        dead.hit().await;
    }
    let began = Instant::now();
    bench.book(20).await;
    for _ in 0..20 {
        alive.hit().await;
    }
    // A partner that has just registered is served as well.
    let newcomer = bench.other_partner().await;
    let fresh = Receiver::start(&[OK]).await;
    endpoint_of(&newcomer, &fresh.url).await;
    book(&newcomer, 1).await;
    fresh.hit().await;
    assert!(
        began.elapsed() < Duration::from_millis(ATTEMPT_MS / 2),
        "all came before the first attempt at a dead endpoint had ended"
    );
    assert!(dead.surplus().await < IN_FLIGHT_NEW);
}

#[tokio::test]
async fn another_courier_claims_a_dead_couriers_deliveries_when_the_lease_ends() {
    let mut bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[OK]).await;
    bench.book(1).await;
    // The first node takes the delivery and then does nothing.
    let held = bench.node.peek().await.remove(0);
    assert_eq!(held.until, Timestamp::from_ms(START_MS + LEASE_MS));
    let event_id = held.event_id.to_string();

    let mut other = bench.other_node(&bench.clock).await;
    let courier = other.courier(true);
    assert_eq!(bench.due(held.until.plus_ms(-1)), []);
    bench.set(held.until);
    assert_eq!(receiver.hit().await.event_id(), event_id);
    is_delivered(&courier, &event_id).await;
    let settled = bench.event(&event_id).await;

    let late = Attempt {
        duration_ms: 1,
        phase: Phase::Connect,
        class: Some(FailureClass::ConnectionRefused),
        ..Attempt::begun(START_MS)
    };
    let service = &bench.node.service;
    let settle = SettleDelivery::of(&held, late, service.clock().now()).unwrap();
    let settle = service.envelope(settle);
    service.submit_patiently(settle).await.unwrap();
    assert_eq!(bench.event(&event_id).await, settled);
    assert_eq!(settled.attempts.len(), 1);
}

#[tokio::test]
async fn a_delivery_that_cannot_be_read_keeps_no_other_from_being_sent() {
    let bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[OK]).await;
    bench.book(2).await;
    // One is held until its lease ends, the other is due.
    let store = rusqlite::Connection::open(bench.place.folder.path().join("b.db")).unwrap();
    let damage = "UPDATE delivery SET phase = 9; \
                  UPDATE delivery SET lease = NULL WHERE event_id = (SELECT MIN(event_id) FROM delivery);";
    store.execute_batch(damage).unwrap();
    bench.book(1).await;
    let other = bench.other_partner().await;
    let others = Receiver::start(&[OK]).await;
    endpoint_of(&other, &others.url).await;
    book(&other, 1).await;
    // The first node has taken all and does nothing.
    bench.advance(LEASE_MS);
    let mut node = bench.other_node(&bench.clock).await;
    let courier = node.courier(true);
    others.hit().await;
    receiver.hit().await;
    courier.stop(PATIENCE).await;
    assert_eq!((receiver.surplus().await, others.surplus().await), (0, 0));
    // A server that begins alone does not wait until it can be read.
    let service = Arc::clone(&node.service);
    let begun = waiting(move || reclaim_all(&service));
    let begun = tokio::time::timeout(PATIENCE, begun).await;
    begun.unwrap().unwrap();
}

#[tokio::test]
async fn a_delivery_whose_lease_ends_too_soon_is_given_back_unsent() {
    let mut bench = Bench::new().await;
    let (receiver, endpoint_id) = bench.receiver(&[OK]).await;
    bench.book(1).await;
    let left = bench.node.peek().await[0].event_id.to_string();
    // An attempt that begins now could end after the delivery's lease, by the clock of a node that is ahead.
    let last_moment = LEASE_MS - i64::try_from(ATTEMPT_MS).unwrap() - LEASE_SKEW_MS;
    bench.advance(last_moment + 1);
    bench.book(1).await;
    let courier = bench.node.courier(false);
    assert_ne!(
        receiver.hit().await.event_id(),
        left,
        "the later one is sent"
    );
    ends(&courier, &receiver).await;
    assert_eq!(bench.event(&left).await.attempts, []);
    assert_eq!(bench.node.outbox.count(&endpoint_id), 0);
    let now = bench.node.service.clock().now();
    assert_eq!(bench.due(now), [endpoint_id]);
}

#[tokio::test]
async fn a_delivery_is_sent_up_to_the_last_moment_at_which_its_lease_covers_it() {
    let mut bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[OK]).await;
    bench.book(1).await;
    let event_id = bench.node.peek().await[0].event_id.to_string();
    bench.advance(LEASE_MS - i64::try_from(ATTEMPT_MS).unwrap() - LEASE_SKEW_MS);
    let courier = bench.node.courier(false);
    assert_eq!(receiver.hit().await.event_id(), event_id);
    courier.stop(PATIENCE).await;
}

#[tokio::test]
async fn a_backlog_of_twice_the_room_drains_and_every_event_comes_exactly_once() {
    const EVENTS: usize = 2 * QUEUED_PER_ENDPOINT;
    let mut bench = Bench::new().await;
    let (receiver, endpoint_id) = bench.receiver(&[OK]).await;
    bench.book(EVENTS).await;
    let courier = bench.node.courier(true);
    let mut delivered = HashSet::new();
    for _ in 0..EVENTS {
        assert!(delivered.insert(receiver.hit().await.event_id()));
    }
    for event_id in &delivered {
        is_delivered(&courier, event_id).await;
    }
    ends(&courier, &receiver).await;
    assert_eq!(bench.node.outbox.count(&endpoint_id), 0);
}

#[tokio::test]
async fn an_outcome_the_store_does_not_take_is_settled_later_and_not_sent_again() {
    static FAILED: Notify = Notify::const_new();
    let hear = |line: Line| {
        if line.message.contains("cannot be recorded at present") {
            FAILED.notify_one();
        }
    };
    let subscriber = LineSubscriber::new(Threshold::new(tracing::Level::INFO), hear);
    let _heard = hear_here(subscriber);
    let mut bench = Bench::new().await;
    let told = Arc::new(Notify::new());
    let (receiver, endpoint_id) = bench.receiver(&[Reply::Wait(Arc::clone(&told))]).await;
    let courier = bench.node.courier(true);
    bench.book(1).await;
    let event_id = receiver.hit().await.event_id();

    let store = rusqlite::Connection::open(bench.place.folder.path().join("b.db")).unwrap();
    let rename = |from, to| store.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"));
    rename("attempt", "elsewhere").unwrap();
    told.notify_one();
    FAILED.notified().await;
    let held = bench.node.outbox.count(&endpoint_id);
    assert_eq!(held, 1, "it is held until it is durable");
    rename("elsewhere", "attempt").unwrap();
    is_delivered(&courier, &event_id).await;
    assert_eq!(bench.event(&event_id).await.attempts.len(), 1);
    ends(&courier, &receiver).await;
    assert_eq!(bench.node.outbox.count(&endpoint_id), 0);
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_read_keeps_no_failure_at_another_from_being_settled() {
    let mut bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[Reply::Status(500)]).await;
    let other = format!(
        r#"{{"url":"{}other","events":["resolution.decided"]}}"#,
        receiver.url
    );
    call::<CreateEndpoint>(&bench.session(), &[], &other).await;
    bench.book(1).await;
    let store = rusqlite::Connection::open(bench.place.folder.path().join("b.db")).unwrap();
    let damage = "UPDATE endpoint SET body = '{}' WHERE body LIKE '%resolution.decided%'";
    assert_eq!(store.execute(damage, []), Ok(1));
    let courier = bench.node.courier(false);
    let event_id = receiver.hit().await.event_id();
    has_failed(&courier, &event_id).await;
    assert_eq!(bench.event(&event_id).await.attempts.len(), 1);
    courier.stop(PATIENCE).await;
}

#[tokio::test]
async fn the_operator_is_told_that_an_endpoint_cannot_be_read() {
    static TOLD: Notify = Notify::const_new();
    let hear = |line: Line| {
        if line.message.starts_with("webhooks cannot be sent")
            && line.message.contains("could not be read")
        {
            TOLD.notify_one();
        }
    };
    let subscriber = LineSubscriber::new(Threshold::new(tracing::Level::INFO), hear);
    let _heard = hear_here(subscriber);
    let mut bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[OK]).await;
    bench.book(1).await;
    let event_id = bench.node.peek().await[0].event_id.to_string();
    let store = rusqlite::Connection::open(bench.place.folder.path().join("b.db")).unwrap();
    let rename = |from, to| store.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"));
    rename("secret", "elsewhere").unwrap();
    let courier = bench.node.courier(false);
    let told = tokio::time::timeout(PATIENCE, TOLD.notified()).await;
    told.expect("the operator is told");
    has_failed(&courier, &event_id).await;
    rename("elsewhere", "secret").unwrap();
    let attempts = bench.event(&event_id).await.attempts;
    assert_eq!(attempts[0].error, Some(FailureClass::OurFault));
    ends(&courier, &receiver).await;
}

#[tokio::test]
async fn a_manual_retry_learns_its_outcome_even_from_a_courier_that_claims_nothing() {
    let mut bench = Bench::new().await;
    let (receiver, _) = bench
        .receiver(&[Reply::Status(503), Reply::Status(500), OK])
        .await;
    let courier = bench.node.courier(false);
    bench.book(1).await;
    let id = receiver.hit().await.event_id();
    has_failed(&courier, &id).await;
    for (count, status) in [(1, RetryStatus::Failed), (2, RetryStatus::Delivered)] {
        let begun = call::<RetryEvent>(&bench.session(), &[&id], "").await;
        let pending = (count, RetryStatus::Pending);
        assert_eq!((begun.retry_count, begun.retry_status), pending);
        let outcome = outcome_of(&courier, begun.event_id, PATIENCE).await;
        let outcome = outcome.unwrap().unwrap();
        assert_eq!((outcome.retry_count, outcome.retry_status), (count, status));
    }
}

#[tokio::test]
async fn waiting_for_an_outcome_ends_with_its_deadline() {
    let mut bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[Reply::Hang]).await;
    let courier = bench.node.courier(true);
    bench.book(1).await;
    let event_id = EventId::parse(&receiver.hit().await.event_id()).unwrap();
    let outcome = outcome_of(&courier, event_id, Duration::from_millis(1)).await;
    assert_eq!(outcome, Ok(None));
}

#[tokio::test]
async fn an_answer_looks_as_its_caller_says_and_no_more_wait_than_a_partner_may_have() {
    let mut bench = Bench::new().await;
    let courier = bench.node.courier(false);
    let partner_id = PartnerId::from_bytes([1; 16]);
    let event_id = EventId::from_bytes([2; 16]);
    let ready = || {
        courier
            .ready(Awaits::Outcome(partner_id, event_id))
            .unwrap()
    };
    let mut waiting: Vec<Awaited> = std::iter::from_fn(ready).take(100).collect();
    assert_eq!(waiting.len(), RETRIES_WAITING);
    let asked = Cell::new(0);
    let look = async |id: EventId| {
        asked.set(asked.get() + 1);
        Ok((asked.get() == 2).then_some(RetryResult {
            event_id: id,
            retry_status: RetryStatus::Delivered,
            retry_count: 1,
        }))
    };
    let awaited = waiting.pop().unwrap();
    let answer = courier.answer(awaited, PATIENCE, look).await.unwrap();
    let told: RetryResult = serde_json::from_slice(&answer.unwrap()).unwrap();
    assert_eq!((told.event_id, asked.get()), (event_id, 2));
    assert!(ready().is_some(), "what was answered waits no more");
}

#[tokio::test]
async fn stopping_lets_what_is_in_flight_end_and_settles_it() {
    let mut bench = Bench::new().await;
    let told = Arc::new(Notify::new());
    let (receiver, endpoint_id) = bench.receiver(&[Reply::Wait(Arc::clone(&told))]).await;
    let courier = bench.node.courier(true);
    bench.book(1).await;
    let event_id = receiver.hit().await.event_id();
    // Polled in this order: the courier is told to stop before the receiver answers.
    tokio::join!(courier.stop(PATIENCE), async { told.notify_one() });
    let event = bench.event(&event_id).await;
    assert_eq!(event.event.status, DeliveryStatus::Delivered);
    assert_eq!(bench.node.outbox.count(&endpoint_id), 0);
    courier.stop(PATIENCE).await;
}

#[tokio::test]
async fn stopping_ends_what_does_not_end_by_itself() {
    let mut bench = Bench::new().await;
    let (receiver, _) = bench.receiver(&[Reply::Hang]).await;
    let courier = bench.node.courier(true);
    bench.book(1).await;
    let event_id = receiver.hit().await.event_id();
    let stop = courier.stop(Duration::from_millis(1));
    tokio::time::timeout(PATIENCE, stop).await.unwrap();
    let event = bench.event(&event_id).await;
    assert_eq!(event.event.status, DeliveryStatus::Pending);
    assert_eq!(event.attempts, []);
}
