//! Begins a batch: loads the head and what its commands need, one SELECT per table.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::conn::{Arg, Conn, Row, Rows, Statement, StoreError, args, select_in};
use super::console_sessions::{self, read_console_session};
use super::cosignatures::{self, read_witness};
use super::endpoints::{self, read_of_partner, read_receiver, read_term};
use super::files::{self, read_arriving, read_file};
use super::holds::{self, read_held_event, read_hold};
use super::keys::{self, keys_where};
use super::operator_keys::{self, read_operator_key};
use super::read::Read;
use super::recoveries::{self, read_recovery};
use super::shares::{self, read_share};
use super::{
    StoredHead, audit, epochs, head_statement, policies, read_head, retention, schema, stamps,
    terms, tree,
};
use crate::engine::batch::{
    BatchState, ChainState, EventState, LoadedBooking, PartnerState, RememberedAnswer,
};
use crate::engine::change::{Content, DeliveryPhase, DeliveryState, Pruned};
use crate::engine::command::Reclaim;
use crate::engine::needs::Needs;
use crate::evidence::facts::{LeafPlace, Logged, ResolutionFact};
use crate::evidence::{BookingState, Erasable, RescheduleFact};
use crate::ledger::event::Opening;
use crate::ledger::{Hash, Leaf, LeafKind, leaf_hash};
use crate::limits::{IDEMPOTENCY_TTL_MS, LEASE_MS, LEASE_SKEW_MS, RECLAIMED, RECOVERIES_MS};
use crate::model::{EndpointId, EventId, EventType, Partner, PartnerStatus, Timestamp, Usage};
use crate::seal::Seal;

/// Takes the write turn, and loads the head and everything the batch needs in one flight. If `growing` is set, also
/// loads the answer to [`tree::growing`].
pub(crate) fn begin(
    conn: &mut dyn Conn,
    seal: &Seal,
    needs: &Needs,
    growing: bool,
) -> Result<(StoredHead, Option<Rows>, BatchState), StoreError> {
    let now = needs.now.ms();
    let mut asked = Asked {
        statements: vec![head_statement(), schema::version_statement()],
        readings: Vec::new(),
    };
    ask(needs, now, &mut asked);
    if growing {
        asked.statements.push(tree::growing());
    }
    let begun = conn.begin(&asked.statements);
    let mut results = begun.map_err(|error| schema::cause(conn, error))?;
    let growing = if growing { results.pop() } else { None };
    let [head, version, rest @ ..] = results.as_slice() else {
        return Err(no_head());
    };
    // Under the write turn, so that nobody upgrades the database before this batch ends.
    schema::require_same(version, conn)?;
    let head = read_head(head)?.ok_or_else(no_head)?;
    if let Some(to) = &head.moved_to {
        return Err(StoreError::Moved(to.clone()));
    }
    let loading = Loading { seal, now };
    let mut work = BatchState {
        size: head.head.size,
        origin: head.origin.clone(),
        vkey: head.vkey.clone(),
        written: head.written,
        lacking: head.lacking.clone(),
        ..BatchState::default()
    };
    read_all(conn, asked.readings, rest, &loading, &mut work)?;
    Ok((head, growing, work))
}

/// Loads what is needed in a transaction that was begun before.
#[cfg(all(test, feature = "sqlite", feature = "postgres"))]
pub(super) fn load(
    conn: &mut dyn Conn,
    seal: &Seal,
    needs: &Needs,
) -> Result<BatchState, StoreError> {
    let now = needs.now.ms();
    let mut asked = Asked::default();
    ask(needs, now, &mut asked);
    let found = conn.run(&asked.statements)?;
    let mut work = BatchState::default();
    let loading = Loading { seal, now };
    read_all(conn, asked.readings, &found, &loading, &mut work)?;
    Ok(work)
}

/// Reads the rows that were found.
fn read_all(
    conn: &mut dyn Conn,
    readings: Vec<Reading>,
    found: &[Rows],
    loading: &Loading<'_>,
    work: &mut BatchState,
) -> Read<()> {
    let mut again = Asked::default();
    for (reading, rows) in readings.into_iter().zip(found) {
        let reader = reading.reader;
        let before = work.left_out.len();
        for row in &rows.rows {
            let read = reader(work, loading, row);
            match reading.leaves_out {
                true => unless_damaged(work, row, read)?,
                false => read?,
            }
        }
        let readable = reading.readable;
        if let Some(readable) = readable.filter(|_| work.left_out.len() > before) {
            again.push(readable, reader, true, None);
        }
    }
    if again.statements.is_empty() {
        return Ok(());
    }
    let found = conn.run(&again.statements)?;
    read_all(conn, again.readings, &found, loading, work)
}

/// The statements with which a batch begins, and how the rows of all but the first two are read.
#[derive(Default)]
struct Asked {
    statements: Vec<Statement<'static>>,
    readings: Vec<Reading>,
}

/// How the rows of a statement are read.
struct Reading {
    reader: RowLoader,
    /// Whether rows that cannot be read are left out.
    leaves_out: bool,
    /// The same statement without unreadable rows, which is asked only if there are some: they stay as they are, and would otherwise
    /// take the places of others in every batch.
    readable: Option<Statement<'static>>,
}

impl Asked {
    fn push(
        &mut self,
        statement: Statement<'static>,
        reader: RowLoader,
        leaves_out: bool,
        readable: Option<Statement<'static>>,
    ) {
        self.statements.push(statement);
        self.readings.push(Reading {
            reader,
            leaves_out,
            readable,
        });
    }

    fn add(&mut self, statement: Statement<'static>, reader: RowLoader) {
        self.push(statement, reader, false, None);
    }

    /// Asks for rows of which some may be unreadable.
    fn damageable(&mut self, [all, readable]: [Statement<'static>; 2], reader: RowLoader) {
        self.push(all, reader, true, Some(readable));
    }

    fn one(&mut self, sql: &'static str, args: Vec<Arg<'static>>, read: RowLoader) {
        self.add(Statement::new(sql, args), read);
    }

    /// Asks for the rows with these keys, if there are any.
    fn keyed<'k, K>(&mut self, sql: &'static str, keys: &'k [K], read: RowLoader)
    where
        &'k K: Into<Arg<'k>>,
    {
        if let Some(statement) = keys_in(sql, keys) {
            self.add(statement, read);
        }
    }
}

/// Asks the queries that fetch what is needed, each with the function that reads its rows. Later readers build on
/// earlier ones, so the order matters.
fn ask(needs: &Needs, now: i64, asked: &mut Asked) {
    ask_partners(needs, now, asked);
    ask_credentials(needs, now, asked);
    ask_bookings(needs, asked);
    ask_events(needs, now, asked);
    ask_log(needs, asked);
    asked.keyed(ANSWERS, &needs.answers, read_answer);
}

/// Asks for partners, their endpoints, secrets, keys and policies, and for their changes of a day.
fn ask_partners(needs: &Needs, now: i64, asked: &mut Asked) {
    asked.keyed(PARTNERS, &needs.partners, read_partner);
    asked.keyed(endpoints::OF_PARTNERS, &needs.partners, read_of_partner);
    for partner_id in &needs.adding {
        let deleted = endpoints::unverified_deleted(partner_id, now);
        asked.add(deleted, endpoints::read_unverified_deleted);
    }
    asked.keyed(endpoints::TERMS, &needs.secret_owners, read_term);
    asked.keyed(LASTING_KEYS, &needs.key_owners, read_key);
    for owner in &needs.key_owners {
        let args = args![*owner, now];
        asked.one(EXPIRING_KEYS, args, read_key);
    }
    asked.keyed(
        policies::LATEST,
        &needs.policy_owners,
        policies::read_latest,
    );
    for (partner_id, day) in &needs.changing {
        asked.add(audit::of_day(partner_id, *day), audit::read_of_day);
    }
}

/// Asks for keys and for sessions of the consoles.
fn ask_credentials(needs: &Needs, now: i64, asked: &mut Asked) {
    asked.keyed(keys_where!("id IN ({})"), &needs.keys, read_key);
    asked.keyed(operator_keys::SOME, &needs.operator_keys, read_operator_key);
    if needs.live_operator_keys {
        asked.one(operator_keys::LIVE, vec![], read_operator_key);
    }
    asked.keyed(
        console_sessions::SOME,
        &needs.console_sessions,
        read_console_session,
    );
    for owner in &needs.console_owners {
        let args = args![*owner, now];
        asked.one(console_sessions::UNEXPIRED, args, read_console_session);
    }
    if needs.unexpired_operator_sessions {
        let sql = console_sessions::UNEXPIRED_OPERATORS;
        asked.one(sql, args![now], read_console_session);
    }
}

/// Asks for shares, legal holds, bookings with what was recorded of them, and files.
fn ask_bookings(needs: &Needs, asked: &mut Asked) {
    asked.keyed(shares::SOME, &needs.shares, read_share);
    asked.keyed(shares::OF_BOOKINGS, &needs.shared, read_share);
    asked.keyed(holds::OF_BOOKINGS, &needs.held, read_hold);
    asked.keyed(holds::OF_PARTNERS, &needs.holders, read_hold);
    asked.keyed(holds::OF_EVENTS, &needs.deleted, read_held_event);
    asked.keyed(BOOKINGS, &needs.bookings, read_booking);
    asked.keyed(CHAINS, &needs.chains, |work, _, row| {
        read_chain(work, row, 1)
    });
    asked.keyed(ACCEPTANCES, &needs.acceptances, read_acceptance);
    asked.keyed(ITEMS, &needs.items, read_item);
    asked.keyed(files::SOME, &needs.files, read_file);
    if let Some(before) = needs.unfinished_files {
        asked.add(files::unfinished(before), read_file);
    }
    asked.keyed(files::ARRIVING, &needs.arriving, read_arriving);
}

/// Asks for events, their deliveries, recoveries with the events of their next steps, and deliveries that are due, dropped or taken back.
fn ask_events(needs: &Needs, now: i64, asked: &mut Asked) {
    asked.keyed(EVENTS, &needs.events, read_event);
    asked.keyed(OF_EVENTS, &needs.deliveries, read_delivery);
    asked.keyed(endpoints::HEALTH, &needs.health, read_receiver);
    asked.keyed(recoveries::SOME, &needs.recoveries, read_recovery);
    for (partner_id, at) in &needs.recovering {
        let partner = || Arg::from(*partner_id);
        asked.one(recoveries::RUNNING, vec![partner()], read_recovery);
        let since = recoveries::first_id(at.plus_ms(-RECOVERIES_MS));
        let since = Arg::from(since);
        asked.one(recoveries::SINCE, vec![partner(), since], read_recovery);
    }
    for (partner_id, after) in &needs.log {
        let [log, deliveries] = recoveries::step(partner_id, *after);
        asked.add(log, recoveries::read_logged);
        asked.add(deliveries, recoveries::read_delivery);
    }
    asked.keyed(TO_DELETED, &needs.deleted, read_deleted);
    for (endpoint_id, room) in &needs.due {
        let endpoint_id = Arg::from(*endpoint_id);
        let room = i64::try_from(*room).unwrap_or(i64::MAX);
        let args = [endpoint_id, now.into(), room.into()];
        asked.damageable(DUE.map(|sql| Statement::new(sql, args.to_vec())), read_due);
    }
    if let [Some(all), Some(readable)] = OF_DELETED.map(|sql| keys_in(sql, &needs.dropped)) {
        asked.damageable([all, readable], read_dropped);
    }
    for from in &needs.reclaims {
        ask_reclaimed(*from, now, asked);
    }
}

/// Asks how far the search for old events, the stamps, the map and the witnesses have got.
fn ask_log(needs: &Needs, asked: &mut Asked) {
    if needs.sweep {
        asked.one(retention::SWEEP, vec![], retention::read_sweep);
    }
    if needs.stamping {
        asked.one(stamps::STAMPING, vec![], stamps::read_stamping);
        asked.one(stamps::STAMPED, vec![], stamps::read_stamped);
    }
    if needs.epoch {
        asked.one(epochs::LATEST, vec![], epochs::read_latest);
    }
    asked.keyed(cosignatures::SOME, &needs.witnesses, read_witness);
}

fn no_head() -> StoreError {
    StoreError::Corrupt("the log's head is missing".to_owned())
}

/// What a row reader may need besides the row.
pub(super) struct Loading<'a> {
    seal: &'a Seal,
    now: i64,
}

impl Loading<'_> {
    pub(super) fn seal(&self) -> &Seal {
        self.seal
    }
}

pub(super) type RowLoader = fn(&mut BatchState, &Loading<'_>, &Row) -> Read<()>;

const PARTNERS: &str = "SELECT id, status, events, policies, put_ms, settings, body, bookings, bytes, day, day_events, file_bytes, quota FROM partner WHERE id IN ({})";

/// Keys of some partners that never expire.
const LASTING_KEYS: &str =
    keys_where!("partner_id IN ({}) AND revoked_ms IS NULL AND expires_ms IS NULL");

/// A partner's keys that expire and have not done so yet.
const EXPIRING_KEYS: &str =
    keys_where!("partner_id = $1 AND revoked_ms IS NULL AND expires_ms > $2");

/// A booking, its policy and its resolution. Readers use it too.
pub(crate) const BOOKINGS: &str = "SELECT b.id, b.stream, b.entries, b.tip, b.body, b.terms, b.policy_hash, p.body, b.protected_leaf, e.leaf, \
     b.resolution_leaf, r.leaf, r.facts, b.rescheduled_leaf, m.leaf, m.facts, b.moves \
     FROM booking b LEFT JOIN policy p ON p.hash = b.policy_hash LEFT JOIN entry e ON e.idx = b.protected_leaf \
     LEFT JOIN entry r ON r.idx = b.resolution_leaf LEFT JOIN entry m ON m.idx = b.rescheduled_leaf WHERE b.id IN ({})";

const CHAINS: &str = "SELECT id, stream, entries, tip FROM booking WHERE id IN ({})";
const ACCEPTANCES: &str = "SELECT booking_id, idx, leaf, facts, seed FROM entry WHERE booking_id IN ({}) AND kind = 'terms.accepted'";
const ITEMS: &str = "SELECT booking_id, idx, leaf, facts FROM entry WHERE booking_id IN ({}) AND kind = 'evidence.added'";
const EVENTS: &str = "SELECT id, partner_id, type, retries, body, pruned_ms, digest, seq, booking_id FROM event WHERE id IN ({})";
const ANSWERS: &str = "SELECT key, request, body, at_ms FROM answer WHERE key IN ({})";

/// The deleted endpoints for which deliveries of some events wait.
const TO_DELETED: &str = "SELECT d.endpoint_id FROM delivery d JOIN endpoint n ON n.id = d.endpoint_id \
     WHERE d.event_id IN ({}) AND d.due_ms IS NOT NULL AND n.deleted_ms IS NOT NULL";

/// Which rows [`delivery`] can read.
macro_rules! sound {
    () => {
        "phase BETWEEN 0 AND 2 AND attempts >= 0 AND charged >= 0 AND (settled_leaf IS NULL OR settled_leaf >= 0) \
         AND LENGTH(event_id) = 16 AND LENGTH(endpoint_id) = 16"
    };
}

/// Which rows [`add_event`] can read.
macro_rules! sound_event {
    () => {
        "LENGTH(e.partner_id) = 16 AND e.type BETWEEN 0 AND 7 AND e.retries >= 0 AND e.seq >= 0 \
         AND (e.booking_id IS NULL OR LENGTH(e.booking_id) = 16) \
         AND (e.pruned_ms IS NULL AND e.digest IS NULL AND e.body IS NOT NULL \
         OR e.pruned_ms IS NOT NULL AND e.body IS NULL AND LENGTH(e.digest) = 32)"
    };
}
const _: () = assert!(EventType::WORDS.len() == 8, "as the statement says");

/// A query for deliveries with the columns that [`delivery`] takes after the first two. The arguments follow them.
macro_rules! deliveries {
    ($($rest:expr),+) => {
        concat!(
            "SELECT d.event_id, d.endpoint_id, d.phase, d.attempts, d.charged, d.due_ms, d.lease, d.settled_leaf, d.begun_ms, d.since_ms ",
            $($rest),+
        )
    };
}

/// A query for deliveries with their events and endpoints, as [`read_due`] takes them, and the same without unreadable rows.
macro_rules! due {
    ($where:literal) => {
        [
            due!(@ $where),
            due!(@ sound!(), " AND ", sound_event!(), " AND ", $where),
        ]
    };
    (@ $($where:expr),+) => {
        deliveries!(
            ", e.partner_id, e.type, e.retries, e.body, e.pruned_ms, e.digest, e.seq, e.booking_id, \
             n.status, n.failures, n.failing_ms, n.probe_ms, n.unverified_ms, n.body \
             FROM delivery d JOIN event e ON e.id = d.event_id JOIN endpoint n ON n.id = d.endpoint_id WHERE ",
            $($where),+
        )
    };
}

/// Like `deliveries!`, without rows that [`delivery`] cannot read.
macro_rules! readable {
    ($where:literal) => {
        deliveries!("FROM delivery d WHERE ", sound!(), " AND ", $where)
    };
}

/// A query for deliveries, and the same without unreadable rows.
macro_rules! damageable {
    ($where:literal) => {
        [
            deliveries!("FROM delivery d WHERE ", $where),
            readable!($where),
        ]
    };
}
pub(super) use deliveries;
#[cfg(test)]
pub(super) use {damageable, due, readable, sound, sound_event};

const DUE: [&str; 2] =
    due!("d.endpoint_id = $1 AND d.lease IS NULL AND d.due_ms <= $2 ORDER BY d.due_ms LIMIT $3");

/// Deliveries that wait for those of several endpoints that are deleted.
const OF_DELETED: [&str; 2] = damageable!(
    "endpoint_id IN ({}) AND lease IS NULL AND due_ms IS NOT NULL \
     AND EXISTS (SELECT 1 FROM endpoint n WHERE n.id = d.endpoint_id AND n.deleted_ms IS NOT NULL) LIMIT 512"
);
const _: () = assert!(RECLAIMED == 512, "as the statement says");

const OF_EVENTS: &str = deliveries!("FROM delivery d WHERE event_id IN ({})");

const ENDED: [&str; 2] = damageable!("lease IS NOT NULL AND due_ms <= $1 ORDER BY due_ms LIMIT $2");
const OF_NODE: [&str; 2] =
    damageable!("lease IS NOT NULL AND lease >= $1 AND lease <= $2 ORDER BY due_ms LIMIT $3");

/// Waiting deliveries whose wait was computed at a time that lies in the future.
const AHEAD: &str =
    readable!("lease IS NULL AND due_ms IS NOT NULL AND since_ms > $1 ORDER BY since_ms LIMIT $2");
/// Deliveries held for longer than a lease lasts.
const HELD_AHEAD: &str = readable!("lease IS NOT NULL AND due_ms > $1 ORDER BY due_ms LIMIT $2");

/// Asks for what a command takes back at `now`, [`RECLAIMED`] at a time.
fn ask_reclaimed(from: Reclaim, now: i64, asked: &mut Asked) {
    let most = i64::try_from(RECLAIMED).unwrap_or(i64::MAX);
    let (sqls, args): (_, Vec<Arg<'static>>) = match from {
        Reclaim::EndedBy(ended) => (ENDED, args![ended, most]),
        Reclaim::Gone(node) => {
            let (first, last) = node.leases().into_inner();
            (OF_NODE, args![first, last, most])
        }
        Reclaim::Ahead => {
            for (statement, read) in ahead(now, most) {
                asked.add(statement, read);
            }
            return;
        }
    };
    let asks = sqls.map(|sql| Statement::new(sql, args.clone()));
    asked.damageable(asks, read_lapsed);
}

/// Asks for up to `most` each of the deliveries and endpoints whose times come from a clock that was ahead of `now` by
/// more than the clocks of two nodes may differ.
pub(super) fn ahead(now: i64, most: i64) -> [(Statement<'static>, RowLoader); 4] {
    let latest = now.saturating_add(LEASE_SKEW_MS);
    let held = latest.saturating_add(LEASE_MS);
    let waiting = Statement::new(AHEAD, args![latest, most]);
    let held = Statement::new(HELD_AHEAD, args![held, most]);
    [
        (waiting, read_lapsed),
        (held, read_lapsed),
        (endpoints::ahead(now, most), endpoints::read_health),
        (
            endpoints::unverified_ahead(now, most),
            endpoints::read_health,
        ),
    ]
}

fn keys_in<'k, K>(sql: &'static str, keys: &'k [K]) -> Option<Statement<'static>>
where
    &'k K: Into<Arg<'k>>,
{
    let statement = select_in(sql, keys)?;
    let args = statement.args.into_iter().map(Arg::into_owned).collect();
    Some(Statement {
        sql: statement.sql,
        args,
    })
}

/// A partner, from its columns status, settings and body.
pub(crate) fn partner(
    row: &Row,
    status: usize,
    settings: usize,
    body: usize,
) -> Result<Partner, StoreError> {
    let mut partner: Partner = row.json(body)?;
    partner.settings = row.json(settings)?;
    partner.status = match row.int(status)? {
        0 => PartnerStatus::Pending,
        1 => PartnerStatus::Approved,
        2 => PartnerStatus::Active,
        3 => PartnerStatus::Suspended,
        n => {
            return Err(StoreError::Corrupt(format!(
                "partner {} has status {n}",
                partner.partner_id
            )));
        }
    };
    Ok(partner)
}

/// A partner's usage, from the columns bookings, bytes, day, day_events and file_bytes, which begin at `from`.
pub(crate) fn usage(row: &Row, from: usize) -> Result<Usage, StoreError> {
    Ok(Usage {
        bookings: row.size(from)?,
        bytes: row.size(from + 1)?,
        day: row.size(from + 2)?,
        day_events: row.size(from + 3)?,
        file_bytes: row.size(from + 4)?,
    })
}

fn read_partner(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let state = PartnerState {
        partner: partner(row, 1, 5, 6)?,
        events: row.size(2)?,
        usage: usage(row, 7)?,
        quota: row.json(12)?,
        endpoints: Vec::new(),
        policy_set_version: policies::policy_set_version(row, 3, 4)?,
        policies: BTreeMap::new(),
    };
    work.partners.insert(row.id(0)?, state);
    Ok(())
}

fn read_key(work: &mut BatchState, loading: &Loading<'_>, row: &Row) -> Read<()> {
    if let Some(state) = keys::state(row, loading.seal)? {
        work.keys.insert(state.key.api_key_id, state);
    }
    Ok(())
}

/// A row of [`BOOKINGS`].
pub(crate) fn booking(row: &Row) -> Result<LoadedBooking, StoreError> {
    let mut frozen = terms::recorded(row, 5, 6)?;
    let mut state = BookingState::of(row.json(4)?, terms::hash(row, 5, 6)?);
    if !row.is_null(8) {
        state.protected = Some(place(row, 8, 9)?);
    }
    if !row.is_null(10) {
        let place = place(row, 10, 11)?;
        state.resolve_as(place, row.json::<ResolutionFact>(12)?.resolution);
    }
    let mut first_terms = None;
    if !row.is_null(13) {
        let place = place(row, 13, 14)?;
        let fact: RescheduleFact = row.json(15)?;
        first_terms = Some(std::mem::replace(&mut frozen, fact.terms.clone()));
        state.moves = row.json(16)?;
        state.move_to(place, fact);
    }
    Ok(LoadedBooking {
        terms: terms::thaw(frozen, row, &state.booking, 7)?,
        first_terms,
        stream: row.bytes(1)?,
        state,
    })
}

/// The place of an entry, from the columns of its index and its leaf.
pub(super) fn place(row: &Row, index: usize, leaf: usize) -> Result<LeafPlace, StoreError> {
    let leaf = row.blob(leaf)?;
    Ok(LeafPlace {
        index: row.size(index)?,
        hash: leaf_hash(leaf),
        at: Timestamp::from_ms(Leaf::written_at(leaf).unwrap_or_default()),
    })
}

fn read_booking(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.bookings.insert(row.id(0)?, booking(row)?.into());
    read_chain(work, row, 1)
}

/// Reads the state of a booking's chain, from the columns stream, entries and tip, which begin at `from`.
fn read_chain(work: &mut BatchState, row: &Row, from: usize) -> Read<()> {
    let chain = ChainState {
        stream: row.bytes(from)?,
        entries: row.size(from + 1)?,
        tip: Hash(row.bytes(from + 2)?),
    };
    work.chains.insert(row.id(0)?, chain);
    Ok(())
}

/// Reads an acceptance of a booking that was read before.
fn read_acceptance(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let Some(booking) = work.bookings.get_mut(&row.id(0)?) else {
        return Ok(());
    };
    add_logged(&mut Arc::make_mut(booking).state.acceptances, row)?;
    // The text that stands in for an erased one can also be a text that was never erased.
    let opening = Opening::read(row.blob(4)?).map_err(StoreError::Corrupt)?;
    let erased = Erasable::of(LeafKind::TermsAccepted).iter();
    let erased = erased.filter(|value| opening.lacks(value.word()));
    let index = row.size(1)?;
    work.erased_of_acceptances
        .extend(erased.map(|value| (index, *value)));
    Ok(())
}

/// Reads an evidence item of a booking that was read before.
fn read_item(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    match work.bookings.get_mut(&row.id(0)?) {
        Some(booking) => add_logged(&mut Arc::make_mut(booking).state.items, row),
        None => Ok(()),
    }
}

/// Adds the fact of an entry, in the order of the ledger.
fn add_logged<T: DeserializeOwned>(known: &mut Vec<Logged<T>>, row: &Row) -> Read<()> {
    let place = place(row, 1, 2)?;
    let after = known.partition_point(|known| known.place.index < place.index);
    let fact = row.json(3)?;
    known.insert(after, Logged { place, fact });
    Ok(())
}

pub(crate) fn event_type(number: i64) -> Result<EventType, StoreError> {
    EventType::WORDS
        .iter()
        .map(|(_, word)| *word)
        .find(|word| *word as i64 == number)
        .ok_or_else(|| StoreError::Corrupt(format!("an event has type {number}")))
}

fn read_event(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    add_event(work, row.id(0)?, row, 1)
}

fn read_deleted(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.deleted.insert(row.id(0)?);
    Ok(())
}

/// Adds an event, from the columns partner, type, retries, body, pruned, digest, number and booking, which begin at
/// `from`.
fn add_event(work: &mut BatchState, event_id: EventId, row: &Row, from: usize) -> Read<()> {
    let state = EventState {
        partner_id: row.id(from)?,
        event_type: event_type(row.int(from + 1)?)?,
        retries: u32::try_from(row.size(from + 2)?).unwrap_or(u32::MAX),
        content: content(row, from + 3)?,
        seq: row.size(from + 6)?,
        booking_id: row.maybe_id(from + 7)?,
        endpoints: Vec::new(),
    };
    work.events.entry(event_id).or_insert(state);
    Ok(())
}

/// An event's body or what is left of it, from the columns body, pruned and digest, which begin at `from`.
pub(crate) fn content(row: &Row, from: usize) -> Result<Content, StoreError> {
    let pruned = row.maybe_int(from + 1)?;
    match pruned.map(Timestamp::from_ms) {
        None if row.is_null(from + 2) => Ok(Content::Whole(Arc::from(row.blob(from)?))),
        Some(at) if row.is_null(from) => Ok(Content::Pruned(Pruned {
            at,
            digest: row.bytes(from + 2)?,
        })),
        _ => Err(StoreError::Corrupt(
            "an event has both its body and what is left of it".to_owned(),
        )),
    }
}

/// A delivery, from the columns phase, attempts, charged, due, lease, settled_leaf, begun and since, which begin at
/// `from`.
pub(crate) fn delivery(row: &Row, from: usize) -> Result<DeliveryState, StoreError> {
    let phase = row.int(from)?;
    Ok(DeliveryState {
        phase: DeliveryPhase::from_number(phase)
            .ok_or_else(|| StoreError::Corrupt(format!("a delivery has phase {phase}")))?,
        attempts: u32::try_from(row.size(from + 1)?).unwrap_or(u32::MAX),
        counted_attempts: u32::try_from(row.size(from + 2)?).unwrap_or(u32::MAX),
        due: row.maybe_time(from + 3)?,
        lease: row.maybe_int(from + 4)?,
        settled_leaf: row.maybe_size(from + 5)?,
        begun: row.maybe_time(from + 6)?,
        since: row.maybe_time(from + 7)?,
    })
}

fn read_delivery(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let (event_id, endpoint_id) = (row.id(0)?, row.id(1)?);
    if let Some(event) = work.events.get_mut(&event_id) {
        event.endpoints.push(endpoint_id);
    }
    work.deliveries
        .insert((event_id, endpoint_id), delivery(row, 2)?);
    Ok(())
}

fn read_due(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let (event_id, endpoint_id): (EventId, EndpointId) = (row.id(0)?, row.id(1)?);
    let state = delivery(row, 2)?;
    add_event(work, event_id, row, 10)?;
    if let Entry::Vacant(limit) = work.limits.entry(endpoint_id) {
        let endpoint = endpoints::read(row, 18)?;
        limit.insert(endpoint.rate_limit_per_second);
        work.health.insert(endpoint_id, endpoint.health());
    }
    work.deliveries.insert((event_id, endpoint_id), state);
    let due = work.due.entry(endpoint_id).or_default();
    // It is read twice if others were left out.
    if !due.contains(&event_id) {
        due.push(event_id);
    }
    Ok(())
}

fn read_lapsed(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let name = (row.id(0)?, row.id(1)?);
    work.deliveries.insert(name, delivery(row, 2)?);
    work.lapsed.insert(name);
    Ok(())
}

fn read_dropped(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let name: (EventId, EndpointId) = (row.id(0)?, row.id(1)?);
    work.deliveries.insert(name, delivery(row, 2)?);
    work.deleted.insert(name.1);
    Ok(())
}

/// Leaves out a delivery that cannot be read. No command names it, and the others must not wait for its repair.
fn unless_damaged(work: &mut BatchState, row: &Row, read: Read<()>) -> Read<()> {
    let Err(StoreError::Corrupt(why)) = read else {
        return read;
    };
    let event = row.id(0).map_or_else(
        |_| "an event without an id".to_owned(),
        |event_id: EventId| format!("event {event_id}"),
    );
    work.left_out.push(format!("{event}: {why}"));
    Ok(())
}

fn read_answer(work: &mut BatchState, loading: &Loading<'_>, row: &Row) -> Read<()> {
    // It may have expired even though housekeeping has not deleted it yet.
    if row.int(3)? < loading.now - IDEMPOTENCY_TTL_MS {
        return Ok(());
    }
    let key: [u8; 32] = row.bytes(0)?;
    let request = row.bytes(1)?;
    let sealed = row.blob(2)?;
    if sealed.is_empty() {
        work.prior.insert(key, RememberedAnswer::Erased { request });
        return Ok(());
    }
    let answer = loading.seal.open(&key, sealed).ok_or_else(|| {
        StoreError::Corrupt("a remembered answer does not open under the ledger key".to_owned())
    })?;
    let answer = Arc::from(answer);
    work.prior
        .insert(key, RememberedAnswer::Stored { request, answer });
    Ok(())
}
