//! Checks the time-stamps: each is over a checkpoint of this log, and an entry commits to it.
//!
//! Whether an authority is to be trusted is not checked: that is for whoever verifies a packet, with roots of their choice.

use sha2::{Digest as _, Sha256};

use super::Check;
use super::continued::Names;
use super::entry::{self, Committed};
use crate::engine::change::StoredStamp;
use crate::evidence::Anchor;
use crate::ledger::{Checkpoint, LeafKind};
use crate::store::conn::{Row, StoreError, args};
use crate::store::read::entries_where;
use crate::store::{stamps, tree};

impl Check<'_> {
    /// Visits every stamp, and the entry that commits to it.
    pub(super) fn stamps(&mut self, names: &Names, head: &str) -> Result<(), StoreError> {
        self.each_entry(stamps::ALL, |check, row| {
            let stamp = stamps::stamp(row)?;
            if let Err(why) = check.stamp(&stamp, names, head)? {
                let place = format!("stamp {}", stamp.leaf);
                check.findings.add("stamp", place, why);
            }
            Ok(())
        })?;
        for (table, odd) in [
            ("stamp", "SELECT COUNT(*) FROM stamp WHERE idx < 0"),
            ("stamping", "SELECT COUNT(*) FROM stamping WHERE id <> 1"),
        ] {
            if self.count(odd)? > 0 {
                let detail = "a row has an invalid id";
                self.findings.add("stamp", format!("table {table}"), detail);
            }
        }
        Ok(())
    }

    fn stamp(
        &mut self,
        stamp: &StoredStamp,
        names: &Names,
        head: &str,
    ) -> Result<Result<(), String>, StoreError> {
        let sql = entries_where!("idx = $1");
        let Some(row) = self.conn.first(sql, args![stamp.leaf])? else {
            return Ok(Err("the entry that commits to it is missing".to_owned()));
        };
        let key = names.key_at(stamp.size, self.log, head)?;
        let root = match tree::root_at(self.conn, stamp.size) {
            Err(StoreError::Corrupt(why)) => return Ok(Err(why)),
            root => root?,
        };
        Ok(anchor(&row).and_then(|anchor| {
            let said = Checkpoint::open(&stamp.checkpoint, &key).map_err(|e| e.to_string())?;
            let text = key.open(&stamp.checkpoint).map_err(|e| e.to_string())?;
            let imprint: [u8; 32] = Sha256::digest(text).into();
            let claim = bookguard_time::read(&stamp.response).map_err(|e| e.to_string())?;
            for (holds, why) in [
                (said.size == stamp.size, "its checkpoint is of another size"),
                (stamp.size <= stamp.leaf, "it is over entries after its own"),
                (
                    said.root == root,
                    "the entries give another root than was stamped",
                ),
                (
                    claim.imprint == imprint,
                    "the response stamps another checkpoint",
                ),
                (
                    claim.time == stamp.time.ms(),
                    "the response states another time",
                ),
                (
                    anchor.tree_size == stamp.size,
                    "the ledger says that it is over another checkpoint",
                ),
                (
                    anchor.response_hash == Anchor::hash(&stamp.response),
                    "the ledger commits to another response",
                ),
            ] {
                if !holds {
                    return Err(why.to_owned());
                }
            }
            Ok(())
        }))
    }
}

/// The anchor that an entry records.
fn anchor(row: &Row) -> Result<Anchor, String> {
    let Committed {
        leaf,
        kind,
        members,
        ..
    } = entry::committed(row)?;
    if kind != LeafKind::LogAnchored || !row.is_null(1) {
        return Err("the entry that it names does not commit to a stamp".to_owned());
    }
    let anchor = Anchor::read(members)?;
    let seq = row.size(2).map_err(|e| e.to_string())?;
    if (leaf.seq, seq) != (0, 0) || leaf.t < anchor.at.ms() {
        return Err("the entry that it names is not where it belongs".to_owned());
    }
    Ok(anchor)
}
