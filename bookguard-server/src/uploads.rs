//! Bounds the memory of files on their way to the store: how many are received at a time, by a partner and in all, and how
//! many bytes of them are held.
//!
//! After its first piece, an upload gets a place, and room for its whole file, before any more is read, so whoever is let in can
//! finish. The others wait in order of arrival, and their bytes wait in their connections. Both are for those who use them: while
//! there is no place, or no room, for another file, an upload that arrives too slowly loses its own. Invariant: whoever is refused
//! holds neither.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::{Error, Kind};
use bookguard_core::limits::{
    FILE_BYTES, UPLOAD_BYTES, UPLOAD_BYTES_PER_S, UPLOAD_WAIT_S, UPLOADS, UPLOADS_PER_PARTNER,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::payer::Payer;
use crate::under_way::{Full, OneUnderWay, UnderWay};

/// When to try again: some of what is under way is stored within about a second.
const AGAIN_S: u32 = 2;
/// How far an upload may fall behind [`UPLOAD_BYTES_PER_S`].
const GRACE: Duration = Duration::from_secs(2);

/// The uploads of a node.
pub(crate) struct Uploads {
    /// A permit for each byte. Serves those who wait in order, also if a smaller one behind them would fit.
    room: Arc<Semaphore>,
    under_way: Arc<UnderWay<Payer>>,
}

/// One upload. Dropping it makes room for the next.
pub(crate) struct Upload {
    uploads: Arc<Uploads>,
    payer: Payer,
    /// Its place, the room for its file, and when it is late if no more arrives.
    held: Option<(OneUnderWay<Payer>, OwnedSemaphorePermit, Instant)>,
}

impl Default for Uploads {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(UPLOAD_BYTES)),
            under_way: UnderWay::new(UPLOADS_PER_PARTNER, UPLOADS),
        }
    }
}

impl Uploads {
    /// Begins an upload. It holds nothing yet, so that nobody is kept out by those who announce a file and send none.
    pub(crate) fn begin(self: &Arc<Self>, payer: Payer) -> Upload {
        Upload {
            uploads: Arc::clone(self),
            payer,
            held: None,
        }
    }

    /// Whether the places are taken, or the room is too small for another file.
    fn are_full(&self) -> bool {
        self.room.available_permits() < FILE_BYTES || self.under_way.is_full()
    }
}

impl Upload {
    /// Takes a place, and waits for room for a file of this many bytes, at most [`UPLOAD_WAIT_S`].
    ///
    /// # Errors
    /// `too_many_uploads` of this caller, `uploads_busy`.
    pub(crate) async fn enter(&mut self, bytes: usize) -> Result<(), Error> {
        let place = self.uploads.under_way.begin(self.payer);
        let place = place.map_err(|full| match full {
            Full::Own => {
                let message = format!(
                    "This partner is sending {UPLOADS_PER_PARTNER} files already, the most at a time. Nothing was stored; send one after another, the next in {AGAIN_S} s."
                );
                refused(Kind::RateLimited, "too_many_uploads", message)
            }
            Full::All => busy("The service is receiving as many files as it can."),
        })?;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.uploads.room).acquire_many_owned(bytes);
        let room = timeout(Duration::from_secs(UPLOAD_WAIT_S), room).await;
        let Ok(Ok(room)) = room else {
            let why = format!(
                "The service is receiving as many files as it has memory for, and within {UPLOAD_WAIT_S} s there was no room for this one."
            );
            return Err(busy(&why));
        };
        self.held = Some((place, room, Instant::now() + GRACE));
        Ok(())
    }

    /// Notes that this many more bytes arrived, and checks that the upload may keep its place and its room. What arrived fast does not excuse
    /// stalling later.
    ///
    /// # Errors
    /// `uploads_busy`.
    pub(crate) fn keep_pace(&mut self, more: usize) -> Result<(), Error> {
        let now = Instant::now();
        if let Some((.., due)) = &mut self.held {
            *due += Duration::from_secs_f64(more as f64 / UPLOAD_BYTES_PER_S as f64);
            *due = (*due).min(now + GRACE);
            if *due < now && self.uploads.are_full() {
                let why = format!(
                    "The service is receiving as many files as it can, and this one arrived at less than {} KiB a second.",
                    UPLOAD_BYTES_PER_S / 1024
                );
                return Err(busy(&why));
            }
        }
        Ok(())
    }

    /// Gives up the place and the room.
    pub(crate) fn leave(&mut self) {
        self.held = None;
    }
}

fn busy(why: &str) -> Error {
    let message = format!("{why} Nothing was stored; try again in {AGAIN_S} s.");
    refused(Kind::Unavailable, "uploads_busy", message)
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
    use bookguard_core::model::PartnerId;
    use tokio::time::advance;

    fn partner(n: usize) -> Payer {
        Payer::Partner(PartnerId::from_bytes((n as u128).to_be_bytes()))
    }

    fn code<T>(refused: Result<T, Error>) -> String {
        refused.err().map(|error| error.code.into_owned()).unwrap()
    }

    /// An upload of this partner with room for this many bytes.
    async fn entered(uploads: &Arc<Uploads>, n: usize, bytes: usize) -> Result<Upload, Error> {
        let mut upload = uploads.begin(partner(n));
        upload.enter(bytes).await.map(|()| upload)
    }

    #[tokio::test(start_paused = true)]
    async fn one_partner_holds_few_places_and_all_together_as_many_as_there_are() {
        let uploads = Arc::new(Uploads::default());
        let mut begun: Vec<Upload> = Vec::new();
        for n in 0..UPLOADS {
            let upload = entered(&uploads, n / UPLOADS_PER_PARTNER, 1).await;
            begun.push(upload.unwrap());
        }
        assert_eq!(code(entered(&uploads, 0, 1).await), "too_many_uploads");
        assert_eq!(code(entered(&uploads, 1_000, 1).await), "uploads_busy");
        begun.pop();
        begun.push(entered(&uploads, 1_000, 1).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_for_those_who_send() {
        let uploads = Arc::new(Uploads::default());
        let _announced: Vec<Upload> = (0..2 * UPLOADS)
            .map(|_| uploads.begin(partner(0)))
            .collect();
        let mut begun: Vec<Upload> = Vec::new();
        for n in 0..UPLOADS {
            begun.push(entered(&uploads, n, 1).await.unwrap());
        }
        begun[0].keep_pace(0).unwrap();
        advance(GRACE + Duration::from_millis(1)).await;
        // There is room for other files, and no place.
        assert_eq!(code(begun[0].keep_pace(0)), "uploads_busy");
        begun.pop();
        begun[0].keep_pace(0).unwrap();
    }

    /// As many uploads with room for the largest file as there can be, of as many partners.
    async fn full(uploads: &Arc<Uploads>) -> Vec<Upload> {
        let mut begun: Vec<Upload> = Vec::new();
        for n in 0..UPLOAD_BYTES / FILE_BYTES {
            begun.push(entered(uploads, n, FILE_BYTES).await.unwrap());
        }
        begun
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_waits_in_order_and_not_forever() {
        let uploads = Arc::new(Uploads::default());
        let mut begun = full(&uploads).await;
        let enter = |n: usize, bytes: usize| {
            let mut upload = uploads.begin(partner(n));
            async move { upload.enter(bytes).await.map(|()| upload) }
        };
        assert_eq!(code(enter(100, FILE_BYTES).await), "uploads_busy");

        let first = tokio::spawn(enter(100, FILE_BYTES));
        tokio::task::yield_now().await;
        // Even a byte does not pass those who came before.
        let second = tokio::spawn(enter(101, 1));
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        begun.pop();
        let first = first.await.unwrap().unwrap();
        drop(first);
        drop(second.await.unwrap().unwrap());
        drop(begun);
        assert_eq!(uploads.room.available_permits(), UPLOAD_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_upload_keeps_its_room_until_others_need_it() {
        let uploads = Arc::new(Uploads::default());
        let mut begun = full(&uploads).await;
        let second = UPLOAD_BYTES_PER_S as usize;
        for _ in 0..5 {
            advance(Duration::from_secs(1)).await;
            begun[0].keep_pace(second).unwrap();
        }
        begun[0].keep_pace(FILE_BYTES / 2).unwrap();
        advance(GRACE + Duration::from_millis(1)).await;
        assert_eq!(code(begun[0].keep_pace(0)), "uploads_busy");
        begun.pop();
        begun[0].keep_pace(0).unwrap();
    }
}
