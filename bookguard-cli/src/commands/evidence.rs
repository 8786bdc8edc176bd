//! `evidence`: fetches and verifies a booking's packet.

use bookguard_core::evidence::{
    DisputeExport, DisputeForm, DisputeReason, Packet, SealedPacket, dispute,
};
use bookguard_core::features::evidence::GetEvidence;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::declare::{Call, Declared, carried, group};
use super::{documents, items, shares, verify};
use crate::failure::Failure;
use crate::output::table::{Style, fields, record};
use crate::text::plain;

pub(super) fn commands() -> Declared {
    let about = "Fetch a booking's evidence packet; redirect it to a file to keep it";
    let get = carried::<GetEvidence>("get", about, |call| Box::pin(get(call)));
    let about = "Put a booking's evidence into the fields of a card dispute, for you to complete and submit";
    let export = carried::<GetEvidence>("export", about, |call| Box::pin(export(call)));
    group(
        "evidence",
        "Evidence packets: fetch, verify, compare, share them, make documents of them",
        [
            get.into(),
            export.with::<ExportArgs>().into(),
            verify::packet_command().into(),
            verify::contradict_command().into(),
            documents::page_command().into(),
            documents::pdf_command().into(),
            documents::archive_command().into(),
            items::commands(),
            shares::create_command().into(),
            shares::list_command().into(),
            shares::revoke_command().into(),
        ],
    )
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

#[derive(Debug, Args)]
struct ExportArgs {
    /// Whose form: Stripe's, or that of any card dispute
    #[arg(long = "for", value_name = "FORM", value_parser = PossibleValuesParser::new(DisputeForm::WORDS.map(|(word, _)| word)))]
    form: String,
    /// What the cardholder claims, as Stripe names it
    #[arg(long, value_name = "REASON", value_parser = PossibleValuesParser::new(DisputeReason::WORDS.map(|(word, _)| word)))]
    reason: String,
}

async fn export(call: Call<'_>) -> Result<(), Failure> {
    let ExportArgs { form, reason } = call.args()?;
    let form = chosen(&DisputeForm::WORDS, &form)?;
    let reason = chosen(&DisputeReason::WORDS, &reason)?;
    let packet = read(&call.answer::<GetEvidence>().await?.output)?;
    let export = dispute(&packet, form, reason);
    call.screen.said(&export, |style| filled_in(&export, style))
}

fn chosen<T: Copy>(words: &[(&str, T)], typed: &str) -> Result<T, Failure> {
    let found = words.iter().find(|(word, _)| *word == typed);
    found
        .map(|(_, chosen)| *chosen)
        .ok_or_else(|| Failure::Usage(format!("\"{typed}\" is not one of the choices")))
}

/// The fields of a dispute, and what is missing.
fn filled_in(export: &DisputeExport, style: Style) -> String {
    let mut text = String::new();
    for (field, said) in &export.request.evidence {
        let lines: Vec<_> = said.lines().map(plain).collect();
        text += &format!("{}\n{}\n\n", style.bold(field), lines.join("\n"));
    }
    for file in &export.files {
        text += &format!("{} upload: {}\n", style.bold(file.field), file.document);
    }
    for it in &export.missing {
        text += &format!("{} to add: {}\n", style.bold(it.field), plain(&it.what));
    }
    text + "Nothing was submitted."
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
