//! Parts of the document that no type or operation expresses, written by hand: the descriptions of groups of operations; the
//! paths of probes, of links, and of the ledger, which answers text and bytes; shared headers and refusals; what is sent to partners; and which operations
//! take an id that an answer holds. Tests check what is sent and answered against it.

use std::sync::LazyLock;

use bookguard_core::input::Json;

static WRITTEN: LazyLock<Json> = LazyLock::new(|| Json::parse(include_str!("written.json")));

/// A part of the written document.
pub(super) fn part(name: &str) -> &'static Json {
    WRITTEN.get(name).expect("a test makes the document")
}

/// The members of a part.
pub(super) fn members(name: &str) -> impl Iterator<Item = (String, Json)> {
    part(name).members().iter().cloned()
}

/// The links of an operation's success response.
pub(super) fn links(id: &str) -> Json {
    let rows = items(part("links").get(id));
    let links = rows.iter().flat_map(|row| {
        let said = |name| row.get(name).and_then(Json::as_str).unwrap_or_default();
        let value = format!("$response.body#{}", said("at"));
        let parameters = Json::object([(said("parameter"), value.as_str().into())]);
        let targets = items(row.get("to")).iter();
        targets.filter_map(Json::as_str).map(move |target| {
            let link = [
                ("operationId", target.into()),
                ("parameters", parameters.clone()),
            ];
            (target, Json::object(link))
        })
    });
    Json::object(links)
}

fn items(list: Option<&Json>) -> &[Json] {
    match list {
        Some(Json::Array(items)) => items,
        _ => &[],
    }
}
