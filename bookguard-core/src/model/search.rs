//! What a search of bookings or of partners finds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

/// The words that a search looks for. It finds a booking if each of them is a part of one of the booking's texts: its id, the
/// ids and names of talent and organizer, the event type, and the values of the metadata.
///
/// Each character is compared in its lower case, without regard to its neighbours and to the language; the two lower cases of a
/// sigma count as one. Accents count, and a letter with its accent differs from the same two as separate characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search(Vec<String>);

/// The searched texts of a booking, which [`Booking`](super::Booking) describes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Texts<'b> {
    #[serde(borrow)]
    booking_id: Text<'b>,
    #[serde(borrow)]
    talent: Names<'b>,
    #[serde(borrow)]
    organizer: Names<'b>,
    #[serde(borrow)]
    event_type: Text<'b>,
    #[serde(borrow, default)]
    metadata: BTreeMap<Text<'b>, Text<'b>>,
}

#[derive(Deserialize)]
struct Names<'b> {
    #[serde(borrow)]
    id: Text<'b>,
    #[serde(borrow)]
    name: Text<'b>,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Text<'b>(#[serde(borrow)] Cow<'b, str>);

impl Search {
    /// A search for the words of this text, which white space separates.
    pub fn of(text: &str) -> Self {
        let word = |word| {
            let mut lower = String::new();
            add_lower(word, &mut lower);
            lower
        };
        Self(text.split_whitespace().map(word).collect())
    }

    /// Whether it finds the booking, given as its JSON.
    ///
    /// # Errors
    /// It is not the JSON of a booking.
    pub fn finds(&self, booking: &str) -> Result<bool, serde_json::Error> {
        let Texts {
            booking_id,
            talent,
            organizer,
            event_type,
            metadata,
        } = serde_json::from_str(booking)?;
        let names = [&talent, &organizer].into_iter();
        let texts = (names.flat_map(|party| [&party.id, &party.name]))
            .chain([&booking_id, &event_type])
            .chain(metadata.values());
        Ok(self.finds_in(texts.map(|Text(text)| text.as_ref())))
    }

    /// Whether each word is a part of one of these texts.
    pub fn finds_in<'t>(&self, texts: impl Iterator<Item = &'t str>) -> bool {
        let mut lower = String::with_capacity(512);
        for text in texts {
            add_lower(text, &mut lower);
            // No word contains white space, so none is found across two texts.
            lower.push('\n');
        }
        self.0.iter().all(|word| lower.contains(word))
    }
}

/// Adds the text with each character in its lower case. [`str::to_lowercase`] would write a sigma differently at the end of a
/// word, so that a part of a word would not be found in the whole.
fn add_lower(text: &str, lower: &mut String) {
    if text.is_ascii() {
        let begin = lower.len();
        lower.push_str(text);
        lower[begin..].make_ascii_lowercase();
    } else {
        let chars = text.chars().flat_map(char::to_lowercase);
        lower.extend(chars.map(|c| if c == 'ς' { 'σ' } else { c }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A booking with these texts, as JSON: talent, organizer, event type and one value of metadata.
    fn booking([talent, organizer, event_type, value]: [&str; 4]) -> String {
        serde_json::json!({
            "bookingId": "bkg_0190b5e7c0de7abc8def0123456789ab",
            "partnerId": "ptn_01777777777777777777777777777777",
            "talent": {"id": "T-7", "name": talent},
            "organizer": {"id": "O-42", "name": organizer},
            "eventType": event_type,
            "eventDate": "2031-06-20T19:00:00.000Z",
            "policy": {"policyId": "firm"},
            "metadata": {"order": value},
        })
        .to_string()
    }

    #[test]
    fn every_word_is_a_part_of_some_text() {
        let owls = booking([
            "The Night Owls",
            "Zoë's \"Hall\"",
            "concert",
            "SH-2027/0619",
        ]);
        for (text, found) in [
            ("owl", true),
            ("OWLS night", true),
            ("owls hall concert t-7 o-42 sh-2027", true),
            ("owls violin", false),
            ("owlsconcert", false),
            ("nightowls", false),
            ("  night\u{a0}owls  ", true),
            ("bkg_0190b5e7", true),
            ("BKG_0190B5E7C0DE7ABC8DEF0123456789AB", true),
            ("0619", true),
            ("zoë's", true),
            ("zoe's", false),
            ("\"hall\"", true),
            // Names of members, other members, and their values.
            ("order", false),
            ("talent", false),
            ("ptn_0177", false),
            ("firm", false),
            ("2031-06-20", false),
        ] {
            assert_eq!(Search::of(text).finds(&owls).unwrap(), found, "{text}");
        }
    }

    #[test]
    fn characters_mean_themselves() {
        for (text, name, found) in [
            ("%", "100 percent", false),
            ("%", "100 %", true),
            ("a_c", "abc", false),
            ("a_c", "A_C", true),
            ("\\", "a\\b", true),
            ("\\n", "new line", false),
            ("n", "a\\b", false),
            ("u00", "\u{1}", false),
            ("*", "abc", false),
            (".", "abc", false),
            ("'; --", "O'; -- x", true),
            ("😀", "a 😀 b", true),
            ("😀", "a 😁 b", false),
            ("𝒳", "x", false),
            // A letter with its accent, and as two characters.
            ("é", "Caf\u{e9}", true),
            ("e\u{301}", "Cafe\u{301}", true),
            ("é", "Cafe\u{301}", false),
            ("cafe", "Cafe\u{301}", true),
            // Lower case has the length and the form that Unicode gives it, wherever the letter stands.
            ("ΟΔΟΣ", "οδοσ", true),
            ("ΟΔΟ", "ΟΔΟΣ", true),
            ("ΟΔΟΣ", "ΟΔΟΣΑ", true),
            ("straße", "STRASSE", false),
            ("STRAẞE", "Straße", true),
            ("i", "\u{130}stanbul", true),
            ("KELV", "\u{212a}elvin", true),
            ("οδος", "ΟΔΟΣ", true),
            ("ДОМ", "дом", true),
        ] {
            let named = booking([name, "-", "-", "-"]);
            let valued = booking(["-", "-", "-", name]);
            for booking in [named, valued] {
                let finds = Search::of(text).finds(&booking).unwrap();
                assert_eq!(finds, found, "{text} in {name}");
            }
        }
    }

    #[test]
    fn a_booking_may_have_no_metadata_and_must_be_one() {
        let bare = r#"{"bookingId":"bkg_1","talent":{"id":"1","name":"A"},"organizer":{"id":"2","name":"B"},"eventType":"dj"}"#;
        assert!(Search::of("dj").finds(bare).unwrap());
        for other in ["", "[]", "{}", r#"{"bookingId":1}"#] {
            assert!(Search::of("dj").finds(other).is_err(), "{other}");
        }
    }
}
