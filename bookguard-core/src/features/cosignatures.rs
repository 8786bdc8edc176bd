//! Cosignatures of this log by its witnesses (C2SP tlog-witness): who is asked when, what is kept, and what a packet shows.
//!
//! The server asks the witnesses; this module prepares what is sent and decides what an answer means. What is known of a witness is in
//! the store, so that of many nodes one asks it at a time, each node sees how it went, and nothing is forgotten at a restart.
//! Invariants: nothing here delays a write or a packet. A checkpoint is shown to a witness only after it was published, and only
//! while the database has all that was published. Only cosignatures that verify are kept.

pub mod rule;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::engine::command::Envelope;
use crate::error::Error;
use crate::ledger::cosignature::CosignerKey;
use crate::ledger::proof::prove_consistency;
use crate::ledger::tile::ReadError;
use crate::ledger::trust::{Known, TrustPolicy};
use crate::ledger::witness::{AddCheckpoint, WitnessAnswer};
use crate::ledger::{Checkpoint, VerifierKey};
use crate::limits::{WITNESS_LEASE_MS, WITNESS_SILENT_MS};
use crate::model::{StoredCosignature, Timestamp, WitnessState, WitnessTrouble};
use crate::service::Service;
use crate::store::{StoreError, StoredHead};

/// The witnesses of a policy that are reached at one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessPlace {
    /// The address, without `/add-checkpoint`.
    pub url: String,
    /// The names of the witnesses in the policy.
    pub names: Vec<String>,
    /// Their keys, in the same order.
    pub keys: Vec<CosignerKey>,
}

/// Where the witnesses of a policy are, each address once. One without an address is not asked.
#[must_use]
pub fn places(policy: &TrustPolicy) -> Vec<WitnessPlace> {
    let mut places: BTreeMap<&str, Vec<&Known<CosignerKey>>> = BTreeMap::new();
    for witness in policy.witnesses() {
        if let Some(url) = &witness.url {
            let url = url.trim_end_matches('/');
            places.entry(url).or_default().push(witness);
        }
    }
    let place = |(url, witnesses): (&str, Vec<&Known<CosignerKey>>)| WitnessPlace {
        url: url.to_owned(),
        names: witnesses.iter().map(|one| one.name.clone()).collect(),
        keys: witnesses.iter().map(|one| one.key.clone()).collect(),
    };
    places.into_iter().map(place).collect()
}

/// Whether a witness that last cosigned then, if it ever did, is silent: a fresh cosignature is overdue, whoever is to blame.
#[must_use]
pub fn is_silent(cosigned_at: Option<Timestamp>, now: Timestamp) -> bool {
    cosigned_at.is_none_or(|at| now.ms() - at.ms() > WITNESS_SILENT_MS)
}

/// Takes a witness's turn: until the lease ends, nobody else asks it.
#[derive(Debug, Clone)]
pub struct ClaimWitness {
    pub(crate) url: String,
    pub(crate) keys: Vec<CosignerKey>,
    /// The log's name and size.
    pub(crate) log: (String, u64),
    pub(crate) lease: i64,
}

/// Stores how a turn went, and what came of it.
#[derive(Debug)]
pub struct NoteWitness {
    pub(crate) state: WitnessState,
    pub(crate) cosigned: Vec<StoredCosignature>,
    pub(crate) forgotten: Vec<(u64, [u8; 32])>,
}

/// The head of the log, and how it went with each witness. Blocks.
///
/// # Errors
/// `unavailable` if the store does not answer.
pub fn look(service: &Service) -> Result<(StoredHead, Vec<WitnessState>), Error> {
    service.ask(|reader| Ok((reader.head()?, reader.witnesses()?)))
}

/// The command that takes a witness's turn, if it is due.
#[must_use]
pub fn claim(
    service: &Service,
    place: &WitnessPlace,
    head: &StoredHead,
) -> Envelope<Option<WitnessState>> {
    let claim = ClaimWitness {
        url: place.url.clone(),
        keys: place.keys.clone(),
        log: (head.origin.clone(), head.head.size),
        lease: service.lease(),
    };
    service.envelope(claim)
}

/// A turn with the witnesses at one address: what is known of them, and what they were sent last.
#[derive(Debug)]
pub struct WitnessTurn {
    place: WitnessPlace,
    state: WitnessState,
    sent: Option<SentCheckpoint>,
    cosigned: Vec<StoredCosignature>,
}

/// A request, the size of the checkpoint in it, and that of the log.
#[derive(Debug)]
struct SentCheckpoint {
    request: AddCheckpoint,
    size: u64,
    log_size: u64,
}

impl WitnessTurn {
    /// Begins the turn that was taken with [`claim`].
    #[must_use]
    pub fn new(place: WitnessPlace, state: WitnessState) -> Self {
        Self {
            place,
            state,
            sent: None,
            cosigned: Vec::new(),
        }
    }

    /// The next request to send: a checkpoint, with the proof that it continues what the witness is thought to have cosigned last.
    /// A checkpoint that other witnesses of the policy have cosigned comes before the newest: on a log that grows all the time, each
    /// would vouch for a size of its own otherwise, and seldom a quorum for one. After an odd number of failures the newest comes first. `None` if the
    /// database lacks published entries, because then it may not be shown to anybody. Blocks.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    pub fn request(
        &mut self,
        service: &Service,
        policy: &TrustPolicy,
    ) -> Result<Option<String>, Error> {
        let mut reader = service.reader()?;
        reader.snapshot();
        let head = reader.head().map_err(|e| service.fault(&e))?;
        if service.publish(&mut reader, &head)?.is_some() {
            return Ok(None);
        }
        if self.state.origin != head.origin {
            self.state.origin.clone_from(&head.origin);
            self.state.size = 0;
            self.state.trouble = None;
        }
        let log_size = head.head.size;
        // One that has cosigned more than there is answers with its size to whatever it is asked.
        let old = if self.state.size > log_size {
            0
        } else {
            self.state.size
        };
        let stored = reader.cosignatures(old).map_err(|e| service.fault(&e))?;
        let newer = old.saturating_add(1)..=log_size;
        // An auditing witness cosigns nothing older than what it has read, so one that failed is asked for the newest in every second turn.
        let shared = match self.state.failures.is_multiple_of(2) {
            true => rule::best(&stored, policy, &head.origin, newer),
            false => None,
        };
        let signer = service.signer(&head.origin)?;
        // A row that somebody changed must not be shown to anybody.
        let is_ours = |(size, note): &(u64, &str)| {
            Checkpoint::open(note, signer.verifier()).is_ok_and(|signed| signed.size == *size)
        };
        let shared = shared.as_ref().and_then(rule::Cosigned::checkpoint);
        let (size, note) = match shared.filter(is_ours) {
            Some((size, note)) => (size, note.to_owned()),
            None => (log_size, head.checkpoint),
        };
        let proof = prove_consistency(old, size, |level, index| reader.tile(level, index));
        let proof = proof.map_err(|why| match why {
            ReadError::Read(error) => service.fault(&error),
            other => service.fault(&StoreError::Corrupt(other.to_string())),
        })?;
        let request = AddCheckpoint { old, proof, note };
        let body = request.to_string();
        self.sent = Some(SentCheckpoint {
            request,
            size,
            log_size,
        });
        Ok(Some(body))
    }

    /// Takes the answer to the last request, a status and a body. Returns whether to send another.
    pub fn answered(&mut self, answer: (u16, &[u8]), now: Timestamp) -> bool {
        let Some(sent) = self.sent.take() else {
            return false;
        };
        match WitnessAnswer::read(&sent.request, sent.size, &self.place.keys, answer) {
            WitnessAnswer::Cosigned(lines) => {
                let signed = |(line, _): &(String, u64)| {
                    let note = format!("{}{line}", sent.request.note);
                    let key = self.place.keys.iter().find(|key| key.verify(&note).is_ok());
                    key.map(|key| StoredCosignature {
                        key: key.to_string(),
                        size: sent.size,
                        note,
                    })
                };
                self.cosigned = lines.iter().filter_map(signed).collect();
                self.state.size = sent.size;
                self.state.cosigned_at = Some(now);
                let keys = self.place.keys.iter().map(CosignerKey::to_string);
                self.state.expected = keys.collect();
                let expected = &self.state.expected;
                (self.state.signed).retain(|known, _| expected.contains(known));
                let signed = self.cosigned.iter().map(|one| (one.key.clone(), now));
                self.state.signed.extend(signed);
                self.state.trouble = None;
                false
            }
            WitnessAnswer::Size(size) => {
                // The log may have grown since its head was read, and anybody may show a witness what was published. So it is an alarm
                // only if the witness had named a larger size before that: the next request reads the head again.
                let is_alarm = self.state.size.min(size) > sent.log_size;
                self.state.size = size;
                let what = match is_alarm {
                    true => format!(
                        "it has cosigned {size} entries of this log, which has only {}: entries were lost, or somebody else has the \
                         ledger key",
                        sent.log_size
                    ),
                    false => format!(
                        "the size that it has cosigned last keeps changing; now it is {size}"
                    ),
                };
                self.note(WitnessTrouble { is_alarm, what });
                !is_alarm
            }
            WitnessAnswer::Contradicts(what) => self.failed(true, what),
            WitnessAnswer::Failed(what) => self.failed(false, what),
        }
    }

    /// Notes that no answer came.
    pub fn unanswered(&mut self, what: String) {
        self.failed(false, what);
    }

    fn failed(&mut self, is_alarm: bool, what: String) -> bool {
        self.note(WitnessTrouble { is_alarm, what });
        false
    }

    /// Notes why the witness did not cosign. An alarm stays until it cosigns: that it does not answer now refutes nothing.
    fn note(&mut self, trouble: WitnessTrouble) {
        if trouble.is_alarm || !self.state.is_alarm() {
            self.state.trouble = Some(trouble);
        }
    }

    /// Ends the turn: how it went, and the command that stores it. Blocks.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    pub fn end(
        mut self,
        service: &Service,
        policy: &TrustPolicy,
    ) -> Result<(WitnessState, Envelope<()>), Error> {
        let now = service.clock().now();
        self.state.failures = match self.state.trouble {
            None => 0,
            Some(_) => self.state.failures.saturating_add(1),
        };
        self.state.due = now.plus_ms(rule::wait(self.state.failures));
        let forgotten = match self.cosigned.first() {
            None => Vec::new(),
            Some(one) => {
                let mut kept = service.ask(|reader| reader.cosignatures(0))?;
                kept.retain(|old| {
                    !self
                        .cosigned
                        .iter()
                        .any(|new| (new.size, &new.key) == (old.size, &old.key))
                });
                kept.extend(self.cosigned.iter().cloned());
                rule::superseded(&kept, policy, one.checkpoint())
            }
        };
        let note = NoteWitness {
            state: self.state.clone(),
            cosigned: self.cosigned,
            forgotten,
        };
        Ok((self.state, service.envelope(note)))
    }
}

/// The lease of a turn that begins at `now`.
fn lease_end(now: Timestamp) -> Timestamp {
    now.plus_ms(WITNESS_LEASE_MS)
}

/// The checkpoint that a packet shows of the log with this key: the best cosigned one whose number of entries is in `sizes`, with the
/// lines of the witnesses after it. `None` if no witness of the policy has cosigned any.
#[must_use]
pub fn cosigned_head(
    stored: &[StoredCosignature],
    policy: &TrustPolicy,
    key: &VerifierKey,
    sizes: RangeInclusive<u64>,
) -> Option<CosignedHead> {
    let best = rule::best(stored, policy, key.name(), sizes)?;
    let note = best.note();
    // A row that somebody changed must not make a packet that does not verify.
    let head = Checkpoint::open(&note, key).ok()?;
    let signed = policy
        .witnesses()
        .iter()
        .filter(|one| one.key.verify(&note).is_ok());
    let witnesses: Vec<String> = signed.map(|one| one.key.to_string()).collect();
    (witnesses == best.witnesses()).then_some(CosignedHead {
        size: head.size,
        note,
        witnesses,
    })
}

/// The checkpoint of the log that the witnesses of a policy have cosigned best: the newest with its quorum, if there is one. `None` if
/// none of them has cosigned any. Blocks.
///
/// # Errors
/// `unavailable` if the store does not answer.
pub fn witnessed(service: &Service, policy: &TrustPolicy) -> Result<Option<CosignedHead>, Error> {
    let (head, stored) = service.ask(|reader| {
        reader.snapshot();
        Ok((reader.head()?, reader.cosignatures(0)?))
    })?;
    let signer = service.signer(&head.origin)?;
    let sizes = 0..=head.head.size;
    Ok(cosigned_head(&stored, policy, signer.verifier(), sizes))
}

/// A cosigned checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosignedHead {
    /// Its size.
    pub size: u64,
    /// The checkpoint, with the lines of the witnesses.
    pub note: String,
    /// The keys of the witnesses, in the policy's order.
    pub witnesses: Vec<String>,
}

#[cfg(test)]
mod tests;
