//! Witnesses that audit, mirrors and monitors: they go on with a log whose maps are true, and never with one that lies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use bookguard_core::evidence::Epoch;
use bookguard_core::ledger::cosignature::CosignerKey;
use bookguard_core::ledger::map::pages::Pages;
use bookguard_core::ledger::map::{MapValue, key_of};
use bookguard_core::ledger::{Hash, Leaf, leaf_hash};
use bookguard_core::model::{ApiKeyId, BookingId, EndpointId, PartnerId, Timestamp};
use bookguard_core::store::drill::{DrillCopy, Scene, WAYS};
use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::files::names;
use bookguard_tests::program::{Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::waiting::until;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::cosigning::doctor_of_witnesses;
use super::witnessing::{Log, add, ask, follow, get, kept, serving};

/// The entries of a log with 37 streams, and a map after every tenth of them. From the entry `lie` on, one stream stays what it
/// was in the map.
fn entries(size: u64, lie: u64) -> Vec<Vec<u8>> {
    let mut values: BTreeMap<[u8; 16], MapValue> = BTreeMap::new();
    let (mut pages, mut root) = (Pages::empty(), Hash::ZERO);
    let mut log = Vec::new();
    for index in 0..size {
        let is_map = index % 10 == 9;
        let stream = match is_map {
            true => Epoch::stream(),
            false => [(index % 37) as u8; 16],
        };
        let epoch = Epoch {
            map_root: root,
            tree_size: index,
            written_at: Timestamp::from_ms(index as i64 - 1),
        };
        let last = values.get(&stream);
        let leaf = Leaf {
            commit: match is_map {
                true => epoch.seal().unwrap().commit,
                false => [(index % 251) as u8; 32],
            },
            prev: last.map_or(Hash::ZERO, |last| last.head),
            seq: last.map_or(0, |last| last.count),
            stream,
            t: index as i64,
        };
        let bytes = leaf.encode().unwrap();
        let (count, head) = (leaf.seq + 1, leaf_hash(&bytes));
        let value = MapValue { count, head };
        values.insert(stream, value);
        if index < lie || stream != [7; 16] {
            root = pages.set(&[(key_of(&stream), value)].into()).unwrap();
        }
        log.push(bytes);
    }
    log
}

/// A witness that audits the log in the folder `log`, or at another place.
async fn auditor(folder: &Path, log: &Log, place: &str) -> CosignerKey {
    let line = bookguard("witness init w --name witness.example.com/auditor --log");
    let line = line.arg(log.key()).arg("--audit").arg(place);
    let made = line.in_folder(folder).run().await;
    made.ended(0, &[]).string("key").parse().unwrap()
}

/// What is kept against logs that lie.
fn lies(folder: &Path) -> Vec<String> {
    kept(folder, "lie-").into_values().collect()
}

#[tokio::test]
async fn a_log_is_cosigned_while_its_maps_are_true_and_never_after_a_lie() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let place = folder.join("log");
    let log = Log::of("log.example", entries(900, 700));
    let key = auditor(folder, &log, "log").await;
    let mut size = 0;
    for next in [1, 255, 256, 300, 300, 700] {
        // What was audited outlives the process.
        let server = Serving::of(serving(folder)).await;
        let caller = server.caller();
        if next > size {
            // The log is not there yet.
            let early = add(&caller, log.request(size, next)).await;
            assert!(early.is(503).again);
        }
        log.publish(next, &place);
        let cosigned = add(&caller, log.request(size, next)).await;
        cosigned.is(200);
        assert!(key.verify(&(log.note(next) + &cosigned.text)).is_ok());
        size = next;
        server.kill().await;
    }
    log.publish(800, &place);
    log.publish(900, &place);
    let words = "the log's map in entry 719 is not true: it is not the map of any number of entries from 710 to 719";
    for round in 0..2 {
        let server = Serving::of(serving(folder)).await;
        let caller = server.caller();
        for next in [800, 900, 800] {
            let refused = add(&caller, log.request(700, next)).await;
            assert_eq!(refused.is(422).text.trim(), words);
        }
        if round == 0 {
            server.until_said("lies: the log's map in entry 719").await;
        }
        let held = lies(folder);
        assert_eq!(held.len(), 1);
        assert!(held[0].contains(words) && held[0].contains(&log.note(800)));
        assert!(held[0].contains(&log.note(700)), "{}", held[0]);
        // What was cosigned stays what it was.
        let path = format!("/{}/checkpoint", Hash::of(b"log.example"));
        let known = get(&caller, &path).await.text;
        assert!(known.starts_with("log.example\n700\n"), "{known}");
        server.kill().await;
    }
    // A lost file costs a look, and no truth.
    let audits = folder.join("w/audits");
    for name in names(&audits) {
        fs::remove_file(audits.join(name)).unwrap();
    }
    let server = Serving::of(serving(folder)).await;
    let refused = add(&server.caller(), log.request(700, 900)).await;
    assert_eq!(refused.is(422).text.trim(), words);
    server.stop().await;
}

#[tokio::test]
async fn a_long_log_is_read_on_however_often_the_witness_is_killed() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let size = 6_000;
    let log = Log::of("log.example", entries(size, size));
    log.publish(size, &folder.join("log"));
    let key = auditor(folder, &log, "log").await;
    let mut rounds = 0..60;
    let cosigned = loop {
        let round = rounds.next().expect("it does not get on");
        let server = Serving::of(serving(folder)).await;
        let caller = server.caller();
        let asked = ask(&caller, "POST", "/add-checkpoint", log.request(0, size));
        // It may be killed at any moment, and is given more time each time.
        let bound = Duration::from_millis(100 * (round + 1));
        let answer = tokio::time::timeout(bound, asked).await;
        server.kill().await;
        match answer {
            Ok(Some(answer)) if answer.status == 200 => break answer.text,
            // The answer to the one before was on its way when the witness was killed.
            Ok(Some(answer)) if answer.status == 409 => {
                let server = Serving::of(serving(folder)).await;
                let again = add(&server.caller(), log.request(size, size)).await;
                server.kill().await;
                again.is(200);
                break again.text;
            }
            Ok(Some(answer)) => assert!(answer.is(503).again),
            Ok(None) | Err(_) => {}
        }
    };
    assert!(key.verify(&(log.note(size) + &cosigned)).is_ok());
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_answered_in_time() {
    let mut logs = JoinSet::new();
    for (answer, least) in [
        (Answer::Headed(301, "location: http://127.0.0.1:1/\r\n"), 0),
        (Answer::Endless, 0),
        (Answer::Dripping, 4),
        (Answer::Silence, 4),
        (Answer::Reset, 0),
    ] {
        logs.spawn(async move {
            let folder = TempDir::new().unwrap();
            let folder = folder.path();
            let log = Log::of("log.example", entries(30, 30));
            let receiver = Receiver::answering(answer).await;
            auditor(folder, &log, &receiver.url()).await;
            let server = Serving::of(serving(folder)).await;
            let caller = server.caller();
            for size in [20, 30] {
                let began = Instant::now();
                let later = add(&caller, log.request(0, size)).await;
                let took = began.elapsed().as_secs();
                assert!(later.is(503).again);
                assert!((least..12).contains(&took), "{took} s");
            }
            add(&caller, log.request(5, 20)).await.is(409);
            server.kill().await;
        });
    }
    while let Some(done) = logs.join_next().await {
        done.unwrap();
    }
}

/// It was read to its end, but the witness died before it cosigned: what it read is not forgotten.
#[tokio::test]
async fn another_log_than_the_one_that_was_audited_is_refused_and_kept() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let honest = entries(300, 300);
    let mut other = honest[..280].to_vec();
    other.resize(350, b"other".to_vec());
    let [log, fork] = [honest, other].map(|entries| Log::of("log.example", entries));
    log.publish(300, &folder.join("log"));
    auditor(folder, &log, "log").await;
    let server = Serving::of(serving(folder)).await;
    add(&server.caller(), log.request(0, 300)).await.is(200);
    server.stop().await;
    fs::write(folder.join("w/cosigned"), "{}").unwrap();
    fork.publish(350, &folder.join("log"));
    let server = Serving::of(serving(folder)).await;
    add(&server.caller(), fork.request(0, 350)).await.is(422);
    let held = lies(folder);
    assert!(held[0].contains(&fork.note(350)) && held[0].contains(&log.note(300)));
    server.stop().await;
}

#[tokio::test]
async fn a_witness_is_what_its_name_stands_for_or_does_not_start() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let log = Log::of("log.example", entries(3, 3));
    auditor(folder, &log, "log").await;
    let logs = folder.join("w/logs");
    let line = fs::read_to_string(&logs).unwrap();
    let absolute = folder.join("log").display().to_string();
    let end = format!("{} {absolute}\n", log.key());
    assert!(line.ends_with(&end), "{line}");
    fs::write(&logs, log.key()).unwrap();
    let words = ["this witness audits, so it must know where the log log.example is"];
    serving(folder).run().await.refused(1, &words);
    fs::write(&logs, &line).unwrap();
    fs::remove_dir_all(folder.join("w/audits")).unwrap();
    let words = ["but this witness does not audit", "witness init --audit"];
    serving(folder).run().await.refused(1, &words);
    let line = bookguard("witness init other --name o --audit log").in_folder(folder);
    line.run().await.refused(2, &["0 --log and 1 --audit"]);
    let line = bookguard(["witness", "init", "other", "--name", "o", "--log"]);
    let line = line.arg(log.key()).args("--audit http://user@log.example");
    line.in_folder(folder).run().await.refused(2, &["password"]);
    assert!(!folder.join("other").exists());
}

#[tokio::test]
async fn mirrors_and_monitors_do_not_follow_a_log_that_lies() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = Log::of("log.example", entries(900, 700));
    log.publish(700, &at("log"));
    for command in ["mirror", "monitor"] {
        let ran = follow(command, &at("log"), &at(command), Some(&log.key())).await;
        ran.ended(0, &[]);
    }
    log.publish(900, &at("log"));
    let words = [
        "cannot be relied on",
        "the log's map in entry 719 is not true",
        "Its checkpoint is kept as",
    ];
    for command in ["mirror", "monitor"] {
        let before = fs::read(at(command).join("checkpoint")).unwrap();
        for _ in 0..2 {
            let ran = follow(command, &at("log"), &at(command), None).await;
            ran.ended(6, &words);
        }
        // One that is told so for the first time reads the whole log.
        fs::remove_file(at(command).join(".audit")).unwrap();
        let ran = follow(command, &at("log"), &at(command), None).await;
        ran.ended(6, &words);
        assert_eq!(fs::read(at(command).join("checkpoint")).unwrap(), before);
        let kept = fs::read_to_string(at(command).join("contradiction")).unwrap();
        assert_eq!(kept, log.note(900));
        // The truth is followed from anew.
        log.publish(710, &at("log"));
        fs::remove_file(at(command).join(".audit")).unwrap();
        let ran = follow(command, &at("log"), &at(command), None).await;
        assert_eq!(ran.ended(0, &[]).json()["size"], 710);
        log.publish(900, &at("log"));
    }
}

/// The whole way, with the service: an auditing witness cosigns its log, until somebody with the key has it commit to a map that
/// lacks an entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_whose_map_was_made_to_lie_is_not_cosigned_any_more() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::start(&database, &["--dev"]).await;
    let vkey = server.caller().get("/v1/ledger/key").await.text();
    let acme = server.partner("Acme").await;
    acme.protect(&acme.book().await).await;
    let (folder, url) = (database.folder(), server.url().to_owned());
    let listen = server.address().to_owned();
    server.stop().await;
    let line = bookguard(["witness", "init", "w", "--name", "witness.example.com/a"]);
    let line = line.args(["--log", vkey.trim(), "--audit", &url]);
    let made = line.in_folder(folder).run().await;
    let key: CosignerKey = made.ended(0, &[]).string("key").parse().unwrap();
    let witness = Serving::of(serving(folder)).await;
    let policy = folder.join("policy");
    let text = format!("witness w {key} {}\nquorum w\n", witness.url());
    fs::write(&policy, text).unwrap();
    let serve = async || {
        let line = database.command("serve --dev --map-interval-seconds 1");
        let line = line.args(["--listen", &listen, "--witnesses"]).arg(&policy);
        Serving::of(line).await
    };
    let server = serve().await;
    let origin = vkey.split('+').next().unwrap();
    let monitored = format!("/{}/checkpoint", Hash::of(origin.as_bytes()));
    let caller = witness.caller();
    // With the map, which is true, there are three entries.
    let note = until("a cosigned map", async || {
        let note = get(&caller, &monitored).await.text;
        let size: Option<u64> = note.lines().nth(1).and_then(|line| line.parse().ok());
        (size >= Some(3)).then_some(note)
    })
    .await;
    assert!(key.verify(&note).is_ok());
    server.stop().await;
    lie(&database);
    let server = serve().await;
    let told = server
        .until_said("THE LOG MAY BE ROLLED BACK OR FORKED")
        .await;
    assert!(told.contains("the log's map in entry"), "{told}");
    assert_eq!(lies(folder).len(), 1);
    server.stop().await;
    let found = doctor_of_witnesses(&database, &policy).await;
    assert_eq!(found["state"], "problem", "{found}");
    witness.stop().await;
}

/// What the drill does to a copy.
fn lie(database: &TestDatabase) {
    let file = database.file();
    let beside = |end: &str| Path::new(&format!("{}{end}", file.display())).to_owned();
    let copy = DrillCopy {
        db: file.to_owned(),
        key: beside(".key"),
        guard: beside(".key.seen"),
        backups: file.to_owned(),
        scene: Scene {
            partner: PartnerId::from_bytes([0; 16]),
            booking: BookingId::from_bytes([0; 16]),
            reading_key: ApiKeyId::from_bytes([0; 16]),
            revoked_key: ApiKeyId::from_bytes([0; 16]),
            other_partner: PartnerId::from_bytes([0; 16]),
            other_booking: BookingId::from_bytes([0; 16]),
            endpoint: EndpointId::from_bytes([0; 16]),
        },
    };
    let way = WAYS.iter().find(|way| way.name == "map-lies").unwrap();
    for step in way.steps {
        copy.take(*step).unwrap();
    }
}
