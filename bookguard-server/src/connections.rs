//! Accepts connections, enforces their time limits, and closes them gracefully.
//!
//! HTTP/1.1 only; TLS and HTTP/2 are the job of a proxy in front. poem's own server limits neither the time a client may take
//! to send nor the number of connections, so this module drives hyper itself. Invariants: no client, however slow, holds a connection longer than
//! [`REQUEST`] for a request, [`IDLE`] between two, and for an answer [`IDLE`] plus its length at the least rate;
//! no client, however many connections it opens, keeps
//! others from theirs.

mod deadline;
mod files;
mod progress;
mod room;
mod streamed;
mod worded;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::clock::Clock;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use poem::http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue};
use poem::http::uri::Scheme;
use poem::web::{LocalAddr, RemoteAddr};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::answers::AnswerRoom;
use crate::config::{Connections, RequestLines};
use crate::incoming::{HEAD_BYTES, REQUEST};
use crate::observer::{HEALTH, Observer};
use crate::payer::network_of;
use crate::probes::Stage;
use crate::proxies::TrustedProxies;
use crate::refusal::Refusal;
use crate::router::{Router, Routes};
use deadline::DeadlineStream;
use room::{ConnectionSlot, ConnectionTable};
use streamed::Streamed;
use worded::Worded;

/// The most time between an answer and the next request, and the most by which a client may fall behind the least rate
/// at which it must take an answer.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// How long requests in flight may take to finish once the server stops.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);
/// How long a connection without a request stays open once the server stops. A request that is on its way is still answered: if
/// its connection were closed, nobody could know whether it was carried out, and a proxy would not send it to another server.
const ARRIVING: Duration = Duration::from_millis(50);
/// How long an arriving request or a leaving answer may still take once the server stops, or once it is late.
const LATE: Duration = Duration::from_secs(2);
/// The pause after a failed accept; the usual cause is too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// The most connections that are taken over from the kernel's queue when the server ends.
const QUEUED: usize = 4096;

/// Everything that serving connections needs.
pub(crate) struct Serving {
    pub(crate) router: Arc<Router>,
    /// The limits on connections; derived from the process's limit of open files if `None`.
    pub(crate) limits: Option<Connections>,
    /// The proxies trusted to name a client's address. May change while serving.
    pub(crate) proxies: watch::Receiver<Arc<TrustedProxies>>,
    pub(crate) stage: watch::Receiver<Stage>,
}

impl Serving {
    /// Serves a few paths without proxies. Its requests are neither counted nor logged unless they fail.
    pub(crate) fn alone(
        routes: Routes,
        clock: Clock,
        limits: Option<Connections>,
        stage: watch::Receiver<Stage>,
    ) -> Self {
        let observer = Arc::new(Observer::new(RequestLines::default()));
        Self {
            router: Arc::new(Router::new(routes, clock, observer)),
            limits,
            proxies: watch::channel(Arc::default()).1,
            stage,
        }
    }

    /// Resolves when the server ends.
    async fn ending(&self) {
        let mut stage = self.stage.clone();
        // If nobody can say so any more, it has ended.
        let _ = stage.wait_for(|stage| *stage == Stage::Ending).await;
    }
}

/// Serves until the server ends, then lets requests in flight finish.
pub(crate) async fn serve(listener: TcpListener, serving: Serving) {
    let room = ConnectionTable::new(serving.limits.unwrap_or_else(files::limits));
    let serving = Arc::new(serving);
    let mut open = JoinSet::new();
    let mut failing = false;
    let mut ending = pin!(serving.ending());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
            () = &mut ending => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                failing = false;
                admit(stream, peer, &serving, &room, &mut open);
            }
            Err(error) => {
                if !failing {
                    tracing::error!("no connection can be accepted: {error}");
                }
                failing = true;
                room.shed();
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    for (stream, peer) in queued(listener) {
        admit(stream, peer, &serving, &room, &mut open);
    }
    let finished = timeout(FAREWELL, async {
        while open.join_next().await.is_some() {}
    })
    .await;
    if finished.is_err() {
        tracing::warn!(
            "{} connections did not finish within {} s and were closed",
            open.len(),
            FAREWELL.as_secs()
        );
        open.shutdown().await;
    }
}

/// Closes the listener, and returns the connections that the kernel has accepted for it. They may hold requests already, and
/// would be reset.
fn queued(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else {
        return Vec::new();
    };
    // It does not block, so it fails once there are no more.
    let accepted = std::iter::from_fn(|| listener.accept().ok());
    let streams = accepted.take(QUEUED).filter_map(|(stream, peer)| {
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    });
    streams.collect()
}

/// Serves a connection if there is room for it.
fn admit(
    stream: TcpStream,
    peer: SocketAddr,
    serving: &Arc<Serving>,
    room: &Arc<ConnectionTable>,
    open: &mut JoinSet<()>,
) {
    let address = peer.ip().to_canonical();
    let trusted = serving.proxies.borrow().trusts(address);
    // A proxy carries many clients, so its connections do not count as one client's.
    let network = (!trusted).then(|| network_of(address));
    if let Some(held) = room.admit(network) {
        open.spawn(connection(stream, peer, held, Arc::clone(serving)));
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    held: ConnectionSlot,
    serving: Arc<Serving>,
) {
    let server = Arc::clone(&serving);
    // Each answer is one write; waiting to fill a packet would only delay it.
    let _ = stream.set_nodelay(true);
    let local = LocalAddr(stream.local_addr().unwrap_or(peer).into());
    let seat = Arc::clone(&held.seat);
    let stream = Worded::new(
        DeadlineStream::new(stream, Arc::clone(&seat)),
        Arc::clone(&seat),
        Arc::clone(&serving.router),
    );
    let reserved = held.reserved;
    let service = service_fn(move |request: hyper::Request<_>| {
        seat.progress().engage(Instant::now());
        let client = serving.proxies.borrow().client(peer, request.headers());
        let remote = RemoteAddr(client.into());
        let request = poem::Request::from((request, local.clone(), remote, Scheme::HTTP));
        let (serving, seat) = (Arc::clone(&serving), Arc::clone(&seat));
        async move {
            let mut response = answer(&serving.router, request, reserved).await;
            if *serving.stage.borrow() > Stage::Serving {
                let last = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, last);
            }
            let room = response.extensions_mut().remove::<Arc<AnswerRoom>>();
            seat.progress().answer(room, Instant::now());
            let declared = response.headers().get(CONTENT_LENGTH);
            let declared = declared.and_then(|length| length.to_str().ok()?.parse().ok());
            let response = hyper::Response::from(response);
            Ok::<_, Infallible>(response.map(|body| Streamed::new(body, seat, declared)))
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(HEAD_BYTES)
        .half_close(true)
        .keep_alive(!reserved);
    let mut talking = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut ending = pin!(server.ending());
    let mut leaving = false;
    // Errors are ignored: the client's connection or message is broken, so there is nobody to tell.
    loop {
        tokio::select! {
            _ = talking.as_mut() => return,
            () = held.seat.overdue() => return,
            () = held.seat.told_to_leave(), if !leaving => {
                if held.seat.is_waiting() {
                    return;
                }
                // A request has arrived meanwhile; it is the last one.
                leaving = true;
                talking.as_mut().graceful_shutdown();
            }
            () = &mut ending => break,
        }
    }
    if timeout(ARRIVING, talking.as_mut()).await.is_ok() {
        return;
    }
    talking.as_mut().graceful_shutdown();
    // The connection ends by itself after the answer; a request that has not fully arrived is not waited for.
    while timeout(LATE, talking.as_mut()).await.is_err() {
        if !held.seat.progress().is_busy() {
            return;
        }
    }
}

/// Answers a request; on a reserve connection, only the health checks.
async fn answer(router: &Router, mut request: poem::Request, reserved: bool) -> poem::Response {
    let full = (reserved && !HEALTH.contains(&request.uri().path())).then(|| {
        // The body is not read: the place is needed for others.
        drop(request.take_body());
        Refusal::full()
    });
    router.receive(request, full).await
}
