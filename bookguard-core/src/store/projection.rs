//! How a booking is stored, as far as facts say it: the only place that knows. The writer writes these columns, and the check of
//! the database compares them with those that are there.

use super::commit::{int, json};
use super::conn::Arg;
use crate::evidence::BookingState;
use crate::evidence::facts::{LeafPlace, Logged};
use crate::ledger::Hash;
use crate::model::Booking;
use crate::policy::Resolution;

/// A booking exactly as `GET /v1/bookings/{bookingId}` answers it.
pub(crate) fn snapshot(booking: &Booking) -> String {
    json(booking)
}

/// The columns of `booking` that facts say: those that never change, then [`CHANGED`].
pub(super) const BOOKING: [&str; 12] = [
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
];

/// What stands in them.
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

/// The columns of `booking` that its facts change.
pub(super) const CHANGED: &[&str] = BOOKING.split_at(3).1;

/// What stands in them; the chain has so many entries, the last with this hash.
pub(super) fn changed(state: &BookingState, entries: u64, tip: &Hash) -> [Arg<'static>; 9] {
    let booking = &state.booking;
    let leaf = |place: Option<&LeafPlace>| place.map_or(Arg::Null, |place| int(place.index));
    let moved = state.reschedules.last();
    [
        snapshot(booking).into(),
        int(entries),
        tip.as_bytes().to_vec().into(),
        Arg::Int(booking.status as i64),
        booking.event_date.ms().into(),
        leaf(state.protected.as_ref()),
        leaf(moved.map(|moved| &moved.place)),
        moved.map_or(Arg::Null, |_| json(&state.moves).into()),
        leaf(state.resolutions.last().map(|latest| &latest.place)),
    ]
}

/// The columns of `resolution`.
pub(super) const RESOLUTION: [&str; 3] = ["id", "booking_id", "leaf_idx"];

/// What stands in them.
pub(super) fn resolution(resolution: &Logged<Resolution>) -> [Arg<'_>; 3] {
    let Logged { place, fact } = resolution;
    [
        (&fact.resolution_id).into(),
        (&fact.booking_id).into(),
        int(place.index),
    ]
}
