//! `ledger`: the log's texts. Verifying it and accepting a loss have their own files.

use bookguard_core::Error;
use bookguard_core::features::ledger::{checkpoint, vkey};
use bookguard_core::service::Service;
use serde_json::json;
use tokio::task::block_in_place;

use super::declare::{Call, CliCommand, group, special};
use super::{accept_rollback, mirror, verify_ledger};
use crate::args::Format;
use crate::failure::Failure;
use crate::target::Target;

pub(super) fn commands() -> CliCommand {
    let about = "Print the latest signed checkpoint";
    let latest = special("checkpoint", about, async |call| {
        text(call, "checkpoint", checkpoint).await
    });
    let about = "Print the key that checkpoints and packets verify under";
    let key = special("key", about, async |call| text(call, "key", vkey).await);
    let about = "The tamper-evident log";
    let commands = [
        verify_ledger::command(),
        accept_rollback::command(),
        latest,
        key,
        mirror::mirror(),
        mirror::monitor(),
    ];
    group("ledger", about, commands)
}

/// A document that is text, not JSON. It is printed as text, unless the user asked for JSON.
async fn text(
    call: Call<'_>,
    name: &str,
    local: fn(&Service) -> Result<String, Error>,
) -> Result<(), Failure> {
    let document = match call.target() {
        Target::Local(database) => block_in_place(|| local(database.service()))?,
        Target::Remote(remote) => remote.text(&format!("/v1/ledger/{name}")).await?,
    };
    let document = match name {
        "key" => document.trim_end_matches('\n'),
        _ => &document,
    };
    match call.screen.explicit {
        Some(Format::Json) => call.screen.json(&json!({ name: document }).to_string()),
        _ => call.screen.verbatim(document),
    }
}
