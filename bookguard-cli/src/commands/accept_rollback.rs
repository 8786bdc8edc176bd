//! `ledger accept-rollback`: shows which published entries the database lost, asks, and lets the log continue.
//!
//! The rule is in the core; this file shows the loss and asks. Invariant: only a loss that was shown is accepted.

use std::collections::BTreeMap;

use bookguard_core::Error;
use bookguard_core::evidence::Continuation;
use bookguard_core::features;
use bookguard_core::ledger::rollback::{PublishedHead, Rollback, RollbackCause, entries};
use clap::Args;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::declare::{Call, CliCommand, special};
use crate::consent;
use crate::failure::Failure;
use crate::output::{Screen, say};

#[derive(Debug, Args)]
struct AcceptArgs {
    /// The guard file was lost too, and the database is a backup: nobody knows what was published after it
    #[arg(long)]
    guard_lost: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn command() -> CliCommand {
    let about = "After the database lost published entries: continue with the rest, as a new log that says so (on the database \
                 only)";
    special("accept-rollback", about, run).with::<AcceptArgs>()
}

/// Accepts the loss, if there is one and the administrator agrees.
///
/// # Errors
/// The core's `nothing_to_accept` and `rollback_changed`; [`Failure::Usage`] if nobody can be asked, and
/// [`Failure::Unexpected`] after a no.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let AcceptArgs { guard_lost, yes } = call.args()?;
    let local = call.target().database()?;
    let service = local.service();
    let mut rollback = block_in_place(|| service.rollback())?;
    if rollback.is_none() && guard_lost {
        rollback = Some(block_in_place(|| service.unknown_loss())?);
    }
    let Some(rollback) = rollback else {
        let head = block_in_place(|| service.head())?;
        return Err(Error::conflict(
            "nothing_to_accept",
            format!(
                "There is no loss to accept: as far as the guard knows, log {} holds everything that was published of it, {} \
                 entries. If the guard was lost together with the database, add --guard-lost.",
                head.origin, head.head.size
            ),
        )
        .into());
    };
    let loss = described(&rollback);
    if yes {
        say(&loss);
    }
    consent::ask(&loss, yes)?;
    let command = features::ledger::accept_rollback(service, rollback)?;
    let command = local.audited("acceptRollback", BTreeMap::new(), command);
    let continuation = local.carry_out(command).await?;
    let repeated = block_in_place(|| features::erasures::settle(service))?;
    if repeated > 0 {
        say(&format!(
            "Erasures that the database had lost and that were done again: {repeated}."
        ));
    }
    show(&continuation, call.screen)
}

/// Both heads, and the entries between them; before them, what to make sure of.
fn described(rollback: &Rollback) -> String {
    let head = |what: &str, seen: &PublishedHead| match seen.is_at_least() {
        true => format!(
            "{what}  log {}, {} or more",
            seen.origin,
            entries(seen.size)
        ),
        false => format!(
            "{what}  log {}, {}, root {}",
            seen.origin,
            entries(seen.size),
            seen.root
        ),
    };
    let doubt = rollback.doubt().map(str::to_owned);
    let known = rollback.cause != RollbackCause::GuardLost;
    let seen = known.then(|| head("Last published: ", &rollback.seen));
    let then = [
        head("In the database:", &rollback.found),
        lost(rollback),
        "Once you accept the loss, the remaining entries continue as a log with a new name, signed with the same key; its \
         first entry says what was lost. Mirrors of the old log end; packets made before stay valid."
            .to_owned(),
    ];
    let lines = doubt.into_iter().chain(seen).chain(then);
    lines.collect::<Vec<_>>().join("\n")
}

/// The entries that are lost, in a sentence.
pub(super) fn lost(rollback: &Rollback) -> String {
    let Rollback {
        found, seen, cause, ..
    } = rollback;
    match cause {
        RollbackCause::Behind => {
            let lost = seen.size - found.size;
            let entries = if lost == 1 { "entry is" } else { "entries are" };
            format!(
                "{lost} published {entries} lost, from number {} on.",
                found.size
            )
        }
        RollbackCause::Forked => format!(
            "Some of the {} published entries are lost: the database has others in their place.",
            seen.size
        ),
        RollbackCause::OtherLog => format!(
            "The {} published entries of log {} may be lost: the database holds another log.",
            seen.size, seen.origin
        ),
        RollbackCause::GuardLost => format!(
            "Entries that were published from number {} on may be lost; nothing here remembers them.",
            found.size
        ),
    }
}

fn show(continuation: &Continuation, screen: &Screen) -> Result<(), Failure> {
    let Continuation {
        origin,
        vkey,
        found,
        seen,
        at,
    } = continuation;
    let value = json!({
        "origin": origin,
        "vkey": vkey,
        "entry": found.head.size,
        "continuedAt": at,
        "found": head(&found.head),
        "seen": head(seen),
    });
    screen.said(&value, |_| {
        format!(
            "The log continues as {origin}. Its entry {} says what was lost.\nPublish its key: checkpoints and packets verify \
             under it from now on. The old one stays valid for what was signed before:\n{vkey}",
            found.head.size
        )
    })
}

/// What programs read of a head.
pub(super) fn head(seen: &PublishedHead) -> Value {
    json!({ "origin": seen.origin, "size": seen.size, "root": seen.root.to_string() })
}
