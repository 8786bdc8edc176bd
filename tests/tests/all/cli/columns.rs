//! Answers as rows and columns, requests printed for curl, and requests that no command is made for.

use std::process::Command;

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::bookguard;
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

#[tokio::test]
async fn chosen_fields_are_columns_of_every_form() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let talent = json!({"talent": {"id": "t", "name": "=A, \"B\""}});
        let first = acme.book_with(talent).await;
        server.advance(1_000);
        let second = acme.book().await;
        let list = |form: &str| acme.command("bookings list").args(form);
        let fields = "--fields bookingId,talent.name,canceledAt";
        let ran = list("--output csv").args(fields).run().await;
        let csv = format!(
            "bookingId,talent.name,canceledAt\n{second},The Night Owls,\n{first},\"'=A, \"\"B\"\"\",\n"
        );
        assert_eq!(ran.stdout, csv);
        assert!(ran.stderr.contains("canceledAt"), "{ran:?}");
        // The order is the answer's own; every member is a column.
        let all = list("--output csv").run().await;
        all.said(&["bookingId,partnerId,talent.id,talent.name,"]);
        let page = list("--output json --limit 1").args(fields).run().await.json();
        let whole = list("--output json --limit 1").run().await.json();
        let mut next = whole.clone();
        next["data"] = json!([{"bookingId": second, "talent.name": "The Night Owls"}]);
        assert_eq!((&next["nextCursor"], &next["hasMore"]), (&json!(second), &json!(true)));
        assert_eq!(page, next);
        // Every list keeps what stands beside its rows.
        let events = |form: &str| acme.command("webhook-events list --after 0 --limit 1 --output json").args(form);
        let (chosen, mut whole) = (events("--fields bookingId").run().await.json(), events("").run().await.json());
        whole["data"] = json!([]);
        assert!(whole["nextAfter"].is_number() && whole["hasMore"].is_boolean(), "{whole}");
        let mut beside = chosen;
        beside["data"] = json!([]);
        assert_eq!(beside, whole);
        let table = list("--output table --limit 1").args(fields).run().await;
        for shown in ["bookingId", "The Night Owls", "There are more: --cursor"] {
            assert!(table.stdout.contains(shown), "{table:?}");
        }
        let one = acme.command(format!("bookings get {second}"));
        let one = one.args("--output table --fields status,talent.id").run().await;
        assert_eq!(one.stdout.lines().count(), 2, "{one:?}");
        let wrong = list("--fields bookingID").run().await;
        wrong.ended(2, &["It has bookingId, "]);
        assert!(wrong.stdout.contains(&second), "{wrong:?}");
        let none = list("--fields").args("''").run().await;
        none.refused(2, &["--fields"]);
        let nothing = acme.command("webhook-endpoints list --output csv --fields endpointId");
        assert_eq!(nothing.run().await.stdout, "endpointId\n");
        let nothing = acme.command("webhook-endpoints list --output csv");
        assert_eq!(nothing.run().await.stdout, "");
        // The hours are not all of this answer, so it is one row.
        let activity = acme.command("activity --output csv --fields keysExpiring,waiting.deliveries");
        assert_eq!(activity.run().await.stdout, "keysExpiring,waiting.deliveries\n0,0\n");
    })
    .await;
}

#[tokio::test]
async fn a_request_printed_for_curl_is_the_one_that_is_sent() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let create = "bookings create --talent-id t --organizer-id o --organizer-name O --event-type concert \
                      --event-date 2031-06-20T19:00:00Z --value 1 --currency EUR --idempotency-key once --curl";
        let talent = "O'Hara $(id)";
        let printed = acme.command(create).arg("--talent-name").arg(talent).run().await;
        printed.said(&["curl -X POST", "$BOOKGUARD_API_KEY"]);
        assert!(!printed.stdout.contains(&acme.key), "{printed:?}");
        assert_eq!(acme.get("/v1/bookings").await.json()["data"], json!([]));
        let script = format!("set -e\n{}", printed.stdout.replacen("curl", "curl -sS", 1));
        let key = acme.key.clone();
        let run = move || Command::new("sh").args(["-c", &script]).env("BOOKGUARD_API_KEY", key).output();
        let sent = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
        let answer: Value = serde_json::from_slice(&sent.stdout).unwrap();
        let booking = acme.get(&format!("/v1/bookings/{}", answer.text("bookingId"))).await.json();
        assert_eq!(booking["talent"]["name"], talent);
        // Nothing is sent, so nobody is asked.
        let delete = acme.command("webhook-endpoints delete end_1 --curl");
        delete.run().await.said(&["curl -X DELETE", "/v1/webhook-endpoints/end_1"]);
        let file = TestDatabase::new(engine);
        file.command("bookings list --curl").run().await.refused(2, &["--db"]);
        // The key's file is named, not read into the command.
        let key = file.folder().join("a key");
        std::fs::write(&key, &acme.key).unwrap();
        let me = bookguard("partners me --curl --url").arg(server.running().url());
        let me = me.arg("--api-key-file").arg(&key).run().await;
        me.said(&[&format!("$(cat '{}')", key.display())]);
    })
    .await;
}

#[tokio::test]
async fn any_request_can_be_sent_with_the_callers_key() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let id = acme.book().await;
        let api = |line: &str| acme.command(format!("api {line}"));
        let list = api("get /v1/bookings?limit=1").run().await.json();
        assert_eq!(list["data"][0]["bookingId"], id.as_str());
        let protect = api(&format!("POST /v1/bookings/{id}/protect")).run().await;
        assert_eq!(protect.json()["protected"], true);
        let body = json!({"note": "x", "kind": "note"}).to_string();
        let wrong = api(&format!("POST /v1/bookings/{id}/cancel --body -")).input(body.as_str());
        wrong.run().await.refused(5, &["/kind"]);
        api("GET /v1/ledger/checkpoint")
            .run()
            .await
            .said(&["bookguard-"]);
        api("GET /v1/bookings/bkg_1")
            .run()
            .await
            .refused(3, &["(not_found)"]);
        for (line, word) in [
            ("GET v1/bookings", "path"),
            ("GET //elsewhere.example/v1", "path"),
            ("TRACE /v1/bookings", "GET"),
        ] {
            api(line).run().await.refused(2, &[word]);
        }
        let file = TestDatabase::new(engine);
        file.command("api GET /v1/bookings")
            .run()
            .await
            .refused(2, &["--url"]);
    })
    .await;
}
