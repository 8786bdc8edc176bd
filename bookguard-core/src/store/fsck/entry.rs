//! Checks one entry: its leaf must commit to exactly the fact stored beside it, which is then read.

use serde_json::{Map, Value};

use crate::evidence::facts::{Fact, LeafPlace, Logged};
use crate::ledger::{Leaf, LeafKind, leaf_hash};
use crate::model::Timestamp;
use crate::store::conn::{Row, StoreError};
use crate::store::read;

/// An entry whose leaf commits to this fact.
pub(super) struct OpenedEntry {
    pub seq: u64,
    pub leaf: Leaf,
    pub logged: Logged<Fact>,
    /// The names of its erased values.
    pub erased: Vec<String>,
}

/// Opens a row with the columns idx, booking_id, seq, leaf, kind, seed, facts.
///
/// # Errors
/// Why the entry does not hold.
pub(super) fn open(row: &Row) -> Result<OpenedEntry, String> {
    let (leaf, kind, members) = committed(row)?;
    let place = LeafPlace {
        index: row.size(0).map_err(unreadable)?,
        hash: leaf_hash(row.blob(3).map_err(unreadable)?),
        at: Timestamp::from_ms(leaf.t),
    };
    Ok(OpenedEntry {
        seq: row.size(2).map_err(unreadable)?,
        erased: (read::entry(row).map_err(unreadable)?.erased.into_keys()).collect(),
        leaf,
        logged: Logged {
            place,
            fact: Fact::read(kind, members)?,
        },
    })
}

/// The leaf of such a row, and the stored fact that it commits to with the stored seed. The fact must be spelled as the
/// program spells it.
///
/// # Errors
/// Why the leaf does not commit to it.
pub(super) fn committed(row: &Row) -> Result<(Leaf, LeafKind, Map<String, Value>), String> {
    let leaf = Leaf::parse(row.blob(3).map_err(unreadable)?).map_err(|e| e.to_string())?;
    let kind = row.text(4).map_err(unreadable)?;
    let members: Map<String, Value> = row.json(6).map_err(unreadable)?;
    let stored = read::entry(row).map_err(unreadable)?;
    let kind = kind
        .parse()
        .map_err(|_| format!("\"{kind}\" is not a kind of entry"))?;
    if serde_json::to_string(&members).ok().as_deref() != row.text(6).ok() {
        return Err("Bookguard does not spell its values this way".to_owned());
    }
    let body = stored.event_body().map_err(|e| e.to_string())?;
    if body.commit(&stored.salt) != leaf.commit || stored.shown() != members {
        return Err(
            "the ledger does not commit to what is stored for it; kind, salts or facts were changed"
                .to_owned(),
        );
    }
    Ok((leaf, kind, members))
}

fn unreadable(error: StoreError) -> String {
    error.to_string()
}
