//! `ledger mirror` and `ledger monitor`: follow a public log, and refuse to follow one that contradicts itself.
//!
//! Core checks every byte (`ledger::walk`) and every map (`map_audit`); this file fetches, writes and waits. A mirror keeps all tiles
//! in the layout in which they are served; a monitor keeps only the last checkpoint. Invariants: the folder's checkpoint covers
//! only what was checked, and of a mirror only what is on the disk; it is never replaced by one that does not continue it.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::ledger::tile::{TILE_WIDTH, TileKind};
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::ledger::walk::{Walk, WalkError};
use bookguard_core::ledger::{Checkpoint, TilePath, VerifierKey, leaf_hash};
use bookguard_core::private;
use bookguard_server::told_to_end;
use clap::Args;
use serde_json::json;
use tokio::time::timeout;

use super::backup::duration;
use super::declare::{Call, CliCommand, alone};
use super::map_audit::{LogAudit, Unaudited};
use super::public_log::{self, Lately, Source};
use super::verify::{trust_policy, verifier_key};
use crate::args::Format;
use crate::failure::Failure;
use crate::files::named;
use crate::output::bar::Bar;
use crate::output::say;
use crate::output::table::grouped;
use crate::text::plain;

/// Where the last checkpoint is, and the key that signs it.
const CHECKPOINT: &str = "checkpoint";
const KEY: &str = "key";
/// A checkpoint that contradicts the last one. It is kept beside it: together they prove that the log is forked.
const CONTRADICTION: &str = "contradiction";
/// The last checkpoint whose entries could not be read. It is signed, and may be all that a forked log ever shows of itself.
const UNREAD: &str = "unread";
/// The longest time since a quorum of witnesses cosigned what they are shown. They cosign a log at rest again, and a week is time enough to
/// bring them back.
const COSIGNED_WITHIN: &str = "7d";
/// What was audited.
pub(super) const AUDIT: &str = ".audit";

#[derive(Debug, Args)]
struct FollowArgs {
    /// The address of the service or of its log, or the folder of another mirror
    #[arg(value_name = "URL|DIR")]
    log: String,
    /// The folder to keep; it is made if it is not there
    #[arg(value_parser = named())]
    folder: PathBuf,
    /// The log's verifier key, or @ and a file that holds it; needed the first time. Get it from the operator of the log
    #[arg(long, value_name = "VKEY|@FILE")]
    key: Option<String>,
    /// A file with a trust policy (C2SP tlog-policy): follow only what its witnesses have cosigned (without --every, exit code 6 if there is
    /// nothing)
    #[arg(long, value_name = "FILE")]
    witness_policy: Option<PathBuf>,
    /// The longest time since these witnesses cosigned it (beyond that, exit code 6 without --every) [default: 7d]. Allow more for a log
    /// whose program does not have it cosigned again while it does not grow
    #[arg(long, value_name = "TIME", requires = "witness_policy")]
    cosigned_within: Option<String>,
    /// Follow the log until stopped, and look this often, such as 10m
    #[arg(long, value_name = "TIME")]
    every: Option<String>,
}

pub(super) fn mirror() -> CliCommand {
    let about = "Copy a public log into a folder, check every byte, and go on from there each time (exit code 6: it is forked)";
    let mirror = alone("mirror", about, async |call| follow(call, true).await);
    mirror.with::<FollowArgs>()
}

pub(super) fn monitor() -> CliCommand {
    let about = "Check that a public log only grows, without keeping it; keeps the last checkpoint (exit code 6: it is forked)";
    let monitor = alone("monitor", about, async |call| follow(call, false).await);
    monitor.with::<FollowArgs>()
}

/// Looks at a log once, as a monitor that keeps this folder does; without auditing its maps if `audits` is not set.
///
/// # Errors
/// As [`follow`].
pub(super) async fn look_once(
    folder: PathBuf,
    key: VerifierKey,
    log: (Source, String),
    audits: bool,
) -> Result<(), Failure> {
    let copy = FollowedLog {
        audits,
        ..FollowedLog::open(folder, Some(key), false)?
    };
    copy.look_at("the copy", log).await.map(drop)
}

/// Makes the folder of a monitor that has seen this checkpoint last.
///
/// # Errors
/// [`Failure::Unexpected`] for a folder that cannot be written.
pub(super) fn seen(folder: PathBuf, key: VerifierKey, note: &str) -> Result<(), Failure> {
    let copy = FollowedLog::open(folder, Some(key), false)?;
    replace(&copy.folder, CHECKPOINT, note.as_bytes()).map_err(|e| copy.cannot_write(&e))
}

/// What one look at the log found.
struct Looked {
    /// How far the log was followed; `None` if it shows nothing that the witnesses of the policy have cosigned.
    followed: Option<Followed>,
    /// Whether the witnesses of the policy, if there is one, have cosigned what it shows, and lately.
    witnessed: Result<(), Failure>,
}

/// How far a log was followed before a look, and is now.
struct Followed {
    before: u64,
    log: Checkpoint,
}

/// # Errors
/// [`Failure::NotVerified`] for a log that is forked or changed, and without --every if its witnesses have not cosigned it, or not lately;
/// [`Failure::Unreachable`] without --every if it does not answer, [`Failure::Usage`] and [`Failure::Unexpected`] for the folder.
async fn follow(call: Call<'_>, keeps: bool) -> Result<(), Failure> {
    let FollowArgs {
        log,
        folder,
        key,
        witness_policy,
        cosigned_within,
        every,
    } = call.args()?;
    let mut lines = call.screen.lines()?;
    let typed = cosigned_within.unwrap_or_else(|| COSIGNED_WITHIN.to_owned());
    let lately = Lately {
        time: duration("--cosigned-within", &typed)?,
        typed,
    };
    let policy = witness_policy.as_deref().map(trust_policy).transpose()?;
    let every = every.as_deref().map(|time| duration("--every", time));
    let every = every.transpose()?;
    let mut signals = bookguard_server::signals().map_err(Failure::Unexpected)?;
    let key = key.as_deref().map(verifier_key).transpose()?;
    let copy = FollowedLog {
        policy: policy.map(|policy| (policy, lately)),
        ..FollowedLog::open(folder, key, keeps)?
    };
    let mut wait = Duration::ZERO;
    while timeout(wait, told_to_end(&mut signals, || {}))
        .await
        .is_err()
    {
        let looked = tokio::select! {
            looked = copy.look(&log) => looked,
            () = told_to_end(&mut signals, || {}) => break,
        };
        match looked {
            Ok(looked) => {
                if let Some(followed) = &looked.followed {
                    lines.show(&followed.json(), |_| followed.in_words())?;
                }
                match looked.witnessed {
                    // Witnesses may come back.
                    Err(failure) if every.is_some() => tell(&failure),
                    witnessed => witnessed?,
                }
            }
            // It may answer again; what it said wrong it would say again.
            Err(failure @ (Failure::Unreachable(_) | Failure::BadAnswer(_))) if every.is_some() => {
                tell(&failure);
            }
            Err(failure) => return Err(failure),
        }
        let Some(every) = every else { break };
        wait = every;
    }
    Ok(())
}

fn tell(failure: &Failure) {
    say(&failure.text(Format::Table).unwrap_or_default());
}

impl Followed {
    fn json(&self) -> serde_json::Value {
        json!({
            "origin": self.log.origin,
            "size": self.log.size,
            "rootHash": self.log.root,
            "added": self.log.size - self.before,
        })
    }

    fn in_words(&self) -> String {
        let (origin, size) = (plain(&self.log.origin), grouped(self.log.size));
        match self.log.size - self.before {
            0 => {
                format!("{origin}: {size} entries, nothing new; it continues what was seen before")
            }
            added => format!(
                "{origin}: {size} entries, {} new; every one was checked, and the log continues what was seen before",
                grouped(added)
            ),
        }
    }
}

/// What one look has written.
#[derive(Default)]
struct Written {
    folders: BTreeSet<PathBuf>,
    /// The folders of partial tiles whose full ones are now there. They go once the checkpoint is there that covers these.
    outgrown: BTreeSet<PathBuf>,
}

/// The folder of a mirror or monitor, in use by this process.
struct FollowedLog {
    folder: PathBuf,
    key: VerifierKey,
    /// Whether tiles are kept.
    keeps: bool,
    /// Whether its maps are audited.
    audits: bool,
    /// The witnesses that must have cosigned a checkpoint, and how lately.
    policy: Option<(TrustPolicy, Lately)>,
    _lock: File,
}

impl FollowedLog {
    fn open(folder: PathBuf, given: Option<VerifierKey>, keeps: bool) -> Result<Self, Failure> {
        let shown = folder.display().to_string();
        let fail = |e: io::Error| match e.kind() {
            io::ErrorKind::NotADirectory => {
                Failure::Usage(format!("{shown} is no folder: name one, or a new one"))
            }
            _ => Failure::Unexpected(format!("the folder {shown} cannot be used: {e}")),
        };
        let known = match fs::read_to_string(folder.join(KEY)) {
            Ok(text) => Some(text.parse::<VerifierKey>().map_err(|why| {
                Failure::Usage(format!(
                    "{} cannot be read: {why}",
                    folder.join(KEY).display()
                ))
            })?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(fail(e)),
        };
        let key = match (known, given) {
            (Some(known), Some(given)) if known != given => {
                return Err(Failure::Usage(format!(
                    "{shown} follows the log with the key {known}; name another folder for the log with the key {given}"
                )));
            }
            (Some(known), _) => known,
            (None, Some(given)) => given,
            (None, None) => {
                return Err(Failure::Usage(
                    "the first time, the log's verifier key is needed: give it with --key. Get it from the operator of the log; the \
                     service shows it at /v1/ledger/key"
                        .to_owned(),
                ));
            }
        };
        fs::create_dir_all(&folder).map_err(fail)?;
        let lock = File::options()
            .create(true)
            .append(true)
            .open(folder.join(".lock"))
            .map_err(fail)?;
        lock.try_lock().map_err(|why| match why {
            TryLockError::WouldBlock => Failure::Usage(format!(
                "another process keeps {shown}; stop it, or name another folder"
            )),
            TryLockError::Error(e) => fail(e),
        })?;
        Ok(Self {
            folder,
            key,
            keeps,
            audits: true,
            policy: None,
            _lock: lock,
        })
    }

    /// Reads what was added to the log, checks it, and keeps it.
    async fn look(&self, place: &str) -> Result<Looked, Failure> {
        let (source, newest) = public_log::open(place, &self.key).await?;
        let Some((policy, lately)) = &self.policy else {
            return Ok(Looked {
                followed: Some(self.look_at(place, (source, newest)).await?),
                witnessed: Ok(()),
            });
        };
        let known = self.known()?;
        let log = self.opened(place, &newest);
        // Whatever is cosigned, the newest checkpoint may show that entries were lost or the log is forked.
        if let Ok(log) = &log
            && let Err(why) = Walk::since(known.clone(), log.clone())
        {
            return Err(self.refused(place, &newest, &why.into()));
        }
        let cosigned = public_log::cosigned(place, (&source, &newest), &self.key, policy);
        let note = match cosigned.await? {
            Ok(note) => note,
            // If its key signed neither, it is another log, and waiting does not help.
            Err(why) => {
                return log.map(|_| Looked {
                    followed: None,
                    witnessed: Err(why),
                });
            }
        };
        let followed = match self.opened(place, &note) {
            Ok(log) if log.size < known.size => Followed {
                before: known.size,
                log: known,
            },
            _ => self.look_at(place, (source, note.clone())).await?,
        };
        Ok(Looked {
            followed: Some(followed),
            witnessed: public_log::require_recent(
                place,
                &note,
                (policy, lately),
                Clock::System.now(),
            ),
        })
    }

    /// The checkpoint in a note of this log.
    fn opened(&self, place: &str, note: &str) -> Result<Checkpoint, Failure> {
        Checkpoint::open(note, &self.key).map_err(|why| {
            Failure::NotVerified(format!("The log at {place} cannot be relied on: {why}."))
        })
    }

    /// Looks at the checkpoint that was found there.
    async fn look_at(
        &self,
        place: &str,
        (source, note): (Source, String),
    ) -> Result<Followed, Failure> {
        let log = self.opened(place, &note)?;
        // The key is kept only once it has verified a checkpoint, so a mistyped one does not bind the folder.
        if !self.folder.join(KEY).exists() {
            replace(&self.folder, KEY, format!("{}\n", self.key).as_bytes())
                .map_err(|e| self.cannot_write(&e))?;
        }
        let known = self.known()?;
        let before = known.size;
        let mut audit = (self.audits)
            .then(|| LogAudit::open(&self.folder.join(AUDIT), self.key.name()))
            .transpose()?;
        // Usually the audit has got as far as the folder, so one walk serves both.
        let goes_along = audit.as_ref().is_some_and(|audit| audit.is_at(&known));
        let mut walk = match Walk::since(known, log) {
            Ok(walk) => walk,
            Err(why) => return Err(self.refused(place, &note, &why.into())),
        };
        let mut bar = Bar::new();
        let size = walk.log().size;
        let mut written = Written::default();
        let source = Arc::new(source);
        let fetched = public_log::fetch(&source, walk.paths(), |path, bytes| {
            let taken = match walk.take(bytes) {
                Ok(entries) => {
                    let held = entries.as_ref().map(|(_, entries)| entries.as_slice());
                    self.keep(path, bytes, held, &mut written)
                        .map_err(|e| self.cannot_write(&e))?;
                    match (&mut audit, &entries) {
                        (Some(audit), Some(entries)) if goes_along => {
                            let taken = audit.take(&walk, &note, entries)?;
                            taken.map_err(Unaudited::Lie)
                        }
                        _ => Ok(()),
                    }
                }
                Err(why) => Err(why.into()),
            };
            bar.draw(walk.walked(), size);
            Ok(taken)
        })
        .await;
        bar.clear();
        if fetched.is_err() && size > before {
            replace(&self.folder, UNREAD, note.as_bytes()).map_err(|e| self.cannot_write(&e))?;
        }
        let refused = |why: Unaudited| self.refused(place, &note, &why);
        fetched?.map_err(refused)?;
        let log = walk.finish().map_err(|why| refused(why.into()))?;
        if let Some(audit) = &mut audit {
            // A mirror has everything by now.
            let source = match self.keeps {
                true => Arc::new(Source::Folder(self.folder.clone())),
                false => source,
            };
            let reached = audit.reach(&source, log.clone(), &note).await?;
            reached.map_err(refused)?;
        }
        // If a mirror is stopped here, its next run reads the same tiles again.
        let kept = (written.folders.iter()).try_for_each(|folder| private::sync(folder));
        // Signatures of witnesses stay with the checkpoint.
        kept.and_then(|()| replace(&self.folder, CHECKPOINT, note.as_bytes()))
            .map_err(|e| self.cannot_write(&e))?;
        for folder in &written.outgrown {
            // It only takes room.
            let _ = fs::remove_dir_all(folder);
        }
        Ok(Followed { before, log })
    }

    /// The checkpoint seen last; that of an empty log at first.
    fn known(&self) -> Result<Checkpoint, Failure> {
        let file = self.folder.join(CHECKPOINT);
        match fs::read_to_string(&file) {
            Ok(note) => Checkpoint::open(&note, &self.key).map_err(|why| {
                let file = file.display();
                Failure::NotVerified(format!(
                    "{file} is not what this command wrote: {why}. Put back the file as it was"
                ))
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Checkpoint::empty(self.key.name())),
            Err(e) => Err(Failure::Unexpected(format!(
                "{} cannot be read: {e}",
                file.display()
            ))),
        }
    }

    /// Writes a tile that was checked; with a full bundle also the tile of its entries' hashes, which a walk does not read.
    fn keep(
        &self,
        path: &TilePath,
        bytes: &[u8],
        entries: Option<&[&[u8]]>,
        written: &mut Written,
    ) -> io::Result<()> {
        if !self.keeps {
            return Ok(());
        }
        self.write(path, bytes, written)?;
        let Some(entries) = entries.filter(|entries| entries.len() == TILE_WIDTH) else {
            return Ok(());
        };
        let hashes = entries.iter().flat_map(|entry| leaf_hash(entry).0);
        let hashes: Vec<u8> = hashes.collect();
        match TilePath::new(TileKind::Hashes(0), path.index(), TILE_WIDTH) {
            Ok(path) => self.write(&path, &hashes, written),
            Err(_) => Ok(()),
        }
    }

    fn write(&self, path: &TilePath, bytes: &[u8], written: &mut Written) -> io::Result<()> {
        let file = self.folder.join(path.to_string());
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
            return Ok(());
        };
        fs::create_dir_all(folder)?;
        let mut above = folder;
        while above.starts_with(&self.folder) && written.folders.insert(above.to_owned()) {
            above = above.parent().unwrap_or(&self.folder);
        }
        private::place(File::options(), folder, &name.to_string_lossy(), bytes)?;
        let partial = file.with_extension("p");
        if !path.is_partial() && partial.is_dir() {
            written.outgrown.insert(partial);
        }
        Ok(())
    }

    /// What to say of a log that does not continue what was seen, or whose maps are not true. The checkpoint that shows it is kept.
    fn refused(&self, place: &str, note: &str, why: &Unaudited) -> Failure {
        // A smaller one that its key signed may just be old.
        let proves = match why {
            Unaudited::Walk(WalkError::Forked { .. }) => {
                Some(self.folder.join(CHECKPOINT).display().to_string())
            }
            Unaudited::Lie(_) => Some("the log's entries".to_owned()),
            Unaudited::Absent(why) => return Failure::NotVerified(why.clone()),
            Unaudited::Walk(_) => None,
        };
        let kept = match proves {
            Some(other) => match replace(&self.folder, CONTRADICTION, note.as_bytes()) {
                Ok(()) => format!(
                    " Its checkpoint is kept as {}; together with {}, it is the proof.",
                    self.folder.join(CONTRADICTION).display(),
                    other,
                ),
                Err(e) => format!(" Its checkpoint cannot be kept: {e}."),
            },
            None => String::new(),
        };
        Failure::NotVerified(format!(
            "The log at {place} cannot be relied on: {why}.{kept}"
        ))
    }

    fn cannot_write(&self, error: &io::Error) -> Failure {
        Failure::Unexpected(format!(
            "the folder {} cannot be written: {error}",
            self.folder.display()
        ))
    }
}

/// Replaces a file as a whole; returns once it is on the disk. A mirror is served to others, so they may read it.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    private::place(File::options(), folder, name, bytes)?;
    private::sync(folder)
}
