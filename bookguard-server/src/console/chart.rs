//! Charts, as SVG with classes: no script, no style attribute. Each stands beside a table of the same numbers.

use maud::{Markup, html};

/// A bar that is made of pieces, one on top of the other.
pub(super) struct Bar {
    /// What people read about it.
    pub(super) label: String,
    /// The height of each piece, with its class.
    pub(super) pieces: Vec<(u64, &'static str)>,
}

const WIDTH: u64 = 480;
const HEIGHT: u64 = 96;
const GAP: u64 = 3;

/// Bars beside each other. The highest fills the height.
pub(super) fn bars(title: &str, bars: &[Bar]) -> Markup {
    let sum = |bar: &Bar| bar.pieces.iter().map(|(count, _)| count).sum::<u64>();
    let most = bars.iter().map(sum).max().unwrap_or(0).max(1);
    let width = (WIDTH / bars.len().max(1) as u64).max(GAP + 1) - GAP;
    // A single one among thousands is still seen.
    let height = |count: u64| match count {
        0 => 0,
        count => (count * HEIGHT / most).max(2),
    };
    html! {
        svg.bars role="img" aria-label=(title) viewBox={ "0 0 " (WIDTH) " " (HEIGHT + 1) } preserveAspectRatio="none" {
            @for (place, bar) in bars.iter().enumerate() {
                @let x = place as u64 * (width + GAP);
                g {
                    title { (bar.label) }
                    @for (at, (count, class)) in bar.pieces.iter().enumerate() {
                        @let below: u64 = bar.pieces[..=at].iter().map(|(count, _)| height(*count)).sum();
                        rect.(*class) x=(x) y=(HEIGHT.saturating_sub(below)) width=(width) height=(height(*count)) {}
                    }
                }
            }
            line.axis x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
        }
    }
}

/// A step of a schedule: how much of its height is filled, whether it applies now, and what people read in it.
pub(super) struct ChartStep {
    /// Thousandths.
    pub(super) filled: u64,
    pub(super) is_current: bool,
    pub(super) label: String,
}

/// The steps of a schedule from left to right, as wide as each other, because a last one of an hour matters as much as a first
/// one of a year.
pub(super) fn steps(title: &str, steps: &[ChartStep]) -> Markup {
    let width = WIDTH / steps.len().max(1) as u64;
    html! {
        svg.steps role="img" aria-label=(title) viewBox={ "0 0 " (WIDTH) " " (HEIGHT + 1) } preserveAspectRatio="none" {
            @for (place, step) in steps.iter().enumerate() {
                @let height = (step.filled.min(1000) * HEIGHT / 1000).max(2);
                rect.step.current[step.is_current] x=(place as u64 * width) y=(HEIGHT - height)
                    width=(width.saturating_sub(GAP)) height=(height) { title { (step.label) } }
            }
            line.axis x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
        }
    }
}
