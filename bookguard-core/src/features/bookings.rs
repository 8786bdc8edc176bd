//! Bookings: recorded (`create`), read, protected.

mod create;
pub(crate) mod rule;

use serde::{Deserialize, Serialize};

use crate::engine::batch::LoadedBooking;
use crate::engine::command::{EventSeed, Receipt};
use crate::entropy;
use crate::error::Error;
use crate::limits;
use crate::model::id::noun;
use crate::model::{
    Booking, BookingId, BookingStatus, EventId, Page, PartnerId, Scope, Search, Timestamp,
};
use crate::operation::{
    Action, Finished, LIMIT, Operation, QueryForm, QueryParam, QueryReader, Request, Route,
    ids_cursor, path_id, query, query_one, query_own, read_stored, to_json, write,
};
use crate::service::Service;
use crate::session::{Access, Authority, Session};
use crate::store::read::BookingFilter;
pub use create::{BookingCreated, BookingRequest, CreateBooking};
pub(super) use create::{about_the_date, currency, decimal, event_date};

/// The booking named in the path, if this caller may see it.
pub(super) fn visible(session: &Session, booking_id: &BookingId) -> Result<LoadedBooking, Error> {
    query_one(session, |reader| reader.booking(booking_id))?
        .filter(|state| session.may_see(&state.booking.partner_id))
        .ok_or_else(|| Error::not_found("booking"))
}

/// The partner whose bookings a list shows; all partners' if `None`, for an administrator who acts for nobody.
pub(super) fn listed_owner(session: &Session) -> Result<Option<PartnerId>, Error> {
    match &session.authority {
        Authority::Administrator { partner_id, .. } => Ok(*partner_id),
        _ => session.partner_id().map(Some),
    }
}

/// The partner that a command about a booking acts for. The command itself checks that the booking belongs to it, so a
/// partner's own key needs no read.
pub(super) fn owner_of(session: &Session, booking_id: &BookingId) -> Result<PartnerId, Error> {
    match &session.authority {
        Authority::Partner { partner_id, .. } => Ok(*partner_id),
        _ => query_own(session, booking_id, |reader, id| reader.booking_owner(id)),
    }
}

/// `GET /v1/bookings/{bookingId}`
pub struct GetBooking;

impl Operation for GetBooking {
    const ROUTE: Route = Route {
        id: "getBooking",
        path: "/v1/bookings/{bookingId}",
        access: Access::Scope(Scope::BookingsRead),
        refusals: &[404],
        tag: "Bookings",
        summary: "One booking",
        description: "Carries an ETag; send it as If-None-Match to get 304 while nothing has changed.",
        ..Route::GET
    };
    type Output = Booking;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Booking>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let read = move |session: &Session| {
            let (_, tip, text) = query_one(session, |reader| reader.booking_text(&booking_id))?
                .filter(|(owner, ..)| session.may_see(owner))
                .ok_or_else(|| Error::not_found("booking"))?;
            // The entries recorded for the booking determine everything it shows.
            let tag = hex::encode(&tip[..16]);
            Ok(Finished::stored(text.into_bytes(), Some(tag)))
        };
        Ok(read_stored(false, read))
    }
}

/// `GET /v1/bookings`
pub struct ListBookings;

impl Operation for ListBookings {
    const ROUTE: Route = Route {
        id: "listBookings",
        path: "/v1/bookings",
        access: Access::Scope(Scope::BookingsRead),
        query: &[
            QueryParam {
                name: "status",
                description: "Only bookings in this status: created, protected or canceled.",
                form: QueryForm::Words("BookingStatus"),
            },
            QueryParam {
                name: "eventFrom",
                description: "Only events that start at or after this RFC 3339 instant.",
                form: QueryForm::Instant,
            },
            QueryParam {
                name: "eventTo",
                description: "Only events that start before this RFC 3339 instant.",
                form: QueryForm::Instant,
            },
            QueryParam {
                name: "search",
                description: "Only bookings that have every word of this text: words are separated by white space, and each must be \
                              a part of the bookingId, of an id or name of talent or organizer, of the eventType or of a value \
                              of the metadata. Case does not matter, accents do, and there are no wildcards.",
                form: QueryForm::Text(limits::SEARCH_CHARS),
            },
            LIMIT,
            ids_cursor::<noun::Booking>(),
        ],
        tag: "Bookings",
        summary: "List bookings, or search them",
        description: "Newest first. Pages stay stable while bookings are added. With a filter or a search that matches little, a \
                      page may hold fewer rows than asked for, or none: at most 10,000 bookings, or 8 MiB of them, are examined \
                      for one page. Continue while `hasMore` is true; every match then comes exactly once.",
        ..Route::GET
    };
    type Output = Page<Booking>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<Booking>>, Error> {
        let mut params = QueryReader::of(request);
        let page = params.paging();
        let search = params.text("search", limits::SEARCH_CHARS);
        let status = params.choice("status", BookingStatus::WORDS);
        let (event_from, event_to) = params.range("eventFrom", "eventTo");
        let filter = BookingFilter {
            partner_id: listed_owner(session)?,
            search: search.map(Search::of),
            status,
            event_from,
            event_to,
        };
        params.end()?;
        // A filter that matches little examines thousands of rows.
        let is_long = !filter.is_open();
        let read = move |session: &Session| {
            let (data, next) = query(session, |reader| {
                reader.bookings(&filter, page.before, page.limit)
            })?;
            Ok(Finished::stored(to_json(&Page::up_to(data, next)), None))
        };
        Ok(read_stored(is_long, read))
    }
}

/// `POST /v1/bookings/{bookingId}/protect`
#[derive(Debug)]
pub struct ProtectBooking {
    pub(crate) partner_id: PartnerId,
    pub(crate) booking_id: BookingId,
    /// For its event.
    pub(crate) event: EventSeed,
    /// The seed from which the fact's seed is derived.
    pub(crate) seed: [u8; 32],
    /// The evidence address for the event's payload.
    pub(crate) evidence_url: String,
}

impl Operation for ProtectBooking {
    const ROUTE: Route = Route {
        id: "protectBooking",
        path: "/v1/bookings/{bookingId}/protect",
        access: Access::Scope(Scope::BookingsWrite),
        refusals: &[404, 409],
        tag: "Bookings",
        summary: "Protect a booking",
        description: "Writes the booking's frozen terms to the tamper-evident ledger. A second call changes nothing and \
                      returns the first `protectedAt`. The receipt says where the record stands in the log.",
        ..Route::POST
    };
    type Output = Protected;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Protected>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let partner_id = owner_of(session, &booking_id)?;
        let at = session.service.clock().now();
        let protect = Self {
            partner_id,
            booking_id,
            event: event_seed(&session.service, at),
            seed: entropy::bytes(),
            evidence_url: packet_url(session, &booking_id),
        };
        Ok(write(at, protect))
    }
}

/// A protected booking, and where the record of its protection stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Protected {
    /// The booking's id.
    pub booking_id: BookingId,
    /// Always true.
    pub protected: bool,
    /// When it was first protected.
    pub protected_at: Timestamp,
    /// Where the record is in the ledger.
    pub receipt: Receipt,
}

/// What an event needs that happens at this instant.
pub(super) fn event_seed(service: &Service, at: Timestamp) -> EventSeed {
    EventSeed {
        event_id: EventId::new(at, entropy::bytes()),
        lease: service.lease(),
    }
}

/// The address of a booking's packet.
pub(super) fn packet_url(session: &Session, booking_id: &BookingId) -> String {
    format!(
        "{}/v1/bookings/{booking_id}/evidence",
        session.service.public_url()
    )
}
