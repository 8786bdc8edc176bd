//! `/llms.txt`: what a language model needs to know to use the service rightly, from the table of operations.

use std::fmt::Write as _;

use bookguard_core::service::Registration;
use bookguard_core::session::Access;

use crate::api::Entry;

const RULES: &str = "\
- Send the key in the header `x-api-key`, from a server, never from a browser or an app.
- Bodies and answers are JSON in camelCase. Times are ISO 8601 in UTC; amounts are exact decimal numbers.
- Unknown fields, duplicate keys and null where a value is required are refused with 400; `details` names each field and the fix.
- Errors are `{error, message, code, details}`; branch on `code`. A 401 has `error` and `message` only.
- Put an `Idempotency-Key` on every POST and repeat with the same one after a 503 or a lost connection: it happens once.
- Lists answer `{data, hasMore, nextCursor}`; pass `nextCursor` as `?cursor=`.
- Another partner's ids answer 404, as unknown ones do.
- Webhooks are signed in `x-service-signature`: verify it over the raw body, then deduplicate by `eventId`.
";

/// The text, with links under `base`.
pub(crate) fn text(table: &[Entry], base: &str, registration: Registration) -> String {
    let start = match registration {
        Registration::Open => "POST /v1/partners/register answers with the first API key.",
        Registration::Approval => {
            "POST /v1/partners/register, then wait for the operator to hand over the first API key."
        }
        Registration::Closed => "Registration is closed; the operator hands out API keys.",
    };
    let mut text = format!(
        "# Bookguard\n\n> Evidence and protection for bookings: record a booking, lock it into a tamper-evident ledger, \
         receive signed webhooks, and know what a cancellation would mean.\n\n{start}\n\n## Rules\n\n{RULES}\n## Operations\n\n"
    );
    for entry in table {
        let route = &entry.route;
        let method = route.method.word();
        let access = match route.access {
            Access::Open => "open".to_owned(),
            Access::AnyKey => "any key".to_owned(),
            Access::Scope(scope) => format!("scope {}", scope.word()),
            Access::Administrator => continue,
        };
        let _ = writeln!(
            text,
            "- {method} {}: {} ({access})",
            route.path, route.summary
        );
    }
    let _ = write!(
        text,
        "\n## Links\n\n- [OpenAPI]({base}/openapi.json): every field, status and limit\n- [Reference]({base}/docs): the same, to read \
         and try\n- [Policies]({base}/policy.schema.json): their JSON Schema\n- [Ledger checkpoint]({base}/v1/ledger/checkpoint): the signed head of the log; tiles under {base}/v1/ledger/tile/\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api;

    #[test]
    fn it_lists_every_operation_and_links_under_the_public_address() {
        let table = api::table();
        let text = text(&table, "https://b.example", Registration::Closed);
        for entry in &table {
            assert!(
                text.contains(&format!(" {}: {}", entry.route.path, entry.route.summary)),
                "{}",
                entry.route.id
            );
        }
        assert!(text.contains("(https://b.example/openapi.json)"));
        assert!(
            text.contains("Registration is closed")
                && !text.contains("answers with the first API key")
        );
        assert!(text.contains("POST /v1/bookings: Record a booking (scope bookings:write)"));
    }
}
