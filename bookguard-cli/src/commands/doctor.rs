//! `doctor`: looks at a service's settings, files, database, machine and network, and says what to repair and how.
//!
//! Each check is a function that returns one finding. Invariants: nothing is written, created or brought up to date; no
//! secret is shown; one fault makes one finding, so a check that needs what another one misses is skipped.

mod checks;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::declare::{Call, CliCommand, alone};
use super::system::settings_table;
use crate::failure::Failure;
use crate::output::table::Style;
use crate::settings::{self, environment};
use crate::target::only_here;
use crate::text::plain;

#[derive(Debug, Args)]
struct DoctorArgs {
    /// A host and port that webhooks must reach, such as example.com:443: resolve it and connect to it
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    egress: Option<String>,
}

fn host_and_port(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':');
    let is_whole =
        parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let fault = || "give a host and a port, such as example.com:443".to_owned();
    is_whole.then(|| text.to_owned()).ok_or_else(fault)
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Ok,
    /// Not checked, for the reason that is said.
    Skipped,
    Warning,
    Problem,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Diagnosis {
    check: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// What a check found, and how to repair it.
#[derive(Debug, Serialize)]
struct Finding {
    state: Severity,
    found: String,
    fix: Option<String>,
}

pub(super) fn command() -> CliCommand {
    let about = "Check a service's settings, files, database, machine and network, and say what to repair; changes nothing";
    alone("doctor", about, run).with::<DoctorArgs>()
}

/// Makes every check.
///
/// # Errors
/// [`Failure::Problems`] if there are some, after all findings were shown; [`Failure::Usage`] on a server.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let egress = call.args::<DoctorArgs>()?.egress;
    if settings::is_server(call.place, &environment)? {
        return Err(only_here());
    }
    let (in_force, found) = match settings::config(call.place, None, &environment) {
        Ok(config) => {
            let file = settings::config_file(call.place, &environment);
            let found = checks::all(&config, file.as_deref(), egress.as_deref()).await;
            (config.in_force, found)
        }
        Err(failure) => (Vec::new(), vec![checks::invalid(&failure)]),
    };
    let value = json!({"settings": in_force, "checks": found});
    call.screen.said(&value, |style| {
        let settings = settings_table(&in_force, style);
        let found: Vec<_> = found.iter().map(|one| in_words(one, style)).collect();
        format!("{settings}\n\n{}", found.join("\n"))
    })?;
    let problems = found.iter();
    let problems = problems.filter(|one| one.finding.state == Severity::Problem);
    match problems.count() {
        0 => Ok(()),
        1 => Err(Failure::Problems(
            "1 problem was found. Repair it as its finding says, then run `doctor` again."
                .to_owned(),
        )),
        several => Err(Failure::Problems(format!(
            "{several} problems were found. Repair each as its finding says, then run `doctor` again."
        ))),
    }
}

fn in_words(Diagnosis { check, finding }: &Diagnosis, style: Style) -> String {
    let state = match finding.state {
        Severity::Ok => style.good("ok     "),
        Severity::Skipped => "skipped".to_owned(),
        Severity::Warning => style.bold("warning"),
        Severity::Problem => style.bad("PROBLEM"),
    };
    let mut line = format!("{state}  {check}: {}", plain(&finding.found));
    if let Some(fix) = &finding.fix {
        line.push_str(&format!("\n         {}", plain(fix)));
    }
    line
}

fn ok(found: impl Into<String>) -> Finding {
    finding(Severity::Ok, found, None)
}

fn skipped(found: impl Into<String>) -> Finding {
    finding(Severity::Skipped, found, None)
}

fn warning(found: impl Into<String>, fix: impl Into<String>) -> Finding {
    finding(Severity::Warning, found, Some(fix.into()))
}

fn problem(found: impl Into<String>, fix: impl Into<String>) -> Finding {
    finding(Severity::Problem, found, Some(fix.into()))
}

fn finding(state: Severity, found: impl Into<String>, fix: Option<String>) -> Finding {
    let found = found.into();
    Finding { state, found, fix }
}
