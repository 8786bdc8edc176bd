//! TLS to the server: used if the address asks for it, and never with a server of another identity.

use std::path::Path;
use std::process::Command;

use bookguard_test_postgres::{Options, Postgres, database_of};
use bookguard_tests::program::Serving;
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::nodes::refusals::{ends, nothing_was_made, refuses, serve};

/// Makes certificates in this folder with openssl: an authority's, and one it issued to a server at 127.0.0.1.
fn certificates(folder: &Path) {
    let openssl = |args: &str| {
        let ran = Command::new("openssl")
            .args(args.split(' '))
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{args}: {ran:?}");
    };
    let new = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!(
        "req -x509 {new} -keyout ca.key -out ca.crt -days 2 -subj /CN=authority"
    ));
    openssl(&format!(
        "req {new} -keyout server.key -out server.csr -subj /CN=server"
    ));
    std::fs::write(folder.join("names"), "subjectAltName = IP:127.0.0.1\n").unwrap();
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_speaks_tls_with_the_server_it_was_told_to_trust_and_with_no_other() {
    let folder = TempDir::new().unwrap();
    let known = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    certificates(known.path());
    certificates(other.path());
    let read = |name: &str| std::fs::read(known.path().join(name)).unwrap();
    let options = Options::default()
        .setting("ssl = on")
        .file("server.crt", read("server.crt"))
        .file("server.key", read("server.key"))
        .file("pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n");
    let Some(postgres) = block_in_place(|| Postgres::start(&options)) else {
        return;
    };
    let url = block_in_place(|| postgres.fresh_database());
    let trusting = |mode: &str, folder: &TempDir| {
        let roots = folder.path().join("ca.crt");
        format!("{url}?sslmode={mode}&sslrootcert={}", roots.display())
    };
    // The server refuses a connection in the clear; the node refuses a server whose authority it does not trust.
    refuses(serve(&url, &folder), &["does not let this user in"]).await;
    for mode in ["require", "verify-ca", "verify-full"] {
        let line = serve(&trusting(mode, &other), &folder);
        refuses(line, &["TLS", "sslrootcert"]).await;
    }
    // A certificate does not cover another name of the same server.
    let renamed = trusting("verify-full", &known).replace("127.0.0.1", "localhost");
    refuses(serve(&renamed, &folder), &["localhost"]).await;
    let nowhere = format!("{url}?sslmode=verify-full&sslrootcert=/nowhere.crt");
    ends(
        serve(&nowhere, &folder),
        2,
        "usage",
        &["/nowhere.crt", "cannot be read"],
    )
    .await;
    nothing_was_made(&folder);

    let node = Serving::of(serve(&trusting("verify-full", &known), &folder)).await;
    let acme = node.partner("Acme").await;
    acme.book().await;
    acme.get("/v1/bookings").await.ok(200);
    let sessions = "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) \
                    WHERE application_name LIKE 'bookguard%'";
    let counted = block_in_place(|| postgres.sql(database_of(&url), sessions));
    let (all, encrypted) = counted.split_once('|').unwrap();
    assert!(all == encrypted && all != "0", "{counted}");
    node.stop().await;
}
