//! A server's work besides requests and deliveries, in tasks that end with it: it forgets what is too old, announces keys
//! that will expire, stores when keys were used, follows other nodes, and watches clock, guard and disk.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::features::console;
use bookguard_core::features::erasures;
use bookguard_core::features::items::files::forget_unfinished_files;
use bookguard_core::features::shares;
use bookguard_core::service::Service;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::key_uses::{KeyUses, store_key_uses};
use crate::retention::{
    forget_old_answers, prune_old_events, prune_old_records, tell_expiring_keys,
};
use crate::skew::Skew;

/// How often expired shares and sessions are removed, and files that were never completed.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// How often to take up what other nodes wrote, to sync the guard to disk, and to drop old packets. A power cut can make the guard
/// forget what was published since, and a failover what only other nodes had shown since.
const FOLLOWING: Duration = Duration::from_secs(1);
/// How often to check that the database takes writes and that its disk has room. A write counts as proof for as long again, so
/// it takes up to a second to notice that writes fail.
const STORAGE: Duration = Duration::from_millis(500);

/// For how many days a server keeps what it prunes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retention {
    /// Payloads and attempts of events; 0 means for ever.
    pub events: u32,
    /// Records of the audit.
    pub audit: u32,
}

/// Starts the tasks.
pub(crate) fn start(
    service: &Arc<Service>,
    skew: &Arc<Skew>,
    retention: Retention,
    uses: &Arc<KeyUses>,
) -> Vec<JoinHandle<()>> {
    let its = || Arc::clone(service);
    let by = || Arc::clone(skew);
    vec![
        tokio::spawn(keep_house(its(), by())),
        // In a task of its own because other work may take long, and what the guard does not know by then is not missed in a database
        // that was put back.
        tokio::spawn(repeat(its(), FOLLOWING, follow)),
        // In a task of its own because a check waits as long as a write does.
        tokio::spawn(repeat(its(), STORAGE, Service::watch_storage)),
        tokio::spawn(retain(its(), by(), retention.events)),
        tokio::spawn(prune_old_records(its(), by(), retention.audit)),
        tokio::spawn(forget_old_answers(its(), by())),
        tokio::spawn(tell_expiring_keys(its())),
        tokio::spawn(store_key_uses(its(), Arc::clone(uses))),
    ]
}

/// Every minute, checks the clock, settles erasures, and removes expired shares and sessions, and files that were never
/// completed. Every second, looks for steps of the clock, settles erasures that are owed, and drops old packets. A store that
/// does not answer has reported itself, so errors are ignored until the next turn.
async fn keep_house(service: Arc<Service>, skew: Arc<Skew>) {
    let mut turn = tokio::time::interval(HOUSEKEEPING);
    let mut second = tokio::time::interval(FOLLOWING);
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (service, skew) = (Arc::clone(&service), Arc::clone(&skew));
        let work: Box<dyn FnOnce() + Send> = tokio::select! {
            _ = turn.tick() => Box::new(move || {
                skew.look(&service);
                drop(forget_old(&service, &skew));
                drop(erasures::settle(&service));
            }),
            _ = second.tick() => Box::new(move || {
                skew.watch(&service);
                // Somebody may have accepted the loss just now.
                if service.owes_erasures() {
                    drop(erasures::settle(&service));
                }
                service.forget_old_packets();
            }),
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }
}

/// Removes expired shares and sessions, and files that were never completed. A failure of one leaves the others.
///
/// # Errors
/// `unavailable` if this node's clock must not judge what is old.
fn forget_old(service: &Service, skew: &Skew) -> Result<(), Error> {
    skew.may_delete_old(service)?;
    drop(forget_unfinished_files(service));
    drop(shares::forget_old(service));
    drop(console::forget_old(service));
    Ok(())
}

/// Takes up what other nodes wrote, and syncs the guard to disk.
fn follow(service: &Service) {
    drop(erasures::follow(service));
    service.sync_guard();
}

/// Does work that may wait, at every turn of this length; never returns.
async fn repeat(service: Arc<Service>, turn: Duration, work: fn(&Service)) {
    let mut turn = tokio::time::interval(turn);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        let service = Arc::clone(&service);
        let _ = tokio::task::spawn_blocking(move || work(&service)).await;
    }
}

/// Prunes old events, unless `days` is 0.
pub(crate) async fn retain(service: Arc<Service>, skew: Arc<Skew>, days: u32) {
    if days > 0 {
        prune_old_events(service, skew, days).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::forget_answers;
    use crate::skew::testing::Ahead;

    #[test]
    fn a_node_with_a_wrong_clock_forgets_no_answer_that_the_others_remember() {
        let Some(node) = Ahead::start() else {
            return;
        };
        node.sql(
            "INSERT INTO answer (key, at_ms, request, body) VALUES ('\\x01', \
             (EXTRACT(EPOCH FROM public.clock_timestamp()) * 1000)::BIGINT, '\\x', '\\x')",
        );
        let remembered = || node.sql("SELECT count(*) FROM answer");
        let skew = Skew::default();
        assert!(forget_old(&node.service, &skew).is_err());
        assert!(forget_answers(&node.service, &skew).is_err());
        assert_eq!(remembered(), "1");
        node.agree();
        forget_old(&node.service, &skew).unwrap();
        assert_eq!(forget_answers(&node.service, &skew), Ok(true));
        assert_eq!(remembered(), "0");
    }
}
