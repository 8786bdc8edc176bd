//! Connections: accepted, kept within their time, ended in order.
//!
//! HTTP/1.1 only; TLS and HTTP/2 belong to the proxy in front. Invariant: no client, however slow, holds a
//! connection longer than [`REQUEST`] per request and [`IDLE`] between two.

mod paced;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bookguard_core::limits::EVENT_WAIT_S;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use poem::http::uri::Scheme;
use poem::web::{LocalAddr, RemoteAddr};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::router::Router;
use paced::Paced;

/// From a request's first byte to its answer's first: a body of 64 KiB needs no more, nor does who waits for an event.
pub(crate) const REQUEST: Duration = Duration::from_secs(15 + EVENT_WAIT_S);
/// Between an answer and the next request; and between two bytes a slow client takes of an answer.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// How long requests in flight have to finish once the server is to stop.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);
/// How long a request that is arriving, or an answer that is leaving, gets to do so once the server is to stop.
const LATE: Duration = Duration::from_secs(2);
/// Connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 8_192;
/// Bytes of a request's head: hyper answers 431 above it.
const HEAD_BYTES: usize = 32 * 1024;
/// Pause after a failed accept: the usual cause is too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Serves until `stop` says so, then lets what is in flight finish.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Arc<Router>,
    mut stop: watch::Receiver<bool>,
    report: fn(&str),
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut open = JoinSet::new();
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            Some(_) = open.join_next() => continue,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, remote, permit)) => {
                failing = false;
                let connection = connection(stream, remote, Arc::clone(&router), stop.clone());
                open.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                if !failing {
                    report(&format!("no connection can be accepted: {error}"));
                }
                failing = true;
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
            "{} connections did not finish in {} s and were cut",
            open.len(),
            FAREWELL.as_secs()
        ));
        open.shutdown().await;
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room)
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, remote) = listener.accept().await?;
    Ok((stream, remote, permit))
}

async fn connection(
    stream: TcpStream,
    remote: SocketAddr,
    router: Arc<Router>,
    mut stop: watch::Receiver<bool>,
) {
    // Answers are one write each; waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let local = LocalAddr(stream.local_addr().unwrap_or(remote).into());
    let remote = RemoteAddr(remote.into());
    let answering = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&answering);
    let service = service_fn(move |request| {
        let (router, asked) = (Arc::clone(&router), Arc::clone(&asked));
        let request = poem::Request::from((request, local.clone(), remote.clone(), Scheme::HTTP));
        async move {
            asked.store(true, Ordering::Relaxed);
            let response = router.respond(request).await;
            asked.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(hyper::Response::from(response))
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(HEAD_BYTES).half_close(true);
    let mut serving = pin!(http.serve_connection(TokioIo::new(Paced::new(stream)), service));
    // An error is the client's broken connection or message; there is nobody to tell.
    tokio::select! {
        _ = serving.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => serving.as_mut().graceful_shutdown(),
    }
    // Ends by itself after the answer; a request that has not arrived whole is not waited for.
    while timeout(LATE, serving.as_mut()).await.is_err() {
        if !answering.load(Ordering::Relaxed) {
            return;
        }
    }
}
