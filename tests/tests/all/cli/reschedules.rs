//! Changes of date and acceptances in commands: looked at, made, repeated, refused; on a database and on a server.

use std::path::Path;
use std::sync::Arc;

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::program::{Serving, bookguard};

use crate::cli::cancellation::{Target, register};

async fn tell(target: &Target<'_>) {
    let id = target.book().await;
    let reschedule = [
        "bookings",
        "reschedule",
        &id,
        "--event-date",
        "2031-10-20T19:00:00-04:00",
        "--agreed-by",
        "organizer,talent",
    ];
    let with = |more: &[&'static str]| -> Vec<String> {
        let all = reschedule.iter().chain(more);
        all.map(|arg| (*arg).to_owned()).collect()
    };
    let run = async |more: &[&'static str]| {
        let args = with(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        target.run(&args).await
    };
    let shown = run(&["--dry-run", "--time-zone", "America/New_York"])
        .await
        .json();
    assert_eq!(shown["dryRun"], true);
    assert_eq!(shown["timeZone"], "America/New_York");
    let booking = target.run(&["bookings", "get", &id]).await.json();
    assert_eq!(booking["eventDate"], "2031-06-20T23:00:00.000Z");

    let table = run(&["--output", "table"]).await.stdout;
    for words in [
        &id,
        "organizer, talent",
        "2031-10-20",
        "organizer.tiers[0]",
        "leaf hash",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let again = run(&[]).await.json();
    assert_eq!(again["previousEventDate"], "2031-06-20T19:00:00-04:00");
    assert!(again["receipt"]["leafHash"].is_string());
    let booking = target.command(&["bookings", "get", &id, "--output", "table"]);
    let booking = booking.run().await.stdout;
    assert!(booking.contains("rescheduled at"), "{booking}");

    let mut alone = reschedule.to_vec();
    alone[6] = "organizer";
    target.refused(&alone, 5, "agreement_missing").await;
    let later = with(&[
        "--at",
        "2020-01-01T00:00:00Z",
        "--time-zone",
        "Europe/Berlin",
    ]);
    let later: Vec<&str> = later.iter().map(String::as_str).collect();
    target
        .refused(&later, 5, "rescheduled_before_booking")
        .await;
}

/// The text in force is shown and accepted; the packet then shows both.
async fn accepted(target: &Target<'_>, folder: &Path) {
    let id = target.book().await;
    let disclosure = ["bookings", "disclosure", &id];
    let told = target.run(&disclosure).await.json();
    let hash = told["disclosureHash"].as_str().unwrap();
    let now = told["since"].as_str().unwrap();
    let accept = [
        "bookings",
        "accept",
        &id,
        "--party",
        "organizer",
        "--method",
        "e-signature",
        "--at",
        now,
        "--ip",
        "2001:db8::7",
        "--user-agent",
        "Browser/1.0",
        "--disclosure-hash",
        hash,
    ];
    let table = target.command(&accept).arg("--output").arg("table");
    let table = table.run().await.stdout;
    for words in [&id, hash, "e-signature", "2001:db8::7", "leaf hash"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let table = target.command(&disclosure).arg("--output").arg("table");
    let table = table.run().await.stdout;
    for words in [
        "Cancellation terms of this booking",
        "- after that, until 2031-06-13 19:00 -04:00 (2031-06-13T23:00:00Z): USD 625.25 is returned",
        "organizer (e-signature, ",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let mut other = accept;
    let digest = format!("sha256:{}", "00".repeat(32));
    other[4] = "talent";
    other[14] = &digest;
    let error = target.refused(&other, 5, "disclosure_changed").await;
    assert_eq!(error["disclosureHash"], hash);
    let packet = target.run(&["evidence", "get", &id]).await;
    // The packet alone shows what was accepted, and other words under it are found out.
    let key = target.run(&["ledger", "key"]).await.stdout;
    let reworded = packet
        .stdout
        .replace("USD 625.25 is returned", "USD 925.25 is returned");
    assert_ne!(reworded, packet.stdout);
    for (name, text, exit) in [
        ("packet.json", &packet.stdout, 0),
        ("reworded.json", &reworded, 6),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        let verify = bookguard(["evidence", "verify", name, "--key", key.trim()]);
        let ran = verify.in_folder(folder).run().await;
        let says = ran
            .stdout
            .contains("not what the frozen terms say in words");
        assert_eq!((ran.code, says), (Some(exit), exit == 6), "{ran:?}");
    }
    let packet = packet.json();
    assert_eq!(packet["termsDisclosures"][0]["text"], told["text"]);
    assert_eq!(packet["acceptances"][0]["party"], "organizer");
}

#[tokio::test]
async fn on_a_database() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let partner = register(&database).await["partnerId"]
            .as_str()
            .unwrap()
            .to_owned();
        let target = Target::Local(&database, partner);
        tell(&target).await;
        accepted(&target, database.folder()).await;
        database.verify(2).await;
    })
    .await;
}

#[tokio::test]
async fn on_a_server() {
    on_every_engine(async |engine| {
        let database = Arc::new(TestDatabase::new(engine));
        let key = register(&database).await["apiKey"]
            .as_str()
            .unwrap()
            .to_owned();
        let server = Serving::start(&database, &["--dev"]).await;
        let target = Target::Remote(server.url().to_owned(), key);
        tell(&target).await;
        accepted(&target, database.folder()).await;
        let (code, said) = server.terminate().await;
        assert_eq!(code, Some(0), "{said}");
        database.verify(2).await;
    })
    .await;
}
