//! `/llms.txt` and `/llms-full.txt`: what a language model needs to use the service correctly, in short and in full.
//!
//! The short text follows the llms.txt format (llmstxt.org): a title, a summary in a quote, text without headings, then
//! headings with only links under them. Invariant: operations, limits and addresses come from the server's own definitions, so
//! the texts describe only what the server does.

mod objects;
mod operations;
mod topics;

use std::fmt::Write as _;

use bookguard_core::service::RegistrationMode;
use bookguard_core::session::Access;

use super::links::link;
use super::{SUMMARY, rules};
use crate::api::{self, OperationEntry, openapi_json};
use crate::mcp;

/// Writes one of the texts from the operations, the public address and the registration mode.
pub(super) type Write = fn(&[OperationEntry], &str, RegistrationMode) -> String;

/// The links under each heading. The llms.txt format lets readers skip "Optional" when space is short.
const SECTIONS: [(&str, &[&str]); 3] = [
    ("Documentation", &["llmsFull", "openapi", "policySchema"]),
    ("Agents", &["mcpServerCard", "aiCatalog"]),
    (
        "Optional",
        &[
            "docs",
            "apiCatalog",
            "ledgerCheckpoint",
            "ledgerKey",
            "health",
        ],
    ),
];

/// `/llms.txt`, with links under `base`.
pub(super) fn short(
    table: &[OperationEntry],
    base: &str,
    registration: RegistrationMode,
) -> String {
    let mut text = opening(base, registration, "Rules:");
    text.push_str("\nOperations:\n\n");
    for OperationEntry { route, .. } in table {
        let (method, access) = (route.method.word(), access(route.access));
        let _ = writeln!(
            text,
            "- {method} {}: {} ({access})",
            route.path, route.summary
        );
    }
    // Links and probes are not in the table; the ledger's addresses are among the links below.
    for (path, method, operation) in api::operations(&api::read_openapi()) {
        if let Some(summary) = operation["summary"].as_str()
            && !path.starts_with("/v1/")
        {
            let method = method.to_uppercase();
            let _ = writeln!(text, "- {method} {path}: {summary} (open)");
        }
    }
    let tools: Vec<String> = mcp::tools().map(|(name, _)| format!("`{name}`")).collect();
    let _ = writeln!(text, "\nTools of the MCP server: {}.", tools.join(", "));
    for (heading, names) in SECTIONS {
        let _ = write!(text, "\n## {heading}\n\n");
        for link in names.iter().map(|name| link(name)) {
            // A bracket would end the address in Markdown.
            let address = link.under(base).replace('(', "%28").replace(')', "%29");
            let _ = writeln!(text, "- [{}]({address}): {}", link.title, link.note);
        }
    }
    text
}

/// `/llms-full.txt`, with links under `base`.
pub(super) fn full(table: &[OperationEntry], base: &str, registration: RegistrationMode) -> String {
    let mut text = opening(base, registration, "## Rules");
    let document = serde_json::from_str(openapi_json())
        .expect("the interface document is JSON that this program wrote");
    operations::write(&mut text, table, &document);
    objects::write(&mut text, &document);
    topics::write(&mut text, base);
    text
}

/// Title, summary, how a program starts, and the rules under this heading.
fn opening(base: &str, registration: RegistrationMode, heading: &str) -> String {
    let start = match registration {
        RegistrationMode::Open => "POST /v1/partners/register answers with the first API key.",
        RegistrationMode::Approval => {
            "POST /v1/partners/register, then wait for the operator to hand over the first API key."
        }
        RegistrationMode::Closed => "Registration is closed; the operator hands out API keys.",
    };
    let mut text = format!(
        "# Bookguard\n\n> {SUMMARY}\n\nThe REST interface is under {base}/v1; agents connect by the Model Context Protocol (streamable HTTP) at \
         {base}{} with the same keys. {start}\n\n{heading}\n\n",
        mcp::PATH
    );
    for (index, (name, rule)) in rules::rules().iter().enumerate() {
        let _ = writeln!(text, "{}. {name}: {rule}", index + 1);
    }
    text
}

fn access(access: Access) -> String {
    match access {
        Access::Open => "open".to_owned(),
        Access::AnyKey => "any key".to_owned(),
        Access::Scope(scope) => format!("scope {}", scope.word()),
        // Not offered to partners; a test of the table checks this.
        Access::Administrator | Access::Database => "administrator".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://b.example/base";

    #[test]
    fn the_short_text_lists_every_operation_and_links_under_the_public_address() {
        let table = api::table();
        let text = short(&table, BASE, RegistrationMode::Closed);
        for entry in &table {
            let line = format!(" {}: {}", entry.route.path, entry.route.summary);
            assert!(text.contains(&line), "{}", entry.route.id);
        }
        assert!(text.contains("(https://b.example/base/openapi.json)"));
        let bracketed = short(&table, "https://b.example/a(b)", RegistrationMode::Open);
        assert!(bracketed.contains("](https://b.example/a%28b%29/docs): "));
        assert!(text.contains("Registration is closed"));
        assert!(!text.contains("answers with the first API key"));
        assert!(text.contains("POST /v1/bookings: Record a booking (scope bookings:write)"));
    }

    #[test]
    fn the_short_text_has_the_format() {
        let text = short(&api::table(), BASE, RegistrationMode::Open);
        assert!(text.starts_with("# Bookguard\n\n> Evidence"), "{text}");
        let mut sections = text.split("\n## ");
        let opening = sections.next().unwrap();
        assert!(opening.lines().skip(1).all(|line| !line.starts_with('#')));
        for section in sections {
            let mut lines = section.lines().filter(|line| !line.is_empty());
            assert!(
                lines
                    .next()
                    .is_some_and(|heading| heading.chars().all(char::is_alphabetic))
            );
            for line in lines {
                assert!(
                    line.starts_with("- [") && line.contains("](https://b.example/base/"),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn the_full_text_has_every_operation_object_and_topic() {
        let table = api::table();
        let text = full(&table, BASE, RegistrationMode::Open);
        let document: serde_json::Value = serde_json::from_str(openapi_json()).unwrap();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                let heading = format!("\n#### {} {path}\n", method.to_uppercase());
                assert!(text.contains(&heading), "{heading}");
            }
        }
        for entry in &table {
            assert!(
                text.contains(&format!("`{}`", entry.route.id)),
                "{}",
                entry.route.id
            );
        }
        for name in document["components"]["schemas"]
            .as_object()
            .unwrap()
            .keys()
        {
            assert!(text.contains(&format!("\n### {name}\n")), "{name}");
        }
        for heading in [
            "Rules",
            "Agents",
            "Operations",
            "Objects",
            "Webhooks",
            "Policies",
            "Evidence",
        ] {
            assert!(text.contains(&format!("\n## {heading}\n")), "{heading}");
        }
        assert!(
            !text.contains("#/components/"),
            "a reference was not followed"
        );
    }

    #[test]
    fn every_name_that_is_written_by_hand_is_one_of_the_interface() {
        let mut text = String::new();
        topics::written(&mut text);
        for (_, rule) in rules::rules() {
            text.push_str(&rule);
        }
        // Every second piece is between backticks.
        let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
        let names = quoted
            .iter()
            .filter(|name| name.chars().all(char::is_alphanumeric));
        let mut count = 0;
        for name in names {
            let known = openapi_json().contains(&format!("\"{name}\""))
                || openapi_json().contains(&format!("`{name}`"));
            assert!(known, "{name}");
            count += 1;
        }
        assert!(count > 20, "{count}");
    }

    #[test]
    fn the_full_text_has_one_title_and_its_headings_do_not_skip_a_step() {
        let text = full(&api::table(), BASE, RegistrationMode::Open);
        let (mut depth, mut fenced) = (0, false);
        for line in text.lines() {
            fenced ^= line.starts_with("```");
            let marks = line.chars().take_while(|c| *c == '#').count();
            if fenced || marks == 0 || !line[marks..].starts_with(' ') {
                continue;
            }
            assert!(marks <= depth + 1 && (marks > 1 || depth == 0), "{line}");
            depth = marks;
        }
        assert!(!fenced, "a fence was left open");
    }
}
