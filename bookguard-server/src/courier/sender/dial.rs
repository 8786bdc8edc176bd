//! Opens connections to receivers, directly or through the operator's proxy.
//!
//! The client layers TLS and HTTP on top. Invariants: a connection always ends at an address that was checked for it, and what
//! is read from it is counted (`meter`).

use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bookguard_core::webhook::Phase;
use hyper::Uri;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::meter::{Exchanges, Metered};
use super::progress::{PROGRESS, Progress};
use super::resolver::CheckedResolver;
use crate::courier::proxy::{Proxy, ProxyFault};

/// The silence after which TCP keep-alive probes a connection, which is also the interval of the probes; and their number.
const KEEPALIVE: (Duration, u32) = (Duration::from_secs(15), 3);
/// How long sent data may stay unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// The most addresses of one receiver to try through a proxy; some may be of a family that the proxy cannot reach.
const ADDRESSES: usize = 4;

/// An error while connecting.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Opens connections.
#[derive(Clone)]
pub(super) struct Dialer {
    straight: HttpConnector<CheckedResolver>,
    resolver: CheckedResolver,
    proxy: Option<Arc<Proxy>>,
}

impl Dialer {
    pub(super) fn new(resolver: CheckedResolver, proxy: Option<Proxy>) -> Self {
        let mut straight = HttpConnector::new_with_resolver(resolver.clone());
        // TLS is handled by the next layer.
        straight.enforce_http(false);
        straight.set_nodelay(true);
        straight.set_keepalive(Some(KEEPALIVE.0));
        straight.set_keepalive_interval(Some(KEEPALIVE.0));
        straight.set_keepalive_retries(Some(KEEPALIVE.1));
        #[cfg(target_os = "linux")]
        straight.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        Self {
            straight,
            resolver,
            proxy: proxy.map(Arc::new),
        }
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<Metered>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.straight.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let progress = PROGRESS.try_with(Clone::clone).unwrap_or_default();
        let secured = to.scheme_str() == Some("https");
        let reached = progress.clone();
        let connected = move |socket: TcpStream| {
            if secured {
                reached.reached(Phase::Tls);
            }
            TokioIo::new(Metered::new(socket))
        };
        let Some(proxy) = self.proxy.clone() else {
            let connecting = self.straight.call(to);
            return Box::pin(async move { Ok(connected(connecting.await?.into_inner())) });
        };
        let resolver = self.resolver.clone();
        Box::pin(async move { Ok(connected(tunnel(&proxy, &resolver, &to, &progress).await?)) })
    }
}

/// Opens connections, with TLS for https.
#[derive(Clone)]
pub(super) struct Connector {
    pub https: HttpsConnector<Dialer>,
    /// How long a connection may take to open. If another becomes free first, the client uses that and goes on opening this one for
    /// later, so no attempt's own time-out ends it: a receiver that never ends a handshake would be left with a socket for each.
    pub patience: Duration,
}

impl Service<Uri> for Connector {
    type Response = Exchanges;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Exchanges, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = timeout(self.patience, self.https.call(to));
        Box::pin(async move { Ok(Exchanges(connecting.await??)) })
    }
}

/// Opens a tunnel to the first address of the receiver that the proxy can reach.
async fn tunnel(
    proxy: &Proxy,
    resolver: &CheckedResolver,
    to: &Uri,
    progress: &Progress,
) -> Result<TcpStream, BoxError> {
    let host = to.host().unwrap_or_default();
    let usual = match to.scheme_str() {
        Some("http") => 80,
        _ => 443,
    };
    let port = to.port_u16().unwrap_or(usual);
    let addresses = resolver.addresses(host, progress).await?;
    progress.reached(Phase::Connect);
    progress.waits_for_proxy(true);
    let mut refused: Option<ProxyFault> = None;
    for address in addresses.into_iter().take(ADDRESSES) {
        match proxy.tunnel(SocketAddr::new(address.ip(), port)).await {
            Ok(stream) => {
                progress.waits_for_proxy(false);
                return Ok(stream);
            }
            Err(fault) if fault.whole => return Err(fault.into()),
            Err(fault) => refused = Some(fault),
        }
    }
    Err(refused.map_or_else(|| "the receiver has no address".into(), Into::into))
}
