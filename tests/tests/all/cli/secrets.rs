//! Where keys come from: the environment or a file, never the command line. They are never stored or printed where others
//! could read them.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::files::{holds, mode, names};
use bookguard_tests::program::bookguard;
use bookguard_tests::test_server::TestServer;
use tempfile::TempDir;

use super::codes::REGISTER;

#[tokio::test]
async fn a_key_comes_from_the_environment_or_a_file_and_never_from_a_flag() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("key");
        let me = || bookguard("partners me").env("BOOKGUARD_URL", server.running().url());
        for text in [
            acme.key.clone(),
            format!("{}\n", acme.key),
            format!("  {}\r\n", acme.key),
        ] {
            std::fs::write(&file, text).unwrap();
            let ran = me().arg("--api-key-file").arg(&file).run().await;
            assert_eq!(ran.string("partnerId"), acme.id);
        }
        // The file takes precedence over the environment.
        let both = me().env("BOOKGUARD_API_KEY", "bgk_wrong");
        let both = both.arg("--api-key-file").arg(&file);
        both.run().await.json();
        for flag in ["--api-key", "--key", "--apikey", "--x-api-key", "--token"] {
            let ran = me().arg(flag).arg(&acme.key).run().await;
            ran.ended(2, &[]);
        }
        let by_value = me().arg(format!("--api-key={}", acme.key)).run().await;
        by_value.ended(2, &[]);
        let twice = format!("{}\n{}", acme.key, acme.key);
        for bad in ["", "  \n", "two words", &twice] {
            std::fs::write(&file, bad).unwrap();
            let ran = me().arg("--api-key-file").arg(&file).run().await;
            ran.ended(2, &[]);
            assert!(!ran.stderr.contains(&acme.key), "{ran:?}");
        }
        let missing = me()
            .arg("--api-key-file")
            .arg(folder.path().join("nowhere"));
        missing.run().await.ended(2, &[]);
    })
    .await;
}

#[tokio::test]
async fn the_ledger_key_is_its_owner_s_alone() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let line = bookguard(REGISTER).arg("--db").arg(at("bookguard.db"));
    let registered = line.run().await;
    assert_eq!(mode(&at("bookguard.db.key")), 0o600);
    // No file holds the API key or the signing secret in the clear.
    for file in names(folder.path()) {
        let bytes = std::fs::read(at(&file)).unwrap();
        for name in ["apiKey", "signingSecret"] {
            let secret = registered.string(name);
            assert!(!holds(&bytes, &secret), "{name} in {file}");
        }
    }
}

#[tokio::test]
async fn a_key_in_a_wrong_form_is_refused_and_never_becomes_a_name() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("bookguard.db");
    // The last is in base64, as a platform may give it.
    for (text, secret) in [
        ("PRIVATE+s3cret", "s3cret"),
        (" 'private+s3cret'", "s3cret"),
        ("UFJJVkFURStLRVkrYitzM2NyZXQK", "UFJJ"),
    ] {
        let line = bookguard(REGISTER).arg("--db").arg(&db);
        let line = line.in_folder(folder.path());
        let ran = line.env("BOOKGUARD_LEDGER_KEY", text).run().await;
        ran.ended(1, &["BOOKGUARD_LEDGER_KEY"]);
        assert!(!ran.stderr.contains(secret), "{ran:?}");
        assert!(!folder.path().join(text).exists());
        let line = bookguard("doctor").arg("--db").arg(&db);
        let ran = line.env("BOOKGUARD_LEDGER_KEY", text).run().await;
        assert!(!ran.stdout.contains(secret), "{ran:?}");
    }
}

#[tokio::test]
async fn what_was_meant_to_be_an_address_is_refused_and_not_shown() {
    let folder = TempDir::new().unwrap();
    let refused = async |args: &[&str]| {
        let line = args.iter().fold(bookguard(""), |line, arg| line.arg(*arg));
        let ran = line.in_folder(folder.path()).run().await;
        ran.refused(2, &[]);
        assert!(!ran.stderr.contains("s3cret"), "{args:?}: {ran:?}");
    };
    for db in [
        "postgre://u:s3cret@h/x",
        "mysql://u:s3cret@h/x",
        "host=127.0.0.1 user=x password=s3cret",
    ] {
        for line in [
            &["partners", "list", "--db", db][..],
            &["serve", "--listen", "127.0.0.1:0", "--db", db],
            &["transfer", "--from", db, "--to", "x.db"],
            &["transfer", "--from", "x.db", "--to", db],
        ] {
            refused(line).await;
        }
    }
    for url in [
        "ftp://u:s3cret@h",
        "http://u:s3cret@h:port",
        "http://u:s3cret@h",
    ] {
        refused(&["partners", "list", "--url", url]).await;
    }
    assert!(names(folder.path()).is_empty());
    // A scheme has no case, and spaces around an address mean nothing.
    let line = bookguard("partners list --db").arg(" Postgres://u:s3cret@127.0.0.1:9/x ");
    let ran = line.run().await;
    ran.refused(7, &["127.0.0.1"]);
    assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
}
