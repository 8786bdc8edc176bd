//! What happened to a partner in the last day, by hour, and what needs a person now.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::limits::{BOOKINGS_COUNTED, ENDPOINTS_PER_PARTNER, HOUR_MS, WAITING_COUNTED};
use crate::model::{DeliveryStatus, EndpointStatus, Scope, Timestamp};
use crate::operation::{Action, Operation, Request, Route, query, read_long};
use crate::session::{Access, Session};
use crate::store::activity::LatestEvents;

const HOURS: i64 = 24;

/// `GET /v1/activity`
pub struct GetActivity;

/// What happened lately, and what is open, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// That moment.
    pub at: Timestamp,
    /// The last 24 hours of UTC, oldest first. The last one is under way.
    pub hours: Vec<ActivityHour>,
    /// The deliveries that wait for an attempt.
    pub waiting: WaitingCount,
    /// The endpoints, by status.
    pub endpoints: EndpointCounts,
    /// API keys that will expire within a week (within a tenth of their life, if that is less). Keys that were rotated or
    /// revoked do not count.
    pub keys_expiring: u32,
}

/// What happened in one hour. The events are counted by the status that they have now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityHour {
    /// When the hour began.
    pub from: Timestamp,
    /// Bookings that were recorded.
    pub bookings: u64,
    /// Bookings that were canceled.
    pub cancellations: u64,
    /// Events that every endpoint accepted.
    pub delivered: u64,
    /// Events with a delivery of which no attempt has ended, and none that failed.
    pub pending: u64,
    /// Events with a delivery whose last attempt failed.
    pub failed: u64,
    /// Events that no endpoint took.
    pub no_endpoints: u64,
    /// Whether everything was counted. If not, each true number is at least the one given.
    pub is_complete: bool,
}

/// How many deliveries wait for their first or their next attempt. Those being attempted right now are not counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct WaitingCount {
    /// The number of deliveries.
    pub deliveries: u64,
    /// Whether all were counted. If not, the true number is at least the one given.
    pub is_complete: bool,
}

/// The number of endpoints in each status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct EndpointCounts {
    /// They receive events.
    pub active: u32,
    /// They receive events, but ten or more attempts have failed in a row.
    pub failing: u32,
    /// All attempts have failed for five days.
    pub suspended: u32,
    /// They were disabled.
    pub disabled: u32,
    /// Their receivers answered 410 Gone.
    pub gone: u32,
}

impl Operation for GetActivity {
    const ROUTE: Route = Route {
        id: "getActivity",
        path: "/v1/activity",
        access: Access::Scope(Scope::WebhooksRead),
        tag: "Partners",
        summary: "What happened in the last day, and what needs a person",
        description: "Counts, for a glance and for a chart. By hour: bookings recorded and canceled, and events by the status of \
                      their deliveries. As of now: deliveries that wait, endpoints by status, and API keys that will soon \
                      expire. The numbers are exact while `isComplete` is true. If a partner has too much to count, \
                      only the latest are counted: 5,000 bookings of each hour, 5,000 deliveries of the day, and 1,000 \
                      deliveries that wait for each endpoint.",
        ..Route::GET
    };
    type Output = Activity;

    fn prepare(session: &Session, _: &Request) -> Result<Action<Activity>, Error> {
        let partner_id = session.partner_id()?;
        Ok(read_long::<Self>(true, move |session| {
            let at = session.service.clock().now();
            query(session, |reader| {
                let most = u32::try_from(ENDPOINTS_PER_PARTNER).unwrap_or(u32::MAX);
                let endpoints = reader.endpoints(Some(&partner_id), None, None, most)?;
                let live: BTreeSet<_> = endpoints.iter().map(|e| e.endpoint_id).collect();
                let mut hours = hours_until(at);
                for hour in &mut hours {
                    let period = (hour.from, hour.from.plus_ms(HOUR_MS));
                    hour.bookings =
                        reader.bookings_recorded(&partner_id, period, BOOKINGS_COUNTED)?;
                    hour.is_complete = hour.bookings < u64::from(BOOKINGS_COUNTED);
                }
                let latest = reader.latest_events(&partner_id, hours[0].from, &live)?;
                count(&mut hours, &latest);
                let mut waiting = WaitingCount {
                    deliveries: 0,
                    is_complete: true,
                };
                for endpoint_id in &live {
                    let deliveries = reader.waiting_for(endpoint_id, WAITING_COUNTED)?;
                    waiting.deliveries += deliveries;
                    waiting.is_complete &= deliveries < u64::from(WAITING_COUNTED);
                }
                Ok(Activity {
                    at,
                    hours,
                    waiting,
                    endpoints: EndpointCounts::of(endpoints.iter().map(|e| e.status)),
                    keys_expiring: reader.keys_expiring(&partner_id, at)?,
                })
            })
        }))
    }
}

impl EndpointCounts {
    fn of(statuses: impl Iterator<Item = EndpointStatus>) -> Self {
        let mut counts = Self::default();
        for status in statuses {
            *match status {
                EndpointStatus::Active => &mut counts.active,
                EndpointStatus::Failing => &mut counts.failing,
                EndpointStatus::Suspended => &mut counts.suspended,
                EndpointStatus::Disabled => &mut counts.disabled,
                EndpointStatus::Gone => &mut counts.gone,
            } += 1;
        }
        counts
    }
}

/// The hour of `at` and those before it, with nothing counted.
fn hours_until(at: Timestamp) -> Vec<ActivityHour> {
    let last = at.plus_ms(-at.ms().rem_euclid(HOUR_MS));
    let hours = (1 - HOURS..=0).map(|hour| ActivityHour {
        from: last.plus_ms(hour * HOUR_MS),
        is_complete: true,
        ..ActivityHour::default()
    });
    hours.collect()
}

/// Adds each event to its hour, and marks the hours that may lack events.
fn count(hours: &mut [ActivityHour], latest: &LatestEvents) {
    for hour in &mut *hours {
        let is_whole = |until| hour.from > until;
        hour.is_complete &= latest.unexamined_until.is_none_or(is_whole);
    }
    for event in &latest.events {
        let after = hours.partition_point(|hour| hour.from <= event.at);
        let Some(hour) = after.checked_sub(1).and_then(|index| hours.get_mut(index)) else {
            continue;
        };
        // A node whose clock is ahead may have made events of the next hour.
        if event.at >= hour.from.plus_ms(HOUR_MS) {
            continue;
        }
        *match event.status {
            DeliveryStatus::Delivered => &mut hour.delivered,
            DeliveryStatus::Pending => &mut hour.pending,
            DeliveryStatus::Failed => &mut hour.failed,
            DeliveryStatus::NoEndpoints => &mut hour.no_endpoints,
        } += 1;
        hour.cancellations += u64::from(event.is_cancellation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::activity::CountedEvent;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn the_hours_are_those_of_utc_and_end_with_the_one_under_way() {
        #[rustfmt::skip]
        let cases = [
            ("2027-01-02T00:00:00Z", "2027-01-01T01:00:00Z", "2027-01-02T00:00:00Z"),
            ("2027-01-01T23:59:59.999Z", "2027-01-01T00:00:00Z", "2027-01-01T23:00:00Z"),
            ("2028-03-01T05:30:00+05:30", "2028-02-29T01:00:00Z", "2028-03-01T00:00:00Z"),
        ];
        for (now, first, last) in cases {
            let hours = hours_until(at(now));
            assert_eq!(hours.len(), 24);
            assert_eq!(
                (hours[0].from, hours[23].from),
                (at(first), at(last)),
                "{now}"
            );
            for pair in hours.windows(2) {
                assert_eq!(pair[0].from.plus_ms(HOUR_MS), pair[1].from);
            }
        }
    }

    #[test]
    fn each_event_counts_in_its_hour_and_what_is_older_or_from_the_future_in_none() {
        use DeliveryStatus::*;
        let now = at("2027-01-02T10:30:00Z");
        let mut hours = hours_until(now);
        let event = |when: &str, is_cancellation, status| CountedEvent {
            at: at(when),
            is_cancellation,
            status,
        };
        let latest = LatestEvents {
            events: vec![
                event("2027-01-02T11:00:00Z", false, Failed),
                event("2027-01-02T10:59:59Z", false, Pending),
                event("2027-01-02T10:00:00Z", true, Delivered),
                event("2027-01-02T09:59:59.999Z", false, Failed),
                event("2027-01-01T11:00:00Z", true, NoEndpoints),
                event("2027-01-01T10:59:59.999Z", false, Failed),
            ],
            unexamined_until: None,
        };
        count(&mut hours, &latest);
        let counts = |hour: &ActivityHour| {
            let by_status = [hour.delivered, hour.pending, hour.failed, hour.no_endpoints];
            (by_status, hour.cancellations)
        };
        assert_eq!(counts(&hours[23]), ([1, 1, 0, 0], 1));
        assert_eq!(counts(&hours[22]), ([0, 0, 1, 0], 0));
        assert_eq!(counts(&hours[0]), ([0, 0, 0, 1], 1));
        let empty = |hour: &ActivityHour| counts(hour) == ([0; 4], 0);
        assert!(hours[1..22].iter().all(empty));
        assert!(hours.iter().all(|hour| hour.is_complete));
    }

    #[test]
    fn an_hour_of_which_events_may_be_missing_says_so() {
        let now = at("2027-01-02T10:30:00Z");
        for (until, complete) in [
            ("2027-01-02T10:20:00Z", 0),
            ("2027-01-02T10:00:00Z", 0),
            ("2027-01-02T09:59:59.999Z", 1),
            ("2027-01-02T07:00:00Z", 3),
            ("2027-01-01T10:59:59Z", 24),
        ] {
            let mut hours = hours_until(now);
            let latest = LatestEvents {
                events: Vec::new(),
                unexamined_until: Some(at(until)),
            };
            count(&mut hours, &latest);
            let whole = hours.iter().rev().take_while(|hour| hour.is_complete);
            assert_eq!(whole.count(), complete, "{until}");
            let complete = hours.iter().filter(|hour| hour.is_complete).count();
            assert_eq!(
                complete,
                hours.iter().rev().take_while(|h| h.is_complete).count()
            );
        }
    }
}
