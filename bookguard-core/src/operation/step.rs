//! What a frontend does for a request, whatever its operation: an [`Action`] whose output is encoded.
//!
//! A frontend handles the futures of requests, which are long to compile; so it does that once, not for each operation.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Action, Awaits, Finished, Operation, Request, Step, Writing};
use super::{finish_write, prepare};
use crate::engine::command::Envelope;
use crate::error::Error;
use crate::model::PartnerId;
use crate::service::Service;
use crate::session::Session;

/// [`step`] of one operation.
pub type StepFn = fn(&Session, &Request) -> Result<RequestStep, Error>;

/// What a frontend does for a request.
pub type RequestStep = Step<WriteStep>;

/// A read that may be repeated.
pub type LookFn = Arc<dyn Fn(&Session) -> Result<Look, Error> + Send + Sync>;

/// A read that waits until something has happened. It is repeated when the partner has another event, and also now and
/// then, because other processes notify nobody here.
pub struct WatchStep {
    /// The partner whose events trigger it.
    pub partner_id: PartnerId,
    /// How long to wait before answering with whatever there is.
    pub patience: Duration,
    /// Whether the read may take long.
    pub is_long: bool,
    /// The read.
    pub look: LookFn,
}

/// What a look found.
#[derive(Debug)]
pub struct Look {
    /// The answer.
    pub finished: Finished,
    /// Whether it is worth an answer.
    pub is_enough: bool,
}

/// The encoded [`Writing`].
pub struct WriteStep {
    /// Commands to run before it, one after another. If one is refused, the rest is not run.
    pub before: Vec<Envelope<()>>,
    /// What its answer waits for once it is written.
    pub awaits: Option<Awaits>,
    /// The key under which the answer is remembered.
    pub remembered: Option<[u8; 32]>,
    /// Hands the command to the writer and waits for its answer.
    pub submit: SubmitFn,
}

/// Hands a command to the writer and waits for its answer. If `patiently`, it waits for room in the writer's inbox too.
pub type SubmitFn = Box<dyn FnOnce(Arc<Service>, bool) -> Answering + Send>;
/// The future of an answer.
pub type Answering = Pin<Box<dyn Future<Output = Result<Finished, Error>> + Send>>;

/// As [`prepare`], for a frontend.
///
/// # Errors
/// As [`prepare`].
pub fn step<O: Operation>(session: &Session, request: &Request) -> Result<RequestStep, Error> {
    Ok(match prepare::<O>(session, request)? {
        Action::Read { is_long, read } => RequestStep::Read { is_long, read },
        Action::Watch(watch) => RequestStep::Watch(watch),
        Action::Write(writing) => RequestStep::Write(write_step::<O>(writing)),
    })
}

fn write_step<O: Operation>(writing: Writing<O::Output>) -> WriteStep {
    let Writing {
        before,
        command,
        awaits,
    } = writing;
    let remembered = command.remember.as_ref().map(|remember| remember.key);
    let submit = move |service: Arc<Service>, patiently: bool| -> Answering {
        Box::pin(async move {
            let written = match patiently {
                true => service.submit_patiently(command).await,
                false => Service::outcome(service.submit(command)?).await,
            };
            Ok(finish_write::<O>(written?))
        })
    };
    WriteStep {
        before,
        awaits,
        remembered,
        submit: Box::new(submit),
    }
}
