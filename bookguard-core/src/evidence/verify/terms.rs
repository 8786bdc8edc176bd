//! Checks the terms in force and those before each move of the event: shown as recorded, and recomputed.

use super::super::FrozenTerms;
use super::super::packet::Packet;
use super::super::state::BookingState;
use super::Outcome;
use crate::error::Error;
use crate::model::Amount;
use crate::policy::{PastReschedule, Terms};

/// Checks that the terms shown are those in the ledger: the first by their hash, the others word for word.
pub(super) fn same(packet: &Packet, state: &BookingState) -> Outcome {
    let shown: Vec<&FrozenTerms> = packet.former_terms.iter().chain([&packet.terms]).collect();
    let (first, moved) = shown.split_first().ok_or("The packet holds no terms.")?;
    if first.hash() != state.terms_hash {
        return Err(
            "The terms shown are not the ones fixed when the booking was recorded.".to_owned(),
        );
    }
    let recorded = state.reschedules.iter().map(|r| &r.fact.terms);
    if !moved.iter().copied().eq(recorded) {
        return Err(
            "The terms shown are not the ones fixed when the event was moved, or some are missing."
                .to_owned(),
        );
    }
    let moves = state.reschedules.iter().map(|r| &r.fact.former);
    if moves
        .zip(&shown)
        .any(|(former, terms)| former.previous_event_date != terms.date)
    {
        return Err(
            "A move names a former date that is not the date in the terms before it.".to_owned(),
        );
    }
    if shown.iter().any(|terms| terms.adopted != first.adopted) {
        return Err(
            "The terms after a move name another policy; the policy must stay the same.".to_owned(),
        );
    }
    let mut said = match state.reschedules.len() {
        0 => "The terms are the ones fixed when the booking was recorded".to_owned(),
        1 => "The terms are the ones fixed when the event was moved, and the terms before the move are shown too"
            .to_owned(),
        n => format!(
            "The terms are the ones fixed when the event was last moved, and those before each of {n} moves are shown too"
        ),
    };
    if let Some(place) = &state.protected {
        said += match state.reschedules.len() == state.moves_before(place) {
            true => ", and the same that were locked when it was protected",
            false => "; the protection locked those that were in force then",
        };
    }
    Ok(said + ".")
}

/// Checks that the policy gives every schedule, and that each change of date states what was reached before it. Returns the
/// terms before each change of date, then the ones in force.
pub(super) fn schedule(
    packet: &Packet,
    state: &BookingState,
) -> Result<(String, Vec<Terms>), String> {
    let first = packet.former_terms.first().unwrap_or(&packet.terms);
    let versions = state.terms_versions(first.clone());
    let thawed: Result<Vec<Terms>, String> = versions
        .iter()
        .map(|version| version.thaw(&state.booking, packet.policy.clone()))
        .collect();
    let thawed = thawed.map_err(|why| format!("The terms cannot be read: {why}."))?;
    // Terms that do not say that UTC was assumed must have a zone, or they cannot be made anew.
    let (recorded, own_zone) = (&thawed[0], versions[0].time_zone.as_deref());
    let anew = recorded.rescheduled(recorded.event_date, own_zone);
    let mut clocks_changed = compare(anew, recorded)?;
    for (moves, record) in state.reschedules.iter().map(|r| &r.fact).enumerate() {
        let (former, terms) = (&thawed[moves], &thawed[moves + 1]);
        let anew = former.rescheduled(terms.event_date, record.time_zone.as_deref());
        clocks_changed |= compare(anew, terms)?;
        let (before, agreed_at) = (&state.moves[..moves], record.agreed_at());
        let reached = PastReschedule::of(former, before, agreed_at);
        let by_step_alone = || PastReschedule::by_step_alone(former, before, agreed_at);
        if record.former != reached && record.former != by_step_alone() {
            return Err(format!(
                "The move of {} does not say what was reached before it: the terms in force gave {}.",
                record.rescheduled_at,
                reached.reached.map_or_else(
                    || "it to a person".to_owned(),
                    |sum: Amount| sum.to_string()
                )
            ));
        }
    }
    let zone = thawed[state.reschedules.len()].time_zone;
    if clocks_changed {
        let said = format!(
            "Deadlines and amounts are what the policy gives for this booking, except for a later change of the clocks in \
             {zone}; the ones agreed on then count."
        );
        return Ok((said, thawed));
    }
    let said = match state.reschedules.len() {
        0 => "Deadlines and amounts are what the policy gives for this booking, recomputed."
            .to_owned(),
        1 => "Deadlines and amounts are what the policy gives for this booking before and after the move, and so is what was \
              reached before it, recomputed."
            .to_owned(),
        n => format!(
            "Deadlines and amounts are what the policy gives for this booking before and after each of {n} moves, and so is what \
             was reached before them, recomputed."
        ),
    };
    Ok((said, thawed))
}

/// Compares terms with the recomputed ones. Returns whether only the clocks changed: time zone tables change, but the agreed
/// schedule counts.
fn compare(anew: Result<Terms, Error>, terms: &Terms) -> Result<bool, String> {
    let wrong =
        || "The schedule of deadlines is not what the policy gives for this booking.".to_owned();
    let anew = anew.map_err(|_| wrong())?;
    if anew == *terms {
        return Ok(false);
    }
    let apart_from_clocks = Terms {
        anchor: terms.anchor,
        claim_until: terms.claim_until,
        schedule: terms.schedule.clone(),
        offsets: terms.offsets.clone(),
        ..anew
    };
    match apart_from_clocks == *terms && terms.may_be_of_other_tables() {
        true => Ok(true),
        false => Err(wrong()),
    }
}
