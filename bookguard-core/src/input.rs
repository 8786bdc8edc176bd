//! Reads a JSON request body and reports every fault in it at once, each by JSON pointer with a fix.
//!
//! serde stops at the first fault, does not notice duplicates and turns numbers into floats. A partner who integrates needs
//! the whole list, and money needs the digits as they were written. serde_json still parses the grammar: a [`Value`] within
//! the body is a slice that it has accepted.
//!
//! To read a form, bind every field first and build afterwards, so that one fault does not hide the next. The same reader
//! describes what it reads, as JSON Schema (`describe`): it then runs without a value, and each field describes itself. So
//! a reader must not return early, and must not look up a field before binding it.

mod describe;
mod form;
mod json;
#[cfg(feature = "internals")]
mod object;
mod value;
mod whole;

use std::fmt;

use serde_json::value::RawValue;

#[cfg(feature = "internals")]
pub use self::describe::Declaration;
pub use self::describe::Draft;
pub use self::form::Form;
#[cfg(feature = "internals")]
pub use self::json::Json;
#[cfg(feature = "internals")]
pub use self::object::{JsonObject, quoted};
pub use self::value::Value;
#[cfg(feature = "store")]
pub(crate) use self::value::text_fault;
#[cfg(feature = "internals")]
pub use self::whole::whole;
use crate::error::Error;
#[cfg(feature = "store")]
use crate::error::FieldError;
use crate::model::Timestamp;
#[cfg(feature = "store")]
use crate::model::{Amount, AmountError, Currency};

/// An instant as examples show it.
const INSTANT: &str = "2031-06-01T09:00:00Z";

/// Reads an instant: RFC 3339 with an offset.
pub fn instant(v: &mut Value<'_, '_>) -> Option<Timestamp> {
    let text = v.format("date-time").example(INSTANT).string()?;
    Timestamp::parse(&text).or_else(|| {
        v.fault(
            "invalid_date",
            format!("\"{}\" {}", shorten(&text), Timestamp::fault(&text)),
            format!("Send RFC 3339 with an offset, such as {INSTANT}."),
        )
    })
}

/// Whether what follows a `%` makes it a percent-encoded byte (RFC 3986 section 2.1).
#[cfg(feature = "store")]
pub fn is_escape(rest: &str) -> bool {
    let digits = rest.as_bytes().get(..2);
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Reads an amount in the currency of a booking. Its form was checked before the booking was known.
///
/// # Errors
/// Those of [`Amount::parse`], at `pointer`.
#[cfg(feature = "store")]
pub(crate) fn amount(pointer: &str, digits: &str, currency: Currency) -> Result<Amount, Error> {
    Amount::parse(digits, currency)
        .map_err(|why| Error::faults(vec![amount_fault(pointer, digits, why, currency)]))
}

/// Says why these digits are not an amount in the currency.
#[cfg(feature = "store")]
pub(crate) fn amount_fault(
    pointer: &str,
    digits: &str,
    why: AmountError,
    currency: Currency,
) -> FieldError {
    let (digits, rule) = (shorten(digits), why.rule());
    let message = match why {
        // It may be anything, or nothing.
        AmountError::NotANumber => format!("\"{digits}\" {rule}"),
        _ => format!("{digits} {rule}"),
    };
    FieldError::new(pointer, why.code(), message, why.fix(currency))
}

/// Reads the body as one JSON object with `read`. Fails with every fault found.
///
/// # Errors
/// `invalid_json` (with line and column), `not_an_object`, or the faults `read` recorded.
pub fn read<T>(body: &[u8], read: impl FnOnce(&mut Form<'_, '_>) -> Option<T>) -> Result<T, Error> {
    read_value(body, |v| v.object(read))
}

fn read_value<T>(
    body: &[u8],
    read: impl FnOnce(&mut Value<'_, '_>) -> Option<T>,
) -> Result<T, Error> {
    let text = std::str::from_utf8(body).map_err(|e| {
        Error::invalid(
            "invalid_json",
            format!("The body is not UTF-8 (byte {}).", e.valid_up_to()),
        )
    })?;
    let mut faults = Vec::new();
    let value = read(&mut Value {
        raw: text.trim_matches([' ', '\t', '\n', '\r']),
        path: &Path::Root,
        faults: &mut faults,
        draft: None,
    });
    // Reading an object checks its grammar to the end, so a body without a fault is not scanned once more.
    if value.is_none() || !faults.is_empty() {
        serde_json::from_str::<&RawValue>(text).map_err(|e| {
            Error::invalid(
                "invalid_json",
                format!("The body is not JSON: {e}. Send one JSON object."),
            )
        })?;
    }
    match value {
        Some(value) if faults.is_empty() => Ok(value),
        _ if faults.is_empty() => Err(Error::internal(
            "a reader gave up on a body without recording a fault",
        )),
        _ => Err(Error::faults(faults)),
    }
}

/// A body that may be omitted: without one, the same as an empty object.
pub fn or_empty(body: &[u8]) -> &[u8] {
    match body.iter().all(u8::is_ascii_whitespace) {
        true => b"{}",
        false => body,
    }
}

/// The place of a value in the body; formatted as a JSON pointer only when there is a fault to report.
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(parent, name) => {
                // A name chosen by the client may be as long as the body.
                let name = cut(name, POINTER_CHARS)
                    .replace('~', "~0")
                    .replace('/', "~1");
                write!(f, "{parent}/{name}")
            }
            Path::Item(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

/// The word closest to the one typed, if any is close enough: less than half of what was typed is changed. Never a wildcard, which
/// means more than any one word.
///
/// A client may ask for this as often as it likes, and there are 600 time zones: a word whose length alone makes it too far away is
/// not compared.
pub fn nearest<'w>(typed: &str, words: &[&'w str]) -> Option<&'w str> {
    if typed.len() > 64 {
        return None;
    }
    let lower = typed.to_lowercase();
    let length = lower.chars().count();
    let near =
        |distance: usize, word: &str| distance <= 1 + word.len() / 4 && 2 * distance < length;
    words
        .iter()
        .filter(|word| !word.contains('*'))
        .filter(|word| near(word.chars().count().abs_diff(length), word))
        .map(|word| (strsim::osa_distance(&lower, &word.to_lowercase()), *word))
        .filter(|(distance, word)| near(*distance, word))
        .min()
        .map(|(_, word)| word)
}

/// The message and the fix for a text that is not one of the words allowed there.
pub fn not_allowed(text: &str, words: &[&str]) -> (String, String) {
    let all = words.join(", ");
    let fix = match nearest(text, words) {
        Some(near) => format!("Did you mean \"{near}\"? Allowed: {all}."),
        None => format!("Send one of: {all}."),
    };
    (
        format!("\"{}\" is not an allowed value", shorten(text)),
        fix,
    )
}

/// Characters of the client's own input that are echoed.
const ECHO_CHARS: usize = 40;
/// Characters of a name in a pointer; no allowed name is longer.
const POINTER_CHARS: usize = 64;

/// A piece of the client's own input, short enough to echo.
pub fn shorten(text: &str) -> String {
    cut(text, ECHO_CHARS)
}

/// The first `chars` characters of arbitrary text.
pub fn cut(text: &str, chars: usize) -> String {
    let cleaned = text
        .chars()
        .take(chars)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut out: String = cleaned.collect();
    if text.chars().nth(chars).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
