//! The columns of bookings, resolutions, events and deliveries: this module alone knows how they are stored. The writer
//! writes these columns, and `fsck` compares them with the stored ones.

use super::commit::json;
use super::conn::Arg;
use super::terms::hash_bytes;
use crate::engine::change::{DeliveryState, EventRow, Pruned};
use crate::engine::command::NewBooking;
use crate::evidence::BookingState;
use crate::evidence::facts::{LeafPlace, Logged};
use crate::ledger::Hash;
use crate::model::{Booking, EndpointId, EventId};
use crate::policy::{Resolution, ResolutionStatus};

/// A booking exactly as `GET /v1/bookings/{bookingId}` answers it.
pub(crate) fn snapshot(booking: &Booking) -> String {
    json(booking)
}

/// The columns of `booking` that follow from facts: those that never change, then [`CHANGED`].
pub(super) const BOOKING: [&str; 13] = [
    "id",
    "partner_id",
    "stream",
    "body",
    "entries",
    "tip",
    "status",
    "event_ms",
    "protected_leaf",
    "rescheduled_leaf",
    "moves",
    "resolution_leaf",
    "review_leaf",
];

/// The values of [`BOOKING`].
pub(super) fn booking<'a>(
    state: &'a BookingState,
    stream: &'a [u8; 16],
    entries: u64,
    tip: &Hash,
) -> Vec<Arg<'a>> {
    let booking = &state.booking;
    let fixed = [
        (&booking.booking_id).into(),
        (&booking.partner_id).into(),
        stream.into(),
    ];
    fixed
        .into_iter()
        .chain(changed(state, entries, tip))
        .collect()
}

/// The values of a new booking: of the columns id, partner_id, status, event_ms, stream, entries, tip, policy_hash, body and terms.
/// The operation wrote the texts of the last two beforehand, because the writer's time is everybody's.
pub(super) fn added<'a>(new: &'a NewBooking, tip: &'a Hash) -> [Arg<'a>; 10] {
    let booking = &new.booking;
    [
        (&booking.booking_id).into(),
        (&booking.partner_id).into(),
        (booking.status as i64).into(),
        booking.event_date.into(),
        (&new.stream).into(),
        Arg::Int(1),
        tip.as_bytes().into(),
        new.terms.policy_hash().map_or(Arg::Null, hash_bytes),
        new.body.as_str().into(),
        new.terms_body.as_str().into(),
    ]
}

/// The columns of `booking` that later facts change.
pub(super) const CHANGED: &[&str] = BOOKING.split_at(3).1;

/// The values of [`CHANGED`]. The chain has `entries` entries, and `tip` is the hash of the last.
pub(super) fn changed(state: &BookingState, entries: u64, tip: &Hash) -> [Arg<'static>; 10] {
    let booking = &state.booking;
    let leaf = |place: Option<&LeafPlace>| Arg::from(place.map(|place| place.index));
    let moved = state.reschedules.last();
    let resolution = state.resolutions.last();
    let waiting = resolution.filter(|latest| latest.fact.status == ResolutionStatus::PendingReview);
    [
        snapshot(booking).into(),
        entries.into(),
        tip.as_bytes().to_vec().into(),
        Arg::Int(booking.status as i64),
        booking.event_date.into(),
        leaf(state.protected.as_ref()),
        leaf(moved.map(|moved| &moved.place)),
        moved.map(|_| json(&state.moves)).into(),
        leaf(resolution.map(|latest| &latest.place)),
        leaf(waiting.map(|latest| &latest.place)),
    ]
}

/// The columns of `resolution`.
pub(super) const RESOLUTION: [&str; 3] = ["id", "booking_id", "leaf_idx"];

/// The values of [`RESOLUTION`].
pub(super) fn resolution(resolution: &Logged<Resolution>) -> [Arg<'_>; 3] {
    let Logged { place, fact } = resolution;
    [
        (&fact.resolution_id).into(),
        (&fact.booking_id).into(),
        place.index.into(),
    ]
}

/// The columns of `event` except the number of retries: those set when it is added, then [`PRUNED`].
pub(super) const EVENT: [&str; 8] = [
    "id",
    "partner_id",
    "seq",
    "booking_id",
    "type",
    "body",
    "pruned_ms",
    "digest",
];

/// The values of the columns set when an event is added.
pub(super) fn event(event: &EventRow) -> [Arg<'_>; 6] {
    [
        (&event.event_id).into(),
        (&event.partner_id).into(),
        event.seq.into(),
        event.booking_id.as_ref().into(),
        (event.event_type as i64).into(),
        (&*event.body).into(),
    ]
}

/// The columns of `event` that describe a pruned body.
pub(super) const PRUNED: &[&str] = EVENT.split_at(6).1;

/// The values of [`PRUNED`].
pub(super) fn pruned(pruned: &Pruned) -> [Arg<'_>; 2] {
    [pruned.at.into(), (&pruned.digest).into()]
}

/// The columns of `delivery`.
pub(super) const DELIVERY: [&str; 10] = [
    "event_id",
    "endpoint_id",
    "phase",
    "attempts",
    "charged",
    "due_ms",
    "lease",
    "settled_leaf",
    "begun_ms",
    "since_ms",
];

/// The values of [`DELIVERY`].
pub(super) fn delivery<'a>(
    event_id: &'a EventId,
    endpoint_id: &'a EndpointId,
    state: &DeliveryState,
) -> [Arg<'a>; 10] {
    [
        event_id.into(),
        endpoint_id.into(),
        (state.phase as i64).into(),
        state.attempts.into(),
        state.counted_attempts.into(),
        state.due.into(),
        state.lease.into(),
        state.settled_leaf.into(),
        state.begun.into(),
        state.since.into(),
    ]
}
