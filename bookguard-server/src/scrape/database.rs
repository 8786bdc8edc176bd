//! Looks at the database from time to time: its head, the deliveries that wait, the endpoints, and its backups.
//!
//! Every node looks, in a task of its own. Invariant: looking takes at most a twentieth of the time.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::features::cosignatures::{WitnessPlace, places};
use bookguard_core::features::health::is_sound;
use bookguard_core::limits::PAUSE_SHARE;
use bookguard_core::model::{EndpointStatus, Timestamp, WitnessState};
use bookguard_core::service::Service;
use bookguard_core::store::StoreError;
use bookguard_core::store::backup::WatchedFolder;
use bookguard_core::store::overview::WaitingDeliveries;
use bookguard_core::store::read::Reader;
use tokio::time::{Instant, sleep};

use super::LastLook;
use crate::apart::apart;

/// How often to look: as often as metrics are usually scraped.
const TURN: Duration = Duration::from_secs(5);

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(super) size: u64,
    pub(super) is_sound: bool,
    pub(super) waiting: WaitingDeliveries,
    pub(super) leased: u64,
    /// Endpoints, in the order of [`EndpointStatus::WORDS`].
    pub(super) endpoints: [u64; EndpointStatus::WORDS.len()],
    /// When the newest backup was made, in seconds since the epoch, 0 if there is none; `None` if no folder of backups is
    /// known.
    pub(super) backed_up: Option<i64>,
    /// Each witness that is set.
    pub(super) witnesses: Vec<WitnessFound>,
    /// The time of the last time-stamp, in seconds since the epoch, 0 if there is none.
    pub(super) stamped: i64,
    /// Entries that the newest map covers.
    pub(super) mapped: u64,
    /// How long the first entry of a booking that it does not cover has waited, in seconds.
    pub(super) unmapped_s: i64,
    /// By how many seconds this node's clock is ahead of the database server's; `None` if the database is a file.
    pub(super) ahead_s: Option<i64>,
}

/// What is known of a witness.
#[derive(Debug)]
pub(super) struct WitnessFound {
    /// Its name in the policy.
    pub(super) name: String,
    /// When it last cosigned, in seconds since the epoch; 0 if it never has.
    pub(super) cosigned: i64,
    /// How many entries it has cosigned.
    pub(super) size: u64,
    /// Whether it contradicts the log.
    pub(super) is_alarm: bool,
}

/// Looks again and again; never returns. If the store does not answer, nothing is known.
pub(crate) async fn watch_database(service: Arc<Service>, last: LastLook) {
    loop {
        let began = Instant::now();
        let found = look(&service).await.ok();
        *last.lock().unwrap_or_else(PoisonError::into_inner) = found;
        sleep(TURN.saturating_sub(began.elapsed())).await;
    }
}

async fn look(service: &Arc<Service>) -> Result<Found, Error> {
    let (size, is_sound) = apart(service, is_sound).await?;
    let backed_up = apart(service, |service| {
        let newest = service.backups().map(WatchedFolder::newest);
        Ok(newest.map(|newest| newest.map_or(0, Timestamp::unix_seconds)))
    });
    // A ledger that was moved is stamped at its new place.
    let stamped = page(service, |reader| match reader.head()?.moved_to {
        Some(_) => Ok(None),
        None => reader.latest_stamp(),
    })
    .await?;
    let mapping = page(service, |reader| reader.mapping()).await?;
    let now = service.clock().now();
    let mut found = Found {
        mapped: mapping.covered,
        unmapped_s: (mapping.waiting).map_or(0, |at| {
            now.unix_seconds().saturating_sub(at.unix_seconds()).max(0)
        }),
        stamped: stamped.map_or(0, |stamp| stamp.time.unix_seconds()),
        size,
        is_sound,
        backed_up: backed_up.await?,
        ahead_s: apart(service, Service::clock_ahead_ms)
            .await?
            .map(|ms| ms / 1_000),
        leased: page(service, |reader| reader.leased_deliveries()).await?,
        witnesses: witnesses(service).await?,
        ..Found::default()
    };
    let mut after = None;
    loop {
        let (counted, next) =
            page(service, move |reader| reader.waiting_deliveries(now, after)).await?;
        found.waiting.due += counted.due;
        found.waiting.later += counted.later;
        found.waiting.held += counted.held;
        after = next;
        if after.is_none() {
            break;
        }
    }
    let mut after = None;
    loop {
        let (statuses, next) = page(service, move |reader| reader.endpoint_statuses(after)).await?;
        for status in statuses {
            let mut known = EndpointStatus::WORDS.iter();
            let place = known.position(|(_, known)| *known == status);
            found.endpoints[place.expect("the table has every status")] += 1;
        }
        after = next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

async fn witnesses(service: &Arc<Service>) -> Result<Vec<WitnessFound>, Error> {
    let Some(policy) = service.witnesses().cloned() else {
        return Ok(Vec::new());
    };
    let known = page(service, |reader| reader.witnesses()).await?;
    let of = |place: WitnessPlace| {
        let state = known.iter().find(|state| state.url == place.url);
        let size = state.map_or(0, |state| state.size);
        let is_alarm = state.is_some_and(WitnessState::is_alarm);
        let witnesses = place.names.into_iter().zip(place.keys);
        witnesses.map(move |(name, key)| {
            let cosigned = state.and_then(|state| state.signed_at(&key.to_string()));
            WitnessFound {
                name,
                cosigned: cosigned.map_or(0, Timestamp::unix_seconds),
                size,
                is_alarm,
            }
        })
    };
    Ok(places(&policy).into_iter().flat_map(of).collect())
}

/// Asks for one page, then leaves the processor to others.
async fn page<T: Send + 'static>(
    service: &Arc<Service>,
    ask: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Error> {
    let began = Instant::now();
    let found = apart(service, |service| {
        ask(&mut service.reader()?).map_err(|error| service.fault(&error))
    });
    let found = found.await?;
    sleep(began.elapsed() * PAUSE_SHARE).await;
    Ok(found)
}
