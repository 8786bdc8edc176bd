//! A policy's text, as people write it.

use bookguard_core::input::Json;

use crate::api::describe::layout::Layout;

const SHORT: usize = 60;
const LAYOUT: Layout = Layout {
    indent: 2,
    fits: |depth, _, line| depth > 0 && line.len() <= SHORT,
};

/// Writes a policy as indented JSON; a short value is written on one line.
pub(super) fn text(policy: &Json) -> String {
    LAYOUT.text(policy)
}

#[cfg(test)]
mod tests {
    use bookguard_core::policy::Policy;

    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_text_is_read_as_the_policy_that_it_shows() {
        for template in Policy::templates() {
            let policy = json(template.canonical_json());
            let written = text(&policy);
            assert_eq!(json(&written), policy);
            assert!(written.lines().all(|line| line.len() < 120), "{written}");
        }
        let policy = json(r#"{"b": [], "a": {"c": [{"x": 1}], "d": 0.5}}"#);
        assert_eq!(
            text(&policy),
            "{\n  \"b\": [],\n  \"a\": { \"c\": [{ \"x\": 1 }], \"d\": 0.5 }\n}"
        );
    }
}
