//! `listen`: posts a partner's events, as they happen, to an address of the developer's own machine.
//!
//! The events are read from the log of the user's own server or database, so no tunnel and no third party is needed, and no
//! endpoint is registered. They are signed like deliveries, with a secret that stays the same. Invariants: an event is
//! posted once, in the order of the log; the receiver's answer changes nothing at the service.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bookguard_core::clock::Clock;
use bookguard_core::model::{Event, EventType};
use bookguard_core::operation::Request;
use bookguard_core::private;
use bookguard_core::webhook::{Secret, sign_body, sign_standard};
use bookguard_server::tls::PRODUCT;
use clap::Args;
use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::{Client, Url};
use serde::Serialize;
use serde_json::json;

use super::declare::{Call, CliCommand, add, special};
use super::draft::why_unwritten;
use super::events::in_words;
use super::tail::Following;
use super::verify::given_secret;
use crate::failure::Failure;
use crate::files::named;
use crate::http;
use crate::output;
use crate::output::table::Style;
use crate::text::plain;

/// The time a receiver has, the same as for a delivery.
const ATTEMPT: Duration = Duration::from_millis(bookguard_core::limits::ATTEMPT_MS);

pub(super) fn command() -> CliCommand {
    let about = "Post events to an address, such as one of this machine, as they happen, signed, for development; until it is stopped";
    special("listen", about, run).with::<ListenArgs>()
}

/// The arguments of `listen`.
#[derive(Debug, Args)]
struct ListenArgs {
    /// Where to post each event, such as http://127.0.0.1:3000/webhooks
    #[arg(long, value_name = "ADDRESS", required_unless_present = "print_secret")]
    forward_to: Option<String>,
    /// Only these types, separated by commas
    #[arg(long, value_delimiter = ',')]
    events: Vec<String>,
    /// Begin after the event with this number; 0 for all [default: latest]
    #[arg(long)]
    after: Option<String>,
    /// Keep each event's body as a file in this folder
    #[arg(long, value_name = "FOLDER", value_parser = named())]
    save: Option<PathBuf>,
    /// Print the secret that events are signed with, and exit
    #[arg(long)]
    print_secret: bool,
    /// A file with the secret to sign with [or BOOKGUARD_WEBHOOK_SECRET in the environment] [default: one of the API key's
    /// own; on a database the partner's]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

/// Posts events until it is stopped.
///
/// # Errors
/// [`Failure::Usage`] for an invalid address, type or folder, and the errors of [`Following::next`].
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let (target, args) = (call.target(), call.args::<ListenArgs>()?);
    let secret = match given_secret(args.secret_file.as_deref())? {
        Some(secret) => secret,
        None => target.own_secret()?,
    };
    if args.print_secret {
        return output::print(secret.reveal());
    }
    let mut lines = call.screen.lines()?;
    let poster = Poster::new(args.forward_to.as_deref().unwrap_or_default(), secret)?;
    let types = types(&args.events)?;
    if let Some(folder) = &args.save {
        fs::create_dir_all(folder).map_err(|e| not_made(folder, &e))?;
    }
    output::say(&format!(
        "posting events to {} (the secret they are signed with: listen --print-secret)",
        poster.url
    ));
    let mut request = Request::default();
    add(&mut request, "after", args.after);
    let mut following = Following::new(target, request);
    loop {
        for event in following.next().await? {
            if !types.is_empty() && !types.contains(&event.event_type) {
                continue;
            }
            let posted = match body(&event) {
                Some(body) => {
                    if let Some(folder) = &args.save {
                        save(folder, &event, &body)?;
                    }
                    poster.post(&event, body).await
                }
                None => Posted::pruned(&event),
            };
            lines.show(&posted, |style| posted.line(&event, style))?;
        }
    }
}

fn types(words: &[String]) -> Result<Vec<EventType>, Failure> {
    let known = EventType::WORDS;
    let read = |word: &String| {
        let found = known.iter().find(|(known, _)| known == word);
        found.map(|(_, event_type)| *event_type).ok_or_else(|| {
            let all: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            Failure::Usage(format!(
                "--events: \"{}\" is not a type of event; the types are {}",
                plain(word),
                all.join(", ")
            ))
        })
    };
    words.iter().map(read).collect()
}

/// The body of a delivery, from the event's members of the same names; `None` once it was deleted.
fn body(event: &Event) -> Option<Vec<u8>> {
    if event.pruned_at.is_some() {
        return None;
    }
    let body = json!({
        "eventId": event.event_id,
        "type": event.event_type,
        "bookingId": event.booking_id,
        "timestamp": event.timestamp,
        "status": "pending",
        "payload": event.payload,
        "seq": event.seq,
    });
    Some(body.to_string().into_bytes())
}

/// Writes a file whole or not at all, so a file that exists is complete. It holds personal data, so only its owner can read it.
fn save(folder: &Path, event: &Event, body: &[u8]) -> Result<(), Failure> {
    let name = format!("{:08}-{}.json", event.seq, event.event_type.word());
    private::place(private::options(), folder, &name, body)
        .map_err(|e| Failure::Unexpected(why_unwritten(&folder.join(&name), &e)))
}

/// A folder that cannot be made is a wrong argument, but not if the disk is full.
fn not_made(folder: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Failure::Unexpected(why_unwritten(folder, error))
        }
        _ => Failure::Usage(format!("{} cannot be written: {error}", folder.display())),
    }
}

/// Posts to one address and signs with one secret.
struct Poster {
    url: Url,
    client: Client,
    secret: Secret,
}

/// The outcome of one event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    event_id: String,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    duration_ms: u128,
}

impl Poster {
    fn new(address: &str, secret: Secret) -> Result<Self, Failure> {
        let url = Url::parse(address).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| {
            Failure::Usage(format!(
                "--forward-to: \"{}\" is not an address; give one such as http://127.0.0.1:3000/webhooks",
                plain(address)
            ))
        })?;
        let client = http::client(true, |client| client.timeout(ATTEMPT))?;
        Ok(Self {
            url,
            client,
            secret,
        })
    }

    async fn post(&self, event: &Event, body: Vec<u8>) -> Posted {
        let began = Instant::now();
        let (status_code, error) = match self.attempt(event, body).await {
            Ok(status) => (Some(status), None),
            Err(why) => (None, Some(why)),
        };
        Posted {
            event_id: event.event_id.to_string(),
            seq: event.seq,
            status_code,
            error,
            duration_ms: began.elapsed().as_millis(),
        }
    }

    async fn attempt(&self, event: &Event, body: Vec<u8>) -> Result<u16, String> {
        let id = event.event_id.to_string();
        let sent = Clock::System.now().unix_seconds();
        let standard = sign_standard(&self.secret, &id, sent, &body).map_err(|e| e.to_string())?;
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, http::JSON)
            .header(USER_AGENT, PRODUCT)
            .header("x-service-signature", sign_body(&self.secret, &body))
            .header("webhook-id", id)
            .header("webhook-timestamp", sent)
            .header("webhook-signature", standard)
            .body(body);
        let answer = request.send().await.map_err(|e| cause(&e))?;
        Ok(answer.status().as_u16())
    }
}

fn cause(error: &reqwest::Error) -> String {
    match error.is_timeout() {
        true => format!("no answer within {} s", ATTEMPT.as_secs()),
        false => http::cause(error),
    }
}

impl Posted {
    /// The outcome of an event that was pruned and cannot be posted.
    fn pruned(event: &Event) -> Self {
        Self {
            event_id: event.event_id.to_string(),
            seq: event.seq,
            status_code: None,
            error: Some("not posted: its payload was deleted, because it is too old or its booking's data were erased".to_owned()),
            duration_ms: 0,
        }
    }

    fn line(&self, event: &Event, style: Style) -> String {
        let outcome = match (&self.status_code, &self.error) {
            (Some(status), _) => format!("{status} in {} ms", self.duration_ms),
            (None, error) => format!("failed: {}", plain(error.as_deref().unwrap_or("unknown"))),
        };
        format!("{}  {outcome}", in_words(event, style))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_words_of_the_interface() {
        let words =
            |words: &[&str]| types(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            words(&["booking.created", "resolution.created"]).unwrap(),
            [EventType::BookingCreated, EventType::ResolutionCreated]
        );
        let Err(Failure::Usage(why)) = words(&["booking.made"]) else {
            panic!("it was taken")
        };
        assert!(
            why.contains("booking.made") && why.contains("booking.protected"),
            "{why}"
        );
    }

    #[test]
    fn an_address_is_one_that_can_be_posted_to() {
        let secret = || Secret::from_bytes([1; 32]);
        for bad in [
            "",
            "localhost:3000",
            "ftp://127.0.0.1/",
            "/hooks",
            "http://",
        ] {
            assert!(
                matches!(Poster::new(bad, secret()), Err(Failure::Usage(_))),
                "{bad}"
            );
        }
        assert!(Poster::new("http://127.0.0.1:3000/hooks", secret()).is_ok());
    }
}
