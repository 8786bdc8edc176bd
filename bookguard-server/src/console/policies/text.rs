//! A policy's text, as people write it.

use bookguard_core::input::Json;
use serde_json::Value;

/// Writes a policy as indented JSON; a short value is written on one line.
pub(super) fn text(policy: &Json) -> String {
    let mut out = String::new();
    write(policy, 0, &mut out);
    out
}

fn write(value: &Json, depth: usize, out: &mut String) {
    const SHORT: usize = 60;
    let one_line = value.to_string();
    let (open, close, items): (_, _, Vec<(Option<&str>, &Json)>) = match value {
        Json::Object(members) => {
            let named = members
                .iter()
                .map(|(name, value)| (Some(name.as_str()), value));
            ('{', '}', named.collect())
        }
        Json::Array(items) => ('[', ']', items.iter().map(|value| (None, value)).collect()),
        Json::Leaf(_) => ('"', '"', Vec::new()),
    };
    if items.is_empty() || (depth > 0 && one_line.len() <= SHORT) {
        out.push_str(&one_line);
        return;
    }
    out.push(open);
    for (place, (name, value)) in items.into_iter().enumerate() {
        out.push_str(if place == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        if let Some(name) = name {
            out.push_str(&format!("{}: ", Value::from(name)));
        }
        write(value, depth + 1, out);
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
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
