//! Examples of answers. The core generates those it can. The rest record one booking's story as a server told it, because no
//! type can make up ids and digests that belong together or proofs that hold; the secrets are made up and the longest answers
//! are shortened. Each is stored once, under its type, or under its operation if that answers something else. Tests check each
//! against its schema and its type. Examples of requests come from their declarations.

use std::sync::LazyLock;

use bookguard_core::features::policies::{PolicyCheck, templates};
use bookguard_core::input::Json;
use bookguard_core::operation::to_json;
use bookguard_core::policy::Policy;
use serde::Serialize;
use serde_json::json;

const EXAMPLES: &str = include_str!("examples.json");
static READ: LazyLock<Json> = LazyLock::new(|| Json::parse(EXAMPLES));

/// The example answer of an operation whose answer's type is `ty`.
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

/// The check of the story's policy.
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

/// Writes an answer as the server does.
fn written<T: Serialize>(answer: &T) -> Json {
    Json::parse(&String::from_utf8_lossy(&to_json(answer)))
}
