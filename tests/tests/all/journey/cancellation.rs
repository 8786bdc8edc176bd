//! A booking is canceled: the quoted result is recorded once, and anybody can recompute it; a pending resolution is decided
//! once.

use bookguard_core::evidence;
use bookguard_core::ledger::jcs;
use bookguard_tests::json::Members as _;
use bookguard_tests::mirror::Mirror;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

/// 2031-06-01T00:00:00Z: between the refund tiers of `firm` for the sample booking.
const BETWEEN_MS: i64 = 1_938_038_400_000;

async fn protected(server: &TestServer, acme: &Partner) -> String {
    let id = acme.book_with(json!({"policyId": "firm"})).await;
    acme.protect(&id).await;
    server.set_clock(BETWEEN_MS);
    id
}

async fn entries(server: &TestServer, vkey: &str) -> usize {
    let mirror = Mirror::download(&server.caller(), vkey).await;
    mirror.entries().len()
}

#[tokio::test]
async fn what_was_shown_is_what_happens_and_anybody_can_recompute_it() {
    with_partner_on_every_engine(async |server, acme| {
        let vkey = server.vkey().await;
        let id = protected(&server, &acme).await;
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        let path = format!("/v1/bookings/{id}");
        let quote = format!("{path}/policy-evaluation?matrix=true&reason=illness");
        let quote = acme.get(&quote).await.ok(200);
        side_by_side(&quote);

        let cancel = json!({
            "canceledBy": "organizer", "reason": "illness", "note": "fever, says Dr. Zoë",
            "evidence": [{"kind": "notice", "name": "mail.eml", "mediaType": "message/rfc822",
                "sha256": format!("sha256:{}", "0a".repeat(32))}],
            "expected": {
                "refundMinorUnits": quote["refund"]["minorUnits"], "resolutionPath": quote["resolutionPath"],
                "policyHash": quote["policy"]["policyHash"]
            }
        });
        let reply = acme.post_once(&format!("{path}/cancel"), "once", &cancel).await;
        let resolution = reply.ok(201);
        let location = reply.header("location").unwrap();
        assert_eq!(acme.get(location).await.ok(200), resolution);
        assert_eq!(
            location,
            format!("/v1/resolutions/{}", resolution.text("resolutionId"))
        );
        recorded(&resolution, &quote, &acme, &id);

        told(&receiver, &acme, &id, &resolution).await;
        stands(&acme, &id, &resolution).await;
        repeats(&server, &acme, &id, &cancel, &reply.body).await;
        until("the resolution to be told", async || {
            let events = acme.events(&id).await;
            (events[2]["status"] == "delivered").then_some(())
        })
        .await;
        assert_eq!(entries(&server, &vkey).await, 5, "one cancellation, told once");

        let packet = acme.get(&format!("{path}/evidence")).await;
        server.close().await;
        holds(&packet.body, &vkey, &resolution);
    })
    .await;
}

fn side_by_side(quote: &Value) {
    let rows = quote.list("matrix");
    let short: Vec<String> = rows
        .iter()
        .map(|row| {
            let refund = &row["refund"]["minorUnits"];
            format!("{} {} {refund}", row["canceledBy"], row["resolutionPath"])
        })
        .collect();
    assert_eq!(
        short,
        [
            r#""organizer" "partial_refund" 62525"#,
            r#""talent" "full_refund" 125050"#,
            r#""partner" "full_refund" 125050"#,
            r#""mutual" "mutual_agreement" null"#,
        ]
    );
    assert_eq!(quote["refund"], rows[0]["refund"]);
}

/// Asserts that the recorded evaluation is the quoted one, except that it is now final.
fn recorded(resolution: &Value, quote: &Value, acme: &Partner, id: &str) {
    let expected = json!({
        "resolutionId": resolution["resolutionId"], "bookingId": id, "partnerId": acme.id, "status": "final",
        "evidenceGrade": "ledger_anchored", "canceledBy": "organizer", "reason": "illness",
        "canceledAt": "2031-06-01T00:00:00.000Z", "summary": resolution["summary"],
        "evaluation": resolution["evaluation"]
    });
    assert_eq!(*resolution, expected);
    let evaluation = &resolution["evaluation"];
    assert_eq!(evaluation["evaluationStatus"], "final");
    for member in [
        "refund",
        "penalty",
        "balanceDue",
        "compensation",
        "schedule",
        "policy",
        "matchedRule",
    ] {
        assert_eq!(evaluation[member], quote[member], "{member}");
    }
    let hash = quote["policy"].text("policyHash");
    let summary = format!(
        "Canceled by organizer 19d 23h before the event: partial_refund. Refund USD 625.25, kept USD 625.25 \
         (firm v1, organizer.tiers[1], policy {}).",
        &hash[..19]
    );
    assert_eq!(resolution["summary"], summary);
}

/// Asserts that one event was delivered, with the specification's payload and our additions.
async fn told(receiver: &Receiver, acme: &Partner, id: &str, resolution: &Value) {
    let webhooks = receiver.wait_for(1).await;
    let body = webhooks[0].json();
    assert_eq!(body["type"], "resolution.created");
    assert_eq!(body["timestamp"], resolution["canceledAt"]);
    let payload = &body["payload"];
    let url = payload.text("packetUrl");
    assert!(
        url.ends_with(&format!("/v1/bookings/{id}/evidence")),
        "{url}"
    );
    let expected = json!({
        "partnerId": acme.id, "resolutionSummary": resolution["summary"], "packetUrl": url,
        "resolutionId": resolution["resolutionId"], "resolutionPath": "partial_refund"
    });
    assert_eq!(*payload, expected);
    assert_eq!(acme.events(id).await.len(), 3);
    assert!(!String::from_utf8_lossy(&webhooks[0].body).contains("Zoë"));
}

/// Asserts that the booking is canceled, stays protected, and that every policy evaluation returns the recorded one.
async fn stands(acme: &Partner, id: &str, resolution: &Value) {
    let path = format!("/v1/bookings/{id}");
    let booking = acme.get(&path).await.ok(200);
    booking.holds(json!({"status": "canceled", "protected": true}));
    assert_eq!(booking["canceledAt"], resolution["canceledAt"]);
    assert_eq!(booking["resolutionId"], resolution["resolutionId"]);
    let list = acme.get("/v1/bookings?status=canceled").await.ok(200);
    assert_eq!(list["data"], json!([booking]));
    for query in [
        "",
        "?canceledBy=talent",
        "?asOf=2031-03-01T00:00:00Z&matrix=true",
    ] {
        let path = format!("{path}/policy-evaluation{query}");
        let answer = acme.get(&path).await.ok(200);
        assert_eq!(answer, resolution["evaluation"], "{query}");
    }
}

/// The same idempotency key returns the same bytes, no key returns a replay, and a different cancellation is refused.
async fn repeats(server: &TestServer, acme: &Partner, id: &str, cancel: &Value, first: &[u8]) {
    let path = format!("/v1/bookings/{id}/cancel");
    server.advance(3_600_000);
    let again = acme.post_once(&path, "once", cancel).await;
    assert_eq!((again.status, again.body.as_slice()), (201, first));
    assert!(again.header("idempotent-replayed").is_some());
    let replay = acme.post(&path, cancel).await;
    assert!(replay.header("location").is_some());
    let mut replay = replay.ok(201);
    assert_eq!(replay["evaluation"]["replayed"], true);
    replay["evaluation"]
        .as_object_mut()
        .unwrap()
        .remove("replayed");
    assert_eq!(replay, serde_json::from_slice::<Value>(first).unwrap());
    let mut greedy = cancel.clone();
    greedy["expected"]["refundMinorUnits"] = json!(125_050);
    let lost = acme.post(&path, &greedy).await;
    lost.refused(409, "quote_changed");
    assert_eq!(lost.json()["resolutionId"], replay["resolutionId"]);
    let other = acme.post(&path, &samples::cancellation()).await;
    other.refused(409, "booking_already_canceled");
    assert_eq!(other.json()["resolutionId"], replay["resolutionId"]);
    let protect = acme
        .post_nothing(&format!("/v1/bookings/{id}/protect"))
        .await;
    protect.refused(409, "booking_canceled");
    assert_eq!(acme.events(id).await.len(), 3);
}

/// Verifies offline: with nothing but the packet's bytes and the log's verifier key.
fn holds(packet: &[u8], vkey: &str, resolution: &Value) {
    let report = evidence::verify(packet, vkey);
    assert!(report.verified(), "{report}");
    assert!(
        report
            .to_string()
            .contains("refund USD 625.25, penalty USD 625.25")
    );
    let shown: Value = serde_json::from_slice(packet).unwrap();
    assert_eq!(shown["resolution"], *resolution);
    let text = String::from_utf8(packet.to_vec()).unwrap();
    for (from, to) in [
        (r#""minorUnits":62525"#, r#""minorUnits":62526"#),
        ("625.25", "925.25"),
        (r#""canceledBy":"organizer""#, r#""canceledBy":"talent""#),
        ("fever", "lover"),
    ] {
        assert!(text.contains(from), "{from}");
        let edited = text.replace(from, to);
        assert!(
            !evidence::verify(edited.as_bytes(), vkey).verified(),
            "{to}"
        );
    }
    // An edit in canonical JSON fails the signature check.
    let mut edited = shown;
    edited["resolution"]["evaluation"]["refund"] =
        json!({"amount": "1250.50", "currency": "USD", "minorUnits": 125_050});
    let edited = jcs::to_canonical(&edited).unwrap();
    let report = evidence::verify(edited.as_bytes(), vkey);
    let failed: Vec<_> = report.failures().map(|check| check.name).collect();
    assert!(
        failed.contains(&"signature") && failed.contains(&"resolution"),
        "{failed:?}"
    );
}

#[tokio::test]
async fn a_quote_that_changed_is_shown_anew_and_changes_nothing() {
    with_partner_on_every_engine(async |server, acme| {
        let vkey = server.vkey().await;
        let id = protected(&server, &acme).await;
        let path = format!("/v1/bookings/{id}");
        let quote = format!("{path}/policy-evaluation");
        let shown = acme.get(&quote).await.ok(200);
        let unpaid = acme.book_with(json!({"policyId": "firm", "amountPaid": 0})).await;
        let owed = acme.evaluation(&unpaid, "canceledBy=organizer").await;
        let at = shown["nextChange"].text("at");
        let at = bookguard_core::model::Timestamp::parse(at).unwrap();
        // A minute after the quote has changed.
        server.advance(at.ms() + 60_000 - server.now_ms());
        let expecting = |quote: &Value| {
            json!({
                "canceledBy": "organizer",
                "expected": {"refundMinorUnits": quote["refund"]["minorUnits"], "policyHash": quote["policy"]["policyHash"]}
            })
        };
        let cancel = format!("{path}/cancel");
        let refused = acme.post_once(&cancel, "key", &expecting(&shown)).await;
        refused.refused(409, "quote_changed");
        let fresh = &refused.json()["evaluation"];
        assert_eq!(fresh["refund"], shown["nextChange"]["thenRefund"]);
        let booking = acme.get(&path).await.ok(200);
        assert_eq!(booking["status"], "protected");
        assert_eq!(entries(&server, &vkey).await, 3);
        assert_eq!(acme.events(&id).await.len(), 2);
        // The current quote is accepted, even under the same key: a refusal is not remembered.
        let taken = acme.post_once(&cancel, "key", &expecting(fresh)).await;
        assert_eq!(taken.ok(201)["evaluation"]["refund"], fresh["refund"]);

        // What is owed rises although nothing went back before either.
        let mut ask = json!({
            "canceledBy": "organizer",
            "expected": {"refundMinorUnits": 0, "penaltyMinorUnits": owed["penalty"]["minorUnits"]}
        });
        let cancel = format!("/v1/bookings/{unpaid}/cancel");
        let refused = acme.post(&cancel, &ask).await;
        refused.refused(409, "quote_changed");
        let fresh = &refused.json()["evaluation"];
        assert_eq!(fresh["balanceDue"]["minorUnits"], 125_050);
        ask["expected"]["penaltyMinorUnits"] = fresh["penalty"]["minorUnits"].clone();
        let taken = acme.cancel(&unpaid, &ask).await;
        assert_eq!(taken["evaluation"]["balanceDue"], fresh["balanceDue"]);
    })
    .await;
}

#[tokio::test]
async fn what_no_machine_can_know_is_left_open_and_decided_once() {
    with_partner_on_every_engine(async |server, acme| {
        let vkey = server.vkey().await;
        let booking = acme.book().await;
        let pending = acme.cancel(&booking, &samples::open_cancellation()).await;
        pending.holds(json!({"status": "pending_review", "evidenceGrade": "record_only"}));
        let evaluation = &pending["evaluation"];
        assert_eq!(evaluation["evaluationStatus"], "review_required");
        assert_eq!(evaluation["refund"], Value::Null);
        assert_eq!(evaluation["reviewReasons"], json!(["evidence_missing"]));
        assert_eq!(evaluation["assumptions"], json!(["policy_assumed_from_library"]));
        assert!(!evaluation.list("alternatives").is_empty());
        let asked = format!("/v1/bookings/{booking}/policy-evaluation");
        assert_eq!(acme.get(&asked).await.ok(200), *evaluation);
        let packet = format!("/v1/bookings/{booking}/evidence");
        let open = acme.get(&packet).await;
        assert!(evidence::verify(&open.body, &vkey).verified());

        server.advance(86_400_000);
        let pending_at = format!("/v1/resolutions/{}", pending.text("resolutionId"));
        let decide = format!("{pending_at}/decide");
        let reply = acme.post(&decide, &samples::decision()).await;
        let decided = reply.ok(201);
        assert_eq!(decided["status"], "decided");
        assert_eq!(decided["supersedes"], pending["resolutionId"]);
        assert_eq!(decided["evaluation"]["evaluationStatus"], "final");
        assert_eq!(decided["evaluation"]["refund"]["minorUnits"], 100_025);
        assert_eq!(decided["evaluation"]["penalty"]["minorUnits"], 25_025);
        let expected = json!({
            "refund": {"amount": "1000.25", "minorUnits": 100_025, "currency": "USD"}, "decidedBy": "disputes",
            "rationale": "There was a storm indeed.", "decidedAt": "2026-09-22T14:13:20.000Z"
        });
        assert_eq!(decided["decision"], expected);
        let location = reply.header("location").unwrap();
        assert_eq!(acme.get(location).await.ok(200), decided);

        // The pending resolution is unchanged and names the one that replaced it.
        let mut first = acme.get(&pending_at).await.ok(200);
        assert_eq!(first["supersededBy"], decided["resolutionId"]);
        first.as_object_mut().unwrap().remove("supersededBy");
        assert_eq!(first, pending);
        assert_eq!(acme.get(&asked).await.ok(200), decided["evaluation"]);

        let same = acme.post(&decide, &samples::decision()).await.ok(201);
        assert_eq!(same, decided);
        // A client that never got the first answer and repeats the cancellation gets the decided resolution.
        let mut again = samples::open_cancellation();
        again["expected"] = json!({"resolutionPath": "manual_review"});
        let again = acme.cancel(&booking, &again).await;
        assert_eq!(again["resolutionId"], decided["resolutionId"]);
        let mut other = samples::decision();
        other["refund"] = json!(1);
        for path in [&decide, &format!("{location}/decide")] {
            let refused = acme.post(path, &other).await;
            refused.refused(409, "resolution_already_decided");
            assert_eq!(refused.json()["resolutionId"], decided["resolutionId"]);
        }
        let events = acme.events(&booking).await;
        assert_eq!(events.len(), 3);
        assert_eq!(events[1]["payload"]["supersedes"], Value::Null);
        assert_eq!(events[2]["payload"]["supersedes"], pending["resolutionId"]);
        assert_eq!(events[2]["timestamp"], "2026-09-22T14:13:20.000Z");
        assert_eq!(entries(&server, &vkey).await, 4);

        let closed = acme.get(&packet).await;
        let report = evidence::verify(&closed.body, &vkey);
        assert!(report.verified(), "{report}");
        assert_eq!(closed.json()["resolution"], decided);
        // The packet from before the decision still verifies.
        assert!(evidence::verify(&open.body, &vkey).verified());
    })
    .await;
}

#[tokio::test]
async fn a_node_whose_clock_is_behind_cancels_what_another_has_just_recorded() {
    with_partner_on_every_engine(async |server, acme| {
        let vkey = server.vkey().await;
        let booking = acme.book().await;
        acme.protect(&booking).await;
        server.advance(-2_500);
        let path = format!("/v1/bookings/{booking}");
        let asked = format!("{path}/policy-evaluation?matrix=true");
        let shown = acme.get(&asked).await.ok(200);
        assert_eq!(shown["evaluationStatus"], "evaluated");
        let resolution = acme.cancel(&booking, &samples::cancellation()).await;
        assert_eq!(resolution["evaluation"]["refund"], shown["refund"]);
        let packet = acme.get(&format!("{path}/evidence")).await;
        let report = evidence::verify(&packet.body, &vkey);
        assert!(report.verified(), "{report}");
        server.close().await.verify(1).await;
    })
    .await;
}
