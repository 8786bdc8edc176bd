//! When the end of a delivery is an entry of its booking, and where that entry is.

use crate::features::fixture::*;
use crate::ledger::{Leaf, LeafKind};
use crate::policy::Actor;

fn moved(changes: &[Change]) -> DeliveryState {
    let mut states = changes.iter().filter_map(|change| match change {
        Change::DeliveryUpdated(_, state) => Some(*state),
        _ => None,
    });
    states.next().unwrap()
}

#[test]
fn an_end_is_recorded_once_and_an_acceptance_after_it_once_more() {
    use FailureClass::{Gone, Http5xx, OurFault, PayloadTooLarge};
    let week = limits::OUR_FAULTS_FREE_MS;
    let known = Some(4);
    // (failure, attempts that count so far, age, leaf so far, leaf afterwards)
    for (class, counted_attempts, age, before, after) in [
        (None, 0, 0, None, Some(20)),
        (None, 9, week + 1, None, Some(20)),
        (None, 0, 0, known, Some(20)),
        (Some(Http5xx), 0, 0, None, None),
        (Some(Http5xx), 8, 0, None, None),
        (Some(Http5xx), 9, 0, None, Some(20)),
        (Some(Http5xx), 10, 0, known, known),
        (Some(Http5xx), 0, 0, known, known),
        (Some(Gone), 0, 0, None, Some(20)),
        (Some(PayloadTooLarge), 0, 0, None, Some(20)),
        (Some(PayloadTooLarge), 0, 0, known, known),
        (Some(OurFault), 0, week, None, None),
        (Some(OurFault), 0, week + 1, None, None),
        (Some(OurFault), 9, week, None, None),
        (Some(OurFault), 9, week + 1, None, Some(20)),
    ] {
        let held = DeliveryState {
            attempts: counted_attempts,
            counted_attempts,
            settled_leaf: before,
            ..delivery(DeliveryPhase::Failed, Some(1), Some(77))
        };
        let ended = settle(NOW.plus_ms(age), 77, counted_attempts + 1, class);
        let changes = caused(&with_delivery(held), &ended);
        let told = (class, counted_attempts, age, before);
        assert_eq!(moved(&changes).settled_leaf, after, "{told:?}");
        let written = entries(&changes);
        assert_eq!(written.len(), usize::from(after == Some(20)), "{told:?}");
        for entry in written {
            assert_eq!(entry.fact.kind, LeafKind::WebhookSettled);
            assert_eq!((entry.index, entry.seq), (20, CHAIN.entries));
            assert_eq!(entry.booking_id, Some(id(6)));
            let leaf = Leaf::parse(&entry.leaf).unwrap();
            assert_eq!((leaf.prev, leaf.stream), (CHAIN.tip, CHAIN.stream));
            assert_eq!(leaf.t, NOW.plus_ms(age).ms());
        }
    }
}

#[test]
fn a_refusal_of_a_former_address_ends_no_delivery() {
    use FailureClass::{Gone, Http5xx, PayloadTooLarge};
    let (former, there) = ("https://former.example/", "https://example.com/7");
    for class in [Gone, PayloadTooLarge, Http5xx] {
        for (url, counted_attempts, ends) in [
            (former, 1, false),
            (former, 9, true),
            (there, 1, class != Http5xx),
        ] {
            let held = DeliveryState {
                attempts: counted_attempts,
                counted_attempts,
                ..delivery(DeliveryPhase::Failed, Some(1), Some(77))
            };
            let mut held = with_delivery(held);
            held.addresses.insert(id(7), there.to_owned());
            let mut settle = settling(NOW, 77, counted_attempts + 1, Some(class));
            settle.attempt.url = Some(url.to_owned());
            let changes = caused(&held, &Envelope::new(NOW, settle));
            let told = (class, url, counted_attempts);
            assert_eq!(moved(&changes).due.is_none(), ends, "{told:?}");
            assert_eq!(entries(&changes).len(), usize::from(ends), "{told:?}");
        }
    }
}

#[test]
fn what_is_recorded_is_what_happened() {
    let held = with_delivery(delivery(DeliveryPhase::Failed, Some(1), Some(77)));
    let changes = caused(&held, &settle(NOW, 77, 2, Some(FailureClass::Gone)));
    let values: serde_json::Value =
        serde_json::from_str(&entries(&changes)[0].fact.members).unwrap();
    let (event_id, endpoint_id): (EventId, EndpointId) = (id(5), id(7));
    let notification = serde_json::json!({
        "eventId": event_id,
        "type": "booking.created",
        "seq": 1,
        // The hash of the bytes `{}`.
        "bodySha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "endpointId": endpoint_id,
        "outcome": "given_up",
        "settledAt": NOW,
        "attempts": 2,
        "error": "gone",
    });
    assert_eq!(values, serde_json::json!({"notification": notification}));
}

#[test]
fn a_result_that_comes_too_late_records_nothing() {
    let held = with_delivery(delivery(DeliveryPhase::Pending, Some(1), Some(77)));
    for late in [
        settle(NOW, 78, 2, None),
        settle(NOW, 77, 1, None),
        settle(NOW, 77, 3, None),
    ] {
        assert!(caused(&held, &late).is_empty());
    }
}

#[test]
fn a_delivery_cannot_end_without_the_bookings_chain() {
    let mut held = with_delivery(delivery(DeliveryPhase::Pending, Some(1), Some(77)));
    held.chains.clear();
    assert_eq!(code_of(&held, &settle(NOW, 77, 2, None)), "internal");
    let failed = settle(NOW, 77, 2, Some(FailureClass::Timeout));
    let changes = caused(&held, &failed);
    let recorded = changes.iter().any(|c| matches!(c, Change::Entry(_)));
    assert!(
        !changes.is_empty() && !recorded,
        "nothing ended: {changes:?}"
    );
}

#[test]
fn entries_of_one_batch_follow_each_other_whatever_they_record() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let mut ends = Vec::new();
    for to in [7, 8] {
        work.deliveries.insert(
            (id(5), id(to)),
            delivery(DeliveryPhase::Pending, Some(1_000), Some(77)),
        );
        let when = at("2026-01-11T00:00:00Z");
        let end = settling(when, 77, 2, None);
        let record = end.record.map(|record| DeliveryRecord {
            booking_id: booking_id(),
            ..record
        });
        let end = SettleDelivery {
            endpoint_id: id(to),
            record,
            ..end
        };
        ends.push(Envelope::new(when, end));
    }
    let cancel = canceling(ask_to_cancel(Actor::Organizer, None));
    let later = at("2026-01-12T00:00:00Z");
    let (protect, cancel) = (
        Envelope::new(later, protecting()),
        Envelope::new(later, cancel),
    );
    let [first, second] = ends.try_into().unwrap();
    let mut chain = Vec::new();
    let mut add = |changes: Vec<Change>, work: &mut BatchState| {
        apply_all(work, &changes);
        chain.extend(entries(&changes).into_iter().cloned());
    };
    add(caused(&work, &first), &mut work);
    add(caused(&work, &protect), &mut work);
    add(caused(&work, &second), &mut work);
    add(caused(&work, &cancel), &mut work);
    let kinds: Vec<&str> = chain.iter().map(|entry| entry.fact.kind.as_str()).collect();
    let expected = [
        "webhook.settled",
        "booking.protected",
        "webhook.settled",
        "booking.canceled",
        "resolution.created",
    ];
    assert_eq!(kinds, expected);
    let mut tip = CHAIN.tip;
    for (place, entry) in (0..).zip(&chain) {
        let leaf = Leaf::parse(&entry.leaf).unwrap();
        assert_eq!(
            (leaf.prev, leaf.seq, entry.index),
            (tip, 1 + place, 10 + place)
        );
        tip = entry.hash;
    }
    assert_eq!(work.chains[&booking_id()].tip, tip);
    let protected = work.bookings[&booking_id()].protected;
    assert_eq!(
        protected,
        Some(chain[1].place()),
        "its own entry, whatever follows"
    );
}

#[test]
fn an_event_goes_to_a_limited_number_of_endpoints() {
    let retry = command(retrying());
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, None, None));
    state.partners.get_mut(&id(1)).unwrap().endpoints = vec![endpoint(8, &[])];
    let gone = |n: usize| EndpointId::new(NOW.plus_ms(1), [u8::try_from(n).unwrap(); 10]);
    let event = state.events.get_mut(&id(5)).unwrap();
    event.endpoints = (1..limits::DELIVERIES_PER_EVENT).map(gone).collect();
    assert_eq!(caused(&state, &retry).len(), 2);
    let event = state.events.get_mut(&id(5)).unwrap();
    event.endpoints.push(gone(0));
    assert_eq!(code_of(&state, &retry), "too_many_deliveries");
}
