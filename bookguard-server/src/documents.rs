//! Everything that is served besides operations.
//!
//! | module | what |
//! |---|---|
//! | `start`, `links` | `/`, and the list of everything else |
//! | `llms`, `rules` | what a language model needs to know |
//! | `card`, `catalog`, `security` | discovery documents under `/.well-known/` |
//! | `swagger` | `/docs` |
//! | `verify` | `/verify`, where a packet is checked in the browser |
//! | `share` | `/s/…`, a booking's evidence for whoever has a link to it |
//! | `ledger` | the ledger for mirrors |
//! | `document` | headers and caching of a document |
//!
//! The interface document is generated from the table of operations once per process. Invariant: at the root of a host,
//! `/openapi.json`, `/api/openapi.json` and `bookguard openapi` give the same bytes, and on the operator's listener
//! `/openapi.json` and `bookguard openapi --operator`.

mod card;
mod catalog;
mod document;
mod ledger;
mod links;
mod llms;
mod rules;
mod security;
mod share;
mod start;
mod swagger;
mod verify;

use std::sync::Arc;

use bookguard_core::policy;
use poem::endpoint::BoxEndpoint;
use poem::http::Method;

use crate::api;
use crate::app::App;
use crate::config::security::SecurityTxt;
use crate::media;
use crate::router::Routes;
use document::{ServedDocument, fixed, on_demand, preflight};
use start::Extra;

/// What the service is, in one sentence.
const SUMMARY: &str = "Evidence and protection for bookings: record a booking, lock it into a tamper-evident ledger, receive signed \
    webhooks, and know what a cancellation would mean.";

/// The icon, an SVG. Browsers request `/favicon.ico` by themselves, and most accept SVG there.
const ICON: &str = include_str!("documents/pages/icon.svg");
const START_STYLE: &str = include_str!("documents/pages/start.css");

/// The document that describes the app's interface.
fn interface(app: &Arc<App>) -> BoxEndpoint<'static> {
    let app = Arc::clone(app);
    on_demand(move || ServedDocument::new(media::JSON, api::served_openapi(&app)))
}

/// Adds the paths of the operator interface that are not operations.
pub(crate) fn add_operator_routes(app: &Arc<App>, routes: &mut Routes) {
    let mut get = |path: &str, endpoint| {
        let methods = routes.entry(path.to_owned()).or_default();
        methods.insert(Method::GET, endpoint)
    };
    get("/openapi.json", interface(app));
    get("/favicon.ico", fixed(media::SVG, ICON));
    ledger::add_routes(app, &mut get);
}

/// Adds every path that is not an operation.
///
/// `console` is the console's path, if there is one.
pub(crate) fn add_routes(
    app: &Arc<App>,
    console: Option<&'static str>,
    security: Option<&SecurityTxt>,
    routes: &mut Routes,
) {
    let mut add = |method: Method, path: &str, endpoint: BoxEndpoint<'static>| {
        routes
            .entry(path.to_owned())
            .or_default()
            .insert(method, endpoint)
    };
    let service = Arc::clone(&app.service);
    let base = service.public_url().to_owned();
    for path in card::PATHS.into_iter().chain([card::CATALOG_PATH]) {
        add(Method::OPTIONS, path, preflight());
    }
    let mut get = |path: &str, endpoint| add(Method::GET, path, endpoint);
    for path in ["/openapi.json", "/api/openapi.json"] {
        get(path, interface(app));
    }
    let schema = fixed("application/schema+json", policy::SCHEMA);
    get("/policy.schema.json", schema);
    for (path, write) in [
        ("/llms.txt", llms::short as llms::Write),
        ("/llms-full.txt", llms::full),
    ] {
        let service = Arc::clone(&app.service);
        let text = move || {
            write(
                &api::table(),
                service.public_url(),
                service.config().registration,
            )
        };
        get(
            path,
            on_demand(move || ServedDocument::new(media::TEXT, text())),
        );
    }
    for path in card::PATHS {
        let base = base.clone();
        get(path, on_demand(move || card::card(&base)));
    }
    let (own, linked) = (base.clone(), base.clone());
    get(card::CATALOG_PATH, on_demand(move || card::catalog(&own)));
    get(catalog::PATH, on_demand(move || catalog::catalog(&linked)));
    let mut extras = Vec::new();
    if let Some(path) = console {
        extras.push(Extra {
            name: "console",
            path,
            title: "Console",
            note: "bookings, deliveries and keys for people",
            is_first: true,
        });
    }
    if let Some(said) = security {
        get(security::PATH, security::endpoint(&service, said.clone()));
        extras.push(Extra {
            name: "security",
            path: security::PATH,
            title: "security.txt",
            note: "whom to tell about a vulnerability",
            is_first: false,
        });
    }
    get("/", start::endpoint(&base, &extras));
    get("/start.css", fixed(swagger::CSS_TYPE, START_STYLE));
    get("/favicon.ico", fixed(media::SVG, ICON));
    for (path, endpoint) in swagger::endpoints().into_iter().chain(verify::endpoints()) {
        get(path, endpoint);
    }
    ledger::add_routes(app, &mut get);
    for method in [Method::GET, Method::POST] {
        add(method, share::PATH, share::endpoint(app));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use crate::api::{openapi, openapi_json, operator_openapi_json};

    fn operations(document: &Value) -> Vec<(String, String, Value)> {
        let paths = document["paths"].as_object().unwrap();
        let all = paths.iter().flat_map(|(path, methods)| {
            methods
                .as_object()
                .unwrap()
                .iter()
                .map(move |(method, op)| (path.clone(), method.clone(), op.clone()))
        });
        all.collect()
    }

    #[test]
    fn the_checked_in_document_is_the_one_served() {
        for (name, document) in [
            ("openapi.json", openapi_json()),
            ("operator.json", operator_openapi_json()),
        ] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openapi");
            let path = path.join(name);
            if std::env::var_os("BOOKGUARD_UPDATE").is_some() {
                std::fs::write(&path, document).unwrap();
            }
            let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                checked_in == document,
                "openapi/{name} is out of date; run this test with BOOKGUARD_UPDATE=1"
            );
        }
    }

    #[test]
    fn the_document_names_every_operation_of_the_specification() {
        let document = openapi();
        assert_eq!(document["info"]["version"], "0.1.0");
        for (method, path) in [
            ("get", "/v1/health"),
            ("post", "/v1/partners/register"),
            ("post", "/v1/api-keys"),
            ("post", "/v1/bookings"),
            ("get", "/v1/bookings/{bookingId}"),
            ("post", "/v1/bookings/{bookingId}/protect"),
            ("get", "/v1/bookings/{bookingId}/webhook-events"),
            ("post", "/v1/webhook-events/{eventId}/retry"),
            ("get", "/v1/bookings/{bookingId}/policy-evaluation"),
        ] {
            assert!(
                document["paths"][path][method].is_object(),
                "{method} {path}"
            );
        }
    }

    #[test]
    fn every_refusal_has_its_schema_and_every_closed_route_its_security() {
        #[rustfmt::skip]
        let open = [
            "getHealth", "getLiveness", "getReadiness", "registerPartner", "getLedgerCheckpoint",
            "getCosignedCheckpoint", "getLedgerKey", "getLedgerTile", "getSharedEvidence",
            "openSharedEvidence",
        ];
        let document = openapi();
        for (path, method, operation) in operations(document) {
            let id = operation["operationId"].as_str().unwrap();
            assert_eq!(
                operation["security"].as_array().unwrap().is_empty(),
                open.contains(&id),
                "{method} {path}"
            );
            assert_eq!(
                operation["responses"]["401"].is_object(),
                !open.contains(&id),
                "{method} {path}"
            );
            for (status, response) in operation["responses"].as_object().unwrap() {
                let response = match response["$ref"].as_str() {
                    Some(name) => document.pointer(&name[1..]).unwrap(),
                    None => response,
                };
                let content = response["content"].as_object();
                assert!(
                    content.is_none_or(|types| types.keys().all(|name| !name.contains(';'))),
                    "{path} {status}"
                );
                let schema = &response["content"]["application/json"]["schema"]["$ref"];
                match status.as_str() {
                    "401" => assert_eq!(schema, "#/components/schemas/Unauthorized"),
                    refusal if refusal >= "400" => {
                        assert_eq!(schema, "#/components/schemas/Error", "{path} {status}")
                    }
                    _ => {}
                }
            }
        }
    }
}
