//! The end of a partner's contract: it can do nothing more, and its personal data is erased, a page of bookings at a time.
//!
//! A request takes one page. What is done is found in the database and nowhere else: keys are revoked, endpoints deleted, values erased.
//! So a caller that is killed asks again from the beginning, and what was done is passed over. Invariant: a booking under a legal hold
//! stays as it is, and is named; the partner's own record is erased last, when nothing is left.

pub(crate) mod rule;

use serde::{Deserialize, Serialize};

use super::erasures::{EraseValues, erase_all};
use crate::engine::command::Envelope;
use crate::error::Error;
use crate::evidence::Hold;
use crate::input::{self, Declaration, Form};
use crate::limits;
use crate::model::{BookingId, PartnerId};
use crate::operation::{Action, Body, Operation, Request, Route, Writing, path_id, query};
use crate::session::{Access, Session};

/// `bookguard partners end`
#[derive(Debug)]
pub struct EndContract {
    pub(crate) partner_id: PartnerId,
    pub(crate) reply: ContractEnd,
}

/// Erases everything of a booking, on behalf of the page that it is in.
#[derive(Debug)]
pub(crate) struct EraseBooking(pub(crate) EraseValues);

/// Takes from a partner whatever it could act with.
#[derive(Debug)]
pub(crate) struct DisarmPartner {
    pub(crate) partner_id: PartnerId,
}

/// Body of [`EndContract`], read and checked field by field.
#[derive(Debug, Clone, Default)]
pub struct EndRequest {
    after: Option<String>,
    request_ref: Option<String>,
}

/// How far the end of a contract has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct ContractEnd {
    /// The partner.
    pub partner_id: PartnerId,
    /// The bookings of this page of which something was erased.
    pub erased: u64,
    /// The active holds of bookings of this page, which were left as they are.
    pub held: Vec<Hold>,
    /// Where the next page begins: send it as `after`. Absent when all bookings were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub next: Option<BookingId>,
    /// Whether nothing is left: no booking under a hold, and the partner's name and contact erased.
    pub done: bool,
}

impl Operation for EndContract {
    const ROUTE: Route = Route {
        id: "endContract",
        path: "/v1/partners/{partnerId}/end",
        access: Access::Administrator,
        body: Body::Optional(&EndRequest::BODY),
        refusals: &[404, 409],
        tag: "Partners",
        summary: "End a partner's contract: erase its personal data for good",
        description: "Export everything first. Revokes the partner's keys, deletes its endpoints, suspends it, and erases the personal data of a \
                      page of its bookings; repeat it with `after` until `next` is absent. Bookings under a legal hold stay as they are \
                      and are named. The ledger, terms and amounts stay. It can be repeated at any time, and after any failure.",
        ..Route::POST
    };
    type Output = ContractEnd;

    fn prepare(session: &Session, request: &Request) -> Result<Action<ContractEnd>, Error> {
        let partner_id: PartnerId = path_id(request, 0)?;
        let asked = EndRequest::read(&request.body)?;
        let service = &session.service;
        let rows = limits::BOOKINGS_ENDED;
        let unknown = || Error::not_found("booking");
        let after = asked.after.as_deref();
        let after = after.map(|text| BookingId::parse(text).ok_or_else(unknown));
        let after = after.transpose()?;
        let (known, page, holds) = query(session, |reader| {
            let page = reader.bookings_after(&partner_id, after, rows + 1)?;
            let holds = reader.active_holds(&partner_id, None, limits::HOLDS_PER_PARTNER)?;
            Ok((reader.partner(&partner_id)?, page, holds))
        })?;
        known.ok_or_else(|| Error::not_found("partner"))?;
        // With every page: a caller may begin with a later one.
        let mut before = vec![service.envelope(DisarmPartner { partner_id })];
        let more = page.len() > rows as usize;
        let page = &page[..page.len().min(rows as usize)];
        let mut reply = ContractEnd {
            partner_id,
            erased: 0,
            held: Vec::new(),
            next: page.last().copied().filter(|_| more),
            done: !more && holds.is_empty(),
        };
        for booking_id in page {
            let held = holds.iter().filter(|hold| hold.booking_id == *booking_id);
            let held: Vec<Hold> = held.cloned().collect();
            if !held.is_empty() {
                reply.held.extend(held);
                continue;
            }
            let erase = erase_all(service, partner_id, *booking_id, asked.request_ref.clone());
            // A file of it is one of a booking under a hold. That hold is named where it is.
            if erase
                .as_ref()
                .is_err_and(|error| error.code == "legal_hold")
            {
                continue;
            }
            if let Some(erase) = erase? {
                before.push(Envelope::new(service.clock().now(), EraseBooking(erase)));
                reply.erased += 1;
            }
        }
        let command = service.envelope(Self { partner_id, reply });
        Ok(Action::Write(Writing {
            before,
            command,
            awaits: None,
        }))
    }
}

impl EndRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "EndOfContract",
        about: "A page of the end of a contract.",
        example: r#"{"requestRef": "contract 2026-04"}"#,
        reader: |v| {
            v.object(Self::form);
        },
    };

    /// Reads the body; an empty one begins with the first page.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        input::read(input::or_empty(body), Self::form)
    }

    fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let after = form
            .about(
                "The last booking of the page before: its `next`. The first page when not given.",
            )
            .optional("after", |v| v.text(limits::NAME_CHARS));
        let request_ref = form
            .about("Your reference for the end of the contract. It stays in the ledger, so it must not be personal data.")
            .optional("requestRef", |v| v.text(limits::REFERENCE_CHARS));
        Some(Self { after, request_ref })
    }
}
