//! What ends with a contract, and that ending it twice changes nothing.

use super::*;
use crate::engine::command::Envelope;
use crate::evidence::{HeldBy, Hold, StoredHold};
use crate::features::fixture::*;
use crate::features::partners::account::{
    EditPartner, PartnerEdit, ReinstatePartner, SuspendPartner,
};
use crate::model::PartnerAccount;

fn begins() -> Envelope<ContractEnd> {
    command(EndContract {
        partner_id: id(1),
        page: None,
    })
}

/// A page without holds, the last one.
fn page(done: bool) -> Envelope<ContractEnd> {
    held_page(done, Vec::new())
}

fn held_page(done: bool, held: Vec<Hold>) -> Envelope<ContractEnd> {
    let page = ContractEnd {
        held,
        next: None,
        done,
        ..ContractEnd::begun(id(1))
    };
    command(EndContract {
        partner_id: id(1),
        page: Some(page),
    })
}

fn reinstate() -> Envelope<PartnerAccount> {
    command(ReinstatePartner { partner_id: id(1) })
}

#[test]
fn keys_endpoints_and_the_record_end_once() {
    let mut work = work(PartnerStatus::Active, vec![endpoint(7, &[])]);
    let (ended, reply) = outcome(&work, &begins()).unwrap();
    assert_eq!(reply, ContractEnd::begun(id(1)));
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
    assert!(caused(&work, &begins()).is_empty());
    for (done, expected) in [(false, 0), (true, 1), (true, 0)] {
        let refused = work.active_partner(&id(1)).err().map(|error| error.code);
        assert_eq!(refused.as_deref(), Some("partner_ended"));
        let changed = caused(&work, &page(done));
        assert_eq!(changed.len(), expected, "{done}");
        apply_all(&mut work, &changed);
    }
    assert!(work.partners[&id(1)].partner.is_erased());
}

#[test]
fn a_partner_that_is_reinstated_before_its_record_is_erased_has_its_contract_again() {
    let mut work = work(PartnerStatus::Suspended, vec![]);
    done(&mut work, &begins());
    let before = work.partners[&id(1)].partner.clone();
    assert!(before.is_ended() && !before.is_erased(), "{before:?}");
    let (_, account) = done(&mut work, &reinstate());
    let after = &work.partners[&id(1)].partner;
    assert_eq!((after, after.contract_ended_at), (&account.partner, None));
    assert!(work.active_partner(&id(1)).is_ok());
    // What was examined could have changed since.
    assert_eq!(code_of(&work, &page(true)), "booking_changed");
    done(&mut work, &begins());
    done(&mut work, &page(true));
    assert_eq!(code_of(&work, &reinstate()), "partner_ended");
}

#[test]
fn a_registration_that_waits_for_approval_ends_at_once_and_stays_ended() {
    let mut work = work(PartnerStatus::Pending, vec![]);
    let (_, begun) = done(&mut work, &begins());
    assert_eq!(begun, ContractEnd::begun(id(1)));
    let partner = work.partners[&id(1)].partner.clone();
    assert_eq!(partner.status, PartnerStatus::Suspended);
    assert!(partner.is_erased(), "{partner:?}");
    assert!(caused(&work, &begins()).is_empty());
    assert_eq!(code_of(&work, &reinstate()), "partner_ended");
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
        let partner = &mut work.partners.get_mut(&id(1)).unwrap().partner;
        partner.contract_ended_at = Some(NOW);
        let named = named.map(|n| hold(n, 1, false).hold);
        let said = format!("{done} {named:?} {stored:?}");
        let stored = stored.into_iter();
        work.holds = stored.map(|stored| (stored.hold.hold_id, stored)).collect();
        let end = held_page(done, named.into_iter().collect());
        let refused = decide(&work, &end).err().map(|error| error.code);
        assert_eq!(refused.as_deref(), expected, "{said}");
    }
}
