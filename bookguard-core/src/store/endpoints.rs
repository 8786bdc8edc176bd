//! Endpoints and signing secrets in the store: how they are written, loaded for a batch, and queried.
//!
//! An endpoint's document changes only when its partner changes it; the endpoint's health is in columns of its own.
//! Each secret is sealed for its owner.

use std::ops::RangeInclusive;

use super::conn::{Arg, Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::limits::{
    HOUR_MS, LEASE_MS, LEASE_SKEW_MS, MOVED_MS, PROBE_MAX_MS, PROBE_MS, PROBE_SHARE, SECRETS_VALID,
    UNVERIFIED_MS, WARNING_FAILURES,
};
use crate::model::{Endpoint, EndpointHealth, EndpointId, EndpointStatus, PartnerId, Timestamp};
use crate::webhook::{DatedSecret, Keyring, Secret, SecretTerm};

/// A query for the owners of endpoints, followed by the columns that [`read`] takes.
macro_rules! endpoints_where {
    ($rest:literal) => {
        concat!(
            "SELECT partner_id, status, failures, failing_ms, probe_ms, unverified_ms, body FROM endpoint WHERE ",
            $rest
        )
    };
}
#[cfg(test)]
pub(super) use endpoints_where;

/// The endpoints of several partners.
pub(super) const OF_PARTNERS: &str = endpoints_where!("partner_id IN ({}) AND deleted_ms IS NULL");

/// The health of several endpoints, and their documents.
pub(super) const HEALTH: &str = "SELECT id, status, failures, failing_ms, probe_ms, unverified_ms, body FROM endpoint WHERE id IN ({}) AND deleted_ms IS NULL";

/// When the secrets of several owners were made and when each takes over.
pub(super) const TERMS: &str = "SELECT owner, made_ms, from_ms FROM secret WHERE owner IN ({})";

/// The health of endpoints whose next probe is further away than any pause. The pause of a suspended endpoint grows
/// with the time for which it has failed. Endpoints that are not verified count too.
const AHEAD: &str = "SELECT id, status, failures, failing_ms, probe_ms, unverified_ms FROM endpoint \
     WHERE probe_ms IS NOT NULL AND probe_ms > $1 AND deleted_ms IS NULL AND (status = 1 OR probe_ms > $2 \
     AND ((probe_ms - $3) * $4 > $5 - failing_ms OR probe_ms > $6)) ORDER BY probe_ms LIMIT $7";

/// The health of endpoints whose address is marked unverified since a time in the future.
const UNVERIFIED_AHEAD: &str = "SELECT id, status, failures, failing_ms, probe_ms, unverified_ms FROM endpoint \
     WHERE unverified_ms IS NOT NULL AND unverified_ms > $1 AND deleted_ms IS NULL ORDER BY unverified_ms LIMIT $2";

/// The endpoints that a partner deleted lately without their having accepted anything. Those that had waited for that for longer
/// than an hour are left out, so that few rows are read.
const UNVERIFIED_DELETED: &str = "SELECT partner_id, deleted_ms FROM endpoint \
     WHERE unverified_ms IS NOT NULL AND unverified_ms > $1 AND partner_id = $2 AND deleted_ms > $3";

const SECRETS: &str = "SELECT owner, made_ms, from_ms, sealed FROM secret WHERE owner IN ({})";

const PAGE_OF_PARTNER: &str = endpoints_where!(
    "partner_id = $1 AND id < $2 AND status >= $3 AND status <= $4 AND failures >= $5 AND failures <= $6 \
     AND deleted_ms IS NULL ORDER BY id DESC LIMIT $7"
);
const PAGE_OF_ALL: &str = endpoints_where!(
    "id < $1 AND status >= $2 AND status <= $3 AND failures >= $4 AND failures <= $5 AND deleted_ms IS NULL \
     ORDER BY id DESC LIMIT $6"
);

/// Every stored status with its number. `Failing` is not stored: the number of failures says it.
const STATUSES: [(i64, EndpointStatus); 4] = [
    (0, EndpointStatus::Disabled),
    (1, EndpointStatus::Active),
    (2, EndpointStatus::Suspended),
    (3, EndpointStatus::Gone),
];

fn number(status: EndpointStatus) -> i64 {
    let status = match status {
        EndpointStatus::Failing => EndpointStatus::Active,
        other => other,
    };
    let place = STATUSES.iter().find(|(_, known)| *known == status);
    place.expect("the table has every status but Failing").0
}

/// The ranges of stored status and failures that `status` stands for; every value for `None`.
fn stands(status: Option<EndpointStatus>) -> (RangeInclusive<i64>, RangeInclusive<i64>) {
    let warned = i64::from(WARNING_FAILURES);
    let failures = match status {
        Some(EndpointStatus::Active) => 0..=warned - 1,
        Some(EndpointStatus::Failing) => warned..=i64::MAX,
        _ => 0..=i64::MAX,
    };
    (
        status.map_or(0..=i64::MAX, |status| number(status)..=number(status)),
        failures,
    )
}

/// The health of an endpoint, from the columns status, failures, failing, probe and unverified, which begin at `from`.
pub(crate) fn health(row: &Row, from: usize) -> Result<EndpointHealth, StoreError> {
    let found = row.int(from)?;
    let place = STATUSES.iter().find(|(number, _)| *number == found);
    let (_, status) =
        place.ok_or_else(|| StoreError::Corrupt(format!("an endpoint has status {found}")))?;
    let failures = u32::try_from(row.size(from + 1)?).unwrap_or(u32::MAX);
    let failing = *status == EndpointStatus::Active && failures >= WARNING_FAILURES;
    Ok(EndpointHealth {
        status: if failing {
            EndpointStatus::Failing
        } else {
            *status
        },
        failures,
        failing_since: row.maybe_time(from + 2)?,
        probe_at: row.maybe_time(from + 3)?,
        unverified_since: row.maybe_time(from + 4)?,
    })
}

/// An endpoint, from the columns status, failures, failing, probe, unverified and body, which begin at `from`.
pub(crate) fn read(row: &Row, from: usize) -> Result<Endpoint, StoreError> {
    let endpoint: Endpoint = row.json(from + 5)?;
    Ok(endpoint.with_health(health(row, from)?))
}

/// Asks for endpoints whose next probe was computed by a clock that was ahead of `now`. [`read_health`] reads the rows.
pub(super) fn ahead(now: i64, most: i64) -> Statement<'static> {
    let after = |pause: i64| Arg::from(now.saturating_add(LEASE_SKEW_MS + pause));
    let args = args![
        after(2 * LEASE_MS),
        after(PROBE_MS),
        after(0),
        PROBE_SHARE,
        now,
        after(PROBE_MAX_MS),
        most,
    ];
    Statement::new(AHEAD, args)
}

/// As [`ahead`], for endpoints whose address is marked unverified since a time in the future.
pub(super) fn unverified_ahead(now: i64, most: i64) -> Statement<'static> {
    let latest = now.saturating_add(LEASE_SKEW_MS + MOVED_MS);
    Statement::new(UNVERIFIED_AHEAD, args![latest, most])
}

/// Asks for the endpoints that a partner deleted so lately that those it adds wait.
pub(super) fn unverified_deleted(partner_id: &PartnerId, now: i64) -> Statement<'static> {
    let args = args![
        now.saturating_sub(HOUR_MS),
        *partner_id,
        now.saturating_sub(2 * UNVERIFIED_MS),
    ];
    Statement::new(UNVERIFIED_DELETED, args)
}

pub(super) fn read_unverified_deleted(
    work: &mut BatchState,
    _: &Loading<'_>,
    row: &Row,
) -> Read<()> {
    let deleted = row.time(1)?;
    let last = work.unverified_deleted.entry(row.id(0)?).or_insert(deleted);
    *last = deleted.max(*last);
    Ok(())
}

pub(super) fn read_health(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.health.insert(row.id(0)?, health(row, 1)?);
    Ok(())
}

/// As [`read_health`], with the address. One that cannot be read is left out, so that it keeps no delivery from being settled.
pub(super) fn read_receiver(work: &mut BatchState, loading: &Loading<'_>, row: &Row) -> Read<()> {
    read_health(work, loading, row)?;
    if let Ok(endpoint) = row.json::<Endpoint>(6) {
        work.addresses.insert(row.id(0)?, endpoint.url);
    }
    Ok(())
}

pub(super) fn read_of_partner(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    if let Some(state) = work.partners.get_mut(&row.id(0)?) {
        state.endpoints.push(read(row, 1)?);
    }
    Ok(())
}

/// The term of a secret, from the columns made and from, which begin at `from`.
pub(crate) fn term(row: &Row, from: usize) -> Result<SecretTerm, StoreError> {
    Ok(SecretTerm {
        made: row.time(from)?,
        from: row.time(from + 1)?,
    })
}

pub(super) fn read_term(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let terms = work.secrets.entry(row.bytes(0)?).or_default();
    terms.push(term(row, 1)?);
    terms.sort_unstable();
    Ok(())
}

/// The stored document of an endpoint, which leaves out its health.
fn document(endpoint: &Endpoint) -> String {
    let born = EndpointHealth::of(EndpointStatus::Active);
    let endpoint = endpoint.clone().with_health(born);
    serde_json::to_string(&endpoint).expect("an endpoint is plain data, which always serializes")
}

/// Adds an endpoint.
pub(super) fn added<'a>(partner_id: &'a PartnerId, endpoint: &'a Endpoint) -> Statement<'a> {
    Statement::new(
        "INSERT INTO endpoint (id, partner_id, status, failures, probe_ms, unverified_ms, body) VALUES ($1, $2, $3, 0, $4, $5, $6)",
        args![
            &endpoint.endpoint_id,
            partner_id,
            number(endpoint.status),
            endpoint.next_probe_at,
            endpoint.unverified_since,
            document(endpoint),
        ],
    )
}

/// Rewrites an endpoint's document and, given `since`, the time since when it takes what it takes now.
pub(super) fn changed(endpoint: &Endpoint, since: Option<Timestamp>) -> Statement<'_> {
    let id = &endpoint.endpoint_id;
    match since {
        Some(since) => Statement::new(
            "UPDATE endpoint SET body = $1, since_ms = $2 WHERE id = $3",
            args![document(endpoint), since, id],
        ),
        None => Statement::new(
            "UPDATE endpoint SET body = $1 WHERE id = $2",
            args![document(endpoint), id],
        ),
    }
}

/// Writes the health of an endpoint.
pub(super) fn set_health(endpoint_id: &EndpointId, health: EndpointHealth) -> Statement<'_> {
    Statement::new(
        "UPDATE endpoint SET status = $1, failures = $2, failing_ms = $3, probe_ms = $4, unverified_ms = $5 WHERE id = $6",
        args![
            number(health.status),
            health.failures,
            health.failing_since,
            health.probe_at,
            health.unverified_since,
            endpoint_id,
        ],
    )
}

/// Marks an endpoint deleted. Deliveries that wait for it count as given up when they are read, because there may be
/// any number of such rows; the claimer ends them later, a few hundred at a time.
pub(super) fn deleted(endpoint_id: &EndpointId, at: Timestamp) -> Statement<'_> {
    Statement::new(
        "UPDATE endpoint SET deleted_ms = $1, status = $2, failures = 0, failing_ms = NULL, probe_ms = NULL WHERE id = $3",
        args![at, number(EndpointStatus::Disabled), endpoint_id],
    )
}

/// Adds a secret.
pub(super) fn secret_added<'a>(
    owner: &'a [u8; 16],
    term: SecretTerm,
    sealed: &'a [u8],
) -> Statement<'a> {
    Statement::new(
        "INSERT INTO secret (owner, made_ms, from_ms, sealed) VALUES ($1, $2, $3, $4)",
        args![owner, term.made, term.from, sealed],
    )
}

/// Deletes the secrets of an owner, or only those made before `made_before`.
pub(super) fn secrets_forgotten(owner: &[u8; 16], made_before: Option<Timestamp>) -> Statement<'_> {
    let before = made_before.map_or(i64::MAX, Timestamp::ms);
    Statement::new(
        "DELETE FROM secret WHERE owner = $1 AND made_ms < $2",
        args![owner, before],
    )
}

impl Reader<'_> {
    /// The endpoints of one partner, or of all partners and then with their owners, newest first, below `before`.
    pub fn endpoints(
        &mut self,
        partner_id: Option<&PartnerId>,
        status: Option<EndpointStatus>,
        before: Option<EndpointId>,
        rows: u32,
    ) -> Read<Vec<Endpoint>> {
        let before = before.unwrap_or(EndpointId::from_bytes([0xff; 16]));
        let (status, failures) = stands(status);
        let mut args: Vec<Arg<'_>> = partner_id.into_iter().map(Into::into).collect();
        args.push((&before).into());
        let bounds = [
            *status.start(),
            *status.end(),
            *failures.start(),
            *failures.end(),
            i64::from(rows),
        ];
        args.extend(bounds.map(Arg::from));
        let rows = self.all(partner_id.map_or(PAGE_OF_ALL, |_| PAGE_OF_PARTNER), args)?;
        let shown = rows.iter().map(|row| {
            let is_named = partner_id.is_none();
            Ok(Endpoint {
                partner_id: is_named.then(|| row.id(0)).transpose()?,
                ..read(row, 1)?
            })
        });
        shown.collect()
    }

    /// One endpoint and its owner, unless the endpoint is deleted.
    pub fn endpoint(&mut self, endpoint_id: &EndpointId) -> Read<Option<(PartnerId, Endpoint)>> {
        let sql = endpoints_where!("id = $1 AND deleted_ms IS NULL");
        self.single(sql, args![endpoint_id], |row| {
            Ok((row.id(0)?, read(row, 1)?))
        })
    }

    /// One endpoint and its owner, also if the endpoint is deleted.
    pub fn past_endpoint(
        &mut self,
        endpoint_id: &EndpointId,
    ) -> Read<Option<(PartnerId, Endpoint)>> {
        let sql = endpoints_where!("id = $1");
        self.single(sql, args![endpoint_id], |row| {
            Ok((row.id(0)?, read(row, 1)?))
        })
    }

    /// The secret that signs this partner's webhooks at `at`.
    pub fn secret(&mut self, partner_id: &PartnerId, at: Timestamp) -> Read<Option<Secret>> {
        let keyring = self.keyring(partner_id, None)?;
        Ok(keyring.signing(at).first().map(|secret| (*secret).clone()))
    }

    /// Every secret that signs, now or later, what is sent to this endpoint of the partner. Without an endpoint, only
    /// the partner's own secrets.
    pub fn keyring(
        &mut self,
        partner_id: &PartnerId,
        endpoint_id: Option<&EndpointId>,
    ) -> Read<Keyring> {
        let mut owners = vec![*partner_id.as_bytes()];
        owners.extend(endpoint_id.map(|id| *id.as_bytes()));
        let (mut partners, mut endpoints) = (Vec::with_capacity(SECRETS_VALID), Vec::new());
        for row in &self.keyed(SECRETS, &owners)? {
            let owner: [u8; 16] = row.bytes(0)?;
            let opened = self
                .seal()
                .open(&owner, row.blob(3)?)
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| {
                    StoreError::Corrupt(format!(
                        "a signing secret of {partner_id} does not open under the ledger key"
                    ))
                })?;
            let dated = DatedSecret {
                term: term(row, 1)?,
                secret: Secret::new(opened),
            };
            if owner == *partner_id.as_bytes() {
                partners.push(dated);
            } else {
                endpoints.push(dated);
            }
        }
        Ok(Keyring::new(partners, endpoints))
    }
}
