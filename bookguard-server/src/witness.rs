//! Serves a witness: cosigns the checkpoints of other operators' logs (C2SP tlog-witness).
//!
//! A witness is a server of its own, with its own folder, key and listener; it needs no database. `ledger::witness` decides,
//! `folder` remembers, and `audit` has a log read before it is cosigned. Invariant: an answer leaves only after what it says is on
//! the disk.

mod audit;
mod folder;

use std::net::SocketAddr;
use std::sync::Arc;

use bookguard_core::clock::Clock;
use bookguard_core::error::Error;
use bookguard_core::ledger::witness::{MAX_REQUEST_BYTES, WitnessRefusal};
use poem::endpoint::{BoxEndpoint, make};
use poem::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use poem::http::{Method, StatusCode};
use poem::{EndpointExt as _, Request, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::connections::{self, Serving};
use crate::incoming;
use crate::media::TEXT;
use crate::probes::Stage;
use crate::refusal::Refusal;
use crate::router::Routes;
use crate::server::{cannot_listen, local_url};
use audit::AGAIN_S;
pub use audit::{AuditedLog, LogAuditor, NotAudited};
use folder::NotCosigned;
pub use folder::{WitnessFolder, WitnessedLog};

/// The path that takes checkpoints, below the witness's submission prefix.
const ADD_CHECKPOINT: &str = "/add-checkpoint";
/// The path that shows what was cosigned last of a log, below the monitoring prefix. The expression keeps poem from taking the
/// router's own one for unknown paths.
const CHECKPOINT: &str = "/:log<[0-9a-f]{64}>/checkpoint";
/// The type that the specification gives to the size in a 409.
const SIZE: &str = "text/x.tlog.size";

/// A running witness.
pub struct WitnessServer {
    addr: SocketAddr,
    stage: watch::Sender<Stage>,
    serving: JoinHandle<()>,
}

impl WitnessServer {
    /// Serves the witness of this folder.
    ///
    /// # Errors
    /// A sentence for the operator if the address cannot be listened on.
    pub async fn start(folder: WitnessFolder, listen: &str, clock: Clock) -> Result<Self, String> {
        let bound = TcpListener::bind(listen).await;
        let listener = bound.map_err(|e| cannot_listen(listen, &e))?;
        let addr = (listener.local_addr()).map_err(|e| cannot_listen(listen, &e))?;
        let (stage, staged) = watch::channel(Stage::Serving);
        let routes = routes(&Arc::new(folder), &clock);
        let serving = Serving::alone(routes, clock, None, staged);
        Ok(Self {
            addr,
            stage,
            serving: tokio::spawn(connections::serve(listener, serving)),
        })
    }

    /// Where it is reached on this machine: its submission and its monitoring prefix.
    #[must_use]
    pub fn url(&self) -> String {
        local_url(self.addr)
    }

    /// Stops accepting, and lets the requests in flight finish.
    pub async fn stop(self) {
        self.stage.send_replace(Stage::Ending);
        // A panic of the listener was printed when it happened.
        let _ = self.serving.await;
    }
}

fn routes(folder: &Arc<WitnessFolder>, clock: &Clock) -> Routes {
    let mut routes = Routes::new();
    let mut add = |path: &str, method, endpoint| {
        (routes.entry(path.to_owned()).or_default()).insert(method, endpoint);
    };
    add(
        ADD_CHECKPOINT,
        Method::POST,
        endpoint(folder, clock, |folder, clock, mut request| async move {
            let body = match incoming::bytes(&mut request, MAX_REQUEST_BYTES).await {
                Ok(body) => body,
                Err(refusal) => return refusal.respond(),
            };
            answered(add_checkpoint(folder, body, clock).await)
        }),
    );
    add(
        CHECKPOINT,
        Method::GET,
        endpoint(folder, clock, |folder, _, request| async move {
            let log = (request.raw_path_param("log").unwrap_or_default()).to_owned();
            // It waits for a checkpoint that is being written, and so for the disk.
            match spawn_blocking(move || folder.checkpoint(&log)).await {
                Ok(Some(note)) => text(StatusCode::OK, TEXT, note),
                Err(why) => answered(Err(NotCosigned::Failed(why.to_string()))),
                Ok(None) => text(
                    StatusCode::NOT_FOUND,
                    TEXT,
                    "this witness has cosigned no checkpoint of a log whose origin has this SHA-256 hash\n".to_owned(),
                ),
            }
        }),
    );
    add(
        "/key",
        Method::GET,
        endpoint(folder, clock, |folder, _, _| async move {
            text(StatusCode::OK, TEXT, format!("{}\n", folder.verifier()))
        }),
    );
    routes
}

/// Carries out a request, once the log was audited if this witness audits.
async fn add_checkpoint(
    folder: Arc<WitnessFolder>,
    body: Vec<u8>,
    clock: Clock,
) -> Result<String, NotCosigned> {
    let failed = |e: tokio::task::JoinError| NotCosigned::Failed(e.to_string());
    let body = Arc::new(body);
    let (asking, asked) = (Arc::clone(&folder), Arc::clone(&body));
    let to_audit = spawn_blocking(move || asking.to_audit(&asked)).await;
    if let Some(log) = to_audit.map_err(failed)?? {
        folder.audited(log).await?;
    }
    let cosigned = spawn_blocking(move || folder.add_checkpoint(&body, clock.now())).await;
    cosigned.map_err(failed)?
}

fn endpoint<A: Future<Output = Response> + Send + 'static>(
    folder: &Arc<WitnessFolder>,
    clock: &Clock,
    answer: impl Fn(Arc<WitnessFolder>, Clock, Request) -> A + Send + Sync + 'static,
) -> BoxEndpoint<'static> {
    let (folder, clock) = (Arc::clone(folder), clock.clone());
    make(move |request| answer(Arc::clone(&folder), clock.clone(), request)).boxed()
}

fn answered(asked: Result<String, NotCosigned>) -> Response {
    match asked {
        Ok(line) => text(StatusCode::OK, TEXT, line),
        Err(NotCosigned::Refused(WitnessRefusal::Conflict { size })) => {
            text(StatusCode::CONFLICT, SIZE, format!("{size}\n"))
        }
        Err(NotCosigned::Refused(why)) => {
            let status = StatusCode::from_u16(why.status()).unwrap_or(StatusCode::BAD_REQUEST);
            text(status, TEXT, format!("{why}\n"))
        }
        // The status of a log that contradicts itself: no other one of the protocol makes the log's operator look.
        Err(NotCosigned::Lie(why)) => {
            text(StatusCode::UNPROCESSABLE_ENTITY, TEXT, format!("{why}\n"))
        }
        Err(NotCosigned::Unaudited(why)) => {
            let mut later = text(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n"));
            (later.headers_mut()).insert(RETRY_AFTER, AGAIN_S.into());
            later
        }
        Err(NotCosigned::Failed(why)) => {
            tracing::error!("a checkpoint could not be cosigned: {why}");
            Refusal::from(Error::internal(why)).respond()
        }
    }
}

fn text(status: StatusCode, media_type: &str, body: String) -> Response {
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, media_type)
        .header(CACHE_CONTROL, "no-store")
        .body(body)
}
