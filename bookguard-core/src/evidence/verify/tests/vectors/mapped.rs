//! Packets that show that they are complete, and what must be refused of that: above all a packet without its last entry, whoever
//! signs it and whichever map goes with it.

use serde_json::{Value, json};

use super::super::fixture::{Fixture, MapLie, MappedLog};
use super::super::text;
use super::forged::{Forgery, signed};
use super::{Bad, Noticed, World, at};
use crate::evidence::{Packet, Withheld};
use crate::ledger::map::{MapValue, bit_of, key_of, map_leaf, map_node};
use crate::ledger::{Hash, LeafKind, jcs};

/// What was mapped, in the order of the log.
pub struct Maps {
    /// Before the last entry of the packet that hides one.
    early: MappedLog,
    /// Of everything before it, and true. Whatever is proven here is proven against it, unless it says otherwise.
    pub honest: MappedLog,
    /// With an entry less for every stream that has more than one.
    short: MappedLog,
    elsewhere: MappedLog,
    of_another_kind: MappedLog,
    ahead: MappedLog,
    written_early: MappedLog,
    written_late: MappedLog,
    /// A value twice, once in each half of the map.
    twice: MappedLog,
    /// The honest packet of the booking that hides an entry.
    unhidden: Packet,
}

/// Maps the log, honestly and otherwise. One booking is protected in between: its packets hide that.
pub fn maps(fixture: &mut Fixture) -> Maps {
    let hides = fixture.hidden();
    let size = fixture.size() as usize;
    let early = fixture.map(size, |_| {});
    fixture.protect_hidden(hides);
    let all = fixture.size() as usize;
    let mut map = |lie: fn(&mut MapLie)| fixture.map(all, lie);
    let honest = map(|_| {});
    let short = map(|map| {
        for value in map.values.values_mut() {
            value.count = (value.count - 1).max(1);
        }
    });
    let elsewhere = map(|map| map.stream = [3; 16]);
    let of_another_kind = map(|map| map.kind = LeafKind::LogAnchored);
    let ahead = map(|map| map.size += 100);
    let written_early = map(|map| map.written = 1_700_000_000_000);
    let written_late = map(|map| map.written += 1);
    let twice = fixture.map_twice(all);
    Maps {
        early,
        honest,
        short,
        elsewhere,
        of_another_kind,
        ahead,
        written_early,
        written_late,
        twice,
        unhidden: fixture.unhidden(),
    }
}

/// The packets that show that they are complete.
pub fn good(fixture: &Fixture, maps: &Maps) -> [(&'static str, Packet); 3] {
    let with = |packet: Packet| Packet {
        completeness: Some(fixture.completeness(&maps.honest, &packet)),
        ..packet
    };
    [
        ("complete", with(fixture.protected())),
        ("complete-canceled", with(fixture.canceled())),
        (
            "complete-withheld",
            with(fixture.packet_at_without(18, &[Withheld::Organizer, Withheld::Talent])),
        ),
    ]
}

fn show(world: &World, document: &mut Value, packet: &Packet, map: &MappedLog) {
    *document = jcs::parse(&text(packet, &world.fixture.signer)).unwrap();
    let shown = world.fixture.completeness(map, packet);
    document["completeness"] = serde_json::to_value(shown).unwrap();
}

fn path(document: &mut Value) -> &mut Vec<Value> {
    at(document, "/completeness/path").as_array_mut().unwrap()
}

#[rustfmt::skip]
const FORGED: &[Forgery] = &[
    ("complete-without-last-entry", "complete", "the last entry is missing, and the map has it", Noticed::Structure, "complete",
        |world, doc| show(world, doc, &world.fixture.latest(), &world.maps.honest)),
    ("complete-by-an-older-map", "complete", "the map was made before the last entry", Noticed::Structure, "complete",
        |world, doc| show(world, doc, &world.maps.unhidden, &world.maps.early)),
    ("complete-by-a-map-that-is-short", "complete", "the map has an entry less", Noticed::Structure, "complete",
        |world, doc| show(world, doc, &world.fixture.protected(), &world.maps.short)),
    ("complete-by-a-map-elsewhere", "complete", "the entry that commits to the map is in another stream than all maps",
        Noticed::Structure, "complete", |world, doc| { show(world, doc, &world.fixture.protected(), &world.maps.elsewhere) }),
    ("complete-by-another-kind", "complete", "the entry is of another kind", Noticed::Structure, "complete",
        |world, doc| { show(world, doc, &world.fixture.protected(), &world.maps.of_another_kind) }),
    ("complete-by-a-map-ahead", "complete", "the map claims to cover entries after itself", Noticed::Structure, "complete",
        |world, doc| show(world, doc, &world.fixture.protected(), &world.maps.ahead)),
    ("complete-by-a-map-that-ends-early", "complete", "the map's last entry is older than the packet's", Noticed::Structure,
        "complete", |world, doc| { show(world, doc, &world.fixture.protected(), &world.maps.written_early) }),
    ("complete-by-a-map-that-ends-late", "complete", "the map's last entry is younger than the map", Noticed::Structure,
        "complete", |world, doc| { show(world, doc, &world.fixture.protected(), &world.maps.written_late) }),
    ("complete-by-the-second-of-two-values", "complete",
        "the map has two values for the stream; this is the one where its key does not lead", Noticed::Structure, "complete",
        |world, doc| {
            show(world, doc, &world.fixture.latest(), &world.maps.twice);
            let (bit, hash) = world.fixture.hidden_twin();
            *at(doc, "/completeness/path") = json!([{ "bit": bit, "hash": hash.to_base64() }]);
        }),
    ("complete-by-a-record", "complete", "a record of the booking stands where the entry belongs that commits to the map",
        Noticed::Structure, "complete", |_, doc| {
        let entry = doc["entries"][0].clone();
        *at(doc, "/completeness/entry") = entry;
    }),
    ("complete-of-another", "complete", "the path is that of another stream", Noticed::Structure, "complete", |world, doc| {
        let other = world.fixture.other();
        let shown = world.fixture.completeness(&world.maps.honest, &other);
        *at(doc, "/completeness/path") = serde_json::to_value(shown.path).unwrap();
    }),
    ("complete-under-another-state", "complete", "the entry that commits to the map is proven under another state of the log",
        Noticed::Structure, "complete", |world, doc| {
        let size = world.fixture.size() - 1;
        let proof = world.fixture.proof_of(&world.maps.honest, size);
        *at(doc, "/completeness/entry/proof") = proof.into();
    }),
    ("complete-with-other-values", "complete", "the entry commits to another number of entries", Noticed::Structure, "complete",
        |_, doc| {
            let value = at(doc, "/completeness/entry/disclosures/1/value");
            *value = json!(value.as_u64().unwrap() + 1);
        }),
    ("complete-without-a-value", "complete", "the entry hides a value that it commits to", Noticed::Structure, "complete",
        |_, doc| {
            let values = at(doc, "/completeness/entry/disclosures");
            values.as_array_mut().unwrap().pop();
        }),
    ("complete-path-without-a-step", "complete", "a step of the path is missing", Noticed::Structure, "complete",
        |_, doc| drop(path(doc).remove(1))),
    ("complete-path-with-a-step-twice", "complete", "a step of the path is there twice", Noticed::Structure, "complete",
        |_, doc| {
            let step = path(doc)[1].clone();
            path(doc).insert(1, step);
        }),
    ("complete-path-from-the-root", "complete", "the path begins at the root", Noticed::Structure, "complete",
        |_, doc| path(doc).reverse()),
    ("complete-path-of-another-bit", "complete", "a step of the path is at another bit, in order", Noticed::Structure, "complete",
        |_, doc| path(doc)[0]["bit"] = 255.into()),
    ("complete-path-of-another-hash", "complete", "a step of the path has another hash", Noticed::Structure, "complete",
        |_, doc| path(doc)[0]["hash"] = path(doc)[1]["hash"].clone()),
    ("complete-path-with-stray-bits", "complete", "a hash is spelled in another way", Noticed::Structure, "complete", |_, doc| {
        let hash = &mut path(doc)[0]["hash"];
        let text = hash.as_str().unwrap().trim_end_matches('=').to_owned();
        *hash = text.into();
    }),
    ("complete-path-beyond-a-key", "complete", "a step of the path is at a bit that keys do not have", Noticed::Structure, "form",
        |_, doc| path(doc)[0]["bit"] = 256.into()),
    ("complete-without-a-path", "complete", "there is no path", Noticed::Structure, "form", |_, doc| {
        let shown = at(doc, "/completeness").as_object_mut().unwrap();
        shown.remove("path");
    }),
    ("complete-by-nothing", "complete", "what shows that it is complete is null", Noticed::Structure, "form",
        |_, doc| doc["completeness"] = Value::Null),
];

pub fn bad(world: &World) -> Vec<Bad> {
    signed(world, FORGED)
}

impl Fixture {
    /// A map with two values for the stream that hides an entry: the true one where its key leads, the other one beside it.
    fn map_twice(&mut self, size: usize) -> MappedLog {
        let (key, values) = self.hidden_values();
        let (bit, _) = self.hidden_twin();
        let [true_leaf, other_leaf] = values.map(|value| map_leaf(&key, &value));
        let (left, right) = match bit_of(&key, bit) {
            false => (true_leaf, other_leaf),
            true => (other_leaf, true_leaf),
        };
        let root = map_node(bit, &key, &left, &right);
        self.map_with_root(size, root)
    }

    /// The key of that stream, and its true and its false value.
    fn hidden_values(&self) -> (Hash, [MapValue; 2]) {
        let (stream, hashes) = self.hidden_chain();
        let value = |count: usize| MapValue {
            count: count as u64,
            head: hashes[count - 1],
        };
        (
            key_of(&stream),
            [value(hashes.len()), value(hashes.len() - 1)],
        )
    }

    /// The step beside the false value: a bit, and the leaf with the true one.
    fn hidden_twin(&self) -> (u8, Hash) {
        let (key, [value, _]) = self.hidden_values();
        (9, map_leaf(&key, &value))
    }
}
