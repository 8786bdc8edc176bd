//! The files of evidence items: sent, stored, read back, deleted, and forgotten if they were never completed.
//!
//! The bytes are checked against the item's digest before any is written. They are written a part in a commit, so that
//! other partners' writes do not wait for them. A process that dies in between leaves parts that nobody can read: sending
//! the file again continues after them, and [`ForgetFiles`] deletes them later.

pub(crate) mod rule;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ItemWithFile, file_of, files_of, items_of};
use crate::engine::change::{FilePart, SentFile};
use crate::engine::command::Envelope;
use crate::error::{Error, Kind, conflict};
use crate::evidence::EvidenceItem;
use crate::features::erasures::held_elsewhere;
use crate::features::erasures::rule::HeldElsewhere;
use crate::limits::FILE_UNFINISHED_MS;
use crate::model::{BookingId, FileId, FileState, ItemId, MediaType, PartnerId, Scope};
use crate::operation::{
    Action, Body, FileAnswer, Finished, Operation, Request, Route, Writing, path_id, query,
    query_one, read_stored, write,
};
use crate::service::Service;
use crate::session::{Access, Session};
use crate::text::counted;

/// `PUT /v1/bookings/{bookingId}/evidence/items/{itemId}/file`
pub struct PutItemFile;

impl Operation for PutItemFile {
    const ROUTE: Route = Route {
        id: "putEvidenceItemFile",
        path: "/v1/bookings/{bookingId}/evidence/items/{itemId}/file",
        access: Access::Scope(Scope::BookingsWrite),
        body: Body::File,
        refusals: &[404, 409],
        tag: "Evidence",
        summary: "Send the file of an evidence item",
        description: "The body is the file itself, at most 10 MiB, under any Content-Type. It is stored only if its SHA-256 is the \
                      one that the item names; otherwise the answer is 409 `file_digest_mismatch`. Repeating it is harmless; if \
                      it was cut off, send the whole file again. A file counts towards the partner's quota once, however many items \
                      name it.",
        ..Route::PUT
    };
    type Output = ItemWithFile;

    fn prepare(session: &Session, request: &Request) -> Result<Action<ItemWithFile>, Error> {
        let (owner, item, known) = named(session, request)?;
        let Some(sha256) = &item.sha256 else {
            return Err(without_file(
                &item,
                "Add another item that names the file's sha256.",
            ));
        };
        let sent = &request.file;
        let received = sent.sha256();
        if received != *sha256 {
            return Err(conflict!(
                "file_digest_mismatch",
                "The file of {} that was received has the digest {received}, but evidence item {} names {sha256}. Nothing was stored. \
                 Send the file that the item names, or add another item for this one.",
                counted(sent.bytes().len() as u64, "byte"),
                item.item_id
            ));
        }
        let file_id = file_of(&owner, &item);
        let file = FileState {
            file_id: file_id.ok_or_else(unreadable)?,
            size: sent.bytes().len() as u64,
            media_type: MediaType::of(sent.bytes()),
            crc: sent.crc(),
            parts: 0,
            at: session.service.clock().now(),
        };
        let stored = known.map_or(0, |known| known.parts);
        Ok(Action::Write(storing(
            &session.service,
            item,
            file,
            (sent, stored),
        )))
    }
}

/// The commands that store the rest of a file, one part each, when the first parts are stored already. The last one answers, even if
/// nothing is left to store, because the answer must be as durable as the first.
fn storing(
    service: &Service,
    item: EvidenceItem,
    file: FileState,
    (sent, stored): (&Arc<SentFile>, u32),
) -> Writing<ItemWithFile> {
    let part = |number| StoreFilePart {
        file,
        item: item.clone(),
        part: FilePart {
            number,
            file: Arc::clone(sent),
        },
    };
    let last = FileState::parts_of(file.size).saturating_sub(1);
    let finish = FinishFile { last: part(last) };
    Writing {
        before: (stored..last)
            .map(|number| service.envelope(part(number)))
            .collect(),
        command: service.envelope(finish),
        awaits: None,
    }
}

/// Stores one part of a file; does nothing if the part is stored already.
#[derive(Debug)]
pub(crate) struct StoreFilePart {
    /// The file, as it is before its first part.
    pub(crate) file: FileState,
    pub(crate) part: FilePart,
    /// The item that names the file.
    pub(crate) item: EvidenceItem,
}

/// Stores the last part of a file, with which the file counts as stored.
#[derive(Debug)]
pub(crate) struct FinishFile {
    pub(crate) last: StoreFilePart,
}

/// `GET /v1/bookings/{bookingId}/evidence/items/{itemId}/file`
pub struct GetItemFile;

impl Operation for GetItemFile {
    const ROUTE: Route = Route {
        id: "getEvidenceItemFile",
        path: "/v1/bookings/{bookingId}/evidence/items/{itemId}/file",
        access: Access::Scope(Scope::EvidenceRead),
        refusals: &[404],
        tag: "Evidence",
        summary: "The file of an evidence item",
        description: "The bytes as they were sent, to be saved: `Content-Disposition` is always `attachment`, and the media type is \
                      one that no browser runs.",
        ..Route::GET
    };
    /// The answer is not JSON but the file's bytes.
    type Output = String;

    fn prepare(session: &Session, request: &Request) -> Result<Action<String>, Error> {
        let (_, item, known) = named(session, request)?;
        let file = known.filter(FileState::is_whole);
        let file = file.ok_or_else(|| not_stored(&item))?;
        let tag = hex::encode(&file.file_id.digest()[..16]);
        let unchanged = request.knows(&tag);
        Ok(read_stored(false, move |_| {
            let finished = Finished::stored(Vec::new(), Some(tag));
            let answer = FileAnswer {
                name: file.name(&item.item_id),
                file,
            };
            Ok(Finished {
                file: (!unchanged).then_some(answer),
                ..finished
            })
        }))
    }
}

/// `DELETE /v1/bookings/{bookingId}/evidence/items/{itemId}/file`
#[derive(Debug)]
pub struct DeleteItemFile {
    pub(crate) booking_id: BookingId,
    pub(crate) file_id: FileId,
    /// Where no legal hold was found that keeps the file.
    pub(crate) elsewhere: HeldElsewhere,
    pub(crate) reply: ItemWithoutFile,
}

/// An evidence item whose file is not stored any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct ItemWithoutFile {
    /// The item as the ledger records it.
    #[serde(flatten)]
    pub item: EvidenceItem,
    /// The other items of this booking that name the same file, which is gone for them too. It is gone for items of other
    /// bookings as well; those are not listed.
    pub same_file: Vec<ItemId>,
}

impl Operation for DeleteItemFile {
    const ROUTE: Route = Route {
        id: "deleteEvidenceItemFile",
        path: "/v1/bookings/{bookingId}/evidence/items/{itemId}/file",
        access: Access::Scope(Scope::BookingsWrite),
        audited: true,
        refusals: &[404, 409],
        tag: "Evidence",
        summary: "Delete the stored file of an evidence item",
        description: "Deletes the bytes, which no longer count towards the quota. The item stays, with the file's digest: the ledger and \
                      every packet keep them. A file is stored once, so it is gone for each of the partner's items that name this \
                      digest, in any booking. A legal hold on one of them refuses it. Deleting it again changes nothing and answers the same. The file can be sent again.",
        ..Route::DELETE
    };
    type Output = ItemWithoutFile;

    fn prepare(session: &Session, request: &Request) -> Result<Action<ItemWithoutFile>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let item_id: ItemId = path_id(request, 1)?;
        let (owner, items) = items_of(session, &booking_id)?;
        let item = find(&items, &item_id)?;
        let Some(sha256) = &item.sha256 else {
            return Err(without_file(&item, "Nothing was deleted."));
        };
        let of_others = items
            .iter()
            .filter(|other| other.item_id != item_id && other.sha256.as_ref() == Some(sha256));
        let file_id = file_of(&owner, &item).ok_or_else(unreadable)?;
        let elsewhere = query(session, |reader| {
            // To find a hold takes reading the items of all held bookings. Where nothing is stored, there is nothing to keep.
            match reader.files(&[file_id])?.is_empty() {
                true => Ok(Ok(HeldElsewhere::default())),
                false => held_elsewhere(reader, &owner, &booking_id, &[file_id]),
            }
        })??;
        let delete = Self {
            booking_id,
            file_id,
            elsewhere,
            reply: ItemWithoutFile {
                same_file: of_others.map(|other| other.item_id).collect(),
                item,
            },
        };
        Ok(write(session.service.clock().now(), delete))
    }
}

/// The refusal for an item without a stored file. The item is the caller's own, so the refusal says why there is no file.
fn not_stored(item: &EvidenceItem) -> Error {
    let item_id = item.item_id;
    let why = match &item.sha256 {
        Some(sha256) => format!(
            "The service does not have the file of evidence item {item_id}, {sha256}: it was not sent, or was deleted. Send it first."
        ),
        None => {
            format!("Evidence item {item_id} names no sha256, so no file belongs to it.")
        }
    };
    Error::new(Kind::NotFound, "not_found", why)
}

fn without_file(item: &EvidenceItem, way_out: &str) -> Error {
    conflict!(
        "item_without_file",
        "Evidence item {} names no sha256, so no file belongs to it. {way_out}",
        item.item_id
    )
}

fn unreadable() -> Error {
    Error::internal("a recorded digest cannot be read")
}

/// A file's digest, as an item names it.
pub fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// The item that a request's path names, its owner, and what is stored of its file.
fn named(
    session: &Session,
    request: &Request,
) -> Result<(PartnerId, EvidenceItem, Option<FileState>), Error> {
    let booking_id: BookingId = path_id(request, 0)?;
    let item_id: ItemId = path_id(request, 1)?;
    let (owner, items) = items_of(session, &booking_id)?;
    let item = find(&items, &item_id)?;
    let files = files_of(session, &owner, std::slice::from_ref(&item))?;
    let known = file_of(&owner, &item).and_then(|file_id| files.get(&file_id).copied());
    Ok((owner, item, known))
}

fn find(items: &[EvidenceItem], item_id: &ItemId) -> Result<EvidenceItem, Error> {
    let found = items.iter().find(|item| item.item_id == *item_id);
    found
        .cloned()
        .ok_or_else(|| Error::not_found("evidence item"))
}

/// The whole files of a booking's items, in the order of the items. Blocks.
///
/// # Errors
/// `not_found`, or `unavailable` if the store does not answer.
pub fn files_of_booking(
    session: &Session,
    booking_id: &BookingId,
) -> Result<Vec<(ItemId, FileState)>, Error> {
    let (owner, items) = items_of(session, booking_id)?;
    let files = files_of(session, &owner, &items)?;
    let whole = |item: &EvidenceItem| {
        let file = files.get(&file_of(&owner, item)?)?;
        file.is_whole().then_some((item.item_id, *file))
    };
    Ok(items.iter().filter_map(whole).collect())
}

/// The bytes of one part of a whole file. Blocks.
///
/// # Errors
/// `unavailable` if the store does not answer, or if the file was deleted meanwhile.
pub fn part_of(session: &Session, file: &FileState, number: u32) -> Result<Vec<u8>, Error> {
    let part = query_one(session, |reader| reader.file_part(&file.file_id, number))?;
    part.ok_or_else(|| {
        Error::unavailable(
            "A file was deleted while it was read, so the answer is not whole. Ask for it again.",
        )
    })
}

/// Deletes files that were not completed, and to which nothing was added for an hour.
#[derive(Debug)]
pub(crate) struct ForgetFiles;

/// Deletes all such files. Call this now and then. Blocks.
///
/// # Errors
/// `unavailable` if the store does not answer.
pub fn forget_unfinished_files(service: &Service) -> Result<(), Error> {
    loop {
        let at = service.clock().now();
        let before = at.plus_ms(-FILE_UNFINISHED_MS);
        if !service.ask(|reader| reader.has_unfinished_files(before))? {
            return Ok(());
        }
        service.submit_and_wait(Envelope::new(at, ForgetFiles))?;
    }
}
