//! Ways to tamper with a database, done to a copy, for `bookguard drill`.
//!
//! [`WAYS`] is one list of values: who could do it, what is done, and what must notice. This module changes the rows and files of
//! a copy; the command line makes the copy and asks verification, packets, mirrors, witnesses and time-stamps what they notice.
//! Invariants: nothing but the files of a [`DrillCopy`] is written; a way that finds nothing to change is an error, so no way passes
//! without having done anything.

mod sign;
mod ways;

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use super::conn::{Arg, Conn, Row, StoreError, args};
use super::sqlite::with_end;
use super::{Database, Store};
use crate::key_file::LedgerKey;
use crate::model::{ApiKeyId, BookingId, EndpointId, PartnerId};
pub use ways::{Mechanism, NAME, WAYS, Way};

/// Who could do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attacker {
    /// Whoever can write the disk of the database, but has no key.
    Disk,
    /// Whoever has the ledger key and copies of the database, but cannot write the service's own disk.
    Key,
    /// Whoever has both, as the operator does.
    DiskAndKey,
    /// Whoever passes on what the service published: a holder of a packet, or a network between the log and its readers.
    Messenger,
}

impl Attacker {
    /// The words for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Key => "key",
            Self::DiskAndKey => "disk and key",
            Self::Messenger => "messenger",
        }
    }

    /// Whether the service's own files stay as they are: it happens elsewhere.
    #[must_use]
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Self::Key | Self::Messenger)
    }
}

/// One thing that an attacker does.
#[derive(Clone, Copy)]
pub enum Tampering {
    /// Changes rows.
    Change(fn(&mut TamperedRows<'_>) -> Result<(), StoreError>),
    /// Signs the log again over the entries as they are now: leaves, tiles, checkpoints and head.
    Sign,
    /// Changes the database's file, whose entry with this leaf may be anywhere in it.
    Bytes(fn(&mut File, &[u8]) -> io::Result<()>),
    /// Puts back a backup.
    PutBack(Backup),
    /// Removes the guard's file.
    NoGuard,
    /// Puts another key in the place of the ledger key.
    OtherKey,
    /// Records one more booking, with a program of the attacker's own. The command line does it.
    Record,
    /// Records one more booking, with a clock that is a year behind.
    RecordInThePast,
    /// Changes the text of a packet. The command line does it.
    Packet(fn(&str) -> String),
}

/// A backup of the copy, made while its data was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backup {
    /// From before the log was stamped.
    BeforeStamp,
    /// From after it was stamped, and before the last entries.
    AfterStamp,
    /// The last moment that anybody outside has seen, with the guard of that moment.
    Last,
}

/// What an attacker tries with the service afterwards, besides a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Records a booking.
    Write,
    /// Uses the first partner's key as the second partner's.
    MovedKey,
    /// Uses a key that only reads to write.
    RaisedKey,
    /// Uses a revoked key.
    RevokedKey,
}

/// What the ways are done to: rows that the drill recorded.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// A partner without endpoints.
    pub partner: PartnerId,
    /// Its booking.
    pub booking: BookingId,
    /// Its key with only the scope to read bookings.
    pub reading_key: ApiKeyId,
    /// Its revoked key.
    pub revoked_key: ApiKeyId,
    /// Another partner, whose events are delivered.
    pub other_partner: PartnerId,
    /// Its booking.
    pub other_booking: BookingId,
    /// Its endpoint.
    pub endpoint: EndpointId,
}

/// A copy to tamper with. Nobody has it open.
pub struct DrillCopy {
    /// The database's file.
    pub db: PathBuf,
    /// The ledger key's file.
    pub key: PathBuf,
    /// The guard's file.
    pub guard: PathBuf,
    /// The folder of the backups, and of the guard of the last.
    pub backups: PathBuf,
    /// What is in it.
    pub scene: Scene,
}

impl Backup {
    /// Its file in the folder of backups.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::BeforeStamp => "before-stamp.db",
            Self::AfterStamp => "after-stamp.db",
            Self::Last => "last.db",
        }
    }

    /// The guard's file beside it.
    pub const GUARD: &str = "last.seen";
}

impl DrillCopy {
    /// Does one step of a way. Blocks. The steps of the command line do nothing here.
    ///
    /// # Errors
    /// A sentence: the step cannot be done, or it changed nothing.
    pub fn take(&self, step: Tampering) -> Result<(), String> {
        let failed = |e: io::Error| format!("a file of the copy cannot be changed: {e}");
        let refused = |e: StoreError| e.to_string();
        match step {
            Tampering::Change(change) => self.rows(change).map_err(refused),
            Tampering::Sign => {
                let key = self.key()?;
                self.rows(|rows| sign::log(rows.conn, &key))
                    .map_err(refused)
            }
            Tampering::Bytes(change) => {
                let mut leaf = Vec::new();
                self.rows(|rows| {
                    leaf = rows.first_leaf()?;
                    Ok(())
                })
                .map_err(refused)?;
                let mut options = File::options();
                let file = options.read(true).write(true).open(&self.db);
                file.and_then(|mut file| change(&mut file, &leaf))
                    .map_err(failed)
            }
            Tampering::PutBack(backup) => {
                // The file too: somebody in this process may still be closing it, and must not find other bytes in it.
                for end in ["-wal", "-shm", ""] {
                    match fs::remove_file(with_end(&self.db, end)) {
                        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
                        _ => {}
                    }
                }
                fs::copy(self.backups.join(backup.file()), &self.db).map_err(failed)?;
                if backup == Backup::Last {
                    fs::copy(self.backups.join(Backup::GUARD), &self.guard).map_err(failed)?;
                }
                Ok(())
            }
            Tampering::NoGuard => fs::remove_file(&self.guard).map_err(failed),
            Tampering::OtherKey => {
                let other = LedgerKey::named(&self.key()?.origin);
                fs::remove_file(&self.key).map_err(failed)?;
                other.save(&self.key).map(drop)
            }
            Tampering::Record | Tampering::RecordInThePast | Tampering::Packet(_) => Ok(()),
        }
    }

    fn key(&self) -> Result<LedgerKey, String> {
        LedgerKey::load(&self.key)?.ok_or_else(|| "the copy has no ledger key".to_owned())
    }

    fn rows(
        &self,
        change: impl FnOnce(&mut TamperedRows<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let store = Store::open(&Database::File(self.db.clone()), false)?;
        let mut conn = store.writer()?;
        conn.begin(&[])?;
        let mut rows = TamperedRows {
            conn: &mut *conn,
            scene: &self.scene,
        };
        change(&mut rows)?;
        conn.commit(&[]).map(drop)
    }
}

/// The rows of a copy, in one transaction.
pub struct TamperedRows<'a> {
    conn: &'a mut dyn Conn,
    scene: &'a Scene,
}

impl TamperedRows<'_> {
    /// Runs a statement that must change a row: it ends with `RETURNING 1`.
    fn change(&mut self, sql: &'static str, args: Vec<Arg<'_>>) -> Result<(), StoreError> {
        match self.conn.all(sql, args)?.is_empty() {
            true => Err(StoreError::Failed(format!("it changed nothing: {sql}"))),
            false => Ok(()),
        }
    }

    /// The only row.
    fn row(&mut self, sql: &'static str, args: Vec<Arg<'_>>) -> Result<Row, StoreError> {
        let row = self.conn.first(sql, args)?;
        row.ok_or_else(|| StoreError::Failed(format!("there is no such row: {sql}")))
    }

    /// The leaf of the booking's first entry.
    fn first_leaf(&mut self) -> Result<Vec<u8>, StoreError> {
        let sql = "SELECT leaf FROM entry WHERE booking_id = $1 AND seq = 0";
        Ok(self.row(sql, args![self.scene.booking])?.blob(0)?.to_vec())
    }
}

/// Flips one bit of the entry with this leaf, where it lies in the file.
fn flip(file: &mut File, leaf: &[u8]) -> io::Result<()> {
    const PART: usize = 1 << 20;
    let mut part = vec![0; PART];
    let mut at = 0;
    loop {
        file.seek(SeekFrom::Start(at))?;
        let mut have = 0;
        while have < PART {
            match file.read(&mut part[have..])? {
                0 => break,
                read => have += read,
            }
        }
        let found = part[..have]
            .windows(leaf.len())
            .position(|some| some == leaf);
        if let Some(found) = found {
            let place = found + leaf.len() / 2;
            file.seek(SeekFrom::Start(at + place as u64))?;
            file.write_all(&[part[place] ^ 1])?;
            return file.sync_data();
        }
        if have < PART {
            return Err(io::Error::other(
                "the entry is not in the file in one piece",
            ));
        }
        // An entry may lie across the end of this part.
        at += (PART - leaf.len()) as u64;
    }
}

/// Cuts off the last pages.
fn cut(file: &mut File, _: &[u8]) -> io::Result<()> {
    let length = file.metadata()?.len();
    file.set_len(length.saturating_sub(8 * 4096))?;
    file.sync_data()
}
