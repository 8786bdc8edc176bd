//! How two versions of a policy differ: in English, and member by member.

use bookguard_core::input::Json;
use bookguard_core::policy::Policy;
use maud::{Markup, html};

use super::fields::{leaves, member, ordered};
use crate::console::parts::{records, with_amounts};

/// One of two versions.
pub(super) struct Side<'s> {
    name: String,
    english: &'s [String],
    policy: Json,
}

impl<'s> Side<'s> {
    pub(super) fn new(name: String, english: &'s [String], policy: &Policy) -> Self {
        Self {
            name,
            english,
            policy: json(policy),
        }
    }
}

/// A policy with every default written out, its members in their order.
pub(super) fn json(policy: &Policy) -> Json {
    let text = serde_json::to_string(policy).unwrap_or_default();
    let policy = serde_json::from_str(&text);
    ordered(&policy.unwrap_or(Json::Object(Vec::new())))
}

/// What happened to a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Removed,
    Added,
}

/// The sentences of both versions, each once if it stays. Of all ways to say the difference, one with the most that stay.
fn sentences<'s>(before: &'s [String], after: &'s [String]) -> Vec<(Fate, &'s str)> {
    // How many sentences two rests have in common, from their ends on.
    let mut common = vec![vec![0_usize; after.len() + 1]; before.len() + 1];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            common[i][j] = match before[i] == after[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < before.len() || j < after.len() {
        if i < before.len() && j < after.len() && before[i] == after[j] {
            found.push((Fate::Stays, before[i].as_str()));
            (i, j) = (i + 1, j + 1);
        } else if j == after.len() || (i < before.len() && common[i + 1][j] >= common[i][j + 1]) {
            found.push((Fate::Removed, before[i].as_str()));
            i += 1;
        } else {
            found.push((Fate::Added, after[j].as_str()));
            j += 1;
        }
    }
    found
}

/// The members that differ: pointer, before, after. The number of the version is not one of them.
fn members(before: &Json, after: &Json) -> Vec<(String, Option<String>, Option<String>)> {
    let mut pointers = leaves(before, &[], usize::MAX);
    let mut others = leaves(after, &[], usize::MAX);
    others.retain(|pointer| !pointers.contains(pointer));
    pointers.extend(others);
    let differ = pointers.into_iter().filter(|pointer| pointer != "/version");
    let differ = differ.map(|pointer| {
        let of = |policy| value(policy, &pointer);
        let (before, after) = (of(before), of(after));
        (pointer, before, after)
    });
    differ
        .filter(|(_, before, after)| before != after)
        .collect()
}

/// The text of the leaf at a pointer.
fn value(policy: &Json, pointer: &str) -> Option<String> {
    let found = member(policy, pointer)?;
    let is_leaf = match found {
        Json::Object(members) => members.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Leaf(_) => true,
    };
    is_leaf.then(|| found.to_string())
}

/// The difference as people read it.
pub(super) fn shown(before: &Side<'_>, after: &Side<'_>) -> Markup {
    let sentences = sentences(before.english, after.english);
    let members = members(&before.policy, &after.policy);
    if members.is_empty() {
        return html! { p { "They say the same." } };
    }
    let (before_name, after_name) = (&before.name, &after.name);
    let rows = members.iter().map(|(pointer, before, after)| html! {
        td { code { (pointer) } }
        td data-head={ (before_name) ":" } { @match before { Some(text) => code { (text) }, None => span.soft { "not there" } } }
        td data-head={ (after_name) ":" } { @match after { Some(text) => code { (text) }, None => span.soft { "not there" } } }
        td { @match (before, after) { (None, _) => "Added", (_, None) => "Removed", _ => "Changed" } }
    });
    html! {
        ul.changes {
            @for (fate, sentence) in &sentences {
                @match fate {
                    Fate::Removed => li { span.badge.bad { "− Removed" } " " del { (with_amounts(sentence)) } },
                    Fate::Added => li { span.badge.good { "+ Added" } " " ins { (with_amounts(sentence)) } },
                    Fate::Stays => li.soft { (with_amounts(sentence)) },
                }
            }
        }
        h3 { "Members" }
        (records("Members that differ", &["Member", before_name, after_name, "Change"], rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_that_stay_are_told_once_and_in_order() {
        let list = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        for (before, after, expected) in [
            ("a b c", "a b c", "a b c"),
            ("a b c", "a x c", "a -b +x c"),
            ("a b", "b a", "-a b +a"),
            ("", "a b", "+a +b"),
            ("a b", "", "-a -b"),
            ("a a b", "a b", "-a a b"),
            ("", "", ""),
        ] {
            let (before, after) = (list(before), list(after));
            let told = sentences(&before, &after)
                .into_iter()
                .map(|(fate, text)| match fate {
                    Fate::Stays => text.to_owned(),
                    Fate::Removed => format!("-{text}"),
                    Fate::Added => format!("+{text}"),
                });
            let told: Vec<_> = told.collect();
            // Any shortest way will do; what stays is in both.
            let kept: Vec<_> = told
                .iter()
                .filter(|text| !text.starts_with(['-', '+']))
                .collect();
            let expected = list(expected);
            let stay = expected.iter().filter(|text| !text.starts_with(['-', '+']));
            assert_eq!(kept.len(), stay.count(), "{told:?}");
            let old: Vec<_> = told
                .iter()
                .filter(|text| !text.starts_with('+'))
                .map(|text| text.trim_start_matches('-'))
                .collect();
            let new: Vec<_> = told
                .iter()
                .filter(|text| !text.starts_with('-'))
                .map(|text| text.trim_start_matches('+'))
                .collect();
            assert_eq!(
                (old, new),
                (
                    before.iter().map(String::as_str).collect(),
                    after.iter().map(String::as_str).collect()
                )
            );
        }
    }

    #[test]
    fn members_are_added_removed_and_changed() {
        let json = |text: &str| serde_json::from_str::<Json>(text).unwrap();
        let before = json(r#"{"version": 1, "a": {"b": 1, "c": [{"d": "x"}]}, "e": []}"#);
        let after =
            json(r#"{"version": 2, "a": {"b": 2, "c": [{"d": "x"}, {"d": "y"}]}, "e": [1]}"#);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            members(&before, &after),
            [
                ("/a/b".to_owned(), text("1"), text("2")),
                ("/e".to_owned(), text("[]"), None),
                ("/a/c/1/d".to_owned(), None, text("\"y\"")),
                ("/e/0".to_owned(), None, text("1")),
            ]
        );
        assert_eq!(members(&before, &before), []);
    }
}
