//! The error codes that docs/reference/errors.md explains. Every refusal that a [`Caller`](crate::caller::Caller) gets is
//! checked against them, so that any test that meets an unexplained code finds it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

/// The statuses of each code, as written in the page's second column: `400, 403`, `exit 5`, or `–` for none.
pub static EXPLAINED: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/errors.md");
    let page = std::fs::read_to_string(page).expect("the page is in the repository");
    let mut codes = BTreeMap::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let mut cells = row.split(" | ");
        let (code, status) = (cells.next(), cells.next());
        let (code, status) = code.zip(status).expect("a row has a code and a status");
        let code = code.trim_end_matches('`').to_owned();
        assert_eq!(cells.count(), 2, "{code} has a meaning and a way out");
        let before = codes.insert(code.clone(), status.to_owned());
        assert_eq!(before, None, "{code} is explained twice");
    }
    codes
});

/// Asserts that the codes of a refusal are explained, with this status.
pub fn assert_explained(status: u16, body: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    if let Some(code) = body["code"].as_str() {
        let explained = EXPLAINED.get(code);
        let explained = explained.unwrap_or_else(|| panic!("no page explains {code} ({status})"));
        let mut statuses = explained.split(", ");
        assert!(
            statuses.any(|known| known == status.to_string()),
            "{code} is answered with {status}, and explained with {explained}"
        );
    }
    for detail in body["details"].as_array().into_iter().flatten() {
        let code = detail["code"].as_str().unwrap_or_default();
        assert!(EXPLAINED.contains_key(code), "no page explains {code}");
    }
}
