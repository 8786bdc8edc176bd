//! What the page and the PDFs call alike: their parts, and the facts with which they begin.

use std::fmt;

use bookguard_core::evidence::{Erasable, Packet, Withheld};
use bookguard_core::model::Party;

pub(crate) const RESULT: &str = "The result";
pub(crate) const STORY: &str = "What happened";
pub(crate) const TERMS: &str = "The cancellation terms in words";
pub(crate) const TIMELINE: &str = "Timeline";
/// Below the heading of the timeline.
pub(crate) const ENTRIES: &str = "An entry number is a place in the ledger, whose past nobody can change unnoticed. Without one, it is what the service states \
                                  under its signature.";
/// The source of a moment of the timeline that no entry holds.
pub(crate) const STATEMENT: &str = "The service’s statement";
/// Before the digest of a text of the terms.
pub(crate) const TERMS_DIGEST: &str = "The SHA-256 of this text, by which acceptances name it:";
pub(crate) const OTHERS: &str = "What others say: time-stamps and witnesses";
pub(crate) const SCOPE: &str = "What this proves, and what it does not";
pub(crate) const PROVES: &str = "It proves";
pub(crate) const LIMITS: &str = "It does not prove";

/// The headings of the texts of the terms, but for the last, which is of the terms in force.
pub(crate) fn headings(packet: &Packet) -> Vec<String> {
    let heading = |moves: usize| match moves < packet.former_terms.len() {
        true => format!("The terms before move {}", moves + 1),
        false => "The same terms in other words, which were accepted too".to_owned(),
    };
    let mut moves = packet.moves_before_texts();
    moves.pop();
    moves.into_iter().map(heading).collect()
}

/// The ledger's entries that a paragraph is from, such as ` (Entry 142)`; nothing if there are none.
pub(crate) fn sources(entries: &[u64]) -> String {
    match entries {
        [] => String::new(),
        [entry] => format!(" (Entry {entry})"),
        [before @ .., last] => {
            let before: Vec<String> = before.iter().map(u64::to_string).collect();
            format!(" (Entries {} and {last})", before.join(", "))
        }
    }
}

/// Whether a space between these two belongs to an amount: `USD 4500.00`, `4500.00 USD`, `50 %`.
pub(crate) fn is_amount(before: &str, after: &str) -> bool {
    let code = |word: &str| word.len() == 3 && word.bytes().all(|b| b.is_ascii_uppercase());
    let last = before.rsplit([' ', '(']).next().unwrap_or_default();
    let next = after
        .split([' ', ',', '.', ';', ':', ')'])
        .next()
        .unwrap_or_default();
    let number = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    code(last) && number(next.chars().next())
        || number(last.chars().last()) && (code(next) || next == "%")
}

/// What the packet says of the booking, under a name.
pub(crate) struct Fact<'a> {
    pub(crate) name: &'static str,
    pub(crate) value: Value<'a>,
}

/// The value of a fact, and where the packet says it.
pub(crate) enum Value<'a> {
    /// The whole text at this place.
    At(String, String),
    /// The whole text at this place, and our remark on it.
    Remarked(String, String, String),
    /// Words of the headline.
    OfHeadline(String),
    /// A party, and its name in the booking.
    Party(&'static str, &'a Party),
    /// A party whom this copy does not show.
    NotShown,
    /// A value that was erased.
    Erased,
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(_, text) => f.write_str(text),
            Self::OfHeadline(words) => f.write_str(words),
            Self::Party(_, party) => write!(f, "{} ({})", party.name, party.id),
            Self::Remarked(_, text, remark) => write!(f, "{text} ({remark})"),
            Self::NotShown => f.write_str("Not shown in this copy"),
            Self::Erased => f.write_str("Erased: nobody can show it again"),
        }
    }
}

/// The facts, in their order.
pub(crate) fn facts(packet: &Packet) -> Vec<Fact<'_>> {
    let booking = &packet.booking;
    let party = |side: Withheld, name, party| {
        if packet.withheld.contains(&side) {
            Value::NotShown
        } else if packet.has_erased(name) {
            Value::Erased
        } else {
            Value::Party(side.word(), party)
        }
    };
    let at = |pointer: &str, text: &str| Value::At(pointer.to_owned(), text.to_owned());
    let event = match packet.has_erased(Erasable::EventType) {
        true => Value::Erased,
        false => at("/booking/eventType", &booking.event_type),
    };
    let (place, status) = ("/booking/status", booking.status.word());
    let status = match packet.absent() {
        Some(side) => Value::Remarked(
            place.to_owned(),
            status.to_owned(),
            format!("reported: the {side} did not come"),
        ),
        None => at(place, status),
    };
    let last = packet.summary.timeline.len().saturating_sub(1);
    let fact = |name, value| Fact { name, value };
    vec![
        fact("Platform", at("/partnerName", &packet.partner_name)),
        fact(
            "Organizer",
            party(Withheld::Organizer, Erasable::Organizer, &booking.organizer),
        ),
        fact(
            "Talent",
            party(Withheld::Talent, Erasable::Talent, &booking.talent),
        ),
        fact("Event", event),
        fact("Event starts", Value::OfHeadline(packet.event_in_words())),
        fact("Value", Value::OfHeadline(packet.value_in_words())),
        fact("Status", status),
        fact(
            "Booking",
            at("/booking/bookingId", &booking.booking_id.to_string()),
        ),
        fact(
            "Packet made",
            at(
                &format!("/summary/timeline/{last}/when"),
                packet.made_in_words(),
            ),
        ),
    ]
}

#[cfg(test)]
mod tests;
