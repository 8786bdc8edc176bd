//! What an answer leads to: the operations that take an id it holds.

use serde_json::json;

use bookguard_core::input::Node;

/// An operation, where its answer holds an id, the parameter that takes it, and whose parameter that is.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

const OF_A_BOOKING: &[&str] = &[
    "getBooking",
    "protectBooking",
    "getDisclosure",
    "acceptTerms",
    "rescheduleBooking",
    "evaluatePolicy",
    "cancelBooking",
    "listBookingWebhookEvents",
    "getEvidence",
];
const OF_AN_EVENT: &[&str] = &["getWebhookEvent", "retryWebhookEvent"];
const OF_A_POLICY: &[&str] = &["getPolicy", "listPolicyVersions", "putPolicy"];

const LINKS: [Row; 28] = [
    ("createApiKey", "/apiKeyId", "apiKeyId", &["revokeApiKey"]),
    ("createBooking", "/bookingId", "bookingId", OF_A_BOOKING),
    (
        "listBookings",
        "/data/0/bookingId",
        "bookingId",
        OF_A_BOOKING,
    ),
    (
        "getBooking",
        "/bookingId",
        "bookingId",
        &[
            "protectBooking",
            "evaluatePolicy",
            "cancelBooking",
            "getEvidence",
        ],
    ),
    (
        "protectBooking",
        "/bookingId",
        "bookingId",
        &[
            "getEvidence",
            "evaluatePolicy",
            "cancelBooking",
            "listBookingWebhookEvents",
        ],
    ),
    (
        "rescheduleBooking",
        "/bookingId",
        "bookingId",
        &["getDisclosure", "evaluatePolicy", "getEvidence"],
    ),
    ("getDisclosure", "/bookingId", "bookingId", &["acceptTerms"]),
    (
        "acceptTerms",
        "/bookingId",
        "bookingId",
        &["getDisclosure", "getEvidence"],
    ),
    (
        "evaluatePolicy",
        "/bookingId",
        "bookingId",
        &["cancelBooking"],
    ),
    (
        "cancelBooking",
        "/resolutionId",
        "resolutionId",
        &["getResolution", "decideResolution"],
    ),
    (
        "cancelBooking",
        "/bookingId",
        "bookingId",
        &["getBooking", "getEvidence"],
    ),
    (
        "getResolution",
        "/resolutionId",
        "resolutionId",
        &["decideResolution"],
    ),
    ("getResolution", "/bookingId", "bookingId", &["getEvidence"]),
    (
        "decideResolution",
        "/resolutionId",
        "resolutionId",
        &["getResolution"],
    ),
    (
        "decideResolution",
        "/bookingId",
        "bookingId",
        &["getEvidence"],
    ),
    (
        "putPolicy",
        "/policyId",
        "policyId",
        &["getPolicy", "listPolicyVersions"],
    ),
    ("listPolicies", "/data/0/policyId", "policyId", OF_A_POLICY),
    (
        "listBookingWebhookEvents",
        "/webhookEvents/0/eventId",
        "eventId",
        OF_AN_EVENT,
    ),
    (
        "listWebhookEvents",
        "/data/0/eventId",
        "eventId",
        OF_AN_EVENT,
    ),
    (
        "getWebhookEvent",
        "/eventId",
        "eventId",
        &["retryWebhookEvent"],
    ),
    (
        "retryWebhookEvent",
        "/eventId",
        "eventId",
        &["getWebhookEvent"],
    ),
    (
        "recoverWebhookEvents",
        "/recoveryId",
        "recoveryId",
        &["getWebhookRecovery"],
    ),
    (
        "listWebhookRecoveries",
        "/data/0/recoveryId",
        "recoveryId",
        &["getWebhookRecovery"],
    ),
    (
        "createWebhookEndpoint",
        "/endpointId",
        "endpointId",
        &[
            "getWebhookEndpoint",
            "updateWebhookEndpoint",
            "testWebhookEndpoint",
            "rotateWebhookEndpointSecret",
            "deleteWebhookEndpoint",
        ],
    ),
    (
        "listWebhookEndpoints",
        "/data/0/endpointId",
        "endpointId",
        &["getWebhookEndpoint"],
    ),
    (
        "getWebhookEndpoint",
        "/endpointId",
        "endpointId",
        &["updateWebhookEndpoint", "testWebhookEndpoint"],
    ),
    (
        "updateWebhookEndpoint",
        "/endpointId",
        "endpointId",
        &["testWebhookEndpoint", "deleteWebhookEndpoint"],
    ),
    ("listBookings", "/nextCursor", "cursor", &["listBookings"]),
];

/// The links of an operation's success.
pub(super) fn of(id: &str) -> Node {
    let rows = LINKS.iter().filter(|(from, ..)| *from == id);
    let links = rows.flat_map(|(_, pointer, parameter, targets)| {
        targets.iter().map(move |target| {
            let value = format!("$response.body#{pointer}");
            let link = json!({"operationId": target, "parameters": {*parameter: value}});
            (*target, Node::from(link))
        })
    });
    Node::object(links)
}
