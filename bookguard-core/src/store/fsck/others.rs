//! Checks partners, their keys, secrets and counters; policies; remembered answers; the schema version.
//!
//! Of these, only policies occur in the ledger, by their hash. The rows are checked by themselves and against each
//! other: an id contains its creation time, a secret opens only where it was sealed, a key's row carries codes that
//! only the service can make, and a counter must match the rows.

use std::collections::BTreeMap;

use super::checked_row::{CheckedRow, MISSPELLED};
use super::endpoint::ENDPOINTS;
use super::page::PartnerTotals;
use super::{Check, PAGE, spelled};
use crate::limits::{SECRET_OVERLAP_MS, SECRETS_VALID};
use crate::model::id::noun;
use crate::model::{
    ApiKey, ApiKeyId, EventId, PartnerSettings, PartnerStatus, Quota, Timestamp, Usage, day,
    day_begins,
};
use crate::policy::Policy;
use crate::store::conn::{Row, StoreError, args};
use crate::store::keys::keys_where;
use crate::store::terms::policy_hash;
use crate::store::{
    audit, console_sessions, cosignatures, endpoints, holds, keys, load, operator_keys, recoveries,
    retention, schema, shares,
};
use crate::webhook::SecretTerm;

/// Visits every row of these tables, each asked for in pages by its first column, with the check's function for it.
macro_rules! each {
    ($check:ident: $($table:literal, $rows:expr => $visit:ident;)+) => {
        $($check.each(concat!("SELECT COUNT(*) FROM ", $table), $rows, Self::$visit)?;)+
    };
}

/// A partner's row.
pub(super) type CheckedPartner = CheckedRow<noun::Partner>;

impl Check<'_> {
    pub(super) fn others(&mut self) -> Result<(), StoreError> {
        self.schema()?;
        // Before the partners, whose totals count them.
        self.files()?;
        each! { self:
            "partner", "SELECT id, status, events, policies, put_ms, settings, body, bookings, bytes, day, day_events, file_bytes, quota \
                        FROM partner WHERE id > $1 ORDER BY id LIMIT $2" => partner;
            "api_key", keys_where!("id > $1 ORDER BY id LIMIT $2") => api_key;
            "operator_key", operator_keys::ALL => operator_key;
            "console_session", console_sessions::ALL => console_session;
            "audit", audit::ALL => audit;
            "endpoint", ENDPOINTS => endpoint;
            "recovery", recoveries::ALL => recovery;
            "share", shares::ALL => share;
            "hold", holds::ALL => hold;
            "answer", "SELECT key, at_ms, request, body, booking_id FROM answer WHERE key > $1 ORDER BY key LIMIT $2" => answer;
            "witness", cosignatures::ALL => witness;
        }
        self.cosignatures()?;
        self.secrets()?;
        self.sweep()?;
        self.policies()?;
        self.policy_versions()
    }

    /// Visits every row of a table, in pages by its first column.
    pub(super) fn each(
        &mut self,
        count: &'static str,
        sql: &'static str,
        check: fn(&mut Self, &Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let table = count.rsplit(' ').next().unwrap_or_default();
        let mut after = Vec::new();
        let mut met = 0;
        loop {
            let rows = self.conn.all(sql, args![after.as_slice(), PAGE])?;
            let Some(last) = rows.last() else { break };
            met += rows.len() as u64;
            for row in &rows {
                if let Err(StoreError::Corrupt(why)) = check(self, row) {
                    let id = hex::encode(row.blob(0).unwrap_or_default());
                    let detail = format!("it cannot be read: {why}");
                    self.findings.add("row", format!("{table} {id}"), detail);
                }
            }
            after = last.blob(0)?.to_vec();
        }
        // No valid id is empty, and the walk never visits an empty one.
        if self.count(count)? != met {
            let detail = "a row has an invalid id";
            self.findings.add("row", format!("table {table}"), detail);
        }
        Ok(())
    }

    fn schema(&mut self) -> Result<(), StoreError> {
        let rows = self.conn.all(
            "SELECT version, oldest_reader FROM schema_version ORDER BY version",
            vec![],
        )?;
        let found = rows
            .iter()
            .map(|row| Ok((row.int(0)?, row.maybe_int(1)?)))
            .collect::<Result<Vec<_>, StoreError>>()?;
        let mut expected: Vec<_> = schema::written().collect();
        // A newer program may have added steps that this one can do without.
        expected.extend(found.iter().skip(expected.len()));
        let numbered = (1..)
            .zip(&expected)
            .all(|(at, (version, _))| at == *version);
        if found != expected || !numbered {
            let detail = format!("it says {found:?}, the schema has {expected:?}");
            self.findings.add("schema", "table schema_version", detail);
        }
        Ok(())
    }

    fn partner(&mut self, row: &Row) -> Result<(), StoreError> {
        let id = row.id(0)?;
        let partner = load::partner(row, 1, 5, 6)?;
        let stored: crate::model::Partner = row.json(6)?;
        let born = stored.status;
        let it = self.checked("partner", id, partner.partner_id, partner.created_at);
        if !spelled(row, 6, &stored) || stored.settings != PartnerSettings::default() {
            self.fault(&it, "body", MISSPELLED);
        }
        if !spelled(row, 5, &partner.settings) {
            self.fault(&it, "settings", MISSPELLED);
        }
        self.settings(&it, &partner.settings)?;
        self.policy_set_version(&it, row.size(3)?, row.int(4)?)?;
        let allowed = match born {
            PartnerStatus::Pending => partner.status != PartnerStatus::Approved,
            PartnerStatus::Active => {
                matches!(
                    partner.status,
                    PartnerStatus::Active | PartnerStatus::Suspended
                )
            }
            PartnerStatus::Approved | PartnerStatus::Suspended => false,
        };
        if !allowed {
            let detail = format!(
                "{born:?} at registration cannot have become {:?}",
                partner.status
            );
            self.fault(&it, "status", detail);
        }
        let mut count = |sql| self.conn.count(sql, args![&id]);
        let keys = count("SELECT COUNT(*) FROM api_key WHERE partner_id = $1")?;
        // One query each: a minimum or maximum alone is one step in the index, but both together are a scan.
        let events = count("SELECT COUNT(*) FROM event WHERE partner_id = $1")?;
        let last = count("SELECT COALESCE(MAX(seq), 0) FROM event WHERE partner_id = $1")?;
        let first = count("SELECT COALESCE(MIN(seq), 1) FROM event WHERE partner_id = $1")?;
        let fits = match partner.status {
            PartnerStatus::Pending | PartnerStatus::Approved => keys == 0,
            PartnerStatus::Active => keys > 0,
            // The contract of a partner that waits for approval can end.
            PartnerStatus::Suspended => keys > 0 || partner.is_erased(),
        };
        if !fits {
            let detail = format!("{:?} with {keys} keys", partner.status);
            self.fault(&it, "status", detail);
        }
        let said = row.size(2)?;
        if (said, first, last) != (events, 1, events) {
            let detail = format!("row says {said}; there are {events}, numbered {first} to {last}");
            self.fault(&it, "events", detail);
        }
        self.usage(&it, row, events)?;
        let terms = self.secrets_of(id.as_bytes())?;
        let mut notes = (self.findings).of("secret", format!("secret of partner {id}"));
        let born = |term: &SecretTerm| born_in_force(*term, partner.created_at);
        if terms.is_empty() || !terms.iter().all(born) {
            notes.fault(
                "its signing secrets must be the one that was made with it, or its successors",
            );
        }
        if terms.iter().any(|term| term.made < partner.created_at) {
            notes.doubt("a signing secret was made before it");
        }
        Ok(())
    }

    /// Checks a partner's usage against what is stored. Its `events` events are numbered without a gap.
    fn usage(&mut self, it: &CheckedPartner, row: &Row, events: u64) -> Result<(), StoreError> {
        let said = load::usage(row, 7)?;
        let quota: Quota = row.json(12)?;
        if !spelled(row, 12, &quota) {
            self.fault(it, "quota", MISSPELLED);
        }
        let file_bytes = self.file_bytes.get(&it.id).copied().unwrap_or_default();
        let brought = self.brought.get(&it.id).copied().unwrap_or_default();
        let PartnerTotals { bookings, bytes } = brought;
        for (field, said, there) in [
            ("bookings", said.bookings, bookings),
            ("bytes", said.bytes, bytes),
            ("file_bytes", said.file_bytes, file_bytes),
        ] {
            if said != there {
                let detail = format!("row says {said}; there are {there}");
                self.fault(it, field, detail);
            }
        }
        self.day(it, &said, events)
    }

    /// Checks on which day a partner's events are counted, and how many are: the last ones. The first of them is of that day,
    /// and the others are of that day or the one before. The event before them may be of any other day, because that does not
    /// say on which day it counted. An older program never let the day go back. Where a clock was ahead, its counts explain what is
    /// only doubted then.
    fn day(&mut self, it: &CheckedPartner, said: &Usage, events: u64) -> Result<(), StoreError> {
        let Usage { day_events, .. } = *said;
        let detail = format!(
            "row says {day_events} events on day {}; its events say otherwise",
            said.day
        );
        if events == 0 {
            if (said.day, day_events) != (0, 0) {
                self.fault(it, "day", detail);
            }
            return Ok(());
        }
        let before = events.saturating_sub(day_events);
        let of_three = "SELECT seq, id FROM event WHERE partner_id = $1 AND seq IN ($2, $3, $4)";
        let args = args![&it.id, before, before + 1, events];
        let mut days = BTreeMap::new();
        for row in &self.conn.all(of_three, args)? {
            let event_id: EventId = row.id(1)?;
            days.insert(row.size(0)?, day(event_id.made_at()));
        }
        let day_of = |seq| days.get(&seq).copied();
        let last = day_of(events).unwrap_or_default();
        if said.day > last + 1 {
            self.doubt(it, "day", detail);
            return Ok(());
        }
        if said.day < last {
            self.fault(it, "day", detail);
            return Ok(());
        }
        // No id holds a later time than its 48 bits can.
        let end = Timestamp::from_ms((1 << 48) - 1);
        let since = |day: u64| EventId::earliest(day_begins(day).min(end));
        let (earlier, later) = (since(said.day.saturating_sub(1)), since(said.day + 1));
        let strays = "SELECT COALESCE(MIN(seq), 0) FROM event WHERE partner_id = $1 AND seq > $2 AND (id < $3 OR id >= $4)";
        let args = args![&it.id, before, earlier, later];
        let stray = self.conn.count(strays, args)?;
        let begins = day_of(before + 1) == Some(said.day) && day_of(before) != Some(said.day);
        if day_events <= events && stray == 0 && begins {
            return Ok(());
        }
        let mut first_since = |day: u64| {
            let first =
                "SELECT COALESCE(MIN(seq), 0) FROM event WHERE partner_id = $1 AND id >= $2";
            self.conn.count(first, args![&it.id, since(day)])
        };
        let (first, later) = (first_since(said.day)?, first_since(said.day + 1)?);
        let was_ahead = later > 0 || (first > 0 && events + 1 - first == day_events);
        match was_ahead {
            true => self.doubt(it, "day_events", detail),
            false => self.fault(it, "day_events", detail),
        }
        Ok(())
    }

    fn api_key(&mut self, row: &Row) -> Result<(), StoreError> {
        let id: ApiKeyId = row.id(0)?;
        if let Some(code) = keys::forgery(row, self.seal)? {
            let detail = "this row is not as Bookguard wrote it: it, its revocation or its expiry was written or changed by somebody without \
                          the ledger key. It opens nothing; delete it";
            self.findings
                .add("api_key", format!("api_key {id} field {code}"), detail);
        }
        let key = keys::document(row)?;
        let stored: ApiKey = row.json(4)?;
        let it = self.checked("api_key", id, key.api_key_id, key.created_at);
        let _: [u8; 32] = row.bytes(2)?;
        let later = stored.revoked_at.or(stored.last_used_at);
        if later.is_some() || key.hint.len() != 4 || !spelled(row, 4, &stored) {
            self.fault(&it, "body", MISSPELLED);
        }
        self.not_before(&it, "revoked_ms", key.revoked_at);
        self.not_before(&it, "expires_ms", key.expires_at);
        Ok(())
    }

    fn answer(&mut self, row: &Row) -> Result<(), StoreError> {
        let key: [u8; 32] = row.bytes(0)?;
        let _: [u8; 32] = row.bytes(2)?;
        let sealed = row.blob(3)?;
        if sealed.is_empty() && self.is_erased(row)? {
            return Ok(());
        }
        if self.seal.open(&key, sealed).is_none() {
            let place = format!("answer {}", hex::encode(key));
            let detail = "it does not open under the ledger key";
            self.findings.add("answer", place, detail);
        }
        Ok(())
    }

    /// Whether something was erased of the booking that an answer is about: values, or a note on a share or a hold, of which no entry tells. An answer about
    /// many bookings has its partner's id in place of a booking's.
    fn is_erased(&mut self, answer: &Row) -> Result<bool, StoreError> {
        let Some(booking_id) = answer.maybe_id::<noun::Booking>(4)? else {
            return Ok(false);
        };
        let erasures = self.conn.all(
            "SELECT 1 FROM entry WHERE booking_id = $1 AND kind = 'evidence.erased' UNION SELECT 1 FROM share WHERE booking_id = $1 \
             UNION SELECT 1 FROM hold WHERE booking_id = $1 UNION SELECT 1 FROM partner WHERE id = $1",
            args![&booking_id],
        )?;
        Ok(!erasures.is_empty())
    }

    /// The terms of an owner's secrets. Impossible terms become findings.
    pub(super) fn secrets_of(&mut self, owner: &[u8; 16]) -> Result<Vec<SecretTerm>, StoreError> {
        let rows = self.conn.all(
            "SELECT made_ms, from_ms, sealed FROM secret WHERE owner = $1 ORDER BY made_ms",
            args![owner],
        )?;
        let mut terms = Vec::with_capacity(rows.len());
        for row in &rows {
            let term = endpoints::term(row, 0)?;
            let overlap = term.from.ms() - term.made.ms();
            if !(0..=SECRET_OVERLAP_MS).contains(&overlap)
                || self.seal.open(owner, row.blob(2)?).is_none()
            {
                let place = format!("secret of {} made {}", hex::encode(owner), term.made);
                let detail =
                    "it was not sealed for its owner, or takes over at a time no rotation gives it";
                self.findings.add("secret", place, detail);
            }
            terms.push(term);
        }
        if terms.len() > SECRETS_VALID {
            let place = format!("secrets of {}", hex::encode(owner));
            let detail = format!(
                "there are {}; no more than {SECRETS_VALID} are kept",
                terms.len()
            );
            self.findings.add("secret", place, detail);
        }
        Ok(terms)
    }

    /// Reports secrets without an owner. Those of partners and endpoints are checked with their owners.
    fn secrets(&mut self) -> Result<(), StoreError> {
        let orphans = self.conn.count(
            "SELECT COUNT(*) FROM secret s WHERE NOT EXISTS (SELECT 1 FROM partner p WHERE p.id = s.owner) \
             AND NOT EXISTS (SELECT 1 FROM endpoint n WHERE n.id = s.owner)",
            vec![],
        )?;
        if orphans > 0 {
            let detail = format!("{orphans} of its secrets belong to nobody");
            self.findings.add("secret", "table secret", detail);
        }
        Ok(())
    }

    /// Checks the row that says how far events were examined. Nothing else records that, but there is only one such
    /// row.
    fn sweep(&mut self) -> Result<(), StoreError> {
        let rows = self.conn.all(
            "SELECT next, waiting, id FROM sweep ORDER BY id LIMIT 2",
            vec![],
        )?;
        let fault = match rows.as_slice() {
            [] => None,
            [row] => match retention::sweep(row) {
                Ok(sweep) if sweep.waiting.is_some_and(|id| id >= sweep.next) => Some(
                    "the event that still waits must come before the first one not examined"
                        .to_owned(),
                ),
                Ok(_) if row.int(2) == Ok(1) => None,
                Ok(_) => Some("its row must have the id 1".to_owned()),
                Err(why) => Some(format!("it cannot be read: {why}")),
            },
            _ => Some("it has more than one row".to_owned()),
        };
        if let Some(detail) = fault {
            self.findings.add("sweep", "table sweep", detail);
        }
        Ok(())
    }

    fn policies(&mut self) -> Result<(), StoreError> {
        let mut after = Vec::new();
        let mut met = 0;
        loop {
            let rows = self.conn.all(
                "SELECT hash, body FROM policy WHERE hash > $1 ORDER BY hash LIMIT $2",
                args![after.as_slice(), PAGE],
            )?;
            let Some(last) = rows.last() else { break };
            met += rows.len() as u64;
            for row in &rows {
                let (hash, body) = (policy_hash(row, 0)?, row.text(1)?);
                let good = Policy::from_json(body)
                    .is_ok_and(|policy| policy.hash() == hash && policy.canonical_json() == body);
                if !good {
                    let detail = "its text does not have this hash";
                    self.findings
                        .add("policy", format!("policy {hash}"), detail);
                }
            }
            after = last.blob(0)?.to_vec();
        }
        if self.count("SELECT COUNT(*) FROM policy")? != met {
            let detail = "a row has an invalid hash";
            self.findings.add("policy", "table policy", detail);
        }
        Ok(())
    }
}

/// Whether a secret made together with its owner took effect at once, as it must, because there was none before it.
pub(super) fn born_in_force(term: SecretTerm, owner_made: Timestamp) -> bool {
    term.made != owner_made || term.from == term.made
}
