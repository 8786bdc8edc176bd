//! Reschedules, and the step reached before the event was moved, which they leave behind.
//!
//! Invariant: the step reached is read from the schedule that was in force and disclosed at the time, never recomputed, so
//! neither the new date nor a later edition of the time zone tables changes it. What earlier changes of date reached is its
//! minimum, as for a cancellation at that instant.

use serde::{Deserialize, Serialize};

use super::document::Floor;
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
            reached: reached_under(former, before, at),
        }
    }

    /// The same change as the first entries stated it: by the step of the schedule alone, without what earlier changes had
    /// reached. No result depends on the difference, because each of those is a minimum of its own.
    pub(crate) fn by_step_alone(former: &Terms, before: &[Self], at: Timestamp) -> Self {
        let full = Self::of(former, before, at);
        Self {
            reached: reached_under(former, &[], full.at),
            ..full
        }
    }

    /// The instant that counts, in whole seconds: never before the booking or the previous change, even if clocks differ.
    pub(crate) fn instant(at: Timestamp, created_at: Timestamp, before: &[Self]) -> Timestamp {
        let earliest = before.last().map_or(created_at, |last| last.at);
        at.max(earliest).max(created_at).floor_to_second()
    }
}

/// The organizer's penalty at an instant under these terms, after the changes of date `before`; `None` if a person would
/// have decided.
fn reached_under(terms: &Terms, before: &[PastReschedule], at: Timestamp) -> Option<Amount> {
    // Without a policy, nothing is ever reached.
    let Some(stakes) = terms.stakes().ok()? else {
        return Amount::from_minor(0, terms.value.currency()).ok();
    };
    let (rule, penalty) = match segment_at(&terms.schedule, at) {
        Some(segment) => (segment.rule_id, segment.penalty?),
        // After the claim window, the last step is.
        None => match stakes.settle(Rule::OrganizerNoShow, Some(0))? {
            Settled::Sums(sums) => (Rule::OrganizerNoShow, sums.penalty),
            Settled::Manual => return None,
        },
    };
    if !rule.has_floors() {
        return Some(penalty);
    }
    let floor = reached(&stakes, before).ok()??;
    Some(stakes.amount(floor.max(penalty.minor())))
}

/// The organizer's schedule including what was reached before the event was moved; null where a person decides.
///
/// # Errors
/// `currency_mismatch`, if what was reached is in another currency than the booking; `policy_currency_mismatch`, which frozen
/// terms never cause.
pub fn effective_schedule(
    terms: &Terms,
    reschedules: &[PastReschedule],
) -> Result<Vec<Segment>, Error> {
    let Some(stakes) = terms.stakes()? else {
        return Ok(Vec::new());
    };
    let reached = reached(&stakes, reschedules)?;
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
        let Some(settled) = stakes.settle(segment.rule_id, reached) else {
            return *segment;
        };
        let (refund, penalty) = settled.amounts();
        Segment {
            refund,
            penalty,
            ..*segment
        }
    };
    schedule.iter().map(raise).collect()
}

/// The largest penalty reached at a change of date, in minor units; `None` if a person would have had to decide.
///
/// Refusal: `currency_mismatch`.
pub(super) fn reached(
    stakes: &Stakes<'_>,
    reschedules: &[PastReschedule],
) -> Result<Option<i64>, Error> {
    let amounts = || reschedules.iter().map(|reschedule| reschedule.reached);
    let foreign = |amount: &Amount| amount.currency() != stakes.currency;
    if let Some(foreign) = amounts().flatten().find(foreign) {
        return Err(Error::invalid(
            "currency_mismatch",
            format!(
                "The amount reached before the event was moved, {foreign}, is in another currency than the booking, {}.",
                stakes.currency
            ),
        ));
    }
    if stakes.document.reschedule.floor == Floor::Reset {
        return Ok(Some(0));
    }
    Ok(amounts().try_fold(0, |largest: i64, amount| Some(largest.max(amount?.minor()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BookingId, Currency};
    use crate::policy::{
        Actor, Booked, MissingZone, Mode, Policy, PolicySource, Question, Standing, Subject,
        disclose, evaluate,
    };

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

    /// What each change of date had reached, after it was compared with an evaluation directly before it; and the same by
    /// the step alone.
    fn reached_at_each(policy: &str, moves: &[(&str, &str)]) -> Vec<[Option<i64>; 2]> {
        let mut terms = terms(Some(policy));
        let mut before: Vec<PastReschedule> = Vec::new();
        let mut reached = Vec::new();
        for (at, date) in moves {
            let at = Timestamp::parse(at).unwrap();
            let subject = Subject {
                booking_id: BookingId::parse("bkg_0198f2a4c8d07e3fa1b2c3d4e5f60718").unwrap(),
                terms: &terms,
                standing: Standing::Protected,
                reschedules: &before,
            };
            let question = Question {
                mode: Mode::Evaluate,
                actor: Actor::Organizer,
                reason: None,
                at: None,
                received_at: at,
                evidence: 0,
                agreed_refund: None,
            };
            let evaluation = evaluate(&subject, &question).unwrap();
            let change = PastReschedule::of(&terms, &before, at);
            assert_eq!(change.reached, evaluation.penalty, "{policy} {at}");
            let alone = PastReschedule::by_step_alone(&terms, &before, at);
            assert_eq!(alone.at, change.at);
            reached.push([change, alone].map(|change| change.reached.map(Amount::minor)));
            before.push(change);
            let date = EventDate::parse(date).unwrap();
            terms = terms.rescheduled(date, None).unwrap();
        }
        reached
    }

    #[test]
    fn what_earlier_changes_of_date_had_reached_is_the_least_that_a_later_one_has() {
        const HALF: Option<i64> = Some(50_000);
        let with = |members: &str| FIRM.replacen('{', &format!("{{{members},"), 1);
        let reset = with(r#""reschedule":{"floor":"reset"}"#);
        let grace = with(r#""grace":{"within":"P200D","minNotice":"P300D"}"#);
        let moves = |first, second| {
            [
                (first, "2026-12-20T19:00:00-04:00"),
                (second, "2027-12-20T19:00:00-04:00"),
                ("2027-01-10T00:00:00Z", "2028-12-20T19:00:00-04:00"),
            ]
        };
        #[rustfmt::skip]
        let cases = [
            (FIRM, moves("2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"), [[HALF, HALF], [HALF, Some(0)], [HALF, Some(0)]]),
            // A later step that costs more counts, and is the least from then on.
            (FIRM, moves("2026-06-01T00:00:00Z", "2026-12-20T22:00:00Z"),
                [[HALF, HALF], [Some(90_000), Some(90_000)], [Some(90_000), Some(0)]]),
            // A result that was left to a person stays left to one.
            (FIRM, moves("2026-06-15T00:00:00Z", "2026-07-01T00:00:00Z"), [[None, None], [None, Some(0)], [None, Some(0)]]),
            (reset.as_str(), moves("2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"),
                [[HALF, HALF], [Some(0), Some(0)], [Some(0), Some(0)]]),
        ];
        for (policy, moves, expected) in cases {
            assert_eq!(reached_at_each(policy, &moves), expected, "{policy}");
        }
        // Far enough ahead, the period of grace begins with the second date; in it, nothing is kept.
        let moves = [
            ("2026-06-01T00:00:00Z", "2027-12-20T19:00:00-04:00"),
            ("2026-07-01T00:00:00Z", "2028-06-20T19:00:00-04:00"),
            ("2026-08-01T00:00:00Z", "2028-12-20T19:00:00-04:00"),
        ];
        let expected = [[HALF, HALF], [Some(0), Some(0)], [HALF, Some(0)]];
        assert_eq!(reached_at_each(&grace, &moves), expected);
    }

    #[test]
    fn the_largest_step_counts_unless_the_policy_starts_anew_or_a_person_decides() {
        let reset = FIRM.replacen('{', r#"{"reschedule":{"floor":"reset"},"#, 1);
        let (keep, reset) = (terms(Some(FIRM)), terms(Some(&reset)));
        let [keep, reset] = [&keep, &reset].map(|terms| terms.stakes().unwrap().unwrap());
        for (list, kept) in [
            (vec![], Some(0)),
            (vec![moved(Some(5))], Some(5)),
            (vec![moved(Some(7)), moved(Some(5))], Some(7)),
            (vec![moved(Some(7)), moved(None)], None),
            (vec![moved(None), moved(Some(7))], None),
        ] {
            assert_eq!(reached(&keep, &list).unwrap(), kept, "{list:?}");
            assert_eq!(reached(&reset, &list).unwrap(), Some(0), "{list:?}");
        }
    }

    #[test]
    fn an_amount_of_another_currency_is_not_taken_for_the_booking_s() {
        let firm = terms(Some(FIRM));
        let yen = PastReschedule {
            reached: Amount::from_minor(7, Currency::parse("JPY").unwrap()).ok(),
            ..moved(None)
        };
        let subject = Subject {
            booking_id: BookingId::parse("bkg_0198f2a4c8d07e3fa1b2c3d4e5f60718").unwrap(),
            terms: &firm,
            standing: Standing::Protected,
            reschedules: &[yen],
        };
        let question = Question {
            mode: Mode::Evaluate,
            actor: Actor::Organizer,
            reason: None,
            at: None,
            received_at: firm.created_at,
            evidence: 0,
            agreed_refund: None,
        };
        for refused in [
            evaluate(&subject, &question).map(drop),
            effective_schedule(&firm, &[yen]).map(drop),
            disclose(&firm, &[yen]).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().code, "currency_mismatch");
        }
        let at = Timestamp::parse("2026-06-01T00:00:00Z").unwrap();
        let next = PastReschedule::of(&firm, &[yen], at);
        assert_eq!(next.reached, None, "a person decides");
    }

    fn moved(minor: Option<i64>) -> PastReschedule {
        PastReschedule {
            at: Timestamp::EPOCH,
            previous_event_date: EventDate::parse("2026-06-20").unwrap(),
            reached: minor.map(|minor| Amount::from_minor(minor, Currency::USD).unwrap()),
        }
    }
}
