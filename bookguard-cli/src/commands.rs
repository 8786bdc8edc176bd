//! What each command does: it asks an operation, wherever its target is, and shows the answer.
//!
//! No rule is here; a request goes out as it was typed and the core says what is wrong with it.

mod accept_rollback;
mod backup;
mod cancel;
mod endpoints;
mod listen;
mod mcp;
mod new_booking;
mod policies;
mod prune;
mod recover;
mod reschedule;
mod tail;
mod transfer;
mod trigger;
mod verify;
mod verify_ledger;

pub use verify::{Check, lines};

use bookguard_core::features;
use bookguard_core::features::acceptances::GetDisclosure;
use bookguard_core::features::api_keys::{CreateApiKey, ListApiKeys, RevokeApiKey};
use bookguard_core::features::bookings::{CreateBooking, GetBooking, ListBookings, ProtectBooking};
use bookguard_core::features::endpoints::secrets::RotatePartnerSecret;
use bookguard_core::features::events::log::{ListAllEvents, ListEvents};
use bookguard_core::features::events::{GetEvent, RetryEvent};
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::health::GetHealth;
use bookguard_core::features::partners::{
    ApprovePartner, GetPartner, ListPartners, RegisterPartner, SetQuota, UpdatePartner,
};
use bookguard_core::model::DeliveryStatus;
use bookguard_core::operation::Request;
use bookguard_server::config::bytes::Bytes;
use clap::CommandFactory as _;
use serde_json::json;
use tokio::task::block_in_place;

use crate::args::{
    ApiKeysCommand, BookingsCommand, Cli, Command, EndpointsCommand, EventsArgs, EventsCommand,
    EvidenceCommand, Format, GlobalArgs, LedgerCommand, OnceArgs, PageArgs, PartnerQuotaArgs,
    PartnerUpdateArgs, PartnersCommand, RotationArgs, WebhookCommand,
};
use crate::failure::Failure;
use crate::output::{self, Screen, bookings, events, nouns, reschedules};
use crate::settings::{self, environment};
use crate::target::{Purpose, Target};
use crate::{demo, serve};

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
        Command::Partners(command) => partners(target, command, screen).await,
        Command::ApiKeys(command) => api_keys(target, command, screen).await,
        Command::Bookings(command) => booking(target, command, screen).await,
        Command::Policies(command) => policies::run(target, command, screen).await,
        Command::Resolutions(command) => cancel::resolutions(target, command, screen).await,
        Command::WebhookEndpoints(command) => endpoints::run(target, command, screen).await,
        Command::WebhookEvents(command) => webhook_events(target, command, screen).await,
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

async fn partners(
    target: &Target,
    command: PartnersCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        PartnersCommand::Register {
            name,
            business_type,
            contact_email,
            website,
            once,
        } => {
            let body = json!({ "name": name, "businessType": business_type, "contactEmail": contact_email });
            let request = once_only(with_body(with(body, "website", website)), once);
            screen.show(
                &target.call::<RegisterPartner>(request).await?,
                nouns::registration,
            )
        }
        PartnersCommand::List { status, page: args } => {
            let mut request = page(args);
            add(&mut request, "status", status);
            screen.show(
                &target.call::<ListPartners>(request).await?,
                nouns::partners,
            )
        }
        PartnersCommand::Approve { partner_id } => screen.show(
            &target.call::<ApprovePartner>(at(&partner_id)).await?,
            nouns::registration,
        ),
        PartnersCommand::Me => screen.show(
            &target.call::<GetPartner>(Request::default()).await?,
            nouns::account,
        ),
        PartnersCommand::Quota(args) => {
            let request = Request {
                body: with_body(quota(&args)?).body,
                ..at(&args.partner_id)
            };
            screen.show(&target.call::<SetQuota>(request).await?, nouns::account)
        }
        PartnersCommand::RotateSecret(args) => screen.show(
            &target
                .call::<RotatePartnerSecret>(rotation(Request::default(), args))
                .await?,
            nouns::rotated_secret,
        ),
        PartnersCommand::Update(args) => screen.show(
            &target
                .call::<UpdatePartner>(with_body(decisions(args)?))
                .await?,
            nouns::account,
        ),
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

/// What changes of a partner's quota.
fn quota(args: &PartnerQuotaArgs) -> Result<serde_json::Value, Failure> {
    let mut changes = serde_json::Map::new();
    for (flag, name, said) in [
        ("--bookings", "bookings", &args.bookings),
        ("--bytes", "bytes", &args.bytes),
        ("--events-per-day", "eventsPerDay", &args.events_per_day),
        ("--endpoints", "endpoints", &args.endpoints),
    ] {
        let Some(said) = said else { continue };
        let limit = match said.as_str() {
            "default" => serde_json::Value::Null,
            size if name == "bytes" => size
                .parse::<Bytes>()
                .map_err(|why| Failure::Usage(format!("{flag}: {why}")))?
                .0
                .into(),
            number => number
                .parse::<u64>()
                .map_err(|_| {
                    Failure::Usage(format!(
                        "{flag} is \"{number}\"; write a whole number, 0 for no limit, or default"
                    ))
                })?
                .into(),
        };
        changes.insert(name.to_owned(), limit);
    }
    Ok(changes.into())
}

/// The body of `PATCH /v1/partners/me`.
fn decisions(args: PartnerUpdateArgs) -> Result<serde_json::Value, Failure> {
    let mut defaults = serde_json::Map::new();
    for pair in args.default_policies {
        let (event_type, policy) = pair.split_once('=').ok_or_else(|| {
            Failure::Usage(format!(
                "--default-policy \"{pair}\" is not of the form EVENT_TYPE=POLICY; write it like concert=house"
            ))
        })?;
        if defaults
            .insert(event_type.to_owned(), policy.into())
            .is_some()
        {
            return Err(Failure::Usage(format!(
                "--default-policy names \"{event_type}\" more than once"
            )));
        }
    }
    for event_type in args.no_default_policies {
        if defaults
            .insert(event_type.clone(), serde_json::Value::Null)
            .is_some()
        {
            return Err(Failure::Usage(format!(
                "--default-policy and --no-default-policy both name \"{event_type}\""
            )));
        }
    }
    let mut body = json!({});
    if !defaults.is_empty() {
        body["defaultPolicies"] = defaults.into();
    }
    match args.time_zone {
        Some(zone) => body["timeZone"] = zone.into(),
        None if args.no_time_zone => body["timeZone"] = serde_json::Value::Null,
        None => {}
    }
    Ok(body)
}

async fn api_keys(
    target: &Target,
    command: ApiKeysCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        ApiKeysCommand::Create { name, scopes, once } => {
            let scopes = (!scopes.is_empty()).then_some(scopes);
            let request = once_only(
                with_body(with(with(json!({}), "name", name), "scopes", scopes)),
                once,
            );
            screen.show(&target.call::<CreateApiKey>(request).await?, nouns::new_key)
        }
        ApiKeysCommand::List(args) => {
            screen.show(&target.call::<ListApiKeys>(page(args)).await?, nouns::keys)
        }
        ApiKeysCommand::Revoke { api_key_id } => screen.show(
            &target.call::<RevokeApiKey>(at(&api_key_id)).await?,
            nouns::key,
        ),
    }
}

async fn booking(
    target: &Target,
    command: BookingsCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        BookingsCommand::Create(args) => {
            let request = Request {
                body: new_booking::body(&args)?,
                ..Request::default()
            };
            screen.show(
                &target
                    .call::<CreateBooking>(once_only(request, args.once))
                    .await?,
                bookings::created,
            )
        }
        BookingsCommand::Get { booking_id } => screen.show(
            &target.call::<GetBooking>(at(&booking_id)).await?,
            bookings::booking,
        ),
        BookingsCommand::List {
            status,
            event_from,
            event_to,
            page: args,
        } => {
            let mut request = page(args);
            add(&mut request, "status", status);
            add(&mut request, "eventFrom", event_from);
            add(&mut request, "eventTo", event_to);
            screen.show(
                &target.call::<ListBookings>(request).await?,
                bookings::bookings,
            )
        }
        BookingsCommand::Protect { booking_id, once } => screen.show(
            &target
                .call::<ProtectBooking>(once_only(at(&booking_id), once))
                .await?,
            bookings::protected,
        ),
        BookingsCommand::Reschedule(args) => reschedule::reschedule(target, *args, screen).await,
        BookingsCommand::Disclosure { booking_id } => screen.show(
            &target.call::<GetDisclosure>(at(&booking_id)).await?,
            reschedules::disclosure,
        ),
        BookingsCommand::Accept(args) => reschedule::accept(target, *args, screen).await,
        BookingsCommand::Evaluate(args) => cancel::evaluate(target, args, screen).await,
        BookingsCommand::Cancel(args) => cancel::run(target, &args, screen).await,
    }
}

async fn webhook_events(
    target: &Target,
    command: EventsCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        EventsCommand::List {
            which,
            wait,
            limit,
            cursor,
        } => {
            let mut request = events_of(&which);
            add(&mut request, "wait", wait);
            add(&mut request, "limit", limit);
            add(&mut request, "cursor", cursor);
            if target.is_for_all() && which.booking.is_none() {
                screen.show(
                    &target.call::<ListAllEvents>(request).await?,
                    events::of_all,
                )
            } else {
                screen.show(&target.call::<ListEvents>(request).await?, events::log)
            }
        }
        EventsCommand::Tail { which } => tail::run(target, which, screen).await,
        EventsCommand::Get { event_id } => screen.show(
            &target.call::<GetEvent>(at(&event_id)).await?,
            events::event,
        ),
        EventsCommand::Retry { event_id, once } => {
            let request = once_only(at(&event_id), once);
            let answer = target.call::<RetryEvent>(request).await?;
            screen.show(&answer, events::retried)?;
            match answer.output.retry_status {
                DeliveryStatus::Failed => Err(Failure::NotDelivered(format!(
                    "The event was not accepted by every endpoint. See why with \"bookguard webhook-events get {event_id}\"."
                ))),
                _ => Ok(()),
            }
        }
        EventsCommand::Recover(args) => recover::run(target, args, screen).await,
        EventsCommand::Recoveries(command) => recover::show(target, command, screen).await,
        EventsCommand::Prune {
            older_than,
            dry_run,
        } => {
            let database = target.database("webhook-events prune")?;
            prune::run(database, older_than.as_deref(), dry_run, screen).await
        }
    }
}

async fn evidence(target: &Target, booking_id: &str, screen: &Screen) -> Result<(), Failure> {
    let answer = target.call::<GetEvidence>(at(booking_id)).await?;
    let packet = answer.output.read().map_err(|e| {
        Failure::BadAnswer(format!(
            "the answer is not an evidence packet ({e}). Does the server run this version?"
        ))
    })?;
    screen.show(&answer, |_, style| bookings::evidence(&packet, style))
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

fn events_of(which: &EventsArgs) -> Request {
    let mut request = Request::default();
    add(&mut request, "after", which.after.clone());
    add(&mut request, "type", which.event_type.clone());
    add(&mut request, "status", which.status.clone());
    add(&mut request, "bookingId", which.booking.clone());
    request
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
