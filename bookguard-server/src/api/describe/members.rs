//! What the members of answers hold, by name, where the type is only text or a number: a name means the same in the whole
//! interface. The readers of requests describe their own members.

use bookguard_core::error::Error;
use bookguard_core::evidence::PACKET_TYPE;
use bookguard_core::features::cancellations::SHA256;
use bookguard_core::input::Json;
use bookguard_core::limits;
use bookguard_core::policy::POLICY_ID_PATTERN;
use serde_json::{Value, json};

const HEX: &str = "^[0-9a-f]{64}$";
const SECRET: &str = "^whsec_[A-Za-z0-9+/]{43}=$";

/// The patterns (ECMA 262) of text members.
pub(super) const PATTERNS: [(&str, &str); 12] = [
    ("apiKey", "^bgk_[0-9A-Za-z]{36}$"),
    ("bodySha256", HEX),
    // Of an error; in upper case, of an explanation.
    ("code", "^([a-z0-9_]+|[A-Z0-9_]+)$"),
    ("disclosureHash", SHA256),
    ("hint", "^[0-9A-Za-z]{4}$"),
    ("leafHash", HEX),
    ("policyHash", SHA256),
    ("policyId", POLICY_ID_PATTERN),
    ("responseSha256", HEX),
    ("rootHash", HEX),
    ("secret", SECRET),
    ("signingSecret", SECRET),
];

/// The least and the greatest values of whole numbers.
pub(super) const NUMBERS: [(&str, u64, Option<u64>); 6] = [
    ("number", 1, None),
    ("responseLen", 0, Some(limits::RESPONSE_BYTES as u64)),
    ("seq", 1, None),
    ("statusCode", 100, Some(999)),
    ("treeSize", 1, None),
    ("version", 1, None),
];

/// Members with a constant value: the component, the member, and the value.
pub(super) fn constants() -> [(&'static str, &'static str, Value); 5] {
    [
        ("EvidencePacket", "type", PACKET_TYPE.into()),
        ("Health", "status", "ok".into()),
        ("Protected", "protected", true.into()),
        ("Unauthorized", "error", "Unauthorized".into()),
        (
            "Unauthorized",
            "message",
            Error::unauthorized().message.into(),
        ),
    ]
}

/// Adds to a member what its name implies.
pub(super) fn say(name: &str, member: &mut Json) {
    let is = |kind: &str| member.get("type").is_some_and(|ty| holds(ty, kind));
    let (is_text, is_number) = (is("string"), is("integer"));
    if let Some((_, pattern)) = PATTERNS.iter().find(|(known, _)| *known == name && is_text) {
        member.set("pattern", (*pattern).into());
    }
    let known = NUMBERS
        .iter()
        .find(|(known, ..)| *known == name && is_number);
    if let Some((_, least, most)) = known {
        member.set("minimum", json!(least).into());
        if let Some(most) = most {
            member.set("maximum", json!(most).into());
        }
    }
    match name {
        "url" if is_text => member.set("format", "uri".into()),
        "payload" => any_payload(member),
        _ => {}
    }
}

fn holds(ty: &Json, kind: &str) -> bool {
    match ty {
        Json::Array(kinds) => kinds.iter().any(|known| known.as_str() == Some(kind)),
        ty => ty.as_str() == Some(kind),
    }
}

/// The payload of an event, as written for receivers; null once the event is pruned.
fn any_payload(member: &mut Json) {
    let payloads = [
        "BookingCreated",
        "BookingProtected",
        "ResolutionCreated",
        "BookingRescheduled",
        "TermsAccepted",
        "EndpointSuspended",
        "ApiKeyExpiring",
    ];
    let payloads = payloads.map(|event| super::component("schemas", &format!("{event}Payload")));
    let null = Json::from(json!({"type": "null"}));
    member.set("anyOf", Json::array(payloads.into_iter().chain([null])));
}
