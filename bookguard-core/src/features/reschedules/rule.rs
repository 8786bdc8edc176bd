//! Changes of an event's date: agreed on by both sides, with the terms compiled anew and what was reached before kept.
//!
//! What a new date does to the terms is the policy's to say. Invariant: the terms that were in force stay where they were
//! recorded, and no change of date reaches behind another one.

use crate::engine::batch::{BatchState, BookingState, LatestReschedule};
use crate::engine::chain::Chain;
use crate::engine::change::{Change, Entry};
use crate::engine::command::{Command, Decided, Head, Receipt};
use crate::engine::needs::Needs;
use crate::error::{Error, FieldError};
use crate::evidence::{FrozenTerms, RescheduleRecord, TermsVersion, facts};
use crate::features::cancellations::rule::{field_error, owned};
use crate::features::reschedules::{RescheduleBooking, RescheduleRequest, Rescheduled};
use crate::ledger::LeafKind;
use crate::limits::{CLOCK_SKEW_MS, RESCHEDULES};
use crate::model::{BookingStatus, Timestamp};
use crate::policy::{PastReschedule, Refusal, Rule, Terms, effective_schedule};

impl Command for RescheduleBooking {
    type Reply = Rescheduled;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
    }

    /// Moves a booking's event. The latest change again answers with what is recorded.
    ///
    /// # Errors
    /// `not_found`; `booking_canceled`, `claim_window_closed`, `event_date_unchanged`, `too_many_reschedules`; by
    /// field `rescheduled_in_future`, `rescheduled_before_booking`, `rescheduled_out_of_order`, `backdated_across_deadline`,
    /// `event_date_passed`, and those of [`Terms::rescheduled`].
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Rescheduled> {
        let asked = &self.asked;
        let (_, state) = owned(batch, self.partner_id, self.booking_id)?;
        if let Some(latest_reschedule) = state
            .latest_reschedule
            .as_ref()
            .filter(|latest_reschedule| repeats(asked, latest_reschedule))
        {
            return Ok((Vec::new(), answer(batch, latest_reschedule, &state.terms)?));
        }
        admissible(state, at)?;
        let agreed_at = agreed_at(state, at, asked)?;
        let time_zone = asked
            .time_zone
            .as_ref()
            .or(state.booking.time_zone.as_ref());
        let terms = state
            .terms
            .rescheduled(asked.event_date, time_zone.map(String::as_str))
            .map_err(about_the_date)?;
        new_date(state, &terms, agreed_at)?;

        let mut reschedules = state.reschedules().to_vec();
        reschedules.push(PastReschedule::of(
            &state.terms,
            state.reschedules(),
            agreed_at,
        ));
        let record = RescheduleRecord {
            booking_id: self.booking_id,
            rescheduled_at: at,
            event_date: terms.anchor,
            time_zone: time_zone.cloned(),
            agreed_by: asked.agreed_by.clone(),
            at: asked.at,
            reschedules,
            terms: FrozenTerms::of(&terms),
        };
        let mut chain = Chain::of(batch, state, at, &self.seed)?;
        let entry = chain.append(LeafKind::BookingRescheduled, facts::rescheduled(&record))?;
        let latest_reschedule = latest_reschedule(state, record, &entry);
        let mut reply = answer(batch, &latest_reschedule, &terms)?;
        if asked.dry_run {
            reply.dry_run = true;
            reply.receipt = None;
            return Ok((Vec::new(), reply));
        }
        let changes = vec![
            Change::Entry(Box::new(entry)),
            Change::BookingRescheduled {
                booking_id: self.booking_id,
                latest_reschedule: Box::new(latest_reschedule),
                terms: Box::new(terms),
            },
        ];
        Ok((changes, reply))
    }

    fn complete(&self, reply: &mut Rescheduled, head: &Head) {
        if let Some(receipt) = &mut reply.receipt {
            receipt.complete(head);
        }
    }
}

/// Whether the latest change of date is what is asked for.
fn repeats(asked: &RescheduleRequest, latest_reschedule: &LatestReschedule) -> bool {
    let latest = &latest_reschedule.record;
    latest.terms.date == asked.event_date
        && latest.agreed_by == asked.agreed_by
        && latest.at == asked.at
        && (asked.time_zone.is_none() || asked.time_zone == latest.time_zone)
}

/// Whether the booking stands where its event can still be moved.
fn admissible(state: &BookingState, now: Timestamp) -> Result<(), Error> {
    let BookingState { booking, terms, .. } = state;
    let booking_id = booking.booking_id;
    if booking.status == BookingStatus::Canceled {
        return Err(Error::conflict(
            "booking_canceled",
            format!(
                "Booking {booking_id} is canceled; only bookings that are not canceled can be moved to another date."
            ),
        ));
    }
    if now.floor_to_second() > terms.claim_until {
        return Err(Error::conflict(
            "claim_window_closed",
            format!(
                "The event of booking {booking_id} started at {} and is over: it could be moved until {}. Record a new booking.",
                terms.anchor, terms.claim_until
            ),
        ));
    }
    if state.reschedules().len() >= RESCHEDULES {
        return Err(Error::conflict(
            "too_many_reschedules",
            format!(
                "The event of booking {booking_id} was moved {RESCHEDULES} times, which is the most a booking allows. Cancel it by \
                 agreement and record a new one."
            ),
        ));
    }
    Ok(())
}

/// The instant at which it was agreed on, whose step counts as reached.
fn agreed_at(
    state: &BookingState,
    now: Timestamp,
    asked: &RescheduleRequest,
) -> Result<Timestamp, Error> {
    let (now, terms) = (now.floor_to_second(), &state.terms);
    let Some(at) = asked.at.map(Timestamp::floor_to_second) else {
        return Ok(now);
    };
    let refuse = |code, message: String| {
        let fix = "Send the instant at which both sides agreed, or leave it out.";
        Err(fault("/at", code, message, fix))
    };
    if at > now.plus_ms(CLOCK_SKEW_MS) {
        return refuse(
            "rescheduled_in_future",
            format!("{at} is after receipt ({now}) by more than 5 minutes"),
        );
    }
    if at < terms.created_at {
        return refuse(
            "rescheduled_before_booking",
            format!(
                "{at} is before the booking was created ({})",
                terms.created_at
            ),
        );
    }
    if let Some(last) = state.reschedules().last().filter(|last| at < last.at) {
        return refuse(
            "rescheduled_out_of_order",
            format!(
                "{at} is before the event was last moved ({}), and changes of date follow each other",
                last.at
            ),
        );
    }
    let document = terms
        .policy
        .as_ref()
        .map(|policy| policy.document.document());
    let tolerance = document.map_or(0, |d| i64::from(d.backdate_tolerance.minutes()) * 60_000);
    if now.ms() - at.ms() > tolerance && step(terms, at) != step(terms, now) {
        return refuse(
            "backdated_across_deadline",
            format!(
                "{at} lies in another step of the schedule than receipt ({now}), and further back than the policy tolerates"
            ),
        );
    }
    Ok(at)
}

/// The rule that decides over the organizer's cancellation at an instant.
fn step(terms: &Terms, at: Timestamp) -> Option<Rule> {
    let mut steps = terms.schedule.iter();
    let step = steps.find(|step| (step.from..=step.to).contains(&at));
    step.map(|step| step.rule_id)
}

/// Whether the event really goes to another date, which is still to come when both sides agree on it.
fn new_date(state: &BookingState, terms: &Terms, agreed_at: Timestamp) -> Result<(), Error> {
    let former = &state.terms;
    if (terms.anchor, terms.time_zone) == (former.anchor, former.time_zone) {
        return Err(Error::conflict(
            "event_date_unchanged",
            format!(
                "The event of booking {} already starts at {}, on the clocks of {}. Send another eventDate.",
                state.booking.booking_id, former.anchor, former.time_zone
            ),
        ));
    }
    if terms.anchor <= agreed_at {
        let message = format!("{} is not after the agreement ({agreed_at})", terms.anchor);
        let fix = "Send a date after the agreement.";
        return Err(fault("/eventDate", "event_date_passed", message, fix));
    }
    Ok(())
}

pub(crate) fn fault(pointer: &str, code: &str, message: String, fix: &str) -> Error {
    Error::faults(vec![FieldError {
        pointer: pointer.to_owned(),
        code: code.to_owned(),
        message,
        fix: fix.to_owned(),
    }])
}

fn about_the_date(refusal: Refusal) -> Error {
    match refusal.code {
        "time_zone_unknown" | "time_zone_required" => field_error(
            refusal,
            "/timeZone",
            "Send an IANA name such as \"America/New_York\".",
        ),
        _ => refusal.into(),
    }
}

/// What the booking is under once the entry is written.
fn latest_reschedule(
    state: &BookingState,
    record: RescheduleRecord,
    entry: &Entry,
) -> LatestReschedule {
    let booking = &state.booking;
    let recorded = match &state.latest_reschedule {
        Some(latest_reschedule) => latest_reschedule.recorded.clone(),
        None => TermsVersion {
            since: booking.created_at,
            event_date: booking.event_date,
            time_zone: booking.time_zone.clone(),
            terms: FrozenTerms::of(&state.terms),
        },
    };
    LatestReschedule {
        leaf: (entry.index, entry.hash),
        record,
        recorded,
    }
}

/// What is answered about a change of date that is recorded, or is about to be.
fn answer(
    batch: &BatchState,
    latest_reschedule: &LatestReschedule,
    terms: &Terms,
) -> Result<Rescheduled, Error> {
    let latest = &latest_reschedule.record;
    let reschedule = latest.reschedules.last().ok_or_else(|| {
        Error::internal(format!(
            "the change of date of booking {} does not say what it changed",
            latest.booking_id
        ))
    })?;
    Ok(Rescheduled {
        booking_id: latest.booking_id,
        event_date: latest.event_date,
        time_zone: latest.time_zone.clone(),
        previous_event_date: reschedule.previous_event_date.to_string(),
        rescheduled_at: latest.rescheduled_at,
        at: reschedule.at,
        agreed_by: latest.agreed_by.clone(),
        reached: reschedule.reached,
        schedule: effective_schedule(terms, &latest.reschedules)?,
        dry_run: false,
        receipt: Some(Receipt::of(&batch.origin, latest_reschedule.leaf)),
    })
}

#[cfg(test)]
mod tests;
