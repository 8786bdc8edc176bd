//! Texts cut to the limits of a form: each to its own, and all together to another.

use std::collections::BTreeMap;

/// What ends a text that was cut.
const NOTE: &str = "\n[Cut here to fit this form; the evidence packet holds the whole text.]";

/// The texts by name, and the names of those that were cut. The first ones are the most important: if all together are too
/// long, the last ones give way. Empty texts are left out.
pub(super) fn fit(
    texts: impl IntoIterator<Item = (&'static str, String)>,
    each: usize,
    all: usize,
) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut fitting, mut shortened, mut room) = (BTreeMap::new(), Vec::new(), all);
    for (name, text) in texts {
        let most = each.min(room);
        let length = text.chars().count();
        let text = if length > most {
            shortened.push(name.to_owned());
            cut(&text, most)
        } else {
            text
        };
        room -= text.chars().count();
        if !text.is_empty() {
            fitting.insert(name.to_owned(), text);
        }
    }
    (fitting, shortened)
}

/// The beginning of a text, up to the end of a line or sentence, and the note that it was cut; at most `most` characters.
/// Empty if not even the note fits.
fn cut(text: &str, most: usize) -> String {
    let Some(room) = most.checked_sub(NOTE.chars().count()) else {
        return String::new();
    };
    let beginning: String = text.chars().take(room).collect();
    let line = beginning.rfind('\n');
    let sentence = beginning.rfind(". ").map(|at| at + 1);
    let end = line.max(sentence).unwrap_or(beginning.len());
    format!("{}{NOTE}", beginning[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_cut_at_a_sentence_or_a_line_and_says_so() {
        let each = 100;
        let long = |begin: &str| format!("{begin}{}", "x".repeat(200));
        for (text, kept) in [
            (long("One. Two. "), "One. Two."),
            (long("One.\nTwo"), "One."),
            (long("One. Two\n"), "One. Two"),
            (long(""), &"x".repeat(each - NOTE.chars().count())),
            (long("É. "), "É."),
        ] {
            let (fitting, shortened) = fit([("a", text)], each, 1000);
            assert_eq!(fitting["a"], format!("{kept}{NOTE}"));
            assert_eq!(shortened, ["a"]);
        }
        let exact = "x".repeat(each);
        let (fitting, shortened) = fit([("a", exact.clone()), ("b", String::new())], each, each);
        assert_eq!(
            (fitting, shortened),
            (BTreeMap::from([("a".to_owned(), exact)]), vec![])
        );
    }

    proptest! {
        #[test]
        fn no_text_exceeds_its_limit_and_all_together_theirs(
            texts in proptest::collection::vec("([a-zé]{0,9}[. \n]?){0,60}", 0..7), each in 0usize..300, all in 0usize..900,
        ) {
            const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
            let named = NAMES.into_iter().zip(texts.clone());
            let (fitting, shortened) = fit(named.clone(), each, all);
            let length = |text: &String| text.chars().count();
            prop_assert!(fitting.values().all(|text| length(text) <= each));
            prop_assert!(fitting.values().map(length).sum::<usize>() <= all);
            for (name, text) in named {
                match fitting.get(name) {
                    _ if shortened.iter().any(|cut| cut == name) => {
                        let kept = fitting.get(name).map(|cut| cut.strip_suffix(NOTE).unwrap());
                        prop_assert!(text.starts_with(kept.unwrap_or_default()));
                    }
                    Some(kept) => prop_assert_eq!(kept, &text),
                    None => prop_assert!(text.is_empty()),
                }
            }
        }
    }
}
