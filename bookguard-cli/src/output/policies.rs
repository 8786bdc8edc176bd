//! How policies are shown.

use bookguard_core::FieldError;
use bookguard_core::features::policies::{
    PolicyCheck, PolicyListing, PolicyTemplate, PolicyVersion,
};
use bookguard_core::model::Page;

use super::table::{Style, list, more, record, time};
use crate::text::plain;

/// One version of a policy.
pub fn policy(version: &PolicyVersion, style: Style) -> String {
    let document = version.policy.document();
    let head = record(
        style,
        &[
            ("policy", Some(version.policy_id.clone())),
            ("version", Some(version.version.to_string())),
            ("name", document.name.clone()),
            ("hash", Some(version.policy_hash.clone())),
            ("time zone", document.time_zone.map(|zone| zone.to_string())),
            ("put", Some(time(version.created_at))),
        ],
    );
    head + &sentences(&version.english) + &warnings(&version.warnings)
}

/// A page of policies, or of versions of one.
pub fn policies(page: &Page<PolicyListing>, style: Style) -> String {
    let rows = page.data.iter().map(|policy| {
        [
            policy.policy_id.clone(),
            policy.version.to_string(),
            policy.name.clone().unwrap_or_default(),
            time(policy.created_at),
            policy.policy_hash.clone(),
        ]
    });
    let header = ["POLICY", "VERSION", "NAME", "PUT", "HASH"];
    list(style, "policies", header, rows.collect()) + &more(page.next_cursor.as_deref())
}

/// The library.
pub fn templates(page: &Page<PolicyTemplate>, style: Style) -> String {
    let blocks = page.data.iter().map(|template| {
        let types = template
            .default_for
            .join(", ")
            .replace('*', "every other event type");
        let head = record(
            style,
            &[
                ("policy", Some(template.policy_id.clone())),
                ("name", template.policy.document().name.clone()),
                ("default for", (!types.is_empty()).then_some(types)),
                ("hash", Some(template.policy_hash.clone())),
            ],
        );
        head + &sentences(&template.english)
    });
    blocks.collect::<Vec<_>>().join("\n\n")
}

/// What a check of a policy said, but for its errors, which are told as a refusal's are.
pub fn check(check: &PolicyCheck, style: Style) -> String {
    let verdict = match check.valid {
        true => style.good("This policy can be used."),
        false => style.bad("This policy cannot be used."),
    };
    let hash = check.policy_hash.as_ref();
    let hash = hash.map_or_else(String::new, |hash| format!("\nhash  {}", plain(hash)));
    verdict + &hash + &sentences(&check.english) + &warnings(&check.warnings)
}

fn sentences(english: &[String]) -> String {
    let lines = english.iter().map(|line| format!("\n  {}", plain(line)));
    let lines: String = lines.collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

fn warnings(warnings: &[FieldError]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let lines = warnings.iter().map(|warning| {
        format!(
            "\n  {}: {}. {}",
            plain(&warning.pointer),
            plain(&warning.message),
            plain(&warning.fix)
        )
    });
    format!("\n\nWarnings:{}", lines.collect::<String>())
}
