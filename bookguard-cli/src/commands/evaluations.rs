//! `bookings evaluate`: shows what a cancellation would cost. Other commands show evaluations with the same functions.

use bookguard_core::features::evaluations::{EvaluatePolicy, PolicyEvaluation};
use bookguard_core::model::{Amount, Timestamp};
use bookguard_core::policy::{Evaluation, EvaluationStatus, MatrixRow, Segment};

use super::declare::{CliCommand, operation};
use crate::output::table::{Style, fields, money, record, rows, time};

/// The step that contains the instant in question.
const HERE: &str = "->";

/// What stands for an amount that a person decides.
const TO_DECIDE: &str = "to be decided";

const EFFECTIVE_AT: &str = "Evaluate a cancellation that is received now and takes effect at this RFC 3339 instant, as `bookings cancel` \
                            would record it. Not together with --as-of or --matrix";

pub(super) fn command() -> CliCommand {
    let about = "Show what a cancellation would cost under the booking's policy, or what it cost";
    let command = operation::<EvaluatePolicy>("evaluate", about, policy_evaluation);
    command.alias("policy").flags(|flags| {
        let agreed = "The refund that both sides would agree on (with --canceled-by mutual)";
        flags
            .says("effectiveAt", EFFECTIVE_AT)
            .says("agreedRefund", agreed)
            .says("matrix", "Show every actor side by side");
    })
}

/// An evaluation, with all actors side by side if the request asked for them.
pub(super) fn policy_evaluation(answer: &PolicyEvaluation, style: Style) -> String {
    let mut text = evaluation(&answer.evaluation, style);
    if let Some(rows) = &answer.matrix {
        text.push_str("\n\nWhoever cancels:\n");
        text.push_str(&matrix(rows, style));
    }
    text
}

/// The lines of one evaluation.
pub(super) fn evaluation(evaluation: &Evaluation, style: Style) -> String {
    let change = evaluation.next_change.as_ref().map(|change| {
        let then = change.then_refund.map(money);
        let then = then.unwrap_or_else(|| "what a person decides".to_owned());
        format!("{}, then {then} goes back", time(change.at))
    });
    let policy = evaluation.policy.as_ref();
    let mut fields = fields! {
        "booking" => evaluation.booking_id,
        "status" => evaluation.evaluation_status,
        "path" => evaluation.resolution_path,
        "as of" => evaluation.as_of,
        "canceled by" => evaluation.canceled_by,
        "reason" => evaluation.reason,
    };
    fields.extend(sums(evaluation));
    fields.extend(fields! {
        "rule" => evaluation.matched_rule,
        "why" => evaluation.explanation.text,
        "next change" => change,
        "policy" => policy.map(|it| format!("{} v{} ({})", it.policy_id, it.version, it.policy_hash)),
    });
    let mut text = record(style, &fields);
    if !evaluation.schedule.is_empty() {
        text.push_str("\n\nIf the organizer cancels:\n");
        text.push_str(&steps(&evaluation.schedule, evaluation.as_of, style));
    }
    text + &alternatives(evaluation, style)
}

/// The amounts of an evaluation, with their names.
pub(super) fn sums(evaluation: &Evaluation) -> Vec<(&'static str, Option<String>)> {
    let more_than_nothing = |amount: Option<Amount>| amount.filter(|a| a.minor() > 0);
    let shown = |amount| stated(amount, evaluation.evaluation_status, TO_DECIDE);
    fields! {
        "refund" => shown(evaluation.refund),
        "penalty" => shown(evaluation.penalty),
        "balance due" => more_than_nothing(evaluation.balance_due),
        "compensation" => more_than_nothing(evaluation.compensation),
    }
}

/// An amount, or the words that a person decides.
pub(super) fn decided(amount: Option<Amount>) -> String {
    amount.map_or_else(|| TO_DECIDE.to_owned(), money)
}

/// An amount of a result of this status, or `open` if it can still be decided.
fn stated(amount: Option<Amount>, status: EvaluationStatus, open: &'static str) -> String {
    amount.map_or_else(|| status.instead_of_amount(open).to_owned(), money)
}

/// The organizer's schedule, with the step at the instant in question marked.
pub(super) fn steps(schedule: &[Segment], at: Timestamp, style: Style) -> String {
    rows! { style, "steps", schedule, step =>
        "" => (step.from..=step.to).contains(&at).then_some(HERE),
        "RULE" => step.rule_id,
        "FROM" => step.from,
        "TO" => step.to,
        "REFUND" => decided(step.refund),
        "PENALTY" => decided(step.penalty),
    }
}

/// The alternatives a person can choose from, if there are any.
pub(super) fn alternatives(evaluation: &Evaluation, style: Style) -> String {
    if evaluation.alternatives.is_empty() {
        return String::new();
    }
    let rows = rows! { style, "alternatives", evaluation.alternatives, way =>
        "CONDITION" => way.condition,
        "PATH" => way.resolution_path,
        "REFUND" => decided(way.refund),
        "PENALTY" => decided(way.penalty),
    };
    format!("\n\nA person decides between:\n{rows}")
}

fn matrix(rows: &[MatrixRow], style: Style) -> String {
    let shown = |row: &MatrixRow, amount| stated(amount, row.evaluation_status, "open");
    rows! { style, "actors", rows, row =>
        "CANCELED BY" => row.canceled_by,
        "PATH" => row.resolution_path,
        "REFUND" => shown(row, row.refund),
        "PENALTY" => shown(row, row.penalty),
        "BALANCE DUE" => shown(row, row.balance_due),
        "COMPENSATION" => shown(row, row.compensation),
        "RULE" => row.matched_rule,
    }
}
