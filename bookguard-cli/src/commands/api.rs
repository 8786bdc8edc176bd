//! `api`: any request to a server's interface, with the caller's key.

use std::path::PathBuf;

use clap::Args;
use reqwest::Method;

use super::declare::{Call, CliCommand, alone};
use crate::failure::Failure;
use crate::files::{self, REQUEST_BYTES};
use crate::settings::{self, Where, environment};
use crate::target::{Purpose, Target};

#[derive(Debug, Args)]
struct ApiArgs {
    /// GET, POST, PUT, PATCH or DELETE
    #[arg(value_parser = method)]
    method: Method,
    /// A path of the interface, such as /v1/bookings?limit=5
    path: String,
    /// The JSON to send, from a file or standard input
    #[arg(long, value_name = "FILE|-")]
    body: Option<PathBuf>,
    /// Makes a repetition of this write safe: the same key gets the same answer
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

fn method(word: &str) -> Result<Method, String> {
    let known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    let mut known = known.into_iter();
    known
        .find(|method| word.eq_ignore_ascii_case(method.as_str()))
        .ok_or_else(|| "must be GET, POST, PUT, PATCH or DELETE".to_owned())
}

pub(super) fn command() -> CliCommand {
    let about = "Send any request to a server's interface";
    alone("api", about, run).with::<ApiArgs>()
}

async fn run(call: Call<'_>) -> Result<(), Failure> {
    let needs_server = || {
        let why = "\"api\" sends a request to a server: name it with --url or BOOKGUARD_URL";
        Failure::Usage(why.to_owned())
    };
    let place = settings::place(call.place, &environment)?;
    // A database has no interface of this kind, and is not opened.
    if let Where::Database { .. } = place {
        return Err(needs_server());
    }
    let Target::Remote(server) = Target::open(place, Purpose::Work)? else {
        return Err(needs_server());
    };
    let ApiArgs {
        method,
        path,
        body,
        idempotency_key,
    } = call.args()?;
    let body = body.map(|file| files::bytes(&file, REQUEST_BYTES));
    let answer = server
        .any(method, &path, body.transpose()?, idempotency_key.as_deref())
        .await?;
    let answer = String::from_utf8(answer)
        .map_err(|_| Failure::BadAnswer(format!("{path} did not answer with text")))?;
    match serde_json::from_str::<serde::de::IgnoredAny>(&answer) {
        Ok(_) => call.screen.of_path().json(&answer),
        Err(_) if answer.is_empty() => Ok(()),
        Err(_) => call.screen.verbatim(&answer),
    }
}
