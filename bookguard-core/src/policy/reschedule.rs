//! Reschedules, and the step reached before the event was moved, which they leave behind.
//!
//! Invariant: the step reached is read from the schedule that was in force and disclosed at the time, never recomputed, so
//! neither the new date nor a later edition of the time zone tables changes it.

use serde::{Deserialize, Serialize};

use super::document::{Document, Floor};
use super::event_date::EventDate;
use super::rule::Rule;
use super::schedule::{Segment, segment_at};
use super::settlement::{Settled, Stakes};
use super::terms::Terms;
use crate::error::Error;
use crate::model::{Amount, Timestamp};

/// A change of an event's date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PastReschedule {
    /// When it was changed, in whole seconds.
    pub at: Timestamp,
    /// The date before the change, as it was given.
    pub previous_event_date: EventDate,
    /// What the organizer's cancellation would have cost at that instant; null when a person would have decided.
    pub reached: Option<Amount>,
}

impl PastReschedule {
    /// The change at `at`, after the changes `before`, of a booking whose terms were `former`.
    pub fn of(former: &Terms, before: &[Self], at: Timestamp) -> Self {
        let at = Self::instant(at, former.created_at, before);
        Self {
            at,
            previous_event_date: former.event_date,
            reached: reached_under(former, at),
        }
    }
}

impl PastReschedule {
    /// The instant that counts, in whole seconds: never before the booking or the previous change, even if clocks differ.
    pub(crate) fn instant(at: Timestamp, created_at: Timestamp, before: &[Self]) -> Timestamp {
        let earliest = before.last().map_or(created_at, |last| last.at);
        at.max(earliest).max(created_at).floor_to_second()
    }
}

/// The organizer's penalty at an instant under these terms, ignoring any earlier change of date.
fn reached_under(terms: &Terms, at: Timestamp) -> Option<Amount> {
    if let Some(segment) = segment_at(&terms.schedule, at) {
        return segment.penalty;
    }
    // Without a policy, nothing is ever reached; after the claim window, the last step is.
    let Some(stakes) = terms.stakes().ok()? else {
        return Amount::from_minor(0, terms.value.currency()).ok();
    };
    match stakes.settle(Rule::OrganizerNoShow, 0)? {
        Settled::Sums(sums) => Some(sums.penalty),
        Settled::Manual => None,
    }
}

/// The organizer's schedule including what was reached before the event was moved; null where a person decides.
///
/// Refusals: those of the policy's currency, which frozen terms never cause.
pub fn effective_schedule(
    terms: &Terms,
    reschedules: &[PastReschedule],
) -> Result<Vec<Segment>, Error> {
    let Some(stakes) = terms.stakes()? else {
        return Ok(Vec::new());
    };
    let reached = reached(stakes.document, reschedules);
    Ok(raised(&terms.schedule, &stakes, reached))
}

/// A schedule with the floor applied to every rule that has one. If only a person can determine the floor, a person decides
/// those rules.
pub(super) fn raised(
    schedule: &[Segment],
    stakes: &Stakes<'_>,
    reached: Option<i64>,
) -> Vec<Segment> {
    let raise = |segment: &Segment| {
        let settled = match reached {
            Some(reached) => stakes.settle(segment.rule_id, reached),
            None if segment.rule_id.has_floors() => Some(Settled::Manual),
            None => return *segment,
        };
        match settled {
            Some(Settled::Sums(sums)) => Segment {
                refund: Some(sums.refund),
                penalty: Some(sums.penalty),
                ..*segment
            },
            Some(Settled::Manual) => Segment {
                refund: None,
                penalty: None,
                ..*segment
            },
            None => *segment,
        }
    };
    schedule.iter().map(raise).collect()
}

/// The largest penalty reached at a change of date, in minor units; `None` if a person would have had to decide.
pub(super) fn reached(document: &Document, reschedules: &[PastReschedule]) -> Option<i64> {
    if document.reschedule.floor == Floor::Reset {
        return Some(0);
    }
    reschedules.iter().try_fold(0, |largest: i64, reschedule| {
        Some(largest.max(reschedule.reached?.minor()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Currency;
    use crate::policy::{Booked, MissingZone, Policy, PolicySource};

    fn terms(policy: Option<&str>) -> Terms {
        let policy = policy.map(|json| (Policy::from_json(json).unwrap(), PolicySource::Booking));
        let booked = Booked {
            event_date: EventDate::parse("2026-06-20T19:00:00-04:00").unwrap(),
            time_zone: None,
            partner_time_zone: None,
            value: Amount::parse("1000", Currency::USD).unwrap(),
            paid: Some(Amount::parse("100", Currency::USD).unwrap()),
            created_at: Timestamp::parse("2026-01-10T15:00:00Z").unwrap(),
        };
        Terms::freeze(policy, &booked, MissingZone::Refuse).unwrap()
    }

    const FIRM: &str = r#"{"policyId":"p","organizer":{"tiers":[{"before":"P30D","outcome":{"refundBps":10000}},
        {"before":"P7D","outcome":{"refundBps":5000}},{"before":"P3D","outcome":{"manual":true}}],"late":{"refundBps":1000}}}"#;

    #[test]
    fn what_was_reached_is_the_step_in_which_the_instant_lies() {
        let firm = terms(Some(FIRM));
        let after = (firm.claim_until.plus_ms(1000)).to_string();
        for (at, reached) in [
            ("2026-01-10T14:59:59Z", Some(0)),
            ("2026-01-10T15:00:00.999Z", Some(0)),
            ("2026-05-21T23:00:00.999Z", Some(0)),
            ("2026-05-21T23:00:01Z", Some(50_000)),
            ("2026-06-17T23:00:00Z", None),
            ("2026-06-20T23:00:00Z", Some(90_000)),
            ("2026-06-21T00:00:00Z", Some(90_000)),
            (after.as_str(), Some(90_000)),
        ] {
            let reschedule = PastReschedule::of(&firm, &[], Timestamp::parse(at).unwrap());
            assert_eq!(reschedule.reached.map(Amount::minor), reached, "{at}");
            assert_eq!(reschedule.previous_event_date, firm.event_date);
        }
        // A clock behind the one that recorded the booking does not undo the step in force from the first second.
        let strict = terms(Some(
            r#"{"policyId":"p","organizer":{"late":{"refundBps":0}}}"#,
        ));
        let early = PastReschedule::of(&strict, &[], strict.created_at.plus_ms(-1000));
        assert_eq!(early.reached.map(Amount::minor), Some(100_000));
        let bare = PastReschedule::of(&terms(None), &[], firm.claim_until);
        assert_eq!(bare.reached.map(Amount::minor), Some(0));
        // A clock that is behind dates nothing before what another clock recorded.
        let again = PastReschedule::of(&firm, &[bare], firm.created_at);
        assert_eq!(
            (again.at, again.reached.map(Amount::minor)),
            (firm.claim_until, Some(90_000))
        );
        let early = PastReschedule::of(&firm, &[], firm.created_at.plus_ms(-1));
        assert_eq!(early.at, firm.created_at);
    }

    #[test]
    fn the_largest_step_counts_unless_the_policy_starts_anew_or_a_person_decides() {
        let document = |json: &str| Policy::from_json(json).unwrap();
        let reset = FIRM.replacen('{', r#"{"reschedule":{"floor":"reset"},"#, 1);
        let (keep, reset) = (document(FIRM), document(&reset));
        let moved = |minor: Option<i64>| PastReschedule {
            at: Timestamp::EPOCH,
            previous_event_date: EventDate::parse("2026-06-20").unwrap(),
            reached: minor.map(|minor| Amount::from_minor(minor, Currency::USD).unwrap()),
        };
        for (list, kept) in [
            (vec![], Some(0)),
            (vec![moved(Some(5))], Some(5)),
            (vec![moved(Some(7)), moved(Some(5))], Some(7)),
            (vec![moved(Some(7)), moved(None)], None),
            (vec![moved(None), moved(Some(7))], None),
        ] {
            assert_eq!(reached(keep.document(), &list), kept, "{list:?}");
            assert_eq!(reached(reset.document(), &list), Some(0), "{list:?}");
        }
    }
}
