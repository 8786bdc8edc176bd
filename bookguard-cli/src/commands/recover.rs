//! `webhook-events recover` and `recoveries`: deliver again what was not received, and show how far that is.

use std::time::Duration;

use bookguard_core::features;
use bookguard_core::features::recoveries::{GetRecovery, ListRecoveries, RecoverEvents};
use bookguard_core::model::{Recovery, RecoveryStatus};
use serde_json::json;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::{at, once_only, page, with, with_body};
use crate::args::{RecoverArgs, RecoveriesCommand};
use crate::failure::Failure;
use crate::output::bar::Bar;
use crate::output::{self, Screen, recoveries};
use crate::target::{Answer, Target};

/// How soon a server is asked how far it is, and how late at most.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

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
    screen.show(&answer, recoveries::recovery)?;
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
            recoveries::recoveries,
        ),
        RecoveriesCommand::Get { recovery_id } => screen.show(
            &target.call::<GetRecovery>(at(&recovery_id)).await?,
            recoveries::recovery,
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
