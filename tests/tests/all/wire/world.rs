//! The operations of the interface document, and a server with an object for each of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::Engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

/// One operation of the interface document.
pub(crate) struct Documented {
    pub(crate) id: String,
    pub(crate) method: String,
    /// Its path, with the query that it requires.
    pub(crate) path: String,
    pub(crate) statuses: BTreeSet<u16>,
    pub(crate) open: bool,
    /// An example of its body, if it has one.
    pub(crate) body: Option<Value>,
    pub(crate) body_required: bool,
}

pub(crate) fn documented() -> Vec<Documented> {
    let document: Value = serde_json::from_str(bookguard_server::openapi_json()).unwrap();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let statuses = operation["responses"].as_object().unwrap();
            operations.push(Documented {
                id: operation.text("operationId").to_owned(),
                method: method.to_uppercase(),
                path: format!("{path}{}", required(&document, operation)),
                statuses: statuses.keys().map(|code| code.parse().unwrap()).collect(),
                open: operation["security"] == json!([]),
                body: operation["requestBody"]
                    .pointer("/content/application~1json/example")
                    .cloned(),
                body_required: operation["requestBody"]["required"] == true,
            });
        }
    }
    operations
}

/// The bytes of every evidence item's file.
const FILE: &str = "what was agreed\n";
/// The query parameters that an operation requires, each with the first of its words.
fn required(document: &Value, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let required =
        parameters.filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
    let pairs = required.map(|parameter| {
        let words = parameter["schema"].text("$ref").trim_start_matches('#');
        let words = &document.pointer(words).unwrap()["enum"];
        format!("{}={}", parameter.text("name"), words[0].as_str().unwrap())
    });
    let pairs: Vec<String> = pairs.collect();
    match pairs.is_empty() {
        true => String::new(),
        false => format!("?{}", pairs.join("&")),
    }
}

/// A server with two partners, on which an object for any operation can be made.
pub(crate) struct World {
    pub(crate) server: TestServer,
    pub(crate) acme: Partner,
    pub(crate) other: Partner,
    /// The tables of the database. Every writer locks the head first, so it comes first where all are changed: then no other table is held
    /// while that waits.
    pub(crate) tables: Vec<String>,
    receiver: Receiver,
    /// Counter that makes names unique.
    numbers: AtomicUsize,
}

impl World {
    pub(crate) async fn new(engine: Engine) -> Self {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let receiver = Receiver::start().await;
        let mut tables = server.database().tables();
        tables.sort_by_key(|name| name != "head");
        assert!(tables.len() > 10);
        Self {
            server,
            tables,
            acme,
            other,
            receiver,
            numbers: AtomicUsize::new(0),
        }
    }

    /// Returns the path, with its parameter replaced by the id of a new object of `partner`'s.
    pub(crate) async fn path(&self, operation: &Documented, partner: &Partner) -> String {
        if operation.path.contains("{itemId}") {
            return self.file(operation, partner).await;
        }
        let Some((before, rest)) = operation.path.split_once('{') else {
            return operation.path.clone();
        };
        let (name, after) = rest.split_once('}').unwrap();
        let value = match name {
            "bookingId" => partner.book().await,
            "eventId" => self.failed_event(partner).await,
            "apiKeyId" => {
                let made = partner.post("/v1/api-keys", &json!({})).await;
                made.string("apiKeyId")
            }
            "consoleSessionId" => {
                let made = partner.post("/v1/console-links", &link()).await;
                made.string("consoleSessionId")
            }
            "policyId" => {
                let n = self.numbers.fetch_add(1, Ordering::Relaxed);
                let policy_id = format!("pol_{n:04}7e");
                partner.put_policy(&policy_id, &samples::policy(0)).await;
                policy_id
            }
            "resolutionId" => partner.leave_open().await,
            "endpointId" if operation.id == "rotateWebhookEndpointSecret" => {
                let n = self.numbers.fetch_add(1, Ordering::Relaxed);
                let body = json!({"url": format!("http://127.0.0.1:9/{n}"), "ownSecret": true});
                let made = partner.post("/v1/webhook-endpoints", &body).await;
                made.string("endpointId")
            }
            "endpointId" => {
                let n = self.numbers.fetch_add(1, Ordering::Relaxed);
                partner.endpoint(&format!("http://127.0.0.1:9/{n}")).await
            }
            "recoveryId" => {
                let body = json!({"since": "2020-01-01T00:00:00Z", "dryRun": true});
                let made = partner.post("/v1/webhook-events/recover", &body).await;
                made.string("recoveryId")
            }
            "path" => "entries/000.p/1".to_owned(),
            "token" => {
                let booking = partner.book().await;
                let shares = format!("/v1/bookings/{booking}/shares");
                let made = partner.post(&shares, &json!({})).await;
                made.string("url").rsplit_once("/s/").unwrap().1.to_owned()
            }
            _ => panic!("how is a {name} made?"),
        };
        let after = match after.contains("{shareId}") {
            true => after.replace("{shareId}", &share(partner, &value).await),
            false => after.to_owned(),
        };
        let after = match after.contains("{holdId}") {
            true => after.replace("{holdId}", &hold(partner, &value).await),
            false => after,
        };
        format!("{before}{value}{after}")
    }

    /// Returns the path of the file of a new evidence item, which is stored if the operation reads it.
    async fn file(&self, operation: &Documented, partner: &Partner) -> String {
        let booking = partner.book().await;
        let items = format!("/v1/bookings/{booking}/evidence/items");
        let item = partner.post(&items, &samples::item_with_file(FILE)).await;
        let path = format!("{items}/{}/file", item.string("itemId"));
        if operation.method == "GET" {
            let request = partner.request("PUT", &path).body(FILE);
            partner.send(request).await.ok(200);
        }
        path
    }

    /// Returns an event whose only delivery failed and waits for its next attempt.
    async fn failed_event(&self, partner: &Partner) -> String {
        self.receiver.answer(Answer::Status(500));
        let n = self.numbers.fetch_add(1, Ordering::Relaxed);
        let url = format!("{}?{n}", self.receiver.url());
        let endpoint = partner.endpoint(&url).await;
        let booking = partner.book().await;
        let event = bookguard_tests::waiting::until("a failed delivery", async || {
            let event = partner.events(&booking).await.remove(0);
            (event["status"] == "failed").then_some(event)
        });
        let event = event.await;
        self.receiver.answer(Answer::Status(200));
        // Tests of retries use Acme's events, so its endpoint stays: a delivery is retried only while its endpoint exists.
        if partner.id != self.acme.id {
            partner.delete_endpoint(&endpoint).await;
        }
        event.text("eventId").to_owned()
    }

    pub(crate) async fn forget_endpoints(&self) {
        for partner in [&self.acme, &self.other] {
            let list = partner.get("/v1/webhook-endpoints").await.ok(200);
            for endpoint in list.list("data") {
                let id = endpoint.text("endpointId");
                partner.delete_endpoint(id).await;
            }
        }
    }
}

/// Makes a share of a booking's evidence and returns its id.
async fn share(partner: &Partner, booking_id: &str) -> String {
    let path = format!("/v1/bookings/{booking_id}/shares");
    let made = partner.post(&path, &json!({})).await;
    made.string("shareId")
}

/// Places a hold on a booking and returns its id.
async fn hold(partner: &Partner, booking_id: &str) -> String {
    let path = format!("/v1/bookings/{booking_id}/holds");
    let made = partner.post(&path, &json!({"reason": "n"})).await;
    made.string("holdId")
}

/// Returns the body of a link to the console.
fn link() -> Value {
    json!({"person": "Ada"})
}

/// Returns the body that a request of this operation needs, if any.
fn body(operation: &Documented) -> Option<Value> {
    operation
        .body
        .as_ref()
        .map(|_| match operation.id.as_str() {
            "registerPartner" => samples::partner("New"),
            "createApiKey" => json!({"name": "n"}),
            "createConsoleLink" => link(),
            "createShare" => json!({"note": "n"}),
            "eraseValues" => json!({"party": "organizer", "legalBasis": "objection"}),
            "placeHold" => json!({"reason": "n"}),
            "createBooking" => samples::booking(),
            "updatePartner" => json!({"defaultPolicies": {"x": "firm"}}),
            "putPolicy" => samples::policy(0),
            "validatePolicy" => json!({}),
            "createWebhookEndpoint" => json!({"url": "http://127.0.0.1:9/"}),
            "rescheduleBooking" => samples::new_date(),
            "addEvidenceItem" => samples::item(),
            "cancelBooking" => samples::cancellation(),
            "decideResolution" => samples::decision(),
            "recoverWebhookEvents" => json!({"since": "2020-01-01T00:00:00Z"}),
            "updateWebhookEndpoint" => json!({"description": "another"}),
            "rotateApiKey" | "rotateWebhookEndpointSecret" | "rotatePartnerSecret" => {
                json!({"overlapSeconds": 60})
            }
            other => panic!("what is a body of {other}?"),
        })
}

/// Returns an acceptance of the booking's current text, or of an unknown text if the caller may not see the booking.
async fn acceptance(caller: &Caller, path: &str) -> Value {
    let disclosure = path.replace("/acceptances", "/disclosure");
    let disclosure = caller.get(disclosure.split('?').next().unwrap()).await;
    let hash = match disclosure.status {
        200 => disclosure.string("disclosureHash"),
        _ => format!("sha256:{}", "00".repeat(32)),
    };
    samples::acceptance(&hash)
}

pub(crate) async fn ask(
    caller: &Caller,
    operation: &Documented,
    path: &str,
    headers: &[(&str, &str)],
) -> Reply {
    let mut request = caller.request(&operation.method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = match operation.id.as_str() {
        "acceptTerms" => Some(acceptance(caller, path).await),
        _ => body(operation),
    };
    if operation.id == "putEvidenceItemFile" {
        request = request.body(FILE);
    }
    if let Some(body) = body {
        request = request
            .header("content-type", "application/json")
            .body(body.to_string());
    }
    caller.send(request).await
}

/// Returns the path with a value for each of its parameters.
pub(crate) fn fill(path: &str, value: impl Fn(&str) -> String) -> String {
    let parts = path.split('/').map(|part| {
        let name = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'));
        name.map_or_else(|| part.to_owned(), &value)
    });
    parts.collect::<Vec<_>>().join("/")
}
