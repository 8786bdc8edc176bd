//! Single values: dates, durations, sums, ids, the files of keys, and what kind of file something is.

use bookguard_core::key_file::LedgerKey;
use bookguard_core::model::{Amount, BookingId, Currency, MediaType, Timestamp};
use bookguard_core::policy::{Duration, EventDate, Rule, TimeOfDay, Zone};

/// Each value that is read is the same when it is written and read again.
pub fn parse(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    if let Some(at) = Timestamp::parse(text) {
        assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
    }
    if let Some(date) = EventDate::parse(text) {
        assert_eq!(EventDate::parse(&date.to_string()), Some(date));
        let noon = TimeOfDay::parse("12:00").unwrap();
        let _ = date.anchor(Zone::iana("Pacific/Apia").unwrap(), noon);
    }
    if let Some(duration) = Duration::parse(text) {
        assert_eq!(Duration::parse(&duration.to_string()), Some(duration));
    }
    if let Some(time) = TimeOfDay::parse(text) {
        assert_eq!(TimeOfDay::parse(&time.to_string()), Some(time));
    }
    if let Ok(rule) = text.parse::<Rule>() {
        assert_eq!(rule.to_string(), text);
    }
    if let Some(id) = BookingId::parse(text) {
        assert_eq!(id.to_string(), text);
    }
    for code in ["JPY", "USD", "KWD", "CLF"] {
        let currency = Currency::parse(code).unwrap();
        if let Ok(amount) = Amount::parse(text, currency) {
            assert_eq!(Amount::parse(&amount.decimal(), currency), Ok(amount));
        }
    }
    if Zone::iana(text).is_none() && text.len() < 100 {
        let _ = Zone::nearest_iana(text);
    }
    let _ = LedgerKey::parse(text);
}

/// A file that a browser is told to show as text has no markup, no script and no control characters in it.
pub fn files(bytes: &[u8]) {
    let kind = MediaType::of(bytes);
    assert_eq!(MediaType::from_number(kind as i64), Some(kind));
    if kind == MediaType::Text {
        let small = std::str::from_utf8(bytes)
            .expect("text is UTF-8")
            .to_ascii_lowercase();
        assert!(!small.starts_with("#!") && !small.contains('\0') && !small.contains('\u{1b}'));
        for markup in ["<s", "<h", "<!", "<?", "</", "<i"] {
            assert!(!small.contains(markup), "{markup}");
        }
    }
}
