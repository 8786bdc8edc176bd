//! Checks endpoints. No ledger entry describes them, but an endpoint's health must not contradict itself, its
//! deliveries or its secrets.

use super::checked_row::MISSPELLED;
use super::others::born_in_force;
use super::{CLOCK_SLACK_MS, Check, spelled};
use crate::limits::{SUSPENDED_AFTER_MS, WARNING_FAILURES};
use crate::model::{Endpoint, EndpointHealth, EndpointStatus};
use crate::store::conn::{Row, StoreError};
use crate::store::endpoints;

/// The query whose rows [`Check::endpoint`] reads.
pub(super) const ENDPOINTS: &str = "SELECT id, status, failures, failing_ms, probe_ms, unverified_ms, body, deleted_ms, since_ms FROM endpoint \
     WHERE id > $1 ORDER BY id LIMIT $2";

impl Check<'_> {
    pub(super) fn endpoint(&mut self, row: &Row) -> Result<(), StoreError> {
        let id = row.id(0)?;
        let endpoint = endpoints::read(row, 1)?;
        let born: Endpoint = row.json(6)?;
        let made = endpoint.created_at;
        let it = self.checked("endpoint", id, endpoint.endpoint_id, made);
        if !spelled(row, 6, &born) {
            self.fault(&it, "body", MISSPELLED);
        }
        let deleted = row.maybe_time(7)?;
        self.not_before(&it, "deleted_ms", deleted);
        let since = row.maybe_time(8)?;
        self.not_before(&it, "since_ms", since);
        self.not_before(&it, "failing_ms", endpoint.failing_since);
        self.not_before(&it, "unverified_ms", endpoint.unverified_since);
        let gone = self.gone.get(&id).copied();
        let may_be_gone = gone.is_some() || self.forgotten.contains(&id);
        if !may_be_gone && let Some(event_id) = self.absent.get(&id) {
            self.findings.missing_delivery(*event_id, id);
        }
        // A 410 may have come from its former address.
        let changed = since.max(endpoint.moved_at).unwrap_or(made).ms();
        let fitting = match endpoint.status {
            _ if deleted.is_some() => endpoint.status == EndpointStatus::Disabled,
            EndpointStatus::Active | EndpointStatus::Failing | EndpointStatus::Suspended => {
                if gone.is_some_and(|at| at > changed + CLOCK_SLACK_MS) {
                    let detail = "its receiver answered 410 Gone after it was last changed, and it is not disabled";
                    self.doubt(&it, "status", detail);
                }
                true
            }
            EndpointStatus::Disabled => since.is_some(),
            EndpointStatus::Gone => may_be_gone,
        };
        // The document must not contain the endpoint's health.
        let said = !born.enabled || born.health() != EndpointHealth::of(EndpointStatus::Active);
        if said || !fitting {
            let detail = format!(
                "row says {:?}; an endpoint is disabled by its partner, by its deletion or by an answer 410, and by nothing else",
                endpoint.status
            );
            self.fault(&it, "status", detail);
        }
        let mut notes = (self.findings).of("endpoint", it.place("failures"));
        match contradiction(endpoint.health()) {
            Some(why) => notes.fault(why),
            None if suspended_early(endpoint.health()) => {
                notes.doubt("it is suspended, and has not failed long enough");
            }
            None => {}
        }
        let secrets = self.secrets_of(id.as_bytes())?;
        let mut notes = (self.findings).of("secret", format!("secret of endpoint {id}"));
        if secrets
            .iter()
            .any(|term| term.made.ms() < made.ms() - CLOCK_SLACK_MS)
        {
            notes.doubt("a signing secret of its own was made before it");
        }
        let in_order = secrets.iter().all(|term| born_in_force(*term, made));
        if secrets.is_empty() == (born.own_secret && deleted.is_none()) || !in_order {
            notes.fault("its own signing secrets are not those it says it has");
        }
        Ok(())
    }
}

/// The contradiction within an endpoint's health, if there is one.
fn contradiction(health: EndpointHealth) -> Option<&'static str> {
    let suspended = health.status == EndpointStatus::Suspended;
    if (health.failures > 0) != health.failing_since.is_some() {
        return Some("failing_ms must be set if it counts failures, and only then");
    }
    if health.failures > 0 && !health.status.takes_events() {
        return Some("it is disabled, and counts failures");
    }
    let tried = health.status.takes_events() && health.is_on_probation();
    if health.probe_at.map_or(suspended, |_| !tried) {
        return Some(
            "a suspended endpoint must have a next attempt; any other verified endpoint must have none",
        );
    }
    (suspended && health.failures < WARNING_FAILURES)
        .then_some("it is suspended, and has not failed often enough")
}

/// Whether an endpoint was suspended sooner after its failures began than the rules allow.
fn suspended_early(health: EndpointHealth) -> bool {
    // An endpoint that is not verified yet has a next attempt too.
    let suspended = health.status == EndpointStatus::Suspended;
    let times = health.probe_at.zip(health.failing_since);
    times
        .filter(|_| suspended)
        .is_some_and(|(probe, since)| probe.ms() - since.ms() < SUSPENDED_AFTER_MS - CLOCK_SLACK_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;
    use EndpointStatus::{Active, Disabled, Failing, Gone, Suspended};

    #[test]
    fn an_endpoint_fares_in_one_way_at_a_time() {
        let long = SUSPENDED_AFTER_MS - CLOCK_SLACK_MS;
        let unverified = EndpointHealth {
            unverified_since: Some(Timestamp::from_ms(5)),
            probe_at: Some(Timestamp::from_ms(5)),
            ..EndpointHealth::of(Active)
        };
        assert_eq!(contradiction(unverified), None);
        let disabled = EndpointHealth {
            status: Disabled,
            ..unverified
        };
        assert!(contradiction(disabled).is_some());
        for (status, failures, failing, probe, good) in [
            (Active, 0, None, None, true),
            (Active, 3, Some(5), None, true),
            (Active, 3, None, None, false),
            (Active, 0, Some(5), None, false),
            (Active, 3, Some(5), Some(long + 5), false),
            (Failing, 10, Some(5), None, true),
            (Suspended, 10, Some(5), Some(long + 5), true),
            (Suspended, 10, Some(5), Some(long + 4), false),
            (Suspended, 9, Some(5), Some(long + 5), false),
            (Suspended, 10, Some(5), None, false),
            (Suspended, 0, None, Some(5), false),
            (Disabled, 0, None, None, true),
            (Disabled, 1, Some(5), None, false),
            (Gone, 0, None, None, true),
            (Gone, 10, Some(5), None, false),
        ] {
            let health = EndpointHealth {
                status,
                failures,
                failing_since: failing.map(Timestamp::from_ms),
                probe_at: probe.map(Timestamp::from_ms),
                unverified_since: None,
            };
            let fine = contradiction(health).is_none() && !suspended_early(health);
            assert_eq!(fine, good, "{health:?}");
        }
    }
}
