//! The ten rules that a program needs to use the service correctly, with the limits taken from the code.

use bookguard_core::limits::{
    ATTEMPT_MS, BODY_BYTES, EVENT_WAIT_S, HOUR_MS, IDEMPOTENCY_KEY_CHARS,
    IDEMPOTENCY_KEY_CHARS_OPEN, IDEMPOTENCY_TTL_MS, PAGE_ROWS, PAGE_ROWS_DEFAULT,
};
use bookguard_core::model::{BookingStatus, EventType};

/// The rules, each with its name.
pub(super) fn rules() -> [(&'static str, String); 10] {
    let [created, protected, canceled] = [
        BookingStatus::Created,
        BookingStatus::Protected,
        BookingStatus::Canceled,
    ]
    .map(BookingStatus::word);
    let hours = IDEMPOTENCY_TTL_MS / HOUR_MS;
    let body = BODY_BYTES / 1024;
    let types = |recorded: bool| {
        let types = EventType::WORDS.iter();
        let types = types.filter(|(_, known)| known.recorded().is_some() == recorded);
        let types: Vec<_> = types.map(|(word, _)| format!("`{word}`")).collect();
        types.join(", ")
    };
    let (standard, listed) = (types(true), types(false));
    let seconds = ATTEMPT_MS / 1000;
    [
        ("Authentication", "Send the API key in the header `x-api-key`, from a server, never from a browser or an app. 401 means that \
            the key is missing, wrong or revoked; 403 `insufficient_scope` names the scope that the key lacks. Keys hold scopes such \
            as `bookings:write`; a key can make only keys whose scopes it has.".to_owned()),
        ("Idempotency", format!("Put an `Idempotency-Key` (a UUID; up to {IDEMPOTENCY_KEY_CHARS} visible ASCII characters, and at least \
            {IDEMPOTENCY_KEY_CHARS_OPEN} to register a partner) on every POST. \
            Repeat with the same key and the same request after a 503, a timeout or a lost connection: it happens once, and for {hours} \
            hours the answer is the first one, with `Idempotent-Replayed: true`. The same key with another request is 422 \
            `idempotency_key_reused`.")),
        ("Errors", "Every refusal is `{error, message, code, details}`; a 401 has `error` and `message` only. Branch on `code`, never on \
            `message`. `details` names every faulty field by JSON pointer, with a code and the fix; unknown fields, duplicate keys and \
            null where a value is required are faults. Keep `x-request-id` for questions.".to_owned()),
        ("Money", "`bookingValue` and `amountPaid` are exact decimal numbers with at most the decimals of their ISO 4217 `currency`; \
            nothing is ever rounded on the way in. Amounts in answers have `amount`, `minorUnits` (an integer: compute with this) and \
            `currency`. Bookguard computes what a policy gives and never moves money.".to_owned()),
        ("Time", "Instants are ISO 8601 in UTC with milliseconds, `2026-11-05T10:00:00.000Z`; any RFC 3339 offset is read. An `eventDate` \
            without an offset is local time and needs a `timeZone` (IANA) from the booking, its policy or the partner.".to_owned()),
        ("Signatures", format!("Webhooks ({standard}, and at endpoints that list them {listed}) are POSTs signed in `x-service-signature` and, as Standard Webhooks, in \
        `webhook-signature`. Verify over the raw bytes of the body before parsing, answer 2xx within {seconds} seconds, and \
        skip an `eventId` you have seen: every event comes at least once. Without an address, read `GET \
        /v1/webhook-events?after=<seq>&wait={EVENT_WAIT_S}`.")),
        ("States", format!("A booking goes {created} → {protected} → {canceled}, or {created} → {canceled}; protecting again \
        returns what is there, and what a state does not allow is refused with 409. A booking is canceled once: show what \
        `policy-evaluation` gives, send it back as `expected`, and on 409 `quote_changed` show the new one. A resolution is \
        `final`, or `pending_review` until a person decides; what was decided is a second one, `decided`.")),
        ("Limits", format!("A body is a JSON object in camelCase of at most {body} KiB, sent as `application/json`. 429 and 503 carry \
            `Retry-After`; `RateLimit` says what is left. Wait that long, then repeat with the same `Idempotency-Key`.")),
        ("Lists", format!("Lists answer `{{data, hasMore, nextCursor}}`: pass `nextCursor` as `?cursor=` until `hasMore` is false. The log of events continues by number instead: `nextAfter` as `?after=`. `limit` is 1 to {PAGE_ROWS}, {PAGE_ROWS_DEFAULT} when left out. A query parameter that an operation does not know is refused.")),
        ("Isolation", "A key sees its own partner's data only. Another partner's id answers 404 `not_found`, byte for byte like an id that never existed; a path that does not exist is 404 `path_not_found`.".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use bookguard_core::policy::ResolutionStatus;

    use super::*;

    #[test]
    fn the_rule_about_states_names_each_of_a_resolution() {
        let rules = rules();
        let (_, states) = rules.iter().find(|(name, _)| *name == "States").unwrap();
        for (word, _) in ResolutionStatus::WORDS {
            assert!(states.contains(&format!("`{word}`")), "{word}: {states}");
        }
    }

    #[test]
    fn every_rule_is_one_line_of_text() {
        for (name, text) in rules() {
            assert!(
                !text.contains('\n') && !text.contains("  "),
                "{name}: {text}"
            );
            assert!(text.ends_with('.'), "{name}");
        }
    }
}
