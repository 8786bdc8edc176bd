//! Bookings recorded, by the policies of that moment, and protected once.

use crate::features::fixture::*;
use crate::policy::{Actor, PolicySet};

const NOON: &str = "2026-06-01T12:00:00Z";

#[test]
fn a_booking_is_recorded_by_its_partners_policies_of_that_moment_or_prepared_again() {
    let work = work_with(state(None, BookingStatus::Created));
    let settings = PartnerSettings {
        time_zone: Some("Asia/Tokyo".to_owned()),
        ..PartnerSettings::default()
    };
    let current = PolicySet::default();
    let others = PolicySet {
        settings,
        ..PolicySet::default()
    };
    assert!(decide(&work, &booking_by(at(NOON), Some(current))).is_ok());
    let refused = decide(&work, &booking_by(at(NOON), Some(others))).unwrap_err();
    assert!(refused.is_outdated(), "{refused}");
}

#[test]
fn a_booking_is_protected_once_and_the_same_again_repeats_the_receipt() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let (changes, first) = done(&mut work, &Envelope::new(at(NOON), protecting()));
    let shared = changes.iter().any(|change| match change {
        Change::BookingChanged(booking) => Arc::ptr_eq(booking, &work.bookings[&booking_id()]),
        _ => false,
    });
    assert!(shared, "the batch has a copy of its own: {changes:?}");
    assert_eq!((first.protected, first.protected_at), (true, at(NOON)));
    assert_eq!(first.receipt.leaf_index, 10);
    assert_eq!(tree_of(&first.receipt), HEAD);
    let (changes, again) = done(&mut work, &command(protecting()));
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(again, first);
    let foreign = ProtectBooking {
        partner_id: id(77),
        ..protecting()
    };
    assert_eq!(code_of(&work, &command(foreign)), "not_found");
}

#[test]
fn a_nearly_full_disk_takes_no_new_booking_and_lets_the_others_end() {
    let work = work_with(state(Some("firm"), BookingStatus::Created));
    let when = at("2026-06-01T00:00:00Z");
    assert!(waits_for_room(&work, &booking(when)));
    let cancel = canceling(ask_to_cancel(Actor::Organizer, None));
    assert!(!waits_for_room(&work, &Envelope::new(when, cancel)));
    let moved = moving(ask_to_reschedule("2026-10-20T19:00"));
    assert!(!waits_for_room(&work, &Envelope::new(when, moved)));
}
