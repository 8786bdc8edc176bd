//! Packets with time-stamps: good ones, and those that somebody with the ledger key could forge.

use bookguard_test_authority::{Authority, Chain};
use bookguard_time::Roots;

use super::fixture::{Fixture, Stamped};
use super::text;
use crate::evidence::packet::{Packet, PacketTimestamp};
use crate::evidence::{Report, TimestampTrust, Trust, verify, verify_with};
use crate::model::Timestamp;

const YEAR: i64 = 365 * 24 * 3600 * 1000;

fn first_time() -> Timestamp {
    Timestamp::parse("2026-07-01T12:00:00Z").unwrap()
}

/// A log, stamped after its last booking, half a year later by another authority, and once more.
struct World {
    fixture: Fixture,
    roots: Roots,
    stamps: [Stamped; 3],
    packet: Packet,
}

impl World {
    fn new() -> Self {
        let until = |years: i64| Chain {
            valid: (
                first_time().ms() - YEAR / 12,
                first_time().ms() + years * YEAR,
            ),
            ..Chain::default()
        };
        let (short, long) = (Authority::new(&until(1)), Authority::new(&until(15)));
        let pem = short.root_pem() + &long.root_pem();
        let mut fixture = Fixture::new();
        let first = fixture.stamp(&short, first_time());
        fixture.other_work();
        let second = fixture.stamp(&long, first_time().plus_ms(YEAR / 2));
        let third = fixture.stamp(&long, first_time().plus_ms(2 * YEAR));
        let packet = fixture.canceled();
        Self {
            packet,
            fixture,
            roots: Roots::from_pem(pem.as_bytes()).unwrap(),
            stamps: [first, second, third],
        }
    }

    fn shown(&self, which: &[usize]) -> Vec<PacketTimestamp> {
        let stamps: Vec<&Stamped> = which.iter().map(|at| &self.stamps[*at]).collect();
        self.fixture.stamps(&stamps)
    }

    fn with(&self, timestamps: Vec<PacketTimestamp>) -> String {
        let packet = Packet {
            timestamps,
            ..self.packet.clone()
        };
        text(&packet, &self.fixture.signer)
    }

    fn judged(&self, text: &str, years: i64) -> Report {
        let at = first_time().plus_ms(years * YEAR);
        let roots = &self.roots;
        let trust = Trust {
            timestamps: Some(TimestampTrust { roots, at }),
            ..Trust::default()
        };
        verify_with(text.as_bytes(), &self.fixture.vkey(), trust).0
    }
}

#[test]
fn a_stamp_says_when_and_its_renewal_for_how_long_it_is_known() {
    let world = World::new();
    for (which, years, good) in [
        (&[0][..], 0, true),
        (&[0], 2, false),
        (&[0, 1], 10, true),
        (&[0, 1], 16, false),
        (&[1], 10, true),
        // The second renewal came when the first stamp's certificate had expired.
        (&[0, 2], 10, false),
        (&[0, 1, 2], 10, true),
        (&[], 10, true),
    ] {
        let text = world.with(world.shown(which));
        let report = world.judged(&text, years);
        assert_eq!(report.verified(), good, "{which:?} {years}: {report}");
        let time = which.first().filter(|_| good).map(|first| match first {
            0 => first_time(),
            _ => first_time().plus_ms(YEAR / 2),
        });
        assert_eq!(report.timestamp.as_ref().map(|stamp| stamp.at), time);
        assert_eq!(
            which.is_empty(),
            report.to_string().contains("Not yet time-stamped")
        );
        let untrusting = verify(text.as_bytes(), &world.fixture.vkey());
        assert!(untrusting.verified() && untrusting.timestamp.is_none());
    }
}

#[test]
fn whoever_has_the_ledgers_key_cannot_forge_a_stamp() {
    let world = World::new();
    let good = world.shown(&[0, 1]);
    let other = Fixture::named("example.org/log");
    type Forgery = fn(&mut Vec<PacketTimestamp>, &World, &Fixture);
    #[rustfmt::skip]
    let forgeries: [(&str, Forgery); 12] = [
        ("another response", |stamps, world, _| { stamps[0].response = world.shown(&[2])[0].response.clone(); }),
        ("no response", |stamps, _, _| { stamps[0].response = String::new() }),
        ("another checkpoint", |stamps, world, _| { stamps[0].checkpoint = world.shown(&[2])[0].checkpoint.clone(); }),
        ("the checkpoint of another log", |stamps, _, other| { stamps[0].checkpoint = other.checkpoint(); }),
        ("a hash less", |stamps, _, _| { drop(stamps[0].consistency.pop()) }),
        ("a hash more", |stamps, _, _| {
            let hash = stamps[0].consistency[0].clone();
            stamps[0].consistency.push(hash);
        }),
        ("no hash", |stamps, _, _| { stamps[0].consistency[0] = "x".to_owned() }),
        ("no anchor", |stamps, _, _| stamps[0].anchor = None),
        ("an anchor too many", |stamps, _, _| { stamps[1].anchor = stamps[0].anchor.clone(); }),
        ("the anchor of another", |stamps, world, _| { stamps[0].anchor = world.shown(&[1, 2])[0].anchor.clone(); }),
        ("a record of a booking as an anchor", |stamps, world, _| { stamps[0].anchor = Some(world.packet.entries[0].clone()); }),
        ("the wrong order", |stamps, _, _| stamps.reverse()),
    ];
    for (what, forge) in forgeries {
        let mut stamps = good.clone();
        forge(&mut stamps, &world, &other);
        let text = world.with(stamps);
        for report in [
            world.judged(&text, 0),
            verify(text.as_bytes(), &world.fixture.vkey()),
        ] {
            let failed: Vec<_> = report.failures().map(|check| check.name).collect();
            assert_eq!(failed, ["timestamps"], "{what}: {report}");
            assert_eq!(report.timestamp, None);
        }
    }
    // Nine stamps, and a list of none.
    let many = vec![good[1].clone(); 9];
    assert!(!world.judged(&world.with(many), 0).verified());
    let empty = world
        .with(Vec::new())
        .replacen("\"type\":", "\"timestamps\":[],\"type\":", 1);
    assert!(!world.judged(&empty, 0).verified());
}

#[test]
fn a_stamp_covers_what_was_logged_before_it() {
    let authority = Authority::new(&Chain::default());
    let mut fixture = Fixture::new();
    let early = fixture.stamp(&authority, first_time());
    fixture.protect_at(2, first_time().plus_ms(1_000));
    let signer_key = fixture.vkey();
    let packet = fixture.bare();
    let stamped = Packet {
        timestamps: fixture.stamps(&[&early]),
        ..packet
    };
    let report = verify(text(&stamped, &fixture.signer).as_bytes(), &signer_key);
    assert!(report.verified(), "{report}");
    let said = report.to_string();
    assert!(said.contains("the first 1 of 2 entries existed"), "{said}");
    // A booking that was made after it is not covered at all.
    fixture.other_work();
    let later = Packet {
        timestamps: fixture.stamps(&[&early]),
        ..fixture.latest()
    };
    let report = verify(text(&later, &fixture.signer).as_bytes(), &signer_key);
    assert!(!report.verified(), "{report}");
    assert!(
        report.to_string().contains("older than every entry"),
        "{report}"
    );
}
