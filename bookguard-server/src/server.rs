//! Starts and stops a server: one file lock, one service, and a listener for each kind of caller.

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bookguard_core::engine::outbox::Outbox;
use bookguard_core::features::deliveries::reclaim_all;
use bookguard_core::features::erasures;
use bookguard_core::private;
use bookguard_core::service::{self, Closing, OpenError, Service, SettingInForce};
use bookguard_core::store::backup;
use bookguard_core::version::VERSION;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::apart::apart;
use crate::api;
use crate::app::App;
use crate::config::{Config, Connections, Settings};
use crate::connections::{self, FAREWELL};
#[cfg(feature = "console")]
use crate::console;
use crate::cosigning;
use crate::courier::address::AddressRules;
use crate::courier::{Courier, CourierConfig};
use crate::documents;
use crate::housekeeping::{self, Retention};
use crate::logging;
use crate::mapping;
use crate::mcp;
use crate::metrics::Metrics;
use crate::observer::Observer;
use crate::probes::{self, Readiness, Stage};
use crate::proxies::TrustedProxies;
use crate::router::{Router, Routes};
use crate::scrape;
use crate::skew::Skew;
use crate::stamping::{self, Stamper};
use crate::traces::Tracer;

/// How long deliveries in flight may take to end, even when requests have used up the shutdown time.
const LAST_DELIVERIES: Duration = Duration::from_secs(1);

/// How long the database may take to close, even when the shutdown time is used up.
const LAST_CLOSING: Duration = Duration::from_secs(3);

/// How long a program that is done waits for threads that still work on what nobody waits for.
pub const LAST_WORK: Duration = Duration::from_secs(1);

/// The pause between two attempts to reach a database server.
const OPEN_AGAIN: Duration = Duration::from_millis(500);

/// Connections that the kernel queues until they are accepted; a system may allow fewer. A client that finds the queue full
/// retries after a second.
const BACKLOG: u32 = 4096;

/// The operator's programs and people are few, and each keeps a connection or two.
const OPERATOR_CONNECTIONS: Connections = Connections {
    all: 256,
    per_address: 128,
    reserve: 4,
};

/// A running server.
pub struct Server {
    addr: SocketAddr,
    service: Arc<Service>,
    courier: Arc<Courier>,
    stage: watch::Sender<Stage>,
    app: Arc<App>,
    observer: Arc<Observer>,
    proxies: watch::Sender<Arc<TrustedProxies>>,
    /// The configuration as last read.
    known: Mutex<Vec<SettingInForce>>,
    serving: JoinHandle<()>,
    /// The address of the operator interface.
    operator_addr: Option<SocketAddr>,
    /// The address of the metrics, and the tasks that serve and gather them.
    scraped: Option<(SocketAddr, [JoinHandle<()>; 2])>,
    /// What it does beside requests and deliveries.
    housekeeping: Vec<JoinHandle<()>>,
    closing: Closing,
    /// Held for as long as this server may touch a database file. A database server takes any number of nodes, so it needs no
    /// lock.
    _lock: Option<DatabaseLock>,
}

/// A signal from outside to a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// End in order; each further one ends a wait: that of [`Config::shutdown_delay`], then that for what is in flight.
    End,
    /// Reload the configuration.
    Reload,
}

/// Serves until it receives [`Signal::End`], is not ready for [`Config::shutdown_delay`], then ends in order. Calls `started` once requests are answered, and `reload` to
/// read the configuration again.
///
/// # Errors
/// As [`Server::start`].
pub async fn run(
    config: Config,
    mut signals: UnboundedReceiver<Signal>,
    reload: impl Fn() -> Result<Config, String>,
    started: impl FnOnce(&Server),
) -> Result<(), OpenError> {
    let _flush = logging::begin(config.log_format, config.log_level);
    if config.webhooks == AddressRules::dev() {
        tracing::warn!(
            "DEVELOPMENT MODE (--dev): webhooks may go to this machine and over plain http. Never in production."
        );
    }
    for ignored in &config.ignored {
        tracing::warn!("{ignored}");
    }
    let (delay, database) = (config.shutdown_delay, config.db.to_string());
    let changed = config.changed.join(", ");
    let is_stale = AtomicBool::new(false);
    let server = tokio::select! {
        server = Server::start(config) => server?,
        // The server may still be waiting for its database.
        () = told_to_end(&mut signals, || is_stale.store(true, Ordering::Relaxed)) => {
            return Ok(());
        }
    };
    tracing::info!(
        version = VERSION,
        address = server.url(),
        database,
        settings = changed,
        "started"
    );
    started(&server);
    // Told while it started, it may have read the configuration before that was changed.
    if is_stale.into_inner() {
        server.reload(reload());
    }
    told_to_end(&mut signals, || server.reload(reload())).await;
    server.leave(delay);
    if !delay.is_zero() {
        let hurry = told_to_end(&mut signals, || server.reload(reload()));
        let _ = timeout(delay, hurry).await;
    }
    server.end(told_to_end(&mut signals, || {})).await;
    tracing::info!("stopped");
    Ok(())
}

/// Resolves at the next [`Signal::End`], and calls `reload` at each [`Signal::Reload`] before it; never resolves once all senders are gone.
pub async fn told_to_end(signals: &mut UnboundedReceiver<Signal>, reload: impl Fn()) {
    loop {
        match signals.recv().await {
            Some(Signal::End) => return,
            Some(Signal::Reload) => reload(),
            None => std::future::pending().await,
        }
    }
}

/// The signals of this process: SIGTERM and SIGINT end a server, SIGHUP reloads its configuration.
///
/// # Errors
/// A sentence for the operator if the system does not let signals be watched.
pub fn signals() -> Result<UnboundedReceiver<Signal>, String> {
    let (told, signals) = unbounded_channel();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        for (kind, tells) in [
            (SignalKind::terminate(), Signal::End),
            (SignalKind::interrupt(), Signal::End),
            (SignalKind::hangup(), Signal::Reload),
        ] {
            let told = told.clone();
            let mut signal = signal(kind).map_err(|e| format!("signals cannot be watched: {e}"))?;
            tokio::spawn(async move {
                while signal.recv().await.is_some() && told.send(tells).is_ok() {}
            });
        }
    }
    #[cfg(not(unix))]
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() && told.send(Signal::End).is_ok() {}
    });
    Ok(signals)
}

impl Server {
    /// Takes its addresses, opens the database, and serves. Nobody can connect before the database is open.
    ///
    /// # Errors
    /// One sentence for the operator, such as: a font cannot be used, the address is taken, the database is in use by another
    /// server or cannot be opened, or its ledger key is missing.
    pub async fn start(config: Config) -> Result<Self, OpenError> {
        let maker = config.maker()?;
        let stamper = config.stamper()?;
        let lock = config.db.file().map(lock).transpose()?;
        // A restore holds the same lock, so none is under way.
        backup::forget_killed(&config.db);
        let places = Listeners::bind(&config).await?;
        let addr = places.partners.1;
        let operator_addr = places.operator.as_ref().map(|(_, addr)| *addr);
        let tracer = match &config.otlp_endpoint {
            Some(collector) => Some(Tracer::start(collector).await?),
            None => None,
        };
        let metrics = Metrics::default();
        let (outbox, leased) = Outbox::new();
        let outbox = Arc::new(outbox);
        let settings = service::ServiceConfig {
            batches: metrics.writer.observer(),
            ..config.service(
                &addr.to_string(),
                operator_addr.map(|addr| local(addr).to_string()).as_deref(),
                Some(Arc::clone(&outbox)),
            )
        };
        let (service, closing) = open(settings, config.database_wait).await?;
        tell_of_start(&service);
        let skew = watched(&service).await;
        take_over(&service, lock.is_some()).await;
        let Listeners {
            partners: (listener, _),
            operator,
            scraper,
        } = places.listen()?;
        let delivering = CourierConfig {
            metrics: Arc::clone(&metrics.delivery),
            ..config.courier()
        };
        let courier = Courier::start(Arc::clone(&service), outbox, leased, delivering)
            .map_err(|e| format!("webhooks cannot be sent: {e}"))?;
        let courier = Arc::new(courier);
        let app = Arc::new(App::new(
            &config,
            maker,
            Arc::clone(&service),
            Arc::clone(&courier),
        )?);
        let (stage, staged) = watch::channel(Stage::Serving);
        let (readiness, checking) = Readiness::new(staged.clone(), Arc::clone(&service));
        let mut observer = Observer::new(config.requests);
        (observer.metrics, observer.tracer) = (Some(Arc::clone(&metrics.http)), tracer);
        let observer = Arc::new(observer);
        let mut housekeeping = start_housekeeping(&app, &config, &skew, stamper, &metrics)?;
        housekeeping.push(tokio::spawn(checking));
        let scraped = scraper.map(|(listener, addr)| {
            let found = scrape::LastLook::default();
            let registry = scrape::registry(&metrics, &service, Arc::clone(&found));
            let clock = config.clock.clone();
            let serving = scrape::serve(listener, registry, clock, staged.clone());
            let looking = scrape::watch_database(Arc::clone(&service), found);
            (addr, [tokio::spawn(serving), tokio::spawn(looking)])
        });
        let (proxies, trusted) = watch::channel(Arc::new(config.trusted_proxies.clone()));
        let router = partners_router(&app, addr, readiness.clone(), &config, observer.clone());
        let serve = |listener, router, limits| {
            let serving = connections::Serving {
                router: Arc::new(router),
                limits,
                proxies: trusted.clone(),
                stage: staged.clone(),
            };
            connections::serve(listener, serving)
        };
        let operated = operator.map(|(listener, _)| {
            let router = operator_router(&app, readiness, &config, observer.clone());
            serve(listener, router, Some(OPERATOR_CONNECTIONS))
        });
        let serving = serve(listener, router, config.connections);
        let serving = tokio::spawn(async {
            match operated {
                Some(operated) => drop(tokio::join!(serving, operated)),
                None => serving.await,
            }
        });
        Ok(Self {
            addr,
            service,
            courier,
            stage,
            app,
            observer,
            proxies,
            known: Mutex::new(config.in_force),
            serving,
            operator_addr,
            scraped,
            housekeeping,
            closing,
            _lock: lock,
        })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of its metrics, if it serves them.
    pub fn metrics_url(&self) -> Option<String> {
        let (addr, _) = self.scraped.as_ref()?;
        Some(scrape::url(local(*addr)))
    }

    /// The URL of its operator interface, if it serves one.
    pub fn operator_url(&self) -> Option<String> {
        self.operator_addr.map(local_url)
    }

    /// The URL at which programs on this machine reach it.
    pub fn url(&self) -> String {
        local_url(self.addr)
    }

    /// The service it serves. Drop every clone before [`Self::stop`]: the database closes with the last one.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Applies the settings that can change while it serves ([`Setting::is_reloaded`]). If the configuration cannot be read,
    /// nothing changes.
    ///
    /// [`Setting::is_reloaded`]: crate::config::settings::Setting::is_reloaded
    pub fn reload(&self, config: Result<Config, String>) {
        match config {
            Ok(config) => {
                self.app.limit(&config);
                self.observer.set(config.requests);
                logging::set_level(config.log_level);
                self.proxies.send_replace(Arc::new(config.trusted_proxies));
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                let begun = &self.service.config().settings;
                tracing::info!(
                    "the configuration was reloaded. Changed from now on: {}. Changed from the next start on: {}. Secrets and the contents of files \
                     are not compared",
                    differing(&known, &config.in_force, true),
                    differing(begun, &config.in_force, false)
                );
                *known = config.in_force;
            }
            Err(why) => {
                tracing::error!("the configuration was not reloaded, and nothing changed: {why}");
            }
        }
    }

    /// Is not ready from now on, but goes on serving. The caller ends it after `delay`.
    fn leave(&self, delay: Duration) {
        self.stage.send_replace(Stage::Leaving);
        if !delay.is_zero() {
            tracing::info!(
                "not ready from now on, and ending in {} s, or at once if told again",
                delay.as_secs()
            );
        }
    }

    /// Stops accepting connections, lets requests and deliveries in flight finish for at most about ten seconds, and closes the
    /// database. One that does not answer is given up, a few seconds later at most.
    pub async fn stop(self) {
        self.end(std::future::pending()).await;
    }

    /// Does the same as [`Self::stop`], but stops waiting for what is in flight once `hurry` resolves. Commands already handed
    /// to the writer are still written, and the database closes in order, unless it does not answer.
    async fn end(self, hurry: impl Future<Output = ()>) {
        let Self {
            service,
            courier,
            stage,
            app,
            observer,
            mut serving,
            scraped,
            housekeeping,
            closing,
            _lock: lock,
            ..
        } = self;
        let until = Instant::now() + FAREWELL;
        let mut hurry = std::pin::pin!(hurry);
        service.news().close();
        stage.send_replace(Stage::Ending);
        let mut patience = LAST_DELIVERIES;
        tokio::select! {
            _ = &mut serving => {
                // Deliveries end after requests, because a manual retry waits for its delivery. If the storage fails, the
                // result of a delivery cannot be recorded, so do not wait: the next server to start delivers it again.
                if !service.storage().is_failing() {
                    patience = patience.max(until.saturating_duration_since(Instant::now()));
                }
            }
            () = &mut hurry => {
                tracing::warn!("told to end again: requests in flight are cut off");
                patience = Duration::ZERO;
                serving.abort();
                let _ = serving.await;
            }
        }
        {
            let mut stopping = std::pin::pin!(courier.stop(patience));
            tokio::select! {
                () = &mut stopping => {}
                () = &mut hurry, if !patience.is_zero() => {
                    patience = Duration::ZERO;
                    courier.stop(patience).await;
                    stopping.await;
                }
            }
        }
        let scraped = scraped.into_iter().flat_map(|(_, tasks)| tasks);
        for task in housekeeping.into_iter().chain(scraped) {
            task.abort();
            let _ = task.await;
        }
        drop((app, courier, service));
        let closing = move || {
            closing.wait();
            observer.stop();
            drop(lock);
        };
        // A read or a write waits much longer for a silent database than whoever ends the process does.
        let give_up = async {
            if !patience.is_zero() {
                let _ = timeout_at(until, hurry).await;
            }
            sleep(LAST_CLOSING).await;
        };
        tokio::select! {
            _ = tokio::task::spawn_blocking(closing) => {}
            () = give_up => tracing::warn!(
                "the database did not close in time; whether it keeps the writes under way is not known, as after a crash"
            ),
        }
    }
}

/// The names of the settings whose value is another now, of those that a running server applies, or of the others.
fn differing(before: &[SettingInForce], now: &[SettingInForce], is_reloaded: bool) -> String {
    let kind = Settings::ALL
        .iter()
        .filter(|setting| setting.is_reloaded == is_reloaded);
    let value = |all: &[SettingInForce], name: &str| {
        let known = all.iter().find(|setting| setting.name == name);
        known.map(|setting| setting.value.clone())
    };
    let names = kind.map(|setting| setting.name);
    let names: Vec<&str> = names
        .filter(|name| value(before, name) != value(now, name))
        .collect();
    match names.is_empty() {
        true => "no setting".to_owned(),
        false => names.join(", "),
    }
}

/// Starts what a server does beside requests and deliveries.
///
/// # Errors
/// As [`cosigning::start`] and [`stamping::start`].
fn start_housekeeping(
    app: &App,
    config: &Config,
    skew: &Arc<Skew>,
    stamper: Option<Stamper>,
    metrics: &Metrics,
) -> Result<Vec<JoinHandle<()>>, String> {
    let service = &app.service;
    let retention = Retention {
        events: config.retention_days,
        audit: config.audit_retention_days,
    };
    let mut tasks = housekeeping::start(service, skew, retention, &app.keys.uses);
    tasks.extend(cosigning::start(service)?);
    let mapping = mapping::map(Arc::clone(service), config.map_interval);
    tasks.push(tokio::spawn(mapping));
    if let Some(stamper) = stamper {
        tasks.push(stamping::start(service, stamper, &metrics.stamps)?);
    }
    Ok(tasks)
}

/// The router of what partners and strangers reach, on a listener at `addr`.
fn partners_router(
    app: &Arc<App>,
    addr: SocketAddr,
    readiness: Readiness,
    config: &Config,
    observer: Arc<Observer>,
) -> Router {
    let mut routes = Routes::new();
    #[cfg(feature = "console")]
    let console = config.console.then_some(console::PATH);
    #[cfg(not(feature = "console"))]
    let console = None;
    documents::add_routes(app, console, config.security.as_ref(), &mut routes);
    mcp::add_routes(app, addr, &mut routes);
    api::add_routes(app, api::table(), &mut routes);
    probes::add_routes(readiness, &mut routes);
    #[cfg(feature = "console")]
    if let Some(path) = console {
        let explain = console::add_routes(app, &mut routes);
        return Router::new(routes, config.clock.clone(), observer).explaining(path, explain);
    }
    Router::new(routes, config.clock.clone(), observer)
}

/// The router of the operator interface.
fn operator_router(
    app: &Arc<App>,
    readiness: Readiness,
    config: &Config,
    observer: Arc<Observer>,
) -> Router {
    let app = Arc::new(app.for_operator());
    let mut routes = Routes::new();
    documents::add_operator_routes(&app, &mut routes);
    api::add_routes(&app, api::operator_table(), &mut routes);
    probes::add_routes(readiness, &mut routes);
    #[cfg(feature = "console")]
    if let Some(address) = app.service.operator_url().filter(|_| config.console) {
        let explain = console::add_operator_routes(&app, address.to_owned(), &mut routes);
        return Router::new(routes, config.clock.clone(), observer)
            .explaining(console::PATH, explain);
    }
    Router::new(routes, config.clock.clone(), observer)
}

/// The URL at which programs on this machine reach a server that listens on this address.
pub fn local_url(addr: SocketAddr) -> String {
    format!("http://{}", local(addr))
}

/// The address at which programs on this machine reach a listener.
fn local(mut addr: SocketAddr) -> SocketAddr {
    if addr.ip().is_unspecified() {
        let loopback = match addr {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        addr.set_ip(loopback);
    }
    addr
}

/// Where a server listens or is about to, with the address of each socket.
struct Listeners<S> {
    partners: (S, SocketAddr),
    operator: Option<(S, SocketAddr)>,
    /// For the metrics.
    scraper: Option<(S, SocketAddr)>,
}

impl Listeners<TcpSocket> {
    /// Takes the addresses, so that one which is taken is reported at once. Nobody can connect yet: whoever does before the
    /// server can answer waits in vain, while a refused proxy asks another node.
    async fn bind(config: &Config) -> Result<Self, String> {
        Ok(Self {
            partners: bind(&config.listen).await?,
            scraper: bind_if(config.metrics_listen.as_deref()).await?,
            operator: bind_if(config.operator_listen.as_deref()).await?,
        })
    }

    /// Lets clients connect. Fails if another program that took an address too has begun to listen there.
    fn listen(self) -> Result<Listeners<TcpListener>, String> {
        let listen = |(socket, addr): (TcpSocket, SocketAddr)| {
            let listener = socket.listen(BACKLOG);
            let listener = listener.map_err(|e| cannot_listen(&addr.to_string(), &e))?;
            Ok::<_, String>((listener, addr))
        };
        Ok(Listeners {
            partners: listen(self.partners)?,
            operator: self.operator.map(listen).transpose()?,
            scraper: self.scraper.map(listen).transpose()?,
        })
    }
}

/// Tells what the operator should know of a service that has just been opened.
fn tell_of_start(service: &Service) {
    // A server that was started in the wrong folder looks healthy. This line says that its ledger is new, and where the key is.
    if let Some(begun) = service.begun() {
        tracing::info!("{begun}");
    }
    if let Some(folder) = service.backups().map(|folder| folder.path().to_owned()) {
        // Nobody waits for it: a folder on a network file system may not answer.
        tokio::task::spawn_blocking(move || tell_if_unreadable(&folder));
    }
}

/// Warns of a folder of backups that is not there, or that this user may not read.
fn tell_if_unreadable(folder: &Path) {
    if let Err(why) = std::fs::read_dir(folder) {
        tracing::warn!(
            "the folder of backups {} cannot be read: {why}. Make it, or let this user read it (backup_folder); until then, \
             backups count as missing",
            folder.display()
        );
    }
}

/// Begins to watch the clock, before anything is recorded by it.
async fn watched(service: &Arc<Service>) -> Arc<Skew> {
    let begun = apart(service, |service| Ok(Skew::begin(service))).await;
    Arc::new(begun.unwrap_or_default())
}

/// Takes over the deliveries that a server which was killed had begun. `alone`: no other server works on this database.
///
/// A failure does no harm: deliveries not taken back now are taken back when their leases end, and this node's presence is
/// reported again within a second.
async fn take_over(service: &Arc<Service>, alone: bool) {
    let begin = move |service: &Service| match alone {
        true => reclaim_all(service),
        // Report this node's presence, so that other nodes notice when it is gone.
        false => service.gone().map(drop),
    };
    let _ = apart(service, begin).await;
}

async fn bind_if(listen: Option<&str>) -> Result<Option<(TcpSocket, SocketAddr)>, String> {
    match listen {
        Some(listen) => bind(listen).await.map(Some),
        None => Ok(None),
    }
}

async fn bind(listen: &str) -> Result<(TcpSocket, SocketAddr), String> {
    let bound = lookup_host(listen).await.and_then(|addrs| {
        let none: std::io::Result<_> = Err(std::io::ErrorKind::AddrNotAvailable.into());
        addrs.fold(none, |bound, addr| bound.or_else(|_| bind_to(addr)))
    });
    bound.map_err(|e| cannot_listen(listen, &e))
}

fn bind_to(addr: SocketAddr) -> std::io::Result<(TcpSocket, SocketAddr)> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // So that connections of its predecessor which still end do not keep a server from its port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let addr = socket.local_addr()?;
    Ok((socket, addr))
}

/// Opens the service, and waits for a database server that cannot be reached.
///
/// Machines start in any order and a standby needs a moment to take over. A node that gave up at once would need somebody to
/// start it again; one that waited for ever would hide a wrong address. So it reports at once what it waits for, and fails
/// after `wait`. Any other failure ends it at once.
async fn open(
    settings: service::ServiceConfig,
    wait: Duration,
) -> Result<(Arc<Service>, Closing), OpenError> {
    let until = Instant::now() + wait;
    let mut said = false;
    loop {
        let attempt = settings.clone();
        let opened = tokio::task::spawn_blocking(|| Service::open(attempt)).await;
        let opened = opened.map_err(|e| format!("the database was not opened: {e}"))?;
        match opened {
            Err(OpenError::Unreachable(why)) if Instant::now() < until => {
                if !std::mem::replace(&mut said, true) {
                    tracing::warn!("{why} (waiting for it, {} s at most)", wait.as_secs());
                }
            }
            Ok((service, closing)) => {
                settle(&service).await;
                return Ok((service, closing));
            }
            opened @ Err(_) => return opened,
        }
        sleep(OPEN_AGAIN).await;
    }
}

/// Erases again what a database that was put back holds since. Until that is done, the service serves nothing, and says so.
async fn settle(service: &Arc<Service>) {
    match apart(service, erasures::settle).await {
        Ok(0) => {}
        Ok(repeated) => tracing::warn!(
            "the database was restored from a time before some erasures, which were done again: {repeated}"
        ),
        Err(error) => tracing::error!("{}", error.message),
    }
}

/// The lock of a database file, held until this is dropped.
#[derive(Debug)]
pub struct DatabaseLock {
    file: File,
    path: PathBuf,
    db: PathBuf,
}

impl Drop for DatabaseLock {
    fn drop(&mut self) {
        // Whoever was refused leaves nothing beside a database that was not made.
        let is_absent = matches!(self.db.try_exists(), Ok(false));
        if is_absent && private::is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Locks the database file against other servers. Other commands of the program may still use it.
///
/// # Errors
/// A sentence for the operator: another server runs on it, or the lock cannot be made.
pub fn lock(db: &Path) -> Result<DatabaseLock, String> {
    let path = lock_path(db);
    let fail = |e: &std::io::Error| cannot_lock(&path, e);
    loop {
        let opened = private::open_or_make(private::options().append(true), &path);
        let file = opened.map_err(|e| fail(&e))?;
        match take(&file) {
            // Whoever held it may have taken the file away meanwhile.
            Ok(()) if !private::is_at(&file, &path) => {}
            Ok(()) => {
                let db = db.to_owned();
                return Ok(DatabaseLock { file, path, db });
            }
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another server is using {} (it holds {}); stop it first, or give this one another database",
                    db.display(),
                    path.display()
                ));
            }
            Err(TryLockError::Error(e)) => return Err(fail(&e)),
        }
    }
}

fn cannot_lock(path: &Path, error: &std::io::Error) -> String {
    let folder = path.parent().unwrap_or(Path::new(".")).display();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("the folder {folder} does not exist; make it first, or name another database")
        }
        std::io::ErrorKind::PermissionDenied => format!(
            "this user may not write {} or its folder; change their permissions, or name another database",
            path.display()
        ),
        std::io::ErrorKind::ReadOnlyFilesystem => format!(
            "the folder {folder} is on a file system that is mounted read-only; mount it for writing, or name another database"
        ),
        _ => format!("the lock {} cannot be taken: {error}", path.display()),
    }
}

/// The lock beside the file itself, by whatever links it was named: a backup is restored there.
fn lock_path(db: &Path) -> PathBuf {
    let mut name = private::resolved(db).into_os_string();
    name.push(".lock");
    PathBuf::from(name)
}

/// Takes the lock. A command that checks whether a server runs holds it for a moment, so a refusal is retried.
pub(crate) fn take(file: &File) -> Result<(), TryLockError> {
    for _ in 0..5 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
    file.try_lock()
}

/// Whether a server runs on this database file. A lock that cannot be read counts as held.
#[must_use]
pub fn runs_on(db: &Path) -> bool {
    match File::open(lock_path(db)) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(e) => e.kind() != std::io::ErrorKind::NotFound,
    }
}

pub(crate) fn cannot_listen(listen: &str, error: &std::io::Error) -> String {
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
mod tests;
