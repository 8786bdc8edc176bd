//! What a packet tells of notifications, and how many it can tell of.

use super::*;

#[test]
fn notifications_are_shown_as_recorded_and_in_the_summary() {
    let fixture = Fixture::new();
    let packet = fixture.notified();
    let kinds: Vec<&str> = packet
        .entries
        .iter()
        .map(|e| e.body.kind.as_str())
        .collect();
    let settled = kinds
        .iter()
        .filter(|kind| **kind == "webhook.settled")
        .count();
    assert_eq!((settled, packet.deliveries[0].recorded.len()), (3, 2));
    let endpoint = packet.deliveries[0].endpoint_id.unwrap();
    let told: Vec<&str> = packet
        .summary
        .timeline
        .iter()
        .map(|m| m.text.as_str())
        .collect();
    let partner = "\u{201c}Stage & Co\u{201d}";
    for text in [
        format!(
            "The service gave up the notification of the recorded booking to {partner} after 2 attempts (at last: status 413): event 1, endpoint {endpoint}."
        ),
        format!(
            "The server of {partner} accepted the notification of the recorded booking (status 204, after 3 attempts): event 1, endpoint {endpoint}."
        ),
        format!(
            "The server of {partner} accepted the notification of the protection (status 204, after 1 attempt): event 2, endpoint {endpoint}."
        ),
        format!(
            "The service states that the notification of the result of the cancellation to {partner} at https://example.com was not accepted in 1 attempt."
        ),
    ] {
        let found = told.iter().filter(|told| told.starts_with(&text)).count();
        assert_eq!(found, 1, "{text} in {told:#?}");
    }
    let report = verify(text(&packet, &fixture.signer).as_bytes(), &fixture.vkey());
    // A key can sign a packet without the last entry, so the report does not claim that there is no later one.
    let said = |name| {
        let mut checks = report.checks.iter();
        checks.find(|check| check.name == name).unwrap()
    };
    let n = packet.entries.len();
    assert_eq!(
        said("chain").detail,
        format!(
            "These {n} entries form an unbroken chain, from the booking's first on: nothing before the last is missing, repeated, \
             moved or another booking's. Whether there is a later one, the log shows: bookguard evidence verify --log URL|DIR."
        )
    );
    let said = said("deliveries");
    assert!(said.detail.starts_with(
        "How 2 notifications ended (2 accepted) is shown exactly as the ledger records it."
    ));

    #[rustfmt::skip]
    let cases = [
        ("an end is hidden", (|p: &mut Packet| drop(p.deliveries[0].recorded.pop())) as fn(&mut Packet)),
        ("a delivery that ended is hidden", |p| { drop(p.deliveries.remove(1)) }),
        ("one is shown twice", |p| { p.deliveries.push(p.deliveries[1].clone()) }),
        ("failed, and accepted by the ledger", |p| { p.deliveries[1].status = DeliveryStatus::Failed }),
        ("under way, and accepted by the ledger", |p| { p.deliveries[1].status = DeliveryStatus::Pending }),
        ("accepted, and the ledger does not say so", |p| {
            p.deliveries[2].status = DeliveryStatus::Delivered;
            p.deliveries[2].history[0].error = None;
        }),
        ("an end of another delivery", |p| { p.deliveries[2].recorded = p.deliveries[1].recorded.clone() }),
        ("the ends in another order", |p| { p.deliveries[0].recorded.reverse() }),
        ("more attempts than until it was accepted", |p| { p.deliveries[1].attempts += 1 }),
        ("fewer attempts than are recorded", |p| {
            p.deliveries[0].attempts = 1;
            p.deliveries[0].history.truncate(1);
        }),
        ("the attempt it was given up with is another", |p| { p.deliveries[0].history[1].status_code = Some(500) }),
        ("the attempt it was accepted with is another", |p| { p.deliveries[1].history[0].status_code = Some(200) }),
        ("an attempt was accepted before", |p| { p.deliveries[0].history[0].error = None }),
        ("another event of the protection",
            |p| { p.deliveries[1].event_id = EventId::new(p.deliveries[1].event_id.made_at(), [9; 10]) }),
        ("of another type", |p| { p.deliveries[1].event_type = RecordedEventType::BookingCreated }),
        ("an event of nothing recorded", |p| { p.deliveries[2].event_id = EventId::new(Timestamp::EPOCH, [9; 10]) }),
        ("no endpoint, and attempts", |p| { p.deliveries[2].status = DeliveryStatus::NoEndpoints }),
        ("to nobody", |p| p.deliveries[2].endpoint_id = None),
        ("an event more than there was cause for", |p| {
            let mut more = p.deliveries[2].clone();
            more.event_id = EventId::new(more.event_id.made_at(), [9; 10]);
            p.deliveries.push(more);
        }),
    ];
    for (what, change) in cases {
        let failed = noticed_in(&fixture, fixture.notified(), change);
        assert!(failed.contains(&"deliveries"), "{what}: {failed:?}");
    }
    let crowd = |packet: &mut Packet, endpoints: usize| {
        let open = packet.deliveries[2].clone();
        packet.deliveries.extend((0..endpoints).map(|n| {
            let mut more = open.clone();
            let id = (n as u128 + 1).to_be_bytes();
            more.endpoint_id = Some(EndpointId::from_bytes(id));
            more
        }));
    };
    // It was created, protected and canceled, so there can be three events.
    let room = 3 * DELIVERIES_PER_EVENT - fixture.notified().deliveries.len();
    let most = noticed_in(&fixture, fixture.notified(), |p| crowd(p, room));
    assert!(!most.contains(&"deliveries"), "{most:?}");
    let too_many = noticed_in(&fixture, fixture.notified(), |p| crowd(p, room + 1));
    assert!(too_many.contains(&"deliveries"), "{too_many:?}");
    // Attempts are pruned after some time; the recorded end stays.
    let pruned = noticed_in(&fixture, fixture.notified(), |p| {
        p.deliveries[0].history.clear()
    });
    assert_eq!(pruned, [] as [&str; 0]);
}

#[test]
fn a_packet_of_a_booking_told_to_as_many_as_can_be_is_still_read() {
    let mut fixture = Fixture::new();
    let mut packet = fixture.crowded();
    assert_eq!(packet.entries.len(), 5 + 8 * DELIVERIES_PER_EVENT);
    let text = text(&packet, &fixture.signer);
    let report = verify(text.as_bytes(), &fixture.vkey());
    assert!(report.verified(), "{}", report.failures().count());
    // In the longest possible log, each proof has more hashes, and a MiB is left for items, acceptances and what they say.
    let longer = packet.entries.len() * 40 * 45;
    let size = text.len() + longer + (1 << 20);
    assert!(size < PACKET_BYTES, "{size} bytes");
    assert!(3 * jcs::weight(&text) < jcs::MAX_WEIGHT);
    let sealed = |packet: &Packet| packet.seal(&fixture.signer).unwrap();
    assert!(!sealed(&packet).is_too_long());
    packet.partner_name = "\u{1f989}".repeat(PACKET_BYTES / 4);
    let long = sealed(&packet);
    assert!(long.is_too_long());
    assert!(!verify(long.text().as_bytes(), &fixture.vkey()).verified());
}
