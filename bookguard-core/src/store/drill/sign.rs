//! Signs a whole log again over what its entries say now, as the holder of its key can.

use std::collections::{BTreeMap, HashMap};

use super::super::commit::push_tiles;
use super::super::conn::{Conn, Row, Statement, StoreError, args};
use super::super::head;
use crate::key_file::LedgerKey;
use crate::ledger::event::{Opening, salts, seal};
use crate::ledger::{Checkpoint, Hash, Leaf, LeafKind, Signer, Tile, Tree, leaf_hash};

/// The entries of one page.
const PAGE: i64 = 1_000;

/// Makes leaves of what is stored, and tiles, checkpoints and head of the leaves.
pub(super) fn log(conn: &mut dyn Conn, key: &LedgerKey) -> Result<(), StoreError> {
    let stored = head(conn)?.ok_or_else(|| fault("the log has no head"))?;
    let signer = key.signer_as(&stored.origin).map_err(fault)?;
    let mut kept = conn.all("SELECT size FROM checkpoint ORDER BY size DESC", vec![])?;
    let mut tree = Tree::empty();
    // The last leaf of each stream, and the booking to which the stream belongs.
    let mut tips: HashMap<[u8; 16], (Hash, Option<[u8; 16]>)> = HashMap::new();
    let (mut next, mut written) = (0_i64, 0_i64);
    conn.all("DELETE FROM tile", vec![])?;
    loop {
        let rows = conn.all(
            "SELECT idx, booking_id, leaf, kind, seed, facts FROM entry WHERE idx >= $1 ORDER BY idx LIMIT $2",
            args![next, PAGE],
        )?;
        let Some(last) = rows.last() else { break };
        next = last.int(0)? + 1;
        let mut tiles = BTreeMap::new();
        for row in &rows {
            let old = row.blob(2)?;
            let mut leaf = Leaf::parse(old).map_err(fault)?;
            let kind: LeafKind = row.text(3)?.parse().map_err(fault)?;
            // Nobody can commit again to an entry whose values were erased, so its commitment stays.
            if let Opening::Seed(seed) = Opening::read(row.blob(4)?).map_err(fault)? {
                let sealed = seal(kind, &row.json(5)?, salts(&seed));
                leaf.commit = sealed.map_err(fault)?.commit;
            }
            let booking = match row.is_null(1) {
                true => None,
                false => Some(row.bytes(1)?),
            };
            let tip = tips.entry(leaf.stream).or_insert((Hash::ZERO, booking));
            leaf.prev = tip.0;
            tip.0 = leaf.hash().map_err(fault)?;
            let bytes = leaf.encode().map_err(fault)?;
            if bytes != old {
                let args = args![row.int(0)?, &bytes];
                // Arguments must first be used in ascending order.
                let sql = "UPDATE entry SET idx = $1, leaf = $2 WHERE idx = $1";
                conn.all(sql, args)?;
            }
            for tile in tree.append([leaf_hash(&bytes)]) {
                tiles.insert((tile.level, tile.index), tile);
            }
            written = leaf.t;
            let is_here = |row: &mut Row| row.size(0) == Ok(tree.size());
            while kept.pop_if(is_here).is_some() {
                sign(conn, &signer, &tree)?;
            }
        }
        let tiles: Vec<Tile> = tiles.into_values().collect();
        let mut statements = Vec::new();
        push_tiles(&mut statements, &tiles);
        conn.run(&statements)?;
    }
    for (tip, booking) in tips.values() {
        let Some(booking) = booking else { continue };
        let sql = "UPDATE booking SET tip = $1 WHERE id = $2 AND tip <> $1";
        conn.all(sql, args![tip.as_bytes(), booking.as_slice()])?;
    }
    let note = Checkpoint::sign(&signer, tree.size(), tree.root());
    let root = tree.root();
    let vkey = signer.verifier().to_string();
    let size = i64::try_from(tree.size()).map_err(fault)?;
    conn.run(&[
        Statement::new(
            "DELETE FROM checkpoint WHERE size > $1",
            args![size],
        ),
        Statement::new(
            "UPDATE head SET size = $1, root = $2, checkpoint = $3, vkey = $4, written_ms = $5 WHERE id = 1",
            args![size, root.as_bytes(), note.as_str(), vkey.as_str(), written],
        ),
    ])
    .map(drop)
}

fn sign(conn: &mut dyn Conn, signer: &Signer, tree: &Tree) -> Result<(), StoreError> {
    let note = Checkpoint::sign(signer, tree.size(), tree.root());
    let size = i64::try_from(tree.size()).map_err(fault)?;
    let sql = "UPDATE checkpoint SET note = $1 WHERE size = $2";
    conn.all(sql, args![note.as_str(), size]).map(drop)
}

fn fault(why: impl std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("the log cannot be signed again: {why}"))
}
