//! Topics beyond single operations: receiving webhooks, policies, and checking evidence.

use std::fmt::Write as _;

use bookguard_core::policy::Policy;

use super::super::links::link;
use crate::mcp;

/// The guide for receivers: a link to docs/, because a published crate holds only what is below its own folder.
const WEBHOOKS: &str = include_str!("../pages/webhooks.md");

const POLICIES: &str = "\
A policy says what a cancellation costs: `organizer` holds `tiers` by time before the event, each with an outcome: what goes back (`refundBps`, \
basis points of the value: 10000 is all), what is kept (`penaltyAmount`, `keepDeposit`), or that a person decides (`manual`). `talent`, `partner`, \
`grace`, `deposit`, `forceMajeure` and `reschedule` say the rest. A booking names one by `policyId`, brings one as `policy`, or chooses nothing: then it is the partner's default for its event type, else the library's. The terms are \
frozen when the booking is recorded: no later version of a policy changes them.

`POST /v1/policies/validate` says what is wrong with a policy and what it means in plain English, before anybody uses it. `PUT \
/v1/policies/{policyId}` keeps it; each change is a version that stays. `GET /v1/bookings/{bookingId}/policy-evaluation` computes what a \
cancellation comes to at a moment and records nothing; `?matrix=true` shows every actor. `POST …/cancel` computes the same from the same terms \
and records it, once. If a person must decide, the resolution waits for `POST /v1/resolutions/{resolutionId}/decide`.

The library's policies, and the event types that get them when nobody chose (`*` is all others):
";

const EVIDENCE: &str = "\
`GET /v1/bookings/{bookingId}/evidence` gives a packet: the booking, its ledger entries with inclusion proofs under a signed checkpoint (RFC 6962, \
C2SP), the frozen terms, what was shown and accepted, how each notification ended, and a signature. Whoever has the packet and the log's verifier key \
can check it without asking anybody: `bookguard evidence verify packet.json --key @ledger.vkey`, or `bookguard_core::evidence::verify` in Rust.

A verifier recomputes the digest of every opened field and compares it with the entry, the entry's leaf hash with the proof, the proof with the \
checkpoint's root, and the checkpoint's signature with a key that it was given by other means than the packet; then the policy's result from the \
frozen terms. One changed character makes it fail. A packet proves what was recorded and when it entered the log, not that it was true. Nothing \
before its last entry is missing. With `completeness` (a minute after its last entry), it also proves that no later one was recorded by the \
time it names; for anything later, read the log. It shows only scheme and host of endpoints.
";

/// Writes the sections.
pub(super) fn write(text: &mut String, base: &str) {
    agents(text, base);
    text.push_str("\n## Webhooks\n");
    text.push_str(&below(WEBHOOKS));
    let _ = write!(text, "\n## Policies\n\n{POLICIES}\n");
    for policy in Policy::templates() {
        let id = policy.document().policy_id.as_str();
        let types = Policy::template_event_types(id).join(", ");
        let default = if types.is_empty() {
            String::new()
        } else {
            format!(" (default for {types})")
        };
        let _ = writeln!(text, "- `{id}`{default}: {}", policy.in_english().join(" "));
    }
    let schema = link("policySchema").under(base);
    let _ = writeln!(text, "\nTheir JSON Schema is at {schema}.");
    let _ = write!(text, "\n## Evidence\n\n{EVIDENCE}");
    let (key, checkpoint) = (
        link("ledgerKey").under(base),
        link("ledgerCheckpoint").under(base),
    );
    let _ = writeln!(
        text,
        "\nThe key is at {key}: fetch it once and keep it. The head of the log is at {checkpoint}, its tiles beside it."
    );
}

/// Describes the MCP endpoint and its tools.
fn agents(text: &mut String, base: &str) {
    let _ = writeln!(
        text,
        "\n## Agents\n\n{base}{} speaks the Model Context Protocol (streamable HTTP, revisions {}), with the same keys, scopes, limits and \
         refusals as the rest. A tool takes what its operation takes, and answers what it answers, as structured content; a refusal is \
         the operation's own. What the tools are:\n",
        mcp::PATH,
        mcp::PROTOCOL_VERSIONS.join(", ")
    );
    for (name, about) in mcp::tools() {
        let _ = writeln!(text, "- `{name}`: {about}");
    }
}

/// The sections written by hand.
#[cfg(test)]
pub(super) fn written(text: &mut String) {
    text.push_str(POLICIES);
    text.push_str(EVIDENCE);
}

/// A document as part of another: without its title and comments, its headings one level lower.
fn below(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if !fenced && line.starts_with("<!--") {
            continue;
        }
        let heading = !fenced && line.starts_with('#');
        if heading && line.starts_with("# ") {
            continue;
        }
        if heading {
            out.push('#');
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_go_down_a_step_and_comments_of_code_stay() {
        let text = "# Title\n\nText.\n\n## Part\n\n<!-- remark -->\n```sh\n# comment\n```\n";
        assert_eq!(
            below(text),
            "\nText.\n\n### Part\n\n```sh\n# comment\n```\n"
        );
    }

    #[test]
    fn the_guide_is_whole_and_every_policy_of_the_library_is_there() {
        let mut text = String::new();
        write(&mut text, "https://b.example");
        assert!(text.contains("\n### Replacing a secret\n") && text.contains("\ndef verify("));
        for id in Policy::template_ids() {
            assert!(text.contains(&format!("\n- `{id}`")), "{id}");
        }
        assert!(text.contains("https://b.example/v1/ledger/key"));
        assert!(text.contains("\n- `protect_booking`: Locks a recorded booking"));
    }
}
