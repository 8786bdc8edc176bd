//! Who may place and release holds, and how many there may be.

use super::*;
use crate::features::fixture::*;

fn place(others: usize) -> Envelope<Hold> {
    command(PlaceHold {
        stored: hold(9, HeldBy::Partner),
        others,
    })
}

#[test]
fn a_booking_and_a_partner_have_so_many_holds() {
    let most = limits::HOLDS_PER_PARTNER as usize;
    for (of_booking, others, expected) in [
        (0, 0, None),
        (limits::HOLDS_PER_BOOKING - 1, most - 1, None),
        (limits::HOLDS_PER_BOOKING, 0, Some("too_many_holds")),
        (0, most, Some("too_many_holds")),
    ] {
        let mut work = work_with(state(None, BookingStatus::Created));
        for n in 0..of_booking {
            let hold = hold(100 + u8::try_from(n).unwrap(), HeldBy::Partner);
            work.holds.insert(hold.hold.hold_id, hold);
        }
        // The operator's limit is its own.
        let placed = command(PlaceHold {
            stored: hold(9, HeldBy::Operator),
            others: 0,
        });
        assert!(decide(&work, &placed).is_ok());
        let decided = decide(&work, &place(others));
        match expected {
            Some(code) => assert_eq!(decided.unwrap_err().code, code),
            None => assert!(matches!(changes(decided)[..], [Change::HoldWritten(_)])),
        }
    }
}

#[test]
fn only_the_operator_releases_what_the_operator_placed() {
    use HeldBy::{Operator, Partner};
    for (placed_by, by, expected) in [
        (Partner, Partner, None),
        (Partner, Operator, None),
        (Operator, Operator, None),
        (Operator, Partner, Some("operator_hold")),
    ] {
        let mut work = work_with(state(None, BookingStatus::Created));
        work.holds.insert(id(9), hold(9, placed_by));
        let release = || {
            command(ReleaseHold {
                partner_id: partner_id(),
                booking_id: booking_id(),
                hold_id: id(9),
                by,
            })
        };
        let decided = decide(&work, &release());
        if let Some(code) = expected {
            assert_eq!(decided.unwrap_err().code, code);
            continue;
        }
        let changed = changes(decided);
        let [Change::HoldWritten(released)] = &changed[..] else {
            panic!("{changed:?}")
        };
        assert!(released.hold.released_at >= Some(released.hold.placed_at));
        apply_all(&mut work, &changed);
        assert!(caused(&work, &release()).is_empty(), "once is enough");
    }
}

#[test]
fn holds_go_on_after_their_partners_contract_has_ended() {
    let mut work = work_with(state(None, BookingStatus::Created));
    let there = work.partners.get_mut(&partner_id()).unwrap();
    there.partner = there.partner.erased();
    assert_eq!(caused(&work, &place(0)).len(), 1);
}
