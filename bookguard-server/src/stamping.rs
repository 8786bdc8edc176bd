//! Has checkpoints of the log stamped by time-stamp authorities, from time to time, in a task of its own.
//!
//! `features::timestamps` decides what is stamped when, and which of many nodes asks; `authority` asks. Invariants: nothing
//! else waits for an authority; a question has a deadline and its answer a maximum length; an answer is recorded only once it
//! is verified against the operator's roots.

mod authority;

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::Written;
use bookguard_core::error::Error;
use bookguard_core::features::timestamps::{self, Unstamped};
use bookguard_core::service::Service;
use bookguard_time::{Request, Roots};
use hyper::Uri;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::apart::apart;
use crate::metrics::StampMetrics;
use crate::tls;
use crate::tls::questions::QuestionClient;

/// How often to look whether there is something to stamp.
const TURN: Duration = Duration::from_secs(2);

/// The authorities that are asked, in turns, and the roots that their answers must lead to.
#[derive(Debug, Clone)]
pub(crate) struct Stamper {
    /// Not empty.
    pub(crate) authorities: Vec<Uri>,
    pub(crate) roots: Arc<Roots>,
    pub(crate) interval: Duration,
}

/// Starts the task that has checkpoints stamped.
///
/// # Errors
/// A sentence for the operator if TLS cannot be set up.
pub(crate) fn start(
    service: &Arc<Service>,
    stamper: Stamper,
    metrics: &Arc<StampMetrics>,
) -> Result<JoinHandle<()>, String> {
    let trust = tls::system_trust()
        .map_err(|why| format!("time-stamps cannot be asked for: TLS cannot be set up: {why}"))?;
    let stamping = StampTask {
        service: Arc::clone(service),
        stamper,
        // Questions are minutes apart.
        client: QuestionClient::new(trust, authority::PATIENCE, 0),
        metrics: Arc::clone(metrics),
    };
    Ok(tokio::spawn(stamping.run()))
}

struct StampTask {
    service: Arc<Service>,
    stamper: Stamper,
    client: QuestionClient,
    metrics: Arc<StampMetrics>,
}

impl StampTask {
    /// Has checkpoints stamped; never returns.
    async fn run(self) {
        let mut is_told = false;
        loop {
            match self.turn().await {
                // There was nothing to stamp, or another node does it.
                Ok(None) => {}
                Ok(Some(Ok(()))) => {
                    self.metrics.asked(true);
                    if std::mem::take(&mut is_told) {
                        tracing::info!("the log is stamped again");
                    }
                }
                Ok(Some(Err(why))) => {
                    self.metrics.asked(false);
                    // Each further failure is counted; one line tells that they began.
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!("the log could not be stamped: {why}");
                    }
                }
                // A store that does not answer has reported itself.
                Err(error) => tracing::debug!("no stamp was asked for or recorded: {error}"),
            }
            sleep(TURN).await;
        }
    }

    fn interval_ms(&self) -> i64 {
        i64::try_from(self.stamper.interval.as_millis()).unwrap_or(i64::MAX)
    }

    /// Asks for a stamp if one is due and this node's turn, and says why there is none. `None` if it did not ask.
    async fn turn(&self) -> Result<Option<Result<(), String>>, Error> {
        let (service, interval_ms) = (&self.service, self.interval_ms());
        let due = apart(service, move |service| {
            timestamps::due(service, interval_ms)
        });
        let Some(of) = due.await? else {
            return Ok(None);
        };
        let taken = timestamps::take_turn(service, interval_ms);
        let Written::Fresh(Some(asked)) = service.submit_patiently(taken).await? else {
            return Ok(None);
        };
        let stamped = self.ask(asked, of).await?;
        if let Err(why) = &stamped {
            let note = timestamps::note_trouble(service, why.clone());
            service.submit_patiently(note).await?;
        }
        Ok(Some(stamped))
    }

    /// Asks the authority whose turn it is, and records its answer; or says why there is none.
    async fn ask(&self, asked: u32, of: Unstamped) -> Result<Result<(), String>, Error> {
        let authorities = &self.stamper.authorities;
        let authority = &authorities[asked.saturating_sub(1) as usize % authorities.len()];
        // As it is set, without its path.
        let place = authority.authority().map_or("", |place| place.as_str());
        let request = Request::new(of.imprint, timestamps::nonce());
        let response = match authority::ask(&self.client, authority, request.to_der()).await {
            Ok(response) => response,
            Err(why) => return Ok(Err(format!("{place}: {why}"))),
        };
        let roots = Arc::clone(&self.stamper.roots);
        let verified = apart(&self.service, move |service| {
            let stamp = request.verify(&response, &roots, service.clock().now().ms());
            Ok(stamp.map(|stamp| (stamp, response)))
        });
        let (stamp, response) = match verified.await? {
            Ok(verified) => verified,
            Err(why) => return Ok(Err(format!("{place} sent no valid time-stamp: {why}"))),
        };
        let service = &self.service;
        let record = timestamps::record(service, of, (&stamp, response), self.interval_ms());
        service.submit_patiently(record).await?;
        Ok(Ok(()))
    }
}
