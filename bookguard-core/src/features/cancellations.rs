//! Cancellations and their resolutions.

pub(crate) mod rule;

use serde_json::json;

use super::bookings::decimal;
use crate::engine::command::EventSeed;
use crate::entropy;
use crate::error::Error;
use crate::input::{self, Declaration, Form, Value};
use crate::limits;
use crate::model::digest::is_digest;
use crate::model::id::noun;
use crate::model::{BookingId, EventId, Page, PartnerId, ResolutionId, Scope, Timestamp};
use crate::operation::{
    Action, Body, LIMIT, Operation, QueryForm, QueryParam, QueryReader, Request, Route, ids_cursor,
    path_id, query, query_own, read, read_long, write,
};
use crate::policy::{Actor, NamedDocument, Reason, Resolution, ResolutionPath, ResolutionStatus};
use crate::session::{Access, Session};

/// `POST /v1/bookings/{bookingId}/cancel`
#[derive(Debug)]
pub struct CancelBooking {
    pub(crate) partner_id: PartnerId,
    pub(crate) booking_id: BookingId,
    pub(crate) asked: CancelRequest,
    /// The prepared resolution.
    pub(crate) resolution: NewResolution,
}

/// Body of [`CancelBooking`], read and checked field by field.
#[derive(Debug, Clone)]
pub struct CancelRequest {
    /// Who cancels.
    pub canceled_by: Actor,
    /// Why.
    pub reason: Option<Reason>,
    /// A free-text note.
    pub note: Option<String>,
    /// When the cancellation counts from.
    pub effective_at: Option<Timestamp>,
    /// The agreed refund's digits; the amount depends on the booking's currency.
    pub agreed_refund: Option<String>,
    /// The evidence named for the cancellation.
    pub evidence: Vec<NamedDocument>,
    /// The result the caller expects.
    pub expected: Expected,
}

impl Operation for CancelBooking {
    const ROUTE: Route = Route {
        id: "cancelBooking",
        path: "/v1/bookings/{bookingId}/cancel",
        access: Access::Scope(Scope::BookingsWrite),
        status: 201,
        body: Body::Required(&CancelRequest::BODY),
        refusals: &[404, 409],
        tag: "Cancellation",
        summary: "Cancel a booking",
        description: "Computes the result from the policy frozen with the booking and records it: `booking.canceled` and \
                      `resolution.created` in the ledger and one `resolution.created` event, all in one transaction. The \
                      service moves no money. Send the result you have shown to the user as `expected`: any other result is \
                      refused with 409 `quote_changed` and the new `evaluation`. Repeating the same `canceledBy`, `reason`, \
                      `effectiveAt` and, if sent, `agreedRefund` answers with the existing resolution; any other cancellation of a canceled \
                      booking is 409 `booking_already_canceled` with its `resolutionId`. A repeat, which its `evaluation` calls \
                      `replayed`, records nothing: another `note` or `evidence` in it is dropped, so send what came up later as an \
                      evidence item. If a person must decide, the booking is still canceled, with a resolution in status \
                      `pending_review`.",
        ..Route::POST
    };
    type Output = Resolution;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Resolution>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let asked = CancelRequest::read(&request.body)?;
        let partner_id = super::bookings::owner_of(session, &booking_id)?;
        let at = session.service.clock().now();
        let cancel = Self {
            partner_id,
            booking_id,
            asked,
            resolution: new_resolution(session, at, booking_id),
        };
        Ok(write(at, cancel))
    }

    fn location(resolution: &Resolution) -> Option<String> {
        Some(address(resolution))
    }
}

/// `GET /v1/resolutions/{resolutionId}`
pub struct GetResolution;

impl Operation for GetResolution {
    const ROUTE: Route = Route {
        id: "getResolution",
        path: "/v1/resolutions/{resolutionId}",
        access: Access::Scope(Scope::BookingsRead),
        refusals: &[404],
        tag: "Cancellation",
        summary: "One resolution",
        description: "The result of a cancellation, exactly as the ledger records it. `supersededBy` names the decision that \
                      replaced a resolution left to a person. The `note` and `evidence` that were sent with the cancellation are \
                      in the entries of the packet.",
        ..Route::GET
    };
    type Output = Resolution;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Resolution>, Error> {
        let resolution_id: ResolutionId = path_id(request, 0)?;
        Ok(read::<Self>(move |session| {
            let found = query_own(session, &resolution_id, |reader, id| reader.resolution(id))?;
            Ok(found.1)
        }))
    }
}

/// `GET /v1/resolutions`
pub struct ListResolutions;

impl Operation for ListResolutions {
    const ROUTE: Route = Route {
        id: "listResolutions",
        path: "/v1/resolutions",
        access: Access::Scope(Scope::BookingsRead),
        query: &[
            QueryParam {
                name: "status",
                description: "Only resolutions in this status: final, pending_review (those that a person has to decide) or decided.",
                form: QueryForm::Words("ResolutionStatus"),
            },
            LIMIT,
            ids_cursor::<noun::Booking>(),
        ],
        tag: "Cancellation",
        summary: "List the results of cancellations",
        description: "The latest resolution of each canceled booking, the newest booking first; a decided one names the one that \
                      it `supersedes`. Those that wait for a person are found at once. Otherwise at most 10,000 bookings, or 8 MiB of \
                      their resolutions, are examined for one page, so a page may hold fewer rows than asked for, or none. \
                      Continue while `hasMore` is true; each resolution then comes exactly once.",
        ..Route::GET
    };
    type Output = Page<Resolution>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<Resolution>>, Error> {
        let partner_id = super::bookings::listed_owner(session)?;
        let mut params = QueryReader::of(request);
        let page = params.paging();
        let status = params.choice("status", ResolutionStatus::WORDS);
        params.end()?;
        // Few bookings are canceled, so many are examined.
        Ok(read_long::<Self>(true, move |session| {
            let (data, next) = query(session, |reader| {
                reader.resolutions(partner_id, status, page.before, page.limit)
            })?;
            Ok(Page::up_to(data, next))
        }))
    }
}

/// `POST /v1/resolutions/{resolutionId}/decide`
#[derive(Debug)]
pub struct DecideResolution {
    pub(crate) partner_id: PartnerId,
    /// The resolution's booking, which never changes.
    pub(crate) booking_id: BookingId,
    /// The resolution that is pending.
    pub(crate) resolution_id: ResolutionId,
    pub(crate) asked: DecisionRequest,
    /// The prepared resolution that replaces the pending one.
    pub(crate) next: NewResolution,
}

/// Body of [`DecideResolution`], read and checked field by field.
#[derive(Debug, Clone)]
pub struct DecisionRequest {
    /// The refund's digits.
    pub refund: String,
    /// Who decided.
    pub decided_by: String,
    /// Why.
    pub rationale: String,
}

impl Operation for DecideResolution {
    const ROUTE: Route = Route {
        id: "decideResolution",
        path: "/v1/resolutions/{resolutionId}/decide",
        access: Access::Scope(Scope::BookingsWrite),
        status: 201,
        body: Body::Required(&DecisionRequest::BODY),
        refusals: &[404, 409],
        tag: "Cancellation",
        summary: "Decide a resolution that was left to a person",
        description: "Records how much of what was paid goes back; the rest is kept. Creates a new resolution that \
                      `supersedes` the pending one, with its own ledger entry and `resolution.created` event. A resolution is \
                      decided once: repeating the same decision returns what is recorded, a different one is 409 \
                      `resolution_already_decided`. A resolution that needed no decision is 409 `resolution_final`. The event \
                      `resolution.decided` goes to the endpoints that list it.",
        ..Route::POST
    };
    type Output = Resolution;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Resolution>, Error> {
        let resolution_id: ResolutionId = path_id(request, 0)?;
        let asked = input::read(&request.body, DecisionRequest::form)?;
        // A resolution's booking never changes, so it can be looked up before the write turn.
        let found = query_own(session, &resolution_id, |reader, id| reader.resolution(id))?;
        let (partner_id, pending) = found;
        let at = session.service.clock().now();
        let decide = Self {
            partner_id,
            booking_id: pending.booking_id,
            resolution_id,
            asked,
            next: new_resolution(session, at, pending.booking_id),
        };
        Ok(write(at, decide))
    }

    fn location(resolution: &Resolution) -> Option<String> {
        Some(address(resolution))
    }
}

fn address(resolution: &Resolution) -> String {
    format!("/v1/resolutions/{}", resolution.resolution_id)
}

fn new_resolution(session: &Session, at: Timestamp, booking_id: BookingId) -> NewResolution {
    NewResolution {
        resolution_id: ResolutionId::new(at, entropy::bytes()),
        event: super::bookings::event_seed(&session.service, at),
        decided_event_id: EventId::new(at, entropy::bytes()),
        seed: entropy::bytes(),
        packet_url: super::bookings::packet_url(session, &booking_id),
    }
}

impl CancelRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewCancellation",
        about: "A cancellation.",
        example: r#"{
            "canceledBy": "organizer",
            "reason": "changed_plans",
            "note": "The hall is being renovated.",
            "evidence": [
                {
                    "kind": "notice",
                    "name": "notice.pdf",
                    "mediaType": "application/pdf",
                    "sha256": "sha256:9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f"
                }
            ],
            "expected": {
                "refundMinorUnits": 60000,
                "penaltyMinorUnits": 0,
                "policyHash": "sha256:68458968a07a766beb19c4fee36a91d2ba229b923ef9ba961fcc98634c716c01"
            }
        }"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of a cancellation, reporting every fault.
    ///
    /// # Errors
    /// Those of [`input`], `agreed_refund_not_mutual` and `bad_digest`.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        input::read(body, Self::form)
    }

    fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let canceled_by = form
            .about("Who cancels; for `no_show`, who did not come.")
            .required("canceledBy", |v| v.named("Actor").choice(Actor::WORDS));
        let reason = form
            .about("Why.")
            .optional("reason", |v| v.named("Reason").choice(Reason::WORDS));
        let note = form
            .about("A comment, in your own words.")
            .optional("note", |v| v.text(limits::TEXT_CHARS));
        let effective_at = form
            .about(
                "When it takes effect; the time it is received when not given. At most 5 minutes ahead, in the same step of the \
                 schedule, and not before the event was last moved.",
            )
            .optional("effectiveAt", input::instant);
        let agreed_refund = form
            .about("The refund both sides agreed on: required with `canceledBy` mutual, and allowed only then.")
            .optional("agreedRefund", |v| decimal(v).map(str::to_owned));
        let evidence = form
            .about("Documents offered as evidence; only their digests are kept.")
            .optional("evidence", |v| {
                v.array(limits::CANCELLATION_EVIDENCE, |item| {
                    item.object(evidence_item)
                })
            });
        let expected = form
            .about(
                "The result it must have; with any other, nothing happens and the answer is 409 `quote_changed`.",
            )
            .optional_object("expected", expected);
        let alone = canceled_by.is_some_and(|actor| actor != Actor::Mutual);
        if alone && form.has("agreedRefund") {
            form.fault_at(
                "agreedRefund",
                "agreed_refund_not_mutual",
                "is only for a cancellation that both sides agreed on",
                "Leave it out, or send \"canceledBy\": \"mutual\".",
            );
        }
        form.describe(|draft| {
            let agreed = json!({"required": ["agreedRefund"], "properties": {"agreedRefund": {}}});
            let mutual = json!({"const": Actor::Mutual.word()});
            draft.set("if", json!({"properties": {"canceledBy": mutual}}));
            draft.set("then", agreed.clone());
            draft.set("else", json!({"not": agreed}));
        });
        Some(Self {
            canceled_by: canceled_by?,
            reason,
            note,
            effective_at,
            agreed_refund,
            evidence: evidence.unwrap_or_default(),
            expected: expected.unwrap_or_default(),
        })
    }
}

impl DecisionRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewDecision",
        about: "A person's decision.",
        example: r#"{
            "refund": 300,
            "decidedBy": "Disputes desk",
            "rationale": "Half of what was paid: notice was given in good time."
        }"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of a decision, reporting every fault.
    /// Its faults are those of [`input`].
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let refund = form
            .about("What goes back, at most what was paid; the rest is kept.")
            .required("refund", |v| decimal(v).map(str::to_owned));
        let decided_by = form
            .about("Who decides, in your own words.")
            .required("decidedBy", |v| v.text(limits::NAME_CHARS));
        let rationale = form
            .about("Why. Recorded in the ledger and in every evidence packet.")
            .required("rationale", |v| v.text(limits::TEXT_CHARS));
        Some(Self {
            refund: refund?,
            decided_by: decided_by?,
            rationale: rationale?,
        })
    }
}

fn expected(form: &mut Form<'_, '_>) -> Option<Expected> {
    form.about("What the user was shown before canceling, at least one of its members; what is left out is not compared.")
        .named("ExpectedResult");
    let refund_minor_units = form
        .about("The refund in minor units.")
        .optional("refundMinorUnits", minor_units);
    let penalty_minor_units = form
        .about("What is kept of the value, or owed, in minor units.")
        .optional("penaltyMinorUnits", minor_units);
    let compensation_minor_units = form
        .about("What the organizer is owed on top of the refund, in minor units.")
        .optional("compensationMinorUnits", minor_units);
    let resolution_path = form
        .about("What happens to the money.")
        .optional("resolutionPath", |v| {
            v.named("ResolutionPath").choice(ResolutionPath::WORDS)
        });
    let policy_hash = form
        .about("The policy's hash.")
        .optional("policyHash", digest);
    form.describe(|draft| draft.set("minProperties", 1));
    if form.is_empty() {
        form.fault_here::<()>(
            "empty",
            "is empty, so that nothing would be compared",
            "Send at least one of its members, such as \"refundMinorUnits\", or leave \"expected\" out.",
        );
    }
    Some(Expected {
        refund_minor_units,
        penalty_minor_units,
        compensation_minor_units,
        resolution_path,
        policy_hash,
    })
}

fn minor_units(v: &mut Value<'_, '_>) -> Option<i64> {
    v.integer(0, limits::AMOUNT_MINOR_UNITS)
}

fn evidence_item(form: &mut Form<'_, '_>) -> Option<NamedDocument> {
    form.about("A document offered as evidence. The service keeps its digest, never the document.")
        .named("NamedDocument");
    let kind = form
        .about("What it is, in your own words, such as `notice`.")
        .required("kind", |v| v.text(limits::EVIDENCE_KIND_CHARS));
    let name = form
        .about("Its name.")
        .optional("name", |v| v.text(limits::NAME_CHARS));
    let media_type = form
        .about("Its media type.")
        .optional("mediaType", |v| v.text(limits::MEDIA_TYPE_CHARS));
    let sha256 = form
        .about("`sha256:` and the hex digest of its bytes.")
        .required("sha256", digest);
    Some(NamedDocument {
        kind: kind?,
        name,
        media_type,
        sha256: sha256?,
    })
}

/// The pattern (ECMA 262) of what `digest` reads.
pub const SHA256: &str = "^sha256:[0-9a-f]{64}$";

/// Reads `sha256:` and 64 lower-case hex digits.
pub(super) fn digest(v: &mut Value<'_, '_>) -> Option<String> {
    let text = v.pattern(SHA256).string()?;
    if is_digest(&text) {
        return Some(text);
    }
    v.fault(
        "bad_digest",
        format!("\"{}\" is not a valid SHA-256", input::shorten(&text)),
        "Send \"sha256:\" and 64 lower-case hex digits.",
    )
}

/// What the caller was shown before canceling. Absent members are not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The refund in minor units.
    pub refund_minor_units: Option<i64>,
    /// What is kept of the value, or owed, in minor units.
    pub penalty_minor_units: Option<i64>,
    /// What the organizer is owed on top of the refund, in minor units.
    pub compensation_minor_units: Option<i64>,
    /// The resolution path.
    pub resolution_path: Option<ResolutionPath>,
    /// The policy's hash.
    pub policy_hash: Option<String>,
}

/// The ids and random values of a new resolution, which `decide` cannot make because it rolls no dice.
#[derive(Debug, Clone)]
pub struct NewResolution {
    /// The id it will have.
    pub resolution_id: ResolutionId,
    /// For its event.
    pub event: EventSeed,
    /// The id of the further event if it is a decision and an endpoint lists that type.
    pub decided_event_id: EventId,
    /// Seed of the facts' salts.
    pub seed: [u8; 32],
    /// The evidence address for the event's payload.
    pub packet_url: String,
}
