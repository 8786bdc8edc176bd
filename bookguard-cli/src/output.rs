//! How an answer is shown: tables for people, the interface's own JSON for programs.
//!
//! Invariants: if the reader goes away, the command ends quietly, never with a panic, and with the exit code of its verdict; text
//! from elsewhere cannot control the terminal; colour is only for terminals, unless the user says otherwise (`NO_COLOR`,
//! `CLICOLOR_FORCE`).

pub mod bar;
mod columns;
pub mod table;

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::mem;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use terminal_size::terminal_size_of;
use tokio::time::sleep;

use crate::args::{Format, GlobalArgs};
use crate::failure::Failure;
use crate::text::{escaped, in_lines, laid_out};
use columns::AnswerRows;
use table::Style;

/// The answer of an operation.
#[derive(Debug)]
pub struct Answer<T> {
    /// The JSON, byte for byte.
    pub json: String,
    /// The answer, parsed.
    pub output: T,
}

/// How often a command that waits looks whether its output is still read.
const LOOK_FOR_READER: Duration = Duration::from_secs(1);

/// The member that holds the rows of most lists.
pub const ROWS: &str = "data";

/// Where answers go.
#[derive(Debug, Clone)]
pub struct Screen {
    /// The form of answers.
    pub format: Format,
    /// The form that the user asked for explicitly.
    pub explicit: Option<Format>,
    /// How tables look.
    pub style: Style,
    /// The members of answers that the user wants to see; all if empty.
    fields: Vec<String>,
    /// The member of an answer that holds its rows, if it is a list.
    rows: &'static str,
    /// Whether the next page is asked for with the query of a path, not with a flag.
    is_of_path: bool,
    terminal: bool,
}

impl Screen {
    /// Standard output, in the chosen form or the one that fits its reader.
    pub fn new(place: &GlobalArgs) -> Self {
        let choice = place.output;
        let terminal = io::stdout().is_terminal();
        let colour = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        Self {
            format: choice.unwrap_or(default_format(terminal)),
            explicit: choice,
            style: Style {
                colour,
                width: terminal_size_of(io::stdout()).map(|(width, _)| width.0),
            },
            fields: place.fields.clone(),
            rows: ROWS,
            is_of_path: false,
            terminal,
        }
    }

    /// The same screen, for the answer to a request whose path was typed.
    pub fn of_path(&self) -> Self {
        Self {
            is_of_path: true,
            ..self.clone()
        }
    }

    /// The same screen, for answers whose rows are this member.
    pub fn with_rows(&self, rows: &'static str) -> Self {
        Self {
            rows,
            ..self.clone()
        }
    }

    /// Shows an operation's answer. A reader that has gone away is not a failure: the exit code still follows the answer.
    ///
    /// # Errors
    /// Those of [`Self::json`] and [`print()`], without [`Failure::Closed`].
    pub fn show<T>(
        &self,
        answer: &Answer<T>,
        table: impl FnOnce(&T, Style) -> String,
    ) -> Result<(), Failure> {
        self.shown(&answer.json, |style| table(&answer.output, style))
    }

    /// Shows a result that is not an operation's answer, in the same way.
    ///
    /// # Errors
    /// Those of [`Self::show`]; [`Failure::Unexpected`] for a value that cannot be written as JSON.
    pub fn said(
        &self,
        value: &impl Serialize,
        text: impl FnOnce(Style) -> String,
    ) -> Result<(), Failure> {
        self.shown(&line(value)?, text)
    }

    fn shown(&self, json: &str, text: impl FnOnce(Style) -> String) -> Result<(), Failure> {
        only_answer(match self.is_plain_table() {
            true => print(&text(self.style)),
            false => self.json(json),
        })
    }

    /// Begins to show many results, each on its own line. A command does this first, so that it does nothing that it cannot show.
    ///
    /// # Errors
    /// [`Failure::Usage`] for CSV without chosen columns, because a later result may have others than the first.
    pub fn lines(&self) -> Result<Lines<'_>, Failure> {
        if self.format == Format::Csv && self.fields.is_empty() {
            return Err(Failure::Usage(
                "--output csv needs --fields here, because one result may have other fields than the next".to_owned(),
            ));
        }
        Ok(Lines {
            screen: self,
            is_headed: false,
        })
    }

    /// Whether a command shows its answer in the words that it has for people.
    fn is_plain_table(&self) -> bool {
        self.format == Format::Table && self.fields.is_empty()
    }

    /// Shows an answer's JSON as the user asked for: as it is, or as rows and columns.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it has no rows and columns.
    pub fn json(&self, json: &str) -> Result<(), Failure> {
        if self.fields.is_empty() && self.format != Format::Csv {
            return self.laid_out(json);
        }
        let read = AnswerRows::of(json, self.rows, &self.fields);
        if read.is_err() && !self.fields.is_empty() {
            // What was done stands, and an answer may hold a secret that is shown only once.
            self.laid_out(json)?;
        }
        let mut rows = read?;
        if self.is_of_path {
            rows.next = rows.next.map(|next| next.map(|flag| in_query(&flag)));
        }
        if !rows.missing.is_empty() {
            say(&format!(
                "No row has the field {}.",
                rows.missing.join(", ")
            ));
        }
        match self.format {
            Format::Json => self.laid_out(&rows.json()),
            Format::Csv => {
                if let Some(Some(next)) = &rows.next {
                    say(table::more(Some(next)).trim_start());
                }
                match rows.columns() {
                    [] => Ok(()),
                    _ => self.verbatim(&rows.csv(true)),
                }
            }
            Format::Table => print(&table::of_rows(self.style, &rows)),
        }
    }

    /// Shows a text that is not for people alone: byte for byte, but on a terminal without what could control that.
    ///
    /// # Errors
    /// Those of [`print()`].
    pub fn verbatim(&self, text: &str) -> Result<(), Failure> {
        print(&self.safe(text, in_lines))
    }

    /// The text, made safe if it goes to a terminal.
    fn safe<'t>(&self, text: &'t str, make: fn(&str) -> Cow<'_, str>) -> Cow<'t, str> {
        match self.terminal {
            true => make(text),
            false => Cow::Borrowed(text),
        }
    }

    /// Shows JSON: indented on a terminal, byte for byte elsewhere.
    fn laid_out(&self, json: &str) -> Result<(), Failure> {
        match self.terminal {
            true => print(&laid_out(json)),
            false => print(json),
        }
    }
}

/// Many results, each on its own line.
#[derive(Debug)]
pub struct Lines<'s> {
    screen: &'s Screen,
    /// Whether the first result has named the columns.
    is_headed: bool,
}

impl Lines<'_> {
    /// Shows the next result.
    ///
    /// # Errors
    /// Those of [`print()`]; [`Failure::Unexpected`] for a value that cannot be written as JSON.
    pub fn show(
        &mut self,
        value: &impl Serialize,
        text: impl FnOnce(Style) -> String,
    ) -> Result<(), Failure> {
        let screen = self.screen;
        if screen.is_plain_table() {
            return print(&text(screen.style));
        }
        let line = line(value)?;
        if screen.fields.is_empty() {
            return print(&screen.safe(&line, escaped));
        }
        let row = AnswerRows::of(&line, screen.rows, &screen.fields)?;
        if screen.format == Format::Json {
            return print(&screen.safe(&row.json(), escaped));
        }
        screen.verbatim(&row.csv(!mem::replace(&mut self.is_headed, true)))
    }
}

/// The flag that asks for the next page, as the parameter of a query.
fn in_query(flag: &str) -> String {
    let parameter = flag.trim_start_matches('-').replacen(' ', "=", 1);
    format!("{parameter} in the path's query")
}

/// What became of the only answer of a command. If nobody reads it, what the command found stands all the same, and so does its
/// exit code; only what would be written without end is given up.
fn only_answer(written: Result<(), Failure>) -> Result<(), Failure> {
    match written {
        Err(Failure::Closed) => Ok(()),
        written => written,
    }
}

fn line(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|e| Failure::Unexpected(format!("an answer cannot be written: {e}")))
}

fn default_format(terminal: bool) -> Format {
    match terminal {
        true => Format::Table,
        false => Format::Json,
    }
}

/// The form of errors, which is needed before anything else is known.
pub fn error_format(choice: Option<Format>) -> Format {
    match choice {
        Some(Format::Json) => Format::Json,
        _ => Format::Table,
    }
}

/// Writes a text and a line break to standard output.
///
/// # Errors
/// [`Failure::Closed`] if nobody reads it any more; [`Failure::Unexpected`] if it cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Waits until nobody reads standard output any more. A write would tell too, but a command may wait long for what to write.
pub async fn until_unread() {
    while has_reader() {
        sleep(LOOK_FOR_READER).await;
    }
}

/// Whether somebody may still read standard output.
#[cfg(unix)]
fn has_reader() -> bool {
    let out = io::stdout();
    // A lost reader is told whatever is asked for.
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let found = poll(&mut asked, Some(&Timespec::default()));
    let is_lost = asked[0]
        .revents()
        .intersects(PollFlags::ERR | PollFlags::HUP);
    found.is_err() || !is_lost
}

/// Whether somebody may still read standard output.
#[cfg(not(unix))]
fn has_reader() -> bool {
    true
}

/// Writes a line to standard error. A failed write is ignored, because nobody is listening.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_get_tables_and_programs_get_json() {
        assert_eq!(
            (default_format(true), default_format(false)),
            (Format::Table, Format::Json)
        );
        assert_eq!(
            (error_format(None), error_format(Some(Format::Json))),
            (Format::Table, Format::Json)
        );
    }

    #[test]
    fn an_answer_that_nobody_reads_does_not_end_the_command() {
        assert!(only_answer(Err(Failure::Closed)).is_ok());
        assert!(only_answer(Err(Failure::Unexpected("full".to_owned()))).is_err());
    }

    fn screen(format: Format, fields: Vec<String>, terminal: bool) -> Screen {
        Screen {
            format,
            explicit: Some(format),
            style: Style::default(),
            fields,
            rows: ROWS,
            is_of_path: false,
            terminal,
        }
    }

    #[test]
    fn the_next_page_of_a_path_is_asked_for_with_its_query() {
        assert_eq!(
            in_query("--cursor bkg_1"),
            "cursor=bkg_1 in the path's query"
        );
    }

    #[test]
    fn what_goes_to_a_terminal_cannot_control_it_and_what_goes_elsewhere_stays() {
        let text = "name\nA\u{1b}[2J\u{9b}1m\n";
        let shown = |terminal| {
            let screen = screen(Format::Csv, Vec::new(), terminal);
            screen.safe(text, in_lines).into_owned()
        };
        assert_eq!(shown(true), "name\nA\u{fffd}[2J\u{fffd}1m\n");
        assert_eq!(shown(false), text);
    }

    #[test]
    fn many_results_are_csv_only_with_chosen_fields() {
        for (format, fields, is_refused) in [
            (Format::Csv, vec![], true),
            (Format::Csv, vec!["seq".to_owned()], false),
            (Format::Json, vec![], false),
            (Format::Table, vec![], false),
        ] {
            let screen = screen(format, fields, false);
            let refused =
                matches!(screen.lines(), Err(Failure::Usage(why)) if why.contains("--fields"));
            assert_eq!(refused, is_refused, "{screen:?}");
        }
    }
}
