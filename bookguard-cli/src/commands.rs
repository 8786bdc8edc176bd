//! What each command does: it asks an operation, wherever its target is, and shows the answer.
//!
//! No rule is here; a request goes out as it was typed and the core says what is wrong with it.

mod accept_rollback;
mod acceptances;
mod api_keys;
mod backup;
mod bookings;
mod cancel;
mod cli;
mod demo;
mod endpoints;
mod events;
mod listen;
mod mcp;
mod new_booking;
mod partners;
mod policies;
mod prune;
mod recoveries;
mod reschedules;
mod serve;
mod tail;
mod transfer;
mod trigger;
mod verify;
mod verify_ledger;

pub use cli::Cli;
use verify::{Check, lines};

use bookguard_core::features;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::health::GetHealth;
use bookguard_core::operation::Request;
use clap::CommandFactory as _;
use serde_json::json;
use tokio::task::block_in_place;

use crate::args::{Format, GlobalArgs, OnceArgs, PageArgs};
use crate::failure::Failure;
use crate::output::{self, Screen, nouns};
use crate::settings::{self, environment};
use crate::target::{Purpose, Target};
use cli::{
    Command, EndpointsCommand, EventsCommand, EvidenceCommand, LedgerCommand, RotationArgs,
    WebhookCommand,
};
use partners::PartnersCommand;

/// Does what the command line says.
pub async fn run(cli: Cli, screen: &Screen) -> Result<(), Failure> {
    let place = cli.place;
    match cli.command {
        Command::Serve(args) => serve::run(&place, &args).await,
        Command::Demo => demo::run(screen.style).await,
        Command::Evidence(EvidenceCommand::Verify { packet, key }) => {
            verify::packet(&packet, &key, screen)
        }
        Command::Webhook(WebhookCommand::Verify(args)) => verify::webhook(&args, screen),
        Command::Transfer(args) => transfer::run(&place, &args, screen),
        Command::Backup { file } => backup::run(&place, &file, screen),
        Command::Policies(command) if policies::needs_nothing(&place, &command) => {
            policies::without_target(&command, screen)
        }
        Command::Openapi => screen.json(bookguard_server::openapi_json()),
        Command::Completions { shell } => completions(shell),
        command => on_target(&place, command, screen).await,
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    // Into memory first: the generator panics where a pipe breaks.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bookguard", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Opens the target, calls it, and closes it whatever came of it.
async fn on_target(place: &GlobalArgs, command: Command, screen: &Screen) -> Result<(), Failure> {
    let purpose = match &command {
        Command::Partners(PartnersCommand::Register { .. }) => Purpose::Begin,
        Command::WebhookEvents(EventsCommand::Retry { .. })
        | Command::WebhookEndpoints(EndpointsCommand::Test { .. })
        | Command::Mcp => Purpose::Wait,
        _ => Purpose::Work,
    };
    let target = Target::open(settings::place(place, &environment)?, purpose)?;
    let done = call(&target, command, screen).await;
    target.close().await;
    done
}

async fn call(target: &Target, command: Command, screen: &Screen) -> Result<(), Failure> {
    match command {
        Command::Health => screen.show(
            &target.call::<GetHealth>(Request::default()).await?,
            nouns::health,
        ),
        Command::Partners(command) => partners::run(target, command, screen).await,
        Command::ApiKeys(command) => api_keys::run(target, command, screen).await,
        Command::Bookings(command) => bookings::run(target, command, screen).await,
        Command::Policies(command) => policies::run(target, command, screen).await,
        Command::Resolutions(command) => cancel::resolutions(target, command, screen).await,
        Command::WebhookEndpoints(command) => endpoints::run(target, command, screen).await,
        Command::WebhookEvents(command) => events::run(target, command, screen).await,
        Command::Listen(args) => listen::run(target, args, screen).await,
        Command::Mcp => mcp::run(target).await,
        Command::Trigger { event_type } => trigger::run(target, event_type, screen).await,
        Command::Evidence(EvidenceCommand::Get { booking_id }) => {
            evidence(target, &booking_id, screen).await
        }
        Command::Ledger(command) => ledger(target, command, screen).await,
        Command::Serve(_)
        | Command::Demo
        | Command::Evidence(EvidenceCommand::Verify { .. })
        | Command::Webhook(_)
        | Command::Transfer(_)
        | Command::Backup { .. }
        | Command::Openapi
        | Command::Completions { .. } => {
            unreachable!("these need no target and were run before one was opened")
        }
    }
}

/// The request for another signing secret.
fn rotation(request: Request, args: RotationArgs) -> Request {
    let body = with(json!({}), "overlapSeconds", args.overlap_seconds);
    let request = Request {
        body: with_body(body).body,
        ..request
    };
    once_only(request, args.once)
}

async fn evidence(target: &Target, booking_id: &str, screen: &Screen) -> Result<(), Failure> {
    let answer = target.call::<GetEvidence>(at(booking_id)).await?;
    let packet = answer.output.read().map_err(|e| {
        Failure::BadAnswer(format!(
            "the answer is not an evidence packet ({e}). Does the server run this version?"
        ))
    })?;
    screen.show(&answer, |_, style| {
        output::bookings::evidence(&packet, style)
    })
}

async fn ledger(target: &Target, command: LedgerCommand, screen: &Screen) -> Result<(), Failure> {
    match command {
        LedgerCommand::Verify { backup } => {
            verify_ledger::run(target.database("ledger verify")?.service(), backup, screen)
        }
        LedgerCommand::AcceptRollback { yes } => {
            let database = target.database("ledger accept-rollback")?;
            accept_rollback::run(database.service(), yes, screen).await
        }
        LedgerCommand::Checkpoint => {
            let note = match target {
                Target::Local(local) => {
                    block_in_place(|| features::ledger::checkpoint(local.service()))?
                }
                Target::Remote(remote) => remote.text("/v1/ledger/checkpoint").await?,
            };
            text("checkpoint", &note, screen)
        }
        LedgerCommand::Key => {
            let key = match target {
                Target::Local(local) => block_in_place(|| features::ledger::vkey(local.service()))?,
                Target::Remote(remote) => remote.text("/v1/ledger/key").await?,
            };
            text("key", key.trim_end_matches('\n'), screen)
        }
    }
}

/// A document that is text, not JSON: as it is for people and files that asked for nothing else, in JSON for programs.
fn text(name: &str, document: &str, screen: &Screen) -> Result<(), Failure> {
    match screen.explicit {
        Some(Format::Json) => screen.json(&json!({ name: document }).to_string()),
        _ => output::print(document),
    }
}

/// A request for what this id names.
fn at(id: &str) -> Request {
    Request {
        path: vec![id.to_owned()],
        ..Request::default()
    }
}

fn page(args: PageArgs) -> Request {
    let mut request = Request::default();
    add(&mut request, "limit", args.limit);
    add(&mut request, "cursor", args.cursor);
    request
}

fn add(request: &mut Request, name: &str, value: Option<String>) {
    request
        .query
        .extend(value.map(|value| (name.to_owned(), value)));
}

fn with_body(body: serde_json::Value) -> Request {
    Request {
        body: body.to_string().into_bytes(),
        ..Request::default()
    }
}

fn once_only(request: Request, once: OnceArgs) -> Request {
    Request {
        idempotency_key: once.idempotency_key,
        ..request
    }
}

/// The object with one member more, if there is a value.
fn with<T: Into<serde_json::Value>>(
    mut object: serde_json::Value,
    name: &str,
    value: Option<T>,
) -> serde_json::Value {
    if let Some(value) = value {
        object[name] = value.into();
    }
    object
}
