//! `evidence contradict`: whether two packets of a booking, or the signed notes cut out of them, can both be true.

use std::path::{Path, PathBuf};

use bookguard_core::evidence::{Account, Comparison, TimelineVerdict, compare};
use clap::Args;
use serde_json::json;

use super::super::declare::{Call, CliCommand, alone};
use super::{conclude, packet_bytes, verifier_key};
use crate::failure::Failure;
use crate::output::table::Style;
use crate::text::plain;

#[derive(Debug, Args)]
struct TwoArgs {
    /// A packet, or its signed note (the text of its member signature)
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Another one of the same booking
    #[arg(value_name = "B")]
    b: PathBuf,
    /// The log's verifier key, or @ and a file that holds it; get it from the operator of the log, not from a packet
    #[arg(long, value_name = "VKEY|@FILE")]
    key: String,
}

pub(in crate::commands) fn contradict_command() -> CliCommand {
    let about = "Compare two packets of a booking, or their signed notes: can both be true?";
    alone("contradict", about, async |call| contradict(call)).with::<TwoArgs>()
}

fn contradict(call: Call<'_>) -> Result<(), Failure> {
    let TwoArgs { a, b, key } = call.args()?;
    let key = verifier_key(&key)?.to_string();
    let (a, b) = (account("A", &a, &key)?, account("B", &b, &key)?);
    let found = compare(&a, &b);
    let stated = |account: &Account| json!({ "entries": account.count(), "head": account.head(), "logSize": account.log_size() });
    let mut value = json!(found);
    value["a"] = stated(&a);
    value["b"] = stated(&b);
    call.screen.said(&value, |style| in_words(&found, style))?;
    match found.verdict {
        TimelineVerdict::Consistent => Ok(()),
        TimelineVerdict::Contradiction => conclude(
            false,
            "A and B contradict each other: the holder of the key signed something untrue. Keep both.",
        ),
        TimelineVerdict::Unrelated => Err(Failure::Usage(
            "A and B are about different bookings; give two packets of the same one".to_owned(),
        )),
    }
}

fn account(name: &str, path: &Path, key: &str) -> Result<Account, Failure> {
    Account::read(&packet_bytes(path)?, key).map_err(|why| {
        let path = path.display();
        Failure::NotVerified(format!("{name} ({path}) cannot be relied on. {why}"))
    })
}

fn in_words(found: &Comparison, style: Style) -> String {
    let mark = match found.verdict {
        TimelineVerdict::Consistent => style.good("Consistent."),
        TimelineVerdict::Contradiction => style.bad("CONTRADICTION."),
        TimelineVerdict::Unrelated => style.bold("Unrelated."),
    };
    format!("{}\n{mark}", plain(&found.detail))
}
