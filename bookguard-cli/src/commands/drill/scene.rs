//! The data that every way of tampering changes, recorded on a copy by the service itself; and the data that outsiders keep of it.
//!
//! The drill records partners, bookings and the rest of its own, so that every way has something to change in any database, and
//! stands in for the witness and the time-stamp authority.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bookguard_core::clock::Clock;
use bookguard_core::engine::command::{LeasedDelivery, Written};
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::evidence::{Timeline, TimestampRoots, verify_timeline};
use bookguard_core::features::api_keys::{CreateApiKey, RevokeApiKey};
use bookguard_core::features::bookings::{CreateBooking, ProtectBooking};
use bookguard_core::features::cosignatures::{WitnessPlace, WitnessTurn, claim, look, places};
use bookguard_core::features::deliveries::{ClaimDeliveries, SettleDelivery};
use bookguard_core::features::endpoints::CreateEndpoint;
use bookguard_core::features::epochs;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::items::AddEvidenceItem;
use bookguard_core::features::items::files::{PutItemFile, digest_of};
use bookguard_core::features::partners::{RegisterPartner, Registration};
use bookguard_core::features::policies::PutPolicy;
use bookguard_core::features::timestamps;
use bookguard_core::key_file::{LedgerKey, LedgerKeySource};
use bookguard_core::ledger::cosignature::Cosigner;
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::ledger::witness::{AddCheckpoint, WitnessRefusal, judge};
use bookguard_core::ledger::{Checkpoint, VerifierKey};
use bookguard_core::model::{BookingId, EndpointId, PartnerId, WitnessState};
use bookguard_core::operation::Operation;
use bookguard_core::service::ServiceConfig;
use bookguard_core::store::Database;
use bookguard_core::store::backup;
use bookguard_core::store::drill::{Backup, NAME, Scene};
use bookguard_core::webhook::{Attempt, Phase};
use bookguard_server::config::Config;
use bookguard_test_authority::{Authority, Chain};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::block_in_place;

use super::super::map_audit::LogAudit;
use super::super::{mirror, public_log};
use super::Files;
use crate::failure::Failure;
use crate::target::local::Local;
use crate::target::{request, sending};

/// More than the real ones ask for; nobody waits here.
const STAMPS_MS: i64 = 60_000;
const EVENT_DATE: &str = "2046-06-20T19:00:00Z";
/// The SHA-256 of an empty answer.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The file of the audit.
const AUDITED: &str = "audited.db";
const FILE: &[u8] = b"One night, two sets.\n";

/// The data that outsiders keep.
pub(super) struct Outside {
    /// The log's verifier key.
    pub key: VerifierKey,
    /// Packets of the bookings.
    pub packets: Vec<KeptPacket>,
    /// The folder of a monitor that looked last.
    pub mirror: PathBuf,
    /// The folder of one that only knows the stamped checkpoint.
    pub stamped: PathBuf,
    /// The roots of the authority that stamped it.
    pub roots: TimestampRoots,
    pub witness: DrillWitness,
    /// What an auditing witness has audited by then.
    pub audited: PathBuf,
}

/// A packet that somebody keeps.
pub(super) struct KeptPacket {
    pub partner: PartnerId,
    pub booking: BookingId,
    pub timeline: Timeline,
}

/// A witness, which answers here instead of over a network.
pub(super) struct DrillWitness {
    cosigner: Cosigner,
    place: WitnessPlace,
    pub policy: Arc<TrustPolicy>,
    /// The key of the log that it knows.
    log: Option<VerifierKey>,
    /// What it has cosigned last.
    latest: Option<Checkpoint>,
}

/// How a service opens these files: nothing of it is ever sent anywhere.
pub(super) fn opening(files: &Files, policy: Option<Arc<TrustPolicy>>) -> ServiceConfig {
    ServiceConfig {
        create: false,
        ledger_key: Some(LedgerKeySource::File(files.key.clone())),
        guard_file: Some(files.guard.clone()),
        verifies_endpoints: false,
        witnesses: policy,
        ..ServiceConfig::of(Database::File(files.db.clone()))
    }
}

pub(super) fn open(opening: ServiceConfig) -> Result<Local, Failure> {
    let config = Config::of(opening.db.clone());
    Local::over(opening, config, None)
}

/// Records a booking.
pub(super) async fn book(local: &Local, name: &str) -> Result<BookingId, Failure> {
    let body = json!({
        "talent": { "id": "t-1", "name": name },
        "organizer": { "id": "o-1", "name": "Drill Hall" },
        "eventType": "concert",
        "eventDate": EVENT_DATE,
        "timeZone": "America/New_York",
        "bookingValue": 1200.5,
        "currency": "USD",
        "policyId": "drill",
    });
    Ok(asked::<CreateBooking>(local, &[], &body).await?.booking_id)
}

pub(super) async fn asked<O: Operation>(
    local: &Local,
    ids: &[&str],
    body: &Value,
) -> Result<O::Output, Failure> {
    Ok(local.call::<O>(request(ids, body)).await?.output)
}

/// Records the scene on the copy, with backups of it beside it, and returns what is outside by then.
pub(super) async fn recorded(files: &Files, folder: &Path) -> Result<(Scene, Outside), Failure> {
    let mut witness = DrillWitness::new()?;
    let (outbox, leased) = Outbox::new();
    let opening = ServiceConfig {
        // A copy that is there has no guard, and nobody is to be warned of that.
        create: !files.db.exists(),
        outbox: Some(Arc::new(outbox)),
        ..opening(files, Some(Arc::clone(&witness.policy)))
    };
    let mut local = open(opening)?;
    let recorded = record(&mut local, files, folder, leased, &mut witness).await;
    let done = match recorded {
        Ok((scene, roots)) => {
            let kept = kept(&mut local, &scene).await;
            kept.map(|(key, packets)| (scene, roots, key, packets))
        }
        Err(failure) => Err(failure),
    };
    local.service().sync_guard();
    local.close().await;
    let (scene, roots, key, packets) = done?;
    back_up(files, folder, Backup::Last)?;
    fs::copy(&files.guard, folder.join(Backup::GUARD)).map_err(|e| super::unwritable(&e))?;
    let outside = Outside {
        key,
        packets,
        mirror: folder.join("mirror"),
        stamped: folder.join("stamped"),
        roots,
        witness,
        audited: folder.join(AUDITED),
    };
    Ok((scene, outside))
}

async fn record(
    local: &mut Local,
    files: &Files,
    folder: &Path,
    mut leased: UnboundedReceiver<Vec<LeasedDelivery>>,
    witness: &mut DrillWitness,
) -> Result<(Scene, TimestampRoots), Failure> {
    let partner = partner(local, "Drill Stage").await?;
    let other_partner = self::partner(local, "Drill Nights").await?;
    local.act_for(other_partner);
    let url = json!({ "url": "https://receiver.example/drill" });
    let endpoint = asked::<CreateEndpoint>(local, &[], &url).await?;
    let endpoint = endpoint.endpoint.endpoint_id;
    policy(local).await?;
    let other_booking = book(local, "Drill Band").await?;
    deliver(local, endpoint, &mut leased).await?;

    local.act_for(partner);
    policy(local).await?;
    let scopes = json!({ "scopes": ["bookings:read"] });
    let reading_key = asked::<CreateApiKey>(local, &[], &scopes).await?.api_key_id;
    let revoked_key = asked::<CreateApiKey>(local, &[], &json!({}))
        .await?
        .api_key_id;
    asked::<RevokeApiKey>(local, &[&revoked_key.to_string()], &Value::Null).await?;
    let booking = book(local, NAME).await?;
    let id = booking.to_string();
    back_up(files, folder, Backup::BeforeStamp)?;
    asked::<ProtectBooking>(local, &[&id], &Value::Null).await?;

    let roots = stamp(local, folder).await?;
    back_up(files, folder, Backup::AfterStamp)?;

    let item = json!({ "kind": "contract", "title": "Contract", "sha256": digest_of(FILE) });
    let item = asked::<AddEvidenceItem>(local, &[&id], &item).await?;
    let path = vec![id.clone(), item.item.item_id.to_string()];
    local.call::<PutItemFile>(sending(path, FILE)).await?;
    local.act_for(other_partner);
    asked::<ProtectBooking>(local, &[&other_booking.to_string()], &Value::Null).await?;
    deliver(local, endpoint, &mut leased).await?;
    local.act_for(partner);
    mapped(local).await?;
    let message = json!({ "kind": "message", "title": "Agreed by telephone" });
    asked::<AddEvidenceItem>(local, &[&id], &message).await?;
    cosigned(local, witness).await?;
    let key = vkey(local)?;
    let head = block_in_place(|| local.service().head())?;
    mirror::seen(folder.join("mirror"), key.clone(), &head.checkpoint)?;
    audited(local, &folder.join(AUDITED), &key).await?;
    let scene = Scene {
        partner,
        booking,
        reading_key,
        revoked_key,
        other_partner,
        other_booking,
        endpoint,
    };
    Ok((scene, roots))
}

/// Has the log commit to the map of its entries.
async fn mapped(local: &Local) -> Result<(), Failure> {
    let service = local.service();
    while let Some(epoch) = block_in_place(|| epochs::due(service, 0))? {
        local.carry_out(epochs::record(service, epoch)).await?;
    }
    Ok(())
}

/// Audits the log as an auditing witness does before it cosigns.
async fn audited(local: &Local, file: &Path, key: &VerifierKey) -> Result<(), Failure> {
    let (source, note) = public_log::of_database(local.service())?;
    let refused =
        |why: String| Failure::NotVerified(format!("The log does not pass an audit: {why}."));
    let log = Checkpoint::open(&note, key).map_err(|why| refused(why.to_string()))?;
    let mut audit = LogAudit::open(file, key.name())?;
    let reached = audit.reach(&Arc::new(source), log, &note).await?;
    reached.map_err(|why| refused(why.to_string()))
}

async fn partner(local: &Local, name: &str) -> Result<PartnerId, Failure> {
    let body = json!({
        "name": name,
        "businessType": "talent marketplace",
        "contactEmail": "desk@drill.example",
    });
    let Registration { partner_id, .. } = asked::<RegisterPartner>(local, &[], &body).await?;
    Ok(partner_id)
}

async fn policy(local: &Local) -> Result<(), Failure> {
    let share = json!({ "refundBps": 10000 });
    let policy = json!({
        "name": "Drill policy",
        "organizer": {
            "tiers": [{ "before": "P30D", "outcome": share }],
            "late": { "refundBps": 0 },
        },
        "talent": { "cancel": share },
    });
    asked::<PutPolicy>(local, &["drill"], &policy)
        .await
        .map(drop)
}

/// Settles what is due at an endpoint as its courier would after a receiver accepted it. Nothing is sent.
async fn deliver(
    local: &Local,
    endpoint: EndpointId,
    leased: &mut UnboundedReceiver<Vec<LeasedDelivery>>,
) -> Result<(), Failure> {
    let service = local.service();
    let claim = ClaimDeliveries {
        lease: service.lease(),
        endpoints: vec![(endpoint, 10)],
    };
    local.carry_out(service.envelope(claim)).await?;
    while let Ok(deliveries) = leased.try_recv() {
        for delivery in deliveries {
            let at = service.clock().now();
            let accepted = Attempt {
                duration_ms: 1,
                phase: Phase::Body,
                status_code: Some(204),
                response_sha256: Some(NOTHING.to_owned()),
                ..Attempt::begun(at.ms())
            };
            let settle = SettleDelivery::of(&delivery, accepted, at)?;
            local.carry_out(service.envelope(settle)).await?;
        }
    }
    Ok(())
}

/// Has the log stamped by an authority of the drill's own, and keeps the stamped checkpoint.
async fn stamp(local: &Local, folder: &Path) -> Result<TimestampRoots, Failure> {
    let service = local.service();
    let failed = |why: String| Failure::Unexpected(format!("the log cannot be stamped: {why}"));
    let authority = Authority::new(&Chain::default());
    let roots = TimestampRoots::from_pem(authority.root_pem().as_bytes());
    let roots = roots.map_err(|e| failed(e.to_string()))?;
    let head = block_in_place(|| service.head())?;
    // A turn of the database's own may not be over yet.
    let of = block_in_place(|| timestamps::due(service, 1))?;
    let of = of.ok_or_else(|| failed("it is stamped already".to_owned()))?;
    let now = service.clock().now().ms();
    let asked = bookguard_time::Request::new(of.imprint, timestamps::nonce());
    let response = authority.answer(&asked.to_der(), now);
    let stamp = asked.verify(&response, &roots, now);
    let stamp = stamp.map_err(|e| failed(e.to_string()))?;
    let record = timestamps::record(service, of, (&stamp, response), STAMPS_MS);
    if !local.carry_out(record).await? {
        return Err(failed("it was not recorded".to_owned()));
    }
    mirror::seen(folder.join("stamped"), vkey(local)?, &head.checkpoint)?;
    Ok(roots)
}

/// Has the head cosigned by the witness.
async fn cosigned(local: &Local, witness: &mut DrillWitness) -> Result<(), Failure> {
    let service = local.service();
    witness.log = Some(vkey(local)?);
    let (head, _) = block_in_place(|| look(service))?;
    let taken = claim(service, &witness.place, &head);
    let Written::Fresh(Some(state)) = service.submit_patiently(taken).await? else {
        return Err(Failure::Unexpected("the witness is not due".to_owned()));
    };
    let turn = WitnessTurn::new(witness.place.clone(), state);
    let turn = block_in_place(|| witness.ask(turn, local))?;
    let (state, note) = block_in_place(|| turn.end(service, &witness.policy))?;
    local.carry_out(note).await?;
    if let Some(trouble) = state.trouble {
        return Err(Failure::Unexpected(format!(
            "the witness does not cosign: {}",
            trouble.what
        )));
    }
    let note = Checkpoint::open(&head.checkpoint, &vkey(local)?);
    witness.latest = Some(note.map_err(|e| Failure::Unexpected(e.to_string()))?);
    Ok(())
}

impl DrillWitness {
    fn new() -> Result<Self, Failure> {
        let key = LedgerKey::named("witness.drill.example/w");
        let cosigner = key.cosigner().map_err(Failure::Unexpected)?;
        let text = format!(
            "witness w {} https://witness.drill.example\nquorum w\n",
            cosigner.verifier()
        );
        let policy = TrustPolicy::parse(&text).map_err(|e| Failure::Unexpected(e.to_string()))?;
        let place = places(&policy).pop();
        Ok(Self {
            cosigner,
            place: place
                .ok_or_else(|| Failure::Unexpected("the witness has no address".to_owned()))?,
            policy: Arc::new(policy),
            log: None,
            latest: None,
        })
    }

    /// Asks it as a log does, and answers as a witness does.
    fn ask(&self, mut turn: WitnessTurn, local: &Local) -> Result<WitnessTurn, Failure> {
        let service = local.service();
        // A log that is wrong about what was cosigned last is told and asks again.
        for _ in 0..3 {
            let Some(body) = turn.request(service, &self.policy)? else {
                turn.unanswered("the database lacks published entries".to_owned());
                break;
            };
            let (status, answer) = self.answer(&body);
            if !turn.answered((status, answer.as_bytes()), service.clock().now()) {
                break;
            }
        }
        Ok(turn)
    }

    fn answer(&self, body: &str) -> (u16, String) {
        let refused = |why: WitnessRefusal| match why {
            WitnessRefusal::Conflict { size } => (why.status(), format!("{size}\n")),
            _ => (why.status(), why.to_string()),
        };
        let asked = match AddCheckpoint::parse(body) {
            Ok(asked) => asked,
            Err(why) => return refused(why),
        };
        match judge(&asked, self.log.as_slice(), |_| self.latest.clone()) {
            Ok((key, _)) => match key.open(&asked.note) {
                Ok(text) => (
                    200,
                    self.cosigner
                        .cosign(text, Clock::System.now().unix_seconds().unsigned_abs()),
                ),
                Err(why) => (403, why.to_string()),
            },
            Err(why) => refused(why),
        }
    }

    /// Why it does not cosign the log of this database; `None` if it does.
    pub(super) fn refuses(&self, local: &Local) -> Result<Option<String>, Failure> {
        let latest = self.latest.as_ref();
        let state = WitnessState {
            url: self.place.url.clone(),
            origin: latest.map_or_else(String::new, |latest| latest.origin.clone()),
            size: latest.map_or(0, |latest| latest.size),
            due: Clock::System.now(),
            asked_at: Clock::System.now(),
            ..WitnessState::default()
        };
        let turn = WitnessTurn::new(self.place.clone(), state);
        let turn = self.ask(turn, local)?;
        let (state, _) = turn.end(local.service(), &self.policy)?;
        Ok(state.trouble.map(|trouble| trouble.what))
    }
}

/// The packets of both bookings, and the key that they verify under.
async fn kept(local: &mut Local, scene: &Scene) -> Result<(VerifierKey, Vec<KeptPacket>), Failure> {
    let key = vkey(local)?;
    let mut packets = Vec::new();
    for (partner, booking) in [
        (scene.partner, scene.booking),
        (scene.other_partner, scene.other_booking),
    ] {
        local.act_for(partner);
        let request = request(&[&booking.to_string()], &Value::Null);
        let packet = local.call::<GetEvidence>(request).await?.json;
        let (report, timeline) = verify_timeline(packet.as_bytes(), &key.to_string());
        let timeline = timeline.ok_or_else(|| {
            Failure::NotVerified(format!(
                "The packet of {booking} does not verify before anything is done: {report}"
            ))
        })?;
        packets.push(KeptPacket {
            partner,
            booking,
            timeline,
        });
    }
    Ok((key, packets))
}

fn vkey(local: &Local) -> Result<VerifierKey, Failure> {
    let head = block_in_place(|| local.service().head())?;
    let key = head.vkey.parse::<VerifierKey>();
    key.map_err(|e| Failure::Unexpected(format!("the log's verifier key cannot be read: {e}")))
}

fn back_up(files: &Files, folder: &Path, which: Backup) -> Result<(), Failure> {
    let database = Database::File(files.db.clone());
    let made =
        block_in_place(|| backup::backup(&database, &folder.join(which.file()), 0, &mut |_, _| {}));
    Ok(made.map(drop)?)
}
