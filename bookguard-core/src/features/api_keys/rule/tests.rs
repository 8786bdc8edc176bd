//! How many keys there may be, and which key may revoke which.

use crate::features::fixture::*;

#[test]
fn keys_are_limited_and_revoked_once() {
    let reply = NewApiKey {
        api_key_id: id(2),
        api_key: String::new(),
        name: String::new(),
        scopes: Scopes::all(),
        created_at: NOW,
    };
    let create = command(CreateApiKey {
        partner_id: id(1),
        key: new_key(2),
        reply,
    });
    let mut state = work(PartnerStatus::Active, vec![]);
    assert_eq!(changes(decide(&state, &create)).len(), 1);
    state.partners.get_mut(&id(1)).unwrap().live_keys = crate::limits::KEYS_PER_PARTNER;
    assert_eq!(refusal(decide(&state, &create)), "too_many_keys");
    assert_eq!(
        refusal(decide(&work(PartnerStatus::Pending, vec![]), &create)),
        "not_found"
    );

    let revoke = |owner| {
        command(RevokeApiKey {
            partner_id: owner,
            api_key_id: id(3),
            by: None,
        })
    };
    state.keys.insert(
        id(3),
        KeyState {
            partner_id: id(1),
            key: new_key(3).key,
        },
    );
    assert_eq!(refusal(decide(&state, &revoke(id(9)))), "not_found");
    let first = changes(decide(&state, &revoke(id(1))));
    assert_eq!(first.len(), 1);
    apply_all(&mut state, &first);
    assert!(
        changes(decide(&state, &revoke(id(1)))).is_empty(),
        "revoking twice changes nothing"
    );
}

#[test]
fn a_key_cannot_revoke_a_stronger_key_or_the_last_that_manages_keys() {
    let scopes = |words: &[&str]| Scopes::parse(words).unwrap();
    let (all, manager): (&[&str], &[&str]) = (&["*"], &["api-keys:write"]);
    for (by, target, others, expected) in [
        (Some(manager), all, vec![all], "insufficient_scope"),
        (
            Some(&["api-keys:*", "bookings:*"]),
            &["webhooks:read"],
            vec![all],
            "insufficient_scope",
        ),
        (Some(manager), manager, vec![all], ""),
        (Some(all), all, vec![manager], ""),
        (Some(all), all, vec![], "last_managing_key"),
        (
            Some(all),
            all,
            vec![&["bookings:*", "api-keys:read"]],
            "last_managing_key",
        ),
        (Some(manager), manager, vec![], "last_managing_key"),
        (Some(all), &["bookings:read"], vec![all], ""),
        (None, all, vec![], ""),
    ] {
        let mut state = work(PartnerStatus::Active, vec![]);
        let mut add = |n: u8, owner, words: &[&str], revoked_at| {
            let key = ApiKey {
                scopes: scopes(words),
                revoked_at,
                ..new_key(n).key
            };
            state.keys.insert(
                id(n),
                KeyState {
                    partner_id: id(owner),
                    key,
                },
            );
        };
        add(3, 1, target, None);
        for (n, words) in (10..).zip(&others) {
            add(n, 1, words, None);
        }
        // Neither of these replaces the last key.
        add(20, 1, all, Some(NOW));
        add(21, 9, all, None);
        let revoke = command(RevokeApiKey {
            partner_id: id(1),
            api_key_id: id(3),
            by: by.map(scopes),
        });
        let decided = decide(&state, &revoke);
        let said = format!("{by:?} ends {target:?} beside {others:?}");
        match expected {
            "" => assert_eq!(changes(decided).len(), 1, "{said}"),
            code => assert_eq!(refusal(decided), code, "{said}"),
        }
    }
}
