//! Runs the receiver code of docs/webhooks.md, in each of its languages, on real deliveries and on forged ones, and the
//! published Standard Webhooks libraries on the same; [`packets`] runs the verifiers of evidence packets.
//!
//! If a language is not installed, its test is skipped with one line of output; with `BOOKGUARD_TEST_LANGUAGES=required` it
//! fails. The libraries are in the folder that `BOOKGUARD_TEST_LIBRARIES` names.

mod maps;
mod packets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookguard_core::clock::Clock;
use bookguard_core::webhook::{Secret, sign_body, sign_standard};
use bookguard_server::config::Config;
use bookguard_tests::engine::Engine;
use bookguard_tests::receiver::{Received, Receiver};
use bookguard_tests::test_server::TestServer;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::Mutex;

/// Programs of Go are built one after the other and keep what they built, so that Go's library, which comes as source, is compiled once.
static GO: Mutex<()> = Mutex::const_new(());
const GO_CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");

/// A delivery as a receiver gets it, and the verdicts it must reach.
#[derive(Clone)]
struct Case {
    what: &'static str,
    secret: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
    /// Whether it verifies by the `webhook-*` headers, which limit its age.
    standard: bool,
    /// Whether it verifies by `x-service-signature`.
    short: bool,
}

impl Case {
    fn genuine(received: &Received, secret: &str) -> Self {
        Self {
            what: "as it came",
            secret: secret.to_owned(),
            headers: received.headers.clone(),
            body: received.body.clone(),
            standard: true,
            short: true,
        }
    }

    /// Returns the same delivery, tampered with, and whether each signature still verifies.
    fn but(&self, what: &'static str, holds: (bool, bool), change: impl FnOnce(&mut Self)) -> Self {
        let mut case = self.clone();
        (case.what, case.standard, case.short) = (what, holds.0, holds.1);
        change(&mut case);
        case
    }

    fn set(&mut self, header: &str, value: impl Into<String>) {
        self.headers.insert(header.to_owned(), value.into());
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Sets and signs a time this many seconds from now.
    fn sent(&mut self, seconds: i64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let at = i64::try_from(now.as_secs()).unwrap() + seconds;
        let id = self.header("webhook-id").to_owned();
        let signed = sign_standard(&Secret::new(&self.secret), &id, at, &self.body);
        self.set("webhook-timestamp", at.to_string());
        self.set("webhook-signature", signed.unwrap());
    }

    /// Signs for the `webhook-*` headers with this key, whatever the secret is.
    fn sign_with(&mut self, key: &[u8]) {
        let (id, sent) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(format!("{id}.{sent}.").as_bytes());
        mac.update(&self.body);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        self.set("webhook-signature", format!("v1,{signature}"));
    }

    fn json(&self) -> String {
        let (secret, headers) = (&self.secret, &self.headers);
        json!({ "secret": secret, "headers": headers, "body": STANDARD.encode(&self.body) })
            .to_string()
    }

    /// Returns the parts joined by `|`, for the shell, which reads no JSON.
    fn parts(&self) -> String {
        [
            &self.secret,
            self.header("webhook-id"),
            self.header("webhook-timestamp"),
            self.header("webhook-signature"),
            self.header("x-service-signature"),
            &STANDARD.encode(&self.body),
        ]
        .join("|")
    }
}

/// Returns deliveries that a server has really sent.
async fn deliveries() -> Vec<Case> {
    // The libraries use the system's clock, so the server must too.
    let server = TestServer::with(Engine::Sqlite, |config| Config {
        clock: Clock::System,
        ..config
    })
    .await;
    let acme = server.partner("Acme").await;
    let receiver = Receiver::start().await;
    acme.endpoint(&receiver.url()).await;
    let booking_id = acme.book().await;
    acme.protect(&booking_id).await;
    let received = receiver.wait_for(2).await;
    received
        .iter()
        .map(|one| Case::genuine(one, &acme.secret))
        .collect()
}

/// Returns the cases that any verifier must tell apart.
fn common(genuine: &Case) -> Vec<Case> {
    let another = Secret::from_bytes([7; 32]).reveal().to_owned();
    let none = (false, false);
    let (old, new) = ((false, true), (true, true));
    vec![
        genuine.clone(),
        genuine.but("one byte is another", none, |case| case.body[20] ^= 1),
        genuine.but("cut", none, |case| case.body.truncate(20)),
        genuine.but("a newline after it", none, |case| case.body.push(b'\n')),
        genuine.but("no body", none, |case| case.body.clear()),
        genuine.but("another's secret", none, |case| case.secret = another),
        genuine.but("another id", old, |case| case.set("webhook-id", "evt_1")),
        genuine.but("another time", old, |case| {
            let later = case.header("webhook-timestamp").parse::<i64>().unwrap() + 1;
            case.set("webhook-timestamp", later.to_string());
        }),
        genuine.but("four minutes old", new, |case| case.sent(-240)),
        genuine.but("six minutes old", old, |case| case.sent(-360)),
        genuine.but("from six minutes ahead", old, |case| case.sent(360)),
        genuine.but("two signatures, the second ours", new, |case| {
            let ours = case.header("webhook-signature").to_owned();
            let foreign = format!("v1,{}", STANDARD.encode([9; 32]));
            case.set("webhook-signature", format!("{foreign} {ours}"));
        }),
    ]
}

/// Returns cases with malformed headers.
fn malformed(genuine: &Case) -> Vec<Case> {
    let (old, none) = ((false, true), (false, false));
    let standard = |header: &'static str, value: &'static str| {
        genuine.but(value, old, |case| case.set(header, value))
    };
    let short = |value: &'static str| {
        genuine.but(value, (true, false), |case| {
            case.set("x-service-signature", value);
        })
    };
    let mut cases = vec![
        standard("webhook-timestamp", "abc"),
        standard("webhook-timestamp", ""),
        standard("webhook-timestamp", "99999999999999999999"),
        standard("webhook-id", ""),
        standard("webhook-signature", ""),
        standard("webhook-signature", "v1,"),
        standard("webhook-signature", "v1,é"),
        standard("webhook-signature", "v2 v1 , ,"),
        short(""),
        short("sha256="),
        short("sha256=é"),
        genuine.but("no header at all", none, |case| case.headers.clear()),
    ];
    cases.push(
        genuine.but("the digest without its prefix", (true, false), |case| {
            let digest = case.header("x-service-signature").replace("sha256=", "");
            case.set("x-service-signature", digest);
        }),
    );
    cases.push(genuine.but("a time with a sign", old, |case| {
        let sent = format!("+{}", case.header("webhook-timestamp"));
        let key = STANDARD.decode(case.secret.replace("whsec_", "")).unwrap();
        case.set("webhook-timestamp", sent);
        case.sign_with(&key);
    }));
    cases.push(
        genuine.but("bytes that are not text", (true, true), |case| {
            case.body = vec![0xff, 0, b'\r', b'\n', 0xc3, b'\n', b'\n'];
            case.sent(0);
            let short = sign_body(&Secret::new(&case.secret), &case.body);
            case.set("x-service-signature", short);
        }),
    );
    cases.push(genuine.but("signed for the other header", none, |case| {
        let body = sign_body(&Secret::new(&case.secret), &case.body);
        let standard = case.header("webhook-signature").to_owned();
        case.set("webhook-signature", body);
        case.set("x-service-signature", standard);
    }));
    cases
}

/// Returns deliveries to a receiver without a usable secret, signed as anybody can who guesses that.
fn without_a_secret(genuine: &Case) -> Vec<Case> {
    let signed = |what: &'static str, secret: &str, short: bool| {
        genuine.but(what, (false, short), |case| {
            case.secret = secret.to_owned();
            case.sign_with(b"");
            let guessed = format!("v1, {}", case.header("webhook-signature"));
            case.set("webhook-signature", guessed);
            let body = sign_body(&Secret::new(secret), &case.body);
            case.set("x-service-signature", body);
        })
    };
    vec![
        signed("the secret is empty", "", false),
        signed("the secret is a prefix", "whsec_", false),
        signed("the secret is a prefix and a space", "whsec_ ", false),
        // Any other text is a key of the short form.
        signed("the secret is not base64", "whsec_!!!", true),
    ]
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the one block of this language in docs/webhooks.md whose code has these words.
fn offered(language: &str, words: &str) -> String {
    let page = std::fs::read_to_string(repository().join("docs/webhooks.md")).unwrap();
    let fence = format!("```{language}\n");
    let blocks = page
        .split(&fence)
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap());
    let fitting: Vec<&str> = blocks.filter(|block| block.contains(words)).collect();
    let [block] = fitting[..] else {
        panic!("docs/webhooks.md has {} such blocks", fitting.len());
    };
    block.to_owned()
}

fn driver(name: &str) -> String {
    std::fs::read_to_string(repository().join("tests/verifiers").join(name)).unwrap()
}

fn all_required() -> bool {
    std::env::var("BOOKGUARD_TEST_LANGUAGES").is_ok_and(|set| set == "required")
}

/// Lets Python find the published libraries.
fn with_libraries(mut command: Command) -> Command {
    if let Some(libraries) = std::env::var_os("BOOKGUARD_TEST_LIBRARIES") {
        command.env("PYTHONPATH", Path::new(&libraries).join("python"));
    }
    command
}

/// Returns whether the program is installed; panics if it is not and all languages are required.
async fn is_there(program: &str, says: &[&str]) -> bool {
    let asked = with_libraries(Command::new(program))
        .args(says)
        .output()
        .await;
    let there = asked.is_ok_and(|ran| ran.status.success());
    assert!(there || !all_required(), "{program} is not on this machine");
    if !there {
        println!("{program} is not on this machine: its verifier was not run");
    }
    there
}

/// Runs a verifier with these lines as its input and returns the lines it prints.
async fn judged(mut command: Command, lines: impl Iterator<Item = String>) -> Vec<String> {
    let input: String = lines.map(|line| line + "\n").collect();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
    let ran = child.wait_with_output().await.unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {stderr}");
    feed.await.unwrap().unwrap();
    let stdout = String::from_utf8(ran.stdout).unwrap();
    stdout.lines().map(str::to_owned).collect()
}

async fn all_cases() -> Vec<Case> {
    let genuine = deliveries().await;
    let cases = |one: &Case| [common(one), malformed(one), without_a_secret(one)].concat();
    genuine.iter().flat_map(cases).collect()
}

/// Asserts that the verdicts are as the cases expect.
async fn judges_rightly(command: Command, spelled: impl Fn(&Case) -> String) {
    let cases = all_cases().await;
    let verdicts = judged(command, cases.iter().map(spelled)).await;
    let word = |ours| if ours { "ours" } else { "foreign" };
    let expected = cases.iter().map(|case| {
        let (standard, short) = (word(case.standard), word(case.short));
        (case.what, format!("{standard} {short}"))
    });
    let expected: Vec<_> = expected.collect();
    let what = cases.iter().map(|case| case.what);
    let found: Vec<_> = what.zip(verdicts).collect();
    assert_eq!(found, expected);
}

/// Runs the offered code with its driver in an interpreter.
async fn interpreted(program: &str, language: &str, driver_name: &str) {
    if !is_there(program, &["--version"]).await {
        return;
    }
    let folder = TempDir::new().unwrap();
    let script = folder.path().join(driver_name);
    let code = offered(language, "verify") + "\n" + &driver(driver_name);
    std::fs::write(&script, code).unwrap();
    let mut command = Command::new(program);
    command.arg(script);
    judges_rightly(command, Case::json).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_we_offer_tells_our_deliveries_from_all_else() {
    interpreted("python3", "python", "driver.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_we_offer_tells_our_deliveries_from_all_else() {
    interpreted("node", "js", "driver.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ruby_we_offer_tells_our_deliveries_from_all_else() {
    interpreted("ruby", "ruby", "driver.rb").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_php_we_offer_tells_our_deliveries_from_all_else() {
    interpreted("php", "php", "driver.php").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_go_we_offer_tells_our_deliveries_from_all_else() {
    if !is_there("go", &["version"]).await {
        return;
    }
    let _go = GO.lock().await;
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("receiver")).unwrap();
    write("go.mod", "module example.com/hooks\n");
    write("main.go", &driver("driver.go"));
    write("receiver/receiver.go", &offered("go", "package receiver"));
    let mut command = Command::new("go");
    command
        .args(["run", "."])
        .current_dir(folder.path())
        .env("GOCACHE", GO_CACHE)
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local");
    judges_rightly(command, Case::json).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shell_we_offer_tells_our_deliveries_from_all_else() {
    if !is_there("openssl", &["version"]).await {
        return;
    }
    let mut command = Command::new("sh");
    let code = offered("sh", "verify_body()") + "\n" + &driver("driver.sh");
    command.args(["-c", &code]);
    judges_rightly(command, Case::parts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shell_we_offer_takes_nothing_without_a_body_or_when_openssl_fails() {
    if !is_there("openssl", &["version"]).await {
        return;
    }
    let secret = Secret::from_bytes([7; 32]);
    let nothing = sign_standard(&secret, "evt_1", 1, "").unwrap();
    let script = r#"
        verify "$1" evt_1 1 "v1, $2" missing.json 2>&1 && echo "verify took what it could not read"
        verify_body "$1" sha256= missing.json 2>&1 && echo "verify_body took what it could not read"
        openssl() { case $1 in dgst) return 1 ;; *) command openssl "$@" ;; esac; }
        verify "$1" evt_1 1 v1, /dev/null && echo "verify took half a signature"
        verify_body "$1" sha256= /dev/null && echo "verify_body took half a signature"
        true"#;
    let folder = TempDir::new().unwrap();
    let mut command = Command::new("sh");
    let code = offered("sh", "verify_body()") + script;
    command
        .args(["-c", &code, "sh", secret.reveal(), &nothing])
        .current_dir(folder.path());
    let said = judged(command, std::iter::empty()).await;
    assert!(!said.iter().any(|line| line.contains(" took ")), "{said:?}");
}

/// Runs a published library on the common cases only: each library reports malformed headers in its own way.
async fn library(program: &str, driver_name: &str, variable: &str, place: &str) {
    let Some(libraries) = std::env::var_os("BOOKGUARD_TEST_LIBRARIES") else {
        assert!(!all_required(), "BOOKGUARD_TEST_LIBRARIES is not set");
        println!("BOOKGUARD_TEST_LIBRARIES is not set: {driver_name} was not run");
        return;
    };
    let mut command = Command::new(program);
    command
        .arg(repository().join("tests/verifiers").join(driver_name))
        .env(variable, Path::new(&libraries).join(place));
    let cases: Vec<Case> = deliveries().await.iter().flat_map(common).collect();
    let verdicts = judged(command, cases.iter().map(Case::json)).await;
    let word = |ours: bool| if ours { "ours" } else { "foreign" };
    let expected: Vec<_> = cases
        .iter()
        .map(|case| (case.what, word(case.standard).to_owned()))
        .collect();
    let found: Vec<_> = cases.iter().map(|case| case.what).zip(verdicts).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_python_library_takes_our_deliveries_and_nothing_else() {
    library("python3", "library.py", "PYTHONPATH", "python").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_javascript_library_takes_our_deliveries_and_nothing_else() {
    library("node", "library.cjs", "NODE_PATH", "node_modules").await;
}
