//! Evidence items: what a partner adds to a booking's evidence, and the files of it.
//!
//! An item is recorded first, with the digest of its file; the bytes are sent apart, and only bytes with that digest are
//! stored. So the ledger never waits for bytes, an upload can be repeated, and an item without its file is the same thing
//! with one step left out.

pub mod files;
pub(crate) mod rule;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::bookings::{currency, decimal, owner_of};
use super::cancellations::digest;
use crate::engine::command::Receipt;
use crate::entropy;
use crate::error::Error;
use crate::evidence::{EvidenceItem, ItemKind};
use crate::input::{self, Declaration, Form};
use crate::limits;
use crate::model::{
    BookingId, Currency, FileId, FileState, ItemId, PartnerId, Scope, StoredFile, Timestamp,
};
use crate::operation::{Action, Body, Operation, Request, Route, path_id, query, read, write};
use crate::policy::Actor;
use crate::session::{Access, Session};

/// `POST /v1/bookings/{bookingId}/evidence/items`
#[derive(Debug)]
pub struct AddEvidenceItem {
    pub(crate) partner_id: PartnerId,
    pub(crate) booking_id: BookingId,
    pub(crate) item_id: ItemId,
    pub(crate) asked: ItemRequest,
    /// Seed of the fact's salts.
    pub(crate) seed: [u8; 32],
}

/// Body of [`AddEvidenceItem`], read and checked field by field.
#[derive(Debug, Clone)]
pub struct ItemRequest {
    /// What it is.
    pub kind: ItemKind,
    /// Its title.
    pub title: String,
    /// When it was made or happened.
    pub at: Option<Timestamp>,
    /// Whom it comes from.
    pub party: Option<Actor>,
    /// The digits of an amount.
    pub amount: Option<String>,
    /// The amount's currency; the booking's if not given.
    pub currency: Option<Currency>,
    /// What others know it by.
    pub reference: Option<String>,
    /// A note.
    pub note: Option<String>,
    /// The digest of its file.
    pub sha256: Option<String>,
}

/// An evidence item just recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct AddedItem {
    /// The item as the ledger records it.
    #[serde(flatten)]
    pub item: EvidenceItem,
    /// Where the record is in the ledger.
    pub receipt: Receipt,
}

/// An evidence item, and its file if the service stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct ItemWithFile {
    /// The item as the ledger records it.
    #[serde(flatten)]
    pub item: EvidenceItem,
    /// Its file; absent if it names none, or if the file was not sent yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<StoredFile>,
}

/// The evidence items of a booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct BookingItems {
    /// The booking.
    pub booking_id: BookingId,
    /// Its items, oldest first.
    pub items: Vec<ItemWithFile>,
}

impl Operation for AddEvidenceItem {
    const ROUTE: Route = Route {
        id: "addEvidenceItem",
        path: "/v1/bookings/{bookingId}/evidence/items",
        access: Access::Scope(Scope::BookingsWrite),
        status: 201,
        body: Body::Required(&ItemRequest::BODY),
        refusals: &[404, 409],
        tag: "Evidence",
        summary: "Add a contract, a message, a payment or anything else to a booking's evidence",
        description: "Writes `evidence.added` to the ledger, for a booking in any status: what you say about the item, and the \
                      SHA-256 of its file if there is one. It is part of every evidence packet from then on. Send the file \
                      itself with `PUT …/evidence/items/{itemId}/file`, or keep it: its digest is recorded either way. \
                      A booking takes at most 50 items.",
        ..Route::POST
    };
    type Output = AddedItem;

    fn prepare(session: &Session, request: &Request) -> Result<Action<AddedItem>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let asked = input::read(&request.body, ItemRequest::form)?;
        let at = session.service.clock().now();
        let add = Self {
            partner_id: owner_of(session, &booking_id)?,
            booking_id,
            item_id: ItemId::new(at, entropy::bytes()),
            asked,
            seed: entropy::bytes(),
        };
        Ok(write(at, add))
    }
}

impl ItemRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewEvidenceItem",
        about: "What you add to a booking's evidence.",
        example: r#"{
            "kind": "refund",
            "title": "Refund of the deposit",
            "at": "2026-11-21T17:29:52Z",
            "party": "partner",
            "amount": 300,
            "currency": "USD",
            "reference": "re_3Q2xkA",
            "sha256": "sha256:fca3a4a7ec2bc91670c009beae228832b946684603fdec2c42f4bd24da5cd1b0"
        }"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of an item, reporting every fault.
    /// Its faults are those of [`input`], and `currency_without_amount`.
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let kind = form
            .about("What it is.")
            .required("kind", |v| v.named("ItemKind").choice(ItemKind::WORDS));
        let title = form
            .about("Its title, as readers of the evidence see it.")
            .required("title", |v| v.text(limits::NAME_CHARS));
        let at = form
            .about("When it was made or happened: at most 5 minutes ahead.")
            .optional("at", input::instant);
        let party = form
            .about("Whom it comes from.")
            .optional("party", |v| v.named("Actor").choice(Actor::WORDS));
        let amount = form
            .about("The amount paid or returned.")
            .optional("amount", |v| decimal(v).map(str::to_owned));
        let code = form
            .about("The amount's currency; the booking's when not given.")
            .optional("currency", currency);
        let reference = form
            .about("What others know it by, such as a payment's number.")
            .optional("reference", |v| v.text(limits::REFERENCE_CHARS));
        let note = form
            .about("A comment, in your own words.")
            .optional("note", |v| v.text(limits::TEXT_CHARS));
        let sha256 = form
            .about("`sha256:` and the hex digest of its file's bytes.")
            .optional("sha256", digest);
        if form.has("currency") && !form.has("amount") {
            form.fault_at(
                "currency",
                "currency_without_amount",
                "names the currency of an amount that is not there",
                "Add the amount, or leave the currency out.",
            );
        }
        form.describe(|draft| draft.set("dependentRequired", json!({"currency": ["amount"]})));
        Some(Self {
            kind: kind?,
            title: title?,
            at,
            party,
            amount,
            currency: code,
            reference,
            note,
            sha256,
        })
    }
}

/// `GET /v1/bookings/{bookingId}/evidence/items`
pub struct ListEvidenceItems;

impl Operation for ListEvidenceItems {
    const ROUTE: Route = Route {
        id: "listEvidenceItems",
        path: "/v1/bookings/{bookingId}/evidence/items",
        access: Access::Scope(Scope::EvidenceRead),
        refusals: &[404],
        tag: "Evidence",
        summary: "What was added to a booking's evidence",
        description: "Oldest first. `file` is there if the service stores the item's file, and says how it is served.",
        ..Route::GET
    };
    type Output = BookingItems;

    fn prepare(_: &Session, request: &Request) -> Result<Action<BookingItems>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        Ok(read::<Self>(move |session| {
            let (owner, items) = items_of(session, &booking_id)?;
            let files = files_of(session, &owner, &items)?;
            let shown = |item: EvidenceItem| ItemWithFile {
                file: (file_of(&owner, &item)).and_then(|file_id| files.get(&file_id)?.shown()),
                item,
            };
            Ok(BookingItems {
                booking_id,
                items: items.into_iter().map(shown).collect(),
            })
        }))
    }
}

/// The owner of a booking, and its items.
fn items_of(
    session: &Session,
    booking_id: &BookingId,
) -> Result<(PartnerId, Vec<EvidenceItem>), Error> {
    let found = query(session, |reader| {
        let owner = reader.booking_owner(booking_id)?;
        Ok((owner, reader.items_of(booking_id)?))
    })?;
    let (owner, items) = found;
    let owner = owner.filter(|owner| session.may_see(owner));
    Ok((owner.ok_or_else(|| Error::not_found("booking"))?, items))
}

/// What is stored of the items' files.
fn files_of(
    session: &Session,
    owner: &PartnerId,
    items: &[EvidenceItem],
) -> Result<HashMap<FileId, FileState>, Error> {
    let file_ids: Vec<FileId> = items
        .iter()
        .filter_map(|item| file_of(owner, item))
        .collect();
    query(session, |reader| reader.files(&file_ids))
}

/// The file that an item names.
fn file_of(owner: &PartnerId, item: &EvidenceItem) -> Option<FileId> {
    FileId::named(owner, item.sha256.as_deref()?)
}
