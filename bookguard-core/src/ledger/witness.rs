//! C2SP tlog-witness: what a witness is asked, and what it answers.
//!
//! Pure: the caller keeps the latest cosigned checkpoint of each log and stores the new one before it answers. Invariants:
//! [`judge`] lets a checkpoint pass only if its log's key signed it and its tree begins with the one cosigned last;
//! [`WitnessAnswer::read`], for the log that asked, returns only cosignatures that verify.

use std::fmt;

use super::checkpoint::{Checkpoint, CheckpointError, decimal};
use super::cosignature::CosignerKey;
use super::hash::{EMPTY_ROOT, Hash};
use super::note::{MAX_NOTE_BYTES, VerifierKey};
use super::proof::{MAX_PATH, ProofError, verify_consistency};

/// The most hashes of a consistency proof.
pub const MAX_PROOF: usize = MAX_PATH - 1;
/// The longest request, in bytes: the size line, the proof, and a note.
pub const MAX_REQUEST_BYTES: usize = 32 + MAX_PROOF * 45 + 1 + MAX_NOTE_BYTES;

/// A request to cosign a checkpoint. Displayed as the body of `POST …/add-checkpoint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// The size that the witness is thought to have cosigned last; 0 if none.
    pub old: u64,
    /// The hashes that prove the tree of that size to be the beginning of the new one.
    pub proof: Vec<Hash>,
    /// The signed checkpoint.
    pub note: String,
}

impl AddCheckpoint {
    /// Reads the body of a request. The checkpoint in it is not looked at.
    ///
    /// # Errors
    /// [`WitnessRefusal::Request`] with the rule that the body breaks.
    pub fn parse(body: &str) -> Result<Self, WitnessRefusal> {
        let wrong = WitnessRefusal::Request;
        let (head, note) = body.split_once("\n\n").ok_or(wrong(
            "an empty line must stand between the proof and the checkpoint",
        ))?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| line.strip_prefix("old "));
        let old = old.and_then(decimal).ok_or(wrong(
            "its first line must be “old”, a space, and a size in decimal digits",
        ))?;
        let proof = lines.map(Hash::from_base64).collect::<Result<Vec<_>, _>>();
        let proof =
            proof.map_err(|_| wrong("each line of the proof must be the base64 of 32 bytes"))?;
        if proof.len() > MAX_PROOF {
            return Err(wrong("a consistency proof has at most 63 hashes"));
        }
        let note = note.to_owned();
        Ok(Self { old, proof, note })
    }
}

impl fmt::Display for AddCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        for hash in &self.proof {
            writeln!(f, "{}", hash.to_base64())?;
        }
        write!(f, "\n{}", self.note)
    }
}

/// Decides whether a checkpoint may be cosigned. `logs` are the keys of the logs that are witnessed; `latest` returns the
/// checkpoint of the log with this key that was cosigned last.
///
/// # Errors
/// [`WitnessRefusal`], in the order in which the specification has the checks.
pub fn judge<'k>(
    request: &AddCheckpoint,
    logs: &'k [VerifierKey],
    latest: impl FnOnce(&VerifierKey) -> Option<Checkpoint>,
) -> Result<(&'k VerifierKey, Checkpoint), WitnessRefusal> {
    let origin = request.note.split('\n').next().unwrap_or_default();
    let key = (logs.iter().find(|key| key.name() == origin)).ok_or(WitnessRefusal::Origin)?;
    let asked = match Checkpoint::open(&request.note, key) {
        // No proof leads to its root, which is what the specification wants to be said of it.
        Err(CheckpointError::EmptyRoot) => Checkpoint {
            origin: origin.to_owned(),
            size: 0,
            root: Hash::ZERO,
        },
        Err(why @ CheckpointError::Note(_)) => return Err(WitnessRefusal::Unsigned(why)),
        opened => opened.map_err(WitnessRefusal::Checkpoint)?,
    };
    if request.old > asked.size {
        return Err(WitnessRefusal::Request(
            "the old size must not exceed the size of the checkpoint",
        ));
    }
    let (size, root) = latest(key).map_or((0, EMPTY_ROOT), |latest| (latest.size, latest.root));
    if request.old != size {
        return Err(WitnessRefusal::Conflict { size });
    }
    match verify_consistency(size, &root, asked.size, &asked.root, &request.proof) {
        Ok(()) => Ok((key, asked)),
        Err(ProofError::Root) if asked.size == size => Err(WitnessRefusal::OtherRoot { size }),
        // Whoever forks a log sends such a proof. Nobody can make one for a log that is not forked.
        Err(ProofError::OldRoot) => Err(WitnessRefusal::OtherRoot { size }),
        Err(why) => Err(WitnessRefusal::Proof(why)),
    }
}

/// The longest answer that is read, in bytes: a note's worth of signature lines.
pub const MAX_ANSWER_BYTES: usize = MAX_NOTE_BYTES;
/// The most characters that are kept of what a witness says of a refusal.
const SAID_CHARS: usize = 200;

/// What a witness's answer comes to for the log that asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum WitnessAnswer {
    /// It has cosigned the checkpoint. The signature line and time of each witness that was asked for and has signed, in their order: one
    /// address may have several keys, and stop signing with the old one.
    Cosigned(Vec<(String, u64)>),
    /// It has cosigned this size last, which is another than it was thought to be.
    Size(u64),
    /// It says that the log does not continue what it has cosigned: the log is forked, or the proof was wrong.
    Contradicts(String),
    /// Anything else, in words.
    Failed(String),
}

impl WitnessAnswer {
    /// Reads the answer to a request. `witnesses` are the keys whose cosignatures were asked for; those of others are ignored.
    #[must_use]
    pub fn read(
        request: &AddCheckpoint,
        size: u64,
        witnesses: &[CosignerKey],
        (status, body): (u16, &[u8]),
    ) -> Self {
        let text = std::str::from_utf8(body).ok();
        let first = text.and_then(|text| text.lines().next());
        let said: String = (first.unwrap_or_default().chars())
            .filter(|c| c.is_ascii_graphic() || *c == ' ')
            .take(SAID_CHARS)
            .collect();
        let told = |what: &str| match said.is_empty() {
            true => format!("{what} ({status})"),
            false => format!("{what} ({status}: {said})"),
        };
        match status {
            200 => match text {
                Some(lines) => Self::cosigned(request, witnesses, lines),
                None => Self::Failed("its answer is not text".to_owned()),
            },
            409 => match text.map(str::trim_end).and_then(decimal) {
                // What older versions of the protocol answer to another root.
                Some(last) if last == request.old && last == size => {
                    Self::Contradicts(told("it has cosigned another root for this size"))
                }
                Some(last) if last == request.old => Self::Failed(told(
                    "it refuses the size that it says it has cosigned last",
                )),
                Some(last) => Self::Size(last),
                None => Self::Failed(told("it names no size that it has cosigned last")),
            },
            422 => Self::Contradicts(told(
                "it says that the log does not continue what it has cosigned: the log is forked, or the witness is wrong",
            )),
            429 | 503 => Self::Failed(told("it asks to be asked again later")),
            403 => Self::Failed(told("it knows the log under another key")),
            404 => Self::Failed(told(
                "it does not know the log, or is not at this address; ask its operator to add the log's verifier key",
            )),
            _ => Self::Failed(told("it answered with something other than a cosignature")),
        }
    }

    fn cosigned(request: &AddCheckpoint, witnesses: &[CosignerKey], lines: &str) -> Self {
        let note = format!("{}{lines}", request.note);
        let mut found = Vec::new();
        let mut failed = None;
        for key in witnesses {
            // An empty line in the answer would make another text of the checkpoint.
            let line = key.line(&note);
            let own = line.and_then(|(line, _)| key.line(&format!("{}{line}", request.note)));
            let why = match own {
                Ok((_, 0)) => format!("the cosignature of {} has no time", key.name()),
                Ok(cosigned) => {
                    found.push(cosigned);
                    continue;
                }
                Err(why) => format!("it sent no cosignature of {}: {why}", key.name()),
            };
            failed.get_or_insert(why);
        }
        match failed {
            Some(why) if found.is_empty() => Self::Failed(why),
            _ => Self::Cosigned(found),
        }
    }
}

/// Why a witness does not cosign.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum WitnessRefusal {
    /// The request breaks this rule.
    Request(&'static str),
    /// The signed text is not a checkpoint.
    Checkpoint(CheckpointError),
    /// The log is not one that is witnessed.
    Origin,
    /// The log's key has not signed it.
    Unsigned(CheckpointError),
    /// The witness has cosigned another size last.
    Conflict {
        /// That size.
        size: u64,
    },
    /// The tree of the size that the witness has cosigned last, which the checkpoint is of or begins with, has another root: the log
    /// is forked.
    OtherRoot {
        /// That size.
        size: u64,
    },
    /// The proof does not show that the log continues the tree that was cosigned last.
    Proof(ProofError),
}

impl WitnessRefusal {
    /// Whether the log's own signature shows that it does not continue what it was: evidence to keep.
    ///
    /// A wrong proof alone does not show it, but nobody can tell the two apart without the log.
    #[must_use]
    pub fn is_evidence(&self) -> bool {
        matches!(self, Self::OtherRoot { .. } | Self::Proof(_))
    }

    /// The status code of the answer (C2SP tlog-witness, add-checkpoint).
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Request(_) | Self::Checkpoint(_) => 400,
            Self::Unsigned(_) => 403,
            Self::Origin => 404,
            Self::Conflict { .. } => 409,
            Self::OtherRoot { .. } | Self::Proof(_) => 422,
        }
    }
}

impl fmt::Display for WitnessRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(rule) => write!(f, "this is not a request to add a checkpoint: {rule}"),
            Self::Checkpoint(why) | Self::Unsigned(why) => why.fmt(f),
            Self::Origin => f.write_str(
                "this witness does not know the log; its operator can add the log's verifier key",
            ),
            Self::Conflict { size } => {
                write!(f, "this witness has cosigned size {size} of the log last")
            }
            Self::OtherRoot { size } => write!(
                f,
                "this witness has cosigned another root of the log for size {size}"
            ),
            Self::Proof(why) => write!(
                f,
                "the proof does not show that the log continues the tree that this witness has cosigned last: {why}"
            ),
        }
    }
}

impl std::error::Error for WitnessRefusal {}

#[cfg(test)]
mod tests;
