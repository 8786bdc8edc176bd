//! A small ledger and the packets of its bookings, made without a store, with fixed salts and times.

mod log;
mod packet;
mod steps;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bookguard_test_authority::Authority;
use sha2::{Digest as _, Sha256};

use crate::evidence::anchor::Anchor;
use crate::evidence::epoch::Epoch;
use crate::evidence::erasure::stand_in;
use crate::evidence::facts::{
    CreationFact, Fact, LeafPlace, Logged, NotificationFact, ProtectionFact, ResolutionFact,
    members,
};
use crate::evidence::frozen::policy_summary;
use crate::evidence::packet::*;
use crate::evidence::summary::{SummaryInput, Wording, summarize};
use crate::evidence::withheld::withhold;
use crate::evidence::{
    Acceptance, BookingState, Erasable, ErasedValues, Erasure, EvidenceItem, FrozenTerms, ItemKind,
    LegalBasis, Notification, NotificationOutcome, Packet, RescheduleFact, Withheld,
};
use crate::ledger::event::salts;
use crate::ledger::hash::Hash;
use crate::ledger::map::pages::Pages;
use crate::ledger::map::{MapStep, MapValue, key_of};
use crate::ledger::proof::{prove_consistency, prove_inclusion};
use crate::ledger::tile::{TILE_WIDTH, TileKind, encode_bundle};
use crate::ledger::{
    Checkpoint, Disclosure, EventBody, Leaf, LeafKind, Signer, TilePath, TlogProof, Tree, leaf_hash,
};
use crate::limits::{ATTEMPTS_SHOWN, DELIVERIES_PER_EVENT};
use crate::model::*;
use crate::policy::{
    self, Actor, Booked, Cancellation, DisclosureWording, EventDate, MissingZone, NamedDocument,
    PastReschedule, Policy, PolicySource, Reason, Resolution, ResolutionDecision, Terms,
};

/// A ledger of a few bookings.
pub struct Fixture {
    pub signer: Signer,
    tiles: BTreeMap<(u8, u64), Vec<u8>>,
    tree: Tree,
    roots: Vec<Hash>,
    leaves: Vec<Vec<u8>>,
    kept: Vec<LoggedBooking>,
    /// What the service lies about from now on.
    pub lie: Option<Lie>,
    /// The zone whose clock the service's tables give to every other zone, as another edition may.
    pub tables: Option<&'static str>,
    /// Whether what a person said about a cancellation is recorded so that it can be erased, as since schema 7.
    pub erasable: bool,
    /// How packets are summarized. Most vectors are those of 0.1.0.
    pub wording: Wording,
    /// How terms are worded that are accepted from now on, or that nobody accepted. Most vectors are those of 0.1.0.
    pub disclosed: DisclosureWording,
    /// The number and hash of the last entry that commits to a map.
    mapped: Option<(u64, Hash)>,
    /// The last entry of the latest booking, which its packets hide, and the state with it.
    hides: Option<(Entry, BookingState)>,
}

/// A map that was logged.
pub struct MappedLog {
    index: u64,
    entry: PacketEntry,
    pages: Pages,
}

/// What an entry says of the map of a log.
pub struct MapLie {
    pub values: BTreeMap<Hash, MapValue>,
    pub stream: [u8; 16],
    pub kind: LeafKind,
    pub size: u64,
    pub written: i64,
}

/// What a dishonest service writes to its own ledger.
#[derive(Debug, Clone, Copy)]
pub enum Lie {
    /// A refund other than the policy's.
    Refund(Amount),
    /// Amounts other than those decided.
    Decision(Amount),
    /// Evidence that was not part of the evaluation.
    Evidence,
    /// Another step reached before the event was moved.
    Reached(Option<Amount>),
    /// Another schedule after the event was moved.
    Moved,
    /// An acceptance of a text other than the disclosed one.
    Text,
    /// A notification of the protection that ended before the protection.
    Early,
}

/// A booking and its entries.
struct LoggedBooking {
    state: BookingState,
    terms: Terms,
    stream: [u8; 16],
    entries: Vec<Entry>,
    former: Vec<FrozenTerms>,
    /// The former terms in full.
    before: Vec<Terms>,
    deliveries: Vec<PacketDelivery>,
}

/// A stamp, and the entry that commits to it.
pub struct Stamped {
    size: u64,
    response: Vec<u8>,
    index: u64,
    entry: PacketEntry,
}

struct Entry {
    index: u64,
    leaf: Vec<u8>,
    opened: Opened,
    logged: Logged<Fact>,
}

/// What an entry commits to, and what discloses it.
struct Opened {
    body: EventBody,
    salt: [u8; 32],
    disclosures: Vec<Disclosure>,
}

impl Opened {
    fn of(kind: LeafKind, members: serde_json::Value, seed: &[u8; 32]) -> Self {
        let serde_json::Value::Object(members) = members else {
            panic!("the members of a fact are an object");
        };
        let mut salts = salts(seed);
        let disclosures: Vec<Disclosure> = (members.into_iter())
            .map(|(name, value)| Disclosure {
                name,
                salt: salts(),
                value,
            })
            .collect();
        Self {
            body: EventBody::of(&kind.to_string(), &disclosures).unwrap(),
            salt: salts(),
            disclosures,
        }
    }

    fn commit(&self) -> [u8; 32] {
        self.body.commit(&self.salt)
    }

    /// The entry with this leaf, not proved yet.
    fn entry(self, leaf: &[u8]) -> PacketEntry {
        PacketEntry {
            leaf: STANDARD.encode(leaf),
            body: self.body,
            salt: URL_SAFE_NO_PAD.encode(self.salt),
            disclosures: self.disclosures,
            proof: String::new(),
        }
    }
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

impl Fixture {
    pub fn new() -> Self {
        Self::named("example.com/log")
    }

    pub fn named(origin: &str) -> Self {
        Self::made(origin, None)
    }

    /// Does the same as [`Self::new`] for a service that lies.
    pub fn lying(lie: &Lie) -> Self {
        Self::made("example.com/log", Some(*lie))
    }

    fn made(origin: &str, lie: Option<Lie>) -> Self {
        let mut fixture = Self {
            lie,
            tables: None,
            erasable: false,
            wording: Wording::First,
            disclosed: DisclosureWording::First,
            signer: Signer::from_seed(origin, &[7; 32]).unwrap(),
            tiles: BTreeMap::new(),
            tree: Tree::empty(),
            roots: Vec::new(),
            leaves: Vec::new(),
            kept: Vec::new(),
            mapped: None,
            hides: None,
        };
        let zone = Some("America/New_York");
        fixture.create(1, Some("flexible"), "2026-09-01", zone);
        fixture.create(2, Some("firm"), "2026-06-20T19:00:00-04:00", zone);
        fixture.create(3, None, "2026-06-20T19:00:00.250Z", None);
        fixture.protect(1);
        fixture.protect(0);
        // Other bookings write to the same ledger.
        for n in 10..14 {
            fixture.create(n, Some("firm"), "2026-06-20T19:00:00+02:00", None);
        }
        for (n, policy) in [(20, "firm"), (21, "firm"), (22, "firm")] {
            fixture.create(n, Some(policy), "2026-06-20T19:00:00-04:00", zone);
        }
        fixture.protect(7);
        fixture.protect(9);
        fixture.cancel(7, Actor::Organizer, Some(Reason::Illness));
        fixture.cancel(8, Actor::Talent, Some(Reason::ForceMajeure));
        fixture.cancel(9, Actor::Organizer, Some(Reason::ForceMajeure));
        fixture.decide(9, "200.25");
        // Moved, locked, moved again, and canceled.
        fixture.create(23, Some("firm"), "2026-06-20T19:00:00-04:00", zone);
        fixture.accept(
            10,
            "2026-04-01T00:00:00Z",
            Actor::Organizer,
            Some("203.0.113.7"),
        );
        fixture.reschedule(10, "2026-05-01T00:00:00.5Z", "2026-08-20T20:00", None);
        fixture.protect_at(10, at("2026-05-02T00:00:00Z"));
        fixture.accept(10, "2026-05-03T00:00:00Z", Actor::Talent, None);
        fixture.reschedule(
            10,
            "2026-08-10T00:00:00Z",
            "2026-11-20",
            Some("Europe/Berlin"),
        );
        fixture.create(24, Some("firm"), "2026-06-20T19:00:00-04:00", zone);
        fixture.reschedule(11, "2026-05-24T00:00:00Z", "2026-12-24T18:00", None);
        fixture.cancel(11, Actor::Organizer, Some(Reason::Illness));
        // One notification was given up and accepted later, one was accepted at once, one is still open.
        fixture.create(25, Some("firm"), "2026-06-20T19:00:00-04:00", zone);
        fixture.attempt(12, RecordedEventType::BookingCreated, Some("timeout"));
        fixture.attempt(
            12,
            RecordedEventType::BookingCreated,
            Some("payload_too_large"),
        );
        fixture.settle(12);
        fixture.attempt(12, RecordedEventType::BookingCreated, None);
        fixture.settle(12);
        if let Some(Lie::Early) = lie {
            fixture.attempt(12, RecordedEventType::BookingProtected, None);
            fixture.settle(12);
        }
        fixture.protect(12);
        if lie.is_none() {
            fixture.attempt(12, RecordedEventType::BookingProtected, None);
            fixture.settle(12);
        }
        fixture.cancel(12, Actor::Organizer, Some(Reason::Illness));
        fixture.attempt(12, RecordedEventType::ResolutionCreated, Some("timeout"));
        fixture
    }

    pub fn vkey(&self) -> String {
        self.signer.verifier().to_string()
    }

    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// A booking that was only recorded.
    pub fn recorded(&self) -> Packet {
        self.packet(&self.kept[3])
    }

    /// A protected booking.
    pub fn protected(&self) -> Packet {
        self.packet(&self.kept[1])
    }

    /// Another protected booking.
    pub fn other(&self) -> Packet {
        self.packet(&self.kept[0])
    }

    /// A booking without a policy.
    pub fn bare(&self) -> Packet {
        self.packet(&self.kept[2])
    }

    /// A protected booking that the organizer canceled.
    pub fn canceled(&self) -> Packet {
        self.packet(&self.kept[7])
    }

    /// A recorded booking that was canceled and waits for a decision.
    pub fn pending(&self) -> Packet {
        self.packet(&self.kept[8])
    }

    /// A protected booking that was canceled and decided.
    pub fn decided(&self) -> Packet {
        self.packet(&self.kept[9])
    }

    /// A booking whose event was moved twice, and that was protected in between.
    pub fn rescheduled(&self) -> Packet {
        self.packet(&self.kept[10])
    }

    /// A booking whose event was moved, and that was canceled afterwards.
    pub fn moved_and_canceled(&self) -> Packet {
        self.packet(&self.kept[11])
    }

    /// A booking that was protected and canceled, with deliveries in several states.
    pub fn notified(&self) -> Packet {
        self.packet(&self.kept[12])
    }

    /// The packet of the booking at this place.
    pub fn packet_at(&self, place: usize) -> Packet {
        self.packet(&self.kept[place])
    }

    /// The packet of the booking at this place without some values.
    pub fn packet_at_without(&self, place: usize, withheld: &[Withheld]) -> Packet {
        self.packet_without(&self.kept[place], withheld)
    }

    /// A protected booking whose packet hides that it is, and the packet that does not.
    pub fn hiding_the_protection(&mut self) -> (Packet, Packet) {
        let which = self.kept.len();
        self.create(27, Some("firm"), "2026-06-20T19:00:00-04:00", None);
        let before = self.kept[which].state.clone();
        self.protect(which);
        let honest = self.packet(&self.kept[which]);
        let kept = &mut self.kept[which];
        kept.entries.pop();
        kept.state = before;
        (self.packet(&self.kept[which]), honest)
    }

    /// Records a booking whose protection [`Self::protect_hidden`] will hide. Returns its place.
    pub fn hidden(&mut self) -> usize {
        self.create(29, Some("firm"), "2026-06-20T19:00:00-04:00", None);
        self.kept.len() - 1
    }

    /// Protects a booking, and hides it: [`Self::latest`] is its packet as it was before, [`Self::unhidden`] the honest one.
    pub fn protect_hidden(&mut self, which: usize) {
        let before = self.kept[which].state.clone();
        self.protect(which);
        let kept = &mut self.kept[which];
        let hidden = kept.entries.pop().unwrap();
        let state = std::mem::replace(&mut kept.state, before);
        self.hides = Some((hidden, state));
    }

    /// The packet of the booking that hides an entry, with that entry.
    pub fn unhidden(&mut self) -> Packet {
        let (entry, state) = self.hides.take().unwrap();
        let kept = self.kept.last_mut().unwrap();
        kept.entries.push(entry);
        let before = std::mem::replace(&mut kept.state, state);
        let packet = self.packet(self.kept.last().unwrap());
        let kept = self.kept.last_mut().unwrap();
        let state = std::mem::replace(&mut kept.state, before);
        self.hides = Some((kept.entries.pop().unwrap(), state));
        packet
    }

    /// The stream of that booking, and the hashes of all its leaves.
    pub fn hidden_chain(&self) -> ([u8; 16], Vec<Hash>) {
        let kept = self.kept.last().unwrap();
        let hidden = self.hides.iter().map(|(entry, _)| entry);
        let all = kept.entries.iter().chain(hidden);
        (
            kept.stream,
            all.map(|entry| leaf_hash(&entry.leaf)).collect(),
        )
    }

    /// The booking that was recorded last.
    pub fn latest(&self) -> Packet {
        self.packet(self.kept.last().expect("there are bookings"))
    }

    /// Logs an entry of another booking.
    pub fn other_work(&mut self) {
        self.create(28, None, "2026-06-20T19:00:00Z", None);
    }
}

/// What an erasure names of one entry.
pub(crate) fn erased_values(entry: u64, names: &[Erasable]) -> ErasedValues {
    ErasedValues {
        entry,
        names: names.to_vec(),
    }
}

/// A cancellation of which no more is said.
pub(crate) fn cancellation(booking_id: BookingId, at: Timestamp, by: Actor) -> Cancellation {
    Cancellation {
        booking_id,
        canceled_at: at,
        canceled_by: by,
        reason: None,
        note: None,
        effective_at: None,
        agreed_refund: None,
        evidence: Vec::new(),
        evidence_count: None,
    }
}

/// An item of which no more is said.
pub(crate) fn item(
    booking_id: BookingId,
    at: Timestamp,
    kind: ItemKind,
    title: &str,
) -> EvidenceItem {
    EvidenceItem {
        item_id: ItemId::new(at, [1; 10]),
        booking_id,
        added_at: at,
        kind,
        title: title.to_owned(),
        at: None,
        party: None,
        amount: None,
        reference: None,
        note: None,
        sha256: None,
    }
}

/// The terms of a booking of USD 1,200.50 on 20 June 2026, 19:00 in New York.
pub(crate) fn terms(policy: Option<&str>, created_at: Timestamp) -> Terms {
    let policy = policy.map(|id| (Policy::template(id).unwrap().clone(), PolicySource::Named));
    let booked = Booked {
        event_date: EventDate::parse("2026-06-20T19:00:00").unwrap(),
        time_zone: Some("America/New_York"),
        partner_time_zone: None,
        value: Amount::parse("1200.50", Currency::USD).unwrap(),
        paid: None,
        created_at,
    };
    Terms::freeze(policy, &booked, MissingZone::Refuse).unwrap()
}

pub(crate) fn booking(n: u8, created_at: Timestamp, terms: &Terms, zone: Option<&str>) -> Booking {
    let party = |id: &str, name: &str| Party {
        id: id.to_owned(),
        name: name.to_owned(),
    };
    Booking {
        booking_id: BookingId::new(created_at, [n; 10]),
        partner_id: PartnerId::new(created_at, [9; 10]),
        talent: party("t-1", "The \u{1f3b8} \"Band\"\u{7}"),
        organizer: party("o-1", "Ana María"),
        event_type: "concert".to_owned(),
        event_date: terms.anchor,
        time_zone: zone.map(str::to_owned),
        booking_value: terms.value.json_number(),
        amount_paid: None,
        currency: terms.value.currency(),
        status: BookingStatus::Created,
        protected: false,
        protected_at: None,
        rescheduled_at: None,
        canceled_at: None,
        resolution_id: None,
        policy: terms.policy.as_ref().map(policy_summary),
        metadata: BTreeMap::from([("ref".to_owned(), format!("A-{n}"))]),
        created_at,
    }
}
