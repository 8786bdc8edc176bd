//! A server's reaction to signals, and an export's.
#![cfg(unix)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::program::{Ran, Serving, bookguard};
use bookguard_tests::raw::Raw;
use bookguard_tests::receiver::Receiver;
use bookguard_tests::samples;
use bookguard_tests::waiting::until;
use tokio::net::unix::pipe;

fn address(server: &Serving) -> SocketAddr {
    server.address().parse().unwrap()
}

/// Registers a partner as `client`, as a proxy on this machine would forward it, and returns the status.
async fn register(server: &Serving, client: &str) -> u16 {
    let body = samples::partner("Acme").to_string();
    let mut raw = Raw::connect(address(server)).await;
    raw.send(format!(
        "POST /v1/partners/register HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         x-forwarded-for: {client}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    raw.reply(false).await.status
}

#[tokio::test]
async fn sighup_reloads_the_trusted_proxies_and_ends_nothing() {
    let database = TestDatabase::new(Engine::Sqlite);
    let file = database.folder().join("bookguard.toml");
    std::fs::write(&file, "").unwrap();
    let line = database.command("serve --listen 127.0.0.1:0");
    let line = line.env("BOOKGUARD_REGISTRATIONS_PER_MINUTE", "1");
    let server = Serving::of(line.arg("--config").arg(&file)).await;
    assert_eq!(register(&server, "203.0.113.1").await, 201);
    assert_eq!(register(&server, "203.0.113.2").await, 429);
    std::fs::write(&file, "trusted_proxies = [\"127.0.0.1\"]\n").unwrap();
    server.signal("HUP").await;
    server.until_said("the configuration was reloaded").await;
    assert_eq!(register(&server, "203.0.113.2").await, 201);
    assert_eq!(register(&server, "203.0.113.2").await, 429);
    // Invalid settings change nothing.
    std::fs::write(&file, "trusted_proxies = [\"nginx\"]\n").unwrap();
    server.signal("HUP").await;
    server.until_said("not reloaded").await;
    assert!(server.stderr().contains("nginx"), "{}", server.stderr());
    assert_eq!(register(&server, "203.0.113.3").await, 201);
    server.stop().await;
}

#[tokio::test]
async fn sighup_reloads_the_rate_limits_and_a_bad_file_keeps_them() {
    let database = TestDatabase::new(Engine::Sqlite);
    let file = database.folder().join("bookguard.toml");
    let configure = |text: &str| std::fs::write(&file, text).unwrap();
    configure("registrations_per_minute = 1\n");
    let line = database.command("serve --listen 127.0.0.1:0");
    let server = Serving::of(line.arg("--config").arg(&file)).await;
    let acme = server.partner("Acme").await;
    let policy = async || {
        let reply = acme.get("/v1/partners/me").await;
        reply.header("ratelimit-policy").map(str::to_owned)
    };
    assert_eq!(policy().await.as_deref(), Some("\"partner\";q=2000;w=2"));
    assert_eq!(register(&server, "").await, 429);
    configure("registrations_per_minute = 0\nrate_limit_per_second = 5\nrate_limit_burst = 50\n");
    server.signal("HUP").await;
    server
        .until_said(
            "Changed from now on: rate_limit_per_second, rate_limit_burst, registrations_per_minute. \
             Changed from the next start on: no setting",
        )
        .await;
    for _ in 0..3 {
        assert_eq!(register(&server, "").await, 201);
    }
    assert_eq!(policy().await.as_deref(), Some("\"partner\";q=50;w=10"));
    configure(
        "registrations_per_minute = 0\nrate_limit_per_second = 5\nrate_limit_burst = 50\nretention_days = 7\n",
    );
    server.signal("HUP").await;
    server
        .until_said(
            "Changed from now on: no setting. Changed from the next start on: retention_days",
        )
        .await;
    for (text, why) in [
        ("rate_limit_burst = 0\n", "rate_limit_burst is 0"),
        ("registrations_per_minute = -1\n", "line 1"),
        // The server could not be started again.
        ("pdf_fonts = [\"/nowhere/a.ttf\"]\n", "/nowhere/a.ttf"),
        (
            "timestamp_authorities = [\"http://t.example/\"]\ntimestamp_roots = \"/nowhere/roots.pem\"\n",
            "/nowhere/roots.pem",
        ),
    ] {
        configure(text);
        server.signal("HUP").await;
        server.until_said(why).await;
        assert_eq!(policy().await.as_deref(), Some("\"partner\";q=50;w=10"));
        assert_eq!(register(&server, "").await, 201);
    }
    let log = server.stop().await;
    for of_a_command in ["error: ", "(usage)"] {
        assert!(!log.contains(of_a_command), "{of_a_command} in {log}");
    }
}

#[tokio::test]
async fn sighup_while_a_server_starts_reloads_once_it_has_and_does_not_end_it() {
    let database = TestDatabase::new(Engine::Sqlite);
    let file = database.folder().join("bookguard.toml");
    let made = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(made.unwrap().success());
    let line = database.command("serve --listen 127.0.0.1:0");
    let mut server = line.arg("--config").arg(&file).start();
    // This opens once the server reads its configuration, which goes on until it is closed.
    let read = until("a server that reads its configuration", async || {
        pipe::OpenOptions::new().open_sender(&file).ok()
    })
    .await;
    server.signal("HUP").await;
    let changed = database.folder().join("changed.toml");
    std::fs::write(&changed, "").unwrap();
    std::fs::rename(&changed, &file).unwrap();
    drop(read);
    assert!(server.line().await.starts_with("listening on "));
    let reloaded = "the configuration was reloaded";
    while !server.complaint().await.contains(reloaded) {}
    assert_eq!(server.terminate().await, Some(0));
}

/// Asks for a path on this connection; returns the status, the error's code, and whether the connection ends.
async fn ask(raw: &mut Raw, path: &str) -> (u16, String, bool) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    raw.send(request).await;
    let reply = raw.reply(false).await;
    let code = reply.json()["code"].as_str().unwrap_or_default().to_owned();
    let ends = reply.header("connection") == Some("close");
    (reply.status, code, ends)
}

async fn healthcheck(server: &Serving) -> Ran {
    let line = bookguard(["healthcheck", "--url", server.url()]);
    line.run().await
}

#[tokio::test]
async fn a_server_told_to_end_is_not_ready_serves_on_and_then_ends() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) =
        Serving::with_partner(&database, &["--shutdown-delay-seconds", "300"]).await;
    let mut idle = Raw::connect(address(&server)).await;
    for path in ["/livez", "/readyz", "/v1/health"] {
        assert_eq!(ask(&mut idle, path).await, (200, String::new(), false));
    }
    healthcheck(&server).await.said(&["\"ready\""]);
    server.signal("TERM").await;
    server.until_said("not ready from now on").await;
    // Each answer is the last one of its connection, also of one that was opened before.
    let expected = [
        ("/readyz", 503, "shutting_down"),
        ("/livez", 200, ""),
        ("/v1/health", 200, ""),
    ];
    for (path, status, code) in expected {
        assert_eq!(ask(&mut idle, path).await, (status, code.to_owned(), true));
        assert!(idle.closed().await, "{path}");
        idle = Raw::connect(address(&server)).await;
    }
    acme.book().await;
    let unready = healthcheck(&server).await;
    unready.refused(1, &["shutting down", "(shutting_down)"]);
    assert_eq!(unready.stderr.lines().count(), 1, "{unready:?}");
    // Told again, it does not wait for the 300 seconds. A connection without a request does not hold it up.
    let (code, said) = server.terminate().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("cut off"), "{said}");
    assert!(idle.closed().await);
    database.verify(1).await;
}

#[tokio::test]
async fn a_server_told_to_end_ends_by_itself_after_the_delay() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::start(&database, &["--shutdown-delay-seconds", "1"]).await;
    let told = Instant::now();
    let (code, said) = server.terminate().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(told.elapsed() >= Duration::from_secs(1), "{said}");
}

/// A request that reaches a server's socket is answered, even if the server is told to end before it looks.
#[tokio::test]
async fn requests_that_arrive_while_a_server_ends_are_answered() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::start(&database, &[]).await;
    let mut known = Raw::connect(address(&server)).await;
    assert_eq!(ask(&mut known, "/livez").await.0, 200);
    // Stopped, it can neither accept nor read; the kernel does both for it.
    server.signal("STOP").await;
    let mut waiting = vec![known];
    for _ in 0..300 {
        waiting.push(Raw::connect(address(&server)).await);
    }
    for raw in &mut waiting {
        raw.send("GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    }
    server.signal("TERM").await;
    server.signal("CONT").await;
    for (index, raw) in waiting.iter_mut().enumerate() {
        let reply = raw.reply(false).await;
        assert_eq!(reply.status, 200, "{index}");
    }
    let (code, said) = server.terminate().await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test]
async fn a_health_check_asks_the_server_of_the_settings_and_waits_three_seconds() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::start(&database, &[]).await;
    let listen = address(&server).to_string();
    let here = || bookguard("healthcheck").env("BOOKGUARD_LISTEN", &listen);
    here().run().await.said(&["\"ready\""]);
    // A proxy that everything else goes through is not asked.
    let line = here().env("http_proxy", "http://127.0.0.1:9");
    let table = line.args(["--output", "table"]).run().await;
    table.said(&[server.url(), "is ready"]);
    server.stop().await;
    let gone = here().run().await;
    gone.refused(1, &["cannot be reached", "(unreachable)"]);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = silent.local_addr().unwrap().to_string();
    let line = bookguard("healthcheck").env("BOOKGUARD_LISTEN", silent_address);
    line.run().await.refused(1, &["did not answer within 3 s"]);
    // Something else at that address may answer 200 too.
    let other = Receiver::start().await;
    let foreign = other.url().replace("/hook", "");
    let line = bookguard(["healthcheck", "--url", &foreign]);
    let foreign = line.run().await;
    foreign.refused(1, &["not as Bookguard does", "(bad_answer)"]);
    let line = bookguard("healthcheck").env("BOOKGUARD_LISTEN", "127.0.0.1:0");
    line.run().await.refused(2, &["--url"]);
}

#[tokio::test]
async fn a_server_told_to_end_a_second_time_waits_for_nobody() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    acme.book().await;
    // The server would wait for this request, which never completes.
    let mut slow = Raw::connect(address(&server)).await;
    slow.send(
        "POST /v1/partners/register HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: 900\r\n\r\n",
    )
    .await;
    assert_eq!(slow.reply(false).await.status, 100);
    server.signal("TERM").await;
    until("a server that takes no more connections", async || {
        let gone = tokio::net::TcpStream::connect(address(&server)).await;
        gone.is_err().then_some(())
    })
    .await;
    let told = Instant::now();
    let (code, said) = server.terminate().await;
    // A single signal would have left it waiting for ten seconds.
    let took = told.elapsed();
    assert!(took < Duration::from_secs(7), "{took:?}");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("told to end again: requests"), "{said}");
    assert!(!database.folder().join("bookguard.db-wal").exists());
    database.verify(1).await;
}

#[tokio::test]
async fn an_export_that_ends_early_leaves_nothing_and_replaces_what_a_killed_one_left() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    for _ in 0..200 {
        acme.book().await;
    }
    let folder = database.folder();
    let (archive, part) = (folder.join("a.tar"), folder.join("a.tar.bookguard-part"));
    let here = || {
        let line = database.command(["partners", "export", "--partner", &acme.id]);
        line.arg("--out").arg(&archive)
    };
    let there = || acme.command("partners export --out").arg(&archive);
    for (line, signal) in [(here(), "INT"), (there(), "TERM")] {
        let ended = line.signaled_when(signal, || part.exists()).await;
        assert_eq!(ended.and_then(|status| status.code()), Some(1), "{signal}");
        assert!(!part.exists() && !archive.exists(), "{signal}");
    }
    assert!(there().killed_when(|| part.exists()).await);
    assert!(part.exists());
    let held = std::fs::File::open(&part).unwrap();
    held.lock().unwrap();
    there().run().await.refused(2, &["another export"]);
    assert!(part.exists());
    drop(held);
    assert_eq!(here().run().await.json()["bookings"], 200);
    assert!(!part.exists() && archive.exists());
    server.stop().await;
}

#[tokio::test]
async fn an_archive_that_ends_early_leaves_nothing_and_replaces_what_a_killed_one_left() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    let booking = acme.book().await;
    let folder = database.folder();
    let [archive, part] = ["all.zip", "all.zip.bookguard-part"].map(|name| folder.join(name));
    let line = || {
        let line = acme.command(format!("evidence archive {booking} --out"));
        line.arg(&archive)
    };
    // A server that is stopped does not answer, so no archive is whole before its signal.
    server.signal("STOP").await;
    assert!(line().killed_when(|| part.exists()).await);
    assert!(part.exists() && !archive.exists());
    server.signal("CONT").await;
    line().run().await.json();
    assert!(!part.exists() && archive.exists());
    std::fs::remove_file(&archive).unwrap();
    server.signal("STOP").await;
    let ended = line().signaled_when("TERM", || part.exists()).await;
    server.signal("CONT").await;
    assert_eq!(ended.and_then(|status| status.code()), Some(1));
    assert!(!part.exists() && !archive.exists());
    server.stop().await;
}
