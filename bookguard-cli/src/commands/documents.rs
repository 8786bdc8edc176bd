//! `evidence page`, `evidence pdf` and `evidence archive`: a packet as a document for people, offline from a file, or fetched first by the booking's id.
//!
//! `bookguard-render` makes it. A packet that does not verify is not rendered, and a document is written whole or not at all.

use std::io::{self, IsTerminal as _, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bookguard_core::evidence;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::model::BookingId;
use bookguard_render::{Maker, PdfForm, page};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::declare::{Call, CliCommand, alone, carried};
use super::draft::{Draft, open_special, unless_told_to_end, unwritten};
use super::verify;
use crate::failure::Failure;
use crate::files;
use crate::output::say;
use crate::settings::{self, environment};
use crate::target::{self, Purpose, Target};

#[derive(Debug, Args)]
struct DocumentArgs {
    /// The booking's id, or a file with its packet, or - for standard input
    #[arg(value_name = "BOOKING_ID|PACKET|-")]
    of: PathBuf,
    /// The log's verifier key, or @ and a file that holds it; without it, the one that the packet names
    #[arg(long, value_name = "VKEY|@FILE")]
    key: Option<String>,
    /// Say whether these roots of time-stamp authorities (PEM) vouch for the packet's time-stamps; without them, those of the settings
    #[arg(long, value_name = "FILE")]
    timestamp_roots: Option<PathBuf>,
    /// The file to write, replacing what is there, or - for standard output [default: -]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct PdfArgs {
    #[command(flatten)]
    document: DocumentArgs,
    /// What the PDF is for
    #[arg(long, value_enum, default_value = "bank")]
    form: PdfFormArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PdfFormArg {
    /// For a card bank: at most ten pages, nothing attached
    Bank,
    /// To keep: PDF/A, complete, with the packet attached
    Archive,
}

pub(super) fn pdf_command() -> CliCommand {
    let about = "Make a PDF of a packet: for a card bank, or to keep";
    let pdf = alone("pdf", about, async |call| {
        let PdfArgs { document, form } = call.args::<PdfArgs>()?;
        let form = match form {
            PdfFormArg::Bank => PdfForm::Bank,
            PdfFormArg::Archive => PdfForm::Archive,
        };
        let maker = maker(call, &document)?;
        let (packet, key) = source(call, &document).await?;
        let pdf = bookguard_render::pdf(&packet, &key, form, &maker);
        let pdf = pdf.map_err(|e| Failure::Usage(e.to_string()))?;
        deliver(call, document.out.as_deref(), &pdf)
    });
    pdf.with::<PdfArgs>()
}

pub(super) fn page_command() -> CliCommand {
    let about =
        "Make a page of a packet: one HTML file that checks the packet in any browser, offline";
    let page = alone("page", about, async |call| {
        let args = call.args::<DocumentArgs>()?;
        let maker = maker(call, &args)?;
        let (packet, key) = source(call, &args).await?;
        let page = page::page(&packet, &key, &maker).map_err(Failure::Usage)?;
        deliver(call, args.out.as_deref(), page.as_bytes())
    });
    page.with::<DocumentArgs>()
}

/// What the document is made with, beside the packet.
fn maker(call: Call<'_>, args: &DocumentArgs) -> Result<Maker, Failure> {
    let config = settings::config(call.place, None, &environment)?;
    let mut maker = config.maker().map_err(Failure::Usage)?;
    if let Some(file) = &args.timestamp_roots {
        maker.roots = Some(Arc::new(verify::roots(file)?));
    }
    Ok(maker)
}

/// The packet and the key that it verifies under.
async fn source(call: Call<'_>, args: &DocumentArgs) -> Result<(String, String), Failure> {
    let packet = match args.of.to_str().and_then(BookingId::parse) {
        Some(booking_id) => fetch(call, &booking_id.to_string()).await?,
        None => files::utf8(&args.of, verify::packet_bytes(&args.of)?)?,
    };
    let key = match &args.key {
        Some(key) => verify::verifier_key(key)?.to_string(),
        None => {
            say(
                "note: checked with the key that the packet itself names; give the service's own with --key",
            );
            let read: Value = serde_json::from_str(&packet).unwrap_or_default();
            read["log"]["vkey"].as_str().unwrap_or_default().to_owned()
        }
    };
    let report = evidence::verify(packet.as_bytes(), &key);
    for check in report.failures() {
        say(&format!(
            "FAILED {}: {}",
            check.name,
            crate::text::plain(&check.detail)
        ));
    }
    verify::conclude(
        report.verified(),
        "The packet does not verify, so no document was made of it.",
    )?;
    Ok((packet, key))
}

async fn fetch(call: Call<'_>, booking_id: &str) -> Result<String, Failure> {
    let place = settings::place(call.place, &environment)?;
    let target = Target::open(place, Purpose::Work)?;
    let request = target::request(&[booking_id], &Value::Null);
    let answer = target.call::<GetEvidence>(request).await;
    target.close().await;
    Ok(answer?.json)
}

/// Writes a document to its file, or to standard output.
pub(super) fn deliver(call: Call<'_>, out: Option<&Path>, document: &[u8]) -> Result<(), Failure> {
    match out.filter(|out| !files::is_standard(out)) {
        None => to_stdout(&mut &*document),
        Some(path) => {
            let fault = |e: io::Error| unwritten(path, &e);
            match open_special(path).map_err(fault)? {
                Some(mut special) => special.write_all(document).map_err(fault)?,
                None => {
                    let mut draft = Draft::of(path, "process")?;
                    draft.write(document)?;
                    draft.replace()?;
                }
            }
            written(call, path, document.len() as u64)
        }
    }
}

/// # Errors
/// [`Failure::Usage`] if that is a terminal; those of standard output.
fn to_stdout(document: &mut dyn Read) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err(for_a_file());
    }
    io::copy(document, &mut out)?;
    Ok(out.flush()?)
}

/// Says what was written.
fn written(call: Call<'_>, path: &Path, bytes: u64) -> Result<(), Failure> {
    let value = json!({ "file": path, "bytes": bytes });
    call.screen
        .said(&value, |_| format!("{}: {bytes} bytes", path.display()))
}

fn for_a_file() -> Failure {
    Failure::Usage("a document is not for a terminal: name a file with --out".to_owned())
}

/// `evidence archive`: everything that belongs to a packet, in one file.
pub(super) fn archive_command() -> CliCommand {
    let about =
        "Make a .zip of a packet, its page and PDF, the key, and the files that were added to it";
    carried::<GetEvidence>("archive", about, archive).with::<ArchiveArgs>()
}

#[derive(Debug, Args)]
struct ArchiveArgs {
    /// The file to write, replacing what is there, or - for standard output [default: -]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

async fn archive(call: Call<'_>) -> Result<(), Failure> {
    let ArchiveArgs { out } = call.args()?;
    let out = out.filter(|out| !files::is_standard(out));
    if out.is_none() && io::stdout().is_terminal() {
        return Err(for_a_file());
    }
    let named = out.clone().unwrap_or_else(std::env::temp_dir);
    let fault = |e: io::Error| unwritten(&named, &e);
    let (target, request) = (call.target(), call.path()?);
    let special = out.as_deref().map(open_special).transpose();
    let special = special.map_err(fault)?.flatten();
    if let (Some(path), None) = (&out, &special) {
        let work = async {
            let mut draft = Draft::of(path, "process")?;
            let mut write = |bytes: &[u8]| draft.write(bytes);
            target.archive(request, &mut write).await?;
            draft.replace()
        };
        return written(call, path, unless_told_to_end(work).await?);
    }
    // It waits until it is whole, in a file without a name, which nobody can leave behind.
    let mut file = tempfile::tempfile().map_err(fault)?;
    let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(fault);
    target.archive(request, &mut write).await?;
    file.rewind().map_err(fault)?;
    match special {
        None => to_stdout(&mut file),
        Some(mut special) => {
            let bytes = io::copy(&mut file, &mut special).map_err(fault)?;
            written(call, &named, bytes)
        }
    }
}
