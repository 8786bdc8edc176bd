//! What a cancellation would cost, or, once the booking is canceled, what it did cost.

use serde::{Deserialize, Serialize};

use super::bookings::visible;
use super::cancellations::rule;
use crate::engine::batch::LoadedBooking;
use crate::error::Error;
use crate::input::amount;
use crate::limits;
use crate::model::{BookingId, Currency, Scope, Timestamp};
use crate::operation::{
    Action, Operation, QueryForm, QueryParam, QueryReader, Request, Route, path_id, query_value,
    read,
};
use crate::policy::{self, Actor, Evaluation, MatrixRow, Mode, Question, Reason, Resolution};
use crate::session::{Access, Session};

/// `GET /v1/bookings/{bookingId}/policy-evaluation`
pub struct EvaluatePolicy;

/// The result of a cancellation, possible or recorded, and on request for every actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct PolicyEvaluation {
    /// The requested evaluation, or the recorded one of a canceled booking.
    #[serde(flatten)]
    pub evaluation: Evaluation,
    /// The evaluation for every actor, with `matrix=true`. Absent once the booking is canceled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Vec<MatrixRow>>,
}

impl Operation for EvaluatePolicy {
    const ROUTE: Route = Route {
        id: "evaluatePolicy",
        path: "/v1/bookings/{bookingId}/policy-evaluation",
        access: Access::Scope(Scope::BookingsRead),
        query: &[
            QueryParam {
                name: "asOf",
                description: "Evaluate as if it were this RFC 3339 instant, not before the event was last moved; now when not given.",
                form: QueryForm::Instant,
            },
            QueryParam {
                name: "effectiveAt",
                description: "Evaluate a cancellation that is received now and takes effect at this RFC 3339 instant, as `cancel` would \
                              record it. Not together with `asOf` or `matrix=true`.",
                form: QueryForm::Instant,
            },
            QueryParam {
                name: "canceledBy",
                description: "Who would cancel: organizer (default), talent, partner or mutual; for no_show, who would not have come.",
                form: QueryForm::Words("Actor"),
            },
            QueryParam {
                name: "reason",
                description: "Why, such as changed_plans, no_show or force_majeure.",
                form: QueryForm::Words("Reason"),
            },
            QueryParam {
                name: "agreedRefund",
                description: "What both sides would agree on, a decimal number; needed with canceledBy=mutual.",
                form: QueryForm::Decimal,
            },
            QueryParam {
                name: "evidence",
                description: "How many pieces of evidence would come with it: 0 (default) to 20.",
                form: QueryForm::Whole(0, limits::CANCELLATION_EVIDENCE as u64, Some(0)),
            },
            QueryParam {
                name: "matrix",
                description: "true: every actor side by side, as `matrix`.",
                form: QueryForm::Flag,
            },
        ],
        refusals: &[404, 409],
        tag: "Bookings",
        summary: "What a cancellation would mean",
        description: "Computed from the policy frozen with the booking; changes nothing. `evaluationStatus` says how far to \
                      rely on it, `resolutionPath` what would happen to the money. A canceled booking always answers with what \
                      was recorded: `final`, or `review_required` while a person has to decide.",
        ..Route::GET
    };
    type Output = PolicyEvaluation;

    fn prepare(_: &Session, request: &Request) -> Result<Action<PolicyEvaluation>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let asked = EvaluationQuery::read(request)?;
        Ok(read::<Self>(move |session| {
            let state = visible(session, &booking_id)?;
            let question = asked.question(session.service.clock().now(), state.booking.currency)?;
            evaluation(&state, &question, asked.matrix)
        }))
    }
}

/// The query's parameters.
struct EvaluationQuery {
    /// Whether `at` is the instant of a question or of a cancellation.
    mode: Mode,
    at: Option<Timestamp>,
    actor: Actor,
    reason: Option<Reason>,
    agreed_refund: Option<String>,
    evidence: usize,
    matrix: bool,
}

impl EvaluationQuery {
    fn read(request: &Request) -> Result<Self, Error> {
        let mut params = QueryReader::of(request);
        let as_of = params.instant("asOf");
        let effective_at = params.instant("effectiveAt");
        let actor = params.choice("canceledBy", Actor::WORDS);
        let reason = params.choice("reason", Reason::WORDS);
        let yes_or_no = [("true", true), ("false", false)];
        let matrix = params.choice("matrix", &yes_or_no);
        let given = |name| query_value(request, name).is_some();
        for (other, is_asked) in [("asOf", given("asOf")), ("matrix", matrix == Some(true))] {
            if given("effectiveAt") && is_asked {
                params.conflict("effectiveAt", other);
            }
        }
        let fix = "Send how many pieces of evidence there would be.";
        let evidence = params.whole("evidence", 0..=limits::CANCELLATION_EVIDENCE, fix);
        let agreed_refund = query_value(request, "agreedRefund").map(str::to_owned);
        if agreed_refund.is_some() && matrix != Some(true) && actor != Some(Actor::Mutual) {
            params.fault_at(
                "agreedRefund",
                "agreed_refund_not_mutual",
                "is only for a cancellation that both sides agreed on",
                "Leave it out, or send canceledBy=mutual or matrix=true.",
            );
        }
        params.end()?;
        Ok(Self {
            mode: match effective_at {
                Some(_) => Mode::Cancel,
                None => Mode::Evaluate,
            },
            at: effective_at.or(as_of),
            actor: actor.unwrap_or(Actor::Organizer),
            reason,
            agreed_refund,
            evidence: evidence.unwrap_or_default(),
            matrix: matrix.unwrap_or_default(),
        })
    }

    fn question(&self, now: Timestamp, currency: Currency) -> Result<Question, Error> {
        let agreed_refund = self.agreed_refund.as_deref();
        let agreed_refund = agreed_refund
            .map(|digits| amount("?agreedRefund", digits, currency))
            .transpose()?;
        Ok(Question {
            mode: self.mode,
            actor: self.actor,
            reason: self.reason,
            at: self.at,
            received_at: now,
            evidence: self.evidence,
            agreed_refund,
        })
    }
}

/// Evaluates a stored booking.
fn evaluation(
    state: &LoadedBooking,
    question: &Question,
    matrix: bool,
) -> Result<PolicyEvaluation, Error> {
    let recorded = state.resolution().map(Resolution::recorded);
    if question.mode == Mode::Cancel && recorded.is_none() {
        return Ok(PolicyEvaluation {
            evaluation: rule::preview(state, question)
                .map_err(|refusal| refused(refusal, question))?,
            matrix: None,
        });
    }
    // What is recorded answers every question.
    let question = &Question {
        mode: Mode::Evaluate,
        ..*question
    };
    let at_fault = |refusal| refused(refusal, question);
    let subject = state.subject(&state.terms, recorded.as_ref());
    Ok(PolicyEvaluation {
        evaluation: policy::evaluate_now(&subject, question).map_err(at_fault)?,
        matrix: match matrix && recorded.is_none() {
            true => Some(policy::matrix(&subject, question).map_err(at_fault)?),
            false => None,
        },
    })
}

/// Adds the parameter to the policy's refusal.
fn refused(refusal: Error, question: &Question) -> Error {
    let at = match question.mode {
        Mode::Cancel => "effectiveAt",
        Mode::Evaluate => "asOf",
    };
    let from_the_start = match (question.mode, question.at) {
        (Mode::Evaluate, Some(_)) => {
            "Send another reason, or an \"asOf\" from the start of the event on."
        }
        (Mode::Cancel, Some(_)) => {
            "Send another reason, or, once the event has started, an \"effectiveAt\" from its start on."
        }
        (_, None) => "Send another reason, or wait for the event to start.",
    };
    let (name, fix) = match &*refusal.code {
        "effective_at_in_future" => (
            at,
            "Send an instant from the booking's creation until now, or leave it out to ask about now.",
        ),
        "effective_at_before_booking" => (
            at,
            "Send an instant from the booking's creation on, or leave it out to ask about now.",
        ),
        "effective_at_before_reschedule" => (
            at,
            "Send an instant from the last move on, or leave it out to ask about now.",
        ),
        "no_show_before_event" => ("reason", from_the_start),
        "agreed_refund_required" => ("agreedRefund", "Add the refund both sides agreed on."),
        "agreed_refund_exceeds_paid" => ("agreedRefund", "Send at most what was paid."),
        _ => return refusal,
    };
    refusal.at_field(&format!("?{name}"), fix)
}
