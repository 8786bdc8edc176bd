//! `bookings reschedule` and `bookings accept`: what is agreed on after a booking was recorded.

use bookguard_core::features::acceptances::AcceptTerms;
use bookguard_core::features::reschedules::RescheduleBooking;
use bookguard_core::operation::Request;
use serde_json::json;

use super::{at, once_only, with};
use crate::args::{AcceptArgs, RescheduleArgs};
use crate::failure::Failure;
use crate::output::Screen;
use crate::output::reschedules;
use crate::target::Target;

/// Moves an event, or shows what would come of it.
///
/// # Errors
/// Those of the call.
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
    screen.show(&answer, reschedules::rescheduled)
}

/// Records an acceptance.
///
/// # Errors
/// Those of the call.
pub async fn accept(target: &Target, args: AcceptArgs, screen: &Screen) -> Result<(), Failure> {
    let mut body = json!({
        "party": args.party, "method": args.method, "at": args.at, "disclosureHash": args.disclosure_hash,
    });
    body = with(body, "ip", args.ip);
    body = with(body, "userAgent", args.user_agent);
    let request = Request {
        body: body.to_string().into_bytes(),
        ..at(&args.booking_id)
    };
    let answer = target
        .call::<AcceptTerms>(once_only(request, args.once))
        .await?;
    screen.show(&answer, reschedules::accepted)
}
