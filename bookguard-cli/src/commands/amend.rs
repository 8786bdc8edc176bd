//! `bookings reschedule`: moves a booking's event to another date.

use bookguard_core::ops::Request;
use bookguard_core::ops::amendments::RescheduleBooking;
use serde_json::json;

use super::{at, once_only, with};
use crate::args::RescheduleArgs;
use crate::failure::Failure;
use crate::output::Screen;
use crate::output::amendments;
use crate::target::Target;

/// Moves an event, or shows what would come of it.
///
/// Errors: those of the call.
pub async fn reschedule(
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
    screen.show(&answer, amendments::rescheduled)
}
