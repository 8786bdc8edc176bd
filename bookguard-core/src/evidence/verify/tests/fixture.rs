//! A small ledger and the packets of its bookings, made without a store, with fixed salts and times.

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
    Acceptance, BookingState, ErasedValues, Erasure, EvidenceItem, FrozenTerms, ItemKind,
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
    self, Actor, Booked, Cancellation, EventDate, MissingZone, NamedDocument, PastReschedule,
    Policy, PolicySource, Reason, Resolution, ResolutionDecision, Terms, TermsDisclosure,
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
    /// Whether what a person said about a cancellation is recorded so that it can be erased, as since schema 7.
    pub erasable: bool,
    /// How packets are summarized. Most vectors are those of 0.1.0.
    pub wording: Wording,
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
    /// The former terms in words.
    told: Vec<TermsDisclosure>,
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
            erasable: false,
            wording: Wording::First,
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

    /// The proof of the protected booking's entry under an earlier state.
    /// The packet of the booking at this place without some values.
    pub fn packet_at_without(&self, place: usize, withheld: &[Withheld]) -> Packet {
        self.packet_without(&self.kept[place], withheld)
    }

    pub fn proof_under(&self, entry: usize, size: u64) -> String {
        self.proof(self.kept[1].entries[entry].index, size)
    }

    fn create(&mut self, n: u8, policy: Option<&str>, date: &str, zone: Option<&str>) {
        let value = Amount::parse("1200.50", Currency::USD).unwrap();
        self.record(n, policy, date, zone, value, |_| {});
    }

    /// Records a booking of this value. `change` changes only what the terms do not depend on.
    pub fn record(
        &mut self,
        n: u8,
        policy: Option<&str>,
        date: &str,
        zone: Option<&str>,
        value: Amount,
        change: impl FnOnce(&mut Booking),
    ) {
        let created_at = at("2026-01-10T15:00:00.123Z").plus_ms(i64::from(n) * 60_000);
        // The id of a template, or the text of a policy.
        let policy = policy.map(|said| {
            let own = || Policy::from_json(said).unwrap();
            let policy = Policy::template(said).cloned();
            (policy.unwrap_or_else(own), PolicySource::Named)
        });
        let booked = Booked {
            event_date: EventDate::parse(date).unwrap(),
            time_zone: zone,
            partner_time_zone: None,
            value,
            paid: None,
            created_at,
        };
        let terms = Terms::freeze(policy, &booked, MissingZone::Refuse).unwrap();
        let mut booking = booking(n, created_at, &terms, zone);
        change(&mut booking);
        let fact = CreationFact::of(&booking, FrozenTerms::of(&terms).hash());
        let stream = Sha256::digest([n])[..16].try_into().unwrap();
        let state = BookingState::recorded(fact.clone(), booking.policy);
        let mut kept = LoggedBooking {
            state,
            terms,
            stream,
            entries: Vec::new(),
            former: Vec::new(),
            told: Vec::new(),
            deliveries: Vec::new(),
        };
        self.append(&mut kept, created_at, fact);
        if n < 25 {
            kept.attempt(RecordedEventType::BookingCreated, 5, Some("timeout"));
        }
        self.kept.push(kept);
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

    /// A booking before all that [`Self::crowded`] tells of it is logged.
    pub fn crowded_before_it_is_told(&mut self) -> Packet {
        let which = self.kept.len();
        let zone = Some("America/New_York");
        self.create(26, Some("firm"), "2026-06-20T19:00:00-04:00", zone);
        let packet = self.packet(&self.kept[which]);
        self.told_to_all(which, RecordedEventType::BookingCreated);
        self.protect(which);
        packet
    }

    /// Has the log's latest checkpoint stamped, and logs the entry that commits to the stamp.
    pub fn stamp(&mut self, by: &Authority, at: Timestamp) -> Stamped {
        self.stamp_with(at, |imprint| {
            let request = bookguard_time::Request::new(imprint, [9; 8]);
            by.answer(&request.to_der(), at.ms())
        })
    }

    /// Stamps the log's latest checkpoint with what somebody answers for its SHA-256, and logs the entry that commits to the stamp.
    pub fn stamp_with(
        &mut self,
        at: Timestamp,
        answer: impl FnOnce([u8; 32]) -> Vec<u8>,
    ) -> Stamped {
        let (size, checkpoint) = (self.size(), self.checkpoint());
        let text = self.signer.verifier().open(&checkpoint).unwrap();
        let response = answer(Sha256::digest(text).into());
        let anchor = Anchor {
            at,
            response_hash: Anchor::hash(&response),
            tree_size: size,
        };
        let members = serde_json::to_value(&anchor).unwrap();
        let opened = Opened::of(LeafKind::LogAnchored, members, &[size as u8; 32]);
        let leaf = Leaf {
            commit: opened.commit(),
            prev: Hash::ZERO,
            seq: 0,
            stream: [size as u8; 16],
            t: at.ms(),
        };
        let leaf = leaf.encode().unwrap();
        let index = self.log_bytes(&leaf);
        Stamped {
            size,
            response,
            index,
            entry: opened.entry(&leaf),
        }
    }

    /// Maps the log's first entries, as many as `size`, and logs the entry that commits to the map. `lie` changes what it says.
    pub fn map(&mut self, size: usize, lie: impl FnOnce(&mut MapLie)) -> MappedLog {
        let mut said = MapLie {
            values: BTreeMap::new(),
            stream: Epoch::stream(),
            kind: LeafKind::LogMapped,
            size: size as u64,
            written: self.written(size),
        };
        for bytes in &self.leaves[..size] {
            let Ok(leaf) = Leaf::parse(bytes) else {
                continue;
            };
            let (count, head) = (leaf.seq + 1, leaf_hash(bytes));
            said.values
                .insert(key_of(&leaf.stream), MapValue { count, head });
        }
        lie(&mut said);
        let mut pages = Pages::empty();
        let root = pages.set(&said.values).unwrap();
        self.log_map(&said, root, pages)
    }

    /// The latest time of the log's first leaves. Times in this log do not grow: its bookings are made one after the other.
    fn written(&self, size: usize) -> i64 {
        let times = self.leaves[..size].iter();
        let times = times.map(|leaf| Leaf::parse(leaf).unwrap().t);
        times.max().unwrap()
    }

    /// Logs an entry that commits to a map with this root, whatever it is.
    pub fn map_with_root(&mut self, size: usize, root: Hash) -> MappedLog {
        let said = MapLie {
            values: BTreeMap::new(),
            stream: Epoch::stream(),
            kind: LeafKind::LogMapped,
            size: size as u64,
            written: self.written(size),
        };
        self.log_map(&said, root, Pages::empty())
    }

    fn log_map(&mut self, said: &MapLie, map_root: Hash, pages: Pages) -> MappedLog {
        let epoch = Epoch {
            map_root,
            tree_size: said.size,
            written_at: Timestamp::from_ms(said.written),
        };
        let members = serde_json::to_value(&epoch).unwrap();
        let opened = Opened::of(said.kind, members, &Epoch::seed());
        let before = self.mapped;
        let leaf = Leaf {
            commit: opened.commit(),
            prev: before.map_or(Hash::ZERO, |(_, hash)| hash),
            seq: before.map_or(0, |(seq, _)| seq + 1),
            stream: said.stream,
            t: self.written(self.leaves.len()),
        };
        self.mapped = Some((leaf.seq, leaf_hash(&leaf.encode().unwrap())));
        let leaf = leaf.encode().unwrap();
        MappedLog {
            index: self.log_bytes(&leaf),
            entry: opened.entry(&leaf),
            pages,
        }
    }

    /// The proof of the entry that commits to a map, under an earlier state.
    pub fn proof_of(&self, map: &MappedLog, size: u64) -> String {
        self.proof(map.index, size)
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

    /// What a packet made now shows of a map.
    pub fn completeness(&self, map: &MappedLog, packet: &Packet) -> Completeness {
        let stream = URL_SAFE_NO_PAD.decode(&packet.stream).unwrap();
        let key = key_of(&stream.try_into().unwrap());
        let path = map.pages.clone().prove(&key).unwrap().path;
        let step = |step: &MapStep| CompletenessStep {
            bit: step.bit,
            hash: step.hash.to_base64(),
        };
        Completeness {
            entry: PacketEntry {
                proof: self.proof(map.index, self.size()),
                ..map.entry.clone()
            },
            path: path.iter().map(step).collect(),
        }
    }

    /// The log's checkpoint when it had this size.
    pub fn checkpoint_of(&self, size: u64) -> String {
        Checkpoint::sign(&self.signer, size, self.roots[size as usize - 1])
    }

    /// An answer to the request to stamp that checkpoint, as a packet made now shows it.
    pub fn stamp_of(&self, size: u64, response: &[u8]) -> PacketTimestamp {
        let read = |level, index| Ok::<_, ()>(self.tiles.get(&(level, index)).cloned());
        let path = prove_consistency(size, self.size(), read).unwrap();
        PacketTimestamp {
            checkpoint: self.checkpoint_of(size),
            consistency: path.iter().map(Hash::to_base64).collect(),
            response: STANDARD.encode(response),
            anchor: None,
        }
    }

    /// Stamps as a packet made now shows them: each but the last is renewed by the next.
    pub fn stamps(&self, stamps: &[&Stamped]) -> Vec<PacketTimestamp> {
        let shown = stamps
            .iter()
            .enumerate()
            .map(|(at, stamp)| PacketTimestamp {
                anchor: (at + 1 < stamps.len()).then(|| PacketEntry {
                    proof: self.proof(stamp.index, self.size()),
                    ..stamp.entry.clone()
                }),
                ..self.stamp_of(stamp.size, &stamp.response)
            });
        shown.collect()
    }

    /// The booking that was recorded last.
    pub fn latest(&self) -> Packet {
        self.packet(self.kept.last().expect("there are bookings"))
    }

    /// Logs an entry of another booking.
    pub fn other_work(&mut self) {
        self.create(28, None, "2026-06-20T19:00:00Z", None);
    }

    /// Adds an entry to the log, whatever it is. Returns its place.
    pub fn log_bytes(&mut self, leaf: &[u8]) -> u64 {
        for tile in self.tree.append([leaf_hash(leaf)]) {
            self.tiles.insert((tile.level, tile.index), tile.bytes);
        }
        self.roots.push(self.tree.root());
        self.leaves.push(leaf.to_vec());
        self.size() - 1
    }

    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    /// The log's latest checkpoint.
    pub fn checkpoint(&self) -> String {
        Checkpoint::sign(&self.signer, self.size(), self.root())
    }

    /// What the log serves under a tile's path.
    pub fn tile(&self, path: &TilePath) -> Vec<u8> {
        match path.kind() {
            TileKind::Hashes(level) => {
                let tile = &self.tiles[&(level, path.index())];
                path.cut(tile).unwrap().to_vec()
            }
            TileKind::Entries => {
                let first = path.index() as usize * TILE_WIDTH;
                let leaves = &self.leaves[first..first + path.width()];
                encode_bundle(leaves.iter().map(Vec::as_slice)).unwrap()
            }
        }
    }

    pub fn protect(&mut self, which: usize) {
        let now = self.kept[which].state.booking.created_at.plus_ms(3_600_000);
        self.protect_at(which, now);
    }

    pub fn protect_at(&mut self, which: usize, now: Timestamp) {
        let mut kept = self.kept.remove(which);
        let fact = ProtectionFact {
            protected_at: now,
            terms_hash: FrozenTerms::of(&kept.terms).hash(),
        };
        self.append(&mut kept, now, fact);
        self.kept.insert(which, kept);
    }

    /// A delivery that was not attempted yet.
    pub fn queue(&mut self, which: usize, event_type: RecordedEventType) {
        self.kept[which].delivery(event_type, 5);
    }

    pub fn attempt(&mut self, which: usize, event_type: RecordedEventType, error: Option<&str>) {
        self.kept[which].attempt(event_type, 5, error);
    }

    /// An attempt whose receiver began to accept, and did not end its answer.
    pub fn stall(&mut self, which: usize, event_type: RecordedEventType) {
        self.attempt(which, event_type, Some("timeout"));
        let delivery = self.kept[which].deliveries.last_mut().unwrap();
        delivery.history.last_mut().unwrap().status_code = Some(200);
    }

    /// A protected booking that was canceled and decided. Each of its events has the maximum number of deliveries, all
    /// given up and accepted later.
    pub fn crowded(&mut self) -> Packet {
        let which = self.kept.len();
        let zone = Some("America/New_York");
        self.create(26, Some("firm"), "2026-06-20T19:00:00-04:00", zone);
        self.told_to_all(which, RecordedEventType::BookingCreated);
        self.protect(which);
        self.told_to_all(which, RecordedEventType::BookingProtected);
        self.cancel(which, Actor::Organizer, Some(Reason::ForceMajeure));
        self.told_to_all(which, RecordedEventType::ResolutionCreated);
        self.decide(which, "200.25");
        self.told_to_all(which, RecordedEventType::ResolutionCreated);
        self.packet(&self.kept[which])
    }

    fn told_to_all(&mut self, which: usize, event_type: RecordedEventType) {
        for endpoint in 0..u8::try_from(DELIVERIES_PER_EVENT).unwrap() {
            let errors = [Some("payload_too_large"); ATTEMPTS_SHOWN as usize - 1];
            for error in errors {
                self.kept[which].attempt(event_type, endpoint, error);
            }
            self.settle(which);
            self.kept[which].attempt(event_type, endpoint, None);
            self.settle(which);
        }
    }

    /// Records the end of the delivery that was attempted last.
    pub fn settle(&mut self, which: usize) {
        let mut kept = self.kept.remove(which);
        let mut events: Vec<EventId> = kept.deliveries.iter().map(|d| d.event_id).collect();
        events.dedup();
        let delivery = kept.deliveries.last_mut().unwrap();
        let last = delivery.history.last().unwrap();
        let now = last.started_at.plus_ms(250);
        let notification = Notification {
            event_id: delivery.event_id,
            event_type: delivery.event_type,
            seq: events.len() as u64,
            body_sha256: hex::encode(Sha256::digest(delivery.event_id.as_bytes())),
            endpoint_id: delivery.endpoint_id.unwrap(),
            outcome: match last.error {
                None => NotificationOutcome::Delivered,
                Some(_) => NotificationOutcome::GivenUp,
            },
            settled_at: now,
            attempts: delivery.attempts,
            error: last.error.clone(),
            status_code: last.status_code,
            response_sha256: last
                .status_code
                .map(|_| hex::encode(Sha256::digest("fine"))),
        };
        delivery.recorded.push(notification.clone());
        self.append(&mut kept, now, NotificationFact { notification });
        self.kept.insert(which, kept);
    }

    pub fn reschedule(&mut self, which: usize, now: &str, date: &str, zone: Option<&str>) {
        self.reschedule_as(which, now, date, zone, true);
    }

    /// Moves an event. If `is_stated`, it was agreed on half an hour before.
    pub fn reschedule_as(
        &mut self,
        which: usize,
        now: &str,
        date: &str,
        zone: Option<&str>,
        is_stated: bool,
    ) {
        let mut kept = self.kept.remove(which);
        let agreed_at = at(now);
        let now = agreed_at.plus_ms(if is_stated { 30 * 60_000 } else { 0 });
        let zone = zone
            .map(str::to_owned)
            .or(kept.state.booking.time_zone.clone());
        let date = EventDate::parse(date).unwrap();
        let mut terms = kept.terms.rescheduled(date, zone.as_deref()).unwrap();
        let told = policy::disclose(&kept.terms, &kept.state.moves).unwrap();
        kept.told.push(told);
        let mut reschedule = PastReschedule::of(&kept.terms, &kept.state.moves, agreed_at);
        match self.lie {
            Some(Lie::Reached(sum)) => reschedule.reached = sum,
            Some(Lie::Moved) => terms.schedule[0].to = terms.schedule[0].to.plus_ms(86_400_000),
            _ => {}
        }
        let fact = RescheduleFact {
            rescheduled_at: now,
            event_date: terms.anchor,
            time_zone: zone,
            agreed_by: vec![Actor::Organizer, Actor::Talent],
            at: is_stated.then_some(agreed_at),
            former: reschedule,
            terms: FrozenTerms::of(&terms),
        };
        kept.former.push(FrozenTerms::of(&kept.terms));
        kept.terms = terms;
        self.append(&mut kept, now, fact);
        self.kept.insert(which, kept);
    }

    pub fn accept(&mut self, which: usize, now: &str, party: Actor, ip: Option<&str>) {
        let mut kept = self.kept.remove(which);
        let now = at(now);
        let mut told = policy::disclose(&kept.terms, &kept.state.moves).unwrap();
        if let (Some(Lie::Text), Actor::Talent) = (self.lie, party) {
            told = kept.told[0].clone();
        }
        let acceptance = Acceptance {
            booking_id: kept.state.booking.booking_id,
            accepted_at: now,
            party,
            method: "checkbox".to_owned(),
            at: now.plus_ms(-1_500),
            ip: ip.map(str::to_owned),
            user_agent: ip.map(|_| "Browser/1.0".to_owned()),
            disclosure_hash: told.disclosure_hash,
            disclosure_version: told.version,
        };
        self.append(&mut kept, now, acceptance);
        self.kept.insert(which, kept);
    }

    /// Adds an evidence item. `change` fills in what only some items have.
    pub fn add(
        &mut self,
        which: usize,
        now: &str,
        (kind, title): (ItemKind, &str),
        change: impl FnOnce(&mut EvidenceItem),
    ) {
        let mut kept = self.kept.remove(which);
        let now = at(now);
        let mut item = EvidenceItem {
            item_id: ItemId::new(now, [kept.entries.len() as u8; 10]),
            booking_id: kept.state.booking.booking_id,
            added_at: now,
            kind,
            title: title.to_owned(),
            at: None,
            party: None,
            amount: None,
            reference: None,
            note: None,
            sha256: None,
        };
        change(&mut item);
        self.append(&mut kept, now, item);
        self.kept.insert(which, kept);
    }

    /// Erases values.
    pub fn erase(
        &mut self,
        which: usize,
        now: &str,
        (legal_basis, request_ref): (LegalBasis, Option<&str>),
        values: Vec<ErasedValues>,
    ) {
        let mut kept = self.kept.remove(which);
        let now = at(now);
        let erasure = Erasure {
            booking_id: kept.state.booking.booking_id,
            erased_at: now,
            legal_basis,
            request_ref: request_ref.map(str::to_owned),
            values,
        };
        for one in &erasure.values {
            let entry = &mut kept.entries[one.entry as usize];
            let is_left = |d: &Disclosure| one.names.iter().all(|name| name.word() != d.name);
            entry.opened.disclosures.retain(is_left);
            let mut shown = members(&entry.opened.disclosures);
            stand_in(one.names.iter().map(|name| name.word()), &mut shown);
            entry.logged.fact = Fact::read(entry.logged.fact.kind(), shown).unwrap();
        }
        self.append(&mut kept, now, erasure);
        self.kept.insert(which, kept);
    }

    pub fn cancel(&mut self, which: usize, canceled_by: Actor, reason: Option<Reason>) {
        let mut kept = self.kept.remove(which);
        let now = at("2026-05-25T08:00:00.750Z");
        let booking = &kept.state.booking;
        let mut cancellation = Cancellation {
            booking_id: booking.booking_id,
            canceled_at: now,
            canceled_by,
            reason,
            note: Some("fever of 39 °C".to_owned()),
            effective_at: Some(now.plus_ms(-60_000)),
            agreed_refund: (canceled_by == Actor::Mutual)
                .then(|| Amount::parse("100.25", Currency::USD).unwrap()),
            evidence_count: None,
            evidence: match reason {
                Some(Reason::ForceMajeure) => Vec::new(),
                _ => vec![NamedDocument {
                    kind: "notice".to_owned(),
                    name: Some("mail.eml".to_owned()),
                    media_type: None,
                    sha256: format!("sha256:{}", "0".repeat(64)),
                }],
            },
        };
        if self.erasable && !cancellation.evidence.is_empty() {
            cancellation.evidence_count = Some(1);
        }
        let subject = kept.state.subject(&kept.terms, None);
        let evaluate = match self.wording {
            Wording::First => policy::evaluate_as_first,
            Wording::Second => policy::evaluate,
        };
        let mut evaluation = evaluate(&subject, &cancellation.question()).unwrap();
        match self.lie {
            Some(Lie::Refund(refund)) if evaluation.refund.is_some() => {
                evaluation.refund = Some(refund);
            }
            Some(Lie::Evidence) if cancellation.evidence.is_empty() => {
                cancellation.evidence.push(NamedDocument {
                    kind: "photo".to_owned(),
                    name: None,
                    media_type: None,
                    sha256: format!("sha256:{}", "1".repeat(64)),
                });
            }
            _ => {}
        }
        let resolution_id = ResolutionId::new(now, [which as u8; 10]);
        let (partner_id, protected) = (booking.partner_id, booking.protected);
        let resolution = Resolution::of(
            &cancellation,
            evaluation,
            partner_id,
            resolution_id,
            protected,
        );
        self.append(&mut kept, now, cancellation);
        let fact = match self.erasable {
            true => ResolutionFact::of(resolution),
            false => ResolutionFact::with_words_within(resolution),
        };
        self.append(&mut kept, now, fact);
        self.kept.insert(which, kept);
    }

    pub fn decide(&mut self, which: usize, refund: &str) {
        let mut kept = self.kept.remove(which);
        let now = at("2026-05-27T10:00:00Z");
        let decision = ResolutionDecision {
            refund: Amount::parse(refund, Currency::USD).unwrap(),
            decided_by: "disputes".to_owned(),
            rationale: "The storm was local.".to_owned(),
            decided_at: now,
        };
        let pending = kept.state.resolution().unwrap();
        let id = ResolutionId::new(now, [99; 10]);
        let mut resolution = pending.decided(decision, id, &kept.terms).unwrap();
        if let Some(Lie::Decision(refund)) = self.lie {
            resolution.evaluation.refund = Some(refund);
            resolution.summary = resolution.evaluation.summary();
        }
        let fact = match self.erasable {
            true => ResolutionFact::of(resolution),
            false => ResolutionFact::with_words_within(resolution),
        };
        self.append(&mut kept, now, fact);
        self.kept.insert(which, kept);
    }

    fn append(&mut self, kept: &mut LoggedBooking, now: Timestamp, fact: impl Into<Fact>) {
        let fact = fact.into();
        let index = self.tree.size();
        let sealed = fact.seal(Sha256::digest([index as u8]).into()).unwrap();
        let members = serde_json::from_str(&sealed.members).unwrap();
        let opened = Opened::of(fact.kind(), members, &sealed.seed);
        let prev = kept
            .entries
            .last()
            .map_or(Hash::ZERO, |entry| leaf_hash(&entry.leaf));
        let seq = kept.entries.len() as u64;
        // Like the service: no entry has an earlier time than the one before it.
        let before = kept.entries.last().map(|entry| entry.logged.place.at);
        let now = before.map_or(now, |before| now.max(before));
        let leaf = Leaf {
            commit: sealed.commit,
            prev,
            seq,
            stream: kept.stream,
            t: now.ms(),
        }
        .encode()
        .unwrap();
        let place = LeafPlace {
            index,
            hash: leaf_hash(&leaf),
            at: now,
        };
        self.log_bytes(&leaf);
        let logged = Logged { place, fact };
        // The facts of an honest service form a booking; those of a liar are left to the verifier.
        let applied = match logged.fact {
            Fact::BookingCreated(_) => Ok(()),
            _ => kept.state.apply(logged.clone()),
        };
        assert!(applied.is_ok() || self.lie.is_some(), "{applied:?}");
        kept.entries.push(Entry {
            index,
            leaf,
            opened,
            logged,
        });
    }

    fn proof(&self, index: u64, size: u64) -> String {
        let read = |level, index| Ok::<_, ()>(self.tiles.get(&(level, index)).cloned());
        let path = prove_inclusion(index, size, read).unwrap();
        let checkpoint = Checkpoint::sign(&self.signer, size, self.roots[size as usize - 1]);
        TlogProof {
            extra: None,
            index,
            path,
            checkpoint,
        }
        .to_string()
    }

    fn packet(&self, kept: &LoggedBooking) -> Packet {
        self.packet_without(kept, &[])
    }

    fn packet_without(&self, kept: &LoggedBooking, withheld: &[Withheld]) -> Packet {
        let is_shown = |d: &&Disclosure| !withheld.iter().any(|name| name.word() == d.name);
        let entries = kept.entries.iter().map(|entry| PacketEntry {
            leaf: STANDARD.encode(&entry.leaf),
            body: entry.opened.body.clone(),
            salt: URL_SAFE_NO_PAD.encode(entry.opened.salt),
            disclosures: (entry.opened.disclosures.iter().filter(is_shown).cloned()).collect(),
            proof: self.proof(entry.index, self.size()),
        });
        let mut facts: Vec<_> = (kept.entries.iter())
            .map(|entry| entry.logged.clone())
            .collect();
        for logged in &mut facts {
            withhold(&mut logged.fact, withheld);
        }
        let shown = |facts: &[Logged<Fact>]| {
            BookingState::fold(facts.iter().cloned(), kept.state.booking.policy.clone())
        };
        // The facts of a liar do not form a booking.
        let state = shown(&facts).unwrap_or_else(|_| kept.state.clone());
        let latest = kept.entries.iter().map(|entry| entry.logged.place.at).max();
        let created_at = at("2026-06-01T12:00:00.500Z").max(latest.unwrap());
        let booking = &state.booking;
        let resolution = state.resolution();
        let evaluation = evaluate(&kept.state, &kept.terms, created_at);
        let mut deliveries = kept.deliveries.clone();
        let told = |kind| {
            deliveries
                .iter()
                .any(|d: &PacketDelivery| d.event_type == kind)
        };
        if booking.protected && !told(RecordedEventType::BookingProtected) {
            deliveries.push(PacketDelivery {
                event_id: kept.event_id(RecordedEventType::BookingProtected),
                event_type: RecordedEventType::BookingProtected,
                endpoint_id: None,
                url: None,
                status: DeliveryStatus::NoEndpoints,
                attempts: 0,
                recorded: Vec::new(),
                history: Vec::new(),
            });
        }
        let summary = summarize(&SummaryInput {
            wording: self.wording,
            created_at,
            partner_name: "Stage & Co",
            booking,
            terms: &FrozenTerms::of(&kept.terms),
            policy: kept.terms.policy.as_ref().map(|policy| &policy.document),
            offsets: &[],
            facts: &facts,
            evaluation: evaluation.as_ref(),
            resolution,
            deliveries: &deliveries,
            withheld,
        });
        Packet {
            packet_type: PACKET_TYPE.to_owned(),
            created_at,
            booking: booking.clone(),
            partner_name: "Stage & Co".to_owned(),
            stream: URL_SAFE_NO_PAD.encode(kept.stream),
            log: LogHint {
                origin: self.signer.name().to_owned(),
                vkey: self.vkey(),
            },
            entries: entries.collect(),
            policy: kept
                .terms
                .policy
                .as_ref()
                .map(|policy| policy.document.clone()),
            policy_hash: kept.terms.policy_hash().map(str::to_owned),
            terms: FrozenTerms::of(&kept.terms),
            former_terms: kept.former.clone(),
            terms_disclosures: (kept.told.iter().cloned())
                .chain([policy::disclose(&kept.terms, &kept.state.moves).unwrap()])
                .collect(),
            acceptances: (state.acceptances.iter())
                .map(|logged| logged.fact.clone())
                .collect(),
            items: (state.items.iter())
                .map(|logged| logged.fact.clone())
                .collect(),
            evaluation,
            resolution: resolution.cloned(),
            deliveries,
            withheld: withheld.to_vec(),
            summary,
            timestamps: Vec::new(),
            completeness: None,
            signature: String::new(),
        }
    }
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

impl LoggedBooking {
    /// The id of an event of this type, made when the event happened.
    fn event_id(&self, event_type: RecordedEventType) -> EventId {
        let booking = &self.state.booking;
        let made_at = match event_type {
            RecordedEventType::BookingCreated => Some(booking.created_at),
            // An event that is recorded too early was made an hour ago.
            RecordedEventType::BookingProtected => {
                (booking.protected_at).or(Some(booking.created_at))
            }
            RecordedEventType::ResolutionCreated => {
                self.state.resolution().map(Resolution::made_at)
            }
        };
        EventId::new(made_at.unwrap(), [event_type as u8 + 4; 10])
    }

    /// The delivery that is under way if it is of this event and endpoint, or else a new one.
    fn delivery(&mut self, event_type: RecordedEventType, endpoint: u8) -> &mut PacketDelivery {
        let event_id = self.event_id(event_type);
        let endpoint_id = EndpointId::new(self.state.booking.created_at, [endpoint; 10]);
        let under_way = self.deliveries.last();
        let under_way = under_way.map(|last| (last.event_id, last.endpoint_id));
        if under_way != Some((event_id, Some(endpoint_id))) {
            self.deliveries.push(PacketDelivery {
                event_id,
                event_type,
                endpoint_id: Some(endpoint_id),
                url: Some("https://example.com".to_owned()),
                status: DeliveryStatus::Pending,
                attempts: 0,
                recorded: Vec::new(),
                history: Vec::new(),
            });
        }
        self.deliveries.last_mut().unwrap()
    }

    /// One more attempt to deliver an event to an endpoint, minutes after it happened.
    fn attempt(&mut self, event_type: RecordedEventType, endpoint: u8, error: Option<&str>) {
        let delivery = self.delivery(event_type, endpoint);
        let minutes = i64::from(delivery.attempts);
        delivery.attempts += 1;
        delivery.status = match error {
            None => DeliveryStatus::Delivered,
            Some(_) => DeliveryStatus::Failed,
        };
        delivery.history.push(PacketAttempt {
            started_at: (delivery.event_id.made_at()).plus_ms(minutes * 60_000),
            status_code: match error {
                None => Some(204),
                Some("payload_too_large") => Some(413),
                Some(_) => None,
            },
            error: error.map(str::to_owned),
        });
        let more = delivery
            .history
            .len()
            .saturating_sub(ATTEMPTS_SHOWN as usize);
        delivery.history.drain(..more);
    }
}
