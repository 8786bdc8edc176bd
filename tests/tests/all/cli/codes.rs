//! Exit codes: each one is caused; the error and its code are on standard error, and nothing is on standard output.

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::files::names;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Ran, Serving, bookguard};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

pub(super) const REGISTER: &str =
    "partners register --name A --business-type b --contact-email a@example.com";

/// Runs the command twice, with output for people and for programs, and asserts its exit code and error code.
async fn refused(line: CommandLine, exit: i32, code: &str) -> Ran {
    let ran = line.clone().run().await;
    ran.refused(exit, &[]);
    let first = ran.stderr.lines().next().unwrap_or_default();
    let named = first.starts_with("error: ") && first.ends_with(&format!("({code})"));
    assert!(named && !ran.stderr.contains("panicked"), "{ran:?}");
    let json = line.args("--output json").run().await;
    json.ended(exit, &[]);
    let error: Value =
        serde_json::from_str(&json.stderr).unwrap_or_else(|e| panic!("{e}: {json:?}"));
    assert!(error.text("message").len() > 10, "{error}");
    assert_eq!(error["code"], code, "{error}");
    ran
}

#[tokio::test]
async fn a_command_line_that_cannot_be_read_is_refused_in_the_form_that_it_asks_for() {
    for (form, is_json) in [
        ("--output json", true),
        ("--output=json", true),
        ("--output csv", false),
    ] {
        for wrong in ["bookings get", "bookings list --no-such-flag", "partners"] {
            let ran = bookguard(format!("{wrong} {form}")).run().await;
            ran.refused(2, &[]);
            let error = serde_json::from_str::<Value>(&ran.stderr);
            assert_eq!(error.is_ok(), is_json, "{ran:?}");
            if let Ok(error) = error {
                assert_eq!(error["code"], "usage");
                let message = error.text("message");
                assert!(message.contains("Usage: bookguard"), "{error}");
            }
        }
    }
    let help = bookguard("bookings get --help --output json").run().await;
    help.said(&["Usage: bookguard bookings get"]);
}

#[tokio::test]
async fn on_a_database() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let on = |line: &str| database.command(line);
        let missing = refused(on("bookings list"), 1, "unexpected").await;
        missing.ended(1, &["there is no ", "database at"]);
        assert!(names(database.folder()).is_empty(), "and none was made");

        let registered = on(REGISTER).run().await;
        registered.ended(0, &["began the ledger of"]);
        let partner = registered.string("partnerId");
        let as_partner = |line: &str| on(line).arg("--partner").arg(&partner);
        assert_eq!(on("health").run().await.code, Some(0));
        as_partner("api-keys create").run().await.json();
        for (line, is_found) in [("--since 2h", true), ("--until 2h", false)] {
            let line = as_partner("audit list").args(line).run().await.json();
            assert_eq!(!line.list("data").is_empty(), is_found, "{line}");
        }
        let vague = refused(as_partner("audit list --since yesterday"), 2, "usage").await;
        vague.ended(2, &["--since is \"yesterday\"", "2h, 7d or 1w"]);
        refused(on("api-keys list"), 5, "partner_required").await;
        refused(on("policies list"), 5, "partner_required").await;
        refused(on("api-keys list --partner x"), 2, "usage").await;
        let nowhere = as_partner("bookings create --json /nowhere.json");
        refused(nowhere, 2, "usage").await;
        let nobody = "bkg_00000000000000000000000000000000";
        for id in [nobody, "x", "", "../x", "ünknown"] {
            for get in ["bookings get", "evidence get"] {
                refused(as_partner(get).arg(id), 3, "not_found").await;
            }
        }
        let broken = as_partner("bookings create --json -").input("{\"talent\":5}");
        let broken = refused(broken, 5, "invalid_request").await;
        broken.ended(5, &["/talent: ", "/organizer: ", "/eventType: ", "/eventDate: ", "/bookingValue: "]);
        let create = as_partner(
            "bookings create --talent-id 1 --talent-name T --organizer-id 2 --organizer-name O --event-type x",
        );
        let negative = create.clone().args("--event-date 2031-01-01T00:00:00Z --value -5");
        refused(negative, 5, "amount_negative").await;
        let soon = create.args("--event-date soon --value 5");
        refused(soon, 5, "invalid_date").await;
        let list = as_partner("bookings list").run().await.json();
        assert_eq!(list["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn usage_that_makes_no_sense_is_2_and_shows_the_way() {
    for line in [
        "nonsense",
        "bookings",
        "bookings get",
        "bookings list --nonsense",
        "bookings list --output yaml",
        "bookings list --db x --url http://127.0.0.1:1",
        "health --url nonsense",
        "health --url ftp://example.com",
        "health --url http://user:pass@127.0.0.1:1",
        "serve --registration sometimes",
        "serve --config /nowhere.toml",
        "serve --url http://127.0.0.1:1",
        "serve --webhook-allow-subnet 10.0.0.0/99",
        "completions tcsh",
        "webhook verify --body - --header sha256=00",
    ] {
        let ran = bookguard(line).run().await;
        ran.refused(2, &[]);
        let told = ran.stderr.starts_with("error: ") || ran.stderr.contains("Usage:");
        let bare = ran.stderr.contains("panicked") || ran.stderr.contains("user:pass");
        assert!(told && !bare, "{line}: {ran:?}");
    }
    for line in ["--help", "--version", "bookings create --help"] {
        bookguard(line).run().await.said(&[]);
    }
    let help = bookguard("--help").run().await;
    help.said(&["Exit codes: 0 ok, 1 unexpected, 2 usage, 3 not found"]);
}

#[tokio::test]
async fn on_a_server() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let url = server.running().url();
        let with_key = |key: &str, line: &str| {
            let line = bookguard(line).env("BOOKGUARD_URL", &url);
            line.env("BOOKGUARD_API_KEY", key)
        };
        let on = |line: &str| with_key(&acme.key, line);
        with_key("", "health").run().await.said(&[]);
        on("bookings list").run().await.said(&[]);
        let beyond = on("bookings list").env("BOOKGUARD_URL", format!("{url}/v1"));
        refused(beyond, 2, "usage").await.ended(2, &["without it"]);
        for id in ["bkg_00000000000000000000000000000000", "x", "a/b", ".."] {
            refused(on("bookings get").arg(id), 3, "not_found").await;
        }
        refused(with_key("", "bookings list"), 4, "no_api_key").await;
        let wrong = with_key("bgk_wrong", "bookings list");
        refused(wrong, 4, "unauthorized").await;
        let scopes = json!({"scopes": ["bookings:read"]});
        let reader = acme.post("/v1/api-keys", &scopes).await;
        let reads = with_key(&reader.string("apiKey"), "api-keys list");
        refused(reads, 4, "insufficient_scope").await;
        let booking = acme.book().await;
        let event = acme.events(&booking).await.remove(0);
        let retry = on("webhook-events retry").arg(event.text("eventId"));
        refused(retry, 5, "no_endpoints").await;
        refused(on("bookings list --limit 0"), 5, "out_of_range").await;
        let twice = on("bookings protect --idempotency-key 'two words'").arg(&booking);
        refused(twice, 5, "idempotency_key_invalid").await;
        // The server loses a table of its store.
        let gone = "ALTER TABLE booking RENAME TO gone";
        server.database().tamper(gone);
        let unavailable = refused(on("bookings list"), 9, "unavailable").await;
        unavailable.ended(9, &["Try again in 1 s."]);
    })
    .await;
}

#[tokio::test]
async fn where_no_bookguard_answers() {
    // Nothing listens at this address any more.
    let gone = Receiver::start().await.url();
    let list_at = |url: &str| {
        let line = bookguard("bookings list --url").arg(url);
        line.env("BOOKGUARD_API_KEY", "bgk_x")
    };
    let unreachable = refused(list_at(&gone), 7, "unreachable").await;
    unreachable.ended(7, &["127.0.0.1"]);
    let other = Receiver::start().await;
    for answer in [
        Answer::Status(200),
        Answer::Status(404),
        Answer::Status(500),
        Answer::Headed(302, "location: http://127.0.0.1:9/elsewhere\r\n"),
    ] {
        other.answer(answer.clone());
        let ran = refused(list_at(&other.url()), 9, "bad_answer").await;
        assert!(!ran.stderr.contains("bgk_x"), "{answer:?}: {ran:?}");
    }
    // A proxy answers in the place of a server that is away.
    for answer in [Answer::Close, Answer::Status(502)] {
        other.answer(answer);
        refused(list_at(&other.url()), 7, "unreachable").await;
    }
}

#[tokio::test]
async fn too_many_requests_are_8_with_the_time_to_wait() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let line = database.command("serve --listen 127.0.0.1:0 --registrations-per-minute 1");
        let server = Serving::of(line).await;
        let register = || bookguard(REGISTER).env("BOOKGUARD_URL", server.url());
        assert_eq!(register().run().await.code, Some(0));
        let ran = refused(register(), 8, "rate_limited").await;
        ran.ended(8, &["Try again in "]);
    })
    .await;
}

#[tokio::test]
async fn a_command_of_many_requests_waits_for_its_turn() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let limits = "--rate-limit-per-second 5 --rate-limit-burst 5";
        let line = database.command("serve --listen 127.0.0.1:0").args(limits);
        let server = Serving::of(line).await;
        let acme = server.partner("Acme").await;
        for _ in 0..3 {
            acme.book().await;
        }
        let archive = database.folder().join("acme.tar");
        let export = acme.command("partners export --out").arg(&archive);
        assert_eq!(export.run().await.json()["bookings"], 3);
        server.stop().await;
    })
    .await;
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut line = std::process::Command::new(bookguard_tests::program::program());
    let ran = line.arg("--help").stdout(full.unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output cannot be written"), "{said}");
}
