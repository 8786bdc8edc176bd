//! A progress bar on standard error, for work that takes minutes. `indicatif` would draw the same line and add three more
//! packages.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Progress on its own line of standard error, if it is a terminal.
pub struct Bar {
    watched: bool,
    drawn: Option<Instant>,
}

impl Bar {
    const EVERY: Duration = Duration::from_millis(100);

    /// A new bar. It draws nothing yet, and never does if standard error is not a terminal.
    pub fn new() -> Self {
        Self {
            watched: std::io::stderr().is_terminal(),
            drawn: None,
        }
    }

    /// Draws what this work tells of its progress, and clears the line.
    pub fn during<T>(work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
        let mut bar = Self::new();
        let done = work(&mut |done, total| bar.draw(done, total));
        bar.clear();
        done
    }

    /// Draws the progress, ten times a second at most.
    pub fn draw(&mut self, done: u64, total: u64) {
        let fresh = self
            .drawn
            .is_some_and(|drawn| drawn.elapsed() < Self::EVERY);
        if !self.watched || fresh {
            return;
        }
        self.drawn = Some(Instant::now());
        // The reader may be gone; the work continues.
        let _ = write!(std::io::stderr(), "\r{} ", bar(done, total));
    }

    /// Clears the line.
    pub fn clear(&self) {
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
