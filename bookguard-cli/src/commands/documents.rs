//! `evidence page`, `evidence pdf` and `evidence archive`: a packet as a document for people, offline from a file, or fetched first by the booking's id.
//!
//! `bookguard-render` makes it. A packet that does not verify is not rendered, and a document is written whole or not at all.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bookguard_core::evidence;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::model::BookingId;
use bookguard_render::{Maker, PdfForm, page};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::declare::{Call, CliCommand, alone, carried};
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
    /// The file to write, replacing what is there [default: standard output]
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
    alone("pdf", about, |call| {
        Box::pin(async move {
            let PdfArgs { document, form } = call.args::<PdfArgs>()?;
            let form = match form {
                PdfFormArg::Bank => PdfForm::Bank,
                PdfFormArg::Archive => PdfForm::Archive,
            };
            let usage = |e: bookguard_render::RenderError| Failure::Usage(e.to_string());
            let maker = maker(call, &document)?;
            let (packet, key) = source(call, &document).await?;
            let pdf = bookguard_render::pdf(&packet, &key, form, &maker).map_err(usage)?;
            deliver(call, document.out.as_deref(), &pdf)
        })
    })
    .with::<PdfArgs>()
}

pub(super) fn page_command() -> CliCommand {
    let about =
        "Make a page of a packet: one HTML file that checks the packet in any browser, offline";
    alone("page", about, |call| {
        Box::pin(async move {
            let args = call.args::<DocumentArgs>()?;
            let maker = maker(call, &args)?;
            let (packet, key) = source(call, &args).await?;
            let page = page::page(&packet, &key, &maker).map_err(Failure::Usage)?;
            deliver(call, args.out.as_deref(), page.as_bytes())
        })
    })
    .with::<DocumentArgs>()
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
    let Some(path) = out else {
        let mut out = std::io::stdout().lock();
        if out.is_terminal() {
            return Err(for_a_file());
        }
        out.write_all(document)?;
        return Ok(out.flush()?);
    };
    write(path, document).map_err(|e| unwritten(path, &e))?;
    written(call, path, document.len() as u64)
}

/// Says what was written.
fn written(call: Call<'_>, path: &Path, bytes: u64) -> Result<(), Failure> {
    let value = json!({ "file": path, "bytes": bytes });
    call.screen
        .said(&value, |_| format!("{}: {bytes} bytes", path.display()))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    let other = error.to_string();
    let why = match error.kind() {
        ErrorKind::NotFound => "its folder does not exist. Make it, or name another",
        ErrorKind::PermissionDenied => "you may not write to its folder. Name another",
        ErrorKind::IsADirectory => "it is a folder. Name a file in it",
        _ => other.as_str(),
    };
    Failure::Unexpected(format!("{} cannot be written: {why}", path.display()))
}

fn for_a_file() -> Failure {
    Failure::Usage("a document is not for a terminal: name a file with --out".to_owned())
}

/// `evidence archive`: everything that belongs to a packet, in one file.
pub(super) fn archive_command() -> CliCommand {
    let about =
        "Make a .zip of a packet, its page and PDF, the key, and the files that were added to it";
    carried::<GetEvidence>("archive", about, |call| Box::pin(archive(call))).with::<ArchiveArgs>()
}

#[derive(Debug, Args)]
struct ArchiveArgs {
    /// The file to write, replacing what is there [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

async fn archive(call: Call<'_>) -> Result<(), Failure> {
    let ArchiveArgs { out } = call.args()?;
    if out.is_none() && std::io::stdout().is_terminal() {
        return Err(for_a_file());
    }
    // Without a name, it waits in a temporary file until it is whole.
    let path = out.clone().unwrap_or_else(std::env::temp_dir);
    let fault = |e: std::io::Error| unwritten(&path, &e);
    let open = out.as_deref().map(open_special).transpose();
    let special = open.map_err(fault)?.flatten();
    let mut file = match &out {
        Some(path) if special.is_none() => beside(path),
        _ => tempfile::NamedTempFile::new(),
    }
    .map_err(fault)?;
    let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(fault);
    call.target().archive(call.path()?, &mut write).await?;
    if out.is_none() {
        let mut whole = file.reopen().map_err(fault)?;
        std::io::copy(&mut whole, &mut std::io::stdout().lock())?;
        return Ok(());
    }
    let bytes = file.as_file().metadata().map_err(fault)?.len();
    if let Some(mut special) = special {
        let mut whole = file.reopen().map_err(fault)?;
        std::io::copy(&mut whole, &mut special).map_err(fault)?;
    } else {
        file.as_file().sync_all().map_err(fault)?;
        file.persist(followed(&path)).map_err(|e| fault(e.error))?;
    }
    written(call, &path, bytes)
}

/// Replaces a file, whole or not at all, or writes to what is not a regular file.
fn write(path: &Path, document: &[u8]) -> std::io::Result<()> {
    if let Some(mut special) = open_special(path)? {
        return special.write_all(document);
    }
    let mut file = beside(path)?;
    file.write_all(document)?;
    file.as_file().sync_all()?;
    file.persist(followed(path))?;
    Ok(())
}

/// Opens what is there for writing if it is not a regular file, such as a pipe or a device, which must not be replaced.
///
/// # Errors
/// If it is a file that the service cannot do without.
fn open_special(path: &Path) -> std::io::Result<Option<File>> {
    match path.metadata() {
        Ok(found) if !found.is_file() => File::options().write(true).open(path).map(Some),
        Ok(_) => match vital(path) {
            Some(what) => Err(std::io::Error::other(format!(
                "it is {what}, which a document must not replace. Name another"
            ))),
            None => Ok(None),
        },
        Err(_) => Ok(None),
    }
}

/// What this file is, by its first bytes, if the service cannot do without it.
fn vital(path: &Path) -> Option<&'static str> {
    const FILES: [(&[u8], &str); 4] = [
        (b"PRIVATE+KEY+", "a ledger key"),
        (b"SQLite format 3\0", "a database"),
        (b"bookguard.seen/", "a guard file"),
        (b"{\"log\":", "a list of erasures"),
    ];
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut head));
    read.ok()?;
    let found = FILES.iter().find(|(begins, _)| head.starts_with(begins));
    found.map(|(_, what)| *what)
}

/// The file that symbolic links lead to.
fn followed(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A new file in the folder of `path`, from which it can replace what is there.
fn beside(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let path = followed(path);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
}
