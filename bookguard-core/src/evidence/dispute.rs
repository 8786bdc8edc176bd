//! A packet put into the fields of a card dispute, for the partner to complete and submit.
//!
//! A pure function of the packet. Every sentence says who claims what: what the partner recorded, what the service itself
//! did, and what neither of them knows, which is listed as missing. What others wrote stands in quotation marks, as in the
//! summary. Invariants: nothing is ever submitted, no id of a file is invented, and no field exceeds the limits of the card
//! networks' forms.

use std::collections::BTreeMap;
use std::fmt;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use super::acceptance::Acceptance;
use super::erasure::{Erasable, ErasedValues};
use super::item::ItemKind;
use super::packet::Packet;
use crate::ledger::LeafKind;
use crate::limits::{DISPUTE_CHARS, DISPUTE_FIELD_CHARS};
use crate::model::{BookingId, vocabulary};
use crate::policy::{Actor, EventDate, Resolution, ResolutionStatus, TermsDisclosure};
use crate::text::quoted;

mod fit;
mod items;
mod reasons;

pub use reasons::DisputeReason;

vocabulary! {
    /// Whose form is filled in.
    DisputeForm {
        /// Stripe's dispute evidence.
        Stripe = "stripe",
        /// Any card dispute: neutral names, and where they go at Adyen, Checkout.com and PayPal.
        Card = "card",
    }
}

/// Evidence for a card dispute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct DisputeExport {
    /// Whose form it fills in.
    #[serde(rename = "for")]
    pub form: DisputeForm,
    /// What the cardholder claims.
    pub reason: DisputeReason,
    /// The booking.
    pub booking_id: BookingId,
    /// For `stripe`, the body of Stripe's `POST /v1/disputes/{dispute}`; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<StripeDispute>,
    /// For `card`, the texts under neutral names; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<CardFields>,
    /// Documents to upload, and the field that takes each one's id.
    pub files: Vec<DisputeFile>,
    /// What only the partner can add.
    pub missing: Vec<MissingEvidence>,
    /// For `card`, where the texts and the document go at other processors; otherwise empty.
    pub processors: Vec<DisputeProcessor>,
    /// The fields that were cut to their limit.
    pub cut: Vec<String>,
}

/// What Stripe takes about a dispute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct StripeDispute {
    /// The texts.
    pub evidence: StripeEvidence,
    /// Always false: the partner submits, once it has added what is missing.
    pub submit: bool,
}

/// Texts by the names of Stripe's fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripeEvidence(pub BTreeMap<String, String>);

/// Texts by neutral names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardFields(pub BTreeMap<String, String>);

/// A document to upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct DisputeFile {
    /// The field that takes the id of the uploaded file.
    pub field: String,
    /// The document.
    pub document: String,
}

/// Evidence that the packet does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct MissingEvidence {
    /// The field for it, by Stripe's name.
    pub field: String,
    /// What it is.
    pub what: String,
}

/// How another processor takes the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct DisputeProcessor {
    /// The processor.
    pub name: String,
    /// The request of its interface.
    pub request: String,
    /// The part of the request that takes the PDF.
    pub document: String,
    /// The part that takes a text, and the name of the text.
    pub texts: BTreeMap<String, String>,
    /// The most characters that such a part takes: shorten a longer text, because the PDF holds it whole.
    pub text_chars: u32,
}

/// The fields: Stripe's name and the neutral one. The most important comes first.
pub(super) const FIELDS: [(&str, &str); 7] = [
    ("customer_name", "customerName"),
    ("service_date", "serviceDate"),
    ("product_description", "productDescription"),
    ("refund_refusal_explanation", "refundExplanation"),
    ("cancellation_policy_disclosure", "cancellationTerms"),
    ("refund_policy_disclosure", "refundTerms"),
    ("uncategorized_text", "statement"),
];

/// Puts a packet into the fields of a dispute.
#[must_use]
pub fn dispute(packet: &Packet, form: DisputeForm, reason: DisputeReason) -> DisputeExport {
    let terms = terms_disclosure(packet);
    let texts = [
        match is_erased(packet, Erasable::Organizer) {
            true => String::new(),
            false => packet.booking.organizer.name.clone(),
        },
        service_date(packet),
        product(packet),
        outcome(packet),
        terms.clone(),
        terms,
        statement(packet, reason),
    ];
    let named = FIELDS.map(|(stripe, neutral)| match form {
        DisputeForm::Stripe => stripe,
        DisputeForm::Card => neutral,
    });
    let texts = named.into_iter().zip(texts);
    let (fields, cut) = fit::fit(texts, DISPUTE_FIELD_CHARS, DISPUTE_CHARS);
    let is_card = form == DisputeForm::Card;
    DisputeExport {
        form,
        reason,
        booking_id: packet.booking.booking_id,
        request: (!is_card).then(|| StripeDispute {
            evidence: StripeEvidence(fields.clone()),
            submit: false,
        }),
        fields: is_card.then_some(CardFields(fields)),
        files: files(packet, form, reason),
        missing: reasons::missing(reason, packet),
        processors: if is_card { processors() } else { Vec::new() },
        cut,
    }
}

/// How other processors take evidence, according to the descriptions of their interfaces.
fn processors() -> Vec<DisputeProcessor> {
    let processor =
        |name: &str, request: &str, document: &str, texts: &[(&str, &str)], text_chars| {
            let owned = |(part, text): &(&str, &str)| ((*part).to_owned(), (*text).to_owned());
            DisputeProcessor {
                name: name.to_owned(),
                request: request.to_owned(),
                document: document.to_owned(),
                texts: texts.iter().map(owned).collect(),
                text_chars,
            }
        };
    vec![
        processor(
            "Adyen",
            "POST /supplyDefenseDocument",
            "defenseDocuments, with a defenseDocumentTypeCode that /retrieveApplicableDefenseReasons names",
            &[],
            0,
        ),
        processor(
            "Checkout.com",
            "PUT /disputes/{dispute_id}/evidence",
            "additional_evidence_file",
            &[
                ("proof_of_delivery_or_service_date_text", "serviceDate"),
                ("refund_or_cancellation_policy_text", "refundExplanation"),
                ("additional_evidence_text", "productDescription"),
            ],
            500,
        ),
        processor(
            "PayPal",
            "POST /v1/customer/disputes/{id}/provide-evidence",
            "documents, with evidence_type OTHER or the one that PayPal asks for",
            &[("notes", "refundExplanation")],
            2000,
        ),
    ]
}

/// The PDF for banks, in the fields that fit the reason, and the files of items.
fn files(packet: &Packet, form: DisputeForm, reason: DisputeReason) -> Vec<DisputeFile> {
    let document = format!(
        "GET /v1/bookings/{}/evidence?form=bank with Accept: application/pdf",
        packet.booking.booking_id
    );
    let (fields, name): (_, fn(&'static str) -> &'static str) = match form {
        DisputeForm::Stripe => (reason.files(), |field| field),
        DisputeForm::Card => (&["document"][..], |_| "document"),
    };
    let file = |field: &&str| DisputeFile {
        field: (*field).to_owned(),
        document: document.clone(),
    };
    let own = fields.iter().map(file);
    own.chain(items::files(packet, name)).collect()
}

/// An entry of the packet: the one at this place among those of its kind.
type EntryRef = (LeafKind, usize);

/// Whether this value of an entry was erased. The erasures say so: a partner can write what stands in for an erased text too.
fn is_erased_of(packet: &Packet, (kind, place): EntryRef, value: Erasable) -> bool {
    let entries = packet.entries.iter().zip(0_u64..);
    let mut of_kind = entries.filter(|(entry, _)| entry.body.kind == kind.as_str());
    let Some((_, number)) = of_kind.nth(place) else {
        return false;
    };
    let erasures = (packet.entries.iter())
        .filter(|entry| entry.body.kind == LeafKind::EvidenceErased.as_str())
        .flat_map(|entry| &entry.disclosures)
        .filter(|member| member.name == "values");
    let mut erased = erasures
        .flat_map(|member| Vec::<ErasedValues>::deserialize(&member.value).unwrap_or_default());
    erased.any(|one| one.entry == number && one.names.contains(&value))
}

/// Whether this value of the booking was erased.
fn is_erased(packet: &Packet, value: Erasable) -> bool {
    is_erased_of(packet, (LeafKind::BookingCreated, 0), value)
}

/// A value of the booking in a sentence, or that it was erased.
fn told(packet: &Packet, name: Erasable, value: &str) -> String {
    worded(packet, (LeafKind::BookingCreated, 0), name, value)
}

/// What the partner wrote in an entry, in a sentence, or that it was erased.
fn worded(packet: &Packet, place: EntryRef, name: Erasable, text: &str) -> String {
    match is_erased_of(packet, place, name) {
        true => "[erased]".to_owned(),
        false => quoted(text),
    }
}

fn organizer(packet: &Packet) -> String {
    told(packet, Erasable::Organizer, &packet.booking.organizer.name)
}

fn talent(packet: &Packet) -> String {
    told(packet, Erasable::Talent, &packet.booking.talent.name)
}

fn platform(packet: &Packet) -> String {
    quoted(&packet.partner_name)
}

/// The date of the event by the clock of the terms.
fn service_date(packet: &Packet) -> String {
    let terms = &packet.terms;
    let date = match terms.date {
        EventDate::Date(date) => date,
        EventDate::Local(local) => local.date(),
        EventDate::Instant { at, .. } => {
            let frozen = terms.offsets.last().copied();
            let offset = frozen.unwrap_or_else(|| terms.zone.offset_at(at));
            (at.to_utc().naive_utc() + TimeDelta::seconds(offset.into())).date()
        }
    };
    date.to_string()
}

fn product(packet: &Packet) -> String {
    let booking = &packet.booking;
    format!(
        "A single booking, not a subscription: {} with {}, booked by {} through {}, for {}. The event starts on {}. Booking {}.",
        told(packet, Erasable::EventType, &booking.event_type),
        talent(packet),
        organizer(packet),
        platform(packet),
        packet.value_in_words(),
        packet.event_in_words(),
        booking.booking_id
    )
}

/// Who accepted which text, and the text.
fn terms_disclosure(packet: &Packet) -> String {
    let platform = platform(packet);
    let texts = || {
        packet
            .terms_disclosures
            .iter()
            .zip(packet.moves_before_texts())
    };
    let in_force = packet.terms_disclosures.last();
    let (mut lines, mut accepted) = (Vec::new(), None);
    for (place, acceptance) in packet.acceptances.iter().enumerate() {
        if acceptance.party == Actor::Organizer {
            lines.push(accepted_by_organizer(packet, place, acceptance));
            let is_it = |(text, _): &(&TermsDisclosure, usize)| {
                text.disclosure_hash == acceptance.disclosure_hash
            };
            accepted = texts().rev().find(is_it);
        }
    }
    if lines.is_empty() {
        lines.push(format!(
            "{platform} recorded no acceptance of the terms by the organizer, {}. {}",
            organizer(packet),
            fixed(packet)
        ));
    }
    // Other terms, not the same ones in another wording.
    if let (Some((_, moves)), Some(latest)) = (accepted, in_force)
        && moves < packet.former_terms.len()
    {
        lines.push(format!(
            "A later move of the event put another text in force ({}), which the evidence packet holds.",
            latest.disclosure_hash
        ));
    }
    if let Some(shown) = accepted.map(|(text, _)| text).or(in_force) {
        let what = match accepted {
            Some(_) => "The text that was accepted last",
            None => "The terms in words",
        };
        lines.push(String::new());
        lines.push(format!("{what} ({}):", shown.disclosure_hash));
        lines.push(shown.text.clone());
    }
    lines.join("\n")
}

/// When the terms were fixed, those in force included: each move of the event fixes new ones.
fn fixed(packet: &Packet) -> String {
    let booking = &packet.booking;
    let recorded = booking.created_at;
    match booking.rescheduled_at {
        None => format!(
            "The terms were fixed when the booking was recorded, {recorded}, and could not be changed unnoticed since."
        ),
        Some(moved) => format!(
            "Terms were first fixed when the booking was recorded, {recorded}, and those below when the event was last moved, \
             {moved}. Neither could be changed unnoticed since."
        ),
    }
}

fn accepted_by_organizer(packet: &Packet, place: usize, accepted: &Acceptance) -> String {
    let place = (LeafKind::TermsAccepted, place);
    let from = match &accepted.ip {
        Some(ip) => format!(" from the network address {ip}"),
        None => String::new(),
    };
    format!(
        "{} recorded that the organizer, {}, accepted the terms of cancellation and refund on {} by {}{from}. The service Bookguard received \
         and logged that record on {}; it names the text exactly, by its SHA-256: {}.",
        platform(packet),
        organizer(packet),
        accepted.at,
        worded(packet, place, Erasable::Method, &accepted.method),
        accepted.accepted_at,
        accepted.disclosure_hash
    )
}

/// What became of the money under the terms, and what was paid back.
fn outcome(packet: &Packet) -> String {
    let due = match &packet.resolution {
        None => {
            let platform = platform(packet);
            let owed = match packet.policy {
                Some(_) => {
                    ": the terms give a refund only on a cancellation, and none is recorded."
                        .to_owned()
                }
                None => format!(
                    ". The booking has no cancellation policy: whether a refund is due is for {platform} to show."
                ),
            };
            format!(
                "{platform} recorded no cancellation of this booking up to {}, when this evidence was made{owed}",
                packet.created_at
            )
        }
        Some(resolution) => settled(packet, resolution),
    };
    due + &items::cited(packet, &[ItemKind::Refund])
}

/// What was reported and what it came to, in the words of the summary.
fn settled(packet: &Packet, resolution: &Resolution) -> String {
    let reported = packet.last_moment(LeafKind::BookingCanceled).map(|moment| {
        format!(
            "{} The service Bookguard received and logged that on {}.",
            moment.text, moment.when
        )
    });
    let result = packet.last_moment(LeafKind::ResolutionCreated);
    let result = result.map(|moment| moment.text.clone());
    let is_open = resolution.status == ResolutionStatus::PendingReview;
    let open = is_open.then(|| "When this evidence was made, nobody had decided yet.".to_owned());
    let sentences: Vec<String> = [reported, result, open].into_iter().flatten().collect();
    sentences.join(" ")
}

/// The answer to the claim, what happened, and how to check it.
fn statement(packet: &Packet, reason: DisputeReason) -> String {
    let answer = reasons::answer(reason, packet);
    let mut lines = vec![
        format!("The claim: {}", reason.claim()),
        format!("The answer of {}: {answer}", platform(packet)),
        String::new(),
        packet.summary.headline.clone(),
    ];
    let story = packet.summary.story.iter();
    // What the answer says already is not said again.
    let untold = story.filter(|paragraph| !answer.contains(paragraph.as_str()));
    lines.extend(untold.cloned());
    lines.push(String::new());
    let moments = packet.summary.timeline.iter();
    lines.extend(moments.map(|moment| {
        let entry = moment.entry.map(|entry| format!(", entry {entry}"));
        let entry = entry.unwrap_or_default();
        format!("{}{entry}: {}", moment.when, moment.text)
    }));
    lines.push(String::new());
    lines.push(format!(
        "How to check this: every entry is in the ledger {}, whose key is {}. The evidence packet of booking {} holds the proofs; \
         \"bookguard evidence verify\" checks them without asking anybody.",
        packet.log.origin, packet.log.vkey, packet.booking.booking_id
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests;
