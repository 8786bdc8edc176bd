//! The rollback guard: the last head that was published or seen, kept in a second place beside the database.
//!
//! A database that was put back (an old backup, a standby that lagged) signs other entries under numbers that were
//! given out already, unless somebody remembers. [`Guard`] remembers, in memory and in a small file beside the ledger
//! key; that a database has a head this one is part of is judged by `store::continuity`. The file is written after a commit
//! and before its answers leave, and flushed every second: a killed process loses nothing, a power cut the last second.
//! Invariants: the guard never moves backwards; a file that cannot be written is reported once and blocks no write.

mod slots;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ledger::rollback::{PublishedHead, Rollback};
use slots::Slot;

/// The guard's file when nothing else is said: beside the key's file, or for a key that has none beside the database's
/// file, else in the folder the program works in.
pub fn default_path(key_file: Option<&Path>, db_file: Option<&Path>) -> PathBuf {
    let Some(file) = key_file.or(db_file) else {
        return PathBuf::from("bookguard.seen");
    };
    let mut name = file.as_os_str().to_owned();
    name.push(".seen");
    PathBuf::from(name)
}

/// What was last published or seen of the log.
pub struct Guard {
    path: PathBuf,
    report: fn(&str),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Option<Arc<PublishedHead>>,
    file: Option<Arc<File>>,
    /// The file as it was last read.
    bytes: Option<Box<slots::GuardBytes>>,
    /// Its latest slot, and where that stands.
    written: Option<(usize, Slot)>,
    /// Whether there is something to flush.
    dirty: bool,
    /// Whether it was said that the file cannot be written.
    told: bool,
    /// Whether it was said that the database is rolled back.
    rolled_back: bool,
}

impl Guard {
    /// The guard whose file this is; it is made when a head is noted. `report` is told, a line each time, when the
    /// database begins or ends to be rolled back, and once when the file cannot be written.
    ///
    /// # Errors
    /// A sentence for the operator when the file is there and cannot be read.
    pub fn open(path: PathBuf, report: fn(&str)) -> Result<Self, String> {
        let mut state = State::default();
        let unreadable = |e: io::Error| {
            format!(
                "the guard file {} cannot be read: {e}; let this user read and write it, or name another with --guard-file",
                path.display()
            )
        };
        match slots::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => {
                let file = opened.map_err(unreadable)?;
                let blank = file.metadata().map_err(unreadable)?.len() == 0;
                state.file = Some(Arc::new(file));
                state.refresh().map_err(unreadable)?;
                if state.written.is_none() {
                    // It gets its name only when it is written, so nobody was about to fill one that has nothing in it.
                    let wrong = if blank { "empty" } else { "damaged" };
                    return Err(format!(
                        "the guard file {} is {wrong}: what was last published of the ledger cannot be read from it. Check the \
                         database with `bookguard ledger verify --guard-file OTHER`, then remove the file: the guard starts \
                         again with what the database holds",
                        path.display()
                    ));
                }
            }
        }
        Ok(Self {
            path,
            report,
            state: Mutex::new(state),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What this process last saw. To be asked before the database is: whatever was seen then is in it, if all is well.
    pub fn seen(&self) -> Option<Arc<PublishedHead>> {
        self.state().seen.clone()
    }

    /// What any process that shares the file last saw.
    pub fn latest(&self) -> Option<Arc<PublishedHead>> {
        let mut state = self.state();
        if state.file.is_none() {
            state.file = slots::open(&self.path).ok().map(Arc::new);
        }
        let before = state.seen.clone();
        // What cannot be read any more was reported when it could not be written.
        let _ = state.refresh();
        self.say_renamed(before.as_deref(), &state);
        state.seen.clone()
    }

    /// Notes a head that is about to be shown. It was found to go on from `checked`, where that was another log's.
    pub fn note(&self, checked: Option<&PublishedHead>, head: PublishedHead) {
        let mut state = self.state();
        let before = state.seen.clone();
        match state.note(&self.path, checked, head) {
            Ok(()) => state.told = false,
            Err(error) => self.tell(&mut state, &error),
        }
        self.say_renamed(before.as_deref(), &state);
    }

    /// Flushes what was noted to the disk. Blocks for as long as the disk takes.
    pub fn sync(&self) {
        let file = {
            let mut state = self.state();
            if !std::mem::take(&mut state.dirty) {
                return;
            }
            state.file.clone()
        };
        if let Some(Err(error)) = file.map(|file| file.sync_data()) {
            let mut state = self.state();
            state.dirty = true;
            self.tell(&mut state, &error);
        }
    }

    /// Whether something was noted that the disk may not have.
    #[cfg(test)]
    fn is_dirty(&self) -> bool {
        self.state().dirty
    }

    /// Says on the report when the database begins to be rolled back, and when it is whole again.
    pub fn say(&self, rollback: Option<&Rollback>) {
        let mut state = self.state();
        if state.rolled_back == rollback.is_some() {
            return;
        }
        state.rolled_back = rollback.is_some();
        match rollback {
            Some(rollback) => (self.report)(&format!(
                "the ledger is rolled back: {rollback} (root {} according to {}). Reads go on, every write is refused. Bring back \
                 the database that holds them; or accept the loss and continue as a new log with `bookguard ledger \
                 accept-rollback`",
                rollback.seen.root,
                self.path.display()
            )),
            None => (self.report)("the ledger is whole again: writes are taken"),
        }
    }

    fn say_renamed(&self, before: Option<&PublishedHead>, state: &State) {
        if let (Some(before), Some(now)) = (before, state.seen.as_deref())
            && before.origin != now.origin
        {
            (self.report)(&format!(
                "the ledger continues as {}: the loss of entries of log {} was accepted",
                now.origin, before.origin
            ));
        }
    }

    fn tell(&self, state: &mut State, error: &io::Error) {
        if !std::mem::replace(&mut state.told, true) {
            (self.report)(&format!(
                "the guard file {} cannot be written: {error}. Writes are still taken, but a rolled-back database is noticed \
                 only while this process runs; let this user write the file, or name another with --guard-file",
                self.path.display()
            ));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes over what another process wrote to the file.
    fn refresh(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let bytes = slots::read(file)?;
        if self.bytes.as_deref() == Some(&bytes) {
            return Ok(());
        }
        self.written = slots::latest(&bytes);
        self.bytes = Some(Box::new(bytes));
        if let Some((_, slot)) = &self.written {
            let known = self.seen.as_deref();
            // What is known beyond the file is what could not be written to it.
            let beyond = known
                .is_some_and(|seen| seen.origin == slot.seen.origin && seen.size >= slot.seen.size);
            if !beyond {
                self.seen = Some(Arc::new(slot.seen.clone()));
            }
        }
        Ok(())
    }

    fn note(
        &mut self,
        path: &Path,
        checked: Option<&PublishedHead>,
        head: PublishedHead,
    ) -> io::Result<()> {
        if self.file.is_none() {
            let opened = match slots::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => slots::make(path, &head),
                opened => opened,
            };
            match opened {
                Ok(file) => self.file = Some(Arc::new(file)),
                Err(error) => {
                    self.advance(checked, head);
                    return Err(error);
                }
            }
        }
        let file = self.file.clone();
        let _held = file.as_deref().and_then(slots::FileLock::take);
        let read = self.refresh();
        self.advance(checked, head);
        read?;
        self.write(path)
    }

    /// Moves to `head`, unless that is behind what is known or of a log that what is known does not lead to.
    fn advance(&mut self, checked: Option<&PublishedHead>, head: PublishedHead) {
        let forward = match self.seen.as_deref() {
            None => true,
            Some(seen) if seen.origin == head.origin => head.size > seen.size,
            Some(seen) => checked.is_some_and(|checked| checked.origin == seen.origin),
        };
        if forward {
            self.seen = Some(Arc::new(head));
        }
    }

    /// Writes what is known, unless that is what the file says.
    fn write(&mut self, path: &Path) -> io::Result<()> {
        let (Some(file), Some(seen)) = (&self.file, &self.seen) else {
            return Ok(());
        };
        let written = self.written.as_ref();
        if written.is_some_and(|(_, slot)| slot.seen == **seen) {
            return Ok(());
        }
        let slot = Slot {
            turn: written.map_or(1, |(_, slot)| slot.turn + 1),
            seen: PublishedHead::clone(seen),
        };
        let bytes = self.bytes.get_or_insert_with(|| Box::new([0; slots::FILE]));
        let at = slots::write(file, written.map(|(at, _)| *at), &slot, bytes).map_err(|error| {
            // A file that was opened for reading only says something else than why.
            let reopened = File::options().write(true).open(path);
            reopened.err().unwrap_or(error)
        })?;
        self.written = Some((at, slot));
        self.dirty = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
