//! The commands of bookings.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CancelArgs, EvaluateArgs};
use crate::args::{OnceArgs, PageArgs};
use crate::commands::acceptances::AcceptArgs;
use crate::commands::reschedules::RescheduleArgs;

/// What can be done with bookings.
#[derive(Debug, Subcommand)]
pub enum BookingsCommand {
    /// Record a booking
    Create(Box<NewBookingArgs>),
    /// Show a booking
    Get {
        /// The booking's id
        booking_id: String,
    },
    /// List bookings, newest first
    List {
        /// Only bookings with this status: created, protected or canceled
        #[arg(long)]
        status: Option<String>,
        /// Only bookings whose event is at this time or later (RFC 3339)
        #[arg(long, value_name = "TIME")]
        event_from: Option<String>,
        /// Only bookings whose event is before this time (RFC 3339)
        #[arg(long, value_name = "TIME")]
        event_to: Option<String>,
        /// Which page.
        #[command(flatten)]
        page: PageArgs,
    },
    /// Lock a booking into the ledger
    Protect {
        /// The booking's id
        booking_id: String,
        /// Harmless repetition.
        #[command(flatten)]
        once: OnceArgs,
    },
    /// Move a booking's event to another date, as both sides agreed
    Reschedule(Box<RescheduleArgs>),
    /// Show the terms of a booking in words, and who accepted them
    Disclosure {
        /// The booking's id
        booking_id: String,
    },
    /// Record that a party accepted a booking's terms, exactly as they were shown
    Accept(Box<AcceptArgs>),
    /// Show what a cancellation would cost under the booking's policy, or did cost
    #[command(alias = "policy")]
    Evaluate(EvaluateArgs),
    /// Cancel a booking: shows the result first, and asks
    Cancel(Box<CancelArgs>),
}

/// A new booking: from flags, or as JSON.
#[derive(Debug, Args)]
pub struct NewBookingArgs {
    /// The whole booking as JSON, from a file or from standard input (-), instead of the flags
    #[arg(
        long,
        value_name = "FILE|-",
        conflicts_with_all = [
            "talent_id", "talent_name", "organizer_id", "organizer_name", "event_type", "event_date", "value",
            "currency", "time_zone", "amount_paid", "policy_id", "policy", "metadata"
        ]
    )]
    pub json: Option<PathBuf>,
    /// Your own id of the talent
    #[arg(long, value_name = "ID", required_unless_present = "json")]
    pub talent_id: Option<String>,
    /// The talent's name
    #[arg(long, value_name = "NAME", required_unless_present = "json")]
    pub talent_name: Option<String>,
    /// Your own id of the organizer
    #[arg(long, value_name = "ID", required_unless_present = "json")]
    pub organizer_id: Option<String>,
    /// The organizer's name
    #[arg(long, value_name = "NAME", required_unless_present = "json")]
    pub organizer_name: Option<String>,
    /// Free text: concert, wedding, conference …
    #[arg(long, value_name = "TYPE", required_unless_present = "json")]
    pub event_type: Option<String>,
    /// When the event begins: RFC 3339 with its offset, or local time together with --time-zone
    #[arg(long, value_name = "TIME", required_unless_present = "json")]
    pub event_date: Option<String>,
    /// Total value, in whole units of the currency: 1200 or 1200.50; kept exactly as typed
    #[arg(
        long,
        value_name = "AMOUNT",
        required_unless_present = "json",
        allow_negative_numbers = true
    )]
    pub value: Option<String>,
    /// ISO 4217 code [default: USD]
    #[arg(long, value_name = "CODE")]
    pub currency: Option<String>,
    /// What was paid so far [default: the whole value]
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    pub amount_paid: Option<String>,
    /// IANA name of the event's time zone, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// A policy of the library, by its id
    #[arg(long, value_name = "ID", conflicts_with = "policy")]
    pub policy_id: Option<String>,
    /// A policy of its own: a JSON file
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// A pair of your own; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub metadata: Vec<String>,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}
