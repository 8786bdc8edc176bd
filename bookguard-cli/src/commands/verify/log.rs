//! `evidence verify --log`: reads the whole public log, and hands it to the scan.

use std::sync::Arc;

use bookguard_core::evidence::{LogReport, Scan, Timeline};

use crate::commands::public_log::{self, Source};
use crate::failure::Failure;
use crate::output::bar::Bar;

/// Scans a log that was opened for entries that a verified packet lacks. The outer error means that the log could not be
/// read; the inner one, that it cannot be relied on, and why.
pub(in crate::commands) async fn scan(
    (source, checkpoint): (Source, String),
    timeline: Timeline,
    vkey: &str,
) -> Result<Result<LogReport, String>, Failure> {
    let mut scan = match Scan::new(timeline, &checkpoint, vkey) {
        Ok(scan) => scan,
        Err(why) => return Ok(Err(why.to_string())),
    };
    let mut bar = Bar::new();
    let read = public_log::fetch(&Arc::new(source), scan.paths(), |_, bytes| {
        let taken = scan.take(bytes).map_err(|why| why.to_string());
        let (done, total) = scan.progress();
        bar.draw(done, total);
        Ok(taken)
    })
    .await;
    bar.clear();
    if let Err(why) = read? {
        return Ok(Err(why));
    }
    Ok(scan.finish().map_err(|why| why.to_string()))
}
