//! Checks bookings in pages: one thread reads, the others check. Everything that belongs to a page's bookings is read
//! with it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use super::{Check, Counts, Findings, KEPT_FINDINGS, booking, event};
use crate::engine::change::DeliveryPhase;
use crate::model::{
    ApiKeyId, EndpointId, EndpointStatus, EventId, EventType, PartnerId, Recovery, Timestamp,
};
use crate::policy::Policy;
use crate::store::conn::{Conn, Row, StoreError, args};
use crate::store::events::events_where;
use crate::store::load::deliveries;
use crate::store::read::entries_where;
use crate::store::terms::{known_policy, policy_hash};
use crate::store::{endpoints, recoveries};
use crate::webhook::{Attempt, FailureClass};

/// The bookings of a page: a few megabytes with everything that belongs to them.
const BOOKINGS: i64 = 256;
/// The number of pages read ahead of their check.
const AHEAD: usize = 4;
/// The number of partners whose endpoints and recoveries are kept in memory.
const PARTNERS: usize = 1_024;

/// The part of a partner's endpoint that deliveries are checked against.
pub(super) struct Receiver {
    pub endpoint_id: EndpointId,
    pub status: EndpointStatus,
    /// Since when it takes what it takes now, if that was ever changed.
    pub since: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// Whether its address was ever changed.
    pub has_moved: bool,
    types: Vec<EventType>,
}

impl Receiver {
    pub fn subscribes(&self, event_type: EventType) -> bool {
        event_type.is_received_by(&self.types)
    }
}

/// The part of a partner that its deliveries are checked against.
#[derive(Default)]
struct PartnerContext {
    receivers: Vec<Receiver>,
    /// Recoveries that made deliveries due, rather than only count them.
    recoveries: Vec<Recovery>,
}

type Partners = HashMap<PartnerId, Arc<PartnerContext>>;

/// A page of bookings, or of events that are about none, and everything that belongs to them.
#[derive(Default)]
struct Page {
    number: usize,
    bookings: Vec<Row>,
    entries: Vec<Row>,
    events: Vec<Row>,
    resolutions: Vec<Row>,
    deliveries: Vec<Row>,
    attempts: Vec<Row>,
    partners: Partners,
    /// The policies of the page's bookings, by hash.
    policies: HashMap<String, Policy>,
    /// The API keys that the page's events are about.
    keys: HashMap<ApiKeyId, ExpiringKey>,
}

/// The part of an API key that `api_key.expiring` is checked against.
#[derive(Clone, Copy)]
pub(super) struct ExpiringKey {
    pub partner_id: PartnerId,
    pub expires_at: Timestamp,
}

/// Everything that belongs to one booking of a page.
pub(super) struct BookingRows<'a> {
    pub entries: &'a [Row],
    pub events: &'a [Row],
    pub resolutions: &'a [Row],
    page: &'a Page,
    /// When the check began.
    pub now: Timestamp,
}

impl<'a> BookingRows<'a> {
    pub fn deliveries(&self, event_id: &EventId) -> &'a [Row] {
        group(&self.page.deliveries, event_id.as_bytes())
    }

    pub fn attempts(&self, event_id: &EventId) -> impl Iterator<Item = &'a Row> + use<'a> {
        group(&self.page.attempts, event_id.as_bytes()).iter()
    }

    /// The policy with this hash.
    pub fn policy(&self, hash: &str) -> Option<&'a Policy> {
        self.page.policies.get(hash)
    }

    /// The key, if it expires some time.
    pub fn key(&self, api_key_id: &ApiKeyId) -> Option<ExpiringKey> {
        self.page.keys.get(api_key_id).copied()
    }

    pub fn receivers(&self, partner_id: &PartnerId) -> &'a [Receiver] {
        let theirs = self.page.partners.get(partner_id);
        theirs.map_or(&[], |theirs| theirs.receivers.as_slice())
    }

    /// Recoveries that made deliveries due, rather than only count them.
    pub fn recoveries(&self, partner_id: &PartnerId) -> &'a [Recovery] {
        let theirs = self.page.partners.get(partner_id);
        theirs.map_or(&[], |theirs| theirs.recoveries.as_slice())
    }
}

/// The rows whose first column is `key`. `rows` must be ordered by that column.
fn group<'a>(rows: &'a [Row], key: &[u8]) -> &'a [Row] {
    let from = rows.partition_point(|row| row.blob(0).unwrap_or_default() < key);
    let to = rows.partition_point(|row| row.blob(0).unwrap_or_default() <= key);
    &rows[from..to]
}

/// The result of checking one page.
struct Checked {
    number: usize,
    findings: Findings,
    counts: Counts,
    gone: HashMap<EndpointId, i64>,
    forgotten: HashSet<EndpointId>,
    brought: HashMap<PartnerId, PartnerTotals>,
}

/// A partner's usage by its bookings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PartnerTotals {
    pub bookings: u64,
    pub bytes: u64,
}

impl Check<'_> {
    /// Checks every booking with its entries, events, deliveries and attempts.
    pub(super) fn bookings(&mut self) -> Result<(), StoreError> {
        // One for each processor: the thread that reads mostly waits for them.
        let workers = thread::available_parallelism().map_or(1, NonZero::get);
        let (pages, inbox) = mpsc::sync_channel::<Page>(AHEAD);
        let (outbox, results) = mpsc::channel::<Checked>();
        let inbox = Mutex::new(inbox);
        let now = self.now;
        let mut parts: BTreeMap<usize, Findings> = BTreeMap::new();
        let read = thread::scope(|scope| {
            for _ in 0..workers {
                let (inbox, outbox) = (&inbox, outbox.clone());
                scope.spawn(move || {
                    loop {
                        let page = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok(page) = page else { break };
                        if outbox.send(page.check(now)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(outbox);
            let read = self.read_pages(&pages, &results, &mut parts);
            drop(pages);
            for checked in results.iter() {
                self.take(checked, &mut parts);
            }
            read
        });
        // In the order of the bookings, whichever thread was fastest.
        for findings in parts.into_values() {
            self.findings.append(findings);
        }
        read
    }

    fn read_pages(
        &mut self,
        pages: &mpsc::SyncSender<Page>,
        results: &mpsc::Receiver<Checked>,
        parts: &mut BTreeMap<usize, Findings>,
    ) -> Result<(), StoreError> {
        let mut after: Vec<u8> = Vec::new();
        let mut cache = Partners::new();
        // After the bookings, the events that are about none.
        let mut read: fn(&mut dyn Conn, &mut Vec<u8>, &mut Partners) -> _ = read_page;
        let mut without_booking = false;
        for number in 0.. {
            let mut page = read(self.conn, &mut after, &mut cache)?;
            if page.is_none() && !without_booking {
                without_booking = true;
                after.clear();
                read = read_events_without_booking;
                page = read(self.conn, &mut after, &mut cache)?;
            }
            let Some(page) = page else { break };
            let page = Page { number, ..page };
            if pages.send(page).is_err() {
                return Err(StoreError::Failed("a thread of the check ended".to_owned()));
            }
            for checked in results.try_iter() {
                self.take(checked, parts);
            }
        }
        Ok(())
    }

    fn take(&mut self, mut checked: Checked, parts: &mut BTreeMap<usize, Findings>) {
        self.counts.add(&checked.counts);
        self.progress.step(checked.counts.entries);
        for (endpoint_id, at) in checked.gone {
            let last = self.gone.entry(endpoint_id).or_insert(at);
            *last = at.max(*last);
        }
        self.forgotten.extend(checked.forgotten);
        for (partner_id, more) in checked.brought {
            let all = self.brought.entry(partner_id).or_default();
            all.bookings += more.bookings;
            all.bytes += more.bytes;
        }
        for (endpoint_id, event_id) in checked.findings.absent.iter() {
            self.absent.entry(*endpoint_id).or_insert(*event_id);
        }
        // For a database with damage all over, the findings so far are enough.
        let (mut held, mut doubts) = (0, 0);
        for part in parts.values() {
            held += part.kept.len();
            doubts += part.warnings.len();
        }
        let found = &mut checked.findings;
        if held >= KEPT_FINDINGS {
            self.findings.more += std::mem::take(&mut found.kept).len() as u64;
        }
        if doubts >= KEPT_FINDINGS {
            self.findings.more_warnings += std::mem::take(&mut found.warnings).len() as u64;
        }
        if !(found.kept.is_empty() && found.warnings.is_empty())
            || found.more + found.more_warnings > 0
        {
            parts.insert(checked.number, checked.findings);
        }
    }
}

const POLICIES: &str = "SELECT hash, body FROM policy WHERE hash IN \
     (SELECT policy_hash FROM booking WHERE id > $1 AND id <= $2)";

fn read_page(
    conn: &mut dyn Conn,
    after: &mut Vec<u8>,
    cache: &mut Partners,
) -> Result<Option<Page>, StoreError> {
    let bookings = conn.all(
        "SELECT id, partner_id, stream, body, entries, tip, status, event_ms, protected_leaf, rescheduled_leaf, moves, \
         resolution_leaf, review_leaf, terms, policy_hash FROM booking WHERE id > $1 ORDER BY id LIMIT $2",
        args![after.as_slice(), BOOKINGS],
    )?;
    let Some(last) = bookings.last() else {
        return Ok(None);
    };
    let last = last.blob(0)?.to_vec();
    let range = || args![after.as_slice(), last.as_slice()];
    let entries = conn.all(
        entries_where!("booking_id > $1 AND booking_id <= $2 ORDER BY booking_id, seq"),
        range(),
    )?;
    let events = conn.all(
        events_where!("booking_id > $1 AND booking_id <= $2 ORDER BY booking_id, seq"),
        range(),
    )?;
    let resolutions = conn.all(
        "SELECT id, booking_id, leaf_idx FROM resolution \
         WHERE booking_id > $1 AND booking_id <= $2 ORDER BY booking_id, leaf_idx",
        range(),
    )?;
    let deliveries = conn.all(
        deliveries!(
            "FROM event e JOIN delivery d ON d.event_id = e.id WHERE e.booking_id > $1 AND e.booking_id <= $2"
        ),
        range(),
    )?;
    let attempts = conn.all(
        "SELECT a.event_id, a.endpoint_id, a.number, a.body FROM event e JOIN attempt a ON a.event_id = e.id \
         WHERE e.booking_id > $1 AND e.booking_id <= $2",
        range(),
    )?;
    let mut policies = HashMap::new();
    // An unreadable policy is reported with its own table.
    for row in conn.all(POLICIES, range())? {
        if let (Ok(hash), Ok(policy)) = (policy_hash(&row, 0), row.text(1).and_then(known_policy)) {
            policies.insert(hash, policy);
        }
    }
    let partners = theirs_of(conn, cache, &events)?;
    *after = last;
    Ok(Some(Page {
        bookings,
        entries,
        events,
        resolutions,
        deliveries: in_order(deliveries),
        attempts: in_order(attempts),
        partners,
        policies,
        ..Page::default()
    }))
}

fn read_events_without_booking(
    conn: &mut dyn Conn,
    after: &mut Vec<u8>,
    cache: &mut Partners,
) -> Result<Option<Page>, StoreError> {
    let events = conn.all(
        events_where!("booking_id IS NULL AND id > $1 ORDER BY id LIMIT $2"),
        args![after.as_slice(), BOOKINGS],
    )?;
    let Some(last) = events.last() else {
        return Ok(None);
    };
    let last = last.blob(0)?.to_vec();
    let range = || args![after.as_slice(), last.as_slice()];
    let deliveries = conn.all(
        deliveries!(
            "FROM event e JOIN delivery d ON d.event_id = e.id WHERE e.booking_id IS NULL AND e.id > $1 AND e.id <= $2"
        ),
        range(),
    )?;
    let attempts = conn.all(
        "SELECT a.event_id, a.endpoint_id, a.number, a.body FROM event e JOIN attempt a ON a.event_id = e.id \
         WHERE e.booking_id IS NULL AND e.id > $1 AND e.id <= $2",
        range(),
    )?;
    let partners = theirs_of(conn, cache, &events)?;
    let keys = expiring_keys(conn, &events)?;
    *after = last;
    Ok(Some(Page {
        events,
        deliveries: in_order(deliveries),
        attempts: in_order(attempts),
        partners,
        keys,
        ..Page::default()
    }))
}

/// The keys that these events say will expire.
fn expiring_keys(
    conn: &mut dyn Conn,
    events: &[Row],
) -> Result<HashMap<ApiKeyId, ExpiringKey>, StoreError> {
    let mut keys = HashMap::new();
    for id in events.iter().filter_map(event::expiring_key) {
        let sql =
            "SELECT partner_id, expires_ms FROM api_key WHERE id = $1 AND expires_ms IS NOT NULL";
        for row in conn.all(sql, args![&id])? {
            let key = ExpiringKey {
                partner_id: row.id(0)?,
                expires_at: row.time(1)?,
            };
            keys.insert(id, key);
        }
    }
    Ok(keys)
}

/// Deliveries or attempts, ordered by event, endpoint and number.
fn in_order(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_cached_key(|row| {
        let key = |column| row.blob(column).unwrap_or_default().to_vec();
        (key(0), key(1), row.int(2).unwrap_or_default())
    });
    rows
}

/// The contexts of the partners of these events.
fn theirs_of(
    conn: &mut dyn Conn,
    cache: &mut Partners,
    events: &[Row],
) -> Result<Partners, StoreError> {
    let mut partners = Partners::new();
    for row in events {
        // An invalid id is reported with the event.
        let Ok(partner_id) = row.id(1) else { continue };
        if let Entry::Vacant(place) = partners.entry(partner_id) {
            place.insert(theirs(conn, cache, partner_id)?);
        }
    }
    Ok(partners)
}

fn theirs(
    conn: &mut dyn Conn,
    cache: &mut Partners,
    partner_id: PartnerId,
) -> Result<Arc<PartnerContext>, StoreError> {
    if let Some(known) = cache.get(&partner_id) {
        return Ok(Arc::clone(known));
    }
    let rows = conn.all(
        "SELECT status, failures, failing_ms, probe_ms, unverified_ms, body, deleted_ms, since_ms FROM endpoint WHERE partner_id = $1 ORDER BY id",
        args![&partner_id],
    )?;
    let read = |row: &Row| -> Result<Receiver, StoreError> {
        let endpoint = endpoints::read(row, 0)?;
        Ok(Receiver {
            endpoint_id: endpoint.endpoint_id,
            status: endpoint.status,
            since: row.maybe_time(7)?,
            deleted_at: row.maybe_time(6)?,
            created_at: endpoint.created_at,
            has_moved: endpoint.moved_at.is_some(),
            types: endpoint.events,
        })
    };
    // An unreadable endpoint is reported with its own table.
    let receivers = rows.iter().filter_map(|row| read(row).ok()).collect();
    let rows = conn.all(recoveries::OF_PARTNER, args![&partner_id])?;
    let recoveries = rows.iter().filter_map(|row| recoveries::read(row).ok());
    let found = Arc::new(PartnerContext {
        receivers,
        recoveries: recoveries.filter(|recovery| !recovery.dry_run).collect(),
    });
    if cache.len() >= PARTNERS {
        cache.clear();
    }
    cache.insert(partner_id, Arc::clone(&found));
    Ok(found)
}

impl Page {
    fn check(&self, now: Timestamp) -> Checked {
        let mut findings = Findings::default();
        let (mut entries, mut events) = (self.entries.as_slice(), self.events.as_slice());
        let mut resolutions = self.resolutions.as_slice();
        let mut counts = Counts {
            bookings: self.bookings.len() as u64,
            deliveries: self.deliveries.len() as u64,
            attempts: self.attempts.len() as u64,
            ..Counts::default()
        };
        let mut brought: HashMap<PartnerId, PartnerTotals> = HashMap::new();
        for row in &self.bookings {
            let id = row.blob(0).unwrap_or_default();
            let belongings = BookingRows {
                entries: of_booking(&mut entries, 1, id),
                events: of_booking(&mut events, 3, id),
                resolutions: of_booking(&mut resolutions, 1, id),
                page: self,
                now,
            };
            counts.entries += belongings.entries.len() as u64;
            counts.events += belongings.events.len() as u64;
            counts.resolutions += belongings.resolutions.len() as u64;
            if let Some((partner_id, bytes)) = booking::counted(row, belongings.entries) {
                let theirs = brought.entry(partner_id).or_default();
                theirs.bookings += 1;
                theirs.bytes += bytes;
            }
            booking::check(row, &belongings, &mut findings);
        }
        for row in self.events.iter().filter(|row| row.is_null(3)) {
            let belongings = BookingRows {
                entries: &[],
                events: &[],
                resolutions: &[],
                page: self,
                now,
            };
            counts.events += 1;
            event::check_without_booking(row, &belongings, &mut findings);
        }
        let mut gone = HashMap::new();
        for row in &self.attempts {
            if let Some((endpoint_id, at)) = said_gone(row) {
                let last = gone.entry(endpoint_id).or_insert(at);
                *last = at.max(*last);
            }
        }
        Checked {
            number: self.number,
            findings,
            counts,
            gone,
            forgotten: self.forgotten(),
            brought,
        }
    }

    /// Endpoints of failed deliveries whose attempts were pruned. One of those attempts may have received 410 Gone.
    fn forgotten(&self) -> HashSet<EndpointId> {
        let pruned: HashSet<&[u8]> = (self.events.iter())
            .filter(|row| !row.is_null(6))
            .filter_map(|row| row.blob(0).ok())
            .collect();
        let failed = self.deliveries.iter().filter(|row| {
            let failed = row.int(2) == Ok(DeliveryPhase::Failed as i64);
            failed && row.blob(0).is_ok_and(|event| pruned.contains(event))
        });
        failed.filter_map(|row| row.id(1).ok()).collect()
    }
}

/// The endpoint and end time of an attempt that was answered 410 Gone.
fn said_gone(row: &Row) -> Option<(EndpointId, i64)> {
    if !row.text(3).is_ok_and(|body| body.contains("gone")) {
        return None;
    }
    let attempt: Attempt = row.json(3).ok()?;
    let end = attempt
        .started_at
        .saturating_add_unsigned(attempt.duration_ms);
    let gone = attempt.class == Some(FailureClass::Gone);
    gone.then_some((row.id(1).ok()?, end))
}

/// Takes the rows of a booking off the front of `rows`, which must be ordered by booking. Skips rows whose booking is
/// not on the page.
fn of_booking<'a>(rows: &mut &'a [Row], column: usize, id: &[u8]) -> &'a [Row] {
    let owner = |row: &'a Row| row.blob(column).unwrap_or_default();
    let orphans = rows.iter().take_while(|row| owner(row) < id).count();
    *rows = &rows[orphans..];
    let own = rows.iter().take_while(|row| owner(row) == id).count();
    let (own, rest) = rows.split_at(own);
    *rows = rest;
    own
}
