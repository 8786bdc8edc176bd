//! `webhook-events prune`: deletes payloads and attempts of old events now, or counts what would be deleted.
//!
//! The core decides which events may be pruned; this file calls it until none is left, and counts.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bookguard_core::engine::command::Envelope;
use bookguard_core::features::retention::{Begin, PrunableEvents, look, old_before};
use bookguard_core::limits::{DAY_MS, RETENTION_DAYS_MAX};
use bookguard_core::model::Timestamp;
use clap::Args;
use serde::Serialize;
use tokio::task::block_in_place;

use super::declare::{Call, CliCommand, special};
use crate::args::period_ms;
use crate::failure::Failure;
use crate::output::table::{grouped, time};
use crate::target::local::Local;
use crate::text::plain;

/// What `webhook-events prune` deleted, or would delete.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pruning {
    dry_run: bool,
    /// Only events from before this moment.
    before: Timestamp,
    events: u64,
    attempts: u64,
    payload_bytes: u64,
    /// Events of the same age that may still be sent.
    waiting: u64,
    /// Events of the same age that cannot be read. A dry run does not read them.
    unreadable: u64,
}

pub(super) fn command() -> CliCommand {
    let about = "Delete payloads and attempts of old events with nothing left to deliver (on the database only)";
    special("prune", about, run).with::<PruneArgs>()
}

#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    /// Delete only what is older than this, such as 90d [default: what the settings say]
    #[arg(long, value_name = "DAYS")]
    older_than: Option<String>,
    /// Only count what would be deleted
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl PruneArgs {
    /// The days that were typed.
    ///
    /// # Errors
    /// [`Failure::Usage`] for what is not a number of days in the range.
    pub(super) fn days(&self, allowed: RangeInclusive<u32>) -> Result<Option<u32>, Failure> {
        let typed = self.older_than.as_deref();
        typed.map(|text| days(text, allowed)).transpose()
    }
}

/// Prunes the events of the given age.
///
/// # Errors
/// [`Failure::Usage`] for an invalid number of days, or if none is given and the service keeps events for ever; the errors
/// of the core.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let local = call.target().database()?;
    let args: PruneArgs = call.args()?;
    let days = args.days(1..=RETENTION_DAYS_MAX)?;
    let days = days.or_else(|| local.retention_days()).ok_or_else(|| {
        Failure::Usage(
            "the service keeps events for ever (retention_days is 0); say how old they must be: --older-than 90d"
                .to_owned(),
        )
    })?;
    let pruning = prune(local, days, args.dry_run).await?;
    call.screen.said(&pruning, |_| pruning.in_words())
}

async fn prune(local: &Local, days: u32, dry_run: bool) -> Result<Pruning, Failure> {
    let service = local.service();
    let mut recorded = false;
    let mut pruning = Pruning {
        dry_run,
        before: old_before(service.clock().now(), days),
        ..Pruning::default()
    };
    let mut begin = Some(Begin::Waiting);
    while let Some(from) = begin {
        let found = block_in_place(|| look(service, pruning.before, from))?;
        pruning.waiting += found.waiting;
        begin = found.next.map(Begin::At);
        if dry_run {
            pruning.add(found.events, found.attempts, found.bytes);
        } else if let Some(command) = found.command(service.clock().now()) {
            match carry_out(local, command, &mut recorded).await {
                Ok(events) => pruning.add(events, found.attempts, found.bytes),
                Err(failure) if failure.is("internal") => {
                    one_by_one(local, found, &mut pruning, &mut recorded).await?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(pruning)
}

/// Prunes a page with an event that cannot be read: that one must not keep the others, nor all that come later.
async fn one_by_one(
    local: &Local,
    found: PrunableEvents,
    pruning: &mut Pruning,
    recorded: &mut bool,
) -> Result<(), Failure> {
    let now = local.service().clock().now();
    let mut left_out = Vec::new();
    for (event, command) in found.one_by_one(now) {
        match carry_out(local, command, recorded).await {
            Ok(0) => {}
            Ok(events) => pruning.add(events, event.attempts, event.bytes.unwrap_or(0)),
            // It cannot be read. If something else is wrong, the command below fails too.
            Err(failure) if failure.is("internal") => left_out.push(event.event_id),
            Err(failure) => return Err(failure),
        }
    }
    pruning.unreadable += left_out.len() as u64;
    if let Some(command) = found.pass_over(&left_out).command(now) {
        carry_out(local, command, recorded).await?;
    }
    Ok(())
}

/// Prunes, with one record for all that the command line prunes. Returns the number of events.
async fn carry_out(
    local: &Local,
    command: Envelope<u64>,
    recorded: &mut bool,
) -> Result<u64, Failure> {
    let command = match *recorded {
        true => command,
        false => local.audited("pruneWebhookEvents", BTreeMap::new(), command),
    };
    let events = local.carry_out(command).await?;
    *recorded = true;
    Ok(events)
}

/// A number of days in a range, such as `90d`.
fn days(text: &str, allowed: RangeInclusive<u32>) -> Result<u32, Failure> {
    let days = text.strip_suffix('d').unwrap_or(text);
    let number = period_ms(&format!("{days}d")).and_then(|ms| u32::try_from(ms / DAY_MS).ok());
    number.filter(|days| allowed.contains(days)).ok_or_else(|| {
        Failure::Usage(format!(
            "--older-than is \"{}\"; it must be a number of days such as 90d, {} to {}",
            plain(text),
            allowed.start(),
            allowed.end()
        ))
    })
}

impl Pruning {
    fn add(&mut self, events: u64, attempts: u64, bytes: u64) {
        self.events += events;
        self.attempts += attempts;
        self.payload_bytes += bytes;
    }

    fn in_words(&self) -> String {
        let (done, kept) = match self.dry_run {
            true => ("would be deleted", "would be"),
            false => ("were deleted", "were"),
        };
        let mut text = format!(
            "The payloads ({2} bytes) and {3} attempts of {0} events from before {1} {done}; the events themselves, their hashes \
             and the evidence stay.",
            grouped(self.events),
            time(self.before),
            grouped(self.payload_bytes),
            grouped(self.attempts),
        );
        if self.waiting > 0 {
            text.push_str(&format!(
                "\n{} more of that age {kept} kept: they still wait to be delivered. Delete or enable their endpoints.",
                grouped(self.waiting)
            ));
        }
        if self.unreadable > 0 {
            text.push_str(&format!(
                "\n{} more of that age cannot be read and were passed over. `bookguard ledger verify` names what is damaged.",
                grouped(self.unreadable)
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_number_of_days() {
        let allowed = || 1..=RETENTION_DAYS_MAX;
        for (text, read) in [("90d", Some(90)), ("1", Some(1)), ("36500d", Some(36_500))] {
            assert_eq!(days(text, allowed()).ok(), read);
        }
        #[rustfmt::skip]
        let cases = [
            "", "d", "0", "0d", "-1d", "+1d", "36501d", "90h", "1.5d", "d90", "99999999999d",
        ];
        for text in cases {
            let Err(Failure::Usage(why)) = days(text, allowed()) else {
                panic!("{text} was taken")
            };
            assert!(
                why.starts_with("--older-than") && why.contains("90d"),
                "{why}"
            );
        }
    }

    #[test]
    fn what_is_told_says_what_stays() {
        let mut pruning = Pruning {
            dry_run: true,
            before: Timestamp::EPOCH,
            events: 1_234,
            attempts: 2,
            payload_bytes: 3,
            ..Pruning::default()
        };
        let text = pruning.in_words();
        assert!(
            text.contains("1,234 events") && text.contains("would be deleted"),
            "{text}"
        );
        assert!(!text.contains("still wait"), "{text}");
        pruning = Pruning {
            dry_run: false,
            waiting: 5,
            unreadable: 6,
            ..pruning
        };
        let text = pruning.in_words();
        assert!(
            text.contains("were deleted") && text.contains("5 more of that age were kept"),
            "{text}"
        );
        assert!(text.contains("6 more of that age cannot be read"), "{text}");
    }
}
