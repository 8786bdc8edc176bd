//! Creates files that only their owner can read, replaces files as a whole, and warns the operator about files that others can read.
//!
//! Databases, backups, guards and keys hold personal data or must not be forged, so they are created for their owner
//! alone, whatever the umask. Existing files keep their permissions, because somebody may have chosen them. SQLite
//! gives a write-ahead log and its index the permissions and the owner of their database; what is made here for a database that is there
//! gets its owner too, so that a command that root runs leaves nothing that the server may not open. Nothing else is given away: not a
//! backup or a new database to whoever owns the folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::iter::successors;
use std::path::{Path, PathBuf};

/// Options that create a file for its owner alone.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens a file with these options, which include writing. If it is not there, it is made, for the owner of the file that it belongs to.
///
/// # Errors
/// Those of the disk.
pub fn open_or_make(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match options.clone().create_new(true).open(path) {
        // Only what certainly was not there is given away.
        Ok(made) => {
            hand_to_base(&made, path);
            Ok(made)
        }
        // Another process was faster, or a link leads to where nothing is: that is not given to whoever made the link.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.create(true).open(path)
        }
        failed => failed,
    }
}

/// Gives a new file the owner of its [`base_of`], if it has one.
fn hand_to_base(new: &File, path: &Path) {
    if let Some(base) = base_of(path) {
        hand_over(new, &base);
    }
}

/// The file that another belongs to, because its name begins with this one's: `b.db` for `b.db.key.erased`.
fn base_of(path: &Path) -> Option<PathBuf> {
    let shorter = |path: &PathBuf| path.extension().map(|_| path.with_extension(""));
    let bases = successors(shorter(&path.to_owned()), shorter).filter(|base| base.is_file());
    // The shortest. A name without an extension may be anything's, such as the program's, so it comes last.
    bases.max_by_key(|base| base.extension().is_some())
}

/// Gives a new file the owner of another one, if that is there. Only root can, and for others the owner is theirs already, or stays.
#[cfg(unix)]
pub(crate) fn hand_over(new: &File, other: &Path) {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let Ok(owner) = other.metadata() else {
        return;
    };
    if new.metadata().is_ok_and(|new| new.uid() != owner.uid()) {
        let _ = fchown(new, Some(owner.uid()), Some(owner.gid()));
    }
}

/// Elsewhere, files have no such owner.
#[cfg(not(unix))]
pub(crate) fn hand_over(_: &File, _: &Path) {}

/// Writes a file as a whole, over whatever was there. Its bytes are then on the disk; its name is only after [`sync`].
///
/// # Errors
/// Those of the disk; what was there is there still.
pub fn place(mut options: OpenOptions, folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut file = options.write(true).create(true).truncate(true).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(name))
}

/// Makes a file with these bytes for its owner alone, and never over another. It is whole or not there; only on a file system without
/// hard links, a process that is killed may leave a part. Its name is on the disk only after [`sync`].
///
/// # Errors
/// `AlreadyExists`, and those of the disk.
pub(crate) fn make(path: &Path, draft: &Path, bytes: &[u8]) -> io::Result<()> {
    make_by(path, draft, bytes, |draft, path| fs::hard_link(draft, path))
}

fn make_by(
    path: &Path,
    draft: &Path,
    bytes: &[u8],
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    write_new(draft, bytes)?;
    // A link rather than a rename, because another process may have made the file at the same moment.
    let linked = link(draft, path);
    let _ = fs::remove_file(draft);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => write_new(path, bytes),
        linked => linked,
    }
}

/// Writes a new file to its end, or leaves none.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = options().write(true).create_new(true).open(path)?;
    hand_to_base(&file, path);
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

/// Gives a finished draft its name, and never that of another file. The draft may keep its own name too. Its new one is on the disk
/// only after [`sync`].
///
/// # Errors
/// `AlreadyExists`, and those of the disk.
pub fn publish(draft: &Path, path: &Path) -> io::Result<()> {
    publish_by(draft, path, |draft, path| fs::hard_link(draft, path))
}

fn publish_by(
    draft: &Path,
    path: &Path,
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    match link(draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            // Some file systems have no hard links.
            match path.symlink_metadata().is_err() {
                true => fs::rename(draft, path),
                false => Err(io::ErrorKind::AlreadyExists.into()),
            }
        }
        linked => linked,
    }
}

/// Puts the names of a folder's files on the disk.
///
/// # Errors
/// Those of the disk.
pub fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What tells a file from every other, whatever its names are: its disk, and its number there.
pub(crate) type FileIdentity = (u64, u64);

#[cfg(unix)]
fn identity_of(metadata: &fs::Metadata) -> Option<FileIdentity> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

/// Elsewhere, nobody can tell.
#[cfg(not(unix))]
fn identity_of(_: &fs::Metadata) -> Option<FileIdentity> {
    None
}

/// Which file is at `path`; `None` if that cannot be looked up.
pub(crate) fn identity(path: &Path) -> Option<FileIdentity> {
    identity_of(&fs::metadata(path).ok()?)
}

/// Whether this open file is the one at `path`. What cannot be looked up counts as in its place.
pub fn is_at(file: &File, path: &Path) -> bool {
    let opened = file.metadata().ok();
    is_still(opened.as_ref().and_then(identity_of), path)
}

/// Whether the file at `path` is the one that was once known so. What cannot be looked up counts as in its place.
pub(crate) fn is_still(known: Option<FileIdentity>, path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(there) => known.is_none_or(|known| identity_of(&there) == Some(known)),
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    }
}

/// Whether a file has more names than one: hard links, not links to its name.
#[cfg(unix)]
pub(crate) fn has_other_names(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).is_ok_and(|file| file.nlink() > 1)
}

/// Elsewhere, nobody can tell.
#[cfg(not(unix))]
pub(crate) fn has_other_names(_: &Path) -> bool {
    false
}

/// Whether two files or folders are on one disk. What cannot be looked up counts as on one.
#[cfg(unix)]
pub(crate) fn share_disk(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let disk = |path: &Path| fs::metadata(path).map(|it| it.dev());
    match (disk(one), disk(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => true,
    }
}

/// Elsewhere, nobody can tell.
#[cfg(not(unix))]
pub(crate) fn share_disk(_: &Path, _: &Path) -> bool {
    true
}

/// Where systemd puts the credentials of services.
const CREDENTIALS: &str = "/run/credentials";

/// Whether a file with these permissions can be read or written by users other than its owner. A service reads its credentials by an
/// access list, whose mask stands in the place of the group's permissions: there, these tell nothing.
pub fn is_open_to_others(file: &Path, mode: u32) -> bool {
    let others = match file.starts_with(CREDENTIALS) {
        true => 0o007,
        false => 0o077,
    };
    mode & others != 0
}

/// The warnings about `files` and their folders, one line each. Files that do not exist are skipped.
pub fn warnings(files: &[PathBuf]) -> Vec<String> {
    let shown = |open: &[(&Path, u32)]| {
        let shown: Vec<String> = open
            .iter()
            .map(|(path, mode)| format!("{} (mode {:04o})", path.display(), mode & 0o7777))
            .collect();
        shown.join(", ")
    };
    let mut warnings = Vec::new();
    let open: Vec<(&Path, u32)> = files
        .iter()
        .filter_map(|file| Some((file.as_path(), mode(file)?)))
        .filter(|(file, mode)| is_open_to_others(file, *mode))
        .collect();
    if !open.is_empty() {
        warnings.push(format!(
            "users other than their owner can read or write files with personal data or keys: {}; fix it with `chmod 600`",
            shown(&open)
        ));
    }
    let mut folders: Vec<&Path> = files.iter().map(|file| folder(file)).collect();
    folders.sort_unstable();
    folders.dedup();
    // In a sticky folder nobody can rename or remove another user's files.
    let open: Vec<(&Path, u32)> = folders
        .into_iter()
        .filter_map(|folder| Some((folder, mode(folder)?)))
        .filter(|(_, mode)| mode & 0o022 != 0 && mode & 0o1000 == 0)
        .collect();
    if !open.is_empty() {
        warnings.push(format!(
            "users other than its owner can replace files in {}; fix it with `chmod go-w`",
            shown(&open)
        ));
    }
    warnings
}

/// The warning about a folder with personal data that others can read.
pub fn readable_folder(folder: &Path) -> Option<String> {
    let mode = mode(folder).filter(|mode| mode & 0o077 != 0)?;
    let folder = folder.display();
    Some(format!(
        "users other than its owner can look into the folder {folder} (mode {:04o}), which holds personal data; fix it with \
         `chmod 700 {folder}`",
        mode & 0o7777
    ))
}

/// The folder a file is in.
pub fn folder(file: &Path) -> &Path {
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// As many links as systems follow.
const LINKS: usize = 40;

/// Where a file is or will be, by whatever links it is named: beside that, SQLite keeps what belongs to a database. What cannot be looked
/// up stays as it was named.
pub fn resolved(file: &Path) -> PathBuf {
    if let Ok(file) = file.canonicalize() {
        return file;
    }
    // SQLite makes the file that links lead to.
    let mut named = file.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = named.read_link() else {
            break;
        };
        named = folder(&named).join(target);
    }
    match (folder(&named).canonicalize(), named.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => named,
    }
}

/// A database's file and what SQLite keeps beside it, and the link that names it if one does: whoever may replace that leads elsewhere.
pub fn files_of_database(named: &Path) -> Vec<PathBuf> {
    let file = resolved(named).into_os_string();
    let beside = ["", "-wal", "-shm"].map(|end| {
        let mut name = file.clone();
        name.push(end);
        PathBuf::from(name)
    });
    let link = named.is_symlink().then(|| named.to_owned());
    link.into_iter().chain(beside).collect()
}

/// The permissions of a file or folder, if the system has such.
#[cfg(unix)]
pub fn mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(path.metadata().ok()?.permissions().mode())
}

/// The permissions of a file or folder, if the system has such.
#[cfg(not(unix))]
pub fn mode(_: &Path) -> Option<u32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_made_whole_and_never_over_another_also_without_hard_links() {
        let without = |_: &Path, _: &Path| Err(io::ErrorKind::Unsupported.into());
        for has_links in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (path, draft) = (folder.path().join("b.key"), folder.path().join("draft"));
            let make = |bytes: &[u8]| match has_links {
                true => super::make(&path, &draft, bytes),
                false => make_by(&path, &draft, bytes, without),
            };
            make(b"first").unwrap();
            let refused = make(b"second").unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"first");
            assert_eq!(mode(&path).unwrap() & 0o777, 0o600);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_draft_gets_its_name_and_never_that_of_another_file_also_without_hard_links() {
        let without = |_: &Path, _: &Path| Err(io::ErrorKind::Unsupported.into());
        for has_links in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (path, draft) = (folder.path().join("b.db"), folder.path().join("draft"));
            let publish = || match has_links {
                true => super::publish(&draft, &path),
                false => publish_by(&draft, &path, without),
            };
            fs::write(&draft, "first").unwrap();
            publish().unwrap();
            let _ = fs::remove_file(&draft);
            fs::write(&draft, "second").unwrap();
            let refused = publish().unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"first");
            assert_eq!(fs::read(&draft).unwrap(), b"second");
        }
    }

    #[test]
    fn what_root_makes_for_a_database_belongs_to_its_owner_and_nothing_else_does() {
        use std::os::unix::fs::{MetadataExt as _, chown};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("b.db"), "").unwrap();
        fs::write(at("b"), "").unwrap();
        if chown(at("b.db"), Some(4711), Some(4712)).is_err() {
            // Only root can.
            return;
        }
        chown(folder.path(), Some(4713), Some(4713)).unwrap();
        let own = fs::metadata(at("b")).unwrap().uid();
        // Whoever may write in the folder hopes to get this from root.
        std::os::unix::fs::symlink(at("roots"), at("b.db.moving")).unwrap();
        for (name, owner) in [
            ("b.db.lock", 4711),
            ("b.db.key.erased", 4711),
            ("b.db.moving", own),
            // Whoever owns the folder need not own what root makes there.
            ("other.db", own),
            // It was there.
            ("b", own),
        ] {
            open_or_make(options().append(true), &at(name)).unwrap();
            let made = fs::metadata(at(name)).unwrap();
            assert_eq!(made.uid(), owner, "{name}");
        }
        super::make(&at("b.db.key"), &at("b.db.key.0123"), b"key").unwrap();
        let key = fs::metadata(at("b.db.key")).unwrap();
        assert_eq!((key.uid(), key.gid()), (4711, 4712));
    }

    #[test]
    fn a_file_belongs_to_the_one_that_its_name_begins_with() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [
            "bookguard",
            "bookguard.db",
            "data",
            "data.key",
            "deep.er.db",
        ] {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir(at("folder")).unwrap();
        for (name, base) in [
            ("bookguard.db.lock", Some("bookguard.db")),
            ("bookguard.db.key.erased", Some("bookguard.db")),
            ("deep.er.db.moving", Some("deep.er.db")),
            ("data.lock", Some("data")),
            ("data.key.seen", Some("data.key")),
            ("folder.lock", None),
            ("new.db", None),
            ("new.db.key", None),
            ("new", None),
            (".hidden", None),
        ] {
            assert_eq!(base_of(&at(name)), base.map(at), "{name}");
        }
    }

    #[test]
    fn a_database_is_where_all_links_lead_and_the_first_one_counts_among_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let at = |name: &str| place.join(name);
        fs::create_dir(at("disk")).unwrap();
        for (link, target) in [("b.db", "c.db"), ("c.db", "disk/d.db"), ("loop", "loop")] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
        }
        for exists in [false, true] {
            if exists {
                fs::write(at("disk/d.db"), "").unwrap();
            }
            assert_eq!(resolved(&at("b.db")), at("disk/d.db"));
            let files = ["b.db", "disk/d.db", "disk/d.db-wal", "disk/d.db-shm"].map(at);
            assert_eq!(files_of_database(&at("b.db")), files);
            assert_eq!(files_of_database(&files[1]), files[1..]);
        }
        assert_eq!(resolved(&at("loop")), at("loop"));
    }

    #[test]
    fn the_group_s_permissions_of_a_credential_tell_nothing() {
        #[rustfmt::skip]
        let cases = [
            ("/run/credentials/bookguard.service/ledger.key", 0o100440, false),
            ("/run/credentials/bookguard.service/ledger.key", 0o100444, true),
            ("/run/credentials.key", 0o100440, true),
            ("/etc/bookguard/ledger.key", 0o100440, true),
            ("/etc/bookguard/ledger.key", 0o100400, false),
        ];
        for (file, mode, is_open) in cases {
            assert_eq!(is_open_to_others(Path::new(file), mode), is_open, "{file}");
        }
    }

    #[test]
    fn what_others_may_touch_is_named_and_nothing_else() {
        for (file_mode, folder_mode, told) in [
            (0o600, 0o700, [false, false]),
            (0o400, 0o755, [false, false]),
            (0o640, 0o755, [true, false]),
            (0o604, 0o700, [true, false]),
            (0o620, 0o700, [true, false]),
            (0o600, 0o775, [false, true]),
            (0o600, 0o1777, [false, false]),
            (0o666, 0o777, [true, true]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("b.db");
            options().create(true).write(true).open(&file).unwrap();
            assert_eq!(mode(&file).unwrap() & 0o777, 0o600);
            fs::set_permissions(&file, Permissions::from_mode(file_mode)).unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(folder_mode)).unwrap();
            let lines = warnings(&[file, folder.path().join("b.db.key")]).join("\n");
            let shown = [
                format!("b.db (mode {file_mode:04o})"),
                format!("replace files in {}", folder.path().display()),
            ];
            let found = shown.map(|part| lines.contains(&part));
            assert_eq!(found, told, "{file_mode:o} {folder_mode:o}: {lines}");
            assert_eq!(lines.is_empty(), told == [false, false]);
            assert!(!lines.contains("b.db.key"), "{lines}");
        }
    }
}
