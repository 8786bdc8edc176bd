//! The audit: exactly one record of what changed something, none of what did not, and nothing secret in any.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use bookguard_core::clock::Clock;
use bookguard_core::limits::{CHANGES_PER_DAY, DAY_MS, POLICIES_UNTIL};
use bookguard_core::model::COUNTED;
use bookguard_core::service::RegistrationMode;
use bookguard_server::config::Config;
use bookguard_tests::caller::Caller;
use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::json::{Members as _, only};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

/// Writing operations that leave no record, whoever calls, and why.
const UNRECORDED: [(&str, &str); 2] = [
    ("validatePolicy", "it only checks"),
    ("testWebhookEndpoint", "it only sends"),
];

/// Those that a partner's own calls leave a record of.
const OF_PARTNERS: [&str; 19] = [
    "createShare",
    "revokeShare",
    "eraseValues",
    "deleteEvidenceItemFile",
    "placeHold",
    "releaseHold",
    "registerPartner",
    "updatePartner",
    "createApiKey",
    "rotateApiKey",
    "revokeApiKey",
    "createConsoleLink",
    "endConsoleSession",
    "putPolicy",
    "createWebhookEndpoint",
    "updateWebhookEndpoint",
    "rotateWebhookEndpointSecret",
    "rotatePartnerSecret",
    "deleteWebhookEndpoint",
];

const FILE: &str = "what was agreed\n";

/// A caller that performs operations, and the ids that it met.
struct Actor<'d> {
    database: &'d TestDatabase,
    caller: Caller,
    acting_for: Option<String>,
    ids: BTreeMap<String, String>,
    done: BTreeSet<String>,
    /// How many records there were when it last looked.
    recorded: usize,
}

fn records(database: &TestDatabase) -> usize {
    database.count("SELECT COUNT(*) FROM audit")
}

/// The method and path of each operation of the operator interface that may write.
fn writing() -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    let document = bookguard_server::operator_openapi();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if method != "get" {
                let place = (method.to_uppercase(), path.clone());
                found.insert(operation.text("operationId").to_owned(), place);
            }
        }
    }
    found
}

impl<'d> Actor<'d> {
    fn new(database: &'d TestDatabase, caller: Caller) -> Self {
        Self {
            database,
            caller,
            acting_for: None,
            ids: BTreeMap::new(),
            done: BTreeSet::new(),
            recorded: records(database),
        }
    }

    /// Performs an operation, whose path is filled with the ids met before.
    async fn perform(&mut self, id: &str, body: Value) -> Value {
        let (method, path) = writing()
            .remove(id)
            .unwrap_or_else(|| panic!("no operation {id}"));
        let path = path.split('/').map(|part| {
            let name = part
                .strip_prefix('{')
                .and_then(|part| part.strip_suffix('}'));
            name.map_or(part, |name| &*self.ids[name])
        });
        let path = path.collect::<Vec<_>>().join("/");
        let mut request = self.caller.request(&method, &path);
        if let Some(partner_id) = &self.acting_for {
            request = request.header("x-partner-id", partner_id);
        }
        let request = match &body {
            Value::Null => request,
            Value::String(file) => {
                let request = request.header("content-type", "application/octet-stream");
                request.body(file.clone())
            }
            body => {
                let request = request.header("content-type", "application/json");
                request.body(body.to_string())
            }
        };
        let reply = self.caller.send(request).await;
        assert!(reply.status < 300, "{id}: {}", reply.text());
        let answer = reply.json();
        for (name, value) in answer.as_object().unwrap() {
            if let Some(value) = value.as_str().filter(|_| name.ends_with("Id")) {
                self.ids.insert(name.clone(), value.to_owned());
            }
        }
        self.done.insert(id.to_owned());
        answer
    }

    /// Performs an operation that leaves this many records.
    async fn records(&mut self, expected: usize, id: &str, body: Value) -> Value {
        let answer = self.perform(id, body).await;
        self.recorded += expected;
        assert_eq!(records(self.database), self.recorded, "{id}");
        answer
    }

    /// Everything that a partner can do, with settings that are not as they were.
    async fn everything(&mut self, zone: &str, late: u32, expected: impl Fn(&str) -> usize) {
        self.ids.insert("policyId".to_owned(), "house".to_owned());
        let endpoint = json!({"url": "http://127.0.0.1:9/", "ownSecret": true});
        let mut link = json!({"person": "Ada"});
        if self.acting_for.is_some() {
            link["apiKeyId"] = json!(self.ids["apiKeyId"]);
        }
        for (id, body) in [
            ("updatePartner", json!({"timeZone": zone})),
            ("createConsoleLink", link),
            ("endConsoleSession", Value::Null),
            ("createApiKey", json!({"name": "spare"})),
            ("rotateApiKey", Value::Null),
            ("revokeApiKey", Value::Null),
            ("putPolicy", samples::policy(late)),
            ("validatePolicy", samples::policy(late)),
            ("createWebhookEndpoint", endpoint),
            ("updateWebhookEndpoint", json!({"description": "none"})),
            ("testWebhookEndpoint", Value::Null),
            ("rotateWebhookEndpointSecret", Value::Null),
            ("rotatePartnerSecret", Value::Null),
            ("createBooking", samples::booking()),
        ] {
            self.records(expected(id), id, body).await;
        }
        let booking = format!("/v1/bookings/{}", self.ids["bookingId"]);
        let disclosure = self.caller.get(&format!("{booking}/disclosure")).await;
        let disclosure = disclosure.ok(200);
        let hash = disclosure.text("disclosureHash").to_owned();
        let events = self.caller.get(&format!("{booking}/webhook-events")).await;
        let events = events.ok(200);
        let event_id = events.list("webhookEvents")[0].text("eventId").to_owned();
        self.ids.insert("eventId".to_owned(), event_id);
        for (id, body) in [
            ("acceptTerms", samples::acceptance(&hash)),
            ("addEvidenceItem", samples::item_with_file(FILE)),
            ("putEvidenceItemFile", json!(FILE)),
            ("deleteEvidenceItemFile", Value::Null),
            ("createShare", json!({})),
            ("revokeShare", Value::Null),
            ("protectBooking", Value::Null),
            ("rescheduleBooking", samples::new_date()),
            ("cancelBooking", samples::open_cancellation()),
            ("decideResolution", samples::decision()),
            ("retryWebhookEvent", Value::Null),
            (
                "recoverWebhookEvents",
                json!({"since": "2026-09-21T00:00:00Z"}),
            ),
            ("placeHold", json!({"reason": "Chargeback"})),
            ("releaseHold", Value::Null),
            (
                "eraseValues",
                json!({"party": "organizer", "legalBasis": "objection"}),
            ),
            ("deleteWebhookEndpoint", Value::Null),
        ] {
            self.records(expected(id), id, body).await;
        }
    }
}

#[tokio::test]
async fn whatever_changes_something_leaves_exactly_one_record_and_the_rest_none() {
    on_every_engine(async |engine| {
        let (server, url) = TestServer::operated(engine, |config| Config {
            registration: RegistrationMode::Approval,
            ..config
        })
        .await;
        let database = server.database();
        let key = server.operator_key("console").await;
        assert_eq!(records(database), 1, "of the local user");
        let caller = Caller::of_operator(url).with_key(key.text("operatorKey"));
        let mut operator = Actor::new(database, caller);
        let acme = samples::partner("Acme");
        operator.records(1, "registerPartner", acme).await;
        let approved = operator.records(1, "approvePartner", Value::Null).await;
        for (expected, id, body) in [
            (1, "setQuota", json!({"bookings": 100})),
            (1, "editPartner", json!({"name": "Acme Stage"})),
            (1, "suspendPartner", Value::Null),
            (0, "suspendPartner", Value::Null),
            (1, "reinstatePartner", Value::Null),
            (0, "setQuota", json!({"bookings": 100})),
        ] {
            operator.records(expected, id, body).await;
        }
        let acme = operator.ids["partnerId"].clone();
        operator.acting_for = Some(acme.clone());
        let link = json!({"person": "Ada"});
        operator.records(1, "createOperatorLink", link).await;
        operator.records(1, "endOperatorSession", Value::Null).await;
        operator.records(0, "endOperatorSession", Value::Null).await;
        let unrecorded = |id: &str| UNRECORDED.iter().any(|(known, _)| *known == id);
        operator
            .everything("Europe/Berlin", 0, |id| usize::from(!unrecorded(id)))
            .await;
        // Performed last, because nothing is left of the partner afterwards.
        operator.done.insert("endContract".to_owned());
        let all: BTreeSet<String> = writing().into_keys().collect();
        assert_eq!(operator.done, all, "a new operation must be performed here");

        let listed = operator.caller.rows("/v1/audit?limit=7").await;
        assert_eq!(listed.len(), records(database));
        // The operator key itself was made on the database.
        let remote = listed
            .iter()
            .filter(|record| record["actor"]["kind"] != "local_user");
        for record in remote {
            // Who of the operator is let in concerns no partner, even while it acts for one.
            let concerns_none = record.text("action").contains("Operator");
            let partner_id = (!concerns_none).then_some(&acme);
            record.holds(json!({"partnerId": partner_id, "address": "127.0.0.1"}));
            let id = key.text("operatorKeyId");
            let actor = json!({"kind": "operator_key", "keyId": id, "name": "console"});
            assert_eq!(record["actor"], actor, "{record}");
        }
        let first = listed
            .iter()
            .find(|record| record["actor"]["kind"] == "local_user");
        let first = first.unwrap();
        first.holds(json!({"action": "createOperatorKey", "address": null, "partnerId": null}));
        assert_eq!(
            first["subject"],
            json!({"operatorKeyId": key["operatorKeyId"]})
        );

        // The same, by the partner itself, and by somebody who registers.
        let caller = server.caller().with_key(approved.text("apiKey"));
        let mut partner = Actor::new(database, caller);
        let own = |id: &str| usize::from(OF_PARTNERS.contains(&id));
        partner.everything("Europe/Vienna", 100, own).await;
        let before = records(database);
        let (stranger, body) = (server.caller(), samples::partner("Other"));
        let other = stranger.post("/v1/partners/register", &body).await;
        let other = other.string("partnerId");
        assert_eq!(records(database) - before, 1);
        let listed = partner.caller.rows("/v1/audit?limit=100").await;
        let made = |action: &str, kind: &str| {
            let mut found = listed.iter();
            let is =
                |record: &&Value| record["action"] == action && record["actor"]["kind"] == kind;
            found
                .find(is)
                .unwrap_or_else(|| panic!("no {action} by {kind}"))
                .clone()
        };
        let record = made("createApiKey", "api_key");
        assert_eq!(
            record["subject"],
            json!({"apiKeyId": partner.ids["replacedApiKeyId"]})
        );
        let rotated = made("rotateApiKey", "api_key");
        assert_eq!(rotated["subject"]["apiKeyId"], partner.ids["apiKeyId"]);
        assert_eq!(record["actor"]["keyId"], approved["apiKeyId"]);
        // Of the operator, a partner sees only that it was the operator.
        let record = made("approvePartner", "operator_key");
        assert_eq!(
            (&record["actor"], &record["address"]),
            (&json!({"kind": "operator_key"}), &Value::Null)
        );
        assert!(
            listed
                .iter()
                .all(|record| record["partnerId"] == acme.as_str())
        );
        assert!(
            !listed
                .iter()
                .any(|record| record.to_string().contains(&other))
        );

        let text = database
            .command("audit list --limit 100 --output json")
            .run()
            .await
            .stdout;
        for secret in ["bgk_", "bgo_", "whsec_", "ops@", "The Night Owls"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }

        // What is done to a partner is in its own audit, whomever the operator acts for.
        operator.recorded = records(database);
        operator.acting_for = Some(acme.clone());
        operator.ids.insert("partnerId".to_owned(), other.clone());
        operator.records(1, "approvePartner", Value::Null).await;
        let third = samples::partner("Third");
        operator.records(1, "registerPartner", third).await;
        let third = operator.ids["partnerId"].clone();
        let create = format!("operator-keys create --name spare --partner {acme}");
        database.command(create).json().await;
        operator.recorded += 1;
        operator.acting_for = Some(other.clone());
        operator.ids.insert("partnerId".to_owned(), acme.clone());
        operator.records(1, "endContract", json!({})).await;
        for (action, concerned) in [
            ("approvePartner", vec![json!(other), json!(acme)]),
            (
                "registerPartner",
                vec![json!(third), json!(other), json!(acme)],
            ),
            ("createOperatorKey", vec![Value::Null, Value::Null]),
            ("endContract", vec![json!(acme)]),
        ] {
            let path = format!("/v1/audit?action={action}");
            let found = operator.caller.rows(&path).await;
            let found = found.iter().map(|record| record["partnerId"].clone());
            assert_eq!(found.collect::<Vec<_>>(), concerned, "{action}");
        }
        server.close().await.verify(2).await;
    })
    .await;
}

#[tokio::test]
async fn what_is_refused_repeated_or_not_committed_leaves_no_record() {
    with_partner_on_every_engine(async |server, acme| {
        let database = server.database();
        let path = "/v1/api-keys";
        let before = records(database);
        let refused = acme.post(path, &json!({"scopes": []})).await;
        refused.refused(400, "empty");
        let narrow = acme.scoped(&["bookings:read"]).await;
        let before = {
            assert_eq!(records(database), before + 1);
            before + 1
        };
        let refused = narrow.post(path, &json!({})).await;
        refused.refused(403, "insufficient_scope");
        let last = format!("{path}/{}", acme.key_id);
        acme.delete(&last).await.refused(409, "last_managing_key");
        assert_eq!(records(database), before);

        let once = async || {
            acme.post_once(path, "audit-once", &json!({"name": "once"}))
                .await
        };
        let made = once().await;
        once().await.replays(&made);
        assert_eq!(records(database), before + 1);
        let made = format!("{path}/{}", made.string("apiKeyId"));
        for _ in 0..2 {
            acme.delete(&made).await.ok(200);
        }
        assert_eq!(
            records(database),
            before + 2,
            "a revoked key is not revoked again"
        );

        // If the record cannot be written, neither is what it would record.
        let keys = || database.count("SELECT COUNT(*) FROM api_key");
        let there = keys();
        database.tamper("ALTER TABLE audit RENAME TO gone_audit");
        let refused = acme.post(path, &json!({})).await;
        refused.refused(503, "unavailable");
        database.tamper("ALTER TABLE gone_audit RENAME TO audit");
        assert_eq!((keys(), records(database)), (there, before + 2));
        acme.post(path, &json!({})).await.ok(201);
        assert_eq!((keys(), records(database)), (there + 1, before + 3));
    })
    .await;
}

#[tokio::test]
async fn a_partner_reads_its_own_records_by_action_and_time() {
    with_partner_on_every_engine(async |server, acme| {
        let other = server.partner("Other").await;
        let begun = server.now_ms();
        for name in ["a", "b", "c"] {
            server.advance(1_000);
            acme.new_key(&json!({"name": name})).await;
        }
        other.new_key(&json!({})).await;
        server.advance(1_000);
        acme.put_policy("house", &samples::policy(0)).await;
        let actions = async |query: &str| {
            let rows = acme.rows(&format!("/v1/audit?{query}")).await;
            let mut actions = rows.iter().map(|row| row.text("action").to_owned());
            actions.by_ref().collect::<Vec<_>>().join(" ")
        };
        let all = "putPolicy createApiKey createApiKey createApiKey registerPartner";
        assert_eq!(actions("limit=2").await, all);
        assert_eq!(
            actions("limit=1&action=createApiKey").await,
            ["createApiKey"; 3].join(" ")
        );
        assert_eq!(actions("action=revokeApiKey").await, "");
        let misspelled = acme.get("/v1/audit?action=revokeApiKeys").await;
        misspelled.refused(400, "not_allowed");
        misspelled.says(&["Did you mean \\\"revokeApiKey\\\"?", "pruneAudit"]);
        let at = |ms: i64| bookguard_core::model::Timestamp::from_ms(begun + ms);
        let some = format!("since={}&until={}", at(1_000), at(3_000));
        assert_eq!(actions(&some).await, "createApiKey createApiKey");
        let both = format!("{some}&action=putPolicy");
        assert_eq!(actions(&both).await, "");
        let csv = acme
            .command("audit list --output csv --fields action,actor.keyId")
            .run()
            .await;
        assert!(
            csv.stdout.contains(&format!("putPolicy,{}\n", acme.key_id)),
            "{csv:?}"
        );
        let narrow = acme.scoped(&["api-keys:*"]).await;
        let refused = narrow.get("/v1/audit").await;
        refused.refused(403, "insufficient_scope");

        // A record that somebody changed is not shown, and named by the check.
        database_tamper(&server);
        assert_eq!(actions("action=putPolicy").await, "");
        let found = server.close().await;
        let found = found.command("ledger verify").run().await;
        found.ended(6, &[]);
        assert!(found.stdout.contains("field mac"), "{found:?}");
    })
    .await;
}

#[tokio::test]
async fn a_partner_that_changes_things_in_a_loop_is_stopped_for_the_day_and_can_still_end_what_it_has()
 {
    with_partner_on_every_engine(async |server, acme| {
        let other = server.partner("Other").await;
        let endpoint = acme.endpoint("http://127.0.0.1:9/").await;
        let made = acme.post("/v1/api-keys", &json!({})).await;
        let made = format!("/v1/api-keys/{}", made.string("apiKeyId"));
        let changed = acme.change_until_refused().await;
        assert_eq!(changed as u64, POLICIES_UNTIL - 2, "an endpoint, a key");
        // A key that may only change policies has left some changes for keys, and what the operator does takes none of them.
        let line = format!("api-keys create --partner {}", acme.id);
        for _ in 0..2 {
            server.database().command(&*line).json().await;
        }
        acme.new_key(&json!({})).await;
        let more = acme.change_endpoint_until_refused(&endpoint).await;
        assert_eq!(more as u64, CHANGES_PER_DAY - POLICIES_UNTIL - 1);
        let refused = acme.post("/v1/api-keys", &json!({})).await;
        refused.refused(409, "quota_exceeded");
        // Requests that change nothing are answered, and bookings do not count.
        let last = json!({"timeZone": Partner::ZONES[(changed - 1) % 2]});
        acme.patch("/v1/partners/me", &last).await.ok(200);
        acme.book().await;
        // What is stolen can be taken back.
        acme.delete(&made).await.ok(200);
        acme.delete_endpoint(&endpoint).await;
        // Neither the operator nor anybody else is stopped.
        server.database().command(&*line).json().await;
        other.new_key(&json!({})).await;
        let today = server.now_ms() / DAY_MS;
        server.set_clock((today + 1) * DAY_MS);
        acme.new_key(&json!({})).await;
    })
    .await;
}

/// A server whose clock is this many days behind.
async fn behind(database: TestDatabase, days: i64, keeps: u32) -> TestServer {
    let then = Clock::System.now().ms() - days * DAY_MS;
    TestServer::on(database, |config| Config {
        clock: Clock::Set(Arc::new(AtomicI64::new(then))),
        audit_retention_days: keeps,
        ..config
    })
    .await
}

#[tokio::test]
async fn a_server_deletes_what_is_older_than_its_setting_and_nothing_else() {
    on_every_engine(async |engine| {
        let server = behind(TestDatabase::new(engine), 500, 400).await;
        let acme = server.partner("Acme").await;
        let keys = async |acme: &Partner, number: usize| {
            for _ in 0..number {
                let made = acme.post("/v1/api-keys", &json!({})).await;
                let made = format!("/v1/api-keys/{}", made.string("apiKeyId"));
                acme.delete(&made).await.ok(200);
            }
        };
        keys(&acme, 3).await;
        let old = records(server.database());
        let server = behind(server.close().await, 60, 400).await;
        keys(&acme.on(&server.running().url()), 2).await;
        until("the old records to go", async || {
            (records(server.database()) == 4).then_some(())
        })
        .await;
        assert!(old >= 7, "{old}");
        let database = server.close().await;
        database.verify(0).await;

        // By hand: refused, counted, done, and done already.
        for (age, why) in [
            ("29d", "30 to 3650"),
            ("3651d", "30 to 3650"),
            ("x", "a number of days"),
        ] {
            let line = format!("audit prune --older-than {age}");
            database.command(line).run().await.ended(2, &[why]);
        }
        let prune = async |flags: &str| {
            let line = format!("audit prune --older-than 30d {flags}");
            database.command(line).json().await
        };
        let newest = database.command("audit list --limit 1").json().await;
        let newest = newest["data"][0]["auditId"].clone();
        for _ in 0..2 {
            prune("--dry-run")
                .await
                .holds(json!({"dryRun": true, "records": 4}));
        }
        let for_partner = format!("--partner {}", acme.id);
        prune(&for_partner)
            .await
            .holds(json!({"dryRun": false, "records": 4}));
        for _ in 0..2 {
            prune("").await.holds(json!({"records": 0}));
        }
        let default = database.command("audit prune --output table").run().await;
        default.said(&["0 records from before"]);
        let left = database.command("audit list").json().await;
        let left = only(left.list("data"));
        left.holds(
            json!({"action": "pruneAudit", "partnerId": null, "subject": {"auditId": newest}}),
        );
        let found = database.command("audit list --action pruneAudit");
        assert_eq!(found.json().await["data"][0], *left);
        database.verify(0).await;
    })
    .await;
}

fn database_tamper(server: &TestServer) {
    let changed =
        "UPDATE audit SET body = replace(body, 'house', 'other') WHERE action = 'putPolicy'";
    server.database().tamper(changed);
}

#[test]
fn what_counts_among_the_changes_of_a_day_is_what_the_audit_has_of_partners_own_calls() {
    let mut counted: Vec<&str> = COUNTED.to_vec();
    // Whoever registers is nobody's partner yet.
    counted.push("registerPartner");
    // Their number is bounded by that of the bookings.
    counted.extend([
        "createShare",
        "revokeShare",
        "eraseValues",
        "deleteEvidenceItemFile",
    ]);
    let recorded = OF_PARTNERS.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(counted.into_iter().collect::<BTreeSet<_>>(), recorded);
}
