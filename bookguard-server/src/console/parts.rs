//! The parts of which pages are made: times, amounts, states, tables, buttons.

use bookguard_core::limits::{DAY_MS, HOUR_MS};
use bookguard_core::model::{
    Amount, Booking, BookingStatus, Currency, Decimal, DeliveryStatus, EndpointStatus, Scope,
    Timestamp,
};
use bookguard_core::policy::Zone;
use bookguard_core::text::capital;
pub(super) use bookguard_core::text::{counted, grouped};
use maud::{Markup, PreEscaped, Render, html};
use serde::{Deserialize, Serialize};

use super::{Answer, Asked, Fields, Page, Part, User};
use bookguard_core::entropy;

const MINUTE_MS: i64 = 60_000;

/// An instant, in UTC.
pub(super) fn time(at: Timestamp) -> Markup {
    time_in(at, Zone::UTC)
}

/// The date and the time of an instant in UTC, to the minute.
pub(super) fn date_and_time(at: Timestamp) -> String {
    at.to_utc().format("%-d %b %Y, %H:%M").to_string()
}

/// When the event of a booking starts.
pub(super) fn event_time(booking: &Booking) -> Markup {
    event_time_at(booking.event_date, booking.time_zone.as_deref())
}

/// When an event starts: on the clock of its place, or in UTC if nobody said where that is.
pub(super) fn event_time_at(at: Timestamp, time_zone: Option<&str>) -> Markup {
    time_in(at, zone_of(time_zone))
}

/// The time zone of this name; UTC if there is none.
pub(super) fn zone_of(name: Option<&str>) -> Zone {
    name.and_then(Zone::iana).unwrap_or(Zone::UTC)
}

/// An instant on the clock of a place. What points at it shows UTC.
pub(super) fn time_in(at: Timestamp, zone: Zone) -> Markup {
    html! { time datetime=(at.to_string()) title=(at.to_string()) { (time_in_words(at, zone)) } }
}

/// The words of [`time_in`].
pub(super) fn time_in_words(at: Timestamp, zone: Zone) -> String {
    let text = zone.to_local(at).format("%-d %b %Y, %H:%M");
    format!("{text} {}", zone.in_words())
}

/// How long ago an instant was, or how far ahead it is.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at.to_string()) title=(at.to_string()) { (distance(at, now)) } }
}

fn distance(at: Timestamp, now: Timestamp) -> String {
    let ms = now.ms() - at.ms();
    let (number, unit) = match ms.abs() {
        0..MINUTE_MS => return if ms < 0 { "in a moment" } else { "just now" }.to_owned(),
        far @ MINUTE_MS..HOUR_MS => (far / MINUTE_MS, "minute"),
        far @ HOUR_MS..DAY_MS => (far / HOUR_MS, "hour"),
        far => (far / DAY_MS, "day"),
    };
    let far = counted(number.unsigned_abs(), unit);
    match ms < 0 {
        true => format!("in {far}"),
        false => format!("{far} ago"),
    }
}

/// An amount such as `EUR 1,200.00`, with every digit that it has.
pub(super) fn money(amount: Amount) -> String {
    grouped(&amount.to_string())
}

/// A number of the currency, in the same form.
pub(super) fn price(number: &Decimal, currency: Currency) -> String {
    match Amount::parse(&number.to_string(), currency) {
        Ok(amount) => money(amount),
        Err(_) => grouped(&format!("{currency} {number}")),
    }
}

/// A sentence of the service with its amounts in the same form. The interface and the ledger have them without the commas.
pub(super) fn with_amounts(sentence: &str) -> String {
    let mut before = "";
    let words = sentence.split(' ').map(|word| {
        let is_amount = Currency::parse(before).is_ok();
        before = word;
        match is_amount {
            true => grouped(word),
            false => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What [`words`] would spell otherwise than people, and than the rest of the pages.
const SPELLED: [(&str, &str); 5] = [
    ("Api ", "API "),
    (" api ", " API "),
    ("Http ", "HTTP "),
    ("No endpoints", "No endpoint"),
    ("Non payment", "Non-payment"),
];

/// A word of the interface as people read it: `no_show`, `organizer.late` and `createApiKey` are “No show”, “Organizer late” and
/// “Create API key”.
pub(super) fn words(word: &str) -> String {
    let mut text = String::with_capacity(word.len() + 4);
    for c in word.chars() {
        match c {
            '_' | '.' => text.push(' '),
            c if c.is_ascii_uppercase() => text.extend([' ', c.to_ascii_lowercase()]),
            c => text.push(c),
        }
    }
    let text = capital(&text);
    let own = SPELLED.iter();
    own.fold(text, |text, (plain, spelled)| text.replace(plain, spelled))
}

/// How a state looks, or the message of what was just done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Tone {
    #[default]
    Good,
    Bad,
    Warn,
    Calm,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Calm => "calm",
        }
    }
}

/// A state in a word or two.
pub(super) fn badge(tone: Tone, text: &str) -> Markup {
    html! { span.badge.(tone.class()) { (text) } }
}

pub(super) fn booking_badge(status: BookingStatus) -> Markup {
    let tone = match status {
        BookingStatus::Protected => Tone::Good,
        BookingStatus::Created => Tone::Warn,
        BookingStatus::Canceled => Tone::Calm,
    };
    badge(tone, &words(status.word()))
}

pub(super) fn delivery_badge(status: DeliveryStatus) -> Markup {
    let (tone, text) = match status {
        DeliveryStatus::Delivered => (Tone::Good, "Delivered"),
        DeliveryStatus::Failed => (Tone::Bad, "Failed"),
        DeliveryStatus::Pending => (Tone::Warn, "Pending"),
        DeliveryStatus::NoEndpoints => (Tone::Calm, "No endpoint"),
    };
    badge(tone, text)
}

pub(super) fn endpoint_badge(status: EndpointStatus) -> Markup {
    let tone = match status {
        EndpointStatus::Active => Tone::Good,
        EndpointStatus::Failing | EndpointStatus::Suspended => Tone::Bad,
        EndpointStatus::Disabled | EndpointStatus::Gone => Tone::Calm,
    };
    badge(tone, &words(status.word()))
}

/// A pair of a list of facts.
pub(super) fn fact(name: &str, value: impl Render) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// A table in a frame that can be scrolled by keyboard where it is wider than the screen. A head that begins with `#` is that of
/// numbers.
pub(super) fn table(
    caption: &str,
    heads: &[&str],
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    tabular("scroll", caption, heads, &mut rows.into_iter())
}

/// A table whose cells explain themselves: on a small screen each row is a block, and the heads are only read aloud.
pub(super) fn records(
    caption: &str,
    heads: &[&str],
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    tabular("scroll list", caption, heads, &mut rows.into_iter())
}

fn tabular(
    class: &str,
    caption: &str,
    heads: &[&str],
    rows: &mut dyn Iterator<Item = Markup>,
) -> Markup {
    // The roles, because a browser may not tell what is a table from elements that are laid out as blocks.
    html! {
        div class=(class) role="region" aria-label=(caption) tabindex="0" {
            table role="table" {
                caption.hidden { (caption) }
                thead role="rowgroup" { tr role="row" { @for head in heads {
                    @let number = head.strip_prefix('#');
                    th.amount[number.is_some()] scope="col" role="columnheader" { (number.unwrap_or(head)) }
                } } }
                tbody role="rowgroup" { @for row in rows { tr role="row" { (headed(&row)) } } }
            }
        }
    }
}

/// A row whose first cell, from which it begins, is read with each of the others.
fn headed(row: &Markup) -> Markup {
    PreEscaped(row.0.replacen("<td", "<td role=\"rowheader\"", 1))
}

/// What an empty list shows: that it is empty, and what to do about it.
pub(super) fn empty(what: &str, next: impl Render) -> Markup {
    html! { div.empty { p { strong { (what) } } p { (next) } } }
}

/// What a list shows that found nothing so far.
pub(super) fn nothing_yet(things: &str) -> Markup {
    let what = format!("Nothing found among the newest {things}.");
    let next = "A search covers one part at a time: go on to search older ones.";
    empty(&what, next)
}

/// The page that shows a value once: what it is, and where to go from there.
pub(super) fn shown_once(
    page: (Part, &str),
    heading: &str,
    about: Markup,
    value: &str,
    next: Option<(String, &str)>,
) -> Answer {
    let main = html! {
        div.title { h1 { (heading) } }
        section.card.narrow {
            p { (about) }
            p { (copyable(value)) }
            p.alert.warn { "It is shown only once. Copy it before you leave this page." }
            @if let Some((address, label)) = next { a.button href=(address) { (label) } }
        }
    };
    Page::new(page.0, page.1, main).ok()
}

/// Why what was just tried on a page was refused.
pub(super) fn alert(asked: &Asked) -> Markup {
    html! {
        @if let Some(refused) = &asked.refused { div.alert.bad role="alert" tabindex="-1" autofocus { p { (refused.message) } } }
    }
}

/// The message of what was just done. The browser is led to it, because what is on a page from the start is not read out by itself.
pub(super) fn notice(tone: Tone, text: &str) -> Markup {
    html! { p.alert.(tone.class()) role="status" tabindex="-1" autofocus { (text) } }
}

/// A value that people copy; the script adds a button.
pub(super) fn copyable(text: &str) -> Markup {
    html! { code.copy data-copy { (text) } }
}

/// A link to the next page of a list, with the same filter.
pub(super) fn next_page(
    user: &User,
    path: &str,
    fields: &Fields,
    name: &str,
    next: Option<&str>,
    label: &str,
) -> Markup {
    html! {
        @if let Some(next) = next {
            p.next { a.button rel="next" href=(user.link(&format!("{path}{}", fields.with(name, next).query()))) { (label) } }
        }
    }
}

/// The way back from a page that asks for less than the page to which it leads: for those who have this scope.
pub(super) fn back(user: &User, scope: Scope, address: &str, label: &str) -> Markup {
    html! {
        @if user.may(scope) { p.back { a href=(user.link(address)) { "← " (label) } } }
    }
}

/// A field that nobody sees.
pub(super) fn hidden(name: &str, value: impl Render) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// The hidden field that makes a form count once.
pub(super) fn once() -> Markup {
    hidden(Fields::ONCE, hex::encode(entropy::bytes::<16>()))
}

/// A form that is one button.
pub(super) fn button(user: &User, address: &str, label: &str, class: &str) -> Markup {
    one_button(user, address, label, class, None)
}

/// A form that is one button of many with this label, in a list; the name tells it from the others for those who do not see where it stands.
pub(super) fn button_of(user: &User, address: &str, label: &str, name: &str) -> Markup {
    let name = format!("{label}: {name}");
    one_button(user, address, label, "plain", Some(&name))
}

fn one_button(user: &User, address: &str, label: &str, class: &str, name: Option<&str>) -> Markup {
    html! {
        form method="post" action=(user.link(address)) {
            (once())
            button class=(class) aria-label=[name] { (label) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_every_digit() {
        for (text, expected) in [
            ("EUR 1200.00", "EUR 1,200.00"),
            ("JPY 999999999999999", "JPY 999,999,999,999,999"),
            ("9007199254740993.5", "9,007,199,254,740,993.5"),
            ("0.5", "0.5"),
            ("100", "100"),
            ("EUR", "EUR"),
        ] {
            assert_eq!(grouped(text), expected);
        }
    }

    #[test]
    fn amounts_within_sentences_have_the_form_of_all_others() {
        for (sentence, expected) in [
            (
                "50 % applies: USD 1250.50 is returned, USD 999.00 is kept, on 20 June 2031.",
                "50 % applies: USD 1,250.50 is returned, USD 999.00 is kept, on 20 June 2031.",
            ),
            ("It keeps JPY 1000000.", "It keeps JPY 1,000,000."),
            ("", ""),
        ] {
            assert_eq!(with_amounts(sentence), expected);
        }
    }

    #[test]
    fn an_event_is_on_the_day_that_it_is_where_it_takes_place() {
        let at = Timestamp::parse("2027-01-13T03:30:00Z").unwrap();
        for (zone, expected) in [
            (
                Some("America/Los_Angeles"),
                "12 Jan 2027, 19:30 Los Angeles time",
            ),
            (Some("Asia/Tokyo"), "13 Jan 2027, 12:30 Tokyo time"),
            (Some("UTC"), "13 Jan 2027, 03:30 UTC"),
            (Some("Nowhere/Else"), "13 Jan 2027, 03:30 UTC"),
            (None, "13 Jan 2027, 03:30 UTC"),
        ] {
            let shown = event_time_at(at, zone).into_string();
            let instant = "2027-01-13T03:30:00.000Z";
            let expected =
                format!("<time datetime=\"{instant}\" title=\"{instant}\">{expected}</time>");
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn words_of_the_interface_are_read_as_english() {
        for (word, expected) in [
            ("no_show", "No show"),
            ("organizer.noShow", "Organizer no show"),
            ("createApiKey", "Create API key"),
            ("apiKeyId", "API key id"),
            ("http_5xx", "HTTP 5xx"),
            ("no_endpoints", "No endpoint"),
            ("non_payment", "Non-payment"),
            ("", ""),
        ] {
            assert_eq!(words(word), expected);
        }
        for (number, thing, expected) in [
            (1, "attempt", "1 attempt"),
            (1200, "delivery", "1,200 deliveries"),
            (0, "day", "0 days"),
        ] {
            assert_eq!(counted(number, thing), expected);
        }
    }

    #[test]
    fn the_first_cell_of_a_row_is_its_head() {
        let row = || html! { td.amount { "EUR 1" } td { "Kept" } };
        let table = table("Sums", &["Sum", "What"], [row(), row()]).into_string();
        let expected =
            "<tr role=\"row\"><td role=\"rowheader\" class=\"amount\">EUR 1</td><td>Kept</td></tr>";
        assert_eq!(table.matches(expected).count(), 2, "{table}");
    }

    #[test]
    fn distances_are_told_in_the_largest_unit() {
        let now = Timestamp::from_ms(1_800_000_000_000);
        for (ms, expected) in [
            (0, "just now"),
            (-59_000, "in a moment"),
            (60_000, "1 minute ago"),
            (-7_200_000, "in 2 hours"),
            (DAY_MS * 400, "400 days ago"),
        ] {
            assert_eq!(distance(now.plus_ms(-ms), now), expected);
        }
    }
}
