//! The entries of the ledger that each paragraph of a packet's story is from, and what was erased of its booking, for people.
//!
//! The story is written again from what the packet shows. Nothing here is checked: [`verify`](super::verify()) does that. A paragraph that
//! comes out otherwise than the packet has it is shown as the packet has it, as from no entry.

use super::erasure::Erasable;
use super::facts::LeafPlace;
use super::packet::Packet;
use super::summary::{Paragraph, Wording, paragraphs};
use super::verify::{erased, facts};
use crate::ledger::{Hash, LeafKind, TlogProof};
use crate::model::Timestamp;

impl Packet {
    /// The paragraphs of the summary's story, with the entries that each is from.
    #[must_use]
    pub fn story(&self) -> Vec<Paragraph> {
        let mut anew = self.story_anew().unwrap_or_default().into_iter();
        let shown = self.summary.story.iter().map(|text| {
            let same = anew.next().filter(|paragraph| paragraph.text == *text);
            same.unwrap_or_else(|| Paragraph {
                text: text.clone(),
                entries: Vec::new(),
                is_result: false,
            })
        });
        shown.collect()
    }

    /// Whether this value of the booking was erased.
    #[must_use]
    pub fn has_erased(&self, name: Erasable) -> bool {
        // The first entry holds the booking.
        erased(self).is_ok_and(|names| names.of_entry(0).any(|one| one == name.word()))
    }

    /// The story that follows from the rest of the packet; `None` if none does.
    fn story_anew(&self) -> Option<Vec<Paragraph>> {
        let wording = Wording::of(&self.summary.version)?;
        let entries = self.entries.iter().map(|entry| {
            let kind: LeafKind = entry.body.kind.parse().ok()?;
            let place = LeafPlace {
                index: TlogProof::parse(&entry.proof).ok()?.index,
                // The story tells neither.
                hash: Hash::ZERO,
                at: Timestamp::EPOCH,
            };
            Some((kind, place))
        });
        let entries: Vec<(LeafKind, LeafPlace)> = entries.collect::<Option<_>>()?;
        let facts = facts(self, &entries).ok()?;
        Some(paragraphs(&self.material(wording, &facts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_paragraph_names_the_entries_that_it_is_from() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/packets/good");
        let mut results = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let Ok(packet) = serde_json::from_str::<Packet>(&text) else {
                continue;
            };
            let story = packet.story();
            let texts: Vec<&str> = story.iter().map(|one| one.text.as_str()).collect();
            assert_eq!(texts, packet.summary.story, "{path:?}");
            let kind_of = |entry: &u64| {
                let mut entries = packet.entries.iter();
                let found =
                    entries.find(|one| TlogProof::parse(&one.proof).unwrap().index == *entry);
                found.unwrap().body.kind.as_str()
            };
            for paragraph in &story {
                let kinds: Vec<&str> = paragraph.entries.iter().map(kind_of).collect();
                let said = &paragraph.text;
                let kind = if paragraph.is_result {
                    results += 1;
                    "resolution.created"
                } else if said.contains(" recorded the booking on ") {
                    "booking.created"
                } else if said.contains(" the service received this on ") {
                    "booking.canceled"
                } else if said.starts_with("The event was moved ") {
                    "booking.rescheduled"
                } else if said.contains(" accepted the") && said.contains(" states that ") {
                    "terms.accepted"
                } else if said.contains(" of evidence: ") {
                    "evidence.added"
                } else if said.starts_with("Some values were erased") {
                    "evidence.erased"
                } else {
                    assert!(kinds.is_empty(), "{path:?}: {said}");
                    continue;
                };
                let is_open = said.ends_with("nobody had decided yet.");
                assert!(is_open || !kinds.is_empty(), "{path:?}: {said}");
                assert!(kinds.iter().all(|one| *one == kind), "{path:?}: {said}");
                if let (true, [entry]) = (paragraph.is_result, paragraph.entries.as_slice()) {
                    let mut moments = packet.summary.timeline.iter();
                    let moment = moments.find(|moment| moment.entry == Some(*entry));
                    assert_eq!(moment.unwrap().text, *said, "{path:?}");
                }
            }
        }
        assert!(results > 10, "{results}");
    }

    #[test]
    fn a_paragraph_that_does_not_follow_from_the_packet_is_from_no_entry() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/packets/good");
        let text = std::fs::read_to_string(format!("{folder}/canceled-final.json")).unwrap();
        let mut packet: Packet = serde_json::from_str(&text).unwrap();
        packet.summary.story[2] = "Nothing is to be returned.".to_owned();
        let story = packet.story();
        assert_eq!(story[2].text, "Nothing is to be returned.");
        assert!(story[2].entries.is_empty() && !story[2].is_result);
        assert_eq!(story[1].entries.len(), 1);
        packet.entries[0].proof.clear();
        assert!(packet.story().iter().all(|one| one.entries.is_empty()));
    }
}
