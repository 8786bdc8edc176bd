//! Checks one entry: its leaf must commit to exactly the fact stored beside it, which is then read.

use serde_json::{Map, Value};

use crate::evidence::facts::{Fact, LeafPlace, Logged};
use crate::ledger::event::{EventError, Opening, salts, seal};
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

/// What a row holds that its leaf commits to.
pub(super) struct Committed {
    pub leaf: Leaf,
    pub kind: LeafKind,
    /// The members of the fact, with what stands in for erased ones.
    pub members: Map<String, Value>,
    erased: Vec<String>,
}

/// Opens a row with the columns idx, booking_id, seq, leaf, kind, seed, facts.
///
/// # Errors
/// Why the entry does not hold.
pub(super) fn open(row: &Row) -> Result<OpenedEntry, String> {
    let said = committed(row)?;
    let place = LeafPlace {
        index: row.size(0).map_err(unreadable)?,
        hash: leaf_hash(row.blob(3).map_err(unreadable)?),
        at: Timestamp::from_ms(said.leaf.t),
    };
    Ok(OpenedEntry {
        seq: row.size(2).map_err(unreadable)?,
        erased: said.erased,
        leaf: said.leaf,
        logged: Logged {
            place,
            fact: Fact::read(said.kind, said.members)?,
        },
    })
}

/// What such a row holds, if its leaf commits to it with the stored salts. The fact must be spelled as the program spells it.
///
/// # Errors
/// Why the leaf does not commit to it.
pub(super) fn committed(row: &Row) -> Result<Committed, String> {
    let leaf = Leaf::parse(row.blob(3).map_err(unreadable)?).map_err(|e| e.to_string())?;
    let kind = row.text(4).map_err(unreadable)?;
    let members: Map<String, Value> = row.json(6).map_err(unreadable)?;
    let opening = Opening::read(row.blob(5).map_err(unreadable)?)?;
    let kind = kind
        .parse()
        .map_err(|_| format!("\"{kind}\" is not a kind of entry"))?;
    if serde_json::to_string(&members).ok().as_deref() != row.text(6).ok() {
        return Err("Bookguard does not spell its values this way".to_owned());
    }
    let in_words = |e: EventError| e.to_string();
    let (holds, erased) = match opening {
        Opening::Seed(seed) => {
            let sealed = seal(kind, &members, salts(&seed)).map_err(in_words)?;
            (sealed.commit == leaf.commit, Vec::new())
        }
        ref kept @ Opening::Kept(_) => {
            let stored = read::entry(row).map_err(unreadable)?;
            let commit = stored.event_body().map_err(in_words)?.commit(&stored.salt);
            let holds =
                commit == leaf.commit && stored.shown() == members && kept.belongs_to(&members);
            (holds, stored.erased.into_keys().collect())
        }
    };
    if !holds {
        return Err(
            "the ledger does not commit to what is stored for it; kind, salts or facts were changed"
                .to_owned(),
        );
    }
    Ok(Committed {
        leaf,
        kind,
        members,
        erased,
    })
}

fn unreadable(error: StoreError) -> String {
    error.to_string()
}
