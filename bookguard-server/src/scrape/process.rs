//! The system's figures about this process, under the names that Prometheus' own client libraries use.

use std::fmt;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::show;

/// This process.
#[derive(Debug)]
pub(super) struct Process {
    /// When it began to measure, in seconds since the epoch.
    began: f64,
}

impl Process {
    pub(super) fn new() -> Self {
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            began: began.unwrap_or_default().as_secs_f64(),
        }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        show(
            &mut encoder,
            "process_start_time_seconds",
            "This node: when the server started, in seconds since the epoch.",
            self.began,
        )?;
        if let Some(seconds) = processor_seconds() {
            let name = "process_cpu_seconds";
            let help = "This node: processor time, user and system.";
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        if let Some(bytes) = resident_bytes() {
            let help = "This node: memory in use.";
            show(&mut encoder, "process_resident_memory_bytes", help, bytes)?;
        }
        if let Some(files) = open_files() {
            let help = "This node: open files, connections included.";
            show(&mut encoder, "process_open_fds", help, files)?;
        }
        if let Some(most) = most_files() {
            let help = "This node: how many files may be open.";
            show(&mut encoder, "process_max_fds", help, most)?;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn processor_seconds() -> Option<f64> {
    use rustix::time::{ClockId, clock_gettime};
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    std::time::Duration::try_from(spent)
        .ok()
        .map(|spent| spent.as_secs_f64())
}

#[cfg(unix)]
fn most_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn processor_seconds() -> Option<f64> {
    None
}

#[cfg(not(unix))]
fn most_files() -> Option<u64> {
    None
}

/// Known on Linux only, as is the number of open files.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

fn open_files() -> Option<u64> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?;
    // One of them is this directory.
    Some((files.count() as u64).saturating_sub(1))
}
