//! `operator-keys`: creates, lists and revokes keys of the operator interface, on the database alone.

use bookguard_core::features::operator_keys::{
    CreateOperatorKey, CreatedOperatorKey, ListOperatorKeys, RevokeOperatorKey,
};
use bookguard_core::model::{OperatorKey, Page};

use super::declare::{CliCommand, group, operation};
use crate::output::table::{Style, fields, or_dash, page, record};

pub(super) fn commands() -> CliCommand {
    let about = "Create an operator key; it is shown only once (on the database only)";
    let create = operation::<CreateOperatorKey>("create", about, created);
    let about =
        "List operator keys, newest first, without the keys themselves (on the database only)";
    let list = operation::<ListOperatorKeys>("list", about, keys);
    let about = "Revoke an operator key, at once on every node (on the database only)";
    let revoke = operation::<RevokeOperatorKey>("revoke", about, key);
    group(
        "operator-keys",
        "Keys of the operator interface",
        [create, list, revoke],
    )
}

fn created(new: &CreatedOperatorKey, style: Style) -> String {
    let fields = fields! {
        "operator key id" => new.operator_key_id,
        "operator key" => new.operator_key,
        "name" => new.name,
        "created" => new.created_at,
    };
    record(style, &fields) + "\n\nKeep the key now: it is not shown again."
}

/// Shows one key, without the key itself.
fn key(key: &OperatorKey, style: Style) -> String {
    let fields = fields! {
        "operator key id" => key.operator_key_id,
        "name" => key.name,
        "ends with" => key.hint,
        "created" => key.created_at,
        "revoked" => key.revoked_at,
    };
    record(style, &fields)
}

fn keys(page: &Page<OperatorKey>, style: Style) -> String {
    page! { style, "operator keys", page, key =>
        "OPERATOR KEY ID" => key.operator_key_id,
        "NAME" => key.name,
        "ENDS WITH" => key.hint,
        "CREATED" => key.created_at,
        "REVOKED" => or_dash(key.revoked_at),
    }
}
