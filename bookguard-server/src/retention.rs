//! The periodic work of a running server. It announces keys that will soon expire. It deletes the bodies and
//! delivery attempts of old events; the events themselves stay. It deletes old records of the audit whole, without a
//! record of that: every one of that age goes, at a time that the settings name. It deletes remembered answers that have expired.
//!
//! `features::retention` and `features::audit` find what is old, and their rules decide what may go. This module calls them from
//! time to time on every node, in tasks apart from deliveries so that none of them waits. Invariant: each task takes at most a
//! twentieth of the time, and that of remembered answers at most half. A store that does not answer has reported itself and is left alone until the next turn. So has a wrong
//! clock, by which nothing is deleted.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::CommandOutcome;
use bookguard_core::error::{Error, Kind};
use bookguard_core::features::audit;
use bookguard_core::features::key_notices;
use bookguard_core::features::retention::{Begin, PrunableEvents, look, old_before};
use bookguard_core::limits::{KEYS_LOOKED_AT, PAUSE_SHARE};
use bookguard_core::model::Timestamp;
use bookguard_core::service::Service;
use bookguard_core::store::read::KeyNotice;
use tokio::time::{Instant, sleep};

use crate::apart::apart;
use crate::skew::Skew;

/// How often to look when nothing is old: what is old is deleted at most this late.
const TURN: Duration = Duration::from_secs(60);
/// The shortest time between two looks.
const GAP: Duration = Duration::from_millis(50);
/// How often to start over with events that were skipped because they still waited to be delivered.
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Prunes events older than `days`; never returns.
pub(crate) async fn prune_old_events(service: Arc<Service>, skew: Arc<Skew>, days: u32) {
    let mut again_at = Instant::now();
    loop {
        let began = Instant::now();
        let again = began >= again_at;
        let begin = if again { Begin::Waiting } else { Begin::Next };
        let pause = match step(&service, &skew, days, begin).await {
            Ok(more) => {
                if again {
                    again_at = began + AGAIN;
                }
                pause(began, more)
            }
            Err(_) => TURN,
        };
        sleep(pause).await;
    }
}

/// Deletes records of the audit older than `days`; never returns.
pub(crate) async fn prune_old_records(service: Arc<Service>, skew: Arc<Skew>, days: u32) {
    loop {
        let began = Instant::now();
        let more = prune_records(&service, &skew, days).await;
        sleep(more.map_or(TURN, |more| pause(began, more))).await;
    }
}

/// Deletes remembered answers that have expired; never returns.
pub(crate) async fn forget_old_answers(service: Arc<Service>, skew: Arc<Skew>) {
    loop {
        let began = Instant::now();
        let skew = Arc::clone(&skew);
        let forgot = apart(&service, move |service| forget_answers(service, &skew));
        // Each request with a key leaves one, so they may come faster than a twentieth of the time can delete them.
        let pause = match forgot.await {
            Ok(true) => GAP.max(began.elapsed()),
            Err(error) if error.code == "busy" => GAP.max(began.elapsed() * PAUSE_SHARE),
            _ => TURN,
        };
        sleep(pause).await;
    }
}

/// Deletes some of them; returns whether there may be more. Blocks.
///
/// # Errors
/// `unavailable` if this node's clock must not judge what is old, and those of [`Service::forget_expired_answers`].
pub(crate) fn forget_answers(service: &Service, skew: &Skew) -> Result<bool, Error> {
    skew.may_delete_old(service)?;
    service.forget_expired_answers()
}

/// Tells partners of keys that will soon expire; never returns.
pub(crate) async fn tell_expiring_keys(service: Arc<Service>) {
    let mut after = None;
    loop {
        let began = Instant::now();
        let more = tell_keys(&service, &mut after).await;
        sleep(more.map_or(TURN, |more| pause(began, more))).await;
    }
}

/// Announces a page of expiring keys, which begins after `after`; returns whether there may be more, and then moves `after`. A key
/// that cannot be announced is passed over until all others were.
async fn tell_keys(service: &Arc<Service>, after: &mut Option<KeyNotice>) -> Result<bool, Error> {
    let from = *after;
    let due = apart(service, move |service| key_notices::due(service, from)).await?;
    for notice in &due {
        let tell = key_notices::tell(service, *notice);
        is_done(service.submit_patiently(tell).await)?;
    }
    let more = due.len() == KEYS_LOOKED_AT as usize;
    *after = due.last().copied().filter(|_| more);
    Ok(more)
}

/// Whether a command was carried out. If not, data that it alone needs cannot be read, and the writer has said so.
fn is_done<R>(outcome: CommandOutcome<R>) -> Result<bool, Error> {
    match outcome {
        Ok(_) => Ok(true),
        Err(error) if error.kind == Kind::Internal => Ok(false),
        Err(error) => Err(error),
    }
}

/// The pause after a look that began then.
fn pause(began: Instant, more: bool) -> Duration {
    match more {
        true => GAP.max(began.elapsed() * PAUSE_SHARE),
        false => TURN,
    }
}

/// Looks for what is older than `days`, unless this node's clock must not judge that.
async fn look_for_old<T: Send + 'static>(
    service: &Arc<Service>,
    skew: &Arc<Skew>,
    days: u32,
    look: impl FnOnce(&Service, Timestamp) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let skew = Arc::clone(skew);
    let looking = apart(service, move |service| {
        skew.may_delete_old(service)?;
        look(service, old_before(service.clock().now(), days))
    });
    looking.await
}

/// Deletes a page of old records; returns whether there may be more.
async fn prune_records(service: &Arc<Service>, skew: &Arc<Skew>, days: u32) -> Result<bool, Error> {
    let old = |service: &Service, before| audit::look(service, before, None);
    let found = look_for_old(service, skew, days, old).await?;
    if let Some(command) = found.command(service.clock().now()) {
        service.submit_patiently(command).await?;
    }
    Ok(found.more)
}

/// Looks once and prunes what it finds; returns whether there is more.
async fn step(
    service: &Arc<Service>,
    skew: &Arc<Skew>,
    days: u32,
    begin: Begin,
) -> Result<bool, Error> {
    let old = move |service: &Service, before| look(service, before, begin);
    let found = look_for_old(service, skew, days, old).await?;
    let more = found.next.is_some();
    let Some(command) = found.command(service.clock().now()) else {
        return Ok(more);
    };
    if !is_done(service.submit_patiently(command).await)? {
        prune_one_by_one(service, found).await?;
    }
    Ok(more)
}

/// Prunes a page with an event that cannot be read: that one must not keep the others, nor all that come later. It is tried again with
/// the events that wait.
async fn prune_one_by_one(service: &Service, found: PrunableEvents) -> Result<(), Error> {
    let now = service.clock().now();
    let mut left_out = Vec::new();
    for (event, command) in found.one_by_one(now) {
        if !is_done(service.submit_patiently(command).await)? {
            left_out.push(event.event_id);
        }
    }
    if let Some(first) = left_out.first() {
        let events = left_out.len();
        tracing::error!(
            events,
            "old events are not pruned, because they cannot be read; the first is {first}"
        );
    }
    if let Some(command) = found.pass_over(&left_out).command(now) {
        service.submit_patiently(command).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
