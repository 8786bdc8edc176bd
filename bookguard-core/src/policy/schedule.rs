//! Compiles a policy into the organizer's schedule: how much is returned until when, in UTC.
//!
//! Compiled once, when a booking is created, and disclosed; a later edition of the time-zone database changes nothing.
//! Invariant: the segments follow each other without gap or overlap, to the second, from the booking's creation to the
//! end of the claim window.

use serde::{Deserialize, Serialize};

use super::document::{Document, Tier};
use super::rule::Rule;
use super::settlement::{Settled, Stakes};
use super::zone::Zone;
use crate::model::{Amount, Timestamp};

/// A period in which one rule applies to the organizer's cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Segment {
    /// The rule.
    pub rule_id: Rule,
    /// Its first second.
    pub from: Timestamp,
    /// Its last second: the deadline, inclusive.
    pub to: Timestamp,
    /// What is returned; null when a person decides.
    pub refund: Option<Amount>,
    /// What is kept of the value, or owed; null when a person decides.
    pub penalty: Option<Amount>,
}

/// The instants a schedule depends on, in whole seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub zone: Zone,
    pub anchor: Timestamp,
    pub created_at: Timestamp,
}

impl Frame {
    /// The last second in which a cancellation may be claimed.
    pub fn claim_until(&self, document: &Document) -> Timestamp {
        self.zone.after(self.anchor, &document.claim_window)
    }

    /// The schedule; empty if the booking was created after the claim window.
    pub fn compile(&self, stakes: &Stakes<'_>) -> Vec<Segment> {
        let document = stakes.document;
        let tiers = document.organizer.tiers.iter();
        self.divide(
            stakes,
            self.grace_until(document),
            tiers.map(|tier| self.deadline(tier)),
            self.claim_until(document),
        )
    }

    /// The schedule whose grace, tiers and claim window have these last seconds. A rule whose time has passed before it would
    /// apply is left out.
    pub fn divide(
        &self,
        stakes: &Stakes<'_>,
        grace_until: Option<Timestamp>,
        tiers: impl Iterator<Item = Timestamp>,
        claim_until: Timestamp,
    ) -> Vec<Segment> {
        let tiers = tiers.zip(0_u8..);
        let deadlines = grace_until
            .map(|until| (Rule::Grace, until))
            .into_iter()
            .chain(tiers.map(|(until, index)| (Rule::Tier(index), until)))
            .chain([
                (Rule::Late, self.anchor),
                (Rule::OrganizerNoShow, claim_until),
            ]);
        let mut segments = Vec::with_capacity(stakes.document.organizer.tiers.len() + 3);
        let mut from = self.created_at;
        for (rule_id, deadline) in deadlines {
            let to = deadline.min(claim_until);
            if to < from {
                continue;
            }
            let settled = stakes.settle(rule_id, Some(0)).unwrap_or(Settled::Manual);
            let (refund, penalty) = settled.amounts();
            segments.push(Segment {
                rule_id,
                from,
                to,
                refund,
                penalty,
            });
            from = to.plus_ms(1000);
        }
        segments
    }

    fn deadline(&self, tier: &Tier) -> Timestamp {
        match tier.cutoff_time {
            Some(time) => self.zone.cutoff(self.anchor, &tier.before, time),
            None => self.zone.before(self.anchor, &tier.before),
        }
    }

    /// The last second of grace: within the time after booking and before the event; `None` if the booking was made too
    /// late for it.
    fn grace_until(&self, document: &Document) -> Option<Timestamp> {
        let grace = document.grace.as_ref()?;
        let early_enough = match &grace.min_notice {
            Some(notice) => self.created_at <= self.zone.before(self.anchor, notice),
            None => true,
        };
        let until = self.zone.after(self.created_at, &grace.within);
        let before_event = self.created_at < self.anchor;
        (early_enough && before_event).then_some(until.min(self.anchor.plus_ms(-1000)))
    }
}

/// The segment that contains an instant.
pub(super) fn segment_at(schedule: &[Segment], at: Timestamp) -> Option<&Segment> {
    schedule
        .iter()
        .find(|segment| (segment.from..=segment.to).contains(&at))
}
