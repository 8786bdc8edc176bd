//! Counts deliveries and endpoints for the operator, in pages of at most some 50 ms however large the database.
//!
//! Whoever asks pauses between two pages. Invariant: nothing here visits deliveries that are over, which are nearly all.

use super::conn::args;
use super::endpoints::health;
use super::read::{Read, Reader, waiting_endpoints};
use super::schema;
use crate::limits::{ENDPOINTS_COUNTED, ENDPOINTS_READ, LEASED_COUNTED, WAITING_COUNTED};
use crate::model::{EndpointId, EndpointStatus, Timestamp};

/// The deliveries that wait without a lease, by what they wait for. Each endpoint counts up to [`WAITING_COUNTED`] due ones
/// and as many others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitingDeliveries {
    /// Due, to an endpoint in service.
    pub due: u64,
    /// Not due yet, to an endpoint in service.
    pub later: u64,
    /// To an endpoint that is suspended, disabled or gone.
    pub held: u64,
}

impl Reader<'_> {
    /// The version of the database's schema.
    pub fn schema_version(&mut self) -> Read<u32> {
        let version = self.ask(schema::version_statement())?;
        let version = version.rows.first().map_or(Ok(0), |row| row.int(0))?;
        Ok(u32::try_from(version).unwrap_or(u32::MAX))
    }

    /// Counts the waiting deliveries of the endpoints after `after`, and returns where the next page begins. Deliveries to
    /// deleted endpoints are over and not counted.
    pub fn waiting_deliveries(
        &mut self,
        now: Timestamp,
        after: Option<EndpointId>,
    ) -> Read<(WaitingDeliveries, Option<EndpointId>)> {
        let after = after.unwrap_or(EndpointId::from_bytes([0; 16]));
        let rows = self.all(
            waiting_endpoints!(
                "n.deleted_ms, n.status, \
                 (SELECT COUNT(*) FROM (SELECT 1 FROM delivery d WHERE d.endpoint_id = w.endpoint_id AND d.lease IS NULL \
                  AND d.due_ms IS NOT NULL AND d.due_ms <= $3 LIMIT $4) e), \
                 (SELECT COUNT(*) FROM (SELECT 1 FROM delivery d WHERE d.endpoint_id = w.endpoint_id AND d.lease IS NULL \
                  AND d.due_ms IS NOT NULL AND d.due_ms > $3 LIMIT $4) e)"
            ),
            args![&after, ENDPOINTS_COUNTED, now, WAITING_COUNTED],
        )?;
        let mut found = WaitingDeliveries::default();
        let mut last = after;
        for row in &rows {
            last = last.max(row.id(0)?);
            // If its own row is missing, the page goes on all the same.
            let Some(status) = row.maybe_int(2)?.filter(|_| row.is_null(1)) else {
                continue;
            };
            let (due, later) = (row.size(3)?, row.size(4)?);
            if status == 1 {
                found.due += due;
                found.later += later;
            } else {
                found.held += due + later;
            }
        }
        let is_full = rows.len() == ENDPOINTS_COUNTED as usize;
        Ok((found, is_full.then_some(last)))
    }

    /// The number of deliveries that nodes hold, [`LEASED_COUNTED`] at most.
    pub fn leased_deliveries(&mut self) -> Read<u64> {
        let sql =
            "SELECT COUNT(*) FROM (SELECT 1 FROM delivery WHERE lease IS NOT NULL LIMIT $1) e";
        self.count(sql, args![LEASED_COUNTED])
    }

    /// The statuses of the endpoints after `after`, and where the next page begins. Deleted endpoints are left out.
    pub fn endpoint_statuses(
        &mut self,
        after: Option<EndpointId>,
    ) -> Read<(Vec<EndpointStatus>, Option<EndpointId>)> {
        let after = after.unwrap_or(EndpointId::from_bytes([0; 16]));
        let rows = self.all(
            "SELECT id, status, failures, failing_ms, probe_ms, unverified_ms FROM endpoint \
             WHERE id > $1 AND deleted_ms IS NULL ORDER BY id LIMIT $2",
            args![&after, ENDPOINTS_READ],
        )?;
        let statuses = rows.iter().map(|row| Ok(health(row, 1)?.status));
        let next = match rows.last() {
            Some(last) if rows.len() == ENDPOINTS_READ as usize => Some(last.id(0)?),
            _ => None,
        };
        Ok((statuses.collect::<Read<_>>()?, next))
    }
}
