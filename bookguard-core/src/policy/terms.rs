//! Terms: everything about a cancellation that is fixed when the booking is created.
//!
//! The store keeps them as JSON, `protect` commits them to the ledger, the evidence packet discloses them, and every
//! evaluation is computed from them alone. Invariant: nothing published or changed later affects them.

use serde::{Deserialize, Serialize};

use super::document::Policy;
use super::duration::TimeOfDay;
use super::event_date::EventDate;
use super::schedule::{Frame, Segment};
use super::settlement::Stakes;
use super::words::{Assumption, PolicySource};
use super::zone::Zone;
use crate::error::Error;
use crate::input::shorten;
use crate::model::{Amount, Currency, Timestamp};

/// The frozen terms of one booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Terms {
    /// The policy; absent if none was chosen and the library's defaults are switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Adopted>,
    /// The event's date as it was given.
    pub event_date: EventDate,
    /// The wall clock of the terms: an IANA zone or a fixed offset.
    pub time_zone: Zone,
    /// The event's start, whole seconds.
    pub anchor: Timestamp,
    /// The booking's value.
    pub value: Amount,
    /// The amount that counts as paid.
    pub paid: Amount,
    /// When the booking was created, whole seconds.
    pub created_at: Timestamp,
    /// The last second in which a cancellation may be claimed.
    pub claim_until: Timestamp,
    /// What was assumed because it was not given.
    pub assumptions: Vec<Assumption>,
    /// The organizer's schedule; empty without a policy, or if the booking was created after the claim window.
    pub schedule: Vec<Segment>,
    /// Seconds by which the wall clock is ahead of UTC at the end of each step of the schedule, then at the event's start;
    /// repeated values at the end are left out. Frozen, so that the disclosed local times can be reproduced forever. Empty
    /// for a fixed offset, which needs none.
    pub offsets: Vec<i32>,
}

/// The policy that applies to a booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Adopted {
    /// The normalised policy.
    pub document: Policy,
    /// Its hash.
    pub policy_hash: String,
    /// Where it came from.
    pub policy_source: PolicySource,
}

/// The facts of a booking from which its terms are made.
#[derive(Debug, Clone, Copy)]
pub struct Booked<'a> {
    /// When the event starts.
    pub event_date: EventDate,
    /// The booking's own IANA zone.
    pub time_zone: Option<&'a str>,
    /// The partner's default IANA zone.
    pub partner_time_zone: Option<&'a str>,
    /// The booking's value.
    pub value: Amount,
    /// The amount paid so far; the whole value if absent.
    pub paid: Option<Amount>,
    /// When the booking is created.
    pub created_at: Timestamp,
}

/// What to do with a date that is not an instant when there is no zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum MissingZone {
    /// Refuse it with `time_zone_required`.
    Refuse,
    /// Read it as UTC and record that as an assumption.
    AssumeUtc,
}

impl Terms {
    /// Freezes the terms of a booking.
    ///
    /// # Errors
    /// `time_zone_unknown`, `time_zone_required`, `policy_currency_mismatch`, `currency_mismatch` (value and paid amount have
    /// different currencies).
    pub fn freeze(
        policy: Option<(Policy, PolicySource)>,
        booked: &Booked<'_>,
        missing_zone: MissingZone,
    ) -> Result<Self, Error> {
        let paid = booked.paid.unwrap_or(booked.value);
        same_currency(booked.value.currency(), paid.currency())?;
        let policy = policy.map(|(document, policy_source)| Adopted {
            policy_hash: document.hash().to_owned(),
            document,
            policy_source,
        });
        let mut assumptions = Vec::new();
        let source = policy.as_ref().map(|policy| policy.policy_source);
        if source == Some(PolicySource::Library) {
            assumptions.push(Assumption::PolicyAssumedFromLibrary);
        }
        let time_zone = match zone(policy.as_ref(), booked)? {
            Some(zone) => zone,
            None if missing_zone == MissingZone::Refuse => {
                return Err(zone_required(booked.event_date));
            }
            None => {
                assumptions.push(Assumption::TimeZoneAssumedUtc);
                Zone::UTC
            }
        };
        let created_at = booked.created_at.floor_to_second();
        let terms = Self {
            policy,
            event_date: booked.event_date,
            time_zone,
            anchor: created_at,
            value: booked.value,
            paid,
            created_at,
            claim_until: created_at,
            assumptions,
            schedule: Vec::new(),
            offsets: Vec::new(),
        };
        terms.compiled()
    }

    /// These terms with what follows from the rest of them: the event's start, the end of all claims, the schedule and its offsets.
    fn compiled(self) -> Result<Self, Error> {
        let frame = self.frame_for(self.event_date, self.time_zone);
        let (claim_until, schedule) = match self.stakes()? {
            Some(stakes) => (frame.claim_until(stakes.document), frame.compile(&stakes)),
            None => (frame.anchor, Vec::new()),
        };
        Ok(Self {
            anchor: frame.anchor,
            claim_until,
            offsets: offsets(self.time_zone, &schedule, frame.anchor),
            schedule,
            ..self
        })
    }

    /// The terms of the same booking on another date: the same policy and amounts, with a newly compiled schedule.
    ///
    /// `time_zone` is the booking's own zone from now on. Without one, a zone given by the policy or the partner stays; the
    /// offset of the former date does not, because clocks change.
    ///
    /// # Errors
    /// Those of [`Self::freeze`].
    pub fn rescheduled(
        &self,
        event_date: EventDate,
        time_zone: Option<&str>,
    ) -> Result<Self, Error> {
        let assumed = self.assumptions.contains(&Assumption::TimeZoneAssumedUtc);
        let given = match self.time_zone {
            Zone::Named(zone) if !assumed => Some(zone.name()),
            _ => None,
        };
        let booked = Booked {
            event_date,
            time_zone,
            // The only remaining source of a zone: not the booking, the policy or the date.
            partner_time_zone: given,
            value: self.value,
            paid: Some(self.paid),
            created_at: self.created_at,
        };
        let policy = self.policy.as_ref();
        let policy = policy.map(|policy| (policy.document.clone(), policy.policy_source));
        let missing_zone = match assumed {
            true => MissingZone::AssumeUtc,
            false => MissingZone::Refuse,
        };
        Self::freeze(policy, &booked, missing_zone)
    }

    /// The policy's hash, if there is a policy.
    pub fn policy_hash(&self) -> Option<&str> {
        self.policy
            .as_ref()
            .map(|policy| policy.policy_hash.as_str())
    }

    /// Checks terms from outside for consistency: the hash is the policy's, and anchor, claim window and schedule are what
    /// the policy gives for these facts. A newer time zone database can change the latter for events that were far ahead;
    /// only the hash is certain.
    ///
    /// # Errors
    /// `terms_policy_hash`, `terms_schedule`, `currency_mismatch`, `policy_currency_mismatch`.
    pub fn verify(&self) -> Result<(), Error> {
        if let Some(policy) = &self.policy
            && policy.document.hash() != policy.policy_hash
        {
            return Err(Error::invalid(
                "terms_policy_hash",
                format!(
                    "The policy's hash is {}, not {} as the terms say.",
                    policy.document.hash(),
                    shorten(&policy.policy_hash)
                ),
            ));
        }
        if self.clone().compiled()? != *self {
            return Err(Error::invalid(
                "terms_schedule",
                "The schedule is not what the policy gives for this event, zone and value.",
            ));
        }
        Ok(())
    }

    /// Seconds by which the wall clock was ahead of UTC, when the terms were frozen, at the end of a step of the schedule.
    /// With the number of steps as `step`, at the event's start.
    pub fn offset(&self, step: usize) -> i32 {
        match self.time_zone {
            Zone::Fixed(offset) => offset.local_minus_utc(),
            Zone::Named(_) => {
                let known = self.offsets.get(step).or(self.offsets.last());
                known.copied().unwrap_or_default()
            }
        }
    }

    /// Checks that a refund on which people agree or decide is in the booking's currency, and no more than what was paid;
    /// `exceeds` is the refusal if it is more.
    ///
    /// Refusal: `currency_mismatch`.
    pub(super) fn check_refund(
        &self,
        what: &str,
        refund: Amount,
        exceeds: impl FnOnce(String) -> Error,
    ) -> Result<(), Error> {
        let paid = self.paid;
        let (currency, own) = (refund.currency(), paid.currency());
        if currency != own {
            return Err(Error::invalid(
                "currency_mismatch",
                format!("The {what} is in {currency} and the booking in {own}."),
            ));
        }
        match refund.minor() > paid.minor() {
            true => Err(exceeds(format!(
                "The {what} {refund} is more than what was paid, {paid}."
            ))),
            false => Ok(()),
        }
    }

    /// The instants the schedule depends on.
    pub(super) fn frame(&self) -> Frame {
        Frame {
            zone: self.time_zone,
            anchor: self.anchor,
            created_at: self.created_at,
        }
    }

    /// The same instants for another date and zone.
    pub(super) fn frame_for(&self, event_date: EventDate, zone: Zone) -> Frame {
        Frame {
            zone,
            anchor: event_date.anchor(zone, anchor_time(self.policy.as_ref())),
            created_at: self.created_at,
        }
    }

    /// The amounts that the policy divides, if there is one. Refusals: `policy_currency_mismatch`, `currency_mismatch`.
    pub(super) fn stakes(&self) -> Result<Option<Stakes<'_>>, Error> {
        let currency = self.value.currency();
        same_currency(currency, self.paid.currency())?;
        let Some(policy) = &self.policy else {
            return Ok(None);
        };
        let document = policy.document.document();
        if let Some(own) = document.currency.filter(|own| *own != currency)
            && document.has_fixed_amounts()
        {
            return Err(Error::invalid(
                "policy_currency_mismatch",
                format!(
                    "Policy {} holds fixed amounts in {own} and the booking is in {currency}.",
                    document.policy_id
                ),
            ));
        }
        Ok(Some(Stakes::new(document, self.value, self.paid)))
    }
}

fn offsets(zone: Zone, schedule: &[Segment], anchor: Timestamp) -> Vec<i32> {
    if let Zone::Fixed(_) = zone {
        return Vec::new();
    }
    let ends = schedule.iter().map(|step| step.to).chain([anchor]);
    let mut offsets: Vec<i32> = ends.map(|instant| zone.offset_at(instant)).collect();
    while let [.., before, last] = offsets[..]
        && before == last
    {
        offsets.pop();
    }
    offsets
}

fn anchor_time(policy: Option<&Adopted>) -> TimeOfDay {
    policy.map_or(TimeOfDay::MIDNIGHT, |p| p.document.document().anchor_time)
}

fn same_currency(value: Currency, paid: Currency) -> Result<(), Error> {
    if value == paid {
        return Ok(());
    }
    Err(Error::invalid(
        "currency_mismatch",
        format!("The value is in {value} and the amount paid in {paid}."),
    ))
}

/// The first available zone: the booking's, the policy's, the partner's, the offset of the date.
fn zone(policy: Option<&Adopted>, booked: &Booked<'_>) -> Result<Option<Zone>, Error> {
    if let Some(name) = booked.time_zone {
        return named(name, "The booking's").map(Some);
    }
    if let Some(zone) = policy.and_then(|policy| policy.document.document().time_zone) {
        return Ok(Some(zone));
    }
    if let Some(name) = booked.partner_time_zone {
        return named(name, "The partner's default").map(Some);
    }
    Ok(match booked.event_date {
        EventDate::Instant { offset, .. } => Some(Zone::Fixed(offset)),
        EventDate::Local(_) | EventDate::Date(_) => None,
    })
}

fn named(name: &str, whose: &str) -> Result<Zone, Error> {
    Zone::iana(name).ok_or_else(|| {
        Error::invalid(
            "time_zone_unknown",
            format!(
                "{whose} time zone \"{}\" is not an IANA time zone.",
                shorten(name)
            ),
        )
    })
}

fn zone_required(event_date: EventDate) -> Error {
    Error::invalid(
        "time_zone_required",
        format!("eventDate \"{event_date}\" has no offset and no time zone is known."),
    )
}
