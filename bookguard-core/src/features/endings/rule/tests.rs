//! What ends with a contract, and that ending it twice changes nothing.

use super::*;
use crate::evidence::{HeldBy, StoredHold};
use crate::features::fixture::*;
use crate::features::partners::account::{
    EditPartner, PartnerEdit, ReinstatePartner, SuspendPartner,
};

#[test]
fn keys_endpoints_and_the_record_end_once() {
    let mut work = work(PartnerStatus::Active, vec![endpoint(7, &[])]);
    let end = |done| {
        let reply = ContractEnd {
            partner_id: id(1),
            erased: 0,
            held: Vec::new(),
            next: None,
            done,
        };
        command(EndContract {
            partner_id: id(1),
            bookings: 0,
            reply,
        })
    };
    // Whatever was examined before that, it begins with that.
    let (ended, reply) = outcome(&work, &end(true)).unwrap();
    assert_eq!((reply.done, reply.next.is_some()), (false, true));
    let is = |kind: fn(&Change) -> bool| ended.iter().filter(|change| kind(change)).count();
    assert_eq!(
        is(|change| matches!(change, Change::EndpointDeleted(..))),
        1
    );
    let suspended = |change: &Change| {
        matches!(
            change,
            Change::PartnerStatusChanged(_, PartnerStatus::Suspended)
        )
    };
    assert_eq!(is(suspended), 1);
    apply_all(&mut work, &ended);
    for (done, expected) in [(false, 0), (true, 1), (true, 0)] {
        let changed = caused(&work, &end(done));
        assert_eq!(changed.len(), expected, "{done}");
        apply_all(&mut work, &changed);
    }
}

#[test]
fn a_registration_that_waits_for_approval_ends_at_once_and_stays_ended() {
    let mut work = work(PartnerStatus::Pending, vec![]);
    let end = || {
        command(EndContract {
            partner_id: id(1),
            bookings: 0,
            reply: ContractEnd::begun(id(1)),
        })
    };
    let (_, begun) = done(&mut work, &end());
    assert_eq!(begun, ContractEnd::begun(id(1)));
    let partner = work.partners[&id(1)].partner.clone();
    assert_eq!(partner.status, PartnerStatus::Suspended);
    assert!(partner.is_ended(), "{partner:?}");
    assert!(caused(&work, &end()).is_empty());
    let reinstate = command(ReinstatePartner { partner_id: id(1) });
    assert_eq!(code_of(&work, &reinstate), "partner_ended");
    let edit = command(EditPartner {
        partner_id: id(1),
        edit: PartnerEdit::default(),
    });
    assert_eq!(code_of(&work, &edit), "partner_ended");
    let suspend = command(SuspendPartner { partner_id: id(1) });
    assert!(caused(&work, &suspend).is_empty());
}

fn hold(n: u8, of: u8, is_released: bool) -> StoredHold {
    let mut stored = crate::features::fixture::hold(n, HeldBy::Operator);
    stored.partner_id = id(of);
    stored.hold.released_at = is_released.then_some(NOW);
    stored
}

#[test]
fn an_answer_that_a_hold_contradicts_by_now_is_refused() {
    let changed = Some("booking_changed");
    for (done, named, stored, expected) in [
        (true, None, None, None),
        (true, None, Some(hold(5, 1, false)), changed),
        (true, None, Some(hold(5, 1, true)), None),
        (true, None, Some(hold(5, 2, false)), None),
        (false, None, Some(hold(5, 1, false)), None),
        (false, Some(5), Some(hold(5, 1, false)), None),
        (false, Some(5), Some(hold(5, 1, true)), changed),
        (false, Some(5), None, changed),
        (false, Some(6), Some(hold(5, 1, false)), changed),
    ] {
        let mut work = work(PartnerStatus::Suspended, vec![]);
        let named = named.map(|n| hold(n, 1, false).hold);
        let said = format!("{done} {named:?} {stored:?}");
        let stored = stored.into_iter();
        work.holds = stored.map(|stored| (stored.hold.hold_id, stored)).collect();
        let reply = ContractEnd {
            held: named.into_iter().collect(),
            next: None,
            done,
            ..ContractEnd::begun(id(1))
        };
        let end = command(EndContract {
            partner_id: id(1),
            bookings: 0,
            reply,
        });
        let refused = decide(&work, &end).err().map(|error| error.code);
        assert_eq!(refused.as_deref(), expected, "{said}");
    }
}

#[test]
fn an_answer_that_passed_over_a_new_booking_is_refused() {
    for (done, examined, expected) in [
        (true, 3, Some("booking_changed")),
        (true, 4, None),
        // A later page has the new booking.
        (false, 3, None),
    ] {
        let mut work = work(PartnerStatus::Suspended, vec![]);
        work.partners.get_mut(&id(1)).unwrap().usage.bookings = 4;
        let end = command(EndContract {
            partner_id: id(1),
            bookings: examined,
            reply: ContractEnd {
                next: None,
                done,
                ..ContractEnd::begun(id(1))
            },
        });
        let refused = decide(&work, &end).err().map(|error| error.code);
        assert_eq!(refused.as_deref(), expected, "{done} {examined}");
    }
}
