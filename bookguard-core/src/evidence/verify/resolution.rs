//! Checks the resolution of a canceled booking: shown as recorded, and recomputed from the terms alone.

use super::super::packet::Packet;
use super::super::state::BookingState;
use super::Outcome;
use crate::error::Error;
use crate::policy::{self, Cancellation, Evaluation, Question, Resolution, Subject, Terms, Zone};

/// Checks that the packet shows the recorded resolution, and that policy and facts give its amounts.
pub(super) fn check(packet: &Packet, state: &BookingState, terms: &Terms) -> Outcome {
    let Some((cancellation, latest)) = state.cancellation.as_ref().zip(state.resolution()) else {
        return match packet.resolution {
            Some(_) => {
                Err("The packet shows a resolution that none of its entries holds.".to_owned())
            }
            None => {
                Ok("No entry in the packet is a resolution, and the packet shows none.".to_owned())
            }
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
    let (subject, question) = (state.subject(terms, None), cancellation.question());
    let mut said = String::new();
    for resolution in state.resolutions.iter().map(|logged| &logged.fact) {
        let made = match &resolution.decision {
            None => anew(&resolution.evaluation, &subject, &question, terms),
            // The decision refers to the first resolution, which is in the same list.
            Some(decision) => (state.resolutions[0].fact)
                .decided(decision.clone(), resolution.resolution_id, terms)
                .map(|decided| decided.evaluation),
        };
        let made = made.map_err(|refusal| wrong(resolution, &refusal))?;
        same(resolution, &made, terms)?;
        said = match resolution.decision {
            None => format!(
                "what it came to ({}) was recomputed from the terms and the cancellation with the same result",
                sums(&made)
            ),
            Some(_) => format!(
                "recomputing it from the terms shows that a person had to decide and that the decision comes to {}",
                sums(&made)
            ),
        };
    }
    Ok(format!(
        "The resolution is the latest one recorded in the packet, and {said}."
    ))
}

/// The evaluation made anew: as the first release told it if that is what is shown, otherwise as it is told now.
pub(super) fn anew(
    shown: &Evaluation,
    subject: &Subject<'_>,
    question: &Question,
    terms: &Terms,
) -> Result<Evaluation, Error> {
    let first = policy::evaluate_as_first(subject, question)?;
    match is_same(shown, &first, terms) {
        true => Ok(first),
        false => policy::evaluate(subject, question),
    }
}

/// Checks that an evaluation equals the recorded one.
fn same(recorded: &Resolution, anew: &Evaluation, terms: &Terms) -> Result<(), String> {
    match is_same(&recorded.evaluation, anew, terms) {
        true => Ok(()),
        false => Err(wrong(recorded, &sums(anew))),
    }
}

/// Whether an evaluation is the one made anew. Tables of time zones change, and with them what its explanation says of the wall clock,
/// but never an instant or an amount: those are in the frozen schedule.
pub(super) fn is_same(shown: &Evaluation, anew: &Evaluation, terms: &Terms) -> bool {
    let without_clocks = |evaluation: &Evaluation| {
        let mut evaluation = evaluation.clone();
        let explanation = &mut evaluation.explanation;
        let texts = explanation.params.values_mut();
        for text in texts.chain([&mut explanation.text]) {
            *text = without_wall_clocks(text);
        }
        evaluation
    };
    shown == anew
        || matches!(terms.time_zone, Zone::Named(_))
            && without_clocks(shown) == without_clocks(anew)
}

/// A text with each time of a wall clock, such as `2026-06-13 19:00` or `2026-06-13 19:00:30`, as a line.
fn without_wall_clocks(text: &str) -> String {
    let follows = |at: usize, shape: &str| {
        let bytes = text.as_bytes().get(at..at + shape.len());
        bytes.is_some_and(|bytes| policy::has_shape(bytes, shape))
    };
    let (mut masked, mut at) = (String::new(), 0);
    while let Some(next) = text[at..].chars().next() {
        let length = ["dddd-dd-dd dd:dd:dd", "dddd-dd-dd dd:dd"]
            .into_iter()
            .find(|shape| follows(at, shape))
            .map(str::len);
        masked.push(if length.is_some() { '–' } else { next });
        at += length.unwrap_or(next.len_utf8());
    }
    masked
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

#[cfg(test)]
mod tests {
    use super::super::tests::fixture::Fixture;
    use super::*;

    #[test]
    fn another_table_of_a_time_zone_changes_what_the_wall_clock_says_and_nothing_else() {
        let packet = Fixture::new().protected();
        let shown = packet.evaluation.clone().unwrap();
        let terms = packet.terms.thaw(&packet.booking, packet.policy);
        let mut terms = terms.unwrap();
        let at = shown.explanation.text.find("19:00").unwrap();
        let said = |from: usize, to: usize, words: &str| {
            let mut told = shown.clone();
            told.explanation.text.replace_range(from..to, words);
            told
        };
        for (told, same) in [
            (said(at, at + 5, "20:00"), true),
            (said(at, at + 5, "19:00:30"), true),
            (said(at, at + 5, "7 pm"), false),
            (said(0, 0, "It was 2026. "), false),
            (said(0, 0, "2026-01-01T10:00"), false),
        ] {
            assert_eq!(is_same(&told, &shown, &terms), same, "{told:?}");
        }
        let mut param = shown.clone();
        let texts = param.explanation.params.values_mut();
        let clocks = texts.filter(|text| text.contains("19:00"));
        assert!(
            clocks
                .map(|text| *text = text.replace("19:00", "20:00"))
                .count()
                > 0
        );
        assert!(is_same(&param, &shown, &terms));
        terms.time_zone = Zone::hours_east(-4);
        assert!(is_same(&shown, &shown, &terms) && !is_same(&param, &shown, &terms));
    }
}
