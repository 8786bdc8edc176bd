//! Changes of an event's date. Both sides agree; the terms are compiled anew, and what was reached before is kept.
//!
//! The policy determines what a new date does to the terms. Invariant: the former terms stay where they were recorded, and
//! no change of date is dated before the previous one.

use crate::engine::batch::{BatchState, LoadedBooking};
use crate::engine::chain::AppendedFacts;
use crate::engine::command::{Command, Decided, Head, Receipt};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::evidence::facts::LeafPlace;
use crate::evidence::{FrozenTerms, reschedule};
use crate::features::bookings::about_the_date;
use crate::features::deliveries::rule as deliveries;
use crate::features::reschedules::{RescheduleBooking, RescheduleRequest, Rescheduled};
use crate::limits::RESCHEDULES;
use crate::model::{BookingStatus, EventType, Timestamp};
use crate::policy::{PastReschedule, Rule, Terms, effective_schedule};
use crate::webhook::body;

impl Command for RescheduleBooking {
    type Reply = Rescheduled;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
    }

    /// Moves a booking's event. A repeat of the latest change answers with what is recorded.
    ///
    /// # Errors
    /// `not_found`; `booking_canceled`, `claim_window_closed`, `event_date_unchanged`, `too_many_reschedules`; by
    /// field `rescheduled_in_future`, `rescheduled_before_booking`, `rescheduled_out_of_order`, `backdated_across_deadline`,
    /// `event_date_passed`, and those of [`Terms::rescheduled`].
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Rescheduled> {
        let asked = &self.asked;
        let (partner, state) = batch.booking_of(self.partner_id, self.booking_id)?;
        if let Some(latest) = state.reschedules.last().filter(|r| repeats(asked, &r.fact)) {
            let mut reply = self.answer(batch, state, latest.place)?;
            self.mark_if_dry(&mut reply);
            return Ok((Vec::new(), reply));
        }
        admissible(state, at)?;
        let agreed_at = agreed_at(state, at, asked)?;
        let time_zone = asked
            .time_zone
            .as_ref()
            .or(state.booking.time_zone.as_ref());
        let named = time_zone.map(String::as_str);
        let terms = state
            .terms
            .rescheduled(asked.event_date, named)
            .map_err(|refusal| about_the_date(refusal, named))?;
        new_date(state, &terms, agreed_at)?;

        let fact = reschedule::RescheduleFact {
            rescheduled_at: at,
            event_date: terms.anchor,
            time_zone: time_zone.cloned(),
            agreed_by: asked.agreed_by.clone(),
            at: asked.at,
            former: PastReschedule::of(&state.terms, &state.moves, agreed_at),
            terms: FrozenTerms::of(&terms),
        };
        let mut addition = AppendedFacts::to(batch, state, at, &self.seed)?;
        let place = addition.record(fact)?;
        let first = || FrozenTerms::of(&state.terms);
        addition.booking.first_terms.get_or_insert_with(first);
        addition.booking.terms = terms;
        let mut reply = self.answer(batch, &addition.booking, place)?;
        self.mark_if_dry(&mut reply);
        if reply.dry_run {
            return Ok((Vec::new(), reply));
        }
        let mut changes = addition.changes();
        let head = |event_id| {
            let dates = (state.terms.event_date, reply.event_date);
            body::rescheduled(event_id, &state.booking, at, dates, &self.evidence_url)
        };
        let event = (EventType::BookingRescheduled, self.event);
        let of = Some(self.booking_id);
        deliveries::emit((batch, partner), at, of, event, head, &mut changes);
        Ok((changes, reply))
    }

    fn complete(&self, reply: &mut Rescheduled, head: &Head) {
        if let Some(receipt) = &mut reply.receipt {
            receipt.complete(head);
        }
    }
}

/// Whether the request repeats the latest change of date.
fn repeats(asked: &RescheduleRequest, latest: &reschedule::RescheduleFact) -> bool {
    latest.terms.date == asked.event_date
        && latest.agreed_by == asked.agreed_by
        && latest.at == asked.at
        && (asked.time_zone.is_none() || asked.time_zone == latest.time_zone)
}

/// Fails if the event can no longer be moved.
fn admissible(state: &LoadedBooking, now: Timestamp) -> Result<(), Error> {
    let terms = &state.terms;
    let booking_id = state.booking.booking_id;
    if state.booking.status == BookingStatus::Canceled {
        return Err(conflict!(
            "booking_canceled",
            "Booking {booking_id} is canceled; only bookings that are not canceled can be moved to another date."
        ));
    }
    if now.floor_to_second() > terms.claim_until {
        return Err(conflict!(
            "claim_window_closed",
            "The event of booking {booking_id} started at {} and is over: it could be moved until {}. Record a new booking.",
            terms.anchor,
            terms.claim_until
        ));
    }
    if state.moves.len() >= RESCHEDULES {
        let way_out = match terms.policy {
            Some(_) => "Cancel it by agreement and record a new one.",
            None => "It has no policy, so it cannot be canceled: record a new one beside it.",
        };
        return Err(conflict!(
            "too_many_reschedules",
            "The event of booking {booking_id} was moved {RESCHEDULES} times, which is the most a booking allows. {way_out}"
        ));
    }
    Ok(())
}

/// The instant of the agreement, whose step counts as reached.
fn agreed_at(
    state: &LoadedBooking,
    now: Timestamp,
    asked: &RescheduleRequest,
) -> Result<Timestamp, Error> {
    let (now, terms) = (now.floor_to_second(), &state.terms);
    let Some(at) = asked.at.map(Timestamp::floor_to_second) else {
        return Ok(now);
    };
    let refuse = |code, message: String| {
        let fix = "Send the instant at which both sides agreed, or leave it out.";
        Err(Error::fault("/at", code, message, fix))
    };
    if let Some(late) = at.after_receipt(now) {
        return refuse("rescheduled_in_future", late);
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
    if let Some(last) = state.moves.last().filter(|last| at < last.at) {
        return refuse(
            "rescheduled_out_of_order",
            format!(
                "{at} is before the event was last moved ({}), and changes of date follow each other",
                last.at
            ),
        );
    }
    // Receipt comes after the booking, even if two clocks disagree.
    let is_other_step = step(terms, at) != step(terms, now.max(terms.created_at));
    if at > now && is_other_step {
        return refuse(
            "rescheduled_in_future",
            format!("{at} is after receipt ({now}), and in another step of the schedule"),
        );
    }
    let document = terms
        .policy
        .as_ref()
        .map(|policy| policy.document.document());
    let tolerance = document.map_or(0, |d| i64::from(d.backdate_tolerance.minutes()) * 60_000);
    if now.ms() - at.ms() > tolerance && is_other_step {
        return refuse(
            "backdated_across_deadline",
            format!(
                "{at} lies in another step of the schedule than receipt ({now}), and further back than the policy tolerates"
            ),
        );
    }
    Ok(at)
}

/// The rule that applies to the organizer's cancellation at an instant.
fn step(terms: &Terms, at: Timestamp) -> Option<Rule> {
    let mut steps = terms.schedule.iter();
    let step = steps.find(|step| (step.from..=step.to).contains(&at));
    step.map(|step| step.rule_id)
}

/// Fails unless the date is a new one that was still in the future when both sides agreed on it.
fn new_date(state: &LoadedBooking, terms: &Terms, agreed_at: Timestamp) -> Result<(), Error> {
    let former = &state.terms;
    if (terms.anchor, terms.time_zone) == (former.anchor, former.time_zone) {
        return Err(conflict!(
            "event_date_unchanged",
            "The event of booking {} already starts at {}, on the clocks of {}. Send another eventDate.",
            state.booking.booking_id,
            former.anchor,
            former.time_zone
        ));
    }
    if terms.anchor <= agreed_at {
        let message = format!("{} is not after the agreement ({agreed_at})", terms.anchor);
        let fix = "Send a date after the agreement.";
        return Err(Error::fault(
            "/eventDate",
            "event_date_passed",
            message,
            fix,
        ));
    }
    Ok(())
}

impl RescheduleBooking {
    /// Makes an answer that of a dry run if one was asked for: it records nothing, so it proves nothing.
    fn mark_if_dry(&self, reply: &mut Rescheduled) {
        if self.asked.dry_run {
            reply.dry_run = true;
            reply.receipt = None;
        }
    }

    /// The answer about the latest change of date, which this entry records or is about to record.
    fn answer(
        &self,
        batch: &BatchState,
        state: &LoadedBooking,
        place: LeafPlace,
    ) -> Result<Rescheduled, Error> {
        let latest = state.reschedules.last().map(|logged| &logged.fact);
        let latest = latest.ok_or_else(|| Error::internal("a change of date was not recorded"))?;
        Ok(Rescheduled {
            booking_id: self.booking_id,
            event_date: latest.event_date,
            time_zone: latest.time_zone.clone(),
            previous_event_date: latest.former.previous_event_date.to_string(),
            rescheduled_at: latest.rescheduled_at,
            at: latest.former.at,
            agreed_by: latest.agreed_by.clone(),
            reached: latest.former.reached,
            schedule: effective_schedule(&state.terms, &state.moves)?,
            dry_run: false,
            receipt: Some(Receipt::of(&batch.origin, &place)),
        })
    }
}

#[cfg(test)]
mod tests;
