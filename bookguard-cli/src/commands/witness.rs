//! `witness`: makes and runs a witness, which cosigns the checkpoints of other operators' logs.

use std::path::PathBuf;

use bookguard_core::clock::Clock;
use bookguard_core::key_file::LedgerKey;
use bookguard_core::ledger::VerifierKey;
use bookguard_server::told_to_end;
use bookguard_server::witness::{WitnessFolder, WitnessServer, WitnessedLog};
use clap::Args;
use serde_json::json;

use super::declare::{Call, CliCommand, alone, group};
use super::verify::verifier_key;
use super::{map_audit, public_log};
use crate::failure::Failure;
use crate::files::named;
use crate::output;

#[derive(Debug, Args)]
struct InitArgs {
    /// The folder to make
    #[arg(value_parser = named())]
    folder: PathBuf,
    /// The witness's name: an address without scheme that its operator controls, such as witness.example.com/one
    #[arg(long, value_name = "WITNESS_NAME")]
    name: String,
    /// The verifier key of a log to witness, or @ and a file that holds it; may be given several times
    #[arg(long = "log", value_name = "VKEY|@FILE")]
    logs: Vec<String>,
    /// Read a log here before it is cosigned, and check its maps; once for each --log, in their order. It makes an auditing
    /// witness: give it a name of its own
    #[arg(long = "audit", value_name = "URL|DIR")]
    audits: Vec<String>,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// The folder that `witness init` made
    folder: PathBuf,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8090")]
    listen: String,
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// The folder that `witness init` made
    folder: PathBuf,
}

pub(super) fn commands() -> CliCommand {
    let about =
        "Make the folder of a new witness: its key, the logs it knows, what it has cosigned";
    let init = alone("init", about, async |call| init(call)).with::<InitArgs>();
    let about = "Cosign what the logs of a witness's folder submit, until stopped";
    let serve = alone("serve", about, serve).with::<ServeArgs>();
    let about = "Print the key that a witness's cosignatures verify under";
    let key = alone("key", about, async |call| key(call)).with::<KeyArgs>();
    let about = "Cosign the checkpoints of other operators' logs (C2SP tlog-witness)";
    group("witness", about, [init, serve, key])
}

/// # Errors
/// [`Failure::Usage`] for a key or a name that is not one and a folder that exists, [`Failure::Unexpected`] if the folder cannot
/// be made.
fn init(call: Call<'_>) -> Result<(), Failure> {
    let InitArgs {
        folder,
        name,
        logs,
        audits,
    } = call.args()?;
    if !audits.is_empty() && audits.len() != logs.len() {
        return Err(Failure::Usage(format!(
            "there are {} --log and {} --audit; an auditing witness needs the address of each of its logs, in their order",
            logs.len(),
            audits.len()
        )));
    }
    let addresses = audits.iter().map(|place| address(place).map(Some));
    let addresses = addresses.chain(std::iter::repeat_with(|| Ok(None)));
    let logs = logs.iter().zip(addresses);
    let logs = logs.map(|(log, address)| -> Result<WitnessedLog, Failure> {
        Ok((verifier_key(log)?, address?))
    });
    let logs = logs.collect::<Result<Vec<_>, _>>()?;
    let key = LedgerKey::named(&name);
    let made = key.cosigner().map_err(Failure::Usage)?.verifier();
    let fail: fn(String) -> Failure = match folder.exists() {
        true => Failure::Usage,
        false => Failure::Unexpected,
    };
    WitnessFolder::make(&folder, &key, &logs, !audits.is_empty()).map_err(fail)?;
    let value = json!({"folder": folder, "key": made.to_string()});
    call.screen.said(&value, |_| {
        format!(
            "made the witness {name} in {}\n{made}\n\nGive this key to the operators of the logs, and to all who verify. Keep the \
             folder: without what it remembers, the key is worth nothing.",
            folder.display()
        )
    })
}

/// Where a log is, as a line of the folder's `logs` says it: a folder by its whole path.
fn address(place: &str) -> Result<String, Failure> {
    public_log::check(place)?;
    if place.starts_with("http://") || place.starts_with("https://") {
        return Ok(place.to_owned());
    }
    let whole = std::path::absolute(place);
    let whole =
        whole.map_err(|e| Failure::Usage(format!("{place} is not the path of a folder: {e}")))?;
    Ok(whole.display().to_string())
}

/// # Errors
/// [`Failure::Unexpected`] with a sentence for the operator.
async fn serve(call: Call<'_>) -> Result<(), Failure> {
    let ServeArgs { folder, listen } = call.args()?;
    let mut signals = bookguard_server::signals().map_err(Failure::Unexpected)?;
    let folder = WitnessFolder::open(&folder, map_audit::auditor).map_err(Failure::Unexpected)?;
    let logs = folder.logs().iter().map(VerifierKey::name);
    let logs = logs.collect::<Vec<_>>().join(", ");
    let server = WitnessServer::start(folder, &listen, Clock::System).await;
    let server = server.map_err(Failure::Unexpected)?;
    // If standard output is closed, the witness runs all the same.
    let _ = output::print(&format!("listening on {}", server.url()));
    let _ = output::print(&format!("logs that are witnessed: {logs}"));
    told_to_end(&mut signals, || {}).await;
    server.stop().await;
    Ok(())
}

/// # Errors
/// [`Failure::Unexpected`] if the folder does not hold a witness.
fn key(call: Call<'_>) -> Result<(), Failure> {
    let KeyArgs { folder } = call.args()?;
    let key = WitnessFolder::key(&folder)
        .map_err(Failure::Unexpected)?
        .to_string();
    call.screen.said(&json!({ "key": key }), |_| key.clone())
}
