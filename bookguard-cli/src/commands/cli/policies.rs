//! The commands of policies.

use std::path::PathBuf;

use clap::Subcommand;

use crate::args::PageArgs;

/// What can be done with policies.
#[derive(Debug, Subcommand)]
pub enum PoliciesCommand {
    /// Put a policy: a new version, unless it equals the latest
    Put {
        /// The policy's id
        policy_id: String,
        /// The policy's JSON, a file or standard input (-)
        #[arg(long, value_name = "FILE|-")]
        json: PathBuf,
    },
    /// Show a policy, in plain English too
    Get {
        /// The policy's id
        policy_id: String,
        /// A version of it [default: the latest]
        #[arg(long, value_name = "N")]
        version: Option<String>,
    },
    /// List the partner's own policies, each in its latest version
    List(PageArgs),
    /// List the versions of a policy, newest first
    Versions {
        /// The policy's id
        policy_id: String,
        /// Which page.
        #[command(flatten)]
        page: PageArgs,
    },
    /// Check a policy: its faults with their places, warnings, and what it means; without server or database unless --url names
    /// a server
    Validate {
        /// The policy's JSON, a file or standard input (-)
        #[arg(value_name = "FILE|-")]
        json: PathBuf,
    },
    /// Show the library's policies; without server or database unless --url names a server
    Templates,
    /// Print the JSON Schema of policies, for editors and generators
    Schema,
}
