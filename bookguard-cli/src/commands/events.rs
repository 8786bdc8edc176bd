//! `webhook-events`: listed, read, retried; a retry that no endpoint accepts ends with a code of its own.

use bookguard_core::features::events::log::{ListAllEvents, ListEvents};
use bookguard_core::features::events::{GetEvent, RetryEvent};
use bookguard_core::model::DeliveryStatus;
use bookguard_core::operation::Request;

use super::cli::{EventsArgs, EventsCommand};
use super::{add, at, once_only, prune, recoveries, tail};
use crate::failure::Failure;
use crate::output::{Screen, events};
use crate::target::Target;

/// Does what was asked of events.
///
/// # Errors
/// Those of the operation; [`Failure::NotDelivered`] when a retry failed.
pub(super) async fn run(
    target: &Target,
    command: EventsCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        EventsCommand::List {
            which,
            wait,
            limit,
            cursor,
        } => {
            let mut request = events_of(&which);
            add(&mut request, "wait", wait);
            add(&mut request, "limit", limit);
            add(&mut request, "cursor", cursor);
            if target.is_for_all() && which.booking.is_none() {
                screen.show(
                    &target.call::<ListAllEvents>(request).await?,
                    events::of_all,
                )
            } else {
                screen.show(&target.call::<ListEvents>(request).await?, events::log)
            }
        }
        EventsCommand::Tail { which } => tail::run(target, which, screen).await,
        EventsCommand::Get { event_id } => screen.show(
            &target.call::<GetEvent>(at(&event_id)).await?,
            events::event,
        ),
        EventsCommand::Retry { event_id, once } => {
            let request = once_only(at(&event_id), once);
            let answer = target.call::<RetryEvent>(request).await?;
            screen.show(&answer, events::retried)?;
            match answer.output.retry_status {
                DeliveryStatus::Failed => Err(Failure::NotDelivered(format!(
                    "The event was not accepted by every endpoint. See why with \"bookguard webhook-events get {event_id}\"."
                ))),
                _ => Ok(()),
            }
        }
        EventsCommand::Recover(args) => recoveries::run(target, args, screen).await,
        EventsCommand::Recoveries(command) => recoveries::show(target, command, screen).await,
        EventsCommand::Prune {
            older_than,
            dry_run,
        } => {
            let database = target.database("webhook-events prune")?;
            prune::run(database, older_than.as_deref(), dry_run, screen).await
        }
    }
}

/// The request for these events.
pub(super) fn events_of(which: &EventsArgs) -> Request {
    let mut request = Request::default();
    add(&mut request, "after", which.after.clone());
    add(&mut request, "type", which.event_type.clone());
    add(&mut request, "status", which.status.clone());
    add(&mut request, "bookingId", which.booking.clone());
    request
}
