//! Follows each request while it is answered, and counts and logs it when it ends.
//!
//! The router observes every request, so nothing is answered that [`Observer::finished`] does not see: it is the one place that
//! writes lines about requests. The task of a request, and every thread that works for it, carries its [`Observed`]; what they
//! log has its ids. Invariants: only the route's template is kept, never the path, which may hold a token; for a request that
//! is fine and fast nothing is formatted.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bookguard_core::entropy;
use bookguard_core::model::PartnerId;
use bookguard_core::session::Authority;
use poem::Response;
use poem::http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::Value;

use crate::metrics::HttpMetrics;
use crate::payer::Payer;
use crate::refusal::ErrorBody;
use crate::traces::{EndedRequest, TraceParent, Tracer, trace_parent};

/// Answers as long as the process can.
pub(crate) const LIVE: &str = "/livez";
/// Answers 200 while the server wants requests.
pub(crate) const READY: &str = "/readyz";
/// Where anybody may ask whether the server works, as often as they like: the only paths answered on reserve connections, and none
/// whose refusals are logged.
pub(crate) const HEALTH: [&str; 3] = [LIVE, READY, "/v1/health"];

tokio::task_local! {
    static CURRENT: Arc<Observed>;
}

/// A request under observation.
pub(crate) struct Observed {
    began: Instant,
    /// The method, if HTTP defines it; otherwise `_OTHER`.
    pub(crate) method: &'static str,
    /// The id in `x-request-id` of its answer.
    pub(crate) request_id: HeaderValue,
    route: OnceLock<Arc<str>>,
    partner_id: OnceLock<PartnerId>,
    trace_id: OnceLock<[u8; 16]>,
    parent: Option<TraceParent>,
    /// Nanoseconds spent waiting for something that is not this server's work.
    waited: AtomicU64,
}

impl Observed {
    pub(crate) fn new(method: &Method, headers: &HeaderMap, request_id: HeaderValue) -> Arc<Self> {
        let parent = trace_parent(headers);
        let trace_id = parent.map_or_else(OnceLock::new, |it| OnceLock::from(it.trace_id));
        Arc::new(Self {
            began: Instant::now(),
            method: method_name(method),
            request_id,
            route: OnceLock::new(),
            partner_id: OnceLock::new(),
            trace_id,
            parent,
            waited: AtomicU64::new(0),
        })
    }

    /// Runs the task of this request.
    pub(crate) fn scope<T>(
        self: &Arc<Self>,
        task: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        CURRENT.scope(Arc::clone(self), task)
    }

    /// Runs work of this request on another thread.
    pub(crate) fn at_once<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Arc::clone(self), work)
    }

    /// The template of the route, such as `/v1/bookings/{bookingId}`; `None` if no route has the path.
    pub(crate) fn route(&self) -> Option<&Arc<str>> {
        self.route.get()
    }

    /// The trace it belongs to: the caller's, or else one of its own.
    pub(crate) fn trace_id(&self) -> [u8; 16] {
        *self.trace_id.get_or_init(entropy::bytes)
    }

    /// The time until now, from the moment the request's head was read.
    pub(crate) fn duration(&self) -> Duration {
        self.began.elapsed()
    }

    /// The ids that every line of this request's work has.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let request_id = self.request_id.to_str().unwrap_or_default();
        let route = self.route().map(|route| ("route", Value::from(&**route)));
        let partner_id = self.partner_id.get();
        let partner_id = partner_id.map(|id| ("partner_id", Value::from(id.to_string())));
        let ids = [
            ("request_id", Value::from(request_id)),
            ("trace_id", Value::from(hex::encode(self.trace_id()))),
        ];
        ids.into_iter().chain(route).chain(partner_id)
    }

    /// The caller: the partner whose key it presented, or else a network.
    pub(crate) fn payer(&self, from: Option<IpAddr>) -> Payer {
        let partner_id = self.partner_id.get().copied();
        partner_id.map_or_else(|| Payer::at(from), Payer::Partner)
    }

    /// The part of [`Self::duration`] that is this server's own work: not waiting for the body, or for news.
    fn worked(&self) -> Duration {
        let waited = Duration::from_nanos(self.waited.load(Ordering::Relaxed));
        self.duration().saturating_sub(waited)
    }
}

/// The request that this task or thread works for.
pub(crate) fn current() -> Option<Arc<Observed>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Notes the template of the current request's route.
pub(crate) fn found(route: &Arc<str>) {
    let _ = CURRENT.try_with(|observed| observed.route.set(Arc::clone(route)));
}

/// Notes whose key the current request presented, if it is a partner's.
pub(crate) fn identified(authority: &Authority) {
    if let Authority::Partner { partner_id, .. } = authority {
        let _ = CURRENT.try_with(|observed| observed.partner_id.set(*partner_id));
    }
}

/// Runs what waits for somebody else: the client that sends its body, an event that a read waits for, a webhook's receiver. A
/// request is not slow because of it.
pub(crate) async fn waiting<T>(task: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = task.await;
    let waited = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let _ = CURRENT.try_with(|observed| observed.waited.fetch_add(waited, Ordering::Relaxed));
    done
}

/// Writes a line about a request, at a level that must be constant.
macro_rules! line {
    ($level:ident, $what:literal, $observed:expr, $answer:expr, $cause:expr) => {
        tracing::event!(
            tracing::Level::$level,
            method = $observed.method,
            status = $answer.map(|answer| answer.status().as_u16()),
            code = $answer
                .and_then(Response::data)
                .map(|body: &ErrorBody| body.code.as_str()),
            duration_ms = $observed.duration().as_micros() as f64 / 1_000.0,
            cause = $cause,
            $what
        )
    };
}

/// Which requests get a line in the log, besides those that fail through a fault of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestLines {
    /// Whether all do.
    pub all: bool,
    /// From how much work of the server's own a request gets one because it is slow.
    pub slow: Option<Duration>,
}

/// Sees every request of a server end.
pub(crate) struct Observer {
    /// The server's own work, in nanoseconds, from which a request counts as slow.
    slow: AtomicU64,
    /// Whether every request gets a line.
    all: AtomicBool,
    /// Counts and times requests.
    pub(crate) metrics: Option<Arc<HttpMetrics>>,
    /// Sends spans.
    pub(crate) tracer: Option<Tracer>,
}

/// A request that has not ended yet. If the client is gone before it is answered, it ends when this is dropped.
pub(crate) struct UnderwayRequest<'a> {
    observer: &'a Observer,
    observed: &'a Arc<Observed>,
    ended: bool,
}

impl Observer {
    pub(crate) fn new(lines: RequestLines) -> Self {
        let observer = Self {
            slow: AtomicU64::default(),
            all: AtomicBool::default(),
            metrics: None,
            tracer: None,
        };
        observer.set(lines);
        observer
    }

    /// Sends the last spans. Blocks.
    pub(crate) fn stop(&self) {
        if let Some(tracer) = &self.tracer {
            tracer.stop();
        }
    }

    /// Changes which requests get a line, also while requests are served.
    pub(crate) fn set(&self, lines: RequestLines) {
        let slow = lines.slow.map_or(u64::MAX, |slow| {
            u64::try_from(slow.as_nanos()).unwrap_or(u64::MAX)
        });
        self.slow.store(slow, Ordering::Relaxed);
        self.all.store(lines.all, Ordering::Relaxed);
    }

    pub(crate) fn begin<'a>(&'a self, observed: &'a Arc<Observed>) -> UnderwayRequest<'a> {
        UnderwayRequest {
            observer: self,
            observed,
            ended: false,
        }
    }

    /// The head of the answer is ready; `answer` is `None` if the client did not wait for it. `cause` is what the client is not
    /// told of a fault. Called once for each request.
    fn finished(&self, observed: &Arc<Observed>, answer: Option<&Response>, cause: Option<&str>) {
        let ended = answer.map(Response::status);
        if let Some(metrics) = &self.metrics {
            metrics.ended(
                observed.method,
                observed.route(),
                ended,
                observed.duration(),
            );
        }
        if let Some(tracer) = &self.tracer {
            tracer.ended(&EndedRequest {
                method: observed.method,
                route: observed.route().map(|route| &**route),
                request_id: &observed.request_id,
                partner_id: observed.partner_id.get(),
                trace_id: observed.trace_id(),
                parent: observed.parent,
                status: ended,
                took: observed.duration(),
            });
        }
        let status = ended.unwrap_or(StatusCode::OK);
        let slow = Duration::from_nanos(self.slow.load(Ordering::Relaxed));
        let is_slow = observed.worked() >= slow;
        let all = self.all.load(Ordering::Relaxed);
        // Why the server does not work has a line of its own; strangers who ask again and again must not fill the log with more.
        let is_told = status == StatusCode::SERVICE_UNAVAILABLE
            && observed
                .route()
                .is_some_and(|route| HEALTH.contains(&&**route));
        if !all && (is_told || !(is_fault(status) || is_slow)) {
            return;
        }
        observed.at_once(|| match status {
            StatusCode::SERVICE_UNAVAILABLE => line!(WARN, "unavailable", observed, answer, cause),
            _ if is_fault(status) => line!(ERROR, "fault", observed, answer, cause),
            _ if is_slow => line!(WARN, "slow request", observed, answer, cause),
            _ => line!(INFO, "request", observed, answer, cause),
        });
    }
}

impl UnderwayRequest<'_> {
    pub(crate) fn finish(mut self, answer: &Response, cause: Option<&str>) {
        self.ended = true;
        self.observer.finished(self.observed, Some(answer), cause);
    }
}

impl Drop for UnderwayRequest<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.observer.finished(self.observed, None, None);
        }
    }
}

/// Whether a status says that the service failed. 501 says that the client used a transfer coding that is not understood.
fn is_fault(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
}

/// The method if HTTP defines it (RFC 9110, RFC 5789), as OpenTelemetry names it.
fn method_name(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
    ];
    let known = KNOWN.into_iter().find(|known| *known == method.as_str());
    known.unwrap_or("_OTHER")
}

#[cfg(test)]
mod tests {
    use bookguard_core::lines::{Line, LineSubscriber, Threshold, hear_here};
    use tracing::Level;

    use super::*;

    #[test]
    fn a_method_that_a_client_makes_up_has_no_name_of_its_own() {
        assert_eq!(method_name(&Method::PATCH), "PATCH");
        assert_eq!(method_name(&Method::from_bytes(b"HACK").unwrap()), "_OTHER");
    }

    #[test]
    fn a_health_check_that_says_no_has_no_line_unless_every_request_does() {
        let lines = Arc::new(AtomicU64::new(0));
        let heard = Arc::clone(&lines);
        let hear = move |_: Line| {
            heard.fetch_add(1, Ordering::Relaxed);
        };
        let _heard = hear_here(LineSubscriber::new(Threshold::new(Level::INFO), hear));
        let answer: Response = StatusCode::SERVICE_UNAVAILABLE.into();
        for (path, all, written) in [
            ("/livez", false, 0),
            ("/readyz", false, 0),
            ("/v1/health", false, 0),
            ("/readyz", true, 1),
            ("/v1/bookings", false, 1),
        ] {
            let id = HeaderValue::from_static("r");
            let observed = Observed::new(&Method::GET, &HeaderMap::new(), id);
            observed.at_once(|| found(&path.into()));
            let observer = Observer::new(RequestLines { all, slow: None });
            observer.begin(&observed).finish(&answer, None);
            assert_eq!(lines.swap(0, Ordering::Relaxed), written, "{path}");
        }
    }

    #[tokio::test]
    async fn a_request_that_waits_for_others_is_not_slow() {
        let id = HeaderValue::from_static("r");
        let observed = Observed::new(&Method::GET, &HeaderMap::new(), id);
        assert_eq!(observed.trace_id(), observed.trace_id());
        let task = waiting(async {
            let began = Instant::now();
            while began.elapsed().is_zero() {}
        });
        observed.scope(task).await;
        let waited = observed.waited.load(Ordering::Relaxed);
        assert!(waited > 0 && observed.worked() < observed.duration());
    }
}
