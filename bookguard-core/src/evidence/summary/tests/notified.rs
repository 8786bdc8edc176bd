//! Notifications: which were accepted, and what became of the others.

use super::{alone, begins, sentences};
use crate::evidence::Notification;
use crate::evidence::facts::NotificationFact;
use crate::evidence::packet::{PacketDelivery, UNKNOWN_ADDRESS};
use crate::evidence::summary::Wording;
use crate::evidence::verify::tests::fixture::Fixture;
use crate::model::DeliveryStatus;

#[test]
fn only_what_the_ledger_records_as_given_up_is_told_as_that() {
    let packet = Fixture::new().notified();
    let [given_up, accepted, open] = &packet.deliveries[..] else {
        panic!("{:?}", packet.deliveries);
    };
    let mut given_up = given_up.clone();
    (given_up.status, given_up.attempts) = (DeliveryStatus::Failed, 2);
    given_up.recorded.truncate(1);
    given_up.history.truncate(2);
    let unsent = PacketDelivery {
        status: DeliveryStatus::Pending,
        attempts: 0,
        history: Vec::new(),
        ..open.clone()
    };
    let dropped = PacketDelivery {
        status: DeliveryStatus::Failed,
        ..unsent.clone()
    };
    let sent = [accepted, &given_up, open].map(Clone::clone);
    let not_sent = [accepted, &unsent, &dropped].map(Clone::clone);
    for (wording, deliveries, told) in [
        (
            Wording::First,
            &sent[..],
            "The service sent 3 notifications about the booking to “Acme”: 1 accepted, 2 not accepted.",
        ),
        (
            Wording::Second,
            &sent[..],
            "The service sent 3 notifications about the booking to “Acme”: 1 accepted, 1 given up, 1 not accepted so far.",
        ),
        (
            Wording::Second,
            &not_sent[..],
            "The service sent 1 notification about the booking to “Acme”: 1 accepted. It has 1 more that it has not sent. \
             It has 1 more that it no longer sends, with no attempt recorded.",
        ),
        (
            Wording::Second,
            &[dropped][..],
            "The service has 1 notification about the booking for “Acme” that it no longer sends, with no attempt recorded.",
        ),
    ] {
        let story = sentences(&packet, wording, &[], deliveries).story;
        assert_eq!(story.last().unwrap(), told);
    }
}

#[test]
fn an_address_that_is_not_known_is_not_named() {
    let mut packet = Fixture::new().recorded();
    packet.deliveries[0].url = Some(UNKNOWN_ADDRESS.to_owned());
    for (wording, part) in [
        (
            Wording::Second,
            "to “Acme” was not accepted in 1 attempt so far: event ",
        ),
        (
            Wording::First,
            "to “Acme” at unknown:// was not accepted in 1 attempt.",
        ),
    ] {
        let text = begins(&packet, wording, &[], &packet.deliveries);
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn each_row_of_a_delivery_names_its_event_and_endpoint() {
    let mut fixture = Fixture::new();
    fixture.wording = Wording::LATEST;
    let packet = fixture.notified();
    let ended = &packet.deliveries[0].recorded[0];
    let open = &packet.deliveries[2];
    let timeout = Notification {
        status_code: None,
        response_sha256: None,
        error: Some("timeout".to_owned()),
        ..ended.clone()
    };
    let fact = NotificationFact {
        notification: timeout,
    };
    let unanswered = begins(&packet, Wording::LATEST, &alone(&packet, fact), &[]);
    let mut told: Vec<&str> = (packet.summary.timeline.iter())
        .map(|moment| moment.text.as_str())
        .collect();
    told.push(&unanswered);
    for end in [
        format!(
            "stopped trying to deliver the notification of the recorded booking to “Stage & Co” after 2 attempts; the last answer was \
             status 413: event 1, endpoint {}.",
            ended.endpoint_id
        ),
        format!(
            "to “Acme” after 2 attempts; the last one failed (timeout): event 1, endpoint {}.",
            ended.endpoint_id
        ),
        format!(
            "was not accepted in 1 attempt so far: event {}, endpoint {}.",
            open.event_id,
            open.endpoint_id.unwrap()
        ),
    ] {
        assert!(
            told.iter().any(|text| text.ends_with(&end)),
            "{end}: {told:#?}"
        );
    }
}
