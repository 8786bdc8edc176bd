//! A partner's own policies: stored, versioned, chosen by name or as a default, and frozen with each booking.

use std::collections::{BTreeMap, BTreeSet};

use bookguard_core::limits::DAY_MS;
use bookguard_core::policy::Policy;
use bookguard_server::config::Config;
use bookguard_tests::engine::{on_every_engine, on_postgres};
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Records a booking with these members and returns the policy that it shows.
async fn policy_of_a_booking(partner: &Partner, members: Value) -> Value {
    let body = samples::booking_with(members);
    let made = partner.post("/v1/bookings", &body).await;
    assert_eq!(made.status, 201, "{body}: {}", made.text());
    let path = made.header("location").unwrap().to_owned();
    partner.get(&path).await.ok(200)["policy"].clone()
}

/// Id, version and source of a booking's policy.
fn summary(policy: &Value) -> (String, u64, String) {
    let text = |name: &str| policy[name].as_str().unwrap().to_owned();
    let version = policy.number("version");
    (text("policyId"), version, text("policySource"))
}

#[tokio::test]
async fn each_change_is_a_version_that_stays_as_it_was() {
    with_partner_on_every_engine(async |server, acme| {
        let first = acme.put("/v1/policies/house", &samples::policy(5000)).await.ok(200);
        let expected = json!({"policyId": "house", "version": 1, "organizer": samples::policy(5000)["organizer"]});
        let expected = Policy::from_json(&expected.to_string()).unwrap();
        first.holds(json!({"policyId": "house", "version": 1}));
        assert_eq!(first["policyHash"], expected.hash());
        assert_eq!(first["policy"], json!(expected));
        assert_eq!(first["english"], json!(expected.in_english()));
        assert_eq!(first["warnings"], json!(expected.warnings()));
        assert_eq!(first["createdAt"], "2026-09-21T14:13:20.000Z");

        // The same policy in another spelling is the same version.
        server.advance(DAY_MS);
        let mut written_out = json!(expected);
        let mut floating = samples::policy(0);
        floating["organizer"]["late"]["refundBps"] = json!(5000.0);
        for same in [samples::policy(5000), written_out.clone(), floating] {
            assert_eq!(acme.put("/v1/policies/house", &same).await.ok(200), first);
        }
        // A change that names the version it is based on.
        written_out["organizer"]["late"]["refundBps"] = json!(2500);
        let second = acme.put("/v1/policies/house", &written_out).await.ok(200);
        assert_eq!(second["version"], 2);
        assert_eq!(second["createdAt"], "2026-09-22T14:13:20.000Z");
        // The same change may be repeated. A different change based on a version that is no longer the latest is refused.
        assert_eq!(acme.put("/v1/policies/house", &written_out).await.ok(200), second);
        written_out["organizer"]["late"]["refundBps"] = json!(1000);
        acme.put_policy("house", &samples::policy(7500)).await;
        let late = acme.put("/v1/policies/house", &written_out).await;
        late.refused(409, "policy_version_conflict");
        late.says(&["latest is 3"]);
        written_out["version"] = json!(4);
        let fourth = acme.put("/v1/policies/house", &written_out).await.ok(200);
        assert_eq!(fourth["version"], 4);
        // Restoring former contents makes a new version.
        assert_eq!(acme.put_policy("house", &samples::policy(5000)).await, 5);

        acme.put_policy("a-second", &samples::policy(0)).await;
        let get = async |path: &str| acme.get(path).await.ok(200);
        assert_eq!(get("/v1/policies/house?version=1").await, first);
        assert_eq!(get("/v1/policies/house?version=2").await, second);
        assert_eq!(get("/v1/policies/house").await["version"], 5);
        let list = get("/v1/policies").await;
        let listed = |list: &Value| -> Vec<(String, u64)> {
            let rows = list.list("data").iter();
            rows.map(|row| (row.text("policyId").to_owned(), row.number("version"))).collect()
        };
        assert_eq!(listed(&list), [("a-second".to_owned(), 1), ("house".to_owned(), 5)]);
        let page = get("/v1/policies?limit=1").await;
        assert_eq!(page["nextCursor"], "a-second");
        assert_eq!(listed(&get("/v1/policies?limit=1&cursor=a-second").await), [("house".to_owned(), 5)]);
        let versions = get("/v1/policies/house/versions?limit=3").await;
        let numbers = |list: &Value| listed(list).into_iter().map(|(_, n)| n).collect::<Vec<_>>();
        assert_eq!((numbers(&versions), &versions["nextCursor"]), (vec![5, 4, 3], &json!("3")));
        let rest = get("/v1/policies/house/versions?limit=3&cursor=3").await;
        assert_eq!((numbers(&rest), &rest["hasMore"]), (vec![2, 1], &json!(false)));
        assert_eq!(rest["data"][1]["policyHash"], first["policyHash"]);
        server.close().await.verify(0).await;
    })
    .await;
}

#[tokio::test]
async fn the_first_policy_that_there_is_wins() {
    with_partner_on_every_engine(async |server, acme| {
        acme.put_policy("house", &samples::policy(0)).await;
        acme.put_policy("gala", &samples::policy(100)).await;
        let library = policy_of_a_booking(&acme, json!({})).await;
        assert_eq!(summary(&library), ("talent_standard".to_owned(), 1, "library".to_owned()));
        let other = policy_of_a_booking(&acme, json!({"eventType": "quiz night"})).await;
        assert_eq!(summary(&other), ("firm".to_owned(), 1, "library".to_owned()));

        let me = acme.decide(json!({"defaultPolicies": {"Live Music": "moderate", "concert": "gala", "*": "house"}})).await;
        let defaults = json!({"*": "house", "concert": "gala", "live_music": "moderate"});
        assert_eq!(me["defaultPolicies"], defaults);
        assert_eq!(acme.get("/v1/partners/me").await.ok(200), me);
        acme.put_policy("gala", &samples::policy(200)).await;
        let inline = json!({"policyId": "house", "organizer": {"late": {"refundBps": 1}}, "version": 7});
        for (members, expected) in [
            (json!({"policy": inline}), ("house", 7, "booking")),
            (json!({"policyId": "house"}), ("house", 1, "named")),
            (json!({"policyId": "flexible"}), ("flexible", 1, "named")),
            (json!({}), ("gala", 2, "partner_default_for_event_type")),
            (json!({"eventType": "  CONCERT "}), ("gala", 2, "partner_default_for_event_type")),
            (json!({"eventType": "live-music"}), ("moderate", 1, "partner_default_for_event_type")),
            (json!({"eventType": "quiz night"}), ("house", 1, "partner_default")),
        ] {
            let shown = policy_of_a_booking(&acme, members.clone()).await;
            let (id, version, source) = expected;
            assert_eq!(summary(&shown), (id.to_owned(), version, source.to_owned()), "{members}");
        }
        // `null` removes a default; members left out stay.
        let me = acme.decide(json!({"defaultPolicies": {"CONCERT": null, "never there": null}})).await;
        assert_eq!(me["defaultPolicies"], json!({"*": "house", "live_music": "moderate"}));
        let shown = policy_of_a_booking(&acme, json!({})).await;
        assert_eq!(summary(&shown).2, "partner_default");
        acme.decide(json!({"defaultPolicies": {"*": null}})).await;
        assert_eq!(summary(&policy_of_a_booking(&acme, json!({})).await).2, "library");
        // A letter whose lower case is two characters is found and removed as it is shown, and does not count as damage.
        let shown = "i\u{307}mza_günü";
        let me = acme.decide(json!({"defaultPolicies": {"İmza günü": "strict", "live_music": null}})).await;
        assert_eq!(me["defaultPolicies"], json!({shown: "strict"}));
        acme.decide(json!({"defaultPolicies": {shown: null, "İlk": "strict"}})).await;
        let signing = policy_of_a_booking(&acme, json!({"eventType": "İLK"})).await;
        assert_eq!(summary(&signing).2, "partner_default_for_event_type");
        server.close().await.verify(12).await;
    })
    .await;
}

#[tokio::test]
async fn without_the_library_only_a_partner_s_own_decision_makes_a_policy() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            library_policies: false,
            ..config
        });
        let server = server.await;
        let acme = server.partner("Acme").await;
        assert_eq!(policy_of_a_booking(&acme, json!({})).await, Value::Null);
        acme.decide(json!({"defaultPolicies": {"*": "firm"}})).await;
        let shown = policy_of_a_booking(&acme, json!({})).await;
        assert_eq!(
            summary(&shown),
            ("firm".to_owned(), 1, "partner_default".to_owned())
        );
    })
    .await;
}

#[tokio::test]
async fn the_partner_s_time_zone_comes_after_the_booking_s_and_the_policy_s() {
    with_partner_on_every_engine(async |_server, acme| {
        let me = acme.decide(json!({"timeZone": "Asia/Tokyo"})).await;
        assert_eq!(me["timeZone"], "Asia/Tokyo");
        let mut zoned = samples::policy(0);
        zoned["timeZone"] = "Europe/Berlin".into();
        acme.put_policy("berlin", &zoned).await;
        let local = "2031-06-20T19:00:00";
        for (members, expected) in [
            (json!({"eventDate": local}), "2031-06-20T10:00:00.000Z"),
            (
                json!({"eventDate": local, "policyId": "berlin"}),
                "2031-06-20T17:00:00.000Z",
            ),
            (
                json!({"eventDate": local, "policyId": "berlin", "timeZone": "America/New_York"}),
                "2031-06-20T23:00:00.000Z",
            ),
        ] {
            let made = acme
                .post("/v1/bookings", &samples::booking_with(members.clone()))
                .await;
            let path = format!("/v1/bookings/{}", made.string("bookingId"));
            assert_eq!(
                acme.get(&path).await.ok(200)["eventDate"],
                expected,
                "{members}"
            );
        }
        let me = acme.decide(json!({"timeZone": null})).await;
        assert!(me["timeZone"].is_null() && me["defaultPolicies"].is_null());
        let booking = samples::booking_with(json!({"eventDate": local}));
        let refused = acme.post("/v1/bookings", &booking).await;
        assert_eq!(
            refused.details(),
            [("/timeZone".to_owned(), "time_zone_required".to_owned())]
        );
    })
    .await;
}

#[tokio::test]
async fn what_changes_later_never_reaches_a_booking() {
    with_partner_on_every_engine(async |server, acme| {
        acme.put_policy("house", &samples::policy(5000)).await;
        acme.decide(json!({"defaultPolicies": {"*": "house"}, "timeZone": "Asia/Tokyo"}))
            .await;
        let booking = acme.book().await;
        let path = format!("/v1/bookings/{booking}");
        let evaluated = async || {
            let asked = format!("{path}/policy-evaluation?asOf=2031-06-20T12:00:00Z");
            acme.get(&asked).await.ok(200)["refund"].clone()
        };
        let (shown, refund) = (acme.get(&path).await.ok(200), evaluated().await);
        assert_eq!(refund["amount"], "625.25");
        acme.put_policy("house", &samples::policy(0)).await;
        acme.decide(json!({"defaultPolicies": {"*": null}, "timeZone": null}))
            .await;
        assert_eq!(
            (acme.get(&path).await.ok(200), evaluated().await),
            (shown, refund)
        );
        acme.protect(&booking).await;
        let packet = acme.get(&format!("{path}/evidence")).await.ok(200);
        assert!(packet.to_string().contains("\"refundBps\":5000"));
        server.close().await.verify(1).await;
    })
    .await;
}

/// A change made on one node applies to the next booking on another.
#[tokio::test]
async fn a_booking_on_another_node_takes_what_was_answered_before_it() {
    on_postgres(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let node = server.second_node().await;
        let there = acme.on(&node.url());
        for round in 0..5_u32 {
            let (here, there) = match round % 2 {
                0 => (&acme, &there),
                _ => (&there, &acme),
            };
            here.put_policy("house", &samples::policy(round)).await;
            let shown = policy_of_a_booking(there, json!({"policyId": "house"})).await;
            assert_eq!(shown["version"], u64::from(round) + 1);
            // A name that this node has not seen before.
            let named = format!("new-{round}");
            here.put_policy(&named, &samples::policy(round)).await;
            let shown = policy_of_a_booking(there, json!({ "policyId": named })).await;
            assert_eq!(summary(&shown).0, named);
            here.decide(json!({"defaultPolicies": {"*": named}})).await;
            let shown = policy_of_a_booking(there, json!({})).await;
            assert_eq!(summary(&shown), (named, 1, "partner_default".to_owned()));
        }
        node.stop().await;
        server.close().await.verify(15).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_versions_are_put_every_booking_has_an_existing_one() {
    on_every_engine(async |engine| {
        const EACH: u32 = 30;
        let (server, acme) = TestServer::with_partner(engine).await;
        acme.put_policy("house", &samples::policy(9999)).await;
        acme.decide(json!({"defaultPolicies": {"*": "house"}}))
            .await;
        let mut nodes = vec![acme.clone()];
        let second = match server.database().db().file() {
            Some(_) => None,
            None => Some(server.second_node().await),
        };
        nodes.extend(second.as_ref().map(|node| acme.on(&node.url())));
        let mut putting = JoinSet::new();
        let mut booking = JoinSet::new();
        for (n, node) in (0_u32..).zip(nodes) {
            for round in 0..EACH {
                let (writer, reader) = (node.clone(), node.clone());
                let policy = samples::policy(1000 * n + round);
                putting.spawn(async move { writer.put_policy("house", &policy).await });
                booking.spawn(async move { policy_of_a_booking(&reader, json!({})).await });
            }
        }
        let bookings = booking.len();
        let numbers: BTreeSet<u64> = putting.join_all().await.into_iter().collect();
        let taken = booking.join_all().await;
        assert_eq!(
            numbers,
            (2..=bookings as u64 + 1).collect(),
            "each its own, none left out"
        );
        let mut hashes = BTreeMap::new();
        for number in 1..=bookings as u64 + 1 {
            let path = format!("/v1/policies/house?version={number}");
            let version = acme.get(&path).await.ok(200);
            hashes.insert(number, version["policyHash"].clone());
        }
        for policy in taken {
            let (id, version, source) = summary(&policy);
            assert_eq!((id.as_str(), source.as_str()), ("house", "partner_default"));
            assert_eq!(hashes[&version], policy["policyHash"]);
        }
        if let Some(node) = second {
            node.stop().await;
        }
        server.close().await.verify(bookings).await;
    })
    .await;
}

#[tokio::test]
async fn a_partner_has_a_hundred_policies_and_no_more() {
    with_partner_on_every_engine(async |_server, acme| {
        for n in 0..100 {
            acme.put_policy(&format!("p{n}"), &samples::policy(0)).await;
        }
        let more = acme.put("/v1/policies/p100", &samples::policy(0)).await;
        more.refused(409, "too_many_policies");
        assert_eq!(acme.put_policy("p99", &samples::policy(1)).await, 2);
        let shown = policy_of_a_booking(&acme, json!({"policyId": "p99"})).await;
        assert_eq!(summary(&shown), ("p99".to_owned(), 2, "named".to_owned()));
        let last = acme.get("/v1/policies?limit=100").await.ok(200);
        assert_eq!(
            (&last["hasMore"], last.list("data").len()),
            (&json!(false), 100)
        );
    })
    .await;
}
