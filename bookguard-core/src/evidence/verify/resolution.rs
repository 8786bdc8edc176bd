//! Checks the resolution of a canceled booking: shown as recorded, and recomputed from the terms alone.

use super::super::packet::Packet;
use super::super::state::BookingState;
use super::Outcome;
use crate::policy::{self, Cancellation, Evaluation, Resolution, Terms, Zone};

/// Checks that the packet shows the recorded resolution, and that policy and facts give its amounts.
pub(super) fn check(packet: &Packet, state: &BookingState, terms: &Terms) -> Outcome {
    let Some((cancellation, latest)) = state.cancellation.as_ref().zip(state.resolution()) else {
        return match packet.resolution {
            Some(_) => {
                Err("The packet shows a resolution that none of its records holds.".to_owned())
            }
            None => Ok(
                "No record in the packet is a resolution, and the packet shows none.".to_owned(),
            ),
        };
    };
    if packet.resolution.as_ref() != Some(latest) {
        return Err(
            "The resolution shown is not the one recorded in the ledger, or not the latest in the packet."
                .to_owned(),
        );
    }
    recomputed(state, cancellation, terms)
}

/// Evaluates the cancellation again, and repeats a person's decision.
fn recomputed(state: &BookingState, cancellation: &Cancellation, terms: &Terms) -> Outcome {
    let subject = state.subject(terms, None);
    let mut said = String::new();
    for resolution in state.resolutions.iter().map(|logged| &logged.fact) {
        let anew = match &resolution.decision {
            None => policy::evaluate(&subject, &cancellation.question()),
            // The decision refers to the first resolution, which is in the same list.
            Some(decision) => (state.resolutions[0].fact)
                .decided(decision.clone(), resolution.resolution_id, terms)
                .map(|decided| decided.evaluation),
        };
        let anew = anew.map_err(|refusal| wrong(resolution, &refusal))?;
        same(resolution, &anew, terms)?;
        said = match resolution.decision {
            None => format!(
                "what it came to ({}) was recomputed from the terms and the cancellation with the same result",
                sums(&anew)
            ),
            Some(_) => format!(
                "recomputing it from the terms shows that a person had to decide and that the decision comes to {}",
                sums(&anew)
            ),
        };
    }
    Ok(format!(
        "The resolution is the latest one recorded in the packet, and {said}."
    ))
}

/// Checks that an evaluation equals the recorded one. Time zone tables change, and with them the wording of a deadline on
/// the wall clock, but never an instant or an amount: those are in the frozen schedule.
fn same(recorded: &Resolution, anew: &Evaluation, terms: &Terms) -> Result<(), String> {
    if recorded.evaluation == *anew {
        return Ok(());
    }
    let retold = Evaluation {
        explanation: recorded.evaluation.explanation.clone(),
        ..anew.clone()
    };
    let same_words = recorded.evaluation.explanation.code == anew.explanation.code;
    if matches!(terms.time_zone, Zone::Named(_)) && same_words && retold == recorded.evaluation {
        return Ok(());
    }
    Err(wrong(recorded, &sums(anew)))
}

fn wrong(recorded: &Resolution, anew: &dyn std::fmt::Display) -> String {
    format!(
        "What is recorded in resolution {} is not what policy and facts give: recorded {}, recomputed: {anew}.",
        recorded.resolution_id,
        sums(&recorded.evaluation)
    )
}

/// Path and amounts, formatted for people.
fn sums(evaluation: &Evaluation) -> String {
    match (evaluation.refund, evaluation.penalty) {
        (Some(refund), Some(penalty)) => format!(
            "{}, refund {refund}, penalty {penalty}",
            evaluation.resolution_path
        ),
        _ => format!("{}, amounts left open", evaluation.resolution_path),
    }
}
