//! `operator-keys`: creates, lists and revokes keys of the operator interface, on the database alone.

use bookguard_core::features::operator_keys::{
    CreateOperatorKey, CreatedOperatorKey, ListOperatorKeys, RevokeOperatorKey,
};
use bookguard_core::model::OperatorKey;

use super::declare::{CliCommand, group, operation};
use crate::output::table::{one_and_page, record_fn};

pub(super) fn commands() -> CliCommand {
    let about = "Create an operator key; it is shown only once (on the database only)";
    let create = operation::<CreateOperatorKey>("create", about, created);
    let about =
        "List operator keys, newest first, without the keys themselves (on the database only)";
    let list = operation::<ListOperatorKeys>("list", about, keys);
    let about = "Revoke an operator key, at once on every node (on the database only)";
    let revoke = operation::<RevokeOperatorKey>("revoke", about, key);
    let about = "Keys of the operator interface";
    group("operator-keys", about, [create, list, revoke])
}

record_fn! { fn created(new: &CreatedOperatorKey), "\n\nKeep the key now: it is not shown again." =>
    "operator key id" => new.operator_key_id,
    "operator key" => new.operator_key,
    "name" => new.name,
    "created" => new.created_at,
}

// Keys are shown without the key itself.
one_and_page! { key, keys, "operator keys", key: OperatorKey =>
    "operator key id" => key.operator_key_id,
    "name" => key.name,
    "ends with" => key.hint,
    "created" => key.created_at,
    "revoked" => key.revoked_at,
}
