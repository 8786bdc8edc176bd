use bookguard_core::evidence::SUMMARY_VERSION;
use bookguard_core::policy::{Actor, Reason};

use super::*;

/// What the facts say under this name.
fn said(packet: &Packet, name: &str) -> String {
    let facts = facts(packet);
    let fact = facts.iter().find(|fact| fact.name == name);
    fact.unwrap().value.to_string()
}

fn read(packet: &str) -> Packet {
    serde_json::from_str(packet).unwrap()
}

#[test]
fn a_value_that_was_erased_or_is_withheld_is_told_as_such() {
    let erased = "Erased: nobody can show it again";
    let packet = read(include_str!(
        "../../../tests/vectors/packets/good/erased.json"
    ));
    for name in ["Organizer", "Talent", "Event"] {
        assert_eq!(said(&packet, name), erased);
    }
    let packet = read(include_str!(
        "../../../tests/vectors/packets/good/erased-organizer-withheld.json"
    ));
    assert_eq!(said(&packet, "Organizer"), "Not shown in this copy");
    assert_eq!(said(&packet, "Talent"), erased);
    // A name that only reads so was not erased.
    let mut packet = read(include_str!(
        "../../../tests/vectors/packets/good/created.json"
    ));
    packet.booking.organizer.name = "erased".to_owned();
    assert_eq!(said(&packet, "Organizer"), "erased (o-1)");
}

#[test]
fn who_did_not_come_is_told_beside_the_status() {
    let mut packet = read(include_str!(
        "../../../tests/vectors/packets/good/canceled-final.json"
    ));
    assert_eq!(said(&packet, "Status"), "canceled");
    let resolution = packet.resolution.as_mut().unwrap();
    (resolution.canceled_by, resolution.reason) = (Actor::Talent, Some(Reason::NoShow));
    // Its headline says that the booking was canceled.
    assert_eq!(said(&packet, "Status"), "canceled");
    packet.summary.version = SUMMARY_VERSION.to_owned();
    assert_eq!(
        said(&packet, "Status"),
        "canceled (reported: the talent did not come)"
    );
}

#[test]
fn an_event_of_which_only_the_day_was_named_has_no_time() {
    let packet = read(include_str!(
        "../../../tests/vectors/packets/good/worded-2-unsent.json"
    ));
    let day = "Saturday 20 June 2026 (no time of day was given)";
    assert_eq!(said(&packet, "Event starts"), day);
}
