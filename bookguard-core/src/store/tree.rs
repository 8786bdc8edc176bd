//! Loads the log's tree from its stored tiles.
//!
//! It needs only the tiles that still grow, one per level. Invariant: a tree returned from here has the size and root
//! of the head it was requested for.

use std::collections::BTreeMap;

use super::conn::{Conn, Rows, Statement, StoreError, args};
use crate::engine::command::Head;
use crate::ledger::tile::{ReadError, TileAddress};
use crate::ledger::{Hash, Tree};

/// The tiles that still grow, whatever the tree's size. Queried together with the head, they form its tree. No tree has
/// more than eight levels of 256. The head is read once: while somebody holds a long snapshot, a server keeps every version
/// of its row, and reading it takes longer with each turn.
const GROWING: &str = "WITH grown AS MATERIALIZED (SELECT size FROM head WHERE id = 1) \
     SELECT level, idx, hashes FROM tile WHERE level = 0 AND idx = (SELECT size / 256 FROM grown) \
     UNION ALL SELECT level, idx, hashes FROM tile WHERE level = 1 AND idx = (SELECT size / 65536 FROM grown) \
     UNION ALL SELECT level, idx, hashes FROM tile WHERE level = 2 AND idx = (SELECT size / 16777216 FROM grown) \
     UNION ALL SELECT level, idx, hashes FROM tile WHERE level = 3 AND idx = (SELECT size / 4294967296 FROM grown) \
     UNION ALL SELECT level, idx, hashes FROM tile WHERE level = 4 AND idx = (SELECT size / 1099511627776 FROM grown) \
     UNION ALL SELECT level, idx, hashes FROM tile WHERE level = 5 AND idx = (SELECT size / 281474976710656 FROM grown) \
     UNION ALL SELECT level, idx, hashes FROM tile WHERE level = 6 AND idx = (SELECT size / 72057594037927936 FROM grown) \
     UNION ALL SELECT level, idx, hashes FROM tile WHERE level = 7 AND idx = 0";

/// Asks for the tiles that still grow.
pub(crate) fn growing() -> Statement<'static> {
    Statement::new(GROWING, vec![])
}

/// Builds the tree from the answer to [`growing`] and checks it against the head read in the same transaction.
pub(crate) fn grown(growing: &Rows, head: Head) -> Result<Tree, StoreError> {
    let mut tiles = Vec::with_capacity(growing.rows.len());
    for row in &growing.rows {
        tiles.push((row.size(0)?, row.size(1)?, row.blob(2)?));
    }
    let tree = from_tiles(head.size, |level, index| {
        let at = (u64::from(level), index);
        let tile = tiles.iter().find(|tile| (tile.0, tile.1) == at);
        Ok(tile.map(|tile| tile.2.to_vec()))
    })?;
    checked(tree, head)
}

/// Loads the tree of any head the log ever had, in one flight.
pub(crate) fn load(conn: &mut dyn Conn, head: Head) -> Result<Tree, StoreError> {
    checked(at(conn, head.size)?, head)
}

/// The root that the tree had at this size, which it must have reached.
pub(crate) fn root_at(conn: &mut dyn Conn, size: u64) -> Result<Hash, StoreError> {
    at(conn, size).map(|tree| tree.root())
}

/// The tree of the first `size` leaves.
fn at(conn: &mut dyn Conn, size: u64) -> Result<Tree, StoreError> {
    let addresses = Tree::unfinished_tiles(size);
    let rows = conn.run(&tile_statements(&addresses))?;
    let mut tiles = tiles_at(&addresses, rows)?;
    from_tiles(size, |level, index| Ok(tiles.remove(&(level, index))))
}

fn from_tiles(
    size: u64,
    read: impl FnMut(u8, u64) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Tree, StoreError> {
    Tree::load(size, read).map_err(|error| match error {
        ReadError::Read(error) => error,
        other => StoreError::Corrupt(format!(
            "the ledger's tiles do not give its tree: {other:?}"
        )),
    })
}

fn checked(tree: Tree, head: Head) -> Result<Tree, StoreError> {
    if tree.root() == head.root {
        Ok(tree)
    } else {
        Err(StoreError::Corrupt(
            "the ledger's tiles do not give the root of its head".to_owned(),
        ))
    }
}

/// The bytes of a tile as far as it has grown.
pub(crate) fn read_tile(
    conn: &mut dyn Conn,
    level: u8,
    index: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
    let address = [(level, index)];
    let rows = conn.run(&tile_statements(&address))?;
    Ok(tiles_at(&address, rows)?.remove(&address[0]))
}

/// Asks for tiles.
pub(super) fn tile_statements(addresses: &[TileAddress]) -> Vec<Statement<'static>> {
    const TILE: &str = "SELECT hashes FROM tile WHERE level = $1 AND idx = $2";
    let args = |(level, index): &TileAddress| {
        let index = i64::try_from(*index).unwrap_or(i64::MAX);
        args![i64::from(*level), index]
    };
    let statements = addresses.iter().map(args);
    statements.map(|args| Statement::new(TILE, args)).collect()
}

/// The bytes of tiles as far as they have grown, from the answers to [`tile_statements`]; without those that are not stored.
pub(super) fn tiles_at(
    addresses: &[TileAddress],
    answers: Vec<Rows>,
) -> Result<BTreeMap<TileAddress, Vec<u8>>, StoreError> {
    let mut tiles = BTreeMap::new();
    for (address, mut rows) in addresses.iter().zip(answers) {
        if let Some(row) = rows.rows.first_mut() {
            tiles.insert(*address, row.take_blob(0)?);
        }
    }
    Ok(tiles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::store::conn::insert;

    #[test]
    fn a_tree_that_grew_elsewhere_comes_with_the_head_or_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("b.db").into(), true).unwrap();
        store.begin_log("o", "v", "c").unwrap();
        let mut conn = store.writer().unwrap();
        let mut tree = Tree::empty();
        for size in [0, 1, 255, 256, 257, 65_535, 65_536, 65_600] {
            let leaves = tree.size()..size;
            let tiles = tree.append(leaves.map(|n| Hash([n.to_le_bytes()[0]; 32])));
            let head = Head {
                size,
                root: tree.root(),
            };
            let mut statements = Vec::new();
            insert(
                &mut statements,
                "INSERT INTO tile (level, idx, hashes) VALUES {} ON CONFLICT (level, idx) DO UPDATE SET hashes = excluded.hashes",
                &tiles,
                |tile, args| {
                    let (level, index) = (i64::from(tile.level), tile.index as i64);
                    args.extend([level.into(), index.into(), (&tile.bytes).into()]);
                },
            );
            statements.push(Statement::new(
                "UPDATE head SET size = $1",
                vec![(size as i64).into()],
            ));
            conn.begin(&[]).unwrap();
            conn.commit(&statements).unwrap();
            let asked = conn.one(growing()).unwrap();
            let trees = [grown(&asked, head), load(&mut *conn, head)];
            for loaded in trees {
                let mut loaded = loaded.unwrap();
                assert_eq!((loaded.size(), loaded.root()), (size, head.root));
                // It continues exactly as the tree that never left memory.
                let next = [Hash([7; 32]), Hash([8; 32])];
                assert_eq!(loaded.append(next), tree.clone().append(next), "{size}");
                assert_ne!(loaded.root(), head.root);
            }
            let other = Head {
                root: Hash([9; 32]),
                ..head
            };
            assert!(matches!(grown(&asked, other), Err(StoreError::Corrupt(_))));
        }
    }
}
