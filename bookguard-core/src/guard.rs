//! The rollback guard: the last head that was published or seen, kept in a second place beside the database.
//!
//! A database that was put back (an old backup, a standby that lagged) would sign other entries under numbers that were
//! given out already, unless something remembers. [`Guard`] remembers the head in memory and in a small file beside the
//! ledger key. `store::continuity` judges whether a database's head continues it. The file is written after a commit
//! and before its answers leave, and flushed every second. So a killed process loses nothing, and a power cut loses the
//! last second. Whoever removes or replaces the file under a running process is told so, and the file that is there then, or
//! a new one, gets what the process knows. Invariants: the guard never moves backwards. A file that cannot be written is
//! reported once and blocks no write.

mod slots;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ledger::rollback::{PublishedHead, Rollback, RollbackCause};
use crate::private;
use slots::Slot;

/// The default path of the guard's file: beside the key's file; if the key has none, beside the database's file;
/// otherwise in the working folder. How the key is given may have changed since the guard was made, so a guard that is
/// there already is used where it is.
pub fn default_path(key_file: Option<&Path>, db_file: Option<&Path>) -> PathBuf {
    let mut places = places(key_file, db_file);
    let found: Vec<_> = places.iter().map(|place| look(place)).collect();
    places.swap_remove(best_of(&found))
}

/// Where the guard's file belongs, and where else it may be: beside the default key's file, and beside the database, also if
/// another name leads to that.
fn places(key_file: Option<&Path>, db_file: Option<&Path>) -> Vec<PathBuf> {
    let with = |file: &Path, end: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let base = db_file.unwrap_or(Path::new("bookguard"));
    let itself = db_file
        .filter(|file| file.is_symlink())
        .and_then(|file| file.canonicalize().ok());
    let key = with(base, ".key");
    let beside: Vec<_> = itself.iter().map(PathBuf::as_path).chain([base]).collect();
    let mut found: Vec<_> = key_file.iter().map(|key| with(key, ".seen")).collect();
    // Without a database's file, what is in the working folder may be of another log than a key from elsewhere.
    if db_file.is_some() || key_file.is_none_or(|file| file == key) {
        found.extend(beside.iter().map(|file| with(file, ".seen")));
        found.extend(beside.iter().map(|file| with(file, ".key.seen")));
    }
    found
}

/// What a guard's file knows, if it is there: `Some(None)` if it cannot be read.
fn look(path: &Path) -> Option<Option<PublishedHead>> {
    match slots::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        opened => {
            let bytes = opened.and_then(|file| slots::read(&file));
            let latest = bytes.ok().and_then(|bytes| slots::latest(&bytes));
            Some(latest.map(|(_, slot)| slot.seen))
        }
    }
}

/// The place of the guard to use: the first that is there, unless a later one saw more of the same log. The first place
/// if none is there.
fn best_of(found: &[Option<Option<PublishedHead>>]) -> usize {
    let there = (0..found.len()).filter(|at| found[*at].is_some());
    let best = there.reduce(|best, next| match (&found[best], &found[next]) {
        (Some(Some(known)), Some(Some(more)))
            if more.origin == known.origin && more.size > known.size =>
        {
            next
        }
        _ => best,
    });
    best.unwrap_or(0)
}

/// Where a loss is known from: this guard's file, the list of erasures beside it, or a note in the database.
pub(crate) fn known_from(rollback: &Rollback, guard: &Path) -> String {
    let guard = guard.display();
    match rollback.cause {
        RollbackCause::GuardLost => {
            format!(
                "a backup was restored without {guard}, or the list of erasures beside it names a later entry"
            )
        }
        _ if rollback.seen.is_at_least() => match rollback.is_noted {
            true => "according to a note in the database".to_owned(),
            false => format!("according to {guard}"),
        },
        _ if rollback.is_noted => format!(
            "root {} according to a note in the database",
            rollback.seen.root
        ),
        _ => format!("root {} according to {guard}", rollback.seen.root),
    }
}

/// Remembers the head of the log that was last published or seen.
pub struct Guard {
    path: PathBuf,
    was_torn: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Option<Arc<PublishedHead>>,
    /// The head that was known before the file named another log. That log either continues this one, or the file is another
    /// service's.
    displaced: Option<Arc<PublishedHead>>,
    /// The name under which this process last found the database sound.
    sound_as: Option<String>,
    /// The key of this ledger.
    key: Option<String>,
    file: Option<Arc<File>>,
    /// The file's bytes as last read.
    bytes: Option<Box<slots::GuardBytes>>,
    /// The latest slot in the file, and its place.
    written: Option<(usize, Slot)>,
    /// Whether a write has not been flushed yet.
    dirty: bool,
    /// Whether it was reported that the file cannot be written.
    told: bool,
    /// Whether it was reported that the database is rolled back.
    rolled_back: bool,
}

impl Guard {
    /// Opens the guard with this file. The file is created when the first head is noted.
    ///
    /// # Errors
    /// A sentence for the operator if the file exists and cannot be read.
    pub fn open(path: PathBuf) -> Result<Self, String> {
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
                    let named = path.display();
                    if state
                        .bytes
                        .is_some_and(|bytes| slots::is_something_else(&bytes))
                    {
                        return Err(format!(
                            "{named} is not a guard file; name the one that was made with the ledger with --guard-file"
                        ));
                    }
                    // A new file gets its name only once it is written, so an empty one is not about to be filled by
                    // another process.
                    let wrong = if blank { "empty" } else { "damaged" };
                    return Err(format!(
                        "the guard file {named} is {wrong}: what was last published of the ledger cannot be read from it. If there \
                         is a copy of it, run `bookguard ledger verify --guard-file COPY`, then put the copy in its place. Without one, \
                         remove the file: the guard starts again with what the database holds"
                    ));
                }
            }
        }
        let was_torn = state.bytes.as_deref().is_some_and(slots::is_torn);
        if was_torn {
            tracing::warn!(
                "one of the two records in the guard file {} cannot be read, as after a power cut: the last head that was noted may be \
                 missing",
                path.display()
            );
        }
        Ok(Self {
            path,
            was_torn,
            state: Mutex::new(state),
        })
    }

    /// Says with which key its ledger is signed: the end of a verifier key, which is the same under every name.
    pub(crate) fn belongs_to(&self, key: Option<String>) {
        self.state().key = key;
    }

    /// Whether the file may have lacked the last head that was noted, because one of its slots could not be read.
    pub fn was_torn(&self) -> bool {
        self.was_torn
    }

    /// The guard's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The head this process last saw. Read it before the database: a sound database then contains it.
    pub fn seen(&self) -> Option<Arc<PublishedHead>> {
        self.state().seen.clone()
    }

    /// The head that any process sharing the file last saw.
    pub fn latest(&self) -> Option<Arc<PublishedHead>> {
        let mut state = self.state();
        // A file that became unreadable was reported when it could not be written.
        let _ = state.find(&self.path).and_then(|()| state.refresh());
        state.seen.clone()
    }

    /// Notes a head that is about to be shown. If the remembered head is another log's, `checked` is the head of that
    /// log which this one was found to continue. Returns the head that is remembered instead, if another is: somebody else
    /// has published it since this process looked.
    pub fn note(
        &self,
        checked: Option<&PublishedHead>,
        head: PublishedHead,
    ) -> Option<Arc<PublishedHead>> {
        let mut state = self.state();
        let advance = |state: &mut State| state.advance(checked, head.clone());
        if self.keep(&mut state, advance) {
            state.told = false;
        }
        state.confirm(&head.origin);
        state.seen.clone().filter(|seen| **seen != head)
    }

    /// Flushes noted heads to the disk, and sees to it that the file is still there and has them. Blocks for as long as
    /// the disk takes.
    pub fn sync(&self) {
        let file = {
            let mut state = self.state();
            self.keep(&mut state, |_| ());
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

    /// As [`State::keep`]. Reports what it has to say, and returns whether the file has what is known.
    fn keep(&self, state: &mut State, advance: impl Fn(&mut State)) -> bool {
        let kept = state.keep(&self.path, advance);
        if let Err(error) = &kept {
            self.tell(state, error);
        }
        kept.is_ok()
    }

    /// Whether a head was noted that may not be on the disk yet.
    #[cfg(test)]
    fn is_dirty(&self) -> bool {
        self.state().dirty
    }

    /// Whether the database was found to be rolled back.
    pub fn is_rolled_back(&self) -> bool {
        self.state().rolled_back
    }

    /// Whether the loss is certain: this guard is not another service's, and knows what was published.
    pub(crate) fn is_certain(&self, rollback: &Rollback) -> bool {
        let (seen, found) = (&rollback.seen, &rollback.found);
        match rollback.cause {
            RollbackCause::Behind | RollbackCause::Forked => !seen.is_at_least(),
            RollbackCause::OtherLog => {
                let state = self.state();
                let was_sound = state.sound_as.as_ref() == Some(&seen.origin);
                let is_ours = state.key.is_some() && state.key_in_file(seen) == state.key.as_ref();
                !seen.is_at_least() && (was_sound || is_ours)
            }
            // The list of erasures names an entry under this name that is not there.
            RollbackCause::GuardLost => seen.is_at_least() && seen.origin == found.origin,
        }
    }

    /// Reports when the database, which holds the log `origin`, becomes rolled back, when it is whole again, and when that log is
    /// the continuation of the one known before.
    pub fn say(&self, origin: &str, rollback: Option<&Rollback>) {
        let mut state = self.state();
        if rollback.is_none() {
            state.confirm(origin);
        }
        if state.rolled_back == rollback.is_some() {
            return;
        }
        state.rolled_back = rollback.is_some();
        match rollback {
            Some(rollback) => tracing::error!(
                "the ledger is rolled back: {rollback} ({}). Every write is refused. {}",
                known_from(rollback, &self.path),
                rollback.way_out()
            ),
            None => tracing::info!("the ledger is whole again: writes are taken"),
        }
    }

    fn tell(&self, state: &mut State, error: &io::Error) {
        if !std::mem::replace(&mut state.told, true) {
            tracing::error!(
                "the guard file {} cannot be written: {error}. Writes are still taken, but a rolled-back database is noticed \
                 only while this process runs; let this user write the file, or name another with --guard-file",
                self.path.display()
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn say_renamed(before: &PublishedHead, now: &PublishedHead) {
    if before.size > 0 {
        tracing::warn!(
            "the ledger continues as {}: the loss of entries of log {} was accepted, of which this node had seen {}",
            now.origin,
            before.origin,
            before.size
        );
    }
}

impl State {
    /// The key with which the file has this head.
    fn key_in_file(&self, seen: &PublishedHead) -> Option<&String> {
        let slot = self.written.as_ref().map(|(_, slot)| slot);
        slot.filter(|slot| slot.seen == *seen)?.key.as_ref()
    }

    /// What the next write says.
    fn slot(&self, turn: u64, seen: &PublishedHead) -> Slot {
        Slot {
            turn,
            seen: seen.clone(),
            key: self.key.clone(),
        }
    }

    /// Notes that the database was found sound under this name, and lets go of what was known of another log, if it continues that as the
    /// log that the file names.
    fn confirm(&mut self, origin: &str) {
        let Some(seen) = self.seen.as_deref().filter(|seen| seen.origin == origin) else {
            return;
        };
        if self.sound_as.as_deref() != Some(origin) {
            self.sound_as = Some(origin.to_owned());
        }
        if let Some(before) = self.displaced.take()
            && before.origin != seen.origin
        {
            say_renamed(&before, seen);
        }
    }

    /// Takes over a head that another process wrote to the file.
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
            match self.seen.as_deref() {
                // It could not be written to the file.
                Some(seen) if seen.origin == slot.seen.origin && seen.size >= slot.seen.size => {}
                // A log without entries continues none.
                Some(seen) if seen.origin != slot.seen.origin && slot.seen.size == 0 => {}
                _ => {
                    let found = Arc::new(slot.seen.clone());
                    let before = self.displaced.take().or_else(|| self.seen.take());
                    (self.seen, self.displaced) = match before {
                        Some(before) if before.origin == found.origin => {
                            let is_beyond = before.size >= found.size;
                            (Some(if is_beyond { before } else { found }), None)
                        }
                        before => (Some(found), before),
                    };
                }
            }
        }
        Ok(())
    }

    /// Opens the file if it is there. Lets go of one that is no longer at its path: nobody else reads what that gets.
    fn find(&mut self, path: &Path) -> io::Result<()> {
        if self
            .file
            .take_if(|file| !private::is_at(file, path))
            .is_some()
        {
            (self.bytes, self.written) = (None, None);
            if let Some(before) = self.displaced.take() {
                self.seen = Some(before);
            }
            tracing::warn!(
                "the guard file {} was removed or replaced while this process used it. The file that is there now, or a new \
                 one, gets what this process knows, unless it is another log's; only put a guard file back while no server uses it",
                path.display()
            );
        }
        if self.file.is_none() {
            match slots::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => self.file = Some(Arc::new(opened?)),
            }
        }
        Ok(())
    }

    /// Takes over what the file knows, moves on from there, and writes to the file what is known then. Makes the file if
    /// there is none.
    fn keep(&mut self, path: &Path, advance: impl Fn(&mut Self)) -> io::Result<()> {
        let found = self.find(path);
        if self.file.is_none() {
            advance(self);
            found?;
            let Some(seen) = &self.seen else {
                return Ok(());
            };
            // If another process makes it at the same moment, this is that one's file, with what that one knows.
            self.file = Some(Arc::new(slots::make(path, &self.slot(1, seen))?));
        }
        let file = self.file.clone();
        let _held = file.as_deref().and_then(slots::FileLock::take);
        let read = self.refresh();
        advance(self);
        read?;
        self.write(path)
    }

    /// Moves to `head`, unless that is behind the known head or belongs to a log that does not continue the known one.
    fn advance(&mut self, checked: Option<&PublishedHead>, head: PublishedHead) {
        let forward = match self.seen.as_deref() {
            None => true,
            // That more may have been published than is known outweighs what is known.
            Some(seen) if seen.origin == head.origin && head.is_at_least() => {
                head.size >= seen.size
            }
            Some(seen) if seen.origin == head.origin => head.size > seen.size,
            Some(seen) => checked.is_some_and(|checked| checked.origin == seen.origin),
        };
        if forward
            && let Some(before) = self.seen.replace(Arc::new(head.clone()))
            && before.origin != head.origin
        {
            say_renamed(&before, &head);
        }
    }

    /// Writes the known head, unless the file holds it already.
    fn write(&mut self, path: &Path) -> io::Result<()> {
        let (Some(file), Some(seen)) = (&self.file, &self.seen) else {
            return Ok(());
        };
        let written = self.written.as_ref();
        if written.is_some_and(|(_, slot)| slot.seen == **seen) {
            return Ok(());
        }
        let slot = self.slot(written.map_or(1, |(_, slot)| slot.next_turn()), seen);
        let bytes = self.bytes.get_or_insert_with(|| Box::new([0; slots::FILE]));
        let at = slots::write(file, written.map(|(at, _)| *at), &slot, bytes).map_err(|error| {
            // If the file is open only for reading, the write's error does not say why. Opening it for writing does.
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
