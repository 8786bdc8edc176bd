//! Asks the log's witnesses to cosign its checkpoints (C2SP tlog-witness).
//!
//! `features::cosignatures` decides who is asked when, prepares what is sent, and keeps what comes of it. This module sends it. Every
//! node looks every second; a turn with a witness is taken in the store, so one node at a time asks it. Each address has a task of its
//! own, so one witness that does not answer delays no other. Invariants: a turn ends after [`limits::WITNESS_TURN_S`] whatever the
//! witness does; at most [`MAX_ANSWER_BYTES`] of an answer are read; no redirect is followed. Nothing else waits for a witness.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::Written;
use bookguard_core::error::Error;
use bookguard_core::features::cosignatures::{
    WitnessPlace, WitnessTurn, claim, look, places, rule,
};
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::ledger::witness::MAX_ANSWER_BYTES;
use bookguard_core::limits;
use bookguard_core::model::WitnessState;
use bookguard_core::service::Service;
use hyper::Uri;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::apart::apart;
use crate::causes::in_words;
use crate::media;
use crate::tls;
use crate::tls::questions::{AnswerUnread, QuestionClient, read};

/// How often to look whether a witness is due.
const TURN: Duration = Duration::from_secs(1);
/// How long a turn may take.
const PATIENCE: Duration = Duration::from_secs(limits::WITNESS_TURN_S);
const TEXT: HeaderValue = HeaderValue::from_static(media::TEXT);

/// Starts a task for each address of the witnesses that are set.
///
/// # Errors
/// A sentence for the operator if TLS cannot be set up.
pub(crate) fn start(service: &Arc<Service>) -> Result<Vec<JoinHandle<()>>, String> {
    let Some(policy) = service.witnesses() else {
        return Ok(Vec::new());
    };
    let trust = tls::system_trust().map_err(|e| format!("witnesses cannot be asked: {e}"))?;
    let start = |place| {
        let asking = Asking {
            service: Arc::clone(service),
            policy: Arc::clone(policy),
            // One each: where two places are at one host, the connection to the first would be used for the second, or waited for.
            client: QuestionClient::new(trust.clone(), PATIENCE, 1),
            place,
        };
        tokio::spawn(asking.run())
    };
    Ok(places(policy).into_iter().map(start).collect())
}

/// The task that asks the witnesses at one address.
struct Asking {
    service: Arc<Service>,
    policy: Arc<TrustPolicy>,
    client: QuestionClient,
    place: WitnessPlace,
}

impl Asking {
    /// Asks again and again; never returns.
    async fn run(self) {
        let mut told = None;
        loop {
            // A store that does not answer has reported itself; while entries are missing, nothing is shown to anybody.
            if let Ok(Some(state)) = self.turn().await {
                tell(&self.place, &state, &mut told);
            }
            sleep(TURN).await;
        }
    }

    /// Takes a turn if one is due. Returns how it went.
    async fn turn(&self) -> Result<Option<WitnessState>, Error> {
        let (head, known) = apart(&self.service, look).await?;
        let known = known.iter().find(|one| one.url == self.place.url);
        let log = (head.origin.as_str(), head.head.size);
        let now = self.service.clock().now();
        if !rule::is_due(known, log, &self.place.keys, now) {
            return Ok(None);
        }
        let taken = claim(&self.service, &self.place, &head);
        let Written::Fresh(Some(state)) = self.service.submit_patiently(taken).await? else {
            return Ok(None);
        };
        let turn = WitnessTurn::new(self.place.clone(), state);
        let turn = self.ask(turn).await?;
        let policy = Arc::clone(&self.policy);
        let ending = apart(&self.service, move |service| turn.end(service, &policy));
        let (state, note) = ending.await?;
        self.service.submit_patiently(note).await?;
        Ok(Some(state))
    }

    /// Sends requests until the witness has cosigned, or it is clear that it will not.
    async fn ask(&self, mut turn: WitnessTurn) -> Result<WitnessTurn, Error> {
        let until = Instant::now() + PATIENCE;
        for _ in 0..limits::WITNESS_REQUESTS {
            let policy = Arc::clone(&self.policy);
            let request = apart(&self.service, move |service| {
                turn.request(service, &policy).map(|body| (body, turn))
            });
            let (body, mut asked) = request.await?;
            let Some(body) = body else {
                asked.unanswered("the database lacks published entries".to_owned());
                return Ok(asked);
            };
            let late = |_| Err(format!("it did not answer within {} s", PATIENCE.as_secs()));
            let answer = timeout_at(until, self.post(body)).await;
            match answer.unwrap_or_else(late) {
                Ok((status, body)) => {
                    if !asked.answered((status, &body), self.service.clock().now()) {
                        return Ok(asked);
                    }
                }
                Err(what) => {
                    asked.unanswered(what);
                    return Ok(asked);
                }
            }
            turn = asked;
        }
        Ok(turn)
    }

    /// Sends a request. Returns the status and the body of the answer.
    async fn post(&self, body: String) -> Result<(u16, Vec<u8>), String> {
        let url = format!("{}/add-checkpoint", self.place.url);
        let to: Uri = url
            .parse()
            .map_err(|e| format!("its address is wrong: {e}"))?;
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, TEXT)]);
        let answer = self.client.post(to, headers, body.into_bytes()).await;
        let answer = answer.map_err(|e| format!("it cannot be reached: {}", in_words(&e)))?;
        let status = answer.status().as_u16();
        let body = read(answer.into_body(), MAX_ANSWER_BYTES).await;
        let body = body.map_err(|why| match why {
            AnswerUnread::BrokeOff(e) => format!("its answer broke off: {}", in_words(&e)),
            AnswerUnread::TooLong => format!("its answer has more than {MAX_ANSWER_BYTES} bytes"),
        })?;
        Ok((status, body))
    }
}

/// Says when it begins that a witness does not cosign, when the reason changes between harmless and not, and when it is over.
fn tell(place: &WitnessPlace, state: &WitnessState, told: &mut Option<bool>) {
    let alarm = state.trouble.as_ref().map(|trouble| trouble.is_alarm);
    if std::mem::replace(told, alarm) == alarm {
        return;
    }
    let (names, url) = (place.names.join(", "), &place.url);
    match &state.trouble {
        None => tracing::info!("the witness {names} ({url}) cosigns the log again"),
        Some(trouble) if trouble.is_alarm => tracing::error!(
            "THE LOG MAY BE ROLLED BACK OR FORKED: the witness {names} ({url}) does not cosign it: {}. Compare the database with its \
             backups before anything else is written; docs/operate/alerts.md says how",
            trouble.what
        ),
        Some(trouble) => tracing::warn!(
            "the witness {names} ({url}) does not cosign the log: {}. It is asked again from time to time",
            trouble.what
        ),
    }
}
