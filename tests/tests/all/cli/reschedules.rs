//! Commands for reschedules and acceptances: previewed, recorded, repeated and refused, on a database and on a server.

use std::path::Path;

use bookguard_tests::json::Members as _;
use serde_json::json;

use crate::cli::target::{Target, on_database_and_server, verify_packet};

#[tokio::test]
async fn an_event_is_moved_and_its_terms_are_accepted() {
    on_database_and_server(2, async |target, folder| {
        moved(&target).await;
        accepted(&target, folder).await;
    })
    .await;
}

async fn moved(target: &Target<'_>) {
    let id = target.book().await;
    let to = format!("bookings reschedule {id} --event-date 2031-10-20T19:00:00-04:00");
    let agreed = format!("{to} --agreed-by organizer,talent");
    let dry_run = format!("{agreed} --dry-run --time-zone America/New_York");
    let shown = target.json(dry_run).await;
    shown.holds(json!({"dryRun": true, "timeZone": "America/New_York"}));
    let booking = format!("bookings get {id}");
    let before = "2031-06-20T23:00:00.000Z";
    assert_eq!(target.json(&booking).await["eventDate"], before);

    let step = "organizer.tiers[0]";
    let words = [&*id, "organizer, talent", "2031-10-20", step, "leaf hash"];
    target.table(&agreed, &words).await;
    let again = target.json(&agreed).await;
    assert_eq!(again["previousEventDate"], "2031-06-20T19:00:00-04:00");
    assert!(again["receipt"]["leafHash"].is_string());
    target.table(&booking, &["rescheduled at"]).await;

    let alone = format!("{to} --agreed-by organizer");
    target.refused(alone, 5, "agreement_missing").await;
    let early = format!("{agreed} --at 2020-01-01T00:00:00Z --time-zone Europe/Berlin");
    target.refused(early, 5, "rescheduled_before_booking").await;
}

/// Asserts that the text in force can be shown and accepted, and that the packet shows both.
async fn accepted(target: &Target<'_>, folder: &Path) {
    let id = target.book().await;
    let disclosure = format!("bookings disclosure {id}");
    let told = target.json(&disclosure).await;
    let (hash, now) = (told.text("disclosureHash"), told.text("since"));
    let accept = |party: &str, hash: &str| {
        format!(
            "bookings accept {id} --party {party} --method e-signature --at {now} --ip 2001:db8::7 \
             --user-agent Browser/1.0 --disclosure-hash {hash}"
        )
    };
    let words = [&id, hash, "e-signature", "2001:db8::7", "leaf hash"];
    target.table(accept("organizer", hash), &words).await;
    let words = [
        "Cancellation terms of this booking",
        "- after that, until Friday 13 June 2031, 19:00 UTC-04:00 (23:00 UTC): USD 625.25 is returned",
        "organizer (e-signature, ",
    ];
    target.table(&disclosure, &words).await;
    let other = accept("talent", &format!("sha256:{}", "00".repeat(32)));
    let error = target.refused(other, 5, "disclosure_changed").await;
    assert_eq!(error["disclosureHash"], hash);
    // The packet alone shows what was accepted, and other words in its place are detected.
    let packet = target.run(format!("evidence get {id}")).await;
    let vkey = target.vkey().await;
    let [told_of, other] = ["625.25", "925.25"].map(|sum| format!("USD {sum} is returned"));
    let reworded = packet.stdout.replace(&told_of, &other);
    assert_ne!(reworded, packet.stdout);
    for (text, exit) in [(&packet.stdout, 0), (&reworded, 6)] {
        let ran = verify_packet(folder, "packet.json", text, &vkey).await;
        let anew = "not the text made anew from the frozen terms";
        let says = ran.stdout.contains(anew);
        assert_eq!((ran.code, says), (Some(exit), exit == 6), "{ran:?}");
    }
    let packet = packet.json();
    assert_eq!(packet["termsDisclosures"][0]["text"], told["text"]);
    assert_eq!(packet["acceptances"][0]["party"], "organizer");
}
