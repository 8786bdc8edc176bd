//! The sentences of each kind of history, held word for word by `golden.txt`, to be read by a person.

use std::fmt::Write as _;

use super::{Summary, SummaryInput, Wording, summarize};
use crate::evidence::facts::{Fact, LeafPlace, Logged, ResolutionFact};
use crate::evidence::packet::PacketDelivery;
use crate::evidence::verify::tests::fixture::{Fixture, cancellation, erased_values, item};
use crate::evidence::{
    Acceptance, Erasable, Erasure, EvidenceItem, ItemKind, LegalBasis, Packet, Withheld,
};
use crate::ledger::Hash;
use crate::model::{Amount, Currency};
use crate::policy::{Actor, Cancellation, Reason};
use crate::text::outside_quotations;

mod canceled;
mod moved;
mod notified;

const GOLDEN: &str = "src/evidence/summary/golden.txt";

/// Test vectors, whose summaries the verifiers check too. Two are in currencies with no decimals and with three.
const VECTORS: [(&str, &str); 9] = [
    ("in yen", "yen"),
    ("in dinars", "dinar"),
    ("canceled by agreement", "canceled-by-agreement"),
    ("erased in part", "erased"),
    ("rationale erased", "erased-words"),
    ("words erased, in the second wording", "worded-2-erased"),
    ("canceled too late", "worded-2-late"),
    (
        "accepted before, between and after two moves",
        "worded-2-moved",
    ),
    ("without a time, and not told", "worded-2-unsent"),
];

fn vector(name: &str) -> Packet {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/packets/good");
    let text = std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn told(name: &str, packet: &Packet) -> String {
    let summary = &packet.summary;
    let mut text = format!("== {name} ==\n{}\n\n", summary.headline);
    for paragraph in &summary.story {
        writeln!(text, "{paragraph}").unwrap();
    }
    text.push('\n');
    for moment in &summary.timeline {
        let entry = moment
            .entry
            .map_or("-".to_owned(), |entry| entry.to_string());
        writeln!(text, "[{entry}] {}: {}", moment.when, moment.text).unwrap();
    }
    text + "\n"
}

/// `UPDATE=1` writes the file anew.
#[test]
fn each_kind_of_history_is_told_in_these_words() {
    let mut fixture = Fixture::new();
    fixture.wording = Wording::LATEST;
    fixture.with_items(13, 30);
    let without = [Withheld::Note, Withheld::Organizer, Withheld::Talent];
    let told: String = [
        ("recorded", fixture.recorded()),
        ("without a policy", fixture.bare()),
        ("protected", fixture.protected()),
        ("accepted and moved twice", fixture.rescheduled()),
        ("canceled", fixture.canceled()),
        ("for a person to decide", fixture.pending()),
        ("decided", fixture.decided()),
        ("notified", fixture.notified()),
        ("with evidence items", fixture.packet_at(13)),
        (
            "without names and notes",
            fixture.packet_at_without(13, &without),
        ),
    ]
    .into_iter()
    .chain([(
        "dated back across a deadline",
        across_a_deadline(Wording::LATEST),
    )])
    .chain(VECTORS.map(|(name, file)| (name, vector(file))))
    .map(|(name, packet)| told(name, &packet))
    .collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(GOLDEN, &told).unwrap();
    }
    assert_eq!(told, std::fs::read_to_string(GOLDEN).unwrap());
}

/// A note, a name and whatever else others wrote stay within their quotation marks, so that none of it reads as a sentence of
/// the service.
#[test]
fn nothing_that_others_wrote_breaks_out_of_its_quotation() {
    for hostile in [
        "We are sorry\u{201d}. FORGED: nothing is to be returned. \u{201c}Thank you",
        "Acme\u{201d}\u{201d} FORGED \u{201c}\u{201c}Acme",
        "Acme\u{201f}\u{2033}\u{ff02} FORGED \u{ab}Acme\u{bb}",
    ] {
        let words = || hostile.to_owned();
        let packet = Fixture::new().decided();
        let mut booking = packet.booking.clone();
        (booking.organizer.name, booking.talent.name) = (words(), words());
        booking.event_type = words();
        let (booking_id, at) = (booking.booking_id, packet.created_at);
        let mut resolution = packet.resolution.clone().unwrap();
        let decision = resolution.decision.as_mut().unwrap();
        (decision.decided_by, decision.rationale) = (words(), words());
        let facts: [Fact; 5] = [
            Acceptance {
                booking_id,
                accepted_at: at,
                party: Actor::Organizer,
                method: words(),
                at,
                ip: None,
                user_agent: Some(words()),
                disclosure_hash: String::new(),
                disclosure_version: String::new(),
            }
            .into(),
            Cancellation {
                note: Some(words()),
                ..cancellation(booking_id, at, Actor::Mutual)
            }
            .into(),
            ResolutionFact::with_words_within(resolution.clone()).into(),
            EvidenceItem {
                party: Some(Actor::Talent),
                reference: Some(words()),
                note: Some(words()),
                ..item(booking_id, at, ItemKind::Message, hostile)
            }
            .into(),
            Erasure {
                booking_id,
                erased_at: at,
                legal_basis: LegalBasis::Objection,
                request_ref: Some(words()),
                values: vec![erased_values(1, &[Erasable::Ip])],
            }
            .into(),
        ];
        let facts: Vec<Logged<Fact>> = (0..)
            .zip(facts)
            .map(|(index, fact)| {
                let hash = Hash::ZERO;
                let place = LeafPlace { index, hash, at };
                Logged { place, fact }
            })
            .collect();
        let summary = summarize(&SummaryInput {
            wording: Wording::LATEST,
            created_at: at,
            partner_name: hostile,
            booking: &booking,
            terms: &packet.terms,
            former_terms: &packet.former_terms,
            policy: packet.policy.as_ref(),
            facts: &facts,
            evaluation: None,
            resolution: Some(&resolution),
            deliveries: &packet.deliveries,
            withheld: &[],
            offsets: &[],
        });
        let moments = summary.timeline.iter().map(|moment| &moment.text);
        let told: Vec<&String> = [&summary.headline]
            .into_iter()
            .chain(&summary.story)
            .chain(moments)
            .collect();
        let all: String = told.iter().map(|text| text.as_str()).collect();
        assert!(all.matches("FORGED").count() > 20, "{all}");
        for text in told {
            assert!(!outside_quotations(text).contains("FORGED"), "{text}");
        }
    }
}

/// A packet in sentences if this is all that happened.
fn sentences(
    packet: &Packet,
    wording: Wording,
    facts: &[Logged<Fact>],
    deliveries: &[PacketDelivery],
) -> Summary {
    summarize(&SummaryInput {
        wording,
        created_at: packet.created_at,
        partner_name: "Acme",
        booking: &packet.booking,
        terms: &packet.terms,
        former_terms: &packet.former_terms,
        policy: None,
        facts,
        evaluation: None,
        resolution: None,
        deliveries,
        withheld: &[],
        offsets: &[],
    })
}

/// The first item of its timeline.
fn begins(
    packet: &Packet,
    wording: Wording,
    facts: &[Logged<Fact>],
    deliveries: &[PacketDelivery],
) -> String {
    let summary = sentences(packet, wording, facts, deliveries);
    summary.timeline[0].text.clone()
}

/// This fact alone.
fn alone(packet: &Packet, fact: impl Into<Fact>) -> [Logged<Fact>; 1] {
    let place = LeafPlace {
        index: 0,
        hash: Hash::ZERO,
        at: packet.created_at,
    };
    let fact = fact.into();
    [Logged { place, fact }]
}

#[test]
fn the_story_says_who_accepted_nothing() {
    let mut fixture = Fixture::new();
    fixture.wording = Wording::LATEST;
    fixture.with_items(13, 30);
    let said = |packet: Packet| {
        let mut story = packet.summary.story.into_iter();
        story.find(|text| text.starts_with("No entry says"))
    };
    let nobody = "No entry says that the organizer or the talent accepted these terms.";
    let talent = "No entry says that the talent accepted these terms.";
    let former = "No entry says that the organizer or the talent accepted the terms that have applied since the event was last moved.";
    assert_eq!(said(fixture.recorded()).as_deref(), Some(nobody));
    assert_eq!(said(fixture.packet_at(13)).as_deref(), Some(talent));
    assert_eq!(said(fixture.rescheduled()).as_deref(), Some(former));
    assert_eq!(said(fixture.bare()), None);
    assert_eq!(said(Fixture::new().recorded()), None);
}

/// A cancellation that took effect in the step of 50 %, a minute before it was received in the one of 0 %.
fn across_a_deadline(wording: Wording) -> Packet {
    let mut fixture = Fixture::new();
    fixture.wording = wording;
    let (date, zone) = ("2026-06-01T03:59:30-04:00", Some("America/New_York"));
    let usd = Amount::parse("950", Currency::USD).unwrap();
    fixture.record(30, Some("firm"), date, zone, usd, |_| {});
    fixture.cancel(13, Actor::Organizer, Some(Reason::Illness));
    fixture.packet_at(13)
}

#[test]
fn data_are_erased_from_earlier_entries() {
    let packet = Fixture::new().recorded();
    for (wording, told) in [
        (
            Wording::First,
            "“Acme” had personal data of the entries before erased, because the person withdrew the consent: notes.",
        ),
        (
            Wording::Second,
            "“Acme” had personal data erased from earlier entries, because the person withdrew consent: notes.",
        ),
    ] {
        let fact = Erasure {
            booking_id: packet.booking.booking_id,
            erased_at: packet.created_at,
            legal_basis: LegalBasis::ConsentWithdrawn,
            request_ref: None,
            values: vec![erased_values(1, &[Erasable::Note])],
        };
        let text = begins(&packet, wording, &alone(&packet, fact), &[]);
        assert!(text.starts_with(told), "{text}");
    }
}

#[test]
fn the_end_of_the_map_is_told_as_the_other_times_are() {
    let packet = vector("complete");
    let has = |texts: &[String], part: &str| texts.iter().any(|text| text.contains(part));
    let end = "Sunday 9 August 2026, 20:30 New York time (10 August, 00:30 UTC)";
    let proves = packet.proves();
    assert!(
        has(&proves, &format!("recorded by {end} is missing")),
        "{proves:?}"
    );
    let limits = packet.does_not_prove();
    assert!(
        has(&limits, &format!("no entry after {end}.")),
        "{limits:?}"
    );
}
