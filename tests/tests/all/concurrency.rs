//! Many concurrent callers, on PostgreSQL at two nodes: equal requests get one answer, the log has no gaps, and partners
//! never see each other.

use std::collections::{BTreeMap, BTreeSet};

use bookguard_server::Server;
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::is_long;
use bookguard_tests::json::Members as _;
use bookguard_tests::load::at_once;
use bookguard_tests::mirror::{Mirror, leaf_hex};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

use crate::wire::world::{Documented, ask, documented, fill};

const AT_ONCE: usize = 50;

/// A server and the addresses of its nodes: two if the engine supports more than one.
struct Nodes {
    server: TestServer,
    urls: Vec<String>,
    /// Kept so that the second node runs as long as the server.
    _second: Option<Server>,
}

impl Nodes {
    async fn open(engine: Engine) -> Self {
        let server = TestServer::open(engine).await;
        let mut urls = vec![server.running().url()];
        let mut second = None;
        if engine == Engine::Postgres {
            let server = server.second_node().await;
            urls.push(server.url());
            second = Some(server);
        }
        Self {
            server,
            urls,
            _second: second,
        }
    }

    /// Returns the caller at one of the nodes, chosen by `number`.
    fn at(&self, number: usize, caller: &Caller) -> Caller {
        caller.at(&self.urls[number % self.urls.len()])
    }

    /// Sends fifty requests at once, to the nodes in turn, and returns the answers in any order.
    async fn post_at_once(
        &self,
        caller: &Caller,
        path: &str,
        key: Option<&str>,
        body: impl Fn(usize) -> Value,
    ) -> Vec<Reply> {
        let requests = (0..AT_ONCE).map(|n| {
            let caller = self.at(n, caller);
            let mut request = caller
                .request("POST", path)
                .header("content-type", "application/json")
                .body(body(n).to_string());
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            async move { caller.send(request).await }
        });
        at_once(requests).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_equal_requests_under_one_key_make_one_booking_and_get_the_same_bytes() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let server = &nodes.server;
        let acme = server.partner("Acme").await;
        let receiver = Receiver::start().await;
        acme.endpoint(&receiver.url()).await;
        let path = "/v1/bookings";
        let replies = nodes.post_at_once(&acme, path, Some("the-one"), |_| samples::booking());
        let replies = replies.await;
        let bodies: BTreeSet<&[u8]> = replies.iter().map(|reply| reply.body.as_slice()).collect();
        let all = replies.iter().all(|reply| reply.status == 201);
        assert!(all, "{replies:?}");
        assert_eq!(bodies.len(), 1);
        let fresh = replies
            .iter()
            .filter(|reply| reply.header("idempotent-replayed").is_none());
        assert_eq!(fresh.count(), 1, "the others are replays");
        let list = acme.get("/v1/bookings").await.ok(200);
        assert_eq!(list.list("data").len(), 1);
        receiver.wait_for(1).await;
        let booking = replies[0].string("bookingId");
        let events = until("the event to be delivered", async || {
            let events = acme.events(&booking).await;
            (events[0]["status"] == "delivered").then_some(events)
        })
        .await;
        assert_eq!((events.len(), receiver.received().len()), (1, 1));
        let mirror = Mirror::download(&server.caller(), &server.vkey().await).await;
        // The booking, and the delivery of its one event.
        assert_eq!(mirror.entries().len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_keys_that_end_each_other_leave_one() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let acme = nodes.server.partner("Acme").await;
        let (mut last, mut last_id) = (acme.caller.clone(), acme.key_id.clone());
        for _ in 0..20 {
            let made = last.post("/v1/api-keys", &json!({})).await;
            let other = last.with_key(&made.string("apiKey"));
            let other_id = made.string("apiKeyId");
            let paths = [&other_id, &last_id].map(|id| format!("/v1/api-keys/{id}"));
            let (one, two) = (nodes.at(0, &last), nodes.at(1, &other));
            let (one, two) = tokio::join!(one.delete(&paths[0]), two.delete(&paths[1]));
            // The second request either deletes the last key or is made with a key already known to be revoked.
            match (one.status, two.status) {
                (200, 409 | 401) => {}
                (409 | 401, 200) => (last, last_id) = (other, other_id),
                statuses => panic!("{statuses:?}: {} {}", one.text(), two.text()),
            }
            assert_eq!(last.get("/v1/api-keys").await.status, 200);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_several_requests_under_one_key_happens() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let acme = nodes.server.partner("Acme").await;
        let body = |n: usize| samples::booking_with(json!({"eventType": format!("kind {n}")}));
        let replies = nodes.post_at_once(&acme, "/v1/bookings", Some("the-one"), body);
        let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
        for reply in replies.await {
            *statuses.entry(reply.status).or_default() += 1;
        }
        assert_eq!(statuses, BTreeMap::from([(201, 1), (422, AT_ONCE - 1)]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_booking_protected_by_many_at_once_is_protected_once() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let acme = nodes.server.partner("Acme").await;
        let booking = acme.book().await;
        let path = format!("/v1/bookings/{booking}/protect");
        let answers = nodes.post_at_once(&acme, &path, None, |_| json!({}));
        for answer in answers.await {
            assert_eq!(answer.ok(200)["receipt"]["leafIndex"], 1);
        }
        assert_eq!(acme.events(&booking).await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_different_writes_leave_a_log_without_gaps_and_each_its_own_place() {
    on_every_engine(async |engine| {
        const PARTNERS: usize = 4;
        const EACH: usize = 40;
        let nodes = Nodes::open(engine).await;
        let server = &nodes.server;
        let mut partners = Vec::new();
        for n in 0..PARTNERS {
            partners.push(server.partner(&format!("Partner {n}")).await);
        }
        let receipts = at_once((0..PARTNERS * EACH).map(|n| {
            // Each partner uses both nodes.
            let node = &nodes.urls[n / PARTNERS % nodes.urls.len()];
            let partner = partners[n % PARTNERS].on(node);
            async move {
                let booking = partner.book().await;
                partner.scoped(&["bookings:read"]).await;
                partner.protect(&booking).await["receipt"].clone()
            }
        }));
        let receipts = receipts.await;
        let vkey = server.vkey().await;
        let mirror = Mirror::download(&server.caller(), &vkey).await;
        assert_eq!(mirror.entries().len(), 2 * PARTNERS * EACH);
        // Every receipt names an entry of its own.
        let mut places = BTreeSet::new();
        for receipt in &receipts {
            let index = receipt.number("leafIndex");
            assert!(places.insert(index), "two receipts for entry {index}");
            let entry = &mirror.entries()[index as usize];
            assert_eq!(receipt["leafHash"], leaf_hex(entry));
            assert!(receipt.number("treeSize") > index);
        }
        mirror.chains();
        for partner in &partners {
            let list = partner.get("/v1/bookings?limit=100").await.ok(200);
            let bookings = list.list("data");
            assert_eq!(bookings.len(), EACH);
            for booking in bookings {
                assert_eq!(booking["status"], "protected");
            }
            let events = partner.all_events().await;
            let numbers: BTreeSet<u64> = events.iter().map(|event| event.number("seq")).collect();
            assert_eq!(events.len(), numbers.len());
            assert_eq!(numbers, (1..=2 * EACH as u64).collect());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_booking_canceled_by_many_at_once_has_one_resolution() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let acme = nodes.server.partner("Acme").await;
        let booking = acme.book().await;
        let path = format!("/v1/bookings/{booking}/cancel");
        let body = |n: usize| json!({"canceledBy": (["organizer", "talent"][n / 2 % 2])});
        let replies = nodes.post_at_once(&acme, &path, None, body).await;
        let made = replies.iter().map(|reply| reply.string("resolutionId"));
        let made: BTreeSet<String> = made.collect();
        assert_eq!(made.len(), 1, "those that were refused name it too");
        let id = acme.booking(&booking).await.text("resolutionId").to_owned();
        assert!(made.contains(&id));
        let resolution = acme.get(&format!("/v1/resolutions/{id}")).await;
        let winner = resolution.string("canceledBy");
        for reply in &replies {
            match reply.asked.contains(&winner) {
                true => drop(reply.ok(201)),
                false => drop(reply.refused(409, "booking_already_canceled").json()),
            }
        }
        assert_eq!(acme.events(&booking).await.len(), 2);
        verified(&nodes.server).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn protecting_and_canceling_at_once_come_one_after_the_other() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let acme = nodes.server.partner("Acme").await;
        let mut bookings = Vec::new();
        for _ in 0..AT_ONCE / 2 {
            bookings.push(acme.book().await);
        }
        let pairs = at_once(bookings.iter().enumerate().map(|(n, booking)| {
            let [here, there] = [n / 2, n / 2 + 1].map(|node| nodes.at(node, &acme.caller));
            let path = |what| format!("/v1/bookings/{booking}/{what}");
            let (protect, cancel) = (path("protect"), path("cancel"));
            async move {
                let body = samples::cancellation();
                match n % 2 {
                    0 => tokio::join!(here.post_nothing(&protect), there.post(&cancel, &body)),
                    _ => {
                        let (canceled, protected) =
                            tokio::join!(here.post(&cancel, &body), there.post_nothing(&protect));
                        (protected, canceled)
                    }
                }
            }
        }));
        for (protected, canceled) in pairs.await {
            let resolution = canceled.ok(201);
            let id = resolution.text("bookingId");
            let booking = acme.booking(id).await;
            assert_eq!(booking["status"], "canceled");
            let was_protected = protected.status == 200;
            assert!(was_protected || protected.code() == "booking_canceled");
            assert_eq!(booking["protected"], was_protected);
            let grade = ["record_only", "ledger_anchored"][usize::from(was_protected)];
            assert_eq!(resolution["evidenceGrade"], grade);
            let events = acme.events(id).await;
            assert_eq!(events.len(), 2 + usize::from(was_protected));
            assert_eq!(events.last().unwrap()["type"], "resolution.created");
        }
        verified(&nodes.server).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_changes_of_a_booking_have_one_order_that_anybody_can_recompute() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let acme = nodes.server.partner("Acme").await;
        let vkey = nodes.server.vkey().await;
        // Meanwhile either node settles each event at each endpoint: accepted, or given up at once.
        let receivers = [Receiver::start().await, Receiver::start().await];
        receivers[1].answer(Answer::Status(413));
        for receiver in &receivers {
            acme.endpoint(&receiver.url()).await;
        }
        let other_date =
            json!({"eventDate": "2031-12-20T19:00:00-05:00", "agreedBy": ["talent", "organizer"]});
        let rounds = if is_long() { 12 } else { 4 };
        for round in 0..rounds {
            let id = acme.book().await;
            let path = format!("/v1/bookings/{id}");
            let told = acme.get(&format!("{path}/disclosure")).await;
            let accept = samples::acceptance(&told.string("disclosureHash"));
            let replies = at_once((0..10).map(|n| {
                let caller = nodes.at(round + n / 5, &acme.caller);
                let (place, body) = match n % 5 {
                    0 => ("reschedule", samples::new_date()),
                    1 => ("protect", json!(null)),
                    2 => ("acceptances", accept.clone()),
                    3 => ("reschedule", other_date.clone()),
                    _ => ("cancel", samples::cancellation()),
                };
                let path = format!("{path}/{place}");
                async move {
                    match place {
                        "protect" => (place, caller.post_nothing(&path).await),
                        _ => (place, caller.post(&path, &body).await),
                    }
                }
            }));
            for (place, reply) in replies.await {
                let refused = match (place, reply.status) {
                    ("cancel", status) => Some((status, 201)),
                    (_, 200 | 201) => None,
                    ("acceptances", _) if reply.code() == "disclosure_changed" => None,
                    ("reschedule", _) if reply.code() == "event_date_unchanged" => None,
                    _ => (reply.code() != "booking_canceled").then_some((reply.status, 409)),
                };
                let expected = refused.is_none_or(|(status, wanted)| status == wanted);
                assert!(expected, "{place}: {}", reply.text());
            }
            until("every event to have ended everywhere", async || {
                let events = acme.events(&id).await;
                let mut deliveries = events.iter().flat_map(|e| e.list("deliveries"));
                deliveries.all(|d| d["attempts"] == 1).then_some(())
            })
            .await;
            let packet = acme.get(&format!("{path}/evidence")).await;
            let report = bookguard_core::evidence::verify(&packet.body, &vkey);
            assert!(report.verified(), "{report}");
            let deliveries = packet.json().list("deliveries").clone();
            assert!([4, 6].contains(&deliveries.len()), "{deliveries:?}");
            for delivery in deliveries {
                let recorded = delivery.list("recorded");
                let is_delivered = delivery["status"] == "delivered";
                let outcome = ["given_up", "delivered"][usize::from(is_delivered)];
                assert_eq!(
                    (recorded.len(), &recorded[0]["outcome"]),
                    (1, &json!(outcome))
                );
            }
        }
        verified(&nodes.server).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_review_decided_by_many_at_once_is_decided_once() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let acme = nodes.server.partner("Acme").await;
        let pending = acme.leave_open().await;
        let path = format!("/v1/resolutions/{pending}/decide");
        let body = |n: usize| {
            let mut decision = samples::decision();
            decision["refund"] = json!(n / 2 % 5);
            decision
        };
        let replies = nodes.post_at_once(&acme, &path, None, body).await;
        let made = replies.iter().map(|reply| reply.string("resolutionId"));
        let made: BTreeSet<String> = made.collect();
        assert_eq!(made.len(), 1);
        let decided = replies.iter().filter(|reply| reply.status == 201);
        let refunds: BTreeSet<String> = decided
            .map(|reply| reply.json()["decision"]["refund"].to_string())
            .collect();
        assert_eq!(refunds.len(), 1);
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            reply.refused(409, "resolution_already_decided");
        }
        verified(&nodes.server).await;
    })
    .await;
}

/// Asserts that the whole database agrees with its ledger.
async fn verified(server: &TestServer) {
    let service = server.running().service().clone();
    let report = tokio::task::spawn_blocking(move || service.verify_ledger(false, |_, _| {}));
    let report = report.await.unwrap().unwrap();
    assert_eq!(report.findings, []);
}

/// The body of a recovery that only counts.
fn counting() -> Value {
    json!({"since": "2026-09-21T00:00:00Z", "dryRun": true})
}

/// The data of one partner that must never reach another.
struct Belongings {
    /// The owner's value for each path parameter.
    ids: BTreeMap<&'static str, String>,
    /// Texts that appear only in the owner's own answers.
    texts: Vec<String>,
}

async fn belongings(owner: &Partner, receiver: &Receiver) -> Belongings {
    let resolution = owner.leave_open().await;
    let endpoint = owner
        .endpoint(&format!("{}?of=owner", receiver.url()))
        .await;
    let body = samples::booking_with(json!({
        "talent": {"id": "secret-talent", "name": "Secret Talent"}, "metadata": {"note": "secret-note"}
    }));
    let booking = owner.post("/v1/bookings", &body).await.string("bookingId");
    let event = owner.events(&booking).await.remove(0);
    let event = event.text("eventId").to_owned();
    let key = owner
        .post("/v1/api-keys", &json!({"name": "secret-key"}))
        .await;
    let recovery = owner.post("/v1/webhook-events/recover", &counting()).await;
    let mut item = samples::item_with_file("a file");
    item["title"] = "secret-item".into();
    let items = format!("/v1/bookings/{booking}/evidence/items");
    let item = owner.post(&items, &item).await.string("itemId");
    let file = owner.request("PUT", &format!("{items}/{item}/file"));
    owner.send(file.body("a file")).await.ok(200);
    let shares = format!("/v1/bookings/{booking}/shares");
    let share = owner.post(&shares, &json!({"note": "secret-share"})).await;
    let holds = format!("/v1/bookings/{booking}/holds");
    let hold = owner.post(&holds, &json!({"reason": "secret-hold"})).await;
    let link = json!({"person": "secret-person"});
    let link = owner.post("/v1/console-links", &link).await;
    let ids = BTreeMap::from([
        ("bookingId", booking),
        ("consoleSessionId", link.string("consoleSessionId")),
        ("shareId", share.string("shareId")),
        ("holdId", hold.string("holdId")),
        ("eventId", event),
        ("endpointId", endpoint),
        ("apiKeyId", key.string("apiKeyId")),
        // Every partner may have a policy of this name; its contents are the owner's.
        ("policyId", "pol_0123".to_owned()),
        ("resolutionId", resolution),
        ("itemId", item),
        ("recoveryId", recovery.string("recoveryId")),
    ]);
    let mut policy = samples::policy(4321);
    policy["name"] = "Secret Policy".into();
    owner.put_policy(&ids["policyId"], &policy).await;
    let defaults =
        json!({"defaultPolicies": {"secret-type": ids["policyId"]}, "timeZone": "Asia/Tokyo"});
    owner.decide(defaults).await;
    let mut texts: Vec<String> = ids.values().cloned().collect();
    texts.retain(|text| *text != ids["policyId"]);
    texts.extend(["secret_type", "Asia/Tokyo"].map(str::to_owned));
    texts.extend(["secret-", "Secret ", "of=owner"].map(str::to_owned));
    let own = [&owner.id, &owner.key_id, &owner.secret, &owner.key];
    texts.extend(own.map(String::clone));
    Belongings { ids, texts }
}

#[tokio::test]
async fn no_operation_shows_or_changes_what_is_another_partner_s() {
    on_every_engine(async |engine| {
        let nodes = Nodes::open(engine).await;
        let owner = nodes.server.partner("Secret Owner").await;
        let mut other = nodes.server.partner("Other").await;
        other.caller = nodes.at(1, &other.caller);
        let receiver = Receiver::start().await;
        let belongings = belongings(&owner, &receiver).await;
        let settled = until("the owner's event delivered", async || {
            let events = owner.events(&belongings.ids["bookingId"]).await;
            (events[0]["status"] == "delivered").then_some(())
        });
        settled.await;
        let before = owned(&owner, &belongings).await;
        let mut asked = 0;
        for operation in documented() {
            if operation.open && operation.body.is_none() {
                continue;
            }
            asked += 1;
            if operation.id != "putPolicy" {
                isolated(&other, &belongings, &operation).await;
            }
        }
        assert!(asked > 15);
        takes_the_same_name(&owner, &other, &belongings).await;
        let after = owned(&owner, &belongings).await;
        assert_eq!(after, before, "nothing of the owner's changed");
        assert_eq!(receiver.received().len(), 1, "nothing was sent again");
    })
    .await;
}

async fn isolated(other: &Partner, belongings: &Belongings, operation: &Documented) {
    let path = &operation.path;
    let place = format!("{} {path}", operation.method);
    let foreign = fill(path, |name| {
        let id = belongings.ids.get(name);
        id.unwrap_or_else(|| panic!("{place}: whose is a {name}?"))
            .clone()
    });
    let reply = ask(other, operation, &foreign, &[]).await;
    let shown = reply.text();
    for text in &belongings.texts {
        assert!(!shown.contains(text), "{place} shows {text}: {shown}");
    }
    if foreign != *path {
        // The same bytes as the answer for an id that does not exist.
        let unknown = fill(path, |name| {
            let (prefix, digits) = belongings.ids[name].split_once('_').unwrap();
            format!("{prefix}_{}", digits.chars().rev().collect::<String>())
        });
        let unknown = ask(other, operation, &unknown, &[]).await;
        assert_eq!((reply.status, &reply.body), (404, &unknown.body), "{place}");
    }
}

/// To another partner the owner's policy name is unknown, or names a policy of their own.
async fn takes_the_same_name(owner: &Partner, other: &Partner, belongings: &Belongings) {
    let policy_id = &belongings.ids["policyId"];
    let booking = samples::booking_with(json!({ "policyId": policy_id }));
    let refused = other.post("/v1/bookings", &booking).await;
    refused.faulty(&[("/policyId", "policy_unknown")]);
    let defaults = json!({"defaultPolicies": {"*": policy_id}});
    let refused = other.patch("/v1/partners/me", &defaults).await;
    refused.faulty(&[("/defaultPolicies/*", "policy_unknown")]);
    assert_eq!(other.put_policy(policy_id, &samples::policy(1)).await, 1);
    let path = format!("/v1/policies/{policy_id}");
    let theirs = owner.get(&path).await.ok(200);
    let its = other.get(&path).await.ok(200);
    assert_eq!(theirs["policy"]["organizer"]["late"]["refundBps"], 4321);
    assert_eq!(its["policy"]["organizer"]["late"]["refundBps"], 1);
}

/// Returns everything of the owner's, as the owner sees it.
async fn owned(owner: &Partner, belongings: &Belongings) -> Vec<Value> {
    let [booking, event, policy, resolution] =
        ["bookingId", "eventId", "policyId", "resolutionId"].map(|name| &belongings.ids[name]);
    let paths = format!(
        "partners/me api-keys bookings webhook-endpoints policies policies/{policy} policies/{policy}/versions \
         bookings/{booking} bookings/{booking}/disclosure bookings/{booking}/evidence/items \
         bookings/{booking}/webhook-events webhook-events/{event} resolutions/{resolution}"
    );
    let mut seen = Vec::new();
    for path in paths.split(' ') {
        seen.push(owner.get(&format!("/v1/{path}")).await.ok(200));
    }
    seen
}
