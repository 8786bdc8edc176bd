//! How many operator keys there may be, and that each is revoked once.

use crate::engine::command::NewOperatorKey;
use crate::features::fixture::*;
use crate::features::operator_keys::{CreateOperatorKey, CreatedOperatorKey, RevokeOperatorKey};
use crate::limits;
use crate::model::OperatorKey;

fn stored(n: u8) -> NewOperatorKey {
    let key = OperatorKey {
        operator_key_id: id(n),
        name: "n".to_owned(),
        hint: "abcd".to_owned(),
        created_at: NOW,
        revoked_at: None,
    };
    NewOperatorKey { key, hash: [n; 32] }
}

#[test]
fn operator_keys_are_limited_and_revoked_once() {
    let create = command(CreateOperatorKey {
        key: stored(200),
        reply: CreatedOperatorKey {
            operator_key_id: id(200),
            operator_key: String::new(),
            name: String::new(),
            created_at: NOW,
        },
    });
    let mut state = BatchState::default();
    for n in 1..limits::OPERATOR_KEYS as u8 {
        state.operator_keys.insert(id(n), stored(n));
    }
    let mut revoked = stored(150);
    revoked.key.revoked_at = Some(NOW);
    state.operator_keys.insert(id(150), revoked);
    assert_eq!(
        caused(&state, &create).len(),
        1,
        "a revoked one leaves room"
    );
    state.operator_keys.insert(id(100), stored(100));
    assert_eq!(code_of(&state, &create), "too_many_operator_keys");

    let revoke = |n| {
        command(RevokeOperatorKey {
            operator_key_id: id(n),
        })
    };
    assert_eq!(caused(&state, &revoke(1)).len(), 1);
    assert_eq!(caused(&state, &revoke(150)).len(), 0);
    assert_eq!(code_of(&state, &revoke(199)), "not_found");
}
