//! Commands for cancellations: previewed, guarded, recorded and decided, on a database and on a server.

use std::path::Path;

use bookguard_tests::json::Members as _;
use serde_json::json;

use crate::cli::target::{Target, on_database_and_server, verify_packet};

#[tokio::test]
async fn a_cancellation_is_looked_at_guarded_made_and_proven() {
    on_database_and_server(2, async |target, folder| {
        let id = target.book().await;
        let evaluate = format!("bookings evaluate {id} --as-of 2031-06-01T00:00:00Z");
        looked_at(&target, &evaluate).await;

        let cancel = format!("bookings cancel {id} --canceled-by organizer");
        let preview = target.json(format!("{cancel} --dry-run")).await;
        preview.holds(json!({"evaluationStatus": "provisional", "dryRun": true}));
        let dry_run = format!("{cancel} --dry-run");
        let words = ["full_refund", "recorded  no, this is what would happen"];
        target.table(dry_run, &words).await;
        // What the cancellation would be refused for, a dry run is refused for.
        let long = format!("--note {}", "x".repeat(5_000));
        for (more, exit, words) in [
            ("--evidence notice=/nowhere", 2, "/nowhere cannot be read"),
            ("--evidence mail.eml", 2, "KIND=FILE"),
            ("--expect-refund 5", 5, "(quote_changed)"),
            ("--expect-policy x", 5, "--expect-policy: "),
            (&long, 5, "--note: "),
        ] {
            let dry_run = target.run(format!("{cancel} {more} --dry-run")).await;
            dry_run.refused(exit, &[words]);
        }
        let same = format!("{cancel} --expect-refund 125050 --dry-run");
        target.json(same).await.holds(json!({"dryRun": true}));
        let early = format!("{cancel} --dry-run --effective-at 2020-01-01T00:00:00Z");
        let early = target.run(early).await;
        early.ended(5, &["--effective-at: ", "before the booking"]);
        // Without a terminal and without `--yes`, the command refuses and says what would happen.
        let unasked = target.run(&cancel).await;
        unasked.ended(2, &["full_refund", "1,250.50", "for good", "--yes"]);
        let both = target.run(format!("{cancel} --dry-run --yes")).await;
        both.ended(2, &[]);
        for wrong in ["refund", "penalty", "compensation"] {
            let wrong = format!("{cancel} --yes --expect-{wrong} 1");
            let error = target.refused(wrong, 5, "quote_changed").await;
            assert_eq!(error["evaluation"]["refund"]["minorUnits"], 125_050);
        }
        let shown = target.json(format!("bookings get {id}")).await;
        assert_eq!(shown["status"], "created");

        let mail = folder.join("mail.eml");
        std::fs::write(&mail, "abc").unwrap();
        let evidence = format!("--evidence notice={}", mail.display());
        let reason = "--reason illness --note fever --expect-refund 125050 --yes";
        let resolution = target.json(format!("{cancel} {reason} {evidence}")).await;
        assert_eq!(resolution["status"], "final");
        let resolution_id = resolution.text("resolutionId");
        let get = format!("resolutions get {resolution_id}");
        assert_eq!(target.json(&get).await, resolution);
        let words = ["full_refund", "USD 1,250.50", "record_only", "illness"];
        let table = target.table(&get, &words).await;
        assert!(table.contains(resolution_id), "{table}");
        // No confirmation is asked for when the booking is already canceled.
        for yes in ["--yes", ""] {
            let other = format!("bookings cancel {id} --canceled-by talent {yes}");
            let error = target.refused(other, 5, "booking_already_canceled").await;
            assert_eq!(error["resolutionId"], resolution_id);
        }
        assert_eq!(target.json(&evaluate).await, resolution["evaluation"]);
        let dry_run = format!("{cancel} --dry-run");
        let words = ["the booking is already canceled"];
        target.table(dry_run, &words).await;
        verified(&target, &id, folder).await;
        decided(&target).await;
        let nobody = "resolutions get res_00000000000000000000000000000000";
        target.refused(nobody, 3, "not_found").await;
    })
    .await;
}

/// Asserts that the output shows the schedule, with the step in force marked, and every actor.
async fn looked_at(target: &Target<'_>, evaluate: &str) {
    let matrix = format!("{evaluate} --matrix");
    let words = [
        "Whoever cancels:",
        "mutual_agreement",
        "talent.cancel",
        "open",
    ];
    let table = target.table(&matrix, &words).await;
    let marked: Vec<&str> = table.lines().filter(|line| line.contains("->")).collect();
    assert_eq!(marked.len(), 1, "{table}");
    assert!(marked[0].contains("organizer.tiers[1]"), "{table}");
    assert!(marked[0].contains("USD 625.25"), "{table}");
    assert_eq!(target.json(&matrix).await.list("matrix").len(), 4);
    let agreed = format!("{evaluate} --canceled-by mutual --agreed-refund 10.50");
    assert_eq!(target.json(agreed).await["refund"]["minorUnits"], 1_050);
}

/// Asserts that the packet verifies, and that one with edited amounts does not.
async fn verified(target: &Target<'_>, id: &str, folder: &Path) {
    let vkey = target.vkey().await;
    let packet = target.run(format!("evidence get {id}")).await.stdout;
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert!(packet.contains(digest), "{packet}");
    let edited = packet.replace("\"minorUnits\":125050", "\"minorUnits\":125051");
    for (name, packet, exit) in [("packet.json", packet, 0), ("edited.json", edited, 6)] {
        let ran = verify_packet(folder, name, &packet, &vkey).await;
        ran.ended(exit, &[]);
    }
}

/// Asserts that a pending resolution is decided once.
async fn decided(target: &Target<'_>) {
    let id = target.book().await;
    let cancel = format!("bookings cancel {id} --canceled-by talent");
    let words = [
        "pending_review",
        "to be decided",
        "A person decides between:",
    ];
    let open = format!("{cancel} --reason force_majeure --yes");
    target.table(open, &words).await;
    let booking = target.json(format!("bookings get {id}")).await;
    let pending = booking.text("resolutionId");
    // Nor is one asked for when the resolution is pending.
    let error = target.refused(&cancel, 5, "booking_already_canceled").await;
    assert_eq!(error["resolutionId"], pending);
    let decide = format!("resolutions decide {pending} --decided-by ops --rationale why --refund");
    let resolution = target.json(format!("{decide} 1000.25")).await;
    resolution.holds(json!({"status": "decided", "supersedes": pending}));
    let again = format!("{decide} 1");
    target.refused(again, 5, "resolution_already_decided").await;
    target.refused(format!("{decide} much"), 2, "usage").await;
}
