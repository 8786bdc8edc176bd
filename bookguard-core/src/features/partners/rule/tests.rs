//! Which partners can be approved.

use crate::features::fixture::*;

#[test]
fn only_a_pending_partner_is_approved() {
    let reply = Registration {
        partner_id: id(1),
        name: "Acme".to_owned(),
        status: PartnerStatus::Active,
        api_key_id: None,
        api_key: None,
        signing_secret: None,
    };
    let approve = command(ApprovePartner {
        partner_id: id(1),
        key: new_key(2),
        reply,
    });
    assert_eq!(
        changes(decide(&work(PartnerStatus::Pending, vec![]), &approve)).len(),
        2
    );
    assert_eq!(
        refusal(decide(&work(PartnerStatus::Active, vec![]), &approve)),
        "partner_not_pending"
    );
    assert_eq!(
        refusal(decide(&BatchState::default(), &approve)),
        "not_found"
    );
}
