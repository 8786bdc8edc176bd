//! A mirror of the ledger, made as by any C2SP tlog-tiles client: it reads checkpoint, hash tiles and entry bundles over
//! HTTP, and checks them with the independent crate `tlog_tiles`.
//!
//! Bookguard's own code checks only the checkpoint's signature, under the key that the caller pins.

use std::collections::HashMap;
use std::path::Path;

use bookguard_core::ledger::VerifierKey;
use serde_json::Value;
use tlog_tiles::{
    Checkpoint, Error, HashReader as _, Tile, TileHashReader, TileReader, check_record, check_tree,
    prove_record, prove_tree, record_hash, stored_hash_index, tree_hash,
};

pub use tlog_tiles::Hash;

use crate::caller::Caller;

/// A tile has 2^8 hashes.
const HEIGHT: u8 = 8;
const WIDTH: u64 = 256;

/// A verified copy of the log.
pub struct Mirror {
    note: String,
    size: u64,
    root: Hash,
    entries: Vec<Vec<u8>>,
    tiles: Tiles,
}

struct Tiles(HashMap<String, Vec<u8>>);

impl TileReader for Tiles {
    fn height(&self) -> u8 {
        HEIGHT
    }

    fn read_tiles(&self, tiles: &[Tile]) -> Result<Vec<Vec<u8>>, Error> {
        let read = |tile: &Tile| {
            self.0
                .get(&tile.path())
                .cloned()
                .ok_or(Error::IndexesNotInTree)
        };
        tiles.iter().map(read).collect()
    }

    fn save_tiles(&self, _: &[Tile], _: &[Vec<u8>]) {}
}

impl Mirror {
    /// Downloads the log up to its current checkpoint and verifies all of it.
    ///
    /// Panics with the first check that fails.
    pub async fn download(caller: &Caller, vkey: &str) -> Self {
        let note = text(caller, "/v1/ledger/checkpoint").await;
        let key: VerifierKey = vkey.trim().parse().expect("a verifier key");
        let signed = key.open(&note).expect("the checkpoint's signature");
        let checkpoint = Checkpoint::from_bytes(signed.as_bytes()).expect("a tlog-checkpoint");
        assert_eq!(checkpoint.origin(), key.name());
        let (size, root) = (checkpoint.size(), *checkpoint.hash());
        let mut mirror = Self {
            note,
            size,
            root,
            entries: Vec::new(),
            tiles: Tiles(HashMap::new()),
        };
        mirror.fetch(caller).await;
        mirror.verify();
        mirror
    }

    async fn fetch(&mut self, caller: &Caller) {
        for tile in Tile::new_tiles(HEIGHT, 0, self.size) {
            let path = tile.path();
            // `tlog_tiles` writes the tile's height into the path; C2SP fixes the height and leaves it out.
            let published = path.strip_prefix("tile/8/").expect("tiles of height 8");
            let bytes = bytes(caller, &format!("/v1/ledger/tile/{published}")).await;
            self.tiles.0.insert(path, bytes);
        }
        for index in 0..self.size.div_ceil(WIDTH) {
            let width = (self.size - index * WIDTH).min(WIDTH);
            let path = format!("/v1/ledger/{}", bundle_path(index, width));
            let bundle = bytes(caller, &path).await;
            self.entries.extend(unpack(&bundle));
        }
    }

    /// Writes the log to files, as C2SP tlog-tiles lays them out.
    pub fn save(&self, folder: &Path) {
        let write = |path: String, bytes: &[u8]| {
            let file = folder.join(path);
            std::fs::create_dir_all(file.parent().expect("a file in the folder"))
                .and_then(|()| std::fs::write(&file, bytes))
                .expect("the mirror's files can be written");
        };
        write("checkpoint".to_owned(), self.note.as_bytes());
        for (path, bytes) in &self.tiles.0 {
            write(path.replacen("tile/8/", "tile/", 1), bytes);
        }
        for (index, entries) in self.entries.chunks(256).enumerate() {
            let mut bundle = Vec::new();
            for entry in entries {
                let length = u16::try_from(entry.len()).expect("a leaf is short");
                bundle.extend(length.to_be_bytes());
                bundle.extend(entry);
            }
            write(bundle_path(index as u64, entries.len() as u64), &bundle);
        }
    }

    /// Verifies the root against the tiles, every entry against its hash, and the proofs of the first and the last entry of each tile:
    /// the others are made of the same hashes.
    fn verify(&self) {
        assert_eq!(self.entries.len() as u64, self.size, "entries of the log");
        if self.size == 0 {
            return;
        }
        let reader = self.reader();
        let root = tree_hash(self.size, &reader).expect("tiles of the whole tree");
        assert_eq!(root, self.root, "the tiles' root is the checkpoint's");
        let places: Vec<u64> = (0..self.size)
            .map(|index| stored_hash_index(0, index))
            .collect();
        // Read together, because each reading proves all tiles anew.
        let stored = reader.read_hashes(&places).expect("the entries' hashes");
        for ((index, entry), stored) in (0..).zip(&self.entries).zip(stored) {
            let hash = record_hash(entry);
            assert_eq!(stored, hash, "entry {index} under its hash");
            let ends_tile = (index + 1) % WIDTH == 0 || index + 1 == self.size;
            if index % WIDTH == 0 || ends_tile {
                let proof = prove_record(self.size, index, &reader).expect("a proof of the entry");
                check_record(&proof, self.size, self.root, index, hash).expect("the proof holds");
            }
        }
    }

    /// Panics unless this log extends `earlier`.
    pub fn extends(&self, earlier: &Self) {
        assert!(self.size >= earlier.size, "a log never shrinks");
        let is_kept = self.entries.starts_with(&earlier.entries);
        assert!(is_kept, "a log never changes");
        if earlier.size > 0 {
            let proof = prove_tree(self.size, earlier.size, &self.reader()).expect("a proof");
            check_tree(&proof, self.size, self.root, earlier.size, earlier.root)
                .expect("the earlier log is part of this one");
        }
    }

    /// Panics unless every booking's entries are chained by number and by hash.
    pub fn chains(&self) {
        let mut streams: HashMap<String, (u64, String)> = HashMap::new();
        for entry in &self.entries {
            let leaf: Value = serde_json::from_slice(entry).expect("a leaf is JSON");
            let first = (0, "0".repeat(64));
            let stream = leaf["stream"].as_str().expect("a leaf's stream").to_owned();
            let expected = streams.get(&stream).unwrap_or(&first);
            let number = leaf["seq"].as_u64().expect("a leaf's number");
            let before = leaf["prev"].as_str().expect("a leaf's predecessor");
            assert_eq!(
                (number, before),
                (expected.0, expected.1.as_str()),
                "{leaf}"
            );
            streams.insert(stream, (number + 1, leaf_hex(entry)));
        }
    }

    /// The number of entries in the log.
    pub fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// The root of the log when it had this many entries.
    pub fn root_hex_at(&self, size: u64) -> String {
        let root = tree_hash(size, &self.reader()).expect("tiles of the whole tree");
        hex(&root.0)
    }

    fn reader(&self) -> TileHashReader<'_> {
        TileHashReader::new(self.size, self.root, &self.tiles)
    }
}

/// The hash of an entry, as the interface writes it.
pub fn leaf_hex(entry: &[u8]) -> String {
    hex(&record_hash(entry).0)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn text(caller: &Caller, path: &str) -> String {
    String::from_utf8(bytes(caller, path).await).expect("text")
}

async fn bytes(caller: &Caller, path: &str) -> Vec<u8> {
    let reply = caller.get(path).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.body
}

/// Where a bundle of this many entries is.
fn bundle_path(index: u64, width: u64) -> String {
    let path = format!("tile/entries/{index:03}");
    if width < WIDTH {
        return format!("{path}.p/{width}");
    }
    path
}

/// Splits a bundle: each entry follows its length in two big-endian bytes (C2SP tlog-tiles, "Log entries").
fn unpack(mut bundle: &[u8]) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = bundle.split_first_chunk::<2>() {
        let (entry, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)));
        entries.push(entry.to_vec());
        bundle = rest;
    }
    assert!(bundle.is_empty(), "a bundle ends with its last entry");
    entries
}
