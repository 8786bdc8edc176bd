//! One entry: that its leaf commits to exactly the fact stored beside it, and what that is.

use serde_json::{Map, Value};

use crate::evidence::facts::{Fact, LeafPlace, Logged};
use crate::ledger::event::field_digest;
use crate::ledger::{EventBody, Leaf, leaf_hash};
use crate::model::Timestamp;
use crate::store::conn::{Row, StoreError};

/// An entry whose leaf commits to this fact.
pub(super) struct Opened {
    pub seq: u64,
    pub leaf: Leaf,
    pub logged: Logged<Fact>,
}

/// Opens a row of idx, booking_id, seq, leaf, kind, salt, facts, salts.
///
/// # Errors
/// Why the entry does not hold.
pub(super) fn open(row: &Row) -> Result<Opened, String> {
    let (leaf, members) = committed(row)?;
    let bytes = row.blob(3).map_err(unreadable)?;
    let kind = row.text(4).map_err(unreadable)?;
    let kind = kind
        .parse()
        .map_err(|_| format!("\"{kind}\" is not a kind of entry"))?;
    let place = LeafPlace {
        index: row.size(0).map_err(unreadable)?,
        hash: leaf_hash(bytes),
        at: Timestamp::from_ms(leaf.t),
    };
    Ok(Opened {
        seq: row.size(2).map_err(unreadable)?,
        leaf,
        logged: Logged {
            place,
            fact: Fact::read(kind, members)?,
        },
    })
}

/// The leaf of such a row, and the members of the fact that it commits to, which are spelled as the program does.
///
/// # Errors
/// Why it does not.
pub(super) fn committed(row: &Row) -> Result<(Leaf, Map<String, Value>), String> {
    let leaf = Leaf::parse(row.blob(3).map_err(unreadable)?).map_err(|e| e.to_string())?;
    let salt: [u8; 32] = row.bytes(5).map_err(unreadable)?;
    let text = row.text(6).map_err(unreadable)?;
    let (salts, rest) = row.blob(7).map_err(unreadable)?.as_chunks::<32>();
    let members: Map<String, Value> = row.json(6).map_err(unreadable)?;
    if serde_json::to_string(&members).ok().as_deref() != Some(text) {
        return Err("Bookguard does not spell its values this way".to_owned());
    }
    let changed = "the ledger does not commit to what is stored for it; kind, salt, facts or salts were changed";
    if !rest.is_empty() || salts.len() != members.len() {
        return Err(changed.to_owned());
    }
    let digests = members.iter().zip(salts);
    let sd = digests.map(|((name, value), salt)| {
        let digest = field_digest(name, value, salt).map_err(|e| e.to_string())?;
        Ok((name.clone(), digest))
    });
    let body = EventBody {
        kind: row.text(4).map_err(unreadable)?.to_owned(),
        sd: sd.collect::<Result<_, String>>()?,
    };
    body.verify(&leaf, &salt).map_err(|_| changed)?;
    Ok((leaf, members))
}

fn unreadable(error: StoreError) -> String {
    error.to_string()
}
