//! Checks the log as such: dense entries, the tree over them, its tiles, its head and the stored checkpoints.

use std::collections::BTreeMap;

use super::continued::Names;
use super::epoch::MapWalk;
use super::{CLOCK_SLACK_MS, Check, PAGE};
use crate::evidence::LoggedEpoch;
use crate::guard::known_from;
use crate::ledger::tile::TILE_BYTES;
use crate::ledger::{Checkpoint, Hash, Leaf, Tile, Tree, leaf_hash};
use crate::store::conn::{StoreError, args};
use crate::store::tree::read_tile;
use crate::store::{StoredHead, head};

/// The state of the walk along the log.
struct LogWalk {
    names: Names,
    /// The name in the head. It is the log's name unless the log's own entries give another.
    name: String,
    tree: Tree,
    /// By level, the last computed tile while it is not full.
    partial: BTreeMap<u8, Tile>,
    tiles: u64,
    /// Fetched checkpoints that the walk has not reached, the next one last.
    ahead: Vec<StoredCheckpoint>,
    /// The size after which to fetch more checkpoints; `None` if there are no more.
    fetched: Option<i64>,
    /// The time of the last leaf.
    written: i64,
    /// When the latest checkpoint was kept.
    kept_at: Option<i64>,
    /// The sizes of checkpoints whose root differs from the tree's.
    foreign: Vec<u64>,
    /// Leaf hashes that are not in the tree yet.
    pending: Vec<Hash>,
    /// The newest epoch, and what the entries make of its map.
    map: (Option<LoggedEpoch>, MapWalk),
    /// The first leaf, with its time, that was written a second or more after the last checkpoint. Cleared by the next
    /// checkpoint.
    late: Option<(u64, i64)>,
}

/// A checkpoint as stored.
struct StoredCheckpoint {
    size: u64,
    at: i64,
    note: String,
}

impl Check<'_> {
    /// Walks along the log.
    pub(super) fn log(&mut self) -> Result<(), StoreError> {
        let stored = head(self.conn)?;
        let mut walk = LogWalk {
            names: self.names()?,
            name: stored.map_or_else(String::new, |head| head.origin),
            tree: Tree::empty(),
            partial: BTreeMap::new(),
            tiles: 0,
            ahead: Vec::new(),
            fetched: Some(i64::MIN),
            written: 0,
            kept_at: None,
            foreign: Vec::new(),
            pending: Vec::new(),
            map: self.epochs()?,
            late: None,
        };
        let mut next = i64::MIN;
        let mut size = 0_u64;
        loop {
            let rows = self.conn.all(
                "SELECT idx, leaf FROM entry WHERE idx >= $1 ORDER BY idx LIMIT $2",
                args![next, PAGE],
            )?;
            let Some(last) = rows.last() else { break };
            next = last.int(0)?.saturating_add(1);
            for row in &rows {
                let index = row.int(0)?;
                if u64::try_from(index) != Ok(size) {
                    let detail = format!(
                        "it is missing: the next entry stored is {index}, so the ledger cannot be recomputed beyond"
                    );
                    self.findings.add("entry", format!("entry {size}"), detail);
                    return self.rest_of_log(&walk.names, None);
                }
                self.leaf(&mut walk, size, row.blob(1)?)?;
                size += 1;
            }
            self.grow(&mut walk)?;
            self.progress.step(rows.len() as u64);
        }
        self.end_of_log(&mut walk)?;
        self.rest_of_log(&walk.names, Some((size, walk.tree.root(), walk.written)))
    }

    /// Processes the next leaf. Its content is checked with its booking.
    fn leaf(&mut self, walk: &mut LogWalk, index: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let written = Leaf::written_at(bytes);
        while let Some((_, root)) = walk.names.roots.pop_if(|(at, _)| *at <= index) {
            self.grow(walk)?;
            // The first checkpoint under a name is always kept.
            walk.kept_at = None;
            self.findings.same(
                "entry",
                || format!("entry {index} value foundRoot"),
                &root,
                &walk.tree.root(),
            );
        }
        if let Some(t) = written {
            if t < walk.written {
                let detail = "its time is before that of the entry before it";
                self.findings.add("entry", format!("entry {index}"), detail);
            }
            walk.written = t;
            pace(walk, index, t);
        }
        let hash = leaf_hash(bytes);
        walk.pending.push(hash);
        walk.map.1.leaf(index, bytes, hash);
        self.fetch(walk)?;
        let size = index + 1;
        if walk.ahead.last().is_some_and(|kept| kept.size <= size) {
            self.grow(walk)?;
            self.checkpoints(walk, written)?;
        }
        Ok(())
    }

    /// Extends the tree to the last leaf processed.
    fn grow(&mut self, walk: &mut LogWalk) -> Result<(), StoreError> {
        for tile in walk.tree.append(walk.pending.drain(..)) {
            if tile.bytes.len() == TILE_BYTES {
                walk.partial.remove(&tile.level);
                self.tile(walk, &tile)?;
            } else {
                walk.partial.insert(tile.level, tile);
            }
        }
        Ok(())
    }

    /// Compares a stored tile with the computed one.
    fn tile(&mut self, walk: &mut LogWalk, tile: &Tile) -> Result<(), StoreError> {
        walk.tiles += 1;
        let place = || format!("tile {} of level {}", tile.index, tile.level);
        match read_tile(self.conn, tile.level, tile.index)? {
            None => self.findings.add("tile", place(), "it is missing"),
            Some(stored) if stored == tile.bytes => {}
            Some(stored) => {
                let pairs = stored.chunks(32).zip(tile.bytes.chunks(32));
                let first = pairs.take_while(|(a, b)| a == b).count();
                let detail = format!("its hash {first} is not the one the entries give");
                self.findings.add("tile", place(), detail);
            }
        }
        Ok(())
    }

    /// Checks the checkpoints up to the tree's size.
    fn checkpoints(&mut self, walk: &mut LogWalk, written: Option<i64>) -> Result<(), StoreError> {
        while let Some(kept) = walk.ahead.pop_if(|kept| kept.size <= walk.tree.size()) {
            let place = format!("checkpoint {}", kept.size);
            let key = walk.names.key_at(kept.size, self.log, &walk.name)?;
            match Checkpoint::open(&kept.note, &key) {
                Err(why) => self.findings.add("checkpoint", place, why.to_string()),
                Ok(said) if said.size != kept.size => self.findings.add(
                    "checkpoint",
                    place,
                    format!("row says size {}, its note says {}", kept.size, said.size),
                ),
                Ok(said) if kept.size == walk.tree.size() && said.root != walk.tree.root() => {
                    walk.foreign.push(kept.size);
                }
                Ok(_) => {}
            }
            // It was stored with the batch that wrote the entry before it.
            if written.is_some_and(|t| kept.at != t) {
                let detail = format!(
                    "row says {}, its last entry was written at {written:?}",
                    kept.at
                );
                let place = format!("checkpoint {} at_ms", kept.size);
                self.findings.add("checkpoint", place, detail);
            }
            if let Some((index, t)) = walk.late.take()
                && t < kept.at - CLOCK_SLACK_MS
            {
                self.missing_before(index);
            }
            walk.kept_at = walk.kept_at.max(Some(kept.at));
            self.fetch(walk)?;
        }
        Ok(())
    }

    fn missing_before(&mut self, index: u64) {
        let detail = format!(
            "the checkpoint kept with entry {index}, or in the second after it, is missing"
        );
        self.findings.add("checkpoint", "table checkpoint", detail);
    }

    fn fetch(&mut self, walk: &mut LogWalk) -> Result<(), StoreError> {
        let (true, Some(after)) = (walk.ahead.is_empty(), walk.fetched) else {
            return Ok(());
        };
        let rows = self.conn.all(
            "SELECT size, at_ms, note FROM checkpoint WHERE size > $1 ORDER BY size LIMIT $2",
            args![after, PAGE],
        )?;
        walk.fetched = rows.last().map(|row| row.int(0)).transpose()?;
        for row in rows.iter().rev() {
            walk.ahead.push(StoredCheckpoint {
                size: row.size(0)?,
                at: row.int(1)?,
                note: row.text(2)?.to_owned(),
            });
        }
        Ok(())
    }

    /// Checks what remains after the last entry.
    fn end_of_log(&mut self, walk: &mut LogWalk) -> Result<(), StoreError> {
        for tile in std::mem::take(&mut walk.partial).into_values() {
            self.tile(walk, &tile)?;
        }
        self.map(walk.map.0.as_ref(), &walk.map.1)?;
        let stored = self.count("SELECT COUNT(*) FROM tile")?;
        if stored > walk.tiles {
            let detail = format!(
                "it holds {stored} tiles, and the entries make {}",
                walk.tiles
            );
            self.findings.add("tile", "table tile", detail);
        }
        if let Some((index, _)) = walk.late {
            self.missing_before(index);
        }
        self.fetch(walk)?;
        if let Some(kept) = walk.ahead.pop() {
            let detail = format!("the ledger has only {} entries", walk.tree.size());
            let place = format!("checkpoint {}", kept.size);
            self.findings.add("checkpoint", place, detail);
        }
        if let [first, ..] = walk.foreign.as_slice() {
            let detail = format!(
                "the entries give another root than it was signed for; the same holds for {} later ones",
                walk.foreign.len() - 1
            );
            self.findings
                .add("checkpoint", format!("checkpoint {first}"), detail);
        }
        Ok(())
    }

    /// Checks the head against the computed size and root, or only against its own signature if these are unknown.
    fn rest_of_log(
        &mut self,
        names: &Names,
        computed: Option<(u64, Hash, i64)>,
    ) -> Result<(), StoreError> {
        if self.count("SELECT COUNT(*) FROM head")? > 1 {
            self.findings
                .add("head", "table head", "there is more than one");
        }
        let Some(stored) = head(self.conn)? else {
            self.findings.add("head", "head", "it is missing");
            return Ok(());
        };
        let origin = names.last().unwrap_or(&stored.origin).to_owned();
        let key = names.key_at(u64::MAX, self.log, &stored.origin)?;
        let place = |field: &str| format!("head field {field}");
        self.findings
            .same("head", || place("vkey"), &stored.vkey, &key.to_string());
        self.findings
            .same("head", || place("origin"), &stored.origin, &origin);
        let gone_on = self.gone_on(&stored);
        self.guard("the log", gone_on)?;
        if let Some((size, root, written)) = computed {
            self.findings.same(
                "head",
                || place("written_ms"),
                &stored.written.ms(),
                &written,
            );
            self.findings
                .same("head", || place("size"), &stored.head.size, &size);
            self.findings
                .same("head", || place("root"), &stored.head.root, &root);
        }
        match Checkpoint::open(&stored.checkpoint, &key) {
            Err(why) => self
                .findings
                .add("head", place("checkpoint"), why.to_string()),
            Ok(said) => {
                let known = computed.map(|(size, root, _)| (size, root));
                let (size, root) = known.unwrap_or((stored.head.size, stored.head.root));
                if (said.size, said.root) != (size, root) {
                    let detail = format!(
                        "it is signed for {} entries and root {}, the ledger has {size} and {root}",
                        said.size, said.root
                    );
                    self.findings.add("head", place("checkpoint"), detail);
                }
            }
        }
        self.stamps(names, &stored.origin)
    }
}

impl Check<'_> {
    /// Checks whether the head continues the one last published, which the guard's file remembers, as a server would.
    fn gone_on(&mut self, stored: &StoredHead) -> Result<(), StoreError> {
        let seen = self.guard.seen.clone();
        let Some(rollback) = self.log.check(self.conn, None, seen.as_deref(), stored)? else {
            return Ok(());
        };
        if self.backup && rollback.cause.is_earlier() {
            self.guard.behind = Some(rollback);
            return Ok(());
        }
        let detail = format!(
            "{rollback} ({}). A server reads this database and refuses every write. If it is a backup, add --backup. {}",
            known_from(&rollback, self.log.guard().path()),
            rollback.way_out()
        );
        self.findings.add("ledger_rolled_back", "head", detail);
        self.guard.rollback = Some(rollback);
        Ok(())
    }
}

/// Notes an entry written a second or more after the last checkpoint: one is kept for every second in which the log
/// grew.
fn pace(walk: &mut LogWalk, index: u64, written: i64) {
    let late = walk.kept_at.is_none_or(|kept| written >= kept + 1_000);
    if late && walk.late.is_none() {
        walk.late = Some((index, written));
    }
}
