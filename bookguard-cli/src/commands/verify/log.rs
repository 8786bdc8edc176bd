//! `evidence verify --log`: reads the whole public log, and hands it to the scan.

use std::sync::Arc;

use bookguard_core::evidence::{LogReport, Scan, Timeline};

use crate::commands::public_log;
use crate::failure::Failure;
use crate::output::bar::Bar;

/// Scans the log at `place` for entries that a verified packet lacks. The outer error means that the log could not be
/// read; the inner one, that it cannot be relied on, and why.
pub(super) async fn scan(
    place: &str,
    timeline: Timeline,
    vkey: &str,
) -> Result<Result<LogReport, String>, Failure> {
    let (source, checkpoint) = public_log::open(place).await?;
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
