//! The ledger is stamped by time-stamp authorities, and packets show it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bookguard_core::clock::Clock;
use bookguard_core::evidence::{
    Packet, TimestampRoots, TimestampTrust, Trust, verify, verify_with,
};
use bookguard_core::features::timestamps::standing;
use bookguard_core::key_file::LedgerKey;
use bookguard_core::ledger::cosignature::CosignerKey;
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::ledger::{TlogProof, VerifierKey};
use bookguard_core::limits::{DAY_MS, WITNESS_GAP_MS};
use bookguard_core::model::Timestamp;
use bookguard_server::config::{Config, Timestamps};
use bookguard_server::witness::{WitnessFolder, WitnessServer};
use bookguard_test_authority::Chain;
use bookguard_tests::engine::{Engine, on_every_engine, on_postgres};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::bookguard;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, START_MS, TestServer};
use bookguard_tests::time_authority::TimeAuthority;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};
use tempfile::TempDir;

const SECOND: i64 = 1_000;
const INTERVAL: i64 = 600 * SECOND;
const YEAR: i64 = 365 * DAY_MS;

/// A file of roots.
struct RootsFile(TempDir);

impl RootsFile {
    fn of(pem: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("roots.pem"), pem).unwrap();
        Self(folder)
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("roots.pem")
    }

    fn read(&self) -> TimestampRoots {
        TimestampRoots::from_pem(&std::fs::read(self.path()).unwrap()).unwrap()
    }
}

fn stamped_by(mut config: Config, authorities: &[&str], roots: &RootsFile) -> Config {
    config.timestamps = Some(Timestamps {
        authorities: authorities.iter().map(|url| url.parse().unwrap()).collect(),
        roots: roots.path(),
        interval: Duration::from_millis(INTERVAL.unsigned_abs()),
    });
    config
}

/// A server whose ledger this authority stamps.
async fn stamped(engine: Engine, authority: &TimeAuthority, roots: &RootsFile) -> TestServer {
    TestServer::with(engine, |config| {
        authority.follow(config.clock.clone());
        stamped_by(config, &[authority.url()], roots)
    })
    .await
}

/// The packet of a booking once it shows this many time-stamps.
async fn stamped_packet(partner: &Partner, booking: &str, stamps: usize) -> Vec<u8> {
    until(&format!("a packet with {stamps} time-stamps"), async || {
        let packet = partner.packet(booking).await;
        let shown = packet.ok(200)["timestamps"].as_array().map_or(0, Vec::len);
        (shown == stamps).then_some(packet.body)
    })
    .await
}

/// Certificates that are valid from and to these times after the start.
fn valid(from: i64, to: i64) -> Chain {
    Chain {
        valid: (START_MS + from, START_MS + to),
        ..Chain::default()
    }
}

/// After almost a year, the authority's certificate is about to end, and its next one is of another root, which the operator adds.
/// Returns the partner on the server that is started again, with another booking.
async fn renewed(
    server: &mut TestServer,
    authority: &TimeAuthority,
    roots: &RootsFile,
    partner: &Partner,
) -> Partner {
    server.advance(YEAR - DAY_MS);
    let first = authority.root_pem();
    authority.renew(&valid(0, 15 * YEAR));
    std::fs::write(roots.path(), first + &authority.root_pem()).unwrap();
    server.restart().await;
    let partner = partner.on(&server.running().url());
    partner.book().await;
    partner
}

/// `ledger verify` finds nothing.
async fn verifies(server: &TestServer) {
    let service = Arc::clone(server.running().service());
    let check = move || service.verify_ledger(false, |_, _| {});
    let checked = tokio::task::spawn_blocking(check).await.unwrap();
    assert_eq!(checked.unwrap().findings, []);
}

/// Trust in these authorities at an instant, in milliseconds since 1970.
fn trust(roots: &TimestampRoots, at: i64) -> Trust<'_> {
    let at = Timestamp::from_ms(at);
    Trust {
        timestamps: Some(TimestampTrust { roots, at }),
        ..Trust::default()
    }
}

#[tokio::test]
async fn what_is_logged_is_stamped_and_packets_show_it() {
    on_every_engine(async |engine| {
        let authority = TimeAuthority::start(&Chain::default()).await;
        let roots = RootsFile::of(&authority.root_pem());
        let server = stamped(engine, &authority, &roots).await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        let packet = stamped_packet(&acme, &booking, 1).await;
        let vkey = server.vkey().await;
        let trust = |roots| trust(roots, server.now_ms());
        let trusted = roots.read();
        let (report, _) = verify_with(&packet, &vkey, trust(&trusted));
        assert!(report.verified(), "{report}");
        let stamp = report.timestamp.unwrap();
        assert_eq!((stamp.at.ms(), &*stamp.authority), (START_MS, "Test Time"));
        assert_eq!(stamp.entries, 1);
        // The server's page says who stamped it, and that the server trusts them; the operator is told too.
        let page = acme.request("GET", &format!("/v1/bookings/{booking}/evidence"));
        let page = acme.send(page.header("accept", "text/html")).await;
        let html = page.text();
        for said in [
            "The authority “Test Time” stamped",
            "has checked that an authority whom they trust",
        ] {
            assert!(html.contains(said), "{said}: {html}");
        }
        let system = server.database().command("system").json().await;
        system["timestamps"].holds(json!({"authority": "Test Time", "asked": 0}));
        assert_eq!(system["timestamps"]["stampedAt"], json!(stamp.at));
        // Without roots it is the same packet, and nobody vouches for the time.
        let report = verify(&packet, &vkey);
        assert!(report.verified() && report.timestamp.is_none(), "{report}");
        // Roots of somebody else.
        let other = TimeAuthority::start(&Chain::default()).await;
        let other = TimestampRoots::from_pem(other.root_pem().as_bytes()).unwrap();
        let (report, _) = verify_with(&packet, &vkey, trust(&other));
        let failed = report.failures().next().unwrap();
        assert_eq!(failed.name, "timestamps");
        assert!(failed.detail.contains("not to be trusted"), "{report}");
        assert_eq!(report.timestamp, None);
        // Nothing is logged for a while, so nothing is stamped. What comes then is not covered by the first stamp.
        server.advance(5 * INTERVAL);
        let later = acme.book().await;
        stamped_packet(&acme, &later, 1).await;
        assert_eq!(authority.asked(), 2);
        acme.protect(&later).await;
        let packet = stamped_packet(&acme, &later, 1).await;
        let (report, _) = verify_with(&packet, &vkey, trust(&trusted));
        assert!(report.verified(), "{report}");
        assert!(
            report.to_string().contains("the first 1 of 2 entries"),
            "{report}"
        );
        verifies(&server).await;
    })
    .await;
}

#[tokio::test]
async fn the_command_line_says_when_it_was_stamped() {
    let authority = TimeAuthority::start(&Chain::default()).await;
    let roots = RootsFile::of(&authority.root_pem());
    let server = stamped(Engine::Sqlite, &authority, &roots).await;
    let acme = server.partner("Acme").await;
    let booking = acme.book().await;
    let packet = stamped_packet(&acme, &booking, 1).await;
    let file = |name: &str| server.folder().join(name);
    std::fs::write(file("packet.json"), packet).unwrap();
    std::fs::write(file("key"), server.vkey().await).unwrap();
    let verify = |roots: &std::path::Path| {
        let line = bookguard("evidence verify").arg(file("packet.json"));
        let key = format!("@{}", file("key").display());
        line.arg("--key")
            .arg(key)
            .arg("--timestamp-roots")
            .arg(roots)
    };
    let said = verify(&roots.path()).run().await;
    let at = Timestamp::from_ms(START_MS).to_string();
    let said: Value = said.json();
    assert_eq!(said["timestamp"].text("at"), at);
    assert_eq!(said["verified"], true);
    let other = TimeAuthority::start(&Chain::default()).await;
    let other = RootsFile::of(&other.root_pem());
    let said = verify(&other.path()).run().await;
    said.ended(6, &["The packet does not verify"]);
    std::fs::write(file("none"), "nothing").unwrap();
    let said = verify(&file("none")).run().await;
    said.refused(2, &["there is no certificate in it"]);
}

#[tokio::test]
async fn a_stamp_outlives_its_authority_s_certificate_by_its_renewal() {
    on_every_engine(async |engine| {
        let authority = TimeAuthority::start(&valid(-DAY_MS, YEAR)).await;
        let roots = RootsFile::of(&authority.root_pem());
        let mut server = stamped(engine, &authority, &roots).await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        let early = stamped_packet(&acme, &booking, 1).await;
        let acme = renewed(&mut server, &authority, &roots, &acme).await;
        let renewed = stamped_packet(&acme, &booking, 2).await;
        let vkey = server.vkey().await;
        let trusted = roots.read();
        let judged = |packet: &[u8], years: i64| {
            let at = START_MS + years * YEAR;
            verify_with(packet, &vkey, trust(&trusted, at)).0
        };
        let report = judged(&renewed, 10);
        assert!(report.verified(), "{report}");
        assert_eq!(report.timestamp.unwrap().at.ms(), START_MS);
        let report = judged(&early, 10);
        assert!(!report.verified(), "{report}");
        assert!(
            report.to_string().contains("a certificate was not valid"),
            "{report}"
        );
        // In time, the first stamp is good by itself; when the second has ended too, nothing is.
        assert!(judged(&early, 0).verified());
        assert!(!judged(&renewed, 16).verified());
        verifies(&server).await;
    })
    .await;
}

/// The last renewal may be of more than what the witnesses have cosigned; the one before proves as much.
#[tokio::test]
async fn a_packet_shows_the_last_renewal_that_its_cosigned_checkpoint_covers() {
    on_every_engine(async |engine| {
        let begun = TestServer::open(engine).await;
        let log: VerifierKey = begun.vkey().await.trim().parse().unwrap();
        let database = begun.close().await;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("w");
        let key = LedgerKey::named("witness.example.com/w");
        WitnessFolder::make(&folder, &key, &[(log, None)], false).unwrap();
        let opened = WitnessFolder::open(&folder, |log| Err(log.origin.clone())).unwrap();
        let key = opened.verifier();
        let witness = WitnessServer::start(opened, "127.0.0.1:0", Clock::System);
        let witness = witness.await.unwrap();
        let policy = format!("witness w {key} {}\nquorum w\n", witness.url());
        let policy = Arc::new(TrustPolicy::parse(&policy).unwrap());
        let authority = TimeAuthority::start(&valid(-DAY_MS, YEAR)).await;
        let roots = RootsFile::of(&authority.root_pem());
        let mut server = TestServer::on(database, |config| {
            authority.follow(config.clock.clone());
            Config {
                witnesses: Some(policy),
                ..stamped_by(config, &[authority.url()], &roots)
            }
        })
        .await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        cosigned_packet(&server, &acme, (&booking, &key), 1).await;
        let acme = renewed(&mut server, &authority, &roots, &acme).await;
        cosigned_packet(&server, &acme, (&booking, &key), 2).await;
        // From here on, nothing is cosigned.
        witness.stop().await;
        let last = async || {
            let service = Arc::clone(server.running().service());
            let standing = tokio::task::spawn_blocking(move || standing(&service).unwrap());
            standing.await.unwrap().1
        };
        let before = last().await;
        server.advance(INTERVAL);
        acme.book().await;
        until("another stamp", async || {
            (last().await > before).then_some(())
        })
        .await;
        let packet = cosigned_packet(&server, &acme, (&booking, &key), 2).await;
        let trusted = roots.read();
        let trust = trust(&trusted, START_MS + 10 * YEAR);
        let (report, _) = verify_with(&packet, &server.vkey().await, trust);
        assert!(report.verified(), "{report}");
        // It is still the first one that says when.
        assert!(report.timestamp.unwrap().at.ms() < START_MS + DAY_MS);
    })
    .await;
}

/// The packet of a booking once it shows this many time-stamps, under a checkpoint that this witness has cosigned.
async fn cosigned_packet(
    server: &TestServer,
    partner: &Partner,
    (booking, key): (&str, &CosignerKey),
    stamps: usize,
) -> Vec<u8> {
    until(&format!("{stamps} time-stamps, cosigned"), async || {
        server.advance(WITNESS_GAP_MS);
        let packet = partner.packet(booking).await;
        let shown = packet.ok(200)["timestamps"].as_array().map_or(0, Vec::len);
        let read: Packet = serde_json::from_slice(&packet.body).unwrap();
        let proof = TlogProof::parse(&read.entries[0].proof).unwrap();
        let is_cosigned = key.verify(&proof.checkpoint).is_ok();
        (is_cosigned && shown == stamps).then_some(packet.body)
    })
    .await
}

/// An authority that answers like this is passed over, and nobody waits for it.
async fn passed_over(engine: Engine, answer: Answer, says: &str) {
    let bad = Receiver::start().await;
    bad.answer(answer);
    let good = TimeAuthority::start(&Chain::default()).await;
    let roots = RootsFile::of(&good.root_pem());
    let bad_url = bad.url();
    let server = TestServer::with(engine, |config| {
        good.follow(config.clock.clone());
        stamped_by(config, &[&bad_url, good.url()], &roots)
    })
    .await;
    let acme = server.partner("Acme").await;
    let booking = acme.book().await;
    until("a question", async || (bad.count() > 0).then_some(())).await;
    let began = Instant::now();
    acme.book().await;
    assert!(began.elapsed() < Duration::from_secs(5));
    let trouble = until("trouble", async || {
        let service = Arc::clone(server.running().service());
        let standing = tokio::task::spawn_blocking(move || standing(&service).unwrap());
        standing.await.unwrap().0.trouble
    })
    .await;
    assert!(trouble.contains(says), "{trouble}");
    let (_, place) = bad_url.split_once("://").unwrap();
    let place = place.split('/').next().unwrap();
    assert!(trouble.starts_with(place), "{trouble}");
    assert_eq!(good.asked(), 0);
    server.advance(30 * SECOND);
    stamped_packet(&acme, &booking, 1).await;
}

#[tokio::test]
async fn an_authority_that_refuses_is_passed_over() {
    on_every_engine(async |engine| {
        passed_over(engine, Answer::Status(503), "it answered with status 503").await;
    })
    .await;
}

#[tokio::test]
async fn an_authority_that_is_silent_is_passed_over() {
    on_every_engine(async |engine| {
        passed_over(engine, Answer::Silence, "no answer within 10 s").await;
    })
    .await;
}

#[tokio::test]
async fn an_authority_that_sends_anything_is_passed_over() {
    const REPLY: &str = "content-type: application/timestamp-reply\r\n";
    let garbage = |length| Answer::Body(REPLY, vec![0x30; length].into());
    for (answer, says) in [
        (Answer::Endless, "not application/timestamp-reply"),
        (Answer::Interim, "no answer within 10 s"),
        (garbage(100), "sent no valid time-stamp"),
        (garbage(100_000), "is longer than 32768 bytes"),
        (Answer::Close, ""),
    ] {
        passed_over(Engine::Sqlite, answer, says).await;
    }
}

#[tokio::test]
async fn of_two_nodes_one_asks() {
    on_postgres(async |engine| {
        let authority = TimeAuthority::start(&Chain::default()).await;
        let roots = RootsFile::of(&authority.root_pem());
        let server = stamped(engine, &authority, &roots).await;
        let second = server.second_node().await;
        let acme = server.partner("Acme").await;
        for round in 1..=3 {
            let booking = acme.book().await;
            stamped_packet(&acme, &booking, 1).await;
            assert_eq!(authority.asked(), round);
            server.advance(INTERVAL);
        }
        second.stop().await;
    })
    .await;
}
