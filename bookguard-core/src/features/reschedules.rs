//! Changes of a booking's date.

pub(crate) mod rule;

use crate::engine::command::{EventSeed, Receipt};
use crate::model::{Amount, BookingId, PartnerId, Scope, Timestamp};
use crate::policy::{Actor, EventDate, Segment, read_time_zone};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::bookings::{event_date, event_seed, owner_of, packet_url};
use crate::entropy;
use crate::error::Error;
use crate::input::{self, Declaration, Form, Json, Value};
use crate::operation::{Action, Body, Operation, Request, Route, path_id, write};
use crate::session::{Access, Session};

/// `POST /v1/bookings/{bookingId}/reschedule`
#[derive(Debug)]
pub struct RescheduleBooking {
    pub(crate) partner_id: PartnerId,
    pub(crate) booking_id: BookingId,
    pub(crate) asked: RescheduleRequest,
    /// Seed of the fact's salts.
    pub(crate) seed: [u8; 32],
    /// For its event, if an endpoint lists that type.
    pub(crate) event: EventSeed,
    /// The evidence address for the event's payload.
    pub(crate) evidence_url: String,
}

/// Body of [`RescheduleBooking`], read and checked field by field.
#[derive(Debug, Clone)]
pub struct RescheduleRequest {
    /// The new date, as it was given.
    pub event_date: EventDate,
    /// The event's IANA zone from now on.
    pub time_zone: Option<String>,
    /// Who agreed: each side once, in the vocabulary's order.
    pub agreed_by: Vec<Actor>,
    /// When they did.
    pub at: Option<Timestamp>,
    /// Whether only to report the result, without moving the event.
    pub dry_run: bool,
}

impl Operation for RescheduleBooking {
    const ROUTE: Route = Route {
        id: "rescheduleBooking",
        path: "/v1/bookings/{bookingId}/reschedule",
        access: Access::Scope(Scope::BookingsWrite),
        body: Body::Required(&RescheduleRequest::BODY),
        refusals: &[404, 409],
        tag: "Bookings",
        summary: "Move a booking's event to another date",
        description: "Needs the agreement of organizer and talent. The schedule is compiled again from the policy frozen with \
                      the booking, and `booking.rescheduled` with the new terms is written to the ledger; the earlier terms \
                      stay there. Under a policy with `keep_reached_tier`, a cancellation by the organizer then costs at least \
                      what it would have cost when the event was moved, except in the grace period. Repeating the latest change answers with what is \
                      recorded; sending the date that the event already has is 409 `event_date_unchanged`. `dryRun` shows the \
                      result and changes nothing. The event `booking.rescheduled` goes to the endpoints that list it.",
        ..Route::POST
    };
    type Output = Rescheduled;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Rescheduled>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let asked = input::read(&request.body, RescheduleRequest::form)?;
        let at = session.service.clock().now();
        let reschedule = Self {
            partner_id: owner_of(session, &booking_id)?,
            booking_id,
            asked,
            seed: entropy::bytes(),
            event: event_seed(&session.service, at),
            evidence_url: packet_url(session, &booking_id),
        };
        Ok(write(at, reschedule))
    }
}

impl RescheduleRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewDate",
        about: "A change of an event's date.",
        example: r#"{"eventDate": "2027-07-04T19:00:00-04:00", "agreedBy": ["organizer", "talent"]}"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of a change of date, reporting every fault.
    /// Its faults are those of [`input`], `time_zone_unknown` and `agreement_missing`.
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let event_date = form
            .about(
                "When the event starts from now on: RFC 3339 with an offset, or a local date-time or date in the booking's time zone. \
                 A fraction of a second is dropped.",
            )
            .required("eventDate", event_date);
        let time_zone = form
            .about("The event's IANA time zone from now on; unchanged when not given.")
            .optional("timeZone", read_time_zone);
        let agreed_by = form
            .about("Who agreed: organizer and talent, and the partner if it did too.")
            .required("agreedBy", agreed_by);
        let at = form
            .about("When they agreed; the time it is received when not given. At most 5 minutes ahead, and then in the same step of \
                    the schedule. If it lies in an earlier step, at most as long ago as the policy's `backdateTolerance`.")
            .optional("at", input::instant);
        let dry_run = form
            .about("true: answer with what would happen, and change nothing.")
            .optional("dryRun", |v| v.boolean());
        Some(Self {
            event_date: event_date?,
            time_zone: time_zone.map(|zone| zone.to_string()),
            agreed_by: agreed_by?,
            at,
            dry_run: dry_run.unwrap_or_default(),
        })
    }
}

/// The sides that can agree: every actor except `mutual`, because each side is named by itself.
pub(super) fn sides() -> &'static [(&'static str, Actor)] {
    let mutual = Actor::WORDS
        .iter()
        .position(|(_, actor)| *actor == Actor::Mutual);
    &Actor::WORDS[..mutual.unwrap_or(Actor::WORDS.len())]
}

/// The sides that must agree.
const BOTH: [Actor; 2] = [Actor::Organizer, Actor::Talent];

/// Reads who agreed: organizer and talent, and the partner if it agreed too.
fn agreed_by(v: &mut Value<'_, '_>) -> Option<Vec<Actor>> {
    let named = v
        .at_least(BOTH.len())
        .describe(|draft| {
            let contains = |side: &Actor| json!({"contains": {"const": side.word()}});
            draft.set("allOf", Json::array(BOTH.iter().map(contains)));
        })
        .array(sides().len(), |item| item.choice(sides()))?;
    let mut agreed = Vec::with_capacity(named.len());
    agreed.extend(
        sides()
            .iter()
            .map(|(_, side)| *side)
            .filter(|side| named.contains(side)),
    );
    let missing: Vec<&str> = BOTH
        .into_iter()
        .filter(|side| !agreed.contains(side))
        .map(Actor::word)
        .collect();
    if !missing.is_empty() {
        return v.fault(
            "agreement_missing",
            format!(
                "does not name {}: an event is moved when both sides agree",
                missing.join(" and ")
            ),
            "Send [\"organizer\", \"talent\"] once both agreed; else cancel the booking.",
        );
    }
    Some(agreed)
}

/// Answer to a change of an event's date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Rescheduled {
    /// The booking's id.
    pub booking_id: BookingId,
    /// When the event starts from now on.
    pub event_date: Timestamp,
    /// The booking's IANA time zone from now on, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The event's date before the change, in the form in which it was given: with an offset, as a local time, or as a date
    /// alone. The last of `former` in the booking's disclosure has it in UTC.
    pub previous_event_date: String,
    /// When the change was received.
    pub rescheduled_at: Timestamp,
    /// When it was agreed on, in whole seconds. The step of the schedule reached at this instant is kept.
    pub at: Timestamp,
    /// Who agreed.
    pub agreed_by: Vec<Actor>,
    /// What the organizer's cancellation would have cost at that instant; null when a person would have decided. Under a
    /// policy with `keep_reached_tier`, a cancellation costs at least this from now on, except in the grace period.
    pub reached: Option<Amount>,
    /// The organizer's schedule from now on, including the step reached before.
    pub schedule: Vec<Segment>,
    /// True for a dry run: nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Where the record is in the ledger; absent for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}
