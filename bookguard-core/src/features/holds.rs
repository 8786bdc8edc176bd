//! Legal holds: while a booking is under one, nothing of it is erased or pruned.
//!
//! The partner places and releases its holds, the operator its own: a partner cannot release a hold that the operator
//! placed, such as one for a court.
//! A hold is in no packet, see `evidence/hold.rs`; the audit records who placed and released it.

pub(crate) mod rule;

use super::bookings::owner_of;
use crate::entropy;
use crate::error::Error;
use crate::evidence::{HeldBy, Hold, StoredHold};
use crate::input::{self, Declaration, Form};
use crate::limits;
use crate::model::id::noun;
use crate::model::{BookingId, HoldId, Page, PartnerId, Scope};
use crate::operation::{
    Action, Body, LIMIT, Operation, Request, Route, ids_cursor, paging, path_id, query, read, write,
};
use crate::session::{Access, Authority, Session};

/// `POST /v1/bookings/{bookingId}/holds`
#[derive(Debug)]
pub struct PlaceHold {
    pub(crate) stored: StoredHold,
    /// How many active holds of the partner's bookings were placed by the same.
    pub(crate) others: usize,
}

/// Body of [`PlaceHold`], read and checked field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRequest {
    reason: String,
    reference: Option<String>,
}

impl Operation for PlaceHold {
    const ROUTE: Route = Route {
        id: "placeHold",
        path: "/v1/bookings/{bookingId}/holds",
        access: Access::Scope(Scope::EvidenceErase),
        audited: true,
        status: 201,
        body: Body::Required(&HoldRequest::BODY),
        refusals: &[404, 409],
        tag: "Evidence",
        summary: "Keep a booking from being erased, for a dispute or a court",
        description: "While a booking has an active hold, nothing of it is erased: neither on request, nor at the end of the partner's contract, \
                      nor because it is old. No packet and no share shows it. Only the operator can release what the operator placed.",
        ..Route::POST
    };
    type Output = Hold;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Hold>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let HoldRequest { reason, reference } = input::read(&request.body, HoldRequest::form)?;
        let partner_id = owner_of(session, &booking_id)?;
        let placed_by = holder(session);
        let others = query(session, |reader| reader.active_holds(&partner_id))?;
        let others = others.iter().filter(|hold| hold.placed_by == placed_by);
        let at = session.service.clock().now();
        let hold = Hold {
            hold_id: HoldId::new(at, entropy::bytes()),
            booking_id,
            placed_at: at,
            placed_by,
            reason,
            reference,
            released_at: None,
        };
        let place = Self {
            stored: StoredHold { partner_id, hold },
            others: others.count(),
        };
        Ok(write(at, place))
    }
}

/// In whose name a session places holds.
fn holder(session: &Session) -> HeldBy {
    match session.authority {
        Authority::Administrator { .. } => HeldBy::Operator,
        _ => HeldBy::Partner,
    }
}

impl HoldRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewHold",
        about: "A legal hold on a booking.",
        example: r#"{"reason": "Chargeback expected", "reference": "CB-4711"}"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of a hold, reporting every fault.
    /// Its faults are those of [`input`].
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let reason = form
            .about("Why. Once the hold is released, erasing the booking's notes erases this too.")
            .required("reason", |v| v.text(limits::NAME_CHARS));
        let reference = form
            .about("What others know the matter by, such as the number of a case.")
            .optional("reference", |v| v.text(limits::REFERENCE_CHARS));
        Some(Self {
            reason: reason?,
            reference,
        })
    }
}

/// `GET /v1/bookings/{bookingId}/holds`
pub struct ListHolds;

impl Operation for ListHolds {
    const ROUTE: Route = Route {
        id: "listHolds",
        path: "/v1/bookings/{bookingId}/holds",
        access: Access::Scope(Scope::EvidenceRead),
        query: &[LIMIT, ids_cursor::<noun::Hold>()],
        refusals: &[404],
        tag: "Evidence",
        summary: "List a booking's legal holds",
        description: "Newest first, released ones too.",
        ..Route::GET
    };
    type Output = Page<Hold>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<Hold>>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let page = paging::<noun::Hold>(request)?;
        let owner = owner_of(session, &booking_id)?;
        Ok(read::<Self>(move |session| {
            let (stored, rows) = query(session, |reader| {
                let rows = reader.holds(&booking_id, page.before, page.limit + 1)?;
                Ok((reader.booking_owner(&booking_id)?, rows))
            })?;
            if stored != Some(owner) {
                return Err(Error::not_found("booking"));
            }
            Ok(Page::of(rows, page.limit, |hold| hold.hold_id))
        }))
    }
}

/// `DELETE /v1/bookings/{bookingId}/holds/{holdId}`
#[derive(Debug)]
pub struct ReleaseHold {
    pub(crate) partner_id: PartnerId,
    pub(crate) booking_id: BookingId,
    pub(crate) hold_id: HoldId,
    pub(crate) by: HeldBy,
}

impl Operation for ReleaseHold {
    const ROUTE: Route = Route {
        id: "releaseHold",
        path: "/v1/bookings/{bookingId}/holds/{holdId}",
        access: Access::Scope(Scope::EvidenceErase),
        audited: true,
        refusals: &[404, 409],
        tag: "Evidence",
        summary: "Release a legal hold",
        description: "The booking can be erased again, once no other hold is active. Releasing a released hold changes nothing and answers \
                      the same.",
        ..Route::DELETE
    };
    type Output = Hold;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Hold>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let release = Self {
            partner_id: owner_of(session, &booking_id)?,
            booking_id,
            hold_id: path_id(request, 1)?,
            by: holder(session),
        };
        Ok(write(session.service.clock().now(), release))
    }
}
