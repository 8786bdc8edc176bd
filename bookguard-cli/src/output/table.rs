//! The two shapes of all output: a list with one row per line, and a record with one field per line.
//!
//! Invariant: every cell is made plain here, so that no caller can forget it.

use anstyle::AnsiColor;
use bookguard_core::engine::command::Receipt;
use bookguard_core::features::events::RetryStatus;
use bookguard_core::model::{
    Amount, BookingStatus, DeliveryStatus, EndpointStatus, EventType, Id, Noun, Page,
    RegistrationStatus, Timestamp,
};
use bookguard_core::policy::{
    Actor, EvaluationStatus, EvidenceGrade, Reason, ResolutionPath, ResolutionStatus, Rule, Zone,
};
use bookguard_core::text;
pub use bookguard_core::text::counted;
use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

use super::columns::AnswerRows;
use crate::text::plain;

/// How tables look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Whether bold and colours may be used.
    pub colour: bool,
    /// Columns of the terminal, if there is one.
    pub width: Option<u16>,
}

impl Style {
    /// The text in bold.
    pub fn bold(self, text: &str) -> String {
        self.paint(anstyle::Style::new().bold(), text)
    }

    /// The text in green, for good news.
    pub fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// The text in red, for bad news.
    pub fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default(), text)
    }

    fn paint(self, look: anstyle::Style, text: &str) -> String {
        if self.colour {
            format!("{look}{text}{look:#}")
        } else {
            text.to_owned()
        }
    }
}

/// A list, one row per line. If the terminal is too narrow for that, one record per row, so that ids are never broken.
pub fn list<const N: usize>(
    style: Style,
    what: &str,
    header: [&str; N],
    rows: Vec<[String; N]>,
) -> String {
    if rows.is_empty() {
        return format!("No {what}.");
    }
    lines(style, &header, rows.into_iter().map(Vec::from).collect())
}

/// The chosen columns of an answer.
pub fn of_rows(style: Style, rows: &AnswerRows) -> String {
    let header: Vec<&str> = rows.columns().iter().map(String::as_str).collect();
    let cells: Vec<_> = rows.cells().collect();
    match &rows.next {
        Some(next) => {
            let page = match cells.is_empty() {
                true => "No rows.".to_owned(),
                false => lines(style, &header, cells),
            };
            page + &more(next.as_deref())
        }
        None => cells
            .into_iter()
            .map(|row| named(style, &header, row))
            .collect(),
    }
}

/// A row as a record. The mark of a row, in a column without a name, stands before its first value.
fn named(style: Style, header: &[&str], row: Vec<String>) -> String {
    let (mut mark, mut fields) = (String::new(), Vec::new());
    for (name, value) in header.iter().copied().zip(row) {
        if name.is_empty() {
            mark = value;
            continue;
        }
        let value = match std::mem::take(&mut mark) {
            none if none.is_empty() => value,
            mark => format!("{mark} {value}"),
        };
        fields.push((name, Some(value)));
    }
    record(style, &fields)
}

fn lines(style: Style, header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = empty();
    let cells = |row: &[&str]| -> Vec<_> {
        let cells = row.iter().map(|cell| comfy_table::Cell::new(plain(cell)));
        cells.collect()
    };
    table.set_header(cells(header));
    for row in &rows {
        table.add_row(cells(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    // A column's padding, and the blank that separates it.
    let wide = table
        .column_max_content_widths()
        .iter()
        .map(|width| u32::from(*width) + 2)
        .sum::<u32>()
        - 1;
    if style.width.is_some_and(|width| wide > u32::from(width)) {
        let records = rows.into_iter().map(|row| named(style, header, row));
        return records.collect::<Vec<_>>().join("\n\n");
    }
    let mut lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    if let Some(title) = lines.first_mut() {
        *title = style.bold(title);
    }
    lines.join("\n")
}

/// A record: names and values; fields without a value are left out. Values are never broken, so that keys and hashes can be
/// copied.
pub fn record(style: Style, fields: &[(&str, Option<String>)]) -> String {
    let said = fields
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let width = said.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = said.map(|(name, value)| {
        let name = style.bold(&format!("{name:width$}"));
        format!("{name}  {}", plain(value))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A record: `"name" => value`, one field per line; a field without a value is left out.
macro_rules! fields {
    ($($name:expr => $value:expr,)*) => {
        vec![$(($name, $crate::output::table::AsCell::cell(&$value))),*]
    };
}

/// A list of rows: `"HEADER" => value` for each column, where `row` is the row.
macro_rules! rows {
    ($style:expr, $what:expr, $rows:expr, $row:pat => $($header:literal => $value:expr,)*) => {
        $crate::output::table::list(
            $style,
            $what,
            [$($header),*],
            $rows.iter().map(|$row| [$($crate::output::table::AsCell::cell(&$value).unwrap_or_default()),*]).collect(),
        )
    };
}

/// A function that shows one thing as a record, and after it this text if there is one.
macro_rules! record_fn {
    ($vis:vis fn $show:ident($it:ident: &$ty:ty) $(, $after:expr)? => $($fields:tt)*) => {
        $vis fn $show($it: &$ty, style: $crate::output::table::Style) -> String {
            let fields = $crate::output::table::fields! { $($fields)* };
            $crate::output::table::record(style, &fields) $(+ $after)?
        }
    };
}

/// A function that shows a page of a list, and how to get the next one.
macro_rules! page_fn {
    ($vis:vis fn $show:ident($row:ident: &$ty:ty), $what:literal => $($columns:tt)*) => {
        $vis fn $show(page: &bookguard_core::model::Page<$ty>, style: $crate::output::table::Style) -> String {
            $crate::output::table::rows!(style, $what, page.data, $row => $($columns)*)
                + &$crate::output::table::next_page(page)
        }
    };
}

/// Two functions that show pages of a list: one partner's rows, and all partners', which say whose they are.
macro_rules! pages {
    ($of_one:ident, $of_all:ident, $what:literal, $row:ident: $ty:ty => $($columns:tt)*) => {
        $crate::output::table::page_fn! { fn $of_one($row: &$ty), $what => $($columns)* }
        $crate::output::table::page_fn! { fn $of_all($row: &$ty), $what => "PARTNER" => $row.partner_id, $($columns)* }
    };
}

/// Two functions that show the same of one thing, as a record, and of each in a page of a list, with a dash for what it lacks.
macro_rules! one_and_page {
    ($one:ident, $page:ident, $what:literal, $it:ident: $ty:ty => $($name:literal => $value:expr,)*) => {
        $crate::output::table::record_fn! { fn $one($it: &$ty) => $($name => $value,)* }

        fn $page(page: &bookguard_core::model::Page<$ty>, style: $crate::output::table::Style) -> String {
            let header = [$($name),*].map(str::to_uppercase);
            let header = header.each_ref().map(String::as_str);
            let rows = page.data.iter().map(|$it| {
                [$($crate::output::table::or_dash($crate::output::table::AsCell::cell(&$value))),*]
            });
            $crate::output::table::list(style, $what, header, rows.collect())
                + &$crate::output::table::next_page(page)
        }
    };
}

pub(crate) use {fields, one_and_page, page_fn, pages, record_fn, rows};

/// A value's text in a table; `None` if there is none.
pub trait AsCell {
    /// Its text.
    fn cell(&self) -> Option<String>;
}

impl<T: AsCell + ?Sized> AsCell for &T {
    fn cell(&self) -> Option<String> {
        (*self).cell()
    }
}

impl<T: AsCell> AsCell for Option<T> {
    fn cell(&self) -> Option<String> {
        self.as_ref()?.cell()
    }
}

impl AsCell for Timestamp {
    fn cell(&self) -> Option<String> {
        Some(time(*self))
    }
}

impl AsCell for Amount {
    fn cell(&self) -> Option<String> {
        Some(money(*self))
    }
}

impl AsCell for bool {
    fn cell(&self) -> Option<String> {
        Some(if *self { "yes" } else { "no" }.to_owned())
    }
}

impl<N: Noun> AsCell for Id<N> {
    fn cell(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Implements [`AsCell`] by `Display`, for numbers and words.
macro_rules! as_they_are {
    ($($ty:ty)*) => {
        $(impl AsCell for $ty {
            fn cell(&self) -> Option<String> {
                Some(self.to_string())
            }
        })*
    };
}

as_they_are!(str String u16 u32 u64 usize Zone);
as_they_are!(Actor Reason Rule EvaluationStatus ResolutionPath ResolutionStatus EvidenceGrade);

/// Implements [`AsCell`] for closed sets of words, as in their JSON.
macro_rules! by_their_words {
    ($($ty:ty)*) => {
        $(impl AsCell for $ty {
            fn cell(&self) -> Option<String> {
                Some(word(self))
            }
        })*
    };
}

by_their_words!(
    BookingStatus DeliveryStatus EndpointStatus EventType RegistrationStatus RetryStatus
);

/// The word of a member of a closed set, as in its JSON.
pub fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The words with `between` between them; `None` if there are none.
pub fn joined<T: ToString>(words: impl IntoIterator<Item = T>, between: &str) -> Option<String> {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    (!words.is_empty()).then(|| words.join(between))
}

/// A value, or a dash.
pub fn or_dash(value: impl AsCell) -> String {
    value.cell().unwrap_or_else(|| "-".to_owned())
}

/// How to get the page after this one.
pub fn next_page<T>(page: &Page<T>) -> String {
    let next = page.next_cursor.as_ref();
    let next = next.map(|cursor| format!("--cursor {cursor}"));
    more(next.as_deref())
}

/// The line after a page that is not the last, with the flag that asks for the next one.
pub fn more(flag: Option<&str>) -> String {
    flag.map_or_else(String::new, |flag| {
        format!("\n\nThere are more: {}", plain(flag))
    })
}

/// A time for people: `2026-11-05 10:00:00 UTC`.
pub fn time(at: Timestamp) -> String {
    // Years have four digits within Timestamp's range, so the text has one length.
    let text = at.to_string();
    match (text.get(..10), text.get(11..19)) {
        (Some(day), Some(hour)) => format!("{day} {hour} UTC"),
        _ => text,
    }
}

/// An amount: `USD 12,500.00`.
pub fn money(amount: Amount) -> String {
    text::grouped(&amount.to_string())
}

/// A number with thousands separators: `1,234,567`.
pub fn grouped(number: u64) -> String {
    text::grouped(&number.to_string())
}

/// A size: `512 bytes`, `3.5 KiB`, `128 GiB`. It is rounded down, so that there is never less room than it says.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find(|(_, bits)| bytes >> bits > 0);
    let Some((unit, bits)) = unit else {
        return counted(bytes, "byte");
    };
    let whole = bytes >> bits;
    let tenths = ((bytes - (whole << bits)) * 10) >> bits;
    match tenths {
        0 => format!("{} {unit}", grouped(whole)),
        _ => format!("{}.{tenths} {unit}", grouped(whole)),
    }
}

fn empty() -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-')));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The position of a fact in the log.
pub fn leaf(receipt: &Receipt) -> String {
    format!("{} of {}", receipt.leaf_index, receipt.tree_size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookguard_core::model::Currency;

    #[test]
    fn a_size_is_said_in_the_unit_that_suits_it() {
        for (bytes, said) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1_023, "1,023 bytes"),
            (1_024, "1 KiB"),
            (3_643, "3.5 KiB"),
            ((10 << 20) - 1, "9.9 MiB"),
            (67_786_190_848, "63.1 GiB"),
            (128 << 30, "128 GiB"),
            (u64::MAX, "16,777,215.9 TiB"),
        ] {
            assert_eq!(size(bytes), said);
        }
    }

    #[test]
    fn where_a_table_has_no_room_the_mark_of_a_row_stands_before_its_first_value() {
        let header = ["", "RULE", "REFUND"];
        let row = |mark: &str| [mark, "full", "USD 1.00"].map(str::to_owned);
        let style = Style {
            width: Some(10),
            ..Style::default()
        };
        let shown = list(style, "steps", header, vec![row(""), row("->")]);
        let expected = "RULE    full\nREFUND  USD 1.00\n\nRULE    -> full\nREFUND  USD 1.00";
        assert_eq!(shown, expected);
    }

    #[test]
    fn one_of_a_thing_is_told_from_several() {
        for (number, thing, said) in [
            (1, "entry", "1 entry"),
            (0, "entry", "0 entries"),
            (1_234, "booking", "1,234 bookings"),
        ] {
            assert_eq!(counted(number, thing), said);
        }
    }

    #[test]
    fn a_list_has_a_header_a_line_and_a_row_a_line() {
        let rows = vec![
            ["bkg_1".to_owned(), "a\u{1b}[2Jb".to_owned()],
            ["bkg_22".to_owned(), "c".to_owned()],
        ];
        let text = list(Style::default(), "bookings", ["BOOKING", "NAME"], rows);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["BOOKING", "NAME"]
        );
        assert!(lines[1].chars().all(|c| c == '-'), "{text}");
        assert_eq!(lines[2], "bkg_1    a\u{fffd}[2Jb");
        assert_eq!(lines[3], "bkg_22   c");
        assert_eq!(
            list(Style::default(), "bookings", ["A"], Vec::new()),
            "No bookings."
        );
    }

    #[test]
    fn a_terminal_too_narrow_for_a_row_gets_a_record_a_row() {
        let rows = || {
            vec![
                ["bkg_1".to_owned(), "some words".to_owned()],
                ["bkg_2".to_owned(), "more".to_owned()],
            ]
        };
        let shown = |width| {
            list(
                Style {
                    colour: false,
                    width: Some(width),
                },
                "bookings",
                ["BOOKING", "NAME"],
                rows(),
            )
        };
        assert_eq!(
            shown(18),
            "BOOKING  bkg_1\nNAME     some words\n\nBOOKING  bkg_2\nNAME     more"
        );
        let wide = list(Style::default(), "bookings", ["BOOKING", "NAME"], rows());
        let longest = wide.lines().map(str::len).max().unwrap() as u16;
        assert_eq!(shown(longest), wide);
        assert_ne!(shown(longest - 1), wide);
    }

    #[test]
    fn an_empty_page_says_that_there_are_more() {
        let shown = |list| {
            of_rows(
                Style::default(),
                &AnswerRows::of(list, "data", &[]).unwrap(),
            )
        };
        assert_eq!(shown(r#"{"data":[]}"#), "No rows.");
        assert_eq!(
            shown(r#"{"data":[],"nextCursor":"c"}"#),
            "No rows.\n\nThere are more: --cursor c"
        );
    }

    #[test]
    fn a_record_leaves_out_what_has_no_value() {
        let fields = [
            ("id", Some("x".to_owned())),
            ("website", None),
            ("status", Some("a\nb".to_owned())),
        ];
        assert_eq!(record(Style::default(), &fields), "id      x\nstatus  a b");
        let painted = record(
            Style {
                colour: true,
                width: None,
            },
            &fields[..1],
        );
        assert_eq!(painted, "\u{1b}[1mid\u{1b}[0m  x");
    }

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
    fn money_and_times_are_readable() {
        for (text, code, shown) in [
            ("12500", "USD", "USD 12,500.00"),
            ("0.5", "EUR", "EUR 0.50"),
            ("999", "USD", "USD 999.00"),
            ("1234567", "JPY", "JPY 1,234,567"),
            ("1000.125", "KWD", "KWD 1,000.125"),
        ] {
            assert_eq!(
                money(Amount::parse(text, Currency::parse(code).unwrap()).unwrap()),
                shown
            );
        }
        assert_eq!(
            time(Timestamp::parse("2026-11-05T10:00:00.250Z").unwrap()),
            "2026-11-05 10:00:00 UTC"
        );
    }
}
