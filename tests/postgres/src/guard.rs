//! A small shell that owns a server's directory and outlives the process that started it.
//!
//! It reads command lines from its standard input, a pipe that only this process holds, and answers each with its exit
//! status. When the pipe closes, however this process ended, it stops the server and removes the directory. Nothing simpler
//! works: statics are never dropped, and SIGKILL runs no code.
//!
//! Invariants: the directory exists only while its guard does; the guard and everything it runs belong to an unprivileged
//! user.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long one command may take; the commands have shorter limits of their own where possible.
const PATIENCE: Duration = Duration::from_secs(120);

/// `$DIR` is the directory, `$BIN` the folder of the binaries. A closed pipe must not kill the guard, and no command may
/// hold the pipe for its answers.
const SCRIPT: &str = r#"
trap '' PIPE
umask 077
exec 2>/dev/null
mkdir "$DIR" || { echo "$?"; exit 1; }
cd "$DIR"
echo 0
while IFS= read -r line; do
    eval "$line" </dev/null >>"$DIR/harness.log" 2>&1
    echo "$?"
done
if [ -f "$DIR/data/postmaster.pid" ]; then
    "$BIN/pg_ctl" stop -D "$DIR/data" -m immediate -w -t 20 >/dev/null </dev/null ||
        kill -KILL "$(head -n 1 "$DIR/data/postmaster.pid")"
fi
cd /
rm -rf "$DIR"
"#;

/// The guard of a directory.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    /// Taken to end the guard.
    commands: Option<ChildStdin>,
    answers: Receiver<String>,
    directory: PathBuf,
}

impl Guard {
    /// Makes a directory; `password` is given to servers that ask the commands for one.
    pub fn post(binaries: &Path, password: Option<&str>) -> Self {
        let user = unprivileged();
        let directory = temporary(user).join(format!("bookguard-postgres-{:016x}", random()));
        let mut command = Command::new("sh");
        quiet_environment(&mut command);
        command
            .args(["-c", SCRIPT])
            .current_dir("/")
            .env("DIR", &directory)
            .env("BIN", binaries)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal is for the tests; the guard ends after them.
            .process_group(0);
        if let Some(password) = password {
            command.env("PGPASSWORD", password);
        }
        if let Some((user, group)) = user {
            command.uid(user).gid(group);
        }
        let mut child = command.spawn().unwrap_or_else(|e| panic!("sh: {e}"));
        let commands = child.stdin.take();
        let stdout = child.stdout.take().expect("standard output is piped");
        let (sender, answers) = channel();
        // Ends together with the guard's output.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let guard = Self {
            child,
            commands,
            answers,
            directory,
        };
        let made = guard.answer("mkdir");
        assert!(made, "{} cannot be made", guard.directory.display());
        guard
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs one line of shell as the unprivileged user, in the directory. Returns whether it succeeded.
    pub fn run(&mut self, line: &str) -> bool {
        assert!(!line.contains('\n'), "a command is one line");
        let pipe = self.commands.as_mut().expect("taken only by drop");
        writeln!(pipe, "{line}").unwrap_or_else(|e| panic!("the guard of a server is gone: {e}"));
        self.answer(line)
    }

    /// Runs a line that must succeed.
    ///
    /// Panics with the last output of the commands and the server.
    pub fn must(&mut self, line: &str) {
        assert!(self.run(line), "{line}: failed\n{}", self.tail());
    }

    /// The last output of the commands and the server.
    pub fn tail(&self) -> String {
        ["harness.log", "postgres.log"]
            .map(|name| {
                let said = std::fs::read(self.directory.join(name)).unwrap_or_default();
                let said = String::from_utf8_lossy(&said).into_owned();
                let lines: Vec<&str> = said.lines().collect();
                let last = &lines[lines.len().saturating_sub(30)..];
                format!("-- {name}\n{}", last.join("\n"))
            })
            .join("\n")
    }

    fn answer(&self, line: &str) -> bool {
        let answer = self.answers.recv_timeout(PATIENCE);
        let status = answer.unwrap_or_else(|e| {
            panic!("{line}: no end within {PATIENCE:?} ({e})\n{}", self.tail())
        });
        status == "0"
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.commands = None;
        // The thread ends with the guard's output; a guard that hangs is abandoned, so that the tests do not hang.
        if self.answers.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Disconnected) {
            let _ = self.child.wait();
        }
    }
}

/// Removes the environment's own PostgreSQL settings, and makes messages predictable.
pub fn quiet_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C");
}

/// The user and group to run as. Root must choose one, because PostgreSQL refuses to run as root.
fn unprivileged() -> Option<(u32, u32)> {
    let own = std::fs::metadata("/proc/self").map(|own| own.uid());
    if !own.is_ok_and(|user| user == 0) {
        return None;
    }
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = ["nobody", "postgres"].iter().find_map(|name| {
        let line = known
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    });
    let missing =
        "PostgreSQL does not run as root, and neither nobody nor postgres is in /etc/passwd";
    Some(found.expect(missing))
}

/// The folder in which directories are made, which their owner must be able to reach and clean up.
fn temporary(user: Option<(u32, u32)>) -> PathBuf {
    let usual = std::env::temp_dir();
    let open = |path: &Path| {
        path.is_absolute()
            && path.ancestors().all(|part| mode(part) & 0o001 != 0)
            && mode(path) & 0o002 != 0
    };
    if user.is_some() && !open(&usual) {
        return PathBuf::from("/tmp");
    }
    usual
}

fn mode(path: impl AsRef<OsStr>) -> u32 {
    std::fs::metadata(Path::new(&path)).map_or(0, |found| found.mode())
}

/// A random number, from the seed that the standard library draws for its hash maps.
pub fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}
