//! The worked policy cases of `vectors/policy.json` over HTTP, on every engine: booked, protected, and evaluated or
//! canceled at a set clock. Every cancellation verifies offline afterwards.

use std::collections::BTreeMap;

use bookguard_core::evidence;
use bookguard_core::model::Timestamp;
use bookguard_server::config::Config;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::policy_vectors::{Object, object, same, text};

/// Cases with a date without a time zone: HTTP refuses them, the pure function can be told to assume one.
const WITHOUT_A_ZONE: [&str; 2] = ["C25", "C26"];
/// When the cancellation of a case that starts with a canceled booking was received.
const CANCELED_AT: &str = "2026-06-01T00:00:00Z";

#[tokio::test]
async fn every_case_comes_out_over_http_as_it_does_in_the_pure_function() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            library_policies: false,
            ..config
        });
        let server = server.await;
        let partner = server.partner("Acme").await;
        let fixture = Fixture { server, partner };
        let cases: Vec<Object> =
            serde_json::from_str(include_str!("../../vectors/policy.json")).unwrap();
        let (mut asked, mut moved, mut verified, mut faults) = (0, 0, 0, Vec::new());
        for case in &cases {
            let id = text(case, "id");
            asked += 1;
            moved += usize::from(case["booking"].get().contains("\"amendments\""));
            let (booking, reply) = fixture.play(case).await;
            faults.extend(differences(&id, case, &reply));
            let provable = reply.status == 201 || case["booking"].get().contains("\"amendments\"");
            if let Some(booking) = booking.filter(|_| provable) {
                fixture.verify(&booking).await;
                verified += 1;
            }
        }
        assert_eq!((cases.len(), asked, moved), (60, 60, 2));
        assert!(verified >= 10, "{verified}");
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    })
    .await;
}

struct Fixture {
    server: TestServer,
    partner: Partner,
}

impl Fixture {
    fn set_clock(&self, to: &str) {
        let to = Timestamp::parse(to).unwrap_or_else(|| panic!("{to} is not an instant"));
        self.server.set_clock(to.ms());
    }

    /// Plays a case and returns the booking's id, once there is one, and the last answer.
    async fn play(&self, case: &Object) -> (Option<String>, Reply) {
        let caller = &self.partner.caller;
        let booking = object(&case["booking"]);
        self.set_clock(&text(&booking, "createdAt"));
        let made = caller
            .post_text("/v1/bookings", new_booking(case, &booking))
            .await;
        if made.status != 201 {
            return (None, made);
        }
        let id = made.string("bookingId");
        let path = format!("/v1/bookings/{id}");
        match text(&booking, "state").as_str() {
            "created" => {}
            "protected" => drop(self.partner.protect(&id).await),
            "canceled" => {
                self.partner.protect(&id).await;
                self.set_clock(CANCELED_AT);
                let recorded = object(&booking["resolution"]);
                let request = recorded["request"].get().to_owned();
                let first = caller.post_text(&format!("{path}/cancel"), request).await;
                assert_eq!(first.status, 201, "{}", first.text());
            }
            other => panic!("what is {other}?"),
        }
        for reschedule in reschedules(&booking) {
            self.set_clock(&text(&reschedule, "at"));
            let date = text(&reschedule, "newEventDate");
            let body = serde_json::json!({"eventDate": date, "agreedBy": ["organizer", "talent"]});
            let moved = caller.post(&format!("{path}/reschedule"), &body).await;
            assert_eq!(moved.status, 200, "{}", moved.text());
        }
        let reply = match case.get("asOf") {
            Some(_) => {
                self.set_clock(&text(case, "asOf"));
                let query: Vec<String> = ["canceledBy", "reason"]
                    .into_iter()
                    .filter(|name| case.contains_key(*name))
                    .map(|name| format!("{name}={}", text(case, name)))
                    .collect();
                let path = format!("{path}/policy-evaluation?{}", query.join("&"));
                caller.get(&path).await
            }
            None => {
                let mut request = object(&case["cancellation"]);
                self.set_clock(&text(&request, "receivedAt"));
                request.remove("receivedAt");
                if let Some(evidence) = request.get_mut("evidence") {
                    *evidence = evidence_of(evidence);
                }
                let body = serde_json::to_string(&request).unwrap();
                caller.post_text(&format!("{path}/cancel"), body).await
            }
        };
        (Some(id), reply)
    }

    /// Asserts that a canceled booking's packet verifies.
    async fn verify(&self, booking: &str) {
        let packet = self.partner.packet(booking).await;
        assert_eq!(packet.status, 200, "{}", packet.text());
        let key = self.server.vkey().await;
        let report = evidence::verify(&packet.body, &key);
        assert!(report.verified(), "{report}");
        let shown = report.to_string();
        assert!(
            shown.contains("with the same result") || shown.contains("a person had to decide"),
            "{shown}"
        );
    }
}

/// Returns the body that creates the case's booking, with its numbers as written.
fn new_booking(case: &Object, booking: &Object) -> String {
    let raw = |json: String| RawValue::from_string(json).unwrap();
    let party = |name: &str| {
        let name = booking[name].get();
        raw(format!(r#"{{"id":"p1","name":{name}}}"#))
    };
    let mut body = BTreeMap::from([
        ("talent", party("talent")),
        ("organizer", party("organizer")),
    ]);
    let names = "eventType eventDate timeZone bookingValue amountPaid currency";
    for name in names.split(' ') {
        if let Some(value) = booking.get(name) {
            body.insert(name, value.clone());
        }
    }
    if let Some(first) = reschedules(booking).first() {
        // The case names the date after its reschedules; the booking is created with the one before.
        body.insert("eventDate", first["previousEventDate"].clone());
    }
    if case["policy"].get() != "null" {
        body.insert("policy", case["policy"].clone());
    }
    serde_json::to_string(&body).unwrap()
}

/// Returns the case's reschedules, oldest first.
fn reschedules(booking: &Object) -> Vec<Object> {
    let list = booking.get("amendments");
    list.map_or_else(Vec::new, |raw| serde_json::from_str(raw.get()).unwrap())
}

/// Returns the case's evidence, with the digests that cases leave out.
fn evidence_of(evidence: &RawValue) -> Box<RawValue> {
    let mut items: Vec<Value> = serde_json::from_str(evidence.get()).unwrap();
    for item in &mut items {
        if !item.is_object() {
            *item = serde_json::json!({ "kind": "document" });
        }
        let digest = item["sha256"].as_str().unwrap_or_default();
        if digest.len() != 71 {
            item["sha256"] = format!("sha256:{}", "ab".repeat(32)).into();
        }
        if item["kind"].is_null() {
            item["kind"] = "document".into();
        }
    }
    RawValue::from_string(serde_json::to_string(&items).unwrap()).unwrap()
}

/// Returns a line for every member that is not as expected.
fn differences(id: &str, case: &Object, reply: &Reply) -> Vec<String> {
    let answer = reply.json();
    if WITHOUT_A_ZONE.contains(&id) {
        reply.refused(400, "time_zone_required");
        return Vec::new();
    }
    let expected: Value = serde_json::from_str(case["expected"].get()).unwrap();
    let evaluation = match reply.status {
        201 => &answer["evaluation"],
        _ => &answer,
    };
    let expected = expected.as_object().unwrap();
    let wrong = expected.iter().filter_map(|(name, wanted)| {
        let got = match name.as_str() {
            "error" => {
                let code = wanted.text("code");
                return (reply.code() != code).then(|| (name, wanted.clone(), answer.clone()));
            }
            "explanationCode" => &evaluation["explanation"]["code"],
            "policyHash" => &evaluation["policy"]["policyHash"],
            name => &evaluation[name],
        };
        (!same(name, wanted, got)).then(|| (name, wanted.clone(), got.clone()))
    });
    wrong
        .map(|(name, wanted, got)| {
            format!(
                "{id}: {name}: expected {wanted}, got {got} ({}: {answer})",
                reply.status
            )
        })
        .collect()
}
