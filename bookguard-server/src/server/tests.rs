//! Servers started in the test process, called over HTTP.

use bookguard_core::lines::{Line, LineSubscriber, Threshold, hear_here};
use bookguard_core::service::RegistrationMode;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::*;

fn config(folder: &tempfile::TempDir) -> Config {
    Config {
        listen: "127.0.0.1:0".to_owned(),
        ..Config::of(folder.path().join("b.db"))
    }
}

fn client() -> Client {
    let tls = crate::tls::system_trust().unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "it is given TLS on the next line"
    )]
    let client = Client::builder().tls_backend_preconfigured(tls);
    client.build().unwrap()
}

async fn send(request: RequestBuilder, body: &Value) -> Response {
    let request = request.header("content-type", "application/json");
    request.body(body.to_string()).send().await.unwrap()
}

async fn read(response: Response) -> Value {
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

fn registering(url: &str) -> RequestBuilder {
    client().post(format!("{url}/v1/partners/register"))
}

/// A partner that has just registered.
struct Partner {
    url: String,
    key: String,
}

impl Partner {
    async fn register(server: &Server) -> Self {
        let url = server.url();
        let body =
            json!({"name": "Acme", "businessType": "venue", "contactEmail": "a@acme.example"});
        let response = send(registering(&url), &body).await;
        assert_eq!(response.status(), StatusCode::CREATED);
        let key = read(response).await["apiKey"].as_str().unwrap().to_owned();
        Self { url, key }
    }

    fn asks(&self, method: Method, path: &str) -> RequestBuilder {
        let request = client().request(method, format!("{}{path}", self.url));
        request.header("x-api-key", &self.key)
    }

    async fn get(&self, path: &str) -> Response {
        self.asks(Method::GET, path).send().await.unwrap()
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        send(self.asks(Method::POST, path), body).await
    }
}

fn booking() -> Value {
    json!({
        "talent": {"id": "t1", "name": "T"}, "organizer": {"id": "o1", "name": "O"}, "eventType": "concert",
        "eventDate": "2031-06-20T19:00:00Z", "bookingValue": 1200.5
    })
}

#[tokio::test]
async fn where_events_are_kept_for_ever_nobody_looks_for_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(config(&folder)).await.unwrap();
    let looking = housekeeping::retain(Arc::clone(server.service()), Arc::default(), 0);
    let ended = tokio::time::timeout(Duration::from_secs(20), looking).await;
    ended.expect("it has nothing to do");
    server.stop().await;
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(config(&folder)).await.unwrap();
    let mut partner = Partner::register(&server).await;
    let made = partner.post("/v1/bookings", &booking()).await;
    assert_eq!(made.status(), StatusCode::CREATED);
    let location = made.headers()["location"].to_str().unwrap().to_owned();
    server.stop().await;
    let server = Server::start(config(&folder)).await.unwrap();
    partner.url = server.url();
    let found = partner.get(&location).await;
    assert!(found.headers().contains_key("etag") && found.headers().contains_key("ratelimit"));
    assert_eq!(read(found).await["bookingValue"], json!(1200.5));
    server.stop().await;
}

#[tokio::test]
async fn a_key_revoked_here_dies_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(config(&folder)).await.unwrap();
    let first = Partner::register(&server).await;
    let made = read(first.post("/v1/api-keys", &json!({})).await).await;
    let second = Partner {
        url: server.url(),
        key: made["apiKey"].as_str().unwrap().to_owned(),
    };
    assert_eq!(second.get("/v1/api-keys").await.status(), StatusCode::OK);
    let id = format!("/v1/api-keys/{}", made["apiKeyId"].as_str().unwrap());
    let revoked = first.asks(Method::DELETE, &id).send().await.unwrap();
    assert_eq!(revoked.status(), StatusCode::OK);
    let refused = second.get("/v1/api-keys").await.status();
    assert_eq!(refused, StatusCode::UNAUTHORIZED);
    server.stop().await;
}

#[tokio::test]
async fn limits_answer_429_until_the_clock_moves() {
    use std::sync::atomic::{AtomicI64, Ordering};
    let now = Arc::new(AtomicI64::new(1_800_000_000_000));
    let folder = tempfile::tempdir().unwrap();
    let clock = bookguard_core::clock::Clock::Set(Arc::clone(&now));
    let config = Config {
        rate_limit_per_second: 1,
        rate_limit_burst: 2,
        registrations_per_minute: 1,
        clock,
        ..config(&folder)
    };
    let server = Server::start(config).await.unwrap();
    let partner = Partner::register(&server).await;
    let refused = send(registering(&server.url()), &json!({})).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "60");
    let me = || async { partner.get("/v1/partners/me").await.status().as_u16() };
    assert_eq!([me().await, me().await, me().await], [200, 200, 429]);
    now.fetch_add(1000, Ordering::Release);
    assert_eq!([me().await, me().await], [200, 429]);
    server.stop().await;
}

#[tokio::test]
async fn a_second_server_on_the_same_database_or_port_is_refused_in_one_sentence() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(config(&folder)).await.unwrap();
    let why = Server::start(config(&folder)).await.err().unwrap();
    assert!(
        why.starts_with("another server is using") && why.contains("b.db.lock"),
        "{why}"
    );
    let taken = Config {
        listen: server.addr().to_string(),
        ..config(&other)
    };
    let why = Server::start(taken).await.err().unwrap();
    assert!(why.contains("is in use by another program"), "{why}");
    server.stop().await;
    Server::start(config(&folder)).await.unwrap().stop().await;
}

#[tokio::test]
async fn a_key_that_is_refused_leaves_no_lock_beside_a_database_that_was_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("b.db.key");
    std::fs::write(&key, "no key").unwrap();
    let why = Server::start(config(&folder)).await.err().unwrap();
    assert!(why.contains("is not a ledger key"), "{why}");
    let left = std::fs::read_dir(folder.path()).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().path()).collect();
    assert_eq!(left, std::slice::from_ref(&key));
    // Beside a database that is there, it stays.
    std::fs::remove_file(key).unwrap();
    Server::start(config(&folder)).await.unwrap().stop().await;
    assert!(folder.path().join("b.db.lock").exists());
}

/// Whether a lock that was let go is free. A process that another test begins meanwhile keeps it until its program runs.
#[cfg(unix)]
fn is_free(db: &Path) -> bool {
    (0..200).any(|_| {
        let is_held = runs_on(db);
        if is_held {
            std::thread::sleep(Duration::from_millis(10));
        }
        !is_held
    })
}

#[cfg(unix)]
#[test]
fn a_database_has_one_lock_by_whatever_links_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    std::fs::create_dir(place("real")).unwrap();
    std::os::unix::fs::symlink(place("real"), place("folder")).unwrap();
    std::os::unix::fs::symlink("real/b.db", place("link.db")).unwrap();
    let names = ["link.db", "real/b.db", "folder/b.db"].map(place);
    for exists in [false, true] {
        if exists {
            std::fs::write(place("real/b.db"), "").unwrap();
        }
        for held in &names {
            let lock = lock(held).unwrap();
            for other in &names {
                let why = super::lock(other).unwrap_err();
                assert!(why.starts_with("another server is using"), "{why}");
                assert!(runs_on(other), "{held:?} {other:?}");
            }
            drop(lock);
            assert!(names.iter().all(|name| is_free(name)));
        }
    }
}

#[tokio::test]
async fn run_serves_until_it_is_told_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let (signal, signals) = unbounded_channel();
    let (tell, told) = tokio::sync::oneshot::channel();
    let closed = Config {
        registration: RegistrationMode::Closed,
        ..config(&folder)
    };
    let unread = || Err("it is not there any more".to_owned());
    let running = tokio::spawn(run(closed, signals, unread, |server| {
        tell.send(server.url()).unwrap()
    }));
    let url = told.await.unwrap();
    let health = client().get(format!("{url}/v1/health"));
    let health = health.send().await.unwrap();
    assert_eq!(read(health).await["status"], "ok");
    let refused = send(registering(&url), &json!({})).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    // A configuration that cannot be read does not end the server.
    signal.send(Signal::Reload).unwrap();
    signal.send(Signal::End).unwrap();
    running.await.unwrap().unwrap();
    assert!(client().get(url).send().await.is_err());
}

/// A receiver that answers each request with the next of these statuses, then ends.
async fn receiver(statuses: &'static [&'static str]) -> (String, tokio::task::JoinHandle<()>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        for status in statuses {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"}") {
                let mut some = [0; 4096];
                let read = stream.read(&mut some).await.unwrap();
                seen.extend_from_slice(&some[..read]);
            }
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, answering)
}

#[tokio::test]
async fn a_manual_retry_answers_its_outcome_and_repeats_it_under_its_idempotency_key() {
    let folder = tempfile::tempdir().unwrap();
    let webhooks = crate::courier::address::AddressRules::dev();
    let server = Server::start(Config {
        webhooks,
        // An endpoint that has not accepted anything yet would get at most six deliveries a minute.
        verifies_endpoints: false,
        ..config(&folder)
    })
    .await
    .unwrap();
    let partner = Partner::register(&server).await;
    let (url, answering) = receiver(&["500 No", "200 OK"]).await;
    let endpoint = json!({ "url": url });
    let made = partner.post("/v1/webhook-endpoints", &endpoint).await;
    assert_eq!(made.status(), StatusCode::CREATED);
    let made = read(partner.post("/v1/bookings", &booking()).await).await;
    let id = made["bookingId"].as_str().unwrap();
    let events = format!("/v1/bookings/{id}/webhook-events");
    let event = loop {
        let event = read(partner.get(&events).await).await["webhookEvents"][0].clone();
        if event["status"] == "failed" {
            break event;
        }
        assert_eq!(event["status"], "pending");
        tokio::task::yield_now().await;
    };
    let id = event["eventId"].as_str().unwrap();
    let retry = || async {
        let retry = partner.asks(Method::POST, &format!("/v1/webhook-events/{id}/retry"));
        retry.header("idempotency-key", "r1").send().await.unwrap()
    };
    let first = retry().await;
    assert!(!first.headers().contains_key("idempotent-replayed"));
    let first = first.text().await.unwrap();
    let outcome: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(
        (&outcome["retryStatus"], &outcome["retryCount"]),
        (&json!("delivered"), &json!(1))
    );
    answering.await.unwrap();
    let again = retry().await;
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.text().await.unwrap(), first);
    server.stop().await;
}

#[test]
fn why_a_lock_cannot_be_taken_is_said_with_the_way_out() {
    #[rustfmt::skip]
    let cases = [
        (std::io::ErrorKind::NotFound, "/data does not exist"),
        (std::io::ErrorKind::PermissionDenied, "this user may not write /data/b.db.lock"),
        (std::io::ErrorKind::ReadOnlyFilesystem, "/data is on a file system that is mounted read-only"),
    ];
    for (kind, words) in cases {
        let said = cannot_lock(Path::new("/data/b.db.lock"), &kind.into());
        assert!(
            said.contains(words) && said.ends_with("or name another database"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_server_told_to_end_while_it_waits_for_its_database_ends() {
    static WAITING: tokio::sync::Notify = tokio::sync::Notify::const_new();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let db = format!("postgres://me@{}/b", gone.local_addr().unwrap());
    drop(gone);
    // An address at which no other test of this process takes a port.
    let free = TcpListener::bind("127.0.0.77:0").await.unwrap();
    let listen = free.local_addr().unwrap();
    drop(free);
    let config = Config {
        listen: listen.to_string(),
        database_wait: Duration::from_secs(3_600),
        ..Config::of(db)
    };
    let hear = |line: Line| {
        let message = line.message;
        assert!(
            message.ends_with("(waiting for it, 3600 s at most)"),
            "{message}"
        );
        WAITING.notify_one();
    };
    let subscriber = LineSubscriber::new(Threshold::new(tracing::Level::INFO), hear);
    let _heard = hear_here(subscriber);
    let (tell, signals) = unbounded_channel();
    let asking = tokio::spawn(async move {
        WAITING.notified().await;
        let connected = tokio::net::TcpStream::connect(listen).await;
        let _ = tell.send(Signal::Reload);
        let _ = tell.send(Signal::End);
        connected
    });
    let unread = || Err("nobody asks for it".to_owned());
    let ended = run(config, signals, unread, |_| panic!("there is no database"));
    let patience = Duration::from_secs(20);
    assert_eq!(tokio::time::timeout(patience, ended).await.unwrap(), Ok(()));
    let connected = asking.await.unwrap();
    assert!(
        connected.is_err(),
        "it takes no connection that it cannot serve"
    );
}
