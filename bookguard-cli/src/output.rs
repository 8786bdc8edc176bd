//! How an answer is shown: tables for people, the interface's own JSON for programs.
//!
//! Invariants: if the reader goes away, the command ends quietly, never with a panic; text from elsewhere cannot control
//! the terminal; colour is only for terminals, unless the user says otherwise (`NO_COLOR`, `CLICOLOR_FORCE`).

pub mod bar;
pub mod table;

use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;
use terminal_size::terminal_size_of;

use crate::args::Format;
use crate::failure::Failure;
use crate::text::laid_out;
use table::Style;

/// The answer of an operation.
#[derive(Debug)]
pub struct Answer<T> {
    /// The JSON, byte for byte.
    pub json: String,
    /// The same, parsed.
    pub output: T,
}

/// Where answers go.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// The form of answers.
    pub format: Format,
    /// The form that the user asked for explicitly.
    pub explicit: Option<Format>,
    /// How tables look.
    pub style: Style,
    terminal: bool,
}

impl Screen {
    /// Standard output, in the chosen form or the one that fits its reader.
    pub fn new(choice: Option<Format>) -> Self {
        let terminal = io::stdout().is_terminal();
        let colour = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        Self {
            format: choice.unwrap_or(default_format(terminal)),
            explicit: choice,
            style: Style {
                colour,
                width: terminal_size_of(io::stdout()).map(|(width, _)| width.0),
            },
            terminal,
        }
    }

    /// Shows an operation's answer.
    pub fn show<T>(
        &self,
        answer: &Answer<T>,
        table: impl FnOnce(&T, Style) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.json(&answer.json),
            Format::Table => print(&table(&answer.output, self.style)),
        }
    }

    /// Shows a result that is not an operation's answer.
    pub fn said(
        &self,
        value: &impl Serialize,
        text: impl FnOnce(Style) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.json(&line(value)?),
            Format::Table => print(&text(self.style)),
        }
    }

    /// Shows one of many results, on its own line.
    pub fn each(
        &self,
        value: &impl Serialize,
        text: impl FnOnce(Style) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => print(&line(value)?),
            Format::Table => print(&text(self.style)),
        }
    }

    /// Shows JSON: indented on a terminal, byte for byte elsewhere.
    pub fn json(&self, json: &str) -> Result<(), Failure> {
        if self.terminal {
            print(&laid_out(json))
        } else {
            print(json)
        }
    }
}

fn line(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|e| Failure::Unexpected(format!("an answer cannot be written: {e}")))
}

fn default_format(terminal: bool) -> Format {
    if terminal {
        Format::Table
    } else {
        Format::Json
    }
}

/// The form of errors, which is needed before anything else is known.
pub fn error_format(choice: Option<Format>) -> Format {
    choice.unwrap_or(Format::Table)
}

/// Writes a text and a line break to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
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
}
