//! Checks a whole database against its ledger, for `bookguard ledger verify`.
//!
//! The check recomputes everything that the ledger's entries imply, from the entries alone, and compares it with the
//! stored data: hashes, tiles, heads, chains, commitments, every booking's row, every event's bytes. Rows that no entry
//! describes are checked against the rules that wrote them. Invariants: nothing is written. Everything is read from one
//! snapshot, in pages, so that memory does not grow with the database. Damage becomes a finding and never ends the
//! check early, except damage to the file itself.

mod booking;
mod checked_row;
mod console_session;
mod continued;
mod cosignature;
mod delivery;
mod endpoint;
mod entry;
mod epoch;
mod event;
mod file;
mod hold;
mod log;
mod operator;
mod others;
mod page;
mod policy_set;
mod recovery;
mod settled;
mod share;
mod stamp;

#[cfg(test)]
pub(super) mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Map, Value};

use super::Store;
use super::conn::{Arg, Conn, Row, StoreError, args};
use super::load::event_type;
use crate::engine::change::DeliveryPhase;
use crate::ledger::jcs::differences;
use crate::ledger::rollback::{PublishedHead, Rollback};
use crate::log::Log;
use crate::model::{
    BookingStatus, DeliveryStatus, EndpointId, EventId, EventType, PartnerId, Timestamp,
};
use crate::seal::Seal;
use page::PartnerTotals;

/// The most that two clocks of the service, or one clock before and after it is set, may differ, in milliseconds.
const CLOCK_SLACK_MS: i64 = 5 * 60 * 1000;
/// The number of findings that are kept; further ones are only counted.
const KEPT_FINDINGS: usize = 1_000;
/// The rows of one page.
const PAGE: i64 = 1_000;

/// A discrepancy between the database and its ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of thing, in one word: `booking`, `entry`, `tile`, `event`, …
    pub what: &'static str,
    /// The thing, and which part of it: `booking bkg_… field bookingValue`.
    pub place: String,
    /// What is wrong.
    pub detail: String,
}

/// How the database relates to the head last published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guarded {
    /// The guard's file, which remembers that head.
    pub file: PathBuf,
    /// The head it remembers; `None` if there is no such file.
    pub seen: Option<Arc<PublishedHead>>,
    /// What the database lacks of the published log. It is among the findings too.
    pub rollback: Option<Rollback>,
    /// What a backup lacks of the published log: it may lack later entries, so this is not among the findings.
    pub behind: Option<Rollback>,
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match (&self.seen, &self.rollback, &self.behind) {
            (None, ..) => write!(
                f,
                "no guard file ({file}): it is not known whether entries were lost"
            ),
            (_, Some(rollback), _) => write!(f, "ledger_rolled_back: {rollback}"),
            (_, _, Some(behind)) => write!(f, "a backup of an earlier moment: {behind}"),
            (Some(seen), ..) => write!(
                f,
                "the {} entries of log {} that were last published, according to {file}, are in it",
                seen.size, seen.origin
            ),
        }
    }
}

impl Serialize for Guarded {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let head = |seen: &PublishedHead| serde_json::json!({"origin": seen.origin, "size": seen.size, "root": seen.root.to_string()});
        let lapse = self.rollback.as_ref().or(self.behind.as_ref());
        serde_json::json!({
            "file": self.file,
            "seen": self.seen.as_deref().map(head),
            "found": lapse.map(|lapse| head(&lapse.found)),
            "code": self.rollback.is_some().then_some("ledger_rolled_back"),
            "said": self.to_string(),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.detail)
    }
}

/// The result of checking a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerReport {
    /// The number of entries checked.
    pub entries: u64,
    /// The number of bookings rebuilt and compared.
    pub bookings: u64,
    /// The number of events compared.
    pub events: u64,
    /// What is wrong, in the order found; at most the first thousand findings.
    pub findings: Vec<Finding>,
    /// The number of further findings.
    pub more: u64,
    /// Times that contradict each other, which a wrong clock can cause; at most the first thousand.
    pub warnings: Vec<Finding>,
    /// The number of further warnings.
    pub more_warnings: u64,
    /// How the database relates to the head last published.
    pub guard: Guarded,
    /// How long the check took.
    #[serde(skip)]
    pub elapsed: Duration,
}

impl LedgerReport {
    /// Whether there are no findings.
    #[must_use]
    pub fn clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Entries checked per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn entries_per_second(&self) -> f64 {
        self.entries as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Checks the whole database. A `backup` may lack what was written after it. `progress` receives the steps done and the
/// total, at most a few times a second.
///
/// # Errors
/// If the database cannot be read at all. Any other damage is in the report.
pub(crate) fn verify(
    store: &Store,
    seal: &Seal,
    log: &Log,
    (now, backup): (Timestamp, bool),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<LedgerReport, StoreError> {
    let began = Instant::now();
    // Read before the snapshot is taken, so that a sound snapshot contains everything published by then.
    let guard = Guarded {
        file: log.guard().path().to_owned(),
        seen: log.guard().latest(),
        ..Guarded::default()
    };
    let mut conn = store.checker()?;
    // A list that cannot be read shows nothing; whoever opens the service is told.
    let _ = log.look_at_erasures(&mut *conn);
    conn.begin(&[])?;
    let mut check = Check {
        conn: &mut *conn,
        seal,
        log,
        now,
        backup,
        guard,
        findings: Findings::default(),
        progress: Progress::new(progress, 0),
        counts: Counts::default(),
        gone: HashMap::new(),
        forgotten: HashSet::new(),
        brought: HashMap::new(),
        file_bytes: HashMap::new(),
        file_parts: 0,
        absent: HashMap::new(),
    };
    check.run(store)?;
    let (counts, findings, guard) = (check.counts, check.findings, check.guard);
    conn.rollback();
    Ok(LedgerReport {
        entries: counts.entries,
        bookings: counts.bookings,
        events: counts.events,
        findings: findings.kept,
        more: findings.more,
        warnings: findings.warnings,
        more_warnings: findings.more_warnings,
        guard,
        elapsed: began.elapsed(),
    })
}

/// A check in progress.
struct Check<'a> {
    conn: &'a mut dyn Conn,
    seal: &'a Seal,
    log: &'a Log,
    /// When the check began.
    now: Timestamp,
    /// Whether the database is a backup.
    backup: bool,
    guard: Guarded,
    findings: Findings,
    progress: Progress<'a>,
    counts: Counts,
    /// Endpoints at which an attempt received 410 Gone, and when the last such attempt ended, in milliseconds.
    gone: HashMap<EndpointId, i64>,
    /// Endpoints that may have answered 410 Gone in an attempt that was pruned with its event.
    forgotten: HashSet<EndpointId>,
    /// The usage by each partner's bookings.
    brought: HashMap<PartnerId, PartnerTotals>,
    /// The bytes of each partner's whole files.
    file_bytes: HashMap<PartnerId, u64>,
    /// The parts of files met so far.
    file_parts: u64,
    /// As [`Findings::absent`], over all pages.
    absent: HashMap<EndpointId, EventId>,
}

/// The number of rows found by way of what they belong to.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    entries: u64,
    bookings: u64,
    events: u64,
    resolutions: u64,
    deliveries: u64,
    attempts: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.entries += other.entries;
        self.bookings += other.bookings;
        self.events += other.events;
        self.resolutions += other.resolutions;
        self.deliveries += other.deliveries;
        self.attempts += other.attempts;
    }
}

/// Work whose steps are told as they are done, with the total.
pub(super) struct Progress<'a> {
    tell: &'a mut dyn FnMut(u64, u64),
    done: u64,
    total: u64,
}

impl<'a> Progress<'a> {
    pub fn new(tell: &'a mut dyn FnMut(u64, u64), total: u64) -> Self {
        let done = 0;
        Self { tell, done, total }
    }

    pub fn step(&mut self, by: u64) {
        self.done += by;
        (self.tell)(self.done.min(self.total), self.total);
    }
}

impl Check<'_> {
    fn run(&mut self, store: &Store) -> Result<(), StoreError> {
        // Meanwhile the engine checks its file on another connection.
        let (checked, faults) = thread::scope(|scope| {
            let engine = scope.spawn(|| store.faults());
            let checked = self.check_all();
            let failed = |_| Err(StoreError::Failed("a thread of the check ended".to_owned()));
            (checked, engine.join().unwrap_or_else(failed))
        });
        let place = "the database file";
        match faults {
            Ok(faults) => {
                for fault in faults {
                    self.findings.add("file", place, fault);
                }
            }
            Err(StoreError::Corrupt(what)) => self.findings.add("file", place, what),
            Err(error) => return Err(error),
        }
        checked
    }

    fn check_all(&mut self) -> Result<(), StoreError> {
        let begun = self.begin();
        self.guard("the table entry", begun)?;
        let log = self.log();
        self.guard("the log", log)?;
        let bookings = self.bookings();
        self.guard("the bookings", bookings)?;
        let others = self.others();
        self.guard("partners, keys and policies", others)?;
        let rows = self.all_rows_met();
        self.guard("the tables", rows)
    }

    /// Damage that ends one part of the check becomes a finding, and the next part continues.
    fn guard(&mut self, place: &str, part: Result<(), StoreError>) -> Result<(), StoreError> {
        if let Err(StoreError::Corrupt(what)) = part {
            let detail = format!("the rest cannot be read: {what}");
            self.findings.add("file", place, detail);
            return Ok(());
        }
        part
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        // Every entry is visited twice: in the order of the log and in the order of its booking.
        self.progress.total = self.count("SELECT COUNT(*) FROM entry")?.saturating_mul(2);
        self.progress.step(0);
        Ok(())
    }

    /// Reports rows that no booking led to: they belong to none.
    fn all_rows_met(&mut self) -> Result<(), StoreError> {
        let counts = self.counts;
        for (table, met, sql) in [
            ("booking", counts.bookings, "SELECT COUNT(*) FROM booking"),
            ("entry", counts.entries, "SELECT COUNT(*) FROM entry"),
            ("event", counts.events, "SELECT COUNT(*) FROM event"),
            (
                "resolution",
                counts.resolutions,
                "SELECT COUNT(*) FROM resolution",
            ),
            (
                "delivery",
                counts.deliveries,
                "SELECT COUNT(*) FROM delivery",
            ),
            ("attempt", counts.attempts, "SELECT COUNT(*) FROM attempt"),
        ] {
            let rows = self.count(sql)?;
            if rows != met {
                let detail = format!(
                    "it holds {rows} rows, but only {met} can be reached from what they belong to"
                );
                self.findings.add(table, format!("table {table}"), detail);
            }
        }
        Ok(())
    }

    /// Visits the rows of a query in pages by their first column, each an entry of the log that is met with it.
    fn each_entry(
        &mut self,
        sql: &'static str,
        mut check: impl FnMut(&mut Self, &Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut after = -1;
        loop {
            let rows = self.conn.all(sql, args![after, PAGE])?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = last.int(0)?;
            for row in &rows {
                check(self, row)?;
            }
            self.counts.entries += rows.len() as u64;
            self.progress.step(rows.len() as u64);
        }
    }

    fn count(&mut self, sql: &'static str) -> Result<u64, StoreError> {
        self.conn.count(sql, vec![])
    }
}

/// A value in readable form.
fn word(column: &str, value: &Arg<'_>) -> String {
    let known = |n: i64| match column {
        "status" => Some(BookingStatus::WORDS.get(usize::try_from(n).ok()?)?.0),
        "type" => event_type(n).ok().map(EventType::word),
        "phase" => DeliveryPhase::from_number(n).map(|phase| DeliveryStatus::from(phase).word()),
        _ => None,
    };
    match value {
        Arg::Null => "nothing".to_owned(),
        Arg::Int(n) => known(*n).map_or_else(|| n.to_string(), str::to_owned),
        Arg::Text(text) => text.to_string(),
        Arg::Blob(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if text.starts_with('{') => text.to_owned(),
            _ => hex::encode(bytes),
        },
    }
}

/// The members of a JSON document.
fn document(value: &Arg<'_>) -> Option<Map<String, Value>> {
    match value {
        Arg::Text(text) => serde_json::from_str(text).ok(),
        Arg::Blob(bytes) => serde_json::from_slice(bytes).ok(),
        _ => None,
    }
}

/// Whether a column holds the document exactly as the program writes it.
fn spelled<T: Serialize>(row: &Row, column: usize, document: &T) -> bool {
    let text = serde_json::to_string(document);
    text.is_ok_and(|text| row.text(column) == Ok(text.as_str()))
}

/// The findings and warnings so far.
#[derive(Debug, Default)]
struct Findings {
    kept: Vec<Finding>,
    more: u64,
    warnings: Vec<Finding>,
    more_warnings: u64,
    /// Deleted endpoints, each with the first event that should have gone there unless the endpoint was gone by then.
    absent: HashMap<EndpointId, EventId>,
}

impl Findings {
    fn add(&mut self, what: &'static str, place: impl Into<String>, detail: impl Into<String>) {
        if self.kept.len() == KEPT_FINDINGS {
            self.more += 1;
            return;
        }
        self.kept.push(Finding {
            what,
            place: place.into(),
            detail: detail.into(),
        });
    }

    /// Adds a warning about times that contradict each other, which a wrong clock can cause.
    fn doubt(&mut self, what: &'static str, place: impl Into<String>, detail: impl fmt::Display) {
        if self.warnings.len() == KEPT_FINDINGS {
            self.more_warnings += 1;
            return;
        }
        self.warnings.push(Finding {
            what,
            place: place.into(),
            detail: format!("{detail}. A clock that was wrong at the time can cause this"),
        });
    }

    /// Adds a finding if the stored value differs from the ledger's.
    fn same<T: PartialEq + fmt::Display>(
        &mut self,
        what: &'static str,
        place: impl FnOnce() -> String,
        row: &T,
        ledger: &T,
    ) {
        if row != ledger {
            let detail = format!("row says {row}, ledger says {ledger}");
            self.add(what, place(), detail);
        }
    }

    /// Adds a finding for each column of a row that differs from the facts.
    fn compare(
        &mut self,
        what: &'static str,
        thing: &str,
        row: &Row,
        columns: &[&str],
        ledger: &[Arg<'_>],
    ) {
        for ((column, cell), said) in columns.iter().zip(&row.0).zip(ledger) {
            let shown = Arg::from(cell);
            if shown == *said {
                continue;
            }
            let members = document(&shown).zip(document(said));
            let members = members.map(|(shown, said)| differences(said, shown));
            let place = |field: &str| format!("{thing} field {field}");
            match members.as_deref() {
                None => self.same(
                    what,
                    || place(column),
                    &word(column, &shown),
                    &word(column, said),
                ),
                Some([]) => self.add(what, place(column), "Bookguard does not spell it this way"),
                Some(members) => {
                    for (name, row, ledger) in members {
                        self.same(what, || place(name), row, ledger);
                    }
                }
            }
        }
    }

    /// Returns the collector of findings about one thing.
    fn of(&mut self, what: &'static str, place: String) -> Notes<'_> {
        Notes {
            findings: self,
            what,
            place,
        }
    }

    fn append(&mut self, other: Self) {
        self.more += other.more;
        self.more_warnings += other.more_warnings;
        let room = KEPT_FINDINGS - self.warnings.len();
        self.more_warnings += other.warnings.len().saturating_sub(room) as u64;
        self.warnings.extend(other.warnings.into_iter().take(room));
        for finding in other.kept {
            self.add(finding.what, finding.place, finding.detail);
        }
    }
}

/// The collector of findings about one thing.
struct Notes<'a> {
    findings: &'a mut Findings,
    what: &'static str,
    place: String,
}

impl Notes<'_> {
    /// Adds a finding.
    fn fault(&mut self, detail: impl Into<String>) {
        self.findings.add(self.what, self.place.clone(), detail);
    }

    /// Adds a warning, as [`Findings::doubt`] does.
    fn doubt(&mut self, detail: impl fmt::Display) {
        self.findings.doubt(self.what, self.place.clone(), detail);
    }
}
