//! What a PDF says, as headings, paragraphs and tables. The sentences are the packet's; only what stands around them is ours.

use bookguard_core::evidence::{Moment, Packet, Paragraph};
use bookguard_core::ledger::VerifierKey;
use bookguard_core::policy::TermsDisclosure;
use bookguard_core::text::counted;

use super::PdfForm;
use crate::fingerprint::fingerprint;
use crate::others::Others;
use crate::{Maker, words};

/// A part of the document, from top to bottom.
#[derive(Debug, Clone)]
pub(super) enum Block {
    /// The document's one title.
    Title(String),
    /// The document in a sentence or two.
    Lead(String),
    Section(String),
    Subsection(String),
    Paragraph(String),
    /// Items with a label each, such as `1.`.
    List(Vec<(String, String)>),
    Table(Table),
}

/// A table. A row has a cell for each column; a cell has paragraphs.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Parts of the width, one for each column.
    pub(super) columns: Vec<f32>,
    /// The header row; without it, the first cell of each row is the row's header.
    pub(super) header: Option<Vec<String>>,
    pub(super) rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) paragraphs: Vec<String>,
    /// Whether it is set smaller and less black.
    pub(super) aside: bool,
}

impl Cell {
    fn of(text: impl Into<String>) -> Self {
        Self {
            paragraphs: vec![text.into()],
            aside: false,
        }
    }

    fn aside(text: impl Into<String>) -> Self {
        Self {
            aside: true,
            ..Self::of(text)
        }
    }
}

/// A packet, as it is told.
pub(super) struct Told {
    pub(super) packet: Packet,
    others: Others,
    /// What a cancellation came to, as the story tells it.
    results: Vec<Block>,
    /// The rest of the story.
    story: Vec<Block>,
}

/// The most items that are printed of each part that can be long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) story: usize,
    /// Parts of the text of the terms in force.
    pub(super) agreed: usize,
    /// Whole texts of terms before a move.
    pub(super) former: usize,
    pub(super) timeline: usize,
}

impl Limits {
    pub(super) const NONE: Self = Self {
        story: usize::MAX,
        agreed: usize::MAX,
        former: usize::MAX,
        timeline: usize::MAX,
    };
}

/// A text so long that it was not written by the service: longer than a page.
const LONGEST: usize = 2_000;

impl Told {
    /// Of a packet and its exact text.
    pub(super) fn of(packet: Packet, text: &str, key: &VerifierKey, maker: &Maker) -> Self {
        let (results, story): (Vec<_>, Vec<_>) =
            packet.story().into_iter().partition(|one| one.is_result);
        let paragraphs = |told: Vec<Paragraph>| {
            let sourced = |one: Paragraph| one.text + &words::sources(&one.entries);
            told.into_iter()
                .map(sourced)
                .map(Block::Paragraph)
                .collect()
        };
        Self {
            others: Others::of(&packet, text, key, maker),
            results: paragraphs(results),
            story: paragraphs(story),
            packet,
        }
    }

    /// The document's title for programs that list documents.
    pub(super) fn title(&self) -> String {
        format!("Evidence of booking {}", self.packet.booking.booking_id)
    }

    /// Items in each of the parts that can be long.
    pub(super) fn lengths(&self) -> Limits {
        let texts = self.agreed();
        Limits {
            story: self.story.len(),
            agreed: texts.first().map_or(0, Vec::len),
            former: texts.len().saturating_sub(1),
            timeline: self.packet.summary.timeline.len(),
        }
    }

    /// The whole document. What the limits leave out is counted where it is missing.
    pub(super) fn blocks(&self, key: &VerifierKey, form: PdfForm, limits: Limits) -> Vec<Block> {
        let mut blocks = self.opening();
        if !self.results.is_empty() {
            blocks.push(Block::Section(words::RESULT.to_owned()));
            blocks.extend_from_slice(&self.results);
        }
        if !self.story.is_empty() {
            blocks.push(Block::Section(words::STORY.to_owned()));
            blocks.extend(shortened(&self.story, limits.story, |left_out| {
                let what = counted(left_out as u64, "paragraph");
                Block::Paragraph(missing(&format!("{what} of this account")))
            }));
        }
        if let [in_force, former @ ..] = self.agreed().as_slice() {
            blocks.push(Block::Section(words::TERMS.to_owned()));
            let (kept, cut) = in_force.split_at(limits.agreed.min(in_force.len()));
            blocks.extend_from_slice(kept);
            if !cut.is_empty() {
                let what = match kept.is_empty() {
                    true => "these terms",
                    false => "the end of these terms",
                };
                blocks.push(Block::Paragraph(missing(what)));
            }
            // The oldest go first: those before the last move tell most about the terms in force.
            let (kept, cut) = former.split_at(limits.former.min(former.len()));
            blocks.extend(kept.iter().flatten().cloned());
            if !cut.is_empty() {
                let what = counted(cut.len() as u64, "older text");
                blocks.push(Block::Paragraph(missing(&format!("{what} of the terms"))));
            }
        }
        blocks.push(Block::Section(words::TIMELINE.to_owned()));
        blocks.push(Block::Paragraph(words::ENTRIES.to_owned()));
        blocks.push(Block::Table(self.timeline(limits.timeline)));
        blocks.extend(self.by_others());
        blocks.extend(self.closing(key, form));
        blocks
    }

    fn opening(&self) -> Vec<Block> {
        let facts = words::facts(&self.packet).into_iter();
        vec![
            Block::Title("Evidence of a booking".to_owned()),
            Block::Lead(cut(&self.packet.summary.headline, LONGEST)),
            labelled(facts.map(|fact| (fact.name, fact.value.to_string()))),
        ]
    }

    /// The texts of the terms, those in force first: each line by line, blank lines left out, with its digest, and the others
    /// under a heading.
    fn agreed(&self) -> Vec<Vec<Block>> {
        let texts = &self.packet.terms_disclosures;
        let headings = words::headings(&self.packet);
        let blocks = |(at, disclosure): (usize, &TermsDisclosure)| {
            let heading = headings.get(at);
            let mut blocks: Vec<Block> = Vec::new();
            blocks.extend(heading.map(|heading| Block::Subsection(heading.clone())));
            for (number, line) in disclosure
                .text
                .lines()
                .filter(|line| !line.trim().is_empty())
                .enumerate()
            {
                let item = line
                    .strip_prefix("- ")
                    .map(|item| ("–".to_owned(), item.to_owned()));
                match (item, blocks.last_mut()) {
                    (Some(item), Some(Block::List(items))) => items.push(item),
                    (Some(item), _) => blocks.push(Block::List(vec![item])),
                    (None, _) if number == 0 && heading.is_none() => {
                        blocks.push(Block::Subsection(line.to_owned()));
                    }
                    (None, _) => blocks.push(Block::Paragraph(line.to_owned())),
                }
            }
            // With the name of the algorithm once more, it would not fit on a line.
            let digest = disclosure.disclosure_hash.trim_start_matches("sha256:");
            let digest = format!("{} {digest}", words::TERMS_DIGEST);
            blocks.push(Block::Paragraph(digest));
            blocks
        };
        texts.iter().enumerate().rev().map(blocks).collect()
    }

    fn timeline(&self, limit: usize) -> Table {
        let row = |moment: &Moment| {
            let mut when = Cell::aside(&moment.when);
            if moment.entry.is_none() {
                when.paragraphs.push(words::STATEMENT.to_owned());
            }
            let entry = moment
                .entry
                .map_or("–".to_owned(), |entry| entry.to_string());
            vec![Cell::aside(entry), when, Cell::of(&moment.text)]
        };
        let rows: Vec<_> = self.packet.summary.timeline.iter().map(row).collect();
        let gap = |left_out| {
            vec![
                Cell::aside("…"),
                Cell::aside("…"),
                Cell::of(missing(&counted(left_out as u64, "moment"))),
            ]
        };
        Table {
            columns: vec![0.09, 0.25, 0.66],
            header: Some(["Entry", "When", "What"].map(str::to_owned).to_vec()),
            rows: shortened(&rows, limit, gap),
        }
    }

    fn by_others(&self) -> Vec<Block> {
        let Others {
            stamps,
            witnesses,
            listed,
            unchecked,
            ..
        } = &self.others;
        let mut blocks = vec![Block::Section(words::OTHERS.to_owned())];
        blocks.extend(stamps.iter().cloned().map(Block::Paragraph));
        blocks.push(Block::Paragraph(witnesses.clone()));
        if !listed.is_empty() {
            let item = |line: &String| ("–".to_owned(), line.clone());
            blocks.push(Block::List(listed.iter().map(item).collect()));
            blocks.push(Block::Paragraph((*unchecked).to_owned()));
        }
        blocks
    }

    fn closing(&self, key: &VerifierKey, form: PdfForm) -> Vec<Block> {
        let list = |paragraphs| Cell {
            paragraphs,
            aside: false,
        };
        let mut proves = self.packet.proves();
        proves.extend(self.others.proves.iter().cloned());
        let mut limits = self.packet.does_not_prove();
        limits.extend(self.others.limits.iter().map(|text| (*text).to_owned()));
        let packet = match form {
            PdfForm::Bank => "the platform hands it out as packet.json",
            PdfForm::Archive => "it is attached to this document as packet.json",
        };
        let facts = [
            ("Ledger", key.name().to_owned()),
            ("Public key", key.to_string()),
            ("Fingerprint", fingerprint(key)),
        ];
        let ways = [
            "In a browser, which sends the packet nowhere: the page /verify of the service.",
            "With Bookguard’s program, which also recomputes the terms, the sums and every sentence: \
             bookguard evidence verify packet.json --key @ledger.vkey",
            "With a short program that you can read, which is at /verify/verify.js of the service: \
             node verify.js packet.json ledger.vkey",
        ];
        let numbered = |(number, way): (usize, &str)| (format!("{}.", number + 1), way.to_owned());
        vec![
            Block::Section(words::SCOPE.to_owned()),
            Block::Table(Table {
                columns: vec![0.5, 0.5],
                header: Some([words::PROVES, words::LIMITS].map(str::to_owned).to_vec()),
                rows: vec![vec![list(proves), list(limits)]],
            }),
            Block::Section("How to check it".to_owned()),
            Block::Paragraph(format!(
                "This document prints a signed evidence packet; {packet}. Anyone can check that packet without asking the \
                 platform or the service. Take the ledger's public key from somewhere other than this document: the service gives \
                 it at /v1/ledger/key, and shows its fingerprint at /verify. It is the right one if the SHA-256 of its 32 bytes is \
                 this fingerprint:"
            )),
            labelled(facts),
            Block::Paragraph(
                "Three ways to check the packet (ledger.vkey is a file with that key):".to_owned(),
            ),
            Block::List(ways.into_iter().enumerate().map(numbered).collect()),
            Block::Paragraph(
                "What begins with / follows the service's own address. No document that somebody hands you can vouch for that \
                 address: ask the platform for it, under an address or number by which you know the platform."
                    .to_owned(),
            ),
        ]
    }
}

/// A table with a value, cut to what the service may have written, beside each label.
fn labelled<'a>(values: impl IntoIterator<Item = (&'a str, String)>) -> Block {
    let row =
        |(label, value): (&str, String)| vec![Cell::aside(label), Cell::of(cut(&value, LONGEST))];
    Block::Table(Table {
        columns: vec![0.2, 0.8],
        header: None,
        rows: values.into_iter().map(row).collect(),
    })
}

/// The items, without those in the middle that are too many; `gap` says how many.
fn shortened<T: Clone>(items: &[T], limit: usize, gap: impl Fn(usize) -> T) -> Vec<T> {
    let Some(left_out) = items
        .len()
        .checked_sub(limit)
        .filter(|left_out| *left_out > 0)
    else {
        return items.to_vec();
    };
    let first = limit.div_ceil(2);
    let mut kept = items[..first].to_vec();
    kept.push(gap(left_out));
    kept.extend_from_slice(&items[first + left_out..]);
    kept
}

fn missing(what: &str) -> String {
    format!(
        "Left out here to keep this document at {} pages: {what}. The evidence packet (packet.json) and its archive PDF have \
         everything.",
        super::MOST_PAGES
    )
}

/// The first `chars` characters of a text, with an ellipsis if there are more.
fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
