//! The headers that prove a delivery's origin, and the secrets they are made with.
//!
//! What is signed how is `bookguard_core::webhook`'s. A partner's secret is read once and remembered for
//! [`SECRET_MS`], a failure to read it too, so that sending costs no database work. Invariant: no more than
//! [`SECRETS`] secrets are remembered.

use std::collections::HashMap;
use std::sync::Arc;

use bookguard_core::command::Parcel;
use bookguard_core::model::{PartnerId, Timestamp};
use bookguard_core::service::Service;
use bookguard_core::webhook::{Secret, sign_body, sign_standard};
use reqwest::header::HeaderValue;
use tokio::sync::OnceCell;

use super::sender::DeliveryHeaders;

/// How long a secret is remembered, in milliseconds.
const SECRET_MS: i64 = 3_000;

/// How many partners' secrets are remembered.
const SECRETS: usize = 4_096;

/// A partner's secret once somebody has read it; `None` when it could not be read.
pub(super) type SecretCell = Arc<OnceCell<Option<Secret>>>;

/// The secrets in memory.
#[derive(Debug, Default)]
pub(super) struct Secrets(HashMap<PartnerId, (Timestamp, SecretCell)>);

impl Secrets {
    /// Where the partner's secret is, or will be once somebody reads it.
    pub(super) fn of(&mut self, partner_id: PartnerId, now: Timestamp) -> SecretCell {
        if let Some((since, cell)) = self.0.get(&partner_id)
            && is_fresh(*since, now)
        {
            return Arc::clone(cell);
        }
        if self.0.len() >= SECRETS {
            self.0.retain(|_, (since, _)| is_fresh(*since, now));
        }
        if self.0.len() >= SECRETS {
            self.0.clear();
        }
        let cell = SecretCell::default();
        self.0.insert(partner_id, (now, Arc::clone(&cell)));
        cell
    }
}

/// A clock that was set back makes nothing fresh for longer.
fn is_fresh(since: Timestamp, now: Timestamp) -> bool {
    (0..SECRET_MS).contains(&(now.ms() - since.ms()))
}

/// The secret in the cell, read by the first that asks; a failure is reported by the service.
pub(super) async fn secret<'c>(
    cell: &'c SecretCell,
    service: &Arc<Service>,
    partner_id: PartnerId,
) -> Option<&'c Secret> {
    let read = || async {
        let service = Arc::clone(service);
        let read = tokio::task::spawn_blocking(move || {
            let mut reader = service.reader().ok()?;
            let secret = reader.secret(&partner_id);
            secret.map_err(|error| service.fault(&error)).ok().flatten()
        });
        read.await.ok().flatten()
    };
    cell.get_or_init(read).await.as_ref()
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

    fn partner(number: u16) -> PartnerId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        PartnerId::from_bytes(bytes)
    }

    #[test]
    fn a_secret_is_remembered_for_three_seconds_and_not_when_the_clock_was_set_back() {
        let mut secrets = Secrets::default();
        let at = Timestamp::from_ms;
        let first = secrets.of(partner(1), at(10_000));
        for (now, same) in [(10_000, true), (12_999, true), (13_000, false)] {
            assert_eq!(
                Arc::ptr_eq(&first, &secrets.of(partner(1), at(now))),
                same,
                "{now}"
            );
        }
        let second = secrets.of(partner(1), at(13_000));
        assert!(!Arc::ptr_eq(&second, &secrets.of(partner(1), at(12_999))));
    }

    #[test]
    fn memory_is_bounded_whether_or_not_the_secrets_have_aged() {
        let mut secrets = Secrets::default();
        for number in 0..u16::try_from(3 * SECRETS).unwrap() {
            secrets.of(partner(number), Timestamp::from_ms(0));
            assert!(secrets.0.len() <= SECRETS);
        }
    }
}
