//! `evidence`: fetches and verifies a booking's packet.

use bookguard_core::evidence::Packet;
use bookguard_core::features::evidence::GetEvidence;

use super::declare::{Call, Declared, carried, group};
use super::{documents, verify};
use crate::failure::Failure;
use crate::output::table::{Style, fields, record};
use crate::text::plain;

pub(super) fn commands() -> Declared {
    let about = "Fetch a booking's evidence packet; redirect it to a file to keep it";
    let get = carried::<GetEvidence>("get", about, |call| Box::pin(get(call)));
    group(
        "evidence",
        "Evidence packets: fetch, verify, compare, make documents of them",
        [
            get.into(),
            verify::packet_command().into(),
            verify::contradict_command().into(),
            documents::page_command().into(),
        ],
    )
}

async fn get(call: Call<'_>) -> Result<(), Failure> {
    let answer = call.answer::<GetEvidence>().await?;
    let packet = answer.output.read().map_err(|e| {
        Failure::BadAnswer(format!(
            "the answer is not an evidence packet ({e}). Does the server run this version?"
        ))
    })?;
    call.screen.show(&answer, |_, style| shown(&packet, style))
}

/// The statements of a packet, unverified; `evidence verify` checks them.
fn shown(packet: &Packet, style: Style) -> String {
    // Sentences of any length do not fit a table.
    let timeline: String = (packet.summary.timeline.iter())
        .map(|moment| {
            format!(
                "\n{}  {}",
                style.bold(&plain(&moment.when)),
                plain(&moment.text)
            )
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
