//! Puts a verified backup in the place of a database file, for `bookguard restore`.
//!
//! The backup is copied beside the database, the copy gets the schema of this program, and the copy is checked, so that what
//! was checked is what is used. The old database is first brought into its one file, because SQLite would apply a write-ahead log
//! that stays behind to whatever has the database's name. From then until the names have changed nobody writes it, so what
//! `replaced` learns from it is all that it ever published. Invariants: a process that is killed leaves the old database or the new one, whole.
//! The old one stays under another name. The caller keeps servers away.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::check::{contradictions, unreadable};
use super::replaced::Learned;
use super::{
    BackedUp, BackupCheck, BackupError, Draft, Drafts, cannot_write, draft_of, drafts_of, file_of,
    in_name, refused, remove, replaced, require_room, with_end,
};
use crate::clock::Clock;
use crate::error::Error;
use crate::ledger::rollback::{PublishedHead, Rollback, RollbackCause, longer_note};
use crate::log::Log;
use crate::private;
use crate::store::conn::{Conn, StoreError};
use crate::store::fsck::{Guarded, LedgerReport};
use crate::store::schema::Upgraded;
use crate::store::sqlite::{self, Use};
use crate::store::{Database, Store, losses_noted};

/// What the replaced database is called: its name, this, and the time.
const REPLACED: &str = ".replaced-";
/// Two files are compared by so many bytes at a time.
const COMPARED: usize = 64 * 1024;

/// A backup that is the database now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What it holds.
    pub made: BackedUp,
    /// The result of the check.
    pub report: LedgerReport,
    /// What became of its schema, if it was older than this program's.
    pub upgraded: Option<Upgraded>,
    /// The file of the database that was there before; `None` if there was none.
    pub replaced: Option<PathBuf>,
    /// Why that database did not show what it had published, if it was there and did not.
    pub uncompared: Option<String>,
    /// Where its ledger had been moved when the backup was made: then it takes no writes.
    pub moved_to: Option<String>,
    /// Whether a record in the guard's file could not be read.
    pub is_guard_torn: bool,
}

impl Restored {
    /// What was published and is not in the database any more.
    #[must_use]
    pub fn lost(&self) -> Option<&Rollback> {
        let guard = &self.report.guard;
        guard.behind.as_ref().or(guard.rollback.as_ref())
    }

    /// Whether the guard knows all that the backup holds. One that knows less is not the guard of the database's last moment: it was
    /// put back itself, made anew, or damaged.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        let knows =
            |seen: &PublishedHead| seen.origin == self.made.origin && seen.size >= self.made.size;
        let seen = self.report.guard.seen.as_deref();
        seen.is_some_and(knows) && !self.is_guard_torn
    }
}

/// Replaces the database by the backup `from`, once that is known to be whole.
///
/// # Errors
/// As [`BackupError`] lists. The database is then as it was.
pub fn restore(
    from: &Path,
    database: &Database,
    check: &BackupCheck,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Restored, BackupError> {
    let began = Instant::now();
    let to = &private::resolved(file_of(database)?);
    if from.canonicalize().is_ok_and(|from| from == *to) {
        return Err(refused(
            "same_database",
            format!("{} is the database itself; name a backup", to.display()),
        ));
    }
    // No other process restores it now.
    forget_left(to);
    require_room(from, to, 0)?;
    let (draft, mut made) = draft_of((from, Use::Still), to, Draft::replacing, 0, progress)?;
    let not_verified = |why: String| {
        BackupError::NotVerified(format!(
            "{} was not restored, and {} is as it was: {why}",
            from.display(),
            to.display()
        ))
    };
    let whole = |e: BackupError| match e {
        BackupError::NotVerified(why) => not_verified(why),
        BackupError::Refused(error) => BackupError::Refused(Error {
            message: format!("{}: {}", from.display(), error.message),
            ..error
        }),
        e => e,
    };
    // A backup may be older than this program. The file itself stays as it is.
    let upgraded = sqlite::upgrade_copy(&draft.0).map_err(|e| whole(unreadable(&e)))?;
    if upgraded.is_some() {
        let file = draft.0.metadata().map_err(|e| cannot_write(to, &e))?;
        made.bytes = file.len();
    }
    let report = check.run(&draft.0, progress).map_err(whole)?;
    let mut report = report.map_err(|why| {
        BackupError::Failed(format!(
            "a backup is restored only after it was checked with the ledger key: {why}"
        ))
    })?;
    // That it lacks what was published is why it may have to be restored.
    let wrong = report
        .findings
        .iter()
        .filter(|finding| finding.what != "ledger_rolled_back");
    if let Some(why) = contradictions(wrong, report.more) {
        return Err(not_verified(why));
    }
    let there = match to.symlink_metadata() {
        Ok(_) => Some(taken(to)?),
        Err(_) => None,
    };
    let log = check.log(check.key().map_err(BackupError::Failed)?)?;
    // The turn is held until the names have changed.
    let (turn, shown) = match there {
        Some(Ok(mut conn)) => {
            let backup = Store::still(&draft.0).map_err(|e| whole(unreadable(&e)))?;
            let shown = replaced::remember(&mut *conn, to, &log, &backup)?;
            (Some(conn), shown)
        }
        Some(Err(error)) => (None, error.to_string().into()),
        None => (None, Learned::default()),
    };
    // Whatever becomes of the guard.
    note(&draft, &shown.lacking).map_err(|e| whole(unreadable(&e)))?;
    report.guard = guarded(&log, &draft).map_err(|e| whole(unreadable(&e)))?;
    let mut restored = Restored {
        made,
        report,
        upgraded,
        replaced: None,
        uncompared: shown.uncompared,
        moved_to: sqlite::head_of(&draft.0)
            .map_err(|e| whole(unreadable(&e)))?
            .and_then(|head| head.moved_to),
        is_guard_torn: log.guard().was_torn(),
    };
    // The list of erasures may show that there is a loss. It stands for no guard: it can be lost on its own.
    let is_known = |lost: &Rollback| lost.cause != RollbackCause::GuardLost;
    let is_undecided = !restored.lost().is_some_and(is_known) && !restored.is_guarded();
    let lost = restored.lost();
    if let Some(lost) = lost.filter(|lost| log.guard().is_certain(lost)) {
        note(&draft, std::slice::from_ref(&lost.seen)).map_err(|e| whole(unreadable(&e)))?;
    }
    let undecided = is_undecided.then(|| note_unknown(&draft, &log, &restored.made));
    let undecided = undecided.transpose().map_err(|e| whole(unreadable(&e)))?;
    restored.replaced = put_in_place(&draft, to)?;
    drop(turn);
    if let Some((lacking, noted)) = undecided
        && !guard_asks(&log, &restored.made, to, &lacking)
    {
        restored.report.guard = noted;
    }
    restored.made.elapsed = began.elapsed();
    Ok(restored)
}

/// Removes what killed restores of this database left beside it: copies of backups, with what was erased since, and a second name of
/// the database, or a copy of it, which gives back what it took. The caller keeps restores away.
pub fn forget_killed(database: &Database) {
    if let Some(file) = database.file() {
        forget_left(&private::resolved(file));
    }
}

/// As [`forget_killed`].
fn forget_left(to: &Path) {
    let drafts = drafts_of(to);
    let itself = private::identity(to).filter(|_| private::has_other_names(to));
    let is_itself = |name: &Path| itself.is_some() && private::identity(name) == itself;
    // While the draft is there, it has not replaced the database. So what holds the same bytes and a part of its files is what was put
    // aside. A copy without such files has nothing to give back, and may be an older one.
    let is_copy = |name: &Path| {
        let may_be = !drafts.is_empty() && !sqlite::is_at_rest(name);
        may_be && hold_the_same(name, to).unwrap_or(false)
    };
    let begins = with_end(to, REPLACED);
    let entries = fs::read_dir(private::folder(to));
    let mut is_given_back = true;
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.path();
        let [begins, whole] = [&begins, &name].map(|it| it.as_os_str().as_encoded_bytes());
        if whole.starts_with(begins) && (is_itself(&name) || is_copy(&name)) {
            match give_back(&name, to) {
                // What it did not give back belongs to the database too.
                Ok(()) if sqlite::is_at_rest(&name) => {
                    let _ = fs::remove_file(&name);
                }
                Ok(()) => {}
                Err(_) => is_given_back = false,
            }
        }
    }
    // Last, because they tell that a copy is one: also the next time, if this one failed.
    if is_given_back {
        drafts.iter().for_each(|draft| remove(draft));
    }
}

/// Whether two files hold the same bytes.
fn hold_the_same(one: &Path, other: &Path) -> io::Result<bool> {
    let [len, other_len] = [one, other].map(|file| file.metadata().map(|it| it.len()));
    if len? != other_len? {
        return Ok(false);
    }
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let mut parts = [vec![0; COMPARED], vec![0; COMPARED]];
    loop {
        let [part, other_part] = &mut parts;
        let read = one.read(part)?;
        if read == 0 {
            return Ok(true);
        }
        other.read_exact(&mut other_part[..read])?;
        if part[..read] != other_part[..read] {
            return Ok(false);
        }
    }
}

/// Gives a database the files of SQLite that a restore took from it, which was killed before the backup had its name. Nothing that
/// was written since is replaced.
fn give_back(second: &Path, to: &Path) -> io::Result<()> {
    let holds = |end: &str| with_end(to, end).metadata().is_ok_and(|it| it.len() > 0);
    // The index of a write-ahead log, `-shm`, may have stayed behind; it holds nothing itself.
    let is_written = (sqlite::BESIDE.iter()).any(|end| *end != "-shm" && holds(end));
    if sqlite::is_at_rest(second) || is_written {
        return Ok(());
    }
    rename_beside(second, to).and_then(|()| private::sync(private::folder(to)))
}

/// Notes in the copy what it lacks besides what it says already.
fn note(draft: &Draft, heads: &[PublishedHead]) -> Result<(), StoreError> {
    let stored = sqlite::head_of(&draft.0)?;
    let noted = stored.map_or_else(Vec::new, |stored| stored.lacking);
    match longer_note(&noted, heads) {
        None => Ok(()),
        Some(lacking) => sqlite::change_copy(&draft.0, losses_noted(&lacking)),
    }
}

/// Notes in the copy that nobody knows what was published after it. The guard is not told before the copy is the database: until then
/// it is the old database's. Returns what the copy was noted to lack besides, and what it lacks now.
fn note_unknown(
    draft: &Draft,
    log: &Log,
    made: &BackedUp,
) -> Result<(Vec<PublishedHead>, Guarded), StoreError> {
    let stored = sqlite::head_of(&draft.0)?;
    let lacking = stored.map_or_else(Vec::new, |stored| stored.lacking);
    let mut noted = lacking.clone();
    noted.push(PublishedHead::at_least(&made.origin, made.size));
    sqlite::change_copy(&draft.0, losses_noted(&noted))?;
    Ok((lacking, guarded(log, draft)?))
}

/// Has the guard ask for the decision, and then no longer the new database: whoever removes the guard's file decides that nothing
/// is lost. If either fails, or this process is killed, the database goes on asking. Returns whether only the guard asks.
fn guard_asks(log: &Log, made: &BackedUp, to: &Path, lacking: &[PublishedHead]) -> bool {
    replaced::require_decision(log, &made.origin, made.size).is_ok()
        && sqlite::change_placed(to, losses_noted(lacking)).is_ok()
}

/// A connection to the database that is replaced, beside which nobody writes, or why it cannot be read.
fn taken(to: &Path) -> Result<Result<Box<dyn Conn>, StoreError>, BackupError> {
    match sqlite::settle(to) {
        Err(error @ (StoreError::Busy | StoreError::Foreign | StoreError::Full)) => Err(
            BackupError::Failed(format!("{} was not replaced: {error}", to.display())),
        ),
        // A damaged database is put aside as it lies there.
        Err(_) => Ok(sqlite::look_into(to)),
        settled => Ok(settled),
    }
}

/// What the backup lacks of all that is known now.
fn guarded(log: &Log, draft: &Draft) -> Result<Guarded, StoreError> {
    let lapse = log.compare(&Store::still(&draft.0)?)?;
    let (behind, rollback) = match lapse {
        Some(lapse) if lapse.cause.is_earlier() => (Some(lapse), None),
        other => (None, other),
    };
    Ok(Guarded {
        file: log.guard().path().to_owned(),
        seen: log.guard().seen(),
        rollback,
        behind,
    })
}

/// Gives the draft the database's name, and what had it another. Returns that.
fn put_in_place(draft: &Draft, to: &Path) -> Result<Option<PathBuf>, BackupError> {
    put_in_place_by(draft, to, |to, aside| fs::hard_link(to, aside))
}

fn put_in_place_by(
    draft: &Draft,
    to: &Path,
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<Option<PathBuf>, BackupError> {
    let at = in_name(Clock::System.now());
    let mut aside = with_end(to, &format!("{REPLACED}{at}"));
    // Another one of the same millisecond stays.
    let mut number = 1;
    while aside.symlink_metadata().is_ok() {
        number += 1;
        aside = with_end(to, &format!("{REPLACED}{at}-{number}"));
    }
    let cannot = |e: io::Error| cannot_write(to, &e);
    let mut drafts = Drafts::held().map_err(cannot)?;
    let was_there = to.symlink_metadata().is_ok();
    // Held to the end: whoever closes a file gives up all locks that the process has on it, and one keeps other writers off.
    let mut replaced = None;
    if was_there {
        // Some file systems have no hard links.
        if link(to, &aside).is_err() {
            let from = replaced.insert(File::open(to).map_err(cannot)?);
            // Half a copy must not be mistaken for a database.
            let part = Draft::name(to);
            let copied = copy(from, &part).and_then(|()| fs::rename(&part, &aside));
            if let Err(e) = copied {
                let _ = fs::remove_file(&part);
                return Err(cannot(e));
            }
        }
    }
    let placed = private::sync(private::folder(to))
        .and_then(|()| rename_beside(to, &aside))
        .and_then(|()| fs::rename(&draft.0, to));
    if let Err(error) = placed {
        // Over a network, a rename may be done and be reported to have failed. If the draft is there, it was not: the database has its
        // own name still, and loses the other once that has none of SQLite's files.
        if draft.0.exists() && rename_beside(&aside, to).is_ok() {
            let _ = fs::remove_file(&aside);
        }
        return Err(cannot(error));
    }
    drafts.is_named = true;
    private::sync(private::folder(to)).map_err(cannot)?;
    Ok(was_there.then_some(aside))
}

/// Renames what SQLite keeps beside a database.
fn rename_beside(from: &Path, to: &Path) -> io::Result<()> {
    for end in sqlite::BESIDE {
        match fs::rename(with_end(from, end), with_end(to, end)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Copies a file to a new one that only its owner may use, as it is on disk before this returns.
fn copy(from: &mut File, to: &Path) -> io::Result<()> {
    let mut new = private::options().write(true).create_new(true).open(to)?;
    io::copy(from, &mut new)?;
    new.sync_all()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    type Link = fn(&Path, &Path) -> io::Result<()>;

    /// What happens on a file system without hard links.
    fn without_links(_: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A folder with these files, each with its contents.
    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, held) in files {
            fs::write(folder.path().join(name), held).unwrap();
        }
        folder
    }

    /// The files in a folder with their contents, in the order of their names.
    fn files(folder: &TempDir) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let held = fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), held)
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_backup_that_does_not_fit_on_the_disk_is_refused_before_anything_is_copied() {
        let folder = folder(&[("b.db", "old"), ("backup.db", "")]);
        let backup = folder.path().join("backup.db");
        // A hole, which takes no room itself.
        let file = File::options().write(true).open(&backup).unwrap();
        let free = sqlite::free_bytes(folder.path()).unwrap();
        file.set_len(free + (1 << 40)).unwrap();
        let database = Database::File(folder.path().join("b.db"));
        let check = BackupCheck::new(&database, None, None);
        let why = match restore(&backup, &database, &check, &mut |_, _| {}) {
            Err(BackupError::Failed(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why.contains("the copy takes "), "{why}");
        assert_eq!(
            fs::read_to_string(folder.path().join("b.db")).unwrap(),
            "old"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_lies_beside_the_old_database_goes_with_it_or_stays() {
        let links: [Link; 2] = [|to, aside| fs::hard_link(to, aside), without_links];
        for (is_whole, link) in [true, false]
            .into_iter()
            .flat_map(|it| links.map(|link| (it, link)))
        {
            let folder = folder(&[("b.db", "old"), ("b.db-wal", "log")]);
            let to = folder.path().join("b.db");
            let draft = Draft::new(&to).unwrap();
            fs::write(&draft.0, "new").unwrap();
            if !is_whole {
                // A folder does not replace a file.
                fs::remove_file(&draft.0).unwrap();
                fs::create_dir(&draft.0).unwrap();
            }
            let log = match put_in_place_by(&draft, &to, link) {
                Ok(aside) => with_end(&aside.unwrap(), "-wal"),
                Err(_) => with_end(&to, "-wal"),
            };
            assert_eq!(fs::read_to_string(log).unwrap(), "log");
            let there = fs::read_to_string(&to).unwrap();
            assert_eq!(there, if is_whole { "new" } else { "old" });
            let _ = fs::remove_dir(&draft.0);
            let names = files(&folder).into_iter().map(|(name, _)| name);
            let aside = names.filter(|name| name.contains(REPLACED)).count();
            assert_eq!(aside, if is_whole { 2 } else { 0 });
            let logs = files(&folder).into_iter();
            assert_eq!(logs.filter(|(_, held)| held == "log").count(), 1);
        }
    }

    #[test]
    fn a_restore_that_is_killed_before_the_draft_has_the_name_is_undone() {
        for moved in 0..=2 {
            let folder = folder(&[("b.db", "old"), ("b.db-wal", "log"), ("b.db-shm", "index")]);
            let to = folder.path().join("b.db");
            let before = files(&folder);
            let second = with_end(&to, &format!("{REPLACED}20260302T020000.000Z"));
            fs::hard_link(&to, &second).unwrap();
            for end in &sqlite::BESIDE[..moved] {
                fs::rename(with_end(&to, end), with_end(&second, end)).unwrap();
            }
            forget_left(&to);
            assert_eq!(files(&folder), before, "{moved} moved");
        }
        // Neither of two logs is lost.
        let folder = folder(&[("b.db", "old"), ("b.db-wal", "newer")]);
        let to = folder.path().join("b.db");
        let second = with_end(&to, &format!("{REPLACED}20260302T020000.000Z"));
        fs::hard_link(&to, &second).unwrap();
        fs::write(with_end(&second, "-wal"), "log").unwrap();
        let before = files(&folder);
        forget_left(&to);
        assert_eq!(files(&folder), before);
        // As the refusal says.
        fs::rename(with_end(&second, "-wal"), folder.path().join("kept")).unwrap();
        forget_left(&to);
        let left = files(&folder).into_iter().map(|(name, _)| name);
        assert_eq!(left.collect::<Vec<_>>(), ["b.db", "b.db-wal", "kept"]);
    }

    #[test]
    fn a_restore_that_is_killed_is_undone_also_without_hard_links() {
        let draft = "b.db.0123456789ab.part";
        for moved in 0..=2 {
            let folder = folder(&[("b.db", "old"), ("b.db-wal", "log"), ("b.db-shm", "index")]);
            let at = |name: &str| folder.path().join(name);
            // One of an earlier restore stays.
            fs::write(at("b.db.replaced-20260301T020000.000Z"), "older").unwrap();
            let before = files(&folder);
            let second = at("b.db.replaced-20260302T020000.000Z");
            fs::copy(at("b.db"), &second).unwrap();
            fs::write(at(draft), "new").unwrap();
            for end in &sqlite::BESIDE[..moved] {
                fs::rename(with_end(&at("b.db"), end), with_end(&second, end)).unwrap();
            }
            forget_left(&at("b.db"));
            if moved == 0 {
                // Nothing tells it from the database of an earlier restore.
                fs::remove_file(&second).unwrap();
            }
            assert_eq!(files(&folder), before, "{moved} moved");
        }
        // Nothing is given to a database that is another one, or that was written since: it would not fit.
        let aside = "b.db.replaced-20260302T020000.000Z";
        let log = "b.db.replaced-20260302T020000.000Z-wal";
        for (database, has_draft) in [("old", false), ("now", true), ("older", true)] {
            let folder = folder(&[("b.db", database), (aside, "old"), (log, "log")]);
            let before = files(&folder);
            if has_draft {
                fs::write(folder.path().join(draft), "new").unwrap();
            }
            forget_left(&folder.path().join("b.db"));
            assert_eq!(files(&folder), before, "{database}");
        }
    }

    #[test]
    fn what_cannot_be_given_back_now_is_given_back_later() {
        let draft = "b.db.0123456789ab.part";
        let aside = "b.db.replaced-20260302T020000.000Z";
        let folder = folder(&[
            ("b.db", "old"),
            ("b.db-wal", ""),
            (aside, "old"),
            (draft, "new"),
        ]);
        let [to, aside] = ["b.db", aside].map(|name| folder.path().join(name));
        let log = with_end(&aside, "-wal");
        // A folder does not replace a file.
        fs::create_dir(&log).unwrap();
        forget_left(&to);
        fs::remove_dir(&log).unwrap();
        fs::write(&log, "log").unwrap();
        forget_left(&to);
        let left = [("b.db", "old"), ("b.db-wal", "log")];
        let left = left.map(|(name, held)| (name.to_owned(), held.to_owned()));
        assert_eq!(files(&folder), left);
    }

    #[test]
    fn while_the_draft_may_have_got_the_name_the_old_database_keeps_its_other_one() {
        let folder = folder(&[("b.db", "old"), ("b.db-wal", "log")]);
        let to = folder.path().join("b.db");
        let draft = Draft::new(&to).unwrap();
        fs::remove_file(&draft.0).unwrap();
        assert!(put_in_place(&draft, &to).is_err());
        let aside = files(&folder).into_iter();
        let aside = aside.filter(|(name, _)| name.contains(REPLACED));
        let held: Vec<_> = aside.map(|(_, held)| held).collect();
        assert_eq!(held, ["old", "log"]);
    }
}
