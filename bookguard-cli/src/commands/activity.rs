//! `activity`: what happened in the last day, and what needs a person.

use bookguard_core::features::activity::{Activity, ActivityHour, GetActivity};

use super::declare::{CliCommand, operation};
use crate::output::table::{Style, fields, grouped, record, rows};

pub(super) fn command() -> CliCommand {
    let about = "What happened to a partner in the last day, and what needs a person";
    operation::<GetActivity>("activity", about, activity)
}

fn activity(activity: &Activity, style: Style) -> String {
    let endpoints = &activity.endpoints;
    let fields = fields! {
        "as of" => activity.at,
        "deliveries waiting" => least(activity.waiting.deliveries, activity.waiting.is_complete),
        "endpoints" => format!(
            "{} active, {} failing, {} suspended, {} disabled, {} gone",
            endpoints.active, endpoints.failing, endpoints.suspended, endpoints.disabled, endpoints.gone
        ),
        "keys expiring" => activity.keys_expiring,
    };
    let busy = |hour: &&ActivityHour| {
        let events = hour.delivered + hour.pending + hour.failed + hour.no_endpoints;
        hour.bookings + events > 0 || !hour.is_complete
    };
    let hours: Vec<_> = activity.hours.iter().filter(busy).collect();
    let table = rows! { style, "bookings or events in the last 24 hours", hours, hour =>
        "FROM" => hour.from,
        "BOOKINGS" => least(hour.bookings, hour.is_complete),
        "CANCELED" => least(hour.cancellations, hour.is_complete),
        "DELIVERED" => least(hour.delivered, hour.is_complete),
        "PENDING" => least(hour.pending, hour.is_complete),
        "FAILED" => least(hour.failed, hour.is_complete),
        "NO ENDPOINTS" => least(hour.no_endpoints, hour.is_complete),
    };
    format!("{}\n\n{table}", record(style, &fields))
}

/// A count; with a plus if there may be more.
fn least(count: u64, is_complete: bool) -> String {
    let more = if is_complete { "" } else { "+" };
    format!("{}{more}", grouped(count))
}
