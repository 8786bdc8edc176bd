//! The list of erasures, kept in a second place beside the ledger key.
//!
//! A database that was put back from a backup holds again what was erased since. The list names it: bookings, entries by their hashes and
//! names of values, never a value nor a request's reference. `features::erasures::settle` erases it again before anything is served. The writer adds lines from
//! the ledger, after the commit and before the answer leaves; what it could not add, and what other nodes erased, is added with the next ones.
//! The list shows a loss too: a database without an entry that it names was put back, even if the guard is gone.
//! Invariants: a line is whole and flushed, or it is not there; a database that has the erasure of the last line has those of all lines, or
//! has repeated them.

use std::fs::{File, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::evidence::Erasure;
use crate::model::PartnerId;
use crate::private;

/// The bytes at the list's end in which its last line is looked for. The longest line has some hundred kilobytes.
const LAST_LINE: u64 = 4 * 1024 * 1024;

/// How often the file's lock is tried, and the pause before the next try. Whoever holds it reads some entries and flushes some lines.
const LOCK_TRIES: u32 = 1_000;
const LOCK_WAIT: Duration = Duration::from_millis(2);

/// An erasure as the list names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListedErasure {
    /// The log's name when this was listed. A loss that was accepted later gave it another.
    pub log: String,
    /// The booking's owner.
    pub partner_id: PartnerId,
    /// The place in the log of the entry that records it.
    pub index: u64,
    /// That entry's leaf hash, hex.
    pub leaf: String,
    /// What was erased, and why.
    pub erasure: Erasure,
    /// The leaf hashes of the entries that had something erased, hex, in the order of the erasure's values.
    pub leaves: Vec<String>,
}

/// The list's file.
pub struct ErasureList {
    path: PathBuf,
    /// Open once something was added.
    file: Mutex<Option<File>>,
    is_owed: AtomicBool,
}

impl ErasureList {
    /// The list beside the guard's file: what ends in `.seen` there ends in `.erased` here. It is made with its first line.
    pub fn beside(guard: &Path) -> Self {
        let name = guard.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".seen").unwrap_or(&name);
        Self {
            path: guard.with_file_name(format!("{name}.erased")),
            file: Mutex::new(None),
            is_owed: AtomicBool::new(false),
        }
    }

    /// The list's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last line.
    ///
    /// # Errors
    /// A sentence for the operator: the file cannot be read.
    pub fn last(&self) -> Result<Option<ListedErasure>, String> {
        let Some(mut file) = self.open()? else {
            return Ok(None);
        };
        let (_, end) = end(&mut file).map_err(|e| self.unreadable(&e))?;
        let whole = end.iter().rposition(|byte| *byte == b'\n');
        let Some(whole) = whole.map(|at| &end[..at]) else {
            return Ok(None);
        };
        let begin = whole
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        self.line(&whole[begin..], "its last line").map(Some)
    }

    /// Every line, oldest first, until `take` refuses one.
    ///
    /// # Errors
    /// A sentence for the operator if the file cannot be read, and what `take` returns.
    pub fn each<E: From<String>>(
        &self,
        mut take: impl FnMut(ListedErasure) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(file) = self.open()? else {
            return Ok(());
        };
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let read = lines.read_until(b'\n', &mut line);
            read.map_err(|e| self.unreadable(&e))?;
            // A line without its line feed was not written completely.
            let Some(whole) = line.strip_suffix(b"\n") else {
                return Ok(());
            };
            take(self.line(whole, &format!("line {number}"))?)?;
        }
        Ok(())
    }

    /// Requires that every line can be read.
    ///
    /// # Errors
    /// As for [`Self::each`].
    pub fn check(&self) -> Result<(), String> {
        self.each(|_| Ok(()))
    }

    /// Adds lines, and flushes them.
    ///
    /// # Errors
    /// A sentence for the operator: the file cannot be written.
    pub fn add(&self, erasures: &[ListedErasure]) -> Result<(), String> {
        if erasures.is_empty() {
            return Ok(());
        }
        let mut file = self.file();
        let _held = self.hold(&mut file, true)?;
        self.write(&mut file, erasures)
    }

    /// Adds the lines that `more` finds after the last one, and flushes them. One thread of one process does it at a time, so no line comes
    /// twice, or after a later one. Returns whether there were any.
    ///
    /// # Errors
    /// A sentence for the operator: the file cannot be read or written; and what `more` returns.
    pub fn extend<E: From<String>>(
        &self,
        more: impl FnOnce(Option<ListedErasure>) -> Result<Vec<ListedErasure>, E>,
    ) -> Result<bool, E> {
        let mut file = self.file();
        let mut held = self.hold(&mut file, false)?;
        let last = self.last()?;
        let found = more(last.clone())?;
        if found.is_empty() {
            return Ok(false);
        }
        if held.is_none() {
            held = self.hold(&mut file, true)?;
            if self.last()? != last {
                // Another process made it at the same moment: what it lacks, the next call finds.
                return Ok(true);
            }
        }
        self.write(&mut file, &found)?;
        drop(held);
        Ok(true)
    }

    /// Says whether the database lacks erasures of the list.
    pub fn owe(&self, is_owed: bool) {
        self.is_owed.store(is_owed, Ordering::SeqCst);
    }

    /// Whether the database lacks erasures of the list. Until all are repeated, nothing is added: a database that has the last line is
    /// taken to have every line.
    pub fn is_owed(&self) -> bool {
        self.is_owed.load(Ordering::SeqCst)
    }

    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file and locks it, because other processes add lines too. With `must`, it is made if it is not there, and it is an error
    /// if it cannot be opened; whoever has nothing to add does without.
    fn hold(&self, file: &mut Option<File>, must: bool) -> Result<Option<ListLock>, String> {
        // Nobody reads a file that was removed or replaced; `extend` adds to the new one what it lacks.
        file.take_if(|file| !private::is_at(file, &self.path));
        if file.is_none() && (must || self.path.exists()) {
            match self.opened() {
                Ok(opened) => *file = Some(opened),
                Err(error) if must => return Err(self.unwritten(&error)),
                Err(_) => {}
            }
        }
        let Some(file) = file else {
            return Ok(None);
        };
        let lock = file.try_clone().map_err(|e| self.unwritten(&e))?;
        for _ in 0..LOCK_TRIES {
            match lock.try_lock() {
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_WAIT),
                // Or the file system has no locks.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(Some(ListLock(lock))),
            }
        }
        Err(self.unwritten(&io::Error::other("another process keeps it locked")))
    }

    fn write(&self, file: &mut Option<File>, erasures: &[ListedErasure]) -> Result<(), String> {
        let mut write = || -> io::Result<()> {
            let file = match &mut *file {
                Some(file) => file,
                none => none.insert(self.opened()?),
            };
            // Another process may have left the beginning of a line since, because its disk was full or it was killed.
            cut(file)?;
            let mut text = Vec::new();
            for erasure in erasures {
                let mut erasure = erasure.clone();
                // It can be erased itself, and nothing takes it from here.
                erasure.erasure.request_ref = None;
                serde_json::to_writer(&mut text, &erasure)?;
                text.push(b'\n');
            }
            let written = file.write_all(&text).and_then(|()| file.sync_data());
            if written.is_err() {
                // If this fails too, the next one does it.
                let _ = cut(file);
            }
            written
        };
        let outcome = write();
        if outcome.is_err() {
            *file = None;
        }
        outcome.map_err(|e| self.unwritten(&e))
    }

    /// Opens the file to add to it.
    fn opened(&self) -> io::Result<File> {
        let file = private::open_or_make(private::options().read(true).append(true), &self.path)?;
        private::sync(private::folder(&self.path))?;
        Ok(file)
    }

    fn open(&self) -> Result<Option<File>, String> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    fn line(&self, line: &[u8], which: &str) -> Result<ListedErasure, String> {
        serde_json::from_slice(line).map_err(|e| {
            format!(
                "the list of erasures {} is damaged in {which}: {e}. Put a copy of it in its place; without one, remove that line: what \
                 it names stays in a database that is restored",
                self.path.display()
            )
        })
    }

    fn unwritten(&self, error: &io::Error) -> String {
        format!(
            "the list of erasures {} cannot be written: {error}. The values are erased, but a backup that is restored would hold them \
             again; let this user write the file",
            self.path.display()
        )
    }

    fn unreadable(&self, error: &io::Error) -> String {
        format!(
            "the list of erasures {} cannot be read: {error}; let this user read and write it",
            self.path.display()
        )
    }
}

/// The lock of the list's file, until it is dropped.
struct ListLock(File);

impl Drop for ListLock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Cuts off the beginning of a line that was not written to its end. Whole lines stay, whoever wrote them.
fn cut(file: &mut File) -> io::Result<()> {
    let size = file.metadata()?.len();
    let Some(last) = size.checked_sub(1) else {
        return Ok(());
    };
    let mut byte = [0];
    file.seek(SeekFrom::Start(last))?;
    if file.read(&mut byte)? == 1 && byte == *b"\n" {
        return Ok(());
    }
    let (begin, end) = end(file)?;
    let whole = end.iter().rposition(|byte| *byte == b'\n');
    let whole = whole.map_or(0, |at| at + 1);
    if whole < end.len() {
        file.set_len(begin + whole as u64)?;
    }
    Ok(())
}

/// The end of a list, in which its last line is, and where it begins.
fn end(file: &mut File) -> io::Result<(u64, Vec<u8>)> {
    let size = file.metadata()?.len();
    let begin = file.seek(SeekFrom::Start(size.saturating_sub(LAST_LINE)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    match begin > 0 && !end.contains(&b'\n') {
        true => Err(io::Error::other(
            "its last line is too long to be a line of this list",
        )),
        false => Ok((begin, end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Erasable, ErasedValues, LegalBasis};
    use crate::model::{BookingId, Timestamp};

    fn listed(index: u64) -> ListedErasure {
        ListedErasure {
            log: "log.example".to_owned(),
            partner_id: PartnerId::from_bytes([1; 16]),
            index,
            leaf: "00".repeat(32),
            erasure: Erasure {
                booking_id: BookingId::from_bytes([2; 16]),
                erased_at: Timestamp::EPOCH,
                legal_basis: LegalBasis::Objection,
                request_ref: Some("a\nb".to_owned()),
                values: vec![ErasedValues {
                    entry: 0,
                    names: vec![Erasable::Organizer],
                }],
            },
            leaves: vec!["11".repeat(32)],
        }
    }

    /// What the list keeps of it.
    fn kept(index: u64) -> ListedErasure {
        let mut kept = listed(index);
        kept.erasure.request_ref = None;
        kept
    }

    fn all(list: &ErasureList) -> Result<Vec<u64>, String> {
        let mut found = Vec::new();
        list.each::<String>(|one| {
            found.push(one.index);
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn what_was_added_is_found_again_whatever_a_killed_process_left() {
        let folder = tempfile::tempdir().unwrap();
        let guard = folder.path().join("b.key.seen");
        let list = ErasureList::beside(&guard);
        assert_eq!(list.path(), folder.path().join("b.key.erased"));
        assert_eq!((list.last(), all(&list)), (Ok(None), Ok(vec![])));
        list.add(&[listed(3), listed(5)]).unwrap();
        list.add(&[listed(8)]).unwrap();
        let whole = std::fs::read(list.path()).unwrap();
        // Killed in the middle of a line.
        for cut in [1, 40, whole.len() / 3 - 1] {
            let mut torn = whole.clone();
            torn.extend(&whole[..cut]);
            std::fs::write(list.path(), torn).unwrap();
            let list = ErasureList::beside(&guard);
            assert_eq!(list.last(), Ok(Some(kept(8))), "{cut}");
            assert_eq!(all(&list), Ok(vec![3, 5, 8]), "{cut}");
            list.add(&[listed(9)]).unwrap();
            assert_eq!(all(&list), Ok(vec![3, 5, 8, 9]), "{cut}");
        }
        // Left by another process in a file that this one holds open.
        let (list, other) = (ErasureList::beside(&guard), ErasureList::beside(&guard));
        std::fs::write(list.path(), &whole).unwrap();
        list.add(&[listed(9)]).unwrap();
        other.add(&[listed(10)]).unwrap();
        for (adds, index) in [(&list, 11), (&other, 12)] {
            let mut file = File::options().append(true).open(list.path()).unwrap();
            file.write_all(&whole[..40]).unwrap();
            adds.add(&[listed(index)]).unwrap();
        }
        assert_eq!(all(&list), Ok(vec![3, 5, 8, 9, 10, 11, 12]));
        std::fs::write(list.path(), &whole).unwrap();
        // Taken away under the process, or replaced.
        #[cfg(unix)]
        {
            let list = ErasureList::beside(&guard);
            list.add(&[listed(9)]).unwrap();
            std::fs::remove_file(list.path()).unwrap();
            list.add(&[listed(3)]).unwrap();
            assert_eq!(all(&list), Ok(vec![3]));
            let other = folder.path().join("other");
            std::fs::write(&other, &whole).unwrap();
            std::fs::rename(&other, list.path()).unwrap();
            list.add(&[listed(9)]).unwrap();
            assert_eq!(all(&list), Ok(vec![3, 5, 8, 9]));
        }
        // The end alone is read.
        let long: Vec<u8> = whole.repeat(usize::try_from(LAST_LINE).unwrap() / whole.len() + 1);
        for torn in ["", "{"] {
            std::fs::write(list.path(), [&long, torn.as_bytes()].concat()).unwrap();
            let list = ErasureList::beside(&guard);
            assert_eq!(list.last(), Ok(Some(kept(8))), "{torn}");
            list.add(&[listed(9)]).unwrap();
            assert_eq!(list.last(), Ok(Some(kept(9))), "{torn}");
            let size = std::fs::metadata(list.path()).unwrap().len();
            assert_eq!(size as usize, long.len() + whole.len() / 3, "{torn}");
        }
        let endless = "x".repeat(usize::try_from(LAST_LINE).unwrap() + 1);
        std::fs::write(list.path(), &endless).unwrap();
        let list = ErasureList::beside(&guard);
        assert!(list.last().unwrap_err().contains("too long"));
        assert!(list.add(&[listed(9)]).unwrap_err().contains("too long"));
        std::fs::write(list.path(), "no erasure\n").unwrap();
        assert!(list.last().unwrap_err().contains("is damaged"));
        assert!(all(&list).unwrap_err().contains("is damaged"));
    }

    #[test]
    fn another_process_adds_nothing_until_what_it_would_follow_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let guard = folder.path().join("b.key.seen");
        let (list, other) = (ErasureList::beside(&guard), ErasureList::beside(&guard));
        list.add(&[listed(3)]).unwrap();
        let begun = std::sync::Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                let slowly = |_| {
                    begun.wait();
                    thread::sleep(Duration::from_millis(50));
                    Ok(vec![listed(5), listed(8)])
                };
                assert_eq!(list.extend::<String>(slowly), Ok(true));
            });
            begun.wait();
            let follows = |last: Option<ListedErasure>| {
                assert_eq!(last, Some(kept(8)));
                Ok(vec![listed(9)])
            };
            assert_eq!(other.extend::<String>(follows), Ok(true));
        });
        assert_eq!(all(&list), Ok(vec![3, 5, 8, 9]));
    }
}
