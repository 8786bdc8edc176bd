//! Reads a public log to its end and audits its maps: for mirrors, monitors, auditing witnesses and the drill.
//!
//! Core checks every byte (`ledger::walk`) and every map (`evidence::MapAudit`), and keeps how far it has got
//! (`store::map_audit`). Invariants: only entries that a signed checkpoint covers are audited; memory holds one step of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bookguard_core::ledger::Checkpoint;
use bookguard_core::ledger::walk::{Entries, Walk, WalkError};
use bookguard_core::limits::MAP_AUDIT_ENTRIES;
use bookguard_core::store::StoreError;
use bookguard_core::store::map_audit::AuditFile;
use bookguard_server::witness::{AuditedLog, LogAuditor, NotAudited};
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use super::public_log::{self, Source};
use crate::failure::Failure;

/// An audit in progress.
pub(super) struct LogAudit {
    path: PathBuf,
    file: AuditFile,
    /// Entries that were read and not audited yet.
    pending: Vec<Vec<u8>>,
}

/// Why a log does not pass.
pub(super) enum Unaudited {
    /// A lie, in a sentence.
    Lie(String),
    /// The log does not continue what was audited, or is not what its checkpoint covers.
    Walk(WalkError),
    /// A file of the log is not there.
    Absent(String),
}

impl fmt::Display for Unaudited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lie(why) | Self::Absent(why) => f.write_str(why),
            Self::Walk(why) => why.fmt(f),
        }
    }
}

impl From<String> for Unaudited {
    fn from(absent: String) -> Self {
        Self::Absent(absent)
    }
}

impl From<WalkError> for Unaudited {
    fn from(why: WalkError) -> Self {
        Self::Walk(why)
    }
}

impl LogAudit {
    /// Goes on with the audit in this file; it is made if it is not there.
    ///
    /// # Errors
    /// [`Failure::Unexpected`] if the file cannot be used.
    pub fn open(path: &Path, origin: &str) -> Result<Self, Failure> {
        let file = block_in_place(|| AuditFile::open(path, origin));
        Ok(Self {
            file: file.map_err(|why| unusable(path, &why))?,
            path: path.to_owned(),
            pending: Vec::new(),
        })
    }

    /// Whether everything up to this checkpoint is audited, and nothing after it.
    pub fn is_at(&self, log: &Checkpoint) -> bool {
        self.file.audited() == *log && self.file.fault().is_none()
    }

    /// What is known of the log without reading it.
    fn known(&self, log: &Checkpoint) -> Option<Result<(), Unaudited>> {
        match self.file.fault() {
            Some(lie) => Some(Err(Unaudited::Lie(lie.to_owned()))),
            None => self.is_at(log).then_some(Ok(())),
        }
    }

    /// The signed checkpoint under which entries were audited last.
    pub fn note(&self) -> &str {
        self.file.note()
    }

    /// Takes what a walk returned for its next tile. The walk must have begun where the audit was. `note` is the signed checkpoint
    /// of its log.
    ///
    /// # Errors
    /// [`Failure::Unexpected`] for the file.
    pub fn take(
        &mut self,
        walk: &Walk,
        note: &str,
        entries: &Entries<'_>,
    ) -> Result<Result<(), String>, Failure> {
        let (first, entries) = entries;
        let next = self.file.to().size + self.pending.len() as u64;
        // A walk begins with the whole bundle.
        let read = usize::try_from(next.saturating_sub(*first)).unwrap_or(usize::MAX);
        let new = entries.iter().skip(read);
        self.pending.extend(new.map(|entry| entry.to_vec()));
        let is_last = walk.walked() == walk.log().size;
        let waiting = self.pending.len() as u64;
        if waiting == 0 || !is_last && waiting < MAP_AUDIT_ENTRIES {
            return Ok(Ok(()));
        }
        let root = walk.root_so_far();
        let root =
            root.ok_or_else(|| Failure::Unexpected("the tree's edge was not read".to_owned()))?;
        let taken = block_in_place(|| self.file.take(&self.pending, (root, note)));
        let found = taken.map_err(|why| unusable(&self.path, &why))?;
        self.pending.clear();
        Ok(found.map_or(Ok(()), |lie| Err(lie.to_string())))
    }

    /// Reads the log from where the audit was up to this checkpoint, which its key has signed in `note`.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be read; the inner error if it does not pass.
    pub async fn reach(
        &mut self,
        source: &Arc<Source>,
        log: Checkpoint,
        note: &str,
    ) -> Result<Result<(), Unaudited>, Failure> {
        self.pending.clear();
        if let Some(known) = self.known(&log) {
            return Ok(known);
        }
        let mut walk = match Walk::since(self.file.audited(), log) {
            Ok(walk) => walk,
            Err(why) => return Ok(Err(Unaudited::Walk(why))),
        };
        let fetched = public_log::fetch(source, walk.paths(), |_, bytes| {
            Ok(match walk.take(bytes) {
                Ok(None) => Ok(()),
                Ok(Some(entries)) => self.take(&walk, note, &entries)?.map_err(Unaudited::Lie),
                Err(why) => Err(Unaudited::Walk(why)),
            })
        })
        .await?;
        Ok(match fetched {
            Ok(()) => walk.finish().map(drop).map_err(Unaudited::Walk),
            wrong => wrong,
        })
    }
}

fn unusable(path: &Path, why: &StoreError) -> Failure {
    let path = path.display();
    Failure::Unexpected(match why {
        StoreError::Corrupt(_) | StoreError::Unreadable(_) | StoreError::Foreign => format!(
            "the audit's file {path} cannot be used: {why}. Nothing in it is lost for good: remove it, and the log is audited from its \
             first entry"
        ),
        _ => format!("the audit's file {path} cannot be used: {why}"),
    })
}

/// Audits a log for a witness.
struct Auditor {
    address: String,
    audit: Mutex<LogAudit>,
}

/// The auditor of a log that a witness's folder names.
///
/// # Errors
/// A sentence for the operator: the log's address is not valid, or the audit's file cannot be used.
pub(super) fn auditor(log: &AuditedLog) -> Result<Arc<dyn LogAuditor>, String> {
    public_log::check(&log.address).map_err(|why| why.reason())?;
    let audit = LogAudit::open(&log.file, &log.origin).map_err(|why| why.reason())?;
    Ok(Arc::new(Auditor {
        address: log.address.clone(),
        audit: Mutex::new(audit),
    }))
}

impl LogAuditor for Auditor {
    fn audit(
        self: Arc<Self>,
        log: Checkpoint,
        note: String,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotAudited>> + Send>> {
        Box::pin(async move {
            let unread = |failure: Failure| NotAudited::Unread(failure.reason());
            let mut audit = self.audit.lock().await;
            let reached = match audit.known(&log) {
                Some(known) => known,
                None => {
                    let source = public_log::find(&self.address).await.map_err(unread)?;
                    let reached = audit.reach(&Arc::new(source), log, &note).await;
                    reached.map_err(unread)?
                }
            };
            reached.map_err(|why| match why {
                Unaudited::Lie(_) | Unaudited::Walk(WalkError::Forked { .. }) => NotAudited::Lie {
                    why: why.to_string(),
                    audited: audit.note().to_owned(),
                },
                Unaudited::Walk(_) | Unaudited::Absent(_) => NotAudited::Unread(why.to_string()),
            })
        })
    }
}
