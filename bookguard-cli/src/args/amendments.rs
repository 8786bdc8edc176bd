//! The commands of changes of date.

use clap::Args;

use super::OnceArgs;

/// Another date.
#[derive(Debug, Args)]
pub struct RescheduleArgs {
    /// The booking's id
    pub booking_id: String,
    /// When the event begins from now on: RFC 3339 with its offset, or local time in the booking's time zone
    #[arg(long, value_name = "TIME")]
    pub event_date: String,
    /// IANA name of the event's time zone from now on [default: the one it has]
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// Who agreed: organizer,talent and, where it did too, partner
    #[arg(long, value_name = "WHO,WHO", value_delimiter = ',', required = true)]
    pub agreed_by: Vec<String>,
    /// When they did (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Show what would come of it, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}
