//! The guard's file: two slots of text, written in turn, each with its own digest.
//!
//! A torn write leaves the other slot intact. A killed process loses nothing, because the operating system has the
//! bytes. Several processes may share a file, such as a command line beside a server: a writer holds the file's lock
//! during its write, and has read what the others wrote. Invariant: the slot with the latest turn is never
//! overwritten.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::entropy;
use crate::ledger::Hash;
use crate::ledger::rollback::PublishedHead;
use crate::private;

/// Bytes of a slot: one disk sector, which is written whole or not at all.
const SLOT: usize = 512;
/// Bytes of the file.
pub(super) const FILE: usize = 2 * SLOT;
/// The first word of a slot: format and version.
const FORMAT: &str = "bookguard.seen/1";
/// Stands for a key that is not known.
const NO_KEY: &str = "-";
/// Characters of a slot's digest, which comes last.
const DIGEST: usize = 32;
/// How often to try for the lock, which another process holds for microseconds. A process that was stopped while it
/// held the lock must not stop this one too.
const LOCK_TRIES: u32 = 20;
/// The wait between two tries.
const LOCK_WAIT: Duration = Duration::from_micros(200);

/// The bytes of the file.
pub(super) type GuardBytes = [u8; FILE];

/// The content of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// The number of this write, from 1. After the last number comes 0, so that one more write is always possible.
    pub turn: u64,
    /// The head that was seen.
    pub seen: PublishedHead,
    /// The key of its ledger, which is the same under every name, if the writer knew it.
    pub key: Option<String>,
}

impl Slot {
    fn bytes(&self) -> Vec<u8> {
        let PublishedHead { origin, size, root } = &self.seen;
        let key = self.key.as_deref().unwrap_or(NO_KEY);
        let mut text = format!("{FORMAT} {} {size} {root} {key} {origin} ", self.turn);
        text.push_str(&digest(&text));
        let mut bytes = text.into_bytes();
        // Names have at most 255 bytes and keys 44, so the text fits.
        bytes.resize(SLOT - 1, b' ');
        bytes.push(b'\n');
        bytes
    }

    /// The next write's turn.
    pub fn next_turn(&self) -> u64 {
        self.turn.wrapping_add(1)
    }

    /// Whether this was written after `other`, at most half of all turns ago.
    fn is_after(&self, other: &Self) -> bool {
        self.turn.wrapping_sub(other.turn) <= u64::MAX / 2
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        let (said, found) = text.split_at_checked(text.len().checked_sub(DIGEST)?)?;
        if digest(said) != found {
            return None;
        }
        let mut words = said.strip_suffix(' ')?.splitn(6, ' ');
        if words.next() != Some(FORMAT) {
            return None;
        }
        let (turn, size, root) = (words.next()?, words.next()?, words.next()?);
        let (key, origin) = (words.next()?, words.next()?);
        Some(Self {
            turn: turn.parse().ok()?,
            key: (key != NO_KEY).then(|| key.to_owned()),
            seen: PublishedHead {
                origin: origin.to_owned(),
                size: size.parse().ok()?,
                root: root.parse::<Hash>().ok()?,
            },
        })
    }
}

fn digest(text: &str) -> String {
    let mut hex = hex::encode(Sha256::digest(text));
    hex.truncate(DIGEST);
    hex
}

/// The latest of the two slots and its place; `None` if neither can be read.
pub(super) fn latest(bytes: &GuardBytes) -> Option<(usize, Slot)> {
    let slots = bytes.chunks_exact(SLOT).map(Slot::parse).enumerate();
    let slots = slots.filter_map(|(at, slot)| Some((at, slot?)));
    slots.reduce(|first, second| match second.1.is_after(&first.1) {
        true => second,
        false => first,
    })
}

/// Whether one slot cannot be read, and is not one that was never written.
pub(super) fn is_torn(bytes: &GuardBytes) -> bool {
    let blank = |slot: &[u8]| slot.iter().all(|byte| matches!(byte, 0 | b' '));
    let mut slots = bytes.chunks_exact(SLOT);
    slots.any(|slot| Slot::parse(slot).is_none() && !blank(slot))
}

/// Whether these bytes are another file's, such as a ledger key or a database: they begin with text that no slot begins with.
pub(super) fn is_something_else(bytes: &GuardBytes) -> bool {
    let begin = &bytes[..12];
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    !FORMAT.as_bytes().starts_with(begin) && begin[0] != b' ' && begin.iter().all(is_text)
}

/// Opens the file. A user who may read it need not be allowed to write it.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match options.read(true).write(true).open(path) {
        Err(error) if denied(&error) => File::open(path),
        opened => opened,
    }
}

fn denied(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Creates the file with its first slot, whole or not at all, unless it exists. Then opens it.
pub(super) fn make(path: &Path, first: &Slot) -> io::Result<File> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", hex::encode(entropy::bytes::<6>())));
    let mut bytes = first.bytes();
    bytes.resize(FILE, b' ');
    match private::make(path, Path::new(&draft), &bytes) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(private::folder(path))?.sync_all()?;
    OpenOptions::new().read(true).write(true).open(path)
}

/// Reads the file. Missing bytes at its end read as zeros.
pub(super) fn read(file: &File) -> io::Result<GuardBytes> {
    let mut bytes = [0; FILE];
    let mut at = 0;
    while at < FILE {
        match read_at(file, &mut bytes[at..], at as u64) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Writes `slot` over the slot that is not the latest, both in the file and in `bytes`, which mirrors the file.
/// `latest` is the place of the latest slot. Returns the place of the new one.
pub(super) fn write(
    file: &File,
    latest: Option<usize>,
    slot: &Slot,
    bytes: &mut GuardBytes,
) -> io::Result<usize> {
    let at = usize::from(latest == Some(0));
    let written = slot.bytes();
    write_at(file, &written, (at * SLOT) as u64)?;
    bytes[at * SLOT..(at + 1) * SLOT].copy_from_slice(&written);
    Ok(at)
}

/// Holds the file's lock until it is dropped.
pub(super) struct FileLock<'a>(&'a File);

impl<'a> FileLock<'a> {
    /// Waits for the lock for at most a few milliseconds. Without the lock (the file system has none, or another
    /// process keeps it), a write by another process at the same moment may be lost until that process writes again.
    pub fn take(file: &'a File) -> Option<Self> {
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Some(Self(file)),
                Err(fs::TryLockError::WouldBlock) => thread::sleep(LOCK_WAIT),
                Err(fs::TryLockError::Error(_)) => return None,
            }
        }
        None
    }
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    file.seek(SeekFrom::Start(at))?;
    file.read(bytes)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom, Write as _};
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::leaf_hash;

    fn slot(turn: u64, origin: &str) -> Slot {
        Slot {
            turn,
            seen: PublishedHead {
                origin: origin.to_owned(),
                size: turn / 3,
                root: leaf_hash(&turn.to_be_bytes()),
            },
            key: turn.is_multiple_of(2).then(|| "k".repeat(44)),
        }
    }

    #[test]
    fn a_slot_of_any_log_fits_and_reads_back() {
        for slot in [
            slot(1, "bookguard-0123456789abcdef"),
            slot(u64::MAX - 1, &"n".repeat(255)),
            slot(7, "größe.example/log"),
        ] {
            let bytes = slot.bytes();
            assert_eq!(bytes.len(), SLOT, "{slot:?}");
            assert_eq!(Slot::parse(&bytes), Some(slot));
        }
    }

    #[test]
    fn a_slot_with_any_byte_changed_is_not_read_as_another() {
        let slot = slot(9, "bookguard-0123456789abcdef");
        let text = slot.bytes();
        for at in 0..SLOT {
            for byte in [0, b' ', b'0', b'f', text[at] ^ 1] {
                let mut torn = text.clone();
                torn[at] = byte;
                let read = Slot::parse(&torn);
                assert!(read.is_none() || read.as_ref() == Some(&slot), "byte {at}");
            }
            let mut cut = text.clone();
            cut[at..].fill(0);
            assert_eq!(Slot::parse(&cut), None, "cut at {at}");
        }
        assert_eq!(Slot::parse(&[]), None);
    }

    #[test]
    fn writes_take_turns_so_that_a_torn_one_leaves_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.key.seen");
        let file = make(&path, &slot(1, "log")).unwrap();
        // After the highest number, turns begin anew.
        let mut known = read(&file).unwrap();
        write(&file, Some(0), &slot(u64::MAX - 3, "log"), &mut known).unwrap();
        write(&file, Some(1), &slot(u64::MAX - 2, "log"), &mut known).unwrap();
        for turn in [u64::MAX - 1, u64::MAX, 0, 1, 2, 3] {
            let mut known = read(&file).unwrap();
            let (at, last) = latest(&known).unwrap();
            assert_eq!(last.next_turn(), turn);
            write(&file, Some(at), &slot(turn, "log"), &mut known).unwrap();
            let mut bytes = read(&file).unwrap();
            assert_eq!(bytes, known);
            let (now, newest) = latest(&bytes).unwrap();
            assert_eq!((now, newest), (1 - at, slot(turn, "log")));
            // If the slot just written is torn anywhere, it is invalid and the other slot counts.
            assert!(!is_torn(&bytes));
            bytes[now * SLOT + 40..(now + 1) * SLOT].fill(0);
            assert_eq!(latest(&bytes).unwrap().1, last);
            assert!(is_torn(&bytes));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
