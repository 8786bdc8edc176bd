//! Links to a booking's evidence on the command line, and that their tokens are stored and printed nowhere else.

use bookguard_tests::caller::Caller;
use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::files::{holds, names};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::Serving;
use serde_json::json;

async fn visit(anybody: &Caller, link: &str) -> u16 {
    let mut status = 0;
    for (method, query, accept) in [
        ("GET", "", "text/html"),
        ("GET", "", "application/json"),
        ("GET", "?form=no", "application/pdf"),
        ("GET", "?form=%zz", "*/*"),
        ("HEAD", "", "application/pdf"),
        ("PUT", "", "*/*"),
        ("POST", "?form=bank", "text/html"),
    ] {
        let request = anybody.request(method, &format!("{link}{query}"));
        let reply = anybody.send(request.header("accept", accept)).await;
        assert!(!reply.text().contains(&link[3..]), "{reply:?}");
        status = reply.status;
    }
    status
}

#[tokio::test]
async fn a_link_is_made_listed_and_revoked_and_its_token_is_kept_nowhere() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    let booking = acme.book().await;
    let run = |line: String| acme.command(line).run();
    let made = run(format!(
        "evidence share {booking} --expires-in P2D --withhold ip,userAgent --note bank --idempotency-key once"
    ));
    let made = made.await.json();
    made.holds(json!({"withhold": ["ip", "userAgent"], "note": "bank"}));
    let (_, token) = made.text("url").rsplit_once("/s/").unwrap();
    let link = format!("/s/{token}");
    let anybody = server.caller();
    assert_eq!(visit(&anybody, &link).await, 200);
    let listed = run(format!("evidence shares {booking}")).await.json();
    let [share] = &listed.list("data")[..] else {
        panic!("{listed}")
    };
    share.holds(json!({"shareId": made["shareId"], "views": 2}));
    // A fault that is logged.
    database.tamper("ALTER TABLE share RENAME TO gone");
    let request = anybody.request("GET", &link);
    let refused = anybody.send(request.header("accept", "application/json"));
    refused.await.refused(503, "unavailable");
    database.tamper("ALTER TABLE gone RENAME TO share");
    let id = made.text("shareId");
    let revoked = run(format!("evidence unshare {booking} {id}")).await.json();
    assert!(revoked["revokedAt"].is_string());
    assert_eq!(visit(&anybody, &link).await, 404);
    let wrong = run(format!("evidence share {booking} --withhold name")).await;
    wrong.ended(5, &["(not_allowed)"]);
    let folder = database.folder();
    let copy = folder.join("copy.db");
    let backup = format!("backup {}", copy.display());
    database.command(backup).run().await.ended(0, &[]);
    let log = server.stop().await;
    assert!(log.contains("a read failed"), "{log}");
    assert!(!log.contains(token), "{log}");
    let mut looked_at = 0;
    for name in names(folder) {
        let Ok(bytes) = std::fs::read(folder.join(&name)) else {
            continue;
        };
        assert!(!holds(&bytes, token), "{name}");
        looked_at += usize::from(holds(&bytes, id));
    }
    // The share itself is in the database and its copy.
    assert!(looked_at >= 2, "{looked_at}");
}
