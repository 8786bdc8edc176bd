//! Makes text from elsewhere safe for a terminal, and JSON readable.
//!
//! A name may hold escape sequences that move the cursor, or marks that turn the reading direction. Invariants: nothing
//! that is returned here controls a terminal; [`laid_out`] and [`escaped`] change no value.

use std::borrow::Cow;
use std::fmt::Write as _;

use bookguard_core::text::{goes_right_to_left, is_hidden};

/// The text on one line, with every character replaced that controls a terminal or hides. Text with right-to-left
/// characters is isolated from its surroundings. To be applied once, to text from elsewhere.
pub fn plain(text: &str) -> Cow<'_, str> {
    let turns = goes_right_to_left(text);
    if !turns && !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let seen = |c: char| match c {
        '\n' | '\t' => ' ',
        c if is_hidden(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    let line: String = text.chars().map(seen).collect();
    Cow::Owned(match turns {
        true => format!("\u{2068}{line}\u{2069}"),
        false => line,
    })
}

/// The text in its own lines, with every character replaced that controls a terminal or hides.
pub fn in_lines(text: &str) -> Cow<'_, str> {
    let steers = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let seen = |c: char| match steers(c) {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    Cow::Owned(text.chars().map(seen).collect())
}

/// JSON on one line, with characters escaped that control a terminal or hide: in valid JSON on one line, all of them are in strings.
pub fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() * 2);
    for c in json.chars() {
        match is_hidden(c) {
            true => escape(&mut out, c),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// JSON with one member per line and unchanged tokens; characters that control a terminal or hide are escaped.
///
/// `json` must be valid JSON; otherwise the layout is meaningless.
pub fn laid_out(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut chars = json
        .chars()
        .filter(|c| !matches!(c, '\r' | '\n'))
        .peekable();
    while let Some(c) = chars.next() {
        if in_string {
            match c {
                c if is_hidden(c) => escape(&mut out, c),
                c => out.push(c),
            }
            (in_string, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => {
                in_string = c == '"';
                out.push(c);
            }
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

fn escape(out: &mut String, c: char) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        // Writing into a string cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_comes_through() {
        for (text, shown) in [
            ("Zoë & the Ñandús 🎸", "Zoë & the Ñandús 🎸"),
            ("שלום 50%", "\u{2068}שלום 50%\u{2069}"),
            ("a\u{200b}b\u{e0041}", "a\u{fffd}b\u{fffd}"),
            ("👩\u{200d}🚀", "👩\u{200d}🚀"),
            ("a\u{1b}[31mred", "a\u{fffd}[31mred"),
            ("a\u{9b}31m", "a\u{fffd}31m"),
            ("two\nlines\tand\r", "two lines and\u{fffd}"),
            ("abc\u{202e}txt.exe", "abc\u{fffd}txt.exe"),
            ("a\u{7f}\u{8}b\0", "a\u{fffd}\u{fffd}b\u{fffd}"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }

    #[test]
    fn laying_out_changes_no_value_and_no_digit() {
        for json in [
            r#"{"a":[1,2.50,1e3],"b":{},"c":[],"d":"x: {\"y\",[z]}\\","e":null,"f":true}"#,
            r#" { "a" : [ ] , "b" : { } } "#,
            r#""text""#,
            "12",
            "[[[[]]]]",
        ] {
            let out = laid_out(json);
            let squeezed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(squeezed(&out), squeezed(json), "{out}");
            assert!(!json.contains("2.50") || out.contains("2.50"));
        }
        assert_eq!(
            laid_out(r#"{"a":1,"b":[2,{}]}"#),
            "{\n  \"a\": 1,\n  \"b\": [\n    2,\n    {}\n  ]\n}"
        );
    }

    #[test]
    fn what_steers_a_terminal_is_escaped_in_json() {
        let json = "{\"a\":\"\u{9b}31m\u{202e}x\u{7f}\"}";
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        for out in [laid_out(json), escaped(json).into_owned()] {
            assert!(out.contains(r"\u009b31m\u202ex\u007f"), "{out}");
            assert_eq!(read(&out), read(json));
        }
        assert_eq!(escaped(r#"{"a":"Zoë"}"#), r#"{"a":"Zoë"}"#);
    }

    #[test]
    fn lines_stay_lines_and_steer_no_terminal() {
        for (text, shown) in [
            ("a,b\n\"Zoë\t🎸\"\n", "a,b\n\"Zoë\t🎸\"\n"),
            (
                "a\u{1b}[2J\r\nb\u{9b}1m\u{202e}",
                "a\u{fffd}[2J\u{fffd}\nb\u{fffd}1m\u{fffd}",
            ),
        ] {
            assert_eq!(in_lines(text), shown);
        }
    }
}
