//! A database that was put back from before an erasure serves nothing until the values are erased again.

use std::path::{Path, PathBuf};

use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::files::holds;
use bookguard_tests::program::Serving;
use bookguard_tests::samples;
use bookguard_tests::test_server::Partner;
use bookguard_tests::waiting::until;
use serde_json::json;

const CANARY: &str = "Wombatquartz";

/// A database put back from a backup that was made before the canary was erased from its booking.
struct PutBack {
    database: TestDatabase,
    acme: Partner,
    booking: String,
}

fn is_in(file: &Path) -> bool {
    holds(&std::fs::read(file).unwrap_or_default(), CANARY)
}

impl PutBack {
    async fn new() -> Self {
        Self::without(&[]).await
    }

    /// Such a database, after these files beside the key were lost.
    async fn without(lost: &[&str]) -> Self {
        let database = TestDatabase::new(Engine::Sqlite);
        let (server, acme) = Serving::with_partner(&database, &[]).await;
        let organizer = json!({"organizer": {"id": "o", "name": CANARY}});
        let booking = acme.book_with(organizer).await;
        let backup = database.folder().join("before.db");
        let made = database.command("backup").arg(&backup).run().await;
        made.ended(0, &[]);
        let asked = json!({"party": "organizer", "legalBasis": "objection"});
        let path = format!("/v1/bookings/{booking}/erasures");
        acme.post(&path, &asked).await.ok(200);
        server.stop().await;
        assert!(!is_in(database.file()) && is_in(&backup));
        for end in lost {
            let file = database.file().with_extension(format!("db.key.{end}"));
            std::fs::remove_file(file).unwrap();
        }
        let restored = database.command("restore").arg(&backup).run().await;
        restored.ended(0, &[]);
        assert!(is_in(database.file()));
        Self {
            database,
            acme,
            booking,
        }
    }

    fn beside(&self, end: &str) -> PathBuf {
        self.database.file().with_extension(format!("db.key.{end}"))
    }

    /// Accepts the loss, which erases the values again.
    async fn is_accepted(&self) {
        let line = self.database.command("ledger accept-rollback --yes");
        line.run().await.ended(0, &["were done again: 1."]);
    }

    /// Requires that the canary is gone, and everything else there.
    async fn is_erased(&self, server: Serving) {
        let acme = self.acme.on(server.url());
        let shown = acme.booking(&self.booking).await;
        assert_eq!(shown["organizer"]["name"], "erased");
        acme.verified_packet(&self.booking).await;
        server.stop().await;
        assert!(!is_in(self.database.file()));
        self.database.verify(1).await;
    }
}

#[tokio::test]
async fn a_restored_database_serves_nothing_until_the_loss_is_accepted_and_the_values_are_erased_again()
 {
    let back = PutBack::new().await;
    let server = Serving::start(&back.database, &[]).await;
    let acme = back.acme.on(server.url());
    let path = format!("/v1/bookings/{}", back.booking);
    for path in [&*path, &format!("{path}/evidence"), "/v1/bookings"] {
        let refused = acme.get(path).await;
        refused.refused(503, "erasures_pending");
        refused.says(&["accept-rollback"]);
        assert!(!refused.text().contains(CANARY));
    }
    assert!(!server.stop().await.contains(CANARY));
    let local = back.database.command(["bookings", "get", &back.booking]);
    let local = local.run().await;
    assert!(local.stderr.contains("erasures_pending"), "{local:?}");
    assert!(!local.stdout.contains(CANARY), "{local:?}");
    back.is_accepted().await;
    let server = Serving::start(&back.database, &[]).await;
    back.is_erased(server).await;
}

#[tokio::test]
async fn without_the_guard_the_list_alone_shows_the_loss_and_nothing_is_written_before_it_is_accepted()
 {
    let back = PutBack::new().await;
    std::fs::remove_file(back.beside("seen")).unwrap();
    let list = std::fs::read_to_string(back.beside("erased")).unwrap();
    assert!(
        list.contains("organizer") && !list.contains(CANARY),
        "{list}"
    );
    let entries = || back.database.count("SELECT COUNT(*) FROM entry");
    let before = entries();
    let checked = back.database.command("ledger verify").run().await;
    checked.ended(6, &["ledger_rolled_back"]);
    let checked = back.database.command("ledger verify --backup").run().await;
    checked.ended(0, &[]);
    let server = Serving::start(&back.database, &[]).await;
    let acme = back.acme.on(server.url());
    let refused = acme.post("/v1/bookings", &samples::booking()).await;
    refused.refused(503, "erasures_pending");
    assert_eq!(entries(), before);
    assert!(!back.beside("seen").exists(), "nothing was published");
    back.is_accepted().await;
    // The server notices by itself.
    until("the server to go on", async || {
        (acme.get("/v1/bookings").await.status == 200).then_some(())
    })
    .await;
    back.is_erased(server).await;
    // A list that was lost is made again from the ledger.
    std::fs::remove_file(back.beside("erased")).unwrap();
    Serving::start(&back.database, &[]).await.stop().await;
    let list = std::fs::read_to_string(back.beside("erased")).unwrap();
    assert_eq!(list.lines().count(), 1, "{list}");
}

#[tokio::test]
async fn a_list_that_was_lost_is_made_again_from_the_database_that_is_replaced() {
    for lost in [&["erased"] as &[&str], &["erased", "seen"]] {
        let back = PutBack::without(lost).await;
        let list = std::fs::read_to_string(back.beside("erased")).unwrap();
        assert_eq!(list.lines().count(), 1, "{list}");
        let server = Serving::start(&back.database, &[]).await;
        let acme = back.acme.on(server.url());
        let refused = acme.get(&format!("/v1/bookings/{}", back.booking)).await;
        refused.refused(503, "erasures_pending");
        server.stop().await;
        back.is_accepted().await;
        let server = Serving::start(&back.database, &[]).await;
        back.is_erased(server).await;
    }
}
