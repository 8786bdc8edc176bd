//! The library of ready-made policies, and the default policy for each event type.
//!
//! Invariant: every template is read by the same rules as a partner's own policy, and only once per process.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::document::Policy;

/// The event type that stands for all others in a list of defaults.
pub const EVERY_EVENT_TYPE: &str = "*";

/// The lower case of "İ" is an "i" with this dot above, which is a character of its own and no letter.
pub(super) const DOT_ABOVE: char = '\u{307}';

const LIBRARY_JSON: &str = include_str!("templates.json");

struct Library {
    policies: Vec<Policy>,
    /// The normalised documents of the same policies.
    documents: Vec<Value>,
    /// Normalised event type → index of its default.
    by_event_type: HashMap<String, usize>,
    /// The default of every other event type.
    fallback: usize,
}

static LIBRARY: LazyLock<Library> =
    LazyLock::new(|| read(LIBRARY_JSON).expect("a test reads the embedded library"));

fn read(text: &str) -> Option<Library> {
    let json: Value = serde_json::from_str(text).ok()?;
    let policies: Vec<Policy> = json["templates"]
        .as_array()?
        .iter()
        .map(|template| Policy::from_json(&template.to_string()).ok())
        .collect::<Option<_>>()?;
    for policy in &policies {
        // Hash and canonical text are computed here, not by the first booking.
        policy.hash();
    }
    let position = |id: &str| policies.iter().position(|p| p.document().policy_id == id);
    let mut by_event_type = HashMap::new();
    for (event_type, id) in json["defaultByEventType"].as_object()? {
        by_event_type.insert(event_type.clone(), position(id.as_str()?)?);
    }
    let fallback = by_event_type.remove(EVERY_EVENT_TYPE)?;
    let documents: Vec<Value> = policies
        .iter()
        .map(|policy| serde_json::from_str(policy.canonical_json()).ok())
        .collect::<Option<_>>()?;
    Some(Library {
        policies,
        documents,
        by_event_type,
        fallback,
    })
}

impl Policy {
    /// The library's template with this id.
    pub fn template(id: &str) -> Option<&'static Policy> {
        Self::templates()
            .iter()
            .find(|policy| policy.document().policy_id == id)
    }

    /// All templates.
    pub fn templates() -> &'static [Policy] {
        &LIBRARY.policies
    }

    /// The ids of all templates.
    pub fn template_ids() -> impl Iterator<Item = &'static str> {
        Self::templates()
            .iter()
            .map(|policy| policy.document().policy_id.as_str())
    }

    /// The event types for which a template is the library's default, in order; `*` stands for all others.
    pub fn template_event_types(id: &str) -> Vec<&'static str> {
        let library = &*LIBRARY;
        let is = |index: usize| library.policies[index].document().policy_id == id;
        let own = library.by_event_type.iter();
        let own = own.filter(|(_, index)| is(**index));
        let mut types: Vec<&str> = (own.map(|(event_type, _)| event_type.as_str()))
            .chain(is(library.fallback).then_some(EVERY_EVENT_TYPE))
            .collect();
        types.sort_unstable();
        types
    }

    /// The library's default for a free-text event type: case does not matter, nor what parts its words; `firm` for unknown types.
    pub fn template_for_event_type(event_type: &str) -> &'static Policy {
        let library = &*LIBRARY;
        let index = library.by_event_type.get(&normalise_event_type(event_type));
        &library.policies[*index.unwrap_or(&library.fallback)]
    }
}

/// The template equal to this normalised document, if there is one. Most stored terms hold a template; this saves reading
/// and hashing it each time.
pub(super) fn known(document: &Value) -> Option<&'static Policy> {
    let library = &*LIBRARY;
    let index = library.documents.iter().position(|own| own == document)?;
    library.policies.get(index)
}

/// Lower case, with each run of other characters than letters and digits as one underscore: "Live Music" equals "live-music".
/// What it returns stays the same when it is normalised again.
pub fn normalise_event_type(event_type: &str) -> String {
    let mut out = String::with_capacity(event_type.len());
    for c in event_type.chars() {
        if c.is_alphanumeric() || (c == DOT_ABOVE && out.ends_with('i')) {
            out.extend(c.to_lowercase());
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
    }
    if out.ends_with('_') {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_library_is_whole() {
        assert_eq!(read(LIBRARY_JSON).unwrap().policies.len(), 15);
        assert_eq!(
            Policy::template("talent_standard").unwrap().hash(),
            "sha256:c02339898157dc71afce7ae00b5fa44a325c0e20bf1d1e0e854605ff4dd47dce"
        );
        assert!(Policy::template_ids().any(|id| id == "case_by_case"));
        assert_eq!(Policy::template("nope"), None);
        for policy in Policy::templates() {
            let again = Policy::from_json(policy.canonical_json()).unwrap();
            assert_eq!(again.hash(), policy.hash(), "normalising is idempotent");
            let mut document = serde_json::to_value(policy).unwrap();
            assert_eq!(known(&document), Some(policy));
            document["version"] = 2.into();
            assert_eq!(known(&document), None);
        }
    }

    #[test]
    fn an_event_type_is_kept_as_it_was_normalised_first() {
        for c in char::MIN..=char::MAX {
            let once = normalise_event_type(&format!("{c}i{c}"));
            assert_eq!(normalise_event_type(&once), once, "{c:?}");
        }
        // Written as one character or as two, and as databases hold it.
        for spelling in ["İmza günü", "I\u{307}MZA-GÜNÜ", "i\u{307}mza_günü"] {
            assert_eq!(normalise_event_type(spelling), "i\u{307}mza_günü");
        }
    }

    #[test]
    fn an_event_type_finds_its_default_however_it_is_spelled() {
        for (event_type, id) in [
            ("concert", "talent_standard"),
            ("  Live  Music ", "talent_standard"),
            ("PHOTO-session", "appointment"),
            ("photosession", "firm"),
            ("venue hire", "venue_hire"),
            ("restaurant", "restaurant_table"),
            ("*", "firm"),
            ("", "firm"),
            ("bar mitzvah", "firm"),
        ] {
            assert_eq!(
                Policy::template_for_event_type(event_type)
                    .document()
                    .policy_id,
                id,
                "{event_type}"
            );
        }
    }
}
