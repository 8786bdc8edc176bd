//! What every request needs: the service, the caller and the caller's limits.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::error::Error;
use bookguard_core::limits;
use bookguard_core::model::PartnerId;
use bookguard_core::operation::{Method, Route};
use bookguard_core::service::Service;
use bookguard_core::session::{Access, Authority, Session, operator_unauthorized};
use bookguard_render::Maker;
use poem::http::header::HeaderMap;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::auth::{self, Keys};
use crate::config::Config;
use crate::courier::Courier;
use crate::incoming::REQUEST;
use crate::meter::{measured, metered};
use crate::observer::{self, Observed};
use crate::payer::{Payer, UNKNOWN_ADDRESS, network_of};
use crate::rate::{Limiter, Verdict};
use crate::readers::{LookUps, ReadClass, Readers};
use crate::refusal::rate_limited;
use crate::uploads::Uploads;

/// The message for a network from which too many requests came.
const NETWORK_TOO_MUCH: &str = "Too many requests from this network address.";
/// The message for a partner that has used up its budget.
const TOO_MUCH: &str = "Too many requests from this partner, or ones that took too long; all its keys share one limit.";

/// The message for a network from which wrong operator keys came.
const WRONG_KEYS: &str =
    "Too many requests with a wrong operator key or link from this network address.";

/// How long the long reads of a request are waited for, all together: whoever waits in vain is told so before the connection closes.
const LONG_READS: Duration = REQUEST.saturating_sub(Duration::from_secs(10));
/// Requests per minute of visitors from one network.
const VISITS: u32 = limits::SHARE_REQUESTS_PER_MINUTE;

/// The state shared by all requests.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) service: Arc<Service>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) courier: Arc<Courier>,
    pub(crate) uploads: Arc<Uploads>,
    /// What it brings to the documents that it makes.
    pub(crate) maker: Maker,
    readers: Arc<Readers>,
    callers: Arc<CallerKind>,
    budgets: Arc<Budgets>,
    registrations: Arc<Limiter<IpAddr>>,
    /// Requests of people without an account, who follow a link to a booking's evidence or sign in.
    visitors: Arc<Limiter<IpAddr>>,
    /// Messages of programs that ask without a key for what MCP offers. They take nothing from the people at their address.
    strangers: Arc<Limiter<IpAddr>>,
}

/// Whose requests are answered, and how callers are known.
enum CallerKind {
    /// Partners, by their keys.
    Partners,
    /// The operator, by its keys. Networks from which wrong ones come are slowed down.
    Operator(Limiter<IpAddr>),
    /// The holder of the database itself; every caller has this authority.
    DatabaseHolder(Authority),
}

/// The processor time of one request, added up across tasks and threads. It is charged once, when the last work for the request
/// ends, even if the client is gone by then.
pub(crate) struct RequestCost {
    budgets: Arc<Budgets>,
    payer: Payer,
    /// In nanoseconds.
    spent: AtomicU64,
    /// The request, if it came over HTTP.
    observed: Option<Arc<Observed>>,
    /// Until when its long reads are waited for.
    due: Instant,
}

impl RequestCost {
    pub(crate) fn payer(&self) -> Payer {
        self.payer
    }

    /// Runs a future and adds its processor time.
    pub(crate) async fn along<T>(&self, task: impl Future<Output = T>) -> T {
        metered(task, |spent| self.add(spent)).await
    }

    /// Runs a future of this request in a task that is not the request's own, without adding its processor time.
    pub(crate) async fn elsewhere<T>(&self, task: impl Future<Output = T>) -> T {
        match &self.observed {
            Some(observed) => observed.scope(task).await,
            None => task.await,
        }
    }

    /// Runs work of this request that does not wait, and adds its processor time.
    pub(crate) fn at_once<T>(&self, work: impl FnOnce() -> T) -> T {
        let (done, spent) = measured(|| match &self.observed {
            Some(observed) => observed.at_once(work),
            None => work(),
        });
        self.add(spent);
        done
    }

    fn add(&self, spent: Duration) {
        let spent = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(spent, Ordering::Relaxed);
    }
}

impl Drop for RequestCost {
    fn drop(&mut self) {
        let spent = Duration::from_nanos(*self.spent.get_mut());
        self.budgets.charge(self.payer, spent);
    }
}

/// The rate limits of partners, and what is charged to them.
struct Budgets {
    /// One bucket for all keys of a partner.
    partners: Limiter<PartnerId>,
    clock: Clock,
}

impl Budgets {
    fn charge(&self, payer: Payer, spent: Duration) {
        if let Payer::Partner(partner_id) = payer {
            let now_ms = self.clock.now().ms();
            self.partners.charge(partner_id, spent, now_ms);
        }
    }
}

/// A caller that was admitted, and the state of its rate limit.
pub(crate) struct Admitted {
    pub(crate) session: Session,
    pub(crate) limit: Option<Verdict>,
}

/// A caller that was turned away, and the state of its rate limit.
pub(crate) struct NotAdmitted {
    pub(crate) error: Error,
    pub(crate) limit: Option<Verdict>,
}

impl App {
    /// # Errors
    /// A sentence for the operator if the system gives no threads.
    pub(crate) fn new(
        config: &Config,
        maker: Maker,
        service: Arc<Service>,
        courier: Arc<Courier>,
    ) -> Result<Self, String> {
        let threads = Handle::current().metrics().num_workers();
        let in_place = match service.store().reads_here() {
            true => threads - 1,
            false => 0,
        };
        let readers = Readers::start(in_place)?;
        let app = Self::unlimited(service, courier, maker, readers, CallerKind::Partners);
        app.visitors.set(VISITS, 60, VISITS);
        app.strangers.set(VISITS, 60, VISITS);
        app.limit(config);
        Ok(app)
    }

    /// Applies the rate limits of this configuration, also while requests are served.
    pub(crate) fn limit(&self, config: &Config) {
        let per_second = config.rate_limit_per_second;
        let partners = &self.budgets.partners;
        partners.set(per_second, 1, config.rate_limit_burst);
        let per_minute = config.registrations_per_minute;
        self.registrations.set(per_minute, 60, per_minute);
    }

    /// The state of a service without a listener. Every caller has this session's authority; there are no keys and no rate
    /// limits.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn operated(session: Session, courier: Arc<Courier>) -> Result<Self, String> {
        Ok(Self::unlimited(
            session.service,
            courier,
            Maker::default(),
            Readers::start(0)?,
            CallerKind::DatabaseHolder(session.authority),
        ))
    }

    /// The same state for the operator's requests.
    pub(crate) fn for_operator(&self) -> Self {
        let failures = Limiter::new("operator");
        let most = limits::OPERATOR_FAILURES_PER_MINUTE;
        failures.set(most, 60, most);
        Self {
            callers: Arc::new(CallerKind::Operator(failures)),
            ..self.clone()
        }
    }

    fn unlimited(
        service: Arc<Service>,
        courier: Arc<Courier>,
        maker: Maker,
        readers: Readers,
        callers: CallerKind,
    ) -> Self {
        Self {
            budgets: Arc::new(Budgets {
                partners: Limiter::new("partner"),
                clock: service.clock().clone(),
            }),
            service,
            keys: Arc::default(),
            courier,
            uploads: Arc::default(),
            maker,
            readers: Arc::new(readers),
            callers: Arc::new(callers),
            registrations: Arc::new(Limiter::new("registration")),
            visitors: Arc::new(Limiter::new("share")),
            strangers: Arc::new(Limiter::new("mcp")),
        }
    }

    /// Whether callers are the administrator. What a partner's key would establish about its owner is then asked of the
    /// store.
    pub(crate) fn is_operated(&self) -> bool {
        !matches!(*self.callers, CallerKind::Partners)
    }

    /// The path under which callers reach the interface, without a slash at its end, which a proxy cuts off; empty at the root
    /// of a host.
    pub(crate) fn base_path(&self) -> &str {
        let url = match self.is_operated() {
            true => self.service.operator_url().unwrap_or_default(),
            false => self.service.public_url(),
        };
        let (_, place) = url.split_once("://").unwrap_or_default();
        let (_, path) = place.split_at(place.find('/').unwrap_or(place.len()));
        path.trim_end_matches('/')
    }

    /// Runs work that may block, when it is the caller's turn.
    ///
    /// # Errors
    /// As [`Readers::run_until`].
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        cost: &Arc<RequestCost>,
        class: ReadClass,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (payer, due, cost) = (cost.payer, cost.due, Arc::clone(cost));
        let measured = move || cost.at_once(work);
        self.readers.run_until(due, payer, class, measured).await
    }

    /// Checks whether a partner has budget left, without counting a request: called before a large message is received.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(crate) fn has_budget(&self, partner_id: &PartnerId) -> Result<(), Error> {
        let now_ms = self.budgets.clock.now().ms();
        match self.budgets.partners.retry_after_s(partner_id, now_ms) {
            None => Ok(()),
            Some(seconds) => Err(rate_limited(seconds, TOO_MUCH)),
        }
    }

    /// Counts a partner's request that reaches no operation; an operation counts its own requests.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(crate) fn count(&self, payer: Payer) -> Result<(), Error> {
        let Payer::Partner(partner_id) = payer else {
            return Ok(());
        };
        let now_ms = self.budgets.clock.now().ms();
        match self.budgets.partners.take(partner_id, now_ms) {
            Some(limit) if !limit.allowed => Err(rate_limited(limit.retry_after_s, TOO_MUCH)),
            _ => Ok(()),
        }
    }

    /// Counts a request for a share or a sign-in, and says who pays for it. `from` is the visitor's address, if known.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(crate) fn admit_visitor(&self, from: Option<IpAddr>) -> Result<Payer, Error> {
        self.admit_network(&self.visitors, from)
    }

    /// Counts a message that came to MCP without a key.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(crate) fn admit_stranger(&self, from: Option<IpAddr>) -> Result<(), Error> {
        self.admit_network(&self.strangers, from).map(drop)
    }

    fn admit_network(
        &self,
        limiter: &Limiter<IpAddr>,
        from: Option<IpAddr>,
    ) -> Result<Payer, Error> {
        let network = network_of(from.unwrap_or(UNKNOWN_ADDRESS));
        let now_ms = self.service.clock().now().ms();
        match limiter.take(network, now_ms) {
            Some(limit) if !limit.allowed => {
                Err(rate_limited(limit.retry_after_s, NETWORK_TOO_MUCH))
            }
            _ => Ok(Payer::Network(network)),
        }
    }

    /// Begins to add up the processor time of one request.
    pub(crate) fn cost(&self, payer: Payer) -> Arc<RequestCost> {
        Arc::new(RequestCost {
            budgets: Arc::clone(&self.budgets),
            payer,
            spent: AtomicU64::new(0),
            observed: observer::current(),
            due: Instant::now() + LONG_READS,
        })
    }

    /// Charges a caller for processor time.
    pub(crate) fn charge(&self, payer: Payer, spent: Duration) {
        self.budgets.charge(payer, spent);
    }

    fn look_ups(&self, payer: Payer) -> LookUps<'_> {
        LookUps {
            service: &self.service,
            readers: &self.readers,
            payer,
        }
    }

    /// The owner of the key in these headers, looked up in the turn of `payer`.
    ///
    /// # Errors
    /// `unauthorized`, `api_key_expired`, `partner_id_invalid`, and those of [`LookUps::run`].
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        payer: Payer,
    ) -> Result<Authority, Error> {
        let look_ups = self.look_ups(payer);
        match &*self.callers {
            CallerKind::DatabaseHolder(operator) => Ok(operator.clone()),
            CallerKind::Operator(_) => auth::identify_operator(&look_ups, headers).await,
            CallerKind::Partners => {
                let authority = self.keys.identify(&look_ups, headers).await?;
                if let Authority::Partner { partner_id, .. } = authority {
                    observer::identified(partner_id);
                }
                Ok(authority)
            }
        }
    }

    /// Who is signed in to the console with this session's token.
    ///
    /// # Errors
    /// `unauthorized` if the session is over, and those of [`LookUps::run`].
    #[cfg(feature = "console")]
    pub(crate) async fn identify_session(
        &self,
        token: &str,
        payer: Payer,
    ) -> Result<Authority, Error> {
        let look_ups = self.look_ups(payer);
        let (authority, _) = self.keys.identify_session(&look_ups, token).await?;
        if let Authority::Partner { partner_id, .. } = authority {
            observer::identified(partner_id);
        }
        Ok(authority)
    }

    /// Who is signed in to the operator's console with this session's token.
    ///
    /// # Errors
    /// As [`Self::identify_session`].
    #[cfg(feature = "console")]
    pub(crate) async fn identify_operator_session(
        &self,
        token: &str,
        payer: Payer,
    ) -> Result<Authority, Error> {
        auth::identify_operator_session(&self.look_ups(payer), token).await
    }

    /// Identifies the operator.
    async fn admit_operator(&self, headers: &HeaderMap, from: IpAddr) -> Result<Authority, Error> {
        let is_wrong = |error: &Error| *error == operator_unauthorized();
        let ask = self.identify(headers, Payer::at(Some(from)));
        self.guarded(from, is_wrong, ask).await
    }

    /// Does what shows whether somebody is the operator. A network from which wrong keys and links came is refused before.
    pub(crate) async fn guarded<T>(
        &self,
        from: IpAddr,
        is_wrong: impl Fn(&Error) -> bool,
        ask: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let CallerKind::Operator(failures) = &*self.callers else {
            return ask.await;
        };
        let (network, now_ms) = (network_of(from), self.service.clock().now().ms());
        if let Some(seconds) = failures.retry_after_s(&network, now_ms) {
            return Err(rate_limited(seconds, WRONG_KEYS));
        }
        let answer = ask.await;
        if answer.as_ref().is_err_and(is_wrong) {
            failures.take(network, now_ms);
        }
        answer
    }

    /// Admits the caller of this route, if it may call now. `from` is its address, if known. Its look-up takes the turn of
    /// `payer`, an operator's that of its address.
    pub(crate) async fn admit(
        &self,
        route: &Route,
        headers: &HeaderMap,
        from: Option<IpAddr>,
        payer: Payer,
    ) -> Result<Admitted, NotAdmitted> {
        let now_ms = self.service.clock().now().ms();
        let (authority, limit) = if let CallerKind::Operator(_) = &*self.callers
            && !(route.access == Access::Open && route.method == Method::Get)
        {
            let from = from.unwrap_or(UNKNOWN_ADDRESS);
            let identified = self.admit_operator(headers, from).await;
            let authority = identified.map_err(|error| NotAdmitted { error, limit: None })?;
            (authority, None)
        } else if route.access == Access::Open {
            let network = network_of(from.unwrap_or(UNKNOWN_ADDRESS));
            // What anonymous callers write costs storage, so it is limited; what they read is not.
            let limit = match route.method {
                Method::Get => None,
                _ => self.registrations.take(network, now_ms),
            };
            (
                Authority::Anonymous {
                    address: network.to_string(),
                },
                limit,
            )
        } else {
            let identified = self.identify(headers, payer).await;
            let authority = identified.map_err(|error| NotAdmitted { error, limit: None })?;
            let limit = match &authority {
                Authority::Partner { partner_id, .. } => {
                    self.budgets.partners.take(*partner_id, now_ms)
                }
                _ => None,
            };
            (authority, limit)
        };
        match limit {
            Some(limit) if !limit.allowed => {
                let why = if route.access == Access::Open {
                    NETWORK_TOO_MUCH
                } else {
                    TOO_MUCH
                };
                let error = rate_limited(limit.retry_after_s, why);
                Err(NotAdmitted {
                    error,
                    limit: Some(limit),
                })
            }
            limit => Ok(Admitted {
                session: Session {
                    service: Arc::clone(&self.service),
                    authority,
                    address: from,
                },
                limit,
            }),
        }
    }
}
