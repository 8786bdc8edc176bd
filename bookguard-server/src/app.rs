//! What every request needs: the service, who is calling, how often they may.

use std::net::IpAddr;
use std::sync::Arc;

use bookguard_core::error::Error;
use bookguard_core::model::ApiKeyId;
use bookguard_core::ops::{Method, Route};
use bookguard_core::service::Service;
use bookguard_core::session::{Access, Authority, Session};
use poem::Request;
use poem::http::header::HeaderMap;

use crate::auth::Keys;
use crate::config::Config;
use crate::courier::Courier;
use crate::rate::{Limiter, Verdict};
use crate::readers::Readers;
use crate::refusal::rate_limited;

/// The state that requests share.
pub(crate) struct App {
    pub(crate) service: Arc<Service>,
    pub(crate) keys: Keys,
    pub(crate) courier: Arc<Courier>,
    pub(crate) readers: Readers,
    /// Told one line per fault of ours.
    pub(crate) report: fn(&str),
    /// Who everybody is, where whoever can call holds the database itself.
    operator: Option<Authority>,
    per_key: Option<Limiter<ApiKeyId>>,
    registrations: Option<Limiter<IpAddr>>,
}

/// A caller that was let in, and what its rate limit says.
pub(crate) struct Admitted {
    pub(crate) session: Session,
    pub(crate) limit: Option<Verdict>,
}

/// A caller that was not, and what its rate limit says.
pub(crate) struct Turned {
    pub(crate) error: Error,
    pub(crate) limit: Option<Verdict>,
}

impl App {
    /// Errors: a sentence for the operator when the system gives no threads.
    pub(crate) fn new(
        config: &Config,
        service: Arc<Service>,
        courier: Arc<Courier>,
    ) -> Result<Self, String> {
        let per_minute = config.registrations_per_minute;
        Ok(Self {
            service,
            keys: Keys::default(),
            courier,
            readers: Readers::start()?,
            report: config.report,
            operator: None,
            per_key: Limiter::new(
                "key",
                config.rate_limit_per_second,
                1,
                config.rate_limit_burst,
            ),
            registrations: Limiter::new("registration", per_minute, 60, per_minute),
        })
    }

    /// The state of a service without a listener, whose callers are all this session's: no keys, no rates.
    ///
    /// Errors: as [`Self::new`].
    pub(crate) fn operated(
        session: Session,
        courier: Arc<Courier>,
        report: fn(&str),
    ) -> Result<Self, String> {
        Ok(Self {
            service: session.service,
            keys: Keys::default(),
            courier,
            readers: Readers::start()?,
            report,
            operator: Some(session.authority),
            per_key: None,
            registrations: None,
        })
    }

    /// Whether whoever calls holds the database itself. What a partner's key tells of its owner is asked of the store then.
    pub(crate) fn is_operated(&self) -> bool {
        self.operator.is_some()
    }

    /// Whose key these headers hold.
    ///
    /// Errors: `unauthorized`, or `unavailable` when the store does not answer.
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<Authority, Error> {
        match &self.operator {
            Some(operator) => Ok(operator.clone()),
            None => self.keys.identify(&self.service, headers).await,
        }
    }

    /// Who is calling this route, if they may at this moment.
    pub(crate) async fn admit(&self, route: &Route, request: &Request) -> Result<Admitted, Turned> {
        let now_ms = self.service.clock().now().ms();
        let (authority, limit) = if route.access == Access::Open {
            let address = caller_address(request);
            // What strangers may write costs storage, so it is rationed; what they may read is not.
            let rationed = self
                .registrations
                .as_ref()
                .filter(|_| route.method != Method::Get);
            let limit = rationed.map(|limiter| limiter.take(network_of(address), now_ms));
            (
                Authority::Anonymous {
                    address: address.to_string(),
                },
                limit,
            )
        } else {
            let identified = self.identify(request.headers()).await;
            let authority = identified.map_err(|error| Turned { error, limit: None })?;
            let limit = match (&authority, &self.per_key) {
                (Authority::Partner { api_key_id, .. }, Some(limiter)) => {
                    Some(limiter.take(*api_key_id, now_ms))
                }
                _ => None,
            };
            (authority, limit)
        };
        match limit {
            Some(limit) if !limit.allowed => {
                let who = if route.access == Access::Open {
                    "this network address"
                } else {
                    "this API key"
                };
                let error = rate_limited(
                    limit.retry_after_s,
                    format!("Too many requests from {who}."),
                );
                Err(Turned {
                    error,
                    limit: Some(limit),
                })
            }
            limit => Ok(Admitted {
                session: Session {
                    service: Arc::clone(&self.service),
                    authority,
                },
                limit,
            }),
        }
    }
}

fn caller_address(request: &Request) -> IpAddr {
    let address = request
        .remote_addr()
        .as_socket_addr()
        .map(|address| address.ip().to_canonical());
    address.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))
}

/// What one subscriber holds: an IPv4 address, or the /64 of an IPv6 one.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_subscriber_cannot_multiply_by_changing_addresses() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }
}
