//! Who is registered, and who is approved.

use crate::features::fixture::*;
use crate::features::partners::RegisterPartner;

fn registration(status: RegistrationStatus) -> Registration {
    Registration {
        partner_id: id(1),
        name: "Acme".to_owned(),
        status,
        api_key_id: None,
        api_key: None,
        signing_secret: None,
    }
}

#[test]
fn a_partner_is_registered_with_its_first_key_or_waits_for_it() {
    for (status, told, keys) in [
        (PartnerStatus::Active, RegistrationStatus::Active, 1),
        (PartnerStatus::Pending, RegistrationStatus::Pending, 0),
    ] {
        let register = command(RegisterPartner {
            partner: partner(status, vec![]).partner,
            secret: vec![1],
            key: (keys > 0).then(|| new_key(2)),
            reply: registration(told),
        });
        assert!(waits_for_room(&BatchState::default(), &register));
        let mut work = BatchState::default();
        let (_, reply) = done(&mut work, &register);
        assert_eq!((reply.partner_id, reply.status), (id(1), told));
        let there = &work.partners[&id(1)];
        assert_eq!((there.partner.status, work.keys.len()), (status, keys));
        assert_eq!(work.active_partner(&id(1)).is_ok(), keys > 0);
    }
}

#[test]
fn only_a_pending_partner_is_approved() {
    let approve = command(ApprovePartner {
        partner_id: id(1),
        key: new_key(2),
        reply: registration(RegistrationStatus::Active),
    });
    assert_eq!(
        caused(&work(PartnerStatus::Pending, vec![]), &approve).len(),
        2
    );
    assert_eq!(
        code_of(&work(PartnerStatus::Active, vec![]), &approve),
        "partner_not_pending"
    );
    assert_eq!(code_of(&BatchState::default(), &approve), "not_found");
}

#[test]
fn nothing_is_recorded_for_a_partner_that_waits_for_approval_or_whose_contract_has_ended() {
    let when = at("2026-06-01T12:00:00Z");
    for (status, ended_at, is_erased, expected) in [
        (PartnerStatus::Pending, None, false, "partner_pending"),
        (PartnerStatus::Suspended, Some(when), false, "partner_ended"),
        (PartnerStatus::Suspended, Some(when), true, "partner_ended"),
        // By version 0.1.0.
        (PartnerStatus::Suspended, None, true, "partner_ended"),
        (PartnerStatus::Suspended, None, false, ""),
    ] {
        let mut work = work_with(state(None, BookingStatus::Created));
        let there = work.partners.get_mut(&partner_id()).unwrap();
        there.partner.status = status;
        there.partner.contract_ended_at = ended_at;
        if is_erased {
            there.partner = there.partner.erased();
        }
        assert_eq!(code_of(&work, &booking(when)), expected);
        let protect = Envelope::new(when, protecting());
        assert_eq!(code_of(&work, &protect), expected);
        let decided = code_of(&work, &Envelope::new(when, deciding("1.00")));
        let expected = match expected {
            "" => "not_found",
            refused => refused,
        };
        assert_eq!(decided, expected);
        let refused = decide(&work, &Envelope::new(when, deciding("1.00"))).err();
        let told = refused.is_some_and(|error| {
            error
                .message
                .contains("a review that was still open stays open")
        });
        assert_eq!(told, is_erased);
    }
}
