//! `policies`: stores, reads and checks policies. Commands that need no stored data need neither a database nor a server.

use std::path::PathBuf;

use bookguard_core::clock::Clock;
use bookguard_core::features::policies::{
    ExampleBooking, GetPolicy, ListPolicies, ListPolicyTemplates, ListPolicyVersions, PolicyCheck,
    PolicyListing, PolicyTemplate, PolicyVersion, PutPolicy, ValidatePolicy, templates,
    templates_with,
};
use bookguard_core::model::Page;
use bookguard_core::operation::{Request, to_json};
use bookguard_core::policy::{Assumption, SCHEMA, Segment};
use bookguard_core::{Error, FieldError};
use clap::Args;

use super::declare::{Call, CliCommand, alone, carried, group, operation};
use super::evaluations::steps;
use crate::args::GlobalArgs;
use crate::failure::Failure;
use crate::output::Answer;
use crate::output::table::{Style, fields, joined, page_fn, record};
use crate::settings::{self, Where, environment};
use crate::text::plain;

pub(super) fn commands() -> CliCommand {
    let about = "Put a policy: a new version, unless it equals the latest";
    let put = operation::<PutPolicy>("put", about, policy).flags(|flags| flags.json());
    let about = "Show a policy, in plain English too";
    let get = operation::<GetPolicy>("get", about, policy);
    let about = "List the partner's own policies, each in its latest version";
    let list = operation::<ListPolicies>("list", about, policies);
    let about = "List the versions of a policy, newest first";
    let versions = operation::<ListPolicyVersions>("versions", about, policies);
    let about = "Check a policy: its faults with their places, warnings, and what it means; without server or database unless \
                 --url names a server";
    let validate = carried::<ValidatePolicy>("validate", about, validate)
        .flags(|flags| {
            flags.without_once().takes("eventDate", "DATE");
        })
        .with::<DraftArgs>()
        .alone_if(names_no_server);
    let about =
        "Show the library's policies; without server or database unless --url names a server";
    let templates = carried::<ListPolicyTemplates>("templates", about, library)
        .flags(|flags| {
            flags.takes("eventDate", "DATE");
        })
        .alone_if(names_no_server);
    let about = "Print the JSON Schema of policies, for editors and generators";
    let schema = alone("schema", about, async |call| call.screen.json(SCHEMA));
    let about = "Cancellation policies: a partner's own and the library's";
    group(
        "policies",
        about,
        [put, get, list, versions, validate, templates, schema],
    )
}

/// Its name is that of the argument that holds a request's body.
#[derive(Debug, Args)]
struct DraftArgs {
    /// The policy's JSON, a file or standard input (-)
    #[arg(value_name = "FILE|-")]
    json: PathBuf,
}

fn names_no_server(place: &GlobalArgs) -> bool {
    !matches!(
        settings::place(place, &environment),
        Ok(Where::Server { .. })
    )
}

/// Shows the findings of a check. If there are errors, the command ends as if the policy had been refused.
async fn validate(call: Call<'_>) -> Result<(), Failure> {
    let request = call.request()?;
    let answer = match call.target {
        None => own(checked(&request)?),
        Some(target) => target.call::<ValidatePolicy>(request).await?,
    };
    call.screen.show(&answer, check)?;
    match answer.output.errors.as_slice() {
        [] => Ok(()),
        errors => Err(Error::faults(errors.to_vec()).into()),
    }
}

/// What the operation answers where no partner has chosen a time zone.
fn checked(request: &Request) -> Result<PolicyCheck, Error> {
    let check = PolicyCheck::of(&request.body)?;
    match ExampleBooking::read(request)? {
        Some(example) => check.with_example(&example, None, Clock::System.now()),
        None => Ok(check),
    }
}

async fn library(call: Call<'_>) -> Result<(), Failure> {
    let request = call.request()?;
    let answer = match call.target {
        None => own(match ExampleBooking::read(&request)? {
            Some(example) => templates_with(&example, None, Clock::System.now())?,
            None => templates(),
        }),
        Some(target) => target.call::<ListPolicyTemplates>(request).await?,
    };
    call.screen.show(&answer, shown_library)
}

fn own<T: serde::Serialize>(output: T) -> Answer<T> {
    let json = String::from_utf8_lossy(&to_json(&output)).into_owned();
    Answer { json, output }
}

/// One version of a policy.
fn policy(version: &PolicyVersion, style: Style) -> String {
    let document = version.policy.document();
    let fields = fields! {
        "policy" => version.policy_id,
        "version" => version.version,
        "name" => document.name,
        "hash" => version.policy_hash,
        "time zone" => document.time_zone,
        "put" => version.created_at,
    };
    record(style, &fields) + &sentences(&version.english) + &warnings(&version.warnings)
}

// A page of policies, or of versions of one.
page_fn! { fn policies(policy: &PolicyListing), "policies" =>
    "POLICY" => policy.policy_id,
    "VERSION" => policy.version,
    "NAME" => policy.name,
    "PUT" => policy.created_at,
    "HASH" => policy.policy_hash,
}

fn shown_library(page: &Page<PolicyTemplate>, style: Style) -> String {
    let blocks = page.data.iter().map(|template| {
        let types = joined(&template.default_for, ", ");
        let fields = fields! {
            "policy" => template.policy_id,
            "name" => template.policy.document().name,
            "default for" => types.map(|types| types.replace('*', "every other event type")),
            "hash" => template.policy_hash,
        };
        record(style, &fields)
            + &sentences(&template.english)
            + &example(template.schedule.as_deref(), style)
    });
    blocks.collect::<Vec<_>>().join("\n\n")
}

/// The findings of a check, except errors, which are reported like those of a refusal.
fn check(check: &PolicyCheck, style: Style) -> String {
    let verdict = match check.valid {
        true => style.good("This policy can be used."),
        false => style.bad("This policy cannot be used."),
    };
    let hash = check.policy_hash.as_ref();
    let hash = hash.map_or_else(String::new, |hash| format!("\nhash  {}", plain(hash)));
    verdict
        + &hash
        + &sentences(&check.english)
        + &warnings(&check.warnings)
        + &example(check.schedule.as_deref(), style)
        + assumed(check)
}

/// The schedule of the example, which is booked at the beginning of its first step.
fn example(schedule: Option<&[Segment]>, style: Style) -> String {
    match schedule {
        None => String::new(),
        Some([]) => "\n\nIt is too late to claim anything for the event of the example.".to_owned(),
        Some(schedule @ [first, ..]) => {
            let steps = steps(schedule, first.from, style);
            format!("\n\nIf the organizer of the example cancels:\n{steps}")
        }
    }
}

/// That the time zone of the example was only assumed.
fn assumed(check: &PolicyCheck) -> &'static str {
    let assumptions = check.assumptions.as_deref().unwrap_or_default();
    match assumptions.contains(&Assumption::TimeZoneAssumedUtc) {
        true => {
            "\n\nThe date of the example has no time zone, so UTC was assumed. A booking of it is refused unless the booking, the \
             policy or the partner names one: add --time-zone."
        }
        false => "",
    }
}

fn sentences(english: &[String]) -> String {
    let lines = english.iter().map(|line| format!("\n  {}", plain(line)));
    joined(lines, "").map_or_else(String::new, |lines| format!("\n{lines}"))
}

fn warnings(warnings: &[FieldError]) -> String {
    let lines = warnings.iter().map(|warning| {
        let (pointer, message) = (plain(&warning.pointer), plain(&warning.message));
        format!("\n  {pointer}: {message}. {}", plain(&warning.fix))
    });
    joined(lines, "").map_or_else(String::new, |lines| format!("\n\nWarnings:{lines}"))
}
