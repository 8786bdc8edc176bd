//! The writer under faults that really happen to its connection.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::answers::ForgetAnswers;
use crate::engine::command::Written;
use crate::features::partners::{RegisterPartner, Registration};
use crate::guard::Guard;
use crate::key_file::LedgerKey;
use crate::lines::{Line, LineSubscriber, Threshold};
use crate::model::{
    AuditActor, AuditActorKind, AuditRecord, Partner, PartnerSettings, PartnerStatus,
    RegistrationStatus,
};
use crate::store::Store;
use crate::store::conn::{Rows, Statement};

/// Fails once, at the given step, counted over all connections.
struct Faulty {
    inner: Box<dyn Conn>,
    steps: Arc<AtomicUsize>,
    fail_at: usize,
    /// Whether a failing COMMIT takes effect anyway, as if only its answer were lost.
    commit_happens: bool,
}

impl Faulty {
    fn step(&self) -> Result<(), StoreError> {
        if self.steps.fetch_add(1, Ordering::SeqCst) == self.fail_at {
            return Err(StoreError::Full);
        }
        Ok(())
    }
}

impl Conn for Faulty {
    fn run(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        statements
            .iter()
            .map(|statement| {
                self.step()?;
                self.inner.one(statement.clone())
            })
            .collect()
    }
    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        self.step()?;
        self.inner.begin(&[])?;
        self.run(statements)
    }
    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        let results = self.run(statements)?;
        match self.step() {
            Ok(()) => self.inner.commit(&[]).map(drop)?,
            Err(error) if self.commit_happens => self.inner.commit(&[]).and(Err(error))?,
            Err(error) => return Err(error),
        }
        Ok(results)
    }
    fn rollback(&mut self) {
        self.inner.rollback();
    }
}

/// Something happens right after each commit.
struct Meanwhile {
    inner: Box<dyn Conn>,
    happens: Arc<dyn Fn() + Send + Sync>,
}

impl Conn for Meanwhile {
    fn run(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        self.inner.run(statements)
    }
    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        self.inner.begin(statements)
    }
    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        let results = self.inner.commit(statements)?;
        (self.happens)();
        Ok(results)
    }
    fn rollback(&mut self) {
        self.inner.rollback();
    }
}

struct Bench {
    folder: tempfile::TempDir,
    store: Store,
    key: LedgerKey,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("b.db").into(), true).unwrap();
        let key = LedgerKey::generate();
        let signer = key.signer().unwrap();
        let checkpoint = Checkpoint::sign(&signer, 0, crate::ledger::hash::EMPTY_ROOT);
        store
            .begin_log(&key.origin, &signer.verifier().to_string(), &checkpoint)
            .unwrap();
        Self { folder, store, key }
    }

    fn start(
        &self,
        outbox: Option<Arc<Outbox>>,
        fault: Option<(usize, bool)>,
    ) -> (Inbox, JoinHandle<()>) {
        let store = self.store.clone();
        let steps = Arc::new(AtomicUsize::new(0));
        let connect: Connect = Box::new(move || {
            let inner = store.writer()?;
            Ok(match fault {
                None => inner,
                Some((fail_at, commit_happens)) => Box::new(Faulty {
                    inner,
                    steps: Arc::clone(&steps),
                    fail_at,
                    commit_happens,
                }),
            })
        });
        self.start_over(outbox, connect)
    }

    fn start_over(&self, outbox: Option<Arc<Outbox>>, connect: Connect) -> (Inbox, JoinHandle<()>) {
        start(self.deps(outbox, connect)).unwrap()
    }

    fn deps(&self, outbox: Option<Arc<Outbox>>, connect: Connect) -> WriterDeps {
        WriterDeps {
            hold_off: Duration::ZERO,
            connect,
            log: self.log(),
            seal: Seal::derive(self.key.seed()),
            outbox,
            news: Arc::default(),
            packets: Arc::default(),
            storage: Arc::new(Storage::new(0)),
            quota: Quota::GENEROUS,
            observer: Arc::new(drop),
        }
    }

    /// Starts a writer, and also returns what it knows of the storage.
    fn start_watched(&self) -> (Inbox, Arc<Storage>) {
        let store = self.store.clone();
        let deps = self.deps(None, Box::new(move || store.writer()));
        let storage = Arc::clone(&deps.storage);
        (start(deps).unwrap().0, storage)
    }

    /// Runs a statement as somebody who damages the database.
    fn damage(&self, sql: &'static str) {
        let mut conn = self.turn();
        conn.commit(&[Statement::new(sql, vec![])]).unwrap();
    }

    /// Holds the write turn, so that a writer waits.
    fn turn(&self) -> Box<dyn Conn> {
        let mut conn = self.store.writer().unwrap();
        conn.begin(&[]).unwrap();
        conn
    }

    /// The first column of all rows that a query finds.
    fn texts(&self, sql: &'static str) -> Vec<String> {
        let mut conn = self.store.reader().unwrap();
        let rows = conn.one(Statement::new(sql, vec![])).unwrap().rows;
        let text = |row: &crate::store::conn::Row| row.text(0).unwrap().to_owned();
        rows.iter().map(text).collect()
    }

    /// The log as a starting node knows it.
    fn log(&self) -> Arc<Log> {
        let file = self.folder.path().join("b.seen");
        let guard = Guard::open(file).unwrap();
        Arc::new(Log::new(self.key.clone(), guard))
    }

    fn partners(&self) -> usize {
        let mut conn = self.store.reader().unwrap();
        conn.one(Statement::new("SELECT id FROM partner", vec![]))
            .unwrap()
            .rows
            .len()
    }
}

fn register(n: u8) -> Envelope<Registration> {
    let partner_id = PartnerId::new(Timestamp::EPOCH, [n; 10]);
    let reply = Registration {
        partner_id,
        name: "Acme".to_owned(),
        status: RegistrationStatus::Active,
        api_key_id: None,
        api_key: None,
        signing_secret: None,
    };
    let partner = Partner {
        partner_id,
        name: "Acme".to_owned(),
        business_type: "venue".to_owned(),
        contact_email: "a@example.com".to_owned(),
        website: None,
        status: PartnerStatus::Active,
        created_at: Timestamp::EPOCH,
        contract_ended_at: None,
        settings: PartnerSettings::default(),
    };
    let remember = crate::engine::command::Remember {
        key: [n; 32],
        request: [n; 32],
        encode: |_| b"answer".to_vec(),
    };
    let register = RegisterPartner {
        partner,
        secret: vec![1],
        key: None,
        reply,
    };
    Envelope {
        remember: Some(remember),
        ..Envelope::new(Timestamp::EPOCH, register)
    }
}

fn ask<R: Send + 'static>(inbox: &Inbox, command: Envelope<R>) -> CommandOutcome<R> {
    inbox.submit(command).unwrap().blocking_recv().unwrap()
}

#[test]
fn a_batch_that_fails_at_any_step_says_why_and_the_next_one_works() {
    // Every step of a batch fails once: begin, each statement, commit.
    for fail_at in 0..40 {
        let bench = Bench::new();
        let (inbox, thread) = bench.start(None, Some((fail_at, false)));
        let first = ask(&inbox, register(1));
        let failed = first.is_err();
        if let Err(error) = &first {
            assert_eq!(
                (error.code.as_ref(), error.retry_after_s),
                ("storage_full", Some(1))
            );
            assert!(error.message.contains("disk is full"), "{error}");
        }
        assert_eq!(bench.partners(), usize::from(!failed), "step {fail_at}");
        if !failed {
            assert!(fail_at >= 6, "a batch has at least six steps");
            return;
        }
        ask(&inbox, register(2))
            .unwrap_or_else(|_| panic!("the writer did not recover from step {fail_at}"));
        drop(inbox);
        thread.join().unwrap();
    }
    panic!("the fault was never outlived");
}

#[test]
fn a_commit_whose_answer_is_lost_happens_once_under_its_idempotency_key() {
    let steps_of_a_batch = (0..40)
        .find(|fail_at| {
            let bench = Bench::new();
            let (inbox, _thread) = bench.start(None, Some((*fail_at, true)));
            ask(&inbox, register(1)).is_ok()
        })
        .unwrap();
    let bench = Bench::new();
    let (inbox, _thread) = bench.start(None, Some((steps_of_a_batch - 1, true)));
    assert!(
        ask(&inbox, register(1)).is_err(),
        "the outcome is unknown to the caller"
    );
    assert_eq!(bench.partners(), 1);
    assert!(matches!(ask(&inbox, register(1)), Ok(Written::Replayed(body)) if *body == *b"answer"));
    assert_eq!(bench.partners(), 1);
}

#[test]
fn who_finds_after_the_commit_that_a_copy_published_others_tells_nobody_that_it_is_done() {
    let root = crate::ledger::hash::EMPTY_ROOT;
    for (size, root, is_sound) in [
        (0, root, true),
        (0, Hash::ZERO, false),
        (3, Hash::ZERO, false),
    ] {
        let bench = Bench::new();
        let (store, file) = (bench.store.clone(), bench.folder.path().join("b.seen"));
        let seen = PublishedHead {
            origin: bench.key.origin.clone(),
            size,
            root,
        };
        // As the writer of a copy of the database does.
        let note = move || drop(Guard::open(file.clone()).unwrap().note(None, seen.clone()));
        let happens: Arc<dyn Fn() + Send + Sync> = Arc::new(note);
        let connect: Connect = Box::new(move || {
            Ok(Box::new(Meanwhile {
                inner: store.writer()?,
                happens: Arc::clone(&happens),
            }))
        });
        let (inbox, _thread) = bench.start_over(None, connect);
        let first = ask(&inbox, register(1)).err().map(|error| error.code);
        let second = ask(&inbox, register(2)).err().map(|error| error.code);
        let codes = (first.as_deref(), second.as_deref());
        match is_sound {
            true => assert_eq!(codes, (None, None)),
            false => assert_eq!(codes, (Some("unavailable"), Some("ledger_rolled_back"))),
        }
    }
}

/// A registration whose record is named by its number, and whose random bits fall as the number rises.
fn audited(n: u8) -> Envelope<Registration> {
    let record = AuditRecord {
        audit_id: AuditId::new(Timestamp::EPOCH, [255 - n; 10]),
        at: Timestamp::EPOCH,
        actor: AuditActor {
            kind: AuditActorKind::Anonymous,
            key_id: None,
            name: None,
        },
        address: None,
        action: n.to_string(),
        partner_id: None,
        subject: BTreeMap::new(),
    };
    register(n).recorded_as(record)
}

#[test]
fn records_of_one_instant_are_in_the_order_of_their_commands() {
    const TOGETHER: u8 = 20;
    let bench = Bench::new();
    let (inbox, _thread) = bench.start(None, None);
    // The write turn is held elsewhere, so that all but the first few come in one batch.
    let mut turn = bench.turn();
    let together: Vec<_> = (1..=TOGETHER)
        .map(|n| inbox.submit(audited(n)).unwrap())
        .collect();
    turn.rollback();
    for waiter in together {
        waiter.blocking_recv().unwrap().unwrap();
    }
    // The next ones come in batches of their own, in the same millisecond.
    for n in TOGETHER + 1..=TOGETHER + 3 {
        ask(&inbox, audited(n)).unwrap();
    }
    let actions = bench.texts("SELECT action FROM audit ORDER BY id");
    let asked: Vec<_> = (1..=TOGETHER + 3).map(|n| n.to_string()).collect();
    assert_eq!(actions, asked);
}

/// A command that needs a partner, and panics if it has to decide.
#[derive(Debug)]
struct Panicking(Option<PartnerId>);

impl crate::engine::command::Command for Panicking {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.partners.extend(self.0);
    }

    fn decide(&self, _: &BatchState, _: Timestamp) -> crate::engine::command::Decided<()> {
        panic!("as the test wants it")
    }
}

/// The outcome of a command, in a word.
fn word<R>(outcome: oneshot::Receiver<CommandOutcome<R>>) -> String {
    match outcome.blocking_recv().unwrap() {
        Ok(Written::Fresh(_)) => "fresh".to_owned(),
        Ok(Written::Replayed(_)) => "replayed".to_owned(),
        Err(error) => error.code.into_owned(),
    }
}

#[test]
fn a_command_that_fails_by_itself_disturbs_nobody_in_its_batch() {
    for is_damage in [true, false] {
        let bench = Bench::new();
        let (inbox, storage) = bench.start_watched();
        ask(&inbox, audited(1)).unwrap();
        if is_damage {
            bench.damage("UPDATE partner SET body = '{'");
        }
        let guilty = || {
            let damaged = is_damage.then(|| PartnerId::new(Timestamp::EPOCH, [1; 10]));
            let asked = Envelope::new(Timestamp::EPOCH, Panicking(damaged));
            inbox.submit(asked).unwrap()
        };
        // The write turn is held elsewhere, so that all but the first come in one batch.
        let mut turn = bench.turn();
        let first = inbox.submit(audited(2)).unwrap();
        while inbox.waiting() > 0 {
            std::thread::yield_now();
        }
        let before = guilty();
        let third = inbox.submit(audited(3)).unwrap();
        let twin = inbox.submit(audited(3)).unwrap();
        let between = guilty();
        let last = inbox.submit(audited(4)).unwrap();
        turn.rollback();
        let words = [word(first), word(third), word(twin), word(last)];
        assert_eq!(words, ["fresh", "fresh", "replayed", "fresh"]);
        assert_eq!([word(before), word(between)], ["internal", "internal"]);
        assert_eq!(word(guilty()), "internal", "also alone");
        assert_eq!(storage.not_ready(), None);
        let actions = bench.texts("SELECT action FROM audit ORDER BY id");
        assert_eq!(actions, ["1", "2", "3", "4"], "once each, in their order");
        assert_eq!(bench.texts("SELECT hex(key) FROM answer").len(), 4);
        assert_eq!(bench.partners(), 4);
    }
}

#[test]
fn a_database_that_is_damaged_as_a_whole_is_an_outage() {
    let bench = Bench::new();
    let (inbox, storage) = bench.start_watched();
    ask(&inbox, register(1)).unwrap();
    bench.damage("UPDATE head SET root = X'00'");
    assert_eq!(ask(&inbox, register(2)).unwrap_err().code, "unavailable");
    let code = storage.not_ready().map(|error| error.code);
    assert_eq!(code.as_deref(), Some("storage_failing"));
}

#[test]
fn a_full_inbox_refuses_at_once_and_loses_nothing_it_accepted() {
    let bench = Bench::new();
    let (inbox, thread) = bench.start(None, None);
    // The write turn is held elsewhere, so that the writer waits while the inbox fills.
    let mut turn = bench.turn();
    let mut accepted = Vec::new();
    let refused = loop {
        let command = Envelope::new(Timestamp::EPOCH, ForgetAnswers);
        match inbox.submit(command) {
            Ok(waiter) => accepted.push(waiter),
            Err(refused) => break refused,
        }
    };
    assert_eq!(
        (refused.code.as_ref(), refused.retry_after_s),
        ("busy", Some(1))
    );
    assert!(accepted.len() >= limits::INBOX);
    turn.rollback();
    assert!(
        accepted
            .into_iter()
            .all(|waiter| waiter.blocking_recv().unwrap().is_ok())
    );
    drop(inbox);
    thread.join().unwrap();
}

#[test]
fn a_head_moved_outside_the_write_turn_stops_the_batch() {
    let bench = Bench::new();
    let mut conn = bench.store.writer().unwrap();
    let head = crate::store::head(&mut *conn).unwrap().unwrap().head;
    let moved = Head {
        size: head.size + 1,
        ..head
    };
    conn.begin(&[]).unwrap();
    let append = Append {
        from: moved,
        to: moved,
        tiles: &[],
        checkpoint: "",
        log: ("", ""),
        written: 0,
        keep: false,
    };
    let refused = commit(&mut *conn, &Writes::default(), &[], Some(&append));
    assert_eq!(refused, Err(StoreError::HeadMoved));
    conn.rollback();
    assert_eq!(crate::store::head(&mut *conn).unwrap().unwrap().head, head);
}

#[test]
fn tiles_that_do_not_give_the_heads_root_are_damage() {
    let bench = Bench::new();
    let mut conn = bench.store.writer().unwrap();
    let head = Head {
        size: 3,
        root: Hash([7; 32]),
    };
    assert!(matches!(
        tree::load(&mut *conn, head),
        Err(StoreError::Corrupt(_))
    ));
    conn.one(Statement::new(
        "INSERT INTO tile (level, idx, hashes) VALUES (0, 0, $1)",
        vec![vec![1_u8; 96].into()],
    ))
    .unwrap();
    assert!(
        matches!(tree::load(&mut *conn, head), Err(StoreError::Corrupt(what)) if what.contains("root"))
    );
}

#[test]
fn a_full_database_refuses_with_the_reason_and_keeps_what_it_had() {
    let bench = Bench::new();
    let store = bench.store.clone();
    let connect: Connect = Box::new(move || {
        let mut conn = store.writer()?;
        let pages = conn.one(Statement::new("PRAGMA page_count", vec![]))?.rows[0].int(0)?;
        let limit: &'static str =
            Box::leak(format!("PRAGMA max_page_count = {}", pages + 6).into_boxed_str());
        conn.one(Statement::new(limit, vec![]))?;
        Ok(conn)
    });
    let (inbox, _thread) = bench.start_over(None, connect);
    let outcomes: Vec<CommandOutcome<Registration>> =
        (0..200).map(|n| ask(&inbox, register(n))).collect();
    let kept = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let refused = outcomes
        .into_iter()
        .find_map(Result::err)
        .expect("the database never filled up");
    assert!(refused.message.contains("disk is full"), "{refused}");
    assert_eq!(bench.partners(), kept);
}

#[test]
fn a_log_that_was_moved_takes_no_more_writes_until_it_is_brought_back() {
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let bench = Bench::new();
    let mark = |to: &str| {
        let mut conn = bench.turn();
        let to = if to.is_empty() {
            crate::store::conn::Arg::Null
        } else {
            to.into()
        };
        let sql = "UPDATE head SET moved_to = $1 WHERE id = 1";
        conn.commit(&[Statement::new(sql, vec![to])]).unwrap();
    };
    // For the whole process, because the writer is a thread of its own; only this test moves its log there.
    let hear = |line: Line| {
        if line.message.contains("moved to postgres://h/b") {
            TOLD.fetch_add(1, Ordering::SeqCst);
        }
    };
    let subscriber = LineSubscriber::new(Threshold::new(tracing::Level::INFO), hear);
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let (inbox, thread) = bench.start(None, None);
    ask(&inbox, register(1)).unwrap();
    mark("postgres://h/b");
    for _ in 0..3 {
        let refused = ask(&inbox, register(2)).unwrap_err();
        assert_eq!(refused.code, "ledger_moved");
        assert!(!refused.message.contains("postgres"), "{refused}");
    }
    assert_eq!(TOLD.load(Ordering::SeqCst), 1, "said once, not every time");
    mark("");
    ask(&inbox, register(2)).unwrap();
    drop(inbox);
    thread.join().unwrap();
}
