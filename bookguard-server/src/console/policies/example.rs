//! The example of a booking for which a page shows a schedule, and the check of a policy with it.

use bookguard_core::error::{Error, FieldError, Kind as ErrorKind};
use bookguard_core::features::policies::{PolicyCheck, ValidatePolicy};
use bookguard_core::limits::DAY_MS;
use bookguard_core::model::{Amount, Timestamp};
use bookguard_core::operation::Request;
use bookguard_core::policy::{Document, Segment, Zone};
use maud::{Markup, html};

use crate::console::form::{as_typed, in_fields};
use crate::console::parts::money;
use crate::console::schedule::schedule;
use crate::console::{Draft, Field, Fields, Kind, User};

/// The fields of an example, which are the parameters of the operation.
pub(super) const NAMES: [&str; 3] = ["eventDate", "bookingValue", "currency"];
/// Days ahead of the library's example: more than its longest step.
pub(super) const LIBRARY_DAYS: i64 = 200;
/// Days by which an example is ahead of the earliest deadline, and by which at least.
const AHEAD_DAYS: i64 = 30;
const LEAST_DAYS: i64 = 60;
/// No example is further ahead, whatever a policy says.
const MOST_DAYS: i64 = 5000;

/// An evening that many days ahead.
pub(super) fn date_after(now: Timestamp, days: i64) -> String {
    let day = now.plus_ms(days.clamp(0, MOST_DAYS) * DAY_MS);
    format!("{}T19:00", day.to_utc().format("%Y-%m-%d"))
}

/// The date of an event that is far enough away for every step.
pub(super) fn date_for(document: &Document, now: Timestamp) -> String {
    let longest = document.organizer.tiers.first();
    let longest = longest.map_or(0, |tier| i64::from(tier.before.nominal_minutes()) / 1440);
    date_after(now, (longest + AHEAD_DAYS).max(LEAST_DAYS))
}

/// What a check says, and what is wrong with the example.
pub(super) struct Checked {
    pub(super) check: PolicyCheck,
    pub(super) faults: Vec<FieldError>,
}

/// Checks a policy's text with the example that the fields describe.
///
/// # Errors
/// Those of the operation, except faults of the example.
pub(super) async fn check(user: &User, policy: &str, fields: &Fields) -> Result<Checked, Error> {
    let typed = NAMES.iter();
    let typed = typed.filter_map(|name| Some(((*name).to_owned(), fields.get(name)?.to_owned())));
    let request = |query| Request {
        body: policy.as_bytes().to_vec(),
        query,
        ..Request::default()
    };
    let checked = user.perform::<ValidatePolicy>(request(typed.collect()));
    let is_example = |fault: &FieldError| fault.pointer.starts_with('?');
    let mut refused = match checked.await {
        Ok(check) => {
            let faults = Vec::new();
            return Ok(Checked { check, faults });
        }
        Err(error) => error,
    };
    if refused.kind != ErrorKind::Invalid || !refused.details.iter().any(is_example) {
        return Err(refused);
    }
    refused.details.retain(is_example);
    as_typed(&mut refused);
    let faults = in_fields(refused, "").details;
    let check = user.perform::<ValidatePolicy>(request(Vec::new())).await?;
    Ok(Checked { check, faults })
}

/// The fields with which people describe the example.
pub(super) fn inputs(draft: &Draft<'_>, about: &str) -> Markup {
    html! {
        (draft.field(&Field::new("eventDate", "Date of the event", Kind::Text).about(about).plain()))
        (draft.field(&Field::new("bookingValue", "Value", Kind::Number).about("1000 if empty.").plain()))
        (draft.field(&Field::new("currency", "Currency", Kind::Text).about("The policy's, or USD, if empty.").plain()))
    }
}

/// The value of the booking with this schedule, in minor units.
pub(super) fn value_of(segments: &[Segment]) -> i64 {
    let whole = |segment: &Segment| {
        let (refund, penalty) = (segment.refund?, segment.penalty?);
        Some(refund.minor() + penalty.minor())
    };
    segments.iter().find_map(whole).unwrap_or_default()
}

/// The schedule of the example, or why there is none.
pub(super) fn shown(check: &PolicyCheck, now: Timestamp) -> Markup {
    let policy = check.normalized.as_ref();
    let zone = policy.and_then(|policy| policy.document().time_zone);
    let zone = zone.unwrap_or(Zone::UTC);
    html! {
        @match check.schedule.as_deref() {
            None => p.soft { "Enter the date of an event to see what a cancellation would cost, and until when." },
            Some([]) => p.soft { "It is too late to claim anything for that event." },
            Some(segments) => {
                @let value = value_of(segments);
                @if let Some(sum) = segments.iter().find_map(|segment| segment.refund).and_then(|sum| Amount::from_minor(value, sum.currency()).ok()) {
                    p { "A booking of " (money(sum)) ", recorded now:" }
                } @else { p { "A booking recorded now:" } }
                (schedule(segments, value, zone, now, None))
            },
        }
    }
}
