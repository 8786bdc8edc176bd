//! `webhook-events recover` and `recoveries`: deliver again what was not received, and show how far that is.

use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::features;
use bookguard_core::features::recoveries::{GetRecovery, ListRecoveries, RecoverEvents};
use bookguard_core::model::{Page, Recovery, RecoveryStatus, Timestamp};
use clap::{Args, Subcommand};
use serde_json::json;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::{at, once_only, page, with, with_body};
use crate::args::{OnceArgs, PageArgs};
use crate::failure::Failure;
use crate::output::Answer;
use crate::output::bar::Bar;
use crate::output::nouns::word;
use crate::output::table::{Style, grouped, list, more, record, time};
use crate::output::{self, Screen};
use crate::target::Target;

/// How soon a server is asked how far it is, and how late at most.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What is delivered once more.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// Events since then: how long ago, such as 90s, 30m, 2h or 7d, or an instant such as 2031-06-01T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub since: Timestamp,
    /// And not after this, in the same form [default: now]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub until: Option<Timestamp>,
    /// Only events in this status, failed or no_endpoints; may be given several times [default: both]
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',')]
    pub statuses: Vec<String>,
    /// Only what concerns this endpoint, including events it never got
    #[arg(long = "endpoint", value_name = "ENDPOINT_ID")]
    pub endpoint_id: Option<String>,
    /// Only count what would be delivered
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until every event was examined; what is due then is delivered as the endpoints take it
    #[arg(long)]
    pub wait: bool,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}

/// What can be asked about recoveries.
#[derive(Debug, Subcommand)]
pub enum RecoveriesCommand {
    /// List recoveries, newest first
    List(PageArgs),
    /// Show how far a recovery is
    Get {
        /// The recovery's id
        recovery_id: String,
    },
}

/// So long before now, or an instant as it stands.
fn instant(text: &str) -> Result<Timestamp, String> {
    let ago = ago_ms(text).map(|ms| Clock::System.now().plus_ms(-ms));
    ago.or_else(|| Timestamp::parse(text)).ok_or_else(|| {
        "write how long ago, such as 90s, 30m, 2h or 7d, or an instant such as 2031-06-01T09:00:00Z".to_owned()
    })
}

fn ago_ms(text: &str) -> Option<i64> {
    const UNITS: [(char, i64); 4] = [
        ('s', 1_000),
        ('m', 60_000),
        ('h', 3_600_000),
        ('d', 86_400_000),
    ];
    let unit = text.chars().last()?;
    let (_, ms) = UNITS.iter().find(|(known, _)| *known == unit)?;
    let digits = &text[..text.len() - 1];
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = digits.parse().ok().filter(|_| all_digits)?;
    number.checked_mul(*ms)
}

/// Begins a recovery, and waits for its end if that is wanted.
///
/// # Errors
/// Those of the operation.
pub(super) async fn run(
    target: &Target,
    args: RecoverArgs,
    screen: &Screen,
) -> Result<(), Failure> {
    let body = json!({ "since": args.since.to_string() });
    let body = with(body, "until", args.until.map(|until| until.to_string()));
    let statuses = (!args.statuses.is_empty()).then_some(args.statuses);
    let body = with(body, "statuses", statuses);
    let body = with(body, "endpointId", args.endpoint_id);
    let body = with(body, "dryRun", args.dry_run.then_some(true));
    let request = once_only(with_body(body), args.once);
    let mut answer = target.call::<RecoverEvents>(request).await?;
    if args.wait {
        answer = end(target, answer).await?;
    }
    screen.show(&answer, recovery)?;
    if matches!(target, Target::Local(_)) && answer.output.status == RecoveryStatus::Running {
        output::say(&format!(
            "The first {} events were examined. A server on this database examines the rest; --wait does it at once.",
            answer.output.reached_seq - answer.output.after_seq
        ));
    }
    Ok(())
}

/// Shows recoveries.
pub(super) async fn show(
    target: &Target,
    command: RecoveriesCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        RecoveriesCommand::List(args) => screen.show(
            &target.call::<ListRecoveries>(page(args)).await?,
            recoveries,
        ),
        RecoveriesCommand::Get { recovery_id } => screen.show(
            &target.call::<GetRecovery>(at(&recovery_id)).await?,
            recovery,
        ),
    }
}

/// The recovery once it is finished. On a database it is taken further from here: no server need be there.
async fn end(target: &Target, begun: Answer<Recovery>) -> Result<Answer<Recovery>, Failure> {
    let (mut bar, mut pause) = (Bar::new(), ASK_AGAIN.0);
    let mut answer = begun;
    let recovery_id = answer.output.recovery_id.to_string();
    while answer.output.status == RecoveryStatus::Running {
        let Recovery {
            after_seq,
            reached_seq,
            through_seq,
            ..
        } = answer.output;
        bar.draw(reached_seq - after_seq, through_seq - after_seq);
        match target {
            Target::Local(local) => {
                let service = local.service();
                let steps = block_in_place(|| features::recoveries::due_steps(service))?;
                for step in steps {
                    service.submit_patiently(step).await?;
                }
            }
            Target::Remote(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(ASK_AGAIN.1);
            }
        }
        answer = target.call::<GetRecovery>(at(&recovery_id)).await?;
    }
    bar.clear();
    Ok(answer)
}

/// One recovery.
fn recovery(recovery: &Recovery, style: Style) -> String {
    let statuses: Vec<String> = recovery.statuses.iter().map(word).collect();
    let deliveries = format!(
        "{} to {} endpoints together",
        grouped(recovery.recovered),
        grouped(recovery.deliveries)
    );
    let recovered = match recovery.dry_run {
        true => "would be recovered",
        false => "recovered",
    };
    record(
        style,
        &[
            ("recovery", Some(recovery.recovery_id.to_string())),
            ("status", Some(status(recovery))),
            ("since", Some(time(recovery.since))),
            ("until", Some(time(recovery.until))),
            ("events that are", Some(statuses.join(", "))),
            ("endpoint", recovery.endpoint_id.map(|id| id.to_string())),
            ("examined", Some(grouped(recovery.examined))),
            (recovered, Some(deliveries)),
            ("no endpoint takes", Some(grouped(recovery.no_endpoints))),
            ("too old", Some(grouped(recovery.expired))),
            ("begun", Some(time(recovery.created_at))),
            ("finished", recovery.finished_at.map(time)),
        ],
    )
}

/// Where it stands, and how far it is while it runs.
fn status(recovery: &Recovery) -> String {
    let kind = match recovery.dry_run {
        true => " (dry run)",
        false => "",
    };
    match recovery.status {
        RecoveryStatus::Finished => format!("finished{kind}"),
        RecoveryStatus::Running => format!(
            "running{kind}, at event {} of {}",
            grouped(recovery.reached_seq),
            grouped(recovery.through_seq)
        ),
    }
}

/// A page of recoveries.
fn recoveries(page: &Page<Recovery>, style: Style) -> String {
    let rows = page.data.iter().map(|recovery| {
        [
            recovery.recovery_id.to_string(),
            status(recovery),
            time(recovery.since),
            time(recovery.until),
            grouped(recovery.examined),
            grouped(recovery.recovered),
            grouped(recovery.deliveries),
            grouped(recovery.no_endpoints),
        ]
    });
    let header = [
        "RECOVERY",
        "STATUS",
        "SINCE",
        "UNTIL",
        "EXAMINED",
        "RECOVERED",
        "DELIVERIES",
        "NO ENDPOINT",
    ];
    list(style, "recoveries", header, rows.collect()) + &more(page.next_cursor.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_how_long_ago_or_an_instant() {
        for (text, ms) in [
            ("0s", Some(0)),
            ("90s", Some(90_000)),
            ("30m", Some(1_800_000)),
            ("2h", Some(7_200_000)),
            ("7d", Some(604_800_000)),
            ("2", None),
            ("h", None),
            ("-2h", None),
            ("+2h", None),
            ("2.5h", None),
            ("2w", None),
            ("2ü", None),
            ("99999999999999999d", None),
            ("", None),
        ] {
            assert_eq!(ago_ms(text), ms, "{text}");
        }
        let ago = Clock::System.now().ms() - instant("2h").unwrap().ms();
        assert!((7_200_000..7_260_000).contains(&ago), "{ago}");
        let said = instant("2027-06-01T09:00:00+02:00").unwrap();
        assert_eq!(said.to_string(), "2027-06-01T07:00:00.000Z");
        assert!(instant("yesterday").unwrap_err().contains("2h"));
    }
}
