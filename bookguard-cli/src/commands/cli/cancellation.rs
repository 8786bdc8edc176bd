//! The commands of cancellations and their resolutions.

use clap::{Args, Subcommand};

use crate::args::OnceArgs;

/// A question to a booking's policy.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// The booking's id
    pub booking_id: String,
    /// As if canceled at this time (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    pub as_of: Option<String>,
    /// As if canceled by: organizer, talent, partner or mutual [default: organizer]
    #[arg(long, value_name = "WHO")]
    pub canceled_by: Option<String>,
    /// As if canceled because of: changed_plans, illness, weather, force_majeure, no_show …
    #[arg(long)]
    pub reason: Option<String>,
    /// As if both sides agreed that this much goes back (with --canceled-by mutual)
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    pub agreed_refund: Option<String>,
    /// As if this many pieces of evidence came with it
    #[arg(long, value_name = "COUNT")]
    pub evidence: Option<String>,
    /// Show every actor side by side
    #[arg(long)]
    pub matrix: bool,
}

/// A cancellation.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The booking's id
    pub booking_id: String,
    /// Who cancels: organizer, talent, partner or mutual
    #[arg(long, value_name = "WHO")]
    pub canceled_by: String,
    /// Why: changed_plans, schedule_conflict, illness, venue_unavailable, weather, force_majeure, no_show, non_payment,
    /// safety or other
    #[arg(long)]
    pub reason: Option<String>,
    /// In your own words
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// When the cancellation takes effect (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    pub effective_at: Option<String>,
    /// What both sides agreed goes back (with --canceled-by mutual)
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    pub agreed_refund: Option<String>,
    /// A file that proves it, such as notice=mail.eml: its digest is sent, never the file; may be given several times
    #[arg(long, value_name = "KIND=FILE")]
    pub evidence: Vec<String>,
    /// Cancel only if this goes back, in minor units (50000 for USD 500.00)
    #[arg(long, value_name = "MINOR_UNITS", allow_negative_numbers = true)]
    pub expect_refund: Option<i64>,
    /// Cancel only under the policy with this hash
    #[arg(long, value_name = "HASH")]
    pub expect_policy: Option<String>,
    /// Show what would happen, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}

/// What can be done with resolutions.
#[derive(Debug, Subcommand)]
pub enum ResolutionsCommand {
    /// Show the result of a cancellation
    Get {
        /// The resolution's id
        resolution_id: String,
    },
    /// Decide what was left to a person
    Decide {
        /// The pending resolution's id
        resolution_id: String,
        /// What goes back, in whole units of the currency: 500 or 500.25; the rest is kept
        #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
        refund: String,
        /// Who decides
        #[arg(long, value_name = "WHO")]
        decided_by: String,
        /// Why; recorded in the ledger
        #[arg(long, value_name = "TEXT")]
        rationale: String,
        /// Harmless repetition.
        #[command(flatten)]
        once: OnceArgs,
    },
}
