//! The first page: what needs a person now, and what happened in the last day.

use bookguard_core::error::Error;
use bookguard_core::features::activity::{Activity, ActivityHour, GetActivity};
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::ListResolutions;
use bookguard_core::features::endpoints::ListEndpoints;
use bookguard_core::model::{Booking, Endpoint, EndpointStatus, Scope, Timestamp};
use bookguard_core::policy::Resolution;
use maud::{Markup, html};

use super::booking::title;
use super::chart::{Bar, bars};
use super::parts::{Tone, ago, badge, counted, empty, endpoint_badge, grouped, table, time};
use super::{Answer, Asked, Page, Part, User};

/// How many reviews are named.
const NAMED: &str = "5";
/// Told to whoever sees something here, but no bookings.
const NO_BOOKINGS: &str = "To see bookings, you need the scope bookings:read.";
/// Pages to which only the list of what they change leads, with their own scope and that of the list.
const WRITING: [(Scope, Scope, &str, &str); 4] = [
    (
        Scope::WebhooksWrite,
        Scope::WebhooksRead,
        "/endpoints/new",
        "Add an endpoint",
    ),
    (
        Scope::WebhooksWrite,
        Scope::WebhooksRead,
        "/deliveries/recover",
        "Send many events again",
    ),
    (
        Scope::ApiKeysWrite,
        Scope::ApiKeysRead,
        "/keys/new",
        "Create a key",
    ),
    (
        Scope::ApiKeysWrite,
        Scope::ApiKeysRead,
        "/people/new",
        "Invite somebody",
    ),
];

pub(super) async fn show(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let (reviews, are_more) = match user.may(Scope::BookingsRead) {
        true => to_review(user).await?,
        false => (Vec::new(), false),
    };
    let (endpoints, activity) = match user.may(Scope::WebhooksRead) {
        true => {
            let listed = user.read::<ListEndpoints>(&[], &[("limit", "100")]).await?;
            (listed.data, Some(user.read::<GetActivity>(&[], &[]).await?))
        }
        false => (Vec::new(), None),
    };
    let main = html! {
        div.title { h1 { "Overview" } }
        section.card aria-labelledby="now" {
            h2 #now { (user.told("What needs you now", "What needs the partner now")) }
            (to_do(user, asked.now, (&reviews, are_more), &endpoints, activity.as_ref()))
        }
        (unlisted(user))
        @if let Some(activity) = &activity { (day(user, activity)) }
    };
    Ok(Page::new(Part::Overview, "Overview", main).ok())
}

/// The pages that write and to which no list leads, for want of its scope.
fn unlisted(user: &User) -> Markup {
    let pages = WRITING
        .iter()
        .filter(|(own, list, ..)| user.may(*own) && !user.may(*list));
    let pages: Vec<_> = pages.collect();
    html! {
        @if !pages.is_empty() {
            section.card aria-labelledby="unlisted" {
                h2 #unlisted { "What you can do here" }
                div.actions { @for (.., address, name) in pages { a.button href=(user.link(address)) { (name) } } }
            }
        }
    }
}

/// Cancellations that wait for a person, each with its booking, and whether there are more.
async fn to_review(user: &User) -> Result<(Vec<(Resolution, Booking)>, bool), Error> {
    let query = [("status", "pending_review"), ("limit", NAMED)];
    let found = user.read::<ListResolutions>(&[], &query).await?;
    let mut reviews = Vec::new();
    for resolution in found.data {
        let id = resolution.booking_id.to_string();
        let booking = user.read::<GetBooking>(&[&id], &[]).await?;
        reviews.push((resolution, booking));
    }
    Ok((reviews, found.has_more))
}

fn to_do(
    user: &User,
    now: Timestamp,
    (reviews, are_more): (&[(Resolution, Booking)], bool),
    endpoints: &[Endpoint],
    activity: Option<&Activity>,
) -> Markup {
    let failing = |endpoint: &&Endpoint| {
        matches!(
            endpoint.status,
            EndpointStatus::Failing | EndpointStatus::Suspended | EndpointStatus::Gone
        )
    };
    let failing: Vec<_> = endpoints.iter().filter(failing).collect();
    let expiring = activity.map_or(0, |activity| activity.keys_expiring);
    let failed: u64 = activity.map_or(0, |activity| {
        activity.hours.iter().map(|hour| hour.failed).sum()
    });
    let unheard = activity.is_some() && endpoints.iter().all(|endpoint| !endpoint.enabled);
    if reviews.is_empty() && failing.is_empty() && expiring == 0 && failed == 0 && !unheard {
        let nothing = user.told("Nothing waits for you.", "Nothing waits for the partner.");
        return match (user.may(Scope::BookingsRead), activity.is_some()) {
            (true, true) => empty(
                nothing,
                "Cancellations to decide, endpoints that fail and keys that expire appear here.",
            ),
            (true, false) => empty(nothing, "Cancellations to decide appear here."),
            (false, true) => empty(
                nothing,
                html! { "Endpoints that fail and keys that expire appear here. " (NO_BOOKINGS) },
            ),
            (false, false) => empty(
                "You cannot see bookings.",
                "For that you need the scope bookings:read. Ask whoever gave you your key or link.",
            ),
        };
    }
    html! {
        ul.todo {
            @for (review, booking) in reviews {
                li {
                    (badge(Tone::Warn, "To decide"))
                    a href=(user.link(&format!("/bookings/{}", review.booking_id))) { (title(booking)) }
                    span.soft { "canceled by " (review.canceled_by.word()) " " (ago(review.canceled_at, now)) }
                }
            }
            @if are_more { li { a href=(user.link("/reviews")) { "All cancellations to decide" } } }
            @for endpoint in failing {
                li {
                    (endpoint_badge(endpoint.status))
                    a href=(user.link(&format!("/endpoints/{}", endpoint.endpoint_id))) { (endpoint.url) }
                    @if let Some(since) = endpoint.failing_since { span.soft { "since " (time(since)) } }
                }
            }
            @if failed > 0 {
                li {
                    strong { (grouped(&failed.to_string())) " of the last day's events failed" }
                    a href=(user.link("/deliveries?status=failed")) { "Look at them" }
                }
            }
            @if expiring > 0 {
                li {
                    strong { (counted(expiring.into(), "API key")) " will expire soon" }
                    @if user.may(Scope::ApiKeysRead) { a href=(user.link("/keys")) { "Replace what is still used" } }
                }
            }
            @if unheard {
                li {
                    strong { (user.told("No endpoint receives your events", "No endpoint receives the partner's events")) }
                    @if user.may(Scope::WebhooksWrite) { a href=(user.link("/endpoints/new")) { "Add one" } }
                    span.soft { "or poll the log of events" }
                }
            }
        }
        @if !user.may(Scope::BookingsRead) { p.soft { (NO_BOOKINGS) } }
    }
}

fn day(user: &User, activity: &Activity) -> Markup {
    let sum = |of: fn(&ActivityHour) -> u64| activity.hours.iter().map(of).sum::<u64>();
    let is_complete = activity.hours.iter().all(|hour| hour.is_complete);
    let at_least = if is_complete { "" } else { "at least " };
    let figure = |count: u64| grouped(&count.to_string());
    let number = |count: u64| format!("{at_least}{}", figure(count));
    let hour = |hour: &ActivityHour| hour.from.to_utc().format("%H:%M").to_string();
    let booked = activity.hours.iter().map(|h| Bar {
        label: format!("{}: {}", hour(h), counted(h.bookings, "booking")),
        pieces: vec![(h.bookings, "booked")],
    });
    let sent = activity.hours.iter().map(|h| Bar {
        label: format!(
            "{}: {} delivered, {} pending, {} failed, {} with no endpoint",
            hour(h),
            figure(h.delivered),
            figure(h.pending),
            figure(h.failed),
            figure(h.no_endpoints)
        ),
        pieces: vec![
            (h.delivered, "delivered"),
            (h.pending, "pending"),
            (h.failed, "failed"),
            (h.no_endpoints, "untaken"),
        ],
    });
    let (booked, sent): (Vec<_>, Vec<_>) = (booked.collect(), sent.collect());
    let rows = activity.hours.iter().rev().map(|h| html! {
        td { (hour(h)) }
        @for count in [h.bookings, h.cancellations, h.delivered, h.pending, h.failed, h.no_endpoints] {
            td.amount { (figure(count)) }
        }
    });
    html! {
        div.grid {
            section.card aria-labelledby="booked" {
                h2 #booked { "Bookings of the last 24 hours" }
                div.number { (number(sum(|h| h.bookings))) }
                (bars("Bookings by hour", &booked))
                p.soft { (at_least) (counted(sum(|h| h.cancellations), "cancellation")) ". "
                    @if user.may(Scope::BookingsRead) { a href=(user.link("/bookings")) { "All bookings" } } }
            }
            section.card aria-labelledby="sent" {
                h2 #sent { "Events of the last 24 hours" }
                div.number { (number(sum(|h| h.delivered + h.pending + h.failed + h.no_endpoints))) }
                (bars("Events by hour and state of their delivery", &sent))
                ul.key {
                    @for (class, name, count) in [
                        ("delivered", "delivered", sum(|h| h.delivered)),
                        ("pending", "pending", sum(|h| h.pending)),
                        ("failed", "failed", sum(|h| h.failed)),
                        ("untaken", "with no endpoint", sum(|h| h.no_endpoints)),
                    ] {
                        li { svg viewBox="0 0 1 1" aria-hidden="true" { rect.(class) width="1" height="1" {} } (number(count)) " " (name) }
                    }
                }
            }
        }
        details.card {
            summary { "The same hour by hour" }
            (table("Activity by hour, UTC", &["Hour, UTC", "#Bookings", "#Cancellations", "#Delivered", "#Pending", "#Failed", "#No endpoint"], rows))
        }
    }
}
