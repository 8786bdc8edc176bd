//! Servers that cannot be used: one sentence that names the thing, the rule and the way out, and no password.

use bookguard_test_postgres::{Options, Postgres, USER, database_of};
use bookguard_tests::engine::{Engine, TestDatabase, on_postgres};
use bookguard_tests::program::{CommandLine, Ran, Serving, bookguard};
use bookguard_tests::receiver::Receiver;
use bookguard_tests::test_server::TestServer;
use tempfile::TempDir;
use tokio::task::block_in_place;

/// Asserts that the command fails with one sentence that has these words.
pub(crate) async fn refuses(line: CommandLine, words: &[&str]) -> Ran {
    ends(line, 1, "unexpected", words).await
}

/// Asserts that the command fails with this exit code, its name, and one sentence that has these words.
pub(crate) async fn ends(line: CommandLine, code: i32, word: &str, words: &[&str]) -> Ran {
    let ran = line.run().await;
    ran.refused(code, &[]);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "one sentence: {ran:?}");
    let told = lines[0].starts_with("error: ") && lines[0].ends_with(&format!(" ({word})"));
    assert!(told, "{ran:?}");
    for word in words {
        assert!(lines[0].contains(word), "{word:?} in {ran:?}");
    }
    for never in ["panicked", "Err(", "DbError", "s3cret", "p%40ss"] {
        assert!(!lines[0].contains(never), "{ran:?}");
    }
    ran
}

pub(crate) fn serve(url: &str, folder: &TempDir) -> CommandLine {
    let key = folder.path().join("bookguard.key");
    bookguard(format!("serve --listen 127.0.0.1:0 --db {url}"))
        .env("BOOKGUARD_DATABASE_WAIT_SECONDS", "0")
        .arg("--ledger-key")
        .arg(key)
}

pub(crate) fn nothing_was_made(folder: &TempDir) {
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn an_invalid_address_is_told_apart_from_an_unreachable_server() {
    let folder = TempDir::new().unwrap();
    for (url, words) in [
        ("postgres://", &["address", "names no host"][..]),
        ("postgres://127.0.0.1/b", &["names no user"]),
        (
            "postgres://me@127.0.0.1:99999/b",
            &["address", "postgres://user:password@host"],
        ),
        (
            "postgres://me:s3cret@127.0.0.1/b?nonsense=s3cret",
            &["address", "nonsense"],
        ),
        (
            "postgres://me:s3cret@127.0.0.1/b?sslmode=prefer",
            &["sslmode"],
        ),
    ] {
        ends(serve(url, &folder), 2, "usage", words).await;
        let list = bookguard(format!("partners list --db {url}"));
        ends(list, 2, "usage", words).await;
    }
    let address = |receiver: &Receiver| {
        let url = receiver.url().replace("http://", "");
        url.replace("/hook", "")
    };
    // Nothing listens at this address any more.
    let gone = address(&Receiver::start().await);
    let url = format!("postgres://me:s3cret@{gone}/b");
    let unreached = async |url: &str, words: &[&str]| {
        ends(serve(url, &folder), 7, "unreachable", words).await;
        let list = bookguard(format!("partners list --db {url}"));
        ends(list, 7, "unreachable", words).await;
    };
    unreached(&url, &[&gone, "cannot be reached"]).await;
    let unknown = "postgres://me:s3cret@no-such-host.invalid/b";
    unreached(unknown, &["no-such-host.invalid", "cannot be reached"]).await;
    // A server that speaks another protocol.
    let other = Receiver::start().await;
    let other = format!("postgres://me:s3cret@{}/b", address(&other));
    unreached(&other, &["127.0.0.1"]).await;
    nothing_was_made(&folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_without_access_or_rights_are_told_what_they_lack() {
    let options = Options::default().password("p@ss");
    let Some(postgres) = block_in_place(|| Postgres::start(&options)) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let url = block_in_place(|| postgres.fresh_database());
    let let_in = "does not let this user in";
    let rights = ["does not allow this user", "GRANT"];
    block_in_place(|| postgres.sql("postgres", "CREATE ROLE stranger LOGIN PASSWORD 'p@ss'"));
    let stranger = url.replace(USER, "stranger");
    for (url, words) in [
        (
            url.replace("p%40ss", "s3cret"),
            &[let_in, "check user and password"][..],
        ),
        (url.replace(":p%40ss", ""), &[let_in]),
        (postgres.url("nowhere"), &["nowhere", "createdb"]),
        (stranger.clone(), &rights),
        // The server has no TLS, so it is not spoken to at all.
        (format!("{url}?sslmode=verify-full"), &["TLS"]),
    ] {
        refuses(serve(&url, &folder), words).await;
    }
    nothing_was_made(&folder);
    // Once the tables exist and the user may use them, nothing else is needed.
    Serving::of(serve(&url, &folder)).await.stop().await;
    let database = database_of(&url);
    refuses(serve(&stranger, &folder), &rights).await;
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO stranger";
    block_in_place(|| postgres.sql(database, grant));
    Serving::of(serve(&stranger, &folder)).await.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_may_lose_what_it_confirmed_is_refused() {
    let Some(postgres) = block_in_place(|| Postgres::start(&Options::default())) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let url = block_in_place(|| postgres.fresh_database());
    let database = database_of(&url);
    let refused_after = async |of: &str, change: &str, undo: &str, words: &[&str]| {
        let alter = |what| {
            block_in_place(|| postgres.sql("postgres", &format!("ALTER {of} {what}")));
        };
        alter(change);
        refuses(serve(&url, &folder), words).await;
        alter(undo);
    };
    let (whole, role) = (format!("DATABASE {database}"), format!("ROLE {USER}"));
    let (off, on) = ("SET synchronous_commit = off", "RESET synchronous_commit");
    let words = ["synchronous_commit = off", "switch it on"];
    refused_after(&whole, off, on, &words).await;
    refused_after(&role, off, on, &words[..1]).await;
    let only_read = "SET default_transaction_read_only = on";
    let all = "RESET default_transaction_read_only";
    refused_after(&whole, only_read, all, &["only read", "allow writing"]).await;
    let standby = block_in_place(|| postgres.standby());
    let words = ["standby", "name the primary"];
    refuses(serve(&standby.url(database), &folder), &words).await;
    nothing_was_made(&folder);
    drop(standby);
    let fast = Options::default().setting("fsync = off");
    let Some(fast) = block_in_place(|| Postgres::start(&fast)) else {
        return;
    };
    let url = block_in_place(|| fast.fresh_database());
    refuses(serve(&url, &folder), &["fsync = off", "switch it on"]).await;
    nothing_was_made(&folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_are_not_ours_are_left_as_they_are() {
    let Some(postgres) = block_in_place(Postgres::shared) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let url = block_in_place(|| postgres.fresh_database());
    let database = database_of(&url);
    let ascii = "ascii_encoded";
    block_in_place(|| {
        postgres.sql(database, "CREATE TABLE note (text TEXT)");
        postgres.sql(
            "postgres",
            &format!("CREATE DATABASE {ascii} ENCODING 'SQL_ASCII' TEMPLATE template0"),
        )
    });
    refuses(serve(&url, &folder), &["another program"]).await;
    refuses(serve(&postgres.url(ascii), &folder), &["UTF8"]).await;
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(block_in_place(|| postgres.sql(database, tables)), "1");
    nothing_was_made(&folder);
    block_in_place(|| {
        postgres.drop_database(&url);
        postgres.drop_database(&postgres.url(ascii));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_log_s_key_or_with_another_s_does_not_start() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let node = Serving::start(&database, &[]).await;
        let folder = TempDir::new().unwrap();
        let url = database.url();
        let words = ["bookguard.key is missing", "--ledger-key"];
        refuses(serve(&url, &folder), &words).await;
        nothing_was_made(&folder);
        let other = TestDatabase::new(Engine::Sqlite);
        Serving::start(&other, &[]).await.terminate().await;
        let foreign = other.folder().join("bookguard.db.key");
        std::fs::copy(foreign, folder.path().join("bookguard.key")).unwrap();
        let words = ["signed with another key", "--ledger-key"];
        refuses(serve(&url, &folder), &words).await;
        node.caller().get("/v1/health").await.ok(200);
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_newer_than_the_program_is_left_alone() {
    on_postgres(async |engine| {
        let database = TestServer::open(engine).await.close().await;
        database.tamper("INSERT INTO schema_version (version) VALUES (99)");
        let words = ["newer", "99"];
        refuses(database.command("serve --listen 127.0.0.1:0"), &words).await;
        refuses(database.command("partners list"), &["newer"]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_more_connections_is_named() {
    let options = Options::default()
        .setting("max_connections = 4")
        .setting("superuser_reserved_connections = 0")
        .setting("max_wal_senders = 0");
    let Some(postgres) = block_in_place(|| Postgres::start(&options)) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let url = block_in_place(|| postgres.fresh_database());
    let held: Vec<_> = (0..4)
        .map(|_| block_in_place(|| postgres.hold("postgres", "SELECT 1")))
        .collect();
    ends(
        serve(&url, &folder),
        7,
        "unreachable",
        &["takes no more connections", "max_connections"],
    )
    .await;
    nothing_was_made(&folder);
    drop(held);
    Serving::of(serve(&url, &folder)).await.stop().await;
}
