//! The list of ways. To add one, add a value.

use std::collections::BTreeMap;

use super::super::conn::args;
use super::super::epochs;
use super::Attacker::{Disk, DiskAndKey, Key, Messenger};
use super::Backup::{AfterStamp, BeforeStamp, Last};
use super::Mechanism::{Auditor, Mirror, Packet, Server, TimeStamp, Verify, Witness};
use super::Tampering::{Bytes, Change, NoGuard, OtherKey, PutBack, Record, RecordInThePast, Sign};
use super::{Attacker, StoreError, TamperedRows, Tampering, Use, cut, flip};
use crate::evidence::Epoch;
use crate::ledger::event::{salts, seal};
use crate::ledger::hash::leaf_hash;
use crate::ledger::map::pages::Pages;
use crate::ledger::map::{MapValue, key_of};
use crate::ledger::{Hash, Leaf};
use crate::model::Timestamp;

/// What can notice a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// `bookguard ledger verify` on the service's own database, with the guard.
    Verify,
    /// A server that starts on it, or is asked to do what the attacker wants.
    Server,
    /// The packet made afterwards, offline and compared with the one made before; and that one, compared with the log.
    Packet,
    /// A mirror that was made before and goes on, or a new one.
    Mirror,
    /// A witness that cosigned before.
    Witness,
    /// A witness that audited and cosigned before, and reads what was added.
    Auditor,
    /// A time-stamp from before, compared with the log and shown in packets.
    TimeStamp,
}

impl Mechanism {
    /// Every mechanism, in the order of the table.
    pub const ALL: [Self; 7] = [Verify, Server, Packet, Mirror, Witness, Auditor, TimeStamp];

    /// The head of its column.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Verify => "verify",
            Server => "server",
            Packet => "packet",
            Mirror => "mirror",
            Witness => "witness",
            Auditor => "auditor",
            TimeStamp => "time-stamp",
        }
    }
}

/// A way to tamper.
#[derive(Clone, Copy)]
pub struct Way {
    /// Its name, for programs and for choosing it.
    pub name: &'static str,
    /// Who could do it.
    pub by: Attacker,
    /// What is done, in a sentence.
    pub what: &'static str,
    /// How.
    pub steps: &'static [Tampering],
    /// What the attacker then does with the service.
    pub then: Use,
    /// What must notice it, in the order of [`Mechanism::ALL`].
    pub noticed_by: &'static [Mechanism],
}

/// Changes rows by one statement, whose arguments are these ids of the scene.
macro_rules! sql {
    ($sql:expr $(, $id:ident)*) => {
        Change(|rows| rows.change($sql, args![$(rows.scene.$id),*]))
    };
}

/// Ways with their fields in order. After one without `then`, the attacker lets the service work on.
macro_rules! ways {
    ($($name:literal $by:ident $what:literal [$($step:expr),+] noticed by [$($mechanism:ident),*] $(then $then:ident)?;)+) => {
        &[$(Way {
            name: $name,
            by: $by,
            what: $what,
            steps: &[$($step),+],
            then: ways!(@ $($then)?),
            noticed_by: &[$($mechanism),*],
        }),+]
    };
    (@) => { Use::Write };
    (@ $then:ident) => { Use::$then };
}

/// Every way, those that most mechanisms notice first within each attacker.
pub const WAYS: &[Way] = ways! {
    "booking-row" Disk "Change the value of a booking in its row"
        [sql!("UPDATE booking SET body = REPLACE(body, '1200.5', '9200.5') \
              WHERE id = $1 AND body LIKE '%1200.5%' RETURNING 1", booking)]
        noticed by [Verify, Packet];
    "booking-owner" Disk "Exchange the bookings of two partners"
        [sql!("UPDATE booking SET partner_id = CASE partner_id WHEN $1 THEN $2 ELSE $1 END \
              WHERE partner_id IN ($1, $2) RETURNING 1", partner, other_partner)]
        noticed by [Verify, Packet];
    "terms" Disk "Change the frozen terms of a booking"
        [sql!("UPDATE booking SET terms = REPLACE(terms, '120050', '20050') \
              WHERE id = $1 AND terms LIKE '%120050%' RETURNING 1", booking)]
        noticed by [Verify, Packet];
    "policy" Disk "Change the text of the policy that a booking is under"
        [sql!("UPDATE policy SET body = REPLACE(body, '10000', '9000') \
              WHERE hash = (SELECT policy_hash FROM booking WHERE id = $1) AND body LIKE '%10000%' RETURNING 1", booking)]
        noticed by [Verify, Packet];
    "entry-fact" Disk "Change the fact that an entry keeps"
        [Change(rename)]
        noticed by [Verify, Packet];
    "entry-seed" Disk "Change a fact, and the leaf that commits to it"
        [Change(rename), Change(commit)]
        noticed by [Verify, Packet, Mirror, TimeStamp];
    "entry-tile" Disk "Change a fact, its leaf, and the leaf's hash in its tile"
        [Change(rename), Change(commit), Change(hash_into_tile)]
        noticed by [Verify, Server, Packet, Mirror, TimeStamp];
    "entry-gone" Disk "Delete the last entry of a booking"
        [Change(drop_last)]
        noticed by [Verify, Packet, Mirror, TimeStamp];
    "entry-settled-gone" Disk "Delete the entry that records that a webhook was accepted"
        [sql!("DELETE FROM entry WHERE booking_id = $1 AND kind = 'webhook.settled' RETURNING 1", other_booking)]
        noticed by [Verify, Packet, Mirror, TimeStamp];
    "entry-order" Disk "Exchange two neighbouring entries of the log"
        [Change(|rows| {
            let first = first(rows)?;
            let swap = "UPDATE entry SET idx = CASE idx WHEN $1 THEN -9 ELSE -8 END WHERE idx IN ($1, $1 + 1) RETURNING 1";
            rows.change(swap, args![first])?;
            let back = "UPDATE entry SET idx = CASE idx WHEN -9 THEN $1 + 1 ELSE $1 END WHERE idx IN (-9, -8) RETURNING 1";
            rows.change(back, args![first])
        })]
        noticed by [Verify, Packet, Mirror, TimeStamp];
    "entry-inserted" Disk "Insert an entry in the middle of the log"
        [Change(|rows| {
            let first = first(rows)?;
            let away = "UPDATE entry SET idx = -idx WHERE idx > $1 RETURNING 1";
            rows.change(away, args![first])?;
            let back = "UPDATE entry SET idx = 1 - idx WHERE idx < 0 RETURNING 1";
            rows.change(back, vec![])?;
            let sql = "INSERT INTO entry (idx, booking_id, seq, leaf, kind, seed, facts) \
                       SELECT idx + 1, booking_id, 1000, leaf, kind, seed, facts FROM entry WHERE idx = $1 RETURNING 1";
            rows.change(sql, args![first])
        })]
        noticed by [Verify, Server, Packet, Mirror, TimeStamp];
    "tile" Disk "Change a hash in a tile of the log's tree"
        [Change(|rows| {
            let sql = "UPDATE tile SET hashes = ZEROBLOB(LENGTH(hashes)) WHERE level = 0 AND idx = $1 / 256 RETURNING 1";
            let first = first(rows)?;
            rows.change(sql, args![first])
        })]
        noticed by [Verify, Server, Packet, Mirror, TimeStamp];
    "head-size" Disk "Make the log shorter in its head row alone"
        [sql!("UPDATE head SET size = size - 1 WHERE id = 1 RETURNING 1")]
        noticed by [Verify, Server, Packet, Mirror, Witness, Auditor, TimeStamp];
    "head-signature" Disk "Change a character of the signed checkpoint"
        [sql!("UPDATE head SET checkpoint = REPLACE(checkpoint, CHAR(10) || size || CHAR(10), CHAR(10) || (size + 1) || CHAR(10)) \
              WHERE id = 1 RETURNING 1")]
        noticed by [Verify, Packet, Mirror, Witness, Auditor, TimeStamp];
    "head-name" Disk "Give the log another name in its head row"
        [sql!("UPDATE head SET origin = origin || 'x' WHERE id = 1 RETURNING 1")]
        noticed by [Verify, Server];
    "key-file" Disk "Put another key in the place of the ledger key"
        [OtherKey]
        noticed by [Verify, Server];
    "api-key-moved" Disk "Give one partner's API key to another partner"
        [sql!("UPDATE api_key SET partner_id = $1 WHERE id = $2 RETURNING 1", other_partner, reading_key)]
        noticed by [Verify, Server] then MovedKey;
    "api-key-raised" Disk "Give an API key more scopes"
        [sql!("UPDATE api_key SET body = REPLACE(body, 'bookings:read', 'bookings:write') \
              WHERE id = $1 AND body LIKE '%bookings:read%' RETURNING 1", reading_key)]
        noticed by [Verify, Server] then RaisedKey;
    "api-key-unrevoked" Disk "Make a revoked API key work again"
        [sql!("UPDATE api_key SET revoked_ms = NULL WHERE id = $1 RETURNING 1", revoked_key)]
        noticed by [Verify, Server] then RevokedKey;
    "event-body" Disk "Change what a webhook said"
        [sql!("UPDATE event SET body = CAST(REPLACE(CAST(body AS TEXT), '1200.5', '9200.5') AS BLOB) \
              WHERE booking_id = $1 AND CAST(body AS TEXT) LIKE '%1200.5%' RETURNING 1", other_booking)]
        noticed by [Verify];
    "delivery-undone" Disk "Make an accepted delivery look as if it was never attempted"
        [sql!("UPDATE delivery SET phase = 0, attempts = 0, settled_leaf = NULL WHERE endpoint_id = $1 RETURNING 1", endpoint)]
        noticed by [Verify, Packet];
    "item-file" Disk "Change the stored file of an evidence item"
        [sql!("UPDATE file_part SET bytes = CAST(REPLACE(CAST(bytes AS TEXT), 'two', 'ten') AS BLOB) \
              WHERE SUBSTR(file_id, 1, 16) = $1 RETURNING 1", partner)]
        noticed by [Verify];
    "cosignature" Disk "Change the cosignature of a witness"
        [sql!("UPDATE cosignature SET note = SUBSTR(note, 1, LENGTH(note) - 8) || 'AAAAA==' || CHAR(10) RETURNING 1")]
        noticed by [Verify];
    "stamp-changed" Disk "Change the time that a time-stamp states"
        [sql!("UPDATE stamp SET time_ms = time_ms - 86400000 WHERE idx = (SELECT MAX(idx) FROM stamp) RETURNING 1")]
        noticed by [Verify];
    "stamp-gone" Disk "Delete a time-stamp"
        [sql!("DELETE FROM stamp WHERE idx = (SELECT MAX(idx) FROM stamp) RETURNING 1")]
        noticed by [Verify];
    "bit" Disk "Flip one bit of an entry in the database's file"
        [Bytes(flip)]
        noticed by [Verify, Packet, Mirror, TimeStamp];
    "pages" Disk "Cut off the end of the database's file"
        [Bytes(cut)]
        noticed by [Verify, Server];
    "old-backup" Disk "Put back an old backup"
        [PutBack(BeforeStamp)]
        noticed by [Verify, Server, Packet, Mirror, Witness, Auditor, TimeStamp];
    "old-backup-and-guard" Disk "Put back an old backup, and remove the guard"
        [PutBack(BeforeStamp), NoGuard]
        noticed by [Packet, Mirror, Witness, Auditor, TimeStamp];
    "new-backup-and-guard" Disk "The same with a backup made after the last time-stamp"
        [PutBack(AfterStamp), NoGuard]
        noticed by [Packet, Mirror, Witness, Auditor];
    "backup-kept" DiskAndKey "Put back an old backup, remove the guard, and record something else instead"
        [PutBack(BeforeStamp), NoGuard, Record, Record, Record]
        noticed by [Packet, Mirror, Witness, Auditor, TimeStamp];
    "tail-rewritten" DiskAndKey "Write the log anew from the last time-stamp on, and sign it"
        [PutBack(AfterStamp), NoGuard, Record, Record, Record]
        noticed by [Packet, Mirror, Witness, Auditor];
    "entry-signed" DiskAndKey "Change a stamped fact wherever it is kept, and sign the whole log again"
        [NoGuard, Change(rename), Change(rename_copies), Sign]
        noticed by [Verify, Packet, Mirror, Witness, Auditor, TimeStamp];
    "other-key" DiskAndKey "Sign the whole log with another key, and put it in the place of the ledger key"
        [NoGuard, OtherKey, Sign]
        noticed by [Verify, Packet, Mirror, Witness, Auditor, TimeStamp];
    "map-lies" DiskAndKey "Record a booking, and have the log commit to a map that lacks its entry"
        [Record, Change(hide), Sign]
        noticed by [Verify, Mirror, Auditor];
    "left-out" Key "Sign a packet that lacks the last entry of its booking"
        [NoGuard, Change(drop_last), Sign]
        noticed by [Packet, Mirror, Witness, Auditor];
    "two-logs" Key "Show some readers another log of the same length, signed with the same key"
        [PutBack(AfterStamp), NoGuard, Record, Record, Record]
        noticed by [Packet, Mirror, Witness, Auditor];
    "old-log" Messenger "Show readers an old state of the log"
        [PutBack(AfterStamp), NoGuard]
        noticed by [Packet, Mirror, Witness, Auditor];
    "packet-word" Messenger "Change one word of a packet"
        [Tampering::Packet(|packet| packet.replace(NAME, OTHER_NAME))]
        noticed by [Packet];
    "unseen" DiskAndKey "Take back what was recorded after anybody outside looked, and the guard with it"
        [Record, PutBack(Last)]
        noticed by [];
    "past" DiskAndKey "Record a booking with a clock that is a year behind"
        [RecordInThePast]
        noticed by [];
    "endpoint-address" Disk "Send a partner's webhooks to another address"
        [sql!("UPDATE endpoint SET body = REPLACE(body, 'receiver.example', 'attacker.example') \
              WHERE id = $1 AND body LIKE '%receiver.example%' RETURNING 1", endpoint)]
        noticed by [];
    "partner-contact" Disk "Change a partner's name and contact"
        [sql!("UPDATE partner SET body = REPLACE(body, 'drill.example', 'attacker.example') \
              WHERE id = $1 AND body LIKE '%drill.example%' RETURNING 1", partner)]
        noticed by [];
    "audit-gone" Disk "Delete a record of the audit"
        [sql!("DELETE FROM audit WHERE partner_id = $1 RETURNING 1", partner)]
        noticed by [];
    "cosignature-gone" Disk "Delete the cosignatures of witnesses"
        [sql!("DELETE FROM cosignature RETURNING 1")]
        noticed by [];
};

/// A name in the first fact of the booking, and one of the same length.
pub const NAME: &str = "Drill Trio";
const OTHER_NAME: &str = "Other Trio";

/// Changes the name in the booking's first fact.
fn rename(rows: &mut TamperedRows<'_>) -> Result<(), StoreError> {
    let sql = "UPDATE entry SET facts = REPLACE(facts, $1, $2) \
               WHERE booking_id = $3 AND seq = 0 AND facts LIKE '%' || $1 || '%' RETURNING 1";
    rows.change(sql, args![NAME, OTHER_NAME, rows.scene.booking])
}

/// Changes it everywhere else.
fn rename_copies(rows: &mut TamperedRows<'_>) -> Result<(), StoreError> {
    let sql = "UPDATE booking SET body = REPLACE(body, $1, $2) WHERE id = $3 RETURNING 1";
    rows.change(sql, args![NAME, OTHER_NAME, rows.scene.booking])?;
    let sql = "UPDATE event SET body = CAST(REPLACE(CAST(body AS TEXT), $1, $2) AS BLOB) WHERE booking_id = $3 RETURNING 1";
    rows.change(sql, args![NAME, OTHER_NAME, rows.scene.booking])
}

/// Makes the leaf of the booking's first entry commit to what is stored.
fn commit(rows: &mut TamperedRows<'_>) -> Result<(), StoreError> {
    let sql = "SELECT leaf, kind, seed, facts FROM entry WHERE booking_id = $1 AND seq = 0";
    let row = rows.row(sql, args![rows.scene.booking])?;
    let fault = |why: String| StoreError::Failed(why);
    let mut leaf = Leaf::parse(row.blob(0)?).map_err(|e| fault(e.to_string()))?;
    let kind = row.text(1)?.parse().map_err(|e| fault(format!("{e}")))?;
    let sealed = seal(kind, &row.json(3)?, salts(&row.bytes(2)?));
    leaf.commit = sealed.map_err(|e| fault(e.to_string()))?.commit;
    let bytes = leaf.encode().map_err(|e| fault(e.to_string()))?;
    let sql =
        "UPDATE entry SET leaf = $1 WHERE booking_id = $2 AND seq = 0 AND leaf <> $1 RETURNING 1";
    rows.change(sql, args![bytes, rows.scene.booking])
}

/// Puts the hash of the booking's first leaf into the lowest tile.
fn hash_into_tile(rows: &mut TamperedRows<'_>) -> Result<(), StoreError> {
    let first = first(rows)?;
    let hash = leaf_hash(&rows.first_leaf()?);
    let sql = "UPDATE tile SET hashes = CAST(SUBSTR(hashes, 1, ($1 % 256) * 32) || $2 || SUBSTR(hashes, ($1 % 256) * 32 + 33) AS BLOB) \
               WHERE level = 0 AND idx = $1 / 256 RETURNING 1";
    rows.change(sql, args![first, hash.as_bytes()])
}

/// Appends a map that lacks the last entry of a booking, and puts its pages in the place of the true ones.
fn hide(rows: &mut TamperedRows<'_>) -> Result<(), StoreError> {
    let fault = |why: &dyn std::fmt::Display| StoreError::Failed(why.to_string());
    let mut values: BTreeMap<Hash, MapValue> = BTreeMap::new();
    let (mut size, mut written, mut hidden) = (0_i64, 0, None);
    loop {
        let sql = "SELECT leaf, booking_id FROM entry WHERE idx >= $1 ORDER BY idx LIMIT 1000";
        let some = rows.conn.all(sql, args![size])?;
        if some.is_empty() {
            break;
        }
        for row in &some {
            let bytes = row.blob(0)?;
            let leaf = Leaf::parse(bytes).map_err(|e| fault(&e))?;
            let (count, head, key) = (leaf.seq + 1, leaf_hash(bytes), key_of(&leaf.stream));
            let before = values.insert(key, MapValue { count, head });
            if !row.is_null(1) {
                hidden = Some((key, before));
            }
            (size, written) = (size + 1, leaf.t);
        }
    }
    let own = values.get(&key_of(&Epoch::stream()));
    let (seq, prev) = own.map_or((0, Hash::ZERO), |own| (own.count, own.head));
    match hidden {
        Some((key, Some(before))) => values.insert(key, before),
        Some((key, None)) => values.remove(&key),
        None => return Err(fault(&"there is no booking to hide")),
    };
    let mut pages = Pages::empty();
    let epoch = Epoch {
        map_root: pages.set(&values).map_err(|e| fault(&e))?,
        tree_size: size.unsigned_abs(),
        written_at: Timestamp::from_ms(written),
    };
    let sealed = epoch.seal().map_err(|e| fault(&e))?;
    let leaf = Leaf {
        commit: sealed.commit,
        prev,
        seq,
        stream: Epoch::stream(),
        t: written,
    };
    let bytes = leaf.encode().map_err(|e| fault(&e))?;
    let sql = "INSERT INTO entry (idx, booking_id, seq, leaf, kind, seed, facts) \
               VALUES ($1, NULL, $2, $3, 'log.mapped', $4, $5) RETURNING 1";
    let seq = i64::try_from(seq).map_err(|e| fault(&e))?;
    let args = args![size, seq, bytes, &sealed.seed, sealed.members.as_str()];
    rows.change(sql, args)?;
    rows.conn.all("DELETE FROM map_page", vec![])?;
    let pages: Vec<(Vec<u8>, Vec<u8>)> = pages
        .changed()
        .map(|(id, page)| (id.to_bytes(), page.to_bytes()))
        .collect();
    let pages: Vec<&(Vec<u8>, Vec<u8>)> = pages.iter().collect();
    let mut statements = Vec::new();
    epochs::push_pages(&mut statements, &pages);
    rows.conn.run(&statements).map(drop)
}

/// Where the booking's first entry is in the log.
fn first(rows: &mut TamperedRows<'_>) -> Result<i64, StoreError> {
    let sql = "SELECT idx FROM entry WHERE booking_id = $1 AND seq = 0";
    rows.row(sql, args![rows.scene.booking])?.int(0)
}

/// Deletes the booking's last entry, which is the log's last.
fn drop_last(rows: &mut TamperedRows<'_>) -> Result<(), StoreError> {
    let sql = "DELETE FROM entry WHERE booking_id = $1 AND idx = (SELECT MAX(idx) FROM entry) RETURNING 1";
    rows.change(sql, args![rows.scene.booking])?;
    let sql = "UPDATE booking SET entries = entries - 1 WHERE id = $1 RETURNING 1";
    rows.change(sql, args![rows.scene.booking])
}
