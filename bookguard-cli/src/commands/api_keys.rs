//! `api-keys`: creates, lists, rotates and revokes keys.

use bookguard_core::features::api_keys::rotation::{RotateApiKey, RotatedApiKey};
use bookguard_core::features::api_keys::{CreateApiKey, ListApiKeys, NewApiKey, RevokeApiKey};
use bookguard_core::model::ApiKey;

use super::declare::{Call, CliCommand, Flags, carried, group, operation};
use super::partner_export::pages;
use crate::args::{ConsentArgs, ahead, period_ms};
use crate::failure::Failure;
use crate::output::table::{Style, fields, one_and_page, record};
use crate::target::Target;

pub(super) fn commands() -> CliCommand {
    let about = "Create a key; it is shown only once";
    let create = operation::<CreateApiKey>("create", about, new_key);
    let about = "List keys, newest first, without the keys themselves";
    let list = operation::<ListApiKeys>("list", about, keys);
    let about = "Revoke a key; asks first if it is the key that the command itself uses";
    let revoke = carried::<RevokeApiKey>("revoke", about, revoke).with::<ConsentArgs>();
    let create = create.flags(|flags| {
        flags
            .name("scopes", "scope")
            .read("expiresAt", EXPIRES, ahead);
    });
    let about = "Replace a key; the new one is shown only once, and both work for a while";
    let rotate = operation::<RotateApiKey>("rotate", about, rotated).flags(overlap);
    let commands = [create, list, rotate, revoke];
    group("api-keys", "A partner's API keys", commands)
}

/// # Errors
/// [`Failure::Usage`] if nobody can be asked; otherwise, those of the call.
async fn revoke(call: Call<'_>) -> Result<(), Failure> {
    let ConsentArgs { yes } = call.args()?;
    if !yes && is_in_use(call).await? {
        let question = "This is the key that the command itself uses: with it, nothing more can be done here, nor by whatever else uses it.";
        call.ask(question)?;
    }
    call.screen.show(&call.answer::<RevokeApiKey>().await?, key)
}

/// Whether the key to revoke is the caller's own: the service does not say which key that is, only how each one ends.
async fn is_in_use(call: Call<'_>) -> Result<bool, Failure> {
    let own = match call.target() {
        Target::Remote(server) => server.partners_key(),
        Target::Local(_) => None,
    };
    let Some(own) = own else { return Ok(false) };
    let keys = match pages::<ListApiKeys>(call, &[]).await {
        // A key that may not look does not see itself either.
        Err(failure) if failure.is("insufficient_scope") => return Ok(false),
        keys => keys?,
    };
    let id = call.path()?.path.concat();
    let mut keys = keys.as_array().into_iter().flatten();
    let key = keys.find(|key| key["apiKeyId"] == *id);
    let end = key.and_then(|key| key["hint"].as_str());
    Ok(end.is_some_and(|end| own.ends_with(end)))
}

const EXPIRES: &str = "When it stops working: how long from now, such as 12h, 90d or 2w, an instant such as 2031-06-01T09:00:00Z, or a day in UTC such \
                       as 2031-06-01";

/// How long a key or secret is used beside the one that replaces it.
pub(super) fn overlap(flags: &mut Flags) {
    let about =
        "How long the old one is used beside the new one, such as 0s, 1h or 7d [default: 24h]";
    flags
        .read("overlapSeconds", about, seconds)
        .name("overlapSeconds", "overlap")
        .takes("overlapSeconds", "TIME");
}

/// The period that was typed, in seconds.
fn seconds(typed: &str) -> Result<String, String> {
    let period = period_ms(typed).ok_or_else(|| {
        format!("is \"{typed}\"; write a period such as 0s, 30m, 1h or 7d, or PT1H")
    })?;
    Ok((period / 1000).to_string())
}

fn new_key(new: &NewApiKey, style: Style) -> String {
    record(style, &members(new)) + KEEP
}

const KEEP: &str = "\n\nKeep the key now: it is not shown again.";

fn members(new: &NewApiKey) -> Vec<(&'static str, Option<String>)> {
    fields! {
        "API key id" => new.api_key_id,
        "API key" => new.api_key,
        "name" => new.name,
        "scopes" => new.scopes.words().join(" "),
        "created" => new.created_at,
        "expires" => new.expires_at,
    }
}

fn rotated(rotated: &RotatedApiKey, style: Style) -> String {
    let mut fields = members(&rotated.key);
    fields.extend(fields! {
        "replaces" => rotated.replaced_api_key_id,
        "which works until" => rotated.replaced_expires_at,
    });
    record(style, &fields) + KEEP
}

// Keys are shown without the key itself.
one_and_page! { key, keys, "API keys", key: ApiKey =>
    "API key id" => key.api_key_id,
    "name" => key.name,
    "scopes" => key.scopes.words().join(" "),
    "ends with" => key.hint,
    "created" => key.created_at,
    "expires" => key.expires_at,
    "last used" => key.last_used_at,
    "revoked" => key.revoked_at,
}
