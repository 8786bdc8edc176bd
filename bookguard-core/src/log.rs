//! This node's view of the log: the key it signs with, under the log's current name, the head it last saw, and the erasures it
//! listed.
//!
//! `store::continuity` decides whether a database continues what was published.

use std::sync::{Arc, Mutex, PoisonError};

use crate::erasure_list::ErasureList;
use crate::guard::Guard;
use crate::key_file::LedgerKey;
use crate::ledger::Signer;
use crate::seal::Seal;

/// The log, as one node knows it.
pub struct Log {
    key: LedgerKey,
    /// The signer for the name last asked for.
    signer: Mutex<Option<Arc<Signer>>>,
    guard: Guard,
    erasures: ErasureList,
}

impl Log {
    /// A log signed with this key. The list of erasures is beside the guard's file.
    pub fn new(key: LedgerKey, guard: Guard) -> Self {
        let vkey = key.signer().map(|signer| signer.verifier().to_string());
        // Name, hash of both, key: the last may hold a plus sign.
        guard.belongs_to(
            vkey.ok()
                .and_then(|vkey| Some(vkey.splitn(3, '+').nth(2)?.to_owned())),
        );
        Self {
            erasures: ErasureList::beside(guard.path()),
            key,
            signer: Mutex::default(),
            guard,
        }
    }

    /// The guard, which holds the head last seen.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The list of erasures.
    pub fn erasures(&self) -> &ErasureList {
        &self.erasures
    }

    /// The seal for secrets, derived from the key.
    pub fn seal(&self) -> Seal {
        Seal::derive(self.key.seed())
    }

    /// The signer for the log under this name.
    ///
    /// # Errors
    /// A sentence, for a name that no log can have.
    pub fn signer(&self, origin: &str) -> Result<Arc<Signer>, String> {
        let mut kept = self.signer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signer) = kept.as_ref().filter(|signer| signer.name() == origin) {
            return Ok(Arc::clone(signer));
        }
        let signer = (self.key.signer_as(origin))
            .map_err(|why| format!("the name of the ledger is not valid: {why}"))?;
        let signer = Arc::new(signer);
        *kept = Some(Arc::clone(&signer));
        Ok(signer)
    }
}
