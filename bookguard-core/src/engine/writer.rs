//! The writer: drains its inbox, decides a batch of commands, and commits them as one transaction and one head.
//!
//! One commit carries every command that arrived during the last one, so durable writes are as fast as the disk allows.
//! An answer leaves only after COMMIT returned. If the outcome of a commit is unknown, every caller in the batch is
//! told so, and the next batch starts from what the database says. A batch that damaged rows or a panic end before its commit is
//! carried out command by command, so that only the commands at fault are refused.

mod pace;
mod queue;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::engine::batch::{BatchState, PartnerState};
use crate::engine::change::{Change, Entry, EventRow};
use crate::engine::command::{CommandOutcome, Envelope, Head, LeasedDelivery};
use crate::engine::needs::Needs;
use crate::engine::outbox::Outbox;
use crate::engine::waiting::Waiting;
use crate::error::Error;
use crate::ledger::rollback::PublishedHead;
use crate::ledger::{Checkpoint, Hash, Signer, Tree};
use crate::limits;
use crate::log::Log;
use crate::model::{AuditId, BookingId, EventId, PartnerId, Quota, Timestamp};
use crate::packets::Packets;
use crate::seal::Seal;
use crate::storage::Storage;
use crate::store::commit::{Answered, Append, Writes, commit};
use crate::store::conn::{Conn, StoreError};
use crate::store::files::list_erasures;
use crate::store::load::begin;
use crate::store::{head, tree};
use pace::Pace;
use queue::{Queued, queued};

/// The number of turns after which a writer that met no other writer counts as alone. Until then, each turn also
/// fetches what it needs if the tree grew elsewhere, in the same flight.
const ALONE: u32 = 32;
/// How often a writer that ends tries to remove what it erased from beside the tables, and how long it waits before: a reader in the
/// way reads for milliseconds.
const SCRUB_TRIES: u32 = 40;
const SCRUB_WAIT: Duration = Duration::from_millis(25);
/// The most damage reports that are logged. `bookguard ledger verify` finds all damage.
const DAMAGE_REPORTED: usize = 100;

/// The sender of commands to the writer. Cheap to clone. The writer ends when the last clone is dropped.
#[derive(Clone)]
pub struct Inbox(mpsc::Sender<Box<dyn Queued>>);

impl Inbox {
    /// Hands over a command. The receiver yields its outcome once it is durable.
    ///
    /// # Errors
    /// `busy` if the inbox is full; `unavailable` if the writer has ended.
    pub fn submit<R: Send + 'static>(
        &self,
        asked: Envelope<R>,
    ) -> Result<oneshot::Receiver<CommandOutcome<R>>, Error> {
        let (job, receiver) = queued(asked);
        self.0.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::busy(),
            mpsc::error::TrySendError::Closed(_) => {
                Error::unavailable("The service is shutting down.")
            }
        })?;
        Ok(receiver)
    }

    /// The number of commands that wait for a batch.
    pub fn waiting(&self) -> usize {
        self.0.max_capacity() - self.0.capacity()
    }

    /// Whether the writer is running.
    pub fn is_open(&self) -> bool {
        !self.0.is_closed()
    }

    /// As [`Self::submit`], but waits for room. The courier uses it, because its results must not be lost to a full
    /// inbox.
    ///
    /// # Errors
    /// `unavailable` if the writer has ended.
    pub async fn submit_patiently<R: Send + 'static>(
        &self,
        asked: Envelope<R>,
    ) -> Result<oneshot::Receiver<CommandOutcome<R>>, Error> {
        let (job, receiver) = queued(asked);
        self.0
            .send(job)
            .await
            .map_err(|_| Error::unavailable("The service is shutting down."))?;
        Ok(receiver)
    }
}

/// Opens the writer's connection.
pub(crate) type Connect = Box<dyn Fn() -> Result<Box<dyn Conn>, StoreError> + Send>;

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchReport {
    /// The number of its commands.
    pub commands: usize,
    /// The time from asking for the write turn until the batch was durable or had failed; `None` if it committed nothing.
    pub commit: Option<Duration>,
}

/// Is told on the writer's thread how each batch ended, so it must not wait.
pub type BatchObserver = Arc<dyn Fn(BatchReport) + Send + Sync>;

/// The writer's dependencies.
pub struct WriterDeps {
    /// Opens a connection that takes the write turn: at the start, and again after a failure.
    pub(crate) connect: Connect,
    /// How long the first batch waits, so that whoever knows that the database lacks something has noted it there.
    pub hold_off: Duration,
    /// Signs checkpoints and remembers the published head.
    pub log: Arc<Log>,
    /// Seals remembered answers.
    pub seal: Seal,
    /// Receives new and claimed deliveries. Without an outbox, they wait in the store.
    pub outbox: Option<Arc<Outbox>>,
    /// Tells waiters about partners' new events.
    pub news: Arc<Waiting<PartnerId>>,
    /// What shows erased values is dropped from it.
    pub(crate) packets: Arc<Packets>,
    /// Is told how every batch ended.
    pub storage: Arc<Storage>,
    /// The quota of partners without one of their own.
    pub quota: Quota,
    /// Is told how every batch ended, for whoever measures.
    pub observer: BatchObserver,
}

/// Starts the writer's thread. It ends when every [`Inbox`] is dropped. Join it to know that the store is closed.
///
/// # Errors
/// If the first connection cannot be opened, or the thread cannot start.
pub fn start(deps: WriterDeps) -> Result<(Inbox, JoinHandle<()>), StoreError> {
    let (sender, jobs) = mpsc::channel(limits::INBOX);
    let conn = (deps.connect)()?;
    let mut writer = Writer {
        deps,
        conn: Some(conn),
        tree: Tree::empty(),
        origin: String::new(),
        alone: 0,
        to_scrub: true,
        erased: false,
        kept_at: 0,
        recorded: None,
        commits: false,
        reported_damage: HashSet::new(),
    };
    let thread = std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || writer.run(jobs))
        .map_err(|e| StoreError::Failed(format!("the writer's thread cannot start: {e}")))?;
    Ok((Inbox(sender), thread))
}

/// How a try to carry out a batch ended.
enum Ended {
    /// It is durable.
    Durable,
    /// The storage failed, and every caller is told so.
    Refused(Error),
    /// Nothing was kept, and its one command is to blame for it.
    Blamed(Error),
    /// Nothing was kept, and some of its commands may be to blame for it. Each is tried alone, so that no other one suffers for it.
    Mixed,
}

impl Ended {
    /// The error for every caller.
    fn refusal(&self) -> Option<&Error> {
        match self {
            Self::Refused(why) | Self::Blamed(why) => Some(why),
            Self::Durable | Self::Mixed => None,
        }
    }
}

struct Writer {
    deps: WriterDeps,
    /// Dropped after a failure, and reopened for the next batch.
    conn: Option<Box<dyn Conn>>,
    /// The tree at the last head this writer saw.
    tree: Tree,
    /// The log's name at that head.
    origin: String,
    /// The number of turns since another process moved the head.
    alone: u32,
    /// Whether what was overwritten may still be beside the tables. At the start, a process that died may have left some.
    to_scrub: bool,
    /// Whether this writer erased values.
    erased: bool,
    /// When a checkpoint was last kept for good, in milliseconds.
    kept_at: i64,
    /// The last record of the audit, by its time: one of the next batch may be of the same millisecond.
    recorded: Option<(Timestamp, AuditId)>,
    /// Whether the batch under way has come to its commit. From then on, some of it may be kept.
    commits: bool,
    /// The damage that was logged.
    reported_damage: HashSet<String>,
}

impl Writer {
    fn run(&mut self, mut jobs: mpsc::Receiver<Box<dyn Queued>>) {
        let mut batch = Vec::with_capacity(limits::BATCH);
        let mut pace = Pace::default();
        while jobs.blocking_recv_many(&mut batch, limits::BATCH) > 0 {
            std::thread::sleep(std::mem::take(&mut self.deps.hold_off));
            pace.gather(&mut jobs, &mut batch);
            let began = Instant::now();
            let mut ended = self.attempt(&mut batch);
            pace.note(batch.len(), jobs.len(), began.elapsed());
            for mut job in batch.drain(..) {
                if matches!(ended, Ended::Mixed) {
                    let alone = self.attempt(std::slice::from_mut(&mut job));
                    if !matches!(alone, Ended::Refused(_)) {
                        job.answer(alone.refusal());
                        continue;
                    }
                    // Now the storage fails. Whatever comes after would fail as well, and might wait as long for it.
                    ended = alone;
                }
                job.answer(ended.refusal());
            }
            self.keep_up(!jobs.is_empty());
        }
        self.deps.log.guard().sync();
        self.scrub_at_last();
    }

    /// Tries to carry out a batch as one transaction.
    fn attempt(&mut self, batch: &mut [Box<dyn Queued>]) -> Ended {
        let began = Instant::now();
        self.deps.storage.begins();
        self.commits = false;
        // A panic is our fault in one batch. The writer, and with it every later write, must survive it. The connection is
        // dropped by it, and its transaction with it.
        let executed = catch_unwind(AssertUnwindSafe(|| self.execute(batch)));
        let panicked = executed.is_err();
        let executed =
            executed.unwrap_or_else(|_| Err(StoreError::Failed("the writer panicked".to_owned())));
        // A batch that ends so before its commit was certainly not kept, and a single command may be at fault.
        let is_suspect = panicked || matches!(executed, Err(StoreError::Corrupt(_)));
        let is_suspect = is_suspect && !self.commits && !batch.iter().all(|job| job.is_probe());
        let is_blamed = is_suspect && self.is_sound();
        let ended = match &executed {
            Err(_) if is_blamed && batch.len() > 1 => Ended::Mixed,
            Err(cause) if is_blamed => Ended::Blamed(self.blame(cause)),
            Err(cause) => Ended::Refused(self.refusal(batch, cause)),
            Ok(_) => Ended::Durable,
        };
        if !matches!(ended, Ended::Mixed) {
            let wrote = !matches!(executed, Ok(false));
            (self.deps.observer)(BatchReport {
                commands: batch.len(),
                commit: wrote.then(|| began.elapsed()),
            });
        }
        self.deps.storage.ends();
        ended
    }

    /// Whether a batch without commands could be written. If so, what made another one fail is the fault of its commands, or of
    /// the rows that they need.
    fn is_sound(&mut self) -> bool {
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let mut conn = self.conn.take().map_or_else(|| (self.deps.connect)(), Ok)?;
            let (work, ..) = self.begin(&mut *conn, &[])?;
            let signer = self.deps.log.signer(&work.origin);
            conn.rollback();
            self.conn = Some(conn);
            signer.map_err(StoreError::Corrupt)
        }));
        matches!(looked, Ok(Ok(_)))
    }

    /// The error for the caller of a command that failed by itself. Writing works for everybody else, so the storage is
    /// not at fault.
    fn blame(&mut self, cause: &StoreError) -> Error {
        let why = match cause {
            StoreError::Corrupt(_) => format!("it needs data that cannot be read: {cause}"),
            _ => format!("{cause} over it, which is a fault in Bookguard"),
        };
        self.tell(format!(
            "a request was refused, and no other one with it, because {why}"
        ));
        Error::internal(why)
    }

    /// Tells the operator of damage, once: what the service itself asks for, it asks for again and again.
    fn tell(&mut self, damage: String) {
        if self.reported_damage.len() < DAMAGE_REPORTED && !self.reported_damage.contains(&damage) {
            tracing::error!("{damage}");
            self.reported_damage.insert(damage);
        }
    }

    /// Drops the cached packets of bookings whose values were erased. Later readers read what is left.
    fn forget_packets(&self, changes: &[Change]) {
        for booking_id in answers_erased(changes) {
            self.deps.packets.forget(booking_id);
        }
    }

    /// Removes what the engine keeps of overwritten values beside its tables, once values were erased. Erased is erased, whatever
    /// becomes of this: it is tried again after the next batch.
    fn scrub(&mut self, conn: &mut dyn Conn, changes: &[Change]) {
        // A partner is edited when its contract ends, and its name and contact are erased last.
        let erases = |change: &Change| {
            matches!(
                change,
                Change::EntryErased(_)
                    | Change::AnswersErased(_)
                    | Change::FileDeleted(_)
                    | Change::PartnerEdited(_)
            )
        };
        if changes.iter().any(erases) {
            (self.to_scrub, self.erased) = (true, true);
        }
        if self.to_scrub {
            self.to_scrub = !conn.scrub().unwrap_or(false);
        }
    }

    /// Scrubs again when the writer ends, if a reader was in the way: after a command line, no process may come for a long time.
    fn scrub_at_last(&mut self) {
        let Some(conn) = self.conn.as_mut().filter(|_| self.erased) else {
            return;
        };
        for _ in 0..SCRUB_TRIES {
            if !self.to_scrub {
                return;
            }
            std::thread::sleep(SCRUB_WAIT);
            self.to_scrub = !conn.scrub().unwrap_or(false);
        }
    }

    /// Lists what was erased, after what other nodes erased before. What cannot be listed now is listed later, from the ledger.
    fn list_erasures(&self, conn: &mut dyn Conn, changes: &[Change]) {
        let erasures = self.deps.log.erasures();
        if erasures.is_owed() || !erases(changes) {
            return;
        }
        if let Err(why) = list_erasures(conn, erasures) {
            tracing::error!("{why}");
        }
    }

    /// Lets the engine do its deferred work after a commit, when no caller waits for it.
    fn keep_up(&mut self, more: bool) {
        // If the disk hangs here, the next batch waits too.
        self.deps.storage.begins();
        let kept = self.conn.as_mut().map(|conn| conn.keep_up(more));
        self.deps.storage.ends();
        match kept {
            None | Some(Ok(false)) => {}
            Some(done) => self.deps.storage.kept_up(done.map(drop)),
        }
    }

    /// Runs one batch to its end, and returns whether it committed anything. If it fails, nothing of it is kept.
    fn execute(&mut self, batch: &mut [Box<dyn Queued>]) -> Result<bool, StoreError> {
        let mut conn = self.conn.take().map_or_else(|| (self.deps.connect)(), Ok)?;
        let done = self.transact(&mut *conn, batch);
        match &done {
            Ok(_) => self.conn = Some(conn),
            Err(_) => conn.rollback(),
        }
        done
    }

    /// The error for every caller in a failed batch.
    fn refusal(&self, batch: &[Box<dyn Queued>], cause: &StoreError) -> Error {
        let asked_for = batch.iter().filter(|job| !job.is_probe());
        self.deps.storage.refused(cause, asked_for.count());
        match cause {
            StoreError::Moved(_) => Error::ledger_moved(),
            StoreError::Newer { .. } => Error::schema_newer(),
            StoreError::Full => Error::storage_full(),
            StoreError::ReadOnly => Error::storage_read_only(),
            _ => Error::unavailable(
                "The store did not confirm the write. Repeat the request with the same Idempotency-Key: it will happen once.",
            ),
        }
    }

    fn transact(
        &mut self,
        conn: &mut dyn Conn,
        batch: &mut [Box<dyn Queued>],
    ) -> Result<bool, StoreError> {
        let (mut work, head, seen) = self.begin(conn, batch)?;
        let mut changes = Vec::new();
        let mut erased = Vec::new();
        for (index, job) in batch.iter_mut().enumerate() {
            let before = changes.len();
            job.decide(&mut work, index, &mut changes);
            erased
                .extend(answers_erased(&changes[before..]).map(|booking_id| (index, *booking_id)));
        }
        let leaves: Vec<Hash> = entries(&changes).map(|entry| entry.hash).collect();
        let mut tree = self.tree.clone();
        let tiles = tree.append(leaves.iter().copied());
        let to = Head {
            size: tree.size(),
            root: tree.root(),
        };
        let answers = self.complete(batch, &to, &erased);
        let now_seen = PublishedHead {
            origin: work.origin.clone(),
            size: to.size,
            root: to.root,
        };
        if changes.is_empty() && answers.is_empty() {
            // If a caller is told that something is done, it must be durable, even if an earlier request did it. A commit that is visible here
            // may still wait for its standby, and this commit waits for it too.
            let tells = batch.iter().any(|job| job.tells_a_caller());
            if tells {
                self.commits = true;
                // It writes nothing, so it does not show whether writing works.
                conn.commit(&[])?;
            } else {
                conn.rollback();
            }
            if work.rollback.is_none() {
                self.deps.log.note(seen.as_deref(), now_seen);
            }
            return Ok(tells);
        }
        let deliveries = deliveries(&work, &changes);
        let writes = Writes::collect(&changes, &work.partners, &self.deps.seal)?;
        let written = work.written.ms();
        let signer = (self.deps.log.signer(&work.origin)).map_err(StoreError::Corrupt)?;
        let append = (!leaves.is_empty()).then(|| self.sign(&signer, head, to, written));
        let append = append.as_ref().map(|(checkpoint, keep)| Append {
            from: head,
            to,
            log: (&work.origin, &work.vkey),
            tiles: &tiles,
            checkpoint,
            written,
            keep: *keep,
        });
        self.commits = true;
        commit(conn, &writes, &answers, append.as_ref())?;
        self.deps.storage.wrote();
        self.forget_packets(&changes);
        self.scrub(conn, &changes);
        self.list_erasures(conn, &changes);
        // Before anyone is told: what an answer says counts as published and is remembered, whatever becomes of the
        // database.
        if work.rollback.is_none()
            && let Some(ahead) = self.deps.log.note(seen.as_deref(), now_seen)
        {
            self.look_for(conn, &ahead)?;
        }
        if append.is_some_and(|append| append.keep) {
            self.kept_at = written;
        }
        self.tree = tree;
        self.origin = work.origin;
        self.recorded = work.recorded.pop_last();
        if let Some(outbox) = &self.deps.outbox {
            outbox.recall(recalled(&changes), work.written);
            outbox.hand_over(deliveries);
        }
        for change in &changes {
            if let Change::EventAdded(event) = change {
                self.deps.news.tell(&event.partner_id);
            }
        }
        Ok(true)
    }

    /// Takes the write turn and loads the rows that the batch can touch. Reloads the tree if another process moved the
    /// head. Also returns the head last seen, which the loaded head must continue.
    fn begin(
        &mut self,
        conn: &mut dyn Conn,
        batch: &[Box<dyn Queued>],
    ) -> Result<(BatchState, Head, Option<Arc<PublishedHead>>), StoreError> {
        let mut needs = Needs::default();
        batch.iter().for_each(|job| job.needs(&mut needs));
        needs.normalize();
        let shared = self.alone < ALONE;
        let (stored, growing, mut work) = begin(conn, &self.deps.seal, &needs, shared)?;
        for delivery in std::mem::take(&mut work.left_out) {
            let damage = StoreError::Corrupt(delivery);
            self.tell(format!("a webhook delivery is not sent: {damage}"));
        }
        let head = stored.head;
        if self.origin != stored.origin {
            self.origin.clone_from(&stored.origin);
            self.kept_at = 0;
        }
        if self.tree.size() != head.size || self.tree.root() != head.root {
            self.tree = match &growing {
                Some(growing) => tree::grown(growing, head)?,
                None => tree::load(conn, head)?,
            };
            self.alone = 0;
        }
        self.alone = self.alone.saturating_add(1);
        // Any head that was seen was committed in an earlier turn, so the head loaded in this turn includes it.
        let log = &self.deps.log;
        let seen = log.guard().latest();
        work.rollback = log.check(conn, Some(&self.tree), seen.as_deref(), &stored)?;
        log.guard().say(&stored.origin, work.rollback.as_ref());
        work.storage_low = self.deps.storage.is_low();
        work.quota = self.deps.quota;
        work.recorded.extend(self.recorded);
        if let Some(outbox) = &self.deps.outbox {
            let of = |partner: &PartnerState| {
                let partner_id = partner.partner.partner_id;
                outbox.rooms_at_birth(partner_id, &partner.endpoints)
            };
            work.room = work.partners.values().flat_map(of).collect();
        }
        Ok((work, head, seen))
    }

    /// Looks for a head that somebody else has published since this turn began: the next writer of this database, or the
    /// writer of a copy of it with the same guard. In a copy, this turn's entries have numbers that others were published
    /// under, and nobody may be told that they were kept.
    fn look_for(&self, conn: &mut dyn Conn, ahead: &PublishedHead) -> Result<(), StoreError> {
        let log = &self.deps.log;
        let stored = head(conn)?;
        let stored =
            stored.ok_or_else(|| StoreError::Corrupt("the log's head is gone".to_owned()))?;
        let rollback = log.check(conn, None, Some(ahead), &stored)?;
        if rollback.is_some() {
            log.guard().say(&stored.origin, rollback.as_ref());
            return Err(StoreError::Failed(
                "another database holds the same log, and other entries were published from there at the same moment"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Signs the checkpoint of the new head. Also returns whether to keep it: the first under a name is kept, and one
    /// per second in which the log grew.
    fn sign(&self, signer: &Signer, from: Head, to: Head, written: i64) -> (String, bool) {
        let renamed = signer.name() != self.origin;
        let keep = from.size == 0 || renamed || written - self.kept_at >= 1_000;
        (Checkpoint::sign(signer, to.size, to.root), keep)
    }

    /// Completes every reply with the head and returns the answers to remember. `erased` says which command erased the answers
    /// about which booking.
    fn complete(
        &self,
        batch: &mut [Box<dyn Queued>],
        head: &Head,
        erased: &[(usize, BookingId)],
    ) -> Vec<Answered> {
        let mut answers = Vec::new();
        for index in 0..batch.len() {
            let (before, rest) = batch.split_at_mut(index);
            let job = &mut rest[0];
            match job.twin() {
                Some(earlier) => job.replay(before.get(earlier).and_then(|job| job.body())),
                None => answers.extend(job.complete(head, &self.deps.seal).map(|mut answer| {
                    // An answer from before an erasure in this batch is written after it.
                    let is_gone = |(by, booking_id): &(usize, BookingId)| {
                        index < *by && answer.booking_id == Some(*booking_id)
                    };
                    if erased.iter().any(is_gone) {
                        answer.sealed.clear();
                    }
                    answer
                })),
            }
        }
        answers
    }
}

/// The bookings where these changes erase something.
fn answers_erased(changes: &[Change]) -> impl Iterator<Item = &BookingId> {
    changes.iter().filter_map(|change| match change {
        Change::AnswersErased(booking_id) => Some(booking_id),
        _ => None,
    })
}

/// Whether values of entries are erased by these changes.
fn erases(changes: &[Change]) -> bool {
    let is_erasure = |change: &Change| matches!(change, Change::EntryErased(_));
    changes.iter().any(is_erasure)
}

/// The events whose bodies an erasure among the changes takes. Beside an erasure, old ones may be pruned.
fn recalled(changes: &[Change]) -> Vec<EventId> {
    if !erases(changes) {
        return Vec::new();
    }
    let pruned = changes.iter().filter_map(|change| match change {
        Change::EventPruned(event_id, _) => Some(*event_id),
        _ => None,
    });
    pruned.collect()
}

fn entries(changes: &[Change]) -> impl Iterator<Item = &Entry> {
    changes.iter().filter_map(|change| match change {
        Change::Entry(entry) => Some(&**entry),
        _ => None,
    })
}

/// Returns every delivery that the batch leased.
fn deliveries(work: &BatchState, changes: &[Change]) -> Vec<LeasedDelivery> {
    let mut born: HashMap<EventId, &EventRow> = HashMap::new();
    let mut deliveries = Vec::new();
    for change in changes {
        match change {
            Change::EventAdded(event) => {
                born.insert(event.event_id, event);
            }
            Change::DeliveryAdded((event_id, endpoint_id), state)
            | Change::DeliveryUpdated((event_id, endpoint_id), state) => {
                let (Some(lease), Some(until)) = (state.lease, state.due) else {
                    continue;
                };
                let born = born.get(event_id).copied().cloned();
                let known = || work.events.get(event_id)?.row(*event_id);
                let Some(event) = born.or_else(known) else {
                    continue;
                };
                let partner_id = event.partner_id;
                let partner = work.partners.get(&partner_id);
                let endpoint = partner.and_then(|partner| partner.endpoint(endpoint_id));
                let per_second = work.limits.get(endpoint_id).copied();
                let per_second = per_second.or_else(|| endpoint.map(|e| e.rate_limit_per_second));
                let failures = work.health.get(endpoint_id).map(|health| health.failures);
                let failures = failures.or_else(|| endpoint.map(|e| e.failures));
                deliveries.push(LeasedDelivery {
                    event_id: *event_id,
                    partner_id,
                    endpoint_id: *endpoint_id,
                    booking_id: event.booking_id,
                    event_type: event.event_type,
                    seq: event.seq,
                    body: event.body,
                    lease,
                    until,
                    attempts: state.attempts,
                    begun: state.begun_at(event_id),
                    per_second: per_second.flatten(),
                    failing: failures.is_some_and(|failures| failures > 0),
                });
            }
            _ => {}
        }
    }
    deliveries
}

#[cfg(test)]
mod tests;
