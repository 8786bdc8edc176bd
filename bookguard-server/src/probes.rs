//! `/livez` and `/readyz`: whether to start this process again, and whether to send it requests.
//!
//! Neither needs a key, and no limit counts them. A check reads the store, so one task checks for everybody who asks, and an
//! answer serves whoever asks within [`FRESH`]: asking more often costs nothing more. Invariant: `/livez` touches nothing but
//! this process.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::{Error, Kind};
use bookguard_core::features::health::can_work;
use bookguard_core::service::Service;
use poem::endpoint::{make, make_sync};
use poem::http::Method;
use poem::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use poem::{EndpointExt as _, Request, Response};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::apart::apart;
use crate::incoming::accepts;
use crate::media::JSON;
use crate::observer::{LIVE, READY};
use crate::refusal::Refusal;
use crate::router::Routes;

/// How long an answer holds.
const FRESH: Duration = Duration::from_millis(500);
/// How long to wait for a check. Probes give up after a second or more, and then do not say why.
const PATIENCE: Duration = Duration::from_millis(900);

/// Where a server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// It serves, but wants no more requests: each answer is the last of its connection.
    Leaving,
    /// It takes no more connections, and ends those it has.
    Ending,
}

/// What a check found, and when.
type Checked = Option<(Instant, Result<(), Error>)>;

/// Whether the server wants requests.
#[derive(Clone)]
pub(crate) struct Readiness {
    stage: watch::Receiver<Stage>,
    asked: Arc<Notify>,
    checked: watch::Receiver<Checked>,
}

impl Readiness {
    /// Returns it with the task that checks, which goes on until it is aborted.
    pub(crate) fn new(
        stage: watch::Receiver<Stage>,
        service: Arc<Service>,
    ) -> (Self, impl Future<Output = ()>) {
        let (tell, checked) = watch::channel(None);
        let asked = Arc::new(Notify::new());
        let task = check(service, Arc::clone(&asked), tell);
        let readiness = Self {
            stage,
            asked,
            checked,
        };
        (readiness, task)
    }

    async fn ask(mut self) -> Result<(), Error> {
        if *self.stage.borrow() > Stage::Serving {
            let message = "The service is shutting down. Send requests to another node.";
            return Err(Error::new(Kind::Unavailable, "shutting_down", message));
        }
        if let Some((_, found)) = fresh(&self.checked.borrow_and_update()) {
            return found.clone();
        }
        self.asked.notify_one();
        match timeout(PATIENCE, self.checked.changed()).await {
            Ok(Ok(())) => {
                let checked = self.checked.borrow();
                checked.as_ref().map_or(Ok(()), |(_, found)| found.clone())
            }
            _ => Err(Error::unavailable("The database does not answer.")),
        }
    }
}

fn fresh(checked: &Checked) -> Option<&(Instant, Result<(), Error>)> {
    checked.as_ref().filter(|(at, _)| at.elapsed() < FRESH)
}

/// Checks whenever somebody asks and nothing fresh is known.
async fn check(service: Arc<Service>, asked: Arc<Notify>, tell: watch::Sender<Checked>) {
    loop {
        asked.notified().await;
        if fresh(&tell.borrow()).is_some() {
            continue;
        }
        let found = apart(&service, can_work).await;
        tell.send_replace(Some((Instant::now(), found)));
    }
}

/// Adds both paths.
pub(crate) fn add_routes(readiness: Readiness, routes: &mut Routes) {
    let live = make_sync(|request: Request| match accepts(request.headers(), JSON) {
        Ok(()) => said(r#"{"status":"live"}"#),
        Err(refusal) => refusal.respond(),
    });
    let ready = make(move |request: Request| {
        let readiness = readiness.clone();
        async move {
            if let Err(refusal) = accepts(request.headers(), JSON) {
                return refusal.respond();
            }
            match readiness.ask().await {
                Ok(()) => said(r#"{"status":"ready"}"#),
                Err(error) => Refusal::from(error).respond(),
            }
        }
    });
    for (path, endpoint) in [(LIVE, live.boxed()), (READY, ready.boxed())] {
        let methods = routes.entry(path.to_owned()).or_default();
        methods.insert(Method::GET, endpoint);
    }
}

fn said(body: &'static str) -> Response {
    Response::builder()
        .header(CONTENT_TYPE, JSON)
        .header(CACHE_CONTROL, "no-store")
        .body(body)
}
