//! The files of a witness: its key, the logs that it witnesses, the checkpoint of each that it cosigned last, and forks.
//!
//! | file | holds |
//! |---|---|
//! | `key` | the witness's private key; whoever has it is the witness |
//! | `logs` | the verifier key of each log, one a line, and where an auditing witness reads it; `#` begins a comment |
//! | `cosigned` | the latest cosigned checkpoint of each log, as JSON: origin to note |
//! | `forks/` | checkpoints that a log's key signed and that are not shown to continue what was cosigned, or whose maps lie |
//! | `audits/` | what was audited of each log; only an auditing witness has it |
//!
//! Whether a witness audits is decided when its key is made: what its name stands for never changes.
//!
//! `cosigned` is made with the key and replaced as a whole: if it is missing, the witness would forget what it vouched for, so
//! it does not start. Invariants: one process uses a folder; no cosignature is given out before the file that holds it is on
//! the disk; the size cosigned of a log never shrinks.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bookguard_core::entropy;
use bookguard_core::key_file::LedgerKey;
use bookguard_core::ledger::cosignature::{Cosigner, CosignerKey};
use bookguard_core::ledger::witness::{AddCheckpoint, WitnessRefusal, judge};
use bookguard_core::ledger::{Checkpoint, Hash, VerifierKey};
use bookguard_core::model::Timestamp;
use bookguard_core::private;

use super::audit::{Audit, AuditedLog, LogAuditor};
use crate::server::take;

/// The most checkpoints of each kind that are kept of one log. The newest stay, because anybody can send genuine ones with a wrong
/// proof before a false one comes.
const FORKS: usize = 16;

/// How often the operator is told of each kind of one log: anybody can make a witness tell it.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// The kind of checkpoint that came with a wrong proof.
const UNPROVEN: &str = "unproven";

/// The folder that an auditing witness has.
const AUDITS: &str = "audits";

/// The folder of a witness, in use by this process.
pub struct WitnessFolder {
    path: PathBuf,
    cosigner: Cosigner,
    logs: Vec<VerifierKey>,
    /// By origin, the audit of each log; none if this witness does not audit.
    audits: BTreeMap<String, Audit>,
    /// By origin, the latest cosigned note. Held while it is read, decided on and replaced.
    cosigned: Mutex<BTreeMap<String, String>>,
    /// By kind and log, when the operator was last told of evidence. Held while it is written: the same may come twice at a time.
    evidence: Mutex<BTreeMap<String, Instant>>,
    _lock: File,
}

/// The key of a log, and where an auditing witness reads it.
pub type WitnessedLog = (VerifierKey, Option<String>);

/// The latest cosigned checkpoint of each log, with the key and the checkpoint of a request that passed.
type Judged<'f> = (
    MutexGuard<'f, BTreeMap<String, String>>,
    &'f VerifierKey,
    Checkpoint,
);

/// Why no cosignature was made.
#[derive(Debug)]
pub(super) enum NotCosigned {
    Refused(WitnessRefusal),
    /// The log lies, as it says.
    Lie(String),
    /// The log is not read to its end yet, or cannot be read.
    Unaudited(String),
    /// The disk failed, in a sentence for the operator.
    Failed(String),
}

impl From<WitnessRefusal> for NotCosigned {
    fn from(why: WitnessRefusal) -> Self {
        Self::Refused(why)
    }
}

impl WitnessFolder {
    /// Makes the folder of a new witness with this key, whole or not at all. One that `audits` has the address of each log.
    ///
    /// # Errors
    /// A sentence for the operator: the folder exists, or cannot be made.
    pub fn make(
        path: &Path,
        key: &LedgerKey,
        logs: &[WitnessedLog],
        audits: bool,
    ) -> Result<(), String> {
        let shown = path.display();
        let fail = |e: io::Error| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{shown} exists; name a folder that does not, or serve that witness")
            }
            _ => format!("the folder {shown} cannot be made: {e}"),
        };
        if path.exists() {
            return Err(fail(io::ErrorKind::AlreadyExists.into()));
        }
        let mut making = path.as_os_str().to_owned();
        making.push(format!(".{:016x}", u64::from_le_bytes(entropy::bytes())));
        let making = PathBuf::from(making);
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&making).map_err(fail)?;
        key.save(&making.join("key"))?;
        let mut lines = match audits {
            true => "# The logs that this witness audits and cosigns: a verifier key, a space, and the log's address, a line each. ",
            false => "# The logs that this witness cosigns: a verifier key a line. ",
        }
        .to_owned()
            + "Restart the witness after a change.\n";
        lines.extend(logs.iter().map(|(key, address)| match address {
            Some(address) => format!("{key} {address}\n"),
            None => format!("{key}\n"),
        }));
        replace(&making, "logs", lines.as_bytes()).map_err(fail)?;
        replace(&making, "cosigned", b"{}\n").map_err(fail)?;
        if audits {
            builder.create(making.join(AUDITS)).map_err(fail)?;
        }
        fs::rename(&making, path).map_err(fail)?;
        private::sync(private::folder(path)).map_err(fail)
    }

    /// Opens the folder of a witness, and checks all that it holds. `auditor` reads the logs of one that audits.
    ///
    /// # Errors
    /// A sentence for the operator: a file is missing, damaged or in use by another process.
    pub fn open(
        path: &Path,
        auditor: impl Fn(&AuditedLog) -> Result<Arc<dyn LogAuditor>, String>,
    ) -> Result<Self, String> {
        let shown = path.display();
        let at = |name: &str| path.join(name).display().to_string();
        let cosigner = cosigner(path)?;
        let lock = private::options()
            .create(true)
            .append(true)
            .open(path.join("lock"));
        let lock = lock.map_err(|e| format!("the lock {} cannot be taken: {e}", at("lock")))?;
        take(&lock).map_err(|e| match e {
            TryLockError::WouldBlock => {
                format!("another process is the witness of {shown}; stop it first")
            }
            TryLockError::Error(e) => format!("the lock {} cannot be taken: {e}", at("lock")),
        })?;
        let read = |name: &str| {
            let file = at(name);
            fs::read_to_string(path.join(name)).map_err(|e| match (name, e.kind()) {
                ("cosigned", io::ErrorKind::NotFound) => format!(
                    "{file} is missing, so this witness no longer knows what it has cosigned and could vouch for a forked log. \
                     Put the file back; if it is lost, make a new witness and tell the logs its key"
                ),
                _ => format!("{file} cannot be read: {e}"),
            })
        };
        let logs = keys(&read("logs")?)
            .map_err(|(line, why)| format!("{}, line {line}: {why}", at("logs")))?;
        let audits =
            audits(path, &logs, auditor).map_err(|why| format!("{}: {why}", at("logs")))?;
        let logs = logs.into_iter().map(|(key, _)| key).collect();
        let text = read("cosigned")?;
        let damaged = |why: String| {
            format!(
                "{} is damaged: {why}. Put back the file as it was",
                at("cosigned")
            )
        };
        let cosigned: BTreeMap<String, String> =
            serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        for (origin, note) in &cosigned {
            (cosigner.verifier().verify(note))
                .map_err(|why| damaged(format!("of log {origin}, {why}")))?;
            if note.split('\n').next() != Some(origin) {
                return Err(damaged(format!(
                    "the checkpoint of log {origin} is of another log"
                )));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            cosigner,
            logs,
            audits,
            cosigned: Mutex::new(cosigned),
            evidence: Mutex::default(),
            _lock: lock,
        })
    }

    /// The key of the witness of a folder, which may be in use.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn key(path: &Path) -> Result<CosignerKey, String> {
        Ok(cosigner(path)?.verifier())
    }

    /// The key that checks this witness's cosignatures.
    #[must_use]
    pub fn verifier(&self) -> CosignerKey {
        self.cosigner.verifier()
    }

    /// The logs that it witnesses.
    #[must_use]
    pub fn logs(&self) -> &[VerifierKey] {
        &self.logs
    }

    /// Carries out a request to add a checkpoint. Returns the signature line. Blocks until the disk has it.
    pub(super) fn add_checkpoint(
        &self,
        body: &[u8],
        now: Timestamp,
    ) -> Result<String, NotCosigned> {
        let request = parsed(body)?;
        let (mut cosigned, key, checkpoint) = self.judged(&request)?;
        // The specification does not allow a time of 0.
        let time = u64::try_from(now.ms() / 1000).unwrap_or_default().max(1);
        // Without the signatures of others, which this witness has not checked.
        let alone = key.alone(&request.note);
        let note = alone.map_err(|why| NotCosigned::Failed(why.to_string()))?;
        let text = note.split_once("\n\n").map_or("", |(text, _)| text);
        let line = self.cosigner.cosign(&format!("{text}\n"), time);
        let note = note + &line;
        let origin = checkpoint.origin;
        let before = cosigned.insert(origin.clone(), note);
        if let Err(why) = self.store(&cosigned) {
            // The file may hold either; nothing that contradicts either of them was given out.
            match before {
                Some(before) => cosigned.insert(origin, before),
                None => cosigned.remove(&origin),
            };
            return Err(NotCosigned::Failed(why));
        }
        Ok(line)
    }

    /// What is to be audited before this request is carried out: the checkpoint and its signed text. `None` if this witness does not
    /// audit. Blocks.
    pub(super) fn to_audit(
        &self,
        body: &[u8],
    ) -> Result<Option<(Checkpoint, String)>, NotCosigned> {
        if self.audits.is_empty() {
            return Ok(None);
        }
        let request = parsed(body)?;
        let (cosigned, key, checkpoint) = self.judged(&request)?;
        drop(cosigned);
        let alone = key.alone(&request.note);
        let note = alone.map_err(|why| NotCosigned::Failed(why.to_string()))?;
        Ok(Some((checkpoint, note)))
    }

    /// Audits a log up to a checkpoint.
    pub(super) async fn audited(
        self: &Arc<Self>,
        log: (Checkpoint, String),
    ) -> Result<(), NotCosigned> {
        match self.audits.get(&log.0.origin) {
            Some(audit) => audit.reach(self, log).await,
            None => Ok(()),
        }
    }

    /// Decides on a request. Returns what was cosigned, which nobody changes meanwhile.
    fn judged(&self, request: &AddCheckpoint) -> Result<Judged<'_>, NotCosigned> {
        let cosigned = self.cosigned();
        let latest = |key: &VerifierKey| {
            let note = cosigned.get(key.name())?;
            Checkpoint::parse(&note[..=note.find("\n\n")?]).ok()
        };
        match judge(request, &self.logs, latest) {
            Ok((key, checkpoint)) => Ok((cosigned, key, checkpoint)),
            Err(why) => {
                if why.is_evidence() {
                    let latest = latest_of(request, &cosigned);
                    drop(cosigned);
                    self.keep(request, latest.as_deref(), &why);
                }
                Err(why.into())
            }
        }
    }

    /// The latest cosigned checkpoint of the log whose origin has this SHA-256 hash, in lower-case hex.
    pub(super) fn checkpoint(&self, hash: &str) -> Option<String> {
        let hash: Hash = hash.parse().ok()?;
        let cosigned = self.cosigned();
        let found = cosigned
            .iter()
            .find(|(origin, _)| Hash::of(origin.as_bytes()) == hash);
        found.map(|(_, note)| note.clone())
    }

    fn store(&self, cosigned: &BTreeMap<String, String>) -> Result<(), String> {
        let mut text = serde_json::to_vec_pretty(cosigned).map_err(|e| e.to_string())?;
        text.push(b'\n');
        replace(&self.path, "cosigned", &text).map_err(|e| {
            format!(
                "{} cannot be written: {e}",
                self.path.join("cosigned").display()
            )
        })
    }

    /// Keeps a checkpoint that is not shown to continue the last one, and says so if it is new. Anybody can send a genuine
    /// checkpoint with a wrong proof, so forks, which nobody but the log can make, have room of their own. Failing to keep one
    /// changes no answer.
    fn keep(&self, request: &AddCheckpoint, latest: Option<&str>, why: &WitnessRefusal) {
        let (text, _) = request.note.split_once("\n\n").unwrap_or_default();
        let origin = text.split('\n').next().unwrap_or_default();
        let is_fork = matches!(why, WitnessRefusal::OtherRoot { .. });
        let kind = if is_fork { "fork" } else { UNPROVEN };
        let bytes = format!(
            "{why}\n\n--- request ---\n{request}\n--- cosigned before ---\n{}",
            latest.unwrap_or("nothing\n")
        );
        let (file, kept) = self.evidence((kind, origin, text), &bytes);
        match kept {
            Ok(true) if is_fork => tracing::error!(
                "the log {origin} is forked: it has signed two checkpoints that contradict each other. Both are kept in {}",
                file.display()
            ),
            Ok(true) => tracing::warn!(
                "a checkpoint of the log {origin} came without a proof that it continues the one cosigned last: {why}. It is kept in \
                 {}",
                file.display()
            ),
            Ok(false) => {}
            Err(e) => tracing::error!("{} cannot be written: {e}", file.display()),
        }
    }

    /// Keeps the checkpoint of a log that lies, with the one under which it was read before, and says so if it is new. Failing to
    /// keep it changes no answer.
    pub(super) fn keep_lie(&self, origin: &str, note: &str, (why, audited): (&str, &str)) {
        let cosigned = self.cosigned().get(origin).cloned();
        let bytes = format!(
            "{why}\n\n--- checkpoint ---\n{note}\n--- read before under ---\n{audited}\n--- cosigned before ---\n{}",
            cosigned.as_deref().unwrap_or("nothing\n")
        );
        let (file, kept) = self.evidence(("lie", origin, why), &bytes);
        match kept {
            Ok(true) => tracing::error!(
                "the log {origin} lies: {why}. It is not cosigned any more. Its signed checkpoint is kept in {}",
                file.display()
            ),
            Ok(false) => {}
            Err(e) => tracing::error!(
                "the log {origin} lies: {why}. {} cannot be written: {e}",
                file.display()
            ),
        }
    }

    /// Writes evidence against a log, unless it is there, in place of the oldest if there is enough of its kind. Returns its file, and
    /// whether the operator must be told of it.
    fn evidence(
        &self,
        (kind, origin, text): (&str, &str, &str),
        bytes: &str,
    ) -> (PathBuf, io::Result<bool>) {
        let short = |text: &str| Hash::of(text.as_bytes()).to_string()[..16].to_owned();
        let of_log = format!("{kind}-{}-", short(origin));
        let name = format!("{of_log}{}", short(text));
        let folder = self.path.join("forks");
        let mut told = (self.evidence.lock()).unwrap_or_else(PoisonError::into_inner);
        let kept = fs::create_dir_all(&folder).and_then(|()| {
            if folder.join(&name).exists() {
                return Ok(false);
            }
            let held = fs::read_dir(&folder)?.flatten();
            let held = held.filter(|file| file.file_name().to_string_lossy().starts_with(&of_log));
            let aged = held.filter_map(|file| {
                let written = file.metadata().and_then(|about| about.modified());
                Some((written.ok()?, file.path()))
            });
            let mut held: Vec<_> = aged.collect();
            held.sort();
            let written = match kind {
                // Anybody can have one written with every request, so no disk is made to flush it.
                UNPROVEN => place(&folder, &name, bytes.as_bytes()),
                // The folder may be new.
                _ => replace(&folder, &name, bytes.as_bytes())
                    .and_then(|()| private::sync(&self.path)),
            };
            let surplus = (held.len() + usize::from(written.is_ok())).saturating_sub(FORKS);
            for (_, oldest) in held.iter().take(surplus) {
                // The evidence is kept; one file too many does no harm.
                let _ = fs::remove_file(oldest);
            }
            written?;
            let now = Instant::now();
            let lately = |at: &Instant| now.saturating_duration_since(*at) < TELL_AGAIN;
            let is_told = !told.get(&of_log).is_some_and(lately);
            if is_told {
                told.insert(of_log, now);
            }
            Ok(is_told)
        });
        (folder.join(&name), kept)
    }

    fn cosigned(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.cosigned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cosigner(path: &Path) -> Result<Cosigner, String> {
    let key = LedgerKey::load(&path.join("key"))?.ok_or_else(|| {
        let shown = path.display();
        format!("{shown} holds no witness: it has no key. Make one with `bookguard witness init`")
    })?;
    key.cosigner()
}

/// The note cosigned last of the log that a request names.
fn latest_of(request: &AddCheckpoint, cosigned: &BTreeMap<String, String>) -> Option<String> {
    let origin = request.note.split('\n').next()?;
    cosigned.get(origin).cloned()
}

fn parsed(body: &[u8]) -> Result<AddCheckpoint, NotCosigned> {
    let text = str::from_utf8(body).map_err(|_| WitnessRefusal::Request("it must be UTF-8"))?;
    Ok(AddCheckpoint::parse(text)?)
}

/// The audit of each log, if the folder is that of an auditing witness.
fn audits(
    path: &Path,
    logs: &[WitnessedLog],
    auditor: impl Fn(&AuditedLog) -> Result<Arc<dyn LogAuditor>, String>,
) -> Result<BTreeMap<String, Audit>, String> {
    let folder = path.join(AUDITS);
    let is_auditing = folder.is_dir();
    let mut audits = BTreeMap::new();
    for (key, address) in logs {
        let origin = key.name().to_owned();
        match (is_auditing, address) {
            (false, None) => {}
            (true, Some(address)) => {
                let log = AuditedLog {
                    file: folder.join(format!("{}.db", Hash::of(origin.as_bytes()))),
                    origin: origin.clone(),
                    address: address.clone(),
                };
                audits.insert(origin, Audit::new(auditor(&log)?));
            }
            (true, None) => {
                return Err(format!(
                    "this witness audits, so it must know where the log {origin} is: write its address after its key"
                ));
            }
            (false, Some(_)) => {
                return Err(format!(
                    "the log {origin} has an address, but this witness does not audit, and its key never stands for that: make an \
                     auditing witness with `bookguard witness init --audit`"
                ));
            }
        }
    }
    Ok(audits)
}

/// Reads verifier keys, one a line, each with the log's address if there is one. The error is the number of the line and what is
/// wrong with it.
fn keys(text: &str) -> Result<Vec<WitnessedLog>, (usize, String)> {
    let mut keys: Vec<WitnessedLog> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, address) = match line.split_once(char::is_whitespace) {
            Some((key, address)) => (key, Some(address.trim().to_owned())),
            None => (line, None),
        };
        let key: VerifierKey = key.parse().map_err(|why| (number, format!("{why}")))?;
        if keys.iter().any(|(other, _)| other.name() == key.name()) {
            return Err((number, "another line has a key of the same log".to_owned()));
        }
        keys.push((key, address));
    }
    Ok(keys)
}

/// Makes a file as a whole, for its owner alone. The system decides when it is on the disk.
fn place(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let draft = folder.join(format!("{name}.new"));
    let mut options = private::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .open(&draft)?;
    let placed = file
        .write_all(bytes)
        .and_then(|()| fs::rename(&draft, folder.join(name)));
    if placed.is_err() {
        let _ = fs::remove_file(&draft);
    }
    placed
}

/// Replaces a file as a whole, for its owner alone; returns once it is on the disk.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    private::place(private::options(), folder, name, bytes)?;
    private::sync(folder)
}
