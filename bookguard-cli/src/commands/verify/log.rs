//! `evidence verify --log`: reads the whole public log, and hands it to the scan.

use std::sync::Arc;

use bookguard_core::evidence::{LogReport, Scan, ScanError, Timeline};
use bookguard_core::ledger::walk::WalkError;

use crate::commands::public_log::{self, Source};
use crate::failure::Failure;
use crate::output::bar::Bar;

/// Why a log does not say whether a packet is complete.
#[derive(Debug)]
pub(in crate::commands) struct NoAnswer {
    /// In sentences.
    pub(in crate::commands) why: String,
    /// Whether the log and the one that proves the packet are two, under one key.
    pub(super) is_forked: bool,
}

impl From<String> for NoAnswer {
    fn from(why: String) -> Self {
        let is_forked = false;
        Self { why, is_forked }
    }
}

impl From<ScanError> for NoAnswer {
    fn from(why: ScanError) -> Self {
        Self {
            is_forked: matches!(why, ScanError::Log(WalkError::Forked { .. })),
            why: why.to_string(),
        }
    }
}

/// Scans a log that was opened for entries that a verified packet lacks. The outer error means that the log could not be
/// read; the inner one, that it cannot be relied on, and why.
pub(in crate::commands) async fn scan(
    (source, checkpoint): (Source, String),
    timeline: Timeline,
    vkey: &str,
) -> Result<Result<LogReport, NoAnswer>, Failure> {
    let mut scan = match Scan::new(timeline, &checkpoint, vkey) {
        Ok(scan) => scan,
        Err(why) => return Ok(Err(why.into())),
    };
    let mut bar = Bar::new();
    let read = public_log::fetch(&Arc::new(source), scan.paths(), |_, bytes| {
        let taken = scan.take(bytes).map_err(NoAnswer::from);
        let (done, total) = scan.progress();
        bar.draw(done, total);
        Ok(taken)
    })
    .await;
    bar.clear();
    if let Err(why) = read? {
        return Ok(Err(why));
    }
    Ok(scan.finish().map_err(NoAnswer::from))
}
