//! Personal data erased for good, and the evidence that still verifies.

use bookguard_core::evidence;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::erasures::EraseValues;
use bookguard_core::features::evidence::GetEvidence;
use serde_json::{Value, json};

use super::{DemoBooking, ORGANIZER};
use crate::failure::Failure;
use crate::output::table::counted;
use crate::target::request;

/// Erases the organizer's data, and checks that it is gone and that the packet verifies as before.
pub(super) async fn erase(demo: &mut DemoBooking<'_>, key: &str) -> Result<(), Failure> {
    let body =
        json!({"party": "organizer", "legalBasis": "consent_withdrawn", "requestRef": "DSR-1"});
    let erased = demo.ask::<EraseValues>(body).await?;
    let asked = request(&[&demo.booking], &Value::Null);
    let booking = demo.remote.call::<GetBooking>(asked.clone()).await?.json;
    let packet = demo.remote.call::<GetEvidence>(asked).await?.json;
    let report = evidence::verify(packet.as_bytes(), key);
    if booking.contains(ORGANIZER) || packet.contains(ORGANIZER) || !report.verified() {
        return Err(Failure::Unexpected(
            "the organizer's name is not erased, or the packet does not verify any more".to_owned(),
        ));
    }
    demo.step.done(
        "The organizer's data erased for good, on request",
        &format!(
            "{} lost values; a new packet passes all {} checks, and {ORGANIZER} is not in it",
            counted(erased.values.len() as u64, "entry"),
            report.checks.len()
        ),
    )
}
