//! Evaluates frozen terms: the result of a cancellation by someone, for some reason, at some instant.
//!
//! A pure function of its arguments. The caller reads the clock, parses amounts and acts on the answer. Invariant: if a
//! person must decide, the answer is `review_required` with the alternatives, never a guess. The steps, by number in the
//! comments:
//!
//! 1. Value and paid amount have one currency: [`Terms::freeze`] ensured that.
//! 2. A canceled booking answers with its resolution; the same cancellation repeats it, another is refused.
//! 3. Without a policy there is nothing to evaluate, and a cancellation is refused.
//! 4. Fixed amounts must be in the booking's currency.
//! 5. The judged instant: whole seconds, not before the booking, not in the future when canceling, not before
//!    the event for a no-show; after the claim window, everything is closed.
//! 6. The rule, by actor, reason and the frozen schedule.
//! 7. The zone was only assumed, and another zone gives another rule: a person decides.
//! 8. Backdated without evidence, and the instant of receipt gives another rule, or none because the claim window is over: a
//!    person decides. What both sides agree on needs no evidence.
//! 9. The penalty of the rule; for the organizer at least a non-refundable deposit and the step reached before a move.
//! 10. Refund, balance due and compensation follow from the penalty and what was paid.
//! 11. The name of the result.

use super::evaluation::{EvaluatedPolicy, Evaluation, Explanation, NextChange};
use super::explain::{self, ExplanationInput};
use super::question::{Mode, Question, Recorded, Standing, Subject};
use super::reschedule;
use super::rule::Rule;
use super::schedule::{Segment, segment_at};
use super::settlement::{Settled, Settlement, Stakes};
use super::terms::{Adopted, Terms};
use super::words::{Actor, Assumption, EvaluationStatus, Reason, ResolutionPath, ReviewReason};
use super::zone::Zone;
use crate::error::Error;
use crate::model::{Amount, Timestamp};

/// The version of these rules. It changes when a rule can give other sums; what is left to a person, and what is shown beside
/// the sums, goes by edition.
pub const ENGINE_VERSION: &str = "bookguard-policy-1";

/// Evaluates `question` about `booking`, whenever it was asked: what was recorded is computed anew by it. [`evaluate_now`] also
/// refuses what may no longer be asked.
///
/// # Errors
/// `booking_already_canceled`, `claim_window_closed` (kind `Conflict`); `policy_missing`, `policy_currency_mismatch`,
/// `currency_mismatch`, `effective_at_in_future`, `effective_at_before_booking`, `no_show_before_event`,
/// `agreed_refund_required`, `agreed_refund_exceeds_paid`, `terms_inconsistent` (`Invalid`).
pub fn evaluate(booking: &Subject<'_>, question: &Question) -> Result<Evaluation, Error> {
    evaluate_in(Edition::Latest, booking, question)
}

/// Evaluates `question` about `booking` as it is asked now, as the service does: it refuses a question that dates a cancellation
/// before the event was last moved, and a cancellation that takes effect after its receipt if that makes a difference.
///
/// # Errors
/// Those of [`evaluate`]; `effective_at_before_reschedule` (`Invalid`).
pub fn evaluate_now(booking: &Subject<'_>, question: &Question) -> Result<Evaluation, Error> {
    let evaluation = evaluate(booking, question)?;
    not_before_last_move(booking, question)?;
    if question.mode == Mode::Cancel {
        not_ahead_of_receipt(booking, question, &evaluation)?;
    }
    Ok(evaluation)
}

/// Evaluates as the first release did, to verify what it recorded.
///
/// # Errors
/// Those of [`evaluate`].
pub(crate) fn evaluate_as_first(
    booking: &Subject<'_>,
    question: &Question,
) -> Result<Evaluation, Error> {
    evaluate_in(Edition::First, booking, question)
}

/// Which release answers. Where both give sums, these are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edition {
    /// 0.1.0: in the alternatives of a review, a step before a move that was left to a person counts as nothing. A rule without a
    /// deadline still applies at a receipt after the claim window. After that window, the schedule lacks what moves kept.
    First,
    /// A person decides wherever such a step counts, and what is dated back into the claim window; the schedule is always whole.
    Latest,
}

fn evaluate_in(
    edition: Edition,
    booking: &Subject<'_>,
    question: &Question,
) -> Result<Evaluation, Error> {
    let terms = booking.terms;
    if let Standing::Canceled(recorded) = booking.standing {
        return replay(recorded, question);
    }
    let (Some(stakes), Some(policy)) = (terms.stakes()?, &terms.policy) else {
        return without_policy(booking, question);
    };
    let at = moment(terms, question)?;
    let inquiry = Inquiry {
        edition,
        booking,
        question,
        policy,
        stakes,
        at,
        received_at: match question.mode {
            // A question about another instant is judged as if asked at that instant.
            Mode::Evaluate => at,
            Mode::Cancel => question.received_at.floor_to_second(),
        },
    };
    if at > terms.claim_until {
        return inquiry.closed();
    }
    inquiry.judge()
}

/// Step 2: a canceled booking keeps its resolution.
fn replay(recorded: &Recorded, question: &Question) -> Result<Evaluation, Error> {
    // Another figure is another agreement, not a repeat of the recorded one.
    let agreed = recorded.evaluation.matched_rule != Some(Rule::Mutual)
        || question.agreed_refund.is_none()
        || question.agreed_refund == recorded.evaluation.refund;
    let same = recorded.canceled_by == question.actor
        && recorded.reason == question.reason
        && recorded.effective_at == question.at
        && agreed;
    match question.mode {
        Mode::Evaluate => Ok(recorded.evaluation.clone()),
        Mode::Cancel if same => Ok(Evaluation {
            replayed: true,
            ..recorded.evaluation.clone()
        }),
        Mode::Cancel => Err(Error::conflict(
            "booking_already_canceled",
            format!(
                "The booking was already canceled (canceledBy {}), and a booking can be canceled only once. Read its resolution; the \
                 same canceledBy, reason, effectiveAt and agreedRefund repeat it.",
                recorded.canceled_by
            ),
        )),
    }
}

/// Step 3: without a policy there is nothing to evaluate.
fn without_policy(booking: &Subject<'_>, question: &Question) -> Result<Evaluation, Error> {
    if question.mode == Mode::Cancel {
        return Err(Error::invalid(
            "policy_missing",
            "The booking was recorded without a cancellation policy, so it cannot be canceled, not even by agreement. Settle it outside; for \
             later bookings, send \"policy\" or \"policyId\", or set a default.",
        ));
    }
    let at = question.at.unwrap_or(question.received_at);
    let explanation = explain::policy_missing();
    let mut evaluation = blank(booking, question, at.floor_to_second(), explanation);
    evaluation.evaluation_status = EvaluationStatus::NotEvaluable;
    Ok(evaluation)
}

/// Step 5: the judged instant.
fn moment(terms: &Terms, question: &Question) -> Result<Timestamp, Error> {
    let received = question.received_at.floor_to_second();
    let at = match question.at {
        Some(at) => named(terms, question, at.floor_to_second(), received)?,
        // Receipt comes after the booking, even if two clocks disagree.
        None => received.max(terms.created_at),
    };
    missed(terms, question, at)?;
    Ok(at)
}

/// Refuses a no-show at an instant before the event starts.
fn missed(terms: &Terms, question: &Question, at: Timestamp) -> Result<(), Error> {
    if question.reason != Some(Reason::NoShow) || at >= terms.anchor {
        return Ok(());
    }
    Err(Error::invalid(
        "no_show_before_event",
        format!(
            "Nobody can have missed an event that starts at {} by {at}.",
            terms.anchor
        ),
    ))
}

/// Checks an instant given in the question.
fn named(
    terms: &Terms,
    question: &Question,
    at: Timestamp,
    received: Timestamp,
) -> Result<Timestamp, Error> {
    if question.mode == Mode::Cancel
        && let Some(late) = at.after_receipt(received)
    {
        return Err(Error::invalid(
            "effective_at_in_future",
            format!("The instant {late}."),
        ));
    }
    if at < terms.created_at {
        return Err(Error::invalid(
            "effective_at_before_booking",
            format!(
                "The instant {at} is before the booking was created ({}).",
                terms.created_at
            ),
        ));
    }
    Ok(at)
}

/// Refuses a question that dates a cancellation before the event was last moved: both sides agreed then that it takes place,
/// and the terms now in force did not exist before.
///
/// Only for what is asked now. A recorded cancellation is evaluated as it is, so that evidence of it verifies.
///
/// Refusal: `effective_at_before_reschedule`.
fn not_before_last_move(booking: &Subject<'_>, question: &Question) -> Result<(), Error> {
    let answers_from_record = matches!(booking.standing, Standing::Canceled(_));
    if answers_from_record || booking.terms.policy.is_none() {
        return Ok(());
    }
    let (Some(at), Some(last)) = (question.at, booking.reschedules.last()) else {
        return Ok(());
    };
    let at = at.floor_to_second();
    if at >= last.at {
        return Ok(());
    }
    Err(Error::invalid(
        "effective_at_before_reschedule",
        format!(
            "The instant {at} is before the event was last moved ({}), and both sides agreed then that it takes place.",
            last.at
        ),
    ))
}

/// Refuses a cancellation that takes effect after its receipt if that makes a difference: a no-show at an event that has not
/// started, a step of the schedule that has not begun, or another choice for a person. What is left is the difference of two
/// clocks.
///
/// Only for what is asked now, as [`not_before_last_move`]; `evaluation` answers the question.
///
/// Refusals: `no_show_before_event`, `effective_at_in_future`.
fn not_ahead_of_receipt(
    booking: &Subject<'_>,
    question: &Question,
    evaluation: &Evaluation,
) -> Result<(), Error> {
    let terms = booking.terms;
    let answers_from_record = matches!(booking.standing, Standing::Canceled(_));
    // Receipt comes after the booking, even if two clocks disagree.
    let received = (question.received_at.floor_to_second()).max(terms.created_at);
    let at = question.at.map_or(received, Timestamp::floor_to_second);
    if answers_from_record || at <= received {
        return Ok(());
    }
    let on_receipt = Question {
        at: None,
        ..*question
    };
    let at_receipt = evaluate(booking, &on_receipt)?;
    if evaluation.matched_rule == at_receipt.matched_rule
        && evaluation.resolution_path == at_receipt.resolution_path
        && evaluation.review_reasons == at_receipt.review_reasons
        && evaluation.alternatives == at_receipt.alternatives
    {
        return Ok(());
    }
    Err(Error::invalid(
        "effective_at_in_future",
        format!(
            "The instant {at} is after receipt ({received}), when the cancellation comes to something else."
        ),
    ))
}

/// An evaluation with everything that does not depend on the rules.
fn blank(
    booking: &Subject<'_>,
    question: &Question,
    at: Timestamp,
    explanation: Explanation,
) -> Evaluation {
    let terms = booking.terms;
    Evaluation {
        booking_id: booking.booking_id,
        evaluation_status: EvaluationStatus::Closed,
        resolution_path: ResolutionPath::None,
        evaluated_at: question.received_at,
        as_of: at,
        canceled_by: question.actor,
        reason: question.reason,
        simulated: question.mode == Mode::Evaluate && question.at.is_some(),
        replayed: false,
        refund: None,
        penalty: None,
        balance_due: None,
        compensation: None,
        matched_rule: None,
        explanation,
        anchor_utc: terms.anchor,
        deadline_utc: None,
        next_change: None,
        schedule: terms.schedule.clone(),
        assumptions: terms.assumptions.clone(),
        review_reasons: Vec::new(),
        alternatives: Vec::new(),
        policy: terms.policy.as_ref().map(|policy| {
            let document = policy.document.document();
            EvaluatedPolicy {
                policy_id: document.policy_id.clone(),
                version: document.version,
                policy_hash: policy.policy_hash.clone(),
                policy_source: policy.policy_source,
                frozen_at: terms.created_at,
            }
        }),
        engine_version: ENGINE_VERSION.to_owned(),
    }
}

impl Question {
    /// Step 6: the rule at an instant under a schedule; `None` when the schedule does not cover it.
    pub(crate) fn rule(&self, schedule: &[Segment], at: Timestamp) -> Option<Rule> {
        match (self.actor, self.reason) {
            (Actor::Mutual, _) => Some(Rule::Mutual),
            (_, Some(Reason::ForceMajeure)) => Some(Rule::ForceMajeure),
            (_, Some(Reason::NonPayment)) => Some(segment_at(schedule, at)?.rule_id),
            (Actor::Talent, Some(Reason::NoShow)) => Some(Rule::TalentNoShow),
            (Actor::Talent, _) => Some(Rule::TalentCancel),
            (Actor::Partner, _) => Some(Rule::PartnerCancel),
            (Actor::Organizer, Some(Reason::NoShow)) => Some(Rule::OrganizerNoShow),
            (Actor::Organizer, _) => Some(segment_at(schedule, at)?.rule_id),
        }
    }
}

/// A question with an instant and a policy.
pub(super) struct Inquiry<'a> {
    edition: Edition,
    pub(super) booking: &'a Subject<'a>,
    pub(super) question: &'a Question,
    pub(super) policy: &'a Adopted,
    pub(super) stakes: Stakes<'a>,
    pub(super) at: Timestamp,
    pub(super) received_at: Timestamp,
}

impl<'a> Inquiry<'a> {
    pub(super) fn terms(&self) -> &'a Terms {
        self.booking.terms
    }

    fn closed(&self) -> Result<Evaluation, Error> {
        let terms = self.terms();
        if self.question.mode == Mode::Cancel {
            return Err(Error::conflict(
                "claim_window_closed",
                format!(
                    "The event started at {} and cancellations could be claimed until {}. Only a cancellation that took effect by then \
                     can still be recorded, with the time at which it did. Settle any other outside, by agreement.",
                    terms.anchor, terms.claim_until
                ),
            ));
        }
        let explanation = explain::closed(terms);
        let mut evaluation = blank(self.booking, self.question, self.at, explanation);
        if self.edition == Edition::Latest {
            let reached = reschedule::reached(&self.stakes, self.booking.reschedules)?;
            self.raise(&mut evaluation, reached);
        }
        Ok(evaluation)
    }

    /// Puts what was reached before the event was moved into the schedule.
    fn raise(&self, evaluation: &mut Evaluation, reached: Option<i64>) {
        if reached != Some(0) {
            evaluation.schedule = reschedule::raised(&self.terms().schedule, &self.stakes, reached);
        }
    }

    /// Steps 6 to 11.
    fn judge(&self) -> Result<Evaluation, Error> {
        let rule = (self.question)
            .rule(&self.terms().schedule, self.at)
            .ok_or_else(inconsistent)?;
        let reached = reschedule::reached(&self.stakes, self.booking.reschedules)?;
        let settled = match rule {
            Rule::Mutual => Settled::Sums(self.stakes.settle_agreed(self.agreed_refund()?)),
            // The explanation names the rule's own outcome, as it is recorded; `reviews` says that a person decides.
            rule => (self.stakes.settle(rule, reached.or(Some(0)))).ok_or_else(inconsistent)?,
        };
        let reviews = self.reviews(rule, &settled, reached.is_none());
        let deadline = self.deadline(rule);
        let explanation = explain::explain(&ExplanationInput {
            terms: self.terms(),
            question: self.question,
            at: self.at,
            rule,
            settled: &settled,
            deadline,
            reviews: &reviews,
        });
        let mut evaluation = blank(self.booking, self.question, self.at, explanation);
        evaluation.matched_rule = Some(rule);
        evaluation.deadline_utc = deadline;
        self.raise(&mut evaluation, reached);
        match settled {
            Settled::Sums(sums) if reviews.is_empty() => {
                self.conclude(&mut evaluation, rule, &sums)
            }
            _ => {
                evaluation.evaluation_status = EvaluationStatus::ReviewRequired;
                evaluation.resolution_path = ResolutionPath::ManualReview;
                let counted = match self.edition {
                    Edition::First => reached.or(Some(0)),
                    Edition::Latest => reached,
                };
                evaluation.alternatives = self.alternatives(rule, &reviews, counted);
            }
        }
        evaluation.review_reasons = reviews;
        evaluation.next_change = self.next_change(&evaluation.schedule);
        Ok(evaluation)
    }

    fn conclude(&self, evaluation: &mut Evaluation, rule: Rule, sums: &Settlement<'_>) {
        evaluation.evaluation_status = match (self.question.mode, self.booking.standing) {
            (Mode::Cancel, _) => EvaluationStatus::Final,
            (Mode::Evaluate, Standing::Created) => EvaluationStatus::Provisional,
            (Mode::Evaluate, _) => EvaluationStatus::Evaluated,
        };
        evaluation.resolution_path = sums.path(rule);
        evaluation.refund = Some(sums.refund);
        evaluation.penalty = Some(sums.penalty);
        evaluation.balance_due = Some(sums.balance_due);
        evaluation.compensation = Some(sums.compensation);
        if self.is_backdated() || (self.at < self.received_at && self.is_other_at_receipt(rule)) {
            evaluation.assumptions.push(Assumption::Backdated);
        }
    }

    /// Whether the rule depends on time alone.
    fn is_timed(&self) -> bool {
        match (self.question.actor, self.question.reason) {
            (_, Some(Reason::ForceMajeure)) | (Actor::Mutual, _) => false,
            (_, Some(Reason::NonPayment)) => true,
            (actor, reason) => actor == Actor::Organizer && reason != Some(Reason::NoShow),
        }
    }

    fn deadline(&self, rule: Rule) -> Option<Timestamp> {
        if !matches!(rule, Rule::Grace | Rule::Tier(_) | Rule::Late) {
            return None;
        }
        segment_at(&self.terms().schedule, self.at).map(|segment| segment.to)
    }

    fn agreed_refund(&self) -> Result<Amount, Error> {
        let agreed = self.question.agreed_refund.ok_or_else(|| {
            Error::invalid(
                "agreed_refund_required",
                "A mutual cancellation needs the refund both sides agreed on.",
            )
        })?;
        let exceeds = |why: String| Error::invalid("agreed_refund_exceeds_paid", why);
        self.terms()
            .check_refund("agreed refund", agreed, exceeds)?;
        Ok(agreed)
    }

    /// Steps 6 to 9: everything a person has to decide.
    fn reviews(
        &self,
        rule: Rule,
        settled: &Settled<'_>,
        reached_unknown: bool,
    ) -> Vec<ReviewReason> {
        let document = self.policy.document.document();
        let mut reviews = Vec::new();
        if rule == Rule::ForceMajeure
            && document.force_majeure.requires_evidence
            && self.question.evidence == 0
        {
            reviews.push(ReviewReason::EvidenceMissing);
        }
        if self.other_zones().any(|(_, other)| other != Some(rule)) {
            reviews.push(ReviewReason::TimeZoneAmbiguous);
        }
        if rule != Rule::Mutual
            && self.is_backdated()
            && self.question.evidence == 0
            && self.is_other_at_receipt(rule)
        {
            reviews.push(ReviewReason::BackdatedAcrossDeadline);
        }
        if matches!(settled, Settled::Manual) || (reached_unknown && rule.has_floors()) {
            reviews.push(ReviewReason::ManualRule);
        }
        reviews
    }

    /// Step 7: the rules under the outermost clocks on earth, if the zone was only assumed.
    pub(super) fn other_zones(&self) -> impl Iterator<Item = (Zone, Option<Rule>)> + '_ {
        let terms = self.terms();
        let unknown =
            terms.assumptions.contains(&Assumption::TimeZoneAssumedUtc) && self.is_timed();
        let hours: &[i32] = if unknown { &[14, -12] } else { &[] };
        hours.iter().map(move |hours| {
            let zone = Zone::hours_east(*hours);
            let schedule = terms
                .frame_for(terms.event_date, zone)
                .compile(&self.stakes);
            (zone, self.question.rule(&schedule, self.at))
        })
    }

    /// Step 8: whether the instant lies before receipt by more than the policy tolerates.
    fn is_backdated(&self) -> bool {
        let tolerance = &self.policy.document.document().backdate_tolerance;
        self.received_at.ms() - self.at.ms() > i64::from(tolerance.minutes()) * 60_000
    }

    /// Whether another rule applies at the instant of receipt, or none.
    fn is_other_at_receipt(&self, rule: Rule) -> bool {
        self.rule_at_receipt() != Some(rule)
    }

    /// The rule that applies at the instant of receipt; `None` after the claim window.
    pub(super) fn rule_at_receipt(&self) -> Option<Rule> {
        let terms = self.terms();
        if self.edition == Edition::Latest && self.received_at > terms.claim_until {
            return None;
        }
        self.question.rule(&terms.schedule, self.received_at)
    }

    fn next_change(&self, schedule: &[Segment]) -> Option<NextChange> {
        if self.question.mode == Mode::Cancel || !self.is_timed() {
            return None;
        }
        let mut rest = schedule.iter().skip_while(|step| step.to < self.at);
        let now = rest.next()?.refund;
        let next = rest.find(|step| step.refund != now)?;
        Some(NextChange {
            at: next.from,
            then_refund: next.refund,
        })
    }
}

/// The refusal of terms whose schedule names a rule that their policy does not have, or that lacks an instant.
pub(super) fn inconsistent() -> Error {
    Error::invalid(
        "terms_inconsistent",
        "The terms' schedule does not fit their policy; they were not made by this service, or were changed.",
    )
}
