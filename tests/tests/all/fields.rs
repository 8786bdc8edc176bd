//! The faults of each body's members, tested on the reader of each declaration.
//!
//! | module | tests |
//! |---|---|
//! | `limits` | the declared types, words and limits: each just within and just beyond |
//! | `tables` | the faults that only the reader detects, in `fields/<Body>.txt` |
//!
//! Each probe is also checked against the body's schema, which must refuse exactly what the reader refuses. `wire::bodies`
//! shows for one fault of each kind that a caller gets it over HTTP.

mod limits;
pub(crate) mod tables;

use std::collections::BTreeSet;

use bookguard_core::Error;
use bookguard_core::features::acceptances::AcceptTerms;
use bookguard_core::features::api_keys::CreateApiKey;
use bookguard_core::features::api_keys::rotation::RotateApiKey;
use bookguard_core::features::bookings::CreateBooking;
use bookguard_core::features::cancellations::{CancelBooking, DecideResolution};
use bookguard_core::features::console::CreateConsoleLink;
use bookguard_core::features::endings::EndContract;
use bookguard_core::features::endpoints::CreateEndpoint;
use bookguard_core::features::endpoints::secrets::RotateEndpointSecret;
use bookguard_core::features::endpoints::update::UpdateEndpoint;
use bookguard_core::features::erasures::EraseValues;
use bookguard_core::features::holds::PlaceHold;
use bookguard_core::features::items::AddEvidenceItem;
use bookguard_core::features::operator_keys::CreateOperatorKey;
use bookguard_core::features::operator_sessions::CreateOperatorLink;
use bookguard_core::features::partners::account::EditPartner;
use bookguard_core::features::partners::{RegisterPartner, SetQuota, UpdatePartner};
use bookguard_core::features::recoveries::RecoverEvents;
use bookguard_core::features::reschedules::RescheduleBooking;
use bookguard_core::features::shares::CreateShare;
use bookguard_core::input::Declaration;
use bookguard_core::operation::Operation;
use bookguard_tests::interface;
use serde_json::Value;

/// Policies have a schema of their own, tested in `policy_schema`.
const POLICIES: [&str; 2] = ["NewPolicy", "PolicyDraft"];
/// Sent only by the operator, so they are not in the interface document of partners.
const OF_OPERATOR: &str =
    "EndOfContract QuotaChanges PartnerEdit OperatorKeyRequest OperatorLinkRequest";

/// Codes of faults that no schema can express: they depend on stored rows, the calendar, or a currency's digits.
const BEYOND_SCHEMAS: &str = "policy_unknown time_zone_unknown currency_unknown currency_has_no_minor_unit \
    amount_precision amount_too_large invalid_date invalid_uri invalid_string hidden_character too_many_marks bad_key \
    duplicate_key invalid_range";

/// Members that a reader does not judge. They depend on the policies' own reader, the caller, the booking's currency, the
/// operator's address rules, the cancellation's rules, or the longest share.
const JUDGED_LATER: &str = "/after /amount /policy /partnerId /endpointId /apiKeyId /operatorKeyId /expiresIn /refund \
    /agreedRefund /canceledBy /url";

fn of<O: Operation>() -> &'static Declaration {
    let body = O::ROUTE.body.declaration();
    body.unwrap_or_else(|| panic!("{} takes no body", O::ROUTE.id))
}

/// Every body that an operation reads field by field.
fn bodies() -> [&'static Declaration; 23] {
    [
        of::<RegisterPartner>(),
        of::<UpdatePartner>(),
        of::<SetQuota>(),
        of::<EditPartner>(),
        of::<CreateApiKey>(),
        of::<RotateApiKey>(),
        of::<CreateOperatorKey>(),
        of::<CreateConsoleLink>(),
        of::<CreateOperatorLink>(),
        of::<CreateShare>(),
        of::<EraseValues>(),
        of::<PlaceHold>(),
        of::<EndContract>(),
        of::<CreateBooking>(),
        of::<RescheduleBooking>(),
        of::<AcceptTerms>(),
        of::<AddEvidenceItem>(),
        of::<CancelBooking>(),
        of::<DecideResolution>(),
        of::<RecoverEvents>(),
        of::<CreateEndpoint>(),
        of::<UpdateEndpoint>(),
        of::<RotateEndpointSecret>(),
    ]
}

#[test]
fn every_body_of_the_interface_is_asked_here() {
    let mut named = BTreeSet::from(POLICIES);
    named.extend(bodies().map(|body| body.name));
    assert!(OF_OPERATOR.split(' ').all(|name| named.remove(name)));
    let document = bookguard_server::openapi();
    let operations = document["paths"].as_object().unwrap().values();
    let operations = operations.flat_map(|methods| methods.as_object().unwrap().values());
    let bodies = operations.filter_map(|operation| {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let name = schema["$ref"].as_str()?;
        name.strip_prefix("#/components/schemas/")
    });
    assert_eq!(bodies.collect::<BTreeSet<_>>(), named);
}

/// Returns the pointer and code of each fault that a reader finds in this text.
fn faults(read: impl Fn(&[u8]) -> Result<(), Error>, text: &str) -> Vec<(String, String)> {
    let Err(error) = read(text.as_bytes()) else {
        return Vec::new();
    };
    for fault in &error.details {
        let helps = fault.message.len() > 5 && fault.fix.len() > 5;
        assert!(helps, "{text:.300}: {fault:?}");
    }
    if let [only] = error.details.as_slice() {
        assert_eq!(
            error.code, only.code,
            "the only fault's code is the error's"
        );
    }
    let details = error.details.into_iter();
    details.map(|fault| (fault.pointer, fault.code)).collect()
}

#[test]
fn a_share_s_duration_has_a_pattern_that_only_a_sum_escapes() {
    let share = of::<CreateShare>();
    for (text, fits, is_read) in [
        ("P1D", true, true),
        ("P366D", true, true),
        ("P0366D", true, true),
        ("P052W", true, true),
        ("PT08784H", true, true),
        ("P1W2DT3H9999M", true, true),
        ("PT1M", true, true),
        ("PT0M", true, false),
        ("P52W3D", true, false),
        ("P60W", false, false),
        ("P400D", false, false),
        ("PT9000H", false, false),
        ("P", false, false),
        ("P1DT", false, false),
        ("P1M", false, false),
        ("P1Y", false, false),
        ("PT60S", false, false),
    ] {
        let body = serde_json::json!({"expiresIn": text});
        let judged = interface::judge_schema("/components/schemas/ShareRequest", &body);
        let read = faults(|bytes| share.check(bytes), &body.to_string()).is_empty();
        assert_eq!((judged.is_ok(), read), (fits, is_read), "{text}");
    }
}

/// Returns whether this member is not judged by the reader.
fn judged_later(pointer: &str) -> bool {
    JUDGED_LATER
        .split(' ')
        .any(|member| pointer.starts_with(member))
}

/// Asserts that the schema refuses a body if and only if its reader finds these faults.
fn schema_agrees(body: &Declaration, text: &str, faults: &[(String, String)]) {
    let beyond = |(_, code): &(String, String)| BEYOND_SCHEMAS.split(' ').any(|it| it == code);
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        // A lone surrogate, or a number that no program can hold.
        return;
    };
    if OF_OPERATOR.split(' ').any(|of| of == body.name) || value["canceledBy"] == "mutual" {
        return;
    }
    let name = body.name;
    match interface::judge_schema(&format!("/components/schemas/{name}"), &value) {
        Ok(()) => {
            let agreed = |fault: &(String, String)| beyond(fault) || judged_later(&fault.0);
            let agree = faults.iter().all(agreed);
            assert!(
                agree,
                "{name}: only the reader refuses {text:.300}: {faults:?}"
            );
        }
        Err(why) => {
            let place = JUDGED_LATER.split(' ').any(|member| why.contains(member));
            let agree = place || !faults.is_empty();
            assert!(agree, "{name}: only the schema refuses {text:.300}: {why}");
        }
    }
}
