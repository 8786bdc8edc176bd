//! Reads a log before it is cosigned, for a witness that audits.
//!
//! Reading may take hours the first time. Invariants: one task reads a log at a time, in its own pace, whoever asks and however often;
//! a request waits for it no longer than [`PATIENCE`]; what it finds is kept even if nobody waits any more.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::ledger::Checkpoint;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::folder::{NotCosigned, WitnessFolder};

/// How long a request waits for an audit: logs give a witness 15 s in all.
const PATIENCE: Duration = Duration::from_secs(5);
/// After how many seconds a log should ask again.
pub(super) const AGAIN_S: u32 = 10;

/// A log that is audited.
#[derive(Debug, Clone)]
pub struct AuditedLog {
    /// Its name.
    pub origin: String,
    /// Where it is read: an address, or the folder of a mirror.
    pub address: String,
    /// The file that keeps what was audited.
    pub file: PathBuf,
}

/// Audits one log.
pub trait LogAuditor: Send + Sync {
    /// Reads the log up to this checkpoint, which its key has signed in `note`, and audits it. Dropped at any time, it goes on from
    /// there the next time.
    fn audit(
        self: Arc<Self>,
        log: Checkpoint,
        note: String,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotAudited>> + Send>>;
}

/// Why a log was not audited.
#[derive(Debug)]
pub enum NotAudited {
    /// It says something that is not true, or is not the log that was audited before.
    Lie {
        /// What, in a sentence.
        why: String,
        /// The signed checkpoint under which it was read before.
        audited: String,
    },
    /// It cannot be read now, in a sentence for the operator.
    Unread(String),
}

/// The audit of a log.
pub(super) struct Audit {
    auditor: Arc<dyn LogAuditor>,
    /// Held while the log is read: whether the operator was told that it cannot be.
    turn: Arc<Mutex<bool>>,
}

impl Audit {
    pub fn new(auditor: Arc<dyn LogAuditor>) -> Self {
        Self {
            auditor,
            turn: Arc::default(),
        }
    }

    /// Audits the log up to this checkpoint.
    ///
    /// # Errors
    /// [`NotCosigned::Lie`]; [`NotCosigned::Unaudited`] if the log cannot be read, or not in time; [`NotCosigned::Failed`] if
    /// the audit panics.
    pub async fn reach(
        &self,
        folder: &Arc<WitnessFolder>,
        (log, note): (Checkpoint, String),
    ) -> Result<(), NotCosigned> {
        let reading = async {
            let mut told = Arc::clone(&self.turn).lock_owned().await;
            let (auditor, folder) = (Arc::clone(&self.auditor), Arc::clone(folder));
            let read = async move {
                let origin = log.origin.clone();
                let audited = auditor.audit(log, note.clone()).await;
                let is_unread = matches!(audited, Err(NotAudited::Unread(_)));
                // Once, until it is read again: a log may ask as often as it likes.
                let is_known = std::mem::replace(&mut *told, is_unread);
                drop(told);
                match audited {
                    Ok(()) => Ok(()),
                    Err(NotAudited::Lie { why, audited }) => {
                        let said = why.clone();
                        // The disk may take its time.
                        let keep = move || folder.keep_lie(&origin, &note, (&said, &audited));
                        let _ = tokio::task::spawn_blocking(keep).await;
                        Err(NotCosigned::Lie(why))
                    }
                    Err(NotAudited::Unread(why)) => {
                        if !is_known {
                            tracing::warn!("the log {origin} cannot be audited: {why}");
                        }
                        Err(NotCosigned::Unaudited(
                            "this witness cannot read the log at present".to_owned(),
                        ))
                    }
                }
            };
            let read = tokio::spawn(read).await;
            read.unwrap_or_else(|e| Err(NotCosigned::Failed(e.to_string())))
        };
        let late = || {
            let why = "this witness is still reading the log".to_owned();
            Err(NotCosigned::Unaudited(why))
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| late())
    }
}
