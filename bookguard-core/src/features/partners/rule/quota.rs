//! Quotas: how much a partner may bring in. Only additions are refused, never a protection, a cancellation, a change of an
//! existing booking or a delivery.

use crate::engine::batch::{BatchState, PartnerState};
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::features::partners::SetQuota;
use crate::model::{PartnerAccount, QuotaUse, Timestamp};

/// Refuses a booking of this many bytes if it exceeds its partner's quota.
pub(crate) fn admit_booking(
    batch: &BatchState,
    state: &PartnerState,
    at: Timestamp,
    bytes: u64,
) -> Result<(), Error> {
    let quota = batch.quota_of(state, at);
    if quota.bookings.refuses(1) {
        return Err(exceeded(quota.bookings, "bookings", ASK));
    }
    if quota.bytes.refuses(bytes) {
        let way_out = format!("This booking takes {bytes} more. {ASK}");
        return Err(exceeded(quota.bytes, "bytes of bookings", &way_out));
    }
    if quota.events_per_day.refuses(1) {
        let (_, over) = state.usage.events_on_day(at);
        let way_out = format!(
            "The next day begins at {over}; or ask the service's operator to raise the quota."
        );
        return Err(exceeded(quota.events_per_day, "events a day", &way_out));
    }
    Ok(())
}

/// Refuses an endpoint if it exceeds its partner's quota.
pub(crate) fn admit_endpoint(
    batch: &BatchState,
    state: &PartnerState,
    at: Timestamp,
) -> Result<(), Error> {
    let part = batch.quota_of(state, at).endpoints;
    if part.refuses(1) {
        let way_out = "Delete one first, or ask the service's operator to raise the quota.";
        return Err(exceeded(part, "webhook endpoints", way_out));
    }
    Ok(())
}

/// Refuses a file of `bytes` bytes if it exceeds its partner's quota together with the `arriving` bytes of files that are being stored.
pub(crate) fn admit_file(
    batch: &BatchState,
    state: &PartnerState,
    at: Timestamp,
    (bytes, arriving): (u64, u64),
) -> Result<(), Error> {
    let part = batch.quota_of(state, at).file_bytes;
    if part.refuses(bytes.saturating_add(arriving)) {
        let way_out = match arriving {
            0 => format!("This file takes {bytes} more. {ASK}"),
            _ => format!(
                "This file takes {bytes} more, and others that are not whole yet take {arriving}: finish sending those, or wait until they are forgotten, in an hour or two. {ASK}"
            ),
        };
        return Err(exceeded(part, "bytes of files", &way_out));
    }
    Ok(())
}

const ASK: &str = "Ask the service's operator to raise the quota.";

fn exceeded(part: QuotaUse, of: &str, way_out: &str) -> Error {
    let QuotaUse { used, limit } = part;
    conflict!(
        "quota_exceeded",
        "The partner's quota of {of} is {}, and it has used {used}. Nothing was written. {way_out}",
        limit.unwrap_or(u64::MAX)
    )
}

impl Command for SetQuota {
    type Reply = PartnerAccount;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<PartnerAccount> {
        let partner_id = self.partner_id;
        let state = batch.partner(&partner_id)?;
        let quota = self.changes.applied_to(state.quota);
        let change = (quota != state.quota).then_some(Change::QuotaSet(partner_id, quota));
        let state = PartnerState {
            quota,
            ..state.clone()
        };
        let account = PartnerAccount {
            quota: batch.quota_of(&state, at),
            partner: state.partner,
        };
        Ok((change.into_iter().collect(), account))
    }
}

#[cfg(test)]
mod tests;
