//! `api-keys`: creates, lists and revokes keys.

use bookguard_core::features::api_keys::{CreateApiKey, ListApiKeys, NewApiKey, RevokeApiKey};
use bookguard_core::model::{ApiKey, Page};

use super::declare::{Declared, group, operation};
use crate::output::table::{Style, fields, or_dash, page, record};

pub(super) fn commands() -> Declared {
    let about = "Create a key; it is shown only once";
    let create = operation::<CreateApiKey>("create", about, new_key);
    let about = "List keys, newest first, without the keys themselves";
    let list = operation::<ListApiKeys>("list", about, keys);
    let revoke = operation::<RevokeApiKey>("revoke", "Revoke a key", key);
    let create = create.flags(|flags| {
        flags.name("scopes", "scope");
    });
    let commands = [create.into(), list.into(), revoke.into()];
    group("api-keys", "A partner's API keys", commands)
}

fn new_key(new: &NewApiKey, style: Style) -> String {
    let fields = fields! {
        "API key id" => new.api_key_id,
        "API key" => new.api_key,
        "name" => new.name,
        "scopes" => new.scopes.words().join(" "),
        "created" => new.created_at,
    };
    record(style, &fields) + "\n\nKeep the key now: it is not shown again."
}

/// Shows one key, without the key itself.
fn key(key: &ApiKey, style: Style) -> String {
    let fields = fields! {
        "API key id" => key.api_key_id,
        "name" => key.name,
        "scopes" => key.scopes.words().join(" "),
        "ends with" => key.hint,
        "created" => key.created_at,
        "revoked" => key.revoked_at,
    };
    record(style, &fields)
}

fn keys(page: &Page<ApiKey>, style: Style) -> String {
    page! { style, "API keys", page, key =>
        "API KEY ID" => key.api_key_id,
        "NAME" => key.name,
        "SCOPES" => key.scopes.words().join(" "),
        "ENDS WITH" => key.hint,
        "CREATED" => key.created_at,
        "REVOKED" => or_dash(key.revoked_at),
    }
}
