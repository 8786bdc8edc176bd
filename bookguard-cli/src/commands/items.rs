//! `evidence items`: adds to a booking's evidence; sends, fetches and deletes the files.

use std::path::{Path, PathBuf};

use bookguard_core::Error;
use bookguard_core::evidence::EvidenceItem;
use bookguard_core::features::items::files::{
    DeleteItemFile, GetItemFile, ItemWithoutFile, PutItemFile, digest_of,
};
use bookguard_core::features::items::{
    AddEvidenceItem, AddedItem, BookingItems, ItemWithFile, ListEvidenceItems,
};
use bookguard_core::input::quoted;
use bookguard_core::limits::FILE_BYTES;
use bookguard_core::model::StoredFile;
use bookguard_core::operation::Request;
use clap::Args;
use serde_json::json;

use super::declare::{Call, CliCommand, carried, group, operation};
use super::documents::deliver;
use crate::args::ConsentArgs;
use crate::failure::Failure;
use crate::files;
use crate::output::say;
use crate::output::table::{Style, fields, joined, leaf, or_dash, record, rows};
use crate::target::sending;
use crate::text::plain;

/// Files from this size on take long enough to say that they are under way.
const LARGE: usize = 1024 * 1024;

#[derive(Debug, Args)]
struct AddArgs {
    /// Its file: the digest is recorded, and the file is sent to be stored
    #[arg(long, value_name = "FILE", conflicts_with = "sha256")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SendArgs {
    /// The file whose digest the item names
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
struct FetchArgs {
    /// The file to write, replacing what is there, or - for standard output [default: -]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn commands() -> CliCommand {
    let about = "Add a contract, a message, a payment or anything else to a booking's evidence";
    let add = carried::<AddEvidenceItem>("add", about, add).with::<AddArgs>();
    let about = "List what was added to a booking's evidence";
    let list = operation::<ListEvidenceItems>("list", about, listed).rows("items");
    let about = "Send the file of an item that was added without it";
    let send = carried::<PutItemFile>("send", about, send).with::<SendArgs>();
    let about = "Fetch the file of an item";
    let file = carried::<GetItemFile>("file", about, fetch).with::<FetchArgs>();
    let about = "Delete the stored file of an item, for every item that names it; the record stays; asks first";
    let delete = carried::<DeleteItemFile>("delete-file", about, delete).with::<ConsentArgs>();
    let about = "What a partner adds to a booking's evidence, and its files";
    group("items", about, [add, list, send, file, delete])
}

async fn add(call: Call<'_>) -> Result<(), Failure> {
    let AddArgs { file } = call.args()?;
    let Some(path) = file else {
        let answer = call.answer::<AddEvidenceItem>().await?;
        return call
            .screen
            .show(&answer, |added, style| shown(added, None, style));
    };
    let file = read(&path)?;
    let mut members = call.members()?;
    members.put("sha256", Some(quoted(&digest_of(&file))));
    let request = Request {
        body: members.to_string().into_bytes(),
        ..call.request()?
    };
    let added = call.target().call::<AddEvidenceItem>(request).await?.output;
    let item = &added.item;
    let (booking_id, item_id) = (item.booking_id.to_string(), item.item_id.to_string());
    let sent = put(call, vec![booking_id.clone(), item_id.clone()], file).await;
    let sent = sent.inspect_err(|_| {
        let file = path.display();
        say(&format!(
            "The item {item_id} is recorded, its file is not stored. Repeat: bookguard evidence items send {booking_id} {item_id} --file {file}"
        ));
    })?;
    let stored = &sent.file;
    let mut value = json!(added);
    value["file"] = json!(stored);
    call.screen
        .said(&value, |style| shown(&added, Some(&sent), style))
}

async fn send(call: Call<'_>) -> Result<(), Failure> {
    let SendArgs { file } = call.args()?;
    let file = read(&file)?;
    let sent = put(call, call.path()?.path, file).await?;
    call.screen.said(&sent, |style| {
        record(style, &item_fields(&sent.item, sent.file.as_ref()))
    })
}

/// Reads an item's file. What the service would refuse is refused before the item is recorded for good.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let file = files::begin(path, FILE_BYTES as u64)?;
    let name = files::name(path);
    match file.len() {
        0 => Err(Failure::Usage(format!(
            "{name} is empty, and the file of an evidence item must not be. Is it the right file?"
        ))),
        1..=FILE_BYTES => Ok(file),
        _ => Err(Failure::Usage(format!(
            "{name} holds more than {} MiB, the most for an evidence item's file. Keep it yourself and record its digest: \
             evidence items add --sha256 sha256:<the output of sha256sum>",
            FILE_BYTES / (1024 * 1024)
        ))),
    }
}

/// Sends an item's file.
async fn put(call: Call<'_>, path: Vec<String>, file: Vec<u8>) -> Result<ItemWithFile, Failure> {
    if file.len() >= LARGE {
        say(&format!("sending {} KiB …", file.len() / 1024));
    }
    let request = sending(path, &file);
    Ok(call.target().call::<PutItemFile>(request).await?.output)
}

async fn fetch(call: Call<'_>) -> Result<(), Failure> {
    let FetchArgs { out } = call.args()?;
    let file = call.target().file::<GetItemFile>(call.path()?).await?;
    deliver(call, out.as_deref(), &file)
}

async fn delete(call: Call<'_>) -> Result<(), Failure> {
    if call.asks()? {
        let item = named(call).await?;
        call.ask(&format!(
            "The stored file of item {item} will be deleted, also for every other item that names the same SHA-256, in whatever booking. \
             Only somebody who has a copy can send it again."
        ))?;
    }
    let answer = call.answer::<DeleteItemFile>().await?;
    call.screen.show(&answer, deleted)
}

/// The item to ask about: its id, and its title if the caller's key may read that.
///
/// # Errors
/// [`Failure::Refused`] if there is no such item; otherwise, those of the call.
async fn named(call: Call<'_>) -> Result<String, Failure> {
    let mut request = call.path()?;
    let id = request.path.pop().unwrap_or_default();
    let Some(found) = call.look::<ListEvidenceItems>(request).await? else {
        return Ok(id);
    };
    let mut items = found.items.iter().map(|listed| &listed.item);
    match items.find(|item| item.item_id.to_string() == id) {
        Some(item) => Ok(format!("{id} (\"{}\")", plain(&item.title))),
        None => Err(Error::not_found("evidence item").into()),
    }
}

fn deleted(answer: &ItemWithoutFile, style: Style) -> String {
    let mut all = item_fields(&answer.item, None);
    let others = joined(answer.same_file.iter().map(ToString::to_string), ", ");
    all.extend(fields! { "same file" => others, });
    record(style, &all)
        + "\n\nIts file is not stored any more, nor is it for any other item that names this SHA-256, in whatever booking. The records stay.\n\
           To store it again: bookguard evidence items send"
}

fn shown(added: &AddedItem, sent: Option<&ItemWithFile>, style: Style) -> String {
    let mut all = match sent {
        Some(sent) => item_fields(&sent.item, sent.file.as_ref()),
        None => item_fields(&added.item, None),
    };
    let receipt = &added.receipt;
    all.extend(fields! {
        "log" => receipt.log_origin,
        "leaf" => leaf(receipt),
        "leaf hash" => receipt.leaf_hash,
    });
    record(style, &all)
}

fn item_fields(
    item: &EvidenceItem,
    file: Option<&StoredFile>,
) -> Vec<(&'static str, Option<String>)> {
    fields! {
        "item" => item.item_id,
        "booking" => item.booking_id,
        "kind" => item.kind.word(),
        "title" => item.title,
        "at" => item.at,
        "party" => item.party,
        "amount" => item.amount.map(|amount| amount.to_string()),
        "reference" => item.reference,
        "note" => item.note,
        "sha256" => item.sha256,
        "file" => file.map(|file| format!("{} bytes, {}", file.bytes, file.media_type)),
        "recorded" => item.added_at,
    }
}

fn listed(list: &BookingItems, style: Style) -> String {
    rows! { style, "items", list.items, listed =>
        "ITEM" => listed.item.item_id,
        "KIND" => listed.item.kind.word(),
        "TITLE" => or_dash(&listed.item.title),
        "AT" => or_dash(listed.item.at),
        "AMOUNT" => or_dash(listed.item.amount.map(|amount| amount.to_string())),
        "SHA256" => or_dash(&listed.item.sha256),
        "FILE" => or_dash(listed.file.as_ref().map(|file| format!("{} bytes", file.bytes))),
        "RECORDED" => listed.item.added_at,
    }
}
