//! Request bodies as the OpenAPI document shows them, where the core reads them field by field and has no such type.
//!
//! Nothing is parsed with these. A test below holds them against what the core reads.

mod draft;
mod partner;

use std::collections::BTreeMap;

use bookguard_core::model::{Currency, Decimal, Party, Timestamp};
use bookguard_core::policy::{Actor, EvidenceItem, Policy, Reason, ResolutionPath};

pub(crate) use draft::{NewPolicyBody, PolicyDraftBody};
pub(crate) use partner::PartnerChangesBody;

/// A booking to record.
#[derive(Debug, poem_openapi::Object)]
#[oai(rename = "NewBooking", rename_all = "camelCase")]
pub(crate) struct BookingBody {
    /// Must be the partner the key belongs to; may be left out.
    partner_id: Option<String>,
    /// Who performs, or what is booked.
    talent: Party,
    /// Who books.
    organizer: Party,
    /// Free text, such as "concert": 1 to 200 characters.
    event_type: String,
    /// When the event starts: RFC 3339 with an offset, or a local date-time or date together with `timeZone`.
    event_date: String,
    /// The event's IANA time zone, such as "America/New_York".
    time_zone: Option<String>,
    /// Total value: not negative, at most the currency's decimals, at most 15 significant digits.
    booking_value: Decimal,
    /// What has been paid so far; the whole value when not given.
    amount_paid: Option<Decimal>,
    /// ISO 4217 code; USD when not given.
    currency: Option<Currency>,
    /// A cancellation policy for this booking; excludes `policyId`.
    policy: Option<Policy>,
    /// A policy of your own, in its latest version, or of the library, such as "moderate"; excludes `policy`.
    policy_id: Option<String>,
    /// Your own pairs: at most 20, keys of at most 64 and values of at most 500 characters.
    metadata: Option<BTreeMap<String, String>>,
}

/// A change of an event's date.
#[derive(Debug, poem_openapi::Object)]
#[oai(rename = "NewDate", rename_all = "camelCase")]
pub(crate) struct RescheduleBody {
    /// When the event starts from now on: RFC 3339 with an offset, or a local date-time or date in the booking's time zone.
    event_date: String,
    /// The event's IANA time zone from now on; the one it has, when not given.
    time_zone: Option<String>,
    /// Who agreed: organizer and talent, and the partner where it did too.
    agreed_by: Vec<Actor>,
    /// When they did; when it was received, if not given. At most 5 minutes ahead, and not in another step of the schedule.
    at: Option<Timestamp>,
    /// true: answer what would come of it, and change nothing.
    dry_run: Option<bool>,
}

/// An acceptance of a booking's terms.
#[derive(Debug, poem_openapi::Object)]
#[oai(rename = "NewAcceptance", rename_all = "camelCase")]
pub(crate) struct AcceptanceBody {
    /// Who accepts: organizer, talent or partner.
    party: Actor,
    /// How, in your own words, such as "checkbox" or "e-signature": 1 to 64 characters.
    method: String,
    /// When the party accepted: at most 5 minutes ahead, and not before the text was there.
    at: Timestamp,
    /// From which network address (IPv4 or IPv6).
    ip: Option<String>,
    /// With which program, at most 1,000 characters.
    user_agent: Option<String>,
    /// The `disclosureHash` of the text that was shown.
    disclosure_hash: String,
}

/// A cancellation.
#[derive(Debug, poem_openapi::Object)]
#[oai(rename = "NewCancellation", rename_all = "camelCase")]
pub(crate) struct CancelBody {
    /// Who cancels.
    canceled_by: Actor,
    /// Why.
    reason: Option<Reason>,
    /// In somebody's own words, at most 2,000 characters.
    note: Option<String>,
    /// From when it counts; when it was received, if not given. At most 5 minutes ahead.
    effective_at: Option<Timestamp>,
    /// What both sides agreed goes back: needed with `canceledBy` mutual, and only there.
    agreed_refund: Option<Decimal>,
    /// What is said to prove it: at most 20 documents, of which the digests are kept.
    evidence: Option<Vec<EvidenceItem>>,
    /// What it must come to, or nothing happens and the answer is 409 `quote_changed`.
    expected: Option<ExpectedBody>,
}

/// What somebody was shown before canceling; what is left out is not compared.
#[derive(Debug, poem_openapi::Object)]
#[oai(rename = "ExpectedResult", rename_all = "camelCase")]
pub(crate) struct ExpectedBody {
    /// The refund in minor units.
    refund_minor_units: Option<i64>,
    /// What happens to the money.
    resolution_path: Option<ResolutionPath>,
    /// The policy's hash.
    policy_hash: Option<String>,
}

/// A person's decision.
#[derive(Debug, poem_openapi::Object)]
#[oai(rename = "NewDecision", rename_all = "camelCase")]
pub(crate) struct DecisionBody {
    /// What goes back, at most what was paid; the rest is kept.
    refund: Decimal,
    /// Who decides, in your own words: 1 to 200 characters.
    decided_by: String,
    /// Why: 1 to 2,000 characters. It stands in the ledger and in every evidence packet.
    rationale: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bookguard_core::error::Error;
    use bookguard_core::features::acceptances::AcceptanceRequest;
    use bookguard_core::features::api_keys::KeyRequest;
    use bookguard_core::features::bookings::BookingRequest;
    use bookguard_core::features::cancellations::{CancelRequest, DecisionRequest};
    use bookguard_core::features::endpoints::NewEndpoint;
    use bookguard_core::features::endpoints::secrets::SecretRotation;
    use bookguard_core::features::endpoints::update::EndpointChanges;
    use bookguard_core::features::partners::NewPartner;
    use bookguard_core::features::partners::PartnerUpdate;
    use bookguard_core::features::reschedules::RescheduleRequest;
    use bookguard_core::policy::PolicySet;
    use poem_openapi::registry::Registry;
    use poem_openapi::types::Type;

    use super::*;

    type Fields = BTreeSet<String>;

    /// The fields the core reports with `code` for a body.
    fn reported(read: &dyn Fn(&[u8]) -> Option<Error>, body: &str, code: &str) -> Fields {
        let details = read(body.as_bytes())
            .map(|error| error.details)
            .unwrap_or_default();
        details
            .into_iter()
            .filter(|d| d.code == code)
            .map(|d| d.pointer[1..].to_owned())
            .collect()
    }

    fn properties<T: Type>() -> Fields {
        let mut registry = Registry::new();
        T::register(&mut registry);
        let properties = &registry.schemas[&*T::name()].properties;
        properties
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect()
    }

    fn documented<T: Type>(read: &dyn Fn(&[u8]) -> Option<Error>) {
        let mut registry = Registry::new();
        T::register(&mut registry);
        let schema = &registry.schemas[&*T::name()];
        let required: Fields = schema
            .required
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
        assert_eq!(
            reported(read, "{}", "missing_field"),
            required,
            "{}: what is required",
            T::name()
        );
        let all = properties::<T>();
        let nulls: Vec<String> = all.iter().map(|name| format!("\"{name}\":null")).collect();
        let body = format!("{{{}}}", nulls.join(","));
        assert_eq!(
            reported(read, &body, "null"),
            all,
            "{}: what is known",
            T::name()
        );
    }

    #[test]
    fn the_documented_bodies_are_the_ones_the_core_reads() {
        documented::<BookingBody>(&|body| BookingRequest::read(body, &PolicySet::default()).err());
        documented::<AcceptanceBody>(&|body| AcceptanceRequest::read(body).err());
        documented::<RescheduleBody>(&|body| RescheduleRequest::read(body).err());
        documented::<CancelBody>(&|body| CancelRequest::read(body).err());
        documented::<DecisionBody>(&|body| DecisionRequest::read(body).err());
        documented::<NewPartner>(&|body| NewPartner::read(body).err());
        documented::<KeyRequest>(&|body| KeyRequest::read(body).err());
        documented::<SecretRotation>(&|body| SecretRotation::read(body).err());
        let judge = |url: &str| Ok(url.to_owned());
        let changes = |body: &[u8]| EndpointChanges::read(body, &judge).err();
        let all = properties::<EndpointChanges>();
        let wrong = |value| all.iter().map(move |name| format!("\"{name}\":{value}"));
        let body = format!("{{{}}}", wrong("{}").collect::<Vec<_>>().join(","));
        assert_eq!(reported(&changes, &body, "wrong_type"), all);
        assert_eq!(reported(&changes, "{}", "missing_field"), Fields::new());
        // Null is a value here.
        let changes = |body: &[u8]| PartnerUpdate::read(body).err();
        let numbers = r#"{"defaultPolicies":1,"timeZone":1,"other":1}"#;
        let known: Fields = ["defaultPolicies", "timeZone"].map(str::to_owned).into();
        assert_eq!(reported(&changes, numbers, "wrong_type"), known);
        assert_eq!(properties::<PartnerChangesBody>(), known);
        documented::<NewEndpoint>(&|body| NewEndpoint::read(body, &|url| Ok(url.to_owned())).err());
    }
}
