//! The commands of policies. A command that needs no stored data needs neither a database nor a server.

use bookguard_core::Error;
use bookguard_core::features::policies::{
    GetPolicy, ListPolicies, ListPolicyTemplates, ListPolicyVersions, PolicyCheck, PutPolicy,
    ValidatePolicy, templates,
};
use bookguard_core::operation::{Request, to_json};
use bookguard_core::policy::SCHEMA;

use super::{add, at, page};
use crate::args::GlobalArgs;
use crate::commands::cli::PoliciesCommand;
use crate::failure::Failure;
use crate::files::{self, REQUEST_BYTES};
use crate::output::Answer;
use crate::output::{Screen, policies};
use crate::settings::{self, Where, environment};
use crate::target::Target;

/// Whether a command can be done right here.
pub fn needs_nothing(place: &GlobalArgs, command: &PoliciesCommand) -> bool {
    let alone = matches!(
        command,
        PoliciesCommand::Validate { .. } | PoliciesCommand::Templates | PoliciesCommand::Schema
    );
    let place = settings::place(place, &environment);
    alone && !matches!(place, Ok(Where::Server { .. }))
}

/// Does it.
pub fn without_target(command: &PoliciesCommand, screen: &Screen) -> Result<(), Failure> {
    match command {
        PoliciesCommand::Validate { json } => {
            let check = PolicyCheck::of(&files::bytes(json, REQUEST_BYTES)?)?;
            checked(&own(check), screen)
        }
        PoliciesCommand::Schema => screen.json(SCHEMA),
        _ => screen.show(&own(templates()), policies::templates),
    }
}

fn own<T: serde::Serialize>(output: T) -> Answer<T> {
    let json = String::from_utf8_lossy(&to_json(&output)).into_owned();
    Answer { json, output }
}

/// Asks the target.
pub async fn run(
    target: &Target,
    command: PoliciesCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        PoliciesCommand::Put { policy_id, json } => {
            let request = Request {
                body: files::bytes(&json, REQUEST_BYTES)?,
                ..at(&policy_id)
            };
            screen.show(&target.call::<PutPolicy>(request).await?, policies::policy)
        }
        PoliciesCommand::Get { policy_id, version } => {
            let mut request = at(&policy_id);
            add(&mut request, "version", version);
            screen.show(&target.call::<GetPolicy>(request).await?, policies::policy)
        }
        PoliciesCommand::List(args) => screen.show(
            &target.call::<ListPolicies>(page(args)).await?,
            policies::policies,
        ),
        PoliciesCommand::Versions {
            policy_id,
            page: args,
        } => {
            let request = Request {
                path: vec![policy_id],
                ..page(args)
            };
            screen.show(
                &target.call::<ListPolicyVersions>(request).await?,
                policies::policies,
            )
        }
        PoliciesCommand::Validate { json } => {
            let request = Request {
                body: files::bytes(&json, REQUEST_BYTES)?,
                ..Request::default()
            };
            checked(&target.call::<ValidatePolicy>(request).await?, screen)
        }
        PoliciesCommand::Templates => screen.show(
            &target
                .call::<ListPolicyTemplates>(Request::default())
                .await?,
            policies::templates,
        ),
        PoliciesCommand::Schema => screen.json(SCHEMA),
    }
}

/// Shows what a check said; one that found errors ends the command as their refusal would.
fn checked(check: &Answer<PolicyCheck>, screen: &Screen) -> Result<(), Failure> {
    screen.show(check, policies::check)?;
    match check.output.errors.as_slice() {
        [] => Ok(()),
        errors => Err(Error::faults(errors.to_vec()).into()),
    }
}
