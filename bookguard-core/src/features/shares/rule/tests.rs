//! How many shares there may be, who may revoke one, and which views are recorded.

use super::*;
use crate::evidence::ViewForm;
use crate::features::fixture::*;

fn share(n: u8) -> Share {
    Share {
        share_id: id(n),
        booking_id: id(4),
        created_at: NOW,
        expires_at: NOW.plus_ms(limits::DAY_MS),
        revoked_at: None,
        withhold: Vec::new(),
        note: None,
        views: 0,
        last_viewed_at: None,
        recent_views: Vec::new(),
    }
}

fn stored(share: Share) -> StoredShare {
    StoredShare {
        share,
        hash: [7; 32],
    }
}

fn create(n: u8) -> Envelope<NewShare> {
    let share = share(n);
    let reply = NewShare {
        share_id: share.share_id,
        booking_id: share.booking_id,
        url: String::new(),
        created_at: share.created_at,
        expires_at: share.expires_at,
        withhold: Vec::new(),
        note: None,
    };
    command(CreateShare {
        partner_id: id(1),
        stored: stored(share),
        reply,
    })
}

fn hold(state: &mut BatchState, share: Share) {
    state.shares.insert(share.share_id, stored(share));
}

#[test]
fn a_booking_has_so_many_live_shares_and_keeps_so_many_ended_ones() {
    let ended = |n| Share {
        revoked_at: Some(NOW),
        ..share(n)
    };
    let elsewhere = |n| Share {
        booking_id: id(5),
        ..share(n)
    };
    let (live, kept) = (
        limits::SHARES_PER_BOOKING as u8,
        limits::SHARES_KEPT_PER_BOOKING as u8,
    );
    for (shares, refused) in [
        ((0..live - 1).map(share).collect::<Vec<_>>(), None),
        ((0..live).map(share).collect(), Some("too_many_shares")),
        ((0..live).map(ended).collect(), None),
        ((0..live).map(elsewhere).collect(), None),
        ((0..kept - 1).map(ended).collect(), None),
        ((0..kept).map(ended).collect(), Some("too_many_shares")),
    ] {
        let mut state = work(PartnerStatus::Active, vec![]);
        let held = shares.len();
        shares.into_iter().for_each(|share| hold(&mut state, share));
        let decided = decide(&state, &create(250));
        assert_eq!(
            decided.err().map(|e| e.code.into_owned()).as_deref(),
            refused,
            "{held}"
        );
    }
    let mut state = work(PartnerStatus::Active, vec![]);
    for n in 0..live {
        done(&mut state, &create(n));
    }
    assert_eq!(code_of(&state, &create(250)), "too_many_shares");
    state
        .shares
        .values_mut()
        .for_each(|stored| stored.share.expires_at = NOW);
    assert!(decide(&state, &create(250)).is_ok(), "they have expired");
    let pending = work(PartnerStatus::Pending, vec![]);
    assert_eq!(code_of(&pending, &create(250)), "partner_pending");
    let state = work(PartnerStatus::Active, vec![]);
    assert!(waits_for_room(&state, &create(250)));
}

#[test]
fn a_share_is_revoked_once_and_only_by_its_booking() {
    let revoke = |booking: u8| {
        command(RevokeShare {
            booking_id: id(booking),
            share_id: id(3),
        })
    };
    let mut state = work(PartnerStatus::Active, vec![]);
    assert_eq!(code_of(&state, &revoke(4)), "not_found");
    hold(&mut state, share(3));
    assert_eq!(code_of(&state, &revoke(5)), "not_found");
    let (changes, first) = done(&mut state, &revoke(4));
    assert_eq!((changes.len(), first.revoked_at), (1, Some(NOW)));
    let (changes, second) = done(&mut state, &revoke(4));
    assert!(changes.is_empty(), "revoking twice changes nothing");
    assert_eq!(first, second);
    assert!(!waits_for_room(&state, &revoke(4)));
}

#[test]
fn views_are_recorded_while_it_shows_anything_and_repeated_ones_once() {
    let view = |form, ms| {
        let record = RecordView {
            share_id: id(3),
            form,
        };
        Envelope::new(NOW.plus_ms(ms), record)
    };
    let mut state = work(PartnerStatus::Active, vec![]);
    assert_eq!(code_of(&state, &view(ViewForm::Page, 0)), "not_found");
    hold(&mut state, share(3));
    for (form, ms, views) in [
        (ViewForm::Page, 0, 1),
        (ViewForm::Page, 59_999, 1),
        (ViewForm::Pdf, 59_999, 2),
        (ViewForm::Page, 60_000, 3),
    ] {
        done(&mut state, &view(form, ms));
        assert_eq!(state.shares[&id(3)].share.views, views, "{form:?} {ms}");
    }
    assert_eq!(state.shares[&id(3)].hash, [7; 32]);
    let late = view(ViewForm::Page, limits::DAY_MS);
    assert_eq!(code_of(&state, &late), "not_found");
    hold(
        &mut state,
        Share {
            revoked_at: Some(NOW),
            ..share(3)
        },
    );
    let again = view(ViewForm::Page, 1);
    assert_eq!(code_of(&state, &again), "not_found");
}
