//! Connections: accepted, kept within their time, ended in order.
//!
//! HTTP/1.1 only; TLS and HTTP/2 belong to the proxy in front. poem's own server sets a client no time to send in, and limits
//! no number of connections, so hyper is driven here. Invariants: no client, however slow, holds a
//! connection longer than [`REQUEST`] per request and [`IDLE`] between two; no client, however many connections it
//! holds, keeps others from theirs.

mod deadline;
mod files;
mod room;
mod worded;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::limits::EVENT_WAIT_S;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use poem::http::uri::Scheme;
use poem::web::{LocalAddr, RemoteAddr};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::config::Connections;
use crate::payer::network_of;
use crate::proxies::TrustedProxies;
use crate::refusal::Refusal;
use crate::router::Router;
use deadline::DeadlineStream;
use room::{Held, Room};
use worded::Worded;

/// From a request's first byte to its answer's first: a body of 64 KiB needs no more, nor does who waits for an event.
pub(crate) const REQUEST: Duration = Duration::from_secs(15 + EVENT_WAIT_S);
/// Between an answer and the next request; and between two bytes a slow client takes of an answer.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// How long requests in flight have to finish once the server is to stop.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);
/// How long a request that is arriving, or an answer that is leaving, gets to do so once the server is to stop.
const LATE: Duration = Duration::from_secs(2);
/// Bytes of a request's head: hyper answers 431 above it.
const HEAD_BYTES: usize = 32 * 1024;
/// Pause after a failed accept: the usual cause is too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What is answered in the reserve.
const HEALTH: &str = "/v1/health";

/// What connections are served with.
pub(crate) struct Serving {
    pub(crate) router: Arc<Router>,
    /// How many there may be; as many as the process's limit of open files allows when not given.
    pub(crate) limits: Option<Connections>,
    /// Whose word on a client's address is taken. May change while serving.
    pub(crate) proxies: watch::Receiver<Arc<TrustedProxies>>,
    pub(crate) report: fn(&str),
}

/// Serves until `stop` says so, then lets what is in flight finish.
pub(crate) async fn serve(
    listener: TcpListener,
    serving: Serving,
    mut stop: watch::Receiver<bool>,
) {
    let report = serving.report;
    let room = Room::new(serving.limits.unwrap_or_else(|| files::limits(report)));
    let serving = Arc::new(serving);
    let mut open = JoinSet::new();
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                failing = false;
                let address = peer.ip().to_canonical();
                let trusted = serving.proxies.borrow().trusts(address);
                // Behind a proxy are many clients, so its connections are not one client's.
                let network = (!trusted).then(|| network_of(address));
                if let Some(held) = room.admit(network) {
                    open.spawn(connection(
                        stream,
                        peer,
                        held,
                        Arc::clone(&serving),
                        stop.clone(),
                    ));
                }
            }
            Err(error) => {
                if !failing {
                    report(&format!("no connection can be accepted: {error}"));
                }
                failing = true;
                room.shed();
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    drop(listener);
    let finished = timeout(FAREWELL, async {
        while open.join_next().await.is_some() {}
    })
    .await;
    if finished.is_err() {
        report(&format!(
            "{} connections did not finish within {} s and were closed",
            open.len(),
            FAREWELL.as_secs()
        ));
        open.shutdown().await;
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    held: Held,
    serving: Arc<Serving>,
    mut stop: watch::Receiver<bool>,
) {
    // Answers are one write each; waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let local = LocalAddr(stream.local_addr().unwrap_or(peer).into());
    let seat = Arc::clone(&held.seat);
    let stream = Worded::new(
        DeadlineStream::new(stream),
        Arc::clone(&seat),
        Arc::clone(&serving.router),
    );
    let reserved = held.reserved;
    let service = service_fn(move |request: hyper::Request<_>| {
        seat.engage();
        let client = serving.proxies.borrow().client(peer, request.headers());
        let remote = RemoteAddr(client.into());
        let request = poem::Request::from((request, local.clone(), remote, Scheme::HTTP));
        let (serving, seat) = (Arc::clone(&serving), Arc::clone(&seat));
        async move {
            let response = answer(&serving.router, request, reserved).await;
            seat.answered();
            Ok::<_, Infallible>(hyper::Response::from(response))
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(HEAD_BYTES)
        .half_close(true)
        .keep_alive(!reserved);
    let mut talking = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut leaving = false;
    // An error is the client's broken connection or message; there is nobody to tell.
    loop {
        tokio::select! {
            _ = talking.as_mut() => return,
            () = held.seat.told_to_leave(), if !leaving => {
                if held.seat.is_waiting() {
                    return;
                }
                // A request came just then; it is the last.
                leaving = true;
                talking.as_mut().graceful_shutdown();
            }
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    talking.as_mut().graceful_shutdown();
    // Ends by itself after the answer; a request that has not arrived whole is not waited for.
    while timeout(LATE, talking.as_mut()).await.is_err() {
        if !held.seat.is_engaged() {
            return;
        }
    }
}

/// The answer to a request; in the reserve, to the health check alone.
async fn answer(router: &Router, mut request: poem::Request, reserved: bool) -> poem::Response {
    let full = (reserved && request.uri().path() != HEALTH).then(|| {
        // Its body is not waited for: others need the place.
        drop(request.take_body());
        Refusal::full()
    });
    router.receive(request, full).await
}
