//! Personal data erased for good, and the evidence that still verifies.

use bookguard_core::evidence;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::erasures::EraseValues;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::model::BookingId;
use serde_json::{Value, json};

use super::{ORGANIZER, Steps, call};
use crate::failure::Failure;
use crate::output::table::counted;
use crate::target::remote::Remote;
use crate::target::request;

/// Erases the organizer's data, and checks that it is gone and that the packet verifies as before.
pub(super) async fn erase(
    remote: &Remote,
    booking_id: BookingId,
    key: &str,
    step: &mut Steps,
) -> Result<(), Failure> {
    let id = booking_id.to_string();
    let body =
        json!({"party": "organizer", "legalBasis": "consent_withdrawn", "requestRef": "DSR-1"});
    let erased = call::<EraseValues>(remote, &[&id], body).await?;
    let asked = request(&[&id], &Value::Null);
    let booking = remote.call::<GetBooking>(asked.clone()).await?.json;
    let packet = remote.call::<GetEvidence>(asked).await?.json;
    let report = evidence::verify(packet.as_bytes(), key);
    if booking.contains(ORGANIZER) || packet.contains(ORGANIZER) || !report.verified() {
        return Err(Failure::Unexpected(
            "the organizer's name is not erased, or the packet does not verify any more".to_owned(),
        ));
    }
    step.done(
        "The organizer's data erased for good, on request",
        &format!(
            "{} lost values; a new packet passes all {} checks, and {ORGANIZER} is not in it",
            counted(erased.values.len() as u64, "entry"),
            report.checks.len()
        ),
    )
}
