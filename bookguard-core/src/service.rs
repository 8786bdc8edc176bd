//! The service: one store, one writer, one log. Frontends call everything through it.

mod config;
mod open;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot::{self, error::RecvError};

use crate::clock::Clock;
use crate::engine::answers::{ForgetAnswers, ProbeStorage};
use crate::engine::command::{Command, CommandOutcome, Envelope};
use crate::engine::lease::{self, Node};
use crate::engine::outbox::Outbox;
use crate::engine::presence::Presence;
use crate::engine::waiting::Waiting;
use crate::engine::writer::Inbox;
use crate::erasure_list::ErasureList;
use crate::error::Error;
use crate::ledger::Signer;
use crate::ledger::rollback::{Rollback, RollbackCause};
use crate::ledger::tile::UpperNodes;
use crate::ledger::trust::TrustPolicy;
use crate::log::Log;
use crate::model::{ApiKeyId, PartnerId, Timestamp};
use crate::packets::Packets;
use crate::policy::PolicySet;
use crate::policy_cache::PolicyCache;
use crate::seal::Seal;
use crate::storage::Storage;
use crate::store::backup::WatchedFolder;
use crate::store::fsck::{self, LedgerReport};
use crate::store::read::Reader;
use crate::store::{LiveNode, Store, StoreError, StoredHead};
pub use config::{
    AddressRefused, EndpointRule, OpenError, RegistrationMode, ServiceConfig, SettingInForce,
};

/// A running service.
pub struct Service {
    config: ServiceConfig,
    store: Store,
    inbox: Inbox,
    seal: Seal,
    log: Arc<Log>,
    /// Whether the database was rolled back when what it owes was last looked up. Locked meanwhile: others wait for what is found.
    rolled_back: Mutex<bool>,
    storage: Arc<Storage>,
    begun: Option<String>,
    unguarded: Option<String>,
    database: String,
    backups: Option<WatchedFolder>,
    policy_cache: PolicyCache,
    packets: Arc<Packets>,
    upper_nodes: UpperNodes,
    news: Arc<Waiting<PartnerId>>,
    presence: Presence,
    /// The entries of the log in which other processes' erasures were looked for.
    followed: AtomicU64,
}

/// Joins the writer after the last [`Service`] was dropped. Then the store is closed.
pub struct Closing(JoinHandle<()>);

impl Closing {
    /// Waits until every command handed to the writer is done.
    pub fn wait(self) {
        let _ = self.0.join();
    }
}

impl Service {
    /// Hands a command to the writer.
    ///
    /// # Errors
    /// `busy` if too many commands wait; `unavailable` if the writer has ended.
    pub fn submit<R: Send + 'static>(
        &self,
        command: Envelope<R>,
    ) -> Result<oneshot::Receiver<CommandOutcome<R>>, Error> {
        self.inbox.submit(command)
    }

    /// Hands over a command, waiting for room in the inbox and then for the outcome.
    ///
    /// # Errors
    /// The command's; `unavailable` if the writer has ended.
    pub async fn submit_patiently<R: Send + 'static>(
        &self,
        command: Envelope<R>,
    ) -> CommandOutcome<R> {
        Self::outcome(self.enqueue(command).await?).await
    }

    /// Hands over a command, waiting for room in the inbox but not for the outcome.
    ///
    /// # Errors
    /// `unavailable` if the writer has ended.
    pub async fn enqueue<R: Send + 'static>(
        &self,
        command: Envelope<R>,
    ) -> Result<oneshot::Receiver<CommandOutcome<R>>, Error> {
        self.inbox.submit_patiently(command).await
    }

    /// Hands over a command and waits for its outcome. Blocks.
    ///
    /// # Errors
    /// Those of [`Self::submit`] and [`Self::outcome`].
    pub fn submit_and_wait<R: Send + 'static>(&self, command: Envelope<R>) -> CommandOutcome<R> {
        let outcome = self.submit(command)?.blocking_recv();
        outcome.unwrap_or_else(|_| Err(writer_gone()))
    }

    /// Wraps a command as received now.
    pub fn envelope<R>(&self, command: impl Command<Reply = R>) -> Envelope<R> {
        Envelope::new(self.config.clock.now(), command)
    }

    /// Awaits the outcome of a command.
    ///
    /// # Errors
    /// The command's; `unavailable` if the writer has ended.
    pub async fn outcome<R>(
        receiver: impl Future<Output = Result<CommandOutcome<R>, RecvError>>,
    ) -> CommandOutcome<R> {
        receiver.await.unwrap_or_else(|_| Err(writer_gone()))
    }

    /// The number of commands that wait for the writer.
    pub fn waiting_commands(&self) -> usize {
        self.inbox.waiting()
    }

    /// Checks that the writer is running.
    ///
    /// # Errors
    /// `unavailable` if it is not.
    pub fn require_writer(&self) -> Result<(), Error> {
        if self.inbox.is_open() {
            Ok(())
        } else {
            Err(writer_gone())
        }
    }

    /// This node's knowledge of its storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Measures the free disk space, probes whether writing works if that is unknown or the database was replaced, and reports
    /// states that have ended. Call this twice a second. Blocks for as long as a write takes.
    pub fn watch_storage(&self) {
        self.storage.measured(self.store.free_bytes());
        if self.storage.wants_probe() || !self.store.is_in_place() {
            let probe = self.envelope(ProbeStorage);
            // The writer notes the result. If its inbox is full, it is busy with writes that prove as much.
            let _ = self.submit(probe).map(oneshot::Receiver::blocking_recv);
        }
        self.storage.tell_ended();
    }

    /// A reader of the store. Blocks while all readers are taken.
    ///
    /// # Errors
    /// `erasures_pending`, `unavailable`.
    pub fn reader(&self) -> Result<Reader<'_>, Error> {
        self.follow_guard()?;
        match self.owes_erasures() {
            true => Err(Error::erasures_pending()),
            false => self.reader_anyway(),
        }
    }

    /// Runs `ask` on a reader. Blocks while all readers are taken.
    ///
    /// # Errors
    /// `erasures_pending`, `unavailable`.
    pub(crate) fn ask<T>(
        &self,
        ask: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError>,
    ) -> Result<T, Error> {
        let mut reader = self.reader()?;
        ask(&mut reader).map_err(|e| self.fault(&e))
    }

    /// Looks up whether erasures are owed if the guard has changed its mind about the database.
    ///
    /// # Errors
    /// `erasures_pending` if that cannot be looked up.
    fn follow_guard(&self) -> Result<(), Error> {
        let mut looked_up = (self.rolled_back.lock()).unwrap_or_else(PoisonError::into_inner);
        let rolled_back = self.log.guard().is_rolled_back();
        if *looked_up == rolled_back {
            return Ok(());
        }
        // For as long as that cannot be looked up, nothing is shown.
        self.erasures().owe(true);
        *looked_up = rolled_back;
        self.look_at_erasures().map_err(|why| {
            tracing::error!("{why}");
            Error::erasures_pending()
        })
    }

    /// Finds out whether the database has the last erasure of the list. If it has, it has those before it.
    pub(crate) fn look_at_erasures(&self) -> Result<(), String> {
        let mut conn = self.store.reader().map_err(|e| e.to_string())?;
        self.log.look_at_erasures(&mut *conn)
    }

    /// Whether the database may hold values that the list says were erased.
    pub fn owes_erasures(&self) -> bool {
        self.erasures().is_owed()
    }

    /// Says that everything on the list was erased.
    pub(crate) fn erasures_settled(&self) {
        self.erasures().owe(false);
    }

    /// The list of erasures.
    pub fn erasures(&self) -> &ErasureList {
        self.log.erasures()
    }

    /// As [`Self::reader`], also while the database holds what was erased: for those who show none of it.
    pub(crate) fn reader_anyway(&self) -> Result<Reader<'_>, Error> {
        let conn = self.store.reader().map_err(|e| self.fault(&e))?;
        Ok(Reader::new(conn, &self.seal, self.log.guard().seen()))
    }

    /// Notes the head that `reader` sees, which is about to be shown, unless the database is rolled back.
    pub(crate) fn publish(
        &self,
        reader: &mut Reader<'_>,
        head: &StoredHead,
    ) -> Result<Option<Rollback>, Error> {
        reader.publish(&self.log, head).map_err(|e| self.fault(&e))
    }

    /// As [`Self::publish`], for a head that is shown with its signature. A database that lost entries still shows what was
    /// published of it; one with others in their place would contradict that.
    ///
    /// # Errors
    /// `ledger_rolled_back`, `unavailable`.
    pub(crate) fn publish_signed(
        &self,
        reader: &mut Reader<'_>,
        head: &StoredHead,
    ) -> Result<(), Error> {
        match self.publish(reader, head)? {
            Some(rollback) if rollback.cause == RollbackCause::Forked => {
                Err(Error::ledger_forked())
            }
            _ => Ok(()),
        }
    }

    /// Whether the database is certainly this ledger's and lacks what this node knows to be published.
    pub(crate) fn is_certain(&self, stored: &StoredHead, lost: &Rollback) -> bool {
        let signer = self.log.signer(&stored.origin);
        let is_ours = signer.is_ok_and(|signer| signer.verifier().to_string() == stored.vkey);
        is_ours && self.log.guard().is_certain(lost)
    }

    /// What the database lacks of the published log, if anything.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    pub fn rollback(&self) -> Result<Option<Rollback>, Error> {
        let mut reader = self.reader_anyway()?;
        let head = reader.head().map_err(|e| self.fault(&e))?;
        self.publish(&mut reader, &head)
    }

    /// The loss that nobody can measure: the guard was lost together with the database, and this is what was put back.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    pub fn unknown_loss(&self) -> Result<Rollback, Error> {
        let mut reader = self.reader_anyway()?;
        let found = reader.head().map_err(|e| self.fault(&e))?.seen();
        Ok(Rollback {
            seen: found.clone(),
            found,
            cause: RollbackCause::GuardLost,
            is_noted: false,
        })
    }

    /// The guard's file, which remembers the head last published.
    pub fn guard_file(&self) -> &Path {
        self.log.guard().path()
    }

    /// Flushes the guard's file, if it changed. Blocks for as long as the disk takes. Call this about every second.
    pub fn sync_guard(&self) {
        self.log.guard().sync();
    }

    /// Drops cached packets that are too old to be an answer. Call this about every second.
    pub fn forget_old_packets(&self) {
        self.packets.forget_old(self.config.clock.now());
    }

    /// The cache of the log's upper nodes, for proofs.
    pub(crate) fn upper_nodes(&self) -> &UpperNodes {
        &self.upper_nodes
    }

    /// Where deliveries wait to be sent, if this process sends any.
    pub(crate) fn outbox(&self) -> Option<&Outbox> {
        self.config.outbox.as_deref()
    }

    /// The number of the log's entries in which other processes' erasures were looked for.
    pub(crate) fn followed(&self) -> &AtomicU64 {
        &self.followed
    }

    /// The cache of evidence packets.
    pub(crate) fn packets(&self) -> &Packets {
        &self.packets
    }

    /// The policies of a partner as this node remembers them, which may be outdated.
    pub(crate) fn remembered_policy_set(&self, partner_id: &PartnerId) -> Option<Arc<PolicySet>> {
        self.policy_cache.get(partner_id)
    }

    /// The current policies of a partner. Blocks.
    pub(crate) fn policy_set(&self, partner_id: PartnerId) -> Result<Arc<PolicySet>, Error> {
        let policy_set = Arc::new(self.ask(|reader| reader.policy_set(&partner_id))?);
        self.policy_cache.keep(partner_id, &policy_set);
        Ok(policy_set)
    }

    /// Turns a store error into the caller's error, and reports its cause, unless that was reported lately.
    pub fn fault(&self, error: &StoreError) -> Error {
        self.storage.read_failed(error);
        Error::unavailable("The store does not answer at present. Try again.")
    }

    /// A new lease name, for the deliveries that one command takes for this node.
    pub fn lease(&self) -> i64 {
        lease::draw(self.presence.holder())
    }

    /// Registers this node, so that others notice its end. Returns the nodes that are gone and held deliveries, or
    /// `None` if leases are only taken back when they end. Call this every half second. Blocks.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    pub fn gone(&self) -> Result<Option<Vec<Node>>, Error> {
        let holders = || Reader::new(self.store.reader()?, &self.seal, None).holders();
        self.presence.look(holders).map_err(|e| self.fault(&e))
    }

    /// The number by which other nodes know this one, once it has registered itself ([`Self::gone`]).
    pub fn node(&self) -> Node {
        self.presence.own()
    }

    /// The nodes on the database; `None` if the engine keeps no registry, as for a file. Blocks.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    pub fn nodes(&self) -> Result<Option<Vec<LiveNode>>, Error> {
        self.presence.nodes().map_err(|e| self.fault(&e))
    }

    /// Deletes a thousand expired remembered answers; returns whether there may be more. Call this now and then. Blocks.
    ///
    /// # Errors
    /// `erasures_pending`; `unavailable` if the store does not answer; and the writer's.
    pub fn forget_expired_answers(&self) -> Result<bool, Error> {
        let at = self.config.clock.now();
        let expired = self.ask(|reader| reader.has_expired_answers(at))?;
        if expired {
            self.submit_and_wait(Envelope::new(at, ForgetAnswers))?;
        }
        Ok(expired)
    }

    /// Stores when keys were used. Blocks. A failure costs only the knowledge of a few uses.
    ///
    /// # Errors
    /// As listed by [`StoreError`].
    pub fn note_key_uses(&self, uses: &[(ApiKeyId, Timestamp)]) -> Result<(), StoreError> {
        self.store.note_key_uses(uses)
    }

    /// Checks the whole database against its ledger, on one snapshot, while the service runs. Takes as long as reading
    /// and hashing everything. A `backup` may lack entries that were published after it was made. `progress` receives
    /// the steps done and the total.
    ///
    /// # Errors
    /// If the engine cannot read the database, or it cannot be reached. Any other damage is in the report.
    pub fn verify_ledger(
        &self,
        backup: bool,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<LedgerReport, StoreError> {
        let moment = (self.config.clock.now(), backup);
        fsck::verify(&self.store, &self.seal, &self.log, moment, &mut progress)
    }

    /// The milliseconds by which this node's clock is ahead of the database machine's clock, negative if it is behind;
    /// `None` if both are the same machine. Blocks.
    ///
    /// # Errors
    /// `unavailable` if the database does not answer.
    pub fn clock_ahead_ms(&self) -> Result<Option<i64>, Error> {
        let before = self.config.clock.now().ms();
        let there = self.store.now_ms().map_err(|e| self.fault(&e))?;
        let after = self.config.clock.now().ms();
        Ok(there.map(|there| before + (after - before) / 2 - there))
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.config.clock
    }

    /// A message for the operator if there was no guard, so that nobody knows whether the database lacks published entries.
    pub fn unguarded(&self) -> Option<&str> {
        self.unguarded.as_deref()
    }

    /// A message for the operator if this service has just begun the log and made its key. It must be shown once.
    pub fn begun(&self) -> Option<&str> {
        self.begun.as_deref()
    }

    /// The head of the log, with its name, which changes when a loss is accepted.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    pub fn head(&self) -> Result<StoredHead, Error> {
        let mut reader = self.reader_anyway()?;
        reader.head().map_err(|e| self.fault(&e))
    }

    /// The configuration with which it was opened, without the source of the ledger key.
    pub fn config(&self) -> &ServiceConfig {
        &self.config
    }

    /// The address at which partners reach the service.
    pub fn public_url(&self) -> &str {
        &self.config.public_url
    }

    /// The address at which the operator reaches its console; `None` if there is no operator interface.
    pub fn operator_url(&self) -> Option<&str> {
        self.config.operator_url.as_deref()
    }

    /// The database, without a password.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The folder in which backups are kept, if it is known.
    pub fn backups(&self) -> Option<&WatchedFolder> {
        self.backups.as_ref()
    }

    /// The witnesses that cosign the log's checkpoints, if any are set.
    pub fn witnesses(&self) -> Option<&Arc<TrustPolicy>> {
        self.config.witnesses.as_ref()
    }

    /// Those who wait for a partner's next event. They are told of events that this process commits.
    pub fn news(&self) -> &Waiting<PartnerId> {
        &self.news
    }

    /// The seal of secrets at rest.
    pub fn seal(&self) -> &Seal {
        &self.seal
    }

    /// The signer with the log's key for a log of this name.
    pub(crate) fn signer(&self, origin: &str) -> Result<Arc<Signer>, Error> {
        (self.log.signer(origin)).map_err(|why| self.fault(&StoreError::Corrupt(why)))
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

fn writer_gone() -> Error {
    Error::unavailable(
        "The service is shutting down; whether this request was kept is not known. Repeat it with the same Idempotency-Key.",
    )
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;
