//! Stores when API keys were last used, to within [`limits::KEY_USE_MS`].
//!
//! A use is noted only when a key is read from the store anyway, and then only if the row does not tell of one as late. So
//! a request that finds its key cached does nothing for it, and many nodes store one use between them. Invariant: no request
//! waits for this or fails because of it. A store that does not take the uses has reported itself; they are dropped, and noted again
//! when the keys are next read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bookguard_core::limits;
use bookguard_core::model::{ApiKey, ApiKeyId, Timestamp};
use bookguard_core::service::Service;
use tokio::sync::Notify;
use tokio::time::sleep;

/// The pause after each transaction.
const PAUSE: Duration = Duration::from_secs(limits::KEY_USES_S);

/// The uses that wait to be stored.
#[derive(Default)]
pub(crate) struct KeyUses {
    waiting: Mutex<HashMap<ApiKeyId, Timestamp>>,
    news: Notify,
}

impl KeyUses {
    /// Notes that a key, which was just read from the store, is used.
    pub(crate) fn note(&self, key: &ApiKey, now: Timestamp) {
        let known = key.last_used_at;
        let recent = -limits::KEY_USE_AHEAD_MS..limits::KEY_USE_MS;
        if known.is_some_and(|used| recent.contains(&(now.ms() - used.ms()))) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < limits::KEY_USES_WAITING {
            waiting.insert(key.api_key_id, now);
            self.news.notify_one();
        }
    }

    /// Takes as many uses as one transaction stores.
    fn take(&self) -> Vec<(ApiKeyId, Timestamp)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let ids: Vec<ApiKeyId> = waiting.keys().take(limits::KEY_USES).copied().collect();
        let uses = ids
            .into_iter()
            .filter_map(|id| waiting.remove_entry(&id))
            .collect();
        if !waiting.is_empty() {
            self.news.notify_one();
        }
        uses
    }
}

/// Stores the uses that are noted; never returns.
pub(crate) async fn store_key_uses(service: Arc<Service>, uses: Arc<KeyUses>) {
    loop {
        uses.news.notified().await;
        let (service, taken) = (Arc::clone(&service), uses.take());
        let stored = tokio::task::spawn_blocking(move || service.note_key_uses(&taken)).await;
        if let Ok(Err(error)) = stored {
            tracing::debug!("uses of API keys were not stored: {error}");
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::model::Scopes;

    use super::*;

    fn key(n: u16, last_used_ms: Option<i64>) -> ApiKey {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&n.to_be_bytes());
        ApiKey {
            api_key_id: ApiKeyId::from_bytes(id),
            name: String::new(),
            scopes: Scopes::all(),
            hint: String::new(),
            created_at: Timestamp::EPOCH,
            expires_at: None,
            last_used_at: last_used_ms.map(Timestamp::from_ms),
            revoked_at: None,
        }
    }

    #[test]
    fn a_use_is_noted_once_in_a_quarter_of_an_hour() {
        let now = Timestamp::from_ms(10 * limits::KEY_USE_MS);
        for (last, noted) in [
            (None, true),
            (Some(now.ms() - limits::KEY_USE_MS), true),
            (Some(now.ms() - limits::KEY_USE_MS + 1), false),
            (Some(now.ms()), false),
            // The clock of the node that stored it was ahead, a little or far.
            (Some(now.ms() + limits::KEY_USE_MS), false),
            (Some(now.ms() + limits::KEY_USE_AHEAD_MS + 1), true),
        ] {
            let uses = KeyUses::default();
            let key = key(1, last);
            uses.note(&key, now);
            uses.note(&key, now);
            let expected = noted.then_some((key.api_key_id, now));
            assert_eq!(uses.take(), Vec::from_iter(expected), "{last:?}");
            assert_eq!(uses.take(), [], "taken once");
        }
    }

    #[test]
    fn uses_are_stored_in_parts_and_have_an_end() {
        let uses = KeyUses::default();
        for n in 0..=limits::KEY_USES_WAITING {
            uses.note(&key(u16::try_from(n).unwrap(), None), Timestamp::EPOCH);
        }
        assert_eq!(uses.take().len(), limits::KEY_USES);
        let rest = std::iter::from_fn(|| Some(uses.take().len()).filter(|taken| *taken > 0));
        let rest: usize = rest.sum();
        assert_eq!(limits::KEY_USES + rest, limits::KEY_USES_WAITING);
    }
}
