//! JSON that is wrong: each fault named by pointer, code and fix; all of them at once; and nothing written.

use bookguard_core::text;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

/// The members of a good booking, as they are written.
const MEMBERS: [(&str, &str); 6] = [
    ("talent", r#"{"id":"t1","name":"The Night Owls"}"#),
    ("organizer", r#"{"id":"o1","name":"Acme Events"}"#),
    ("eventType", r#""concert""#),
    ("eventDate", r#""2031-06-20T19:00:00-04:00""#),
    ("bookingValue", "1250.50"),
    ("currency", r#""USD""#),
];

/// A good booking with one member written otherwise, or added.
fn booking(name: &str, written: &str) -> String {
    let mut members: Vec<(&str, &str)> = MEMBERS.to_vec();
    match members.iter_mut().find(|(known, _)| *known == name) {
        Some(member) => member.1 = written,
        None => members.push((name, written)),
    }
    let members = members
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn text(characters: usize) -> String {
    format!("\"{}\"", "é".repeat(characters))
}

/// Every detail must say what is wrong and what would be right.
pub(crate) fn assert_helpful(reply: &Reply, of: &str) {
    for detail in reply.json()["details"].as_array().unwrap() {
        for name in ["message", "fix"] {
            let words = detail[name].as_str().unwrap();
            assert!(words.len() > 5, "{of}: {detail}");
        }
    }
}

#[tokio::test]
async fn each_wrong_member_of_a_booking_is_named_with_a_code_and_a_fix() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let before = acme.caller.get("/v1/ledger/checkpoint").await.text();
        let long_id = format!(r#"{{"id":{},"name":"n"}}"#, text(129));
        let long_name = format!(r#"{{"id":"i","name":{}}}"#, text(201));
        let pairs: Vec<String> = (0..21).map(|n| format!("\"k{n}\":\"v\"")).collect();
        let pairs = format!("{{{}}}", pairs.join(","));
        let long_key = format!("{{{}:\"v\"}}", text(65));
        let long_value = format!("{{\"k\":{}}}", text(501));
        let cases: Vec<(&str, &str, &str, &str)> = vec![
            // money
            ("bookingValue", "\"12\"", "/bookingValue", "wrong_type"),
            ("bookingValue", "true", "/bookingValue", "wrong_type"),
            ("bookingValue", "[1]", "/bookingValue", "wrong_type"),
            ("bookingValue", "{}", "/bookingValue", "wrong_type"),
            ("bookingValue", "null", "/bookingValue", "null"),
            ("bookingValue", "-1", "/bookingValue", "amount_negative"),
            ("bookingValue", "-1e-2", "/bookingValue", "amount_negative"),
            ("bookingValue", "1e400", "/bookingValue", "amount_too_large"),
            (
                "bookingValue",
                "1e99999999999999999999",
                "/bookingValue",
                "amount_too_large",
            ),
            (
                "bookingValue",
                "10000000000000",
                "/bookingValue",
                "amount_too_large",
            ),
            (
                "bookingValue",
                "99999999999999999999999999999999",
                "/bookingValue",
                "amount_too_large",
            ),
            ("bookingValue", "0.001", "/bookingValue", "amount_precision"),
            (
                "bookingValue",
                "12.345",
                "/bookingValue",
                "amount_precision",
            ),
            (
                "bookingValue",
                "1e-400",
                "/bookingValue",
                "amount_precision",
            ),
            ("amountPaid", "-1", "/amountPaid", "amount_negative"),
            ("amountPaid", "\"1\"", "/amountPaid", "wrong_type"),
            ("currency", "\"usd\"", "/currency", "currency_unknown"),
            ("currency", "\"\"", "/currency", "currency_unknown"),
            (
                "currency",
                "\"XAU\"",
                "/currency",
                "currency_has_no_minor_unit",
            ),
            ("currency", "840", "/currency", "wrong_type"),
            ("currency", "null", "/currency", "null"),
            ("currency", "\"JPY\"", "/bookingValue", "amount_precision"),
            // parties
            ("talent", "null", "/talent", "null"),
            ("talent", "\"t1\"", "/talent", "wrong_type"),
            ("talent", "[]", "/talent", "wrong_type"),
            ("talent", r#"{"name":"n"}"#, "/talent/id", "missing_field"),
            ("talent", r#"{"id":"i"}"#, "/talent/name", "missing_field"),
            (
                "talent",
                r#"{"id":7,"name":"n"}"#,
                "/talent/id",
                "wrong_type",
            ),
            (
                "talent",
                r#"{"id":"i","name":null}"#,
                "/talent/name",
                "null",
            ),
            ("talent", r#"{"id":"","name":"n"}"#, "/talent/id", "empty"),
            (
                "talent",
                r#"{"id":"i","name":"  "}"#,
                "/talent/name",
                "empty",
            ),
            (
                "talent",
                r#"{"id":"i","name":"n","nmae":"x"}"#,
                "/talent/nmae",
                "unknown_field",
            ),
            (
                "talent",
                r#"{"id":"i","name":"n","id":"j"}"#,
                "/talent/id",
                "duplicate_key",
            ),
            (
                "talent",
                r#"{"id":"i","name":"a\u0000b"}"#,
                "/talent/name",
                "control_character",
            ),
            (
                "talent",
                r#"{"id":"i","name":"a\nb"}"#,
                "/talent/name",
                "control_character",
            ),
            (
                "talent",
                r#"{"id":"i","name":"a\u0085b"}"#,
                "/talent/name",
                "control_character",
            ),
            (
                "talent",
                r#"{"id":"i","name":"a\u001b[31mb"}"#,
                "/talent/name",
                "control_character",
            ),
            (
                "talent",
                r#"{"id":"i","name":"\ud83c"}"#,
                "/talent/name",
                "invalid_string",
            ),
            (
                "talent",
                r#"{"id":"i","name":"\udfb8\ud83c"}"#,
                "/talent/name",
                "invalid_string",
            ),
            ("talent", &long_id, "/talent/id", "too_long"),
            ("organizer", &long_name, "/organizer/name", "too_long"),
            // text, time
            ("eventType", "5", "/eventType", "wrong_type"),
            ("eventType", "\"\"", "/eventType", "empty"),
            ("eventDate", "\"tomorrow\"", "/eventDate", "invalid_date"),
            ("eventDate", "1929812400", "/eventDate", "wrong_type"),
            (
                "eventDate",
                "\"2031-02-30T19:00:00Z\"",
                "/eventDate",
                "invalid_date",
            ),
            (
                "eventDate",
                "\"2031-06-20T25:00:00Z\"",
                "/eventDate",
                "invalid_date",
            ),
            (
                "eventDate",
                "\"2031-06-20T19:00:00+25:00\"",
                "/eventDate",
                "invalid_date",
            ),
            (
                "eventDate",
                "\"12031-06-20T19:00:00Z\"",
                "/eventDate",
                "invalid_date",
            ),
            (
                "eventDate",
                "\"2031-06-20 19:00:00Z\"",
                "/eventDate",
                "invalid_date",
            ),
            (
                "eventDate",
                "\"2031-06-20T19:00:00\"",
                "/timeZone",
                "time_zone_required",
            ),
            (
                "eventDate",
                "\"2031-06-20\"",
                "/timeZone",
                "time_zone_required",
            ),
            (
                "timeZone",
                "\"Mars/Olympus\"",
                "/timeZone",
                "time_zone_unknown",
            ),
            ("timeZone", "-4", "/timeZone", "wrong_type"),
            // policy
            ("policyId", "\"frim\"", "/policyId", "policy_unknown"),
            ("policyId", "1", "/policyId", "wrong_type"),
            ("policy", "\"firm\"", "/policy", "wrong_type"),
            (
                "policy",
                r#"{"policyId":"p","name":"P","organizer":{"late":{"refundBps":0}},"graec":{}}"#,
                "/policy/graec",
                "unknown_field",
            ),
            // metadata
            ("metadata", "[]", "/metadata", "wrong_type"),
            ("metadata", &pairs, "/metadata", "too_many"),
            ("metadata", r#"{"k":5}"#, "/metadata/k", "wrong_type"),
            ("metadata", r#"{"k":null}"#, "/metadata/k", "null"),
            (
                "metadata",
                r#"{"k":"a","k":"b"}"#,
                "/metadata/k",
                "duplicate_key",
            ),
            ("metadata", r#"{"":"v"}"#, "/metadata/", "bad_key"),
            ("metadata", &long_value, "/metadata/k", "too_long"),
            // members
            ("partnerId", "5", "/partnerId", "wrong_type"),
            ("bookingvalue", "5", "/bookingvalue", "unknown_field"),
            ("a/b~c", "5", "/a~1b~0c", "unknown_field"),
            ("__proto__", "{}", "/__proto__", "unknown_field"),
        ];
        for (name, written, pointer, code) in cases {
            let reply = acme
                .caller
                .post_text("/v1/bookings", booking(name, written))
                .await;
            assert_eq!(reply.status, 400, "{name}: {written}: {}", reply.text());
            let expected = (pointer.to_owned(), code.to_owned());
            assert!(
                reply.details().contains(&expected),
                "{name}: {written}: {}",
                reply.text()
            );
            assert_eq!(
                reply.details().len(),
                1,
                "{name}: {written}: {}",
                reply.text()
            );
            assert_eq!(reply.code(), code, "the only fault's code is the error's");
            assert_helpful(&reply, written);
        }
        let reply = acme
            .caller
            .post_text("/v1/bookings", booking("metadata", &long_key))
            .await;
        assert_eq!(reply.code(), "bad_key");
        nothing_was_written(&server, &acme, &before).await;
    })
    .await;
}

async fn nothing_was_written(
    server: &TestServer,
    acme: &bookguard_tests::test_server::Partner,
    before: &str,
) {
    let list = acme.caller.get("/v1/bookings").await.ok(200);
    assert_eq!(list["data"].as_array().unwrap().len(), 0);
    let after = server.caller().get("/v1/ledger/checkpoint").await.text();
    assert_eq!(after, before, "the log did not grow");
}

#[tokio::test]
async fn what_is_unusual_but_right_is_kept_exactly() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        for (name, written, shown) in [
            ("bookingValue", "0", json!(0)),
            ("bookingValue", "-0", json!(0)),
            ("bookingValue", "1e3", json!(1000)),
            (
                "bookingValue",
                "1250.5000000000000000000000000000",
                json!(1250.5),
            ),
            ("bookingValue", "9999999999999.99", json!(9999999999999.99)),
            ("bookingValue", "0.01", json!(0.01)),
            ("eventType", r#""\ud83c\udfb8 gig""#, json!("🎸 gig")),
            ("eventType", "\"שלום عالم\"", json!("שלום عالم")),
            ("eventType", "\"e\u{301}\"", json!("e\u{301}")),
            (
                "eventType",
                "\"می\u{200c}خواهم 👩\u{200d}🚀\"",
                json!("می\u{200c}خواهم 👩\u{200d}🚀"),
            ),
            (
                "eventType",
                r#""a\u002fb \\ \"q\" <script>""#,
                json!("a/b \\ \"q\" <script>"),
            ),
            (
                "eventType",
                "\"' OR 1=1; DROP TABLE booking; --\"",
                json!("' OR 1=1; DROP TABLE booking; --"),
            ),
            ("eventType", &text(200), json!("é".repeat(200))),
            (
                "eventDate",
                "\"2031-06-20T19:00:00.123456789+05:30\"",
                json!("2031-06-20T13:30:00.000Z"),
            ),
            (
                "eventDate",
                "\"1999-12-31T23:59:59Z\"",
                json!("1999-12-31T23:59:59.000Z"),
            ),
            (
                "metadata",
                r#"{"a/b~c":"d","k k":"שלום"}"#,
                json!({"a/b~c": "d", "k k": "שלום"}),
            ),
            (
                "timeZone",
                "\"America/New_York\"",
                json!("America/New_York"),
            ),
        ] {
            let reply = acme
                .caller
                .post_text("/v1/bookings", booking(name, written))
                .await;
            assert_eq!(reply.status, 201, "{name}: {written}: {}", reply.text());
            let path = format!("/v1/bookings/{}", reply.string("bookingId"));
            let got = acme.caller.get(&path).await.ok(200);
            assert_eq!(got[name], shown, "{name}: {written}");
        }
        // What the client's own currency allows, and the digits as the client's JSON library will read them.
        for (currency, written, shown) in [
            ("JPY", "125050", "125050"),
            ("KWD", "1.234", "1.234"),
            ("EUR", "0.10", "0.1"),
        ] {
            let mut body: Value =
                serde_json::from_str(&booking("currency", &format!("\"{currency}\""))).unwrap();
            body["bookingValue"] = serde_json::from_str(written).unwrap();
            let made = acme.caller.post("/v1/bookings", &body).await;
            let got = acme
                .caller
                .get(&format!("/v1/bookings/{}", made.string("bookingId")))
                .await;
            assert!(
                got.text().contains(&format!("\"bookingValue\":{shown}")),
                "{}",
                got.text()
            );
        }
    })
    .await;
}

#[tokio::test]
async fn all_faults_are_said_at_once_with_what_was_meant() {
    on_every_engine(async |engine| {
    let server = TestServer::open(engine).await;
    let acme = server.partner("Acme").await;
    let body = r#"{"talent":{"id":"","nmae":"x"},"organiser":{},"eventType":7,"eventDate":"soon",
        "bookingValue":1.005,"currency":"EURO","metadata":{"a":1},"eventType":"again","amountPaid":-1}"#;
    let reply = acme.caller.post_text("/v1/bookings", body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (400, "invalid_request")
    );
    let mut details = reply.details();
    details.sort();
    let expected = [
        ("/currency", "currency_unknown"),
        ("/eventDate", "invalid_date"),
        ("/eventType", "duplicate_key"),
        ("/eventType", "wrong_type"),
        ("/metadata/a", "wrong_type"),
        ("/organiser", "unknown_field"),
        ("/organizer", "missing_field"),
        ("/talent/id", "empty"),
        ("/talent/name", "missing_field"),
        ("/talent/nmae", "unknown_field"),
    ];
    assert_eq!(details, expected.map(|(p, c)| (p.to_owned(), c.to_owned())));
    assert_helpful(&reply, "all at once");
    let fix = |pointer: &str, code: &str| {
        let error = reply.json();
        let details = error["details"].as_array().unwrap().clone();
        let found = details
            .iter()
            .find(|d| d["pointer"] == pointer && d["code"] == code);
        found.unwrap()["fix"].as_str().unwrap().to_owned()
    };
    assert!(fix("/organiser", "unknown_field").contains("organizer"));
    assert!(fix("/talent/nmae", "unknown_field").contains("\"name\""));

    let empty = acme.caller.post_text("/v1/bookings", "{}").await;
    let missing: Vec<String> = empty
        .details()
        .into_iter()
        .map(|(pointer, _)| pointer)
        .collect();
    assert_eq!(
        missing,
        [
            "/talent",
            "/organizer",
            "/eventType",
            "/eventDate",
            "/bookingValue"
        ]
    );
})
    .await;
}

#[tokio::test]
async fn a_booking_is_recorded_only_for_the_partner_of_the_key() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        for id in [
            other.id.as_str(),
            "ptn_00000000000000000000000000000000",
            "x",
        ] {
            let body = samples::booking_with(json!({"partnerId": id}));
            let reply = acme.caller.post("/v1/bookings", &body).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (403, "partner_mismatch")
            );
        }
        let body = samples::booking_with(json!({"partnerId": acme.id}));
        let made = acme.caller.post("/v1/bookings", &body).await.ok(201);
        assert_eq!(made["partnerId"], acme.id.as_str());
    })
    .await;
}

/// The pattern of a text for people in the interface document, and what it says of a text.
fn pattern_of_text() -> impl Fn(&str) -> bool {
    let document = bookguard_server::openapi();
    let name = &document["components"]["schemas"]["Party"]["properties"]["name"];
    let mut compiler = boon::Compiler::new();
    let schema = json!({"pattern": name["pattern"]});
    compiler.add_resource("urn:text", schema).unwrap();
    let mut schemas = boon::Schemas::new();
    let index = compiler.compile("urn:text", &mut schemas).unwrap();
    move |text| schemas.validate(&json!(text), index).is_ok()
}

#[test]
fn the_pattern_of_a_text_is_what_the_reader_asks_as_far_as_it_goes() {
    let matches = pattern_of_text();
    for c in (0..0x1_0000).filter_map(char::from_u32) {
        // Generators write a pattern's characters into JavaScript as they are, where a line must not end inside a pattern.
        if matches!(c, '\u{2028}' | '\u{2029}') {
            assert!(text::is_hidden(c));
            continue;
        }
        let among = format!("a{c}b");
        assert_eq!(
            matches(&among),
            !text::is_hidden(c),
            "U+{:04X}",
            u32::from(c)
        );
        let alone = c.to_string();
        let reads = !text::is_blank(&alone) && text::misplaced(&alone).is_none();
        assert!(!reads || matches(&alone), "U+{:04X} alone", u32::from(c));
    }
    for blank in ["", " ", "\u{200d}\u{fe0f}", "\u{2800}", "\u{a0}"] {
        assert!(!matches(blank), "{blank:?}");
    }
}

#[tokio::test]
async fn no_text_that_a_person_reads_holds_what_hides_or_turns_it() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        let party = |hidden: &str| json!({"id": "t1", "name": hidden});
        for (hidden, code) in [
            ("Acme\u{202e}moc.live", "hidden_character"),
            ("Acme\u{200b}", "hidden_character"),
            ("Acme\u{e0041}\u{e0042}", "hidden_character"),
            ("Ac\u{200d}me", "hidden_character"),
            ("Acme\n", "control_character"),
            ("\u{200b}\u{2060}", "empty"),
            ("\u{301}", "empty"),
        ] {
            let partner = |name: &str| {
                let mut body = samples::partner("Acme");
                body[name] = hidden.into();
                body
            };
            let policy = json!({"policyId": "p", "name": hidden, "organizer": {"cancel": [{"refund": "100%"}]}});
            let cancel = format!("/v1/bookings/{booking}/cancel");
            for (method, path, body, pointer) in [
                ("POST", "/v1/partners/register", partner("name"), "/name"),
                ("POST", "/v1/partners/register", partner("businessType"), "/businessType"),
                ("POST", "/v1/partners/register", partner("contactEmail"), "/contactEmail"),
                ("POST", "/v1/api-keys", json!({"name": hidden}), "/name"),
                ("POST", "/v1/bookings", samples::booking_with(json!({"talent": party(hidden)})), "/talent/name"),
                ("POST", "/v1/bookings", samples::booking_with(json!({"eventType": hidden})), "/eventType"),
                ("POST", "/v1/bookings", samples::booking_with(json!({"metadata": {"k": hidden}})), "/metadata/k"),
                ("PUT", "/v1/policies/p", policy, "/name"),
                ("POST", &cancel, json!({"canceledBy": "organizer", "reason": "other", "note": hidden}), "/note"),
                (
                    "POST",
                    "/v1/webhook-endpoints",
                    json!({"url": "https://example.com", "description": hidden}),
                    "/description",
                ),
            ] {
                let reply = acme.caller.send_json(method, path, body.to_string()).await;
                assert_eq!(reply.status, 400, "{path} {hidden:?}: {}", reply.text());
                let details = reply.details();
                let named = details.contains(&(pointer.to_owned(), code.to_owned()));
                assert!(named, "{path} {hidden:?}: {details:?}");
            }
        }
    })
    .await;
}
