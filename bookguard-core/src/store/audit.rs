//! Rows of the audit: how they are written, and which of them are genuine.
//!
//! Each row carries a code over all of it, made with the sealing key. Invariant: a row that was written or changed by anyone but
//! Bookguard is not shown, and `fsck` reports it. That somebody deleted a row leaves no trace here.

use super::commit::json;
use super::conn::{Arg, Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::limits::CHANGES_PER_DAY;
use crate::model::{AuditId, AuditRecord, PartnerId, Timestamp, day_begins};
use crate::seal::Seal;

macro_rules! audit_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, partner_id, action, body, mac FROM audit WHERE ",
            $rest
        )
    };
}
#[cfg(test)]
pub(super) use audit_where;

/// All records, in pages by id.
pub(super) const ALL: &str = audit_where!("id > $1 ORDER BY id LIMIT $2");

/// Selects the records that a list shows.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only records that concern this partner.
    pub partner_id: Option<PartnerId>,
    /// Only records of this action.
    pub action: Option<String>,
    /// Only records made then or later.
    pub since: Option<Timestamp>,
    /// Only records made before then.
    pub until: Option<Timestamp>,
}

fn mac(seal: &Seal, record: &AuditRecord, body: &str) -> [u8; 32] {
    let partner_id = record.partner_id.as_ref().map(PartnerId::as_bytes);
    seal.code(&[
        b"audit",
        record.audit_id.as_bytes(),
        partner_id.map_or(&[][..], |id| &id[..]),
        record.action.as_bytes(),
        body.as_bytes(),
    ])
}

/// Inserts a record.
pub(super) fn added(seal: &Seal, record: &AuditRecord) -> Statement<'static> {
    let body = json(record);
    let code = mac(seal, record, &body);
    Statement::new(
        "INSERT INTO audit (id, partner_id, action, body, mac) VALUES ($1, $2, $3, $4, $5)",
        args![
            record.audit_id,
            record.partner_id,
            record.action.clone(),
            body,
            code,
        ],
    )
}

/// How many counted changes a partner has made since a moment, up to a number. A text in a record is escaped, so that none can look
/// like an actor.
const OF_DAY: &str = "SELECT id, (SELECT COUNT(*) FROM \
     (SELECT id FROM audit WHERE partner_id = $1 AND action IN ('createApiKey', 'createConsoleLink', 'createWebhookEndpoint', \
     'deleteWebhookEndpoint', 'endConsoleSession', 'placeHold', 'putPolicy', 'releaseHold', 'revokeApiKey', 'rotateApiKey', \
     'rotatePartnerSecret', 'rotateWebhookEndpointSecret', 'updatePartner', 'updateWebhookEndpoint') AND id >= $2 \
     AND body LIKE '%\"actor\":{\"kind\":\"api_key\"%' LIMIT $3) e) FROM partner WHERE id = $1";
/// The oldest records of a time.
const OLDEST: &str = "SELECT id FROM audit WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3";

/// Counts the records of a partner since a day began, up to the most that matter.
pub(super) fn of_day(partner_id: &PartnerId, day: u64) -> Statement<'static> {
    let begin = AuditId::earliest(day_begins(day));
    Statement::new(OF_DAY, args![*partner_id, begin, CHANGES_PER_DAY])
}

pub(super) fn read_of_day(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.changes.insert(row.id(0)?, row.size(1)?);
    Ok(())
}

/// Deletes this record and all older ones.
pub(super) fn pruned(to: &AuditId) -> Statement<'_> {
    Statement::new("DELETE FROM audit WHERE id <= $1", args![to])
}

/// A record as its row describes it, and whether the row is genuine.
pub(super) fn document(row: &Row, seal: &Seal) -> Result<(AuditRecord, bool), StoreError> {
    let record: AuditRecord = row.json(3)?;
    let genuine = (record.audit_id, record.partner_id) == (row.id(0)?, row.maybe_id(1)?)
        && record.action == row.text(2)?
        && mac(seal, &record, row.text(3)?)[..] == *row.blob(4)?;
    Ok((record, genuine))
}

impl Reader<'_> {
    /// Ids of records after `from` and before `to`, oldest first, whether the rows are genuine or not.
    pub fn old_records(&mut self, from: &AuditId, to: &AuditId, rows: u32) -> Read<Vec<AuditId>> {
        self.each(OLDEST, args![from, to, rows], |row| row.id(0))
    }

    /// Records of the audit, newest first, below `before`. Rows that are not genuine are left out.
    pub fn audit(
        &mut self,
        filter: &AuditFilter,
        before: Option<AuditId>,
        rows: u32,
    ) -> Read<Vec<AuditRecord>> {
        let last = AuditId::from_bytes([0xff; 16]);
        let until = filter.until.map_or(last, AuditId::earliest);
        let since = filter.since.unwrap_or(Timestamp::EPOCH);
        let since = AuditId::earliest(since);
        let before = before.map_or(until, |before| before.min(until));
        let sql = match (&filter.partner_id, &filter.action) {
            (None, None) => audit_where!("id >= $1 AND id < $2 ORDER BY id DESC LIMIT $3"),
            (Some(_), None) => {
                audit_where!("partner_id = $1 AND id >= $2 AND id < $3 ORDER BY id DESC LIMIT $4")
            }
            (None, Some(_)) => {
                audit_where!("action = $1 AND id >= $2 AND id < $3 ORDER BY id DESC LIMIT $4")
            }
            (Some(_), Some(_)) => audit_where!(
                "partner_id = $1 AND action = $2 AND id >= $3 AND id < $4 ORDER BY id DESC LIMIT $5"
            ),
        };
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(3);
        args.extend(filter.partner_id.as_ref().map(Arg::from));
        args.extend(filter.action.as_deref().map(Arg::from));
        args.push((&since).into());
        self.genuine((sql, args), Some(before), rows, |row, seal| {
            let record = document(row, seal).ok();
            Ok(record.and_then(|(record, genuine)| genuine.then_some(record)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::COUNTED;

    #[test]
    fn the_database_counts_the_same_operations_as_a_batch() {
        let quoted = COUNTED.map(|action| format!("'{action}'"));
        assert!(OF_DAY.contains(&format!("action IN ({})", quoted.join(", "))));
    }
}
