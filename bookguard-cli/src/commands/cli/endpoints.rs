//! The commands of webhook endpoints.

use clap::{ArgGroup, Args, Subcommand};

use crate::args::{OnceArgs, PageArgs};

/// What can be done with webhook endpoints.
#[derive(Debug, Subcommand)]
pub enum EndpointsCommand {
    /// Add an endpoint
    Create {
        /// Where events are posted
        address: String,
        /// A type to receive: booking.created, booking.protected, resolution.created; may be given several times
        /// [default: all]
        #[arg(long = "event", value_name = "TYPE", value_delimiter = ',')]
        events: Vec<String>,
        /// Your own words
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Deliveries begun per second at most, on each node [default: as many as it takes]
        #[arg(long, value_name = "N")]
        rate_limit: Option<u32>,
        /// Give it its own signing secret; shows it only this once
        #[arg(long)]
        own_secret: bool,
        /// Harmless repetition.
        #[command(flatten)]
        once: OnceArgs,
    },
    /// List endpoints, newest first; those of all partners on the database without --partner
    List {
        /// Only in this status: active, failing, suspended, disabled or gone
        #[arg(long)]
        status: Option<String>,
        /// Which page.
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show an endpoint
    Get {
        /// The endpoint's id
        endpoint_id: String,
    },
    /// Change an endpoint; what is not given stays as it is
    Update(EndpointUpdateArgs),
    /// Enable an endpoint that was disabled, by you or by an answer 410, and deliver what waits for it
    Enable {
        /// The endpoint's id
        endpoint_id: String,
    },
    /// Disable an endpoint: no new events; what waits for it keeps waiting
    Disable {
        /// The endpoint's id
        endpoint_id: String,
    },
    /// Send an endpoint a signed test now, and show the result
    Test {
        /// The endpoint's id
        endpoint_id: String,
        /// Harmless repetition.
        #[command(flatten)]
        once: OnceArgs,
    },
    /// Replace an endpoint's own signing secret; shows the new one only this once
    RotateSecret {
        /// The endpoint's id
        endpoint_id: String,
        /// How.
        #[command(flatten)]
        rotation: RotationArgs,
    },
    /// Delete an endpoint; deliveries that wait for it are given up
    Delete {
        /// The endpoint's id
        endpoint_id: String,
    },
}

/// What becomes of an endpoint.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args([
    "address", "events", "all_events", "description", "no_description", "rate_limit", "no_rate_limit", "own_secret",
    "partners_secret"])))]
pub struct EndpointUpdateArgs {
    /// The endpoint's id
    pub endpoint_id: String,
    /// Where events are posted from now on, including those that still wait
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// A type to receive from now on; may be given several times
    #[arg(
        long = "event",
        value_name = "TYPE",
        value_delimiter = ',',
        conflicts_with = "all_events"
    )]
    pub events: Vec<String>,
    /// Receive events of every type
    #[arg(long)]
    pub all_events: bool,
    /// Your own words
    #[arg(long, value_name = "TEXT", conflicts_with = "no_description")]
    pub description: Option<String>,
    /// No words
    #[arg(long)]
    pub no_description: bool,
    /// Deliveries begun per second at most, on each node
    #[arg(long, value_name = "N", conflicts_with = "no_rate_limit")]
    pub rate_limit: Option<u32>,
    /// As many deliveries as it takes
    #[arg(long)]
    pub no_rate_limit: bool,
    /// Give it its own signing secret; shows it only this once
    #[arg(long, conflicts_with = "partners_secret")]
    pub own_secret: bool,
    /// Sign with the partner's secret again, at once
    #[arg(long)]
    pub partners_secret: bool,
}

/// How a signing secret is replaced.
#[derive(Debug, Clone, Default, Args)]
pub struct RotationArgs {
    /// How long the old secret keeps signing beside the new one: 0 to 604800 [default: 86400]
    #[arg(long, value_name = "SECONDS")]
    pub overlap_seconds: Option<u32>,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}
