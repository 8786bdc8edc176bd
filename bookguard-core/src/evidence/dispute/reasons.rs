//! The reasons for a dispute as Stripe names them: what the cardholder claims, what answers it, and what the partner must add.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::erasure::Erasable;
use super::super::item::ItemKind;
use super::super::packet::Packet;
use super::{MissingEvidence, is_erased, items, organizer, outcome, platform, talent};
use crate::model::{Amount, vocabulary};

vocabulary! {
    /// What the cardholder claims, in Stripe's words.
    DisputeReason {
        /// A refund is owed.
        CreditNotProcessed = "credit_not_processed",
        /// The same thing was charged twice.
        Duplicate = "duplicate",
        /// The cardholder did not pay.
        Fraudulent = "fraudulent",
        /// None of the others.
        General = "general",
        /// What was booked was not provided.
        ProductNotReceived = "product_not_received",
        /// What was provided was not what was booked.
        ProductUnacceptable = "product_unacceptable",
        /// A subscription was charged after it was canceled.
        SubscriptionCanceled = "subscription_canceled",
        /// The cardholder does not recognize the payment.
        Unrecognized = "unrecognized",
    }
}

impl DisputeReason {
    /// The claim in a sentence.
    pub(super) fn claim(self) -> &'static str {
        match self {
            Self::CreditNotProcessed => {
                "the cardholder says that a refund is owed and was not paid."
            }
            Self::Duplicate => {
                "the cardholder says that the same booking was charged more than once."
            }
            Self::Fraudulent => "the cardholder says that somebody else made the payment.",
            Self::General => "the bank names no particular reason.",
            Self::ProductNotReceived => {
                "the cardholder says that what was booked was not provided."
            }
            Self::ProductUnacceptable => {
                "the cardholder says that what was provided was not what was booked."
            }
            Self::SubscriptionCanceled => {
                "the cardholder says that a subscription was charged after it was canceled."
            }
            Self::Unrecognized => "the cardholder does not recognize the payment.",
        }
    }

    /// Stripe's fields that take the PDF's file id.
    pub(super) fn files(self) -> &'static [&'static str] {
        match self {
            Self::CreditNotProcessed | Self::SubscriptionCanceled => {
                &["cancellation_policy", "refund_policy"]
            }
            Self::ProductNotReceived | Self::ProductUnacceptable => {
                &["service_documentation", "cancellation_policy"]
            }
            Self::Duplicate | Self::Fraudulent | Self::General | Self::Unrecognized => {
                &["uncategorized_file"]
            }
        }
    }
}

/// The answer to the claim, as far as the packet goes.
pub(super) fn answer(reason: DisputeReason, packet: &Packet) -> String {
    use DisputeReason as R;
    let (organizer, talent, platform) = (organizer(packet), talent(packet), platform(packet));
    let own = match reason {
        R::CreditNotProcessed if packet.policy.is_some() => {
            "what is owed follows from the terms that were fixed before.".to_owned()
        }
        R::Duplicate => format!(
            "this evidence is about one booking, {}. What another charge is for, if there is one, is for {platform} to show.",
            packet.booking.booking_id
        ),
        R::Fraudulent | R::Unrecognized => format!(
            "{platform} recorded the booking described here for {organizer} as the organizer, with {talent}. What the payment \
             was for is for {platform} to show."
        ),
        R::CreditNotProcessed | R::General => "the booking, its terms and what happened are set out below.".to_owned(),
        R::ProductNotReceived => format!(
            "what was booked is {talent} on the event's date. Whether the event took place is for {platform} to show; this record \
             shows what was agreed and whether it was canceled."
        ),
        R::ProductUnacceptable => "what was booked, and under which terms, is set out below, with the time of each record.".to_owned(),
        R::SubscriptionCanceled => "what was recorded is a single booking with one price, not a subscription.".to_owned(),
    };
    let shown: &[ItemKind] = match reason {
        R::Duplicate | R::Fraudulent | R::Unrecognized => {
            &[ItemKind::Payment, ItemKind::Contract, ItemKind::Message]
        }
        R::ProductNotReceived | R::ProductUnacceptable => {
            &[ItemKind::CheckIn, ItemKind::Photo, ItemKind::Message]
        }
        R::CreditNotProcessed | R::SubscriptionCanceled | R::General => &[ItemKind::Message],
    };
    format!("{own}{} {}", items::cited(packet, shown), outcome(packet))
}

/// What only the partner can add.
pub(super) fn missing(reason: DisputeReason, packet: &Packet) -> Vec<MissingEvidence> {
    use DisputeReason as R;
    let mut missing = vec![
        (
            "customer_name",
            match is_erased(packet, Erasable::Organizer) {
                true => "the cardholder's name; the organizer's was erased here",
                false => "check that the cardholder is the organizer named here; Bookguard knows no payments",
            }
            .to_owned(),
        ),
        (
            "customer_email_address",
            "the payer's email address; Bookguard keeps none".to_owned(),
        ),
    ];
    if !items::has_payment(packet) {
        missing.push((
            "receipt",
            "the receipt or invoice, with the payment's own reference".to_owned(),
        ));
    }
    let refund = (packet.resolution.as_ref()).and_then(|resolution| resolution.evaluation.refund);
    let unpaid = |refund: &Amount| refund.minor() > 0 && !items::has_refund(packet, *refund);
    if let Some(refund) = refund.filter(unpaid) {
        missing.push((
            "uncategorized_text",
            format!("whether the refund of {refund} was paid: its date, amount and reference"),
        ));
    }
    match reason {
        R::Fraudulent | R::Unrecognized => {
            missing.push((
                "customer_purchase_ip",
                "the network address that the payment was made from".to_owned(),
            ));
            missing.push((
                "customer_signature",
                "a signed contract, if there is one".to_owned(),
            ));
        }
        R::ProductNotReceived | R::ProductUnacceptable => {
            missing.push(("service_documentation", "proof that the event took place as booked: check-in, photos, a signed confirmation".to_owned()));
            missing.push((
                "customer_communication",
                "messages with the organizer about the event".to_owned(),
            ));
        }
        R::Duplicate => {
            missing.push((
                "duplicate_charge_id",
                "the other payment, and what it was for".to_owned(),
            ));
            missing.push((
                "duplicate_charge_explanation",
                "how the two payments differ".to_owned(),
            ));
        }
        R::CreditNotProcessed | R::SubscriptionCanceled | R::General => {
            missing.push((
                "customer_communication",
                "messages with the organizer about the cancellation or the refund".to_owned(),
            ));
        }
    }
    let given = |field: &str| match field {
        "customer_signature" => items::has(packet, &[ItemKind::Contract]),
        "customer_communication" => items::has(packet, &[ItemKind::Message]),
        "service_documentation" => items::has(packet, &[ItemKind::CheckIn, ItemKind::Photo]),
        _ => false,
    };
    let missing = missing.into_iter().filter(|(field, _)| !given(field));
    missing
        .map(|(field, what)| MissingEvidence {
            field: field.to_owned(),
            what,
        })
        .collect()
}
