//! Time-stamps of the log's checkpoints by time-stamp authorities (RFC 3161).
//!
//! A node that finds a checkpoint to stamp takes a turn, asks an authority outside of any write turn, and records the
//! answer: its hash becomes an entry of the log. The turn is a row of the store, so of many nodes one asks at a time, and
//! not before the pause after the last question is over. Invariant: no other command waits for an authority.

pub(crate) mod rule;

use bookguard_time::Stamp;
use sha2::{Digest as _, Sha256};

use crate::engine::change::{Stamping, StoredStamp};
use crate::engine::command::Envelope;
use crate::entropy;
use crate::error::Error;
use crate::limits;
use crate::model::Timestamp;
use crate::service::Service;
use crate::store::StoreError;
use crate::store::read::Reader;
pub use rule::has_stopped;

/// A checkpoint that is to be stamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unstamped {
    /// The log's name.
    pub(crate) origin: String,
    /// The number of entries it covers.
    pub(crate) size: u64,
    /// The checkpoint, signed.
    pub(crate) checkpoint: String,
    /// The SHA-256 of its text, which is what an authority stamps.
    pub imprint: [u8; 32],
}

/// Takes the turn to ask an authority. The reply counts the questions since the last stamp, this one included; `None` if it
/// is not time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakeTurn {
    /// The operator's interval.
    pub(crate) interval_ms: i64,
}

/// Records a stamp. The reply is false if the checkpoint has one already, or is of a log that went on under another name.
#[derive(Debug)]
pub(crate) struct RecordStamp {
    pub(crate) of: Unstamped,
    pub(crate) time: Timestamp,
    pub(crate) response: Vec<u8>,
    pub(crate) interval_ms: i64,
    /// The random stream id of the entry.
    pub(crate) stream: [u8; 16],
    /// Seed of the salts.
    pub(crate) seed: [u8; 32],
}

/// Notes why a question got no stamp.
#[derive(Debug)]
pub(crate) struct NoteTrouble {
    pub(crate) why: String,
}

/// The checkpoint to stamp now, if there is one: something was logged since the last stamp, or that was long ago. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn due(service: &Service, interval_ms: i64) -> Result<Option<Unstamped>, Error> {
    let mut reader = service.reader()?;
    let fault = |e| service.fault(&e);
    reader.snapshot();
    let now = service.clock().now();
    let stamping = reader.stamping().map_err(fault)?;
    if !rule::is_time(&stamping, now, interval_ms) {
        return Ok(None);
    }
    let latest = reader.latest_stamp().map_err(fault)?;
    let head = reader.head().map_err(fault)?;
    let last = latest.map(|stamp| (stamp.size, stamp.time));
    if head.moved_to.is_some() || !rule::is_wanted(head.head.size, last, now) {
        return Ok(None);
    }
    if service.publish(&mut reader, &head)?.is_some() {
        return Ok(None);
    }
    let signer = service.signer(&head.origin)?;
    let text = signer.verifier().open(&head.checkpoint);
    let text = text.map_err(|e| Error::internal(format!("the head's checkpoint: {e}")))?;
    Ok(Some(Unstamped {
        imprint: Sha256::digest(text).into(),
        size: head.head.size,
        checkpoint: head.checkpoint.clone(),
        origin: head.origin,
    }))
}

/// Where the stamps have got to, and the time of the latest one. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn standing(service: &Service) -> Result<(Stamping, Option<Timestamp>), Error> {
    let found = service.ask(|reader| Ok((reader.stamping()?, reader.latest_stamp()?)));
    found.map(|(stamping, latest)| (stamping, latest.map(|stamp| stamp.time)))
}

/// The stamps that the packet of a booking with these first and last entries shows, of the log of this name as it was with `most`
/// entries: the first over all the booking's entries, or else the last over the first of them; then those that renew it, each made
/// while the certificate of the one before was valid.
pub(crate) fn of_booking(
    reader: &mut Reader<'_>,
    (origin, most): (&str, u64),
    (first, last): (u64, u64),
) -> Result<Vec<StoredStamp>, StoreError> {
    let covering = reader.stamp_covering(origin, last + 1)?;
    let stamp = match covering.filter(|stamp| stamp.size <= most) {
        Some(stamp) => Some(stamp),
        None => reader.stamp_renewing(origin, (first, most), Timestamp::from_ms(i64::MAX))?,
    };
    let mut stamps: Vec<StoredStamp> = stamp.into_iter().collect();
    while let Some(latest) = stamps.last()
        && stamps.len() < limits::PACKET_STAMPS
    {
        let until = valid_until(latest)?;
        let renewing = reader.stamp_renewing(origin, (latest.leaf, most), until)?;
        match renewing {
            Some(next) if valid_until(&next)? > until => stamps.push(next),
            _ => break,
        }
    }
    Ok(stamps)
}

/// Until when the certificate of a stamp's signer is valid.
fn valid_until(stamp: &StoredStamp) -> Result<Timestamp, StoreError> {
    let claim = bookguard_time::read(&stamp.response);
    let claim = claim.map_err(|e| StoreError::Corrupt(format!("stamp {}: {e}", stamp.leaf)))?;
    Ok(Timestamp::from_ms(claim.valid_until))
}

/// The command that takes the turn.
#[must_use]
pub fn take_turn(service: &Service, interval_ms: i64) -> Envelope<Option<u32>> {
    Envelope::new(service.clock().now(), TakeTurn { interval_ms })
}

/// The command that records what an authority answered, as it was verified.
#[must_use]
pub fn record(
    service: &Service,
    of: Unstamped,
    (stamp, response): (&Stamp, Vec<u8>),
    interval_ms: i64,
) -> Envelope<bool> {
    let command = RecordStamp {
        of,
        time: Timestamp::from_ms(stamp.time),
        response,
        interval_ms,
        stream: entropy::bytes(),
        seed: entropy::bytes(),
    };
    Envelope::new(service.clock().now(), command)
}

/// The command that notes why there is no stamp.
#[must_use]
pub fn note_trouble(service: &Service, why: String) -> Envelope<()> {
    Envelope::new(service.clock().now(), NoteTrouble { why })
}

/// A number by which an answer is known.
#[must_use]
pub fn nonce() -> [u8; 8] {
    entropy::bytes()
}

impl RecordStamp {
    fn stored(&self, leaf: u64) -> StoredStamp {
        StoredStamp {
            leaf,
            size: self.of.size,
            time: self.time,
            checkpoint: self.of.checkpoint.clone(),
            response: self.response.clone(),
        }
    }
}
