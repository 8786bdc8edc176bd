//! Operations: what the HTTP server and the command line have in common. The operations themselves are in `features`.
//!
//! An operation knows its route, reads its request, and returns what to do: a read, or a command for the writer. The
//! frontends decide how a request arrives and an answer leaves, and contain no rules.

mod parameters;
mod route;
mod step;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

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
pub use route::{Body, Method, Route};
pub use step::{Answering, Look, RequestStep, StepFn, SubmitFn, WatchStep, WriteStep, step};

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

/// What to do for a request.
pub enum Action<T> {
    /// Run a read.
    Read {
        /// Whether it may take long, so that others should not have to wait for it.
        is_long: bool,
        /// The read.
        read: ReadFn,
    },
    /// Repeat a read until there is something to answer.
    Watch(Watch<T>),
    /// Run a command.
    Write(Writing<T>),
}

/// A read that may be repeated.
pub type LookFn<T> = Arc<dyn Fn(&Session) -> Result<T, Error> + Send + Sync>;

/// A read that waits until something has happened. It is repeated when the partner has another event, and also now and
/// then, because other processes notify nobody here.
pub struct Watch<T> {
    /// The partner whose events trigger it.
    pub partner_id: PartnerId,
    /// How long to wait before answering with whatever there is.
    pub patience: Duration,
    /// The read.
    pub look: LookFn<T>,
    /// Whether the read may take long.
    pub is_long: bool,
    /// Whether the result is worth an answer.
    pub is_enough: fn(&T) -> bool,
}

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
/// `unauthorized`, `insufficient_scope`, `unknown_query_parameter`, `duplicate_query_parameter`,
/// `body_required`, `unexpected_body`, `idempotency_key_invalid`, and the operation's own.
pub fn prepare<O: Operation>(
    session: &Session,
    request: &Request,
) -> Result<Action<O::Output>, Error> {
    session.require(O::ROUTE.access)?;
    if O::ROUTE.method != Method::Get && !O::ROUTE.while_suspended {
        session.require_standing()?;
    }
    check_query(&O::ROUTE, &request.query)?;
    check_body(O::ROUTE.body, request)?;
    let key = request.idempotency_key.as_deref();
    let key = key.filter(|_| O::ROUTE.method == Method::Post);
    let remembered = key.map(|key| remember::<O>(session, request, key));
    let remembered = remembered.transpose();
    let mut action = match (O::prepare(session, request), &remembered) {
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
    // A caller who may no longer do it is not told what came of it. While nothing may be shown, nobody is.
    if !matches!(why.kind, Kind::Invalid | Kind::NotFound | Kind::Conflict) {
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
        counts: O::ROUTE.audited,
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
    if !sane {
        return Err(Error::fault(
            "Idempotency-Key",
            "idempotency_key_invalid",
            format!(
                "must be 1 to {} visible ASCII characters",
                limits::IDEMPOTENCY_KEY_CHARS
            ),
            "Send a UUID.",
        ));
    }
    // Without an API key, many callers share an address. Anyone who guessed the key of a registration would receive its
    // credentials.
    let anonymous = matches!(session.authority, Authority::Anonymous { .. });
    if anonymous && key.len() < limits::IDEMPOTENCY_KEY_CHARS_OPEN {
        return Err(Error::fault(
            "Idempotency-Key",
            "idempotency_key_invalid",
            format!(
                "must have at least {} characters where no API key guards the answer",
                limits::IDEMPOTENCY_KEY_CHARS_OPEN
            ),
            "Send a UUID.",
        ));
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
        Self {
            body: Bytes::new(),
            location: None,
            tag: Some(tag),
            replayed: false,
            file: None,
        }
    }
}

/// Encodes an operation's output.
pub fn finish<O: Operation>(output: &O::Output) -> Finished {
    Finished {
        body: to_json(output).into(),
        location: O::location(output),
        tag: None,
        replayed: false,
        file: None,
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
                body: Bytes::from_owner(body),
                location,
                tag: None,
                replayed: true,
                file: None,
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
    let mut reader = session.service.reader()?;
    reader.snapshot();
    ask(&mut reader).map_err(|e| session.service.fault(&e))
}

/// As [`query`], for a single query, which sees one moment by itself and costs a server no transaction.
pub(crate) fn query_one<T>(
    session: &Session,
    ask: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError>,
) -> Result<T, Error> {
    ask(&mut session.service.reader()?).map_err(|e| session.service.fault(&e))
}

/// The id in the path. Text that is not such an id names nothing, so it is not found.
pub(crate) fn path_id<N: Noun>(request: &Request, index: usize) -> Result<Id<N>, Error> {
    request
        .path
        .get(index)
        .and_then(|text| Id::parse(text))
        .ok_or_else(|| Error::not_found(N::NAME))
}

/// The `limit` and `cursor` of a list.
pub(crate) struct Paging<N: Noun> {
    pub limit: u32,
    pub before: Option<Id<N>>,
}

/// Reads the `limit` and `cursor` of a list that takes no other parameter.
pub(crate) fn paging<N: Noun>(request: &Request) -> Result<Paging<N>, Error> {
    let (limit, before) = page_from(request, Id::parse)?;
    Ok(Paging { limit, before })
}

/// Reads the `limit` and `cursor` of a list that takes other parameters too, so that the faults of all are named together.
pub(crate) fn read_paging<N: Noun>(request: &Request, faults: &mut Vec<FieldError>) -> Paging<N> {
    let (limit, before) = read_page(request, Id::parse, faults);
    Paging { limit, before }
}

/// Reads the `limit` of a list.
pub(crate) fn read_page_limit(request: &Request, faults: &mut Vec<FieldError>) -> u32 {
    let Some(text) = query_value(request, "limit") else {
        return limits::PAGE_ROWS_DEFAULT;
    };
    let most = limits::PAGE_ROWS;
    let limit = whole_number(text).filter(|n| (1..=most).contains(n));
    limit.unwrap_or_else(|| {
        let message = format!(
            "\"{}\" is not a whole number from 1 to {most}",
            input::shorten(text)
        );
        let fix = format!("Send 1 to {most}.");
        faults.push(query_fault("limit", "out_of_range", &message, &fix));
        0
    })
}

/// Reads the `limit` and `cursor` of a list whose cursors `parse` reads.
pub(crate) fn page_from<T>(
    request: &Request,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<(u32, Option<T>), Error> {
    let mut faults = Vec::new();
    let page = read_page(request, parse, &mut faults);
    if faults.is_empty() {
        Ok(page)
    } else {
        Err(Error::faults(faults))
    }
}

fn read_page<T>(
    request: &Request,
    parse: impl Fn(&str) -> Option<T>,
    faults: &mut Vec<FieldError>,
) -> (u32, Option<T>) {
    let limit = read_page_limit(request, faults);
    let from = query_value(request, "cursor").and_then(|text| {
        parse(text).or_else(|| {
            faults.push(query_fault(
                "cursor",
                "cursor_invalid",
                "is not a cursor of this list",
                "Send the nextCursor of the previous page, unchanged.",
            ));
            None
        })
    });
    (limit, from)
}

pub(crate) fn query_value<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request
        .query
        .iter()
        .find(|(n, _)| n == name)
        .map(|(_, value)| value.as_str())
}

/// Parses a number of digits alone. Rust's own parser would also accept a sign.
pub(crate) fn whole_number<T: FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Reads a query parameter that must be one of `words`.
pub(crate) fn query_choice<T: Copy>(
    request: &Request,
    name: &str,
    words: &[(&str, T)],
    faults: &mut Vec<FieldError>,
) -> Option<T> {
    let text = query_value(request, name)?;
    let found = words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value);
    if found.is_none() {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let (message, fix) = input::not_allowed(text, &all);
        faults.push(query_fault(name, "not_allowed", &message, &fix));
    }
    found
}

/// Reads a query parameter that is an instant.
pub(crate) fn query_instant(
    request: &Request,
    name: &str,
    faults: &mut Vec<FieldError>,
) -> Option<Timestamp> {
    let text = query_value(request, name)?;
    let found = Timestamp::parse_sent(text);
    if found.is_none() {
        faults.push(query_fault(
            name,
            "invalid_date",
            &format!("\"{}\" {}", input::shorten(text), Timestamp::fault(text)),
            "Send RFC 3339 with an offset, such as 2031-06-20T19:00:00Z; in a URL, write + as %2B.",
        ));
    }
    found
}

/// Reads a query parameter that is text of at most `max` characters, one of them visible.
pub(crate) fn query_text<'r>(
    request: &'r Request,
    name: &str,
    max: usize,
    faults: &mut Vec<FieldError>,
) -> Option<&'r str> {
    let text = query_value(request, name)?;
    let fault = input::text_fault(&format_args!("?{name}"), text, max);
    let is_fine = fault.is_none();
    faults.extend(fault);
    is_fine.then_some(text)
}

/// As [`query_choice`], for a parameter that must be there.
pub(crate) fn query_word<T: Copy>(
    request: &Request,
    name: &str,
    words: &[(&str, T)],
    faults: &mut Vec<FieldError>,
) -> Option<T> {
    if query_value(request, name).is_none() {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let fix = format!("Send one of: {}.", all.join(", "));
        faults.push(query_fault(name, "missing_field", "is missing", &fix));
    }
    query_choice(request, name, words, faults)
}

pub(crate) fn query_fault(name: &str, code: &str, message: &str, fix: &str) -> FieldError {
    FieldError::new(format!("?{name}"), code, message, fix)
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
