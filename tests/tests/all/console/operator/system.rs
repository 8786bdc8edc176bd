//! What the operator is told of the service itself.

use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::{Members as _, only};
use serde_json::json;

use super::Desk;

#[tokio::test]
async fn the_system_is_told_without_secrets() {
    on_every_engine(async |engine| {
        let (server, desk) = Desk::with(engine, |config| {
            let folder = config.db.file().map_or(std::env::temp_dir(), |file| {
                file.parent().unwrap().to_owned()
            });
            Config {
                backup_folder: Some(folder.join("no-such-folder")),
                ..config
            }
        })
        .await;
        let acme = server.partner("Acme").await;
        let receipt = acme.protect(&acme.book().await).await["receipt"].clone();
        let system = desk.caller().get("/v1/system").await.ok(200);
        let checkpoint = server.caller().get("/v1/ledger/checkpoint").await.text();
        let lines: Vec<&str> = checkpoint.lines().collect();
        system["log"]
            .holds(json!({"origin": lines[0], "rootHash": receipt["rootHash"], "isSound": true}));
        assert_eq!(system["log"]["size"].to_string(), lines[1]);
        assert_eq!(system["writes"], json!({"taken": true}));
        match engine {
            Engine::Sqlite => {
                assert_eq!(system["backups"].get("newestAt"), None);
                assert!(system["backups"].is_object(), "{system}");
                assert!(system.get("nodes").is_none(), "{system}");
            }
            Engine::Postgres => {
                assert!(system.get("backups").is_none(), "{system}");
                let node = only(system.list("nodes"));
                node.holds(json!({"answers": true, "version": env!("CARGO_PKG_VERSION")}));
                assert!(node["nodeId"].is_u64(), "{node}");
                assert!(node.text("since") <= node.text("seenAt"), "{node}");
            }
        }
        let named: Vec<_> = system
            .list("settings")
            .iter()
            .map(|setting| setting.text("name"))
            .collect();
        assert!(
            named.contains(&"operator_listen") && named.contains(&"ledger_key"),
            "{named:?}"
        );
        let local = server.database().command("system").json().await;
        assert_eq!(local["log"], system["log"]);
        if engine == Engine::Postgres {
            let node = &local.list("nodes")[0];
            // The command itself is not a node.
            node.holds(json!({"nodeId": system["nodes"][0]["nodeId"], "answers": false}));
        }
        acme.get("/v1/system").await.refused(404, "path_not_found");
        let page = desk.browser.page("/system").await;
        let node = system["nodes"][0]["nodeId"].to_string();
        assert_eq!(
            page.html.contains(&format!("<code>{node}</code>")),
            engine == Engine::Postgres
        );
        for told in [lines[0], receipt.text("rootHash")] {
            page.says(&[told]);
        }
        // Those of a database server are not made by this program.
        for page in [page, desk.browser.page("").await] {
            let is_missed = page.html.contains("There is no verified backup");
            assert_eq!(is_missed, engine == Engine::Sqlite, "{}", page.html);
        }
    })
    .await;
}
