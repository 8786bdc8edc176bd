//! `partners export` and `end`: everything of a partner as one archive, and then the end of its contract.
//!
//! The archive is a tar (POSIX ustar): it is written while it is read, whatever its size, and every system opens it. Names
//! are in order and files have no times, so two exports differ only where the service's answers do: packets say when they were made.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bookguard_core::Error;
use bookguard_core::features::api_keys::ListApiKeys;
use bookguard_core::features::audit::ListAudit;
use bookguard_core::features::bookings::ListBookings;
use bookguard_core::features::endings::EndContract;
use bookguard_core::features::endpoints::ListEndpoints;
use bookguard_core::features::erasures::ListErasures;
use bookguard_core::features::events::ListBookingEvents;
use bookguard_core::features::events::log::ListEvents;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::holds::ListHolds;
use bookguard_core::features::items::ListEvidenceItems;
use bookguard_core::features::items::files::GetItemFile;
use bookguard_core::features::partners::GetPartner;
use bookguard_core::features::partners::account::GetPartnerAccount;
use bookguard_core::features::policies::{GetPolicy, ListPolicies, ListPolicyVersions};
use bookguard_core::features::shares::ListShares;
use bookguard_core::input::shorten;
use bookguard_core::model::PartnerAccount;
use bookguard_core::operation::{Operation, Request};
use bookguard_core::policy::is_policy_id;
use clap::Args;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::declare::{Call, CliCommand, carried, special};
use super::draft::{Draft, exists, unless_told_to_end};
use crate::args::ConsentArgs;
use crate::failure::Failure;
use crate::files::named;
use crate::output::say;
use crate::output::table::{Style, counted, fields, record, rows};
use crate::target::Purpose;
use crate::text::plain;

const BLOCK: usize = 512;

/// How often a page of the end of a contract is tried while its bookings change, and the pause before the next try.
const CHANGES: u32 = 100;
const CHANGED_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
struct ExportArgs {
    /// The archive to write, a tar; it must not exist yet
    #[arg(long, value_name = "FILE", value_parser = named())]
    out: PathBuf,
}

pub(super) fn export_command() -> CliCommand {
    let about = "Write all data of a partner into one archive: the partner that the key belongs to, or that --partner names";
    special("export", about, export)
        .purpose(Purpose::Many)
        .with::<ExportArgs>()
}

pub(super) fn end_command() -> CliCommand {
    let about = "End a partner's contract: revoke its keys, delete its endpoints and erase its personal data, for good (for the operator)";
    carried::<EndContract>("end", about, end)
        .purpose(Purpose::Many)
        .with::<ConsentArgs>()
        .flags(|flags| {
            flags.says("after", AFTER);
        })
}

const AFTER: &str = "Begin after this page, the `next` of an answer of the interface; without it, the command begins with the first, and goes \
                     through them all";

/// What is asked before the contract ends.
async fn question(call: Call<'_>, partner_id: &str) -> Result<String, Failure> {
    let target = call.target();
    let PartnerAccount { partner, quota } = target
        .ask::<GetPartnerAccount>(&[partner_id], Value::Null)
        .await?;
    Ok(format!(
        "The contract of {} ({partner_id}) will end: its keys will be revoked, its endpoints deleted, and the personal data of its {} erased. \
         None of this can be undone. Export it first: bookguard partners export --partner {partner_id}",
        plain(&partner.name),
        counted(quota.bookings.used, "booking"),
    ))
}

async fn end(call: Call<'_>) -> Result<(), Failure> {
    let first = call.request()?;
    let partner_id = first.path.first().cloned().unwrap_or_default();
    if call.asks()? {
        call.ask(&question(call, &partner_id).await?)?;
    }
    let mut asked: Value = serde_json::from_slice(&first.body).unwrap_or_else(|_| json!({}));
    let (mut erased, mut held, mut changes) = (0, Vec::new(), 0);
    // A request that was refused midway, and then repeated, had counted none of those that it erased. Whether one was repeated on its
    // way to a server is not known here.
    let mut is_least = call.target().database().is_err();
    loop {
        let request = Request {
            path: first.path.clone(),
            body: asked.to_string().into_bytes(),
            ..Request::default()
        };
        let page = match call.target().call::<EndContract>(request).await {
            // A delivery was settled in between, or an item added. The page is asked for again; nothing in it is done twice.
            Err(failure) if failure.is("booking_changed") && changes < CHANGES => {
                changes += 1;
                is_least = true;
                sleep(CHANGED_PAUSE).await;
                continue;
            }
            answered => answered?.output,
        };
        changes = 0;
        erased += page.erased;
        held.extend(page.held);
        let counted = if is_least {
            format!("at least {erased}")
        } else {
            erased.to_string()
        };
        let Some(next) = page.next else {
            let done = page.done && held.is_empty();
            let value =
                json!({"partnerId": page.partner_id, "erased": erased, "held": held, "done": done});
            let fields = fields! {
                "partner" => page.partner_id,
                "bookings erased" => (erased > 0).then_some(counted),
            };
            let said = "The contract has ended: the personal data of its bookings, its name and its contact are erased. Its endpoints' addresses \
                 and descriptions, the names of its keys, its policies, its events without a booking and the audit stay, and for a while \
                 people's names in its console and answers to its last requests.";
            call.screen.said(&value, |style: Style| match done {
                true => format!("{}\n\n{said}", record(style, &fields)),
                false if held.is_empty() => record(style, &fields),
                false => {
                    let holds = rows! { style, "holds", held, hold =>
                        "BOOKING" => hold.booking_id,
                        "HOLD" => hold.hold_id,
                        "REASON" => hold.reason,
                    };
                    format!("{}\n\n{holds}", record(style, &fields))
                }
            })?;
            return match done {
                true => Ok(()),
                false => Err(Error::conflict(
                    "legal_hold",
                    format!(
                        "The contract of {} has not ended: its bookings under a legal hold stay as they are. Release the holds, then \
                         repeat this.",
                        page.partner_id
                    ),
                )
                .into()),
            };
        };
        asked["after"] = json!(next);
        if erased > 0 {
            say(&format!("{counted} bookings erased so far …"));
        }
    }
}

async fn export(call: Call<'_>) -> Result<(), Failure> {
    let ExportArgs { out } = call.args()?;
    unless_told_to_end(into(call, &out)).await
}

async fn into(call: Call<'_>, out: &Path) -> Result<(), Failure> {
    let partner = answer::<GetPartner>(call, &[]).await?;
    let mut tar = Tar::create(out)?;
    tar.json("partner.json", &partner)?;
    tar.json("api-keys.json", &pages::<ListApiKeys>(call, &[]).await?)?;
    tar.json("endpoints.json", &pages::<ListEndpoints>(call, &[]).await?)?;
    let policies = pages::<ListPolicies>(call, &[]).await?;
    tar.json("policies.json", &policies)?;
    for policy in policies.as_array().into_iter().flatten() {
        let id = policy["policyId"].as_str().unwrap_or_default();
        of_policy(call, &mut tar, id).await?;
    }
    tar.json("audit.json", &pages::<ListAudit>(call, &[]).await?)?;
    events(call, &mut tar).await?;
    let (mut at, mut bookings) = (Position::default(), 0_u64);
    while let Some(page) = page::<ListBookings>(call, &[], &mut at).await? {
        if bookings > 0 {
            say(&format!("{bookings} bookings exported …"));
        }
        for booking in page {
            let id = booking["bookingId"].as_str().unwrap_or_default();
            of_booking(call, &mut tar, id).await?;
            bookings += 1;
        }
    }
    let bytes = tar.finish()?;
    let value = json!({"file": out, "partnerId": partner["partnerId"], "bookings": bookings, "bytes": bytes});
    call.screen.said(&value, |_| {
        format!("{}: {bookings} bookings, {bytes} bytes.", out.display())
    })
}

/// Adds every version of a policy in full, newest first.
async fn of_policy(call: Call<'_>, tar: &mut Tar, id: &str) -> Result<(), Failure> {
    // It becomes part of a name in the archive, which another server's answer must not choose.
    if !is_policy_id(id) {
        return Err(Failure::BadAnswer(format!(
            "the server lists a policy \"{}\", and no policy of Bookguard's has such an id. Check the address, and that the server \
             runs this version.",
            shorten(id)
        )));
    }
    let mut at = Position::default();
    while let Some(page) = page::<ListPolicyVersions>(call, &[id], &mut at).await? {
        for listed in page {
            let version = listed["version"].to_string();
            let name = format!("policies/{id}/{version}.json");
            let policy = asked::<GetPolicy>(call, &[id], Some(("version", version))).await?;
            tar.json(&name, &policy)?;
        }
    }
    Ok(())
}

/// Adds the log of events, also those of no booking: a file for each page, because the log is of any length. Each is named after the
/// number from which on its events are.
async fn events(call: Call<'_>, tar: &mut Tar) -> Result<(), Failure> {
    let mut after = 0_u64;
    loop {
        let query = Some(("after", after.to_string()));
        let page = asked::<ListEvents>(call, &[], query).await?;
        tar.json(
            &format!("events/{}.json", after.saturating_add(1)),
            &page["data"],
        )?;
        match events_after(after, &page)? {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

/// After which event the next page of the log begins; `None` if this is the last.
fn events_after(after: u64, page: &Value) -> Result<Option<u64>, Failure> {
    let next = page["nextAfter"].as_u64().unwrap_or_default();
    match page["hasMore"] == true {
        true if next <= after => Err(goes_round()),
        has_more => Ok(has_more.then_some(next)),
    }
}

/// Adds everything of a booking.
async fn of_booking(call: Call<'_>, tar: &mut Tar, id: &str) -> Result<(), Failure> {
    let path = |end: &str| format!("bookings/{id}/{end}");
    let of = &[id];
    for (name, value) in [
        ("packet.json", answer::<GetEvidence>(call, of).await?),
        ("events.json", answer::<ListBookingEvents>(call, of).await?),
        ("erasures.json", answer::<ListErasures>(call, of).await?),
        ("holds.json", pages::<ListHolds>(call, of).await?),
        ("shares.json", pages::<ListShares>(call, of).await?),
    ] {
        tar.json(&path(name), &value)?;
    }
    let mut items = answer::<ListEvidenceItems>(call, &[id]).await?;
    for item in items["items"].as_array_mut().into_iter().flatten() {
        let (Some(item_id), true) = (item["itemId"].as_str(), item["file"].is_object()) else {
            continue;
        };
        let item_id = item_id.to_owned();
        let request = Request {
            path: vec![id.to_owned(), item_id.clone()],
            ..Request::default()
        };
        match call.target().file::<GetItemFile>(request).await {
            Ok(file) => tar.file(&path(&format!("files/{item_id}")), &file)?,
            Err(failure) => *item = without_file(call, id, &item_id).await?.ok_or(failure)?,
        }
    }
    tar.json(&path("items.json"), &items)
}

/// The item as it is listed now, if its file was deleted since it was listed before.
async fn without_file(call: Call<'_>, id: &str, item_id: &str) -> Result<Option<Value>, Failure> {
    let mut items = answer::<ListEvidenceItems>(call, &[id]).await?;
    let items = items["items"].as_array_mut().into_iter().flatten();
    let now = items
        .filter(|item| item["itemId"] == item_id)
        .find(|item| !item["file"].is_object());
    Ok(now.map(Value::take))
}

async fn answer<O: Operation>(call: Call<'_>, path: &[&str]) -> Result<Value, Failure> {
    asked::<O>(call, path, None).await
}

async fn asked<O: Operation>(
    call: Call<'_>,
    path: &[&str],
    query: Option<(&str, String)>,
) -> Result<Value, Failure> {
    // A database answers at once, and signals are looked at only while something waits.
    yield_now().await;
    let query = query.map(|(name, value)| (name.to_owned(), value));
    let request = Request {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        query: query.into_iter().collect(),
        ..Request::default()
    };
    let answer = call.target().call::<O>(request).await?;
    Ok(json!(answer.output))
}

/// All rows of a list that is short enough to be held.
pub(super) async fn pages<O: Operation>(call: Call<'_>, path: &[&str]) -> Result<Value, Failure> {
    let (mut rows, mut at) = (Vec::new(), Position::default());
    while let Some(page) = page::<O>(call, path, &mut at).await? {
        rows.extend(page);
    }
    Ok(json!(rows))
}

/// How far a list was read.
#[derive(Default)]
struct Position {
    cursor: Option<String>,
    is_at_end: bool,
    /// The cursors of all pages so far.
    known: HashSet<String>,
}

impl Position {
    /// Goes on to the page after this one.
    fn go_on(&mut self, page: &Value) -> Result<(), Failure> {
        self.cursor = page["nextCursor"].as_str().map(str::to_owned);
        self.is_at_end = self.cursor.is_none();
        match &self.cursor {
            Some(next) if !self.known.insert(next.clone()) => Err(goes_round()),
            _ => Ok(()),
        }
    }
}

/// The rows of the next page; `None` after the last.
async fn page<O: Operation>(
    call: Call<'_>,
    path: &[&str],
    at: &mut Position,
) -> Result<Option<Vec<Value>>, Failure> {
    if at.is_at_end {
        return Ok(None);
    }
    let query = at.cursor.take().map(|cursor| ("cursor", cursor));
    let mut page = asked::<O>(call, path, query).await?;
    at.go_on(&page)?;
    Ok(Some(match page["data"].take() {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    }))
}

fn goes_round() -> Failure {
    Failure::BadAnswer(
        "a list of the server does not go on: it names a page that was there before as the next one. Check the address, and that the \
         server runs this version."
            .to_owned(),
    )
}

/// An archive that is being written.
struct Tar(Draft);

impl Tar {
    fn create(out: &Path) -> Result<Self, Failure> {
        is_free(out)?;
        let draft = Draft::of(out, "export")?;
        // Another export may have finished since it was looked for.
        is_free(out)?;
        Ok(Self(draft))
    }

    fn json(&mut self, name: &str, value: &Value) -> Result<(), Failure> {
        self.file(name, format!("{value}\n").as_bytes())
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let padding = bytes.len().next_multiple_of(BLOCK) - bytes.len();
        self.0.write(&header(name, bytes.len()))?;
        self.0.write(bytes)?;
        self.0.write(&[0; BLOCK][..padding])
    }

    /// Ends the archive, and gives it its name: an erasure may come next. Returns its size.
    fn finish(mut self) -> Result<u64, Failure> {
        self.0.write(&[0; 2 * BLOCK])?;
        self.0.make()
    }
}

fn is_free(out: &Path) -> Result<(), Failure> {
    match out.symlink_metadata() {
        Ok(_) => Err(exists(out)),
        Err(_) => Ok(()),
    }
}

/// The header of a file in a tar. Names are made here, and are shorter than the 100 bytes that fit.
fn header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut head = [0; BLOCK];
    let mut put =
        |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head
}

#[cfg(test)]
mod tests;
