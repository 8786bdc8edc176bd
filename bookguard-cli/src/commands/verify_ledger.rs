//! `ledger verify`: the whole ledger and every row against it, with a bar for whoever watches and a rate at the end.
//!
//! What is checked is the store's; here it is shown.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use bookguard_core::service::Service;
use serde_json::json;
use tokio::task::block_in_place;

use super::verify::conclude;
use crate::args::Format;
use crate::failure::Failure;
use crate::output::{self, Screen};
use crate::text::plain;

/// Checks the ledger of a database.
///
/// Errors: [`Failure::NotVerified`] after every finding was shown, and what kept the database from being read.
pub fn run(service: &Service, screen: &Screen) -> Result<(), Failure> {
    let mut bar = Bar::new();
    let report = block_in_place(|| service.verify_ledger(|done, total| bar.draw(done, total)));
    bar.clear();
    let report = report?;
    let rate = report.entries_per_second().round() as u64;
    let found = report.findings.len() as u64 + report.more;
    match screen.format {
        Format::Json => {
            let mut value = json!(report);
            value["verified"] = report.clean().into();
            value["entriesPerSecond"] = rate.into();
            screen.json(&value.to_string())?;
        }
        Format::Table => {
            let failed = screen.style.bad("FAILED");
            let mut lines: Vec<String> = (report.findings.iter())
                .map(|finding| format!("{failed} {}", plain(&finding.to_string())))
                .collect();
            if report.more > 0 {
                lines.push(format!("… and {} more", grouped(report.more)));
            }
            lines.push(format!(
                "{} entries, {} bookings and {} events checked in {:.2} s ({} entries/s).",
                grouped(report.entries),
                grouped(report.bookings),
                grouped(report.events),
                report.elapsed.as_secs_f64(),
                grouped(rate)
            ));
            if report.clean() {
                lines.push(
                    screen
                        .style
                        .good("Verified: the ledger and every row agree."),
                );
            }
            output::print(&lines.join("\n"))?;
        }
    }
    let things = if found == 1 { "thing is" } else { "things are" };
    conclude(
        report.clean(),
        &format!(
            "The ledger does not verify: {} {things} not as the ledger says.",
            grouped(found)
        ),
    )
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Progress on a line of its own on standard error, if somebody watches.
struct Bar {
    watched: bool,
    drawn: Option<Instant>,
}

impl Bar {
    const EVERY: Duration = Duration::from_millis(100);

    fn new() -> Self {
        Self {
            watched: std::io::stderr().is_terminal(),
            drawn: None,
        }
    }

    fn draw(&mut self, done: u64, total: u64) {
        let fresh = self
            .drawn
            .is_some_and(|drawn| drawn.elapsed() < Self::EVERY);
        if !self.watched || fresh {
            return;
        }
        self.drawn = Some(Instant::now());
        // Somebody who watches may have stopped watching; the check goes on.
        let _ = write!(std::io::stderr(), "\r{} ", bar(done, total));
    }

    fn clear(&self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\u{1b}[2K");
        }
    }
}

fn bar(done: u64, total: u64) -> String {
    const WIDTH: usize = 40;
    let share = if total == 0 {
        1.0
    } else {
        (done as f64 / total as f64).min(1.0)
    };
    let filled = (share * WIDTH as f64) as usize;
    format!(
        "[{}{}] {:>3} %",
        "#".repeat(filled),
        ".".repeat(WIDTH - filled),
        (share * 100.0) as u64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn the_bar_fills_from_nothing_to_everything() {
        assert_eq!(bar(0, 10), format!("[{}]   0 %", ".".repeat(40)));
        assert_eq!(
            bar(5, 10),
            format!("[{}{}]  50 %", "#".repeat(20), ".".repeat(20))
        );
        for (done, total) in [(10, 10), (0, 0), (11, 10), (u64::MAX, u64::MAX)] {
            assert_eq!(
                bar(done, total),
                format!("[{}] 100 %", "#".repeat(40)),
                "{done} of {total}"
            );
        }
    }
}
