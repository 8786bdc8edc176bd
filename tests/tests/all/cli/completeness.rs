//! `evidence verify --log`: a packet compared with the whole log, read from the server, from a mirror, and from places that
//! are not a log, or not the packet's.

use std::path::Path;

use bookguard_core::evidence::{Packet, SignedStatement};
use bookguard_core::key_file::LedgerKey;
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::{Ran, Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::Partner;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// A packet and the key to verify it with, in a folder.
struct Case<'f> {
    folder: &'f Path,
    packet: String,
    vkey: String,
}

impl<'f> Case<'f> {
    /// The packet of a booking as it is now, in the folder of its database.
    async fn of(acme: &Partner, booking: &str, database: &'f TestDatabase) -> Self {
        Self {
            folder: database.folder(),
            packet: acme.packet(booking).await.text(),
            vkey: acme.get("/v1/ledger/key").await.text().trim().to_owned(),
        }
    }

    /// Compares the packet with the log at this place.
    async fn with(&self, log: &str) -> Ran {
        let name = "packet.json";
        std::fs::write(self.folder.join(name), &self.packet).unwrap();
        let line = bookguard(["evidence", "verify", name, "--key", &self.vkey]);
        line.args(["--log", log]).in_folder(self.folder).run().await
    }

    /// The packet verifies, and the log says this about it.
    async fn says(&self, log: &str, expected: Value, words: &[&str]) {
        let report = self.with(log).await.json();
        assert_eq!(report["verified"], true);
        report["log"].holds(expected);
        let check = report.list("checks").last().unwrap();
        check.holds(json!({"name": "log", "passed": true}));
        for word in words {
            assert!(check.text("detail").contains(word), "{word:?} in {check}");
        }
    }

    /// The packet is genuine, but this log does not confirm it.
    async fn denied(&self, log: &str, words: &[&str]) {
        let said = "The packet is genuine, but the log";
        self.refuted(log, said, words).await;
    }

    /// The packet verifies without this log, and not with it.
    async fn refuted(&self, log: &str, said: &str, words: &[&str]) {
        let ran = self.with(log).await;
        ran.ended(6, &[said, "verification_failed"]);
        let report = ran.printed();
        assert_eq!(report["verified"], false);
        let checks = report.list("checks").iter();
        let failed: Vec<_> = checks.filter(|check| check["passed"] == false).collect();
        assert_eq!(failed.len(), 1, "{report}");
        assert_eq!(failed[0]["name"], "log");
        for word in words {
            let detail = failed[0].text("detail");
            assert!(detail.contains(word), "{word:?} in {detail}");
        }
    }
}

#[tokio::test]
async fn a_packet_is_compared_with_the_log_of_the_server_and_of_a_mirror() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme) = Serving::with_partner(&database, &["--dev"]).await;
        let booking = acme.book().await;
        // More than one bundle, so that a tile is full.
        for _ in 0..260 {
            acme.book().await;
        }
        let case = Case::of(&acme, &booking, &database).await;
        let shown = case.packet.matches("\"leaf\":").count();
        let whole =
            json!({"complete": true, "entries": shown, "leftOut": 0, "later": 0, "missing": []});
        let url = server.url().to_owned();
        let ledger = format!("{url}/v1/ledger/");
        for place in [&url, &ledger] {
            let words = ["Complete: ", "holds no others of this booking"];
            case.says(place, whole.clone(), &words).await;
        }
        let mirror = Mirror::download(&acme, &case.vkey).await;
        let folder = database.folder().join("mirror");
        mirror.save(&folder);
        mirror.save(&database.folder().join("nested/v1/ledger"));
        for place in ["mirror", "nested"] {
            case.says(place, whole.clone(), &["Complete: "]).await;
        }
        let size = mirror.entries().len();
        changed_mirrors(&case, &folder, &mirror, size).await;

        // The booking goes on: the packet is older than the log, but not older than the mirror.
        acme.protect(&booking).await;
        let later = json!({"complete": false, "leftOut": 0});
        let words = ["Nothing was left out", "The packet is older than the log"];
        case.says(&url, later, &words).await;
        let newer = Case::of(&acme, &booking, &database).await;
        newer.says(&url, json!({"complete": true}), &[]).await;
        accounts(&case.packet, &newer, &database).await;
        let smaller = format!("the log has {size} entries, but ");
        newer.denied("mirror", &[&smaller, "older copy"]).await;
        server.stop().await;
    })
    .await;
}

/// A mirror that was changed or cut is told from the log.
async fn changed_mirrors(case: &Case<'_>, folder: &Path, mirror: &Mirror, size: usize) {
    let full = folder.join("tile/entries/000");
    let genuine = std::fs::read(&full).unwrap();
    let mut flipped = genuine.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let changed: [(&[u8], &str); 3] = [
        (
            &flipped,
            "tile/entries/000 is not what the log's checkpoint covers",
        ),
        (
            &genuine[..genuine.len() - 1],
            "tile/entries/000 cannot be read",
        ),
        (&[], "tile/entries/000 cannot be read"),
    ];
    for (bytes, words) in changed {
        std::fs::write(&full, bytes).unwrap();
        case.denied("mirror", &[words]).await;
    }
    std::fs::remove_file(&full).unwrap();
    let words = "does not hold tile/entries/000";
    case.denied("mirror", &[words]).await;
    std::fs::write(&full, &genuine).unwrap();
    let edge = folder.join(format!("tile/0/001.p/{}", size - 256));
    let genuine = std::fs::read(&edge).unwrap();
    let mut flipped = genuine.clone();
    flipped[0] ^= 1;
    std::fs::write(&edge, &flipped).unwrap();
    let words = "do not have the root that its checkpoint states";
    case.denied("mirror", &[words]).await;
    std::fs::write(&edge, &genuine).unwrap();
    let checkpoint = folder.join("checkpoint");
    let genuine = std::fs::read_to_string(&checkpoint).unwrap();
    let forged = genuine.replacen(&format!("\n{size}\n"), &format!("\n{}\n", size + 1), 1);
    std::fs::write(&checkpoint, forged).unwrap();
    let words = "The log's checkpoint cannot be relied on";
    case.denied("mirror", &[words]).await;
    mirror.save(folder);
    case.says("mirror", json!({"complete": true}), &[]).await;
}

/// Two packets of a booking agree; a later note that counts less does not, and neither does another booking.
async fn accounts(older: &str, newer: &Case<'_>, database: &TestDatabase) {
    let folder = newer.folder;
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let compared = async |a: &str, b: &str| {
        let line = ["evidence", "contradict", a, b, "--key", &newer.vkey];
        bookguard(line).in_folder(folder).run().await
    };
    write("older.json", older);
    write("newer.json", &newer.packet);
    let parsed: Packet = serde_json::from_str(&newer.packet).unwrap();
    write("newer.note", &parsed.signature);
    for newer in ["newer.json", "newer.note"] {
        let agreed = compared("older.json", newer).await;
        assert_eq!(agreed.json()["verdict"], "consistent", "{agreed:?}");
    }
    // The holder of the key signs that the booking has fewer entries than it had.
    let key = LedgerKey::load(&database.key_file());
    let signer = key.unwrap().unwrap().signer().unwrap();
    let vkey = signer.verifier();
    let mut lie = SignedStatement::open(&parsed.signature, vkey).unwrap();
    lie.log_size += 1000;
    lie.count -= 1;
    write("lie.note", &signer.sign(&lie.to_string()).unwrap());
    let lie = compared("newer.json", "lie.note").await;
    lie.ended(6, &["A and B contradict each other"]);
    let found = lie.printed();
    assert_eq!(found["verdict"], "contradiction");
    let detail = found.text("detail");
    assert!(detail.contains("leaves out 1 entry"), "{found}");
    let [name, other] = ["Acme", "Acne"].map(|name| format!("\"partnerName\":\"{name}\""));
    let forged = newer.packet.replacen(&name, &other, 1);
    write("forged.json", &forged);
    let refused = compared("older.json", "forged.json").await;
    let words = "B (forged.json) cannot be relied on. The packet does not verify.";
    refused.refused(6, &[words]);
}

#[tokio::test]
async fn two_histories_under_one_key_are_noticed() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &["--dev"]).await;
    // The operator will serve this copy as well, without the guard.
    let again = TestDatabase::new(Engine::Sqlite);
    let copied = database.command("backup").arg(again.file());
    copied.run().await.json();
    let case = Case::of(&acme, &acme.book().await, &database).await;
    let key = again.folder().join("again.key");
    std::fs::copy(database.key_file(), &key).unwrap();
    let line = bookguard("serve --dev --listen 127.0.0.1:0 --db").arg(again.file());
    let other = Serving::of(line.arg("--ledger-key").arg(&key)).await;
    let beta = other.partner("Beta").await;
    for _ in 0..5 {
        beta.book().await;
    }
    let words = ["the log is forked", "together they prove it"];
    let said = "of two histories under one key";
    case.refuted(other.url(), said, &words).await;
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_log_ends_with_a_sentence_and_in_time() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &["--dev"]).await;
    let case = Case::of(&acme, &acme.book().await, &database).await;
    std::fs::write(database.folder().join("packet.json"), &case.packet).unwrap();
    let checkpoint = server.caller().get("/v1/ledger/checkpoint").await.text();
    let then = |answer: Answer| (Some(checkpoint.clone().into_bytes()), answer);
    let elsewhere = Answer::Headed(302, "location: https://elsewhere.example/\r\n");
    let mut running = JoinSet::new();
    for ((first, usual), exit, words) in [
        ((None, Answer::Silence), 7, "it did not answer in time"),
        (then(Answer::Silence), 7, "it did not answer in time"),
        (then(Answer::HalfClose), 7, "cannot be read"),
        ((None, Answer::Close), 7, "cannot be read"),
        (then(Answer::Reset), 7, "cannot be read"),
        ((None, Answer::Status(404)), 9, "there is no log at "),
        ((None, Answer::Status(500)), 9, "answered 500"),
        (
            (None, elsewhere),
            9,
            "redirects to https://elsewhere.example/",
        ),
        (then(Answer::Status(404)), 6, "the log does not confirm"),
        (then(Answer::Endless), 6, "the log does not confirm"),
        ((None, Answer::Endless), 6, "the log does not confirm"),
        ((None, Answer::Status(200)), 6, "the log does not confirm"),
    ] {
        let receiver = Receiver::answering(usual.clone()).await;
        receiver.answer_next(first.map(|bytes| Answer::Body("", bytes.into())));
        let line = ["evidence", "verify", "packet.json", "--key", &case.vkey];
        let line = bookguard(line).in_folder(database.folder());
        let line = line.arg("--log").arg(receiver.url());
        running.spawn(async move {
            let ran = line.run().await;
            drop(receiver);
            assert_eq!(ran.code, Some(exit), "{usual:?}: {ran:?}");
            assert!(ran.stderr.contains(words), "{usual:?}: {ran:?}");
        });
    }
    running.join_all().await;
    let nowhere = case.with("nowhere").await;
    nowhere.refused(2, &["there is no log at nowhere"]);
    server.stop().await;
}
