//! Words of the page that are not the packet's.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A date, with or without a time, from its ISO 8601 text: `14 March 2026, 15:00 UTC`. Other texts stay as they are.
pub(super) fn moment(iso: &str) -> String {
    worded(iso).unwrap_or_else(|| iso.to_owned())
}

fn worded(iso: &str) -> Option<String> {
    let (date, time) = iso.split_at_checked(10)?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let (month, day): (usize, u8) = (month.parse().ok()?, day.parse().ok()?);
    let date = format!("{day} {} {year}", MONTHS.get(month.checked_sub(1)?)?);
    let Some(time) = time.strip_prefix('T') else {
        return time.is_empty().then_some(date);
    };
    let (clock, rest) = time.split_at_checked(8)?;
    let clock = clock.strip_suffix(":00").unwrap_or(clock);
    let offset = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let offset = match offset {
        "" => String::new(),
        "Z" => " UTC".to_owned(),
        offset => format!(" (UTC{offset})"),
    };
    Some(format!("{date}, {clock}{offset}"))
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn dates_are_put_into_words() {
        for (iso, words) in [
            ("2031-06-20T19:00:00", "20 June 2031, 19:00"),
            ("2031-06-20T19:00:07.123Z", "20 June 2031, 19:00:07 UTC"),
            (
                "2031-06-20T19:00:00-04:00",
                "20 June 2031, 19:00 (UTC-04:00)",
            ),
            ("2031-06-02", "2 June 2031"),
            ("2031-13-20", "2031-13-20"),
            ("\u{65e5}\u{672c}", "\u{65e5}\u{672c}"),
            ("", ""),
        ] {
            assert_eq!(moment(iso), words);
        }
    }
}
