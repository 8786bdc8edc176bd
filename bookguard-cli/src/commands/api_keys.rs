//! `api-keys`: created, listed, ended.

use bookguard_core::features::api_keys::{CreateApiKey, ListApiKeys, NewApiKey, RevokeApiKey};
use bookguard_core::model::{ApiKey, Page};
use clap::Subcommand;
use serde_json::json;

use super::{at, once_only, page, with, with_body};
use crate::args::{OnceArgs, PageArgs};
use crate::failure::Failure;
use crate::output::Screen;
use crate::output::table::{Style, list, more, record, time};
use crate::target::Target;

/// What can be done with API keys.
#[derive(Debug, Subcommand)]
pub enum ApiKeysCommand {
    /// Create a key; shows it only this once
    Create {
        /// What it is for
        #[arg(long)]
        name: Option<String>,
        /// What it may do, such as bookings:read; may be given several times [default: the creator's own scopes]
        #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
        scopes: Vec<String>,
        /// Harmless repetition.
        #[command(flatten)]
        once: OnceArgs,
    },
    /// List keys, newest first, without the keys themselves
    List(PageArgs),
    /// Revoke a key
    Revoke {
        /// The key's id, not the key
        api_key_id: String,
    },
}

/// Does what was asked of keys.
///
/// # Errors
/// Those of the operation.
pub(super) async fn run(
    target: &Target,
    command: ApiKeysCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        ApiKeysCommand::Create { name, scopes, once } => {
            let scopes = (!scopes.is_empty()).then_some(scopes);
            let request = once_only(
                with_body(with(with(json!({}), "name", name), "scopes", scopes)),
                once,
            );
            screen.show(&target.call::<CreateApiKey>(request).await?, new_key)
        }
        ApiKeysCommand::List(args) => {
            screen.show(&target.call::<ListApiKeys>(page(args)).await?, keys)
        }
        ApiKeysCommand::Revoke { api_key_id } => {
            screen.show(&target.call::<RevokeApiKey>(at(&api_key_id)).await?, key)
        }
    }
}

/// A new key.
fn new_key(new: &NewApiKey, style: Style) -> String {
    let fields = [
        ("API key id", Some(new.api_key_id.to_string())),
        ("API key", Some(new.api_key.clone())),
        ("name", Some(new.name.clone())),
        ("scopes", Some(new.scopes.words().join(" "))),
        ("created", Some(time(new.created_at))),
    ];
    record(style, &fields) + "\n\nKeep the key now: it is not shown again."
}

/// One key, without the key itself.
fn key(key: &ApiKey, style: Style) -> String {
    record(
        style,
        &[
            ("API key id", Some(key.api_key_id.to_string())),
            ("name", Some(key.name.clone())),
            ("scopes", Some(key.scopes.words().join(" "))),
            ("ends with", Some(key.hint.clone())),
            ("created", Some(time(key.created_at))),
            ("revoked", key.revoked_at.map(time)),
        ],
    )
}

/// A page of keys.
fn keys(page: &Page<ApiKey>, style: Style) -> String {
    let rows = page.data.iter().map(|key| {
        [
            key.api_key_id.to_string(),
            key.name.clone(),
            key.scopes.words().join(" "),
            key.hint.clone(),
            time(key.created_at),
            key.revoked_at.map_or_else(|| "-".to_owned(), time),
        ]
    });
    let header = [
        "API KEY ID",
        "NAME",
        "SCOPES",
        "ENDS WITH",
        "CREATED",
        "REVOKED",
    ];
    list(style, "API keys", header, rows.collect()) + &more(page.next_cursor.as_deref())
}
