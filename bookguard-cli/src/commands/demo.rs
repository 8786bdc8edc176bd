//! `bookguard demo`: the whole product once, for real, on a temporary database.
//!
//! The demo works as a partner would: over HTTP, with a receiver that checks signatures, and with a packet that is verified
//! after the server has stopped. Invariant: every printed claim was checked. A claim that fails ends the demo with its exit
//! code. The temporary database is removed in any case; the evidence stays, for a person to open.

mod erasing;
pub(super) mod receiver;
mod sharing;

use std::path::Path;
use std::time::{Duration, Instant};

use bookguard_core::clock::Clock;
use bookguard_core::evidence;
use bookguard_core::features::bookings::{CreateBooking, GetBooking, ProtectBooking};
use bookguard_core::features::cancellations::CancelBooking;
use bookguard_core::features::endpoints::CreateEndpoint;
use bookguard_core::features::evaluations::EvaluatePolicy;
use bookguard_core::features::events::ListBookingEvents;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::items::AddEvidenceItem;
use bookguard_core::features::items::files::{GetItemFile, PutItemFile, digest_of};
use bookguard_core::features::partners::RegisterPartner;
use bookguard_core::features::partners::Registration;
use bookguard_core::limits::DAY_MS;
use bookguard_core::model::{Amount, DeliveryStatus, Event, EventType};
use bookguard_core::operation::Operation;
use bookguard_core::policy::{Evaluation, Reason};
use bookguard_core::webhook::Secret;
use bookguard_render::{Maker, PdfForm, page};
use bookguard_server::config::Config;
use bookguard_server::courier::address::AddressRules;
use bookguard_server::{Server, logging};
use serde_json::json;
use tempfile::TempDir;

use super::declare::{Call, CliCommand, alone};
use super::evaluations::policy_evaluation;
use super::verify::lines;
use crate::failure::Failure;
use crate::output::table::{Style, leaf, money, time};
use crate::output::{print, say};
use crate::target::remote::Remote;
use crate::target::{curl, request, sending};
use receiver::DemoReceiver;

/// How long a webhook may take to arrive and to be recorded.
const PATIENCE: Duration = Duration::from_secs(10);
const TALENT: &str = "Mara Quint Trio";
const ORGANIZER: &str = "Lakeside Festival";

pub(super) fn command() -> CliCommand {
    let about = "Show everything once, end to end, on a temporary database";
    alone("demo", about, run)
}

/// Runs the demo.
///
/// # Errors
/// The failure of the first step that does not do what it says.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let begun = Instant::now();
    let scratch = scratch("bookguard-demo-")?;
    let mut signals = bookguard_server::signals().map_err(Failure::Unexpected)?;
    let interrupted = async {
        signals.recv().await;
        Failure::Unexpected("the demo was interrupted".to_owned())
    };
    let done = steps(call.screen.style, scratch.path(), interrupted).await;
    drop(scratch);
    done?;
    print(&format!(
        "\nEvery step succeeded, in {:.1} s; the temporary database is gone, the evidence is kept.\n\n{}",
        begun.elapsed().as_secs_f64(),
        go_on()
    ))
}

/// A temporary directory that only this user can read, removed when dropped.
pub(super) fn scratch(prefix: &str) -> Result<TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let made = builder.tempdir();
    made.map_err(|e| Failure::Unexpected(format!("no temporary directory can be made: {e}")))
}

/// Prints numbered steps.
struct Steps {
    style: Style,
    number: u32,
}

impl Steps {
    fn done(&mut self, what: &str, detail: &str) -> Result<(), Failure> {
        self.number += 1;
        let indented = detail
            .lines()
            .map(|line| format!("\n{}", format!("      {line}").trim_end()))
            .collect::<String>();
        print(&format!(
            "{:>3}. {}{indented}",
            self.number,
            self.style.bold(what)
        ))
    }
}

/// Invariant: the server has stopped before this returns, so that nobody misses the files that are removed next.
async fn steps(
    style: Style,
    folder: &Path,
    interrupted: impl Future<Output = Failure>,
) -> Result<(), Failure> {
    print(&format!(
        "Bookguard from end to end, on a temporary database in {}\n\n",
        folder.display()
    ))?;
    let mut step = Steps { style, number: 0 };
    let server = start(folder).await?;
    let walked = tokio::select! {
        walked = walk(&server, &mut step) => walked,
        why = interrupted => Err(why),
    };
    server.stop().await;
    let Walked { packet, key } = walked?;
    let what = "Server stopped: only the packet and the log's verifier key remain";
    step.done(what, "")?;
    verify_offline(&packet, &key, &mut step)?;
    write_documents(&packet, &key, &mut step)
}

async fn start(folder: &Path) -> Result<Server, Failure> {
    logging::only_warnings();
    let config = Config {
        listen: "127.0.0.1:0".to_owned(),
        webhooks: AddressRules::dev(),
        verifies_endpoints: false,
        map_interval: Duration::from_secs(1),
        ..Config::of(folder.join("bookguard.db"))
    };
    Ok(Server::start(config).await?)
}

/// The things that are left once the server has stopped.
struct Walked {
    packet: Vec<u8>,
    key: String,
}

/// The booking that the demo shows, and who works on it.
struct DemoBooking<'d> {
    remote: Remote,
    receiver: DemoReceiver,
    /// The booking's id.
    booking: String,
    step: &'d mut Steps,
}

/// Runs everything that needs the server.
async fn walk(server: &Server, step: &mut Steps) -> Result<Walked, Failure> {
    step.done("Server up", &format!("{}, one SQLite file", server.url()))?;
    let partner = register(server, step).await?;
    let (Some(api_key), Some(secret)) = (partner.api_key, partner.signing_secret) else {
        let why = "the registration gave no credentials";
        return Err(Failure::BadAnswer(why.to_owned()));
    };
    let remote = Remote::new(&server.url(), Some(api_key))?;
    let receiver = DemoReceiver::start(Secret::new(secret)).await?;
    let endpoint = call::<CreateEndpoint>(&remote, &[], json!({ "url": receiver.url() })).await?;
    let endpoint_id = endpoint.endpoint.endpoint_id;
    let detail = format!("{}, registered as {endpoint_id}", receiver.url());
    step.done("Webhook receiver up", &detail)?;

    let booking = record(&remote, step).await?;
    let mut demo = DemoBooking {
        remote,
        receiver,
        booking,
        step,
    };
    demo.received(EventType::BookingCreated).await?;
    let protected = demo.ask::<ProtectBooking>(json!(null)).await?;
    let receipt = &protected.receipt;
    let (leaf, log) = (leaf(receipt), &receipt.log_origin);
    let detail = format!("leaf {leaf} in the log {log}\nroot {}", receipt.root_hash);
    demo.step.done("Booking protected", &detail)?;
    demo.received(EventType::BookingProtected).await?;
    demo.add_contract().await?;
    let shown = demo.evaluate().await?;
    demo.cancel(&shown).await?;
    demo.received(EventType::ResolutionCreated).await?;
    demo.delivered().await?;

    let packet = demo.complete().await?;
    let key = demo.remote.text("/v1/ledger/key").await?;
    let key = key.trim().to_owned();
    let bytes = packet.len();
    let detail = format!(
        "{bytes} bytes, with the proof that no entry is left out; the log's verifier key is {key}"
    );
    demo.step.done("Evidence packet fetched", &detail)?;
    sharing::share(&mut demo, &key).await?;
    erasing::erase(&mut demo, &key).await?;
    demo.receiver.stop().await;
    Ok(Walked { packet, key })
}

async fn register(server: &Server, step: &mut Steps) -> Result<Registration, Failure> {
    let body = json!({
        "name": "Harbor Stage Bookings",
        "businessType": "talent marketplace",
        "contactEmail": "integration@harborstage.example",
    });
    let partner = call::<RegisterPartner>(&Remote::new(&server.url(), None)?, &[], body).await?;
    let (name, id) = (&partner.name, partner.partner_id);
    let detail = format!("{name} ({id}), with its first API key and signing secret");
    step.done("Partner registered", &detail)?;
    Ok(partner)
}

async fn record(remote: &Remote, step: &mut Steps) -> Result<String, Failure> {
    let event_date = Clock::System.now().plus_ms(21 * DAY_MS).floor_to_second();
    let body = json!({
        "talent": { "id": "artist-1042", "name": TALENT },
        "organizer": { "id": "org-77", "name": ORGANIZER },
        "eventType": "concert",
        "eventDate": event_date.to_string(),
        "timeZone": "America/New_York",
        "bookingValue": 4500,
        "currency": "USD",
        "policyId": "talent_standard",
    });
    let created = call::<CreateBooking>(remote, &[], body).await?;
    let booking_id = created.booking_id.to_string();
    let booking = call::<GetBooking>(remote, &[&booking_id], json!(null)).await?;
    let value = booking.value().map_or_else(String::new, money);
    let (id, event_type, date) = (
        booking.booking_id,
        &booking.event_type,
        time(booking.event_date),
    );
    let detail = format!("{id}: {event_type} on {date}, {value}");
    step.done("Booking recorded", &detail)?;
    Ok(booking_id)
}

impl DemoBooking<'_> {
    /// Calls an operation for the booking, with this body unless it is null.
    async fn ask<O: Operation>(&self, body: serde_json::Value) -> Result<O::Output, Failure> {
        call::<O>(&self.remote, &[&self.booking], body).await
    }

    /// Waits for a webhook and checks that it is the expected one, and signed.
    async fn received(&mut self, expected: EventType) -> Result<(), Failure> {
        let booking_id = &self.booking;
        let hook = self.receiver.next(PATIENCE).await?;
        let (is, of, expected) = (&hook.event_type, &hook.booking_id, expected.word());
        if is != expected || of != booking_id {
            return Err(Failure::Unexpected(format!(
                "the webhook is {is} for {of}, not {expected} for {booking_id}"
            )));
        }
        self.step.done(
            &format!("Webhook received: {}", hook.event_type),
            &format!("{}\nx-service-signature {}: verified with the library\nwebhook-signature {}: verified with the library", hook.event_id, hook.service_signature, hook.standard_signature),
        )
    }

    /// Waits until the service also shows all three events as delivered.
    async fn delivered(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let events = self.ask::<ListBookingEvents>(json!(null)).await?;
            let events = events.webhook_events;
            let is_delivered = |event: &Event| event.status == DeliveryStatus::Delivered;
            if events.len() == 3 && events.iter().all(is_delivered) {
                let lines = events.iter().map(|event| {
                    let (event_type, status) = (event.event_type.word(), event.status.word());
                    format!("{} {event_type}: {status}", event.event_id)
                });
                return self.step.done(
                    "Deliveries on record: each acceptance is a leaf of the ledger too",
                    &lines.collect::<Vec<_>>().join("\n"),
                );
            }
            if Instant::now() > until {
                let why = "the deliveries were received but never recorded as delivered";
                return Err(Failure::Unexpected(why.to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Records a signed contract as an evidence item, stores its file, and checks that the service has exactly that file.
    async fn add_contract(&mut self) -> Result<(), Failure> {
        let booking_id = self.booking.clone();
        let file = format!(
            "{ORGANIZER} books the {TALENT} for one concert.\nSigned by both sides. Reference {booking_id}.\n"
        );
        let body = json!({
            "kind": "contract",
            "title": "Signed contract",
            "sha256": digest_of(file.as_bytes()),
        });
        let added = self.ask::<AddEvidenceItem>(body).await?;
        let path = vec![booking_id, added.item.item_id.to_string()];
        let request = sending(path, file.as_bytes());
        let remote = &self.remote;
        let sent = remote.call::<PutItemFile>(request.clone()).await?.output;
        let stored = sent.file.as_ref().map(|file| file.bytes);
        let fetched = remote.file::<GetItemFile>(request).await?;
        if stored != Some(file.len() as u64) || fetched != file.as_bytes() {
            let why = "the service does not have the contract that was sent";
            return Err(Failure::Unexpected(why.to_owned()));
        }
        self.step.done(
            "Signed contract added to the evidence: its SHA-256 in the ledger, its file with the service",
            &format!(
                "{}, leaf {}, {} bytes\n{}",
                added.item.item_id,
                added.receipt.leaf_index,
                file.len(),
                digest_of(&fetched)
            ),
        )
    }

    async fn evaluate(&mut self) -> Result<Evaluation, Failure> {
        let answer = self.ask::<EvaluatePolicy>(json!(null)).await?;
        self.step.done(
            "Policy evaluated, as if the organizer canceled now",
            &policy_evaluation(&answer, Style::default()),
        )?;
        Ok(answer.evaluation)
    }

    /// Cancels with the shown result as `expected`, and checks that this result was recorded.
    async fn cancel(&mut self, shown: &Evaluation) -> Result<(), Failure> {
        let body = json!({
            "canceledBy": shown.canceled_by,
            "reason": Reason::ChangedPlans,
            "expected": {
                "refundMinorUnits": shown.refund.map(Amount::minor),
                "penaltyMinorUnits": shown.penalty.map(Amount::minor),
                "policyHash": shown.policy.as_ref().map(|policy| &policy.policy_hash),
            },
        });
        let resolution = self.ask::<CancelBooking>(body).await?;
        if resolution.evaluation.refund != shown.refund {
            let why = "the recorded refund is not the one that was shown";
            return Err(Failure::Unexpected(why.to_owned()));
        }
        self.step.done(
            "Booking canceled: exactly what was shown was recorded, once",
            &format!("{}\n{}", resolution.resolution_id, resolution.summary),
        )
    }

    /// The packet, once it shows that it is complete.
    async fn complete(&self) -> Result<Vec<u8>, Failure> {
        let until = Instant::now() + PATIENCE;
        let asked = request(&[&self.booking], &json!(null));
        loop {
            let packet = self.remote.call::<GetEvidence>(asked.clone()).await?;
            let read = packet.output.read();
            let read =
                read.map_err(|e| Failure::BadAnswer(format!("the packet cannot be read: {e}")))?;
            if read.completeness.is_some() {
                return Ok(packet.json.into_bytes());
            }
            if Instant::now() > until {
                let why = "The ledger was not mapped in time.".to_owned();
                return Err(Failure::Unexpected(why));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn verify_offline(packet: &[u8], key: &str, step: &mut Steps) -> Result<(), Failure> {
    let report = evidence::verify(packet, key);
    let text = lines(&report.checks, report.verified(), step.style);
    if !report.verified() {
        say(&text);
        let why = "The packet that the server gave does not verify.";
        return Err(Failure::NotVerified(why.to_owned()));
    }
    step.done("Packet verified offline", &text)?;

    let (at, from, to, tampered) = tamper(packet)?;
    let report = evidence::verify(&tampered, key);
    if report.verified() {
        let why = "A packet with a changed amount verifies, which must never happen.";
        return Err(Failure::NotVerified(why.to_owned()));
    }
    let failed: Vec<_> = report.failures().collect();
    let what = format!(
        "One byte of the packet changed, the first of bookingValue from {from} to {to} (offset {at}): \
         {} of {} checks fail, as they must",
        failed.len(),
        report.checks.len()
    );
    step.done(&what, &lines(failed, false, step.style))
}

/// Writes the packet, its key, the page and the PDF to a directory that stays.
fn write_documents(packet: &[u8], key: &str, step: &mut Steps) -> Result<(), Failure> {
    let fault = |e: &dyn std::fmt::Display| {
        Failure::Unexpected(format!("the evidence cannot be written: {e}"))
    };
    let text = std::str::from_utf8(packet).map_err(|e| fault(&e))?;
    let page = page::page(text, key, &Maker::default()).map_err(|e| fault(&e))?;
    let pdf = bookguard_render::pdf(text, key, PdfForm::Bank, &Maker::default());
    let pdf = pdf.map_err(|e| fault(&e))?;
    let folder = scratch("bookguard-demo-")?.keep();
    let mut written = String::new();
    for (name, bytes, what) in [
        (
            "evidence.html",
            page.as_bytes(),
            "a page that checks its packet in any browser, offline",
        ),
        ("evidence.pdf", &pdf, "what a card bank reads"),
        ("packet.json", packet, "the packet"),
        ("ledger.vkey", key.as_bytes(), "the log's verifier key"),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|e| fault(&e))?;
        written += &format!("{}  {what}\n", path.display());
    }
    step.done("Evidence written for people", &written)
}

/// The packet with the first digit of its booking's value changed: where, from what, to what.
fn tamper(packet: &[u8]) -> Result<(usize, char, char, Vec<u8>), Failure> {
    let name = b"\"bookingValue\":";
    let found = packet.windows(name.len()).position(|part| part == name);
    let at = found.map_or(packet.len(), |at| at + name.len());
    let Some(digit @ b'0'..=b'9') = packet.get(at).copied() else {
        let why = "the packet shows no bookingValue";
        return Err(Failure::BadAnswer(why.to_owned()));
    };
    let other = if digit == b'9' { b'8' } else { digit + 1 };
    let mut tampered = packet.to_vec();
    tampered[at] = other;
    Ok((at, char::from(digit), char::from(other), tampered))
}

/// Calls an operation for these ids, with this body unless it is null.
pub(super) async fn call<O: Operation>(
    remote: &Remote,
    ids: &[&str],
    body: serde_json::Value,
) -> Result<O::Output, Failure> {
    Ok(remote.call::<O>(request(ids, &body)).await?.output)
}

/// The commands for continuing by hand. They work as printed, pasted one by one or all at once.
fn go_on() -> String {
    let program = program();
    format!(
        r#"To continue by hand, on a database of your own in this directory:

  export BOOKGUARD_DB=./bookguard.db
  PARTNER=$({program} partners register --name 'My platform' --business-type marketplace --contact-email me@example.com --output json | sed 's/.*"partnerId":"\([^"]*\)".*/\1/')
  BOOKING=$({program} bookings create --partner $PARTNER --talent-id 1 --talent-name 'Mara Quint Trio' --organizer-id 2 --organizer-name 'Lakeside Festival' --event-type concert --event-date 2030-06-01T20:00:00-04:00 --time-zone America/New_York --value 4500 --policy-id talent_standard --output json | sed 's/.*"bookingId":"\([^"]*\)".*/\1/')
  {program} bookings protect $BOOKING
  {program} bookings evaluate $BOOKING --matrix
  {program} bookings cancel $BOOKING --canceled-by organizer --reason changed_plans --yes
  {program} evidence get $BOOKING > packet.json
  {program} evidence verify packet.json --key "$({program} ledger key)"
  {program} ledger verify
  {program} serve --dev    # the same over HTTP; its documentation: http://127.0.0.1:8080/docs"#
    )
}

/// The program, as a shell calls it.
pub(super) fn program() -> String {
    let name = std::env::args_os().next().map_or_else(
        || "bookguard".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    quoted(&name)
}

fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match !word.is_empty() && word.chars().all(safe) {
        true => word.to_owned(),
        false => curl::quoted(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_byte_is_changed() {
        let packet = br#"{"booking":{"bookingValue":4500}}"#;
        let (at, from, to, tampered) = tamper(packet).unwrap();
        assert_eq!((at, from, to), (27, '4', '5'));
        assert_eq!(tampered, br#"{"booking":{"bookingValue":5500}}"#);
        assert!(tamper(b"{}").is_err());
        assert!(tamper(br#"{"bookingValue":"#).is_err());
    }

    #[test]
    fn the_programs_name_survives_a_shell() {
        for (name, shown) in [
            ("target/debug/bookguard", "target/debug/bookguard"),
            ("/a b/it's", r"'/a b/it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(name), shown);
        }
    }
}
