//! The printed table: every result with its floor, their ratio, and its aim.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::baseline::Figures;
use crate::cases::Sample;

/// What a result is compared with.
#[derive(Clone, Default)]
pub struct Floor {
    /// Its name.
    pub name: String,
    /// Rates per second, one for each repetition, measured right before it.
    pub rates: Vec<f64>,
    /// Microseconds of processor time each; nothing where they say nothing.
    pub cpu_us: Vec<f64>,
    /// The ratio that is aimed at.
    pub aim: Option<Aim>,
}

/// A ratio to reach, and its text.
#[derive(Clone, Copy)]
pub struct Aim {
    /// The least ratio.
    pub ratio: f64,
    /// The ratio as printed.
    pub text: &'static str,
}

/// The results so far.
#[derive(Default)]
pub struct Report {
    rows: Vec<Vec<Cell>>,
    part: &'static str,
    /// What a baseline is made of.
    figures: Figures,
    /// How many aims were met, and how many there were.
    met: (usize, usize),
}

impl Report {
    /// Adds a measured rate: the median of its repetitions.
    pub fn rate(&mut self, what: &str, samples: &[Sample], floor: Option<&Floor>) {
        let of = |part: fn(&Sample) -> f64| median(samples.iter().map(part).collect());
        let mut row = vec![
            Cell::new(what),
            number(of(|s| s.rate)),
            number(of(|s| s.p50)),
            number(of(|s| s.p99)),
            number(of(|s| s.cpu_us)),
            number(of(|s| s.database_us)),
            number(of(|s| s.peak)),
        ];
        if let Some(floor) = floor {
            let of = |part: fn(&Sample) -> f64| samples.iter().map(part).collect::<Vec<_>>();
            row.extend(self.compared(what, &of(|s| s.rate), &of(|s| s.cpu_us), floor));
        }
        self.rows.push(row);
    }

    /// Adds a rate without further figures.
    pub fn plain(&mut self, what: &str, rates: &[f64], floor: Option<&Floor>) {
        let mut row = vec![Cell::new(what), number(median(rates.to_vec()))];
        row.resize_with(7, || Cell::new(""));
        if let Some(floor) = floor {
            row.extend(self.compared(what, rates, &[], floor));
        }
        self.rows.push(row);
    }

    /// Adds a value, with a limit that it should not exceed.
    pub fn value(&mut self, what: &str, value: f64, unit: &str, limit: Option<f64>) {
        let mut row = vec![Cell::new(what), right(format!("{} {unit}", short(value)))];
        row.resize_with(11, || Cell::new(""));
        self.keep(&format!("{what}, {unit}"), value);
        if let Some(limit) = limit {
            row.push(right(format!("≤ {} {unit}", short(limit))));
            row.push(self.verdict(value <= limit));
        }
        self.rows.push(row);
    }

    /// Adds a note about something that could not be measured.
    pub fn note(&mut self, what: &str, why: &str) {
        self.rows.push(vec![Cell::new(what), Cell::new(why)]);
    }

    /// A heading between results.
    pub fn part(&mut self, title: &'static str) {
        self.part = title;
        self.rows.push(vec![Cell::new(format!("— {title}"))]);
    }

    /// Floor, its rate, the ratio, that of the processor times, the aim, whether it is met: each repetition against the
    /// floor measured before it.
    fn compared(&mut self, what: &str, rates: &[f64], cpu_us: &[f64], floor: &Floor) -> Vec<Cell> {
        let ratio = ratio(rates, &floor.rates);
        let multiple = self::ratio(cpu_us, &floor.cpu_us);
        self.keep(&format!("{what}, share of {}", floor.name), ratio);
        self.keep(
            &format!("{what}, processor time × {}", floor.name),
            multiple,
        );
        let mut cells = vec![
            Cell::new(&floor.name),
            number(median(floor.rates.clone())),
            right(format!("{ratio:.3}")),
            number(multiple),
        ];
        if let Some(aim) = floor.aim {
            cells.push(right(format!("≥ {}", aim.text)));
            cells.push(self.verdict(ratio >= aim.ratio));
        }
        cells
    }

    fn keep(&mut self, what: &str, figure: f64) {
        if figure.is_finite() {
            let part = self.part;
            self.figures.insert(format!("{part}: {what}"), figure);
        }
    }

    fn verdict(&mut self, met: bool) -> Cell {
        self.met.1 += 1;
        if met {
            self.met.0 += 1;
            Cell::new("met")
        } else {
            Cell::new("NOT met")
        }
    }

    /// Prints it all; the figures of a baseline.
    pub fn print(self, title: &str) -> Figures {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header([
                "what",
                "per second",
                "p50 ms",
                "p99 ms",
                "CPU µs",
                "+ PostgreSQL's",
                "peak MiB",
                "floor",
                "per second",
                "ratio",
                "CPU ×",
                "aim",
                "",
            ]);
        for row in &self.rows {
            table.add_row(row.clone());
        }
        println!("{title}\n{table}");
        println!("{} of {} aims met.", self.met.0, self.met.1);
        self.figures
    }
}

/// Each over its floor: the middle of them; not a number where one of them is not known.
fn ratio(results: &[f64], floors: &[f64]) -> f64 {
    median(results.iter().zip(floors).map(|(a, b)| a / b).collect())
}

/// The value in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn number(value: f64) -> Cell {
    right(short(value))
}

/// Formats a number with about three digits, or with separated thousands.
fn short(value: f64) -> String {
    if value.is_nan() {
        return String::new();
    }
    if value < 9.95 {
        return format!("{value:.2}");
    }
    if value < 99.95 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
