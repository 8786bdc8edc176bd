//! Asks the same question for every actor, side by side.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evaluate::evaluate;
use super::evaluation::{Evaluation, Explanation};
use super::question::{Question, Standing, Subject};
use super::rule::Rule;
use super::words::{Actor, EvaluationStatus, ResolutionPath, ReviewReason};
use crate::error::Error;
use crate::model::Amount;

/// The result of a cancellation by one actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct MatrixRow {
    /// Who cancels.
    pub canceled_by: Actor,
    /// How reliable the result is.
    pub evaluation_status: EvaluationStatus,
    /// What would happen to the money.
    pub resolution_path: ResolutionPath,
    /// What would be returned; null when undecided, or still to be agreed on.
    pub refund: Option<Amount>,
    /// What would be kept of the value, or owed; null if the refund is null.
    pub penalty: Option<Amount>,
    /// What the organizer would still owe; null if the refund is null.
    pub balance_due: Option<Amount>,
    /// What the organizer would be owed on top; null if the refund is null.
    pub compensation: Option<Amount>,
    /// The rule that would apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_rule: Option<Rule>,
    /// Why a person would have to decide.
    pub review_reasons: Vec<ReviewReason>,
    /// The explanation, for machines and for people.
    pub explanation: Explanation,
}

/// One row per actor, in the vocabulary's order.
///
/// # Errors
/// Those of [`evaluate`] for any of the actors, except `agreed_refund_required`.
pub fn matrix(booking: &Subject<'_>, question: &Question) -> Result<Vec<MatrixRow>, Error> {
    let mut rows = Vec::with_capacity(Actor::WORDS.len());
    for (_, actor) in Actor::WORDS {
        let mutual = *actor == Actor::Mutual;
        let asked = Question {
            actor: *actor,
            agreed_refund: question.agreed_refund.filter(|_| mutual),
            ..*question
        };
        rows.push(match evaluate(booking, &asked) {
            Ok(evaluation) => MatrixRow::from(evaluation),
            Err(refusal) if mutual && refusal.code == "agreed_refund_required" => {
                to_be_agreed(booking)
            }
            Err(refusal) => return Err(refusal),
        });
    }
    Ok(rows)
}

impl From<Evaluation> for MatrixRow {
    fn from(evaluation: Evaluation) -> Self {
        Self {
            canceled_by: evaluation.canceled_by,
            evaluation_status: evaluation.evaluation_status,
            resolution_path: evaluation.resolution_path,
            refund: evaluation.refund,
            penalty: evaluation.penalty,
            balance_due: evaluation.balance_due,
            compensation: evaluation.compensation,
            matched_rule: evaluation.matched_rule,
            review_reasons: evaluation.review_reasons,
            explanation: evaluation.explanation,
        }
    }
}

/// The row for both sides together while no figure was given.
fn to_be_agreed(booking: &Subject<'_>) -> MatrixRow {
    let paid = booking.terms.paid.to_string();
    MatrixRow {
        canceled_by: Actor::Mutual,
        evaluation_status: match booking.standing {
            Standing::Created => EvaluationStatus::Provisional,
            _ => EvaluationStatus::Evaluated,
        },
        resolution_path: ResolutionPath::MutualAgreement,
        refund: None,
        penalty: None,
        balance_due: None,
        compensation: None,
        matched_rule: Some(Rule::Mutual),
        review_reasons: Vec::new(),
        explanation: Explanation {
            code: "MUTUAL".to_owned(),
            text: format!(
                "Both sides agree on the refund: any amount up to what was paid, {paid}."
            ),
            params: BTreeMap::from([("paid".to_owned(), paid)]),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BookingId, Currency, Timestamp};
    use crate::policy::{
        Booked, EventDate, MissingZone, Mode, Policy, PolicySource, Reason, Terms,
    };

    fn terms(paid: &str) -> Terms {
        let sum = |text| Amount::parse(text, Currency::USD).unwrap();
        let booked = Booked {
            event_date: EventDate::parse("2026-06-20T19:00:00-04:00").unwrap(),
            time_zone: None,
            partner_time_zone: None,
            value: sum("1000"),
            paid: Some(sum(paid)),
            created_at: Timestamp::parse("2026-01-10T15:00:00Z").unwrap(),
        };
        let firm = Policy::template("firm").unwrap().clone();
        let policy = Some((firm, PolicySource::Named));
        Terms::freeze(policy, &booked, MissingZone::Refuse).unwrap()
    }

    fn ask(terms: &Terms, at: &str, change: impl Fn(Question) -> Question) -> Vec<String> {
        let subject = Subject {
            booking_id: BookingId::from_bytes([7; 16]),
            terms,
            standing: Standing::Protected,
            reschedules: &[],
        };
        let question = change(Question {
            mode: Mode::Evaluate,
            actor: Actor::Organizer,
            reason: None,
            at: None,
            received_at: Timestamp::parse(at).unwrap(),
            evidence: 0,
            agreed_refund: None,
        });
        let rows = matrix(&subject, &question).unwrap();
        let short = |row: &MatrixRow| {
            let refund = row.refund.map_or("-".to_owned(), |refund| refund.decimal());
            format!("{} {} {refund}", row.canceled_by, row.resolution_path)
        };
        rows.iter().map(short).collect()
    }

    #[test]
    fn every_actor_has_a_row_and_what_is_not_known_is_left_open() {
        let terms = terms("800");
        assert_eq!(
            ask(&terms, "2026-06-01T00:00:00Z", |q| q),
            [
                "organizer partial_refund 300.00",
                "talent full_refund 800.00",
                "partner full_refund 800.00",
                "mutual mutual_agreement -"
            ]
        );
        let agreed = Amount::parse("123.45", Currency::USD).unwrap();
        let with_figure = ask(&terms, "2026-06-01T00:00:00Z", |q| Question {
            agreed_refund: Some(agreed),
            ..q
        });
        assert_eq!(with_figure[3], "mutual mutual_agreement 123.45");
        let storm = ask(&terms, "2026-06-01T00:00:00Z", |q| Question {
            reason: Some(Reason::ForceMajeure),
            ..q
        });
        assert_eq!(storm[0], "organizer manual_review -");
        let over = ask(&terms, "2027-06-01T00:00:00Z", |q| q);
        assert_eq!(over[3], "mutual none -");
    }
}
