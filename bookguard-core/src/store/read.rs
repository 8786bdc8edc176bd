//! Answers queries. Every list is a keyset page over an index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::conn::{Arg, Conn, Row, Rows, Statement, StoreError, args, select_in};
use super::keys::{self, keys_where};
use super::load::{self, BOOKINGS};
use super::{StoredHead, head_statement, read_head};
use crate::engine::batch::LoadedBooking;
use crate::engine::lease::Node;
use crate::evidence::StoredEntry;
use crate::evidence::facts::ResolutionFact;
use crate::ledger::event::Opening;
use crate::ledger::rollback::{PublishedHead, Rollback};
use crate::ledger::tile::TileAddress;
use crate::limits::{
    BOOKINGS_EXAMINED, CONTINUATIONS, ENDPOINTS_EXAMINED, EXAMINED_BYTES, PARTNERS_EXAMINED,
};
use crate::log::Log;
use crate::model::id::Noun;
use crate::model::{
    ApiKey, ApiKeyId, BookingId, BookingStatus, EndpointId, Id, Partner, PartnerAccount, PartnerId,
    PartnerStatus, Quota, QuotaReport, ResolutionId, Search, Timestamp,
};
use crate::policy::{Resolution, ResolutionStatus};
use crate::seal::Seal;
use crate::store::tree::{tile_statements, tiles_at};

/// A connection for reading.
pub struct Reader<'a> {
    conn: Box<dyn Conn>,
    /// Whether the next query begins the snapshot. BEGIN travels with that query.
    to_begin: bool,
    seal: &'a Seal,
    seen: Option<Arc<PublishedHead>>,
}

/// An endpoint with something due, its partner, and whether the last attempt at it failed.
pub type Due = (EndpointId, PartnerId, bool);

/// When the expiry of a key is due to be announced, the key, and its owner.
pub type KeyNotice = (Timestamp, ApiKeyId, PartnerId);

/// One page of the endpoints with something due.
#[derive(Debug, Clone, Default)]
pub struct DuePage {
    /// The endpoints.
    pub due: Vec<Due>,
    /// Since when the longest waiting delivery is due, of those to endpoints that are verified and whose last attempt did
    /// not fail: nothing but this service keeps them waiting, unless a receiver is slow or limits its rate.
    pub oldest: Option<Timestamp>,
    /// Deleted endpoints for which deliveries wait.
    pub deleted: Vec<EndpointId>,
    /// Where the next page begins.
    pub next: Option<EndpointId>,
}

/// Selects the bookings that a list shows.
#[derive(Debug, Clone, Default)]
pub struct BookingFilter {
    /// Only bookings of this partner; all partners' if `None`, for the administrator.
    pub partner_id: Option<PartnerId>,
    /// Only bookings in this status.
    pub status: Option<BookingStatus>,
    /// Only bookings whose event is at this time or later.
    pub event_from: Option<Timestamp>,
    /// Only bookings whose event is before this time.
    pub event_to: Option<Timestamp>,
    /// Only bookings that this search finds.
    pub search: Option<Search>,
}

/// The way through bookings for one page of a list: newest first, from `before` on.
struct Walk {
    /// The statements that read bookings of one partner and of all partners, the id first.
    statements: [&'static str; 2],
    partner_id: Option<PartnerId>,
    before: Option<BookingId>,
    /// The most rows of the page.
    limit: u32,
    /// How many bookings are read at first.
    piece: u32,
}

/// A booking's owner and chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChain {
    /// The owner.
    pub owner: PartnerId,
    /// The number of entries.
    pub entries: u64,
    /// The hash of the last entry.
    pub tip: [u8; 32],
}

/// The result of looking up a key by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFound {
    /// A key that is not revoked.
    Owned {
        /// Its owner.
        partner_id: PartnerId,
        /// The key.
        key: ApiKey,
        /// Whether its owner is suspended.
        suspended: bool,
    },
    /// The key does not exist, or it was revoked.
    Unknown,
    /// The row was not written by Bookguard, so the key gives no access.
    Forged(ApiKeyId),
}

/// What a read returns: the error says that the database did not answer, or holds what cannot be.
pub(super) type Read<T> = Result<T, StoreError>;

/// A query for the first `$2` endpoints after `$1` for which deliveries wait without a lease: the id, and columns of `n`, its row, which
/// may be missing. It steps through the index from one endpoint to the next.
macro_rules! waiting_endpoints {
    ($columns:literal) => {
        concat!(
            "WITH RECURSIVE waiting (endpoint_id, place) AS ( \
             SELECT (SELECT endpoint_id FROM delivery WHERE lease IS NULL AND due_ms IS NOT NULL AND endpoint_id > $1 \
                     ORDER BY endpoint_id LIMIT 1), 1 \
             UNION ALL \
             SELECT (SELECT d.endpoint_id FROM delivery d WHERE d.lease IS NULL AND d.due_ms IS NOT NULL \
                     AND d.endpoint_id > w.endpoint_id ORDER BY d.endpoint_id LIMIT 1), w.place + 1 \
             FROM waiting w WHERE w.endpoint_id IS NOT NULL AND w.place < $2) \
             SELECT w.endpoint_id, ",
            $columns,
            " FROM waiting w LEFT JOIN endpoint n ON n.id = w.endpoint_id WHERE w.endpoint_id IS NOT NULL"
        )
    };
}
pub(super) use waiting_endpoints;

/// A query for entries with the columns that [`entry`] takes.
macro_rules! entries_where {
    ($rest:literal) => {
        concat!(
            "SELECT idx, booking_id, seq, leaf, kind, seed, facts FROM entry WHERE ",
            $rest
        )
    };
}
pub(super) use entries_where;

impl<'a> Reader<'a> {
    /// `seen` is the head that was last seen before this connection's first query.
    pub(crate) fn new(
        conn: Box<dyn Conn>,
        seal: &'a Seal,
        seen: Option<Arc<PublishedHead>>,
    ) -> Self {
        Self {
            conn,
            to_begin: false,
            seal,
            seen,
        }
    }

    /// As [`Log::publish`], for a head that was read with this reader.
    pub(crate) fn publish(&mut self, log: &Log, head: &StoredHead) -> Read<Option<Rollback>> {
        log.publish(&mut *self.conn, self.seen.as_deref(), head)
    }

    /// Makes all later reads see one moment, until the reader is dropped.
    pub fn snapshot(&mut self) {
        self.to_begin = true;
    }

    /// The seal that opens sealed values.
    pub(super) fn seal(&self) -> &'a Seal {
        self.seal
    }

    /// The connection, for statements that each see a moment of their own.
    pub(super) fn conn(&mut self) -> &mut dyn Conn {
        &mut *self.conn
    }

    pub(super) fn ask(&mut self, statement: Statement<'_>) -> Read<Rows> {
        if !std::mem::take(&mut self.to_begin) {
            return self.conn.one(statement);
        }
        let mut results = self.conn.begin(&[statement])?;
        Ok(results.pop().unwrap_or_default())
    }

    /// As [`ask`](Self::ask) for each of the statements, in one round trip.
    pub(super) fn ask_all(&mut self, statements: &[Statement<'_>]) -> Read<Vec<Rows>> {
        match std::mem::take(&mut self.to_begin) {
            true => self.conn.begin(statements),
            false => self.conn.run(statements),
        }
    }

    pub(super) fn all(&mut self, sql: &'static str, args: Vec<Arg<'_>>) -> Read<Vec<Row>> {
        Ok(self.ask(Statement::new(sql, args))?.rows)
    }

    pub(super) fn first(&mut self, sql: &'static str, args: Vec<Arg<'_>>) -> Read<Option<Row>> {
        Ok(self.all(sql, args)?.into_iter().next())
    }

    /// The rows with these keys, if any are asked for.
    pub(super) fn keyed<'k, K>(&mut self, sql: &'static str, keys: &'k [K]) -> Read<Vec<Row>>
    where
        &'k K: Into<Arg<'k>>,
    {
        let statement = select_in(sql, keys);
        statement.map_or(Ok(Vec::new()), |statement| Ok(self.ask(statement)?.rows))
    }

    /// What `read` makes of each of a query's rows.
    pub(super) fn each<T>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg<'_>>,
        read: impl Fn(&Row) -> Read<T>,
    ) -> Read<Vec<T>> {
        self.all(sql, args)?.iter().map(read).collect()
    }

    /// What `read` makes of a query's first row, if it has any.
    pub(super) fn single<T>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg<'_>>,
        read: impl Fn(&Row) -> Read<T>,
    ) -> Read<Option<T>> {
        self.first(sql, args)?.as_ref().map(read).transpose()
    }

    /// The number that a query counts; 0 if it has no row.
    pub(super) fn count(&mut self, sql: &'static str, args: Vec<Arg<'_>>) -> Read<u64> {
        self.first(sql, args)?.map_or(Ok(0), |row| row.size(0))
    }

    /// The first `rows` that `read` makes of a query's rows below `before`, newest first. Rows for which it returns `None`,
    /// because they are not genuine, are passed over. The id is the rows' first column, and `sql` takes it and the limit after `args`.
    pub(super) fn genuine<N: Noun, T>(
        &mut self,
        (sql, args): (&'static str, Vec<Arg<'_>>),
        before: Option<Id<N>>,
        rows: u32,
        read: impl Fn(&Row, &Seal) -> Read<Option<T>>,
    ) -> Read<Vec<T>> {
        let mut before = before.unwrap_or(Id::from_bytes([0xff; 16]));
        let mut found = Vec::new();
        loop {
            let mut args = args.clone();
            args.extend([(&before).into(), i64::from(rows).into()]);
            let page = self.all(sql, args)?;
            for row in &page {
                found.extend(read(row, self.seal)?);
            }
            found.truncate(rows as usize);
            let short = found.len() < rows as usize && page.len() == rows as usize;
            match page.last().filter(|_| short) {
                Some(last) => before = last.id(0)?,
                None => return Ok(found),
            }
        }
    }

    /// The head.
    pub fn head(&mut self) -> Read<StoredHead> {
        read_head(&self.ask(head_statement())?)?
            .ok_or_else(|| StoreError::Corrupt("the log's head is missing".to_owned()))
    }

    /// Looks up the key with this hash. A revoked key counts as unknown.
    pub fn key_by_hash(&mut self, hash: &[u8; 32]) -> Read<KeyFound> {
        let row = self.first(keys_where!("hash = $1 AND revoked_ms IS NULL"), args![hash])?;
        self.key_found(row)
    }

    /// Looks up a key by its id. A revoked key counts as unknown.
    pub fn key_by_id(&mut self, api_key_id: &ApiKeyId) -> Read<KeyFound> {
        let row = self.first(
            keys_where!("id = $1 AND revoked_ms IS NULL"),
            args![api_key_id],
        )?;
        self.key_found(row)
    }

    fn key_found(&mut self, row: Option<Row>) -> Read<KeyFound> {
        let Some(row) = row else {
            return Ok(KeyFound::Unknown);
        };
        Ok(match keys::read(&row, self.seal)? {
            Some((partner_id, key)) => {
                let status = self.first(
                    "SELECT status FROM partner WHERE id = $1",
                    args![&partner_id],
                )?;
                let status = status.map_or(Ok(0), |row| row.int(0))?;
                KeyFound::Owned {
                    partner_id,
                    key,
                    suspended: status == PartnerStatus::Suspended as i64,
                }
            }
            None => KeyFound::Forged(row.id(0)?),
        })
    }

    /// One partner.
    pub fn partner(&mut self, partner_id: &PartnerId) -> Read<Option<Partner>> {
        let sql = "SELECT status, settings, body FROM partner WHERE id = $1";
        self.single(sql, args![partner_id], |row| load::partner(row, 0, 1, 2))
    }

    /// One partner, with its usage of its quota by `at`. `given` is the quota of partners without one of their own.
    pub fn account(
        &mut self,
        partner_id: &PartnerId,
        given: Quota,
        at: Timestamp,
    ) -> Read<Option<PartnerAccount>> {
        let sql = "SELECT status, settings, body, bookings, bytes, day, day_events, file_bytes, quota, \
                   (SELECT COUNT(*) FROM endpoint WHERE partner_id = $1 AND deleted_ms IS NULL) FROM partner WHERE id = $1";
        self.single(sql, args![partner_id], |row| {
            let quota = row.json::<Quota>(8)?.or(given);
            Ok(PartnerAccount {
                partner: load::partner(row, 0, 1, 2)?,
                quota: QuotaReport::of(quota, &load::usage(row, 3)?, row.size(9)?, at),
            })
        })
    }

    /// Partners, newest first, below `before`.
    pub fn partners(
        &mut self,
        status: Option<PartnerStatus>,
        before: Option<PartnerId>,
        rows: u32,
    ) -> Read<Vec<Partner>> {
        let before = before.unwrap_or(PartnerId::from_bytes([0xff; 16]));
        let (least, most) = status.map_or((0, i64::MAX), |status| (status as i64, status as i64));
        self.each(
            "SELECT status, settings, body FROM partner WHERE id < $1 AND status >= $2 AND status <= $3 ORDER BY id DESC LIMIT $4",
            args![&before, least, most, rows],
            |row| load::partner(row, 0, 1, 2),
        )
    }

    /// Partners in a status whose id, name, kind of business, contact or site a search finds, newest first, below `before`, and
    /// where the next page begins if there may be one. At most [`PARTNERS_EXAMINED`] are examined.
    pub fn found_partners(
        &mut self,
        search: &Search,
        status: Option<PartnerStatus>,
        mut before: Option<PartnerId>,
        limit: u32,
    ) -> Read<(Vec<Partner>, Option<PartnerId>)> {
        let mut found = Vec::new();
        for _ in 0..PARTNERS_EXAMINED / PARTNERS_PIECE {
            let piece = self.partners(status, before, PARTNERS_PIECE)?;
            let is_last = piece.len() < PARTNERS_PIECE as usize;
            for partner in piece {
                before = Some(partner.partner_id);
                let id = partner.partner_id.to_string();
                let site = partner.website.as_deref().unwrap_or_default();
                let contact = &*partner.contact_email;
                let texts = [&*id, &*partner.name, &*partner.business_type, contact, site];
                if search.finds_in(texts.into_iter()) {
                    found.push(partner);
                    if found.len() == limit as usize {
                        return Ok((found, before));
                    }
                }
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, before))
    }

    /// A partner's keys, newest first, below `before`. Rows that are not genuine are left out.
    pub fn keys(
        &mut self,
        partner_id: &PartnerId,
        before: Option<ApiKeyId>,
        rows: u32,
    ) -> Read<Vec<ApiKey>> {
        let sql = keys_where!("partner_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
        let args = args![partner_id];
        self.genuine((sql, args), before, rows, |row, seal| {
            Ok(keys::read(row, seal)?.map(|(_, key)| key))
        })
    }

    /// Those of these keys that exist, revoked or not. Rows that are not genuine are left out.
    pub fn keys_by_id(&mut self, api_key_ids: &[ApiKeyId]) -> Read<Vec<ApiKey>> {
        let mut found = Vec::new();
        for row in &self.keyed(keys_where!("id IN ({})"), api_key_ids)? {
            found.extend(keys::read(row, self.seal)?.map(|(_, key)| key));
        }
        Ok(found)
    }

    /// The owner of a key by its id.
    pub fn key_owner(&mut self, api_key_id: &ApiKeyId) -> Read<Option<PartnerId>> {
        let sql = "SELECT partner_id FROM api_key WHERE id = $1";
        self.single(sql, args![api_key_id], |row| row.id(0))
    }

    /// One booking with its terms and chain.
    pub fn booking(&mut self, booking_id: &BookingId) -> Read<Option<LoadedBooking>> {
        let rows = self.keyed(BOOKINGS, std::slice::from_ref(booking_id))?;
        rows.first().map(load::booking).transpose()
    }

    /// A booking as GET shows it, preceded by its owner and the tip of its chain.
    pub fn booking_text(
        &mut self,
        booking_id: &BookingId,
    ) -> Read<Option<(PartnerId, [u8; 32], String)>> {
        let row = self.first(
            "SELECT partner_id, tip, body FROM booking WHERE id = $1",
            args![booking_id],
        )?;
        row.map(|mut row| Ok((row.id(0)?, row.bytes(1)?, row.take_text(2)?)))
            .transpose()
    }

    /// The owner of a booking, and the end of its chain.
    pub fn booking_chain(&mut self, booking_id: &BookingId) -> Read<Option<StoredChain>> {
        let sql = "SELECT partner_id, entries, tip FROM booking WHERE id = $1";
        self.single(sql, args![booking_id], |row| {
            Ok(StoredChain {
                owner: row.id(0)?,
                entries: row.size(1)?,
                tip: row.bytes(2)?,
            })
        })
    }

    /// The owner of a booking.
    pub fn booking_owner(&mut self, booking_id: &BookingId) -> Read<Option<PartnerId>> {
        let sql = "SELECT partner_id FROM booking WHERE id = $1";
        self.single(sql, args![booking_id], |row| row.id(0))
    }

    /// Bookings as GET shows them, newest first, below `before`, and where the next page begins if there may be one.
    pub fn bookings(
        &mut self,
        filter: &BookingFilter,
        before: Option<BookingId>,
        limit: u32,
    ) -> Read<(Vec<Box<RawValue>>, Option<BookingId>)> {
        let walk = Walk {
            statements: match filter.search {
                None => [BOOKINGS_OF_PARTNER, BOOKINGS_OF_ALL],
                Some(_) => [TEXTS_OF_PARTNER, TEXTS_OF_ALL],
            },
            partner_id: filter.partner_id,
            before,
            limit,
            piece: match (filter.is_open(), &filter.search) {
                (true, _) => limit + 1,
                (_, None) => PIECE,
                (_, Some(_)) => PIECE_OF_DOCUMENTS,
            },
        };
        let (ids, next) = self.examine(walk, |row| {
            let taken = filter.takes(row)?;
            Ok(taken.then_some(row.bytes(0)?))
        })?;
        let mut found: HashMap<[u8; 16], Box<RawValue>> = (self.keyed(BOOKING_TEXTS, &ids)?.iter())
            .map(|row| Ok((row.bytes(0)?, row.json(1)?)))
            .collect::<Read<_>>()?;
        let texts = ids.iter().filter_map(|id| found.remove(id)).collect();
        Ok((texts, next))
    }

    /// The latest resolutions of canceled bookings, the newest booking's first, of bookings below `before`, and where the next
    /// page begins if there may be one.
    pub fn resolutions(
        &mut self,
        partner_id: Option<PartnerId>,
        status: Option<ResolutionStatus>,
        before: Option<BookingId>,
        limit: u32,
    ) -> Read<(Vec<Resolution>, Option<BookingId>)> {
        #[derive(Deserialize)]
        struct RecordedResolution {
            resolution: StatusOf,
        }
        #[derive(Deserialize)]
        struct StatusOf {
            status: ResolutionStatus,
        }
        let walk = Walk {
            statements: match status {
                Some(ResolutionStatus::PendingReview) => [WAITING_OF_PARTNER, WAITING_OF_ALL],
                _ => [RESOLUTIONS_OF_PARTNER, RESOLUTIONS_OF_ALL],
            },
            partner_id,
            before,
            limit,
            piece: PIECE_OF_DOCUMENTS,
        };
        self.examine(walk, |row| {
            if row.is_null(1) {
                return Ok(None);
            }
            if let Some(wanted) = status
                && row.json::<RecordedResolution>(1)?.resolution.status != wanted
            {
                return Ok(None);
            }
            Ok(Some(row.json::<ResolutionFact>(1)?.resolution))
        })
    }

    /// Examines bookings, and returns what `take` makes of them and where the next page begins if there may be one.
    ///
    /// Rows are read in pieces, and at most [`BOOKINGS_EXAMINED`] and [`EXAMINED_BYTES`] per page, but for the rest of the
    /// last piece. So a list that takes little costs as much as one that takes everything, but its pages may be short.
    fn examine<T>(
        &mut self,
        walk: Walk,
        take: impl Fn(&Row) -> Read<Option<T>>,
    ) -> Read<(Vec<T>, Option<BookingId>)> {
        let [of_partner, of_all] = walk.statements;
        let limit = walk.limit as usize;
        let mut before = walk.before.unwrap_or(BookingId::from_bytes([0xff; 16]));
        let mut piece = walk.piece;
        let mut found = Vec::new();
        let (mut examined, mut bytes) = (0, 0);
        loop {
            let rows = match &walk.partner_id {
                Some(partner_id) => self.all(of_partner, args![partner_id, &before, piece])?,
                None => self.all(of_all, args![&before, piece])?,
            };
            for row in &rows {
                if found.len() == limit {
                    break;
                }
                before = row.id(0)?;
                bytes += row.text_bytes();
                found.extend(take(row)?);
            }
            examined += piece;
            let last = rows.last().map(|row| row.id(0)).transpose()?;
            let ended = rows.len() < piece as usize && last.is_none_or(|last| last == before);
            if ended {
                return Ok((found, None));
            }
            if found.len() == limit || examined >= BOOKINGS_EXAMINED || bytes >= EXAMINED_BYTES {
                return Ok((found, Some(before)));
            }
            // As many more as have a megabyte, by what those until now have.
            let room = u64::from(examined) * PIECE_BYTES / (bytes as u64).max(1);
            piece = u32::try_from(room).unwrap_or(PIECE).clamp(1, PIECE);
        }
    }

    /// A resolution, after its booking's owner. It names the resolution that supersedes it, if there is one.
    pub fn resolution(
        &mut self,
        resolution_id: &ResolutionId,
    ) -> Read<Option<(PartnerId, Resolution)>> {
        let row = self.first(
            "SELECT b.partner_id, e.facts, n.id FROM resolution r JOIN booking b ON b.id = r.booking_id \
             JOIN entry e ON e.idx = r.leaf_idx LEFT JOIN resolution n ON n.booking_id = r.booking_id AND n.leaf_idx > r.leaf_idx \
             WHERE r.id = $1",
            args![resolution_id],
        )?;
        let Some(row) = row else { return Ok(None) };
        let mut resolution = row.json::<ResolutionFact>(1)?.resolution;
        resolution.superseded_by = row.maybe_id(2)?;
        Ok(Some((row.id(0)?, resolution)))
    }

    /// Enabled endpoints with an id after `after` that have a delivery due at `now` and not leased, and where to
    /// continue. At most [`ENDPOINTS_EXAMINED`] endpoints are examined.
    ///
    /// Every node asks this several times a second. It steps through the index from one endpoint to the next instead of
    /// visiting all endpoints. So it costs two index steps per endpoint with a waiting delivery, due or not, and
    /// nothing for other endpoints and for leased deliveries.
    pub fn endpoints_with_due(
        &mut self,
        now: Timestamp,
        after: Option<EndpointId>,
    ) -> Read<DuePage> {
        let after = after.unwrap_or(EndpointId::from_bytes([0; 16]));
        let rows = self.all(
            waiting_endpoints!(
                "n.partner_id, n.failures, n.probe_ms, CASE WHEN n.status = 1 AND n.probe_ms IS NULL OR n.probe_ms <= $3 THEN \
                 (SELECT d.due_ms FROM delivery d WHERE d.endpoint_id = w.endpoint_id AND d.lease IS NULL AND d.due_ms IS NOT NULL \
                  ORDER BY d.due_ms LIMIT 1) END, n.deleted_ms"
            ),
            args![&after, ENDPOINTS_EXAMINED, now],
        )?;
        let mut page = DuePage::default();
        let mut last = after;
        for row in &rows {
            // Its own row may be missing. Then nothing is due there, but the page goes on.
            let endpoint_id = row.id(0)?;
            last = last.max(endpoint_id);
            if !row.is_null(5) {
                page.deleted.push(endpoint_id);
            }
            let Some(since) = row.maybe_int(4)?.filter(|since| *since <= now.ms()) else {
                continue;
            };
            let failing = row.int(2)? > 0;
            page.due.push((endpoint_id, row.id(1)?, failing));
            if !failing && row.is_null(3) {
                let since = Timestamp::from_ms(since);
                page.oldest = Some(page.oldest.map_or(since, |oldest| oldest.min(since)));
            }
        }
        let is_full = rows.len() == ENDPOINTS_EXAMINED as usize;
        page.next = is_full.then_some(last);
        Ok(page)
    }

    /// Whether a delivery is still leased after the end of its lease at `now`.
    pub fn has_lapsed_leases(&mut self, now: Timestamp) -> Read<bool> {
        let row = self.first(
            "SELECT due_ms FROM delivery WHERE lease IS NOT NULL AND due_ms <= $1 ORDER BY due_ms LIMIT 1",
            args![now],
        )?;
        Ok(row.is_some())
    }

    /// Whether something waits for a time computed by a clock that was far ahead of `now`.
    pub fn has_ahead(&mut self, now: Timestamp) -> Read<bool> {
        for (statement, _) in load::ahead(now.ms(), 1) {
            if !self.ask(statement)?.rows.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The nodes that hold leases. Leases without a named holder are left out.
    pub fn holders(&mut self) -> Read<BTreeSet<Node>> {
        let rows = self.all(
            "SELECT DISTINCT lease >> 32 FROM delivery WHERE lease IS NOT NULL",
            vec![],
        )?;
        let numbers = rows.iter().map(|row| row.int(0));
        numbers
            .filter_map(|number| number.map(Node::of).transpose())
            .collect()
    }

    /// Whether remembered answers have expired at `now`.
    pub fn has_expired_answers(&mut self, now: Timestamp) -> Read<bool> {
        let before = now.plus_ms(-crate::limits::IDEMPOTENCY_TTL_MS);
        let row = self.first(
            "SELECT at_ms FROM answer WHERE at_ms < $1 LIMIT 1",
            args![before],
        )?;
        Ok(row.is_some())
    }

    /// The digest of the request whose answer is remembered under this key at `now`, or was until it was erased.
    pub fn answered(&mut self, key: &[u8; 32], now: Timestamp) -> Read<Option<[u8; 32]>> {
        let since = now.plus_ms(-crate::limits::IDEMPOTENCY_TTL_MS);
        let sql = "SELECT request FROM answer WHERE key = $1 AND at_ms >= $2";
        self.single(sql, args![key, since], |row| row.bytes(0))
    }

    /// A booking's entries, oldest first.
    pub fn entries_of(&mut self, booking_id: &BookingId) -> Read<Vec<StoredEntry>> {
        let sql = entries_where!("booking_id = $1 ORDER BY seq");
        self.each(sql, args![booking_id], entry)
    }

    /// The places in the log of a booking's first and last entry.
    pub fn ends_of(&mut self, booking_id: &BookingId) -> Read<Option<(u64, u64)>> {
        let row = self.first(
            "SELECT (SELECT idx FROM entry WHERE booking_id = $1 ORDER BY seq LIMIT 1), \
             (SELECT idx FROM entry WHERE booking_id = $1 ORDER BY seq DESC LIMIT 1)",
            args![booking_id],
        )?;
        let row = row.filter(|row| !row.is_null(0));
        row.map(|row| Ok((row.size(0)?, row.size(1)?))).transpose()
    }

    /// At most `count` leaves from index `first` on.
    pub fn leaves(&mut self, first: u64, count: u32) -> Read<Vec<Vec<u8>>> {
        let Ok(first) = i64::try_from(first) else {
            return Ok(Vec::new());
        };
        let sql = "SELECT leaf FROM entry WHERE idx >= $1 ORDER BY idx LIMIT $2";
        self.each(sql, args![first, count], |row| Ok(row.blob(0)?.to_vec()))
    }

    /// The bytes of these tiles as far as they have grown, without those that are not stored.
    pub fn tiles(&mut self, addresses: &[TileAddress]) -> Read<BTreeMap<TileAddress, Vec<u8>>> {
        let rows = self.ask_all(&tile_statements(addresses))?;
        tiles_at(addresses, rows)
    }

    /// The bytes of a tile as far as it has grown.
    pub fn tile(&mut self, level: u8, index: u64) -> Read<Option<Vec<u8>>> {
        Ok(self.tiles(&[(level, index)])?.remove(&(level, index)))
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.conn.rollback();
    }
}

const BOOKING_TEXTS: &str = "SELECT id, body FROM booking WHERE id IN ({})";
const BOOKINGS_OF_PARTNER: &str = "SELECT id, status, event_ms FROM booking WHERE partner_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
const BOOKINGS_OF_ALL: &str =
    "SELECT id, status, event_ms FROM booking WHERE id < $1 ORDER BY id DESC LIMIT $2";
const TEXTS_OF_PARTNER: &str = "SELECT id, status, event_ms, body FROM booking WHERE partner_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
const TEXTS_OF_ALL: &str =
    "SELECT id, status, event_ms, body FROM booking WHERE id < $1 ORDER BY id DESC LIMIT $2";
// A subquery, because PostgreSQL might join a whole table when it does not know how few rows the limit leaves.
const RESOLUTIONS_OF_PARTNER: &str = "SELECT id, (SELECT e.facts FROM entry e WHERE e.idx = resolution_leaf) FROM booking \
     WHERE partner_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
const RESOLUTIONS_OF_ALL: &str = "SELECT id, (SELECT e.facts FROM entry e WHERE e.idx = resolution_leaf) FROM booking \
     WHERE id < $1 ORDER BY id DESC LIMIT $2";

const WAITING_OF_PARTNER: &str = "SELECT id, (SELECT e.facts FROM entry e WHERE e.idx = review_leaf) FROM booking \
     WHERE partner_id = $1 AND id < $2 AND review_leaf IS NOT NULL ORDER BY id DESC LIMIT $3";
const WAITING_OF_ALL: &str = "SELECT id, (SELECT e.facts FROM entry e WHERE e.idx = review_leaf) FROM booking \
     WHERE id < $1 AND review_leaf IS NOT NULL ORDER BY id DESC LIMIT $2";

/// The most bookings that a list examines at a time.
const PIECE: u32 = BOOKINGS_EXAMINED / 10;
/// The number of those that it examines first, if it reads their documents: even the longest have a few megabytes.
const PIECE_OF_DOCUMENTS: u32 = 100;
/// Partners read at once by a search.
const PARTNERS_PIECE: u32 = 200;
/// The bytes of documents that it reads at a time after that.
const PIECE_BYTES: u64 = 1024 * 1024;

impl BookingFilter {
    /// Whether the filter passes every booking.
    pub fn is_open(&self) -> bool {
        self.status.is_none()
            && self.event_from.is_none()
            && self.event_to.is_none()
            && self.search.is_none()
    }

    /// Whether a row passes: id, status, time of the event and, for a search, the document.
    fn takes(&self, row: &Row) -> Read<bool> {
        let (status, event_ms) = (row.int(1)?, row.int(2)?);
        let passes = self.status.is_none_or(|wanted| wanted as i64 == status)
            && self.event_from.is_none_or(|from| event_ms >= from.ms())
            && self.event_to.is_none_or(|to| event_ms < to.ms());
        match &self.search {
            Some(search) if passes => search.finds(row.text(3)?).map_err(|e| {
                StoreError::Corrupt(format!("a booking's document cannot be read: {e}"))
            }),
            _ => Ok(passes),
        }
    }
}

/// The entries, oldest first, which record how the log continued after losses. At most [`CONTINUATIONS`].
pub(crate) fn continuations(conn: &mut dyn Conn) -> Read<Vec<StoredEntry>> {
    own_entries(conn)?.iter().map(entry).collect()
}

/// The rows of [`continuations`].
pub(crate) fn own_entries(conn: &mut dyn Conn) -> Read<Vec<Row>> {
    conn.all(
        entries_where!("kind = 'log.continued' ORDER BY idx LIMIT $1"),
        args![CONTINUATIONS],
    )
}

pub(crate) fn entry(row: &Row) -> Read<StoredEntry> {
    let members: Map<String, Value> = row.json(6)?;
    let opening = Opening::read(row.blob(5)?).map_err(StoreError::Corrupt)?;
    let (salt, disclosures, erased) = opening.disclose(members);
    Ok(StoredEntry {
        index: row.size(0)?,
        booking_id: row.maybe_id(1)?,
        seq: row.size(2)?,
        leaf: row.blob(3)?.to_vec(),
        kind: row.text(4)?.to_owned(),
        salt,
        disclosures,
        erased,
        opening,
    })
}

#[cfg(test)]
mod tests;
