//! Policies: a partner's own, the library's, and what is to be said about one before it is used.

use serde::{Deserialize, Serialize};

use super::{
    Access, Action, Body, CURSOR, LIMIT, Method, Operation, QueryParam, Request, Route, page_from,
    query_fault, query_one, query_value, read, write,
};
use crate::command::{Ask, KeptPolicy, Reply};
use crate::error::{Error, FieldError};
use crate::input;
use crate::model::{Page, Scope, Timestamp};
use crate::policy::{POLICY_ID_FIX, Policy, is_policy_id};
use crate::session::Session;

/// A version of a policy, with everything there is to say about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct PolicyVersion {
    /// The policy's id.
    pub policy_id: String,
    /// The version's number, from 1.
    pub version: u32,
    /// `sha256:` and the hex SHA-256 of the policy's canonical JSON (RFC 8785).
    pub policy_hash: String,
    /// When this version was put.
    pub created_at: Timestamp,
    /// The policy with every default written out.
    pub policy: Policy,
    /// The same in plain English, one sentence per rule.
    pub english: Vec<String>,
    /// What its author may not have meant; keeps nothing from being used.
    pub warnings: Vec<FieldError>,
}

/// A version of a policy as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct PolicyListing {
    /// The policy's id.
    pub policy_id: String,
    /// The version's number, from 1.
    pub version: u32,
    /// The policy's name, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub name: Option<String>,
    /// `sha256:` and the hex SHA-256 of the policy's canonical JSON (RFC 8785).
    pub policy_hash: String,
    /// When this version was put.
    pub created_at: Timestamp,
}

/// A policy of the library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct PolicyTemplate {
    /// The id a booking or a default names it by.
    pub policy_id: String,
    /// `sha256:` and the hex SHA-256 of the policy's canonical JSON (RFC 8785).
    pub policy_hash: String,
    /// The event types it is taken for when nobody chose; `*` is for those the library does not know.
    pub default_for: Vec<String>,
    /// The policy with every default written out; put it under an id of your own and change it.
    pub policy: Policy,
    /// The same in plain English, one sentence per rule.
    pub english: Vec<String>,
}

/// What there is to say about a policy before it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct PolicyCheck {
    /// Whether it can be used.
    pub valid: bool,
    /// Every fault by JSON pointer, with a fix.
    pub errors: Vec<FieldError>,
    /// What its author may not have meant; keeps nothing from being used.
    pub warnings: Vec<FieldError>,
    /// What it says in plain English, one sentence per rule; empty when it cannot be used.
    pub english: Vec<String>,
    /// The hash it would have on a booking as it stands here; absent when it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub policy_hash: Option<String>,
    /// The policy with every default written out; absent when it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub normalized: Option<Policy>,
}

impl From<KeptPolicy> for PolicyVersion {
    fn from(KeptPolicy { policy, made_at }: KeptPolicy) -> Self {
        let document = policy.document();
        Self {
            policy_id: document.policy_id.clone(),
            version: document.version,
            policy_hash: policy.hash().to_owned(),
            created_at: made_at,
            english: policy.in_english(),
            warnings: policy.warnings(),
            policy,
        }
    }
}

impl From<KeptPolicy> for PolicyListing {
    fn from(KeptPolicy { policy, made_at }: KeptPolicy) -> Self {
        let document = policy.document();
        Self {
            policy_id: document.policy_id.clone(),
            version: document.version,
            name: document.name.clone(),
            policy_hash: policy.hash().to_owned(),
            created_at: made_at,
        }
    }
}

/// `PUT /v1/policies/{policyId}`
pub struct PutPolicy;

impl Operation for PutPolicy {
    const ROUTE: Route = Route {
        id: "putPolicy",
        method: Method::Put,
        path: "/v1/policies/{policyId}",
        access: Access::Scope(Scope::PoliciesWrite),
        status: 200,
        body: Body::Required,
        query: &[],
        refusals: &[409],
        tag: "Policies",
        summary: "Put a policy of your own",
        description: "Makes a new version, which never changes; bookings recorded from now on that name the policy, or for which it is \
                      the default, take it, and those there are keep their frozen terms. What says the same as the latest version \
                      makes none and answers that one. `version` may be left out; if it is sent it must be the latest (the one you \
                      changed) or the next, else 409 `policy_version_conflict`. Ids of the library are not yours to take: 409 \
                      `policy_id_reserved`.",
    };
    type Output = PolicyVersion;

    fn prepare(session: &Session, request: &Request) -> Result<Action<PolicyVersion>, Error> {
        let policy_id = addressed(request);
        if !is_policy_id(policy_id) {
            return Err(Error::faults(vec![FieldError {
                pointer: "policyId".to_owned(),
                code: "bad_policy_id".to_owned(),
                message: format!(
                    "\"{}\" in the path is not a policy id",
                    input::shorten(policy_id)
                ),
                fix: POLICY_ID_FIX.to_owned(),
            }]));
        }
        let (policy, version_said) = input::read(&request.body, |form| {
            let said = form.has("version");
            Some((Policy::read_as(form, policy_id)?, said))
        })?;
        let ask = Ask::PutPolicy {
            partner_id: session.partner_id()?,
            policy,
            version_said,
        };
        Ok(write(session.service.clock().now(), ask))
    }

    fn pick(reply: Reply) -> Option<PolicyVersion> {
        match reply {
            Reply::PolicyPut(kept) => Some((*kept).into()),
            _ => None,
        }
    }
}

fn addressed(request: &Request) -> &str {
    request.path.first().map_or("", String::as_str)
}

/// The id in the path; anything that is none names nothing.
fn path_policy_id(request: &Request) -> Result<String, Error> {
    let id = addressed(request);
    match is_policy_id(id) {
        true => Ok(id.to_owned()),
        false => Err(Error::not_found("policy")),
    }
}

/// A number of a version.
fn version(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|n| digits && *n > 0)
}

/// `GET /v1/policies/{policyId}`
pub struct GetPolicy;

impl Operation for GetPolicy {
    const ROUTE: Route = Route {
        id: "getPolicy",
        method: Method::Get,
        path: "/v1/policies/{policyId}",
        access: Access::Scope(Scope::PoliciesRead),
        status: 200,
        body: Body::None,
        query: &[QueryParam {
            name: "version",
            description: "That version; the latest when not given.",
        }],
        refusals: &[404],
        tag: "Policies",
        summary: "One policy of your own",
        description: "The latest version, or the one asked for. The library's are at `GET /v1/policy-templates`.",
    };
    type Output = PolicyVersion;

    fn prepare(session: &Session, request: &Request) -> Result<Action<PolicyVersion>, Error> {
        let policy_id = path_policy_id(request)?;
        let partner_id = session.partner_id()?;
        let wanted = match query_value(request, "version") {
            None => None,
            Some(text) => Some(version(text).ok_or_else(|| {
                Error::faults(vec![query_fault(
                    "version",
                    "out_of_range",
                    "is not a version",
                    "Send a whole number from 1, or leave it out for the latest.",
                )])
            })?),
        };
        Ok(read(move |session| {
            query_one(session, |reader| {
                reader.policy(&partner_id, &policy_id, wanted)
            })?
            .map(PolicyVersion::from)
            .ok_or_else(|| Error::not_found("policy"))
        }))
    }
}

/// `GET /v1/policies`
pub struct ListPolicies;

impl Operation for ListPolicies {
    const ROUTE: Route = Route {
        id: "listPolicies",
        method: Method::Get,
        path: "/v1/policies",
        access: Access::Scope(Scope::PoliciesRead),
        status: 200,
        body: Body::None,
        query: &[LIMIT, CURSOR],
        refusals: &[],
        tag: "Policies",
        summary: "List your own policies",
        description: "The latest version of each, in the order of their ids.",
    };
    type Output = Page<PolicyListing>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<PolicyListing>>, Error> {
        let own = |text: &str| is_policy_id(text).then(|| text.to_owned());
        let (limit, after) = page_from(request, own)?;
        let (partner_id, after) = (session.partner_id()?, after.unwrap_or_default());
        Ok(read(move |session| {
            let rows = query_one(session, |reader| {
                reader.policies(&partner_id, &after, limit + 1)
            })?;
            let rows = rows.into_iter().map(PolicyListing::from).collect();
            Ok(Page::of(rows, limit, |policy: &PolicyListing| {
                policy.policy_id.clone()
            }))
        }))
    }
}

/// `GET /v1/policies/{policyId}/versions`
pub struct ListPolicyVersions;

impl Operation for ListPolicyVersions {
    const ROUTE: Route = Route {
        id: "listPolicyVersions",
        method: Method::Get,
        path: "/v1/policies/{policyId}/versions",
        access: Access::Scope(Scope::PoliciesRead),
        status: 200,
        body: Body::None,
        query: &[LIMIT, CURSOR],
        refusals: &[404],
        tag: "Policies",
        summary: "List the versions of a policy",
        description: "Newest first. Versions never change and are never removed.",
    };
    type Output = Page<PolicyListing>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<PolicyListing>>, Error> {
        let policy_id = path_policy_id(request)?;
        let (limit, before) = page_from(request, version)?;
        let partner_id = session.partner_id()?;
        Ok(read(move |session| {
            let rows = query_one(session, |reader| {
                reader.policy_versions(&partner_id, &policy_id, before, limit + 1)
            })?;
            if rows.is_empty() && before.is_none() {
                return Err(Error::not_found("policy"));
            }
            let rows = rows.into_iter().map(PolicyListing::from).collect();
            Ok(Page::of(rows, limit, |policy: &PolicyListing| {
                policy.version.to_string()
            }))
        }))
    }
}

/// `POST /v1/policies/validate`
pub struct ValidatePolicy;

impl Operation for ValidatePolicy {
    const ROUTE: Route = Route {
        id: "validatePolicy",
        method: Method::Post,
        path: "/v1/policies/validate",
        access: Access::Scope(Scope::PoliciesRead),
        status: 200,
        body: Body::Required,
        query: &[],
        refusals: &[],
        tag: "Policies",
        summary: "Check a policy",
        description: "Answers 200 for whatever is JSON and says whether it is a policy: every error with its place and fix, warnings, and \
                      what it means in plain English. Keeps nothing.",
    };
    type Output = PolicyCheck;

    fn prepare(_: &Session, request: &Request) -> Result<Action<PolicyCheck>, Error> {
        let check = PolicyCheck::of(&request.body)?;
        Ok(read(move |_| Ok(check)))
    }
}

impl PolicyCheck {
    /// Checks a policy's JSON text, as a booking may hold it.
    ///
    /// Errors: `invalid_json` for what is no JSON.
    pub fn of(text: &[u8]) -> Result<Self, Error> {
        match input::read(text, Policy::read) {
            Ok(policy) => Ok(Self {
                valid: true,
                errors: Vec::new(),
                warnings: policy.warnings(),
                english: policy.in_english(),
                policy_hash: Some(policy.hash().to_owned()),
                normalized: Some(policy),
            }),
            Err(error) if error.details.is_empty() => Err(error),
            Err(error) => Ok(Self {
                valid: false,
                errors: error.details,
                warnings: Vec::new(),
                english: Vec::new(),
                policy_hash: None,
                normalized: None,
            }),
        }
    }
}

/// `GET /v1/policy-templates`
pub struct ListPolicyTemplates;

impl Operation for ListPolicyTemplates {
    const ROUTE: Route = Route {
        id: "listPolicyTemplates",
        method: Method::Get,
        path: "/v1/policy-templates",
        access: Access::Scope(Scope::PoliciesRead),
        status: 200,
        body: Body::None,
        query: &[],
        refusals: &[],
        tag: "Policies",
        summary: "The library of policies",
        description: "Policies that every booking may name and every default may choose. All of them on one page.",
    };
    type Output = Page<PolicyTemplate>;

    fn prepare(_: &Session, _: &Request) -> Result<Action<Page<PolicyTemplate>>, Error> {
        Ok(read(|_| Ok(templates())))
    }
}

/// The library, as [`ListPolicyTemplates`] answers it.
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

    #[test]
    fn versions_are_whole_numbers_from_one() {
        for (text, expected) in [
            ("1", Some(1)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("0", None),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            ("", None),
            (" 1", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
