//! Reads the query of a request. The faults of all its parameters are told together.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::Request;
use crate::error::{Error, FieldError};
use crate::input;
use crate::limits;
use crate::model::{Id, Timestamp, id::Noun};

/// What the fix of an instant says to whoever writes it into a URL; nobody else is shown it.
pub const IN_URL: &str = "; in a URL, write + as %2B";

/// The query of a request while it is read.
pub(crate) struct QueryReader<'r> {
    request: &'r Request,
    faults: Vec<FieldError>,
}

/// The `limit` and `cursor` of a list.
pub(crate) struct Paging<N: Noun> {
    pub limit: u32,
    pub before: Option<Id<N>>,
}

impl<'r> QueryReader<'r> {
    pub fn of(request: &'r Request) -> Self {
        let faults = Vec::new();
        Self { request, faults }
    }

    /// Fails with every fault found.
    pub fn end(self) -> Result<(), Error> {
        match self.faults.is_empty() {
            true => Ok(()),
            false => Err(self.refusal()),
        }
    }

    /// The refusal with every fault found.
    pub fn refusal(self) -> Error {
        Error::faults(self.faults)
    }

    pub fn value(&self, name: &str) -> Option<&'r str> {
        query_value(self.request, name)
    }

    pub fn fault_at(
        &mut self,
        name: &str,
        code: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(query_fault(name, code, message, fix));
    }

    pub fn add(&mut self, fault: FieldError) {
        self.faults.push(fault);
    }

    /// Says that two parameters exclude each other.
    pub fn conflict(&mut self, name: &str, other: &str) {
        self.fault_at(
            name,
            "parameters_conflict",
            format!("cannot be combined with {other}"),
            format!("Leave out {name} or {other}."),
        );
    }

    /// Reads the `limit` of a list.
    pub fn limit(&mut self) -> u32 {
        let most = limits::PAGE_ROWS;
        let limit = self.whole("limit", 1..=most, &format!("Send 1 to {most}."));
        limit.unwrap_or(limits::PAGE_ROWS_DEFAULT)
    }

    /// Reads the `limit` and `cursor` of a list in the order of its ids.
    pub fn paging<N: Noun>(&mut self) -> Paging<N> {
        let (limit, before) = self.page(Id::parse);
        Paging { limit, before }
    }

    /// Reads the `limit` and `cursor` of a list whose cursors `parse` reads.
    fn page<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> (u32, Option<T>) {
        let limit = self.limit();
        let text = self.value("cursor");
        let from = text.and_then(parse);
        if text.is_some() && from.is_none() {
            self.fault_at(
                "cursor",
                "cursor_invalid",
                "is not a cursor of this list",
                "Send the nextCursor of the previous page, unchanged.",
            );
        }
        (limit, from)
    }

    /// Reads a whole number in digits alone. `fix` says what to send instead.
    pub fn whole<T: FromStr + PartialOrd + Display>(
        &mut self,
        name: &str,
        range: RangeInclusive<T>,
        fix: &str,
    ) -> Option<T> {
        let text = self.value(name)?;
        let found = whole_number(text).filter(|number| range.contains(number));
        if found.is_none() {
            let (text, least, most) = (input::shorten(text), range.start(), range.end());
            let message = format!("\"{text}\" is not a whole number from {least} to {most}");
            self.fault_at(name, "out_of_range", message, fix);
        }
        found
    }

    /// Reads one of `words`.
    pub fn choice<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.value(name)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let (message, fix) = input::not_allowed(text, &all);
            self.fault_at(name, "not_allowed", message, fix);
        }
        found.map(|(_, value)| *value)
    }

    /// As [`Self::choice`], for a parameter that must be there.
    pub fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        if self.value(name).is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let fix = format!("Send one of: {}.", all.join(", "));
            self.fault_at(name, "missing_field", "is missing", fix);
        }
        self.choice(name, words)
    }

    /// Reads an instant.
    pub fn instant(&mut self, name: &str) -> Option<Timestamp> {
        let text = self.value(name)?;
        let found = Timestamp::parse(text);
        if found.is_none() {
            self.fault_at(
                name,
                "invalid_date",
                format!("\"{}\" {}", input::shorten(text), Timestamp::fault(text)),
                format!("Send RFC 3339 with an offset, such as 2031-06-20T19:00:00Z{IN_URL}."),
            );
        }
        found
    }

    /// Reads the two ends of a time, the first of which must be before the other.
    pub fn range(&mut self, from: &str, to: &str) -> (Option<Timestamp>, Option<Timestamp>) {
        let range = (self.instant(from), self.instant(to));
        if let (Some(begin), Some(end)) = range
            && begin >= end
        {
            self.fault_at(
                from,
                "invalid_range",
                format!("is not before {end}, the end of the time to look at"),
                format!("Send an instant before \"{to}\", or leave one of the two out."),
            );
        }
        range
    }

    /// Reads text of at most `max` characters, one of them visible.
    pub fn text(&mut self, name: &str, max: usize) -> Option<&'r str> {
        let text = self.value(name)?;
        let fault = input::text_fault(&format_args!("?{name}"), text, max);
        let is_fine = fault.is_none();
        self.faults.extend(fault);
        is_fine.then_some(text)
    }
}

/// Reads the `limit` and `cursor` of a list that takes no other parameter.
pub(crate) fn paging<N: Noun>(request: &Request) -> Result<Paging<N>, Error> {
    let (limit, before) = page_from(request, Id::parse)?;
    Ok(Paging { limit, before })
}

/// As [`paging`], for a list whose cursors `parse` reads.
pub(crate) fn page_from<T>(
    request: &Request,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<(u32, Option<T>), Error> {
    let mut params = QueryReader::of(request);
    let page = params.page(parse);
    params.end().map(|()| page)
}

pub(crate) fn query_value<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request
        .query
        .iter()
        .find(|(n, _)| n == name)
        .map(|(_, value)| value.as_str())
}

/// Parses a number of digits alone. Rust's own parser would also accept a sign.
pub(crate) fn whole_number<T: FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// A fault of a query parameter.
pub(crate) fn query_fault(
    name: &str,
    code: &str,
    message: impl Into<String>,
    fix: impl Into<String>,
) -> FieldError {
    FieldError::new(format!("?{name}"), code, message, fix)
}
