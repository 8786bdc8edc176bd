//! Bounds the memory of files on their way to the store: how many are received at a time, by a partner and in all, and how
//! many bytes of them are held.
//!
//! Bytes count as they arrive, so a client that sends slowly holds a place but little memory; the connection's deadline ends
//! it. Invariant: whoever is refused holds nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bookguard_core::error::{Error, Kind};
use bookguard_core::limits::{UPLOAD_BYTES, UPLOADS, UPLOADS_PER_PARTNER};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::payer::Payer;

/// The bytes that one permit stands for.
const UNIT: usize = 64 * 1024;
/// When to try again: what is under way is stored within about a second.
const AGAIN_S: u32 = 2;

/// The uploads of a node.
pub(crate) struct Uploads {
    units: Arc<Semaphore>,
    under_way: Mutex<HashMap<Payer, usize>>,
}

/// One upload. Dropping it makes room for the next.
pub(crate) struct Upload {
    uploads: Arc<Uploads>,
    payer: Payer,
    held: Vec<OwnedSemaphorePermit>,
}

impl Default for Uploads {
    fn default() -> Self {
        Self {
            units: Arc::new(Semaphore::new(UPLOAD_BYTES / UNIT)),
            under_way: Mutex::default(),
        }
    }
}

impl Uploads {
    /// Begins an upload.
    ///
    /// # Errors
    /// `too_many_uploads` of this caller, `uploads_busy`.
    pub(crate) fn begin(self: &Arc<Self>, payer: Payer) -> Result<Upload, Error> {
        let mut under_way = self.under_way();
        let own = under_way.get(&payer).copied().unwrap_or_default();
        if own >= UPLOADS_PER_PARTNER {
            let message = format!(
                "This partner is sending {own} files already, the most at a time. Nothing was stored; send one after another."
            );
            return Err(refused(Kind::RateLimited, "too_many_uploads", message));
        }
        if under_way.values().sum::<usize>() >= UPLOADS {
            return Err(busy());
        }
        under_way.insert(payer, own + 1);
        Ok(Upload {
            uploads: Arc::clone(self),
            payer,
            held: Vec::new(),
        })
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Payer, usize>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upload {
    /// Holds memory for this many bytes in all.
    ///
    /// # Errors
    /// `uploads_busy`.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        while self.held.len() * UNIT < bytes {
            let units = Arc::clone(&self.uploads.units);
            self.held
                .push(units.try_acquire_owned().map_err(|_| busy())?);
        }
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let mut under_way = self.uploads.under_way();
        if let Some(own) = under_way.get_mut(&self.payer) {
            *own -= 1;
            if *own == 0 {
                under_way.remove(&self.payer);
            }
        }
    }
}

fn busy() -> Error {
    let message = "The service is receiving as many files as it has memory for. Nothing was stored; try again after Retry-After \
                   seconds.";
    refused(Kind::Unavailable, "uploads_busy", message.to_owned())
}

fn refused(kind: Kind, code: &'static str, message: String) -> Error {
    Error {
        retry_after_s: Some(AGAIN_S),
        ..Error::new(kind, code, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookguard_core::limits::FILE_BYTES;
    use bookguard_core::model::PartnerId;

    fn partner(n: usize) -> Payer {
        Payer::Partner(PartnerId::from_bytes((n as u128).to_be_bytes()))
    }

    fn code<T>(refused: Result<T, Error>) -> String {
        refused.err().map(|error| error.code.into_owned()).unwrap()
    }

    #[test]
    fn one_partner_holds_few_places_and_all_together_as_many_as_there_are() {
        let uploads = Arc::new(Uploads::default());
        let mut begun: Vec<Upload> = Vec::new();
        for n in 0..UPLOADS {
            begun.push(uploads.begin(partner(n / UPLOADS_PER_PARTNER)).unwrap());
        }
        assert_eq!(code(uploads.begin(partner(0))), "too_many_uploads");
        assert_eq!(code(uploads.begin(partner(1_000))), "uploads_busy");
        begun.pop();
        begun.push(uploads.begin(partner(1_000)).unwrap());
        begun.clear();
        assert!(uploads.under_way().is_empty());
    }

    #[test]
    fn memory_is_held_as_bytes_arrive_and_given_back() {
        let uploads = Arc::new(Uploads::default());
        let mut begun: Vec<Upload> = Vec::new();
        for n in 0..UPLOAD_BYTES / FILE_BYTES {
            let mut upload = uploads.begin(partner(n)).unwrap();
            for bytes in [1, UNIT, FILE_BYTES / 2, FILE_BYTES] {
                upload.hold(bytes).unwrap();
            }
            begun.push(upload);
        }
        let mut last = uploads.begin(partner(100)).unwrap();
        assert_eq!(code(last.hold(FILE_BYTES)), "uploads_busy");
        drop(last);
        begun.pop();
        let mut next = uploads.begin(partner(100)).unwrap();
        next.hold(FILE_BYTES).unwrap();
    }
}
