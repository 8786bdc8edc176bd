//! Starts and stops a server: one file lock, one service, one listener.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::outbox::Outbox;
use bookguard_core::service::{self, Closing, Service};
use poem_openapi::OpenApi as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::Api;
use crate::app::App;
use crate::config::Config;
use crate::connections::{self, FAREWELL};
use crate::courier::{self, Courier, endpoint_rule};
use crate::documents;
use crate::router::{Router, Routes};

/// What deliveries in flight get to end in, even when requests took all the time there was.
const LAST_DELIVERIES: Duration = Duration::from_secs(1);

/// How often what has expired is looked for.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// A running server.
pub struct Server {
    addr: SocketAddr,
    service: Arc<Service>,
    courier: Arc<Courier>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    housekeeping: JoinHandle<()>,
    closing: Closing,
    /// Held for as long as this server may touch the database.
    _lock: File,
}

/// Serves until `shutdown` resolves, then ends in order. `started` is called once requests are answered.
///
/// Errors: as [`Server::start`].
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()>,
    started: impl FnOnce(&Server),
) -> Result<(), String> {
    let server = Server::start(config).await?;
    started(&server);
    shutdown.await;
    server.stop().await;
    Ok(())
}

/// Resolves when the process is told to end: SIGTERM or SIGINT.
///
/// Errors when the system does not let signals be watched.
pub fn terminated() -> Result<impl Future<Output = ()>, String> {
    let fail = |e: std::io::Error| format!("signals cannot be watched: {e}");
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    {
        let _ = fail;
        Ok(async { drop(tokio::signal::ctrl_c().await) })
    }
}

impl Server {
    /// Opens the database, binds the address and serves.
    ///
    /// Errors are one sentence for the operator: the address is taken, the database is in use by another server or
    /// cannot be opened, its ledger key is missing.
    pub async fn start(config: Config) -> Result<Self, String> {
        let lock = lock(&config.db)?;
        let listener = TcpListener::bind(&config.listen)
            .await
            .map_err(|e| cannot_listen(&config.listen, &e))?;
        let addr = listener
            .local_addr()
            .map_err(|e| cannot_listen(&config.listen, &e))?;
        let public_url = config
            .public_url
            .clone()
            .unwrap_or_else(|| format!("http://{addr}"));
        let (outbox, parcels) = Outbox::new();
        let outbox = Arc::new(outbox);
        let settings = service::Config {
            db: config.db.clone(),
            create: true,
            ledger_key: config.ledger_key.clone(),
            public_url,
            registration: config.registration,
            library_policies: config.library_policies,
            clock: config.clock.clone(),
            outbox: Some(Arc::clone(&outbox)),
            endpoint_rule: endpoint_rule(config.webhooks.clone()),
            report: config.report,
        };
        let opened = tokio::task::spawn_blocking(|| Service::open(settings)).await;
        let (service, closing) =
            opened.map_err(|e| format!("the database was not opened: {e}"))??;
        let deliveries = courier::Settings::new(config.webhooks.clone(), config.report);
        let courier = Courier::start(Arc::clone(&service), outbox, parcels, deliveries)
            .map_err(|e| format!("webhooks cannot be sent: {e}"))?;
        let courier = Arc::new(courier);
        let app = Arc::new(App::new(
            &config,
            Arc::clone(&service),
            Arc::clone(&courier),
        ));
        let mut routes = Routes::new();
        documents::add_routes(&app, &mut routes);
        Api(Some(app)).add_routes(&mut routes);
        let router = Arc::new(Router::new(routes, config.clock.clone(), config.report));
        let (stop, stopped) = watch::channel(false);
        let housekeeping = tokio::spawn(keep_house(Arc::clone(&service)));
        let serving = tokio::spawn(connections::serve(listener, router, stopped, config.report));
        Ok(Self {
            addr,
            service,
            courier,
            stop,
            serving,
            housekeeping,
            closing,
            _lock: lock,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address to call it at on this machine.
    pub fn url(&self) -> String {
        let mut addr = self.addr;
        if addr.ip().is_unspecified() {
            let loopback = match addr {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            };
            addr.set_ip(loopback);
        }
        format!("http://{addr}")
    }

    /// The service it serves. Give every clone back before [`Self::stop`]: the database closes with the last.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Stops accepting, lets requests and deliveries in flight finish for about ten seconds at most, and closes the
    /// database.
    pub async fn stop(self) {
        let Self {
            service,
            courier,
            stop,
            serving,
            housekeeping,
            closing,
            _lock,
            ..
        } = self;
        let until = Instant::now() + FAREWELL;
        // Nobody listens only when serving has ended already.
        let _ = stop.send(true);
        let _ = serving.await;
        // After the requests: a manual retry among them waits for its delivery.
        let patience = until
            .saturating_duration_since(Instant::now())
            .max(LAST_DELIVERIES);
        courier.stop(patience).await;
        housekeeping.abort();
        let _ = housekeeping.await;
        drop((courier, service));
        let _ = tokio::task::spawn_blocking(|| closing.wait()).await;
    }
}

/// Forgets remembered answers whose day is over. A store that does not answer has reported itself; next time, then.
async fn keep_house(service: Arc<Service>) {
    let mut turn = tokio::time::interval(HOUSEKEEPING);
    loop {
        turn.tick().await;
        let _ = service.forget_expired_answers().await;
    }
}

/// Takes the database for this server alone. Other commands of the program may use it all the same.
fn lock(db: &Path) -> Result<File, String> {
    let mut name = db.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let fail =
        |e: &dyn std::fmt::Display| format!("the lock {} cannot be taken: {e}", path.display());
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|e| fail(&e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another server is using {} (it holds {}); stop it first, or give this one another database",
            db.display(),
            path.display()
        )),
        Err(TryLockError::Error(e)) => Err(fail(&e)),
    }
}

fn cannot_listen(listen: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("{listen} is in use by another program; stop it, or listen on another port")
        }
        std::io::ErrorKind::PermissionDenied => {
            format!(
                "listening on {listen} is not permitted; ports below 1024 usually need privileges"
            )
        }
        _ => format!("cannot listen on {listen}: {error}; write it like 127.0.0.1:8080"),
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::service::Registration;
    use reqwest::{Client, RequestBuilder, Response, StatusCode};
    use serde_json::{Value, json};

    use super::*;

    fn config(folder: &tempfile::TempDir) -> Config {
        Config {
            listen: "127.0.0.1:0".to_owned(),
            ..Config::of(folder.path().join("b.db"))
        }
    }

    async fn send(request: RequestBuilder, body: &Value) -> Response {
        let request = request.header("content-type", "application/json");
        request.body(body.to_string()).send().await.unwrap()
    }

    async fn read(response: Response) -> Value {
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }

    async fn register(server: &Server) -> String {
        let body =
            json!({"name": "Acme", "businessType": "venue", "contactEmail": "a@acme.example"});
        let response = send(
            Client::new().post(format!("{}/v1/partners/register", server.url())),
            &body,
        )
        .await;
        assert_eq!(response.status(), StatusCode::CREATED);
        read(response).await["apiKey"].as_str().unwrap().to_owned()
    }

    fn booking() -> Value {
        json!({
            "talent": {"id": "t1", "name": "T"}, "organizer": {"id": "o1", "name": "O"}, "eventType": "concert",
            "eventDate": "2027-06-20T19:00:00Z", "bookingValue": 1200.5
        })
    }

    #[tokio::test]
    async fn what_was_written_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(config(&folder)).await.unwrap();
        let key = register(&server).await;
        let post = Client::new()
            .post(format!("{}/v1/bookings", server.url()))
            .header("x-api-key", &key);
        let made = send(post, &booking()).await;
        assert_eq!(made.status(), StatusCode::CREATED);
        let location = made.headers()["location"].to_str().unwrap().to_owned();
        server.stop().await;
        let server = Server::start(config(&folder)).await.unwrap();
        let get = Client::new()
            .get(format!("{}{location}", server.url()))
            .header("x-api-key", &key);
        let found = get.send().await.unwrap();
        assert!(found.headers().contains_key("etag") && found.headers().contains_key("ratelimit"));
        assert_eq!(read(found).await["bookingValue"], json!(1200.5));
        server.stop().await;
    }

    #[tokio::test]
    async fn a_key_revoked_here_dies_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(config(&folder)).await.unwrap();
        let key = register(&server).await;
        let keys = format!("{}/v1/api-keys", server.url());
        let made = read(
            send(
                Client::new().post(&keys).header("x-api-key", &key),
                &json!({}),
            )
            .await,
        )
        .await;
        let second = made["apiKey"].as_str().unwrap();
        let list = || async {
            Client::new()
                .get(&keys)
                .header("x-api-key", second)
                .send()
                .await
                .unwrap()
                .status()
        };
        assert_eq!(list().await, StatusCode::OK);
        let id = made["apiKeyId"].as_str().unwrap();
        let revoked = Client::new()
            .delete(format!("{keys}/{id}"))
            .header("x-api-key", &key)
            .send()
            .await
            .unwrap();
        assert_eq!(revoked.status(), StatusCode::OK);
        assert_eq!(list().await, StatusCode::UNAUTHORIZED);
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
        let key = register(&server).await;
        let refused = send(
            Client::new().post(format!("{}/v1/partners/register", server.url())),
            &json!({}),
        )
        .await;
        assert_eq!(
            (refused.status(), &refused.headers()["retry-after"]),
            (StatusCode::TOO_MANY_REQUESTS, &"60".parse().unwrap())
        );
        let me = || async {
            let request = Client::new()
                .get(format!("{}/v1/partners/me", server.url()))
                .header("x-api-key", &key);
            request.send().await.unwrap().status().as_u16()
        };
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
    async fn run_serves_until_it_is_told_to_end() {
        let folder = tempfile::tempdir().unwrap();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = tokio::sync::oneshot::channel();
        let closed = Config {
            registration: Registration::Closed,
            ..config(&folder)
        };
        let shutdown = async move { drop(ended.await) };
        let running = tokio::spawn(run(closed, shutdown, |server| {
            tell.send(server.url()).unwrap()
        }));
        let url = told.await.unwrap();
        let health = Client::new()
            .get(format!("{url}/v1/health"))
            .send()
            .await
            .unwrap();
        assert_eq!(read(health).await["status"], "ok");
        let refused = send(
            Client::new().post(format!("{url}/v1/partners/register")),
            &json!({}),
        )
        .await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        drop(end);
        running.await.unwrap().unwrap();
        assert!(Client::new().get(url).send().await.is_err());
    }
}
