//! A partner's events as one log, ordered by number. A partner without endpoints reads it instead of receiving webhooks;
//! one with endpoints uses it to check that nothing was missed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::features::events;
use crate::limits;
use crate::model::id::{Noun as _, noun};
use crate::model::{BookingId, DeliveryStatus, Event, EventType, Page, PartnerId, Scope};
use crate::operation::{
    Action, LIMIT, Look, Operation, QueryForm, QueryParam, QueryReader, Request, Route, WatchStep,
    finish, ids_cursor, query, query_fault, query_one, query_value, read,
};
use crate::session::{Access, Authority, Session};
use crate::store::events::{EventFilter, LogPlace};

const TYPE: QueryParam = QueryParam {
    name: "type",
    description: "Only events of this type, such as booking.created.",
    form: QueryForm::Words("EventType"),
};

const STATUS: QueryParam = QueryParam {
    name: "status",
    description: "Only events in this status: pending, delivered, failed or no_endpoints.",
    form: QueryForm::Words("DeliveryStatus"),
};

/// `GET /v1/webhook-events`
pub struct ListEvents;

/// A page of a partner's log of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct EventLog {
    /// The events, oldest first, or newest first with `before`. `seq` numbers all of the partner's events without a gap.
    pub data: Vec<Event>,
    /// Whether there may be more events already.
    pub has_more: bool,
    /// The number to send as `after` next time: everything up to it was examined. With `before`, what follows it is newer
    /// than this page.
    pub next_after: u64,
    /// The number to send as `before` next time: everything from it on was examined. Present if `before` was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u64>,
}

impl Operation for ListEvents {
    const ROUTE: Route = Route {
        id: "listWebhookEvents",
        path: "/v1/webhook-events",
        access: Access::Scope(Scope::WebhooksRead),
        query: &[
            QueryParam {
                name: "after",
                description: "Only events with a greater `seq`: the `nextAfter` of the previous answer, 0 for all, `latest` \
                              for future ones only.",
                form: QueryForm::Place,
            },
            QueryParam {
                name: "before",
                description: "Only events with a smaller `seq`, newest first: the `nextBefore` of the previous answer, or \
                              `latest` to begin with the newest. Not together with `after` or `wait`.",
                form: QueryForm::Place,
            },
            TYPE,
            STATUS,
            QueryParam {
                name: "bookingId",
                description: "Only this booking's events.",
                form: QueryForm::Id(noun::Booking::PREFIX),
            },
            QueryParam {
                name: "wait",
                description: "Seconds to wait for an event when there is none yet: 0 to 30, 0 when not given.",
                form: QueryForm::Whole(0, limits::EVENT_WAIT_S, Some(0)),
            },
            LIMIT,
        ],
        tag: "Webhooks",
        summary: "All events in order, as a log to read from",
        description: "Oldest first, by `seq`, which numbers a partner's events without a gap: after 7, seeing 9 means that you \
                      missed 8. After a number beyond the last event, which only a restored backup explains, nothing is read \
                      (`out_of_range`), but only until new events have those numbers. Events of booking.created, booking.protected and resolution.created are listed whether or \
                      not an endpoint took them, others only if an endpoint listed their type. Read from `after=0`, continue with \
                      `nextAfter`, and add `wait=30` once `hasMore` is false: the answer comes with the next event, or is \
                      empty after that time. To look at the newest first, read from `before=latest`, and continue with \
                      `nextBefore`. With a filter that matches little, a page may hold fewer events than asked for, \
                      or none; continue while `hasMore` is true. Old events stay in the log when their payload is deleted \
                      (`prunedAt`).",
        ..Route::GET
    };
    type Output = EventLog;

    fn prepare(session: &Session, request: &Request) -> Result<Action<EventLog>, Error> {
        let booking = query_value(request, "bookingId")
            .map(|text| own_booking(session, text))
            .transpose()?;
        let partner_id = match (&session.authority, booking) {
            (
                Authority::Administrator {
                    partner_id: None, ..
                },
                Some((owner, _)),
            ) => owner,
            _ => session.partner_id()?,
        };
        let mut params = QueryReader::of(request);
        let limit = params.limit();
        let from = place(&mut params);
        let wait = count(&mut params, "wait", limits::EVENT_WAIT_S);
        let filter = EventFilter {
            partner_id,
            booking_id: booking.map(|(_, booking_id)| booking_id),
            event_type: params.choice("type", EventType::WORDS),
            status: params.choice("status", DeliveryStatus::WORDS),
        };
        params.end()?;
        let from = match from {
            LogPlace::After(_) if query_value(request, "after") == Some("latest") => {
                LogPlace::After(query_one(session, |reader| reader.last_event(&partner_id))?)
            }
            from => from,
        };
        // A filter that matches little examines thousands of events.
        let is_long = filter.event_type.is_some() || filter.status.is_some();
        let look = move |session: &Session| {
            let log = page(session, &filter, from, limit)?;
            Ok(Look {
                finished: finish::<Self>(&log),
                is_enough: log.has_more || !log.data.is_empty(),
            })
        };
        Ok(Action::Watch(WatchStep {
            partner_id,
            patience: Duration::from_secs(wait),
            is_long,
            look: Arc::new(look),
        }))
    }
}

/// `bookguard webhook-events list` without a partner
pub struct ListAllEvents;

impl Operation for ListAllEvents {
    const ROUTE: Route = Route {
        id: "listAllWebhookEvents",
        path: "/v1/operator/webhook-events",
        access: Access::Administrator,
        query: &[TYPE, STATUS, LIMIT, ids_cursor::<noun::Event>()],
        tag: "Webhooks",
        summary: "All events of all partners",
        description: "For the operator. Newest first.",
        ..Route::GET
    };
    type Output = Page<Event>;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Page<Event>>, Error> {
        let mut params = QueryReader::of(request);
        let asked = params.paging();
        let event_type = params.choice("type", EventType::WORDS);
        let status = params.choice("status", DeliveryStatus::WORDS);
        params.end()?;
        Ok(read::<Self>(move |session| {
            let now = session.service.clock().now();
            let (found, secrets, next) = query(session, |reader| {
                let (found, next) =
                    reader.all_events(event_type, status, asked.before, asked.limit)?;
                let mut secrets = BTreeMap::new();
                for event in &found {
                    if let Entry::Vacant(place) = secrets.entry(event.partner_id) {
                        place.insert(reader.secret(&event.partner_id, now)?);
                    }
                }
                Ok((found, secrets, next))
            })?;
            let shown = found.iter().map(|event| {
                let owner = event.partner_id;
                let secret = secrets.get(&owner).and_then(Option::as_ref);
                Ok(Event {
                    partner_id: Some(owner),
                    ..events::view(event, secret.ok_or_else(|| events::no_secret(owner))?)?
                })
            });
            Ok(Page::up_to(shown.collect::<Result<_, Error>>()?, next))
        }))
    }
}

fn page(
    session: &Session,
    filter: &EventFilter,
    from: LogPlace,
    limit: u32,
) -> Result<EventLog, Error> {
    let now = session.service.clock().now();
    let (from, page, last, secret) = query(session, |reader| {
        let last = reader.last_event(&filter.partner_id)?;
        let from = match from {
            LogPlace::After(_) => from,
            // From the last event at most, so that whoever goes on from `nextAfter` misses none.
            LogPlace::Before(number) => LogPlace::Before(number.min(last.saturating_add(1))),
        };
        let page = reader.event_log(filter, from, limit)?;
        Ok((from, page, last, reader.secret(&filter.partner_id, now)?))
    })?;
    if let LogPlace::After(number) = from
        && number > last
    {
        return Err(beyond(number, last));
    }
    let secret = secret.ok_or_else(|| events::no_secret(filter.partner_id))?;
    let data = page.events.iter().map(|event| events::view(event, &secret));
    let (next_after, next_before) = match from {
        LogPlace::After(_) => (page.through, None),
        LogPlace::Before(number) => (number.saturating_sub(1), Some(page.through)),
    };
    Ok(EventLog {
        data: data.collect::<Result<_, _>>()?,
        has_more: page.has_more,
        next_after,
        next_before,
    })
}

/// The refusal to read after a number that no event has. The next events get the numbers up to it, and would be missed.
fn beyond(number: u64, last: u64) -> Error {
    Error::faults(vec![query_fault(
        "after",
        "out_of_range",
        format!(
            "{number} is beyond the last event, {last}: if there was such an event, it was lost, because the service was restored from a backup"
        ),
        "Send the seq of the last event from before the loss, 0 for all, or latest for future ones only.",
    )])
}

/// The booking and its partner. Another partner's booking, an unknown id and a malformed id get the same answer.
fn own_booking(session: &Session, text: &str) -> Result<(PartnerId, BookingId), Error> {
    let owned = match BookingId::parse(text) {
        Some(booking_id) => query_one(session, |reader| reader.booking_owner(&booking_id))?
            .filter(|owner| session.may_see(owner))
            .map(|owner| (owner, booking_id)),
        None => None,
    };
    owned.ok_or_else(|| {
        Error::faults(vec![query_fault(
            "bookingId",
            "booking_unknown",
            "names no booking",
            "Send the bookingId of one of your bookings.",
        )])
    })
}

/// Where the page begins. `latest` reads as the greatest number, which no event has in practice.
fn place(params: &mut QueryReader<'_>) -> LogPlace {
    let number = |params: &mut QueryReader<'_>, name: &str| match params.value(name) {
        Some("latest") => limits::EVENT_NUMBER,
        _ => count(params, name, limits::EVENT_NUMBER),
    };
    let after = number(params, "after");
    if params.value("before").is_none() {
        return LogPlace::After(after);
    }
    for other in ["after", "wait"] {
        if params.value(other).is_some() {
            params.conflict("before", other);
        }
    }
    LogPlace::Before(number(params, "before"))
}

/// Reads a number; 0 if it is absent.
fn count(params: &mut QueryReader<'_>, name: &str, most: u64) -> u64 {
    let other = format!("Send 0 to {most}.");
    let fix = match name {
        "before" => "Send the nextBefore of the previous answer, or latest.",
        "after" => "Send the nextAfter of the previous answer, 0, or latest.",
        _ => other.as_str(),
    };
    params.whole(name, 0..=most, fix).unwrap_or_default()
}
