//! Cancellations: a booking ends once, with one resolution. If that leaves an amount open, a person decides it once.
//!
//! The policy determines the result. Invariant: a cancellation writes its resolution, its entries and its event in the same
//! batch, and only the decision of a pending resolution may follow.

use crate::engine::batch::{BatchState, LoadedBooking, PartnerState};
use crate::engine::chain::AppendedFacts;
use crate::engine::command::{Command, Decided, EventSeed};
use crate::engine::needs::Needs;
use crate::error::{Error, Kind, Obstacle, conflict};
use crate::evidence::facts::ResolutionFact;
use crate::features::cancellations::{CancelBooking, DecideResolution, Expected, NewResolution};
use crate::features::deliveries::rule as deliveries;
use crate::input::amount;
use crate::model::{Amount, Currency, EventType, Timestamp};
use crate::policy::{
    self, Cancellation, Evaluation, Mode, Question, Recorded, Resolution, ResolutionDecision,
    ResolutionPath, ResolutionStatus,
};
use crate::webhook::body;

impl Command for CancelBooking {
    type Reply = Resolution;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
    }

    /// Cancels a booking. A repeat with the same actor, reason, instant and agreed refund answers with the existing resolution,
    /// whatever its note and evidence are.
    ///
    /// # Errors
    /// `not_found`; `booking_already_canceled`, `claim_window_closed`, `quote_changed`; by field
    /// those of [`policy::evaluate_now`] and of an amount.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Resolution> {
        let (partner, state) = batch.booking_of(self.partner_id, self.booking_id)?;
        let booking = &state.booking;
        let cancellation = cancellation(at, self, booking.currency)?;
        let recorded = state.resolution().map(Resolution::recorded);
        let evaluation = evaluate(state, recorded.as_ref(), &cancellation.question())
            .map_err(|refusal| refused(refusal, state))?;
        guard(&self.asked.expected, &evaluation, state, &cancellation)?;
        if let Some(resolution) = state.resolution() {
            let resolution = Resolution {
                evaluation,
                ..resolution.clone()
            };
            return Ok((Vec::new(), resolution));
        }
        let new = &self.resolution;
        let resolution = Resolution::of(
            &cancellation,
            evaluation,
            booking.partner_id,
            new.resolution_id,
            booking.protected,
        );
        let mut addition = AppendedFacts::to(batch, state, at, &new.seed)?;
        addition.record(cancellation)?;
        resolve(batch, partner, addition, new, resolution)
    }
}

impl Command for DecideResolution {
    type Reply = Resolution;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
    }

    /// Ends a review. A repeat of the same decision answers with the existing resolution.
    ///
    /// # Errors
    /// `not_found`; `resolution_final`, `resolution_already_decided`; `refund_exceeds_paid` and those of an amount.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Resolution> {
        let asked = &self.asked;
        let unknown = |why: Error| match why.kind {
            Kind::NotFound => Error::not_found("resolution"),
            _ => why,
        };
        let found = batch.booking_of(self.partner_id, self.booking_id);
        let (partner, state) = found.map_err(unknown)?;
        let latest = state.resolution().filter(|latest| {
            let named = Some(self.resolution_id);
            Some(latest.resolution_id) == named || latest.supersedes == named
        });
        let latest = latest.ok_or_else(|| Error::not_found("resolution"))?;
        let refund = amount("/refund", &asked.refund, state.booking.currency)?;
        if let Some(decision) = &latest.decision {
            let same = latest.supersedes == Some(self.resolution_id)
                && decision.refund == refund
                && decision.decided_by == asked.decided_by
                && decision.rationale == asked.rationale;
            return match same {
                true => Ok((Vec::new(), latest.clone())),
                false => Err(already_decided(latest)),
            };
        }
        if latest.status != ResolutionStatus::PendingReview {
            return Err(conflict!(
                "resolution_final",
                "Resolution {} is final: it follows from the policy alone, and there is nothing to decide. Only \
                 resolutions with status pending_review can be decided.",
                latest.resolution_id
            )
            .showing(obstacle(latest)));
        }
        let decision = ResolutionDecision {
            refund,
            decided_by: asked.decided_by.clone(),
            rationale: asked.rationale.clone(),
            decided_at: at,
        };
        let new = &self.next;
        let resolution = latest
            .decided(decision, new.resolution_id, &state.terms)
            .map_err(|refusal| {
                let fix = "Send at most what was paid; more would be a new payment, not a refund.";
                refusal.at_field("/refund", fix)
            })?;
        let addition = AppendedFacts::to(batch, state, at, &new.seed)?;
        resolve(batch, partner, addition, new, resolution)
    }
}

/// Records a resolution: its entry, its row, its event.
fn resolve(
    batch: &BatchState,
    partner: &PartnerState,
    mut addition: AppendedFacts,
    new: &NewResolution,
    resolution: Resolution,
) -> Decided<Resolution> {
    addition.record(ResolutionFact::of(resolution.clone()))?;
    let mut changes = addition.changes();
    let (at, of) = (resolution.made_at(), Some(resolution.booking_id));
    let event = (EventType::ResolutionCreated, new.event);
    let head = |event_id| body::resolved(event_id, &resolution, &new.packet_url);
    deliveries::emit((batch, partner), at, of, event, head, &mut changes);
    if resolution.decision.is_some() {
        let seed = EventSeed {
            event_id: new.decided_event_id,
            ..new.event
        };
        let head = |event_id| body::decided(event_id, &resolution, &new.packet_url);
        let event = (EventType::ResolutionDecided, seed);
        deliveries::emit((batch, partner), at, of, event, head, &mut changes);
    }
    Ok((changes, resolution))
}

fn cancellation(
    at: Timestamp,
    cancel: &CancelBooking,
    currency: Currency,
) -> Result<Cancellation, Error> {
    let asked = &cancel.asked;
    let agreed_refund = match &asked.agreed_refund {
        Some(digits) => Some(amount("/agreedRefund", digits, currency)?),
        None => None,
    };
    Ok(Cancellation {
        booking_id: cancel.booking_id,
        canceled_at: at,
        canceled_by: asked.canceled_by,
        reason: asked.reason,
        note: asked.note.clone(),
        effective_at: asked.effective_at,
        agreed_refund,
        evidence: asked.evidence.clone(),
        evidence_count: u32::try_from(asked.evidence.len())
            .ok()
            .filter(|count| *count > 0),
    })
}

fn evaluate(
    state: &LoadedBooking,
    recorded: Option<&Recorded>,
    question: &Question,
) -> Result<Evaluation, Error> {
    policy::evaluate_now(&state.subject(&state.terms, recorded), question)
}

/// What this cancellation of a booking that is not canceled would come to.
///
/// # Errors
/// Those of the cancellation, except that a booking without a policy, and one that can no longer be canceled, are told as such.
pub(crate) fn preview(state: &LoadedBooking, question: &Question) -> Result<Evaluation, Error> {
    match evaluate(state, None, question) {
        Ok(result) => Ok(Evaluation {
            simulated: true,
            ..as_quote(state, question, result)
        }),
        Err(refusal) if matches!(&*refusal.code, "claim_window_closed" | "policy_missing") => {
            only_asked(state, question)
        }
        Err(refusal) => Err(refusal),
    }
}

/// The result of a cancellation that is not made, told as a quote; unless the time at which it is received makes a difference.
fn as_quote(state: &LoadedBooking, question: &Question, result: Evaluation) -> Evaluation {
    let same = |quote: &Evaluation| {
        (quote.refund, quote.resolution_path) == (result.refund, result.resolution_path)
            && quote.review_reasons == result.review_reasons
    };
    match only_asked(state, question).ok().filter(same) {
        Some(quote) => Evaluation {
            assumptions: result.assumptions,
            ..quote
        },
        None => result,
    }
}

/// The answer to a question about the instant of a cancellation, as if it were received then.
fn only_asked(state: &LoadedBooking, question: &Question) -> Result<Evaluation, Error> {
    let question = Question {
        mode: Mode::Evaluate,
        ..*question
    };
    policy::evaluate(&state.subject(&state.terms, None), &question)
}

impl Expected {
    /// Refuses another result than this of a cancellation that was not made.
    ///
    /// # Errors
    /// `quote_changed`, with the result.
    pub fn require(&self, result: &Evaluation) -> Result<(), Error> {
        match self.is_met_by(result, false) {
            true => Ok(()),
            false => Err(changed(result, result)),
        }
    }

    /// Whether a result is this. A resolution that was decided since was pending before, as the first request expected.
    fn is_met_by(&self, result: &Evaluation, was_decided: bool) -> bool {
        let hash = result.policy.as_ref().map(|p| p.policy_hash.as_str());
        let path = self.resolution_path;
        let sums = [
            (self.refund_minor_units, result.refund),
            (self.penalty_minor_units, result.penalty),
            (self.compensation_minor_units, result.compensation),
        ];
        let same_sums = sums
            .into_iter()
            .all(|(wanted, sum)| wanted.is_none_or(|minor| sum.map(Amount::minor) == Some(minor)));
        same_sums
            && path.is_none_or(|path| {
                path == result.resolution_path
                    || was_decided && path == ResolutionPath::ManualReview
            })
            && (self.policy_hash.as_deref()).is_none_or(|wanted| hash == Some(wanted))
    }
}

/// Refuses a result that differs from the one the caller was shown, even if it is already recorded.
fn guard(
    expected: &Expected,
    evaluation: &Evaluation,
    state: &LoadedBooking,
    cancellation: &Cancellation,
) -> Result<(), Error> {
    let recorded = state.resolution();
    let decided = recorded.is_some_and(|resolution| resolution.decision.is_some());
    if expected.is_met_by(evaluation, decided) {
        return Ok(());
    }
    let Some(resolution) = recorded else {
        let shown = as_quote(state, &cancellation.question(), evaluation.clone());
        return Err(changed(evaluation, &shown));
    };
    let message = format!(
        "The booking is already canceled, and the result is not the one expected: {}. Nothing was changed. Read its resolution, {}.",
        comes_to(evaluation),
        resolution.resolution_id
    );
    Err(Error::conflict("quote_changed", message).showing(Obstacle {
        resolution_id: Some(resolution.resolution_id),
        evaluation: serde_json::to_string(evaluation).ok(),
        ..Obstacle::default()
    }))
}

/// The refusal of a cancellation that is not made, because it would come to this, told as `shown`.
fn changed(result: &Evaluation, shown: &Evaluation) -> Error {
    let message = format!(
        "The cancellation would not have the expected result: now it is {}. Nothing was changed. Look at \"evaluation\" and cancel \
         again, expecting that.",
        comes_to(result)
    );
    Error::conflict("quote_changed", message).showing(Obstacle {
        evaluation: serde_json::to_string(shown).ok(),
        ..Obstacle::default()
    })
}

fn comes_to(result: &Evaluation) -> String {
    format!("{}.{}", result.resolution_path, result.sums_in_words())
}

fn obstacle(resolution: &Resolution) -> Obstacle {
    Obstacle {
        resolution_id: Some(resolution.resolution_id),
        ..Obstacle::default()
    }
}

fn already_decided(latest: &Resolution) -> Error {
    conflict!(
        "resolution_already_decided",
        "The cancellation was already decided, by resolution {}, and can be decided only once. Read that resolution.",
        latest.resolution_id
    )
    .showing(obstacle(latest))
}

/// Adds the field to the policy's refusal, or the existing resolution.
fn refused(refusal: Error, state: &LoadedBooking) -> Error {
    if let Some(resolution) = state.resolution() {
        let message = format!(
            "{} Its resolution is {}.",
            refusal.message, resolution.resolution_id
        );
        return Error { message, ..refusal }.showing(obstacle(resolution));
    }
    let (field, fix) = match &*refusal.code {
        "effective_at_in_future" | "effective_at_before_booking" => (
            "/effectiveAt",
            "Send an instant from the booking's creation until now, or leave it out.",
        ),
        "effective_at_before_reschedule" => (
            "/effectiveAt",
            "Send an instant from the last move on, or leave it out. If both sides agree on another result, cancel with \
             canceledBy mutual.",
        ),
        "no_show_before_event" => (
            "/reason",
            "Send another reason, or wait for the event to start.",
        ),
        "agreed_refund_required" => ("/agreedRefund", "Add the refund both sides agreed on."),
        "agreed_refund_exceeds_paid" => ("/agreedRefund", "Send at most what was paid."),
        _ => return refusal,
    };
    refusal.at_field(field, fix)
}

#[cfg(test)]
mod tests;
