//! A packet with a time-stamp, and what must be refused of it.
//!
//! An authority's signature is random, so its answer is kept as a file beside the packets and made anew only if it is not there.
//! It stays right: what it stamps is made here, the same every time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookguard_test_authority::{Authority, Chain, Issuer, Kind, Shape};
use bookguard_time::Request;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::fixture::Fixture;
use super::forged::{Forgery, signed};
use super::{Bad, Noticed, World, at, folder};
use crate::evidence::packet::{Packet, PacketTimestamp};
use crate::limits::DAY_MS;
use crate::model::Timestamp;

/// What authorities answered.
pub const RESPONSES: [&str; 8] = [
    "timestamp.tsr",
    "renewed.tsr",
    "renewal.tsr",
    "pss.tsr",
    "version.tsr",
    "limited.tsr",
    "fraction.tsr",
    "truth.tsr",
];
/// The roots that vouch for the first three, and for the one after them; and the root of the limited one.
pub const ROOTS: [&str; 3] = ["timestamp-roots.pem", "pss-roots.pem", "limited-roots.pem"];

/// When the first of them answered.
pub fn time() -> Timestamp {
    Timestamp::parse("2026-06-01T12:00:00.000Z").unwrap()
}

/// The stamp of the log as it was two entries ago.
pub fn stamp(fixture: &Fixture) -> PacketTimestamp {
    stamp_by(fixture, RESPONSES[0], &Chain::default())
}

/// A stamp by an authority that signs with RSA and PSS.
pub fn stamp_by_pss(fixture: &Fixture) -> PacketTimestamp {
    let chain = Chain {
        kind: Kind::Pss,
        ..Chain::default()
    };
    stamp_by(fixture, RESPONSES[3], &chain)
}

/// A stamp by an authority whose certificate its root limited to mail.
pub fn stamp_by_limited(fixture: &Fixture) -> PacketTimestamp {
    let right = Chain::default();
    let chain = Chain {
        intermediate: Issuer {
            purposes: vec!["1.3.6.1.5.5.7.3.4"],
            ..right.intermediate
        },
        ..right
    };
    stamp_by(fixture, RESPONSES[5], &chain)
}

/// A stamp that says that it is of version 2.
fn stamp_of_version_2(fixture: &Fixture) -> PacketTimestamp {
    let shape = Shape {
        version: 2,
        ..Shape::default()
    };
    stamp_shaped(fixture, RESPONSES[4], &Chain::default(), &shape)
}

/// A stamp whose time has a zero at the end of its fraction.
fn stamp_of_a_long_fraction(fixture: &Fixture) -> PacketTimestamp {
    let shape = Shape {
        time: Some(b"\x18\x1220260601120000.10Z".to_vec()),
        ..Shape::default()
    };
    stamp_shaped(fixture, RESPONSES[6], &Chain::default(), &shape)
}

/// A stamp with a critical extension whose truth value is 1, where DER has 255.
fn stamp_of_another_truth(fixture: &Fixture) -> PacketTimestamp {
    let shape = Shape {
        critical: true,
        truth: 1,
        ..Shape::default()
    };
    stamp_shaped(fixture, RESPONSES[7], &Chain::default(), &shape)
}

fn stamp_by(fixture: &Fixture, name: &str, chain: &Chain) -> PacketTimestamp {
    stamp_shaped(fixture, name, chain, &Shape::default())
}

fn stamp_shaped(fixture: &Fixture, name: &str, chain: &Chain, shape: &Shape) -> PacketTimestamp {
    let size = fixture.size() - 2;
    let checkpoint = fixture.checkpoint_of(size);
    let text = fixture.signer.verifier().open(&checkpoint).unwrap();
    let imprint = Sha256::digest(text).into();
    let response = shaped(name, imprint, time(), (chain, shape));
    fixture.stamp_of(size, &response)
}

/// A packet with a time-stamp whose certificate was valid for two months, and one that renewed it in time.
pub fn renewed() -> Packet {
    let mut fixture = Fixture::new();
    let short = Chain {
        valid: (time().ms() - DAY_MS, time().ms() + 60 * DAY_MS),
        ..Chain::default()
    };
    let later = time().plus_ms(30 * DAY_MS);
    let first = fixture.stamp_with(time(), |imprint| {
        response(RESPONSES[1], imprint, time(), &short)
    });
    let second = fixture.stamp_with(later, |imprint| {
        response(RESPONSES[2], imprint, later, &Chain::default())
    });
    Packet {
        timestamps: fixture.stamps(&[&first, &second]),
        ..fixture.protected()
    }
}

/// An authority's answer, as it is kept.
fn response(name: &str, imprint: [u8; 32], at: Timestamp, chain: &Chain) -> Vec<u8> {
    shaped(name, imprint, at, (chain, &Shape::default()))
}

fn shaped(
    name: &str,
    imprint: [u8; 32],
    at: Timestamp,
    (chain, shape): (&Chain, &Shape),
) -> Vec<u8> {
    let file = folder().join(name);
    let kept = std::fs::read(&file).unwrap_or_default();
    if kept.windows(imprint.len()).any(|part| part == imprint) {
        return kept;
    }
    assert!(
        std::env::var_os("UPDATE").is_some(),
        "tests/vectors/packets/{name} stamps another checkpoint; run this test with UPDATE=1"
    );
    let authority = Authority::new(chain);
    let request = Request::new(imprint, [5; 8]).to_der();
    let made = authority.shaped(&request, at.ms(), shape);
    std::fs::write(&file, &made).unwrap();
    let place = RESPONSES.iter().position(|known| *known == name).unwrap();
    let roots = match place {
        0..=2 => ROOTS[0],
        3 => ROOTS[1],
        5 => ROOTS[2],
        _ => return made,
    };
    let roots = folder().join(roots);
    let others = std::fs::read_to_string(&roots).unwrap_or_default();
    std::fs::write(&roots, others + &authority.root_pem()).unwrap();
    made
}

/// The response with another last byte, which is one of the signature.
fn flipped(stamp: &mut Value) {
    let text = stamp["response"].as_str().unwrap();
    let mut bytes = STANDARD.decode(text).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    stamp["response"] = STANDARD.encode(bytes).into();
}

#[rustfmt::skip]
const FORGED: &[Forgery] = &[
    ("timestamp-other-signature", "timestamped", "the signature of the time-stamp is another", Noticed::Timestamp, "timestamps",
        |_, packet| flipped(at(packet, "/timestamps/0"))),
    ("timestamp-anchored-under-another-note", "renewed",
        "the checkpoint that proves an anchor has a signature line more than that of the records", Noticed::Structure,
        "timestamps", |_, packet| {
        let proof = at(packet, "/timestamps/0/anchor/proof");
        let line = format!("\u{2014} witness {}\n", STANDARD.encode([0; 68]));
        *proof = json!(proof.as_str().unwrap().to_owned() + &line);
    }),
    ("timestamp-of-another-version", "timestamped", "the time-stamp says that it is of version 2", Noticed::Timestamp,
        "timestamps", |world, packet| {
        let stamp = stamp_of_version_2(&world.fixture);
        *at(packet, "/timestamps/0/response") = stamp.response.into();
    }),
    ("timestamp-of-a-long-fraction", "timestamped",
        "the time of the time-stamp has a zero at the end of its fraction, as DER has none", Noticed::Timestamp, "timestamps",
        |world, packet| {
            let stamp = stamp_of_a_long_fraction(&world.fixture);
            *at(packet, "/timestamps/0/response") = stamp.response.into();
        }),
    ("timestamp-with-another-truth", "timestamped",
        "the time-stamp has an extension that is critical by a truth value of 1, which is not DER", Noticed::Timestamp,
        "timestamps", |world, packet| {
        let stamp = stamp_of_another_truth(&world.fixture);
        *at(packet, "/timestamps/0/response") = stamp.response.into();
    }),
    ("timestamp-of-another-checkpoint", "timestamped", "the time-stamp is of another checkpoint than the one beside it",
        Noticed::Timestamp, "timestamps", |world, packet| {
        let fixture = &world.fixture;
        let other = fixture.stamp_of(fixture.size() - 1, &[]);
        let stamp = at(packet, "/timestamps/0");
        stamp["checkpoint"] = other.checkpoint.into();
        stamp["consistency"] = json!(other.consistency);
    }),
    ("timestamp-without-proof", "timestamped", "nothing shows that the log continues the stamped checkpoint", Noticed::Timestamp,
        "timestamps", |_, packet| *at(packet, "/timestamps/0/consistency") = json!([])),
    ("timestamp-with-another-anchor", "timestamped", "a record of the booking stands where an entry may commit to the time-stamp",
        Noticed::Timestamp, "timestamps", |_, packet| {
        let entry = packet["entries"][0].clone();
        *at(packet, "/timestamps/0/anchor") = entry;
    }),
    ("timestamp-renewed-by-itself", "timestamped", "the second time-stamp does not renew the first", Noticed::Timestamp,
        "timestamps", |_, packet| {
        let stamp = packet["timestamps"][0].clone();
        at(packet, "/timestamps")
            .as_array_mut()
            .unwrap()
            .push(stamp);
    }),
    ("timestamp-without-response", "timestamped", "a time-stamp has no response", Noticed::Structure, "form", |_, packet| {
        let stamp = at(packet, "/timestamps/0").as_object_mut().unwrap();
        stamp.remove("response");
    }),
    ("timestamp-not-the-anchored", "renewed", "the entry that commits to the first time-stamp commits to another",
        Noticed::Timestamp, "timestamps", |_, packet| {
        let (first, second) = ("/timestamps/0/response", "/timestamps/1/response");
        let other = at(packet, second).clone();
        *at(packet, first) = other;
    }),
    ("timestamps-without-any", "timestamped", "the list of time-stamps is there and empty", Noticed::Structure, "form",
        |_, packet| *at(packet, "/timestamps") = json!([])),
];

pub fn bad(world: &World) -> Vec<Bad> {
    signed(world, FORGED)
}
