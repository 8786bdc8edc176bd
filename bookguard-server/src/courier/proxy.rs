//! The operator's proxy for webhooks, for networks without direct access to the internet.
//!
//! Every connection is a tunnel (`CONNECT`, RFC 9110 section 9.3.6), plain http included, to an address that was resolved and
//! checked here. It never names a host, as hyper-util's `Tunnel` would: a proxy that resolves the name itself could be sent to
//! another address than the one checked. A fault of the proxy is not the receiver's, and a refusal to open a tunnel counts as
//! such a fault, because its reason cannot be known. Once a tunnel is open, failures are judged as without a proxy. Invariants:
//! the credentials are sent only to the proxy and shown to nobody; the operator chooses the proxy's own address, and no address
//! rule applies to it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, de};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::{ParseError, Url};

/// The most bytes of an answer to `CONNECT`; real ones have a few hundred.
const HEAD_BYTES: usize = 8 * 1024;

/// The address of the proxy, and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    /// The value of `proxy-authorization`, if the proxy needs one.
    authorization: Option<String>,
}

/// A fault of the proxy, for the record of an attempt. Partners read it, so it does not say where the proxy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProxyFault {
    what: String,
    /// Whether every address of the receiver would meet the same fault.
    pub whole: bool,
}

impl Proxy {
    /// Reads `http://[user[:password]@]host[:port]`.
    ///
    /// # Errors
    /// One sentence that never repeats the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write it like http://user:password@proxy.example:3128";
        let wrong = |what: &str| format!("webhook_proxy {what}; {FORM}");
        let url = Url::parse(text).map_err(|e| match e {
            ParseError::RelativeUrlWithoutBase => wrong("does not begin with http://"),
            e => wrong(&format!("is not an address ({e})")),
        })?;
        if url.scheme() != "http" {
            return Err(wrong(
                "is not an http address: the connection to the proxy is plain, and what passes through it is encrypted by the \
                 receiver's own https",
            ));
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has more than user, password, host and port"));
        }
        let host = match url.host() {
            Some(url::Host::Ipv6(ip)) => ip.to_string(),
            Some(host) => host.to_string(),
            None => return Err(wrong("has no host")),
        };
        let named = !url.username().is_empty() || url.password().is_some();
        Ok(Self {
            host,
            port: url.port().filter(|port| *port > 0).unwrap_or(80),
            authorization: named.then(|| basic(&url)),
        })
    }

    /// Opens a tunnel through the proxy to `to`.
    pub(super) async fn tunnel(&self, to: SocketAddr) -> Result<TcpStream, ProxyFault> {
        let unreached = |e: io::Error| ProxyFault::whole(format!("cannot be reached: {e}"));
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        let mut stream = connected.map_err(unreached)?;
        stream.set_nodelay(true).map_err(unreached)?;
        let broke = |e: io::Error| ProxyFault::whole(format!("broke off: {e}"));
        let request = self.request(to);
        stream.write_all(request.as_bytes()).await.map_err(broke)?;
        let head = read_head(&mut stream).await?;
        match status(&head) {
            Some(200..=299) => Ok(stream),
            Some(407) => Err(ProxyFault::whole("refused the credentials (407)")),
            Some(status) => Err(ProxyFault {
                what: format!("did not open a connection ({status})"),
                whole: false,
            }),
            None => Err(ProxyFault::whole("answered something other than HTTP")),
        }
    }

    fn request(&self, to: SocketAddr) -> String {
        let authorization = self.authorization.as_ref();
        let authorization = authorization.map(|value| format!("proxy-authorization: {value}\r\n"));
        let authorization = authorization.unwrap_or_default();
        format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n{authorization}\r\n")
    }
}

fn basic(url: &Url) -> String {
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    format!("Basic {}", STANDARD.encode(pair))
}

/// Reads the head of the answer. A receiver does not send before it gets a request, so nothing may follow the head.
async fn read_head(stream: &mut TcpStream) -> Result<Vec<u8>, ProxyFault> {
    let mut head = Vec::with_capacity(512);
    loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let is_open = matches!(status(&head), Some(200..=299));
            return match head.len() == end + 4 || !is_open {
                true => Ok(head),
                false => Err(ProxyFault::whole("sent more than its answer")),
            };
        }
        if head.len() >= HEAD_BYTES {
            return Err(ProxyFault::whole("sent an answer that does not end"));
        }
        match stream.read_buf(&mut head).await {
            Ok(0) => return Err(ProxyFault::whole("closed the connection")),
            Ok(_) => {}
            Err(e) => return Err(ProxyFault::whole(format!("broke off: {e}"))),
        }
    }
}

/// The status of an HTTP/1 answer.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.strip_prefix(b"HTTP/1.")?;
    let digits = line.get(2..5).filter(|_| line.get(1) == Some(&b' '))?;
    let ends = matches!(line.get(5), Some(b' ' | b'\r'));
    let status: u16 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (ends && (100..=599).contains(&status)).then_some(status)
}

impl ProxyFault {
    fn whole(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            whole: true,
        }
    }

    /// No tunnel to one of the receiver's addresses was open in time.
    pub(super) fn late() -> Self {
        Self {
            what: "did not open a connection in time".to_owned(),
            whole: false,
        }
    }
}

impl fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy of this service {}", self.what)
    }
}

impl std::error::Error for ProxyFault {}

impl Proxy {
    /// Opens a tunnel to the first of these addresses that it can reach, and closes it.
    ///
    /// # Errors
    /// Why there is no tunnel to the last of them.
    pub async fn reach(&self, addresses: &[SocketAddr]) -> Result<(), String> {
        let mut refused = "there is no address to reach".to_owned();
        for address in addresses {
            match self.tunnel(*address).await {
                Ok(_) => return Ok(()),
                Err(fault) => refused = fault.to_string(),
            }
        }
        Err(refused)
    }

    /// Whether its address holds a user and a password.
    pub(crate) fn holds_password(&self) -> bool {
        self.authorization.is_some()
    }
}

/// Leaves out the credentials.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.authorization.as_ref().map_or("", |_| "…@");
        write!(f, "http://{who}{}:{}", self.host, self.port)
    }
}

impl<'de> Deserialize<'de> for Proxy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)
            .map_err(|_| de::Error::custom("webhook_proxy must be an address in quotes"))?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to() -> SocketAddr {
        "[2001:db8::7]:443".parse().unwrap()
    }

    #[test]
    fn an_address_is_read_and_its_credentials_are_shown_to_the_proxy_only() {
        #[rustfmt::skip]
        let cases = [
            ("http://proxy.example:3128", "http://proxy.example:3128", None),
            ("http://proxy.example/", "http://proxy.example:80", None),
            ("http://[::1]:8080", "http://::1:8080", None),
            ("http://us%40er:p%3Ass@10.0.0.1:3128", "http://…@10.0.0.1:3128", Some("us@er:p:ss")),
            ("http://user@p:1", "http://…@p:1", Some("user:")),
        ];
        for (text, shown, credentials) in cases {
            let proxy = Proxy::parse(text).unwrap();
            assert_eq!(format!("{proxy:?}"), shown);
            let authorization = credentials.map_or(String::new(), |pair| {
                format!("proxy-authorization: Basic {}\r\n", STANDARD.encode(pair))
            });
            assert_eq!(
                proxy.request(to()),
                format!(
                    "CONNECT [2001:db8::7]:443 HTTP/1.1\r\nhost: [2001:db8::7]:443\r\n{authorization}\r\n"
                )
            );
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_being_repeated() {
        for text in [
            "",
            "proxy.example:3128",
            "https://u:hunter2@proxy.example",
            "socks5://u:hunter2@proxy.example",
            "http://u:hunter2@proxy.example/path",
            "http://u:hunter2@proxy.example/?q",
            "http://u:hunter2@",
            "http://u:hunter2@proxy.example:99999",
        ] {
            let why = Proxy::parse(text).unwrap_err();
            assert!(why.starts_with("webhook_proxy "), "{text}: {why}");
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn only_an_answer_that_is_http_has_a_status() {
        for (head, read) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", Some(200)),
            ("HTTP/1.0 204\r\n\r\n", Some(204)),
            ("HTTP/1.1 407 x\r\n\r\n", Some(407)),
            ("HTTP/1.1 2000 OK\r\n\r\n", None),
            ("HTTP/1.1 999 OK\r\n\r\n", None),
            ("HTTP/2 200 OK\r\n\r\n", None),
            ("HTTP/1.1  200\r\n\r\n", None),
            ("220 smtp.example\r\n\r\n", None),
            ("HTTP/1.1 2", None),
            ("", None),
        ] {
            assert_eq!(status(head.as_bytes()), read, "{head}");
        }
    }
}
