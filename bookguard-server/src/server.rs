//! Starts and stops a server: one file lock, one service, one listener.

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::features::deliveries::reclaim_all;
use bookguard_core::private;
use bookguard_core::service::{self, Closing, OpenError, Service};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::api;
use crate::app::App;
use crate::config::Config;
use crate::connections::{self, FAREWELL};
use crate::courier::Courier;
use crate::documents;
use crate::mcp;
use crate::proxies::TrustedProxies;
use crate::retention::prune_old_events;
use crate::router::{Router, Routes};
use crate::skew::{Skew, Steps};

/// What deliveries in flight get to end in, even when requests took all the time there was.
const LAST_DELIVERIES: Duration = Duration::from_secs(1);

/// How long after a failure the database's server is tried again.
const OPEN_AGAIN: Duration = Duration::from_millis(500);

/// Connections that the kernel keeps until they are accepted, of which a system may allow fewer: one that finds no room there is
/// tried again by its client after a second.
#[cfg(unix)]
const BACKLOG: i32 = 4096;

/// How often what has expired is looked for.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// How often what was published is brought to the guard's disk: what a power cut can make it forget.
const GUARD_SYNC: Duration = Duration::from_secs(1);
/// How often to look whether the database takes writes and its disk has room: with as long that a write counts as proof, a
/// second until it is known that none is taken.
const STORAGE: Duration = Duration::from_millis(500);

/// A running server.
pub struct Server {
    addr: SocketAddr,
    service: Arc<Service>,
    courier: Arc<Courier>,
    stop: watch::Sender<bool>,
    proxies: watch::Sender<Arc<TrustedProxies>>,
    report: fn(&str),
    serving: JoinHandle<()>,
    housekeeping: [JoinHandle<()>; 3],
    closing: Closing,
    /// Held for as long as this server may touch a database file; a database server takes any number of nodes.
    _lock: Option<File>,
}

/// What a running server is told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// To end: in order, and without waiting for anybody when it is said once more.
    End,
    /// To read its configuration anew.
    Reload,
}

/// Serves until it is told to end, then ends in order. `started` is called once requests are answered, `reload` when the
/// configuration is to be read anew.
///
/// # Errors
/// As [`Server::start`].
pub async fn run(
    config: Config,
    mut signals: UnboundedReceiver<Signal>,
    reload: impl Fn() -> Result<Config, String>,
    started: impl FnOnce(&Server),
) -> Result<(), OpenError> {
    let server = tokio::select! {
        server = Server::start(config) => server?,
        // It may be waiting for its database.
        () = told_to_end(&mut signals, || {}) => return Ok(()),
    };
    started(&server);
    told_to_end(&mut signals, || server.reload(reload())).await;
    server.end(told_to_end(&mut signals, || {})).await;
    Ok(())
}

/// Resolves when the server is told to end; never when nobody can tell it any more.
async fn told_to_end(signals: &mut UnboundedReceiver<Signal>, reload: impl Fn()) {
    loop {
        match signals.recv().await {
            Some(Signal::End) => return,
            Some(Signal::Reload) => reload(),
            None => std::future::pending().await,
        }
    }
}

/// What the process is told: SIGTERM and SIGINT end a server, SIGHUP has it read its configuration anew.
///
/// Errors when the system does not let signals be watched.
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
    /// Opens the database, binds the address and serves.
    ///
    /// Errors are one sentence for the operator: the address is taken, the database is in use by another server or
    /// cannot be opened, its ledger key is missing.
    pub async fn start(config: Config) -> Result<Self, OpenError> {
        let lock = config.db.file().map(lock).transpose()?;
        let listener = TcpListener::bind(&config.listen)
            .await
            .map_err(|e| cannot_listen(&config.listen, &e))?;
        // It listens already, with the room for 1,024 that tokio gives; asked once more, the kernel only gives it more.
        #[cfg(unix)]
        let _ = rustix::net::listen(&listener, BACKLOG);
        let addr = listener
            .local_addr()
            .map_err(|e| cannot_listen(&config.listen, &e))?;
        let (outbox, leased) = Outbox::new();
        let outbox = Arc::new(outbox);
        let settings = config.service(&addr.to_string(), Some(Arc::clone(&outbox)));
        let (service, closing) = open(settings, config.database_wait).await?;
        // Beside a database file the key is where everybody looks for it; of a server's, other nodes need a copy.
        if let Some(begun) = service.begun().filter(|_| config.db.file().is_none()) {
            (config.report)(begun);
        }
        let (deliverer, alone) = (Arc::clone(&service), lock.is_some());
        let begin = move || match alone {
            // On a database file this is the only server, so whoever left deliveries half done is gone.
            true => reclaim_all(&deliverer),
            // Elsewhere the others are to notice when this one is.
            false => deliverer.gone().map(drop),
        };
        // What cannot be taken back now is when its lease ends; who is not there now will be in a second.
        let _ = tokio::task::spawn_blocking(begin).await;
        let courier = Courier::start(Arc::clone(&service), outbox, leased, config.courier())
            .map_err(|e| format!("webhooks cannot be sent: {e}"))?;
        let courier = Arc::new(courier);
        let app = Arc::new(App::new(
            &config,
            Arc::clone(&service),
            Arc::clone(&courier),
        )?);
        let mut routes = Routes::new();
        documents::add_routes(&app, config.security.as_ref(), &mut routes);
        mcp::add_routes(&app, addr, &mut routes);
        api::add_routes(&app, &mut routes);
        let router = Arc::new(Router::new(routes, config.clock.clone(), config.report));
        let (stop, stopped) = watch::channel(false);
        let housekeeping = [
            tokio::spawn(keep_house(Arc::clone(&service), Skew::new(config.report))),
            tokio::spawn(watch_storage(Arc::clone(&service))),
            tokio::spawn(retain(Arc::clone(&service), config.retention_days)),
        ];
        let (proxies, trusted) = watch::channel(Arc::new(config.trusted_proxies.clone()));
        let serving = connections::Serving {
            router,
            limits: config.connections,
            proxies: trusted,
            report: config.report,
        };
        let serving = tokio::spawn(connections::serve(listener, serving, stopped));
        Ok(Self {
            addr,
            service,
            courier,
            stop,
            proxies,
            report: config.report,
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

    /// Takes over what can change while it serves: the trusted proxies. What cannot be read leaves everything as it was.
    pub fn reload(&self, config: Result<Config, String>) {
        match config {
            Ok(config) => {
                self.proxies.send_replace(Arc::new(config.trusted_proxies));
                (self.report)(
                    "the configuration was reloaded: trusted proxies take effect now, everything else at the next start",
                );
            }
            Err(why) => (self.report)(&format!(
                "the configuration was not reloaded, and nothing changed: {why}"
            )),
        }
    }

    /// Stops accepting, lets requests and deliveries in flight finish for about ten seconds at most, and closes the
    /// database.
    pub async fn stop(self) {
        self.end(std::future::pending()).await;
    }

    /// As [`Self::stop`], but from the moment `hurry` resolves nothing in flight is waited for. What was handed to the
    /// writer is written all the same, and the database closes in order.
    async fn end(self, hurry: impl Future<Output = ()>) {
        let Self {
            service,
            courier,
            stop,
            mut serving,
            housekeeping,
            closing,
            _lock,
            report,
            ..
        } = self;
        let until = Instant::now() + FAREWELL;
        let mut hurry = std::pin::pin!(hurry);
        service.news().close();
        // Nobody listens only when serving has ended already.
        let _ = stop.send(true);
        let mut patience = LAST_DELIVERIES;
        tokio::select! {
            _ = &mut serving => {
                // After the requests: a manual retry among them waits for its delivery.
                // What cannot be recorded is not worth waiting for: whoever starts next delivers it.
                if !service.storage().is_failing() {
                    patience = patience.max(until.saturating_duration_since(Instant::now()));
                }
            }
            () = &mut hurry => {
                report("second signal: requests in flight are cut off");
                patience = Duration::ZERO;
                serving.abort();
                let _ = serving.await;
            }
        }
        {
            let mut stopping = std::pin::pin!(courier.stop(patience));
            tokio::select! {
                () = &mut stopping => {}
                () = hurry, if !patience.is_zero() => {
                    courier.stop(Duration::ZERO).await;
                    stopping.await;
                }
            }
        }
        for task in housekeeping {
            task.abort();
            let _ = task.await;
        }
        drop((courier, service));
        let _ = tokio::task::spawn_blocking(|| closing.wait()).await;
    }
}

/// Opens the service; waits for a database server that cannot be reached.
///
/// Machines start in any order and a standby needs a moment to take over, so a node that gave up at once would depend on
/// somebody who starts it again. One that waited for ever would hide that the address is wrong: it says at once what it
/// waits for, and ends when its time is over. What waiting does not mend ends it at once.
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
                    (settings.report)(&format!(
                        "{why} (waiting for it, {} s at most)",
                        wait.as_secs()
                    ));
                }
            }
            opened => return opened,
        }
        tokio::time::sleep(OPEN_AGAIN).await;
    }
}

/// Forgets remembered answers whose day is over, looks at the clock, and brings to disk what the guard remembers. A store
/// that does not answer has reported itself; next time, then.
async fn keep_house(service: Arc<Service>, skew: Skew) {
    let skew = Arc::new(skew);
    let mut turn = tokio::time::interval(HOUSEKEEPING);
    let mut sync = tokio::time::interval(GUARD_SYNC);
    sync.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut steps = Steps::default();
    loop {
        let service = Arc::clone(&service);
        let work: Box<dyn FnOnce() + Send> = tokio::select! {
            _ = turn.tick() => {
                let skew = Arc::clone(&skew);
                Box::new(move || {
                    skew.look(&service);
                    drop(service.forget_expired_answers());
                })
            }
            _ = sync.tick() => {
                // A clock that is set by hand has nothing to do with the time that passes.
                if let Clock::System = service.clock()
                    && let Some(news) = steps.look(Instant::now().into_std(), service.clock().now())
                {
                    service.report(&news);
                }
                Box::new(move || service.sync_guard())
            }
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }
}

/// Looks whether the database takes writes. Apart from everything else, because a try waits for as long as a write does.
async fn watch_storage(service: Arc<Service>) {
    let mut turn = tokio::time::interval(STORAGE);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        let service = Arc::clone(&service);
        let _ = tokio::task::spawn_blocking(move || service.watch_storage()).await;
    }
}

/// Prunes old events, unless they are kept for ever.
async fn retain(service: Arc<Service>, days: u32) {
    if days > 0 {
        prune_old_events(service, days).await;
    }
}

/// Takes the database for this server alone. Other commands of the program may use it all the same.
fn lock(db: &Path) -> Result<File, String> {
    let path = lock_path(db);
    let folder = path.parent().unwrap_or(Path::new(".")).display();
    let fail = |e: &std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => {
            format!("the folder {folder} does not exist; make it first, or name another database")
        }
        std::io::ErrorKind::PermissionDenied => format!(
            "this user may not write {} or its folder; change their permissions, or name another database",
            path.display()
        ),
        _ => format!("the lock {} cannot be taken: {e}", path.display()),
    };
    let file = private::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|e| fail(&e))?;
    match take(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another server is using {} (it holds {}); stop it first, or give this one another database",
            db.display(),
            path.display()
        )),
        Err(TryLockError::Error(e)) => Err(fail(&e)),
    }
}

fn lock_path(db: &Path) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Takes the lock. A command that looks whether a server runs holds it for a moment, so one refusal is not enough.
fn take(file: &File) -> Result<(), TryLockError> {
    for _ in 0..5 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
    file.try_lock()
}

/// Whether a server runs on the database in this file. A lock that cannot be looked at counts as held.
#[must_use]
pub fn runs_on(db: &Path) -> bool {
    match File::open(lock_path(db)) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(e) => e.kind() != std::io::ErrorKind::NotFound,
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
mod tests;
