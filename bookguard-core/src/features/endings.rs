//! The end of a partner's contract: it can do nothing more, and its personal data is erased, a page of bookings at a time.
//!
//! The first request ends the contract and examines no booking yet. From then on nothing is recorded for the partner, by itself or by the
//! operator, so no page changes after it was examined, except for legal holds. Each further request takes one page. Only the database
//! records what is done: keys are revoked, endpoints deleted, values erased. So a caller that is killed asks again from the beginning, and
//! what was done is passed over. Where a page ends, its answer says how much was left so far, and the next request brings that back.
//! Invariant: a booking under a legal hold stays as it is, and is named; the partner's own record is erased last, when nothing is left.

pub(crate) mod rule;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::erasures::{EraseValues, erase_all};
use crate::engine::command::{Audited, Envelope};
use crate::error::Error;
use crate::evidence::Hold;
use crate::input::{self, Declaration, Form, Value};
use crate::limits;
use crate::model::{BookingId, PartnerId};
use crate::operation::{
    Action, Body, Operation, Request, Route, Writing, audited, path_id, query, query_one, write,
};
use crate::session::{Access, Session};

/// `bookguard partners end`
#[derive(Debug)]
pub struct EndContract {
    pub(crate) partner_id: PartnerId,
    /// What was found on a page of its bookings; `None` for the request that begins.
    pub(crate) page: Option<ContractEnd>,
}

/// Erases everything of a booking, on behalf of the page that it is in.
#[derive(Debug)]
pub(crate) struct EraseBooking(pub(crate) EraseValues);

/// Body of [`EndContract`], read and checked field by field.
#[derive(Debug, Clone, Default)]
pub struct EndRequest {
    after: Option<PageEnd>,
    request_ref: Option<String>,
}

/// Where a page of an ending contract ended: `bkg_….3` is after this booking, with three left that a hold keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PageEnd {
    booking_id: BookingId,
    left: u64,
}

const PAGE_END_PATTERN: &str = r"^bkg_[0-9a-f]{32}\.(0|[1-9][0-9]*)$";

/// The way out of a place that does not fit.
const GO_ON: &str =
    "Send the `next` of the previous answer, unchanged, or leave it out to start again.";

impl PageEnd {
    /// Before every booking.
    fn start() -> Self {
        Self {
            booking_id: BookingId::from_bytes([0; 16]),
            left: 0,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (booking_id, left) = text.split_once('.')?;
        let left: u64 = left.parse().ok()?;
        let end = Self {
            booking_id: BookingId::parse(booking_id)?,
            left,
        };
        (end.to_string() == text).then_some(end)
    }
}

impl fmt::Display for PageEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.booking_id, self.left)
    }
}

/// How far the end of a contract has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct ContractEnd {
    /// The partner.
    pub partner_id: PartnerId,
    /// The bookings of this page where this request erased something. Those that a refused request had erased before are not counted.
    pub erased: u64,
    /// The active holds of bookings of this page, which were left as they are.
    pub held: Vec<Hold>,
    /// Where the next page begins: send it as `after`, unchanged. Absent when all bookings were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Whether nothing is left, on this page and those before: no booking was passed over because of a hold, and the partner's name and
    /// contact are erased.
    pub done: bool,
}

impl ContractEnd {
    /// The answer of the first request.
    pub(crate) fn begun(partner_id: PartnerId) -> Self {
        Self {
            partner_id,
            erased: 0,
            held: Vec::new(),
            next: Some(PageEnd::start().to_string()),
            done: false,
        }
    }
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
        description: "Decide its open reviews and export everything first. The first request revokes the partner's keys, deletes its endpoints and suspends it, and from then on nothing \
                      more is recorded for it (`partner_ended`). Each further request erases the personal data of a page of its bookings: repeat it with `after` \
                      until `next` is absent. Until the last page, `reinstate` takes the end back; what is erased stays erased. Bookings under a legal hold stay as they are \
                      and are named. The ledger, terms and amounts stay. It can be repeated at any time, and after any failure.",
        ..Route::POST
    };
    type Output = ContractEnd;

    fn prepare(session: &Session, request: &Request) -> Result<Action<ContractEnd>, Error> {
        let partner_id: PartnerId = path_id(request, 0)?;
        let asked = EndRequest::read(&request.body)?;
        let service = &session.service;
        let known = query_one(session, |reader| reader.partner(&partner_id))?;
        let known = known.ok_or_else(|| Error::not_found("partner"))?;
        let Some(after) = asked.after else {
            let begins = Self {
                partner_id,
                page: None,
            };
            return Ok(write(service.clock().now(), begins));
        };
        // Otherwise the caller of one page after the other would end again what somebody else took back.
        if !known.is_ended() {
            let message = "is a page of an end that has not begun, or that was taken back by reinstating the partner";
            let fix = "Leave it out to end the contract.";
            return Err(Error::fault("/after", "cursor_invalid", message, fix));
        }
        let rows = limits::BOOKINGS_ENDED;
        let (owner, page, holds) = query(session, |reader| {
            let owner = reader.booking_owner(&after.booking_id)?;
            let page = reader.bookings_after(&partner_id, after.booking_id, rows + 1)?;
            Ok((owner, page, reader.active_holds(&partner_id)?))
        })?;
        // A place from elsewhere would pass over bookings, and end the contract without them.
        if after != PageEnd::start() && owner != Some(partner_id) {
            let message = "names no booking of this partner";
            return Err(Error::fault("/after", "cursor_invalid", message, GO_ON));
        }
        let mut before = Vec::new();
        let more = page.len() > rows as usize;
        let page = &page[..page.len().min(rows as usize)];
        let mut left = after.left;
        let mut reply = ContractEnd::begun(partner_id);
        for booking_id in page {
            let held = holds.iter().filter(|hold| hold.booking_id == *booking_id);
            let held: Vec<Hold> = held.cloned().collect();
            if !held.is_empty() {
                reply.held.extend(held);
                left += 1;
                continue;
            }
            let erase = erase_all(service, partner_id, *booking_id, asked.request_ref.clone());
            // A file of it is one of a booking under a hold. That hold is named where it is.
            if erase
                .as_ref()
                .is_err_and(|error| error.code == "legal_hold")
            {
                left += 1;
                continue;
            }
            if let Some(erase) = erase? {
                before.push(Envelope::new(service.clock().now(), EraseBooking(erase)));
                reply.erased += 1;
            }
        }
        reply.done = !more && left == 0 && holds.is_empty();
        let end = page.last().filter(|_| more);
        reply.next = end.map(|booking_id| {
            let booking_id = *booking_id;
            PageEnd { booking_id, left }.to_string()
        });
        let page = Some(reply);
        let command = service.envelope(Self { partner_id, page });
        // The record is written with the first booking that is erased: the rest of the request may change nothing, or never come.
        if let Some(first) = before.first_mut() {
            let audited = audited::<Self>(session, request, &command);
            first.audit = Some(Box::new(Audited {
                record: audited.record,
                ids_of: |()| BTreeMap::new(),
                status: audited.status,
            }));
        }
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
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body; an empty one begins with the first page.
    ///
    /// # Errors
    /// Those of [`input`], and `cursor_invalid`.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        input::read(input::or_empty(body), Self::form)
    }

    fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let after = form
            .about("The `next` of the previous page, unchanged. Leave it out in the first request.")
            .optional("after", page_end);
        let request_ref = form
            .about("Your reference for the end of the contract. It stays in the ledger, so it must not be personal data. If you repeat the request, send the same reference: otherwise the earlier one is erased.")
            .optional("requestRef", |v| v.text(limits::REFERENCE_CHARS));
        Some(Self { after, request_ref })
    }
}

fn page_end(v: &mut Value<'_, '_>) -> Option<PageEnd> {
    let text = v
        .pattern(PAGE_END_PATTERN)
        .example("bkg_01a1ff28458b74cda7afc5a3cc4111ef.1")
        .string()?;
    PageEnd::parse(&text)
        .or_else(|| v.fault("cursor_invalid", "does not say where a page ended", GO_ON))
}
