//! The summary of a packet in sentences, for people: who booked whom, what was agreed, what happened, what the terms gave.
//!
//! A pure function of what the rest of the packet proves or states, so that a verifier can write it again and compare. The
//! page and the PDFs show these sentences and make none of their own. Every sentence says who claims what: the partner
//! *states* or *reports*, the service *received*, *recorded* and *computed*. What others wrote stands in quotation marks, which
//! it cannot end (`text::quoted`). Invariant: a new wording is a new [`Wording`], and the old ones stay as they are.

use serde::{Deserialize, Serialize};

use super::facts::{Fact, Logged};
use super::frozen::FrozenTerms;
use super::packet::{Packet, PacketDelivery};
use super::withheld::Withheld;
use crate::ledger::LeafKind;
use crate::model::{Booking, Timestamp};
use crate::policy::{Actor, Evaluation, Policy, Reason, Resolution};

mod moments;
mod notified;
mod result;
mod story;
mod wall_clock;

#[cfg(test)]
mod tests;

pub(super) use moments::kind_in_words;
use wall_clock::WallClock;

/// The version of the wording of new packets.
pub const SUMMARY_VERSION: &str = "bookguard-summary-2";

/// A wording. Each stays as it is, so that the summaries of old packets can be written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wording {
    /// `bookguard-summary-1`, of 0.1.0.
    First,
    /// `bookguard-summary-2`. It shows no erased words as the platform's own. Of notifications, it tells apart those accepted, given up,
    /// still tried, not sent yet and no longer sent, and says what a server answered and why that was not enough. What the platform
    /// claims of a time is told as its claim; if that decides, so are the rule by which it counts, and what receipt would have given. An
    /// event of which only the day was named has no time of day, and every date is on its own clock and has its year. It says who did not
    /// come instead of that they canceled, that a canceled booking was not protected, who agreed to the last move, which side accepted
    /// nothing, and before which move terms were accepted.
    Second,
}

impl Wording {
    /// The wording of new packets.
    pub const LATEST: Self = Self::Second;

    /// The wording of this version, if this program knows it.
    pub fn of(version: &str) -> Option<Self> {
        let all = [Self::First, Self::Second];
        all.into_iter().find(|one| one.version() == version)
    }

    fn version(self) -> &'static str {
        match self {
            Self::First => "bookguard-summary-1",
            Self::Second => SUMMARY_VERSION,
        }
    }
}

/// What every packet that verifies proves.
const PROVES: &[&str] = &[
    "What was recorded about this booking, word for word, and in which order.",
    "That it was recorded no later than the signed state of the log, and not changed since.",
    "That nothing before the last entry shown is missing.",
    "That the result of a cancellation follows from the terms that were frozen when the booking was recorded or moved.",
    "How a notification ended, if that is one of the entries, and the digest of what was sent.",
];

/// What none proves.
const DOES_NOT_PROVE: &[&str] = &[
    "That what the platform reported is true. Sentences that begin with its name are its own statements.",
    "Who the persons are, or that anybody read a notification that was accepted.",
    "That money was paid or returned. The service computes and records; it never moves money.",
    "The platform's registered name, hosts of receivers and attempts before the last: the service states them under its signature.",
];

/// The packet in sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The version of the wording.
    pub version: String,
    /// The booking: who booked whom through whom, for what, when and for how much, and how it stands.
    pub headline: String,
    /// What was agreed, what happened and what it comes to: a paragraph each.
    pub story: Vec<String>,
    /// What happened, oldest first.
    pub timeline: Vec<Moment>,
    /// For each local time in the sentences, in their order, the seconds by which the wall clock was ahead of UTC.
    pub offsets: Vec<i32>,
}

/// An item of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// When it was recorded, or when it happened if it is not in the ledger.
    pub at: Timestamp,
    /// The ledger's entry; null for a statement of the service that no entry holds.
    pub entry: Option<u64>,
    /// What happened, in sentences.
    pub text: String,
    /// `at` for people: local time, and UTC.
    pub when: String,
}

/// A paragraph of the story, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paragraph {
    /// The paragraph.
    pub text: String,
    /// The ledger's entries that it tells; none if it is from no entry in particular.
    pub entries: Vec<u64>,
    /// Whether it says what a cancellation came to: what the terms gave, or what people decided.
    pub is_result: bool,
}

/// The material of a summary.
#[derive(Debug, Clone, Copy)]
pub struct SummaryInput<'a> {
    /// The wording.
    pub wording: Wording,
    /// When the packet was made.
    pub created_at: Timestamp,
    /// The registered name of the booking's partner.
    pub partner_name: &'a str,
    /// The booking.
    pub booking: &'a Booking,
    /// The terms in force.
    pub terms: &'a FrozenTerms,
    /// The terms before each move.
    pub former_terms: &'a [FrozenTerms],
    /// Their policy.
    pub policy: Option<&'a Policy>,
    /// Its facts, oldest first.
    pub facts: &'a [Logged<Fact>],
    /// The result of canceling now; absent if the booking is canceled.
    pub evaluation: Option<&'a Evaluation>,
    /// The resolution; absent if the booking is not canceled.
    pub resolution: Option<&'a Resolution>,
    /// What was sent to the partner.
    pub deliveries: &'a [PacketDelivery],
    /// The values that the packet does not show.
    pub withheld: &'a [Withheld],
    /// The [`Summary::offsets`] of the summary to write again; none for a new one.
    pub offsets: &'a [i32],
}

/// Summarizes the packet.
pub fn summarize(material: &SummaryInput<'_>) -> Summary {
    let mut writer = Writer::of(material);
    let headline = writer.headline();
    let story = writer.story();
    let timeline = writer.timeline();
    Summary {
        version: material.wording.version().to_owned(),
        headline,
        story: story.into_iter().map(|one| one.text).collect(),
        timeline,
        offsets: writer.clock.used,
    }
}

/// The story of the summary with where its paragraphs are from.
pub(super) fn paragraphs(material: &SummaryInput<'_>) -> Vec<Paragraph> {
    let mut writer = Writer::of(material);
    // Its times come first among the offsets.
    writer.headline();
    writer.story()
}

impl Packet {
    /// The material of the packet's own summary.
    pub(super) fn material<'a>(
        &'a self,
        wording: Wording,
        facts: &'a [Logged<Fact>],
    ) -> SummaryInput<'a> {
        SummaryInput {
            wording,
            created_at: self.created_at,
            partner_name: &self.partner_name,
            booking: &self.booking,
            terms: &self.terms,
            former_terms: &self.former_terms,
            policy: self.policy.as_ref(),
            offsets: &self.summary.offsets,
            facts,
            evaluation: self.evaluation.as_ref(),
            resolution: self.resolution.as_ref(),
            deliveries: &self.deliveries,
            withheld: &self.withheld,
        }
    }

    /// When the event starts, in the words of the summary.
    #[must_use]
    pub fn event_in_words(&self) -> String {
        WallClock::new(self.terms.zone, self.wording(), &self.summary.offsets)
            .start(&self.terms, self.booking.event_date)
    }

    /// What the last entry of this kind says, in the words of the summary.
    pub(super) fn last_moment(&self, kind: LeafKind) -> Option<&Moment> {
        let mut entries = self.entries.iter();
        let place = entries.rposition(|entry| entry.body.kind == kind.as_str())?;
        let timeline = self.summary.timeline.iter();
        let mut logged: Vec<&Moment> = timeline.filter(|it| it.entry.is_some()).collect();
        logged.sort_by_key(|moment| moment.entry);
        logged.get(place).copied()
    }

    /// Who did not come, in the words of the summary, if the cancellation is the report of that.
    #[must_use]
    pub fn absent(&self) -> Option<Actor> {
        let resolution = self.resolution.as_ref()?;
        absent(self.wording(), resolution.canceled_by, resolution.reason)
    }

    /// The wording of the summary; the latest in place of one that this program does not know.
    fn wording(&self) -> Wording {
        Wording::of(&self.summary.version).unwrap_or(Wording::LATEST)
    }

    /// A time that the summary does not name, such as that of a time-stamp, in the same form: local time first, by this program's
    /// tables of time zones.
    #[must_use]
    pub fn time_in_words(&self, at: Timestamp) -> String {
        WallClock::new(self.terms.zone, Wording::LATEST, &[]).time(at)
    }

    /// What the packet proves, if it verifies.
    #[must_use]
    pub fn proves(&self) -> Vec<String> {
        let mapped = self.mapped_until();
        let complete = mapped.map(|until| {
            format!("That nothing recorded by {until} is missing, as far as the map to which the log commits is true: whoever reads the log can check it.")
        });
        let always = PROVES.iter().map(|text| (*text).to_owned());
        always.chain(complete).collect()
    }

    /// What it does not prove.
    #[must_use]
    pub fn does_not_prove(&self) -> Vec<String> {
        let later = match self.mapped_until() {
            Some(until) => format!("That there is no entry after {until}."),
            None => "That there is no later entry: when this packet was made, the log was not yet mapped with all of these.".to_owned(),
        };
        let later = format!("{later} The public log shows that: bookguard evidence verify --log.");
        let always = DOES_NOT_PROVE.iter().map(|text| (*text).to_owned());
        let mut texts: Vec<String> = always.collect();
        texts.insert(1, later);
        texts
    }

    /// When the last entry was written that the map in the packet covers.
    fn mapped_until(&self) -> Option<String> {
        let mut values = self.completeness.as_ref()?.entry.disclosures.iter();
        let written_at = values.find(|one| one.name == "writtenAt")?.value.as_str()?;
        let at = Timestamp::parse(written_at);
        Some(at.map_or_else(|| written_at.to_owned(), |at| self.time_in_words(at)))
    }

    /// When the packet was made, in the words of the summary.
    #[must_use]
    pub fn made_in_words(&self) -> &str {
        self.summary
            .timeline
            .last()
            .map_or("", |moment| &moment.when)
    }

    /// What the booking is worth, in the words of the summary.
    #[must_use]
    pub fn value_in_words(&self) -> String {
        value(&self.booking)
    }
}

/// Who did not come, if somebody canceled for this reason to report that; in the first wording, such a report reads as a cancellation.
fn absent(wording: Wording, canceled_by: Actor, reason: Option<Reason>) -> Option<Actor> {
    let is_absent =
        reason == Some(Reason::NoShow) && matches!(canceled_by, Actor::Organizer | Actor::Talent);
    (is_absent && wording >= Wording::Second).then_some(canceled_by)
}

/// A booking's value.
fn value(booking: &Booking) -> String {
    let value = booking.value().map(wall_clock::money);
    value.unwrap_or_else(|| format!("{} {}", booking.currency, booking.booking_value))
}

/// Writes the sentences of one packet.
struct Writer<'a> {
    m: &'a SummaryInput<'a>,
    clock: WallClock<'a>,
}

impl<'a> Writer<'a> {
    fn of(material: &'a SummaryInput<'a>) -> Self {
        Self {
            m: material,
            clock: WallClock::new(material.terms.zone, material.wording, material.offsets),
        }
    }
}
