//! Quotas as tables, and at their limit within a batch.

use crate::features::fixture::*;
use crate::features::partners::SetQuota;
use crate::limits::DAY_MS;

/// Noon of a day.
fn noon(day: i64) -> Timestamp {
    NOW.plus_ms(day * DAY_MS + DAY_MS / 2)
}

/// A partner that has 10 bookings of 1,000 bytes and caused 20 events on day 5.
fn used(given: Quota, own: Quota) -> BatchState {
    let mut work = work_with(state(None, BookingStatus::Created));
    let partner = work.partners.get_mut(&partner_id()).unwrap();
    partner.quota = own;
    partner.usage = Usage {
        bookings: 10,
        bytes: 1_000,
        day: 5,
        day_events: 20,
        file_bytes: 0,
    };
    work.quota = given;
    work
}

#[test]
fn a_booking_is_refused_beyond_its_partners_quota_and_no_sooner() {
    let none = Quota::default();
    let bookings = |n| Quota {
        bookings: Some(n),
        ..none
    };
    let bytes = |n| Quota {
        bytes: Some(n),
        ..none
    };
    let events = |n| Quota {
        events_per_day: Some(n),
        ..none
    };
    #[rustfmt::skip]
    let cases = [
        (none, none, 5, None),
        (Quota::GENEROUS, none, 5, None),
        (bookings(11), none, 5, None),
        (bookings(10), none, 5, Some("bookings is 10, and it has used 10")),
        (bookings(3), none, 5, Some("bookings is 3, and it has used 10")),
        (bookings(0), none, 5, None),
        (bookings(10), bookings(11), 5, None),
        (bookings(10), bookings(0), 5, None),
        (bookings(11), bookings(10), 5, Some("bookings is 10")),
        (none, bookings(10), 5, Some("raise the quota")),
        (bytes(1_100), none, 5, None),
        (bytes(1_099), none, 5, Some("bytes of bookings is 1099, and it has used 1000")),
        (bytes(1_099), none, 5, Some("takes 100 more")),
        (events(21), none, 5, None),
        (events(20), none, 5, Some("events a day is 20, and it has used 20")),
        (events(20), none, 5, Some("begins at 1970-01-07T00:00:00")),
        (events(20), none, 6, None),
        // A node whose clock is behind counts on the current day.
        (events(20), none, 4, Some("begins at 1970-01-07T00:00:00")),
        // The clock of a node was ahead.
        (events(20), none, 3, None),
        (events(20), bookings(11), 5, Some("events a day")),
    ];
    for (given, own, day, expected) in cases {
        let decided = decide(&used(given, own), &booking(noon(day)));
        let said = format!("{given:?}, {own:?} on day {day}: {expected:?}");
        match expected {
            None => assert!(decided.is_ok(), "{said}: {decided:?}"),
            Some(part) => {
                let refused = decided.unwrap_err();
                let told = (refused.kind, refused.code.as_ref());
                assert_eq!(told, (Kind::Conflict, "quota_exceeded"), "{said}");
                assert!(refused.message.contains(part), "{said}: {refused}");
            }
        }
    }
}

#[test]
fn a_batch_stops_at_exactly_the_limit() {
    #[rustfmt::skip]
    let cases = [
        (Quota { bookings: Some(17), ..Quota::GENEROUS }, 7),
        (Quota { bytes: Some(1_450), ..Quota::GENEROUS }, 4),
        (Quota { events_per_day: Some(25), ..Quota::GENEROUS }, 5),
    ];
    for (quota, fit) in cases {
        let mut work = used(quota, Quota::default());
        let made = (0..50).filter(|_| match decide(&work, &booking(noon(5))) {
            Ok(Decision::Do { changes, .. }) => {
                apply_all(&mut work, &changes);
                true
            }
            other => {
                assert_eq!(refusal(other), "quota_exceeded");
                false
            }
        });
        assert_eq!(made.count(), fit, "{quota:?}");
        let usage = work.partners[&partner_id()].usage;
        let fit = fit as u64;
        let expected = (10 + fit, 1_000 + 100 * fit, 5, 20 + fit);
        let counted = (usage.bookings, usage.bytes, usage.day, usage.day_events);
        assert_eq!(counted, expected);
    }
}

#[test]
fn another_day_is_counted_anew_and_the_day_before_is_not() {
    let mut usage = Usage::default();
    let mut counted = Vec::new();
    for day in [5, 5, 6, 5, 6, 40, 8, 8] {
        usage.count_event(noon(day));
        counted.push((usage.day, usage.day_events));
    }
    let expected = [5, 5, 6, 6, 6, 40, 8, 8]
        .into_iter()
        .zip([1, 2, 1, 2, 3, 1, 1, 2]);
    assert!(counted.iter().copied().eq(expected), "{counted:?}");
    assert_eq!(usage.events_on_day(noon(9)).0, 0);
    assert_eq!(usage.events_on_day(noon(7)).0, 2);
    let (events, over) = usage.events_on_day(noon(6));
    assert_eq!((events, over), (0, noon(6).plus_ms(DAY_MS / 2)));
}

#[test]
fn a_quota_of_endpoints_is_lower_than_the_services_own_limit() {
    let there: Vec<Endpoint> = (10..13).map(|n| endpoint(n, &[])).collect();
    let create = command(CreateEndpoint {
        partner_id: id(1),
        endpoint: endpoint(99, &[]),
        secret: None,
    });
    for (limit, expected) in [(3, "quota_exceeded"), (4, ""), (0, "")] {
        let mut work = work(PartnerStatus::Active, there.clone());
        work.quota.endpoints = Some(limit);
        let decided = decide(&work, &create);
        match expected {
            "" => assert!(decided.is_ok(), "{limit}"),
            code => assert_eq!(refusal(decided), code, "{limit}"),
        }
    }
}

#[test]
fn a_quota_is_changed_where_it_is_named() {
    let mut work = work(PartnerStatus::Pending, vec![]);
    let set = |bookings, bytes| {
        let changes = QuotaChanges {
            bookings,
            bytes,
            ..QuotaChanges::default()
        };
        command(SetQuota {
            partner_id: id(1),
            changes,
        })
    };
    for (bookings, bytes, changed, expected) in [
        (None, None, false, (None, None)),
        (Some(Some(5)), None, true, (Some(5), None)),
        (Some(Some(5)), None, false, (Some(5), None)),
        (None, Some(Some(0)), true, (Some(5), Some(0))),
        (Some(None), None, true, (None, Some(0))),
    ] {
        let made = caused(&work, &set(bookings, bytes));
        assert_eq!(made.len(), usize::from(changed), "{made:?}");
        apply_all(&mut work, &made);
        let quota = work.partners[&id(1)].quota;
        assert_eq!((quota.bookings, quota.bytes), expected);
    }
    assert!(!waits_for_room(&work, &set(Some(None), None)));
    let nobody = decide(&BatchState::default(), &set(None, None));
    assert_eq!(refusal(nobody), "not_found");
}
