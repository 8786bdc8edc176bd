//! Runs the packet verifiers of docs/verifiers on every packet of tests/vectors/packets and on one that a server made, and
//! compares their verdicts with ours.
//!
//! They do not recompute what a policy gives, nor sentences, so they need not find a fault that only shows there.

use std::ops::RangeFrom;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookguard_core::evidence;
use bookguard_core::ledger::{Signer, jcs};
use bookguard_core::limits::PACKET_BYTES;
use bookguard_server::config::Timestamps;
use bookguard_test_authority::Chain;
use bookguard_tests::engine::Engine;
use bookguard_tests::is_long;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use bookguard_tests::time_authority::TimeAuthority;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use super::{GO, GO_CACHE, all_required, is_there, judged, repository, with_libraries};

/// A packet, and the exit code that a verifier must have for it; `None` if it need not notice the fault.
struct Case {
    packet: PathBuf,
    code: Option<i32>,
}

fn vectors() -> PathBuf {
    repository().join("tests/vectors/packets")
}

/// The key of the vectors' ledger.
fn ledger_key() -> PathBuf {
    vectors().join("ledger.vkey")
}

/// The cases of the index.
fn cases() -> Vec<Case> {
    let index = std::fs::read(vectors().join("index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let cases = index["vectors"].as_array().unwrap().iter().map(|vector| {
        let text = |name: &str| vector[name].as_str().unwrap();
        Case {
            packet: vectors().join(text("file")),
            code: match (text("verdict"), &vector["noticedBy"]) {
                ("verified", Value::Null) => Some(0),
                ("not verified", noticed) if noticed == "structure" || noticed == "timestamp" => {
                    Some(1)
                }
                ("not verified", _) => None,
                other => panic!("{other:?}"),
            },
        }
    });
    cases.collect()
}

/// Runs `openssl` in a folder; returns what it prints.
fn openssl(folder: &Path, line: &str) -> String {
    let mut command = std::process::Command::new("openssl");
    let ran = command.args(line.split(' ')).current_dir(folder).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{line}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Returns a time-stamp of the text, signed with an RSA key of `bits` bits over this digest.
fn stamped_with_rsa(folder: &Path, bits: u32, digest: &str, text: &str) -> Vec<u8> {
    let settings = format!(
        "[tsa]\nserial = serial\nsigner_cert = signer.pem\nsigner_key = key.pem\nsigner_digest = {digest}\n\
         ess_cert_id_alg = sha256\ndefault_policy = 1.2.3\ndigests = sha256\n"
    );
    for (file, content) in [("text", text), ("serial", "01\n"), ("settings", &*settings)] {
        std::fs::write(folder.join(file), content).unwrap();
    }
    let line = format!(
        "req -x509 -newkey rsa:{bits} -nodes -subj /CN=Time -days 3650 -addext extendedKeyUsage=critical,timeStamping \
         -keyout key.pem -out signer.pem"
    );
    openssl(folder, &line);
    let line = "ts -query -data text -sha256 -cert -no_nonce -out query";
    openssl(folder, line);
    let line = "ts -reply -config settings -section tsa -queryfile query -out response";
    openssl(folder, line);
    std::fs::read(folder.join("response")).unwrap()
}

/// Signs a changed packet with the key of the vectors' ledger.
fn signed_again(mut packet: Value) -> String {
    let name = packet["log"]["origin"].as_str().unwrap();
    let signer = Signer::from_seed(name, &[7; 32]).unwrap();
    let note = packet.as_object_mut().unwrap().remove("signature").unwrap();
    let (text, _) = note.as_str().unwrap().split_once("\n\n").unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let digest = STANDARD.encode(Sha256::digest(jcs::to_canonical(&packet).unwrap()));
    lines[1] = &digest;
    let note = signer.sign(&(lines.join("\n") + "\n")).unwrap();
    packet["signature"] = note.into();
    jcs::to_canonical(&packet).unwrap()
}

/// 2026-06-01T12:00:00Z
const STAMPED_MS: i64 = 1_780_315_200_000;
/// The DER of a request that names no digest and wants no nonce, as far as the imprint.
const BEFORE_THE_IMPRINT: [u8; 11] = [0x30, 41, 0x02, 1, 1, 0x30, 36, 0x30, 0, 0x04, 32];

/// The vector with a time-stamp, with the response that `stamp` gives for the text of its checkpoint.
fn stamped_again(stamp: impl FnOnce(&str) -> Vec<u8>) -> String {
    let genuine = std::fs::read(vectors().join("good/timestamped.json")).unwrap();
    let mut packet: Value = serde_json::from_slice(&genuine).unwrap();
    let note = packet["timestamps"][0]["checkpoint"].as_str().unwrap();
    let (text, _) = note.split_once("\n\n").unwrap();
    let response = stamp(&format!("{text}\n"));
    packet["timestamps"][0]["response"] = STANDARD.encode(response).into();
    signed_again(packet)
}

/// A verifier as it is called, without the packet and the key.
struct Verifier {
    program: &'static str,
    script: PathBuf,
    /// Runs the script on many packets at once, if starting it costs much.
    driver: Option<&'static str>,
    /// It judges one bad packet in this many, and every good one; at night all of them.
    step: usize,
}

impl Verifier {
    fn of(program: &'static str, script: &str, step: usize) -> Self {
        let script = repository().join("docs/verifiers").join(script);
        Self {
            program,
            script,
            driver: None,
            step,
        }
    }

    /// Whether it judges the bad packet at the next place.
    fn judges(&self, places: &mut RangeFrom<usize>) -> bool {
        let place = places.next();
        place.is_some_and(|n| is_long() || n % self.step == 0)
    }

    /// Judges the vectors with the reader's trust: in authorities, and in witnesses.
    async fn judges_whom_to_trust(&self) {
        let file = |name: &str| vectors().join(name);
        let key = ledger_key();
        let run = async |packet: &str, flag: &str, trusted: &Path, code: i32| {
            let arguments: [&Path; 4] = [&file(packet), &key, flag.as_ref(), trusted];
            let printed = self.gives(code, packet, &arguments).await;
            assert!(code == 0 || printed.contains("NOT VERIFIED"), "{printed}");
        };
        let policy = file("witness-policy.txt");
        let strict = std::fs::read_to_string(&policy).unwrap();
        let folder = TempDir::new().unwrap();
        let stricter = folder.path().join("policy");
        std::fs::write(&stricter, strict.replace(" 2 one", " all one")).unwrap();
        for (packet, policy, code) in [
            ("good/cosigned.json", &policy, 0),
            ("good/cosigned-at-no-date.json", &policy, 0),
            ("good/cosigned.json", &stricter, 1),
            ("good/created.json", &policy, 1),
        ] {
            run(packet, "--witness-policy", policy, code).await;
        }
        let wrong = [
            &*file("good/cosigned.json"),
            &key,
            Path::new("--witness-policy"),
            &key,
        ];
        self.gives(2, "a key is no policy", &wrong).await;
        let own = file("timestamp-roots.pem");
        let pss = file("pss-roots.pem");
        let limited = file("limited-roots.pem");
        let others = folder.path().join("others.pem");
        let other = bookguard_test_authority::Authority::new(&Chain::default());
        std::fs::write(&others, other.root_pem()).unwrap();
        let bad = cases().into_iter().filter_map(|case| {
            let name = case.packet.file_name()?.to_str()?;
            (name.starts_with("timestamp") && case.code != Some(0)).then(|| format!("bad/{name}"))
        });
        let mut judged: Vec<_> = bad.map(|packet| (packet, &own, 1)).collect();
        assert!(judged.len() >= 10);
        let mut places = 0..;
        judged.retain(|_| self.judges(&mut places));
        // The certificate of the renewed one has expired. The limited root lets the authority below it vouch for mail alone.
        for (name, roots, code) in [
            ("timestamped", &own, 0),
            ("timestamped-by-pss", &pss, 0),
            ("renewed", &own, 0),
            ("stamped-under-another-purpose", &limited, 1),
            ("created", &own, 0),
            ("timestamped", &others, 1),
            ("renewed", &others, 1),
        ] {
            judged.push((format!("good/{name}.json"), roots, code));
        }
        for (packet, roots, code) in judged {
            run(&packet, "--timestamp-roots", roots, code).await;
        }
    }

    /// Judges time-stamps that are signed with a short RSA key, with a longer one, and over a weak digest, as we do.
    async fn judges_keys_and_digests_by_their_strength(&self) {
        if !is_there("openssl", &["version"]).await {
            return;
        }
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("packet.json");
        let key = ledger_key();
        let vkey = std::fs::read_to_string(&key).unwrap();
        for (bits, digest, weak) in [
            (1024, "sha256", Some("signer's key")),
            (2048, "sha256", None),
            (2048, "sha1", Some("digest of the time-stamp")),
        ] {
            let packet = stamped_again(|text| stamped_with_rsa(folder.path(), bits, digest, text));
            let report = evidence::verify(packet.as_bytes(), vkey.trim());
            assert_eq!(report.verified(), weak.is_none(), "{bits}: {report:?}");
            std::fs::write(&file, packet).unwrap();
            let (code, what) = (i32::from(weak.is_some()), format!("{bits}, {digest}"));
            let printed = self.gives(code, &what, &[&file, &key]).await;
            let told = weak.map(|what| format!("{what} is too weak or not supported"));
            assert!(told.is_none_or(|told| printed.contains(&told)), "{printed}");
        }
    }

    /// Judges a time-stamp whose signer may also vouch for others: right if nobody asks who made it.
    async fn judges_what_a_signer_may_do(&self) {
        let authority = bookguard_test_authority::Authority::new(&Chain {
            authority: true,
            ..Chain::default()
        });
        let stamped = stamped_again(|text| {
            let imprint: [u8; 32] = Sha256::digest(text).into();
            let request = [&BEFORE_THE_IMPRINT[..], &imprint].concat();
            authority.answer(&request, STAMPED_MS)
        });
        let folder = TempDir::new().unwrap();
        let place = |name: &str| folder.path().join(name);
        let (packet, roots, key) = (place("packet.json"), place("roots"), ledger_key());
        std::fs::write(&packet, stamped).unwrap();
        std::fs::write(&roots, authority.root_pem()).unwrap();
        self.gives(0, "unasked", &[&packet, &key]).await;
        let flag = Path::new("--timestamp-roots");
        let printed = self.gives(1, "asked", &[&packet, &key, flag, &roots]).await;
        let told = printed.contains("one of an authority for certificates");
        assert!(told, "{printed}");
    }

    /// Requires that what is there once is not told as several.
    async fn tells_one_from_several(&self) {
        let key = ledger_key();
        for name in ["created", "notified"] {
            let packet = vectors().join(format!("good/{name}.json"));
            let printed = self.gives(0, name, &[&packet, &key]).await;
            for wrong in [" 1 entries", " 1 values", " deliveries ended"] {
                assert!(!printed.contains(wrong), "{wrong}: {printed}");
            }
        }
    }

    /// Requires that a root of the machine, which the reader did not name, makes nothing trusted.
    async fn trusts_no_root_of_the_machine(&self) {
        let folder = tempfile::tempdir().unwrap();
        let openssl = |line: &str| openssl(folder.path(), line);
        openssl(
            "req -x509 -newkey ed25519 -nodes -subj /CN=Another -keyout key.pem -out named.pem",
        );
        let machine = folder.path().join("machine");
        std::fs::create_dir(&machine).unwrap();
        let roots = std::fs::read_to_string(vectors().join("timestamp-roots.pem")).unwrap();
        for (n, root) in roots
            .split_inclusive("-----END CERTIFICATE-----\n")
            .enumerate()
        {
            std::fs::write(folder.path().join("one.pem"), root).unwrap();
            let hash = openssl("x509 -noout -hash -in one.pem");
            let name = format!("{}.{n}", hash.trim());
            std::fs::write(machine.join(name), root).unwrap();
        }
        let mut command = Command::new(self.program);
        command.env("SSL_CERT_DIR", &machine).arg(&self.script);
        command
            .arg(vectors().join("good/timestamped.json"))
            .arg(ledger_key());
        command
            .arg("--timestamp-roots")
            .arg(folder.path().join("named.pem"));
        let ran = command.output().await.unwrap();
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    }

    /// Runs it; returns its exit code and what it prints.
    async fn run(&self, arguments: &[&Path]) -> (Option<i32>, String) {
        let mut command = with_libraries(Command::new(self.program));
        command.arg(&self.script).args(arguments).kill_on_drop(true);
        let ran = command.output().await.unwrap();
        let printed = [ran.stdout, ran.stderr].concat();
        (
            ran.status.code(),
            String::from_utf8_lossy(&printed).into_owned(),
        )
    }

    /// Runs it and asserts its exit code; returns what it prints.
    async fn gives(&self, code: i32, what: &str, arguments: &[&Path]) -> String {
        let (judged, printed) = self.run(arguments).await;
        assert_eq!(judged, Some(code), "{what}: {printed}");
        printed
    }

    /// Runs it on each packet; returns the exit codes and what it prints.
    async fn run_on_each(&self, packets: &[&Path], key: &Path) -> Vec<(Option<i32>, String)> {
        if let Some(driver) = self.driver {
            let mut command = with_libraries(Command::new(self.program));
            command
                .arg(repository().join("tests/verifiers").join(driver))
                .arg(&self.script)
                .arg(key)
                .args(packets);
            let lines = judged(command, std::iter::empty()).await;
            return lines
                .iter()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
        }
        let half = async |packets: &[&Path]| {
            let mut ran = Vec::new();
            for packet in packets {
                ran.push(self.run(&[packet, key]).await);
            }
            ran
        };
        let (left, right) = packets.split_at(packets.len() / 2);
        let (one, other) = tokio::join!(half(left), half(right));
        [one, other].concat()
    }

    /// Judges the vectors, and a packet of a real server.
    async fn judges_rightly(&self) {
        let key = ledger_key();
        let mut cases = cases();
        let mut places = 0..;
        cases.retain(|case| case.code == Some(0) || self.judges(&mut places));
        let packets: Vec<&Path> = cases.iter().map(|case| &*case.packet).collect();
        let ran = self.run_on_each(&packets, &key).await;
        assert_eq!(ran.len(), cases.len());
        let mut wrong = Vec::new();
        for (case, (code, printed)) in cases.iter().zip(ran) {
            // A script that crashes exits with 1 too.
            let is_verdict = code == Some(0) || code == Some(1) && printed.contains("NOT VERIFIED");
            let verdict = code.filter(|_| is_verdict);
            if verdict.is_none() || (case.code.is_some() && verdict != case.code) {
                let name = case.packet.file_name().unwrap().display();
                wrong.push(format!("{name}: {code:?} {printed}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        tokio::join!(
            self.judges_a_real_packet(),
            self.judges_what_no_vector_is(),
            self.judges_long_packets_in_time(),
            self.judges_whom_to_trust(),
            self.judges_keys_and_digests_by_their_strength(),
            self.judges_what_a_signer_may_do(),
            self.judges_with_keys_and_policies_as_we_do(),
        );
        let nowhere = key.with_file_name("nowhere");
        for arguments in [&[][..], &[&*key], &[&*nowhere, &*key], &[&*key, &*nowhere]] {
            self.gives(2, &format!("{arguments:?}"), arguments).await;
        }
        // A packet in the wrong place is not shown.
        let (packet, flag) = (vectors().join("good/names.json"), "--witness-policy");
        let policy = [&*packet, &*key, Path::new(flag), &*packet];
        for arguments in [&[&*key, &*packet][..], &policy] {
            let printed = self.gives(2, &format!("{arguments:?}"), arguments).await;
            assert!(printed.len() < 1_000, "{printed}");
        }
        self.tells_what_is_no_packet_from_what_cannot_be_read()
            .await;
        self.names_the_flag_without_a_file().await;
        self.judges_no_document_made_of_a_packet().await;
    }

    /// A file without a packet is one that does not verify; what cannot be read is named, and nothing is said of it.
    async fn tells_what_is_no_packet_from_what_cannot_be_read(&self) {
        let (folder, key) = (TempDir::new().unwrap(), ledger_key());
        let file = folder.path().join("packet.json");
        for content in ["", " \n", "{}"] {
            std::fs::write(&file, content).unwrap();
            let printed = self.gives(1, content, &[&file, &key]).await;
            assert!(printed.contains("NOT VERIFIED"), "{printed}");
        }
        for unreadable in [folder.path(), &folder.path().join("nowhere")] {
            let printed = self.gives(2, "unreadable", &[unreadable, &key]).await;
            let told = format!("{} cannot be read", unreadable.display());
            assert!(printed.contains(&told), "{printed}");
        }
    }

    /// A flag without its file, as an unset variable leaves it, is not taken for one that was not given.
    async fn names_the_flag_without_a_file(&self) {
        let (packet, key) = (vectors().join("good/created.json"), ledger_key());
        for flag in ["--timestamp-roots", "--witness-policy"] {
            let arguments: [&Path; 4] = [&packet, &key, flag.as_ref(), Path::new("")];
            for arguments in [&arguments[..], &arguments[..3]] {
                let printed = self.gives(2, flag, arguments).await;
                let usage = "[--timestamp-roots FILE] [--witness-policy FILE]";
                assert!(printed.replace(usage, "").contains(flag), "{printed}");
            }
        }
    }

    /// Says what a document is that is made of a packet, instead of that it is not genuine.
    async fn judges_no_document_made_of_a_packet(&self) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("evidence");
        for (begin, what) in [
            ("<!doctype html>\n<p>Evidence", "a page"),
            ("%PDF-1.7\n%\u{ff}", "a PDF"),
            ("PK\u{3}\u{4}\n\0\0", "a ZIP archive"),
        ] {
            std::fs::write(&file, begin).unwrap();
            let printed = self.gives(2, what, &[&file, &ledger_key()]).await;
            let told = format!("evidence is {what} and not a packet");
            assert!(printed.contains(&told), "{printed}");
        }
    }

    /// Judges with keys and policies that are written otherwise, and with what only looks like them.
    async fn judges_with_keys_and_policies_as_we_do(&self) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("trust");
        let (packet, key) = (vectors().join("good/cosigned.json"), ledger_key());
        let vkey = std::fs::read_to_string(&key).unwrap();
        let vkey = vkey.trim();
        for (text, code) in [
            (format!(" \t\n{vkey}\r\n"), 0),
            (format!("\u{a0}{vkey}"), 0),
            (format!("\u{feff}{vkey}"), 2),
            (format!("{vkey}\0"), 2),
            (vkey.replacen('+', "+\r", 1), 2),
        ] {
            std::fs::write(&file, &text).unwrap();
            self.gives(code, &text, &[&packet, &file]).await;
        }
        let policy = std::fs::read_to_string(vectors().join("witness-policy.txt")).unwrap();
        let flag = Path::new("--witness-policy");
        for (text, code) in [
            (policy.replace(" 2 one", " 00000000002 one"), 0),
            (policy.replace(" 2 one", " toString one"), 2),
            (format!("log {vkey}\n{policy}"), 0),
            (format!("log nobody\nlog {vkey}\n{policy}"), 2),
            (format!("{policy}#{}", "é".repeat(33_000)), 2),
        ] {
            std::fs::write(&file, &text).unwrap();
            self.gives(code, &text, &[&packet, &key, flag, &file]).await;
        }
    }

    /// Judges files that are as long as a packet may be, and longer; and one that tells a terminal what to show.
    async fn judges_what_no_vector_is(&self) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("packet.json");
        let key = ledger_key();
        let genuine = std::fs::read_to_string(vectors().join("good/names.json")).unwrap();
        for (bytes, code) in [(PACKET_BYTES, 0), (PACKET_BYTES + 1, 1)] {
            let spaces = " ".repeat(bytes - genuine.len());
            std::fs::write(&file, format!("{genuine}{spaces}")).unwrap();
            self.gives(code, &format!("{bytes} bytes"), &[&file, &key])
                .await;
        }
        // U+110000, in the form of UTF-8.
        let name = "\"partnerName\":\"";
        let (before, after) = genuine.split_once(name).unwrap();
        let beyond = [
            before.as_bytes(),
            name.as_bytes(),
            b"\xf4\x90\x80\x80",
            after.as_bytes(),
        ];
        std::fs::write(&file, beyond.concat()).unwrap();
        let printed = self.gives(1, "U+110000", &[&file, &key]).await;
        let told = printed.contains("UTF-8") || printed.contains("form");
        assert!(told && printed.len() < 1_000, "{printed}");
        let mut packet: Value = serde_json::from_str(&genuine).unwrap();
        packet["createdAt"] = "\r\u{1b}[2K\u{202e}\u{2028}Verified: all of it.".into();
        std::fs::write(&file, packet.to_string()).unwrap();
        let printed = self.gives(1, "a changed date", &[&file, &key]).await;
        let steering = ['\r', '\u{1b}', '\u{202e}', '\u{2028}'];
        assert!(!printed.contains(steering), "{printed:?}");
    }

    /// Judges packets with one value that is longer than any that is recorded.
    async fn judges_long_packets_in_time(&self) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("packet.json");
        let hash = "+".repeat(42) + "A=";
        let long = || json!("x".repeat(1_000_000));
        let hashes = json!(vec![hash; 20_000]);
        for (packet, member, value) in [
            ("names", "/partnerName", long()),
            ("names", "/stream", long()),
            ("renewed", "/timestamps/0/response", long()),
            ("renewed", "/timestamps/0/consistency", hashes),
        ] {
            let genuine = std::fs::read(vectors().join(format!("good/{packet}.json"))).unwrap();
            let mut long: Value = serde_json::from_slice(&genuine).unwrap();
            *long.pointer_mut(member).unwrap() = value;
            std::fs::write(&file, long.to_string()).unwrap();
            let key = ledger_key();
            let judged = timeout(Duration::from_secs(60), self.run(&[&file, &key])).await;
            let (code, printed) = judged.unwrap_or_else(|_| panic!("{member} takes too long"));
            let is_verdict = printed.contains("NOT VERIFIED");
            assert!(code == Some(1) && is_verdict, "{member}: {printed}");
        }
    }

    async fn judges_a_real_packet(&self) {
        let folder = TempDir::new().unwrap();
        let place = |name: &str| folder.path().join(name);
        let (packet, key) = (place("packet.json"), place("key"));
        let authority = TimeAuthority::start(&Chain::default()).await;
        std::fs::write(place("roots"), authority.root_pem()).unwrap();
        let server = TestServer::with(Engine::Sqlite, |mut config| {
            authority.follow(config.clock.clone());
            config.timestamps = Some(Timestamps {
                authorities: vec![authority.url().parse().unwrap()],
                roots: place("roots"),
                interval: Duration::from_secs(600),
            });
            config
        })
        .await;
        let acme = server.partner("Acme").await;
        let id = acme.book().await;
        acme.protect(&id).await;
        acme.reschedule(&id, &samples::new_date()).await.ok(200);
        acme.cancel(&id, &samples::cancellation()).await;
        let genuine = until("a packet with a time-stamp", async || {
            let packet = acme.packet(&id).await.text();
            packet.contains("\"timestamps\":").then_some(packet)
        })
        .await;
        std::fs::write(&packet, &genuine).unwrap();
        std::fs::write(&key, server.vkey().await).unwrap();
        let printed = self.gives(0, "genuine", &[&packet, &key]).await;
        let told = printed.contains("Not checked: the time-stamps");
        assert!(told, "{printed}");
        let roots = place("roots");
        let flag = Path::new("--timestamp-roots");
        let printed = self
            .gives(0, "genuine", &[&packet, &key, flag, &roots])
            .await;
        assert!(printed.contains("a root that you trust"), "{printed}");
        let changed = genuine.replacen("\"protected\":true", "\"protected\":false", 1);
        std::fs::write(&packet, changed).unwrap();
        self.gives(1, "not protected", &[&packet, &key]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_we_offer_tells_genuine_packets_from_all_else() {
    if is_there("python3", &["-c", "import cryptography"]).await {
        let verifier = Verifier {
            driver: Some("packets.py"),
            ..Verifier::of("python3", "verify.py", 1)
        };
        verifier.judges_rightly().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shell_we_offer_tells_genuine_packets_from_all_else() {
    if is_there("jq", &["--version"]).await && is_there("openssl", &["version"]).await {
        // It starts a process for each hash, and takes a second for a packet.
        let verifier = Verifier::of("bash", "verify.sh", 8);
        verifier.judges_rightly().await;
        verifier.trusts_no_root_of_the_machine().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_we_offer_tells_genuine_packets_from_all_else() {
    if is_there("node", &["--version"]).await {
        let verifier = Verifier::of("node", "verify.js", 3);
        verifier.judges_rightly().await;
        verifier.tells_one_from_several().await;
    }
}

/// The bad packets whose signed note or proofs no library of such notes and proofs may take.
const FOREIGN: &str = "ledger-of-another note-of-another-key proof-of-another-index proof-too-long \
    proof-under-another-key proof-under-another-log";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gos_checksum_database_takes_our_notes_and_proofs_and_no_others() {
    const SOURCES: &str = "/usr/share/gocode";
    if !Path::new(SOURCES)
        .join("src/golang.org/x/mod/sumdb")
        .is_dir()
    {
        assert!(
            !all_required(),
            "golang-golang-x-mod-dev is not on this machine"
        );
        println!("golang-golang-x-mod-dev is not on this machine: the notes were not judged by it");
        return;
    }
    let good = cases().into_iter().filter(|case| case.code == Some(0));
    let good = good.map(|case| (case.packet, "taken"));
    let foreign = FOREIGN
        .split(' ')
        .map(|name| (vectors().join(format!("bad/{name}.json")), "refused"));
    let expected: Vec<_> = good.chain(foreign).collect();
    let _go = GO.lock().await;
    let mut command = Command::new("go");
    command
        .arg("run")
        .arg(repository().join("tests/verifiers/packet.go"))
        .arg(ledger_key())
        .args(expected.iter().map(|(packet, _)| packet))
        .env("GO111MODULE", "off")
        .env("GOPATH", SOURCES)
        .env("GOCACHE", GO_CACHE);
    let verdicts = judged(command, std::iter::empty()).await;
    let packets = expected.iter().map(|(packet, _)| packet.clone());
    let found: Vec<_> = packets.zip(verdicts.iter().map(String::as_str)).collect();
    assert_eq!(found, expected);
}
