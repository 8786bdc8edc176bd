//! A log and its witnesses: two owners witness each other, witnesses that misbehave, a log that lost entries.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::evidence::{self, Packet};
use bookguard_core::key_file::LedgerKey;
use bookguard_core::ledger::cosignature::{Cosigner, CosignerKey};
use bookguard_core::ledger::proof::prove_consistency;
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::ledger::witness::AddCheckpoint;
use bookguard_core::ledger::{TlogProof, VerifierKey};
use bookguard_core::limits::{COSIGNATURE_FRESH_MS, WITNESS_GAP_MS};
use bookguard_core::model::WitnessState;
use bookguard_server::config::Config;
use bookguard_server::witness::{WitnessFolder, WitnessServer};
use bookguard_tests::caller::Caller;
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{Ran, Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::{BOUND, until, until_within};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::block_in_place;
use tokio::time::Instant;

/// Somebody with a log and a witness.
struct Owner {
    database: TestDatabase,
    /// The log's key.
    log: String,
    /// The witness's key.
    witness: CosignerKey,
}

impl Owner {
    async fn new(engine: Engine, name: &str, knows: Option<&str>) -> Self {
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &["--dev"]).await;
        let log = server.caller().get("/v1/ledger/key").await.text();
        server.stop().await;
        let line = bookguard(["witness", "init", "w", "--name", name]).in_folder(database.folder());
        let line = match knows {
            Some(key) => line.args(["--log", key]),
            None => line,
        };
        let made = line.run().await;
        Self {
            database,
            log: log.trim().to_owned(),
            witness: made.string("key").parse().unwrap(),
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.database.folder().join(name)
    }

    /// Lets the witness cosign a log.
    fn knows(&self, log: &str) {
        fs::write(self.place("w/logs"), format!("{log}\n")).unwrap();
    }

    async fn serve_witness(&self) -> Serving {
        let line = bookguard("witness serve w --listen 127.0.0.1:0");
        Serving::of(line.in_folder(self.database.folder())).await
    }

    /// Serves the log, cosigned by this witness.
    async fn serve_log(&self, key: &CosignerKey, url: &str) -> Serving {
        let policy = self.place("policy");
        fs::write(&policy, format!("witness w {key} {url}\nquorum w\n")).unwrap();
        let policy = policy.to_str().unwrap();
        Serving::start(&self.database, &["--dev", "--witnesses", policy]).await
    }

    /// This command in the owner's folder, by the witnesses of a policy.
    async fn trusting(&self, line: &str, policy: &Path) -> Ran {
        let line = bookguard(line).in_folder(self.database.folder());
        line.arg("--witness-policy").arg(policy).run().await
    }

    /// `evidence verify` of this packet, by the witnesses of a policy.
    async fn verified(&self, packet: &str, policy: &Path) -> Ran {
        fs::write(self.place("packet.json"), packet).unwrap();
        let line = format!("evidence verify packet.json --key {}", self.log);
        self.trusting(&line, policy).await
    }
}

/// The packet of a booking, once its checkpoint carries the cosignature of this witness.
async fn cosigned_packet(acme: &Partner, booking: &str, key: &CosignerKey) -> String {
    until("a cosigned packet", async || {
        let packet = acme.packet(booking).await.text();
        let is_cosigned = key.verify(&checkpoint_of(&packet)).is_ok();
        is_cosigned.then_some(packet)
    })
    .await
}

/// The checkpoint under which a packet's entries are proven.
fn checkpoint_of(packet: &str) -> String {
    let packet: Packet = serde_json::from_str(packet).unwrap();
    TlogProof::parse(&packet.entries[0].proof)
        .unwrap()
        .checkpoint
}

#[tokio::test]
async fn two_owners_witness_each_other() {
    on_every_engine(async |engine| {
        let a = Owner::new(engine, "witness.example.com/a", None).await;
        let b = Owner::new(engine, "witness.example.com/b", Some(&a.log)).await;
        a.knows(&b.log);
        let witnesses = [a.serve_witness().await, b.serve_witness().await];
        let [of_a, of_b] = &witnesses;
        let servers = [
            a.serve_log(&b.witness, of_b.url()).await,
            b.serve_log(&a.witness, of_a.url()).await,
        ];
        let mut packets = Vec::new();
        for ((owner, other), server) in [(&a, &b), (&b, &a)].into_iter().zip(&servers) {
            let acme = server.partner("Acme").await;
            let id = acme.book().await;
            acme.protect(&id).await;
            let packet = cosigned_packet(&acme, &id, &other.witness).await;
            // It goes on being the same packet.
            let again = acme.packet(&id).await.text();
            assert_eq!(checkpoint_of(&again), checkpoint_of(&packet));
            let served = server.caller().get("/v1/ledger/checkpoint").await.text();
            assert!(other.witness.verify(&served).is_ok(), "{served}");
            let ran = owner.verified(&packet, &owner.place("policy")).await;
            let report = ran.json();
            assert_eq!(report["verified"], true);
            assert_eq!(report["witnesses"][0]["witness"], "w");
            let ran = owner.verified(&packet, &other.place("policy")).await;
            let words = "the witnesses that the policy demands have not cosigned";
            ran.ended(6, &[words]);
            for (command, copy) in [("mirror", "copy"), ("monitor", "head")] {
                let (url, log) = (server.url(), &owner.log);
                let line = format!("ledger {command} {url} {copy} --key {log}");
                let ran = owner.trusting(&line, &owner.place("policy")).await;
                let followed = ran.json();
                assert_ne!(followed["size"], 0, "{followed}");
                let ran = owner.trusting(&line, &other.place("policy")).await;
                ran.ended(6, &["is not cosigned as the trust policy demands"]);
            }
            let kept = fs::read_to_string(owner.place("copy/checkpoint")).unwrap();
            assert!(other.witness.verify(&kept).is_ok(), "{kept}");
            packets.push((acme, id));
        }
        let line = format!("evidence verify packet.json --key {}", a.log);
        let ran = a.trusting(&line, Path::new("w/logs")).await;
        ran.ended(2, &["w/logs is not a trust policy: line 1"]);
        // Without its witness, a log is written and evidenced as before.
        let [of_a, of_b] = witnesses;
        of_b.kill().await;
        let (acme, old) = &packets[0];
        let new = acme.book().await;
        acme.protect(&new).await;
        // What was cosigned is followed, although the log is longer.
        let line = format!("ledger mirror {} late --key {}", servers[0].url(), a.log);
        let ran = a.trusting(&line, &a.place("policy")).await;
        let late = ran.json().number("size");
        let line = format!("ledger mirror {} all --key {}", servers[0].url(), a.log);
        let all = bookguard(line).in_folder(a.database.folder());
        assert!(all.run().await.json().number("size") > late);
        let packet = acme.packet(&new).await.text();
        assert!(evidence::verify(packet.as_bytes(), &a.log).verified());
        assert!(b.witness.verify(&checkpoint_of(&packet)).is_err());
        let ran = a.verified(&packet, &a.place("policy")).await;
        ran.ended(6, &["have not cosigned"]);
        let packet = acme.packet(old).await.text();
        a.verified(&packet, &a.place("policy")).await.ended(0, &[]);
        for server in servers {
            server.stop().await;
        }
        of_a.stop().await;
        for (owner, bookings) in [(&a, 2), (&b, 1)] {
            let report = owner.database.verify(bookings).await;
            assert_eq!(report.get("witnessedEntries"), None);
        }
        for (policy, code) in [(a.place("policy"), 0), (b.place("policy"), 6)] {
            let line = a.database.command(["ledger", "verify"]);
            let ran = line.arg("--witness-policy").arg(policy).run().await;
            assert_eq!(ran.code, Some(code), "{ran:?}");
            let report = ran.printed();
            assert_eq!(report["witnessedEntries"].is_u64(), code == 0, "{report}");
        }
        assert_eq!(b.database.count("SELECT COUNT(*) FROM cosignature"), 1);
    })
    .await;
}

/// The database and the guard were put back together: only the witness still knows.
#[tokio::test]
async fn a_witness_that_knows_more_than_the_log_is_an_alarm() {
    let a = Owner::new(Engine::Sqlite, "witness.example.com/a", None).await;
    a.knows(&a.log);
    let (server, acme) = Serving::with_partner(&a.database, &["--dev"]).await;
    acme.protect(&acme.book().await).await;
    let (file, kept) = (a.database.file(), a.place("kept.db"));
    a.database.command("backup").arg(&kept).run().await.json();
    let id = acme.book().await;
    server.stop().await;
    let witness = a.serve_witness().await;
    let server = a.serve_log(&a.witness, witness.url()).await;
    let acme = acme.on(server.url());
    cosigned_packet(&acme, &id, &a.witness).await;
    server.stop().await;
    let policy = a.place("policy");
    let found = doctor_of_witnesses(&a.database, &policy).await;
    assert_eq!(found["state"], "ok", "{found}");
    fs::copy(&kept, file).unwrap();
    for end in ["-wal", "-shm", ".key.seen"] {
        let _ = fs::remove_file(format!("{}{end}", file.display()));
    }
    let server = a.serve_log(&a.witness, witness.url()).await;
    server
        .until_said("THE LOG MAY BE ROLLED BACK OR FORKED: the witness w")
        .await;
    // What it is, the operator must decide.
    let acme = acme.on(server.url());
    acme.protect(&acme.book().await).await;
    server.stop().await;
    let found = doctor_of_witnesses(&a.database, &policy).await;
    assert_eq!(found["state"], "problem", "{found}");
    let said = "entries of this log, which has only";
    assert!(found.text("found").contains(said), "{found}");
    witness.stop().await;
}

/// What `doctor` says of the witnesses of this policy.
pub(super) async fn doctor_of_witnesses(database: &TestDatabase, policy: &Path) -> Value {
    let line = database.command("doctor --output json");
    let ran = line.arg("--witnesses").arg(policy).run().await;
    let said = ran.printed();
    let mut checks = said.list("checks").iter();
    let found = checks.find(|one| one["check"] == "witnesses").unwrap();
    if found["state"] == "problem" {
        assert_eq!(ran.code, Some(1), "{ran:?}");
    }
    found.clone()
}

/// A server whose log these witnesses cosign.
async fn witnessed_by(engine: Engine, policy: &str) -> TestServer {
    let policy = Arc::new(TrustPolicy::parse(policy).unwrap());
    TestServer::with(engine, |config| Config {
        witnesses: Some(policy),
        metrics_listen: Some("127.0.0.1:0".to_owned()),
        operator_listen: Some("127.0.0.1:0".to_owned()),
        ..config
    })
    .await
}

fn states(server: &TestServer) -> Vec<WitnessState> {
    let service = server.running().service();
    block_in_place(|| service.reader().unwrap().witnesses().unwrap())
}

fn cosigner(n: u8) -> Cosigner {
    Cosigner::from_seed(&format!("w{n}.example.com"), &[n; 32]).unwrap()
}

/// Witnesses that answer everything but a cosignature, at once, slowly, endlessly or never. None of them delays a write or keeps
/// another one from being asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn witnesses_that_misbehave_are_bounded_and_noted() {
    on_every_engine(async |engine| {
        let huge: Arc<[u8]> = vec![b'x'; 1 << 20].into();
        let text: Arc<[u8]> = b"thank you\n"[..].into();
        let answers = [
            (Answer::Status(403), "(403"),
            (Answer::Status(404), "(404"),
            (Answer::Status(409), "names no size"),
            (Answer::Status(422), "(422"),
            (
                Answer::Headed(301, "location: http://127.0.0.1:1/\r\n"),
                "(301",
            ),
            (Answer::Status(503), "(503"),
            (Answer::Body("", text), "no cosignature"),
            (Answer::Body("", huge), "more than"),
            (Answer::Endless, "more than"),
            (Answer::Dripping, "did not answer within"),
            (Answer::Interim, ""),
            (Answer::Silence, "did not answer within"),
            (Answer::Reset, "cannot be reached"),
            (Answer::HalfClose, ""),
        ];
        let mut policy = String::new();
        let mut receivers = Vec::new();
        for (n, (answer, words)) in (1..).zip(answers) {
            let receiver = Receiver::answering(answer).await;
            let key = cosigner(n).verifier();
            policy += &format!("witness w{n} {key} {}\n", receiver.url());
            receivers.push((receiver, words));
        }
        let server = witnessed_by(engine, &(policy + "quorum none\n")).await;
        let acme = server.partner("Acme").await;
        // Meanwhile, writes are answered in time.
        let last = until_within(BOUND * 3, "every witness to have failed", async || {
            let write = Instant::now();
            let id = acme.book().await;
            acme.protect(&id).await;
            let took = write.elapsed();
            assert!(took < Duration::from_secs(4), "{took:?}");
            let states = states(&server).into_iter();
            let failed = states.filter(|state| state.failures > 0).count();
            (failed == receivers.len()).then_some(id)
        })
        .await;
        acme.verified_packet(&last).await;
        for (receiver, words) in &receivers {
            let mut states = states(&server).into_iter();
            let state = states.find(|state| state.url == receiver.url()).unwrap();
            let trouble = state.trouble.unwrap();
            assert!(trouble.what.contains(words), "{words}: {trouble:?}");
            assert_eq!(trouble.is_alarm, *words == "(422", "{trouble:?}");
            assert!(state.due.ms() > server.now_ms(), "it is asked again later");
            let received = receiver.received().remove(0);
            let asked = AddCheckpoint::parse(str::from_utf8(&received.body).unwrap());
            assert_eq!(asked.unwrap().old, 0);
            assert!(received.path.ends_with("/hook/add-checkpoint"));
        }
        // The operator is told of each, and which one is an alarm.
        let key = server.operator_key("desk").await;
        let url = server.running().operator_url().unwrap();
        let system = Caller::of_operator(&url).with_key(key.text("operatorKey"));
        let system = system.get("/v1/system").await.ok(200);
        for witness in system.list("witnesses") {
            let is_alarm = witness.text("name") == "w4";
            witness.holds(json!({"size": 0, "isAlarm": is_alarm}));
            assert!(witness["trouble"].is_string() && witness.get("cosignedAt").is_none());
        }
        assert_eq!(system.list("witnesses").len(), receivers.len());
        let metrics = server.running().metrics_url().unwrap();
        let metrics = Caller::new(metrics.trim_end_matches("/metrics"));
        until("metrics of every witness", async || {
            let scraped = metrics.request("GET", "/metrics").send().await.unwrap();
            let scraped = scraped.text().await.unwrap();
            let is = |name: &str, n: usize, value: u8| {
                let sample = format!("bookguard_witness_{name}{{witness=\"w{n}\"}} {value}");
                scraped.lines().any(|line| line == sample)
            };
            (1..=receivers.len())
                .all(|n| {
                    is("contradicts", n, u8::from(n == 4))
                        && is("last_cosigned_timestamp_seconds", n, 0)
                })
                .then_some(())
        })
        .await;
        // The clock stands still, so none of them was asked again.
        for (receiver, words) in &receivers {
            assert_eq!(receiver.count(), 1, "{words}");
        }
        let database = server.close().await;
        let report = database.command(["ledger", "verify"]).run().await.json();
        assert_eq!(report["verified"], true, "{report}");
    })
    .await;
}

/// The checkpoints of a growing log, by their sizes, with the times at which the witness has cosigned them.
fn cosigned(server: &TestServer, key: &CosignerKey) -> Vec<(u64, u64)> {
    let service = server.running().service();
    let stored = block_in_place(|| service.reader().unwrap().cosignatures(0).unwrap());
    (stored.iter())
        .map(|one| (one.size, key.verify(&one.note).unwrap()))
        .collect()
}

/// A log that grows, on one node and on two, as its only witness sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_cosigned_as_it_grows_and_before_its_cosignature_is_stale() {
    on_every_engine(async |engine| {
        let folder = TempDir::new().unwrap();
        let folder = folder.path().join("w");
        let begun = TestServer::open(engine).await;
        let log: VerifierKey = begun.vkey().await.trim().parse().unwrap();
        let database = begun.close().await;
        let key = LedgerKey::named("witness.example.com/w");
        WitnessFolder::make(&folder, &key, &[(log, None)], false).unwrap();
        let time = Arc::new(AtomicI64::new(1_800_000_000_000));
        let clock = Clock::Set(Arc::clone(&time));
        let opened = WitnessFolder::open(&folder, |log| Err(log.origin.clone())).unwrap();
        let key = opened.verifier();
        let witness = WitnessServer::start(opened, "127.0.0.1:0", clock)
            .await
            .unwrap();
        let policy = format!("witness w {key} {}/\nquorum w\n", witness.url());
        let policy = Arc::new(TrustPolicy::parse(&policy).unwrap());
        let server = TestServer::on(database, |config| Config {
            witnesses: Some(policy),
            ..config
        })
        .await;
        let second = match engine {
            Engine::Postgres => Some(server.second_node().await),
            Engine::Sqlite => None,
        };
        let acme = server.partner("Acme").await;
        let size = || block_in_place(|| server.running().service().head().unwrap().head.size);
        let newest = async |expected: (u64, u64)| {
            until("a cosignature", async || {
                let found = cosigned(&server, &key);
                (found.last() == Some(&expected)).then_some(found)
            })
            .await
        };
        // Nobody has anything to vouch for yet.
        assert_eq!(cosigned(&server, &key), []);
        for round in 0..7_u64 {
            acme.protect(&acme.book().await).await;
            time.store(1_800_000_000_000 + round as i64 * 1_000, Ordering::Relaxed);
            server.advance(WITNESS_GAP_MS);
            let cosigned = newest((size(), 1_800_000_000 + round)).await;
            // With every quorum, what was before it goes.
            assert_eq!(cosigned.len(), 1, "{cosigned:?}");
        }
        // Nothing is new, so nothing is asked until the cosignature is old.
        time.store(1_800_000_100_000, Ordering::Relaxed);
        server.advance(COSIGNATURE_FRESH_MS - 1);
        acme.book().await;
        newest((size(), 1_800_000_100)).await;
        time.store(1_800_000_200_000, Ordering::Relaxed);
        server.advance(COSIGNATURE_FRESH_MS);
        newest((size(), 1_800_000_200)).await;
        // Somebody else has shown the witness a newer checkpoint: its size is learned from its answer.
        let id = acme.book().await;
        let state = states(&server).remove(0);
        let checkpoint = server.caller().get("/v1/ledger/checkpoint").await.text();
        let service = server.running().service();
        let (old, head) = (state.size, size());
        let proof = block_in_place(|| {
            let mut reader = service.reader().unwrap();
            prove_consistency(old, head, |level, index| reader.tile(level, index)).unwrap()
        });
        let request = AddCheckpoint {
            old,
            proof,
            note: checkpoint,
        }
        .to_string();
        let shown = Caller::new(witness.url())
            .request("POST", "/add-checkpoint")
            .body(request)
            .send()
            .await;
        assert_eq!(shown.unwrap().status(), 200);
        time.store(1_800_000_300_000, Ordering::Relaxed);
        server.advance(WITNESS_GAP_MS);
        newest((size(), 1_800_000_300)).await;
        let packet = acme.packet(&id).await.text();
        assert_eq!(key.verify(&checkpoint_of(&packet)), Ok(1_800_000_300));
        if let Some(second) = second {
            second.stop().await;
        }
        let database = server.close().await;
        let report = database.command(["ledger", "verify"]).run().await.json();
        assert_eq!(report["verified"], true, "{report}");
        witness.stop().await;
    })
    .await;
}
