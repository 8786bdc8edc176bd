//! What must be known of an endpoint before anything is sent to it: whether it still takes deliveries, and the secret
//! its deliveries are signed with.
//!
//! Another node may have deleted the endpoint since the delivery was queued here. What is read is remembered for
//! [`KNOWN_MS`], a failure to read it too, so that sending costs hardly any database work. What is signed how is
//! `bookguard_core::webhook`'s. Invariant: no more than [`KNOWN`] endpoints are remembered.

use std::collections::HashMap;
use std::sync::Arc;

use bookguard_core::command::Parcel;
use bookguard_core::model::{EndpointId, Timestamp};
use bookguard_core::service::Service;
use bookguard_core::webhook::{Secret, sign_body, sign_standard};
use reqwest::header::HeaderValue;
use tokio::sync::OnceCell;

use super::sender::DeliveryHeaders;

/// How long what was read is remembered, in milliseconds: a deleted endpoint gets nothing more after this.
const KNOWN_MS: i64 = 3_000;

/// How many endpoints are remembered.
const KNOWN: usize = 4_096;

/// What is known of a delivery's other end.
#[derive(Debug)]
pub(super) enum Receiver {
    /// It takes deliveries, signed with this.
    Open(Secret),
    /// It was deleted or disabled.
    Closed,
    /// The store did not tell, or the secret cannot be used; reported by the service.
    Unknown,
}

/// What is known of an endpoint once somebody has read it.
pub(super) type ReceiverCell = Arc<OnceCell<Receiver>>;

/// The endpoints in memory.
#[derive(Debug, Default)]
pub(super) struct Receivers(HashMap<EndpointId, (Timestamp, ReceiverCell)>);

impl Receivers {
    /// Where that is, or will be once somebody reads it.
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

/// A clock that was set back makes nothing fresh for longer.
fn is_fresh(since: Timestamp, now: Timestamp) -> bool {
    (0..KNOWN_MS).contains(&(now.ms() - since.ms()))
}

/// The receiver in the cell, read by the first that asks.
pub(super) async fn receiver<'c>(
    cell: &'c ReceiverCell,
    service: &Arc<Service>,
    parcel: &Parcel,
) -> &'c Receiver {
    let (partner_id, endpoint_id) = (parcel.partner_id, parcel.endpoint_id);
    let read = || async {
        let service = Arc::clone(service);
        let read = tokio::task::spawn_blocking(move || {
            let mut reader = service.reader().ok()?;
            let open = reader
                .endpoint(&endpoint_id)
                .map(|found| found.is_some_and(|(_, endpoint)| endpoint.enabled));
            let read = open.and_then(|open| Ok((open, reader.secret(&partner_id)?)));
            match read.map_err(|error| service.fault(&error)).ok()? {
                (false, _) => Some(Receiver::Closed),
                (true, secret) => secret.map(Receiver::Open),
            }
        });
        read.await.ok().flatten().unwrap_or(Receiver::Unknown)
    };
    cell.get_or_init(read).await
}

/// The headers of an attempt that begins at `now`; `None` when the secret cannot key them.
pub(super) fn headers(secret: &Secret, parcel: &Parcel, now: Timestamp) -> Option<DeliveryHeaders> {
    let id = parcel.event_id.to_string();
    let timestamp = now.unix_seconds();
    let standard = sign_standard(secret, &id, timestamp, &parcel.body).ok()?;
    Some(DeliveryHeaders {
        service_signature: HeaderValue::try_from(sign_body(secret, &parcel.body)).ok()?,
        webhook_id: HeaderValue::try_from(id).ok()?,
        webhook_timestamp: HeaderValue::from(timestamp),
        webhook_signature: HeaderValue::try_from(standard).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(number: u16) -> EndpointId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        EndpointId::from_bytes(bytes)
    }

    #[test]
    fn an_endpoint_is_remembered_for_three_seconds_and_not_when_the_clock_was_set_back() {
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
    fn memory_is_bounded_whether_or_not_what_is_known_has_aged() {
        let mut known = Receivers::default();
        for number in 0..u16::try_from(3 * KNOWN).unwrap() {
            known.of(endpoint(number), Timestamp::from_ms(0));
            assert!(known.0.len() <= KNOWN);
        }
    }
}
