//! `evidence`: fetches and verifies a booking's packet.

use bookguard_core::evidence::{DisputeExport, Packet, SealedPacket};
use bookguard_core::features::evidence::{ExportDispute, GetEvidence};

use super::declare::{Call, CliCommand, carried, group, operation};
use super::{documents, items, shares, verify};
use crate::failure::Failure;
use crate::output::table::{Style, fields, record};
use crate::text::plain;

pub(super) fn commands() -> CliCommand {
    let about = "Fetch a booking's evidence packet; redirect it to a file to keep it";
    let get = carried::<GetEvidence>("get", about, get);
    let about = "Put a booking's evidence into the fields of a card dispute, for you to complete and submit";
    let export = operation::<ExportDispute>("export", about, filled_in);
    let about =
        "Evidence packets: fetch, verify, compare and share them, and make documents of them";
    let commands = [
        get,
        export,
        verify::packet_command(),
        verify::contradict_command(),
        documents::page_command(),
        documents::pdf_command(),
        documents::archive_command(),
        items::commands(),
        shares::create_command(),
        shares::list_command(),
        shares::revoke_command(),
    ];
    group("evidence", about, commands)
}

async fn get(call: Call<'_>) -> Result<(), Failure> {
    let answer = call.answer::<GetEvidence>().await?;
    let packet = read(&answer.output)?;
    call.screen.show(&answer, |_, style| shown(&packet, style))
}

fn read(packet: &SealedPacket) -> Result<Packet, Failure> {
    packet.read().map_err(|e| {
        Failure::BadAnswer(format!(
            "the answer is not an evidence packet ({e}). Does the server run this version?"
        ))
    })
}

/// The fields of a dispute, and what is missing.
fn filled_in(export: &DisputeExport, style: Style) -> String {
    let mut text = String::new();
    let stripe = export.request.iter().map(|request| &request.evidence.0);
    let card = export.fields.iter().map(|fields| &fields.0);
    for (field, said) in stripe.chain(card).flatten() {
        let lines: Vec<_> = said.lines().map(plain).collect();
        text += &format!("{}\n{}\n\n", style.bold(&plain(field)), lines.join("\n"));
    }
    for file in &export.files {
        let (field, document) = (plain(&file.field), plain(&file.document));
        text += &format!("{} upload: {document}\n", style.bold(&field));
    }
    for it in &export.missing {
        let (field, what) = (plain(&it.field), plain(&it.what));
        text += &format!("{} to add: {what}\n", style.bold(&field));
    }
    text + "Nothing was submitted."
}

/// The statements of a packet, unverified; `evidence verify` checks them.
fn shown(packet: &Packet, style: Style) -> String {
    // Sentences of any length do not fit a table.
    let timeline: String = (packet.summary.timeline.iter())
        .map(|moment| {
            let when = style.bold(&plain(&moment.when));
            format!("\n{when}  {}", plain(&moment.text))
        })
        .collect();
    let fields = fields! {
        "booking" => packet.booking.booking_id,
        "made" => packet.created_at,
        "log" => packet.log.origin,
        "entries" => packet.entries.len(),
        "policy" => packet.policy_hash,
        "deliveries" => packet.deliveries.len(),
        "summary" => packet.summary.headline,
    };
    let story: String = (packet.summary.story.iter())
        .map(|paragraph| format!("\n{}\n", plain(paragraph)))
        .collect();
    format!(
        "{}\n{story}{timeline}\n\nThis is a summary. To keep the packet itself: --output json > packet.json",
        record(style, &fields)
    )
}
