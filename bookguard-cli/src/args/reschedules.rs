//! The commands of reschedules, of the terms in words and of their acceptances.

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
    /// When they agreed (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Show the result, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}

/// An acceptance.
#[derive(Debug, Args)]
pub struct AcceptArgs {
    /// The booking's id
    pub booking_id: String,
    /// Who accepted: organizer, talent or partner
    #[arg(long, value_name = "WHO")]
    pub party: String,
    /// How, in your own words: checkbox, e-signature, email …
    #[arg(long, value_name = "HOW")]
    pub method: String,
    /// When the party accepted (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub at: String,
    /// The hash of the text that was shown, as `bookings disclosure` gives it
    #[arg(long, value_name = "HASH")]
    pub disclosure_hash: String,
    /// The network address it came from
    #[arg(long, value_name = "ADDRESS")]
    pub ip: Option<String>,
    /// The program it was made with
    #[arg(long, value_name = "NAME")]
    pub user_agent: Option<String>,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}
