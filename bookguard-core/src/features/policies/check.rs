//! The library of policies, and the check of a policy before it is used.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::example::{ExampleBooking, PARAMETERS};
use crate::error::{Error, FieldError};
use crate::input::{self, Declaration, Json};
use crate::model::{Page, Scope, Timestamp};
use crate::operation::{Action, Body, Operation, Request, Route, query_one, read};
use crate::policy::{Assumption, POLICY_SCHEMA, Policy, Segment};
use crate::session::{Access, Session};

/// A policy of the library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyTemplate {
    /// The id by which a booking or a default names it.
    pub policy_id: String,
    /// `sha256:` and the hex SHA-256 of the policy's canonical JSON (RFC 8785).
    pub policy_hash: String,
    /// The event types it applies to when no policy was chosen; `*` stands for those the library does not know.
    pub default_for: Vec<String>,
    /// The policy with every default written out; put it under an id of your own and change it.
    pub policy: Policy,
    /// The same in plain English, one sentence per rule.
    pub english: Vec<String>,
    /// The schedule of the booking that the parameters describe; absent without them, and when the policy's fixed amounts are in
    /// another currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Vec<Segment>>,
}

/// The result of checking a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyCheck {
    /// Whether the policy can be used.
    pub valid: bool,
    /// Every fault by JSON pointer, with a fix.
    pub errors: Vec<FieldError>,
    /// Likely mistakes of its author; a warning does not keep the policy from being used.
    pub warnings: Vec<FieldError>,
    /// The policy in plain English, one sentence per rule; empty when it cannot be used.
    pub english: Vec<String>,
    /// The hash it would have on a booking as written here; absent when it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<String>,
    /// The policy with every default written out; absent when it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalized: Option<Policy>,
    /// The schedule of the booking that the parameters describe; absent without them, and when the policy cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Vec<Segment>>,
    /// What the schedule assumes because it was not given; absent when nothing was. A booking without a time zone is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumptions: Option<Vec<Assumption>>,
}

/// `POST /v1/policies/validate`
pub struct ValidatePolicy;

/// An example of a policy as an author writes it.
pub(super) const EXAMPLE: &str = r#"{
    "policyId": "house",
    "name": "House policy",
    "organizer": {
        "tiers": [
            {"before": "P30D", "outcome": {"refundBps": 10000}},
            {"before": "P7D", "outcome": {"refundBps": 5000}}
        ],
        "late": {"refundBps": 0}
    },
    "talent": {"cancel": {"refundBps": 10000}}
}"#;
const DRAFT: Declaration = Declaration {
    name: "PolicyDraft",
    about: "A policy to check, valid or not.",
    example: EXAMPLE,
    reader: |v| {
        v.describe(|draft| {
            let policy = draft.part(None, |v| v.known_as(POLICY_SCHEMA).map(drop));
            let about = "Any other JSON: the answer says what is wrong with it.";
            let faulty = json!({"title": "FaultyPolicy", "description": about});
            draft.set("anyOf", Json::array([policy, faulty.into()]));
        });
        Some(())
    },
};

impl Operation for ValidatePolicy {
    const ROUTE: Route = Route {
        id: "validatePolicy",
        path: "/v1/policies/validate",
        access: Access::Scope(Scope::PoliciesRead),
        body: Body::Required(&DRAFT),
        query: &PARAMETERS,
        while_suspended: true,
        tag: "Policies",
        summary: "Check a policy",
        description: "Answers 200 for any JSON and says whether it is a policy: every error with its place and fix, warnings, \
                      and what the policy means in plain English. It judges the policy as a booking may bring it along: with its \
                      `policyId`, and a `version` from 1, if any; a PUT also takes one without its id, which the address has, and version 0 if there is none yet. With `eventDate`, it also shows how much is returned, and until when. \
                      Stores nothing. The JSON Schema of policies is at `/policy.schema.json`.",
        ..Route::POST
    };
    type Output = PolicyCheck;

    fn prepare(_: &Session, request: &Request) -> Result<Action<PolicyCheck>, Error> {
        let check = PolicyCheck::of(&request.body)?;
        let example = ExampleBooking::read(request)?;
        Ok(read::<Self>(move |session| match example {
            Some(example) => {
                let zone = time_zone(session)?;
                check.with_example(&example, zone.as_deref(), session.service.clock().now())
            }
            None => Ok(check),
        }))
    }
}

/// The time zone that the partner chose for its events.
fn time_zone(session: &Session) -> Result<Option<String>, Error> {
    let Ok(partner_id) = session.partner_id() else {
        return Ok(None);
    };
    let (quota, at) = (
        session.service.config().quota,
        session.service.clock().now(),
    );
    let account = query_one(session, |reader| reader.account(&partner_id, quota, at))?;
    Ok(account.and_then(|account| account.partner.settings.time_zone))
}

impl PolicyCheck {
    /// Checks a policy's JSON text in the form in which a booking may contain it.
    ///
    /// # Errors
    /// `invalid_json` for text that is not JSON.
    pub fn of(text: &[u8]) -> Result<Self, Error> {
        match input::read(text, Policy::read) {
            Ok(policy) => Ok(Self {
                valid: true,
                warnings: policy.warnings(),
                english: policy.in_english(),
                policy_hash: Some(policy.hash().to_owned()),
                normalized: Some(policy),
                ..Self::default()
            }),
            Err(error) if error.details.is_empty() => Err(error),
            Err(error) => Ok(Self {
                errors: error.details,
                ..Self::default()
            }),
        }
    }
}

/// `GET /v1/policy-templates`
pub struct ListPolicyTemplates;

impl Operation for ListPolicyTemplates {
    const ROUTE: Route = Route {
        id: "listPolicyTemplates",
        path: "/v1/policy-templates",
        access: Access::Scope(Scope::PoliciesRead),
        query: &PARAMETERS,
        tag: "Policies",
        summary: "The library of policies",
        description: "Policies that every booking may name and every default may choose. All of them on one page. With `eventDate`, \
                      each shows how much is returned, and until when.",
        ..Route::GET
    };
    type Output = Page<PolicyTemplate>;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Page<PolicyTemplate>>, Error> {
        let example = ExampleBooking::read(request)?;
        Ok(read::<Self>(move |session| match example {
            Some(example) => {
                let zone = time_zone(session)?;
                templates_with(&example, zone.as_deref(), session.service.clock().now())
            }
            None => Ok(templates()),
        }))
    }
}

/// The library with the schedules of an example, as [`ListPolicyTemplates`] answers it.
///
/// # Errors
/// The faults of the example that depend on a policy.
pub fn templates_with(
    example: &ExampleBooking,
    partner_time_zone: Option<&str>,
    now: Timestamp,
) -> Result<Page<PolicyTemplate>, Error> {
    let mut page = templates();
    for template in &mut page.data {
        template.schedule = match example.terms(&template.policy, partner_time_zone, now) {
            Err(error) if error.code == "policy_currency_mismatch" => None,
            terms => Some(terms?.schedule),
        };
    }
    Ok(page)
}

/// The library without an example.
pub fn templates() -> Page<PolicyTemplate> {
    let template = |policy: &Policy| {
        let policy_id = &policy.document().policy_id;
        let types = Policy::template_event_types(policy_id);
        PolicyTemplate {
            policy_id: policy_id.clone(),
            policy_hash: policy.hash().to_owned(),
            default_for: types.into_iter().map(str::to_owned).collect(),
            english: policy.in_english(),
            policy: policy.clone(),
            schedule: None,
        }
    };
    Page {
        data: Policy::templates().iter().map(template).collect(),
        has_more: false,
        next_cursor: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_everything_about_whatever_is_json() {
        let good = br#"{"policyId":"p","organizer":{"late":{"refundBps":0}}}"#;
        let check = PolicyCheck::of(good).unwrap();
        assert!(check.valid && check.errors.is_empty() && !check.english.is_empty());
        assert_eq!(check.warnings[0].code, "no_grace");
        let normalized = check.normalized.unwrap();
        assert_eq!(check.policy_hash.as_deref(), Some(normalized.hash()));
        for (text, pointer, code) in [
            ("{}", "/policyId", "missing_field"),
            ("[]", "", "wrong_type"),
            ("null", "", "wrong_type"),
            ("1e999", "", "wrong_type"),
            (r#""firm""#, "", "wrong_type"),
            (
                r#"{"policyId":"p","version":0,"organizer":{"late":{"refundBps":0}}}"#,
                "/version",
                "out_of_range",
            ),
            (
                r#"{"policyId":"p","organizer":{"late":{"refundBps":0}},"claimWindow":"P99999999999D"}"#,
                "/claimWindow",
                "bad_duration",
            ),
        ] {
            let check = PolicyCheck::of(text.as_bytes()).unwrap();
            assert!(!check.valid && check.normalized.is_none() && check.policy_hash.is_none());
            let first = &check.errors[0];
            assert_eq!((&*first.pointer, &*first.code), (pointer, code), "{text}");
        }
        for text in ["", "{", "{]", "\u{feff}{}"] {
            let error = PolicyCheck::of(text.as_bytes()).unwrap_err();
            assert_eq!(error.code, "invalid_json", "{text}");
            assert!(error.message.contains("line 1 column"), "{error}");
        }
    }

    #[test]
    fn the_library_is_shown_whole_and_every_event_type_once() {
        let page = templates();
        assert_eq!(page.data.len(), 15);
        let mut types: Vec<&String> = page.data.iter().flat_map(|t| &t.default_for).collect();
        types.sort();
        let count = types.len();
        types.dedup();
        assert_eq!((types.len(), count), (21, 21));
        let firm = page.data.iter().find(|t| t.policy_id == "firm").unwrap();
        assert_eq!(firm.default_for, ["*", "rental", "stay"]);
    }
}
