//! The ledger's paths in the OpenAPI document: they answer text and bytes, so no operation describes them.

use poem::http;
use poem_openapi::registry::{
    MetaMediaType, MetaOperation, MetaOperationParam, MetaParamIn, MetaPath, MetaResponse,
    MetaResponses, MetaSchema, MetaSchemaRef,
};
use poem_openapi::types::Type as _;

use super::{JSON, LEDGER, header, parameter, refusal_text};
use crate::refusal::Refused;

pub(super) fn paths() -> Vec<MetaPath> {
    let text = || MetaSchema::new("string");
    let bytes = || MetaSchema::new_with_format("string", "binary");
    let rows = [
        (
            "/v1/ledger/checkpoint",
            "getLedgerCheckpoint",
            "The latest signed checkpoint",
            "text/plain",
            text(),
            "A C2SP signed note: the log's name, its size, its root hash, and the signature over them.",
        ),
        (
            "/v1/ledger/key",
            "getLedgerKey",
            "The key checkpoints verify under",
            "text/plain",
            text(),
            "In note form: `<name>+<key id>+<base64>`.",
        ),
        (
            "/v1/ledger/tile/{path}",
            "getLedgerTile",
            "A tile of the log",
            "application/octet-stream",
            bytes(),
            "As C2SP tlog-tiles lays them out: `<L>/<N>[.p/<W>]` for hashes, `entries/<N>[.p/<W>]` for the entries. The path holds slashes.",
        ),
    ];
    rows.into_iter()
        .map(|(path, id, summary, content_type, schema, description)| {
            let params = if path.ends_with("{path}") {
                vec![parameter(
                    "path",
                    MetaParamIn::Path,
                    "Such as 0/000 or entries/000.p/7.",
                    MetaSchema::new("string"),
                )]
            } else {
                Vec::new()
            };
            let operation = operation(id, summary, description, params, content_type, schema);
            MetaPath {
                path: path.to_owned(),
                operations: vec![operation],
            }
        })
        .collect()
}

fn operation(
    id: &'static str,
    summary: &'static str,
    description: &'static str,
    params: Vec<MetaOperationParam>,
    content_type: &'static str,
    schema: MetaSchema,
) -> MetaOperation {
    let id_header = || {
        vec![header(
            "x-request-id",
            "Names this request in the service's log.",
        )]
    };
    let success = MetaResponse {
        description: "Done.",
        status: Some(200),
        status_range: None,
        content: vec![MetaMediaType {
            content_type,
            schema: MetaSchemaRef::Inline(Box::new(schema)),
        }],
        headers: id_header(),
    };
    let statuses: &[u16] = if params.is_empty() {
        &[500, 503]
    } else {
        &[404, 500, 503]
    };
    let refusals = statuses.iter().map(|status| MetaResponse {
        description: if *status == 404 {
            "The log has no such tile, or not yet."
        } else {
            refusal_text(*status)
        },
        status: Some(*status),
        status_range: None,
        content: vec![MetaMediaType {
            content_type: JSON,
            schema: Refused::schema_ref(),
        }],
        headers: id_header(),
    });
    MetaOperation {
        method: http::Method::GET,
        tags: vec![LEDGER],
        summary: Some(summary),
        description: Some(description),
        external_docs: None,
        params,
        request: None,
        responses: MetaResponses {
            responses: std::iter::once(success).chain(refusals).collect(),
        },
        deprecated: false,
        security: Vec::new(),
        operation_id: Some(id),
        code_samples: Vec::new(),
    }
}
