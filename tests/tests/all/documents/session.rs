//! Runs the shell blocks of each page in order in one shell, like a reader who follows the page.
//!
//! A session has its own folder, home and port. `:8080` on a page stands for the port of the server that the page started.
//! `cargo` is a stub that does only what the pages ask of it: it puts the `bookguard` built here into `target/release`. The
//! binary is on the `PATH` only for pages that assume it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bookguard_tests::program::program;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use super::pages::{self, Step};
use super::repository;
use super::shape::fits;

/// Far more than a page needs, even on a busy machine.
const BOUND: Duration = Duration::from_secs(180);

/// The stub of `cargo`: the program is built already.
const CARGO: &str = "#!/bin/sh
set -e
mkdir -p target/release
ln -sf \"$BUILT\" target/release/bookguard
case \"$*\" in
'run --release -- demo') exec target/release/bookguard demo ;;
'build --release') ;;
*) echo \"the pages are tested without: cargo $*\" >&2; exit 64 ;;
esac
";

/// A shell function that waits until a block that stays running has printed as many lines as the page shows, and then finds
/// the port it listens on.
const STARTED: &str = "started() {
    until [ \"$(wc -l < \"$OUT/$1\")\" -ge \"$2\" ]; do
        kill -0 \"$3\" || { echo 'it has ended'; exit 1; }
        sleep 0.05
    done
    port=$(sed -n 's|.*listening on http://[^ ]*:\\([0-9]*\\).*|\\1|p' \"$OUT/$1\")
    PORT=${port:-${PORT-}}
    printf %s \"$PORT\" > \"$OUT/port\"
}
";

/// Returns one script of all steps, which writes the output of each into a file of its own.
fn script(steps: &[Step]) -> String {
    let mut script = format!("set -euo pipefail\n{STARTED}");
    for (index, step) in steps.iter().enumerate() {
        let commands = step.commands.replace(":8080", ":$PORT");
        let _ = write!(
            script,
            "echo {index} > \"$OUT/at\"\n{{\n{commands}}} > \"$OUT/{index}\" 2>&1"
        );
        if step.stays {
            let lines = step.shown.as_deref().unwrap_or_default().lines().count();
            let _ = write!(script, " &\nstarted {index} {lines} $!");
        }
        script.push('\n');
    }
    script
}

/// Runs the steps; an error says what went wrong, and where.
async fn follow(steps: &[Step]) -> Result<(), String> {
    let folder = TempDir::new().unwrap();
    let place = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (work, out, bin) = (place("work"), place("out"), place("bin"));
    // The reader is in a checkout as far as the pages need one.
    for part in ["docs", "tests"] {
        std::os::unix::fs::symlink(repository().join(part), work.join(part)).unwrap();
    }
    let cargo = bin.join("cargo");
    // Another process writes the file. Otherwise a program that a parallel test starts could inherit the open file, and a file
    // that is open for writing cannot be run.
    let write = "printf %s \"$1\" >\"$2\" && chmod 755 \"$2\"";
    let made = std::process::Command::new("sh")
        .args(["-c", write, "sh", CARGO])
        .arg(&cargo)
        .status();
    assert!(made.unwrap().success());
    let inherited = std::env::var("PATH").unwrap_or_default();
    let mut path = format!("{}:{inherited}", bin.display());
    let builds = steps.iter().any(|step| step.commands.contains("cargo "));
    if !builds {
        path = format!("{}:{path}", program().parent().unwrap().display());
    }
    let mut child = Command::new("bash")
        .args(["-c", &script(steps)])
        .current_dir(&work)
        .env_clear()
        .env("PATH", path)
        .env("BUILT", program())
        .env("HOME", &work)
        .env("OUT", &out)
        .env("BOOKGUARD_LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = child.id().unwrap();
    let ended = timeout(BOUND, child.wait()).await;
    // Blocks that stay running end with the page.
    let stopped = Command::new("bash")
        .args(["-c", &format!("kill -KILL -- -{group}")])
        .stderr(Stdio::null())
        .status();
    let _ = stopped.await;
    let succeeded = ended.is_ok_and(|status| status.unwrap().success());
    compare(steps, &out, succeeded)
}

fn compare(steps: &[Step], out: &Path, succeeded: bool) -> Result<(), String> {
    let printed = |name: &str| {
        let bytes = std::fs::read(out.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let at = printed("at").trim().parse::<usize>().unwrap_or(0);
    let port = printed("port");
    for (index, step) in steps.iter().enumerate() {
        let (line, output) = (step.line, printed(&index.to_string()));
        if index == at && !succeeded {
            let commands = &step.commands;
            return Err(format!("line {line} fails:\n{commands}\n{output}"));
        }
        let shown = step.shown.as_deref();
        let shown = shown.map(|shown| shown.replace(":8080", &format!(":{port}")));
        if shown.as_ref().is_some_and(|shown| !fits(shown, &output)) {
            let shown = shown.unwrap_or_default();
            return Err(format!("line {line} shows\n{shown}\nand prints\n{output}"));
        }
    }
    Ok(())
}

/// Returns whether the tools that the pages need besides `bookguard` are installed; panics if all are required and one is not.
async fn tools_are_there() -> bool {
    let required = std::env::var("BOOKGUARD_TEST_LANGUAGES").is_ok_and(|set| set == "required");
    for tool in ["curl", "jq", "openssl"] {
        let asked = Command::new("bash")
            .args(["-c", &format!("command -v {tool}")])
            .stdout(Stdio::null())
            .status();
        if !asked.await.is_ok_and(|status| status.success()) {
            assert!(!required, "{tool} is not on this machine");
            println!("{tool} is not on this machine: the pages' commands were not run");
            return false;
        }
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_pages_does_what_its_page_shows() {
    if !tools_are_there().await {
        return;
    }
    let only = std::env::var("PAGE").unwrap_or_default();
    let mut wrong = String::new();
    for path in pages::all() {
        let name = path.display().to_string();
        let steps = pages::steps(&pages::text(&path));
        if steps.is_empty() || !name.contains(&only) {
            continue;
        }
        if let Err(why) = follow(&steps).await {
            let _ = writeln!(wrong, "{name}, {why}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn a_page_that_does_not_hold_is_found() {
    let page = |text: &str| pages::steps(text);
    let follow = async |text: &str| follow(&page(text)).await;
    assert_eq!(
        follow("```sh\nA=1\n```\n\n```sh\necho $A\n```\n\n```text\n1\n```\n").await,
        Ok(())
    );
    let another = follow("```sh\necho 1\n```\n\n```text\n2\n```\n").await;
    assert!(another.unwrap_err().starts_with("line 1 shows"));
    let fails = follow("```sh\necho 1\n```\n\n```sh\nfalse | cat\n```\n").await;
    assert!(fails.unwrap_err().starts_with("line 5 fails"));
    let unset = follow("```sh\necho $ID\n```\n").await;
    assert!(unset.unwrap_err().contains("ID: unbound variable"));
    let ended =
        follow("<!-- stays running -->\n```sh\ntrue\n```\n\n```text\nlistening\n```\n").await;
    assert!(ended.is_err());
}
