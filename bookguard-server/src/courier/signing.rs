//! What a delivery needs to know about its endpoint: whether it still takes deliveries, its address, and its signing secrets.
//!
//! Another node may have deleted or changed the endpoint since the delivery was queued here. What is read, even a failure, is
//! cached for [`KNOWN_MS`], so sending costs little database work. `bookguard_core::webhook` defines the signatures. Invariant:
//! at most [`KNOWN`] endpoints are cached.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::LeasedDelivery;
use bookguard_core::limits::LEASE_MS;
use bookguard_core::model::{Endpoint, EndpointId, EventId, PartnerId, Timestamp};
use bookguard_core::service::Service;
use bookguard_core::webhook::{Keyring, sign_body, sign_standard};
use hyper::header::HeaderValue;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;
use url::Url;

use super::sender::DeliveryHeaders;
use crate::apart::apart;

/// How long an endpoint is cached, in milliseconds. After this, a deleted endpoint gets nothing more, and a changed one nothing
/// at its former address.
const KNOWN_MS: i64 = 3_000;

/// The most endpoints cached.
const KNOWN: usize = 4_096;

/// The most endpoints read at once, each on a thread of its own: the store has as many connections for reading.
const READ_AT_ONCE: usize = 8;

/// How long a read waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known about the receiver of a delivery.
#[derive(Debug)]
pub(super) enum KnownReceiver {
    /// It takes deliveries at this destination.
    Open(Box<Endpoint>, Destination),
    /// It was deleted or disabled, or its address changed and must be verified.
    Closed,
    /// The store did not answer in time, or the secret cannot be used. The service has reported it, here or for the reads that
    /// this one waited for.
    Unknown,
}

/// The address and secrets of a delivery.
#[derive(Debug)]
pub(super) struct Destination {
    /// The address; `None` if the stored one cannot be parsed.
    pub url: Option<Url>,
    /// The signing secrets.
    pub keyring: Keyring,
}

/// The cached receiver of an endpoint; empty until it is read.
pub(super) type ReceiverCell = Arc<OnceCell<KnownReceiver>>;

/// The cache of receivers.
#[derive(Debug, Default)]
pub(super) struct Receivers(HashMap<EndpointId, (Timestamp, ReceiverCell)>);

impl Receivers {
    /// Drops a cached [`KnownReceiver::Closed`] when a delivery to the endpoint arrives: the endpoint took deliveries when it was
    /// leased. Otherwise, deliveries claimed for an endpoint that was just enabled again would be given back and claimed over
    /// and over.
    pub(super) fn came(&mut self, endpoint_id: &EndpointId) {
        let closed = self
            .0
            .get(endpoint_id)
            .is_some_and(|(_, cell)| matches!(cell.get(), Some(KnownReceiver::Closed)));
        if closed {
            self.0.remove(endpoint_id);
        }
    }

    /// The cell for an endpoint, to be filled by the first task that needs it.
    pub(super) fn of(&mut self, endpoint_id: EndpointId, now: Timestamp) -> ReceiverCell {
        if let Some((since, cell)) = self.0.get(&endpoint_id)
            && is_fresh(*since, now)
        {
            return Arc::clone(cell);
        }
        if self.0.len() >= KNOWN {
            self.0.retain(|_, (since, _)| is_fresh(*since, now));
        }
        if self.0.len() >= KNOWN {
            self.0.clear();
        }
        let cell = ReceiverCell::default();
        self.0.insert(endpoint_id, (now, Arc::clone(&cell)));
        cell
    }
}

/// Whether a cached entry is fresh. A clock that was set back does not keep it fresh for longer.
fn is_fresh(since: Timestamp, now: Timestamp) -> bool {
    (0..KNOWN_MS).contains(&(now.ms() - since.ms()))
}

/// The receiver for a delivery queued before its endpoint's address changed: it must not go to the front of the new address's
/// queue.
static MOVED: KnownReceiver = KnownReceiver::Closed;

/// Reads endpoints from the store, a few at a time.
pub(super) struct EndpointReader {
    service: Arc<Service>,
    turns: Semaphore,
}

impl EndpointReader {
    pub(super) fn new(service: &Arc<Service>) -> Self {
        Self {
            service: Arc::clone(service),
            turns: Semaphore::new(READ_AT_ONCE),
        }
    }

    /// The receiver in the cell; the first caller reads it from the store.
    pub(super) async fn receiver<'c>(
        &self,
        cell: &'c ReceiverCell,
        delivery: &LeasedDelivery,
    ) -> &'c KnownReceiver {
        let leased = delivery.until.plus_ms(-LEASE_MS);
        let look = || async {
            let read = self.read(delivery.partner_id, delivery.endpoint_id).await;
            match read {
                Some(Some((endpoint, destination))) if endpoint.enabled => {
                    KnownReceiver::Open(Box::new(endpoint), destination)
                }
                Some(_) => KnownReceiver::Closed,
                None => KnownReceiver::Unknown,
            }
        };
        match cell.get_or_init(look).await {
            KnownReceiver::Open(endpoint, _) if endpoint.has_moved_since(leased) => &MOVED,
            known => known,
        }
    }

    /// The destination for a test of this endpoint, enabled or not; `None` if it is deleted or the store did not answer.
    pub(super) async fn destination(
        &self,
        partner_id: PartnerId,
        endpoint_id: EndpointId,
    ) -> Option<Destination> {
        let (_, destination) = self.read(partner_id, endpoint_id).await??;
        Some(destination)
    }

    /// Reads an endpoint and its destination from the store. The inner `None` means that it is deleted, the outer that the store
    /// did not answer.
    async fn read(
        &self,
        partner_id: PartnerId,
        endpoint_id: EndpointId,
    ) -> Option<Option<(Endpoint, Destination)>> {
        let _turn = timeout(PATIENCE, self.turns.acquire()).await.ok()?;
        let read = apart(&self.service, move |service| {
            let mut reader = service.reader()?;
            reader.snapshot();
            let read = reader.endpoint(&endpoint_id).and_then(|found| {
                let Some((_, endpoint)) = found else {
                    return Ok(None);
                };
                let own = endpoint.own_secret.then_some(&endpoint_id);
                let destination = Destination {
                    keyring: reader.keyring(&partner_id, own)?,
                    url: Url::parse(&endpoint.url).ok(),
                };
                Ok(Some((endpoint, destination)))
            });
            read.map_err(|error| service.fault(&error))
        });
        read.await.ok()
    }
}

/// The headers of an attempt that begins at `now`; `None` if there is no usable secret.
pub(super) fn headers(
    keyring: &Keyring,
    event_id: &EventId,
    body: &[u8],
    now: Timestamp,
) -> Option<DeliveryHeaders> {
    let id = event_id.to_string();
    let timestamp = now.unix_seconds();
    let signing = keyring.signing(now);
    let first = signing.first()?;
    let mut standard = String::new();
    for secret in &signing {
        if !standard.is_empty() {
            standard.push(' ');
        }
        standard += &sign_standard(secret, &id, timestamp, body).ok()?;
    }
    Some(DeliveryHeaders {
        service_signature: HeaderValue::try_from(sign_body(first, body)).ok()?,
        webhook_id: HeaderValue::try_from(id).ok()?,
        webhook_timestamp: HeaderValue::from(timestamp),
        webhook_signature: HeaderValue::try_from(standard).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use bookguard_core::service::ServiceConfig;

    use super::*;
    use crate::test_runtime::threads_started_by;

    fn endpoint(number: u16) -> EndpointId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        EndpointId::from_bytes(bytes)
    }

    #[test]
    fn many_endpoints_are_read_on_few_threads() {
        let started = threads_started_by(async {
            let folder = tempfile::tempdir().unwrap();
            let config = ServiceConfig::of(folder.path().join("b.db").as_path().into());
            let (service, closing) = Service::open(config).unwrap();
            let endpoints = EndpointReader::new(&service);
            // While the test holds every connection, whoever reads waits.
            let held: Vec<_> = (0..READ_AT_ONCE)
                .map(|_| service.reader().unwrap())
                .collect();
            let nobody = PartnerId::from_bytes([1; 16]);
            let mut reading: Vec<_> = (0..64)
                .map(|n| Box::pin(endpoints.destination(nobody, endpoint(n))))
                .collect();
            for read in &mut reading {
                let mut context = Context::from_waker(Waker::noop());
                assert!(read.as_mut().poll(&mut context).is_pending());
            }
            drop((reading, held));
            drop((endpoints, service));
            closing.wait();
        });
        assert_eq!(started, READ_AT_ONCE);
    }

    #[test]
    fn an_endpoint_is_cached_for_three_seconds_unless_the_clock_is_set_back() {
        let mut known = Receivers::default();
        let at = Timestamp::from_ms;
        let first = known.of(endpoint(1), at(10_000));
        for (now, same) in [(10_000, true), (12_999, true), (13_000, false)] {
            assert_eq!(
                Arc::ptr_eq(&first, &known.of(endpoint(1), at(now))),
                same,
                "{now}"
            );
        }
        let second = known.of(endpoint(1), at(13_000));
        assert!(!Arc::ptr_eq(&second, &known.of(endpoint(1), at(12_999))));
    }

    #[test]
    fn an_endpoint_known_as_closed_is_looked_at_again_once_something_comes_for_it() {
        let mut known = Receivers::default();
        let now = Timestamp::from_ms(0);
        let open = known.of(endpoint(1), now);
        known.came(&endpoint(1));
        assert!(Arc::ptr_eq(&open, &known.of(endpoint(1), now)));
        open.set(KnownReceiver::Closed).unwrap();
        assert!(Arc::ptr_eq(&open, &known.of(endpoint(1), now)));
        known.came(&endpoint(1));
        assert!(!Arc::ptr_eq(&open, &known.of(endpoint(1), now)));
    }

    #[test]
    fn memory_is_bounded_whether_or_not_what_is_known_has_aged() {
        let mut known = Receivers::default();
        for number in 0..u16::try_from(3 * KNOWN).unwrap() {
            known.of(endpoint(number), Timestamp::from_ms(0));
            assert!(known.0.len() <= KNOWN);
        }
    }
}
