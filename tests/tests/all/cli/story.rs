//! The whole story in commands, wherever they work: on a database, on one that a server is using, on a server.

use std::path::Path;
use std::sync::Arc;

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::program::{CommandLine, Ran, Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

/// Where commands work.
enum Target {
    /// On a database, for this partner once there is one.
    Local(Arc<TestDatabase>, Option<String>),
    /// On a server, with this key once there is one.
    Remote(String, Option<String>),
}

impl Target {
    fn command(&self, args: &[&str]) -> CommandLine {
        match self {
            Self::Local(database, partner) => {
                let line = database.command(args.iter().copied()).arg("--dev");
                match partner {
                    Some(id) => line.arg("--partner").arg(id),
                    None => line,
                }
            }
            Self::Remote(url, key) => {
                let line = bookguard(args.iter().copied()).env("BOOKGUARD_URL", url);
                match key {
                    Some(key) => line.env("BOOKGUARD_API_KEY", key),
                    None => line,
                }
            }
        }
    }

    async fn run(&self, args: &[&str]) -> Ran {
        self.command(args).run().await
    }

    /// Goes on as the partner that was registered.
    fn enter(&mut self, registered: &Value) {
        let text = |name: &str| registered[name].as_str().map(str::to_owned);
        match self {
            Self::Local(_, partner) => *partner = text("partnerId"),
            Self::Remote(_, key) => *key = text("apiKey"),
        }
    }
}

const NEW_BOOKING: [&str; 18] = [
    "bookings",
    "create",
    "--talent-id",
    "tal-7",
    "--talent-name",
    "The Night Owls",
    "--organizer-id",
    "org-3",
    "--organizer-name",
    "Acme Events",
    "--event-type",
    "concert",
    "--event-date",
    "2031-06-20T19:00:00-04:00",
    "--value",
    "1250.50",
    "--metadata",
    "order=17",
];

async fn register(target: &mut Target) -> Value {
    let registered = target.run(&[
        "partners",
        "register",
        "--name",
        "Acme",
        "--business-type",
        "venue",
        "--contact-email",
        "ops@example.com",
    ]);
    let registered = registered.await.json();
    assert_eq!(registered["status"], "active");
    target.enter(&registered);
    registered
}

/// Every step that needs no courier of its own; the booking's id and the partner's signing secret.
async fn tell(target: &mut Target, receiver: &Receiver, folder: &Path) -> (String, String) {
    let registered = register(target).await;
    assert_eq!(
        target.run(&["partners", "me"]).await.string("partnerId"),
        registered["partnerId"].as_str().unwrap()
    );
    assert_eq!(target.run(&["health"]).await.string("status"), "ok");
    keys(target).await;
    let endpoint = target
        .run(&[
            "webhook-endpoints",
            "create",
            &receiver.url(),
            "--description",
            "mine",
        ])
        .await
        .string("endpointId");
    let shown = target
        .run(&["webhook-endpoints", "get", &endpoint])
        .await
        .json();
    assert_eq!(
        (&shown["url"], &shown["enabled"]),
        (&json!(receiver.url()), &json!(true))
    );
    assert_eq!(
        target.run(&["webhook-endpoints", "list"]).await.json()["data"],
        json!([shown])
    );

    let id = target.run(&NEW_BOOKING).await.string("bookingId");
    let shown = target.run(&["bookings", "get", &id]).await;
    assert!(
        shown.stdout.contains("\"bookingValue\":1250.5,"),
        "{}",
        shown.stdout
    );
    assert_eq!(shown.json()["metadata"], json!({"order": "17"}));
    let protected = target.run(&["bookings", "protect", &id]).await.json();
    assert_eq!(protected["protected"], true);
    let page = target
        .run(&["bookings", "list", "--status", "protected", "--limit", "1"])
        .await
        .json();
    assert_eq!(
        (&page["data"][0]["bookingId"], &page["hasMore"]),
        (&json!(id), &json!(false))
    );
    let as_of = [
        "bookings",
        "policy",
        &id,
        "--as-of",
        "2031-06-01T00:00:00Z",
        "--canceled-by",
        "talent",
    ];
    let evaluation = target.run(&as_of);
    assert_eq!(evaluation.await.json()["refund"]["minorUnits"], 125_050);
    policies(target).await;
    once_only(target).await;
    evidence(target, &id, folder).await;
    (id, registered["signingSecret"].as_str().unwrap().to_owned())
}

async fn keys(target: &Target) {
    let made = target.run(&[
        "api-keys",
        "create",
        "--name",
        "reader",
        "--scope",
        "bookings:read,evidence:read",
    ]);
    let made = made.await.json();
    assert_eq!(made["scopes"], json!(["bookings:read", "evidence:read"]));
    let id = made["apiKeyId"].as_str().unwrap();
    let revoked = target.run(&["api-keys", "revoke", id]).await.json();
    assert!(revoked["revokedAt"].is_string());
    let list = target.run(&["api-keys", "list"]).await;
    assert_eq!(list.json()["data"].as_array().unwrap().len(), 2);
    assert!(!list.stdout.contains(made["apiKey"].as_str().unwrap()));
}

/// Policies are checked, put, chosen and shown; a faulty one is refused with its fault, whatever the command.
async fn policies(target: &Target) {
    let reads = async |args: &[&str], policy: &Value| {
        target.command(args).input(policy.to_string()).run().await
    };
    let mut policy = samples::policy(5000);
    assert_eq!(
        reads(&["policies", "put", "house", "--json", "-"], &policy)
            .await
            .json()["version"],
        1
    );
    policy["organizer"]["late"]["refundBps"] = json!(2500);
    let put = reads(&["policies", "put", "house", "--json", "-"], &policy)
        .await
        .json();
    assert_eq!(put["version"], 2);
    assert_eq!(target.run(&["policies", "get", "house"]).await.json(), put);
    let first = target.run(&["policies", "get", "house", "--version", "1"]);
    assert_eq!(
        first.await.json()["policy"]["organizer"]["late"]["refundBps"],
        5000
    );
    let list = target.run(&["policies", "list"]).await.json();
    assert_eq!(list["data"][0]["policyHash"], put["policyHash"]);
    let versions = target
        .run(&["policies", "versions", "house", "--limit", "1"])
        .await
        .json();
    assert_eq!(
        (&versions["data"][0], &versions["nextCursor"]),
        (&list["data"][0], &json!("2"))
    );
    let table = target
        .run(&["policies", "get", "house", "--output", "table"])
        .await
        .stdout;
    assert!(
        table.contains("Organizer cancels at least 14 days before the event: 100 % is returned."),
        "{table}"
    );

    let check = reads(&["policies", "validate", "-"], &put["policy"])
        .await
        .json();
    assert_eq!(
        (&check["valid"], &check["policyHash"]),
        (&json!(true), &put["policyHash"])
    );
    policy["policyId"] = "house".into();
    policy["claimWindow"] = "P1M".into();
    for args in [
        &["policies", "validate", "-"][..],
        &["policies", "put", "house", "--json", "-"],
    ] {
        let refused = reads(args, &policy).await;
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(
            refused
                .stderr
                .contains("/claimWindow: \"P1M\" is not a duration"),
            "{refused:?}"
        );
    }
    let templates = target.run(&["policies", "templates"]).await.json();
    assert_eq!(templates["data"].as_array().unwrap().len(), 15);

    let args = [
        "partners",
        "update",
        "--default-policy",
        "Quiz Night=house",
        "--time-zone",
        "Asia/Tokyo",
    ];
    let me = target.run(&args).await.json();
    assert_eq!(
        (&me["defaultPolicies"], &me["timeZone"]),
        (&json!({"quiz_night": "house"}), &json!("Asia/Tokyo"))
    );
    for args in [
        ["--default-policy", "*=house", "--default-policy", "*=firm"],
        ["--default-policy", "*=house", "--no-default-policy", "*"],
        ["--default-policy", "house", "--time-zone", "UTC"],
    ] {
        let refused = target
            .run(&[&["partners", "update"][..], &args].concat())
            .await;
        assert_eq!(refused.code, Some(2), "{args:?}: {refused:?}");
    }
    let booking = samples::booking_with(
        json!({"eventType": "quiz night", "eventDate": "2031-06-20T19:00:00"}),
    );
    let id = reads(&["bookings", "create", "--json", "-"], &booking)
        .await
        .string("bookingId");
    let shown = target.run(&["bookings", "get", &id]).await.json();
    assert_eq!(
        (&shown["policy"]["policyHash"], &shown["eventDate"]),
        (&put["policyHash"], &json!("2031-06-20T10:00:00.000Z"))
    );
    let args = [
        "partners",
        "update",
        "--no-default-policy",
        "quiz-night",
        "--no-time-zone",
    ];
    let me = target.run(&args).await.json();
    assert!(
        me["defaultPolicies"].is_null() && me["timeZone"].is_null(),
        "{me}"
    );
}

/// What needs nobody's data needs no database and no server.
#[tokio::test]
async fn policies_are_checked_and_the_library_is_shown_with_nothing_at_hand() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |args: &[&str], input: &str| {
        let line = bookguard(args.iter().copied()).in_folder(folder.path());
        line.input(input).run().await
    };
    let templates = run(&["policies", "templates", "--output", "table"], "").await;
    assert!(
        templates
            .stdout
            .contains("default for  every other event type, rental, stay"),
        "{templates:?}"
    );
    let good = r#"{"policyId":"p","organizer":{"late":{"refundBps":0}}}"#;
    let check = run(&["policies", "validate", "-", "--output", "table"], good).await;
    assert_eq!(check.code, Some(0), "{check:?}");
    for part in [
        "This policy can be used.",
        "sha256:",
        "nothing is returned",
        "Warnings:\n  /grace: is missing",
    ] {
        assert!(check.stdout.contains(part), "{part}: {check:?}");
    }
    for (input, code, says) in [
        ("{", Some(5), "line 1 column 1"),
        ("[]", Some(5), "an object is required"),
        ("", Some(5), "invalid_json"),
    ] {
        let check = run(&["policies", "validate", "-"], input).await;
        assert_eq!(check.code, code, "{check:?}");
        assert!(check.stderr.contains(says), "{check:?}");
    }
    let schema = run(&["policies", "schema"], "").await;
    assert_eq!(schema.stdout, bookguard_core::policy::SCHEMA);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "no database was made"
    );
}

/// The same JSON under the same key is one booking.
async fn once_only(target: &Target) {
    let create = || {
        let line = target.command(&[
            "bookings",
            "create",
            "--json",
            "-",
            "--idempotency-key",
            "order-17",
        ]);
        line.input(samples::booking().to_string()).run()
    };
    let (first, again) = (create().await, create().await);
    assert_eq!(first.json(), again.json());
    assert_eq!(first.stdout, again.stdout);
}

/// The packet verifies with nothing but itself and the key; changed, it does not.
async fn evidence(target: &Target, id: &str, folder: &Path) {
    let key = target.run(&["ledger", "key"]).await;
    let checkpoint = target.run(&["ledger", "checkpoint"]).await;
    let origin = key.stdout.split('+').next().unwrap();
    assert!(
        checkpoint.stdout.starts_with(&format!("{origin}\n")),
        "{checkpoint:?}"
    );
    std::fs::write(folder.join("log.vkey"), &key.stdout).unwrap();
    let packet = target.run(&["evidence", "get", id]).await;
    assert_eq!(packet.json()["booking"]["bookingId"], id);
    std::fs::write(folder.join("packet.json"), &packet.stdout).unwrap();
    let verify = |packet: &'static str| {
        let line = bookguard(["evidence", "verify", packet, "--key", "@log.vkey"]);
        line.in_folder(folder).run()
    };
    let verified = verify("packet.json").await.json();
    assert_eq!(
        (&verified["verified"], &verified["bookingId"]),
        (&json!(true), &json!(id))
    );
    let tampered = packet.stdout.replacen("1250.5", "1250.6", 1);
    std::fs::write(folder.join("tampered.json"), &tampered).unwrap();
    let refused = verify("tampered.json").await;
    assert_eq!(refused.code, Some(6), "{refused:?}");
    assert!(
        refused.stderr.contains("(verification_failed)"),
        "{}",
        refused.stderr
    );
    let report: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(report["verified"], false);
    let from_pipe = bookguard(["evidence", "verify", "-", "--key", key.stdout.trim()]);
    assert_eq!(
        from_pipe.input(packet.stdout.clone()).run().await.code,
        Some(0)
    );
}

/// Both events, once the server has delivered them.
async fn delivered(target: &Target, booking: &str) -> Vec<Value> {
    until("both events delivered", async || {
        let events = target
            .run(&["webhook-events", "list", "--booking", booking])
            .await
            .json();
        let events = events["data"].as_array().unwrap().clone();
        let all = events.len() == 2 && events.iter().all(|event| event["status"] == "delivered");
        all.then_some(events)
    })
    .await
}

/// What the receiver got verifies with the command for receivers.
async fn received(receiver: &Receiver, secret: &str, folder: &Path) {
    let webhook = receiver.wait_for(2).await.remove(0);
    std::fs::write(folder.join("body.json"), &webhook.body).unwrap();
    std::fs::write(folder.join("secret"), secret).unwrap();
    let verify = |args: &[&str]| {
        let line = bookguard(
            ["webhook", "verify", "--body", "body.json"]
                .iter()
                .chain(args),
        );
        line.in_folder(folder)
    };
    let header = webhook.header("x-service-signature");
    let with_file = verify(&["--secret-file", "secret", "--header", header]);
    assert_eq!(with_file.run().await.json()["verified"], true);
    let (id, at, signature) = (
        webhook.header("webhook-id"),
        webhook.header("webhook-timestamp"),
        webhook.header("webhook-signature"),
    );
    let standard = [
        "--webhook-id",
        id,
        "--webhook-timestamp",
        at,
        "--webhook-signature",
        signature,
    ];
    let from_env = verify(&standard).env("BOOKGUARD_WEBHOOK_SECRET", secret);
    assert_eq!(from_env.run().await.json()["verified"], true);
    std::fs::write(folder.join("body.json"), webhook.body.to_ascii_uppercase()).unwrap();
    let forged = verify(&["--secret-file", "secret", "--header", header])
        .run()
        .await;
    assert_eq!(forged.code, Some(6), "{forged:?}");
}

#[tokio::test]
async fn on_a_server() {
    on_every_engine(async |engine| {
        let (database, receiver) = (Arc::new(TestDatabase::new(engine)), Receiver::start().await);
        let server = Serving::start(&database, &["--dev"]).await;
        let mut target = Target::Remote(server.url().to_owned(), None);
        let (id, secret) = tell(&mut target, &receiver, database.folder()).await;
        let events = delivered(&target, &id).await;
        let event = events[0]["eventId"].as_str().unwrap();
        let shown = target.run(&["webhook-events", "get", event]).await.json();
        assert_eq!(shown["attempts"][0]["statusCode"], 200);
        let retried = target.run(&["webhook-events", "retry", event]).await;
        assert_eq!(retried.code, Some(5));
        assert!(
            retried.stderr.contains("(event_already_delivered)"),
            "{}",
            retried.stderr
        );
        received(&receiver, &secret, database.folder()).await;
        let (code, said) = server.terminate().await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.starts_with("DEVELOPMENT MODE"), "{said}");
        database.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn on_a_database_while_a_server_runs_on_it() {
    on_every_engine(async |engine| {
        let (database, receiver) = (Arc::new(TestDatabase::new(engine)), Receiver::start().await);
        let server = Serving::start(&database, &["--dev"]).await;
        let mut target = Target::Local(Arc::clone(&database), None);
        let (id, secret) = tell(&mut target, &receiver, database.folder()).await;
        // The server sends what the commands wrote.
        delivered(&target, &id).await;
        received(&receiver, &secret, database.folder()).await;
        database.verify(3).await;
        // And goes on where the commands left the log.
        let key = target.run(&["api-keys", "create"]).await.string("apiKey");
        let caller = server.caller().with_key(&key);
        caller
            .post("/v1/bookings", &samples::booking())
            .await
            .ok(201);
        let (code, said) = server.terminate().await;
        assert_eq!(code, Some(0), "{said}");
        database.verify(4).await;
    })
    .await;
}

#[tokio::test]
async fn on_a_database_alone_what_is_due_is_left_to_the_server_that_starts() {
    on_every_engine(async |engine| {
        let (database, receiver) = (Arc::new(TestDatabase::new(engine)), Receiver::start().await);
        let mut target = Target::Local(Arc::clone(&database), None);
        let (id, _) = tell(&mut target, &receiver, database.folder()).await;
        let list = ["webhook-events", "list", "--booking", &id];
        let events = target.run(&list).await.json()["data"].clone();
        let event = events[0]["eventId"].as_str().unwrap();
        let retried = target.run(&["webhook-events", "retry", event]).await;
        let outcome = retried.json();
        assert_eq!(
            (&outcome["retryStatus"], &outcome["retryCount"]),
            (&json!("pending"), &json!(1))
        );
        let said = "No server runs on this database";
        assert!(retried.stderr.contains(said), "{}", retried.stderr);
        assert_eq!(receiver.count(), 0, "nothing was sent from here");

        // Of a test nothing is recorded, so it needs no server.
        let endpoints = target.run(&["webhook-endpoints", "list"]).await.json();
        let endpoint = endpoints["data"][0]["endpointId"].as_str().unwrap();
        let test = ["webhook-endpoints", "test", endpoint];
        let tested = target.run(&test).await;
        assert_eq!(tested.json()["delivered"], true);
        assert!(tested.stderr.contains(said), "{}", tested.stderr);
        receiver.answer_next([Answer::Status(500)]);
        let failed = target.run(&test).await;
        assert_eq!(failed.code, Some(5), "{failed:?}");
        assert!(
            failed.stderr.contains("(not_delivered)"),
            "{}",
            failed.stderr
        );

        let server = Serving::start(&database, &["--dev"]).await;
        delivered(&target, &id).await;
        server.terminate().await;
        let deleted = target.run(&["webhook-endpoints", "delete", endpoint]).await;
        assert_eq!(deleted.json()["enabled"], false);
        database.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn a_retry_on_a_database_is_carried_out_by_its_server_with_the_servers_settings() {
    on_every_engine(async |engine| {
        let (database, receiver) = (Arc::new(TestDatabase::new(engine)), Receiver::start().await);
        let server = Serving::start(&database, &["--dev"]).await;
        let mut target = Target::Local(Arc::clone(&database), None);
        let partner = register(&mut target).await["partnerId"].clone();
        let made = target
            .run(&["webhook-endpoints", "create", &receiver.url()])
            .await;
        let endpoint = made.string("endpointId");
        receiver.answer(Answer::Status(500));
        let event = target.run(&["trigger", "booking.created"]).await;
        assert!(!event.stderr.contains("No server runs"), "{}", event.stderr);
        let event = event.string("eventId");
        let attempts = async || {
            let shown = target.run(&["webhook-events", "get", &event]).await.json();
            shown["attempts"].as_array().unwrap().clone()
        };
        until("the first attempt", async || {
            (attempts().await.len() == 1).then_some(())
        })
        .await;

        // Not with --dev: by the settings of this command, nothing may be sent to this machine.
        let here = |args: &[&str]| {
            let line = database.command(args.iter().copied()).arg("--partner");
            line.arg(partner.as_str().unwrap()).run()
        };
        let failed = here(&["webhook-events", "retry", &event]).await;
        assert_eq!(failed.code, Some(5), "{failed:?}");
        assert!(
            failed.stdout.contains("\"retryStatus\":\"failed\""),
            "{}",
            failed.stdout
        );
        assert!(
            failed.stderr.contains("(not_delivered)"),
            "{}",
            failed.stderr
        );
        assert_eq!(attempts().await[1]["statusCode"], 500);
        let refused = here(&["webhook-endpoints", "test", &endpoint]).await;
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(
            refused.stderr.contains("(server_running)"),
            "{}",
            refused.stderr
        );
        let remote = Target::Remote(
            server.url().to_owned(),
            Some(target.run(&["api-keys", "create"]).await.string("apiKey")),
        );
        let failed = remote.run(&["webhook-events", "retry", &event]).await;
        assert_eq!(failed.code, Some(5), "{failed:?}");

        receiver.answer(Answer::Status(200));
        let retried = here(&["webhook-events", "retry", &event]).await;
        assert_eq!(retried.string("retryStatus"), "delivered");
        let attempts = attempts().await;
        assert_eq!((attempts.len(), receiver.count()), (4, 4), "{attempts:?}");
        server.terminate().await;
    })
    .await;
}

#[tokio::test]
async fn a_partner_that_needs_approval_is_let_in_on_the_database() {
    on_every_engine(async |engine| {
        let database = Arc::new(TestDatabase::new(engine));
        let server = Serving::start(&database, &["--registration", "approval"]).await;
        let reply = server
            .caller()
            .post("/v1/partners/register", &samples::partner("Acme"))
            .await;
        let id = reply.string("partnerId");
        assert_eq!(reply.string("status"), "pending");
        let target = Target::Local(Arc::clone(&database), None);
        let listed = target.run(&["partners", "list"]).await.json();
        assert_eq!(
            (
                &listed["data"][0]["partnerId"],
                &listed["data"][0]["status"]
            ),
            (&json!(id), &json!("pending"))
        );
        let approved = target.run(&["partners", "approve", &id]).await.json();
        let caller = server
            .caller()
            .with_key(approved["apiKey"].as_str().unwrap());
        assert_eq!(
            caller.get("/v1/partners/me").await.ok(200)["status"],
            "active"
        );
        let again = target.run(&["partners", "approve", &id]).await;
        assert_eq!(again.code, Some(5));
        // Not offered over HTTP, and said so.
        for args in [
            &["partners", "list"][..],
            &["partners", "approve", &id],
            &["ledger", "verify"],
        ] {
            let remote = Target::Remote(server.url().to_owned(), Some("bgk_x".to_owned()));
            let refused = remote.run(args).await;
            assert_eq!(refused.code, Some(2), "{refused:?}");
            assert!(refused.stderr.contains("--db"), "{}", refused.stderr);
        }
    })
    .await;
}

#[tokio::test]
async fn a_database_touched_by_hand_is_found_out() {
    on_every_engine(async |engine| {
        let database = Arc::new(TestDatabase::new(engine));
        let mut target = Target::Local(Arc::clone(&database), None);
        register(&mut target).await;
        let id = target.run(&NEW_BOOKING).await.string("bookingId");
        database.verify(1).await;
        database.tamper("UPDATE booking SET body = replace(body, '1250.5', '1250.6')");
        let found = target.run(&["ledger", "verify"]).await;
        assert_eq!(found.code, Some(6), "{found:?}");
        let report: Value = serde_json::from_str(&found.stdout).unwrap();
        assert_eq!(report["verified"], false);
        assert!(report["findings"].to_string().contains(&id), "{report}");
        assert!(
            found.stderr.contains("(verification_failed)"),
            "{}",
            found.stderr
        );
    })
    .await;
}
