//! Exit codes: each one caused, with the error on standard error, its code in it, and nothing on standard output.

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::program::{CommandLine, Ran, Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::TestServer;
use serde_json::Value;

/// Runs it twice: for people and for programs.
async fn refused(line: CommandLine, exit: i32, code: &str) -> Ran {
    let ran = line.clone().run().await;
    assert_eq!(ran.code, Some(exit), "{ran:?}");
    assert_eq!(ran.stdout, "", "{ran:?}");
    let first = ran.stderr.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("error: ") && first.ends_with(&format!("({code})")),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    let json = line.arg("--output").arg("json").run().await;
    assert_eq!(json.code, Some(exit), "{json:?}");
    let error: Value =
        serde_json::from_str(&json.stderr).unwrap_or_else(|e| panic!("{e}: {json:?}"));
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| message.len() > 10),
        "{error}"
    );
    match error["code"].as_str() {
        Some(said) => assert_eq!(said, code, "{error}"),
        // The interface's own 401 has no code.
        None => assert_eq!(
            (code, &error["error"]),
            ("unauthorized", &Value::from("Unauthorized"))
        ),
    }
    ran
}

#[tokio::test]
async fn on_a_database() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let on = |args: &[&str]| database.command(args.iter().copied());
        let missing = refused(on(&["bookings", "list"]), 1, "unexpected").await;
        assert!(
            missing.stderr.contains("there is no ") && missing.stderr.contains("database at"),
            "{missing:?}"
        );
        assert_eq!(
            std::fs::read_dir(database.folder()).unwrap().count(),
            0,
            "and none was made"
        );

        let registered = on(&[
            "partners",
            "register",
            "--name",
            "A",
            "--business-type",
            "b",
            "--contact-email",
            "a@example.com",
        ]);
        let registered = registered.run().await;
        assert!(
            registered.stderr.contains("began the ledger of"),
            "{registered:?}"
        );
        let partner = registered.string("partnerId");
        let as_partner = |args: &[&str]| on(args).arg("--partner").arg(&partner);
        assert_eq!(on(&["health"]).run().await.code, Some(0));
        refused(on(&["api-keys", "list"]), 2, "usage").await;
        refused(on(&["api-keys", "list", "--partner", "x"]), 2, "usage").await;
        refused(
            as_partner(&["bookings", "create", "--json", "/nowhere.json"]),
            2,
            "usage",
        )
        .await;
        let nobody = "bkg_00000000000000000000000000000000";
        for id in [nobody, "x", "", "../x", "ünknown"] {
            refused(as_partner(&["bookings", "get", id]), 3, "not_found").await;
            refused(as_partner(&["evidence", "get", id]), 3, "not_found").await;
        }
        let broken = as_partner(&["bookings", "create", "--json", "-"]).input("{\"talent\":5}");
        let broken = refused(broken, 5, "invalid_request").await;
        for target in [
            "/talent: ",
            "/organizer: ",
            "/eventType: ",
            "/eventDate: ",
            "/bookingValue: ",
        ] {
            assert!(
                broken.stderr.contains(target),
                "{target} in {}",
                broken.stderr
            );
        }
        let fields = [
            "--talent-id",
            "1",
            "--talent-name",
            "T",
            "--organizer-id",
            "2",
            "--organizer-name",
            "O",
            "--event-type",
            "x",
        ];
        let create = |args: &[&str]| {
            let line = as_partner(&["bookings", "create"]);
            fields
                .iter()
                .chain(args)
                .fold(line, |line, arg| line.arg(*arg))
        };
        let when = ["--event-date", "2031-01-01T00:00:00Z"];
        refused(
            create(&[when[0], when[1], "--value", "-5"]),
            5,
            "amount_negative",
        )
        .await;
        refused(
            create(&[when[0], when[1], "--value", "1e400"]),
            5,
            "amount_too_large",
        )
        .await;
        refused(
            create(&[when[0], when[1], "--value", "1.005"]),
            5,
            "amount_precision",
        )
        .await;
        refused(
            create(&[when[0], "soon", "--value", "5"]),
            5,
            "invalid_date",
        )
        .await;
        assert_eq!(
            as_partner(&["bookings", "list"]).run().await.json()["data"],
            serde_json::json!([])
        );
    })
    .await;
}

#[tokio::test]
async fn usage_that_makes_no_sense_is_2_and_shows_the_way() {
    for args in [
        &["nonsense"][..],
        &["bookings"],
        &["bookings", "get"],
        &["bookings", "list", "--nonsense"],
        &["bookings", "list", "--output", "yaml"],
        &[
            "bookings",
            "list",
            "--db",
            "x",
            "--url",
            "http://127.0.0.1:1",
        ],
        &["health", "--url", "nonsense"],
        &["health", "--url", "ftp://example.com"],
        &["health", "--url", "http://user:pass@127.0.0.1:1"],
        &["serve", "--registration", "sometimes"],
        &["serve", "--config", "/nowhere.toml"],
        &["serve", "--url", "http://127.0.0.1:1"],
        &["serve", "--webhook-allow-subnet", "10.0.0.0/99"],
        &["completions", "tcsh"],
        &["webhook", "verify", "--body", "-", "--header", "sha256=00"],
    ] {
        let ran = bookguard(args.iter().copied()).run().await;
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(2), ""),
            "{args:?}: {ran:?}"
        );
        assert!(
            ran.stderr.starts_with("error: ") || ran.stderr.contains("Usage:"),
            "{args:?}: {ran:?}"
        );
        assert!(
            !ran.stderr.contains("panicked") && !ran.stderr.contains("user:pass"),
            "{ran:?}"
        );
    }
    for args in [
        &["--help"][..],
        &["--version"],
        &["bookings", "create", "--help"],
    ] {
        let ran = bookguard(args.iter().copied()).run().await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
    let help = bookguard(["--help"]).run().await.stdout;
    assert!(
        help.contains("Exit codes: 0 ok, 1 unexpected, 2 usage, 3 not found"),
        "{help}"
    );
}

#[tokio::test]
async fn on_a_server() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let url = server.running().url();
        let on = |key: &str, args: &[&str]| {
            let line = bookguard(args.iter().copied()).env("BOOKGUARD_URL", &url);
            line.env("BOOKGUARD_API_KEY", key)
        };
        assert_eq!(
            on("", &["health"]).run().await.code,
            Some(0),
            "open to everybody"
        );
        assert_eq!(
            on(&acme.key, &["bookings", "list"]).run().await.code,
            Some(0)
        );
        for id in ["bkg_00000000000000000000000000000000", "x", "a/b", ".."] {
            refused(on(&acme.key, &["bookings", "get", id]), 3, "not_found").await;
        }
        refused(on("", &["bookings", "list"]), 4, "no_api_key").await;
        refused(on("bgk_wrong", &["bookings", "list"]), 4, "unauthorized").await;
        let reader = acme
            .caller
            .post(
                "/v1/api-keys",
                &serde_json::json!({"scopes": ["bookings:read"]}),
            )
            .await;
        refused(
            on(&reader.string("apiKey"), &["api-keys", "list"]),
            4,
            "insufficient_scope",
        )
        .await;
        let booking = acme.book().await;
        let event = acme.events(&booking).await[0]["eventId"]
            .as_str()
            .unwrap()
            .to_owned();
        refused(
            on(&acme.key, &["webhook-events", "retry", &event]),
            5,
            "no_endpoints",
        )
        .await;
        refused(
            on(&acme.key, &["bookings", "list", "--limit", "0"]),
            5,
            "out_of_range",
        )
        .await;
        refused(
            on(
                &acme.key,
                &[
                    "bookings",
                    "protect",
                    &booking,
                    "--idempotency-key",
                    "two words",
                ],
            ),
            5,
            "idempotency_key_invalid",
        )
        .await;
        // The store under the server goes away.
        server
            .database()
            .tamper("ALTER TABLE booking RENAME TO gone");
        let unavailable = refused(on(&acme.key, &["bookings", "list"]), 9, "unavailable").await;
        assert!(
            unavailable.stderr.contains("Try again in 1 s."),
            "{unavailable:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn where_no_bookguard_answers() {
    // Nobody listens where somebody did a moment ago.
    let gone = Receiver::start().await.url();
    let at = |url: &str, args: &[&str]| {
        let line = bookguard(args.iter().copied()).arg("--url").arg(url);
        line.env("BOOKGUARD_API_KEY", "bgk_x")
    };
    let unreachable = refused(at(&gone, &["bookings", "list"]), 7, "unreachable").await;
    assert!(unreachable.stderr.contains("127.0.0.1"), "{unreachable:?}");
    let other = Receiver::start().await;
    for answer in [
        Answer::Status(200),
        Answer::Status(404),
        Answer::Status(500),
        Answer::Headed(302, "location: http://127.0.0.1:9/elsewhere\r\n"),
    ] {
        other.answer(answer.clone());
        let ran = refused(at(&other.url(), &["bookings", "list"]), 9, "bad_answer").await;
        assert!(!ran.stderr.contains("bgk_x"), "{answer:?}: {ran:?}");
    }
    other.answer(Answer::Close);
    refused(at(&other.url(), &["bookings", "list"]), 7, "unreachable").await;
}

#[tokio::test]
async fn too_many_requests_are_8_with_the_time_to_wait() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let line = database.command([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--rate-limit-per-second",
            "1",
            "--rate-limit-burst",
            "1",
        ]);
        let server = Serving::of(line.arg("--registrations-per-minute").arg("1")).await;
        let register = || {
            let args = [
                "partners",
                "register",
                "--name",
                "A",
                "--business-type",
                "b",
                "--contact-email",
                "a@example.com",
            ];
            bookguard(args).env("BOOKGUARD_URL", server.url())
        };
        assert_eq!(register().run().await.code, Some(0));
        let ran = refused(register(), 8, "rate_limited").await;
        assert!(ran.stderr.contains("Try again in "), "{ran:?}");
    })
    .await;
}
