//! Files that are written under another name, and get their own once they are whole: `all.zip.bookguard-part` becomes `all.zip`.
//!
//! If it fails, or sees that it is told to end, it removes what it began; what a killed process left is replaced by the next one. Invariant:
//! nothing is written over that the service cannot do without.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bookguard_core::private;

use super::backup::Ending;
use crate::failure::Failure;
use crate::output::say;

/// How often a draft is opened while other processes take it away. The second time is usual after one that was killed.
const OPENINGS: u32 = 10;

/// A file that is being written. It is removed unless it gets its name.
pub(super) struct Draft {
    file: BufWriter<File>,
    /// The name that it will get, as it was typed.
    named: PathBuf,
    /// Where that leads.
    place: PathBuf,
    path: PathBuf,
    bytes: u64,
}

impl Draft {
    /// Begins a file for its owner alone. `who` is what else would write it, in messages.
    ///
    /// # Errors
    /// [`Failure::Usage`] if another process writes it; those of [`unwritten`].
    pub(super) fn of(named: &Path, who: &str) -> Result<Self, Failure> {
        let fault = |e: io::Error| unwritten(named, &e);
        let place = followed(named);
        let mut path = place.clone().into_os_string();
        // Not `.part` alone, which is how browsers name what they still download.
        path.push(".bookguard-part");
        let path = PathBuf::from(path);
        require_dispensable(&path).map_err(|e| unwritten(&path, &e))?;
        for _ in 0..OPENINGS {
            // It would lead to a file that is another's.
            if path.is_symlink() {
                fs::remove_file(&path).map_err(fault)?;
            }
            let mut options = private::options();
            let file = options.write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(|e| match e.kind() {
                ErrorKind::IsADirectory => Failure::Usage(format!(
                    "{} is a folder, and {} begins under that name; remove it, or name another file",
                    path.display(),
                    named.display()
                )),
                _ => fault(e),
            })?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                break;
            }
            if is_ours(&file, &path).map_err(fault)? {
                return Ok(Self {
                    file: BufWriter::new(file),
                    named: named.to_owned(),
                    place,
                    path,
                    bytes: 0,
                });
            }
        }
        Err(Failure::Usage(format!(
            "another {who} writes {}; wait until it ends, or name another file",
            path.display()
        )))
    }

    /// Writes what comes next.
    ///
    /// # Errors
    /// [`Failure::Unexpected`].
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        let written = self.file.write_all(bytes);
        written.map_err(|e| unwritten(&self.named, &e))
    }

    /// Gives the whole file its name, over whatever is there. Returns its size.
    ///
    /// # Errors
    /// [`Failure::Unexpected`].
    pub(super) fn replace(mut self) -> Result<u64, Failure> {
        self.end()?;
        let named = fs::rename(&self.path, &self.place);
        named.map_err(|e| unwritten(&self.named, &e))?;
        Ok(self.bytes)
    }

    /// Gives the whole file its name, and never that of another file; the name is then on the disk. Returns its size.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is a file of that name, [`Failure::Unexpected`] otherwise.
    pub(super) fn make(mut self) -> Result<u64, Failure> {
        self.end()?;
        private::publish(&self.path, &self.place)
            .and_then(|()| private::sync(private::folder(&self.place)))
            .map_err(|e| match e.kind() {
                ErrorKind::AlreadyExists => exists(&self.named),
                _ => unwritten(&self.named, &e),
            })?;
        Ok(self.bytes)
    }

    /// Puts what was written on the disk.
    fn end(&mut self) -> Result<(), Failure> {
        let flushed = self.file.flush();
        let flushed = flushed.and_then(|()| self.file.get_ref().sync_all());
        flushed.map_err(|e| unwritten(&self.named, &e))?;
        // Somebody may have removed it, and another process begun there.
        match private::is_at(self.file.get_ref(), &self.path) {
            true => Ok(()),
            false => Err(Failure::Unexpected(format!(
                "{} was removed while it was written, so {} was not made; repeat the command",
                self.path.display(),
                self.named.display()
            ))),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It was renamed, or is another process's by now.
        if !private::is_at(self.file.get_ref(), &self.path) {
            return;
        }
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                let path = self.path.display();
                say(&format!(
                    "{path} is left, with personal data: it cannot be removed ({e})"
                ));
            }
            _ => {}
        }
    }
}

/// Does what writes a draft, unless the process is told to end. Work that is dropped removes what it began.
///
/// # Errors
/// Those of the work; [`Failure::Unexpected`] if told to end.
pub(super) async fn unless_told_to_end<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut ending = Ending::new()?;
    tokio::select! {
        done = work => done,
        () = ending.told() => Err(Failure::Unexpected(
            "stopped before the archive was whole; nothing is left of it".to_owned(),
        )),
    }
}

/// Whether this open file, which is locked, may be written: it is empty, and still at `path`. What a killed process left there is
/// removed rather than cut, because it may also be a finished file under another name.
pub(super) fn is_ours(file: &File, path: &Path) -> io::Result<bool> {
    // Another process that ended since it was opened took the file or its name away.
    if !private::is_at(file, path) {
        return Ok(false);
    }
    let is_empty = file.metadata()?.len() == 0;
    if !is_empty {
        fs::remove_file(path)?;
    }
    Ok(is_empty)
}

/// Opens what is there for writing if it is not a regular file, such as a pipe or a device, which must not be replaced.
///
/// # Errors
/// If it is a file that the service cannot do without.
pub(super) fn open_special(path: &Path) -> io::Result<Option<File>> {
    match path.metadata() {
        Ok(found) if !found.is_file() => File::options().write(true).open(path).map(Some),
        _ => require_dispensable(path).map(|()| None),
    }
}

/// # Errors
/// If this is a file, by its first bytes, that the service cannot do without.
fn require_dispensable(path: &Path) -> io::Result<()> {
    const FILES: [(&[u8], &str); 4] = [
        (b"PRIVATE+KEY+", "a ledger key"),
        (b"SQLite format 3\0", "a database"),
        (b"bookguard.seen/", "a guard file"),
        (b"{\"log\":", "a list of erasures"),
    ];
    let mut head = Vec::new();
    if path.is_file() {
        // What cannot be read has no beginning, and counts as another's.
        let _ = File::open(path).and_then(|file| file.take(16).read_to_end(&mut head));
    }
    match FILES.iter().find(|(begins, _)| head.starts_with(begins)) {
        Some((_, what)) => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            format!("it is {what}, which a document must not replace. Name another"),
        )),
        None => Ok(()),
    }
}

/// The file that symbolic links lead to.
fn followed(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The failure for a file that is there already.
pub(super) fn exists(path: &Path) -> Failure {
    Failure::Usage(format!(
        "{} exists already; name another file, or remove it",
        path.display()
    ))
}

/// The failure for a file that cannot be written: a wrong name is a wrong command line, and the rest this machine's fault.
pub(super) fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let kind: fn(String) -> Failure = match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::AlreadyExists => Failure::Usage,
        _ => Failure::Unexpected,
    };
    kind(why_unwritten(path, error))
}

/// Why a file cannot be written, and what to do.
pub(super) fn why_unwritten(path: &Path, error: &io::Error) -> String {
    let other = error.to_string();
    let why = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            "its folder does not exist. Make it, or name another"
        }
        ErrorKind::PermissionDenied => "you may not write to its folder. Name another",
        ErrorKind::IsADirectory => "it is a folder. Name a file in it",
        _ => other.as_str(),
    };
    format!("{} cannot be written: {why}", path.display())
}
