//! Editions of the time zone tables: whether another one can have given the terms of a booking.
//!
//! Governments move their clocks, so the next edition gives some bookings other deadlines, and some other steps, because a
//! step that would end before the one before it, or before the booking, is left out. The terms recorded are the ones agreed
//! on; these tables only say whether they are plausible. Invariant: an instant that is read from a wall clock may differ by
//! [`ZONE_CHANGE_MS`], and nothing else may: no time that elapses from a recorded instant, no order of rules, no amount.

use chrono::TimeDelta;

use super::document::{Document, Tier};
use super::duration::Duration;
use super::event_date::EventDate;
use super::rule::Rule;
use super::settlement::Stakes;
use super::terms::Terms;
use super::zone::{ZONE_CHANGE_MS, Zone};
use crate::model::Timestamp;

impl Terms {
    /// Whether some edition of the tables can have given the start, the schedule, the claim window and the offsets of these
    /// terms. What they were frozen from must be right.
    pub(crate) fn may_be_of_other_tables(&self) -> bool {
        // A zone of the tables like any other, but nobody moves it.
        if self.time_zone == Zone::UTC {
            return false;
        }
        let (Zone::Named(_), Ok(stakes)) = (self.time_zone, self.stakes()) else {
            return false;
        };
        let tables = Tables::for_terms(self);
        let clocks = tables.start().includes(self.anchor) && tables.may_have_offsets();
        clocks
            && match stakes {
                Some(stakes) => tables.may_give_schedule(&stakes),
                None => self.schedule.is_empty() && self.claim_until == self.anchor,
            }
    }
}

/// What these tables say of recorded terms.
struct Tables<'a> {
    terms: &'a Terms,
    /// When the clock shows what the clock of the terms showed at the event's start. Calendar days are counted from here, so
    /// that they are the days that were counted then.
    days_from: Timestamp,
}

impl<'a> Tables<'a> {
    fn for_terms(terms: &'a Terms) -> Self {
        let zone = terms.time_zone;
        let days_from = match terms.event_date {
            EventDate::Instant { .. } => {
                let offset = terms.offset(terms.schedule.len());
                let utc = terms.anchor.to_utc().naive_utc();
                zone.to_instant(utc + TimeDelta::seconds(offset.into()))
            }
            EventDate::Local(_) | EventDate::Date(_) => {
                terms.frame_for(terms.event_date, zone).anchor
            }
        };
        Self { terms, days_from }
    }

    /// When the event starts.
    fn start(&self) -> Possible {
        let terms = self.terms;
        let frame = terms.frame_for(terms.event_date, terms.time_zone);
        match terms.event_date {
            EventDate::Instant { .. } => Possible::at(frame.anchor, 0),
            EventDate::Local(_) | EventDate::Date(_) => Possible::at(frame.anchor, ZONE_CHANGE_MS),
        }
    }

    fn may_have_offsets(&self) -> bool {
        let terms = self.terms;
        let ends = terms.schedule.iter().map(|step| step.to);
        ends.chain([terms.anchor]).enumerate().all(|(step, end)| {
            let now = i64::from(terms.time_zone.offset_at(end));
            (now - i64::from(terms.offset(step))).abs() * 1000 <= ZONE_CHANGE_MS
        })
    }

    /// Compiles the schedule from the deadlines recorded, each as far as it is possible, and compares it.
    fn may_give_schedule(&self, stakes: &Stakes<'_>) -> bool {
        let (terms, document) = (self.terms, stakes.document);
        let tiers = document.organizer.tiers.iter().zip(0_u8..);
        let tiers = tiers.map(|(tier, index)| {
            let end = self.end(Rule::Tier(index));
            self.deadline(tier).given(end)
        });
        let claims = self.counted(&document.claim_window, Zone::after);
        let grace_until = self.grace_until(document);
        claims.includes(terms.claim_until)
            && terms
                .frame()
                .divide(stakes, grace_until, tiers, terms.claim_until)
                == terms.schedule
    }

    /// The last second of a rule's step; `None` if it has none.
    fn end(&self, rule: Rule) -> Option<Timestamp> {
        let mut steps = self.terms.schedule.iter();
        steps.find(|step| step.rule_id == rule).map(|step| step.to)
    }

    fn deadline(&self, tier: &Tier) -> Possible {
        let Some(time) = tier.cutoff_time else {
            return self.counted(&tier.before, Zone::before);
        };
        // The day to which hours lead back depends on what the clock showed then, which is not recorded.
        let unsure = match tier.before.minutes() {
            0 => 0,
            _ => ZONE_CHANGE_MS,
        };
        let places = [-unsure, unsure].map(|ms| {
            let from = self.days_from.plus_ms(ms);
            self.terms.time_zone.cutoff(from, &tier.before, time)
        });
        Possible {
            places,
            slack: ZONE_CHANGE_MS,
        }
    }

    /// The last second of grace, as far as it is possible.
    fn grace_until(&self, document: &Document) -> Option<Timestamp> {
        let (terms, grace) = (self.terms, document.grace.as_ref()?);
        let end = self.end(Rule::Grace);
        let early_enough = grace.min_notice.as_ref().is_none_or(|notice| {
            let latest = self.counted(notice, Zone::before);
            terms.created_at
                <= match end {
                    Some(_) => latest.last(),
                    None => latest.first(),
                }
        });
        let before_event = terms.created_at < terms.anchor;
        let until = terms.time_zone.after(terms.created_at, &grace.within);
        let until = Possible::at(until, slack(&grace.within)).given(end);
        (early_enough && before_event).then_some(until.min(terms.anchor.plus_ms(-1000)))
    }

    /// The other end of a duration from the event's start.
    fn counted(
        &self,
        duration: &Duration,
        step: fn(Zone, Timestamp, &Duration) -> Timestamp,
    ) -> Possible {
        let from = match duration.days() {
            0 => self.terms.anchor,
            _ => self.days_from,
        };
        let place = step(self.terms.time_zone, from, duration);
        Possible::at(place, slack(duration))
    }
}

/// How far another edition can move the other end of a duration: elapsed time is the same in all.
fn slack(duration: &Duration) -> i64 {
    match duration.days() {
        0 => 0,
        _ => ZONE_CHANGE_MS,
    }
}

/// Where an instant can lie.
#[derive(Clone, Copy)]
struct Possible {
    /// Where these tables place it, in order: two instants if the day is not sure.
    places: [Timestamp; 2],
    /// How many milliseconds from there it can lie.
    slack: i64,
}

impl Possible {
    fn at(place: Timestamp, slack: i64) -> Self {
        Self {
            places: [place; 2],
            slack,
        }
    }

    fn first(self) -> Timestamp {
        self.places[0].plus_ms(-self.slack)
    }

    fn last(self) -> Timestamp {
        self.places[1].plus_ms(self.slack)
    }

    fn includes(self, instant: Timestamp) -> bool {
        let mut places = self.places.into_iter();
        places.any(|place| (place.ms() - instant.ms()).abs() <= self.slack)
    }

    /// The possible instant that explains best that a step ended at `end`, or was left out.
    fn given(self, end: Option<Timestamp>) -> Timestamp {
        match end {
            Some(end) if self.includes(end) => end,
            // Something else, such as the end of all claims, ended the step earlier.
            Some(_) => self.last(),
            None => self.first(),
        }
    }
}
