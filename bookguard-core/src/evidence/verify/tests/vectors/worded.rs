//! Packets whose summaries the second wording words differently from the first; and one that names an unknown wording.

use serde_json::json;

use super::super::fixture::{Fixture, erased_values};
use super::forged::{Forgery, signed};
use super::{Bad, Noticed, World};
use crate::evidence::summary::Wording;
use crate::evidence::{Erasable, LegalBasis, Packet};
use crate::model::{Amount, Currency, RecordedEventType};
use crate::policy::{Actor, Reason};

/// The packets of four bookings: one with erased words, one canceled too late, one that named only a day, and one whose terms were
/// accepted before, between and after two moves.
pub fn packets() -> [(&'static str, Packet); 4] {
    let mut fixture = Fixture::new();
    fixture.wording = Wording::Second;
    fixture.with_items(13, 50);
    let values = vec![
        erased_values(0, &[Erasable::EventType]),
        erased_values(1, &[Erasable::Method]),
        erased_values(2, &[Erasable::Title]),
    ];
    let objection = (LegalBasis::Objection, None);
    fixture.erase(13, "2026-07-01T09:00:00Z", objection, values);

    let usd = Amount::parse("950", Currency::USD).unwrap();
    // The cancellation is said to have taken effect a minute before it was received, within the two weeks for claims.
    let (date, zone) = ("2026-05-11T03:59:30-04:00", Some("America/New_York"));
    fixture.record(51, Some("firm"), date, zone, usd, |_| {});
    fixture.cancel(14, Actor::Organizer, Some(Reason::Illness));

    fixture.record(52, Some("firm"), "2026-06-20", zone, usd, |_| {});
    fixture.protect_at(15, fixture.packet_at(15).booking.created_at);
    fixture.stall(15, RecordedEventType::BookingCreated);
    fixture.settle(15);
    fixture.queue(15, RecordedEventType::BookingProtected);

    fixture.record(
        53,
        Some("firm"),
        "2026-06-20T19:00:00-04:00",
        zone,
        usd,
        |_| {},
    );
    let address = Some("2001:db8::7");
    fixture.accept(16, "2026-02-01T10:00:00Z", Actor::Organizer, address);
    fixture.reschedule(16, "2026-03-01T00:00:00Z", "2026-09-20T19:00", None);
    fixture.accept(16, "2026-03-02T10:00:00Z", Actor::Talent, None);
    fixture.reschedule(
        16,
        "2026-04-01T00:00:00Z",
        "2026-11-21T20:30",
        Some("Europe/Paris"),
    );
    fixture.accept(16, "2026-04-02T10:00:00Z", Actor::Talent, None);
    [
        ("worded-2-erased", fixture.packet_at(13)),
        ("worded-2-late", fixture.packet_at(14)),
        ("worded-2-moved", fixture.packet_at(16)),
        ("worded-2-unsent", fixture.packet_at(15)),
    ]
}

/// A summary that names an unknown wording, signed with the ledger's key.
const UNKNOWN: &[Forgery] = &[(
    "unknown-wording",
    "worded-2-late",
    "the summary is in a wording that does not exist",
    Noticed::Wording,
    "summary",
    |_, doc| doc["summary"]["version"] = json!("bookguard-summary-0"),
)];

pub fn bad(world: &World) -> Vec<Bad> {
    signed(world, UNKNOWN)
}
