//! Instructions per operation of one process, counted by `perf stat` if the machine supports it.
//!
//! Times are noisy, instruction counts are not.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Fallible;
use crate::process::Process;

/// How long perf needs to attach before it counts.
const ATTACH: Duration = Duration::from_millis(500);

/// Returns the event that this machine can count: instructions including the kernel's, or only those of programs.
///
/// # Errors
/// The reason why it can count neither, in perf's words.
pub fn event() -> Result<&'static str, String> {
    let mut why = "perf is not installed".to_owned();
    for event in ["instructions", "instructions:u"] {
        let tried = Command::new("perf")
            .args(["stat", "-x", ",", "-e", event, "true"])
            .output();
        let Ok(output) = tried else { continue };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match count(&said) {
            Some(_) => return Ok(event),
            None => why = said.lines().next_back().unwrap_or_default().to_owned(),
        }
    }
    Err(why)
}

/// Counts the instructions of `process` while `work` runs, which must take less than `time`; returns them per operation
/// that `work` reports.
pub fn per_operation(
    process: &Process,
    event: &str,
    time: Duration,
    work: impl FnOnce() -> Fallible<u64>,
) -> Fallible<f64> {
    let pid = process.pid().to_string();
    let perf = Command::new("perf")
        .args(["stat", "-x", ",", "-e", event, "-p", &pid])
        .args(["--", "sleep", &(time + ATTACH).as_secs_f64().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    std::thread::sleep(ATTACH);
    let operations = work()?;
    let output = perf.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let instructions = count(&said).ok_or_else(|| format!("perf counted nothing: {said}"))?;
    Ok(instructions / operations.max(1) as f64)
}

/// Parses the number in perf's output; `None` if it could not count.
fn count(said: &str) -> Option<f64> {
    said.lines()
        .find_map(|line| line.split(',').next()?.parse().ok())
}
