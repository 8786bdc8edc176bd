//! Text that people read: names, notes, mail addresses, the text of policies.
//!
//! A reader must see what a name is. So a character is refused if it shows nothing or changes how its neighbours read:
//! controls, the marks and overrides of writing direction, tags, fillers, zero-width spaces, private use (the classes that
//! PRECIS, RFC 8264, and UTS 39 refuse). Two kinds of invisible characters belong to ordinary names and are accepted where
//! they do: joiners after a letter of a joining script (Persian, Hindi) or an emoji, and variation selectors after a
//! character that has variants (emoji, ideographs). Marks above and below letters belong to many names, but a pile of them hides
//! the lines around it. The properties are Unicode's own, from `icu_properties`.

use icu_properties::props::{
    Alphabetic, BidiClass, BinaryProperty as _, DefaultIgnorableCodePoint, EmojiModifier,
    EnumeratedProperty as _, ExtendedPictographic, GeneralCategory, Ideographic,
    IndicSyllabicCategory, JoiningType, NoncharacterCodePoint, VariationSelector,
};

const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];
/// Letters, signs and accents that look like a single quotation mark (UTS 39, and the comma above right). Alone, each belongs to a
/// word.
const LIKE_MARKS: [char; 26] = [
    '\u{b4}', '\u{2b9}', '\u{2bb}', '\u{2bc}', '\u{2bd}', '\u{2be}', '\u{2c8}', '\u{2ca}',
    '\u{2cb}', '\u{2f4}', '\u{315}', '\u{374}', '\u{384}', '\u{55a}', '\u{55d}', '\u{7f4}',
    '\u{7f5}', '\u{1fbd}', '\u{1fbf}', '\u{1fef}', '\u{1ffd}', '\u{1ffe}', '\u{a78b}', '\u{a78c}',
    '\u{ff07}', '\u{ff40}',
];
/// The braille pattern without a dot: a symbol by its category, but blank to the eye.
const BRAILLE_BLANK: char = '\u{2800}';

/// The first character that such a text must not contain; `None` if there is none.
pub fn misplaced(text: &str) -> Option<char> {
    if text.is_ascii() {
        return text.chars().find(char::is_ascii_control);
    }
    // The character that a joiner would join, and the one that a selector would vary.
    let (mut base, mut before) = (None, None);
    text.chars().find(|&c| {
        let placed = match c {
            _ if JOINERS.contains(&c) => base.is_some_and(joins) && !before.is_some_and(is_joiner),
            _ if VariationSelector::for_char(c) => before.is_some_and(varies),
            _ => !is_hidden(c),
        };
        if !is_mark(c) && !is_joiner(c) && !VariationSelector::for_char(c) {
            base = Some(c);
        }
        before = Some(c);
        !placed
    })
}

/// The most marks without a width of their own that may follow one another. The longest stack of Tibetan has as many;
/// more are drawn over the lines around them.
pub const MARKS_IN_A_ROW: usize = 8;

/// Whether more marks follow one another than [`MARKS_IN_A_ROW`]. A joiner between them does not part them.
pub fn is_crowded(text: &str) -> bool {
    let mut marks = 0;
    !text.is_ascii()
        && text.chars().any(|c| {
            match is_mark(c) {
                true => marks += 1,
                false if is_joiner(c) => {}
                false => marks = 0,
            }
            marks > MARKS_IN_A_ROW
        })
}

/// Whether a character shows nothing or changes how its neighbours read, in any position. Does not include joiners and
/// variation selectors, which [`misplaced`] judges by the characters before them.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(
        GeneralCategory::for_char(c),
        GeneralCategory::Control
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
    ) || matches!(c, '\u{fff9}'..='\u{fffb}')
        || NoncharacterCodePoint::for_char(c)
        || DefaultIgnorableCodePoint::for_char(c)
            && !is_joiner(c)
            && !VariationSelector::for_char(c)
}

/// Whether a character is invisible in any position, joiners and variation selectors included.
pub fn is_invisible(c: char) -> bool {
    is_hidden(c) || !c.is_ascii() && DefaultIgnorableCodePoint::for_char(c)
}

/// Whether the text shows nothing: it is empty, or holds only white space, invisible characters and marks without a base
/// character.
pub fn is_blank(text: &str) -> bool {
    let shows = |c: char| {
        !c.is_whitespace()
            && c != BRAILLE_BLANK
            && !is_mark(c)
            && !c.is_control()
            && !DefaultIgnorableCodePoint::for_char(c)
    };
    !text.chars().any(shows)
}

/// The text in quotation marks, as the words of somebody else stand in a sentence. See [`quotable`].
pub fn quoted(text: &str) -> String {
    format!("\u{201c}{}\u{201d}", quotable(text))
}

/// The text with a capital at its beginning.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// The text with the thousands of its first number set apart: `USD 1,200.50`.
pub fn grouped(text: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let (before, digits) = text.split_at(text.find(is_digit).unwrap_or(text.len()));
    let end = digits.find(|c: char| !is_digit(c)).unwrap_or(digits.len());
    let (whole, after) = digits.split_at(end);
    let mut out = before.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + after
}

/// A number of things: `1 entry`, `1,234 entries`, `2 days`.
pub fn counted(number: u64, thing: &str) -> String {
    let plural = match (number, thing.strip_suffix('y')) {
        (1, _) => thing.to_owned(),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ => format!("{thing}s"),
    };
    format!("{} {plural}", grouped(&number.to_string()))
}

/// As [`quoted`] of 0.1.0, whose sentences stay as they are: two letters that look like an apostrophe could end a quotation.
pub(crate) fn quoted_at_first(text: &str) -> String {
    format!(
        "\u{201c}{}\u{201d}",
        without_pairs(text, single_mark, |_| false)
    )
}

/// The text as it stands between quotation marks: a double mark in it becomes a single one, as nested quotations are
/// written, so that no text can end its own quotation and go on as a sentence of whoever quotes it. Of single marks side by
/// side, which together look like a double one, the first stays, also if a narrow space parts them. Straight marks stay: they
/// do not end a quotation.
pub fn quotable(text: &str) -> String {
    let mark = |c| single_mark(c).or_else(|| LIKE_MARKS.contains(&c).then_some(c));
    without_pairs(text, mark, |c| {
        matches!(c, '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}')
    })
}

/// The text with these marks, each alone. Marks between which only such spaces stand are side by side.
fn without_pairs(
    text: &str,
    mark: impl Fn(char) -> Option<char>,
    is_narrow: impl Fn(char) -> bool,
) -> String {
    let mut before = false;
    let shown = text.chars().filter_map(|c| {
        let mark = mark(c);
        let is_repeated = mark.is_some() && before;
        before = mark.is_some() || before && is_narrow(c);
        (!is_repeated).then_some(mark.unwrap_or(c))
    });
    shown.collect()
}

/// Whether the text holds a double quotation mark, a straight one included, or single ones side by side, which look like one.
pub fn has_double_mark(text: &str) -> bool {
    let curly = text.replace('\'', "\u{2019}");
    curly.contains('"') || quotable(&curly) != curly
}

/// The single mark for a quotation mark that is not straight, or for a character that looks like one (UTS 39). Hebrew
/// gershayim belong to words and stay.
fn single_mark(c: char) -> Option<char> {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2035}' => Some(c),
        '\u{ab}' | '\u{201c}' | '\u{201e}' | '\u{201f}' | '\u{2036}' | '\u{2037}' | '\u{275d}'
        | '\u{301d}' | '\u{1f676}' => Some('\u{2018}'),
        '\u{bb}' | '\u{2ba}' | '\u{2dd}' | '\u{2ee}' | '\u{2f5}' | '\u{2f6}' | '\u{201d}'
        | '\u{2033}' | '\u{2034}' | '\u{2057}' | '\u{275e}' | '\u{2e42}' | '\u{3003}'
        | '\u{301e}' | '\u{301f}' | '\u{ff02}' | '\u{1f677}' | '\u{1f678}' => Some('\u{2019}'),
        _ => None,
    }
}

/// Whether any of the text is written from right to left, so that text after it on the line could change sides.
pub fn goes_right_to_left(text: &str) -> bool {
    !text.is_ascii()
        && text.chars().any(|c| {
            let class = BidiClass::for_char(c);
            [
                BidiClass::RightToLeft,
                BidiClass::ArabicLetter,
                BidiClass::ArabicNumber,
            ]
            .contains(&class)
        })
}

fn is_joiner(c: char) -> bool {
    JOINERS.contains(&c)
}

/// The characters of [`is_hidden`] in the first plane, as a character class of a regular expression (ECMA 262). The line
/// and paragraph separators are left out, because text from which programs are generated must not contain them.
pub(crate) const HIDDEN: &str = r"\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ue000-\uf8ff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff";
/// The further characters of [`is_invisible`].
pub(crate) const JOINING: &str = r"\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f";

/// The pattern of text for people: something visible, and no forbidden character of the first plane. No pattern that all
/// programs read alike can express the other planes and the places of joiners and variation selectors.
pub fn pattern() -> String {
    format!(r"^[^{HIDDEN}]*[^\s\u2800{HIDDEN}{JOINING}][^{HIDDEN}]*$")
}

/// The number of entries, in words.
#[must_use]
pub fn entries(count: u64) -> String {
    match count {
        1 => "1 entry".to_owned(),
        _ => format!("{count} entries"),
    }
}

/// Marks without a width of their own.
fn is_mark(c: char) -> bool {
    let category = GeneralCategory::for_char(c);
    matches!(
        category,
        GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
    )
}

/// Whether letters change their form when joined to this one: Arabic and similar scripts, the scripts of India, emoji.
fn joins(c: char) -> bool {
    ExtendedPictographic::for_char(c)
        || EmojiModifier::for_char(c)
        || JoiningType::for_char(c) != JoiningType::NonJoining
        || Alphabetic::for_char(c)
            && IndicSyllabicCategory::for_char(c) != IndicSyllabicCategory::Other
}

/// Whether a character may have variants: signs, emoji and digits (for keycaps), ideographs, and letters that join.
fn varies(c: char) -> bool {
    let letter = Alphabetic::for_char(c) && !Ideographic::for_char(c) && !joins(c);
    !letter && !c.is_whitespace() && !is_mark(c) && !is_joiner(c) && !VariationSelector::for_char(c)
}

/// What of a sentence stands outside of quotation marks. Panics if these do not pair.
#[cfg(test)]
pub(crate) fn outside_quotations(text: &str) -> String {
    let mut outside = String::new();
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            '\u{201c}' | '\u{201d}' => {
                assert_eq!(c == '\u{201d}', is_quoted, "{text}");
                is_quoted = !is_quoted;
            }
            _ => assert!(
                single_mark(c).is_none_or(|mark| mark == c),
                "{c:?} in {text}"
            ),
        }
        if !is_quoted && c != '\u{201d}' {
            outside.push(c);
        }
    }
    assert!(!is_quoted, "{text}");
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_own_quotation() {
        #[rustfmt::skip]
        let cases = [
            ("Acme", "Acme"),
            ("", ""),
            ("R&B \"live\" in '99", "R&B \"live\" in '99"),
            ("O\u{2019}Brien", "O\u{2019}Brien"),
            ("\u{201c}Live\u{201d}", "\u{2018}Live\u{2019}"),
            ("Acme\u{201d} won. \u{201c}Acme", "Acme\u{2019} won. \u{2018}Acme"),
            ("\u{ab}Live\u{bb}", "\u{2018}Live\u{2019}"),
            ("\u{201e}Live\u{201c}", "\u{2018}Live\u{2018}"),
            ("a\u{201f}b\u{2036}c\u{301d}d", "a\u{2018}b\u{2018}c\u{2018}d"),
            ("a\u{2033}b\u{301e}c\u{301f}d\u{ff02}e\u{2ba}f\u{3003}g", "a\u{2019}b\u{2019}c\u{2019}d\u{2019}e\u{2019}f\u{2019}g"),
            ("Acme\u{201d}\u{201d} won", "Acme\u{2019} won"),
            ("Acme\u{2019}\u{2019} won", "Acme\u{2019} won"),
            ("Acme\u{2032}\u{2032}\u{2032} won", "Acme\u{2032} won"),
            ("the \u{2018}90s\u{2019}\u{201d}", "the \u{2018}90s\u{2019}"),
            ("Owls\u{2bc}\u{2bc} won, \u{2bb}\u{2bb}none", "Owls\u{2bc} won, \u{2bb}none"),
            ("Owls\u{2019}\u{2bc} and \u{2bc}\u{201d}", "Owls\u{2019} and \u{2bc}"),
            ("Owls\u{b4}\u{b4} \u{ff07}\u{ff07} \u{7f4}\u{7f4}", "Owls\u{b4} \u{ff07} \u{7f4}"),
            ("Owls\u{1fbd}\u{1fbd} won, \u{384}\u{1fbf}none", "Owls\u{1fbd} won, \u{384}none"),
            ("Owls\u{2019}\u{315} won", "Owls\u{2019} won"),
            ("Owls\u{2019}\u{200a}\u{2019} won", "Owls\u{2019}\u{200a} won"),
            ("Hawai\u{2bb}i, \u{2019}a\u{2019} \u{2018}b", "Hawai\u{2bb}i, \u{2019}a\u{2019} \u{2018}b"),
            ("צה\u{5f4}ל", "צה\u{5f4}ל"),
            ("\u{300e}東京\u{300f}", "\u{300e}東京\u{300f}"),
        ];
        for (text, shown) in cases {
            assert_eq!(quotable(text), shown, "{text:?}");
            assert_eq!(quoted(text), format!("\u{201c}{shown}\u{201d}"));
            assert_eq!(outside_quotations(&quoted(text)), "");
        }
    }

    #[test]
    fn what_0_1_0_quoted_is_quoted_the_same() {
        for (text, shown) in [
            ("\u{201d}\u{201d}\u{2bc}\u{2bc}", "\u{2019}\u{2bc}\u{2bc}"),
            ("\u{2019}\u{200a}\u{2019}", "\u{2019}\u{200a}\u{2019}"),
        ] {
            assert_eq!(quoted_at_first(text), format!("\u{201c}{shown}\u{201d}"));
        }
    }

    #[test]
    fn names_of_the_world_have_their_place() {
        for name in [
            "Zoë & the Ñandús",
            "Zoe\u{308} O’Brien-D'Arcy",
            "عبد الرحمن",
            "می\u{200c}خواهم",
            "ه\u{200d}",
            "שָׁלוֹם",
            "東京事変",
            "葛\u{e0100}城",
            "ザ・ビートルズ",
            "방탄소년단",
            "क\u{94d}\u{200d}ष",
            "র\u{200d}\u{9cd}য",
            "นักร้อง",
            "👩\u{1f3fd}\u{200d}🚀 & 🏳\u{fe0f}\u{200d}🌈",
            "I \u{2764}\u{fe0f} 1\u{fe0f}\u{20e3}",
            "👨\u{200d}👩\u{200d}👧",
            "ᠮᠣᠩᠭᠣᠯ\u{180b}",
            "R&B / 50% \"live\" <3",
            "Ελλάδα, Україна, Հայաստան",
        ] {
            assert_eq!(misplaced(name), None, "{name:?}");
            assert!(!is_blank(name), "{name:?}");
        }
    }

    #[test]
    fn what_hides_or_turns_what_stands_around_it_has_no_place() {
        for (name, c) in [
            ("Acme\u{202e}moc.liva", '\u{202e}'),
            ("\u{2066}Acme\u{2069}", '\u{2066}'),
            ("Acme\u{200f}", '\u{200f}'),
            ("עברית\u{200e}", '\u{200e}'),
            ("a\u{61c}b", '\u{61c}'),
            ("Ac\u{200b}me", '\u{200b}'),
            ("\u{feff}Acme", '\u{feff}'),
            ("Ac\u{ad}me", '\u{ad}'),
            ("Ac\u{2060}me", '\u{2060}'),
            ("Acme\u{e0041}\u{e0063}", '\u{e0041}'),
            ("🏴\u{e0067}\u{e0062}\u{e007f}", '\u{e0067}'),
            ("Acme\u{3164}", '\u{3164}'),
            ("Acme\u{ffa0}", '\u{ffa0}'),
            ("Ac\u{34f}me", '\u{34f}'),
            ("a\u{2028}b", '\u{2028}'),
            ("a\nb", '\n'),
            ("é\u{9b}31m", '\u{9b}'),
            ("Acme \u{e000}", '\u{e000}'),
            ("a\u{fff9}b", '\u{fff9}'),
            ("a\u{1fffe}", '\u{1fffe}'),
            // Joiners and selectors where they have no visible effect.
            ("Ac\u{200d}me", '\u{200d}'),
            ("Ac\u{200c}me", '\u{200c}'),
            ("\u{200d}Acme", '\u{200d}'),
            ("می\u{200c}\u{200c}خ", '\u{200c}'),
            ("Acme\u{fe0f}", '\u{fe0f}'),
            ("❤\u{fe0f}\u{fe0f}", '\u{fe0f}'),
            ("\u{e0100}葛", '\u{e0100}'),
            ("a \u{fe0f}", '\u{fe0f}'),
        ] {
            assert_eq!(misplaced(name), Some(c), "{name:?}");
        }
    }

    #[test]
    fn no_marks_are_piled_up_over_the_lines_around_them() {
        let marks = |n: usize| "\u{301}".repeat(n);
        for (text, crowded) in [
            ("Acme".to_owned(), false),
            (format!("A{}", marks(8)), false),
            (format!("A{}", marks(9)), true),
            (format!("A{}", marks(150)), true),
            (format!("A{0}B{0}", marks(8)), false),
            (marks(9), true),
            // Above, below and around take turns.
            ("A\u{301}\u{316}\u{20dd}".repeat(3), false),
            (format!("A{}", "\u{301}\u{316}\u{20dd}".repeat(3)), true),
            (format!("م{0}\u{200d}{0}", "\u{64e}".repeat(5)), true),
            ("שָׁ֔לוֹם".to_owned(), false),
            ("Việt Nam ở đâu".to_owned(), false),
            ("นี้ กู้".to_owned(), false),
            (
                "\u{f67}\u{f90}\u{fb5}\u{fa8}\u{fb3}\u{fba}\u{fbc}\u{fbb}\u{f82}".to_owned(),
                false,
            ),
        ] {
            assert_eq!(is_crowded(&text), crowded, "{text:?}");
        }
    }

    #[test]
    fn a_text_that_nobody_would_see_is_blank() {
        for text in [
            "",
            " ",
            "\t\n",
            "\u{200b}",
            "\u{a0}\u{3000}",
            "\u{2800}",
            "\u{3164}",
            "\u{200d}\u{fe0f}",
            "\u{301}",
            "\u{e0041}",
            "\u{202e}\u{202c}",
        ] {
            assert!(is_blank(text), "{text:?}");
        }
        for text in [".", "一", "👍", "é", "1"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    #[test]
    fn text_that_could_turn_its_line_is_known() {
        for (text, turns) in [
            ("Acme 50%", false),
            ("Zoë", false),
            ("שלום", true),
            ("Acme عربي", true),
            ("١٢", true),
        ] {
            assert_eq!(goes_right_to_left(text), turns, "{text:?}");
        }
    }

    #[test]
    fn the_patterns_name_the_characters_that_the_rules_do() {
        let class = |class: &str| -> Vec<u32> {
            let hex = |at: &str| u32::from_str_radix(&at[..4], 16).unwrap();
            let mut found = Vec::new();
            for part in class.split("\\u").skip(1) {
                match part.strip_suffix('-') {
                    Some(from) => found.push(hex(from) | 1 << 31),
                    None => match found.pop_if(|before| *before >= 1 << 31) {
                        Some(from) => found.extend(from - (1 << 31)..=hex(part)),
                        None => found.push(hex(part)),
                    },
                }
            }
            found
        };
        let of = |rule: fn(char) -> bool| -> Vec<u32> {
            let plane = (0..=0xffff).filter_map(char::from_u32);
            let left_out = ['\u{2028}', '\u{2029}'];
            plane
                .filter(|c| rule(*c) && !left_out.contains(c))
                .map(u32::from)
                .collect()
        };
        assert_eq!(class(HIDDEN), of(is_hidden));
        assert_eq!(class(JOINING), of(|c| is_invisible(c) && !is_hidden(c)));
    }
}
