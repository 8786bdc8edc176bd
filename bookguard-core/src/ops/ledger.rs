//! The log as anyone may mirror it: checkpoint, key and tiles, exactly as C2SP tlog-tiles lays them out.
//!
//! These answer text and bytes, not JSON, so they are plain functions beside the operations.

use crate::error::Error;
use crate::ledger::TilePath;
use crate::ledger::tile::{TILE_WIDTH, TileKind, encode_bundle};
use crate::service::Service;
use crate::store::StoreError;
use crate::store::read::Reader;

/// The latest signed checkpoint.
pub fn checkpoint(service: &Service) -> Result<String, Error> {
    ask(service, |reader| Ok(reader.head()?.checkpoint))
}

/// The key checkpoints verify under, in note form, with a line end.
pub fn vkey(service: &Service) -> String {
    format!("{}\n", service.vkey())
}

/// The bytes at a tile path (`tile/0/000`, `tile/entries/000.p/7`); `None` when the log has no such tile yet.
pub fn tile(service: &Service, path: &str) -> Result<Option<Vec<u8>>, Error> {
    let Ok(path) = path.parse::<TilePath>() else {
        return Ok(None);
    };
    ask(service, |reader| tile_bytes(reader, &path))
}

fn tile_bytes(reader: &mut Reader<'_>, path: &TilePath) -> Result<Option<Vec<u8>>, StoreError> {
    // Only what the published checkpoint covers is served: a tile may have grown since.
    let size = reader.head()?.head.size;
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

/// Whether a level of `count` hashes has this tile at this width. A partial tile may be asked for after it filled.
fn covered(path: &TilePath, count: u64) -> bool {
    let first = path.index().saturating_mul(TILE_WIDTH as u64);
    count >= first && count - first >= path.width() as u64
}

fn ask<T>(
    service: &Service,
    question: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError>,
) -> Result<T, Error> {
    question(&mut service.reader()?).map_err(|e| service.fault(&e))
}
