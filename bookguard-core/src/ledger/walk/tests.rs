use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::*;
use crate::ledger::tile::{TILE_BYTES, encode_bundle};
use crate::tests::is_long;

/// A log in memory, with every tile as far as it has grown.
struct Log {
    leaves: Vec<Vec<u8>>,
    tiles: BTreeMap<(u8, u64), Vec<u8>>,
    roots: Vec<Hash>,
}

impl Log {
    fn of(size: u64) -> Self {
        let mut tree = Tree::empty();
        let mut log = Self {
            leaves: (0..size).map(|n| n.to_string().into_bytes()).collect(),
            tiles: BTreeMap::new(),
            roots: vec![tree.root()],
        };
        for leaf in &log.leaves {
            for tile in tree.append([leaf_hash(leaf)]) {
                log.tiles.insert((tile.level, tile.index), tile.bytes);
            }
            log.roots.push(tree.root());
        }
        log
    }

    fn head(&self, size: usize) -> Checkpoint {
        Checkpoint {
            origin: "example.com/log".to_owned(),
            size: size as u64,
            root: self.roots[size],
        }
    }

    fn latest(&self) -> Checkpoint {
        self.head(self.leaves.len())
    }

    /// What a mirror serves under this path.
    fn get(&self, path: &TilePath) -> Vec<u8> {
        match path.kind() {
            TileKind::Hashes(level) => {
                let tile = &self.tiles[&(level, path.index())];
                path.cut(tile).unwrap().to_vec()
            }
            TileKind::Entries => {
                let first = path.index() as usize * TILE_WIDTH;
                let leaves = &self.leaves[first..first + path.width()];
                encode_bundle(leaves.iter().map(Vec::as_slice)).unwrap()
            }
        }
    }

    /// Walks the log, after `change` was made to what it serves. Returns the entries walked.
    fn walk(
        &self,
        known: Checkpoint,
        mut change: impl FnMut(&TilePath, &mut Vec<u8>),
    ) -> Result<Vec<Vec<u8>>, (Option<TilePath>, WalkError)> {
        let mut walk = Walk::new(known, self.latest()).map_err(|why| (None, why))?;
        let mut walked = Vec::new();
        let mut failed = None;
        for path in walk.paths() {
            let mut bytes = self.get(&path);
            assert!(bytes.len() <= most_bytes(&path), "{path}");
            change(&path, &mut bytes);
            match walk.take(&bytes) {
                Ok(Some((first, entries))) => {
                    assert_eq!(first, walked.len() as u64);
                    walked.extend(entries.into_iter().map(<[u8]>::to_vec));
                }
                Ok(None) => {}
                Err(why) => failed = failed.or(Some((Some(path), why))),
            }
        }
        assert_eq!(walk.take(b""), Err(WalkError::Over));
        // Whoever ignores an error cannot finish.
        assert_eq!(walk.finish().is_err(), failed.is_some());
        failed.map_or(Ok(walked), Err)
    }
}

/// A log with tiles of three levels, which takes a while to make.
static LARGE: LazyLock<Log> = LazyLock::new(|| Log::of(66_000));

fn untouched(_: &TilePath, _: &mut Vec<u8>) {}

#[test]
fn every_entry_of_a_log_is_walked_once_whatever_was_known_of_it() {
    for (size, known) in [
        (0, vec![0]),
        (1, vec![0, 1]),
        (255, vec![1, 255]),
        (256, vec![1, 255, 256]),
        (257, vec![1, 255, 256, 257]),
        (700, vec![1, 256, 300, 512, 513, 700]),
    ] {
        let log = Log::of(size);
        for known in known {
            let walked = log.walk(log.head(known), untouched);
            assert!(walked == Ok(log.leaves.clone()), "{known} of {size}");
        }
    }
    // The next test begins at the others too, which costs less.
    let edges = [1, 256, 65_535, 65_536, 66_000];
    let others = [255, 257, 40_000, 65_537, 65_900].into_iter();
    for known in edges.into_iter().chain(others.filter(|_| is_long())) {
        let walked = LARGE.walk(LARGE.head(known), untouched);
        assert!(walked == Ok(LARGE.leaves.clone()), "{known}");
    }
}

#[test]
fn what_was_added_is_walked_from_where_the_known_log_ends() {
    let log = &*LARGE;
    for known in [
        0, 1, 255, 256, 257, 40_000, 65_535, 65_536, 65_537, 65_900, 66_000,
    ] {
        let begins = known / TILE_WIDTH * TILE_WIDTH;
        let walk = || Walk::since(log.head(known), log.latest()).unwrap();
        let mut whole = walk();
        let mut walked = Vec::new();
        for path in whole.paths() {
            let bytes = log.get(&path);
            if let Some((first, entries)) = whole.take(&bytes).unwrap() {
                assert_eq!(first, (begins + walked.len()) as u64);
                walked.extend(entries.into_iter().map(<[u8]>::to_vec));
            }
        }
        assert_eq!(whole.finish().unwrap(), log.latest());
        assert!(walked == log.leaves[begins..], "{known}");
        // Another beginning is noticed before the first entry.
        let mut other = log.head(known);
        other.root = leaf_hash(b"another");
        let forked = Walk::since(other, log.latest());
        if known == log.leaves.len() {
            let known = known as u64;
            assert_eq!(forked.err(), Some(WalkError::Forked { known }));
            continue;
        }
        let mut forked = forked.unwrap();
        let refused = forked
            .paths()
            .find_map(|path| forked.take(&log.get(&path)).err());
        if known > 0 {
            let known = known as u64;
            assert_eq!(refused, Some(WalkError::Forked { known }));
        }
        assert_eq!(forked.walked(), begins as u64);
    }
}

#[test]
fn a_long_log_takes_one_request_for_each_tile_and_bundle() {
    let size = 256 * 256 * 256 + 256 * 3 + 5;
    let paths: Vec<String> = paths(0, size, 1).map(|path| path.to_string()).collect();
    let begins = [
        "tile/0/x065/539.p/5",
        "tile/1/256.p/3",
        "tile/3/000.p/1",
        "tile/2/000",
        "tile/1/000",
        "tile/0/000",
        "tile/2/000",
        "tile/1/000",
        "tile/entries/000",
        "tile/entries/001",
    ];
    assert_eq!(paths[..begins.len()], begins);
    let count = |start: &str| paths.iter().filter(|path| path.starts_with(start)).count();
    assert_eq!(count("tile/entries/"), 65_540);
    assert_eq!((count("tile/1/"), count("tile/2/")), (258, 2));
    assert_eq!(paths.last().unwrap(), "tile/entries/x065/539.p/5");
}

#[test]
fn a_changed_byte_stops_the_walk_at_its_tile() {
    let log = Log::of(700);
    let known = log.head(300);
    for changed in paths(0, 700, 300) {
        let length = log.get(&changed).len();
        // The length of the first entry, the first byte, and some in between.
        for at in [0, 1, 2, length / 2, length - 1] {
            let mut once = true;
            let refused = log.walk(known.clone(), |path, bytes| {
                if *path == changed && std::mem::take(&mut once) {
                    bytes[at] ^= 1;
                }
            });
            let (path, why) = refused.expect_err("a changed byte");
            match why {
                // The tiles at the edge are checked together, once the last of them is there.
                WalkError::Edge => assert!(changed.is_partial(), "{changed} {at}"),
                _ => assert_eq!(path, Some(changed), "{at}: {why}"),
            }
        }
    }
}

#[test]
fn a_tile_of_another_length_is_refused() {
    let log = Log::of(700);
    for changed in paths(0, 700, 300) {
        for change in [
            (|bytes: &mut Vec<u8>| bytes.push(0)) as fn(&mut Vec<u8>),
            |bytes| bytes.truncate(bytes.len() - 1),
            |bytes| bytes.truncate(bytes.len() - HASH_BYTES),
            Vec::clear,
            |bytes| bytes.extend([0; TILE_BYTES + 1]),
        ] {
            let refused = log.walk(log.head(300), |path, bytes| {
                if *path == changed {
                    change(bytes);
                }
            });
            let (path, why) = refused.expect_err("another length");
            assert_eq!(path, Some(changed));
            assert!(
                matches!(
                    why,
                    WalkError::Size { .. } | WalkError::Bundle(..) | WalkError::Changed(_)
                ),
                "{why}"
            );
        }
    }
}

#[test]
fn another_tile_in_its_place_is_refused() {
    let log = Log::of(700);
    let bundle = |index| TilePath::new(TileKind::Entries, index, TILE_WIDTH).unwrap();
    let refused = log.walk(log.head(1), |path, bytes| {
        if *path == bundle(1) {
            *bytes = log.get(&bundle(0));
        }
    });
    assert_eq!(
        refused,
        Err((Some(bundle(1)), WalkError::Changed(bundle(1))))
    );
}

#[test]
fn a_log_that_does_not_continue_the_known_one_is_refused() {
    let log = Log::of(700);
    for known in [1, 256, 300, 512, 700] {
        let mut other = log.head(known);
        other.root.0[31] ^= 1;
        let refused = log.walk(other, untouched).expect_err("a fork");
        // Two checkpoints of one size need no tile.
        assert_eq!(refused.0.is_none(), known == 700, "{known}");
        let known = known as u64;
        assert_eq!(refused.1, WalkError::Forked { known });
    }
    let shorter = Log::of(699).walk(log.latest(), untouched);
    let (found, known) = (699, 700);
    assert_eq!(shorter, Err((None, WalkError::Smaller { found, known })));
    let mut other = log.latest();
    other.root.0[0] ^= 1;
    let mut walk = Walk::new(log.head(1), other).unwrap();
    let edge = edge(700).map(|path| walk.take(&log.get(&path)).err());
    assert_eq!(edge.last(), Some(Some(WalkError::Edge)));
}

#[test]
fn both_walks_take_the_known_checkpoint_first_and_none_of_another_log() {
    let log = Log::of(5);
    let empty = Checkpoint::empty("example.com/log");
    assert_eq!(empty, log.head(0));
    for walk in [Walk::new, Walk::since] {
        let begun = walk(empty.clone(), log.latest()).unwrap();
        assert_eq!((begun.known(), begun.log()), (&empty, &log.latest()));
        assert!(format!("{begun:?}").contains("walked: 0"), "{begun:?}");
        let other = Checkpoint::empty("example.com/other");
        assert_eq!(
            walk(other, log.latest()).unwrap_err(),
            WalkError::Origin {
                found: "example.com/log".to_owned(),
                known: "example.com/other".to_owned(),
            }
        );
    }
}

#[test]
fn every_reason_is_a_sentence_about_what_is_wrong() {
    let path = TilePath::new(TileKind::Hashes(0), 7, 3).unwrap();
    let (found, known) = ("a.example".to_owned(), "b.example".to_owned());
    for (why, says) in [
        (WalkError::Origin { found, known }, "is of b.example"),
        (WalkError::Smaller { found: 1, known: 2 }, "1 entries"),
        (WalkError::Forked { known: 2 }, "forked"),
        (WalkError::Edge, "root"),
        (WalkError::Changed(path), "tile/0/007.p/3"),
        (WalkError::Size { path, found: 9 }, "9 bytes instead of 96"),
        (
            WalkError::Bundle(path, BundleError::Cut { at: 1 }),
            "entry 1",
        ),
        (WalkError::Over, "no further tiles"),
        (WalkError::Unfinished { walked: 1, size: 2 }, "1 of 2"),
    ] {
        assert!(why.to_string().contains(says), "{why}");
    }
}
