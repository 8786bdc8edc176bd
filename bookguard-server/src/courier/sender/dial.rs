//! Opens connections to receivers, directly or through the operator's proxy.
//!
//! The client layers TLS and HTTP on top. Invariants: a connection always ends at an address that was checked for it, and what
//! is read from it is counted (`meter`).

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
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

use super::meter::{Exchanges, Metered, Places};
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
    places: Places,
}

impl Dialer {
    /// The connections that get one of these places are kept for further requests.
    pub(super) fn new(resolver: CheckedResolver, proxy: Option<Proxy>, places: Places) -> Self {
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
            places,
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
        let (reached, places) = (progress.clone(), self.places.clone());
        let connected = move |socket: TcpStream| {
            if secured {
                reached.reached(Phase::Tls);
            }
            TokioIo::new(Metered::new(socket, &places))
        };
        let Some(proxy) = self.proxy.clone() else {
            let connecting = within(&self.straight, progress.patience()).call(to);
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

/// A connector that tries all addresses of a receiver within an attempt's patience. The client divides it among those of one
/// family, so that a dead one does not hide the others.
fn within<R: Clone>(straight: &HttpConnector<R>, patience: Option<Duration>) -> HttpConnector<R> {
    let mut straight = straight.clone();
    // A little more than there is: a single address has all the time, and the attempt itself says that it timed out.
    straight.set_connect_timeout(patience.map(|patience| patience + patience / 16));
    straight
}

/// Leaves out the addresses of a family in which this machine has no route, if the receiver has others. The client reports the error
/// of the family that it tried last: for want of a route, a receiver that refuses would look like a fault of this side.
pub(super) fn routed(
    mut addresses: Vec<SocketAddr>,
    has_route: impl Fn(IpAddr) -> bool,
) -> Vec<SocketAddr> {
    let first = |is_v6: bool| {
        let mut all = addresses.iter();
        all.find(|address| address.is_ipv6() == is_v6)
            .map(SocketAddr::ip)
    };
    if let (Some(v4), Some(v6)) = (first(false), first(true)) {
        match (has_route(v4), has_route(v6)) {
            (true, false) => addresses.retain(SocketAddr::is_ipv4),
            (false, true) => addresses.retain(SocketAddr::is_ipv6),
            _ => {}
        }
    }
    addresses
}

/// Whether this machine has a route to the address. To connect a datagram socket sends nothing.
pub(super) fn has_route(to: IpAddr) -> bool {
    let from = match to {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    UdpSocket::bind((from, 0))
        .and_then(|socket| socket.connect((to, 443)))
        .is_ok()
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
    let addresses = addresses.into_iter().take(ADDRESSES);
    let addresses: Vec<SocketAddr> = addresses
        .map(|address| SocketAddr::new(address.ip(), port))
        .collect();
    let stream = first_tunnel(proxy, &addresses, progress.patience()).await?;
    progress.waits_for_proxy(false);
    Ok(stream)
}

/// Tries these addresses in turn, each for its share of the patience.
async fn first_tunnel(
    proxy: &Proxy,
    addresses: &[SocketAddr],
    patience: Option<Duration>,
) -> Result<TcpStream, BoxError> {
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut refused: Option<ProxyFault> = None;
    for (n, address) in addresses.iter().enumerate() {
        let opening = proxy.tunnel(*address);
        // The last one has all the time that is left, and the attempt itself says that it timed out.
        let opened = match patience.filter(|_| n + 1 < addresses.len()) {
            Some(patience) => timeout(patience / count, opening)
                .await
                .unwrap_or_else(|_| Err(ProxyFault::late())),
            None => opening.await,
        };
        match opened {
            Ok(stream) => return Ok(stream),
            Err(fault) if fault.whole => return Err(fault.into()),
            Err(fault) => refused = Some(fault),
        }
    }
    Err(refused.map_or_else(|| "the receiver has no address".into(), Into::into))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};

    use hyper_util::client::legacy::connect::dns::Name;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(600);
    /// Long enough for any machine, and much less than the system takes to give up an address.
    const AT_MOST: Duration = Duration::from_secs(20);

    /// Resolves every name to two addresses.
    #[derive(Clone)]
    struct Two([Ipv4Addr; 2]);

    impl Service<Name> for Two {
        type Response = std::vec::IntoIter<SocketAddr>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            let found = self.0.map(|ip| SocketAddr::new(ip.into(), 0));
            ready(Ok(Vec::from(found).into_iter()))
        }
    }

    /// A listener that takes no connection, because its queue is full, and what fills it.
    async fn dead() -> (TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(connected) =
            timeout(Duration::from_millis(300), TcpStream::connect(address)).await
        {
            queued.push(connected.unwrap());
            assert!(queued.len() < 100, "the queue is never full");
        }
        (listener, queued)
    }

    #[tokio::test]
    async fn a_dead_address_does_not_hide_a_live_one() {
        let (dead, _queued) = dead().await;
        let port = dead.local_addr().unwrap().port();
        let live = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let two = Two([Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)]);
        let straight = HttpConnector::new_with_resolver(two);
        let to = format!("http://two.example:{port}/").parse().unwrap();
        let opened = timeout(AT_MOST, within(&straight, Some(PATIENCE)).call(to));
        let stream = opened.await.unwrap().unwrap().into_inner();
        assert_eq!(stream.peer_addr().unwrap(), live.local_addr().unwrap());
    }

    #[test]
    fn a_family_without_a_route_is_left_out_if_there_is_another() {
        let [v6, one, other] = ["[2001:db8::1]:0", "192.0.2.1:0", "192.0.2.2:0"]
            .map(|text| text.parse::<SocketAddr>().unwrap());
        for (has_v4, has_v6, tried) in [
            (true, true, vec![v6, one, other]),
            (true, false, vec![one, other]),
            (false, true, vec![v6]),
            // The attempt says why.
            (false, false, vec![v6, one, other]),
        ] {
            let has_route = |ip: IpAddr| if ip.is_ipv4() { has_v4 } else { has_v6 };
            assert_eq!(routed(vec![v6, one, other], has_route), tried);
        }
        assert_eq!(routed(vec![v6], |_| false), [v6]);
        assert!(has_route(Ipv4Addr::LOCALHOST.into()));
    }

    #[tokio::test]
    async fn a_tunnel_that_does_not_open_does_not_hide_one_that_does() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 512];
                let read = stream.read(&mut head).await.unwrap();
                if head[..read].starts_with(b"CONNECT 192.0.2.2:") {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                }
                silent.push(stream);
            }
        });
        let proxy = Proxy::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let addresses = ["192.0.2.1:443", "192.0.2.2:443"].map(|text| text.parse().unwrap());
        let opened = timeout(AT_MOST, first_tunnel(&proxy, &addresses, Some(PATIENCE)));
        assert!(opened.await.unwrap().is_ok());
    }
}
