//! The HTTP client's resolver: the system's, with every answer checked.
//!
//! Connections go only to the addresses returned here, so what was checked is what is used. The client does not ask about
//! literal addresses; those are checked before the request, and once more before a tunnel. Invariants: one blocked address
//! refuses all; only the operator is told whether a name does not resolve or resolves to a blocked network. A partner that
//! could tell the two apart could list the names of this server's network.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::vec;

use bookguard_core::engine::outbox::EndpointStanding;
use bookguard_core::limits::ENDPOINTS_PER_PARTNER;
use bookguard_core::model::PartnerId;
use bookguard_core::webhook::Phase;
use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use super::dial::{BoxError, has_route, routed};
use super::failure::is_our_fault;
use super::progress::{PROGRESS, Progress};
use crate::courier::address::AddressRules;

/// The most look-ups at a time. Each holds a thread of the pool that reads need too, for as long as its name server does not
/// answer.
const LOOKUPS: usize = 64;

/// The most look-ups for endpoints that are new or troubled; the other half is for healthy ones.
const LOOKUPS_UNPROVEN: usize = LOOKUPS / 2;

/// The most look-ups for troubled endpoints: endpoints with a silent name server soon become troubled.
const LOOKUPS_TROUBLED: usize = LOOKUPS_UNPROVEN / 2;

/// The most look-ups for one partner: names that resolve take milliseconds.
const LOOKUPS_PER_PARTNER: usize = 8;

/// Partners with semaphores kept before the idle ones are dropped.
const PARTNERS_REMEMBERED: usize = 1_024;

tokio::task_local! {
    /// The asker for whom an attempt is made.
    pub(in crate::courier) static ASKER: Asker;
}

/// The partner and the standing of the endpoint for which a name is looked up.
#[derive(Debug, Clone, Copy)]
pub(in crate::courier) struct Asker {
    pub partner_id: PartnerId,
    pub standing: EndpointStanding,
}

/// Places for look-ups. Every asker has only a share, so a silent name server holds up only endpoints of the same partner or of
/// no better standing.
#[derive(Debug)]
struct Places {
    all: Arc<Semaphore>,
    unproven: Arc<Semaphore>,
    troubled: Arc<Semaphore>,
    partners: Mutex<HashMap<PartnerId, Arc<Semaphore>>>,
}

impl Places {
    fn new() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Places {
            all: places(LOOKUPS),
            unproven: places(LOOKUPS_UNPROVEN),
            troubled: places(LOOKUPS_TROUBLED),
            partners: Mutex::default(),
        }
    }

    /// Takes a place, waiting for it. The smallest share is taken first, so that a task that waits for one holds nothing that
    /// others could use.
    async fn take(&self, asker: Option<Asker>) -> Result<Vec<OwnedSemaphorePermit>, AcquireError> {
        let standing = asker.map_or(EndpointStanding::New, |asker| asker.standing);
        let own = asker.map(|asker| self.of_partner(asker.partner_id));
        let troubled = (standing == EndpointStanding::Troubled).then(|| Arc::clone(&self.troubled));
        let unproven = (standing != EndpointStanding::Good).then(|| Arc::clone(&self.unproven));
        let shares = [own, troubled, unproven, Some(Arc::clone(&self.all))];
        let mut held = Vec::with_capacity(shares.len());
        for share in shares.into_iter().flatten() {
            held.push(share.acquire_owned().await?);
        }
        Ok(held)
    }

    fn of_partner(&self, partner_id: PartnerId) -> Arc<Semaphore> {
        let mut partners = self.partners.lock().unwrap_or_else(PoisonError::into_inner);
        if partners.len() >= PARTNERS_REMEMBERED {
            // A task that holds or awaits a place holds a reference.
            partners.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let places = partners
            .entry(partner_id)
            .or_insert_with(|| Arc::new(Semaphore::new(LOOKUPS_PER_PARTNER)));
        Arc::clone(places)
    }
}

/// For how long the operator is told only once why a name cannot be used; every attempt fails the same way.
const TELL_AGAIN: Duration = Duration::from_secs(60 * 60);

/// The most names of one partner reported in that time: it has no more endpoints at once.
const NAMES_PER_PARTNER: usize = ENDPOINTS_PER_PARTNER;

/// The most partners whose names are reported in that time.
const PARTNERS_TOLD: usize = 256;

/// Resolves names to addresses that were checked.
#[derive(Debug, Clone)]
pub(super) struct CheckedResolver {
    rules: Arc<AddressRules>,
    places: Arc<Places>,
    complaints: Arc<ReportedNames>,
}

/// The error that a name does not lead to an allowed address; recovered from the client's error.
#[derive(Debug)]
pub(super) struct LookupFailed;

/// The names that the operator was told about lately.
#[derive(Debug)]
struct ReportedNames(Mutex<ReportedLately>);

#[derive(Debug)]
struct ReportedLately {
    since: Instant,
    /// By partner, with the first name that was not told because there were too many.
    names: HashMap<Option<PartnerId>, HashSet<String>>,
    /// Whether those of further partners are not told.
    is_full: bool,
}

impl ReportedLately {
    fn nothing() -> Self {
        Self {
            since: Instant::now(),
            names: HashMap::new(),
            is_full: false,
        }
    }
}

impl ReportedNames {
    /// Reports a name that this partner gave, unless it was reported lately. Each partner has its share, so that none keeps what
    /// others do from the operator. That names are left out is reported too.
    fn tell(&self, partner_id: Option<PartnerId>, name: &str, why: &dyn fmt::Display) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.since.elapsed() >= TELL_AGAIN {
            *told = ReportedLately::nothing();
        }
        let left = TELL_AGAIN.saturating_sub(told.since.elapsed());
        let minutes = left.as_secs().div_ceil(60);
        if told.names.len() >= PARTNERS_TOLD && !told.names.contains_key(&partner_id) {
            if !std::mem::replace(&mut told.is_full, true) {
                tracing::warn!(
                    "names of further partners to which webhooks are not sent are not reported for {minutes} minutes"
                );
            }
            return;
        }
        let names = told.names.entry(partner_id).or_default();
        if names.len() > NAMES_PER_PARTNER || !names.insert(name.to_owned()) {
            return;
        }
        if names.len() <= NAMES_PER_PARTNER {
            tracing::warn!(host = name, "webhooks to `{name}` are not sent: {why}");
            return;
        }
        let whose = partner_id.map_or_else(String::new, |id| format!(" of partner {id}"));
        tracing::warn!(
            "further names{whose} to which webhooks are not sent are not reported for {minutes} minutes"
        );
    }
}

impl CheckedResolver {
    pub(super) fn new(rules: Arc<AddressRules>) -> Self {
        CheckedResolver {
            rules,
            places: Arc::new(Places::new()),
            complaints: Arc::new(ReportedNames(Mutex::new(ReportedLately::nothing()))),
        }
    }

    /// Resolves a URL's host, a name or a literal address. The port of each result is 0.
    pub(super) async fn addresses(
        &self,
        host: &str,
        progress: &Progress,
    ) -> Result<Vec<SocketAddr>, BoxError> {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = literal.parse::<IpAddr>() {
            self.rules.check_ip(ip)?;
            return Ok(vec![SocketAddr::new(ip, 0)]);
        }
        progress.reached(Phase::Dns);
        // The place is held until the system has answered, even if the attempt has given up: the number of waiting threads is
        // what must be bounded.
        let asker = ASKER.try_with(|asker| *asker).ok();
        let place = self.places.take(asker).await?;
        // The client replaces port 0 with the URL's port.
        let asked = host.to_owned();
        let looking = tokio::task::spawn_blocking(move || {
            let found = (asked.as_str(), 0).to_socket_addrs();
            drop(place);
            found.map(Iterator::collect)
        });
        let found: io::Result<Vec<SocketAddr>> = looking.await?;
        let partner_id = asker.map(|asker| asker.partner_id);
        let addresses = self.usable(partner_id, host, found)?;
        progress.reached(Phase::Connect);
        Ok(addresses)
    }

    /// Returns the addresses found if webhooks may go there; otherwise tells the operator why not.
    fn usable(
        &self,
        partner_id: Option<PartnerId>,
        host: &str,
        found: io::Result<Vec<SocketAddr>>,
    ) -> Result<Vec<SocketAddr>, BoxError> {
        let failed = |why: &dyn fmt::Display| -> BoxError {
            self.complaints.tell(partner_id, host, why);
            LookupFailed.into()
        };
        let addresses = match found {
            Ok(addresses) => addresses,
            // A look-up opens files and sockets too, and comes before any connection: where none can be opened, no name is to blame.
            Err(error) if is_our_fault(&error) => return Err(error.into()),
            Err(error) => return Err(failed(&format_args!("the name does not resolve: {error}"))),
        };
        if addresses.is_empty() {
            return Err(failed(&"the name has no address"));
        }
        let ips = addresses.iter().map(|address| address.ip());
        let checked = self.rules.check_resolved(host, ips);
        checked.map_err(|refused| failed(&refused))?;
        Ok(addresses)
    }
}

impl Service<Name> for CheckedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        let progress = PROGRESS.try_with(Clone::clone).unwrap_or_default();
        progress.reached(Phase::Dns);
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str(), &progress).await?;
            Ok(routed(addresses, has_route).into_iter())
        })
    }
}

impl fmt::Display for LookupFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name resolves to no address that webhooks may go to")
    }
}

impl std::error::Error for LookupFailed {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    use bookguard_core::lines::{Line, LineSubscriber, Threshold, hear_here};

    use crate::courier::address::RefusedAddress;

    thread_local! {
        static LINES: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    fn listening() -> tracing::subscriber::DefaultGuard {
        let hear = |line: Line| LINES.with_borrow_mut(|lines| lines.push(line.message));
        let subscriber = LineSubscriber::new(Threshold::new(tracing::Level::INFO), hear);
        hear_here(subscriber)
    }

    async fn resolve(rules: AddressRules, host: &str) -> Result<Vec<SocketAddr>, BoxError> {
        let resolver = CheckedResolver::new(Arc::new(rules));
        resolver.addresses(host, &Progress::default()).await
    }

    #[tokio::test]
    async fn a_name_of_this_machine_resolves_only_where_loopback_is_allowed() {
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            let addresses = resolve(AddressRules::dev(), host).await.unwrap();
            assert!(
                !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback())
            );

            let error = resolve(AddressRules::public(), host).await.unwrap_err();
            match error.downcast_ref::<RefusedAddress>() {
                // The partner wrote a literal address and knows it; what a name resolves to is only for the operator.
                Some(refused) => assert_eq!(refused.code(), "blocked_address"),
                None => assert!(host == "localhost" && error.is::<LookupFailed>()),
            }
        }
    }

    #[tokio::test]
    async fn only_the_operator_can_tell_a_private_name_from_an_unknown_one() {
        let resolver = CheckedResolver::new(Arc::new(AddressRules::public()));
        let _heard = listening();
        // A label of more than 63 characters, which every resolver refuses without a query.
        let unknown = format!("{}.invalid", "a".repeat(64));
        let mut answers = Vec::new();
        for host in ["localhost", &unknown, "localhost"] {
            let error = resolver.addresses(host, &Progress::default()).await;
            answers.push(error.unwrap_err().to_string());
        }
        assert_eq!(answers[0], answers[1]);
        let lines = LINES.take();
        assert_eq!(lines.len(), 2, "once for each name: {lines:?}");
        assert!(
            lines[0].contains("127.0.0.0/8") || lines[0].contains("::1"),
            "{lines:?}"
        );
        assert!(lines[1].contains("does not resolve"), "{lines:?}");
    }

    #[test]
    fn a_look_up_that_fails_for_want_of_files_is_no_fault_of_the_name() {
        let _heard = listening();
        let resolver = CheckedResolver::new(Arc::new(AddressRules::public()));
        let out_of_files = Err(io::Error::from_raw_os_error(24));
        let error = resolver.usable(None, "hooks.example", out_of_files);
        let error = error.unwrap_err();
        assert!(is_our_fault(error.downcast_ref().unwrap()), "{error}");
        assert!(
            LINES.take().is_empty(),
            "the courier reports what is our fault"
        );
    }

    #[test]
    fn whose_name_servers_are_silent_leaves_places_to_others() {
        use EndpointStanding::{Good, New, Troubled};
        let places = Places::new();
        let mut held = Vec::new();
        // Counts the places taken by partners that each ask for all of them and are never answered.
        let mut hang = |partners: std::ops::Range<u8>, standing| {
            let before = held.len();
            for number in partners {
                let asker = Asker {
                    partner_id: PartnerId::from_bytes([number; 16]),
                    standing,
                };
                for _ in 0..LOOKUPS {
                    let mut place = pin!(tokio::task::unconstrained(places.take(Some(asker))));
                    let mut context = Context::from_waker(Waker::noop());
                    if let Poll::Ready(place) = place.as_mut().poll(&mut context) {
                        held.push(place.unwrap());
                    }
                }
            }
            held.len() - before
        };
        assert_eq!(hang(0..1, Good), LOOKUPS_PER_PARTNER);
        assert_eq!(hang(1..9, Troubled), LOOKUPS_TROUBLED);
        assert_eq!(hang(9..10, New), LOOKUPS_PER_PARTNER);
        let left = LOOKUPS_UNPROVEN - LOOKUPS_TROUBLED - LOOKUPS_PER_PARTNER;
        assert_eq!(hang(10..20, New), left);
        assert_eq!(hang(20..22, Good), 2 * LOOKUPS_PER_PARTNER);
        assert_eq!(hang(22..30, Good), LOOKUPS_PER_PARTNER);
        // Look-ups that are answered or given up leave nothing behind.
        held.clear();
        assert_eq!(places.all.available_permits(), LOOKUPS);
        assert_eq!(places.unproven.available_permits(), LOOKUPS_UNPROVEN);
        assert_eq!(places.troubled.available_permits(), LOOKUPS_TROUBLED);
        for number in 0..5_000_u16 {
            let mut partner_id = [0; 16];
            partner_id[..2].copy_from_slice(&number.to_be_bytes());
            let partner_id = PartnerId::from_bytes(partner_id);
            drop(places.of_partner(partner_id));
        }
        assert!(places.partners.lock().unwrap().len() <= PARTNERS_REMEMBERED);
    }

    #[test]
    fn the_operators_log_has_an_end_and_no_partner_fills_it_alone() {
        let _heard = listening();
        let resolver = CheckedResolver::new(Arc::new(AddressRules::public()));
        let told = |partner: u16, names: usize| {
            let mut id = [0; 16];
            id[..2].copy_from_slice(&partner.to_be_bytes());
            let of = Some(PartnerId::from_bytes(id));
            for number in 0..names {
                let name = format!("{number}.example");
                resolver.usable(of, &name, Ok(Vec::new())).unwrap_err();
            }
            LINES.take()
        };
        let lines = told(1, 1_000);
        assert_eq!(lines.len(), NAMES_PER_PARTNER + 1);
        let last = lines.last().unwrap();
        assert!(last.contains("not reported for 60 minutes"), "{last}");
        let others: usize = (2..1_000).map(|partner| told(partner, 2).len()).sum();
        assert_eq!(others, 2 * (PARTNERS_TOLD - 1) + 1);
    }
}
