//! The packets of `tests/vectors/packets`: genuine ones, and ones that must be refused, each with its reason.
//!
//! They are judged by every verifier: this crate's here, those of `docs/verifiers` by the tests of the workspace. The test
//! compares the files with what it makes; with `UPDATE=1` it writes them. What the ledger's holder could forge is signed
//! with the ledger key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::fixture::Fixture;
use super::{failures, text};
use crate::evidence::{Packet, TimestampRoots, TimestampTrust, Trust, Withheld, verify_with};
use crate::ledger::jcs;
use crate::model::{Amount, Currency, RecordedEventType, Timestamp};
use crate::policy::{Actor, Reason};

mod deliveries;
mod disclosed;
mod erased;
mod forged;
mod items;
mod logged;
mod mapped;
mod relog;
mod spelled;
mod stamped;
mod worded;

/// What the good packet with withheld values withholds: everything that can be.
const WITHHELD: &[Withheld] = &[
    Withheld::Ip,
    Withheld::Metadata,
    Withheld::Note,
    Withheld::Organizer,
    Withheld::Talent,
    Withheld::UserAgent,
];

/// What it takes to notice a fault.
#[derive(Debug, Clone, Copy)]
enum Noticed {
    /// The packet's own structure: signatures, proofs, digests, and members that must be equal.
    Structure,
    /// Recomputing deadlines, amounts or evaluations from the policy.
    Policy,
    /// Recomputing the sentences.
    Wording,
    /// Following time-stamps into the log, and reading them.
    Timestamp,
}

impl Noticed {
    fn word(self) -> &'static str {
        match self {
            Self::Structure => "structure",
            Self::Policy => "policy",
            Self::Wording => "wording",
            Self::Timestamp => "timestamp",
        }
    }
}

/// A packet that must be refused.
struct Bad {
    name: String,
    why: String,
    noticed: Noticed,
    /// The first check that fails.
    check: &'static str,
    bytes: Vec<u8>,
}

impl Bad {
    fn of(name: &str, why: &str, noticed: Noticed, check: &'static str, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            why: why.to_owned(),
            noticed,
            check,
            bytes,
        }
    }
}

/// The ledger of the vectors, and its genuine packets.
struct World {
    fixture: Fixture,
    good: BTreeMap<&'static str, Value>,
    maps: mapped::Maps,
}

impl Fixture {
    /// Records booking `n`, at the place `which`, and moves it. Its policy leaves to a person what a cancellation costs.
    fn moved_case_by_case(&mut self, which: usize, n: u8) {
        let usd = Amount::parse("950", Currency::USD).unwrap();
        let (date, zone) = ("2026-06-20T19:00:00-04:00", Some("America/New_York"));
        self.record(n, Some("case_by_case"), date, zone, usd, |_| {});
        self.reschedule(which, "2026-03-01T00:00:00Z", "2026-09-20T19:00", None);
    }
}

impl World {
    fn new() -> Self {
        let mut fixture = Fixture::new();
        let zone = Some("America/New_York");
        let usd = Amount::parse("950", Currency::USD).unwrap();
        let sum = |text, code| Amount::parse(text, Currency::parse(code).unwrap()).unwrap();
        let date = "2026-06-20T19:00:00-04:00";
        fixture.record(30, Some("firm"), date, zone, usd, |_| {});
        fixture.accept(
            13,
            "2026-02-01T10:00:00Z",
            Actor::Organizer,
            Some("2001:db8::7"),
        );
        fixture.accept(13, "2026-02-02T10:00:00Z", Actor::Talent, None);
        fixture.protect_at(13, Timestamp::parse("2026-02-03T10:00:00Z").unwrap());
        fixture.record(31, Some("firm"), date, zone, usd, |_| {});
        fixture.reschedule(14, "2026-03-01T00:00:00Z", "2026-09-20T19:00", None);
        for (which, n, value) in [
            (15, 32, sum("333333", "JPY")),
            (16, 33, sum("1234.567", "KWD")),
        ] {
            fixture.record(n, Some("firm"), date, zone, value, |_| {});
            fixture.cancel(which, Actor::Organizer, Some(Reason::Illness));
        }
        fixture.record(34, Some("flexible"), date, zone, usd, |booking| {
            booking.talent.name = "村上ジャズ・トリオ 🎷".to_owned();
            booking.organizer.name = "مهرجان النجوم".to_owned();
            booking.event_type = "mariage à l’étranger".to_owned();
            // By code point the second comes before the third, by UTF-16 code unit it comes after.
            let members = [
                ("path/\"a\\b\"", "tab\tline\n\u{7f}"),
                ("\u{fb01}", "ligature"),
                ("\u{1f600}", "emoji"),
            ];
            booking.metadata = members
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        });
        fixture.attempt(17, RecordedEventType::BookingCreated, None);
        fixture.settle(17);
        fixture.with_items(18, 35);
        fixture.record(36, None, date, zone, usd, |_| {});
        fixture.queue(19, RecordedEventType::BookingCreated);
        fixture.record(37, None, date, zone, usd, |_| {});
        for attempt in 1..=23 {
            let error = match attempt {
                12 => Some("payload_too_large"),
                23 => None,
                _ => Some("timeout"),
            };
            fixture.attempt(20, RecordedEventType::BookingCreated, error);
            if error != Some("timeout") {
                fixture.settle(20);
            }
        }
        fixture.record(38, None, date, zone, usd, |_| {});
        fixture.reschedule_as(
            21,
            "2026-03-01T00:00:00.5Z",
            "2026-09-20T19:00",
            None,
            false,
        );
        fixture.record(39, Some("firm"), date, zone, usd, |_| {});
        fixture.cancel(22, Actor::Mutual, None);
        fixture.moved_case_by_case(23, 40);
        fixture.record(41, None, date, zone, usd, |_| {});
        fixture.protect_at(24, fixture.packet_at(24).booking.created_at);
        fixture.attempt(24, RecordedEventType::BookingCreated, None);
        fixture.settle(24);
        fixture.attempt(24, RecordedEventType::BookingProtected, Some("timeout"));
        #[rustfmt::skip]
        let packets = [
            ("created", fixture.recorded()),
            ("created-without-policy", fixture.bare()),
            ("protected", fixture.protected()),
            ("accepted", fixture.packet_at(13)),
            ("moved-once", fixture.packet_at(14)),
            ("moved-twice-accepted-before-and-after", fixture.rescheduled()),
            ("moved-and-canceled", fixture.moved_and_canceled()),
            ("canceled-final", fixture.canceled()),
            ("canceled-pending", fixture.pending()),
            ("canceled-decided", fixture.decided()),
            ("notified", fixture.notified()),
            ("yen", fixture.packet_at(15)),
            ("dinar", fixture.packet_at(16)),
            ("names", fixture.packet_at(17)),
            ("items", fixture.packet_at(18)),
            ("withheld", fixture.packet_at_without(18, WITHHELD)),
            ("delivery-pending", fixture.packet_at(19)),
            ("delivery-of-23-attempts", fixture.packet_at(20)),
            ("moved-without-policy", fixture.packet_at(21)),
            ("canceled-by-agreement", fixture.packet_at(22)),
            ("moved-case-by-case", fixture.packet_at(23)),
            ("events-of-one-moment", fixture.packet_at(24)),
            ("timestamped", Packet { timestamps: vec![stamped::stamp(&fixture)], ..fixture.protected() }),
            ("timestamped-by-pss", Packet { timestamps: vec![stamped::stamp_by_pss(&fixture)], ..fixture.protected() }),
            ("stamped-under-another-purpose",
                Packet { timestamps: vec![stamped::stamp_by_limited(&fixture)], ..fixture.protected() }),
            ("renewed", stamped::renewed()),
        ];
        let erased = erased::packets();
        let parsed = |packet| jcs::parse(&text(packet, &fixture.signer)).unwrap();
        let worded = worded::packets();
        let disclosed = disclosed::packets();
        let mut good: BTreeMap<_, _> = (packets
            .iter()
            .chain(&erased)
            .chain(&worded)
            .chain(&disclosed))
        .map(|(name, packet)| (*name, parsed(packet)))
        .collect();
        let maps = mapped::maps(&mut fixture);
        let complete = mapped::good(&fixture, &maps);
        let parsed = |packet| jcs::parse(&text(packet, &fixture.signer)).unwrap();
        good.extend(
            complete
                .iter()
                .map(|(name, packet)| (*name, parsed(packet))),
        );
        Self {
            good,
            fixture,
            maps,
        }
    }

    /// A genuine packet, to be changed.
    fn doc(&self, name: &str) -> Value {
        self.good[name].clone()
    }

    fn text(&self, name: &str) -> String {
        jcs::to_canonical(&self.good[name]).unwrap()
    }
}

/// The value at a pointer.
fn at<'a>(document: &'a mut Value, pointer: &str) -> &'a mut Value {
    document
        .pointer_mut(pointer)
        .unwrap_or_else(|| panic!("no {pointer}"))
}

/// Changes one character of a text, or a number by one.
fn flip(document: &mut Value, pointer: &str) {
    let value = at(document, pointer);
    *value = match &*value {
        Value::String(text) => {
            let place = text.find(|c: char| c.is_ascii_alphanumeric()).unwrap();
            let place = place + text[place..].len() / 2;
            let place = text[place..]
                .find(|c: char| c.is_ascii_alphanumeric())
                .unwrap()
                + place;
            let other = match &text[place..=place] {
                "0" => "1",
                "A" => "B",
                "a" => "b",
                c if c.as_bytes()[0].is_ascii_digit() => "0",
                c if c.as_bytes()[0].is_ascii_uppercase() => "A",
                _ => "a",
            };
            json!([&text[..place], other, &text[place + 1..]].concat())
        }
        Value::Number(number) => match number.as_i64() {
            Some(whole) => json!(whole + 1),
            None => json!(number.as_f64().unwrap() + 1.0),
        },
        Value::Bool(b) => json!(!b),
        other => panic!("{pointer} is {other}"),
    };
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/packets")
}

/// Every file of the folder that is made here.
fn files(world: &World) -> BTreeMap<String, Vec<u8>> {
    let vkey = world.fixture.vkey();
    let mut files = BTreeMap::from([("ledger.vkey".to_owned(), format!("{vkey}\n").into_bytes())]);
    let mut index = Vec::new();
    let written = world
        .good
        .keys()
        .map(|name| (*name, "as the service writes it", world.text(name)));
    let good = written
        .chain(spelled::good(world))
        .chain(forged::good(world));
    for (name, why, text) in good {
        let failed = failures(text.as_bytes(), &vkey);
        assert!(failed.is_empty(), "{name}: {failed:?}");
        let file = format!("good/{name}.json");
        index.push(json!({ "file": file, "verdict": "verified", "why": why }));
        assert!(
            files.insert(file, text.into_bytes()).is_none(),
            "{name} is there twice"
        );
    }
    let bad = forged::bad(world)
        .into_iter()
        .chain(worded::bad(world))
        .chain(disclosed::bad(world))
        .chain(deliveries::bad(world))
        .chain(items::bad(world))
        .chain(erased::bad(world))
        .chain(logged::bad(world))
        .chain(mapped::bad(world))
        .chain(spelled::bad(world))
        .chain(stamped::bad(world));
    let mut wrong = Vec::new();
    for Bad {
        name,
        why,
        noticed,
        check,
        bytes,
    } in bad
    {
        let failed = failures(&bytes, &vkey);
        if failed.first() != Some(&check) {
            wrong.push(format!("{name}: {failed:?}, not {check}"));
        }
        let file = format!("bad/{name}.json");
        index.push(json!({
            "file": file, "verdict": "not verified", "why": why, "noticedBy": noticed.word(), "check": check,
        }));
        assert!(files.insert(file, bytes).is_none(), "{name} is there twice");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let lines: Vec<String> = index.iter().map(|vector| format!("    {vector}")).collect();
    let index = format!(
        "{{\n  \"key\": \"ledger.vkey\",\n  \"vectors\": [\n{}\n  ]\n}}\n",
        lines.join(",\n")
    );
    files.insert("index.json".to_owned(), index.into_bytes());
    files.insert(
        "witness-policy.txt".to_owned(),
        forged::policy().into_bytes(),
    );
    for name in stamped::RESPONSES.into_iter().chain(stamped::ROOTS) {
        let kept = std::fs::read(folder().join(name)).unwrap();
        files.insert(name.to_owned(), kept);
    }
    files
}

#[test]
fn packet_vectors_are_what_the_index_says_and_what_is_made_here() {
    let made = files(&World::new());
    let folder = folder();
    if std::env::var_os("UPDATE").is_some() {
        for part in ["good", "bad"] {
            let _ = std::fs::remove_dir_all(folder.join(part));
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        for (name, bytes) in &made {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in &made {
        let stored = std::fs::read(folder.join(name)).unwrap_or_default();
        assert!(
            stored == *bytes,
            "tests/vectors/packets/{name} is not what is made now; if the format was to change, run this test with UPDATE=1"
        );
    }
    for part in ["good", "bad"] {
        for file in std::fs::read_dir(folder.join(part)).unwrap() {
            let name = format!("{part}/{}", file.unwrap().file_name().display());
            assert!(
                made.contains_key(&name),
                "tests/vectors/packets/{name} is not made any more"
            );
        }
    }
    assert!(made.values().map(Vec::len).sum::<usize>() < 6_900_000);
}

#[test]
fn the_stamped_vectors_say_when_to_whoever_trusts_their_authorities() {
    let read = |name: &str| std::fs::read(folder().join(name)).unwrap();
    let roots = stamped::ROOTS.map(|name| TimestampRoots::from_pem(&read(name)).unwrap());
    let vkey = String::from_utf8(read("ledger.vkey")).unwrap();
    let judged = |name: &str, days: i64, roots: &TimestampRoots| {
        let trust = TimestampTrust {
            roots,
            at: stamped::time().plus_ms(days * 24 * 3600 * 1000),
        };
        let trust = Trust {
            timestamps: Some(trust),
            ..Trust::default()
        };
        let packet = read(&format!("good/{name}.json"));
        verify_with(&packet, &vkey, trust).0
    };
    // The certificate of the renewed one has expired by then.
    for (name, days, roots) in [
        ("timestamped", 0, &roots[0]),
        ("timestamped-by-pss", 0, &roots[1]),
        ("renewed", 30, &roots[0]),
        ("renewed", 3000, &roots[0]),
    ] {
        let report = judged(name, days, roots);
        assert!(report.verified(), "{report}");
        let stamp = report.timestamp.unwrap();
        assert_eq!((stamp.at, stamp.entries), (stamped::time(), 2));
    }
    // Its root lets the authority below it vouch for mail alone.
    let report = judged("stamped-under-another-purpose", 0, &roots[2]);
    let failed: Vec<_> = report.failures().map(|check| check.name).collect();
    assert_eq!(failed, ["timestamps"], "{report}");
    let said = report.to_string();
    assert!(said.contains("do not lead to a trusted root"), "{said}");
}
