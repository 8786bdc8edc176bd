//! What a cancellation comes to: what the terms gave for it, what people decided, and what it would come to now.

use super::wall_clock::money;
use super::{Paragraph, Wording, Writer};
use crate::evidence::erasure::Erasable;
use crate::evidence::facts::{ResolutionFact, facts_of};
use crate::model::{Amount, Timestamp};
use crate::policy::{
    Cancellation, Evaluation, EvaluationStatus, Resolution, ResolutionDecision, ResolutionStatus,
    ReviewReason, Rule, Segment, distance, why_a_person,
};

impl Writer<'_> {
    /// What the terms gave for a cancellation, and how it ended if they did not settle it.
    pub(super) fn came_to(
        &mut self,
        cancellation: &Cancellation,
        resolution: &Resolution,
    ) -> Vec<Paragraph> {
        let facts = self.m.facts;
        let results: Vec<_> = facts_of::<ResolutionFact>(facts).collect();
        let first = results.first();
        let evaluation = first.map_or(&resolution.evaluation, |(_, fact)| {
            &fact.resolution.evaluation
        });
        let result = self.result(evaluation, cancellation);
        let first = first.map(|(entry, _)| *entry);
        let mut paragraphs = vec![self.paragraph(result, first.as_slice())];
        let mut decided = results.iter().rev();
        let decided = decided.find(|(_, fact)| fact.resolution.decision.is_some());
        let decided = decided.map(|(entry, _)| *entry);
        let outcome = self.outcome(resolution);
        paragraphs.extend(outcome.map(|text| self.paragraph(text, decided.as_slice())));
        for paragraph in &mut paragraphs {
            paragraph.is_result = true;
        }
        paragraphs
    }

    /// What the terms gave for a recorded cancellation.
    pub(super) fn result(
        &mut self,
        evaluation: &Evaluation,
        cancellation: &Cancellation,
    ) -> String {
        let what = match self.absent(cancellation) {
            Some(_) => "report",
            None => "cancellation",
        };
        let counted = match cancellation.effective_at {
            Some(_) if self.m.wording >= Wording::Second => {
                format!("counted from the time that {} states, ", self.partner())
            }
            _ => String::new(),
        };
        let mut text = format!(
            "The service computed from the frozen terms: {counted}the {what} came {}. ",
            distance(evaluation.as_of, evaluation.anchor_utc)
        );
        text += &self.applied(evaluation, true);
        let received = cancellation.canceled_at;
        // If the other step is why a person has to decide, that was said.
        let is_told = self.m.wording >= Wording::Second && is_backdated(evaluation);
        let then = match self.is_too_late(evaluation, received) {
            true => "the time for claims had passed".to_owned(),
            false if is_told || !is_other_at(evaluation, received) => return text,
            false => format!(
                "another step of the terms applied{}",
                self.of_step_at(evaluation, received)
            ),
        };
        text += &format!(
            " On {}, when the service received it, {then}.",
            self.clock.time(received)
        );
        text + &self.why_earlier(evaluation, cancellation)
    }

    /// What the step of the organizer's schedule at this instant would have given.
    fn of_step_at(&self, evaluation: &Evaluation, at: Timestamp) -> String {
        match (self.m.wording, step_at(evaluation, at)) {
            (Wording::Second, Some(step)) => match step.refund {
                Some(refund) => format!(", by which {} would be returned", money(refund)),
                None => ", which leaves the case to a person".to_owned(),
            },
            _ => String::new(),
        }
    }

    /// Why the terms count a time before receipt, if that makes a difference.
    fn why_earlier(&self, evaluation: &Evaluation, cancellation: &Cancellation) -> String {
        let (question, received) = (cancellation.question(), cancellation.canceled_at);
        let received = received.floor_to_second();
        let is_other = self.is_too_late(evaluation, received)
            || question.rule(&evaluation.schedule, received) != evaluation.matched_rule;
        match (self.m.wording, self.m.policy) {
            (Wording::Second, Some(policy)) if is_other && !is_backdated(evaluation) => {
                let tolerance = &policy.document().backdate_tolerance;
                let tolerated = i64::from(tolerance.minutes()) * 60_000;
                let is_near = received.ms() - evaluation.as_of.ms() <= tolerated;
                // 0.1.0 asked for neither if it was not the organizer who canceled.
                if !is_near && question.evidence == 0 {
                    return String::new();
                }
                let near = match tolerance.minutes() {
                    0 => String::new(),
                    _ => format!(
                        "it is at most {} before receipt, or if ",
                        tolerance.in_english()
                    ),
                };
                format!(" By the terms, an earlier time counts if {near}evidence is named for it.")
            }
            _ => String::new(),
        }
    }

    /// Whether a result that the terms gave came only from a time before the cancellation was received, when they gave none any more.
    fn is_too_late(&self, evaluation: &Evaluation, received: Timestamp) -> bool {
        let given = evaluation.matched_rule.filter(|rule| *rule != Rule::Mutual);
        self.m.wording >= Wording::Second
            && given.is_some()
            && received.unix_seconds() > self.m.terms.until
    }

    /// Which rule applies and what it gives, or why a person has to decide.
    fn applied(&mut self, evaluation: &Evaluation, past: bool) -> String {
        if !evaluation.review_reasons.is_empty() {
            let reasons = evaluation.review_reasons.iter();
            let reasons: Vec<&str> = reasons.map(|reason| why_a_person(*reason)).collect();
            return reasons.join(" ");
        }
        let rule = evaluation
            .matched_rule
            .map_or_else(String::new, |rule| self.rule(rule, evaluation, past) + " ");
        match (evaluation.refund, evaluation.kept()) {
            (Some(refund), Some(kept)) => rule + &sums(evaluation, refund, kept),
            _ => rule + "The amounts are open.",
        }
    }

    fn rule(&mut self, rule: Rule, evaluation: &Evaluation, past: bool) -> String {
        let deadline = evaluation.deadline_utc.unwrap_or(evaluation.anchor_utc);
        let (applies, lasts) = if past {
            ("applied", "lasted")
        } else {
            ("applies", "lasts")
        };
        match rule {
            Rule::Grace => format!(
                "The grace period after booking {lasts} until {}.",
                self.clock.time(deadline)
            ),
            Rule::Tier(_) => format!(
                "The step that {applies} {lasts} until {}.",
                self.clock.time(deadline)
            ),
            Rule::Late if self.is_only_step(evaluation) => {
                format!("The step that {applies} {lasts} until the start of the event.")
            }
            Rule::Late => format!(
                "Every earlier deadline {} passed.",
                if past { "had" } else { "has" }
            ),
            Rule::OrganizerNoShow => {
                "The rule for an organizer who does not come applies.".to_owned()
            }
            Rule::TalentCancel => "The rule for a talent who cancels applies.".to_owned(),
            Rule::TalentNoShow => "The rule for a talent who does not come applies.".to_owned(),
            Rule::PartnerCancel => "The rule for a platform that cancels applies.".to_owned(),
            Rule::ForceMajeure => "The rule for force majeure applies, whoever cancels.".to_owned(),
            Rule::Mutual => "The amount is the one that both sides agreed on.".to_owned(),
        }
    }

    /// Whether the terms never had another step before the event.
    fn is_only_step(&self, evaluation: &Evaluation) -> bool {
        let has_tiers =
            (self.m.policy).is_none_or(|policy| !policy.document().organizer.tiers.is_empty());
        let first = evaluation.schedule.first().map(|step| step.rule_id);
        self.m.wording >= Wording::Second && !has_tiers && first == Some(Rule::Late)
    }

    /// How a cancellation ended that the terms did not settle.
    fn outcome(&mut self, resolution: &Resolution) -> Option<String> {
        match (resolution.status, &resolution.decision) {
            (ResolutionStatus::Decided, Some(decision)) => {
                Some(self.decision(decision, &resolution.evaluation))
            }
            (ResolutionStatus::PendingReview, _) => {
                Some("When this packet was made, nobody had decided yet.".to_owned())
            }
            _ => None,
        }
    }

    pub(super) fn decision(
        &mut self,
        decision: &ResolutionDecision,
        evaluation: &Evaluation,
    ) -> String {
        let at = self.clock.time(decision.decided_at);
        let sums = match (evaluation.refund, evaluation.kept()) {
            (Some(refund), Some(kept)) => sums(evaluation, refund, kept),
            _ => format!(
                "{} is to be returned to the organizer.",
                money(decision.refund)
            ),
        };
        let values = self.erasures().flat_map(|erasure| &erasure.values);
        let erased: Vec<&Erasable> = values.flat_map(|one| &one.names).collect();
        let by = match erased.contains(&&Erasable::DecidedBy) {
            true => "somebody (name erased)".to_owned(),
            false => self.quoted(&decision.decided_by),
        };
        let why = match erased.contains(&&Erasable::Rationale) {
            true => "The reason given was erased.".to_owned(),
            false => format!("The reason given: {}", self.quoted(&decision.rationale)),
        };
        format!(
            "{} reported that {by} decided on {at}: {sums} {why}",
            self.partner()
        )
    }

    /// What canceling would come to when the packet was made.
    pub(super) fn outlook(&mut self) -> Option<String> {
        let evaluation = self.m.evaluation?;
        let text = match evaluation.evaluation_status {
            EvaluationStatus::NotEvaluable => return None,
            EvaluationStatus::Closed => {
                return Some("The event is over, and the time for claims has passed.".to_owned());
            }
            _ => self.applied(evaluation, false),
        };
        let at = self.clock.time(self.m.created_at);
        let far = distance(evaluation.as_of, evaluation.anchor_utc);
        Some(format!(
            "If the organizer had canceled when this packet was made, on {at}, that would have been {far}. {text}"
        ))
    }
}

/// Whether a person has to decide because another step applied when the cancellation was received.
fn is_backdated(evaluation: &Evaluation) -> bool {
    let reasons = &evaluation.review_reasons;
    reasons.contains(&ReviewReason::BackdatedAcrossDeadline)
}

/// The step of the organizer's schedule at an instant.
fn step_at(evaluation: &Evaluation, at: Timestamp) -> Option<&Segment> {
    let at = at.floor_to_second();
    let mut steps = evaluation.schedule.iter();
    steps.find(|step| (step.from..=step.to).contains(&at))
}

/// Whether another step of the organizer's schedule applied at this instant than the one that matched.
fn is_other_at(evaluation: &Evaluation, at: Timestamp) -> bool {
    let matched = evaluation.matched_rule;
    let timed = matches!(matched, Some(Rule::Grace | Rule::Tier(_) | Rule::Late));
    timed && step_at(evaluation, at).map(|step| step.rule_id) != matched
}

/// What happens to the money.
fn sums(evaluation: &Evaluation, refund: Amount, kept: Amount) -> String {
    let mut text = format!(
        "{} is to be returned to the organizer and {} is to be kept",
        money(refund),
        money(kept)
    );
    for (amount, what) in [
        (evaluation.balance_due, "is still owed by the organizer"),
        (
            evaluation.compensation,
            "is owed to the organizer as compensation",
        ),
    ] {
        if let Some(amount) = amount.filter(|amount| amount.minor() > 0) {
            text += &format!("; {} {what}", money(amount));
        }
    }
    text + "."
}
