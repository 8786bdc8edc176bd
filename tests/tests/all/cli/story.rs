//! The whole story in commands: on a database, on a database that a server is using, and on a server.

use std::path::Path;

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::files::names;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

use crate::cli::target::{Target, verify_packet};

const NEW_BOOKING: &str = "bookings create --talent-id tal-7 --talent-name 'The Night Owls' --organizer-id org-3 \
                           --organizer-name 'Acme Events' --event-type concert --event-date 2031-06-20T19:00:00-04:00 \
                           --value 1250.50 --metadata order=17";

/// Runs every step that needs no courier, and returns the booking's id and the partner's signing secret.
async fn tell(target: &mut Target<'_>, receiver: &Receiver, folder: &Path) -> (String, String) {
    let (id, secret) = begin(target, receiver).await;
    keys(target).await;
    policies(target).await;
    once_only(target).await;
    evidence(target, &id, folder).await;
    (id, secret)
}

/// Registers a partner with an endpoint, and protects a booking. Returns the booking's id and the partner's signing secret.
async fn begin(target: &mut Target<'_>, receiver: &Receiver) -> (String, String) {
    let registered = target.register().await;
    let me = target.json("partners me").await;
    assert_eq!(me["partnerId"], registered["partnerId"]);
    assert_eq!(target.json("health").await["status"], "ok");
    let url = receiver.url();
    let create = format!("webhook-endpoints create {url} --description mine");
    let endpoint = target.run(create).await.string("endpointId");
    let get = format!("webhook-endpoints get {endpoint}");
    let shown = target.json(get).await;
    shown.holds(json!({"url": receiver.url(), "enabled": true}));
    let list = target.json("webhook-endpoints list").await;
    assert_eq!(list["data"], json!([shown]));

    let id = target.run(NEW_BOOKING).await.string("bookingId");
    let shown = target.run(format!("bookings get {id}")).await;
    shown.said(&["\"bookingValue\":1250.5,"]);
    assert_eq!(shown.json()["metadata"], json!({"order": "17"}));
    let protected = target.json(format!("bookings protect {id}")).await;
    assert_eq!(protected["protected"], true);
    let list = "bookings list --status protected --limit 1";
    let page = target.json(list).await;
    assert_eq!(page["data"][0]["bookingId"], id.as_str());
    assert_eq!(page["hasMore"], false);
    let as_of = format!("bookings policy {id} --as-of 2031-06-01T00:00:00Z --canceled-by talent");
    let evaluation = target.json(as_of).await;
    assert_eq!(evaluation["refund"]["minorUnits"], 125_050);
    (id, registered.text("signingSecret").to_owned())
}

async fn keys(target: &Target<'_>) {
    let made = target.json("api-keys create --name reader --scope bookings:read,evidence:read");
    let made = made.await;
    assert_eq!(made["scopes"], json!(["bookings:read", "evidence:read"]));
    let rotate = format!("api-keys rotate {} --overlap 1h", made.text("apiKeyId"));
    let rotated = target.json(rotate).await;
    rotated.holds(json!({"name": "reader", "replacedApiKeyId": made["apiKeyId"]}));
    let revoke = format!("api-keys revoke {}", made.text("apiKeyId"));
    assert!(target.json(revoke).await["revokedAt"].is_string());
    let expiring = target.json("api-keys create --expires-at 90d").await;
    assert!(expiring["expiresAt"].is_string(), "{expiring}");
    let list = target.run("api-keys list").await;
    assert_eq!(list.json().list("data").len(), 4);
    assert!(!list.stdout.contains(made.text("apiKey")));
}

/// Policies are checked, stored, chosen and shown; every command refuses a faulty one with its fault.
async fn policies(target: &Target<'_>) {
    let reads =
        async |line: &str, body: &Value| target.command(line).input(body.to_string()).run().await;
    let mut policy = samples::policy(5000);
    let put = "policies put house --json -";
    assert_eq!(reads(put, &policy).await.json()["version"], 1);
    policy["organizer"]["late"]["refundBps"] = json!(2500);
    let second = reads(put, &policy).await.json();
    assert_eq!(second["version"], 2);
    assert_eq!(target.json("policies get house").await, second);
    let first = target.json("policies get house --version 1").await;
    assert_eq!(first["policy"]["organizer"]["late"]["refundBps"], 5000);
    let list = target.json("policies list").await;
    assert_eq!(list["data"][0]["policyHash"], second["policyHash"]);
    let versions = target.json("policies versions house --limit 1").await;
    versions.holds(json!({"data": [list["data"][0]], "nextCursor": "2"}));
    let words = "Organizer cancels at least 14 days before the event: 100 % is returned.";
    target.table("policies get house", &[words]).await;

    let check = reads("policies validate -", &second["policy"]).await.json();
    check.holds(json!({"valid": true, "policyHash": second["policyHash"]}));
    policy["policyId"] = "house".into();
    policy["claimWindow"] = "P1M".into();
    for line in ["policies validate -", put] {
        let refused = reads(line, &policy).await;
        refused.ended(5, &["/claimWindow: \"P1M\" is not a duration"]);
    }
    let templates = target.json("policies templates").await;
    assert_eq!(templates.list("data").len(), 15);

    let update = "partners update --default-policy 'Quiz Night=house' --time-zone Asia/Tokyo";
    let me = target.json(update).await;
    me.holds(json!({"defaultPolicies": {"quiz_night": "house"}, "timeZone": "Asia/Tokyo"}));
    for flags in [
        "--default-policy *=house --default-policy *=firm",
        "--default-policy *=house --no-default-policy *",
        "--default-policy house --time-zone UTC",
    ] {
        let refused = target.run(format!("partners update {flags}")).await;
        refused.ended(2, &[]);
    }
    let booking = json!({"eventType": "quiz night", "eventDate": "2031-06-20T19:00:00"});
    let booking = samples::booking_with(booking);
    let made = reads("bookings create --json -", &booking).await;
    let get = format!("bookings get {}", made.string("bookingId"));
    let shown = target.json(get).await;
    assert_eq!(shown["policy"]["policyHash"], second["policyHash"]);
    assert_eq!(shown["eventDate"], "2031-06-20T10:00:00.000Z");
    let update = "partners update --no-default-policy quiz-night --no-time-zone";
    let me = target.json(update).await;
    me.holds(json!({"defaultPolicies": null, "timeZone": null}));
}

/// Commands that need no stored data need neither a database nor a server.
#[tokio::test]
async fn policies_are_checked_and_the_library_is_shown_with_nothing_at_hand() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |line: &str, input: &str| {
        let line = bookguard(line).in_folder(folder.path());
        line.input(input).run().await
    };
    let templates = run("policies templates --output table", "").await;
    templates.said(&["default for  every other event type, rental, stay"]);
    let good = r#"{"policyId":"p","organizer":{"late":{"refundBps":0}}}"#;
    let check = run("policies validate - --output table", good).await;
    check.said(&[
        "This policy can be used.",
        "sha256:",
        "nothing is returned",
        "Warnings:\n  /grace: is missing",
    ]);
    let example = "policies validate - --output table --event-date 2031-06-20 --booking-value 200";
    let shown = run(example, good).await;
    shown.said(&[
        "organizer.late",
        "USD 0.00",
        "USD 200.00",
        "UTC was assumed",
    ]);
    let over = "policies validate - --output table --event-date 2020-01-01T19:00:00Z";
    run(over, good).await.said(&["too late to claim"]);
    let missing = run("policies validate - --booking-value 200", good).await;
    missing.ended(5, &["--event-date"]);
    for (input, says) in [("{", "line 1 column 1"), ("[]", "an object is required")] {
        run("policies validate -", input).await.ended(5, &[says]);
    }
    let nothing = run("policies validate -", " \n").await;
    nothing.refused(2, &["standard input is empty"]);
    let schema = run("policies schema", "").await;
    assert_eq!(schema.stdout, bookguard_core::policy::SCHEMA);
    assert!(names(folder.path()).is_empty(), "no database was made");
}

/// The same JSON under the same idempotency key makes one booking.
async fn once_only(target: &Target<'_>) {
    let create = || {
        let line = target.command("bookings create --json - --idempotency-key order-17");
        line.input(samples::booking().to_string()).run()
    };
    let (first, again) = (create().await, create().await);
    assert_eq!(first.json(), again.json());
    assert_eq!(first.stdout, again.stdout);
}

/// The packet verifies with nothing but itself and the public key, and no longer after a change.
async fn evidence(target: &Target<'_>, id: &str, folder: &Path) {
    let vkey = target.vkey().await;
    let checkpoint = target.run("ledger checkpoint").await;
    let origin = vkey.split('+').next().unwrap();
    let is_of_log = checkpoint.stdout.starts_with(&format!("{origin}\n"));
    assert!(is_of_log, "{checkpoint:?}");
    std::fs::write(folder.join("log.vkey"), &vkey).unwrap();
    let packet = target.run(format!("evidence get {id}")).await;
    assert_eq!(packet.json()["booking"]["bookingId"], id);
    let verified = verify_packet(folder, "packet.json", &packet.stdout, "@log.vkey").await;
    let report = verified.json();
    report.holds(json!({"verified": true, "bookingId": id}));
    let tampered = packet.stdout.replacen("1250.5", "1250.6", 1);
    let refused = verify_packet(folder, "tampered.json", &tampered, "@log.vkey").await;
    refused.ended(6, &["(verification_failed)"]);
    let report = refused.printed();
    assert_eq!(report["verified"], false);
    // What is not a key says nothing of the packet.
    let no_key = verify_packet(folder, "packet.json", &packet.stdout, "log.vkey").await;
    no_key.ended(2, &["the verifier key cannot be read", "or @ and the file"]);
    let page = verify_packet(folder, "page.html", "<!doctype html>", "@log.vkey").await;
    page.refused(2, &["page.html is a page", "packet.json"]);
    let empty = verify_packet(folder, "empty.json", "", "@log.vkey").await;
    empty.refused(2, &["empty.json is empty", "evidence get"]);
    let made = bookguard("evidence pdf empty.json --out made.pdf").in_folder(folder);
    made.run().await.refused(2, &["empty.json is empty"]);
    let from_pipe = bookguard(format!("evidence verify - --key {vkey}"));
    let from_pipe = from_pipe.input(packet.stdout).run().await;
    from_pipe.ended(0, &[]);
}

/// Returns both events once the server has delivered them.
async fn delivered(target: &Target<'_>, booking: &str) -> Vec<Value> {
    until("both events delivered", async || {
        let list = format!("webhook-events list --booking {booking}");
        let events = target.json(list).await;
        let events = events.list("data").clone();
        let all = events.len() == 2 && events.iter().all(|event| event["status"] == "delivered");
        all.then_some(events)
    })
    .await
}

/// The received webhook verifies with the receivers' command.
async fn received(receiver: &Receiver, secret: &str, folder: &Path) {
    let webhook = receiver.wait_for(2).await.remove(0);
    std::fs::write(folder.join("body.json"), &webhook.body).unwrap();
    std::fs::write(folder.join("secret"), format!("\u{feff}{secret} \r\n")).unwrap();
    let verify = |flags: &[&str]| {
        let line = bookguard("webhook verify --body body.json").args(flags);
        line.in_folder(folder)
    };
    let header = webhook.header("x-service-signature");
    let header = format!("X-Service-Signature: {header}");
    let with_file = || verify(&["--secret-file", "secret", "--header", &header]).run();
    assert_eq!(with_file().await.json()["verified"], true);
    let standard = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let standard = standard.map(|name| format!("--{name}={name}: {}", webhook.header(name)));
    let from_env = verify(&standard.each_ref().map(String::as_str));
    let from_env = from_env.env("BOOKGUARD_WEBHOOK_SECRET", secret);
    assert_eq!(from_env.run().await.json()["verified"], true);
    std::fs::write(folder.join("body.json"), webhook.body.to_ascii_uppercase()).unwrap();
    with_file().await.ended(6, &[]);
}

#[tokio::test]
async fn on_a_server() {
    on_every_engine(async |engine| {
        let (database, receiver) = (TestDatabase::new(engine), Receiver::start().await);
        let server = Serving::start(&database, &["--dev"]).await;
        let mut target = Target::Remote(server.url().to_owned(), None);
        let (id, secret) = tell(&mut target, &receiver, database.folder()).await;
        let events = delivered(&target, &id).await;
        let event = events[0].text("eventId");
        let shown = target.json(format!("webhook-events get {event}")).await;
        assert_eq!(shown["attempts"][0]["statusCode"], 200);
        let retried = target.run(format!("webhook-events retry {event}")).await;
        retried.ended(5, &["(event_already_delivered)"]);
        received(&receiver, &secret, database.folder()).await;
        let said = server.stop().await;
        assert!(said.contains("DEVELOPMENT MODE"), "{said}");
        database.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn on_a_database_while_a_server_runs_on_it() {
    on_every_engine(async |engine| {
        let (database, receiver) = (TestDatabase::new(engine), Receiver::start().await);
        let server = Serving::start(&database, &["--dev"]).await;
        let mut target = Target::Local(&database, None);
        let (id, secret) = tell(&mut target, &receiver, database.folder()).await;
        // The server sends what the commands stored.
        delivered(&target, &id).await;
        received(&receiver, &secret, database.folder()).await;
        database.verify(3).await;
        // It also continues the log where the commands left it.
        let key = target.run("api-keys create").await.string("apiKey");
        let caller = server.caller().with_key(&key);
        let booking = samples::booking();
        caller.post("/v1/bookings", &booking).await.ok(201);
        server.stop().await;
        database.verify(4).await;
    })
    .await;
}

#[tokio::test]
async fn on_a_database_alone_what_is_due_is_left_to_the_server_that_starts() {
    on_every_engine(async |engine| {
        let (database, receiver) = (TestDatabase::new(engine), Receiver::start().await);
        let mut target = Target::Local(&database, None);
        let (id, _) = begin(&mut target, &receiver).await;
        let list = format!("webhook-events list --booking {id}");
        let events = target.json(list).await;
        let event = events["data"][0].text("eventId");
        let retried = target.run(format!("webhook-events retry {event}")).await;
        let pending = json!({"retryStatus": "pending", "retryCount": 1});
        retried.json().holds(pending);
        let said = "No server runs on this database";
        retried.ended(0, &[said]);
        assert_eq!(receiver.count(), 0, "nothing was sent from here");

        // A test is not recorded, so it needs no server.
        let endpoints = target.json("webhook-endpoints list").await;
        let endpoint = endpoints["data"][0].text("endpointId");
        let test = format!("webhook-endpoints test {endpoint}");
        let tested = target.run(&test).await;
        assert_eq!(tested.ended(0, &[said]).json()["delivered"], true);
        receiver.answer_next([Answer::Status(500)]);
        target.run(&test).await.ended(5, &["(not_delivered)"]);

        let server = Serving::start(&database, &["--dev"]).await;
        delivered(&target, &id).await;
        server.terminate().await;
        let delete = format!("webhook-endpoints delete {endpoint}");
        let unasked = target.run(&delete).await;
        let address = receiver.url();
        unasked.refused(
            2,
            &["will be deleted for good", &address, "not sent", "--yes"],
        );
        let unknown = target.run("webhook-endpoints delete end_1").await;
        unknown.refused(3, &["(not_found)"]);
        let partner = target.json("partners me").await;
        let (name, partner) = (partner.text("name"), partner.text("partnerId"));
        let unasked = target.run(format!("partners end {partner}")).await;
        unasked.refused(
            2,
            &[name, "its keys will be revoked", "its 1 booking", "--yes"],
        );
        let get = format!("webhook-endpoints get {endpoint}");
        let kept = target.json(get).await;
        assert_eq!(kept["enabled"], true, "nothing was deleted");
        let deleted = target.json(format!("{delete} --yes")).await;
        assert_eq!(deleted["enabled"], false);
        database.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn a_retry_on_a_database_is_carried_out_by_its_server_with_the_servers_settings() {
    on_every_engine(async |engine| {
        let (database, receiver) = (TestDatabase::new(engine), Receiver::start().await);
        let server = Serving::start(&database, &["--dev"]).await;
        let mut target = Target::Local(&database, None);
        let registered = target.register().await;
        let create = format!("webhook-endpoints create {}", receiver.url());
        let endpoint = target.run(create).await.string("endpointId");
        receiver.answer(Answer::Status(500));
        let event = target.run("trigger booking.created").await;
        assert!(!event.stderr.contains("No server runs"), "{}", event.stderr);
        let event = event.string("eventId");
        let attempts = async || {
            let shown = target.json(format!("webhook-events get {event}")).await;
            shown.list("attempts").clone()
        };
        let first = async || (attempts().await.len() == 1).then_some(());
        until("the first attempt", first).await;

        // Without `--dev`, this command's address rules allow nothing to be sent to this machine.
        let here = |line: String| {
            let line = database.command(line).arg("--partner");
            line.arg(registered.text("partnerId")).run()
        };
        let retry = format!("webhook-events retry {event}");
        let failed = here(retry.clone()).await;
        failed.ended(5, &["(not_delivered)"]);
        assert_eq!(failed.printed()["retryStatus"], "failed");
        assert_eq!(attempts().await[1]["statusCode"], 500);
        let refused = here(format!("webhook-endpoints test {endpoint}")).await;
        refused.ended(5, &["(server_running)"]);
        let key = target.run("api-keys create").await.string("apiKey");
        let remote = Target::Remote(server.url().to_owned(), Some(key));
        remote.run(&retry).await.ended(5, &[]);

        receiver.answer(Answer::Status(200));
        let retried = here(retry).await;
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
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &["--registration", "approval"]).await;
        let body = samples::partner("Acme");
        let reply = server.caller().post("/v1/partners/register", &body).await;
        let reply = reply.ok(201);
        let id = reply.text("partnerId");
        assert_eq!(reply["status"], "pending");
        let target = Target::Local(&database, None);
        let listed = target.json("partners list").await;
        listed["data"][0].holds(json!({"partnerId": id, "status": "pending"}));
        let approve = format!("partners approve {id}");
        let approved = target.json(&approve).await;
        let caller = server.caller().with_key(approved.text("apiKey"));
        let me = caller.get("/v1/partners/me").await.ok(200);
        assert_eq!(me["status"], "active");
        target.run(&approve).await.ended(5, &[]);
        // The administrator's commands are not available over HTTP, and say so.
        let remote = Target::Remote(server.url().to_owned(), Some("bgk_x".to_owned()));
        for line in ["partners list", &approve, "ledger verify"] {
            remote.run(line).await.ended(2, &["--db"]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_database_touched_by_hand_is_found_out() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let mut target = Target::Local(&database, None);
        target.register().await;
        let id = target.run(NEW_BOOKING).await.string("bookingId");
        database.verify(1).await;
        database.tamper("UPDATE booking SET body = replace(body, '1250.5', '1250.6')");
        let found = target.run("ledger verify").await;
        found.ended(6, &["(verification_failed)"]);
        let report = found.printed();
        assert_eq!(report["verified"], false);
        assert!(report["findings"].to_string().contains(&id), "{report}");
    })
    .await;
}
