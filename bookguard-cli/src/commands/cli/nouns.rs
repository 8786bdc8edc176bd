//! The commands of events, evidence, the log, and for receivers.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use crate::args::OnceArgs;
use crate::commands::recoveries::{RecoverArgs, RecoveriesCommand};

/// Which of a partner's events.
#[derive(Debug, Clone, Default, Args)]
pub struct EventsArgs {
    /// Only this booking's
    #[arg(long, value_name = "BOOKING_ID")]
    pub booking: Option<String>,
    /// Only events with a greater number; "latest" for future ones only [default: 0 to list, latest to tail]
    #[arg(long, value_name = "NUMBER")]
    pub after: Option<String>,
    /// Only this type: booking.created, booking.protected or resolution.created
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only in this status: pending, delivered, failed or no_endpoints
    #[arg(long)]
    pub status: Option<String>,
}

/// What can be done with webhook events.
#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// List the partner's events, oldest first; those of all partners, newest first, on the database without --partner
    List {
        /// What is listed.
        #[command(flatten)]
        which: EventsArgs,
        /// Seconds to wait for an event if there is none yet: 0 to 30 [default: 0]
        #[arg(long, value_name = "SECONDS")]
        wait: Option<String>,
        /// Events at a time: 1 to 100 [default: 25]
        #[arg(long, value_name = "N")]
        limit: Option<String>,
        /// The next page of all partners' events: the cursor of the previous page
        #[arg(long, conflicts_with_all = ["after", "booking", "wait"])]
        cursor: Option<String>,
    },
    /// Show events as they happen, until stopped; waits for a server that is away
    Tail {
        /// What is shown.
        #[command(flatten)]
        which: EventsArgs,
    },
    /// Show an event with every attempt to deliver it
    Get {
        /// The event's id
        event_id: String,
    },
    /// Deliver an event again, now, and wait for the outcome
    Retry {
        /// The event's id
        event_id: String,
        /// Harmless repetition.
        #[command(flatten)]
        once: OnceArgs,
    },
    /// Deliver again what was not received in a period
    Recover(RecoverArgs),
    /// How far recoveries are
    #[command(subcommand)]
    Recoveries(RecoveriesCommand),
    /// Delete payloads and attempts of old events with nothing left to deliver (on the database only)
    Prune {
        /// How old they must be, such as 90d [default: retention_days]
        #[arg(long, value_name = "DAYS")]
        older_than: Option<String>,
        /// Only count what would be deleted
        #[arg(long)]
        dry_run: bool,
    },
}

/// What can be done with evidence.
#[derive(Debug, Subcommand)]
pub enum EvidenceCommand {
    /// Fetch a booking's evidence packet; redirect it to a file to keep it
    Get {
        /// The booking's id
        booking_id: String,
    },
    /// Verify a packet, without server or network
    Verify {
        /// The packet, a file or standard input (-)
        #[arg(value_name = "PACKET|-")]
        packet: PathBuf,
        /// The log's verifier key, or @ and a file that holds it; get it from the operator of the log, not from the packet
        #[arg(long, value_name = "VKEY|@FILE")]
        key: String,
    },
}

/// What can be done with the ledger.
#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// Check the whole ledger and every row against it (on the database only)
    Verify {
        /// The database is a backup: it may lack what was published after it was made
        #[arg(long)]
        backup: bool,
    },
    /// After the database lost published entries: continue with the rest, as a new log that says so (on the database
    /// only)
    AcceptRollback {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Print the latest signed checkpoint
    Checkpoint,
    /// Print the key that checkpoints and packets verify under
    Key,
}

/// Where a developer's events go.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Where to post each event, such as http://127.0.0.1:3000/webhooks
    #[arg(long, value_name = "ADDRESS", required_unless_present = "print_secret")]
    pub forward_to: Option<String>,
    /// Only these types, between commas
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub events: Vec<String>,
    /// Begin after the event with this number; 0 for all [default: latest]
    #[arg(long, value_name = "NUMBER")]
    pub after: Option<String>,
    /// Keep each event's body as a file in this folder
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,
    /// Print the secret that events are signed with, and exit
    #[arg(long)]
    pub print_secret: bool,
    /// A file with the secret to sign with [or BOOKGUARD_WEBHOOK_SECRET in the environment] [default: one of the API key's
    /// own; on a database the partner's]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

/// Help for receivers of webhooks.
#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Verify the signature of a received webhook
    Verify(WebhookVerifyArgs),
}

/// A received webhook.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("signature").required(true).multiple(true).args(["header", "webhook_signature"])))]
pub struct WebhookVerifyArgs {
    /// A file with the signing secret, one a line while two are valid [or BOOKGUARD_WEBHOOK_SECRET in the environment]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// The exact body received, a file or standard input (-)
    #[arg(long, value_name = "FILE|-")]
    pub body: PathBuf,
    /// The value of x-service-signature: sha256=…
    #[arg(long, value_name = "SIGNATURE")]
    pub header: Option<String>,
    /// The value of webhook-id
    #[arg(long, value_name = "ID", requires = "webhook_signature")]
    pub webhook_id: Option<String>,
    /// The value of webhook-timestamp
    #[arg(long, value_name = "SECONDS", requires = "webhook_signature")]
    pub webhook_timestamp: Option<String>,
    /// The value of webhook-signature: v1,…
    #[arg(long, value_name = "SIGNATURES", requires_all = ["webhook_id", "webhook_timestamp"])]
    pub webhook_signature: Option<String>,
    /// How far webhook-timestamp may be from now, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub tolerance: u64,
}
