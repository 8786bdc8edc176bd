//! How a connection to a receiver is made: straight, or through the operator's proxy.
//!
//! TLS and HTTP are laid over what comes of it by the client. Invariants: whatever the way, it ends at an address that was
//! checked for this very connection; what is read on it is counted (`meter`).

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
use tower_service::Service;

use super::meter::{Exchanges, Metered};
use super::progress::{PROGRESS, Progress};
use super::resolver::CheckedResolver;
use crate::courier::proxy::{Proxy, ProxyFault};

/// How long a connection may be silent before the system asks whether anybody is there, and how often it asks.
const KEEPALIVE: (Duration, u32) = (Duration::from_secs(15), 3);
/// How long what was sent may stay unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// Addresses of one receiver that a proxy is asked for: some may be of a family it cannot reach.
const ADDRESSES: usize = 4;

/// Any error on the way.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Makes connections.
#[derive(Clone)]
pub(super) struct Dialer {
    straight: HttpConnector<CheckedResolver>,
    resolver: CheckedResolver,
    proxy: Option<Arc<Proxy>>,
}

impl Dialer {
    pub(super) fn new(resolver: CheckedResolver, proxy: Option<Proxy>) -> Self {
        let mut straight = HttpConnector::new_with_resolver(resolver.clone());
        // TLS is the next layer's.
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

/// Makes connections, with TLS over those that ask for it.
#[derive(Clone)]
pub(super) struct Connector(pub HttpsConnector<Dialer>);

impl Service<Uri> for Connector {
    type Response = Exchanges;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Exchanges, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move { Ok(Exchanges(connecting.await?)) })
    }
}

/// A tunnel to the first address of the receiver to which the proxy opens one.
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
