//! How many keys there may be, for how long, and which key may replace or revoke which.

use crate::features::api_keys::Maker;
use crate::features::api_keys::rotation::{RotateApiKey, RotatedApiKey};
use crate::features::fixture::*;

const DAY: i64 = limits::DAY_MS;

fn scopes(words: &[&str]) -> Scopes {
    Scopes::parse(words).unwrap()
}

/// Adds a key of partner 1.
fn add(state: &mut BatchState, n: u8, words: &[&str], expires_ms: Option<i64>) {
    let key = ApiKey {
        scopes: scopes(words),
        expires_at: expires_ms.map(Timestamp::from_ms),
        ..new_key(n).key
    };
    add_key(state, 1, key);
}

fn add_key(state: &mut BatchState, owner: u8, key: ApiKey) {
    let known = KeyState {
        partner_id: id(owner),
        lives_ms: key.expires_at.map(Timestamp::ms),
        notice_at: None,
        key,
    };
    state.keys.insert(known.key.api_key_id, known);
}

fn maker(n: u8, words: &[&str]) -> Maker {
    Maker {
        api_key_id: id(n),
        scopes: scopes(words),
    }
}

fn create(by: Option<Maker>, expires_ms: Option<i64>) -> Envelope<NewApiKey> {
    let mut key = new_key(2);
    key.key.expires_at = expires_ms.map(Timestamp::from_ms);
    command(CreateApiKey {
        partner_id: id(1),
        by,
        key,
        secret: ApiKeySecret::generate(|| 7),
    })
}

fn rotate_at(at: i64, by: Option<Maker>, n: u8, overlap_ms: i64) -> Envelope<RotatedApiKey> {
    let rotate = RotateApiKey {
        partner_id: id(1),
        api_key_id: id(n),
        by,
        key: new_key(99),
        secret: ApiKeySecret::generate(|| 7),
        overlap_ms,
    };
    Envelope::new(Timestamp::from_ms(at), rotate)
}

fn revoke(owner: u8, n: u8, by: Option<&[&str]>) -> Envelope<ApiKey> {
    command(RevokeApiKey {
        partner_id: id(owner),
        api_key_id: id(n),
        by: by.map(scopes),
    })
}

#[test]
fn keys_are_limited_and_revoked_once() {
    let mut state = work(PartnerStatus::Active, vec![]);
    assert_eq!(caused(&state, &create(None, None)).len(), 1);
    let most = u8::try_from(limits::KEYS_PER_PARTNER).unwrap();
    for n in 100..100 + most {
        add(&mut state, n, &["*"], Some(DAY));
    }
    assert_eq!(code_of(&state, &create(None, None)), "too_many_keys");
    assert_eq!(
        code_of(&state, &rotate_at(0, None, 100, 1)),
        "too_many_keys"
    );
    assert_eq!(
        code_of(&state, &rotate_at(0, None, 100, 0)),
        "",
        "it makes room"
    );
    state.keys.get_mut(&id(100)).unwrap().key.expires_at = Some(NOW);
    assert_eq!(
        code_of(&state, &create(None, None)),
        "",
        "an expired key does not count"
    );
    let pending = work(PartnerStatus::Pending, vec![]);
    assert_eq!(code_of(&pending, &create(None, None)), "partner_pending");

    add(&mut state, 3, &["*"], None);
    assert_eq!(code_of(&state, &revoke(9, 3, None)), "not_found");
    let (first, _) = done(&mut state, &revoke(1, 3, None));
    assert_eq!(first.len(), 1);
    let again = caused(&state, &revoke(1, 3, None));
    assert!(again.is_empty(), "revoking twice changes nothing");
}

#[test]
fn a_key_makes_none_that_outlives_it() {
    for (own, wanted, expected) in [
        (None, None, Ok(None)),
        (None, Some(9), Ok(Some(9))),
        (Some(5), None, Ok(Some(5))),
        (Some(5), Some(4), Ok(Some(4))),
        (Some(5), Some(5), Ok(Some(5))),
        (Some(5), Some(6), Err("outlives_creator")),
        // It has expired since it was admitted.
        (Some(0), None, Err("unauthorized")),
    ] {
        let mut state = work(PartnerStatus::Active, vec![]);
        add(&mut state, 3, &["*"], own);
        let decided = outcome(&state, &create(Some(maker(3, &["*"])), wanted));
        let made = decided.map(|(_, reply)| reply.expires_at.map(Timestamp::ms));
        let made = made.map_err(|e| e.code.into_owned());
        assert_eq!(made, expected.map_err(str::to_owned), "{own:?} {wanted:?}");
    }
    let state = work(PartnerStatus::Active, vec![]);
    let revoked = create(Some(maker(3, &["*"])), None);
    assert_eq!(code_of(&state, &revoked), "unauthorized");
}

#[test]
fn a_rotation_hands_on_name_scopes_and_lifetime_and_ends_the_old_key() {
    let words: &[&str] = &["bookings:*", "evidence:read"];
    // The old key was made at 0 and is rotated at 100.
    for (expires, overlap, new_end, old_end) in [
        (None, 0, None, 100),
        (None, 50, None, 150),
        (Some(DAY), 50, Some(DAY + 100), 150),
        (Some(120), 50, Some(220), 119),
        (Some(120), 0, Some(220), 100),
    ] {
        let mut state = work(PartnerStatus::Active, vec![]);
        add(&mut state, 3, words, expires);
        let (effects, reply) = done(&mut state, &rotate_at(100, None, 3, overlap));
        let said = format!("{expires:?} {overlap}");
        assert_eq!(effects.len(), 2, "{said}");
        let at = Timestamp::from_ms;
        assert_eq!(reply.key.expires_at, new_end.map(at), "{said}");
        assert_eq!(reply.replaced_expires_at, at(old_end), "{said}");
        assert_eq!(reply.replaced_api_key_id, id(3));
        let (old, new) = (&state.keys[&id(3)].key, &state.keys[&id(99)].key);
        assert_eq!(old.expires_at, Some(at(old_end)), "{said}");
        assert_eq!((&new.name, &new.scopes), (&old.name, &scopes(words)));
        assert_eq!(old.works(at(101)), old_end > 101, "{said}");
        // Rotated again during the overlap, it hands on what it was made for.
        if old_end > 110 {
            let (_, again) = done(&mut state, &rotate_at(110, None, 3, overlap));
            let later = expires.map(|ms| at(110 + ms));
            assert_eq!(again.key.expires_at, later, "{said}");
            assert!(again.replaced_expires_at <= at(old_end), "{said}");
        }
    }
}

#[test]
fn only_a_working_key_is_rotated_and_only_by_one_that_may() {
    let (all, manager): (&[&str], &[&str]) = (&["*"], &["api-keys:write"]);
    // Key 3 is rotated by itself, by key 4, or by the administrator.
    for (by, own, other_end, target_end, expected) in [
        (None, all, None, None, ""),
        (None, all, None, Some(9), ""),
        (None, all, None, Some(0), "api_key_ended"),
        (Some(3), all, None, None, ""),
        (Some(3), all, None, Some(9), ""),
        (Some(3), all, None, Some(0), "api_key_ended"),
        (Some(4), all, None, None, ""),
        (Some(4), manager, None, None, "insufficient_scope"),
        (Some(4), all, Some(9), None, "outlives_creator"),
        (Some(4), all, Some(9), Some(10), "outlives_creator"),
        (Some(4), all, Some(9), Some(9), ""),
        (Some(4), all, Some(0), Some(9), "unauthorized"),
    ] {
        let mut state = work(PartnerStatus::Active, vec![]);
        add(&mut state, 3, all, target_end);
        add(&mut state, 4, own, other_end);
        let rotate = rotate_at(0, by.map(|n| maker(n, own)), 3, limits::OWN_OVERLAP_MS);
        let said = format!("{by:?} {own:?} {other_end:?} {target_end:?}");
        assert_eq!(code_of(&state, &rotate), expected, "{said}");
    }
    let mut state = work(PartnerStatus::Active, vec![]);
    add_key(&mut state, 9, new_key(3).key);
    assert_eq!(code_of(&state, &rotate_at(0, None, 3, 5)), "not_found");
    add(&mut state, 4, all, None);
    done(&mut state, &revoke(1, 4, None));
    assert_eq!(code_of(&state, &rotate_at(0, None, 4, 5)), "api_key_ended");
}

/// Whoever finds a key that was rotated has it until it ends, and no longer.
#[test]
fn a_key_rotates_itself_once_and_lives_to_see_the_answer() {
    let all: &[&str] = &["*"];
    // The last one expires before the overlap would end.
    for expires in [None, Some(DAY), Some(limits::OWN_OVERLAP_MS - 1)] {
        let mut state = work(PartnerStatus::Active, vec![]);
        add(&mut state, 3, all, expires);
        let own = |overlap| rotate_at(0, Some(maker(3, all)), 3, overlap);
        for overlap in [0, limits::OWN_OVERLAP_MS - 1] {
            assert_eq!(code_of(&state, &own(overlap)), "out_of_range", "{overlap}");
        }
        done(&mut state, &own(limits::OWN_OVERLAP_MS));
        assert_eq!(
            code_of(&state, &own(limits::OWN_OVERLAP_MS)),
            "api_key_rotated"
        );
        let other = rotate_at(0, Some(maker(99, all)), 3, 0);
        assert_eq!(code_of(&state, &other), "", "its successor may");
        done(&mut state, &other);
        let key = &state.keys[&id(3)].key;
        assert_eq!(
            key.revoked_at,
            Some(Timestamp::EPOCH),
            "on every node at once"
        );
    }
}

#[test]
fn a_key_cannot_revoke_a_stronger_key_or_the_last_that_manages_keys() {
    let (all, manager): (&[&str], &[&str]) = (&["*"], &["api-keys:write"]);
    #[rustfmt::skip]
    let cases = [
        (Some(manager), all, vec![all], "insufficient_scope"),
        (Some(&["api-keys:*", "bookings:*"]), &["webhooks:read"], vec![all], "insufficient_scope"),
        (Some(manager), manager, vec![all], ""),
        (Some(all), all, vec![manager], ""),
        (Some(all), all, vec![], "last_managing_key"),
        (Some(all), all, vec![&["bookings:*", "api-keys:read"]], "last_managing_key"),
        (Some(manager), manager, vec![], "last_managing_key"),
        (Some(all), &["bookings:read"], vec![all], ""),
        (None, all, vec![], ""),
    ];
    for (by, target, others, expected) in cases {
        let mut state = work(PartnerStatus::Active, vec![]);
        add(&mut state, 3, target, None);
        for (n, words) in (10..).zip(&others) {
            add(&mut state, n, words, None);
        }
        // None of these replaces the last key.
        let revoked = ApiKey {
            revoked_at: Some(NOW),
            ..new_key(20).key
        };
        add_key(&mut state, 1, revoked);
        add_key(&mut state, 9, new_key(21).key);
        add(&mut state, 22, all, Some(0));
        let said = format!("{by:?} ends {target:?} beside {others:?}");
        assert_eq!(code_of(&state, &revoke(1, 3, by)), expected, "{said}");
    }
}

#[test]
fn a_key_that_expires_soon_replaces_only_one_that_expires_no_later() {
    let refused = "last_managing_key";
    let week = 7 * DAY;
    for (target, other, expected) in [
        (None, None, ""),
        (None, Some(week + 1), ""),
        // As long as a key that was rotated out may still work.
        (None, Some(week), refused),
        (None, Some(1), refused),
        (Some(3 * DAY), Some(3 * DAY), ""),
        (Some(3 * DAY), Some(3 * DAY - 1), refused),
        (Some(3 * DAY), Some(week), ""),
        (Some(90 * DAY), Some(week), refused),
        (Some(90 * DAY), Some(week + 1), ""),
        // It opens nothing any more.
        (Some(0), Some(1), ""),
    ] {
        let mut state = work(PartnerStatus::Active, vec![]);
        add(&mut state, 3, &["*"], target);
        add(&mut state, 4, &["*"], other);
        let asked = revoke(1, 3, Some(&["*"]));
        assert_eq!(code_of(&state, &asked), expected, "{target:?} {other:?}");
    }
}
