//! How evaluations and resolutions are shown.

use bookguard_core::features::evaluations::PolicyEvaluation;
use bookguard_core::model::{Amount, Timestamp};
use bookguard_core::policy::{Evaluation, MatrixRow, Resolution, Segment};

use super::table::{Style, list, money, record, time};

/// The step in which the instant that was asked about lies.
const HERE: &str = "->";

/// An answer of the policy, with every actor beside each other where that was asked for.
pub fn policy_evaluation(answer: &PolicyEvaluation, style: Style) -> String {
    let mut text = evaluation(&answer.evaluation, style);
    if let Some(rows) = &answer.matrix {
        text.push_str("\n\nWhoever cancels:\n");
        text.push_str(&matrix(rows, style));
    }
    text
}

/// What a policy says.
pub fn evaluation(evaluation: &Evaluation, style: Style) -> String {
    let change = evaluation.next_change.as_ref().map(|change| {
        format!(
            "{}, then {} goes back",
            time(change.at),
            change
                .then_refund
                .map_or_else(|| "what a person decides".to_owned(), money)
        )
    });
    let mut fields = vec![
        ("booking", Some(evaluation.booking_id.to_string())),
        ("status", Some(evaluation.evaluation_status.to_string())),
        ("path", Some(evaluation.resolution_path.to_string())),
        ("as of", Some(time(evaluation.as_of))),
        ("canceled by", Some(evaluation.canceled_by.to_string())),
        ("reason", evaluation.reason.map(|reason| reason.to_string())),
    ];
    fields.extend(sums(evaluation));
    fields.extend([
        ("rule", evaluation.matched_rule.map(|rule| rule.to_string())),
        ("why", Some(evaluation.explanation.text.clone())),
        ("next change", change),
        (
            "policy",
            evaluation.policy.as_ref().map(|policy| {
                format!(
                    "{} v{} ({})",
                    policy.policy_id, policy.version, policy.policy_hash
                )
            }),
        ),
    ]);
    let mut text = record(style, &fields);
    if !evaluation.schedule.is_empty() {
        text.push_str("\n\nIf the organizer cancels:\n");
        text.push_str(&steps(&evaluation.schedule, evaluation.as_of, style));
    }
    if !evaluation.alternatives.is_empty() {
        text.push_str("\n\nA person decides between:\n");
        text.push_str(&alternatives(evaluation, style));
    }
    text
}

/// The amounts of an evaluation, each with its name.
fn sums(evaluation: &Evaluation) -> [(&'static str, Option<String>); 4] {
    let more_than_nothing = |amount: Option<Amount>| amount.filter(|a| a.minor() > 0).map(money);
    [
        ("refund", Some(decided(evaluation.refund))),
        ("penalty", Some(decided(evaluation.penalty))),
        ("balance due", more_than_nothing(evaluation.balance_due)),
        ("compensation", more_than_nothing(evaluation.compensation)),
    ]
}

/// An amount, or that a person decides.
pub fn decided(amount: Option<Amount>) -> String {
    amount.map_or_else(|| "to be decided".to_owned(), money)
}

/// The organizer's schedule, its step at the instant in question marked.
pub fn steps(schedule: &[Segment], at: Timestamp, style: Style) -> String {
    let rows = schedule.iter().map(|segment| {
        let here = (segment.from..=segment.to).contains(&at);
        [
            if here { HERE } else { "" }.to_owned(),
            segment.rule_id.to_string(),
            time(segment.from),
            time(segment.to),
            decided(segment.refund),
            decided(segment.penalty),
        ]
    });
    let header = ["", "RULE", "FROM", "TO", "REFUND", "PENALTY"];
    list(style, "steps", header, rows.collect())
}

fn alternatives(evaluation: &Evaluation, style: Style) -> String {
    let rows = evaluation.alternatives.iter().map(|way| {
        [
            way.condition.clone(),
            way.resolution_path.to_string(),
            decided(way.refund),
            decided(way.penalty),
        ]
    });
    let header = ["CONDITION", "PATH", "REFUND", "PENALTY"];
    list(style, "alternatives", header, rows.collect())
}

fn matrix(rows: &[MatrixRow], style: Style) -> String {
    let open = |amount: Option<Amount>| amount.map_or_else(|| "open".to_owned(), money);
    let rows = rows.iter().map(|row| {
        [
            row.canceled_by.to_string(),
            row.resolution_path.to_string(),
            open(row.refund),
            open(row.penalty),
            open(row.balance_due),
            open(row.compensation),
            row.matched_rule
                .map_or_else(String::new, |rule| rule.to_string()),
        ]
    });
    let header = [
        "CANCELED BY",
        "PATH",
        "REFUND",
        "PENALTY",
        "BALANCE DUE",
        "COMPENSATION",
        "RULE",
    ];
    list(style, "actors", header, rows.collect())
}

/// What a cancellation came to.
pub fn resolution(resolution: &Resolution, style: Style) -> String {
    let mut fields = vec![
        ("resolution", Some(resolution.resolution_id.to_string())),
        ("booking", Some(resolution.booking_id.to_string())),
        ("status", Some(resolution.status.to_string())),
        ("canceled by", Some(resolution.canceled_by.to_string())),
        ("reason", resolution.reason.map(|reason| reason.to_string())),
        ("canceled at", Some(time(resolution.canceled_at))),
        ("effective at", resolution.effective_at.map(time)),
        (
            "path",
            Some(resolution.evaluation.resolution_path.to_string()),
        ),
    ];
    fields.extend(sums(&resolution.evaluation));
    fields.extend([
        ("why", Some(resolution.evaluation.explanation.text.clone())),
        ("summary", Some(resolution.summary.clone())),
        ("evidence", Some(resolution.evidence_grade.to_string())),
    ]);
    if let Some(decision) = &resolution.decision {
        fields.extend([
            ("decided by", Some(decision.decided_by.clone())),
            ("decided at", Some(time(decision.decided_at))),
            ("rationale", Some(decision.rationale.clone())),
        ]);
    }
    let id = |id: Option<bookguard_core::model::ResolutionId>| id.map(|id| id.to_string());
    fields.extend([
        ("supersedes", id(resolution.supersedes)),
        ("superseded by", id(resolution.superseded_by)),
    ]);
    let mut text = record(style, &fields);
    if !resolution.evaluation.alternatives.is_empty() {
        text.push_str("\n\nA person decides between:\n");
        text.push_str(&alternatives(&resolution.evaluation, style));
    }
    text
}
