//! The output: tables for people, the interface's JSON for programs, and a quiet end if the reader goes away.

use std::path::PathBuf;

use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::files::names;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{bookguard, program};
use bookguard_tests::test_server::TestServer;
use serde_json::json;
use tempfile::TempDir;

use super::codes::REGISTER;

#[tokio::test]
async fn tables_are_for_people_and_steer_no_terminal() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let parties = json!({
            "talent": {"id": "t", "name": "Zoë 🎸"}, "organizer": {"id": "o", "name": "שלום"}
        });
        let id = acme.book_with(parties).await;
        acme.protect(&id).await;
        let event = acme.events(&id).await[0].text("eventId").to_owned();
        let get = format!("bookings get {id}");
        let parties = ["Zoë", "\u{2068}שלום (o)\u{2069}"];
        for (line, shown) in [
            (
                &get,
                &["USD 1,250.50", "protected", "2031-06-20 23:00:00 UTC"][..],
            ),
            (&get, &parties),
            (&"bookings list".to_owned(), &["BOOKING", "STATUS", &id]),
            (&format!("bookings protect {id}"), &[&id]),
            (
                &format!("bookings policy {id}"),
                &["full_refund", "1,250.50"],
            ),
            (
                &format!("webhook-events list --booking {id}"),
                &["booking.created", "no_endpoints"],
            ),
            (&format!("webhook-events get {event}"), &[&event]),
            (
                &"webhook-endpoints list".to_owned(),
                &["No webhook endpoints."],
            ),
            (&"api-keys list".to_owned(), &["Initial key"]),
            (&"api-keys create".to_owned(), &["bgk_", "not shown again"]),
            (&"partners me".to_owned(), &["Acme", "active"]),
            (&"health".to_owned(), &["ok"]),
            (&format!("evidence get {id}"), &[&id]),
            (&"ledger checkpoint".to_owned(), &["bookguard-"]),
        ] {
            let table = acme.command(line).args("--output table").run().await;
            let table = &table.said(shown).stdout;
            for steering in ['\u{1b}', '\u{202e}', '\u{9b}', '\r'] {
                assert!(!table.contains(steering), "{line}");
            }
            let one_end = table.ends_with('\n') && !table.ends_with("\n\n");
            assert!(one_end, "{line}: {table:?}");
        }
        // Into a pipe, the output is the bytes of the HTTP answer.
        let over_http = acme.get(&format!("/v1/bookings/{id}")).await.text();
        let printed = acme.command(&get).run().await.stdout;
        assert_eq!(printed, format!("{over_http}\n"));
    })
    .await;
}

#[tokio::test]
async fn the_interface_document_is_the_one_checked_in() {
    let printed = bookguard("openapi").run().await;
    printed.ended(0, &[]);
    assert!(
        printed.stdout == include_str!("../../../../openapi/openapi.json"),
        "openapi/openapi.json is old"
    );
}

#[tokio::test]
async fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = bookguard(format!("completions {shell}")).run().await;
        script.said(&["webhook-endpoints", "protect", "checkpoint"]);
    }
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("man");
    let written = bookguard("man").arg(pages.to_str().unwrap()).run().await;
    written.ended(0, &[]);
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    for command in ["serve", "evidence-verify", "webhook-events-recoveries-get"] {
        assert!(page(&format!("bookguard-{command}.1")).contains(".SH SYNOPSIS"));
    }
    assert!(page("bookguard-serve.1").contains("BOOKGUARD_LISTEN"));
    assert!(page("bookguard.1").contains(".SH \"EXIT STATUS\"\n0 ok, "));
    let in_the_way = format!("{}/bookguard.1/x", pages.display());
    let refused = bookguard("man").arg(&in_the_way).run().await;
    refused.refused(1, &[&in_the_way]);
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_a_command_quietly() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        database.command(REGISTER).run().await.json();
        for line in ["openapi", "completions zsh", "--help", "demo"] {
            let line = bookguard(line).in_folder(database.folder());
            line.run_unread().await.said(&[]);
        }
        for line in [
            "partners list",
            "ledger verify",
            "ledger key",
            "bookings list",
        ] {
            database.command(line).run_unread().await.said(&[]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_verdict_stands_even_if_nobody_reads_it() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let packet = acme.packet(&acme.book().await).await.text();
    let forged = packet.replacen("\"bookingValue\":1", "\"bookingValue\":2", 1);
    assert_ne!(forged, packet);
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("forged.json"), forged).unwrap();
    let key = server.vkey().await;
    for form in ["table", "json"] {
        let verify = bookguard("evidence verify forged.json --key").arg(key.trim());
        let ran = verify.args(["--output", form]).in_folder(folder.path());
        ran.run_unread().await.ended(6, &["verification_failed"]);
    }
    let unknown = bookguard("doctor --db nowhere/bookguard.db").in_folder(folder.path());
    unknown.run_unread().await.ended(1, &["problems_found"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_demo_of_which_only_the_beginning_is_read_raises_no_alarm() {
    let folder = TempDir::new().unwrap();
    let mut line = tokio::process::Command::new("sh");
    line.args(["-c", "\"$0\" demo 2>said | head -n 1"])
        .arg(program())
        .env("TMPDIR", folder.path())
        .current_dir(folder.path());
    let ran = line.output().await.unwrap();
    assert!(ran.stdout.starts_with(b"Bookguard from end to end"));
    let said = std::fs::read_to_string(folder.path().join("said")).unwrap();
    assert_eq!(said, "");
    assert_eq!(names(folder.path()), ["said".to_owned()].into());
}

#[tokio::test]
async fn the_demo_tells_the_whole_story_and_leaves_only_the_evidence() {
    let (folder, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let line = bookguard("demo")
        .in_folder(folder.path())
        .env("TMPDIR", temporary.path());
    let ran = line.run().await;
    ran.said(&[
        "Server up",
        "Partner registered",
        "Webhook receiver up",
        "Booking recorded",
        "Webhook received: booking.created",
        "Booking protected",
        "Webhook received: booking.protected",
        "Signed contract added",
        "Policy evaluated",
        "Booking canceled",
        "Webhook received: resolution.created",
        "Deliveries on record",
        "Evidence packet fetched",
        "Evidence shared by a link",
        "A visitor opens the link",
        "Link revoked",
        "The organizer's data erased",
        "Packet verified offline",
        "The one value of the entry is the one recorded.",
        "One byte of the packet changed",
        "NOT VERIFIED.",
        "Evidence written for people",
        "evidence.html",
        "Every step succeeded",
        "bookguard serve",
    ]);
    assert!(names(folder.path()).is_empty());
    let mut left = names(temporary.path());
    let kept = temporary.path().join(left.pop_first().unwrap());
    assert!(left.is_empty(), "{left:?}");
    let made = [
        "evidence.html",
        "evidence.pdf",
        "ledger.vkey",
        "packet.json",
    ];
    assert_eq!(names(&kept), made.map(str::to_owned).into());
    let key = format!("@{}", kept.join("ledger.vkey").display());
    let packet = kept.join("packet.json");
    let check = bookguard("evidence verify").args([packet.to_str().unwrap(), "--key", &key]);
    assert_eq!(check.run().await.json()["verified"], true);
}

#[cfg(unix)]
#[tokio::test]
async fn a_document_goes_where_its_name_leads() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let id = acme.book().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("packet.json"), acme.packet(&id).await.body).unwrap();
    let key = server.vkey().await;
    let page = |out: PathBuf| {
        let line = bookguard("evidence page packet.json --key").arg(key.trim());
        line.arg("--out").arg(out).in_folder(folder.path())
    };
    page(path("page.html")).run().await.json();
    let made = std::fs::read(path("page.html")).unwrap();
    // Standard output has its usual name, which no file gets.
    let printed = page(PathBuf::from("-")).run().await;
    assert!(printed.ended(0, &[]).stdout.as_bytes() == made);
    for line in ["man -", "backup -", "partners export --out -"] {
        let refused = bookguard(line).in_folder(folder.path()).run().await;
        refused.refused(2, &["standard output cannot take this", "./-"]);
    }
    // A link stays, and what it leads to is replaced.
    std::fs::write(path("target.html"), "old").unwrap();
    std::os::unix::fs::symlink("target.html", path("link.html")).unwrap();
    page(path("link.html")).run().await.json();
    assert!(path("link.html").is_symlink());
    assert_eq!(std::fs::read(path("target.html")).unwrap(), made);
    // A pipe is written to.
    let pipe = path("pipe");
    let program = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(program.unwrap().success());
    let opened = pipe.clone();
    let reader = tokio::task::spawn_blocking(move || std::fs::read(opened).unwrap());
    page(pipe.clone()).run().await.json();
    assert_eq!(reader.await.unwrap(), made);
    assert!(!pipe.metadata().unwrap().is_file());
    let left = [
        "link.html",
        "packet.json",
        "page.html",
        "pipe",
        "target.html",
    ];
    assert_eq!(names(folder.path()), left.map(str::to_owned).into());
}
