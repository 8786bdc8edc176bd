//! `bookings reschedule`: another date for an event.

use bookguard_core::features::reschedules::{RescheduleBooking, Rescheduled};
use bookguard_core::operation::Request;
use clap::Args;
use serde_json::json;

use super::{at, once_only, with};
use crate::args::OnceArgs;
use crate::failure::Failure;
use crate::output::Screen;
use crate::output::cancellation::{decided, steps};
use crate::output::table::{Style, leaf, record, time};
use crate::target::Target;

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

/// Moves an event, or shows what would come of it.
///
/// # Errors
/// Those of the call.
pub(super) async fn run(
    target: &Target,
    args: RescheduleArgs,
    screen: &Screen,
) -> Result<(), Failure> {
    let mut body = json!({ "eventDate": args.event_date, "agreedBy": args.agreed_by });
    body = with(body, "timeZone", args.time_zone);
    body = with(body, "at", args.at);
    body = with(body, "dryRun", args.dry_run.then_some(true));
    let request = Request {
        body: body.to_string().into_bytes(),
        ..at(&args.booking_id)
    };
    let answer = target
        .call::<RescheduleBooking>(once_only(request, args.once))
        .await?;
    screen.show(&answer, rescheduled)
}

/// A change of date that was made, or would be.
fn rescheduled(moved: &Rescheduled, style: Style) -> String {
    let agreed: Vec<&str> = moved.agreed_by.iter().map(|side| side.word()).collect();
    let receipt = moved.receipt.as_ref();
    let fields = [
        ("booking", Some(moved.booking_id.to_string())),
        ("event date", Some(time(moved.event_date))),
        ("time zone", moved.time_zone.clone()),
        ("before", Some(moved.previous_event_date.clone())),
        ("agreed by", Some(agreed.join(", "))),
        ("agreed at", Some(time(moved.at))),
        ("reached", Some(decided(moved.reached))),
        (
            "recorded",
            Some(match receipt {
                Some(_) => time(moved.rescheduled_at),
                None => "no, this is what would happen".to_owned(),
            }),
        ),
        ("log", receipt.map(|receipt| receipt.log_origin.clone())),
        ("leaf", receipt.map(leaf)),
        (
            "leaf hash",
            receipt.map(|receipt| receipt.leaf_hash.clone()),
        ),
    ];
    let mut text = record(style, &fields);
    if !moved.schedule.is_empty() {
        text.push_str("\n\nIf the organizer cancels:\n");
        text.push_str(&steps(&moved.schedule, moved.at, style));
    }
    text
}
