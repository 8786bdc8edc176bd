//! Calls an operation with its input, from an HTTP request or from a tool's arguments.
//!
//! Every request passes here, so nothing here blocks: reads run where blocking is allowed, writes are handed to the writer and
//! awaited. Invariant: no rule of the product is decided here.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::RevokeApiKey;
use bookguard_core::features::api_keys::rotation::RotateApiKey;
use bookguard_core::features::console::{EndConsoleSession, SignOut};
use bookguard_core::features::endings::EndContract;
use bookguard_core::features::erasures::EraseValues;
use bookguard_core::features::events;
use bookguard_core::features::items::files::DeleteItemFile;
use bookguard_core::features::partners::account::{ReinstatePartner, SuspendPartner};
use bookguard_core::limits;
use bookguard_core::model::{ApiKeyId, ConsoleSessionId, EventId, PartnerId};
use bookguard_core::operation::{
    Finished, Operation as _, ReadFn, Request, RequestStep, StepFn, WatchStep, WriteStep,
};
use bookguard_core::service::Service;
use bookguard_core::session::Session;
use poem::http::header::HeaderMap;

use crate::app::{App, RequestCost};
use crate::observer;
use crate::payer::Payer;
use crate::readers::ReadClass;
use crate::watch;

/// How long the answer to a manual retry waits for the outcome.
const RETRY_WAIT: Duration = Duration::from_millis(limits::RETRY_WAIT_MS);

/// The caller of an operation.
pub(crate) struct Caller<'a> {
    pub(crate) app: &'a App,
    /// The session it was admitted with.
    pub(crate) session: Session,
    /// Where its processor time is added up.
    pub(crate) cost: &'a Arc<RequestCost>,
    /// The headers, which hold its key; `None` if it never waits for an event.
    pub(crate) headers: Option<&'a HeaderMap>,
}

/// The rest of the work once a request is prepared and its short read done.
enum Left {
    Nothing(Finished),
    Read(Session, ReadFn),
    Watch(Session, WatchStep),
    Write(Session, WriteStep),
}

/// The future of an answer.
pub(crate) type Calling<'a> = Pin<Box<dyn Future<Output = Result<Finished, Error>> + Send + 'a>>;

/// Calls the operation with this id.
pub(crate) fn call<'a>(
    caller: Caller<'a>,
    id: &'static str,
    step: StepFn,
    input: Request,
) -> Calling<'a> {
    Box::pin(async move { caller.call(id, step, input).await })
}

impl Caller<'_> {
    async fn call(&self, id: &str, step: StepFn, input: Request) -> Result<Finished, Error> {
        // What the path names, if this is one of these operations.
        let named = |by: &[&str]| input.path.first().filter(|_| by.contains(&id));
        let changed = named(&[
            SuspendPartner::ROUTE.id,
            ReinstatePartner::ROUTE.id,
            EndContract::ROUTE.id,
        ]);
        let changed = changed.and_then(|text| PartnerId::parse(text));
        let ended = named(&[RevokeApiKey::ROUTE.id, RotateApiKey::ROUTE.id]);
        let ended = ended.and_then(|text| ApiKeyId::parse(text));
        let session_ended = match id == SignOut::ROUTE.id {
            true => self.session.signed_in().map(|by| by.console_session_id),
            false => {
                named(&[EndConsoleSession::ROUTE.id]).and_then(|text| ConsoleSessionId::parse(text))
            }
        };
        let input = Arc::new(input);
        let class = class_of(id, input.body.len());
        let finished = match self.attempt(class, step, Arc::clone(&input)).await {
            Err(error) if error.is_outdated() && input.from_memory => {
                let mut anew = Request::clone(&input);
                anew.from_memory = false;
                Box::pin(self.attempt(class, step, Arc::new(anew))).await
            }
            attempted => attempted,
        };
        // What was written before something was refused stays written.
        if let Some(partner_id) = changed {
            self.app.keys.forget_partner(&partner_id);
        }
        let finished = finished?;
        if let Some(api_key_id) = ended {
            self.app.keys.forget(&api_key_id);
        }
        if let Some(ended) = session_ended {
            self.app.keys.forget_session(&ended);
        }
        Ok(finished)
    }

    /// Performs the request. From memory, it stays on this task until the writer is needed.
    ///
    /// Every request has a future of this size, moved once, so what only some need is in boxes.
    async fn attempt(
        &self,
        class: ReadClass,
        step: StepFn,
        input: Arc<Request>,
    ) -> Result<Finished, Error> {
        let session = self.session.clone();
        let left = if input.from_memory {
            self.cost.at_once(|| begin(step, session, &input))?
        } else {
            let read = move || begin(step, session, &input);
            self.app.read(self.cost, class, read).await?
        };
        match left {
            Left::Nothing(finished) => Ok(finished),
            Left::Read(session, read) => {
                let read = move || read(&session);
                self.app.read(self.cost, ReadClass::Long, read).await
            }
            Left::Watch(session, watch) => {
                let found = Box::pin(self.watch(session, watch)).await?;
                // The key may have been revoked during the wait.
                if let Some(headers) = self.headers {
                    let payer = Payer::of(&self.session.authority);
                    self.app.identify(headers, payer).await?;
                }
                Ok(found)
            }
            Left::Write(session, write) => Box::pin(self.write(&session, write)).await,
        }
    }

    async fn watch(&self, session: Session, watch: WatchStep) -> Result<Finished, Error> {
        let class = match watch.is_long {
            true => ReadClass::Long,
            false => ReadClass::Short,
        };
        let look = || {
            let (session, look) = (session.clone(), Arc::clone(&watch.look));
            self.app.read(self.cost, class, move || look(&session))
        };
        observer::waiting(watch::watch(session.service.news(), &watch, look)).await
    }

    async fn write(&self, session: &Session, write: WriteStep) -> Result<Finished, Error> {
        for command in write.before {
            Service::outcome(session.service.submit(command)?).await?;
        }
        let courier = &self.app.courier;
        let awaited = write
            .awaits
            .map(|awaits| courier.ready(awaits))
            .transpose()?
            .flatten();
        let look = |event_id: EventId| {
            let session = session.clone();
            let look = move || events::retry_outcome(&session, &event_id);
            self.app.read(self.cost, ReadClass::Short, look)
        };
        let mut finished = (write.submit)(Arc::clone(&session.service), false).await?;
        if let Some(awaited) = awaited.filter(|_| !finished.replayed)
            && let Some(body) = observer::waiting(courier.answer(awaited, RETRY_WAIT, look)).await?
        {
            finished.body = body.into();
            if let Some(key) = write.remembered {
                // Store the answer before it is sent: a repeated request must find the same answer.
                let replacement = events::replace_answer(session, key, &finished.body);
                session.service.submit_patiently(replacement).await?;
            }
        }
        Ok(finished)
    }
}

/// How long it may take to prepare this operation with a body of so many bytes. A request larger than an ordinary body is long
/// work, parsing and hashing included. Before files are deleted, the items of all bookings under a legal hold are read.
fn class_of(id: &str, body: usize) -> ReadClass {
    let deletes_files = [
        DeleteItemFile::ROUTE.id,
        EraseValues::ROUTE.id,
        EndContract::ROUTE.id,
    ];
    match body {
        0..=limits::BODY_BYTES if !deletes_files.contains(&id) => ReadClass::Short,
        _ => ReadClass::Long,
    }
}

/// Prepares the request; a short read is done right here.
fn begin(step: StepFn, session: Session, input: &Request) -> Result<Left, Error> {
    match step(&session, input)? {
        RequestStep::Read { is_long, read } => match is_long {
            true => Ok(Left::Read(session, read)),
            false => Ok(Left::Nothing(read(&session)?)),
        },
        RequestStep::Watch(watch) => Ok(Left::Watch(session, watch)),
        RequestStep::Write(write) => Ok(Left::Write(session, write)),
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::features::items::files::PutItemFile;

    use super::*;

    #[test]
    fn what_takes_long_to_prepare_keeps_no_short_read_waiting() {
        for (id, body, expected) in [
            (PutItemFile::ROUTE.id, limits::BODY_BYTES, ReadClass::Short),
            (
                PutItemFile::ROUTE.id,
                limits::BODY_BYTES + 1,
                ReadClass::Long,
            ),
            (DeleteItemFile::ROUTE.id, 0, ReadClass::Long),
            (EraseValues::ROUTE.id, 0, ReadClass::Long),
            (EndContract::ROUTE.id, 0, ReadClass::Long),
        ] {
            assert_eq!(class_of(id, body), expected, "{id} {body}");
        }
    }
}
