//! The measured processes: the server as its users run it, and this program again as a bare counterpart.
//!
//! Each prints `listening on http://ADDR` (or another first line) on standard output when it is ready, and is killed when
//! dropped. Its resource use is read from `/proc`.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Fallible;
use crate::rows;

/// The argument that makes this program a counterpart instead of the benchmark.
pub const CHILD: &str = "counterpart";
/// Clock ticks per second in `/proc`, which Linux fixes for programs.
const TICKS: f64 = 100.0;

/// A child process that is ready.
pub struct Process {
    child: Child,
    /// Kept open, because a child that prints into a closed pipe fails.
    _output: BufReader<ChildStdout>,
    /// The address it listens on.
    pub addr: SocketAddr,
    /// How long it took until it listened.
    pub started: Duration,
}

impl Process {
    /// Starts a command and waits until it listens. Its standard error goes to `log`.
    pub fn start(mut command: Command, log: &Path) -> Fallible<Self> {
        let file = fs::File::create(log)?;
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(|e| format!("{command:?} does not start: {e}"))?;
        let output = child.stdout.take().ok_or("a child without output")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let started = began.elapsed();
        let addr = line
            .trim()
            .strip_prefix("listening on http://")
            .and_then(|addr| addr.parse().ok());
        let Some(addr) = addr else {
            let _ = child.kill();
            let said = fs::read_to_string(log).unwrap_or_default();
            return Err(format!("{command:?} did not start: {line}{said}").into());
        };
        Ok(Self {
            child,
            _output: output,
            addr,
            started,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads a line of its `/proc` status, in MiB.
    pub fn memory(&self, name: &str) -> Fallible<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .ok_or_else(|| format!("no {name} in /proc"))?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1024.0)
    }

    /// Resets the peak of its memory.
    pub fn forget_peak(&self) {
        // Not permitted everywhere; then the peak is the highest since the start.
        let _ = fs::write(format!("/proc/{}/clear_refs", self.pid()), "5");
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) -> Fallible<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns the processor time it has used, in its own code and in the kernel.
    pub fn processor_time(&self) -> Fallible<Duration> {
        Ok(Stat::of(self.pid())?.own)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The `/proc` statistics of a process.
pub struct Stat {
    /// Its parent's id.
    pub parent: u32,
    /// Processor time it has used, in its own code and in the kernel.
    pub own: Duration,
    /// Processor time of its children that have ended.
    pub ended: Duration,
}

impl Stat {
    /// Reads the statistics of a process.
    pub fn of(pid: u32) -> Fallible<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let after_name = stat.rsplit_once(')').ok_or("an odd /proc stat")?.1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |field: usize| -> Fallible<Duration> {
            let ticks: f64 = fields.get(field).ok_or("a short /proc stat")?.parse()?;
            Ok(Duration::from_secs_f64(ticks / TICKS))
        };
        Ok(Self {
            parent: fields.get(1).ok_or("a short /proc stat")?.parse()?,
            own: ticks(11)? + ticks(12)?,
            ended: ticks(13)? + ticks(14)?,
        })
    }
}

/// The target of a load: where requests go, and where deliveries are recorded.
pub trait Target {
    /// Returns the addresses of its nodes.
    fn addrs(&self) -> Vec<SocketAddr>;
    /// Returns whether no delivery is open any more.
    fn is_settled(&self) -> Fallible<bool>;
    /// Returns how long each of the last `count` attempts took.
    fn last_attempts(&self, count: usize) -> Fallible<Vec<Duration>>;
}

/// Returns a command that runs this program as a counterpart.
pub fn counterpart(arguments: &[&str]) -> Fallible<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).args(arguments);
    Ok(command)
}

/// Makes servers of one program, in one folder, with one commit delay.
pub struct Maker {
    program: PathBuf,
    folder: TempDir,
    /// The time added to every commit on this disk.
    pub commit_delay: Duration,
}

/// A server with its database.
pub struct Server {
    /// The process.
    pub process: Process,
    /// Its database file.
    pub db: PathBuf,
    /// Where it is; removed with the server.
    pub folder: TempDir,
}

impl Target for Server {
    fn addrs(&self) -> Vec<SocketAddr> {
        vec![self.process.addr]
    }

    fn is_settled(&self) -> Fallible<bool> {
        let settled = "SELECT NOT EXISTS (SELECT 1 FROM delivery WHERE due_ms IS NOT NULL)";
        Ok(rows::open(&self.db)?.query_row(settled, [], |row| row.get(0))?)
    }

    fn last_attempts(&self, count: usize) -> Fallible<Vec<Duration>> {
        let connection = rows::open(&self.db)?;
        let mut select = connection.prepare(
            "SELECT json_extract(body, '$.durationMs') FROM attempt ORDER BY rowid DESC LIMIT ?1",
        )?;
        let taken = select
            .query_map([i64::try_from(count)?], |row| row.get::<_, u32>(0))?
            .map(|ms| Ok(Duration::from_millis(ms?.into())));
        taken.collect()
    }
}

impl Maker {
    /// Finds the server: the program that `BOOKGUARD_BENCH_BIN` names, or the build of this source that is shipped.
    pub fn new(commit_delay: Duration) -> Fallible<Self> {
        let folder = match std::env::var_os("BOOKGUARD_BENCH_DIR") {
            Some(parent) => TempDir::new_in(parent)?,
            None => TempDir::new()?,
        };
        let built = match std::env::var_os("BOOKGUARD_BENCH_BIN") {
            Some(path) => PathBuf::from(path),
            None => build()?,
        };
        // Copied, so that a build during the benchmark changes nothing.
        let program = folder.path().join("bookguard");
        fs::copy(&built, &program).map_err(|e| format!("{}: {e}", built.display()))?;
        Ok(Self {
            program,
            folder,
            commit_delay,
        })
    }

    /// Makes a folder that is deleted when dropped.
    pub fn folder(&self) -> Fallible<TempDir> {
        Ok(TempDir::new_in(self.folder.path())?)
    }

    /// Starts a server on an empty database.
    pub fn server(&self) -> Fallible<Server> {
        self.server_with(self.commit_delay)
    }

    /// Starts a server on an empty database whose commits take this much longer.
    pub fn server_with(&self, commit_delay: Duration) -> Fallible<Server> {
        let folder = self.folder()?;
        let db = folder.path().join("bench.db");
        let command = if commit_delay.is_zero() {
            self.serve(&db)
        } else {
            // No setting delays commits, so a counterpart starts the same server as a library.
            let ms = commit_delay.as_millis().to_string();
            counterpart(&["serve", &db.to_string_lossy(), &ms])?
        };
        Ok(Server {
            process: Process::start(command, &folder.path().join("log"))?,
            db,
            folder,
        })
    }

    /// Starts a new process for one that was killed, on the same database.
    pub fn restart(&self, server: &mut Server) -> Fallible<()> {
        let log = server.folder.path().join("log");
        server.process = Process::start(self.serve(&server.db), &log)?;
        Ok(())
    }

    /// Returns the command that serves this database without rate limits.
    pub fn serve(&self, db: impl AsRef<OsStr>) -> Command {
        let mut command = self.program();
        command.arg("serve").arg("--db").arg(db);
        command.args(["--listen", "127.0.0.1:0", "--dev"]);
        command.args(["--rate-limit-per-second", "0"]);
        command.args(["--registrations-per-minute", "0"]);
        command
    }

    /// Returns the command line without the `BOOKGUARD_` variables of this environment.
    pub fn program(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BOOKGUARD_") {
                command.env_remove(name);
            }
        }
        command
    }
}

/// Builds the server as it is shipped, and returns its path.
fn build() -> Fallible<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--profile", "dist", "--package", "bookguard-cli"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the server does not build".into());
    }
    let found = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
        .find_map(|message| {
            let path = message["executable"].as_str()?;
            (message["target"]["name"] == "bookguard").then(|| PathBuf::from(path))
        });
    Ok(found.ok_or("cargo built no program named bookguard")?)
}
