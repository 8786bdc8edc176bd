//! Events of types that endpoints must list.

use crate::features::acceptances::{AcceptTerms, AcceptanceRequest};
use crate::features::fixture::*;
use crate::policy::{Actor, Reason, disclose};
use serde_json::{Value, json};

const NOON: &str = "2026-06-01T12:00:00.500Z";

/// The events of these changes: number, type, body, and the endpoints that get it.
fn told(changes: &[Change]) -> Vec<(u64, EventType, Value, Vec<EndpointId>)> {
    let events = changes.iter().filter_map(|change| match change {
        Change::EventAdded(event) => Some(event),
        _ => None,
    });
    let told = events.map(|event| {
        let to = changes.iter().filter_map(|change| match change {
            Change::DeliveryAdded((event_id, endpoint_id), _) if *event_id == event.event_id => {
                Some(*endpoint_id)
            }
            _ => None,
        });
        let body = serde_json::from_slice(&event.body).unwrap();
        (event.seq, event.event_type, body, to.collect())
    });
    told.collect()
}

/// What [`told`] returns, without the bodies.
fn went(changes: &[Change]) -> Vec<(u64, EventType, Vec<EndpointId>)> {
    let told = told(changes).into_iter();
    told.map(|(seq, event_type, _, to)| (seq, event_type, to))
        .collect()
}

fn disabled(endpoint: Endpoint) -> Endpoint {
    endpoint.with_health(EndpointHealth::of(EndpointStatus::Disabled))
}

fn accepting(work: &BatchState) -> AcceptTerms {
    let loaded = &work.bookings[&booking_id()];
    AcceptTerms {
        partner_id: partner_id(),
        booking_id: booking_id(),
        asked: AcceptanceRequest {
            party: Actor::Talent,
            method: "checkbox".to_owned(),
            at: at(NOON),
            ip: Some("203.0.113.7".to_owned()),
            user_agent: None,
            disclosure_hash: disclose(&loaded.terms, &loaded.moves)
                .unwrap()
                .disclosure_hash,
        },
        seed: [1; 32],
        event: seed(42, 1),
        evidence_url: "https://api.example.com/evidence".to_owned(),
    }
}

/// What a booking's partner with these endpoints hears of a change of date, an acceptance and a decision.
fn heard(endpoints: &[Endpoint]) -> Vec<Vec<(u64, EventType, Vec<EndpointId>)>> {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    work.partners.get_mut(&partner_id()).unwrap().endpoints = endpoints.to_vec();
    let mut heard = Vec::new();
    let moved = moving(ask_to_reschedule("2026-10-20T19:00"));
    heard.push(went(&done(&mut work, &Envelope::new(at(NOON), moved)).0));
    let accept = accepting(&work);
    heard.push(went(&done(&mut work, &Envelope::new(at(NOON), accept)).0));
    let storm = canceling(ask_to_cancel(Actor::Talent, Some(Reason::ForceMajeure)));
    done(&mut work, &Envelope::new(at(NOON), storm));
    heard.push(went(
        &done(&mut work, &Envelope::new(at(NOON), deciding("1000.25"))).0,
    ));
    heard
}

#[test]
fn a_listed_event_is_made_only_while_an_endpoint_that_may_receive_it_lists_it() {
    use EventType::{BookingRescheduled, ResolutionCreated, ResolutionDecided, TermsAccepted};
    let all = [BookingRescheduled, TermsAccepted, ResolutionDecided];
    let to_7 = || vec![id(7)];
    // Four events came before.
    let standard = vec![vec![], vec![], vec![(6, ResolutionCreated, to_7())]];
    assert_eq!(heard(&[endpoint(7, &[])]), standard);
    // A disabled endpoint hears of nothing, so nothing is written for it.
    let off = disabled(endpoint(8, &all));
    assert_eq!(heard(&[endpoint(7, &[]), off]), standard);
    let heard_by = |endpoints: &[Endpoint]| heard(endpoints).concat();
    assert_eq!(
        heard_by(&[endpoint(7, &[]), endpoint(8, &all)]),
        [
            (5, BookingRescheduled, vec![id(8)]),
            (6, TermsAccepted, vec![id(8)]),
            (8, ResolutionCreated, to_7()),
            (9, ResolutionDecided, vec![id(8)]),
        ]
    );
    assert_eq!(
        heard_by(&[endpoint(7, &[TermsAccepted]), endpoint(8, &all)]),
        [
            (5, BookingRescheduled, vec![id(8)]),
            (6, TermsAccepted, vec![id(7), id(8)]),
            (8, ResolutionCreated, vec![]),
            (9, ResolutionDecided, vec![id(8)]),
        ]
    );
}

#[test]
fn an_acceptance_is_told_without_address_and_program() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    work.partners.get_mut(&partner_id()).unwrap().endpoints =
        vec![endpoint(7, &[EventType::TermsAccepted])];
    let accept = accepting(&work);
    let hash = accept.asked.disclosure_hash.clone();
    let (changes, _) = done(&mut work, &Envelope::new(at(NOON), accept));
    let [(_, _, body, _)] = &told(&changes)[..] else {
        panic!("{changes:?}")
    };
    assert_eq!(
        *body,
        json!({
            "eventId": id::<noun::Event>(42), "type": "terms.accepted", "bookingId": booking_id(),
            "timestamp": at(NOON), "status": "pending", "seq": 5,
            "payload": {
                "partnerId": partner_id(), "party": "talent", "disclosureHash": hash,
                "evidencePacketUrl": "https://api.example.com/evidence",
            }
        })
    );
}

/// A batch in which endpoint 7 has failed for so long that the next failure suspends it.
fn about_to_be_suspended(others: &[Endpoint]) -> BatchState {
    let mut work = with_delivery(delivery(DeliveryPhase::Failed, Some(1_000), Some(77)));
    let health = EndpointHealth {
        status: EndpointStatus::Failing,
        failures: limits::WARNING_FAILURES,
        failing_since: Some(NOW),
        ..EndpointHealth::of(EndpointStatus::Failing)
    };
    work.health.insert(id(7), health);
    let partner = work.partners.get_mut(&id(1)).unwrap();
    let suspended = EventType::EndpointSuspended;
    let own = endpoint(7, &[EventType::BookingCreated, suspended]).with_health(health);
    partner.endpoints = [&[own], others].concat();
    work
}

#[test]
fn a_suspension_is_told_to_the_other_endpoints_that_list_it() {
    let then = NOW.plus_ms(limits::SUSPENDED_AFTER_MS);
    let listing = endpoint(8, &[EventType::EndpointSuspended]);
    let failed = |work: &BatchState, class| {
        let settled = settle(then, 77, 2, class);
        told(&caused(work, &settled))
    };
    // The suspended endpoint lists the type too, and does not count.
    for others in [
        vec![],
        vec![endpoint(8, &[])],
        vec![disabled(listing.clone())],
    ] {
        let work = about_to_be_suspended(&others);
        let told = failed(&work, Some(FailureClass::Http5xx));
        assert!(told.is_empty(), "{told:?}");
    }
    let work = about_to_be_suspended(&[listing, endpoint(9, &[])]);
    for class in [None, Some(FailureClass::Gone), Some(FailureClass::OurFault)] {
        assert!(failed(&work, class).is_empty(), "{class:?}");
    }
    let told = failed(&work, Some(FailureClass::Timeout));
    let [(seq, event_type, body, to)] = &told[..] else {
        panic!("{told:?}")
    };
    let expected = (1, EventType::EndpointSuspended, vec![id(8)]);
    assert_eq!((*seq, *event_type, to.clone()), expected);
    assert_eq!(
        (&body["bookingId"], &body["timestamp"], &body["payload"]),
        (
            &Value::Null,
            &json!(then),
            &json!({
                "partnerId": id::<noun::Partner>(1), "endpointId": id::<noun::Endpoint>(7),
                "url": "https://example.com/7", "failures": limits::WARNING_FAILURES + 1,
                "failingSince": NOW,
            })
        )
    );
    // Once it is suspended, further failures are no news.
    let mut work = work;
    done(&mut work, &settle(then, 77, 2, Some(FailureClass::Timeout)));
    let state = work.deliveries.get_mut(&(id(5), id(7))).unwrap();
    state.lease = Some(77);
    let again = settle(then.plus_ms(1), 77, 3, Some(FailureClass::Timeout));
    assert!(went(&caused(&work, &again)).is_empty());
}

#[test]
fn the_ledger_records_nothing_of_the_deliveries_of_listed_events() {
    let held = with_delivery(delivery(DeliveryPhase::Pending, Some(1_000), Some(77)));
    for (event_type, booking_id, recorded) in [
        (EventType::BookingCreated, Some(id(6)), true),
        (EventType::BookingRescheduled, Some(id(6)), false),
        (EventType::EndpointSuspended, None, false),
    ] {
        for class in [None, Some(FailureClass::PayloadTooLarge)] {
            let delivery = LeasedDelivery {
                event_type,
                booking_id,
                ..leased(77, 2)
            };
            let settle = SettleDelivery::of(&delivery, attempt(class), NOW).unwrap();
            let changes = caused(&held, &Envelope::new(NOW, settle));
            let entries = changes
                .iter()
                .filter(|change| matches!(change, Change::Entry(_)));
            assert_eq!(entries.count() == 1, recorded, "{event_type:?} {class:?}");
            let Change::DeliveryUpdated(_, state) = &changes[0] else {
                panic!("{changes:?}")
            };
            assert_eq!(state.settled_leaf.is_some(), recorded);
            assert!(state.due.is_none() && state.phase != DeliveryPhase::Pending);
        }
    }
}
