//! Operations: what the HTTP server and the command line have in common. The operations themselves are in `features`.
//!
//! An operation knows its route, reads its request, and returns what to do: a read, or a command for the writer. The
//! frontends decide how a request arrives and an answer leaves, and contain no rules.

mod parameters;
mod query_reader;
mod route;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::engine::change::SentFile;
use crate::engine::command::{Audited, Command, Envelope, Remember, Repeat, Written};
use crate::engine::needs::Needs;
use crate::error::{Error, FieldError, Kind};
use crate::input;
use crate::limits;
use crate::model::{EndpointId, EventId, FileState, Id, PartnerId, Timestamp, id::Noun};
use crate::session::{Access, Authority, Session};
use crate::store::StoreError;
use crate::store::read::Reader;
pub(crate) use parameters::{LIMIT, cursor, ids_cursor};
pub use parameters::{QueryForm, QueryParam};
pub use query_reader::IN_URL;
pub(crate) use query_reader::{
    QueryReader, page_from, paging, query_fault, query_value, whole_number,
};
pub use route::{Body, Method, Route};
pub use step::{
    Answering, Look, LookFn, RequestStep, StepFn, SubmitFn, WatchStep, WriteStep, step,
};

/// A request, as either frontend passes it on.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The path's parameters, in order.
    pub path: Vec<String>,
    /// The query's pairs, in order, decoded.
    pub query: Vec<(String, String)>,
    /// The body's bytes; empty if there is none.
    pub body: Vec<u8>,
    /// The file that is sent; empty if there is none.
    pub file: Arc<SentFile>,
    /// The Idempotency-Key header.
    pub idempotency_key: Option<String>,
    /// The tags of answers that the caller has cached; `*` matches any.
    pub known_tags: Vec<String>,
    /// Prepare the request from this node's memory if the operation can, without a query to the store. If that is
    /// impossible, or the request only seems refused, the result is [`Error::outdated`], and the request is prepared
    /// again without this.
    pub from_memory: bool,
}

/// A read, which runs where blocking is allowed.
pub type ReadFn = Box<dyn FnOnce(&Session) -> Result<Finished, Error> + Send>;

/// What to do for a request: read, or write in the way of `W`.
pub enum Step<W> {
    /// Run a read.
    Read {
        /// Whether it may take long, so that others should not have to wait for it.
        is_long: bool,
        /// The read.
        read: ReadFn,
    },
    /// Repeat a read until there is something to answer.
    Watch(WatchStep),
    /// Run a command.
    Write(W),
}

/// What an operation does for a request.
pub type Action<T> = Step<Writing<T>>;

/// A command, and what its answer waits for after it is written.
pub struct Writing<T> {
    /// Commands to run before it, one after another. If one is refused, the rest is not run. If its answer is remembered, none is run.
    pub before: Vec<Envelope<()>>,
    /// The command.
    pub command: Envelope<T>,
    /// What its answer waits for once it is written.
    pub awaits: Option<Awaits>,
}

/// An outcome that an answer waits for and only the courier knows.
#[derive(Debug, Clone)]
pub enum Awaits {
    /// The outcome of the deliveries of this partner's event, after a manual retry.
    Outcome(PartnerId, EventId),
    /// The outcome of an endpoint's test.
    Test(TestDelivery),
}

/// A test delivery to an endpoint.
#[derive(Debug, Clone)]
pub struct TestDelivery {
    /// The owner of the endpoint.
    pub partner_id: PartnerId,
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// The event id in the body.
    pub event_id: EventId,
    /// The exact bytes to send.
    pub body: Arc<[u8]>,
}

/// One operation of the interface.
pub trait Operation: Send + 'static {
    /// Its place in the HTTP interface.
    const ROUTE: Route;
    /// The body of its answer.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// Reads the request and returns what to do.
    ///
    /// # Errors
    /// Those of [`input`](crate::input), and the refusals of the operation that need no writer.
    fn prepare(session: &Session, request: &Request) -> Result<Action<Self::Output>, Error>;
    /// The address of the created object, for the Location header.
    fn location(_output: &Self::Output) -> Option<String> {
        None
    }
}

impl Request {
    /// Whether the caller has cached an answer with this tag.
    pub(crate) fn knows(&self, tag: &str) -> bool {
        self.known_tags
            .iter()
            .any(|known| known == "*" || known == tag)
    }
}

/// Checks what all operations have in common, then reads the request.
///
/// # Errors
/// `unauthorized`, `insufficient_scope`, `partner_suspended`, `unknown_query_parameter`, `duplicate_query_parameter`,
/// `body_required`, `unexpected_body`, `idempotency_key_invalid`, and the operation's own.
pub fn prepare<O: Operation>(
    session: &Session,
    request: &Request,
) -> Result<Action<O::Output>, Error> {
    session.require(O::ROUTE.access)?;
    let standing = match O::ROUTE.method == Method::Get || O::ROUTE.while_suspended {
        true => Ok(()),
        false => session.require_standing(),
    };
    let key = request.idempotency_key.as_deref();
    let key = key.filter(|_| O::ROUTE.method == Method::Post);
    let remembered = key.map(|key| remember::<O>(session, request, key));
    let remembered = remembered.transpose();
    let prepared = match standing {
        Ok(()) => {
            check_query(&O::ROUTE, &request.query)?;
            check_body(O::ROUTE.body, request)?;
            O::prepare(session, request)
        }
        Err(suspended) => Err(suspended),
    };
    let mut action = match (prepared, &remembered) {
        (Err(why), Ok(Some(remember))) => repeat(session, request, remember, why)?,
        (prepared, _) => prepared?,
    };
    if let (Action::Write(writing), Authority::Partner { partner_id, .. }) =
        (&mut action, &session.authority)
        && !O::ROUTE.while_suspended
    {
        let before = writing.before.iter_mut();
        before.for_each(|command| command.asked_by = Some(*partner_id));
        writing.command.asked_by = Some(*partner_id);
    }
    // A key is judged even where nothing is written, such as by a dry run.
    let remembered = remembered?;
    if let Action::Write(writing) = &mut action {
        // The writer looks for a remembered answer only at the command. What comes before it would be done again until then.
        if let Some(remember) = remembered.as_ref().filter(|_| !writing.before.is_empty()) {
            let at = writing.command.at;
            let answered = query_one(session, |reader| reader.answered(&remember.key, at))?;
            if answered.is_some() {
                writing.before.clear();
            }
        }
        if remembered.is_some() {
            writing.command.remember = remembered;
        }
        let recorded = O::ROUTE.audited
            || session.signed_in().is_some()
            || matches!(session.authority, Authority::Administrator { .. });
        let is_recorded = writing.before.iter().any(|command| command.audit.is_some());
        if recorded && !is_recorded && writing.command.audit.is_none() {
            let audited = audited::<O>(session, request, &writing.command);
            writing.command.audit = Some(Box::new(audited));
        }
    }
    Ok(action)
}

/// Looks for the answer of a request that is refused now, but may have been carried out before under this key: the writer has it.
fn repeat<T: 'static>(
    session: &Session,
    request: &Request,
    remember: &Remember<T>,
    why: Error,
) -> Result<Action<T>, Error> {
    // A caller who may no longer do it is not told what came of it, except a suspended partner, who still reads. While nothing may be
    // shown, nobody is.
    let is_told = matches!(why.kind, Kind::Invalid | Kind::NotFound | Kind::Conflict)
        || why == Error::partner_suspended();
    if !is_told {
        return Err(why);
    }
    // Looking blocks.
    if request.from_memory {
        return Err(Error::outdated());
    }
    let at = session.service.clock().now();
    match query_one(session, |reader| reader.answered(&remember.key, at))? {
        Some(answered) if answered == remember.request => Ok(write(at, Repeat::new(why))),
        _ => Err(why),
    }
}

/// What the audit records of an operation: the ids in its path and its reply, and nothing else of its request.
pub(crate) fn audited<O: Operation>(
    session: &Session,
    request: &Request,
    envelope: &Envelope<O::Output>,
) -> Audited<O::Output> {
    let mut record = session.audit_record(O::ROUTE.id, envelope.at);
    let is_operator = matches!(session.authority, Authority::Administrator { .. });
    // Nothing else is done for the partner that the operator acts for: it concerns another one, or none.
    if is_operator && !matches!(O::ROUTE.access, Access::AnyKey | Access::Scope(_)) {
        record.partner_id = None;
    }
    if record.partner_id.is_none() {
        let mut needs = Needs::default();
        envelope.command.needs(&mut needs);
        needs.partners.dedup();
        if let [only] = needs.partners[..] {
            record.partner_id = Some(only);
        }
    }
    let names = O::ROUTE.parameters().map(str::to_owned);
    record.concern(names.zip(request.path.iter().cloned()).collect());
    Audited {
        record,
        ids_of: ids_in,
        status: Some(O::ROUTE.status),
    }
}

/// The ids among an answer's own members.
fn ids_in<T: Serialize>(output: &T) -> BTreeMap<String, String> {
    let Ok(Value::Object(members)) = serde_json::to_value(output) else {
        return BTreeMap::new();
    };
    let ids = members.into_iter().filter_map(|(name, value)| match value {
        Value::String(id) if name.ends_with("Id") => Some((name, id)),
        _ => None,
    });
    ids.collect()
}

fn check_query(route: &Route, query: &[(String, String)]) -> Result<(), Error> {
    let known: Vec<&str> = route.query.iter().map(|param| param.name).collect();
    let mut faults = Vec::new();
    for (index, (name, _)) in query.iter().enumerate() {
        if faults.len() == limits::FAULTS {
            break;
        }
        if !known.contains(&name.as_str()) {
            let elsewhere = route.elsewhere.iter().find(|(other, _)| other == name);
            let fix = match (elsewhere, input::nearest(name, &known)) {
                (Some((_, path)), _) => format!("Send it to {path}."),
                (None, Some(word)) => format!("Did you mean \"{word}\"?"),
                (None, None) if known.is_empty() => "Remove it.".to_owned(),
                (None, None) => format!("Remove it. Known: {}.", known.join(", ")),
            };
            let message = "is not a parameter of this operation".to_owned();
            faults.push(FieldError::new(
                format!("?{}", input::shorten(name)),
                "unknown_query_parameter",
                message,
                fix,
            ));
        } else if query[..index].iter().any(|(earlier, _)| earlier == name) {
            faults.push(duplicate(name));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::faults(faults))
    }
}

/// The fault of a query parameter that is sent twice.
#[must_use]
pub fn duplicate(name: &str) -> FieldError {
    FieldError::new(
        format!("?{}", input::shorten(name)),
        "duplicate_query_parameter",
        "appears more than once",
        "Send it once.",
    )
}

fn check_body(rule: Body, request: &Request) -> Result<(), Error> {
    let body = &*request.body;
    let blank = body.iter().all(u8::is_ascii_whitespace);
    match rule {
        Body::File if request.file.bytes().is_empty() => Err(Error::invalid(
            "body_required",
            "A file's bytes are required as the body, and none were sent.",
        )),
        Body::Required(_) if blank => Err(Error::invalid(
            "body_required",
            "A JSON object is required as the body, and none was sent.",
        )),
        Body::None if !blank => input::read(body, |_| Some(())).map_err(|_| {
            Error::invalid(
                "unexpected_body",
                "This operation takes no body. Send none, or an empty JSON object.",
            )
        }),
        _ => Ok(()),
    }
}

fn remember<O: Operation>(
    session: &Session,
    request: &Request,
    key: &str,
) -> Result<Remember<O::Output>, Error> {
    let sane = !key.is_empty()
        && key.len() <= limits::IDEMPOTENCY_KEY_CHARS
        && key.bytes().all(|byte| byte.is_ascii_graphic());
    let fault = |message: String| {
        Error::fault(
            "Idempotency-Key",
            "idempotency_key_invalid",
            message,
            "Send one, such as a UUID.",
        )
    };
    // A header that is sent twice is one value with a comma and a space in it (RFC 9110 section 5.3).
    if key.contains(", ") {
        let message = "was sent more than once, or holds a comma and a space";
        return Err(fault(message.to_owned()));
    }
    if !sane {
        let most = limits::IDEMPOTENCY_KEY_CHARS;
        return Err(fault(format!(
            "must be 1 to {most} visible ASCII characters"
        )));
    }
    // Without an API key, many callers share an address. Anyone who guessed the key of a registration would receive its
    // credentials.
    let anonymous = matches!(session.authority, Authority::Anonymous { .. });
    let least = limits::IDEMPOTENCY_KEY_CHARS_OPEN;
    if anonymous && key.len() < least {
        return Err(fault(format!(
            "must have at least {least} characters where no API key guards the answer"
        )));
    }
    let digest = |parts: &[&[u8]]| -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    };
    let mut parts: Vec<&[u8]> = vec![O::ROUTE.id.as_bytes()];
    parts.extend(request.path.iter().map(String::as_bytes));
    parts.push(&request.body);
    Ok(Remember {
        key: digest(&[session.idempotency_scope().as_bytes(), key.as_bytes()]),
        request: digest(&parts),
        encode: to_json,
    })
}

/// The JSON of an answer.
pub fn to_json<T: Serialize>(output: &T) -> Vec<u8> {
    serde_json::to_vec(output)
        .expect("the outputs are plain data with string keys, which always serialize")
}

/// An answer ready to send. It is kept as bytes so that a replay is identical to the last byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The JSON body, shared with the cache if it is a packet.
    pub body: Bytes,
    /// The address of the created object.
    pub location: Option<String>,
    /// The tag of its content, in hex digits; `None` if its bytes identify it best.
    pub tag: Option<String>,
    /// Whether this is a remembered answer.
    pub replayed: bool,
    /// The stored file that is sent instead of the body.
    pub file: Option<FileAnswer>,
}

/// A stored file as an answer. Its bytes are read a part at a time while they leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAnswer {
    /// The name under which to save it.
    pub name: String,
    /// The file, which is whole.
    pub file: FileState,
}

impl Finished {
    /// An answer that was made before, with the tag of its content.
    pub fn stored(body: impl Into<Bytes>, tag: Option<String>) -> Self {
        Self {
            body: body.into(),
            location: None,
            tag,
            replayed: false,
            file: None,
        }
    }

    /// An answer that has only the tag of what the caller has cached.
    pub fn unchanged(tag: String) -> Self {
        Self::stored(Bytes::new(), Some(tag))
    }
}

/// Encodes an operation's output.
pub fn finish<O: Operation>(output: &O::Output) -> Finished {
    Finished {
        location: O::location(output),
        ..Finished::stored(to_json(output), None)
    }
}

/// Encodes the writer's answer.
pub fn finish_write<O: Operation>(answer: Written<O::Output>) -> Finished {
    match answer {
        Written::Fresh(output) => finish::<O>(&output),
        Written::Replayed(body) => {
            let location = serde_json::from_slice(&body)
                .ok()
                .and_then(|output| O::location(&output));
            Finished {
                location,
                replayed: true,
                ..Finished::stored(Bytes::from_owner(body), None)
            }
        }
    }
}

/// An action that runs a read.
pub(crate) fn read<O: Operation>(
    run: impl FnOnce(&Session) -> Result<O::Output, Error> + Send + 'static,
) -> Action<O::Output> {
    read_long::<O>(false, run)
}

/// A read that may take long.
pub fn read_long<O: Operation>(
    is_long: bool,
    run: impl FnOnce(&Session) -> Result<O::Output, Error> + Send + 'static,
) -> Action<O::Output> {
    let run = move |session: &Session| Ok(finish::<O>(&run(session)?));
    read_stored(is_long, run)
}

/// A read of an answer that lies in the store as the bytes that leave.
pub(crate) fn read_stored<T>(
    is_long: bool,
    run: impl FnOnce(&Session) -> Result<Finished, Error> + Send + 'static,
) -> Action<T> {
    let read = Box::new(run);
    Action::Read { is_long, read }
}

/// An action that runs a command received at this instant, whose reply is the operation's answer.
pub(crate) fn write<T>(at: Timestamp, command: impl Command<Reply = T>) -> Action<T> {
    Action::Write(Writing {
        before: Vec::new(),
        command: Envelope::new(at, command),
        awaits: None,
    })
}

/// As [`write()`], with an answer that waits for an outcome.
pub(crate) fn write_awaiting<T>(
    at: Timestamp,
    command: impl Command<Reply = T>,
    awaits: Awaits,
) -> Action<T> {
    Action::Write(Writing {
        before: Vec::new(),
        command: Envelope::new(at, command),
        awaits: Some(awaits),
    })
}

/// Runs `ask` on a reader. Everything it reads is of one moment.
pub(crate) fn query<T>(
    session: &Session,
    ask: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError>,
) -> Result<T, Error> {
    session.service.ask(|reader| {
        reader.snapshot();
        ask(reader)
    })
}

/// As [`query`], for a single query, which sees one moment by itself and costs a server no transaction.
pub(crate) fn query_one<T>(
    session: &Session,
    ask: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError>,
) -> Result<T, Error> {
    session.service.ask(ask)
}

/// What belongs to a partner.
pub(crate) trait Owned {
    fn owner(&self) -> &PartnerId;
}

impl Owned for PartnerId {
    fn owner(&self) -> &PartnerId {
        self
    }
}

impl<T> Owned for (PartnerId, T) {
    fn owner(&self) -> &PartnerId {
        &self.0
    }
}

/// As [`query_one`], for what has this id, or its owner. An id of another partner is answered exactly like an unknown one.
pub(crate) fn query_own<N: Noun, T: Owned>(
    session: &Session,
    id: &Id<N>,
    ask: impl FnOnce(&mut Reader<'_>, &Id<N>) -> Result<Option<T>, StoreError>,
) -> Result<T, Error> {
    let found = query_one(session, |reader| ask(reader, id))?;
    let found = found.filter(|found| session.may_see(found.owner()));
    found.ok_or_else(|| Error::not_found(N::NAME))
}

/// The id in the path. Text that is not such an id names nothing, so it is not found.
pub(crate) fn path_id<N: Noun>(request: &Request, index: usize) -> Result<Id<N>, Error> {
    request
        .path
        .get(index)
        .and_then(|text| Id::parse(text))
        .ok_or_else(|| Error::not_found(N::NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_query_no_more_faults_are_told_than_of_a_body() {
        const ROUTE: Route = Route {
            query: &[LIMIT],
            ..Route::GET
        };
        let query = |names: &[String]| -> Vec<(String, String)> {
            let pairs = names.iter().map(|name| (name.clone(), String::new()));
            pairs.collect()
        };
        let unknown: Vec<String> = (0..1_000).map(|n| format!("x{n}")).collect();
        let twice = vec!["limit".to_owned(); 1_000];
        for names in [unknown, twice] {
            let error = check_query(&ROUTE, &query(&names)).unwrap_err();
            assert_eq!(error.details.len(), limits::FAULTS);
        }
        check_query(&ROUTE, &query(&["limit".to_owned()])).unwrap();
    }
}
