//! Runs each mechanism after a way, and says what it noticed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bookguard_core::clock::Clock;
use bookguard_core::evidence::{
    Account, TimelineVerdict, TimestampTrust, Trust, compare, verify_with,
};
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::ledger::Checkpoint;
use bookguard_core::model::Scope;
use bookguard_core::service::ServiceConfig;
use bookguard_core::store::drill::{DrillCopy, Mechanism, Tampering, Use, Way};
use bookguard_core::store::read::KeyFound;
use serde_json::Value;
use tokio::task::block_in_place;

use super::super::map_audit::LogAudit;
use super::super::mirror;
use super::super::public_log::{self, Source};
use super::super::verify::scan;
use super::scene::{KeptPacket, Outside, book, open, opening};
use super::{Files, unwritable, year_ago};
use crate::failure::Failure;
use crate::target::local::Local;
use crate::target::request;

/// What became of a way.
pub(super) struct Judged {
    pub way: &'static Way,
    /// Why each mechanism objects; `None` if it notices nothing.
    pub why: [Option<String>; Mechanism::ALL.len()],
}

impl Judged {
    /// Each mechanism, whether it should notice, and why it objects.
    pub fn cells(&self) -> impl Iterator<Item = (Mechanism, bool, Option<&str>)> {
        let cells = Mechanism::ALL.into_iter().zip(&self.why);
        cells.map(|(mechanism, why)| {
            let expected = self.way.noticed_by.contains(&mechanism);
            (mechanism, expected, why.as_deref())
        })
    }

    pub fn as_expected(&self) -> bool {
        self.cells()
            .all(|(_, expected, why)| expected == why.is_some())
    }
}

/// Tampers in this way, with the service's own files or with the attacker's copy of them, and asks everything that could notice.
pub(super) async fn way(
    way: &'static Way,
    own: &DrillCopy,
    theirs: Option<&DrillCopy>,
    outside: &Outside,
    folder: &Path,
) -> Result<Judged, Failure> {
    let attacked = theirs.unwrap_or(own);
    for step in way.steps {
        let failed =
            |why| Failure::Unexpected(format!("the way {} cannot be done: {why}", way.name));
        match step {
            Tampering::Record => record(attacked, Clock::System).await?,
            Tampering::RecordInThePast => record(attacked, year_ago()).await?,
            step => block_in_place(|| attacked.take(*step)).map_err(failed)?,
        }
    }
    let verify = verify(own).await?;
    let [packet, mirror, witness, auditor, stamp] =
        published(way, attacked, outside, folder).await?;
    let server = serve(way, own).await?;
    Ok(Judged {
        way,
        why: [verify, server, packet, mirror, witness, auditor, stamp],
    })
}

fn files(copy: &DrillCopy) -> Files {
    Files {
        db: copy.db.clone(),
        key: copy.key.clone(),
        guard: copy.guard.clone(),
    }
}

/// Records a booking of the scene's partner.
async fn record(copy: &DrillCopy, clock: Clock) -> Result<(), Failure> {
    let opening = ServiceConfig {
        clock,
        ..opening(&files(copy), None)
    };
    let mut local = open(opening)?;
    local.act_for(copy.scene.partner);
    let booked = book(&local, "Drill Choir").await;
    local.service().sync_guard();
    local.close().await;
    booked.map(drop)
}

/// What `ledger verify` finds, first of all.
pub(super) async fn verify(copy: &DrillCopy) -> Result<Option<String>, Failure> {
    let local = match open(opening(&files(copy), None)) {
        Ok(local) => local,
        Err(failure) => return Ok(Some(failure.reason())),
    };
    let report = block_in_place(|| local.service().verify_ledger(false, |_, _| {}));
    local.close().await;
    Ok(match report {
        Ok(report) => report.findings.first().map(ToString::to_string),
        Err(error) => Some(error.to_string()),
    })
}

/// Whether a server refuses to start, or to do what the attacker wants.
async fn serve(way: &Way, copy: &DrillCopy) -> Result<Option<String>, Failure> {
    let mut local = match open(opening(&files(copy), None)) {
        Ok(local) => local,
        Err(failure) => return Ok(Some(failure.reason())),
    };
    let refused = match way.then {
        Use::Write => {
            local.act_for(copy.scene.partner);
            let booked = book(&local, "Drill Choir").await;
            booked.err().map(|failure| failure.reason())
        }
        key => uses(&local, copy, key)?,
    };
    local.close().await;
    Ok(refused)
}

/// Why a key does not do what its row was made to say; `None` if it does.
fn uses(local: &Local, copy: &DrillCopy, key: Use) -> Result<Option<String>, Failure> {
    let id = match key {
        Use::RevokedKey => copy.scene.revoked_key,
        _ => copy.scene.reading_key,
    };
    let service = local.service();
    let found = block_in_place(|| {
        let mut reader = service.reader()?;
        reader.key_by_id(&id).map_err(|e| service.fault(&e))
    })?;
    let works = match (&found, key) {
        (KeyFound::Owned { partner_id, .. }, Use::MovedKey) => {
            *partner_id == copy.scene.other_partner
        }
        (KeyFound::Owned { key, .. }, Use::RaisedKey) => key.scopes.allow(Scope::BookingsWrite),
        (KeyFound::Owned { .. }, _) => true,
        _ => false,
    };
    Ok((!works).then(|| "the key opens nothing: its row is not as Bookguard wrote it".to_owned()))
}

/// What those outside see who only read what is published: packet, mirror, witness, auditor, time-stamp. The attacker serves without
/// a guard.
async fn published(
    way: &Way,
    copy: &DrillCopy,
    outside: &Outside,
    folder: &Path,
) -> Result<[Option<String>; 5], Failure> {
    let reader = Files {
        guard: copy.guard.with_extension("none"),
        ..files(copy)
    };
    let Ok(local) = open(opening(&reader, Some(outside.witness.policy.clone()))) else {
        // Nothing is served, so there is nothing to see.
        return Ok([const { None }; 5]);
    };
    let mut onlookers = Onlookers {
        local,
        outside,
        folder,
    };
    let seen = onlookers.see(way).await;
    onlookers.local.close().await;
    seen
}

struct Onlookers<'o> {
    /// What the attacker serves.
    local: Local,
    /// What they know from before.
    outside: &'o Outside,
    /// Where they work.
    folder: &'o Path,
}

impl Onlookers<'_> {
    async fn see(&mut self, way: &Way) -> Result<[Option<String>; 5], Failure> {
        let (packet, stamped) = self.packets(way).await;
        let mirror = self.mirrored().await?;
        let witness = match block_in_place(|| self.outside.witness.refuses(&self.local)) {
            Ok(refused) => refused,
            Err(failure) => Some(failure.reason()),
        };
        let auditor = match &witness {
            Some(refused) => Some(refused.clone()),
            None => self.audited().await?,
        };
        let known = self.follows(&self.outside.stamped, false).await?;
        Ok([packet, mirror, witness, auditor, stamped.or(known)])
    }

    /// Returns two faults, if there are any: of the packets made now, in themselves or against those made before; and of their
    /// time-stamps.
    async fn packets(&mut self, way: &Way) -> (Option<String>, Option<String>) {
        let (mut wrong, mut unstamped) = (None, None);
        let outside = self.outside;
        for before in &outside.packets {
            self.local.act_for(before.partner);
            let asked = request(&[&before.booking.to_string()], &Value::Null);
            let made = match self.local.call::<GetEvidence>(asked).await {
                Ok(answer) => edited(way, answer.json),
                Err(failure) => {
                    wrong = wrong.or_else(|| Some(failure.reason()));
                    continue;
                }
            };
            let trust = Trust {
                timestamps: Some(TimestampTrust {
                    roots: &outside.roots,
                    at: Clock::System.now(),
                }),
                witnesses: None,
            };
            let (report, timeline) = verify_with(made.as_bytes(), &outside.key.to_string(), trust);
            for failed in report.failures() {
                let place = match failed.name {
                    "timestamps" => &mut unstamped,
                    _ => &mut wrong,
                };
                place.get_or_insert_with(|| format!("{}: {}", failed.name, failed.detail));
            }
            if let Some(after) = timeline {
                let accounts = [before.timeline.clone(), after].map(Account::Packet);
                let found = compare(&accounts[0], &accounts[1]);
                if found.verdict == TimelineVerdict::Contradiction {
                    wrong.get_or_insert(found.detail);
                }
            }
            if let Some(why) = self.left_out(before).await {
                wrong.get_or_insert(why);
            }
        }
        (wrong, unstamped)
    }

    fn log(&self) -> Result<(Source, String), Failure> {
        public_log::of_database(self.local.service())
    }

    /// What the packet made before shows of the log, as `evidence verify --log` does.
    async fn left_out(&self, before: &KeptPacket) -> Option<String> {
        let key = self.outside.key.to_string();
        let scanned = match self.log() {
            Ok(log) => scan(log, before.timeline.clone(), &key).await,
            Err(failure) => Err(failure),
        };
        match scanned {
            Ok(Ok(report)) => (!report.honest()).then(|| report.to_string()),
            Ok(Err(no)) => Some(no.why),
            Err(failure) => Some(failure.reason()),
        }
    }

    /// What a monitor notices: one that goes on from where it was, or one that reads the whole log.
    async fn mirrored(&self) -> Result<Option<String>, Failure> {
        if let Some(why) = self.follows(&self.outside.mirror, true).await? {
            return Ok(Some(why));
        }
        let fresh = self.folder.join("fresh");
        let _ = fs::remove_dir_all(&fresh);
        Ok(self.looked(fresh, false).await)
    }

    /// Why an auditing witness that read the log before does not cosign what was added.
    async fn audited(&self) -> Result<Option<String>, Failure> {
        let copy = self.folder.join("auditor.db");
        fs::copy(&self.outside.audited, &copy).map_err(|e| unwritable(&e))?;
        let (source, note) = match self.log() {
            Ok(log) => log,
            Err(failure) => return Ok(Some(failure.reason())),
        };
        let key = &self.outside.key;
        let log = match Checkpoint::open(&note, key) {
            Ok(log) => log,
            Err(why) => return Ok(Some(why.to_string())),
        };
        let mut audit = LogAudit::open(&copy, key.name())?;
        Ok(match audit.reach(&Arc::new(source), log, &note).await {
            Ok(reached) => reached.err().map(|why| why.to_string()),
            Err(failure) => Some(failure.reason()),
        })
    }

    /// Why the log does not continue what the monitor with this folder has seen, or lies since, if it audits.
    async fn follows(&self, seen: &Path, audits: bool) -> Result<Option<String>, Failure> {
        let copy = self.folder.join("monitor");
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy)
            .and_then(|()| fs::copy(seen.join("checkpoint"), copy.join("checkpoint")))
            .and_then(|_| fs::copy(&self.outside.audited, copy.join(mirror::AUDIT)))
            .map_err(|e| unwritable(&e))?;
        Ok(self.looked(copy, audits).await)
    }

    async fn looked(&self, folder: PathBuf, audits: bool) -> Option<String> {
        let looked = match self.log() {
            Ok(log) => mirror::look_once(folder, self.outside.key.clone(), log, audits).await,
            Err(failure) => Err(failure),
        };
        looked.err().map(|failure| failure.reason())
    }
}

fn edited(way: &Way, packet: String) -> String {
    way.steps.iter().fold(packet, |packet, step| match step {
        Tampering::Packet(edit) => edit(&packet),
        _ => packet,
    })
}
