//! Servers and keys that a person notes once.

use std::path::Path;

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::files::mode;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, bookguard};
use bookguard_tests::test_server::TestServer;
use serde_json::json;

/// A command of somebody whose profiles are in this folder.
fn of(folder: &Path, line: impl Into<String>) -> CommandLine {
    bookguard(line.into())
        .env("XDG_CONFIG_HOME", folder)
        .in_folder(folder)
}

#[tokio::test]
async fn a_server_and_its_key_are_noted_once() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let other = server.partner("Other").await;
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let url = server.running().url();
        // A key that does not work is not noted.
        let wrong = format!("bgk_{}", "0".repeat(acme.key.len() - 4));
        let login = |more: &str| of(home, format!("login --url {url} {more}"));
        login("").input(wrong).run().await.refused(4, &["x-api-key"]);
        login("").input("a key").run().await.refused(2, &["holds no key"]);
        let operators = format!("bgo_{}", &acme.key["bgk_".len()..]);
        login("").input(operators).run().await.refused(2, &["not the address of the operator interface"]);
        login("--profile a/b").input(acme.key.clone()).run().await.refused(2, &["not a profile's name"]);
        assert_eq!(of(home, "profiles list").run().await.json()["data"], json!([]));
        let noted = login("").input(acme.key.clone()).run().await.json();
        assert_eq!(
            (noted.text("profile"), noted.text("partnerId"), &noted["isDefault"]),
            ("default", acme.id.as_str(), &json!(true))
        );
        let file = Path::new(noted.text("file"));
        assert_eq!(mode(file), 0o600);
        // The key can stay in another program.
        let kept = home.join("kept");
        std::fs::write(&kept, format!("{}\n", other.key)).unwrap();
        let command = format!("cat '{}'", kept.display());
        let login = login("--profile other --credential-command").arg(&command);
        let noted = login.run().await.json();
        assert_eq!(noted["isDefault"], json!(false));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(&acme.key) && !text.contains(&other.key));

        let listed = of(home, "profiles list").run().await;
        assert!(!listed.stdout.contains("bgk_"), "{listed:?}");
        let profile = |name: &str, credential: &str, is_default: bool| {
            json!({"profile": name, "url": url, "credential": credential, "isDefault": is_default})
        };
        let both = json!([profile("default", "key", true), profile("other", "command", false)]);
        assert_eq!(listed.json()["data"], both);
        let me = async |line: &str| {
            let me = of(home, format!("partners me {line}")).run().await.json();
            me.text("partnerId").to_owned()
        };
        assert_eq!(me("").await, acme.id);
        assert_eq!(me("--profile other").await, other.id);
        let curl = of(home, "partners me --profile other --curl").run().await;
        curl.said(&[&format!("$({command})")]);
        // Printing asks nobody for the key.
        let silent = home.join("silent");
        std::fs::rename(&kept, &silent).unwrap();
        let curl = of(home, "partners me --profile other --curl").run().await;
        curl.said(&[&format!("$({command})")]);
        std::fs::rename(&silent, &kept).unwrap();
        // A key that a profile holds has to be put where the shell finds it.
        let curl = of(home, "partners me --profile default --curl").run().await;
        assert!(curl.stdout.contains("$BOOKGUARD_API_KEY"), "{curl:?}");
        curl.ended(0, &["the profile default holds the key", "set BOOKGUARD_API_KEY to it"]);
        of(home, "profiles default other").run().await.json();
        assert_eq!(me("").await, other.id);
        std::fs::remove_file(&kept).unwrap();
        let failing = of(home, "partners me").run().await;
        failing.refused(2, &["the credential command", "failed"]);
        let removed = of(home, "profiles remove other").run().await;
        // Programs are warned too.
        removed.ended(0, &["there is no default profile now", "bookguard.db", "profiles default default"]);
        assert_eq!(removed.json()["wasDefault"], json!(true));
        of(home, "profiles remove other").run().await.refused(2, &["there are: default"]);
        // Nothing is the default now, so the command works on the database.
        of(home, "partners list").run().await.refused(1, &["bookguard.db"]);
        for line in ["ledger verify", "audit prune", "doctor", "operator-keys list"] {
            let refused = of(home, format!("{line} --profile default")).run().await;
            refused.refused(2, &["--db", &format!("\"{line}\" works only on the database")]);
        }
    })
    .await;
}
