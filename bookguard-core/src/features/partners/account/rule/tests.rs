//! What the operator changes of a partner's account.

use crate::features::fixture::*;
use crate::features::partners::account::{
    EditPartner, PartnerEdit, ReinstatePartner, SuspendPartner,
};

#[test]
fn a_partner_is_suspended_and_reinstated_once_each_and_not_before_it_is_approved() {
    let suspend = command(SuspendPartner { partner_id: id(1) });
    let reinstate = command(ReinstatePartner { partner_id: id(1) });
    for (status, suspends, reinstates) in [
        (PartnerStatus::Active, 1, 0),
        (PartnerStatus::Suspended, 0, 1),
    ] {
        let state = work(status, vec![]);
        assert_eq!(caused(&state, &suspend).len(), suspends);
        assert_eq!(caused(&state, &reinstate).len(), reinstates);
    }
    let pending = work(PartnerStatus::Pending, vec![]);
    assert_eq!(code_of(&pending, &suspend), "partner_pending");
    assert_eq!(code_of(&pending, &reinstate), "partner_pending");
    let unknown = command(SuspendPartner { partner_id: id(9) });
    assert_eq!(code_of(&pending, &unknown), "not_found");
}

#[test]
fn an_edit_changes_what_it_names_and_nothing_if_all_is_so_already() {
    let edit = |name: Option<&str>| {
        command(EditPartner {
            partner_id: id(1),
            edit: PartnerEdit {
                name: name.map(str::to_owned),
                ..PartnerEdit::default()
            },
        })
    };
    let state = work(PartnerStatus::Active, vec![]);
    assert_eq!(caused(&state, &edit(Some("Other"))).len(), 1);
    assert_eq!(caused(&state, &edit(None)).len(), 0);
}
