//! Acceptances: a party accepted a booking's terms exactly as they were disclosed.
//!
//! Invariant: an acceptance is recorded only for a text of the terms in force at that moment, in a wording that this service has shown.

use crate::engine::batch::{BatchState, LoadedBooking};
use crate::engine::chain::AppendedFacts;
use crate::engine::command::{Command, Decided, Head, Receipt};
use crate::engine::needs::Needs;
use crate::error::{Error, Obstacle, conflict};
use crate::evidence::facts::{LeafPlace, Logged};
use crate::evidence::{Acceptance, Erasable};
use crate::features::acceptances::{AcceptTerms, Accepted, accepted_after, wording};
use crate::features::deliveries::rule as deliveries;
use crate::limits::{ACCEPTANCES, CLOCK_SKEW_MS};
use crate::model::{BookingStatus, EventType, Timestamp};
use crate::policy::{DisclosureWording, TermsDisclosure, disclose_in};
use crate::webhook::body;

impl Command for AcceptTerms {
    type Reply = Accepted;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
        needs.acceptances.push(self.booking_id);
    }

    /// Records an acceptance. The same again answers with the recorded one; an address or a program that is left out, and a value
    /// that was erased, do not distinguish them.
    ///
    /// # Errors
    /// `not_found`; `booking_canceled`, `disclosure_changed`, `too_many_acceptances`; by field `accepted_in_future`,
    /// `accepted_before_terms`; `unavailable` beside an erasure.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Accepted> {
        let asked = &self.asked;
        let (partner, state) = batch.booking_of(self.partner_id, self.booking_id)?;
        // The store loads no erasures, so those that are known are of this batch, and the acceptances are as they were before them.
        if !state.erasures.is_empty() {
            return Err(Error::unavailable(
                "Values of the booking were erased at the same moment. Send the acceptance again.",
            ));
        }
        let same = |known: &&Logged<Acceptance>| {
            // Recorded again, an acceptance would bring back what was erased of it.
            let is_erased = |value: Erasable| {
                let erased = &batch.erased_of_acceptances;
                erased.contains(&(known.place.index, value))
            };
            let known = &known.fact;
            let is_ip = asked.ip.is_none() || asked.ip == known.ip;
            let is_program = asked.user_agent.is_none() || asked.user_agent == known.user_agent;
            known.party == asked.party
                && known.at == asked.at
                && known.disclosure_hash == asked.disclosure_hash
                && (known.method == asked.method || is_erased(Erasable::Method))
                && (is_ip || is_erased(Erasable::Ip))
                && (is_program || is_erased(Erasable::UserAgent))
        };
        if let Some(known) = state.acceptances.iter().find(same) {
            return Ok((Vec::new(), answer(batch, &known.place, &known.fact)));
        }
        admissible(state)?;
        let Some(disclosure) = shown(state, &asked.disclosure_hash)? else {
            let accepted = accepted_after(state, state.reschedules.len()).next();
            let in_force = disclose_in(wording(accepted), &state.terms, &state.moves)?;
            return Err(conflict!(
                "disclosure_changed",
                "The accepted text is not the text of the terms that booking {} is under now. Get its disclosure, show it, \
                 and send the disclosureHash of what was shown.",
                self.booking_id
            )
            .showing(Obstacle {
                disclosure_hash: Some(in_force.disclosure_hash),
                ..Obstacle::default()
            }));
        };
        sound_instant(state, at, asked.at)?;
        let acceptance = Acceptance {
            booking_id: self.booking_id,
            accepted_at: at,
            party: asked.party,
            method: asked.method.clone(),
            at: asked.at,
            ip: asked.ip.clone(),
            user_agent: asked.user_agent.clone(),
            disclosure_hash: disclosure.disclosure_hash,
            disclosure_version: disclosure.version,
        };
        let mut addition = AppendedFacts::to(batch, state, at, &self.seed)?;
        let place = addition.record(acceptance.clone())?;
        let reply = answer(batch, &place, &acceptance);
        let mut changes = addition.changes();
        let head = |event_id| {
            let accepted = (acceptance.party, &*acceptance.disclosure_hash);
            body::accepted(event_id, &state.booking, at, accepted, &self.evidence_url)
        };
        let event = (EventType::TermsAccepted, self.event);
        let of = Some(self.booking_id);
        deliveries::emit((batch, partner), at, of, event, head, &mut changes);
        Ok((changes, reply))
    }

    fn complete(&self, reply: &mut Accepted, head: &Head) {
        reply.receipt.complete(head);
    }

    fn brings_new(&self) -> bool {
        true
    }
}

/// The text of the terms in force that has this hash, in any wording: what was shown before an upgrade is accepted after it, too.
fn shown(state: &LoadedBooking, hash: &str) -> Result<Option<TermsDisclosure>, Error> {
    for wording in DisclosureWording::ALL.iter().rev() {
        let text = disclose_in(*wording, &state.terms, &state.moves)?;
        if text.disclosure_hash == hash {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn admissible(state: &LoadedBooking) -> Result<(), Error> {
    let booking_id = state.booking.booking_id;
    if state.booking.status == BookingStatus::Canceled {
        return Err(conflict!(
            "booking_canceled",
            "Booking {booking_id} is canceled; only the terms of bookings that are not canceled can be accepted."
        ));
    }
    if state.acceptances.len() >= ACCEPTANCES {
        return Err(conflict!(
            "too_many_acceptances",
            "Booking {booking_id} has {ACCEPTANCES} acceptances, which is the most a booking takes. Record only the first of each \
             party and text."
        ));
    }
    Ok(())
}

/// Refuses an instant in the future or before the terms existed. Clocks may differ by some minutes either way.
fn sound_instant(state: &LoadedBooking, now: Timestamp, at: Timestamp) -> Result<(), Error> {
    let refuse = |code, message: String| {
        let fix = "Send the instant at which the party accepted.";
        Err(Error::fault("/at", code, message, fix))
    };
    if let Some(late) = at.after_receipt(now) {
        return refuse("accepted_in_future", late);
    }
    let booking = &state.booking;
    let since = booking.rescheduled_at.unwrap_or(booking.created_at);
    if at.plus_ms(CLOCK_SKEW_MS) < since {
        return refuse(
            "accepted_before_terms",
            format!("{at} is more than 5 minutes before these terms were in force ({since})"),
        );
    }
    Ok(())
}

fn answer(batch: &BatchState, place: &LeafPlace, acceptance: &Acceptance) -> Accepted {
    Accepted {
        acceptance: acceptance.clone(),
        receipt: Receipt::of(&batch.origin, place),
    }
}

#[cfg(test)]
mod tests;
