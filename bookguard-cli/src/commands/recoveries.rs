//! `webhook-events recover` and `recoveries`: sends events again that were not received, and shows the progress.

use std::time::Duration;

use bookguard_core::features;
use bookguard_core::features::recoveries::{GetRecovery, ListRecoveries, RecoverEvents};
use bookguard_core::model::{Recovery, RecoveryStatus};
use clap::Args;
use serde_json::Value;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::declare::{Call, CliCommand, carried, group, operation};
use crate::args::ago;
use crate::failure::Failure;
use crate::output::bar::Bar;
use crate::output::table::{Style, counted, fields, grouped, joined, page_fn, record, word};
use crate::output::{self, Answer};
use crate::target::{Target, request};

/// The shortest and longest pause between two questions about the progress.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

pub(super) fn command() -> CliCommand {
    let about = "Deliver again the events of a period that were not received";
    let command = carried::<RecoverEvents>("recover", about, recover);
    command.with::<WaitArgs>().flags(|flags| {
        flags
            .read("since", SINCE, ago)
            .read(
                "until",
                "Events up to this time, in the same form [default: now]",
                ago,
            )
            .says("dryRun", "Count only, and deliver nothing")
            .name("statuses", "status")
            .name("endpointId", "endpoint");
    })
}

/// The commands that read recoveries.
pub(super) fn commands() -> CliCommand {
    let list = operation::<ListRecoveries>("list", "List recoveries, newest first", recoveries);
    let get = operation::<GetRecovery>("get", "Show how far a recovery has got", recovery);
    let about = "Recoveries of events, and how far they have got";
    group("recoveries", about, [list, get])
}

#[derive(Debug, Args)]
struct WaitArgs {
    /// Wait until every event has been examined; deliveries that are due then go out as their endpoints take them
    #[arg(long)]
    wait: bool,
}

const SINCE: &str = "Events from this time on: how long ago, such as 30m, 2h, 7d or 1w, an instant such as 2031-06-01T09:00:00Z, or a day in UTC such as 2031-06-01";

/// Begins a recovery, and waits for its end if asked to.
async fn recover(call: Call<'_>) -> Result<(), Failure> {
    let target = call.target();
    let mut answer = call.answer::<RecoverEvents>().await?;
    if call.args::<WaitArgs>()?.wait {
        answer = end(target, answer).await?;
    }
    call.screen.show(&answer, recovery)?;
    if matches!(target, Target::Local(_)) && answer.output.status == RecoveryStatus::Running {
        output::say(&format!(
            "The first {} events were examined. A server on this database examines the rest; --wait does it at once.",
            answer.output.reached_seq - answer.output.after_seq
        ));
    }
    Ok(())
}

/// Waits until the recovery is finished. On a database this process advances it, so no server need run.
async fn end(target: &Target, begun: Answer<Recovery>) -> Result<Answer<Recovery>, Failure> {
    // A server that is busy for a moment has not lost the recovery.
    let patient;
    let target = match target {
        Target::Remote(server) => {
            patient = Target::Remote(Box::new(server.as_ref().clone().with_patience()));
            &patient
        }
        Target::Local(_) => target,
    };
    let (mut bar, mut pause) = (Bar::new(), ASK_AGAIN.0);
    let mut answer = begun;
    let asked = request(&[&answer.output.recovery_id.to_string()], &Value::Null);
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
        answer = target.call::<GetRecovery>(asked.clone()).await?;
    }
    bar.clear();
    Ok(answer)
}

/// One recovery.
fn recovery(recovery: &Recovery, style: Style) -> String {
    let deliveries = format!(
        "{}, {}",
        counted(recovery.recovered, "event"),
        counted(recovery.deliveries, "delivery")
    );
    let recovered = match recovery.dry_run {
        true => "would be recovered",
        false => "recovered",
    };
    let fields = fields! {
        "recovery" => recovery.recovery_id,
        "status" => status(recovery),
        "since" => recovery.since,
        "until" => recovery.until,
        "events that are" => joined(recovery.statuses.iter().map(word), ", "),
        "endpoint" => recovery.endpoint_id,
        "examined" => grouped(recovery.examined),
        recovered => deliveries,
        "no endpoint takes" => grouped(recovery.no_endpoints),
        "payload deleted" => grouped(recovery.expired),
        "begun" => recovery.created_at,
        "finished" => recovery.finished_at,
    };
    record(style, &fields)
}

/// The state of a recovery, with its progress while it runs.
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

page_fn! { fn recoveries(recovery: &Recovery), "recoveries" =>
    "RECOVERY" => recovery.recovery_id,
    "STATUS" => status(recovery),
    "SINCE" => recovery.since,
    "UNTIL" => recovery.until,
    "EXAMINED" => grouped(recovery.examined),
    "RECOVERED" => grouped(recovery.recovered),
    "DELIVERIES" => grouped(recovery.deliveries),
    "NO ENDPOINT" => grouped(recovery.no_endpoints),
}

#[cfg(test)]
mod tests {
    use bookguard_core::clock::Clock;
    use bookguard_core::model::{RecoveryId, Timestamp, Unreceived};

    use super::*;

    #[test]
    fn a_recovery_says_what_it_counts() {
        let at = Timestamp::from_ms(1_900_000_000_000);
        let counts = Recovery {
            recovery_id: RecoveryId::new(at, [7; 10]),
            status: RecoveryStatus::Finished,
            dry_run: true,
            since: at,
            until: at,
            statuses: vec![Unreceived::Failed],
            endpoint_id: None,
            after_seq: 0,
            through_seq: 7,
            reached_seq: 7,
            examined: 7,
            recovered: 5,
            deliveries: 1,
            no_endpoints: 0,
            expired: 1,
            created_at: at,
            finished_at: Some(at),
        };
        let text = recovery(&counts, Style::default());
        for (name, value) in [
            ("would be recovered", "5 events, 1 delivery"),
            ("payload deleted", "1"),
        ] {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            assert_eq!(line.map(str::trim), Some(value), "{text}");
        }
    }

    #[test]
    fn a_time_is_how_long_ago_or_an_instant() {
        let two_hours = ago("2h").unwrap();
        let two_hours = Timestamp::parse(two_hours.trim_matches('"')).unwrap();
        let passed = Clock::System.now().ms() - two_hours.ms();
        assert!((7_200_000..7_260_000).contains(&passed), "{passed}");
        let said = ago("2027-06-01T09:00:00+02:00").unwrap();
        assert_eq!(said, "\"2027-06-01T07:00:00.000Z\"");
        assert!(ago("yesterday").unwrap_err().contains("2h"));
    }
}
