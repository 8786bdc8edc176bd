//! Evidence items as tables, on bookings made by hand.

use crate::evidence::ItemKind;
use crate::features::fixture::*;
use crate::features::items::{AddEvidenceItem, AddedItem, ItemRequest};
use crate::input;
use crate::ledger::LeafKind;
use crate::policy::Actor;

const NOW: &str = "2026-06-01T00:00:00.500Z";

fn ask() -> ItemRequest {
    ItemRequest {
        kind: ItemKind::Refund,
        title: "Refund of the deposit".to_owned(),
        at: Some(at("2026-05-31T09:00:00Z")),
        party: Some(Actor::Partner),
        amount: Some("300.50".to_owned()),
        currency: None,
        reference: Some("re_1".to_owned()),
        note: None,
        sha256: None,
    }
}

fn adding(n: u8, asked: ItemRequest) -> AddEvidenceItem {
    AddEvidenceItem {
        partner_id: partner_id(),
        booking_id: booking_id(),
        item_id: id(n),
        asked,
        seed: [n; 32],
    }
}

fn added(work: &BatchState, command: AddEvidenceItem) -> Result<(Vec<Change>, AddedItem), Error> {
    outcome(work, &Envelope::new(at(NOW), command))
}

#[test]
fn an_item_is_one_entry_in_every_status_of_a_booking() {
    for status in [
        BookingStatus::Created,
        BookingStatus::Protected,
        BookingStatus::Canceled,
    ] {
        let mut loaded = state(Some("firm"), BookingStatus::Created);
        if status == BookingStatus::Protected {
            loaded.state.booking.status = status;
        }
        let mut work = work_with(loaded);
        if status == BookingStatus::Canceled {
            let cancel = canceling(ask_to_cancel(Actor::Organizer, None));
            apply(&mut work, "2026-05-01T00:00:00Z", cancel);
        }
        let (changes, reply) = added(&work, adding(1, ask())).unwrap();
        let [entry] = entries(&changes)[..] else {
            panic!("{changes:?}")
        };
        assert_eq!(entry.fact.kind, LeafKind::EvidenceAdded, "{status:?}");
        assert_eq!(tree_of(&reply.receipt), HEAD);
        let amount = reply.item.amount.unwrap();
        assert_eq!((amount.minor(), amount.currency()), (30_050, Currency::USD));
        assert_eq!(reply.item.added_at, at(NOW));
        assert!(waits_for_room(
            &work,
            &Envelope::new(at(NOW), adding(2, ask()))
        ));
    }
}

#[test]
fn an_item_is_refused_for_what_it_says() {
    let work = work_with(state(None, BookingStatus::Created));
    #[rustfmt::skip]
    let cases = [
        (ask(), None),
        (ItemRequest { at: Some(at("2026-06-01T00:05:00Z")), ..ask() }, None),
        (ItemRequest { at: Some(at("2026-06-01T00:05:01Z")), ..ask() }, Some(("item_in_future", "/at"))),
        (ItemRequest { amount: Some("300.505".to_owned()), ..ask() }, Some(("amount_precision", "/amount"))),
        (ItemRequest { currency: Currency::parse("JPY").ok(), ..ask() }, Some(("amount_precision", "/amount"))),
    ];
    for (asked, expected) in cases {
        let said = format!("{asked:?}");
        match (added(&work, adding(1, asked)), expected) {
            (Ok(_), None) => {}
            (Err(refused), Some((code, pointer))) => {
                assert_eq!(
                    (&*refused.code, &*refused.details[0].pointer),
                    (code, pointer),
                    "{said}"
                );
            }
            (decided, _) => panic!("{said}: {decided:?}"),
        }
    }
    let stranger = AddEvidenceItem {
        partner_id: id(2),
        ..adding(1, ask())
    };
    assert_eq!(added(&work, stranger).unwrap_err().code, "not_found");
}

#[test]
fn a_booking_takes_a_limited_number_of_items_in_one_batch_too() {
    let mut work = work_with(state(None, BookingStatus::Created));
    for n in 0..limits::ITEMS {
        let (changes, _) = added(&work, adding(u8::try_from(n).unwrap(), ask())).unwrap();
        apply_all(&mut work, &changes);
    }
    let refused = added(&work, adding(200, ask())).unwrap_err();
    assert_eq!(
        (refused.kind, &*refused.code),
        (Kind::Conflict, "too_many_evidence_items")
    );
}

#[test]
fn a_body_says_what_the_item_is() {
    let read = |body: &str| input::read(body.as_bytes(), ItemRequest::form);
    let example = read(ItemRequest::BODY.example).unwrap();
    assert_eq!(
        (example.kind, example.amount.as_deref()),
        (ItemKind::Refund, Some("300"))
    );
    let code = |body: &str| read(body).unwrap_err().code.into_owned();
    assert_eq!(
        code(r#"{"kind": "refund", "title": "t", "currency": "USD"}"#),
        "currency_without_amount"
    );
    assert_eq!(
        code(r#"{"kind": "refund", "title": "t", "sha256": "sha256:ABC"}"#),
        "bad_digest"
    );
    assert_eq!(code(r#"{"kind": "bribe", "title": "t"}"#), "not_allowed");
    assert_eq!(code(r#"{"kind": "refund"}"#), "missing_field");
}
