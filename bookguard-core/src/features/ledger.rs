//! The log for mirrors: checkpoint, key and tiles, laid out as in C2SP tlog-tiles.
//!
//! They return text and bytes, not JSON, so they are plain functions instead of operations.

pub(crate) mod rule;

use crate::engine::command::Envelope;
use crate::entropy;
use crate::error::Error;
use crate::evidence::Continuation;
use crate::key_file;
use crate::ledger::TilePath;
use crate::ledger::rollback::Rollback;
use crate::ledger::tile::{TILE_WIDTH, TileKind, encode_bundle};
use crate::service::Service;
use crate::store::read::Reader;
use crate::store::{StoreError, StoredHead};

/// The latest signed checkpoint, with the cosignatures that witnesses have given to it so far. It waits for none.
///
/// # Errors
/// `ledger_rolled_back` if the database holds other entries than those that were published; `erasures_pending`, `unavailable`.
pub fn checkpoint(service: &Service) -> Result<String, Error> {
    let mut reader = service.reader()?;
    let head = reader.head().map_err(|e| service.fault(&e))?;
    service.publish_signed(&mut reader, &head)?;
    let mut note = head.checkpoint.clone();
    if service.witnesses().is_some() {
        let stored = reader.cosignatures(head.head.size);
        let stored = stored.map_err(|e| service.fault(&e))?;
        note.extend(
            stored
                .iter()
                .filter_map(|one| one.line_of(&head.checkpoint)),
        );
    }
    Ok(note)
}

/// The key that checkpoints verify under, in note form, with a line end.
///
/// # Errors
/// `unavailable` if the log's name cannot be read, or is not one.
pub fn vkey(service: &Service) -> Result<String, Error> {
    let signer = service.signer(&service.head()?.origin)?;
    Ok(format!("{}\n", signer.verifier()))
}

/// The administrator's acceptance that entries were lost: the log continues under a new name.
#[derive(Debug)]
pub(crate) struct ContinueLog {
    /// The new name, never used before.
    pub(crate) origin: String,
    /// The log's verifier key under that name, in note form.
    pub(crate) vkey: String,
    /// The accepted loss; any other is refused.
    pub(crate) accepted: Rollback,
    /// The random stream id of the entry that records the continuation.
    pub(crate) stream: [u8; 16],
    /// Seed of the salts.
    pub(crate) seed: [u8; 32],
}

/// The note in a database that it lacks what this node saw published. Other nodes may not have seen it: one that is new, or a command on
/// a machine without a guard, would write other entries under the same numbers.
#[derive(Debug)]
pub(crate) struct NoteLoss(pub(crate) Rollback);

/// Notes in the database what it lacks. A failure costs no more than that: the next call makes up for it. Blocks.
pub(crate) fn note_loss(service: &Service, stored: &StoredHead, lost: &Rollback) {
    let is_noted = lost.is_noted || stored.lacking.contains(&lost.seen);
    if !is_noted && stored.moved_to.is_none() && service.is_certain(stored, lost) {
        let _ = service.submit_and_wait(service.envelope(NoteLoss(lost.clone())));
    }
}

/// The command by which the administrator accepts exactly this loss. The log goes on with what is left of it, under a name
/// never used before. The command fails with `nothing_to_accept` or `rollback_changed`.
///
/// # Errors
/// `internal` if the list of erasures, which is repeated then, cannot be read.
pub fn accept_rollback(
    service: &Service,
    accepted: Rollback,
) -> Result<Envelope<Continuation>, Error> {
    let list = service.erasures().check();
    list.map_err(|why| Error::internal(format!("nothing was accepted: {why}")))?;
    let origin = key_file::new_name();
    let vkey = service.signer(&origin)?.verifier().to_string();
    let command = ContinueLog {
        origin,
        vkey,
        accepted,
        stream: entropy::bytes(),
        seed: entropy::bytes(),
    };
    Ok(Envelope::new(service.clock().now(), command))
}

/// The bytes at a tile path (`tile/0/000`, `tile/entries/000.p/7`); `None` when the log has no such tile yet.
///
/// # Errors
/// `ledger_rolled_back` if the database holds other entries than those that were published; `erasures_pending`, `unavailable`.
pub fn tile(service: &Service, path: &str) -> Result<Option<Vec<u8>>, Error> {
    let Ok(path) = path.parse::<TilePath>() else {
        return Ok(None);
    };
    let mut reader = service.reader()?;
    let head = reader.head().map_err(|e| service.fault(&e))?;
    // Others keep what they are shown here, and compare it with signed checkpoints.
    service.publish_signed(&mut reader, &head)?;
    tile_bytes(&mut reader, &path, head.head.size).map_err(|e| service.fault(&e))
}

/// The bytes of a tile of the tree of this size: a stored one may have grown since.
fn tile_bytes(
    reader: &mut Reader<'_>,
    path: &TilePath,
    size: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
    match path.kind() {
        TileKind::Hashes(level) => {
            let hashes = size.checked_shr(8 * u32::from(level)).unwrap_or(0);
            if !covered(path, hashes) {
                return Ok(None);
            }
            Ok(reader
                .tile(level, path.index())?
                .and_then(|stored| path.cut(&stored).map(<[u8]>::to_vec)))
        }
        TileKind::Entries => {
            if !covered(path, size) {
                return Ok(None);
            }
            let first = path.index() * TILE_WIDTH as u64;
            let leaves = reader.leaves(first, path.width() as u32)?;
            encode_bundle(leaves.iter().map(Vec::as_slice))
                .map(Some)
                .map_err(|e| {
                    StoreError::Corrupt(format!("leaves from {first} on do not make a bundle: {e}"))
                })
        }
    }
}

/// Whether a level of `count` hashes has this tile at this width. A partial tile stays readable after it filled.
fn covered(path: &TilePath, count: u64) -> bool {
    let first = path.index().saturating_mul(TILE_WIDTH as u64);
    count >= first && count - first >= path.width() as u64
}
