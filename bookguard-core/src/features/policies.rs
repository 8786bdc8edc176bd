//! A partner's own policies and their versions. The library and the check of a policy are in `policies/check.rs`.

mod check;
mod example;
pub(crate) mod rule;

use serde::{Deserialize, Serialize};

use crate::engine::command::KeptPolicy;
use crate::error::{Error, FieldError};
use crate::input::{self, Declaration};
use crate::model::{Page, PartnerId, Scope, Timestamp};
use crate::operation::{
    Action, Body, LIMIT, Operation, QueryForm, QueryParam, Request, Route, cursor, page_from,
    query_fault, query_one, query_value, read, whole_number, write,
};
use crate::policy::{POLICY_ID_FIX, Policy, is_policy_id};
use crate::session::{Access, Session};
use check::EXAMPLE;

pub use check::{
    ListPolicyTemplates, PolicyCheck, PolicyTemplate, ValidatePolicy, templates, templates_with,
};
pub use example::ExampleBooking;

/// A version of a policy in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
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
    /// Likely mistakes of its author; a warning does not keep the policy from being used.
    pub warnings: Vec<FieldError>,
}

/// A version of a policy, as in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyListing {
    /// The policy's id.
    pub policy_id: String,
    /// The version's number, from 1.
    pub version: u32,
    /// The policy's name, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `sha256:` and the hex SHA-256 of the policy's canonical JSON (RFC 8785).
    pub policy_hash: String,
    /// When this version was put.
    pub created_at: Timestamp,
}

impl PolicyVersion {
    /// A version, with its English text and warnings already worded.
    pub(crate) fn of(
        KeptPolicy { policy, made_at }: KeptPolicy,
        english: Vec<String>,
        warnings: Vec<FieldError>,
    ) -> Self {
        let document = policy.document();
        Self {
            policy_id: document.policy_id.clone(),
            version: document.version,
            policy_hash: policy.hash().to_owned(),
            created_at: made_at,
            english,
            warnings,
            policy,
        }
    }
}

impl From<KeptPolicy> for PolicyVersion {
    fn from(kept: KeptPolicy) -> Self {
        let (english, warnings) = (kept.policy.in_english(), kept.policy.warnings());
        Self::of(kept, english, warnings)
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
#[derive(Debug)]
pub struct PutPolicy {
    pub(crate) partner_id: PartnerId,
    /// The policy. Its version is the author's, if the author gave one.
    pub(crate) policy: Policy,
    /// Whether the author gave a version.
    pub(crate) version_said: bool,
    /// The English text and the warnings, the same whichever version it becomes; worded outside the write turn.
    pub(crate) english: Vec<String>,
    pub(crate) warnings: Vec<FieldError>,
}

const NEW_POLICY: Declaration = Declaration {
    name: "NewPolicy",
    about: "What a cancellation means: who gets how much back, and until when. Shares are basis points of the booking's value: 10000 is all of \
            it. The id may be left out, as the address has it.",
    example: EXAMPLE,
    // The policy's own schema describes the rest.
    reader: |_| Some(()),
};

impl Operation for PutPolicy {
    const ROUTE: Route = Route {
        id: "putPolicy",
        path: "/v1/policies/{policyId}",
        access: Access::Scope(Scope::PoliciesWrite),
        audited: true,
        body: Body::Required(&NEW_POLICY),
        refusals: &[409],
        tag: "Policies",
        summary: "Store a policy of your own",
        description: "Creates a new version, which never changes. Bookings recorded from now on that name the policy, or for \
                      which it is the default, use it; existing bookings keep their frozen terms. If the policy says the same \
                      as the latest version, no version is created and the latest is returned. `policyId` and `version` may be \
                      left out; a `version` that is sent must be the latest (the one you changed; 0 if there is none yet) or \
                      the next, else 409 `policy_version_conflict`. With 0, only a new policy is stored. The ids of the library are reserved: 409 `policy_id_reserved`.",
        ..Route::PUT
    };
    type Output = PolicyVersion;

    fn prepare(session: &Session, request: &Request) -> Result<Action<PolicyVersion>, Error> {
        let policy_id = addressed(request);
        if !is_policy_id(policy_id) {
            return Err(Error::fault(
                "policyId",
                "bad_policy_id",
                format!(
                    "\"{}\" in the path is not a policy id",
                    input::shorten(policy_id)
                ),
                POLICY_ID_FIX,
            ));
        }
        let (policy, version_said) = input::read(&request.body, |form| {
            let said = form.has("version");
            Some((Policy::read_as(form, policy_id)?, said))
        })?;
        let put = Self {
            partner_id: session.partner_id()?,
            english: policy.in_english(),
            warnings: policy.warnings(),
            policy,
            version_said,
        };
        Ok(write(session.service.clock().now(), put))
    }
}

fn addressed(request: &Request) -> &str {
    request.path.first().map_or("", String::as_str)
}

/// The policy id in the path; an invalid one is not found.
fn path_policy_id(request: &Request) -> Result<String, Error> {
    let id = addressed(request);
    match is_policy_id(id) {
        true => Ok(id.to_owned()),
        false => Err(unknown(id)),
    }
}

/// The answer for a policy that the partner does not have.
fn unknown(policy_id: &str) -> Error {
    let message = match Policy::template(policy_id) {
        Some(_) => format!(
            "{policy_id} is a policy of the library, which bookings may name, and not one of your own: GET /v1/policy-templates shows it."
        ),
        None => "No such policy. Check the id, and the version if you named one: GET /v1/policies lists your own.".to_owned(),
    };
    Error {
        message,
        ..Error::not_found("policy")
    }
}

/// The form that [`version`] reads.
const VERSION: QueryForm = QueryForm::Whole(1, u32::MAX as u64, None);

/// Reads a version number.
fn version(text: &str) -> Option<u32> {
    whole_number(text).filter(|n| *n > 0)
}

/// `GET /v1/policies/{policyId}`
pub struct GetPolicy;

impl Operation for GetPolicy {
    const ROUTE: Route = Route {
        id: "getPolicy",
        path: "/v1/policies/{policyId}",
        access: Access::Scope(Scope::PoliciesRead),
        query: &[QueryParam {
            name: "version",
            description: "That version; the latest when not given.",
            form: VERSION,
        }],
        refusals: &[404],
        tag: "Policies",
        summary: "One policy of your own",
        description: "The latest version, or the one asked for. The library's are at `GET /v1/policy-templates`.",
        ..Route::GET
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
                    format!("\"{}\" is not a version", input::shorten(text)),
                    "Send a whole number from 1, or leave it out for the latest.",
                )])
            })?),
        };
        Ok(read::<Self>(move |session| {
            query_one(session, |reader| {
                reader.policy(&partner_id, &policy_id, wanted)
            })?
            .map(PolicyVersion::from)
            .ok_or_else(|| unknown(&policy_id))
        }))
    }
}

/// `GET /v1/policies`
pub struct ListPolicies;

impl Operation for ListPolicies {
    const ROUTE: Route = Route {
        id: "listPolicies",
        path: "/v1/policies",
        access: Access::Scope(Scope::PoliciesRead),
        query: &[LIMIT, cursor(QueryForm::PolicyId)],
        tag: "Policies",
        summary: "List your own policies",
        description: "The latest version of each, in the order of their ids.",
        ..Route::GET
    };
    type Output = Page<PolicyListing>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<PolicyListing>>, Error> {
        let own = |text: &str| is_policy_id(text).then(|| text.to_owned());
        let (limit, after) = page_from(request, own)?;
        let (partner_id, after) = (session.partner_id()?, after.unwrap_or_default());
        Ok(read::<Self>(move |session| {
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
        path: "/v1/policies/{policyId}/versions",
        access: Access::Scope(Scope::PoliciesRead),
        query: &[LIMIT, cursor(VERSION)],
        refusals: &[404],
        tag: "Policies",
        summary: "List the versions of a policy",
        description: "Newest first. Versions never change and are never removed.",
        ..Route::GET
    };
    type Output = Page<PolicyListing>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<PolicyListing>>, Error> {
        let policy_id = path_policy_id(request)?;
        let (limit, before) = page_from(request, version)?;
        let partner_id = session.partner_id()?;
        Ok(read::<Self>(move |session| {
            let rows = query_one(session, |reader| {
                reader.policy_versions(&partner_id, &policy_id, before, limit + 1)
            })?;
            if rows.is_empty() && before.is_none() {
                return Err(unknown(&policy_id));
            }
            let rows = rows.into_iter().map(PolicyListing::from).collect();
            Ok(Page::of(rows, limit, |policy: &PolicyListing| {
                policy.version
            }))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
