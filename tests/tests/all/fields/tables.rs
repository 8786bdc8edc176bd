//! The faults that only the reader detects, in one table for each body.
//!
//! A line lists the faults, each by pointer and code, then `<-`, then the members that cause them, which replace the
//! example's members of the same names. `fine` means no fault.

use std::collections::BTreeMap;

use bookguard_core::Error;
use bookguard_core::features::policies::PolicyCheck;
use serde_json::value::RawValue;

use crate::fields::{bodies, faults, schema_agrees};

const TABLES: [(&str, &str); 20] = [
    ("NewPartner", include_str!("NewPartner.txt")),
    ("PartnerChanges", include_str!("PartnerChanges.txt")),
    ("QuotaChanges", include_str!("QuotaChanges.txt")),
    ("PartnerEdit", include_str!("PartnerEdit.txt")),
    ("KeyRequest", include_str!("KeyRequest.txt")),
    ("ApiKeyRotation", include_str!("ApiKeyRotation.txt")),
    ("OperatorKeyRequest", include_str!("OperatorKeyRequest.txt")),
    ("ConsoleLinkRequest", include_str!("ConsoleLinkRequest.txt")),
    (
        "OperatorLinkRequest",
        include_str!("OperatorLinkRequest.txt"),
    ),
    ("ShareRequest", include_str!("ShareRequest.txt")),
    ("NewBooking", include_str!("NewBooking.txt")),
    ("NewDate", include_str!("NewDate.txt")),
    ("NewAcceptance", include_str!("NewAcceptance.txt")),
    ("NewCancellation", include_str!("NewCancellation.txt")),
    ("NewDecision", include_str!("NewDecision.txt")),
    ("NewRecovery", include_str!("NewRecovery.txt")),
    ("NewEndpoint", include_str!("NewEndpoint.txt")),
    ("EndpointChanges", include_str!("EndpointChanges.txt")),
    ("SecretRotation", include_str!("SecretRotation.txt")),
    ("Policy", include_str!("Policy.txt")),
];

type Object = BTreeMap<String, Box<RawValue>>;

const POLICY: &str = r#"{"policyId": "p", "organizer": {"late": {"refundBps": 0}}}"#;

/// Returns the rows of a table: the expected faults, and the members that cause them.
pub(crate) fn rows(table: &str) -> impl Iterator<Item = (Vec<(String, String)>, &str)> {
    let lines = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (faults, members) = line
            .split_once("<-")
            .unwrap_or_else(|| panic!("no <- in {line}"));
        let faults = faults
            .split(',')
            .map(str::trim)
            .filter(|fault| *fault != "fine");
        let faults = faults.map(|fault| {
            let (pointer, code) = fault.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            (pointer.to_owned(), code.trim().to_owned())
        });
        (faults.collect(), members.trim())
    })
}

/// Returns the example with these members in place of its own of the same names.
pub(crate) fn with(example: &str, members: &str) -> String {
    let example: Object = serde_json::from_str(example).unwrap();
    let named: Object = serde_json::from_str(&format!("{{{members}}}")).unwrap();
    let kept = example
        .iter()
        .filter(|(name, _)| !named.contains_key(*name));
    let kept = kept.map(|(name, value)| format!("\"{name}\": {value}"));
    let all: Vec<String> = kept.chain([members.to_owned()]).collect();
    format!("{{{}}}", all.join(", "))
}

#[test]
fn every_fault_of_the_tables_is_named_by_pointer_and_code_with_a_fix() {
    for (name, table) in TABLES {
        let body = bodies().into_iter().find(|body| body.name == name);
        for (expected, members) in rows(table) {
            let Some(body) = body else {
                let text = with(POLICY, members);
                let read = |text: &[u8]| -> Result<(), Error> {
                    match PolicyCheck::of(text)?.errors {
                        errors if errors.is_empty() => Ok(()),
                        errors => Err(Error::faults(errors)),
                    }
                };
                assert_eq!(faults(read, &text), expected, "{name}: {members:.300}");
                continue;
            };
            let text = with(body.example, members);
            let found = faults(|text| body.check(text), &text);
            assert_eq!(found, expected, "{name}: {members:.300}");
            schema_agrees(body, &text, &found);
        }
    }
}
