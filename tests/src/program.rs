//! The `bookguard` binary: run for one command, or as a server in its own process.
//!
//! Invariants: it is built from this workspace in the profile of the running test; no setting from the environment reaches
//! it; a child process ends when its handle is dropped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::caller::Caller;
use crate::engine::TestDatabase;
use crate::test_server::Partner;
use crate::waiting::{BOUND, until};

/// The path of the binary, which is built on first use.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(build)
}

/// Builds the binary in this test's target folder and profile, so that almost nothing is left to build. A test is named
/// beside it so that Cargo chooses the features of dependencies as for the tests of the workspace.
fn build() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own file");
    // <target>/<profile's folder>/deps/<test>
    let folder = own.ancestors().nth(2).expect("a test lies in deps");
    let target = folder.parent().expect("a profile's folder is in target");
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("debug");
    let profile = if name == "debug" { "dev" } else { name };
    let mut cargo = std::process::Command::new(env!("CARGO"));
    // Cargo tells a test its package, and the build script of ring runs again when it is told another one: without this,
    // everything above it would be built a second time.
    for (name, _) in std::env::vars_os() {
        if matches!(name.to_str(), Some(name) if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            cargo.env_remove(&name);
        }
    }
    let built = cargo
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["build", "--quiet", "--workspace", "--bin", "bookguard"])
        .args(["--test", "all", "--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .output()
        .expect("cargo, which runs these tests, can be run");
    assert!(
        built.status.success(),
        "bookguard does not build:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    folder.join(format!("bookguard{}", std::env::consts::EXE_SUFFIX))
}

/// A command line of the binary.
#[derive(Debug, Clone)]
pub struct CommandLine {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    input: Vec<u8>,
    folder: Option<PathBuf>,
    user: Option<u32>,
    bound: Duration,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The exit code; `None` if it was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The arguments of a command line: as a list, or as one text, in which `'...'` keeps words together.
pub trait Arguments {
    /// The arguments as a list.
    fn one_by_one(self) -> Vec<OsString>;
}

impl Arguments for &str {
    fn one_by_one(self) -> Vec<OsString> {
        let mut args = Vec::new();
        for (n, part) in self.split('\'').enumerate() {
            match n % 2 {
                0 => args.extend(part.split_whitespace().map(OsString::from)),
                _ => args.push(part.into()),
            }
        }
        args
    }
}

impl Arguments for &String {
    fn one_by_one(self) -> Vec<OsString> {
        self.as_str().one_by_one()
    }
}

impl Arguments for String {
    fn one_by_one(self) -> Vec<OsString> {
        self.as_str().one_by_one()
    }
}

impl Arguments for &[&str] {
    fn one_by_one(self) -> Vec<OsString> {
        self.iter().map(OsString::from).collect()
    }
}

impl<const N: usize> Arguments for [&str; N] {
    fn one_by_one(self) -> Vec<OsString> {
        self.as_slice().one_by_one()
    }
}

/// A command line of `bookguard` with these arguments.
pub fn bookguard(args: impl Arguments) -> CommandLine {
    CommandLine {
        program: program().to_owned(),
        args: args.one_by_one(),
        env: Vec::new(),
        input: Vec::new(),
        folder: None,
        user: None,
        bound: BOUND,
    }
}

impl CommandLine {
    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl Arguments) -> Self {
        self.args.extend(args.one_by_one());
        self
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Sets its standard input.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets its working folder.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Limits the size of every file; a write beyond the limit fails and does not kill the process.
    #[must_use]
    pub fn limited_to_kib(self, kib: u32) -> Self {
        // The unit of ulimit is 512 bytes in POSIX, and in the shells that follow it.
        self.through(&format!("trap '' XFSZ; ulimit -f {}", kib * 2))
    }

    /// Sets its umask.
    #[must_use]
    pub fn with_umask(self, umask: &str) -> Self {
        self.through(&format!("umask {umask}"))
    }

    /// Runs it through a shell that runs this first.
    fn through(mut self, first: &str) -> Self {
        let script = format!("{first}; exec \"$0\" \"$@\"");
        let program = std::mem::replace(&mut self.program, PathBuf::from("sh"));
        self.args
            .splice(..0, ["-c".into(), script.into(), program.into_os_string()]);
        self
    }

    /// Allows more time to finish, for work that grows with the data of the test.
    #[must_use]
    pub fn patiently(mut self) -> Self {
        self.bound = BOUND * 6;
        self
    }

    /// Runs it as this user, from a copy of the binary that the user can reach. Only root can do this.
    #[must_use]
    pub fn as_user(mut self, user: u32, program: &Path) -> Self {
        self.user = Some(user);
        self.program = program.to_owned();
        self
    }

    /// Runs it to its end while nobody reads its output.
    pub async fn run_unread(self) -> Ran {
        let mut child = self.spawn(Stdio::null());
        drop(child.stdout.take());
        self.end(child).await
    }

    /// Kills it (SIGKILL) as soon as a condition holds. Returns false if it ended by itself before.
    pub async fn killed_when(self, condition: impl FnMut() -> bool) -> bool {
        self.signaled_when("KILL", condition).await.is_some()
    }

    /// Sends it a signal as soon as a condition holds, and waits for its end. Returns none if it ended by itself before.
    pub async fn signaled_when(
        self,
        name: &str,
        mut condition: impl FnMut() -> bool,
    ) -> Option<ExitStatus> {
        let mut child = self.spawn(Stdio::null());
        let is_time = until("a moment for a signal, or its end", async || {
            let ended = child.try_wait().expect("a child can be asked");
            (ended.is_some() || condition()).then_some(ended.is_none())
        })
        .await;
        if !is_time {
            return None;
        }
        signal(&child, name).await;
        let ended = timeout(BOUND, child.wait()).await;
        let status = ended.expect("a command told to end does");
        Some(status.expect("a child can be awaited"))
    }

    /// Starts it, to read its output line by line until it is dropped.
    pub fn start(self) -> Printing {
        let mut child = self.spawn(Stdio::null());
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        Printing {
            lines: BufReader::new(stdout).lines(),
            complaints: BufReader::new(stderr).lines(),
            child,
        }
    }

    /// Starts it, to write lines to it and read lines from it.
    pub fn talk(self) -> Talking {
        let mut child = self.spawn(Stdio::piped());
        let input = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        Talking {
            child,
            input,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// Runs it to its end.
    pub async fn run(self) -> Ran {
        let mut child = self.spawn(Stdio::piped());
        let input = child.stdin.take();
        let bytes = self.input.clone();
        let feeding = tokio::spawn(async move {
            if let Some(mut pipe) = input {
                // A command that does not read its input closes the pipe.
                let _ = pipe.write_all(&bytes).await;
            }
        });
        let ran = self.end(child).await;
        feeding.abort();
        ran
    }

    /// Runs it to its end, which must be a success, and returns its standard output as JSON.
    pub async fn json(self) -> Value {
        self.run().await.json()
    }

    async fn end(&self, child: Child) -> Ran {
        let ended = timeout(self.bound, child.wait_with_output()).await;
        let output = ended
            .unwrap_or_else(|_| panic!("{:?} did not end", self.args))
            .expect("a child's output can be read");
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn spawn(&self, stdin: Stdio) -> Child {
        let mut command = Command::new(&self.program);
        command.args(&self.args).kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BOOKGUARD_") {
                command.env_remove(name);
            }
        }
        // A developer's own profiles are there.
        command.env_remove("HOME").env_remove("XDG_CONFIG_HOME");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        #[cfg(unix)]
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.stdin(stdin);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", self.program.display()))
    }
}

impl Ran {
    /// Asserts that it ended with this exit code and that standard error contains these words.
    #[track_caller]
    pub fn ended(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} in {self:?}");
        }
        self
    }

    /// Like [`Self::ended`], and asserts that standard output is empty.
    #[track_caller]
    pub fn refused(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.stdout, "", "{self:?}");
        self.ended(code, words)
    }

    /// Asserts that it succeeded, that standard output contains these words, and that standard error is empty.
    #[track_caller]
    pub fn said(&self, words: &[&str]) -> &Self {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        for word in words {
            assert!(self.stdout.contains(word), "{word:?} in {self:?}");
        }
        self
    }

    /// Standard output as JSON, after asserting that it succeeded.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.printed()
    }

    /// Standard output as JSON, however it ended.
    pub fn printed(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// A string member of that JSON.
    pub fn string(&self, name: &str) -> String {
        let value = self.json();
        let text = value[name].as_str();
        text.unwrap_or_else(|| panic!("no string {name} in {value}"))
            .to_owned()
    }
}

/// A running command that prints lines.
pub struct Printing {
    lines: Lines<BufReader<ChildStdout>>,
    complaints: Lines<BufReader<ChildStderr>>,
    child: Child,
}

impl Printing {
    /// The next line it prints.
    ///
    /// Panics after the bound, and if the command ends first.
    pub async fn line(&mut self) -> String {
        let line = timeout(BOUND, self.lines.next_line()).await;
        let line = line.expect("a line within the bound");
        line.expect("its output can be read")
            .expect("it goes on printing")
    }

    /// The next line on its standard error.
    ///
    /// Panics after the bound, and if the command ends first.
    pub async fn complaint(&mut self) -> String {
        let line = timeout(BOUND, self.complaints.next_line()).await;
        let line = line.expect("a complaint within the bound");
        line.expect("its standard error can be read")
            .expect("it goes on")
    }

    /// Sends it a signal, such as `HUP`.
    pub async fn signal(&self, name: &str) {
        signal(&self.child, name).await;
    }

    /// Stops reading what it prints, and waits for its end. Returns its exit code.
    pub async fn unread(mut self) -> Option<i32> {
        drop(self.lines);
        let ended = timeout(BOUND, self.child.wait()).await;
        let status = ended.expect("a command that nobody reads ends");
        status.expect("a child can be awaited").code()
    }

    /// Asks it to stop (SIGTERM) and waits. Returns its exit code.
    pub async fn terminate(mut self) -> Option<i32> {
        self.signal("TERM").await;
        let ended = timeout(BOUND, self.child.wait()).await;
        let status = ended.expect("a command told to end does");
        status.expect("a child can be awaited").code()
    }
}

/// A running command that reads lines and answers them.
pub struct Talking {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Talking {
    /// Writes a line to it.
    pub async fn tell(&mut self, line: impl AsRef<[u8]>) {
        let line = [line.as_ref(), b"\n"].concat();
        self.input.write_all(&line).await.expect("it reads");
        self.input.flush().await.expect("it reads");
    }

    /// The next line it prints; `None` if it has ended.
    ///
    /// Panics after the bound.
    pub async fn line(&mut self) -> Option<String> {
        let line = timeout(BOUND, self.lines.next_line()).await;
        let line = line.expect("a line within the bound");
        line.expect("its output can be read")
    }

    /// Closes its input and waits for its end. Returns the rest of its output, and how it ended.
    pub async fn end(self) -> Ran {
        let Self {
            child,
            input,
            mut lines,
        } = self;
        drop(input);
        let mut stdout = String::new();
        let printed = async {
            while let Some(line) = lines.next_line().await.expect("its output can be read") {
                stdout.push_str(&line);
                stdout.push('\n');
            }
        };
        timeout(BOUND, printed)
            .await
            .expect("it ends with its input");
        let output = timeout(BOUND, child.wait_with_output()).await;
        let output = output
            .expect("it ends with its input")
            .expect("a child can be awaited");
        Ran {
            code: output.status.code(),
            stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A server in its own process.
pub struct Serving {
    child: Child,
    url: String,
    lines: Lines<BufReader<ChildStdout>>,
    stderr: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl Serving {
    /// Starts `bookguard serve` on this database and a free port, with these further arguments.
    pub async fn start(database: &TestDatabase, args: &[&str]) -> Self {
        let line = database
            .command(["serve", "--listen", "127.0.0.1:0"])
            .env("BOOKGUARD_RATE_LIMIT_PER_SECOND", "0")
            // Entries of the log's own would disturb tests that count them.
            .env("BOOKGUARD_MAP_INTERVAL_SECONDS", "86400")
            .env("BOOKGUARD_REGISTRATIONS_PER_MINUTE", "0");
        Self::of(line.args(args)).await
    }

    /// The same, and a registered partner.
    pub async fn with_partner(database: &TestDatabase, args: &[&str]) -> (Self, Partner) {
        let server = Self::start(database, args).await;
        let partner = server.partner("Acme").await;
        (server, partner)
    }

    /// Starts this command line, which must be one of `serve`, and waits until it prints that it listens.
    pub async fn of(line: CommandLine) -> Self {
        let mut server = Self::unread(line).await;
        server.read();
        server
    }

    /// Starts a server of which nobody reads standard error until [`Self::read`].
    pub async fn unread(line: CommandLine) -> Self {
        let mut child = line.spawn(Stdio::null());
        let stdout = child.stdout.take().expect("standard output is piped");
        let mut lines = BufReader::new(stdout).lines();
        let first = timeout(BOUND, lines.next_line()).await;
        let first = first
            .ok()
            .and_then(Result::ok)
            .flatten()
            .unwrap_or_default();
        let Some(url) = first.strip_prefix("listening on ") else {
            let ended = timeout(BOUND, child.wait_with_output()).await;
            let said = ended
                .expect("it ends")
                .expect("a child can be awaited")
                .stderr;
            panic!(
                "serve said {first:?} and {:?}",
                String::from_utf8_lossy(&said)
            );
        };
        Self {
            child,
            url: url.to_owned(),
            lines,
            stderr: Arc::default(),
            reading: None,
        }
    }

    /// Reads its standard error from now on.
    pub fn read(&mut self) {
        let mut errors = self.child.stderr.take().expect("standard error is piped");
        let said = Arc::clone(&self.stderr);
        self.reading = Some(tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = errors.read(&mut buffer).await {
                let text = String::from_utf8_lossy(&buffer[..read]);
                said.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&text);
            }
        }));
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port of that address.
    pub fn address(&self) -> &str {
        let address = self.url.strip_prefix("http://");
        address.expect("it serves plain HTTP")
    }

    /// The address of its operator interface, which it prints after its own if it has one.
    pub async fn operator_url(&mut self) -> String {
        let line = timeout(BOUND, self.lines.next_line()).await;
        let line = line.ok().and_then(Result::ok).flatten().unwrap_or_default();
        let url = line.strip_prefix("operator interface at ");
        url.unwrap_or_else(|| panic!("serve said {line:?}"))
            .to_owned()
    }

    /// A caller without a key.
    pub fn caller(&self) -> Caller {
        Caller::new(&self.url)
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Its standard error, once that holds these words.
    pub async fn until_said(&self, words: &str) -> String {
        let said = async || Some(self.stderr()).filter(|said| said.contains(words));
        until(words, said).await
    }

    /// Kills it at once (SIGKILL).
    pub async fn kill(mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Sends it a signal, such as `HUP`.
    pub async fn signal(&self, name: &str) {
        signal(&self.child, name).await;
    }

    /// Registers a partner.
    pub async fn partner(&self, name: &str) -> Partner {
        Partner::register(&self.caller(), name).await
    }

    /// Stops it gracefully (SIGTERM) and returns its standard error.
    pub async fn stop(self) -> String {
        let (code, said) = self.terminate().await;
        assert_eq!(code, Some(0), "{said}");
        said
    }

    /// Asks it to stop (SIGTERM) and waits. Returns its exit code and its standard error.
    pub async fn terminate(mut self) -> (Option<i32>, String) {
        self.signal("TERM").await;
        let ended = timeout(BOUND, self.child.wait()).await;
        let status = ended
            .expect("a server told to end does")
            .expect("a child can be awaited");
        if let Some(reading) = self.reading.take() {
            let _ = reading.await;
        }
        (status.code(), self.stderr())
    }
}

async fn signal(child: &Child, name: &str) {
    let id = child.id().expect("a child that was not awaited runs");
    let asked = Command::new("kill")
        .args([&format!("-{name}"), &id.to_string()])
        .status()
        .await
        .expect("kill can be run");
    assert!(asked.success(), "it had ended before");
}

/// The lines of a server's log, as JSON, that tell of more than what happens in every run.
pub fn alarms(log: &str) -> Vec<&str> {
    let lines = log.lines();
    lines
        .filter(|line| !line.contains(r#""level":"info""#))
        .collect()
}
