//! What an operation is, for the HTTP server and the command line alike. The operations themselves are in `features`.
//!
//! An operation knows its route, reads its request, and says what to do: a read, or a command for the writer. The
//! frontends decide how a request arrives and an answer leaves, and hold no rule.

mod parameters;
mod route;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::engine::command::{Command, Envelope, Remember, Written};
use crate::error::{Error, FieldError};
use crate::input;
use crate::limits;
use crate::model::{EndpointId, EventId, Id, PartnerId, Timestamp, id::Noun};
use crate::session::{Authority, Session};
use crate::store::StoreError;
use crate::store::read::Reader;
pub(crate) use parameters::{LIMIT, cursor, ids_cursor};
pub use parameters::{QueryForm, QueryParam};
pub use route::{Body, Method, Route};

/// A request as either frontend passes it on.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The path's parameters, in order.
    pub path: Vec<String>,
    /// The query's pairs, in order, decoded.
    pub query: Vec<(String, String)>,
    /// The body's bytes; empty when there is none.
    pub body: Vec<u8>,
    /// The Idempotency-Key header.
    pub idempotency_key: Option<String>,
    /// Tags of answers that the caller has kept; `*` is any.
    pub known_tags: Vec<String>,
    /// Prepare it from what this node remembers, without asking the store, where the operation can. What cannot be
    /// prepared that way, or only seems refused, is [`Error::outdated`]: then it is prepared once more without this.
    pub from_memory: bool,
}

/// A read, to be run where blocking is allowed.
pub type ReadFn = Box<dyn FnOnce(&Session) -> Result<Finished, Error> + Send>;

/// What is to be done for a request.
pub enum Action<T> {
    /// Ask the store.
    Read {
        /// Whether it may take long, so that others should not have to wait for it.
        is_long: bool,
        /// The read.
        read: ReadFn,
    },
    /// Ask the store, and again until there is something to answer.
    Watch(Watch<T>),
    /// Ask the writer.
    Write(Writing<T>),
}

/// A read that may be repeated.
pub type LookFn<T> = Arc<dyn Fn(&Session) -> Result<T, Error> + Send + Sync>;

/// A read that waits until something has happened: repeated when the partner had another event, and now and then, because
/// other processes tell nobody.
pub struct Watch<T> {
    /// Whose events.
    pub partner_id: PartnerId,
    /// When to answer whatever there is.
    pub patience: Duration,
    /// The read.
    pub look: LookFn<T>,
    /// Whether the read may take long.
    pub is_long: bool,
    /// Whether what was read is worth an answer.
    pub is_enough: fn(&T) -> bool,
}

/// A command, and what its answer may still wait for.
pub struct Writing<T> {
    /// The command.
    pub command: Envelope<T>,
    /// What its answer waits for, once it is written.
    pub awaits: Option<Awaits>,
}

/// What an answer waits for that only the courier knows.
#[derive(Debug, Clone)]
pub enum Awaits {
    /// A manual retry: the outcome of this event's deliveries.
    Outcome(EventId),
    /// A test of an endpoint: what comes of it.
    Test(TestDelivery),
}

/// What is sent to an endpoint to test it.
#[derive(Debug, Clone)]
pub struct TestDelivery {
    /// Whose endpoint.
    pub partner_id: PartnerId,
    /// Which.
    pub endpoint_id: EndpointId,
    /// The id it carries.
    pub event_id: EventId,
    /// The exact bytes.
    pub body: Arc<[u8]>,
}

/// One operation of the interface.
pub trait Operation: Send + 'static {
    /// Its place in the interface.
    const ROUTE: Route;
    /// Its answer's body.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// Reads the request and says what is to be done.
    fn prepare(session: &Session, request: &Request) -> Result<Action<Self::Output>, Error>;
    /// The address of what was made, for the Location header.
    fn location(_output: &Self::Output) -> Option<String> {
        None
    }
    /// A tag of what the output says, hex digits; `None` when its bytes say that best.
    fn tag(_output: &Self::Output) -> Option<String> {
        None
    }
}

impl Request {
    /// Whether the caller has kept an answer with this tag.
    pub(crate) fn knows(&self, tag: &str) -> bool {
        self.known_tags
            .iter()
            .any(|known| known == "*" || known == tag)
    }
}

/// Checks what every operation has in common, then reads the request.
///
/// # Errors
/// `unauthorized`, `insufficient_scope`, `unknown_query_parameter`, `duplicate_query_parameter`,
/// `body_required`, `unexpected_body`, `idempotency_key_invalid`, and the operation's own.
pub fn prepare<O: Operation>(
    session: &Session,
    request: &Request,
) -> Result<Action<O::Output>, Error> {
    session.require(O::ROUTE.access)?;
    check_query(&O::ROUTE, &request.query)?;
    check_body(O::ROUTE.body, &request.body)?;
    let mut action = O::prepare(session, request)?;
    if let (Action::Write(writing), Some(key)) = (&mut action, &request.idempotency_key)
        && O::ROUTE.method == Method::Post
    {
        writing.command.remember = Some(remember::<O>(session, request, key)?);
    }
    Ok(action)
}

fn check_query(route: &Route, query: &[(String, String)]) -> Result<(), Error> {
    let known: Vec<&str> = route.query.iter().map(|param| param.name).collect();
    let mut faults = Vec::new();
    for (index, (name, _)) in query.iter().enumerate() {
        let pointer = format!("?{}", input::shorten(name));
        if !known.contains(&name.as_str()) {
            let fix = match input::nearest(name, &known) {
                Some(word) => format!("Did you mean \"{word}\"?"),
                None if known.is_empty() => {
                    "Remove it; this operation has no query parameters.".to_owned()
                }
                None => format!("Remove it. Known: {}.", known.join(", ")),
            };
            let message = "is not a query parameter of this operation".to_owned();
            faults.push(FieldError::new(
                pointer,
                "unknown_query_parameter",
                message,
                fix,
            ));
        } else if query[..index].iter().any(|(earlier, _)| earlier == name) {
            faults.push(FieldError::new(
                pointer,
                "duplicate_query_parameter",
                "appears more than once",
                "Send it once.",
            ));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::faults(faults))
    }
}

fn check_body(rule: Body, body: &[u8]) -> Result<(), Error> {
    let blank = body.iter().all(u8::is_ascii_whitespace);
    match rule {
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
            "must be 1 to 255 visible ASCII characters",
            "Send a UUID.",
        ));
    }
    // A stranger who guesses the key of a registration would be answered its credentials: many share an address.
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

/// An answer ready to leave: bytes, so that a replay is the same to the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The JSON body.
    pub body: Vec<u8>,
    /// The address of the new object.
    pub location: Option<String>,
    /// What it says, where that has a name of its own.
    pub tag: Option<String>,
    /// Whether this is a remembered answer.
    pub replayed: bool,
}

impl Finished {
    /// An answer that was made before, under this tag of what it says.
    pub fn stored(body: Vec<u8>, tag: Option<String>) -> Self {
        Self {
            body,
            location: None,
            tag,
            replayed: false,
        }
    }

    /// Nothing but the tag of what the caller has kept.
    pub fn unchanged(tag: String) -> Self {
        Self {
            body: Vec::new(),
            location: None,
            tag: Some(tag),
            replayed: false,
        }
    }
}

/// Makes an operation's output the bytes that leave.
pub fn finish<O: Operation>(output: &O::Output) -> Finished {
    Finished {
        body: to_json(output),
        location: O::location(output),
        tag: O::tag(output),
        replayed: false,
    }
}

/// Makes the writer's answer the bytes that leave.
pub fn finish_write<O: Operation>(answer: Written<O::Output>) -> Finished {
    match answer {
        Written::Fresh(output) => finish::<O>(&output),
        Written::Replayed(body) => {
            let location = serde_json::from_slice(&body)
                .ok()
                .and_then(|output| O::location(&output));
            Finished {
                body: body.to_vec(),
                location,
                tag: None,
                replayed: true,
            }
        }
    }
}

/// A read.
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

/// A command received at this instant, whose reply is the operation's answer.
pub(crate) fn write<T>(at: Timestamp, command: impl Command<Reply = T>) -> Action<T> {
    Action::Write(Writing {
        command: Envelope::new(at, command),
        awaits: None,
    })
}

/// The same, where the answer may still wait for something.
pub(crate) fn write_awaiting<T>(
    at: Timestamp,
    command: impl Command<Reply = T>,
    awaits: Awaits,
) -> Action<T> {
    Action::Write(Writing {
        command: Envelope::new(at, command),
        awaits: Some(awaits),
    })
}

/// Runs `ask` on a reader; what it reads is of one moment.
pub(crate) fn query<T>(
    session: &Session,
    ask: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError>,
) -> Result<T, Error> {
    let mut reader = session.service.reader()?;
    reader.snapshot();
    ask(&mut reader).map_err(|e| session.service.fault(&e))
}

/// As [`query`], for a single question: that is of one moment by itself, and costs a server no transaction.
pub(crate) fn query_one<T>(
    session: &Session,
    ask: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError>,
) -> Result<T, Error> {
    ask(&mut session.service.reader()?).map_err(|e| session.service.fault(&e))
}

/// The id in the path; anything that is no such id names nothing.
pub(crate) fn path_id<N: Noun>(request: &Request, index: usize) -> Result<Id<N>, Error> {
    request
        .path
        .get(index)
        .and_then(|text| Id::parse(text))
        .ok_or_else(|| Error::not_found(N::NAME))
}

/// `limit` and `cursor` of a list.
pub(crate) struct Paging<N: Noun> {
    pub limit: u32,
    pub before: Option<Id<N>>,
}

pub(crate) fn paging<N: Noun>(request: &Request) -> Result<Paging<N>, Error> {
    let (limit, before) = page_from(request, Id::parse)?;
    Ok(Paging { limit, before })
}

/// `limit` of a list.
pub(crate) fn read_page_limit(request: &Request, faults: &mut Vec<FieldError>) -> u32 {
    let Some(text) = query_value(request, "limit") else {
        return limits::PAGE_ROWS_DEFAULT;
    };
    let limit = whole_number(text).filter(|n| (1..=limits::PAGE_ROWS).contains(n));
    limit.unwrap_or_else(|| {
        faults.push(query_fault(
            "limit",
            "out_of_range",
            "is not a whole number from 1 to 100",
            "Send 1 to 100.",
        ));
        0
    })
}

/// `limit` and `cursor` of a list whose cursors `parse` reads.
pub(crate) fn page_from<T>(
    request: &Request,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<(u32, Option<T>), Error> {
    let mut faults = Vec::new();
    let limit = read_page_limit(request, &mut faults);
    let from = query_value(request, "cursor").and_then(|text| {
        parse(text).or_else(|| {
            faults.push(query_fault(
                "cursor",
                "cursor_invalid",
                "is not a cursor of this list",
                "Send the nextCursor of the page before, unchanged.",
            ));
            None
        })
    });
    if faults.is_empty() {
        Ok((limit, from))
    } else {
        Err(Error::faults(faults))
    }
}

pub(crate) fn query_value<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request
        .query
        .iter()
        .find(|(n, _)| n == name)
        .map(|(_, value)| value.as_str())
}

/// A number in digits alone: Rust's own parser would also take a sign before them.
pub(crate) fn whole_number<T: FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// One of these words.
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
        let fix = match input::nearest(text, &all) {
            Some(near) => format!("Did you mean \"{near}\"? Allowed: {}.", all.join(", ")),
            None => format!("Send one of: {}.", all.join(", ")),
        };
        faults.push(query_fault(
            name,
            "not_allowed",
            "is not an allowed value",
            &fix,
        ));
    }
    found
}

pub(crate) fn query_fault(name: &str, code: &str, message: &str, fix: &str) -> FieldError {
    FieldError::new(format!("?{name}"), code, message, fix)
}
