//! Answers as they are. What the core can say by itself, it says; the rest is one booking's story, told by a server, with made-up
//! secrets and the longest answers cut: ids and digests that belong together, and proofs that hold, no type can make up. Each
//! stands once, by its type, or by its operation where that answers something else. Tests hold each against its schema and
//! its type; the examples of requests are their declarations'.

use std::sync::LazyLock;

use bookguard_core::features::policies::{PolicyCheck, templates};
use bookguard_core::input::Json;
use bookguard_core::operation::to_json;
use bookguard_core::policy::Policy;
use serde::Serialize;
use serde_json::json;

const EXAMPLES: &str = include_str!("examples.json");
static READ: LazyLock<Json> = LazyLock::new(|| Json::parse(EXAMPLES));

/// What an operation answers, whose type has this name.
pub(super) fn of(operation: &str, ty: &str) -> Option<Json> {
    let known = |name| READ.get(name).cloned();
    let item = || known(ty.strip_suffix("Page")?);
    match ty {
        "PolicyCheck" => checked(),
        "PolicyTemplatePage" => {
            let mut page = templates();
            page.data.truncate(1);
            Some(written(&page))
        }
        _ => known(operation)
            .or_else(|| known(ty))
            .or_else(|| item().map(page)),
    }
}

/// The check of the policy that is put in the story.
fn checked() -> Option<Json> {
    let put = READ.get("PolicyVersion")?.get("policy")?.to_string();
    let policy = Policy::from_json(&put).ok()?;
    PolicyCheck::of(policy.canonical_json().as_bytes())
        .ok()
        .as_ref()
        .map(written)
}

fn page(item: Json) -> Json {
    Json::object([
        ("data", Json::array([item])),
        ("hasMore", false.into()),
        ("nextCursor", json!(null).into()),
    ])
}

/// As an answer is written.
fn written<T: Serialize>(answer: &T) -> Json {
    Json::parse(&String::from_utf8_lossy(&to_json(answer)))
}
