//! The commands that verify something received: a packet, offline or against the public log, or a webhook's signatures.
//!
//! Each shows every check it made, and ends with its own exit code if one failed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::evidence::{self, Check, LogReport, TimestampRoots, TimestampTrust, Trust};
use bookguard_core::ledger::VerifierKey;
use bookguard_core::ledger::trust::{MAX_POLICY_BYTES, TrustPolicy};
use bookguard_core::webhook::{self, Secret, StandardHeaders};
use clap::{ArgGroup, Args};
use serde_json::json;

use super::declare::{Call, CliCommand, alone, group};
use super::public_log;
use crate::failure::Failure;
use crate::files::{self, DOCUMENT_BYTES, SECRET_BYTES};
use crate::output::table::Style;
use crate::settings::{self, environment};
use crate::text::plain;

mod beside;
mod contradict;
mod log;

pub(super) use contradict::contradict_command;
use log::NoAnswer;
pub(super) use log::scan;

#[derive(Debug, Args)]
struct PacketArgs {
    /// The packet, a file or standard input (-)
    #[arg(value_name = "PACKET|-")]
    packet: PathBuf,
    /// The log's verifier key, or @ and a file that holds it; get it from the operator of the log, not from the packet
    #[arg(long, value_name = "VKEY|@FILE")]
    key: String,
    /// Also read the whole log, from the service or a mirror, and name the booking's entries that the packet lacks
    #[arg(long, value_name = "URL|DIR")]
    log: Option<String>,
    /// A file with a trust policy (C2SP tlog-policy): also check that its witnesses have cosigned the state of the log, offline
    #[arg(long, value_name = "FILE")]
    witness_policy: Option<PathBuf>,
    /// Also check the packet's time-stamps against these roots of time-stamp authorities (PEM), and say when its entries existed
    #[arg(long, value_name = "FILE")]
    timestamp_roots: Option<PathBuf>,
    /// Also compare the files beside the packet, as an archive has them, with the digests that its items name
    #[arg(long, value_name = "FOLDER")]
    files: Option<PathBuf>,
}

pub(super) fn packet_command() -> CliCommand {
    let about = "Verify a packet, without server or network; with --log, also that nothing was left out; with --witness-policy, who has cosigned it";
    alone("verify", about, packet).with::<PacketArgs>()
}

async fn packet(call: Call<'_>) -> Result<(), Failure> {
    let PacketArgs {
        packet,
        key,
        log,
        witness_policy,
        timestamp_roots,
        files: folder,
    } = call.args()?;
    let key = verifier_key(&key)?;
    let vkey = key.to_string();
    let policy = witness_policy.as_deref().map(trust_policy).transpose()?;
    let roots = timestamp_roots.as_deref().map(self::roots).transpose()?;
    let trust = Trust {
        timestamps: roots.as_ref().map(|roots| TimestampTrust {
            roots,
            at: Clock::System.now(),
        }),
        witnesses: policy.as_ref(),
    };
    let bytes = packet_bytes(&packet)?;
    let (mut report, timeline) = evidence::verify_with(&bytes, &vkey, trust);
    let genuine =
        !report.checks.is_empty() && (report.failures()).all(|check| check.name == "witnesses");
    let (mut found, mut against) = (None, None);
    if let Some(folder) = folder.filter(|_| genuine) {
        let read: evidence::Packet = serde_json::from_slice(&bytes)
            .map_err(|e| Failure::Unexpected(format!("the packet cannot be read again: {e}")))?;
        let compared = beside::compare(&read, &packet, &folder)?;
        if compared.iter().any(|check| !check.passed) {
            against = Some(
                "The packet is genuine, but not every file beside it is one that it names: rely only on those that match.",
            );
        }
        report.checks.extend(compared);
    }
    if let (Some(place), Some(timeline)) = (log, timeline) {
        let scanned = log::scan(public_log::open(&place, &key).await?, timeline, &vkey).await?;
        report.checks.push(log_check(&scanned));
        against = speaks_against(&scanned).or(against);
        found = scanned.ok();
    }
    let verified = report.verified();
    let mut value = json!(report);
    if let Some(found) = &found {
        value["log"] = json!(found);
        value["log"]["complete"] = found.complete().into();
    }
    call.screen
        .said(&value, |style| lines(&report.checks, verified, style))?;
    let why = match (genuine, against) {
        (true, Some(why)) => why,
        (true, None) => {
            "The packet is genuine, but the witnesses that the policy demands have not cosigned the state of its log."
        }
        (false, _) => "The packet does not verify: do not rely on it.",
    };
    conclude(verified, why)
}

/// The bytes of a packet in a file.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read or is empty, and for a document that only contains a packet, or was made
/// from one.
pub(super) fn packet_bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = files::bytes(file, DOCUMENT_BYTES)?;
    match document(&bytes) {
        Some(what) => Err(Failure::Usage(format!("{} is {what}", files::name(file)))),
        None => Ok(bytes),
    }
}

/// What these bytes are, and how to get the packet; `None` if that is for the verifier to judge.
fn document(bytes: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], &str); 3] = [
        (
            b"<",
            "a page and not a packet: open it in a browser and save its packet.json, then verify that; or drop the page on /verify of the service",
        ),
        (
            b"%PDF",
            "a PDF and not a packet: save the packet.json attached to it (form=archive), or get that from whoever made the PDF, then verify that",
        ),
        (
            b"PK\x03\x04",
            "a ZIP archive and not a packet: take packet.json out of it, then verify that",
        ),
    ];
    let text = bytes.trim_ascii_start();
    if text.is_empty() {
        return Some(
            "empty, and so not a packet: get the packet again, such as with `bookguard evidence get`",
        );
    }
    let kind = kinds.into_iter().find(|(begin, _)| text.starts_with(begin));
    kind.map(|(_, what)| what)
}

/// The roots of time-stamp authorities in a file.
pub(super) fn roots(file: &Path) -> Result<TimestampRoots, Failure> {
    let pem = files::bytes(file, DOCUMENT_BYTES)?;
    TimestampRoots::from_pem(&pem).map_err(|why| {
        Failure::Usage(format!(
            "{} cannot be used as --timestamp-roots: {why}",
            file.display()
        ))
    })
}

/// What the log shows about a packet, as one more check. An older packet passes.
fn log_check(scanned: &Result<LogReport, NoAnswer>) -> Check {
    Check {
        name: "log",
        place: String::new(),
        passed: scanned.as_ref().is_ok_and(LogReport::honest),
        detail: match scanned {
            Ok(report) => report.to_string(),
            Err(no) => no.why.clone(),
        },
    }
}

/// What the log says against a genuine packet.
fn speaks_against(scanned: &Result<LogReport, NoAnswer>) -> Option<&'static str> {
    match scanned {
        Ok(report) if report.honest() => None,
        Ok(_) => Some(
            "The log shows that entries were left out of this packet: the holder of the key signed something untrue. Do not rely on it; \
             keep it and the log's checkpoint.",
        ),
        Err(no) if no.is_forked => Some(
            "The packet and the log are of two histories under one key: the holder of the key signed something untrue. Do not rely on \
             either; keep the packet and the log's checkpoint.",
        ),
        Err(_) => Some(
            "The packet is genuine, but the log does not confirm that nothing was left out of it.",
        ),
    }
}

/// A trust policy in a file.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read or holds none.
pub(super) fn trust_policy(file: &Path) -> Result<TrustPolicy, Failure> {
    let text = files::text(file, MAX_POLICY_BYTES as u64)?;
    TrustPolicy::parse(&text)
        .map_err(|why| Failure::Usage(format!("{} is not a trust policy: {why}", file.display())))
}

/// The key of a log as it was typed: the key itself, or @ and a file that holds it.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read, and for what is not a key.
pub(super) fn verifier_key(typed: &str) -> Result<VerifierKey, Failure> {
    let text = match typed.strip_prefix('@') {
        Some(file) => files::text(Path::new(file), SECRET_BYTES)?,
        None => typed.to_owned(),
    };
    text.parse::<VerifierKey>().map_err(|why| {
        Failure::Usage(format!(
            "the verifier key cannot be read: {why}. Give the key itself, or @ and the file that holds it"
        ))
    })
}

/// A received webhook.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("signature").required(true).multiple(true).args(["header", "webhook_signature"])))]
struct WebhookArgs {
    /// A file with the signing secret, one a line while two are valid [or BOOKGUARD_WEBHOOK_SECRET in the environment]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// The exact body received, a file or standard input (-)
    #[arg(long, value_name = "FILE|-")]
    body: PathBuf,
    /// The value of x-service-signature: sha256=…
    #[arg(long, value_name = "SIGNATURE")]
    header: Option<String>,
    /// The value of webhook-id
    #[arg(long, value_name = "ID", requires = "webhook_signature")]
    webhook_id: Option<String>,
    /// The value of webhook-timestamp
    #[arg(long, value_name = "SECONDS", requires = "webhook_signature")]
    webhook_timestamp: Option<String>,
    /// The value of webhook-signature: v1,…
    #[arg(long, value_name = "SIGNATURES", requires_all = ["webhook_id", "webhook_timestamp"])]
    webhook_signature: Option<String>,
    /// How far webhook-timestamp may be from now, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    tolerance: u64,
}

pub(super) fn webhook_commands() -> CliCommand {
    let about = "Verify the signature of a received webhook";
    let verify = alone("verify", about, async |call| webhook(call));
    let about = "For receivers of webhooks";
    group("webhook", about, [verify.with::<WebhookArgs>()])
}

fn webhook(call: Call<'_>) -> Result<(), Failure> {
    let args = call.args::<WebhookArgs>()?;
    let secrets = secrets(args.secret_file.as_deref())?;
    if secrets.is_empty() {
        return Err(Failure::Usage("no signing secret: set BOOKGUARD_WEBHOOK_SECRET in the environment, or name a file that holds it with --secret-file".to_owned()));
    }
    let body = files::bytes(&args.body, DOCUMENT_BYTES)?;
    let mut checks = Vec::new();
    let mut add = |name: &'static str, result: Result<(), webhook::VerifyError>| {
        let detail = result.as_ref().map_or_else(
            |e| format!("{e} ({})", e.code()),
            |()| "matches the body and the secret".to_owned(),
        );
        checks.push(Check {
            name,
            place: String::new(),
            passed: result.is_ok(),
            detail,
        });
    };
    if let Some(header) = &args.header {
        let name = "x-service-signature";
        let value = header_value(name, header);
        add(name, webhook::verify(&secrets, value, &body));
    }
    if let (Some(signature), Some(id), Some(timestamp)) = (
        &args.webhook_signature,
        &args.webhook_id,
        &args.webhook_timestamp,
    ) {
        let headers = StandardHeaders {
            id: header_value("webhook-id", id),
            timestamp: header_value("webhook-timestamp", timestamp),
            signature: header_value("webhook-signature", signature),
        };
        let now = Clock::System.now().unix_seconds();
        let tolerance = Some(Duration::from_secs(args.tolerance));
        add(
            "webhook-signature",
            webhook::verify_standard(&secrets, headers, &body, now, tolerance),
        );
    }
    let verified = checks.iter().all(|check| check.passed);
    let shown: Vec<_> = (checks.iter())
        .map(|it| json!({ "name": it.name, "passed": it.passed, "detail": it.detail }))
        .collect();
    let value = json!({ "verified": verified, "checks": shown });
    call.screen
        .said(&value, |style| lines(&checks, verified, style))?;
    conclude(verified, "The webhook does not verify: do not act on it.")
}

/// The value of a header. People often copy the whole line.
fn header_value<'a>(name: &str, typed: &'a str) -> &'a str {
    let value = match typed.split_once(':') {
        Some((before, value)) if before.trim().eq_ignore_ascii_case(name) => value,
        _ => typed,
    };
    value.trim()
}

/// The first secret in the file, or in the environment; `None` when neither is there.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read or holds no secret.
pub fn given_secret(file: Option<&Path>) -> Result<Option<Secret>, Failure> {
    Ok(secrets(file)?.into_iter().next())
}

/// The secrets in the file, or in the environment; none when neither is there.
fn secrets(file: Option<&Path>) -> Result<Vec<Secret>, Failure> {
    let text = match file {
        Some(file) => Some(files::text(file, SECRET_BYTES)?),
        None => settings::text(&environment, "BOOKGUARD_WEBHOOK_SECRET")?,
    };
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let secrets: Vec<Secret> = text
        .lines()
        // Some editors begin a file with a byte order mark.
        .map(|line| line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}'))
        .filter(|line| !line.is_empty())
        .map(Secret::new)
        .collect();
    if secrets.is_empty() {
        return Err(Failure::Usage(
            "the file of --secret-file holds no secret".to_owned(),
        ));
    }
    Ok(secrets)
}

/// Shows every check on a line, and the overall result.
pub fn lines<'c>(
    checks: impl IntoIterator<Item = &'c Check>,
    verified: bool,
    style: Style,
) -> String {
    let mut text = String::new();
    for check in checks {
        text += &match check.passed {
            true => style.good("ok    "),
            false => style.bad("FAILED"),
        };
        text += &format!(" {}", check.name);
        text += &match (check.detail.as_str(), check.place.as_str()) {
            ("", "") => String::new(),
            (detail, "") => format!(": {}", plain(detail)),
            (detail, place) => format!(": {}", plain(&format!("{detail} ({place})"))),
        };
        text.push('\n');
    }
    text + &match verified {
        true => style.good("Verified."),
        false => style.bad("NOT VERIFIED."),
    }
}

/// The last line of a command that verified.
///
/// # Errors
/// [`Failure::NotVerified`] with `why` if it did not.
pub fn conclude(verified: bool, why: &str) -> Result<(), Failure> {
    match verified {
        true => Ok(()),
        false => Err(Failure::NotVerified(why.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_stands_on_a_line_of_its_own() {
        let checks = [
            Check {
                name: "proofs",
                place: String::new(),
                passed: true,
                detail: String::new(),
            },
            Check {
                name: "chain",
                place: String::new(),
                passed: false,
                detail: "entry 2\u{1b}[2J\nis missing".to_owned(),
            },
        ];
        assert_eq!(
            lines(&checks, false, Style::default()),
            "ok     proofs\nFAILED chain: entry 2\u{fffd}[2J is missing\nNOT VERIFIED."
        );
    }

    #[test]
    fn what_the_log_refutes_is_not_called_genuine() {
        let report = |left_out, later| LogReport {
            origin: "example.com/log".to_owned(),
            size: 9,
            root_hash: String::new(),
            packet_size: 8,
            entries: 2,
            left_out,
            later,
            missing: Vec::new(),
        };
        let no = |is_forked| NoAnswer {
            why: "It does not continue the other.".to_owned(),
            is_forked,
        };
        assert_eq!(speaks_against(&Ok(report(0, 0))), None);
        assert_eq!(speaks_against(&Ok(report(0, 1))), None);
        for (scanned, words) in [
            (Ok(report(1, 0)), "entries were left out of this packet"),
            (Err(no(true)), "two histories under one key"),
            (Err(no(false)), "The packet is genuine, but the log"),
        ] {
            let said = speaks_against(&scanned).unwrap();
            assert!(said.contains(words), "{said}");
            assert_eq!(said.contains("Do not rely on"), !said.contains("genuine"));
        }
    }

    #[test]
    fn an_empty_file_or_a_document_made_of_a_packet_is_not_a_packet() {
        for (bytes, is_other) in [
            ("<!doctype html>", true),
            ("\n<html>", true),
            ("%PDF-1.7\n", true),
            ("PK\u{3}\u{4}", true),
            ("{\"type\":\"bookguard.evidence/1\"}", false),
            ("bookings.example/log\n7\n", false),
            // What a command that failed left in a pipe, or a full disk in a file.
            ("", true),
            ("\n", true),
        ] {
            assert_eq!(document(bytes.as_bytes()).is_some(), is_other, "{bytes}");
        }
    }

    #[test]
    fn a_header_is_given_as_its_value_or_its_line() {
        for typed in [
            "v1,a:b",
            " v1,a:b ",
            "webhook-signature: v1,a:b",
            "Webhook-Signature:v1,a:b",
        ] {
            assert_eq!(header_value("webhook-signature", typed), "v1,a:b");
        }
    }

    #[test]
    fn what_does_not_verify_ends_with_six() {
        use crate::exit::Exit;
        assert_eq!(conclude(false, "no").unwrap_err().exit(), Exit::NotVerified);
        assert!(conclude(true, "no").is_ok());
    }
}
