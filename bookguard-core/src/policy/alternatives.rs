//! The possible results of a review: each answer to the open question, with its sums.

use super::evaluate::Inquiry;
use super::evaluation::Alternative;
use super::question::Question;
use super::rule::Rule;
use super::settlement::{Settled, Settlement};
use super::words::{ResolutionPath, ReviewReason};

impl Inquiry<'_> {
    /// One possible ending of the review for each answer to what is unknown.
    pub(super) fn alternatives(
        &self,
        rule: Rule,
        reviews: &[ReviewReason],
        reached: Option<i64>,
    ) -> Vec<Alternative> {
        let mut all = Alternatives {
            inquiry: self,
            reached,
            found: Vec::new(),
        };
        for review in reviews {
            match review {
                ReviewReason::EvidenceMissing => {
                    all.add(
                        "If evidence of force majeure is supplied and accepted".to_owned(),
                        Some(rule),
                    );
                    let plain = Question {
                        reason: None,
                        ..*self.question
                    };
                    all.add(
                        "If it is not".to_owned(),
                        plain.rule(&self.terms().schedule, self.at),
                    );
                }
                ReviewReason::TimeZoneAmbiguous => {
                    all.add("If the event's clock is UTC".to_owned(), Some(rule));
                    for (zone, other) in self.other_zones() {
                        all.add(format!("If the event's clock is UTC{zone}"), other);
                    }
                }
                ReviewReason::BackdatedAcrossDeadline => {
                    all.add(format!("If notice was given at {}", self.at), Some(rule));
                    all.add(
                        format!("If only receipt at {} counts", self.received_at),
                        self.rule_at_receipt(),
                    );
                }
                ReviewReason::ManualRule => {
                    all.add_sums("If everything goes back", rule, &self.stakes.divide(0, 0));
                    let all_kept = self.stakes.divide(self.stakes.basis.value, 0);
                    all.add_sums("If nothing goes back", rule, &all_kept);
                }
            }
        }
        all.found
    }
}

/// Collects alternatives.
struct Alternatives<'i, 'a> {
    inquiry: &'i Inquiry<'a>,
    reached: Option<i64>,
    found: Vec<Alternative>,
}

impl Alternatives<'_, '_> {
    /// Adds the result of a rule, or the case that none applies.
    fn add(&mut self, condition: String, rule: Option<Rule>) {
        let settled =
            rule.and_then(|rule| Some((rule, self.inquiry.stakes.settle(rule, self.reached)?)));
        if let Some((rule, Settled::Sums(sums))) = settled {
            return self.add_sums(&condition, rule, &sums);
        }
        self.found.push(Alternative {
            condition,
            rule_id: rule,
            resolution_path: match rule {
                Some(_) => ResolutionPath::ManualReview,
                None => ResolutionPath::None,
            },
            refund: None,
            penalty: None,
        });
    }

    fn add_sums(&mut self, condition: &str, rule: Rule, sums: &Settlement<'_>) {
        self.found.push(Alternative {
            condition: condition.to_owned(),
            rule_id: Some(rule),
            resolution_path: sums.path(rule),
            refund: Some(sums.refund),
            penalty: Some(sums.penalty),
        });
    }
}
