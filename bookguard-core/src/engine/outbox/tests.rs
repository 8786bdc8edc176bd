//! Room for deliveries: how many new ones are leased to the courier, how many a claim takes, and what is left for
//! others.

use super::*;
use crate::limits::QUEUED_PER_ENDPOINT;
use crate::model::{BookingId, EventId, EventType, Timestamp};

fn delivery() -> LeasedDelivery {
    LeasedDelivery {
        event_id: EventId::from_bytes([1; 16]),
        partner_id: PartnerId::from_bytes([2; 16]),
        endpoint_id: EndpointId::from_bytes([3; 16]),
        booking_id: Some(BookingId::from_bytes([4; 16])),
        event_type: EventType::BookingCreated,
        seq: 1,
        body: b"{}".as_slice().into(),
        lease: 1,
        until: Timestamp::from_ms(60_000),
        attempts: 0,
        begun: Timestamp::from_ms(0),
        per_second: None,
        failing: false,
    }
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

fn terms(standing: EndpointStanding, most: usize) -> EndpointAllowance {
    EndpointAllowance { standing, most }
}

/// How many new deliveries may be leased to the courier.
fn births(outbox: &Outbox, endpoint_id: EndpointId, failures: u32) -> usize {
    let endpoint = serde_json::json!({
        "endpointId": endpoint_id, "url": "https://example.com/", "events": [], "ownSecret": false,
        "enabled": true, "status": "active", "failures": failures, "createdAt": "2026-01-01T00:00:00Z",
    });
    let endpoint = serde_json::from_value(endpoint).unwrap();
    outbox.rooms_at_birth(delivery().partner_id, &[endpoint])[0].1
}

fn claimable(outbox: &Outbox, endpoint_id: EndpointId) -> usize {
    let claims = outbox.claims(&[(endpoint_id, delivery().partner_id, false)]);
    claims.open.first().map_or(0, |(_, most)| *most)
}

#[test]
fn claims_wait_for_room_that_is_worth_one_and_a_slow_endpoint_has_little() {
    let (outbox, _courier) = Outbox::new();
    let (id, partner_id) = (delivery().endpoint_id, delivery().partner_id);
    assert_eq!(
        claimable(&outbox, id),
        QUEUED_PER_SLOW_ENDPOINT,
        "it is new"
    );
    outbox.set(
        id,
        partner_id,
        terms(EndpointStanding::Good, QUEUED_PER_ENDPOINT),
    );
    assert_eq!(claimable(&outbox, id), CLAIMED_PER_ENDPOINT);
    let most = QUEUED_PER_ENDPOINT - CLAIMED_PER_ENDPOINT;
    assert_eq!(births(&outbox, id, 0), most);
    outbox.hand_over(vec![delivery(); most + 1]);
    assert_eq!(claimable(&outbox, id), 0);
    outbox.release(&id);
    assert_eq!(claimable(&outbox, id), CLAIMED_PER_ENDPOINT);
    assert_eq!(births(&outbox, id, 0), 0);

    outbox.set(
        id,
        partner_id,
        terms(EndpointStanding::Good, QUEUED_PER_SLOW_ENDPOINT),
    );
    assert_eq!(claimable(&outbox, id), 0);
    for _ in 0..most - QUEUED_PER_SLOW_ENDPOINT / 2 {
        outbox.release(&id);
    }
    assert_eq!(claimable(&outbox, id), QUEUED_PER_SLOW_ENDPOINT / 2);
    assert_eq!(births(&outbox, id, 0), 0, "events wait in the store");
}

#[test]
fn trouble_is_remembered_when_nothing_is_held_and_until_it_is_forgotten() {
    let (outbox, _courier) = Outbox::new();
    let (id, partner_id) = (delivery().endpoint_id, delivery().partner_id);
    let new = QUEUED_PER_SLOW_ENDPOINT / 2;
    assert_eq!((births(&outbox, id, 0), births(&outbox, id, 3)), (new, 1));
    outbox.hand_over(vec![delivery()]);
    outbox.set(id, partner_id, EndpointAllowance::TROUBLED);
    assert_eq!(births(&outbox, id, 0), 0);
    outbox.forget(&id);
    assert_eq!(births(&outbox, id, 0), 0, "something is held");
    outbox.release(&id);
    assert_eq!(births(&outbox, id, 0), 1);
    outbox.forget(&id);
    assert_eq!(births(&outbox, id, 0), new);
    outbox.release(&id);
    assert_eq!(outbox.count(&id), 0, "one too many changes nothing");
}

#[test]
fn however_many_endpoints_are_dead_there_is_room_for_others() {
    let (outbox, _courier) = Outbox::new();
    let mut due = Vec::new();
    for number in 0..250 {
        for one in 0..20 {
            let id = endpoint(number * 20 + one);
            outbox.set(id, partner(number), EndpointAllowance::TROUBLED);
            due.push((id, partner(number), true));
        }
    }
    let claims = outbox.claims(&due);
    assert_eq!((claims.urgent, claims.full.len()), (0, 0));
    let taken: usize = claims.open.iter().map(|(_, most)| most).sum();
    assert!((250..QUEUED_TROUBLED).contains(&taken), "{taken}");
    let mut of: HashMap<u16, usize> = HashMap::new();
    for (id, most) in &claims.open {
        let number = u16::from_be_bytes([id.as_bytes()[0], id.as_bytes()[1]]);
        *of.entry(number / 20).or_default() += most;
        let claimed = LeasedDelivery {
            endpoint_id: *id,
            partner_id: partner(number / 20),
            ..delivery()
        };
        outbox.hand_over(vec![claimed; *most]);
    }
    assert_eq!(of.len(), 250, "every partner has some");
    // A partner that comes late has its place, and a healthy endpoint comes first and has all its room.
    let (late, good) = (endpoint(60_000), endpoint(60_001));
    outbox.set(
        good,
        partner(301),
        terms(EndpointStanding::Good, QUEUED_PER_ENDPOINT),
    );
    let due = [(late, partner(300), true), (good, partner(301), false)];
    let claims = outbox.claims(&due);
    assert_eq!(claims.open[0], (good, CLAIMED_PER_ENDPOINT));
    assert_eq!((claims.open[1].0, claims.urgent), (late, 1));
}

#[test]
fn one_partner_has_a_sixth_and_the_first_ones_leave_half_to_others() {
    for size in [64, 256, 1_024] {
        let mut alone = 0;
        while alone < partner_share(size, alone) {
            alone += 1;
        }
        assert!(alone.abs_diff(size / 6) <= 1, "{size}: {alone}");
        let mut taken = 0;
        for _ in 0..size / 2 {
            let mut own = 0;
            while own < partner_share(size, taken) && taken < size {
                own += 1;
                taken += 1;
            }
            assert!(own > 0, "{size}: {taken}");
        }
    }
}
