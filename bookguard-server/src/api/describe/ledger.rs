//! The ledger's paths in the OpenAPI document: they answer text and bytes, so no operation describes them.

use serde_json::{Value, json};

use super::{LEDGER, answers};
use bookguard_core::input::Node;

/// What a tile's path looks like: level or `entries`, then the index in groups of three digits, then the width of a tile
/// that is not full.
const TILE: &str = r"^([0-9]|[1-5][0-9]|6[0-3]|entries)/(x[0-9]{3}/)*[0-9]{3}(\.p/[0-9]{1,3})?$";

const CHECKPOINT: &str = "bookguard-f45e2dee27c3fb10\n16\nYnPhGl+m1NNMrNmSUw6WqH4sKDC3MnG52RA/FvuL/80=\n\n\
    — bookguard-f45e2dee27c3fb10 3+3SlCKBQkPVlYvIQ8DJl6GDMQv9Qh9cpy8lSGOGn6RfDevMg7crAy1BpB24hPHvQ8tttnKM2QJvcpGiMqXJk0/D1Q0=\n";
const KEY: &str =
    "bookguard-f45e2dee27c3fb10+dfedd294+AYiAllPqImEqLyrV9LKDk1Xa3WTOqkfIfaI8WJG1gaqT";

struct Path {
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    description: &'static str,
    content_type: &'static str,
    schema: Value,
    example: Option<&'static str>,
    statuses: &'static [u16],
}

pub(super) fn paths() -> impl Iterator<Item = (String, Node)> {
    let rows = [
        Path {
            path: "/v1/ledger/checkpoint",
            id: "getLedgerCheckpoint",
            summary: "The latest signed checkpoint",
            description: "A C2SP signed note: the log's name, its size, its root hash, and the signature over them.",
            content_type: "text/plain",
            schema: json!({"type": "string"}),
            example: Some(CHECKPOINT),
            statuses: &[406, 500, 503],
        },
        Path {
            path: "/v1/ledger/key",
            id: "getLedgerKey",
            summary: "The key checkpoints verify under",
            description: "In note form: `<name>+<key id>+<base64>`.",
            content_type: "text/plain",
            schema: json!({"type": "string"}),
            example: Some(KEY),
            statuses: &[406, 500, 503],
        },
        Path {
            path: "/v1/ledger/tile/{path}",
            id: "getLedgerTile",
            summary: "A tile of the log",
            description: "As C2SP tlog-tiles lays them out: `<L>/<N>[.p/<W>]` for hashes, `entries/<N>[.p/<W>]` for the entries. The path \
                holds slashes, which may be sent as they are or as %2F.",
            content_type: "application/octet-stream",
            schema: json!({"type": "string", "contentMediaType": "application/octet-stream"}),
            example: None,
            statuses: &[404, 406, 500, 503],
        },
    ];
    rows.into_iter()
        .map(|row| (row.path.to_owned(), Node::object([("get", operation(row))])))
}

fn operation(row: Path) -> Node {
    let mut success = answers::answer("Done.", &["RequestId"], None);
    let mut body = json!({"schema": row.schema});
    if let Some(example) = row.example {
        body["example"] = example.into();
    }
    let content = Node::object([(row.content_type, body.into())]);
    success.set("content", content);
    let mut responses = vec![("200".to_owned(), success)];
    responses.extend(row.statuses.iter().copied().map(answers::shared));
    let mut operation = Node::object([
        ("operationId", row.id.into()),
        ("tags", Node::array([LEDGER])),
        ("summary", row.summary.into()),
        ("description", row.description.into()),
        ("security", Node::Array(Vec::new())),
    ]);
    if row.path.ends_with("{path}") {
        let path = json!({
            "name": "path",
            "in": "path",
            "required": true,
            "description": "Such as 0/000 or entries/000.p/7.",
            "schema": {"type": "string", "pattern": TILE},
        });
        operation.set("parameters", Node::array([path]));
    }
    operation.set("responses", Node::object(responses));
    operation
}
