//! Figures of an earlier run, kept in the repository, and the changes since.
//!
//! Only figures that another machine can be compared with are kept: ratios to floors of the same run, bytes, memory, and
//! latencies without queues. A change is shown, not judged.

use std::collections::BTreeMap;
use std::fs;

use bookguard_core::clock::Clock;
use serde::{Deserialize, Serialize};

use crate::Fallible;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/baseline.json");
/// Changes by more than this share are shown.
const SHOWN: f64 = 0.05;

/// The medians by the names of their figures.
pub type Figures = BTreeMap<String, f64>;

/// The contents of the file.
#[derive(Default, Serialize, Deserialize)]
struct Baseline {
    /// When it was last saved.
    date: String,
    machine: String,
    figures: Figures,
}

fn read() -> Fallible<Baseline> {
    let text = fs::read_to_string(FILE).map_err(|e| format!("{FILE}: {e}"))?;
    Ok(serde_json::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?)
}

/// Prints which figures have changed.
pub fn compare(figures: &Figures) -> Fallible<()> {
    let before = read()?;
    let known: Vec<(&String, f64, f64)> = figures
        .iter()
        .filter_map(|(name, now)| Some((name, *before.figures.get(name)?, *now)))
        .collect();
    let changed = known
        .iter()
        .filter(|(_, before, now)| (now / before - 1.0).abs() > SHOWN);
    println!(
        "Beside the baseline of {} ({}), {} of {} figures changed by more than 5 %{}",
        before.date,
        before.machine,
        changed.clone().count(),
        known.len(),
        if changed.clone().count() == 0 {
            "."
        } else {
            ":"
        }
    );
    for (name, before, now) in changed {
        println!(
            "  {:+6.1} %  {name}: {before:.3} → {now:.3}",
            (now / before - 1.0) * 100.0
        );
    }
    Ok(())
}

/// Saves these figures as the baseline; figures that were not measured stay as they are.
pub fn save(figures: Figures) -> Fallible<()> {
    let mut baseline = read().unwrap_or_default();
    baseline.date = Clock::System.now().to_string()[..10].to_owned();
    baseline.machine = machine()?;
    let rounded = |figure: f64| (figure * 1000.0).round() / 1000.0;
    let figures = figures
        .into_iter()
        .map(|(name, figure)| (name, rounded(figure)));
    baseline.figures.extend(figures);
    fs::write(FILE, serde_json::to_string_pretty(&baseline)? + "\n")?;
    println!("saved as the baseline: {FILE}");
    Ok(())
}

/// Describes this machine: its cores and processor.
fn machine() -> Fallible<String> {
    let cores = std::thread::available_parallelism()?;
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or(std::env::consts::ARCH, |model| {
        model.trim_start_matches([' ', '\t', ':'])
    });
    Ok(format!("{cores} cores, {model}"))
}
