//! The sentences of each kind of history, held word for word by `golden.txt`, to be read by a person.

use std::fmt::Write as _;

use crate::evidence::verify::tests::fixture::Fixture;
use crate::evidence::{Packet, Withheld};

const GOLDEN: &str = "src/evidence/summary/golden.txt";

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
    .iter()
    .map(|(name, packet)| told(name, packet))
    .collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(GOLDEN, &told).unwrap();
    }
    assert_eq!(told, std::fs::read_to_string(GOLDEN).unwrap());
}
