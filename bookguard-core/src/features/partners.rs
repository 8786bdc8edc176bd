//! Partners: registration, approval, the partner's record and its settings.

pub mod account;
mod contact;
pub(crate) mod rule;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::api_keys::new_key;
use crate::engine::command::NewKey;
use crate::entropy;
use crate::error::{Error, Kind};
use crate::input::{self, Declaration, Form, Value};
use crate::limits;
use crate::model::id::noun;
use crate::model::{
    ApiKeyId, Page, Partner, PartnerAccount, PartnerId, PartnerSettings, PartnerStatus,
    QuotaChanges, RegistrationStatus, Scope, Scopes, Search,
};
use crate::operation::{
    Action, Body, LIMIT, Operation, QueryForm, QueryParam, QueryReader, Request, Route, ids_cursor,
    path_id, query, query_one, read, read_long, write,
};
use crate::policy::{
    EVERY_EVENT_TYPE, POLICY_ID_FIX, POLICY_ID_PATTERN, is_policy_id, normalise_event_type,
    read_time_zone,
};
use crate::service::RegistrationMode as Mode;
use crate::session::{Access, Authority, Session};
use crate::text::is_blank;
use crate::webhook::Secret;
use contact::{email, website};

/// `POST /v1/partners/register`
#[derive(Debug)]
pub struct RegisterPartner {
    pub(crate) partner: Partner,
    /// The partner's signing secret, sealed.
    pub(crate) secret: Vec<u8>,
    /// The partner's first key, unless it must wait for approval.
    pub(crate) key: Option<NewKey>,
    pub(crate) reply: Registration,
}

/// Body of [`RegisterPartner`], read and checked field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartner {
    name: String,
    business_type: String,
    contact_email: String,
    website: Option<String>,
}

impl Operation for RegisterPartner {
    const ROUTE: Route = Route {
        id: "registerPartner",
        path: "/v1/partners/register",
        access: Access::Open,
        audited: true,
        status: 201,
        body: Body::Required(&NewPartner::BODY),
        refusals: &[403],
        tag: "Partners",
        summary: "Register a partner",
        description: "Creates a partner account. Where registration is open the answer also holds the first API key, with all \
                      scopes, and the secret that webhooks are signed with; both are shown only once. Where registration needs \
                      approval the status is `pending` and the operator hands over the credentials.",
        ..Route::POST
    };
    type Output = Registration;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Registration>, Error> {
        let service = &session.service;
        // The administrator decides who registers.
        let mode = match (service.config().registration, &session.authority) {
            (Mode::Closed, Authority::Administrator { .. }) => Mode::Open,
            (mode, _) => mode,
        };
        if mode == Mode::Closed {
            return Err(Error::new(
                Kind::Forbidden,
                "registration_closed",
                "Registration is closed on this service. Ask its operator for an account.",
            ));
        }
        let new = input::read(&request.body, NewPartner::form)?;
        let at = service.clock().now();
        let partner_id = PartnerId::new(at, entropy::bytes());
        let open = mode == Mode::Open;
        let (status, told) = match open {
            true => (PartnerStatus::Active, RegistrationStatus::Active),
            false => (PartnerStatus::Pending, RegistrationStatus::Pending),
        };
        let secret = Secret::from_bytes(entropy::bytes());
        let credentials = open.then(|| new_key(at, "Initial key", Scopes::all()));
        let reply = Registration {
            partner_id,
            name: new.name.clone(),
            status: told,
            api_key_id: credentials.as_ref().map(|(key, _)| key.key.api_key_id),
            api_key: credentials
                .as_ref()
                .map(|(_, secret)| secret.reveal().to_owned()),
            signing_secret: open.then(|| secret.reveal().to_owned()),
        };
        let partner = Partner {
            partner_id,
            name: new.name,
            business_type: new.business_type,
            contact_email: new.contact_email,
            website: new.website,
            status,
            created_at: at,
            contract_ended_at: None,
            settings: PartnerSettings::default(),
        };
        let register = Self {
            partner,
            secret: service
                .seal()
                .seal(partner_id.as_bytes(), secret.reveal().as_bytes()),
            key: credentials.map(|(key, _)| key),
            reply,
        };
        Ok(write(at, register))
    }
}

impl NewPartner {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewPartner",
        about: "A partner to register.",
        example: r#"{
            "name": "Stagehand",
            "businessType": "talent marketplace",
            "contactEmail": "ops@stagehand.example",
            "website": "https://stagehand.example"
        }"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of a registration, reporting every fault.
    /// Its faults are those of [`input`], `invalid_email` and `invalid_uri`.
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let name = form
            .about("Company or platform name.")
            .required("name", |v| v.text(limits::NAME_CHARS));
        let business_type = form
            .about("Free text, such as \"marketplace\".")
            .required("businessType", |v| v.text(limits::NAME_CHARS));
        let contact_email = form
            .about("Primary contact, an email address.")
            .required("contactEmail", email);
        let website = form
            .about("The partner's site, an http or https address.")
            .optional("website", website);
        Some(Self {
            name: name?,
            business_type: business_type?,
            contact_email: contact_email?,
            website,
        })
    }
}

/// `bookguard partners approve`: activates a pending partner and makes its first key.
#[derive(Debug)]
pub struct ApprovePartner {
    pub(crate) partner_id: PartnerId,
    /// The partner's first key.
    pub(crate) key: NewKey,
    pub(crate) reply: Registration,
}

impl Operation for ApprovePartner {
    const ROUTE: Route = Route {
        id: "approvePartner",
        path: "/v1/partners/{partnerId}/approve",
        access: Access::Administrator,
        refusals: &[404, 409],
        tag: "Partners",
        summary: "Approve a partner",
        description: "For the operator.",
        ..Route::POST
    };
    type Output = Registration;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Registration>, Error> {
        let partner_id: PartnerId = path_id(request, 0)?;
        let at = session.service.clock().now();
        let (partner, secret) = query(session, |reader| {
            let secret = reader.secret(&partner_id, at)?;
            Ok((reader.partner(&partner_id)?, secret))
        })?;
        let partner = partner.ok_or_else(|| Error::not_found("partner"))?;
        let (key, api_key) = new_key(at, "Initial key", Scopes::all());
        let reply = Registration {
            partner_id,
            name: partner.name,
            status: RegistrationStatus::Active,
            api_key_id: Some(key.key.api_key_id),
            api_key: Some(api_key.reveal().to_owned()),
            signing_secret: secret.map(|secret| secret.reveal().to_owned()),
        };
        Ok(write(
            at,
            Self {
                partner_id,
                key,
                reply,
            },
        ))
    }
}

/// `bookguard partners quota`: shows a partner's quota and usage, and changes the members that the body names.
#[derive(Debug)]
pub struct SetQuota {
    pub(crate) partner_id: PartnerId,
    pub(crate) changes: QuotaChanges,
}

impl Operation for SetQuota {
    const ROUTE: Route = Route {
        id: "setQuota",
        path: "/v1/partners/{partnerId}/quota",
        access: Access::Administrator,
        body: Body::Required(&QUOTA_CHANGES),
        refusals: &[404],
        tag: "Partners",
        summary: "Give a partner a quota of its own",
        description: "For the operator.",
        ..Route::PATCH
    };
    type Output = PartnerAccount;

    fn prepare(session: &Session, request: &Request) -> Result<Action<PartnerAccount>, Error> {
        let set = Self {
            partner_id: path_id(request, 0)?,
            changes: input::read(&request.body, QuotaChanges::form)?,
        };
        Ok(write(session.service.clock().now(), set))
    }
}

const QUOTA_CHANGES: Declaration = Declaration {
    name: "QuotaChanges",
    about: "Changes to a partner's quota: what is left out stays, null takes the service's default, 0 means no limit.",
    example: r#"{"bookings": 50000, "endpoints": null}"#,
    reader: |v| v.object(QuotaChanges::form).map(drop),
};

impl QuotaChanges {
    /// Reads the body of [`SetQuota`]: an absent member stays as it is, null selects the service's default, 0 means no limit.
    /// Its faults are those of [`input`].
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let mut part = |name, most| form.nullable(name, |v| limit(v, most));
        Some(Self {
            bookings: part("bookings", limits::QUOTA_MAX),
            bytes: part("bytes", limits::QUOTA_MAX),
            events_per_day: part("eventsPerDay", limits::QUOTA_MAX),
            endpoints: part("endpoints", limits::ENDPOINTS_PER_PARTNER as u64),
            file_bytes: part("fileBytes", limits::QUOTA_MAX),
        })
    }
}

fn limit(v: &mut Value<'_, '_>, most: u64) -> Option<u64> {
    let limit = v.integer(0, i64::try_from(most).unwrap_or(i64::MAX))?;
    u64::try_from(limit).ok()
}

/// `GET /v1/partners/me`
pub struct GetPartner;

impl Operation for GetPartner {
    const ROUTE: Route = Route {
        id: "getPartner",
        path: "/v1/partners/me",
        access: Access::AnyKey,
        tag: "Partners",
        summary: "The partner that the request is for",
        description: "Any valid key may ask. The answer includes the partner's quota and usage. Beyond the quota, new things \
                      are refused with `quota_exceeded`; existing bookings can always be protected and canceled.",
        ..Route::GET
    };
    type Output = PartnerAccount;

    fn prepare(session: &Session, _: &Request) -> Result<Action<PartnerAccount>, Error> {
        Ok(read_account::<Self>(session.partner_id()?))
    }
}

/// The action that reads a partner's account.
fn read_account<O: Operation<Output = PartnerAccount>>(
    partner_id: PartnerId,
) -> Action<PartnerAccount> {
    read::<O>(move |session| {
        let (given, at) = (
            session.service.config().quota,
            session.service.clock().now(),
        );
        query_one(session, |reader| reader.account(&partner_id, given, at))?
            .ok_or_else(|| Error::not_found("partner"))
    })
}

/// `PATCH /v1/partners/me`
#[derive(Debug)]
pub struct UpdatePartner {
    pub(crate) partner_id: PartnerId,
    pub(crate) update: PartnerUpdate,
}

impl Operation for UpdatePartner {
    const ROUTE: Route = Route {
        id: "updatePartner",
        path: "/v1/partners/me",
        access: Access::Scope(Scope::PoliciesWrite),
        audited: true,
        body: Body::Required(&PartnerUpdate::BODY),
        refusals: &[409],
        tag: "Partners",
        summary: "Choose default policies and a time zone",
        description: "They apply to bookings recorded from now on that do not name their own; existing bookings keep their \
                      frozen terms. A field that is left out stays as it is; null removes it.",
        ..Route::PATCH
    };
    type Output = PartnerAccount;

    fn prepare(session: &Session, request: &Request) -> Result<Action<PartnerAccount>, Error> {
        let update = input::read(&request.body, PartnerUpdate::form)?;
        let partner_id = session.partner_id()?;
        let at = session.service.clock().now();
        Ok(write(at, Self { partner_id, update }))
    }
}

impl PartnerUpdate {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "PartnerChanges",
        about: "Changes for bookings recorded from now on; what is left out stays.",
        example: r#"{"defaultPolicies": {"concert": "house", "*": "firm"}, "timeZone": "America/New_York"}"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of [`UpdatePartner`].
    /// Its faults are those of [`input`], `bad_policy_id`, `time_zone_unknown`, and `duplicate_key` for two spellings of one
    /// event type.
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let default_policies = form
            .about(
                "The policy of a booking that chooses none: event type → id of one of your policies or of the library's; null \
                 removes. Case does not matter, nor what parts the words of an event type: `Wedding Party` is `wedding-party`, but not \
                 `weddingparty`. `*` is for all others.",
            )
            .optional("defaultPolicies", default_policies);
        let time_zone = form
            .about("The IANA time zone of events where neither the booking nor its policy names one; null removes.")
            .nullable("timeZone", read_time_zone);
        Some(Self {
            default_policies: default_policies.unwrap_or_default(),
            time_zone: time_zone.map(|zone| zone.map(|zone| zone.to_string())),
        })
    }
}

fn default_policies(v: &mut Value<'_, '_>) -> Option<Vec<DefaultPolicy>> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    v.example(json!({"concert": "house", "*": "firm", "dj": null}))
        .pairs(limits::DEFAULT_POLICIES, limits::NAME_CHARS, |said, v| {
            let policy_id = v.or_null(policy_id);
            let event_type = event_type(said, &mut seen, v)?;
            Some(DefaultPolicy {
                said: said.to_owned(),
                event_type,
                policy_id: policy_id?,
            })
        })
}

/// Reads an event type in the spelling under which defaults are kept, so that each occurs once.
fn event_type(
    said: &str,
    seen: &mut BTreeMap<String, String>,
    v: &mut Value<'_, '_>,
) -> Option<String> {
    let kept = match said {
        EVERY_EVENT_TYPE => said.to_owned(),
        _ => normalise_event_type(said),
    };
    if is_blank(said) {
        // Already a fault, as for any name that shows nothing.
        return None;
    }
    if kept.is_empty() {
        return v.fault(
            "bad_key",
            "has neither a letter nor a digit in its name, so it is not an event type",
            "Name an event type such as \"concert\", or \"*\" for all others.",
        );
    }
    match seen.insert(kept.clone(), said.to_owned()) {
        // The same name twice is already a fault.
        Some(before) if before != said => v.fault(
            "duplicate_key",
            format!("is the same event type as \"{}\"", input::shorten(&before)),
            "Send each event type once. Case does not matter, nor what parts its words.",
        ),
        _ => Some(kept),
    }
}

fn policy_id(v: &mut Value<'_, '_>) -> Option<String> {
    let text = v.pattern(POLICY_ID_PATTERN).string()?;
    match is_policy_id(&text) {
        true => Some(text),
        false => v.fault(
            "bad_policy_id",
            format!("\"{}\" is not a policy id", input::shorten(&text)),
            POLICY_ID_FIX,
        ),
    }
}

/// `bookguard partners list`
pub struct ListPartners;

impl Operation for ListPartners {
    const ROUTE: Route = Route {
        id: "listPartners",
        path: "/v1/partners",
        access: Access::Administrator,
        query: &[
            QueryParam {
                name: "status",
                description: "Only partners in this status: pending, approved, active or suspended.",
                form: QueryForm::Words("PartnerStatus"),
            },
            QueryParam {
                name: "search",
                description: "Only partners for which each of these words is a part of the id, the name, the kind of business, the \
                              contact or the site. Upper and lower case do not matter.",
                form: QueryForm::Text(limits::SEARCH_CHARS),
            },
            LIMIT,
            ids_cursor::<noun::Partner>(),
        ],
        tag: "Partners",
        summary: "List partners, or search them",
        description: "For the operator. Newest first. A page of a search may hold fewer rows than asked for, or none: at most \
                      10,000 partners are examined for one page. Continue while `hasMore` is true.",
        ..Route::GET
    };
    type Output = Page<Partner>;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Page<Partner>>, Error> {
        let mut params = QueryReader::of(request);
        let page = params.paging();
        let status = params.choice("status", PartnerStatus::WORDS);
        let search = params.text("search", limits::SEARCH_CHARS);
        let search = search.map(Search::of);
        params.end()?;
        // A search that matches little examines thousands of rows.
        Ok(read_long::<Self>(search.is_some(), move |session| {
            if let Some(search) = search {
                let (rows, next) = query(session, |reader| {
                    reader.found_partners(&search, status, page.before, page.limit)
                })?;
                return Ok(Page::up_to(rows, next));
            }
            let rows = query(session, |reader| {
                reader.partners(status, page.before, page.limit + 1)
            })?;
            Ok(Page::of(rows, page.limit, |partner| partner.partner_id))
        }))
    }
}

/// A partner just registered or approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    /// The partner's id.
    pub partner_id: PartnerId,
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: RegistrationStatus,
    /// The first key's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_id: Option<ApiKeyId>,
    /// The first key, with all scopes. Shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// The secret that signs its webhooks. Shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_secret: Option<String>,
}

/// Changes of a partner's settings; absent members stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartnerUpdate {
    /// Defaults to set and to remove.
    pub default_policies: Vec<DefaultPolicy>,
    /// The zone's IANA name; `Some(None)` removes it.
    pub time_zone: Option<Option<String>>,
}

/// A default policy to set or to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultPolicy {
    /// The event type as it was sent, for fault messages.
    pub said: String,
    /// The event type as it is stored, or `*`.
    pub event_type: String,
    /// The policy's id; `None` removes the default.
    pub policy_id: Option<String>,
}
